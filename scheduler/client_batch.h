// SPDX-License-Identifier: Apache-2.0
/*
 * Client batches: Receipts and JobEvents that go to one client together
 */
#pragma once

#include "base/pace.h"
#include "scheduler/op.h"

#define CLIENT_BATCH_MAX 64      /* messages in a batch */
#define CLIENT_BATCH_BYTES 65536 /* of its body; from then on it leaves, at once */

struct client_batches {
    struct list waiting; /* until they leave */
    struct pace pace;
};

/* A Receipt or a JobEvent for a client that reads batches. */
struct client_message {
    const ProtobufCMessage *body;
    bool json;
    const char *reply_to; /* the queue */
    const char *correlation;
    const char *sender; /* responsible for the address; see publish_reply() */
};

/* Publishes the message, alone or with others, within PACE_MS. The operation waits for the outcome.
 * @m: copied. */
void client_batch_add(struct scheduler *s, struct op *op, const struct client_message *m);

/* Publishes what is due; client_batch_next() is the time of that. */
void client_batch_flush(struct scheduler *s);
int64_t client_batch_next(const struct scheduler *s);
void client_batch_free(struct scheduler *s);
