// SPDX-License-Identifier: Apache-2.0
/*
 * Allowances: how much a user, or the agents of an actor, may take of a scheduler and of the store
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct scheduler;

#define ALLOWANCE_BYTES 4096 /* of a message, for one unit */
#define ALLOWANCE_DATA 500   /* units for a Query with data, until its cost is known */
#define ALLOWANCE_ITEMS 100  /* of an answer of the store, for one unit */
#define ALLOWANCE_SEARCH 25  /* units for a call that has scanned as many jobs as it may */
/* ms between two alerts that the agents of an actor send too much */
#define ALLOWANCE_ALERT_AGAIN_MS 60000

struct allowances {
    struct allowance *buckets; /* oldest first */
    int64_t bad_replies;       /* units per second of an actor's agents; 0: no limit */
};

/* Whether a user may ask for something now. @user: "" stands for all whom the broker does not
 * name. */
bool allowance_admits(struct scheduler *s, const char *user);
/* The same for a redelivered message, which may have been carried out: the user may overdraw the
 * bucket by as much as a full one holds. */
bool allowance_admits_again(struct scheduler *s, const char *user);
/* The user has taken this number of @units; or gives some back that were taken in advance. */
void allowance_spend(struct scheduler *s, const char *user, size_t units);
void allowance_give_back(struct scheduler *s, const char *user, size_t units);
/* Takes a definition of so many @bytes (workflow.memory) from the user's allowance. Return: false
 * if the user may not add it now; then nothing is taken. */
bool allowance_takes_definition(struct scheduler *s, const char *user, size_t bytes);
/* Takes this number of @replies from the allowance of an actor's agents. Return: false if they
 * are not to be read; then nothing is taken. */
bool allowance_takes_replies(struct scheduler *s, const char *actor, size_t replies);
/* A step has waited for one reply of these agents: gives its unit back. */
void allowance_return_reply(struct scheduler *s, const char *actor);
/* Takes one Progress from the allowance of an actor's agents. Return: false if it is not to be
 * read. */
bool allowance_takes_progress(struct scheduler *s, const char *actor);
/* Takes a unit for each ten, or fewer, of @n Progress of one message that were not read. */
void allowance_extra_progress(struct scheduler *s, const char *actor, size_t n);
/* Whether to raise an alert that the agents send too much: at most one a minute. Notes the time. */
bool allowance_alert_due(struct scheduler *s, const char *actor);
/* The share of one partition in a limit of a user. @most: of all partitions; 0: no limit. */
int64_t allowance_share(const struct scheduler *s, int64_t most);
void allowance_free_all(struct scheduler *s);
