// SPDX-License-Identifier: Apache-2.0
/*
 * Agent setup: which actors the agent serves, and how; read from the list agent.actors
 *
 * main.c reads it to check the configuration, agent_io.c to run the agent. The handlers read their
 * actions from it.
 *
 *     agent = {
 *         actors = (
 *             { name = "payments"; handler = "exec";
 *               lease_retries = 0;          # further tries within one lease; the default
 *               user = "charger";           # the user of its programs; needs an agent of root
 *               breaker = { failures = 5; open = "5s"; open_max = "1m"; }; # none unless given
 *               ack = "late";               # or "early": after the first Progress
 *               batch = 8;                  # most requests in one message; the default
 *               actions = (
 *                   { name = "charge";      # "*": any action that is not listed
 *                     command = ["/usr/bin/charge", "--json"];
 *                     stdin = "request";    # or "input", the default
 *                     env = ["MODE=live"];
 *                     permanent_exit_codes = [2];
 *                     kill_grace = "1s";    # from SIGTERM to SIGKILL
 *                     files = 1024; processes = 64; megabytes = 512; # limits of the program
 *                     result_type = "application/json"; } ); },
 *             { name = "stock"; handler = "http";    # the keys of an action: http_request.h
 *               breaker = { failures = 5; open = "5s"; open_max = "1m"; }; # the default
 *               ca_file = "/etc/ca.pem";    # ca_file, cert_file, key_file, insecure: of each of
 *               insecure = true;            # its actions that has none of its own
 *               actions = ( { name = "reserve";
 *                             url = "http://stock:8001/reservations/${job}"; } ); },
 *             { name = "demo"; handler = "builtin";
 *               actions = ( { name = "*"; builtin = "noop"; } ); } );
 *     };
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/agent.h"
#include "agent/breaker.h"
#include "agent/http_request.h"
#include "base/cleanup.h"
#include "base/status.h"
#include "io/config/config_tree.h"

struct handler;

/* What the configuration says of one action. Which members are set depends on the handler. The
 * setup owns all pointers. */
struct agent_action {
    char *name;
    char *builtin;                 /* builtin: its name there; NULL: as the action's */
    struct breaker_config breaker; /* exec, http; failures is 0: it has none */

    /* exec */
    char **command;        /* argv, NULL at the end */
    char **env;            /* NAME=value, NULL at the end */
    bool whole_request;    /* stdin gets the request as JSON, not the input's bytes */
    bool permanent[256];   /* by exit code: the step must not be tried again */
    int64_t kill_grace_ms; /* from SIGTERM to SIGKILL */
    char *result_type;     /* content type of the result */
    bool other_user;       /* the program does not run as the agent's user, but as: */
    uid_t uid;
    gid_t gid;
    int64_t files;     /* limits of the program: open files; 0: the agent's own limit */
    int64_t processes; /* all processes of its user; 0: likewise */
    int64_t memory;    /* bytes of address space; 0: likewise */

    struct http_action *http; /* http; else NULL */
};

/* An actor that the agent serves. The setup owns all pointers but the handler. */
struct agent_served {
    struct agent_actor actor;
    char *user; /* its programs run as this user; NULL: as the agent's */
    uid_t uid;
    gid_t gid;
    const struct handler *handler;
    struct breaker_config breaker; /* of each of its actions */
    struct http_security security; /* likewise; http */
    struct agent_action *actions;
    size_t n_actions;
};

struct agent_setup {
    struct agent_served *actors;
    size_t n_actors;
};

/**
 * agent_setup_read() - read the list agent.actors
 * @out:     set where 0 is returned; then the caller frees it with agent_setup_free()
 * @root:    of a configuration file; not needed afterwards
 * @problem: which line and key is wrong, and what would be right; may be NULL
 *
 * An unknown key is an error.
 *
 * Return: 0, -ENOMEM or TREE_E_INVALID.
 */
int agent_setup_read(struct agent_setup **out, config_setting_t *root, struct problem *problem);

/* Checks that the certificates and keys of all actions can be used, now. Return: 0, -ENOMEM, or
 * TREE_E_INVALID with @problem set. */
int agent_setup_check_files(const struct agent_setup *setup, struct problem *problem);

/* Reads when the first of the agent's certificates for services (cert_file) expires. Return:
 * seconds since 1970; 0: there is none that can be read. */
int64_t agent_setup_expiry(const struct agent_setup *setup);

/* Accepts NULL; returns NULL. */
struct agent_setup *agent_setup_free(struct agent_setup *setup);
CLEANUP_DEFINE(struct agent_setup *, agent_setup_free)

/* Return: the actor of this name, NULL if the agent does not serve it; owned by the setup. */
const struct agent_served *agent_setup_actor(const struct agent_setup *setup, const char *name);

/* Return: the action of this name, else the one called "*", else NULL; owned by the setup. */
const struct agent_action *agent_served_action(const struct agent_served *served, const char *name);
