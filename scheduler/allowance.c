// SPDX-License-Identifier: Apache-2.0
/*
 * Allowances: how much a user, or the agents of an actor, may take of a scheduler and of the store
 *
 * Each allowance is a bucket, which fills by a rate of units per second up to some seconds' worth.
 * The last thing that is taken from it may overdraw it.
 *
 * A user has one bucket for Submits and Controls. A message costs one unit, and one more for each
 * 4 KiB of it. Each store call for a Control costs one, one more for each hundred items of its
 * answer, and one for each 4 KiB of it. The user has another bucket for definitions, which the
 * store keeps for an hour (UNUSED_DEFINITION in forget.lua) whether or not a job uses them: one
 * unit for each KiB of its size in memory (workflow.memory).
 *
 * The agents of an actor have one bucket for replies. A reply costs one unit, which is given back
 * if a step has waited for it. So honest agents spend units only for replies that come too late, in
 * bursts after an outage. A message that is invalid as a whole costs ten units, and one more for
 * each 4 KiB. The agents have another bucket of the same size for Progress, of which any number can
 * be sent for one step. If that one is empty, each ten Progress of a message, or fewer, cost the
 * first one a unit.
 *
 * Called by the files that read messages, record.c, op.c, and those that answer a Control.
 */
#include "scheduler/allowance.h"

#include <stdlib.h>
#include <string.h>

#include "scheduler/access.h"
#include "scheduler/state.h"

#define ALLOWANCES_MAX 1024 /* then the oldest one is dropped, and begins with a full bucket */
#define USER_SECONDS 2
#define ACTOR_SECONDS 40
#define EXTRA_PROGRESS 10 /* Progress, for one unit */
#define DEFINITION_SECONDS 3600
#define DEFINITION_BYTES 1024 /* for one unit */

/* What a user, or the agents of an actor, may still take. */
struct allowance {
    UT_hash_handle hh;
    int64_t at;         /* time at which `left` was computed */
    int64_t left;       /* thousandths of units; below 0: overdrawn */
    int64_t alerted_at; /* time of the last alert that it was empty; 0: never */
    char key[];
};

struct terms {
    const char *key;
    int64_t rate; /* units per second; 0: there is no bucket */
    int64_t seconds;
};

static struct terms of_user(const struct scheduler *s, const char *user)
{
    return (struct terms){user, access_limits(s->access, user).rate, USER_SECONDS};
}

/* In an hour as many bytes as the jobs of the user may take. */
static struct terms of_definitions(struct scheduler *s, const char *user)
{
    const int64_t second = (int64_t)DEFINITION_SECONDS * DEFINITION_BYTES;
    int64_t bytes = access_limits(s->access, user).bytes;

    return (struct terms){effects_printf(s->out, "\t%s", user), (bytes + second - 1) / second,
                          DEFINITION_SECONDS};
}

/* Agents that publish to drover.replies cannot be told apart, so they have one bucket. If
 * identity is not required any client could empty it; then there is none. */
static struct terms of_actor(struct scheduler *s, const char *actor)
{
    return (struct terms){effects_printf(s->out, "\n%s", actor),
                          *actor || s->access->required ? s->allowances.bad_replies : 0,
                          ACTOR_SECONDS};
}

static struct terms of_progress(struct scheduler *s, const char *actor)
{
    struct terms t = of_actor(s, actor);

    t.key = effects_printf(s->out, "\b%s", actor);
    return t;
}

static void drop(struct scheduler *s, struct allowance *a)
{
    HASH_DEL(s->allowances.buckets, a);
    free(a);
}

static struct allowance *add(struct scheduler *s, const struct terms *t)
{
    size_t size = strlen(t->key) + 1;
    struct allowance *a = or_abort(malloc(sizeof(*a) + size));

    if (HASH_COUNT(s->allowances.buckets) >= ALLOWANCES_MAX)
        drop(s, s->allowances.buckets);
    *a = (struct allowance){.at = s->now, .left = t->seconds * t->rate * 1000};
    memcpy(a->key, t->key, size);
    HASH_ADD_STR(s->allowances.buckets, key, a);
    return a;
}

/* The bucket as it is now; NULL: there is none, so no limit. */
static struct allowance *bucket(struct scheduler *s, const struct terms *t)
{
    int64_t most = t->seconds * t->rate * 1000;
    struct allowance *a;

    if (t->rate == 0)
        return NULL;
    HASH_FIND_STR(s->allowances.buckets, t->key, a);
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

void allowance_return_reply(struct scheduler *s, const char *actor)
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

bool allowance_alert_due(struct scheduler *s, const char *actor)
{
    struct terms t = of_actor(s, actor);
    struct allowance *a = bucket(s, &t);
    bool news = a && (a->alerted_at == 0 || s->now >= a->alerted_at + ALLOWANCE_ALERT_AGAIN_MS);

    if (news)
        a->alerted_at = s->now;
    return news;
}

int64_t allowance_share(const struct scheduler *s, int64_t most)
{
    return (most + s->partitions - 1) / s->partitions;
}

void allowance_free_all(struct scheduler *s)
{
    while (s->allowances.buckets)
        drop(s, s->allowances.buckets);
}
