// SPDX-License-Identifier: Apache-2.0
/*
 * Suspects, the intake and messages of several Submits at the same time: none waits for another
 * that waits for it, and what is read alone is alone
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
#include "scheduler/state.h"
#include "store/store.h"

#define STORE_EPOCH INT64_C(1700000000000)
#define MINUTE 60000
#define LARGE 60000 /* bytes of a message that may wait in the intake */

struct world {
    struct simstore *store;
    struct scheduler *scheduler;
    int64_t now, next;
    uint64_t handle;
    bool deaf; /* no Submit is answered by the store, ... */
    bool mute; /* ... or no call */
    unsigned acks, requeues, suspects;
    uint64_t submits[8]; /* ids of the calls that record a Submit, while the store is mute */
    size_t n_submits;
    char asked[ID_NAME_MAX + 1]; /* the job of the last Submit that the store was asked to record */
};

static void feed(struct world *w, struct scheduler_event event);

static void call(struct world *w, const struct effect *e)
{
    bool submits = strcmp(e->store.function, "submit") == 0;
    struct store_answer answer;

    w->suspects += strcmp(e->store.function, "suspect") == 0;
    if (submits)
        snprintf(w->asked, sizeof(w->asked), "%.*s", (int)e->store.args[AT_SUBMIT_JOB_ID].len,
                 (const char *)e->store.args[AT_SUBMIT_JOB_ID].data);
    if (w->mute && submits)
        w->submits[w->n_submits++] = e->id;
    if (w->mute || (submits && w->deaf))
        return;
    simstore_call(w->store, STORE_EPOCH + w->now, false, e->store.partition, e->store.function,
                  e->store.args, e->store.n, &answer);
    feed(w, (struct scheduler_event){.type = SCHEDULER_ANSWER, .id = e->id, .answer = &answer});
}

static void feed(struct world *w, struct scheduler_event event)
{
    struct effects out = {0};

    event.now = w->now;
    w->next = scheduler_step(w->scheduler, &event, &out);
    for (size_t i = 0; i < out.n; i++) {
        const struct effect *e = &out.items[i];

        if (e->type == EFFECT_STORE)
            call(w, e);
        else if (e->type == EFFECT_PUBLISH)
            feed(w, (struct scheduler_event){.type = SCHEDULER_OUTCOME, .id = e->id});
        w->acks += e->type == EFFECT_ACK;
        w->requeues += e->type == EFFECT_REQUEUE;
    }
    effects_deinit(&out);
}

static void pass(struct world *w, int64_t ms)
{
    int64_t end = w->now + ms;

    while (w->next <= end) {
        w->now = w->next > w->now ? w->next : w->now;
        feed(w, (struct scheduler_event){.type = SCHEDULER_TICK});
    }
    w->now = end;
}

static void put_submit(struct buf *out, const char *id, int padding)
{
    buf_printf(out,
               "{\"jobId\":\"%s\",\"definition\":{\"steps\":[{\"name\":\"a\",\"actor\":\"hand\"}]},"
               "\"input\":{\"text\":\"%*s\"}}",
               id, padding, "x");
}

