// SPDX-License-Identifier: Apache-2.0
/*
 * Wire: decodes and checks message bodies; has all limits of messages
 *
 * Every message body that a daemon or the command line receives is decoded by wire_decode(). A body
 * is protobuf; or proto3 JSON (model/json.h) if its first byte is '{', with which no protobuf body
 * of proto/ begins. The answer to a message is in the format of the message. A decoded message is
 * bounded in size and memory, its texts are UTF-8 without NUL, its numbers are finite, and it obeys
 * the rules of docs/PROTOCOL.md.
 *
 * The items of a batch (Requests, Replies, ProgressAnswers) are checked one by one, by the reader
 * of the batch, so that an invalid item does not make the others invalid. A definition in a Submit
 * is checked by workflow_new().
 *
 * Called by all roles, by io/bus and io/daemon/driver, and by the other files of model.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"
#include "base/status.h"
#include "base/str.h"
#include "drover/v1/control.pb-c.h"
#include "drover/v1/event.pb-c.h"
#include "drover/v1/submit.pb-c.h"
#include "drover/v1/task.pb-c.h"
#include "drover/v1/types.pb-c.h"
#include "model/effect.h"

#define WIRE_KIB ((size_t)1024)
#define WIRE_MIB (1024 * WIRE_KIB)

#define WIRE_STEPS_MAX 10000
#define WIRE_EDGES_MAX 100000
#define WIRE_LABELS_MAX 32
#define WIRE_PAGE_MAX 1000       /* steps in one JobStatus; entries, or workflows, in one Answer */
#define WIRE_LIST_MAX 200        /* jobs in one Answer */
#define WIRE_LIST_DEFAULT 50     /* jobs in one Answer if the query has no limit */
#define WIRE_CURSOR_MAX 160      /* bytes of ListJobs.after */
#define WIRE_TAKE_DEFAULT_MAX 16 /* dependencies up to which `take` may be left out */
#define WIRE_PRIORITY_MAX 9

#define WIRE_MESSAGE_MAX (4 * WIRE_MIB)   /* bytes of one body */
#define WIRE_INPUT_MAX (1 * WIRE_MIB)     /* of the input of a job; of the arguments of a step */
#define WIRE_RESULT_MAX (256 * WIRE_KIB)  /* of the result of a step */
#define WIRE_JOB_DATA_MAX (64 * WIRE_MIB) /* of input and results of a job; the store checks it */

/* Bytes of texts. */
#define WIRE_LABEL_NAME_MAX 128
#define WIRE_LABEL_VALUE_MAX 256
#define WIRE_REPLY_TO_MAX 255 /* a short string of AMQP */
#define WIRE_TRACEPARENT_MAX 128
#define WIRE_CONTENT_TYPE_MAX 128
/* Exchange "drover.reply.<actor>" leads to queue drover.replies. Only agents of the actor have the
 * right to publish to it, so it proves which actor has answered (decision 34). */
#define WIRE_REPLY_EXCHANGE "drover.reply."
#define WIRE_REPLY_QUEUE "drover.replies"

/* Return: the actor of such an exchange, a part of @exchange; NULL if it is another exchange. */
const char *wire_reply_actor(const char *exchange);

/* Return: the actor whose agents may have sent a reply that came by @exchange; "" if any agent may
 * have; WIRE_REPLY_STRANGER, which equals no actor, if it is any other exchange: otherwise a user
 * who may bind such an exchange to the one of its actor would evade the comparison of actors. */
#define WIRE_REPLY_STRANGER "?"
const char *wire_reply_by(const char *exchange);

#define WIRE_TOKEN_MAX 64
#define WIRE_REPLIES_MAX 1000 /* replies, and as many Progress, that are read of one message */
#define WIRE_BATCH_MAX 8      /* requests that a scheduler puts into one message */
#define WIRE_REASON_MAX 1024
#define WIRE_BY_MAX 128
#define WIRE_NOTE_MAX 1024
#define WIRE_ERROR_CLASS_MAX 128
#define WIRE_ERROR_MESSAGE_MAX (1 * WIRE_KIB)    /* a longer one is cut, not refused */
#define WIRE_ERROR_DETAILS_MAX (16 * WIRE_KIB)   /* longer ones are cut, not refused */
#define WIRE_WORKFLOW_REF_MAX (ID_NAME_MAX + 11) /* "name@4294967295" */
#define WIRE_KEY_MAX (2 * ID_NAME_MAX + 12)      /* "job/step/4294967295" */

/*
 * Bytes that a decoded message may take: a factor for each byte of the body, and a base. protobuf-c
 * makes 150 bytes of an empty entry that is 2 bytes on the wire, so without a bound a small body
 * could take a lot. The factor allows the valid message that grows most: a workflow of 10 000 steps
 * with a short name and actor each, where a step is 11 bytes on the wire and 290 in memory.
 */
#define WIRE_MEMORY_FACTOR 23
#define WIRE_JSON_MEMORY_FACTOR 11 /* for JSON; parsing takes up to JSON_MEMORY_MAX besides */
#define WIRE_MEMORY_BASE (1 * WIRE_MIB)
#define WIRE_MEMORY_MAX (96 * WIRE_MIB)

static_assert(WIRE_INPUT_MAX < WIRE_MESSAGE_MAX, "an input fits a Submit");
static_assert(WIRE_TAKE_DEFAULT_MAX * WIRE_RESULT_MAX <= WIRE_MESSAGE_MAX, "default take fits");
static_assert(WIRE_MESSAGE_MAX <= WIRE_JOB_DATA_MAX, "a Submit fits its job");
static_assert(WIRE_MESSAGE_MAX * WIRE_MEMORY_FACTOR + WIRE_MEMORY_BASE <= WIRE_MEMORY_MAX,
              "memory is bounded");
