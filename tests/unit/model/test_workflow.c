// SPDX-License-Identifier: Apache-2.0
/*
 * Workflows: what is refused and which field the error names, what is derived, the canonical form
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "memory/memory.h"
#include "model/json.h"
#include "model/workflow.h"

static Drover__V1__Workflow *definition(const char *text)
{
    ProtobufCMessage *message;
    struct problem problem = {0};

    if (json_to_message(bytes_str(text), &drover__v1__workflow__descriptor, NULL, &message,
                        &problem) != 0)
        fail_msg("%s: %s: %s", text, problem.field, problem.reason);
    return (Drover__V1__Workflow *)message;
}

static void definition_free(Drover__V1__Workflow *d)
{
    protobuf_c_message_free_unpacked(&d->base, NULL);
}

static struct workflow *good(const char *text)
{
    Drover__V1__Workflow *d = definition(text);
    struct workflow *w = NULL;
    struct problem problem = {0};

    if (workflow_new(&w, d, "", &problem) != 0)
        fail_msg("%s: %s: %s", text, problem.field, problem.reason);
    definition_free(d);
    return w;
}

static void expect_refused_at(const char *text, const char *at, const char *field)
{
    Drover__V1__Workflow *d = definition(text);
    struct workflow *w = NULL;
    struct problem problem = {0};

    assert_int_equal(workflow_new(&w, d, at, &problem), WORKFLOW_E_INVALID);
    assert_null(w);
    assert_string_equal(problem.field, field);
    assert_true(problem.reason[0] != '\0');
    assert_int_equal(workflow_new(&w, d, at, NULL), WORKFLOW_E_INVALID);
    definition_free(d);
}

static void expect_refused(const char *text, const char *field)
{
    expect_refused_at(text, "", field);
}

/* One step with these members in addition to its name and actor. */
static void expect_step_refused(const char *members, const char *field)
{
    char text[512];

    snprintf(text, sizeof(text), "{\"steps\":[{\"name\":\"a\",\"actor\":\"x\",%s}]}", members);
    expect_refused(text, field);
}

static void expect_reason(const char *text, const char *reason)
{
    Drover__V1__Workflow *d = definition(text);
    struct workflow *w = NULL;
    struct problem problem = {0};

    assert_int_equal(workflow_new(&w, d, "", &problem), WORKFLOW_E_INVALID);
    assert_string_equal(problem.reason, reason);
    definition_free(d);
}

static void expect_list(const uint32_t *list, uint32_t n, const char *expected)
{
    char text[256] = "";

    for (uint32_t i = 0; i < n; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%" PRIu32, i ? " " : "",
                 list[i]);
    assert_string_equal(text, expected);
}

/* ---- derived fields ---- */

static void test_diamond(void **state)
{
    CLEANUP(workflow_unref)
    struct workflow *w =
        good("{\"name\":\"order\",\"version\":3,\"steps\":["
             "{\"name\":\"end\",\"actor\":\"x\",\"after\":[\"right\",\"left\"]},"
             "{\"name\":\"left\",\"actor\":\"x\",\"after\":[\"begin\"]},"
             "{\"name\":\"right\",\"actor\":\"x\",\"after\":[\"begin\"],\"takeNone\":true},"
             "{\"name\":\"begin\",\"actor\":\"y\",\"action\":\"go\"}]}");

    assert_string_equal(w->full_name, "order@3");
    assert_string_equal(w->name, "order");
    assert_int_equal(w->version, 3);
    assert_int_equal(w->n_steps, 4);
    assert_int_equal(w->n_edges, 4);
    expect_list(w->roots, w->n_roots, "3");
    expect_list(w->sinks, w->n_sinks, "0");
    expect_list(w->steps[0].after, w->steps[0].n_after, "1 2");
    expect_list(w->steps[0].take, w->steps[0].n_take, "1 2");
    expect_list(w->steps[0].dependents, w->steps[0].n_dependents, "");
    expect_list(w->steps[2].after, w->steps[2].n_after, "3");
    expect_list(w->steps[2].take, w->steps[2].n_take, "");
    expect_list(w->steps[3].after, w->steps[3].n_after, "");
    expect_list(w->steps[3].dependents, w->steps[3].n_dependents, "1 2");
    assert_string_equal(w->steps[0].forward.action, "end");
    assert_string_equal(w->steps[3].forward.action, "go");
    assert_string_equal(w->steps[3].forward.actor, "y");
    assert_int_equal(workflow_find(w, bytes_str("begin")), 3);
    assert_int_equal(workflow_find(w, bytes_str("begin2")), WORKFLOW_NONE);
    assert_int_equal(workflow_find(w, BYTES_EMPTY), WORKFLOW_NONE);
    assert_int_equal(w->tries, 1);
    assert_int_equal(w->on_deadline, DROVER__V1__RECOURSE__RECOURSE_PARK);
    assert_int_equal(strlen(w->digest), ID_DIGEST_LEN);
}

