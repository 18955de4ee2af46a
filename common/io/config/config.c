// SPDX-License-Identifier: Apache-2.0
/*
 * Configuration: reads the values of all settings from file, environment and command line
 *
 * A later one of these overrides an earlier one: default, file, environment, command line. See
 * io/config/config.h.
 */
#include "io/config/config.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "io/config/config_table.h"
#include "io/config/config_tree.h"
#include "io/config/config_value.h"
#include "io/config/url.h"
#include "io/file.h"
#include "io/tls.h"

#define SECRET_MAX 4096 /* bytes in a file */

struct owner {
    struct config config;
    config_t tree;
};

static int unknown(const char *path, const struct config_origin *o, struct problem *problem)
{
    struct nearest nearest = nearest_to(path);
    char hint[CONFIG_PATH_SIZE + 32];

    for (size_t i = 0; i < config_n_settings; i++)
        nearest_try(&nearest, config_settings[i].path);
    return config_problem(o, problem, "there is no such setting%s",
                          nearest_text(&nearest, hint, sizeof(hint)));
}

/* ---- the file ---- */

/* Return: the value as text, as on the command line; NULL if the type does not fit. */
static const char *scalar_text(const struct setting *s, const config_setting_t *node, char *out,
                               size_t size)
{
    switch (config_setting_type(node)) {
    case CONFIG_TYPE_STRING:
        return s->type != SETTING_INTEGER && s->type != SETTING_BOOLEAN
                   ? config_setting_get_string(node)
                   : NULL;
    case CONFIG_TYPE_BOOL:
        return s->type != SETTING_BOOLEAN ? NULL : config_setting_get_bool(node) ? "true" : "false";
    case CONFIG_TYPE_INT:
    case CONFIG_TYPE_INT64:
        snprintf(out, size, "%lld", config_setting_get_int64(node));
        return s->type == SETTING_INTEGER || s->type == SETTING_DURATION ? out : NULL;
    default:
        return NULL;
    }
}

static int set_from_node(struct config *c, const struct setting *s, const config_setting_t *node,
                         struct problem *problem)
{
    static const char *const forms[] = {
        [SETTING_TEXT] = "a text in quotes", [SETTING_SECRET] = "a text in quotes",
        [SETTING_INTEGER] = "an integer",    [SETTING_DURATION] = "a duration such as \"30s\"",
        [SETTING_BOOLEAN] = "true or false", [SETTING_WORD] = "a word in quotes",
    };
    struct config_origin origin = {.setting = node};
    char number[24];
    const char *value;

    if (s->type == SETTING_TREE)
        return 0;
    value = scalar_text(s, node, number, sizeof(number));
    if (!value)
        return config_problem(&origin, problem, "must be %s", forms[s->type]);
    return config_set(c, s, value, &origin, problem);
}

/* @at: path of @group, "" for the root. */
static int set_from_group(struct config *c, const config_setting_t *group, const char *at,
                          struct problem *problem)
{
    for (int i = 0; i < config_setting_length(group); i++) {
        const config_setting_t *node = config_setting_get_elem(group, (unsigned)i);
        struct config_origin origin = {.setting = node};
        char path[CONFIG_PATH_SIZE];
        const struct setting *s;
        int ret;

        snprintf(path, sizeof(path), "%s%s%s", at, *at ? "." : "", config_setting_name(node));
        s = config_find(path);
        if (s)
            ret = set_from_node(c, s, node, problem);
        else if (!config_is_group(path))
            ret = unknown(path, &origin, problem);
        else if (!config_setting_is_group(node))
            ret = config_problem(&origin, problem, "must be a group { ... }");
        else
            ret = set_from_group(c, node, path, problem);
        if (ret)
            return ret;
    }
    return 0;
}

static int set_from_file(struct owner *o, const char *file, struct problem *problem)
{
    if (tree_read(&o->tree, file, problem) != 0)
        return CONFIG_E_INVALID;
    return set_from_group(&o->config, config_root_setting(&o->tree), "", problem);
}

/* ---- the environment ---- */

