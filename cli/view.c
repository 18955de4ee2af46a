// SPDX-License-Identifier: Apache-2.0
/*
 * Views: formats values, tables, steps and jobs as text
 *
 * See cli/view.h.
 */
#include "cli/view.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "client/job_status.h"

#define GAP "  " /* between columns */

bool view_color_wanted(bool tty, bool no_color_flag, const char *no_color, const char *term)
{
    return tty && !no_color_flag && !(no_color && *no_color) && term && *term &&
           strcmp(term, "dumb") != 0;
}

/* ---- single values ---- */

static size_t columns_of(const char *text, size_t len)
{
    size_t columns = 0;

    for (size_t i = 0; i < len; columns++) {
        size_t n = utf8_length(text + i, len - i);

        i += n ? n : 1;
    }
    return columns;
}

static void put_text(struct buf *out, const char *text, size_t len, size_t max)
{
    size_t columns = columns_of(text, len);
    size_t room = max && columns > max ? (max > 3 ? max - 3 : 0) : columns;

    for (size_t i = 0; room > 0; room--) {
        size_t n = utf8_length(text + i, len - i);

        if (utf8_is_harmful(text + i, n))
            buf_putc(out, '?');
        else
            buf_append(out, text + i, n);
        i += n ? n : 1;
    }
    if (max && columns > max)
        buf_append(out, "...", max < 3 ? max : 3);
}

void view_text(struct buf *out, const char *text, size_t max)
{
    put_text(out, text, strlen(text), max);
}

void view_duration(struct buf *out, int64_t ms)
{
    static const struct {
        int64_t ms;
        const char *unit;
        int64_t part_ms;
        const char *part;
    } units[] = {
        {86400000, "d", 3600000, "h"},
        {3600000, "h", 60000, "m"},
        {60000, "m", 1000, "s"},
    };

    if (ms < 0)
        ms = 0;
    for (size_t i = 0; i < array_size(units); i++) {
        if (ms < units[i].ms)
            continue;
        buf_printf(out, "%" PRId64 "%s%02" PRId64 "%s", ms / units[i].ms, units[i].unit,
                   ms % units[i].ms / units[i].part_ms, units[i].part);
        return;
    }
    if (ms >= 1000)
        buf_printf(out, "%" PRId64 ".%" PRId64 "s", ms / 1000, ms % 1000 / 100);
    else
        buf_printf(out, "%" PRId64 "ms", ms);
}

int64_t view_span(int64_t from, int64_t to)
{
    int64_t ms;

    if (__builtin_sub_overflow(to, from, &ms))
        return to > from ? INT64_MAX : INT64_MIN;
    return ms;
}

void view_moment(struct buf *out, int64_t unix_ms)
{
    char iso[CLOCK_ISO_LEN + 1];

    clock_iso(unix_ms, iso);
    buf_puts(out, iso);
}

const char *view_word(const ProtobufCEnumDescriptor *type, int value)
{
    const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value(type, value);
    const char *suffix = strstr(type->values[0].name, "UNSPECIFIED");

    if (!v || value == 0 || !suffix)
        return "";
    return v->name + (suffix - type->values[0].name);
}

/* QUEUED: the step has heartbeats, so an agent would have sent Progress when it began: no agent has
 * the request. SENT: without heartbeats a missing Progress says nothing. */
const char *view_step_state(const Drover__V1__StepStatus *step)
{
    bool in_flight = step->state == DROVER__V1__STEP_STATE__STEP_STATE_RUNNING ||
                     step->state == DROVER__V1__STEP_STATE__STEP_STATE_REVERTING;

    if (in_flight && !step->begun)
        return step->heartbeat_ms > 0 ? "QUEUED" : "SENT";
    return view_word(&drover__v1__step_state__descriptor, (int)step->state);
}

void view_bar(struct buf *out, double fraction, size_t width)
{
    size_t inner = width > 2 ? width - 2 : 0;
    size_t full = !(fraction > 0) ? 0 : fraction >= 1 ? inner : (size_t)(fraction * (double)inner);

    buf_putc(out, '[');
    for (size_t i = 0; i < inner; i++)
        buf_putc(out, i < full ? '#' : '-');
    buf_putc(out, ']');
}

/* ---- tables ---- */

struct table_cell {
    size_t begin; /* in table.text */
    size_t len;
    enum view_color color;
};

static const char *const COLORS[] = {
    [VIEW_PLAIN] = "",        [VIEW_BOLD] = "\033[1m",   [VIEW_DIM] = "\033[2m",
    [VIEW_RED] = "\033[31m",  [VIEW_GREEN] = "\033[32m", [VIEW_YELLOW] = "\033[33m",
    [VIEW_BLUE] = "\033[34m",
};

void table_deinit(struct table *t)
{
    buf_deinit(&t->text);
    buf_deinit(&t->cells);
}

