// SPDX-License-Identifier: Apache-2.0
/*
 * Inside the world: processes and what they are made of
 *
 *     process ── link (bus) ── machine (scheduler, agent, supervisor) or client
 *            └── store calls, in the order in which they were made
 *
 * process.c lets a process live, perform effects and die, calls.c carries its store calls, roles.c
 * binds the machines, grid.c notes where faults strike, liar.c has agents say what is not so,
 * poison.c kills them, client.c is whoever submits jobs, asks.c what he asks,
 * and wrong.c what he should not send.
 */
#pragma once

#include "agent/agent.h"
#include "base/list.h"
#include "grid.h"
#include "model/trace.h"
#include "replay.h"
#include "scheduler/scheduler.h"
#include "supervisor/supervisor.h"
#include "world.h"

#define SUPERVISOR_LEASE_MS 5000
#define UNIX_EPOCH_MS INT64_C(1700000000000) /* of the store's clock when a world begins */

enum role {
    ROLE_SCHEDULER,
    ROLE_AGENT,
    ROLE_SUPERVISOR,
    ROLE_CLIENT,
    ROLES_,
};

struct client_job {
    struct world *world;
    struct process *client;
    const char *id;
    struct bus_message submit;
    const struct definition *definition;
    bool accepted;
    bool too_late; /* its Submit was refused as such: it asks no more */
    int64_t start_at;
    bool has_deadline;
    int64_t skew; /* ms by which the clock that its commands are issued by is ahead */
    struct event submit_event;
    struct event query_event;
    struct event again_event; /* the store has lost it */
    struct command *commands; /* newest first */
    uint32_t n_commands;
    uint32_t mended; /* steps that it has heard to be parked, and had changed */
};

/* One command about a job; said again until there is an answer. */
struct command {
    struct command *older;
    struct client_job *job;
    const char *id;
    Drover__V1__Control message;
    bool answered;
    void (*hear)(void *ctx, const Drover__V1__Answer *m); /* the first answer; or NULL */
    void *hear_ctx;
    struct event event;
};

struct process {
    struct world *world;
    enum role role;
    uint32_t index;
    const char *name;
    uint64_t heard; /* digest of what it has heard since it was born, where somebody explores */
    bool alive;
    uint64_t life;      /* counts the machines it has had: what was meant for an old one is void */
    int64_t held_until; /* stopped, as by SIGSTOP */
    int64_t clock;      /* its monotonic time less the timeline's */
    bool store_gone;    /* its connection is lost, and not made again */
    struct list calls;  /* of the store, without an answer */
    struct event store_lost; /* it hears that its connection is, and ... */
    struct event reconnect;  /* ... that there is another */
    int64_t store_free;      /* when the last store call will have been executed */
    struct simlink link;
    union {
        struct scheduler *scheduler;
        struct agent *agent;
        struct supervisor *supervisor;
    };
    struct effects out;
    size_t next;     /* of these, while they are performed */
    uint32_t behind; /* boundaries, see grid.h, by what it has just been told */
    struct event tick;
    struct event birth;
    struct event death;       /* of one that was told to end */
    struct event down;        /* it hears that its connection is lost */
    struct handler *handlers; /* agent: newest first */
    struct event look;        /* supervisor: at the replies queue */
};

/* What an agent was asked to do. */
struct liar_request {
    const char *job;
    const char *step;
    const char *token;
};

struct definition {
    struct workflow *workflow;
    struct workflow *newer; /* or NULL */
    bool registered;
};

struct world {
    const struct plan *plan;
    struct timeline *t;
    struct simstore *store;
    struct simbus *bus;
    struct simbus_watch watch;
    struct checker *checker;
    struct plan_faults faults; /* as planned, then none */
    world_script *script;
    void *script_ctx;
    struct process *processes;
    uint32_t n_processes;
    uint32_t counts[ROLES_]; /* of them */
    struct definition definitions[PLAN_DEFINITIONS];
    struct client_job *jobs;
    uint32_t n_jobs;
    struct simqueue *replies;
    struct replay *kept; /* the store's calls; NULL where it never goes back */
    uint32_t rollbacks;  /* times that it did */
    const char *run;     /* of the store's server */
    int64_t store_skew;  /* of its clock */
    int64_t
        set_back; /* ms by which that has stepped back, in all: a timer may last so much longer */
    int64_t next_jump; /* of that clock, at the earliest */
    uint32_t jumped;   /* it has, since somebody was last at these boundaries, see grid.h */
    int64_t store_gone_until;
    int64_t store_full_until;
    struct {
        struct liar_request requests[16]; /* the last ones, in turn */
        uint32_t n;                       /* in all */
    } liar;
    struct poison *poisons; /* newest first */
    struct asked *asked;    /* by supervisors, likewise */
    struct list late;       /* calls that are still on their way to the store */
    struct call *unheard;   /* calls that were executed without an answer, newest first */
    struct event calm;      /* the faults stop */
    struct event probe;     /* is all at rest? */
    bool calmed;
    bool finished;
    uint32_t kept_jobs; /* when it was last seen at rest; all ones: it was not */
    int cleaning;       /* what rests without an end has been cancelled (1), and killed (2) */
    uint64_t calls;
    uint64_t deeds; /* digest of what handlers did, where somebody explores */
};

