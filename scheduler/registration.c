// SPDX-License-Identifier: Apache-2.0
/*
 * Registration: the workflows of the configuration, which this scheduler registers in the store
 *
 * Each partition has all of them. Begun by scheduler.c when the store is connected, and by
 * rollback.c when the store was emptied.
 */
#include "scheduler/registration.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/definition.h"
#include "scheduler/state.h"

static void on_done(struct scheduler *s, struct item *item)
{
    if (--s->registration.in_progress == 0 && s->registration.repeat)
        registration_begin(s);
}

static void register_workflow(struct scheduler *s, struct workflow *w)
{
    static const struct item_kind kind = {.done = on_done};
    struct item *item = item_new(s, NULL, &kind);

    s->registration.in_progress++;
    definition_keep(s, w);
    for (uint32_t p = 0; p < s->partitions; p++) {
        struct op *op = op_plain(s, item, w->name);

        op->partition = p;
        op->definition.workflow = workflow_ref(w);
        op->definition.registered = true;
        definition_store(s, op, NULL);
        op_unref(s, op);
    }
    item_unref(s, item);
}

void registration_begin(struct scheduler *s)
{
    struct registration *r = &s->registration;

    r->repeat = r->in_progress > 0;
    for (size_t i = 0; i < r->n && !r->repeat; i++)
        register_workflow(s, r->workflows[i]);
}

int registration_add(struct scheduler *s, struct workflow *w)
{
    struct registration *r = &s->registration;
    struct workflow **list = realloc(r->workflows, (r->n + 1) * sizeof(*r->workflows));

    if (!list)
        return -ENOMEM;
    r->workflows = list;
    r->workflows[r->n++] = workflow_ref(w);
    return 0;
}

bool registration_has_actor(const struct scheduler *s, const char *actor)
{
    for (size_t k = 0; k < s->registration.n; k++) {
        const struct workflow *w = s->registration.workflows[k];

        for (uint32_t i = 0; i < w->n_steps; i++)
            if (strcmp(w->steps[i].forward.actor, actor) == 0 ||
                strcmp(w->steps[i].revert.actor, actor) == 0)
                return true;
    }
    return false;
}

void registration_free(struct scheduler *s)
{
    for (size_t i = 0; i < s->registration.n; i++)
        workflow_unref(s->registration.workflows[i]);
    free(s->registration.workflows);
}
