// SPDX-License-Identifier: Apache-2.0
/*
 * drover-sim: many small worlds, each from one seed
 *
 *     drover-sim --seeds 1..2000 [--jobs 2] [--twice]
 *     drover-sim --seed 17 [--trace]
 *
 * Exits with 1 when a world violates an invariant, after printing the seed, what was violated, the
 * last events before it, and the command that replays it. --twice runs each world twice and
 * compares. With --rollbacks the store goes back in time now and then, as with fast durability.
 * --functions takes other store functions than those it was built for.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "world.h"

#define LAST_LINES 60
#define ROLLBACK_RATE 10000 /* in millionths of the calls */
#define REPORT_S 5

struct options {
    const char *program;
    uint64_t first, last;
    bool single;
    bool trace;
    bool twice;
    bool rollbacks;
    unsigned jobs;
    const char *functions;
};

struct totals {
    uint64_t worlds;
    uint64_t events;
    uint64_t calls;
    uint64_t simulated_ms;
    uint64_t failed; /* worlds */
    uint64_t seed;   /* the first that failed */
};

/* ---- one world ---- */

static void run_world(const struct options *o, struct simstore *store, uint64_t seed, FILE *trace,
                      struct world_result *out)
{
    struct timeline t;
    struct plan plan;
    struct world *w;

    timeline_init(&t, seed, trace);
    plan_draw(&plan, &t, seed);
    plan.faults.rollback = o->rollbacks ? ROLLBACK_RATE : 0;
    w = world_new(&(struct world_config){.plan = &plan, .timeline = &t, .store = store});
    world_run(w, out);
    if (trace && *out->violation)
        world_describe(w, trace);
    world_free(w);
    timeline_deinit(&t);
}

static void print_tail(char *text, size_t len)
{
    unsigned lines = 0;
    size_t from = len;

    while (from > 0 && lines <= LAST_LINES)
        lines += text[--from] == '\n';
    fwrite(text + from, 1, len - from, stdout);
}

static void explain(const struct options *o, struct simstore *store, uint64_t seed,
                    const char *violation)
{
    struct world_result again;
    char *text = NULL;
    size_t len = 0;
    FILE *trace = open_memstream(&text, &len);

    if (!trace)
        abort();
    run_world(o, store, seed, trace, &again);
    fclose(trace);
    printf("seed %" PRIu64 ": %s\nthe last events:\n", seed, violation);
    print_tail(text, len);
    printf("seed %" PRIu64 ": %s\nreplay: %s --seed %" PRIu64 " --trace%s\n", seed, violation,
           o->program, seed, o->rollbacks ? " --rollbacks" : "");
    fflush(stdout);
    free(text);
}

static bool run_seed(const struct options *o, struct simstore *store, uint64_t seed,
                     struct totals *totals)
{
    struct world_result result, again;

    run_world(o, store, seed, o->trace ? stdout : NULL, &result);
    if (o->twice) {
        run_world(o, store, seed, NULL, &again);
        if (again.hash != result.hash && !*result.violation)
            snprintf(result.violation, sizeof(result.violation), "two runs differ");
    }
    totals->worlds++;
    totals->events += result.events;
    totals->calls += result.calls;
    totals->simulated_ms += (uint64_t)result.simulated_ms;
    if (o->single)
        printf("seed %" PRIu64 ": %" PRIu64 " events, %" PRIu64 " calls, %" PRId64
               " ms, hash %016" PRIx64 "\n",
               seed, result.events, result.calls, result.simulated_ms, result.hash);
    if (!*result.violation)
        return true;
    if (totals->failed++ == 0) {
        totals->seed = seed;
        explain(o, store, seed, result.violation);
    }
    return false;
}

/* ---- many ---- */

static double now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void report(const struct totals *totals, double seconds, unsigned jobs)
{
    printf("%" PRIu64 " worlds, %.0f a minute, %" PRIu64 " events, %" PRIu64
           " store calls, %.1f simulated hours, %.0f of them in an hour of one core, %" PRIu64
           " failed\n",
           totals->worlds, (double)totals->worlds * 60 / seconds, totals->events, totals->calls,
           (double)totals->simulated_ms / 3.6e6,
           (double)totals->simulated_ms / 1000 / (seconds * jobs), totals->failed);
    fflush(stdout);
}

