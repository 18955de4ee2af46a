// SPDX-License-Identifier: Apache-2.0
/*
 * Views: values and messages as text for people
 *
 * All text is appended to a buf; nothing is printed here. Texts of jobs and messages are made
 * harmless: control characters, and those that change the direction of the text or have no width
 * (utf8_is_harmful()), become question marks, so that no message can control the terminal or look
 * like another one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "model/wire.h"

enum view_color {
    VIEW_PLAIN,
    VIEW_BOLD,
    VIEW_DIM,
    VIEW_RED,
    VIEW_GREEN,
    VIEW_YELLOW,
    VIEW_BLUE,
};

/* Whether to use colours, by https://no-color.org. @no_color, @term: the variables NO_COLOR and
 * TERM, or NULL. */
bool view_color_wanted(bool tty, bool no_color_flag, const char *no_color, const char *term);

/* Appends a text, made harmless and cut to @max columns (0 for no limit), then with "..." at its
 * end. Each character counts as one column. */
void view_text(struct buf *out, const char *text, size_t max);
void view_bytes(struct buf *out, struct bytes text, size_t max);

/* Return: the columns that a text takes. */
size_t view_columns(struct bytes text);

/* "850ms", "4.2s", "2m10s", "3h04m", "5d02h"; a negative one as 0. */
void view_duration(struct buf *out, int64_t ms);

/* Return: the ms from @from to @to; INT64_MAX or INT64_MIN if the difference is too large. */
int64_t view_span(int64_t from, int64_t to);

/* "2026-01-31T12:03:10.123Z" */
void view_moment(struct buf *out, int64_t unix_ms);

/* Return: the name of an enum value without its prefix, such as "RUNNING"; "" for 0 and for an
 * unknown value. */
const char *view_word(const ProtobufCEnumDescriptor *type, int value);

/* Appends a bar of @width characters, such as "[####------]". @fraction: below 0 counts as 0, above
 * 1 as 1. */
void view_bar(struct buf *out, double fraction, size_t width);

void view_receipt(const Drover__V1__Receipt *receipt, struct buf *out);
