// SPDX-License-Identifier: Apache-2.0
/*
 * Views of jobs: their state, and all that a status shows
 *
 * See cli/view_job.h. Called by the commands that print jobs.
 */
#include "cli/view_job.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "cli/view_step.h"

const char *view_job_state(const Drover__V1__JobStatus *job)
{
    const char *outcome = view_word(&drover__v1__outcome__descriptor, (int)job->outcome);

    if (*outcome)
        return outcome;
    return job->parked > 0 ? "PARKED" : view_word(&drover__v1__phase__descriptor, (int)job->phase);
}

void view_job_failure(const Drover__V1__JobStatus *job, struct buf *out)
{
    const Drover__V1__Error *e = job->error;
    const char *const texts[] = {job->failed_step, e ? e->class_ : "", e ? e->message : ""};
    const char *between = "";

    for (size_t i = 0; i < array_size(texts); i++) {
        if (!*texts[i])
            continue;
        buf_puts(out, between);
        view_text(out, texts[i], 0);
        between = ": ";
    }
}

static enum view_color job_color(const Drover__V1__JobStatus *job)
{
    switch (job->outcome) {
    case DROVER__V1__OUTCOME__OUTCOME_UNSPECIFIED:
        return VIEW_BLUE;
    case DROVER__V1__OUTCOME__OUTCOME_SUCCEEDED:
        return VIEW_GREEN;
    case DROVER__V1__OUTCOME__OUTCOME_COMPENSATED:
    case DROVER__V1__OUTCOME__OUTCOME_CANCELLED:
        return VIEW_YELLOW;
    default:
        return VIEW_RED;
    }
}

/* Adds a line of the header if @text is not empty. */
static void line(struct table *t, const char *title, enum view_color color, const char *text)
{
    if (!*text)
        return;
    table_add(t, VIEW_BOLD, "%s", title);
    table_add(t, color, "%s", text);
}

static void line_time(struct table *t, const char *title, int64_t when, int64_t now)
{
    CLEANUP(buf_deinit) struct buf text = {0};
    char iso[CLOCK_ISO_LEN + 1];

    if (when <= 0)
        return;
    clock_iso(when, iso);
    buf_printf(&text, "%s (%s", iso, when > now ? "in " : "");
    view_duration(&text, when > now ? view_span(now, when) : view_span(when, now));
    buf_puts(&text, when > now ? ")" : " ago)");
    line(t, title, VIEW_PLAIN, buf_str(&text));
}

static void line_labels(struct table *t, const Drover__V1__JobStatus *job)
{
    CLEANUP(buf_deinit) struct buf text = {0};

    for (size_t i = 0; i < job->n_labels; i++)
        buf_printf(&text, "%s%s=%s", i > 0 ? ", " : "", job->labels[i]->name,
                   job->labels[i]->value);
    line(t, "Labels", VIEW_PLAIN, buf_str(&text));
}

static void line_state(struct table *t, const Drover__V1__JobStatus *job)
{
    CLEANUP(buf_deinit) struct buf text = {0};

    buf_puts(&text, view_job_state(job));
    if (*job->hold)
        buf_printf(&text, ", %s", job->hold);
    if (*job->reason)
        buf_printf(&text, " (%s)", job->reason);
    line(t, "State", job_color(job), buf_str(&text));
    buf_clear(&text);
    buf_printf(&text, "%s, desired %s",
               view_word(&drover__v1__state__descriptor, (int)job->current),
               view_word(&drover__v1__state__descriptor, (int)job->desired));
    line(t, "Current", VIEW_PLAIN, buf_str(&text));
}

static void line_held(struct table *t, const Drover__V1__JobStatus *job)
{
    CLEANUP(buf_deinit) struct buf text = {0};

    buf_printf(&text, "%s%s%s", job->held_by, *job->held_by && *job->held_reason ? ": " : "",
               job->held_reason);
    line(t, "Held by", VIEW_YELLOW, buf_str(&text));
}

static void line_failure(struct table *t, const Drover__V1__JobStatus *job)
{
    CLEANUP(buf_deinit) struct buf text = {0};

    view_job_failure(job, &text);
    line(t, "Because", VIEW_RED, buf_str(&text));
}

/* Such as "PARKED, step pay of actor billing, DECLINED". */
static void line_attention(struct table *t, const Drover__V1__JobStatus *job)
{
    CLEANUP(buf_deinit) struct buf text = {0};
    const Drover__V1__Attention *need = job->attention;

    if (!need)
        return;
    buf_puts(&text, view_word(&drover__v1__need__descriptor, (int)need->needs));
    if (*need->step)
        buf_printf(&text, ", step %s of actor %s", need->step, need->actor);
    buf_printf(&text, "%s%s", *need->error_class ? ", " : "", need->error_class);
    line(t, "Needs attention", VIEW_RED, buf_str(&text));
    line_time(t, "Since", need->since, job->now);
}

