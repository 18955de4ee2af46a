// SPDX-License-Identifier: Apache-2.0
/*
 * Wire: decodes message bodies and checks them
 *
 * See model/wire.h.
 */
#include "model/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "model/check.h"
#include "model/reply_to.h"
#include "model/wire_unpack.h"

static const ProtobufCMessageDescriptor *const DESCRIPTORS[WIRE_TYPES] = {
    [WIRE_SUBMIT] = &drover__v1__submit__descriptor,
    [WIRE_RECEIPT] = &drover__v1__receipt__descriptor,
    [WIRE_REQUESTS] = &drover__v1__requests__descriptor,
    [WIRE_REPLIES] = &drover__v1__replies__descriptor,
    [WIRE_CONTROL] = &drover__v1__control__descriptor,
    [WIRE_ANSWER] = &drover__v1__answer__descriptor,
    [WIRE_EVENT] = &drover__v1__job_event__descriptor,
    [WIRE_PROGRESS_ANSWERS] = &drover__v1__progress_answers__descriptor,
};

/* ---- properties ---- */

/* Replaces the text of a field. @text: the message then owns it; or the empty string of protobuf-c.
 */
static void text_put(char **field, char *text)
{
    if (*field != (char *)protobuf_c_empty_string)
        free(*field);
    *field = text;
}

/* Return: 0 or -ENOMEM. */
static int text_default(char **field, const char *property)
{
    char *copy;

    if ((*field)[0] != '\0' || !property || property[0] == '\0')
        return 0;
    copy = strdup(property);
    if (!copy)
        return -ENOMEM;
    text_put(field, copy);
    return 0;
}

static char **reply_to_of(const struct wire_message *m)
{
    return m->type == WIRE_SUBMIT    ? &m->submit->reply_to
           : m->type == WIRE_CONTROL ? &m->control->reply_to
                                     : NULL;
}

/* Checks the field reply_to, or the property if the field is empty. */
static bool reply_to_allowed(const struct wire_message *m, const struct wire_properties *properties)
{
    char **field = reply_to_of(m);
    const char *property = properties && properties->reply_to ? properties->reply_to : "";

    if (!field)
        return true;
    if ((*field)[0] != '\0')
        return reply_to_field_valid(*field);
    return property[0] == '\0' || reply_to_property_valid(property);
}

/* Runs before all other checks. Empties a reply_to that is not allowed, so that the rejection is
 * not sent there. */
static bool reply_to_check(const struct wire_message *m, bool allowed, struct problem *problem)
{
    if (allowed)
        return true;
    text_put(reply_to_of(m), (char *)protobuf_c_empty_string);
    return check_fail(problem, PATH(NULL, "reply_to"),
                      "must be a queue of your own, not drover.* or amq.rabbitmq.*; %s only as "
                      "the message property",
                      REPLY_TO_DIRECT);
}

static int properties_apply(const struct wire_message *m, const struct wire_properties *p)
{
    int r = 0;

    if (m->type == WIRE_SUBMIT) {
        r = text_default(&m->submit->job_id, p->message_id);
        if (r == 0)
            r = text_default(&m->submit->reply_to, p->reply_to);
        /* A client may add trace headers to all messages: an invalid one is ignored, not refused.
         */
        if (r == 0 && p->traceparent && utf8_valid(bytes_str(p->traceparent)) &&
            check_text(p->traceparent, WIRE_TRACEPARENT_MAX, NULL, NULL))
            r = text_default(&m->submit->traceparent, p->traceparent);
    } else if (m->type == WIRE_CONTROL) {
        r = text_default(&m->control->command_id, p->message_id);
        if (r == 0)
            r = text_default(&m->control->reply_to, p->reply_to);
    }
    return r;
}

/* ---- bodies ---- */

static bool is_batch(enum wire_type type)
{
    return type == WIRE_REQUESTS || type == WIRE_REPLIES || type == WIRE_PROGRESS_ANSWERS;
}

static int body_decode(struct wire_message *m, struct bytes body, struct problem *problem)
{
    const ProtobufCMessageDescriptor *descriptor = DESCRIPTORS[m->type];

    if (m->json)
        return wire_unpack_json(descriptor, body, &m->base, problem);
    if (is_batch(m->type))
        return wire_unpack_batch(descriptor, body, "", &m->base, problem);
    return wire_unpack(descriptor, body, "", &m->base, problem);
}

int wire_decode(enum wire_type type, struct bytes body, const struct wire_properties *properties,
                struct wire_message *out, struct problem *problem)
{
    int decoded, r = 0;
    bool allowed;

    *out = (struct wire_message){.type = type, .json = body.len > 0 && body.data[0] == '{'};
    decoded = body_decode(out, body, problem);
    if (decoded != 0 && decoded != WIRE_E_INVALID)
        return decoded;
    allowed = reply_to_allowed(out, properties);
    if (properties)
        r = properties_apply(out, properties);
    if (r != 0)
        return r;
    /* @problem is the first problem; the reply_to is checked in any case. */
    if (!reply_to_check(out, allowed, decoded == 0 ? problem : NULL) || decoded != 0)
        return WIRE_E_INVALID;
    return wire_check_message(out, problem) ? 0 : WIRE_E_INVALID;
}

void wire_free(struct wire_message *message)
{
    if (message->base)
        protobuf_c_message_free_unpacked(message->base, NULL);
    message->base = NULL;
}

const char *wire_reason(int result)
{
    switch (result) {
    case 0:
        return NULL;
    case WIRE_E_INVALID:
        return "INVALID";
    case WIRE_E_TOO_LARGE:
        return "TOO_LARGE";
    default:
        return "MALFORMED";
    }
}