static void test_take(void **state)
{
    struct buf text = {0};
    struct workflow *w = good("{\"steps\":[{\"name\":\"a\",\"actor\":\"x\"},"
                              "{\"name\":\"b\",\"actor\":\"x\"},{\"name\":\"c\",\"actor\":\"x\"},"
                              "{\"name\":\"d\",\"actor\":\"x\",\"after\":[\"c\",\"a\",\"b\"],"
                              "\"take\":[\"c\",\"a\"]}]}");

    assert_string_equal(w->full_name, "");
    expect_list(w->steps[3].take, w->steps[3].n_take, "0 2");
    expect_list(w->sinks, w->n_sinks, "3");
    workflow_unref(w);

    /* By default all of `after`, unless there are too many. */
    for (int n = WIRE_TAKE_DEFAULT_MAX; n <= WIRE_TAKE_DEFAULT_MAX + 1; n++) {
        buf_clear(&text);
        buf_puts(&text, "{\"steps\":[");
        for (int i = 0; i < n; i++)
            buf_printf(&text, "{\"name\":\"s%d\",\"actor\":\"x\"},", i);
        buf_puts(&text, "{\"name\":\"end\",\"actor\":\"x\",\"after\":[");
        for (int i = 0; i < n; i++)
            buf_printf(&text, "%s\"s%d\"", i ? "," : "", i);
        buf_puts(&text, "]}]}");
        w = good(buf_str(&text));
        assert_int_equal(w->steps[n].n_take, n == WIRE_TAKE_DEFAULT_MAX ? n : 0);
        workflow_unref(w);
    }
    buf_deinit(&text);
}

static void test_leases_and_policies(void **state)
{
    CLEANUP(workflow_unref)
    struct workflow *w =
        good("{\"lockMs\":2000,\"retry\":{\"maximumAttempts\":3},\"steps\":["
             "{\"name\":\"a\",\"actor\":\"x\"},"
             "{\"name\":\"b\",\"actor\":\"x\",\"lockMs\":5000,\"heartbeatMs\":1000,"
             "\"retry\":{\"maximumAttempts\":4},\"arguments\":{\"text\":\"do\"},"
             "\"revert\":{\"action\":\"undo\",\"lockMs\":7000,\"arguments\":{\"text\":\"undo\"},"
             "\"retry\":{\"maximumAttempts\":5}}},"
             "{\"name\":\"c\",\"actor\":\"x\",\"waitMs\":9000,\"waiveRevert\":true,"
             "\"arguments\":{\"text\":\"do\"},\"revert\":{\"actor\":\"y\"}}]}");
    const struct workflow_step *s = w->steps;

    assert_int_equal(s[0].forward.lock_ms, 2000);
    assert_int_equal(s[0].forward.wait_ms, 2000);
    assert_int_equal(s[0].forward.heartbeat_ms, 0);
    assert_int_equal(s[0].forward.policy.maximum_attempts, 3);
    assert_false(s[0].has_revert);
    assert_int_equal(s[1].forward.lock_ms, 5000);
    assert_int_equal(s[1].forward.wait_ms, 5000);
    assert_int_equal(s[1].forward.policy.maximum_attempts, 4);
    assert_true(s[1].has_revert);
    assert_string_equal(s[1].revert.action, "undo");
    assert_string_equal(s[1].revert.actor, "x");
    assert_int_equal(s[1].revert.lock_ms, 7000);
    assert_int_equal(s[1].revert.wait_ms, 7000);
    assert_int_equal(s[1].revert.heartbeat_ms, 1000);
    assert_int_equal(s[1].revert.policy.maximum_attempts, 5);
    assert_memory_equal(s[1].revert.arguments->data.data, "undo", 4);
    assert_string_equal(s[2].revert.action, "c");
    assert_string_equal(s[2].revert.actor, "y");
    assert_int_equal(s[2].revert.lock_ms, 2000);
    assert_int_equal(s[2].revert.wait_ms, 9000);
    assert_ptr_equal(s[2].revert.arguments, s[2].forward.arguments);
    assert_true(s[2].waive_revert);
}

