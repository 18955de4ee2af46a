// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/machine.h"

/* Bytes of an answer, with room for what is set once its page is shortened: where to go on. */
#define ANSWER_MAX (WIRE_MESSAGE_MAX - 1024)
static_assert(WIRE_CURSOR_MAX * 6 < 1024, "a cursor fits behind a page, in JSON, too");

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

static Drover__V1__State state_of(struct bytes letter)
{
    if (bytes_is(letter, "A"))
        return DROVER__V1__STATE__STATE_ACTIVE;
    if (bytes_is(letter, "U"))
        return DROVER__V1__STATE__STATE_UNKNOWN;
    return DROVER__V1__STATE__STATE_DISABLED;
}

/* The record in one word for people; the machine never reads it back. @back: the job goes there. */
static Drover__V1__StepState wording(const struct ops_step_record *r, bool back)
{
    switch (r->state) {
    case 'R':
        return r->asked == 'A' ? DROVER__V1__STEP_STATE__STEP_STATE_RUNNING
                               : DROVER__V1__STEP_STATE__STEP_STATE_REVERTING;
    case 'B':
    case 'M':
        return DROVER__V1__STEP_STATE__STEP_STATE_BACKOFF;
    case 'P':
        return DROVER__V1__STEP_STATE__STEP_STATE_PARKED;
    case 'F':
        return DROVER__V1__STEP_STATE__STEP_STATE_FAILED;
    default:
        break;
    }
    if (r->current == 'A')
        return DROVER__V1__STEP_STATE__STEP_STATE_DONE;
    if (!back || r->current == 'U')
        return DROVER__V1__STEP_STATE__STEP_STATE_WAITING;
    return r->asked == 'D' ? DROVER__V1__STEP_STATE__STEP_STATE_REVERTED
                           : DROVER__V1__STEP_STATE__STEP_STATE_SKIPPED;
}

static void set_progress(struct scheduler *s, Drover__V1__StepStatus *m, struct bytes progress,
                         const char *token)
{
    const char *text = effects_text(s->out, progress);
    char seen[WIRE_TOKEN_MAX + 1];
    int used = 0;

    if (sscanf(text, "%64s %*s %lf %n", seen, &m->fraction, &used) == 2 && used > 0 &&
        strcmp(seen, token) == 0)
        m->note = (char *)text + used;
    else
        m->fraction = 0;
}

static void set_record(struct scheduler *s, Drover__V1__StepStatus *m, const struct ops_step *from,
                       bool back)
{
    struct ops_step_record r = {.current = 'D', .asked = 'A', .state = 'W', .waiting = m->waiting};

    if (from->record.len > 0 && ops_read_step_record(from->record, &r))
        return;
    m->state = wording(&r, back);
    m->current = state_of(bytes_of(r.state == 'R' ? "U" : &r.current, 1));
    m->desired = back ? DROVER__V1__STATE__STATE_DISABLED : DROVER__V1__STATE__STATE_ACTIVE;
    m->turn = r.turn;
    m->attempt = r.attempt;
    m->failures = r.failures;
    m->expiries = r.expiries;
    m->waiting = r.waiting;
    m->unstarted = r.unstarted;
    m->until = r.till;
    if (r.state == 'R' && from->progress.len > 0)
        set_progress(s, m, from->progress, r.token);
}

static void set_step(struct scheduler *s, Drover__V1__StepStatus *m, const struct ops_step *from,
                     const struct workflow *w, bool back)
{
    const struct workflow_step *step = &w->steps[from->step];

    drover__v1__step_status__init(m);
    m->index = from->step;
    m->name = (char *)step->name;
    m->actor = (char *)step->forward.actor;
    m->waiting = step->n_after;
    set_record(s, m, from, back);
    m->after = effects_alloc(s->out, step->n_after * sizeof(char *));
    for (uint32_t i = 0; i < step->n_after; i++)
        m->after[m->n_after++] = (char *)w->steps[step->after[i]].name;
    if (from->error.len > 0 && m->current != DROVER__V1__STATE__STATE_ACTIVE)
        m->last_error = drover__v1__error__unpack(NULL, from->error.len, from->error.data);
    m->result = payload_of(from->result);
}

