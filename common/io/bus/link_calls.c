// SPDX-License-Identifier: Apache-2.0
/*
 * Link, sending: methods, messages, calls that wait for an answer, and the side channel
 *
 * See io/bus/link.h. Called by the other files of the link, and by its roles.
 */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/bus/link.h"

#define TOGETHER (32 << 10)  /* bytes that leave without waiting for more */
#define OUT_KEPT (512 << 10) /* of memory, from one time to the next */
#define ONE_OF_SEVERAL_MS 2000

/* A method that waits for its answer. */
struct call {
    struct list node;
    amqp_method_number_t method;
    amqp_method_number_t answer;
    link_answered answered;
    char what[];
};

/* --- errors ----------------------------------------------------------------------------------- */

int link_fail(struct link *link, enum link_error error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(link->why, sizeof(link->why), format, arguments);
    va_end(arguments);
    return (int)error;
}

static bool has(amqp_bytes_t words, const char *text)
{
    return words.len > 0 && memmem(words.bytes, words.len, text, strlen(text));
}

/* The broker says NOT_FOUND of queues as well that exist, and are on a node that is away, or have
 * crashed. */
static bool is_missing(int code, amqp_bytes_t words)
{
    return code == AMQP_NOT_FOUND && (has(words, "no queue '") || has(words, "no exchange '"));
}

/* What to do where the words of the broker do not say it. */
static const char *advice(int code, amqp_bytes_t words)
{
    if (code == AMQP_NOT_FOUND && has(words, "home node"))
        return " (a classic queue is on one node only: start that node again; queues of the type "
               "quorum survive the loss of a node, see OPERATIONS, Three RabbitMQ nodes)";
    if (code == AMQP_PRECONDITION_FAILED && has(words, "'x-queue-type'"))
        return " (rabbitmq.replication says another type than that of the queue, or with auto "
               "there are queues of both types: set auto, or change the queues by "
               "deploy/change_queues.py, see OPERATIONS, RabbitMQ)";
    if (code == AMQP_PRECONDITION_FAILED && has(words, "queue"))
        return " (the queue exists with other options than those in PROTOCOL; if that is its type, "
               "set rabbitmq.replication, or change it by deploy/change_queues.py)";
    return "";
}

/* What the broker says while it goes down is no refusal. */
int link_fail_closed(struct link *link, const char *what, int code, amqp_bytes_t words)
{
    bool down = code == AMQP_CONNECTION_FORCED || code == AMQP_INTERNAL_ERROR;

    link->not_found = is_missing(code, words);
    return link_fail(link, down ? LINK_E_LOST : LINK_E_REFUSED, "%s: %d %.*s%s", what, code,
                     (int)words.len, (const char *)words.bytes, advice(code, words));
}

int link_fail_out_of_place(struct link *link, amqp_method_number_t method)
{
    const char *name = amqp_method_name(method);

    return link_fail(link, LINK_E_LOST, "broker sent %s out of place",
                     name ? name : "an unknown method");
}

int link_check_put(struct link *link, int r)
{
    if (r == -EMSGSIZE)
        return link_fail(link, LINK_E_LOST, "too long to be sent in a frame");
    return r < 0 ? link_fail(link, LINK_E_LOST, "out of memory for what is to be sent") : 0;
}

void link_report_refused(struct link *link)
{
    link->refusals++;
    link->n_refused++;
    memcpy(link->refusal, link->why, sizeof(link->why));
    memcpy(link->reported, link->why, sizeof(link->why));
}

/* --- sending ---------------------------------------------------------------------------------- */

int link_flush(struct link *link)
{
    int r = 0;

    if (link->out.len == 0)
        return 0;
    if (link->stream)
        r = stream_write(link->stream, buf_bytes(&link->out));
    link->wrote_at = (int64_t)uv_now(link->loop);
    if (link->out.size > OUT_KEPT)
        buf_deinit(&link->out);
    buf_clear(&link->out);
    return r < 0 ? link_fail(link, LINK_E_LOST, "connection lost: %s", uv_strerror(r)) : 0;
}

bool link_is_full(const struct link *link)
{
    return link->stream && stream_is_full(link->stream);
}

static int put(struct link *link, int r)
{
    if (r < 0)
        return link_check_put(link, r);
    return link->out.len < TOGETHER ? 0 : link_flush(link);
}

int link_put_method(struct link *link, amqp_method_number_t method, void *arguments)
{
    return put(link, frame_put_method(&link->out, LINK_CHANNEL, method, arguments));
}

int link_put_message(struct link *link, amqp_basic_publish_t *publish,
                     amqp_basic_properties_t *properties, struct bytes body)
{
    return put(link, frame_put_message(&link->out, LINK_CHANNEL, link->frame_max, publish,
                                       properties, body));
}

/* --- calls ------------------------------------------------------------------------------------ */

static struct list *calls_of(struct link *link, uint16_t channel)
{
    return channel == LINK_SIDE_CHANNEL ? &link->side.calls : &link->calls;
}

static struct call *first_call(const struct list *calls)
{
    return list_empty(calls) ? NULL : list_entry(calls->next, struct call, node);
}

static void drop_calls(struct list *calls)
{
    struct list *node;

    while ((node = list_pop(calls)))
        free(list_entry(node, struct call, node));
}

void link_drop_calls(struct link *link)
{
    drop_calls(&link->calls);
    drop_calls(&link->side.calls);
    link->side.open = false;
    link->side.done = NULL;
}

