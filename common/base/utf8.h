// SPDX-License-Identifier: Apache-2.0
/*
 * UTF-8: characters of texts from any source
 *
 * Well-formed is what Unicode 15, table 3-7, says, which is also RFC 3629. Used everywhere.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/**
 * utf8_length() - bytes of the first character
 * @s:   text of at least one byte
 * @len: its bytes
 *
 * Return: 1 to 4, or 0 if it does not begin with well-formed UTF-8.
 */
size_t utf8_length(const char *s, size_t len);

/* Return: the code point of a character. @len: what utf8_length() has returned for it, at least 1.
 */
uint32_t utf8_code_point(const char *character, size_t len);

/* Whether it is a control character (C0, C1, DEL), or a byte that is not UTF-8. @len: what
 * utf8_length() has returned for it. */
bool utf8_is_control(const char *character, size_t len);

/* Whether a character must not be shown to people: a control character; one that changes the
 * direction of the text or has no width, so that a reader sees another text than there is; or a
 * byte that is not UTF-8. @len: what utf8_length() has returned for it. */
bool utf8_is_harmful(const char *character, size_t len);

/* Whether the whole text is well-formed. */
bool utf8_valid(struct bytes text);

/* Return: the bytes of @text that fit @max without cutting through a character. */
size_t utf8_fit(const char *text, size_t max);

/* Copies at most @max bytes of @from to @to, and a NUL. The copy is well-formed UTF-8 in whole
 * characters; a '?' replaces each other byte and each control character, except for newlines and
 * tabs where @lines is set. Return: bytes without the NUL. */
size_t utf8_copy(char *to, struct bytes from, size_t max, bool lines);
