// SPDX-License-Identifier: Apache-2.0
/*
 * Commands: the table of commands
 *
 * Called by command_parse.c, help.c, completion.c and manual.c.
 */
#include "cli/command.h"

#include <stdio.h>
#include <string.h>

#include "cli/command_option.h"

static const struct command COMMANDS[] = {
    {
        .name = "submit",
        .operands = "[FILE|-]",
        .summary = "Submit jobs and wait until they are recorded",
        .help = "FILE holds job objects in JSON, one after another; - is standard input. Without\n"
                "FILE, --workflow says what to run. The options that describe the job apply to\n"
                "what is in FILE too. A submission is repeated until it is answered: the id makes\n"
                "that safe, and a command that timed out can be run again with the same --id.\n",
        .groups = GROUP_BROKER | GROUP_OUTPUT | GROUP_SUBMIT,
        .max_operands = 1,
    },
    {
        .name = "run",
        .operands = "[FILE|-]",
        .summary = "Submit one job and follow it to its end",
        .help =
            "Takes what `submit` takes. What happens is printed on standard error: on a terminal\n"
            "the steps are a list that is redrawn, elsewhere every change is a line. How the\n"
            "job ended is printed on standard output; the exit code says it too. Interrupting it\n"
            "leaves the job running: the same command with the same --id follows it again.\n"
            "With -o jsonl every change is a JobEvent, with -o json the last status is\n"
            "printed, both on standard output.\n",
        .groups = GROUP_BROKER | GROUP_OUTPUT | GROUP_SUBMIT | GROUP_DATA,
        .max_operands = 1,
    },
    {
        .name = "list",
        .operands = "",
        .summary = "List jobs, newest first",
        .help =
            "By creation. What is given must all hold; labels must all be there. Where there\n"
            "may be more, standard error says how to go on. -o jsonl prints a JobStatus a line,\n"
            "-o id is made for xargs.\n"
            "--needs attention lists what a person is to act on: jobs with a parked step, those\n"
            "held past their deadline, and those that ended in error and were not cancelled or\n"
            "killed; until a person acts, or says `acknowledge`. With --group they are counted by\n"
            "error class, actor and workflow.\n",
        .groups = GROUP_BROKER | GROUP_OUTPUT | GROUP_FILTER | GROUP_LIST | GROUP_STORE,
    },
    {
        .name = "get",
        .operands = "JOB",
        .summary = "Show a job and its steps",
        .help = "",
        .groups = GROUP_BROKER | GROUP_OUTPUT | GROUP_DATA | GROUP_STORE,
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "why",
        .operands = "JOB",
        .summary = "Say why the steps of a job do not move",
        .help =
            "A reason code and a sentence for the job, and for every step that is not where the\n"
            "job wants it. Asks a scheduler, and the broker who reads which queue; where no\n"
            "scheduler reads, it says that. With --from-store only what the store knows. With -o "
            "json\n"
            "it is one object.\n",
        .groups = GROUP_BROKER | GROUP_OUTPUT | GROUP_STORE,
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "history",
        .operands = "JOB",
        .summary = "Show what happened to a job",
        .help =
            "An entry for everything that was recorded: dispatches, answers, expiries, commands.\n",
        .groups = GROUP_BROKER | GROUP_OUTPUT | GROUP_FOLLOW | GROUP_STORE,
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "watch",
        .operands = "JOB",
        .summary = "Follow a job to its end",
        .help =
            "As `run` does it, for a job that is there, and all on standard output: it is what\n"
            "was asked for. The exit code tells how the job ended.\n",
        .groups = GROUP_BROKER | GROUP_OUTPUT | GROUP_DATA,
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "wait",
        .operands = "JOB...",
        .summary = "Wait until jobs have ended",
        .help = "Prints a line for each job as it has ended, in the order given. The exit code is\n"
                "that of the first job that did not succeed.\n",
        .groups = GROUP_BROKER | GROUP_OUTPUT,
        .min_operands = 1,
        .max_operands = INT32_MAX,
    },
    {
        .name = "set-desired",
        .operands = "JOB|--where active|disabled",
        .summary = "Bring a job forward, or take back what it has done",
        .help =
            "At any time, also for a job that has ended. Nothing new goes the other way; steps in\n"
            "flight are waited for; then each step is undone after those that depend on it, or\n"
            "done again. Returns when the command is recorded: `wait` waits for the end.\n",
        .groups = GROUP_BROKER | GROUP_OUTPUT | GROUP_REASON | GROUPS_BULK,
        .min_operands = 2,
        .max_operands = 2,
    },
    {
        .name = "cancel",
        .operands = "JOB|--where",
        .summary = "Take a job back that has not ended",
        .help = "As `set-desired JOB disabled`, but it ends as cancelled.\n",
        .groups = GROUP_BROKER | GROUP_OUTPUT | GROUP_REASON | GROUPS_BULK,
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "kill",
        .operands = "JOB|--where",
        .summary = "End a job where it is, for good",
        .help = "Nothing is undone, and what its agents still answer is not recorded.\n",
        .groups = GROUP_BROKER | GROUP_OUTPUT | GROUP_REASON | GROUPS_BULK,
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "pause",
        .operands = "JOB|--where",
        .summary = "Send nothing for a job until it is resumed",
        .help = "What is in flight goes on, and its answers are recorded.\n",
        .groups = GROUP_BROKER | GROUP_OUTPUT | GROUP_REASON | GROUPS_BULK,
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "resume",
        .operands = "JOB|--where",
        .summary = "Go on with a job that was paused, or is past its time",
        .help = "",
        .groups = GROUP_BROKER | GROUP_OUTPUT | GROUP_REASON | GROUPS_BULK,
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "acknowledge",
        .operands = "JOB|--where",
        .summary = "Take a job off the list of those that need attention",
        .help =
            "The job stays as it is; who has acknowledged it, and why, is in its history. It is\n"
            "on the list again when another step is parked, or when it ends once more in\n"
            "error and was not cancelled or killed.\n",
        .groups = GROUP_BROKER | GROUP_OUTPUT | GROUP_REASON | GROUPS_BULK,
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "retry",
        .operands = "JOB|--where [STEP...]",
        .summary = "Try parked and failed steps again",
        .help =
            "All of them, or those named; what was counted against them is forgotten. One step\n"
            "may be changed: --set lock=10m, wait, heartbeat, retry.maximum_attempts and what\n"
            "else a workflow file has in `retry`; the same of its undo, --set revert.lock=10m.\n"
            "It stays the same work, under the same idempotency key. With other arguments\n"
            "(--input), another actor or action it is other work: where the step may have taken\n"
            "effect it is undone first, and meanwhile the job begins nothing else; where it has\n"
            "no revert that is refused, unless --begin-anew is given. Never while it is in\n"
            "flight.\n",
        .groups = GROUP_BROKER | GROUP_OUTPUT | GROUP_REASON | GROUP_INPUT | GROUP_SET |
                  GROUP_BEGIN_ANEW | GROUPS_BULK,
        .min_operands = 1,
        .max_operands = INT32_MAX,
    },
    {
        .name = "resolve",
        .operands = "JOB|--where STEP active|disabled",
        .summary = "State what a step has done, where Drover cannot know",
        .help = "For a step that is parked, has failed, or waits for its next try. --input is its "
                "result.\n",
        .groups = GROUP_BROKER | GROUP_OUTPUT | GROUP_REASON | GROUP_INPUT | GROUPS_BULK,
        .min_operands = 3,
        .max_operands = 3,
    },
    {
        .name = "migrate",
        .operands = "JOB|--where NAME[@V]",
        .summary = "Give a job another version of its workflow",
        .help =
            "Steps take what that version says of them; the newest version unless V is given.\n"
            "A step that stands, parked say, takes another lease or policy as it is; one that is\n"
            "other work in that version is undone first where it may have taken effect. Refused\n"
            "where a step that is done is not the same in both, where one is in flight, and\n"
            "where nothing takes it back, unless --begin-anew is given.\n",
        .groups = GROUP_BROKER | GROUP_OUTPUT | GROUP_REASON | GROUP_BEGIN_ANEW | GROUPS_BULK,
        .min_operands = 2,
        .max_operands = 2,
    },
    {
        .name = "resend",
        .operands = "ACTOR",
        .summary = "Have the requests of an actor that are in flight sent again",
        .help =
            "For messages that the broker may have lost in a way that Drover does not notice: a\n"
            "queue was purged, or deleted and made anew while no process of Drover used it.\n"
            "ACTOR is '*' for all actors, as after a loss of drover.replies. The requests keep\n"
            "their tokens, so an agent that has one already goes on with it; nothing is counted.\n"
            "A step whose agent sends Progress is sent again only if three heartbeats pass\n"
            "without one.\n",
        .groups = GROUP_BROKER | GROUP_OUTPUT | GROUP_REASON,
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "workflow list",
        .operands = "",
        .summary = "List the registered workflows",
        .help = "",
        .groups = GROUP_BROKER | GROUP_OUTPUT,
    },
    {
        .name = "workflow show",
        .operands = "NAME[@V]",
        .summary = "Show a registered workflow",
        .help = "The newest version unless V is given.\n",
        .groups = GROUP_BROKER | GROUP_OUTPUT,
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "workflow validate",
        .operands = "FILE|FOLDER...",
        .summary = "Check workflow files before a scheduler reads them",
        .help =
            "Needs no broker. With -o json it prints what a Submit could carry as definition.\n",
        .groups = GROUP_OUTPUT,
        .min_operands = 1,
        .max_operands = INT32_MAX,
    },
    {
        .name = "import",
        .operands = "FILE...",
        .summary = "Turn recorded workflows into jobs for `submit`",
        .help = "FILE holds {name, steps: [{name, depends_on, runtime}]} in JSON, or an array of\n"
                "these; - is standard input. Prints a job object a line. Each step sleeps for its\n"
                "runtime, which is in seconds, times --scale.\n",
        .groups = GROUP_IMPORT,
        .min_operands = 1,
        .max_operands = INT32_MAX,
    },
    {
        .name = "config",
        .operands = "",
        .summary = "Print a configuration file with every setting explained",
        .help = "What it sets are the defaults, as comments.\n",
    },
    {
        .name = "completion",
        .operands = "bash",
        .summary = "Print completion for a shell",
        .help = "For this shell: eval \"$(drover completion bash)\"\n",
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "manual",
        .operands = "drover|drover.cfg",
        .summary = "Print the source of a man page",
        .help = "For scdoc(1): drover manual drover.cfg | scdoc | man -l -\n",
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "failpoints",
        .operands = "",
        .summary = "List where a test can make a daemon crash, stall, lose or repeat",
        .help =
            "For tests. A daemon with DROVER_FAILPOINTS_ALLOW=1 in its environment follows\n"
            "DROVER_FAILPOINTS, or the file that DROVER_FAILPOINTS_FILE names, also while it\n"
            "changes: POINT=TERM[->TERM...], separated by ; or line ends, a TERM being\n"
            "[P%][N*]TASK[(ARGUMENT)][@TEXT]: in P of 100 cases, N times at most, where what "
            "passes\n"
            "contains TEXT. Tasks: off, return, drop, double, sleep(T), delay(T), pause, yield,\n"
            "print(TEXT), clock(T), panic, crash (exit code 86). Each one performed is in the\n"
            "log before. The points are listed by `drover failpoints`.\n",
    },
    {
        .name = "version",
        .operands = "",
        .summary = "Print the version",
        .help = "",
    },
    {
        .name = "help",
        .operands = "[COMMAND]",
        .summary = "Explain a command",
        .help = "",
        .max_operands = 2,
    },
};

const struct command *command_find(const char *first, const char *second, int *words)
{
    char both[80]; /* longer than any name */

    snprintf(both, sizeof(both), "%s %s", first, second ? second : "");
    for (size_t i = 0; i < array_size(COMMANDS); i++) {
        *words = strchr(COMMANDS[i].name, ' ') ? 2 : 1;
        if (strcmp(COMMANDS[i].name, *words == 2 ? both : first) == 0)
            return &COMMANDS[i];
    }
    return NULL;
}

const struct command *command_at(size_t n)
{
    return n < array_size(COMMANDS) ? &COMMANDS[n] : NULL;
}
