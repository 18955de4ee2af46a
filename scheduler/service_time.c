// SPDX-License-Identifier: Apache-2.0
/*
 * Service times: how long each action takes, and how many requests its agents take at once
 *
 * Called by record.c for each recorded reply, and by dispatch.c.
 */
#include "scheduler/service_time.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/state.h"

#define SERVICE_TIME_KEY (2 * ID_NAME_MAX + 2) /* "actor/action" and a NUL */

/* The service time of an action: how long it took of late. */
struct service_time {
    UT_hash_handle hh;
    int64_t took_us; /* the slowest; fades with each success */
    unsigned batch;  /* the fewest requests that an agent of the actor takes at once ... */
    unsigned since;  /* ... and the replies since an agent took that few */
    char key[SERVICE_TIME_KEY];
};

/* Both are names, checked with their definition. */
static unsigned service_time_key(char key[SERVICE_TIME_KEY], const char *actor, const char *action)
{
    return (unsigned)(stpcpy(stpcpy(stpcpy(key, actor), "/"), action) - key);
}

static struct service_time *service_time_find(const struct scheduler *s, const char *actor,
                                              const char *action)
{
    char key[SERVICE_TIME_KEY];
    unsigned len = service_time_key(key, actor, action);
    struct service_time *t;

    HASH_FIND(hh, s->service_times.known, key, len, t);
    return t;
}

static struct service_time *service_time_new(struct scheduler *s, const char *actor,
                                             const char *action)
{
    struct service_time *t = or_abort(calloc(1, sizeof(*t)));
    unsigned len = service_time_key(t->key, actor, action);

    if (HASH_COUNT(s->service_times.known) >= SERVICE_TIMES_MAX) {
        struct service_time *oldest = s->service_times.known;

        HASH_DEL(s->service_times.known, oldest);
        free(oldest);
    }
    t->batch = UINT_MAX; /* no agent has said anything yet */
    HASH_ADD(hh, s->service_times.known, key, len, t);
    return t;
}

/* Notes the fewest requests that an agent takes at once; a larger number counts after
 * SERVICE_TIME_KEEPS replies without a smaller one. */
static void batch_limit_update(struct service_time *t, unsigned batch)
{
    if (batch <= t->batch)
        t->since = 0;
    if (batch < t->batch || t->since++ >= SERVICE_TIME_KEEPS)
        t->batch = batch;
}

static void service_time_update(struct scheduler *s, const struct workflow_dispatch *d,
                                const Drover__V1__StepReply *m)
{
    struct service_time *t = service_time_find(s, d->actor, d->action);
    bool slow = m->duration_ms < 0 || m->duration_ms > SERVICE_TIME_SLOW_MS;
    int64_t took_us = 1000 * (slow ? SERVICE_TIME_SLOW_MS : m->duration_ms);

    if (!t && (m->batch < 2 || m->error))
        return; /* an unknown action is sent alone as well */
    if (!t)
        t = service_time_new(s, d->actor, d->action);
    batch_limit_update(t, m->batch);
    if (!m->error) /* an action that fails fast need not be fast */
        t->took_us -= t->took_us / SERVICE_TIME_FADES;
    if (t->took_us < took_us)
        t->took_us = took_us;
}

void service_time_note(struct scheduler *s, const struct workflow *w,
                       const Drover__V1__StepReply *m)
{
    int64_t number = ops_token_step(bytes_str(m->token));

    if (number < 0 || number >= w->n_steps)
        return; /* unreachable: the store has recorded it */
    if (m->error && m->error->verdict == DROVER__V1__VERDICT__VERDICT_DEFER)
        return; /* it was not done */
    /* A failed undo counts as well: its actions are sent in smaller batches for a while. */
    if (m->error || m->achieved == DROVER__V1__STATE__STATE_ACTIVE)
        service_time_update(s, &w->steps[number].forward, m);
}

unsigned service_time_room(const struct scheduler *s, const char *actor, const char *action)
{
    const struct service_time *t = service_time_find(s, actor, action);
    int64_t most, room;

    if (!t)
        return 1;
    most = t->batch < WIRE_BATCH_MAX ? t->batch : WIRE_BATCH_MAX;
    room = t->took_us ? most * SERVICE_TIME_BATCH_US / t->took_us : most;
    return (unsigned)(room < most ? room : most);
}

void service_time_free_all(struct scheduler *s)
{
    struct service_time *t, *next;

    HASH_ITER(hh, s->service_times.known, t, next) {
        HASH_DEL(s->service_times.known, t);
        free(t);
    }
}
