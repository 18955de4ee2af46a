// SPDX-License-Identifier: Apache-2.0
/*
 * Failure loops: everything that can fail while one job runs fails, each time that it could, once
 * per run
 *
 *     test_failures [STORY/FAILURE...]            all loops, or these
 *     test_failures STORY FAILURE WAY N           one world, line by line
 *     test_failures SEED allocation 0 N           the same for a seeded world
 *
 * A small world without chance runs again and again: the n-th message is lost, the n-th call has no
 * answer, a process dies before its n-th effect, n = 1, 2, ... until a run ends before that (as
 * SQLite tests allocations). The checker checks each world, and each has to come to rest. The way
 * is the outcome of all other draws: 0 stands for the earliest time and "no"; another way for the
 * latest time, "yes", and that one of several.
 *
 * Allocations fail inside the machines' steps, each in a process of its own: the step may end the
 * process with or_abort(), or go on as if nothing had failed. Some also fail in the worlds of
 * seeds, which do more than the stories.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/log.h"
#include "memory/memory.h"
#include "scheduler/scheduler.h"
#include "supervisor/supervisor.h"
#include "world/story.h"
#include "world/world.h"

#define WAYS 2
#define SEEDS 10
#define OF_SEED 30       /* allocations that fail in its world */
#define NEVER UINT32_MAX /* no run comes to it */
#define NTH 1            /* rate, in millionths, of a fault that strikes the n-th time */

struct story {
    const char *name;
    Drover__V1__Workflow *(*workflow)(struct timeline *t);
    world_script *script;
    enum feature shows; /* must happen if nothing fails */
    const struct plan_command *commands;
    uint32_t n_commands;
    int64_t asks_all;
};

struct failure {
    const char *name;
    enum world_verdict verdict; /* of the script; WORLD_GOES_ON: the fault has ... */
    size_t rate;                /* ... its rate at this offset of struct plan_faults */
    bool starts;                /* the verdict is for handlers, not for effects */
    uint32_t ways;              /* 0: 2 */
};

struct run {
    const struct story *story;     /* NULL: the world of this ... */
    uint64_t seed;                 /* ... seed without its faults */
    const struct failure *failure; /* NULL: an allocation, or nothing */
    uint32_t n;                    /* which one fails, counted from 1 */
    uint32_t met;                  /* how often it could have failed */
    uint32_t way;
    struct decider decider;
    struct timeline *t;
};

/* ---- the stories ---- */

static bool failed_once;

static enum world_verdict nothing(void *ctx, const char *process, const char *what)
{
    return WORLD_GOES_ON;
}

static enum world_verdict decline(void *ctx, const char *process, const char *what)
{
    return strcmp(what, "start job=j1 step=s2 attempt=1") == 0 ? WORLD_BREAKS : WORLD_GOES_ON;
}

static enum world_verdict fail_first(void *ctx, const char *process, const char *what)
{
    if (failed_once || strncmp(what, "start ", 6) != 0)
        return WORLD_GOES_ON;
    failed_once = true;
    return WORLD_FAILS;
}

#define COMMANDS(...)                                                                              \
    (const struct plan_command[]){__VA_ARGS__},                                                    \
        array_size(((const struct plan_command[]){__VA_ARGS__}))

static const struct story stories[] = {
    {"chain", story_chain, nothing, FEATURE_SUCCEEDED},
    {"declined", story_saga, decline, FEATURE_FAILURE_TURNS},
    {"parked", story_one_try, fail_first, FEATURE_RETRIED_ALL, COMMANDS({PLAN_RETRY, 500})},
    {"paused", story_chain, nothing, FEATURE_RESUMED,
     COMMANDS({PLAN_PAUSE, 50}, {PLAN_RESUME, 500})},
    {"turned", story_saga, nothing, FEATURE_BROUGHT_FORWARD_IN_FLIGHT,
     COMMANDS({PLAN_DISABLE, 150}, {PLAN_ENABLE, 250})},
    {"asked", story_chain, nothing, FEATURE_HISTORY_READ, .asks_all = 250},
};

/* ---- the failures ---- */

#define RATE(name, member)                                                                         \
    {                                                                                              \
        name, .rate = offsetof(struct plan_faults, member)                                         \
    }

