// SPDX-License-Identifier: Apache-2.0
/*
 * Two schedulers over one store, steered by hand: which of them gets which delivery, what the
 * broker makes of a publish, who dies when. What they tell of it is compared as text.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "model/store_ops.h"
#include "model/wire.h"
#include "replay.h"
#include "scheduler/scheduler.h"
#include "store.h"

#define PARTITIONS 2
#define JOBS_MAX 16
#define WAIT_MS INT64_C(1000)
#define MINUTE INT64_C(60000)
#define STORE_EPOCH INT64_C(1700000000000)

enum peer {
    A,
    B,
    PEERS_
};

/* What the broker makes of an alert. */
enum mood {
    CONFIRMS,
    NACKS,
    SILENT
};

struct job {
    char id[16];
    struct buf request; /* as last published */
};

struct world {
    struct simstore *store;
    struct replay *calls; /* of the store */
    const char *run;      /* of its server */
    struct scheduler *peers[PEERS_];
    int64_t next[PEERS_]; /* when they want a tick */
    int64_t now;
    enum mood mood;
    bool full;           /* the store */
    const char *deaf_to; /* a function, of whose next call the answer is lost; NULL: none */
    struct job jobs[JOBS_MAX];
    size_t n_jobs;
    uint64_t handle;
    struct buf reply; /* the last */
    struct buf story;
};

/* ---- the world around the machines ---- */

static void feed(struct world *w, enum peer peer, struct scheduler_event event);

static struct job *job_of(struct world *w, const char *id)
{
    for (size_t i = 0; i < w->n_jobs; i++)
        if (strcmp(w->jobs[i].id, id) == 0)
            return &w->jobs[i];
    assert_true(w->n_jobs < JOBS_MAX);
    snprintf(w->jobs[w->n_jobs].id, sizeof(w->jobs->id), "%s", id);
    return &w->jobs[w->n_jobs++];
}

static void call(struct world *w, enum peer peer, const struct effect *e)
{
    struct store_answer answer;

    replay_keep(w->calls, w->now, STORE_EPOCH + w->now, w->full, e->store.partition,
                e->store.function, e->store.args, e->store.n);
    simstore_call(w->store, STORE_EPOCH + w->now, w->full, e->store.partition, e->store.function,
                  e->store.args, e->store.n, &answer);
    if (w->deaf_to && strcmp(e->store.function, w->deaf_to) == 0) {
        answer = (struct store_answer){.result = STORE_UNKNOWN};
        w->deaf_to = NULL;
    }
    feed(w, peer,
         (struct scheduler_event){.type = SCHEDULER_ANSWER, .id = e->id, .answer = &answer});
}

static bool tell_alert(struct world *w, enum peer peer, struct bytes body)
{
    CLEANUP(wire_free) struct wire_message m = {0};

    assert_int_equal(wire_decode(WIRE_EVENT, body, NULL, &m, NULL), 0);
    if (m.event->kind != DROVER__V1__EVENT_KIND__EVENT_KIND_ALERT)
        return false;
    buf_printf(&w->story, "%s%c %s %s", w->story.len ? ", " : "", "AB"[peer], m.event->reason,
               m.event->job_id);
    return true;
}

static void keep_request(struct world *w, const char *id, struct bytes body)
{
    struct buf *request = &job_of(w, id)->request;

    request->len = 0;
    buf_append(request, body.data, body.len);
}

static void publish(struct world *w, enum peer peer, const struct effect *e)
{
    const struct bus_message *m = &e->publish;
    enum bus_outcome outcome = BUS_CONFIRMED;

    if (strcmp(m->exchange, "drover.dead") == 0)
        fail_msg("%s", m->reason);
    if (strcmp(m->type, "drover.v1.Requests") == 0) {
        keep_request(w, m->job, m->body);
    } else if (strcmp(m->exchange, "drover.events") == 0 && tell_alert(w, peer, m->body)) {
        if (w->mood == SILENT)
            return;
        outcome = w->mood == NACKS ? BUS_NACKED : BUS_CONFIRMED;
    } else if (*m->exchange == '\0') {
        w->reply.len = 0;
        buf_append(&w->reply, m->body.data, m->body.len);
    }
    feed(w, peer,
         (struct scheduler_event){.type = SCHEDULER_OUTCOME, .id = e->id, .outcome = outcome});
}

