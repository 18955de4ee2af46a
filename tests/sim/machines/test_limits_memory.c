// SPDX-License-Identifier: Apache-2.0
/*
 * Limits: large messages, and a store that is full or nearly full
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "machines/limited.h"
#include "scheduler/state.h"

static char large[INTAKE_READ_BYTES / 2 - 1000]; /* two are read at a time */

static void deliver_large(struct alone *w, int source)
{
    memset(large, '{', sizeof(large));
    alone_deliver(w, (struct bus_delivery){.source = source,
                                           .reply_to = "me",
                                           .body = bytes_of(large, sizeof(large))});
}

#define REFUSED_SUBMIT                                                                             \
    "reply {\"code\":\"RECEIPT_CODE_REJECTED\",\"reason\":\"has far more parts than content\"}"
#define REFUSED_CONTROL                                                                            \
    "reply {\"code\":\"ANSWER_CODE_INVALID\",\"reason\":\"has far more parts than content\"}"

/* Only some large messages of each queue are read at a time; small ones do not wait for them. */
static void test_large_messages_wait(void **state)
{
    struct alone *w = *state;
    struct scheduler_stats stats;

    w->silent = true;
    for (int i = 0; i < 4; i++)
        deliver_large(w, SCHEDULER_SUBMIT);
    alone_expect(w, REFUSED_SUBMIT ", " REFUSED_SUBMIT);
    scheduler_stats(w->scheduler, &stats);
    assert_int_equal(stats.unread_bytes, 2 * sizeof(large));
    alone_submit(w, SUBMIT("j"));
    alone_expect(w, "reply {\"jobId\":\"j\",\"code\":\"RECEIPT_CODE_CREATED\",\"steps\":1,"
                    "\"recordedAt\":\"1700000000008\"}, request a");
    deliver_large(w, SCHEDULER_CONTROL);
    alone_expect(w, REFUSED_CONTROL);
    alone_confirm(w);
    alone_expect(w, "ack, " REFUSED_SUBMIT ", ack, " REFUSED_SUBMIT ", ack, ack");
    scheduler_stats(w->scheduler, &stats);
    assert_int_equal(stats.unread_bytes, 0);
    alone_confirm(w);
    alone_expect(w, "ack, ack");
    assert_true(scheduler_idle(w->scheduler));
}

/* Messages without room are given back, and the scheduler consumes no more until half have been
 * read. */
static void test_large_messages_go_back(void **state)
{
    enum {
        WAITING = INTAKE_UNREAD_BYTES / sizeof(large)
    };
    struct alone *w = *state;
    size_t waiting;
    struct scheduler_stats stats;

    w->silent = true;
    for (unsigned i = 0; i < 2 + WAITING; i++)
        deliver_large(w, SCHEDULER_SUBMIT);
    w->story.len = 0;
    deliver_large(w, SCHEDULER_SUBMIT);
    alone_expect(w, "given back, pause");
    deliver_large(w, SCHEDULER_REPLIES);
    alone_expect(w, "given back");
    alone_submit(w, SUBMIT("j")); /* the broker had sent it before */
    alone_expect(w, "reply {\"jobId\":\"j\",\"code\":\"RECEIPT_CODE_CREATED\",\"steps\":1,"
                    "\"recordedAt\":\"1700000000040\"}, request a");
    scheduler_stats(w->scheduler, &stats);
    assert_int_equal(stats.given_back, 2);
    for (int twos = WAITING / 4; twos > 0; twos--) { /* half of them */
        assert_null(strstr(buf_str(&w->story), "consume"));
        w->story.len = 0;
        alone_confirm(w);
    }
    assert_non_null(strstr(buf_str(&w->story), "consume"));
    w->story.len = 0;
    deliver_large(w, SCHEDULER_SUBMIT);
    assert_null(strstr(buf_str(&w->story), "given back"));
    deliver_large(w, SCHEDULER_SUBMIT);
    deliver_large(w, SCHEDULER_SUBMIT);
    deliver_large(w, SCHEDULER_SUBMIT);
    scheduler_stats(w->scheduler, &stats);
    waiting = stats.unread_bytes / sizeof(large);
    assert_true(waiting >= 2);
    w->story.len = 0;
    /* perhaps only the publishing connection is lost: waiting messages are given back */
    alone_step(w, (struct scheduler_event){.type = SCHEDULER_BUS_DOWN});
    for (const char *at = buf_str(&w->story); (at = strstr(at, "given back")); at++)
        waiting--;
    assert_int_equal(waiting, 0);
    w->story.len = 0;
    scheduler_stats(w->scheduler, &stats);
    assert_int_equal(stats.unread_bytes, 0);
}

