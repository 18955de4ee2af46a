// SPDX-License-Identifier: Apache-2.0
/*
 * Listing: how the answers of the partitions become a page, and where the next page begins
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/listing.h"
#include "model/store_schema.h"
#include "model/wire.h"

struct world {
    Drover__V1__ListJobs query;
    struct listing *listing;
    struct effects fx;
};

static int setup(void **state)
{
    static struct world w;

    memset(&w, 0, sizeof(w));
    drover__v1__list_jobs__init(&w.query);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    listing_free(w->listing);
    effects_deinit(&w->fx);
    return 0;
}

static void begin(struct world *w)
{
    assert_int_equal(listing_new(&w->listing, &w->query, NULL), 0);
}

/* @said: "before id since limit phase workflow needs class actor label...", of the next call. */
static void expect_call(struct world *w, const char *said)
{
    CLEANUP(buf_deinit) struct buf text = {0};
    const struct effect *e;

    listing_call(w->listing, &w->fx, 1, 0);
    e = &w->fx.items[w->fx.n - 1];
    for (int i = 1; i < e->store.n; i++)
        buf_printf(&text, "%s%.*s", i > 1 ? " " : "", (int)e->store.args[i].len,
                   (const char *)e->store.args[i].data);
    assert_string_equal(buf_str(&text), said);
}

/* The partition answers with jobs such as "9.b 8.a": the time of creation and the id of each. It
 * has scanned as far as @last, such as "8.a"; @more: it has more jobs. */
static int found(struct world *w, const char *jobs, const char *last, bool more)
{
    struct bytes items[AT_JOB_LIST_VALUES + 8 * AT_LISTED_JOB_VALUES] = {0};
    char *text = effects_text(&w->fx, bytes_str(jobs)), *save = NULL;
    char *at = effects_text(&w->fx, bytes_str(last)), *id = strchr(at, '.');
    uint32_t n = 0;
    struct bytes *job = items + AT_JOB_LIST_VALUES;
    struct store_answer answer = {.items = items};
    struct ops_reader r;

    for (char *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        char *dot = strchr(word, '.');

        job[AT_LISTED_JOB_JOB_ID] = bytes_str(dot + 1);
        job[AT_LISTED_JOB_JOB_FIELDS + AT_JOB_FIELDS_CREATED] =
            bytes_of(word, (size_t)(dot - word));
        job += AT_LISTED_JOB_VALUES;
        n++;
    }
    items[AT_JOB_LIST_CODE] = bytes_str("FOUND");
    items[AT_JOB_LIST_NOW] = bytes_str("99");
    items[AT_JOB_LIST_MORE] = bytes_str(more ? "1" : "0");
    items[AT_JOB_LIST_LAST] = id ? bytes_of(at, (size_t)(id - at)) : bytes_str(at);
    items[AT_JOB_LIST_LAST_ID] = bytes_str(id ? id + 1 : "");
    items[AT_JOB_LIST_N] = bytes_str(effects_printf(&w->fx, "%u", (unsigned)n));
    answer.n = (uint32_t)(job - items);
    r = ops_reader(&answer);
    return listing_take(w->listing, &w->fx, &r);
}

/* @said: the jobs of the page, and after a bar where the next page begins. Only @fit jobs fit. */
static void expect_page(struct world *w, size_t fit, const char *said)
{
    CLEANUP(buf_deinit) struct buf text = {0};
    Drover__V1__Answer m = DROVER__V1__ANSWER__INIT;

    listing_page(w->listing, &w->fx, &m);
    if (fit < m.n_jobs)
        m.n_jobs = fit;
    for (size_t i = 0; i < m.n_jobs; i++)
        buf_printf(&text, "%" PRId64 ".%s ", m.jobs[i]->created, m.jobs[i]->job_id);
    listing_next(w->listing, &w->fx, &m);
    buf_printf(&text, "| %s", m.next);
    listing_free_page(w->listing, &m);
    assert_string_equal(buf_str(&text), said);
}

