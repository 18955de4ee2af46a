// SPDX-License-Identifier: Apache-2.0
/*
 * Configuration: one table of settings for all roles
 *
 * The table in config.c has the path, type, default, range and a description of each setting. A
 * value comes from the last of these that gives one:
 *
 *     the default
 *     the file           rabbitmq = { host = "broker"; };
 *     the environment    DROVER_RABBITMQ__HOST=broker; DROVER_RABBITMQ__PASSWORD_FILE=/run/secret
 *                        for secrets
 *     the command line   --set rabbitmq.host=broker; not for secrets
 *
 * All roles read the same file, and check all of it. An unknown setting is an error; so is an
 * unknown environment variable DROVER_…__…. Durations are "1500ms", "30s", "5m", "1h", "7d", or an
 * integer of milliseconds. Secrets are never printed. docs/OPERATIONS.md has the table of settings.
 * Called by io/daemon, io/daemon/driver, all roles and the command line.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/status.h"
#include "base/str.h"

struct config_setting_t; /* of libconfig */
struct tls_context;      /* io/tls.h */

enum {
    CONFIG_E_INVALID = 1,
};

/* Roles as bits: those that use a setting. */
enum config_role {
    CONFIG_SCHEDULER = 1,
    CONFIG_AGENT = 2,
    CONFIG_SUPERVISOR = 4,
    CONFIG_CLI = 8,
};

/* The values of settings that are words; docs/OPERATIONS.md explains them. */
enum config_durability {
    CONFIG_FAST,
    CONFIG_STRICT,
};

enum config_replication {
    CONFIG_REPLICATION_AUTO,
    CONFIG_REPLICATION_NONE,
    CONFIG_REPLICATION_QUORUM,
};

enum config_queue_type {
    CONFIG_QUEUES_AUTO,
    CONFIG_QUORUM,
    CONFIG_CLASSIC,
};

enum config_step_messages {
    CONFIG_STEPS_AUTO,
    CONFIG_PERSISTENT,
    CONFIG_TRANSIENT,
};

enum config_login {
    CONFIG_PASSWORD,
    CONFIG_CERTIFICATE,
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

/* How the connections to a server are encrypted. */
struct config_tls {
    bool on;
    bool insecure; /* in clear text to anywhere */
    const char *ca_file;
    const char *cert_file;
    const char *key_file;
    const char *server_name;
    int login;                   /* enum config_login */
    struct tls_context *context; /* of config_secure_bus() or config_secure_store(); NULL before */
};

/* The values of all settings. Texts are never NULL, and "" if not given; the struct owns them. */
struct config {
    const char *name; /* of this process, unique in its role; default <host>-<pid> */
    int64_t drain_timeout_ms;
    struct {
        const char *uri;  /* its parts have replaced the values below */
        const char *host; /* for hosts_parse() */
        int64_t port;     /* of the hosts that name none */
        struct config_tls tls;
        const char *vhost;
        const char *user;
        const char *password;
        int64_t heartbeat_ms; /* whole seconds */
        int64_t prefetch;     /* of a scheduler: messages */
        int replication;      /* enum config_replication; the queues follow from it, see
                                 config_bus(), and from its two predecessors: */
        int queue_type;       /* enum config_queue_type */
        int step_messages;    /* enum config_step_messages */
        bool declare;
    } rabbitmq;
    struct {
        const char *uri; /* its parts have replaced the values below */
        const char *host;
        int64_t port;
        struct config_tls tls;
        const char *socket; /* path of a Unix socket; if given, host and port are not used */
        const char *user;
        const char *password;
        const char *master_name; /* "": host names servers; else Sentinels */
        const char *sentinel_user;
        const char *sentinel_password;
        int64_t database;
        const char *prefix;
        int64_t partitions;
        int durability; /* enum config_durability */
        int64_t replicas;
        int64_t loss_window_ms;
        int64_t call_timeout_ms;
    } redis;
    struct {
        const char *listen; /* for address_parse(), or "" */
        int64_t pulse_ms;
        int64_t stall_ms; /* 0 for never */
    } health;
    struct {
        int level;  /* enum log_level */
        int format; /* enum log_format */
    } log;
    struct {
        bool dumpable;
        int identity;            /* enum config_identity */
        int replies;             /* enum config_replies */
        const char *operators;   /* users of the broker, separated by spaces */
        const char *supervisors; /* users of the broker, separated by spaces */
    } security;                  /* config_root() has the list `submitters` as well */
    struct {
        const char *workflows;     /* a folder */
        const char *alert_command; /* path of a program */
        int64_t alert_interval_ms; /* one alert of a cause in it, and a count of the others */
        const char *json_actors;   /* names, separated by spaces */
        int definitions;           /* enum config_definitions */
        int64_t bad_replies;       /* per second and actor; 0 for any number */
        int64_t horizon_ms;        /* 0 for none */
        int64_t declared_actors;   /* actors that no registered workflow names */
        int64_t full_at;           /* percent of maxmemory of the store */
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
        int64_t consumer_timeout_ms; /* consumer_timeout of the broker; 0 if it has none */
    } agent;                         /* config_root() has the list `actors` as well */
};

struct config_source {
    const char *file;        /* NULL for none */
    char *const *environ;    /* NULL for none */
    const char *const *sets; /* "path=value" */
    int n_sets;
    bool secret_sets; /* sets may give secrets: they are not from a command line, which is public */
};

/**
 * config_load() - read and check the values of all settings
 * @out:    the caller frees it with config_free()
 * @source: not kept
 *
 * Return: 0, -errno, or CONFIG_E_INVALID with @problem set: its field says where ("<file>:<line>",
 * a variable, "--set"), its reason what.
 */
int config_load(struct config **out, const struct config_source *source, struct problem *problem);

/* Accepts NULL. Return: NULL. */
struct config *config_free(struct config *c);
CLEANUP_DEFINE(struct config *, config_free)

/* Return: the file as libconfig has read it, for lists that the table does not check: agent.actors
 * and security.submitters. An empty group if there was no file. Valid as long as @c. */
struct config_setting_t *config_root(const struct config *c);

/* Appends the paths of the settings in which @a and @b differ, separated by spaces. */
void config_difference(const struct config *a, const struct config *b, struct buf *out);

/* Prints one line for each setting with the value in force; for a secret only whether it is given.
 */
void config_print(const struct config *c, FILE *out);

/* Prints description, type, range and default of each setting that @role uses. */
void config_describe(enum config_role role, FILE *out);

/* Prints a configuration file that explains each setting, with the defaults in comments. */
void config_sample(FILE *out);

/* Prints the man page drover.cfg(5) in the language of scdoc. */
void config_manual(FILE *out);
