// SPDX-License-Identifier: Apache-2.0
/*
 * Golden narratives: small worlds that follow a script, traced line by line
 *
 *     test_narrative FOLDER [--update]
 *
 * Each story is compared with FOLDER/<name>.txt; --update rewrites these files. They show the
 * protocol to a reader: which process sends what to which, in what order, and which process repairs
 * it if one of them dies. Lines that begin with "#" say why. They are not compared; --update keeps
 * each before the line that it was before.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "world/story.h"
#include "world/world.h"

#define ALARM_MS 3000

struct story {
    const char *name;
    Drover__V1__Workflow *(*workflow)(struct timeline *t);
    world_script *script;
    const struct plan_command *commands;
    uint32_t n_commands;
    uint32_t supervisors; /* 0: one */
};

/* Strikes in this story so far. */
static unsigned strikes;

static bool once(void)
{
    return strikes++ == 0;
}

/* ---- the stories ---- */

static enum world_verdict nothing(void *ctx, const char *process, const char *what)
{
    return WORLD_GOES_ON;
}

/* The handler hangs; its agent stops it at the deadline and sends no reply. */
static enum world_verdict hang(void *ctx, const char *process, const char *what)
{
    return strcmp(what, "start job=j1 step=s1 attempt=1") == 0 ? WORLD_HANGS : WORLD_GOES_ON;
}

/* The scheduler dies after it has recorded s0 and dispatched s1, and before it publishes the
 * request. */
static enum world_verdict kill_scheduler(void *ctx, const char *process, const char *what)
{
    return strcmp(what,
                  "publish to=drover.tasks type=Requests job=j1 step=s1 attempt=1 actor=a0") == 0 &&
                   once()
               ? WORLD_KILLS
               : WORLD_GOES_ON;
}

/* The agent dies with the handler. */
static enum world_verdict kill_agent(void *ctx, const char *process, const char *what)
{
    return strcmp(what, "start job=j1 step=s1 attempt=1") == 0 ? WORLD_KILLS : WORLD_GOES_ON;
}

/* The reply is on its way, and the request is delivered again. */
static enum world_verdict kill_agent_after_reply(void *ctx, const char *process, const char *what)
{
    return strcmp(process, "agent-1") == 0 && strcmp(what, "ack") == 0 && once() ? WORLD_KILLS
                                                                                 : WORLD_GOES_ON;
}

/* The agent stands still until its lease is over: its reply must not be published. */
static enum world_verdict stall_agent(void *ctx, const char *process, const char *what)
{
    return strcmp(what, "start job=j1 step=s0 attempt=1") == 0 ? WORLD_STALLS : WORLD_GOES_ON;
}

/* Two attempts fail: each waits longer than the one before. */
static enum world_verdict fail_twice(void *ctx, const char *process, const char *what)
{
    return strcmp(what, "start job=j1 step=s0 attempt=1") == 0 ||
                   strcmp(what, "start job=j1 step=s0 attempt=2") == 0
               ? WORLD_FAILS
               : WORLD_GOES_ON;
}

/* The only attempt allowed fails: the step parks until a Retry. */
static enum world_verdict fail_first(void *ctx, const char *process, const char *what)
{
    return strncmp(what, "start ", 6) == 0 && once() ? WORLD_FAILS : WORLD_GOES_ON;
}

/* The last step fails for good: the job turns back and undoes the others. */
static enum world_verdict decline(void *ctx, const char *process, const char *what)
{
    return strcmp(what, "start job=j1 step=s2 attempt=1") == 0 ? WORLD_BREAKS : WORLD_GOES_ON;
}

/* The reply waits in front of the broker, and so does the Recover of the supervisor, longer than
 * the lease. */
static enum world_verdict raise_alarm(void *ctx, const char *process, const char *what)
{
    return strcmp(what, "publish to=drover.reply.a0 type=Replies job=j1 step=s0 attempt=1") == 0 &&
                   once()
               ? WORLD_ALARMS
               : WORLD_GOES_ON;
}

