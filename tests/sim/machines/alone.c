// SPDX-License-Identifier: Apache-2.0
/*
 * Alone: one scheduler over the simulated store, whose messages and answers a test gives
 *
 * See alone.h. Called by test_broken_store, test_corrupt, test_dispatch, test_intake,
 * test_limits_*, test_notifications, test_questions, test_refusals, test_requests and test_watch.
 */
#include "machines/alone.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"

#define PARTITIONS 2
#define ITEMS_MAX 64

static void say(struct alone *w, const char *what, struct bytes more)
{
    buf_printf(&w->story, "%s%s%.*s", w->story.len ? ", " : "", what, (int)more.len,
               (const char *)more.data);
}

/* ---- the store ---- */

static struct bytes *words_of(char *text, uint32_t *n)
{
    static struct bytes items[ITEMS_MAX];

    *n = 0;
    for (char *word = strsep(&text, " "); word; word = strsep(&text, " ")) {
        assert_true(*n < ITEMS_MAX);
        items[(*n)++] = bytes_str(word);
        for (char *plus = strchr(word, '+'); plus; plus = strchr(plus, '+'))
            *plus = ' ';
    }
    return items;
}

static void give(struct alone *w, uint64_t id, const struct store_answer *a)
{
    alone_step(w, (struct scheduler_event){.type = SCHEDULER_ANSWER, .id = id, .answer = a});
}

static void answer_instead(struct alone *w, uint64_t id)
{
    char *words = or_abort(strdup(w->instead.words ? w->instead.words : ""));
    struct store_answer a = {.result = w->instead.result};
    struct bytes message = bytes_str(words);

    w->times--;
    if (a.result == STORE_OK)
        a.items = words_of(words, &a.n);
    else
        a = (struct store_answer){a.result, w->instead.words ? &message : NULL,
                                  w->instead.words ? 1 : 0};
    give(w, id, &a);
    free(words);
}

/* The items end at the end of an allocation, so that the sanitizers find a read beyond them. */
static void answer_cut(struct alone *w, uint64_t id, const struct store_answer *whole)
{
    struct store_answer a = {.n = w->left < whole->n ? w->left : whole->n};
    struct bytes *items = or_abort(calloc(a.n + 1, sizeof(*items)));

    w->items = whole->n;
    a.items = memcpy(items + 1, whole->items, a.n * sizeof(*items));
    give(w, id, &a);
    free(items);
}

static void call(struct alone *w, const struct effect *e)
{
    struct store_answer a;

    w->call = e->id;
    if (w->times > 0 && strcmp(e->store.function, w->instead.function) == 0 && w->skip-- == 0) {
        w->skip = 0;
        answer_instead(w, e->id);
        return;
    }
    simstore_call(w->store, ALONE_EPOCH + w->now, false, e->store.partition, e->store.function,
                  e->store.args, e->store.n, &a);
    if (w->cut && strcmp(e->store.function, w->cut) == 0)
        answer_cut(w, e->id, &a);
    else
        give(w, e->id, &a);
}

/* ---- the broker ---- */

static void say_request(struct alone *w, struct bytes body)
{
    CLEANUP(wire_free) struct wire_message m = {0};
    CLEANUP(buf_deinit) struct buf steps = {0};

    assert_int_equal(wire_decode(WIRE_REQUESTS, body, NULL, &m, NULL), 0);
    w->request.len = 0;
    buf_append(&w->request, body.data, body.len);
    snprintf(w->token, sizeof(w->token), "%s", m.requests->requests[0]->token);
    for (size_t i = 0; i < m.requests->n_requests; i++) {
        buf_puts(&steps, i > 0 ? " " : "");
        buf_puts(&steps, m.requests->requests[i]->step);
        buf_printf(&w->tokens, "%s/%s ", m.requests->requests[i]->step,
                   m.requests->requests[i]->token);
    }
    say(w, "request ", buf_bytes(&steps));
}

