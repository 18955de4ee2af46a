// SPDX-License-Identifier: Apache-2.0
/*
 * Machine: the types and functions that the files of the scheduler's machine share
 *
 * An item is one delivery, from its arrival to its acknowledgement. It has one operation (op) for
 * each thing that it asks for: a Replies message with three replies is one item with three
 * operations. An operation makes store calls, one after another, and publishes. When its call is
 * answered and all of its publishes are confirmed it goes on with `then`, or is done. The item is
 * acknowledged when its last operation is done.
 *
 *     item ── op ── call (repeated until the store has answered) ── answered()
 *                └─ publishes ── all confirmed ── then()
 *
 * Only the files of the machine include it, and tests for its limits. All functions run inside
 * scheduler_step(). All times are monotonic ms, but those that are named otherwise. Out of memory
 * aborts the process.
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

#define MACHINE_RECORDS_PER_CALL 50 /* take the store about 3 ms */
/* ms between two calls that ask the store whether an alert about an actor is news. Requests that
 * were sent together come back together, a thousand of them within a second or two. The time is
 * not longer, because another scheduler may record meanwhile that the cause is over, and the
 * next alert must not be missed. */
#define MACHINE_ASK_AGAIN_MS 3000
#define MACHINE_ASKED_MAX 1000  /* causes remembered for that */
#define MACHINE_CAUSES_MAX 1000 /* distinct causes of alerts in one alert interval */
/* ms that a request waits in this process before the store is asked again whether it is wanted.
 * The second time the request waits longer, because every request may have to wait for a slow
 * broker. */
#define MACHINE_RECHECK_MS 1000
#define MACHINE_LONG_MOMENT_MS (10 * MACHINE_RECHECK_MS)
/* ms between two alerts of this process about messages that others send it, and between two
 * inspections of drover.dead; also the default alert interval. */
#define MACHINE_ALERT_AGAIN_MS 60000
/* ms before a message that the broker refused is sent again */
#define MACHINE_REFUSED_AGAIN_MS 1000
#define MACHINE_REPEAT_MS 200  /* ms before a call that the store refused is repeated */
#define MACHINE_SUSPECT_MS 100 /* ms after it has read a suspect a scheduler counts as alive */
#define MACHINE_POISON_AT 3    /* the third incarnation to begin a suspect gives it up */
#define MACHINE_REPEATS 5      /* refusals of the store before the delivery is a dead letter */
/* Of all cached definitions; the newest one is kept in any case. */
#define MACHINE_CACHED_BYTES 0x800000
#define MACHINE_EVENT_RESULTS 262144         /* bytes of results in a JobEvent: 256 KiB */
#define MACHINE_NOTIFICATION_TRIES 5         /* then the notification is a dead letter */
#define MACHINE_UNCONFIRMED_BYTES (16 << 20) /* unconfirmed; beyond that requests wait */

/* Requests in batches. A batch holds at most WIRE_BATCH_MAX requests, at most MACHINE_BATCH_US
 * of work for each slot of an agent, and at most MACHINE_BATCH_BYTES. */
#define MACHINE_BATCH_US 5000
#define MACHINE_BATCH_BYTES (32 * WIRE_KIB)
#define MACHINE_SLOW_MS 1000 /* a longer action counts as this long */
/* Each success takes a sixteenth off a service time: 200 ms count as 21 after 35 of them. */
#define MACHINE_SERVICE_TIME_FADES 16
#define MACHINE_SERVICE_TIME_KEEPS                                                                 \
    64                                 /* replies for which the smallest batch of any agent counts \
                                        */
#define MACHINE_SERVICE_TIMES_MAX 1024 /* actions whose service time is known */

/* A job that was accepted is remembered for as long as a store that comes back may have lost it:
 * with everysec and a slow disk, or with a replica that lags. */
#define MACHINE_ACCEPTED_MS 10000
#define MACHINE_ACCEPTED_MAX 16384

/* Watched requests. The next inspection of a queue comes after half of the rest of the wait, but
 * not sooner or later than this. */
#define MACHINE_INSPECT_MIN_MS 50
#define MACHINE_INSPECT_MAX_MS 1000
#define MACHINE_WATCHED_MAX 256 /* requests; beyond, that whose wait ends last gets no evidence */

/* Messages that are not small (see intake.c): bytes that are read at a time, of each queue; and
 * bytes of large messages that wait to be read, of all queues. */
