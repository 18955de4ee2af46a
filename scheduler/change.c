// SPDX-License-Identifier: Apache-2.0
/*
 * ON Control with Migrate, or with a Retry that changes its step: makes the other definition
 *
 * For a Migrate that is the newer version, arranged by the numbers that the steps of the job have;
 * for a Retry, the job's own definition with one step changed. It is stored under a digest of its
 * own before steer.c asks the store to give it to the job. Only the store can decide whether the
 * steps that differ may be changed now.
 *
 * Called by steer.c.
 */
#include "scheduler/change.h"

#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "model/change.h"
#include "model/migration.h"
#include "scheduler/access.h"
#include "scheduler/answer.h"
#include "scheduler/definition.h"
#include "scheduler/registration.h"
#include "scheduler/state.h"

static void newer_call(struct scheduler *s, struct op *op)
{
    ops_inspect_workflow(s->out, op_call_id(s, op), op->partition,
                         op->item->message.control->migrate->workflow);
}

/* @w: a reference, which passes to the operation. */
static void store(struct scheduler *s, struct steer_op *o, struct workflow *w)
{
    struct op *op = &o->transition.op;

    workflow_unref(op->definition.workflow);
    op->definition.workflow = w;
    op->definition.registered = false;
    definition_keep(s, w);
    definition_store(s, op, o->stored);
}

/* A person says that the step is to begin anew although it may have taken effect. */
static void allow_anew(char *differences, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (differences[i] == DIFFERENCE_OTHER)
            differences[i] = DIFFERENCE_ANEW;
}

static void arranged(struct scheduler *s, struct steer_op *o, struct migration *m)
{
    free(o->steps);
    free(o->differences);
    o->steps = m->differing;
    o->differences = m->differences;
    m->differing = NULL;
    m->differences = NULL;
    o->n_steps = m->n_differing;
    o->n_gone = m->n_gone;
    if (o->transition.op.item->message.control->migrate->begin_anew)
        allow_anew(o->differences, o->n_steps);
    store(s, o, workflow_ref(m->arranged));
}

static void plan(struct scheduler *s, struct op *op, const struct workflow *from,
                 struct bytes newer)
{
    CLEANUP(workflow_unref) struct workflow *to = NULL;
    struct migration m = {0};
    struct problem problem = {0};
    int r = workflow_new_from_bytes(&to, newer, "", &problem);

    if (!r)
        r = migration_plan(&m, from, to, &problem);
    if (r == -ENOMEM)
        abort();
    if (r)
        answer_send(s, op, DROVER__V1__ANSWER_CODE__ANSWER_CODE_INVALID,
                    effects_printf(s->out, "%s", problem.reason));
    else
        arranged(s, steer_of(op), &m);
    migration_deinit(&m);
}

static void newer_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    const struct workflow *from = definition_find(s, op->definition.digest);
    struct ops_reader rest = *r;
    struct bytes newer;
    int result = ops_read_definition(r, &newer);

    if (result < 0)
        log_error("store_answer_broken", LOG_S("job", op->job));
    else if (result > 0)
        answer_send(s, op, DROVER__V1__ANSWER_CODE__ANSWER_CODE_UNKNOWN_WORKFLOW,
                    "no workflow of this name and version is registered");
    else if (!from)
        definition_load(s, op, &rest, newer_answered);
    else
        plan(s, op, from, newer);
}

void change_migrate(struct scheduler *s, struct steer_op *o, op_fn *then)
{
    o->stored = then;
    op_call(s, &o->transition.op, newer_call, newer_answered);
}

/* ---- a Retry that changes its step ---- */

bool change_is_retry(const Drover__V1__Control *m)
{
    return m->command_case == DROVER__V1__CONTROL__COMMAND_RETRY &&
           (m->retry->change || m->retry->arguments);
}

const char *change_what(struct scheduler *s, const Drover__V1__Retry *m)
{
    CLEANUP(buf_deinit) struct buf what = {0};

    if (m->arguments)
        buf_puts(&what, "arguments");
    if (m->change)
        change_fields(m->change, &what);
    return effects_text(s->out, buf_or_abort(&what));
}

/* Where only registered definitions run, a step may go only to an actor that one of them names. */
static bool actor_is_known(const struct scheduler *s, const char *actor, struct problem *problem)
{
    if (!*actor || !s->access->registered || registration_has_actor(s, actor))
        return true;
    problem_set(problem, "retry.change.actor",
                "no registered workflow has an actor %s (scheduler.definitions is registered)",
                actor);
    return false;
}

void change_step(struct scheduler *s, struct steer_op *o, const struct workflow *from, op_fn *then)
{
    struct op *op = &o->transition.op;
    const Drover__V1__Retry *m = op->item->message.control->retry;
    struct workflow *to = NULL;
    struct problem problem = {0};
    uint32_t step = o->steps[0];
    int r = m->change ? change_apply(&to, from, step, m->change, &problem) : 0;

    if (r == -ENOMEM)
        abort();
    if (r == 0 && m->change && !actor_is_known(s, m->change->actor, &problem))
        r = CHANGE_E_UNFIT;
    if (r) {
        workflow_unref(to);
        answer_send(s, op, DROVER__V1__ANSWER_CODE__ANSWER_CODE_INVALID,
                    effects_printf(s->out, "%s: %s", problem.field, problem.reason));
        return;
    }
    if (!to)
        to = workflow_ref((struct workflow *)from);
    free(o->differences);
    o->differences = or_abort(calloc(1, 1));
    o->differences[0] = (char)(m->arguments ? DIFFERENCE_OTHER
                                            : migration_how(&from->steps[step], &to->steps[step]));
    if (m->begin_anew)
        allow_anew(o->differences, 1);
    o->stored = then;
    store(s, o, to);
}