static void test_calls(void **state)
{
    struct world *w = *state;
    Drover__V1__Label labels[2] = {DROVER__V1__LABEL__INIT, DROVER__V1__LABEL__INIT};
    Drover__V1__Label *list[] = {&labels[0], &labels[1]};

    begin(w);
    expect_call(w, "+inf  0 50     ");
    w->listing = listing_free(w->listing);

    labels[0].name = (char *)"shop";
    labels[0].value = (char *)"a b";
    labels[1].name = (char *)"eu";
    w->query.labels = list;
    w->query.n_labels = 2;
    w->query.phase = DROVER__V1__PHASE__PHASE_ERROR;
    w->query.workflow = (char *)"order@2";
    w->query.since = 5;
    w->query.before = 9; /* jobs created at 9 are not included */
    w->query.limit = WIRE_LIST_MAX + 1;
    begin(w);
    expect_call(w, "8  5 200 ERROR order@2    shop=a b eu=");
    w->listing = listing_free(w->listing);

    w->query.n_labels = 0;
    w->query.phase = (Drover__V1__Phase)77; /* of a newer client */
    w->query.after = (char *)"7.some-job";
    begin(w);
    expect_call(w, "7 some-job 5 200 none order@2   ");
    w->listing = listing_free(w->listing);

    w->query = (Drover__V1__ListJobs)DROVER__V1__LIST_JOBS__INIT;
    w->query.actor = (char *)"payment"; /* known only of jobs that need a person */
    begin(w);
    expect_call(w, "+inf  0 50   any  payment");
    w->listing = listing_free(w->listing);
    w->query.needs = DROVER__V1__NEED__NEED_ENDED;
    w->query.error_class = (char *)"DECLINED";
    begin(w);
    expect_call(w, "+inf  0 50   ended DECLINED payment");
}

static void test_cursors(void **state)
{
    static const char *const bad[] = {"x",   "7", "7.", ".a", "7.a b", "99999999999999999999.a",
                                      "-7.a"};
    struct world *w = *state;
    char longest[ID_NAME_MAX + 4] = "7.";

    for (size_t i = 0; i < array_size(bad); i++) {
        w->query.after = (char *)bad[i];
        assert_int_equal(listing_new(&w->listing, &w->query, NULL), 1);
        assert_null(w->listing);
    }
    memset(longest + 2, 'a', ID_NAME_MAX + 1);
    w->query.after = longest;
    assert_int_equal(listing_new(&w->listing, &w->query, NULL), 1);
    longest[ID_NAME_MAX + 2] = '\0';
    begin(w);
}

static void test_merging(void **state)
{
    struct world *w = *state;

    w->query.limit = 5;
    begin(w);
    assert_int_equal(found(w, "9.b 7.a", "7.a", false), 0);
    assert_int_equal(found(w, "8.d 7.c", "7.c", false), 0);
    expect_page(w, 5, "9.b 8.d 7.c 7.a | ");
    w->listing = listing_free(w->listing);

    begin(w); /* one job does not fit into the message */
    assert_int_equal(found(w, "9.b 7.a", "7.a", false), 0);
    expect_page(w, 1, "9.b | 9.b");
}

/* Partitions are not asked for jobs older than a full page; the next page has them. */
static void test_full_page(void **state)
{
    struct world *w = *state;

    w->query.limit = 2;
    begin(w);
    assert_int_equal(found(w, "9.b 7.a", "7.a", false), 0);
    expect_call(w, "+inf  7 2     ");
    assert_int_equal(found(w, "8.d 7.c", "7.c", false), 0);
    expect_call(w, "+inf  8 2     ");
    assert_int_equal(found(w, "", "+inf", false), 0);
    expect_page(w, 2, "9.b 8.d | 8.d");
    w->listing = listing_free(w->listing);

    w->query.since = 8; /* with this the page has all jobs of the query */
    begin(w);
    assert_int_equal(found(w, "9.b", "9.b", false), 0);
    assert_int_equal(found(w, "8.d", "8.d", false), 0);
    expect_page(w, 2, "9.b 8.d | ");
}

