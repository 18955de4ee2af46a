// SPDX-License-Identifier: Apache-2.0
/*
 * Liars: agents that send false replies
 *
 * They reply to requests that some agent has received, long ago or just now: done, undone, failed
 * or both, with their tokens, older ones, those of other steps or invented ones; or with bodies
 * that are no message. A reply with the token in flight counts as any other, so the effect ledger
 * is not compared for such a step.
 */
#include <string.h>

#include "model/wire.h"
#include "world/parts.h"

#define HALF 500000 /* millionths */
#define LIAR_EXCHANGE WIRE_REPLY_EXCHANGE "nobody"
#define SOME 200000
#define LATE_MS 3000 /* after the request, at most */
#define REASON "lie" /* a header that no other reply has */

struct lie {
    struct event event;
    struct process *process;
    uint64_t incarnation;
    struct liar_request about;
};

struct words {
    Drover__V1__Replies body;
    Drover__V1__StepReply *replies[2];
    Drover__V1__StepReply reply[2];
    Drover__V1__Progress *list[1];
    Drover__V1__Progress progress;
    Drover__V1__Payload result;
    Drover__V1__Error error;
};

static const char *invented_token(struct world *w)
{
    if (timeline_chance(w->t, SOME))
        return "never minted";
    return effects_printf(&w->t->arena, "%u.%016llx", (unsigned)timeline_between(w->t, 0, 2000),
                          (unsigned long long)timeline_between(w->t, 0, INT64_MAX - 1));
}

static void say(struct world *w, struct words *words, size_t i, const struct liar_request *about)
{
    Drover__V1__StepReply *m = &words->reply[i];

    drover__v1__step_reply__init(m);
    m->job_id = (char *)about->job;
    m->step = (char *)about->step;
    m->token = (char *)about->token;
    m->agent = (char *)"liar";
    m->achieved = (Drover__V1__State)timeline_between(w->t, 0, 3);
    if (timeline_chance(w->t, SOME))
        m->achieved = (Drover__V1__State)77;
    if (timeline_chance(w->t, HALF))
        m->error = &words->error;
    else
        m->result = &words->result;
    words->replies[i] = m;
    words->body.n_replies = i + 1;
}

static void progress(struct world *w, struct words *words, const struct liar_request *about)
{
    Drover__V1__Progress *m = &words->progress;

    drover__v1__progress__init(m);
    m->job_id = (char *)about->job;
    m->step = (char *)about->step;
    m->token = (char *)about->token;
    m->fraction = (double)timeline_between(w->t, -10, 30) / 20;
    words->list[0] = m;
    words->body.n_progress = 1;
}

static struct bytes words_draw(struct world *w, const struct liar_request *about)
{
    struct words *words = timeline_alloc(w->t, sizeof(*words));
    size_t size;
    uint8_t *body;

    drover__v1__replies__init(&words->body);
    drover__v1__payload__init(&words->result);
    drover__v1__error__init(&words->error);
    words->body.replies = words->replies;
    words->body.progress = words->list;
    words->result.data = (ProtobufCBinaryData){4, (uint8_t *)"lies"};
    words->error.class_ = (char *)"liar";
    words->error.verdict = (Drover__V1__Verdict)timeline_between(w->t, 0, 3);
    words->error.effect = (Drover__V1__Effect)timeline_between(w->t, 0, 1);
    if (!timeline_chance(w->t, SOME))
        say(w, words, 0, about);
    if (words->body.n_replies == 1 && timeline_chance(w->t, HALF))
        say(w, words, 1, about);
    if (timeline_chance(w->t, SOME))
        progress(w, words, about);
    size = drover__v1__replies__get_packed_size(&words->body);
    body = timeline_alloc(w->t, size + 1);
    drover__v1__replies__pack(&words->body, body);
    if (size > 0 && timeline_chance(w->t, SOME))
        size = (size_t)timeline_between(w->t, 0, (int64_t)size - 1);
    return bytes_of(body, size);
}

static void on_lie(struct event *e)
{
    struct lie *lie = container_of(e, struct lie, event);
    struct process *p = lie->process;
    struct world *w = p->world;
    bool as_another = timeline_chance(
        w->t, SOME); /* by the exchange of an actor that no step has: never counts */
    struct bus_message m = {
        .exchange = as_another ? LIAR_EXCHANGE : WIRE_REPLY_QUEUE,
        .key = "reply",
        .type = "drover.v1.Replies",
        .reason = REASON,
        .mandatory = true,
    };

    if (!p->alive || p->incarnation != lie->incarnation)
        return;
    timeline_note(w->t, FEATURE_LIE);
    tell(w->t, p->name, "lies about %s/%s %s", lie->about.job, lie->about.step, lie->about.token);
    m.body = words_draw(w, &lie->about);
    if (!as_another)
        checker_lied(w->checker, lie->about.token);
    simlink_publish(&p->link, &m, 0);
}

bool liar_said(const struct bus_message *m)
{
    return m->reason && strcmp(m->reason, REASON) == 0;
}

static void remember(struct world *w, const Drover__V1__StepRequest *m)
{
    w->liar.requests[w->liar.n++ % array_size(w->liar.requests)] = (struct liar_request){
        .job = timeline_str(w->t, m->job_id),
        .step = timeline_str(w->t, m->step),
        .token = timeline_str(w->t, m->token),
    };
}

static const struct liar_request *any_request(const struct world *w)
{
    uint32_t n =
        w->liar.n < array_size(w->liar.requests) ? w->liar.n : array_size(w->liar.requests);

    return &w->liar.requests[timeline_between(w->t, 0, n - 1)];
}

/* The last request or any; parts of it may be of another request or invented. */
static struct liar_request subject_draw(struct world *w)
{
    struct liar_request about = w->liar.requests[(w->liar.n - 1) % array_size(w->liar.requests)];

    if (timeline_chance(w->t, HALF))
        about = *any_request(w);
    if (timeline_chance(w->t, SOME))
        about.job = timeline_chance(w->t, HALF) ? any_request(w)->job : "nobody";
    if (timeline_chance(w->t, SOME))
        about.token = invented_token(w);
    return about;
}

void liar_hears(struct process *p, struct bytes body)
{
    struct world *w = p->world;
    CLEANUP(wire_free) struct wire_message m = {0};
    struct lie *lie;

    if (w->plan->faults.lie == 0 || wire_decode(WIRE_REQUESTS, body, NULL, &m, NULL))
        return;
    for (size_t i = 0; i < m.requests->n_requests; i++)
        remember(w, m.requests->requests[i]);
    if (w->liar.n == 0 || !timeline_chance(w->t, w->faults.lie))
        return;
    lie = timeline_alloc(w->t, sizeof(*lie));
    lie->process = p;
    lie->incarnation = p->incarnation;
    lie->about = subject_draw(w);
    lie->event.fire = on_lie;
    lie->event.held_until = &p->held_until;
    timeline_add(w->t, &lie->event, timeline_between(w->t, 0, LATE_MS));
}
