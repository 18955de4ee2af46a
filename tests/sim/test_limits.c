// SPDX-License-Identifier: Apache-2.0
/*
 * Limits: how much of a scheduler and of the store an untrusted user or agent can take
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alone.h"
#include "scheduler/access.h"
#include "scheduler/state.h"

#define SUBMIT(id)                                                                                 \
    "{\"jobId\": \"" id "\", \"definition\": {\"steps\": [{\"name\": \"a\", \"actor\": "           \
    "\"hand\"}]}}"
#define DONE "\"achieved\": \"STATE_ACTIVE\""

/* ---- large messages ---- */

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

/* A message with more replies than allowed: the first ones count. */
static void test_too_many_replies(void **state)
{
    struct alone *w = *state;
    CLEANUP(buf_deinit) struct buf json = {0};

    alone_submit(w, SUBMIT("j"));
    w->story.len = 0;
    buf_printf(&json,
               "{\"replies\": [{\"jobId\": \"j\", \"step\": \"a\", \"token\": \"%s\", " DONE "}",
               w->token);
    for (int i = 0; i < WIRE_REPLIES_MAX; i++)
        buf_puts(&json, ", {}");
    buf_puts(&json, "], \"progress\": [{}]}");
    alone_replies(w, buf_str(&json));
    assert_non_null(strstr(buf_str(&w->story),
                           "dead INVALID replies has more than 1000: the rest was "
                           "not looked at"));
    assert_non_null(strstr(buf_str(&w->story), "OUTCOME_SUCCEEDED"));
    w->story.len = 0;
}

/* ---- a store that is nearly full ---- */

static void fill(struct alone *w, uint64_t used, uint64_t most)
{
    alone_step(w, (struct scheduler_event){.type = SCHEDULER_MEMORY,
                                           .memory = {.used = used, .most = most}});
}

/* The scheduler takes no new job before the memory for jobs in progress runs out. A Submit without
 * a reply_to waits, unless it is large. */
static void test_nearly_full(void **state)
{
    struct alone *w = *state;
    struct scheduler_stats stats;

    fill(w, 89, 100);
    alone_submit(w, SUBMIT("i"));
    alone_expect(w, "reply {\"jobId\":\"i\",\"code\":\"RECEIPT_CODE_CREATED\",\"steps\":1,"
                    "\"recordedAt\":\"1700000000000\"}, request a, ack");
    fill(w, 90, 100);
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
    fill(w, 90, 0); /* maxmemory was removed */
    alone_pass(w, 1000);
    alone_expect(w, "request a, ack");
    assert_true(scheduler_idle(w->scheduler));
}

/* ---- allowances of users ---- */

static struct access_submitter groups[] = {
    {.user = (char *)"ann",
     .workflows = (char *[]){NULL},
     .replies = (char *)"me",
     .limits = {.rate = 10, .jobs = 3}},
    {.user = (char *)ACCESS_OTHERS, .workflows = (char *[]){NULL}, .limits = {.rate = 1}},
};
static struct access owners = {.required = true,
                               .operators = (char *)"op",
                               .supervisors = (char *)"sup",
                               .submitters = groups,
                               .n_submitters = array_size(groups)};

static void with_owners(struct alone *w)
{
    w->access = &owners;
    alone_restart(w);
}

static void say_as(struct alone *w, const char *user, int source, const char *reply_to,
                   const char *json)
{
    alone_deliver(
        w, (struct bus_delivery){
               .source = source, .user_id = user, .reply_to = reply_to, .body = bytes_str(json)});
}

#define LIST "{\"commandId\": \"c\", \"listJobs\": {}}"

static bool lists(struct alone *w, const char *user)
{
    bool done;

    say_as(w, user, SCHEDULER_CONTROL, strcmp(user, "ann") == 0 ? "me" : "amq.gen-1", LIST);
    done = strstr(buf_str(&w->story), "ANSWER_CODE_DONE") != NULL;
    assert_true(done || strstr(buf_str(&w->story), "ANSWER_CODE_RETRY_LATER"));
    w->story.len = 0;
    return done;
}

