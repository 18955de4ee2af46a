// SPDX-License-Identifier: Apache-2.0
/*
 * drover-explore: everything that can happen to one small job
 *
 *     drover-explore [--steps 3] [--schedulers 2] [--agents 2] [--supervisors 2] [--flips 1]
 *                    [--budget crash=1,lost=1,time=2] [--struck agent] [--jobs 2]
 *                    [--functions FILE] [--seconds N]
 *     drover-explore ... --path abac... --trace
 *
 * A chain of steps, each with a revert, and by default two of every daemon, without elections. Only
 * processes whose name begins as --struck says die or lose their connection. Prints the number of
 * states, and of ways that came to rest; after --seconds it stops and says so. Exits with 1 if a
 * way violates an invariant, and with 2 if a process crashes, after it has printed the violation
 * and the path that replays it.
 */
#include <assert.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/nonce.h"
#include "explorer/explore.h"
#include "world/world.h"

#define LEASE_MS INT64_C(1000)
#define BEGIN_MS 3500 /* by then all processes have started and are at rest */
#define SETTLE_MS INT64_C(600000)
#define TABLE_BITS 27

struct options {
    uint32_t steps, schedulers, agents, supervisors, flips;
    struct explore_config explore;
    const char *budgets;
    const char *struck;
    const char *functions;
    bool trace;
};

struct run {
    const struct options *options;
    struct simstore *store;
};

/* ---- random numbers of the machines, see explore.h; the names that --wrap of the linker gives
 * ---- */

/* NOLINTBEGIN(bugprone-reserved-identifier) */
uint64_t __real_rng_next(struct rng *r);
uint64_t __wrap_rng_next(struct rng *r);
uint64_t __wrap_rng_below(struct rng *r, uint64_t n);
void __real_nonces_next(struct nonces *n, char out[NONCE_LEN + 1]);
void __wrap_nonces_next(struct nonces *n, char out[NONCE_LEN + 1]);

uint64_t __wrap_rng_next(struct rng *r)
{
    uint64_t number;

    return explorer_random(&number) ? number : __real_rng_next(r);
}

uint64_t __wrap_rng_below(struct rng *r, uint64_t n)
{
    return __wrap_rng_next(r) % n;
}

void __wrap_nonces_next(struct nonces *n, char out[NONCE_LEN + 1])
{
    uint64_t number;

    if (explorer_random(&number))
        snprintf(out, NONCE_LEN + 1, "%0*" PRIx64, NONCE_LEN, number);
    else
        __real_nonces_next(n, out);
}
/* NOLINTEND(bugprone-reserved-identifier) */

/* ---- the world ---- */

static Drover__V1__Workflow *chain(struct timeline *t, uint32_t steps)
{
    Drover__V1__Workflow *w = plan_workflow(t, steps);
    Drover__V1__Revert *reverts = timeline_alloc(t, steps * sizeof(*reverts));
    Drover__V1__Policy *policy = timeline_alloc(t, sizeof(*policy));

    drover__v1__policy__init(policy);
    policy->initial_interval_ms = LEASE_MS;
    policy->on_permanent = DROVER__V1__RECOURSE__RECOURSE_COMPENSATE;
    w->retry = policy;
    w->lock_ms = w->wait_ms = LEASE_MS;
    for (uint32_t i = 0; i < steps; i++) {
        drover__v1__revert__init(&reverts[i]);
        w->steps[i]->revert = &reverts[i];
        if (i > 0)
            plan_after(t, w, i, i - 1);
    }
    return w;
}

/* Turns back and forward, at any time after the Submit was sent. */
static const struct plan_command *flips(struct timeline *t, uint32_t n)
{
    struct plan_command *commands = timeline_alloc(t, n * sizeof(*commands));

    for (uint32_t i = 0; i < n; i++)
        commands[i].what = i % 2 ? PLAN_ENABLE : PLAN_DISABLE;
    return commands;
}

static void plan_tiny(struct plan *plan, struct timeline *t, const struct options *o)
{
    *plan = (struct plan){
        .pace = 1,
        .partitions = 1,
        .schedulers = o->schedulers,
        .agents = o->agents,
        .supervisors = o->supervisors,
        .clients = 1,
        .actors = 1,
        .jobs = 1,
        .commands = flips(t, o->flips),
        .n_commands = o->flips,
        .submit_after_ms = BEGIN_MS,
        .faults_end = SETTLE_MS,
        .settle_ms = SETTLE_MS,
        .retention_ms = 10 * SETTLE_MS,
        .faults =
            {
                .bus = {.lost = EXPLORE_LOST,
                        .doubled = EXPLORE_DOUBLED,
                        .refused = EXPLORE_REFUSED,
                        .kept_ms = 2 * LEASE_MS},
                .crash = EXPLORE_CRASH,
                .cut = EXPLORE_CUT,
                .store_lost = EXPLORE_STORE_LOST,
                .restart = o->explore.budgets[EXPLORE_RESTART] > 0 ? EXPLORE_RESTART : 0,
                .outage_ms = LEASE_MS,
            },
        .struck = o->struck,
        .forgets = o->explore.budgets[EXPLORE_RESTART] > 0,
        .handlers = {.transient = EXPLORE_FAILURE, .permanent = EXPLORE_PERMANENT},
        .definitions = {{.message = chain(t, o->steps)}},
        .n_definitions = 1,
        .prefetch = 10,
        .most_unconfirmed = 1024,
        .concurrency = 1,
        .supervisor_period_ms = LEASE_MS,
        .sweep_ms = SETTLE_MS,
        .client_retry_ms = 10 * LEASE_MS,
    };
}

