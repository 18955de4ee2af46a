// SPDX-License-Identifier: Apache-2.0
/*
 * Explorer: forks a process for each way that a world can take
 *
 * See explore.h. Called by explore_main.c.
 */
#include "explorer/explore.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "world/digest.h"
#include "world/timeline.h"

#define READY_MAX 64 /* events of one moment */
#define FIRST 'a'    /* letter of the first way */
#define LAST '*'     /* the last way, at each further choice */

/* Shared by all processes. */
struct common {
    uint64_t states, events, ends;
    uint32_t running; /* processes that do not wait */
    bool stop;        /* an invariant was violated, or a process has crashed */
    bool crashed;
    bool full;
    bool left_off;
    bool reported; /* a process is writing the violation, or the path of a crash */
    char violation[512];
    char path[EXPLORE_PATH_MAX];
    uint64_t mask;
    uint64_t seen[]; /* open addressing; 0 is free */
};

struct explorer {
    struct decider decider;
    struct common *common;
    struct explorer_view view;
    int64_t opens;
    bool open;
    bool alone; /* goes one way only */
    unsigned jobs;
    int64_t late_ms;
    uint32_t left[EXPLORE_BUDGETS_];
    uint32_t path_len;
    char path[EXPLORE_PATH_MAX];
    const char *replay;
    uint64_t events; /* not added up yet */
};

const char *explore_budget_name(uint32_t budget)
{
    static const char *const names[EXPLORE_BUDGETS_] = {
        [EXPLORE_CRASH] = "crash",     [EXPLORE_LOST] = "lost",
        [EXPLORE_DOUBLED] = "doubled", [EXPLORE_REFUSED] = "refused",
        [EXPLORE_CUT] = "cut",         [EXPLORE_STORE_LOST] = "store",
        [EXPLORE_FAILURE] = "failure", [EXPLORE_PERMANENT] = "permanent",
        [EXPLORE_RESTART] = "restart", [EXPLORE_TIME] = "time",
    };

    return budget < EXPLORE_BUDGETS_ ? names[budget] : NULL;
}

struct decider *explorer_decider(struct explorer *x)
{
    return &x->decider;
}

/* ---- random numbers: made from what the machine has received ---- */

static struct {
    bool set;
    uint64_t next;
} drawn;

static void on_hears(struct decider *d, uint64_t digest)
{
    drawn.set = container_of(d, struct explorer, decider)->open;
    drawn.next = digest;
}

bool explorer_random(uint64_t *out)
{
    drawn.next = digest_stir(drawn.next + DIGEST_PRIME);
    *out = drawn.next;
    return drawn.set;
}

/* ---- states ---- */

