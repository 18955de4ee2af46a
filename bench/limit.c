// SPDX-License-Identifier: Apache-2.0
/*
 * The limits: the bare loop, and what RabbitMQ and Redis can do by themselves
 *
 * The bare loop does what any durable scheduler must do, and nothing else. A job is a chain of
 * steps. For each step there are a request to the agent's queue, a reply that
 * the broker confirms before the request is acknowledged, and two blocking calls to the store that
 * write about as much as Drover's `record`. There is no DAG, no history for people, no lease that
 * is enforced, and no recovery. Throughput is given as a ratio to this.
 */
#include <getopt.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peer.h"

#define PAYLOAD 100 /* bytes of input and result */
#define REQUEST 400 /* bytes of a request body, as Drover's for such a payload */
#define REPLY 200
#define PREFETCH 256
#define PIPELINED 50 /* store calls without an answer */

static const char usage[] = "usage: limit agent|run|broker|store [OPTION]...\n"
                            "agent serves the bare loop until it is killed, run runs jobs through "
                            "it; broker sends and takes\n"
                            "messages, store makes calls, each as soon as there is an answer. All "
                            "print their figures as JSON.\n"
                            "\n"
                            "  --jobs N       of run (1000); messages, calls\n"
                            "  --window N     of run: jobs in flight (50)\n"
                            "  --steps N      of run: steps of each job (5)\n"
                            "  --queue TYPE   quorum, classic, transient: classic with transient "
                            "messages (quorum)\n";

static const char *const requests = "bench.requests";
static const char *const replies = "bench.replies";

struct options {
    int jobs, window, steps;
    enum amqp_peer_queue queue;
};

/* ---- the bare loop ---- */

_Noreturn static void run_agent(const struct options *o)
{
    static struct amqp_peer peer;
    char body[REPLY] = {0};
    uint64_t *waiting = calloc(AMQP_PEER_WINDOW, sizeof(*waiting)); /* requests, by publish tag */
    uint64_t acked = 0;

    amqp_peer_open(&peer, PREFETCH);
    peer.transient = o->queue == AMQP_PEER_TRANSIENT;
    amqp_peer_declare(&peer, requests, o->queue);
    amqp_peer_declare(&peer, replies, o->queue);
    amqp_peer_consume(&peer, requests, false);
    puts("ready"); /* the queues exist */
    fflush(stdout);
    for (;;) {
        struct amqp_item item = amqp_peer_next(&peer, 1000);

        if (item.type == AMQP_ITEM_DELIVERY) {
            memcpy(body, item.body.bytes, sizeof(int));
            amqp_peer_publish(&peer, "", replies, NULL, body, sizeof(body));
            waiting[peer.published % AMQP_PEER_WINDOW] = item.tag;
            amqp_bytes_free(item.body);
        }
        for (; acked < peer.confirmed; acked++)
            amqp_peer_ack(&peer, waiting[(acked + 1) % AMQP_PEER_WINDOW], false);
    }
}

struct job {
    int step;
    double began;
};

struct run {
    struct options options;
    struct amqp_peer peer;
    redisContext *store;
    struct job *jobs;
    double *latency;
    int begun, done;
};

static redisContext *store_open(void)
{
    redisContext *store = redisConnect("127.0.0.1", bench_port("DROVER_TEST_REDIS_PORT"));

    bench_check(store && !store->err, "connecting to the store");
    return store;
}

static const char script[] =
    "redis.call('HSET',KEYS[1],ARGV[1],ARGV[2],'updated',ARGV[3],'result',ARGV[4]) "
    "redis.call('RPUSH',KEYS[2],ARGV[2]) return 1";

/* One of the two calls of a step: its result, or the next dispatch. */
static void store_append(redisContext *store, int job, int step, const char *what)
{
    static const char payload[PAYLOAD + 1] =
        "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567"
        "890123456789";

    redisAppendCommand(store, "EVAL %s 2 bench:%d bench:hist:%d %d %s %s %s", script, job, job,
                       step, "A A W 1 1 3.0123456789abcdef 1763692800000 0 0 0 0", what, payload);
}

static void store_answer(redisContext *store)
{
    void *reply = NULL;

    bench_check(redisGetReply(store, &reply) == REDIS_OK &&
                    ((redisReply *)reply)->type != REDIS_REPLY_ERROR,
                "a store call");
    freeReplyObject(reply);
}

static void store(struct run *r, int job, const char *what)
{
    store_append(r->store, job, r->jobs[job].step, what);
    store_answer(r->store);
}

