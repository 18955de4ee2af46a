// SPDX-License-Identifier: Apache-2.0
/*
 * Examination: what a Redis must be before the first call
 *
 * Pure: commands out, replies in; the store carries them over a connection, one at a time. In this
 * order: login, database, what INFO tells (version, mode, role, eviction, durability), where strict
 * durability is wanted what CONFIG GET and WAIT tell of it, the meta record of the namespace, the
 * function library.
 *
 * The meta record is the hash <prefix>meta: product "drover", schema 1, partitions as wanted by
 * whoever came first. It is made in one script, so that two who start at the same time agree.
 *
 * The library belongs to the server, not to the namespace: it is loaded where absent or of a lower
 * build, and a higher build is never replaced. Its build is what drover1_version returns and what
 * the line "local BUILD = <integer>" of its text says.
 */
#pragma once

#include <stdint.h>

#include "base/str.h"
#include "io/resp.h"

#define STORE_SCHEMA 1
#define STORE_LIBRARY "drover1" /* functions are named drover1_<name> */

enum exam_verdict {
    EXAM_ASK,     /* send the command that was appended, come back with its reply */
    EXAM_PASSED,  /* ready; see partitions and warning */
    EXAM_WAIT,    /* not ready yet, and will be by itself; see why */
    EXAM_REFUSED, /* a person must act; see why */
};

/* What to present and to expect; all kept, not copied. */
struct exam_config {
    const char *user;     /* NULL for none */
    const char *password; /* NULL for none */
    int database;
    const char *prefix;
    uint32_t partitions; /* wanted at first start */
    uint32_t known;      /* found at an earlier exam, and worked with since; 0: none */
    bool strict;         /* a power cut may lose nothing that was confirmed */
    unsigned replicas;   /* strict: that must have it, too */
    const char *library; /* text of the library */
    bool read_only;      /* makes and loads nothing: refuses what is absent, or of another build */
};

struct exam {
    const struct exam_config *config;
    int step;
    bool lost_race;      /* the library came from somebody else while we loaded it */
    uint32_t partitions; /* of the namespace */
    int64_t build;       /* of the library that is loaded now */
    char run[64];        /* of the server */
    char warning[192];   /* what a person should know, "" for nothing */
    char why[320];
};

/* The value of a line "<name>:<value>" of an answer to INFO, in @out; "" where there is none. */
const char *exam_info(const char *text, const char *name, char *out, size_t size);

/**
 * exam_begin() - start on a new connection
 * @config:  kept, not copied
 * @command: the first command is appended
 *
 * Return: EXAM_ASK, or EXAM_REFUSED where the library text says no build.
 */
enum exam_verdict exam_begin(struct exam *e, const struct exam_config *config, struct buf *command);

/* Judges the reply to the last command. Appends the next one where it returns EXAM_ASK. */
enum exam_verdict exam_reply(struct exam *e, const struct resp_reply *reply, struct buf *command);
