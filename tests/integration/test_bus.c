// SPDX-License-Identifier: Apache-2.0
/*
 * The bus against a real RabbitMQ
 *
 * Needs the variables that tests/lib/servers.py sets. Every test has a vhost of its own. Of those
 * that are named as arguments only these are run; DROVER_TEST_PATIENCE_S is how long they wait.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/rng.h"
#include "io/bus.h"

#define PATIENCE_S 60 /* until a test gives up waiting */
#define MAX_MESSAGES 4000
#define CONFIRM_MS 1000        /* until a confirm counts as missing */
#define AGAIN_MS 200           /* between two tries of what was refused */
#define TAKES_ITS_TIME_MS 1000 /* far more than any callback may take, sanitizers or not */

enum source {
    FROM_SUBMIT = 10,
    FROM_REPLIES,
    FROM_EXPIRED,
    FROM_TASKS,
    FROM_DIRECT,
};

static const struct bus_queue submit_queue = {.name = "drover.submit", .source = FROM_SUBMIT};
static const struct bus_queue reply_queue = {.name = "drover.replies", .source = FROM_REPLIES};
static const struct bus_queue expired_queue = {.name = "drover.expired", .source = FROM_EXPIRED};
static const struct bus_queue task_queue = {
    .name = "drover.task.painter", .actor = "painter", .source = FROM_TASKS};

/* --- a bus under observation ------------------------------------------------------------------ */

struct probe {
    struct bus *bus;
    int ups;
    int downs;
    int refusals;
    int batches;
    int pulses;
    int pulse_again_ms; /* 0: the default */
    bool blocked;
    bool closed;
    char why[256];
    bool keep;    /* deliveries, in kept, without an ack */
    bool ack_all; /* and free */
    struct bus_delivery *kept[MAX_MESSAGES];
    int n_kept;
    int n_delivered;
    int seen[MAX_MESSAGES]; /* deliveries by message_id, where that is a number */
    int n_seen;             /* of them, seen at least once */
    int outcomes[MAX_MESSAGES];
    enum bus_outcome outcome[MAX_MESSAGES]; /* the last one, by id */
    int n_outcomes;
};

static void on_up(void *ctx)
{
    ((struct probe *)ctx)->ups++;
}

static void on_down(void *ctx, const char *why)
{
    struct probe *p = ctx;

    p->downs++;
    snprintf(p->why, sizeof(p->why), "%s", why);
}

static void on_refused(void *ctx, const char *why)
{
    struct probe *p = ctx;

    p->refusals++;
    snprintf(p->why, sizeof(p->why), "%s", why);
}

static void on_blocked(void *ctx, bool blocked)
{
    ((struct probe *)ctx)->blocked = blocked;
}

static void on_pulse(void *ctx, int64_t took_us)
{
    assert_true(took_us >= 0);
    ((struct probe *)ctx)->pulses++;
}

static void on_batch_end(void *ctx)
{
    ((struct probe *)ctx)->batches++;
}

static void on_outcome(void *ctx, uint64_t id, enum bus_outcome outcome)
{
    struct probe *p = ctx;

    assert_true(id < MAX_MESSAGES);
    p->outcomes[id]++;
    p->outcome[id] = outcome;
    p->n_outcomes++;
}

static void on_delivery(void *ctx, struct bus_delivery *d)
{
    struct probe *p = ctx;
    int number = atoi(d->message_id);

    p->n_delivered++;
    if (number > 0 && number < MAX_MESSAGES && p->seen[number]++ == 0)
        p->n_seen++;
    if (p->keep) {
        assert_true(p->n_kept < MAX_MESSAGES);
        p->kept[p->n_kept++] = d;
        return;
    }
    if (p->ack_all)
        bus_ack(p->bus, d->handle);
    bus_delivery_free(d);
}

static void on_closed(void *ctx)
{
    ((struct probe *)ctx)->closed = true;
}

static const struct bus_callbacks callbacks = {
    .on_up = on_up,
    .on_down = on_down,
    .on_refused = on_refused,
    .on_delivery = on_delivery,
    .on_outcome = on_outcome,
    .on_blocked = on_blocked,
    .on_pulse = on_pulse,
    .on_batch_end = on_batch_end,
};

/* The longest time that the loop's callbacks took without a look at the outside. */
struct turns {
    uv_check_t check;
    uv_prepare_t prepare;
    int64_t began;
    int64_t longest;
};

static void on_turn_begin(uv_check_t *check)
{
    struct turns *t = container_of(check, struct turns, check);

    t->began = clock_monotonic_ms();
}

static void on_turn_end(uv_prepare_t *prepare)
{
    struct turns *t = container_of(prepare, struct turns, prepare);
    int64_t took = t->began ? clock_monotonic_ms() - t->began : 0;

    if (took > t->longest)
        t->longest = took;
}

/* --- the world of one test -------------------------------------------------------------------- */

struct world {
    uv_loop_t loop;
    uv_timer_t patience;
    bool impatient;
    char vhost[64];
    struct turns turns;
    bool alarmed; /* by set_alarm() */
    pid_t frozen; /* the broker, by SIGSTOP */
    struct probe a;
    struct probe b;
};

static const char *required(const char *name)
{
    const char *value = getenv(name);

    if (!value)
        fail_msg("%s is not set: run through tests/lib/servers.py", name);
    return value;
}

static uint64_t patience_ms(void)
{
    const char *s = getenv("DROVER_TEST_PATIENCE_S");

    return 1000 * (s ? strtoull(s, NULL, 10) : PATIENCE_S);
}

static void on_impatient(uv_timer_t *timer)
{
    ((struct world *)timer->data)->impatient = true;
}

