// SPDX-License-Identifier: Apache-2.0
/*
 * Checks of messages: the rules of the protocol
 *
 * See model/wire_check.h.
 */
#include "model/wire_check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model/change.h"
#include "model/check.h"
#include "model/policy.h"
#include "model/wire_limits.h"

/* ---- rules that several messages share ---- */

static bool state_asked_check(Drover__V1__State state, const struct path *where,
                              struct problem *problem)
{
    return state == DROVER__V1__STATE__STATE_ACTIVE || state == DROVER__V1__STATE__STATE_DISABLED ||
           check_fail(problem, where, "must be STATE_ACTIVE or STATE_DISABLED");
}

static bool state_known_check(Drover__V1__State state, const struct path *where,
                              struct problem *problem)
{
    return check_enum(&drover__v1__state__descriptor, (int)state, where, problem);
}

static bool workflow_ref_check(const char *ref, const struct path *where, struct problem *problem)
{
    struct bytes name;
    uint32_t version;

    return wire_workflow_ref(ref, &name, &version) ||
           check_fail(problem, where, "must be a name, or a name@version with a version from 1");
}

/* The store finds jobs by "name=value", which must mean one label only. */
static bool label_name_check(const char *name, const struct path *where, struct problem *problem)
{
    if (!check_text_given(name, WIRE_LABEL_NAME_MAX, where, problem))
        return false;
    return !strchr(name, '=') || check_fail(problem, where, "must not have a '='");
}

static bool labels_check(Drover__V1__Label *const *labels, size_t n, const struct path *up,
                         struct problem *problem)
{
    if (n > WIRE_LABELS_MAX)
        return check_fail(problem, PATH(up, "labels"), "must be at most %d", WIRE_LABELS_MAX);
    for (size_t i = 0; i < n; i++) {
        const struct path *where = PATH_AT(up, "labels", i);

        if (!label_name_check(labels[i]->name, PATH(where, "name"), problem) ||
            !check_text(labels[i]->value, WIRE_LABEL_VALUE_MAX, PATH(where, "value"), problem))
            return false;
        for (size_t k = 0; k < i; k++)
            if (strcmp(labels[k]->name, labels[i]->name) == 0)
                return check_fail(problem, PATH(where, "name"), "is already that of labels[%zu]",
                                  k);
    }
    return true;
}

bool wire_workflow_ref(const char *ref, struct bytes *name, uint32_t *version)
{
    const char *at = strchr(ref, '@');
    int64_t number = 0;

    *name = at ? bytes_of(ref, (size_t)(at - ref)) : bytes_str(ref);
    if (!id_name_valid((const char *)name->data, name->len))
        return false;
    if (at && (at[1] < '1' || at[1] > '9' || !bytes_to_i64(bytes_str(at + 1), &number) ||
               number > UINT32_MAX))
        return false;
    *version = (uint32_t)number;
    return true;
}

/* ---- messages ---- */

static bool submit_check(const Drover__V1__Submit *m, struct problem *problem)
{
    if (!check_name(m->job_id, PATH(NULL, "job_id"), problem))
        return false;
    if ((m->workflow[0] != '\0') == (m->definition != NULL))
        return check_fail(problem, PATH(NULL, "workflow"),
                          "either workflow or definition is given");
    if (!m->definition && !workflow_ref_check(m->workflow, PATH(NULL, "workflow"), problem))
        return false;
    if (m->desired != DROVER__V1__STATE__STATE_UNSPECIFIED &&
        !state_asked_check(m->desired, PATH(NULL, "desired"), problem))
        return false;
    if (m->priority > WIRE_PRIORITY_MAX)
        return check_fail(problem, PATH(NULL, "priority"), "must be 0 to %d", WIRE_PRIORITY_MAX);
    if (!check_time(m->start_at, PATH(NULL, "start_at"), problem) ||
        !check_time(m->complete_by, PATH(NULL, "complete_by"), problem))
        return false;
    if (m->complete_by > 0 && m->complete_by <= m->start_at)
        return check_fail(problem, PATH(NULL, "complete_by"), "must be after start_at");
    return check_payload(m->input, WIRE_INPUT_MAX, PATH(NULL, "input"), problem) &&
           labels_check(m->labels, m->n_labels, NULL, problem) &&
           check_enum(&drover__v1__events__descriptor, (int)m->events, PATH(NULL, "events"),
                      problem) &&
           check_text(m->traceparent, WIRE_TRACEPARENT_MAX, PATH(NULL, "traceparent"), problem);
}

/* Numbers and policies are checked with the definition that results, in change_apply(). */
static bool change_check(const Drover__V1__Step *m, const struct path *where,
                         struct problem *problem)
{
    const Drover__V1__Revert *revert = m->revert;

