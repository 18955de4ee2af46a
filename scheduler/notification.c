// SPDX-License-Identifier: Apache-2.0
/*
 * ON settled, ON Notify: publishes a notification of the outbox
 *
 * A notification says that a turn of a job has ended, or that a person is needed for a job (an
 * alert). The store call that ends the turn, or raises the alert, adds it to the outbox. It is
 * deleted when the broker has confirmed this publish. If a scheduler dies in between, the
 * supervisor asks for it (Notify), every five seconds; a scheduler that publishes it at present
 * ignores that, as the broker may take long to confirm. If the reply queue is gone, or the broker
 * refuses the event, the scheduler has the store put off the next try: it is tried five times in an
 * hour, then it goes to drover.dead.
 *
 * The reply queue is that of the client whose Submit came last. The clients that had submitted the
 * job before get the event too. A scheduler asks the store first whether this try is to publish to
 * them. The store says so until a scheduler has reported that all publishes of such a try have an
 * outcome.
 *
 * Called by transition.c and on_control.c.
 */
#include "scheduler/notification.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "model/status.h"
#include "scheduler/alert.h"
#include "scheduler/client_batch.h"
#include "scheduler/dead_letter.h"
#include "scheduler/definition.h"
#include "scheduler/event.h"
#include "scheduler/publish.h"
#include "scheduler/state.h"

/* bytes of results in a JobEvent: 256 KiB */
#define RESULTS_BYTES 262144

/* Publishes one notification. */
struct notification_op {
    struct alert_op alert; /* the alert, if it is one */
    struct list node;      /* in scheduler.notifications */
    uint64_t seq;
    int64_t at;             /* Unix ms: when it was recorded */
    uint32_t tries;         /* before this one */
    bool with_results;      /* the sinks are known */
    bool asked_earlier;     /* the store was asked about the earlier addresses ... */
    bool publishes_earlier; /* ... and this try publishes to them */
    bool undeliverable;     /* no tries are left: it goes to drover.dead */
};

static struct notification_op *notification_of(struct op *op)
{
    return container_of(op, struct notification_op, alert.op);
}

static void notification_call(struct scheduler *s, struct op *op)
{
    const struct workflow *w = definition_find(s, op->definition.digest);

    ops_inspect_notification(s->out, op_call_id(s, op), op->partition, op->job,
                             notification_of(op)->seq, RESULTS_BYTES, w ? w->sinks : NULL,
                             w ? w->n_sinks : 0);
}

static void notification_free(struct op *op)
{
    list_remove(&notification_of(op)->node);
    alert_free(op);
}

/* Whether this scheduler publishes the notification at present, and does not know the outcome. */
static bool in_progress(struct scheduler *s, const char *job, uint64_t seq)
{
    list_foreach(it, &s->notifications) {
        const struct notification_op *n = list_entry(it, struct notification_op, node);

        if (n->seq == seq && strcmp(n->alert.op.job, job) == 0)
            return true;
    }
    return false;
}

static void settle_call(struct scheduler *s, struct op *op)
{
    const struct notification_op *n = notification_of(op);
    const struct ops_notification_id id = {.job = op->job, .seq = n->seq, .at = n->at};

    ops_settle_owed(s->out, op_call_id(s, op), op->partition, &id);
}

static void defer_call(struct scheduler *s, struct op *op)
{
    const struct notification_op *n = notification_of(op);
    const struct ops_notification_id id = {.job = op->job, .seq = n->seq, .at = n->at};

    ops_defer_owed(s->out, op_call_id(s, op), op->partition, &id, n->tries);
}

static void notification_answered(struct scheduler *s, struct op *op, struct ops_reader *r);

static void ignore_answer(struct scheduler *s, struct op *op, struct ops_reader *r)
{
}

/* ---- earlier addresses ---- */

/* The same for all schedulers: one that has asked may have died. */
#define EARLIER_NONCE "e"

static void earlier_say(struct scheduler *s, struct op *op, enum ops_cause what)
{
    const char *cause =
        effects_printf(s->out, "END %s %" PRIu64, op->job, notification_of(op)->seq);

    ops_alert_cause(s->out, op_call_id(s, op), op->partition, cause, what, EARLIER_NONCE);
}

