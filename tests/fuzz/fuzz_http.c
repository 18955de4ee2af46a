// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz: answers of a service to a step
 *
 * The first byte says which try it is and how many bytes are sent at a time; the rest is sent, and
 * the connection is closed. The checks: the run ends once, with a result within its limits; it
 * succeeds only after a complete head with a status of 2xx, and fails for good only if the service
 * has said so.
 */
#include <assert.h>
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/handler.h"
#include "base/clock.h"
#include "fuzz.h"
#include "model/wire.h"

#define RESPONSE_MAX 100 /* bytes of a result */
#define LEASE_MS 60000   /* never reached */
#define RETRY_AFTER_MAX_MS INT64_C(86400000)

enum {
    LATER_TRY = 1,
    HAS_NO_BODY = 2, /* HEAD */
};

/* The handler's engine uses one loop: it is the same for all inputs. */
static struct world {
    bool open;
    uv_loop_t loop;
    uv_tcp_t listener;
    char url[64];
    uv_tcp_t peer;
    bool connected;
    uv_write_t write;
    struct bytes whole, sent; /* the data to send, and how much of it was */
    size_t cut;
    unsigned flags;
    unsigned ended;
} world;

/* ---- the service ---- */

static void on_peer_closed(uv_handle_t *handle)
{
    world.connected = false;
}

static void peer_close(void)
{
    if (world.connected && !uv_is_closing((uv_handle_t *)&world.peer))
        uv_close((uv_handle_t *)&world.peer, on_peer_closed);
}

static void send_next(void);

static void on_sent(uv_write_t *write, int status)
{
    if (status == 0)
        send_next();
    else
        peer_close();
}

static void send_next(void)
{
    size_t len = world.sent.len < world.cut ? world.sent.len : world.cut;
    uv_buf_t piece = uv_buf_init((char *)world.sent.data, (unsigned)len);

    if (len == 0 || uv_is_closing((uv_handle_t *)&world.peer)) {
        peer_close();
        return;
    }
    world.sent = bytes_of(world.sent.data + len, world.sent.len - len);
    if (uv_write(&world.write, (uv_stream_t *)&world.peer, &piece, 1, on_sent))
        peer_close();
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    static char heard[65536];

    *buf = uv_buf_init(heard, sizeof(heard));
}

/* The request was received: it is short, so it is complete. */
static void on_heard(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    uv_read_stop(stream);
    if (n > 0)
        send_next();
    else
        peer_close();
}

/* libcurl repeats a request if a kept connection was closed meanwhile. */
static void on_connect(uv_stream_t *listener, int status)
{
    assert(status == 0 && !world.connected);
    uv_tcp_init(&world.loop, &world.peer);
    world.connected = true;
    world.sent = world.whole;
    assert(uv_accept(listener, (uv_stream_t *)&world.peer) == 0);
    uv_read_start((uv_stream_t *)&world.peer, on_alloc, on_heard);
}

static void world_open(void)
{
    struct sockaddr_in address;
    int len = sizeof(address);

    if (world.open)
        return;
    world.open = true;
    assert(uv_loop_init(&world.loop) == 0 && uv_tcp_init(&world.loop, &world.listener) == 0);
    uv_ip4_addr("127.0.0.1", 0, &address);
    assert(uv_tcp_bind(&world.listener, (struct sockaddr *)&address, 0) == 0);
    assert(uv_listen((uv_stream_t *)&world.listener, 8, on_connect) == 0);
    assert(uv_tcp_getsockname(&world.listener, (struct sockaddr *)&address, &len) == 0);
    snprintf(world.url, sizeof(world.url), "http://127.0.0.1:%d", ntohs(address.sin_port));
}

/* ---- the run ---- */

static struct bytes without(struct bytes text, size_t n)
{
    return bytes_of(text.data + n, text.len - n);
}

/* Whether there is a status line such as "HTTP/1.1 200 OK" whose first digit is one of these; any
 * number of blanks before the status. */
static bool has_status(const char *digits)
{
    struct bytes rest = world.whole;
    const uint8_t *at;

    while (rest.len > 0 && (at = memmem(rest.data, rest.len, "HTTP/", 5))) {
        struct bytes line = bytes_of(at, rest.len - (size_t)(at - rest.data));

        rest = without(line, 1);
        while (line.len > 0 && !isblank(line.data[0]))
            line = without(line, 1);
        while (line.len > 0 && isblank(line.data[0]))
            line = without(line, 1);
        if (line.len > 0 && line.data[0] && strchr(digits, line.data[0]))
            return true;
    }
    return false;
}

static void check_done(const struct agent_result *result)
{
    assert(has_status("2") && result->result.len <= RESPONSE_MAX);
    assert(!(world.flags & HAS_NO_BODY) || result->result.len == 0);
    if (result->content_type)
        assert(http_text_valid(result->content_type) &&
               strlen(result->content_type) <= WIRE_CONTENT_TYPE_MAX);
}

static void check_failed(const struct agent_result *result)
{
    bool permanent = result->verdict == DROVER__V1__VERDICT__VERDICT_PERMANENT;

    assert(permanent || result->verdict == DROVER__V1__VERDICT__VERDICT_TRANSIENT);
    assert(!permanent || has_status("234"));
    assert(result->effect != DROVER__V1__EFFECT__EFFECT_NONE ||
           (permanent && !(world.flags & LATER_TRY)));
    assert(*result->class && *result->message);
    assert(result->details.len <= WIRE_ERROR_DETAILS_MAX);
    assert(result->retry_after_ms >= 0 && result->retry_after_ms <= RETRY_AFTER_MAX_MS);
}

static void on_done(struct handler_run *run, const struct agent_result *result)
{
    world.ended++;
    if (result->ok)
        check_done(result);
    else
        check_failed(result);
}

static void ask(void)
{
    char *headers[] = {NULL};
    struct http_action http = {
        .method = (char *)(world.flags & HAS_NO_BODY ? "HEAD" : "PUT"),
        .url = world.url,
        .target = world.url,
        .headers = headers,
        .body = HTTP_BODY_NONE,
        .max_response = RESPONSE_MAX,
    };
    const struct agent_action action = {
        .http = &http,
        .breaker = {.failures = UINT_MAX, .open_ms = 1, .open_max_ms = 1},
    };
    Drover__V1__StepRequest request = DROVER__V1__STEP_REQUEST__INIT;
    struct agent_run run = {
        .request = &request,
        .deadline = clock_monotonic_ms() + LEASE_MS,
        .tries = world.flags & LATER_TRY ? 1 : 0,
    };
    const struct handler_run head = {.handler = &handler_http, .run = &run, .done = on_done};

    request.job_id = (char *)"j";
    request.step = (char *)"s";
    request.actor = (char *)"a";
    request.idempotency_key = (char *)"j/s/1";
    world.ended = 0;
    handler_http.start(&world.loop, &action, &head);
    while (world.ended == 0)
        uv_run(&world.loop, UV_RUN_ONCE);
    peer_close();
    handler_http.close(); /* also closes its kept connections: the next input starts without any */
    while (world.connected)
        uv_run(&world.loop, UV_RUN_ONCE);
    uv_run(&world.loop, UV_RUN_NOWAIT);
    assert(world.ended == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes input = bytes_of(data, size);
    size_t pieces;

    fuzz_begin();
    world_open();
    world.flags = fuzz_byte(&input);
    pieces = world.flags >> 4; /* few: each costs an iteration of the loop */
    world.whole = input;
    world.cut = pieces > 0 ? input.len / pieces + 1 : SIZE_MAX;
    ask();
    return 0;
}
