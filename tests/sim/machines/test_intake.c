// SPDX-License-Identifier: Apache-2.0
/*
 * Intake: invalid messages, a broker that refuses messages, and a store with unexpected answers
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "machines/alone.h"
#include "model/json.h"
#include "scheduler/state.h"

#define SUBMIT(id)                                                                                 \
    "{\"jobId\": \"" id "\", \"definition\": {\"steps\": [{\"name\": \"a\", \"actor\": \"hand\", " \
    "\"action\": \"work\", \"retry\": {\"onPermanent\": \"RECOURSE_PARK\"}}]}}"
#define DONE "\"achieved\": \"STATE_ACTIVE\""

/* How long a call that fails is repeated. */
#define ROUND ((int64_t)OP_REFUSALS_MAX * OP_REPEAT_MS)

/* The rest of the answer DRIVEN about a job without changes. */
#define NO_NEWS "  1700000000000+1+0+0+0+0+1+0+0+0"

/* Submits a job of one step, and clears its Receipt and request from the story. */
static void submitted(struct alone *w)
{
    alone_submit(w, SUBMIT("j"));
    w->story.len = 0;
}

static void query(struct alone *w, struct wire_message *answer)
{
    alone_ask(w, "{\"jobId\": \"j\", \"query\": {\"withData\": true}}", answer);
    assert_int_equal(answer->answer->code, DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE);
    w->story.len = 0;
}

static void connect(struct alone *w, const char *run)
{
    alone_step(w,
               (struct scheduler_event){.type = SCHEDULER_STORE_UP, .partitions = 2, .run = run});
}

/* ---- messages ---- */

/* A sender with a reply_to is told; without one the message becomes a dead letter. */
static void test_oversize(void **state)
{
    struct alone *w = *state;
    struct bus_delivery d = {.oversize = true, .body = bytes_str("{"), .reply_to = "me"};

    alone_deliver(w, d);
    alone_expect(w, "reply {\"code\":\"RECEIPT_CODE_REJECTED\",\"reason\":\"TOO_LARGE\"}, ack");
    d.source = SCHEDULER_CONTROL;
    d.message_id = "c1";
    alone_deliver(w, d);
    alone_expect(w, "reply {\"commandId\":\"c1\",\"code\":\"ANSWER_CODE_INVALID\","
                    "\"reason\":\"TOO_LARGE\"}, ack");
    d.message_id = "\xff"; /* not UTF-8: it is not returned */
    alone_deliver(w, d);
    alone_expect(w, "reply {\"code\":\"ANSWER_CODE_INVALID\",\"reason\":\"TOO_LARGE\"}, ack");
    d.reply_to = NULL;
    alone_deliver(w, d);
    alone_expect(w, "dead TOO_LARGE , ack, alert DEAD_LETTER");
    d.source = SCHEDULER_REPLIES;
    d.reply_to = "me";
    alone_deliver(w, d);
    alone_expect(w, "dead TOO_LARGE , ack");
}

static void test_not_decodable(void **state)
{
    struct alone *w = *state;

    alone_submit(w, "{\"jobId\": \"j\", \"steps\": 1}");
    alone_expect(w, "reply {\"jobId\":\"j\",\"code\":\"RECEIPT_CODE_REJECTED\","
                    "\"reason\":\"has no field \\\"steps\\\"\"}, ack");
    alone_deliver(w, (struct bus_delivery){.body = bytes_str("\x08")});
    alone_expect(w, "dead MALFORMED is no protobuf of drover.v1.Submit, ack, alert DEAD_LETTER");
    alone_deliver(w, (struct bus_delivery){.source = SCHEDULER_EXPIRED, .reply_to = "me"});
    alone_expect(w, "dead INVALID requests must be given, ack, alert DEAD_LETTER");
}

/* A rejection returns the ids of the message if they are valid texts. */
static void test_invalid(void **state)
{
    struct alone *w = *state;
    char json[600], longest[ID_NAME_MAX + 2] = "";

    alone_submit(w, "{\"jobId\": \"j 1\", \"workflow\": \"w\"}");
    alone_expect(w, "reply {\"jobId\":\"j 1\",\"code\":\"RECEIPT_CODE_REJECTED\","
                    "\"field\":\"job_id\",\"reason\":\"must be 1 to 128 characters of "
                    "A-Z a-z 0-9 . _ -\"}, ack");
    alone_control(w, "{\"jobId\": \"j\", \"commandId\": \"c\", \"migrate\": {}}");
    alone_expect(w, "reply {\"jobId\":\"j\",\"commandId\":\"c\",\"code\":\"ANSWER_CODE_INVALID\","
                    "\"reason\":\"migrate.workflow: must be a name, or a name@version with a "
                    "version from 1\"}, ack");
    memset(longest, 'j', sizeof(longest) - 1);
    snprintf(json, sizeof(json), "{\"jobId\": \"%s\", \"workflow\": \"w\"}", longest);
    alone_submit(w, json);
    alone_expect(w, "reply {\"code\":\"RECEIPT_CODE_REJECTED\",\"field\":\"job_id\","
                    "\"reason\":\"must be 1 to 128 characters of A-Z a-z 0-9 . _ -\"}, ack");
}

