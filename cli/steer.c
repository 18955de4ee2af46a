// SPDX-License-Identifier: Apache-2.0
/*
 * Steer: the commands that change what a job does, for one job or for all that a filter finds
 *
 * A scheduler records and answers each. Called by command_run.c.
 */
#include <string.h>

#include "base/clock.h"
#include "cli/bulk.h"
#include "cli/cli.h"
#include "cli/command_run.h"
#include "cli/connect.h"
#include "cli/steering.h"
#include "client/control.h"
#include "client/payload.h"
#include "io/config/workflow_file.h"

/* Return: when the query before a Kill is given up, so that half of the time is left for the Kill.
 */
static int64_t before_kill(int64_t deadline)
{
    int64_t now = clock_monotonic_ms();

    return deadline == SESSION_FOREVER ? now + CONNECT_ANSWER_MS : now + (deadline - now) / 2;
}

/* Gives the command to a job that no query can read. */
static int ask_unread(struct session *s, const struct steering *steering, int64_t deadline,
                      struct wire_message *answer)
{
    Drover__V1__JobStatus unread = DROVER__V1__JOB_STATUS__INIT;

    unread.job_id = steering->args->operands[0];
    return steering_ask(s, steering, &unread, deadline, answer);
}

/*
 * Queries the job and gives the command. A corrupt job cannot be read, or seems not to be there;
 * only Kill can end it, so Kill is given all the same. @answer: to the command; to the query if
 * there is no such job. Return: as session_ask().
 */
static int query_and_ask(struct session *s, const struct steering *steering, int64_t deadline,
                         struct wire_message *answer)
{
    CLEANUP(wire_free) struct wire_message seen = {0};
    bool kills = steering->message.command_case == DROVER__V1__CONTROL__COMMAND_KILL;
    int r = control_query(s, steering->args->operands[0], kills ? before_kill(deadline) : deadline,
                          &seen);

    if (kills && (r == SESSION_E_TIMEOUT || (r == 0 && !seen.answer->status)))
        return ask_unread(s, steering, deadline, answer);
    if (r)
        return r;
    if (seen.answer->status)
        return steering_ask(s, steering, seen.answer->status, deadline, answer);
    *answer = seen;
    seen.base = NULL;
    return 0;
}

static int carry_out_one(struct steering *steering)
{
    CLEANUP(session_free) struct session *s = NULL;
    CLEANUP(wire_free) struct wire_message answer = {0};
    const struct args *args = steering->args;
    int64_t deadline = connect_deadline(args, CONNECT_ANSWER_MS);
    int r = connect_session(args, &s);

    if (r)
        return r;
    r = query_and_ask(s, steering, deadline, &answer);
    if (r)
        return cli_session_problem(s, r);
    r = cli_answer_exit(answer.answer);
    if (r == CLI_OK || args->output == OUTPUT_JSON || args->output == OUTPUT_JSONL)
        steering_print(steering, answer.answer);
    return r;
}

static int carry_out(struct steering *steering)
{
    return steering->args->where ? bulk(steering) : carry_out_one(steering);
}

/* ---- the commands ---- */

/* Return: the operands after JOB; all of them if --where replaces JOB. */
static char **words(const struct args *args)
{
    return args->operands + !args->where;
}

static struct steering begin(const struct args *args, Drover__V1__Control__CommandCase command,
                             const char *done, const char *unchanged)
{
    struct steering steering = {.args = args, .done = done, .unchanged = unchanged};

    drover__v1__control__init(&steering.message);
    steering.message.command_case = command;
    return steering;
}

static int usage_error(const char *complaint)
{
    cli_complain("%s", complaint);
    return CLI_USAGE;
}

/* Return: 0, or the exit code if @word is no state. */
static int state_of(const char *word, Drover__V1__State *state)
{
    if (strcasecmp(word, "active") == 0)
        *state = DROVER__V1__STATE__STATE_ACTIVE;
    else if (strcasecmp(word, "disabled") == 0)
        *state = DROVER__V1__STATE__STATE_DISABLED;
    else
        return usage_error("a state is active or disabled");
    return 0;
}

static int set_desired(const struct args *args, const char *word)
{
    struct steering steering =
        begin(args, DROVER__V1__CONTROL__COMMAND_SET_DESIRED, "", "goes there already");
    int r;

    drover__v1__set_desired__init(&steering.set_desired);
    steering.message.set_desired = &steering.set_desired;
    r = state_of(word, &steering.set_desired.desired);
    if (r)
        return r;
    steering.done = steering.set_desired.desired == DROVER__V1__STATE__STATE_ACTIVE
                        ? "is being brought forward"
                        : "is being taken back";
    return carry_out(&steering);
}