/* The further answers of a partition that finds no more jobs. It is not asked to go on after 60.x.
 */
static void stop_scan(struct world *w)
{
    for (int i = 1; i < 7; i++) {
        char last[16];

        snprintf(last, sizeof(last), "%d.x", 80 - i);
        assert_int_equal(found(w, "", last, true), 1);
    }
    assert_int_equal(found(w, "", "60.x", true), 0);
}

/* A partition that has scanned many jobs and found few is asked to go on, eight times. The jobs
 * that it has not scanned may be newer than those of other partitions: the page ends before them.
 */
static void test_partitions_that_find_few(void **state)
{
    struct world *w = *state;

    w->query.limit = 3;
    begin(w);
    assert_int_equal(found(w, "90.a", "80.x", true), 1);
    expect_call(w, "80 x 0 2     ");
    stop_scan(w);
    assert_int_equal(found(w, "95.b 50.c", "50.c", false), 0);
    expect_page(w, 3, "95.b 90.a | 60.x");
    w->listing = listing_free(w->listing);

    begin(w); /* the partition that has scanned the least decides */
    assert_int_equal(found(w, "90.a 89.b 88.c", "88.c", true), 0);
    assert_int_equal(found(w, "93.d 92.e 91.f", "91.f", true), 0);
    assert_int_equal(found(w, "99.g", "99.g", false), 0);
    expect_page(w, 3, "99.g 93.d 92.e | 92.e");
}

/* Another partition fills the page, but after 60.x the first one may have jobs that are newer. */
static void test_full_page_of_a_partial_scan(void **state)
{
    struct world *w = *state;

    w->query.limit = 3;
    begin(w);
    assert_int_equal(found(w, "90.a", "80.x", true), 1);
    stop_scan(w);
    assert_int_equal(found(w, "95.b 50.c 40.d", "40.d", false), 0);
    expect_page(w, 3, "95.b 90.a | 60.x");
}

/* A partition whose scan does not advance is not asked for ever. */
static void test_scan_that_does_not_advance(void **state)
{
    struct world *w = *state;

    begin(w);
    assert_int_equal(found(w, "", "80", true), 1);
    assert_int_equal(found(w, "", "80.x", true), 1); /* within the jobs of one time */
    assert_int_equal(found(w, "", "80.x", true), 0);
    assert_int_equal(found(w, "", "90.x", true), 1);
    assert_int_equal(found(w, "", "90.y", true), 0);
}

/* A partition that answers with more jobs than asked for: the additional ones are left out. */
static void test_more_jobs_than_asked_for(void **state)
{
    struct world *w = *state;

    w->query.limit = 1;
    begin(w);
    assert_int_equal(found(w, "9.b 8.a", "8.a", false), 0);
    assert_int_equal(found(w, "9.c", "9.c", false), 0);
    assert_int_equal(found(w, "9.a", "9.a", false), 0);
    expect_page(w, 1, "9.c | 9.c");
}

static void test_no_jobs(void **state)
{
    static const struct bytes broken[] = {{(const uint8_t *)"FOUND", 5}, {(const uint8_t *)"x", 1}};
    struct world *w = *state;

    begin(w);
    for (uint32_t n = 0; n <= array_size(broken); n++) {
        struct ops_reader r = ops_reader(&(struct store_answer){.items = broken, .n = n});

        assert_true(listing_take(w->listing, &w->fx, &r) < 0);
    }
    assert_int_equal(found(w, "", "+inf", false), 0);
    expect_page(w, 50, "| ");
    assert_null(listing_free(NULL));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_calls),
        TEST(test_cursors),
        TEST(test_merging),
        TEST(test_full_page),
        TEST(test_partitions_that_find_few),
        TEST(test_full_page_of_a_partial_scan),
        TEST(test_scan_that_does_not_advance),
        TEST(test_more_jobs_than_asked_for),
        TEST(test_no_jobs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