const char *link_awaited(const struct link *link)
{
    const struct call *call = first_call(&link->calls);

    if (!call)
        call = first_call(&link->side.calls);
    return call ? call->what : NULL;
}

static bool awaits_answer(const struct link *link)
{
    bool begins = link->state > LINK_WAITING && link->state < LINK_UP;
    bool calls = !list_empty(&link->calls) || !list_empty(&link->side.calls);

    return begins || link->state == LINK_CLOSING || (calls && !link->blocked);
}

/* Where there are other hosts, one that does not answer is left sooner, in the first round: also
 * one that waits for the others of its cluster, after it has let log in. */
static int64_t patience_ms(const struct link *link)
{
    const int64_t usual = link->config->connect_timeout_ms;

    return link->state < LINK_UP && link->hosts->n > 1 && link->rounds_failed == 0 &&
                   usual > ONE_OF_SEVERAL_MS
               ? ONE_OF_SEVERAL_MS
               : usual;
}

void link_await(struct link *link)
{
    link->overdue = false;
    if (awaits_answer(link))
        uv_timer_start(&link->timer, link->on_timer, (uint64_t)patience_ms(link), 0);
    else
        uv_timer_stop(&link->timer);
}

__attribute__((format(printf, 1, 0))) static struct call *call_new(const char *what,
                                                                   va_list arguments)
{
    char text[LINK_WHY_LEN];
    int len = vsnprintf(text, sizeof(text), what, arguments);
    size_t size = (len < (int)sizeof(text) ? (size_t)len : sizeof(text) - 1) + 1;
    struct call *call = malloc(sizeof(*call) + size);

    if (call)
        memcpy(call->what, text, size);
    return call;
}

int link_call(struct link *link, uint16_t channel, amqp_method_number_t method, void *arguments,
              amqp_method_number_t answer, link_answered answered, const char *what, ...)
{
    struct list *calls = calls_of(link, channel);
    struct call *call;
    va_list list;

    va_start(list, what);
    call = call_new(what, list);
    va_end(list);
    if (!call)
        return link_check_put(link, -ENOMEM);
    call->method = method;
    call->answer = answer;
    call->answered = answered;
    list_append(calls, &call->node);
    if (!uv_is_active((uv_handle_t *)&link->timer))
        link_await(link);
    return link_check_put(link, frame_put_method(&link->out, channel, method, arguments));
}

bool link_is_answer(const struct link *link, amqp_method_number_t method)
{
    const struct call *call = first_call(&link->calls);

    return call && call->answer == method;
}

static int end_call(struct link *link, struct list *calls, const void *arguments)
{
    struct call *call = first_call(calls);
    link_answered answered = call->answered;

    list_remove(&call->node);
    free(call);
    link_await(link);
    return answered ? answered(link, arguments) : 0;
}

int link_take_answer(struct link *link, const void *arguments)
{
    return end_call(link, &link->calls, arguments);
}

static const char *closed_what(const struct list *calls, const amqp_channel_close_t *close)
{
    const struct call *call = first_call(calls);
    amqp_method_number_t method =
        (amqp_method_number_t)close->class_id << 16 | (amqp_method_number_t)close->method_id;

    return call && call->method == method ? call->what : "channel closed by the broker";
}

static int fail_channel_closed(struct link *link, const struct list *calls,
                               const amqp_channel_close_t *close)
{
    return link_fail_closed(link, closed_what(calls, close), close->reply_code, close->reply_text);
}

int link_fail_channel_closed(struct link *link, const amqp_channel_close_t *close)
{
    if (close->class_id == AMQP_BASIC_CLASS)
        link->close_method = close->method_id;
    return fail_channel_closed(link, &link->calls, close);
}

/* --- the side channel ------------------------------------------------------------------------- */

bool link_side_is_free(const struct link *link)
{
    return !link->side.done && !link->blocked &&
           (link->state == LINK_SETUP || link->state == LINK_UP);
}

int link_side_begin(struct link *link, int (*done)(struct link *link, bool refused))
{
    amqp_channel_open_t open = {0};

    assert(link_side_is_free(link));
    link->side.done = done;
    if (link->side.open)
        return 0;
    link->side.open = true;
    return link_call(link, LINK_SIDE_CHANNEL, AMQP_CHANNEL_OPEN_METHOD, &open,
                     AMQP_CHANNEL_OPEN_OK_METHOD, NULL, "channel");
}

static int side_end(struct link *link, bool refused)
{
    int (*done)(struct link * link, bool refused) = link->side.done;

    link->side.done = NULL;
    return done(link, refused);
}

static int on_side_close(struct link *link, const amqp_channel_close_t *close)
{
    amqp_channel_close_ok_t ok = {0};
    int r = fail_channel_closed(link, &link->side.calls, close);

    if (r != LINK_E_REFUSED || !link->side.done)
        return r;
    drop_calls(&link->side.calls);
    link->side.open = false;
    link_await(link);
    r = link_check_put(
        link, frame_put_method(&link->out, LINK_SIDE_CHANNEL, AMQP_CHANNEL_CLOSE_OK_METHOD, &ok));
    return r ? r : side_end(link, true);
}

int link_side_method(struct link *link, amqp_method_number_t method, const void *arguments)
{
    const struct call *call = first_call(&link->side.calls);
    int r;

    if (method == AMQP_CHANNEL_CLOSE_METHOD)
        return on_side_close(link, arguments);
    if (!call || call->answer != method)
        return link_fail_out_of_place(link, method);
    r = end_call(link, &link->side.calls, arguments);
    return r || !list_empty(&link->side.calls) ? r : side_end(link, false);
}