/* The Submit of the scheduler that has died waits in its queue again, and is lost with the queue.
 * */
static enum world_verdict wipe_broker(void *ctx, const char *process, const char *what)
{
    bool dies = strikes == 0 && strcmp(what, "store call=define") == 0;
    bool wiped = strikes == 1 && strcmp(what, "idle") == 0;

    strikes += dies || wiped;
    return dies ? WORLD_KILLS : wiped ? WORLD_WIPES : WORLD_GOES_ON;
}

/* The leading supervisor dies; the step of an agent that died is recovered only by the next leader.
 * */
static enum world_verdict kill_supervisor(void *ctx, const char *process, const char *what)
{
    if (strcmp(what, "start job=j1 step=s1 attempt=1") == 0)
        return WORLD_HANGS;
    return strcmp(what, "publish to=drover.control type=Control job=j1") == 0 && once()
               ? WORLD_KILLS
               : WORLD_GOES_ON;
}

#define COMMANDS(...)                                                                              \
    (const struct plan_command[]){__VA_ARGS__},                                                    \
        array_size(((const struct plan_command[]){__VA_ARGS__}))

static const struct story stories[] = {
    {"chain", story_chain, nothing},
    {"diamond", story_diamond, nothing},
    {"expiry", story_chain, hang},
    {"scheduler_dies_between_store_and_publish", story_chain, kill_scheduler},
    {"agent_dies_at_work", story_chain, kill_agent},
    {"agent_dies_between_reply_and_ack", story_patient, kill_agent_after_reply},
    {"agent_stands_still", story_patient, stall_agent},
    {"supervisor_dies_between_store_and_publish", story_chain, kill_supervisor, .supervisors = 2},
    {"broker_raises_an_alarm", story_patient, raise_alarm},
    {"broker_is_wiped", story_patient, wipe_broker},
    {"failures_back_off", story_patient, fail_twice},
    {"declined_for_good", story_saga, decline},
    {"disabled_in_mid_flight", story_saga, nothing, COMMANDS({PLAN_DISABLE, 150})},
    {"turned_to_and_fro", story_saga, nothing, COMMANDS({PLAN_DISABLE, 150}, {PLAN_ENABLE, 250})},
    {"parked_and_retried", story_one_try, fail_first, COMMANDS({PLAN_RETRY, 5000})},
    {"paused_and_resumed", story_chain, nothing, COMMANDS({PLAN_PAUSE, 50}, {PLAN_RESUME, 1000})},
};

/* ---- traces ---- */

static void plan_story(struct plan *plan, struct timeline *t, const struct story *story)
{
    story_plan(plan, story->workflow(t));
    plan->commands = story->commands;
    plan->n_commands = story->n_commands;
    if (story->supervisors > 0)
        plan->supervisors = story->supervisors;
    plan->faults.bus.alarm_ms = ALARM_MS;
}

/* Return: the trace, which the caller frees; NULL if an invariant was violated. */
static char *tell_story(struct simstore *store, const struct story *story)
{
    struct timeline t;
    struct plan plan;
    struct world_result result;
    char *text = NULL;
    size_t len;
    FILE *trace = open_memstream(&text, &len);

    if (!trace)
        abort();
    strikes = 0;
    timeline_init(&t, 1, trace);
    plan_story(&plan, &t, story);
    world_play(&(struct world_config){&plan, &t, store, story->script}, &result);
    timeline_deinit(&t);
    fclose(trace);
    if (!*result.violation)
        return text;
    printf("# %s: %s\n%s", story->name, result.violation, text);
    free(text);
    return NULL;
}

static char *read_text(const char *path)
{
    CLEANUP(buf_deinit) struct buf text = {0};
    FILE *file = fopen(path, "r");
    size_t n;

    while (file && (n = fread(buf_reserve(&text, 4096), 1, 4096, file)) > 0)
        text.len += n;
    if (file)
        fclose(file);
    return strdup(buf_str(&text));
}

