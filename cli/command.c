// SPDX-License-Identifier: Apache-2.0
/*
 * Commands: the tables of commands and options, parsing, hints and help
 *
 * See cli/command.h.
 */
#include "cli/command.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/parse.h"
#include "io/config/config_tree.h"

/* ---- tables ---- */

enum group {
    GROUP_ALL = 1 << 0,
    GROUP_BROKER = 1 << 1,
    GROUP_OUTPUT = 1 << 2,
    GROUP_SUBMIT = 1 << 3,
    GROUP_DATA = 1 << 4,
    GROUP_REASON = 1 << 5,
    GROUP_IMPORT = 1 << 6,
    GROUP_LIST = 1 << 7,
    GROUP_FOLLOW = 1 << 8,
    GROUP_INPUT = 1 << 9,
    GROUP_FILTER = 1 << 10,

    GROUP_BULK = 1 << 11, /* takes --where, for all jobs that the filters find, instead of JOB */
    GROUP_STORE = 1 << 12,
    GROUP_SET = 1 << 13,
    GROUP_ANEW = 1 << 14,
};

#define GROUPS_BULK (GROUP_FILTER | GROUP_BULK)

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
        .run = cli_submit,
    },
    {
        .name = "run",
        .operands = "[FILE|-]",
        .summary = "Submit one job and follow it to its end",
        .help = "Takes what `submit` takes. What happens is told on standard error: on a terminal\n"
                "the steps are a list that is redrawn, elsewhere every change is a line. How the\n"
                "job ended is told on standard output, and by the exit code. Interrupting it\n"
                "leaves the job running: the same command with the same --id follows it again.\n"
                "With -o jsonl every change is a JobEvent, with -o json the last status is\n"
                "printed, both on standard output.\n",
        .groups = GROUP_BROKER | GROUP_OUTPUT | GROUP_SUBMIT | GROUP_DATA,
        .max_operands = 1,
        .run = cli_run,
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
            "held past their deadline, those that ended as nobody asked for; until somebody acts,\n"
            "or says `acknowledge`. With --group they are counted by error class, actor and\n"
            "workflow.\n",
        .groups = GROUP_BROKER | GROUP_OUTPUT | GROUP_FILTER | GROUP_LIST | GROUP_STORE,
        .run = cli_list,
    },
    {
        .name = "get",
        .operands = "JOB",
        .summary = "Show a job and its steps",
        .help = "",
        .groups = GROUP_BROKER | GROUP_OUTPUT | GROUP_DATA | GROUP_STORE,
        .min_operands = 1,
        .max_operands = 1,
        .run = cli_get,
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
        .run = cli_why,
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
        .run = cli_history,
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
        .run = cli_watch,
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
        .run = cli_wait,
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
        .run = cli_set_desired,
    },
    {
        .name = "cancel",
        .operands = "JOB|--where",
        .summary = "Take a job back that has not ended",
        .help = "As `set-desired JOB disabled`, but it ends as cancelled.\n",
        .groups = GROUP_BROKER | GROUP_OUTPUT | GROUP_REASON | GROUPS_BULK,
        .min_operands = 1,
        .max_operands = 1,
        .run = cli_cancel,
    },
    {
        .name = "kill",
        .operands = "JOB|--where",
        .summary = "End a job where it is, for good",
        .help = "Nothing is undone, and what its agents still answer is not recorded.\n",
        .groups = GROUP_BROKER | GROUP_OUTPUT | GROUP_REASON | GROUPS_BULK,
        .min_operands = 1,
        .max_operands = 1,
        .run = cli_kill,
    },
    {
        .name = "pause",
        .operands = "JOB|--where",
        .summary = "Send nothing for a job until it is resumed",
        .help = "What is in flight goes on, and its answers are recorded.\n",
        .groups = GROUP_BROKER | GROUP_OUTPUT | GROUP_REASON | GROUPS_BULK,
        .min_operands = 1,
        .max_operands = 1,
        .run = cli_pause,
    },
    {
        .name = "resume",
        .operands = "JOB|--where",
        .summary = "Go on with a job that was paused, or is past its time",
        .help = "",
        .groups = GROUP_BROKER | GROUP_OUTPUT | GROUP_REASON | GROUPS_BULK,
        .min_operands = 1,
        .max_operands = 1,
        .run = cli_resume,
    },
    {
        .name = "acknowledge",
        .operands = "JOB|--where",
        .summary = "Take a job off the list of those that need attention",
        .help =
            "The job stays as it is; who has acknowledged it, and why, is in its history. It is\n"
            "on the list again when another step is parked, or when it ends once more as\n"
            "nobody asked for.\n",
        .groups = GROUP_BROKER | GROUP_OUTPUT | GROUP_REASON | GROUPS_BULK,
        .min_operands = 1,
        .max_operands = 1,
        .run = cli_acknowledge,
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
                  GROUP_ANEW | GROUPS_BULK,
        .min_operands = 1,
        .max_operands = INT32_MAX,
        .run = cli_retry,
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
        .run = cli_resolve,
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
        .groups = GROUP_BROKER | GROUP_OUTPUT | GROUP_REASON | GROUP_ANEW | GROUPS_BULK,
        .min_operands = 2,
        .max_operands = 2,
        .run = cli_migrate,
    },
    {
        .name = "workflow list",
        .operands = "",
        .summary = "List the registered workflows",
        .help = "",
        .groups = GROUP_BROKER | GROUP_OUTPUT,
        .run = cli_workflow_list,
    },
    {
        .name = "workflow show",
        .operands = "NAME[@V]",
        .summary = "Show a registered workflow",
        .help = "The newest version unless V is given.\n",
        .groups = GROUP_BROKER | GROUP_OUTPUT,
        .min_operands = 1,
        .max_operands = 1,
        .run = cli_workflow_show,
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
        .run = cli_workflow_validate,
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
        .run = cli_import,
    },
    {
        .name = "config",
        .operands = "",
        .summary = "Print a configuration file with every setting explained",
        .help = "What it sets are the defaults, as comments.\n",
        .run = cli_config,
    },
    {
        .name = "completion",
        .operands = "bash",
        .summary = "Print completion for a shell",
        .help = "For this shell: eval \"$(drover completion bash)\"\n",
        .min_operands = 1,
        .max_operands = 1,
        .run = cli_completion,
    },
    {
        .name = "manual",
        .operands = "drover|drover.cfg",
        .summary = "Print the source of a man page",
        .help = "For scdoc(1): drover manual drover.cfg | scdoc | man -l -\n",
        .min_operands = 1,
        .max_operands = 1,
        .run = cli_manual,
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
        .run = cli_failpoints,
    },
    {
        .name = "version",
        .operands = "",
        .summary = "Print the version",
        .help = "",
        .run = cli_version,
    },
    {
        .name = "help",
        .operands = "[COMMAND]",
        .summary = "Explain a command",
        .help = "",
        .max_operands = 2,
        .run = cli_help,
    },
};