static void feed(struct world *w, enum peer peer, struct scheduler_event event)
{
    struct effects out = {0};

    event.now = w->now;
    w->next[peer] = scheduler_step(w->peers[peer], &event, &out);
    for (size_t i = 0; i < out.n; i++) {
        if (out.items[i].type == EFFECT_STORE)
            call(w, peer, &out.items[i]);
        else if (out.items[i].type == EFFECT_PUBLISH)
            publish(w, peer, &out.items[i]);
    }
    effects_deinit(&out);
}

/* Time passes, with the ticks that fall into it. */
static void pass(struct world *w, int64_t ms)
{
    int64_t end = w->now + ms;

    for (;;) {
        enum peer first = w->next[A] <= w->next[B] ? A : B;

        if (w->next[first] > end)
            break;
        w->now = w->next[first] > w->now ? w->next[first] : w->now;
        feed(w, first, (struct scheduler_event){.type = SCHEDULER_TICK});
    }
    w->now = end;
}

static void deliver_as(struct world *w, enum peer peer, enum scheduler_source source,
                       bool redelivered, struct bytes body)
{
    const struct bus_delivery d = {.handle = ++w->handle,
                                   .source = (int)source,
                                   .redelivered = redelivered,
                                   .body = body,
                                   .content_type = "",
                                   .message_id = "",
                                   .correlation_id = "",
                                   .reply_to = "",
                                   .user_id = "",
                                   .traceparent = ""};

    feed(w, peer, (struct scheduler_event){.type = SCHEDULER_DELIVERY, .delivery = &d});
    pass(w, 2); /* records are gathered until a tick */
}

static void deliver(struct world *w, enum peer peer, enum scheduler_source source,
                    struct bytes body)
{
    deliver_as(w, peer, source, false, body);
}

static void deliver_message(struct world *w, enum peer peer, enum scheduler_source source,
                            const ProtobufCMessage *m)
{
    CLEANUP(buf_deinit) struct buf body = {0};

    assert_int_equal(wire_encode(m, false, &body), 0);
    deliver(w, peer, source, buf_bytes(&body));
}

static void peer_new(struct world *w, enum peer peer)
{
    struct rng rng;

    rng_seed(&rng, (uint64_t)w->now + peer);
    assert_int_equal(scheduler_new(&w->peers[peer], "AB", &rng, SCHEDULER_UNCONFIRMED), 0);
    feed(w, peer,
         (struct scheduler_event){
             .type = SCHEDULER_STORE_UP, .partitions = PARTITIONS, .run = w->run});
}

/* Dies, and another takes its place. */
static void die(struct world *w, enum peer peer)
{
    w->peers[peer] = scheduler_free(w->peers[peer]);
    peer_new(w, peer);
}

/* ---- what happens to jobs ---- */

/* A job of one step for actor "hand". */
static void submit_to(struct world *w, enum peer peer, const char *id)
{
    Drover__V1__Submit m = DROVER__V1__SUBMIT__INIT;
    Drover__V1__Workflow workflow = DROVER__V1__WORKFLOW__INIT;
    Drover__V1__Step step = DROVER__V1__STEP__INIT;
    Drover__V1__Step *steps[] = {&step};
    Drover__V1__Policy parks = DROVER__V1__POLICY__INIT;

    parks.on_permanent = DROVER__V1__RECOURSE__RECOURSE_PARK;
    step.name = (char *)"a";
    step.actor = (char *)"hand";
    step.action = (char *)"work";
    step.lock_ms = step.wait_ms = WAIT_MS;
    step.retry = &parks;
    workflow.steps = steps;
    workflow.n_steps = 1;
    m.job_id = (char *)id;
    m.definition = &workflow;
    deliver_message(w, peer, SCHEDULER_SUBMIT, &m.base);
    assert_true(job_of(w, id)->request.len > 0);
}

static void submit(struct world *w, const char *id)
{
    submit_to(w, A, id);
}

/* Asks in JSON; the answer is the caller's. */
static void ask(struct world *w, const char *control, struct wire_message *answer)
{
    w->reply.len = 0;
    deliver(w, A, SCHEDULER_CONTROL, bytes_str(control));
    assert_true(w->reply.len > 0);
    assert_int_equal(wire_decode(WIRE_ANSWER, buf_bytes(&w->reply), NULL, answer, NULL), 0);
}

