// SPDX-License-Identifier: Apache-2.0
/*
 * Configuration: one table of settings for all roles
 *
 * The table in config.c says of each setting what it is called, its type, default and range, and
 * one line for people. A value comes from the last of these that gives one:
 *
 *     the default
 *     the file           rabbitmq = { host = "broker"; };
 *     the environment    DROVER_RABBITMQ__HOST=broker; DROVER_RABBITMQ__PASSWORD_FILE=/run/secret
 *                        for what is secret
 *     the command line   --set rabbitmq.host=broker; not for what is secret
 *
 * All roles read the same file, and check all of it. A setting that nobody knows is an error; so is
 * an environment variable DROVER_…__…. Durations are "1500ms", "30s", "5m", "1h", "7d", or an
 * integer of milliseconds. Secrets are never printed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/status.h"
#include "base/str.h"

struct config_setting_t; /* libconfig's */

enum {
    CONFIG_E_INVALID = 1,
};

/* Roles as bits: whom a setting concerns. */
enum config_role {
    CONFIG_SCHEDULER = 1,
    CONFIG_AGENT = 2,
    CONFIG_SUPERVISOR = 4,
    CONFIG_CLI = 8,
};

enum config_durability {
    CONFIG_FAST,
    CONFIG_STRICT,
};

enum config_queue_type {
    CONFIG_QUORUM,
    CONFIG_CLASSIC,
};

enum config_step_messages {
    CONFIG_PERSISTENT,
    CONFIG_TRANSIENT,
};

enum config_identity {
    CONFIG_OFF,
    CONFIG_REQUIRED,
};

enum config_replies {
    CONFIG_REPLIES_ANY,
    CONFIG_REPLIES_BY_ACTOR,
};

enum config_definitions {
    CONFIG_ANY,
    CONFIG_REGISTERED,
};

/* Texts are never NULL; "" where not given. */
struct config {
    const char *name; /* of this process among its like; default <host>-<pid> */
    int64_t drain_timeout_ms;
    struct {
        const char *uri; /* taken apart: what it says stands below */
        const char *host;
        int64_t port;
        const char *vhost;
        const char *user;
        const char *password;
        int64_t heartbeat_ms; /* whole seconds */
        int64_t prefetch;     /* of the scheduler */
        int queue_type;       /* enum config_queue_type */
        int step_messages;    /* enum config_step_messages */
        bool declare;
    } rabbitmq;
    struct {
        const char *uri; /* likewise */
        const char *host;
        int64_t port;
        const char *socket; /* wins over host and port */
        const char *user;
        const char *password;
        int64_t database;
        const char *prefix;
        int64_t partitions;
        int durability; /* enum config_durability */
        int64_t replicas;
        int64_t call_timeout_ms;
    } redis;
    struct {
        const char *listen; /* "" or as address_parse() takes it */
        int64_t pulse_ms;
        int64_t stall_ms; /* 0: never */
    } health;
    struct {
        int level;  /* enum log_level */
        int format; /* enum log_format */
    } log;
    struct {
        bool dumpable;
        int identity;            /* enum config_identity */
        int replies;             /* enum config_replies */
        const char *operators;   /* users of the broker, with a space between them */
        const char *supervisors; /* likewise */
    } security;                  /* and the list `submitters`, see config_root() */
    struct {
        const char *workflows;     /* a folder */
        const char *alert_command; /* path of a program */
        int64_t alert_interval_ms; /* in which alerts of one cause are told once, and counted */
        const char *json_actors;   /* names, with a space between them */
        int definitions;           /* enum config_definitions */
        int64_t bad_replies;       /* a second; 0: any number */
        int64_t horizon_ms;        /* 0: none */
        int64_t declared_actors;   /* that no registered workflow names */
        int64_t full_at;           /* percent of the store's maxmemory */
    } scheduler;
    struct {
        int64_t period_ms;
        int64_t lease_ms;
        bool election;
        int64_t retention_ms;
        int64_t sweep_ms;
    } supervisor;
    struct {
        int64_t concurrency;
        int64_t consumer_timeout_ms; /* the broker's; 0: it has none */
    } agent;                         /* and the list `actors`, see config_root() */
};

struct config_source {
    const char *file;        /* NULL for none */
    char *const *environ;    /* NULL for none */
    const char *const *sets; /* "path=value" */
    int n_sets;
    bool secret_sets; /* they may set secrets: they are no command line that others can see */
};

/**
 * config_load() - gather the values of all settings
 *
 * Return: 0, -errno, or CONFIG_E_INVALID with @problem set: its field says where ("<file>:<line>",
 * a variable, "--set"), its reason what.
 */
int config_load(struct config **out, const struct config_source *source, struct problem *problem);

/* Returns NULL; accepts NULL. */
struct config *config_free(struct config *c);
CLEANUP_DEFINE(struct config *, config_free)

/* The file as libconfig read it, for what is more than a setting: the agent's list of actors. An
 * empty group where there was no file. Lives as long as @c. */
struct config_setting_t *config_root(const struct config *c);

/* Appends the paths of the settings in which the two differ, with spaces between them. */
void config_difference(const struct config *a, const struct config *b, struct buf *out);

/* One line a setting with the value in force; of a secret only whether there is one. */
void config_print(const struct config *c, FILE *out);

/* One paragraph for each setting that concerns @role: type, default, range, text. */
void config_describe(enum config_role role, FILE *out);

/* A configuration file with every setting explained; what it sets are the defaults, as comments. */
void config_sample(FILE *out);

/* The man page drover.cfg(5), in scdoc's language. */
void config_manual(FILE *out);