enum kind {
    KIND_FLAG,
    KIND_TEXT,
    KIND_DURATION,
    KIND_MOMENT,
    KIND_FACTOR,
    KIND_LABEL,
    KIND_SETTING,
    KIND_OUTPUT,
    KIND_PHASE,
    KIND_NEED,
    KIND_COUNT,
};

/* What a value of a kind must be, for complaints; kinds without one accept any value. */
static const char *const WANTED[] = {
    [KIND_DURATION] = "a duration such as 500ms, 30s or 5m",
    [KIND_MOMENT] = "a time such as 2026-01-31T12:00:00Z, +10m or -2h",
    [KIND_FACTOR] = "a number from 0 to 1000000000",
    [KIND_LABEL] = "NAME=VALUE, or one too many",
    [KIND_SETTING] = "FIELD=VALUE, or one too many",
    [KIND_OUTPUT] = "table, json, jsonl or id",
    [KIND_PHASE] = "pending, processing, processed or error",
    [KIND_NEED] = "attention, parked, deadline or ended",
    [KIND_COUNT] = "a number from 1 to 1000000",
};

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

struct option_row {
    struct command_option seen;
    enum kind kind;
    size_t offset;   /* in struct args */
    unsigned groups; /* commands of any of these groups take it */
};

#define TO(member) offsetof(struct args, member)

