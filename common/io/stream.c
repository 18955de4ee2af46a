// SPDX-License-Identifier: Apache-2.0
/*
 * Stream: name lookup, connect, read and write by libuv, and a TLS session between
 *
 * See io/stream.h. What OpenSSL has to say is sent at once; what it cannot read yet is less than a
 * record. A number needs no lookup, so libuv starts none of its threads for it.
 */
#include "io/stream.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>

#include "io/hosts.h"
#include "io/tls_fault.h"

#define READ_SIZE ((size_t)256 << 10)
#define KEPT ((size_t)512 << 10) /* memory of a buffer that is kept while it is empty */
#define KEEPALIVE_S 15           /* a connection to a host that has vanished ends within minutes */
#define WHY_LEN 640

struct stream {
    struct stream_target target;
    const struct stream_callbacks *callbacks;
    void *ctx;
    uv_loop_t *loop;
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    };
    uv_getaddrinfo_t lookup;
    uv_connect_t connect;
    uv_write_t write;
    struct sockaddr_storage number; /* the address, if the host is a number */
    struct addrinfo *addresses;     /* otherwise */
    unsigned n_addresses;
    unsigned tried;     /* addresses, of n_addresses */
    int error;          /* of the last attempt */
    bool has_handle;    /* from uv_tcp_init() until it is closed */
    bool looking_up;    /* until libuv has called back */
    bool open;          /* connected */
    bool heard;         /* the server has sent something */
    bool ended;         /* stream_close() was called */
    bool lost;          /* on_lost() was called */
    bool clear;         /* the last attempt was refused, because it would be in clear text */
    struct buf waiting; /* to be written after ... */
    struct buf sending; /* ... what libuv is writing */
    struct tls *tls;    /* from the connect on; NULL: in clear text */
    char input[READ_SIZE];
    char plain[READ_SIZE + TLS_RECORD_MAX]; /* decrypted: input, and a record begun before */
};

static void connect_next(struct stream *s);

static void free_stream(struct stream *s)
{
    if (s->addresses)
        uv_freeaddrinfo(s->addresses);
    buf_deinit(&s->waiting);
    buf_deinit(&s->sending);
    tls_free(s->tls);
    free(s);
}

/* Frees a stream that was closed, once libuv has nothing of it any more. */
static void let_go(struct stream *s)
{
    if (!s->ended || s->has_handle || s->looking_up)
        return;
    if (s->callbacks->on_gone)
        s->callbacks->on_gone(s->ctx);
    free_stream(s);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct stream *s = container_of(handle, struct stream, handle);

    s->has_handle = false;
    if (s->ended)
        let_go(s);
    else
        connect_next(s);
}

static void lose_for(struct stream *s, const char *why, bool refused)
{
    if (s->ended || s->lost)
        return;
    s->lost = true;
    s->callbacks->on_lost(s->ctx, why, refused);
}

static void lose(struct stream *s, const char *why)
{
    lose_for(s, why, false);
}

static void lose_tls(struct stream *s)
{
    char why[WHY_LEN];

    snprintf(why, sizeof(why), "TLS with %s port %d: %s", s->target.host, s->target.port,
             tls_why(s->tls));
    lose_for(s, why, tls_is_refused(s->tls));
}

/* ---- writing ---- */

static void empty(struct buf *b)
{
    if (b->size > KEPT)
        buf_deinit(b);
    buf_clear(b);
}

static void on_written(uv_write_t *write, int status);

/* Has libuv write what waits. Return: 0 or -errno. */
static int send_waiting(struct stream *s)
{
    struct buf waiting = s->waiting;
    uv_buf_t piece;

    s->waiting = s->sending;
    s->sending = waiting;
    piece = uv_buf_init((char *)s->sending.data, (unsigned)s->sending.len);
    return uv_write(&s->write, &s->stream, &piece, 1, on_written);
}

static void on_written(uv_write_t *write, int status)
{
    struct stream *s = container_of(write, struct stream, write);

    empty(&s->sending);
    if (s->ended)
        return;
    if (status == 0 && s->waiting.len > 0)
        status = send_waiting(s);
    if (status < 0)
        lose(s, uv_strerror(status));
    else if (s->sending.len == 0 && s->open && s->callbacks->on_room)
        s->callbacks->on_room(s->ctx);
}

/* Return: 0 or -errno. */
static int write_raw(struct stream *s, struct bytes data)
{
    const uv_buf_t piece = uv_buf_init((char *)data.data, (unsigned)data.len);
    int n = 0;

    if (data.len == 0)
        return 0;
    if (!stream_is_full(s)) {
        n = uv_try_write(&s->stream, &piece, 1);
        if (n == (int)data.len)
            return 0;
        if (n < 0 && n != UV_EAGAIN)
            return n;
        n = n < 0 ? 0 : n;
    }
    buf_append(&s->waiting, data.data + n, data.len - (size_t)n);
    if (s->waiting.failed)
        return -ENOMEM;
    return s->sending.len > 0 ? 0 : send_waiting(s);
}

