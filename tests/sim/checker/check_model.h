// SPDX-License-Identifier: Apache-2.0
/*
 * The checker's own model of every job, and what its parts share
 *
 *     check.c          calls, and what must be true at rest
 *     check_history.c  moves the model along the store's history: allowed moves of steps and turns
 *     check_records.c  compares records and indexes with the model
 *     check_bus.c      messages that are published, and what clients receive
 *     check_acks.c     acknowledgements
 *     check_effects.c  the effects of handlers
 *     check_answers.c  answers about histories and lists of jobs
 */
#pragma once

#include <uthash.h>

#include "base/id.h"
#include "checker/check.h"
#include "model/store_ops.h"
#include "model/wire.h"

#define CONTINUED_MS 1000 /* a cursor is continued within that time, see save.lua */
#define QUIET_MS                                                                                   \
    60000       /* in which nothing expires after a time without supervisors, see clock.lua */
#define BIG 200 /* steps, from which on not every call is followed by a full comparison */
#define COMMANDS_KEPT 16 /* with their answers, see steer.lua */

/* The effects of a message or a store call. */
struct cause {
    struct token *minted; /* newest first */
};

/* One dispatch. */
struct token {
    char id[32]; /* as the history names it */
    struct job *job;
    const struct workflow *w; /* the job's definition when it was minted */
    uint32_t step;
    bool back;        /* it asks for DISABLED */
    uint32_t turn;    /* of its key */
    uint32_t forward; /* in the key of the work that it takes back */
    uint32_t attempt;
    int64_t minted;      /* store time */
    int64_t granted;     /* likewise: when its time began, minted or sent again */
    int64_t wait_until;  /* store time: no agent may take the request later */
    int64_t wait_ends;   /* the same in the world's time; 0: unknown */
    bool too_late;       /* wait_until was past when the store's clock stepped back */
    int64_t until;       /* store time: the end of its lease in the store */
    int64_t ends;        /* the same in the world's time; 0: unknown */
    uint32_t jumps;      /* of the store's clock, from the first with over QUIET_MS left */
    bool set_back;       /* that clock stepped back, perhaps unnoticed */
    int64_t back_at;     /* the earliest time that it stepped back to; 0: it has not */
    int64_t unseen;      /* ms of jumps forward that were too small to be noticed */
    int64_t longer;      /* ms by which a jump has extended the lease beyond its record */
    struct cause led_to; /* by the message that ended it: */
    char ended_by;       /* enum report_kind; 0: not ended by a record */
    struct token *older; /* of the same cause */
    int64_t at;          /* the world's time of the call that minted it */
    const bool *heard;   /* whether the process that made that call has its answer; NULL: no */
    const char *by;      /* the name of that process */
    bool went_back; /* the store went back since: it may have forgotten copies of the request */
    bool published; /* the broker has confirmed, returned or refused the request */
    bool routed;    /* the broker has a copy of it */
    bool copied;    /* it was sent once more */
    /* the call that has it sent again because the broker may have lost it; NULL: none */
    const struct cause *resent_by;
    bool resent;          /* the broker has confirmed, returned or refused that copy */
    bool begun;           /* an agent has begun it, or has said so */
    uint64_t reported_by; /* the agent's connection of its last Progress; 0: none */
    bool delivered;       /* it was delivered, or lost by the broker, */
    bool taken;           /* and the store knows from a scheduler that it left its queue */
    bool reported;        /* the store has Progress of it */
    int64_t given_ends;   /* `ends` as the dispatch has set it */
    int64_t left;         /* until the deadline if that limits it; else 0 */
    int64_t most_left;    /* the same when it was minted */
    int64_t run_ends;     /* the world's time of the end of the first run's lease */
    int64_t run_at;       /* that of its begin */
    int64_t reported_at;  /* that of the last report that the store has */
    bool effect;          /* a handler has succeeded */
    bool recorded;        /* a reply with it was recorded */
    bool lied;            /* a reply with it may be false */
    bool decided;         /* a record of it was called */
    bool given_up;        /* its reply may be lost, or was poison: it is left to its lease */
    UT_hash_handle hh;
};

