// SPDX-License-Identifier: Apache-2.0
/*
 * Store calls: when they reach the store, whether they are executed and answered, and the store's
 * faults
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model/store_ops.h"
#include "model/store_schema.h"
#include "world/parts.h"

#define HALF 500000  /* millionths */
#define LOST_MS 2000 /* how much the store loses when it goes back: twice everysec */
#define ROLLBACKS 3  /* of one world */
#define JUMP_MS (3600 * INT64_C(1000))
#define JUMPS_APART_MS 10000 /* the store remembers one jump; more at once may end leases early */

enum fate {
    FATE_ANSWERED,
    FATE_REFUSED,    /* an error, and not executed */
    FATE_NEVER,      /* no answer, not executed */
    FATE_UNANSWERED, /* no answer, executed */
    FATE_LATE,       /* no answer, executed much later */
};

struct call {
    struct list link; /* in process.calls */
    struct list late; /* in world.late */
    bool overtaken;   /* by a call that was made after it */
    int64_t made;
    struct call *older; /* in world.unanswered */
    bool repeated;      /* it is in that list, and was made again */
    uint32_t
        epoch; /* rollbacks when it was sent; a store that went back since does not execute it */
    struct event event; /* reaches the store */
    struct event back;  /* reaches the process */
    struct process *process;
    uint64_t incarnation;
    uint64_t id;
    uint32_t partition;
    const char *function;
    struct bytes *args;
    int n;
    uint32_t at; /* the grid's boundaries */
    enum fate fate;
    bool lost; /* with its connection: its result is unknown */
    struct store_answer answer;
    bool heard;
};

uint64_t answer_digest(uint64_t d, const struct store_answer *answer)
{
    d = digest_number(d, answer->result);
    for (uint32_t i = 0; i < answer->n; i++)
        d = digest_bytes(d, answer->items[i]);
    return d;
}

static void keep_answer(struct world *w, struct call *c, const struct store_answer *answer)
{
    struct bytes *items = timeline_alloc(w->t, answer->n * sizeof(*items));

    for (uint32_t i = 0; i < answer->n; i++)
        items[i] = effects_copy(&w->t->arena, answer->items[i]);
    c->answer = (struct store_answer){.result = answer->result, .items = items, .n = answer->n};
}

static bool has_its_process(const struct call *c)
{
    return c->process->alive && c->process->incarnation == c->incarnation;
}

static uint64_t call_digest(const struct call *c)
{
    uint64_t d = digest_str(digest_str(DIGEST_INIT, c->process->name), c->function);

    d = digest_number(digest_number(d, c->id), c->fate);
    d = digest_number(d, c->incarnation);
    for (int i = 0; i < c->n; i++)
        d = digest_bytes(d, c->args[i]);
    return d;
}

static bool begins_suspect(const struct bytes *args)
{
    return bytes_is(args[AT_SUSPECT_WHAT], "begin") || bytes_is(args[AT_SUSPECT_WHAT], "alone");
}

/* Whether it is about to read the result that kills it. */
static bool dies_of(const struct call *c)
{
    return c->answer.result == STORE_OK && strcmp(c->function, "suspect") == 0 &&
           begins_suspect(c->args) &&
           poison_begun(c->process, c->args[AT_SUSPECT_DIGEST], c->answer.items[0]);
}

static void hear_answer(struct call *c)
{
    struct process *p = c->process;

    grid_answered(p, c->at, p->world->t->now - c->made, &c->answer);
    p->behind = c->answer.result == STORE_OK ? c->at : 0;
    c->heard = c->answer.result == STORE_OK;
    role_answer(p, c->id, &c->answer);
}

static void on_back(struct event *e)
{
    struct call *c = container_of(e, struct call, back);

    list_remove(&c->link);
    timeline_about(c->process->world->t, "%s answer to %s", c->process->name, c->function);
    if (has_its_process(c))
        process_strike(c->process);
    if (has_its_process(c) && !dies_of(c))
        hear_answer(c);
}

static void jump_clock(struct world *w)
{
    int64_t by = timeline_between(w->t, -JUMP_MS, JUMP_MS);

    w->next_jump = w->t->now + w->plan->pace * JUMPS_APART_MS;
    w->store_skew += by;
    w->set_back -= by < 0 ? by : 0;
    timeline_note(w->t, by > 0 ? FEATURE_CLOCK_AHEAD : FEATURE_CLOCK_BACK);
    checker_clock_set(w->checker, store_now(w) - by, by);
    tell(w->t, "store", "clock is now %" PRId64 " ms off", w->store_skew);
    w->jumped = UINT32_MAX;
}