#define MACHINE_SMALL_BYTES (2 * WIRE_KIB)
#define MACHINE_LARGE_BYTES (64 * WIRE_KIB)
#define MACHINE_READ_BYTES (4 * WIRE_MIB)
#define MACHINE_UNREAD_BYTES (32 * WIRE_MIB)

struct op;
typedef void op_fn(struct scheduler *s, struct op *op);
typedef void op_answered_fn(struct scheduler *s, struct op *op, struct ops_reader *r);
typedef void transition_fn(struct scheduler *s, struct op *op,
                           const struct ops_transition *transition, struct workflow *w);

/* An alert: about a job or a step of it, an actor, the store, or a dead letter. */
struct alert {
    uint32_t step; /* of the op's workflow, or WORKFLOW_NONE */
    bool back;     /* about the undo of the step */
    int64_t at;
    uint64_t seq;
    const char *reason;
    enum ops_cause what;          /* what the next call says of the cause */
    uint64_t count;               /* of dead letters; else 0 */
    char actor[ID_NAME_MAX + 1];  /* that the alert is about, if it has no step; else "" */
    char cause[16 + ID_NAME_MAX]; /* "": the store need not be asked whether it is news */
};

/* Dead letters: the queue drover.dead, which is inspected once a minute. */
struct letters {
    int64_t inspect_at; /* time of the next inspection */
    uint64_t there;     /* messages that the last inspection found */
    uint64_t own;       /* messages that this process has put there and raised alerts about */
    uint64_t recorded;  /* ... of these, recorded in the store */
    uint64_t recording; /* ... of these, named in the last call to the store */
};

enum item_large {
    ITEM_SMALL,
    ITEM_UNREAD,
    ITEM_READ,
};

struct item {
    struct list link; /* in scheduler.items */
    uint64_t handle;  /* of the delivery; 0: there is nothing to acknowledge */
    int source;
    bool redelivered;
    bool json;       /* the message is in JSON, so the answers are as well */
    bool registers;  /* registers a workflow of the configuration; no delivery */
    bool background; /* a stopping scheduler does not wait for it; no delivery */
    char *suspect;   /* redelivered message: digest of its body, owned; else NULL */
    unsigned open;
    enum item_large large;
    bool read;      /* its body counts in intake.read_bytes */
    char *reply_to; /* "" for none */
    char *user;     /* who sent it, as the broker says; "": the broker does not */
    char *actor;    /* of replies: whose agents sent them, as the broker says; "": it does not */
    char *correlation;
    struct wire_message message;
    struct bytes body; /* kept for a dead letter; owned */
};

struct op {
    struct item *item;
    /* In scheduler.records[] until they leave, .stalled, .suspects, or in intake.waiting. */
    struct list link;
    struct heap_node timer; /* in scheduler.timers until the call is repeated */
    unsigned open;          /* calls and publishes without an answer, and what holds it */
    unsigned refusals;
    bool refused;           /* the store refused a call, and that was logged */
    bool alone;             /* its record must not share a call with others */
    bool again;             /* the call was made before, with an unknown result */
    bool data_prepaid;      /* ALLOWANCE_DATA was spent in advance */
    bool watermark_pending; /* the watermark in its answer is not compared yet */
    op_fn *call;
    op_answered_fn *answered;
    op_fn *then;    /* NULL: done */
    op_fn *on_full; /* answers RETRY_LATER while the store is full; NULL: the op waits */
    char *job;      /* job id; owned */
    uint32_t partition;
    char nonce[NONCE_LEN + 1];

    /* while a definition is loaded */
    char digest[ID_DIGEST_LEN + 1];
    struct store_answer *held; /* answer that needs the definition, or whose requests wait; owned */
    op_answered_fn *resume;
    transition_fn *on_transition;

    uint32_t requested;  /* number of requests of the last answer that are published */
    int64_t answered_at; /* when the last answer came; the wait of its requests begins then */

