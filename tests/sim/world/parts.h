// SPDX-License-Identifier: Apache-2.0
/*
 * Internal parts of the world: processes and what they consist of
 *
 *     process -- link (bus) -- machine (scheduler, agent, supervisor) or client
 *            \-- store calls, in the order in which they were made
 *
 * process.c starts and kills processes and performs their effects, calls.c carries their store
 * calls, roles.c connects the machines, grid.c notes where faults strike, liar.c lets agents send
 * false replies, poison.c kills processes by messages, client.c has the clients that submit and
 * command jobs, asks.c their questions, and wrong.c their invalid messages.
 */
#pragma once

#include "agent/agent.h"
#include "base/list.h"
#include "model/trace.h"
#include "scheduler/scheduler.h"
#include "store/replay.h"
#include "supervisor/supervisor.h"
#include "world/grid.h"
#include "world/world.h"

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
    bool batches;   /* its Submit comes with others of the client, and answers may, too */
    bool submitted; /* at least once */
    bool accepted;
    bool too_late; /* its Submit was refused as too late: its client asks no more */
    int64_t start_at;
    bool has_deadline;
    int64_t skew; /* ms by which the clock is ahead by which its commands are issued */
    struct event submit_event;
    struct event query_event;
    struct event again_event; /* the store has lost the job */
    struct command *commands; /* newest first */
    uint32_t n_commands;
    uint32_t mended; /* parked steps that the client has changed after an alert */
};

/* One command about a job; repeated until there is an Answer. */
struct command {
    struct command *older;
    struct client_job *job;
    const char *id;
    Drover__V1__Control message;
    bool answered;
    void (*hear)(void *ctx,
                 const Drover__V1__Answer *m); /* called with the first Answer; or NULL */
    void *hear_ctx;
    struct event event;
};

struct process {
    struct world *world;
    enum role role;
    uint32_t index;
    const char *name;
    uint64_t heard; /* digest of what it has received in this incarnation; only when exploring */
    bool alive;
    uint64_t incarnation;    /* counts its incarnations: events of an earlier one are void */
    int64_t held_until;      /* stopped, as by SIGSTOP */
    int64_t clock;           /* its monotonic time less the timeline's */
    bool store_gone;         /* its connection is lost, and not made again */
    struct list calls;       /* to the store, without an answer */
    struct event store_lost; /* it notices that its connection is lost, */
    struct event reconnect;  /* and that there is a new one */
    int64_t store_free;      /* when the last store call will have been executed */
    struct simlink link;
    union {
        struct scheduler *scheduler;
        struct agent *agent;
        struct supervisor *supervisor;
    };
    struct effects out;
    size_t next;     /* of the effects, while they are performed */
    uint32_t behind; /* boundaries passed by the last event, see grid.h */
    struct event tick;
    struct event start;
    struct event drained;     /* of a process that drains */
    struct event down;        /* it notices that its connection is lost */
    struct handler *handlers; /* agent: newest first */
    struct event inspection;  /* supervisor: inspection of the replies queue */
};

/* A request that an agent has received. */
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
    struct plan_faults faults; /* as planned, later none */
    world_script *script;
    void *script_ctx;
    struct process *processes;
    uint32_t n_processes;
    uint32_t counts[ROLES_]; /* processes of each role */
    struct definition definitions[PLAN_DEFINITIONS];
    struct client_job *jobs;
    uint32_t n_jobs;
    struct simqueue *replies;
    struct replay *kept; /* the store's calls; NULL: it never goes back */
    uint32_t rollbacks;  /* how often it has */
    const char *run;     /* of the store's server */
    int64_t store_skew;  /* of its clock */
    int64_t set_back;    /* ms that it has stepped back, in all: a timer may last so much longer */
    int64_t next_jump;   /* of that clock, at the earliest */
    uint32_t jumped; /* boundaries at which no call was executed since the last jump, see grid.h */
    int64_t store_gone_until;
    int64_t store_full_until;
    struct {
        struct liar_request requests[16]; /* the last ones, used in turn */
        uint32_t n;                       /* in all */
    } liar;
    struct poison *poisons;  /* newest first */
    struct asked *asked;     /* by supervisors, newest first */
    struct list late;        /* calls that are still on their way to the store */
    struct call *unanswered; /* calls executed without an answer, newest first */
    struct event calm;       /* the faults stop */
    struct event probe;      /* checks whether all is at rest */
    bool calmed;
    bool finished;
    uint32_t kept_jobs; /* when it was last seen at rest; all ones: it was not */
    int cleaning;       /* jobs that rest without an end were cancelled (1), and then killed (2) */
    uint64_t calls;
    uint64_t effects_seen; /* digest of the effects of handlers; only when exploring */
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

void process_start(struct process *p);

