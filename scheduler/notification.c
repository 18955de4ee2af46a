// SPDX-License-Identifier: Apache-2.0
/*
 * ON settled, ON Notify: publishes a notification of the outbox
 *
 * A notification says that a turn of a job has ended, or that a person is needed for a job (an
 * alert). The store call that ends the turn, or raises the alert, adds it to the outbox. It is
 * deleted when the broker has confirmed this publish. If a scheduler dies in between, the
 * supervisor asks for it (Notify). If the reply queue is gone, or the broker refuses the event, it
 * is tried five times in an hour, then it goes to drover.dead.
 *
 * The reply queue is that of the client whose Submit came last. The clients that had submitted the
 * job before get the event with the first try whose publishes have all their outcome. As with the
 * cause of an alert, the store decides which scheduler publishes to them, until one has.
 *
 * Called by transition.c, alert.c and on_control.c.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "scheduler/machine.h"

static void notification_call(struct scheduler *s, struct op *op)
{
    const struct workflow *w = definition_find(s, op->digest);

    ops_inspect_notification(s->out, op_call_id(s, op), op->partition, op->job, op->seq,
                             MACHINE_EVENT_RESULTS, w ? w->sinks : NULL, w ? w->n_sinks : 0);
}

static void settle_call(struct scheduler *s, struct op *op)
{
    const struct op_notification notification = {.job = op->job, .seq = op->seq};

    ops_settle_owed(s->out, op_call_id(s, op), op->partition, &notification, 1);
}

static void notification_answered(struct scheduler *s, struct op *op, struct ops_reader *r);

static void settle_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
}

/* ---- earlier addresses ---- */

/* The same for all schedulers: one that has asked may have died. */
#define EARLIER_NONCE "e"

static void earlier_say(struct scheduler *s, struct op *op, enum ops_cause what)
{
    const char *cause = effects_printf(s->out, "END %s %" PRIu64, op->job, op->seq);

    ops_told(s->out, op_call_id(s, op), op->partition, cause, what, EARLIER_NONCE);
}

static void earlier_ask_call(struct scheduler *s, struct op *op)
{
    earlier_say(s, op, OPS_CAUSE_ASK);
}

static void earlier_asked(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    op->publishes_earlier = ops_read_told(r);
    op_call(s, op, notification_call, notification_answered);
}

/* If the notification is out of the outbox no scheduler asks again. */
static void earlier_told_call(struct scheduler *s, struct op *op)
{
    earlier_say(s, op, op->returned ? OPS_CAUSE_TOLD : OPS_CAUSE_OVER);
}

/* ---- the outcome, and the event ---- */

/* All publishes have their outcome. If one found no queue the notification stays in the outbox,
 * and the supervisor asks for it again; after the last try it is read once more, for
 * drover.dead. */