    /* by kind of operation */
    struct workflow *workflow; /* define; submit with a definition; migrate; alert; owned */
    uint32_t piece;            /* define: number of the piece of the definition */
    bool registered;           /* define: can be found by name */
    struct op_submit submit;
    char submission[ID_DIGEST_LEN + 1];
    char *reason; /* of a dead letter; owned */
    struct op_record record;
    char token[WIRE_TOKEN_MAX + 1];     /* record, taken: if no message holds it */
    struct buf buf;                     /* encoded input, result or payload */
    struct buf buf2;                    /* encoded labels or error */
    struct buf index;                   /* submit: the labels, as the store finds jobs by them */
    const Drover__V1__StepReply *reply; /* record: NULL if no agent has sent a reply */
    const Drover__V1__Progress *progress;
    struct alert *alert;                /* owned */
    unsigned check;                     /* rollback: number of the check ... */
    uint64_t first;                     /* ... and the first accepted job that this call asks for */
    struct listing *listing;            /* list: the jobs found so far; owned */
    uint32_t *steps;                    /* drive, steer: steps named, or those that differ; owned */
    char (*tokens)[WIRE_TOKEN_MAX + 1]; /* unsent: of n_steps requests; owned */
    uint32_t n_steps;
    struct ops_refusal refusal;    /* steer */
    char *differences;             /* change, migrate: how each of the steps differs; owned */
    op_fn *change_then;            /* change, migrate: called when the other definition is stored */
    uint32_t n_gone;               /* migrate: of the steps, those that are gone */
    uint64_t seq;                  /* of a notification; rollback: the watermark remembered */
    enum ops_suspect suspect;      /* suspect: what the call records */
    struct bus_delivery *delivery; /* suspect, or waits in the intake; owned, freed by one free() */
    uint32_t notifications;        /* notification: tries before this one */
    bool with_results;             /* notification: the sinks are known */
    bool asked_earlier;     /* notification: the store was asked about the earlier addresses ... */
    bool publishes_earlier; /* ... and this try publishes to them */
    bool undeliverable;     /* notification: no tries are left, it goes to drover.dead */
    bool returned;          /* a publish of this op found no queue, or was refused */
};

/* One store call in progress: for one operation or, if it records, for several. */
struct call {
    uint64_t id;
    UT_hash_handle hh;
    int n;
    struct op *ops[];
};

/* A request whose queue is inspected until it has left it, or its wait is over: see watch.c. */
struct watched {
    struct list link;   /* in scheduler.watched once it is confirmed; before, in a part */
    int64_t confirmed;  /* when */
    int64_t wait_ends;  /* then the broker may return the request */
    int64_t inspect_at; /* time of the next inspection */
    bool left_queue;    /* the last inspection did not find it in the queue */
    char *job;
    char token[WIRE_TOKEN_MAX + 1];
    char actor[ID_NAME_MAX + 1];
};

/* One operation that waits for the outcome of a publish. */
struct part {
    struct op *op;
    char token[WIRE_TOKEN_MAX + 1]; /* of a request; "": it is none */
    bool again;                     /* another copy may be in a queue: no outcome proves anything */
    bool optional;                  /* the operation does not need this one to reach a queue */
    struct watched *watched;        /* owned; NULL: it is not watched */
};

/* One message without an outcome: for one operation or, if it carries a batch, for several. */
struct publish {
    uint64_t id;
    UT_hash_handle hh;
    size_t bytes;
    unsigned n;
    struct part parts[];
};

#define SERVICE_TIME_KEY (2 * ID_NAME_MAX + 2) /* "actor/action" and a NUL */

/* The service time of an action: how long it took of late. */
struct service_time {
    UT_hash_handle hh;
    int64_t took_us; /* the slowest; fades with each success */
    unsigned batch;  /* the fewest requests that an agent of the actor takes at once ... */
    unsigned since;  /* ... and the replies since an agent took that few */
    char key[SERVICE_TIME_KEY];
};

/* Requests for one actor that leave together. */
struct batch {
    struct list link; /* in scheduler.batches */
    struct publish *publish;
    struct buf body;
    unsigned room; /* the least number of requests that any of them allows */
    int64_t not_after;
    char actor[ID_NAME_MAX + 1];
    char step[ID_NAME_MAX + 1]; /* of the first request; traceparent likewise */
    char traceparent[WIRE_TRACEPARENT_MAX + 1];
};

struct definition {
    char digest[ID_DIGEST_LEN + 1];
    struct workflow *workflow;
    UT_hash_handle hh;
};

/* A cause of alerts that the store was asked about. A thousand steps that wait for one actor are
 * one call. */
struct asked {
    UT_hash_handle hh;
    int64_t again; /* time from which on the store is asked again */
    char cause[];
};

/* The watermark of a partition, as the last answer has shown it. */
struct watermark {
    char id[NONCE_LEN + 1]; /* "": the partition has not answered yet */
    char run[SCHEDULER_RUN_MAX + 1];
    uint64_t count;
    bool went_back; /* or may have: a job that it does not have is lost */
};

