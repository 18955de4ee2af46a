// SPDX-License-Identifier: Apache-2.0
/*
 * Status: turns what the store has of a job and its steps into JobStatus and StepStatus messages
 *
 * See model/status.h; common/store/job.lua explains the record of a step.
 */
#include "model/status.h"

#include <stdio.h>
#include <string.h>

static int word_of(struct bytes word, const char *const *words, int n)
{
    for (int i = 1; i < n; i++)
        if (words[i] && bytes_is(word, words[i]))
            return i;
    return 0;
}

Drover__V1__Phase status_phase(struct bytes word)
{
    static const char *const words[] = {
        [DROVER__V1__PHASE__PHASE_PENDING] = "PENDING",
        [DROVER__V1__PHASE__PHASE_PROCESSING] = "PROCESSING",
        [DROVER__V1__PHASE__PHASE_PROCESSED] = "PROCESSED",
        [DROVER__V1__PHASE__PHASE_ERROR] = "ERROR",
    };

    return (Drover__V1__Phase)word_of(word, words, array_size(words));
}

Drover__V1__Outcome status_outcome(struct bytes word)
{
    static const char *const words[] = {
        [DROVER__V1__OUTCOME__OUTCOME_SUCCEEDED] = "SUCCEEDED",
        [DROVER__V1__OUTCOME__OUTCOME_COMPENSATED] = "COMPENSATED",
        [DROVER__V1__OUTCOME__OUTCOME_CANCELLED] = "CANCELLED",
        [DROVER__V1__OUTCOME__OUTCOME_FAILED] = "FAILED",
        [DROVER__V1__OUTCOME__OUTCOME_COMPENSATION_FAILED] = "COMPENSATION_FAILED",
        [DROVER__V1__OUTCOME__OUTCOME_KILLED] = "KILLED",
    };

    return (Drover__V1__Outcome)word_of(word, words, array_size(words));
}

static Drover__V1__State state_of(char letter)
{
    if (letter == STATE_ACTIVE)
        return DROVER__V1__STATE__STATE_ACTIVE;
    if (letter == STATE_UNKNOWN)
        return DROVER__V1__STATE__STATE_UNKNOWN;
    return DROVER__V1__STATE__STATE_DISABLED;
}

/* The state that StepStatus shows for a record; no machine reads it. @back: the job goes back. */
static Drover__V1__StepState wording(const struct ops_step_record *r, bool back)
{
    switch (r->state) {
    case STEP_IN_FLIGHT:
        return r->asked == STATE_ACTIVE ? DROVER__V1__STEP_STATE__STEP_STATE_RUNNING
                                        : DROVER__V1__STEP_STATE__STEP_STATE_REVERTING;
    case STEP_BACKING_OFF:
    case STEP_RECOVERY_REQUESTED:
        return DROVER__V1__STEP_STATE__STEP_STATE_BACKOFF;
    case STEP_PARKED:
        return DROVER__V1__STEP_STATE__STEP_STATE_PARKED;
    case STEP_FAILED:
        return DROVER__V1__STEP_STATE__STEP_STATE_FAILED;
    default:
        break;
    }
    if (r->current == STATE_ACTIVE)
        return DROVER__V1__STEP_STATE__STEP_STATE_DONE;
    if (!back || r->current == STATE_UNKNOWN)
        return DROVER__V1__STEP_STATE__STEP_STATE_WAITING;
    return r->asked == STATE_DISABLED ? DROVER__V1__STEP_STATE__STEP_STATE_REVERTED
                                      : DROVER__V1__STEP_STATE__STEP_STATE_SKIPPED;
}

/* Splits "agent note" behind the '@', where the name of the agent may be empty. Records that a
 * scheduler of a build before 46 has made have no '@'. */
static void take_agent(Drover__V1__StepStatus *m)
{
    char *end = strchr(m->note, ' ');

    if (!end)
        return;
    *end = '\0';
    m->agent = m->note;
    m->note = end + 1;
}

static void set_progress(struct effects *fx, Drover__V1__StepStatus *m, struct bytes progress,
                         const char *token)
{
    const char *text = effects_text(fx, progress);
    char seen[WIRE_TOKEN_MAX + 1];
    int used = 0;

    if (sscanf(text, "%64s %*s %lf%n", seen, &m->fraction, &used) == 2 &&
        strcmp(seen, token) == 0 && text[used]) {
        m->begun = true;
        m->note = (char *)text + used + 1;
        if (text[used] == '@')
            take_agent(m);
    } else {
        m->fraction = 0;
    }
}

/* The terms of the dispatch that is in flight, or of the next one. */
static void set_terms(Drover__V1__StepStatus *m, const struct workflow_dispatch *d)
{
    m->actor = (char *)d->actor;
    m->maximum_attempts = d->policy.maximum_attempts;
    m->maximum_expiries = d->policy.maximum_expiries;
    m->heartbeat_ms = d->heartbeat_ms;
}