/* Runs the loop until the condition holds. */
#define until(w, condition)                                                                        \
    do {                                                                                           \
        (w)->impatient = false;                                                                    \
        uv_timer_start(&(w)->patience, on_impatient, patience_ms(), 0);                            \
        while (!(condition) && !(w)->impatient)                                                    \
            uv_run(&(w)->loop, UV_RUN_ONCE);                                                       \
        uv_timer_stop(&(w)->patience);                                                             \
        if (!(condition))                                                                          \
            fail_msg("waited in vain for %s", #condition);                                         \
    } while (0)

static void on_ctl_exit(uv_process_t *process, int64_t status, int signal)
{
    *(int64_t *)process->data = signal ? signal : status;
    uv_close((uv_handle_t *)process, NULL);
}

/* Starts a program; *status is -1 until it has ended. Words end with NULL, the first is ours. */
static void program_start(struct world *w, uv_process_t *process, int64_t *status,
                          const char *program, const char **words)
{
    uv_process_options_t options = {
        .file = program,
        .args = (char **)words,
        .exit_cb = on_ctl_exit,
    };

    words[0] = options.file;
    *status = -1;
    process->data = status;
    assert_int_equal(uv_spawn(&w->loop, process, &options), 0);
}

#define WORDS(...) ((const char *[]){NULL, "--quiet", __VA_ARGS__, NULL})

static void ctl_start(struct world *w, uv_process_t *process, int64_t *status, const char **words)
{
    program_start(w, process, status, required("DROVER_TEST_RABBITMQCTL"), words);
}

static void program_run(struct world *w, const char *program, const char **words)
{
    uv_process_t process;
    int64_t status;

    program_start(w, &process, &status, program, words);
    until(w, status >= 0);
    uv_run(&w->loop, UV_RUN_NOWAIT); /* the handle closes */
    assert_int_equal(status, 0);
}

#define ctl(w, ...) program_run((w), required("DROVER_TEST_RABBITMQCTL"), WORDS(__VA_ARGS__))

/* The broker evaluates an expression: a hundred times as quick as rabbitmqctl. */
__attribute__((format(printf, 2, 3))) static void evaluate(struct world *w, const char *format, ...)
{
    char expression[512];
    va_list args;

    va_start(args, format);
    vsnprintf(expression, sizeof(expression), format, args);
    va_end(args);
    program_run(w, required("DROVER_TEST_EVALUATE"), (const char *[]){NULL, expression, NULL});
}

/* Patterns of the names that the user may configure, write and read. */
static void set_rights(struct world *w, const char *configure, const char *write, const char *read)
{
    evaluate(w,
             "rabbit_auth_backend_internal:set_permissions(<<\"%s\">>, <<\"%s\">>, <<\"%s\">>, "
             "<<\"%s\">>, <<\"%s\">>, <<\"test\">>)",
             required("DROVER_TEST_AMQP_USER"), w->vhost, configure, write, read);
}

static void set_alarm(struct world *w, bool on)
{
    w->alarmed = on;
    ctl(w, "set_vm_memory_high_watermark", on ? "0.00001" : "0.8");
}

static void thaw(struct world *w)
{
    kill(w->frozen, SIGCONT);
    w->frozen = 0;
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    struct rng rng;

    assert_non_null(w);
    assert_int_equal(rng_seed_system(&rng), 0);
    uv_loop_init(&w->loop);
    uv_timer_init(&w->loop, &w->patience);
    w->patience.data = w;
    uv_check_init(&w->loop, &w->turns.check);
    uv_prepare_init(&w->loop, &w->turns.prepare);
    w->a.ack_all = w->b.ack_all = true;
    snprintf(w->vhost, sizeof(w->vhost), "bus-%016llx", (unsigned long long)rng_next(&rng));
    evaluate(w, "rabbit_vhost:add(<<\"%s\">>, <<\"test\">>)", w->vhost);
    set_rights(w, ".*", ".*", ".*");
    *state = w;
    return 0;
}

static void shut(struct world *w, struct probe *p)
{
    for (int i = 0; i < p->n_kept; i++)
        bus_delivery_free(p->kept[i]);
    p->n_kept = 0;
    if (!p->bus)
        return;
    bus_close(p->bus, 10000, on_closed);
    until(w, p->closed);
    p->bus = bus_free(p->bus);
    p->closed = false;
}

static int teardown(void **state)
{
    struct world *w = *state;

    if (w->frozen)
        thaw(w);
    if (w->alarmed)
        set_alarm(w, false);
    shut(w, &w->a);
    shut(w, &w->b);
    evaluate(w, "rabbit_vhost:delete(<<\"%s\">>, <<\"test\">>)", w->vhost);
    uv_close((uv_handle_t *)&w->patience, NULL);
    uv_close((uv_handle_t *)&w->turns.check, NULL);
    uv_close((uv_handle_t *)&w->turns.prepare, NULL);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    free(w);
    return 0;
}

static struct bus_config config_of(const struct world *w)
{
    return (struct bus_config){
        .host = required("DROVER_TEST_AMQP_HOST"),
        .port = atoi(required("DROVER_TEST_AMQP_PORT")),
        .vhost = w->vhost,
        .user = required("DROVER_TEST_AMQP_USER"),
        .password = required("DROVER_TEST_AMQP_PASSWORD"),
        .name = "test",
        .prefetch = 100,
        .declare = true,
        .max_message_bytes = 8 << 20,
    };
}

static void begin(struct world *w, struct probe *p, const struct bus_config *config)
{
    assert_int_equal(bus_new(&p->bus, &w->loop, config, &callbacks, p), 0);
}

/* A bus that consumes drover.submit, or nothing. */
static void begin_plain(struct world *w, struct probe *p, bool consume)
{
    struct bus_config config = config_of(w);

    if (consume) {
        config.queues = &submit_queue;
        config.n_queues = 1;
    }
    begin(w, p, &config);
    until(w, p->ups == 1);
}

/* Message @number, which is its message_id and the id of its outcome. */
static void publish_number(struct probe *p, int number, const char *exchange, const char *key)
{
    char id[16];
    struct bus_message m = {
        .exchange = exchange,
        .key = key,
        .message_id = id,
        .mandatory = true,
    };

    snprintf(id, sizeof(id), "%d", number);
    m.body = bytes_str(id);
    assert_int_equal(bus_publish(p->bus, &m, (uint64_t)number), 0);
}

static void submit_number(struct probe *p, int number)
{
    publish_number(p, number, "drover.submit", "submit");
}

static void publish_large(struct probe *p, int from, int to, size_t size)
{
    uint8_t *body = calloc(1, size);

    assert_non_null(body);
    for (int i = from; i <= to; i++) {
        char id[16];
        struct bus_message m = {
            .exchange = "drover.submit",
            .key = "submit",
            .message_id = id,
            .body = bytes_of(body, size),
            .mandatory = true,
        };

        snprintf(id, sizeof(id), "%d", i);
        assert_int_equal(bus_publish(p->bus, &m, (uint64_t)i), 0);
    }
    free(body);
}

/* Outcomes 1 to @n are there, each once and all alike. */
static void assert_outcomes(const struct probe *p, int n, enum bus_outcome outcome)
{
    for (int i = 1; i <= n; i++) {
        assert_int_equal(p->outcomes[i], 1);
        assert_int_equal(p->outcome[i], outcome);
    }
}

/* --- ordinary traffic ------------------------------------------------------------------------- */

static void test_round_trip(void **state)
{
    struct world *w = *state;
    const struct bus_message m = {
        .exchange = "drover.submit",
        .key = "submit",
        .body = bytes_of("a\0b", 3),
        .content_type = "application/protobuf",
        .type = "drover.v1.Submit",
        .message_id = "1",
        .correlation_id = "correlation",
        .reply_to = "answers",
        .traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        .job = "job",
        .step = "step",
        .reason = "reason",
        .attempt = 3,
        .mandatory = true,
    };
    struct bus_stats stats;
    struct bus_delivery *d;

    w->a.keep = true;
    begin_plain(w, &w->a, true);
    assert_int_equal(bus_publish(w->a.bus, &m, 1), 0);
    bus_stats(w->a.bus, &stats);
    assert_int_equal(stats.waiting, 1);
    until(w, w->a.n_outcomes == 1 && w->a.n_kept == 1);
    assert_outcomes(&w->a, 1, BUS_CONFIRMED);
    assert_true(w->a.batches > 0);
    d = w->a.kept[0];
    assert_int_equal(d->source, FROM_SUBMIT);
    assert_true(bytes_equal(d->body, m.body));
    assert_false(d->redelivered || d->oversize);
    assert_string_equal(d->content_type, m.content_type);
    assert_string_equal(d->message_id, m.message_id);
    assert_string_equal(d->correlation_id, m.correlation_id);
    assert_string_equal(d->reply_to, m.reply_to);
    assert_string_equal(d->traceparent, m.traceparent);
    assert_string_equal(d->user_id, "");
    bus_ack(w->a.bus, d->handle);
    bus_stats(w->a.bus, &stats);
    assert_true(stats.up && !stats.blocked);
    assert_int_equal(stats.connects, 2);
    assert_int_equal(stats.published, 1);
    assert_int_equal(stats.confirmed, 1);
    assert_int_equal(stats.delivered, 1);
    assert_int_equal(stats.acked, 1);
    assert_int_equal(stats.waiting, 0);
    assert_int_equal(stats.oldest_unconfirmed, 0);
}

/* Every body length around the frame size, the empty one too, with no property at all. */
static void test_bodies(void **state)
{
    struct world *w = *state;
    static const size_t sizes[] = {0, 1, 131063, 131064, 131065, 262128, 262129, 3000000};
    uint8_t *body = malloc(sizes[array_size(sizes) - 1]);

    assert_non_null(body);
    for (size_t i = 0; i < sizes[array_size(sizes) - 1]; i++)
        body[i] = (uint8_t)(i * 31 >> 3);
    w->a.keep = true;
    begin_plain(w, &w->a, true);
    for (size_t i = 0; i < array_size(sizes); i++) {
        struct bus_message m = {
            .exchange = "drover.submit", .key = "submit", .body = bytes_of(body, sizes[i])};

        assert_int_equal(bus_publish(w->a.bus, &m, 0), 0);
    }
    until(w, w->a.n_kept == array_size(sizes));
    for (size_t i = 0; i < array_size(sizes); i++)
        assert_true(bytes_equal(w->a.kept[i]->body, bytes_of(body, sizes[i])));
    assert_string_equal(w->a.kept[0]->message_id, "");
    free(body);
}

/* Every third has no queue: the outcomes must be those of exactly these. */
static void test_return(void **state)
{
    struct world *w = *state;
    const int n = 300;
    struct bus_stats stats;

    begin_plain(w, &w->a, true);
    for (int i = 1; i <= n; i++)
        publish_number(&w->a, i, "drover.submit", i % 3 ? "submit" : "nowhere");
    until(w, w->a.n_outcomes == n && w->a.n_seen == n - n / 3);
    for (int i = 1; i <= n; i++) {
        assert_int_equal(w->a.outcomes[i], 1);
        assert_int_equal(w->a.outcome[i], i % 3 ? BUS_CONFIRMED : BUS_RETURNED);
    }
    bus_stats(w->a.bus, &stats);
    assert_int_equal(stats.returned, n / 3);
}

/* A full queue refuses what is published then: the broker says so of each, between its confirms. */
static void test_nack(void **state)
{
    struct world *w = *state;
    int n = 0;

    begin_plain(w, &w->a, false);
    ctl(w, "set_policy", "-p", w->vhost, "full", "^drover.submit$",
        "{\"max-length\":3,\"overflow\":\"reject-publish\"}");
    do {
        submit_number(&w->a, ++n);
        until(w, w->a.n_outcomes == n);
    } while (n < MAX_MESSAGES / 2 && w->a.outcome[n] == BUS_CONFIRMED);
    assert_int_equal(w->a.outcome[n], BUS_NACKED);
    publish_number(&w->a, n + 1, "drover.replies", "reply");
    submit_number(&w->a, n + 2);
    publish_number(&w->a, n + 3, "drover.replies", "reply");
    until(w, w->a.n_outcomes == n + 3);
    assert_int_equal(w->a.outcome[n + 1], BUS_CONFIRMED);
    assert_int_equal(w->a.outcome[n + 2], BUS_NACKED);
    assert_int_equal(w->a.outcome[n + 3], BUS_CONFIRMED);
    assert_int_equal(w->a.downs, 0);
}

static void shuffle(struct rng *rng, struct bus_delivery **d, int n)
{
    for (int i = n - 1; i > 0; i--) {
        int j = (int)rng_below(rng, (uint64_t)i + 1);
        struct bus_delivery *swapped = d[i];

        d[i] = d[j];
        d[j] = swapped;
    }
}

/* 1000 messages, at most 100 open, acknowledged in any order, a few at a time. */
static void test_acks_out_of_order(void **state)
{
    struct world *w = *state;
    const int n = 1000;
    struct rng rng;

    rng_seed(&rng, 7);
    w->a.keep = true;
    begin_plain(w, &w->a, true);
    for (int i = 1; i <= n; i++)
        submit_number(&w->a, i);
    while (w->a.n_delivered < n || w->a.n_kept > 0) {
        int expected = n - w->a.n_delivered + w->a.n_kept;
        int acks;

        if (expected > 100)
            expected = 100;
        until(w, w->a.n_kept == expected);
        shuffle(&rng, w->a.kept, w->a.n_kept);
        acks = 1 + (int)rng_below(&rng, (uint64_t)w->a.n_kept);
        for (int i = 0; i < acks; i++) {
            struct bus_delivery *d = w->a.kept[--w->a.n_kept];

            bus_ack(w->a.bus, d->handle);
            bus_delivery_free(d);
        }
    }
    assert_int_equal(w->a.n_seen, n);
    assert_int_equal(w->a.downs, 0);
    shut(w, &w->a);

    /* Nothing is left: what comes first to the next consumer is new. */
    begin_plain(w, &w->b, true);
    submit_number(&w->b, n + 1);
    until(w, w->b.n_outcomes == 1 && w->b.n_delivered > 0);
    assert_int_equal(w->b.seen[n + 1], 1);
    assert_int_equal(w->b.n_delivered, 1);
}

/* What was prefetched and not acknowledged is given back at close. */
static void test_close_gives_back(void **state)
{
    struct world *w = *state;
    const int n = 50;

    w->a.keep = true;
    begin_plain(w, &w->a, true);
    for (int i = 1; i <= n; i++)
        submit_number(&w->a, i);
    until(w, w->a.n_kept == n);
    for (int i = 0; i < n; i += 2)
        bus_ack(w->a.bus, w->a.kept[i]->handle);
    shut(w, &w->a);
    w->b.keep = true;
    begin_plain(w, &w->b, true);
    until(w, w->b.n_kept == n / 2);
    for (int i = 0; i < n / 2; i++)
        assert_true(w->b.kept[i]->redelivered && atoi(w->b.kept[i]->message_id) % 2 == 0);
}

static void test_stop_consuming(void **state)
{
    struct world *w = *state;

    begin_plain(w, &w->a, true);
    submit_number(&w->a, 1);
    until(w, w->a.n_delivered == 1);
    bus_consume(w->a.bus, false);
    begin_plain(w, &w->b, true);
    for (int i = 2; i <= 100; i++)
        submit_number(&w->b, i);
    /* The cancel may come after the first of them, but then all go to the other one. */
    until(w, w->a.n_seen + w->b.n_seen == 100);
    for (int i = 101; i <= 200; i++)
        submit_number(&w->b, i);
    until(w, w->a.n_seen + w->b.n_seen == 200);
    for (int i = 101; i <= 200; i++)
        assert_int_equal(w->b.seen[i], 1);
}

/* Among others that are acknowledged, and while nothing more is wanted; afterwards it is. */
static void test_requeue(void **state)
{
    struct world *w = *state;

    w->a.keep = w->b.keep = true;
    begin_plain(w, &w->a, true);
    for (int i = 1; i <= 4; i++)
        submit_number(&w->a, i);
    until(w, w->a.n_kept == 4);
    bus_consume(w->a.bus, false);
    bus_requeue(w->a.bus, w->a.kept[1]->handle);
    bus_requeue(w->a.bus, w->a.kept[3]->handle);
    bus_ack(w->a.bus, w->a.kept[0]->handle);
    bus_ack(w->a.bus, w->a.kept[2]->handle);
    begin_plain(w, &w->b, true);
    until(w, w->b.n_kept == 2);
    for (int i = 0; i < 2; i++)
        assert_true(w->b.kept[i]->redelivered && atoi(w->b.kept[i]->message_id) == 2 * (i + 1));
    bus_consume(w->a.bus, true);
    shut(w, &w->b);
    until(w, w->a.n_kept == 6);
    assert_int_equal(w->a.downs, 0);
}

static void test_closing_flushes(void **state)
{
    struct world *w = *state;
    const int n = 2000;

    begin_plain(w, &w->a, false);
    for (int i = 1; i <= n; i++)
        submit_number(&w->a, i);
    shut(w, &w->a);
    assert_outcomes(&w->a, n, BUS_CONFIRMED);
}

/* --- time ------------------------------------------------------------------------------------- */

/* Nobody serves the actor: the broker dead-letters what expires. The first publish makes the queue.
 */
static void test_expiration(void **state)
{
    struct world *w = *state;
    struct bus_config config = config_of(w);
    struct bus_message m = {
        .exchange = "drover.tasks",
        .key = "nobody",
        .actor = "nobody",
        .message_id = "1",
        .expires = true,
        .mandatory = true,
    };

    config.queues = &expired_queue;
    config.n_queues = 1;
    w->a.keep = true;
    begin(w, &w->a, &config);
    m.not_after = clock_monotonic_ms() + 1000; /* a busy machine has sent it by then */
    assert_int_equal(bus_publish(w->a.bus, &m, 1), 0);
    until(w, w->a.n_outcomes == 1 && w->a.n_kept == 1);
    assert_outcomes(&w->a, 1, BUS_CONFIRMED);
    assert_int_equal(w->a.kept[0]->source, FROM_EXPIRED);
    assert_string_equal(w->a.kept[0]->message_id, "1");
}

static void test_not_after(void **state)
{
    struct world *w = *state;
    struct bus_message m = {.exchange = "drover.submit", .key = "submit", .message_id = "1"};

    begin_plain(w, &w->a, true);
    m.not_after = clock_monotonic_ms() - 1;
    assert_int_equal(bus_publish(w->a.bus, &m, 1), 0);
    submit_number(&w->a, 2);
    until(w, w->a.n_outcomes == 2 && w->a.n_delivered == 1);
    assert_int_equal(w->a.outcome[1], BUS_UNSENT);
    assert_int_equal(w->a.outcome[2], BUS_CONFIRMED);
    assert_int_equal(w->a.seen[2], 1);
}

/* --- special messages ------------------------------------------------------------------------- */

static void test_direct_reply(void **state)
{
    struct world *w = *state;
    const struct bus_message question = {
        .exchange = "drover.replies",
        .key = "reply",
        .reply_to = "amq.rabbitmq.reply-to",
        .correlation_id = "17",
        .mandatory = true,
    };
    struct bus_config server = config_of(w);
    struct bus_config client = config_of(w);
    struct bus_message answer = {.exchange = "", .body = bytes_str("yes"), .mandatory = true};

    server.queues = &reply_queue;
    server.n_queues = 1;
    client.direct_reply = true;
    client.direct_source = FROM_DIRECT;
    w->a.keep = w->b.keep = true;
    begin(w, &w->a, &server);
    begin(w, &w->b, &client);
    assert_int_equal(bus_publish(w->b.bus, &question, 1), 0);
    until(w, w->a.n_kept == 1);
    assert_int_equal(w->a.kept[0]->source, FROM_REPLIES);
    answer.key = w->a.kept[0]->reply_to;
    answer.correlation_id = w->a.kept[0]->correlation_id;
    assert_int_equal(bus_publish(w->a.bus, &answer, 1), 0);
    until(w, w->b.n_kept == 1 && w->a.n_outcomes == 1 && w->b.n_outcomes == 1);
    assert_outcomes(&w->a, 1, BUS_CONFIRMED);
    assert_int_equal(w->b.kept[0]->source, FROM_DIRECT);
    assert_int_equal(w->b.kept[0]->handle, 0);
    assert_string_equal(w->b.kept[0]->correlation_id, "17");
    assert_true(bytes_is(w->b.kept[0]->body, "yes"));
    bus_ack(w->b.bus, w->b.kept[0]->handle); /* harmless */
}

static void test_oversize(void **state)
{
    struct world *w = *state;
    static const uint8_t body[300000] = {1, 2, 3};
    const struct bus_message m = {
        .exchange = "drover.submit", .key = "submit", .body = bytes_of(body, sizeof(body))};
    struct bus_config config = config_of(w);

    config.queues = &submit_queue;
    config.n_queues = 1;
    config.max_message_bytes = 200000;
    w->a.keep = true;
    begin(w, &w->a, &config);
    assert_int_equal(bus_publish(w->a.bus, &m, 1), 0);
    submit_number(&w->a, 2);
    until(w, w->a.n_kept == 2);
    assert_true(w->a.kept[0]->oversize);
    assert_true(bytes_equal(w->a.kept[0]->body, bytes_of(body, 200000)));
    assert_false(w->a.kept[1]->oversize);
    assert_true(bytes_is(w->a.kept[1]->body, "2"));
}

/* --- pulses ----------------------------------------------------------------------------------- */

static void begin_with_pulse(struct world *w, struct probe *p, bool declare)
{
    struct bus_config config = config_of(w);

    config.queues = &submit_queue;
    config.n_queues = 1;
    config.prefetch = 1;
    config.pulse = true;
    config.pulse_again_ms = p->pulse_again_ms;
    config.declare = declare;
    begin(w, p, &config);
    until(w, p->ups == 1);
}

static bool pulses_come_back(const struct probe *p)
{
    struct bus_stats stats;

    bus_stats(p->bus, &stats);
    return stats.pulse;
}

static void beat(struct world *w, struct probe *p)
{
    int before = p->pulses;

    assert_true(pulses_come_back(p));
    assert_int_equal(bus_pulse(p->bus), 0);
    until(w, p->pulses == before + 1);
}

/* Pulses take no part in the prefetch, are nobody's delivery, and never acknowledged: the broker
 * would close the channel over it. */
static void test_pulse(void **state)
{
    struct world *w = *state;
    struct probe *p = &w->a;
    struct bus_stats stats;
    const int n = 100;

    p->keep = true;
    begin_with_pulse(w, p, true);
    submit_number(p, 1);
    until(w, p->n_kept == 1);
    for (int i = 0; i < 300; i++)
        beat(w, p); /* more than the ring of tags holds at first */
    assert_int_equal(p->n_delivered, 1);
    p->keep = false;
    bus_ack(p->bus, p->kept[0]->handle);
    for (int i = 2; i <= n; i++) {
        submit_number(p, i);
        bus_pulse(p->bus);
    }
    until(w, p->n_seen == n && p->n_outcomes == n && p->pulses == 300 + n - 1);
    beat(w, p);
    bus_stats(p->bus, &stats);
    assert_int_equal(stats.connects, 2);
    assert_int_equal(stats.delivered, n);
    assert_int_equal(stats.acked, n);
    shut(w, p);
    begin_plain(w, &w->b, true);
    submit_number(&w->b, n + 1);
    until(w, w->b.n_delivered > 0);
    assert_int_equal(w->b.seen[n + 1], 1); /* nothing stood before it */
}

/* What consumes nothing has no queue for them. */
static void test_pulse_without_queue(void **state)
{
    struct world *w = *state;
    struct bus_stats stats;

    begin_plain(w, &w->a, false);
    assert_false(pulses_come_back(&w->a));
    assert_int_equal(bus_pulse(w->a.bus), 0);
    bus_stats(w->a.bus, &stats);
    assert_int_equal(stats.published, 0);
}

/* Each connection has a queue of its own. */
static void test_pulse_after_loss(void **state)
{
    struct world *w = *state;

    begin_with_pulse(w, &w->a, true);
    for (int ups = 1; ups <= 3; ups++) {
        beat(w, &w->a);
        ctl(w, "close_all_connections", "--vhost", w->vhost, "test");
        until(w, w->a.ups > ups);
    }
    until(w, pulses_come_back(&w->a));
    beat(w, &w->a);
}

/* Goes on without: the bus is up, deliveries come, no pulse is sent. */
static void assert_no_pulse(struct world *w, struct probe *p)
{
    assert_false(pulses_come_back(p));
    assert_int_equal(bus_pulse(p->bus), 0);
    submit_number(p, 1);
    until(w, p->n_outcomes == 1 && p->n_seen == 1);
    assert_outcomes(p, 1, BUS_CONFIRMED);
    assert_int_equal(p->pulses, 0);
}

static void test_pulse_refused(void **state)
{
    struct world *w = *state;
    static const char others[] = "^(?!drover[.]pulse[.]).*";

    for (int right = 0; right < 3; right++) {
        set_rights(w, right == 0 ? others : ".*", right == 1 ? others : ".*",
                   right == 2 ? others : ".*");
        memset(&w->a, 0, sizeof(w->a));
        w->a.ack_all = true;
        begin_with_pulse(w, &w->a, true);
        assert_int_equal(w->a.refusals, 1);
        assert_non_null(strstr(w->a.why, "ACCESS_REFUSED"));
        assert_no_pulse(w, &w->a);
        assert_int_equal(w->a.downs, 0);
        shut(w, &w->a);
    }
}

/* Somebody declares the topology, and has not heard of it. */
static void test_pulse_without_exchange(void **state)
{
    struct world *w = *state;

    begin_plain(w, &w->b, false);
    evaluate(w,
             "rabbit_exchange:delete(rabbit_misc:r(<<\"%s\">>, exchange, <<\"drover.pulse\">>), "
             "false, <<\"test\">>)",
             w->vhost);
    w->a.pulse_again_ms = AGAIN_MS;
    begin_with_pulse(w, &w->a, false);
    assert_true(w->a.refusals > 0);
    assert_non_null(strstr(w->a.why, "NOT_FOUND"));
    assert_no_pulse(w, &w->a);
    shut(w, &w->b);
    begin_plain(w, &w->b, false); /* declares it */
    until(w, pulses_come_back(&w->a));
    beat(w, &w->a);
    assert_int_equal(w->a.downs, 0);
}

/* The queue is granted, the exchange is not: each pulse costs the connection, so there is an end.
 */
static void test_pulse_not_writable(void **state)
{
    struct world *w = *state;

    begin_with_pulse(w, &w->a, true);
    beat(w, &w->a);
    w->a.pulses = 0;
    set_rights(w, ".*", "^(?!drover[.]pulse$).*", ".*");
    ctl(w, "close_all_connections", "--vhost", w->vhost, "test"); /* the broker caches rights */
    until(w, w->a.ups == 2);
    for (int lost = 2; lost <= 4; lost++) {
        bus_pulse(w->a.bus);
        until(w, w->a.downs == lost && w->a.ups == lost + 1);
    }
    assert_no_pulse(w, &w->a);
    assert_int_equal(w->a.downs, 4);
}

/* Whatever was missing: once a person has mended it, pulses come back without a new connection. */
static void test_pulse_refused_and_mended(void **state)
{
    struct world *w = *state;
    static const char others[] = "^(?!drover[.]pulse[.]).*";
    const char *user = required("DROVER_TEST_AMQP_USER");

    for (int right = 0; right < 3; right++) {
        ctl(w, "set_permissions", "-p", w->vhost, user, right == 0 ? others : ".*",
            right == 1 ? others : ".*", right == 2 ? others : ".*");
        memset(&w->a, 0, sizeof(w->a));
        w->a.ack_all = true;
        w->a.pulse_again_ms = AGAIN_MS;
        begin_with_pulse(w, &w->a, true);
        until(w, w->a.refusals == 3); /* it asks again, and goes on meanwhile */
        assert_no_pulse(w, &w->a);
        ctl(w, "set_permissions", "-p", w->vhost, user, ".*", ".*", ".*");
        until(w, pulses_come_back(&w->a));
        beat(w, &w->a);
        submit_number(&w->a, 2);
        until(w, w->a.n_seen == 2);
        assert_int_equal(w->a.downs, 0);
        shut(w, &w->a);
    }
}

static void test_pulse_writable_again(void **state)
{
    struct world *w = *state;
    const char *user = required("DROVER_TEST_AMQP_USER");
    int refused;

    ctl(w, "set_permissions", "-p", w->vhost, user, ".*", "^(?!drover[.]pulse$).*", ".*");
    w->a.pulse_again_ms = AGAIN_MS;
    begin_with_pulse(w, &w->a, true);
    for (refused = 0; refused < 5;
         refused++) { /* the last two only as often as it is tried again */
        until(w, pulses_come_back(&w->a));
        bus_pulse(w->a.bus);
        until(w, w->a.downs == refused + 1 && w->a.ups == refused + 2);
    }
    ctl(w, "set_permissions", "-p", w->vhost, user, ".*", ".*", ".*");
    until(w, pulses_come_back(&w->a));
    beat(w, &w->a);
    assert_int_equal(w->a.downs, refused);
}

static void on_look(void *ctx, uint32_t messages, uint32_t consumers)
{
    *(int64_t *)ctx = (int64_t)messages << 32 | consumers;
}

static void test_look(void **state)
{
    struct world *w = *state;
    int64_t seen = -1;

    begin_plain(w, &w->a, true);
    bus_look(w->a.bus, "drover.submit", on_look, &seen);
    until(w, seen == 1);
    bus_look(w->a.bus, "drover.nothing", on_look, &seen);
    until(w, seen == 0);
    assert_int_equal(w->a.downs, 0);
    submit_number(&w->a, 1);
    until(w, w->a.n_outcomes == 1 && w->a.n_seen == 1);
}

/* What is not acknowledged counts against the prefetch; the rest waits at the broker. */
static void test_prefetch(void **state)
{
    struct world *w = *state;
    struct bus_config config = config_of(w);
    const int n = 10;
    int64_t seen = -1;

    begin_plain(w, &w->b, false);
    for (int i = 1; i <= n; i++)
        submit_number(&w->b, i);
    until(w, w->b.n_outcomes == n);
    config.queues = &submit_queue;
    config.n_queues = 1;
    config.prefetch = 3;
    w->a.keep = true;
    begin(w, &w->a, &config);
    for (int kept = 3; kept <= n; kept++) {
        until(w, w->a.n_kept >= kept);
        bus_look(w->b.bus, "drover.submit", on_look, &seen);
        until(w, seen >= 0);
        assert_int_equal(seen, (int64_t)(n - kept) << 32 | 1);
        seen = -1;
        bus_ack(w->a.bus, w->a.kept[kept - 3]->handle);
    }
}

/* --- refusals --------------------------------------------------------------------------------- */

/* Begins with a configuration that the broker refuses, saying @words. */
static void assert_refused(struct world *w, const struct bus_config *config, const char *words)
{
    struct probe *p = &w->b;
    int64_t start;

    memset(p, 0, sizeof(*p));
    begin(w, p, config);
    until(w, p->refusals >= 2); /* it keeps trying */
    assert_int_equal(p->ups, 0);
    if (!strstr(p->why, words))
        fail_msg("'%s' does not say '%s'", p->why, words);
    start = clock_monotonic_ms();
    shut(w, p);
    assert_true(clock_monotonic_ms() - start < TAKES_ITS_TIME_MS);
}

static void test_refusals(void **state)
{
    struct world *w = *state;
    struct bus_config config = config_of(w);

    config.password = "wrong";
    assert_refused(w, &config, "ACCESS_REFUSED");
    config = config_of(w);
    config.vhost = "nowhere";
    assert_refused(w, &config, "vhost nowhere");
    config = config_of(w);
    config.declare = false;
    assert_refused(w, &config, "exchange drover.submit");

    begin_plain(w, &w->a, false); /* declares */
    begin(w, &w->b, &config);
    until(w, w->b.ups == 1);
    shut(w, &w->b);
    config.queues = &task_queue;
    config.n_queues = 1;
    assert_refused(w, &config, "queue drover.task.painter");
    ctl(w, "clear_permissions", "-p", w->vhost, config.user);
    config = config_of(w);
    assert_refused(w, &config, "vhost");
    set_rights(w, ".*", ".*", ".*");
}

/* The queue is there, with other arguments: said once a connection, and sent all the same. */
static void test_task_queue_of_another_kind(void **state)
{
    struct world *w = *state;
    struct bus_config classic = config_of(w);
    struct bus_config quorum = config_of(w);

    classic.queues = &task_queue;
    classic.n_queues = 1;
    begin(w, &w->a, &classic);
    until(w, w->a.ups == 1);
    begin_plain(w, &w->b, false);
    shut(w, &w->b);
    ctl(w, "delete_queue", "-p", w->vhost, "drover.submit");
    ctl(w, "delete_queue", "-p", w->vhost, "drover.replies");
    ctl(w, "delete_queue", "-p", w->vhost, "drover.control");
    ctl(w, "delete_queue", "-p", w->vhost, "drover.expired");
    ctl(w, "delete_queue", "-p", w->vhost, "drover.dead");
    quorum.quorum = true;
    begin(w, &w->b, &quorum);
    for (int i = 1; i <= 3; i++) {
        char id[16];
        struct bus_message m = {
            .exchange = "drover.tasks",
            .key = "painter",
            .actor = "painter",
            .message_id = id,
            .mandatory = true,
        };

        snprintf(id, sizeof(id), "%d", i);
        assert_int_equal(bus_publish(w->b.bus, &m, (uint64_t)i), 0);
    }
    until(w, w->b.n_outcomes == 3 && w->a.n_seen == 3);
    assert_outcomes(&w->b, 3, BUS_CONFIRMED);
    assert_int_equal(w->b.refusals, 1);
    assert_non_null(strstr(w->b.why, "queue drover.task.painter"));
    assert_int_equal(w->b.downs, 0);
}

/* The broker closes the channel over one message: that one is refused, the others arrive. */
static void test_missing_exchange(void **state)
{
    struct world *w = *state;
    const int n = 60;

    begin_plain(w, &w->a, true);
    for (int i = 1; i <= n; i++)
        publish_number(&w->a, i, i % 20 ? "drover.submit" : "drover.nothing", "submit");
    until(w, w->a.n_outcomes == n && w->a.n_seen == n - n / 20);
    for (int i = 1; i <= n; i++) {
        assert_int_equal(w->a.outcomes[i], 1);
        assert_int_equal(w->a.outcome[i], i % 20 ? BUS_CONFIRMED : BUS_NACKED);
    }
}

/* --- losses ----------------------------------------------------------------------------------- */

/* The broker closes all connections in the midst of it, twice: nothing is lost. */
static void test_connections_closed(void **state)
{
    struct world *w = *state;
    const int n = 3000;
    int sent = 0;

    begin_plain(w, &w->a, true);
    for (int round = 1; round <= 2; round++) {
        uv_process_t process;
        int64_t status;
        int ups = w->a.ups;
        int start = sent;

        ctl_start(w, &process, &status,
                  WORDS("close_all_connections", "-p", w->vhost, "in the midst"));
        while (w->a.ups == ups) {
            /* A stream with something always under way. */
            if (sent < n * round / 2 && sent - w->a.n_outcomes < 200)
                submit_number(&w->a, ++sent);
            else
                until(w, sent - w->a.n_outcomes < 200 || w->a.ups > ups);
            if (sent == n * round / 2)
                until(w, w->a.ups > ups);
            uv_run(&w->loop, UV_RUN_NOWAIT);
        }
        assert_true(sent > start);
        until(w, status == 0);
        assert_int_equal(w->a.downs, round);
        assert_non_null(strstr(w->a.why, "in the midst"));
    }
    while (sent < n)
        submit_number(&w->a, ++sent);
    until(w, w->a.n_outcomes >= n && w->a.n_seen >= n);
    assert_outcomes(&w->a, n, BUS_CONFIRMED);
}

/* The broker goes away and comes back: what was published in between arrives. */
static void test_broker_away(void **state)
{
    struct world *w = *state;
    struct bus_stats stats;

    begin_plain(w, &w->a, true);
    ctl(w, "stop_app");
    until(w, w->a.downs == 1);
    for (int i = 1; i <= 10; i++)
        submit_number(&w->a, i);
    bus_stats(w->a.bus, &stats);
    assert_false(stats.up);
    ctl(w, "start_app");
    until(w, w->a.ups == 2 && w->a.n_outcomes == 10 && w->a.n_seen == 10);
    assert_outcomes(&w->a, 10, BUS_CONFIRMED);
}

/* What was confirmed is there when the broker comes back, and nobody has it published again. */
static void test_persistent(void **state)
{
    struct world *w = *state;
    const int n = 10;

    begin_plain(w, &w->a, false);
    for (int i = 1; i <= n; i++)
        submit_number(&w->a, i);
    shut(w, &w->a);
    assert_outcomes(&w->a, n, BUS_CONFIRMED);
    ctl(w, "stop_app");
    ctl(w, "start_app");
    begin_plain(w, &w->b, true);
    until(w, w->b.n_seen == n);
}

/* An ack of a delivery whose connection is gone does nothing, neither to the old nor to a new one.
 */
static void test_old_acks_are_void(void **state)
{
    struct world *w = *state;
    const int n = 10;

    w->a.keep = true;
    begin_plain(w, &w->a, true);
    for (int i = 1; i <= n; i++)
        submit_number(&w->a, i);
    until(w, w->a.n_kept == n);
    ctl(w, "close_all_connections", "-p", w->vhost, "test");
    until(w, w->a.n_kept == 2 * n);
    for (int i = 0; i < n; i++)
        bus_ack(w->a.bus, w->a.kept[i]->handle);
    shut(w, &w->a);
    w->b.keep = true;
    begin_plain(w, &w->b, true);
    until(w, w->b.n_kept == n);
    assert_int_equal(w->b.n_seen, n);
}

/* The queue is deleted under its consumer: declared anew, consumed again. */
static void test_consumer_cancelled(void **state)
{
    struct world *w = *state;

    begin_plain(w, &w->a, true);
    ctl(w, "delete_queue", "-p", w->vhost, "drover.submit");
    until(w, w->a.ups == 2);
    assert_non_null(strstr(w->a.why, "drover.submit"));
    submit_number(&w->a, 1);
    until(w, w->a.n_outcomes == 1 && w->a.n_seen == 1);
}

/* A listener that takes connections and says nothing, ever. */
static void test_silent_peer(void **state)
{
    struct world *w = *state;
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct bus_config config = config_of(w);
    int64_t start;

    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(fd, 10), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    config.port = ntohs(address.sin_port);
    begin(w, &w->a, &config);
    submit_number(&w->a, 1);
    uv_run(&w->loop, UV_RUN_NOWAIT);
    start = clock_monotonic_ms();
    bus_close(w->a.bus, 200, on_closed);
    until(w, w->a.closed);
    assert_true(clock_monotonic_ms() - start < TAKES_ITS_TIME_MS);
    assert_int_equal(w->a.n_outcomes, 0);
    w->a.bus = bus_free(w->a.bus);
    close(fd);
}

static pid_t broker_pid(void)
{
    char command[512];
    FILE *ctl;
    int pid = 0;

    snprintf(command, sizeof(command), "%s --quiet eval 'list_to_integer(os:getpid()).'",
             required("DROVER_TEST_RABBITMQCTL"));
    ctl = popen(command, "r");
    assert_non_null(ctl);
    assert_int_equal(fscanf(ctl, "%d", &pid), 1);
    assert_int_equal(pclose(ctl), 0);
    assert_true(pid > 1);
    return pid;
}

/* The broker says nothing any more: noticed by an idle bus, and by one in the midst of send(). What
 * was on the wire is sent again; that no queue takes it then says nothing of the first time. */
static void test_frozen_broker(void **state)
{
    struct world *w = *state;
    const int n = 20;
    struct bus_config config = config_of(w);

    config.heartbeat_s = 1;
    config.connect_timeout_ms = 1000;
    begin(w, &w->b, &config);
    config.queues = &submit_queue;
    config.n_queues = 1;
    begin(w, &w->a, &config);
    submit_number(&w->b, 1);
    until(w, w->a.ups == 1 && w->b.ups == 1 && w->b.n_outcomes == 1);
    w->frozen = broker_pid();
    kill(w->frozen, SIGSTOP);
    publish_number(&w->b, n + 1, "drover.submit", "nowhere");
    publish_large(&w->b, 2, n, 4 << 20);
    until(w, w->a.downs == 1 && w->b.downs == 1);
    thaw(w);
    until(w, w->a.ups == 2 && w->b.n_outcomes == n + 1 && w->a.n_seen == n);
    assert_outcomes(&w->b, n, BUS_CONFIRMED);
    assert_int_equal(w->b.outcome[n + 1], BUS_NACKED);
    publish_number(&w->b, n + 2, "drover.submit", "nowhere");
    until(w, w->b.n_outcomes == n + 2);
    assert_int_equal(w->b.outcome[n + 2], BUS_RETURNED);
}

/* --- confirms that do not come ---------------------------------------------------------------- */

#define FRAME_HEAD 7
#define FRAME_MAX (FRAME_HEAD + 131072 + 1)

/* A proxy before the broker, for one connection at a time, that keeps confirms to itself. */
struct miser {
    int listener;
    int port;
    pthread_t thread;
    _Atomic int keeps; /* so many more */
    _Atomic bool ends;
};

static int dial(int port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
        .sin_port = htons((uint16_t)port),
    };
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* basic.ack on the channel of the publishes. */
static bool is_confirm(const uint8_t *frame, size_t len)
{
    static const uint8_t ack[] = {0, 60, 0, 80};

    return frame[0] == 1 && frame[2] == 1 && len > FRAME_HEAD + sizeof(ack) &&
           memcmp(frame + FRAME_HEAD, ack, sizeof(ack)) == 0;
}

/* Passes on each frame that is there whole. Return: how much of it is left. */
static size_t pass_frames(struct miser *m, int to, uint8_t *data, size_t len)
{
    size_t from = 0;

    while (len - from >= FRAME_HEAD) {
        const uint8_t *frame = data + from;
        size_t size = (size_t)frame[3] << 24 | (size_t)frame[4] << 16 | (size_t)frame[5] << 8;

        size = FRAME_HEAD + (size | frame[6]) + 1;
        if (len - from < size)
            break;
        if (is_confirm(frame, size) && m->keeps > 0)
            m->keeps--;
        else if (write(to, frame, size) < 0)
            return 0; /* who is gone reads nothing more */
        from += size;
    }
    memmove(data, data + from, len - from);
    return len - from;
}

static void pump(struct miser *m, int client, int broker)
{
    static uint8_t frames[2 * FRAME_MAX], bytes[65536];
    struct pollfd fds[] = {{.fd = client, .events = POLLIN}, {.fd = broker, .events = POLLIN}};
    size_t kept = 0;

    while (!m->ends && poll(fds, 2, AGAIN_MS) >= 0) {
        ssize_t n;

        if (fds[0].revents) {
            n = read(client, bytes, sizeof(bytes));
            if (n <= 0 || write(broker, bytes, (size_t)n) != n)
                return;
        }
        if (fds[1].revents) {
            n = read(broker, frames + kept, sizeof(frames) - kept);
            if (n <= 0)
                return;
            kept = pass_frames(m, client, frames, kept + (size_t)n);
        }
    }
}

static void *miser_main(void *context)
{
    struct miser *m = context;
    struct pollfd fd = {.fd = m->listener, .events = POLLIN};

    while (!m->ends) {
        int client, broker;

        if (poll(&fd, 1, AGAIN_MS) <= 0)
            continue;
        client = accept(m->listener, NULL, NULL);
        broker = dial(atoi(required("DROVER_TEST_AMQP_PORT")));
        pump(m, client, broker);
        close(client);
        close(broker);
    }
    return NULL;
}

static void miser_start(struct miser *m)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    socklen_t len = sizeof(address);

    signal(SIGPIPE, SIG_IGN);
    m->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(m->listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(m->listener, 10), 0);
    assert_int_equal(getsockname(m->listener, (struct sockaddr *)&address, &len), 0);
    m->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&m->thread, NULL, miser_main, m), 0);
}

