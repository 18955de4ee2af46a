// SPDX-License-Identifier: Apache-2.0
/*
 * drover-sim: many small worlds, each from one seed
 *
 *     drover-sim --seeds 1..2000 [--jobs 2] [--twice] [--features]
 *     drover-sim --seeds 1..500000 --ledger FILE
 *     drover-sim --seed 17 [--trace | --minimise FILE]
 *     drover-sim --follow FILE [--trace]
 *
 * Exits with 1 if a world violates an invariant, after it has printed the seed, the violation, the
 * last events before it and the command that replays it; with 2 if a world crashes the process, or
 * differs when its own choices are followed. --twice runs each world twice and compares. --features
 * counts the worlds in which something happened, and fails if something never has. With a ledger
 * the seeds are run in pieces, and pieces in the ledger are skipped. --minimise reduces a world,
 * choice by choice, as long as it violates the same, keeps the smallest one in FILE and reports its
 * progress; it may be ended at any time. --follow runs the world in FILE, which may have been
 * edited. --functions uses other store functions than those of the build.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "explorer/minimise.h"
#include "ledger.h"
#include "world/world.h"

#define LAST_LINES 60
#define REPORT_S 5
#define PIECE 1000 /* seeds of one entry in the ledger */
#define JOBS_MAX 64

struct options {
    const char *program;
    uint64_t first, last;
    bool single;
    bool trace;
    bool twice;
    bool features;
    const char *ledger;   /* NULL: none */
    const char *minimise; /* the file to write; NULL: do not minimise */
    const char *follow;   /* the file to follow; NULL: chance */
    unsigned jobs;
    const char *functions;
};

struct totals {
    uint64_t worlds;
    uint64_t known; /* of these, from the ledger */
    uint64_t simulated_ms;
    uint64_t cpu_us;
    uint64_t small; /* worlds, and their share of cpu_us */
    uint64_t small_us;
    uint64_t failed;           /* worlds */
    uint64_t shown[FEATURES_]; /* worlds in which each feature has happened */
};

