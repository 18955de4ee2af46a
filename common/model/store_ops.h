// SPDX-License-Identifier: Apache-2.0
/*
 * Store operations: the C side of the store functions in common/store
 *
 * ops_<function>() appends one EFFECT_STORE to @fx, with the arguments of the store function of
 * that name. @id: of the effect, under which the answer comes back; @partition: of the job. Texts
 * and bytes that an operation points to must be valid until the effect is performed, except where a
 * comment says otherwise.
 *
 * ops_read_<answer>() decodes an answer. It returns 0, or -EPROTO if the answer is not one of this
 * library, except where a comment says otherwise. Members `struct bytes` of the result point into
 * the answer and are valid as long as it is; arrays are in the memory of @fx.
 *
 * Calls and answers are flat lists of strings; common/store/schema.txt says what stands where in
 * them, and what their letters mean. Called by the scheduler, the supervisor, the simulator, and
 * the command line for the subcommands that read the store.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "base/nonce.h"
#include "base/str.h"
#include "model/effect.h"
#include "model/store_schema.h"
#include "model/workflow.h"

/* Steps that one call touches at most; BUDGET of head.lua. */
#define OPS_BUDGET 250

/* The code of an answer. A code that this build does not know is OPS_BAD. */
enum ops_code {
    OPS_BAD, /* not an answer of this library: another build, or a bug */
    OPS_CREATED,
    OPS_ALREADY,
    OPS_CONFLICT,
    OPS_EXPIRED, /* the complete_by of a Submit has passed; nothing is recorded */
    OPS_RECORDED,
    OPS_DRIVEN,
    OPS_DONE,
    OPS_UNCHANGED,
    OPS_STALE,
    OPS_BEGUN,       /* a request came back although an agent has begun it; not recorded */
    OPS_OTHER_STEP,  /* a reply names another step of the job than its token; not recorded */
    OPS_NAME_TAKEN,  /* the definition in a Submit has the name of a registered workflow */
    OPS_TOO_FAR,     /* the start_at of a Submit is beyond the horizon */
    OPS_TOO_MANY,    /* the owner has as many jobs, or takes as many bytes, as it may */
    OPS_OTHER_ACTOR, /* agents of another actor have sent the reply; not recorded */
    OPS_DATA_FULL,   /* input and results of the job would exceed 64 MiB; not recorded */
    OPS_SUPERSEDED,
    OPS_WRONG_STATE,
    OPS_UNSUPPORTED,
    OPS_MOVED, /* the job has another definition by now: the caller starts over */
    OPS_UNKNOWN_JOB,
    OPS_UNKNOWN_WORKFLOW,
    OPS_UNKNOWN_DEFINITION,
    OPS_CODES_,
};

const char *ops_code_name(enum ops_code code);

/* ---- define ---- */

/**
 * ops_define() - store a piece of a definition
 * @piece:      0 for the first; each holds up to OPS_BUDGET steps
 * @registered: whether it can be found by name; else it is the definition that one Submit carries
 *
 * The answer is one word: DEFINED, MORE or CONFLICT.
 *
 * Return: true if this is the last piece.
 */
bool ops_define(struct effects *fx, uint64_t id, uint32_t partition, const struct workflow *w,
                uint32_t piece, bool registered);

/* ---- submit, record, drive, unsent, steer: answered by a transition ---- */