static void header(const Drover__V1__JobStatus *job, bool color, struct buf *out)
{
    CLEANUP(table_deinit) struct table t = {.columns = 2};
    CLEANUP(buf_deinit) struct buf steps = {0};

    buf_printf(&steps, "%" PRIu32 ", %" PRIu32 " open", job->steps_total, job->steps_open);
    line(&t, "Job", VIEW_PLAIN, job->job_id);
    line(&t, "Workflow", VIEW_PLAIN, job->workflow);
    line_state(&t, job);
    line_failure(&t, job);
    line_attention(&t, job);
    line_time(&t, "Next try", job->next_try_at, job->now);
    line(&t, "Steps", VIEW_PLAIN, buf_str(&steps));
    line_held(&t, job);
    line_time(&t, "Created", job->created, job->now);
    line_time(&t, "Updated", job->updated, job->now);
    line_time(&t, "Start at", job->start_at, job->now);
    line_time(&t, "Complete by", job->complete_by, job->now);
    line(&t, "Driven by", VIEW_PLAIN, job->locked_by);
    line(&t, "Submitter", VIEW_PLAIN, job->submitter);
    line_labels(&t, job);
    table_print(&t, color, 0, out);
}

/* Appends a text of several lines, each made harmless; a newline at the end adds no empty line. */
static void put_lines(struct buf *out, const char *text, size_t len)
{
    while (len > 0) {
        const char *end = memchr(text, '\n', len);
        size_t line = end ? (size_t)(end - text) : len;

        view_bytes(out, bytes_of(text, line), 0);
        len -= line + (end != NULL);
        text += line + (end != NULL);
        if (len > 0)
            buf_putc(out, '\n');
    }
}

static void put_payload(const char *title, const Drover__V1__Payload *p, struct buf *out)
{
    struct bytes data;

    if (!p)
        return;
    data = bytes_of(p->data.data, p->data.len);
    buf_putc(out, '\n');
    view_text(out, title, 0);
    if (*p->content_type) {
        buf_puts(out, " (");
        view_text(out, p->content_type, 0);
        buf_putc(out, ')');
    }
    buf_puts(out, ":\n");
    if (utf8_valid(data))
        put_lines(out, (const char *)data.data, data.len);
    else
        buf_printf(out, "%zu bytes", data.len);
    buf_putc(out, '\n');
}

static void put_details(const Drover__V1__StepStatus *step, struct buf *out)
{
    if (!step->last_error || !*step->last_error->details)
        return;
    buf_putc(out, '\n');
    view_text(out, step->name, 0);
    buf_puts(out, " error:\n");
    for (const char *text = step->last_error->details; *text;) {
        size_t len = strcspn(text, "\n");

        view_bytes(out, bytes_of(text, len), 0);
        buf_putc(out, '\n');
        text += len + (text[len] == '\n');
    }
}

void view_job(const Drover__V1__JobStatus *job, bool color, struct buf *out)
{
    CLEANUP(table_deinit) struct table t = {.columns = VIEW_STEP_COLUMNS};

    header(job, color, out);
    buf_putc(out, '\n');
    view_step_titles(&t, false);
    for (size_t i = 0; i < job->n_steps; i++)
        view_step_cells(&t, job->steps[i], job, VIEW_UNTIMED);
    table_print(&t, color, 0, out);
    put_payload("Input", job->input, out);
    for (size_t i = 0; i < job->n_steps; i++) {
        put_payload(job->steps[i]->name, job->steps[i]->result, out);
        put_details(job->steps[i], out);
    }
}

void view_job_progress(const Drover__V1__JobStatus *job, struct buf *out)
{
    static const struct {
        Drover__V1__StepState state;
        const char *word;
    } words[] = {
        {DROVER__V1__STEP_STATE__STEP_STATE_RUNNING, "running"},
        {DROVER__V1__STEP_STATE__STEP_STATE_REVERTING, "reverting"},
        {DROVER__V1__STEP_STATE__STEP_STATE_BACKOFF, "in backoff"},
        {DROVER__V1__STEP_STATE__STEP_STATE_PARKED, "parked"},
        {DROVER__V1__STEP_STATE__STEP_STATE_FAILED, "failed"},
    };
    uint32_t settled = job->steps_total - job->steps_open;

    view_bar(out, job->steps_total > 0 ? (double)settled / job->steps_total : 0, 22);
    buf_printf(out, " %" PRIu32 " of %" PRIu32 " settled", settled, job->steps_total);
    for (size_t i = 0; i < array_size(words); i++) {
        size_t n = 0;

        for (size_t k = 0; k < job->n_steps; k++)
            n += job->steps[k]->state == words[i].state;
        if (n > 0)
            buf_printf(out, ", %zu %s", n, words[i].word);
    }
}
