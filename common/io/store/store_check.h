// SPDX-License-Identifier: Apache-2.0
/*
 * Store check: what is checked of a Redis server before the first call on a connection
 *
 * Pure: commands go out, replies come in; io/store, which calls it, carries them over a connection,
 * one at a time. In this order: login; database; INFO (version, mode, role, eviction, durability);
 * for strict durability CONFIG GET and WAIT; the meta record of the namespace; the function
 * library.
 *
 * The meta record is the hash <prefix>meta: product "drover", schema (the data version) 1, and the
 * partitions that the first process wanted. A process that may write reads or makes it by one
 * script, so that two processes that start at the same time agree; a read-only process only reads
 * it.
 *
 * The library belongs to the server, not to the namespace. It is loaded if it is absent or of a
 * lower build; a higher build is never replaced. Its build is what drover1_version returns, and
 * what the line "local BUILD = <integer>" of its text says.
 */
#pragma once

#include <stdint.h>

#include "base/str.h"
#include "io/store/resp.h"

#define STORE_SCHEMA 1          /* the data version */
#define STORE_LIBRARY "drover1" /* functions are named drover1_<name> */

enum store_check_verdict {
    STORE_CHECK_ASK,     /* the caller sends the command that was appended, and passes its reply */
    STORE_CHECK_PASSED,  /* the store can be used; see partitions and warning */
    STORE_CHECK_WAIT,    /* it cannot be used yet; the caller tries again; see why */
    STORE_CHECK_REFUSED, /* a person must change something; see why */
};

/* What the server is asked with and must have; texts are kept, not copied. */
struct store_check_config {
    const char *user;     /* NULL for none */
    const char *password; /* NULL for none */
    int database;
    const char *prefix;
    uint32_t partitions; /* of a new store */
    uint32_t known;    /* the number that an earlier check found, which must not change; 0: none */
    bool strict;       /* a power cut must not lose what was confirmed */
    unsigned replicas; /* strict: min-replicas-to-write must be at least this */
    const char *library; /* text of the library */
    bool has_choice;     /* another server may become the primary: a replica is waited for */
    bool sentinels;      /* Sentinels have named the server */
    bool read_only; /* writes nothing: refuses a namespace or library that is absent, and a library
                       of another build */
};

struct store_check {
    const struct store_check_config *config;
    int step;
    bool lost_race;      /* another process has loaded the library meanwhile */
    uint32_t partitions; /* of the namespace */
    int64_t build;       /* of the library that is loaded */
    char run[128];       /* of the server: its run id and its replication id */
    char warning[192];   /* for a person, "" for none */
    char why[320];       /* of WAIT and REFUSED: the cause, and what to change */
};

/* Copies the value of a line "<name>:<value>" of an answer to INFO to @out, cut to @size; "" if
 * there is none. Return: @out. */
const char *store_check_info(const char *text, const char *name, char *out, size_t size);

/* Whether a later answer to INFO, with the section `replication`, is of the run that was checked,
 * and the server is a primary still. */
bool store_check_is_same_run(const struct store_check *e, const char *info);

/**
 * store_check_begin() - begin the check of a new connection
 * @config:  kept, not copied
 * @command: the first command is appended
 *
 * Return: STORE_CHECK_ASK, or STORE_CHECK_REFUSED if the text of the library has no build.
 */
enum store_check_verdict store_check_begin(struct store_check *e,
                                           const struct store_check_config *config,
                                           struct buf *command);

/* Judges the reply to the last command. Appends the next one if it returns STORE_CHECK_ASK. */
enum store_check_verdict store_check_reply(struct store_check *e, const struct resp_reply *reply,
                                           struct buf *command);
