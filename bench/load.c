// SPDX-License-Identifier: Apache-2.0
/*
 * Load: submits jobs to Drover and waits for their terminal events
 *
 * A job is a chain of S steps, or a fan: one step, S - 2 that depend on it, one that depends on all
 * of those. W jobs are in flight, each with its definition and an input; all share a private reply
 * queue. With batches those that begin together share a message, and so may answers. Prints
 * seconds, steps/s and latencies from Submit to event as JSON, like limit.c.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drover/v1/event.pb-c.h"
#include "drover/v1/submit.pb-c.h"
#include "peer.h"

#define PATIENCE_MS 60000 /* for the next event */
#define PACE_MS 2
#define WAIT_MS 3600000 /* wait of a request: a backlog is no outage */
#define NAME_MAX_LEN 16

static const char usage[] =
    "usage: load [OPTION]...\n"
    "Submits jobs to Drover and prints how fast they end.\n"
    "\n"
    "  --jobs N         how many (1000)\n"
    "  --window N       in flight at a time (50)\n"
    "  --steps N        of each job (5)\n"
    "  --fan            a fan, not a chain\n"
    "  --payload N      bytes of each job's input, which every step returns (100)\n"
    "  --sleep N        the last step takes N ms, the first none, those between in proportion\n"
    "  --actor NAME     of all steps (bench)\n"
    "  --batch N        jobs in a message, at most, and answers in batches (each alone)\n"
    "  --rate N         jobs a second, as the window allows (as fast as they end)\n"
    "  --prefix TEXT    of the jobs' ids (load)\n";

struct options {
    int jobs, window, steps, payload, sleep_ms, rate, batch;
    bool fan;
    const char *prefix, *actor;
};

struct step {
    Drover__V1__Step step;
    Drover__V1__Payload arguments;
    char name[NAME_MAX_LEN];
    char ms[NAME_MAX_LEN];
    char *after; /* its dependency */
};

struct run {
    struct options options;
    struct amqp_peer peer;
    char replies[128];
    Drover__V1__Workflow definition;
    uint8_t *input, *body;
    size_t size; /* allocated for body */
    size_t len;  /* of body; 0: no job is in it yet */
    int in_body; /* jobs */
    double *began, *latency;
    double start, last_event; /* when the run began, and when the last event came */
    int begun, done;
};

static void *zeroed(size_t n, size_t size)
{
    void *memory = calloc(n, size);

    bench_check(memory, "allocating");
    return memory;
}

/* ---- the definition ---- */

static void define_step(const struct options *o, struct step *s, int i)
{
    drover__v1__step__init(&s->step);
    snprintf(s->name, sizeof(s->name), "s%d", i);
    s->step.name = s->name;
    s->step.actor = (char *)o->actor;
    s->step.action = (char *)(o->sleep_ms > 0 ? "sleep" : "echo");
    s->step.wait_ms = WAIT_MS;
    if (o->sleep_ms > 0) {
        drover__v1__payload__init(&s->arguments);
        s->arguments.data.data = (uint8_t *)s->ms;
        s->arguments.data.len =
            (size_t)snprintf(s->ms, sizeof(s->ms), "%d",
                             o->steps > 1 ? i * o->sleep_ms / (o->steps - 1) : o->sleep_ms);
        s->step.arguments = &s->arguments;
    }
}

static void wait_for_one(struct step *s, const struct step *before)
{
    s->after = (char *)before->name;
    s->step.after = &s->after;
    s->step.n_after = 1;
}

static void wait_for_all(struct step *s, struct step *first, int n)
{
    s->step.after = zeroed((size_t)n, sizeof(char *));
    s->step.n_after = (size_t)n;
    for (int i = 0; i < n; i++)
        s->step.after[i] = first[i].name;
}

static void define(struct run *r)
{
    int n = r->options.steps;
    struct step *steps = zeroed((size_t)n, sizeof(*steps));
    Drover__V1__Step **list = zeroed((size_t)n, sizeof(Drover__V1__Step *));

    drover__v1__workflow__init(&r->definition);
    for (int i = 0; i < n; i++) {
        define_step(&r->options, &steps[i], i);
        if (r->options.fan && i == n - 1)
            wait_for_all(&steps[i], &steps[1], n - 2);
        else if (i > 0)
            wait_for_one(&steps[i], &steps[r->options.fan ? 0 : i - 1]);
        list[i] = &steps[i].step;
    }
    r->definition.steps = list;
    r->definition.n_steps = (size_t)n;
}

/* ---- jobs ---- */

/* Appends a message to the body. */
static void append(struct run *r, const ProtobufCMessage *m)
{
    size_t size = r->len + protobuf_c_message_get_packed_size(m);

    if (size > r->size) {
        r->body = realloc(r->body, size);
        bench_check(r->body, "allocating");
        r->size = size;
    }
    r->len += protobuf_c_message_pack(m, r->body + r->len);
    r->in_body++;
}

static void publish(struct run *r)
{
    if (r->in_body > 0)
        amqp_peer_publish(&r->peer, "drover.submit", "submit", NULL, r->body, r->len);
    r->len = 0;
    r->in_body = 0;
}

static void begin(struct run *r)
{
    Drover__V1__Submits all = DROVER__V1__SUBMITS__INIT;
    Drover__V1__Submit m = DROVER__V1__SUBMIT__INIT, *list = &m;
    Drover__V1__Payload payload = DROVER__V1__PAYLOAD__INIT;
    char id[128];

    snprintf(id, sizeof(id), "%s-%d", r->options.prefix, r->begun);
    payload.data.data = r->input;
    payload.data.len = (size_t)r->options.payload;
    m.job_id = id;
    m.definition = &r->definition;
    m.input = &payload;
    m.reply_to = r->replies;
    m.batches = r->options.batch > 0;
    all.submits = &list;
    all.n_submits = 1;
    append(r, m.batches ? &all.base : &m.base); /* protobuf merges fields that follow each other */
    r->began[r->begun++] = bench_seconds();
    if (r->in_body >= r->options.batch)
        publish(r);
}

