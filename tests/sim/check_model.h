// SPDX-License-Identifier: Apache-2.0
/*
 * The checker's own model of every job, and what its parts share
 *
 *     check.c          calls, and what must be true at rest
 *     check_history.c  moves the model along the store's history: which way steps and turns may go
 *     check_records.c  holds records and indexes against the model
 *     check_bus.c      what is published, and heard by clients
 *     check_acks.c     what is acknowledged
 *     check_effects.c  what handlers did
 *     check_answers.c  what clients are told of histories, and of which jobs there are
 */
#pragma once

#include <uthash.h>

#include "base/id.h"
#include "check.h"
#include "model/store_ops.h"
#include "model/wire.h"

#define CONTINUED_MS 1000 /* a cursor is looked after within, see drover.lua */
#define QUIET_MS 60000    /* in which nothing expires where nobody was there: see drover.lua */
#define BIG 200           /* steps from which on not every call is followed by a full comparison */
#define COMMANDS_KEPT 16  /* with their answers, see drover.lua */

/* What a message, or a store call, has led to. */
struct cause {
    struct token *minted; /* newest first */
};

/* One dispatch. */
struct token {
    char id[32]; /* as the history says it */
    struct job *job;
    const struct workflow *w; /* the job's when it was minted */
    uint32_t step;
    bool back;        /* it asks for DISABLED */
    uint32_t turn;    /* of its key */
    uint32_t forward; /* of the key of what it takes back */
    uint32_t attempt;
    int64_t minted;      /* store time */
    int64_t wait_until;  /* store time: nobody may take the request later */
    int64_t wait_ends;   /* the same in the world's time; 0: nobody knows */
    bool too_late;       /* that was past when the store's clock stepped back */
    int64_t till;        /* store time: its lease, as the store has it */
    int64_t ends;        /* the same in the world's time; 0: nobody knows */
    uint32_t jumps;      /* of the store's clock, from one ahead on that came when it had
                            longer to go than nothing expires for */
    bool set_back;       /* that clock stepped back, and nobody may have known before */
    int64_t back_at;     /* ... to this, at the least; 0: it has not since it was minted */
    int64_t unseen;      /* ms by which it was set ahead so little that nobody may have noticed */
    int64_t longer;      /* ms that the lease outlasts its record: it lived through a jump */
    struct cause led_to; /* by what ended its flight: */
    char ended_by;       /* enum op_kind; 0: no record did */
    struct token *older; /* of the same cause */
    int64_t at;          /* the world's time of the call that minted it, and ... */
    const bool *heard;   /* whether who made the call that minted it has its answer; NULL: no */
    const char *by;      /* who made it */
    bool went_back;      /* the store has since: what it knew of the request's copies may be gone */
    bool published;      /* the broker has told what became of the request */
    bool routed;         /* it has some copy of it */
    bool copied;         /* it was sent once more */
    bool begun;          /* an agent has begun it, or said so */
    uint64_t told_by;    /* the agent's connection on which it said so last; 0: none */
    bool delivered;      /* an agent has had the request, or the broker has lost it ... */
    bool taken;          /* ... and the store knows from a scheduler that it left its queue */
    bool told;           /* the store has heard of it from an agent */
    int64_t given_ends;  /* the same as `ends`, as the dispatch gave it */
    int64_t left;        /* until the deadline, where that bounds it; else 0 */
    int64_t run_ends;    /* the world's time when the lease of the first one to begin is over */
    bool effect;         /* a handler ended well */
    bool recorded;       /* a reply to it was */
    bool lied;           /* a reply to it may be a lie */
    bool decided;        /* the store has been asked to record something of it */
    bool given_up;       /* what is told of it may be gone, or was poison: its lease has to do */
    UT_hash_handle hh;
};

struct step {
    struct token *flying; /* NULL: not in flight */
    struct token *last;   /* of the last dispatch; NULL: none yet */
    char current;         /* what was known of it when it was last at rest: A, D or U */
    bool back;            /* what the last dispatch asked for, and ... */
    uint32_t turn;        /* ... the turn of its key */
    uint32_t forward;     /* the same of the last dispatch that asked for ACTIVE, ... */
    uint32_t undo;        /* ... and of the last that asked for DISABLED; 0: none */
    uint32_t attempt;
    uint32_t came_back; /* of the attempts: requests that nobody took, as far as that can be told */
    uint32_t failures, expiries;
    struct {
        uint32_t failures, expiries, since;
    } forgiven; /* by a retry of all, in the turn `since`; a job that turns may forget the retry */
    int64_t not_before; /* store time of the next try at the earliest, after a failure */
    int64_t not_after;  /* the same at the latest; 0: not known */
    bool parked;
    bool failed;   /* for good */
    bool replaced; /* by a migration, and what its requests may have done is to be undone */
    bool renewed;  /* its tries were used up when the job turned: the next one begins anew */
    bool anew;     /* maybe: a Retry of all found it at rest, or it came to rest meanwhile */
    char parked_for[16];
    bool round;         /* its last dispatch was to end a silence */
    bool marked;        /* it was parked since the job was turned, and has not succeeded since */
    bool laid_down;     /* by the store's record it is at rest */
    struct deed *deeds; /* newest first */
    bool lied;          /* what is recorded of it may be a lie: deeds may be others */
    bool by_hand;       /* a person has it done, or says so */
};

