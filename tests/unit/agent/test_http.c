// SPDX-License-Identifier: Apache-2.0
/*
 * The http handler, against a server on the same loop that answers as each test tells it to
 */
#include <dirent.h>
#include <errno.h>
#include <linux/close_range.h>
#include <netdb.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <curl/curl.h>

#include "agent/handler.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "model/wire.h"

#define LEASE_MS 60000 /* never reached, except in tests of the lease */
#define ASKED_MAX 512
#define FAR UINT32_C(0xc0000201) /* 192.0.2.1, of no machine (RFC 5737) */

/* What the server does with a request. */
struct answer {
    const char *text; /* sent first; NULL: nothing */
    size_t len;       /* of text; 0: up to its NUL */
    enum {
        KEEP,    /* keeps the connection for the next request */
        CLOSE,   /* closes it after the text */
        RESET,   /* resets it after the text */
        HANG,    /* sends nothing more */
        ENDLESS, /* repeats `more` for ever */
    } then;
    const char *more;
};

static const struct answer GOOD = {.text = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"};

/* One request as the server received it. */
struct asked {
    struct buf text; /* head and body */
    size_t body;     /* where the body begins */
    unsigned peer;   /* number of the connection */
};

struct peer {
    struct list link; /* in world.peers */
    uv_tcp_t tcp;
    struct world *world;
    unsigned number;
    struct buf in;
    uv_write_t write;
    struct answer answer; /* being sent */
    char room[65536];
};

struct world {
    uv_loop_t loop;
    uv_tcp_t listener;
    uv_timer_t timer;
    int port;
    struct list peers;
    unsigned n_peers; /* connections so far */
    struct answer answer;
    const struct answer *answers; /* to the first requests; `answer` to the others */
    size_t n_answers;
    struct asked asked[ASKED_MAX];
    size_t n_asked;
    void (*on_asked)(struct world *w); /* called while the answer is being sent */
    struct agent_action action;
    struct http_action http;
    char url[128];
    char target[64];
    char *headers[8];
    unsigned under_way;
};

/* One run and its result. */
struct trial {
    struct world *world;
    struct handler_run *handler_run;
    struct agent_run run;
    Drover__V1__StepRequest request;
    Drover__V1__Payload input;
    Drover__V1__Payload arguments;
    void (*then)(struct trial *t); /* called from done() */
    struct trial *other;
    bool ended;
    bool ok;
    Drover__V1__Verdict verdict;
    Drover__V1__Effect effect;
    int64_t retry_after;
    char class[64];
    char message[600];
    char type[WIRE_CONTENT_TYPE_MAX + 1];
    bool typed;
    struct buf result;
    struct buf details;
    int64_t at;
};

/* ---- name resolution ---- */

/* Replaces the resolver: a name that ends in .slow is resolved when the test says so, one that ends
 * in .far is of another machine. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open;
    unsigned waiting;
} gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, 0};

static void gate_set(bool open)
{
    pthread_mutex_lock(&gate.lock);
    gate.open = open;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.lock);
}

static bool gate_waiting(void)
{
    bool waiting;

    pthread_mutex_lock(&gate.lock);
    waiting = gate.waiting > 0;
    pthread_mutex_unlock(&gate.lock);
    return waiting;
}

static void gate_pass(void)
{
    pthread_mutex_lock(&gate.lock);
    gate.waiting++;
    while (!gate.open)
        pthread_cond_wait(&gate.changed, &gate.lock);
    gate.waiting--;
    pthread_mutex_unlock(&gate.lock);
}

static bool ends_with(const char *text, const char *end)
{
    return strlen(text) >= strlen(end) && strcmp(text + strlen(text) - strlen(end), end) == 0;
}

/* Replaces libc's function; libcurl's threads call it. Known names need no server. */
__attribute__((visibility("default"))) int getaddrinfo(const char *name, const char *service,
                                                       const struct addrinfo *hints,
                                                       struct addrinfo **out)
{
    struct sockaddr_in *address;
    struct addrinfo *found;
    uint32_t host = INADDR_LOOPBACK;

    if (ends_with(name, ".slow"))
        gate_pass();
    else if (ends_with(name, ".far"))
        host = FAR;
    else if (strcmp(name, "127.0.0.1") != 0)
        return EAI_NONAME;
    found = calloc(1, sizeof(*found) + sizeof(*address)); /* one block, as libc allocates it */
    address = (struct sockaddr_in *)(void *)(found + 1);
    address->sin_family = AF_INET;
    address->sin_port = htons((uint16_t)atoi(service));
    address->sin_addr.s_addr = htonl(host);
    found->ai_family = AF_INET;
    found->ai_socktype = SOCK_STREAM;
    found->ai_addrlen = sizeof(*address);
    found->ai_addr = (struct sockaddr *)address;
    *out = found;
    return 0;
}

/* Replace libc's functions: connections to FAR go to the server of the test, and do not show it. */
static bool is_far[1024]; /* by descriptor */

__attribute__((visibility("default"))) int connect(int fd, const struct sockaddr *to, socklen_t len)
{
    struct sockaddr_in address;

    if (to->sa_family != AF_INET || len != sizeof(address))
        return (int)syscall(SYS_connect, fd, to, len);
    memcpy(&address, to, sizeof(address));
    assert_in_range(fd, 0, array_size(is_far) - 1);
    is_far[fd] = address.sin_addr.s_addr == htonl(FAR);
    if (is_far[fd])
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return (int)syscall(SYS_connect, fd, &address, len);
}

__attribute__((visibility("default"))) int getpeername(int fd, struct sockaddr *out, socklen_t *len)
{
    int r = (int)syscall(SYS_getpeername, fd, out, len);

    if (!r && out->sa_family == AF_INET && is_far[fd])
        ((struct sockaddr_in *)(void *)out)->sin_addr.s_addr = htonl(FAR);
    return r;
}

/* ---- the server ---- */

static void on_peer_closed(uv_handle_t *handle)
{
    struct peer *p = handle->data;

    buf_deinit(&p->in);
    free(p);
}

static void peer_close(struct peer *p, bool rudely)
{
    if (uv_is_closing((uv_handle_t *)&p->tcp))
        return;
    list_remove(&p->link);
    if (!rudely || uv_tcp_close_reset(&p->tcp, on_peer_closed))
        uv_close((uv_handle_t *)&p->tcp, on_peer_closed);
}

static void peer_send(struct peer *p, const char *text, size_t len);

static void on_sent(uv_write_t *write, int status)
{
    struct peer *p = write->data;

    if (uv_is_closing((uv_handle_t *)&p->tcp))
        return;
    if (status < 0 || p->answer.then == CLOSE)
        peer_close(p, false);
    else if (p->answer.then == RESET)
        peer_close(p, true);
    else if (p->answer.then == ENDLESS)
        peer_send(p, p->answer.more, strlen(p->answer.more));
}

static void peer_send(struct peer *p, const char *text, size_t len)
{
    uv_buf_t buf = uv_buf_init((char *)text, (unsigned)len);

    p->write.data = p;
    assert_int_equal(uv_write(&p->write, (uv_stream_t *)&p->tcp, &buf, 1, on_sent), 0);
}

static void peer_answer(struct peer *p, const struct answer *answer)
{
    p->answer = *answer;
    if (answer->text)
        peer_send(p, answer->text, answer->len > 0 ? answer->len : strlen(answer->text));
    else if (answer->then == CLOSE || answer->then == RESET)
        peer_close(p, answer->then == RESET);
}

/* Length of the request at the beginning of @in; 0: it is not complete. */
static size_t request_length(struct buf *in, size_t *head)
{
    const char *text = buf_str(in), *end = strstr(text, "\r\n\r\n");
    const char *length = strcasestr(text, "\r\nContent-Length:");
    size_t len;

    if (!end)
        return 0;
    *head = (size_t)(end - text) + 4;
    len = *head + (length && length < end ? (size_t)atol(length + 17) : 0);
    return in->len >= len ? len : 0;
}

static void take_request(struct peer *p, size_t len, size_t head)
{
    struct world *w = p->world;
    struct asked *asked = &w->asked[w->n_asked];
    const struct answer *answer = w->n_asked < w->n_answers ? &w->answers[w->n_asked] : &w->answer;

    assert_true(w->n_asked < ASKED_MAX);
    w->n_asked++;
    buf_append(&asked->text, p->in.data, len);
    asked->body = head;
    asked->peer = p->number;
    memmove(p->in.data, p->in.data + len, p->in.len - len);
    p->in.len -= len;
    peer_answer(p, answer);
    if (w->on_asked)
        w->on_asked(w);
}

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    struct peer *p = handle->data;

    *out = uv_buf_init(p->room, sizeof(p->room));
}

static void on_received(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct peer *p = stream->data;
    size_t len, head;

    if (n < 0) {
        peer_close(p, false);
        return;
    }
    buf_append(&p->in, buf->base, (size_t)n);
    while (!uv_is_closing((uv_handle_t *)stream) && (len = request_length(&p->in, &head)) > 0)
        take_request(p, len, head);
}

