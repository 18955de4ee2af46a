// SPDX-License-Identifier: Apache-2.0
/*
 * The environment of a test of the bus: vhost, observed buses, and requests to the broker
 *
 * See bus_world.h. Called by the tests test_bus_*.c.
 */
#include "bus/bus_world.h"

#include <glob.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"

#define DEADLINE_S 60 /* until a test stops waiting */

const struct bus_queue submit_queue = {.name = "drover.submit", .source = FROM_SUBMIT};
const struct bus_queue reply_queue = {.name = "drover.replies", .source = FROM_REPLIES};

/* --- callbacks -------------------------------------------------------------------------------- */

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

/* As if it were recorded at once. */
static void on_lost(void *ctx, const char *actor)
{
    struct probe *p = ctx;

    p->losses++;
    snprintf(p->lost, sizeof(p->lost), "%s", actor);
    if (!p->keeps_lost)
        bus_declare(p->bus, actor);
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
    p->downs_before[id] = p->downs;
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
    .on_lost = on_lost,
    .on_pulse = on_pulse,
    .on_batch_end = on_batch_end,
};

static void on_iteration_begin(uv_check_t *check)
{
    struct world *w = container_of(check, struct world, iteration_begin);

    w->iteration_began = clock_monotonic_ms();
}

static void on_iteration_end(uv_prepare_t *prepare)
{
    struct world *w = container_of(prepare, struct world, iteration_end);
    int64_t took = w->iteration_began ? clock_monotonic_ms() - w->iteration_began : 0;

    if (took > w->longest_iteration)
        w->longest_iteration = took;
}

void watch_iterations(struct world *w)
{
    uv_check_start(&w->iteration_begin, on_iteration_begin);
    uv_prepare_start(&w->iteration_end, on_iteration_end);
}

const char *required(const char *name)
{
    const char *value = getenv(name);

    if (!value)
        fail_msg("%s is not set: run through tests/lib/servers.py", name);
    return value;
}

static uint64_t deadline_ms(void)
{
    const char *s = getenv("DROVER_TEST_PATIENCE_S");

    return 1000 * (s ? strtoull(s, NULL, 10) : DEADLINE_S);
}

static void on_deadline(uv_timer_t *timer)
{
    ((struct world *)timer->data)->timed_out = true;
}

void start_deadline(struct world *w)
{
    w->timed_out = false;
    uv_timer_start(&w->deadline, on_deadline, deadline_ms(), 0);
}

static void on_passed(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

void let_pass(struct world *w, uint64_t ms)
{
    bool passed = false;
    uv_timer_t timer;

    uv_timer_init(&w->loop, &timer);
    timer.data = &passed;
    uv_update_time(&w->loop); /* the test may have done something else meanwhile */
    uv_timer_start(&timer, on_passed, ms, 0);
    until(w, passed);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&w->loop, UV_RUN_NOWAIT);
}

int listen_anywhere(int *port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(fd, 10), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

/* --- the broker ------------------------------------------------------------------------------- */

static void on_ended(uv_process_t *process, int64_t status, int signal)
{
    *(int64_t *)process->data = signal ? signal : status;
    uv_close((uv_handle_t *)process, NULL);
}

void program_start(struct world *w, uv_process_t *process, int64_t *status, const char *program,
                   const char **words)
{
    uv_process_options_t options = {
        .file = program,
        .args = (char **)words,
        .exit_cb = on_ended,
    };

    words[0] = options.file;
    *status = -1;
    process->data = status;
    assert_int_equal(uv_spawn(&w->loop, process, &options), 0);
}

void program_run(struct world *w, const char *program, const char **words)
{
    struct {
        uv_process_t process;
        int64_t status;
    } *run = calloc(1, sizeof(*run)); /* the loop keeps it if the test fails meanwhile */
    int64_t status;

    assert_non_null(run);
    program_start(w, &run->process, &run->status, program, words);
    until(w, run->status >= 0);
    uv_run(&w->loop, UV_RUN_NOWAIT); /* lets the handle close */
    status = run->status;
    free(run);
    assert_int_equal(status, 0);
}

void evaluate(struct world *w, const char *format, ...)
{
    char expression[512];
    va_list args;

    va_start(args, format);
    vsnprintf(expression, sizeof(expression), format, args);
    va_end(args);
    program_run(w, required("DROVER_TEST_EVALUATE"), (const char *[]){NULL, expression, NULL});
}

void set_rights(struct world *w, const char *configure, const char *write, const char *read)
{
    evaluate(w,
             "rabbit_auth_backend_internal:set_permissions(<<\"%s\">>, <<\"%s\">>, <<\"%s\">>, "
             "<<\"%s\">>, <<\"%s\">>, <<\"test\">>)",
             required("DROVER_TEST_AMQP_USER"), w->vhost, configure, write, read);
}

void set_alarm(struct world *w, bool on)
{
    w->alarmed = on;
    ctl(w, "set_vm_memory_high_watermark", on ? "0.00001" : "0.8");
}

void find_broker(struct world *w)
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
    w->broker = pid;
}