struct step {
    struct token *flying; /* NULL: not in flight */
    struct token *last;   /* of the last dispatch; NULL: none yet */
    char current;         /* what was known when it was last at rest: A, D or U */
    bool back;            /* the last dispatch asked for DISABLED */
    uint32_t turn;        /* in the key of the last dispatch */
    uint32_t forward;     /* in the key of the last dispatch that asked for ACTIVE */
    uint32_t undo;        /* in that of the last one that asked for DISABLED; 0: none */
    uint32_t attempt;
    uint32_t came_back; /* of the attempts: requests that no agent took, probably */
    uint32_t failures, expiries;
    struct {
        uint32_t failures, expiries, since;
    } forgiven; /* by a Retry of all, in the turn `since`; a job that turns may forget the Retry */
    int64_t not_before; /* store time of the earliest next try after a failure */
    int64_t not_after;  /* the same for the latest; 0: unknown */
    bool parked;
    uint64_t failed; /* for good: seq of that entry; 0: it has not failed */
    bool replaced;   /* by a migration; what its requests may have done must be undone */
    bool renewed;    /* its tries were used up when the job turned: the next one begins anew */
    bool anew;       /* perhaps: it was at rest at a Retry of all, or came to rest meanwhile */
    char parked_for[16];
    bool round;          /* its last dispatch was to end a silence */
    bool alerted;        /* it was parked since the job last turned, and has not succeeded since */
    bool restarted;      /* perhaps: by a Retry of all, after which it does not count as parked */
    bool stored_at_rest; /* the store's record shows it at rest */
    struct handler_effect *effects_seen; /* newest first */
    bool lied;                           /* its record may be false: the effects may be others */
    bool by_hand;                        /* a person has done it, or says so */
};

/* One command, by the id that its sender gave it. */
struct order {
    const char *of; /* "<job> <id>" */
    struct cause led_to;
    bool decided;  /* the store was asked to carry it out, and has done so or refused */
    bool refused;  /* its sender was told that it cannot be carried out */
    bool answered; /* the broker has an Answer to it */
    bool given_up; /* a copy of it was poison, or may be lost */
    UT_hash_handle hh;
};

/* One call that lets the job go on. */
struct drive {
    struct drive *older;
    struct cause led_to;
    int64_t at;        /* the world's time */
    const bool *heard; /* see struct token */
    const char *by;
    uint32_t *steps; /* the steps that it names */
    uint32_t n_steps;
};

/* A definition that a job has had. */
struct version {
    struct version *older;
    struct workflow *w;
    bool registered; /* under its name */
};

/* The end of a turn, or an alert about a job: a notification. */
struct ending {
    struct ending *older;
    uint64_t seq;
    char outcome[24]; /* ALERT: no end */
    uint32_t step;    /* of the alert; WORKFLOW_NONE: it is about the job */
    bool in_outbox;
    bool published; /* the broker has it */
    bool received;  /* the client has it */
    bool excused;   /* the broker has lost a copy that it had taken */
};

