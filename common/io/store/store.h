// SPDX-License-Identifier: Apache-2.0
/*
 * Store: the connection of a process to Redis or Valkey
 *
 * One asynchronous connection on the loop, to the primary: of several servers the one that is a
 * primary, or the one that Redis Sentinels name. Calls are pipelined: those of one iteration of the
 * loop leave in one write. The answer to a call is a flat array of strings, exactly what the store
 * function has returned; model/store_ops.h encodes arguments and decodes answers.
 *
 * A call whose connection is lost, or that gets no answer in time, is STORE_UNKNOWN: Redis may have
 * carried it out, or may still do so. For that reason every store function can be repeated, and the
 * broker delivers again what was not acknowledged; store_call() itself repeats nothing.
 *
 * If the store must wait for replicas each write of calls ends with a WAIT. The callbacks run
 * when that is answered; if too few replicas have the writes the answers are STORE_UNKNOWN.
 *
 * With Sentinels the server is left as soon as they name another one, because all that the old
 * primary takes from then on is lost. On each new connection the store check runs before the first
 * call: version, role, maxmemory-policy, the meta record of the namespace, the function library
 * (which is loaded if it is absent or older); see io/store/store_check.h. The process must ignore
 * SIGPIPE.
 *
 * Called by io/daemon/driver, and by the command line for the subcommands that read the store.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/str.h"
#include "model/effect.h"

#define STORE_PARTITIONS_MAX 1024
#define STORE_PREFIX_MAX 128  /* bytes */
#define STORE_FUNCTION_MAX 64 /* bytes */

struct store;

struct store_config {
    const char *host;          /* a list as in io/hosts.h: of servers, or of Sentinels */
    const char *socket_path;   /* Unix socket; if given, host and port are not used */
    int port;                  /* of the hosts that name none */
    const char *master_name;   /* of the primary, as Sentinels know it; NULL: host names servers */
    const char *sentinel_user; /* NULL for none */
    const char *sentinel_password; /* NULL for none */
    bool insecure;                 /* clear text may leave this machine */
    struct tls_context *tls;       /* NULL: in clear text; kept, not copied */
    const char *tls_name; /* for which servers must have a certificate; NULL: the host to which
                             the connection leads; kept */
    const char *user;     /* ACL user, NULL for none */
    const char *password; /* NULL for none */
    int database;
    const char *prefix;   /* namespace, default "drover:" */
    uint32_t partitions;  /* of a new store, default 16; an existing one keeps its number */
    bool strict;          /* the server must not confirm what a power cut can lose */
    unsigned replicas;    /* strict: replicas that must have the writes before the callback runs */
    int call_timeout_ms;  /* default 10000; then the connection is given up */
    int reconnect_min_ms; /* default 100 */
    int reconnect_max_ms; /* default 10000 */
    const char *library;  /* text of the function library, NULL for that of this build; kept, not
                             copied */
    bool read_only;       /* for a user of Redis that may not write: only functions that change
                             nothing can be called, the store check writes nothing, and the library
                             must be of this build */
};

typedef void (*store_cb)(void *ctx, const struct store_answer *answer);

struct store_callbacks {
    void (*on_up)(void *ctx);
    void (*on_down)(void *ctx, const char *why);    /* no longer up; it reconnects by itself */
    void (*on_refused)(void *ctx, const char *why); /* the server cannot be used; @why says what to
                                                       change. It tries again all the same */
    void (*on_batch_end)(void *ctx); /* all answers that have arrived were given to callbacks */
};

/* @config: copied, except the library. Return: 0 or -errno; a server that cannot be reached is no
 * error here. */
int store_new(struct store **out, uv_loop_t *loop, const struct store_config *config,
              const struct store_callbacks *callbacks, void *ctx);

/**
 * store_call() - call a store function
 * @partition: 0 to store_partitions() - 1
 * @function:  short name, such as "record", which is called as drover1_record; kept, not copied
 * @args:      copied
 * @cb:        runs later on the thread of the loop, exactly once, never from within store_call()
 *
 * While the store is not up the answer is STORE_UNKNOWN.
 * Return: 0 or -ENOMEM.
 */
int store_call(struct store *s, uint32_t partition, const char *function, const struct bytes *args,
               int n, store_cb cb, void *ctx);

typedef void (*store_memory_cb)(void *ctx, uint64_t used, uint64_t most);

/* Asks for the bytes that the server uses, and may use (maxmemory, 0 for no bound). @cb runs on the
 * thread of the loop; never if there is no answer, or if the last question has no answer yet. */
void store_memory(struct store *s, store_memory_cb cb, void *ctx);

/* Return: whether the store is connected and has passed the store check. */
bool store_up(const struct store *s);

/* Return: the number of partitions since the store was first up; 0 before. */
uint32_t store_partitions(const struct store *s);

/* Return: the run of the server: another one after each of its starts, and after each promotion. */
const char *store_run(const struct store *s);

struct store_stats {
    uint64_t moves;            /* primaries that were left because Sentinels named another one */
    unsigned sentinels;        /* in the configuration */
    unsigned sentinels_heard;  /* that name a primary now */
    unsigned sentinels_differ; /* that name another one than the one in use */
    uint64_t refused;          /* connections that the server has refused, or its certificate; a
                                  person must change something */
    int64_t tls_expiry; /* when the first certificate expires, ours, the server's or a Sentinel's,
                           in seconds since 1970; 0 for none */
};

void store_stats(const struct store *s, struct store_stats *out);

/* Answers all calls in progress with STORE_UNKNOWN and closes; on_closed(ctx) runs when all handles
 * are closed, and may call store_free(). */
void store_close(struct store *s, void (*on_closed)(void *ctx));
/* @s: closed, or NULL. Return: NULL. */
struct store *store_free(struct store *s);