/* A job whose client was sent a Receipt. */
struct accepted {
    struct list link; /* in scheduler.accepted, oldest first; or in .gone */
    uint64_t number;  /* ascending */
    int64_t at;
    uint32_t partition;
    char job[];
};

/* The messages of one queue that are not small. */
struct intake {
    struct list waiting; /* operations of messages that are not read yet */
    size_t read_bytes;   /* of the messages that are read and not done */
};

/* An actor whose task queue this scheduler declares. */
struct actor {
    UT_hash_handle hh;
    char name[];
};

/* What a user, or the agents of an actor, may still take: see allowance.c. */
struct allowance {
    UT_hash_handle hh;
    int64_t at;   /* time at which `left` was computed */
    int64_t left; /* thousandths of units; below 0: overdrawn */
    int64_t told; /* time of the last alert that it was empty; 0: never */
    char key[];
};

struct scheduler {
    char *name;
    const struct access *access;
    struct rng rng;
    struct nonces nonces;
    uint32_t partitions; /* 0 until the store is connected for the first time */
    int64_t now;
    struct effects *out; /* of the present scheduler_step() */
    uint64_t last_id;
    struct list items;
    struct list *records; /* operations to record, for each partition ... */
    uint64_t n_records;   /* ... and their number in all */
    struct pace recording;
    struct heap timers;
    struct call *calls;
    struct publish *publishes;
    unsigned most_unconfirmed;
    bool transient;           /* requests are not persistent */
    char *json_actors;        /* names separated by a space */
    size_t unconfirmed_bytes; /* of the bodies without an outcome */
    struct list stalled;      /* operations whose requests wait for capacity */
    struct list batches;      /* they leave with the next flush */
    struct pace dispatching;
    struct service_time *service_times; /* oldest first */
    char incarnation[ID_TOKEN_LEN + 1]; /* random name of this process */
    struct actor *actors;               /* of registered workflows, and others ... */
    unsigned other_actors;              /* ... of which this number may still be added */
    struct allowance *allowances;       /* oldest first */
    int64_t bad_replies;                /* of an actor's agents, per second; 0: any number */
    int64_t horizon_ms;                 /* 0: none */
    int64_t alert_interval_ms; /* alerts of one cause within it are published once, and counted */
    unsigned full_at;          /* percent of the store's memory ... */
    bool store_full;           /* ... which is reached */
    struct intake intakes[SCHEDULER_SOURCES];
    size_t unread_bytes;    /* of large messages that wait */
    int64_t isolated_told;  /* time of the last alert ISOLATED; 0: never */
    bool consuming_stopped; /* too many of these bytes: nothing is consumed */
    struct list suspects;   /* operations of suspects that wait until ... */
    struct item *suspect;   /* ... this one is read or done; NULL: there is none */
    int64_t suspect_until;  /* time from which on it is no suspect any more */
    struct list watched;
    unsigned n_watched;
    int64_t inspection_began;        /* of the inspection in progress; 0: there is none */
    char inspected[ID_NAME_MAX + 1]; /* the actor whose queue it inspects; "": drover.dead */
    struct letters letters;
    struct definition *definitions; /* oldest first */
    size_t cached;                  /* bytes of memory that they take */
    struct asked *asked_causes;
    struct alert_group *alert_groups; /* the one whose interval ends first is first */
    char run[SCHEDULER_RUN_MAX + 1];  /* run id of the store's server */
    struct watermark *watermarks;     /* by partition */
    struct list accepted;
    unsigned n_accepted;
    uint64_t last_accepted;
    struct list gone;           /* jobs that are lost; reported at the end of the check */
    unsigned check;             /* number of the last check whether the store went back */
    unsigned checks;            /* operations of all checks that are not done ... */
    unsigned unanswered_checks; /* ... and calls without an answer */
    unsigned back;              /* partitions that went back ... */
    unsigned lost;              /* ... or were lost as a whole, found in this check */
    int64_t checked_at;         /* the store's time, as an answer has last shown it */
    struct workflow **registered;
    size_t n_registered;
    unsigned registering; /* of the registered, those not yet stored */
    bool register_again;  /* ... and then all once more: the store may have lost them */
    struct scheduler_stats stats;
};

/* ---- items and operations (scheduler.c) ---- */

/* A new item. @d: NULL if no delivery asks for it; else copied as far as it is needed. The
 * caller releases it by item_unref(). */