/* A rate per second, with an allowance of two seconds; operators have none. A list costs one unit
 * for its message, and one for each of the store's two partitions. */
static void test_rate(void **state)
{
    struct alone *w = *state;
    int done = 0;

    with_owners(w);
    while (done < 100 && lists(w, "ann"))
        done++;
    assert_in_range(done, 7, 8); /* 20 units, and those gained meanwhile */
    for (int i = 0; i < 50; i++)
        assert_true(lists(w, "op"));
    alone_pass(w, 500);
    assert_true(lists(w, "ann"));
    assert_true(lists(w, "ann"));
    assert_false(lists(w, "ann"));
    alone_pass(w, 60000);
    for (done = 0; done < 100 && lists(w, "ann");)
        done++;
    assert_in_range(done, 7, 8);
}

/* A redelivered message may have been carried out, and has a further allowance. */
static void test_rate_of_redelivered_messages(void **state)
{
    struct alone *w = *state;
    int done = 0;

    with_owners(w);
    while (done < 100 && lists(w, "ann"))
        done++;
    for (done = 0; done < 100; done++) {
        alone_deliver(w, (struct bus_delivery){.source = SCHEDULER_CONTROL,
                                               .redelivered = true,
                                               .user_id = "ann",
                                               .reply_to = "me",
                                               .body = bytes_str(LIST)});
        if (strstr(buf_str(&w->story), "ANSWER_CODE_RETRY_LATER"))
            break;
        assert_non_null(strstr(buf_str(&w->story), "ANSWER_CODE_DONE"));
        w->story.len = 0;
    }
    assert_in_range(done, 4, 8);
    w->story.len = 0;
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
    };
    struct alone *w = *state;

    with_owners(w);
    say_as(w, "ann", SCHEDULER_SUBMIT, "me", SUBMIT("j"));
    assert_non_null(strstr(buf_str(&w->story), "RECEIPT_CODE_CREATED"));
    fill(w, 90, 100);
    for (size_t i = 0; i < array_size(commands); i++) {
        w->story.len = 0;
        say_as(w, commands[i].user, SCHEDULER_CONTROL, commands[i].reply_to, commands[i].json);
        assert_non_null(strstr(buf_str(&w->story), commands[i].code));
    }
    w->story.len = 0;
}

/* Without a reply_to the message becomes a dead letter; a large message is not even decoded. */
static void test_rate_without_a_reply_to(void **state)
{
    static char text[INTAKE_LARGE_BYTES + 2];
    struct alone *w = *state;

    with_owners(w);
    for (int i = 0; i < 100 && lists(w, "ann"); i++)
        ;
    say_as(w, "ann", SCHEDULER_SUBMIT, NULL, SUBMIT("j"));
    alone_expect(w, "dead LIMIT user_id ann has taken as much as it may (security.submitters): "
                    "repeat it later, ack, alert DEAD_LETTER");
    memset(text, ' ', sizeof(text) - 1);
    memcpy(text, "{\"jobId\": \"k\",", 14);
    memcpy(text + sizeof(text) - 17, "\"workflow\": \"w\"}", 17);
    say_as(w, "ann", SCHEDULER_SUBMIT, "me", text);
    alone_expect(
        w, "reply {\"code\":\"RECEIPT_CODE_RETRY_LATER\",\"field\":\"user_id\",\"reason\":"
           "\"ann has taken as much as it may (security.submitters): repeat it later\"}, ack");
    for (int i = 0; i < 5; i++)
        say_as(w, "sup", SCHEDULER_CONTROL, NULL, "{\"jobId\": \"j\", \"recover\": {}}");
    alone_expect(w, "ack, ack, ack, ack, ack");
}