struct ops_submit_args {
    const char *job;
    const char *digest;     /* of the content of the Submit */
    const char *definition; /* digest of the definition that the Submit carries, or "" */
    const char *workflow;   /* "name" or "name@version", or "" */
    bool redelivered;       /* the answer contains again the requests that are in flight */
    const char *nonce;      /* the tokens of this call are made of it */
    const char *scheduler;  /* the name of the one that calls */
    bool active;            /* desired state: ACTIVE, else DISABLED */
    int64_t start_at;       /* Unix ms; 0 for at once */
    int64_t complete_by;    /* Unix ms; 0 for no deadline */
    const char *events;     /* "job", "step" or "reply" */
    uint32_t priority;
    const char *reply_to;
    const char *correlation;
    struct bytes input;  /* encoded Payload, empty for none */
    struct bytes labels; /* encoded Submit with only labels, empty for none */
    struct bytes index;  /* the labels as ops_label() appends them */
    const char *traceparent;
    const char *submitter; /* the user that has sent the Submit, as the broker says; "" for none */
    const char *owner;     /* a job with this id is the same one only if it is this user's; NULL for
                              any user */
    int64_t horizon;       /* ms from now in which start_at must be; 0 for no limit */
    int64_t most_jobs;     /* of the owner in this partition; 0 for no limit */
    int64_t most_bytes; /* that the jobs of the owner in this partition may take; 0 for no limit */
    bool json;          /* events of the job are JSON */
    bool batches;       /* several may share a message */
};

/* The label by which the jobs of one user are found. No label of a message has this name. */
#define OPS_OWNER_LABEL ""

/* Appends a label to @out in the form by which the store indexes jobs. */
void ops_label(struct buf *out, const char *name, const char *value);

/* The answer is for ops_read_transition(): CREATED or ALREADY, or why the Submit is refused. */
void ops_submit(struct effects *fx, uint64_t id, uint32_t partition,
                const struct ops_submit_args *op);

/* The name of an enum report_kind. Return: "ACTIVE" and so on; NULL if there is no such kind. */
const char *ops_report_kind_name(char kind);

struct ops_record_args {
    enum report_kind kind;
    const char *job;
    const char *token;
    bool redelivered; /* the answer contains again the requests that followed */
    char nonce[NONCE_LEN + 1];
    uint32_t jitter;     /* 0 to 999 999 millionths: the part of the jitter that is added */
    struct bytes result; /* encoded Payload */
    struct bytes error;  /* encoded Error */
    const char *class;   /* of the error */
    int64_t retry_after; /* ms; 0 for what the policy says */
    const char *step;    /* the name in the reply; NULL if it is no reply */
    const char *actor; /* whose agents have sent it, as the broker proves; NULL or "" if unknown */
    const char *agent; /* the name that the agent gives itself; NULL if unknown */
    bool no_effect;    /* it is proven that no run under this key has taken or will take effect */
};

/* @scheduler: the name of the one that calls. @records: all of jobs of @partition. The answer has
 * one transition for each of them, in the same order. */
void ops_record(struct effects *fx, uint64_t id, uint32_t partition, const char *scheduler,
                const struct ops_record_args *const *records, int n);

/* Drives a job on. @repeated: the same call may have been made before, so the answer contains again
 * the requests of the named steps that are in flight. @steps: those that expire has named. */
void ops_drive(struct effects *fx, uint64_t id, uint32_t partition, const char *job,
               const char *nonce, const char *scheduler, bool repeated, const uint32_t *steps,
               uint32_t n);

/* Asks whether requests that have waited in the scheduler and were never sent are still wanted; the
 * scheduler then sends those that are in the answer. @id: greater than that of any earlier call of
 * this process, because the store recognises by it a call that is carried out late. @tokens: at
 * most OPS_BUDGET. */
void ops_unsent(struct effects *fx, uint64_t id, uint32_t partition, const char *job,
                const char *nonce, const char *scheduler, const char *const *tokens, uint32_t n);

