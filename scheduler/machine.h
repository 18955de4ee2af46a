// SPDX-License-Identifier: Apache-2.0
/*
 * Inside the scheduler: items, ops, and what carries them along
 *
 * An item is one delivery, from its arrival to its ack. It has one op for each thing it asks for: a
 * Replies of three replies is one item with three ops. An op makes store calls, one after another,
 * and publishes; when a call was answered and all of its publishes are confirmed it goes on with
 * `then`, or is done. The item is acknowledged when its last op is done.
 *
 *     item ── op ── call (repeated until the store has answered) ── answered()
 *                └─ publishes ── all confirmed ── then()
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/pace.h"
#include "model/listing.h"
#include "model/status.h"
#include "model/store_ops.h"
#include "model/wire.h"
#include "scheduler/access.h"
#include "scheduler/scheduler.h"

#define MACHINE_RECORDS_PER_CALL 50 /* about 3 ms of the store's time */
/* Between two questions whether an alert about one actor is news: requests that were sent together
 * come back together, a thousand of them within a second or two. No longer, because another
 * scheduler may hear meanwhile that the cause is over, and the next one is not to be missed. */
#define MACHINE_ASK_AGAIN_MS 3000
#define MACHINE_ASKED_MAX 1000  /* causes remembered for that */
#define MACHINE_CAUSES_MAX 1000 /* of alerts in one minute, told apart */
/* That a request waits in this process before it is asked for again; the second time longer, as a
 * slow broker may have each of them wait. */
#define MACHINE_MOMENT_MS 1000
#define MACHINE_LONG_MOMENT_MS (10 * MACHINE_MOMENT_MS)
/* Between two alerts of one process about what others send it. */
#define MACHINE_TOLD_AGAIN_MS 60000
#define MACHINE_REFUSED_AGAIN_MS 1000 /* before what the broker would not have is sent again */
#define MACHINE_REPEAT_MS 200         /* before a call that the store refused is made again */
#define MACHINE_SUSPECT_MS 100        /* then this life has survived it */
#define MACHINE_SUSPECT_LIVES 3       /* the third that would begin a message gives it up */
#define MACHINE_REPEATS 5             /* refusals before the delivery is dead-lettered */
#define MACHINE_CACHED_BYTES 0x800000 /* of all definitions in memory, beside the newest one */
#define MACHINE_EVENT_RESULTS 262144  /* bytes of results in a JobEvent: 256 KiB */
#define MACHINE_NOTICE_TRIES 5        /* then the notice is a dead letter */
#define MACHINE_UNCONFIRMED_BYTES (16 << 20) /* published: requests beyond wait for room */

/* Requests in company: up to WIRE_BATCH_MAX, of so much work for each that the agent begins at
 * once, and so large. */
#define MACHINE_BATCH_US 5000
#define MACHINE_BATCH_BYTES (32 * WIRE_KIB)
#define MACHINE_SLOW_MS 1000    /* what takes longer counts as that */
#define MACHINE_TEMPO_FADES 16  /* a sixteenth with each reply: 200 ms are slow for 35 more */
#define MACHINE_TEMPO_KEEPS 64  /* replies for which the agent that takes the least is heeded */
#define MACHINE_TEMPOS_MAX 1024 /* actions that are known */

/* What was accepted is remembered as long as a store that comes back may have lost it: everysec and
 * a slow disk, or a replica that lags. */
#define MACHINE_ACCEPTED_MS 10000
#define MACHINE_ACCEPTED_MAX 16384

/* Watched requests: looks at a queue are half of what is left of a wait apart, but ... */
#define MACHINE_LOOK_MIN_MS 50
#define MACHINE_LOOK_MAX_MS 1000
#define MACHINE_WATCHED_MAX 256 /* requests; those that wait longest give way, and do not count */

/* Of what is not small (see intake.c): bytes that are read at a time, of each queue. Of large
 * messages: bytes that wait for that, of all queues. */
#define MACHINE_SMALL_BYTES (2 * WIRE_KIB)
#define MACHINE_LARGE_BYTES (64 * WIRE_KIB)
#define MACHINE_READ_BYTES (4 * WIRE_MIB)
#define MACHINE_UNREAD_BYTES (32 * WIRE_MIB)

