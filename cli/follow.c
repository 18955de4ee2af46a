// SPDX-License-Identifier: Apache-2.0
/*
 * Following: shows a job until it ends (commands run and watch)
 *
 * For `watch` the progress is the result and goes to standard output; for `run` only the end of the
 * job is, and the progress goes to standard error. JSON is a result for both.
 *
 * What is shown is made from the whole status of the job. `run` submits the job with step events,
 * and asks for the status when one comes; also once a second, because an event may get lost.
 * `watch`, for a job of another client, asks repeatedly. So no change is missed for good. Called by
 * command_run.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/command_run.h"
#include "cli/connect.h"
#include "cli/load.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "cli/view.h"
#include "cli/view_job.h"
#include "cli/view_step.h"
#include "client/job_status.h"
#include "client/submit.h"
#include "model/json.h"

#define POLL_MIN_MS 250  /* between two questions while something changes */
#define POLL_MAX_MS 1000 /* while nothing changes; times on the screen change as often */
#define POLL_SHARE 4     /* waits at least this many times what asking took: large jobs cost more */
#define QUERY_MS 10000   /* for one status; then the screen says that there is no answer */
#define RECENT_MS 5000   /* how long a step that came to rest is still preferred for a line */
#define OTHER_LINES 3    /* of the screen: title, summary, cursor */

/* What was last shown of a step. Times are monotonic ms, 0 for never. */
struct seen {
    Drover__V1__StepState state;
    uint32_t attempt;
    int64_t began;  /* left WAITING */
    int64_t rested; /* came to rest */
};

struct follow {
    const struct args *args;
    struct session *session;
    const char *job;
    FILE *progress; /* where changes are shown as text */
    bool live;      /* redraws instead of appending */
    bool there;     /* a receipt or a status has shown that the job exists */
    bool hears;     /* this process gets the step events of the job */
    int64_t began;
    int64_t answered;            /* when the last status came; monotonic ms */
    struct wire_message current; /* the newest Answer */
    struct seen *seen;           /* by index of the step */
    size_t n_seen;
    bool changed;
    size_t drawn; /* lines on the screen */
};

static void follow_deinit(struct follow *f)
{
    wire_free(&f->current);
    free(f->seen);
}
static inline void follow_deinit_p(struct follow *f)
{
    follow_deinit(f);
}

static const Drover__V1__JobStatus *status_of(const struct follow *f)
{
    return f->current.answer ? f->current.answer->status : NULL;
}

static bool at_rest(Drover__V1__StepState state)
{
    return state == DROVER__V1__STEP_STATE__STEP_STATE_DONE ||
           state == DROVER__V1__STEP_STATE__STEP_STATE_REVERTED ||
           state == DROVER__V1__STEP_STATE__STEP_STATE_SKIPPED ||
           state == DROVER__V1__STEP_STATE__STEP_STATE_FAILED;
}

static bool not_begun(Drover__V1__StepState state)
{
    return state == DROVER__V1__STEP_STATE__STEP_STATE_WAITING ||
           state == DROVER__V1__STEP_STATE__STEP_STATE_UNSPECIFIED;
}

static bool ended(const Drover__V1__JobStatus *status)
{
    return status->phase == DROVER__V1__PHASE__PHASE_PROCESSED ||
           status->phase == DROVER__V1__PHASE__PHASE_ERROR;
}

/* ---- appending ---- */

static void put_line(const struct follow *f, const Drover__V1__StepStatus *step, struct buf *out)
{
    CLEANUP(buf_deinit) struct buf detail = {0};

    buf_putc(out, '+');
    view_duration(out, clock_monotonic_ms() - f->began);
    buf_putc(out, ' ');
    view_text(out, step->name, 0);
    buf_printf(out, " %s", view_step_state(step));
    if (step->attempt > 1)
        buf_printf(out, ", attempt %u", step->attempt);
    if (step->state != DROVER__V1__STEP_STATE__STEP_STATE_DONE) /* `get` shows its agent */
        view_step_detail(step, status_of(f), &detail);
    if (detail.len > 0) {
        buf_puts(out, ": ");
        view_text(out, buf_str(&detail), 0);
    }
    buf_putc(out, '\n');
}

