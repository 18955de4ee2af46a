// SPDX-License-Identifier: Apache-2.0
/*
 * Views: jobs and steps as text for people
 *
 * All text is appended to a buf; nothing is printed here. Texts of jobs and messages are made
 * harmless: control characters, and those that change the direction of the text or have no width
 * (utf8_is_harmful()), become question marks, so that no message can control the terminal or look
 * like another one. Called by all commands that print.
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

/* ---- single values ---- */

/* Appends a text, made harmless and cut to @max columns (0 for no limit), then with "..." at its
 * end. Each character counts as one column. */
void view_text(struct buf *out, const char *text, size_t max);

/* "850ms", "4.2s", "2m10s", "3h04m", "5d02h"; a negative one as 0. */
void view_duration(struct buf *out, int64_t ms);

/* Return: the ms from @from to @to; INT64_MAX or INT64_MIN if the difference is too large. */
int64_t view_span(int64_t from, int64_t to);

/* "2026-01-31T12:03:10.123Z" */
void view_moment(struct buf *out, int64_t unix_ms);

/* Return: the name of an enum value without its prefix, such as "RUNNING"; "" for 0 and for an
 * unknown value. */
const char *view_word(const ProtobufCEnumDescriptor *type, int value);

/* Return: the state of a step, such as "RUNNING"; "QUEUED" or "SENT" if it is in flight and no
 * agent is known to have begun it. */
const char *view_step_state(const Drover__V1__StepStatus *step);

/* Appends a bar of @width characters, such as "[####------]". @fraction: below 0 counts as 0, above
 * 1 as 1. */
void view_bar(struct buf *out, double fraction, size_t width);

/* ---- tables ---- */

#define TABLE_COLUMNS_MAX 8

/* Rows of cells of one line each. An empty table is all zero except `columns`. */
struct table {
    size_t columns;
    struct buf text;  /* the texts of all cells */
    struct buf cells; /* struct table_cell, row after row */
};

void table_deinit(struct table *t);
static inline void table_deinit_p(struct table *t)
{
    table_deinit(t);
}

/* Adds a cell; its text is made harmless. */
void table_add(struct table *t, enum view_color color, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Appends the table: pads columns to their widest cell and cuts lines to @width columns (0 for no
 * limit). Return: the number of lines. */
size_t table_print(const struct table *t, bool color, size_t width, struct buf *out);

/* ---- jobs ---- */

/* Appends details of the state of a step: "next try in 4s, card_declined: no money". Quoted texts
 * are not made harmless here: the caller does that by table_add() or view_text(). */
void view_step_detail(const Drover__V1__StepStatus *step, const Drover__V1__JobStatus *job,
                      struct buf *out);

/* The columns of a table of steps: name, actor, state, attempt, elapsed time, details. */
#define VIEW_STEP_COLUMNS 6
#define VIEW_UNTIMED INT64_C(-1)
void view_step_titles(struct table *t, bool timed);

/* Adds the cells of a step. @elapsed_ms: VIEW_UNTIMED leaves its cell empty. */
void view_step_cells(struct table *t, const Drover__V1__StepStatus *step,
                     const Drover__V1__JobStatus *job, int64_t elapsed_ms);

/* Return: the outcome, such as "SUCCEEDED"; while there is none "PARKED" or the phase. */
const char *view_job_state(const Drover__V1__JobStatus *job);

/* Appends the failure because of which the job does not get where it was to go: its step and its
 * error; nothing if there is none. */
void view_failure(const Drover__V1__JobStatus *job, struct buf *out);

/* Appends the header and the table of steps; also input, results and error details if the status
 * has them. */
void view_job(const Drover__V1__JobStatus *job, bool color, struct buf *out);

/* "[####------] 4 of 10 settled, 2 running, 1 parked" */
void view_progress(const Drover__V1__JobStatus *job, struct buf *out);

void view_receipt(const Drover__V1__Receipt *receipt, struct buf *out);
