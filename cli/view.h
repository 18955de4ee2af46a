// SPDX-License-Identifier: Apache-2.0
/*
 * View: jobs and steps as text for people
 *
 * Everything is appended to a buf; nothing here prints. Text from elsewhere is made harmless:
 * control characters, and those that turn the text round or have no width, become question marks,
 * so that no message can steer a terminal, or look like another one.
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

/* By https://no-color.org: @no_color and @term are the variables NO_COLOR and TERM, or NULL. */
bool view_color_wanted(bool tty, bool no_color_flag, const char *no_color, const char *term);

/* ---- single values ---- */

/* Harmless text; at most @max columns (0: no limit), with "..." where it was cut. A character
 * counts as one column. */
void view_text(struct buf *out, const char *text, size_t max);

/* "850ms", "4.2s", "2m10s", "3h04m", "5d02h"; a negative one as 0. */
void view_duration(struct buf *out, int64_t ms);

/* Milliseconds from one moment to the other; of those that are further apart than can be said, as
 * many as can. */
int64_t view_span(int64_t from, int64_t to);

/* "2026-01-31T12:03:10.123Z" */
void view_moment(struct buf *out, int64_t unix_ms);

/* The name of an enum's value without its prefix: "RUNNING"; "" for 0 and what is not known. */
const char *view_word(const ProtobufCEnumDescriptor *type, int value);
const char *view_step_state(const Drover__V1__StepStatus *step);

/* @width characters such as "[####------]"; a fraction outside 0 to 1 is held to them. */
void view_bar(struct buf *out, double fraction, size_t width);

/* ---- tables ---- */

#define TABLE_COLUMNS_MAX 8

/* Rows of cells of one line each. All zero is an empty table once columns is set. */
struct table {
    size_t columns;
    struct buf text;  /* of all cells */
    struct buf cells; /* struct table_cell, row after row */
};

void table_deinit(struct table *t);
static inline void table_deinit_p(struct table *t)
{
    table_deinit(t);
}

/* Adds one cell; the text is made harmless. */
void table_add(struct table *t, enum view_color color, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Pads columns to their widest cell; cuts lines to @width columns unless that is 0. Returns the
 * number of lines. */
size_t table_print(const struct table *t, bool color, size_t width, struct buf *out);

/* ---- jobs ---- */

bool view_has_ended(const Drover__V1__JobStatus *job);

/* Where a step stands: "next try in 4s, card_declined: no money". What it quotes is as it came: a
 * cell, or view_text(), makes it harmless. */
void view_step_detail(const Drover__V1__StepStatus *step, const Drover__V1__JobStatus *job,
                      struct buf *out);

/* The cells of a step: name, actor, state, attempt, how long, detail. */
#define VIEW_STEP_COLUMNS 6
#define VIEW_UNTIMED INT64_C(-1)
void view_step_titles(struct table *t, bool timed);

/* @elapsed_ms: VIEW_UNTIMED leaves the cell empty. */
void view_step_cells(struct table *t, const Drover__V1__StepStatus *step,
                     const Drover__V1__JobStatus *job, int64_t elapsed_ms);

/* "SUCCEEDED", or what the job is at. */
const char *view_job_state(const Drover__V1__JobStatus *job);

/* Which step has decided that the job does not succeed, and its error; nothing where none has. */
void view_failure(const Drover__V1__JobStatus *job, struct buf *out);

/* The header and the table of steps; with input and results where the status has them. */
void view_job(const Drover__V1__JobStatus *job, bool color, struct buf *out);

/* "[####------] 4 of 10 settled, 2 running, 1 parked" */
void view_progress(const Drover__V1__JobStatus *job, struct buf *out);

void view_receipt(const Drover__V1__Receipt *receipt, struct buf *out);
