// SPDX-License-Identifier: Apache-2.0
/*
 * Session: questions to schedulers, one at a time, over one bus; or to the store
 *
 * Answers come by direct reply-to and are matched by correlation id, a new one for each question. A
 * question that gets no answer is sent again, also after its connection was lost: every message of
 * proto/ may be repeated. The functions wait by running the loop of the session; SIGINT and SIGTERM
 * end any wait. Called by all commands that ask.
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

struct session_question {
    const char *exchange;
    const char *key;
    const ProtobufCMessage *body;
    enum wire_type answer; /* type of the answer */
};

/* Begins to connect to the broker of @config, which the session then owns, also if it fails.
 * Return: 0 or -errno. */
int session_new(struct session **out, struct config *config);

/* The same, but questions are answered from the store of @config. Only Query, History and ListJobs
 * may be asked. */
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

/* The result of an inspection; all zero if there is no such queue. */
struct session_queue {
    uint32_t messages; /* ready messages */
    uint32_t consumers;
};

/* Inspects a queue. @queue: at most SESSION_QUEUE_MAX bytes. Return: as session_ask(). */
#define SESSION_QUEUE_MAX 255
int session_look(struct session *s, const char *queue, int64_t deadline, struct session_queue *out);

/* Return: the last error, one line for a person. */
const char *session_why(const struct session *s);

/* Complains of a SESSION_E_... or -errno. Return: the exit code. */
int session_complain(const struct session *s, int error);
