// SPDX-License-Identifier: Apache-2.0
/*
 * Health: an HTTP server on the loop of the process, with libmicrohttpd
 *
 * See io/daemon/health.h.
 */
#include "io/daemon/health.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "io/address.h"
#include "io/daemon/health_local.h"

#define CONNECTIONS_MAX 32           /* at a time; others wait in the backlog of the socket */
#define CONNECTION_MEMORY (16 << 10) /* bytes of each, for a request and the head of its answer */
#define CONNECTION_PATIENCE_S 2      /* an idle one is closed; less than --healthcheck waits */
#define CONNECTION_LIFE_S 5          /* then any one is closed, also if it sends a byte at times */
#define ADDRESS_CONNECTIONS 8        /* from one address */
#define TURN_MS 500                  /* at most, between two runs of the server */

#define PLAIN "text/plain; charset=utf-8"
#define PROMETHEUS "text/plain; version=0.0.4; charset=utf-8"

/* A connection. */
struct peer {
    struct list link; /* in health.peers, oldest first */
    int fd;
    int64_t since; /* monotonic ms */
};

struct health {
    struct MHD_Daemon *http;
    const struct health_pages *pages;
    void *ctx;
    struct buf page; /* the page that is being made */
    uv_poll_t poll;  /* on the epoll of http, which has all its sockets */
    uv_timer_t timer;
    struct list peers;
    struct health_local *local; /* NULL if its address is in use */
    int n_handles;              /* handles of the loop that are not closed yet */
    void (*on_closed)(void *ctx);
};

/* ---- pages ---- */

struct answer {
    unsigned status;
    const char *type;
};

static struct answer answer_livez(struct health *h)
{
    buf_puts(&h->page, "ok\n");
    return (struct answer){MHD_HTTP_OK, PLAIN};
}

static struct answer answer_readyz(struct health *h)
{
    if (!h->pages->ready(h->ctx, &h->page))
        return (struct answer){MHD_HTTP_SERVICE_UNAVAILABLE, PLAIN};
    buf_puts(&h->page, "ready\n");
    return (struct answer){MHD_HTTP_OK, PLAIN};
}

static struct answer answer_metrics(struct health *h)
{
    h->pages->metrics(h->ctx, &h->page);
    return (struct answer){MHD_HTTP_OK, PROMETHEUS};
}

static struct answer answer_root(struct health *h)
{
    buf_puts(&h->page, "/livez    the loop runs\n"
                       "/readyz   connected, consuming, not draining\n"
                       "/metrics  figures for Prometheus\n");
    return (struct answer){MHD_HTTP_OK, PLAIN};
}

static struct answer answer_method(struct health *h)
{
    buf_puts(&h->page, "GET or HEAD only\n");
    return (struct answer){MHD_HTTP_METHOD_NOT_ALLOWED, PLAIN};
}

static struct answer answer_for(struct health *h, const char *path, const char *method)
{
    static const struct {
        const char *path;
        struct answer (*answer)(struct health *h);
    } pages[] = {
        {"/livez", answer_livez},
        {"/readyz", answer_readyz},
        {"/metrics", answer_metrics},
        {"/", answer_root},
    };

    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return answer_method(h);
    for (size_t i = 0; i < array_size(pages); i++) {
        if (strcmp(path, pages[i].path) == 0)
            return pages[i].answer(h);
    }
    buf_puts(&h->page, "there is no such page\n");
    return (struct answer){MHD_HTTP_NOT_FOUND, PLAIN};
}

/* ---- HTTP ---- */

static enum MHD_Result send_page(struct health *h, struct MHD_Connection *connection,
                                 const struct answer *answer)
{
    enum MHD_Result sent;
    struct MHD_Response *response;

    if (h->page.failed)
        return MHD_NO;
    response = MHD_create_response_from_buffer(h->page.len, h->page.data, MHD_RESPMEM_MUST_COPY);
    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer->type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    if (answer->status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    sent = MHD_queue_response(connection, answer->status, response);
    MHD_destroy_response(response);
    return sent;
}

/* libmicrohttpd calls this with the head of a request, with each piece of its body, which is
 * dropped, and at its end: then it is answered. */
static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_size, void **state)
{
    static char begun;
    struct health *h = ctx;
    struct answer answer;

    if (*state != &begun || *upload_size > 0) {
        *state = &begun;
        *upload_size = 0;
        return MHD_YES;
    }
    buf_clear(&h->page);
    answer = answer_for(h, path, method);
    return send_page(h, connection, &answer);
}

/* ---- the loop ---- */

static void on_timer(uv_timer_t *timer);

static void on_peer(void *ctx, struct MHD_Connection *connection, void **state,
                    enum MHD_ConnectionNotificationCode code)
{
    struct health *h = ctx;
    struct peer *peer = *state;

    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        list_remove(&peer->link);
        free(peer);
        return;
    }
    peer = or_abort(malloc(sizeof(*peer)));
    *peer = (struct peer){
        .fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd,
        .since = clock_monotonic_ms()};
    list_append(&h->peers, &peer->link);
    *state = peer;
}

/* Closes connections after CONNECTION_LIFE_S: the timeout of libmicrohttpd is only for idle ones.
 */
