// SPDX-License-Identifier: Apache-2.0
/*
 * Access: decides what a user may submit and command, and where answers may go
 *
 * Pure: the answers follow from the settings in struct access, the user and the message. Called by
 * the machine, see access.h.
 */
#include "scheduler/access.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "model/reply_to.h"
#include "model/wire.h"

#define SERVER_NAMED "amq.gen-" /* queues named by the broker; only their owner knows the name */

static void submitter_deinit(struct access_submitter *s)
{
    for (char **w = s->workflows; w && *w; w++)
        free(*w);
    free(s->workflows);
    free(s->user);
    free(s->replies);
}

struct access *access_free(struct access *a)
{
    if (!a)
        return NULL;
    for (size_t i = 0; i < a->n_submitters; i++)
        submitter_deinit(&a->submitters[i]);
    free(a->submitters);
    free(a->operators);
    free(a->supervisors);
    free(a);
    return NULL;
}

static bool is_operator(const struct access *a, const char *user)
{
    return words_have(a->operators, user);
}

static const struct access_submitter *submitter_named(const struct access *a, const char *user)
{
    for (size_t i = 0; i < a->n_submitters; i++)
        if (strcmp(a->submitters[i].user, user) == 0)
            return &a->submitters[i];
    return NULL;
}

/* The group of a user; NULL for none. */
static const struct access_submitter *submitter_of(const struct access *a, const char *user)
{
    const struct access_submitter *s = submitter_named(a, user);

    return s ? s : submitter_named(a, ACCESS_OTHERS);
}

static bool begins_with(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

/* Whether a queue is named "<user>." and something after it. */
static bool is_named_after(const char *queue, const char *user)
{
    size_t len = strlen(user);

    return len > 0 && strncmp(queue, user, len) == 0 && queue[len] == '.' && queue[len + 1];
}

bool access_reply_to(const struct access *a, const char *user, const char *reply_to,
                     struct problem *problem)
{
    const struct access_submitter *s = submitter_of(a, user);
    const char *prefix = s ? s->replies : NULL;

    if (!a->required || !*reply_to || reply_to_is_direct(reply_to) ||
        begins_with(reply_to, SERVER_NAMED) ||
        (prefix ? begins_with(reply_to, prefix) : is_named_after(reply_to, user)))
        return true;
    problem_set(problem, "reply_to",
                "must be a queue that the broker has named (amq.gen-...), amq.rabbitmq.reply-to, "
                "or one whose name begins with %s%s",
                prefix ? prefix : user, prefix ? "" : ".");
    return false;
}

static bool check_user(const struct access *a, const char *user, struct problem *problem)
{
    if (!a->required || *user)
        return true;
    problem_set(problem, "user_id",
                "is missing: set the message property user_id to the name of the login "
                "(security.identity is required)");
    return false;
}

static bool check_workflow(const struct access *a, const char *user, const char *ref,
                           const char *field, struct problem *problem)
{
    const struct access_submitter *s = submitter_of(a, user);
    uint32_t version;
    struct bytes name;

    if (!a->required || a->n_submitters == 0 || is_operator(a, user))
        return true;
    if (!s) {
        problem_set(problem, "user_id", "%s is not in security.submitters", user);
        return false;
    }
    if (!s->workflows[0])
        return true;
    if (wire_workflow_ref(ref, &name, &version))
        for (char **w = s->workflows; *w; w++)
            if (bytes_is(name, *w))
                return true;
    problem_set(problem, field, "user %s may not start this one (security.submitters)", user);
    return false;
}

bool access_submit(const struct access *a, const char *user, const Drover__V1__Submit *m,
                   struct problem *problem)
{
    if (!check_user(a, user, problem))
        return false;
    if (m->definition && a->registered) {
        problem_set(problem, "definition",
                    "must be registered before, and named in `workflow` (scheduler.definitions is "
                    "registered)");
        return false;
    }
    return check_workflow(a, user, m->workflow, m->definition ? "definition" : "workflow", problem);
}

static bool is_of_supervisor(const Drover__V1__Control *m)
{
    return m->command_case == DROVER__V1__CONTROL__COMMAND_RECOVER ||
           m->command_case == DROVER__V1__CONTROL__COMMAND_NOTIFY;
}

/* Whether a command says what a step has done, or is to do. A submitter may not say that where
 * only registered definitions run. */
static bool rewrites_step(const Drover__V1__Control *m)
{
    return m->command_case == DROVER__V1__CONTROL__COMMAND_RESOLVE ||
           (m->command_case == DROVER__V1__CONTROL__COMMAND_RETRY && m->retry->arguments);
}

/* Whether a command has a step done in another way than its definition says, or once more. */
static bool changes_step(const Drover__V1__Control *m)
{
    return (m->command_case == DROVER__V1__CONTROL__COMMAND_RETRY &&
            (m->retry->change || m->retry->begin_anew)) ||
           (m->command_case == DROVER__V1__CONTROL__COMMAND_MIGRATE && m->migrate->begin_anew);
}

bool access_control(const struct access *a, const char *user, const Drover__V1__Control *m,
                    struct problem *problem)
{
    if (!check_user(a, user, problem))
        return false;
    if (!a->required)
        return true;
    if (is_of_supervisor(m)) {
        if (words_have(a->supervisors, user))
            return true;
        problem_set(problem, "user_id", "%s is not in security.supervisors", user);
        return false;
    }
    if (m->command_case == DROVER__V1__CONTROL__COMMAND_RESEND && !is_operator(a, user)) {
        problem_set(problem, "user_id",
                    "%s is not in security.operators: only they have requests sent again", user);
        return false;
    }
    if (rewrites_step(m) && a->registered && !is_operator(a, user)) {
        problem_set(problem, "user_id",
                    "%s is not in security.operators: where scheduler.definitions is registered, "
                    "only they resolve steps or change arguments",
                    user);
        return false;
    }
    if (changes_step(m) && !is_operator(a, user)) {
        problem_set(problem, "user_id",
                    "%s is not in security.operators: only they change what a step is, or have it "
                    "begin anew though it may have been done",
                    user);
        return false;
    }
    return m->command_case != DROVER__V1__CONTROL__COMMAND_MIGRATE ||
           check_workflow(a, user, m->migrate->workflow, "migrate.workflow", problem);
}

bool access_replies(const struct access *a, const char *actor, struct problem *problem)
{
    if (strcmp(actor, WIRE_REPLY_STRANGER) == 0) {
        problem_set(problem, "", "must come by the exchange drover.reply.<actor>");
        return false;
    }
    if (!*actor && a->by_actor) {
        problem_set(
            problem, "",
            "must come by the exchange drover.reply.<actor> (security.replies is by_actor)");
        return false;
    }
    return true;
}

struct access_limits access_limits(const struct access *a, const char *user)
{
    const struct access_submitter *s = submitter_of(a, user);

    if (!a->required || is_operator(a, user) || words_have(a->supervisors, user))
        return (struct access_limits){0};
    return s ? s->limits
             : (struct access_limits){.rate = ACCESS_RATE,
                                      .jobs = ACCESS_JOBS,
                                      .bytes = (int64_t)ACCESS_MEGABYTES << 20};
}

const char *access_owner(const struct access *a, const char *user)
{
    return a->required && !is_operator(a, user) ? user : NULL;
}
