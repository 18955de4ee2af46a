// SPDX-License-Identifier: Apache-2.0
/*
 * Wire: bytes from strangers become messages that can be trusted
 *
 * wire_decode() is the only door for message bodies. A body is protobuf, or proto3 JSON where its
 * first byte is '{', which no protobuf body of ours begins with (model/json.h); whoever answers
 * does so in kind. What comes out is bounded in size and memory, its text is UTF-8 without NULs,
 * its numbers are finite, and it obeys the rules of docs/PROTOCOL.md.
 *
 * A batch (Requests, Replies, ProgressAnswers) is checked item by item, by its reader, so that one
 * bad item does not take the good ones along. A definition inside a Submit is checked by
 * workflow_new().
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
#define WIRE_LIST_MAX 200        /* jobs in one Answer ... */
#define WIRE_LIST_DEFAULT 50     /* ... unless told otherwise */
#define WIRE_CURSOR_MAX 160      /* bytes that say where a list goes on */
#define WIRE_TAKE_DEFAULT_MAX 16 /* results a request carries unless told which */
#define WIRE_PRIORITY_MAX 9

#define WIRE_MESSAGE_MAX (4 * WIRE_MIB)  /* one body */
#define WIRE_INPUT_MAX (1 * WIRE_MIB)    /* a job's input, a step's arguments */
#define WIRE_RESULT_MAX (256 * WIRE_KIB) /* a step's result */
#define WIRE_JOB_DATA_MAX (64 * WIRE_MIB)

/* Bytes of text. */
#define WIRE_LABEL_NAME_MAX 128
#define WIRE_LABEL_VALUE_MAX 256
#define WIRE_REPLY_TO_MAX 255 /* AMQP's short string */
#define WIRE_TRACEPARENT_MAX 128
#define WIRE_CONTENT_TYPE_MAX 128
/* Exchange "drover.reply.<actor>" leads to queue drover.replies: only agents of the actor may
 * publish to it, so it says who has answered. */
#define WIRE_REPLY_EXCHANGE "drover.reply."
#define WIRE_REPLY_QUEUE "drover.replies"

/* The actor that an exchange is of; NULL where it is none of those. */
const char *wire_reply_actor(const char *exchange);

/* Of replies that came by the exchange: its actor, "" where any agent may have sent them, or
 * WIRE_REPLY_STRANGER where it is any other exchange: a user who may bind that one to the exchange
 * of its actor must not escape the comparison with the actor. */
#define WIRE_REPLY_STRANGER "?"
const char *wire_reply_by(const char *exchange);

#define WIRE_TOKEN_MAX 64
#define WIRE_REPLIES_MAX 1000 /* replies, and Progress, of one message that count */
#define WIRE_BATCH_MAX 8      /* requests that a scheduler puts into one message */
#define WIRE_REASON_MAX 1024
#define WIRE_BY_MAX 128
#define WIRE_NOTE_MAX 1024
#define WIRE_ERROR_CLASS_MAX 128
#define WIRE_ERROR_MESSAGE_MAX (1 * WIRE_KIB)    /* kept; what is longer is cut, not refused */
#define WIRE_ERROR_DETAILS_MAX (16 * WIRE_KIB)   /* kept; likewise */
#define WIRE_WORKFLOW_REF_MAX (ID_NAME_MAX + 11) /* "name@4294967295" */
#define WIRE_KEY_MAX (2 * ID_NAME_MAX + 12)      /* "job/step/4294967295" */

/*
 * Memory for what is decoded: this many bytes for each byte of the body, and a base. protobuf-c
 * takes 2 bytes of wire for an empty entry of 150 bytes; the leanest honest message, a workflow of
 * 10 000 steps with a short name and actor each, is 11 bytes of wire a step and takes 290.
 */
#define WIRE_MEMORY_FACTOR 23
#define WIRE_JSON_MEMORY_FACTOR 11 /* besides what parsing takes: JSON_MEMORY_MAX */
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
    WIRE_E_MALFORMED = 1, /* not this message at all; nothing decoded */
    WIRE_E_TOO_LARGE,     /* over WIRE_MESSAGE_MAX, or its memory bound; nothing decoded */
    WIRE_E_INVALID,       /* decoded, but breaks a rule */
};