void status_job(struct scheduler *s, Drover__V1__JobStatus *m, struct bytes id,
                const struct ops_job *job)
{
    m->job_id = effects_text(s->out, id);
    m->workflow = effects_text(s->out, job->workflow);
    m->definition = effects_text(s->out, job->definition);
    m->current = state_of(job->current);
    m->desired = state_of(job->desired);
    m->phase = status_phase(job->phase);
    m->outcome = status_outcome(job->outcome);
    m->reason = effects_text(s->out, job->reason);
    m->hold = effects_text(s->out, job->hold);
    m->turn = job->turn;
    m->seq = job->seq;
    m->steps_total = job->n;
    m->steps_open = job->open;
    m->created = job->created;
    m->updated = job->updated;
    m->start_at = job->start_at;
    m->complete_by = job->complete_by;
    m->locked_by = effects_text(s->out, job->locked_by);
    m->submitter = effects_text(s->out, job->submitter);
    m->now = job->now;
}

Drover__V1__Submit *status_labels(struct bytes encoded)
{
    return encoded.len > 0 ? drover__v1__submit__unpack(NULL, encoded.len, encoded.data) : NULL;
}

void control_answer(struct scheduler *s, struct op *op, Drover__V1__AnswerCode code,
                    const char *reason)
{
    Drover__V1__Answer m = DROVER__V1__ANSWER__INIT;

    m.job_id = op->job;
    m.command_id = op->item->message.control->command_id;
    m.code = code;
    m.reason = (char *)reason;
    op_reply(s, op, &m.base);
}

static void free_steps(Drover__V1__JobStatus *m)
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

static bool fits(const Drover__V1__Answer *m, bool json)
{
    CLEANUP(buf_deinit) struct buf text = {0};

    if (drover__v1__answer__get_packed_size(m) > ANSWER_MAX)
        return false;
    return !json || (wire_encode(&m->base, true, &text) == 0 && text.len <= ANSWER_MAX);
}

/* In JSON it takes up to six times as much, which is only known when it is written. */
bool answer_fit(struct scheduler *s, struct op *op, Drover__V1__Answer *m, size_t *page)
{
    while (!fits(m, op->item->json)) {
        if (!page || *page <= 1) {
            control_answer(s, op, DROVER__V1__ANSWER_CODE__ANSWER_CODE_TOO_LARGE,
                           "the answer would exceed the message limit");
            return false;
        }
        *page /= 2;
    }
    return true;
}

void status_answer(struct scheduler *s, struct op *op, const struct ops_job *job,
                   const struct workflow *w)
{
    Drover__V1__Answer answer = DROVER__V1__ANSWER__INIT;
    Drover__V1__JobStatus status = DROVER__V1__JOB_STATUS__INIT;
    Drover__V1__StepStatus *steps = effects_alloc(s->out, job->n_steps * sizeof(*steps));
    Drover__V1__Submit *labels = status_labels(job->labels);
    size_t whole;

    status_job(s, &status, bytes_str(op->job), job);
    status.steps = effects_alloc(s->out, job->n_steps * sizeof(*status.steps));
    for (uint32_t i = 0; i < job->n_steps; i++) {
        if (job->steps[i].step >= w->n_steps)
            continue;
        set_step(s, &steps[i], &job->steps[i], w, bytes_is(job->desired, "D"));
        status.steps[status.n_steps++] = &steps[i];
    }
    if (labels) {
        status.n_labels = labels->n_labels;
        status.labels = labels->labels;
    }
    status.input = payload_of(job->input);
    answer.job_id = op->job;
    answer.command_id = op->item->message.control->command_id;
    answer.code = DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE;
    answer.status = &status;
    whole = status.n_steps;
    if (answer_fit(s, op, &answer, &status.n_steps))
        op_reply(s, op, &answer.base);
    status.n_steps = whole;
    free_steps(&status);
    if (labels)
        drover__v1__submit__free_unpacked(labels, NULL);
}
