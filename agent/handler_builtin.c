// SPDX-License-Identifier: Apache-2.0
/*
 * Handler builtin: actions for demonstrations, tests and benchmarks, as agent_io.c starts them
 *
 * Each gives a result after a time:
 *
 *     noop    succeeds with nothing
 *     echo    succeeds with the job's input
 *     sleep   arguments {"ms": 1500}, or just the number: succeeds after that time; reports its
 *             progress if the step has a heartbeat
 *     fail    arguments {"times": 2, "class": "x", "permanent": false, "message": "…"}: fails the
 *             first `times` attempts, or all attempts if `times` is not given
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "agent/handler.h"
#include "model/policy.h"

/* Between two reports of progress: this time, or this share (a hundredth) of the whole sleep,
 * whichever is longer. */
#define TELL_MS 100
#define TELL_STEPS 100

struct builtin_run {
    struct handler_run head;
    uv_timer_t timer;
    uint64_t delay_ms;
    uint64_t begun; /* uv_now() */
    struct agent_result result;
    json_t *arguments; /* owned; the result may point into it */
};

static void refuse(struct builtin_run *run, const char *class, const char *message)
{
    run->delay_ms = 0;
    run->result = (struct agent_result){
        .class = class,
        .message = message,
        .verdict = DROVER__V1__VERDICT__VERDICT_PERMANENT,
    };
}

/* ---- the actions ---- */

static void noop(struct builtin_run *run)
{
    run->result.ok = true;
}

static void echo(struct builtin_run *run)
{
    const Drover__V1__Payload *input = run->head.run->request->input;

    run->result.ok = true;
    if (!input)
        return;
    run->result.content_type = input->content_type;
    run->result.result = bytes_of(input->data.data, input->data.len);
}

static void sleep_ms(struct builtin_run *run)
{
    const json_t *ms =
        json_is_object(run->arguments) ? json_object_get(run->arguments, "ms") : run->arguments;

    run->result.ok = true;
    if (json_is_integer(ms) && json_integer_value(ms) >= 0 &&
        json_integer_value(ms) <= POLICY_DURATION_MAX_MS)
        run->delay_ms = (uint64_t)json_integer_value(ms);
    else
        refuse(run, "BAD_ARGUMENTS", "sleep needs arguments such as {\"ms\": 1500}");
}

static void fail(struct builtin_run *run)
{
    int times = -1;
    int permanent = 0;
    const char *class = "FAILED";
    const char *message = "told to fail";

    if (run->arguments &&
        json_unpack(run->arguments, "{s?i, s?b, s?s, s?s}", "times", &times, "permanent",
                    &permanent, "class", &class, "message", &message)) {
        refuse(run, "BAD_ARGUMENTS",
               "fail takes times (number), permanent (true, false), class and message (text)");
        return;
    }
    run->result.ok = times >= 0 && run->head.run->request->attempt > (unsigned)times;
    run->result.class = class;
    run->result.message = message;
    run->result.verdict =
        permanent ? DROVER__V1__VERDICT__VERDICT_PERMANENT : DROVER__V1__VERDICT__VERDICT_TRANSIENT;
}

static const struct builtin {
    const char *name;
    void (*prepare)(struct builtin_run *run);
} builtins[] = {
    {"noop", noop},
    {"echo", echo},
    {"sleep", sleep_ms},
    {"fail", fail},
};

static const struct builtin *find(const char *name)
{
    for (size_t i = 0; i < array_size(builtins); i++)
        if (strcmp(builtins[i].name, name) == 0)
            return &builtins[i];
    return NULL;
}

bool handler_builtin_known(const char *name)
{
    return find(name) != NULL;
}

/* ---- runs ---- */

static void on_closed(uv_handle_t *handle)
{
    struct builtin_run *run = handle->data;

    json_decref(run->arguments);
    free(run);
}

static void on_timer(uv_timer_t *timer);

/* Sets the timer to the end of the run, or to its next report of progress. @waited: ms so far. */
static void sleep_on(struct builtin_run *run, uint64_t waited)
{
    uint64_t left = run->delay_ms - waited;
    uint64_t pause = run->delay_ms / TELL_STEPS;

    if (pause < TELL_MS)
        pause = TELL_MS;
    if (run->head.run->request->heartbeat_ms == 0 || pause > left)
        pause = left;
    uv_timer_start(&run->timer, on_timer, pause, 0);
}

static void on_timer(uv_timer_t *timer)
{
    struct builtin_run *run = timer->data;
    uint64_t waited = uv_now(timer->loop) - run->begun;

    if (waited < run->delay_ms) {
        run->head.progress(&run->head, (double)waited / (double)run->delay_ms, "");
        sleep_on(run, waited);
        return;
    }
    run->head.done(&run->head, &run->result);
    uv_close((uv_handle_t *)timer, on_closed);
}

static void prepare(struct builtin_run *run, const struct agent_action *action)
{
    const Drover__V1__StepRequest *request = run->head.run->request;
    const Drover__V1__Payload *arguments = request->arguments;
    const struct builtin *builtin =
        find(action && action->builtin ? action->builtin : request->action);

    if (arguments && arguments->data.len > 0)
        run->arguments = json_loadb((const char *)arguments->data.data, arguments->data.len,
                                    JSON_DECODE_ANY, NULL);
    if (builtin)
        builtin->prepare(run);
    else
        refuse(run, "UNKNOWN_ACTION", "there is no such action here");
}

static struct handler_run *start(uv_loop_t *loop, const struct agent_action *action,
                                 const struct handler_run *head)
{
    struct builtin_run *run = or_abort(calloc(1, sizeof(*run)));

    run->head = *head;
    list_init(&run->head.link);
    prepare(run, action);
    uv_timer_init(loop, &run->timer);
    run->timer.data = run;
    run->begun = uv_now(loop);
    sleep_on(run, 0);
    return &run->head;
}

static void stop(struct handler_run *head, bool at_once)
{
    struct builtin_run *run = container_of(head, struct builtin_run, head);

    run->result = (struct agent_result){
        .class = "STOPPED",
        .message = "stopped before its time",
        .verdict = DROVER__V1__VERDICT__VERDICT_TRANSIENT,
    };
    run->delay_ms = 0;
    uv_timer_start(&run->timer, on_timer, 0, 0);
}

const struct handler handler_builtin = {.name = "builtin", .start = start, .stop = stop};