static void event_init(const struct follow *f, Drover__V1__JobEvent *m)
{
    const Drover__V1__JobStatus *status = status_of(f);

    drover__v1__job_event__init(m);
    m->job_id = status->job_id;
    m->workflow = status->workflow;
    m->seq = status->seq;
    m->at = status->now;
    m->turn = status->turn;
    m->phase = status->phase;
    m->outcome = status->outcome;
    m->reason = status->reason;
    m->steps_total = status->steps_total;
    m->steps_open = status->steps_open;
}

static void put_event(const Drover__V1__JobEvent *m, struct buf *out)
{
    json_from_message(&m->base, out);
    buf_putc(out, '\n');
}

static void put_step_event(const struct follow *f, const Drover__V1__StepStatus *step,
                           struct buf *out)
{
    Drover__V1__JobEvent m;

    event_init(f, &m);
    m.kind = DROVER__V1__EVENT_KIND__EVENT_KIND_STEP;
    m.step = step->name;
    m.step_state = step->state;
    m.attempt = step->attempt;
    m.error = step->last_error;
    put_event(&m, out);
}

static void put_change(const struct follow *f, const Drover__V1__StepStatus *step, struct buf *out)
{
    if (f->args->output == OUTPUT_TABLE && !f->live)
        put_line(f, step, out);
    else if (f->args->output == OUTPUT_JSONL)
        put_step_event(f, step, out);
}

static FILE *changes_to(const struct follow *f)
{
    return f->args->output == OUTPUT_TABLE ? f->progress : stdout;
}

/* Return: NULL for a step with an index beyond those that the job has had. */
static struct seen *seen_of(const struct follow *f, const Drover__V1__StepStatus *step)
{
    return step->index < f->n_seen ? &f->seen[step->index] : NULL;
}

static void take_step(struct follow *f, const Drover__V1__StepStatus *step, struct buf *out)
{
    struct seen *seen = seen_of(f, step);
    int64_t now = clock_monotonic_ms();

    if (!seen || (seen->state == step->state && seen->attempt == step->attempt))
        return;
    if (not_begun(seen->state) && !not_begun(step->state) && !at_rest(step->state))
        seen->began = now;
    seen->rested = at_rest(step->state) ? now : 0;
    if (!not_begun(seen->state) || !not_begun(step->state))
        put_change(f, step, out);
    seen->state = step->state;
    seen->attempt = step->attempt;
    f->changed = true;
}

/* Compares the status with what was shown last, and appends the changes. */
static void take_status(struct follow *f)
{
    CLEANUP(buf_deinit) struct buf out = {0};
    const Drover__V1__JobStatus *status = status_of(f);
    size_t total = job_status_steps(status);

    if (f->n_seen < total) { /* the first time, and after a migration to more steps */
        f->seen = or_abort(reallocarray(f->seen, total, sizeof(*f->seen)));
        memset(f->seen + f->n_seen, 0, (total - f->n_seen) * sizeof(*f->seen));
        f->n_seen = total;
    }
    f->changed = false;
    for (size_t i = 0; i < status->n_steps; i++)
        take_step(f, status->steps[i], &out);
    fputs(buf_str(&out), changes_to(f));
    fflush(changes_to(f));
}

/* ---- redrawing ---- */

static int64_t elapsed(const struct seen *seen, int64_t now)
{
    if (!seen || seen->began == 0)
        return VIEW_UNTIMED;
    return (seen->rested ? seen->rested : now) - seen->began;
}

