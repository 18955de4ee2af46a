// SPDX-License-Identifier: Apache-2.0
/*
 * Messages: the kinds of bodies, and a body that was decoded
 *
 * Called by all roles, through model/wire.h.
 */
#pragma once

#include <stdbool.h>

#include "drover/v1/control.pb-c.h"
#include "drover/v1/event.pb-c.h"
#include "drover/v1/submit.pb-c.h"
#include "drover/v1/task.pb-c.h"
#include "drover/v1/types.pb-c.h"

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