/* While the store is full no large Submit is kept: it would block the reading of others. */
static void test_store_full(void **state)
{
    struct alone *w = *state;
    CLEANUP(buf_deinit) struct buf json = {0};

    w->instead = (struct alone_answer){"submit", STORE_OOM, "OOM"};
    w->times = 1;
    buf_puts(&json, "{\"jobId\": \"k\", \"workflow\": \"w\", \"input\": {\"text\": \"");
    memset(buf_reserve(&json, INTAKE_LARGE_BYTES), 'x', INTAKE_LARGE_BYTES);
    json.len += INTAKE_LARGE_BYTES;
    buf_puts(&json, "\"}}");
    alone_deliver(w, (struct bus_delivery){.body = buf_bytes(&json)});
    alone_expect(w, "dead STORE_FULL, ack, alert DEAD_LETTER");
    w->times = 1;
    alone_deliver(w, (struct bus_delivery){.body = bytes_str(SUBMIT("j"))});
    alone_expect(w, "");
    alone_pass(w, 1000);
    alone_expect(w, "request a, ack");
}

/* The scheduler takes no new job before the memory for jobs in progress runs out. A Submit without
 * a reply_to waits, unless it is large. */
static void test_nearly_full(void **state)
{
    struct alone *w = *state;
    struct scheduler_stats stats;

    fill_store(w, 89, 100);
    alone_submit(w, SUBMIT("i"));
    alone_expect(w, "reply {\"jobId\":\"i\",\"code\":\"RECEIPT_CODE_CREATED\",\"steps\":1,"
                    "\"recordedAt\":\"1700000000000\"}, request a, ack");
    fill_store(w, 90, 100);
    alone_submit(w, SUBMIT("j"));
    alone_expect(w, "reply {\"jobId\":\"j\",\"code\":\"RECEIPT_CODE_RETRY_LATER\",\"reason\":\"the "
                    "store is out of memory and takes no new work now\"}, ack");
    alone_serve(w, "i", "a", DONE);
    assert_non_null(strstr(buf_str(&w->story), "OUTCOME_SUCCEEDED"));
    w->story.len = 0;
    alone_deliver(w, (struct bus_delivery){.body = bytes_str(SUBMIT("k"))});
    alone_pass(w, 5000);
    alone_expect(w, "");
    scheduler_stats(w->scheduler, &stats);
    assert_int_equal(stats.store_full, 1);
    assert_int_equal(stats.retry_later, 1);
    fill_store(w, 90, 0); /* maxmemory was removed */
    alone_pass(w, 1000);
    alone_expect(w, "request a, ack");
    assert_true(scheduler_idle(w->scheduler));
}

/* The store keeps commands, so those of users are refused as well. */
static void test_commands_when_nearly_full(void **state)
{
    static const struct {
        const char *user, *reply_to, *json;
        const char *code;
    } commands[] = {
        {"ann", "me", "{\"jobId\": \"j\", \"commandId\": \"1\", \"pause\": {}}", "RETRY_LATER"},
        {"op", "amq.gen-1", "{\"jobId\": \"j\", \"commandId\": \"2\", \"pause\": {}}", "DONE"},
        {"ann", "me", "{\"jobId\": \"j\", \"commandId\": \"3\", \"resume\": {}}", "RETRY_LATER"},
        {"ann", "me", "{\"jobId\": \"j\", \"commandId\": \"4\", \"cancel\": {}}", "DONE"},
        {"ann", "me", "{\"jobId\": \"j\", \"commandId\": \"5\", \"kill\": {}}", "DONE"},
    };
    struct alone *w = *state;

    with_owners(w);
    say_as(w, "ann", SCHEDULER_SUBMIT, "me", SUBMIT("j"));
    assert_non_null(strstr(buf_str(&w->story), "RECEIPT_CODE_CREATED"));
    fill_store(w, 90, 100);
    for (size_t i = 0; i < array_size(commands); i++) {
        w->story.len = 0;
        say_as(w, commands[i].user, SCHEDULER_CONTROL, commands[i].reply_to, commands[i].json);
        assert_non_null(strstr(buf_str(&w->story), commands[i].code));
    }
    w->story.len = 0;
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, alone_setup, alone_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_large_messages_wait), TEST(test_large_messages_go_back),    TEST(test_store_full),
        TEST(test_nearly_full),         TEST(test_commands_when_nearly_full),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
