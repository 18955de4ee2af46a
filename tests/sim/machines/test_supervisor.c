// SPDX-License-Identifier: Apache-2.0
/*
 * Supervisors over one store, steered by hand: which ones run, which ones stand still, what the
 * store's clock does.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "machines/logged.h"
#include "model/store_ops.h"
#include "model/wire.h"
#include "store/store.h"
#include "supervisor/supervisor.h"

#define PARTITIONS 16
#define SUPERVISORS 5
#define LEASE_MS 5000
#define PERIOD_MS 1000
#define MINUTE INT64_C(60000)
#define HOUR (60 * MINUTE)
#define STORE_EPOCH INT64_C(1700000000000)

struct peer {
    struct supervisor *machine; /* NULL: not running */
    int64_t next;               /* when it wants a tick */
    bool frozen;
};

struct world {
    struct simstore *store;
    struct peer peers[SUPERVISORS];
    int64_t now;
    int64_t skew;            /* of the store's clock */
    struct buf named;        /* jobs named to the schedulers */
    struct buf corrupt;      /* those of them that are corrupt, each with the time it is named at */
    bool once, dry_run;      /* of supervisors started from now on; also */
    int64_t sweep_ms;        /* their period of sweeping */
    bool no_consumer;        /* the replies queue has no consumer */
    bool done;               /* a round is done */
    struct buf decided;      /* the dry run's output */
    const char *cut;         /* a function: of its answers only */
    uint32_t left;           /* the first @left items arrive, */
    enum store_result fails; /* or it fails so */
    uint32_t items;          /* in the last answer of that function, uncut */
    unsigned calls;          /* of that function */
    bool no_confirms;        /* the broker does not confirm commands, */
    unsigned unconfirmed;    /* this many so far */
    bool no_queue;           /* no queue takes commands: the broker drops or returns them, */
    unsigned returned;       /* this many so far */
};

/* ---- the world around the machines ---- */

static int64_t store_now(const struct world *w)
{
    return STORE_EPOCH + w->now + w->skew;
}

static void feed(struct world *w, struct peer *p, struct supervisor_event event);

static void call(struct world *w, struct peer *p, const struct effect *e)
{
    struct store_answer answer;

    simstore_call(w->store, store_now(w), false, e->store.partition, e->store.function,
                  e->store.args, e->store.n, &answer);
    if (w->cut && strcmp(e->store.function, w->cut) == 0) {
        w->calls++;
        w->items = answer.n;
        answer.n = w->left < answer.n ? w->left : answer.n;
        answer.result = w->fails;
    }
    feed(w, p,
         (struct supervisor_event){.type = SUPERVISOR_ANSWER, .id = e->id, .answer = &answer});
}

static void tell_corrupt(struct world *w, const Drover__V1__Control *m)
{
    const char *at = m->issued_at == store_now(w) ? "now" : m->issued_at ? "then" : "at no time";

    assert_int_equal(m->notify->seq, 0);
    buf_printf(&w->corrupt, "%s%s %s", w->corrupt.len ? ", " : "", m->job_id, at);
}

static void publish(struct world *w, struct peer *p, const struct effect *e)
{
    CLEANUP(wire_free) struct wire_message m = {0};
    bool returned = w->no_queue && e->publish.mandatory;

    assert_int_equal(wire_decode(WIRE_CONTROL, e->publish.body, NULL, &m, NULL), 0);
    w->returned += returned;
    buf_printf(&w->named, "%s%s", w->named.len ? " " : "", m.control->job_id);
    if (m.control->command_case == DROVER__V1__CONTROL__COMMAND_NOTIFY && m.control->notify->torn)
        tell_corrupt(w, m.control);
    if (w->no_confirms)
        w->unconfirmed++;
    else
        feed(w, p,
             (struct supervisor_event){.type = SUPERVISOR_OUTCOME,
                                       .id = e->id,
                                       .outcome = returned ? BUS_RETURNED : BUS_CONFIRMED});
}

static void tell(struct world *w, const struct effect *e)
{
    if (e->role.what == SUPERVISOR_DONE)
        w->done = true;
    else
        buf_printf(&w->decided, "%s%s", w->decided.len ? ", " : "", (const char *)e->role.object);
}

static void feed(struct world *w, struct peer *p, struct supervisor_event event)
{
    struct effects out = {0};

    event.now = w->now;
    if (event.type == SUPERVISOR_QUEUE && w->no_consumer)
        event.queue.consumers = 0;
    p->next = supervisor_step(p->machine, &event, &out);
    for (size_t i = 0; i < out.n; i++) {
        const struct effect *e = &out.items[i];

        if (e->type == EFFECT_STORE)
            call(w, p, e);
        else if (e->type == EFFECT_PUBLISH)
            publish(w, p, e);
        else
            tell(w, e);
    }
    effects_deinit(&out);
}