/* A timer of a direction that the job has left is void, also before the walk has reached the step.
 * The same rule is record_of() in dispatch.lua. */
static void drop_timer(struct ops_step_record *r, uint32_t since)
{
    if (r->since < since && r->state != STEP_IN_FLIGHT) {
        r->state = STEP_AT_REST;
        r->until = 0;
    }
}

static void set_record(struct effects *fx, Drover__V1__StepStatus *m, const struct ops_step *from,
                       const struct workflow_step *step, const struct ops_job *job)
{
    bool back = ops_letter(job->desired) == STATE_DISABLED;
    struct ops_step_record r = {.current = STATE_DISABLED,
                                .asked = STATE_ACTIVE,
                                .state = STEP_AT_REST,
                                .waiting = step->n_after};

    if (from->record.len > 0 && ops_read_step_record(from->record, &r))
        return;
    drop_timer(&r, job->since);
    set_terms(m, (r.state == STEP_AT_REST ? back : r.asked == STATE_DISABLED) ? &step->revert
                                                                              : &step->forward);
    m->state = wording(&r, back);
    m->current = state_of(r.state == STEP_IN_FLIGHT ? STATE_UNKNOWN : r.current);
    m->desired = back ? DROVER__V1__STATE__STATE_DISABLED : DROVER__V1__STATE__STATE_ACTIVE;
    m->turn = r.turn;
    m->attempt = r.attempt;
    m->failures = r.failures;
    m->expiries = r.expiries;
    m->waiting = r.waiting;
    m->unstarted = r.unstarted;
    m->until = r.until;
    m->undo = r.state != STEP_AT_REST && r.asked == STATE_DISABLED;
    if (r.state != STEP_IN_FLIGHT)
        m->agent = effects_text(fx, from->agent);
    else if (from->progress.len > 0)
        set_progress(fx, m, from->progress, r.token);
}

static void set_step(struct effects *fx, Drover__V1__StepStatus *m, const struct ops_step *from,
                     const struct workflow *w, const struct ops_job *job)
{
    const struct workflow_step *step = &w->steps[from->step];

    drover__v1__step_status__init(m);
    m->index = from->step;
    m->name = (char *)step->name;
    set_record(fx, m, from, step, job);
    m->after = effects_alloc(fx, step->n_after * sizeof(char *));
    for (uint32_t i = 0; i < step->n_after; i++)
        m->after[m->n_after++] = (char *)w->steps[step->after[i]].name;
    if (m->current != DROVER__V1__STATE__STATE_ACTIVE)
        m->last_error = ops_unpack(&drover__v1__error__descriptor, from->error);
    m->result = ops_payload(from->result);
}

/* "since who why": the time in Unix ms, the person or "-", and the reason. */
static void set_hold(struct effects *fx, Drover__V1__JobStatus *m, struct bytes held)
{
    char *text = effects_text(fx, held);
    char *who = strchr(text, ' '), *why = who ? strchr(who + 1, ' ') : NULL;

    if (!why)
        return;
    (void)bytes_to_i64(bytes_of(text, (size_t)(who - text)), &m->held_at);
    *why = '\0';
    m->held_by = strcmp(who + 1, "-") == 0 ? "" : who + 1;
    m->held_reason = why + 1;
}

Drover__V1__Submit *status_labels(struct bytes encoded)
{
    return ops_unpack(&drover__v1__submit__descriptor, encoded);
}

static void set_labels(struct effects *fx, Drover__V1__JobStatus *m, struct bytes encoded)
{
    Drover__V1__Submit *from = status_labels(encoded);
    Drover__V1__Label *labels;

    if (!from)
        return;
    labels = effects_alloc(fx, from->n_labels * sizeof(*labels));
    m->labels = effects_alloc(fx, from->n_labels * sizeof(*m->labels));
    for (size_t i = 0; i < from->n_labels; i++) {
        drover__v1__label__init(&labels[i]);
        labels[i].name = (char *)effects_str(fx, from->labels[i]->name);
        labels[i].value = (char *)effects_str(fx, from->labels[i]->value);
        m->labels[m->n_labels++] = &labels[i];
    }
    drover__v1__submit__free_unpacked(from, NULL);
}

static const char *message_of(const char *class)
{
    if (strcmp(class, "DEADLINE") == 0)
        return "complete_by has passed";
    return "its agents have died or fell silent as often as its policy allows";
}

