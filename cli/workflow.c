// SPDX-License-Identifier: Apache-2.0
/*
 * Workflows: checks workflow files, and shows registered workflows (commands workflow …)
 *
 * Called by command_run.c.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "cli/command_run.h"
#include "cli/connect.h"
#include "cli/table.h"
#include "cli/view.h"
#include "client/control.h"
#include "io/config/workflow_file.h"
#include "model/json.h"
#include "model/workflow.h"

/* ---- workflow validate ---- */

static int validate(const struct args *args, const char *path)
{
    Drover__V1__Workflow *message = NULL;
    CLEANUP(workflow_unref) struct workflow *w = NULL;
    struct problem problem = {0};
    int r = workflow_file_read(&message, path, &problem);

    if (r)
        return cli_problem(r, &problem);
    r = workflow_new(&w, message, "", &problem);
    if (r == 0 && args->output == OUTPUT_TABLE)
        printf("%s: %s, %u step%s\n", path, w->full_name, w->n_steps, w->n_steps == 1 ? "" : "s");
    else if (r == 0 && args->output == OUTPUT_ID)
        puts(w->full_name);
    else if (r == 0) {
        CLEANUP(buf_deinit) struct buf out = {0};

        json_from_message(&message->base, &out);
        puts(buf_str(&out));
    }
    drover__v1__workflow__free_unpacked(message, NULL);
    return r ? cli_problem(r, &problem) : CLI_OK;
}

static int is_workflow(const struct dirent *entry)
{
    size_t len = strlen(entry->d_name);

    return len > 4 && entry->d_name[0] != '.' && strcmp(entry->d_name + len - 4, ".cfg") == 0;
}

static int validate_folder(const struct args *args, const char *folder)
{
    struct dirent **entries = NULL;
    int n = scandir(folder, &entries, is_workflow, alphasort), code = CLI_OK;

    if (n < 0) {
        cli_complain("%s: %s", folder, strerror(errno));
        return CLI_ERROR;
    }
    for (int i = 0; i < n; i++) {
        CLEANUP(buf_deinit) struct buf path = {0};

        buf_printf(&path, "%s/%s", folder, entries[i]->d_name);
        if (validate(args, buf_str(&path)))
            code = CLI_ERROR;
        free(entries[i]);
    }
    free(entries);
    if (n == 0)
        cli_complain("%s: there is no *.cfg", folder);
    return n == 0 ? CLI_ERROR : code;
}

int cli_workflow_validate(const struct args *args)
{
    int code = CLI_OK;

    for (int i = 0; i < args->n_operands; i++) {
        struct stat about;
        bool folder = stat(args->operands[i], &about) == 0 && S_ISDIR(about.st_mode);

        if (folder ? validate_folder(args, args->operands[i]) : validate(args, args->operands[i]))
            code = CLI_ERROR;
    }
    return code;
}

/* ---- workflow list and workflow show ---- */

static int ask(struct session *s, Drover__V1__ListWorkflows *query, int64_t deadline,
               struct wire_message *answer)
{
    int r = control_list_workflows(s, query, deadline, answer);

    return r ? cli_session_problem(s, r) : cli_answer_exit(answer->answer);
}

static void add_row(struct table *t, const Drover__V1__WorkflowInfo *info)
{
    table_add(t, VIEW_PLAIN, "%s", info->workflow);
    table_add(t, VIEW_PLAIN, "%u", info->steps);
    table_add(t, VIEW_DIM, "%s", info->definition);
}

static void add_info(struct table *t, struct buf *out, const struct args *args,
                     const Drover__V1__WorkflowInfo *info)
{
    bool json = args->output == OUTPUT_JSON;

    if (args->output == OUTPUT_TABLE) {
        add_row(t, info);
    } else if (args->output == OUTPUT_ID) {
        buf_printf(out, "%s\n", info->workflow);
    } else {
        buf_puts(out, !json ? "" : out->len == 0 ? "[" : ",\n");
        json_from_message(&info->base, out);
        buf_puts(out, json ? "" : "\n");
    }
}

static void print_all(struct table *t, struct buf *out, const struct args *args)
{
    if (args->output == OUTPUT_JSON)
        buf_puts(out, out->len == 0 ? "[]\n" : "]\n");
    if (args->output == OUTPUT_TABLE)
        table_print(t, cli_color(args, stdout), 0, out);
    fputs(buf_str(out), stdout);
}