static struct peer *first_to_tick(struct world *w)
{
    struct peer *first = NULL;

    for (int i = 0; i < SUPERVISORS; i++) {
        struct peer *p = &w->peers[i];

        if (p->machine && !p->frozen && (!first || p->next < first->next))
            first = p;
    }
    return first;
}

/* Lets time pass, with the ticks that are due. */
static void pass(struct world *w, int64_t ms)
{
    int64_t end = w->now + ms;

    for (struct peer *p; (p = first_to_tick(w)) && p->next <= end;) {
        w->now = p->next > w->now ? p->next : w->now;
        feed(w, p, (struct supervisor_event){.type = SUPERVISOR_TICK});
    }
    w->now = end;
}

/* The result of its inspection of drover.replies. */
static void replies(struct world *w, int i, uint32_t messages, uint32_t consumers)
{
    feed(w, &w->peers[i],
         (struct supervisor_event){.type = SUPERVISOR_QUEUE,
                                   .queue = {.messages = messages, .consumers = consumers}});
}

static void start(struct world *w, int i)
{
    char name[] = "supervisor-?";
    const struct supervisor_config config = {.name = name,
                                             .period_ms = PERIOD_MS,
                                             .lease_ms = LEASE_MS,
                                             .election = true,
                                             .retention_ms = INT64_C(7) * 24 * 3600 * 1000,
                                             .sweep_ms = w->sweep_ms,
                                             .once = w->once,
                                             .dry_run = w->dry_run};
    struct rng rng;

    name[sizeof(name) - 2] = (char)('0' + i);
    rng_seed(&rng, (uint64_t)(w->now + i));
    assert_int_equal(supervisor_new(&w->peers[i].machine, &config, &rng), 0);
    w->peers[i].frozen = false;
    feed(w, &w->peers[i],
         (struct supervisor_event){.type = SUPERVISOR_STORE_UP, .store = {PARTITIONS, "run"}});
}

static void birth(struct world *w, int i)
{
    start(w, i);
    replies(w, i, 0, 1);
}

/* It ends without notice. */
static void kill_supervisor(struct world *w, int i)
{
    w->peers[i].machine = supervisor_free(w->peers[i].machine);
}

/* It ends as on SIGTERM. */
static void stop_supervisor(struct world *w, int i)
{
    feed(w, &w->peers[i], (struct supervisor_event){.type = SUPERVISOR_STOP});
    assert_true(supervisor_idle(w->peers[i].machine));
    kill_supervisor(w, i);
}

static unsigned leads(struct world *w, int i)
{
    struct supervisor_stats stats;

    if (!w->peers[i].machine)
        return 0;
    feed(w, &w->peers[i], (struct supervisor_event){.type = SUPERVISOR_TICK});
    supervisor_stats(w->peers[i].machine, &stats);
    return (unsigned)stats.leading;
}

/* @n supervisors lead all partitions, and none leads two more than another. */
static void assert_shared(struct world *w, unsigned n)
{
    unsigned sum = 0;

    for (int i = 0; i < SUPERVISORS; i++) {
        unsigned has = leads(w, i);

        sum += has;
        if (w->peers[i].machine && !w->peers[i].frozen)
            assert_in_range(has, PARTITIONS / n, PARTITIONS / n + (PARTITIONS % n ? 1 : 0));
        else
            assert_int_equal(has, 0);
    }
    assert_int_equal(sum, PARTITIONS);
}

/* ---- jobs ---- */

static void ask_store(struct world *w, struct effects *fx)
{
    struct store_answer answer;
    const struct effect *e = &fx->items[fx->n - 1];

    simstore_call(w->store, store_now(w), false, e->store.partition, e->store.function,
                  e->store.args, e->store.n, &answer);
    assert_int_equal(answer.result, STORE_OK);
}

static void submit_workflow(struct world *w, const char *id, const Drover__V1__Workflow *definition,
                            int64_t start_at, int64_t complete_by)
{
    struct effects fx = {0};
    struct workflow *workflow = NULL;
    const uint32_t partition = id_partition(id, PARTITIONS);
    struct problem problem;
    bool whole = false;

    assert_int_equal(workflow_new(&workflow, definition, "", &problem), 0);
    for (uint32_t piece = 0; !whole; piece++) {
        whole = ops_define(&fx, 0, partition, workflow, piece, false);
        ask_store(w, &fx);
    }
    ops_submit(&fx, 0, partition,
               &(struct ops_submit_args){.job = id,
                                         .digest = "d",
                                         .definition = workflow->digest,
                                         .workflow = "",
                                         .nonce = "0123456789abcdef",
                                         .scheduler = "test",
                                         .active = true,
                                         .start_at = start_at,
                                         .complete_by = complete_by,
                                         .reply_to = "",
                                         .correlation = "",
                                         .traceparent = "",
                                         .submitter = ""});
    ask_store(w, &fx);
    effects_deinit(&fx);
    workflow_unref(workflow);
}

