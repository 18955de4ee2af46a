// SPDX-License-Identifier: Apache-2.0
/*
 * Pair: two schedulers over one simulated store, steered by hand
 *
 * See pair.h. Called by test_rollback.c and test_scheduler.c.
 */
#include "machines/pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "model/wire.h"

/* ---- the world around the machines ---- */

struct pair_job *pair_job(struct pair *w, const char *id)
{
    for (size_t i = 0; i < w->n_jobs; i++)
        if (strcmp(w->jobs[i].id, id) == 0)
            return &w->jobs[i];
    assert_true(w->n_jobs < PAIR_JOBS_MAX);
    snprintf(w->jobs[w->n_jobs].id, sizeof(w->jobs->id), "%s", id);
    return &w->jobs[w->n_jobs++];
}

static void call(struct pair *w, enum peer peer, const struct effect *e)
{
    struct store_answer answer;

    replay_keep(w->calls, w->now, PAIR_EPOCH + w->now, w->full, e->store.partition,
                e->store.function, e->store.args, e->store.n);
    simstore_call(w->store, PAIR_EPOCH + w->now, w->full, e->store.partition, e->store.function,
                  e->store.args, e->store.n, &answer);
    if (w->deaf_to && strcmp(e->store.function, w->deaf_to) == 0) {
        answer = (struct store_answer){.result = STORE_UNKNOWN};
        w->deaf_to = NULL;
    }
    pair_step(w, peer,
              (struct scheduler_event){.type = SCHEDULER_ANSWER, .id = e->id, .answer = &answer});
}

static bool tell_alert(struct pair *w, enum peer peer, struct bytes body)
{
    CLEANUP(wire_free) struct wire_message m = {0};

    assert_int_equal(wire_decode(WIRE_EVENT, body, NULL, &m, NULL), 0);
    if (m.event->kind != DROVER__V1__EVENT_KIND__EVENT_KIND_ALERT)
        return false;
    buf_printf(&w->story, "%s%c %s %s", w->story.len ? ", " : "", "AB"[peer], m.event->reason,
               m.event->job_id);
    return true;
}

static void keep_request(struct pair *w, const char *id, struct bytes body)
{
    struct buf *request = &pair_job(w, id)->request;

    request->len = 0;
    buf_append(request, body.data, body.len);
}

static void publish(struct pair *w, enum peer peer, const struct effect *e)
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
    pair_step(w, peer,
              (struct scheduler_event){.type = SCHEDULER_OUTCOME, .id = e->id, .outcome = outcome});
}

void pair_step(struct pair *w, enum peer peer, struct scheduler_event event)
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

void pair_pass(struct pair *w, int64_t ms)
{
    int64_t end = w->now + ms;

    for (;;) {
        enum peer first = w->next[A] <= w->next[B] ? A : B;

        if (w->next[first] > end)
            break;
        w->now = w->next[first] > w->now ? w->next[first] : w->now;
        pair_step(w, first, (struct scheduler_event){.type = SCHEDULER_TICK});
    }
    w->now = end;
}

static void deliver_as(struct pair *w, enum peer peer, enum scheduler_source source,
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
                                   .traceparent = "",
                                   .job = "",
                                   .step = "",
                                   .died_of = "",
                                   .actor = ""};

    pair_step(w, peer, (struct scheduler_event){.type = SCHEDULER_DELIVERY, .delivery = &d});
    pair_pass(w, 2); /* records are collected until a tick */
}

void pair_deliver(struct pair *w, enum peer peer, enum scheduler_source source, struct bytes body)
{
    deliver_as(w, peer, source, false, body);
}

void pair_deliver_again(struct pair *w, enum peer peer, enum scheduler_source source,
                        struct bytes body)
{
    deliver_as(w, peer, source, true, body);
}

static void deliver_message(struct pair *w, enum peer peer, enum scheduler_source source,
                            const ProtobufCMessage *m)
{
    CLEANUP(buf_deinit) struct buf body = {0};

    assert_int_equal(wire_encode(m, false, &body), 0);
    pair_deliver(w, peer, source, buf_bytes(&body));
}

void pair_connect(struct pair *w, enum peer peer)
{
    pair_step(w, peer,
              (struct scheduler_event){
                  .type = SCHEDULER_STORE_UP, .partitions = PAIR_PARTITIONS, .run = w->run});
}

static void birth(struct pair *w, enum peer peer)
{
    struct rng rng;
    struct nonces nonces;

    rng_seed(&rng, (uint64_t)w->now + peer);
    nonces_seed(&nonces, (uint64_t)w->now + peer);
    assert_int_equal(
        scheduler_new(&w->peers[peer],
                      &(struct scheduler_config){.name = "AB",
                                                 .most_unconfirmed = SCHEDULER_UNCONFIRMED,
                                                 .nonces = &nonces,
                                                 .loss_window_ms = PAIR_LOSS_WINDOW_MS,
                                                 .declared_actors = UINT_MAX},
                      &rng),
        0);
    pair_connect(w, peer);
}

void pair_die(struct pair *w, enum peer peer)
{
    w->peers[peer] = scheduler_free(w->peers[peer]);
    birth(w, peer);
}

/* ---- jobs ---- */

void pair_submit(struct pair *w, enum peer peer, const char *id)
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
    step.lock_ms = step.wait_ms = PAIR_WAIT_MS;
    step.retry = &parks;
    workflow.steps = steps;
    workflow.n_steps = 1;
    m.job_id = (char *)id;
    m.definition = &workflow;
    deliver_message(w, peer, SCHEDULER_SUBMIT, &m.base);
    assert_true(pair_job(w, id)->request.len > 0);
}

void pair_reply(struct pair *w, enum peer peer, const char *id, Drover__V1__Error *error)
{
    CLEANUP(wire_free) struct wire_message asked = {0};
    Drover__V1__Replies m = DROVER__V1__REPLIES__INIT;
    Drover__V1__StepReply reply = DROVER__V1__STEP_REPLY__INIT;
    Drover__V1__StepReply *replies[] = {&reply};

    assert_int_equal(
        wire_decode(WIRE_REQUESTS, buf_bytes(&pair_job(w, id)->request), NULL, &asked, NULL), 0);
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

void pair_served(struct pair *w, enum peer peer, const char *id)
{
    pair_reply(w, peer, id, NULL);
}

void pair_expect(struct pair *w, const char *story)
{
    assert_string_equal(buf_str(&w->story), story);
    w->story.len = 0;
}

/* ---- setup ---- */

int pair_setup(void **state)
{
    struct pair *w = calloc(1, sizeof(*w));

    if (!w)
        return -1;
    log_set_level((enum log_level)(LOG_ERROR + 1));
    w->store = simstore_new(SIM_DROVER_LUA);
    w->calls = replay_new();
    w->run = "first";
    birth(w, A);
    birth(w, B);
    *state = w;
    return 0;
}

int pair_teardown(void **state)
{
    struct pair *w = *state;

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