static void expect_tries(const char *members, uint32_t tries, int64_t interval_ms,
                         double coefficient)
{
    char text[256];

    snprintf(text, sizeof(text), "{%s\"steps\":[{\"name\":\"a\",\"actor\":\"x\"}]}", members);
    CLEANUP(workflow_unref) struct workflow *w = good(text);

    assert_int_equal(w->tries, tries);
    assert_int_equal(w->tries_interval_ms, interval_ms);
    assert_true(w->tries_coefficient == coefficient);
}

static void test_tries(void **state)
{
    expect_tries("", 1, WORKFLOW_TRIES_INTERVAL_MS, WORKFLOW_TRIES_COEFFICIENT);
    expect_tries("\"tries\":1000,\"triesIntervalMs\":86400000,\"triesCoefficient\":100,", 1000,
                 86400000, 100);
    expect_tries("\"tries\":2,\"triesIntervalMs\":-5,\"triesCoefficient\":1,", 2, 0, 1);
}

static void test_deadline(void **state)
{
    CLEANUP(workflow_unref)
    struct workflow *w = good("{\"completeWithinMs\":31622400000,\"onDeadline\":\"COMPENSATE\","
                              "\"steps\":[{\"name\":\"a\",\"actor\":\"x\"}]}");

    assert_int_equal(w->complete_within_ms, 31622400000);
    assert_int_equal(w->on_deadline, DROVER__V1__RECOURSE__RECOURSE_COMPENSATE);
}

/* ---- the canonical form ---- */

static void test_order_of_dependencies_does_not_matter(void **state)
{
    static const char *const FORMAT = "{\"steps\":[{\"name\":\"a\",\"actor\":\"x\"},"
                                      "{\"name\":\"b\",\"actor\":\"x\"},"
                                      "{\"name\":\"c\",\"actor\":\"x\",\"after\":[\"%s\",\"%s\"],"
                                      "\"take\":[\"%s\",\"%s\"]%s}]}";
    char one[512], two[512], three[512];

    snprintf(one, sizeof(one), FORMAT, "a", "b", "b", "a", "");
    snprintf(two, sizeof(two), FORMAT, "b", "a", "a", "b", "");
    snprintf(three, sizeof(three), FORMAT, "b", "a", "a", "b", ",\"lockMs\":60000");
    CLEANUP(workflow_unref) struct workflow *a = good(one);
    CLEANUP(workflow_unref) struct workflow *b = good(two);
    CLEANUP(workflow_unref) struct workflow *c = good(three);

    assert_string_equal(a->digest, b->digest);
    assert_true(bytes_equal(a->canonical, b->canonical));
    /* A default that is given explicitly is part of the definition: it stays when defaults change.
     * */
    assert_string_not_equal(a->digest, c->digest);
}

static void test_canonical_form_reads_back(void **state)
{
    CLEANUP(workflow_unref)
    struct workflow *a = good("{\"name\":\"w\",\"version\":4294967295,\"steps\":["
                              "{\"name\":\"b\",\"actor\":\"x\",\"after\":[\"a\"],\"revert\":{}},"
                              "{\"name\":\"a\",\"actor\":\"x\"}]}");
    CLEANUP(workflow_unref) struct workflow *b = NULL;

    assert_int_equal(workflow_new_from_bytes(&b, a->canonical, "", NULL), 0);
    assert_string_equal(b->full_name, "w@4294967295");
    assert_true(bytes_equal(a->canonical, b->canonical));
    assert_string_equal(a->digest, b->digest);
    assert_true(b->steps[0].has_revert);
    assert_ptr_equal(workflow_ref(b), b);
    assert_null(workflow_unref(b));
}

static void test_unknown_fields_are_dropped(void **state)
{
    static const uint8_t UNKNOWN[] = {0xfa, 0x3f, 0x03, 'n', 'e', 'w'}; /* field 1023 */
    CLEANUP(workflow_unref)
    struct workflow *a = good("{\"steps\":[{\"name\":\"a\",\"actor\":\"x\"}]}");
    CLEANUP(workflow_unref) struct workflow *b = NULL;
    CLEANUP(buf_deinit) struct buf text = {0};

    buf_append(&text, a->canonical.data, a->canonical.len);
    buf_append(&text, UNKNOWN, sizeof(UNKNOWN));
    assert_int_equal(workflow_new_from_bytes(&b, buf_bytes(&text), "", NULL), 0);
    assert_string_equal(a->digest, b->digest);
}