/* A job of one step, in flight with a lease of @lease from now on, or waiting for @start_at. */
static void submit(struct world *w, const char *id, int64_t lease, int64_t start_at,
                   int64_t complete_by)
{
    Drover__V1__Workflow definition = DROVER__V1__WORKFLOW__INIT;
    Drover__V1__Step step = DROVER__V1__STEP__INIT;
    Drover__V1__Step *steps[] = {&step};

    step.name = (char *)"s";
    step.actor = (char *)"a";
    step.lock_ms = lease - lease / 2;
    step.wait_ms = lease / 2;
    definition.steps = steps;
    definition.n_steps = 1;
    submit_workflow(w, id, &definition, start_at, complete_by);
}

/* How often its history has this event. */
static unsigned events(struct world *w, const char *id, const char *event)
{
    char key[64], word[32];
    unsigned count = 0;
    uint32_t n;

    snprintf(key, sizeof(key), "hist:%s", id);
    snprintf(word, sizeof(word), " %s", event);
    n = simstore_list(w->store, id_partition(id, PARTITIONS), key);
    for (uint32_t i = 0; i < n; i++) {
        struct bytes entry = simstore_entry(w->store, i);

        count += memmem(entry.data, entry.len, word, strlen(word)) != NULL;
    }
    return count;
}

static bool named(struct world *w, const char *id)
{
    return w->named.len > 0 && strstr(buf_str(&w->named), id);
}

/* ---- leads ---- */

static void test_partitions_are_shared(void **state)
{
    struct world *w = *state;

    for (int i = 0; i < SUPERVISORS; i++) {
        birth(w, i);
        pass(w, LEASE_MS);
        assert_shared(w, (unsigned)i + 1);
    }
    pass(w, 100 * LEASE_MS);
    assert_shared(w, SUPERVISORS);
}

static void test_other_supervisor_leads(void **state)
{
    struct world *w = *state;

    for (int i = 0; i < 3; i++)
        birth(w, i);
    pass(w, LEASE_MS);
    assert_shared(w, 3);
    kill_supervisor(w, 0);
    pass(w, 2 * LEASE_MS);
    assert_shared(w, 2);
    w->peers[1].frozen = true;
    pass(w, 2 * LEASE_MS);
    assert_shared(w, 1);
    w->peers[1].frozen = false;
    birth(w, 0);
    pass(w, LEASE_MS);
    assert_shared(w, 3);
}

/* A supervisor that stops gives up its partitions: the others ask every third of a lease. */
static void test_stop_gives_up_the_lead(void **state)
{
    struct world *w = *state;

    for (int i = 0; i < 3; i++)
        birth(w, i);
    pass(w, LEASE_MS);
    stop_supervisor(w, 1);
    pass(w, 2 * LEASE_MS / 3 + 100);
    assert_shared(w, 2);
}

/* Supervisors of before the store's clock stepped back, or jumped forward, by an hour do not delay
 * the others. */
static void test_lead_after_the_clock_is_set(void **state)
{
    static const int64_t steps[] = {-3600 * 1000, 3600 * 1000};
    struct world *w = *state;

    for (size_t i = 0; i < array_size(steps); i++) {
        birth(w, 0);
        birth(w, 1);
        pass(w, LEASE_MS);
        assert_shared(w, 2);
        kill_supervisor(w, 0);
        w->skew += steps[i];
        pass(w, 2 * LEASE_MS);
        assert_shared(w, 1);
    }
}

/* ---- leases ---- */

/* The end of a lease is noticed when it comes, not a period later. */
static void test_a_lease_ends(void **state)
{
    struct world *w = *state;

    birth(w, 0);
    pass(w, LEASE_MS + PERIOD_MS / 2);
    submit(w, "job", 2 * MINUTE, 0, 0);
    pass(w, 2 * MINUTE - 1);
    assert_int_equal(events(w, "job", "silent"), 0);
    pass(w, 51);
    assert_int_equal(events(w, "job", "silent"), 1);
}

/* No lease ends before it is known that the replies have a consumer. While replies wait in the
 * queue, one of them may be for this lease, which then lasts up to ten times as long. */
