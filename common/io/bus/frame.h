// SPDX-License-Identifier: Apache-2.0
/*
 * Frames: AMQP 0-9-1, cut from the bytes that a broker sends and built for those it receives
 *
 * Pure. librabbitmq encodes and decodes methods; frames, and the properties of a message, are read
 * here, without recursion and without a copy. What follows comes from the specification, "AMQP
 * version 0-9-1", chapters 2.3 and 4.2, and for the types of field values from RabbitMQ's errata.
 *
 * Used by the bus alone.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "io/bus/rabbitmq.h"

#define FRAME_MAX 131072 /* bytes, the broker's default; the bus asks for no more */
#define FRAME_MIN 4096   /* bytes that each side must take (frame-min-size) */
#define FRAME_OVERHEAD 8 /* bytes of a frame besides its payload */

/* A frame; it points into the bytes from which it was cut. */
struct frame {
    uint8_t type; /* AMQP_FRAME_METHOD, _HEADER, _BODY, _HEARTBEAT; or another, which is unknown */
    uint16_t channel;
    struct bytes payload;
};

/**
 * frame_cut() - take the first frame off the front of *in
 * @max: the most bytes that a frame may have
 *
 * Return: 1; 0 if it is not complete, and *in is unchanged; -EBADMSG if these are no frames.
 */
int frame_cut(struct bytes *in, size_t max, struct frame *out);

/* What connection.start says. It is not decoded by the library, which would call itself for each
 * level of a table that a server sends before it has proved anything. */
struct frame_start {
    struct bytes mechanisms; /* of the login, separated by spaces */
};

/* The method of a frame, 0 if the payload is too short to have one. */
amqp_method_number_t frame_method(const struct frame *frame);

/* Decodes the arguments of that method into @pool. It must be one whose arguments have no table.
 * Return: 0 or -EBADMSG. */
int frame_decode(const struct frame *frame, amqp_pool_t *pool, void **out);

/* The same for connection.start. */
int frame_decode_start(const struct frame *frame, struct frame_start *out);

/* The header of a message: what Drover reads of it. Texts that are missing, or of another type than
 * text, are empty. They point into the frame. */
struct content {
    uint64_t body_size;
    struct bytes content_type;
    struct bytes type;
    struct bytes message_id;
    struct bytes correlation_id;
    struct bytes reply_to;
    struct bytes user_id;
    struct bytes traceparent; /* headers, from here on */
    struct bytes job;
    struct bytes step;
    struct bytes died_of;
    bool resent;
    bool persistent; /* delivery mode 2 */
    int64_t serial;  /* of BUS_SERIAL_HEADER; 0: there is none */
};

/**
 * frame_decode_content() - read a header frame
 *
 * A sender chooses the properties. So what cannot be read of them counts as missing, with all that
 * follows it, and the message is read all the same.
 *
 * Return: 0; -EBADMSG if it is no header of a message.
 */
int frame_decode_content(struct bytes payload, struct content *out);

/* The following append frames to @out. Return: 0, -ENOMEM, or -EMSGSIZE and nothing appended. */
int frame_put_method(struct buf *out, uint16_t channel, amqp_method_number_t method,
                     void *arguments);
int frame_put_heartbeat(struct buf *out);

/* A message: the method, its header, and the body in frames of up to @max bytes. */
int frame_put_message(struct buf *out, uint16_t channel, size_t max, amqp_basic_publish_t *publish,
                      amqp_basic_properties_t *properties, struct bytes body);
