// SPDX-License-Identifier: Apache-2.0
#include "agent/agent_config.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/handler.h"
#include "base/id.h"
#include "model/policy.h"
#include "model/wire.h"

#define MINUTE_MS (60 * POLICY_SECOND_MS)
#define LEASE_RETRIES_MAX 100
#define KILL_GRACE_MS POLICY_SECOND_MS
#define KILL_GRACE_MAX_MS (60 * MINUTE_MS)
#define EXIT_CODE_MAX 255

/* Half of RabbitMQ's default consumer_timeout: longer, and it might take the request away. */
#define EARLY_ACK_MS (15 * MINUTE_MS)

static const char RESULT_TYPE[] = "application/octet-stream";

/* ---- groups ---- */

static int unknown_key(const config_setting_t *at, const char *const *known,
                       struct problem *problem)
{
    struct nearest nearest = nearest_to(config_setting_name(at));
    char hint[64];

    for (; *known; known++)
        nearest_try(&nearest, *known);
    return tree_problem(at, problem, "is not known here%s",
                        nearest_text(&nearest, hint, sizeof(hint)));
}

/* @known ends with NULL. */
static int check_group(const config_setting_t *at, const char *const *known,
                       struct problem *problem)
{
    if (!config_setting_is_group(at))
        return tree_problem(at, problem, "must be a group: { ... }");
    for (unsigned i = 0; i < (unsigned)config_setting_length(at); i++) {
        const config_setting_t *member = config_setting_get_elem(at, i);
        const char *const *name = known;

        while (*name && strcmp(*name, config_setting_name(member)) != 0)
            name++;
        if (!*name)
            return unknown_key(member, known, problem);
    }
    return 0;
}

/* ---- single values; what is not given leaves *out as it is ---- */

static int read_int(const config_setting_t *group, const char *key, int64_t min, int64_t max,
                    int64_t *out, struct problem *problem)
{
    const config_setting_t *at = config_setting_get_member(group, key);
    int type = at ? config_setting_type(at) : CONFIG_TYPE_NONE;
    int64_t value;

    if (!at)
        return 0;
    value = config_setting_get_int64(at);
    if ((type != CONFIG_TYPE_INT && type != CONFIG_TYPE_INT64) || value < min || value > max)
        return tree_problem(at, problem, "must be a number from %" PRId64 " to %" PRId64, min, max);
    *out = value;
    return 0;
}

static int read_duration(const config_setting_t *group, const char *key, int64_t max, int64_t *out,
                         struct problem *problem)
{
    const config_setting_t *at = config_setting_get_member(group, key);
    const char *text = at ? config_setting_get_string(at) : NULL;
    int64_t value;

    if (!at)
        return 0;
    if (!text || !duration_parse(text, &value) || value > max)
        return tree_problem(
            at, problem, "must be a duration such as \"1s\" (ms, s, m, h, d), at most %" PRId64 "s",
            max / POLICY_SECOND_MS);
    *out = value;
    return 0;
}

static int copy_text(const config_setting_t *at, char **out, struct problem *problem)
{
    const char *text = config_setting_get_string(at);

    if (!text || !*text)
        return tree_problem(at, problem, "must be text, \"...\", and not empty");
    free(*out);
    *out = strdup(text);
    return *out ? 0 : -ENOMEM;
}

static int read_text(const config_setting_t *group, const char *key, char **out,
                     struct problem *problem)
{
    const config_setting_t *at = config_setting_get_member(group, key);

    return at ? copy_text(at, out, problem) : 0;
}

static bool is_sequence(const config_setting_t *at)
{
    return config_setting_is_array(at) || config_setting_is_list(at);
}

/* *out ends with NULL; it is there, if empty, also where the key is not. */
static int read_texts(const config_setting_t *group, const char *key, char ***out,
                      struct problem *problem)
{
    const config_setting_t *at = config_setting_get_member(group, key);
    unsigned n = 0;
    int r = 0;

    if (at && !is_sequence(at))
        return tree_problem(at, problem, "must be a list of texts: [\"...\", \"...\"]");
    if (at)
        n = (unsigned)config_setting_length(at);
    *out = calloc(n + 1, sizeof(**out));
    if (!*out)
        return -ENOMEM;
    for (unsigned i = 0; !r && i < n; i++)
        r = copy_text(config_setting_get_elem(at, i), &(*out)[i], problem);
    return r;
}

/* One of two words. */
static int read_choice(const config_setting_t *group, const char *key, const char *no,
                       const char *yes, bool *out, struct problem *problem)
{
    const config_setting_t *at = config_setting_get_member(group, key);
    const char *text = at ? config_setting_get_string(at) : NULL;

    if (!at)
        return 0;
    if (!text || (strcmp(text, no) != 0 && strcmp(text, yes) != 0))
        return tree_problem(at, problem, "must be \"%s\" or \"%s\"", no, yes);
    *out = strcmp(text, yes) == 0;
    return 0;
}

