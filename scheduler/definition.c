// SPDX-License-Identifier: Apache-2.0
/*
 * Definitions: the cache of this process; loads definitions from the store and stores them
 *
 * Called by the files of the machine that need the definition of a job, or store a new one.
 */
#include "scheduler/definition.h"

#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "scheduler/answer.h"
#include "scheduler/state.h"

struct definition {
    char digest[ID_DIGEST_LEN + 1];
    struct workflow *workflow;
    UT_hash_handle hh;
};

struct workflow *definition_find(struct scheduler *s, const char *digest)
{
    struct definition *d;

    HASH_FIND_STR(s->definitions.cached, digest, d);
    return d ? d->workflow : NULL;
}

int definition_of(struct scheduler *s, const Drover__V1__Workflow *m, struct workflow **out,
                  struct problem *problem)
{
    CLEANUP(buf_deinit) struct buf encoded = {0};
    char digest[ID_DIGEST_LEN + 1];
    struct workflow *known;
    const char *field = "definition";

    if (wire_encode(&m->base, false, &encoded))
        return workflow_new(out, m, field, problem); /* unreachable: the Submit was not too large */
    id_digest(buf_bytes(&encoded), digest);
    known = definition_find(s, digest);
    if (!known)
        return workflow_new_from_bytes(out, buf_bytes(&encoded), field, problem);
    *out = workflow_ref(known);
    return 0;
}

static void definition_drop(struct scheduler *s, struct definition *d)
{
    HASH_DEL(s->definitions.cached, d);
    s->definitions.bytes -= d->workflow->memory;
    workflow_unref(d->workflow);
    free(d);
}

void definition_keep(struct scheduler *s, struct workflow *w)
{
    struct definition *d;

    if (definition_find(s, w->digest))
        return;
    while (s->definitions.cached && s->definitions.bytes + w->memory > DEFINITION_CACHED_BYTES)
        definition_drop(s, s->definitions.cached);
    d = or_abort(calloc(1, sizeof(*d)));
    memcpy(d->digest, w->digest, sizeof(d->digest));
    d->workflow = workflow_ref(w);
    s->definitions.bytes += w->memory;
    HASH_ADD_STR(s->definitions.cached, digest, d);
}

void definition_free_all(struct scheduler *s)
{
    while (s->definitions.cached)
        definition_drop(s, s->definitions.cached);
}

/* ---- loading from the store ---- */

static void load_call(struct scheduler *s, struct op *op)
{
    ops_inspect_definition(s->out, op_call_id(s, op), op->partition, op->definition.digest);
}

static void load_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    struct bytes encoded;
    struct problem problem = {0};
    CLEANUP(workflow_unref) struct workflow *w = NULL;
    struct ops_reader rest;
    int result = ops_read_definition(r, &encoded);

    if (!result)
        result = workflow_new_from_bytes(&w, encoded, "definition", &problem);
    if (result == -ENOMEM)
        abort();
    if (result) {
        log_error("definition_lost", LOG_S("job", op->job),
                  LOG_S("definition", op->definition.digest), LOG_S("why", problem.reason));
        if (op->item->message.type == WIRE_CONTROL)
            answer_send(s, op, DROVER__V1__ANSWER_CODE__ANSWER_CODE_UNKNOWN_JOB,
                        "the definition of the job is not in the store any more");
        return;
    }
    definition_keep(s, w);
    rest = ops_reader(op->definition.rest);
    op->definition.resume(s, op, &rest);
}

void definition_load(struct scheduler *s, struct op *op, const struct ops_reader *rest,
                     op_answered_fn *resume)
{
    free(op->definition.rest);
    op->definition.rest = or_abort(ops_answer_copy(rest));
    op->definition.resume = resume;
    op_call(s, op, load_call, load_answered);
}

/* ---- storing ---- */

/* After a call without an answer it begins with the first piece again: the store may have come
 * back without the pieces that it had. */
static void store_call_piece(struct scheduler *s, struct op *op)
{
    if (op->call_repeated)
        op->definition.piece = 0;
    op->call_repeated = false;
    ops_define(s->out, op_call_id(s, op), op->partition, op->definition.workflow,
               op->definition.piece, op->definition.registered);
}

static void store_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    struct bytes word = r->left ? r->items[0] : BYTES_EMPTY;

    if (bytes_is(word, "MORE")) {
        op->definition.piece++;
        op_call(s, op, store_call_piece, store_answered);
        return;
    }
    if (bytes_is(word, "CONFLICT"))
        log_error("workflow_conflict", LOG_S("workflow", op->definition.workflow->full_name),
                  LOG_S("why", "registered before with other content: raise its version"));
}

void definition_store(struct scheduler *s, struct op *op, op_fn *then)
{
    op->definition.piece = 0;
    op->then = then;
    op_call(s, op, store_call_piece, store_answered);
}