static const struct failure failures[] = {
    {"crash", .verdict = WORLD_KILLS},
    {"connection_cut", .verdict = WORLD_CUTS},
    {"handler_fails", .verdict = WORLD_FAILS, .starts = true},
    {"handler_declines", .verdict = WORLD_BREAKS, .starts = true},
    {"handler_hangs", .verdict = WORLD_HANGS, .starts = true},
    {"agent_dies_at_work", .verdict = WORLD_KILLS, .starts = true},
    {"agent_stands_still", .verdict = WORLD_STALLS, .starts = true},
    RATE("message_lost", bus.lost),
    RATE("message_doubled", bus.doubled),
    RATE("message_kept", bus.kept),
    RATE("message_refused", bus.refused),
    RATE("confirm_withheld", bus.withheld),
    RATE("broker_alarms", bus.alarm),
    RATE("broker_is_wiped", wipe),
    RATE("broker_restarts", restart),
    RATE("queue_gone", queue_gone),
    {"call_lost", .rate = offsetof(struct plan_faults, store_lost), .ways = 3},
    RATE("call_refused", store_error),
    RATE("store_gone", store_outage),
    RATE("store_connection_cut", store_cut),
    RATE("store_full", store_full),
    RATE("store_goes_back", rollback),
    RATE("clock_jumps", clock_jump),
    RATE("process_stops", stall),
    RATE("process_ends", drain),
};

static enum world_verdict decide(void *ctx, const char *process, const char *what)
{
    const struct run *run = ctx;
    const struct failure *f = run->failure;

    if (f && f->verdict != WORLD_GOES_ON && f->starts == (strncmp(what, "start ", 6) == 0) &&
        timeline_chance(run->t, NTH))
        return f->verdict;
    return run->story->script(NULL, process, what);
}

static void plan_run(struct plan *plan, const struct run *run)
{
    struct plan_faults *faults = &plan->faults;

    if (!run->story) {
        plan_draw(plan, run->t, run->seed);
        *faults = (struct plan_faults){.bus = {.delay_ms = faults->bus.delay_ms}};
        return;
    }
    story_plan(plan, run->story->workflow(run->t));
    plan->commands = run->story->commands;
    plan->n_commands = run->story->n_commands;
    plan->asks_all = run->story->asks_all;
    plan->schedulers = plan->agents = plan->supervisors = 2;
    plan->settle_ms = 7200000;
    plan->retention_ms = 2 * plan->settle_ms;
    faults->bus.delay_ms = 5;
    faults->bus.kept_ms = faults->bus.alarm_ms = faults->bus.withheld_ms = 3 * STORY_LEASE_MS;
    faults->restart_ms = faults->stall_ms = faults->outage_ms = 3 * STORY_LEASE_MS;
    if (run->failure && run->failure->verdict == WORLD_GOES_ON)
        *(uint32_t *)(void *)((char *)faults + run->failure->rate) = NTH;
}

/* ---- one world ---- */

static uint64_t on_draw(struct decider *d, struct timeline *t, const struct draw *draw)
{
    struct run *run = container_of(d, struct run, decider);

    if (draw->kind == DRAW_KEEP || draw->kind == DRAW_SEED)
        return timeline_by_chance(t, draw);
    if (draw->rate == NTH)
        return ++run->met == run->n;
    if (run->way >= draw->n || (draw->kind == DRAW_BETWEEN && run->way > 0))
        return draw->n - 1;
    return run->way;
}

static void run_world(struct run *run, struct simstore *store, FILE *trace,
                      struct world_result *out)
{
    struct timeline t;
    struct plan plan;

    failed_once = false;
    timeline_init(&t, run->seed, trace);
    run->decider.draw = on_draw;
    t.decider = run->story ? &run->decider : NULL;
    run->t = &t;
    plan_run(&plan, run);
    world_play(&(struct world_config){.plan = &plan,
                                      .timeline = &t,
                                      .store = store,
                                      .script = run->story ? decide : NULL,
                                      .script_ctx = run},
               out);
    timeline_deinit(&t);
}

static const char *name_of(const struct run *run)
{
    static char number[24];

    snprintf(number, sizeof(number), "%" PRIu64, run->seed);
    return run->story ? run->story->name : number;
}

static void print_violation(const struct run *run, const char *violation)
{
    printf("# %s\n# replay: test_failures %s %s %" PRIu32 " %" PRIu32 "\n", violation, name_of(run),
           run->failure ? run->failure->name : "allocation", run->way, run->n);
}