static void miser_end(struct miser *m)
{
    m->ends = true;
    pthread_join(m->thread, NULL);
    close(m->listener);
}

/* The one bus publishes by way of the miser, the other consumes; one message is through. */
static void begin_with_miser(struct world *w, struct miser *m)
{
    struct bus_config config = config_of(w);

    begin_plain(w, &w->b, true);
    miser_start(m);
    config.host = "127.0.0.1";
    config.port = m->port;
    config.heartbeat_s = 1;
    config.confirm_ms = CONFIRM_MS;
    begin(w, &w->a, &config);
    submit_number(&w->a, 1);
    until(w, w->a.n_outcomes == 1);
}

static void on_passed(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

static void let_pass(struct world *w, uint64_t ms)
{
    bool passed = false;
    uv_timer_t timer;

    uv_timer_init(&w->loop, &timer);
    timer.data = &passed;
    uv_timer_start(&timer, on_passed, ms, 0);
    until(w, passed);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&w->loop, UV_RUN_NOWAIT);
}

/* Nothing is confirmed: another connection is tried, and what was sent is sent again. */
static void test_no_confirms(void **state)
{
    struct world *w = *state;
    struct miser m = {0};
    const int n = 5;

    begin_with_miser(w, &m);
    m.keeps = INT_MAX;
    for (int i = 2; i <= n; i++)
        submit_number(&w->a, i);
    until(w, w->a.downs == 1);
    m.keeps = 0;
    assert_non_null(strstr(w->a.why, "no confirm of a message to drover.submit submit"));
    until(w, w->a.n_outcomes == n && w->b.n_seen == n);
    assert_outcomes(&w->a, n, BUS_CONFIRMED);
    assert_true(w->b.n_delivered > n);
    shut(w, &w->a);
    miser_end(&m);
}