/* Return: the setting of a variable. *from_file: whether it names a file that holds the value. */
static const struct setting *find_variable(const char *name, bool *from_file)
{
    char variable[CONFIG_VARIABLE_SIZE];

    for (size_t i = 0; i < config_n_settings; i++) {
        size_t len;

        config_variable(&config_settings[i], variable);
        len = strlen(variable);
        if (strncmp(name, variable, len) != 0)
            continue;
        *from_file = config_settings[i].type == SETTING_SECRET && strcmp(name + len, "_FILE") == 0;
        if (name[len] == '\0' || *from_file)
            return &config_settings[i];
    }
    return NULL;
}

static int unknown_variable(const char *name, struct problem *problem)
{
    char variable[CONFIG_VARIABLE_SIZE], hint[CONFIG_VARIABLE_SIZE + 32];
    struct nearest nearest = nearest_to(name);

    for (size_t i = 0; i < config_n_settings; i++) {
        config_variable(&config_settings[i], variable);
        nearest_try(&nearest, variable);
    }
    problem_set(problem, name, "there is no such setting%s",
                nearest_text(&nearest, hint, sizeof(hint)));
    return CONFIG_E_INVALID;
}

static int set_from_secret_file(struct config *c, const struct setting *s, const char *file,
                                const struct config_origin *o, struct problem *problem)
{
    CLEANUP(buf_deinit) struct buf text = {0};
    char *secret;
    int r = file_read(file, SECRET_MAX, &text, NULL);

    if (r == -EFBIG)
        return config_problem(o, problem, "%s: longer than %d bytes", file, SECRET_MAX);
    if (r)
        return config_problem(o, problem, "%s: %s", file, strerror(-r));
    buf_putc(&text, '\0');
    secret = (char *)buf_or_abort(&text).data;
    secret[strcspn(secret, "\r\n")] = '\0';
    return config_set(c, s, secret, o, problem);
}

/*
 * An unknown variable is an error only if it has two underscores in a row, as settings have:
 * Kubernetes sets DROVER_…_PORT and the like for a service named drover.
 */
static int set_from_variable(struct config *c, const char *entry, struct problem *problem)
{
    char name[CONFIG_VARIABLE_SIZE + sizeof("_FILE")];
    size_t len = strcspn(entry, "=");
    struct config_origin origin = {.place = name};
    const struct setting *s;
    bool from_file = false;

    snprintf(name, sizeof(name), "%.*s", (int)len, entry);
    s = find_variable(name, &from_file);
    if (!s)
        return strstr(name, "__") ? unknown_variable(name, problem) : 0;
    origin.path = s->path;
    if (from_file)
        return set_from_secret_file(c, s, entry + len + 1, &origin, problem);
    return config_set(c, s, entry + len + 1, &origin, problem);
}

static int set_from_environment(struct config *c, char *const *environment, struct problem *problem)
{
    for (; environment && *environment; environment++) {
        const char *entry = *environment;
        int ret;

        if (strncmp(entry, CONFIG_ENVIRONMENT, strlen(CONFIG_ENVIRONMENT)) != 0 ||
            !strchr(entry, '='))
            continue;
        ret = set_from_variable(c, entry, problem);
        if (ret)
            return ret;
    }
    return 0;
}

/* ---- the command line ---- */

static int set_from_argument(struct config *c, const char *argument, bool secrets,
                             struct problem *problem)
{
    size_t len = strcspn(argument, "=");
    char path[CONFIG_PATH_SIZE];
    struct config_origin origin = {.place = "--set", .path = path};
    const struct setting *s;

    snprintf(path, sizeof(path), "%.*s", (int)len, argument);
    if (argument[len] != '=')
        return config_problem(&origin, problem, "must be followed by = and a value");
    s = config_find(path);
    if (!s)
        return unknown(path, &origin, problem);
    if (s->type == SETTING_SECRET && !secrets) {
        char variable[CONFIG_VARIABLE_SIZE];

        config_variable(s, variable);
        return config_problem(&origin, problem,
                              "is a secret, and arguments are public: set %s, or %s_FILE to the "
                              "name of a file that holds it",
                              variable, variable);
    }
    return config_set(c, s, argument + len + 1, &origin, problem);
}

