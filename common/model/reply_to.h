// SPDX-License-Identifier: Apache-2.0
/*
 * Reply addresses: where an answer may go: a queue of the client, or direct reply-to
 *
 * The broker makes an address of direct reply-to and puts it in place of the property
 * "amq.rabbitmq.reply-to": the name, a dot, the base64 of an Erlang process in the external term
 * format, a dot, and the base64 of a key (rabbit_direct_reply_to.erl of RabbitMQ 3.8 to 4). The
 * broker closes the connection of a process that publishes to a forged one, so it is parsed here.
 *
 * Called by model/wire, io/bus and the scheduler.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPLY_TO_DIRECT "amq.rabbitmq.reply-to"

/* Whether a field reply_to of a message is valid: a queue whose name does not begin with "drover."
 * or "amq.rabbitmq.". */
bool reply_to_field_valid(const char *reply_to);

/* Whether the AMQP property reply_to is valid: such a queue, or a well-formed address of direct
 * reply-to. */
bool reply_to_property_valid(const char *reply_to);

/* Whether it begins like an address of direct reply-to, well-formed or not. */
bool reply_to_is_direct(const char *reply_to);

/* Copies the node of a well-formed address of direct reply-to, in the encoding of the broker, to
 * @out, which holds WIRE_REPLY_TO_MAX bytes. Return: its length; 0 if @address is not such an
 * address. */
size_t reply_to_node(const char *address, uint8_t *out);