struct op;
typedef void op_fn(struct scheduler *s, struct op *op);
typedef void op_answered_fn(struct scheduler *s, struct op *op, struct ops_reader *r);
typedef void driven_fn(struct scheduler *s, struct op *op, const struct ops_driven *driven,
                       struct workflow *w);

/* What is told of a step that is parked, or of an actor that has no agent, or no queue. */
struct alert {
    uint32_t step; /* of the op's workflow, or WORKFLOW_NONE */
    bool back;     /* of its undo */
    int64_t at;
    uint64_t seq;
    const char *reason;
    enum ops_cause what;          /* the store is asked, or told */
    uint64_t count;               /* of dead letters; else 0 */
    char actor[ID_NAME_MAX + 1];  /* where it is about one, and no step */
    char cause[16 + ID_NAME_MAX]; /* "" where the step is a cause of its own */
};

/* drover.dead, which is looked at once a minute. */
struct letters {
    int64_t look_at; /* the next time */
    uint64_t there;  /* messages, when it was looked at last */
    uint64_t own;    /* messages that this process has put there, and raised alerts about */
    uint64_t said;   /* ... of these the store has been told */
    uint64_t saying; /* ... or was told by the last call */
};

enum item_large {
    ITEM_SMALL,
    ITEM_UNREAD,
    ITEM_READ,
};

struct item {
    struct list link; /* in scheduler.items */
    uint64_t handle;  /* 0: nothing to acknowledge */
    int source;
    bool redelivered;
    bool json;      /* came as JSON: answers go in kind */
    bool registers; /* no delivery: a workflow of this scheduler's configuration */
    bool looks;     /* nor this: whether the store went back, evidence; nobody waits for it */
    char *suspect;  /* delivered before: its digest, owned; else NULL */
    unsigned open;
    enum item_large large;
    bool read;      /* counted among the bytes that are read */
    char *reply_to; /* "" for none */
    char *user;     /* of the broker, who has sent it; "" where that is not proven */
    char
        *actor; /* replies: whose agents have sent them, as the broker says; "" where it does not */
    char *correlation;
    struct wire_message message;
    struct bytes body; /* kept for a dead letter; owned */
};

struct op {
    struct item *item;
    struct list link;       /* in scheduler.records[] until the turn's end, .stalled, .suspects or
                               an intake's */
    struct heap_node timer; /* in scheduler.timers while it waits to be repeated */
    unsigned open;          /* calls and publishes without an answer */
    unsigned refusals;
    bool refused;  /* the store would not, and that was logged */
    bool alone;    /* not to be made in one call with others */
    bool again;    /* the call was made before, and nobody knows what came of it */
    bool advanced; /* ALLOWANCE_DATA was spent */
    bool unheeded; /* the mark in its answer was not looked at */
    op_fn *call;
    op_answered_fn *answered;
    op_fn *then;    /* NULL: done */
    op_fn *on_full; /* the store takes no new work: tell whoever asked; NULL: wait */
    char *job;      /* job id; owned */
    uint32_t partition;
    char fresh[NONCE_LEN + 1];

    /* loading a definition in between */
    char digest[ID_DIGEST_LEN + 1];
    struct store_answer *held; /* the answer that needs it, or room for its requests; owned */
    op_answered_fn *resume;
    driven_fn *on_driven;

    uint32_t requested;  /* of the requests of the last answer, so many are published */
    int64_t answered_at; /* when it came: from then on they wait for an agent */

    /* by kind of op */
    struct workflow *workflow; /* define; submit with a definition; migrate; alert */
    uint32_t piece;            /* define: of the definition */
    bool registered;           /* define: findable by name */
    struct op_submit submit;
    char submission[ID_DIGEST_LEN + 1];
    char *reason; /* of a dead letter; owned */
    struct op_record record;
    char token[WIRE_TOKEN_MAX + 1];     /* record, where no message holds it */
    struct buf buf;                     /* encoded input or result */
    struct buf buf2;                    /* encoded labels or error */
    struct buf index;                   /* submit: its labels, as the store finds jobs by them */
    const Drover__V1__StepReply *reply; /* record: NULL where no agent has told */
    const Drover__V1__Progress *progress;
    struct alert *alert;                /* owned */
    unsigned look;                      /* which one ... */
    uint64_t first;                     /* ... at what was accepted from this number on */
    struct listing *listing;            /* list: what was found so far; owned */
    uint32_t *steps;                    /* drive, steer: named steps, or those that differ; owned */
    char (*tokens)[WIRE_TOKEN_MAX + 1]; /* unsent: of n_steps requests; owned */
    uint32_t n_steps;
    struct ops_refusal refusal;    /* steer */
    char *hows;                    /* change, migrate: of each of the steps; owned */
    op_fn *change_then;            /* likewise: when the other definition is stored */
    uint32_t n_gone;               /* migrate: of the steps */
    uint64_t seq;                  /* what is owed; look: the mark that was remembered */
    enum ops_suspect suspect;      /* suspect: what is told of it */
    struct bus_delivery *delivery; /* suspect, or waits to be read: one free() */
    uint32_t notices;              /* notice: tries before this one */
    bool with_results;             /* notice: the sinks are known */
    bool asked_earlier;            /* likewise: whether its earlier addresses are to be told ... */
    bool tells_earlier;            /* ... and they are */
    bool undeliverable;            /* notice: its queue did not come back, now for drover.dead */
    bool returned;                 /* a publish of this op found no queue */
};

