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
#include "cli/follow.h"

#include <stdlib.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/command_run.h"
#include "cli/connect.h"
#include "cli/load.h"
#include "cli/terminal.h"
#include "cli/view.h"
#include "cli/view_job.h"
#include "client/job_status.h"
#include "client/submit.h"
#include "model/json.h"

#define POLL_MIN_MS 250 /* between two questions while something changes */
#define POLL_SHARE 4    /* waits at least this many times what asking took: large jobs cost more */
#define QUERY_MS 10000  /* for one status; then the screen says that there is no answer */

static void follow_deinit(struct follow *f)
{
    wire_free(&f->current);
    free(f->seen);
}
static inline void follow_deinit_p(struct follow *f)
{
    follow_deinit(f);
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
    if (follow_status(f)) {
        f->job_known = true;
        follow_changes_take(f);
    }
    return 0;
}

static void put_end(const struct follow *f, struct buf *out)
{
    const Drover__V1__JobStatus *status = follow_status(f);

    switch (f->args->output) {
    case OUTPUT_TABLE:
        if (f->args->data)
            view_job(status, cli_color(f->args, stdout), out);
        else if (follow_screen_summary_is_result(f))
            follow_screen_summary(f, 0, f->answered, out);
        break;
    case OUTPUT_JSON:
        json_from_message(&status->base, out);
        buf_putc(out, '\n');
        break;
    case OUTPUT_JSONL:
        follow_changes_end(f, out);
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
    return cli_outcome_exit(follow_status(f)->outcome);
}

/* Stops following; the job goes on. If the job is known to exist, a broker that cannot be reached
 * counts as a timeout. */
static int stop_following(const struct follow *f, int error)
{
    if (f->job_known && error == SESSION_E_UNREACHABLE)
        error = SESSION_E_TIMEOUT;
    return cli_stop_following(f->session, error, f->job, f->job_known);
}

/* Whether asking again may help; not if the broker was never reached or refuses this user. */
static bool temporary(const struct follow *f, int error)
{
    return error == SESSION_E_TIMEOUT || (error == SESSION_E_UNREACHABLE && f->job_known);
}

/* Return: how long to wait before the next question if no event comes. */
static int64_t next_interval(const struct follow *f, int64_t interval, int64_t asked_ms)
{
    interval = f->changed ? POLL_MIN_MS : interval * 3 / 2;
    if (interval > FOLLOW_POLL_MAX_MS || f->gets_step_events)
        interval = FOLLOW_POLL_MAX_MS;
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
            return stop_following(f, r);
        if (r == 0 && !follow_status(f))
            return cli_answer_exit(f->current.answer);
        if (f->live && follow_status(f))
            follow_screen_draw(f);
        if (r == 0 && follow_has_ended(follow_status(f)))
            return finish(f, deadline);
        if (now >= deadline)
            return stop_following(f, SESSION_E_TIMEOUT);
        interval = r ? FOLLOW_POLL_MAX_MS : next_interval(f, interval, now - asked);
        if (wait_on(f, sooner(now + POLL_SHARE * (now - asked), deadline),
                    sooner(now + interval, deadline)))
            return stop_following(f, SESSION_E_INTERRUPTED);
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
    f->gets_step_events = job->events == DROVER__V1__EVENTS__EVENTS_STEP_REPLY &&
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

/* @f: progress_to, job_known and gets_step_events are set. */
static int follow_job(struct follow *f, const struct args *args, struct session *s, const char *job)
{
    f->args = args;
    f->session = s;
    f->job = job;
    f->live = args->output == OUTPUT_TABLE && terminal_redraws(f->progress_to);
    f->began = clock_monotonic_ms();
    return follow(f, connect_deadline(args, 0));
}

int cli_run(const struct args *args)
{
    CLEANUP(jobs_deinit) struct jobs jobs = {0};
    CLEANUP(session_free) struct session *s = NULL;
    CLEANUP(follow_deinit) struct follow f = {.progress_to = stderr, .job_known = true};
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
    CLEANUP(follow_deinit) struct follow f = {.progress_to = stdout};
    int r = connect_session(args, &s);

    return r ? r : follow_job(&f, args, s, args->operands[0]);
}
