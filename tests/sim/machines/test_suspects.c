// SPDX-License-Identifier: Apache-2.0
/*
 * Schedulers and a message that kills the process that reads it: one incarnation after the other,
 * over one store and a queue that redelivers what was not acknowledged.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/id.h"
#include "base/log.h"
#include "model/store_ops.h"
#include "model/store_schema.h"
#include "model/wire.h"
#include "scheduler/poison.h"
#include "scheduler/scheduler.h"
#include "store/store.h"

#define MESSAGES 18
#define BEGUN 8 /* suspects that a scheduler begins side by side */
#define ANSWERS 256
#define ITEMS 16
#define STORE_EPOCH INT64_C(1700000000000)

struct message {
    char job[16];
    struct buf body;
    bool delivered; /* at least once */
    bool done;      /* acknowledged */
    bool dead;      /* it is in drover.dead */
};

/* What the scheduler hears next: the answer of the store to a call, or that the broker has a
 * message. */
struct answer {
    uint64_t id;
    bool kills; /* the process, before it is heard */
    bool outcome;
    struct store_answer answer;
    struct bytes items[ITEMS]; /* owned */
};

struct world {
    struct simstore *store;
    struct scheduler *scheduler;
    struct message messages[MESSAGES];
    int64_t now, next;
    uint64_t seed;
    const char *poison;     /* a job; recording it kills */
    bool deaf;              /* no submission is answered */
    bool silent;            /* no call is */
    const char *unanswered; /* the digest of a suspect about which no call is answered */
    bool batched;           /* the second message has all others */
    unsigned jobs;          /* created */
    unsigned submits;       /* calls of the store function */
    unsigned suspects;      /* likewise */
    int given_back;         /* messages, to the broker */
    bool dying;
    struct answer answers[ANSWERS]; /* a ring */
    size_t first, end;
};

/* ---- the world around the machine ---- */

static struct answer *add_answer(struct world *w, uint64_t id)
{
    struct answer *a = &w->answers[w->end++ % ANSWERS];

    assert_true(w->end - w->first <= ANSWERS);
    *a = (struct answer){.id = id};
    return a;
}

static void drop_answer(struct answer *a)
{
    for (unsigned i = 0; i < a->answer.n; i++)
        free((void *)a->items[i].data);
}

/* The store carries out all calls of a step before the scheduler hears the first answer. */
static void call(struct world *w, const struct effect *e)
{
    const struct bytes *args = e->store.args;
    bool submits = strcmp(e->store.function, "submit") == 0;
    bool suspect = strcmp(e->store.function, "suspect") == 0;
    struct store_answer answer;
    struct answer *a;

    w->submits += submits;
    w->suspects += suspect;
    if (w->silent || (suspect && w->unanswered && bytes_is(args[AT_SUSPECT_DIGEST], w->unanswered)))
        return;
    if (submits && w->poison && bytes_is(args[AT_SUBMIT_JOB_ID], w->poison)) {
        add_answer(w, e->id)->kills = true;
        return;
    }
    if (submits && w->deaf)
        return;
    simstore_call(w->store, STORE_EPOCH + w->now, false, e->store.partition, e->store.function,
                  args, e->store.n, &answer);
    w->jobs += submits && answer.n > 0 && bytes_is(answer.items[0], "CREATED");
    a = add_answer(w, e->id);
    a->answer = answer;
    assert_true(answer.n <= ITEMS);
    for (unsigned i = 0; i < answer.n; i++) {
        uint8_t *copy = malloc(answer.items[i].len + 1);

        assert_non_null(copy);
        memcpy(copy, answer.items[i].data, answer.items[i].len);
        a->items[i] = bytes_of(copy, answer.items[i].len);
    }
    a->answer.items = a->items;
}

