// SPDX-License-Identifier: Apache-2.0
/*
 * Session: questions to the scheduler, one at a time, over one bus; or to the store itself
 *
 * Answers come by direct reply-to and are matched by correlation id, one for each question. A
 * question that stays without an answer is sent again, as is one whose connection was lost: every
 * message of the contract may be repeated. The functions here wait by running the session's own
 * loop; SIGINT and SIGTERM end any wait.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "io/config.h"
#include "model/wire.h"

struct session;

enum {
    SESSION_E_UNREACHABLE = 1, /* no broker, it refused us, or nobody serves the queue */
    SESSION_E_TIMEOUT,         /* the deadline passed without an answer */
    SESSION_E_INTERRUPTED,
    SESSION_E_TOO_LARGE, /* the question is over WIRE_MESSAGE_MAX */
};

#define SESSION_FOREVER INT64_MAX

struct session_question {
    const char *exchange; /* kept while asking */
    const char *key;
    const ProtobufCMessage *body;
    enum wire_type answer; /* what is expected back */
};

/* Starts connecting to the broker that @config names; it is the session's from now on, in any case.
 * Return: 0 or -errno. */
int session_new(struct session **out, struct config *config);

/* Likewise, but what is asked is read in the store that @config names: Query, History and
 * ListJobs, and nothing else is to be asked. */
int session_new_from_store(struct session **out, struct config *config);

/* Says good-bye to the broker, waiting a moment at most. Accepts NULL; returns NULL. */
struct session *session_free(struct session *s);
CLEANUP_DEFINE(struct session *, session_free)

/**
 * session_ask() - ask and wait for the answer
 * @deadline: monotonic ms, or SESSION_FOREVER
 * @answer:   to be given to wire_free() where 0 is returned
 *
 * Return: 0, -errno, or SESSION_E_...; session_why() then says more.
 */
int session_ask(struct session *s, const struct session_question *question, int64_t deadline,
                struct wire_message *answer);

/**
 * session_wait() - let time pass
 * @deadline: monotonic ms
 *
 * Return: 0 when the deadline has come or a JobEvent has arrived since the last wait, whichever is
 * first; or SESSION_E_INTERRUPTED.
 */
int session_wait(struct session *s, int64_t deadline);

/* What the broker knows of a queue; of one that is not there, zeros. */
struct session_queue {
    uint32_t messages; /* that wait for a consumer */
    uint32_t consumers;
};

/* Return: as session_ask(). @queue: of at most SESSION_QUEUE_MAX bytes. */
#define SESSION_QUEUE_MAX 255
int session_look(struct session *s, const char *queue, int64_t deadline, struct session_queue *out);

/* What went wrong last, one line for people. */
const char *session_why(const struct session *s);

/* The exit code for a SESSION_E_... or -errno, with the reason told on stderr. */
int session_complain(const struct session *s, int error);