struct ops_steer_args {
    const char *job;
    /* enable disable cancel kill pause resume acknowledge retry change resolve migrate */
    const char *command;
    const char *command_id;
    int64_t issued_at;
    uint64_t if_seq;
    const char *reason;    /* who gives the command, one word, and why: "me@here too slow" */
    const char *scheduler; /* the name of the one that calls */
    const char *nonce;     /* the tokens of this call are made of it */
    /* The answer contains again the requests that this command caused and that are in flight. */
    bool redelivered;
    const char *definition; /* digest of the definition that the step numbers are of; "" if the
                               command names no steps */
    const char *owner;      /* the job is UNKNOWN_JOB if it is not this user's; NULL for any user */
    int64_t most_bytes; /* that the jobs of the owner in this partition may take; 0 for no limit */
    const uint32_t
        *steps;       /* retry: none for all; change, resolve: one; migrate: those that differ */
    uint32_t n_steps; /* at most OPS_BUDGET; migrate: MIGRATION_DIFFERING_MAX */
    const char *differences;   /* change, migrate: an enum difference for each step */
    char state;                /* resolve: an enum job_state; else 0 */
    struct bytes payload;      /* encoded: arguments of a change, result of a resolve */
    const struct workflow *to; /* change, migrate: the definition that the job gets; else NULL */
    const char *what;          /* change: the fields that it gives, for the history; else NULL */
    uint32_t n_gone;           /* migrate: the first n_gone of the steps are gone */
};

/* Carries out a command. The answer is for ops_read_transition(), then ops_read_refusal(). */
void ops_steer(struct effects *fx, uint64_t id, uint32_t partition,
               const struct ops_steer_args *op);

/* A dispatch to publish. */
struct ops_request {
    uint32_t step;
    bool active;  /* what the dispatch asks for: ACTIVE, else DISABLED */
    char current; /* enum job_state: of the step before the dispatch */
    uint32_t turn;
    uint32_t attempt;
    struct bytes token;
    int64_t locked_until; /* Unix ms */
    int64_t wait;         /* ms that the request may stand in its queue */
    uint32_t failures;
    uint32_t expiries;
    bool sent_before;        /* it was sent before: an agent may have begun it */
    uint32_t forward_turn;   /* the turn of the forward action that an undo takes back */
    struct bytes last_error; /* encoded Error */
    struct bytes arguments;  /* that a person has given; empty for those of the definition */
};

struct ops_result {
    uint32_t step;
    struct bytes payload;
};

struct ops_alert {
    uint32_t step; /* WORKFLOW_NONE if it is about the job as a whole */
    bool back;     /* it is about the undo of the step */
    struct bytes reason;
    /* Of its history entry. PARKED, DEADLINE, FAILED, COMPENSATED and COMPENSATION_FAILED are in
     * the outbox under it. */
    uint64_t seq;
};

struct ops_transition {
    enum ops_code code;
    struct bytes definition;  /* digest; empty if there is no such job */
    int64_t now;              /* the clock of the store, Unix ms */
    uint64_t seq;             /* of the last history entry of the job */
    uint64_t ended_seq;       /* seq of the notification, if this call has ended a turn; else 0 */
    bool more;                /* the budget is used up: drive when these requests are confirmed */
    bool publish_step_events; /* publish an event for each request on drover.events */
    bool client_has_step_events; /* ops_step_events() may have events for the client */
    uint32_t open;               /* steps that are not where the job wants them */
    uint32_t steps;
    uint64_t watermark; /* of the partition, if this call has moved it; else 0 */
    struct ops_alert *alerts;
    uint32_t n_alerts;
    struct ops_request *requests;
    uint32_t n_requests;
    struct bytes input;
    struct bytes labels;
    struct bytes traceparent;
    int64_t complete_by;
    struct ops_result *results;
    uint32_t n_results;
};

/* What a call is about, for logs; without payloads. */
struct ops_about {
    struct bytes job;
    int64_t step;       /* its number; -1 for none */
    struct bytes what;  /* what is reported, commanded or asked; empty if the function says it */
    struct bytes other; /* an alert cause or the digest of a message, if it is about no job */
};

/* Return: the number of the step, with which a token begins; -1 if it is not a token. */
int64_t ops_token_step(struct bytes token);

/* Return: the form of a token that logs and people see: the step and a digest, with which no reply
 * is possible. token_id() of dispatch.lua makes the same. */
const char *ops_token_id(struct effects *fx, const char *token);

/* Describes the arguments of a call. @i: of the reports of a record; 0 for other functions. Return:
 * false if there is no i-th. */