/* Return: whether the state is new. */
static bool enter(struct common *c, uint64_t state)
{
    uint64_t at = state;

    state += !state;
    for (int tries = 0; tries < 64; tries++, at++) {
        uint64_t *slot = &c->seen[at & c->mask], found = 0;

        if (__atomic_compare_exchange_n(slot, &found, state, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
            __atomic_fetch_add(&c->states, 1, __ATOMIC_RELAXED);
            return true;
        }
        if (found == state)
            return false;
    }
    c->full = true;
    __atomic_fetch_add(&c->states, 1, __ATOMIC_RELAXED);
    return true;
}

static bool before(const struct event *a, const struct event *b)
{
    return a->node.when < b->node.when ||
           (a->node.when == b->node.when && a->node.order < b->node.order);
}

/* The number of events that have to happen before it. */
static uint64_t ahead_in_lane(const struct timeline *t, const struct event *e)
{
    uint64_t n = 0;

    for (size_t i = 0; e->lane && i < t->heap.used; i++) {
        const struct event *other = container_of(t->heap.nodes[i], struct event, node);

        n += other->lane == e->lane && before(other, e);
    }
    return n;
}

static uint64_t state_of(const struct explorer *x, const struct timeline *t)
{
    uint64_t d = digest_number(x->view.digest(x->view.ctx), (uint64_t)t->now);
    uint64_t coming = 0;

    for (size_t i = 1; i < EXPLORE_BUDGETS_; i++)
        d = digest_number(d, x->left[i]);
    for (size_t i = 0; i < t->heap.used; i++) {
        const struct event *e = container_of(t->heap.nodes[i], struct event, node);
        uint64_t what = e->digest ? e->digest : (uintptr_t)e;

        what = digest_number(digest_number(what, (uint64_t)e->node.when), e->roams);
        coming += digest_number(what, ahead_in_lane(t, e));
    }
    return digest_number(d, coming);
}

/* ---- ways ---- */

/* Return: 0 in the child, which ends with this process. */
static pid_t fork_child(void)
{
    pid_t child = fork();

    if (child < 0)
        abort();
    if (child == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    return child;
}

static bool is_good(int status)
{
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool ended_well(pid_t child)
{
    int status;

    return waitpid(child, &status, 0) == child && is_good(status);
}

/* Only the first violation counts. */
static void stop(struct explorer *x, const char *violation, const char *rest_of_path)
{
    struct common *c = x->common;

    if (!__atomic_exchange_n(&c->reported, true, __ATOMIC_ACQ_REL)) {
        c->crashed = !violation;
        snprintf(c->violation, sizeof(c->violation), "%s", violation ? violation : "");
        snprintf(c->path, sizeof(c->path), "%s%s", x->path, rest_of_path);
    }
    c->stop = true;
}

/* Ends this process after the children that it has left running. A child that was killed has not
 * gone all its ways: the ways behind it were lost. */
static _Noreturn void leave(struct explorer *x)
{
    struct common *c = x->common;
    pid_t child;
    int status;

    __atomic_fetch_add(&c->events, x->events, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&c->running, 1, __ATOMIC_RELAXED);
    while ((child = wait(&status)) > 0 || errno == EINTR)
        if (child > 0 && !is_good(status))
            stop(x, NULL, (char[]){LAST, 0});
    _exit(0);
}

static bool has_capacity(const struct explorer *x)
{
    uint32_t running = __atomic_load_n(&x->common->running, __ATOMIC_RELAXED);

    while (running < x->jobs)
        if (__atomic_compare_exchange_n(&x->common->running, &running, running + 1, false,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return true;
    return false;
}

static void remember(struct explorer *x, uint32_t way)
{
    assert(x->path_len + 1 < EXPLORE_PATH_MAX);
    x->path[x->path_len++] = (char)(FIRST + way);
    x->path[x->path_len] = 0;
}

/* Goes this way in a child, and waits for it. If one more process may run, a copy of this process
 * waits instead. A child that runs alone goes the last way at each choice: the path then shows how
 * far it came before it crashed. Return: true in the child. */
static bool go(struct explorer *x, uint32_t way)
{
    bool along = has_capacity(x);
    pid_t child;

    if (along && fork_child() > 0)
        return false;
    if ((child = fork_child()) == 0 || along)
        x->events = 0;
    if (child == 0)
        return true;
    if (!ended_well(child))
        stop(x, NULL, (char[]){(char)(FIRST + way), LAST, 0});
    __atomic_fetch_add(&x->common->running, 1, __ATOMIC_RELAXED);
    if (along)
        leave(x);
    return false;
}

static uint32_t replayed(struct explorer *x, uint32_t n)
{
    uint32_t way = 0;

    if (*x->replay == LAST)
        return n - 1;
    if (*x->replay)
        way = (uint32_t)(*x->replay++ - FIRST);
    return way < n ? way : 0;
}

/* Return: one of 0 to @n - 1. */
static uint32_t choose(struct explorer *x, uint32_t n)
{
    uint32_t way = n - 1;

    assert(n <= READY_MAX + 1);
    if (!x->open || n < 2)
        return 0;
    if (x->alone)
        way = replayed(x, n);
    for (uint32_t i = 0; !x->alone && i < n - 1; i++) {
        if (go(x, i)) {
            way = i;
            break;
        }
        if (x->common->stop)
            leave(x);
    }
    remember(x, way);
    return way;
}

static bool strikes(struct explorer *x, uint32_t rate)
{
    if (!x->open || (rate < EXPLORE_BUDGETS_ && x->left[rate] == 0))
        return false;
    if (choose(x, 2) == 0)
        return false;
    if (rate < EXPLORE_BUDGETS_)
        x->left[rate]--;
    return true;
}

static uint64_t on_draw(struct decider *d, struct timeline *t, const struct draw *draw)
{
    struct explorer *x = container_of(d, struct explorer, decider);

    switch (draw->kind) {
    case DRAW_BETWEEN:
        return 0;
    case DRAW_WAY:
        return choose(x, (uint32_t)draw->n);
    case DRAW_CHANCE:
        return strikes(x, draw->rate);
    default:
        return timeline_by_chance(t, draw);
    }
}

/* ---- events ---- */

/* The events that may happen now, the oldest first; if there are eager ones, only those. @idle: no
 * event has to happen now. */
static uint32_t ready(const struct timeline *t, struct event **out, bool *idle)
{
    uint32_t n = 0;

    *idle = true;
    for (size_t i = 0; i < t->heap.used; i++) {
        struct event *e = container_of(t->heap.nodes[i], struct event, node);
        uint32_t at;

        if ((e->node.when > t->now && !e->roams) || ahead_in_lane(t, e) > 0)
            continue;
        *idle &= e->node.when > t->now;
        if (e->eager) {
            *out = e;
            return 1;
        }
        assert(n < READY_MAX);
        for (at = n++; at > 0 && before(e, out[at - 1]); at--)
            out[at] = out[at - 1];
        out[at] = e;
    }
    return n;
}

/* Moves the time to the next event that has to happen. Return: false if there is none. */
static bool pass_time(struct explorer *x, struct timeline *t)
{
    const struct heap_node *next = heap_first(&t->heap);

    if (next)
        t->now = next->when;
    x->open = t->now >= x->opens;
    return next;
}

/* Moves the time further than that: the events of now happen late. */
static void be_late(struct explorer *x, struct timeline *t)
{
    x->left[EXPLORE_TIME]--;
    t->now += x->late_ms;
}

static bool on_step(struct decider *d, struct timeline *t)
{
    struct explorer *x = container_of(d, struct explorer, decider);
    struct event *events[READY_MAX];
    bool idle, passes;
    uint32_t n = ready(t, events, &idle), way;

    if (x->common->stop && !x->alone)
        leave(x);
    if (n == 0) /* at rest if no event is on its way, not even a roaming one */
        return (x->open && x->view.quiet(x->view.ctx)) || pass_time(x, t);
    passes = x->open && (idle || x->left[EXPLORE_TIME] > 0);
    if (x->open && !x->alone && n + passes > 1 && !enter(x->common, state_of(x, t)))
        leave(x);
    way = choose(x, n + passes);
    if (way == n && idle)
        return pass_time(x, t);
    if (way == n) {
        be_late(x, t);
        return true;
    }
    heap_remove(&t->heap, &events[way]->node);
    x->events++;
    events[way]->fire(events[way]);
    return true;
}

/* ---- setup and end ---- */

void explorer_open(struct explorer *x, const struct explorer_view *view, int64_t when)
{
    x->view = *view;
    x->opens = when;
}

void explorer_end(struct explorer *x, const char *violation)
{
    struct common *c = x->common;

    if (!violation)
        __atomic_fetch_add(&c->ends, 1, __ATOMIC_RELAXED);
    else
        stop(x, violation, "");
    if (!x->alone)
        leave(x);
}

static struct common *common_new(unsigned bits, size_t *size)
{
    struct common *c;

    *size = sizeof(*c) + (sizeof(c->seen[0]) << bits);
    c = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1,
             0);
    if (c == MAP_FAILED)
        abort();
    c->mask = (UINT64_C(1) << bits) - 1;
    c->running = 1;
    return c;
}

static struct common *timed; /* the alarm ends these processes */

static void on_alarm(int signal)
{
    timed->left_off = timed->stop = true;
}

static void leave_off_after(struct common *c, unsigned s)
{
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};

    timed = c;
    sigemptyset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    alarm(s);
}

static void run_apart(struct explorer *x, void (*run)(void *ctx, struct explorer *x), void *ctx)
{
    pid_t child;

    fflush(stdout);
    if ((child = fork_child()) == 0) {
        run(ctx, x);
        _exit(3); /* explorer_end() should have ended the process */
    }
    if (!ended_well(child))
        stop(x, NULL, (char[]){LAST, 0});
}

int explore(const struct explore_config *config, void (*run)(void *ctx, struct explorer *x),
            void *ctx, struct explore_result *out)
{
    size_t size;
    struct common *c = common_new(config->table_bits, &size);
    struct explorer *x = calloc(1, sizeof(*x));
    bool crashed;

    if (!x)
        abort();
    x->decider = (struct decider){.draw = on_draw, .step = on_step, .hears = on_hears};
    x->common = c;
    x->jobs = config->jobs;
    x->late_ms = config->late_ms;
    x->replay = config->replay;
    x->alone = config->replay;
    memcpy(x->left, config->budgets, sizeof(x->left));
    if (config->longest_s > 0)
        leave_off_after(c, config->longest_s);
    if (x->alone)
        run(ctx, x);
    else
        run_apart(x, run, ctx);
    alarm(0);
    *out = (struct explore_result){
        .states = c->states,
        .events = c->events,
        .ends = c->ends,
        .full = c->full,
        .left_off = c->left_off,
    };
    memcpy(out->violation, c->violation, sizeof(out->violation));
    memcpy(out->path, c->path, sizeof(out->path));
    crashed = c->crashed;
    free(x);
    munmap(c, size);
    return *out->violation ? 1 : crashed ? 2 : 0;
}