static void deliver_from(struct world *w, int source, struct bytes body, bool redelivered,
                         bool batch)
{
    const struct bus_delivery d = {.handle = ++w->handle,
                                   .source = source,
                                   .redelivered = redelivered,
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

    feed(w, (struct scheduler_event){.type = SCHEDULER_DELIVERY, .delivery = &d});
}

static void deliver(struct world *w, struct buf *body, bool redelivered, bool batch)
{
    deliver_from(w, SCHEDULER_SUBMIT, buf_bytes(body), redelivered, batch);
}

static void submit(struct world *w, const char *id, int padding, bool redelivered)
{
    CLEANUP(buf_deinit) struct buf body = {0};

    put_submit(&body, id, padding);
    deliver(w, &body, redelivered, false);
}

/* Ten Submits in one message, of LARGE bytes. */
static void put_ten(struct buf *out, const char *id)
{
    buf_puts(out, "{\"submits\":[");
    for (int i = 0; i < 10; i++) {
        char name[ID_NAME_MAX];

        snprintf(name, sizeof(name), "%s-%d", id, i);
        buf_puts(out, i ? "," : "");
        put_submit(out, name, LARGE / 10);
    }
    buf_puts(out, "]}");
}

static void submit_ten(struct world *w, const char *id, bool redelivered)
{
    CLEANUP(buf_deinit) struct buf body = {0};

    put_ten(&body, id);
    deliver(w, &body, redelivered, true);
}

/* Another scheduler has died while it had begun this message. */
static void kill_with_body(struct world *w, struct buf *body)
{
    char digest[ID_DIGEST_LEN + 1];
    struct store_answer answer;

    id_digest(buf_bytes(body), digest);
    simstore_call(w->store, STORE_EPOCH, false, id_partition(digest, 2), "suspect",
                  (struct bytes[]){bytes_str(digest), bytes_str("aa"), bytes_str("begin")}, 3,
                  &answer);
}

static void kill_with(struct world *w, const char *id, int padding)
{
    CLEANUP(buf_deinit) struct buf body = {0};

    put_submit(&body, id, padding);
    kill_with_body(w, &body);
}

/* So many redelivered messages of several Submits that the intake is full, behind as many Submits
 * that take more than a moment as are begun side by side, and one that is not small. */
static void fill(struct world *w)
{
    char id[16];

    w->deaf = true;
    for (int i = 0; i < POISON_PRESENT_MAX; i++) {
        snprintf(id, sizeof(id), "slow%d", i);
        submit(w, id, 1, true);
    }
    submit(w, "x", LARGE, true);
    for (int i = 0; i < 80; i++) {
        snprintf(id, sizeof(id), "b%d", i);
        submit_ten(w, id, true);
    }
    w->deaf = false;
}

/* The suspect goes on, although the others have taken all bytes of the intake. */
static void test_full_intake(void **state)
{
    struct world *w = *state;

    fill(w);
    pass(w, MINUTE);
    assert_int_equal(w->acks, 81); /* all but those that the store has not answered */
    assert_int_equal(w->requeues, 0);
    submit(w, "later", 1, true);
    pass(w, MINUTE);
    assert_int_equal(w->acks, 82);
}

/* The same if it is read alone: then all messages wait for it. */
static void test_full_intake_and_alone(void **state)
{
    struct world *w = *state;

    kill_with(w, "x", LARGE);
    fill(w);
    pass(w, MINUTE);
    submit(w, "later", 1, false);
    pass(w, MINUTE);
    assert_int_equal(w->acks, 82);
    assert_int_equal(w->requeues, 0);
}

/* A message of several Submits comes again while a suspect is read alone: it waits, and is read. */
static void test_several_behind_one_alone(void **state)
{
    struct world *w = *state;

    kill_with(w, "x", 1);
    w->deaf = true;
    submit(w, "x", 1, true);
    assert_true(w->scheduler->suspects.alone);
    submit_ten(w, "b", true);
    submit_ten(w, "c", false);
    assert_string_equal(w->asked, "x");
    w->deaf = false;
    pass(w, 1000);
    assert_int_equal(w->acks, 2);
    assert_int_equal(w->requeues, 0);
    assert_false(w->scheduler->suspects.alone);
}

/* The Submits of a message that has killed a scheduler are read one after the other, at once. */
static void test_several_one_by_one(void **state)
{
    struct world *w = *state;
    CLEANUP(buf_deinit) struct buf body = {0};

    put_ten(&body, "b");
    kill_with_body(w, &body);
    submit_ten(w, "b", true);
    assert_int_equal(w->acks, 1);
    assert_string_equal(w->asked, "b-9");
    /* begun, alone and back of the message; alone and end of each Submit; end of the message */
    assert_int_equal(w->suspects, 3 + 2 * 10 + 1);
}

/* What waits in the intake is not read beside a suspect that is read alone, nor before it. */
static void test_intake_beside_one_alone(void **state)
{
    struct world *w = *state;

    kill_with(w, "x", LARGE);
    submit(w, "known", 1, false); /* the store has the definition */
    w->mute = true;
    for (int i = 0; i < 5; i++) {
        char id[16];

        snprintf(id, sizeof(id), "large%d", i);
        submit(w, id, 900000, false);
    }
    w->mute = false;
    w->deaf = true;
    submit(w, "x", LARGE, true);
    assert_true(w->scheduler->suspects.alone);
    assert_int_equal(w->n_submits, 4);          /* the fifth waits */
    for (size_t i = 0; i < w->n_submits; i++) { /* the store has no room for them */
        struct bytes full = bytes_str("OOM command not allowed");
        const struct store_answer answer = {.result = STORE_OOM, .items = &full, .n = 1};

        feed(w, (struct scheduler_event){
                    .type = SCHEDULER_ANSWER, .id = w->submits[i], .answer = &answer});
    }
    assert_string_equal(w->asked, "x");
    w->deaf = false;
    pass(w, 1000); /* it was survived */
    assert_string_equal(w->asked, "large4");
}

/* Suspects that are not small are begun side by side only as far as their bytes allow. */
static void test_large_suspects(void **state)
{
    struct world *w = *state;
    const size_t *read_bytes = &w->scheduler->intake.queues[SCHEDULER_SUBMIT].read_bytes;

    w->deaf = true;
    for (int i = 0; i < POISON_PRESENT_MAX; i++) {
        char id[16];

        snprintf(id, sizeof(id), "large%d", i);
        submit(w, id, 1000000, true);
    }
    assert_in_range(*read_bytes, 4 * 1000000, INTAKE_READ_BYTES);
    pass(w, POISON_SUSPECT_MS); /* all are survived: one may always be read */
    assert_in_range(*read_bytes, 5 * 1000000, 6 * 1000000);
}

/* What waits in the intake was not read when the broker is lost: it is a suspect, again. */
static void test_unread_when_the_broker_is_lost(void **state)
{
    struct world *w = *state;

    w->deaf = true;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 5; i++) {
            char id[16];

            snprintf(id, sizeof(id), "large%d", i);
            submit(w, id, 1000000, round > 0);
        }
        assert_int_equal(w->suspects, round); /* the fifth waited */
        feed(w, (struct scheduler_event){.type = SCHEDULER_BUS_DOWN});
    }
}

