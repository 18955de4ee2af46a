// SPDX-License-Identifier: Apache-2.0
/*
 * Agent setup: reads and checks the list agent.actors, one reader for each kind of handler
 *
 * Implements agent_config.h; main.c and agent_io.c call it.
 */
#include "agent/agent_config.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/handler.h"
#include "agent/http_config.h"
#include "base/id.h"
#include "io/tls.h"
#include "model/policy.h"
#include "model/wire.h"

#define MINUTE_MS (60 * POLICY_SECOND_MS)
#define LEASE_RETRIES_MAX 100
#define KILL_GRACE_MS POLICY_SECOND_MS
#define KILL_GRACE_MAX_MS (60 * MINUTE_MS)
#define EXIT_CODE_MAX 255
#define HTTP_LEASE_RETRIES 2
#define FILES_DEFAULT 1024
#define PROCESSES_DEFAULT 256
#define BREAKER_FAILURES 5
#define BREAKER_FAILURES_MAX 1000
#define BREAKER_OPEN_MS (5 * POLICY_SECOND_MS)
#define BREAKER_OPEN_MAX_MS MINUTE_MS
#define BREAKER_TIME_MAX_MS (60 * MINUTE_MS)

static const char RESULT_TYPE[] = "application/octet-stream";

static int read_name(const config_setting_t *group, bool any, char **out, struct problem *problem)
{
    const config_setting_t *at = config_setting_get_member(group, "name");
    int r = at ? tree_text_of(at, out, problem) : tree_problem(group, problem, "name is missing");

    if (r)
        return r;
    assert(*out);
    if (!(any && strcmp(*out, "*") == 0) && !id_name_valid(*out, strlen(*out)))
        return tree_problem(at, problem, "must be at most %d letters, digits, '.', '_', '-'",
                            ID_NAME_MAX);
    return 0;
}

/* ---- actions of the handlers exec and builtin ---- */

static int read_exit_codes(const config_setting_t *group, bool permanent[EXIT_CODE_MAX + 1],
                           struct problem *problem)
{
    const config_setting_t *at = config_setting_get_member(group, "permanent_exit_codes");

    if (!at)
        return 0;
    if (!tree_is_sequence(at))
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

/* The kernel counts processes by user. Where the program runs as the agent's user, other processes
 * of that user count as well, so there is no default limit. */
static int read_limits(const struct agent_served *served, struct agent_action *action,
                       const config_setting_t *group, struct problem *problem)
{
    int64_t megabytes = 0;
    int r;

    action->other_user = served->user != NULL;
    action->uid = served->uid;
    action->gid = served->gid;
    action->files = FILES_DEFAULT;
    action->processes = served->user ? PROCESSES_DEFAULT : 0;
    r = tree_int(group, "files", 0, INT32_MAX, &action->files, problem);
    if (!r)
        r = tree_int(group, "processes", 0, INT32_MAX, &action->processes, problem);
    if (!r)
        r = tree_int(group, "megabytes", 0, INT32_MAX, &megabytes, problem);
    action->memory = megabytes << 20;
    return r;
}

static int read_exec(const struct agent_served *served, struct agent_action *action,
                     const config_setting_t *group, struct problem *problem)
{
    static const char *const keys[] = {
        "name",       "command",     "stdin", "env",       "permanent_exit_codes",
        "kill_grace", "result_type", "files", "processes", "megabytes",
        NULL};
    int r = tree_keys(group, keys, problem);

    action->kill_grace_ms = KILL_GRACE_MS;
    if (!r)
        r = tree_texts(group, "command", &action->command, problem);
    if (!r && !action->command[0])
        r = tree_problem(group, problem,
                         "command is missing, such as [\"/usr/bin/program\", \"-x\"]");
    if (!r)
        r = tree_choice(group, "stdin", "input", "request", &action->whole_request, problem);
    if (!r)
        r = tree_texts(group, "env", &action->env, problem);
    if (!r)
        r = check_env(group, action->env, problem);
    if (!r)
        r = read_exit_codes(group, action->permanent, problem);
    if (!r)
        r = tree_duration(group, "kill_grace", KILL_GRACE_MAX_MS, &action->kill_grace_ms, problem);
    if (!r)
        r = read_limits(served, action, group, problem);
    if (!r)
        r = tree_text(group, "result_type", &action->result_type, problem);
    if (!r && action->result_type && strlen(action->result_type) > WIRE_CONTENT_TYPE_MAX)
        r = tree_problem(config_setting_get_member(group, "result_type"), problem,
                         "must be at most %d bytes", WIRE_CONTENT_TYPE_MAX);
    if (!r && !action->result_type && !(action->result_type = strdup(RESULT_TYPE)))
        r = -ENOMEM;
    return r;
}

static int read_builtin(const struct agent_served *served, struct agent_action *action,
                        const config_setting_t *group, struct problem *problem)
{
    static const char *const keys[] = {"name", "builtin", NULL};
    int r = tree_keys(group, keys, problem);

    if (!r)
        r = tree_text(group, "builtin", &action->builtin, problem);
    if (!r && action->builtin && !handler_builtin_known(action->builtin))
        r = tree_problem(config_setting_get_member(group, "builtin"), problem,
                         "must be noop, echo, sleep or fail");
    return r;
}

static int read_http(const struct agent_served *served, struct agent_action *action,
                     const config_setting_t *group, struct problem *problem)
{
    return http_config_read(&action->http, &served->security, group, problem);
}

/* ---- the list of actions, for any handler ---- */

typedef int read_action_fn(const struct agent_served *served, struct agent_action *action,
                           const config_setting_t *group, struct problem *problem);

static const struct kind {
    const struct handler *handler;
    read_action_fn *read;
    unsigned lease_retries; /* the default */
    bool needs_actions;
} kinds[] = {
    {&handler_builtin, read_builtin, 0, false},
    {&handler_exec, read_exec, 0, true},
    {&handler_http, read_http, HTTP_LEASE_RETRIES, true},
};

static int read_action(struct agent_served *served, const struct kind *kind,
                       const config_setting_t *at, struct problem *problem)
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
    action->breaker = served->breaker;
    return kind->read(served, action, at, problem);
}