/* One store call in flight, for one op or, of records, several. */
struct call {
    uint64_t id;
    UT_hash_handle hh;
    int n;
    struct op *ops[];
};

/* A request of which is to be seen whether it leaves its queue: see watch.c. */
struct watched {
    struct list link;  /* in scheduler.watched once it is confirmed, or in a part */
    int64_t confirmed; /* when */
    int64_t wait_ends; /* then the broker may give it back */
    int64_t look_at;   /* the next time */
    bool left;         /* it was not in the queue when that was looked at last */
    char *job;
    char token[WIRE_TOKEN_MAX + 1];
    char actor[ID_NAME_MAX + 1];
};

/* Who waits for the outcome of a publish. */
struct part {
    struct op *op;
    char token[WIRE_TOKEN_MAX + 1]; /* of a request */
    bool again; /* some other copy may be in a queue: no outcome of this one is proof */
    bool spare; /* that nobody gets it changes nothing */
    struct watched *watched; /* NULL: it is not; owned */
};

/* One message without an outcome: for one op or, of requests, several. */
struct publish {
    uint64_t id;
    UT_hash_handle hh;
    size_t bytes;
    unsigned n;
    struct part parts[];
};

#define TEMPO_KEY (2 * ID_NAME_MAX + 2) /* "actor/action" and a NUL */

/* How fast an action was of late. */
struct tempo {
    UT_hash_handle hh;
    int64_t took_us; /* the longest; it fades */
    unsigned batch;  /* requests of its actor that any of its agents begins at once ... */
    unsigned since;  /* ... and so many replies ago that was said */
    char key[TEMPO_KEY];
};

/* Requests for one actor that leave together. */
struct batch {
    struct list link; /* in scheduler.batches */
    struct publish *publish;
    struct buf body;
    unsigned room; /* no more than the least of them has room for */
    int64_t not_after;
    char actor[ID_NAME_MAX + 1];
    char step[ID_NAME_MAX + 1]; /* of the first, as the next */
    char traceparent[WIRE_TRACEPARENT_MAX + 1];
};

struct definition {
    char digest[ID_DIGEST_LEN + 1];
    struct workflow *workflow;
    UT_hash_handle hh;
};

/* A cause that the store was asked about: a thousand steps that wait for an actor are one question.
 */
struct asked {
    UT_hash_handle hh;
    int64_t again; /* when to ask again */
    char cause[];
};

/* How far a partition had come when it was heard of last. */
struct mark {
    char id[NONCE_LEN + 1]; /* "": never heard of */
    char run[SCHEDULER_RUN_MAX + 1];
    uint64_t count;
    bool suspect; /* it went back, or might have: what it has not is lost */
};

/* A job whose client was told that it is recorded. */
struct accepted {
    struct list link; /* in scheduler.accepted, oldest first; or in .gone */
    uint64_t number;  /* they count up */
    int64_t at;
    uint32_t partition;
    char job[];
};

/* Large messages of one queue. */
struct intake {
    struct list waiting; /* ops */
    size_t read_bytes;   /* of those that are worked on */
};

/* An actor whose task queue is declared by this scheduler. */
struct actor {
    UT_hash_handle hh;
    char name[];
};

/* What somebody may still take, see allowance.c. */
struct allowance {
    UT_hash_handle hh;
    int64_t at;   /* when that was ... */
    int64_t left; /* thousandths of units; below 0: overdrawn */
    int64_t told; /* when it was told last that it was empty; 0: never */
    char key[];
};

