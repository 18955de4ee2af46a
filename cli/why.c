// SPDX-License-Identifier: Apache-2.0
/*
 * Why: a reason code and a sentence for each step that is not where the job wants it (command why)
 *
 * The status has what the store knows. The broker knows whether queues have consumers: they are
 * inspected, except with --from-store. If no scheduler answers, only that is reported. Called by
 * command_run.c.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/command_run.h"
#include "cli/connect.h"
#include "cli/table.h"
#include "cli/view.h"
#include "cli/view_job.h"
#include "client/control.h"
#include "client/job_status.h"

#define NAMES_SHOWN 3   /* of the steps that a step waits for; of the others the number */
#define OVERDUE_MS 5000 /* a supervisor that runs has acted by then */
#define ERROR_COLUMNS 120

/* A task queue that was inspected. */
struct looked {
    const char *actor;
    struct session_queue queue;
};

/* What is known about a step besides its status. */
struct about {
    struct buf names; /* of the steps that it waits for, NAMES_SHOWN at most */
    uint32_t waits;   /* their number */
    int64_t unheard;  /* Unix ms: the first request after which no agent answered; 0: unknown */
    const char *code; /* NULL if it is where the job wants it */
    struct buf sentence;
};

struct why {
    const struct args *args;
    struct session *session;
    int64_t deadline;
    const Drover__V1__JobStatus *job;
    struct about *about;   /* for each step of the job */
    struct looked *looked; /* task queues */
    size_t n_looked;
    struct session_queue replies; /* unknown with --from-store */
    const char *code;             /* of the job */
    struct buf sentence;
};

static void why_deinit(struct why *why)
{
    for (size_t i = 0; why->job && why->about && i < why->job->n_steps; i++) {
        buf_deinit(&why->about[i].names);
        buf_deinit(&why->about[i].sentence);
    }
    free(why->about);
    free(why->looked);
    buf_deinit(&why->sentence);
}

/* ---- the steps that a step waits for ---- */

static bool under_way(const Drover__V1__StepStatus *step)
{
    switch (step->state) {
    case DROVER__V1__STEP_STATE__STEP_STATE_RUNNING:
    case DROVER__V1__STEP_STATE__STEP_STATE_REVERTING:
    case DROVER__V1__STEP_STATE__STEP_STATE_BACKOFF:
    case DROVER__V1__STEP_STATE__STEP_STATE_PARKED:
    case DROVER__V1__STEP_STATE__STEP_STATE_FAILED:
        return true;
    default:
        return false;
    }
}

/* Whether a step is where the job wants it, and at rest. */
static bool is_there(const Drover__V1__StepStatus *step)
{
    return step->current == step->desired && !under_way(step);
}

