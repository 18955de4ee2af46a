// SPDX-License-Identifier: Apache-2.0
/*
 * ON Submit: records a job
 *
 * One store call records the job and dispatches its roots; then the requests and the Receipt are
 * published. A definition in the Submit is stored first, unless it is in the cache. If the store no
 * longer has it, the store answers UNKNOWN_DEFINITION and the scheduler stores it again. Called by
 * on_delivery.c.
 */
#include "scheduler/on_submit.h"

#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "scheduler/access.h"
#include "scheduler/allowance.h"
#include "scheduler/client_batch.h"
#include "scheduler/dead_letter.h"
#include "scheduler/definition.h"
#include "scheduler/publish.h"
#include "scheduler/rollback.h"
#include "scheduler/state.h"
#include "scheduler/transition.h"

struct submit_op {
    struct transition_op transition;
    struct ops_submit_args submit;
    char digest[ID_DIGEST_LEN + 1]; /* of the submission */
    struct buf input;               /* encoded */
    struct buf labels;              /* encoded */
    struct buf index;               /* the labels, as the store finds jobs by them */
};

static struct submit_op *submit_of(struct op *op)
{
    return container_of(op, struct submit_op, transition.op);
}

static void submit_free(struct op *op)
{
    struct submit_op *o = submit_of(op);

    buf_deinit(&o->input);
    buf_deinit(&o->labels);
    buf_deinit(&o->index);
}

static void submit_call(struct scheduler *s, struct op *op)
{
    struct submit_op *o = submit_of(op);

    o->submit.redelivered |= op->repeated;
    ops_submit(s->out, op_call_id(s, op), op->partition, &o->submit);
}

static void receipt(struct scheduler *s, struct op *op, Drover__V1__ReceiptCode code,
                    const char *field, const char *reason, const struct workflow *w, int64_t now)
{
    Drover__V1__Receipt m = DROVER__V1__RECEIPT__INIT;

    m.job_id = op->job;
    m.code = code;
    m.field = (char *)field;
    m.reason = (char *)reason;
    m.recorded_at = now;
    if (w) {
        m.workflow = (char *)w->full_name;
        m.steps = w->n_steps;
    }
    if (*op->item->reply_to && op->item->message.submit->batches)
        client_batch_add(s, op,
                         &(struct client_message){
                             .body = &m.base,
                             .json = op->item->json,
                             .reply_to = op->item->reply_to,
                             .correlation = op->item->correlation,
                             .sender = op->item->user,
                         });
    else
        publish_reply(s, op, &m.base);
}

/* Without a reply queue the Submit becomes a dead letter, for a person. */
static void reject(struct scheduler *s, struct op *op, const char *field, const char *reason)
{
    s->stats.rejected++;
    if (*op->item->reply_to)
        receipt(s, op, DROVER__V1__RECEIPT_CODE__RECEIPT_CODE_REJECTED, field, reason, NULL, 0);
    else
        dead_letter_send(s, op->item, effects_printf(s->out, "INVALID %s %s", field, reason));
}

static void refuse_for_now(struct scheduler *s, struct op *op, const char *field,
                           const char *reason)
{
    s->stats.retry_later++;
    if (*op->item->reply_to)
        receipt(s, op, DROVER__V1__RECEIPT_CODE__RECEIPT_CODE_RETRY_LATER, field, reason, NULL, 0);
    else
        dead_letter_send(s, op->item, effects_printf(s->out, "LIMIT %s %s", field, reason));
}

static void retry_later(struct scheduler *s, struct op *op)
{
    refuse_for_now(s, op, "", "the store is out of memory and takes no new work now");
}

static void submit_answered(struct scheduler *s, struct op *op, struct ops_reader *r);

static void submit(struct scheduler *s, struct op *op)
{
    op_call(s, op, submit_call, submit_answered);
}

/* The definition of a redelivered Submit costs no allowance: its job may be recorded already, and
 * only the Receipt may be missing. */
static void define(struct scheduler *s, struct op *op)
{
    if (op->item->redelivered ||
        allowance_takes_definition(s, op->item->user, op->definition.workflow->memory)) {
        definition_keep(s, op->definition.workflow);
        definition_store(s, op, submit);
    } else {
        refuse_for_now(s, op, "definition",
                       effects_printf(s->out,
                                      "%s has brought as many bytes of definitions as it may in an "
                                      "hour (security.submitters)",
                                      op->item->user));
    }
}