/* Jobs j0, j1, ... whose requests nobody has taken in time. */
static void wait_for_agent(struct world *w, int jobs)
{
    for (int i = 0; i < jobs; i++) {
        char id[16];

        snprintf(id, sizeof(id), "j%d", i);
        submit(w, id);
    }
    pass(w, WAIT_MS);
}

/* Nobody takes the job's request within its wait: it comes back, to this scheduler. */
static void unstarted(struct world *w, enum peer peer, const char *id)
{
    CLEANUP(buf_deinit) struct buf body = {0};

    buf_append(&body, job_of(w, id)->request.data, job_of(w, id)->request.len);
    deliver(w, peer, SCHEDULER_EXPIRED, buf_bytes(&body));
}

static void reply(struct world *w, enum peer peer, const char *id, Drover__V1__Error *error)
{
    CLEANUP(wire_free) struct wire_message asked = {0};
    Drover__V1__Replies m = DROVER__V1__REPLIES__INIT;
    Drover__V1__StepReply reply = DROVER__V1__STEP_REPLY__INIT;
    Drover__V1__StepReply *replies[] = {&reply};

    assert_int_equal(
        wire_decode(WIRE_REQUESTS, buf_bytes(&job_of(w, id)->request), NULL, &asked, NULL), 0);
    reply.job_id = (char *)id;
    reply.step = (char *)"a";
    reply.token = asked.requests->requests[0]->token;
    if (!error)
        reply.achieved = asked.requests->requests[0]->desired;
    reply.error = error;
    m.replies = replies;
    m.n_replies = 1;
    deliver_message(w, peer, SCHEDULER_REPLIES, &m.base);
}

/* An agent has done the job's step; this scheduler gets the reply. */
static void served(struct world *w, enum peer peer, const char *id)
{
    reply(w, peer, id, NULL);
}

/* An agent will never be able to do it. */
static void failed(struct world *w, enum peer peer, const char *id)
{
    Drover__V1__Error error = DROVER__V1__ERROR__INIT;

    error.verdict = DROVER__V1__VERDICT__VERDICT_PERMANENT;
    reply(w, peer, id, &error);
}

/* What was told since the last look. */
static void expect(struct world *w, const char *story)
{
    assert_string_equal(buf_str(&w->story), story);
    w->story.len = 0;
}

/* ---- tests ---- */

/* Whoever hears that somebody serves again may be another one than who told that nobody does. */
static void test_each_outage_is_told(void **state)
{
    struct world *w = *state;

    wait_for_agent(w, 4);
    unstarted(w, A, "j0");
    unstarted(w, B, "j1");
    expect(w, "A NO_AGENT j0");
    served(w, B, "j0");
    pass(w, MINUTE);
    unstarted(w, A, "j2");
    expect(w, "A NO_AGENT j2");
    served(w, B, "j1"); /* a minute after B has heard the same */
    pass(w, MINUTE);
    unstarted(w, B, "j3");
    expect(w, "B NO_AGENT j3");
}

/* Whoever was to tell has died before the broker had it: another one does, a minute later. */
static void test_dies_before_it_is_told(void **state)
{
    struct world *w = *state;

    wait_for_agent(w, 4);
    w->mood = SILENT;
    unstarted(w, A, "j0");
    expect(w, "A NO_AGENT j0");
    die(w, A);
    w->mood = CONFIRMS;
    unstarted(w, B, "j1");
    expect(w, "");
    pass(w, MINUTE);
    unstarted(w, B, "j2");
    expect(w, "B NO_AGENT j2");
    pass(w, 10 * MINUTE);
    unstarted(w, A, "j3");
    expect(w, "");
}

/* The store has answered that it is news, and nobody has heard it. */
static void test_answer_lost(void **state)
{
    struct world *w = *state;

    wait_for_agent(w, 2);
    w->deaf_to = "told";
    unstarted(w, A, "j0");
    unstarted(w, B, "j1");
    expect(w, "");
    pass(w, 1000);
    expect(w, "A NO_AGENT j0");
}

static void test_known_while_there_are_signs(void **state)
{
    struct world *w = *state;

    wait_for_agent(w, 6);
    unstarted(w, A, "j0");
    expect(w, "A NO_AGENT j0");
    pass(w, 100 * MINUTE);
    unstarted(w, B, "j1");
    pass(w, 100 * MINUTE);
    unstarted(w, B, "j2");
    expect(w, "");
    pass(w, 121 * MINUTE);
    unstarted(w, A, "j3");
    expect(w, "A NO_AGENT j3");
}