/* An invalid definition is found later than other errors. */
static void test_invalid_definition(void **state)
{
    struct alone *w = *state;
    const char *json = "{\"jobId\": \"j\", \"definition\": {\"steps\": [{\"name\": \"a\"}]}}";

    alone_submit(w, json);
    alone_expect(w,
                 "reply {\"jobId\":\"j\",\"code\":\"RECEIPT_CODE_REJECTED\","
                 "\"field\":\"definition.steps[0].actor\",\"reason\":\"step \\\"a\\\": must be 1 "
                 "to 128 characters of A-Z a-z 0-9 . _ -\"}, ack");
    alone_deliver(w, (struct bus_delivery){.body = bytes_str(json)});
    alone_expect(w,
                 "dead INVALID definition.steps[0].actor step \"a\": must be 1 to 128 characters "
                 "of A-Z a-z 0-9 . _ -, ack, alert DEAD_LETTER");
}

#define WHY                                                                                        \
    "dead INVALID reply_to must be a queue of your own, not drover.* or amq.rabbitmq.*; "          \
    "amq.rabbitmq.reply-to only as the message property"

/* Answers go only to queues that the sender may have. */
static void test_reply_to(void **state)
{
    struct alone *w = *state;

    alone_deliver(
        w, (struct bus_delivery){.body = bytes_str(SUBMIT("j")), .reply_to = "drover.tasks"});
    alone_expect(w, WHY ", ack, alert DEAD_LETTER");
    alone_submit(w, "{\"jobId\": \"j\", \"workflow\": \"w\", \"replyTo\": \"drover.submit\"}");
    alone_expect(w, WHY ", ack"); /* the same alert comes once a minute */
}

/* Valid replies are recorded; the message becomes a dead letter because of the first invalid one.
 * */
static void test_bad_among_good(void **state)
{
    struct alone *w = *state;
    CLEANUP(buf_deinit) struct buf json = {0};
    CLEANUP(wire_free) struct wire_message answer = {0};

    submitted(w);
    buf_printf(&json,
               "{\"replies\": [{\"jobId\": \"j\"}, {\"jobId\": \"j\", \"step\": \"a\", "
               "\"token\": \"%s\", " DONE "}, {}], \"progress\": [{\"fraction\": 2}]}",
               w->token);
    alone_replies(w, buf_str(&json));
    w->story.len = 0;
    query(w, &answer);
    assert_int_equal(answer.answer->status->outcome, DROVER__V1__OUTCOME__OUTCOME_SUCCEEDED);

    alone_replies(w, "{\"progress\": [{\"fraction\": 2}, {}]}");
    alone_expect(w, "dead INVALID progress[0].fraction must be at most 1, ack");
    alone_deliver(w, (struct bus_delivery){.source = SCHEDULER_EXPIRED,
                                           .body = bytes_str("{\"requests\": [{}]}")});
    alone_expect(w, "dead INVALID requests[0].lock_ms must be 1 to 2592000000 ms, ack");
}

/* A thousand replies of a message are read, and a thousand Progress. Those beyond
 * are not, and the message becomes a dead letter. */
static void test_too_many_in_a_message(void **state)
{
    static const char *const kinds[] = {"replies", "progress"};
    struct alone *w = *state;
    char letter[100];

    submitted(w);
    for (size_t k = 0; k < array_size(kinds); k++) {
        CLEANUP(buf_deinit) struct buf json = {0};

        buf_printf(&json, "{\"%s\": [", kinds[k]);
        for (int i = 0; i <= WIRE_REPLIES_MAX; i++)
            buf_printf(&json, "%s{\"jobId\": \"j\", \"step\": \"a\", \"token\": \"%s\", %s}",
                       i > 0 ? ", " : "", i < WIRE_REPLIES_MAX ? "t" : w->token,
                       k == 0 ? DONE : "\"fraction\": 0.5");
        buf_puts(&json, "]}");
        alone_replies(w, buf_str(&json));
        snprintf(letter, sizeof(letter),
                 "dead INVALID %s has more than 1000: the rest was not read", kinds[k]);
        assert_non_null(strstr(buf_str(&w->story), letter));
        assert_null(strstr(buf_str(&w->story), "OUTCOME_SUCCEEDED"));
        w->story.len = 0;
    }
}

/* The reply names neither a state that was reached nor an error. */
static void test_no_state_and_no_error(void **state)
{
    struct alone *w = *state;
    CLEANUP(wire_free) struct wire_message answer = {0};

    submitted(w);
    alone_serve(w, "j", "a", "\"achieved\": \"STATE_UNKNOWN\"");
    query(w, &answer);
    assert_int_equal(answer.answer->status->steps[0]->state,
                     DROVER__V1__STEP_STATE__STEP_STATE_BACKOFF);
    assert_string_equal(answer.answer->status->steps[0]->last_error->class_, "NOT_ACHIEVED");
}

static void test_result_too_large(void **state)
{
    struct alone *w = *state;
    CLEANUP(buf_deinit) struct buf said = {0};
    CLEANUP(wire_free) struct wire_message answer = {0};

    submitted(w);
    buf_puts(&said, DONE ", \"result\": {\"text\": \"");
    for (size_t i = 0; i < WIRE_RESULT_MAX; i++)
        buf_putc(&said, 'x');
    buf_puts(&said, "\"}");
    alone_serve(w, "j", "a", buf_str(&said));
    alone_expect(w, "alert PARKED, ack");
    query(w, &answer);
    assert_string_equal(answer.answer->status->steps[0]->last_error->class_, "RESULT_TOO_LARGE");
}