Drover__V1__Error *status_error(struct effects *fx, const char *class,
                                const Drover__V1__Error *reported)
{
    Drover__V1__Error *m = effects_alloc(fx, sizeof(*m));

    drover__v1__error__init(m);
    if (*class) {
        m->class_ = (char *)effects_str(fx, class);
        m->message = (char *)message_of(class);
        return m;
    }
    if (!reported)
        return NULL;
    m->class_ = (char *)effects_str(fx, reported->class_);
    m->message = (char *)effects_str(fx, reported->message);
    m->verdict = reported->verdict;
    m->effect = reported->effect;
    return m;
}

Drover__V1__Error *status_failure(struct effects *fx, const struct ops_job *job, const char **step)
{
    struct ops_failure failure;
    Drover__V1__Error *reported, *m;
    bool agents;

    *step = "";
    if (job->failure.len == 0 || ops_read_failure(job->failure, &failure))
        return NULL;
    *step = effects_text(fx, failure.step);
    agents = !bytes_is(failure.reason, "DEATHS") && !bytes_is(failure.reason, "DEADLINE");
    reported = ops_unpack(&drover__v1__error__descriptor, job->error);
    m = status_error(fx, agents ? "" : effects_text(fx, failure.reason), reported);
    if (reported)
        drover__v1__error__free_unpacked(reported, NULL);
    return m;
}

static Drover__V1__Need need_of(struct bytes word)
{
    if (bytes_is(word, "parked"))
        return DROVER__V1__NEED__NEED_PARKED;
    if (bytes_is(word, "deadline"))
        return DROVER__V1__NEED__NEED_DEADLINE;
    return bytes_is(word, "ended") ? DROVER__V1__NEED__NEED_ENDED
                                   : DROVER__V1__NEED__NEED_UNSPECIFIED;
}

/* Return: NULL if the job needs nothing. */
static Drover__V1__Attention *attention_of(struct effects *fx, struct bytes text)
{
    struct ops_attention of;
    Drover__V1__Attention *m;

    if (text.len == 0 || ops_read_attention(text, &of))
        return NULL;
    m = effects_alloc(fx, sizeof(*m));
    drover__v1__attention__init(m);
    m->needs = need_of(of.kind);
    m->since = of.since;
    m->step = effects_text(fx, of.step);
    m->actor = effects_text(fx, of.actor);
    m->error_class = effects_text(fx, of.class);
    return m->needs ? m : NULL;
}

void status_job(struct effects *fx, Drover__V1__JobStatus *m, struct bytes id,
                const struct ops_job *job)
{
    const char *step;

    m->job_id = effects_text(fx, id);
    m->workflow = effects_text(fx, job->workflow);
    m->definition = effects_text(fx, job->definition);
    m->current = state_of(ops_letter(job->current));
    m->desired = state_of(ops_letter(job->desired));
    m->phase = status_phase(job->phase);
    m->outcome = status_outcome(job->outcome);
    m->reason = effects_text(fx, job->reason);
    m->hold = effects_text(fx, job->hold);
    m->turn = job->turn;
    m->seq = job->seq;
    m->steps_total = job->n;
    m->steps_open = job->open;
    m->created = job->created;
    m->updated = job->updated;
    m->start_at = job->start_at;
    m->complete_by = job->complete_by;
    m->locked_by = effects_text(fx, job->locked_by);
    m->submitter = effects_text(fx, job->submitter);
    m->now = job->now;
    m->cause = effects_text(fx, job->cause);
    m->ending = job->outcome.len == 0 ? effects_text(fx, job->ending) : m->ending;
    m->error = status_failure(fx, job, &step);
    m->failed_step = (char *)step;
    m->attention = attention_of(fx, job->attention);
    m->parked = job->parked;
    m->next_try_at = job->next_try;
    m->changing = job->waits_for.len > 0;
    m->failures = job->failures;
    set_labels(fx, m, job->labels);
    if (*m->hold)
        set_hold(fx, m, job->held);
}

void status_steps(struct effects *fx, Drover__V1__JobStatus *m, const struct ops_job *job,
                  const struct workflow *w)
{
    Drover__V1__StepStatus *steps = effects_alloc(fx, job->n_steps * sizeof(*steps));

    m->steps = effects_alloc(fx, job->n_steps * sizeof(*m->steps));
    for (uint32_t i = 0; i < job->n_steps; i++) {
        if (job->steps[i].step >= w->n_steps)
            continue;
        set_step(fx, &steps[i], &job->steps[i], w, job);
        m->steps[m->n_steps++] = &steps[i];
    }
    m->input = ops_payload(job->input);
}

void status_steps_free(Drover__V1__JobStatus *m)
{
    for (size_t i = 0; i < m->n_steps; i++) {
        if (m->steps[i]->last_error)
            drover__v1__error__free_unpacked(m->steps[i]->last_error, NULL);
        if (m->steps[i]->result)
            drover__v1__payload__free_unpacked(m->steps[i]->result, NULL);
    }
    if (m->input)
        drover__v1__payload__free_unpacked(m->input, NULL);
}