bool ops_about(const char *function, const struct bytes *args, int n, int i, struct ops_about *out);

/* The position in an answer. */
struct ops_reader {
    const struct bytes *items; /* the next one */
    uint32_t left;
    bool bad; /* an item was missing or not valid */
};

struct ops_reader ops_reader(const struct store_answer *answer);

/* Return: a value, or a word, that is one letter; 0 if it is not. */
char ops_letter(struct bytes text);

int ops_read_transition(struct ops_reader *r, struct effects *fx, struct ops_transition *out);

/* The part of an answer to steer that follows the transition. */
struct ops_refusal {
    char why[24];  /* why the command is refused; "-" if it is not */
    uint32_t step; /* because of which; WORKFLOW_NONE for none */
};

int ops_read_refusal(struct ops_reader *r, struct ops_refusal *out);

/* ---- inspect ---- */

void ops_inspect_definition(struct effects *fx, uint64_t id, uint32_t partition,
                            const char *digest);
/* @from, @count: numbers of the steps to read. @with_data: also input, results and errors. @owner:
 * the job is unknown if it is not this user's; NULL for any user. */
void ops_inspect_job(struct effects *fx, uint64_t id, uint32_t partition, const char *job,
                     uint32_t from, uint32_t count, bool with_data, const char *owner);

/* @seq:   of the notification
 * @limit: bytes of results in all
 * @steps: whose results to read; only the first OPS_BUDGET are read */
void ops_inspect_notification(struct effects *fx, uint64_t id, uint32_t partition, const char *job,
                              uint64_t seq, int64_t limit, const uint32_t *steps, uint32_t n);

struct ops_step {
    uint32_t step;
    struct bytes record;   /* for ops_read_step_record(); empty if no call has touched the step */
    struct bytes error;    /* encoded Error */
    struct bytes progress; /* "token limit fraction[@agent] note" */
    struct bytes result;   /* encoded Payload */
    struct bytes agent;    /* the one that has answered last */
};

/* Where events of a job go, as its client has asked. */
struct ops_address {
    struct bytes reply_to, correlation;
};

struct ops_job {
    int64_t now;
    struct bytes definition, current, desired, phase, outcome, reason, hold;
    uint32_t turn;
    uint64_t seq;
    uint32_t n, open;
    int64_t created, updated, start_at, complete_by;
    struct bytes locked_by;
    uint32_t notifications; /* how many tries to publish its notification have failed */
    uint32_t since;         /* the turn that its last change of direction began; 0 if never */
    struct bytes cause, ending;
    struct bytes failure;   /* because of which it does not get where it was to go: for
                               ops_read_failure() */
    struct bytes error;     /* encoded Error of that failure */
    struct bytes attention; /* what it needs a person for: for ops_read_attention() */
    uint32_t parked;        /* number of parked steps */
    int64_t next_try;       /* the next pass of the job, Unix ms; 0 for none */
    struct bytes waits_for; /* numbers of steps that are undone before a change is carried out */
    uint32_t failures;      /* how often a failure has kept the job from where it was to go */
    struct bytes workflow, submitter, labels, reply_to, correlation, traceparent;
    bool json;         /* events of the job are JSON */
    bool batches;      /* several may share a message */
    struct bytes held; /* "since who why" of its hold */
    struct bytes input;
    struct ops_step *steps; /* only of ops_read_job() */
    uint32_t n_steps;
    struct bytes failed; /* only of ops_read_notification(): numbers of the steps that have failed,
                            separated by spaces; for an alert that of its step and whether it is
                            about the undo, or nothing */
    struct ops_result *results; /* only of ops_read_notification(); an empty payload did not fit */
    uint32_t n_results;
    struct ops_address *earlier; /* only of ops_read_notification(): the addresses before
                                    `reply_to`, newest first */
    uint32_t n_earlier;
};

/* A query for jobs that were created at `before` and have an id below `before_id`, or that were
 * created earlier; newest first. */
