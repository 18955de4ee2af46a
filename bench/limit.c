// SPDX-License-Identifier: Apache-2.0
/*
 * The bare loop: what any durable scheduler must do, and nothing else
 *
 * A job is a chain of steps. For each step: a persistent request to the agent's queue, a persistent
 * reply that the broker confirms before the request is acknowledged, and two blocking calls to the
 * store that write about what Drover's own record writes. No DAG, no history for people, no leases
 * that anybody looks at, no recovery. Throughput is given as a ratio to this.
 *
 *     limit agent                                serves until it is killed
 *     limit run --jobs N --window W [--steps 5]  prints seconds, steps/s and latencies as JSON
 */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peer.h"

#define PAYLOAD 100 /* bytes of input and result */
#define REQUEST 400 /* bytes of a request body, as Drover's for such a payload */
#define REPLY 200

static const char *const requests = "bench.requests";
static const char *const replies = "bench.replies";

_Noreturn static void run_agent(void)
{
    struct amqp_peer peer;
    char body[REPLY] = {0};
    uint64_t *waiting = calloc(65536, sizeof(*waiting)); /* request by publish tag, a ring */
    uint64_t acked = 0;

    amqp_peer_open(&peer, 256);
    amqp_peer_declare(&peer, requests, true);
    amqp_peer_declare(&peer, replies, true);
    amqp_peer_consume(&peer, requests, false);
    puts("ready"); /* the queues are there */
    fflush(stdout);
    for (;;) {
        struct amqp_item item = amqp_peer_next(&peer, 1000);

        if (item.type == AMQP_ITEM_DELIVERY) {
            memcpy(body, item.body.bytes, sizeof(int));
            amqp_peer_publish(&peer, "", replies, NULL, body, sizeof(body));
            waiting[peer.published % 65536] = item.tag;
            amqp_bytes_free(item.body);
        }
        for (; acked < peer.confirmed; acked++)
            amqp_peer_ack(&peer, waiting[(acked + 1) % 65536], false);
    }
}

struct job {
    int step;
    double began;
};

struct run {
    struct amqp_peer peer;
    redisContext *store;
    struct job *jobs;
    double *latency;
    int n, steps, begun, done;
};

/* Both calls of a step: what came of it, and what is dispatched next. */
static void store(struct run *r, int job, int step, const char *what)
{
    static const char payload[PAYLOAD + 1] =
        "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567"
        "890123456789";
    redisReply *reply = redisCommand(
        r->store, "EVAL %s 2 bench:%d bench:hist:%d %d %s %s %s",
        "redis.call('HSET',KEYS[1],ARGV[1],ARGV[2],'updated',ARGV[3],'result',ARGV[4]) "
        "redis.call('RPUSH',KEYS[2],ARGV[2]) return 1",
        job, job, step, "A A W 1 1 3.0123456789abcdef 1763692800000 0 0 0 0", what, payload);

    bench_check(reply && reply->type != REDIS_REPLY_ERROR, "a store call");
    freeReplyObject(reply);
}

static void dispatch(struct run *r, int job)
{
    char body[REQUEST] = {0};

    memcpy(body, &job, sizeof(job));
    store(r, job, r->jobs[job].step, "dispatched");
    amqp_peer_publish(&r->peer, "", requests, NULL, body, sizeof(body));
}

static void begin(struct run *r)
{
    int job = r->begun++;

    r->jobs[job].began = bench_seconds();
    dispatch(r, job);
}

static void on_reply(struct run *r, int job)
{
    store(r, job, r->jobs[job].step, "done");
    if (++r->jobs[job].step < r->steps) {
        dispatch(r, job);
        return;
    }
    r->latency[r->done++] = bench_seconds() - r->jobs[job].began;
    if (r->begun < r->n)
        begin(r);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static int run_jobs(int n, int window, int steps)
{
    struct run r = {.n = n, .steps = steps};
    double began;

    r.store = redisConnect("127.0.0.1", bench_port("DROVER_TEST_REDIS_PORT"));
    bench_check(r.store && !r.store->err, "connecting to the store");
    r.jobs = calloc((size_t)n, sizeof(*r.jobs));
    r.latency = calloc((size_t)n, sizeof(*r.latency));
    amqp_peer_open(&r.peer, 256);
    amqp_peer_declare(&r.peer, requests, true);
    amqp_peer_declare(&r.peer, replies, true);
    amqp_peer_consume(&r.peer, replies, false);
    began = bench_seconds();
    while (r.begun < window && r.begun < n)
        begin(&r);
    while (r.done < n) {
        struct amqp_item item = amqp_peer_next(&r.peer, 10000);
        int job;

        bench_check(item.type != AMQP_ITEM_NONE, "waiting for a reply");
        if (item.type != AMQP_ITEM_DELIVERY)
            continue;
        memcpy(&job, item.body.bytes, sizeof(job));
        on_reply(&r, job);
        amqp_peer_ack(&r.peer, item.tag, false);
        amqp_bytes_free(item.body);
    }
    began = bench_seconds() - began;
    qsort(r.latency, (size_t)n, sizeof(*r.latency), by_value);
    printf("{\"jobs\": %d, \"steps\": %d, \"seconds\": %.3f, \"steps_per_second\": %.1f, "
           "\"p50_ms\": %.3f, \"p99_ms\": %.3f}\n",
           n, n * steps, began, n * steps / began, 1e3 * r.latency[n / 2],
           1e3 * r.latency[n * 99 / 100]);
    return 0;
}

int main(int argc, char **argv)
{
    int jobs = 1000, window = 50, steps = 5;

    if (argc >= 2 && strcmp(argv[1], "agent") == 0)
        run_agent();
    if (argc < 2 || strcmp(argv[1], "run") != 0) {
        fprintf(stderr, "usage: limit agent | limit run [--jobs N] [--window W] [--steps S]\n");
        return 2;
    }
    for (int i = 2; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--jobs") == 0)
            jobs = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--window") == 0)
            window = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--steps") == 0)
            steps = atoi(argv[i + 1]);
    }
    return run_jobs(jobs, window, steps);
}