static void on_connect(uv_stream_t *listener, int status)
{
    struct world *w = listener->data;
    struct peer *p = calloc(1, sizeof(*p));

    assert_int_equal(status, 0);
    p->world = w;
    p->number = ++w->n_peers;
    uv_tcp_init(&w->loop, &p->tcp);
    p->tcp.data = p;
    assert_int_equal(uv_accept(listener, (uv_stream_t *)&p->tcp), 0);
    list_append(&w->peers, &p->link);
    uv_read_start((uv_stream_t *)&p->tcp, on_room, on_received);
}

static void server_open(struct world *w)
{
    struct sockaddr_in address;
    int len = sizeof(address);

    list_init(&w->peers);
    uv_ip4_addr("127.0.0.1", w->port, &address);
    uv_tcp_init(&w->loop, &w->listener);
    w->listener.data = w;
    assert_int_equal(uv_tcp_bind(&w->listener, (struct sockaddr *)&address, 0), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&w->listener, 128, on_connect), 0);
    assert_int_equal(uv_tcp_getsockname(&w->listener, (struct sockaddr *)&address, &len), 0);
    w->port = ntohs(address.sin_port);
}

static void server_close(struct world *w)
{
    if (!uv_is_closing((uv_handle_t *)&w->listener))
        uv_close((uv_handle_t *)&w->listener, NULL);
    for (struct list *l; !list_empty(&w->peers);) {
        l = w->peers.next;
        peer_close(list_entry(l, struct peer, link), false);
    }
}

/* ---- requests received ---- */

static const char *asked_text(struct world *w, size_t i)
{
    assert_true(i < w->n_asked);
    return buf_str(&w->asked[i].text);
}

static const char *asked_body(struct world *w, size_t i)
{
    return asked_text(w, i) + w->asked[i].body;
}

/* A header as it was received, without the end of its line; NULL: none. The caller frees it. */
static char *asked_header(struct world *w, size_t i, const char *name)
{
    const char *text = asked_text(w, i);
    size_t len = strlen(name);

    for (text = strstr(text, "\r\n"); text && strncmp(text, "\r\n\r\n", 4) != 0;
         text = strstr(text + 2, "\r\n"))
        if (strncasecmp(text + 2, name, len) == 0 && text[2 + len] == ':')
            return strndup(text + 2, strcspn(text + 2, "\r"));
    return NULL;
}

static void expect_header(struct world *w, size_t i, const char *name, const char *expected)
{
    char *header = asked_header(w, i, name);
    bool same = header && expected ? strcmp(header, expected) == 0 : !header && !expected;

    if (!same)
        fail_msg("%s: %s, not %s", name, header ? header : "none", expected ? expected : "none");
    free(header);
}

/* "METHOD TARGET HTTP/1.1" */
static void expect_line(struct world *w, size_t i, const char *expected)
{
    char *line = strndup(asked_text(w, i), strcspn(asked_text(w, i), "\r"));

    assert_string_equal(line, expected);
    free(line);
}

/* ---- runs ---- */

static void on_done(struct handler_run *run, const struct agent_result *result)
{
    struct trial *t = run->context;

    assert_true(run == t->handler_run);
    assert_false(t->ended);
    t->ended = true;
    t->ok = result->ok;
    t->verdict = result->verdict;
    t->effect = result->effect;
    t->retry_after = result->retry_after_ms;
    t->typed = result->content_type != NULL;
    snprintf(t->class, sizeof(t->class), "%s", result->class ? result->class : "");
    snprintf(t->message, sizeof(t->message), "%s", result->message ? result->message : "");
    snprintf(t->type, sizeof(t->type), "%s", result->content_type ? result->content_type : "");
    buf_append(&t->result, result->result.data, result->result.len);
    buf_append(&t->details, result->details.data, result->details.len);
    t->at = clock_monotonic_ms();
    t->handler_run = NULL;
    t->world->under_way--;
    if (t->then)
        t->then(t);
}

static void trial_init(struct world *w, struct trial *t)
{
    *t = (struct trial){.world = w};
    drover__v1__step_request__init(&t->request);
    drover__v1__payload__init(&t->input);
    drover__v1__payload__init(&t->arguments);
    t->request.job_id = (char *)"order-17";
    t->request.step = (char *)"charge";
    t->request.actor = (char *)"payments";
    t->request.action = (char *)"do";
    t->request.attempt = 1;
    t->request.token = (char *)"0.secret";
    t->request.desired = DROVER__V1__STATE__STATE_ACTIVE;
    t->request.idempotency_key = (char *)"order-17/charge/1";
    t->run.request = &t->request;
    t->run.deadline = clock_monotonic_ms() + LEASE_MS;
}

static void trial_deinit(struct trial *t)
{
    buf_deinit(&t->result);
    buf_deinit(&t->details);
}

static void set_payload(Drover__V1__Payload *payload, const char *type, const char *text)
{
    payload->content_type = (char *)type;
    payload->data.data = (uint8_t *)text;
    payload->data.len = strlen(text);
}

static void set_input(struct trial *t, const char *type, const char *text)
{
    set_payload(&t->input, type, text);
    t->request.input = &t->input;
}

static void trial_start(struct trial *t)
{
    struct handler_run head = {
        .handler = &handler_http, .run = &t->run, .done = on_done, .context = t};

    t->world->under_way++;
    t->handler_run = handler_http.start(&t->world->loop, &t->world->action, &head);
    assert_non_null(t->handler_run);
    assert_false(t->ended); /* done() is never called from within start() */
}

static void trial_stop(struct trial *t, bool at_once)
{
    handler_http.stop(t->handler_run, at_once);
    assert_false(t->ended); /* nor from within stop() */
}

/* Runs the loop until every run has ended. */
static void finish(struct world *w)
{
    while (w->under_way > 0)
        uv_run(&w->loop, UV_RUN_ONCE);
}

/* Runs the loop until this run has ended; others may go on. */
static void finish_one(struct trial *t)
{
    while (!t->ended)
        uv_run(&t->world->loop, UV_RUN_ONCE);
}

/* Runs the loop until @n requests were received. */
static void await_asked(struct world *w, size_t n)
{
    while (w->n_asked < n)
        uv_run(&w->loop, UV_RUN_ONCE);
}

static void on_time(uv_timer_t *timer)
{
}

/* Runs the loop until @when. */
static void await_time(struct world *w, int64_t when)
{
    uv_timer_start(&w->timer, on_time, 1, 1); /* repeatedly: a timer may fire a little early */
    while (clock_monotonic_ms() < when)
        uv_run(&w->loop, UV_RUN_ONCE);
    uv_timer_stop(&w->timer);
}

/* Runs the loop until a lookup waits at the gate, or none does. */
static void await_gate(struct world *w, bool somebody)
{
    while (gate_waiting() != somebody)
        await_time(w, clock_monotonic_ms() + 1);
}

/* One run with default settings. */
static void run_one(struct world *w, struct trial *t)
{
    trial_init(w, t);
    trial_start(t);
    finish_one(t);
}

static void run_answer(struct world *w, struct trial *t, const char *text)
{
    w->answer = (struct answer){.text = text};
    run_one(w, t);
}

static void expect_failed(const struct trial *t, const char *class, Drover__V1__Verdict verdict,
                          Drover__V1__Effect effect)
{
    if (t->ok || strcmp(t->class, class) != 0)
        fail_msg("%s %s", t->ok ? "ok" : t->class, t->message);
    assert_int_equal(t->verdict, verdict);
    assert_int_equal(t->effect, effect);
}