struct scheduler {
    char *name;
    const struct access *access;
    struct rng rng;
    struct nonces nonces;
    uint32_t partitions; /* 0 until the store was up */
    int64_t now;
    struct effects *out; /* of the step under way */
    uint64_t last_id;
    struct list items;
    struct list *records; /* ops to record, for each partition; all in all ... */
    uint64_t gathered;    /* ... so many */
    struct pace recording;
    struct heap timers;
    struct call *calls;
    struct publish *publishes;
    unsigned most_unconfirmed;
    bool transient;           /* requests */
    char *json_actors;        /* names, with a space between them */
    size_t unconfirmed_bytes; /* of their bodies */
    struct list stalled;      /* ops with requests that wait for room */
    struct list batches;      /* requests that leave with the next flush */
    struct pace dispatching;
    struct tempo *tempos;         /* oldest first */
    char life[ID_TOKEN_LEN + 1];  /* of this process */
    struct actor *actors;         /* of registered workflows, and others, ... */
    unsigned other_actors;        /* ... so many more of which may come */
    struct allowance *allowances; /* oldest first */
    int64_t bad_replies;          /* of an actor's agents, a second; 0: any number */
    int64_t horizon_ms;           /* 0: none */
    int64_t alert_interval_ms;    /* in which alerts of one cause are told once, and counted */
    unsigned full_at;             /* percent of the store's memory ... */
    bool store_full;              /* ... which it has reached */
    struct intake intakes[SCHEDULER_SOURCES];
    size_t unread_bytes;   /* of large messages that wait */
    int64_t isolated_told; /* when it was told last that a publish was given up; 0: never */
    bool crowded;          /* by them: nothing is consumed */
    struct list suspects;  /* ops of deliveries that wait until ... */
    struct item *suspect;  /* ... this one is dealt with; NULL: none is */
    int64_t suspect_until; /* then it is no suspect any more */
    struct list watched;   /* requests ... */
    unsigned n_watched;
    int64_t look_began;           /* ... at the queue of this actor; 0: none is under way */
    char looked[ID_NAME_MAX + 1]; /* "": at drover.dead */
    struct letters letters;
    struct definition *definitions; /* oldest first */
    size_t cached;                  /* their bytes */
    struct asked *asked;
    struct alert_group *alert_groups; /* the one whose minute ends first, first */
    char run[SCHEDULER_RUN_MAX + 1];  /* of the store's server */
    struct mark *marks;               /* by partition */
    struct list accepted;
    unsigned n_accepted;
    uint64_t last_accepted;
    struct list gone;  /* found to be lost, to be told at the end of the look */
    unsigned look;     /* counts the looks at the store */
    unsigned looks;    /* calls of the present one */
    unsigned unlooked; /* of them, without an answer */
    unsigned back;     /* partitions that went back ... */
    unsigned lost;     /* ... or were lost whole, found in this look */
    int64_t looked_at; /* the store's time */
    struct workflow **registered;
    size_t n_registered;
    unsigned registering; /* of them, not yet in the store */
    bool register_again;  /* ... and then once more: what is there may be gone since */
    struct scheduler_stats stats;
};

/* ---- items and ops (scheduler.c) ---- */

/* @d: NULL for what no delivery asks for. */
struct item *item_new(struct scheduler *s, const struct bus_delivery *d);
void item_unref(struct scheduler *s, struct item *item);

/* Reads it, and begins what it asks for. */
void item_handle(struct scheduler *s, struct item *item, const struct bus_delivery *d);

struct op *op_new(struct scheduler *s, struct item *item, const char *job);

/* A delivery that outlives its callback; the body stays the item's. One free() releases it. */
struct bus_delivery *delivery_copy(const struct bus_delivery *d, struct bytes body);

/* Allowance (allowance.c): whether a user may ask for something, "" being one of them; it has taken
 * so many units. */
bool allowance_admits(struct scheduler *s, const char *user);
/* What is delivered again may have been carried out: it is admitted for twice as long. */
bool allowance_admits_again(struct scheduler *s, const char *user);
void allowance_spend(struct scheduler *s, const char *user, size_t units);
void allowance_give_back(struct scheduler *s, const char *user, size_t units);
/* Whether a definition that takes so many bytes of the store may be kept for a user. */
bool allowance_takes_definition(struct scheduler *s, const char *user, size_t bytes);
/* Whether a message with so many replies of an actor's agents is looked at; a step has waited for
 * one of them. */