static void earlier_ask_call(struct scheduler *s, struct op *op)
{
    earlier_say(s, op, OPS_CAUSE_ASK);
}

static void earlier_asked(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    notification_of(op)->publishes_earlier = ops_read_alert_cause(r);
    op_call(s, op, notification_call, notification_answered);
}

/* OVER if the notification will now be deleted, because then no scheduler asks again. */
static void earlier_record_call(struct scheduler *s, struct op *op)
{
    earlier_say(s, op, op->returned ? OPS_CAUSE_PUBLISHED : OPS_CAUSE_OVER);
}

/* ---- the outcome, and the event ---- */

/* All publishes have their outcome. If one found no queue the notification stays in the outbox,
 * and the supervisor asks for it later; after the last try it is read once more, for drover.dead.
 */
static void on_published(struct scheduler *s, struct op *op)
{
    struct notification_op *n = notification_of(op);

    if (n->publishes_earlier) {
        n->publishes_earlier = false;
        op->then = on_published;
        op_call(s, op, earlier_record_call, ignore_answer);
    } else if (!op->returned) {
        op_call(s, op, settle_call, ignore_answer);
    } else if (!n->undeliverable && n->tries + 1 >= NOTIFICATION_TRIES) {
        n->undeliverable = true;
        op->returned = false;
        log_warn("notice_undeliverable", LOG_S("job", op->job), LOG_I("tries", n->tries + 1));
        op_call(s, op, notification_call, notification_answered);
    } else {
        op_call(s, op, defer_call, ignore_answer);
    }
}

/* The results of the sinks, and the names of those whose results did not fit. */
static void set_results(struct scheduler *s, Drover__V1__JobEvent *m, const struct ops_job *job,
                        const struct workflow *w)
{
    Drover__V1__Result *results = effects_alloc(s->out, job->n_results * sizeof(*results));

    m->results = effects_alloc(s->out, job->n_results * sizeof(*m->results));
    m->results_left_out = effects_alloc(s->out, job->n_results * sizeof(char *));
    for (uint32_t i = 0; i < job->n_results; i++) {
        uint32_t step = job->results[i].step;
        char *name = w && step < w->n_steps ? (char *)w->steps[step].name : NULL;

        if (!name)
            continue;
        if (job->results[i].payload.len == 0) {
            m->results_left_out[m->n_results_left_out++] = name;
            continue;
        }
        drover__v1__result__init(&results[i]);
        results[i].step = name;
        results[i].payload = ops_payload(job->results[i].payload);
        m->results[m->n_results++] = &results[i];
    }
}

static void free_results(Drover__V1__JobEvent *m)
{
    for (size_t i = 0; i < m->n_results; i++)
        drover__v1__payload__free_unpacked(m->results[i]->payload, NULL);
}

/* Why a job did not reach what was desired. If it was compensated, failed_steps has only the
 * step that decided it: the others that had failed are undone. */
static void set_failure(struct scheduler *s, Drover__V1__JobEvent *m, const struct ops_job *job)
{
    const char *step;

    if (m->outcome == DROVER__V1__OUTCOME__OUTCOME_SUCCEEDED)
        return;
    m->error = status_failure(s->out, job, &step);
    m->step = (char *)step;
    if (*step && m->n_failed_steps == 0) {
        m->failed_steps = effects_alloc(s->out, sizeof(char *));
        m->failed_steps[m->n_failed_steps++] = m->step;
    }
}

/* The steps that failed for good: as many as the store has kept, some two hundred. */
static void set_failed(struct scheduler *s, Drover__V1__JobEvent *m, const struct ops_job *job,
                       const struct workflow *w)
{
    const char *at = effects_text(s->out, job->failed);

    if (!w)
        return;
    m->failed_steps = effects_alloc(s->out, (job->failed.len / 2 + 1) * sizeof(char *));
    for (;;) {
        char *end;
        unsigned long step = strtoul(at, &end, 10);

        if (end == at)
            break;
        if (step < w->n_steps)
            m->failed_steps[m->n_failed_steps++] = (char *)w->steps[step].name;
        at = end;
    }
}