static void dispatch(struct run *r, int job)
{
    char body[REQUEST] = {0};

    memcpy(body, &job, sizeof(job));
    store(r, job, "dispatched");
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
    store(r, job, "done");
    if (++r->jobs[job].step < r->options.steps) {
        dispatch(r, job);
        return;
    }
    r->latency[r->done++] = bench_seconds() - r->jobs[job].began;
    if (r->begun < r->options.jobs)
        begin(r);
}

static void run_jobs(const struct options *o)
{
    static struct run r;
    double began;

    r.options = *o;
    r.store = store_open();
    r.jobs = calloc((size_t)o->jobs, sizeof(*r.jobs));
    r.latency = calloc((size_t)o->jobs, sizeof(*r.latency));
    bench_check(r.jobs && r.latency, "allocating");
    amqp_peer_open(&r.peer, PREFETCH);
    r.peer.transient = o->queue == AMQP_PEER_TRANSIENT;
    amqp_peer_declare(&r.peer, requests, o->queue);
    amqp_peer_declare(&r.peer, replies, o->queue);
    amqp_peer_consume(&r.peer, replies, false);
    began = bench_seconds();
    while (r.begun < o->window && r.begun < o->jobs)
        begin(&r);
    while (r.done < o->jobs) {
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
    bench_print(o->jobs, o->steps, bench_seconds() - began, r.latency);
}

/* ---- what the servers can do ---- */

/* Persistent messages into a queue and out of it again, each confirmed and acknowledged, with one
 * process at both ends. */
static void run_broker(const struct options *o)
{
    static struct amqp_peer peer;
    char body[REQUEST] = {0};
    int taken = 0;
    double began;

    amqp_peer_open(&peer, PREFETCH);
    peer.transient = o->queue == AMQP_PEER_TRANSIENT;
    amqp_peer_declare(&peer, "bench.raw", o->queue);
    amqp_peer_consume(&peer, "bench.raw", false);
    began = bench_seconds();
    while (taken < o->jobs || peer.confirmed < (uint64_t)o->jobs) {
        struct amqp_item item;

        while (peer.published < (uint64_t)o->jobs && peer.published < peer.confirmed + PREFETCH &&
               peer.published < (uint64_t)taken + PREFETCH)
            amqp_peer_publish(&peer, "", "bench.raw", NULL, body, sizeof(body));
        item = amqp_peer_next(&peer, 10000);
        bench_check(item.type != AMQP_ITEM_NONE, "waiting for a message");
        if (item.type != AMQP_ITEM_DELIVERY)
            continue;
        amqp_peer_ack(&peer, item.tag, false);
        amqp_bytes_free(item.body);
        taken++;
    }
    printf("{\"per_second\": %.1f}\n", o->jobs / (bench_seconds() - began));
}

/* The store call of the bare loop, pipelined. */
static void run_store(const struct options *o)
{
    redisContext *store = store_open();
    int asked = 0;
    double began = bench_seconds();

    for (int answered = 0; answered < o->jobs; answered++) {
        while (asked < o->jobs && asked < answered + PIPELINED)
            store_append(store, asked++ % 1000, 0, "done");
        store_answer(store);
    }
    printf("{\"per_second\": %.1f}\n", o->jobs / (bench_seconds() - began));
    redisFree(store);
}

/* ---- the command line ---- */

_Noreturn static void refuse(void)
{
    fputs(usage, stderr);
    exit(2);
}

static void read_options(struct options *o, int argc, char **argv)
{
    static const struct option names[] = {
        {"jobs", 1, NULL, 'j'},
        {"window", 1, NULL, 'w'},
        {"steps", 1, NULL, 's'},
        {"queue", 1, NULL, 'q'},
        {0},
    };

    for (int c; (c = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        if (c == 'j')
            o->jobs = bench_number(optarg, 1);
        else if (c == 'w')
            o->window = bench_number(optarg, 1);
        else if (c == 's')
            o->steps = bench_number(optarg, 1);
        else if (c == 'q' && strcmp(optarg, "classic") == 0)
            o->queue = AMQP_PEER_CLASSIC;
        else if (c == 'q' && strcmp(optarg, "transient") == 0)
            o->queue = AMQP_PEER_TRANSIENT;
        else if (c != 'q' || strcmp(optarg, "quorum") != 0)
            refuse();
    }
}

int main(int argc, char **argv)
{
    struct options o = {.jobs = 1000, .window = 50, .steps = 5, .queue = AMQP_PEER_QUORUM};

    if (argc < 2)
        refuse();
    read_options(&o, argc - 1, argv + 1);
    if (strcmp(argv[1], "agent") == 0)
        run_agent(&o);
    else if (strcmp(argv[1], "run") == 0)
        run_jobs(&o);
    else if (strcmp(argv[1], "broker") == 0)
        run_broker(&o);
    else if (strcmp(argv[1], "store") == 0)
        run_store(&o);
    else
        refuse();
    return 0;
}