static void test_invalid_encoded_workflows(void **state)
{
    CLEANUP(workflow_unref)
    struct workflow *a =
        good("{\"name\":\"w\",\"version\":1,\"steps\":[{\"name\":\"a\",\"actor\":\"x\"}]}");
    struct workflow *b = NULL;
    struct problem problem;

    for (size_t len = 0; len < a->canonical.len; len++) {
        int r = workflow_new_from_bytes(&b, bytes_of(a->canonical.data, len), "", &problem);

        assert_int_equal(r, WORKFLOW_E_INVALID);
    }
    assert_int_equal(workflow_new_from_bytes(&b, bytes_str("{}"), "definition", &problem),
                     WORKFLOW_E_INVALID);
    assert_string_equal(problem.field, "definition");
    assert_null(b);
}

/* ---- refusals ---- */

static void test_refused_head(void **state)
{
    expect_refused("{}", "steps");
    expect_refused("{\"name\":\"a b\",\"version\":1}", "name");
    expect_refused("{\"name\":\"a\"}", "version");
    expect_refused("{\"version\":1}", "version");
    expect_refused("{\"steps\":[{}],\"lockMs\":99}", "lock_ms");
    expect_refused("{\"steps\":[{}],\"waitMs\":-1}", "wait_ms");
    expect_refused("{\"steps\":[{}],\"waitMs\":2592000001}", "wait_ms");
    expect_refused("{\"steps\":[{}],\"completeWithinMs\":-1}", "complete_within_ms");
    expect_refused("{\"steps\":[{}],\"completeWithinMs\":31622400001}", "complete_within_ms");
    expect_refused("{\"steps\":[{}],\"tries\":1001}", "tries");
    expect_refused("{\"steps\":[{}],\"triesIntervalMs\":86400001}", "tries_interval_ms");
    expect_refused("{\"steps\":[{}],\"triesCoefficient\":0.99}", "tries_coefficient");
    expect_refused("{\"steps\":[{}],\"triesCoefficient\":-1}", "tries_coefficient");
    expect_refused("{\"steps\":[{}],\"triesCoefficient\":100.5}", "tries_coefficient");
    expect_refused("{\"steps\":[{}],\"onDeadline\":9}", "on_deadline");
    expect_refused("{\"steps\":[{}],\"retry\":{\"jitter\":2}}", "retry.jitter");
    expect_refused_at("{\"steps\":[{\"name\":\"a\"}]}", "definition", "definition.steps[0].actor");
}

static void test_refused_step(void **state)
{
    expect_refused("{\"steps\":[{\"actor\":\"x\"}]}", "steps[0].name");
    expect_refused("{\"steps\":[{\"name\":\"a/b\"}]}", "steps[0].name");
    expect_refused("{\"steps\":[{\"name\":\"a\",\"actor\":\"x\"},{\"name\":\"b\"}]}",
                   "steps[1].actor");
    expect_refused(
        "{\"steps\":[{\"name\":\"a\",\"actor\":\"x\"},{\"name\":\"a\",\"actor\":\"x\"}]}",
        "steps[1].name");
    expect_step_refused("\"action\":\"a b\"", "steps[0].action");
    expect_step_refused("\"lockMs\":99", "steps[0].lock_ms");
    expect_step_refused("\"waitMs\":99", "steps[0].wait_ms");
    expect_step_refused("\"heartbeatMs\":99", "steps[0].heartbeat_ms");
    expect_step_refused("\"heartbeatMs\":60001", "steps[0].heartbeat_ms");
    expect_step_refused("\"heartbeatMs\":5000,\"revert\":{\"lockMs\":4000}",
                        "steps[0].heartbeat_ms");
    expect_step_refused("\"retry\":{\"nonRetryable\":[\"a\",\"\"]}",
                        "steps[0].retry.non_retryable[1]");
    expect_step_refused("\"arguments\":{\"contentType\":\"a\\nb\"}",
                        "steps[0].arguments.content_type");
    expect_step_refused("\"revert\":{\"action\":\"a b\"}", "steps[0].revert.action");
    expect_step_refused("\"revert\":{\"actor\":\"a b\"}", "steps[0].revert.actor");
    expect_step_refused("\"revert\":{\"lockMs\":1}", "steps[0].revert.lock_ms");
    expect_step_refused("\"revert\":{\"waitMs\":1}", "steps[0].revert.wait_ms");
    expect_step_refused("\"revert\":{\"retry\":{\"maximumAttempts\":2000000}}",
                        "steps[0].revert.retry.maximum_attempts");
    expect_step_refused("\"revert\":{\"arguments\":{\"contentType\":\"\\t\"}}",
                        "steps[0].revert.arguments.content_type");
}

