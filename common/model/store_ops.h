// SPDX-License-Identifier: Apache-2.0
/*
 * Store operations: the C side of common/store/drover.lua
 *
 * ops_*() append one EFFECT_STORE to a list of effects, with the arguments in the order in which
 * the function of that name reads them. read_*() take an answer apart in the order in which the
 * function wrote it. Both directions are flat lists of strings; this file and the Lua file are the
 * only two that know their order.
 *
 * Views in what is read point into the answer and live as long as it does; arrays live in the list
 * of effects that was passed along.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "base/nonce.h"
#include "base/str.h"
#include "model/effect.h"
#include "model/workflow.h"

/* Steps that one call touches at most; the library's BUDGET. */
#define OPS_BUDGET 250

/* How a store function answered; every role treats what it does not know as OPS_BAD. */
enum ops_code {
    OPS_BAD, /* not an answer of ours: another library, or a bug */
    OPS_CREATED,
    OPS_ALREADY,
    OPS_CONFLICT,
    OPS_EXPIRED, /* a Submit that comes when its complete_by has passed; nothing is recorded */
    OPS_RECORDED,
    OPS_DRIVEN,
    OPS_DONE,
    OPS_UNCHANGED,
    OPS_STALE,
    OPS_BEGUN,       /* a request that came back, and an agent has begun it; not recorded */
    OPS_OTHER_STEP,  /* a reply that names another step of the job than its token; not recorded */
    OPS_NAME_TAKEN,  /* a definition that came along has the name of a registered workflow */
    OPS_TOO_FAR,     /* a start_at beyond the horizon */
    OPS_TOO_MANY,    /* its owner has as many jobs, or takes as many bytes, as it may */
    OPS_OTHER_ACTOR, /* a reply that the agents of another actor have sent; not recorded */
    OPS_DATA_FULL,   /* input and results of the job would exceed 64 MiB; not recorded */
    OPS_SUPERSEDED,
    OPS_WRONG_STATE,
    OPS_UNSUPPORTED,
    OPS_MOVED, /* the job has another definition by now: what was read of it is old */
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
 * @registered: findable by name, or only the definition of an inline job
 *
 * Return: true where this is the last piece. The answer is one word: DEFINED, MORE or CONFLICT.
 */
bool ops_define(struct effects *fx, uint64_t id, uint32_t partition, const struct workflow *w,
                uint32_t piece, bool registered);

/* ---- submit, record, drive, steer: they answer alike ---- */

struct op_submit {
    const char *job;
    const char *digest;     /* of the submission */
    const char *definition; /* digest of an inline definition, or "" */
    const char *workflow;   /* "name" or "name@version", or "" */
    bool redelivered;
    const char *fresh; /* nonce: the tokens that this call mints are derived from it */
    const char *by;
    bool active; /* desired state */
    int64_t start_at;
    int64_t complete_by;
    const char *events; /* "job", "step" or "reply" */
    uint32_t priority;
    const char *reply_to;
    const char *correlation;
    struct bytes input;  /* encoded Payload, empty for none */
    struct bytes labels; /* a Submit with nothing but labels, empty for none */
    struct bytes index;  /* the labels as ops_label() writes them, one behind the other */
    const char *traceparent;
    const char *submitter; /* the user that has sent it, as the broker says; "" for none */
    const char *owner;     /* whose a job of this id must be, to be the same; NULL: any */
    int64_t horizon;       /* ms from now on in which it must start; 0: any */
    int64_t most_jobs;     /* that the owner may have in the partition; 0: any number */
    int64_t most_bytes;    /* likewise, that they take */
    bool json;             /* answer in JSON */
};

/* The label by which the jobs of one user are found. No label of a message has this name. */
#define OPS_OWNER_LABEL ""

/* Appends a label to a list of them, as the store finds jobs by them. */
void ops_label(struct buf *out, const char *name, const char *value);

void ops_submit(struct effects *fx, uint64_t id, uint32_t partition, const struct op_submit *op);

/* What a record says of a dispatch. */
enum op_kind {
    OP_ACTIVE = 'A', /* achieved that state */
    OP_DISABLED = 'D',
    OP_TRANSIENT = 'T', /* failures */
    OP_PERMANENT = 'P',
    OP_UNSENDABLE = 'L', /* likewise: the request is too large, and nobody has had it */
    OP_DEFERRED = 'F',
    OP_UNSTARTED = 'N',  /* nobody took the request in time */
    OP_REJECTED = 'J',   /* an agent rejected it, or a limit of its queue threw it out */
    OP_UNSENT = 'S',     /* it could not be sent in time: likewise, but no alert about agents */
    OP_UNROUTABLE = 'X', /* no queue took it */
    OP_REFUSED = 'K',    /* the broker refused it, or no queue took it when it was sent again */
};

/* "ACTIVE" and so on; NULL where there is no such one. */
const char *op_kind_name(char kind);

struct op_record {
    enum op_kind kind;
    const char *job;
    const char *token;
    bool redelivered;
    char fresh[NONCE_LEN + 1];
    uint32_t jitter;     /* 0 to 999 999: how much of the jitter to add */
    struct bytes result; /* encoded Payload */
    struct bytes error;  /* encoded Error */
    const char *class;
    int64_t retry_after;
    const char *step;  /* as the reply names it; NULL: no reply */
    const char *actor; /* whose agents have sent it, as the broker says; NULL or "": it does not */
    const char *agent; /* the one that has sent it, as it calls itself; NULL: nobody knows */
    bool no_effect;    /* proven: no run under this key has taken effect, nor ever will */
};

/* All of one partition. The answers stand one behind the other, in the same order. */
void ops_record(struct effects *fx, uint64_t id, uint32_t partition, const char *by,
                const struct op_record *const *records, int n);

/* @again: the same call was made before without an answer: requests of the named steps that are in
 * flight are asked for once more. */
void ops_drive(struct effects *fx, uint64_t id, uint32_t partition, const char *job,
               const char *fresh, const char *by, bool again, const uint32_t *steps, uint32_t n);

/* These requests were never sent, and have waited for so long that they are asked for again: as
 * many as the answer has are to be sent. @id: greater than that of any earlier call of this
 * process: the store tells a call that is carried out late by it. @tokens: at most OPS_BUDGET. */
void ops_unsent(struct effects *fx, uint64_t id, uint32_t partition, const char *job,
                const char *fresh, const char *by, const char *const *tokens, uint32_t n);

struct op_steer {
    const char *job;
    const char *command; /* enable disable cancel kill pause resume retry change resolve migrate */
    const char *command_id;
    int64_t issued_at;
    uint64_t if_seq;
    const char *reason; /* who gives the command, one word, and why: "me@here too slow" */
    const char *by;
    const char *fresh;      /* nonce: the tokens that this call mints are derived from it */
    bool redelivered;       /* what the same command has caused may not have been sent */
    const char *definition; /* digest of the one by which steps were numbered, "" where none are */
    const char *owner;      /* whose job it must be, or else it is unknown; NULL: any */
    int64_t most_bytes;     /* that the owner's jobs may take of the partition; 0: any number */
    const uint32_t
        *steps;       /* retry: none for all; change, resolve: one; migrate: those that differ */
    uint32_t n_steps; /* at most OPS_BUDGET; migrate: MIGRATION_DIFFERING_MAX */
    const char *hows; /* change, migrate: of each step, see enum migration_how */
    char state;       /* resolve: A or D; else 0 */
    struct bytes payload;      /* encoded: arguments of a change, result of a resolve */
    const struct workflow *to; /* change, migrate: what the job is to have; else NULL */
    const char *what;          /* change: the fields that it gives, for the history; else NULL */
    uint32_t n_gone;           /* migrate: so many of the steps, the first, are no more */
};

void ops_steer(struct effects *fx, uint64_t id, uint32_t partition, const struct op_steer *op);

/* One dispatch to publish. */
struct ops_request {
    uint32_t step;
    bool active;  /* desired by this dispatch */
    char current; /* A, D or U: known of the step before */
    uint32_t turn;
    uint32_t attempt;
    struct bytes token;
    int64_t locked_until;
    int64_t wait; /* ms it may wait for an agent */
    uint32_t failures;
    uint32_t expiries;
    bool again;            /* was sent before: somebody may be at work on it */
    uint32_t forward_turn; /* of the work that an undo takes back */
    struct bytes last_error;
    struct bytes arguments; /* those that a person gave it since; empty: the definition's */
};

struct ops_result {
    uint32_t step;
    struct bytes payload;
};

struct ops_alert {
    uint32_t step; /* or WORKFLOW_NONE: of the job as a whole */
    bool back;     /* of its undo */
    struct bytes reason;
    uint64_t seq; /* of the job's history; of PARKED and DEADLINE, under which it is owed */
};

struct ops_driven {
    enum ops_code code;
    struct bytes definition; /* digest; empty where the job is not known */
    int64_t now;
    uint64_t seq;     /* of the last thing recorded of the job */
    uint64_t settled; /* seq of the settling that this call made, 0 for none */
    bool more;        /* drive again when these requests are confirmed */
    bool step_events; /* each request is told on drover.events */
    bool steps_heard; /* its client is told of what ops_step_events() reads */
    uint32_t open;
    uint32_t steps;
    uint64_t mark; /* of the partition, after what this call accepted or settled; 0: nothing */
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

/* For people: what a call is about, without anything that a job carries. */
struct ops_about {
    struct bytes job;
    int64_t step;      /* its number, -1 where it is about none */
    struct bytes what; /* what is reported, commanded, or asked; empty where the function says it */
    struct bytes other; /* what is no job: a cause of alerts, the digest of a message */
};

/* The number of its step, which a token begins with; -1 where it is none. */
int64_t ops_token_step(struct bytes token);

/* What logs and people see of a token: the step and a digest, with which nobody can answer. As the
 * library's token_id() has it. */
const char *ops_token_id(struct effects *fx, const char *token);

/* @i: a record has several. Return: false where there is no such one. */
bool ops_about(const char *function, const struct bytes *args, int n, int i, struct ops_about *out);

/* Where reading stands in an answer. */
struct ops_reader {
    const struct bytes *items;
    uint32_t left;
    bool bad;
};

struct ops_reader ops_reader(const struct store_answer *answer);

/* Return: 0, or -EPROTO where the answer is not one of ours. */
int ops_read_driven(struct ops_reader *r, struct effects *fx, struct ops_driven *out);

/* What follows in the answer to a command: why it is refused, "-" where it is not. */
struct ops_refusal {
    char why[24];
    uint32_t step; /* or WORKFLOW_NONE */
};

int ops_read_refusal(struct ops_reader *r, struct ops_refusal *out);

/* ---- inspect ---- */

void ops_inspect_definition(struct effects *fx, uint64_t id, uint32_t partition,
                            const char *digest);
/* @owner: whose job it must be, or else it is unknown; NULL: any. So it is below. */
void ops_inspect_job(struct effects *fx, uint64_t id, uint32_t partition, const char *job,
                     uint32_t from, uint32_t count, bool with_data, const char *owner);

/* @seq:   of the settling that is to be told
 * @steps: whose results to read, up to @limit bytes in all; the first OPS_BUDGET are tried. */
void ops_inspect_notice(struct effects *fx, uint64_t id, uint32_t partition, const char *job,
                        uint64_t seq, int64_t limit, const uint32_t *steps, uint32_t n);

struct ops_step {
    uint32_t step;
    struct bytes record;   /* empty: untouched */
    struct bytes error;    /* encoded Error */
    struct bytes progress; /* "token limit fraction[@agent] note" */
    struct bytes result;   /* encoded Payload */
    struct bytes agent;    /* that has answered last */
};

/* A queue that hears of a job, as its submitter has named it. */
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
    uint32_t notices; /* tries of the notice so far */
    uint32_t since;   /* the turn in which it was turned; 0: never */
    struct bytes cause, ending;
    struct bytes failure;   /* what has decided that it does not succeed, or is not taken back:
                               ops_read_failure() */
    struct bytes error;     /* ... and the encoded Error of that step */
    struct bytes attention; /* what a person is needed for: "kind since step actor class" */
    uint32_t parked;        /* steps */
    int64_t next_try;       /* of the whole job; 0: none */
    struct bytes waits_for; /* numbers of steps that are undone before a change is carried out */
    uint32_t failures;      /* of the whole job */
    struct bytes workflow, submitter, labels, reply_to, correlation, traceparent;
    bool json;
    struct bytes held; /* since when it is on hold, who has put it there, and why */
    struct bytes input;
    struct ops_step *steps; /* inspect job */
    uint32_t n_steps;
    struct bytes failed; /* inspect notice: numbers of steps, with spaces between; of an alert
                            that of its step, and whether it is of its undo, or nothing */
    struct ops_result *results; /* likewise; an empty payload did not fit */
    uint32_t n_results;
    struct ops_address *earlier; /* likewise: before `reply_to`, the newest first */
    uint32_t n_earlier;
};

/* Jobs created at `before` with an id below `before_id`, or earlier; newest first. */
struct op_list {
    int64_t before; /* INT64_MAX: any time */
    const char *before_id;
    int64_t since;
    uint32_t limit;
    const char *phase;    /* "" for any */
    const char *workflow; /* "name" or "name@version", "" for any */
    const char *needs;    /* "any", "parked", "deadline", "ended"; "" for all jobs */
    const char *class;    /* of the error that it needs a person for, "" for any */
    const char *actor;    /* likewise */
    const char *const *labels;
    const char *const *values;
    size_t n_labels;
};

void ops_inspect_jobs(struct effects *fx, uint64_t id, uint32_t partition,
                      const struct op_list *op);

struct ops_listed {
    struct bytes id;
    struct ops_job job; /* without steps and data */
};

struct ops_list {
    int64_t now;
    bool more; /* beyond `last` */
    int64_t last;
    struct bytes last_id;
    struct ops_listed *jobs;
    uint32_t n;
};

int ops_read_list(struct ops_reader *r, struct effects *fx, struct ops_list *out);

void ops_inspect_history(struct effects *fx, uint64_t id, uint32_t partition, const char *job,
                         uint64_t from, uint32_t limit, const char *owner);

struct ops_history {
    struct bytes definition; /* digest */
    uint64_t first;          /* of what is kept */
    bool more;               /* there are entries behind these */
    struct bytes *entries;   /* "seq time event …" */
    uint32_t n;
};

/* Return: 0, 1 where there is no such job, or -EPROTO. */
int ops_read_history(struct ops_reader *r, struct effects *fx, struct ops_history *out);

/* Those whose "name@version" comes behind @after. */
void ops_inspect_workflows(struct effects *fx, uint64_t id, uint32_t partition, const char *after,
                           uint32_t limit);

struct ops_workflow {
    struct bytes name; /* with its version */
    struct bytes digest;
    uint32_t steps;
};

struct ops_workflows {
    bool more;
    struct ops_workflow *items;
    uint32_t n;
};

int ops_read_workflows(struct ops_reader *r, struct effects *fx, struct ops_workflows *out);

/* By "name" (the newest) or "name@version"; answers like ops_inspect_definition(). */
void ops_inspect_workflow(struct effects *fx, uint64_t id, uint32_t partition, const char *name);

/* Return: 0, 1 where there is no such job, or -EPROTO. */
int ops_read_job(struct ops_reader *r, struct effects *fx, struct ops_job *out);
int ops_read_notice(struct ops_reader *r, struct effects *fx, struct ops_job *out);

/* Return: 0 and the stored bytes, 1 where there is no such definition, or -EPROTO. */
int ops_read_definition(struct ops_reader *r, struct bytes *out);

/* A message as the store keeps it, for protobuf_c_message_free_unpacked(…, NULL). Out of memory
 * aborts, as with effects: what is sent without it would be something else. Return: NULL for empty
 * or broken bytes. */
void *ops_unpack(const ProtobufCMessageDescriptor *descriptor, struct bytes encoded);
Drover__V1__Payload *ops_payload(struct bytes encoded);

/* A step's record in the job, see the Lua file. */
struct ops_step_record {
    char current; /* A, D, U; in flight: what was known before */
    char asked;
    char state; /* W, R, B, M, P, F */
    uint32_t turn, attempt;
    char token[64];
    int64_t till;
    uint32_t failures, expiries, waiting, unstarted;
    uint32_t since, forward; /* turns */
};

/* Return: 0 or -EPROTO. */
int ops_read_step_record(struct bytes text, struct ops_step_record *out);

/* What has decided that a job does not get to where it was to go: "name asked reason number class"
 * of a step, or with "-" for what there is none of; behind a bar what has decided that it is not
 * taken back, which goes before. */
struct ops_failure {
    struct bytes step;   /* its name; empty for none */
    char asked;          /* of it: A, D */
    struct bytes reason; /* PERMANENT, EXHAUSTED, DEATHS, DEADLINE */
};

/* Return: 0 or -EPROTO. */
int ops_read_failure(struct bytes text, struct ops_failure *out);

/* What a person is needed for: ops_job.attention. */
struct ops_attention {
    struct bytes kind; /* parked, deadline, ended */
    int64_t since;
    struct bytes step, actor, class; /* empty where there is none */
};

/* Return: 0 or -EPROTO. */
int ops_read_attention(struct bytes text, struct ops_attention *out);

/* ---- the rest ---- */

struct op_notice {
    const char *job;
    uint64_t seq;
};

void ops_settle_owed(struct effects *fx, uint64_t id, uint32_t partition,
                     const struct op_notice *notices, int n);

/* What is said of a cause of alerts. */
enum ops_cause {
    OPS_CAUSE_ASK,  /* is it news? then whoever asks is to tell, within a minute */
    OPS_CAUSE_TOLD, /* the alert is confirmed */
    OPS_CAUSE_OVER, /* the next one is news again */
};

/* @fresh: of whoever asks, so that he may ask again. */
void ops_told(struct effects *fx, uint64_t id, uint32_t partition, const char *cause,
              enum ops_cause what, const char *fresh);

/* drover.dead has `there` messages, of which the caller has put `own` there since it said so last.
 */
void ops_letters(struct effects *fx, uint64_t id, uint32_t partition, uint64_t there, uint64_t own);

/* Return: whether what was asked about is news. */
bool ops_read_told(struct ops_reader *r);

/* Return: how many messages are news, and the caller's to tell. */
uint64_t ops_read_letters(struct ops_reader *r);

/* What a process tells of a message that was delivered before. */
enum ops_suspect {
    OPS_SUSPECT_BEGIN, /* it is about to deal with it */
    OPS_SUSPECT_BACK,  /* the message goes to somebody else, but this process lives */
    OPS_SUSPECT_END,   /* it was dealt with */
};

/* @digest: of the body. @life: of the process; another one after each start, in hex. */
void ops_suspect(struct effects *fx, uint64_t id, uint32_t partition, const char *digest,
                 const char *life, enum ops_suspect what);

/* Return: the lives that have begun it and did not tell how that ended, the caller's among them; 0:
 * nothing is noted, as one of them has begun it just now: ask again. */
uint32_t ops_read_suspect(struct ops_reader *r);

/**
 * ops_mark() - what a partition shows of how far it had come
 * @run:   of the server that answers
 * @fresh: the mark's id, where it has none yet
 * @jobs:  ids of jobs that ought to be there, at most OPS_BUDGET
 */
void ops_mark(struct effects *fx, uint64_t id, uint32_t partition, const char *run,
              const char *fresh, const char *const *jobs, int n);

struct ops_marked {
    int64_t now;
    struct bytes id;    /* another one: it was lost whole, and made anew */
    uint64_t count;     /* of what was accepted, and of what was settled */
    uint64_t began;     /* what it was when the server's run began */
    struct bytes *gone; /* of the jobs, in the same order */
    uint32_t n_gone;
};

int ops_read_marked(struct ops_reader *r, struct effects *fx, struct ops_marked *out);

/* @agent:   which one, as it calls itself; "": it does not
 * @elapsed: ms since the agent got the request, 0: it does not say.
 * @actor:   whose agents have sent it, as the broker says; "": it does not
 * Answers: code, wanted, locked_until, now. */
void ops_renew(struct effects *fx, uint64_t id, uint32_t partition, const char *job,
               const char *token, double fraction, const char *agent, const char *note,
               int64_t elapsed, const char *actor);

/* Evidence: the request of this token left its queue while it could be delivered. Answers a code.
 */
void ops_taken(struct effects *fx, uint64_t id, uint32_t partition, const char *job,
               const char *token);

struct ops_renewed {
    bool known;       /* the token is in flight */
    bool other_actor; /* it is, and the agents of another actor have sent this */
    bool wanted;
    int64_t locked_until;
    int64_t now;
    bool begins; /* ops_step_events() has this to tell */
};

int ops_read_renewed(struct ops_reader *r, struct ops_renewed *out);

/* What has happened at the steps of a job since this was asked last: each is answered once. */
void ops_step_events(struct effects *fx, uint64_t id, uint32_t partition, const char *job);

struct ops_step_event {
    uint64_t seq;
    int64_t at;
    struct bytes event; /* dispatched, began, done, undone, failed or parked */
    uint32_t attempt;
    bool back;          /* of its undo */
    struct bytes agent; /* empty where there is none */
    struct bytes step;
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

/* Return: 0, -ENOENT where nobody wants to hear of it any more, or -EPROTO. */
int ops_read_step_events(struct ops_reader *r, struct effects *fx, struct ops_step_events *out);

/* @lease: ms; 0 gives the lead up. Answers LEADS or FOLLOWS. */
void ops_lead(struct effects *fx, uint64_t id, uint32_t partition, const char *who, int64_t lease);

struct ops_leading {
    bool leads;
    int64_t until;
    int64_t now;
};

int ops_read_leading(struct ops_reader *r, struct ops_leading *out);

/* What a supervisor knows of the store's clock, in store time; all 0: nothing. */
struct op_clock {
    int64_t latest; /* what it can show by now; past that it has jumped, and nothing is looked at */
    int64_t since;  /* when that was first known */
    /* the last jump ahead that it has seen: */
    int64_t jump;  /* ms, at most; 0: none */
    int64_t after; /* it was not before ... */
    int64_t at;    /* ... nor after */
};

/* Makes the last of these, an expire, sweep or forget, answer as it would, and change nothing. */
void ops_look(struct effects *fx);

/* @skip: of what is due, which after that was looked at is due no more; usually 0.
 * @hold: how many times its length a lease may be past before it is given up; usually 0. */
void ops_expire(struct effects *fx, uint64_t id, uint32_t partition, uint32_t skip, uint32_t limit,
                uint32_t hold, const struct op_clock *clock);

struct ops_due {
    struct bytes job;
    uint32_t expired; /* so many of the steps have; the others are only named */
    uint32_t *steps;
    uint32_t n;
};

struct ops_owed {
    struct bytes job;
    uint64_t seq;
};

struct ops_expired {
    int64_t now;
    int64_t head; /* when the next job is due, 0 for none */
    bool more;    /* call again at once */
    bool back;    /* the clock has stepped back: sweep */
    struct ops_due *due;
    uint32_t n_due;
    struct ops_owed *owed;
    uint32_t n_owed;
};

int ops_read_expired(struct ops_reader *r, struct effects *fx, struct ops_expired *out);

void ops_forget(struct effects *fx, uint64_t id, uint32_t partition, int64_t retention,
                uint32_t limit);

struct ops_forgotten {
    uint32_t jobs;
    bool more;
    uint32_t parked, deadline, ended; /* jobs that need a person for that */
};

int ops_read_forgotten(struct ops_reader *r, struct ops_forgotten *out);

#define OPS_SWEEP_CURSOR (ID_NAME_MAX + 128) /* bytes, with a NUL */

/* @cursor: "" begins a round. */
void ops_sweep(struct effects *fx, uint64_t id, uint32_t partition, const char *cursor);

struct ops_swept {
    char cursor[OPS_SWEEP_CURSOR]; /* where to go on; "": the round is over */
    struct bytes job;
    const struct bytes
        *mended; /* in the job: "due", "open", "count:…", or the number of a step; "torn", why */
    uint32_t n_mended;
};

int ops_read_swept(struct ops_reader *r, struct ops_swept *out);

/* ---- what drivers need ---- */

/* A deep copy of an answer, so that it can be read later; free() releases it. NULL: no memory. */
struct store_answer *ops_answer_copy(const struct ops_reader *rest);
