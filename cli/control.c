// SPDX-License-Identifier: Apache-2.0
/*
 * Controls: sends commands and queries, and reads the codes of their answers
 *
 * See cli/control.h.
 */
#include "cli/control.h"

#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "cli/cli.h"
#include "cli/view.h"

/* Return: the sender of commands, for people: user@host. */
static char *sender(void)
{
    static char name[WIRE_BY_MAX + 1];
    const struct passwd *user;
    char host[HOST_NAME_MAX + 1];

    if (name[0])
        return name;
    user = getpwuid(geteuid());
    if (gethostname(host, sizeof(host)))
        host[0] = '\0';
    host[HOST_NAME_MAX] = '\0';
    if (user)
        snprintf(name, sizeof(name), "%s@%s", user->pw_name, host);
    else
        snprintf(name, sizeof(name), "%d@%s", (int)geteuid(), host);
    return name;
}

void control_init(Drover__V1__Control *m, const char *job, char id[ID_TOKEN_LEN + 1])
{
    struct rng rng;

    if (rng_seed_system(&rng))
        abort(); /* the kernel has no getrandom() */
    id_token(rng_next(&rng), id);
    m->job_id = (char *)job;
    m->command_id = id;
    m->issued_at = clock_unix_ms();
    m->by = sender();
}

int control_ask(struct session *s, const Drover__V1__Control *m, int64_t deadline,
                struct wire_message *answer)
{
    const struct session_question question = {
        .exchange = "drover.control",
        .key = "control",
        .body = &m->base,
        .answer = WIRE_ANSWER,
    };

    for (;;) {
        int r = session_ask(s, &question, deadline, answer);

        if (r || answer->answer->code != DROVER__V1__ANSWER_CODE__ANSWER_CODE_RETRY_LATER)
            return r;
        wire_free(answer);
        r = session_wait(s, clock_monotonic_ms() + SESSION_RETRY_LATER_MS);
        if (r)
            return r;
    }
}

int control_look(struct session *s, const char *job, int64_t deadline, struct wire_message *answer)
{
    Drover__V1__Control m = DROVER__V1__CONTROL__INIT;
    Drover__V1__Query query = DROVER__V1__QUERY__INIT;
    char id[ID_TOKEN_LEN + 1];

    control_init(&m, job, id);
    query.max_steps = 1;
    m.command_case = DROVER__V1__CONTROL__COMMAND_QUERY;
    m.query = &query;
    return control_ask(s, &m, deadline, answer);
}

int control_leave(const struct session *s, int error, const char *job, bool seen)
{
    if (seen && error == SESSION_E_TIMEOUT) {
        cli_complain("timed out; job %s has not ended, see: drover get %s", job, job);
        return CLI_TIMED_OUT;
    }
    if (seen && error == SESSION_E_INTERRUPTED) {
        cli_complain("detached; job %s still runs, see: drover get %s", job, job);
        return CLI_INTERRUPTED;
    }
    return cli_session_problem(s, error);
}

int control_exit(const Drover__V1__Answer *answer)
{
    CLEANUP(buf_deinit) struct buf reason = {0}, job = {0};

    view_text(&reason, answer->reason, 0);
    view_text(&job, answer->job_id, 0);
    switch (answer->code) {
    case DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE:
    case DROVER__V1__ANSWER_CODE__ANSWER_CODE_UNCHANGED:
        return CLI_OK;
    case DROVER__V1__ANSWER_CODE__ANSWER_CODE_UNKNOWN_JOB:
        cli_complain("there is no job %s", buf_str(&job));
        return CLI_NOT_FOUND;
    case DROVER__V1__ANSWER_CODE__ANSWER_CODE_UNKNOWN_WORKFLOW:
        cli_complain("%s", buf_str(&reason));
        return CLI_NOT_FOUND;
    case DROVER__V1__ANSWER_CODE__ANSWER_CODE_WRONG_STATE:
    case DROVER__V1__ANSWER_CODE__ANSWER_CODE_SUPERSEDED:
        cli_complain("refused: %s", buf_str(&reason));
        return CLI_CONFLICT;
    default:
        cli_complain("%s: %s", view_word(&drover__v1__answer_code__descriptor, (int)answer->code),
                     buf_str(&reason));
        return CLI_ERROR;
    }
}