static const struct option_row OPTIONS[] = {
    {{"workflow", 'w', "NAME[@V]",
      "a registered workflow; submit takes the newest version unless V is given"},
     KIND_TEXT,
     TO(workflow),
     GROUP_SUBMIT | GROUP_FILTER},
    {{"id", 'i', "ID", "the job's id; default: a new one that sorts by time"},
     KIND_TEXT,
     TO(id),
     GROUP_SUBMIT},
    {{"input", 0, "TEXT|@FILE",
      "its input, arguments or result: JSON where it is that, else text or bytes"},
     KIND_TEXT,
     TO(input),
     GROUP_SUBMIT | GROUP_INPUT},
    {{"label", 'l', "NAME=VALUE", "may be given many times"},
     KIND_LABEL,
     TO(labels),
     GROUP_SUBMIT | GROUP_FILTER},
    {{"set", 0, "FIELD=VALUE", "of the step, as a workflow file has it; may be given many times"},
     KIND_SETTING,
     TO(settings),
     GROUP_SET},
    {{"begin-anew", 0, NULL, "also where the step may have taken effect, and has no revert"},
     KIND_FLAG,
     TO(begin_anew),
     GROUP_ANEW},
    {{"start-at", 0, "TIME", "not before; 2026-01-31T12:00:00Z or +10m"},
     KIND_MOMENT,
     TO(start_at),
     GROUP_SUBMIT},
    {{"complete-by", 0, "TIME", "bounds work forward; past it, the workflow's on_deadline"},
     KIND_MOMENT,
     TO(complete_by),
     GROUP_SUBMIT},
    {{"where", 0, NULL, "all jobs that the options of `list` find, in place of JOB"},
     KIND_FLAG,
     TO(where),
     GROUP_BULK},
    {{"rps", 0, "COUNT", "with --where: so many jobs a second; default: 50"},
     KIND_COUNT,
     TO(rps),
     GROUP_BULK},
    {{"dry-run", 0, NULL, "with --where: only say which jobs"}, KIND_FLAG, TO(dry_run), GROUP_BULK},
    {{"from-store", 0, NULL, "ask Redis, by redis.* of the configuration; needs no broker"},
     KIND_FLAG,
     TO(from_store),
     GROUP_STORE},
    {{"phase", 'p', "PHASE", "pending, processing, processed or error", PHASES},
     KIND_PHASE,
     TO(phase),
     GROUP_FILTER},
    {{"needs", 0, "WHAT",
      "what a person is to act on: attention, or only parked, deadline or ended", NEEDS},
     KIND_NEED,
     TO(needs),
     GROUP_FILTER},
    {{"error-class", 0, "CLASS", "needs attention because of such an error"},
     KIND_TEXT,
     TO(error_class),
     GROUP_FILTER},
    {{"since", 0, "TIME", "created then or later; 2026-01-31T12:00:00Z or -2h"},
     KIND_MOMENT,
     TO(since),
     GROUP_FILTER},
    {{"before", 0, "TIME", "created before that"}, KIND_MOMENT, TO(before), GROUP_FILTER},
    {{"limit", 'n', "COUNT", "at most so many; default of list: 50"},
     KIND_COUNT,
     TO(limit),
     GROUP_FILTER},
    {{"after", 0, "PLACE", "go on where another list ended"}, KIND_TEXT, TO(after), GROUP_LIST},
    {{"group", 'g', NULL, "count what needs attention by error class, actor and workflow"},
     KIND_FLAG,
     TO(group),
     GROUP_LIST},
    {{"follow", 'f', NULL, "go on until the job has ended"}, KIND_FLAG, TO(follow), GROUP_FOLLOW},
    {{"data", 'd', NULL, "also the input, results and errors"}, KIND_FLAG, TO(data), GROUP_DATA},
    {{"reason", 'r', "TEXT", "for the job's history"}, KIND_TEXT, TO(reason), GROUP_REASON},
    {{"actor", 'a', "NAME",
      "needs attention because of a step of this actor; import: of every step, default: demo"},
     KIND_TEXT,
     TO(actor),
     GROUP_IMPORT | GROUP_FILTER},
    {{"scale", 's', "FACTOR", "times the runtime; default: 1; 0: no sleep at all"},
     KIND_FACTOR,
     TO(scale),
     GROUP_IMPORT},
    {{"output", 'o', "FORMAT", "table (default), json, jsonl or id", OUTPUTS},
     KIND_OUTPUT,
     TO(output),
     GROUP_OUTPUT},
    {{"no-color", 0, NULL, "as the variable NO_COLOR"}, KIND_FLAG, TO(no_color), GROUP_OUTPUT},
    {{"url", 'u', "URL",
      "amqp://user@host:port/vhost; default: $DROVER_URL, which may hold a password"},
     KIND_TEXT,
     TO(url),
     GROUP_BROKER},
    {{"config", 'c', "FILE", "where the broker's address stands, unless a URL is given"},
     KIND_TEXT,
     TO(config),
     GROUP_BROKER},
    {{"timeout", 't', "DURATION",
      "give up after; default: 30s, but run, watch and wait go on for ever"},
     KIND_DURATION,
     TO(timeout_ms),
     GROUP_BROKER},
    {{"verbose", 'v', NULL, "log what happens on the connection"},
     KIND_FLAG,
     TO(verbose),
     GROUP_BROKER},
    {{"help", 'h', NULL, "explain the command"}, KIND_FLAG, TO(help), GROUP_ALL},
    {{"version", 'V', NULL, "print the version"}, KIND_FLAG, TO(version), GROUP_ALL},
};