static void expect_receipt(struct world *w, const char *code)
{
    assert_true(w->reply.len > 0);
    assert_non_null(strstr(buf_str(&w->reply), code));
    w->reply.len = 0;
}

/* New work is refused, but not what may be recorded already: its sender would think that it is not.
 */
static void test_full_store(void **state)
{
    static const char submit[] =
        "{\"jobId\": \"j\", \"replyTo\": \"me\","
        " \"definition\": {\"steps\": [{\"name\": \"a\", \"actor\": \"hand\"}]}}";
    struct world *w = *state;

    w->full = true;
    deliver(w, A, SCHEDULER_SUBMIT, bytes_str(submit));
    expect_receipt(w, "RETRY_LATER");
    deliver_as(w, A, SCHEDULER_SUBMIT, true, bytes_str(submit));
    pass(w, 5000);
    assert_int_equal(w->reply.len, 0);
    w->full = false;
    pass(w, 5000);
    expect_receipt(w, "CREATED");
    w->deaf_to = "submit";
    deliver(w, A, SCHEDULER_SUBMIT, bytes_str(submit));
    w->full = true;
    pass(w, 5000);
    assert_int_equal(w->reply.len, 0);
    w->full = false;
    pass(w, 5000);
    expect_receipt(w, "ALREADY");
}

static void token_of(struct world *w, const char *id, char token[WIRE_TOKEN_MAX + 1])
{
    CLEANUP(wire_free) struct wire_message m = {0};

    assert_int_equal(wire_decode(WIRE_REQUESTS, buf_bytes(&job_of(w, id)->request), NULL, &m, NULL),
                     0);
    snprintf(token, WIRE_TOKEN_MAX + 1, "%s", m.requests->requests[0]->token);
}

/* Leases that are over by now end, and what is due is marked. */
static void expire(struct world *w, const char *id)
{
    struct effects fx = {0};
    struct store_answer answer;
    const struct effect *e;

    ops_expire(&fx, 0, id_partition(id, PARTITIONS), 0, 10, 0, &(struct op_clock){.since = 1});
    e = &fx.items[0];
    simstore_call(w->store, STORE_EPOCH + w->now, w->full, e->store.partition, e->store.function,
                  e->store.args, e->store.n, &answer);
    assert_int_equal(answer.result, STORE_OK);
    effects_deinit(&fx);
}

/* Old work goes on: commands, replies, leases, the next try, the notice of the end. */
static void test_full_store_carries_on(void **state)
{
    static const char recover[] = "{\"jobId\": \"j\", \"recover\": {\"steps\": [0]}}";
    static const char notify[] = "{\"jobId\": \"j\", \"notify\": {\"seq\": %" PRIu64 "}}";
    static const char *const commands[] = {"pause", "resume"};
    CLEANUP(wire_free) struct wire_message end = {0};
    Drover__V1__Error error = DROVER__V1__ERROR__INIT;
    char first[WIRE_TOKEN_MAX + 1], second[WIRE_TOKEN_MAX + 1], control[120];
    struct world *w = *state;

    deliver(w, A, SCHEDULER_SUBMIT,
            bytes_str("{\"jobId\": \"j\", \"replyTo\": \"me\", \"definition\": {\"steps\": "
                      "[{\"name\": \"a\", \"actor\": \"hand\"}]}}"));
    token_of(w, "j", first);
    w->full = true;
    for (size_t i = 0; i < array_size(commands); i++) {
        CLEANUP(wire_free) struct wire_message m = {0};

        snprintf(control, sizeof(control),
                 "{\"jobId\": \"j\", \"replyTo\": \"me\", \"commandId\": \"c%zu\", \"%s\": {}}", i,
                 commands[i]);
        ask(w, control, &m);
        assert_int_equal(m.answer->code, DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE);
    }
    error.class_ = (char *)"BROKEN";
    reply(w, A, "j", &error);
    pass(w, MINUTE);
    expire(w, "j");
    deliver(w, A, SCHEDULER_CONTROL, bytes_str(recover));
    token_of(w, "j", second);
    assert_string_not_equal(first, second);
    w->reply.len = 0;
    served(w, A, "j");
    assert_int_equal(wire_decode(WIRE_EVENT, buf_bytes(&w->reply), NULL, &end, NULL), 0);
    assert_int_equal(end.event->outcome, DROVER__V1__OUTCOME__OUTCOME_SUCCEEDED);
    w->reply.len = 0;
    snprintf(control, sizeof(control), notify, end.event->seq);
    deliver(w, A, SCHEDULER_CONTROL, bytes_str(control));
    assert_int_equal(w->reply.len, 0); /* it is owed no more */
}