/* The job is in the store: by this Submit, or by an earlier one with the same content. */
static void on_recorded(struct scheduler *s, struct transition_op *t,
                        const struct ops_transition *transition, struct workflow *w)
{
    struct op *op = &t->op;
    Drover__V1__ReceiptCode code = DROVER__V1__RECEIPT_CODE__RECEIPT_CODE_ALREADY;

    rollback_accepted(s, op, transition->watermark);
    if (transition->code == OPS_CREATED) {
        code = DROVER__V1__RECEIPT_CODE__RECEIPT_CODE_CREATED;
        s->stats.created++;
        log_info("job_created", LOG_S("job", op->job), LOG_S("workflow", w ? w->full_name : ""),
                 LOG_I("steps", transition->steps));
    } else {
        s->stats.already++;
    }
    receipt(s, op, code, "", "", w, transition->now);
    transition_publish(s, t, transition, w);
}

static void on_conflict(struct scheduler *s, struct op *op, int64_t now)
{
    s->stats.conflicts++;
    receipt(s, op, DROVER__V1__RECEIPT_CODE__RECEIPT_CODE_CONFLICT, "job_id",
            s->access->required ? "this id is taken by a job with other content, or of another user"
                                : "this id is taken by a job with other content",
            NULL, now);
}

static void on_too_many(struct scheduler *s, struct op *op)
{
    refuse_for_now(s, op, "user_id",
                   effects_printf(s->out,
                                  "%s has as many jobs in the store, or takes as many bytes of it, "
                                  "as it may (security.submitters)",
                                  op->item->user));
}

static void on_unknown_definition(struct scheduler *s, struct op *op)
{
    if (op->definition.workflow)
        define(s, op);
    else
        reject(s, op, "workflow", "its definition is gone from the store: register it again");
}

/* The call is repeated while workflows are being registered: the named one may be among them. */
static void on_unknown_workflow(struct scheduler *s, struct op *op)
{
    if (s->registration.in_progress > 0) {
        op->refs++;
        op_repeat_at(s, op, s->now + OP_REPEAT_MS);
    } else {
        reject(s, op, "workflow", "no workflow of this name and version is registered");
    }
}

static void on_submitted(struct scheduler *s, struct transition_op *t,
                         const struct ops_transition *transition, struct workflow *w)
{
    struct op *op = &t->op;

    switch (transition->code) {
    case OPS_CREATED:
    case OPS_ALREADY:
        on_recorded(s, t, transition, w);
        break;
    case OPS_CONFLICT:
        on_conflict(s, op, transition->now);
        break;
    case OPS_TOO_FAR:
        reject(s, op, "start_at", "is further ahead than scheduler.horizon allows");
        break;
    case OPS_TOO_MANY:
        on_too_many(s, op);
        break;
    case OPS_NAME_TAKEN:
        reject(s, op, "definition.name",
               "is that of a registered workflow: name that in `workflow`, or call this one "
               "otherwise");
        break;
    case OPS_EXPIRED:
        reject(s, op, "complete_by", "has passed: the job is not to begin any more");
        break;
    case OPS_UNKNOWN_DEFINITION:
        on_unknown_definition(s, op);
        break;
    case OPS_UNKNOWN_WORKFLOW:
        on_unknown_workflow(s, op);
        break;
    default:
        log_error("store_answer_unexpected", LOG_S("job", op->job),
                  LOG_S("code", ops_code_name(transition->code)));
        break;
    }
}

static void submit_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    transition_answered(s, op, r, on_submitted);
}

/* The digest of what determines the work, encoded again. Who sends the Submit, and where answers
 * go, is not part of it. */
static void submission_digest(const Drover__V1__Submit *m, const struct workflow *w, char *out)
{
    Drover__V1__Submit bare = *m;
    struct buf text = {0};

    bare.reply_to = bare.traceparent = (char *)protobuf_c_empty_string;
    bare.definition = NULL;
    bare.batches = false;
    /* EVENTS_STEP_REPLY is left out of the digest; the older values of `events` are part of it. */
    if (bare.events == DROVER__V1__EVENTS__EVENTS_STEP_REPLY)
        bare.events = DROVER__V1__EVENTS__EVENTS_UNSPECIFIED;
    (void)wire_encode(&bare.base, false, &text);
    if (w)
        buf_puts(&text, w->digest);
    id_digest(buf_or_abort(&text), out);
    buf_deinit(&text);
}