#define N_OPTIONS array_size(OPTIONS)
#define HINT_SIZE 80   /* bytes of an unknown word, or of a hint */
#define FACTOR_MAX 1e9 /* of --scale */
#define COUNT_MAX 1000000
#define CODE_BASE 256 /* the code of getopt for the first row of OPTIONS, above every letter */

/* ---- hints ---- */

static void unknown_command(const char *first, const char *second, struct problem *problem)
{
    char word[HINT_SIZE], hint[2 * HINT_SIZE];
    struct nearest nearest = nearest_to(word);
    size_t len = strlen(first);
    CLEANUP(buf_deinit) struct buf family = {0}; /* second words: of `workflow` list, show, … */

    for (size_t i = 0; i < array_size(COMMANDS); i++)
        if (strncmp(COMMANDS[i].name, first, len) == 0 && COMMANDS[i].name[len] == ' ')
            buf_printf(&family, "%s%s", family.len > 0 ? ", " : "", COMMANDS[i].name + len + 1);
    snprintf(word, sizeof(word), "%s%s%s", first, family.len > 0 && second ? " " : "",
             family.len > 0 && second ? second : "");
    for (size_t i = 0; i < array_size(COMMANDS); i++)
        nearest_try(&nearest, COMMANDS[i].name);
    if (family.len > 0 && !second)
        problem_set(problem, "", "%s what? %s", word, buf_str(&family));
    else
        problem_set(problem, "", "there is no command %s%s", word,
                    nearest_text(&nearest, hint, sizeof(hint)));
}

/* @word: as typed, such as "--nmae=x" or "-x". */
static void unknown_option(const char *word, struct problem *problem)
{
    char name[HINT_SIZE], known[HINT_SIZE], hint[HINT_SIZE];
    struct nearest nearest = nearest_to(name);

    snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
    for (size_t i = 0; i < N_OPTIONS; i++) {
        snprintf(known, sizeof(known), "--%s", OPTIONS[i].seen.name);
        nearest_try(&nearest, known);
    }
    problem_set(problem, "", "there is no option %s%s", name,
                nearest_text(&nearest, hint, sizeof(hint)));
}

/* ---- parsing ---- */

/* Return: the index of @text in @words; -1 if it is not among them. */
static int take_word(const char *text, const char *const *words)
{
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], text) == 0)
            return i;
    return -1;
}

static bool take_output(const char *text, enum output *out)
{
    int at = take_word(text, OUTPUTS);

    *out = at >= 0 ? (enum output)at : OUTPUT_TABLE;
    return at >= 0;
}

static bool take_phase(const char *text, Drover__V1__Phase *out)
{
    int at = take_word(text, PHASES);

    *out = at >= 0 ? (Drover__V1__Phase)(at + DROVER__V1__PHASE__PHASE_PENDING)
                   : DROVER__V1__PHASE__PHASE_UNSPECIFIED;
    return at >= 0;
}

static bool take_need(const char *text, Drover__V1__Need *out)
{
    int at = take_word(text, NEEDS);

    *out = at >= 0 ? (Drover__V1__Need)(at + DROVER__V1__NEED__NEED_ATTENTION)
                   : DROVER__V1__NEED__NEED_UNSPECIFIED;
    return at >= 0;
}

static bool take_count(const char *text, int64_t *out)
{
    return bytes_to_i64(bytes_str(text), out) && *out >= 1 && *out <= COUNT_MAX;
}

static bool take_factor(const char *text, double *out)
{
    char *end;

    *out = strtod(text, &end);
    return *text != '\0' && *end == '\0' && *out >= 0 && *out <= FACTOR_MAX;
}

static bool take_label(const char *text, struct args *args)
{
    const char *equals = strchr(text, '=');

    if (!equals || equals == text || args->n_labels == WIRE_LABELS_MAX)
        return false;
    args->labels[args->n_labels++] = text;
    return true;
}

static bool take_setting(const char *text, struct args *args)
{
    const char *equals = strchr(text, '=');

    if (!equals || equals == text || args->n_settings == array_size(args->settings))
        return false;
    args->settings[args->n_settings++] = text;
    return true;
}