struct ops_list_args {
    int64_t before; /* Unix ms; INT64_MAX for any time */
    const char *before_id;
    int64_t since;        /* Unix ms: no jobs that were created earlier */
    uint32_t limit;       /* jobs */
    const char *phase;    /* "" for any */
    const char *workflow; /* "name" or "name@version", "" for any */
    const char *needs;    /* "any", "parked", "deadline", "ended"; "" for all jobs */
    const char *class;    /* of the error because of which it needs attention, "" for any */
    const char *actor;    /* of the step because of which it needs attention, "" for any */
    const char *const *labels;
    const char *const *values;
    size_t n_labels;
};

void ops_inspect_jobs(struct effects *fx, uint64_t id, uint32_t partition,
                      const struct ops_list_args *op);

struct ops_listed {
    struct bytes id;
    struct ops_job job; /* without steps and data; a number of a corrupt job may be 0 instead */
};

struct ops_list {
    int64_t now;
    bool more;            /* there may be more jobs after `last` */
    int64_t last;         /* creation time of the last job that was checked */
    struct bytes last_id; /* its id */
    struct ops_listed *jobs;
    uint32_t n;
};

int ops_read_list(struct ops_reader *r, struct effects *fx, struct ops_list *out);

/* @from: number of the first entry wanted. @limit: entries. @owner: as of ops_inspect_job(). */
void ops_inspect_history(struct effects *fx, uint64_t id, uint32_t partition, const char *job,
                         uint64_t from, uint32_t limit, const char *owner);

struct ops_history {
    struct bytes definition; /* digest */
    uint64_t first;          /* number of the oldest entry that the store still keeps */
    bool more;               /* there are entries after these */
    struct bytes *entries;   /* "seq time event …" */
    uint32_t n;
};

/* Return: 0, 1 if there is no such job, or -EPROTO. */
int ops_read_history(struct ops_reader *r, struct effects *fx, struct ops_history *out);

/* Registered workflows whose "name@version" is greater than @after, in the order of their names. */
void ops_inspect_workflows(struct effects *fx, uint64_t id, uint32_t partition, const char *after,
                           uint32_t limit);

struct ops_workflow {
    struct bytes name; /* "name@version" */
    struct bytes digest;
    uint32_t steps;
};

struct ops_workflows {
    bool more;
    struct ops_workflow *items;
    uint32_t n;
};

int ops_read_workflows(struct ops_reader *r, struct effects *fx, struct ops_workflows *out);

/* @name: "name" for the newest version, or "name@version". The answer is for ops_read_definition().
 */
void ops_inspect_workflow(struct effects *fx, uint64_t id, uint32_t partition, const char *name);

/* Return: 0, 1 if there is no such job, or -EPROTO. */
int ops_read_job(struct ops_reader *r, struct effects *fx, struct ops_job *out);
int ops_read_notification(struct ops_reader *r, struct effects *fx, struct ops_job *out);

/* Return: 0 with the encoded Workflow in @out, 1 if there is no such definition, or -EPROTO. */
int ops_read_definition(struct ops_reader *r, struct bytes *out);

/* Unpacks a message that the store keeps; the caller frees it with
 * protobuf_c_message_free_unpacked(…, NULL). The process aborts if memory is out, because a message
 * without this part would say something else. Return: NULL if the bytes are empty or not valid. */
void *ops_unpack(const ProtobufCMessageDescriptor *descriptor, struct bytes encoded);
Drover__V1__Payload *ops_payload(struct bytes encoded);

/* The record of a step; job.lua and docs/ARCHITECTURE.md (The store) explain it. */
struct ops_step_record {
    char current; /* enum job_state; of a step in flight: its state before the dispatch */
    char asked;   /* enum job_state: by the last dispatch */
    char state;   /* enum step_state */
    uint32_t turn, attempt;
    char token[64];
    int64_t until; /* Unix ms: IN_FLIGHT LockedUntil, BACKING_OFF and PARKED the next try */
    uint32_t failures, expiries, waiting, unstarted;
    uint32_t since, forward; /* turns */
};

