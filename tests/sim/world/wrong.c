// SPDX-License-Identifier: Apache-2.0
/*
 * Wrong clients: invalid messages
 *
 * Another job under an id that is taken, bodies that are no message, and messages that lack
 * something. A sender that can be told is told; a message that cannot be decoded becomes a dead
 * letter.
 */
#include "world/parts.h"

#include <string.h>

#include "model/wire.h"

#define LATER_MS 5000 /* after its first Submit, at most */

struct wrong {
    struct event event;
    struct client_job *job;
    enum kind {
        TAKEN_ID,
        NO_MESSAGE,
        BAD_SUBMIT,
        BAD_CONTROL,
        KINDS,
    } kind;
};

static struct bytes pack(struct world *w, const ProtobufCMessage *m)
{
    uint8_t *body = effects_alloc(&w->t->arena, protobuf_c_message_get_packed_size(m));

    return bytes_of(body, protobuf_c_message_pack(m, body));
}

static void publish(struct client_job *job, bool submit, struct bytes body)
{
    simlink_publish(&job->client->link,
                    &(struct bus_message){
                        .exchange = submit ? "drover.submit" : "drover.control",
                        .key = submit ? "submit" : "control",
                        .type = submit ? "drover.v1.Submit" : "drover.v1.Control",
                        .body = body,
                        .mandatory = true,
                    },
                    0);
}

/* The same Submit with other content. */
static void send_taken(struct world *w, struct client_job *job)
{
    CLEANUP(wire_free) struct wire_message m = {0};

    if (!job->accepted || job->too_late ||
        wire_decode(WIRE_SUBMIT, job->submit.body, NULL, &m, NULL))
        return;
    m.submit->input->data.data[0] ^= 1;
    checker_conflicts(w->checker, job->id);
    publish(job, true, pack(w, m.base));
}

/* The beginning of a Submit, or another body that cannot be decoded. */
static void send_no_message(struct world *w, struct client_job *job)
{
    CLEANUP(wire_free) struct wire_message m = {0};
    struct bytes whole = job->submit.body;
    struct bytes body =
        bytes_of(whole.data, (size_t)timeline_between(w->t, 1, (int64_t)whole.len - 1));

    if (wire_decode(WIRE_SUBMIT, body, NULL, &m, NULL) != WIRE_E_MALFORMED)
        body = bytes_str(effects_printf(&w->t->arena, "%s?", job->id));
    checker_unreadable(w->checker, body);
    publish(job, true, body);
}

/* A job without a workflow and without a definition. */
static void send_bad_submit(struct world *w, struct client_job *job)
{
    Drover__V1__Submit m = DROVER__V1__SUBMIT__INIT;

    m.job_id = (char *)effects_printf(&w->t->arena, WRONG_PREFIX "%s", job->id);
    m.reply_to = (char *)client_queue(job);
    publish(job, true, pack(w, &m.base));
}

/* A Control without a command. */
static void send_bad_control(struct world *w, struct client_job *job)
{
    Drover__V1__Control m = DROVER__V1__CONTROL__INIT;
    Drover__V1__SetDesired set = DROVER__V1__SET_DESIRED__INIT;

    m.job_id = (char *)job->id;
    m.command_id = (char *)effects_printf(&w->t->arena, WRONG_PREFIX "%s", job->id);
    m.reply_to = (char *)client_queue(job);
    m.command_case = DROVER__V1__CONTROL__COMMAND_SET_DESIRED;
    m.set_desired = &set;
    publish(job, false, pack(w, &m.base));
}

static void on_wrong(struct event *e)
{
    struct wrong *wrong = container_of(e, struct wrong, event);
    struct client_job *job = wrong->job;
    struct world *w = job->world;

    static void (*const senders[KINDS])(struct world * w, struct client_job * job) = {
        [TAKEN_ID] = send_taken,
        [NO_MESSAGE] = send_no_message,
        [BAD_SUBMIT] = send_bad_submit,
        [BAD_CONTROL] = send_bad_control,
    };

    tell(w->t, job->client->name, "sends what is wrong");
    senders[wrong->kind](w, job);
}

/* Whether ids stay taken as long as this matters: not if the store may lose jobs, or soon forgets
 * them. */
static bool ids_stay(const struct plan *plan)
{
    return plan->faults.rollback == 0 && plan->retention_ms > plan->settle_ms;
}

void wrong_begin(struct client_job *job, int64_t when)
{
    struct world *w = job->world;
    struct wrong *wrong;

    while (timeline_chance(w->t, w->plan->wrong)) {
        wrong = timeline_alloc(w->t, sizeof(*wrong));
        wrong->job = job;
        wrong->kind = (enum kind)timeline_between(w->t, ids_stay(w->plan) ? 0 : 1, KINDS - 1);
        wrong->event.fire = on_wrong;
        timeline_add(w->t, &wrong->event,
                     when + w->plan->pace * timeline_between(w->t, 0, LATER_MS));
    }
}

/* ---- answers ---- */

bool wrong_receipt(struct world *w, const Drover__V1__Receipt *m)
{
    if (strncmp(m->job_id, WRONG_PREFIX, strlen(WRONG_PREFIX)) != 0)
        return false;
    if (m->code != DROVER__V1__RECEIPT_CODE__RECEIPT_CODE_REJECTED ||
        strcmp(m->field, "workflow") != 0)
        checker_fail(w->checker, "I10 %s: code %d, %s: %s", m->job_id, (int)m->code, m->field,
                     m->reason);
    timeline_note(w->t, FEATURE_SUBMIT_INVALID);
    return true;
}

bool wrong_answer(struct world *w, const Drover__V1__Answer *m)
{
    if (strncmp(m->command_id, WRONG_PREFIX, strlen(WRONG_PREFIX)) != 0)
        return false;
    if (m->code != DROVER__V1__ANSWER_CODE__ANSWER_CODE_INVALID)
        checker_fail(w->checker, "I6 %s: code %d, %s", m->command_id, (int)m->code, m->reason);
    timeline_note(w->t, FEATURE_COMMAND_INVALID);
    return true;
}