static double clock_s(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static double now_s(void)
{
    return clock_s(CLOCK_MONOTONIC);
}

/* ---- one world ---- */

/* Return: whether it was a small one. */
static bool run_world(const struct options *o, struct simstore *store, uint64_t seed,
                      struct decider *decider, FILE *trace, struct world_result *out)
{
    struct timeline t;
    struct plan plan;

    timeline_init(&t, seed, trace);
    plan_draw(&plan, &t, seed);
    t.decider = decider;
    world_play(&(struct world_config){.plan = &plan, .timeline = &t, .store = store}, out);
    timeline_deinit(&t);
    return plan_small(&plan);
}

static void print_tail(char *text, size_t len)
{
    unsigned lines = 0;
    size_t from = len;

    while (from > 0 && lines <= LAST_LINES)
        lines += text[--from] == '\n';
    fwrite(text + from, 1, len - from, stdout);
}

/* Options that a command about this world needs, too. */
static const char *more(const struct options *o)
{
    static char text[4096];
    bool others = strcmp(o->functions, SIM_DROVER_LUA) != 0;

    snprintf(text, sizeof(text), "%s%s%s", o->twice ? " --twice" : "",
             others ? " --functions " : "", others ? o->functions : "");
    return text;
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
    run_world(o, store, seed, NULL, trace, &again);
    fclose(trace);
    printf("seed %" PRIu64 ": %s\nthe last events:\n", seed, violation);
    print_tail(text, len);
    printf("seed %" PRIu64 ": %s\nreplay: %s --seed %" PRIu64 " --trace%s\n"
           "minimise: %s --seed %" PRIu64 " --minimise world.txt%s\n",
           seed, violation, o->program, seed, more(o), o->program, seed, more(o));
    fflush(stdout);
    free(text);
}

static bool run_seed(const struct options *o, struct simstore *store, uint64_t seed,
                     struct totals *totals)
{
    struct world_result result, again;
    bool small = run_world(o, store, seed, NULL, o->trace ? stdout : NULL, &result);

    if (o->twice) {
        run_world(o, store, seed, NULL, NULL, &again);
        if (again.hash != result.hash && !*result.violation)
            snprintf(result.violation, sizeof(result.violation), "two runs differ");
    }
    uint64_t us = (uint64_t)(clock_s(CLOCK_PROCESS_CPUTIME_ID) * 1e6) - totals->cpu_us;
    totals->cpu_us += us;
    totals->worlds++;
    totals->small += small;
    totals->small_us += small ? us : 0;
    totals->simulated_ms += (uint64_t)result.simulated_ms;
    for (int i = 0; i < FEATURES_; i++)
        totals->shown[i] += result.seen[i];
    if (o->single)
        printf("seed %" PRIu64 ": %" PRIu64 " events, %" PRIu64 " calls, %" PRId64
               " ms, hash %016" PRIx64 "\n",
               seed, result.events, result.calls, result.simulated_ms, result.hash);
    if (!*result.violation)
        return true;
    if (totals->failed++ == 0)
        explain(o, store, seed, result.violation);
    return false;
}

/* ---- minimising ---- */

struct one {
    const struct options *o;
    struct simstore *store;
    uint64_t seed;
    FILE *trace;
    double reported_s; /* when the last progress was printed */
    bool unwritten;    /* the file could not be written */
};

static void run_one(void *ctx, struct decider *decider, struct world_result *out)
{
    const struct one *one = ctx;

    run_world(one->o, one->store, one->seed, decider, one->trace, out);
}

static void report_least(const struct options *o, const struct minimise_result *r)
{
    printf("%s\n%" PRIu32 " choices, %" PRIu64 " events; at first %" PRIu32 " and %" PRIu64
           "; %" PRIu32 " worlds\nfollow: %s --follow %s --trace%s   # hash %016" PRIx64 "\n",
           r->after.violation, r->choices_after, r->after.events, r->choices_before,
           r->before.events, r->worlds, o->program, o->minimise, more(o), r->after.hash);
}

/* Replaces the file as a whole: the program may be ended at any time. */
static bool write_world(const struct one *one, const struct choices *choices)
{
    char part[4096];
    FILE *out;

    snprintf(part, sizeof(part), "%s.part", one->o->minimise);
    if (!(out = fopen(part, "w")))
        return false;
    fprintf(out, "seed %" PRIu64 "\n", one->seed);
    choices_write(choices, out);
    return fclose(out) == 0 && rename(part, one->o->minimise) == 0;
}

static void tell_least(void *ctx, const struct minimise_result *r, const struct choices *kept)
{
    struct one *one = ctx;

    if (kept)
        one->unwritten = !write_world(one, kept);
    if (now_s() - one->reported_s < REPORT_S)
        return;
    one->reported_s = now_s();
    fprintf(stderr, "%" PRIu32 " of %" PRIu32 " choices left after %" PRIu32 " worlds\n",
            r->choices_after, r->choices_before, r->worlds);
}

/* Return: 1: the world violates something, as before; 2: it does not when it is followed. */
static int run_minimise(struct one *one)
{
    struct choices *choices = choices_new();
    struct minimise_result result;
    int status = 0;

    one->reported_s = now_s();
    switch (minimise(choices, run_one, tell_least, one, &result)) {
    case MINIMISE_LEAST:
        choices_write(choices, stdout);
        report_least(one->o, &result);
        status = one->unwritten ? 74 : 1;
        break;
    case MINIMISE_NOTHING:
        printf("seed %" PRIu64 " violates nothing\n", one->seed);
        break;
    case MINIMISE_DIVERGED:
        printf("seed %" PRIu64 ": %s\nit differs when it follows its own choices and cannot be "
               "replayed, which is a bug of the simulator\n",
               one->seed, result.before.violation);
        status = 2;
        break;
    }
    choices_free(choices);
    return status;
}

/* The first line has the seed. */
static bool read_world(const struct options *o, struct one *one, struct choices *choices)
{
    FILE *in = fopen(o->follow, "r");
    char line[1024];
    bool good;

    if (!in)
        return false;
    good = fgets(line, sizeof(line), in) && sscanf(line, "seed %" SCNu64, &one->seed) == 1;
    while (good && fgets(line, sizeof(line), in))
        good = choices_parse(choices, line);
    fclose(in);
    return good;
}

static int run_follow(struct options *o, struct one *one)
{
    struct choices *choices = choices_new();
    struct world_result result = {0};
    bool good = read_world(o, one, choices);

    if (good) {
        choices_follow(choices, UINT64_MAX);
        run_one(one, choices_decider(choices), &result);
        printf("%s: %s, hash %016" PRIx64 "\n", o->follow,
               *result.violation ? result.violation : "violates nothing", result.hash);
    } else {
        fprintf(stderr, "%s holds no world\n", o->follow);
    }
    choices_free(choices);
    return good ? *result.violation != 0 : 65;
}

/* ---- many ---- */

static double per_minute(uint64_t n, uint64_t us)
{
    return us > 0 ? (double)n * 60e6 / (double)us : 0;
}

/* @seconds: how long the worlds of this call ran, all shares in parallel. */
static void report(const struct totals *totals, double seconds)
{
    printf(
        "%" PRIu64 " worlds, %.0f in a minute of one core, %" PRIu64
        " small ones among them, %.0f; %.1f simulated hours, %.0f in an hour of one core, %" PRIu64
        " failed; %" PRIu64 " run now, %.0f a minute\n",
        totals->worlds, per_minute(totals->worlds, totals->cpu_us), totals->small,
        per_minute(totals->small, totals->small_us), (double)totals->simulated_ms / 3.6e6,
        per_minute(totals->simulated_ms, totals->cpu_us) * 60 / 3.6e6, totals->failed,
        totals->worlds - totals->known, (double)(totals->worlds - totals->known) * 60 / seconds);
    fflush(stdout);
}

/* Shared by all shares. */
static struct {
    uint64_t taken;           /* seeds, counted from the first */
    uint64_t seeds[JOBS_MAX]; /* the one that each share runs */
    bool failed;
} * shares;

/* Takes the first seed that no other share has taken, and so on: some worlds take a thousand times
 * as long as others. */
static struct totals run_share(const struct options *o, unsigned n)
{
    struct simstore *store = simstore_new(o->functions);
    struct totals totals = {0};
    double began = now_s(), reported = began;
    uint64_t seed;

    while ((seed = o->first + __atomic_fetch_add(&shares->taken, 1, __ATOMIC_RELAXED)) <= o->last &&
           !shares->failed) {
        shares->seeds[n] = seed;
        if (!run_seed(o, store, seed, &totals))
            shares->failed = true;
        if (n == 0 && now_s() - reported > REPORT_S) {
            reported = now_s();
            report(&totals, reported - began);
        }
    }
    simstore_free(store);
    return totals;
}

static void add(struct totals *to, const struct totals *from)
{
    to->worlds += from->worlds;
    to->known += from->known;
    to->simulated_ms += from->simulated_ms;
    to->cpu_us += from->cpu_us;
    to->small += from->small;
    to->small_us += from->small_us;
    to->failed += from->failed;
    for (int i = 0; i < FEATURES_; i++)
        to->shown[i] += from->shown[i];
}

/* Runs a share in a process of its own, which sends its totals through a pipe. Return: the read
 * end. */
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
        exit(write(ends[1], &totals, sizeof(totals)) == sizeof(totals) ? 0 : 2);
    default:
        close(ends[1]);
        return ends[0];
    }
}

