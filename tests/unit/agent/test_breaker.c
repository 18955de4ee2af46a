// SPDX-License-Identifier: Apache-2.0
/*
 * Breaker: every transition, as a narrative in virtual time
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/breaker.h"
#include "base/str.h"

/* Opens with the third failure in a row, for 100 ms, then 200, 400, ... at most 500. */
static const struct breaker_config CONFIG = {.failures = 3, .open_ms = 100, .open_max_ms = 500};

#define CALLS 16

struct world {
    struct breaker breaker;
    struct breaker_call calls[CALLS]; /* in the order in which they were admitted */
    size_t n_calls;
    struct buf story;
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    w->breaker.config = CONFIG;
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    buf_deinit(&w->story);
    free(w);
    return 0;
}

static char letter(const struct world *w)
{
    static const char letters[] = {
        [BREAKER_CLOSED] = 'C', [BREAKER_OPEN] = 'O', [BREAKER_HALF_OPEN] = 'H'};

    return letters[w->breaker.state];
}

/*
 * A story is words: "+" asks for a call, "a!" reports that call a failed, "a." that it was
 * answered, "a?" that it was given up, "a!250" that it failed and the target asks for a pause of
 * 250 ms. "@100" sets the clock. The outcome is words, too: "+a" call a was admitted, "+a*" it was
 * admitted as the probe, "-80" no call for 80 ms, "!" a failure opened the breaker, "." an answer
 * closed it. Each word ends with the state.
 */
static void ask(struct world *w, int64_t now)
{
    struct breaker_call *call = &w->calls[w->n_calls];
    int64_t wait = -1;

    assert_true(w->n_calls < CALLS);
    if (breaker_admit(&w->breaker, now, call, &wait)) {
        assert_int_equal(wait, -1);
        buf_printf(&w->story, "+%c%s", (char)('a' + (char)w->n_calls++), call->probe ? "*" : "");
    } else {
        assert_true(wait >= 1);
        buf_printf(&w->story, "-%d", (int)wait);
    }
}

static void end(struct world *w, int64_t now, const char *word)
{
    const struct breaker_call *call = &w->calls[word[0] - 'a'];

    assert_true((size_t)(word[0] - 'a') < w->n_calls);
    if (word[1] == '!')
        buf_puts(&w->story, breaker_failed(&w->breaker, call, now, atoi(word + 2)) ? "!" : "");
    else if (word[1] == '.')
        buf_puts(&w->story, breaker_succeeded(&w->breaker, call) ? "." : "");
    else
        breaker_abandoned(&w->breaker, call, now);
}

static void tell(struct world *w, const char *words, const char *expected)
{
    CLEANUP(free) char *copy = strdup(words);
    int64_t now = 0;

    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) {
        if (word[0] == '@') {
            now = atoi(word + 1);
            continue;
        }
        if (w->story.len > 0)
            buf_putc(&w->story, ' ');
        if (word[0] == '+')
            ask(w, now);
        else
            end(w, now, word);
        buf_putc(&w->story, letter(w));
    }
    if (strcmp(buf_str(&w->story), expected) != 0)
        fail_msg("%s\nis     %s\nnot    %s", words, buf_str(&w->story), expected);
}

static void test_opens_after_failures_in_a_row(void **state)
{
    tell(*state, "+ a! + b! + c! + @99 + ", "+aC C +bC C +cC !O -100O -1O");
}

static void test_an_answer_resets_the_count(void **state)
{
    tell(*state, "+ a! + b! + c. + d! + e! + f!", "+aC C +bC C +cC C +dC C +eC C +fC !O");
}

/* Of concurrent calls each failure counts. */
static void test_concurrent_failures(void **state)
{
    tell(*state, "+ + + + a! b! c! d!", "+aC +bC +cC +dC C C !O O");
}

static void test_one_probe_closes(void **state)
{
    tell(*state, "+ + + a! b! c! @100 + + d. + +", "+aC +bC +cC C C !O +d*H -1000H .C +eC +fC");
}

static void test_closed_breaker_counts_from_zero(void **state)
{
    tell(*state, "+ + + a! b! c! @100 + d. + + + e! f! + g!",
         "+aC +bC +cC C C !O +d*H .C +eC +fC +gC C C +hC !O");
}

static void test_each_failed_probe_doubles(void **state)
{
    tell(*state,
         "+ + + a! b! c! @100 + d! + @299 + @300 + e! + @700 + f! + @1200 + g! + @1700 + h. "
         "+ + + i! j! k! +",
         "+aC +bC +cC C C !O +d*H !O -200O -1O +e*H !O -400O +f*H !O -500O +g*H !O -500O +h*H .C "
         "+iC +jC +kC C C !O -100O");
}