/* Every jobs-th seed, from the n-th on. */
static struct totals run_share(const struct options *o, unsigned n)
{
    struct simstore *store = simstore_new(o->functions);
    struct totals totals = {0};
    double began = now_s(), told = began;

    for (uint64_t seed = o->first + n; seed <= o->last && totals.failed == 0; seed += o->jobs) {
        run_seed(o, store, seed, &totals);
        if (n == 0 && now_s() - told > REPORT_S) {
            told = now_s();
            report(&totals, told - began, 1);
        }
    }
    simstore_free(store);
    return totals;
}

static void add(struct totals *to, const struct totals *from)
{
    to->worlds += from->worlds;
    to->events += from->events;
    to->calls += from->calls;
    to->simulated_ms += from->simulated_ms;
    to->failed += from->failed;
}

/* A share in a process of its own; its totals come back through a pipe. Return: its read end. */
static int fork_share(const struct options *o, unsigned n)
{
    int ends[2];
    struct totals totals;

    if (pipe(ends))
        abort();
    fflush(stdout);
    switch (fork()) {
    case -1:
        abort();
    case 0:
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        totals = run_share(o, n);
        _exit(write(ends[1], &totals, sizeof(totals)) == sizeof(totals) ? 0 : 2);
    default:
        close(ends[1]);
        return ends[0];
    }
}

static int run_all(const struct options *o)
{
    double began = now_s();
    struct totals totals = {0}, share;
    int ends[64];
    int status = 0;

    for (unsigned n = 0; n < o->jobs; n++)
        ends[n] = fork_share(o, n);
    for (unsigned n = 0; n < o->jobs; n++) {
        if (read(ends[n], &share, sizeof(share)) == sizeof(share))
            add(&totals, &share);
        else
            status = 2; /* it crashed, and said why */
        close(ends[n]);
    }
    while (wait(NULL) > 0)
        continue;
    report(&totals, now_s() - began, o->jobs);
    return status ? status : totals.failed > 0;
}

static int run_single(const struct options *o)
{
    struct simstore *store = simstore_new(o->functions);
    struct totals totals = {0};
    bool good = run_seed(o, store, o->first, &totals);

    simstore_free(store);
    return good ? 0 : 1;
}

static int usage(const char *program)
{
    fprintf(stderr,
            "usage: %s --seeds A..B [--jobs N] [--twice] [--rollbacks] [--functions FILE]\n"
            "       %s --seed N [--trace] [--twice] [--rollbacks] [--functions FILE]\n",
            program, program);
    return 64;
}

static bool parse_seeds(struct options *o, const char *text)
{
    return sscanf(text, "%" SCNu64 "..%" SCNu64, &o->first, &o->last) == 2;
}

static bool parse_options(struct options *o, int argc, char **argv)
{
    static const struct option known[] = {
        {"seeds", required_argument, NULL, 's'},     {"seed", required_argument, NULL, '1'},
        {"jobs", required_argument, NULL, 'j'},      {"trace", no_argument, NULL, 't'},
        {"twice", no_argument, NULL, '2'},           {"rollbacks", no_argument, NULL, 'r'},
        {"functions", required_argument, NULL, 'f'}, {0},
    };
    bool given = false;

    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (c == 's') {
            given = parse_seeds(o, optarg);
        } else if (c == '1') {
            given = o->single = sscanf(optarg, "%" SCNu64, &o->first) == 1;
        } else if (c == 'j') {
            o->jobs = (unsigned)atoi(optarg);
        } else if (c == 't') {
            o->trace = true;
        } else if (c == '2') {
            o->twice = true;
        } else if (c == 'r') {
            o->rollbacks = true;
        } else if (c == 'f') {
            o->functions = optarg;
        } else {
            return false;
        }
    }
    return given && optind == argc && o->jobs >= 1 && o->jobs <= 64;
}

int main(int argc, char **argv)
{
    struct options o = {.program = argv[0], .jobs = 1, .functions = SIM_DROVER_LUA};

    if (!parse_options(&o, argc, argv))
        return usage(argv[0]);
    log_set_level((enum log_level)(LOG_ERROR + 1)); /* machines speak through the trace here */
    return o.single ? run_single(&o) : run_all(&o);
}