static void test_refused_step_is_named(void **state)
{
    expect_reason("{\"steps\":[{\"name\":\"pay\",\"actor\":\"x\",\"after\":[\"order\"]}]}",
                  "step \"pay\": \"order\" is no step of this workflow");
    expect_reason("{\"steps\":[{\"name\":\"pay\",\"actor\":\"x\",\"lockMs\":\"-1\"}]}",
                  "step \"pay\": must be 100 to 2592000000 ms, or 0 for the default");
}

/* A quoted text is cut, also within a character. */
static void test_reasons_are_text(void **state)
{
    const char *head = "{\"steps\":[{\"name\":\"pay\",\"actor\":\"x\",\"after\":[\"";
    CLEANUP(buf_deinit) struct buf text = {0}, reason = {0};

    buf_printf(&text, "%sx", head);
    buf_puts(&reason, "step \"pay\": \"x");
    for (size_t i = 0; i < 100; i++)
        buf_puts(&text, "\u00e9");
    for (size_t i = 0; i < 63; i++)
        buf_puts(&reason, "\u00e9");
    buf_puts(&text, "\"]}]}");
    buf_puts(&reason, "?\" is no step of this workflow");
    expect_reason(buf_str(&text), buf_str(&reason));
}

static void test_refused_dependencies(void **state)
{
    expect_step_refused("\"after\":[\"zz\"]", "steps[0].after[0]");
    expect_step_refused("\"after\":[\"\"]", "steps[0].after[0]");
    expect_step_refused("\"after\":[\"a\"]", "steps[0].after");
    expect_step_refused("\"take\":[\"a\"]", "steps[0].take");
    expect_refused("{\"steps\":[{\"name\":\"a\",\"actor\":\"x\"},"
                   "{\"name\":\"b\",\"actor\":\"x\",\"after\":[\"a\",\"a\"]}]}",
                   "steps[1].after[1]");
    expect_refused("{\"steps\":[{\"name\":\"a\",\"actor\":\"x\"},{\"name\":\"b\",\"actor\":\"x\"},"
                   "{\"name\":\"c\",\"actor\":\"x\",\"after\":[\"a\"],\"take\":[\"b\"]}]}",
                   "steps[2].take[0]");
    expect_refused("{\"steps\":[{\"name\":\"a\",\"actor\":\"x\"},{\"name\":\"b\",\"actor\":\"x\"},"
                   "{\"name\":\"c\",\"actor\":\"x\",\"after\":[\"a\",\"b\"],"
                   "\"take\":[\"b\",\"b\"]}]}",
                   "steps[2].take[1]");
    expect_refused("{\"steps\":[{\"name\":\"a\",\"actor\":\"x\"},"
                   "{\"name\":\"c\",\"actor\":\"x\",\"after\":[\"a\"],\"take\":[\"a\"],"
                   "\"takeNone\":true}]}",
                   "steps[1].take_none");
}

