// SPDX-License-Identifier: Apache-2.0
/*
 * Allowance: how much of a scheduler's time, and of the store's, somebody takes
 *
 * Each has a bucket, which fills by so many units a second up to some seconds' worth, and may be
 * overdrawn by the last thing that was taken from it.
 *
 * A user's is for Submits and Controls: a message costs one unit, and one more for each 4 KiB of
 * it; each store call of a question one, and one more for each hundred items that it answers. It
 * has another one for definitions, which the store keeps for an hour (UNUSED_DEFINITION in
 * drover.lua) whether or not a job uses them: one unit for each KiB that is stored.
 *
 * That of an actor's agents is for replies, one unit each, given back where a step has waited for
 * it: so honest agents spend nothing, but for what comes too late, and that in bursts, after an
 * outage. Another one, of the same size, is for Progress, of which any number can be sent for one
 * step; what is beyond costs the first one, a tenth of a unit each.
 */
#include <stdlib.h>

#include "scheduler/machine.h"

#define ALLOWANCES_MAX 1024 /* then the one that is here longest gets a new bucket */
#define USER_SECONDS 2
#define ACTOR_SECONDS 40
#define EXTRA_PROGRESS 10 /* for a unit */
#define DEFINITION_SECONDS 3600
#define DEFINITION_BYTES 1024 /* for a unit */

struct terms {
    const char *key;
    int64_t rate; /* units a second; 0: there is no bucket */
    int64_t seconds;
};

static struct terms of_user(const struct scheduler *s, const char *user)
{
    return (struct terms){user, access_limits(s->access, user).rate, USER_SECONDS};
}

/* In an hour as many bytes as its jobs may bring. */
static struct terms of_definitions(struct scheduler *s, const char *user)
{
    const int64_t second = (int64_t)DEFINITION_SECONDS * DEFINITION_BYTES;
    int64_t bytes = access_limits(s->access, user).bytes;

    return (struct terms){effects_printf(s->out, "\t%s", user), (bytes + second - 1) / second,
                          DEFINITION_SECONDS};
}

/* Of the agents that publish to drover.replies nobody knows which they are: they have one bucket,
 * and where nobody has to say who he is, which any of them could empty, none. */
static struct terms of_actor(struct scheduler *s, const char *actor)
{
    return (struct terms){effects_printf(s->out, "\n%s", actor),
                          *actor || s->access->required ? s->bad_replies : 0, ACTOR_SECONDS};
}

static struct terms of_progress(struct scheduler *s, const char *actor)
{
    struct terms t = of_actor(s, actor);

    t.key = effects_printf(s->out, "\b%s", actor);
    return t;
}

static void drop(struct scheduler *s, struct allowance *a)
{
    HASH_DEL(s->allowances, a);
    free(a);
}

static struct allowance *add(struct scheduler *s, const struct terms *t)
{
    size_t size = strlen(t->key) + 1;
    struct allowance *a = or_abort(malloc(sizeof(*a) + size));

    if (HASH_COUNT(s->allowances) >= ALLOWANCES_MAX)
        drop(s, s->allowances);
    *a = (struct allowance){.at = s->now, .left = t->seconds * t->rate * 1000};
    memcpy(a->key, t->key, size);
    HASH_ADD_STR(s->allowances, key, a);
    return a;
}

/* As it is now; NULL: there is no bound. */
static struct allowance *bucket(struct scheduler *s, const struct terms *t)
{
    int64_t most = t->seconds * t->rate * 1000;
    struct allowance *a;

    if (t->rate == 0)
        return NULL;
    HASH_FIND_STR(s->allowances, t->key, a);
    if (!a)
        return add(s, t);
    a->left += (s->now - a->at) * t->rate;
    a->at = s->now;
    if (a->left > most)
        a->left = most;
    return a;
}

static bool admits(struct scheduler *s, const struct terms *t)
{
    const struct allowance *a = bucket(s, t);

    return !a || a->left > 0;
}

static void spend(struct scheduler *s, const struct terms *t, int64_t units)
{
    struct allowance *a = bucket(s, t);

    if (a)
        a->left -= units * 1000;
}

bool allowance_admits(struct scheduler *s, const char *user)
{
    struct terms t = of_user(s, user);

    return admits(s, &t);
}

bool allowance_admits_again(struct scheduler *s, const char *user)
{
    struct terms t = of_user(s, user);
    const struct allowance *a = bucket(s, &t);

    return !a || a->left > -t.seconds * t.rate * 1000;
}

void allowance_spend(struct scheduler *s, const char *user, size_t units)
{
    struct terms t = of_user(s, user);

    spend(s, &t, (int64_t)units);
}

void allowance_give_back(struct scheduler *s, const char *user, size_t units)
{
    struct terms t = of_user(s, user);

    spend(s, &t, -(int64_t)units);
}

bool allowance_takes_definition(struct scheduler *s, const char *user, size_t bytes)
{
    struct terms t = of_definitions(s, user);
    bool takes = admits(s, &t);

    if (takes)
        spend(s, &t, (int64_t)((bytes + DEFINITION_BYTES - 1) / DEFINITION_BYTES));
    return takes;
}

bool allowance_takes_replies(struct scheduler *s, const char *actor, size_t replies)
{
    struct terms t = of_actor(s, actor);
    bool takes = admits(s, &t);

    if (takes)
        spend(s, &t, (int64_t)replies);
    return takes;
}

void allowance_wanted(struct scheduler *s, const char *actor)
{
    struct terms t = of_actor(s, actor);

    spend(s, &t, -1);
}

bool allowance_takes_progress(struct scheduler *s, const char *actor)
{
    struct terms t = of_progress(s, actor);
    bool takes = admits(s, &t);

    if (takes)
        spend(s, &t, 1);
    return takes;
}

void allowance_extra_progress(struct scheduler *s, const char *actor, size_t n)
{
    struct terms t = of_actor(s, actor);

    spend(s, &t, (int64_t)(n + EXTRA_PROGRESS - 1) / EXTRA_PROGRESS);
}

bool allowance_is_news(struct scheduler *s, const char *actor)
{
    struct terms t = of_actor(s, actor);
    struct allowance *a = bucket(s, &t);
    bool news = a && (a->told == 0 || s->now >= a->told + MACHINE_TOLD_AGAIN_MS);

    if (news)
        a->told = s->now;
    return news;
}

int64_t allowance_share(const struct scheduler *s, int64_t most)
{
    return (most + s->partitions - 1) / s->partitions;
}

void allowances_free(struct scheduler *s)
{
    while (s->allowances)
        drop(s, s->allowances);
}
