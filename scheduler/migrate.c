// SPDX-License-Identifier: Apache-2.0
/*
 * ON Control, Migrate: before the store is asked to give a job a newer version of its definition,
 * that version is read, arranged by the numbers that the job's steps have, and stored under a
 * digest of its own. Whether the steps that differ have begun, only the store can tell.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "model/migration.h"
#include "scheduler/machine.h"

static void newer_call(struct scheduler *s, struct op *op)
{
    ops_inspect_workflow(s->out, op_call_id(s, op), op->partition,
                         op->item->message.control->migrate->workflow);
}

static void arranged(struct scheduler *s, struct op *op, struct migration *m)
{
    op->workflow = workflow_unref(op->workflow);
    op->workflow = workflow_ref(m->arranged);
    free(op->steps);
    op->steps = m->differing;
    m->differing = NULL;
    op->n_steps = m->n_differing;
    op->n_gone = m->n_gone;
    op->registered = false;
    definition_keep(s, op->workflow);
    definition_store(s, op, op->migrate_then);
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
        control_answer(s, op, DROVER__V1__ANSWER_CODE__ANSWER_CODE_INVALID,
                       effects_printf(s->out, "%s", problem.reason));
    else
        arranged(s, op, &m);
    migration_deinit(&m);
}

static void newer_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    const struct workflow *from = definition_find(s, op->digest);
    struct ops_reader held = *r;
    struct bytes newer;
    int result = ops_read_definition(r, &newer);

    if (result < 0)
        log_error("store_answer_broken", LOG_S("job", op->job));
    else if (result > 0)
        control_answer(s, op, DROVER__V1__ANSWER_CODE__ANSWER_CODE_UNKNOWN_WORKFLOW,
                       "no workflow of this name and version is registered");
    else if (!from)
        definition_load(s, op, &held, newer_answered);
    else
        plan(s, op, from, newer);
}

void migrate(struct scheduler *s, struct op *op, op_fn *then)
{
    op->migrate_then = then;
    op_call(s, op, newer_call, newer_answered);
}
