// SPDX-License-Identifier: Apache-2.0
/*
 * Replay: keeps all calls of a store, and makes those up to a moment again
 *
 * See replay.h. Called by calls.c, world.c, pair.c and test_rollback.c.
 */
#include "store/replay.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

struct call {
    int64_t at;
    int64_t now;
    bool out_of_memory;
    uint32_t partition;
    char *function;
    struct bytes *args;
    int n;
};

struct replay {
    struct call *calls;
    uint32_t n;
    uint32_t size;
};

static void *or_die(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

struct replay *replay_new(void)
{
    return or_die(calloc(1, sizeof(struct replay)));
}

static void forget(struct replay *r, uint32_t from)
{
    while (r->n > from) {
        struct call *call = &r->calls[--r->n];

        for (int i = 0; i < call->n; i++)
            free((void *)call->args[i].data);
        free(call->args);
        free(call->function);
    }
}

struct replay *replay_free(struct replay *r)
{
    if (!r)
        return NULL;
    forget(r, 0);
    free(r->calls);
    free(r);
    return NULL;
}

void replay_keep(struct replay *r, int64_t at, int64_t now, bool out_of_memory, uint32_t partition,
                 const char *function, const struct bytes *args, int n)
{
    struct call *call;

    if (r->n == r->size) {
        r->size = r->size ? 2 * r->size : 256;
        r->calls = or_die(realloc(r->calls, r->size * sizeof(*r->calls)));
    }
    call = &r->calls[r->n++];
    *call = (struct call){.at = at,
                          .now = now,
                          .out_of_memory = out_of_memory,
                          .partition = partition,
                          .function = or_die(strdup(function)),
                          .args = or_die(calloc((size_t)n + 1, sizeof(struct bytes))),
                          .n = n};
    for (int i = 0; i < n; i++)
        call->args[i] = bytes_of(or_die(bytes_dup(args[i])), args[i].len);
}

uint32_t replay_calls(const struct replay *r)
{
    return r->n;
}

uint32_t replay_before(const struct replay *r, int64_t at)
{
    uint32_t n = r->n;

    while (n > 0 && r->calls[n - 1].at >= at)
        n--;
    return n;
}

void replay_back(struct replay *r, struct simstore *store, uint32_t variant, uint32_t calls,
                 replay_fn *fn, void *ctx)
{
    struct store_answer answer;

    forget(r, calls);
    simstore_reset(store, variant);
    for (uint32_t i = 0; i < r->n; i++) {
        const struct call *call = &r->calls[i];

        simstore_call(store, call->now, call->out_of_memory, call->partition, call->function,
                      call->args, call->n, &answer);
        if (fn)
            fn(ctx, call->now, call->partition, call->function, call->args, call->n, &answer);
    }
}
