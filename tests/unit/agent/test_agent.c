// SPDX-License-Identifier: Apache-2.0
/*
 * The agent as narratives: what happens in virtual time, and what the agent does then, as text
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/state.h"
#include "base/log.h"
#include "model/wire.h"

#define RUNS_MAX 64
#define OPEN_MAX 64

struct world {
    struct agent *agent;
    struct effects out;
    int64_t now;
    int64_t next;
    struct buf story;
    const struct agent_run *runs[RUNS_MAX]; /* started and not done */
    uint64_t open[OPEN_MAX];                /* publishes without an outcome, oldest first */
    size_t n_open;
    bool mandatory;   /* of the last publish */
    bool redelivered; /* of what is delivered from now on */
    bool resent;
    const char *queue;      /* whose queue delivers from now on; NULL: no exchange in the story */
    const char *properties; /* token in the properties of deliveries from now on */
    bool headers;           /* show those of messages in the story */
    bool evidence;          /* show Progress in the story; else confirm it at once */
    uint64_t taken[8];      /* such publishes */
    size_t n_taken;
};

/* One request of a delivery. */
struct ask {
    const char *step; /* also its token, unless one is given */
    int64_t lock;
    int64_t heartbeat;
    const char *token;
    const char *actor;
    const char *traceparent;
    uint32_t attempt;
};

/* ---- the story ---- */

static void tell_reply(struct world *w, const Drover__V1__StepReply *m)
{
    buf_printf(&w->story, " %s", m->step);
    assert_true(!m->result || m->result->data.len > 0 || *m->result->content_type);
    if (!m->error)
        buf_printf(&w->story, "=%.*s", m->result ? (int)m->result->data.len : 0,
                   m->result ? (const char *)m->result->data.data : "");
    else
        buf_printf(&w->story, "!%s%s", m->error->class_,
                   m->error->verdict == DROVER__V1__VERDICT__VERDICT_PERMANENT ? "(permanent)"
                   : m->error->verdict == DROVER__V1__VERDICT__VERDICT_DEFER   ? "(deferred)"
                                                                               : "");
    if (m->error && m->error->effect == DROVER__V1__EFFECT__EFFECT_NONE)
        buf_puts(&w->story, "(nothing done)");
    if (m->error && m->error->retry_after_ms > 0)
        buf_printf(&w->story, "+%d", (int)m->error->retry_after_ms);
    if (m->batch > 0)
        buf_printf(&w->story, " takes %u", (unsigned)m->batch);
    if (m->error && strcmp(m->error->class_, "NO_SLOT") == 0)
        assert_int_equal(m->duration_ms, 0); /* it has not begun */
}

static void tell_headers(struct world *w, const struct bus_message *m)
{
    if (w->headers)
        buf_printf(&w->story, " with headers %s/%s %d", m->job ? m->job : "",
                   m->step ? m->step : "", (int)m->attempt);
    if (m->traceparent)
        buf_printf(&w->story, " of trace %s", m->traceparent);
}

static void tell_replies(struct world *w, const struct bus_message *m)
{
    struct wire_message message = {0};
    struct problem problem;

    assert_int_equal(wire_decode(WIRE_REPLIES, m->body, NULL, &message, &problem), 0);
    assert_string_equal(m->content_type, wire_content_type(message.json));
    assert_non_null(wire_reply_actor(m->exchange));
    if (w->queue)
        buf_printf(&w->story, "by %s ", wire_reply_actor(m->exchange));
    assert_string_equal(m->type, "drover.v1.Replies");
    for (size_t i = 0; i < message.replies->n_replies; i++) {
        assert_int_equal(wire_check_reply(message.replies, i, &problem), 0);
        assert_string_equal(message.replies->replies[i]->agent, "tester");
        if (i == 0)
            buf_puts(&w->story, message.json ? "reply as JSON" : "reply");
        tell_reply(w, message.replies->replies[i]);
    }
    for (size_t i = 0; i < message.replies->n_progress; i++) {
        const Drover__V1__Progress *p = message.replies->progress[i];

        assert_int_equal(wire_check_progress(message.replies, i, &problem), 0);
        assert_string_equal(p->agent, "tester");
        if (m->reply_to) {
            buf_printf(&w->story, "progress %s %.2f %s", p->step, p->fraction, p->note);
            assert_string_equal(m->reply_to, "amq.rabbitmq.reply-to");
        } else {
            buf_printf(&w->story, "evidence %s %d", p->token, (int)p->elapsed_ms);
        }
    }
    if (message.replies->requests_lost)
        buf_printf(&w->story, "lost %s", wire_reply_actor(m->exchange));
    tell_headers(w, m);
    assert_int_equal(m->mandatory,
                     message.replies->n_replies > 0 || message.replies->requests_lost);
    assert_int_equal(m->not_after > w->now, !message.replies->requests_lost);
    assert_true(!message.replies->requests_lost || !(m->cached || m->transient));
    wire_free(&message);
}

/* Progress that does not ask for an answer. */
static bool is_evidence(const struct bus_message *m)
{
    return wire_reply_actor(m->exchange) && !m->mandatory && !m->reply_to;
}

static void tell_publish(struct world *w, const struct effect *e)
{
    if (strcmp(e->publish.exchange, "drover.dead") == 0)
        buf_printf(&w->story, "dead letter: %s", e->publish.reason);
    else
        tell_replies(w, &e->publish);
    if (e->id) {
        assert_true(w->n_open < OPEN_MAX);
        w->open[w->n_open++] = e->id;
        w->mandatory = e->publish.mandatory;
    }
}

static void tell_role(struct world *w, const struct effect *e)
{
    const struct agent_run *run = e->role.object;

    if (e->role.what == AGENT_DECLARE) {
        buf_printf(&w->story, "declare %s", (const char *)e->role.object);
        return;
    }
    assert_true(run->id == e->id);
    buf_printf(&w->story, "%s %s", e->role.what == AGENT_START ? "start" : "stop",
               run->request->step);
    if (e->role.what != AGENT_START)
        return;
    if (run->tries > 0)
        buf_printf(&w->story, " again");
    if (run->repeated)
        buf_printf(&w->story, " repeated");
    for (size_t i = 0; i < RUNS_MAX; i++)
        if (!w->runs[i]) {
            w->runs[i] = run;
            return;
        }
    fail_msg("too many runs");
}

static void tell(struct world *w)
{
    for (size_t i = 0; i < w->out.n; i++) {
        const struct effect *e = &w->out.items[i];

        if (!w->evidence && e->type == EFFECT_PUBLISH && is_evidence(&e->publish)) {
            w->taken[w->n_taken++] = e->id;
            continue;
        }
        buf_printf(&w->story, "%d: ", (int)w->now);
        if (e->type == EFFECT_ROLE)
            tell_role(w, e);
        else if (e->type == EFFECT_PUBLISH)
            tell_publish(w, e);
        else if (e->type == EFFECT_CONSUME)
            buf_puts(&w->story, e->wanted ? "consume" : "pause");
        else
            buf_printf(&w->story, "%s %d", e->type == EFFECT_ACK ? "ack" : "requeue", (int)e->id);
        buf_putc(&w->story, '\n');
    }
    effects_reset(&w->out);
}

static void expect(struct world *w, const char *story)
{
    assert_string_equal(buf_str(&w->story), story);
    buf_clear(&w->story);
}

/* ---- what happens ---- */

static void step(struct world *w, struct agent_event event)
{
    event.now = w->now;
    w->next = agent_step(w->agent, &event, &w->out);
    tell(w);
    while (w->n_taken > 0)
        step(w, (struct agent_event){
                    .type = AGENT_OUTCOME, .id = w->taken[--w->n_taken], .outcome = BUS_CONFIRMED});
}