static void say_event(struct alone *w, struct bytes body)
{
    CLEANUP(wire_free) struct wire_message m = {0};
    CLEANUP(buf_deinit) struct buf text = {0};

    assert_int_equal(wire_decode(WIRE_EVENT, body, NULL, &m, NULL), 0);
    if (m.event->kind == DROVER__V1__EVENT_KIND__EVENT_KIND_ALERT) {
        say(w, "alert ", bytes_str(m.event->reason));
        w->alert.len = 0;
        buf_append(&w->alert, body.data, body.len);
        snprintf(w->alert_step, sizeof(w->alert_step), "%s", m.event->step);
        return;
    }
    assert_int_equal(wire_encode(m.base, true, &text), 0);
    say(w, "event ", buf_bytes(&text));
}

static void outcome_is(struct alone *w, uint64_t id, enum bus_outcome outcome)
{
    alone_step(w,
               (struct scheduler_event){.type = SCHEDULER_OUTCOME, .id = id, .outcome = outcome});
}

static void publish(struct alone *w, const struct effect *e)
{
    const struct bus_message *m = &e->publish;
    enum bus_outcome outcome = w->outcome;
    bool batch = m->type && strcmp(m->type, "drover.v1.Submits") == 0;

    w->publish = e->id;
    if (strcmp(m->exchange, "drover.tasks") == 0) {
        say_request(w, m->body);
        snprintf(w->actor, sizeof(w->actor), "%s", m->key);
        w->declared += m->actor != NULL;
        outcome = w->unroutable ? BUS_RETURNED : w->waited ? BUS_WAITED : BUS_CONFIRMED;
    } else if (strcmp(m->exchange, "drover.events") == 0) {
        say_event(w, m->body);
    } else if (strcmp(m->exchange, "drover.dead") == 0) {
        say(w, batch ? "dead batch " : "dead ", bytes_str(m->reason));
    } else {
        say(w, "reply ", m->body);
        buf_printf(&w->reply_routes, "%s/%s ", m->key, m->correlation_id);
        outcome = w->gone && strcmp(m->key, w->gone) == 0 ? BUS_RETURNED : outcome;
        w->reply.len = 0;
        buf_append(&w->reply, m->body.data, m->body.len);
    }
    if (outcome == BUS_RETURNED && !m->mandatory)
        outcome = BUS_CONFIRMED; /* the broker drops it */
    if (!w->silent)
        outcome_is(w, e->id, outcome);
}

/* The inspection of drover.dead, once a minute, is answered at once and is not part of the story.
 * */
static bool inspect(struct alone *w, const struct effect *e)
{
    bool of_letters = strcmp(e->role.object, "drover.dead") == 0;

    if (!of_letters)
        say(w, "inspect ", bytes_str(e->role.object));
    return of_letters;
}

/* ---- the machine ---- */

void alone_step(struct alone *w, struct scheduler_event event)
{
    struct effects out = {0};
    bool of_letters = false;

    event.now = w->now;
    w->next = scheduler_step(w->scheduler, &event, &out);
    for (size_t i = 0; i < out.n; i++) {
        if (out.items[i].type == EFFECT_STORE)
            call(w, &out.items[i]);
        else if (out.items[i].type == EFFECT_PUBLISH)
            publish(w, &out.items[i]);
        else if (out.items[i].type == EFFECT_ACK)
            say(w, "ack", bytes_str(""));
        else if (out.items[i].type == EFFECT_REQUEUE)
            say(w, "given back", bytes_str(""));
        else if (out.items[i].type == EFFECT_CONSUME)
            say(w, out.items[i].wanted ? "consume" : "pause", bytes_str(""));
        else if (out.items[i].type == EFFECT_ROLE && out.items[i].role.what == SCHEDULER_INSPECT)
            of_letters |= inspect(w, &out.items[i]);
        else if (out.items[i].type == EFFECT_ROLE && out.items[i].role.what == SCHEDULER_DECLARE)
            say(w, "declare ", bytes_str(out.items[i].role.object));
    }
    effects_deinit(&out);
    if (of_letters)
        alone_step(w, (struct scheduler_event){.type = SCHEDULER_QUEUE,
                                               .queue = {.messages = w->letters}});
}

void alone_pass(struct alone *w, int64_t ms)
{
    int64_t end = w->now + ms;

    while (w->next <= end) {
        w->now = w->next > w->now ? w->next : w->now;
        alone_step(w, (struct scheduler_event){.type = SCHEDULER_TICK});
    }
    w->now = end;
}