/* Prints all registered workflows. Return: the exit code. */
static int list_all(struct session *s, const struct args *args, int64_t deadline)
{
    CLEANUP(table_deinit) struct table t = {.columns = 3};
    CLEANUP(buf_deinit) struct buf out = {0};
    CLEANUP(wire_free) struct wire_message answer = {0};
    Drover__V1__ListWorkflows query = DROVER__V1__LIST_WORKFLOWS__INIT;
    char after[WIRE_WORKFLOW_REF_MAX + 1] = "";

    table_add(&t, VIEW_BOLD, "WORKFLOW");
    table_add(&t, VIEW_BOLD, "STEPS");
    table_add(&t, VIEW_BOLD, "DEFINITION");
    do {
        int r;

        wire_free(&answer);
        query.after = after;
        r = ask(s, &query, deadline, &answer);
        if (r)
            return r;
        for (size_t i = 0; i < answer.answer->n_workflows; i++)
            add_info(&t, &out, args, answer.answer->workflows[i]);
        snprintf(after, sizeof(after), "%s", answer.answer->next);
    } while (*after);
    print_all(&t, &out, args);
    return CLI_OK;
}

int cli_workflow_list(const struct args *args)
{
    CLEANUP(session_free) struct session *s = NULL;
    int64_t deadline = connect_deadline(args, CONNECT_ANSWER_MS);
    int r = connect_session(args, &s);

    return r ? r : list_all(s, args, deadline);
}

static void add_step(struct table *t, const struct workflow *w, const struct workflow_step *step)
{
    CLEANUP(buf_deinit) struct buf after = {0}, lock = {0};

    for (uint32_t i = 0; i < step->n_after; i++)
        buf_printf(&after, "%s%s", i > 0 ? ", " : "", w->steps[step->after[i]].name);
    view_duration(&lock, step->forward.lock_ms);
    table_add(t, VIEW_PLAIN, "%s", step->name);
    table_add(t, VIEW_PLAIN, "%s", step->forward.actor);
    table_add(t, VIEW_PLAIN, "%s", step->forward.action);
    table_add(t, VIEW_PLAIN, "%s", buf_str(&lock));
    table_add(t, VIEW_PLAIN, "%u", step->forward.policy.maximum_attempts);
    table_add(t, VIEW_PLAIN, "%s", buf_str(&after));
}

static int print_one(const struct args *args, const Drover__V1__Workflow *message)
{
    static const char *const titles[] = {"STEP", "ACTOR", "ACTION", "LOCK", "ATTEMPTS", "AFTER"};
    CLEANUP(workflow_unref) struct workflow *w = NULL;
    CLEANUP(table_deinit) struct table t = {.columns = array_size(titles)};
    CLEANUP(buf_deinit) struct buf out = {0};
    struct problem problem = {0};
    int r = workflow_new(&w, message, "", &problem);

    if (r)
        return cli_problem(r, &problem);
    for (size_t i = 0; i < array_size(titles); i++)
        table_add(&t, VIEW_BOLD, "%s", titles[i]);
    for (uint32_t i = 0; i < w->n_steps; i++)
        add_step(&t, w, &w->steps[i]);
    buf_printf(&out, "%s, definition %s\n\n", w->full_name, w->digest);
    table_print(&t, cli_color(args, stdout), 0, &out);
    fputs(buf_str(&out), stdout);
    return CLI_OK;
}

int cli_workflow_show(const struct args *args)
{
    CLEANUP(session_free) struct session *s = NULL;
    CLEANUP(wire_free) struct wire_message answer = {0};
    CLEANUP(buf_deinit) struct buf out = {0};
    Drover__V1__ListWorkflows query = DROVER__V1__LIST_WORKFLOWS__INIT;
    int64_t deadline = connect_deadline(args, CONNECT_ANSWER_MS);
    int r = connect_session(args, &s);

    if (r)
        return r;
    query.workflow = args->operands[0];
    r = ask(s, &query, deadline, &answer);
    if (r || !answer.answer->definition)
        return r;
    if (args->output == OUTPUT_TABLE)
        return print_one(args, answer.answer->definition);
    if (args->output == OUTPUT_ID)
        buf_printf(&out, "%s@%u", answer.answer->definition->name,
                   answer.answer->definition->version);
    else
        json_from_message(&answer.answer->definition->base, &out);
    puts(buf_str(&out));
    return CLI_OK;
}