/* Return: 0 or -errno. */
static int flush_tls(struct stream *s)
{
    struct buf *output = tls_output(s->tls);
    int r = output->failed ? -ENOMEM : write_raw(s, buf_bytes(output));

    empty(output);
    return r;
}

int stream_write(struct stream *s, struct bytes data)
{
    assert(s->open);
    if (!s->tls)
        return write_raw(s, data);
    if (*tls_why(s->tls))
        return 0; /* it has failed behind the data that on_data() has: read_plain() reports that */
    return tls_write(s->tls, data) < 0 ? -EPROTO : flush_tls(s);
}

bool stream_is_full(const struct stream *s)
{
    return s->sending.len > 0;
}

size_t stream_unsent(const struct stream *s)
{
    return uv_stream_get_write_queue_size(&s->stream) + s->waiting.len;
}

/* ---- reading ---- */

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct stream *s = container_of(handle, struct stream, handle);

    *buf = uv_buf_init(s->input, sizeof(s->input));
}

static void be_open(struct stream *s)
{
    s->open = true;
    s->callbacks->on_open(s->ctx);
}

/* Return: whether the session goes on. */
static bool read_plain(struct stream *s)
{
    int n = 0;

    while (!s->ended && (n = tls_read(s->tls, s->plain, sizeof(s->plain))) > 0)
        s->callbacks->on_data(s->ctx, bytes_of(s->plain, (size_t)n));
    if (n < 0)
        lose_tls(s);
    return n == 0 && !s->ended;
}

/* What was read may have an answer of its own, such as new keys. */
static void answer_tls(struct stream *s)
{
    int r = flush_tls(s);

    if (r < 0)
        lose(s, uv_strerror(r));
}

/* Goes on with the session after bytes of the server. */
static void advance_tls(struct stream *s, struct bytes cipher)
{
    int done, r;

    tls_input(s->tls, cipher);
    done = s->open ? 1 : tls_handshake(s->tls);
    r = flush_tls(s); /* after a failure an alert, which tells the server why */
    if (done < 0) {
        lose_tls(s);
    } else if (r < 0) {
        lose(s, uv_strerror(r));
    } else if (done) {
        if (!s->open)
            be_open(s);
        if (read_plain(s))
            answer_tls(s);
    }
}

/* What the server did in the middle of a handshake may be its only word about a certificate; and
 * before it has said anything, about clear text. */
static void lose_read(struct stream *s, int error)
{
    const char *what = error == UV_EOF ? "the server closed the connection" : uv_strerror(error);
    char why[WHY_LEN];

    if (s->tls && !s->open && (error == UV_EOF || error == UV_ECONNRESET))
        what = TLS_FAULT_ENDED TLS_FAULT_PORT;
    if (s->tls && !s->open)
        snprintf(why, sizeof(why), "TLS with %s port %d: %s", s->target.host, s->target.port, what);
    else if (!s->tls && !s->heard && s->target.host)
        snprintf(why, sizeof(why), "%s before it said anything: does it expect TLS at this port?",
                 what);
    else
        snprintf(why, sizeof(why), "%s", what);
    lose(s, why);
}

/* Where the first bytes are an alert of TLS, nothing else follows. */
static bool is_tls_alert(const struct stream *s, struct bytes data)
{
    return !s->heard && data.len > 1 && data.data[0] == 0x15 && data.data[1] == 3;
}

static void take_clear(struct stream *s, struct bytes data)
{
    char why[WHY_LEN];

    if (is_tls_alert(s, data)) {
        snprintf(why, sizeof(why), "the server expects TLS at this port: set %s.tls = true",
                 s->target.settings);
        lose_for(s, why, true);
        return;
    }
    s->heard = true;
    s->callbacks->on_data(s->ctx, data);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct stream *s = container_of(stream, struct stream, stream);

    if (s->ended || s->lost || n == 0)
        return;
    if (n < 0) {
        lose_read(s, (int)n);
        return;
    }
    if (!s->tls)
        take_clear(s, bytes_of(buf->base, (size_t)n));
    else
        advance_tls(s, bytes_of(buf->base, (size_t)n));
}

/* ---- connecting ---- */

static void begin_tls(struct stream *s)
{
    const char *name = s->target.tls_name ? s->target.tls_name : s->target.host;
    int r = tls_new(&s->tls, s->target.tls, name);

    if (r == 0)
        r = flush_tls(s);
    if (r < 0)
        lose(s, uv_strerror(r));
    else if (*tls_why(s->tls))
        lose_tls(s);
}

static void on_connect(uv_connect_t *connect, int status)
{
    struct stream *s = container_of(connect, struct stream, connect);

    if (s->ended)
        return;
    if (status == 0)
        status = uv_read_start(&s->stream, on_alloc, on_read);
    if (status < 0) {
        s->error = status;
        uv_close(&s->handle, on_handle_closed); /* the next address needs a new socket */
        return;
    }
    if (s->target.tls)
        begin_tls(s);
    else
        be_open(s);
}

