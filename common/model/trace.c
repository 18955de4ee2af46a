// SPDX-License-Identifier: Apache-2.0
/*
 * Trace: formats deliveries, effects, outcomes, store calls and runs of handlers as events
 *
 * See model/trace.h.
 */
#include "model/trace.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/id.h"
#include "model/store_ops.h"

#define WORD_MAX 32

#define trace_event(event, fn, ctx, ...)                                                           \
    do {                                                                                           \
        const struct log_field fields_[] = {{.name = NULL}, __VA_ARGS__};                          \
        (fn)(ctx, event, fields_ + 1, (int)(sizeof(fields_) / sizeof(fields_[0])) - 1);            \
    } while (0)

/* The value of a field that is left out if it is empty. */
static const char *if_any(const char *s)
{
    return s && *s ? s : NULL;
}

static const char *if_true(bool flag)
{
    return flag ? "true" : NULL;
}

void trace_print(struct buf *out, const char *event, const struct log_field *fields, int n)
{
    buf_puts(out, event);
    for (int i = 0; i < n; i++)
        log_field_print(out, &fields[i]);
}

/* ---- messages ---- */

void trace_delivery(const struct bus_delivery *d, trace_fn *fn, void *ctx)
{
    trace_event("delivery", fn, ctx, LOG_I("handle", d->handle),
                LOG_S("redelivered", if_true(d->redelivered)), LOG_S("resent", if_true(d->resent)));
}

static void trace_publish(const struct bus_message *m, trace_fn *fn, void *ctx)
{
    const char *dot = m->type ? strrchr(m->type, '.') : NULL;
    char attempt[24] = "";

    if (m->attempt)
        snprintf(attempt, sizeof(attempt), "%lld", (long long)m->attempt);
    trace_event("publish", fn, ctx, LOG_S("to", *m->exchange ? m->exchange : m->key),
                LOG_S("type", dot ? dot + 1 : m->type), LOG_S("job", if_any(m->job)),
                LOG_S("step", if_any(m->step)), LOG_S("attempt", if_any(attempt)),
                LOG_S("actor", if_any(m->actor)), LOG_S("reason", if_any(m->reason)));
}

void trace_effect(const struct effect *e, trace_fn *fn, void *ctx)
{
    switch (e->type) {
    case EFFECT_PUBLISH:
        trace_publish(&e->publish, fn, ctx);
        break;
    case EFFECT_ACK:
        trace_event("ack", fn, ctx, LOG_I("handle", e->id));
        break;
    case EFFECT_REQUEUE:
        trace_event("requeue", fn, ctx, LOG_I("handle", e->id));
        break;
    case EFFECT_CONSUME:
        trace_event(e->wanted ? "consume" : "pause", fn, ctx);
        break;
    case EFFECT_STORE:
    case EFFECT_ROLE:
        break;
    }
}

void trace_outcome(enum bus_outcome outcome, trace_fn *fn, void *ctx)
{
    static const char *const names[] = {
        [BUS_RETURNED] = "RETURNED", [BUS_NACKED] = "NACKED",   [BUS_WAITED] = "WAITED",
        [BUS_UNSENT] = "UNSENT",     [BUS_EXPIRED] = "EXPIRED",
    };

    if (outcome != BUS_CONFIRMED)
        trace_event("outcome", fn, ctx, LOG_S("outcome", names[outcome]));
}

/* ---- store calls ---- */

/* The text of a field, in @out; NULL, which leaves the field out, if it is empty. */
static const char *text(struct bytes b, char *out, size_t size)
{
    if (b.len == 0)
        return NULL;
    snprintf(out, size, "%.*s", (int)b.len, (const char *)b.data);
    return out;
}

/* The first word of an answer, or what came instead of an answer. */
static const char *first_word(const struct store_answer *answer, char *out, size_t size)
{
    static const char *const failures[] = {
        [STORE_ERROR] = "ERROR", [STORE_OOM] = "OUT_OF_MEMORY", [STORE_UNKNOWN] = "NONE"};

    if (answer->result != STORE_OK)
        return failures[answer->result];
    return answer->n > 0 && answer->items[0].len < size ? text(answer->items[0], out, size) : NULL;
}