#define expect_transient(t, class, e)                                                              \
    expect_failed(t, class, DROVER__V1__VERDICT__VERDICT_TRANSIENT, DROVER__V1__EFFECT__EFFECT_##e)
#define expect_permanent(t, class, e)                                                              \
    expect_failed(t, class, DROVER__V1__VERDICT__VERDICT_PERMANENT, DROVER__V1__EFFECT__EFFECT_##e)
#define expect_deferred(t, class, e)                                                               \
    expect_failed(t, class, DROVER__V1__VERDICT__VERDICT_DEFER, DROVER__V1__EFFECT__EFFECT_##e)

/* ---- setup ---- */

static void set_path(struct world *w, const char *path)
{
    snprintf(w->target, sizeof(w->target), "http://127.0.0.1:%d", w->port);
    snprintf(w->url, sizeof(w->url), "%s%s", w->target, path);
}

/* A port without a listener. The socket that reserves it is to be closed by the caller. */
static int set_dead_port(struct world *w)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    w->port = ntohs(address.sin_port);
    set_path(w, "/");
    return fd;
}

static unsigned open_files(void)
{
    DIR *folder = opendir("/proc/self/fd");
    unsigned n = 0;

    assert_non_null(folder);
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    uv_loop_init(&w->loop);
    uv_timer_init(&w->loop, &w->timer);
    w->answer = GOOD;
    server_open(w);
    set_path(w, "/charges");
    w->http = (struct http_action){
        .method = (char *)"POST",
        .url = w->url,
        .target = w->target,
        .headers = w->headers,
        .body = HTTP_BODY_DOCUMENT,
        .max_response = WIRE_RESULT_MAX - WIRE_CONTENT_TYPE_MAX,
    };
    w->action = (struct agent_action){
        .name = (char *)"*",
        .breaker = {.failures = 1000, .open_ms = 60000, .open_max_ms = 60000},
        .http = &w->http,
    };
    *state = w;
    return 0;
}

static void asked_clear(struct world *w)
{
    for (size_t i = 0; i < w->n_asked; i++)
        buf_deinit(&w->asked[i].text);
    memset(w->asked, 0, sizeof(w->asked));
    w->n_asked = 0;
}

/* close() leaves no handle behind, even with connections and breakers. */
static int teardown(void **state)
{
    struct world *w = *state;

    assert_int_equal(w->under_way, 0);
    handler_http.close();
    handler_http.close(); /* may be repeated: several actors may have this handler */
    uv_close((uv_handle_t *)&w->timer, NULL);
    server_close(w);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    asked_clear(w);
    free(w);
    return 0;
}

/* ---- results ---- */

static void test_success(void **state)
{
    struct world *w = *state;
    struct trial t;

    run_answer(w, &t,
               "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\n"
               "Content-Length: 9\r\n\r\n{\"id\": 5}");
    assert_true(t.ok);
    assert_string_equal(t.type, "application/json");
    assert_string_equal(buf_str(&t.result), "{\"id\": 5}");
    trial_deinit(&t);

    run_answer(w, &t,
               "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
               "Content-Type: text/plain; charset=utf-8\r\n\r\n"
               "5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n");
    assert_true(t.ok);
    assert_string_equal(t.type, "text/plain; charset=utf-8");
    assert_string_equal(buf_str(&t.result), "hello!");
    trial_deinit(&t);
}

static void test_success_without_body(void **state)
{
    struct world *w = *state;
    struct trial t;

    run_answer(w, &t, "HTTP/1.1 204 No Content\r\nContent-Type: text/plain\r\n\r\n");
    assert_true(t.ok);
    assert_false(t.typed); /* no result, as opposed to an empty one */
    assert_int_equal(t.result.len, 0);
    trial_deinit(&t);
    run_one(w, &t);
    assert_true(t.ok && !t.typed);
    trial_deinit(&t);
}

static void test_success_without_type(void **state)
{
    struct world *w = *state;
    struct trial t;

    run_answer(w, &t, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    assert_true(t.ok && t.typed);
    assert_string_equal(t.type, "");
    trial_deinit(&t);
    run_answer(w, &t,
               "HTTP/1.1 200 OK\r\nContent-Type: text/\xc3\xa4\r\n"
               "Content-Length: 2\r\n\r\nhi");
    assert_true(t.ok);
    assert_string_equal(t.type, ""); /* the wire cannot carry the type that was sent */
    trial_deinit(&t);
}

/* A binary body, and a body that ends with the connection. */
static void test_success_until_closed(void **state)
{
    static const char text[] = "HTTP/1.0 200 OK\r\nContent-Type: a/b\r\n\r\na\0b";
    struct world *w = *state;
    struct trial t;

    w->answer = (struct answer){.text = text, .len = sizeof(text) - 1, .then = CLOSE};
    run_one(w, &t);
    assert_true(t.ok);
    assert_int_equal(t.result.len, 3);
    assert_memory_equal(t.result.data, "a\0b", 3);
    trial_deinit(&t);
}

static void test_verdicts(void **state)
{
    static const struct {
        int status;
        bool permanent;
        bool none; /* whether the error says that the call had no effect */
    } rules[] = {
        {300, true, false},  {301, true, false},  {304, true, false},  {307, true, false},
        {400, true, true},   {401, true, true},   {403, true, true},   {404, true, true},
        {408, false, false}, {409, true, true},   {410, true, true},   {422, true, true},
        {425, false, false}, {429, false, false}, {499, true, true},   {500, false, false},
        {501, false, false}, {502, false, false}, {503, false, false}, {504, false, false},
        {599, false, false}, {999, false, false},
    };
    struct world *w = *state;

    for (size_t i = 0; i < array_size(rules); i++) {
        char text[128], class[24];
        struct trial t;

        snprintf(class, sizeof(class), "HTTP_%d", rules[i].status);
        snprintf(text, sizeof(text), "HTTP/1.1 %d Whatever\r\nContent-Length: %d\r\n\r\n%s",
                 rules[i].status, rules[i].status == 304 ? 0 : 3,
                 rules[i].status == 304 ? "" : "why");
        run_answer(w, &t, text);
        expect_failed(&t, class,
                      rules[i].permanent ? DROVER__V1__VERDICT__VERDICT_PERMANENT
                                         : DROVER__V1__VERDICT__VERDICT_TRANSIENT,
                      rules[i].none ? DROVER__V1__EFFECT__EFFECT_NONE
                                    : DROVER__V1__EFFECT__EFFECT_UNKNOWN);
        assert_string_equal(buf_str(&t.details), rules[i].status == 304 ? "" : "why");
        assert_non_null(strstr(t.message, w->target));
        assert_int_equal(t.retry_after, 0);
        trial_deinit(&t);
    }
    assert_int_equal(w->n_asked, array_size(rules));
}

/* The error of a second try says that nothing was done only if the first try did nothing either. */
static void test_verdicts_of_further_tries(void **state)
{
    static const char no[] = "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n";
    static const char conflict[] = "HTTP/1.1 409 No\r\nRetry-After: 2\r\nContent-Length: 0\r\n\r\n";
    struct world *w = *state;

    for (int i = 0; i < 4; i++) {
        for (int n = 0; n < 2; n++) {
            struct trial t;

            trial_init(w, &t);
            t.run.tries = i == 1;
            t.request.attempt = i == 2 ? 2 : 1;
            t.run.repeated = i == 3;
            w->answer = (struct answer){.text = n == 0 ? no : conflict};
            trial_start(&t);
            finish(w);
            if (i == 0)
                expect_permanent(&t, n == 0 ? "HTTP_404" : "HTTP_409", NONE);
            else if (n == 0)
                expect_permanent(&t, "HTTP_404", UNKNOWN);
            else
                expect_transient(&t, "HTTP_409", UNKNOWN); /* the first may be in progress */
            assert_int_equal(t.retry_after, i > 0 && n == 1 ? 2000 : 0);
            trial_deinit(&t);
        }
    }
}

/* The handler follows no redirects: the configuration alone says where a request goes. */
static void test_redirects_are_not_followed(void **state)
{
    struct world *w = *state;
    char text[200];
    struct trial t;

    snprintf(text, sizeof(text),
             "HTTP/1.1 303 See Other\r\nLocation: http://127.0.0.1:%d/admin\r\n"
             "Content-Length: 0\r\n\r\n",
             w->port);
    run_answer(w, &t, text);
    expect_permanent(&t, "HTTP_303", UNKNOWN);
    assert_non_null(strstr(t.message, "redirects are not followed"));
    assert_int_equal(w->n_asked, 1);
    trial_deinit(&t);
}

static void run_retry_after(struct world *w, struct trial *t, int status, const char *value)
{
    char text[256];

    snprintf(text, sizeof(text), "HTTP/1.1 %d X\r\nRetry-After: %s\r\nContent-Length: 0\r\n\r\n",
             status, value);
    run_answer(w, t, text);
    trial_deinit(t);
}

static void test_retry_after(void **state)
{
    struct world *w = *state;
    time_t now = time(NULL);
    char date[64];
    struct trial t;

    run_retry_after(w, &t, 503, "7");
    assert_int_equal(t.retry_after, 7000);
    run_retry_after(w, &t, 429, "120");
    assert_int_equal(t.retry_after, 120000);
    run_retry_after(w, &t, 400, "120");
    assert_int_equal(t.retry_after, 0);
    now += 1000;
    strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", gmtime(&now));
    run_retry_after(w, &t, 503, date);
    assert_in_range(t.retry_after, 1000, 1000000);
}

/* A pause that is absurdly long is ignored. */
static void test_absurd_retry_after(void **state)
{
    static const char *const absurd[] = {
        "-5",
        "0",
        "soon",
        "",
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "172800",
        "9223372036854775807",
        "99999999999999999999999",
        "Fri, 31 Dec 9999 23:59:59 GMT",
        "1e9",
        "\x01\xff",
    };
    struct world *w = *state;

    for (size_t i = 0; i < array_size(absurd); i++) {
        struct trial t;

        run_retry_after(w, &t, 503, absurd[i]);
        assert_string_equal(t.class, "HTTP_503");
        assert_true(t.retry_after >= 0 && t.retry_after <= 86400000);
    }
}

/* ---- no answer ---- */

static void test_connection_refused(void **state)
{
    struct world *w = *state;
    int fd = set_dead_port(w);
    struct trial t;

    run_one(w, &t);
    expect_transient(&t, "CONNECT", UNKNOWN);
    assert_non_null(strstr(t.message, w->target));
    trial_deinit(&t);

    trial_init(w, &t); /* an earlier try may have had an effect */
    t.request.attempt = 2;
    trial_start(&t);
    finish(w);
    expect_transient(&t, "CONNECT", UNKNOWN);
    trial_deinit(&t);

    trial_init(w, &t);
    t.run.tries = 1;
    trial_start(&t);
    finish(w);
    expect_transient(&t, "CONNECT", UNKNOWN);
    trial_deinit(&t);
    close(fd);
}

/* If the process stood still since it took the request, it sends nothing after the lease. */
static void test_deadline_passed(void **state)
{
    struct world *w = *state;
    struct trial t;

    trial_init(w, &t);
    t.run.deadline = clock_monotonic_ms();
    trial_start(&t);
    finish(w);
    expect_transient(&t, "TIMEOUT", UNKNOWN);
    trial_deinit(&t);
    assert_int_equal(w->n_asked, 0);
}

static void test_name_that_does_not_resolve(void **state)
{
    struct world *w = *state;
    struct trial t;

    strcpy(w->target, "http://nobody.invalid");
    strcpy(w->url, "http://nobody.invalid/x");
    run_one(w, &t);
    expect_transient(&t, "CONNECT", UNKNOWN);
    assert_non_null(strstr(t.message, "nobody.invalid"));
    trial_deinit(&t);
}

/* A call that hangs ends by itself, while there is time to report that. */
static void test_hang(void **state)
{
    struct world *w = *state;
    int64_t begun = clock_monotonic_ms();
    struct trial t;

    w->answer = (struct answer){.then = HANG};
    trial_init(w, &t);
    t.run.deadline = begun + 4000;
    trial_start(&t);
    finish(w);
    expect_transient(&t, "TIMEOUT", UNKNOWN);
    assert_true(t.at >= begun + 3500);
    assert_true(t.at < t.run.deadline);
    trial_deinit(&t);
}

static void test_timeout_of_the_action(void **state)
{
    static const struct answer answers[] = {
        {.then = HANG},
        {.text = "HTTP/1.1 200 OK\r\nContent-", .then = HANG},
        {.text = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", .then = HANG},
    };
    struct world *w = *state;

    w->http.timeout_ms = 50;
    w->answers = answers;
    w->n_answers = array_size(answers);
    for (size_t i = 0; i < array_size(answers); i++) {
        int64_t begun = clock_monotonic_ms();
        struct trial t;

        run_one(w, &t);
        expect_transient(&t, "TIMEOUT", UNKNOWN);
        assert_true(t.at >= begun + 50);
        assert_int_equal(t.result.len, 0);
        trial_deinit(&t);
    }
}

/* A lease that is over, or nearly: the run still ends, once and soon. */
static void test_no_time(void **state)
{
    static const int64_t left[] = {-100000, -1, 0, 1, 9};
    struct world *w = *state;

    w->answer = (struct answer){.then = HANG};
    for (size_t i = 0; i < array_size(left); i++) {
        struct trial t;

        trial_init(w, &t);
        t.run.deadline = clock_monotonic_ms() + left[i];
        trial_start(&t);
        finish(w);
        assert_string_equal(t.class, "TIMEOUT");
        trial_deinit(&t);
    }
}

static void test_longest_lease(void **state)
{
    struct world *w = *state;
    struct trial t;

    trial_init(w, &t);
    t.run.deadline = clock_monotonic_ms() + (int64_t)30 * 86400 * 1000;
    trial_start(&t);
    finish(w);
    assert_true(t.ok);
    trial_deinit(&t);
}

static void test_truncated_answers(void **state)
{
    static const struct answer answers[] = {
        {.then = CLOSE},
        {.then = RESET},
        {.text = "HTTP/1.1 200", .then = CLOSE},
        {.text = "HTTP/1.1 200 OK\r\n", .then = CLOSE},
        {.text = "HTTP/1.1 200 OK\r\nContent-Le", .then = CLOSE},
        {.text = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", .then = CLOSE},
        {.text = "HTTP/1.1 404 No\r\nServer: a\r\n", .then = CLOSE},
        {.text = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n", .then = CLOSE},
        {.text = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", .then = CLOSE},
        {.text = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", .then = RESET},
        {.text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", .then = CLOSE},
        {.text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab", .then = CLOSE},
        {.text = "\r\n\r\n<html>", .then = CLOSE},
        {.text = "220 mail.example ESMTP\r\n", .then = CLOSE},
        {.text = "http/1.1 404 No\r\nContent-Length: 0\r\n\r\n", .then = CLOSE},
    };
    struct world *w = *state;

    w->answers = answers;
    w->n_answers = array_size(answers);
    for (size_t i = 0; i < array_size(answers); i++) {
        struct trial t;

        run_one(w, &t);
        expect_transient(&t, "NETWORK", UNKNOWN);
        assert_int_equal(t.result.len, 0);
        trial_deinit(&t);
    }
    assert_int_equal(w->n_asked, array_size(answers));
}

/* Interim answers are not the answer, and trailers do not change it. */
/* The handler takes an answer that is complete, although an error of the connection follows it. */
static void test_answer_before_a_reset(void **state)
{
    struct world *w = *state;
    struct trial t;

    w->answer =
        (struct answer){.text = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone", .then = RESET};
    run_one(w, &t);
    if (!t.ok)
        fail_msg("%s %s", t.class, t.message);
    assert_int_equal(t.result.len, 4);
    trial_deinit(&t);
}

static void test_interim_answers_and_trailers(void **state)
{
    struct world *w = *state;
    struct trial t;

    run_answer(w, &t,
               "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
               "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    assert_true(t.ok);
    assert_string_equal(buf_str(&t.result), "hi");
    trial_deinit(&t);
    run_answer(w, &t,
               "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
               "2\r\nhi\r\n0\r\nDigest: x\r\n\r\n");
    assert_true(t.ok);
    trial_deinit(&t);
}

static bool takes_one_blank(void)
{
    return curl_version_info(CURLVERSION_NOW)->version_num >= 0x080000;
}

/* libcurl before 8 accepts any number of blanks in a status line, later ones accept one only: then
 * there is no answer. */
static void test_blanks_before_the_status(void **state)
{
    static const struct {
        const char *text;
        bool ok;
        bool odd; /* more than one blank */
    } lines[] = {
        {"HTTP/1.1 200\r\n", true, false},
        {"HTTP/1.1  200 OK\r\n", true, true},
        {"HTTP/1.1 \t 200 OK\r\n", true, true},
        {"HTTP/1.1  404 No\r\n", false, true},
    };
    struct world *w = *state;

    for (size_t i = 0; i < array_size(lines); i++) {
        char text[64];
        struct trial t;

        snprintf(text, sizeof(text), "%sContent-Length: 0\r\n\r\n", lines[i].text);
        run_answer(w, &t, text);
        if (lines[i].odd && takes_one_blank()) {
            expect_transient(&t, "NETWORK", UNKNOWN);
        } else {
            assert_int_equal(t.ok, lines[i].ok);
            if (!lines[i].ok)
                assert_string_equal(t.class, "HTTP_404");
        }
        trial_deinit(&t);
    }
}

static void test_headers_without_end(void **state)
{
    struct world *w = *state;
    struct trial t;
    char more[20000] = "X-";

    memset(more + 2, 'a', sizeof(more) - 3);
    w->answer = (struct answer){
        .text = "HTTP/1.1 200 OK\r\n", .then = ENDLESS, .more = more}; /* one endless line */
    run_one(w, &t);
    expect_transient(&t, "NETWORK", UNKNOWN);
    trial_deinit(&t);
    memcpy(more + sizeof(more) - 8, ": b\r\n", 6); /* endlessly many lines */
    more[sizeof(more) - 3] = '\0';
    run_one(w, &t);
    expect_transient(&t, "NETWORK", UNKNOWN);
    trial_deinit(&t);
}

/* ---- large answers ---- */

static char *answer_of(const char *head, size_t len)
{
    struct buf text = {0};

    buf_printf(&text, "HTTP/1.1 %s\r\nContent-Length: %zu\r\n\r\n", head, len);
    memset(buf_reserve(&text, len + 1), 'x', len);
    text.len += len;
    buf_str(&text);
    return (char *)text.data;
}

static void test_result_limit(void **state)
{
    struct world *w = *state;
    size_t max = w->http.max_response;
    char *text = answer_of("200 OK", max);
    struct trial t;

    run_answer(w, &t, text);
    assert_true(t.ok);
    assert_int_equal(t.result.len, max);
    trial_deinit(&t);
    free(text);

    text = answer_of("200 OK", max + 1);
    run_answer(w, &t, text);
    expect_permanent(&t, "RESULT_TOO_LARGE", UNKNOWN);
    assert_int_equal(t.details.len, 0);
    trial_deinit(&t);
    free(text);

    w->http.max_response = 10;
    run_answer(w, &t, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789");
    assert_true(t.ok);
    trial_deinit(&t);
    run_answer(w, &t, "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n0123456789a");
    expect_permanent(&t, "RESULT_TOO_LARGE", UNKNOWN);
    trial_deinit(&t);
}

static void test_result_without_end(void **state)
{
    struct world *w = *state;
    struct trial t;

    w->answer = (struct answer){.text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                                .then = ENDLESS,
                                .more = "20\r\n0123456789abcdef0123456789abcdef\r\n"};
    run_one(w, &t);
    expect_permanent(&t, "RESULT_TOO_LARGE", UNKNOWN);
    trial_deinit(&t);
    w->http.max_response = 0;
    run_one(w, &t);
    expect_permanent(&t, "RESULT_TOO_LARGE", UNKNOWN);
    trial_deinit(&t);
}

/* A result that is too large is a fault of the configuration, not a sign of an outage. */
static void test_large_results_open_no_breaker(void **state)
{
    struct world *w = *state;

    w->action.breaker.failures = 1;
    w->http.max_response = 1;
    for (int i = 0; i < 3; i++) {
        struct trial t;

        run_answer(w, &t, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab");
        expect_permanent(&t, "RESULT_TOO_LARGE", UNKNOWN);
        trial_deinit(&t);
    }
}

static void test_error_body(void **state)
{
    static const size_t sizes[] = {4095, 4096, 4097, 100000, 400000};
    struct world *w = *state;

    for (size_t i = 0; i < array_size(sizes); i++) {
        char *text = answer_of(i % 2 ? "400 Bad" : "500 Bad", sizes[i]);
        struct trial t;

        run_answer(w, &t, text);
        assert_string_equal(t.class, i % 2 ? "HTTP_400" : "HTTP_500");
        assert_int_equal(t.details.len, sizes[i] < 4096 ? sizes[i] : 4096);
        trial_deinit(&t);
        free(text);
    }
}

static void test_error_body_without_end(void **state)
{
    struct world *w = *state;
    struct trial t;

    w->answer = (struct answer){.text = "HTTP/1.1 400 Bad\r\nTransfer-Encoding: chunked\r\n\r\n",
                                .then = ENDLESS,
                                .more = "20\r\n0123456789abcdef0123456789abcdef\r\n"};
    run_one(w, &t);
    expect_permanent(&t, "HTTP_400", NONE);
    assert_int_equal(t.details.len, 4096);
    trial_deinit(&t);
    w->answer.text = "HTTP/1.1 503 Busy\r\nRetry-After: 3\r\n\r\n";
    run_one(w, &t);
    expect_transient(&t, "HTTP_503", UNKNOWN);
    assert_int_equal(t.retry_after, 3000);
    trial_deinit(&t);
}

/* ---- requests sent ---- */

static void test_headers(void **state)
{
    struct world *w = *state;
    struct trial t;

    w->headers[0] = (char *)"X-Tenant: ${input.tenant}";
    w->headers[1] = (char *)"Authorization: Bearer ${job}.${arguments.n}";
    w->headers[2] = (char *)"User-Agent: other";
    trial_init(w, &t);
    t.request.traceparent = (char *)"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    set_input(&t, "application/json", "{\"tenant\": \"M\xc3\xbcller & Co\"}");
    set_payload(&t.arguments, "application/json", "{\"n\": 5}");
    t.request.arguments = &t.arguments;
    trial_start(&t);
    finish(w);
    assert_true(t.ok);
    expect_line(w, 0, "POST /charges HTTP/1.1");
    expect_header(w, 0, "X-Tenant", "X-Tenant: M%C3%BCller%20%26%20Co");
    expect_header(w, 0, "Authorization", "Authorization: Bearer order-17.5");
    expect_header(w, 0, "User-Agent", "User-Agent: other");
    expect_header(w, 0, "Idempotency-Key", "Idempotency-Key: order-17/charge/1");
    expect_header(w, 0, "traceparent",
                  "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    expect_header(w, 0, "Content-Type", "Content-Type: application/json");
    expect_header(w, 0, "Expect", NULL);
    expect_header(w, 0, "Accept-Encoding", NULL);
    trial_deinit(&t);

    w->headers[0] = NULL;
    run_one(w, &t);
    expect_header(w, 1, "User-Agent", "User-Agent: drover-agent/" DROVER_VERSION);
    expect_header(w, 1, "traceparent", NULL);
    trial_deinit(&t);
}

static void test_configured_content_type(void **state)
{
    struct world *w = *state;
    struct trial t;

    w->headers[0] = (char *)"content-type: application/vnd.own+json";
    run_one(w, &t);
    expect_header(w, 0, "Content-Type", "content-type: application/vnd.own+json");
    assert_null(strstr(asked_text(w, 0), "Content-Type:"));
    trial_deinit(&t);
}

/* No data of a job becomes a header, a line or another path. */
static void test_hostile_job(void **state)
{
    struct world *w = *state;
    struct trial t;

    w->http.body = HTTP_BODY_INPUT;
    w->headers[0] = (char *)"X-Name: ${input}";
    set_path(w, "/of/${input}?q=${input}");
    trial_init(w, &t);
    t.request.traceparent = (char *)"00-a\r\nX-Evil: 1";
    t.request.idempotency_key = (char *)"k\r\n\r\nGET /admin HTTP/1.1";
    set_input(&t, "text/plain\r\nX-Evil: 1", "a/b#c?d&e\r\nX-Evil: 1\r\n\r\nGET /admin HTTP/1.1");
    trial_start(&t);
    finish(w);
    assert_true(t.ok);
    assert_int_equal(w->n_asked, 1);
    assert_null(strstr(asked_text(w, 0), "X-Evil: 1\r\n\r\nGET /admin HTTP/1.1\r\n"));
    expect_line(w, 0,
                "POST /of/a%2Fb%23c%3Fd%26e%0D%0AX-Evil%3A%201%0D%0A%0D%0AGET%20%2Fadmin%20HTTP%2F1"
                ".1?q=a%2Fb%23c%3Fd%26e%0D%0AX-Evil%3A%201%0D%0A%0D%0AGET%20%2Fadmin%20HTTP%2F1.1 "
                "HTTP/1.1");
    expect_header(w, 0, "X-Evil", NULL);
    expect_header(w, 0, "traceparent", NULL);
    expect_header(w, 0, "Idempotency-Key", NULL);
    expect_header(w, 0, "Content-Type", "Content-Type: application/octet-stream");
    assert_string_equal(asked_body(w, 0), "a/b#c?d&e\r\nX-Evil: 1\r\n\r\nGET /admin HTTP/1.1");
    trial_deinit(&t);
}

static void test_unknown_name(void **state)
{
    struct world *w = *state;
    struct trial t;

    set_path(w, "/${input.id}");
    run_one(w, &t);
    expect_permanent(&t, "UNKNOWN_NAME", NONE);
    assert_string_equal(t.message, "url: ${input.id} has no value");
    trial_deinit(&t);

    set_path(w, "/");
    w->headers[0] = (char *)"X-Id: ${results.first.id}";
    run_one(w, &t);
    expect_permanent(&t, "UNKNOWN_NAME", NONE);
    assert_string_equal(t.message, "headers: ${results.first.id} has no value");
    trial_deinit(&t);
    assert_int_equal(w->n_asked, 0);
}

static void test_paths(void **state)
{
    static const struct {
        const char *path, *value;
        const char *line; /* NULL: refused */
    } cases[] = {
        {"", "x", "POST / HTTP/1.1"},
        {"?a=${input}", "..", "POST /?a=.. HTTP/1.1"},
        {"/${input}", "...", "POST /... HTTP/1.1"},
        {"/${input}", "a..b", "POST /a..b HTTP/1.1"},
        {"/a/${input}/b", "%2e%2e", "POST /a/%252e%252e/b HTTP/1.1"},
        {"/a//b/${input}", "c", "POST /a//b/c HTTP/1.1"},
        {"/a/%2e/${input}", "c", "POST /a/%2e/c HTTP/1.1"},
        {"/a/${input}", ".", NULL},
        {"/a/${input}", "..", NULL},
        {"/a/${input}?b", "..", NULL},
        {"/a/${input}/b", "..", NULL},
        {"/a/.${input}/b", ".", NULL},
        {"/a/${input}", "../admin", NULL}, /* many servers decode before they check */
        {"/a/${input}", "b/../../admin", NULL},
        {"/a/${input}", "b/..", NULL},
        {"/a/${input}", "..\\admin", NULL},
        {"/a/${input}?b", "./b", NULL},
        {"/a/${input}", "b/c..d/...", "POST /a/b%2Fc..d%2F... HTTP/1.1"},
        {"/a?b=${input}", "../admin", "POST /a?b=..%2Fadmin HTTP/1.1"},
    };
    struct world *w = *state;

    for (size_t i = 0; i < array_size(cases); i++) {
        struct trial t;

        set_path(w, cases[i].path);
        trial_init(w, &t);
        set_input(&t, "text/plain", cases[i].value);
        trial_start(&t);
        finish(w);
        if (cases[i].line) {
            assert_true(t.ok);
            expect_line(w, w->n_asked - 1, cases[i].line);
        } else {
            expect_permanent(&t, "UNKNOWN_NAME", NONE);
            assert_non_null(strstr(t.message, "lead elsewhere"));
        }
        trial_deinit(&t);
    }
}

/* A whole document in place of one word. */
static void run_long(struct world *w, struct trial *t, size_t len, const char *path, char *header)
{
    char *text = calloc(1, len + 1);

    memset(text, 'x', len);
    set_path(w, path);
    w->headers[0] = header;
    trial_init(w, t);
    set_input(t, "text/plain", text);
    trial_start(t);
    finish(w);
    trial_deinit(t);
    free(text);
}

static void test_long_values(void **state)
{
    static char header[] = "X-Of: ${input}";
    struct world *w = *state;
    struct trial t;

    run_long(w, &t, 7900, "/${input}", NULL);
    assert_true(t.ok);
    run_long(w, &t, 7900, "/", header);
    assert_true(t.ok);
    run_long(w, &t, 8000, "/${input}", NULL);
    expect_permanent(&t, "UNKNOWN_NAME", NONE);
    assert_string_equal(t.message, "url: would be longer than 8000 bytes");
    run_long(w, &t, 8000, "/", header);
    expect_permanent(&t, "UNKNOWN_NAME", NONE);
    assert_string_equal(t.message, "headers: would be longer than 8000 bytes");
    run_long(w, &t, WIRE_INPUT_MAX, "/${input}", NULL);
    expect_permanent(&t, "UNKNOWN_NAME", NONE);
    assert_string_equal(t.message, "url: ${input} is too long");
    assert_int_equal(w->n_asked, 2);
}

static void run_body(struct world *w, struct trial *t, const char *method, enum http_body body)
{
    asked_clear(w);
    w->http.method = (char *)method;
    w->http.body = body;
    trial_init(w, t);
    set_input(t, "text/csv", "a,b");
    set_payload(&t->arguments, "application/json", "{\"n\": 5}");
    t->request.arguments = &t->arguments;
    trial_start(t);
    finish(w);
    assert_true(t->ok);
    assert_int_equal(strncmp(asked_text(w, 0), method, strlen(method)), 0);
    trial_deinit(t);
}

static void test_methods_and_bodies(void **state)
{
    static const char *const methods[] = {"POST", "PUT", "PATCH", "GET", "DELETE"};
    struct world *w = *state;
    struct trial t;

    for (size_t i = 0; i < array_size(methods); i++) {
        run_body(w, &t, methods[i], HTTP_BODY_DOCUMENT);
        assert_string_equal(asked_body(w, 0),
                            "{\"job\":\"order-17\",\"step\":\"charge\",\"arguments\":{\"n\":5},"
                            "\"input\":\"a,b\",\"results\":{}}");
        expect_header(w, 0, "Content-Type", "Content-Type: application/json");
        run_body(w, &t, methods[i], HTTP_BODY_INPUT);
        assert_string_equal(asked_body(w, 0), "a,b");
        expect_header(w, 0, "Content-Type", "Content-Type: text/csv");
        expect_header(w, 0, "Content-Length", "Content-Length: 3");
        run_body(w, &t, methods[i], HTTP_BODY_ARGUMENTS);
        assert_string_equal(asked_body(w, 0), "{\"n\": 5}");
        run_body(w, &t, methods[i], HTTP_BODY_REQUEST);
        assert_non_null(strstr(asked_body(w, 0), "\"jobId\":\"order-17\""));
        assert_non_null(strstr(asked_body(w, 0), "\"idempotencyKey\":\"order-17/charge/1\""));
        assert_null(strstr(asked_body(w, 0), "secret"));
        run_body(w, &t, methods[i], HTTP_BODY_NONE);
        assert_string_equal(asked_body(w, 0), "");
        expect_header(w, 0, "Content-Type", NULL);
        expect_header(w, 0, "Transfer-Encoding", NULL);
        expect_header(w, 0, "Content-Length",
                      http_method_has_body(methods[i]) ? "Content-Length: 0" : NULL);
        expect_header(w, 0, "Idempotency-Key", "Idempotency-Key: order-17/charge/1");
    }
}

static void test_missing_body(void **state)
{
    struct world *w = *state;
    struct trial t;

    w->http.body = HTTP_BODY_INPUT;
    run_one(w, &t);
    assert_true(t.ok);
    expect_header(w, 0, "Content-Length", "Content-Length: 0");
    expect_header(w, 0, "Content-Type", NULL);
    expect_header(w, 0, "Transfer-Encoding", NULL);
    trial_deinit(&t);
}

static void test_large_body(void **state)
{
    struct world *w = *state;
    char *text = calloc(1, WIRE_INPUT_MAX + 1);
    struct trial t;

    memset(text, 'x', WIRE_INPUT_MAX);
    w->http.body = HTTP_BODY_INPUT;
    trial_init(w, &t);
    set_input(&t, "text/plain", text);
    trial_start(&t);
    finish(w);
    assert_true(t.ok);
    assert_string_equal(asked_body(w, 0), text);
    expect_header(w, 0, "Expect", NULL);
    trial_deinit(&t);
    free(text);
}

static void test_head(void **state)
{
    struct world *w = *state;
    struct trial t;

    w->http.method = (char *)"HEAD";
    w->http.body = HTTP_BODY_NONE;
    run_answer(w, &t, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 500\r\n\r\n");
    assert_true(t.ok && !t.typed);
    trial_deinit(&t);
    run_answer(w, &t, "HTTP/1.1 404 Not Found\r\nContent-Length: 500\r\n\r\n");
    expect_permanent(&t, "HTTP_404", NONE);
    assert_int_equal(t.details.len, 0);
    trial_deinit(&t);
    expect_line(w, 1, "HEAD /charges HTTP/1.1");
    assert_int_equal(w->n_peers, 1);
}

/* Only the configuration sets proxies, not the agent's environment. */
static void test_proxies(void **state)
{
    struct world *w = *state;
    struct trial t;
    char proxy[64];

    setenv("http_proxy", "http://nobody.invalid:1", 1);
    setenv("all_proxy", "http://nobody.invalid:1", 1);
    run_one(w, &t);
    assert_true(t.ok);
    expect_line(w, 0, "POST /charges HTTP/1.1");
    trial_deinit(&t);

    setenv("no_proxy", "*", 1);
    strcpy(proxy, w->target);
    w->http.proxy = proxy;
    strcpy(w->target, "http://far.invalid");
    strcpy(w->url, "http://far.invalid/x");
    run_one(w, &t);
    assert_true(t.ok);
    expect_line(w, 1, "POST http://far.invalid/x HTTP/1.1");
    trial_deinit(&t);
    unsetenv("http_proxy");
    unsetenv("all_proxy");
    unsetenv("no_proxy");
}

/* Clear text does not leave the machine, unless the configuration says so. What counts is where the
 * connection goes to: a proxy on this machine may encrypt. */
static void test_clear_text(void **state)
{
    struct world *w = *state;
    struct trial t;
    char proxy[64];

    strcpy(proxy, w->target);
    snprintf(w->target, sizeof(w->target), "http://pay.far:%d", w->port);
    snprintf(w->url, sizeof(w->url), "%s/x", w->target);
    run_one(w, &t);
    expect_transient(&t, "CONNECT", UNKNOWN);
    assert_non_null(strstr(t.message, "192.0.2.1 is no loopback address"));
    assert_non_null(strstr(t.message, "insecure = true; to the actor"));
    trial_deinit(&t);
    assert_int_equal(w->n_asked, 0);

    w->http.proxy = proxy;
    run_one(w, &t);
    assert_true(t.ok);
    trial_deinit(&t);
    w->http.proxy = NULL;
    w->http.security.insecure = true;
    run_one(w, &t);
    assert_true(t.ok);
    trial_deinit(&t);
    assert_int_equal(w->n_asked, 2);

    w->http.security.insecure = false; /* the kept connection is no way out */
    run_one(w, &t);
    expect_transient(&t, "CONNECT", UNKNOWN);
    trial_deinit(&t);
    assert_int_equal(w->n_asked, 2);
}

/* A port for TLS answers clear text by an end, or by an alert. Once the service has answered, an
 * end is an outage. */
static void test_clear_text_to_a_port_for_tls(void **state)
{
    static const char question[] = "does it speak TLS at this port?";
    static const struct answer answers[] = {
        {.then = CLOSE},
        {.then = RESET},
        {.text = "\x15\x03\x01\0\x02\x02\x46", .len = 7, .then = CLOSE},
        {.text = "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", .then = CLOSE},
        {.then = CLOSE},
    };
    struct world *w = *state;

    w->answers = answers;
    w->n_answers = array_size(answers);
    for (size_t i = 0; i < array_size(answers); i++) {
        struct trial t;

        run_one(w, &t);
        if (i == 3)
            expect_transient(&t, "HTTP_500", UNKNOWN);
        else
            expect_transient(&t, "NETWORK", UNKNOWN);
        if ((i < 3) != (strstr(t.message, question) != NULL))
            fail_msg("%zu: %s", i, t.message);
        trial_deinit(&t);
    }
}

/* ---- connections ---- */

static void test_connections_are_kept(void **state)
{
    struct world *w = *state;
    unsigned files;
    struct trial t;

    run_one(w, &t);
    trial_deinit(&t);
    files = open_files();
    for (int i = 0; i < 5; i++) {
        run_answer(w, &t, i % 2 ? "HTTP/1.1 404 No\r\nContent-Length: 3\r\n\r\nwhy" : GOOD.text);
        trial_deinit(&t);
    }
    assert_int_equal(w->n_peers, 1);
    assert_int_equal(w->n_asked, 6);
    assert_int_equal(open_files(), files);
}

/* A service may close an idle connection at any moment. */
static void test_kept_connection_closed_meanwhile(void **state)
{
    struct world *w = *state;
    struct trial t;

    run_one(w, &t);
    trial_deinit(&t);
    peer_close(list_entry(w->peers.next, struct peer, link), false);
    uv_run(&w->loop, UV_RUN_NOWAIT);
    run_one(w, &t);
    assert_true(t.ok);
    assert_int_equal(w->n_peers, 2);
    trial_deinit(&t);
}

/* The service may also close it when the next request is on its way: libcurl sends that request
 * again on a new connection. */
static void test_kept_connection_closed_under_the_request(void **state)
{
    static const struct answer answers[] = {
        {.text = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
        {.then = CLOSE},
    };
    struct world *w = *state;
    struct trial t;

    w->answers = answers;
    w->n_answers = array_size(answers);
    run_one(w, &t);
    trial_deinit(&t);
    run_one(w, &t);
    assert_true(t.ok);
    assert_int_equal(w->n_asked, 3);
    assert_string_equal(asked_text(w, 1), asked_text(w, 2)); /* with the same key */
    trial_deinit(&t);
}

static void close_listener(struct world *w)
{
    if (w->n_asked == 2)
        uv_close((uv_handle_t *)&w->listener, NULL);
}

/* If libcurl sends a request again and then cannot connect, the first copy may have had an effect.
 * */
static void test_effect_of_a_request_sent_again(void **state)
{
    static const struct answer answers[] = {
        {.text = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
        {.then = CLOSE},
    };
    struct world *w = *state;
    struct trial t;

    w->answers = answers;
    w->n_answers = array_size(answers);
    w->on_asked = close_listener;
    run_one(w, &t);
    trial_deinit(&t);
    run_one(w, &t);
    expect_transient(&t, "NETWORK", UNKNOWN);
    trial_deinit(&t);
}

/* A request that libcurl sent twice may have had an effect, whatever the second answer says. */
static void test_verdicts_of_a_request_sent_twice(void **state)
{
    static const struct answer answers[] = {
        {.text = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"}, {.then = CLOSE},
        {.text = "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"}, {.then = CLOSE},
        {.text = "HTTP/1.1 409 No\r\nContent-Length: 0\r\n\r\n"},
    };
    struct world *w = *state;
    struct trial t;

    w->answers = answers;
    w->n_answers = array_size(answers);
    run_one(w, &t);
    trial_deinit(&t);
    run_one(w, &t);
    expect_permanent(&t, "HTTP_404", UNKNOWN);
    trial_deinit(&t);
    run_one(w, &t);
    expect_transient(&t, "HTTP_409", UNKNOWN);
    trial_deinit(&t);
    assert_int_equal(w->n_asked, 5);
}

/* ---- stops ---- */

static void expect_stopped(struct trial *t)
{
    trial_stop(t, false);
    trial_stop(t, true);
    finish(t->world);
    expect_transient(t, "STOPPED", UNKNOWN);
    trial_deinit(t);
}

/* Programs that the agent runs do not inherit its connections. */
static void test_connections_are_not_inherited(void **state)
{
    struct world *w = *state;
    char *command[] = {(char *)"/bin/ls", (char *)"/proc/self/fd", NULL}, *env[] = {NULL};
    struct agent_action action = {
        .name = (char *)"*", .command = command, .env = env, .result_type = (char *)"text/plain"};
    struct handler_run head = {.handler = &handler_exec, .done = on_done};
    struct trial kept, hanging, t;

    handler_exec_keeper = DROVER_KEEP;
    run_one(w, &kept);
    trial_deinit(&kept);
    w->answer = (struct answer){.then = HANG};
    trial_init(w, &hanging);
    trial_start(&hanging);
    await_asked(w, 2);
    trial_init(w, &t);
    head.run = &t.run;
    head.context = &t;
    w->under_way++;
    t.handler_run = handler_exec.start(&w->loop, &action, &head);
    finish_one(&t);
    assert_string_equal(buf_str(&t.result), "0\n1\n2\n3\n4\n"); /* 4 is the folder that ls reads */
    trial_deinit(&t);
    expect_stopped(&hanging);
}

static void test_stop(void **state)
{
    struct world *w = *state;
    struct trial t;

    trial_init(w, &t); /* stopped before the loop has run */
    trial_start(&t);
    expect_stopped(&t);

    w->answer = (struct answer){.then = HANG}; /* stopped after the request was sent */
    trial_init(w, &t);
    trial_start(&t);
    await_asked(w, 1);
    expect_stopped(&t);

    w->answer = (struct answer){.text = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na"};
    trial_init(w, &t); /* stopped after half the answer */
    trial_start(&t);
    await_asked(w, 2);
    uv_run(&w->loop, UV_RUN_ONCE);
    uv_run(&w->loop, UV_RUN_NOWAIT);
    expect_stopped(&t);
    assert_int_equal(w->n_asked, 2);
}

/* A stop after the result does not change the result. */
static void test_stop_after_the_result(void **state)
{
    struct world *w = *state;
    struct trial t;

    set_path(w, "/${input.x}");
    trial_init(w, &t);
    trial_start(&t);
    trial_stop(&t, false);
    trial_stop(&t, true);
    finish(w);
    expect_permanent(&t, "UNKNOWN_NAME", NONE);
    trial_deinit(&t);
}

/* A listener whose queue is full: connections are neither accepted nor refused. */
static void test_stop_while_connecting(void **state)
{
    struct world *w = *state;
    int fds[8], dead = set_dead_port(w);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t)w->port)};
    struct trial t;

    assert_int_equal(listen(dead, 0), 0);
    for (size_t i = 0; i < array_size(fds); i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        (void)connect(fds[i], (struct sockaddr *)&address, sizeof(address));
    }
    trial_init(w, &t);
    trial_start(&t);
    await_time(w, clock_monotonic_ms() + 20); /* nothing shows whether it has begun to connect */
    expect_stopped(&t);

    w->http.timeout_ms = 30;
    run_one(w, &t);
    expect_transient(&t, "TIMEOUT", UNKNOWN);
    trial_deinit(&t);
    for (size_t i = 0; i < array_size(fds); i++)
        close(fds[i]);
    close(dead);
}

/* A name server that does not answer blocks neither the end of the run nor the loop. */
static void test_slow_name(void **state)
{
    struct world *w = *state;
    struct trial t;

    gate_set(false);
    snprintf(w->target, sizeof(w->target), "http://name.slow:%d", w->port);
    snprintf(w->url, sizeof(w->url), "%s/", w->target);
    trial_init(w, &t);
    trial_start(&t);
    await_gate(w, true);
    expect_stopped(&t);
    gate_set(true);
    await_gate(w, false);

    gate_set(false);
    w->http.timeout_ms = 30;
    run_one(w, &t);
    expect_transient(&t, "TIMEOUT", UNKNOWN);
    trial_deinit(&t);
    gate_set(true);
    await_gate(w, false);

    w->http.timeout_ms = 0;
    run_one(w, &t);
    assert_true(t.ok);
    trial_deinit(&t);
    assert_int_equal(w->n_asked, 1);
}

/* The process may end while threads of libcurl still resolve a name. */
static void test_close_under_a_slow_name(void **state)
{
    struct world *w = *state;
    struct trial t;

    gate_set(false);
    snprintf(w->target, sizeof(w->target), "http://name.slow:%d", w->port);
    snprintf(w->url, sizeof(w->url), "%s/", w->target);
    trial_init(w, &t);
    trial_start(&t);
    await_gate(w, true);
    expect_stopped(&t);
    handler_http.close();
    uv_run(&w->loop, UV_RUN_NOWAIT);
    gate_set(true);
    await_gate(w, false);
}

/* ---- several runs ---- */

static void start_other(struct trial *t)
{
    trial_start(t->other);
}

/* done() may start another run, which may get the memory that was just freed. */
static void test_another_from_within_done(void **state)
{
    struct world *w = *state;
    struct trial chain[20];

    for (size_t i = 0; i < array_size(chain); i++) {
        trial_init(w, &chain[i]);
        if (i + 1 < array_size(chain)) {
            chain[i].then = start_other;
            chain[i].other = &chain[i + 1];
        }
    }
    trial_start(&chain[0]);
    finish(w);
    for (size_t i = 0; i < array_size(chain); i++) {
        assert_true(chain[i].ok);
        trial_deinit(&chain[i]);
    }
    assert_int_equal(w->n_asked, array_size(chain));
    assert_int_equal(w->n_peers, 1);
}

static void stop_other(struct trial *t)
{
    if (t->other->handler_run)
        trial_stop(t->other, true);
}

static void test_another_stopped_from_within_done(void **state)
{
    struct world *w = *state;
    struct trial a, b;

    for (int i = 0; i < 20; i++) { /* either both answers were read, or one */
        trial_init(w, &a);
        trial_init(w, &b);
        a.then = b.then = stop_other;
        a.other = &b;
        b.other = &a;
        trial_start(&a);
        trial_start(&b);
        finish(w);
        assert_true(a.ok || b.ok);
        trial_deinit(&a);
        trial_deinit(&b);
    }
}

#define MANY 200

static void test_many_runs(void **state)
{
    struct world *w = *state;
    struct trial *trials = calloc(MANY, sizeof(*trials));
    char names[MANY][16];
    bool seen[MANY] = {false};

    set_path(w, "/${job}");
    for (size_t i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof(names[i]), "job-%zu", i);
        trial_init(w, &trials[i]);
        trials[i].request.job_id = names[i];
        trial_start(&trials[i]);
    }
    finish(w);
    assert_int_equal(w->n_asked, MANY);
    for (size_t i = 0; i < MANY; i++) {
        size_t n = (size_t)atoi(asked_text(w, i) + strlen("POST /job-"));

        assert_true(n < MANY && !seen[n]);
        seen[n] = true;
        assert_true(trials[i].ok);
        trial_deinit(&trials[i]);
    }
    free(trials);
}

/* Answers, hangs, resets and refusals at the same time: each run gets its own result. */
static void test_many_kinds_of_answers(void **state)
{
    static const struct answer answers[] = {
        {.text = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
        {.text = "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"},
        {.then = RESET},
        {.then = HANG},
    };
    struct world *w = *state;
    struct trial trials[100];
    struct answer all[100];
    size_t ok = 0, failed = 0, cut = 0, late = 0;

    for (size_t i = 0; i < array_size(all); i++)
        all[i] = answers[i % array_size(answers)];
    w->answers = all;
    w->n_answers = array_size(all);
    w->http.timeout_ms = 2000;
    for (size_t i = 0; i < array_size(trials); i++) {
        trial_init(w, &trials[i]);
        trial_start(&trials[i]);
    }
    finish(w);
    for (size_t i = 0; i < array_size(trials); i++) {
        ok += trials[i].ok;
        failed += strcmp(trials[i].class, "HTTP_500") == 0;
        cut += strcmp(trials[i].class, "NETWORK") == 0;
        late += strcmp(trials[i].class, "TIMEOUT") == 0;
        trial_deinit(&trials[i]);
    }
    assert_int_equal(ok + failed + cut + late, array_size(trials));
    assert_true(ok >= 25 && failed >= 25);
    assert_true(late > 0);
}

/* ---- the breaker ---- */

static const char BUSY[] = "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n";

static void test_breaker_opens(void **state)
{
    struct world *w = *state;
    struct trial t;

    w->action.breaker = (struct breaker_config){3, 60000, 60000};
    for (int i = 0; i < 3; i++) {
        run_answer(w, &t, BUSY);
        expect_transient(&t, "HTTP_503", UNKNOWN);
        trial_deinit(&t);
    }
    run_one(w, &t);
    expect_deferred(&t, "BREAKER_OPEN", UNKNOWN);
    assert_in_range(t.retry_after, 1, 60000);
    assert_non_null(strstr(t.message, "503 from http://127.0.0.1")); /* the reason */
    trial_deinit(&t);
    trial_init(w, &t);
    t.request.attempt = 2;
    trial_start(&t);
    finish(w);
    expect_deferred(&t, "BREAKER_OPEN", UNKNOWN);
    trial_deinit(&t);
    assert_int_equal(w->n_asked, 3);
}

/* Each target has its own breaker, and each actor. */
static void test_breakers_apart(void **state)
{
    struct world *w = *state;
    struct trial t;
    int port = w->port, fd;

    w->action.breaker = (struct breaker_config){1, 60000, 60000};
    fd = set_dead_port(w);
    run_one(w, &t);
    expect_transient(&t, "CONNECT", UNKNOWN);
    trial_deinit(&t);
    run_one(w, &t);
    expect_deferred(&t, "BREAKER_OPEN", UNKNOWN);
    trial_deinit(&t);
    trial_init(w, &t);
    t.request.actor = (char *)"other";
    trial_start(&t);
    finish(w);
    expect_transient(&t, "CONNECT", UNKNOWN);
    trial_deinit(&t);
    w->port = port;
    set_path(w, "/");
    run_one(w, &t);
    assert_true(t.ok);
    trial_deinit(&t);
    close(fd);
}

/* Which answers open the breaker, and which close it. */
static void test_what_a_breaker_counts(void **state)
{
    static const struct {
        struct answer answer;
        bool counts;
    } cases[] = {
        {{.text = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"}, false},
        {{.text = "HTTP/1.1 301 No\r\nContent-Length: 0\r\n\r\n"}, false},
        {{.text = "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"}, false},
        {{.text = "HTTP/1.1 429 No\r\nContent-Length: 0\r\n\r\n"}, false},
        {{.text = "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"}, true},
        {{.text = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", .then = CLOSE}, true},
        {{.then = CLOSE}, true},
        {{.then = RESET}, true},
        {{.then = HANG}, true},
    };
    struct world *w = *state;

    w->action.breaker = (struct breaker_config){1, 60000, 60000};
    w->http.timeout_ms = 500;
    for (size_t i = 0; i < array_size(cases); i++) {
        char actor[16];
        struct trial t;

        snprintf(actor, sizeof(actor), "actor-%zu", i);
        w->answer = cases[i].answer;
        for (int n = 0; n < 2; n++) {
            trial_init(w, &t);
            t.request.actor = actor;
            trial_start(&t);
            finish(w);
            trial_deinit(&t);
        }
        assert_int_equal(strcmp(t.class, "BREAKER_OPEN") == 0, cases[i].counts);
    }
}

/* Opens the breaker, for a time that is over soon. */
static void open_breaker(struct world *w)
{
    struct trial t;

    w->action.breaker = (struct breaker_config){1, 1, 1};
    run_answer(w, &t, BUSY);
    expect_transient(&t, "HTTP_503", UNKNOWN);
    await_time(w, t.at + 2);
    trial_deinit(&t);
}

static void test_one_probe(void **state)
{
    struct world *w = *state;
    struct trial probe, t;

    open_breaker(w);
    w->answer = (struct answer){.then = HANG};
    trial_init(w, &probe);
    trial_start(&probe);
    await_asked(w, 2);
    run_one(w, &t);
    expect_deferred(&t, "BREAKER_OPEN", UNKNOWN);
    assert_true(t.retry_after > 0);
    trial_deinit(&t);
    assert_int_equal(w->n_asked, 2);
    peer_answer(list_entry(w->peers.next, struct peer, link), &GOOD);
    finish(w);
    assert_true(probe.ok);
    trial_deinit(&probe);
    w->answer = GOOD;
    run_one(w, &t);
    assert_true(t.ok);
    trial_deinit(&t);
}

/* A probe that was stopped lets another call be the probe. */
static void test_stopped_probe(void **state)
{
    struct world *w = *state;
    struct trial t;

    open_breaker(w);
    w->answer = (struct answer){.then = HANG};
    trial_init(w, &t);
    trial_start(&t);
    await_asked(w, 2);
    expect_stopped(&t);
    w->answer = GOOD;
    run_one(w, &t);
    assert_true(t.ok);
    trial_deinit(&t);
}

/* ---- the end ---- */

/* After close() neither breakers nor connections are kept. */
static void test_close_and_begin_again(void **state)
{
    struct world *w = *state;
    unsigned files = open_files();
    struct trial t;

    w->action.breaker = (struct breaker_config){1, 60000, 60000};
    run_answer(w, &t, BUSY);
    trial_deinit(&t);
    run_one(w, &t);
    expect_deferred(&t, "BREAKER_OPEN", UNKNOWN);
    trial_deinit(&t);
    handler_http.close();
    uv_run(&w->loop, UV_RUN_NOWAIT);
    while (!list_empty(&w->peers))
        uv_run(&w->loop, UV_RUN_ONCE); /* the server sees that */
    assert_int_equal(open_files(), files);
    w->answer = GOOD;
    run_one(w, &t);
    assert_true(t.ok);
    trial_deinit(&t);
    assert_int_equal(w->n_peers, 2);
}

static void test_close_without_a_run(void **state)
{
    handler_http.close();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_success),
        TEST(test_success_without_body),
        TEST(test_success_without_type),
        TEST(test_success_until_closed),
        TEST(test_verdicts),
        TEST(test_verdicts_of_further_tries),
        TEST(test_redirects_are_not_followed),
        TEST(test_retry_after),
        TEST(test_absurd_retry_after),
        TEST(test_connection_refused),
        TEST(test_deadline_passed),
        TEST(test_name_that_does_not_resolve),
        TEST(test_hang),
        TEST(test_timeout_of_the_action),
        TEST(test_no_time),
        TEST(test_longest_lease),
        TEST(test_truncated_answers),
        TEST(test_answer_before_a_reset),
        TEST(test_interim_answers_and_trailers),
        TEST(test_blanks_before_the_status),
        TEST(test_headers_without_end),
        TEST(test_result_limit),
        TEST(test_result_without_end),
        TEST(test_large_results_open_no_breaker),
        TEST(test_error_body),
        TEST(test_error_body_without_end),
        TEST(test_headers),
        TEST(test_configured_content_type),
        TEST(test_hostile_job),
        TEST(test_unknown_name),
        TEST(test_paths),
        TEST(test_long_values),
        TEST(test_methods_and_bodies),
        TEST(test_missing_body),
        TEST(test_large_body),
        TEST(test_head),
        TEST(test_proxies),
        TEST(test_clear_text),
        TEST(test_clear_text_to_a_port_for_tls),
        TEST(test_connections_are_kept),
        TEST(test_kept_connection_closed_meanwhile),
        TEST(test_kept_connection_closed_under_the_request),
        TEST(test_effect_of_a_request_sent_again),
        TEST(test_verdicts_of_a_request_sent_twice),
        TEST(test_connections_are_not_inherited),
        TEST(test_stop),
        TEST(test_stop_after_the_result),
        TEST(test_stop_while_connecting),
        TEST(test_slow_name),
        TEST(test_close_under_a_slow_name),
        TEST(test_another_from_within_done),
        TEST(test_another_stopped_from_within_done),
        TEST(test_many_runs),
        TEST(test_many_kinds_of_answers),
        TEST(test_breaker_opens),
        TEST(test_breakers_apart),
        TEST(test_what_a_breaker_counts),
        TEST(test_one_probe),
        TEST(test_stopped_probe),
        TEST(test_close_and_begin_again),
        TEST(test_close_without_a_run),
    };

    log_set_level(LOG_ERROR); /* breakers log warnings */
    signal(SIGPIPE, SIG_IGN);
    close_range(3, ~0U, CLOSE_RANGE_CLOEXEC); /* descriptors that this program inherited */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
