// SPDX-License-Identifier: Apache-2.0
/*
 * Access settings: reads struct access from the configuration and checks it
 *
 * Called by main.c and scheduler_io.c when the process starts, and by main.c for --check-config.
 */
#include "scheduler/access_config.h"

#include <errno.h>
#include <string.h>

#include "base/id.h"
#include "io/config/config_tree.h"

static int check_names(char *const *names, const config_setting_t *group, struct problem *problem)
{
    for (unsigned i = 0; names[i]; i++)
        if (!id_name_valid(names[i], strlen(names[i])))
            return tree_problem(
                config_setting_get_elem(config_setting_get_member(group, "workflows"), i), problem,
                "must be the name of a workflow, without a version");
    return 0;
}

static int read_submitter(struct access *a, const config_setting_t *group, struct problem *problem)
{
    static const char *const known[] = {"user", "workflows", "replies", "rate",
                                        "jobs", "megabytes", NULL};
    int64_t megabytes = ACCESS_MEGABYTES;
    struct access_submitter *s = &a->submitters[a->n_submitters++];
    int r = tree_keys(group, known, problem);

    if (!r)
        r = tree_text(group, "user", &s->user, problem);
    if (!r && !s->user)
        r = tree_problem(group, problem, "user is missing");
    if (!r)
        r = tree_text(group, "replies", &s->replies, problem);
    if (!r)
        r = tree_texts(group, "workflows", &s->workflows, problem);
    s->limits = (struct access_limits){.rate = ACCESS_RATE, .jobs = ACCESS_JOBS};
    if (!r)
        r = tree_int(group, "rate", 0, INT32_MAX, &s->limits.rate, problem);
    if (!r)
        r = tree_int(group, "jobs", 0, INT32_MAX, &s->limits.jobs, problem);
    if (!r)
        r = tree_int(group, "megabytes", 0, INT32_MAX, &megabytes, problem);
    s->limits.bytes = megabytes << 20;
    return r ? r : check_names(s->workflows, group, problem);
}

static int check_users(const struct access *a, const config_setting_t *at, struct problem *problem)
{
    for (unsigned i = 0; i < a->n_submitters; i++)
        for (unsigned k = 0; k < i; k++)
            if (strcmp(a->submitters[i].user, a->submitters[k].user) == 0)
                return tree_problem(config_setting_get_elem(at, i), problem,
                                    "user '%s' has a group already", a->submitters[i].user);
    return 0;
}

static int read_submitters(struct access *a, const config_setting_t *at, struct problem *problem)
{
    unsigned n;
    int r = 0;

    if (!config_setting_is_list(at) || config_setting_length(at) == 0)
        return tree_problem(at, problem, "must be a list of groups: ( { ... }, { ... } )");
    n = (unsigned)config_setting_length(at);
    a->submitters = calloc(n, sizeof(*a->submitters));
    if (!a->submitters)
        return -ENOMEM;
    for (unsigned i = 0; !r && i < n; i++)
        r = read_submitter(a, config_setting_get_elem(at, i), problem);
    return r ? r : check_users(a, at, problem);
}

int access_read(struct access **out, const struct config *config, struct problem *problem)
{
    CLEANUP(access_free) struct access *a = calloc(1, sizeof(*a));
    const config_setting_t *at = config_setting_lookup(config_root(config), "security.submitters");
    int r;

    if (!a)
        return -ENOMEM;
    a->required = config->security.identity == CONFIG_REQUIRED;
    a->registered = config->scheduler.definitions == CONFIG_REGISTERED;
    a->by_actor = config->security.replies == CONFIG_REPLIES_BY_ACTOR;
    a->operators = strdup(config->security.operators);
    a->supervisors = strdup(config->security.supervisors);
    if (!a->operators || !a->supervisors)
        return -ENOMEM;
    r = at ? read_submitters(a, at, problem) : 0;
    if (r)
        return r;
    if (at && !a->required)
        return tree_problem(at, problem, "needs security.identity = \"required\"");
    *out = take(a);
    return 0;
}