/* The length of the line at @text with its end. */
static size_t line_len(const char *text)
{
    const char *end = strchr(text, '\n');

    return end ? (size_t)(end - text) + 1 : strlen(text);
}

/* The first line of the trace in a narrative from @text on: that after comments. */
static const char *skip_comments(const char *text)
{
    while (*text == '#')
        text += line_len(text);
    return text;
}

/* Return: the narrative without comments, which the caller frees. */
static char *trace_of(const char *narrative)
{
    char *trace = calloc(1, strlen(narrative) + 1);
    char *end = trace;

    if (!trace)
        abort();
    for (const char *line = skip_comments(narrative); *line; line = skip_comments(line)) {
        end = stpncpy(end, line, line_len(line));
        line += line_len(line);
    }
    return trace;
}

/* The first line of @text that is like the line at @like; NULL if there is none. */
static const char *find_line(const char *text, const char *like)
{
    size_t len = line_len(like);

    while (*text && (line_len(text) != len || strncmp(text, like, len) != 0))
        text += line_len(text);
    return *text ? text : NULL;
}

/* Writes a trace with the comments of a narrative. Return: the number of comments left out, because
 * the lines that they were before are gone. */
static unsigned write_commented(FILE *file, const char *trace, const char *narrative)
{
    unsigned left_out = 0;

    for (const char *line = narrative; *line; line += line_len(line)) {
        const char *comment = line;
        const char *at;

        line = skip_comments(line);
        if (line == comment)
            continue;
        at = find_line(trace, line);
        if (at) {
            fwrite(trace, 1, (size_t)(at - trace), file);
            fwrite(comment, 1, (size_t)(line - comment), file);
            trace = at;
        }
        left_out += !at;
    }
    fputs(trace, file);
    return left_out;
}

static bool write_narrative(const char *path, const char *trace, const char *narrative)
{
    FILE *file = fopen(path, "w");
    unsigned left_out;

    if (!file) {
        printf("# %s: %s\n", path, strerror(errno));
        return false;
    }
    left_out = write_commented(file, trace, narrative);
    if (left_out)
        printf("# %s: %u comments left out: the lines that they were before are gone\n", path,
               left_out);
    return fclose(file) == 0;
}

/* Prints the first line that differs. */
static void print_difference(const char *expected, const char *actual)
{
    unsigned line = 1;

    while (*expected && *expected == *actual) {
        line += *expected == '\n';
        expected++;
        actual++;
    }
    printf("# line %u differs; the actual trace from there:\n", line);
    for (char *copy = strdup(actual), *rest = copy, *l; (l = strsep(&rest, "\n"));)
        printf("#   %s\n", l);
}

static bool run_story(struct simstore *store, const struct story *story, const char *folder,
                      bool update)
{
    char path[4096];
    char *actual = tell_story(store, story);
    char *narrative, *expected;
    bool good;

    if (!actual)
        return false;
    snprintf(path, sizeof(path), "%s/%s.txt", folder, story->name);
    narrative = read_text(path);
    expected = trace_of(narrative);
    good = update ? write_narrative(path, actual, narrative) : strcmp(expected, actual) == 0;
    if (!good && !update)
        print_difference(expected, actual);
    free(expected);
    free(narrative);
    free(actual);
    return good;
}

int main(int argc, char **argv)
{
    struct simstore *store;
    bool update = argc > 2 && strcmp(argv[2], "--update") == 0;
    int failed = 0;

    if (argc < 2) {
        fprintf(stderr, "usage: %s FOLDER [--update]\n", argv[0]);
        return 64;
    }
    log_set_level((enum log_level)(LOG_ERROR + 1));
    store = simstore_new(SIM_DROVER_LUA);
    printf("1..%zu\n", array_size(stories));
    for (size_t i = 0; i < array_size(stories); i++) {
        bool good = run_story(store, &stories[i], argv[1], update);

        printf("%sok %zu %s\n", good ? "" : "not ", i + 1, stories[i].name);
        failed += !good;
    }
    simstore_free(store);
    return failed > 0;
}
