// SPDX-License-Identifier: Apache-2.0
/*
 * Messages: one arrives as a method, a header and any number of body frames
 *
 * Pure. All of it is copied out of the frames at once, into one allocation a message. Used by the
 * bus alone.
 */
#pragma once

#include "base/id.h"
#include "base/list.h"
#include "model/effect.h"

/* A delivery on its way in. */
struct incoming {
    struct list node;
    bool pulse;                   /* the bus' own, not the role's */
    struct bus_delivery delivery; /* points into text */
    char *body;                   /* where delivery.body is filled from */
    char text[];
};

/* A message between its method frame and its last body frame. All zero is none. */
struct assembly {
    enum {
        ASSEMBLY_NONE,
        ASSEMBLY_DELIVERY,
        ASSEMBLY_RETURN, /* only its serial matters */
    } kind;
    bool headed;   /* the header frame was there */
    uint64_t left; /* bytes of the body still to come */
    uint64_t handle;
    int source;
    bool redelivered;
    bool classic; /* its queue is: it loses transient messages if the broker restarts */
    bool pulse;
    char actor[ID_NAME_MAX + 1]; /* see struct bus_delivery */
    int64_t serial;              /* of a return, once headed; 0: it has none */
    struct incoming *incoming;   /* a delivery, once headed; of its body ... */
    size_t stored;               /* ... so many bytes are there */
};

/**
 * message_header(), message_body() - add a frame
 * @payload: of the frame
 * @limit:   the most bytes of a body; a longer body is cut, and `oversize` is set
 *
 * Return: 1 if the message is complete; 0 if there is more to come; -EBADMSG if such a frame has no
 * place there; -ENOMEM.
 */
int message_header(struct assembly *a, struct bytes payload, uint32_t limit);
int message_body(struct assembly *a, struct bytes payload);

/* Forgets a message, complete or not. */
void message_reset(struct assembly *a);