static void on_settled(struct run *r, const Drover__V1__JobEvent *event)
{
    int job;

    if (sscanf(event->job_id + strlen(r->options.prefix), "-%d", &job) != 1)
        return;
    bench_check(event->outcome == DROVER__V1__OUTCOME__OUTCOME_SUCCEEDED, "a job");
    if (r->began[job] == 0)
        return; /* the event came twice */
    r->latency[r->done++] = bench_seconds() - r->began[job];
    r->began[job] = 0;
    r->last_event = bench_seconds();
}

static void on_events(struct run *r, amqp_bytes_t body)
{
    Drover__V1__JobEvents *all = drover__v1__job_events__unpack(NULL, body.len, body.bytes);

    if (!all)
        return;
    for (size_t i = 0; i < all->n_events; i++)
        if (all->events[i]->kind == DROVER__V1__EVENT_KIND__EVENT_KIND_SETTLED)
            on_settled(r, all->events[i]);
    drover__v1__job_events__free_unpacked(all, NULL);
}

/* A Receipt has its code where a JobEvent has its job id, so only a JobEvent decodes to SETTLED;
 * and only JobEvents to several of them. */
static void on_message(struct run *r, amqp_bytes_t body)
{
    Drover__V1__JobEvent *event = drover__v1__job_event__unpack(NULL, body.len, body.bytes);

    if (event && event->kind == DROVER__V1__EVENT_KIND__EVENT_KIND_SETTLED)
        on_settled(r, event);
    else if (r->options.batch > 0)
        on_events(r, body);
    drover__v1__job_event__free_unpacked(event, NULL);
}

/* Begins the jobs that the window has room for, and whose time has come. */
static void begin_due(struct run *r)
{
    const struct options *o = &r->options;
    double due = o->rate > 0 ? (bench_seconds() - r->start) * o->rate + 1 : o->jobs;

    while (r->begun < o->jobs && r->begun < r->done + o->window && r->begun < due)
        begin(r);
    publish(r);
}

static void work(struct run *r)
{
    r->start = r->last_event = bench_seconds();
    while (r->done < r->options.jobs) {
        struct amqp_item item;

        begin_due(r);
        item = amqp_peer_next(&r->peer, r->options.rate > 0 ? PACE_MS : PATIENCE_MS);
        bench_check(bench_seconds() < r->last_event + PATIENCE_MS / 1000, "waiting for an event");
        if (item.type != AMQP_ITEM_DELIVERY)
            continue;
        on_message(r, item.body);
        amqp_bytes_free(item.body);
    }
}

static void run(const struct options *options)
{
    static struct run r;
    double began;

    r.options = *options;
    define(&r);
    r.input = zeroed((size_t)options->payload + 1, 1);
    memset(r.input, 'x', (size_t)options->payload);
    r.began = zeroed((size_t)options->jobs, sizeof(double));
    r.latency = zeroed((size_t)options->jobs, sizeof(double));
    snprintf(r.replies, sizeof(r.replies), "bench.events.%s", options->prefix);
    amqp_peer_open(&r.peer, 256);
    r.peer.type = options->batch > 0 ? drover__v1__submits__descriptor.name : NULL;
    amqp_peer_declare(&r.peer, r.replies, AMQP_PEER_PRIVATE);
    /* Without acks: the queue ends with this process, so no ack saves a message. */
    amqp_peer_consume(&r.peer, r.replies, true);
    began = bench_seconds();
    work(&r);
    bench_print(options->jobs, options->steps, bench_seconds() - began, r.latency);
}

/* ---- the command line ---- */

int main(int argc, char **argv)
{
    static const struct option names[] = {
        {"jobs", 1, NULL, 'j'},  {"window", 1, NULL, 'w'},  {"steps", 1, NULL, 's'},
        {"fan", 0, NULL, 'f'},   {"payload", 1, NULL, 'p'}, {"sleep", 1, NULL, 'm'},
        {"actor", 1, NULL, 'a'}, {"prefix", 1, NULL, 'x'},  {"rate", 1, NULL, 'r'},
        {"batch", 1, NULL, 'b'}, {"help", 0, NULL, 'h'},    {0},
    };
    struct options o = {
        .jobs = 1000, .window = 50, .steps = 5, .payload = 100, .prefix = "load", .actor = "bench"};

    for (int c; (c = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        switch (c) {
        case 'j':
            o.jobs = bench_number(optarg, 1);
            break;
        case 'w':
            o.window = bench_number(optarg, 1);
            break;
        case 's':
            o.steps = bench_number(optarg, 1);
            break;
        case 'f':
            o.fan = true;
            break;
        case 'p':
            o.payload = bench_number(optarg, 0);
            break;
        case 'm':
            o.sleep_ms = bench_number(optarg, 0);
            break;
        case 'r':
            o.rate = bench_number(optarg, 1);
            break;
        case 'b':
            o.batch = bench_number(optarg, 1);
            break;
        case 'a':
            o.actor = optarg;
            break;
        case 'x':
            o.prefix = optarg;
            break;
        default:
            fputs(usage, c == 'h' ? stdout : stderr);
            return c == 'h' ? 0 : 2;
        }
    }
    if (o.fan && o.steps < 3) {
        fprintf(stderr, "load: a fan has at least 3 steps\n");
        return 2;
    }
    run(&o);
    return 0;
}