/* Lets time pass until @when; calls the agent whenever it has asked to be called. */
static void until(struct world *w, int64_t when)
{
    while (w->next <= when) {
        if (w->next > w->now)
            w->now = w->next;
        step(w, (struct agent_event){.type = AGENT_TICK});
    }
    w->now = when;
}

static void turn_ends(struct world *w)
{
    until(w, w->now);
}

static void deliver_body(struct world *w, uint64_t handle, int source, struct bytes body)
{
    const struct bus_delivery d = {.handle = handle,
                                   .source = source,
                                   .redelivered = w->redelivered,
                                   .resent = w->resent,
                                   .body = body,
                                   .content_type = "",
                                   .message_id = w->properties ? w->properties : "",
                                   .correlation_id = "",
                                   .reply_to = "",
                                   .user_id = "",
                                   .traceparent = "",
                                   .job = w->properties ? "job" : "",
                                   .step = w->properties ? "step" : "",
                                   .died_of = "",
                                   .actor = w->queue ? w->queue : "early"};

    step(w, (struct agent_event){.type = AGENT_DELIVERY, .delivery = &d});
}

static void deliver_as(struct world *w, uint64_t handle, bool json, const struct ask *asks,
                       size_t n)
{
    Drover__V1__StepRequest requests[40];
    Drover__V1__StepRequest *list[40];
    Drover__V1__Requests body = DROVER__V1__REQUESTS__INIT;
    struct buf packed = {0};

    assert_true(n <= 40);
    for (size_t i = 0; i < n; i++) {
        Drover__V1__StepRequest *m = list[i] = &requests[i];

        drover__v1__step_request__init(m);
        m->job_id = (char *)"job";
        m->step = (char *)asks[i].step;
        m->actor = (char *)(asks[i].actor ? asks[i].actor : "plain");
        m->action = (char *)"do";
        m->desired = DROVER__V1__STATE__STATE_ACTIVE;
        m->token = (char *)(asks[i].token ? asks[i].token : asks[i].step);
        m->idempotency_key = (char *)"job/step/1";
        m->lock_ms = asks[i].lock;
        m->heartbeat_ms = asks[i].heartbeat;
        m->attempt = asks[i].attempt;
        if (asks[i].traceparent)
            m->traceparent = (char *)asks[i].traceparent;
    }
    body.requests = list;
    body.n_requests = n;
    assert_int_equal(wire_encode(&body.base, json, &packed), 0);
    deliver_body(w, handle, AGENT_REQUESTS, buf_bytes(&packed));
    buf_deinit(&packed);
}

#define deliver(w, handle, ...)                                                                    \
    deliver_as(w, handle, false, (const struct ask[]){__VA_ARGS__},                                \
               sizeof((const struct ask[]){__VA_ARGS__}) / sizeof(struct ask))

static void answer(struct world *w, const char *token, bool wanted)
{
    Drover__V1__ProgressAnswer m = DROVER__V1__PROGRESS_ANSWER__INIT;
    Drover__V1__ProgressAnswer *list[] = {&m};
    Drover__V1__ProgressAnswers body = DROVER__V1__PROGRESS_ANSWERS__INIT;
    struct buf packed = {0};

    m.job_id = (char *)"job";
    m.step = m.token = (char *)token;
    m.wanted = wanted;
    body.answers = list;
    body.n_answers = 1;
    assert_int_equal(wire_encode(&body.base, false, &packed), 0);
    deliver_body(w, 0, AGENT_ANSWERS, buf_bytes(&packed));
    buf_deinit(&packed);
}

static uint64_t take_run(struct world *w, const char *name, bool done)
{
    for (size_t i = 0; i < RUNS_MAX; i++)
        if (w->runs[i] && strcmp(w->runs[i]->request->step, name) == 0) {
            uint64_t id = w->runs[i]->id;

            if (done)
                w->runs[i] = NULL;
            return id;
        }
    fail_msg("%s does not run", name);
    return 0;
}

static void done(struct world *w, const char *name, const struct agent_result *result)
{
    step(w,
         (struct agent_event){.type = AGENT_DONE, .id = take_run(w, name, true), .result = result});
}

static void succeed(struct world *w, const char *name, const char *result)
{
    done(w, name,
         &(struct agent_result){
             .ok = true, .content_type = "text/plain", .result = bytes_str(result)});
}

static void fail_as(struct world *w, const char *name, const char *class,
                    Drover__V1__Verdict verdict)
{
    done(w, name, &(struct agent_result){.class = class, .message = "", .verdict = verdict});
}

/* A failure that asks to be tried again after a while. */
static void fail_asking(struct world *w, const char *name, int64_t retry_after)
{
    done(w, name,
         &(struct agent_result){.class = "BUSY",
                                .message = "",
                                .verdict = DROVER__V1__VERDICT__VERDICT_TRANSIENT,
                                .retry_after_ms = retry_after});
}

/* Gives the oldest publish without an outcome this one. */
static void outcome(struct world *w, enum bus_outcome what)
{
    uint64_t id = w->open[0];

    assert_true(w->n_open > 0);
    assert_true(what != BUS_RETURNED || w->mandatory);
    memmove(w->open, w->open + 1, --w->n_open * sizeof(*w->open));
    step(w, (struct agent_event){.type = AGENT_OUTCOME, .id = id, .outcome = what});
}

static void all_confirmed(struct world *w)
{
    while (w->n_open > 0)
        outcome(w, BUS_CONFIRMED);
}

/* ---- setup ---- */

static int setup(void **state)
{
    static const struct agent_actor actors[] = {
        {.name = "retrying", .lease_retries = 2},
        {.name = "early", .early_ack_ms = 5000},
    };
    const struct agent_config config = {
        .name = "tester", .concurrency = 2, .actors = actors, .n_actors = 2};
    struct world *w = calloc(1, sizeof(*w));
    struct rng seed;

    rng_seed(&seed, 1);
    log_set_level(LOG_ERROR);
    w->next = INT64_MAX;
    assert_int_equal(agent_new(&w->agent, &config, &seed), 0);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    agent_free(w->agent);
    effects_deinit(&w->out);
    buf_deinit(&w->story);
    free(w);
    return 0;
}

/* ---- the tests ---- */

static void test_replies_and_acknowledges(void **state)
{
    struct world *w = *state;
    struct agent_stats stats;

    deliver(w, 7, {.step = "a", .lock = 1000});
    expect(w, "0: start a\n");
    assert_false(agent_idle(w->agent));
    until(w, 300);
    succeed(w, "a", "fine");
    expect(w, "");
    turn_ends(w);
    expect(w, "300: reply a=fine\n");
    until(w, 310);
    outcome(w, BUS_CONFIRMED);
    expect(w, "310: ack 7\n");
    assert_true(agent_idle(w->agent));
    assert_true(w->next == INT64_MAX);
    agent_stats(w->agent, &stats);
    assert_int_equal(stats.requests, 1);
    assert_int_equal(stats.runs, 1);
    assert_int_equal(stats.succeeded, 1);
    assert_int_equal(stats.replies, 1);
    assert_int_equal(stats.running, 0);
}

static void test_replies_in_the_format_of_the_request(void **state)
{
    struct world *w = *state;

    deliver_as(w, 1, true, &(struct ask){.step = "a", .lock = 1000}, 1);
    deliver(w, 2, {.step = "b", .lock = 1000});
    succeed(w, "a", "x");
    succeed(w, "b", "y");
    turn_ends(w);
    expect(w, "0: start a\n0: start b\n0: reply b=y\n0: reply as JSON a=x\n");
}