void table_add(struct table *t, enum view_color color, const char *format, ...)
{
    struct table_cell cell = {.begin = t->text.len, .color = color};
    char *text;
    va_list ap;
    int n;

    va_start(ap, format);
    n = vasprintf(&text, format, ap);
    va_end(ap);
    if (n < 0) {
        t->text.failed = true;
        return;
    }
    put_text(&t->text, text, (size_t)n, 0);
    free(text);
    cell.len = t->text.len - cell.begin;
    buf_append(&t->cells, &cell, sizeof(cell));
}

static const struct table_cell *cells_of(const struct table *t, size_t *rows)
{
    *rows = t->cells.len / sizeof(struct table_cell) / t->columns;
    return (const void *)t->cells.data;
}

static size_t cell_columns(const struct table *t, const struct table_cell *cell)
{
    return columns_of((const char *)t->text.data + cell->begin, cell->len);
}

static void print_cell(const struct table *t, const struct table_cell *cell, bool color,
                       size_t room, struct buf *out)
{
    color = color && cell->color != VIEW_PLAIN && cell->len > 0;
    if (color)
        buf_puts(out, COLORS[cell->color]);
    put_text(out, (const char *)t->text.data + cell->begin, cell->len, room);
    if (color)
        buf_puts(out, "\033[0m");
}

/* Pads before a cell that is not empty, not after one, so that no line ends with spaces. */
static void print_row(const struct table *t, const struct table_cell *row, const size_t *widths,
                      bool color, size_t width, struct buf *out)
{
    size_t at = 0, column = 0; /* columns written so far; where the cell begins */

    for (size_t i = 0; i<t->columns; column += widths[i]> 0 ? widths[i] + strlen(GAP) : 0, i++) {
        size_t len = cell_columns(t, &row[i]);

        if (len == 0 || (width && column >= width))
            continue;
        buf_printf(out, "%*s", (int)(column - at), "");
        print_cell(t, &row[i], color, width ? width - column : 0, out);
        at = column + (width && len > width - column ? width - column : len);
    }
    buf_putc(out, '\n');
}

size_t table_print(const struct table *t, bool color, size_t width, struct buf *out)
{
    size_t widths[TABLE_COLUMNS_MAX] = {0};
    size_t rows;
    const struct table_cell *cells = cells_of(t, &rows);

    if (t->text.failed || t->cells.failed) {
        out->failed = true;
        return 0;
    }
    for (size_t i = 0; i < rows * t->columns; i++) {
        size_t columns = cell_columns(t, &cells[i]);

        if (columns > widths[i % t->columns])
            widths[i % t->columns] = columns;
    }
    for (size_t i = 0; i < rows; i++)
        print_row(t, cells + i * t->columns, widths, color, width, out);
    return rows;
}

/* ---- steps ---- */

static enum view_color state_color(Drover__V1__StepState state)
{
    switch (state) {
    case DROVER__V1__STEP_STATE__STEP_STATE_RUNNING:
        return VIEW_BLUE;
    case DROVER__V1__STEP_STATE__STEP_STATE_DONE:
        return VIEW_GREEN;
    case DROVER__V1__STEP_STATE__STEP_STATE_BACKOFF:
    case DROVER__V1__STEP_STATE__STEP_STATE_PARKED:
    case DROVER__V1__STEP_STATE__STEP_STATE_REVERTING:
    case DROVER__V1__STEP_STATE__STEP_STATE_REVERTED:
        return VIEW_YELLOW;
    case DROVER__V1__STEP_STATE__STEP_STATE_FAILED:
        return VIEW_RED;
    default:
        return VIEW_DIM;
    }
}

/* Appends the separator before every part except the first. */
static void part(struct buf *out, size_t begin)
{
    if (out->len > begin)
        buf_puts(out, ", ");
}

static void detail_progress(const Drover__V1__StepStatus *step, struct buf *out, size_t begin)
{
    if (step->fraction > 0 && step->fraction <= 1) {
        part(out, begin);
        view_bar(out, step->fraction, 12);
        buf_printf(out, " %.0f%%", step->fraction * 100);
    }
    if (*step->note) {
        part(out, begin);
        buf_puts(out, step->note);
    }
}

static void detail_counts(const Drover__V1__StepStatus *step, struct buf *out, size_t begin)
{
    const struct {
        uint32_t n;
        const char *one;
        const char *many;
    } counts[] = {
        {step->failures, "failure", "failures"},
        {step->expiries, "lease expired", "leases expired"},
        {step->unstarted, "request that no agent took", "requests that no agent took"},
    };

    for (size_t i = 0; i < array_size(counts); i++) {
        if (counts[i].n == 0)
            continue;
        part(out, begin);
        buf_printf(out, "%" PRIu32 " %s", counts[i].n,
                   counts[i].n == 1 ? counts[i].one : counts[i].many);
    }
}

static void detail_error(const Drover__V1__StepStatus *step, struct buf *out, size_t begin)
{
    const Drover__V1__Error *e = step->last_error;

    if (!e || (!*e->class_ && !*e->message))
        return;
    part(out, begin);
    buf_printf(out, "%s%s%s", e->class_, *e->class_ && *e->message ? ": " : "", e->message);
}

