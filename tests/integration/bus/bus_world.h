// SPDX-License-Identifier: Apache-2.0
/*
 * The environment of a test of the bus: a vhost of its own, and two buses under observation
 *
 * It needs the variables that tests/lib/servers.py sets. An error in these functions fails the
 * test. DROVER_TEST_PATIENCE_S is the longest time that a test waits. With DROVER_TEST_TLS=1 the
 * buses connect by TLS, but for what only clear text can show.
 */
#pragma once

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/types.h>
#include <uv.h>

#include "io/bus/bus.h"

#define MAX_MESSAGES 4000
#define TOO_LONG_MS 1000 /* far more than a callback may take, sanitizers or not */

enum source {
    FROM_SUBMIT = 10,
    FROM_REPLIES,
    FROM_EXPIRED,
    FROM_TASKS,
    FROM_DIRECT,
};

extern const struct bus_queue submit_queue;
extern const struct bus_queue reply_queue; /* only who consumes it declares it */

/* A bus under observation. */
struct probe {
    struct bus *bus;
    int ups;
    int downs;
    int refusals;
    int batches;
    int pulses;
    bool blocked;
    bool closed;
    char why[256];
    int losses;
    char lost[64];   /* the last actor of which that was said */
    bool keeps_lost; /* bus_declare() does not follow */
    bool keep;       /* keep deliveries in `kept`, without an ack */
    bool ack_all;    /* acknowledge and free deliveries */
    struct bus_delivery *kept[MAX_MESSAGES];
    int n_kept;
    int n_delivered;
    int seen[MAX_MESSAGES]; /* deliveries by message_id, if that is a number */
    int n_seen;             /* how many of them were delivered at least once */
    int outcomes[MAX_MESSAGES];
    enum bus_outcome outcome[MAX_MESSAGES]; /* the last outcome, by id */
    int downs_before[MAX_MESSAGES];         /* what `downs` was at that outcome */
    int n_outcomes;
};

struct world {
    uv_loop_t loop;
    uv_timer_t deadline;
    bool timed_out;
    char vhost[64];
    uv_check_t iteration_begin;
    uv_prepare_t iteration_end;
    int64_t iteration_began;
    int64_t longest_iteration; /* since watch_iterations() */
    bool alarmed;              /* by set_alarm() */
    bool frozen;               /* by freeze() */
    pid_t broker;              /* by find_broker() */
    struct tls_context *tls;   /* NULL: the test is in clear text */
    struct probe a;
    struct probe b;
};

/* --- a test ----------------------------------------------------------------------------------- */

#define bus_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int setup(void **state);
int teardown(void **state);

/* Runs all cases, or those that the arguments name. Returns how many failed. */
int run_cases(int argc, char **argv, const struct CMUnitTest *cases, size_t n);

/* Runs the loop until the condition holds. */
#define until(w, condition)                                                                        \
    do {                                                                                           \
        start_deadline(w);                                                                         \
        while (!(condition) && !(w)->timed_out)                                                    \
            uv_run(&(w)->loop, UV_RUN_ONCE);                                                       \
        uv_timer_stop(&(w)->deadline);                                                             \
        if (!(condition))                                                                          \
            fail_msg("timed out waiting for %s", #condition);                                      \
    } while (0)

void start_deadline(struct world *w);

/* Runs the loop for some time. */
void let_pass(struct world *w, uint64_t ms);

/* Measures from now on how long each iteration of the loop takes. */
void watch_iterations(struct world *w);

/* Returns a variable of the environment, which must be set. */
const char *required(const char *name);

/* Returns a socket that listens at any port of loopback. */
int listen_anywhere(int *port);

/* --- the broker ------------------------------------------------------------------------------- */

/* Starts a program; *status is -1 until it has ended. The words end with NULL; the first is set
 * here. */
void program_start(struct world *w, uv_process_t *process, int64_t *status, const char *program,
                   const char **words);

/* The same, and waits for its end, which must have status 0. */
void program_run(struct world *w, const char *program, const char **words);

/* rabbitmqctl */
#define WORDS(...) ((const char *[]){NULL, "--quiet", __VA_ARGS__, NULL})
#define ctl(w, ...) program_run((w), required("DROVER_TEST_RABBITMQCTL"), WORDS(__VA_ARGS__))

/* Has the broker evaluate an expression, a hundred times as fast as with rabbitmqctl. */
__attribute__((format(printf, 2, 3))) void evaluate(struct world *w, const char *format, ...);

/* Sets the patterns of the names that the user may configure, write and read. */
void set_rights(struct world *w, const char *configure, const char *write, const char *read);

/* Finds the broker's process. This blocks the loop, without heartbeats, so it must come before a
 * bus. */
void find_broker(struct world *w);

/* An alarm, and a frozen broker, end with the test. */
void set_alarm(struct world *w, bool on);
void freeze(struct world *w); /* stops the process that find_broker() has found */
void thaw(struct world *w);

/* --- buses ------------------------------------------------------------------------------------ */

/* queue: the queue that the bus consumes, or NULL. */
struct bus_config config_of(const struct world *w, const struct bus_queue *queue);

/* The same at the port for clear text: for servers that are not RabbitMQ, and for what looks at
 * frames. */
struct bus_config clear_config_of(const struct world *w, const struct bus_queue *queue);

void begin(struct world *w, struct probe *p, const struct bus_config *config);

/* Begins a bus that consumes drover.submit, or nothing, and waits until it is up. */
void begin_plain(struct world *w, struct probe *p, bool consume);

/* Has another bus declare the topology, with a queue that it would consume. */
void declare_queue(struct world *w, const struct bus_queue *queue);

/* Closes the bus. Returns how many ms that took. */
int64_t close_bus(struct world *w, struct probe *p, int timeout_ms);

/* The same without a short timeout, if there is a bus; also frees deliveries that were kept. */
void shut(struct world *w, struct probe *p);

/* --- messages --------------------------------------------------------------------------------- */

/* Publishes a message. number is its message_id, the id of its outcome, and its body if m has none.
 */
void publish(struct probe *p, int number, struct bus_message m);
void publish_number(struct probe *p, int number, const char *exchange, const char *key);
/* To an address of direct reply-to that this sender has given. */
void publish_direct(struct probe *p, int number, const char *key, const char *sender);
void publish_large(struct probe *p, int from, int to, size_t size);

void submit_number(struct probe *p, int number);
void submit_numbers(struct probe *p, int from, int to);

/* Submits 1 to n, and waits until all have an outcome. */
void submit_settled(struct world *w, struct probe *p, int n);

/* Expects outcomes 1 to n, each once: `other` for every nth message, BUS_CONFIRMED for the rest. */
void assert_outcomes(const struct probe *p, int n, int nth, enum bus_outcome other);
#define assert_confirmed(p, n) assert_outcomes((p), (n), INT_MAX, BUS_CONFIRMED)
