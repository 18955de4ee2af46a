// SPDX-License-Identifier: Apache-2.0
/*
 * ON settled, ON Notify: a job has ended, or stands, and somebody is to hear of it. The notice is
 * owed from that moment, in the store, and until this publish is confirmed: whoever dies in
 * between, the supervisor asks for it again. A reply queue that is gone, or events that the broker
 * refuses, are tried five times in an hour. That is the queue of whoever has submitted the job
 * last. Those who had submitted it before are told with the first try that comes to its end: like
 * the cause of an alert, which is news to all schedulers until one has told of it.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "scheduler/machine.h"

static void notice_call(struct scheduler *s, struct op *op)
{
    const struct workflow *w = definition_find(s, op->digest);

    ops_inspect_notice(s->out, op_call_id(s, op), op->partition, op->job, op->seq,
                       MACHINE_EVENT_RESULTS, w ? w->sinks : NULL, w ? w->n_sinks : 0);
}

static void settle_call(struct scheduler *s, struct op *op)
{
    const struct op_notice notice = {.job = op->job, .seq = op->seq};

    ops_settle_owed(s->out, op_call_id(s, op), op->partition, &notice, 1);
}

static void notice_answered(struct scheduler *s, struct op *op, struct ops_reader *r);

static void settle_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
}

/* ---- earlier addresses ---- */

/* The same for all schedulers: one that has asked may be gone. */
#define EARLIER_FRESH "e"

static void earlier_say(struct scheduler *s, struct op *op, enum ops_cause what)
{
    const char *cause = effects_printf(s->out, "END %s %" PRIu64, op->job, op->seq);

    ops_told(s->out, op_call_id(s, op), op->partition, cause, what, EARLIER_FRESH);
}

static void earlier_ask_call(struct scheduler *s, struct op *op)
{
    earlier_say(s, op, OPS_CAUSE_ASK);
}

static void earlier_asked(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    op->tells_earlier = ops_read_told(r);
    op_call(s, op, notice_call, notice_answered);
}

/* Where the notice is owed no more nobody asks again. */
static void earlier_told_call(struct scheduler *s, struct op *op)
{
    earlier_say(s, op, op->returned ? OPS_CAUSE_TOLD : OPS_CAUSE_OVER);
}

/* ---- what became of it ---- */

/* Every publish has its outcome. What found no queue stays owed, and the supervisor has it tried
 * again; after the last try it is read once more, for drover.dead. */
void notice_told(struct scheduler *s, struct op *op)
{
    if (op->tells_earlier) {
        op->tells_earlier = false;
        op->then = notice_told;
        op_call(s, op, earlier_told_call, settle_answered);
    } else if (!op->returned) {
        op_call(s, op, settle_call, settle_answered);
    } else if (!op->undeliverable && op->notices + 1 >= MACHINE_NOTICE_TRIES) {
        op->undeliverable = true;
        op->returned = false;
        s->stats.dead_letters++;
        s->letters.own++;
        log_warn("notice_undeliverable", LOG_S("job", op->job), LOG_I("tries", op->notices + 1));
        op_call(s, op, notice_call, notice_answered);
    }
}

/* Results of the sinks, and the names of those that did not fit. */
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

/* Of a job that did not get to where it was to go: why. What nobody is to try again is the step of
 * a compensated job alone: what else had failed is undone. */
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

/* As many as the store has kept: some two hundred. */
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
    p->parts[0].spare = earlier;
    message = publish_send(s, p, m->base.descriptor, packed, job->json);
    message->exchange = "";
    message->key = effects_text(s->out, to.reply_to);
    message->correlation_id = effects_text(s->out, to.correlation);
    message->job = effects_str(s->out, op->job);
    message->sender = effects_text(s->out, job->submitter);
    message->mandatory = true;
}

static const char *tell_nobody(struct scheduler *s, struct op *op, const Drover__V1__JobEvent *m,
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
                   tell_nobody(
                       s, op, &m, job,
                       effects_printf(s->out, "reply_to %s", effects_text(s->out, job->reply_to))));
    } else {
        event_publish(s, op, &m, w, name);
        if (job->reply_to.len > 0)
            tell_client(s, op, &m, job, (struct ops_address){job->reply_to, job->correlation},
                        false);
        for (uint32_t i = 0; op->tells_earlier && i < job->n_earlier; i++)
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

    alert_owed(op, job, effects_text(s->out, job->failed), w);
    if (op->undeliverable) {
        alert_event(s, &m, op);
        (void)tell_nobody(s, op, &m, job, "drover.events");
        op->then = notice_told;
    } else {
        alert_tell(s, op);
    }
}

static void notice_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    struct ops_reader from = *r;
    struct ops_job job;
    struct workflow *w;

    int unread = ops_read_notice(r, s->out, &job);
    bool torn =
        job.definition.len != ID_DIGEST_LEN; /* and killed: nobody knows its steps any more */

    if (unread < 0)
        log_error("store_answer_broken", LOG_S("job", op->job));
    if (unread)
        return; /* forgotten, or not owed: nothing to tell */
    op->notices = job.notices;
    if (!torn)
        memcpy(op->digest, job.definition.data, ID_DIGEST_LEN);
    op->with_results |= torn;
    w = torn ? NULL : definition_find(s, op->digest);
    if (!w && !torn) {
        definition_load(s, op, &from, notice_answered);
    } else if (bytes_is(job.outcome, "ALERT")) {
        tell_alert(s, op, &job, w);
    } else if (!op->with_results) {
        op->with_results = true; /* now that the sinks are known */
        op_call(s, op, notice_call, notice_answered);
    } else if (job.n_earlier > 0 && !op->asked_earlier) {
        op->asked_earlier = true;
        op_call(s, op, earlier_ask_call, earlier_asked);
    } else {
        op->then = notice_told;
        tell(s, op, &job, w);
    }
}

void notice_new(struct scheduler *s, struct item *item, const char *job, uint64_t seq,
                const char *digest)
{
    struct op *op = op_new(s, item, job);

    op->seq = seq;
    memcpy(op->digest, digest, strlen(digest) + 1);
    op->with_results = definition_find(s, op->digest) != NULL;
    op_call(s, op, notice_call, notice_answered);
    op_unref(s, op);
}