static const struct sockaddr *next_address(struct stream *s)
{
    unsigned skip = (s->target.first + s->tried++) % s->n_addresses;
    const struct addrinfo *a = s->addresses;

    for (; a && skip > 0; skip--)
        a = a->ai_next;
    return a ? a->ai_addr : (const struct sockaddr *)&s->number;
}

static void lose_unconnected(struct stream *s, int error)
{
    char why[WHY_LEN];

    if (s->clear) {
        hosts_clear_refused(why, sizeof(why), s->target.host, s->target.settings);
        lose_for(s, why, true);
        return;
    }
    if (s->target.path)
        snprintf(why, sizeof(why), "connecting to %s: %s", s->target.path, uv_strerror(error));
    else
        snprintf(why, sizeof(why), "connecting to %s port %d: %s", s->target.host, s->target.port,
                 uv_strerror(error));
    lose(s, why);
}

/* Clear text stays on this machine, wherever a name leads. */
static bool may_be_clear(const struct stream *s, const struct sockaddr *address)
{
    return s->target.tls || s->target.insecure || hosts_is_loopback(address);
}

/* Begins to connect to the next address. Return: 0, also where it cannot be connected to, which is
 * noticed later; or -errno. */
static int try_next(struct stream *s)
{
    const struct sockaddr *address = next_address(s);
    int r = uv_tcp_init(s->loop, &s->tcp);

    if (r < 0)
        return r;
    s->has_handle = true;
    uv_tcp_nodelay(&s->tcp, 1);
    uv_tcp_keepalive(&s->tcp, 1, KEEPALIVE_S);
    s->clear = !may_be_clear(s, address);
    s->error = s->clear ? UV_EACCES : uv_tcp_connect(&s->connect, &s->tcp, address, on_connect);
    if (s->error < 0)
        uv_close(&s->handle, on_handle_closed);
    return 0;
}

static void connect_next(struct stream *s)
{
    int r = s->tried < s->n_addresses ? try_next(s) : s->error;

    if (r < 0)
        lose_unconnected(s, r);
}

static void on_lookup(uv_getaddrinfo_t *lookup, int status, struct addrinfo *addresses)
{
    struct stream *s = container_of(lookup, struct stream, lookup);
    char why[WHY_LEN];

    s->looking_up = false;
    s->addresses = addresses;
    for (const struct addrinfo *a = addresses; a; a = a->ai_next)
        s->n_addresses++;
    if (s->ended) {
        let_go(s);
    } else if (status < 0) {
        snprintf(why, sizeof(why), "host %s: %s", s->target.host, uv_strerror(status));
        lose(s, why);
    } else {
        connect_next(s);
    }
}

static bool is_number(struct stream *s)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)&s->number;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&s->number;

    return uv_ip4_addr(s->target.host, s->target.port, v4) == 0 ||
           uv_ip6_addr(s->target.host, s->target.port, v6) == 0;
}

static int connect_path(struct stream *s)
{
    int r = uv_pipe_init(s->loop, &s->pipe, 0);

    if (r < 0)
        return r;
    s->has_handle = true;
    s->tried = s->n_addresses = 1;
    uv_pipe_connect(&s->connect, &s->pipe, s->target.path, on_connect);
    return 0;
}

/* Return: 0 or -errno. */
static int begin(struct stream *s)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    char port[16];
    int r;

    if (s->target.path)
        return connect_path(s);
    if (is_number(s)) {
        s->n_addresses = 1;
        return try_next(s);
    }
    snprintf(port, sizeof(port), "%d", s->target.port);
    r = uv_getaddrinfo(s->loop, &s->lookup, on_lookup, s->target.host, port, &hints);
    s->looking_up = r == 0;
    return r;
}

int stream_open(struct stream **out, uv_loop_t *loop, const struct stream_target *target,
                const struct stream_callbacks *callbacks, void *ctx)
{
    struct stream *s = calloc(1, sizeof(*s));
    int r;

    if (!s)
        return -ENOMEM;
    s->loop = loop;
    s->target = *target;
    s->callbacks = callbacks;
    s->ctx = ctx;
    r = begin(s);
    if (r < 0) {
        free_stream(s);
        return r;
    }
    *out = s;
    return 0;
}

const char *stream_missing(const struct stream *s)
{
    if (s->looking_up)
        return "no name server has answered";
    return s->tls ? TLS_FAULT_SILENT TLS_FAULT_PORT : "connection timed out";
}

const char *stream_own_name(const struct stream *s)
{
    return s->tls ? tls_own_name(s->tls) : "";
}

int64_t stream_peer_expiry(const struct stream *s)
{
    return s->tls ? tls_peer_expiry(s->tls) : 0;
}

void stream_close(struct stream *s)
{
    if (!s)
        return;
    s->ended = true;
    s->open = false;
    if (s->looking_up)
        uv_cancel((uv_req_t *)&s->lookup);
    if (s->has_handle && !uv_is_closing(&s->handle))
        uv_close(&s->handle, on_handle_closed);
    let_go(s);
}