static void test_failure_is_reported(void **state)
{
    struct world *w = *state;

    deliver(w, 1, {.step = "a", .lock = 1000}, {.step = "b", .lock = 1000});
    fail_as(w, "a", "EXIT_1", DROVER__V1__VERDICT__VERDICT_TRANSIENT);
    fail_as(w, "b", "EXIT_65", DROVER__V1__VERDICT__VERDICT_PERMANENT);
    turn_ends(w);
    outcome(w, BUS_CONFIRMED);
    expect(w, "0: start a\n0: start b\n0: reply a!EXIT_1 b!EXIT_65(permanent)\n0: ack 1\n");
}

static void test_no_reply_after_the_deadline(void **state)
{
    struct world *w = *state;
    struct agent_stats stats;

    deliver(w, 1, {.step = "a", .lock = 1000});
    until(w, 999);
    expect(w, "0: start a\n");
    until(w, 1040);
    expect(w, "1000: stop a\n");
    succeed(w, "a", "too late");
    turn_ends(w);
    expect(w, "1040: ack 1\n");
    agent_stats(w->agent, &stats);
    assert_int_equal(stats.stopped, 1);
    assert_int_equal(stats.silent, 1);
    assert_int_equal(stats.succeeded, 0);
}

/* The handler was done in time, but the loop was slow: the time at which the reply can be sent
 * counts. */
static void test_no_reply_after_the_lease(void **state)
{
    struct world *w = *state;

    deliver(w, 1, {.step = "a", .lock = 1000}, {.step = "b", .lock = 5000});
    w->now = 999;
    succeed(w, "a", "x");
    succeed(w, "b", "y");
    w->now = 1000;
    turn_ends(w);
    expect(w, "0: start a\n0: start b\n1000: reply b=y\n");
    outcome(w, BUS_CONFIRMED);
    expect(w, "1000: ack 1\n");
}

/* The bus could not send one reply in time: the agent publishes the other replies again. */
static void test_expired_publish(void **state)
{
    struct world *w = *state;

    deliver(w, 1, {.step = "a", .lock = 1000});
    deliver(w, 2, {.step = "b", .lock = 5000});
    succeed(w, "a", "x");
    succeed(w, "b", "y");
    turn_ends(w);
    expect(w, "0: start a\n0: start b\n0: reply a=x b=y\n");
    until(w, 1000);
    outcome(w, BUS_EXPIRED);
    expect(w, "1000: ack 1\n1000: reply b=y\n");
    outcome(w, BUS_CONFIRMED);
    expect(w, "1000: ack 2\n");
}

static void test_retries_within_the_lease(void **state)
{
    struct world *w = *state;

    deliver(w, 1, {.step = "a", .lock = 1000, .actor = "retrying"});
    until(w, 50);
    fail_as(w, "a", "BUSY", DROVER__V1__VERDICT__VERDICT_UNSPECIFIED);
    until(w, 200);
    expect(w, "0: start a\n150: start a again\n");
    fail_as(w, "a", "BUSY", DROVER__V1__VERDICT__VERDICT_TRANSIENT);
    until(w, 400); /* the pause doubles */
    expect(w, "400: start a again\n");
    fail_as(w, "a", "LAST", DROVER__V1__VERDICT__VERDICT_TRANSIENT);
    turn_ends(w);
    expect(w, "400: reply a!LAST\n");
}

static void test_headers(void **state)
{
    struct world *w = *state;

    deliver(w, 1, {.step = "a", .lock = 1000, .traceparent = "00-1-2-01"});
    succeed(w, "a", "x");
    turn_ends(w);
    expect(w, "0: start a\n0: reply a=x of trace 00-1-2-01\n");
}

/* A person who looks at the broker sees which attempt of which step a Progress is about. */
static void test_progress_has_headers(void **state)
{
    struct world *w = *state;

    w->headers = w->evidence = true;
    deliver(w, 1, {.step = "a", .lock = 5000, .heartbeat = 300, .attempt = 2},
            {.step = "b", .lock = 400, .traceparent = "00-1-2-01", .attempt = 1});
    until(w, 100);
    expect(w, "0: start a\n0: progress a -1.00  with headers job/a 2\n0: start b\n"
              "100: evidence b 100 with headers job/b 1 of trace 00-1-2-01\n");
}

/* The loop was slow and the lease is over: no try is left, and the agent replies nothing. */
static void test_no_retry_after_the_lease(void **state)
{
    struct world *w = *state;

    deliver(w, 1, {.step = "a", .lock = 1000, .actor = "retrying"});
    fail_as(w, "a", "BUSY", DROVER__V1__VERDICT__VERDICT_TRANSIENT);
    w->now = 1000;
    turn_ends(w);
    expect(w, "0: start a\n1000: ack 1\n");
    assert_null(w->agent->outgoing); /* no message without replies is kept */
}

/* The agent is cut off between two tries: it replies with the error that it knows. */
static void test_cut_off_between_tries(void **state)
{
    struct world *w = *state;

    deliver(w, 1, {.step = "a", .lock = 5000, .heartbeat = 100, .actor = "retrying"});
    outcome(w, BUS_CONFIRMED); /* the first Progress; no later one is confirmed */
    fail_asking(w, "a", 500);
    buf_clear(&w->story);
    until(w, 299);
    expect(w, "100: progress a -1.00 \n200: progress a -1.00 \n");
    until(w, 301);
    expect(w, "300: reply a!BUSY+500\n");
}

/* A request that was delivered or sent before may have another run. */
static void test_redelivered_or_sent_before(void **state)
{
    struct world *w = *state;

    deliver(w, 1, {.step = "a", .lock = 1000});
    w->redelivered = true;
    deliver(w, 2, {.step = "b", .lock = 1000});
    until(w, 20);
    expect(w, "0: start a\n0: ack 2\n20: start b repeated\n");
    succeed(w, "a", "");
    succeed(w, "b", "");
    w->redelivered = false;
    w->resent = true;
    deliver(w, 3, {.step = "c", .lock = 1000});
    w->resent = false;
    deliver(w, 4, {.step = "d", .lock = 1000});
    expect(w, "20: start c repeated\n20: start d\n");
}

/* The agent handles one suspect at a time and acknowledges it before it reads it: if the suspect
 * kills the process, no other suspect is lost. */
static void test_suspects(void **state)
{
    struct world *w = *state;
    struct agent_stats stats;

    deliver(w, 1, {.step = "first", .lock = 5000});
    w->redelivered = true;
    deliver(w, 2, {.step = "a", .lock = 5000});
    deliver(w, 3, {.step = "b", .lock = 5000});
    deliver_body(w, 4, AGENT_REQUESTS, bytes_str("\xff"));
    deliver(w, 5, {.step = "c", .lock = 5000});
    until(w, 19);
    expect(w, "0: start first\n0: ack 2\n");
    until(w, 30);
    succeed(w, "a", "x");
    turn_ends(w);
    expect(w, "20: start a repeated\n30: reply a=x\n");
    outcome(w, BUS_CONFIRMED); /* the run of a is finished */
    until(w, 149);
    expect(w, "30: ack 3\n50: start b repeated\n"); /* b runs for long, but the process survives */
    succeed(w, "first", "y");
    until(w, 170);
    assert_non_null(strstr(buf_str(&w->story), "150: ack 4\n170: dead letter: MALFORMED"));
    all_confirmed(w); /* nothing is acknowledged twice */
    assert_null(strstr(buf_str(&w->story), "170: ack 4\n"));
    assert_non_null(strstr(buf_str(&w->story), "170: ack 5\n"));
    agent_stats(w->agent, &stats);
    assert_int_equal(stats.suspects, 4);
}

/* The agent sends Progress for a suspect, by the token in its properties, before it acknowledges
 * and reads it: if the suspect kills the process, the store has evidence. */
