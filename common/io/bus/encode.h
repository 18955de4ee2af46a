// SPDX-License-Identifier: Apache-2.0
/*
 * Encode: a message as a basic.publish with its properties and headers, part of the publisher
 */
#pragma once

#include "io/bus/link.h"
#include "io/bus/outgoing.h"

/* Puts a message into the output of a link, over LINK_CHANNEL. @now: CLOCK_MONOTONIC ms. Return: 0
 * or an enum link_error. */
int encode_publish(struct link *link, const struct outgoing *m, int64_t now);
