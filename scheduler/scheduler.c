// SPDX-License-Identifier: Apache-2.0
/*
 * Scheduler: the step function, which gives each event to the file that handles it
 *
 * scheduler_io.c calls the functions of scheduler.h; state.h describes the other files.
 */
#include "scheduler/scheduler.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "scheduler/access.h"
#include "scheduler/alert_cause.h"
#include "scheduler/alert_group.h"
#include "scheduler/on_delivery.h"
#include "scheduler/state.h"

static const struct dispatch_reports REPORTS = {
    .not_delivered = record_without_reply,
    .waited = transition_recheck,
};

int scheduler_register(struct scheduler *s, struct workflow *w)
{
    return registration_add(s, w);
}

static void configure(struct scheduler *s, const struct scheduler_config *config)
{
    static const struct access everybody = {.operators = "", .supervisors = ""};

    s->nonces = *config->nonces;
    s->access = config->access ? config->access : &everybody;
    s->horizon_ms = config->horizon_ms;
    s->full_at = config->full_at ? config->full_at : 100;
    s->allowances.bad_replies = config->bad_replies;
    s->alerts.interval_ms = config->alert_interval_ms ? config->alert_interval_ms : ALERT_AGAIN_MS;
    s->publishes.most = config->most_unconfirmed;
    s->dispatcher.other_actors_left = config->declared_actors;
    s->recording.pace.few = s->dispatcher.pace.few = config->few;
    s->client_batches.pace.few = config->few;
}

int scheduler_new(struct scheduler **out, const struct scheduler_config *config,
                  const struct rng *seed)
{
    struct scheduler *s = calloc(1, sizeof(*s));

    if (!s)
        return -ENOMEM;
    s->name = strdup(config->name);
    s->dispatcher.json_actors = strdup(config->json_actors ? config->json_actors : "");
    if (!s->name || !s->dispatcher.json_actors) {
        free(s->dispatcher.json_actors);
        free(s->name);
        free(s);
        return -ENOMEM;
    }
    s->rng = *seed;
    configure(s, config);
    list_init(&s->items);
    list_init(&s->stalled);
    on_delivery_init(s);
    list_init(&s->suspects.waiting);
    list_init(&s->suspects.present);
    list_init(&s->suspects.held);
    list_init(&s->client_batches.waiting);
    list_init(&s->notifications);
    list_init(&s->watches.list);
    loss_init(&s->losses);
    dispatch_init(&s->dispatcher, &REPORTS);
    rollback_init(&s->rollback, config->loss_window_ms ? config->loss_window_ms : 10000);
    id_token(rng_next(&s->rng), s->incarnation);
    *out = s;
    return 0;
}

/* Forgets all work in progress: the broker still has every delivery that was not acknowledged. */
struct scheduler *scheduler_free(struct scheduler *s)
{
    if (!s)
        return NULL;
    s->out = NULL;
    publish_free_all(s);
    op_free_calls(s);
    record_free_all(s);
    op_free_list(s, &s->stalled);
    op_free_list(s, &s->suspects.waiting);
    op_free_list(s, &s->suspects.held);
    loss_free(s);
    intake_free(s);
    list_foreach_safe(l, &s->items)
        item_free(s, list_entry(l, struct item, link));
    registration_free(s);
    definition_free_all(s);
    dispatch_free(s);
    client_batch_free(s);
    service_time_free_all(s);
    watch_lost(s);
    alert_cause_free_all(s);
    alert_group_free_all(s);
    allowance_free_all(s);
    rollback_free(s);
    assert(s->ops == 0);
    heap_deinit(&s->timers);
    free(s->name);
    free(s);
    return NULL;
}

static void on_store_up(struct scheduler *s, uint32_t partitions, const char *run)
{
    if (!s->partitions) {
        s->partitions = partitions;
        record_init(s);
    }
    rollback_store_up(s, run); /* before any other call to the store */
    registration_begin(s);
}

static void on_bus_down(struct scheduler *s)
{
    intake_lost(s);
    poison_lost(s); /* after the intake has given back the messages that it had not read */
    watch_lost(s);
}

static void on_tick(struct scheduler *s)
{
    op_tick(s);
    poison_tick(s);
    watch_tick(s);
    loss_tick(s);
    alert_group_tick(s);
    record_flush(s);
    dispatch_flush(s);
    client_batch_flush(s);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t next_tick(const struct scheduler *s)
{
    int64_t next = op_next(s);

    next = earlier(next, poison_next(s));
    next = earlier(next, record_next(s));
    next = earlier(next, dispatch_next(s));
    next = earlier(next, client_batch_next(s));
    next = earlier(next, loss_next(s));
    return earlier(earlier(next, watch_next(s)), alert_group_next(s));
}

int64_t scheduler_step(struct scheduler *s, const struct scheduler_event *event,
                       struct effects *out)
{
    s->now = event->now;
    s->out = out;
    switch (event->type) {
    case SCHEDULER_STORE_UP:
        on_store_up(s, event->partitions, event->run);
        break;
    case SCHEDULER_BUS_DOWN:
        on_bus_down(s);
        break;
    case SCHEDULER_DELIVERY:
        assert(s->partitions); /* the driver consumes only once the store is connected */
        on_delivery(s, event->delivery);
        break;
    case SCHEDULER_ANSWER:
        op_answer(s, event->id, event->answer);
        break;
    case SCHEDULER_OUTCOME:
        publish_outcome(s, event->id, event->outcome);
        transition_resume_stalled(s);
        break;
    case SCHEDULER_QUEUE:
        watch_answered(s, event->queue.messages, event->queue.consumers);
        break;
    case SCHEDULER_MEMORY:
        s->store_full =
            event->memory.most > 0 && event->memory.used / s->full_at >= event->memory.most / 100;
        rollback_forget_old(s);
        break;
    case SCHEDULER_ISOLATED:
        /* The driver has put it into drover.dead. If no alert is raised now (rate limit), the
         * inspection of that queue will report it. */
        s->stats.dead_letters++;
        alert_isolated(s, event->isolated.job);
        break;
    case SCHEDULER_LOST:
        loss_found(s, event->lost_actor);
        break;
    case SCHEDULER_STOP:
        alert_group_stop(s);
        break;
    case SCHEDULER_TICK:
        on_tick(s);
        break;
    }
    intake_go_on(s);
    return next_tick(s);
}

bool scheduler_idle(const struct scheduler *s)
{
    list_foreach(l, &s->items)
        if (!list_entry(l, struct item, link)->background)
            return false;
    return true;
}

void scheduler_stats(const struct scheduler *s, struct scheduler_stats *out)
{
    *out = s->stats;
    out->unread_bytes = s->intake.unread_bytes;
    out->store_full = s->store_full;
}