/* ---- loading ---- */

static int set_defaults(struct config *c)
{
    const struct config_origin origin = {.place = "default"};

    for (size_t i = 0; i < config_n_settings; i++) {
        const struct setting *s = &config_settings[i];
        int ret = s->type == SETTING_TREE ? 0 : config_set(c, s, s->otherwise, &origin, NULL);

        assert(ret <= 0);
        if (ret < 0)
            return ret;
    }
    return 0;
}

static int default_name(struct config *c)
{
    char host[HOST_NAME_MAX + 1] = "", *name;

    if (c->name[0])
        return 0;
    if (gethostname(host, sizeof(host) - 1) < 0)
        return -errno;
    if (asprintf(&name, "%s-%d", host, (int)getpid()) < 0)
        return -ENOMEM;
    free((void *)c->name);
    c->name = name;
    return 0;
}

/* Moves a part of a URL to a setting, if the URL has that part. */
static void take_part(const char **to, char **part)
{
    if (!*part)
        return;
    free((void *)*to);
    *to = take(*part);
}

static int uri_problem(const char *path, const struct problem *inner, struct problem *problem)
{
    problem_set(problem, path, "%s%s%s", inner->field, *inner->field ? " " : "", inner->reason);
    return CONFIG_E_INVALID;
}

static int take_rabbitmq_uri(struct config *c, struct problem *problem)
{
    CLEANUP(url_deinit) struct url url = {0};
    struct problem inner = {0};
    int ret = *c->rabbitmq.uri ? url_parse(c->rabbitmq.uri, "amqp", &url, &inner) : 0;

    if (ret)
        return ret < 0 ? ret : uri_problem("rabbitmq.uri", &inner, problem);
    c->rabbitmq.tls.on |= url.tls;
    take_part(&c->rabbitmq.host, &url.host);
    take_part(&c->rabbitmq.user, &url.user);
    take_part(&c->rabbitmq.password, &url.password);
    if (url.path && *url.path) /* amqp://host/ does not change it */
        take_part(&c->rabbitmq.vhost, &url.path);
    if (url.port)
        c->rabbitmq.port = url.port;
    return 0;
}

/* With Sentinels the path begins with the name of the primary. Return: NULL, or the fault of the
 * path. */
static const char *take_redis_path(struct config *c, char *path, bool sentinel)
{
    char *database = path, *name;
    int64_t number = c->redis.database;

    if (sentinel) {
        name = strsep(&database, "/");
        if (!name || !*name)
            return "must be the name of the primary, as in redis+sentinel://HOST/NAME";
        name = strdup(name);
        if (!name)
            return "cannot be copied: out of memory";
        take_part(&c->redis.master_name, &name);
    }
    if (!database || !*database)
        return NULL;
    if (!bytes_to_i64(bytes_str(database), &number) || number < 0 || number > INT_MAX)
        return "must be the number of a database";
    c->redis.database = number;
    return NULL;
}

static int take_redis_uri(struct config *c, struct problem *problem)
{
    CLEANUP(url_deinit) struct url url = {0};
    struct problem inner = {0};
    const char *fault;
    bool sentinel = strstr(c->redis.uri, "+sentinel://") != NULL;
    int ret = 0;

    if (*c->redis.uri)
        ret = url_parse(c->redis.uri, sentinel ? "redis+sentinel" : "redis", &url, &inner);
    if (ret == URL_E_SCHEME)
        problem_set(&inner, "",
                    "must begin with redis:// or rediss://, or with redis+sentinel:// or "
                    "rediss+sentinel:// for Sentinels; Redis Cluster cannot be used");
    if (ret)
        return ret < 0 ? ret : uri_problem("redis.uri", &inner, problem);
    fault = take_redis_path(c, url.path, sentinel);
    if (fault) {
        problem_set(&inner, "path", "%s", fault);
        return uri_problem("redis.uri", &inner, problem);
    }
    c->redis.tls.on |= url.tls;
    take_part(&c->redis.host, &url.host);
    take_part(&c->redis.user, &url.user);
    take_part(&c->redis.password, &url.password);
    if (url.port)
        c->redis.port = url.port;
    return 0;
}

