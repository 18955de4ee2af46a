// SPDX-License-Identifier: Apache-2.0
/*
 * Store link: one connection to a Redis server, with pipelined calls
 *
 * It connects, runs the store check (io/store/store_check.h), and then carries calls, which the
 * server answers in order. A link never connects again: after on_lost its owner closes it and opens
 * another one. No callback runs from within a call of a function here.
 *
 * Called by io/store/store.
 */
#pragma once

#include "base/list.h"
#include "io/store/store.h"
#include "io/store/store_check.h"

struct store_link;

/* Where a link leads. */
struct store_link_target {
    const char *host; /* copied; NULL: the Unix socket of the configuration */
    int port;
    unsigned first;       /* as of struct stream_target */
    uint64_t patience_ms; /* until the link is up */
};

struct store_link_callbacks {
    void (*on_up)(void *ctx); /* the check has passed: calls can be made */
    /* The last callback but on_gone; store_link_close() is due. @refused: a person must remove the
     * cause. */
    void (*on_lost)(void *ctx, const char *why, bool refused);
    void (*on_batch_end)(void *ctx); /* as of struct store_callbacks */
    void (*on_gone)(void *ctx);      /* after store_link_close(): libuv has closed all */
};

/**
 * store_link_open() - begin to connect
 * @config:    of the store; kept, not copied
 * @check:     what the server must have; kept, not copied
 * @callbacks: kept, not copied
 *
 * Return: 0; or -errno, and then no callback runs and there is no link.
 */
int store_link_open(struct store_link **out, uv_loop_t *loop, const struct store_config *config,
                    const struct store_check_config *check, const struct store_link_target *target,
                    const struct store_link_callbacks *callbacks, void *ctx);

/* The result of the store check; its partitions and run are valid once the link is up. */
const struct store_check *store_link_check(const struct store_link *link);

/* A call of a store function. The link answers it; the store does if there is no link. */
struct store_call {
    struct list node; /* in a list of the link or of the store */
    store_cb cb;      /* NULL: of the link itself */
    void *ctx;
    uint64_t deadline;           /* as uv_now() */
    const char *function;        /* a literal, for the failpoint; NULL if it is no store function */
    struct store_answer *answer; /* while replicas are awaited; owned */
};

/* Takes a call out of its list, answers and frees it. */
void store_call_finish(struct store_call *call, const struct store_answer *answer);

/**
 * store_link_call() - send a call with the next write
 * @link: up
 * @call: in no list; the link takes it over if 0 is returned
 *
 * Return: 0 or -ENOMEM.
 */
int store_link_call(struct store_link *link, struct store_call *call, uint32_t partition,
                    const struct bytes *args, int n);

/* See store_memory(). @link: up. */
void store_link_memory(struct store_link *link, store_memory_cb cb, void *ctx);

/* Whether the server has answered a call: the link is of use. */
bool store_link_answered(const struct store_link *link);

/* When the first certificate of the server expires; 0: not known. */
int64_t store_link_peer_expiry(const struct store_link *link);

/* Ends the connection; only on_gone still runs. Appends the calls that have no answer to @lost.
 * Frees the link later. NULL is no link. */
void store_link_close(struct store_link *link, struct list *lost);