bool allowance_takes_replies(struct scheduler *s, const char *actor, size_t replies);
void allowance_wanted(struct scheduler *s, const char *actor);
/* Whether a Progress of them is looked at; so many were not. */
bool allowance_takes_progress(struct scheduler *s, const char *actor);
void allowance_extra_progress(struct scheduler *s, const char *actor, size_t n);
/* That they have sent more is to be told: a minute after it was last. */
bool allowance_is_news(struct scheduler *s, const char *actor);
/* Of what a user may have in the store, the part of one partition. */
int64_t allowance_share(const struct scheduler *s, int64_t most);
void allowances_free(struct scheduler *s);
#define ALLOWANCE_BYTES 4096 /* of a message, for a unit */
#define ALLOWANCE_DATA 500   /* units for a Query with data, until what it takes is known */
#define ALLOWANCE_ITEMS 100  /* of an answer of the store, likewise */
#define ALLOWANCE_SEARCH 25  /* units of a call that has looked at as many jobs as it may */

/* Intake (intake.c): whether a delivery goes back to the broker instead; a new item of one; reads
 * it, now or when there is room; it is done with; room may have come; the broker is gone. */
bool intake_gives_back(struct scheduler *s, const struct bus_delivery *d);
void intake_came(struct scheduler *s, struct item *item);
void intake_read(struct scheduler *s, struct item *item, const struct bus_delivery *d);
void intake_done(struct scheduler *s, const struct item *item);
void intake_go_on(struct scheduler *s);
void intake_lost(struct scheduler *s);

/* Makes a store call now; it is repeated as it is until the store has answered. */
void op_call(struct scheduler *s, struct op *op, op_fn *call, op_answered_fn *answered);

/* Makes the call under way again at a time. */
void op_repeat_at(struct scheduler *s, struct op *op, int64_t when);

/* The id for an EFFECT_STORE of this op. */
uint64_t op_call_id(struct scheduler *s, struct op *op);

/* Lets go of what op_new() holds; the op lives on while it waits for something. */
void op_unref(struct scheduler *s, struct op *op);

/* Gathers a record for the turn's end. */
void op_record(struct scheduler *s, struct op *op);

/* Publishes for an op; it goes on when the outcome is known. Completes content type and body. */
struct bus_message *op_publish(struct scheduler *s, struct op *op, const ProtobufCMessage *body,
                               bool json, const char *token);

/* The same in its parts, for a message of several ops; @room: at most so many. */
struct publish *publish_new(struct scheduler *s, unsigned room);
void publish_part(struct scheduler *s, struct publish *p, struct op *op, const char *token,
                  size_t bytes);
struct bus_message *publish_send(struct scheduler *s, struct publish *p,
                                 const ProtobufCMessageDescriptor *type, struct bytes body,
                                 bool json);

/* To the broker, for any scheduler: some connection is lost, and nothing of it was begun. Where it
 * was that of deliveries the broker has it back already. */
void item_give_back(struct scheduler *s, struct item *item);

/* Gives a delivery up: out to drover.dead with a reason, then ack. */
void item_dead(struct scheduler *s, struct item *item, const char *reason);

/* The same where another alert is about the cause, which tells it once: that there are more shows
 * at the next look at drover.dead. */
void item_bury(struct scheduler *s, struct item *item, const char *reason);

/* To whoever asked, if he can be told. */
void op_reply(struct scheduler *s, struct op *op, const ProtobufCMessage *body);

/* What was delivered before (suspects.c): item_handle() when its turn has come; when it was dealt
 * with; when the broker is gone, and with it all that waits. */
void suspects_add(struct scheduler *s, struct item *item, const struct bus_delivery *d);
void suspects_read(struct scheduler *s, const struct item *item);
void suspects_done(struct scheduler *s, struct item *item);
void suspects_lost(struct scheduler *s);
void suspects_tick(struct scheduler *s);

/* Has the store know this scheduler's workflows: whenever it may have lost them. */
void workflows_register(struct scheduler *s);

/* ---- by message kind ---- */