/* ---- the broker ---- */

/* The dead letter is the only copy of a message: the message is acknowledged only when the broker
 * has it. */
static void test_dead_letter_refused(void **state)
{
    struct alone *w = *state;
    const struct bus_delivery d = {.source = SCHEDULER_REPLIES, .body = bytes_str("{}")};

    w->outcome = BUS_NACKED;
    alone_deliver(w, d);
    alone_expect(w, "dead INVALID replies must be given, alert DEAD_LETTER");
    w->outcome = BUS_RETURNED;
    alone_pass(w, PUBLISH_REFUSED_AGAIN_MS);
    alone_expect(w, "dead INVALID replies must be given, alert DEAD_LETTER");
    w->outcome = BUS_CONFIRMED;
    alone_pass(w, PUBLISH_REFUSED_AGAIN_MS);
    alone_expect(w, "dead INVALID replies must be given, ack");
    alone_pass(w, INT64_C(10) * PUBLISH_REFUSED_AGAIN_MS);
    alone_expect(w, "");
}

/* No agent took a request within its wait: no agent has it, unless it was sent before. */
static void test_expired(void **state)
{
    struct alone *w = *state;
    CLEANUP(buf_deinit) struct buf body = {0};
    struct bus_delivery d = {.source = SCHEDULER_EXPIRED, .resent = true};

    submitted(w);
    buf_printf(&body,
               "{\"requests\": [{\"jobId\": \"j\", \"step\": \"a\", \"token\": \"%s\", "
               "\"actor\": \"hand\", \"idempotencyKey\": \"j/a/1\", \"action\": \"work\", "
               "\"lockMs\": 1000, \"desired\": "
               "\"STATE_ACTIVE\"}]}",
               w->token);
    d.body = buf_bytes(&body);
    alone_deliver(w, d);
    alone_expect(w, "ack");
    d.resent = false;
    d.died_of = "expired";
    alone_deliver(w, d);
    alone_expect(w, "alert NO_AGENT, ack");
}

/* An agent has rejected a request, or its queue has dropped it. */
static void test_rejected(void **state)
{
    struct alone *w = *state;
    CLEANUP(buf_deinit) struct buf body = {0};

    submitted(w);
    buf_printf(&body,
               "{\"requests\": [{\"jobId\": \"j\", \"step\": \"a\", \"token\": \"%s\", "
               "\"actor\": \"hand\", \"idempotencyKey\": \"j/a/1\", \"action\": \"work\", "
               "\"lockMs\": 1000, \"desired\": \"STATE_ACTIVE\"}]}",
               w->token);
    alone_deliver(w, (struct bus_delivery){.source = SCHEDULER_EXPIRED,
                                           .died_of = "rejected",
                                           .body = buf_bytes(&body)});
    alone_expect(w, "alert REJECTED, ack");
}

/* Ids of calls and publishes of an earlier scheduler or connection. */
static void test_unknown_ids(void **state)
{
    struct alone *w = *state;
    const struct store_answer answer = {0};

    submitted(w);
    alone_step(
        w, (struct scheduler_event){.type = SCHEDULER_ANSWER, .id = w->call, .answer = &answer});
    alone_step(w, (struct scheduler_event){
                      .type = SCHEDULER_OUTCOME, .id = w->publish, .outcome = BUS_RETURNED});
    alone_expect(w, "");
}

/* ---- the store ---- */

/* A call that fails would block the queue: other messages go on until the store is repaired. */
static void test_failing_store_calls(void **state)
{
    struct alone *w = *state;
    struct scheduler_stats stats;

    w->instead = (struct alone_answer){"submit", STORE_ERROR, "ERR broken"};
    w->times = OP_REFUSALS_MAX;
    alone_submit(w, SUBMIT("j"));
    alone_expect(w, "");
    alone_pass(w, ROUND);
    alone_expect(w, "dead STORE_REFUSED, ack, alert DEAD_LETTER");

    w->instead = (struct alone_answer){"submit", STORE_ERROR, "NOREPLICAS too few"};
    w->times = 10 * OP_REFUSALS_MAX;
    alone_submit(w, SUBMIT("k"));
    alone_pass(w, 9 * ROUND);
    alone_expect(w, "");
    assert_false(scheduler_idle(w->scheduler));
    alone_pass(w, ROUND);
    alone_expect(w, "reply {\"jobId\":\"k\",\"code\":\"RECEIPT_CODE_CREATED\",\"steps\":1,"
                    "\"recordedAt\":\"1700000011002\"}, request a, ack");
    assert_true(scheduler_idle(w->scheduler));
    scheduler_stats(w->scheduler, &stats);
    assert_int_equal(stats.submits, 2);
    assert_int_equal(stats.created, 1);
    assert_int_equal(stats.dead_letters, 1);
    assert_int_equal(stats.open, 0);
}

/* The result exceeds what a job may store: that is a failure of the step. */
static void test_job_too_large(void **state)
{
    struct alone *w = *state;
    CLEANUP(wire_free) struct wire_message answer = {0};

    submitted(w);
    w->instead = (struct alone_answer){"record", STORE_OK, "DATA_FULL" NO_NEWS};
    w->times = 1;
    alone_serve(w, "j", "a", DONE);
    alone_expect(w, "alert PARKED, ack");
    query(w, &answer);
    assert_string_equal(answer.answer->status->steps[0]->last_error->class_, "RESULT_TOO_LARGE");
}