static void end_old_peers(struct health *h)
{
    int64_t born_before = clock_monotonic_ms() - INT64_C(1000) * CONNECTION_LIFE_S;

    list_foreach(l, &h->peers) {
        const struct peer *peer = list_entry(l, struct peer, link);

        if (peer->since > born_before)
            break;
        shutdown(peer->fd, SHUT_RDWR);
    }
}

/* Runs the server. A run that closes surplus connections does not accept others in their place, and
 * MHD_get_timeout() does not report that another run would: so the wait is limited. */
static void serve(struct health *h)
{
    MHD_UNSIGNED_LONG_LONG wait_ms = TURN_MS;

    end_old_peers(h);
    MHD_run(h->http);
    if (MHD_get_timeout(h->http, &wait_ms) == MHD_NO || wait_ms > TURN_MS)
        wait_ms = TURN_MS;
    uv_timer_start(&h->timer, on_timer, wait_ms, 0);
}

static void on_timer(uv_timer_t *timer)
{
    serve(timer->data);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    serve(poll->data);
}

/* ---- listening ---- */

static void free_addresses(struct addrinfo *addresses)
{
    if (addresses)
        freeaddrinfo(addresses);
}
CLEANUP_DEFINE(struct addrinfo *, free_addresses)

static int listen_on(const struct addrinfo *a)
{
    int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
    int yes = 1;
    int r;

    if (fd < 0)
        return -errno;
    /* otherwise a process that is restarted would have to wait for connections of the old one */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, CONNECTIONS_MAX) == 0)
        return fd;
    r = -errno;
    close(fd);
    return r;
}

/* Return: a socket, or -errno with *why set. */
static int open_socket(const char *text, const char **why)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    CLEANUP(free_addresses) struct addrinfo *addresses = NULL;
    struct address address;
    int r = -EINVAL;

    *why = address_parse(text, &address);
    if (*why)
        return r;
    r = getaddrinfo(address.host, address.port, &hints, &addresses);
    if (r) {
        *why = gai_strerror(r);
        return -EADDRNOTAVAIL;
    }
    r = listen_on(addresses);
    if (r < 0)
        *why = strerrordesc_np(-r);
    return r;
}

/* ---- start and stop ---- */

/* Starts the server, which then owns @fd. Return: 0 or -errno. */
static int start_http(struct health *h, int fd)
{
    h->http = MHD_start_daemon(
        MHD_USE_EPOLL, 0, NULL, NULL, on_request, h, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_MEMORY, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)CONNECTION_PATIENCE_S,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)ADDRESS_CONNECTIONS,
        MHD_OPTION_NOTIFY_CONNECTION, on_peer, h, MHD_OPTION_END);
    return h->http ? 0 : -EIO;
}

static int port_of(const struct health *h)
{
    return MHD_get_daemon_info(h->http, MHD_DAEMON_INFO_BIND_PORT)->port;
}

static int watch(struct health *h, uv_loop_t *loop)
{
    int fd = MHD_get_daemon_info(h->http, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    int r = uv_poll_init(loop, &h->poll, fd);

    if (r)
        return r;
    uv_timer_init(loop, &h->timer);
    h->poll.data = h->timer.data = h;
    return uv_poll_start(&h->poll, UV_READABLE, on_poll);
}

/* Starts the local socket for --healthcheck, under the actual port if port 0 was given. */
static bool listen_apart(struct health *h, uv_loop_t *loop, const char *listen)
{
    struct address address;
    char port[16];

    snprintf(port, sizeof(port), "%d", port_of(h));
    return !address_parse(listen, &address) &&
           health_local_new(&h->local, loop, address.host, port) == 0;
}

int health_new(struct health **out, uv_loop_t *loop, const char *listen,
               const struct health_pages *pages, void *ctx)
{
    const char *why = NULL;
    int fd = open_socket(listen, &why);
    struct health *h;
    int r;

    if (fd < 0) {
        log_error("health_refused", LOG_S("address", listen), LOG_S("why", why));
        return fd;
    }
    h = or_abort(calloc(1, sizeof(*h)));
    h->pages = pages;
    h->ctx = ctx;
    list_init(&h->peers);
    *out = h;
    r = start_http(h, fd);
    if (!r)
        r = watch(h, loop);
    if (!r && !listen_apart(h, loop, listen))
        log_warn("health_not_apart", LOG_S("address", listen));
    if (!r)
        log_info("health_listening", LOG_S("address", listen), LOG_I("port", port_of(h)));
    return r;
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct health *h = handle->data;

    if (--h->n_handles == 0)
        h->on_closed(h->ctx);
}

static void on_local_closed(void *ctx)
{
    struct health *h = ctx;

    if (--h->n_handles == 0)
        h->on_closed(h->ctx);
}

void health_close(struct health *h, void (*on_closed)(void *ctx))
{
    h->on_closed = on_closed;
    h->n_handles = h->local ? 3 : 2;
    if (h->local)
        health_local_close(take(h->local), on_local_closed, h);
    uv_close((uv_handle_t *)&h->poll, on_handle_closed);
    uv_close((uv_handle_t *)&h->timer, on_handle_closed);
    MHD_stop_daemon(take(h->http));
}

struct health *health_free(struct health *h)
{
    if (!h)
        return NULL;
    if (h->http)
        MHD_stop_daemon(h->http);
    buf_deinit(&h->page);
    free(h);
    return NULL;
}
