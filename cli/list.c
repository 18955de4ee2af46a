// SPDX-License-Identifier: Apache-2.0
/*
 * List: asks for pages of jobs and prints them (command list)
 *
 * Called by command_run.c.
 */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/command_run.h"
#include "cli/connect.h"
#include "cli/groups.h"
#include "cli/list_filter.h"
#include "cli/table.h"
#include "cli/view.h"
#include "cli/view_job.h"
#include "client/control.h"
#include "model/json.h"

#define LIMIT_DEFAULT 50

struct job_list {
    const struct args *args;
    struct session *session;
    struct table table;
    struct list_filter filter;
    struct groups *groups; /* of --group; NULL if jobs are shown, not counted */
    uint64_t shown;
    char next[WIRE_CURSOR_MAX + 1]; /* cursor of the next page; "" if there is none */
};

/* ---- output ---- */

static enum view_color color_of(const Drover__V1__JobStatus *job)
{
    if (job->phase == DROVER__V1__PHASE__PHASE_ERROR)
        return VIEW_RED;
    return job->phase == DROVER__V1__PHASE__PHASE_PROCESSED ? VIEW_GREEN : VIEW_PLAIN;
}

static void add_titles(struct table *t)
{
    static const char *const titles[] = {"JOB", "WORKFLOW", "STATE", "STEPS", "CREATED", "FOR"};

    t->columns = array_size(titles);
    for (size_t i = 0; i < array_size(titles); i++)
        table_add(t, VIEW_BOLD, "%s", titles[i]);
}

static void add_row(struct table *t, const Drover__V1__JobStatus *job)
{
    CLEANUP(buf_deinit) struct buf created = {0}, length = {0};
    bool unfinished = job->outcome == DROVER__V1__OUTCOME__OUTCOME_UNSPECIFIED;

    view_moment(&created, job->created);
    view_duration(&length, view_span(job->created, unfinished ? job->now : job->updated));
    table_add(t, VIEW_PLAIN, "%s", job->job_id);
    table_add(t, VIEW_PLAIN, "%s", job->workflow);
    table_add(t, color_of(job), "%s", view_job_state(job));
    table_add(t, VIEW_PLAIN, "%u/%u", job->steps_total - job->steps_open, job->steps_total);
    table_add(t, VIEW_PLAIN, "%s", buf_str(&created));
    table_add(t, VIEW_PLAIN, "%s", buf_str(&length));
}

static void show(struct job_list *l, const Drover__V1__JobStatus *job)
{
    CLEANUP(buf_deinit) struct buf out = {0};

    l->shown++;
    if (l->groups) {
        groups_add(l->groups, job);
        return;
    }
    switch (l->args->output) {
    case OUTPUT_TABLE:
        add_row(&l->table, job);
        break;
    case OUTPUT_ID:
        view_text(&out, job->job_id, 0);
        puts(buf_str(&out));
        break;
    case OUTPUT_JSON:
        buf_puts(&out, l->shown == 1 ? "[" : ",\n");
        json_from_message(&job->base, &out);
        fputs(buf_str(&out), stdout);
        break;
    case OUTPUT_JSONL:
        json_from_message(&job->base, &out);
        puts(buf_str(&out));
        break;
    }
}

static void print_jobs_end(struct job_list *l)
{
    CLEANUP(buf_deinit) struct buf out = {0};

    if (l->args->output == OUTPUT_JSON)
        puts(l->shown == 0 ? "[]" : "]");
    if (l->args->output == OUTPUT_TABLE && l->shown > 0) {
        table_print(&l->table, cli_color(l->args, stdout), 0, &out);
        fputs(buf_str(&out), stdout);
    } else if (l->shown == 0) {
        fputs("no such jobs\n", stderr);
    }
    fflush(stdout);
}

static void print_end(struct job_list *l)
{
    CLEANUP(buf_deinit) struct buf next = {0};

    if (!l->groups)
        print_jobs_end(l);
    else if (groups_print(l->groups, l->args) == 0)
        fputs("no such jobs\n", stderr);
    if (!*l->next)
        return;
    view_text(&next, l->next, 0);
    fprintf(stderr, "there may be more, with --after %s\n", buf_str(&next));
}

/* Asks for pages until the limit is reached. If a page fails, prints the jobs read so far and the
 * --after value with which to continue. Return: the exit code. */
static int list_jobs(struct job_list *l, int64_t deadline)
{
    uint64_t limit = l->groups ? UINT64_MAX : LIMIT_DEFAULT;
    int r;

    if (l->args->limit)
        limit = (uint64_t)l->args->limit;
    snprintf(l->next, sizeof(l->next), "%s", l->args->after ? l->args->after : "");
    do {
        CLEANUP(wire_free) struct wire_message answer = {0};
        uint64_t left = limit - l->shown;

        l->filter.question.after = l->next;
        l->filter.question.limit = left < WIRE_LIST_MAX ? (uint32_t)left : WIRE_LIST_MAX;
        r = control_list_jobs(l->session, &l->filter.question, deadline, &answer);
        r = r ? cli_session_problem(l->session, r) : cli_answer_exit(answer.answer);
        if (r == CLI_OK && !list_filter_applied(l->args, answer.answer))
            r = CLI_ERROR;
        if (r)
            break;
        for (size_t i = 0; i < answer.answer->n_jobs && l->shown < limit; i++)
            show(l, answer.answer->jobs[i]);
        snprintf(l->next, sizeof(l->next), "%s", answer.answer->next);
    } while (*l->next && l->shown < limit);
    if (r == CLI_OK || l->shown > 0)
        print_end(l);
    return r;
}

int cli_list(const struct args *args)
{
    CLEANUP(session_free) struct session *s = NULL;
    CLEANUP(groups_free) struct groups *groups = args->group ? groups_new() : NULL;
    struct job_list l = {.args = args, .groups = groups};
    int r = connect_session(args, &s);

    if (r)
        return r;
    l.session = s;
    list_filter_init(&l.filter, args);
    add_titles(&l.table);
    r = list_jobs(&l, connect_deadline(args, CONNECT_ANSWER_MS));
    table_deinit(&l.table);
    list_filter_deinit(&l.filter);
    return r;
}