/* There are two partitions: a limit of three is two in each. */
static void test_job_limit(void **state)
{
    struct alone *w = *state;
    unsigned created = 0, later = 0;
    char json[300];

    with_owners(w);
    for (int i = 0; i < 12; i++) {
        snprintf(json, sizeof(json),
                 "{\"jobId\": \"j%d\", \"definition\": {\"steps\": [{\"name\": \"a\", \"actor\": "
                 "\"hand\"}]}}",
                 i);
        alone_pass(w, 1000);
        say_as(w, "ann", SCHEDULER_SUBMIT, "me", json);
        created += strstr(buf_str(&w->story), "CODE_CREATED") != NULL;
        later +=
            strstr(buf_str(&w->story), "ann has as many jobs in the store, or takes as many bytes "
                                       "of it, as it may") != NULL;
        w->story.len = 0;
    }
    assert_int_equal(created, 4);
    assert_int_equal(later, 8);
}

/* Submits "j<n>", with a step "s<n>" that has large arguments. */
static void submit_defined(struct alone *w, const char *user, const char *reply_to, unsigned n)
{
    CLEANUP(buf_deinit) struct buf json = {0};

    buf_printf(&json,
               "{\"jobId\": \"j%u\", \"definition\": {\"steps\": [{\"name\": \"s%u\", \"actor\": "
               "\"hand\", \"arguments\": {\"text\": \"",
               n, n);
    memset(buf_reserve(&json, 40000), 'x', 40000);
    json.len += 40000;
    buf_puts(&json, "\"}}]}}");
    say_as(w, user, SCHEDULER_SUBMIT, reply_to, buf_str(&json));
}

/* Definitions in Submits are stored even without jobs: a user may store as many bytes of them in an
 * hour as its jobs may take. A known definition costs nothing. */
static void test_definition_limit(void **state)
{
    struct alone *w = *state;
    unsigned created = 0, n = 0;

    groups[0].limits = (struct access_limits){.bytes = 4 << 20};
    with_owners(w);
    for (; n < 200; n++) {
        submit_defined(w, "ann", "me", n);
        if (strstr(buf_str(&w->story), "RETRY_LATER"))
            break;
        created += strstr(buf_str(&w->story), "CODE_CREATED") != NULL;
        w->story.len = 0;
    }
    assert_int_equal(created, n);
    assert_in_range(n, 80, 105); /* and those gained meanwhile */
    assert_non_null(strstr(buf_str(&w->story), "ann has brought as many bytes of definitions as it "
                                               "may in an hour"));
    w->story.len = 0;
    submit_defined(w, "ann", "me", n - 1);
    assert_non_null(strstr(buf_str(&w->story), "RECEIPT_CODE_ALREADY"));
    w->story.len = 0;
    for (unsigned all = 3 * n; n < all; n++) { /* operators have no such limit */
        submit_defined(w, "op", "amq.gen-1", n);
        assert_non_null(strstr(buf_str(&w->story), "RECEIPT_CODE_CREATED"));
        w->story.len = 0;
    }
    alone_pass(w, 60000);
    submit_defined(w, "ann", "me", n + 1);
    assert_non_null(strstr(buf_str(&w->story), "RECEIPT_CODE_CREATED"));
    w->story.len = 0;
    groups[0].limits = (struct access_limits){.rate = 10, .jobs = 3};
}

/* ---- agents ---- */

static void made_up(struct alone *w, const char *actor, unsigned n)
{
    CLEANUP(buf_deinit) struct buf json = {0};

    buf_puts(&json, "{\"replies\": [");
    for (unsigned i = 0; i < n; i++)
        buf_printf(&json, "%s{\"jobId\": \"j\", \"step\": \"a\", \"token\": \"0.%u\", " DONE "}",
                   i > 0 ? "," : "", i);
    buf_puts(&json, "]}");
    alone_deliver(w, (struct bus_delivery){
                         .source = SCHEDULER_REPLIES, .actor = actor, .body = buf_bytes(&json)});
}