static void test_evidence_of_a_suspect(void **state)
{
    struct world *w = *state;

    w->evidence = w->redelivered = true;
    w->properties = "7.00ab";
    deliver(w, 1, {.step = "a", .lock = 5000});
    until(w, 400);
    expect(w, "0: evidence 7.00ab 0\n");
    outcome(w, BUS_CONFIRMED);
    expect(w, "400: ack 1\n");
    until(w, 420);
    expect(w, "420: start a repeated\n420: evidence a 420\n");
    outcome(w, BUS_CONFIRMED);
    step(w, (struct agent_event){.type = AGENT_DRAIN});
    deliver(w, 2, {.step = "b", .lock = 5000});
    expect(w, "420: requeue 2\n");
}

/* A draining agent answers the suspect that it has sent Progress for, and gives back the others. */
static void test_reported_suspect_while_draining(void **state)
{
    struct world *w = *state;

    w->evidence = w->redelivered = true;
    w->properties = "7.00ab";
    deliver(w, 1, {.step = "a", .lock = 5000});
    deliver(w, 2, {.step = "b", .lock = 5000});
    step(w, (struct agent_event){.type = AGENT_DRAIN});
    until(w, 100);
    expect(w, "0: evidence 7.00ab 0\n0: requeue 2\n");
    outcome(w, BUS_CONFIRMED);
    until(w, 1000);
    expect(w, "100: ack 1\n120: reply a!NO_SLOT(deferred)\n");
    all_confirmed(w);
    assert_true(agent_idle(w->agent));
}

static void test_suspects_without_a_slot(void **state)
{
    struct world *w = *state;

    deliver(w, 1, {.step = "a", .lock = 5000});
    deliver(w, 9, {.step = "b", .lock = 5000});
    w->redelivered = true;
    deliver(w, 2, {.step = "c", .lock = 5000});
    until(w, 1000);
    expect(w, "0: start a\n0: start b\n");
    succeed(w, "a", "x");
    until(w, 1020);
    expect(w, "1000: ack 2\n1000: reply a=x\n1020: start c repeated\n");
    deliver(w, 3, {.step = "d", .lock = 5000});
    step(w, (struct agent_event){.type = AGENT_DRAIN});
    succeed(w, "b", "y");
    succeed(w, "c", "z");
    turn_ends(w);
    all_confirmed(w);
    expect(w, "1020: requeue 3\n1020: reply b=y c=z\n1020: ack 1\n1020: ack 9\n");
    assert_true(agent_idle(w->agent));
}

/* A suspect that was acknowledged is answered, also while the agent drains. */
static void test_suspect_while_draining(void **state)
{
    struct world *w = *state;

    w->redelivered = true;
    deliver(w, 1, {.step = "a", .lock = 5000});
    step(w, (struct agent_event){.type = AGENT_DRAIN});
    until(w, 100);
    expect(w, "0: ack 1\n20: reply a!NO_SLOT(deferred)\n");
    all_confirmed(w);
    assert_true(agent_idle(w->agent));
}

/* Only the connection was lost: runs go on, and replies that were sent count. */
static void test_redelivered_to_the_same_process(void **state)
{
    struct world *w = *state;
    struct agent_stats stats;

    deliver(w, 1, {.step = "a", .lock = 5000});
    deliver(w, 2, {.step = "b", .lock = 5000});
    succeed(w, "a", "x");
    turn_ends(w);
    outcome(w, BUS_CONFIRMED);
    expect(w, "0: start a\n0: start b\n0: reply a=x\n0: ack 1\n"); /* a=x is lost */
    w->redelivered = true;
    deliver(w, 3, {.step = "a", .lock = 5000});
    deliver(w, 4, {.step = "b", .lock = 5000});
    expect(w, "0: ack 3\n");
    succeed(w, "b", "y");
    until(w, 1);
    outcome(w, BUS_CONFIRMED);
    expect(w, "1: reply b=y\n1: ack 2\n1: ack 4\n");
    agent_stats(w->agent, &stats);
    assert_int_equal(stats.runs, 2);
    assert_int_equal(stats.duplicates, 2);
    assert_int_equal(stats.suspects, 0);
    assert_true(agent_idle(w->agent));
}

/* The lease of its run is over and only the ack was lost: the store has withdrawn the token, so the
 * request is not run again. */
static void test_redelivered_after_its_lease(void **state)
{
    struct world *w = *state;
    struct agent_stats stats;

    deliver(w, 1, {.step = "a", .lock = 1000});
    until(w, 1000);
    fail_as(w, "a", "SIGNAL_15", DROVER__V1__VERDICT__VERDICT_TRANSIENT);
    turn_ends(w);
    expect(w, "0: start a\n1000: stop a\n1000: ack 1\n"); /* this ack is lost */
    w->redelivered = true;
    deliver(w, 2, {.step = "a", .lock = 1000});
    until(w, 2000);
    expect(w, "1000: ack 2\n");
    agent_stats(w->agent, &stats);
    assert_int_equal(stats.runs, 1);
    assert_int_equal(stats.duplicates, 1);
    assert_true(agent_idle(w->agent));
}

/* A failure may ask for a pause. A pause that does not fit the lease is left to the scheduler. */
static void test_retry_when_it_was_asked_for(void **state)
{
    struct world *w = *state;

    deliver(w, 1, {.step = "a", .lock = 1000, .actor = "retrying"});
    fail_asking(w, "a", 300);
    until(w, 300);
    expect(w, "0: start a\n300: start a again\n");
    fail_asking(w, "a", 800);
    turn_ends(w);
    expect(w, "300: reply a!BUSY+800\n");
}

/* The agent does not keep a slot for a service that asks for a long pause. */
static void test_no_retry_after_a_long_pause(void **state)
{
    struct world *w = *state;

    deliver(w, 1, {.step = "a", .lock = 1000000, .actor = "retrying"});
    fail_asking(w, "a", 10000);
    until(w, 10000);
    expect(w, "0: start a\n10000: start a again\n");
    fail_asking(w, "a", 10001);
    turn_ends(w);
    expect(w, "10000: reply a!BUSY+10001\n");
}

/* The breaker opened after a failure: the agent reports that failure, and it counts. */
static void test_failure_before_the_breaker_opened(void **state)
{
    struct world *w = *state;
    struct agent_result open = {.class = "OPEN",
                                .message = "",
                                .verdict = DROVER__V1__VERDICT__VERDICT_DEFER,
                                .retry_after_ms = 5000};

    deliver(w, 1, {.step = "a", .lock = 1000, .actor = "retrying"});
    fail_as(w, "a", "BUSY", DROVER__V1__VERDICT__VERDICT_TRANSIENT);
    until(w, 100);
    expect(w, "0: start a\n100: start a again\n");
    done(w, "a", &open);
    turn_ends(w);
    expect(w, "100: reply a!BUSY+5000\n");

    deliver(w, 2, {.step = "b", .lock = 1000, .actor = "retrying"}); /* deferred at once */
    done(w, "b", &open);
    until(w, 101);
    expect(w, "100: start b\n101: reply b!OPEN(deferred)+5000\n");

    deliver(w, 3, {.step = "c", .lock = 1000, .actor = "retrying"});
    fail_asking(w, "c", 300);
    until(w, 401);
    open.retry_after_ms = 10;
    done(w, "c", &open);
    until(w, 402);
    expect(w, "101: start c\n401: start c again\n401: reply c!BUSY+10\n");
}

static void test_no_retry_of_other_verdicts(void **state)
{
    struct world *w = *state;

    deliver(w, 1, {.step = "a", .lock = 1000, .actor = "retrying"});
    deliver(w, 2, {.step = "b", .lock = 1000, .actor = "retrying"});
    fail_as(w, "a", "BAD", DROVER__V1__VERDICT__VERDICT_PERMANENT);
    fail_as(w, "b", "OPEN", DROVER__V1__VERDICT__VERDICT_DEFER);
    turn_ends(w);
    expect(w, "0: start a\n0: start b\n0: reply a!BAD(permanent) b!OPEN(deferred)\n");
}