/* One is missing, and those after it come, which go there. Returns after how many ms it was missed.
 */
static uint64_t one_confirm_missing(struct world *w, const char *exchange, const char *key)
{
    struct miser m = {0};
    uint64_t began, missed;
    int n = 2;

    begin_with_miser(w, &m);
    m.keeps = 1;
    began = uv_now(&w->loop);
    submit_number(&w->a, n);
    until(w, m.keeps == 0);
    while (w->a.downs == 0) {
        publish_number(&w->a, ++n, exchange, key);
        until(w, w->a.outcomes[n] == 1 || w->a.downs > 0);
        let_pass(w, 10);
    }
    missed = uv_now(&w->loop) - began;
    assert_true(n > 3 && w->a.n_outcomes < n);
    until(w, w->a.n_outcomes == n);
    assert_outcomes(&w->a, n, BUS_CONFIRMED);
    assert_int_equal(w->a.downs, 1);
    shut(w, &w->a);
    miser_end(&m);
    return missed;
}

/* To the same place: it is missed all the same. */
static void test_one_confirm_missing(void **state)
{
    assert_true(one_confirm_missing(*state, "drover.submit", "submit") < 5 * CONFIRM_MS);
}

/* To another: it may come yet, but is not waited for without a bound. */
static void test_confirm_missing_of_one_place(void **state)
{
    one_confirm_missing(*state, "", "drover.submit");
}