void on_submit(struct scheduler *s, struct item *item, const struct bus_delivery *d);
bool replies_ignored(struct scheduler *s, const struct item *item);
void on_replies(struct scheduler *s, struct item *item);
void on_expired(struct scheduler *s, struct item *item, const struct bus_delivery *d);
void on_control(struct scheduler *s, struct item *item);

/* A record for a dispatch that did not get through: unstarted, unroutable, too large. */
void record_new(struct scheduler *s, struct item *item, enum op_kind kind, const char *job,
                const char *token, const char *class, const char *message);

/* What record, drive, submit and steer answer: requests, alerts, notices, more (driven.c). */
void on_driven(struct scheduler *s, struct op *op, const struct ops_driven *driven,
               struct workflow *w);

enum dispatch_how {
    DISPATCH_ALONE,
    DISPATCH_AGAIN, /* it was sent before, so that this one finds no agent proves nothing: alone */
    DISPATCH_FIRST, /* a first attempt, which may travel with others */
    DISPATCH_WATCHED, /* of the one before it no agent has told, or an agent has died: alone */
};

/* Requests (dispatch.c): publishes one, alone or in company; those that were gathered; forgets
 * them. @size: bytes. */
void dispatch(struct scheduler *s, struct op *op, Drover__V1__StepRequest *m, size_t size,
              int64_t not_after, enum dispatch_how how);
void dispatch_flush(struct scheduler *s);
/* Whether a workflow that is registered with this scheduler names the actor. */
bool is_of_workflows(const struct scheduler *s, const char *actor);
void dispatch_free(struct scheduler *s);
/* Watched requests (watch.c): a new one; it is confirmed, and belongs to the scheduler; its queue
 * was looked at; the broker is gone, and with it what is known of its queues; when watch_tick() is
 * needed next. */
struct watched *watched_new(const struct op *op, const char *token, const char *actor,
                            int64_t wait_ends);
struct watched *watched_free(struct watched *w);
void watch(struct scheduler *s, struct watched *w);
void watch_answered(struct scheduler *s, uint32_t messages, uint32_t consumers);
void watch_lost(struct scheduler *s);
void watch_tick(struct scheduler *s);
int64_t watch_next(const struct scheduler *s);
/* Has the store know that an agent had the request of this token. */
void taken_tell(struct scheduler *s, const char *job, const char *token);
/* A reply was recorded: how long that action takes, and whether its agents take several. */
void tempo_heard(struct scheduler *s, const struct workflow *w, const Drover__V1__StepReply *m);

/* Events (event.c). To everybody who listens, under the key "<workflow>.<word>"; @w: NULL for none.
 */
struct bus_message *event_publish(struct scheduler *s, struct op *op, const Drover__V1__JobEvent *m,
                                  const struct workflow *w, const char *word);

/* Steps, as they are dispatched. */
void step_events_tell(struct scheduler *s, struct op *op, const struct ops_driven *driven,
                      const struct workflow *w);

/* What has happened at the steps of a job whose client wants to hear of it, to reply_to. */
void steps_tell_client(struct scheduler *s, const char *job);

/* Alerts (alert.c), each cause once. */
void alerts_raise(struct scheduler *s, const struct op *op, const struct ops_driven *driven,
                  struct workflow *w);
/* One that was owed: makes it op->alert; tells it; the event that tells it. */
void alert_owed(struct op *op, const struct ops_job *job, const char *step, struct workflow *w);
void alert_tell(struct scheduler *s, struct op *op);
void alert_event(struct scheduler *s, Drover__V1__JobEvent *m, const struct op *op);
/* The interval of a cause ends; when the next one does. */
void alert_tick(struct scheduler *s);
int64_t alert_next(const struct scheduler *s);
/* All of them end now. */
void alert_stop(struct scheduler *s);
void alert_groups_free(struct scheduler *s);
void asked_free(struct scheduler *s);

/* drover.dead was looked at: what no scheduler has put there is told by one of them. */
void alert_letters(struct scheduler *s);
/* That a message has become a dead letter, for this reason. @job: "" where it is about none. */
void alert_dead(struct scheduler *s, const char *job, const char *reason);
/* About the store, or about a job whose record is gone; told with no more ado. */
void alert_now(struct scheduler *s, const char *job, const char *reason);
/* Messages of this actor's agents were not looked at. */
void alert_ignored(struct scheduler *s, const char *actor);
void alert_once_a_minute(struct scheduler *s, int64_t *told, const char *job, const char *reason);
void alert_of_store(struct scheduler *s, struct item *item, const char *job, const char *reason,
                    int64_t at);