/* The first try took half of the lease: a second try would not end in time. */
static void test_no_retry_without_time(void **state)
{
    struct world *w = *state;

    deliver(w, 1, {.step = "a", .lock = 1000, .actor = "retrying"});
    until(w, 500);
    fail_as(w, "a", "SLOW", DROVER__V1__VERDICT__VERDICT_TRANSIENT);
    turn_ends(w);
    expect(w, "0: start a\n500: reply a!SLOW\n");
}

static void test_duplicate_token(void **state)
{
    struct world *w = *state;
    struct agent_stats stats;

    deliver(w, 1, {.step = "a", .lock = 1000});
    until(w, 100);
    deliver(w, 2, {.step = "a", .lock = 1000});
    deliver(w, 3, {.step = "a", .lock = 1000}, {.step = "b", .lock = 1000});
    expect(w, "0: start a\n100: start b\n");
    succeed(w, "a", "x");
    turn_ends(w);
    outcome(w, BUS_CONFIRMED);
    expect(w, "100: reply a=x\n100: ack 1\n100: ack 2\n");
    succeed(w, "b", "y");
    until(w, 101);
    outcome(w, BUS_CONFIRMED);
    expect(w, "101: reply b=y\n101: ack 3\n");
    agent_stats(w->agent, &stats);
    assert_int_equal(stats.duplicates, 2);
    assert_int_equal(stats.runs, 2);
    assert_true(agent_idle(w->agent));
}

static void test_waiting_for_a_slot(void **state)
{
    struct world *w = *state;

    deliver(w, 1, {.step = "a", .lock = 5000});
    deliver(w, 9, {.step = "b", .lock = 5000});
    deliver(w, 2, {.step = "c", .lock = 1000});
    deliver(w, 3, {.step = "d", .lock = 5000});
    until(w, 500);
    expect(w, "0: start a\n0: start b\n500: reply c!NO_SLOT(deferred)\n");
    outcome(w, BUS_CONFIRMED);
    w->resent = true; /* another agent may have begun it */
    deliver(w, 4, {.step = "e", .lock = 1000});
    until(w, 1000);
    expect(w, "500: ack 2\n1000: reply e!NO_SLOT(deferred)\n");
    outcome(w, BUS_CONFIRMED);
    until(w, 2000);
    succeed(w, "a", "x");
    expect(w, "1000: ack 4\n2000: start d\n");
    until(w, 5000);
    expect(w, "2000: reply a=x\n5000: stop b\n5000: stop d\n");
}

/* The agent defers the rest of a batch soon: another agent may have a free slot. */
static void test_batch_without_a_slot(void **state)
{
    struct world *w = *state;

    deliver(w, 1, {.step = "a", .lock = 5000}, {.step = "b", .lock = 5000},
            {.step = "c", .lock = 5000}, {.step = "d", .lock = 60});
    until(w, 79);
    expect(w, "0: start a\n0: start b\n30: reply d!NO_SLOT(deferred)+1\n");
    outcome(w, BUS_CONFIRMED);
    until(w, 200);
    expect(w, "80: reply c!NO_SLOT(deferred)+1\n");
    outcome(w, BUS_CONFIRMED);
    succeed(w, "a", "x");
    succeed(w, "b", "y");
    turn_ends(w);
    outcome(w, BUS_CONFIRMED);
    expect(w, "200: reply a=x b=y\n200: ack 1\n");
}

/* Short requests of a batch share a slot one after the other. */
static void test_batch_takes_turns(void **state)
{
    struct world *w = *state;

    deliver(w, 1, {.step = "a", .lock = 5000}, {.step = "b", .lock = 5000},
            {.step = "c", .lock = 5000}, {.step = "d", .lock = 5000});
    until(w, 40);
    succeed(w, "a", "x");
    succeed(w, "b", "y");
    until(w, 100);
    expect(w, "0: start a\n0: start b\n40: start c\n40: start d\n40: reply a=x b=y\n");
}

/* The broker counts one message although it occupies two slots, and would send more. */
static void test_batch_that_occupies_all_slots(void **state)
{
    struct world *w = *state;

    deliver(w, 1, {.step = "a", .lock = 5000}, {.step = "b", .lock = 5000});
    deliver(w, 2, {.step = "c", .lock = 5000});
    until(w, 99);
    expect(w, "0: start a\n0: start b\n");
    until(w, 150);
    expect(w, "100: pause\n100: requeue 2\n");
    succeed(w, "a", "x");
    until(w, 160);
    expect(w, "150: consume\n150: reply a=x\n");
}

/* As long as slots become free, the other requests of the batch get their turn. */
static void test_batch_whose_slots_become_free(void **state)
{
    struct world *w = *state;

    deliver(w, 1, {.step = "a", .lock = 5000}, {.step = "b", .lock = 5000});
    deliver(w, 2, {.step = "c", .lock = 5000});
    deliver(w, 3, {.step = "d", .lock = 5000});
    until(w, 90);
    succeed(w, "a", "x");
    until(w, 189);
    expect(w, "0: start a\n0: start b\n90: start c\n90: reply a=x\n");
    until(w, 200);
    expect(w, "190: pause\n190: requeue 3\n");
}

/* A draining agent defers the requests of a batch that have not begun: otherwise the requests that
 * are done would be delivered again with them. */
static void test_batch_while_draining(void **state)
{
    struct world *w = *state;

    deliver(w, 1, {.step = "a", .lock = 5000}, {.step = "b", .lock = 5000},
            {.step = "c", .lock = 5000});
    succeed(w, "a", "x");
    deliver(w, 2, {.step = "d", .lock = 5000}, {.step = "e", .lock = 5000});
    expect(w, "0: start a\n0: start b\n0: start c\n");
    step(w, (struct agent_event){.type = AGENT_DRAIN});
    turn_ends(w);
    all_confirmed(w);
    expect(w, "0: reply a=x d!NO_SLOT(deferred)+1 e!NO_SLOT(deferred)+1\n0: ack 2\n");
    succeed(w, "b", "y");
    succeed(w, "c", "z");
    until(w, 10);
    all_confirmed(w);
    expect(w, "1: reply b=y c=z\n10: ack 1\n");
    assert_true(agent_idle(w->agent));
}

/* A reply says how many requests of its actor this agent can begin at once. */
static void test_capacity_in_replies(void **state)
{
    static const struct agent_actor actors[] = {
        {.name = "short", .batch = 8}, {.name = "wide", .batch = 2}, {.name = "plain"}};
    const struct agent_config config = {
        .name = "tester", .concurrency = 9, .actors = actors, .n_actors = 3};
    struct world *w = *state;
    struct rng seed;

    rng_seed(&seed, 1);
    agent_free(w->agent);
    assert_int_equal(agent_new(&w->agent, &config, &seed), 0);
    deliver(w, 1, {.step = "a", .lock = 5000, .actor = "short"},
            {.step = "b", .lock = 5000, .actor = "wide"}, {.step = "c", .lock = 5000});
    succeed(w, "a", "x");
    succeed(w, "b", "y");
    fail_as(w, "c", "E", DROVER__V1__VERDICT__VERDICT_PERMANENT);
    turn_ends(w);
    expect(w, "0: start a\n0: start b\n0: start c\n"
              "0: reply a=x takes 3 b=y takes 2 c!E(permanent)\n");
}

/* Replies and Progress go by the exchange of the actor whose queue delivered the request: the
 * broker lets this agent publish to no other exchange, and the scheduler compares the two. */