struct job {
    const char *id;
    struct {
        const char *job, *data, *hist;
    } keys;                   /* in the store */
    struct workflow *w;       /* the present one */
    struct version *version;  /* the present one, in: */
    struct version *versions; /* all that it ever had, newest first; this list owns them */
    uint64_t migrated;        /* seq of the last migration, 0: none */
    bool changing;            /* a change waits until steps are undone */
    uint32_t partition;
    int64_t start_at;
    bool has_deadline;
    struct cause submitted;
    struct drive *drives; /* newest first */
    bool receipted;       /* the broker has a Receipt for it */
    bool created;
    bool begun;         /* stays true, whatever the clock shows */
    bool expired;       /* its Submit came too late */
    bool taken;         /* another Submit has the same id */
    const char *digest; /* of the Submit that has created it */
    bool refused;  /* at least once: its workflow was not registered yet, or the store was full */
    bool accepted; /* the client knows that it was accepted */
    bool given_up; /* a copy of its Submit was poison, or may be lost */
    bool lost;     /* the store went back to before it was created */
    bool back;     /* its direction */
    uint32_t turn;
    uint32_t since;  /* the turn in which it last changed its direction */
    uint32_t epoch;  /* the turn in which its join counters were last counted */
    char cause[16];  /* why it goes back */
    int64_t ordered; /* when the last command that turned it was issued; 0: it did not say */
    uint32_t tried;  /* passes after the first, since a command last turned it */
    char hold[16];
    bool late;     /* past its deadline, and no command has resumed it since */
    bool ending;   /* it is to end as it is */
    bool retrying; /* a Retry of all is not finished */
    char due[64];  /* the entry that must come next; "?": the checker cannot tell */
    bool settled;
    int64_t settled_at; /* store time */
    uint64_t attention; /* seq of the last entry of this kind, 0: none */
    char trouble[24];   /* the outcome in that entry */
    bool troubled;      /* the last turn has ended with that outcome */
    bool acknowledged;
    bool
        decided[2]; /* a failure has decided the direction or the end of the job: [forward, back] */
    uint32_t decider[2]; /* the step that failed, WORKFLOW_NONE for none */
    struct ending *last;
    struct ending *alerts;
    struct ending
        *undone; /* notifications that the store has forgotten; the client may still receive them */
    const char *commands[COMMANDS_KEPT]; /* ids of the last ones that were answered */
    uint32_t n_commands;                 /* answered in all */
    bool forgotten;
    uint64_t seq;
    int64_t late_until; /* a cursor had expire raise the bound up to here, whatever the leases */
    uint32_t flying;
    uint32_t calls;
    struct step *steps;
    bool went_back; /* the store has once forgotten a part of its records */
    struct step *steps_before;
    uint64_t seq_before; /* seq before the store last went back */
    UT_hash_handle hh;
};

/* One reply in a record call. */
struct recorded {
    struct token *token;
    char kind;
    bool no_effect;
    struct bytes class; /* of its error, in this call */
    int64_t retry_after;
    bool used;
};

/* A message that was given up: a poison message, or one that cannot be decoded. */
struct bad_message {
    char digest[ID_DIGEST_LEN + 1];
    bool dead;      /* it is in drover.dead */
    bool put_aside; /* it is in drover.dead because it cannot be decoded */
    bool unreadable;
    UT_hash_handle hh;
};

/* An incarnation that has begun a message and reports, or is about to report, that it was not lost.
 * */
struct survivor {
    char of[ID_DIGEST_LEN + ID_TOKEN_LEN + 1];
    UT_hash_handle hh;
};

/* A step back of the store's clock: bounds of before lie too far ahead. It is over when a sweep has
 * derived them again, after a supervisor has noticed the step, or when the clock has caught up. */
struct step_back {
    bool on;
    bool noticed;
    int64_t before; /* what the clock showed */
    int64_t seen;   /* what the store had noted of it */
    int64_t over;   /* the world's time when it was over */
};

struct acked;

struct checker {
    struct timeline *t;
    struct simstore *store;
    const struct acked *acked; /* the message that is acknowledged at present: check_acks.c */
    uint32_t partitions;
    int64_t retention;
    uint32_t budget; /* steps that one call touches */
    bool liars;
    bool forgets; /* the broker may lose requests and replies when it restarts */
    struct job *jobs;
    struct token *tokens;
    struct token *undone; /* those that the store has forgotten, or not yet minted again */
    struct order *orders;
    struct bad_message *bad_messages;
    struct survivor *survivors;
    uint32_t killed;      /* of schedulers */
    bool again;           /* calls that were made before are reported again */
    bool went_back;       /* the store has, once, */
    int64_t went_back_at; /* at that time of the world */
    struct effects scratch;
    int64_t store_now;
    int64_t ahead;           /* ms by which the store's clock jumped forward, in all */
    bool set_back;           /* it also stepped back */
    struct step_back *backs; /* of each partition */
    bool violated;
    char violation[512];
    /* the present call */
    const bool *heard; /* see struct token */
    const char *by;
    struct cause
        *call; /* of the tokens minted before the call records a reply; NULL: not tracked */
    struct cause *cause; /* of the tokens in the history entry that is being read */
    struct recorded recorded[64];
    uint32_t n_recorded;
};