static int read_name(const config_setting_t *group, bool any, char **out, struct problem *problem)
{
    const config_setting_t *at = config_setting_get_member(group, "name");
    int r = at ? copy_text(at, out, problem) : tree_problem(group, problem, "name is missing");

    if (r)
        return r;
    assert(*out);
    if (!(any && strcmp(*out, "*") == 0) && !id_name_valid(*out, strlen(*out)))
        return tree_problem(at, problem, "must be at most %d letters, digits, '.', '_', '-'",
                            ID_NAME_MAX);
    return 0;
}

/* ---- actions ---- */

static int read_exit_codes(const config_setting_t *group, bool permanent[EXIT_CODE_MAX + 1],
                           struct problem *problem)
{
    const config_setting_t *at = config_setting_get_member(group, "permanent_exit_codes");

    if (!at)
        return 0;
    if (!is_sequence(at))
        return tree_problem(at, problem, "must be a list of numbers: [2, 3]");
    for (unsigned i = 0; i < (unsigned)config_setting_length(at); i++) {
        const config_setting_t *code = config_setting_get_elem(at, i);
        int value = config_setting_get_int(code);

        if (config_setting_type(code) != CONFIG_TYPE_INT || value < 1 || value > EXIT_CODE_MAX)
            return tree_problem(code, problem, "must be an exit code from 1 to %d", EXIT_CODE_MAX);
        permanent[value] = true;
    }
    return 0;
}

static int check_env(const config_setting_t *group, char *const *env, struct problem *problem)
{
    const config_setting_t *at = config_setting_get_member(group, "env");

    for (unsigned i = 0; env[i]; i++) {
        const char *equals = strchr(env[i], '=');

        if (!equals || equals == env[i] || strncmp(env[i], "DROVER_", 7) == 0)
            return tree_problem(config_setting_get_elem(at, i), problem,
                                "must be NAME=value, the name not beginning with DROVER_");
    }
    return 0;
}

static int read_exec(struct agent_action *action, const config_setting_t *group,
                     struct problem *problem)
{
    static const char *const keys[] = {
        "name",       "command",     "stdin", "env", "permanent_exit_codes",
        "kill_grace", "result_type", NULL};
    int r = check_group(group, keys, problem);

    action->kill_grace_ms = KILL_GRACE_MS;
    if (!r)
        r = read_texts(group, "command", &action->command, problem);
    if (!r && !action->command[0])
        r = tree_problem(group, problem,
                         "command is missing, such as [\"/usr/bin/program\", \"-x\"]");
    if (!r)
        r = read_choice(group, "stdin", "input", "request", &action->whole_request, problem);
    if (!r)
        r = read_texts(group, "env", &action->env, problem);
    if (!r)
        r = check_env(group, action->env, problem);
    if (!r)
        r = read_exit_codes(group, action->permanent, problem);
    if (!r)
        r = read_duration(group, "kill_grace", KILL_GRACE_MAX_MS, &action->kill_grace_ms, problem);
    if (!r)
        r = read_text(group, "result_type", &action->result_type, problem);
    if (!r && action->result_type && strlen(action->result_type) > WIRE_CONTENT_TYPE_MAX)
        r = tree_problem(config_setting_get_member(group, "result_type"), problem,
                         "must be at most %d bytes", WIRE_CONTENT_TYPE_MAX);
    if (!r && !action->result_type && !(action->result_type = strdup(RESULT_TYPE)))
        r = -ENOMEM;
    return r;
}

static int read_builtin(struct agent_action *action, const config_setting_t *group,
                        struct problem *problem)
{
    static const char *const keys[] = {"name", "builtin", NULL};
    int r = check_group(group, keys, problem);

    if (!r)
        r = read_text(group, "builtin", &action->builtin, problem);
    if (!r && action->builtin && !handler_builtin_known(action->builtin))
        r = tree_problem(config_setting_get_member(group, "builtin"), problem,
                         "must be noop, echo, sleep or fail");
    return r;
}

static int read_action(struct agent_served *served, const config_setting_t *at,
                       struct problem *problem)
{
    struct agent_action *action = &served->actions[served->n_actions++];
    int r;

    if (!config_setting_is_group(at))
        return tree_problem(at, problem, "must be a group: { ... }");
    r = read_name(at, true, &action->name, problem);
    if (r)
        return r;
    for (size_t i = 0; i + 1 < served->n_actions; i++)
        if (strcmp(served->actions[i].name, action->name) == 0)
            return tree_problem(config_setting_get_member(at, "name"), problem,
                                "is already that of actions[%zu]", i);
    return served->handler == &handler_exec ? read_exec(action, at, problem)
                                            : read_builtin(action, at, problem);
}

static int read_actions(struct agent_served *served, const config_setting_t *group,
                        struct problem *problem)
{
    const config_setting_t *at = config_setting_get_member(group, "actions");
    unsigned n;
    int r = 0;