/* The token of its last dispatch but @back. */
static void dispatched(struct world *w, const char *id, unsigned back, char *token, size_t size)
{
    char key[32];
    uint32_t n;

    snprintf(key, sizeof(key), "hist:%s", id);
    n = simstore_list(w->store, id_partition(id, PARTITIONS), key);
    for (uint32_t i = 0; i < n; i++) {
        struct bytes entry = simstore_entry(w->store, i);
        const char *at = memmem(entry.data, entry.len, " dispatched ", 12);

        if (at && back-- == 0) {
            snprintf(token, size, "%.*s", (int)((const char *)entry.data + entry.len - at), at);
            memmove(token, strrchr(token, ' ') + 1, strlen(strrchr(token, ' ')));
            return;
        }
    }
    fail_msg("not dispatched so often");
}

/* What a drive has put in flight, and nobody heard of, has expired when the call is repeated. */
static void test_a_repeated_drive_mints_anew(void **state)
{
    struct world *w = *state;
    char first[64], second[64];

    submit(w, "j");
    w->now += 2 * WAIT_MS;
    expire(w, "j");
    w->deaf_to = "drive";
    deliver(w, A, SCHEDULER_CONTROL,
            bytes_str("{\"jobId\": \"j\", \"recover\": {\"steps\": [0]}}"));
    w->now += 2 * WAIT_MS;
    expire(w, "j");
    pass(w, 1000);
    dispatched(w, "j", 1, first, sizeof(first));
    dispatched(w, "j", 0, second, sizeof(second));
    assert_string_not_equal(first, second);
}

/* An alert that the broker refuses is sent until it is taken. */
static void test_refused(void **state)
{
    struct world *w = *state;

    wait_for_agent(w, 3);
    w->mood = NACKS;
    unstarted(w, A, "j0");
    failed(w, A, "j1");
    expect(w, "A NO_AGENT j0, A PARKED j1");
    w->mood = CONFIRMS;
    pass(w, 1500);
    expect(w, "A NO_AGENT j0, A PARKED j1");
    pass(w, 10 * MINUTE);
    unstarted(w, B, "j2");
    expect(w, "");
    assert_true(scheduler_idle(w->peers[A]));
}

static void say(struct world *w, int actor, enum ops_cause what)
{
    struct effects out = {0};
    struct store_answer answer;

    ops_told(&out, 1, 0, effects_printf(&out, "NO_AGENT a%d", actor), what, "0a");
    simstore_call(w->store, STORE_EPOCH + w->now, false, 0, "told", out.items[0].store.args,
                  out.items[0].store.n, &answer);
    effects_deinit(&out);
}

static size_t causes(struct world *w)
{
    CLEANUP(buf_deinit) struct buf text = {0};
    const char *words[] = {"HGETALL", "drover:{p0}:told"};
    size_t n = 0;

    simstore_command(w->store, words, 2, &text);
    for (const char *at = buf_str(&text); (at = strstr(at, "NO_AGENT")); at++)
        n++;
    return n;
}

/* Actors whose last alert is long past leave nothing behind, though nobody says that it is over. */
static void test_causes_are_forgotten(void **state)
{
    struct world *w = *state;

    for (int i = 0; i < 100; i++) {
        say(w, i, OPS_CAUSE_ASK);
        say(w, i, OPS_CAUSE_TOLD);
    }
    assert_int_equal(causes(w), 100);
    pass(w, 119 * MINUTE);
    say(w, 0, OPS_CAUSE_ASK);
    pass(w, 2 * MINUTE);
    for (int i = 100; i < 300; i++)
        say(w, i, OPS_CAUSE_ASK);
    assert_in_range(causes(w), 201,
                    210); /* the new ones, the first, and hardly one of the others */
}

/* ---- a store that goes back in time ---- */

/* The server ends, and comes back without its last calls. */
static void lose_calls(struct world *w, uint32_t from, const char *run)
{
    replay_back(w->calls, w->store, 0, from, NULL, NULL);
    w->run = run;
}

static void reconnect(struct world *w, enum peer peer)
{
    feed(w, peer,
         (struct scheduler_event){
             .type = SCHEDULER_STORE_UP, .partitions = PARTITIONS, .run = w->run});
    pass(w, MINUTE);
}