#define require(c, condition, ...)                                                                 \
    do {                                                                                           \
        if (!(condition))                                                                          \
            checker_fail(c, __VA_ARGS__);                                                          \
    } while (0)

/* ---- check.c ---- */

struct job *check_job_find(struct checker *c, struct bytes id);
struct token *check_token_find(struct checker *c, struct bytes text);
struct token *check_token_named(struct checker *c, struct bytes id); /* by its name in a history */

/* Whether @text is the whole token. */
bool check_is_token(const struct token *token, struct bytes text);

/* The same, also for a token that the store may have forgotten. */
struct token *check_token_ever(struct checker *c, struct bytes text);

/* NULL: none. */
struct ending *check_ending_find(struct ending *list, uint64_t seq);

/* Whether a notification is in the store's outbox. */
bool check_in_outbox(struct checker *c, const struct job *job, uint64_t seq);

/* Whether there was such an ending that the store has forgotten. */
bool check_was_ending(const struct job *job, uint64_t seq);

/* Gives the job another definition. Takes @w over. */
void check_version(struct checker *c, struct job *job, struct workflow *w, bool registered);

/* What a partition knows of its clock, see watch_clock() in clock.lua. */
struct store_clock {
    int64_t seen;   /* a time that it showed at most ten seconds ago */
    bool back;      /* it stepped back, and no sweep was completed since */
    int64_t quiet;  /* until then no lease or other time ends */
    int64_t jumped; /* the time by the new clock, or a little later, of the jump forward */
    int64_t by;     /* its size; 0: no jump known */
};

struct store_clock check_clock(struct checker *c, uint32_t partition);

/* Whether bounds in `due` may lie too far ahead, as the clock has stepped back. */
bool check_stepped_back(const struct checker *c, uint32_t partition);

/* Whether the job goes forward and its deadline limits what it sends. */
bool check_is_limited(const struct job *job);

/* A decimal number as the store writes it; 0 for other text. */
uint64_t check_number(struct bytes text);

/* At rest, in the state that a job in this direction wants. */
bool check_is_there(const struct job *job, uint32_t i, bool back);

/* How many neighbours that must come first in this direction are not there. */
uint32_t check_missing(const struct job *job, uint32_t i, bool back);

/* Whether a command of this id was among the last that were answered. */
bool check_is_known(const struct job *job, struct bytes command);

/* The terms of the last dispatch of a step. */
const struct workflow_dispatch *check_terms_of(const struct job *job, uint32_t i);

/* ---- check_acks.c ---- */

/* The model of a command; created if there is none. */
struct order *check_order_of(struct checker *c, const struct job *job, struct bytes id);

/* Adds a call that lets a job go on. */
struct drive *check_drive(struct checker *c, struct job *job, const struct bytes *args, int n);

/* What the message may have recorded is not sent again by a scheduler: it is left to its lease. */
void check_leave_to_lease(struct checker *c, const struct wire_message *m);

/* Calls @visit with each valid Submit in the body of a Submits message. One that was given up as
 * poison by itself is left to its client instead. */
void check_each_submit(struct checker *c, struct bytes body,
                       void (*visit)(struct checker *c, const struct wire_message *m));

/* ---- check_bus.c ---- */

/* The message if it is poison or cannot be decoded; NULL: neither. */
struct bad_message *check_bad_message(struct checker *c, struct bytes body);

/* Whether it cannot be decoded: only liars send such messages, and only as replies. */
bool check_is_broken(struct bytes body);

/* An incarnation begins a redelivered message. */
void check_suspect(struct checker *c, uint32_t partition, const struct bytes *args,
                   const struct store_answer *answer);

/* ---- check_history.c ---- */

/* Reads the new entries of the history. Return: false if there are none. */
bool check_read_history(struct checker *c, struct job *job);

/* ---- check_effects.c ---- */

/* A person has done or undone a step. */
void check_by_hand(struct checker *c, struct step *step, bool back);

/* Compares the effect ledger with the records of the steps at rest. */
void check_effect_ledger(struct checker *c, const struct job *job);

/* ---- check_records.c ---- */

/* Compares the records of a job with the model. @whole: its steps, too. */
void check_compare(struct checker *c, struct job *job, bool whole);
