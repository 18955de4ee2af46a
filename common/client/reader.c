// SPDX-License-Identifier: Apache-2.0
/*
 * Reader: answers Query, History and ListJobs from the store, on a loop of its own
 *
 * See client/reader.h. Called by session.c, for a session of session_new_from_store().
 */
#include "client/reader.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "base/clock.h"
#include "client/session.h"
#include "io/config/config_connections.h"
#include "io/hosts.h"
#include "io/store/store.h"
#include "model/history.h"
#include "model/listing.h"
#include "model/status.h"
#include "model/store_ops.h"

#define CONNECT_MS 3000 /* a Redis that is up accepts a connection within milliseconds */

struct reader {
    uv_loop_t loop;
    uv_timer_t timer;
    struct store *store;
    struct config *config;
    struct effects fx; /* of the question in progress */
    char why[400];
    bool refused;
    bool closed;

    /* the call in progress */
    bool answered;
    struct store_answer *answer; /* a copy; NULL if the call has failed */

    struct workflow *definition; /* of the last job; NULL for none */
};

/* ---- waiting ---- */

static void on_refused(void *ctx, const char *why)
{
    struct reader *r = ctx;

    r->refused = true;
    snprintf(r->why, sizeof(r->why), "%s", why);
}

static void on_answer(void *ctx, const struct store_answer *answer)
{
    const struct ops_reader rest = ops_reader(answer);
    struct reader *r = ctx;

    r->answered = true;
    if (answer->result == STORE_OK)
        r->answer = ops_answer_copy(&rest);
    else if (answer->result == STORE_UNKNOWN)
        snprintf(r->why, sizeof(r->why), "the connection to Redis was lost");
    else
        snprintf(r->why, sizeof(r->why), "Redis refuses: %.*s", (int)answer->items[0].len,
                 (const char *)answer->items[0].data);
}

static void on_closed(void *ctx)
{
    struct reader *r = ctx;

    r->closed = true;
}

static void on_timer(uv_timer_t *timer)
{
}

static bool is_connected(const struct reader *r)
{
    return r->refused || store_up(r->store);
}

static bool is_answered(const struct reader *r)
{
    return r->answered;
}

static bool is_closed(const struct reader *r)
{
    return r->closed;
}

static void run_until(struct reader *r, bool (*done)(const struct reader *), int64_t deadline)
{
    for (int64_t now = clock_monotonic_ms(); !done(r) && now < deadline;
         now = clock_monotonic_ms()) {
        uv_update_time(&r->loop);
        if (deadline != SESSION_FOREVER)
            uv_timer_start(&r->timer, on_timer, (uint64_t)(deadline - now), 0);
        uv_run(&r->loop, UV_RUN_ONCE);
    }
    if (done != is_closed)
        uv_timer_stop(&r->timer);
}

static void describe_unreachable(struct reader *r)
{
    const struct config *c = r->config;
    const char *what = *c->redis.master_name ? "a primary by the Sentinels" : "Redis";
    char place[256];

    if (*c->redis.socket)
        snprintf(place, sizeof(place), "%s", c->redis.socket);
    else
        hosts_describe(place, sizeof(place), c->redis.host, (int)c->redis.port);
    snprintf(r->why, sizeof(r->why), "cannot reach %s at %s", what, place);
}

static int connected(struct reader *r, int64_t deadline)
{
    int64_t limit = clock_monotonic_ms() + CONNECT_MS;

    run_until(r, is_connected, limit < deadline ? limit : deadline);
    if (store_up(r->store))
        return 0;
    if (!r->refused)
        describe_unreachable(r);
    return SESSION_E_UNREACHABLE;
}

/* Makes the store call that is the last one in the effects. @out: the caller frees it with free().
 */
static int call(struct reader *r, int64_t deadline, struct store_answer **out)
{
    const struct effect *e = &r->fx.items[r->fx.n - 1];
    int ret;

    r->answered = false;
    r->answer = NULL;
    ret = store_call(r->store, e->store.partition, e->store.function, e->store.args, e->store.n,
                     on_answer, r);
    if (ret)
        return ret;
    run_until(r, is_answered, deadline);
    if (!r->answered) {
        snprintf(r->why, sizeof(r->why), "Redis has not answered in time");
        return SESSION_E_TIMEOUT;
    }
    *out = r->answer;
    return *out ? 0 : SESSION_E_UNREACHABLE;
}