static int tls_problem(const char *group, const char *name, const char *reason,
                       struct problem *problem)
{
    char path[64];

    snprintf(path, sizeof(path), "%s.%s", group, name);
    problem_set(problem, path, "%s", reason);
    return CONFIG_E_INVALID;
}

/* Checks that the settings of TLS fit together. Who gives certificates, and allows clear text, may
 * believe that the connection is encrypted. */
static int check_tls(const char *group, const struct config_tls *tls, struct problem *problem)
{
    bool certificates = *tls->ca_file || *tls->cert_file || *tls->server_name;

    if (tls->on && tls->login == CONFIG_CERTIFICATE && !*tls->cert_file)
        return tls_problem(group, "login", "certificate needs cert_file", problem);
    if (!tls->on && tls->login == CONFIG_CERTIFICATE)
        return tls_problem(group, "login", "certificate is for TLS only: set tls = true", problem);
    if (!tls->on && tls->insecure && certificates)
        return tls_problem(
            group, "insecure",
            "allows clear text, but certificates are given: set tls = true, or leave "
            "them out",
            problem);
    return 0;
}

static int check_servers(struct config *c, struct problem *problem)
{
    int r = check_tls("rabbitmq", &c->rabbitmq.tls, problem);

    if (!r)
        r = check_tls("redis", &c->redis.tls, problem);
    if (!r && *c->redis.socket && c->redis.tls.on) {
        problem_set(problem, "redis.tls",
                    "is of no use with redis.socket, which does not leave this machine");
        r = CONFIG_E_INVALID;
    }
    if (c->rabbitmq.port == 0)
        c->rabbitmq.port = c->rabbitmq.tls.on ? 5671 : 5672;
    if (c->redis.port == 0)
        c->redis.port = *c->redis.master_name ? 26379 : 6379;
    return r;
}

static int check_sentinels(struct config *c, struct problem *problem)
{
    const char *field = NULL, *fault = NULL;

    if (*c->redis.master_name && *c->redis.socket) {
        field = "redis.socket";
        fault = "is the path of one server, but redis.master_name is for Sentinels: leave one out";
    } else if (!*c->redis.master_name && (*c->redis.sentinel_user || *c->redis.sentinel_password)) {
        field = *c->redis.sentinel_user ? "redis.sentinel_user" : "redis.sentinel_password";
        fault = "is for Sentinels: set redis.master_name";
    } else if (*c->redis.sentinel_user && !*c->redis.sentinel_password) {
        field = "redis.sentinel_user";
        fault = "needs redis.sentinel_password";
    }
    if (fault)
        problem_set(problem, field, "%s", fault);
    return fault ? CONFIG_E_INVALID : 0;
}

/* What a server that is no longer the primary may have taken, before this was known. */
static void set_loss_window(struct config *c)
{
    bool several = *c->redis.master_name || (!*c->redis.socket && strchr(c->redis.host, ','));

    if (c->redis.loss_window_ms == 0)
        c->redis.loss_window_ms = several ? 60000 : 10000;
}

/* What the predecessors of rabbitmq.replication contradict, and why; NULL: nothing. */
static const char *contradiction(const struct config *c, const char **why)
{
    const int replication = c->rabbitmq.replication, type = c->rabbitmq.queue_type,
              steps = c->rabbitmq.step_messages;
    const bool none = replication == CONFIG_REPLICATION_NONE;
    const bool quorum = replication == CONFIG_REPLICATION_QUORUM;

    if (none && strchr(c->rabbitmq.host, ',')) {
        *why = "none is for one RabbitMQ node, and rabbitmq.host names several: set quorum";
        return "rabbitmq.replication";
    }
    *why = none ? "contradicts rabbitmq.replication none, which replaces it: leave it out"
                : "contradicts rabbitmq.replication quorum, which replaces it: leave it out";
    if ((none && type == CONFIG_QUORUM) || (quorum && type == CONFIG_CLASSIC))
        return "rabbitmq.queue_type";
    if ((none && steps == CONFIG_PERSISTENT) || (quorum && steps == CONFIG_TRANSIENT))
        return "rabbitmq.step_messages";
    return NULL;
}