/* If nothing fails the story shows the feature that it is named after. */
static bool shows_itself(struct run *run, struct simstore *store)
{
    struct world_result result;

    run_world(run, store, NULL, &result);
    return !*result.violation && result.seen[run->story->shows];
}

/* ---- loops ---- */

/* Return: how often it failed in all worlds. It stops at the first world that is wrong. */
static uint32_t fail_every_way(struct run *run, struct simstore *store, bool *good)
{
    uint32_t ways = run->failure->ways > 0 ? run->failure->ways : WAYS;
    struct world_result result;
    uint32_t failed = 0;

    for (run->way = 0; run->way < ways; run->way++) {
        for (run->n = 1;; run->n++) {
            run->met = 0;
            run_world(run, store, NULL, &result);
            if (*result.violation) {
                print_violation(run, result.violation);
                *good = false;
                return failed;
            }
            if (run->met < run->n)
                break;
            failed++;
        }
    }
    return failed;
}

/* ---- allocations ---- */

enum {
    ENDED_WELL,
    ENDED_ILL,
    ENDED_BY_ABORT
};

static unsigned left; /* allocations of machines until one fails; 0: none will, or one has */

/* NOLINTBEGIN(bugprone-reserved-identifier): the names that --wrap of the linker gives */
int64_t __real_scheduler_step(struct scheduler *s, const struct scheduler_event *e,
                              struct effects *out);
int64_t __real_agent_step(struct agent *a, const struct agent_event *e, struct effects *out);
int64_t __real_supervisor_step(struct supervisor *s, const struct supervisor_event *e,
                               struct effects *out);
int64_t __wrap_scheduler_step(struct scheduler *s, const struct scheduler_event *e,
                              struct effects *out);
int64_t __wrap_agent_step(struct agent *a, const struct agent_event *e, struct effects *out);
int64_t __wrap_supervisor_step(struct supervisor *s, const struct supervisor_event *e,
                               struct effects *out);
_Noreturn void __real_abort(void);
_Noreturn void __wrap_abort(void);

#define WITH_FAILURES(step, ...)                                                                   \
    do {                                                                                           \
        int64_t next;                                                                              \
                                                                                                   \
        memory_fail_at(left);                                                                      \
        next = step(__VA_ARGS__);                                                                  \
        left = memory_left();                                                                      \
        memory_fail_at(0);                                                                         \
        return next;                                                                               \
    } while (0)

int64_t __wrap_scheduler_step(struct scheduler *s, const struct scheduler_event *e,
                              struct effects *out)
{
    WITH_FAILURES(__real_scheduler_step, s, e, out);
}

int64_t __wrap_agent_step(struct agent *a, const struct agent_event *e, struct effects *out)
{
    WITH_FAILURES(__real_agent_step, a, e, out);
}

int64_t __wrap_supervisor_step(struct supervisor *s, const struct supervisor_event *e,
                               struct effects *out)
{
    WITH_FAILURES(__real_supervisor_step, s, e, out);
}

/* Not called by assertions, which call abort() within libc. */
void __wrap_abort(void)
{
    if (memory_failed())
        memory_exit(ENDED_BY_ABORT);
    __real_abort();
}
/* NOLINTEND(bugprone-reserved-identifier) */

/* Return: how the process ended; none of the above for any other end. */
static int run_apart(struct run *run, struct simstore *store, uint64_t undisturbed)
{
    struct world_result result;
    int status;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child < 0)
        abort();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        left = run->n;
        run_world(run, store, NULL, &result);
        if (!*result.violation && result.hash != undisturbed)
            snprintf(result.violation, sizeof(result.violation), "something else happens");
        if (*result.violation)
            print_violation(run, result.violation);
        fflush(stdout);
        memory_exit(*result.violation ? ENDED_ILL : ENDED_WELL);
    }
    if (waitpid(child, &status, 0) != child)
        abort();
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Lets about @most allocations fail, spread over the run; 0: each. Return: how many failed. */
static uint32_t fail_allocations(struct run *run, struct simstore *store, uint32_t most, bool *good)
{
    struct world_result result;
    uint32_t allocations, step, failed = 0;
    int end;

    left = NEVER;
    run_world(run, store, NULL, &result);
    allocations = NEVER - left;
    left = 0;
    step = most > 0 ? allocations / most + 1 : 1;
    for (run->n = 1; run->n <= allocations; run->n += step, failed++) {
        end = run_apart(run, store, result.hash);
        if (end != ENDED_WELL && end != ENDED_BY_ABORT) {
            printf("# %s, allocation %" PRIu32 ": the process ends otherwise (%d)\n", name_of(run),
                   run->n, end);
            *good = false;
            break;
        }
    }
    return failed;
}

