// SPDX-License-Identifier: Apache-2.0
/*
 * Outgoing messages, each followed to its outcome
 *
 * Each kind of message is a struct with struct outgoing as its first member: replies (replies.c),
 * dead letters (dead_letter.c), losses (loss.c), Progress of a run (heartbeat.c). Progress of a
 * suspect (suspect.c) is a struct outgoing alone.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "agent/delivery.h"
#include "agent/timer.h"
#include "base/hash.h"
#include "model/effect.h"
#include "model/wire.h"

struct outgoing;
typedef void outgoing_fn(struct agent *a, struct outgoing *o);

/* What follows for a message when its outcome is known, by the file that has made it. */
struct outgoing_kind {
    outgoing_fn *confirmed;
    outgoing_fn *refused; /* the broker has returned or refused it */
    outgoing_fn *resend;  /* not confirmed by not_after, or its pause after a refusal is over */
    void (*free)(struct outgoing *o); /* frees what the kind has added; NULL: nothing */
};

struct outgoing {
    uint64_t id;
    UT_hash_handle hh; /* in agent.outgoing */
    const struct outgoing_kind *kind;
    struct timer again_timer; /* it is to be published again, after a refusal */
    unsigned refusals;
};

/**
 * outgoing_new() - a new message without an outcome
 * @size: of the kind's struct; its other members become 0
 *
 * Return: the kind's struct. It publishes nothing: the caller adds the effect, with its id.
 */
void *outgoing_new(struct agent *a, size_t size, const struct outgoing_kind *kind);
void outgoing_free(struct agent *a, struct outgoing *o);
void outgoing_free_all(struct agent *a);

/* The message with this id has its outcome. */
void outgoing_outcome(struct agent *a, uint64_t id, enum bus_outcome outcome);

/* The broker has refused the message: calls resend() after a pause, at @end at the latest. The
 * pause is longer each time. @exchange, @replies: for the log. */
void outgoing_pause(struct agent *a, struct outgoing *o, const char *exchange, size_t replies,
                    int64_t end);

/* Return: the exchange for replies of an actor. Each has its own: the scheduler refuses a reply
 * that came by that of another actor. */
const char *outgoing_exchange(struct agent *a, const char *actor);

/* Publishes a message of replies of an actor. @json: its format, that of the request. Return: the
 * message, valid until the next effect is added. */
struct bus_message *outgoing_replies(struct agent *a, const struct outgoing *o,
                                     const Drover__V1__Replies *body, const char *actor, bool json);

/* The same with one Progress, not mandatory. Sets its agent. @about: the delivery of the request.
 * @not_after: monotonic ms. */
struct bus_message *outgoing_progress(struct agent *a, const struct outgoing *o,
                                      const struct delivery *about, Drover__V1__Progress *progress,
                                      int64_t not_after);

/* Adds headers that name the run: for people who look at the broker, and for a scheduler that puts
 * a poison message away unread (scheduler/poison.c). Only for a message about one run. */
void outgoing_headers(struct agent *a, struct bus_message *m,
                      const Drover__V1__StepRequest *request);