/* Whether each thread of a process has stopped. */
static bool has_stopped(pid_t pid)
{
    char pattern[64], state = 'T';
    glob_t threads;

    snprintf(pattern, sizeof(pattern), "/proc/%d/task/*/stat", (int)pid);
    assert_int_equal(glob(pattern, 0, NULL, &threads), 0);
    for (size_t i = 0; i < threads.gl_pathc && state == 'T'; i++) {
        FILE *f = fopen(threads.gl_pathv[i], "r");

        if (!f)
            continue; /* it has ended since */
        assert_int_equal(fscanf(f, "%*d (%*[^)]) %c", &state), 1);
        fclose(f);
    }
    globfree(&threads);
    return state == 'T';
}

/* kill() returns before each thread has stopped, and one that still runs may answer. */
void freeze(struct world *w)
{
    assert_true(w->broker > 1);
    kill(w->broker, SIGSTOP);
    w->frozen = true;
    while (!has_stopped(w->broker))
        usleep(1000);
}

void thaw(struct world *w)
{
    kill(w->broker, SIGCONT);
    w->frozen = false;
}

/* --- buses ------------------------------------------------------------------------------------ */

/* NULL: the test is in clear text. */
static struct tls_context *tls_of_test(void)
{
    const char *chosen = getenv("DROVER_TEST_TLS"); /* as in tests/lib/servers.py */
    struct tls_context *tls = NULL;
    struct problem problem = {0};
    struct tls_files files = {.cert_file = "", .key_file = ""};

    if (!chosen || strcmp(chosen, "1") != 0)
        return NULL;
    files.ca_file = required("DROVER_TEST_AMQP_CA_FILE");
    if (tls_context_new(&tls, &files, &problem) != 0)
        fail_msg("%s: %s", problem.field, problem.reason);
    return tls;
}

struct bus_config clear_config_of(const struct world *w, const struct bus_queue *queue)
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
        .queues = queue,
        .n_queues = queue ? 1 : 0,
        .max_message_bytes = 8 << 20,
    };
}

struct bus_config config_of(const struct world *w, const struct bus_queue *queue)
{
    struct bus_config config = clear_config_of(w, queue);

    config.tls = w->tls;
    if (w->tls)
        config.port = atoi(required("DROVER_TEST_AMQP_TLS_PORT"));
    return config;
}

void begin(struct world *w, struct probe *p, const struct bus_config *config)
{
    assert_int_equal(bus_new(&p->bus, &w->loop, config, &callbacks, p), 0);
}

void begin_plain(struct world *w, struct probe *p, bool consume)
{
    const struct bus_config config = config_of(w, consume ? &submit_queue : NULL);

    begin(w, p, &config);
    until(w, p->ups == 1);
}

void declare_queue(struct world *w, const struct bus_queue *queue)
{
    const struct bus_config config = config_of(w, queue);
    struct probe other = {0};

    begin(w, &other, &config);
    until(w, other.ups == 1);
    shut(w, &other);
}

int64_t close_bus(struct world *w, struct probe *p, int timeout_ms)
{
    int64_t start = clock_monotonic_ms();
    int64_t took;

    bus_close(p->bus, timeout_ms, on_closed);
    until(w, p->closed);
    took = clock_monotonic_ms() - start;
    p->bus = bus_free(p->bus);
    p->closed = false;
    return took;
}

