// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz: replies that a Redis may send
 *
 * The first byte says which store reads them and how many bytes are sent at a time; the rest is
 * sent. It is read three times: by the parser alone, whole and in pieces, with equal results; as
 * the answers of Sentinels, one after the other; and by a store over a socket, which runs the store
 * check and then makes calls. Each call has one answer.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"
#include "io/store/resp.h"
#include "io/store/sentinel.h"
#include "io/store/store.h"
#include "io/store/store_check.h"

#define CALLS 3
#define LIBRARY "#!lua name=drover1\nlocal BUILD = 5\n"

enum {
    STRICT = 1,
    READ_ONLY = 2,
    LOGS_IN = 4,
    PASSES = 8, /* the store check passes before the rest is sent */
};

/* ---- the parser ---- */

static void see_reply(const struct resp_reply *reply, struct buf *seen)
{
    assert(!reply->error || reply->n > 0);
    buf_printf(seen, "%d %u", reply->error, (unsigned)reply->n);
    for (uint32_t i = 0; i < reply->n; i++) {
        assert(reply->items[i].data[reply->items[i].len] == '\0');
        buf_printf(seen, " %zu ", reply->items[i].len);
        buf_append(seen, reply->items[i].data, reply->items[i].len);
    }
    buf_putc(seen, '\n');
}

static void read_replies(struct bytes sent, size_t cut, struct buf *seen)
{
    struct resp_reader reader;
    const struct resp_reply *reply = NULL;
    int r = resp_init(&reader);

    while (r == 0 && sent.len > 0) {
        size_t len = sent.len < cut ? sent.len : cut;

        r = resp_feed(&reader, sent.data, len);
        sent = bytes_of(sent.data + len, sent.len - len);
        while (r == 0 && (r = resp_next(&reader, &reply)) == 0 && reply)
            see_reply(reply, seen);
    }
    buf_printf(seen, "%d", r);
    resp_deinit(&reader);
}

static void try_reader(struct bytes sent, size_t cut)
{
    CLEANUP(buf_deinit) struct buf whole = {0}, pieces = {0};

    read_replies(sent, SIZE_MAX, &whole);
    read_replies(sent, cut, &pieces);
    assert(bytes_equal(buf_bytes(&whole), buf_bytes(&pieces)));
}

/* ---- Sentinels ---- */

#define SENTINELS 3

static void check_answer(const struct sentinel_answer *answer)
{
    if (answer->kind == SENTINEL_NAMES)
        assert(*answer->primary.host && answer->primary.port > 0 &&
               answer->primary.port <= UINT16_MAX && answer->primary.epoch >= 0);
    else
        assert(answer->kind == SENTINEL_REFUSES && *answer->why);
}

/* Each answer replaces the oldest one; the primary that counts is one that was named. */
static void try_sentinels(struct bytes sent, bool login)
{
    const struct sentinel_config config = {"p", NULL, login ? "w" : NULL};
    struct sentinel_answer answers[SENTINELS] = {0};
    struct sentinel_choice choice = {0};
    CLEANUP(buf_deinit) struct buf command = {0};
    const struct resp_reply *reply;
    struct sentinel_talk talk;
    struct resp_reader reader;
    size_t next = 0;

    sentinel_ask(&talk, &config, login, &command);
    assert(resp_init(&reader) == 0);
    if (resp_feed(&reader, sent.data, sent.len) == 0) {
        while (resp_next(&reader, &reply) == 0 && reply) {
            if (!sentinel_hear(&talk, reply))
                continue;
            check_answer(&talk.answer);
            answers[next++ % SENTINELS] = talk.answer;
            sentinel_choose(&choice, answers, SENTINELS, next % SENTINELS == 0);
            assert(*choice.known.host || talk.answer.kind != SENTINEL_NAMES);
            sentinel_ask(&talk, &config, false, &command);
        }
    }
    resp_deinit(&reader);
}

/* ---- a store, and the server on the same loop ---- */

static const char passed[] = "$51\r\nredis_version:7.0.15\r\nmaxmemory_policy:noeviction\r\n\r\n"
                             "*3\r\n$6\r\ndrover\r\n$1\r\n1\r\n$1\r\n4\r\n"
                             ":5\r\n";

struct world {
    uv_loop_t loop;
    uv_pipe_t listener;
    uv_pipe_t peer;
    uv_write_t write;
    char path[64];
    struct bytes sent; /* what is left to send */
    size_t cut;
    bool connected;
    struct store *store;
    unsigned called, answered;
    struct buf heard; /* items are read completely: a sanitizer finds a wrong end */
    bool closing;
};

static void on_closed(void *ctx)
{
    struct world *w = ctx;

    w->store = store_free(w->store);
}

static void end(struct world *w)
{
    if (w->closing)
        return;
    w->closing = true;
    store_close(w->store, on_closed);
    uv_close((uv_handle_t *)&w->listener, NULL);
    if (w->connected && !uv_is_closing((uv_handle_t *)&w->peer))
        uv_close((uv_handle_t *)&w->peer, NULL);
}