static void test_leases_wait_for_replies(void **state)
{
    struct world *w = *state;

    start(w, 0);
    pass(w, LEASE_MS);
    submit(w, "job", 2 * MINUTE, 0, 0);
    pass(w, HOUR);
    replies(w, 0, 0, 0);
    pass(w, HOUR);
    assert_int_equal(events(w, "job", "silent"), 0);
    replies(w, 0, 1, 1);
    submit(w, "other", 2 * MINUTE, 0, 0);
    pass(w, 11 * MINUTE);
    assert_int_equal(events(w, "job", "silent"), 1);
    assert_int_equal(events(w, "other", "silent"), 0);
    pass(w, 2 * MINUTE);
    assert_int_equal(events(w, "other", "silent"), 1);
}

/* If the broker does not confirm a thousand commands, no more are sent. */
static void test_unconfirmed_commands(void **state)
{
    struct world *w = *state;
    unsigned sent;

    birth(w, 0);
    submit(w, "job", 2 * MINUTE, 0, 0);
    w->no_confirms = true;
    pass(w, 3 * HOUR); /* it is named every five seconds */
    sent = w->unconfirmed;
    assert_in_range(sent, 1000, 1100);
    pass(w, HOUR);
    assert_int_equal(w->unconfirmed, sent);
    for (; w->unconfirmed > 0; w->unconfirmed--)
        feed(w, &w->peers[0], (struct supervisor_event){.type = SUPERVISOR_OUTCOME});
    pass(w, MINUTE);
    assert_in_range(w->unconfirmed, 1, 100);
}

/* ---- the clock of the store ---- */

/* A lease lasts as long as it was granted for, although the clock shows its end earlier. */
static void test_clock_jumps_ahead(void **state)
{
    struct world *w = *state;

    birth(w, 0);
    birth(w, 1);
    pass(w, LEASE_MS);
    submit(w, "short", 2 * MINUTE, 0, 0);
    submit(w, "long", 30 * MINUTE, 0, 0);
    pass(w, MINUTE);
    w->skew += HOUR;
    submit(w, "later", 5 * MINUTE, 0, 0);
    pass(w, MINUTE - 10);
    kill_supervisor(w, 0); /* a successor knows of it, too */
    birth(w, 2);
    assert_int_equal(events(w, "short", "silent"), 0);
    pass(w, 15000);
    assert_int_equal(events(w, "short", "silent"), 1);
    pass(w, 3 * MINUTE);
    assert_int_equal(events(w, "later", "silent"), 0);
    pass(w, 2 * MINUTE);
    assert_int_equal(events(w, "later", "silent"), 1);
    pass(w, 22 * MINUTE);
    assert_int_equal(events(w, "long", "silent"), 0);
    pass(w, 2 * MINUTE);
    assert_int_equal(events(w, "long", "silent"), 1);
}

/* No supervisor could distinguish the jump from an hour without a supervisor. */
static void test_clock_jumps_without_supervisors(void **state)
{
    struct world *w = *state;

    birth(w, 0);
    pass(w, LEASE_MS);
    submit(w, "job", MINUTE / 2, 0, 0);
    submit(w, "deadline", 10 * MINUTE, 0, store_now(w) + HOUR / 2);
    submit(w, "start", MINUTE, store_now(w) + HOUR / 2, 0);
    kill_supervisor(w, 0);
    w->skew += HOUR;
    birth(w, 0);
    pass(w, MINUTE - 1000);
    assert_int_equal(events(w, "job", "silent"), 0);
    assert_false(named(w, "deadline") || named(w, "start"));
    pass(w, 10000);
    assert_int_equal(events(w, "job", "silent"), 1);
    assert_true(named(w, "deadline") && named(w, "start"));
}

/* A supervisor that was away for a moment need not wait. */
static void test_restart(void **state)
{
    struct world *w = *state;

    birth(w, 0);
    pass(w, LEASE_MS);
    submit(w, "job", 10000, 0, 0);
    kill_supervisor(w, 0);
    pass(w, 12000);
    birth(w, 0);
    pass(w, LEASE_MS);
    assert_int_equal(events(w, "job", "silent"), 1);
}

/* What was due soon does not become due an hour later. */
static void test_clock_steps_back(void **state)
{
    static const struct {
        const char *id;
        int64_t by;
        bool seen; /* by a supervisor that is running */
    } steps[] = {{"far", HOUR, true}, {"near", 5 * MINUTE, true}, {"unseen", HOUR, false}};
    struct world *w = *state;

    for (size_t i = 0; i < array_size(steps); i++) {
        const char *id = steps[i].id;

        birth(w, 0);
        pass(w, LEASE_MS);
        submit(w, id, MINUTE / 2, 0, 0);
        if (!steps[i].seen)
            kill_supervisor(w, 0);
        w->skew -= steps[i].by;
        if (!steps[i].seen)
            birth(w, 0);
        pass(w, MINUTE / 2 - 1000);
        assert_int_equal(events(w, id, "silent"), 0);
        pass(w, MINUTE / 2);
        assert_int_equal(events(w, id, "silent"), 1);
        kill_supervisor(w, 0);
    }
}