static void publish(struct world *w, const struct effect *e)
{
    for (int i = 0; i < MESSAGES && strcmp(e->publish.exchange, "drover.dead") == 0; i++) {
        struct message *m = &w->messages[i];

        if (m->body.len == e->publish.body.len &&
            memcmp(m->body.data, e->publish.body.data, m->body.len) == 0) {
            assert_string_equal(e->publish.reason, "POISON");
            m->dead = true;
        }
    }
    add_answer(w, e->id)->outcome = true;
}

static void step(struct world *w, struct scheduler_event event)
{
    struct effects out = {0};

    event.now = w->now;
    w->next = scheduler_step(w->scheduler, &event, &out);
    for (size_t i = 0; i < out.n; i++) {
        const struct effect *e = &out.items[i];

        if (e->type == EFFECT_STORE)
            call(w, e);
        else if (e->type == EFFECT_PUBLISH)
            publish(w, e);
        else if (e->type == EFFECT_ACK)
            w->messages[e->id - 1].done = true;
        else if (e->type == EFFECT_REQUEUE)
            w->given_back++;
    }
    effects_deinit(&out);
}

static void feed(struct world *w, struct scheduler_event event)
{
    step(w, event);
    while (w->first < w->end) {
        struct answer *a = &w->answers[w->first++ % ANSWERS];

        w->dying |= a->kills;
        if (!w->dying && a->outcome)
            step(w, (struct scheduler_event){.type = SCHEDULER_OUTCOME, .id = a->id});
        else if (!w->dying)
            step(w, (struct scheduler_event){
                        .type = SCHEDULER_ANSWER, .id = a->id, .answer = &a->answer});
        drop_answer(a);
    }
}

static void pass(struct world *w, int64_t ms)
{
    int64_t end = w->now + ms;

    while (!w->dying && w->next <= end) {
        w->now = w->next > w->now ? w->next : w->now;
        feed(w, (struct scheduler_event){.type = SCHEDULER_TICK});
    }
    w->now = end;
}

static void birth(struct world *w)
{
    struct rng rng;
    struct nonces nonces;

    w->dying = false;
    scheduler_free(w->scheduler);
    rng_seed(&rng, ++w->seed);
    nonces_seed(&nonces, w->seed);
    assert_int_equal(
        scheduler_new(&w->scheduler,
                      &(struct scheduler_config){.name = "s",
                                                 .most_unconfirmed = SCHEDULER_UNCONFIRMED,
                                                 .nonces = &nonces,
                                                 .declared_actors = UINT_MAX},
                      &rng),
        0);
    feed(w, (struct scheduler_event){.type = SCHEDULER_STORE_UP, .partitions = 2, .run = "run"});
}

