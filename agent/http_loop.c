// SPDX-License-Identifier: Apache-2.0
/*
 * HTTP loop: has libuv poll the sockets of libcurl, and wait for it
 *
 * See agent/http_loop.h.
 */
#include "agent/http_loop.h"

#include <assert.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/list.h"

/* A socket of libcurl, as the loop polls it. */
struct watch {
    struct list link; /* in engine.watches */
    uv_poll_t poll;
    int events;
    curl_socket_t fd;
};

static struct engine {
    uv_loop_t *loop;
    http_loop_ended_fn *ended;
    CURLM *multi; /* NULL: not open */
    uv_timer_t timer;
    struct list watches;
} engine;

static void collect(void)
{
    CURLMsg *message;
    int left;

    while (engine.multi && (message = curl_multi_info_read(engine.multi, &left))) {
        assert(message->msg == CURLMSG_DONE);
        engine.ended(message->easy_handle, message->data.result);
    }
}

static void on_timeout(uv_timer_t *timer)
{
    int running;

    curl_multi_socket_action(engine.multi, CURL_SOCKET_TIMEOUT, 0, &running);
    collect();
}

static int on_timer_wanted(CURLM *multi, long ms, void *context)
{
    if (ms < 0)
        uv_timer_stop(&engine.timer);
    else
        uv_timer_start(&engine.timer, on_timeout, (uint64_t)ms, 0);
    return 0;
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    struct watch *watch = poll->data;
    int flags = 0, running;

    if (status < 0) /* libcurl reads what the peer sent before it, such as a TLS alert */
        flags = CURL_CSELECT_ERR | CURL_CSELECT_IN | CURL_CSELECT_OUT;
    if (events & UV_READABLE)
        flags |= CURL_CSELECT_IN;
    if (events & UV_WRITABLE)
        flags |= CURL_CSELECT_OUT;
    curl_multi_socket_action(engine.multi, watch->fd, flags, &running);
    if (status < 0 && !uv_is_closing((uv_handle_t *)poll)) /* libuv has stopped it */
        uv_poll_start(poll, watch->events, on_ready);
    collect();
}

static void on_watch_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static struct watch *watch_new(curl_socket_t fd)
{
    struct watch *watch = or_abort(calloc(1, sizeof(*watch)));

    watch->fd = fd;
    if (uv_poll_init(engine.loop, &watch->poll, fd))
        abort(); /* unreachable: the sockets of libcurl can be polled */
    watch->poll.data = watch;
    list_append(&engine.watches, &watch->link);
    return watch;
}

static void watch_close(struct watch *watch)
{
    list_remove(&watch->link);
    uv_close((uv_handle_t *)&watch->poll, on_watch_closed);
}

static int on_socket_wanted(CURL *easy, curl_socket_t fd, int what, void *context, void *known)
{
    struct watch *watch = known;

    if (what == CURL_POLL_REMOVE) {
        curl_multi_assign(engine.multi, fd, NULL);
        if (watch)
            watch_close(watch);
        return 0;
    }
    if (!watch) {
        watch = watch_new(fd);
        curl_multi_assign(engine.multi, fd, watch);
    }
    watch->events =
        (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0);
    uv_poll_start(&watch->poll, watch->events, on_ready);
    return 0;
}

void http_loop_open(uv_loop_t *loop, http_loop_ended_fn *ended)
{
    if (engine.multi)
        return;
    if (curl_global_init(CURL_GLOBAL_DEFAULT))
        abort();
    engine.loop = loop;
    engine.ended = ended;
    list_init(&engine.watches);
    engine.multi = or_abort(curl_multi_init());
    uv_timer_init(loop, &engine.timer);
    curl_multi_setopt(engine.multi, CURLMOPT_SOCKETFUNCTION, on_socket_wanted);
    curl_multi_setopt(engine.multi, CURLMOPT_TIMERFUNCTION, on_timer_wanted);
}

void http_loop_add(CURL *easy)
{
    if (curl_multi_add_handle(engine.multi, easy))
        abort();
}

void http_loop_remove(CURL *easy)
{
    curl_multi_remove_handle(engine.multi, easy);
    curl_easy_cleanup(easy);
}

/* Only connections are left, kept or being closed. libcurl 8 asks once more to have their sockets
 * watched while it closes them, although they are gone before the loop could watch them. So its
 * callbacks are removed first. */
void http_loop_close(void)
{
    CURLM *multi = take(engine.multi);

    if (!multi)
        return;
    curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, NULL);
    curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, NULL);
    while (!list_empty(&engine.watches))
        watch_close(list_entry(engine.watches.next, struct watch, link));
    curl_multi_cleanup(multi);
    curl_global_cleanup();
    uv_close((uv_handle_t *)&engine.timer, NULL);
}
