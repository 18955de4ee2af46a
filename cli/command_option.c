// SPDX-License-Identifier: Apache-2.0
/*
 * Options: the table of options
 *
 * Called by command_parse.c, help.c, completion.c and manual.c.
 */
#include "cli/command_option.h"

#include <assert.h>

/* The words for Drover__V1__Need, from NEED_ATTENTION on. */
static const char *const NEEDS[] = {"attention", "parked", "deadline", "ended", NULL};

static const char *const OUTPUTS[] = {
    [OUTPUT_TABLE] = "table",
    [OUTPUT_JSON] = "json",
    [OUTPUT_JSONL] = "jsonl",
    [OUTPUT_ID] = "id",
    NULL,
};

static const char *const PHASES[] = {
    /* for Drover__V1__Phase, from PHASE_PENDING on */
    "pending", "processing", "processed", "error", NULL,
};

#define ARGS_OFFSET(member) offsetof(struct args, member)

static const struct command_option OPTIONS[] = {
    {"workflow", 'w', "NAME[@V]",
     "a registered workflow; submit takes the newest version unless V is given", KIND_TEXT,
     ARGS_OFFSET(workflow), GROUP_SUBMIT | GROUP_FILTER},
    {"id", 'i', "ID", "the job's id; default: a new one that sorts by time", KIND_TEXT,
     ARGS_OFFSET(id), GROUP_SUBMIT},
    {"input", 0, "TEXT|@FILE",
     "the job's input, or the step's arguments or result; sent as JSON if it is valid JSON, else "
     "as text or bytes",
     KIND_TEXT, ARGS_OFFSET(input), GROUP_SUBMIT | GROUP_INPUT},
    {"label", 'l', "NAME=VALUE", "may be given many times", KIND_LABEL, ARGS_OFFSET(labels),
     GROUP_SUBMIT | GROUP_FILTER},
    {"set", 0, "FIELD=VALUE",
     "set a field of the step, written as in a workflow file; may be given many times",
     KIND_SETTING, ARGS_OFFSET(settings), GROUP_SET},
    {"begin-anew", 0, NULL, "restart the step even if it may have taken effect and has no revert",
     KIND_FLAG, ARGS_OFFSET(begin_anew), GROUP_BEGIN_ANEW},
    {"start-at", 0, "TIME", "do not start before this time; 2026-01-31T12:00:00Z or +10m",
     KIND_TIME, ARGS_OFFSET(start_at), GROUP_SUBMIT},
    {"complete-by", 0, "TIME",
     "deadline for forward work; after it, on_deadline of the workflow applies", KIND_TIME,
     ARGS_OFFSET(complete_by), GROUP_SUBMIT},
    {"where", 0, NULL, "all jobs that the options of `list` find, in place of JOB", KIND_FLAG,
     ARGS_OFFSET(where), GROUP_BULK},
    {"rps", 0, "COUNT", "with --where: so many jobs a second; default: 50", KIND_COUNT,
     ARGS_OFFSET(rps), GROUP_BULK},
    {"dry-run", 0, NULL, "with --where: only say which jobs", KIND_FLAG, ARGS_OFFSET(dry_run),
     GROUP_BULK},
    {"from-store", 0, NULL, "ask Redis, by redis.* of the configuration; needs no broker",
     KIND_FLAG, ARGS_OFFSET(from_store), GROUP_STORE},
    {"phase", 'p', "PHASE", "pending, processing, processed or error", KIND_PHASE,
     ARGS_OFFSET(phase), GROUP_FILTER, PHASES},
    {"needs", 0, "WHAT", "what a person is to act on: attention, or only parked, deadline or ended",
     KIND_NEED, ARGS_OFFSET(needs), GROUP_FILTER, NEEDS},
    {"error-class", 0, "CLASS", "only jobs that need attention because of an error of this class",
     KIND_TEXT, ARGS_OFFSET(error_class), GROUP_FILTER},
    {"since", 0, "TIME", "created then or later; 2026-01-31T12:00:00Z or -2h", KIND_TIME,
     ARGS_OFFSET(since), GROUP_FILTER},
    {"before", 0, "TIME", "created before that", KIND_TIME, ARGS_OFFSET(before), GROUP_FILTER},
    {"limit", 'n', "COUNT", "at most so many; default of list: 50", KIND_COUNT, ARGS_OFFSET(limit),
     GROUP_FILTER},
    {"after", 0, "PLACE", "go on where another list ended", KIND_TEXT, ARGS_OFFSET(after),
     GROUP_LIST},
    {"group", 'g', NULL, "count what needs attention by error class, actor and workflow", KIND_FLAG,
     ARGS_OFFSET(group), GROUP_LIST},
    {"follow", 'f', NULL, "go on until the job has ended", KIND_FLAG, ARGS_OFFSET(follow),
     GROUP_FOLLOW},
    {"data", 'd', NULL, "also the input, results and errors", KIND_FLAG, ARGS_OFFSET(data),
     GROUP_DATA},
    {"reason", 'r', "TEXT", "for the job's history", KIND_TEXT, ARGS_OFFSET(reason), GROUP_REASON},
    {"actor", 'a', "NAME",
     "only jobs that need attention because of a step of this actor; import: the actor of every "
     "step, default: demo",
     KIND_TEXT, ARGS_OFFSET(actor), GROUP_IMPORT | GROUP_FILTER},
    {"scale", 's', "FACTOR", "multiply the recorded runtimes by this; default: 1; 0: do not sleep",
     KIND_FACTOR, ARGS_OFFSET(scale), GROUP_IMPORT},
    {"output", 'o', "FORMAT", "table (default), json, jsonl or id", KIND_OUTPUT,
     ARGS_OFFSET(output), GROUP_OUTPUT, OUTPUTS},
    {"no-color", 0, NULL, "as the variable NO_COLOR", KIND_FLAG, ARGS_OFFSET(no_color),
     GROUP_OUTPUT},
    {"url", 'u', "URL",
     "amqp://user@host:port/vhost; default: $DROVER_URL, which may hold a password", KIND_TEXT,
     ARGS_OFFSET(url), GROUP_BROKER},
    {"config", 'c', "FILE", "where the broker's address stands, unless a URL is given", KIND_TEXT,
     ARGS_OFFSET(config), GROUP_BROKER},
    {"timeout", 't', "DURATION",
     "give up after this time; default: 30s; run, watch and wait have no limit", KIND_DURATION,
     ARGS_OFFSET(timeout_ms), GROUP_BROKER},
    {"verbose", 'v', NULL, "log what happens on the connection", KIND_FLAG, ARGS_OFFSET(verbose),
     GROUP_BROKER},
    {"help", 'h', NULL, "explain the command", KIND_FLAG, ARGS_OFFSET(help), GROUP_ALL},
    {"version", 'V', NULL, "print the version", KIND_FLAG, ARGS_OFFSET(version), GROUP_ALL},
};

static_assert(array_size(OPTIONS) <= COMMAND_OPTIONS_MAX, "the parser has room for all options");

const struct command_option *command_option_at(const struct command *command, size_t n)
{
    unsigned groups = command ? command->groups : GROUP_ALL | GROUP_BROKER | GROUP_OUTPUT;

    for (size_t i = 0; i < array_size(OPTIONS); i++)
        if (OPTIONS[i].groups & groups && n-- == 0)
            return &OPTIONS[i];
    return NULL;
}

const struct command_option *command_option_row(size_t n)
{
    return n < array_size(OPTIONS) ? &OPTIONS[n] : NULL;
}