static void run_world(void *ctx, struct explorer *x)
{
    const struct run *run = ctx;
    struct timeline t;
    struct plan plan;
    struct world *w;
    struct world_result result;

    timeline_init(&t, 0, run->options->trace ? stdout : NULL);
    t.decider = explorer_decider(x);
    plan_tiny(&plan, &t, run->options);
    w = world_new(&(struct world_config){.plan = &plan, .timeline = &t, .store = run->store});
    explorer_open(x, &(struct explorer_view){world_digest, world_quiet, w}, BEGIN_MS);
    world_run(w, &result);
    explorer_end(x, *result.violation ? result.violation : NULL);
    world_free(w); /* the world of the one way that is replayed */
    timeline_deinit(&t);
}

/* ---- the command ---- */

/* "crash=1,time=2" */
static bool parse_budgets(struct options *o, char *text)
{
    for (char *item; (item = strsep(&text, ","));) {
        char *name = strsep(&item, "=");
        uint32_t i = 1;

        while (i < EXPLORE_BUDGETS_ && strcmp(explore_budget_name(i), name) != 0)
            i++;
        if (i == EXPLORE_BUDGETS_ || !item)
            return false;
        o->explore.budgets[i] = (uint32_t)atoi(item);
    }
    return true;
}

static bool parse_options(struct options *o, int argc, char **argv)
{
    static const struct option known[] = {
        {"steps", required_argument, NULL, 'n'},   {"schedulers", required_argument, NULL, 's'},
        {"agents", required_argument, NULL, 'a'},  {"supervisors", required_argument, NULL, 'u'},
        {"flips", required_argument, NULL, 'f'},   {"budget", required_argument, NULL, 'b'},
        {"struck", required_argument, NULL, 'k'},  {"jobs", required_argument, NULL, 'j'},
        {"path", required_argument, NULL, 'p'},    {"trace", no_argument, NULL, 't'},
        {"bits", required_argument, NULL, '2'},    {"functions", required_argument, NULL, 'F'},
        {"seconds", required_argument, NULL, 'S'}, {0},
    };

    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        uint32_t number = optarg ? (uint32_t)atoi(optarg) : 0;

        switch (c) {
        case 'n':
            o->steps = number;
            break;
        case 's':
            o->schedulers = number;
            break;
        case 'a':
            o->agents = number;
            break;
        case 'u':
            o->supervisors = number;
            break;
        case 'f':
            o->flips = number;
            break;
        case 'b':
            assert(optarg);
            o->budgets = strdup(optarg);
            if (!parse_budgets(o, optarg))
                return false;
            break;
        case 'k':
            o->struck = optarg;
            break;
        case 'j':
            o->explore.jobs = number;
            break;
        case 'p':
            o->explore.replay = optarg;
            break;
        case '2':
            o->explore.table_bits = number;
            break;
        case 'S':
            o->explore.longest_s = number;
            break;
        case 't':
            o->trace = true;
            break;
        case 'F':
            o->functions = optarg;
            break;
        default:
            return false;
        }
    }
    return optind == argc && o->steps > 0 && o->explore.jobs > 0 &&
           (!o->trace || o->explore.replay);
}

static int usage(const char *program)
{
    fprintf(stderr,
            "usage: %s [--steps N] [--schedulers N] [--agents N] [--supervisors N] [--flips N]\n"
            "       [--budget NAME=N,…] [--struck NAME] [--jobs N] [--bits N] [--functions FILE]\n"
            "       [--seconds N] [--path PATH [--trace]]\nbudgets:",
            program);
    for (uint32_t i = 1; i < EXPLORE_BUDGETS_; i++)
        fprintf(stderr, " %s", explore_budget_name(i));
    fprintf(stderr, "\n");
    return 64;
}

static double now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    static struct explore_result result;
    struct options o = {
        .steps = 3,
        .schedulers = 2,
        .agents = 2,
        .supervisors = 2,
        .explore = {.late_ms = 2 * LEASE_MS, .jobs = 1, .table_bits = TABLE_BITS},
        .functions = SIM_DROVER_LUA,
    };
    double began = now_s();
    struct run run = {.options = &o};
    int status;

    if (!parse_options(&o, argc, argv))
        return usage(argv[0]);
    log_set_level((enum log_level)(LOG_ERROR + 1));
    setvbuf(stdout, NULL, _IOLBF, 0); /* the trace must be complete up to a crash */
    run.store = simstore_new(o.functions);
    status = explore(&o.explore, run_world, &run, &result);
    simstore_free(run.store);
    printf("%" PRIu64 " states, %" PRIu64 " events, %" PRIu64 " ways to rest, %.1f s%s\n",
           result.states, result.events, result.ends, now_s() - began,
           result.left_off ? ", left off"
           : result.full   ? "; the table was full"
                           : "");
    if (status != 0)
        printf("%s\nreplay: %s --steps %u --schedulers %u --agents %u --supervisors %u --flips %u"
               " --budget %s --struck '%s' --functions %s --path '%s' --trace\n",
               status == 2 ? "a process crashed" : result.violation, argv[0], o.steps, o.schedulers,
               o.agents, o.supervisors, o.flips, o.budgets ? o.budgets : "time=0",
               o.struck ? o.struck : "", o.functions, result.path);
    return status;
}