static void test_cycles(void **state)
{
    expect_refused("{\"steps\":[{\"name\":\"a\",\"actor\":\"x\",\"after\":[\"b\"]},"
                   "{\"name\":\"b\",\"actor\":\"x\",\"after\":[\"a\"]}]}",
                   "steps[0].after");
    expect_refused("{\"steps\":[{\"name\":\"first\",\"actor\":\"x\"},"
                   "{\"name\":\"a\",\"actor\":\"x\",\"after\":[\"a\"]}]}",
                   "steps[1].after");
    expect_reason("{\"steps\":[{\"name\":\"first\",\"actor\":\"x\"},"
                  "{\"name\":\"a\",\"actor\":\"x\",\"after\":[\"a\"]}]}",
                  "step \"a\": a step cannot wait for itself");
    expect_reason("{\"steps\":[{\"name\":\"first\",\"actor\":\"x\"},"
                  "{\"name\":\"a\",\"actor\":\"x\",\"after\":[\"first\",\"b\"]},"
                  "{\"name\":\"b\",\"actor\":\"x\",\"after\":[\"a\"]}]}",
                  "cycle: \"b\" waits for \"a\", which waits for it in turn");
    /* The step that the error names is on the cycle, not only behind it. */
    expect_refused("{\"steps\":[{\"name\":\"behind\",\"actor\":\"x\",\"after\":[\"a\"]},"
                   "{\"name\":\"root\",\"actor\":\"x\"},"
                   "{\"name\":\"a\",\"actor\":\"x\",\"after\":[\"root\",\"c\"]},"
                   "{\"name\":\"b\",\"actor\":\"x\",\"after\":[\"a\"]},"
                   "{\"name\":\"c\",\"actor\":\"x\",\"after\":[\"b\"]}]}",
                   "steps[4].after");
}

static void test_refused_sizes(void **state)
{
    static uint8_t bytes[WIRE_INPUT_MAX + 1];
    Drover__V1__Payload payload = DROVER__V1__PAYLOAD__INIT;
    Drover__V1__Workflow *d = definition("{\"steps\":[{\"name\":\"a\",\"actor\":\"x\"},"
                                         "{\"name\":\"b\",\"actor\":\"x\"},"
                                         "{\"name\":\"c\",\"actor\":\"x\"},"
                                         "{\"name\":\"d\",\"actor\":\"x\"},"
                                         "{\"name\":\"e\",\"actor\":\"x\"}]}");
    struct workflow *w = NULL;
    struct problem problem;

    payload.data = (ProtobufCBinaryData){.data = bytes, .len = sizeof(bytes)};
    d->steps[1]->arguments = &payload;
    assert_int_equal(workflow_new(&w, d, "", &problem), WORKFLOW_E_INVALID);
    assert_string_equal(problem.field, "steps[1].arguments");

    payload.data.len = WIRE_INPUT_MAX;
    assert_int_equal(workflow_new(&w, d, "", &problem), 0);
    workflow_unref(w);

    for (size_t i = 0; i < 5; i++)
        d->steps[i]->arguments = &payload;
    assert_int_equal(workflow_new(&w, d, "definition", &problem), WORKFLOW_E_INVALID);
    assert_string_equal(problem.field, "definition");
    for (size_t i = 0; i < 5; i++)
        d->steps[i]->arguments = NULL;
    definition_free(d);
}

/* ---- size and speed ---- */

/* @steps in layers; each step waits for @width of those before it. */
static struct buf layered(int steps, int width)
{
    struct buf text = {0};

    buf_puts(&text, "{\"steps\":[");
    for (int i = 0; i < steps; i++) {
        buf_printf(&text, "%s{\"name\":\"step-%d\",\"actor\":\"worker\",\"after\":[", i ? "," : "",
                   i);
        for (int k = 1; k <= width && k <= i; k++)
            buf_printf(&text, "%s\"step-%d\"", k > 1 ? "," : "", i - k);
        buf_puts(&text, "]}");
    }
    buf_puts(&text, "]}");
    return text;
}

static void test_largest(void **state)
{
    CLEANUP(buf_deinit) struct buf text = layered(WIRE_STEPS_MAX, 10);
    Drover__V1__Workflow *d = definition(buf_str(&text));
    struct workflow *w;
    struct timespec before, after;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    assert_int_equal(workflow_new(&w, d, "", NULL), 0);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    print_message("# %d steps, %" PRIu32 " dependencies: %.1f ms\n", WIRE_STEPS_MAX, w->n_edges,
                  (double)(after.tv_sec - before.tv_sec) * 1e3 +
                      (double)(after.tv_nsec - before.tv_nsec) / 1e6);
    assert_int_equal(w->n_edges, 10 * WIRE_STEPS_MAX - 55);
    assert_int_equal(w->steps[5].n_dependents, 10);
    assert_int_equal(workflow_find(w, bytes_str("step-9999")), 9999);
    workflow_unref(w);
    definition_free(d);
}

static void test_one_too_many(void **state)
{
    CLEANUP(buf_deinit) struct buf steps = layered(WIRE_STEPS_MAX + 1, 0);
    CLEANUP(buf_deinit) struct buf edges = layered(WIRE_STEPS_MAX, 11);

    expect_refused(buf_str(&steps), "steps");
    expect_refused(buf_str(&edges), "steps");
}