struct wire_message {
    enum wire_type type;
    bool json; /* came as JSON: answer in kind */
    union {
        ProtobufCMessage *base; /* NULL where nothing was decoded */
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

/* AMQP properties that stand in for fields which the body leaves empty; "" or NULL: absent. */
struct wire_properties {
    const char *message_id;  /* Submit.job_id, Control.command_id */
    const char *reply_to;    /* Submit.reply_to, Control.reply_to */
    const char *traceparent; /* Submit.traceparent */
};

/**
 * wire_decode() - decode and validate one body
 * @properties: NULL where there are none
 * @out:        to be given to wire_free(), whatever is returned; does not point into @body
 * @problem:    where and what, for WIRE_E_…; NULL is allowed
 *
 * With WIRE_E_INVALID the message is there, for a rejection to name job_id and to go to reply_to;
 * a reply_to that is itself not allowed has been emptied. A Control with a command of a newer
 * protocol is valid and has command_case …__NOT_SET.
 *
 * Return: 0, -ENOMEM or WIRE_E_….
 */
int wire_decode(enum wire_type type, struct bytes body, const struct wire_properties *properties,
                struct wire_message *out, struct problem *problem);

/* What a dead letter's reason says of a result of wire_decode(); NULL for 0. */
const char *wire_reason(int result);

/* Frees what was decoded and leaves @message empty; harmless on an empty one. */
void wire_free(struct wire_message *message);
static inline void wire_free_p(struct wire_message *message)
{
    wire_free(message);
}

/**
 * wire_unpack() - decode protobuf alone, bounded as wire_decode() is, with none of the rules
 * @field:   where it stands in its document, for @problem: "" for the whole
 * @out:     free with protobuf_c_message_free_unpacked(); NULL unless 0 is returned
 *
 * Fields that this build does not know are dropped. Text is UTF-8 and numbers are finite.
 *
 * Return: 0, -ENOMEM, WIRE_E_MALFORMED or WIRE_E_TOO_LARGE.
 */
int wire_unpack(const ProtobufCMessageDescriptor *descriptor, struct bytes body, const char *field,
                ProtobufCMessage **out, struct problem *problem);

/* Items of a batch: the n-th, named in @problem as "requests[n]…". Return: 0 or WIRE_E_INVALID. */
int wire_check_request(const Drover__V1__Requests *requests, size_t n, struct problem *problem);
int wire_check_reply(const Drover__V1__Replies *replies, size_t n, struct problem *problem);
int wire_check_progress(const Drover__V1__Replies *replies, size_t n, struct problem *problem);
int wire_check_progress_answer(const Drover__V1__ProgressAnswers *answers, size_t n,
                               struct problem *problem);

/**
 * wire_encode() - append a message to @out, as JSON or protobuf
 *
 * Return: 0, -ENOMEM, or WIRE_E_TOO_LARGE over WIRE_MESSAGE_MAX; then nothing is appended.
 */
int wire_encode(const ProtobufCMessage *message, bool json, struct buf *out);

/* The same in the memory of effects; empty where it would be too large. */
struct bytes wire_pack(struct effects *fx, const ProtobufCMessage *message, bool json);

/* "application/json" or "application/protobuf". */
const char *wire_content_type(bool json);

/* False: the result is to be recorded as the permanent failure RESULT_TOO_LARGE. */
bool wire_reply_result_fits(const Drover__V1__StepReply *reply);

/* Bytes of a payload that count against a limit; 0 for NULL. */
size_t wire_payload_size(const Drover__V1__Payload *payload);

/**
 * wire_workflow_ref() - parse "name" or "name@version"
 * @name:    the part before the '@', a view into @ref
 * @version: 0 where none is given
 *
 * Return: false where it is neither.
 */
bool wire_workflow_ref(const char *ref, struct bytes *name, uint32_t *version);

/* Commands that ask for what is there, and name no job. */
bool wire_about_no_job(const Drover__V1__Control *m);

/* How much of a text fits @max bytes without cutting through a character. */
size_t wire_text_fit(const char *text, size_t max);

/* True for UTF-8 as in RFC 3629. */
bool wire_utf8_valid(struct bytes text);
