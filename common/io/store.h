// SPDX-License-Identifier: Apache-2.0
/*
 * Store: Redis for one process
 *
 * One asynchronous connection on the loop. Calls are pipelined: those made in one turn of the loop
 * leave in one write. A call answers with a flat array of strings, exactly what the function in
 * common/store/drover.lua returned; model/store_ops.h makes arguments and reads answers.
 *
 * A call whose connection is lost, or that got no answer in time, is UNKNOWN: it may have happened,
 * or may yet happen. Every store function is repeatable for that reason, and the bus redelivers
 * what was not acknowledged; store_call() itself repeats nothing.
 *
 * Where replicas are to be waited for, each write of calls ends with a WAIT. Answers are held until
 * that is answered; where too few replicas have come so far they are UNKNOWN.
 *
 * On every connect the server is examined before the first call: version, role, maxmemory-policy,
 * the namespace's meta record, the function library (loaded where absent or older); see
 * io/store_exam.h. The process must ignore SIGPIPE.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/str.h"
#include "model/effect.h"

#define STORE_PARTITIONS_MAX 1024

struct store;

struct store_config {
    const char *host;        /* or */
    const char *socket_path; /* unix socket; wins */
    int port;
    const char *user;     /* ACL user, NULL for none */
    const char *password; /* NULL for none */
    int database;
    const char *prefix;   /* namespace, default "drover:" */
    uint32_t partitions;  /* wanted at first start, default 16; then the store's own count rules */
    bool strict;          /* the server must confirm nothing that a power cut can lose */
    unsigned replicas;    /* strict: so many replicas have all before an answer is handed over */
    int call_timeout_ms;  /* default 10000; then the connection is given up */
    int reconnect_min_ms; /* default 100 */
    int reconnect_max_ms; /* default 10000 */
    const char *library;  /* text of the function library, NULL for the one built in; kept */
    bool read_only;       /* for a user who may not write: only functions that change nothing can
                             be called, nothing is made, and the library must be of this build */
};

typedef void (*store_cb)(void *ctx, const struct store_answer *answer);

struct store_callbacks {
    void (*on_up)(void *ctx);
    void (*on_down)(void *ctx, const char *why);    /* was up, is not; it reconnects by itself */
    void (*on_refused)(void *ctx, const char *why); /* the server will not do: what to change; it
                                                       keeps trying all the same */
    void (*on_batch_end)(void *ctx); /* every answer that was there was handed over */
};

/* Return: 0 or -errno; being unreachable is not an error here. */
int store_new(struct store **out, uv_loop_t *loop, const struct store_config *config,
              const struct store_callbacks *callbacks, void *ctx);

/**
 * store_call() - call a store function
 * @partition: 0 to store_partitions() - 1
 * @function:  short name, such as "record"; called as drover<version>_record; kept, not copied
 * @args:      copied
 * @cb:        runs later on the loop thread, exactly once, never from within store_call()
 *
 * While not connected, answers STORE_UNKNOWN.
 * Return: 0 or -ENOMEM.
 */
int store_call(struct store *s, uint32_t partition, const char *function, const struct bytes *args,
               int n, store_cb cb, void *ctx);

typedef void (*store_memory_cb)(void *ctx, uint64_t used, uint64_t most);

/* Asks how much memory the server uses, and may use (maxmemory, 0: no bound). @cb runs on the loop
 * thread, or never where there is no answer, or the last question has none yet. */
void store_memory(struct store *s, store_memory_cb cb, void *ctx);

bool store_up(const struct store *s);

/* Known once it was up, also while it is down again; 0 before. */
uint32_t store_partitions(const struct store *s);

/* What the server calls its present run: another one after each start, and after a failover. */
const char *store_run(const struct store *s);

/* Answers outstanding calls with STORE_UNKNOWN, closes; on_closed runs when all is gone. */
void store_close(struct store *s, void (*on_closed)(void *ctx));
struct store *store_free(struct store *s);
