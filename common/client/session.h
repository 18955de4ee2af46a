// SPDX-License-Identifier: Apache-2.0
/*
 * Session: questions to schedulers, one at a time, over one bus; or to the store
 *
 * What a client of Drover needs is in common/client, and a session is what all of it works with. A
 * client is one process with one thread: it runs from top to bottom and waits in session_ask().
 * Nothing in common/client prints: a function returns what went wrong, and session_why() the cause.
 *
 * Answers come by direct reply-to and are matched by correlation id, a new one for each question. A
 * question that gets no answer is sent again, also after its connection was lost: every message of
 * proto/ may be repeated. The functions wait by running the loop of the session; SIGINT and SIGTERM
 * end any wait.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "io/config/config.h"
#include "model/wire.h"

struct session;

enum {
    SESSION_E_UNREACHABLE = 1, /* no broker, it refuses, or no queue is bound to the exchange */
    SESSION_E_TIMEOUT,         /* the deadline passed without an answer */
    SESSION_E_INTERRUPTED,
    SESSION_E_TOO_LARGE, /* the question is over WIRE_MESSAGE_MAX */
};

#define SESSION_FOREVER INT64_MAX
#define SESSION_RETRY_LATER_MS 1000 /* pause after an answer or a receipt RETRY_LATER */

struct session_question {
    const char *exchange;
    const char *key;
    const ProtobufCMessage *body;
    enum wire_type answer; /* type of the answer */
};

/**
 * session_new() - begin to connect to the broker of @config
 * @config: the session then owns it, also if it fails
 * @name:   of the client, as RabbitMQ shows its connection; valid as long as the session
 *
 * Return: 0 or -errno.
 */
int session_new(struct session **out, struct config *config, const char *name);

/* As session_new(), but questions are answered from the store of @config. Only Query, History and
 * ListJobs may be asked. */
int session_new_from_store(struct session **out, struct config *config);

/* Closes the connection, waiting two seconds at most. Accepts NULL. Return: NULL. */
struct session *session_free(struct session *s);
CLEANUP_DEFINE(struct session *, session_free)

/**
 * session_ask() - ask and wait for the answer
 * @question: valid during the call
 * @deadline: monotonic ms, or SESSION_FOREVER
 * @answer:   on 0 the caller gives it to wire_free()
 *
 * Return: 0, -errno, or SESSION_E_...; session_why() has the cause.
 */
int session_ask(struct session *s, const struct session_question *question, int64_t deadline,
                struct wire_message *answer);

/**
 * session_wait() - wait for a JobEvent or a deadline
 * @deadline: monotonic ms
 *
 * Return: 0 when a JobEvent has arrived since the last wait, or at the deadline; or
 * SESSION_E_INTERRUPTED.
 */
int session_wait(struct session *s, int64_t deadline);

#define SESSION_QUEUE_MAX 255 /* bytes of the name of a queue */

/* The result of an inspection; all zero if there is no such queue. */
struct session_queue {
    uint32_t messages; /* ready messages */
    uint32_t consumers;
};

/* Inspects a queue. Return: as session_ask(). */
int session_inspect(struct session *s, const char *queue, int64_t deadline,
                    struct session_queue *out);

/* Return: the last error, one line for a person. */
const char *session_why(const struct session *s);
