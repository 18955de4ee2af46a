// SPDX-License-Identifier: Apache-2.0
/*
 * A foreign agent: one message at a time, one reply for each request
 *
 *     foreign ACTOR      serves drover.task.ACTOR until it is killed
 *
 * It ignores the action: the result is the job's input. The queue must exist.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "drover/v1/task.pb-c.h"
#include "model/wire.h"
#include "peer.h"

#define PREFETCH 64

struct foreign {
    struct amqp_peer peer;
    /* by the tag of the publish of their last reply; 0: of a reply that is not the last */
    uint64_t requests[AMQP_PEER_WINDOW];
    uint64_t acked;
};

static void reply(struct foreign *f, const Drover__V1__StepRequest *request, uint64_t tag)
{
    Drover__V1__StepReply m = DROVER__V1__STEP_REPLY__INIT;
    Drover__V1__StepReply *list[] = {&m};
    Drover__V1__Replies body = DROVER__V1__REPLIES__INIT;
    static uint8_t *packed;
    static size_t room;
    char exchange[sizeof(WIRE_REPLY_EXCHANGE) + ID_NAME_MAX];
    size_t size;

    m.job_id = request->job_id;
    m.step = request->step;
    m.token = request->token;
    m.achieved = request->desired;
    m.result = request->input;
    m.agent = (char *)"foreign";
    body.replies = list;
    body.n_replies = 1;
    size = drover__v1__replies__get_packed_size(&body);
    if (size > room) {
        packed = realloc(packed, size);
        bench_check(packed, "allocating");
        room = size;
    }
    snprintf(exchange, sizeof(exchange), WIRE_REPLY_EXCHANGE "%s", request->actor);
    amqp_peer_publish(&f->peer, exchange, "reply", NULL, packed,
                      drover__v1__replies__pack(&body, packed));
    f->requests[f->peer.published % AMQP_PEER_WINDOW] = tag;
}

static void on_requests(struct foreign *f, const struct amqp_item *item)
{
    Drover__V1__Requests *m = drover__v1__requests__unpack(NULL, item->body.len, item->body.bytes);

    bench_check(m, "reading requests");
    for (size_t i = 0; i < m->n_requests; i++)
        reply(f, m->requests[i], i + 1 == m->n_requests ? item->tag : 0);
    drover__v1__requests__free_unpacked(m, NULL);
}

int main(int argc, char **argv)
{
    static struct foreign f;
    char queue[256];

    if (argc != 2) {
        fprintf(stderr, "usage: foreign ACTOR\n");
        return 2;
    }
    snprintf(queue, sizeof(queue), "drover.task.%s", argv[1]);
    amqp_peer_open(&f.peer, PREFETCH);
    amqp_peer_consume(&f.peer, queue, false);
    puts("ready");
    fflush(stdout);
    for (;;) {
        struct amqp_item item = amqp_peer_next(&f.peer, 1000);

        if (item.type == AMQP_ITEM_DELIVERY) {
            on_requests(&f, &item);
            amqp_bytes_free(item.body);
        }
        for (; f.acked < f.peer.confirmed; f.acked++)
            if (f.requests[(f.acked + 1) % AMQP_PEER_WINDOW])
                amqp_peer_ack(&f.peer, f.requests[(f.acked + 1) % AMQP_PEER_WINDOW], false);
    }
}