/* ---- the command ---- */

/* The cases to run: all if none are named. */
struct cases {
    char **names; /* STORY/FAILURE */
    int n;
    unsigned reported; /* of them */
    bool wrong;        /* some are wrong */
};

static bool is_chosen(const struct cases *cases, const char *story, const char *failure)
{
    char name[64];

    snprintf(name, sizeof(name), "%s/%s", story, failure);
    for (int i = 0; i < cases->n; i++)
        if (strcmp(cases->names[i], name) == 0)
            return true;
    return cases->n == 0;
}

static void report(struct cases *cases, const char *story, const char *failure, uint32_t failed,
                   bool good)
{
    good &= failed > 0;
    cases->wrong |= !good;
    printf("%sok %u - %s/%s # %" PRIu32 " failures\n", good ? "" : "not ", ++cases->reported, story,
           failure, failed);
}

static void run_seeds(struct cases *cases, struct simstore *store)
{
    uint32_t failed = 0;
    bool good = true;

    if (!is_chosen(cases, "seeds", "allocation"))
        return;
    for (uint64_t seed = 1; seed <= SEEDS && good; seed++)
        failed += fail_allocations(&(struct run){.seed = seed}, store, OF_SEED, &good);
    report(cases, "seeds", "allocation", failed, good);
}

static void run_story(struct cases *cases, const struct story *story, struct simstore *store)
{
    struct run run = {.story = story};
    uint32_t failed;
    bool good = true;

    if (is_chosen(cases, story->name, "nothing"))
        report(cases, story->name, "nothing", 1, shows_itself(&run, store));
    if (is_chosen(cases, story->name, "allocation")) {
        failed = fail_allocations(&run, store, 0, &good);
        report(cases, story->name, "allocation", failed, good);
    }
    for (size_t i = 0; i < array_size(failures); i++) {
        if (!is_chosen(cases, story->name, failures[i].name))
            continue;
        run.failure = &failures[i];
        good = true;
        failed = fail_every_way(&run, store, &good);
        report(cases, story->name, failures[i].name, failed, good);
    }
}

static int run_cases(struct simstore *store, char **names, int n)
{
    struct cases cases = {.names = names, .n = n};
    size_t all = array_size(stories) * (array_size(failures) + 2) + 1;

    printf("1..%zu\n", n > 0 ? (size_t)n : all); /* printed, unless there is no such loop */
    run_seeds(&cases, store);
    for (size_t i = 0; i < array_size(stories); i++)
        run_story(&cases, &stories[i], store);
    return cases.wrong || (n > 0 && cases.reported != (unsigned)n);
}

static int run_one(struct simstore *store, char **argv)
{
    struct run run = {.seed = (uint64_t)atoi(argv[1]),
                      .way = (uint32_t)atoi(argv[3]),
                      .n = (uint32_t)atoi(argv[4])};
    struct world_result result;

    for (size_t i = 0; i < array_size(stories); i++)
        if (strcmp(stories[i].name, argv[1]) == 0)
            run.story = &stories[i];
    for (size_t i = 0; i < array_size(failures); i++)
        if (strcmp(failures[i].name, argv[2]) == 0)
            run.failure = &failures[i];
    if ((!run.story && run.seed == 0) || (!run.failure && strcmp(argv[2], "allocation") != 0)) {
        fprintf(stderr, "%s: no such story, or no such failure\n", argv[0]);
        return 64;
    }
    if (!run.failure)
        left = run.n;
    run_world(&run, store, stdout, &result);
    printf("%s\n", result.violation);
    return *result.violation != 0;
}

int main(int argc, char **argv)
{
    bool one = argc == 5 && !strchr(argv[1], '/');
    struct simstore *store;
    int status;

    if (argc > 1 && !one && !strchr(argv[1], '/')) {
        fprintf(stderr, "usage: %s [STORY/FAILURE...] | STORY FAILURE WAY N\n", argv[0]);
        return 64;
    }
    log_set_level((enum log_level)(LOG_ERROR + 1));
    store = simstore_new(SIM_DROVER_LUA);
    status = one ? run_one(store, argv) : run_cases(store, argv + 1, argc - 1);
    simstore_free(store);
    return status;
}