void alone_confirm(struct alone *w)
{
    for (uint64_t id = w->confirmed + 1, last = w->publish; id <= last; id++)
        outcome_is(w, w->confirmed = id, BUS_CONFIRMED); /* ids of other effects are ignored */
}

static void begin(struct alone *w)
{
    struct rng rng;
    struct nonces nonces;

    rng_seed(&rng, (uint64_t)w->now + 1);
    nonces_seed(&nonces, (uint64_t)w->now + 1);
    assert_int_equal(
        scheduler_new(&w->scheduler,
                      &(struct scheduler_config){.name = "alone",
                                                 .most_unconfirmed = SCHEDULER_UNCONFIRMED,
                                                 .json_actors = "one jay",
                                                 .nonces = &nonces,
                                                 .access = w->access,
                                                 .horizon_ms = w->horizon_ms,
                                                 .declared_actors = 2,
                                                 .bad_replies = 10,
                                                 .full_at = 90},
                      &rng),
        0);
    alone_step(w, (struct scheduler_event){
                      .type = SCHEDULER_STORE_UP, .partitions = PARTITIONS, .run = "first"});
}

void alone_restart(struct alone *w)
{
    scheduler_free(w->scheduler);
    begin(w);
}

int alone_setup(void **state)
{
    struct alone *w = calloc(1, sizeof(*w));

    if (!w)
        return -1;
    log_init(
        &(struct log_config){.level = LOG_DEBUG, .fd = open("/dev/null", O_WRONLY | O_CLOEXEC)});
    w->store = simstore_new(SIM_DROVER_LUA);
    begin(w);
    *state = w;
    return 0;
}

int alone_teardown(void **state)
{
    struct alone *w = *state;

    scheduler_free(w->scheduler);
    simstore_free(w->store);
    buf_deinit(&w->reply);
    buf_deinit(&w->alert);
    buf_deinit(&w->reply_routes);
    buf_deinit(&w->request);
    buf_deinit(&w->tokens);
    buf_deinit(&w->story);
    free(w);
    return 0;
}

/* ---- messages ---- */

void alone_deliver(struct alone *w, struct bus_delivery d)
{
    const char **texts[] = {
        &d.content_type, &d.message_id, &d.correlation_id, &d.reply_to, &d.user_id,
        &d.traceparent,  &d.job,        &d.step,           &d.died_of,  &d.actor};

    d.handle = ++w->handle;
    for (size_t i = 0; i < array_size(texts); i++)
        if (!*texts[i])
            *texts[i] = "";
    alone_step(w, (struct scheduler_event){.type = SCHEDULER_DELIVERY, .delivery = &d});
    alone_pass(w, 2); /* replies are collected until a tick */
}

static void deliver(struct alone *w, enum scheduler_source source, const char *reply_to,
                    const char *json)
{
    alone_deliver(w, (struct bus_delivery){
                         .source = (int)source, .reply_to = reply_to, .body = bytes_str(json)});
}

void alone_submit(struct alone *w, const char *json)
{
    deliver(w, SCHEDULER_SUBMIT, "me", json);
}

void alone_control(struct alone *w, const char *json)
{
    deliver(w, SCHEDULER_CONTROL, "me", json);
}

void alone_replies(struct alone *w, const char *json)
{
    deliver(w, SCHEDULER_REPLIES, "me", json);
}

void alone_ask(struct alone *w, const char *json, struct wire_message *answer)
{
    w->reply.len = 0;
    alone_control(w, json);
    assert_true(w->reply.len > 0);
    assert_int_equal(wire_decode(WIRE_ANSWER, buf_bytes(&w->reply), NULL, answer, NULL), 0);
}

void alone_serve(struct alone *w, const char *job, const char *step, const char *said)
{
    CLEANUP(buf_deinit) struct buf json = {0};

    buf_printf(&json,
               "{\"replies\": [{\"jobId\": \"%s\", \"step\": \"%s\", \"token\": \"%s\", %s}]}", job,
               step, w->token, said);
    alone_replies(w, buf_str(&json));
}

void alone_expect(struct alone *w, const char *story)
{
    assert_string_equal(buf_str(&w->story), story);
    w->story.len = 0;
}
