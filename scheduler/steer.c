// SPDX-License-Identifier: Apache-2.0
/*
 * ON Control with a command: carries out what a person or a service asks of one job
 *
 * A command that names steps, and Migrate, first read the definition of the job, because the store
 * knows steps by number. If the job has another definition by the time of the command (MOVED) all
 * of it is done again. Called by on_control.c.
 */
#include "scheduler/steer.h"

#include <stdlib.h>
#include <string.h>

#include "scheduler/access.h"
#include "scheduler/allowance.h"
#include "scheduler/answer.h"
#include "scheduler/change.h"
#include "scheduler/definition.h"
#include "scheduler/state.h"
#include "scheduler/steer_op.h"

static void steer_free(struct op *op)
{
    struct steer_op *o = steer_of(op);

    free(o->steps);
    free(o->differences);
}

/* ---- the call to the store ---- */

static const char *word_of_command(const Drover__V1__Control *m)
{
    switch (m->command_case) {
    case DROVER__V1__CONTROL__COMMAND_SET_DESIRED:
        return m->set_desired->desired == DROVER__V1__STATE__STATE_ACTIVE ? "enable" : "disable";
    case DROVER__V1__CONTROL__COMMAND_CANCEL:
        return "cancel";
    case DROVER__V1__CONTROL__COMMAND_KILL:
        return "kill";
    case DROVER__V1__CONTROL__COMMAND_PAUSE:
        return "pause";
    case DROVER__V1__CONTROL__COMMAND_RESUME:
        return "resume";
    case DROVER__V1__CONTROL__COMMAND_ACKNOWLEDGE:
        return "acknowledge";
    case DROVER__V1__CONTROL__COMMAND_RETRY:
        return change_is_retry(m) ? "change" : "retry";
    case DROVER__V1__CONTROL__COMMAND_RESOLVE:
        return "resolve";
    case DROVER__V1__CONTROL__COMMAND_MIGRATE:
        return "migrate";
    default:
        return NULL;
    }
}

static const Drover__V1__Payload *payload_of_command(const Drover__V1__Control *m)
{
    if (m->command_case == DROVER__V1__CONTROL__COMMAND_RETRY)
        return m->retry->arguments;
    if (m->command_case == DROVER__V1__CONTROL__COMMAND_RESOLVE)
        return m->resolve->result;
    return NULL;
}

static char state_of_command(const Drover__V1__Control *m)
{
    if (m->command_case != DROVER__V1__CONTROL__COMMAND_RESOLVE)
        return 0;
    return m->resolve->state == DROVER__V1__STATE__STATE_ACTIVE ? STATE_ACTIVE : STATE_DISABLED;
}

/* Who gives the command, as one word, and why. If identity is required that is the user, with
 * the sender's own name for itself in brackets: "shop(me@here)". */
static const char *who_and_why(struct scheduler *s, const struct item *item)
{
    const Drover__V1__Control *m = item->message.control;
    const char *said = !s->access->required ? m->by
                       : *m->by             ? effects_printf(s->out, "%s(%s)", item->user, m->by)
                                            : item->user;
    char *text = effects_text(s->out, bytes_str(said));

    for (char *c = text; *c; c++)
        *c = *c == ' ' ? '_' : *c;
    return effects_printf(s->out, "%s %s", *text ? text : "-", m->reason);
}

static bool migrates(const struct op *op)
{
    return op->item->message.control->command_case == DROVER__V1__CONTROL__COMMAND_MIGRATE;
}

static void steer_call(struct scheduler *s, struct op *op)
{
    const Drover__V1__Control *m = op->item->message.control;
    CLEANUP(buf_deinit) struct buf payload = {0};
    struct steer_op *o = steer_of(op);
    const char *owner = access_owner(s->access, op->item->user);
    int64_t most_bytes = access_limits(s->access, op->item->user).bytes;
    struct ops_steer_args steer = {
        .job = op->job,
        .command = word_of_command(m),
        .command_id = m->command_id,
        .issued_at = m->issued_at,
        .if_seq = m->if_seq,
        .reason = who_and_why(s, op->item),
        .scheduler = s->name,
        .nonce = op->nonce,
        .redelivered = op->item->redelivered || op->call_repeated,
        .owner = owner,
        .most_bytes = owner ? allowance_share(s, most_bytes) : 0,
        .definition = o->n_steps > 0 || migrates(op) ? op->definition.digest : "",
        .steps = o->steps,
        .n_steps = o->n_steps,
        .differences = o->differences,
        .state = state_of_command(m),
        .to = migrates(op) || change_is_retry(m) ? op->definition.workflow : NULL,
        .what = change_is_retry(m) ? change_what(s, m->retry) : NULL,
        .n_gone = o->n_gone};

    wire_append_payload(&payload, payload_of_command(m));
    steer.payload = effects_copy(s->out, buf_or_abort(&payload));
    nonces_next(&s->nonces, op->nonce);
    ops_steer(s->out, op_call_id(s, op), op->partition, &steer);
}

