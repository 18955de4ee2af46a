// SPDX-License-Identifier: Apache-2.0
/*
 * Setup of the agent: which actors it serves, and how; from the list agent.actors
 *
 *     agent = {
 *         actors = (
 *             { name = "payments"; handler = "exec";
 *               lease_retries = 0;          # further tries within one lease
 *               user = "charger";           # as whom its programs run, where the agent is root
 *               breaker = { failures = 5; open = "5s"; open_max = "1m"; }; # none unless given
 *               ack = "late";               # or "early": when the handler starts
 *               batch = 8;                  # requests in one message, where they are short
 *               actions = (
 *                   { name = "charge";      # "*": any that is not listed
 *                     command = ["/usr/bin/charge", "--json"];
 *                     stdin = "request";    # or "input", the default
 *                     env = ["MODE=live"];
 *                     permanent_exit_codes = [2];
 *                     kill_grace = "1s";    # from SIGTERM to SIGKILL
 *                     files = 1024; processes = 64; megabytes = 512; # limits of the program
 *                     result_type = "application/json"; } ); },
 *             { name = "stock"; handler = "http";    # the keys of an action: http_request.h
 *               breaker = { failures = 5; open = "5s"; open_max = "1m"; }; # the default
 *               actions = ( { name = "reserve"; url = "http://stock:8001/reservations/${job}"; } );
 * }, { name = "demo"; handler = "builtin"; actions = ( { name = "*"; builtin = "noop"; } ); } );
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
#include "io/tree.h"

struct handler;

struct agent_action {
    char *name;
    char *builtin;                 /* which one; NULL: that of the action's name */
    struct breaker_config breaker; /* exec, http; no failures: none */

    /* exec */
    char **command;     /* argv, NULL at the end */
    char **env;         /* NAME=value, NULL at the end */
    bool whole_request; /* stdin gets the request as JSON, not the input's bytes */
    bool permanent[256];
    int64_t kill_grace_ms;
    char *result_type;
    bool other_user; /* it runs as: */
    uid_t uid;
    gid_t gid;
    int64_t files;     /* limits of the program; 0: the agent's own */
    int64_t processes; /* of its user */
    int64_t memory;    /* bytes of address space */

    struct http_action *http;
};

struct agent_served {
    struct agent_actor actor;
    char *user; /* as whom its programs run; NULL: as the agent's */
    uid_t uid;
    gid_t gid;
    const struct handler *handler;
    struct breaker_config breaker; /* of its actions */
    struct agent_action *actions;
    size_t n_actions;
};

struct agent_setup {
    struct agent_served *actors;
    size_t n_actors;
};

/**
 * agent_setup_read() - read the list agent.actors
 * @root:    of a configuration file; not needed afterwards
 * @problem: which line and key, and what would be right
 *
 * Unknown keys are refused.
 *
 * Return: 0, -ENOMEM or TREE_E_INVALID; only after 0 is @out to be freed.
 */
int agent_setup_read(struct agent_setup **out, config_setting_t *root, struct problem *problem);

/* Accepts NULL; returns NULL. */
struct agent_setup *agent_setup_free(struct agent_setup *setup);
CLEANUP_DEFINE(struct agent_setup *, agent_setup_free)

const struct agent_served *agent_setup_actor(const struct agent_setup *setup, const char *name);

/* The action of this name, else the one called "*", else NULL. */
const struct agent_action *agent_served_action(const struct agent_served *served, const char *name);