static inline int64_t process_now(const struct process *p)
{
    return p->world->t->now + p->clock;
}

static inline int64_t store_now(const struct world *w)
{
    return UNIX_EPOCH_MS + w->t->now + w->store_skew;
}

/* ---- process.c ---- */

void process_birth(struct process *p);

/* Dies here and now; born again after @back_after ms. */
void process_kill(struct process *p, int64_t back_after);

/* A machine has taken an event: performs its effects, arms its tick. */
void process_perform(struct process *p, int64_t next_tick);

/* A trace_fn: tells what this process does, @ctx. */
void process_tell(void *ctx, const char *event, const struct log_field *fields, int n);

/* Asks the script, or chance. A process that is to die then has. */
enum world_verdict process_verdict(struct process *p, const char *what);

/* For each event that reaches a process: does it stop for a while, is it told to end? */
void process_strike(struct process *p);

/* It is about to hear this. */
void process_hears(struct process *p, uint64_t digest);

/* ---- calls.c ---- */

/* An effect that is a store call. */
void process_call(struct process *p, const struct effect *effect);

/* Its connection to the store is lost; all calls without an answer are unknown, and may yet take
 * effect. It is there again after a while. */
void process_lose_store(struct process *p);

uint64_t answer_digest(uint64_t d, const struct store_answer *answer);

/* ---- roles.c ---- */

void role_born(struct process *p);
void role_died(struct process *p);
void role_drain(struct process *p);
/* Whether it has nothing in hand. */
bool role_idle(const struct process *p);
void role_store_down(struct process *p);
void role_store_up(struct process *p); /* again */
void role_bus_down(struct process *p);
void role_tick(struct process *p);
void role_answer(struct process *p, uint64_t id, const struct store_answer *answer);
void role_delivery(struct process *p, const struct bus_delivery *d, const char *type);
void role_outcome(struct process *p, uint64_t id, enum bus_outcome outcome);
void role_effect(struct process *p, const struct effect *e);

/* An agent sends replies: each within the lease of its attempt. */
void role_replies(struct process *p, struct bytes body);
/* An agent has something to publish; that may leave on a later connection. */
void role_says(struct process *p, struct bytes body);
/* A delivery that is acknowledged, or given back. */
void role_hands_in(struct process *p, const struct bus_delivery *d, bool acknowledged);
/* It acknowledges what it had on an earlier connection, which the broker has taken back. */
void role_acknowledges_nothing(struct process *p);

/* ---- liar.c ---- */

/* An agent gets requests, which somebody will maybe tell lies about. */
void liar_hears(struct process *p, struct bytes body);

/* Whether this is such a lie. */
bool liar_said(const struct bus_message *m);

/* ---- poison.c ---- */

/* The broker has been given a message. */
void poison_published(struct world *w, const struct bus_message *m);

/* A handler is about to begin, a scheduler has a message that it has no reason to suspect, or was
 * told how many lives have begun one that it does. Return: whether the process has died of it. */
bool poison_handler(struct process *p, const char *token);
bool poison_delivery(struct process *p, const struct bus_delivery *d);
bool poison_begun(struct process *p, struct bytes digest, struct bytes lives);

/* A scheduler has dealt with a message, and lives. */
void poison_acked(struct world *w, struct bytes body);

/* ---- client.c ---- */

void clients_begin(struct world *w);

/* Something about a job that is said from @when on until it is answered; whoever calls completes
 * its message. */
struct command *client_command(struct client_job *job, const char *name, int64_t when);

void client_delivery(struct process *p, const struct bus_delivery *d, const char *type);
/* The store has lost what was accepted: whoever asks is told UNKNOWN_JOB, and submits again. */
void clients_submit_again(struct world *w);

/* Where the client of a job hears. */
const char *client_queue(const struct client_job *job);

/* Has a job end, by a cancel or the hard way. */
void client_end(struct world *w, const char *id, bool hard);

/* Whether a job's n-th step has this name, in the one version that there is of it. */
bool client_calls(const struct world *w, const char *job, uint32_t n, const char *step);

/* Of what clients know. */
uint64_t clients_digest(const struct world *w);

/* Whether somebody still waits for an answer. */
bool client_is_busy(const struct world *w);

/* ---- asks.c ---- */

/* Of a job, one of these or how it stands. */
void ask_something(struct client_job *job);

/* Page after page, of so many entries (0: as many as there can be), or jobs. */
void ask_for_history(struct client_job *job, uint32_t most);
void ask_for_jobs(struct client_job *job, uint32_t most);
void ask_for_workflows(struct client_job *job);

/* ---- wrong.c ---- */

#define WRONG_PREFIX "wrong-" /* of ids that nobody should be told good news of */

/* What else the client of this job sends, from @when on. */
void wrong_begin(struct client_job *job, int64_t when);

/* Return: false where it is about nothing wrong. */
bool wrong_receipt(struct world *w, const Drover__V1__Receipt *m);
bool wrong_answer(struct world *w, const Drover__V1__Answer *m);
