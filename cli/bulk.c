// SPDX-License-Identifier: Apache-2.0
/*
 * Bulk: gives one command to all jobs that a filter finds
 *
 * Lists the jobs page after page and sends --rps commands a second, each for its job as it was
 * listed (cli/steering.h). Called by steer.c, for --where.
 */
#include "cli/bulk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/connect.h"
#include "cli/list_filter.h"
#include "cli/terminal.h"
#include "cli/view.h"
#include "cli/view_job.h"
#include "client/control.h"
#include "model/json.h"

#define RPS_DEFAULT 50
#define PAGE 50        /* jobs listed at a time; few, because a listed status becomes outdated */
#define IDS_SHOWN 3    /* of the jobs that were refused for one reason; of the others the number */
#define REASONS_MAX 20 /* in the summary; the last one stands for all others */

/* The jobs that were refused for one reason. */
struct refusal {
    Drover__V1__AnswerCode code;
    char *reason;
    struct buf ids;
    uint64_t n;
};

struct bulk {
    const struct steering *steering;
    const struct args *args;
    struct session *session;
    struct list_filter filter;
    char next[WIRE_CURSOR_MAX + 1]; /* where the next page begins; "": it is the first one */
    int64_t began;                  /* of the first command; monotonic ms */
    int64_t deadline; /* of all commands; for each answer there are CONNECT_ANSWER_MS at most */
    bool progress;    /* standard error is a terminal */
    uint64_t seen, shown, done, unchanged, refused;
    struct refusal refusals[REASONS_MAX];
    size_t n_refusals;
};

static void bulk_deinit(struct bulk *b)
{
    list_filter_deinit(&b->filter);
    for (size_t i = 0; i < b->n_refusals; i++) {
        free(b->refusals[i].reason);
        buf_deinit(&b->refusals[i].ids);
    }
}

static int64_t answer_by(const struct bulk *b)
{
    int64_t by = clock_monotonic_ms() + CONNECT_ANSWER_MS;

    return by < b->deadline ? by : b->deadline;
}

/* ---- refusals ---- */

/* Return: the entry for the reason of an answer; the last one if there are too many reasons. NULL
 * if memory is out. */
static struct refusal *refusal_of(struct bulk *b, const Drover__V1__Answer *answer)
{
    struct refusal *r;

    for (size_t i = 0; i < b->n_refusals; i++)
        if (b->refusals[i].code == answer->code &&
            strcmp(b->refusals[i].reason, answer->reason) == 0)
            return &b->refusals[i];
    if (b->n_refusals == REASONS_MAX)
        return &b->refusals[REASONS_MAX - 1];
    r = &b->refusals[b->n_refusals];
    r->reason = strdup(b->n_refusals == REASONS_MAX - 1 ? "and other reasons" : answer->reason);
    if (!r->reason)
        return NULL;
    r->code = answer->code;
    b->n_refusals++;
    return r;
}

static int refuse(struct bulk *b, const Drover__V1__Answer *answer)
{
    struct refusal *r = refusal_of(b, answer);

    if (!r)
        return -ENOMEM;
    if (r->n++ < IDS_SHOWN) {
        buf_puts(&r->ids, r->ids.len > 0 ? ", " : "");
        view_text(&r->ids, answer->job_id, 0);
    }
    b->refused++;
    return 0;
}

static void put_refusal(struct refusal *r, struct buf *out)
{
    buf_printf(out, "%6" PRIu64 " %s: ", r->n,
               view_word(&drover__v1__answer_code__descriptor, (int)r->code));
    view_text(out, r->reason, 0);
    buf_printf(out, " (%s", buf_str(&r->ids));
    if (r->n > IDS_SHOWN)
        buf_printf(out, " and %" PRIu64 " more", r->n - IDS_SHOWN);
    buf_puts(out, ")\n");
}

/* ---- output ---- */

static void print_progress(const struct bulk *b)
{
    if (b->progress)
        fprintf(stderr, "\r%" PRIu64 " jobs, %" PRIu64 " refused", b->seen, b->refused);
}

static void print_end(struct bulk *b)
{
    CLEANUP(buf_deinit) struct buf out = {0};

    if (b->args->output == OUTPUT_JSON)
        puts(b->shown == 0 ? "[]" : "]");
    fflush(stdout);
    if (b->progress && b->seen > 0)
        buf_puts(&out, "\r\033[K");
    buf_printf(&out, "%" PRIu64 " job%s", b->seen, b->seen == 1 ? "" : "s");
    if (b->args->dry_run)
        buf_puts(&out, ", and nothing was changed\n");
    else
        buf_printf(&out, ": %" PRIu64 " done, %" PRIu64 " already so, %" PRIu64 " refused\n",
                   b->done, b->unchanged, b->refused);
    for (size_t i = 0; i < b->n_refusals; i++)
        put_refusal(&b->refusals[i], &out);
    fputs(buf_str(&out), stderr);
}

