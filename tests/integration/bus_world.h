// SPDX-License-Identifier: Apache-2.0
/*
 * The world of a test of the bus: a vhost of its own, and two buses under observation
 *
 * Needs the variables that tests/lib/servers.py sets. What these functions find wrong fails the
 * test. DROVER_TEST_PATIENCE_S is how long a test waits.
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
#define TAKES_ITS_TIME_MS 1000 /* far more than any callback may take, sanitizers or not */

enum source {
    FROM_SUBMIT = 10,
    FROM_REPLIES,
    FROM_EXPIRED,
    FROM_TASKS,
    FROM_DIRECT,
};

extern const struct bus_queue submit_queue;

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
    bool keep;    /* deliveries, in kept, without an ack */
    bool ack_all; /* and free */
    struct bus_delivery *kept[MAX_MESSAGES];
    int n_kept;
    int n_delivered;
    int seen[MAX_MESSAGES]; /* deliveries by message_id, where that is a number */
    int n_seen;             /* of them, seen at least once */
    int outcomes[MAX_MESSAGES];
    enum bus_outcome outcome[MAX_MESSAGES]; /* the last one, by id ... */
    int downs_before[MAX_MESSAGES];         /* ... and what `downs` was then */
    int n_outcomes;
};

struct world {
    uv_loop_t loop;
    uv_timer_t patience;
    bool impatient;
    char vhost[64];
    uv_check_t turn_begin;
    uv_prepare_t turn_end;
    int64_t turn_began;
    int64_t longest_turn; /* since watch_turns() */
    bool alarmed;         /* by set_alarm() */
    bool frozen;          /* by freeze() */
    pid_t broker;         /* by find_broker() */
    struct probe a;
    struct probe b;
};

/* --- a test ----------------------------------------------------------------------------------- */

#define bus_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int setup(void **state);
int teardown(void **state);

/* Runs the cases; of those that are named as arguments only these. Returns how many failed. */
int run_cases(int argc, char **argv, const struct CMUnitTest *cases, size_t n);

/* Runs the loop until the condition holds. */
#define until(w, condition)                                                                        \
    do {                                                                                           \
        be_patient(w);                                                                             \
        while (!(condition) && !(w)->impatient)                                                    \
            uv_run(&(w)->loop, UV_RUN_ONCE);                                                       \
        uv_timer_stop(&(w)->patience);                                                             \
        if (!(condition))                                                                          \
            fail_msg("waited in vain for %s", #condition);                                         \
    } while (0)

void be_patient(struct world *w);

/* Measures from now on how long the loop's callbacks take without a look at the outside. */
void watch_turns(struct world *w);

/* A variable of the environment. */
const char *required(const char *name);

/* A socket that listens at a port of this machine. */
int listen_anywhere(int *port);

/* --- the broker ------------------------------------------------------------------------------- */

/* Starts a program; *status is -1 until it has ended. Words end with NULL, the first is ours. */
void program_start(struct world *w, uv_process_t *process, int64_t *status, const char *program,
                   const char **words);

/* The same, and waits for its end, which is to be a good one. */
void program_run(struct world *w, const char *program, const char **words);

/* rabbitmqctl */
#define WORDS(...) ((const char *[]){NULL, "--quiet", __VA_ARGS__, NULL})
#define ctl(w, ...) program_run((w), required("DROVER_TEST_RABBITMQCTL"), WORDS(__VA_ARGS__))

/* The broker evaluates an expression: a hundred times as quick as rabbitmqctl. */
__attribute__((format(printf, 2, 3))) void evaluate(struct world *w, const char *format, ...);

/* Patterns of the names that the user may configure, write and read. */
void set_rights(struct world *w, const char *configure, const char *write, const char *read);

/* The loop stands still meanwhile, and sends no heartbeats: before there is a bus. */
void find_broker(struct world *w);

/* Both end with the test. */
void set_alarm(struct world *w, bool on);
void freeze(struct world *w); /* what find_broker() has found */
void thaw(struct world *w);

/* --- buses ------------------------------------------------------------------------------------ */

/* @queue: which it consumes, or NULL. */
struct bus_config config_of(const struct world *w, const struct bus_queue *queue);
void begin(struct world *w, struct probe *p, const struct bus_config *config);

/* Begins a bus that consumes drover.submit, or nothing; it is up. */
void begin_plain(struct world *w, struct probe *p, bool consume);

/* Closes the bus. Returns how many ms that took. */
int64_t close_bus(struct world *w, struct probe *p, int timeout_ms);

/* The same with as much time as it takes, where there is one; frees what was kept, too. */
void shut(struct world *w, struct probe *p);

/* --- messages --------------------------------------------------------------------------------- */

/* Message @number, which is its message_id and the id of its outcome, and its body where @m has
 * none. */
void publish(struct probe *p, int number, struct bus_message m);
void publish_number(struct probe *p, int number, const char *exchange, const char *key);
/* To an address of direct reply-to that this sender has named. */
void publish_direct(struct probe *p, int number, const char *key, const char *sender);
void publish_large(struct probe *p, int from, int to, size_t size);

void submit_number(struct probe *p, int number);
void submit_numbers(struct probe *p, int from, int to);

/* Submits 1 to @n, and waits until all have an outcome. */
void submit_settled(struct world *w, struct probe *p, int n);

/* Outcomes 1 to @n are there, each once: of every @nth message @other, of the rest BUS_CONFIRMED.
 */
void assert_outcomes(const struct probe *p, int n, int nth, enum bus_outcome other);
#define assert_confirmed(p, n) assert_outcomes((p), (n), INT_MAX, BUS_CONFIRMED)
