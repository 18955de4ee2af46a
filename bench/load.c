// SPDX-License-Identifier: Apache-2.0
/*
 * Load: submits chains of no-op steps to Drover and waits for their terminal events
 *
 *     load [--jobs N] [--window W] [--steps S] [--prefix P] [--actor A]
 *
 * Keeps W jobs in flight, each with an input of 100 bytes and a private reply queue; prints
 * seconds, steps/s and latencies from Submit to event as JSON, like limit.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drover/v1/event.pb-c.h"
#include "drover/v1/submit.pb-c.h"
#include "peer.h"

#define PAYLOAD 100
#define STEPS_MAX 64

struct options {
    int jobs, window, steps;
    const char *prefix, *actor;
};

struct run {
    struct options options;
    struct amqp_peer peer;
    char replies[128];
    Drover__V1__Workflow definition;
    double *began, *latency;
    int begun, done;
};

static void define_chain(struct run *r)
{
    static Drover__V1__Step steps[STEPS_MAX];
    static Drover__V1__Step *list[STEPS_MAX];
    static char names[STEPS_MAX][16];
    static char *after[STEPS_MAX];

    drover__v1__workflow__init(&r->definition);
    for (int i = 0; i < r->options.steps; i++) {
        drover__v1__step__init(&steps[i]);
        snprintf(names[i], sizeof(names[i]), "s%d", i);
        steps[i].name = names[i];
        steps[i].actor = (char *)r->options.actor;
        steps[i].action = (char *)"echo";
        if (i > 0) {
            after[i] = names[i - 1];
            steps[i].after = &after[i];
            steps[i].n_after = 1;
        }
        list[i] = &steps[i];
    }
    r->definition.steps = list;
    r->definition.n_steps = (size_t)r->options.steps;
}

static void begin(struct run *r)
{
    static uint8_t input[PAYLOAD], body[65536];
    Drover__V1__Submit m = DROVER__V1__SUBMIT__INIT;
    Drover__V1__Payload payload = DROVER__V1__PAYLOAD__INIT;
    char id[128];

    snprintf(id, sizeof(id), "%s-%d", r->options.prefix, r->begun);
    memset(input, 'x', sizeof(input));
    payload.data.data = input;
    payload.data.len = sizeof(input);
    m.job_id = id;
    m.definition = &r->definition;
    m.input = &payload;
    m.reply_to = r->replies;
    bench_check(drover__v1__submit__get_packed_size(&m) <= sizeof(body), "packing a Submit");
    r->began[r->begun++] = bench_seconds();
    amqp_peer_publish(&r->peer, "drover.submit", "submit", NULL, body,
                      drover__v1__submit__pack(&m, body));
}

/* A Receipt has its code where a JobEvent has its job: told apart by what decodes to SETTLED. */
static void on_message(struct run *r, amqp_bytes_t body)
{
    Drover__V1__JobEvent *event = drover__v1__job_event__unpack(NULL, body.len, body.bytes);
    int job;

    if (event && event->kind == DROVER__V1__EVENT_KIND__EVENT_KIND_SETTLED &&
        sscanf(event->job_id + strlen(r->options.prefix), "-%d", &job) == 1) {
        bench_check(event->outcome == DROVER__V1__OUTCOME__OUTCOME_SUCCEEDED, "a job");
        if (r->began[job] > 0) {
            r->latency[r->done++] = bench_seconds() - r->began[job];
            r->began[job] = 0;
            if (r->begun < r->options.jobs)
                begin(r);
        }
    }
    if (event)
        drover__v1__job_event__free_unpacked(event, NULL);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static int run(const struct options *options)
{
    struct run r = {.options = *options};
    int n = options->jobs;
    double began;

    define_chain(&r);
    r.began = calloc((size_t)n, sizeof(double));
    r.latency = calloc((size_t)n, sizeof(double));
    snprintf(r.replies, sizeof(r.replies), "bench.events.%s", options->prefix);
    amqp_peer_open(&r.peer, 256);
    amqp_peer_declare(&r.peer, r.replies, false);
    amqp_peer_consume(&r.peer, r.replies, false);
    began = bench_seconds();
    while (r.begun < options->window && r.begun < n)
        begin(&r);
    while (r.done < n) {
        struct amqp_item item = amqp_peer_next(&r.peer, 20000);

        bench_check(item.type != AMQP_ITEM_NONE, "waiting for an event");
        if (item.type != AMQP_ITEM_DELIVERY)
            continue;
        on_message(&r, item.body);
        amqp_peer_ack(&r.peer, item.tag, false);
        amqp_bytes_free(item.body);
    }
    began = bench_seconds() - began;
    qsort(r.latency, (size_t)n, sizeof(*r.latency), by_value);
    printf("{\"jobs\": %d, \"steps\": %d, \"seconds\": %.3f, \"steps_per_second\": %.1f, "
           "\"p50_ms\": %.3f, \"p99_ms\": %.3f}\n",
           n, n * options->steps, began, n * options->steps / began, 1e3 * r.latency[n / 2],
           1e3 * r.latency[n * 99 / 100]);
    return 0;
}

int main(int argc, char **argv)
{
    struct options options = {
        .jobs = 1000, .window = 50, .steps = 5, .prefix = "load", .actor = "bench"};

    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--jobs") == 0)
            options.jobs = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--window") == 0)
            options.window = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--steps") == 0)
            options.steps = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--prefix") == 0)
            options.prefix = argv[i + 1];
        else if (strcmp(argv[i], "--actor") == 0)
            options.actor = argv[i + 1];
    }
    if (options.steps < 1 || options.steps > STEPS_MAX || options.jobs < 1) {
        fprintf(stderr, "usage: load [--jobs N] [--window W] [--steps 1..64] [--prefix P] "
                        "[--actor A]\n");
        return 2;
    }
    return run(&options);
}
