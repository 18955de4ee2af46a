// SPDX-License-Identifier: Apache-2.0
/*
 * Groups: a hash table of counts, and its output
 *
 * See cli/groups.h. Called by list.c, for --group.
 */
#include "cli/groups.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/id.h"
#include "cli/cli.h"
#include "cli/table.h"
#include "cli/view.h"

struct group {
    UT_hash_handle hh;
    uint64_t jobs;
    int64_t oldest;                /* since when its oldest job needs attention; Unix ms */
    int64_t now;                   /* by the clock of the store */
    char example[ID_NAME_MAX + 1]; /* the id of that job */
    const char *need, *class, *actor, *workflow; /* point into the key */
    char key[];                                  /* the four texts, each with its NUL */
};

struct groups {
    struct group *all;
};

struct groups *groups_new(void)
{
    return or_abort(calloc(1, sizeof(struct groups)));
}

struct groups *groups_free(struct groups *g)
{
    struct group *group, *next;

    if (g)
        HASH_ITER(hh, g->all, group, next) {
            HASH_DEL(g->all, group);
            free(group);
        }
    free(g);
    return NULL;
}

static const char *behind(const char *text)
{
    return text + strlen(text) + 1;
}

static struct group *group_new(struct groups *g, struct bytes key)
{
    struct group *group = or_abort(calloc(1, sizeof(*group) + key.len));

    memcpy(group->key, key.data, key.len);
    group->need = group->key;
    group->class = behind(group->need);
    group->actor = behind(group->class);
    group->workflow = behind(group->actor);
    HASH_ADD_KEYPTR(hh, g->all, group->key, key.len, group);
    return group;
}

static struct group *group_of(struct groups *g, const Drover__V1__JobStatus *job)
{
    CLEANUP(buf_deinit) struct buf text = {0};
    const Drover__V1__Attention *need = job->attention;
    const char *const parts[] = {view_word(&drover__v1__need__descriptor, (int)need->needs),
                                 need->error_class, need->actor, job->workflow};
    struct group *group;
    struct bytes key;

    for (size_t i = 0; i < array_size(parts); i++)
        buf_append(&text, parts[i], strlen(parts[i]) + 1);
    key = buf_or_abort(&text);
    HASH_FIND(hh, g->all, key.data, key.len, group);
    return group ? group : group_new(g, key);
}

void groups_add(struct groups *g, const Drover__V1__JobStatus *job)
{
    const Drover__V1__Attention *need = job->attention;
    struct group *group = need ? group_of(g, job) : NULL;

    if (!group)
        return;
    group->now = job->now;
    if (group->jobs++ > 0 && need->since >= group->oldest)
        return;
    group->oldest = need->since;
    snprintf(group->example, sizeof(group->example), "%s", job->job_id);
}

/* ---- output ---- */

static int by_jobs(const struct group *a, const struct group *b)
{
    if (a->jobs != b->jobs)
        return a->jobs > b->jobs ? -1 : 1;
    return (a->oldest > b->oldest) - (a->oldest < b->oldest);
}

static void add_row(struct table *t, const struct group *group)
{
    CLEANUP(buf_deinit) struct buf age = {0};

    view_duration(&age, view_span(group->oldest, group->now));
    table_add(t, VIEW_BOLD, "%" PRIu64, group->jobs);
    table_add(t, VIEW_RED, "%s", group->need);
    table_add(t, VIEW_PLAIN, "%s", group->class);
    table_add(t, VIEW_PLAIN, "%s", group->actor);
    table_add(t, VIEW_PLAIN, "%s", group->workflow);
    table_add(t, VIEW_PLAIN, "%s", buf_str(&age));
    table_add(t, VIEW_DIM, "%s", group->example);
}

static void print_table(struct groups *g, const struct args *args)
{
    static const char *const titles[] = {"JOBS",     "NEED",   "CLASS",  "ACTOR",
                                         "WORKFLOW", "OLDEST", "EXAMPLE"};
    CLEANUP(table_deinit) struct table t = {.columns = array_size(titles)};
    CLEANUP(buf_deinit) struct buf out = {0};

    for (size_t i = 0; i < array_size(titles); i++)
        table_add(&t, VIEW_BOLD, "%s", titles[i]);
    for (struct group *group = g->all; group; group = group->hh.next)
        add_row(&t, group);
    table_print(&t, cli_color(args, stdout), 0, &out);
    fputs(buf_str(&out), stdout);
}

static void put_member(struct buf *out, const char *name, const char *value)
{
    if (!*value)
        return;
    buf_printf(out, ",\"%s\":", name);
    buf_json(out, value, strlen(value));
}

static void put_group(const struct group *group, struct buf *out)
{
    buf_printf(out, "{\"jobs\":%" PRIu64, group->jobs);
    put_member(out, "needs", group->need);
    put_member(out, "errorClass", group->class);
    put_member(out, "actor", group->actor);
    put_member(out, "workflow", group->workflow);
    buf_printf(out, ",\"oldest\":%" PRId64, group->oldest);
    put_member(out, "example", group->example);
    buf_putc(out, '}');
}

static void print_json(const struct groups *g, bool lines)
{
    CLEANUP(buf_deinit) struct buf out = {0};

    if (!lines)
        buf_putc(&out, '[');
    for (const struct group *group = g->all; group; group = group->hh.next) {
        put_group(group, &out);
        if (lines || group->hh.next)
            buf_puts(&out, lines ? "\n" : ",\n");
    }
    buf_puts(&out, lines ? "" : "]\n");
    fputs(buf_str(&out), stdout);
}

size_t groups_print(struct groups *g, const struct args *args)
{
    HASH_SORT(g->all, by_jobs);
    switch (args->output) {
    case OUTPUT_TABLE:
        if (g->all)
            print_table(g, args);
        break;
    case OUTPUT_JSON:
    case OUTPUT_JSONL:
        print_json(g, args->output == OUTPUT_JSONL);
        break;
    case OUTPUT_ID:
        for (const struct group *group = g->all; group; group = group->hh.next)
            puts(group->example);
        break;
    }
    fflush(stdout);
    return HASH_COUNT(g->all);
}