/* The job of the call, or the first of several. */
static struct bytes job_of(const struct call *c)
{
    struct ops_about about;

    return ops_about(c->function, c->args, c->n, 0, &about) ? about.job : BYTES_EMPTY;
}

/* Calls that are late, and arrive after one that was made later. */
static void note_overtaken(struct world *w, struct call *c)
{
    list_foreach(l, &w->late) {
        struct call *late = list_entry(l, struct call, late);

        late->overtaken |= late->made < c->made && strcmp(late->function, c->function) == 0 &&
                           bytes_equal(job_of(late), job_of(c));
    }
    if (c->overtaken)
        grid_met(w->t, FAULT_OVERTAKEN, c->at);
}

static bool is_same(const struct call *a, const struct call *b)
{
    struct ops_about of_a, of_b;

    return a->process == b->process && a->incarnation == b->incarnation && a->epoch == b->epoch &&
           a->partition == b->partition && strcmp(a->function, b->function) == 0 &&
           ops_about(a->function, a->args, a->n, 0, &of_a) &&
           ops_about(b->function, b->args, b->n, 0, &of_b) && bytes_equal(of_a.job, of_b.job) &&
           of_a.step == of_b.step && bytes_equal(of_a.what, of_b.what);
}

/* A call that was executed without an answer is executed again. */
static void note_repeated(struct world *w, struct call *c)
{
    for (struct call *u = w->unanswered; u; u = u->older)
        if (!u->repeated && is_same(u, c)) {
            u->repeated = true;
            grid_met(w->t, FAULT_DOUBLED, u->at);
        }
    if (c->fate == FATE_UNANSWERED && c->at) {
        c->older = w->unanswered;
        w->unanswered = c;
    }
}

/* Notes the faults that have struck the call, now that its boundary is known. */
static void note_executed(struct world *w, struct call *c, bool full)
{
    grid_met(w->t, FAULT_CLOCK, c->at & w->jumped);
    w->jumped &= ~c->at;
    if (full)
        grid_met(w->t, FAULT_STORE_FULL, c->at);
    if (!has_its_process(c)) {
        grid_met(w->t, FAULT_CRASH_BEFORE, c->at & AT(9));
        grid_met(w->t, FAULT_KILL, c->at & AT(9));
    } else if (!c->process->link.up) {
        grid_met(w->t, FAULT_CUT, c->at & AT(9));
    }
    note_overtaken(w, c);
    note_repeated(w, c);
}

static void execute(struct world *w, struct call *c)
{
    struct store_answer answer;
    bool full = w->t->now < w->store_full_until;

    if (w->t->now >= w->next_jump && timeline_chance(w->t, w->faults.clock_jump))
        jump_clock(w);
    simstore_call(w->store, store_now(w), full, c->partition, c->function, c->args, c->n, &answer);
    c->at = grid_of_executed(c->at, &answer);
    note_executed(w, c, full);
    w->calls++;
    if (w->faults.rollback)
        replay_keep(w->kept, w->t->now, store_now(w), full, c->partition, c->function, c->args,
                    c->n);
    timeline_mix(w->t, bytes_str(c->process->name));
    timeline_mix(w->t, bytes_str(c->function));
    for (int i = 0; i < c->n; i++)
        timeline_mix(w->t, c->args[i]);
    for (uint32_t i = 0; i < answer.n; i++)
        timeline_mix(w->t, answer.items[i]);
    if (w->t->trace)
        trace_call(c->function, c->args, c->n, &answer, process_tell, c->process);
    if (c->fate != FATE_ANSWERED)
        tell(w->t, "store", "its answer is lost");
    if (c->fate == FATE_ANSWERED)
        keep_answer(w, c, &answer);
    checker_called(w->checker, store_now(w), c->partition, c->function, c->args, c->n, &answer,
                   c->process->name, &c->heard);
}

static void check_again(void *ctx, int64_t now, uint32_t partition, const char *function,
                        const struct bytes *args, int n, const struct store_answer *answer)
{
    checker_called(ctx, now, partition, function, args, n, answer, "", NULL);
}