/* One command, by the id that its sender gave it. */
struct order {
    const char *of; /* "<job> <id>" */
    struct cause led_to;
    bool decided;  /* the store has been asked to carry it out, and has, or would not */
    bool refused;  /* its sender was told that it cannot be */
    bool told;     /* the broker has some answer to it */
    bool given_up; /* a copy of it was poison, or may be gone */
    UT_hash_handle hh;
};

/* One call that has the job go on. */
struct drive {
    struct drive *older;
    struct cause led_to;
    int64_t at;        /* world's time */
    const bool *heard; /* see struct token */
    const char *by;
    uint32_t *steps; /* that it names */
    uint32_t n_steps;
};

/* A definition that a job has had. */
struct version {
    struct version *older;
    struct workflow *w;
    bool registered; /* under its name */
};

/* How a turn has ended, or what a person is to know of a job; everybody is to hear of it. */
struct ending {
    struct ending *older;
    uint64_t seq;
    char outcome[24]; /* ALERT: it is none */
    uint32_t step;    /* that the alert is about; WORKFLOW_NONE: the job */
    bool owed;
    bool told;    /* it reached the broker */
    bool heard;   /* ... and the client */
    bool excused; /* the broker has lost a copy that it had taken */
};

struct job {
    const char *id;
    struct {
        const char *job, *data, *hist;
    } keys;                   /* in the store */
    struct workflow *w;       /* what it has now */
    struct version *version;  /* of these: */
    struct version *versions; /* what it ever had, newest first; it holds them */
    uint64_t migrated;        /* seq of the last migration, 0: none */
    bool changing;            /* a change waits until steps are undone */
    uint32_t partition;
    int64_t start_at;
    bool has_deadline;
    struct cause submitted;
    struct drive *drives; /* newest first */
    bool told;            /* the broker has some Receipt for it */
    bool created;
    bool begun;         /* once it has, it has, whatever the clock shows */
    bool expired;       /* its Submit came too late */
    bool taken;         /* somebody submits another by its id */
    const char *digest; /* of what it was created by */
    bool refused;       /* once: its workflow was not registered yet, or the store was full */
    bool accepted;      /* the client knows */
    bool given_up;      /* a copy of its Submit was poison, or may be gone */
    bool lost;          /* the store went back to before it was created */
    bool back;          /* where it goes */
    uint32_t turn;
    uint32_t since;  /* the turn in which it was last turned round */
    uint32_t epoch;  /* the turn in which its joins were last counted anew */
    char cause[16];  /* why it goes back */
    int64_t ordered; /* when the last command that turned it was issued; 0: nobody said */
    uint32_t tried;  /* forward runs since a person's word, after the first */
    char hold[16];
    bool late;     /* past its deadline, and nobody has had it go on */
    bool ending;   /* as it is */
    bool retrying; /* a Retry of all is not through yet */
    char due[64];  /* the entry that must come next; "?": nobody knows whether one must */
    bool settled;
    int64_t settled_at; /* store time */
    uint64_t attention; /* seq of the last entry of that, 0: none */
    char trouble[24];   /* ... and as what the job was to end */
    bool troubled;      /* it has ended so */
    bool acknowledged;
    bool decided[2]; /* a failure has decided where the job goes, or how it ends: forward, back */
    uint32_t decider[2]; /* ... of which step, WORKFLOW_NONE for none */
    struct ending *last;
    struct ending *alerts;
    struct ending *undone; /* of which the store knows no more; the client may still hear of it */
    const char *commands[COMMANDS_KEPT]; /* ids of the last ones that were answered */
    uint32_t n_commands;                 /* answered in all */
    bool forgotten;
    uint64_t seq;
    int64_t late_until; /* a cursor had expire raise the bound so far, whatever the leases */
    uint32_t flying;
    uint32_t calls;
    struct step *steps;
    bool went_back; /* the store has forgotten some of what it had recorded, once */
    struct step *steps_before;
    uint64_t seq_before; /* likewise before it went back last */
    UT_hash_handle hh;
};

/* What one op of a record call was about. */
struct recorded {
    struct token *token;
    char kind;
    bool no_effect;
    struct bytes class; /* of its error, in this call */
    int64_t retry_after;
    bool used;
};

/* A message that lives were lost over. */
struct deadly {
    char digest[ID_DIGEST_LEN + 1];
    bool dead;      /* it is in drover.dead */
    bool put_aside; /* likewise, because it cannot be read */
    bool unreadable;
    UT_hash_handle hh;
};

/* A life that has begun a message and says, or is about to, that it was not lost over it. */
struct survivor {
    char of[ID_DIGEST_LEN + ID_TOKEN_LEN + 1];
    UT_hash_handle hh;
};