/* --- alarms ----------------------------------------------------------------------------------- */

/* What an alarm holds up is not missing, nor as soon as it is over. */
static void test_alarm_takes_long(void **state)
{
    struct world *w = *state;
    struct bus_config config = config_of(w);

    config.heartbeat_s = 1;
    config.confirm_ms = CONFIRM_MS;
    begin(w, &w->a, &config);
    submit_number(&w->a, 1);
    until(w, w->a.n_outcomes == 1);
    set_alarm(w, true);
    submit_number(&w->a, 2);
    until(w, w->a.blocked);
    let_pass(w, 3 * CONFIRM_MS);
    set_alarm(w, false);
    until(w, w->a.n_outcomes == 2);
    assert_outcomes(&w->a, 2, BUS_CONFIRMED);
    assert_int_equal(w->a.downs, 0);
}

/* The publisher is held up and goes on; the consumer drains all the while; the loop never waits. */
static void test_alarm(void **state)
{
    struct world *w = *state;
    const int n = 500;
    struct bus_stats stats;

    begin_plain(w, &w->a, true);
    submit_number(&w->a, 1);
    until(w, w->a.n_outcomes == 1);
    set_alarm(w, true);
    uv_check_start(&w->turns.check, on_turn_begin);
    uv_prepare_start(&w->turns.prepare, on_turn_end);
    publish_large(&w->a, 2, n, 100000);
    until(w, w->a.blocked);
    bus_stats(w->a.bus, &stats);
    assert_true(stats.blocked && stats.waiting > 0);
    set_alarm(w, false);
    until(w, !w->a.blocked && w->a.n_outcomes == n && w->a.n_seen == n);
    assert_outcomes(&w->a, n, BUS_CONFIRMED);
    assert_int_equal(w->a.downs, 0);
    assert_true(w->turns.longest < TAKES_ITS_TIME_MS);
}

