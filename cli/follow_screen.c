// SPDX-License-Identifier: Apache-2.0
/*
 * Following: draws the steps on a terminal, each time over what was drawn before
 *
 * Called by follow.c.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/follow.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "cli/view.h"
#include "cli/view_job.h"
#include "cli/view_step.h"

#define RECENT_MS 5000 /* for this time a finished step is chosen before waiting ones */
#define OTHER_LINES 3  /* of the screen: title, summary, cursor */

static int64_t elapsed(const struct follow_seen *seen, int64_t now)
{
    if (!seen || seen->began == 0)
        return VIEW_UNTIMED;
    return (seen->rested ? seen->rested : now) - seen->began;
}

/* Return: the rank of a step: steps of lower rank are chosen first. Lines keep the order of the
 * steps. */
static int rank(const struct follow_seen *seen, int64_t now)
{
    if (!seen || follow_changes_not_begun(seen->state))
        return 2;
    if (!follow_changes_at_rest(seen->state) ||
        seen->state == DROVER__V1__STEP_STATE__STEP_STATE_FAILED)
        return 0;
    return now - seen->rested < RECENT_MS ? 1 : 3;
}
#define RANKS 4

/* Chooses the steps that fit into @lines. Return: the number of those that do not. */
static size_t choose(const struct follow *f, const Drover__V1__JobStatus *status, size_t lines,
                     bool *chosen, int64_t now)
{
    size_t left = status->n_steps;

    if (left > lines)
        lines = lines > 1 ? lines - 1 : 0; /* one line says how many are left */
    for (int r = 0; r < RANKS; r++) {
        for (size_t i = 0; i < status->n_steps && lines > 0; i++) {
            if (rank(follow_changes_seen(f, status->steps[i]), now) != r)
                continue;
            chosen[i] = true;
            lines--;
            left--;
        }
    }
    return left;
}

/* Appends @text as one line of the screen, cut to @columns, and empties it. */
static void end_line(struct buf *out, struct buf *text, size_t columns)
{
    view_text(out, buf_str(text), columns);
    buf_putc(out, '\n');
    buf_clear(text);
}

bool follow_screen_summary_is_result(const struct follow *f)
{
    return !f->live || f->progress_to != stdout;
}

void follow_screen_summary(const struct follow *f, size_t columns, int64_t now, struct buf *out)
{
    CLEANUP(buf_deinit) struct buf text = {0};
    const Drover__V1__JobStatus *status = follow_status(f);

    view_job_progress(status, &text);
    buf_printf(&text, ", %s after ", view_job_state(status));
    view_duration(&text, view_span(status->created, status->now));
    if (status->error) {
        buf_puts(&text, ", because ");
        view_job_failure(status, &text);
    }
    if (now - f->answered > 5L * FOLLOW_POLL_MAX_MS) {
        buf_puts(&text, "; no answer for ");
        view_duration(&text, now - f->answered);
    }
    end_line(out, &text, columns);
}

static void put_steps(const struct follow *f, size_t lines, size_t columns, int64_t now,
                      struct buf *out)
{
    CLEANUP(table_deinit) struct table t = {.columns = VIEW_STEP_COLUMNS};
    CLEANUP(buf_deinit) struct buf text = {0};
    const Drover__V1__JobStatus *status = follow_status(f);
    CLEANUP(free) bool *chosen = or_abort(calloc(status->n_steps + 1, sizeof(bool)));
    size_t left = choose(f, status, lines, chosen, now);

    view_step_titles(&t, true);
    for (size_t i = 0; i < status->n_steps; i++)
        if (chosen[i])
            view_step_cells(&t, status->steps[i], status,
                            elapsed(follow_changes_seen(f, status->steps[i]), now));
    table_print(&t, cli_color(f->args, f->progress_to), columns, out);
    if (left > 0) {
        buf_printf(&text, "and %zu more", left);
        end_line(out, &text, columns);
    }
}

void follow_screen_draw(struct follow *f)
{
    CLEANUP(buf_deinit) struct buf out = {0};
    struct terminal_size size = terminal_size(f->progress_to);
    int64_t now = clock_monotonic_ms();
    size_t start;

    if (f->drawn > 0)
        buf_printf(&out, "\033[%zuA", f->drawn);
    buf_puts(&out, "\r\033[J");
    start = out.len;
    put_steps(f, size.lines > OTHER_LINES ? size.lines - OTHER_LINES : 1, size.columns, now, &out);
    if (!follow_has_ended(follow_status(f)) || !follow_screen_summary_is_result(f))
        follow_screen_summary(f, size.columns, now, &out);
    f->drawn = 0;
    for (size_t i = start; i < out.len; i++)
        f->drawn += out.data[i] == '\n';
    fputs(buf_str(&out), f->progress_to);
    fflush(f->progress_to);
}