static int read_actions(struct agent_served *served, const struct kind *kind,
                        const config_setting_t *group, struct problem *problem)
{
    const config_setting_t *at = config_setting_get_member(group, "actions");
    unsigned n;
    int r = 0;

    if (!at)
        return kind->needs_actions ? tree_problem(group, problem, "actions are missing") : 0;
    if (!config_setting_is_list(at))
        return tree_problem(at, problem, "must be a list of groups: ( { ... }, { ... } )");
    n = (unsigned)config_setting_length(at);
    served->actions = calloc(n + 1, sizeof(*served->actions));
    if (!served->actions)
        return -ENOMEM;
    for (unsigned i = 0; !r && i < n; i++)
        r = read_action(served, kind, config_setting_get_elem(at, i), problem);
    return r;
}

/* ---- actors ---- */

static int read_kind(const struct kind **out, const config_setting_t *group,
                     struct problem *problem)
{
    const config_setting_t *at = config_setting_get_member(group, "handler");
    const char *name = at ? config_setting_get_string(at) : NULL;

    for (size_t i = 0; name && i < array_size(kinds); i++) {
        if (strcmp(kinds[i].handler->name, name) == 0) {
            *out = &kinds[i];
            return 0;
        }
    }
    return tree_problem(at ? at : group, problem,
                        at ? "must be \"http\", \"exec\" or \"builtin\""
                           : "handler is missing: \"http\", \"exec\" or \"builtin\"");
}

static int read_breaker(struct agent_served *served, const config_setting_t *group,
                        struct problem *problem)
{
    static const char *const keys[] = {"failures", "open", "open_max", NULL};
    const config_setting_t *at = config_setting_get_member(group, "breaker");
    struct breaker_config *b = &served->breaker;
    int64_t failures = BREAKER_FAILURES;
    int r;

    *b = (struct breaker_config){0, BREAKER_OPEN_MS, BREAKER_OPEN_MAX_MS};
    if (!at) {
        /* By default only http has breakers. An exit code says less than an HTTP status: 1 may mean
         * a bad request, or an outage. */
        b->failures = served->handler == &handler_http ? BREAKER_FAILURES : 0;
        return 0;
    }
    if (served->handler == &handler_builtin)
        return tree_problem(at, problem, "only the handlers \"http\" and \"exec\" have breakers");
    r = tree_keys(at, keys, problem);
    if (!r)
        r = tree_int(at, "failures", 1, BREAKER_FAILURES_MAX, &failures, problem);
    if (!r)
        r = tree_duration(at, "open", BREAKER_TIME_MAX_MS, &b->open_ms, problem);
    if (!r)
        r = tree_duration(at, "open_max", BREAKER_TIME_MAX_MS, &b->open_max_ms, problem);
    if (!r && (b->open_ms < 1 || b->open_max_ms < b->open_ms))
        r = tree_problem(at, problem, "open must be more than 0, and open_max at least that");
    b->failures = (unsigned)failures;
    return r;
}

static int read_user(struct agent_served *served, const config_setting_t *group,
                     struct problem *problem)
{
    const config_setting_t *at = config_setting_get_member(group, "user");
    const struct passwd *user;
    int r = at ? tree_text(group, "user", &served->user, problem) : 0;

    if (!at || r)
        return r;
    if (served->handler != &handler_exec)
        return tree_problem(at, problem, "only the handler \"exec\" runs programs");
    user = getpwnam(served->user);
    if (!user)
        return tree_problem(at, problem, "there is no user '%s' on this system", served->user);
    served->uid = user->pw_uid;
    served->gid = user->pw_gid;
    return 0;
}

