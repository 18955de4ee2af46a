// SPDX-License-Identifier: Apache-2.0
/*
 * Where an answer may go: a queue of the sender's own, or direct reply-to
 *
 * An address of direct reply-to is made by the broker, which puts it in place of the property
 * "amq.rabbitmq.reply-to": the name, a dot, the base64 of an Erlang process in the external term
 * format, a dot, and the base64 of a key (rabbit_direct_reply_to.erl of RabbitMQ 3.8 to 4). Whoever
 * publishes to one that is made up loses its connection, so it is parsed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPLY_TO_DIRECT "amq.rabbitmq.reply-to"

/* As a field of a message says it: a queue, whose name does not begin with "drover." or
 * "amq.rabbitmq.". */
bool reply_to_field_valid(const char *reply_to);

/* As the message property says it: likewise, or direct reply-to. */
bool reply_to_property_valid(const char *reply_to);

/* Whether it looks like an address of direct reply-to, well-formed or not. */
bool reply_to_is_direct(const char *reply_to);

/* The node of a well-formed address of direct reply-to, as the broker writes it, into @out, which
 * has room for WIRE_REPLY_TO_MAX bytes. Return: its length, 0 where the address is not one. */
size_t reply_to_node(const char *address, uint8_t *out);