static void print_answer(struct bulk *b, const Drover__V1__Answer *answer, bool good)
{
    CLEANUP(buf_deinit) struct buf out = {0};

    if (b->args->output == OUTPUT_JSON) {
        buf_puts(&out, b->shown++ == 0 ? "[" : ",\n");
        json_from_message(&answer->base, &out);
        fputs(buf_str(&out), stdout);
    } else if (good || b->args->output == OUTPUT_JSONL) {
        steering_print(b->steering, answer);
    }
    fflush(stdout);
}

static void print_listed(struct bulk *b, const Drover__V1__JobStatus *job)
{
    CLEANUP(buf_deinit) struct buf out = {0};

    if (b->args->output == OUTPUT_JSON || b->args->output == OUTPUT_JSONL)
        json_from_message(&job->base, &out);
    else
        view_text(&out, job->job_id, 0);
    if (b->args->output == OUTPUT_TABLE) {
        buf_printf(&out, " %s%s", view_job_state(job), *job->hold ? ", " : "");
        view_text(&out, job->hold, 0);
    }
    if (b->args->output == OUTPUT_JSON)
        fputs(b->shown++ == 0 ? "[" : ",\n", stdout);
    fputs(buf_str(&out), stdout);
    if (b->args->output != OUTPUT_JSON)
        putchar('\n');
}

/* ---- listing and commanding ---- */

/* Return: as session_ask(). */
static int steer_one(struct bulk *b, const Drover__V1__JobStatus *job)
{
    CLEANUP(wire_free) struct wire_message answer = {0};
    bool done, unchanged;
    int r = steering_ask(b->session, b->steering, job, answer_by(b), &answer);

    if (r)
        return r;
    done = answer.answer->code == DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE;
    unchanged = answer.answer->code == DROVER__V1__ANSWER_CODE__ANSWER_CODE_UNCHANGED;
    b->done += done;
    b->unchanged += unchanged;
    print_answer(b, answer.answer, done || unchanged);
    return done || unchanged ? 0 : refuse(b, answer.answer);
}

/* Waits until the next command may be sent. Return: as session_wait(). */
static int pace(struct bulk *b)
{
    int64_t rps = b->args->rps ? b->args->rps : RPS_DEFAULT;
    int64_t now = clock_monotonic_ms(), next;

    if (b->seen == 0)
        b->began = now;
    next = b->began + (int64_t)b->seen * 1000 / rps;
    return next > now ? session_wait(b->session, next < b->deadline ? next : b->deadline) : 0;
}

static int take_job(struct bulk *b, const Drover__V1__JobStatus *job)
{
    int r = b->args->dry_run ? 0 : pace(b);

    if (r)
        return r;
    b->seen++;
    if (b->args->dry_run)
        print_listed(b, job);
    else
        r = steer_one(b, job);
    print_progress(b);
    return r;
}

static uint32_t page_size(const struct bulk *b)
{
    uint64_t left = b->args->limit ? (uint64_t)b->args->limit - b->seen : PAGE;

    return left < PAGE ? (uint32_t)left : PAGE;
}

/* Return: as session_ask(); on 0 *code is the exit code of the answers to ListJobs. */
static int take_all(struct bulk *b, int *code)
{
    int r = 0;

    do {
        CLEANUP(wire_free) struct wire_message answer = {0};

        b->filter.question.after = b->next;
        b->filter.question.limit = page_size(b);
        r = control_list_jobs(b->session, &b->filter.question, answer_by(b), &answer);
        if (r)
            return r;
        *code = cli_answer_exit(answer.answer);
        if (*code == CLI_OK && !list_filter_applied(b->args, answer.answer)) {
            *code = CLI_ERROR;
            return 0;
        }
        for (size_t i = 0; i < answer.answer->n_jobs && r == 0; i++)
            r = take_job(b, answer.answer->jobs[i]);
        snprintf(b->next, sizeof(b->next), "%s", answer.answer->next);
    } while (r == 0 && *code == CLI_OK && *b->next && page_size(b) > 0);
    return r;
}

int bulk(const struct steering *steering)
{
    CLEANUP(session_free) struct session *s = NULL;
    struct bulk b = {.steering = steering,
                     .args = steering->args,
                     .deadline = connect_deadline(steering->args, 0),
                     .progress = terminal_is(stderr)};
    int code = CLI_OK, r = connect_session(b.args, &s);

    if (r)
        return r;
    b.session = s;
    list_filter_init(&b.filter, b.args);
    r = take_all(&b, &code);
    if ((r == 0 && code == CLI_OK) || b.seen > 0)
        print_end(&b);
    if (r)
        code = cli_session_problem(s, r);
    else if (code == CLI_OK && b.refused > 0)
        code = CLI_CONFLICT;
    bulk_deinit(&b);
    return code;
}