/* The clock jumps forward and steps back again: what is known of the jump is void. */
static void test_clock_jumps_and_steps_back(void **state)
{
    struct world *w = *state;

    birth(w, 0);
    pass(w, LEASE_MS);
    w->skew += HOUR;
    pass(w, 10000);
    w->skew -= HOUR;
    pass(w, 10000);
    submit(w, "job", MINUTE / 2, 0, 0);
    pass(w, MINUTE / 2 + 10000);
    assert_int_equal(events(w, "job", "silent"), 1);
    pass(w, 2 * HOUR);
    submit(w, "again", MINUTE / 2, 0, 0);
    pass(w, MINUTE / 2 + 10000);
    assert_int_equal(events(w, "again", "silent"), 1);
}

/* ---- sweeps ---- */

#define WIDE 1200

/* A job of WIDE parallel steps and one that waits for all of them. */
static void submit_wide(struct world *w, const char *id)
{
    static char names[WIDE + 1][8];
    static Drover__V1__Step steps[WIDE + 1], *list[WIDE + 1];
    static char *after[WIDE];
    Drover__V1__Workflow definition = DROVER__V1__WORKFLOW__INIT;

    for (size_t i = 0; i <= WIDE; i++) {
        snprintf(names[i], sizeof(names[i]), "s%zu", i);
        drover__v1__step__init(&steps[i]);
        list[i] = &steps[i];
        steps[i].name = names[i];
        steps[i].actor = (char *)"a";
        steps[i].lock_ms = steps[i].wait_ms = 12 * HOUR;
        if (i < WIDE)
            after[i] = names[i];
    }
    steps[WIDE].after = after;
    steps[WIDE].n_after = WIDE;
    definition.steps = list;
    definition.n_steps = WIDE + 1;
    submit_workflow(w, id, &definition, 0, 0);
    for (int i = 0; i < WIDE / OPS_BUDGET; i++) {
        struct effects fx = {0};

        ops_drive(&fx, 0, id_partition(id, PARTITIONS), id, "fedcba9876543210", "test", false, NULL,
                  0);
        ask_store(w, &fx);
        effects_deinit(&fx);
    }
}

/* The join counter of a step with more neighbours than one call reads is counted piece by piece. */
static void test_wide_join_counter_is_corrected(void **state)
{
    struct world *w = *state;
    const uint32_t partition = id_partition("wide", PARTITIONS);
    struct ops_step_record join;
    CLEANUP(buf_deinit) struct buf key = {0}, reply = {0};

    submit_wide(w, "wide");
    buf_printf(&key, "drover:{p%u}:job:wide", (unsigned)partition);
    simstore_command(w->store,
                     (const char *[]){"HSET", buf_str(&key), "1200", "D A W 0 0 - 0 0 0 7 0"}, 4,
                     &reply);
    birth(w, 0);
    pass(w, 15 * MINUTE);
    assert_true(simstore_hash(w->store, partition, "job:wide"));
    assert_int_equal(ops_read_step_record(simstore_step(w->store, WIDE), &join), 0);
    assert_int_equal(join.waiting, WIDE);
    assert_int_equal(events(w, "wide", "mended"), 1);
    pass(w, HOUR);
    assert_int_equal(events(w, "wide", "mended"), 1);
}

/* A store that is up again may have gone back: all its partitions are swept at once. */
static void test_sweep_when_the_store_is_up_again(void **state)
{
    struct world *w = *state;

    w->sweep_ms = 1000 * HOUR;
    birth(w, 0);
    pass(w, LEASE_MS);
    w->cut = "sweep";
    w->left = UINT32_MAX;
    feed(w, &w->peers[0], (struct supervisor_event){.type = SUPERVISOR_STORE_DOWN});
    feed(w, &w->peers[0],
         (struct supervisor_event){.type = SUPERVISOR_STORE_UP, .store = {PARTITIONS, "run"}});
    assert_int_equal(w->calls, PARTITIONS);
}

/* ---- one round ---- */

/* Ends the job; the notification of its end is in the outbox. */
static void kill_job(struct world *w, const char *id)
{
    struct effects fx = {0};

    ops_steer(&fx, 0, id_partition(id, PARTITIONS),
              &(struct ops_steer_args){.job = id,
                                       .command = "kill",
                                       .command_id = "c",
                                       .reason = "- test",
                                       .scheduler = "test",
                                       .nonce = "0123456789abcdef",
                                       .definition = ""});
    ask_store(w, &fx);
    effects_deinit(&fx);
}