int cli_set_desired(const struct args *args)
{
    return set_desired(args, words(args)[0]);
}

int cli_cancel(const struct args *args)
{
    struct steering steering = begin(args, DROVER__V1__CONTROL__COMMAND_CANCEL,
                                     "is being cancelled", "is being taken back already");

    drover__v1__cancel__init(&steering.cancel);
    steering.message.cancel = &steering.cancel;
    return carry_out(&steering);
}

int cli_kill(const struct args *args)
{
    struct steering steering =
        begin(args, DROVER__V1__CONTROL__COMMAND_KILL, "is killed", "is killed already");

    drover__v1__kill__init(&steering.kill);
    steering.message.kill = &steering.kill;
    return carry_out(&steering);
}

int cli_pause(const struct args *args)
{
    struct steering steering =
        begin(args, DROVER__V1__CONTROL__COMMAND_PAUSE, "is paused", "is held already");

    drover__v1__pause__init(&steering.pause);
    steering.message.pause = &steering.pause;
    return carry_out(&steering);
}

int cli_resume(const struct args *args)
{
    struct steering steering =
        begin(args, DROVER__V1__CONTROL__COMMAND_RESUME, "goes on", "is not held");

    drover__v1__resume__init(&steering.resume);
    steering.message.resume = &steering.resume;
    return carry_out(&steering);
}

int cli_acknowledge(const struct args *args)
{
    struct steering steering = begin(args, DROVER__V1__CONTROL__COMMAND_ACKNOWLEDGE,
                                     "is acknowledged", "is acknowledged already");

    drover__v1__acknowledge__init(&steering.acknowledge);
    steering.message.acknowledge = &steering.acknowledge;
    return carry_out(&steering);
}

/* Reads --input. Return: 0, or the exit code. */
static int take_input(struct steering *steering)
{
    struct problem problem = {0};
    const char *input = steering->args->input;
    int r = input ? payload_read(input, &steering->payload, &problem) : 0;

    return r ? cli_problem(r, &problem) : 0;
}

/* Reads --set. Return: 0, or the exit code. */
static int take_settings(struct steering *steering)
{
    const struct args *args = steering->args;
    struct problem problem = {0};
    int r = 0;

    if (args->n_settings > 0)
        r = workflow_step_read(&steering->retry.change, args->settings, args->n_settings, &problem);
    return r ? cli_problem(r, &problem) : 0;
}

static int retry(struct steering *steering)
{
    Drover__V1__Retry *m = &steering->retry;
    int r = take_input(steering);

    if (r == 0)
        r = take_settings(steering);
    if (r)
        return r;
    m->arguments = steering->payload;
    if ((m->arguments || m->change) && m->n_steps != 1)
        return usage_error("--input and --set change one step: name it");
    if (m->begin_anew && !m->arguments && !m->change)
        return usage_error("--begin-anew goes with --input or --set");
    return carry_out(steering);
}

int cli_retry(const struct args *args)
{
    struct steering steering = begin(args, DROVER__V1__CONTROL__COMMAND_RETRY, "is tried again",
                                     "has nothing to try again");
    int r;

    drover__v1__retry__init(&steering.retry);
    steering.retry.steps = words(args);
    steering.retry.n_steps = (size_t)(args->n_operands - !args->where);
    steering.retry.begin_anew = args->begin_anew;
    steering.message.retry = &steering.retry;
    r = retry(&steering);
    drover__v1__step__free_unpacked(steering.retry.change, NULL);
    drover__v1__payload__free_unpacked(steering.payload, NULL);
    return r;
}

int cli_resolve(const struct args *args)
{
    struct steering steering =
        begin(args, DROVER__V1__CONTROL__COMMAND_RESOLVE, "goes by that now", "knew that already");
    int r;

    drover__v1__resolve__init(&steering.resolve);
    steering.message.resolve = &steering.resolve;
    steering.resolve.step = words(args)[0];
    r = state_of(words(args)[1], &steering.resolve.state);
    if (r == 0)
        r = take_input(&steering);
    if (r == 0) {
        steering.resolve.result = steering.payload;
        r = carry_out(&steering);
    }
    if (steering.payload)
        drover__v1__payload__free_unpacked(steering.payload, NULL);
    return r;
}

int cli_migrate(const struct args *args)
{
    struct steering steering =
        begin(args, DROVER__V1__CONTROL__COMMAND_MIGRATE, "goes by the other version now",
              "goes by that version already");

    drover__v1__migrate__init(&steering.migrate);
    steering.migrate.workflow = words(args)[0];
    steering.migrate.begin_anew = args->begin_anew;
    steering.message.migrate = &steering.migrate;
    return carry_out(&steering);
}