/* Return: 0: all worlds were good; 1: a world failed; 2: a share crashed, and has said why. */
static int run_range(const struct options *o, struct totals *totals)
{
    struct totals share;
    int ends[JOBS_MAX];
    int status = 0;

    shares = mmap(NULL, sizeof(*shares), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shares == MAP_FAILED)
        abort();
    for (unsigned n = 0; n < o->jobs; n++)
        ends[n] = fork_share(o, n);
    for (unsigned n = 0; n < o->jobs; n++) {
        if (read(ends[n], &share, sizeof(share)) == sizeof(share))
            add(totals, &share);
        else {
            printf("seed %" PRIu64 " ends its process; replay: %s --seed %" PRIu64 "%s\n",
                   shares->seeds[n], o->program, shares->seeds[n], more(o));
            shares->failed = true;
            status = 2;
        }
        close(ends[n]);
    }
    munmap(shares, sizeof(*shares));
    while (wait(NULL) > 0)
        continue;
    return status ? status : totals->failed > 0;
}

/* Runs the seeds in pieces; pieces in the ledger are only added up. */
static int run_pieces(const struct options *o, struct totals *totals)
{
    struct ledger *ledger = ledger_open(o->ledger, o->functions);
    int status = 0;

    for (uint64_t first = o->first; first <= o->last && !status; first += PIECE) {
        struct options piece = *o;
        struct ledger_entry e = {.first = first};
        struct totals run = {0};

        e.last = piece.last = o->last - first < PIECE ? o->last : first + PIECE - 1;
        piece.first = first;
        if (ledger_has(ledger, e.first, e.last, &e)) {
            run = (struct totals){
                .worlds = e.worlds,
                .known = e.worlds,
                .simulated_ms = e.simulated_ms,
                .cpu_us = e.cpu_us,
                .small = e.small,
                .small_us = e.small_us,
            };
        } else if (!(status = run_range(&piece, &run))) {
            e.worlds = run.worlds;
            e.simulated_ms = run.simulated_ms;
            e.cpu_us = run.cpu_us;
            e.small = run.small;
            e.small_us = run.small_us;
            ledger_add(ledger, &e);
        }
        add(totals, &run);
    }
    ledger_close(ledger);
    return status;
}