/* A step back of the store's clock: what is due of before lies too far ahead. That is over when a
 * sweep has derived it again, for which somebody has to have noticed, or the clock has caught up.
 */
struct step_back {
    bool on;
    bool noticed;
    int64_t before; /* what the clock showed */
    int64_t seen;   /* what the store had noted of it */
    int64_t over;   /* the world's time when it was */
};

struct checker {
    struct timeline *t;
    struct simstore *store;
    uint32_t partitions;
    int64_t retention;
    uint32_t budget; /* steps that one call touches */
    bool liars;
    struct job *jobs;
    struct token *tokens;
    struct token *undone; /* of which the store knows no more, or not yet again */
    struct order *orders;
    struct deadly *deadly;
    struct survivor *survivors;
    uint32_t deaths;      /* of schedulers */
    bool again;           /* calls are told that were made before */
    bool went_back;       /* the store has, once ... */
    int64_t went_back_at; /* ... in the world's time */
    struct effects scratch;
    int64_t store_now;
    int64_t ahead;           /* ms by which the store's clock was set ahead, all in all */
    bool set_back;           /* it was, too */
    struct step_back *backs; /* of each partition */
    bool violated;
    char violation[512];
    /* the call under way */
    const bool *heard; /* see struct token */
    const char *by;
    struct cause *call;  /* what it mints before it records anything belongs there; NULL: nowhere */
    struct cause *cause; /* the same as of the history that has been read */
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
struct token *check_token_named(struct checker *c,
                                struct bytes id); /* by what a history says of it */

/* Whether a text is that token, whole. */
bool check_is_token(const struct token *token, struct bytes text);

/* Likewise, where the store may have forgotten it. */
struct token *check_token_ever(struct checker *c, struct bytes text);

/* NULL where there is none. */
struct ending *check_ending_find(struct ending *list, uint64_t seq);

/* Whether the store owes a notification. */
bool check_is_owed(struct checker *c, const struct job *job, uint64_t seq);

/* Whether there was such an ending, of which the store knows no more. */
bool check_was_ending(const struct job *job, uint64_t seq);

/* Has the job go by another definition. Takes @w over. */
void check_version(struct checker *c, struct job *job, struct workflow *w, bool registered);

/* What a partition knows of its clock, see watch_clock() in drover.lua. */
struct store_clock {
    int64_t seen;   /* what it showed somebody, ten seconds ago at most */
    bool back;      /* it stepped back, and no sweep has come to its end since */
    int64_t quiet;  /* until then nothing ends that depends on the time alone */
    int64_t jumped; /* ahead, at that time by the new clock or a little later, and ... */
    int64_t by;     /* ... by so much; 0: not that it knows */
};

struct store_clock check_clock(struct checker *c, uint32_t partition);

/* Whether what is due may lie too far ahead, as the clock has stepped back. */
bool check_stepped_back(const struct checker *c, uint32_t partition);

/* A decimal number as the store writes it; 0 for anything else. */
uint64_t check_number(struct bytes text);

/* At rest, and where a job that goes this way wants it. */
bool check_is_there(const struct job *job, uint32_t i, bool back);

/* How many neighbours must come before a step, on this way, and are not there. */
uint32_t check_missing(const struct job *job, uint32_t i, bool back);

/* Whether a command of this id was among the last that were answered. */
bool check_is_known(const struct job *job, struct bytes command);

/* What the last dispatch of a step went by. */
const struct workflow_dispatch *check_terms_of(const struct job *job, uint32_t i);

/* ---- check_acks.c ---- */

/* Of a command; made where there is none. */
struct order *check_order_of(struct checker *c, const struct job *job, struct bytes id);

/* A call that has a job go on. */
struct drive *check_drive(struct checker *c, struct job *job, const struct bytes *args, int n);

/* What has been recorded of it maybe is not sent again by anyone. */
void check_leave_to_lease(struct checker *c, const struct wire_message *m);

/* ---- check_bus.c ---- */

/* Whether it has cost lives, or cannot be read; NULL: neither. */
struct deadly *check_deadly(struct checker *c, struct bytes body);

/* Whether it cannot be read: only liars send such, and only replies. */
bool check_is_broken(struct bytes body);

/* A life begins a message that came again. */
void check_suspect(struct checker *c, uint32_t partition, const struct bytes *args,
                   const struct store_answer *answer);

/* ---- check_history.c ---- */

/* Catches up with what was recorded. Return: false where nothing was. */
bool check_read_history(struct checker *c, struct job *job);

/* ---- check_effects.c ---- */

/* A person has seen to it that a step is done, or undone. */
void check_by_hand(struct checker *c, struct step *step, bool back);

/* Holds what was done in the world outside against what is known of the steps at rest. */
void check_books(struct checker *c, const struct job *job);

/* ---- check_records.c ---- */

/* Holds what is stored of a job against the model. @whole: its steps, too. */
void check_compare(struct checker *c, struct job *job, bool whole);