/* Return: 0 or -EPROTO. */
int ops_read_step_record(struct bytes text, struct ops_step_record *out);

/* The failure because of which a job does not get where it was to go: "name asked reason number
 * class" of a step, with "-" for each that there is none of. If the job could not be taken back
 * either, the failure of the way back follows a '|', and that one is read. */
struct ops_failure {
    struct bytes step;   /* its name; empty for none */
    char asked;          /* enum job_state: what the step was asked for */
    struct bytes reason; /* PERMANENT, EXHAUSTED, DEATHS, DEADLINE */
};

/* Return: 0 or -EPROTO. */
int ops_read_failure(struct bytes text, struct ops_failure *out);

/* What a job needs a person for (ops_job.attention): "kind since step actor class". */
struct ops_attention {
    struct bytes kind;               /* parked, deadline, ended */
    int64_t since;                   /* Unix ms */
    struct bytes step, actor, class; /* empty for none */
};

/* Return: 0 or -EPROTO. */
int ops_read_attention(struct bytes text, struct ops_attention *out);

/* ---- notifications, alert causes, dead letters ---- */

struct ops_notification_id {
    const char *job;
    uint64_t seq;
    int64_t at; /* Unix ms: when it was recorded. A store that went back may use a number again */
};

/* Deletes a notification from the outbox, after the broker has confirmed its event. */
void ops_settle_owed(struct effects *fx, uint64_t id, uint32_t partition,
                     const struct ops_notification_id *notification);

/**
 * ops_defer_owed() - put off the next try to publish a notification
 * @notification: its queue was gone, or the broker refused its event
 * @tries:        how many tries had failed before this one
 */
void ops_defer_owed(struct effects *fx, uint64_t id, uint32_t partition,
                    const struct ops_notification_id *notification, uint32_t tries);

/* What a scheduler says to the store about an alert cause. */
enum ops_cause {
    OPS_CAUSE_ASK,       /* asks whether the cause is new; if so, the scheduler must publish an
                            alert in a minute */
    OPS_CAUSE_PUBLISHED, /* the broker has confirmed the alert */
    OPS_CAUSE_OVER,      /* the cause has ended: the next alert is new again */
};

/* @nonce: of the operation that asks, so that it may repeat the call and get the same answer. */
void ops_alert_cause(struct effects *fx, uint64_t id, uint32_t partition, const char *cause,
                     enum ops_cause what, const char *nonce);

/* Reports that drover.dead has @there messages, and that the scheduler which calls has put @own
 * into it since its last such call. */
void ops_dead_letters(struct effects *fx, uint64_t id, uint32_t partition, uint64_t there,
                      uint64_t own);

/* Return: whether the cause is new, so that the caller must publish the alert. */
bool ops_read_alert_cause(struct ops_reader *r);

/* Return: the number of dead letters that no scheduler has put there and no alert has reported; the
 * caller must publish an alert about them. */
uint64_t ops_read_dead_letters(struct ops_reader *r);

/* ---- suspects ---- */

/* What a scheduler records about a suspect. */
enum ops_suspect {
    OPS_SUSPECT_BEGIN, /* it begins to read the message */
    OPS_SUSPECT_ALONE, /* likewise, and it reads no other one meanwhile */
    OPS_SUSPECT_BACK,  /* it is alive, and the broker gives the message to another scheduler */
    OPS_SUSPECT_END,   /* the message is handled: removes what all incarnations have recorded */
};

/* @digest: of the body of the message. @incarnation: of the process that calls, in hex. */
void ops_suspect(struct effects *fx, uint64_t id, uint32_t partition, const char *digest,
                 const char *incarnation, enum ops_suspect what);

/* Return: of OPS_SUSPECT_BEGIN, how many incarnations have begun the message, the caller's among
 * them; if there are others nothing was recorded, and the caller is to begin it alone. Of
 * OPS_SUSPECT_ALONE, how many have begun it alone; 0 if nothing was recorded, because another one
 * began it alone less than 200 ms ago: the caller asks again. */