/* Replies of an actor whose agents invent tokens are ignored for a while; those of other actors,
 * and valid ones, are not. */
static void test_bad_replies(void **state)
{
    struct alone *w = *state;
    struct scheduler_stats stats;
    char json[300];

    made_up(w, "hand", 200);
    made_up(w, "hand", 200);
    made_up(w, "hand", 100); /* some allowance was gained */
    scheduler_stats(w->scheduler, &stats);
    assert_int_equal(stats.ignored, 0);
    made_up(w, "hand", 100);
    scheduler_stats(w->scheduler, &stats);
    assert_int_equal(stats.ignored, 1);
    assert_non_null(strstr(buf_str(&w->story), "alert REPLIES_IGNORED"));
    w->story.len = 0;
    made_up(w, "other", 1);
    made_up(w, "", 1000);
    made_up(w, "hand", 1);
    scheduler_stats(w->scheduler, &stats);
    assert_int_equal(stats.ignored, 2);
    assert_null(strstr(buf_str(&w->story), "alert"));
    alone_pass(w, 11000); /* an allowance for ten more invalid ones */
    for (int i = 0; i < 30; i++) {
        snprintf(json, sizeof(json),
                 "{\"jobId\": \"j%d\", \"definition\": {\"steps\": [{\"name\": \"a\", \"actor\": "
                 "\"hand\"}]}}",
                 i);
        alone_submit(w, json);
        snprintf(json, sizeof(json),
                 "{\"replies\": [{\"jobId\": \"j%d\", \"step\": \"a\", \"token\": \"%s\", " DONE
                 "}]}",
                 i, w->token);
        w->story.len = 0;
        alone_deliver(w, (struct bus_delivery){.source = SCHEDULER_REPLIES,
                                               .actor = "hand",
                                               .body = bytes_str(json)});
        assert_non_null(strstr(buf_str(&w->story), "OUTCOME_SUCCEEDED"));
    }
    w->story.len = 0;
}

/* Progress for one token: the step is in flight, but each message costs a store call. Beyond the
 * allowance Progress is ignored, and is charged as replies are. */
static void test_progress_costs(void **state)
{
    struct alone *w = *state;
    struct scheduler_stats stats;
    char json[300];
    int n = 0;

    alone_submit(w, SUBMIT("j"));
    snprintf(json, sizeof(json),
             "{\"progress\": [{\"jobId\": \"j\", \"step\": \"a\", \"token\": \"%s\"}]}", w->token);
    do {
        alone_deliver(w, (struct bus_delivery){.source = SCHEDULER_REPLIES,
                                               .actor = "hand",
                                               .reply_to = "me",
                                               .body = bytes_str(json)});
        scheduler_stats(w->scheduler, &stats);
        w->story.len = 0;
    } while (stats.progress_ignored == 0 && ++n < 1000);
    assert_in_range(n, 400, 450);
    alone_serve(w, "j", "a", DONE);
    assert_non_null(strstr(buf_str(&w->story), "OUTCOME_SUCCEEDED"));
    for (n = 0; stats.ignored == 0 && n < 10000; n++) {
        alone_deliver(w, (struct bus_delivery){.source = SCHEDULER_REPLIES,
                                               .actor = "hand",
                                               .body = bytes_str(json)});
        scheduler_stats(w->scheduler, &stats);
    }
    assert_in_range(n, 300, 900);
    w->story.len = 0;
}

/* A setting for when all agents reply by the exchange of their actor. Until then agents that use
 * the shared exchange have one allowance if owners are required. */
static void test_replies_by_the_shared_exchange(void **state)
{
    struct alone *w = *state;
    struct scheduler_stats stats;

    with_owners(w);
    for (int i = 0; i < 4; i++)
        made_up(w, "", 200);
    scheduler_stats(w->scheduler, &stats);
    assert_int_equal(stats.ignored, 1);
    w->story.len = 0;
    owners.by_actor = true;
    alone_restart(w);
    made_up(w, "", 1);
    owners.by_actor = false;
    assert_non_null(strstr(buf_str(&w->story), "DENIED"));
    w->story.len = 0;
}