static void test_unexpected_answers_to_submit(void **state)
{
    struct alone *w = *state;

    alone_submit(w, "{\"jobId\": \"k\", \"workflow\": \"other\"}");
    alone_expect(w,
                 "reply {\"jobId\":\"k\",\"code\":\"RECEIPT_CODE_REJECTED\",\"field\":\"workflow\","
                 "\"reason\":\"no workflow of this name and version is registered\"}, ack");

    submitted(w);
    alone_submit(w, "{\"jobId\": \"j\", \"workflow\": \"other\"}");
    alone_expect(w,
                 "reply {\"jobId\":\"j\",\"code\":\"RECEIPT_CODE_CONFLICT\",\"field\":\"job_id\","
                 "\"reason\":\"this id is taken by a job with other content\","
                 "\"recordedAt\":\"1700000000004\"}, ack");
    /* a registered workflow whose definition is gone: this scheduler cannot store it again */
    w->instead = (struct alone_answer){"submit", STORE_OK, "UNKNOWN_DEFINITION" NO_NEWS};
    w->times = 1;
    alone_submit(w, "{\"jobId\": \"k\", \"workflow\": \"other\"}");
    alone_expect(w,
                 "reply {\"jobId\":\"k\",\"code\":\"RECEIPT_CODE_REJECTED\",\"field\":\"workflow\","
                 "\"reason\":\"its definition is gone from the store: register it again\"}, ack");
    w->instead =
        (struct alone_answer){"submit", STORE_OK, "MOVED" NO_NEWS}; /* not an answer of submit */
    w->times = 1;
    alone_submit(w, "{\"jobId\": \"k\", \"workflow\": \"other\"}");
    alone_expect(w, "ack");
}

/* ---- commands ---- */

#define COMMAND(id, command) "{\"jobId\": \"j\", \"commandId\": \"" id "\", " command "}"
#define ANSWER(id, code, reason)                                                                   \
    "reply {\"jobId\":\"j\",\"commandId\":\"" id "\",\"code\":\"ANSWER_CODE_" code                 \
    "\",\"reason\":\"" reason "\"}, ack"

static void test_commands_refused(void **state)
{
    struct alone *w = *state;
    CLEANUP(buf_deinit) struct buf many = {0};

    submitted(w);
    alone_control(w, "{\"jobId\": \"j\", \"commandId\": \"c0\"}");
    alone_expect(w, ANSWER("c0", "UNSUPPORTED", "this server does not know the command"));
    alone_control(w, COMMAND("c1", "\"pause\": {}"));
    w->story.len = 0;
    alone_control(w, COMMAND("c1", "\"cancel\": {}"));
    alone_expect(w, ANSWER("c1", "INVALID", "command_id was used before, for another command"));
    alone_control(w, COMMAND("c2", "\"retry\": {\"steps\": [\"b\"]}"));
    alone_expect(w, ANSWER("c2", "INVALID", "the job has no step b"));
    buf_puts(&many, "{\"jobId\": \"j\", \"commandId\": \"c3\", \"retry\": {\"steps\": [\"a\"");
    for (int i = 0; i < OPS_BUDGET; i++)
        buf_puts(&many, ", \"a\"");
    buf_puts(&many, "]}}");
    alone_control(w, buf_str(&many));
    alone_expect(w, ANSWER("c3", "INVALID", "more than 250 steps: name none, for all of them"));
}

static void test_unexpected_answers_to_steer(void **state)
{
    struct alone *w = *state;

    submitted(w);
    w->instead = (struct alone_answer){"steer", STORE_OK, "WRONG_STATE" NO_NEWS " DATA_FULL -"};
    w->times = 1;
    alone_control(w, COMMAND("c1", "\"resume\": {}"));
    alone_expect(w, ANSWER("c1", "WRONG_STATE",
                           "the job's input, arguments and results would exceed 64 MiB"));
    w->instead = (struct alone_answer){"steer", STORE_OK, "UNSUPPORTED" NO_NEWS " - "};
    w->times = 1;
    alone_control(w, COMMAND("c2", "\"resume\": {}"));
    alone_expect(w, ANSWER("c2", "UNSUPPORTED", "this server does not know the command"));
    /* the job has another definition now: the steps are numbered again */
    w->instead = (struct alone_answer){"steer", STORE_OK, "MOVED" NO_NEWS " - "};
    w->times = 1;
    alone_control(w, COMMAND("c3", "\"by\": \"a person\", \"retry\": {\"steps\": [\"a\"]}"));
    alone_expect(w, ANSWER("c3", "WRONG_STATE",
                           "step a is in flight: wait for its answer, or for its lease to end"));
}