static int by_name(const void *a, const void *b)
{
    Drover__V1__StepStatus *const *x = a, *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

static void add_wait(struct about *a, const char *name)
{
    if (a->waits++ < NAMES_SHOWN)
        buf_printf(&a->names, "%s`%s`", a->names.len > 0 ? ", " : "", name);
}

/* Counts one dependency of step @i: on the way forward the step waits for it, on the way back it
 * waits for the step. @places: the steps, sorted by_name(). */
static void take_edge(struct why *why, Drover__V1__StepStatus **places, size_t i, const char *name)
{
    Drover__V1__JobStatus *job = (Drover__V1__JobStatus *)why->job;
    Drover__V1__StepStatus key = {.name = (char *)name}, *pointer = &key;
    Drover__V1__StepStatus **found =
        bsearch(&pointer, places, job->n_steps, sizeof(*places), by_name);

    if (!found)
        return;
    if (job->desired == DROVER__V1__STATE__STATE_ACTIVE && !is_there(*found))
        add_wait(&why->about[i], name);
    else if (job->desired == DROVER__V1__STATE__STATE_DISABLED && !is_there(job->steps[i]) &&
             (*found)->index < job->n_steps)
        add_wait(&why->about[(*found)->index], job->steps[i]->name);
}

/* Return: 0 or -ENOMEM. */
static int find_waits(struct why *why)
{
    const Drover__V1__JobStatus *job = why->job;
    Drover__V1__StepStatus **places = calloc(job->n_steps + 1, sizeof(*places));

    if (!places)
        return -ENOMEM;
    if (job->n_steps > 0)
        memcpy(places, job->steps, job->n_steps * sizeof(*places));
    qsort(places, job->n_steps, sizeof(*places), by_name);
    for (size_t i = 0; i < job->n_steps; i++)
        for (size_t k = 0; k < job->steps[i]->n_after; k++)
            take_edge(why, places, i, job->steps[i]->after[k]);
    free(places);
    return 0;
}

/* ---- inspecting queues ---- */

static bool in_flight(const Drover__V1__StepStatus *step)
{
    return step->state == DROVER__V1__STEP_STATE__STEP_STATE_RUNNING ||
           step->state == DROVER__V1__STEP_STATE__STEP_STATE_REVERTING;
}

static bool needs_agent(const Drover__V1__StepStatus *step)
{
    return in_flight(step) ||
           (step->state == DROVER__V1__STEP_STATE__STEP_STATE_BACKOFF && step->unstarted > 0);
}

static const struct session_queue *queue_of(const struct why *why, const char *actor)
{
    for (size_t i = 0; i < why->n_looked; i++)
        if (strcmp(why->looked[i].actor, actor) == 0)
            return &why->looked[i].queue;
    return NULL;
}

/* Return: as session_inspect(). */
static int look_at_actor(struct why *why, const char *actor)
{
    char name[SESSION_QUEUE_MAX + 1];
    struct looked *more = reallocarray(why->looked, why->n_looked + 1, sizeof(*more));
    struct looked *l;
    int r;

    if (!more)
        return -ENOMEM;
    why->looked = more;
    l = &more[why->n_looked];
    l->actor = actor;
    snprintf(name, sizeof(name), "drover.task.%s", actor);
    r = session_inspect(why->session, name, why->deadline, &l->queue);
    why->n_looked += r == 0;
    return r;
}

static int look_at_queues(struct why *why)
{
    int r = session_inspect(why->session, "drover.replies", why->deadline, &why->replies);

    for (size_t i = 0; i < why->job->n_steps && r == 0; i++) {
        const Drover__V1__StepStatus *step = why->job->steps[i];

        if (needs_agent(step) && !queue_of(why, step->actor))
            r = look_at_actor(why, step->actor);
    }
    return r;
}

/* ---- since when no agent has answered ---- */

static void take_entry(struct why *why, const Drover__V1__HistoryEntry *e)
{
    for (size_t i = 0; *e->step && i < why->job->n_steps; i++) {
        if (!needs_agent(why->job->steps[i]) || strcmp(why->job->steps[i]->name, e->step) != 0)
            continue;
        if (strcmp(e->event, "dispatched") != 0)
            why->about[i].unheard = strcmp(e->event, "unstarted") == 0 ||
                                            strcmp(e->event, "silent") == 0 ||
                                            strcmp(e->event, "unroutable") == 0
                                        ? why->about[i].unheard
                                        : 0;
        else if (why->about[i].unheard == 0)
            why->about[i].unheard = e->at;
    }
}

/* Reads the history page after page. If that fails the sentences have no times. */
static void read_history(struct why *why)
{
    uint64_t from = 1;
    size_t n;

    do {
        CLEANUP(wire_free) struct wire_message answer = {0};

        if (control_history(why->session, why->job->job_id, from, why->deadline, &answer))
            return;
        n = answer.answer->n_history;
        for (size_t i = 0; i < n; i++)
            take_entry(why, answer.answer->history[i]);
        from = n > 0 ? answer.answer->history[n - 1]->seq + 1 : from;
    } while (n > 0);
}

/* Whether the request of a step is, or was last, in a queue without consumers. Not if an agent has
 * begun it: an agent whose slots are all taken stops consuming. */
static bool is_alone(const struct why *why, const Drover__V1__StepStatus *step)
{
    const struct session_queue *queue = needs_agent(step) ? queue_of(why, step->actor) : NULL;

    return queue && queue->consumers == 0 && !step->begun &&
           (queue->messages > 0 || step->unstarted > 0);
}

static bool anybody_alone(const struct why *why)
{
    for (size_t i = 0; i < why->job->n_steps; i++)
        if (is_alone(why, why->job->steps[i]))
            return true;
    return false;
}

/* ---- sentences ---- */

/* Appends a time such as "12:03:10Z", with the date if that is another day. */
static void put_time(struct buf *out, int64_t when, int64_t now)
{
    char iso[CLOCK_ISO_LEN + 1], today[CLOCK_ISO_LEN + 1];

    clock_iso(when, iso);
    clock_iso(now, today);
    if (strncmp(iso, today, strlen("2026-01-31T")) == 0)
        buf_printf(out, "%.8sZ", iso + strlen("2026-01-31T"));
    else
        buf_printf(out, "%.19sZ", iso);
}

static void put_agent(struct buf *out, const Drover__V1__StepStatus *step)
{
    if (!*step->agent)
        return;
    buf_puts(out, ", at agent ");
    view_text(out, step->agent, 0);
}

static void put_last_error(struct buf *out, const Drover__V1__StepStatus *step)
{
    const Drover__V1__Error *e = step->last_error;

    if (!e || (!*e->class_ && !*e->message))
        return;
    buf_printf(out, ", last error ");
    view_text(out, e->class_, 0);
    buf_puts(out, *e->class_ && *e->message ? ": " : "");
    view_text(out, e->message, ERROR_COLUMNS);
    put_agent(out, step);
}

/* Such as " after 3 of 10 failures and 1 of 5 leases that ended without an answer". */
static void put_counts(struct buf *out, const Drover__V1__StepStatus *step)
{
    if (step->failures > 0)
        buf_printf(out, " after %" PRIu32 " of %" PRIu32 " failures", step->failures,
                   step->maximum_attempts);
    if (step->expiries > 0)
        buf_printf(out, " %s %" PRIu32 " of %" PRIu32 " leases that ended without an answer",
                   step->failures > 0 ? "and" : "after", step->expiries, step->maximum_expiries);
}

static void put_next(struct buf *out, const struct why *why, const Drover__V1__StepStatus *step)
{
    if (step->until <= 0)
        return;
    buf_puts(out, ", next ");
    put_time(out, step->until, why->job->now);
    if (*why->job->hold)
        buf_puts(out, " if the job is resumed by then");
}

static void put_unstarted(struct buf *out, const Drover__V1__StepStatus *step)
{
    if (step->unstarted > 0)
        buf_printf(out, ", %" PRIu32 " request%s not taken", step->unstarted,
                   step->unstarted == 1 ? " was" : "s were");
}

/* Appends @state, after "its undo " and @verb if it is about the undo of the step. */
static void put_subject(struct buf *out, const Drover__V1__StepStatus *step, const char *verb,
                        const char *state)
{
    buf_printf(out, "%s%s%s", step->undo ? "its undo " : "", step->undo ? verb : "", state);
}

static void put_overdue(struct buf *out, const struct why *why)
{
    if (why->args->from_store)
        buf_puts(out, "; no supervisor has looked since, or nobody reads `drover.replies`");
    else if (why->replies.consumers == 0)
        buf_puts(out, "; nothing expires while nobody reads `drover.replies`");
    else if (why->replies.messages > 0)
        buf_printf(out, "; expiry waits for the %" PRIu32 " messages in `drover.replies`",
                   why->replies.messages);
    else
        buf_puts(out, "; no supervisor has looked since: is one running?");
}

static const char *say_no_agent(const struct why *why, const Drover__V1__StepStatus *step,
                                struct about *a)
{
    buf_printf(&a->sentence, "no agent on `drover.task.%s`", step->actor);
    if (a->unheard > 0) {
        buf_puts(&a->sentence, " since ");
        put_time(&a->sentence, a->unheard, why->job->now);
    }
    put_unstarted(&a->sentence, step);
    return "NO_AGENT";
}

static const char *say_leased(const struct why *why, const Drover__V1__StepStatus *step,
                              struct about *a)
{
    const struct session_queue *queue = queue_of(why, step->actor);
    bool overdue = view_span(step->until, why->job->now) > OVERDUE_MS;

    if (is_alone(why, step))
        return say_no_agent(why, step, a);
    if (overdue)
        buf_puts(&a->sentence, "its lease ended ");
    else
        put_subject(&a->sentence, step, "is ", "leased until ");
    put_time(&a->sentence, step->until, why->job->now);
    if (overdue)
        put_overdue(&a->sentence, why);
    else if (queue && queue->messages > 0 && !step->begun)
        buf_printf(&a->sentence,
                   ", or one of the %" PRIu32 " requests that wait in `drover.task.%s`",
                   queue->messages, step->actor);
    if (!overdue && step->unstarted > 0 && !step->begun)
        buf_printf(&a->sentence, ", after %" PRIu32 " that no agent is known to have begun",
                   step->unstarted);
    put_agent(&a->sentence, step);
    if (*step->note) {
        buf_puts(&a->sentence, ", ");
        view_text(&a->sentence, step->note, ERROR_COLUMNS);
    }
    return overdue ? "OVERDUE" : "LEASED";
}

static const char *say_backoff(const struct why *why, const Drover__V1__StepStatus *step,
                               struct about *a)
{
    bool overdue = view_span(step->until, why->job->now) > OVERDUE_MS;

    if (is_alone(why, step))
        return say_no_agent(why, step, a);
    if (*why->job->hold && step->until <= why->job->now) {
        buf_puts(&a->sentence, "to be tried again when the job is resumed");
        put_last_error(&a->sentence, step);
        return "HELD";
    }
    put_subject(&a->sentence, step, "is ", "backing off");
    put_counts(&a->sentence, step);
    put_unstarted(&a->sentence, step);
    put_next(&a->sentence, why, step);
    put_last_error(&a->sentence, step);
    if (overdue)
        put_overdue(&a->sentence, why);
    return overdue ? "OVERDUE" : "BACKOFF";
}

/* Appends a command that the user can give, for a job and perhaps one of its steps. */
static void put_advice(struct buf *out, const char *before, const char *job, const char *step)
{
    buf_puts(out, before);
    view_text(out, job, 0);
    buf_puts(out, *step ? " " : "");
    view_text(out, step, 0);
    buf_putc(out, '`');
}

static const char *say_parked(const struct why *why, const Drover__V1__StepStatus *step,
                              struct about *a)
{
    put_subject(&a->sentence, step, "is ", "parked");
    put_counts(&a->sentence, step);
    put_next(&a->sentence, why, step);
    put_last_error(&a->sentence, step);
    if (step->until <= 0)
        put_advice(&a->sentence, "; until somebody says `drover retry ", why->job->job_id,
                   step->name);
    return "PARKED";
}

static const char *say_failed(const struct why *why, const Drover__V1__StepStatus *step,
                              struct about *a)
{
    put_subject(&a->sentence, step, "has ", "failed for good");
    put_counts(&a->sentence, step);
    put_last_error(&a->sentence, step);
    return "FAILED";
}

static const char *say_resting(const struct why *why, struct about *a)
{
    if (*why->job->ending) {
        buf_puts(&a->sentence, "not sent any more, because the job ends");
        return "ENDING";
    }
    if (a->waits > 0) {
        buf_printf(&a->sentence, "waits for %s", buf_str(&a->names));
        if (a->waits > NAMES_SHOWN)
            buf_printf(&a->sentence, " and %" PRIu32 " more", a->waits - NAMES_SHOWN);
        return "WAITS";
    }
    if (why->job->phase == DROVER__V1__PHASE__PHASE_PENDING) {
        buf_puts(&a->sentence, "the job has not started");
        return "PENDING";
    }
    if (*why->job->hold) {
        buf_puts(&a->sentence, "to be sent when the job is resumed");
        return "HELD";
    }
    if (why->job->changing) {
        buf_puts(&a->sentence, "waits until a step is undone, for a change of the job");
        return "CHANGE";
    }
    buf_puts(&a->sentence, "is sent next");
    return "NEXT";
}

static const char *say_step(const struct why *why, const Drover__V1__StepStatus *step,
                            struct about *a)
{
    switch (step->state) {
    case DROVER__V1__STEP_STATE__STEP_STATE_RUNNING:
    case DROVER__V1__STEP_STATE__STEP_STATE_REVERTING:
        return job_status_has_ended(why->job) ? NULL : say_leased(why, step, a);
    case DROVER__V1__STEP_STATE__STEP_STATE_BACKOFF:
        return job_status_has_ended(why->job) ? NULL : say_backoff(why, step, a);
    case DROVER__V1__STEP_STATE__STEP_STATE_PARKED:
        return job_status_has_ended(why->job) ? NULL : say_parked(why, step, a);
    case DROVER__V1__STEP_STATE__STEP_STATE_FAILED:
        return say_failed(why, step, a);
    default:
        return job_status_has_ended(why->job) || is_there(step) ? NULL : say_resting(why, a);
    }
}

/* ---- the sentence about the job ---- */

static void say_held(struct buf *out, const Drover__V1__JobStatus *job)
{
    bool late = strcmp(job->hold, "deadline") == 0;

    buf_printf(out, "held%s", late ? " past its complete_by" : "");
    if (*job->held_by) {
        buf_puts(out, " by ");
        view_text(out, job->held_by, 0);
    }
    if (job->held_at > 0) {
        buf_puts(out, " since ");
        put_time(out, job->held_at, job->now);
    }
    if (*job->held_reason) {
        buf_puts(out, ", reason: ");
        view_text(out, job->held_reason, 0);
    }
    put_advice(out, "; `drover resume ", job->job_id, "");
    buf_puts(out, " lets it go on");
}

/* Appends the deadline if it still bounds the job. */
static void put_bound(struct buf *out, const Drover__V1__JobStatus *job)
{
    if (job->desired != DROVER__V1__STATE__STATE_ACTIVE || job->complete_by <= job->now)
        return;
    buf_puts(out, "; to be complete by ");
    put_time(out, job->complete_by, job->now);
}

static const char *say_job(const Drover__V1__JobStatus *job, struct buf *out)
{
    if (job_status_has_ended(job)) {
        buf_printf(out, "has ended: %s%s", view_job_state(job), *job->reason ? ", " : "");
        view_text(out, job->reason, 0);
        return "ENDED";
    }
    if (*job->hold) {
        say_held(out, job);
        return "HELD";
    }
    if (job->phase == DROVER__V1__PHASE__PHASE_PENDING) {
        buf_puts(out, job->start_at < job->now ? "was to start " : "starts ");
        put_time(out, job->start_at, job->now);
        if (view_span(job->start_at, job->now) > OVERDUE_MS)
            buf_puts(out, "; no supervisor has looked since: is one running?");
        return "PENDING";
    }
    if (*job->ending) {
        buf_puts(out, "ends as FAILED, ");
        view_text(out, job->ending, 0);
        buf_puts(out, ", when nothing is in flight any more");
        return "ENDING";
    }
    if (job->next_try_at > 0) {
        buf_puts(out, "was taken back, and is brought forward again ");
        put_time(out, job->next_try_at, job->now);
        return "RESTS";
    }
    buf_printf(out, "%" PRIu32 " of %" PRIu32 " steps are not %s yet", job->steps_open,
               job->steps_total, view_word(&drover__v1__state__descriptor, (int)job->desired));
    buf_puts(out, *job->cause ? "; turned: " : "");
    view_text(out, job->cause, 0);
    put_bound(out, job);
    return "PROCESSING";
}

/* ---- output ---- */

static void print_table(struct why *why)
{
    CLEANUP(table_deinit) struct table t = {.columns = 3};
    CLEANUP(buf_deinit) struct buf out = {0};

    buf_printf(&out, "%s %s: %s\n", why->args->operands[0], why->code, buf_str(&why->sentence));
    for (size_t i = 0; why->about && i < why->job->n_steps; i++) {
        if (!why->about[i].code)
            continue;
        table_add(&t, VIEW_BOLD, "%s", why->job->steps[i]->name);
        table_add(&t, VIEW_PLAIN, "%s", why->about[i].code);
        table_add(&t, VIEW_PLAIN, "%s", buf_str(&why->about[i].sentence));
    }
    table_print(&t, cli_color(why->args, stdout), 0, &out);
    fputs(buf_str(&out), stdout);
}

/* Appends the members of a JSON object. */
static void put_reason(const char *of, const char *name, const char *code,
                       const struct buf *sentence, struct buf *out)
{
    buf_printf(out, "\"%s\":", of);
    buf_json(out, name, strlen(name));
    buf_printf(out, ",\"code\":\"%s\",\"why\":", code);
    buf_json(out, (const char *)sentence->data, sentence->len);
}

static void print_json(struct why *why)
{
    CLEANUP(buf_deinit) struct buf out = {0};
    const char *between = "";

    buf_putc(&out, '{');
    put_reason("jobId", why->args->operands[0], why->code, &why->sentence, &out);
    buf_puts(&out, ",\"steps\":[");
    for (size_t i = 0; why->about && i < why->job->n_steps; i++) {
        const struct about *about = &why->about[i];

        if (!about->code)
            continue;
        buf_printf(&out, "%s{", between);
        put_reason("step", why->job->steps[i]->name, about->code, &about->sentence, &out);
        buf_putc(&out, '}');
        between = ",";
    }
    buf_puts(&out, "]}");
    puts(buf_str(&out));
}

static void print_ids(const struct why *why)
{
    for (size_t i = 0; why->about && i < why->job->n_steps; i++) {
        CLEANUP(buf_deinit) struct buf out = {0};

        if (!why->about[i].code)
            continue;
        view_text(&out, why->job->steps[i]->name, 0);
        puts(buf_str(&out));
    }
}

static void print(struct why *why)
{
    switch (why->args->output) {
    case OUTPUT_TABLE:
        print_table(why);
        break;
    case OUTPUT_JSON:
    case OUTPUT_JSONL:
        print_json(why);
        break;
    case OUTPUT_ID:
        print_ids(why);
        break;
    }
}

/* ---- asking ---- */

/* Reports that the schedulers have not answered. */
static void say_schedulers(struct why *why, const struct session_queue *control)
{
    why->code = control->consumers == 0 ? "NO_SCHEDULER" : "NO_ANSWER";
    buf_puts(&why->sentence, control->consumers == 0
                                 ? "the schedulers are not consuming"
                                 : "the schedulers consume, and do not answer: is the store up?");
    buf_printf(&why->sentence, "; waiting: %" PRIu32 " in `drover.control`", control->messages);
    if (session_inspect(why->session, "drover.replies", why->deadline, &why->replies) == 0)
        buf_printf(&why->sentence, ", %" PRIu32 " in `drover.replies`", why->replies.messages);
    print(why);
}

/* Return: the exit code. */
static int explain(struct why *why)
{
    int r = 0;

    why->about = calloc(why->job->n_steps + 1, sizeof(*why->about));
    if (!why->about)
        r = -ENOMEM;
    if (r == 0)
        r = find_waits(why);
    if (r == 0 && !job_status_has_ended(why->job) && !why->args->from_store)
        r = look_at_queues(why);
    if (r)
        return cli_session_problem(why->session, r);
    if (anybody_alone(why))
        read_history(why);
    why->code = say_job(why->job, &why->sentence);
    for (size_t i = 0; i < why->job->n_steps; i++)
        why->about[i].code = say_step(why, why->job->steps[i], &why->about[i]);
    print(why);
    return CLI_OK;
}

/* Return: the exit code. */
static int ask_store(struct why *why, struct wire_message *answer)
{
    int r = job_status_read(why->session, why->args->operands[0], false, why->deadline, answer);

    return r ? cli_session_problem(why->session, r) : cli_answer_exit(answer->answer);
}

/* Asks the schedulers, or reports what is wrong with them. Return: the exit code. */
static int ask_schedulers(struct why *why, struct wire_message *answer)
{
    struct session_queue control;
    int r = session_inspect(why->session, "drover.control", why->deadline, &control);

    if (r)
        return cli_session_problem(why->session, r);
    if (control.consumers == 0) {
        say_schedulers(why, &control);
        return CLI_UNREACHABLE;
    }
    r = job_status_read(why->session, why->args->operands[0], false, why->deadline, answer);
    if (r == SESSION_E_TIMEOUT) {
        why->deadline = SESSION_FOREVER; /* an inspection has a time limit of its own */
        say_schedulers(why, &control);
    }
    return r ? cli_session_problem(why->session, r) : cli_answer_exit(answer->answer);
}

static int ask(struct why *why, struct wire_message *answer)
{
    int r = why->args->from_store ? ask_store(why, answer) : ask_schedulers(why, answer);

    why->job = r ? NULL : answer->answer->status;
    return why->job ? explain(why) : r;
}

int cli_why(const struct args *args)
{
    CLEANUP(session_free) struct session *s = NULL;
    CLEANUP(wire_free) struct wire_message answer = {0};
    struct why why = {.args = args, .deadline = connect_deadline(args, CONNECT_ANSWER_MS)};
    int r = connect_session(args, &s);

    if (r)
        return r;
    why.session = s;
    r = ask(&why, &answer);
    why_deinit(&why);
    return r;
}