struct item *item_new(struct scheduler *s, const struct bus_delivery *d);
/* Releases one hold on the item. When the last is released the delivery is acknowledged. */
void item_unref(struct scheduler *s, struct item *item);

/* Reads a message and begins what it asks for. */
void item_handle(struct scheduler *s, struct item *item, const struct bus_delivery *d);

/* A new operation of an item, with a nonce of its own. @job: copied; it decides the partition.
 * The caller releases it by op_unref(). */
struct op *op_new(struct scheduler *s, struct item *item, const char *job);

/* A copy of a delivery, which outlives its callback; its body remains the item's. The caller
 * frees it by one free(). */
struct bus_delivery *delivery_copy(const struct bus_delivery *d, struct bytes body);

/* ---- allowances (allowance.c) ---- */

/* Whether a user may ask for something now. @user: "" is one of them. */
bool allowance_admits(struct scheduler *s, const char *user);
/* The same for a redelivered message, which may have been carried out: the user may overdraw the
 * bucket by as much as it holds. */
bool allowance_admits_again(struct scheduler *s, const char *user);
/* The user has taken this number of @units; or gives some back that were taken in advance. */
void allowance_spend(struct scheduler *s, const char *user, size_t units);
void allowance_give_back(struct scheduler *s, const char *user, size_t units);
/* Takes a definition of so many @bytes of the store from the user's allowance. Return: false if
 * the user may not add it now; then nothing is taken. */
bool allowance_takes_definition(struct scheduler *s, const char *user, size_t bytes);
/* Takes this number of @replies from the allowance of an actor's agents. Return: false if they
 * are not to be read; then nothing is taken. */
bool allowance_takes_replies(struct scheduler *s, const char *actor, size_t replies);
/* A step has waited for one reply of these agents: gives its unit back. */
void allowance_return_reply(struct scheduler *s, const char *actor);
/* Takes one Progress from the allowance of an actor's agents. Return: false if it is not to be
 * read. */
bool allowance_takes_progress(struct scheduler *s, const char *actor);
/* Takes a tenth of a unit for each of @n Progress that were not read. */
void allowance_extra_progress(struct scheduler *s, const char *actor, size_t n);
/* Whether to raise an alert that the agents send too much: at most one a minute. Notes the time. */
bool allowance_alert_due(struct scheduler *s, const char *actor);
/* The share of one partition in a limit of a user. @most: of all partitions; 0: no limit. */
int64_t allowance_share(const struct scheduler *s, int64_t most);
void allowances_free(struct scheduler *s);
#define ALLOWANCE_BYTES 4096 /* of a message, for one unit */
#define ALLOWANCE_DATA 500   /* units for a Query with data, until its cost is known */
#define ALLOWANCE_ITEMS 100  /* of an answer of the store, for one unit */
#define ALLOWANCE_SEARCH 25  /* units for a call that looked at as many jobs as it may */

/* ---- intake (intake.c) ---- */

/* Whether a delivery goes back to the broker instead of being read. */
bool intake_gives_back(struct scheduler *s, const struct bus_delivery *d);
/* A new item: counts its body if it is large. */
void intake_came(struct scheduler *s, struct item *item);
/* Reads a message now, or when there is capacity. @d: copied if it waits. */
void intake_read(struct scheduler *s, struct item *item, const struct bus_delivery *d);
/* The item is done: its bytes do not count any more. */
void intake_done(struct scheduler *s, const struct item *item);
/* Reads messages that wait, as far as there is capacity. */
void intake_go_on(struct scheduler *s);
/* The connection to the broker is lost: gives back the messages that wait. */
void intake_lost(struct scheduler *s);

/* ---- calls and publishes (scheduler.c) ---- */

/* Makes a store call now; the machine repeats it until the store has answered.
 * @call: appends the call to s->out. @answered: gets the answer. */
void op_call(struct scheduler *s, struct op *op, op_fn *call, op_answered_fn *answered);

/* Makes the present call again at a time. @when: the time. The caller must hold the operation
 * (op->open). */
void op_repeat_at(struct scheduler *s, struct op *op, int64_t when);

/* A new id for an EFFECT_STORE of this operation. */
uint64_t op_call_id(struct scheduler *s, struct op *op);

/* Releases one hold on the operation; op_new() returns it with one hold. The operation goes on,
 * or is done, when the last is released. */
void op_unref(struct scheduler *s, struct op *op);

/* Adds a record to those that leave together, at the pace of pace.h. */
void op_record(struct scheduler *s, struct op *op);