/* Return: 1 if no world has shown one of them. */
static int print_features(const struct totals *totals)
{
    int status = 0;

    for (int i = 0; i < FEATURES_; i++) {
        if (!feature_name((enum feature)i))
            continue;
        printf("%8" PRIu64 " %s\n", totals->shown[i], feature_name((enum feature)i));
        if (totals->shown[i] == 0)
            status = 1;
    }
    if (status)
        printf("some of that never happened\n");
    return status;
}

static int run_all(const struct options *o)
{
    double began = now_s();
    struct totals totals = {0};
    int status = o->ledger ? run_pieces(o, &totals) : run_range(o, &totals);

    if (o->features && !status)
        status = print_features(&totals);
    report(&totals, now_s() - began);
    return status;
}

static int run_single(struct options *o)
{
    struct simstore *store = simstore_new(o->functions);
    struct one one = {o, store, o->first, o->trace ? stdout : NULL};
    struct totals totals = {0};
    int status;

    if (o->follow)
        status = run_follow(o, &one);
    else if (o->minimise)
        status = run_minimise(&one);
    else
        status = run_seed(o, store, o->first, &totals) ? 0 : 1;
    simstore_free(store);
    return status;
}

static int usage(const char *program)
{
    fprintf(stderr,
            "usage: %s --seeds A..B [--jobs N] [--twice] [--functions FILE] [--ledger FILE] "
            "[--features]\n"
            "       %s --seed N [--trace] [--twice | --minimise FILE] [--functions FILE]\n"
            "       %s --follow FILE [--trace] [--functions FILE]\n",
            program, program, program);
    return 64;
}

static bool parse_seeds(struct options *o, const char *text)
{
    return sscanf(text, "%" SCNu64 "..%" SCNu64, &o->first, &o->last) == 2 && o->first <= o->last;
}

static bool parse_options(struct options *o, int argc, char **argv)
{
    static const struct option known[] = {
        {"seeds", required_argument, NULL, 's'},
        {"seed", required_argument, NULL, '1'},
        {"jobs", required_argument, NULL, 'j'},
        {"trace", no_argument, NULL, 't'},
        {"twice", no_argument, NULL, '2'},
        {"functions", required_argument, NULL, 'f'},
        {"ledger", required_argument, NULL, 'l'},
        {"features", no_argument, NULL, 'e'},
        {"minimise", required_argument, NULL, 'm'},
        {"follow", required_argument, NULL, 'w'},
        {0},
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
        } else if (c == 'f') {
            o->functions = optarg;
        } else if (c == 'l') {
            o->ledger = optarg;
        } else if (c == 'e') {
            o->features = true;
        } else if (c == 'm') {
            o->minimise = optarg;
        } else if (c == 'w') {
            given = o->single = true;
            o->follow = optarg;
        } else {
            return false;
        }
    }
    if (o->ledger && (o->features || o->twice)) /* the ledger does not have that */
        return false;
    return given && optind == argc && o->jobs >= 1 && o->jobs <= 64;
}

int main(int argc, char **argv)
{
    struct options o = {.program = argv[0], .jobs = 1, .functions = SIM_DROVER_LUA};

    if (!parse_options(&o, argc, argv))
        return usage(argv[0]);
    log_set_level((enum log_level)(LOG_ERROR + 1)); /* machines report only through the trace */
    return o.single ? run_single(&o) : run_all(&o);
}