static int check_replication(const struct config *c, struct problem *problem)
{
    const char *why, *field = contradiction(c, &why);

    if (field)
        problem_set(problem, field, "%s", why);
    return field ? CONFIG_E_INVALID : 0;
}

static int check_together(const struct config *c, struct problem *problem)
{
    if (c->redis.replicas > 0 && c->redis.durability != CONFIG_STRICT) {
        problem_set(problem, "redis.replicas", "are waited for with redis.durability strict only");
        return CONFIG_E_INVALID;
    }
    if (c->supervisor.lease_ms >= 2 * c->supervisor.period_ms)
        return 0;
    problem_set(problem, "supervisor.lease",
                "must be at least twice supervisor.period, or the lead "
                "is lost between two checks");
    return CONFIG_E_INVALID;
}

static int load(struct owner *o, const struct config_source *source, struct problem *problem)
{
    int ret = set_defaults(&o->config);

    if (ret == 0 && source->file)
        ret = set_from_file(o, source->file, problem);
    if (ret == 0)
        ret = set_from_environment(&o->config, source->environ, problem);
    for (int i = 0; ret == 0 && i < source->n_sets; i++)
        ret = set_from_argument(&o->config, source->sets[i], source->secret_sets, problem);
    if (ret == 0)
        ret = take_rabbitmq_uri(&o->config, problem);
    if (ret == 0)
        ret = take_redis_uri(&o->config, problem);
    if (ret == 0)
        ret = check_servers(&o->config, problem);
    if (ret == 0)
        ret = check_sentinels(&o->config, problem);
    if (ret == 0)
        ret = check_replication(&o->config, problem);
    if (ret == 0)
        set_loss_window(&o->config);
    if (ret == 0)
        ret = check_together(&o->config, problem);
    return ret == 0 ? default_name(&o->config) : ret;
}

int config_load(struct config **out, const struct config_source *source, struct problem *problem)
{
    struct owner *o = calloc(1, sizeof(*o));
    int ret;

    if (!o)
        return -ENOMEM;
    config_init(&o->tree);
    ret = load(o, source, problem);
    if (ret) {
        config_free(&o->config);
        return ret;
    }
    *out = &o->config;
    return 0;
}

struct config *config_free(struct config *c)
{
    struct owner *o;

    if (!c)
        return NULL;
    tls_context_free(c->rabbitmq.tls.context);
    tls_context_free(c->redis.tls.context);
    for (size_t i = 0; i < config_n_settings; i++) {
        if (config_settings[i].type == SETTING_TEXT || config_settings[i].type == SETTING_SECRET)
            free(*(char **)config_member(c, &config_settings[i]));
    }
    o = container_of(c, struct owner, config);
    config_destroy(&o->tree);
    free(o);
    return NULL;
}

struct config_setting_t *config_root(const struct config *c)
{
    return config_root_setting(&container_of(c, struct owner, config)->tree);
}

static bool differs(const struct config *a, const struct config *b, const struct setting *s)
{
    const void *in_a = (const char *)a + s->offset, *in_b = (const char *)b + s->offset;

    switch (s->type) {
    case SETTING_TEXT:
    case SETTING_SECRET:
        return strcmp(*(const char *const *)in_a, *(const char *const *)in_b) != 0;
    case SETTING_INTEGER:
    case SETTING_DURATION:
        return *(const int64_t *)in_a != *(const int64_t *)in_b;
    case SETTING_BOOLEAN:
        return *(const bool *)in_a != *(const bool *)in_b;
    case SETTING_WORD:
        return *(const int *)in_a != *(const int *)in_b;
    case SETTING_TREE:
        break;
    }
    return !tree_equal(config_setting_lookup(config_root(a), s->path),
                       config_setting_lookup(config_root(b), s->path));
}

void config_difference(const struct config *a, const struct config *b, struct buf *out)
{
    for (size_t i = 0; i < config_n_settings; i++) {
        if (differs(a, b, &config_settings[i]))
            buf_printf(out, "%s%s", out->len > 0 ? " " : "", config_settings[i].path);
    }
}