/* ---- the answer ---- */

static const char *step_name(const struct workflow *w, uint32_t step)
{
    return w && step < w->n_steps ? w->steps[step].name : "?";
}

/* A refusal of the store, as a sentence that says what to do. */
static const char *wrong_state(struct scheduler *s, const struct ops_refusal *refusal,
                               const struct workflow *w)
{
    static const struct {
        const char *why;
        const char *sentence;
    } about_a_step[] = {
        {"IN_FLIGHT", "is in flight: wait for its answer, or for its lease to end"},
        {"DUE", "waits for the job to be resumed: its lease or pause is over"},
        {"NOT_FAILED", "is neither parked nor failed, nor to be tried again"},
        {"THERE", "is where the job wants it, and others have gone by that: turn the job instead"},
        {"WAITING", "waits for others: there is nothing to resolve or to change yet"},
        {"BEGUN", "is done, and is not the same in that version"},
        {"GONE", "was sent, and is not in that version"},
        {"UNKNOWN", "may have taken effect, and has no revert: say by Resolve whether it has, or "
                    "begin_anew"},
    };
    const char *advice = "";

    for (size_t i = 0; i < array_size(about_a_step); i++)
        if (strcmp(refusal->why, about_a_step[i].why) == 0)
            return effects_printf(s->out, "step %s %s", step_name(w, refusal->step),
                                  about_a_step[i].sentence);
    if (strcmp(refusal->why, "PENDING") == 0)
        return "the job has not started yet";
    if (strcmp(refusal->why, "DATA_FULL") == 0)
        return "the job's input, arguments and results would exceed 64 MiB";
    if (strcmp(refusal->why, "NO_NEED") == 0)
        return "the job does not need attention";
    if (strcmp(refusal->why, "BACK") == 0)
        return "the job is being taken back";
    if (strcmp(refusal->why, "MANY_UNKNOWN") == 0)
        return "more than 250 steps would have to be undone first";
    if (strcmp(refusal->why, "CHANGING") == 0)
        return "another change of the job waits until a step is undone";
    if (strcmp(refusal->why, "ENDING") == 0)
        return "the job is about to end";
    if (strstr(refusal->why, "FAILED"))
        advice = ": Retry or Resolve its failed steps";
    return effects_printf(s->out, "the job has ended as %s%s", refusal->why, advice);
}

static const char *superseded(const struct ops_refusal *refusal)
{
    return strcmp(refusal->why, "SEQ") == 0 ? "the job has moved on since if_seq"
                                            : "a command that was issued later was applied before";
}

static void read_definition(struct scheduler *s, struct op *op);

static void answer(struct scheduler *s, struct op *op, enum ops_code code,
                   const struct ops_refusal *refusal, const struct workflow *w)
{
    switch (code) {
    case OPS_DONE:
        answer_send(s, op, DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE, "");
        break;
    case OPS_UNCHANGED:
        answer_send(s, op, DROVER__V1__ANSWER_CODE__ANSWER_CODE_UNCHANGED, "already so");
        break;
    case OPS_WRONG_STATE:
        answer_send(s, op, DROVER__V1__ANSWER_CODE__ANSWER_CODE_WRONG_STATE,
                    wrong_state(s, refusal, w));
        break;
    case OPS_SUPERSEDED:
        answer_send(s, op, DROVER__V1__ANSWER_CODE__ANSWER_CODE_SUPERSEDED, superseded(refusal));
        break;
    case OPS_CONFLICT:
        answer_send(s, op, DROVER__V1__ANSWER_CODE__ANSWER_CODE_INVALID,
                    "command_id was used before, for another command");
        break;
    case OPS_TOO_MANY:
        answer_send(s, op, DROVER__V1__ANSWER_CODE__ANSWER_CODE_RETRY_LATER,
                    "your jobs take as many bytes of the store as they may "
                    "(security.submitters): cancel or kill some, or ask an operator");
        break;
    case OPS_UNKNOWN_JOB:
        answer_send(s, op, DROVER__V1__ANSWER_CODE__ANSWER_CODE_UNKNOWN_JOB,
                    "there is no such job");
        break;
    default:
        answer_send(s, op, DROVER__V1__ANSWER_CODE__ANSWER_CODE_UNSUPPORTED,
                    "this server does not know the command");
        break;
    }
}

static void on_steered(struct scheduler *s, struct transition_op *t,
                       const struct ops_transition *transition, struct workflow *w)
{
    if (transition->code == OPS_MOVED) {
        read_definition(s, &t->op);
        return;
    }
    answer(s, &t->op, transition->code, &steer_of(&t->op)->refusal, w);
    transition_publish(s, t, transition, w);
}

