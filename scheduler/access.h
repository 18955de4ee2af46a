// SPDX-License-Identifier: Apache-2.0
/*
 * Access: what a user of the broker may ask of a scheduler
 *
 * Who sends a message is what its property user_id says: the broker compares that with the login.
 * Where identity is required a message without it is refused, a job belongs to the user who has
 * submitted it, and for everybody else but operators there is no such job.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/status.h"
#include "drover/v1/control.pb-c.h"
#include "drover/v1/submit.pb-c.h"

/* Users that have no group of their own. */
#define ACCESS_OTHERS "*"

/* What one user may take of a scheduler, and of the store; 0: as much as it likes. */
struct access_limits {
    int64_t rate;  /* of one scheduler, units a second: see allowance.c */
    int64_t jobs;  /* in the store */
    int64_t bytes; /* that they take there */
};

#define ACCESS_RATE 1000
#define ACCESS_JOBS 1000000
#define ACCESS_MEGABYTES 1024 /* of 2^20 bytes */

/* A group of security.submitters. All texts are owned. */
struct access_submitter {
    char *user;       /* or ACCESS_OTHERS */
    char **workflows; /* that it may start, by name; ends with NULL; empty: all of them */
    char *replies;    /* what the names of its queues begin with; NULL: the user and a dot */
    struct access_limits limits;
};

struct access {
    bool required;     /* security.identity */
    bool registered;   /* scheduler.definitions: no definition comes along with a Submit */
    bool by_actor;     /* security.replies: none by drover.replies */
    char *operators;   /* security.operators: users with a space between them; owned */
    char *supervisors; /* likewise */
    struct access_submitter *submitters; /* owned */
    size_t n_submitters;                 /* 0: every user may submit */
};

/* With all that it holds. Accepts NULL; returns NULL. */
struct access *access_free(struct access *a);
CLEANUP_DEFINE(struct access *, access_free)

/* Whether @user may have answers sent to a queue, or to a direct reply-to. "" may always be. */
bool access_reply_to(const struct access *a, const char *user, const char *reply_to,
                     struct problem *problem);

/* Whether @user ("" for none proven) may send this. Else @problem says which rule forbids it. */
bool access_submit(const struct access *a, const char *user, const Drover__V1__Submit *m,
                   struct problem *problem);
bool access_control(const struct access *a, const char *user, const Drover__V1__Control *m,
                    struct problem *problem);

/* Whether replies count that came so: wire_reply_by(). */
bool access_replies(const struct access *a, const char *actor, struct problem *problem);

/* Those of the user's group, or the default; none for operators, supervisors, and where identity is
 * not required. */
struct access_limits access_limits(const struct access *a, const char *user);

/* Whose jobs @user may ask about and command: its own; NULL: all. */
const char *access_owner(const struct access *a, const char *user);