static void settle(struct world *w, const char *id, uint64_t seq)
{
    struct effects fx = {0};
    char key[32], field[32];
    int64_t at;

    snprintf(key, sizeof(key), "data:%s", id);
    snprintf(field, sizeof(field), "s%" PRIu64, seq);
    assert_true(simstore_hash(w->store, id_partition(id, PARTITIONS), key));
    assert_int_equal(
        sscanf(effects_text(&fx, simstore_field(w->store, field)), "%*s %*s %*s %" SCNd64, &at), 1);
    ops_settle_owed(&fx, 0, id_partition(id, PARTITIONS),
                    &(struct ops_notification_id){id, seq, at});
    ask_store(w, &fx);
    effects_deinit(&fx);
}

static void drop_due(struct world *w, const char *id)
{
    CLEANUP(buf_deinit) struct buf key = {0}, reply = {0};

    buf_printf(&key, "drover:{p%u}:due", (unsigned)id_partition(id, PARTITIONS));
    simstore_command(w->store, (const char *[]){"ZREM", buf_str(&key), id}, 3, &reply);
    assert_memory_equal(buf_str(&reply), ":1", 2);
}

/* A job of two steps in sequence; the join counter of the second is wrong. */
static void submit_miscounted(struct world *w, const char *id)
{
    Drover__V1__Workflow definition = DROVER__V1__WORKFLOW__INIT;
    Drover__V1__Step first = DROVER__V1__STEP__INIT, second = DROVER__V1__STEP__INIT;
    Drover__V1__Step *steps[] = {&first, &second};
    char *after[] = {(char *)"s"};
    CLEANUP(buf_deinit) struct buf key = {0}, reply = {0};

    first.name = after[0];
    second.name = (char *)"t";
    first.actor = second.actor = (char *)"a";
    first.lock_ms = HOUR;
    second.after = after;
    second.n_after = 1;
    definition.steps = steps;
    definition.n_steps = 2;
    submit_workflow(w, id, &definition, 0, 0);
    buf_printf(&key, "drover:{p%u}:job:%s", (unsigned)id_partition(id, PARTITIONS), id);
    simstore_command(
        w->store, (const char *[]){"HSET", buf_str(&key), "1", "D A W 0 0 - 0 0 0 7 0"}, 4, &reply);
}

/* One of everything that a round may find, in the order of partitions. */
#define NOT_EXPIRED                                                                                \
    "due starts, forgotten 1 jobs of partition 6, mended lost due, owed ended notice 5, mended "   \
    "joins step 1"
#define FOUND "expired late step 0, " NOT_EXPIRED

static void leave_work(struct world *w)
{
    submit(w, "old", MINUTE, 0, 0);
    kill_job(w, "old");
    settle(w, "old", 5);
    w->now += INT64_C(8) * 24 * HOUR;
    submit(w, "late", MINUTE, 0, 0);
    submit(w, "starts", MINUTE, store_now(w) + MINUTE, 0);
    submit(w, "ended", MINUTE, 0, 0);
    kill_job(w, "ended");
    submit(w, "lost", HOUR, 0, 0);
    drop_due(w, "lost");
    submit_miscounted(w, "joins");
    w->now += 10 * MINUTE;
}

static void round_of(struct world *w)
{
    w->once = true;
    w->done = false;
    birth(w, 0);
    pass(w, MINUTE);
    assert_true(w->done);
    assert_true(supervisor_idle(w->peers[0].machine));
    kill_supervisor(w, 0);
}

static void expect_decided(struct world *w, const char *lines)
{
    assert_string_equal(buf_str(&w->decided), lines);
    buf_clear(&w->decided);
}

static void test_one_round(void **state)
{
    struct world *w = *state;

    leave_work(w);
    round_of(w);
    expect_decided(w, FOUND);
    assert_string_equal(buf_str(&w->named), "late starts ended");
    assert_int_equal(events(w, "late", "silent"), 1);
    round_of(w); /* a step that was named and not driven is named again, and so is a notification */
    expect_decided(w, "due late step 0, due starts, owed ended notice 5");
}

/* Each place that the sweep has mended in a job has a line. */
static void test_one_round_mends_two_places(void **state)
{
    struct world *w = *state;
    char line[120];

    snprintf(line, sizeof(line), "warn test mended partition=%u job=joins place=due places=2\n",
             (unsigned)id_partition("joins", PARTITIONS));
    submit_miscounted(w, "joins");
    drop_due(w, "joins");
    logged_begin();
    round_of(w);
    assert_int_equal(logged_count(line), 1);
    logged_end();
    expect_decided(w, "mended joins due, mended joins step 1");
}

#define FORGET_JOBS 20 /* in one call of forget */