/* Publishes for an operation, which goes on when the outcome is known. Sets content type and
 * body. @body: NULL for none. @token: of a request, else NULL. Return: the message, for the
 * caller to address; valid until the next effect is added. */
struct bus_message *op_publish(struct scheduler *s, struct op *op, const ProtobufCMessage *body,
                               bool json, const char *token);

/* The same in its parts, for a message of several operations. @room: the most parts that it can
 * have. @bytes: of the body, for this part. */
struct publish *publish_new(struct scheduler *s, unsigned room);
/* Adds an operation, which waits for the outcome. @token: of a request, else NULL; copied.
 * @bytes: of the body, for this part. */
void publish_part(struct scheduler *s, struct publish *p, struct op *op, const char *token,
                  size_t bytes);
/* Adds the effect. @type: of the body; NULL for none. Return: as op_publish(). */
struct bus_message *publish_send(struct scheduler *s, struct publish *p,
                                 const ProtobufCMessageDescriptor *type, struct bytes body,
                                 bool json);

/* Gives a delivery back to the broker, for any scheduler, if a connection is lost and nothing of
 * it was begun. If that connection had delivered it the broker has it back already. */
void item_give_back(struct scheduler *s, struct item *item);

/* Gives a delivery up: publishes it to drover.dead with a reason, then acknowledges it, and
 * raises an alert. */
void item_dead(struct scheduler *s, struct item *item, const char *reason);

/* The same without the alert, if another alert is about the cause and is raised once for it. The
 * next inspection of drover.dead reports further dead letters. */
void item_dead_quietly(struct scheduler *s, struct item *item, const char *reason);

/* Sends an answer to the sender of the message, if it has named a reply queue. */
void op_reply(struct scheduler *s, struct op *op, const ProtobufCMessage *body);

/* ---- suspects (poison.c) ---- */

/* Adds a suspect, which is read when no other one is in progress. */
void suspects_add(struct scheduler *s, struct item *item, const struct bus_delivery *d);
/* The item was read. A suspect counts as survived MACHINE_SUSPECT_MS later. */
void suspects_read(struct scheduler *s, const struct item *item);
/* The item is done: the store deletes the records of the message. */
void suspects_done(struct scheduler *s, struct item *item);
/* The connection to the broker is lost: gives back all suspects that wait. */
void suspects_lost(struct scheduler *s);
/* Goes on to the next suspect if the present one has been survived. */
void suspects_tick(struct scheduler *s);

/* ---- registered workflows (scheduler.c) ---- */

/* Stores the registered workflows of this scheduler: whenever the store may have lost them. */
void workflows_register(struct scheduler *s);

/* ---- kinds of messages ---- */

void on_submit(struct scheduler *s, struct item *item, const struct bus_delivery *d);
/* Whether a message of replies is not to be read, because its agents send too much; logs that. */
bool replies_ignored(struct scheduler *s, const struct item *item);
void on_replies(struct scheduler *s, struct item *item);
void on_expired(struct scheduler *s, struct item *item, const struct bus_delivery *d);
void on_control(struct scheduler *s, struct item *item);

/* Records that a dispatch did not reach an agent: unstarted, unroutable, too large. @class and
 * @message: of the error, or NULL. */
void record_new(struct scheduler *s, struct item *item, enum op_kind kind, const char *job,
                const char *token, const char *class, const char *message);

/* Carries out the answer to record, drive, submit or steer: requests, alerts, notifications,
 * more (transition.c). @w: the definition of the job; NULL if it is not needed. */
void transition_apply(struct scheduler *s, struct op *op, const struct ops_transition *transition,
                      struct workflow *w);

enum dispatch_how {
    DISPATCH_ALONE,
    /* Sent before, so an outcome of this copy proves nothing; alone. */
    DISPATCH_AGAIN,
    DISPATCH_FIRST,   /* a first attempt, which may be sent in a batch */
    DISPATCH_WATCHED, /* follows one without evidence, or an expiry; alone */
};

/* ---- requests (dispatch.c) ---- */

/* Publishes one, alone or in a batch. @size: bytes of the request. @not_after: when its wait is
 * over. */
void dispatch(struct scheduler *s, struct op *op, Drover__V1__StepRequest *m, size_t size,
              int64_t not_after, enum dispatch_how how);
/* Publishes the batches, if it is time. */
void dispatch_flush(struct scheduler *s);
/* Whether a registered workflow of this scheduler names the actor. */
bool actor_is_registered(const struct scheduler *s, const char *actor);
void dispatch_free(struct scheduler *s);
/* ---- watched requests (watch.c) ---- */