/* The store's server loses power, and comes back without some of the last two seconds. */
static void go_back(struct world *w)
{
    uint32_t all = replay_calls(w->kept);
    uint32_t calls =
        (uint32_t)timeline_between(w->t, replay_before(w->kept, w->t->now - LOST_MS), all);

    timeline_note(w->t, FEATURE_STORE_BACK);
    w->rollbacks++;
    w->cleaning = 0; /* jobs that had ended may go on */
    w->run = effects_printf(&w->t->arena, "run %u", (unsigned)w->rollbacks);
    tell(w->t, "store", "loses %u calls", (unsigned)(all - calls));
    checker_goes_back(w->checker);
    replay_back(w->kept, w->store, w->plan->budget, calls, check_again, w->checker);
    checker_went_back(w->checker);
    for (uint32_t i = 0; i < w->n_processes; i++)
        if (w->processes[i].alive)
            process_lose_store(&w->processes[i]);
    clients_submit_again(w);
}

static void on_call(struct event *e)
{
    static const char refusal[] = "LOADING Redis is loading the dataset in memory";
    struct call *c = container_of(e, struct call, event);
    struct process *p = c->process;
    struct world *w = p->world;

    timeline_about(w->t, "%s store %s", p->name, c->function);
    if (c->fate == FATE_LATE)
        list_remove(&c->late);
    if (c->epoch == w->rollbacks && w->rollbacks < ROLLBACKS &&
        timeline_chance(w->t, w->faults.rollback))
        go_back(w);
    if (c->epoch != w->rollbacks)
        return;
    /* A call that a process had sent when it died may have reached the store. */
    if (!has_its_process(c) && timeline_chance(w->t, HALF))
        return;
    if (w->t->now < w->store_gone_until)
        c->fate = FATE_NEVER;
    c->answer.result = STORE_UNKNOWN;
    if (c->fate == FATE_REFUSED) {
        struct bytes text = bytes_of(refusal, sizeof(refusal) - 1);

        keep_answer(w, c, &(struct store_answer){STORE_ERROR, &text, 1});
    } else if (c->fate != FATE_NEVER) {
        execute(w, c);
    }
    if (c->fate == FATE_LATE)
        timeline_note(w->t, FEATURE_STORE_LATE);
    if (c->lost && c->fate != FATE_NEVER)
        timeline_note(w->t, FEATURE_STORE_CUT_DONE);
    if (c->fate == FATE_LATE || c->lost)
        return;
    c->back.fire = on_back;
    c->back.held_until = &p->held_until;
    c->back.lane = digest_number(c->event.lane, true);
    c->back.digest = answer_digest(c->event.digest, &c->answer);
    timeline_add(
        w->t, &c->back,
        timeline_between(w->t, 0,
                         c->fate == FATE_ANSWERED ? w->faults.bus.delay_ms : w->faults.outage_ms));
}

static enum fate draw_fate(struct world *w)
{
    if (timeline_chance(w->t, w->faults.store_error))
        return FATE_REFUSED;
    if (!timeline_chance(w->t, w->faults.store_lost))
        return FATE_ANSWERED;
    return (enum fate)(FATE_NEVER + timeline_choose(w->t, FATE_LATE - FATE_NEVER + 1));
}

static void strike_store(struct world *w)
{
    if (timeline_chance(w->t, w->faults.store_full)) {
        w->store_full_until = w->t->now + timeline_between(w->t, 1, w->faults.outage_ms);
        timeline_note(w->t, FEATURE_STORE_FULL);
        tell(w->t, "store", "is full");
    }
    if (!timeline_chance(w->t, w->faults.store_outage))
        return;
    w->store_gone_until = w->t->now + timeline_between(w->t, 1, w->faults.outage_ms);
    timeline_note(w->t, FEATURE_STORE_GONE);
    tell(w->t, "store", "is gone");
}

/* There is no connection. */
static void answer_unsent(struct call *c)
{
    c->fate = FATE_NEVER;
    c->answer.result = STORE_UNKNOWN;
    c->back.fire = on_back;
    c->back.held_until = &c->process->held_until;
    c->back.lane = digest_number(c->event.lane, true);
    c->back.digest = answer_digest(call_digest(c), &c->answer);
    timeline_add(c->process->world->t, &c->back, 0);
}