static void test_replies_go_by_their_actor(void **state)
{
    struct world *w = *state;

    w->evidence = true;
    w->queue = "early";
    deliver(w, 1, {.step = "a", .lock = 5000});
    w->queue = "retrying";
    deliver(w, 2, {.step = "b", .lock = 5000, .heartbeat = 1000});
    succeed(w, "a", "x");
    succeed(w, "b", "y");
    turn_ends(w);
    expect(w, "0: start a\n0: start b\n0: by retrying progress b -1.00 \n0: by early reply a=x\n"
              "0: by retrying reply b=y\n");
}

/* The process stood still until the lease of a waiting request was over. No handler has begun it:
 * the agent gives it back, once, so that it does not go back and forth. */
static void test_no_start_after_the_lease(void **state)
{
    struct world *w = *state;
    struct agent_stats stats;

    deliver(w, 1, {.step = "a", .lock = 5000}, {.step = "b", .lock = 5000});
    deliver(w, 2, {.step = "c", .lock = 1000});
    w->now = 1000;
    succeed(w, "a", "x");
    turn_ends(w);
    expect(w, "0: start a\n0: start b\n1000: requeue 2\n1000: reply a=x\n");
    deliver(w, 3, {.step = "d", .lock = 5000});
    w->redelivered = true;
    deliver(w, 4, {.step = "c", .lock = 1000});
    w->now = 2000;
    succeed(w, "b", "x");
    turn_ends(w);
    expect(w, "1000: start d\n2000: ack 4\n2000: reply b=x\n");
    agent_stats(w->agent, &stats);
    assert_int_equal(stats.requeued, 1);
    assert_int_equal(stats.silent, 1);
}

/* The agent sends Progress for a long run once, with the age of the run, so that a crash counts as
 * an expiry and is seen early. It repeats the Progress until the broker has taken it. Short runs
 * cost no message. */
static void test_evidence(void **state)
{
    struct world *w = *state;

    w->evidence = true;
    deliver(w, 1, {.step = "short", .lock = 1000}, {.step = "lasts", .lock = 60000});
    until(w, 249);
    succeed(w, "short", "x");
    until(w, 9999);
    expect(w, "0: start short\n0: start lasts\n249: reply short=x\n");
    outcome(w, BUS_CONFIRMED);
    until(w, 10000);
    expect(w, "10000: evidence lasts 10000\n");
    until(w, 10500);
    outcome(w, BUS_EXPIRED);
    until(w, 11499);
    expect(w, "");
    until(w, 11500);
    expect(w, "11500: evidence lasts 11500\n");
    outcome(w, BUS_CONFIRMED);
    until(w, 59999);
    expect(w, "");
}

static void test_returned_reply(void **state)
{
    struct world *w = *state;
    struct agent_stats stats;

    deliver(w, 1, {.step = "a", .lock = 1000});
    succeed(w, "a", "x");
    turn_ends(w);
    outcome(w, BUS_RETURNED);
    expect(w, "0: start a\n0: reply a=x\n");
    until(w, 199);
    expect(w, "");
    until(w, 219);
    buf_clear(&w->story);
    assert_int_equal(w->n_open, 1);
    outcome(w, BUS_NACKED);
    until(w, 1000);
    assert_int_equal(w->n_open, 1);
    outcome(w, BUS_RETURNED);
    until(w, 2000);
    assert_non_null(strstr(buf_str(&w->story), "reply a=x\n1000: ack 1\n"));
    assert_int_equal(w->n_open, 0);
    agent_stats(w->agent, &stats);
    assert_int_equal(stats.refusals, 3);
    assert_int_equal(stats.silent, 1);
    assert_int_equal(stats.replies, 0);
}

static void test_one_bad_among_good(void **state)
{
    struct world *w = *state;

    deliver(w, 1, {.step = "a", .lock = 1000}, {.step = "", .lock = 1000, .token = "t"},
            {.step = "c", .lock = 1000});
    buf_clear(&w->story);
    succeed(w, "a", "x");
    succeed(w, "c", "z");
    outcome(w, BUS_CONFIRMED); /* of the dead letter */
    expect(w, "");
    turn_ends(w);
    outcome(w, BUS_CONFIRMED);
    expect(w, "0: reply a=x c=z\n0: ack 1\n");
}

/* The dead letter describes the first bad request. */
static void test_two_bad_among_good(void **state)
{
    struct world *w = *state;

    deliver(w, 1, {.step = "a", .lock = 0}, {.step = "b", .lock = 1000},
            {.step = "", .lock = 1000});
    expect(w,
           "0: dead letter: INVALID requests[0].lock_ms must be 1 to 2592000000 ms\n0: start b\n");
}

static void test_no_good_request(void **state)
{
    struct world *w = *state;
    struct bus_delivery oversize = {
        .handle = 4, .body = bytes_str("{"), .oversize = true, .actor = "early"};

    deliver_body(w, 1, AGENT_REQUESTS, bytes_str("\xff\xff\xff"));
    assert_non_null(strstr(buf_str(&w->story), "0: dead letter: MALFORMED"));
    buf_clear(&w->story);
    outcome(w, BUS_CONFIRMED);
    expect(w, "0: ack 1\n");
    deliver_body(w, 2, AGENT_REQUESTS, bytes_str(""));
    assert_non_null(strstr(buf_str(&w->story), "0: dead letter: INVALID requests"));
    outcome(w, BUS_NACKED);
    buf_clear(&w->story);
    until(w, 250);
    assert_non_null(strstr(buf_str(&w->story), "dead letter: INVALID requests"));
    buf_clear(&w->story);
    outcome(w, BUS_CONFIRMED);
    expect(w, "250: ack 2\n");
    step(w, (struct agent_event){.type = AGENT_DELIVERY, .delivery = &oversize});
    expect(w, "250: dead letter: TOO_LARGE\n");
    outcome(w, BUS_CONFIRMED);
    expect(w, "250: ack 4\n");
    assert_true(agent_idle(w->agent));
}

static void test_heartbeats(void **state)
{
    struct world *w = *state;
    struct agent_event progress = {.type = AGENT_PROGRESS};

    deliver(w, 1, {.step = "a", .lock = 5000, .heartbeat = 300});
    until(w, 300);
    expect(w, "0: start a\n0: progress a -1.00 \n300: progress a -1.00 \n");
    progress.id = take_run(w, "a", false);
    progress.progress.fraction = 0.5;
    progress.progress.note = "half\nway";
    step(w, progress);
    until(w, 600);
    expect(w, "600: progress a 0.50 half?way\n");
    progress.progress.fraction = 7; /* out of range */
    progress.progress.note = "";
    step(w, progress);
    until(w, 900);
    expect(w, "900: progress a 1.00 \n");
    until(w, 1199);
    succeed(w, "a", "x");
    until(w, 5000);
    expect(w, "1199: reply a=x\n");
}

/* No scheduler asks for this. */
static void test_heartbeat_beyond_the_lease(void **state)
{
    struct world *w = *state;

    until(w, 10);
    deliver(w, 1, {.step = "a", .lock = 1000, .heartbeat = INT64_MAX});
    all_confirmed(w);
    until(w, 1009);
    expect(w, "10: start a\n10: progress a -1.00 \n");
    succeed(w, "a", "x");
    turn_ends(w);
    expect(w, "1009: reply a=x\n");
}

/* The broker is away or reads nothing: the store will soon give the step to another dispatch. */
static void test_cut_off(void **state)
{
    struct world *w = *state;
    struct agent_stats stats;

    deliver(w, 1, {.step = "a", .lock = 5000, .heartbeat = 300},
            {.step = "b", .lock = 1000, .heartbeat = 300});
    all_confirmed(w);
    until(w, 310);
    outcome(w, BUS_CONFIRMED); /* of a, sent at 300; for b only the first was confirmed */
    buf_clear(&w->story);
    until(w, 900);
    expect(w, "600: progress a -1.00 \n600: progress b -1.00 \n"
              "900: stop b\n900: progress a -1.00 \n");
    fail_as(w, "b", "SIGNAL_15", DROVER__V1__VERDICT__VERDICT_TRANSIENT);
    turn_ends(w);
    expect(w, "900: reply b!CUT_OFF(deferred)\n");
    until(w, 1200);
    expect(w, "1200: stop a\n");
    succeed(w, "a", "all the same");
    turn_ends(w);
    expect(w, "1200: reply a=all the same\n");
    agent_stats(w->agent, &stats);
    assert_int_equal(stats.cut_off, 2);
    assert_int_equal(stats.stopped, 0);
    outcome(w, BUS_EXPIRED); /* the Progress of b, which has ended */
    outcome(w, BUS_CONFIRMED);
    expect(w, "");
}