void notification_published(struct scheduler *s, struct op *op)
{
    if (op->publishes_earlier) {
        op->publishes_earlier = false;
        op->then = notification_published;
        op_call(s, op, earlier_told_call, settle_answered);
    } else if (!op->returned) {
        op_call(s, op, settle_call, settle_answered);
    } else if (!op->undeliverable && op->notifications + 1 >= MACHINE_NOTIFICATION_TRIES) {
        op->undeliverable = true;
        op->returned = false;
        s->stats.dead_letters++;
        s->letters.own++;
        log_warn("notice_undeliverable", LOG_S("job", op->job),
                 LOG_I("tries", op->notifications + 1));
        op_call(s, op, notification_call, notification_answered);
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
        if (m->results[i]->payload)
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

static void set_facts(struct scheduler *s, Drover__V1__JobEvent *m, const struct op *op,
                      const struct ops_job *job)
{
    m->kind = DROVER__V1__EVENT_KIND__EVENT_KIND_SETTLED;
    m->job_id = op->job;
    m->workflow = effects_text(s->out, job->workflow);
    m->seq = op->seq;
    m->at = job->updated;
    m->turn = job->turn;
    m->phase = status_phase(job->phase);
    m->outcome = status_outcome(job->outcome);
    m->reason = effects_text(s->out, job->reason);
    m->traceparent = effects_text(s->out, job->traceparent);
    m->steps_total = job->n;
    m->steps_open = job->open;
}

static void tell_client(struct scheduler *s, struct op *op, const Drover__V1__JobEvent *m,
                        const struct ops_job *job, struct ops_address to, bool earlier)
{
    struct bytes packed = wire_pack(s->out, &m->base, job->json);
    struct publish *p = publish_new(s, 1);
    struct bus_message *message;

    publish_part(s, p, op, NULL, packed.len);
    p->parts[0].optional = earlier;
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
    struct bus_message *message = op_publish(s, op, &m->base, job->json, NULL);

    message->exchange = "drover.dead";
    message->key = "";
    message->job = effects_str(s->out, op->job);
    message->reason = effects_printf(s->out, "UNDELIVERABLE %s", why);
    message->mandatory = true;
    return message->reason;
}

static void tell(struct scheduler *s, struct op *op, const struct ops_job *job,
                 const struct workflow *w)
{
    Drover__V1__JobEvent m = DROVER__V1__JOB_EVENT__INIT;
    Drover__V1__Submit *labels = status_labels(job->labels);
    const char *name = event_name(s, job->outcome);

    set_facts(s, &m, op, job);
    set_results(s, &m, job, w);
    set_failed(s, &m, job, w);
    set_failure(s, &m, job);
    if (labels) {
        m.n_labels = labels->n_labels;
        m.labels = labels->labels;
    }
    if (op->undeliverable) {
        alert_dead(s, op->job,
                   publish_dead(
                       s, op, &m, job,
                       effects_printf(s->out, "reply_to %s", effects_text(s->out, job->reply_to))));
    } else {
        event_publish(s, op, &m, w, name);
        if (job->reply_to.len > 0)
            tell_client(s, op, &m, job, (struct ops_address){job->reply_to, job->correlation},
                        false);
        for (uint32_t i = 0; op->publishes_earlier && i < job->n_earlier; i++)
            tell_client(s, op, &m, job, job->earlier[i], true);
        log_info("job_settled", LOG_S("job", op->job), LOG_S("outcome", name),
                 LOG_I("seq", (int64_t)op->seq));
    }
    free_results(&m);
    if (labels)
        drover__v1__submit__free_unpacked(labels, NULL);
}

static void tell_alert(struct scheduler *s, struct op *op, const struct ops_job *job,
                       struct workflow *w)
{
    Drover__V1__JobEvent m;

    alert_from_outbox(op, job, effects_text(s->out, job->failed), w);
    if (op->undeliverable) {
        alert_event(s, &m, op);
        (void)publish_dead(s, op, &m, job, "drover.events");
        op->then = notification_published;
    } else {
        alert_publish(s, op);
    }
}

static void notification_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    struct ops_reader from = *r;
    struct ops_job job;
    struct workflow *w;

    int unread = ops_read_notification(r, s->out, &job);
    bool torn = job.definition.len != ID_DIGEST_LEN; /* killed while corrupt: steps unknown */

    if (unread < 0)
        log_error("store_answer_broken", LOG_S("job", op->job));
    if (unread)
        return; /* forgotten, or not in the outbox: nothing to publish */
    op->notifications = job.notifications;
    if (!torn)
        memcpy(op->digest, job.definition.data, ID_DIGEST_LEN);
    op->with_results |= torn;
    w = torn ? NULL : definition_find(s, op->digest);
    if (!w && !torn) {
        definition_load(s, op, &from, notification_answered);
    } else if (bytes_is(job.outcome, "ALERT")) {
        tell_alert(s, op, &job, w);
    } else if (!op->with_results) {
        op->with_results = true; /* now the sinks are known */
        op_call(s, op, notification_call, notification_answered);
    } else if (job.n_earlier > 0 && !op->asked_earlier) {
        op->asked_earlier = true;
        op_call(s, op, earlier_ask_call, earlier_asked);
    } else {
        op->then = notification_published;
        tell(s, op, &job, w);
    }
}

void notification_new(struct scheduler *s, struct item *item, const char *job, uint64_t seq,
                      const char *digest)
{
    struct op *op = op_new(s, item, job);

    op->seq = seq;
    memcpy(op->digest, digest, strlen(digest) + 1);
    op->with_results = definition_find(s, op->digest) != NULL;
    op_call(s, op, notification_call, notification_answered);
    op_unref(s, op);
}