/* Return: false if @text is not a value of the kind of the option. */
static bool take_value(const struct option_row *o, const char *text, int64_t now, struct args *args)
{
    void *to = (char *)args + o->offset;

    switch (o->kind) {
    case KIND_FLAG:
        *(bool *)to = true;
        return true;
    case KIND_TEXT:
        *(const char **)to = text;
        return true;
    case KIND_DURATION:
        return parse_duration(text, to) && *(int64_t *)to > 0;
    case KIND_MOMENT:
        return parse_moment(text, now, to) && *(int64_t *)to > 0;
    case KIND_FACTOR:
        return take_factor(text, to);
    case KIND_LABEL:
        return take_label(text, args);
    case KIND_SETTING:
        return take_setting(text, args);
    case KIND_OUTPUT:
        return take_output(text, to);
    case KIND_PHASE:
        return take_phase(text, to);
    case KIND_NEED:
        return take_need(text, to);
    case KIND_COUNT:
        return take_count(text, to);
    }
    return false;
}

/* The table of options in the form that getopt_long() takes. */
struct getopt_tables {
    struct option longs[N_OPTIONS + 1];
    char letters[2 * N_OPTIONS + 2];
};

static void getopt_tables(struct getopt_tables *t)
{
    size_t n = 0;

    t->letters[n++] = ':'; /* so that a missing argument is reported as ':', not '?' */
    for (size_t i = 0; i < N_OPTIONS; i++) {
        t->longs[i] = (struct option){
            .name = OPTIONS[i].seen.name,
            .has_arg = OPTIONS[i].seen.argument ? required_argument : no_argument,
            .val = CODE_BASE + (int)i,
        };
        if (!OPTIONS[i].seen.letter)
            continue;
        t->letters[n++] = OPTIONS[i].seen.letter;
        if (OPTIONS[i].seen.argument)
            t->letters[n++] = ':';
    }
    t->letters[n] = '\0';
    t->longs[N_OPTIONS] = (struct option){0};
}

/* Return: the row for a code of getopt; NULL if there is none. */
static const struct option_row *option_of(int code)
{
    if (code >= CODE_BASE)
        return &OPTIONS[code - CODE_BASE];
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (OPTIONS[i].seen.letter && OPTIONS[i].seen.letter == code)
            return &OPTIONS[i];
    return NULL;
}

/* Reports a word that getopt has refused. */
static void getopt_problem(const char *word, struct problem *problem)
{
    char letter[] = {'-', (char)optopt, '\0'};

    if (optopt >= CODE_BASE)
        problem_set(problem, "", "--%s takes no value", OPTIONS[optopt - CODE_BASE].seen.name);
    else
        unknown_option(optopt ? letter : word, problem);
}

/* Reads all options, and sets @used for each row that was given. */
static int options_parse(int argc, char **argv, int64_t now, struct args *args, bool *used,
                         struct problem *problem)
{
    struct getopt_tables t;
    int code;

    getopt_tables(&t);
    optind = 0; /* so that getopt begins anew if it was used before */
    opterr = 0;
    while ((code = getopt_long(argc, argv, t.letters, t.longs, NULL)) != -1) {
        const struct option_row *o = option_of(code);

        if (code == ':') {
            problem_set(problem, "", "%s needs a value", argv[optind - 1]);
            return COMMAND_E_USAGE;
        }
        if (!o) {
            getopt_problem(argv[optind - 1], problem);
            return COMMAND_E_USAGE;
        }
        if (!take_value(o, optarg, now, args)) {
            problem_set(problem, "", "--%s: '%s' is not %s", o->seen.name, optarg, WANTED[o->kind]);
            return COMMAND_E_USAGE;
        }
        used[o - OPTIONS] = true;
    }
    return 0;
}

/* Requires a filter with --where, so that a forgotten word does not mean all jobs. */
static int where_check(const struct args *args, struct problem *problem)
{
    bool filtered = args->phase || args->workflow || args->n_labels || args->since ||
                    args->before || args->needs || args->error_class || args->actor;
    bool bulk = args->command->groups & GROUP_BULK;

    if (args->workflow && !*args->workflow) /* from a shell variable that is not set */
        problem_set(problem, "", "--workflow: '' is no name");
    else if (bulk && args->where && !filtered)
        problem_set(problem, "",
                    "--where needs --phase, --needs, --error-class, --actor, --workflow, --label, "
                    "--since or --before");
    else if (bulk && !args->where && (filtered || args->limit || args->rps || args->dry_run))
        problem_set(problem, "", "options that say which jobs go with --where");
    else
        return 0;
    return COMMAND_E_USAGE;
}