/* The alert for one actor does not suppress the one for another. */
static void test_alert_for_each_actor(void **state)
{
    struct alone *w = *state;

    for (const char *const *actor = (const char *const[]){"hand", "other", NULL}; *actor; actor++) {
        for (int i = 0; i < 4; i++)
            made_up(w, *actor, 200);
        assert_non_null(strstr(buf_str(&w->story), "alert REPLIES_IGNORED"));
        w->story.len = 0;
    }
    made_up(w, "hand", 1);
    assert_null(strstr(buf_str(&w->story), "alert"));
    w->story.len = 0;
}

/* A user who may read an exchange of Drover could bind it to that of its actor. */
static void test_replies_by_another_exchange(void **state)
{
    struct alone *w = *state;
    char json[300];

    alone_submit(w, SUBMIT("j"));
    snprintf(json, sizeof(json),
             "{\"replies\": [{\"jobId\": \"j\", \"step\": \"a\", \"token\": \"%s\", " DONE "}]}",
             w->token);
    w->story.len = 0;
    alone_deliver(w, (struct bus_delivery){.source = SCHEDULER_REPLIES,
                                           .actor = wire_reply_by("drover.pulse"),
                                           .body = bytes_str(json)});
    assert_non_null(strstr(buf_str(&w->story), "DENIED"));
    assert_null(strstr(buf_str(&w->story), "OUTCOME_SUCCEEDED"));
    assert_string_equal(wire_reply_by("drover.replies"), "");
    alone_deliver(w, (struct bus_delivery){.source = SCHEDULER_REPLIES,
                                           .actor = wire_reply_by("drover.reply.hand"),
                                           .body = bytes_str(json)});
    assert_non_null(strstr(buf_str(&w->story), "OUTCOME_SUCCEEDED"));
    w->story.len = 0;
}

/* Of several Progress for one token in a message only the last counts: each would cost a store
 * call. */
static void test_progress_of_one_token(void **state)
{
    struct alone *w = *state;
    CLEANUP(buf_deinit) struct buf json = {0};
    CLEANUP(wire_free) struct wire_message answer = {0};

    alone_submit(w, SUBMIT("j"));
    buf_puts(&json, "{\"progress\": [");
    for (int i = 1; i <= 4; i++)
        buf_printf(&json,
                   "%s{\"jobId\": \"j\", \"step\": \"a\", \"token\": \"%s\", \"fraction\": 0.%d}",
                   i > 1 ? "," : "", w->token, i);
    buf_puts(&json, "]}");
    w->story.len = 0;
    alone_deliver(w, (struct bus_delivery){
                         .source = SCHEDULER_REPLIES, .reply_to = "me", .body = buf_bytes(&json)});
    assert_non_null(strstr(buf_str(&w->story), "reply "));
    assert_ptr_equal(strstr(buf_str(&w->story), "reply "),
                     strstr(buf_str(&w->story), "reply {\"answers"));
    assert_null(strstr(strstr(buf_str(&w->story), "reply ") + 1, "reply "));
    w->story.len = 0;
    alone_ask(w, "{\"jobId\": \"j\", \"query\": {}}", &answer);
    assert_true(answer.answer->status->steps[0]->fraction > 0.39);
    w->story.len = 0;
}