    if (*m->name || m->n_after > 0 || m->n_take > 0 || m->take_none || m->waive_revert)
        return check_fail(
            problem, where,
            "may set only actor, action, lock_ms, wait_ms, heartbeat_ms, retry, and in revert "
            "lock_ms, wait_ms, retry");
    if (m->arguments)
        return check_fail(problem, PATH(where, "arguments"), "are given by retry.arguments");
    if (revert && (*revert->action || *revert->actor || revert->arguments))
        return check_fail(problem, PATH(where, "revert"), "may set only lock_ms, wait_ms, retry");
    if (change_is_empty(m))
        return check_fail(problem, where,
                          "changes nothing: 0 and an empty text count as not given");
    return check_name_if(m->actor, PATH(where, "actor"), problem) &&
           check_name_if(m->action, PATH(where, "action"), problem);
}

static bool retry_check(const Drover__V1__Retry *m, const struct path *where,
                        struct problem *problem)
{
    if (m->n_steps > WIRE_STEPS_MAX)
        return check_fail(problem, PATH(where, "steps"), "must be at most %d", WIRE_STEPS_MAX);
    for (size_t i = 0; i < m->n_steps; i++)
        if (!check_name(m->steps[i], PATH_AT(where, "steps", i), problem))
            return false;
    if (m->arguments && m->n_steps != 1)
        return check_fail(problem, PATH(where, "arguments"), "only with exactly one step");
    if (m->change && m->n_steps != 1)
        return check_fail(problem, PATH(where, "change"), "only with exactly one step");
    if (m->begin_anew && !m->change && !m->arguments)
        return check_fail(problem, PATH(where, "begin_anew"), "only with arguments or change");
    if (m->change && !change_check(m->change, PATH(where, "change"), problem))
        return false;
    return check_payload(m->arguments, WIRE_INPUT_MAX, PATH(where, "arguments"), problem);
}

static bool resolve_check(const Drover__V1__Resolve *m, const struct path *where,
                          struct problem *problem)
{
    return check_name(m->step, PATH(where, "step"), problem) &&
           state_asked_check(m->state, PATH(where, "state"), problem) &&
           check_payload(m->result, WIRE_RESULT_MAX, PATH(where, "result"), problem);
}

static bool recover_check(const Drover__V1__Recover *m, const struct path *where,
                          struct problem *problem)
{
    if (m->n_steps > WIRE_STEPS_MAX)
        return check_fail(problem, PATH(where, "steps"), "must be at most %d", WIRE_STEPS_MAX);
    for (size_t i = 0; i < m->n_steps; i++)
        if (m->steps[i] >= WIRE_STEPS_MAX)
            return check_fail(problem, PATH_AT(where, "steps", i), "must be below %d",
                              WIRE_STEPS_MAX);
    return true;
}

static bool list_check(const Drover__V1__ListJobs *m, const struct path *where,
                       struct problem *problem)
{
    return (!*m->workflow || workflow_ref_check(m->workflow, PATH(where, "workflow"), problem)) &&
           check_not_negative(m->since, PATH(where, "since"), problem) &&
           check_not_negative(m->before, PATH(where, "before"), problem) &&
           labels_check(m->labels, m->n_labels, where, problem) &&
           check_enum(&drover__v1__need__descriptor, (int)m->needs, PATH(where, "needs"),
                      problem) &&
           check_name_if(m->error_class, PATH(where, "error_class"), problem) &&
           check_name_if(m->actor, PATH(where, "actor"), problem) &&
           check_text(m->after, WIRE_CURSOR_MAX, PATH(where, "after"), problem);
}

static bool list_workflows_check(const Drover__V1__ListWorkflows *m, const struct path *where,
                                 struct problem *problem)
{
    return (!*m->workflow || workflow_ref_check(m->workflow, PATH(where, "workflow"), problem)) &&
           check_text(m->after, WIRE_CURSOR_MAX, PATH(where, "after"), problem);
}

static bool resend_check(const Drover__V1__Resend *m, const struct path *where,
                         struct problem *problem)
{
    return strcmp(m->actor, WIRE_ALL_ACTORS) == 0 ||
           check_name(m->actor, PATH(where, "actor"), problem);
}