/* Return: the rank of a step for a line on the screen; lower ranks come first. */
static int rank(const struct seen *seen, int64_t now)
{
    if (!seen || not_begun(seen->state))
        return 2;
    if (!at_rest(seen->state) || seen->state == DROVER__V1__STEP_STATE__STEP_STATE_FAILED)
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
            if (rank(seen_of(f, status->steps[i]), now) != r)
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

/* Whether the summary is printed at the end, as the result, instead of with the progress. */
static bool summary_is_result(const struct follow *f)
{
    return !f->live || f->progress != stdout;
}

static void put_summary(const struct follow *f, size_t columns, int64_t now, struct buf *out)
{
    CLEANUP(buf_deinit) struct buf text = {0};
    const Drover__V1__JobStatus *status = status_of(f);

    view_job_progress(status, &text);
    buf_printf(&text, ", %s after ", view_job_state(status));
    view_duration(&text, view_span(status->created, status->now));
    if (status->error) {
        buf_puts(&text, ", because ");
        view_job_failure(status, &text);
    }
    if (now - f->answered > 5L * POLL_MAX_MS) {
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
    const Drover__V1__JobStatus *status = status_of(f);
    CLEANUP(free) bool *chosen = or_abort(calloc(status->n_steps + 1, sizeof(bool)));
    size_t left = choose(f, status, lines, chosen, now);

    view_step_titles(&t, true);
    for (size_t i = 0; i < status->n_steps; i++)
        if (chosen[i])
            view_step_cells(&t, status->steps[i], status,
                            elapsed(seen_of(f, status->steps[i]), now));
    table_print(&t, cli_color(f->args, f->progress), columns, out);
    if (left > 0) {
        buf_printf(&text, "and %zu more", left);
        end_line(out, &text, columns);
    }
}

static void draw(struct follow *f)
{
    CLEANUP(buf_deinit) struct buf out = {0};
    struct terminal_size size = terminal_size(f->progress);
    int64_t now = clock_monotonic_ms();
    size_t start;

    if (f->drawn > 0)
        buf_printf(&out, "\033[%zuA", f->drawn);
    buf_puts(&out, "\r\033[J");
    start = out.len;
    put_steps(f, size.lines > OTHER_LINES ? size.lines - OTHER_LINES : 1, size.columns, now, &out);
    if (!ended(status_of(f)) || !summary_is_result(f))
        put_summary(f, size.columns, now, &out);
    f->drawn = 0;
    for (size_t i = start; i < out.len; i++)
        f->drawn += out.data[i] == '\n';
    fputs(buf_str(&out), f->progress);
    fflush(f->progress);
}

/* ---- the loop ---- */

/* Asks for the status and shows it; keeps the old one if there is no answer. */
static int refresh(struct follow *f, int64_t deadline)
{
    CLEANUP(wire_free) struct wire_message answer = {0};
    int64_t limit = clock_monotonic_ms() + QUERY_MS;
    int r =
        job_status_read(f->session, f->job, false, limit < deadline ? limit : deadline, &answer);

    if (r)
        return r;
    wire_free(&f->current);
    f->current = answer;
    answer = (struct wire_message){0};
    f->answered = clock_monotonic_ms();
    if (status_of(f)) {
        f->there = true;
        take_status(f);
    }
    return 0;
}

static void put_end(const struct follow *f, struct buf *out)
{
    const Drover__V1__JobStatus *status = status_of(f);
    Drover__V1__JobEvent m;

    switch (f->args->output) {
    case OUTPUT_TABLE:
        if (f->args->data)
            view_job(status, cli_color(f->args, stdout), out);
        else if (summary_is_result(f))
            put_summary(f, 0, f->answered, out);
        break;
    case OUTPUT_JSON:
        json_from_message(&status->base, out);
        buf_putc(out, '\n');
        break;
    case OUTPUT_JSONL:
        event_init(f, &m);
        m.kind = DROVER__V1__EVENT_KIND__EVENT_KIND_SETTLED;
        m.step = status->failed_step;
        m.error = status->error;
        put_event(&m, out);
        break;
    case OUTPUT_ID:
        break;
    }
}

static int finish(struct follow *f, int64_t deadline)
{
    CLEANUP(buf_deinit) struct buf out = {0};
    CLEANUP(wire_free) struct wire_message answer = {0};
    int r = f->args->data ? job_status_read(f->session, f->job, true, deadline, &answer) : 0;

    if (r)
        return cli_session_problem(f->session, r);
    if (answer.answer && answer.answer->status) {
        wire_free(&f->current);
        f->current = answer;
        answer = (struct wire_message){0};
    }
    put_end(f, &out);
    fputs(buf_str(&out), stdout);
    return cli_outcome_exit(status_of(f)->outcome);
}

/* Stops following; the job goes on. If the job is known to exist, a broker that cannot be reached
 * counts as a timeout. */
static int leave(const struct follow *f, int error)
{
    if (f->there && error == SESSION_E_UNREACHABLE)
        error = SESSION_E_TIMEOUT;
    return cli_stop_following(f->session, error, f->job, f->there);
}

/* Whether asking again may help; not if the broker was never reached or refuses this user. */
static bool temporary(const struct follow *f, int error)
{
    return error == SESSION_E_TIMEOUT || (error == SESSION_E_UNREACHABLE && f->there);
}

/* Return: how long to wait before the next question if no event comes. */
static int64_t next_interval(const struct follow *f, int64_t interval, int64_t asked_ms)
{
    interval = f->changed ? POLL_MIN_MS : interval * 3 / 2;
    if (interval > POLL_MAX_MS || f->hears)
        interval = POLL_MAX_MS;
    return interval > POLL_SHARE * asked_ms ? interval : POLL_SHARE * asked_ms;
}

/* Waits until @next or a step event, but at least until @earliest. */
static int wait_on(struct follow *f, int64_t earliest, int64_t next)
{
    int r = session_wait(f->session, next);

    while (r == 0 && clock_monotonic_ms() < earliest)
        r = session_wait(f->session, earliest);
    return r;
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int follow(struct follow *f, int64_t deadline)
{
    int64_t interval = POLL_MIN_MS;

    for (;;) {
        int64_t asked = clock_monotonic_ms(), now;
        int r = refresh(f, deadline);

        now = clock_monotonic_ms();
        if (r && (!temporary(f, r) || now >= deadline))
            return leave(f, r);
        if (r == 0 && !status_of(f))
            return cli_answer_exit(f->current.answer);
        if (f->live && status_of(f))
            draw(f);
        if (r == 0 && ended(status_of(f)))
            return finish(f, deadline);
        if (now >= deadline)
            return leave(f, SESSION_E_TIMEOUT);
        interval = r ? POLL_MAX_MS : next_interval(f, interval, now - asked);
        if (wait_on(f, sooner(now + POLL_SHARE * (now - asked), deadline),
                    sooner(now + interval, deadline)))
            return leave(f, SESSION_E_INTERRUPTED);
    }
}

/* ---- the command ---- */

static int submit_it(struct follow *f, struct session *s, Drover__V1__Submit *job,
                     const struct args *args)
{
    CLEANUP(wire_free) struct wire_message receipt = {0};
    CLEANUP(buf_deinit) struct buf text = {0};
    int r;

    if (job->events == DROVER__V1__EVENTS__EVENTS_UNSPECIFIED)
        job->events = DROVER__V1__EVENTS__EVENTS_STEP_REPLY;
    r = submit_job(s, job, connect_deadline(args, CONNECT_ANSWER_MS), &receipt);

    if (r) {
        cli_complain("job %s is not known to be recorded; its id makes it safe to run again",
                     job->job_id);
        return cli_session_problem(s, r);
    }
    r = cli_receipt_exit(receipt.receipt);
    f->hears = job->events == DROVER__V1__EVENTS__EVENTS_STEP_REPLY &&
               receipt.receipt->code == DROVER__V1__RECEIPT_CODE__RECEIPT_CODE_CREATED;
    if (r == CLI_OK && args->output == OUTPUT_ID) {
        puts(job->job_id);
        fflush(stdout);
    } else {
        view_receipt(receipt.receipt, &text);
        fputs(buf_str(&text), stderr);
    }
    return r;
}

/* @f: progress, there and hears are set. */
static int follow_job(struct follow *f, const struct args *args, struct session *s, const char *job)
{
    f->args = args;
    f->session = s;
    f->job = job;
    f->live = args->output == OUTPUT_TABLE && terminal_redraws(f->progress);
    f->began = clock_monotonic_ms();
    return follow(f, connect_deadline(args, 0));
}

int cli_run(const struct args *args)
{
    CLEANUP(jobs_deinit) struct jobs jobs = {0};
    CLEANUP(session_free) struct session *s = NULL;
    CLEANUP(follow_deinit) struct follow f = {.progress = stderr, .there = true};
    struct problem problem = {0};
    int r = load_jobs(args, &jobs, &problem);

    if (r)
        return load_complain(r, &problem);
    if (jobs.n != 1) {
        cli_complain("run follows one job, and there are %zu: use submit", jobs.n);
        return CLI_USAGE;
    }
    r = connect_session(args, &s);
    if (r == CLI_OK)
        r = submit_it(&f, s, jobs.items[0], args);
    return r ? r : follow_job(&f, args, s, jobs.items[0]->job_id);
}

int cli_watch(const struct args *args)
{
    CLEANUP(session_free) struct session *s = NULL;
    CLEANUP(follow_deinit) struct follow f = {.progress = stdout};
    int r = connect_session(args, &s);

    return r ? r : follow_job(&f, args, s, args->operands[0]);
}