/* Each lists what it accepted itself, in its order, and nothing that is still there. */
static void test_store_went_back(void **state)
{
    struct world *w = *state;
    uint32_t kept;

    submit(w, "j0");
    kept = replay_calls(w->calls);
    submit(w, "j1");
    submit_to(w, B, "j2");
    submit(w, "j3");
    lose_calls(w, kept, "second");
    reconnect(w, A);
    expect(w, "A STORE_WENT_BACK , A JOB_LOST j1, A JOB_LOST j3");
    reconnect(w, B);
    expect(w, "B STORE_WENT_BACK , B JOB_LOST j2");
    reconnect(w, A);
    expect(w, "");
    served(w, A, "j1"); /* whoever had a lost one is not answered, and does no harm */
    served(w, A, "j0");
    submit(w, "j1");
    served(w, B, "j1");
    expect(w, "");
}

/* The answer of the first look is lost, and with it the connection, or not. */
static void test_store_went_back_unseen(void **state)
{
    struct world *w = *state;
    uint32_t kept = replay_calls(w->calls);

    submit(w, "j0");
    submit_to(w, B, "j1");
    lose_calls(w, kept, "second");
    w->deaf_to = "mark";
    reconnect(w, A);
    expect(w, "A STORE_WENT_BACK , A JOB_LOST j0");
    w->deaf_to = "mark";
    feed(w, B,
         (struct scheduler_event){
             .type = SCHEDULER_STORE_UP, .partitions = PARTITIONS, .run = w->run});
    assert_true(scheduler_idle(w->peers[B])); /* it may end meanwhile */
    reconnect(w, B);
    expect(w, "B STORE_WENT_BACK , B JOB_LOST j1");
}

/* A restart that loses nothing is none of anybody's business. */
static void test_store_restarts(void **state)
{
    struct world *w = *state;

    submit(w, "j0");
    served(w, A, "j0");
    lose_calls(w, replay_calls(w->calls), "second");
    reconnect(w, A);
    reconnect(w, B);
    expect(w, "");
}

/* Others are connected first, and accept more than was lost. */
static void test_store_went_back_and_on(void **state)
{
    struct world *w = *state;
    uint32_t kept = replay_calls(w->calls);

    submit_to(w, B, "j0");
    lose_calls(w, kept, "second");
    reconnect(w, A);
    for (int i = 1; i < 8; i++) {
        char id[16];

        snprintf(id, sizeof(id), "j%d", i);
        submit(w, id);
    }
    expect(w, "");
    reconnect(w, B);
    expect(w, "B STORE_WENT_BACK , B JOB_LOST j0");
}

/* The same, and the server has been started twice by then: of the first start nothing is left. */
static void test_store_went_back_twice(void **state)
{
    struct world *w = *state;
    uint32_t kept = replay_calls(w->calls);

    submit_to(w, B, "j0");
    lose_calls(w, kept, "second");
    reconnect(w, A);
    for (int i = 1; i < 8; i++) {
        char id[16];

        snprintf(id, sizeof(id), "j%d", i);
        submit(w, id);
    }
    lose_calls(w, replay_calls(w->calls), "third");
    reconnect(w, A);
    expect(w, "");
    reconnect(w, B);
    expect(w, "B STORE_WENT_BACK , B JOB_LOST j0");
}

/* What nobody accepted is lost as well: a job that had ended has not. */
static void test_settling_lost(void **state)
{
    struct world *w = *state;
    uint32_t kept;

    submit(w, "j0");
    kept = replay_calls(w->calls);
    served(w, B, "j0");
    lose_calls(w, kept, "second");
    reconnect(w, A);
    expect(w, "");
    reconnect(w, B);
    expect(w, "B STORE_WENT_BACK ");
}

/* Somebody empties it, and no connection is lost: whoever accepts the next job sees it. */
static void test_store_emptied(void **state)
{
    struct world *w = *state;

    submit(w, "j0");
    lose_calls(w, 0, "first");
    submit(w, "j0");
    expect(w, "A STORE_LOST "); /* the job is there again */
    submit_to(w, B, "j1");
    reconnect(w, B);
    expect(w, "B STORE_LOST ");
}

static struct workflow *registered_new(void)
{
    Drover__V1__Workflow m = DROVER__V1__WORKFLOW__INIT;
    Drover__V1__Step step = DROVER__V1__STEP__INIT;
    Drover__V1__Step *steps[] = {&step};
    struct problem problem = {0};
    struct workflow *w;