static void test_migrate_refused(void **state)
{
    struct alone *w = *state;

    submitted(w);
    alone_control(w, COMMAND("c1", "\"migrate\": {\"workflow\": \"new\"}"));
    alone_expect(
        w, ANSWER("c1", "UNKNOWN_WORKFLOW", "no workflow of this name and version is registered"));
    w->instead = (struct alone_answer){"inspect", STORE_OK, "FOUND xxx"}; /* not a definition */
    w->times = 1;
    w->skip = 1;
    alone_control(w, COMMAND("c2", "\"migrate\": {\"workflow\": \"new\"}"));
    alone_expect(w, ANSWER("c2", "INVALID", "is no protobuf of drover.v1.Workflow"));
    w->instead = (struct alone_answer){"inspect", STORE_OK, "OTHER"};
    w->times = 1;
    w->skip = 1;
    alone_control(w, COMMAND("c3", "\"migrate\": {\"workflow\": \"new\"}"));
    alone_expect(w, "ack");
}

/* ---- definitions ---- */

static Drover__V1__Workflow *definition(struct bytes json)
{
    ProtobufCMessage *m;

    assert_int_equal(json_to_message(json, &drover__v1__workflow__descriptor, NULL, &m, NULL), 0);
    return (Drover__V1__Workflow *)m;
}

static void know(struct alone *w, const Drover__V1__Workflow *d)
{
    CLEANUP(workflow_unref) struct workflow *known = NULL;

    assert_int_equal(workflow_new(&known, d, "", NULL), 0);
    assert_int_equal(scheduler_register(w->scheduler, known), 0);
}

/* Registers three versions of "w": the second has one more step, the third another actor. */
static void know_versions(struct alone *w)
{
    static const char *const versions[] = {
        "{\"name\": \"w\", \"version\": 1, \"steps\": [{\"name\": \"a\", \"actor\": \"hand\"}]}",
        ("{\"name\": \"w\", \"version\": 2, \"steps\": [{\"name\": \"a\", \"actor\": \"hand\"}, "
         "{\"name\": \"b\", \"actor\": \"hand\", \"after\": [\"a\"]}]}"),
        "{\"name\": \"w\", \"version\": 3, \"steps\": [{\"name\": \"a\", \"actor\": \"foot\"}]}",
    };

    for (size_t i = 0; i < array_size(versions); i++) {
        Drover__V1__Workflow *d = definition(bytes_str(versions[i]));

        know(w, d);
        protobuf_c_message_free_unpacked(&d->base, NULL);
    }
    connect(w, "first");
}

/* Registers as many large definitions as fit into memory: the earlier ones are dropped. */
static void crowd_out(struct alone *w)
{
    CLEANUP(buf_deinit) struct buf json = {0};
    const size_t size = WIRE_INPUT_MAX - 100;
    Drover__V1__Workflow *d;

    buf_puts(&json, "{\"name\": \"large\", \"steps\": [{\"name\": \"s\", \"actor\": \"x\", "
                    "\"arguments\": {\"text\": \"");
    for (size_t i = 0; i < size; i++)
        buf_puts(&json, "a");
    buf_puts(&json, "\"}}]}");
    d = definition(buf_bytes(&json));
    for (d->version = 1; d->version <= DEFINITION_CACHED_BYTES / size; d->version++)
        know(w, d);
    protobuf_c_message_free_unpacked(&d->base, NULL);
    w->instead = (struct alone_answer){"define", STORE_OK, "DONE"};
    w->times = UINT32_MAX;
    connect(w, "first");
    w->times = 0;
}

/* A definition that was dropped is read again when it is needed, and kept. */
static void test_definitions_are_dropped(void **state)
{
    struct alone *w = *state;

    submitted(w);
    crowd_out(w);
    assert_in_range(w->scheduler->definitions.bytes, 1, DEFINITION_CACHED_BYTES);
    for (int i = 0; i < 2; i++) {
        w->instead = (struct alone_answer){"inspect", STORE_ERROR, "BUSY"};
        w->times = 1;
        w->skip = 1; /* after that for the job */
        w->reply.len = 0;
        alone_control(w, "{\"jobId\": \"j\", \"query\": {}}");
        assert_int_equal(w->times, i);
        alone_pass(w, OP_REPEAT_MS);
        assert_non_null(strstr(buf_str(&w->reply), "\"name\":\"a\""));
    }
    assert_in_range(w->scheduler->definitions.bytes, 1, DEFINITION_CACHED_BYTES);
}

/* The job's definition is dropped while the one that it migrates to is read. */
static void test_definition_dropped_in_a_migration(void **state)
{
    struct alone *w = *state;

    know_versions(w);
    alone_submit(w, "{\"jobId\": \"j\", \"workflow\": \"w@1\"}");
    w->story.len = 0;
    w->instead = (struct alone_answer){"inspect", STORE_ERROR, "BUSY"};
    w->times = 1;
    w->skip = 1;
    alone_control(w, COMMAND("c1", "\"migrate\": {\"workflow\": \"w@2\"}"));
    alone_expect(w, "");
    crowd_out(w);
    alone_pass(w, OP_REPEAT_MS);
    alone_expect(w,
                 "reply {\"jobId\":\"j\",\"commandId\":\"c1\",\"code\":\"ANSWER_CODE_DONE\"}, ack");
    alone_serve(w, "j", "a", DONE);
    alone_expect(w, "request b, ack");
}

/* ---- invalid answers ---- */

