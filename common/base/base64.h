// SPDX-License-Identifier: Apache-2.0
/*
 * Base64 of either alphabet, padded or not (RFC 4648)
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Return: false where @text is not base64; @out has room for 3 bytes for each 4 begun. */
bool base64_decode(const char *text, size_t len, uint8_t *out, size_t *out_len);