static int operands_check(const struct args *args, struct problem *problem)
{
    const struct command *c = args->command;
    int n = args->n_operands + args->where; /* --where replaces JOB */

    if (n >= c->min_operands && n <= c->max_operands)
        return where_check(args, problem);
    problem_set(problem, "", "usage: drover %s%s%s", c->name, *c->operands ? " " : "", c->operands);
    return COMMAND_E_USAGE;
}

static int groups_check(const struct args *args, const bool *used, struct problem *problem)
{
    for (size_t i = 0; i < N_OPTIONS; i++) {
        if (used[i] && !(OPTIONS[i].groups & (args->command->groups | GROUP_ALL))) {
            problem_set(problem, "", "`%s` takes no option --%s", args->command->name,
                        OPTIONS[i].seen.name);
            return COMMAND_E_USAGE;
        }
    }
    return 0;
}

static int command_take(char **words, int n, struct args *args, int *used, struct problem *problem)
{
    args->command = command_find(words[0], n > 1 ? words[1] : NULL, used);
    if (args->command)
        return 0;
    unknown_command(words[0], n > 1 ? words[1] : NULL, problem);
    return COMMAND_E_USAGE;
}

int command_parse(int argc, char **argv, int64_t now, struct args *args, struct problem *problem)
{
    bool used[N_OPTIONS] = {false};
    int r, words = 0;

    *args = (struct args){.scale = 1};
    r = options_parse(argc, argv, now, args, used, problem);
    if (r)
        return r;
    if (optind >= argc && (args->help || args->version))
        return 0;
    if (optind >= argc) {
        problem_set(problem, "", "what should be done?");
        return COMMAND_E_USAGE;
    }
    r = command_take(argv + optind, argc - optind, args, &words, problem);
    if (r)
        return r;
    args->operands = argv + optind + words;
    args->n_operands = argc - optind - words;
    r = groups_check(args, used, problem);
    return r || args->help ? r : operands_check(args, problem);
}

const struct command *command_find(const char *first, const char *second, int *words)
{
    char both[HINT_SIZE];

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

const struct command_option *command_option_at(const struct command *command, size_t n)
{
    unsigned groups = command ? command->groups : GROUP_ALL | GROUP_BROKER | GROUP_OUTPUT;

    for (size_t i = 0; i < N_OPTIONS; i++)
        if (OPTIONS[i].groups & groups && n-- == 0)
            return &OPTIONS[i].seen;
    return NULL;
}

/* ---- help ---- */

static void option_help(const struct command_option *o, struct buf *out)
{
    size_t begin = out->len;

    if (o->letter)
        buf_printf(out, "  -%c, ", o->letter);
    else
        buf_puts(out, "      ");
    buf_printf(out, "--%s%s%s", o->name, o->argument ? " " : "", o->argument ? o->argument : "");
    buf_printf(out, "%*s%s\n", (int)(begin + 30 > out->len ? begin + 30 - out->len : 1), "",
               o->help);
}

static void options_help(const struct command *command, struct buf *out)
{
    const struct command_option *o;

    buf_puts(out, "\nOptions:\n");
    for (size_t n = 0; (o = command_option_at(command, n)); n++)
        option_help(o, out);
    if (command)
        option_help(&OPTIONS[N_OPTIONS - 2].seen, out); /* --help, which all commands take */
}

static void overview(struct buf *out)
{
    buf_puts(out, "usage: drover COMMAND [OPTIONS]\n\n"
                  "Drives multi-step jobs to the state somebody asked for.\n\nCommands:\n");
    for (size_t i = 0; i < array_size(COMMANDS); i++)
        buf_printf(out, "  %-19s%s\n", COMMANDS[i].name, COMMANDS[i].summary);
    options_help(NULL, out);
    cli_exit_help(out);
    buf_puts(out, "\n`drover help COMMAND` explains a command, man drover everything.\n");
}

void command_help(const struct command *command, struct buf *out)
{
    if (!command) {
        overview(out);
        return;
    }
    buf_printf(out, "usage: drover %s%s%s [OPTIONS]\n\n%s.\n", command->name,
               *command->operands ? " " : "", command->operands, command->summary);
    if (*command->help)
        buf_printf(out, "\n%s", command->help);
    options_help(command, out);
}