/* The round goes on until all jobs that ended long ago are forgotten. */
static void test_one_round_forgets_many_jobs(void **state)
{
    struct world *w = *state;
    unsigned n = 0;

    for (unsigned i = 0; n <= FORGET_JOBS; i++) {
        char id[16];

        snprintf(id, sizeof(id), "job%u", i);
        if (id_partition(id, PARTITIONS) != 0)
            continue;
        submit(w, id, MINUTE, 0, 0);
        kill_job(w, id);
        settle(w, id, 5);
        n++;
    }
    w->now += INT64_C(8) * 24 * HOUR;
    round_of(w);
    expect_decided(w, "forgotten 20 jobs of partition 0, forgotten 1 jobs of partition 0");
}

/* A dry run prints the same each time, and changes nothing. */
static void test_dry_run(void **state)
{
    struct world *w = *state;
    uint64_t before;

    leave_work(w);
    before = simstore_digest(w->store);
    w->dry_run = true;
    for (int i = 0; i < 2; i++) {
        round_of(w);
        expect_decided(w, FOUND);
        assert_int_equal(w->named.len, 0);
        assert_true(simstore_digest(w->store) == before);
    }
}

/* Without a consumer of the replies it is unknown what agents have answered, so no lease ends. */
static void test_one_round_without_consumers(void **state)
{
    struct world *w = *state;

    leave_work(w);
    w->no_consumer = true;
    round_of(w);
    expect_decided(w, "held leases: drover.replies has no consumer, " NOT_EXPIRED);
    assert_int_equal(events(w, "late", "silent"), 0);
}

/* The round is done when the broker has its commands. */
static void test_one_round_unconfirmed(void **state)
{
    struct world *w = *state;

    leave_work(w);
    w->once = w->no_confirms = true;
    birth(w, 0);
    pass(w, MINUTE);
    assert_true(w->unconfirmed > 0);
    for (; w->unconfirmed > 0; w->unconfirmed--) {
        assert_false(w->done);
        assert_false(supervisor_idle(w->peers[0].machine));
        feed(w, &w->peers[0], (struct supervisor_event){.type = SUPERVISOR_OUTCOME});
    }
    assert_true(w->done);
}

/* Without drover.control the broker returns each command: drover_broker_returned_total counts the
 * lost ones. */
static void test_commands_without_a_queue(void **state)
{
    struct world *w = *state;

    w->no_queue = true;
    leave_work(w);
    round_of(w);
    assert_string_equal(buf_str(&w->named), "late starts ended");
    assert_int_equal(w->returned, 3); /* two Recovers and a Notify */
}

/* ---- corrupt jobs ---- */

#define SWEEP_PACE_MS 20 /* between two calls of sweep in one round */
#define WHY "\"n, turn or seq is no such number\""

static void submit_corrupt(struct world *w, const char *id)
{
    CLEANUP(buf_deinit) struct buf key = {0}, reply = {0};

    submit(w, id, HOUR, 0, 0);
    buf_printf(&key, "drover:{p%u}:job:%s", (unsigned)id_partition(id, PARTITIONS), id);
    simstore_command(w->store, (const char *[]){"HSET", buf_str(&key), "turn", "x"}, 4, &reply);
    assert_memory_equal(buf_str(&reply), ":0", 2);
}

/* A line of the log, a counter and a command each time that a sweep meets the job: the store knows
 * whether there was an alert. */
static void test_corrupt_job(void **state)
{
    struct world *w = *state;
    struct supervisor_stats stats;
    char line[120];

    w->sweep_ms = 10000;
    birth(w, 0);
    pass(w, LEASE_MS);
    submit_corrupt(w, "job");
    snprintf(line, sizeof(line), "error test torn partition=%u job=job why=" WHY "\n",
             (unsigned)id_partition("job", PARTITIONS));
    logged_begin();
    for (unsigned sweeps = 1; sweeps <= 3; sweeps++) {
        pass(w, w->sweep_ms + SWEEP_PACE_MS);
        supervisor_stats(w->peers[0].machine, &stats);
        assert_int_equal(stats.torn, sweeps);
        assert_int_equal(stats.notifies, sweeps);
        assert_int_equal(logged_count(line), sweeps);
    }
    assert_int_equal(logged_count(" mended "), 0);
    logged_end();
    assert_int_equal(stats.mended, 0);
    assert_string_equal(buf_str(&w->corrupt), "job now, job now, job now");
    assert_string_equal(buf_str(&w->named), "job job job");
}

/* The sweep goes on to the other jobs of the partition. The sweep of the first partition is the
 * first call of a round: what time it is in the store is not known yet. */