/* The probe of a service that hangs takes long: the longer the outage, the less the others ask. */
static void test_waiting_for_the_probe(void **state)
{
    struct world *w = *state;

    w->breaker.config =
        (struct breaker_config){.failures = 1, .open_ms = 5000, .open_max_ms = 60000};
    tell(w, "+ a! @5000 + + b! @15000 + + c. +", "+aC !O +b*H -2500H !O +c*H -5000H .C +dC");
}

/* A call that began before the breaker opened says nothing about the target now. */
static void test_late_ends(void **state)
{
    struct world *w = *state;

    tell(w, "+ + + + + a! b! c! d! e. @100 + d! d. e. e? f.",
         "+aC +bC +cC +dC +eC C C !O O O +f*H H H H H .C");
}

static void test_late_ends_after_closing(void **state)
{
    tell(*state, "+ + + + + a! b! c! @100 + f. + + g! d! e! h! + i!",
         "+aC +bC +cC +dC +eC C C !O +f*H .C +gC +hC C C C C +iC !O");
}

static void test_a_late_answer_does_not_reset_the_count(void **state)
{
    tell(*state, "+ + + + a! b! c! @100 + e. + + f! g! d. + h!",
         "+aC +bC +cC +dC C C !O +e*H .C +fC +gC C C C +hC !O");
}

/* A probe that was given up makes room for the next one, and does not prolong the outage. */
static void test_abandoned_probe(void **state)
{
    tell(*state, "+ + + a! b! c! @100 + @150 + d? + + e! +",
         "+aC +bC +cC C C !O +d*H -1000H O +e*H -1000H !O -200O");
}

static void test_abandoned_probe_tells_nothing_afterwards(void **state)
{
    tell(*state, "+ + + a! b! c! @100 + d? d. d! d? + d? d. d! + e.",
         "+aC +bC +cC C C !O +d*H O O O O +e*H H H H -1000H .C");
}

static void test_abandoned_call(void **state)
{
    tell(*state, "+ + + a! b? c! + d!", "+aC +bC +cC C C C +dC !O");
}

/* The breaker waits as long as the target asks, at most open_max; that time is not doubled. */
static void test_pause_that_the_target_asks_for(void **state)
{
    tell(*state, "+ + + a! b! c!250 + @250 + d!50 + @450 + e!9999 + @950 + f. +",
         "+aC +bC +cC C C !O -250O +d*H !O -200O +e*H !O -500O +f*H .C +gC");
}

static void test_pause_asked_for_while_closed(void **state)
{
    tell(*state, "+ + + a!400 b! c! +", "+aC +bC +cC C C !O -100O");
}

static void test_one_failure_is_enough(void **state)
{
    struct world *w = *state;

    w->breaker.config = (struct breaker_config){.failures = 1, .open_ms = 500, .open_max_ms = 500};
    tell(w, "+ a! + @500 + b! + @1000 + c.", "+aC !O -500O +b*H !O -500O +c*H .C");
}

/* Times of a machine that has been up for long, and the largest configuration. */
static void test_large_times(void **state)
{
    struct world *w = *state;
    int64_t now = INT64_MAX / 2, wait, hour = 3600000;
    struct breaker_call call;

    w->breaker.config =
        (struct breaker_config){.failures = 1, .open_ms = hour, .open_max_ms = hour};
    assert_true(breaker_admit(&w->breaker, now, &call, &wait));
    assert_true(breaker_failed(&w->breaker, &call, now, INT64_MAX));
    assert_false(breaker_admit(&w->breaker, now, &call, &wait));
    assert_int_equal(wait, hour);
    assert_true(breaker_admit(&w->breaker, now + hour, &call, &wait));
    assert_true(call.probe);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_opens_after_failures_in_a_row),
        TEST(test_an_answer_resets_the_count),
        TEST(test_concurrent_failures),
        TEST(test_one_probe_closes),
        TEST(test_closed_breaker_counts_from_zero),
        TEST(test_each_failed_probe_doubles),
        TEST(test_waiting_for_the_probe),
        TEST(test_late_ends),
        TEST(test_late_ends_after_closing),
        TEST(test_a_late_answer_does_not_reset_the_count),
        TEST(test_abandoned_probe),
        TEST(test_abandoned_probe_tells_nothing_afterwards),
        TEST(test_abandoned_call),
        TEST(test_pause_that_the_target_asks_for),
        TEST(test_pause_asked_for_while_closed),
        TEST(test_one_failure_is_enough),
        TEST(test_large_times),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