/* A query with data is charged before its answer: few of these answers are made at a time. */
static void test_questions_with_data(void **state)
{
    struct alone *w = *state;
    unsigned refused = 0;

    groups[0].limits.rate = 1000;
    with_owners(w);
    say_as(w, "ann", SCHEDULER_SUBMIT, "me", SUBMIT("j"));
    w->instead = (struct alone_answer){"inspect", STORE_UNKNOWN, ""};
    w->times = 100; /* no call is answered yet */
    for (int i = 0; i < 10; i++) {
        w->story.len = 0;
        say_as(w, "ann", SCHEDULER_CONTROL, "me",
               "{\"jobId\": \"j\", \"commandId\": \"c\", \"query\": {\"withData\": true}}");
        refused += strstr(buf_str(&w->story), "RETRY_LATER") != NULL;
    }
    assert_in_range(refused, 5, 6); /* four or five times 500 of the allowance of two seconds */
    w->times = 0;
    w->story.len = 0;
    alone_pass(w, 3000);
    for (int i = 0; i < 10; i++) {
        w->story.len = 0;
        say_as(w, "ann", SCHEDULER_CONTROL, "me",
               "{\"jobId\": \"j\", \"commandId\": \"c\", \"query\": {\"withData\": true}}");
        assert_non_null(strstr(buf_str(&w->story), "ANSWER_CODE_DONE"));
    }
    w->story.len = 0;
    groups[0].limits.rate = 10;
}

/* ---- queues ---- */

/* A scheduler declares the queues of some actors that only jobs name, and of all that its workflows
 * name. */
static void test_declared_actors(void **state)
{
    struct alone *w = *state;
    struct scheduler_stats stats;

    alone_submit(w, "{\"jobId\": \"j\", \"definition\": {\"steps\": ["
                    "{\"name\": \"a\", \"actor\": \"a\"}, {\"name\": \"b\", \"actor\": \"b\"}, "
                    "{\"name\": \"c\", \"actor\": \"c\"}, {\"name\": \"d\", \"actor\": \"a\"}]}}");
    w->story.len = 0;
    assert_int_equal(w->declared, 3);
    scheduler_stats(w->scheduler, &stats);
    assert_int_equal(stats.undeclared, 1);
}

static void test_declared_actors_of_workflows(void **state)
{
    struct alone *w = *state;
    CLEANUP(workflow_unref) struct workflow *registered = NULL;
    CLEANUP(wire_free) struct wire_message m = {0};

    assert_int_equal(
        wire_decode(
            WIRE_SUBMIT,
            bytes_str("{\"jobId\": \"x\", \"definition\": {\"name\": \"w\", \"version\": 1, "
                      "\"steps\": [{\"name\": \"a\", \"actor\": \"a\", \"revert\": {\"actor\": "
                      "\"b\"}}, {\"name\": \"c\", \"actor\": \"c\"}]}}"),
            NULL, &m, NULL),
        0);
    assert_int_equal(workflow_new(&registered, m.submit->definition, "", NULL), 0);
    assert_int_equal(scheduler_register(w->scheduler, registered), 0);
    alone_submit(w, "{\"jobId\": \"j\", \"definition\": {\"steps\": ["
                    "{\"name\": \"a\", \"actor\": \"a\"}, {\"name\": \"b\", \"actor\": \"b\"}, "
                    "{\"name\": \"c\", \"actor\": \"c\"}, {\"name\": \"d\", \"actor\": \"d\"}]}}");
    w->story.len = 0;
    assert_int_equal(w->declared, 4);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, alone_setup, alone_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_large_messages_wait),
        TEST(test_large_messages_go_back),
        TEST(test_store_full),
        TEST(test_too_many_replies),
        TEST(test_nearly_full),
        TEST(test_rate),
        TEST(test_rate_of_redelivered_messages),
        TEST(test_commands_when_nearly_full),
        TEST(test_rate_without_a_reply_to),
        TEST(test_job_limit),
        TEST(test_definition_limit),
        TEST(test_bad_replies),
        TEST(test_progress_costs),
        TEST(test_alert_for_each_actor),
        TEST(test_replies_by_another_exchange),
        TEST(test_replies_by_the_shared_exchange),
        TEST(test_progress_of_one_token),
        TEST(test_questions_with_data),
        TEST(test_declared_actors),
        TEST(test_declared_actors_of_workflows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