/* Steps that the definition does not have are ignored, and so are results that do not exist. */
static void test_answers_with_unknown_steps(void **state)
{
    struct alone *w = *state;
    CLEANUP(wire_free) struct wire_message answer = {0};
    char words[600];

    alone_submit(
        w, "{\"jobId\": \"j\", \"definition\": {\"steps\": [{\"name\": \"a\", \"actor\": \"x\"}, "
           "{\"name\": \"b\", \"actor\": \"x\", \"after\": [\"a\"]}]}}");
    query(w, &answer);
    snprintf(words, sizeof(words),
             "DRIVEN %s 1700000000000+9+0+0+1+1+1+0+2+2 7+A+NO_AGENT+9 4294967295+A+DEADLINE+9 "
             "7+A+D+1+1+one+0+1000+0+0+0+0+0+0 1+A+D+1+1+two+0+1000+0+0+0+0+0+0  0+0+0",
             answer.answer->status->definition);
    w->instead = (struct alone_answer){"drive", STORE_OK, words};
    w->times = 1;
    alone_control(w, "{\"jobId\": \"j\", \"recover\": {}}");
    alone_expect(w, "request b, event "
                    "{\"kind\":\"EVENT_KIND_STEP\",\"jobId\":\"j\",\"seq\":\"9\","
                    "\"at\":\"1700000000000\",\"step\":\"b\",\"stepState\":\"STEP_STATE_RUNNING\","
                    "\"attempt\":1,\"stepsTotal\":1,\"stepsOpen\":1}, ack");
    snprintf(
        words, sizeof(words),
        "FOUND %s 2       json 0 SUCCEEDED PROCESSED 1 1700000000000 0     2 4294967294 xx 1  0",
        answer.answer->status->definition);
    w->instead = (struct alone_answer){"inspect", STORE_OK, words};
    w->times = 2;
    alone_control(w, "{\"jobId\": \"j\", \"notify\": {\"seq\": 12}}");
    alone_expect(
        w, "event {\"kind\":\"EVENT_KIND_SETTLED\",\"jobId\":\"j\",\"seq\":\"12\","
           "\"at\":\"1700000000000\",\"turn\":1,\"phase\":\"PHASE_PROCESSED\","
           "\"outcome\":\"OUTCOME_SUCCEEDED\",\"resultsLeftOut\":[\"b\"],\"stepsTotal\":2}, ack");
}

/* Without the definition the names of the steps are unknown. */
static void test_definition_lost(void **state)
{
    CLEANUP(wire_free) struct wire_message answer = {0};
    struct alone *w = *state;

    submitted(w);
    alone_restart(w);
    w->instead = (struct alone_answer){"inspect", STORE_OK, "UNKNOWN"};
    w->times = 1;
    w->skip = 1;
    alone_ask(w, "{\"jobId\": \"j\", \"query\": {}}", &answer);
    assert_int_equal(answer.answer->code, DROVER__V1__ANSWER_CODE__ANSWER_CODE_UNKNOWN_JOB);
    assert_string_equal(answer.answer->reason,
                        "the definition of the job is not in the store any more");
}

static void expect_alerts(struct alone *w, const char *reason, int n)
{
    CLEANUP(buf_deinit) struct buf alert = {0};

    buf_printf(&alert, "alert %s", reason);
    for (const char *at = buf_str(&w->story); (at = strstr(at, buf_str(&alert))); at++)
        n--;
    assert_int_equal(n, 0);
    w->story.len = 0;
}

/* Losses are reported when all partitions have answered; a scheduler that dies before reports
 * nothing. */
static void test_dies_in_the_rollback_check(void **state)
{
    struct alone *w = *state;

    for (uint32_t skip = 0; skip < 2; skip++) {
        submitted(w);
        simstore_reset(w->store, 0);
        w->instead = (struct alone_answer){"mark", STORE_UNKNOWN, ""};
        w->times = 1;
        w->skip = skip;
        connect(w, "second");
        alone_expect(w, "");
        alone_restart(w);
        alone_pass(w, 1000);
        alone_expect(w, "");
    }
    submitted(w);
    simstore_reset(w->store, 0);
    w->times = 1;
    connect(w, "second");
    alone_pass(w, 1000);
    alone_expect(w, "alert STORE_LOST, alert JOB_LOST");
}

/* More jobs than one call checks: whichever call is repeated, each job is reported once. */
static void test_many_lost_jobs(void **state)
{
    enum {
        JOBS = 3 * OPS_BUDGET, /* two calls for each partition */
        CALLS = 4
    };
    struct alone *w = *state;

    for (uint32_t skip = 0; skip < CALLS; skip++) {
        for (int i = 0; i < JOBS; i++) {
            char json[200];

            snprintf(json, sizeof(json),
                     "{\"jobId\": \"j%d\", \"definition\": {\"steps\": [{\"name\": \"a\", "
                     "\"actor\": \"x\"}]}}",
                     i);
            alone_submit(w, json);
        }
        w->story.len = 0;
        simstore_reset(w->store, 0);
        w->instead = (struct alone_answer){"mark", STORE_ERROR, "BUSY"};
        w->times = 1;
        w->skip = skip;
        connect(w, "second");
        assert_int_equal(w->times, 0);
        alone_expect(w, "");
        alone_pass(w, OP_REPEAT_MS);
        expect_alerts(w, "JOB_LOST", JOBS);
        alone_restart(w);
    }
}

/* ---- wide jobs ---- */

/* More than a call touches, fewer than may be unconfirmed. */
#define WIDE 600

