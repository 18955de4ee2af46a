// SPDX-License-Identifier: Apache-2.0
/*
 * Controls: makes commands and questions, and sends them
 *
 * See client/control.h. Called by job_status.c, wait.c and clients.
 */
#include "client/control.h"

#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"

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

/* Gives a new Control one command or question. */
static void begin(Drover__V1__Control *m, const char *job, char id[ID_TOKEN_LEN + 1],
                  Drover__V1__Control__CommandCase command)
{
    drover__v1__control__init(m);
    control_init(m, job, id);
    m->command_case = command;
}

int control_query(struct session *s, const char *job, int64_t deadline, struct wire_message *answer)
{
    Drover__V1__Control m;
    Drover__V1__Query query = DROVER__V1__QUERY__INIT;
    char id[ID_TOKEN_LEN + 1];

    begin(&m, job, id, DROVER__V1__CONTROL__COMMAND_QUERY);
    query.max_steps = 1;
    m.query = &query;
    return control_ask(s, &m, deadline, answer);
}

int control_history(struct session *s, const char *job, uint64_t from, int64_t deadline,
                    struct wire_message *answer)
{
    Drover__V1__Control m;
    Drover__V1__History history = DROVER__V1__HISTORY__INIT;
    char id[ID_TOKEN_LEN + 1];

    begin(&m, job, id, DROVER__V1__CONTROL__COMMAND_HISTORY);
    history.from_seq = from;
    m.history = &history;
    return control_ask(s, &m, deadline, answer);
}

int control_list_jobs(struct session *s, const Drover__V1__ListJobs *question, int64_t deadline,
                      struct wire_message *answer)
{
    Drover__V1__Control m;
    char id[ID_TOKEN_LEN + 1];

    begin(&m, "", id, DROVER__V1__CONTROL__COMMAND_LIST_JOBS);
    m.list_jobs = (Drover__V1__ListJobs *)question;
    return control_ask(s, &m, deadline, answer);
}

int control_list_workflows(struct session *s, const Drover__V1__ListWorkflows *question,
                           int64_t deadline, struct wire_message *answer)
{
    Drover__V1__Control m;
    char id[ID_TOKEN_LEN + 1];

    begin(&m, "", id, DROVER__V1__CONTROL__COMMAND_LIST_WORKFLOWS);
    m.list_workflows = (Drover__V1__ListWorkflows *)question;
    return control_ask(s, &m, deadline, answer);
}

int control_resend(struct session *s, const char *actor, const char *reason, int64_t deadline,
                   struct wire_message *answer)
{
    Drover__V1__Control m;
    Drover__V1__Resend resend = DROVER__V1__RESEND__INIT;
    char id[ID_TOKEN_LEN + 1];

    begin(&m, "", id, DROVER__V1__CONTROL__COMMAND_RESEND);
    resend.actor = (char *)actor;
    m.resend = &resend;
    m.reason = (char *)(reason ? reason : "");
    return control_ask(s, &m, deadline, answer);
}
