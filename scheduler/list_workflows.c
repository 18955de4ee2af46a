// SPDX-License-Identifier: Apache-2.0
/*
 * ON Control with ListWorkflows: answers with the registered workflows, or one definition
 *
 * Every partition has all of them; the first one is asked. Called by on_control.c.
 */
#include "scheduler/list_workflows.h"

#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "scheduler/answer.h"
#include "scheduler/publish.h"
#include "scheduler/state.h"

static const Drover__V1__ListWorkflows *question(const struct op *op)
{
    return op->item->message.control->list_workflows;
}

static const char *wanted(const struct op *op)
{
    return question(op)->workflow;
}

static void list_workflows_call(struct scheduler *s, struct op *op)
{
    if (*wanted(op))
        ops_inspect_workflow(s->out, op_call_id(s, op), op->partition, wanted(op));
    else
        ops_inspect_workflows(s->out, op_call_id(s, op), op->partition, question(op)->after,
                              WIRE_PAGE_MAX);
}

static void answer_all(struct scheduler *s, struct op *op, struct ops_reader *r,
                       Drover__V1__Answer *m)
{
    Drover__V1__WorkflowInfo *infos;
    struct ops_workflows found;

    if (ops_read_workflows(r, s->out, &found)) {
        log_error("store_answer_broken", LOG_S("what", "workflows"));
        return;
    }
    infos = effects_alloc(s->out, found.n * sizeof(*infos));
    m->workflows = effects_alloc(s->out, found.n * sizeof(*m->workflows));
    for (uint32_t i = 0; i < found.n; i++) {
        drover__v1__workflow_info__init(&infos[i]);
        infos[i].workflow = effects_text(s->out, found.items[i].name);
        infos[i].definition = effects_text(s->out, found.items[i].digest);
        infos[i].steps = found.items[i].steps;
        m->workflows[m->n_workflows++] = &infos[i];
    }
    if (answer_fit(s, op, m, &m->n_workflows)) {
        if (found.more || m->n_workflows < found.n)
            m->next = m->workflows[m->n_workflows - 1]->workflow;
        publish_reply(s, op, &m->base);
    }
}

static void answer_one(struct scheduler *s, struct op *op, struct ops_reader *r,
                       Drover__V1__Answer *m)
{
    struct bytes blob;
    int result = ops_read_definition(r, &blob);

    if (result == 0)
        m->definition = ops_unpack(&drover__v1__workflow__descriptor, blob);
    if (result < 0 || (result == 0 && !m->definition)) {
        log_error("store_answer_broken", LOG_S("workflow", wanted(op)));
    } else if (result > 0) {
        m->code = DROVER__V1__ANSWER_CODE__ANSWER_CODE_UNKNOWN_WORKFLOW;
        m->reason = (char *)"no workflow of this name and version is registered";
        publish_reply(s, op, &m->base);
    } else {
        if (answer_fit(s, op, m, NULL))
            publish_reply(s, op, &m->base);
        drover__v1__workflow__free_unpacked(m->definition, NULL);
    }
}

static void list_workflows_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    Drover__V1__Answer m = DROVER__V1__ANSWER__INIT;

    m.command_id = op->item->message.control->command_id;
    m.code = DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE;
    if (*wanted(op))
        answer_one(s, op, r, &m);
    else
        answer_all(s, op, r, &m);
}

void list_workflows(struct scheduler *s, struct item *item)
{
    struct op *op = op_plain(s, item, item->message.control->job_id);

    op->partition = 0;
    op_call(s, op, list_workflows_call, list_workflows_answered);
    op_unref(s, op);
}
