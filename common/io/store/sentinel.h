// SPDX-License-Identifier: Apache-2.0
/*
 * Sentinel: what Redis Sentinels say of a primary, and which of their answers counts
 *
 * Pure: commands go out, replies come in; io/store/store_watch, which calls it, carries them. A
 * Sentinel is asked for the address of the primary and, in the same write, for the epoch of its
 * configuration: the Sentinels increase it with each failover, by a vote, so that the highest epoch
 * is the newest configuration.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "io/store/resp.h"

#define SENTINEL_HOST_LEN 256 /* of a host name, with its NUL */

/* The address of a primary, and since which epoch. */
struct sentinel_primary {
    char host[SENTINEL_HOST_LEN]; /* "": none is known */
    int port;
    int64_t epoch;
};

enum sentinel_kind {
    SENTINEL_ASKED,   /* it has not answered yet */
    SENTINEL_NAMES,   /* it names a primary */
    SENTINEL_SILENT,  /* it cannot be reached, or does not answer */
    SENTINEL_REFUSES, /* a person must change something */
};

/* What one Sentinel has said last. */
struct sentinel_answer {
    enum sentinel_kind kind;
    struct sentinel_primary primary; /* if it names one */
    char why[640];                   /* if not; of SENTINEL_REFUSES with what to change */
};

/* What a Sentinel is asked with; texts are kept, not copied. */
struct sentinel_config {
    const char *master_name;
    const char *user;     /* NULL for none */
    const char *password; /* NULL for none */
};

/* The replies that are still to come from one Sentinel, and what they say together. */
struct sentinel_talk {
    const struct sentinel_config *config;
    int step;
    struct sentinel_answer answer;
};

/* Appends a question. @login: it is the first one on a connection. */
void sentinel_ask(struct sentinel_talk *talk, const struct sentinel_config *config, bool login,
                  struct buf *command);

/* Takes one reply. Return: whether it was the last one: talk->answer says what the Sentinel has
 * answered. */
bool sentinel_hear(struct sentinel_talk *talk, const struct resp_reply *reply);

/* For so many rounds of questions a majority must contradict the newest epoch. */
#define SENTINEL_ROUNDS 10

/* Which primary counts. All 0 at first. */
struct sentinel_choice {
    struct sentinel_primary known;
    unsigned contradicted; /* rounds for which a majority has contradicted the newest epoch */
    int64_t rejected;      /* the epoch that a majority has contradicted last; 0 for none */
};

/**
 * sentinel_choose() - which primary counts now
 * @answers: the last one of each of the @n Sentinels that are configured
 * @round:   a round of questions has ended since the last call
 *
 * The highest epoch counts, at once: the first Sentinel that knows of a failover tells it. Where
 * Sentinels name different primaries for one epoch the known one stays, else the one counts that
 * most of them name. An epoch lower than the known one is that of a Sentinel that was cut off.
 *
 * If more than half of all name one other primary, and that lasts for SENTINEL_ROUNDS rounds, they
 * count: they were configured anew, or the one with the highest epoch is wrong or of another group.
 * From then on that epoch and higher ones count only if a majority names them, until a majority has
 * reached it. Where no primary is known yet a majority counts from the beginning.
 *
 * Return: whether choice->known has another address than before.
 */
bool sentinel_choose(struct sentinel_choice *choice, const struct sentinel_answer *answers,
                     size_t n, bool round);

/* Whether two are the same address. */
bool sentinel_is_same(const struct sentinel_primary *a, const struct sentinel_primary *b);