uint32_t ops_read_suspect(struct ops_reader *r);

/* ---- rollback check ---- */

/**
 * ops_watermark() - read the watermark of a partition
 * @run:   run of the server that answers
 * @nonce: becomes the id of the watermark if the partition has none yet
 * @jobs:  ids of jobs that must be there, at most OPS_BUDGET
 */
void ops_watermark(struct effects *fx, uint64_t id, uint32_t partition, const char *run,
                   const char *nonce, const char *const *jobs, int n);

struct ops_watermark_answer {
    int64_t now;
    struct bytes id; /* of the watermark; if it is another one, the partition was lost */
    uint64_t count;  /* the watermark: jobs that were accepted plus turns that have ended */
    uint64_t count_at_run_start; /* the watermark when this run of the server was first met */
    struct bytes *missing_jobs;  /* those of the jobs that are not there, in the same order */
    uint32_t n_missing_jobs;
};

int ops_read_watermark(struct ops_reader *r, struct effects *fx, struct ops_watermark_answer *out);

/* ---- Progress and step events ---- */

/* What a Progress says. */
struct ops_progress {
    double fraction; /* of the work that is done, 0 to 1 */
    const char *note;
    const char *agent; /* the name that the agent gives itself; "" if it gives none */
    int64_t elapsed;   /* ms since the agent received the request; 0 if it does not say */
};

/* @actor: whose agents have sent the Progress, as the broker proves; "" if unknown */
void ops_renew(struct effects *fx, uint64_t id, uint32_t partition, const char *job,
               const char *token, const struct ops_progress *progress, const char *actor);

/* Records evidence: the request of this token left its queue before its wait was over. The answer
 * is a code. */
void ops_taken(struct effects *fx, uint64_t id, uint32_t partition, const char *job,
               const char *token);

struct ops_renewed {
    bool known;       /* the token is in flight */
    bool other_actor; /* the token is in flight, but agents of another actor have sent this */
    bool wanted;      /* the attempt is still wanted */
    int64_t locked_until;
    int64_t now;
    bool begins; /* it is the first Progress, and ops_step_events() has an event for it */
};

int ops_read_renewed(struct ops_reader *r, struct ops_renewed *out);

/* Reads the events of the steps of a job since the last such call: each is answered once. */
void ops_step_events(struct effects *fx, uint64_t id, uint32_t partition, const char *job);

struct ops_step_event {
    uint64_t seq;
    int64_t at;
    struct bytes event; /* dispatched, began, done, undone, failed or parked */
    uint32_t attempt;
    bool back;          /* it is about the undo of the step */
    struct bytes agent; /* its name; empty for none */
    struct bytes step;  /* its name */
    struct bytes error; /* encoded, without details; empty for none */
};

struct ops_step_events {
    int64_t now;
    uint32_t open;
    uint32_t steps;
    struct bytes workflow;
    struct bytes submitter;
    struct ops_address to;
    bool json;
    struct ops_step_event *events;
    uint32_t n;
};

/* Return: 0, -ENOENT if no client wants these events any more, or -EPROTO. */
int ops_read_step_events(struct ops_reader *r, struct effects *fx, struct ops_step_events *out);

/* ---- calls of supervisors ---- */

/* Asks for the lead of a partition. @who: the supervisor. @lease: ms; 0 gives the lead up. */
void ops_lead(struct effects *fx, uint64_t id, uint32_t partition, const char *who, int64_t lease);

struct ops_leading {
    bool leads;
    int64_t until; /* Unix ms: the end of the lead that was granted, or of another supervisor's */
    int64_t now;
};

int ops_read_leading(struct ops_reader *r, struct ops_leading *out);

/* What a supervisor knows of the store's clock, in the time of the store (Unix ms); 0 if unknown.
 */