/* What had come before it is delivered, one after another, as each is acknowledged. */
static void test_alarm_drains(void **state)
{
    struct world *w = *state;
    struct bus_config config = config_of(w);
    const int n = 10;

    begin_plain(w, &w->b, false);
    for (int i = 1; i <= n; i++)
        submit_number(&w->b, i);
    until(w, w->b.n_outcomes == n);
    config.queues = &submit_queue;
    config.n_queues = 1;
    config.prefetch = 1;
    w->a.keep = true;
    begin(w, &w->a, &config);
    until(w, w->a.n_kept == 1);
    set_alarm(w, true);
    submit_number(&w->a, n + 1);
    until(w, w->a.blocked);
    for (int i = 1; i <= n; i++) {
        until(w, w->a.n_kept == i);
        bus_ack(w->a.bus, w->a.kept[i - 1]->handle);
    }
    assert_true(w->a.blocked);
}

/* Closing in an alarm, with the thread waiting (small messages) or in the midst of send(). */
static void close_in_alarm(struct world *w, int n, size_t size)
{
    int64_t start;

    begin_plain(w, &w->a, false);
    submit_number(&w->a, 1);
    until(w, w->a.n_outcomes == 1);
    set_alarm(w, true);
    publish_large(&w->a, 2, n, size);
    uv_run(&w->loop, UV_RUN_NOWAIT);
    start = clock_monotonic_ms();
    bus_close(w->a.bus, 500, on_closed);
    until(w, w->a.closed);
    assert_true(clock_monotonic_ms() - start < 500 + TAKES_ITS_TIME_MS);
    assert_true(w->a.n_outcomes < n);
    w->a.bus = bus_free(w->a.bus);
    set_alarm(w, false);
}