/* Only Submits come several in a message: a type of that name changes nothing for others. */
static void test_type_of_another_message(void **state)
{
    struct world *w = *state;

    deliver_from(w, SCHEDULER_CONTROL, bytes_str("{\"jobId\": \"j\", \"query\": {}}"), true, true);
    assert_int_equal(w->suspects, 2); /* begun, and handled */
    assert_int_equal(w->acks, 1);
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    struct nonces nonces;
    struct rng rng;

    if (!w)
        return -1;
    w->store = simstore_new(SIM_DROVER_LUA);
    simstore_reset(w->store, 0);
    rng_seed(&rng, 7);
    nonces_seed(&nonces, 7);
    assert_int_equal(
        scheduler_new(&w->scheduler,
                      &(struct scheduler_config){.name = "s",
                                                 .most_unconfirmed = SCHEDULER_UNCONFIRMED,
                                                 .nonces = &nonces,
                                                 .declared_actors = UINT_MAX},
                      &rng),
        0);
    feed(w, (struct scheduler_event){.type = SCHEDULER_STORE_UP, .partitions = 2, .run = "run"});
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    scheduler_free(w->scheduler);
    simstore_free(w->store);
    free(w);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_full_intake),
        TEST(test_full_intake_and_alone),
        TEST(test_several_behind_one_alone),
        TEST(test_several_one_by_one),
        TEST(test_intake_beside_one_alone),
        TEST(test_large_suspects),
        TEST(test_unread_when_the_broker_is_lost),
        TEST(test_type_of_another_message),
    };

    log_set_level((enum log_level)(LOG_ERROR + 1));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