    step.name = (char *)"a";
    step.actor = (char *)"hand";
    m.name = (char *)"known";
    m.version = 1;
    m.steps = steps;
    m.n_steps = 1;
    assert_int_equal(workflow_new(&w, &m, "", &problem), 0);
    return w;
}

static bool is_known_everywhere(struct world *w)
{
    const char *words[][2] = {{"HGETALL", "drover:{p0}:workflows"},
                              {"HGETALL", "drover:{p1}:workflows"}};
    bool known = true;

    for (size_t p = 0; p < array_size(words); p++) {
        CLEANUP(buf_deinit) struct buf text = {0};

        simstore_command(w->store, words[p], 2, &text);
        known = known && strstr(buf_str(&text), "known@1");
    }
    return known;
}

/* Workflows are registered again in a store that went back, also where that is under way, or was
 * emptied. */
static void test_workflows_come_back(void **state)
{
    struct world *w = *state;
    CLEANUP(workflow_unref) struct workflow *known = registered_new();

    assert_int_equal(scheduler_register(w->peers[A], known), 0);
    w->deaf_to = "define";
    feed(w, A,
         (struct scheduler_event){
             .type = SCHEDULER_STORE_UP, .partitions = PARTITIONS, .run = w->run});
    assert_true(is_known_everywhere(w));
    lose_calls(w, 0, "second");
    assert_false(is_known_everywhere(w));
    reconnect(w, A);
    assert_true(is_known_everywhere(w));
    submit(w, "j0");
    w->story.len = 0;
    lose_calls(w, 0, "second");
    submit(w, "j0");
    expect(w, "A STORE_LOST ");
    assert_true(is_known_everywhere(w));
}

/* A scheduler is asked for a notice that the store does not owe, or not yet again: the one that it
 * may owe then is another one. */
static void test_unknown_notices_are_left(void **state)
{
    struct world *w = *state;
    Drover__V1__Control m = DROVER__V1__CONTROL__INIT;
    Drover__V1__Notify notify = DROVER__V1__NOTIFY__INIT;

    submit(w, "j0");
    notify.seq = 9;
    m.job_id = (char *)"j0";
    m.command_case = DROVER__V1__CONTROL__COMMAND_NOTIFY;
    m.notify = &notify;
    w->deaf_to = "settle_owed";
    deliver_message(w, A, SCHEDULER_CONTROL, &m.base);
    assert_non_null(w->deaf_to); /* it was not called */
}

/* What was accepted long before a restart was on disk by then. */
static void test_old_jobs_are_not_looked_for(void **state)
{
    struct world *w = *state;

    submit(w, "j0");
    pass(w, MINUTE);
    submit(w, "j1");
    lose_calls(w, 0, "second");
    reconnect(w, A);
    expect(w, "A STORE_LOST , A JOB_LOST j1");
}

/* ---- life ---- */

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    if (!w)
        return -1;
    w->store = simstore_new(SIM_DROVER_LUA);
    w->calls = replay_new();
    w->run = "first";
    peer_new(w, A);
    peer_new(w, B);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    for (int i = 0; i < PEERS_; i++)
        scheduler_free(w->peers[i]);
    for (size_t i = 0; i < w->n_jobs; i++)
        buf_deinit(&w->jobs[i].request);
    buf_deinit(&w->reply);
    buf_deinit(&w->story);
    simstore_free(w->store);
    replay_free(w->calls);
    free(w);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_each_outage_is_told),
        TEST(test_dies_before_it_is_told),
        TEST(test_answer_lost),
        TEST(test_known_while_there_are_signs),
        TEST(test_full_store),
        TEST(test_full_store_carries_on),
        TEST(test_a_repeated_drive_mints_anew),
        TEST(test_refused),
        TEST(test_causes_are_forgotten),
        TEST(test_store_went_back),
        TEST(test_store_went_back_unseen),
        TEST(test_store_restarts),
        TEST(test_store_went_back_and_on),
        TEST(test_store_went_back_twice),
        TEST(test_settling_lost),
        TEST(test_store_emptied),
        TEST(test_workflows_come_back),
        TEST(test_unknown_notices_are_left),
        TEST(test_old_jobs_are_not_looked_for),
    };

    log_set_level((enum log_level)(LOG_ERROR + 1));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
