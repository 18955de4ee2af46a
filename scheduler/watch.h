// SPDX-License-Identifier: Apache-2.0
/*
 * Watched requests: evidence for agents that send no Progress
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "base/list.h"
#include "model/wire.h"

struct scheduler;
struct watched;

/* The next inspection of a queue comes after half of the rest of the wait, but not sooner or later
 * than this. */
#define WATCH_INSPECT_MIN_MS 50
#define WATCH_INSPECT_MAX_MS 1000
#define WATCH_MAX 256 /* requests; beyond, that whose wait ends last gets no evidence */

struct watches {
    struct list list; /* struct watched */
    unsigned n;
    int64_t inspection_began;        /* of the inspection in progress; 0: there is none */
    char inspected[ID_NAME_MAX + 1]; /* the actor whose queue it inspects; "": drover.dead */
};

/* A new one, owned by the caller until watch_begin() takes it. @wait_ends: when its wait is
 * over. */
struct watched *watch_new(const char *job, const char *token, const char *actor, int64_t wait_ends);
/* Accepts NULL. */
void watch_free(struct watched *w);
/* The broker has confirmed the request: watches it from now on, and owns it. */
void watch_begin(struct scheduler *s, struct watched *w);
/* The inspection in progress has found this number of ready messages and of consumers. */
void watch_answered(struct scheduler *s, uint32_t messages, uint32_t consumers);
/* The connection to the broker is lost, and with it all that is known of its queues. */
void watch_lost(struct scheduler *s);
/* Ends waits that are over and begins the next inspection; watch_next() is the time at which it
 * is needed next. */
void watch_tick(struct scheduler *s);
int64_t watch_next(const struct scheduler *s);
/* Records in the store, as evidence, that an agent had the request of this token. */
void watch_record_evidence(struct scheduler *s, const char *job, const char *token);