/* Kills the process now; it starts again after @back_after ms. */
void process_kill(struct process *p, int64_t back_after);

/* A machine has taken an event: performs its effects and sets its tick. */
void process_perform(struct process *p, int64_t next_tick);

/* A trace_fn that traces what this process (@ctx) does. */
void process_tell(void *ctx, const char *event, const struct log_field *fields, int n);

/* Asks the script, or chance. A process that is to die is dead then. */
enum world_verdict process_verdict(struct process *p, const char *what);

/* Faults for each event that reaches a process: it stops for a while, or is told to end. */
void process_strike(struct process *p);

/* It is about to receive this. */
void process_hears(struct process *p, uint64_t digest);

/* ---- calls.c ---- */

/* Makes an effect that is a store call. */
void process_call(struct process *p, const struct effect *effect);

/* The process loses its connection to the store. All calls without an answer are unknown, and may
 * still be executed. It connects again after a while. */
void process_lose_store(struct process *p);

uint64_t answer_digest(uint64_t d, const struct store_answer *answer);

/* ---- roles.c ---- */

void role_start(struct process *p);
void role_end(struct process *p);
void role_drain(struct process *p);
/* Whether it has nothing in progress. */
bool role_idle(const struct process *p);
void role_store_down(struct process *p);
void role_store_up(struct process *p); /* again */
/* The queue of an actor is gone, with its messages. */
void role_lost(struct process *p, const char *actor);
void role_bus_down(struct process *p);
void role_tick(struct process *p);
void role_answer(struct process *p, uint64_t id, const struct store_answer *answer);
void role_delivery(struct process *p, const struct bus_delivery *d, const char *type);
void role_outcome(struct process *p, uint64_t id, enum bus_outcome outcome);
void role_effect(struct process *p, const struct effect *e);

/* An agent sends replies; each must be within the lease of its attempt. */
void role_replies(struct process *p, struct bytes body);
/* An agent publishes; the message may leave on a later connection. */
void role_publishes(struct process *p, struct bytes body);
/* A delivery is acknowledged, or given back. */
void role_hands_in(struct process *p, const struct bus_delivery *d, bool acknowledged);
/* The agent acknowledges a delivery of an earlier connection, which the broker has taken back. */
void role_acknowledges_nothing(struct process *p);

/* ---- liar.c ---- */

/* An agent receives requests; a liar may send false replies about them. */
void liar_hears(struct process *p, struct bytes body);

/* Whether this is a false reply of a liar. */
bool liar_said(const struct bus_message *m);

/* ---- poison.c ---- */

/* The broker has got a message. */
void poison_published(struct world *w, const struct bus_message *m);

/* A handler is about to begin; or a scheduler has a message that is no suspect; or it was told how
 * many incarnations have begun a suspect. Return: whether the process has died of it. */
bool poison_handler(struct process *p, const char *token);
bool poison_delivery(struct process *p, const struct bus_delivery *d);
bool poison_begun(struct process *p, struct bytes digest, struct bytes incarnations);

/* A scheduler has finished a message and is alive. */
void poison_acked(struct world *w, struct bytes body);

/* ---- client.c ---- */

void clients_begin(struct world *w);

/* A command about a job, sent from @when on until it is answered. The caller completes its message.
 * */
struct command *client_command(struct client_job *job, const char *name, int64_t when);

void client_delivery(struct process *p, const struct bus_delivery *d, const char *type);
/* The store has lost accepted jobs: clients that ask are told UNKNOWN_JOB, and submit again. */
void clients_submit_again(struct world *w);

/* The reply queue of the job's client. */
const char *client_queue(const struct client_job *job);

/* Ends a job, by a cancel or (@hard) a kill. */
void client_end(struct world *w, const char *id, bool hard);

/* Whether the job's n-th step has this name, in a job of one version. */
bool client_calls(const struct world *w, const char *job, uint32_t n, const char *step);

/* Of what clients know. */
uint64_t clients_digest(const struct world *w);

/* Whether a client still waits for an answer. */
bool client_is_busy(const struct world *w);

/* ---- asks.c ---- */

/* About a job: one of these questions, or its status. */
void ask_something(struct client_job *job);

/* Page after page, of @most entries (0: the maximum) or jobs. */
void ask_for_history(struct client_job *job, uint32_t most);
void ask_for_jobs(struct client_job *job, uint32_t most);
void ask_for_workflows(struct client_job *job);

/* ---- wrong.c ---- */

#define WRONG_PREFIX "wrong-" /* of ids that must never be accepted */

/* What else the client of this job sends, from @when on. */
void wrong_begin(struct client_job *job, int64_t when);

/* Return: false if it does not concern such a message. */
bool wrong_receipt(struct world *w, const Drover__V1__Receipt *m);
bool wrong_answer(struct world *w, const Drover__V1__Answer *m);
