// SPDX-License-Identifier: Apache-2.0
/*
 * Access: what a user of the broker may ask of a scheduler
 *
 * The message property user_id names the sender: the broker compares it with the login. If identity
 * is required, a scheduler refuses a Submit or a Control without it. A job then belongs to the user
 * who submitted it; for all other users but operators it does not exist.
 *
 * The machine calls this: on_delivery.c before it handles a message, and the files that need the
 * owner of a job or the limits of a user. access_config.c fills struct access.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/status.h"
#include "drover/v1/control.pb-c.h"
#include "drover/v1/submit.pb-c.h"

/* Stands for all users without a group of their own. */
#define ACCESS_OTHERS "*"

/* What one user may use of a scheduler, and of the store; 0: no limit. */
struct access_limits {
    int64_t rate;  /* units per second at one scheduler: see allowance.c */
    int64_t jobs;  /* in the store */
    int64_t bytes; /* of the store, taken by these jobs */
};

#define ACCESS_RATE 1000
#define ACCESS_JOBS 1000000
#define ACCESS_MEGABYTES 1024 /* of 2^20 bytes */

/* A group of security.submitters. It owns all its texts. */
struct access_submitter {
    char *user;       /* or ACCESS_OTHERS */
    char **workflows; /* names of those that it may start; ends with NULL; empty: all of them */
    char *replies;    /* prefix of the names of its reply queues; NULL: the user and a dot */
    struct access_limits limits;
};

struct access {
    bool required;     /* security.identity */
    bool registered;   /* scheduler.definitions: no Submit may carry a definition */
    bool by_actor;     /* security.replies: no reply may come through drover.replies */
    char *operators;   /* security.operators: users separated by a space; owned */
    char *supervisors; /* security.supervisors, likewise */
    struct access_submitter *submitters; /* owned */
    size_t n_submitters;                 /* 0: every user may submit */
};

/* Frees it with all that it owns. Accepts NULL; returns NULL. */
struct access *access_free(struct access *a);
CLEANUP_DEFINE(struct access *, access_free)

/* Whether @user may have answers sent to @reply_to, the name of a queue or a direct reply-to. ""
 * (no answers) is always allowed. If not, sets @problem, which may be NULL. */
bool access_reply_to(const struct access *a, const char *user, const char *reply_to,
                     struct problem *problem);

/* Whether @user may send this message. @user: "" if the broker has proven none. If not, sets
 * @problem to the rule that forbids it. */
bool access_submit(const struct access *a, const char *user, const Drover__V1__Submit *m,
                   struct problem *problem);
bool access_control(const struct access *a, const char *user, const Drover__V1__Control *m,
                    struct problem *problem);

/* Whether replies that came this way are accepted. @actor: as wire_reply_by() returns it. If
 * not, sets @problem. */
bool access_replies(const struct access *a, const char *actor, struct problem *problem);

/* The limits of the group of @user, or the defaults. No limits for operators and supervisors, or
 * if identity is not required. */
struct access_limits access_limits(const struct access *a, const char *user);

/* The owner whose jobs @user may ask about and command: @user itself; NULL: all jobs. */
const char *access_owner(const struct access *a, const char *user);