/* The reason of a refusal is the last part of the answer. It is read first, because the rest may
 * have to wait for its definition or for capacity. */
static void steer_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    struct steer_op *o = steer_of(op);
    struct ops_reader rest = *r;
    struct ops_transition transition;

    o->refusal = (struct ops_refusal){.step = WORKFLOW_NONE};
    if (ops_read_transition(&rest, s->out, &transition) == 0 && transition.code != OPS_UNKNOWN_JOB)
        (void)ops_read_refusal(&rest, &o->refusal);
    transition_answered(s, op, r, on_steered);
}

/* ---- numbers of steps ---- */

/* The names of steps in a command. */
static size_t names_of_command(const Drover__V1__Control *m, char ***names)
{
    if (m->command_case == DROVER__V1__CONTROL__COMMAND_RETRY) {
        *names = m->retry->steps;
        return m->retry->n_steps;
    }
    if (m->command_case == DROVER__V1__CONTROL__COMMAND_RESOLVE) {
        *names = &m->resolve->step;
        return 1;
    }
    return 0;
}

static bool number_steps(struct scheduler *s, struct op *op, const struct workflow *w)
{
    struct steer_op *o = steer_of(op);
    char **names = NULL;
    size_t n = names_of_command(op->item->message.control, &names);

    if (n > OPS_BUDGET) {
        answer_send(
            s, op, DROVER__V1__ANSWER_CODE__ANSWER_CODE_INVALID,
            effects_printf(s->out, "more than %d steps: name none, for all of them", OPS_BUDGET));
        return false;
    }
    free(o->steps);
    o->steps = or_abort(calloc(n + 1, sizeof(*o->steps)));
    o->n_steps = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        o->steps[i] = workflow_find(w, bytes_str(names[i]));
        if (o->steps[i] == WORKFLOW_NONE) {
            answer_send(s, op, DROVER__V1__ANSWER_CODE__ANSWER_CODE_INVALID,
                        effects_printf(s->out, "the job has no step %s", names[i]));
            return false;
        }
    }
    return true;
}

static void definition_call(struct scheduler *s, struct op *op)
{
    ops_inspect_job(s->out, op_call_id(s, op), op->partition, op->job, 0, 0, false,
                    access_owner(s->access, op->item->user));
}

static void on_stored(struct scheduler *s, struct op *op)
{
    op_call(s, op, steer_call, steer_answered);
}

static void definition_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    struct steer_op *o = steer_of(op);
    struct ops_reader from = *r;
    struct ops_job job;
    const struct workflow *w;

    if (!answer_read_job(s, op, r, &job))
        return;
    w = definition_find(s, op->definition.digest);
    if (!w)
        definition_load(s, op, &from, definition_answered);
    else if (migrates(op))
        change_migrate(s, o, on_stored);
    else if (!number_steps(s, op, w))
        return;
    else if (change_is_retry(op->item->message.control))
        change_step(s, o, w, on_stored);
    else
        op_call(s, op, steer_call, steer_answered);
}

static void read_definition(struct scheduler *s, struct op *op)
{
    op_call(s, op, definition_call, definition_answered);
}

/* Whether the store has memory for a command, which it keeps. If it is nearly full it keeps
 * those of operators only, and those that end jobs. */
static bool has_capacity(const struct scheduler *s, const struct op *op)
{
    const Drover__V1__Control *m = op->item->message.control;

    return !s->store_full || !access_owner(s->access, op->item->user) ||
           m->command_case == DROVER__V1__CONTROL__COMMAND_CANCEL ||
           m->command_case == DROVER__V1__CONTROL__COMMAND_KILL;
}

static void begin(struct scheduler *s, struct op *op)
{
    const Drover__V1__Control *m = op->item->message.control;
    char **names = NULL;

    if (!has_capacity(s, op)) {
        s->stats.retry_later++;
        answer_send(s, op, DROVER__V1__ANSWER_CODE__ANSWER_CODE_RETRY_LATER,
                    "the store is nearly full: only Cancel and Kill are taken");
        return;
    }
    if (!word_of_command(m))
        answer_send(s, op, DROVER__V1__ANSWER_CODE__ANSWER_CODE_UNSUPPORTED,
                    "this server does not know the command");
    else if (migrates(op) || names_of_command(m, &names) > 0)
        read_definition(s, op);
    else
        op_call(s, op, steer_call, steer_answered);
}

void steer(struct scheduler *s, struct item *item)
{
    struct steer_op *o = op_new(s, item, item->message.control->job_id, sizeof(*o), steer_free);

    begin(s, &o->transition.op);
    op_unref(s, &o->transition.op);
}