/* ---- answering ---- */

/* Encodes and decodes an answer, so that the caller gets what a scheduler would have sent. */
static int hand_over(const Drover__V1__Answer *m, struct wire_message *answer)
{
    CLEANUP(buf_deinit) struct buf body = {0};
    int ret = wire_encode(&m->base, false, &body);

    if (ret == 0)
        ret = wire_decode(WIRE_ANSWER, buf_bytes(&body), NULL, answer, NULL);
    return ret > 0 ? -EMSGSIZE : ret;
}

static int broken(struct reader *r)
{
    snprintf(r->why, sizeof(r->why), "Redis has answered what this program does not know");
    return SESSION_E_UNREACHABLE;
}

static int load_definition(struct reader *r, uint32_t partition, struct bytes digest,
                           int64_t deadline)
{
    CLEANUP(free) struct store_answer *answer = NULL;
    struct problem problem = {0};
    struct ops_reader rest;
    struct bytes encoded;
    int ret;

    if (r->definition && bytes_is(digest, r->definition->digest))
        return 0;
    r->definition = workflow_unref(r->definition);
    ops_inspect_definition(&r->fx, 0, partition, effects_text(&r->fx, digest));
    ret = call(r, deadline, &answer);
    if (ret)
        return ret;
    rest = ops_reader(answer);
    if (ops_read_definition(&rest, &encoded) ||
        workflow_new_from_bytes(&r->definition, encoded, "definition", &problem))
        return broken(r);
    return 0;
}

static int answer_query(struct reader *r, const Drover__V1__Control *m, int64_t deadline,
                        struct wire_message *out)
{
    CLEANUP(free) struct store_answer *answer = NULL;
    Drover__V1__Answer a = DROVER__V1__ANSWER__INIT;
    Drover__V1__JobStatus status = DROVER__V1__JOB_STATUS__INIT;
    uint32_t partition = id_partition(m->job_id, store_partitions(r->store));
    struct ops_reader rest;
    struct ops_job job;
    int ret;

    ops_inspect_job(&r->fx, 0, partition, m->job_id, m->query->from_step, m->query->max_steps,
                    m->query->with_data, NULL);
    ret = call(r, deadline, &answer);
    if (ret)
        return ret;
    a.job_id = m->job_id;
    a.command_id = m->command_id;
    rest = ops_reader(answer);
    ret = ops_read_job(&rest, &r->fx, &job);
    if (ret > 0) {
        a.code = DROVER__V1__ANSWER_CODE__ANSWER_CODE_UNKNOWN_JOB;
        return hand_over(&a, out);
    }
    ret = ret ? broken(r) : load_definition(r, partition, job.definition, deadline);
    if (ret)
        return ret;
    a.code = DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE;
    a.status = &status;
    status_job(&r->fx, &status, bytes_str(m->job_id), &job);
    status_steps(&r->fx, &status, &job, r->definition);
    ret = hand_over(&a, out);
    status_steps_free(&status);
    return ret;
}

static int answer_history(struct reader *r, const Drover__V1__Control *m, int64_t deadline,
                          struct wire_message *out)
{
    CLEANUP(free) struct store_answer *answer = NULL;
    Drover__V1__Answer a = DROVER__V1__ANSWER__INIT;
    uint32_t partition = id_partition(m->job_id, store_partitions(r->store));
    struct ops_history found;
    struct ops_reader rest;
    int ret;

    ops_inspect_history(&r->fx, 0, partition, m->job_id, m->history->from_seq, WIRE_PAGE_MAX, NULL);
    ret = call(r, deadline, &answer);
    if (ret)
        return ret;
    a.job_id = m->job_id;
    a.command_id = m->command_id;
    rest = ops_reader(answer);
    ret = ops_read_history(&rest, &r->fx, &found);
    if (ret > 0) {
        a.code = DROVER__V1__ANSWER_CODE__ANSWER_CODE_UNKNOWN_JOB;
        return hand_over(&a, out);
    }
    ret = ret ? broken(r) : load_definition(r, partition, found.definition, deadline);
    if (ret)
        return ret;
    a.code = DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE;
    history_entries(&r->fx, &a, &found, r->definition);
    while ((ret = hand_over(&a, out)) == -EMSGSIZE && a.n_history > 1)
        a.n_history /= 2;
    return ret;
}