/* A new one, owned by the caller until watch() takes it. @wait_ends: when its wait is over. */
struct watched *watched_new(const struct op *op, const char *token, const char *actor,
                            int64_t wait_ends);
struct watched *watched_free(struct watched *w);
/* The broker has confirmed the request: watches it from now on, and owns it. */
void watch(struct scheduler *s, struct watched *w);
/* The inspection in progress has found this number of ready messages and of consumers. */
void watch_answered(struct scheduler *s, uint32_t messages, uint32_t consumers);
/* The connection to the broker is lost, and with it all that is known of its queues. */
void watch_lost(struct scheduler *s);
/* Ends waits that are over and begins the next inspection; watch_next() is the time at which it
 * is needed next. */
void watch_tick(struct scheduler *s);
int64_t watch_next(const struct scheduler *s);
/* Records in the store, as evidence, that an agent had the request of this token. */
void evidence_record(struct scheduler *s, const char *job, const char *token);
/* (dispatch.c) Notes from a recorded reply how long its action took and how many requests the
 * agent takes. */
void service_time_note(struct scheduler *s, const struct workflow *w,
                       const Drover__V1__StepReply *m);

/* ---- events (event.c) ---- */

/* Publishes to drover.events under the key "<workflow>.<word>"; @w: NULL for none. Return: the
 * message, which the caller may change. */
struct bus_message *event_publish(struct scheduler *s, struct op *op, const Drover__V1__JobEvent *m,
                                  const struct workflow *w, const char *word);

/* Publishes an event on drover.events for each request of a transition. */
void step_events_publish(struct scheduler *s, struct op *op,
                         const struct ops_transition *transition, const struct workflow *w);

/* Publishes to reply_to the new entries of a job's history, if its client has asked for step
 * events. */
void step_events_to_client(struct scheduler *s, const char *job);

/* ---- alerts (alert.c) ---- */

/* Raises the alerts of a transition, each cause once. */
void alerts_raise(struct scheduler *s, const struct op *op, const struct ops_transition *transition,
                  struct workflow *w);
/* An alert from the outbox. alert_from_outbox() makes it op->alert, alert_publish() publishes it,
 * alert_event() fills in its event. @step: "<number> <1 for the undo, else 0>", or "". */
void alert_from_outbox(struct op *op, const struct ops_job *job, const char *step,
                       struct workflow *w);
void alert_publish(struct scheduler *s, struct op *op);
void alert_event(struct scheduler *s, Drover__V1__JobEvent *m, const struct op *op);
/* Ends the intervals of causes that are over; alert_next() is the time of the next end. */
void alert_tick(struct scheduler *s);
int64_t alert_next(const struct scheduler *s);
/* Ends all intervals now. */
void alert_stop(struct scheduler *s);
void alert_groups_free(struct scheduler *s);
void asked_free(struct scheduler *s);

/* drover.dead was inspected: one scheduler raises an alert about messages that no scheduler has
 * put there. */
void alert_letters(struct scheduler *s);
/* A message has become a dead letter for this reason. @job: "" if it is about none. */
void alert_dead(struct scheduler *s, const char *job, const char *reason);
/* Raises an alert at once, without asking the store. alert_once_a_minute(): unless @told, the
 * time of the last one, is less than a minute ago. alert_of_store(): as a part of @item; @at:
 * the store's time in ms. */
void alert_now(struct scheduler *s, const char *job, const char *reason);
/* Messages of this actor's agents were not read. */
void alert_ignored(struct scheduler *s, const char *actor);
void alert_once_a_minute(struct scheduler *s, int64_t *told, const char *job, const char *reason);
void alert_of_store(struct scheduler *s, struct item *item, const char *job, const char *reason,
                    int64_t at);
/* A sweep cannot read this job: one alert for as long as that goes on. @at: ms, as the
 * supervisor says. */
void alert_corrupt(struct scheduler *s, struct item *item, const char *job, int64_t at);

/* ---- rollback check (rollback.c) ---- */

/* Begins a check whether the store went back: on each new connection. */
void rollback_check(struct scheduler *s);
/* Compares the watermark in an answer with that remembered. */
void rollback_observe(struct scheduler *s, const struct op *op, uint64_t count);
/* Remembers a job whose client gets a Receipt. */
void rollback_accepted(struct scheduler *s, const struct op *op);
void rollback_free(struct scheduler *s);