/* A job of so many steps, all of which can begin, with an input of so many bytes. */
static void submit_wide(struct alone *w, const char *id, unsigned steps, unsigned input)
{
    CLEANUP(buf_deinit) struct buf json = {0};

    buf_printf(&json, "{\"jobId\": \"%s\", \"input\": {\"text\": \"%0*d\"}, ", id, (int)input, 0);
    buf_puts(&json, "\"definition\": {\"steps\": [");
    for (unsigned i = 0; i < steps; i++)
        buf_printf(&json, "%s{\"name\": \"s%u\", \"actor\": \"hand\"}", i > 0 ? ", " : "", i);
    buf_puts(&json, "]}}");
    alone_submit(w, buf_str(&json));
}

/* The number of requests since the last call. */
static unsigned requests(struct alone *w)
{
    unsigned n = 0;

    for (const char *at = buf_str(&w->story); (at = strstr(at, "request ")); at++)
        n++;
    w->story.len = 0;
    return n;
}

/* The scheduler itself goes on with the steps that one call leaves. */
static void test_work_left_by_a_call(void **state)
{
    struct alone *w = *state;

    submit_wide(w, "j", WIDE, 1);
    assert_int_equal(requests(w), WIDE);
}

#define FANNED 200 /* steps: those of one job fit into a call, those of two do not */

/* A job with a step that so many others wait for. */
static void submit_fan(struct alone *w, const char *id, char token[WIRE_TOKEN_MAX + 1])
{
    CLEANUP(buf_deinit) struct buf json = {0};

    buf_printf(&json, "{\"jobId\": \"%s\", \"definition\": {\"steps\": [", id);
    buf_puts(&json, "{\"name\": \"a\", \"actor\": \"hand\"}");
    for (int i = 0; i < FANNED; i++)
        buf_printf(&json, ", {\"name\": \"s%d\", \"actor\": \"hand\", \"after\": [\"a\"]}", i);
    buf_puts(&json, "]}}");
    alone_submit(w, buf_str(&json));
    memcpy(token, w->token, sizeof(w->token));
}

/* The requests that follow each reply are sent again, in several calls as one would have too many.
 * */
static void test_redelivered_together(void **state)
{
    static const char *const ids[] = {"j", "l"}; /* of one partition */
    char tokens[array_size(ids)][WIRE_TOKEN_MAX + 1];
    CLEANUP(buf_deinit) struct buf replies = {0};
    struct alone *w = *state;
    struct bus_delivery d = {.source = SCHEDULER_REPLIES};

    assert_int_equal(id_partition(ids[0], 2), id_partition(ids[1], 2));
    for (size_t i = 0; i < array_size(ids); i++) {
        submit_fan(w, ids[i], tokens[i]);
        buf_printf(&replies, "%s{\"jobId\": \"%s\", \"step\": \"a\", \"token\": \"%s\", " DONE "}",
                   i > 0 ? ", " : "{\"replies\": [", ids[i], tokens[i]);
    }
    buf_puts(&replies, "]}");
    d.body = buf_bytes(&replies);
    w->story.len = 0;
    alone_deliver(w, d);
    assert_int_equal(requests(w), 2 * FANNED);
    d.redelivered = true;
    w->instead = (struct alone_answer){"record", STORE_ERROR, "BUSY"};
    w->times = w->skip = 1;
    alone_deliver(w, d);
    assert_int_equal(requests(w), FANNED);
    alone_pass(w, OP_REPEAT_MS);
    assert_int_equal(requests(w), FANNED);
}

#define FILL (5 * 250)

/* Submits jobs with more requests than may be unconfirmed. Return: how many were sent. */
static unsigned fill(struct alone *w)
{
    char id[] = "f0";

    for (; id[1] < '0' + FILL / 250; id[1]++)
        submit_wide(w, id, 250, 1);
    return requests(w);
}

/* All requests are sent, but never more than may be unconfirmed. */
static void test_unconfirmed_requests(void **state)
{
    struct alone *w = *state;
    unsigned sent, all;

    w->silent = true;
    all = fill(w);
    assert_in_range(all, 1000, SCHEDULER_UNCONFIRMED);
    for (alone_confirm(w); (sent = requests(w)) > 0; alone_confirm(w))
        all += sent;
    assert_int_equal(all, FILL);
}

/* A Migrate that was refused is redelivered, and sends the request in flight again. */
static void test_migrated_while_a_request_waits(void **state)
{
    const struct bus_delivery migrate = {
        .source = SCHEDULER_CONTROL,
        .redelivered = true,
        .reply_to = "me",
        .body = bytes_str(COMMAND("c", "\"migrate\": {\"workflow\": \"w@3\"}"))};
    struct alone *w = *state;

    know_versions(w);
    alone_submit(w, "{\"jobId\": \"j\", \"workflow\": \"w@1\"}");
    alone_deliver(w, migrate);
    assert_non_null(strstr(buf_str(&w->story), "WRONG_STATE"));
    w->silent = true;
    fill(w);
    alone_deliver(w, migrate);
    assert_int_equal(requests(w), 0);
    alone_confirm(w);
    alone_confirm(w);
    assert_string_equal(w->actor, "hand");
}

