// SPDX-License-Identifier: Apache-2.0
/*
 * Publishes: messages for the broker, each followed to its outcome
 *
 * An operation waits for the outcome of each message that it has published. A message may carry
 * parts of several operations: a batch of requests does.
 */
#pragma once

#include "scheduler/op.h"

/* ms before a message that the broker refused is sent again */
#define PUBLISH_REFUSED_AGAIN_MS 1000
#define PUBLISH_UNCONFIRMED_BYTES (16 << 20) /* unconfirmed; beyond that requests wait */

struct publish_part;
struct watched;

/* What follows for each part of a message when its outcome is known. NULL: nothing. */
struct publish_kind {
    void (*outcome)(struct scheduler *s, struct publish_part *part, enum bus_outcome outcome);
    void (*free)(struct publish_part *part); /* the scheduler is about to be freed */
};

/* One operation that waits for the outcome of a message. */
struct publish_part {
    struct op *op;
    bool optional; /* the operation does not need this message to reach a queue */
    /* of a request: */
    char token[WIRE_TOKEN_MAX + 1];
    bool is_copy;            /* an earlier copy may be in a queue: a failure is not recorded */
    struct watched *watched; /* owned; NULL: it is not watched */
};

/* One message without an outcome. */
struct publish {
    uint64_t id;
    UT_hash_handle hh;
    const struct publish_kind *kind;
    size_t bytes;
    unsigned n;
    struct publish_part parts[];
};

struct publishes {
    struct publish *by_id; /* without an outcome ... */
    size_t bytes;          /* ... and the bytes of their bodies */
    unsigned most;         /* requests wait from this number on */
};

/* Whether requests may be published, or have to wait for outcomes. */
bool publish_has_capacity(const struct scheduler *s);

/* Publishes a message for an operation. Sets content type and body. @body: NULL for none. Return:
 * the message, for the caller to address; valid until the next effect is added. */
struct bus_message *publish_message(struct scheduler *s, struct op *op,
                                    const ProtobufCMessage *body, bool json);

/* The same in its parts, for a message of several operations. @room: the most parts that it can
 * have. */
struct publish *publish_new(struct scheduler *s, unsigned room, const struct publish_kind *kind);
/* Adds an operation, which waits for the outcome. @bytes: of the body, for this part. */
struct publish_part *publish_add(struct scheduler *s, struct publish *p, struct op *op,
                                 size_t bytes);
/* Adds the effect. @type: of the body; NULL for none. Return: as publish_message(). */
struct bus_message *publish_send(struct scheduler *s, struct publish *p,
                                 const ProtobufCMessageDescriptor *type, struct bytes body,
                                 bool json);

/* Sends an answer to the sender of the message that the operation is about, if it has named a
 * reply queue. */
void publish_reply(struct scheduler *s, struct op *op, const ProtobufCMessage *body);

/* The message with this id has its outcome. */
void publish_outcome(struct scheduler *s, uint64_t id, enum bus_outcome outcome);

void publish_free_all(struct scheduler *s);