    if (!at)
        return served->handler == &handler_exec
                   ? tree_problem(group, problem, "actions are missing")
                   : 0;
    if (!config_setting_is_list(at))
        return tree_problem(at, problem, "must be a list of groups: ( { ... }, { ... } )");
    n = (unsigned)config_setting_length(at);
    served->actions = calloc(n + 1, sizeof(*served->actions));
    if (!served->actions)
        return -ENOMEM;
    for (unsigned i = 0; !r && i < n; i++)
        r = read_action(served, config_setting_get_elem(at, i), problem);
    return r;
}

/* ---- actors ---- */

static int read_handler(struct agent_served *served, const config_setting_t *group,
                        struct problem *problem)
{
    const config_setting_t *at = config_setting_get_member(group, "handler");
    bool exec = false;
    int r;

    if (!at)
        return tree_problem(group, problem, "handler is missing: \"exec\" or \"builtin\"");
    r = read_choice(group, "handler", handler_builtin.name, handler_exec.name, &exec, problem);
    served->handler = exec ? &handler_exec : &handler_builtin;
    return r;
}

static int read_actor(struct agent_setup *setup, const config_setting_t *at,
                      struct problem *problem)
{
    static const char *const keys[] = {"name", "handler", "lease_retries", "ack", "actions", NULL};
    struct agent_served *served = &setup->actors[setup->n_actors++];
    int64_t lease_retries = 0;
    bool early = false;
    int r = check_group(at, keys, problem);

    if (!r)
        r = read_name(at, false, (char **)&served->actor.name, problem);
    for (size_t i = 0; !r && i + 1 < setup->n_actors; i++)
        if (strcmp(setup->actors[i].actor.name, served->actor.name) == 0)
            r = tree_problem(config_setting_get_member(at, "name"), problem,
                             "is already that of actors[%zu]", i);
    if (!r)
        r = read_handler(served, at, problem);
    if (!r)
        r = read_int(at, "lease_retries", 0, LEASE_RETRIES_MAX, &lease_retries, problem);
    if (!r)
        r = read_choice(at, "ack", "late", "early", &early, problem);
    served->actor.lease_retries = (unsigned)lease_retries;
    served->actor.early_ack_ms = early ? 1 : EARLY_ACK_MS;
    return r ? r : read_actions(served, at, problem);
}

static int read_actors(struct agent_setup *setup, const config_setting_t *at,
                       struct problem *problem)
{
    unsigned n;
    int r = 0;

    if (!config_setting_is_list(at) || config_setting_length(at) == 0)
        return tree_problem(at, problem, "must be a list of groups: ( { ... }, { ... } )");
    n = (unsigned)config_setting_length(at);
    setup->actors = calloc(n, sizeof(*setup->actors));
    if (!setup->actors)
        return -ENOMEM;
    for (unsigned i = 0; !r && i < n; i++)
        r = read_actor(setup, config_setting_get_elem(at, i), problem);
    return r;
}

int agent_setup_read(struct agent_setup **out, config_setting_t *root, struct problem *problem)
{
    CLEANUP(agent_setup_free) struct agent_setup *setup = calloc(1, sizeof(*setup));
    const config_setting_t *at = config_setting_lookup(root, "agent.actors");
    int r;

    if (!setup)
        return -ENOMEM;
    if (!at) {
        problem_set(problem, "agent.actors", "is missing: the agent is to serve some actor");
        return TREE_E_INVALID;
    }
    r = read_actors(setup, at, problem);
    if (r)
        return r;
    *out = take(setup);
    return 0;
}

/* ---- what is read ---- */

static void free_texts(char **texts)
{
    for (char **t = texts; t && *t; t++)
        free(*t);
    free(texts);
}

static void free_served(struct agent_served *served)
{
    for (size_t i = 0; i < served->n_actions; i++) {
        struct agent_action *action = &served->actions[i];

        free(action->name);
        free(action->builtin);
        free(action->result_type);
        free_texts(action->command);
        free_texts(action->env);
    }
    free(served->actions);
    free((char *)served->actor.name);
}

struct agent_setup *agent_setup_free(struct agent_setup *setup)
{
    if (!setup)
        return NULL;
    for (size_t i = 0; i < setup->n_actors; i++)
        free_served(&setup->actors[i]);
    free(setup->actors);
    free(setup);
    return NULL;
}

const struct agent_served *agent_setup_actor(const struct agent_setup *setup, const char *name)
{
    for (size_t i = 0; i < setup->n_actors; i++)
        if (strcmp(setup->actors[i].actor.name, name) == 0)
            return &setup->actors[i];
    return NULL;
}

static const struct agent_action *action_named(const struct agent_served *served, const char *name)
{
    for (size_t i = 0; i < served->n_actions; i++)
        if (strcmp(served->actions[i].name, name) == 0)
            return &served->actions[i];
    return NULL;
}

const struct agent_action *agent_served_action(const struct agent_served *served, const char *name)
{
    const struct agent_action *action = action_named(served, name);

    return action ? action : action_named(served, "*");
}