/* A chain in reverse order, with a cycle at its far end: no function recurses. */
static void test_long_cycle(void **state)
{
    CLEANUP(buf_deinit) struct buf text = {0};

    buf_puts(&text, "{\"steps\":[");
    for (int i = 0; i < WIRE_STEPS_MAX; i++)
        buf_printf(&text, "%s{\"name\":\"s%d\",\"actor\":\"x\",\"after\":[\"s%d\"]}", i ? "," : "",
                   i, i < WIRE_STEPS_MAX - 1 ? i + 1 : WIRE_STEPS_MAX - 2);
    buf_puts(&text, "]}");
    expect_refused(buf_str(&text), "steps[9998].after");
}

/* The smallest valid definition stays within the memory that its size allows. */
static void test_smallest_definition(void **state)
{
    CLEANUP(buf_deinit) struct buf text = {0};

    buf_puts(&text, "{\"steps\":[");
    for (int i = 0; i < WIRE_STEPS_MAX; i++)
        buf_printf(&text, "%s{\"name\":\"%x\",\"actor\":\"x\"}", i ? "," : "", i);
    buf_puts(&text, "]}");
    CLEANUP(workflow_unref) struct workflow *w = good(buf_str(&text));

    assert_int_equal(w->n_roots, WIRE_STEPS_MAX);
    assert_int_equal(w->n_sinks, WIRE_STEPS_MAX);
}

/* The workflow that @text makes takes about as much memory as it reports. */
static void expect_held(const char *text)
{
    Drover__V1__Workflow *d = definition(text);
    struct workflow *w = NULL;
    long held;

    memory_measure();
    assert_int_equal(workflow_new(&w, d, "", NULL), 0);
    held = memory_held();
    print_message("# %ld bytes, said to be %zu\n", held, w->memory);
    assert_in_range(w->memory, held * 2 / 3, held * 3 / 2);
    workflow_unref(w);
    definition_free(d);
}

static void test_memory(void **state)
{
    CLEANUP(buf_deinit) struct buf lone = layered(1000, 0), linked = layered(1000, 10);
    CLEANUP(buf_deinit) struct buf heavy = {0}, rich = {0};

    expect_held("{\"name\":\"order\",\"version\":3,\"steps\":[{\"name\":\"a\",\"actor\":\"x\"}]}");
    expect_held(buf_str(&lone));
    expect_held(buf_str(&linked));
    buf_puts(&heavy, "{\"steps\":[{\"name\":\"a\",\"actor\":\"x\",\"arguments\":{\"text\":\"");
    for (int i = 0; i < 50000; i++)
        buf_puts(&heavy, "a");
    buf_puts(&heavy, "\"}}]}");
    expect_held(buf_str(&heavy));
    buf_puts(&rich, "{\"steps\":[");
    for (int i = 0; i < 100; i++)
        buf_printf(&rich,
                   "%s{\"name\":\"s%d\",\"actor\":\"x\",\"retry\":{\"maximumAttempts\":3},"
                   "\"arguments\":{\"text\":\"do\"},\"revert\":{\"action\":\"undo\","
                   "\"retry\":{\"maximumAttempts\":3},\"arguments\":{\"text\":\"undo\"}}}",
                   i ? "," : "", i);
    buf_puts(&rich, "]}");
    expect_held(buf_str(&rich));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_diamond),
        cmocka_unit_test(test_take),
        cmocka_unit_test(test_leases_and_policies),
        cmocka_unit_test(test_tries),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_order_of_dependencies_does_not_matter),
        cmocka_unit_test(test_canonical_form_reads_back),
        cmocka_unit_test(test_unknown_fields_are_dropped),
        cmocka_unit_test(test_invalid_encoded_workflows),
        cmocka_unit_test(test_refused_head),
        cmocka_unit_test(test_refused_step),
        cmocka_unit_test(test_refused_dependencies),
        cmocka_unit_test(test_refused_step_is_named),
        cmocka_unit_test(test_reasons_are_text),
        cmocka_unit_test(test_cycles),
        cmocka_unit_test(test_refused_sizes),
        cmocka_unit_test(test_largest),
        cmocka_unit_test(test_one_too_many),
        cmocka_unit_test(test_long_cycle),
        cmocka_unit_test(test_smallest_definition),
        cmocka_unit_test(test_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