static const char *event_name(struct scheduler *s, struct bytes outcome)
{
    char *name = effects_text(s->out, outcome);

    for (char *c = name; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return name;
}

static void set_facts(struct scheduler *s, Drover__V1__JobEvent *m, const struct notification_op *n,
                      const struct ops_job *job)
{
    m->kind = DROVER__V1__EVENT_KIND__EVENT_KIND_SETTLED;
    m->job_id = n->alert.op.job;
    m->workflow = effects_text(s->out, job->workflow);
    m->seq = n->seq;
    m->at = job->updated;
    m->turn = job->turn;
    m->phase = status_phase(job->phase);
    m->outcome = status_outcome(job->outcome);
    m->reason = effects_text(s->out, job->reason);
    m->traceparent = effects_text(s->out, job->traceparent);
    m->steps_total = job->n;
    m->steps_open = job->open;
}

static void add_to_batch(struct scheduler *s, struct op *op, const Drover__V1__JobEvent *m,
                         const struct ops_job *job, struct ops_address to)
{
    client_batch_add(s, op,
                     &(struct client_message){
                         .body = &m->base,
                         .json = job->json,
                         .reply_to = effects_text(s->out, to.reply_to),
                         .correlation = effects_text(s->out, to.correlation),
                         .sender = effects_text(s->out, job->submitter),
                     });
}

/* An earlier client need not read batches. */
static void publish_to_client(struct scheduler *s, struct op *op, const Drover__V1__JobEvent *m,
                              const struct ops_job *job, struct ops_address to, bool earlier)
{
    struct bytes packed = wire_pack(s->out, &m->base, job->json);
    static const struct publish_kind kind = {0};
    struct publish *p = publish_new(s, 1, &kind);
    struct bus_message *message;

    publish_add(s, p, op, packed.len)->optional = earlier;
    message = publish_send(s, p, m->base.descriptor, packed, job->json);
    message->exchange = "";
    message->key = effects_text(s->out, to.reply_to);
    message->correlation_id = effects_text(s->out, to.correlation);
    message->job = effects_str(s->out, op->job);
    message->sender = effects_text(s->out, job->submitter);
    message->mandatory = true;
}

static const char *publish_dead(struct scheduler *s, struct op *op, const Drover__V1__JobEvent *m,
                                const struct ops_job *job, const char *why)
{
    struct bus_message *message = publish_message(s, op, &m->base, job->json);

    message->exchange = "drover.dead";
    message->key = "";
    message->job = effects_str(s->out, op->job);
    message->reason = effects_printf(s->out, "UNDELIVERABLE %s", why);
    message->mandatory = true;
    s->stats.dead_letters++;
    s->dead_letters.own++;
    return message->reason;
}

static void publish_settled(struct scheduler *s, struct notification_op *n,
                            const struct ops_job *job, const struct workflow *w)
{
    Drover__V1__JobEvent m = DROVER__V1__JOB_EVENT__INIT;
    Drover__V1__Submit *labels = status_labels(job->labels);
    const char *name = event_name(s, job->outcome);
    struct op *op = &n->alert.op;

    set_facts(s, &m, n, job);
    set_results(s, &m, job, w);
    set_failed(s, &m, job, w);
    set_failure(s, &m, job);
    if (labels) {
        m.n_labels = labels->n_labels;
        m.labels = labels->labels;
    }
    if (n->undeliverable) {
        dead_letter_alert(s, op->job,
                          publish_dead(s, op, &m, job,
                                       effects_printf(s->out, "reply_to %s",
                                                      effects_text(s->out, job->reply_to))));
    } else {
        event_publish(s, op, &m, w, name);
        if (job->reply_to.len > 0 && job->batches)
            add_to_batch(s, op, &m, job, (struct ops_address){job->reply_to, job->correlation});
        else if (job->reply_to.len > 0)
            publish_to_client(s, op, &m, job, (struct ops_address){job->reply_to, job->correlation},
                              false);
        for (uint32_t i = 0; n->publishes_earlier && i < job->n_earlier; i++)
            publish_to_client(s, op, &m, job, job->earlier[i], true);
        log_info("job_settled", LOG_S("job", op->job), LOG_S("outcome", name),
                 LOG_I("seq", (int64_t)n->seq));
    }
    free_results(&m);
    if (labels)
        drover__v1__submit__free_unpacked(labels, NULL);
}

/* The reason of an alert about a job; NULL if it is about an actor. */
static const char *reason_of_job(struct bytes reason)
{
    static const char *const reasons[] = {ALERT_PARKED, ALERT_DEADLINE, ALERT_FAILED,
                                          ALERT_COMPENSATED, ALERT_COMPENSATION_FAILED};

    for (size_t i = 0; i < array_size(reasons); i++)
        if (bytes_is(reason, reasons[i]))
            return reasons[i];
    return NULL;
}

bool notification_is_alert(struct bytes reason)
{
    return reason_of_job(reason) != NULL;
}

/* Sets the alert by what the outbox has. The step is "<number> <1 for the undo, else 0>", or "". */
static void set_alert(struct scheduler *s, struct notification_op *n, const struct ops_job *job,
                      struct workflow *w)
{
    const char *reason = reason_of_job(job->reason);
    struct alert *alert = &n->alert.alert;
    unsigned number, back;

    *alert = (struct alert){
        .step = WORKFLOW_NONE,
        .at = job->updated,
        .seq = n->seq,
        .reason = reason ? reason : ALERT_PARKED,
    };
    if (w && sscanf(effects_text(s->out, job->failed), "%u %u", &number, &back) == 2 &&
        number < w->n_steps) {
        alert->step = number;
        alert->back = back > 0;
    }
    workflow_unref(n->alert.op.definition.workflow);
    n->alert.op.definition.workflow = w ? workflow_ref(w) : NULL;
}

static void publish_alert(struct scheduler *s, struct notification_op *n, const struct ops_job *job,
                          struct workflow *w)
{
    Drover__V1__JobEvent m;

    set_alert(s, n, job, w);
    if (n->undeliverable) {
        alert_event(s, &m, &n->alert);
        (void)publish_dead(s, &n->alert.op, &m, job, "drover.events");
        n->alert.op.then = on_published;
    } else {
        alert_publish(s, &n->alert);
    }
}

static void notification_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    struct notification_op *n = notification_of(op);
    struct ops_reader from = *r;
    struct ops_job job;
    struct workflow *w;
    int unread = ops_read_notification(r, s->out, &job);
    bool torn = job.definition.len != ID_DIGEST_LEN; /* killed while corrupt: steps unknown */

    if (unread < 0)
        log_error("store_answer_broken", LOG_S("job", op->job));
    if (unread)
        return; /* forgotten, not in the outbox, or put off: nothing to publish */
    if (n->undeliverable && job.updated != n->at)
        return; /* another one of this number: the store went back, and its tries are its own */
    n->at = job.updated;
    n->tries = job.notifications;
    if (!torn)
        memcpy(op->definition.digest, job.definition.data, ID_DIGEST_LEN);
    n->with_results |= torn;
    w = torn ? NULL : definition_find(s, op->definition.digest);
    if (!w && !torn) {
        definition_load(s, op, &from, notification_answered);
    } else if (bytes_is(job.outcome, "ALERT")) {
        publish_alert(s, n, &job, w);
    } else if (!n->with_results) {
        n->with_results = true; /* now the sinks are known */
        op_call(s, op, notification_call, notification_answered);
    } else if (job.n_earlier > 0 && !n->asked_earlier) {
        n->asked_earlier = true;
        op_call(s, op, earlier_ask_call, earlier_asked);
    } else {
        op->then = on_published;
        publish_settled(s, n, &job, w);
    }
}

void notification_new(struct scheduler *s, struct item *item, const char *job, uint64_t seq,
                      const char *digest)
{
    struct notification_op *n = op_new(s, item, job, sizeof(*n), notification_free);
    struct op *op = &n->alert.op;

    list_append(&s->notifications, &n->node);
    n->seq = seq;
    n->alert.published = on_published;
    memcpy(op->definition.digest, digest, strlen(digest) + 1);
    n->with_results = definition_find(s, op->definition.digest) != NULL;
    op_call(s, op, notification_call, notification_answered);
    op_unref(s, op);
}

void notification_asked(struct scheduler *s, struct item *item, const char *job, uint64_t seq)
{
    if (!in_progress(s, job, seq))
        notification_new(s, item, job, seq, "");
}