struct ops_clock {
    int64_t latest; /* the clock can show at most this now; if it shows more it has jumped, and
                       expire checks no job */
    int64_t since;  /* since when the supervisor has watched the clock */
    int64_t jump;   /* the last jump forward that it has seen: ms, at most; 0 for none */
    int64_t after;  /* that jump was not before this time */
    int64_t at;     /* and not after this time */
};

/* Turns the last call in @fx, an expire, sweep or forget, into a dry run: the answer is the same,
 * and nothing is changed. */
void ops_dry_run(struct effects *fx);

/* @skip:         entries at the heads of the indexes `due` and `owed` to pass over. A dry run
 * passes over those that earlier calls have checked, because they stay there; otherwise 0
 * @limit:        entries of each index to check
 * @lease_factor: expire treats a lease as over only when this many times its length have passed
 *                since its end; usually 0 */
void ops_expire(struct effects *fx, uint64_t id, uint32_t partition, uint32_t skip, uint32_t limit,
                uint32_t lease_factor, const struct ops_clock *clock);

struct ops_due {
    struct bytes job;
    uint32_t expired; /* number of the steps whose dispatch has expired */
    uint32_t *steps;  /* all that are to be driven */
    uint32_t n;
};

/* A notification in the outbox. */
struct ops_notification {
    struct bytes job;
    uint64_t seq;
};

struct ops_expired {
    int64_t now;
    int64_t head; /* when the next job is due, Unix ms; 0 for none */
    bool more;    /* the supervisor calls again at once */
    bool back;    /* the clock has stepped back: the supervisor sweeps */
    struct ops_due *due;
    uint32_t n_due;
    struct ops_notification *notifications;
    uint32_t n_notifications;
};

int ops_read_expired(struct ops_reader *r, struct effects *fx, struct ops_expired *out);

#define OPS_LOST_CURSOR (ID_NAME_MAX + 24) /* bytes, including a NUL */

/* When a loss was recorded in a partition, and how far the jobs are that it concerns. All zero
 * begins; then it is that of the last answer, until its cursor is "" again. */
struct ops_loss {
    int64_t
        at; /* Unix ms; with the cursor "": recorded again, in case the store has forgotten it */
    char cursor[OPS_LOST_CURSOR];
};

/* Records that the broker may have lost the requests and replies of all dispatches that were made
 * more than @age ms ago, of one actor or of WIRE_ALL_ACTORS: expire then names them. It takes
 * several calls. */
void ops_lost(struct effects *fx, uint64_t id, uint32_t partition, const char *actor, int64_t age,
              const struct ops_loss *loss);

int ops_read_loss(struct ops_reader *r, struct ops_loss *out);

/* Deletes jobs that ended more than @retention ms ago, at most @limit. */
void ops_forget(struct effects *fx, uint64_t id, uint32_t partition, int64_t retention,
                uint32_t limit);

struct ops_forgotten {
    uint32_t jobs;                    /* that were deleted */
    bool more;                        /* the supervisor calls again at once */
    uint32_t parked, deadline, ended; /* jobs in the partition that need attention, by kind */
};

int ops_read_forgotten(struct ops_reader *r, struct ops_forgotten *out);

#define OPS_SWEEP_CURSOR (ID_NAME_MAX + 128) /* bytes, including a NUL */

/* Checks one unfinished job. @cursor: of the last answer; "" begins a round. */
void ops_sweep(struct effects *fx, uint64_t id, uint32_t partition, const char *cursor);

struct ops_swept {
    char cursor[OPS_SWEEP_CURSOR]; /* for the next call; "" if the round is over */
    struct bytes job;
    const struct bytes *mended; /* what was corrected in the job: "due", "open", "count:…" or the
                                   number of a step; or "torn" and why, if the job is corrupt */
    uint32_t n_mended;
};

int ops_read_swept(struct ops_reader *r, struct ops_swept *out);

/* ---- copies ---- */

/* Return: a deep copy of the rest of an answer, to be read later; the caller frees it with free().
 * NULL if memory is out. */
struct store_answer *ops_answer_copy(const struct ops_reader *rest);