/* ---- commands and questions ---- */

/* Carries out a command about one job (steer.c). */
void steer(struct scheduler *s, struct op *op);

/* Migrate (change.c). Puts the definition that a Migrate asks for into op->workflow, with the
 * steps numbered as in that of op->digest, which must be cached, and the steps that differ into
 * op->steps and op->differences. Stores it, then calls @then. Or answers why that is not possible.
 */
void migrate(struct scheduler *s, struct op *op, op_fn *then);

/* Whether a command gives a step other terms or other arguments. */
bool retry_changes(const Drover__V1__Control *m);

/* The names of the fields that it gives, for the history. */
const char *change_what(struct scheduler *s, const Drover__V1__Retry *m);

/* The same as migrate() for a Retry that changes the first of op->steps. @from: the definition
 * of the job. */
void change(struct scheduler *s, struct op *op, const struct workflow *from, op_fn *then);

/* Lists of jobs, over all partitions (list_jobs.c). */
void list_jobs(struct scheduler *s, struct op *op);

/* The history of a job, and the registered workflows (history.c, list_workflows.c). */
void history(struct scheduler *s, struct op *op);
void list_workflows(struct scheduler *s, struct op *op);

/* ---- transitions (transition.c) ---- */

/* A request has waited in this process: asks the store whether it is still wanted, and publishes
 * it then. */
void request_recheck(struct scheduler *s, struct item *item, const char *job, const char *token);

/* Publishes requests that waited for capacity, as many as it allows. */
void transition_resume_stalled(struct scheduler *s);

/* Reads an answer with a transition, loads the definition first if it is needed, then calls @fn. */
void transition_read(struct scheduler *s, struct op *op, struct ops_reader *r, transition_fn *fn);
/* Drives the job of an operation: calls the store function of that name. */
void drive(struct scheduler *s, struct op *op);

/* ---- notifications (notification.c) ---- */

/* Publishes a notification of the outbox, the end of a turn or an alert, and deletes it from the
 * outbox when the broker has confirmed it. @digest: of the job's definition, "" if not known. */
void notification_new(struct scheduler *s, struct item *item, const char *job, uint64_t seq,
                      const char *digest);
/* All publishes of the notification op->seq have their outcome. */
void notification_published(struct scheduler *s, struct op *op);

/* ---- definitions (definition.c) ---- */

/* The cached definition of a digest, owned by the cache; NULL if it is not cached. */
struct workflow *definition_find(struct scheduler *s, const char *digest);

/* The workflow of a Submit: from the cache, or checked and new. Return: as workflow_new(); *out
 * is a new reference, released by the caller. */
int definition_of(struct scheduler *s, const Drover__V1__Workflow *m, struct workflow **out,
                  struct problem *problem);
/* Adds a definition to the cache, with a reference of its own. */
void definition_keep(struct scheduler *s, struct workflow *w);
void definitions_free(struct scheduler *s);

/* Loads the definition op->digest, then calls `resume` with a copy of what @rest still holds. */
void definition_load(struct scheduler *s, struct op *op, const struct ops_reader *rest,
                     op_answered_fn *resume);

/* Stores op->workflow piece by piece, then calls @then (NULL: nothing). */
void definition_store(struct scheduler *s, struct op *op, op_fn *then);

/* ---- messages (answer.c) ---- */

/* Answers a Control with a code and a reason, and nothing else. */
void control_answer(struct scheduler *s, struct op *op, Drover__V1__AnswerCode code,
                    const char *reason);

/**
 * answer_fit() - make an answer fit into a message
 * @page: number of items of its page, a field of @m: halved until it fits; NULL if it has no page
 *
 * Return: false if it cannot fit; then TOO_LARGE was answered.
 */
bool answer_fit(struct scheduler *s, struct op *op, Drover__V1__Answer *m, size_t *page);

/* Reads the state of the job that a Control is about; the digest of its definition goes into
 * op->digest. Return: false if there is no such job, which was answered, or if the answer makes
 * no sense, which was logged. */
bool job_read(struct scheduler *s, struct op *op, struct ops_reader *r, struct ops_job *job);

/* Answers a Query with the state of a job and of its steps. */
void status_answer(struct scheduler *s, struct op *op, const struct ops_job *job,
                   const struct workflow *w);

/* Appends an encoded payload; nothing for NULL. */
void payload_append(struct buf *out, const Drover__V1__Payload *payload);