static bool command_check(const Drover__V1__Control *m, struct problem *problem)
{
    switch (m->command_case) {
    case DROVER__V1__CONTROL__COMMAND_SET_DESIRED:
        return state_asked_check(m->set_desired->desired,
                                 PATH(PATH(NULL, "set_desired"), "desired"), problem);
    case DROVER__V1__CONTROL__COMMAND_RETRY:
        return retry_check(m->retry, PATH(NULL, "retry"), problem);
    case DROVER__V1__CONTROL__COMMAND_RESOLVE:
        return resolve_check(m->resolve, PATH(NULL, "resolve"), problem);
    case DROVER__V1__CONTROL__COMMAND_MIGRATE:
        return workflow_ref_check(m->migrate->workflow, PATH(PATH(NULL, "migrate"), "workflow"),
                                  problem);
    case DROVER__V1__CONTROL__COMMAND_RECOVER:
        return recover_check(m->recover, PATH(NULL, "recover"), problem);
    case DROVER__V1__CONTROL__COMMAND_LIST_JOBS:
        return list_check(m->list_jobs, PATH(NULL, "list_jobs"), problem);
    case DROVER__V1__CONTROL__COMMAND_LIST_WORKFLOWS:
        return list_workflows_check(m->list_workflows, PATH(NULL, "list_workflows"), problem);
    case DROVER__V1__CONTROL__COMMAND_RESEND:
        return resend_check(m->resend, PATH(NULL, "resend"), problem);
    default:
        return true;
    }
}

/* Whether a command is one of those that name no job. */
static bool about_no_job(const Drover__V1__Control *m)
{
    return m->command_case == DROVER__V1__CONTROL__COMMAND_LIST_JOBS ||
           m->command_case == DROVER__V1__CONTROL__COMMAND_LIST_WORKFLOWS ||
           m->command_case == DROVER__V1__CONTROL__COMMAND_RESEND;
}

/* Whether a command changes nothing when it is repeated: then it needs no command_id. */
static bool command_repeatable(const Drover__V1__Control *m)
{
    return m->command_case == DROVER__V1__CONTROL__COMMAND_QUERY ||
           m->command_case == DROVER__V1__CONTROL__COMMAND_RECOVER ||
           m->command_case == DROVER__V1__CONTROL__COMMAND_NOTIFY ||
           m->command_case == DROVER__V1__CONTROL__COMMAND_HISTORY || about_no_job(m) ||
           m->command_case == DROVER__V1__CONTROL__COMMAND__NOT_SET;
}

static bool control_check(const Drover__V1__Control *m, struct problem *problem)
{
    const struct path *id = PATH(NULL, "command_id");

    return (about_no_job(m) ? check_name_if(m->job_id, PATH(NULL, "job_id"), problem)
                            : check_name(m->job_id, PATH(NULL, "job_id"), problem)) &&
           (command_repeatable(m) ? check_name_if(m->command_id, id, problem)
                                  : check_name(m->command_id, id, problem)) &&
           check_not_negative(m->issued_at, PATH(NULL, "issued_at"), problem) &&
           check_text(m->reason, WIRE_REASON_MAX, PATH(NULL, "reason"), problem) &&
           check_text(m->by, WIRE_BY_MAX, PATH(NULL, "by"), problem) && command_check(m, problem);
}

static bool given_check(bool given, const char *field, struct problem *problem)
{
    return given || check_fail(problem, PATH(NULL, field), "must be given");
}

/* Messages that only clients read may have enum values of a newer scheduler: of these only the
 * presence is checked. */
bool wire_check_message(const struct wire_message *m, struct problem *problem)
{
    switch (m->type) {
    case WIRE_SUBMIT:
        return submit_check(m->submit, problem);
    case WIRE_CONTROL:
        return control_check(m->control, problem);
    case WIRE_RECEIPT:
        return given_check(m->receipt->code != 0, "code", problem);
    case WIRE_ANSWER:
        return given_check(m->answer->code != 0, "code", problem);
    case WIRE_EVENT:
        return given_check(m->event->kind != 0, "kind", problem);
    case WIRE_REQUESTS:
        return given_check(m->requests->n_requests > 0, "requests", problem);
    case WIRE_REPLIES:
        return given_check(m->replies->n_replies + m->replies->n_progress > 0 ||
                               m->replies->requests_lost,
                           "replies", problem);
    case WIRE_PROGRESS_ANSWERS:
        return given_check(m->progress_answers->n_answers > 0, "answers", problem);
    }
    abort(); /* all types are above */
}

/* ---- items of a batch ---- */

static bool token_check(const char *job_id, const char *step, const char *token,
                        const struct path *where, struct problem *problem)
{
    return check_name(job_id, PATH(where, "job_id"), problem) &&
           check_name(step, PATH(where, "step"), problem) &&
           check_text_given(token, WIRE_TOKEN_MAX, PATH(where, "token"), problem);
}

static bool results_check(const Drover__V1__StepRequest *m, const struct path *where,
                          struct problem *problem)
{
    for (size_t i = 0; i < m->n_results; i++) {
        const struct path *at = PATH_AT(where, "results", i);

        if (!check_name(m->results[i]->step, PATH(at, "step"), problem) ||
            !check_payload(m->results[i]->payload, WIRE_RESULT_MAX, PATH(at, "payload"), problem))
            return false;
    }
    return true;
}