/* A sweep cannot read this job: told once for as long as that goes on. */
void alert_torn(struct scheduler *s, struct item *item, const char *job, int64_t at);

/* A store that went back in time (rollback.c): looks whether it did, on a new connection; heeds the
 * mark in an answer; remembers what a client is told of. */
void rollback_look(struct scheduler *s);
void rollback_heed(struct scheduler *s, const struct op *op, uint64_t count);
void rollback_accepted(struct scheduler *s, const struct op *op);
void rollback_free(struct scheduler *s);

/* Commands about one job (steer.c). */
void steer(struct scheduler *s, struct op *op);

/* Leaves in op->workflow what a Migrate asks for, arranged by op->digest, which is cached, and in
 * op->steps and op->hows what differs; stored, then on with @then. Or answers why it cannot be
 * (change.c). */
void migrate(struct scheduler *s, struct op *op, op_fn *then);

/* Whether a command has another definition, or other arguments, for a step. */
bool retry_changes(const Drover__V1__Control *m);

/* The fields of the step that it gives, for the history. */
const char *change_what(struct scheduler *s, const Drover__V1__Retry *m);

/* The same as migrate() for such a command, of the first of op->steps. @from: what the job has. */
void change(struct scheduler *s, struct op *op, const struct workflow *from, op_fn *then);

/* Lists of jobs, over all partitions (list.c). */
void list_jobs(struct scheduler *s, struct op *op);

/* The history of a job, and the registered workflows (history.c, catalog.c). */
void history(struct scheduler *s, struct op *op);
void catalog(struct scheduler *s, struct op *op);

/* A request has waited in this process, or those of an answer that are not published yet: asks
 * whether they are wanted still, and publishes them then. */
void ask_again(struct scheduler *s, struct item *item, const char *job, const char *token);

/* Publishes requests that waited for room, as far as there is some. */
void driven_resume_stalled(struct scheduler *s);

/* Reads a driven answer and, where it needs the definition, loads that first, then calls back. */
void driven_read(struct scheduler *s, struct op *op, struct ops_reader *r, driven_fn *fn);
void drive(struct scheduler *s, struct op *op);

/* Publishes what is owed of a job, its terminal event or an alert, and settles that (notice.c). */
void notice_new(struct scheduler *s, struct item *item, const char *job, uint64_t seq,
                const char *digest);
/* What op->seq is owed for was published. */
void notice_told(struct scheduler *s, struct op *op);

/* ---- definitions (definition.c) ---- */

struct workflow *definition_find(struct scheduler *s, const char *digest);

/* What stands in a Submit: sound as workflow_new() has it, which is known of one that is kept.
 * Returns as that does. */
int definition_of(struct scheduler *s, const Drover__V1__Workflow *m, struct workflow **out,
                  struct problem *problem);
void definition_keep(struct scheduler *s, struct workflow *w);
void definitions_free(struct scheduler *s);

/* Loads op->digest, then goes on with `resume` on a copy of what @rest still holds. */
void definition_load(struct scheduler *s, struct op *op, const struct ops_reader *rest,
                     op_answered_fn *resume);

/* Stores op->workflow piece by piece, then calls op->then. */
void definition_store(struct scheduler *s, struct op *op, op_fn *then);

/* ---- messages (answer.c) ---- */

/* To a Control: an Answer with a code and nothing else. */
void control_answer(struct scheduler *s, struct op *op, Drover__V1__AnswerCode code,
                    const char *reason);

/**
 * answer_fit() - make an answer fit into a message
 * @page: how many items its page has, within @m: halved until it fits; NULL where there is no page
 *
 * Return: false where it would not; that was answered then.
 */
bool answer_fit(struct scheduler *s, struct op *op, Drover__V1__Answer *m, size_t *page);

/* What the store says of the job that a Control is about; its definition's digest into op->digest.
 * Return: false where there is no such job, and that was answered, or no sense in what it says. */
bool job_read(struct scheduler *s, struct op *op, struct ops_reader *r, struct ops_job *job);

void status_answer(struct scheduler *s, struct op *op, const struct ops_job *job,
                   const struct workflow *w);

void payload_append(struct buf *out, const Drover__V1__Payload *payload);
