// SPDX-License-Identifier: Apache-2.0
/*
 * Payloads: made of data, of a text or of a file
 */
#pragma once

#include "base/status.h"
#include "base/str.h"
#include "model/wire.h"

/* Makes a payload of @data: application/json if it is JSON, else text/plain if it is UTF-8, else
 * application/octet-stream. Return: the payload, which the caller frees with
 * drover__v1__payload__free_unpacked(…, NULL); NULL if memory is out. */
Drover__V1__Payload *payload_new(struct bytes data);

/* Makes a payload of @input: a text, or @FILE; "@-" is standard input. Return: 0, or as
 * file_read_operand(). */
int payload_read(const char *input, Drover__V1__Payload **out, struct problem *problem);