/* If no Progress was confirmed the store waits for the whole lease, and so does the agent. */
static void test_no_progress_confirmed(void **state)
{
    struct world *w = *state;

    deliver(w, 1, {.step = "a", .lock = 2000, .heartbeat = 500});
    until(w, 500);
    while (w->n_open > 0)
        outcome(w, BUS_EXPIRED);
    until(w, 1999);
    buf_clear(&w->story);
    until(w, 2000);
    expect(w, "2000: stop a\n");
    fail_as(w, "a", "TIMEOUT", DROVER__V1__VERDICT__VERDICT_TRANSIENT);
    turn_ends(w);
    expect(w, "2000: ack 1\n");
}

static void test_unwanted_run_is_stopped(void **state)
{
    struct world *w = *state;
    struct agent_stats stats;

    deliver(w, 1, {.step = "a", .lock = 5000, .heartbeat = 300},
            {.step = "b", .lock = 5000, .heartbeat = 300, .actor = "retrying"});
    until(w, 300);
    all_confirmed(w);
    buf_clear(&w->story);
    answer(w, "a", true);
    answer(w, "nobody", false);
    expect(w, "");
    answer(w, "a", false);
    answer(w, "a", false);
    expect(w, "300: stop a\n");
    fail_as(w, "b", "BUSY", DROVER__V1__VERDICT__VERDICT_TRANSIENT);
    answer(w, "b", false); /* between two tries */
    until(w, 1000);
    expect(w, "300: reply b!UNWANTED(deferred)\n");
    fail_as(w, "a", "SIGNAL_15", DROVER__V1__VERDICT__VERDICT_TRANSIENT);
    turn_ends(w);
    expect(w, "1000: reply a!UNWANTED(deferred)\n");
    all_confirmed(w);
    expect(w, "1000: ack 1\n");
    agent_stats(w->agent, &stats);
    assert_int_equal(stats.unwanted, 2);
    assert_int_equal(stats.silent, 0);
    deliver_body(w, 0, AGENT_ANSWERS, bytes_str("\xff"));
    expect(w, "");
}

static void test_drain(void **state)
{
    struct world *w = *state;

    deliver(w, 1, {.step = "a", .lock = 5000}, {.step = "b", .lock = 5000, .actor = "retrying"});
    deliver(w, 2, {.step = "c", .lock = 5000});
    deliver(w, 3, {.step = "c", .lock = 5000});
    fail_as(w, "b", "BUSY", DROVER__V1__VERDICT__VERDICT_TRANSIENT);
    expect(w, "0: start a\n0: start b\n");
    step(w, (struct agent_event){.type = AGENT_DRAIN});
    turn_ends(w);
    expect(w, "0: requeue 2\n0: requeue 3\n0: reply b!BUSY\n");
    deliver(w, 4, {.step = "d", .lock = 5000}); /* the broker had sent it before */
    outcome(w, BUS_CONFIRMED);
    expect(w, "0: requeue 4\n");
    assert_false(agent_idle(w->agent));
    until(w, 100);
    succeed(w, "a", "x");
    turn_ends(w);
    assert_false(agent_idle(w->agent));
    outcome(w, BUS_CONFIRMED);
    expect(w, "100: reply a=x\n100: ack 1\n");
    assert_true(agent_idle(w->agent));
}

static void test_early_ack(void **state)
{
    struct world *w = *state;

    deliver(w, 1, {.step = "a", .lock = 4999, .actor = "early"});
    deliver(w, 2, {.step = "b", .lock = 5000, .actor = "early"});
    until(w, 1249);
    expect(w, "0: start a\n0: start b\n"); /* not yet acknowledged: it may be delivered again */
    until(w, 1250);
    expect(w, "1250: ack 2\n"); /* the store has evidence */
    deliver(w, 3, {.step = "b", .lock = 5000, .actor = "early"});
    expect(w, "1250: ack 3\n");
    assert_false(agent_idle(w->agent));
    succeed(w, "a", "x");
    succeed(w, "b", "y");
    turn_ends(w);
    outcome(w, BUS_CONFIRMED);
    expect(w, "1250: reply a=x b=y\n1250: ack 1\n");
    assert_true(agent_idle(w->agent));
}

/* If runs that the broker does not count occupy all slots, the agent leaves new requests to others.
 * */
static void test_requests_are_left_to_other_agents(void **state)
{
    struct world *w = *state;
    struct agent_stats stats;

    deliver(w, 1, {.step = "a", .lock = 50000, .actor = "early"},
            {.step = "b", .lock = 50000, .actor = "early"});
    until(w, 10000);
    deliver(w, 2, {.step = "c", .lock = 50000});
    until(w, 10050);
    deliver(w, 3, {.step = "c", .lock = 50000}); /* a later request does not delay the pause */
    until(w, 10099);
    expect(w, "0: start a\n0: start b\n10000: ack 1\n");
    until(w, 10100);
    expect(w, "10100: pause\n10100: requeue 2\n10100: requeue 3\n");
    deliver(w, 4, {.step = "d", .lock = 50000}); /* the broker had sent it before */
    w->redelivered = true;
    deliver(w, 5, {.step = "e", .lock = 50000}); /* the broker had sent it before */
    deliver(w, 6, {.step = "f", .lock = 50000}, {.step = "g", .lock = 50000});
    expect(w, "10100: requeue 4\n10100: requeue 5\n10100: requeue 6\n");
    until(w, 15000);
    succeed(w, "a", "x");
    expect(w, "15000: consume\n");
    deliver(w, 7, {.step = "c", .lock = 50000}); /* given back before: no suspect */
    turn_ends(w);
    expect(w, "15000: start c repeated\n15000: reply a=x\n");
    agent_stats(w->agent, &stats);
    assert_int_equal(stats.deferred, 0);
    assert_int_equal(stats.requeued, 5);
}

/* Short runs free their slots soon, and a broker that counts each run sends no more: no pause. */
static void test_no_pause_for_short_runs(void **state)
{
    struct world *w = *state;

    deliver(w, 1, {.step = "a", .lock = 50000});
    deliver(w, 9, {.step = "b", .lock = 50000});
    deliver(w, 2, {.step = "c", .lock = 50000, .actor = "early"});
    until(w, 1000);
    expect(w, "0: start a\n0: start b\n");
    succeed(w, "a", "x");
    expect(w, "1000: start c\n");
    until(w, 11099);
    succeed(w, "b", "y");
    until(w, 15000);
    expect(w, "1000: reply a=x\n11000: ack 2\n11099: reply b=y\n");
}

static void test_results_are_bounded(void **state)
{
    struct world *w = *state;
    struct agent_result result = {.ok = true, .content_type = "text/plain"};
    uint8_t *data = calloc(1, WIRE_RESULT_MAX);

    result.result = bytes_of(data, WIRE_RESULT_MAX - strlen("text/plain"));
    deliver(w, 1, {.step = "fits", .lock = 5000}, {.step = "large", .lock = 5000});
    done(w, "fits", &result);
    result.result.len++;
    done(w, "large", &result);
    buf_clear(&w->story);
    turn_ends(w);
    expect(w, "0: reply fits= large!RESULT_TOO_LARGE(permanent)\n");
    free(data);
}