static void trace_about(const char *function, const struct ops_about *about, const char *answer,
                        trace_fn *fn, void *ctx)
{
    char job[ID_NAME_MAX + 1], what[WORD_MAX], other[ID_NAME_MAX + 1], step[WORD_MAX] = "";

    if (about->step >= 0)
        snprintf(step, sizeof(step), "%lld", (long long)about->step);
    trace_event("store", fn, ctx, LOG_S("call", function),
                LOG_S("job", text(about->job, job, sizeof(job))), LOG_S("number", if_any(step)),
                LOG_S("what", text(about->what, what, sizeof(what))),
                LOG_S("of", text(about->other, other, sizeof(other))), LOG_S("answer", answer));
}

static void trace_record(const struct bytes *args, int n, const struct store_answer *answer,
                         struct effects *fx, trace_fn *fn, void *ctx)
{
    struct ops_reader r = ops_reader(answer);
    struct ops_about about;
    struct ops_transition transition;

    for (int i = 0; ops_about("record", args, n, i, &about); i++) {
        if (ops_read_transition(&r, fx, &transition))
            return;
        trace_about("record", &about, ops_code_name(transition.code), fn, ctx);
    }
}

static void trace_expire(const struct store_answer *answer, struct effects *fx, trace_fn *fn,
                         void *ctx)
{
    struct ops_reader r = ops_reader(answer);
    char job[ID_NAME_MAX + 1];
    struct ops_expired expired;

    if (ops_read_expired(&r, fx, &expired))
        return;
    for (uint32_t i = 0; i < expired.n_due; i++) {
        const struct ops_due *due = &expired.due[i];
        const char *steps = "";

        for (uint32_t k = 0; k < due->n; k++)
            steps = effects_printf(fx, "%s%s%u", steps, k > 0 ? "," : "", (unsigned)due->steps[k]);
        trace_event("store", fn, ctx, LOG_S("call", "expire"),
                    LOG_S("job", text(due->job, job, sizeof(job))), LOG_S("due", if_any(steps)));
    }
    for (uint32_t i = 0; i < expired.n_notifications; i++)
        trace_event("store", fn, ctx, LOG_S("call", "expire"),
                    LOG_S("job", text(expired.notifications[i].job, job, sizeof(job))),
                    LOG_I("owed", expired.notifications[i].seq));
}

/* Whether daemons make this call again and again by a timer. */
static bool is_periodic(const char *function)
{
    static const char *const functions[] = {"expire", "forget", "lead", "lost", "mark", "sweep"};

    for (size_t i = 0; i < array_size(functions); i++)
        if (strcmp(function, functions[i]) == 0)
            return true;
    return false;
}

void trace_call(const char *function, const struct bytes *args, int n,
                const struct store_answer *answer, trace_fn *fn, void *ctx)
{
    bool good = answer && answer->result == STORE_OK;
    struct effects fx = {0};
    char word[WORD_MAX];
    struct ops_about about;

    if (good && strcmp(function, "record") == 0)
        trace_record(args, n, answer, &fx, fn, ctx);
    else if (good && strcmp(function, "expire") == 0)
        trace_expire(answer, &fx, fn, ctx);
    else if (!good || !is_periodic(function))
        for (int i = 0; ops_about(function, args, n, i, &about); i++)
            trace_about(function, &about, answer ? first_word(answer, word, sizeof(word)) : NULL,
                        fn, ctx);
    effects_deinit(&fx);
}

/* ---- handlers ---- */

void trace_run(const char *event, const Drover__V1__StepRequest *request, const char *result,
               trace_fn *fn, void *ctx)
{
    bool back = request->desired == DROVER__V1__STATE__STATE_DISABLED;

    trace_event(event, fn, ctx, LOG_S("job", request->job_id), LOG_S("step", request->step),
                LOG_S("undo", if_true(back)), LOG_I("attempt", request->attempt),
                LOG_S("result", result));
}