static_assert(WIRE_PAGE_MAX <= WIRE_STEPS_MAX, "a page is a part");
static_assert(WIRE_ERROR_DETAILS_MAX < WIRE_RESULT_MAX, "an error is smaller than a result");

enum wire_type {
    WIRE_SUBMIT,
    WIRE_RECEIPT,
    WIRE_REQUESTS,
    WIRE_REPLIES,
    WIRE_CONTROL,
    WIRE_ANSWER,
    WIRE_EVENT,
    WIRE_PROGRESS_ANSWERS,
};
#define WIRE_TYPES (WIRE_PROGRESS_ANSWERS + 1)

enum {
    WIRE_E_MALFORMED = 1, /* not a message of this type; nothing is decoded */
    WIRE_E_TOO_LARGE,     /* over WIRE_MESSAGE_MAX or the bound of its memory; nothing is decoded */
    WIRE_E_INVALID,       /* decoded, but against a rule */
};

struct wire_message {
    enum wire_type type;
    bool json; /* the body was JSON, so the answer is JSON too */
    union {
        ProtobufCMessage *base; /* NULL if nothing was decoded */
        Drover__V1__Submit *submit;
        Drover__V1__Receipt *receipt;
        Drover__V1__Requests *requests;
        Drover__V1__Replies *replies;
        Drover__V1__Control *control;
        Drover__V1__Answer *answer;
        Drover__V1__JobEvent *event;
        Drover__V1__ProgressAnswers *progress_answers;
    };
};

/* AMQP properties that fill fields which the body leaves empty; "" or NULL if absent. */
struct wire_properties {
    const char *message_id;  /* Submit.job_id, Control.command_id */
    const char *reply_to;    /* Submit.reply_to, Control.reply_to */
    const char *traceparent; /* Submit.traceparent */
};

/**
 * wire_decode() - decode and check one body
 * @properties: NULL if there are none
 * @out:        the caller gives it to wire_free() whatever is returned; does not point into @body
 * @problem:    set to field and reason on WIRE_E_…; NULL is allowed
 *
 * On WIRE_E_INVALID @out has the message, so that a rejection can name the job_id and go to the
 * reply_to; a reply_to that is not allowed has been emptied. A Control with a command of a newer
 * protocol is valid and has command_case …__NOT_SET.
 *
 * Return: 0, -ENOMEM or WIRE_E_….
 */
int wire_decode(enum wire_type type, struct bytes body, const struct wire_properties *properties,
                struct wire_message *out, struct problem *problem);

/* Return: the reason of a dead letter for a result of wire_decode(); NULL for 0. */
const char *wire_reason(int result);

/* Frees the decoded message and leaves @message empty; may be called again. */
void wire_free(struct wire_message *message);
static inline void wire_free_p(struct wire_message *message)
{
    wire_free(message);
}

/**
 * wire_unpack() - decode protobuf with the bounds of wire_decode(), but without the rules
 * @field:   path of the body in the message that contains it, for @problem; "" if there is none
 * @out:     the caller frees it with protobuf_c_message_free_unpacked(); NULL unless 0 is returned
 *
 * Fields that this build does not know are dropped. Texts are UTF-8 and numbers are finite.
 *
 * Return: 0, -ENOMEM, WIRE_E_MALFORMED or WIRE_E_TOO_LARGE.
 */
int wire_unpack(const ProtobufCMessageDescriptor *descriptor, struct bytes body, const char *field,
                ProtobufCMessage **out, struct problem *problem);

/* Check the n-th item of a batch, whose path in @problem is "requests[n]…". Return: 0 or
 * WIRE_E_INVALID. */
int wire_check_request(const Drover__V1__Requests *requests, size_t n, struct problem *problem);
int wire_check_reply(const Drover__V1__Replies *replies, size_t n, struct problem *problem);
int wire_check_progress(const Drover__V1__Replies *replies, size_t n, struct problem *problem);
int wire_check_progress_answer(const Drover__V1__ProgressAnswers *answers, size_t n,
                               struct problem *problem);

/**
 * wire_encode() - append a message to @out, as JSON or protobuf
 *
 * Return: 0; -ENOMEM; or WIRE_E_TOO_LARGE if it is over WIRE_MESSAGE_MAX: then nothing is appended.
 */
int wire_encode(const ProtobufCMessage *message, bool json, struct buf *out);

/* Appends an encoded payload; nothing for NULL. */
void wire_append_payload(struct buf *out, const Drover__V1__Payload *payload);

/* Encodes into the memory of @fx. Return: empty if it would be over WIRE_MESSAGE_MAX. */
struct bytes wire_pack(struct effects *fx, const ProtobufCMessage *message, bool json);

/* "application/json" or "application/protobuf". */
const char *wire_content_type(bool json);

/* Return: false if the scheduler must record the permanent failure RESULT_TOO_LARGE instead. */
bool wire_reply_result_fits(const Drover__V1__StepReply *reply);

/* Return: the bytes of a payload that count against a limit; 0 for NULL. */
size_t wire_payload_size(const Drover__V1__Payload *payload);

/**
 * wire_workflow_ref() - parse "name" or "name@version"
 * @name:    set to the part before the '@', a view into @ref
 * @version: set to 0 if none is given
 *
 * Return: false if @ref is neither.
 */
bool wire_workflow_ref(const char *ref, struct bytes *name, uint32_t *version);

/* Whether a command is ListJobs or ListWorkflows, which name no job. */
bool wire_about_no_job(const Drover__V1__Control *m);