/* 40 results of 256 KiB are 10 MiB: no message is over the limit, and at most 32 share one. */
static void test_batches_are_bounded(void **state)
{
    struct agent_config config = {.name = "tester", .concurrency = 40};
    struct world *w = *state;
    struct ask asks[40];
    char names[40][8];
    struct rng seed;
    uint8_t *data = calloc(1, WIRE_RESULT_MAX);

    agent_free(w->agent);
    rng_seed(&seed, 1);
    assert_int_equal(agent_new(&w->agent, &config, &seed), 0);
    for (size_t i = 0; i < 40; i++) {
        snprintf(names[i], sizeof(names[i]), "s%zu", i);
        asks[i] = (struct ask){.step = names[i], .lock = 5000};
    }
    for (unsigned round = 0; round < 2; round++) {
        struct agent_result result = {.ok = true,
                                      .result = bytes_of(data, round == 0 ? WIRE_RESULT_MAX : 0)};

        deliver_as(w, 1, false, asks, 40);
        for (size_t i = 0; i < 40; i++)
            done(w, names[i], &result);
        until(w, w->now + 1);
        assert_int_equal(w->n_open, round == 0 ? 3 : 2);
        while (w->n_open > 0)
            outcome(w, BUS_CONFIRMED);
        assert_true(agent_idle(w->agent));
    }
    free(data);
}

/* The reply leaves an empty result out, see tell_reply(), and no other one. */
static void test_smallest_results(void **state)
{
    struct world *w = *state;

    deliver(w, 1, {.step = "a", .lock = 5000}, {.step = "b", .lock = 5000});
    done(w, "a", &(struct agent_result){.ok = true});
    done(w, "b", &(struct agent_result){.ok = true, .result = bytes_str("x")});
    turn_ends(w);
    expect(w, "0: start a\n0: start b\n0: reply a= b=x\n");
}

static void test_text_that_is_not_printable(void **state)
{
    struct world *w = *state;
    struct agent_result result = {
        .class = "A\nB\xff"
                 "C\xc3",
        .message = "\x80",
        .details = bytes_of("a\0b\xe2\x82\n", 6),
        .retry_after_ms = -5,
    };

    deliver(w, 1, {.step = "a", .lock = 1000});
    done(w, "a", &result);
    turn_ends(w);
    expect(w, "0: start a\n0: reply a!A?B?C?\n");
}

/* A text that is too long is cut, never within a character. */
static void test_long_text(void **state)
{
    struct world *w = *state;
    char class[2 * WIRE_ERROR_CLASS_MAX + 1] = "";
    CLEANUP(buf_deinit) struct buf said = {0};

    for (size_t i = 0; i < WIRE_ERROR_CLASS_MAX / 2; i++)
        strcat(class, "\xe2\x82\xac");
    deliver(w, 1, {.step = "a", .lock = 1000});
    fail_as(w, "a", class, DROVER__V1__VERDICT__VERDICT_TRANSIENT);
    turn_ends(w);
    class[WIRE_ERROR_CLASS_MAX / 3 * 3] = '\0';
    buf_printf(&said, "0: start a\n0: reply a!%s\n", class);
    expect(w, buf_str(&said));
}

/* A handler that is stopped before the end of the lease leaves time for the reply. */
static void test_stop_leaves_time_for_the_reply(void **state)
{
    struct agent_config config = {.name = "tester", .concurrency = 1, .reply_margin_ms = 200};
    struct world *w = *state;
    struct rng seed;

    agent_free(w->agent);
    rng_seed(&seed, 1);
    assert_int_equal(agent_new(&w->agent, &config, &seed), 0);
    deliver(w, 1, {.step = "a", .lock = 1000});
    until(w, 850);
    expect(w, "0: start a\n800: stop a\n");
    fail_as(w, "a", "TIMEOUT", DROVER__V1__VERDICT__VERDICT_TRANSIENT);
    turn_ends(w);
    expect(w, "850: reply a!TIMEOUT\n");
}

static void lose(struct world *w, const char *actor)
{
    step(w, (struct agent_event){.type = AGENT_LOST, .lost_actor = actor});
}

/* The queue is declared after the broker has confirmed the report. */
static void test_loss_is_reported(void **state)
{
    struct world *w = *state;

    lose(w, "hand");
    lose(w, "foot");
    expect(w, "0: lost hand\n0: lost foot\n");
    outcome(w, BUS_CONFIRMED);
    expect(w, "0: declare hand\n");
    outcome(w, BUS_CONFIRMED);
    expect(w, "0: declare foot\n");
    lose(w, "hand");
    expect(w, "0: lost hand\n");
    outcome(w, BUS_CONFIRMED);
    expect(w, "0: declare hand\n");
}

/* No scheduler was there yet: the report is sent again until a queue takes it. */
static void test_report_of_loss_is_returned(void **state)
{
    struct world *w = *state;

    lose(w, "hand");
    expect(w, "0: lost hand\n");
    w->mandatory = true;
    outcome(w, BUS_RETURNED);
    expect(w, "");
    until(w, 220);
    assert_non_null(strstr(buf_str(&w->story), ": lost hand\n"));
    w->story.len = 0;
    outcome(w, BUS_CONFIRMED);
    expect(w, "220: declare hand\n");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_loss_is_reported),
        TEST(test_report_of_loss_is_returned),
        TEST(test_replies_and_acknowledges),
        TEST(test_replies_in_the_format_of_the_request),
        TEST(test_failure_is_reported),
        TEST(test_no_reply_after_the_deadline),
        TEST(test_no_reply_after_the_lease),
        TEST(test_expired_publish),
        TEST(test_retries_within_the_lease),
        TEST(test_redelivered_or_sent_before),
        TEST(test_suspects),
        TEST(test_evidence_of_a_suspect),
        TEST(test_reported_suspect_while_draining),
        TEST(test_suspects_without_a_slot),
        TEST(test_suspect_while_draining),
        TEST(test_redelivered_to_the_same_process),
        TEST(test_redelivered_after_its_lease),
        TEST(test_retry_when_it_was_asked_for),
        TEST(test_no_retry_after_a_long_pause),
        TEST(test_failure_before_the_breaker_opened),
        TEST(test_no_retry_of_other_verdicts),
        TEST(test_no_retry_without_time),
        TEST(test_duplicate_token),
        TEST(test_waiting_for_a_slot),
        TEST(test_batch_without_a_slot),
        TEST(test_batch_takes_turns),
        TEST(test_batch_while_draining),
        TEST(test_batch_whose_slots_become_free),
        TEST(test_batch_that_occupies_all_slots),
        TEST(test_capacity_in_replies),
        TEST(test_replies_go_by_their_actor),
        TEST(test_no_start_after_the_lease),
        TEST(test_returned_reply),
        TEST(test_one_bad_among_good),
        TEST(test_two_bad_among_good),
        TEST(test_no_good_request),
        TEST(test_heartbeats),
        TEST(test_heartbeat_beyond_the_lease),
        TEST(test_cut_off),
        TEST(test_cut_off_between_tries),
        TEST(test_headers),
        TEST(test_progress_has_headers),
        TEST(test_no_retry_after_the_lease),
        TEST(test_no_progress_confirmed),
        TEST(test_unwanted_run_is_stopped),
        TEST(test_drain),
        TEST(test_evidence),
        TEST(test_early_ack),
        TEST(test_requests_are_left_to_other_agents),
        TEST(test_no_pause_for_short_runs),
        TEST(test_results_are_bounded),
        TEST(test_batches_are_bounded),
        TEST(test_smallest_results),
        TEST(test_text_that_is_not_printable),
        TEST(test_long_text),
        TEST(test_stop_leaves_time_for_the_reply),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