static void detail_until(const char *what, int64_t until, int64_t now, struct buf *out,
                         size_t begin)
{
    if (until <= 0)
        return;
    part(out, begin);
    buf_puts(out, what);
    view_duration(out, view_span(now, until));
}

/* Only Kill ends a job while a step is in flight; it does not stop the handler. */
static void detail_flight(const Drover__V1__StepStatus *step, const Drover__V1__JobStatus *job,
                          struct buf *out, size_t begin)
{
    bool ended = job_status_has_ended(job);

    detail_progress(step, out, begin);
    if (ended) {
        part(out, begin);
        buf_puts(out, "in flight when the job ended");
    }
    if (!ended || step->until > job->now)
        detail_until(ended ? "an agent may be at it for " : "lease ends in ", step->until, job->now,
                     out, begin);
}

void view_step_detail(const Drover__V1__StepStatus *step, const Drover__V1__JobStatus *job,
                      struct buf *out)
{
    size_t begin = out->len;

    switch (step->state) {
    case DROVER__V1__STEP_STATE__STEP_STATE_WAITING:
        if (step->waiting > 0 && !job_status_has_ended(job))
            buf_printf(out, "waits for %" PRIu32 " of %zu", step->waiting, step->n_after);
        break;
    case DROVER__V1__STEP_STATE__STEP_STATE_RUNNING:
    case DROVER__V1__STEP_STATE__STEP_STATE_REVERTING:
        detail_flight(step, job, out, begin);
        break;
    case DROVER__V1__STEP_STATE__STEP_STATE_BACKOFF:
    case DROVER__V1__STEP_STATE__STEP_STATE_PARKED:
        if (!job_status_has_ended(job))
            detail_until("next try in ", step->until, job->now, out, begin);
        break;
    default:
        break;
    }
    if (step->state != DROVER__V1__STEP_STATE__STEP_STATE_DONE) {
        detail_counts(step, out, begin);
        detail_error(step, out, begin);
    }
    if (*step->agent) {
        part(out, begin);
        buf_printf(out, "at %s", step->agent);
    }
}

void view_step_titles(struct table *t, bool timed)
{
    static const char *const titles[] = {"STEP", "ACTOR", "STATE", "ATTEMPT"};

    for (size_t i = 0; i < array_size(titles); i++)
        table_add(t, VIEW_BOLD, "%s", titles[i]);
    table_add(t, VIEW_BOLD, "%s", timed ? "ELAPSED" : "");
    table_add(t, VIEW_BOLD, "DETAIL");
}

void view_step_cells(struct table *t, const Drover__V1__StepStatus *step,
                     const Drover__V1__JobStatus *job, int64_t elapsed_ms)
{
    CLEANUP(buf_deinit) struct buf elapsed = {0};
    CLEANUP(buf_deinit) struct buf detail = {0};

    if (elapsed_ms >= 0)
        view_duration(&elapsed, elapsed_ms);
    view_step_detail(step, job, &detail);
    table_add(t, VIEW_PLAIN, "%s", step->name);
    table_add(t, VIEW_DIM, "%s", step->actor);
    table_add(t, state_color(step->state), "%s", view_step_state(step));
    if (step->attempt > 0)
        table_add(t, VIEW_PLAIN, "%" PRIu32, step->attempt);
    else
        table_add(t, VIEW_PLAIN, "%s", "");
    table_add(t, VIEW_DIM, "%s", buf_str(&elapsed));
    table_add(t, VIEW_PLAIN, "%s", buf_str(&detail));
}

/* ---- jobs ---- */

const char *view_job_state(const Drover__V1__JobStatus *job)
{
    const char *outcome = view_word(&drover__v1__outcome__descriptor, (int)job->outcome);

    if (*outcome)
        return outcome;
    return job->parked > 0 ? "PARKED" : view_word(&drover__v1__phase__descriptor, (int)job->phase);
}

void view_failure(const Drover__V1__JobStatus *job, struct buf *out)
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

    view_failure(job, &text);
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

        put_text(out, text, line, 0);
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

        put_text(out, text, len, 0);
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

void view_progress(const Drover__V1__JobStatus *job, struct buf *out)
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

void view_receipt(const Drover__V1__Receipt *receipt, struct buf *out)
{
    view_text(out, receipt->job_id, 0);
    buf_printf(out, " %s", view_word(&drover__v1__receipt_code__descriptor, (int)receipt->code));
    if (receipt->steps > 0)
        buf_printf(out, ", %" PRIu32 " step%s", receipt->steps, receipt->steps == 1 ? "" : "s");
    if (*receipt->workflow) {
        buf_puts(out, " of ");
        view_text(out, receipt->workflow, 0);
    }
    if (*receipt->field || *receipt->reason) {
        buf_puts(out, ": ");
        view_text(out, receipt->field, 0);
        buf_puts(out, *receipt->field && *receipt->reason ? ": " : "");
        view_text(out, receipt->reason, 0);
    }
    buf_putc(out, '\n');
}