static void test_unconfirmed_bytes(void **state)
{
    const unsigned input = WIRE_INPUT_MAX / 2;
    struct alone *w = *state;

    w->silent = true;
    submit_wide(w, "j", 100, input);
    assert_in_range(requests(w), 1, PUBLISH_UNCONFIRMED_BYTES / input + 1);
}

/* The store names lost jobs that this scheduler has not asked for. */
static void test_lost_jobs_of_others(void **state)
{
    struct alone *w = *state;

    submitted(w);
    w->instead = (struct alone_answer){"mark", STORE_OK, "1700000000000 other 0 0 2 i k"};
    w->times = 2;
    connect(w, "second");
    alone_expect(w, "alert STORE_LOST");
}

/* The connection for publishes is lost while the store has not yet said whether a suspect may be
 * read: it is given back to the broker, because the connection that has delivered it is there. */
static void test_suspect_is_given_back(void **state)
{
    struct alone *w = *state;

    w->instead = (struct alone_answer){"suspect", STORE_UNKNOWN, ""};
    w->times = 1;
    alone_deliver(w, (struct bus_delivery){.source = SCHEDULER_SUBMIT,
                                           .redelivered = true,
                                           .body = bytes_str(SUBMIT("j"))});
    alone_step(w, (struct scheduler_event){.type = SCHEDULER_BUS_DOWN});
    alone_pass(w, ROUND);
    alone_expect(w, "given back");
}

static void test_rollback_check_cut(void **state)
{
    struct alone *w = *state;

    w->cut = "mark";
    w->items = UINT32_MAX;
    for (w->left = 0; w->left < w->items; w->left++) {
        alone_restart(w);
        alone_pass(w, 1000);
        alone_expect(w, "");
    }
    assert_true(w->left > 1);
}

/* An answer that ends too early is ignored as a whole. */
static void test_answers_cut(void **state)
{
    static const struct {
        const char *function;
        enum scheduler_source source;
        const char *body;
        uint32_t spare; /* words at the end that an answer may lack */
    } asked[] = {
        {"submit", SCHEDULER_SUBMIT, SUBMIT("j"), 0},
        {"drive", SCHEDULER_CONTROL, "{\"jobId\": \"j\", \"recover\": {}}", 0},
        {"steer", SCHEDULER_CONTROL, "{\"jobId\": \"j\", \"commandId\": \"c\", \"pause\": {}}",
         2}, /* the reason of a refusal */
        {"inspect", SCHEDULER_CONTROL, "{\"jobId\": \"j\", \"query\": {\"withData\": true}}", 0},
        {"inspect", SCHEDULER_CONTROL,
         "{\"jobId\": \"j\", \"commandId\": \"c\", \"retry\": {\"steps\": [\"a\"]}}", 0},
        {"inspect", SCHEDULER_CONTROL, "{\"jobId\": \"j\", \"history\": {}}", 0},
        {"inspect", SCHEDULER_CONTROL, "{\"listJobs\": {}}", 0},
        {"inspect", SCHEDULER_CONTROL, "{\"listWorkflows\": {}}", 0},
        {"inspect", SCHEDULER_CONTROL, "{\"listWorkflows\": {\"workflow\": \"w\"}}", 0},
        {"renew", SCHEDULER_REPLIES,
         "{\"progress\": [{\"jobId\": \"j\", \"step\": \"a\", \"token\": \"t\"}]}", 0},
    };
    struct alone *w = *state;

    for (size_t i = 0; i < array_size(asked); i++) {
        w->items = UINT32_MAX;
        for (w->left = 0; w->left + asked[i].spare < w->items; w->left++) {
            simstore_reset(w->store, 0);
            alone_restart(w);
            submitted(w);
            w->cut = asked[i].function;
            alone_deliver(w, (struct bus_delivery){.source = (int)asked[i].source,
                                                   .body = bytes_str(asked[i].body),
                                                   .reply_to = "me"});
            w->cut = NULL;
            alone_expect(w, "ack");
        }
        assert_true(w->left > 0);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, alone_setup, alone_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_oversize),
        TEST(test_not_decodable),
        TEST(test_invalid),
        TEST(test_invalid_definition),
        TEST(test_reply_to),
        TEST(test_bad_among_good),
        TEST(test_too_many_in_a_message),
        TEST(test_no_state_and_no_error),
        TEST(test_result_too_large),
        TEST(test_dead_letter_refused),
        TEST(test_expired),
        TEST(test_rejected),
        TEST(test_unknown_ids),
        TEST(test_failing_store_calls),
        TEST(test_job_too_large),
        TEST(test_unexpected_answers_to_submit),
        TEST(test_commands_refused),
        TEST(test_unexpected_answers_to_steer),
        TEST(test_migrate_refused),
        TEST(test_definitions_are_dropped),
        TEST(test_definition_dropped_in_a_migration),
        TEST(test_answers_with_unknown_steps),
        TEST(test_definition_lost),
        TEST(test_dies_in_the_rollback_check),
        TEST(test_many_lost_jobs),
        TEST(test_work_left_by_a_call),
        TEST(test_redelivered_together),
        TEST(test_unconfirmed_requests),
        TEST(test_unconfirmed_bytes),
        TEST(test_migrated_while_a_request_waits),
        TEST(test_lost_jobs_of_others),
        TEST(test_suspect_is_given_back),
        TEST(test_rollback_check_cut),
        TEST(test_answers_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