static void on_trouble(void *ctx, const char *why)
{
    assert(*why);
    end(ctx);
}

static void on_answer(void *ctx, const struct store_answer *answer)
{
    struct world *w = ctx;

    assert(w->answered++ < w->called);
    assert(answer->result != STORE_ERROR || answer->n > 0);
    for (uint32_t i = 0; i < answer->n; i++)
        buf_append(&w->heard, answer->items[i].data, answer->items[i].len);
    if (w->answered == CALLS)
        end(w);
}

static void on_up(void *ctx)
{
    static const struct bytes args[] = {{(const uint8_t *)"a", 1}, {NULL, 0}};
    struct world *w = ctx;
    uint32_t partitions = store_partitions(w->store);

    assert(partitions > 0 && partitions <= STORE_PARTITIONS_MAX);
    while (w->called < CALLS) {
        w->called++;
        assert(store_call(w->store, partitions - 1, "record", args, 2, on_answer, w) == 0);
    }
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    static char heard[65536];

    *buf = uv_buf_init(heard, sizeof(heard));
}

static void peer_close(struct world *w)
{
    if (!uv_is_closing((uv_handle_t *)&w->peer))
        uv_close((uv_handle_t *)&w->peer, NULL);
}

static void on_heard(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    if (n < 0)
        peer_close(stream->data);
}

static void send_next(struct world *w);

static void on_sent(uv_write_t *write, int status)
{
    struct world *w = write->data;

    if (status == 0)
        send_next(w);
}

/* Sends a piece in each iteration of the loop; then closes the connection. */
static void send_next(struct world *w)
{
    size_t len = w->sent.len < w->cut ? w->sent.len : w->cut;
    uv_buf_t piece = uv_buf_init((char *)w->sent.data, (unsigned)len);

    if (uv_is_closing((uv_handle_t *)&w->peer))
        return;
    if (len == 0) {
        peer_close(w);
        return;
    }
    w->sent = bytes_of(w->sent.data + len, w->sent.len - len);
    w->write.data = w;
    if (uv_write(&w->write, (uv_stream_t *)&w->peer, &piece, 1, on_sent))
        peer_close(w);
}

/* A second connection gets nothing. */
static void on_connect(uv_stream_t *listener, int status)
{
    struct world *w = listener->data;

    assert(status == 0);
    if (w->connected) {
        end(w);
        return;
    }
    w->connected = true;
    uv_pipe_init(&w->loop, &w->peer, 0);
    w->peer.data = w;
    assert(uv_accept(listener, (uv_stream_t *)&w->peer) == 0);
    uv_read_start((uv_stream_t *)&w->peer, on_alloc, on_heard);
    send_next(w);
}

static void listen_at(struct world *w)
{
    snprintf(w->path, sizeof(w->path), "/tmp/fuzz_store.%d", (int)getpid());
    unlink(w->path);
    uv_pipe_init(&w->loop, &w->listener, 0);
    w->listener.data = w;
    assert(uv_pipe_bind(&w->listener, w->path) == 0);
    assert(uv_listen((uv_stream_t *)&w->listener, 1, on_connect) == 0);
}

static void try_store(struct bytes sent, size_t cut, unsigned flags)
{
    static const struct store_callbacks callbacks = {
        .on_up = on_up, .on_down = on_trouble, .on_refused = on_trouble};
    struct world w = {.sent = sent, .cut = cut};
    const struct store_config config = {
        .socket_path = w.path,
        .password = flags & LOGS_IN ? "p" : NULL,
        .database = flags & LOGS_IN ? 3 : 0,
        .strict = flags & STRICT,
        .replicas = flags & STRICT ? 1 : 0,
        .read_only = flags & READ_ONLY,
        .library = LIBRARY,
        .reconnect_min_ms = 1,
        .reconnect_max_ms = 1,
    };

    assert(uv_loop_init(&w.loop) == 0);
    listen_at(&w);
    assert(store_new(&w.store, &w.loop, &config, &callbacks, &w) == 0);
    uv_run(&w.loop, UV_RUN_DEFAULT);
    assert(w.answered == w.called && !w.store);
    buf_deinit(&w.heard);
    assert(uv_loop_close(&w.loop) == 0);
    unlink(w.path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes input = bytes_of(data, size);
    unsigned flags = fuzz_byte(&input);
    size_t cut = (flags >> 4) + 1; /* up to 15; 16: all at once */
    CLEANUP(buf_deinit) struct buf sent = {0};

    fuzz_begin();
    try_reader(input, cut);
    try_sentinels(input, flags & LOGS_IN);
    if (flags & PASSES)
        buf_puts(&sent, passed);
    buf_append(&sent, input.data, input.len);
    try_store(buf_bytes(&sent), cut < 16 ? cut * 8 : SIZE_MAX, flags);
    return 0;
}
