// SPDX-License-Identifier: Apache-2.0
/*
 * Store watch: asks all Sentinels which server is the primary, as long as the store exists
 *
 * It asks each one twice a second over a connection of its own. The answers of all of them together
 * tell the primary (io/store/sentinel.h). A subscription to +switch-master would tell it no sooner
 * than half a second, and would be a second way to learn the same.
 *
 * Called by io/store/store.
 */
#pragma once

#include <uv.h>

#include "io/hosts.h"
#include "io/store/sentinel.h"
#include "io/store/store.h"

struct store_watch;

struct store_watch_callbacks {
    void (*on_primary)(void *ctx); /* another one than before; see store_watch_primary() */
    /* No primary is known, and no Sentinel names one. @refused: a person must remove the cause.
     * Runs again for each round of questions. */
    void (*on_trouble)(void *ctx, const char *why, bool refused);
    void (*on_gone)(void *ctx); /* after store_watch_close(): libuv has closed all */
};

/**
 * store_watch_open() - begin to ask
 * @config:    of the store; kept, not copied
 * @sentinels: kept, not copied; at least one
 * @callbacks: kept, not copied; none runs from within a function of the watch
 *
 * Return: 0 or -ENOMEM.
 */
int store_watch_open(struct store_watch **out, uv_loop_t *loop, const struct store_config *config,
                     const struct hosts *sentinels, const struct store_watch_callbacks *callbacks,
                     void *ctx);

/* The primary that counts; its host is "" if none is known. Valid as long as the watch, and changes
 * before on_primary. */
const struct sentinel_primary *store_watch_primary(const struct store_watch *watch);

/* Return: how many Sentinels name a primary now. */
unsigned store_watch_heard(const struct store_watch *watch);

/* Return: how many of them name another primary than the one that counts. */
unsigned store_watch_differing(const struct store_watch *watch);

/* Return: when the first certificate of a Sentinel expires, in seconds since 1970; 0 for none. */
int64_t store_watch_expiry(const struct store_watch *watch);

/* Ends all connections; only on_gone still runs. Frees the watch later. */
void store_watch_close(struct store_watch *watch);