static bool request_check(const Drover__V1__StepRequest *m, const struct path *where,
                          struct problem *problem)
{
    if (m->lock_ms <= 0 || m->lock_ms > POLICY_DURATION_MAX_MS)
        return check_fail(problem, PATH(where, "lock_ms"), "must be 1 to %" PRId64 " ms",
                          POLICY_DURATION_MAX_MS);
    return token_check(m->job_id, m->step, m->token, where, problem) &&
           check_name(m->actor, PATH(where, "actor"), problem) &&
           check_name(m->action, PATH(where, "action"), problem) &&
           state_asked_check(m->desired, PATH(where, "desired"), problem) &&
           state_known_check(m->current, PATH(where, "current"), problem) &&
           check_text_given(m->idempotency_key, WIRE_KEY_MAX, PATH(where, "idempotency_key"),
                            problem) &&
           check_text(m->forward_key, WIRE_KEY_MAX, PATH(where, "forward_key"), problem) &&
           check_not_negative(m->heartbeat_ms, PATH(where, "heartbeat_ms"), problem) &&
           check_payload(m->arguments, WIRE_INPUT_MAX, PATH(where, "arguments"), problem) &&
           check_payload(m->input, WIRE_INPUT_MAX, PATH(where, "input"), problem) &&
           check_payload(m->forward_result, WIRE_RESULT_MAX, PATH(where, "forward_result"),
                         problem) &&
           results_check(m, where, problem);
}

static bool error_check(const Drover__V1__Error *m, const struct path *where,
                        struct problem *problem)
{
    return check_text(m->class_, WIRE_ERROR_CLASS_MAX, PATH(where, "class"), problem) &&
           check_enum(&drover__v1__verdict__descriptor, (int)m->verdict, PATH(where, "verdict"),
                      problem) &&
           check_enum(&drover__v1__effect__descriptor, (int)m->effect, PATH(where, "effect"),
                      problem) &&
           check_not_negative(m->retry_after_ms, PATH(where, "retry_after_ms"), problem);
}

/* A result that is too large does not make a reply invalid: see wire_reply_result_fits(). */
static bool reply_check(const Drover__V1__StepReply *m, const struct path *where,
                        struct problem *problem)
{
    return token_check(m->job_id, m->step, m->token, where, problem) &&
           state_known_check(m->achieved, PATH(where, "achieved"), problem) &&
           check_payload(m->result, WIRE_MESSAGE_MAX, PATH(where, "result"), problem) &&
           check_text(m->agent, ID_NAME_MAX, PATH(where, "agent"), problem) &&
           check_not_negative(m->duration_ms, PATH(where, "duration_ms"), problem) &&
           (!m->error || error_check(m->error, PATH(where, "error"), problem));
}

static bool progress_check(const Drover__V1__Progress *m, const struct path *where,
                           struct problem *problem)
{
    if (m->fraction > 1)
        return check_fail(problem, PATH(where, "fraction"), "must be at most 1");
    return token_check(m->job_id, m->step, m->token, where, problem) &&
           check_not_negative(m->elapsed_ms, PATH(where, "elapsed_ms"), problem) &&
           check_text(m->note, WIRE_NOTE_MAX, PATH(where, "note"), problem) &&
           check_text(m->agent, ID_NAME_MAX, PATH(where, "agent"), problem);
}

int wire_check_request(const Drover__V1__Requests *requests, size_t n, struct problem *problem)
{
    const Drover__V1__StepRequest *m = requests->requests[n];
    const struct path *where = PATH_AT(NULL, "requests", n);

    return check_encoding(&m->base, where, problem) && request_check(m, where, problem)
               ? 0
               : WIRE_E_INVALID;
}

int wire_check_reply(const Drover__V1__Replies *replies, size_t n, struct problem *problem)
{
    const Drover__V1__StepReply *m = replies->replies[n];
    const struct path *where = PATH_AT(NULL, "replies", n);

    return check_encoding(&m->base, where, problem) && reply_check(m, where, problem)
               ? 0
               : WIRE_E_INVALID;
}

int wire_check_progress(const Drover__V1__Replies *replies, size_t n, struct problem *problem)
{
    const Drover__V1__Progress *m = replies->progress[n];
    const struct path *where = PATH_AT(NULL, "progress", n);

    return check_encoding(&m->base, where, problem) && progress_check(m, where, problem)
               ? 0
               : WIRE_E_INVALID;
}

int wire_check_progress_answer(const Drover__V1__ProgressAnswers *answers, size_t n,
                               struct problem *problem)
{
    const Drover__V1__ProgressAnswer *m = answers->answers[n];
    const struct path *where = PATH_AT(NULL, "answers", n);

    return check_encoding(&m->base, where, problem) &&
                   token_check(m->job_id, m->step, m->token, where, problem)
               ? 0
               : WIRE_E_INVALID;
}