static void test_one_round_with_corrupt_jobs(void **state)
{
    struct world *w = *state;
    uint64_t before;

    submit_corrupt(w, "job17");
    submit_corrupt(w, "job");
    w->now++;
    submit(w, "job8", HOUR, 0, 0);
    assert_int_equal(id_partition("job17", PARTITIONS), 0);
    assert_int_equal(id_partition("job8", PARTITIONS), id_partition("job", PARTITIONS));
    drop_due(w, "job8");
    before = simstore_digest(w->store);
    w->dry_run = true;
    round_of(w);
    expect_decided(w, "torn job17, torn job, mended job8 due");
    assert_int_equal(w->named.len, 0);
    assert_true(simstore_digest(w->store) == before);
    w->dry_run = false;
    round_of(w);
    expect_decided(w, "torn job17, torn job, mended job8 due");
    assert_string_equal(buf_str(&w->corrupt), "job17 at no time, job now");
    assert_string_equal(buf_str(&w->named), "job17 job");
    round_of(w);
    expect_decided(w, "torn job17, torn job");
    assert_string_equal(buf_str(&w->named), "job17 job job17 job");
}

/* ---- a store with unexpected answers ---- */

/* Such an answer is ignored as a whole, and the call is repeated. */
static void test_answers_cut(void **state)
{
    static const struct {
        const char *function;
        int64_t again; /* after that time at most */
        bool names;    /* what is due is named all the same */
    } asked[] = {
        {"lead", LEASE_MS, false},
        {"expire", 2 * PERIOD_MS, false},
        {"sweep", 10 * PERIOD_MS, true},
        {"forget", 10 * PERIOD_MS, true},
    };
    struct world *w = *state;

    w->sweep_ms = 10 * PERIOD_MS;
    for (size_t i = 0; i < array_size(asked); i++) {
        w->cut = asked[i].function;
        w->items = UINT32_MAX;
        for (w->left = 0; w->left < w->items; w->left++) {
            unsigned calls;

            simstore_reset(w->store, 0);
            submit(w, "late", MINUTE, 0, 0);
            w->now += 2 * MINUTE;
            birth(w, 0);
            pass(w, asked[i].again);
            calls = w->calls;
            pass(w, asked[i].again);
            assert_true(w->calls > calls);
            assert_int_equal(named(w, "late"), asked[i].names);
            kill_supervisor(w, 0);
            w->named.len = 0;
        }
    }
}

/* A call that fails is repeated. */
static void test_store_fails(void **state)
{
    struct world *w = *state;

    birth(w, 0);
    pass(w, LEASE_MS);
    w->cut = "expire";
    w->fails = STORE_UNKNOWN;
    submit(w, "late", MINUTE, 0, 0);
    pass(w, 2 * MINUTE);
    assert_false(named(w, "late"));
    w->cut = NULL;
    pass(w, 2 * PERIOD_MS);
    assert_true(named(w, "late"));
}

/* A lease counts as given up only when the store has confirmed it. */
static void test_stop_without_an_answer(void **state)
{
    struct world *w = *state;

    birth(w, 0);
    pass(w, LEASE_MS);
    w->cut = "lead";
    w->fails = STORE_UNKNOWN;
    feed(w, &w->peers[0], (struct supervisor_event){.type = SUPERVISOR_STOP});
    assert_false(supervisor_idle(w->peers[0].machine));
    w->cut = NULL;
    pass(w, LEASE_MS);
    assert_true(supervisor_idle(w->peers[0].machine));
}

/* ---- setup ---- */

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    if (!w)
        return -1;
    w->store = simstore_new(SIM_DROVER_LUA);
    simstore_reset(w->store, 0);
    w->sweep_ms = 600000;
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    for (int i = 0; i < SUPERVISORS; i++)
        kill_supervisor(w, i);
    buf_deinit(&w->named);
    buf_deinit(&w->corrupt);
    buf_deinit(&w->decided);
    simstore_free(w->store);
    free(w);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_partitions_are_shared),
        TEST(test_other_supervisor_leads),
        TEST(test_stop_gives_up_the_lead),
        TEST(test_lead_after_the_clock_is_set),
        TEST(test_a_lease_ends),
        TEST(test_leases_wait_for_replies),
        TEST(test_unconfirmed_commands),
        TEST(test_clock_jumps_ahead),
        TEST(test_clock_jumps_without_supervisors),
        TEST(test_restart),
        TEST(test_clock_steps_back),
        TEST(test_clock_jumps_and_steps_back),
        TEST(test_wide_join_counter_is_corrected),
        TEST(test_sweep_when_the_store_is_up_again),
        TEST(test_one_round),
        TEST(test_one_round_mends_two_places),
        TEST(test_one_round_forgets_many_jobs),
        TEST(test_dry_run),
        TEST(test_one_round_without_consumers),
        TEST(test_one_round_unconfirmed),
        TEST(test_commands_without_a_queue),
        TEST(test_corrupt_job),
        TEST(test_one_round_with_corrupt_jobs),
        TEST(test_answers_cut),
        TEST(test_store_fails),
        TEST(test_stop_without_an_answer),
    };

    log_set_level((enum log_level)(LOG_ERROR + 1));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