static void deliver_body(struct world *w, int i, struct bytes body, bool batch)
{
    struct message *m = &w->messages[i];
    const struct bus_delivery d = {.handle = (uint64_t)i + 1,
                                   .source = SCHEDULER_SUBMIT,
                                   .redelivered = m->delivered,
                                   .batch = batch,
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

    m->delivered = true;
    if (!m->done && !w->dying)
        feed(w, (struct scheduler_event){.type = SCHEDULER_DELIVERY, .delivery = &d});
}

static void deliver_one(struct world *w, int i)
{
    deliver_body(w, i, buf_bytes(&w->messages[i].body), false);
}

/* Protobuf merges the fields of messages that follow each other. */
static void put_batch(struct world *w, struct buf *body)
{
    for (int i = 1; i < MESSAGES; i++) {
        Drover__V1__Submits all = DROVER__V1__SUBMITS__INIT;
        CLEANUP(wire_free) struct wire_message m = {0};

        assert_int_equal(wire_decode(WIRE_SUBMIT, buf_bytes(&w->messages[i].body), NULL, &m, NULL),
                         0);
        all.submits = &m.submit;
        all.n_submits = 1;
        assert_int_equal(wire_encode(&all.base, false, body), 0);
    }
}

static void deliver_batch(struct world *w)
{
    CLEANUP(buf_deinit) struct buf body = {0};

    put_batch(w, &body);
    deliver_body(w, 1, buf_bytes(&body), true);
}

static void deliver(struct world *w)
{
    deliver_one(w, 0);
    for (int i = 1; i < MESSAGES && !w->batched; i++)
        deliver_one(w, i);
    if (w->batched)
        deliver_batch(w);
}

/* Runs an incarnation until it dies or all is done. */
static bool run_incarnation(struct world *w)
{
    birth(w);
    deliver(w);
    pass(w, 1000);
    return !w->dying;
}

static unsigned dead(const struct world *w)
{
    unsigned count = 0;

    for (int i = 0; i < MESSAGES; i++)
        count += w->messages[i].dead;
    return count;
}

static void assert_done(const struct world *w)
{
    for (int i = 0; i < MESSAGES; i++)
        assert_true(w->messages[i].done);
}

/* ---- tests ---- */

/* What another scheduler reports about a copy of a message. */
static void other_body(struct world *w, struct bytes body, const char *incarnation,
                       const char *what)
{
    char digest[ID_DIGEST_LEN + 1];
    struct store_answer answer;

    id_digest(body, digest);
    simstore_call(w->store, STORE_EPOCH + w->now, false, id_partition(digest, 2), "suspect",
                  (struct bytes[]){bytes_str(digest), bytes_str(incarnation), bytes_str(what)}, 3,
                  &answer);
}

static void other(struct world *w, const struct message *m, const char *incarnation,
                  const char *what)
{
    other_body(w, buf_bytes(&m->body), incarnation, what);
}

/* It kills three incarnations, wherever it is in the queue; the other messages are processed. */
static void test_poison(void **state)
{
    struct world *w = *state;
    int killed = 0;

    w->poison = "j2";
    while (!run_incarnation(w))
        assert_in_range(++killed, 1, 3);
    assert_int_equal(killed, 3);
    assert_done(w);
    assert_int_equal(dead(w), 1);
    assert_true(w->messages[2].dead);
}

/* All messages but the first are in one. The Submit that kills is found, and is the only dead
 * letter; it kills three incarnations, as one that is alone. */
static void test_poison_among_submits(void **state)
{
    struct world *w = *state;
    int killed = 0;

    w->poison = "j2";
    w->batched = true;
    while (!run_incarnation(w))
        assert_in_range(++killed, 1, 3);
    assert_int_equal(killed, 3);
    assert_true(w->messages[0].done);
    assert_true(w->messages[1].done); /* that with all the others */
    assert_int_equal(dead(w), 1);
    assert_true(w->messages[2].dead);
    assert_int_equal(w->jobs, MESSAGES - 1);
}

/* New messages kill one incarnation after the other, each while it has begun the same old message,
 * which the store is slow to answer. The second one begins that alone, and survives it. */
static void test_killed_by_other_messages(void **state)
{
    struct world *w = *state;

    w->deaf = true;
    w->messages[0].delivered = true;
    for (int i = 1; i < MESSAGES; i++) {
        birth(w);
        deliver_one(w, 0);
        w->poison = w->messages[i].job;
        deliver_one(w, i);
        assert_int_equal(w->dying, i == 1);
        pass(w, 1000);
        assert_true(w->dying); /* of the new message, read after the old one */
    }
    w->poison = NULL;
    w->deaf = false;
    assert_true(run_incarnation(w));
    assert_done(w);
    assert_int_equal(dead(w), 0);
}

/* What was held while a suspect was read alone goes back to the broker with the connection. */
static void test_broker_lost_while_alone(void **state)
{
    struct world *w = *state;

    w->deaf = true;
    w->messages[0].delivered = true;
    other(w, &w->messages[0], "a", "begin");
    for (int i = 0; i < 2; i++) {
        birth(w);
        deliver(w);
        feed(w, (struct scheduler_event){.type = SCHEDULER_BUS_DOWN});
        assert_int_equal(w->given_back, MESSAGES - 1);
        w->given_back = 0;
    }
    w->deaf = false;
    assert_true(run_incarnation(w));
    assert_done(w);
    assert_int_equal(dead(w), 0);
}

/* A message whose Submits are read one by one, as another scheduler has died of it, goes back as a
 * whole, once. */
static void test_broker_lost_with_submits(void **state)
{
    struct world *w = *state;
    CLEANUP(buf_deinit) struct buf body = {0};

    put_batch(w, &body);
    w->batched = true;
    w->messages[1].delivered = true;
    w->deaf = true;
    birth(w);
    other_body(w, buf_bytes(&body), "a", "begin");
    deliver_batch(w);
    feed(w, (struct scheduler_event){.type = SCHEDULER_BUS_DOWN});
    assert_int_equal(w->given_back, 1);
    w->deaf = false;
    assert_true(run_incarnation(w));
    assert_int_equal(w->jobs, MESSAGES);
    assert_int_equal(dead(w), 0);
}

static void broker_restarts(struct world *w)
{
    feed(w, (struct scheduler_event){.type = SCHEDULER_BUS_DOWN});
}

/* Delivers all messages again, to a new incarnation, whose store is slow to answer. */
static void deliver_again(struct world *w)
{
    w->deaf = true;
    for (int i = 0; i < MESSAGES; i++)
        w->messages[i].delivered = true;
    birth(w);
    deliver(w);
}

/* Suspects do not wait for one another, but for a place among those that are begun. */
static void test_side_by_side(void **state)
{
    struct world *w = *state;

    deliver_again(w);
    assert_int_equal(w->submits, BEGUN);
    pass(w, POISON_SUSPECT_MS - 1);
    assert_int_equal(w->submits, BEGUN);
    pass(w, 1);
    assert_int_equal(w->submits, 2 * BEGUN);
}

/* A suspect that another scheduler had begun waits until all that are begun are survived; until it
 * is survived itself, those behind it and new messages wait. */
static void test_alone_after_others(void **state)
{
    struct world *w = *state;

    other(w, &w->messages[BEGUN + 1], "a", "begin");
    deliver_again(w);
    pass(w, POISON_SUSPECT_MS);
    assert_int_equal(w->submits, 2 * BEGUN - 1); /* but for that one */
    pass(w, POISON_SUSPECT_MS - 1);
    assert_int_equal(w->submits, 2 * BEGUN - 1);
    pass(w, 1);
    assert_int_equal(w->submits, 2 * BEGUN);
    w->messages[0].delivered = false;
    deliver_one(w, 0);
    pass(w, POISON_SUSPECT_MS - 1);
    assert_int_equal(w->submits, 2 * BEGUN);
    pass(w, 1);
    assert_int_equal(w->submits, MESSAGES + 1);
    w->deaf = false;
    assert_true(run_incarnation(w));
    assert_done(w);
    assert_int_equal(dead(w), 0);
}

/* A message that comes back to the process that had read it is no suspect: only its connection was
 * lost. What the process had not read is. */
static void test_survivor(void **state)
{
    struct world *w = *state;

    birth(w);
    w->deaf = true;
    deliver(w);
    broker_restarts(w);
    w->submits = 0;
    deliver(w);
    assert_int_equal(w->submits, MESSAGES);
    assert_int_equal(w->suspects, 0);
    birth(w);
    deliver(w);
    broker_restarts(w);
    w->suspects = w->submits = 0;
    deliver(w);
    assert_int_equal(w->submits, BEGUN); /* those that were read before are not survived */
    pass(w, POISON_SUSPECT_MS);
    broker_restarts(w);
    w->suspects = w->submits = 0;
    deliver(w);
    assert_int_equal(w->submits, 2 * BEGUN); /* as many are survived */
    assert_int_equal(w->suspects, BEGUN);
    w->silent = true;
    birth(w);
    deliver(w);
    broker_restarts(w);
    broker_restarts(w);
    w->silent = false;
    w->submits = 0;
    deliver(w);
    assert_int_equal(w->submits, BEGUN); /* all are suspects */
}

/* Runs incarnations until all is done. Return: how many died. */
static int run_all(struct world *w)
{
    int killed = 0;

    while (!run_incarnation(w))
        killed++;
    return killed;
}

/* The broker is lost while the store is asked about the last Submit of a message, which kills: the
 * message is not survived. */
static void test_lost_before_the_last_submit(void **state)
{
    struct world *w = *state;
    char digest[ID_DIGEST_LEN + 1];

    w->poison = "j17";
    w->batched = true;
    id_digest(buf_bytes(&w->messages[MESSAGES - 1].body), digest);
    assert_false(run_incarnation(w));
    assert_false(run_incarnation(w));
    birth(w);
    w->unanswered = digest;
    deliver(w);
    assert_int_equal(w->jobs, MESSAGES - 1); /* all others */
    w->unanswered = NULL;
    broker_restarts(w);
    deliver(w);
    pass(w, 1000);
    assert_int_equal(w->dying + run_all(w), 1);
    assert_true(w->messages[MESSAGES - 1].dead);
}

/* The broker delivers a message again that was given up; it kills no more schedulers. */
static void test_given_up_again(void **state)
{
    struct world *w = *state;

    w->poison = "j2";
    assert_int_equal(run_all(w), 3);
    w->messages[2].done = w->messages[2].dead = false;
    assert_true(run_incarnation(w));
    assert_true(w->messages[2].dead);
}

/* Likewise if it is one of a message, whose other Submits are not done. */
static void test_given_up_among_submits(void **state)
{
    struct world *w = *state;

    w->poison = "j2";
    w->batched = true;
    for (int i = 0; i < 3; i++)
        assert_false(run_incarnation(w));
    birth(w);
    w->deaf = true;
    deliver(w);
    pass(w, 60000);
    assert_true(w->messages[2].dead);
    broker_restarts(w);
    w->deaf = false;
    deliver(w);
    pass(w, 1000);
    assert_false(w->dying);
    assert_int_equal(run_all(w), 0);
    assert_int_equal(w->jobs, MESSAGES - 1);
}

/* Two old messages are begun at the same time, and then alone, one after the other. A new one that
 * came meanwhile, and kills, is not read in between: the second would seem to have killed. */
static void test_held_until_all_alone_are_survived(void **state)
{
    struct world *w = *state;

    w->deaf = true;
    birth(w);
    for (int i = 0; i < 3; i++) { /* the others wait for the first one */
        other(w, &w->messages[i], "a", "begin");
        w->messages[i].delivered = true;
        deliver_one(w, i);
    }
    pass(w, POISON_SUSPECT_MS);
    w->poison = "j3";
    deliver_one(w, 3);
    pass(w, POISON_SUSPECT_MS);
    assert_false(w->dying);
    pass(w, POISON_SUSPECT_MS);
    assert_true(w->dying);
    w->poison = NULL;
    w->deaf = false;
    assert_true(run_incarnation(w));
    assert_done(w);
    assert_int_equal(dead(w), 0);
}

/* A broker that restarts costs no incarnation: the store is slow, and the messages come again. */
static void test_restarts_of_the_broker(void **state)
{
    struct world *w = *state;

    w->deaf = true;
    for (int i = 0; i < 10; i++) {
        assert_true(run_incarnation(w));
        broker_restarts(w);
    }
    for (int i = 0; i < 10; i++) { /* before it can have survived anything */
        birth(w);
        deliver(w);
        broker_restarts(w);
    }
    w->deaf = false;
    assert_true(run_incarnation(w));
    assert_done(w);
    assert_int_equal(dead(w), 0);
}

/* An incarnation that still runs after a while has survived the message: those behind it need not
 * wait. */
static void test_survived_suspect(void **state)
{
    struct world *w = *state;

    birth(w);
    w->deaf = true;
    deliver(w);
    for (int i = 0; i < 3; i++) {
        birth(w);
        deliver(w);
        pass(w, 60000);
    }
    w->deaf = false;
    assert_true(run_incarnation(w));
    assert_done(w);
    assert_int_equal(dead(w), 0);
}

/* A message that was processed is forgotten: earlier losses over it do not count. */
static void test_processed_suspect_is_forgotten(void **state)
{
    struct world *w = *state;

    for (int round = 0; round < 3; round++) {
        w->poison = "j2";
        if (round == 0)
            assert_false(run_incarnation(w));
        assert_false(run_incarnation(w));
        assert_false(run_incarnation(w));
        w->poison = NULL;
        assert_int_equal(dead(w), 0);
        if (round < 2)
            pass(w, 3700 * 1000); /* an hour later they do not count either */
    }
    pass(w, 3700 * 1000);
    assert_true(run_incarnation(w));
    assert_done(w);
    assert_int_equal(dead(w), 0);
    for (int i = 0; i < MESSAGES; i++)
        w->messages[i].done = false; /* the broker has not got the acknowledgement */
    w->poison = "j2";
    assert_false(run_incarnation(w));
    assert_false(run_incarnation(w));
    w->poison = NULL;
    assert_true(run_incarnation(w));
    assert_int_equal(dead(w), 1); /* the third */
}

/* Three schedulers have a copy each: while two of them may be alive, the third does not give it up.
 * */
static void test_copies_of_a_suspect(void **state)
{
    struct world *w = *state;
    struct scheduler_stats stats;

    birth(w);
    w->messages[0].delivered = true;
    other(w, &w->messages[0], "a", "begin");
    other(w, &w->messages[0], "b", "alone");
    deliver(w);
    assert_false(w->messages[0].dead);
    pass(w, 100);
    other(w, &w->messages[0], "a", "back");
    other(w, &w->messages[0], "b", "back");
    pass(w, 1000);
    assert_done(w);
    assert_int_equal(dead(w), 0);
    scheduler_stats(w->scheduler, &stats);
    assert_int_equal(stats.store_repeats, 0); /* the store has answered each time */
}

/* ---- setup ---- */

static void message_new(struct message *out, int i)
{
    Drover__V1__Submit m = DROVER__V1__SUBMIT__INIT;
    Drover__V1__Workflow workflow = DROVER__V1__WORKFLOW__INIT;
    Drover__V1__Step step = DROVER__V1__STEP__INIT;
    Drover__V1__Step *steps[] = {&step};

    snprintf(out->job, sizeof(out->job), "j%d", i);
    step.name = (char *)"s";
    step.actor = (char *)"a";
    workflow.steps = steps;
    workflow.n_steps = 1;
    m.job_id = out->job;
    m.definition = &workflow;
    assert_int_equal(wire_encode(&m.base, false, &out->body), 0);
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    if (!w)
        return -1;
    w->store = simstore_new(SIM_DROVER_LUA);
    simstore_reset(w->store, 0);
    for (int i = 0; i < MESSAGES; i++)
        message_new(&w->messages[i], i);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    for (int i = 0; i < MESSAGES; i++)
        buf_deinit(&w->messages[i].body);
    scheduler_free(w->scheduler);
    simstore_free(w->store);
    free(w);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_poison),
        TEST(test_poison_among_submits),
        TEST(test_broker_lost_with_submits),
        TEST(test_killed_by_other_messages),
        TEST(test_broker_lost_while_alone),
        TEST(test_restarts_of_the_broker),
        TEST(test_side_by_side),
        TEST(test_alone_after_others),
        TEST(test_survivor),
        TEST(test_lost_before_the_last_submit),
        TEST(test_given_up_again),
        TEST(test_given_up_among_submits),
        TEST(test_held_until_all_alone_are_survived),
        TEST(test_survived_suspect),
        TEST(test_copies_of_a_suspect),
        TEST(test_processed_suspect_is_forgotten),
    };

    log_set_level((enum log_level)(LOG_ERROR + 1));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