static int read_actors_security(struct agent_served *served, const config_setting_t *group,
                                struct problem *problem)
{
    static const char *const keys[] = {"ca_file", "cert_file", "key_file", "insecure"};

    for (size_t i = 0; served->handler != &handler_http && i < array_size(keys); i++) {
        const config_setting_t *at = config_setting_get_member(group, keys[i]);

        if (at)
            return tree_problem(at, problem, "only the handler \"http\" makes connections");
    }
    return http_config_security(&served->security, group, problem);
}

static int read_actor(struct agent_setup *setup, const config_setting_t *at,
                      struct problem *problem)
{
    static const char *const keys[] = {
        "name",    "handler",   "lease_retries", "ack",      "batch",   "user", "breaker",
        "ca_file", "cert_file", "key_file",      "insecure", "actions", NULL};
    struct agent_served *served = &setup->actors[setup->n_actors++];
    const struct kind *kind = NULL;
    int64_t lease_retries = 0, batch = WIRE_BATCH_MAX;
    bool early = false;
    int r = tree_keys(at, keys, problem);

    if (!r)
        r = read_name(at, false, (char **)&served->actor.name, problem);
    for (size_t i = 0; !r && i + 1 < setup->n_actors; i++)
        if (strcmp(setup->actors[i].actor.name, served->actor.name) == 0)
            r = tree_problem(config_setting_get_member(at, "name"), problem,
                             "is already that of actors[%zu]", i);
    if (!r)
        r = read_kind(&kind, at, problem);
    if (r)
        return r;
    assert(kind);
    served->handler = kind->handler;
    lease_retries = kind->lease_retries;
    r = tree_int(at, "lease_retries", 0, LEASE_RETRIES_MAX, &lease_retries, problem);
    if (!r)
        r = tree_choice(at, "ack", "late", "early", &early, problem);
    if (!r)
        r = tree_int(at, "batch", 1, WIRE_BATCH_MAX, &batch, problem);
    if (!r)
        r = read_user(served, at, problem);
    if (!r)
        r = read_breaker(served, at, problem);
    if (!r)
        r = read_actors_security(served, at, problem);
    served->actor.batch = (unsigned)batch;
    served->actor.lease_retries = (unsigned)lease_retries;
    served->actor.early_ack_ms = early ? 1 : 0;
    return r ? r : read_actions(served, kind, at, problem);
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

/* ---- the files that it names ---- */

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

/* @field: set to that of the file that cannot be used. Return: 0, -ENOMEM, or TREE_E_INVALID. */
static int check_files(const struct http_security *security, struct problem *problem)
{
    const struct tls_files files = {or_empty(security->ca_file), or_empty(security->cert_file),
                                    or_empty(security->key_file)};
    struct tls_context *context = NULL;
    int r;

    if (!security->ca_file && !security->cert_file && !security->key_file)
        return 0;
    r = tls_context_new(&context, &files, problem);
    tls_context_free(context);
    return r > 0 ? TREE_E_INVALID : r;
}

int agent_setup_check_files(const struct agent_setup *setup, struct problem *problem)
{
    for (size_t i = 0; i < setup->n_actors; i++) {
        const struct agent_served *served = &setup->actors[i];

        for (size_t j = 0; j < served->n_actions; j++) {
            const struct http_action *http = served->actions[j].http;
            struct problem inner = {0};
            char field[sizeof(inner.field)];
            int r = http ? check_files(&http->security, &inner) : 0;

            if (!r)
                continue;
            snprintf(field, sizeof(field), "agent.actors[%zu].actions[%zu].%.16s", i, j,
                     inner.field);
            problem_set(problem, field, "%s", inner.reason);
            return r;
        }
    }
    return 0;
}

/* Actions inherit the file of their actor, which is read once. */
int64_t agent_setup_expiry(const struct agent_setup *setup)
{
    const char *before = "";
    int64_t first = 0;

    for (size_t i = 0; i < setup->n_actors; i++) {
        const struct agent_served *served = &setup->actors[i];

        for (size_t j = 0; j < served->n_actions; j++) {
            const struct http_action *http = served->actions[j].http;
            const char *file = http ? http->security.cert_file : NULL;

            if (!file || strcmp(file, before) == 0)
                continue;
            first = tls_first_expiry(first, tls_file_expiry(file));
            before = file;
        }
    }
    return first;
}

/* ---- the setup: release and lookup ---- */

static void free_texts(char **texts)
{
    for (char **t = texts; t && *t; t++)
        free(*t);
    free(texts);
}

static void free_security(struct http_security *security)
{
    free(security->ca_file);
    free(security->cert_file);
    free(security->key_file);
}

static void free_http(struct http_action *http)
{
    if (!http)
        return;
    free(http->method);
    free(http->url);
    free(http->target);
    free_security(&http->security);
    free(http->proxy);
    free_texts(http->headers);
    free(http);
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
        free_http(action->http);
    }
    free(served->actions);
    free((char *)served->actor.name);
    free(served->user);
    free_security(&served->security);
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