/* Asks a partition until it needs no further call. */
static int list_partition(struct reader *r, struct listing *l, uint32_t partition, int64_t deadline)
{
    int ret = 1;

    while (ret > 0) {
        CLEANUP(free) struct store_answer *answer = NULL;
        struct ops_reader rest;

        listing_call(l, &r->fx, 0, partition);
        ret = call(r, deadline, &answer);
        if (ret)
            return ret;
        rest = ops_reader(answer);
        ret = listing_take(l, &r->fx, &rest);
    }
    return ret < 0 ? broken(r) : 0;
}

static int answer_list(struct reader *r, const Drover__V1__Control *m, int64_t deadline,
                       struct wire_message *out)
{
    CLEANUP(listing_free) struct listing *l = NULL;
    Drover__V1__Answer a = DROVER__V1__ANSWER__INIT;
    int ret = listing_new(&l, m->list_jobs, NULL);

    a.command_id = m->command_id;
    if (ret > 0) {
        a.code = DROVER__V1__ANSWER_CODE__ANSWER_CODE_INVALID;
        a.reason = "list_jobs.after: must be the `next` of an answer";
        return hand_over(&a, out);
    }
    for (uint32_t i = 0; i < store_partitions(r->store) && ret == 0; i++)
        ret = list_partition(r, l, i, deadline);
    if (ret)
        return ret;
    a.code = DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE;
    listing_page(l, &r->fx, &a);
    listing_next(l, &r->fx, &a);
    ret = hand_over(&a, out);
    listing_free_page(l, &a);
    return ret;
}

int reader_ask(struct reader *r, const Drover__V1__Control *m, int64_t deadline,
               struct wire_message *answer)
{
    int ret = connected(r, deadline);

    if (ret)
        return ret;
    effects_reset(&r->fx);
    if (m->command_case == DROVER__V1__CONTROL__COMMAND_QUERY)
        return answer_query(r, m, deadline, answer);
    if (m->command_case == DROVER__V1__CONTROL__COMMAND_HISTORY)
        return answer_history(r, m, deadline, answer);
    assert(m->command_case == DROVER__V1__CONTROL__COMMAND_LIST_JOBS);
    return answer_list(r, m, deadline, answer);
}

const char *reader_why(const struct reader *r)
{
    return r->why;
}

/* ---- start and stop ---- */

static int store_start(struct reader *r)
{
    static const struct store_callbacks callbacks = {.on_refused = on_refused};
    struct store_config config = config_store(r->config);

    config.read_only = true;
    return store_new(&r->store, &r->loop, &config, &callbacks, r);
}

int reader_new(struct reader **out, struct config *config)
{
    struct reader *r = calloc(1, sizeof(*r));
    int ret = r ? uv_loop_init(&r->loop) : -ENOMEM;

    if (ret) {
        config_free(config);
        free(r);
        return ret;
    }
    r->config = config;
    ret = uv_timer_init(&r->loop, &r->timer);
    if (ret == 0)
        ret = store_start(r);
    if (ret)
        reader_free(r);
    else
        *out = r;
    return ret;
}

static void close_handle(uv_handle_t *handle, void *arg)
{
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

struct reader *reader_free(struct reader *r)
{
    if (!r)
        return NULL;
    if (r->store) {
        store_close(r->store, on_closed);
        run_until(r, is_closed, SESSION_FOREVER);
        store_free(r->store);
    }
    uv_walk(&r->loop, close_handle, NULL);
    while (uv_run(&r->loop, UV_RUN_DEFAULT) != 0)
        ;
    uv_loop_close(&r->loop);
    config_free(r->config);
    workflow_unref(r->definition);
    effects_deinit(&r->fx);
    free(r);
    return NULL;
}