static void test_close_in_alarm_waiting(void **state)
{
    close_in_alarm(*state, 100, 1000);
}

static void test_close_in_alarm_sending(void **state)
{
    close_in_alarm(*state, 20, 4 << 20);
}

/* -------------------------------------------------------------------------------------------- */

#define bus_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
    int failed = 0;

    const struct CMUnitTest tests[] = {
        bus_test(test_round_trip),
        bus_test(test_bodies),
        bus_test(test_return),
        bus_test(test_nack),
        bus_test(test_acks_out_of_order),
        bus_test(test_close_gives_back),
        bus_test(test_stop_consuming),
        bus_test(test_requeue),
        bus_test(test_closing_flushes),
        bus_test(test_expiration),
        bus_test(test_not_after),
        bus_test(test_direct_reply),
        bus_test(test_oversize),
        bus_test(test_pulse),
        bus_test(test_pulse_without_queue),
        bus_test(test_pulse_after_loss),
        bus_test(test_pulse_refused),
        bus_test(test_pulse_without_exchange),
        bus_test(test_pulse_not_writable),
        bus_test(test_pulse_refused_and_mended),
        bus_test(test_pulse_writable_again),
        bus_test(test_look),
        bus_test(test_prefetch),
        bus_test(test_refusals),
        bus_test(test_task_queue_of_another_kind),
        bus_test(test_missing_exchange),
        bus_test(test_connections_closed),
        bus_test(test_broker_away),
        bus_test(test_persistent),
        bus_test(test_old_acks_are_void),
        bus_test(test_consumer_cancelled),
        bus_test(test_silent_peer),
        bus_test(test_frozen_broker),
        bus_test(test_no_confirms),
        bus_test(test_one_confirm_missing),
        bus_test(test_confirm_missing_of_one_place),
        bus_test(test_alarm),
        bus_test(test_alarm_drains),
        bus_test(test_alarm_takes_long),
        bus_test(test_close_in_alarm_waiting),
        bus_test(test_close_in_alarm_sending),
    };

    if (argc == 1)
        return cmocka_run_group_tests(tests, NULL, NULL);
    for (int i = 1; i < argc; i++) {
        cmocka_set_test_filter(argv[i]);
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    }
    return failed;
}
