// SPDX-License-Identifier: Apache-2.0
/*
 * Allowance: how much of a scheduler's time a user takes
 *
 * Each user has a bucket, which fills by so many units a second, up to those of two seconds, and
 * may be overdrawn by the last thing that was taken from it. A message costs one unit, and one more
 * for each 4 KiB of it; each store call of a question one, and one more for each hundred items that
 * it answers: about what these take of a scheduler, or of the store.
 */
#include <stdlib.h>

#include "scheduler/machine.h"

#define ALLOWANCES_MAX 1024 /* users; then the one that has been here longest gets a new bucket */
#define SECONDS 2

static struct allowance *find(struct scheduler *s, const char *user)
{
    struct allowance *a;

    HASH_FIND_STR(s->allowances, user, a);
    return a;
}

static void drop(struct scheduler *s, struct allowance *a)
{
    HASH_DEL(s->allowances, a);
    free(a);
}

static struct allowance *add(struct scheduler *s, const char *user, int64_t rate)
{
    size_t size = strlen(user) + 1;
    struct allowance *a = or_abort(malloc(sizeof(*a) + size));

    if (HASH_COUNT(s->allowances) >= ALLOWANCES_MAX)
        drop(s, s->allowances);
    *a = (struct allowance){.at = s->now, .left = SECONDS * rate * 1000};
    memcpy(a->user, user, size);
    HASH_ADD_STR(s->allowances, user, a);
    return a;
}

/* The user's bucket as it is now; NULL: it may take what it likes. */
static struct allowance *bucket(struct scheduler *s, const char *user)
{
    int64_t rate = access_limits(s->access, user).rate;
    struct allowance *a = rate > 0 ? find(s, user) : NULL;

    if (rate == 0)
        return NULL;
    if (!a)
        return add(s, user, rate);
    a->left += (s->now - a->at) * rate;
    a->at = s->now;
    if (a->left > SECONDS * rate * 1000)
        a->left = SECONDS * rate * 1000;
    return a;
}

bool allowance_admits(struct scheduler *s, const char *user)
{
    const struct allowance *a = bucket(s, user);

    return !a || a->left > 0;
}

void allowance_spend(struct scheduler *s, const char *user, size_t units)
{
    struct allowance *a = bucket(s, user);

    if (a)
        a->left -= (int64_t)units * 1000;
}

void allowances_free(struct scheduler *s)
{
    while (s->allowances)
        drop(s, s->allowances);
}
