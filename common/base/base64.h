// SPDX-License-Identifier: Apache-2.0
/*
 * Base64: decodes either alphabet, padded or not (RFC 4648)
 *
 * Called by model/json and model/reply_to.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* @out: holds 3 bytes for each 4 characters of @text, the last 4 perhaps incomplete. @out_len: set
 * to the bytes decoded. Return: false if @text is not base64. */
bool base64_decode(const char *text, size_t len, uint8_t *out, size_t *out_len);