void shut(struct world *w, struct probe *p)
{
    for (int i = 0; i < p->n_kept; i++)
        bus_delivery_free(p->kept[i]);
    p->n_kept = 0;
    if (p->bus)
        close_bus(w, p, 10000);
}

/* --- messages --------------------------------------------------------------------------------- */

void publish(struct probe *p, int number, struct bus_message m)
{
    char id[16];

    snprintf(id, sizeof(id), "%d", number);
    m.message_id = id;
    if (!m.body.data)
        m.body = bytes_str(id);
    assert_int_equal(bus_publish(p->bus, &m, (uint64_t)number), 0);
}

void publish_number(struct probe *p, int number, const char *exchange, const char *key)
{
    publish(p, number, (struct bus_message){.exchange = exchange, .key = key, .mandatory = true});
}

void publish_direct(struct probe *p, int number, const char *key, const char *sender)
{
    publish(p, number, (struct bus_message){.exchange = "", .key = key, .sender = sender});
}

void publish_large(struct probe *p, int from, int to, size_t size)
{
    uint8_t *body = calloc(1, size);
    const struct bus_message m = {
        .exchange = "drover.submit",
        .key = "submit",
        .body = bytes_of(body, size),
        .mandatory = true,
    };

    assert_non_null(body);
    for (int i = from; i <= to; i++)
        publish(p, i, m);
    free(body);
}

void submit_number(struct probe *p, int number)
{
    publish_number(p, number, "drover.submit", "submit");
}

void submit_numbers(struct probe *p, int from, int to)
{
    for (int i = from; i <= to; i++)
        submit_number(p, i);
}

void submit_settled(struct world *w, struct probe *p, int n)
{
    submit_numbers(p, 1, n);
    until(w, p->n_outcomes == n);
}

void assert_outcomes(const struct probe *p, int n, int nth, enum bus_outcome other)
{
    for (int i = 1; i <= n; i++) {
        assert_int_equal(p->outcomes[i], 1);
        assert_int_equal(p->outcome[i], i % nth ? BUS_CONFIRMED : other);
    }
}

/* --- a test ----------------------------------------------------------------------------------- */

int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    struct rng rng;

    assert_non_null(w);
    assert_int_equal(rng_seed_system(&rng), 0);
    uv_loop_init(&w->loop);
    uv_timer_init(&w->loop, &w->deadline);
    w->deadline.data = w;
    uv_check_init(&w->loop, &w->iteration_begin);
    uv_prepare_init(&w->loop, &w->iteration_end);
    w->a.ack_all = w->b.ack_all = true;
    w->tls = tls_of_test();
    snprintf(w->vhost, sizeof(w->vhost), "bus-%016llx", (unsigned long long)rng_next(&rng));
    evaluate(w, "rabbit_vhost:add(<<\"%s\">>, <<\"test\">>)", w->vhost);
    set_rights(w, ".*", ".*", ".*");
    *state = w;
    return 0;
}

int teardown(void **state)
{
    struct world *w = *state;

    if (w->frozen)
        thaw(w);
    if (w->alarmed)
        set_alarm(w, false);
    shut(w, &w->a);
    shut(w, &w->b);
    evaluate(w, "rabbit_vhost:delete(<<\"%s\">>, <<\"test\">>)", w->vhost);
    uv_close((uv_handle_t *)&w->deadline, NULL);
    uv_close((uv_handle_t *)&w->iteration_begin, NULL);
    uv_close((uv_handle_t *)&w->iteration_end, NULL);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    tls_context_free(w->tls);
    free(w);
    return 0;
}

int run_cases(int argc, char **argv, const struct CMUnitTest *cases, size_t n)
{
    int failed = 0;

    if (argc == 1)
        return _cmocka_run_group_tests("tests", cases, n, NULL, NULL);
    for (int i = 1; i < argc; i++) {
        cmocka_set_test_filter(argv[i]);
        failed += _cmocka_run_group_tests("tests", cases, n, NULL, NULL);
    }
    return failed;
}