void process_call(struct process *p, const struct effect *effect)
{
    struct world *w = p->world;
    struct call *c = timeline_alloc(w->t, sizeof(*c));
    int64_t delay = timeline_between(w->t, 0, w->faults.bus.delay_ms);

    c->process = p;
    c->incarnation = p->incarnation;
    c->id = effect->id;
    c->partition = effect->store.partition;
    c->function = effect->store.function; /* a literal */
    c->n = effect->store.n;
    c->args = timeline_alloc(w->t, (size_t)c->n * sizeof(*c->args));
    for (int i = 0; i < c->n; i++)
        c->args[i] = effects_copy(&w->t->arena, effect->store.args[i]);
    c->at = grid_of_call(c->function, c->args, c->n);
    c->made = w->t->now;
    if (strcmp(c->function, "suspect") == 0 && !begins_suspect(c->args))
        checker_survived(w->checker, c->args[AT_SUSPECT_DIGEST], c->args[AT_SUSPECT_INCARNATION]);
    c->epoch = w->rollbacks;
    c->event.fire = on_call;
    c->event.lane = digest_number((uintptr_t)p, p->incarnation);
    list_append(&p->calls, &c->link);
    if (p->store_gone) {
        answer_unsent(c);
        return;
    }
    strike_store(w);
    c->fate = draw_fate(w);
    c->event.digest = call_digest(c);
    if (p->store_free > w->t->now + delay)
        delay = p->store_free - w->t->now;
    p->store_free = w->t->now + delay;
    if (c->fate == FATE_LATE) {
        c->back.fire = on_back;
        c->back.digest = answer_digest(c->event.digest, &c->answer);
        c->answer.result = STORE_UNKNOWN;
        c->event.lane = 0;
        list_append(&w->late, &c->late);
        timeline_add(w->t, &c->back, delay + timeline_between(w->t, 0, w->faults.outage_ms));
        delay += timeline_between(w->t, 1, 2 * w->faults.outage_ms);
        timeline_add_roaming(w->t, &c->event, delay, 2 * w->faults.outage_ms);
        return;
    }
    timeline_add(w->t, &c->event, delay);
    if (timeline_chance(w->t, w->faults.store_cut)) {
        timeline_note(w->t, FEATURE_STORE_CUT);
        process_lose_store(p);
    }
}

/* ---- a connection that is lost ---- */

/* Return: false if the process died of it. */
static bool answer_unknown(struct process *p)
{
    static const struct store_answer unknown = {.result = STORE_UNKNOWN};
    uint64_t incarnation = p->incarnation;

    while (p->alive && p->incarnation == incarnation && !list_empty(&p->calls)) {
        struct call *c = list_entry(p->calls.next, struct call, link);

        list_remove(&c->link);
        timeline_cancel(p->world->t, &c->back);
        role_answer(p, c->id, &unknown);
    }
    return p->alive && p->incarnation == incarnation;
}

static void on_store_lost(struct event *e)
{
    struct process *p = container_of(e, struct process, store_lost);

    if (answer_unknown(p))
        role_store_down(p);
}

/* Calls made while there was no connection are unknown, too; the process hears that first. */
static void on_reconnect(struct event *e)
{
    struct process *p = container_of(e, struct process, reconnect);

    if (!answer_unknown(p))
        return;
    p->store_gone = false;
    role_store_up(p);
}

/* The first calls have reached the store, the later ones have not. */
static void lose_calls(struct process *p)
{
    struct timeline *t = p->world->t;
    bool reached = true;

    list_foreach(l, &p->calls) {
        struct call *c = list_entry(l, struct call, link);

        c->lost = true;
        timeline_cancel(t, &c->back);
        if (c->fate == FATE_LATE)
            continue; /* wherever it is now */
        if (c->fate == FATE_ANSWERED)
            c->fate = FATE_UNANSWERED;
        reached = reached && timeline_chance(t, HALF);
        if (!reached)
            timeline_cancel(t, &c->event);
    }
}

void process_lose_store(struct process *p)
{
    struct timeline *t = p->world->t;

    if ((p->role != ROLE_SCHEDULER && p->role != ROLE_SUPERVISOR) || p->store_gone)
        return;
    tell(t, p->name, "loses its connection to the store");
    p->store_gone = true;
    lose_calls(p);
    p->store_lost.fire = on_store_lost;
    p->store_lost.held_until = &p->held_until;
    timeline_add(t, &p->store_lost, 0);
    p->reconnect.fire = on_reconnect;
    p->reconnect.held_until = &p->held_until;
    timeline_add(t, &p->reconnect, timeline_between(t, 0, p->world->faults.outage_ms));
}