static void labels_append(struct buf *out, const Drover__V1__Submit *m)
{
    Drover__V1__Submit labels = DROVER__V1__SUBMIT__INIT;

    labels.n_labels = m->n_labels;
    labels.labels = m->labels;
    (void)wire_encode(&labels.base, false, out);
}

static void index_append(struct buf *out, const Drover__V1__Submit *m)
{
    for (size_t i = 0; i < m->n_labels; i++)
        ops_label(out, m->labels[i]->name, m->labels[i]->value);
}

static const char *events_word(Drover__V1__Events events)
{
    switch (events) {
    case DROVER__V1__EVENTS__EVENTS_STEP:
        return "step";
    case DROVER__V1__EVENTS__EVENTS_STEP_REPLY:
        return "reply";
    default:
        return "job";
    }
}

static void set_submit(struct submit_op *o, const struct scheduler *s, const struct bus_delivery *d)
{
    const struct op *op = &o->transition.op;
    const struct workflow *w = op->definition.workflow;
    const Drover__V1__Submit *m = op->item->message.submit;
    const struct access_limits limits = access_limits(s->access, op->item->user);

    submission_digest(m, w, o->digest);
    wire_append_payload(&o->input, m->input);
    labels_append(&o->labels, m);
    index_append(&o->index, m);
    if (s->access->required)
        ops_label(&o->index, OPS_OWNER_LABEL, op->item->user);
    o->submit = (struct ops_submit_args){
        .job = op->job,
        .digest = o->digest,
        .definition = w ? w->digest : "",
        .workflow = m->workflow,
        .redelivered = d->redelivered,
        .nonce = op->nonce,
        .scheduler = s->name,
        .active = m->desired != DROVER__V1__STATE__STATE_DISABLED,
        .start_at = m->start_at,
        .complete_by = m->complete_by,
        .events = events_word(m->events),
        .priority = m->priority,
        .reply_to = op->item->reply_to,
        .correlation = op->item->correlation,
        .input = buf_or_abort(&o->input),
        .labels = buf_or_abort(&o->labels),
        .index = buf_or_abort(&o->index),
        .traceparent = m->traceparent,
        .submitter = op->item->user,
        .owner = s->access->required ? op->item->user : NULL,
        .horizon = s->horizon_ms,
        .most_jobs = allowance_share(s, limits.jobs),
        .most_bytes = allowance_share(s, limits.bytes),
        .json = op->item->json,
        .batches = m->batches,
    };
}

static void record_job(struct scheduler *s, struct op *op)
{
    if (op->definition.workflow && !definition_find(s, op->definition.workflow->digest))
        define(s, op);
    else
        submit(s, op);
}

/* Waits until the store has capacity. */
static void wait_for_store(struct scheduler *s, struct op *op)
{
    op->send_call = wait_for_store;
    if (s->store_full) {
        op_repeat_at(s, op, s->now + OP_REPEAT_MS);
        return;
    }
    record_job(s, op);
    op_unref(s, op); /* the timer's reference */
}

/* New jobs are refused well before the store is out of memory, so that jobs in progress have
 * memory to end. */
static void begin(struct scheduler *s, struct op *op)
{
    if (!s->store_full) {
        record_job(s, op);
    } else if (op->on_full && *op->item->reply_to) {
        op->on_full(s, op);
    } else if (item_is_large(op->item)) {
        dead_letter_send(s, op->item, "STORE_FULL");
    } else {
        op->refs++;
        wait_for_store(s, op);
    }
}

void on_submit(struct scheduler *s, struct item *item, const struct bus_delivery *d)
{
    const Drover__V1__Submit *m = item->message.submit;
    struct submit_op *o = op_new(s, item, m->job_id, sizeof(*o), submit_free);
    struct op *op = &o->transition.op;
    struct problem problem = {0};
    int bad =
        m->definition ? definition_of(s, m->definition, &op->definition.workflow, &problem) : 0;

    s->stats.submits++;
    if (bad == -ENOMEM)
        abort();
    if (bad) {
        reject(s, op, problem.field, problem.reason);
    } else {
        set_submit(o, s, d);
        /* a redelivered Submit waits, because its job may be recorded already; a large Submit
         * cannot be kept in memory */
        op->on_full = d->redelivered && !item_is_large(op->item) ? NULL : retry_later;
        begin(s, op);
    }
    op_unref(s, op);
}
