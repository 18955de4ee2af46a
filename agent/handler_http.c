// SPDX-License-Identifier: Apache-2.0
/*
 * Http: one HTTP request for each run
 *
 *     sent     method, URL, headers and body of the action (http_request.h), and of ours
 *              Idempotency-Key, the same for every attempt of the same work, and traceparent
 *     2xx      done; the body is the result
 *     408 425 429 5xx, no answer, an answer cut short
 *              try again, after Retry-After where the service says one
 *     409      to a further try likewise: an earlier one may still be at work
 *     the rest of 4xx
 *              never again, and nothing was done (effect NONE, where this is the first try): the
 *              service says so, and knows the key. Where it could not be asked nobody can: another
 *              agent may get this very request again
 *     3xx      never again: where a request goes is the configuration's to say
 *
 * Each target (scheme, host and port) has a breaker: while a service is down, its steps are
 * deferred, uncounted, and one request at a time finds out whether it is back.
 *
 * A request is given up before its lease ends, early enough for the agent to say so. libcurl does
 * the work, on the loop: its sockets are polls, its timeouts one timer. Redirects are not followed,
 * proxies are not taken from the environment, TLS is verified.
 */
#include <assert.h>
#include <ctype.h>
#include <curl/curl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/handler.h"
#include "agent/http_request.h"
#include "agent/target.h"
#include "base/clock.h"
#include "model/policy.h"
#include "model/wire.h"

#define ERROR_BODY_MAX ((size_t)4096) /* kept of what comes with a failure */
#define CONNECT_TIMEOUT_MS 10000      /* or what is left of the lease */
#define CA_CACHE_S 600                /* certificates that were changed count after this long */
#define RETRY_AFTER_MAX_S 86400       /* a service that asks for more is not believed */
#define MARGIN_MAX_MS 500             /* of the lease, for the answer's way home; or ... */
#define MARGIN_SHARE 10               /* ... a tenth of it */

static_assert(ERROR_BODY_MAX <= WIRE_ERROR_DETAILS_MAX, "details are not cut again");

struct http_run {
    struct handler_run head;
    const struct http_action *action;
    struct target_call call;
    struct http_request request;
    CURL *easy; /* NULL: not under way */
    struct curl_slist *headers;
    unsigned sent;   /* how often: once more where a kept connection turned out to be closed */
    bool headed;     /* the head of the answer is there, to its end ... */
    long status;     /* ... and this is what its first line says; 0: nothing */
    struct buf body; /* of the answer, or the beginning of it */
    size_t received;
    uv_timer_t soon; /* for a result that is known at once */
    struct agent_result result;
    char class[24];
    char message[512];
    char content_type[WIRE_CONTENT_TYPE_MAX + 1];
};

/* A socket of libcurl's. */
struct watch {
    struct list link; /* in engine.watches */
    uv_poll_t poll;
    curl_socket_t fd;
};

/* The one of this process: open from the first run until close(). */
static struct engine {
    uv_loop_t *loop;
    CURLM *multi;
    uv_timer_t timer;
    struct list watches;
    struct targets targets;
} engine;

/* ---- the end ---- */

static void on_closed(uv_handle_t *handle)
{
    struct http_run *run = handle->data;

    curl_slist_free_all(run->headers);
    http_request_deinit(&run->request);
    buf_deinit(&run->body);
    free(run);
}

static void finish(struct http_run *run)
{
    run->head.done(&run->head, &run->result);
    uv_close((uv_handle_t *)&run->soon, on_closed);
}

static void on_soon(uv_timer_t *timer)
{
    finish(timer->data);
}

static void finish_soon(struct http_run *run)
{
    uv_timer_start(&run->soon, on_soon, 0, 0);
}

static void set_failed(struct http_run *run, Drover__V1__Verdict verdict, Drover__V1__Effect effect,
                       const char *class, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

static void set_failed(struct http_run *run, Drover__V1__Verdict verdict, Drover__V1__Effect effect,
                       const char *class, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(run->message, sizeof(run->message), format, args);
    va_end(args);
    snprintf(run->class, sizeof(run->class), "%s", class);
    run->result = (struct agent_result){
        .class = run->class,
        .message = run->message,
        .details = buf_bytes(&run->body),
        .verdict = verdict,
        .effect = effect,
    };
}

/* No other try or attempt can have done anything. */
static bool is_first(const struct http_run *run)
{
    const struct agent_run *seen = run->head.run;

    return seen->tries == 0 && seen->request->attempt <= 1 && !seen->repeated && run->sent <= 1;
}

/* Where the service, or the configuration, has refused this try. */
static Drover__V1__Effect effect_of_refusal(const struct http_run *run)
{
    return is_first(run) ? DROVER__V1__EFFECT__EFFECT_NONE : DROVER__V1__EFFECT__EFFECT_UNKNOWN;
}

/* ---- what came of it ---- */

/* A Conflict may be with an earlier try that is still at work under the same key (so says the
 * IETF's draft on Idempotency-Key): the next one may get its result. */
static bool is_transient(const struct http_run *run, long status)
{
    return status == 408 || status == 425 || status == 429 || status >= 500 || status < 200 ||
           (status == 409 && !is_first(run));
}

static void set_answered(struct http_run *run, long status)
{
    bool transient = is_transient(run, status);
    curl_off_t retry_after = 0;
    char class[24];

    snprintf(class, sizeof(class), "HTTP_%ld", status);
    if (status >= 300 && status < 400)
        set_failed(run, DROVER__V1__VERDICT__VERDICT_PERMANENT, DROVER__V1__EFFECT__EFFECT_UNKNOWN,
                   class, "%ld from %s: redirects are not followed", status, run->action->target);
    else if (transient)
        set_failed(run, DROVER__V1__VERDICT__VERDICT_TRANSIENT, DROVER__V1__EFFECT__EFFECT_UNKNOWN,
                   class, "%ld from %s", status, run->action->target);
    else
        set_failed(run, DROVER__V1__VERDICT__VERDICT_PERMANENT, effect_of_refusal(run), class,
                   "%ld from %s", status, run->action->target);
    curl_easy_getinfo(run->easy, CURLINFO_RETRY_AFTER, &retry_after); /* a date as seconds, too */
    if (transient && retry_after > 0)
        run->result.retry_after_ms =
            POLICY_SECOND_MS * (retry_after < RETRY_AFTER_MAX_S ? retry_after : RETRY_AFTER_MAX_S);
}

static void set_done(struct http_run *run)
{
    const char *type = NULL;

    curl_easy_getinfo(run->easy, CURLINFO_CONTENT_TYPE, &type);
    if (type && http_text_valid(type))
        snprintf(run->content_type, sizeof(run->content_type), "%s", type);
    run->result = (struct agent_result){
        .ok = true,
        .content_type = run->body.len > 0 ? run->content_type : NULL,
        .result = buf_bytes(&run->body),
    };
}

static void set_unanswered(struct http_run *run, CURLcode code, const char *why)
{
    bool timeout = code == CURLE_OPERATION_TIMEDOUT;

    set_failed(run, DROVER__V1__VERDICT__VERDICT_TRANSIENT, DROVER__V1__EFFECT__EFFECT_UNKNOWN,
               timeout         ? "TIMEOUT"
               : run->sent > 0 ? "NETWORK"
                               : "CONNECT",
               "%s: %s", run->action->target, *why ? why : curl_easy_strerror(code));
}

static void set_outcome(struct http_run *run, CURLcode code, const char *why)
{
    bool too_large = run->received > run->action->max_response;
    bool answered = code == CURLE_OK || too_large;
    long status = 0;

    curl_easy_getinfo(run->easy, CURLINFO_RESPONSE_CODE, &status);
    if (answered && !run->headed) { /* libcurl is content with a status line ... */
        answered = false;
        why = "the answer ends within its head";
    } else if (answered && run->status != status) { /* ... and takes what is none for 200 */
        answered = false;
        why = "the answer does not begin with a status line";
    }
    if (!answered) {
        set_unanswered(run, code, why);
        target_failed(&run->call, &run->result, clock_monotonic_ms());
        return;
    }
    if (too_large && status / 100 == 2) {
        buf_clear(&run->body);
        set_failed(run, DROVER__V1__VERDICT__VERDICT_PERMANENT, DROVER__V1__EFFECT__EFFECT_UNKNOWN,
                   "RESULT_TOO_LARGE", "the answer of %s exceeds %zu bytes", run->action->target,
                   run->action->max_response);
    } else if (status / 100 == 2) {
        set_done(run);
    } else {
        set_answered(run, status);
    }
    if (status >= 500)
        target_failed(&run->call, &run->result, clock_monotonic_ms());
    else
        target_answered(&run->call);
}

static void leave_multi(struct http_run *run)
{
    curl_multi_remove_handle(engine.multi, run->easy);
    curl_easy_cleanup(take(run->easy));
}

static void on_ended(struct http_run *run, CURLcode code)
{
    char why[CURL_ERROR_SIZE];

    snprintf(why, sizeof(why), "%s", run->request.error);
    set_outcome(run, code, why);
    leave_multi(run);
    finish(run);
}

/* ---- libcurl on the loop ---- */

static void collect(void)
{
    CURLMsg *message;
    int left;

    while (engine.multi && (message = curl_multi_info_read(engine.multi, &left))) {
        struct http_run *run = NULL;

        assert(message->msg == CURLMSG_DONE);
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &run);
        on_ended(run, message->data.result);
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
    int flags = status < 0 ? CURL_CSELECT_ERR : 0, running;

    if (events & UV_READABLE)
        flags |= CURL_CSELECT_IN;
    if (events & UV_WRITABLE)
        flags |= CURL_CSELECT_OUT;
    curl_multi_socket_action(engine.multi, watch->fd, flags, &running);
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
        abort(); /* libcurl's sockets can be polled */
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
    int events = 0;

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
    if (what & CURL_POLL_IN)
        events |= UV_READABLE;
    if (what & CURL_POLL_OUT)
        events |= UV_WRITABLE;
    uv_poll_start(&watch->poll, events, on_ready);
    return 0;
}

static void engine_open(uv_loop_t *loop)
{
    if (engine.multi)
        return;
    if (curl_global_init(CURL_GLOBAL_DEFAULT))
        abort();
    engine.loop = loop;
    list_init(&engine.watches);
    engine.multi = or_abort(curl_multi_init());
    uv_timer_init(loop, &engine.timer);
    curl_multi_setopt(engine.multi, CURLMOPT_SOCKETFUNCTION, on_socket_wanted);
    curl_multi_setopt(engine.multi, CURLMOPT_TIMERFUNCTION, on_timer_wanted);
}

/* What is left is connections, kept or on their way out. libcurl 8 would have them watched once
 * more while it ends them, and they are gone before that could be: it is not to call us. */
static void engine_close(void)
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
    targets_free(&engine.targets);
}

/* ---- the start ---- */

static int on_send(void *context, char *to, char *from, int to_port, int from_port)
{
    struct http_run *run = context;

    run->sent++;
    return CURL_PREREQFUNC_OK;
}

/* Of a line that begins with HTTP/: three digits; 0 where they are not there. As libcurl does,
 * takes several blanks for one. */
static long read_status(const char *line, size_t len)
{
    const char *end = line + len, *at = line;
    long status = 0;
    int digits = 0;

    while (at < end && !isblank((unsigned char)*at))
        at++;
    while (at < end && isblank((unsigned char)*at))
        at++;
    for (; at < end && isdigit((unsigned char)*at) && digits <= 3; at++, digits++)
        status = 10 * status + (*at - '0');
    return digits == 3 ? status : 0;
}

static size_t on_header(char *data, size_t size, size_t n, void *context)
{
    struct http_run *run = context;
    size_t len = size * n;

    /* Each line by itself; those of interim answers and trailers, too. */
    if (len > 5 && strncmp(data, "HTTP/", 5) == 0) {
        run->headed = false;
        run->status = read_status(data, len);
    } else if (len > 0 && (data[0] == '\r' || data[0] == '\n')) {
        run->headed = true;
    }
    return len;
}

static size_t on_body(char *data, size_t size, size_t n, void *context)
{
    struct http_run *run = context;
    size_t len = size * n, limit, room;
    long status = 0;

    curl_easy_getinfo(run->easy, CURLINFO_RESPONSE_CODE, &status);
    limit = status / 100 == 2 ? run->action->max_response : ERROR_BODY_MAX;
    room = run->body.len < limit ? limit - run->body.len : 0;
    buf_append(&run->body, data, len < room ? len : room);
    if (run->body.failed)
        abort();
    run->received += len;
    return run->received > run->action->max_response ? 0 : len; /* 0: that is enough */
}

/* How long the request may take. */
static long time_limit(const struct http_run *run)
{
    int64_t left = run->head.run->deadline - clock_monotonic_ms();
    int64_t margin = left / MARGIN_SHARE < MARGIN_MAX_MS ? left / MARGIN_SHARE : MARGIN_MAX_MS;
    int64_t limit = left - margin;

    if (run->action->timeout_ms > 0 && run->action->timeout_ms < limit)
        limit = run->action->timeout_ms;
    return limit > 0 ? (long)limit : 1;
}

static void set_headers(struct http_run *run)
{
    for (char **h = run->request.headers; *h; h++)
        run->headers = or_abort(curl_slist_append(run->headers, *h));
    curl_easy_setopt(run->easy, CURLOPT_HTTPHEADER, run->headers);
}

static void set_method(struct http_run *run)
{
    struct http_request *request = &run->request;

    if (strcmp(run->action->method, "HEAD") == 0)
        curl_easy_setopt(run->easy, CURLOPT_NOBODY, 1L);
    if (request->has_body) { /* never NULL: that would be standard input */
        curl_easy_setopt(run->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.len);
        curl_easy_setopt(run->easy, CURLOPT_POSTFIELDS, buf_str(&request->body));
    }
    curl_easy_setopt(run->easy, CURLOPT_CUSTOMREQUEST, run->action->method);
}

static void set_limits(struct http_run *run)
{
    long limit = time_limit(run);

    curl_easy_setopt(run->easy, CURLOPT_TIMEOUT_MS, limit);
    curl_easy_setopt(run->easy, CURLOPT_CONNECTTIMEOUT_MS,
                     limit < CONNECT_TIMEOUT_MS ? limit : (long)CONNECT_TIMEOUT_MS);
    curl_easy_setopt(run->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(run->easy, CURLOPT_QUICK_EXIT, 1L); /* never wait for a slow name server */
}

/* Where it may go: of proxies and exceptions from them the environment has nothing to say. */
static void set_way(struct http_run *run)
{
    curl_easy_setopt(run->easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(run->easy, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(run->easy, CURLOPT_PROXY, run->action->proxy ? run->action->proxy : "");
    curl_easy_setopt(run->easy, CURLOPT_NOPROXY, "");
}

/* Whom to believe: one file, and not the system's folder besides. libcurl keeps what it has read of
 * a file alone; else it would read all of it for each connection, and hold up the loop. */
static void set_trust(struct http_run *run)
{
    const char *file = run->action->ca_file;

    if (!file)
        curl_easy_getinfo(run->easy, CURLINFO_CAINFO, &file); /* the system's */
    if (!file)
        return;
    curl_easy_setopt(run->easy, CURLOPT_CAINFO, file);
    curl_easy_setopt(run->easy, CURLOPT_CAPATH, NULL);
    curl_easy_setopt(run->easy, CURLOPT_CA_CACHE_TIMEOUT, (long)CA_CACHE_S);
}

static void launch(struct http_run *run)
{
    run->easy = or_abort(curl_easy_init());
    curl_easy_setopt(run->easy, CURLOPT_PRIVATE, run);
    curl_easy_setopt(run->easy, CURLOPT_URL, buf_str(&run->request.url));
    curl_easy_setopt(run->easy, CURLOPT_ERRORBUFFER, run->request.error);
    curl_easy_setopt(run->easy, CURLOPT_PREREQFUNCTION, on_send);
    curl_easy_setopt(run->easy, CURLOPT_PREREQDATA, run);
    curl_easy_setopt(run->easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(run->easy, CURLOPT_HEADERDATA, run);
    curl_easy_setopt(run->easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(run->easy, CURLOPT_WRITEDATA, run);
    curl_easy_setopt(run->easy, CURLOPT_USERAGENT, "drover-agent/" DROVER_VERSION);
    set_method(run);
    set_headers(run);
    set_limits(run);
    set_way(run);
    set_trust(run);
    if (curl_multi_add_handle(engine.multi, run->easy))
        abort();
}

/* Return: false where the result is there already. */
static bool prepare(struct http_run *run, const struct breaker_config *breaker)
{
    const Drover__V1__StepRequest *request = run->head.run->request;
    struct problem problem = {0};
    int64_t now = clock_monotonic_ms();
    struct target *target;

    if (now >= run->head.run->deadline) { /* we stood still since it was taken */
        set_failed(run, DROVER__V1__VERDICT__VERDICT_TRANSIENT, DROVER__V1__EFFECT__EFFECT_UNKNOWN,
                   "TIMEOUT", "no time was left to ask");
        return false;
    }
    if (!run->action) {
        set_failed(run, DROVER__V1__VERDICT__VERDICT_PERMANENT, effect_of_refusal(run),
                   "UNKNOWN_ACTION", "there is no such action here");
        return false;
    }
    if (http_request_make(&run->request, run->action, request, &problem)) {
        set_failed(run, DROVER__V1__VERDICT__VERDICT_PERMANENT, effect_of_refusal(run),
                   "UNKNOWN_NAME", "%s %s", problem.field, problem.reason);
        return false;
    }
    target = target_find(&engine.targets, request->actor, run->action->target, breaker);
    return target_admit(target, now, &run->call, &run->result);
}

static struct handler_run *start(uv_loop_t *loop, const struct agent_action *action,
                                 const struct handler_run *head)
{
    struct http_run *run = or_abort(calloc(1, sizeof(*run)));

    run->head = *head;
    list_init(&run->head.link);
    run->action = action->http;
    uv_timer_init(loop, &run->soon);
    run->soon.data = run;
    engine_open(loop);
    if (prepare(run, &action->breaker))
        launch(run);
    else
        finish_soon(run);
    return &run->head;
}

static void stop(struct handler_run *head, bool at_once)
{
    struct http_run *run = container_of(head, struct http_run, head);

    if (!run->easy)
        return;
    target_abandoned(&run->call, clock_monotonic_ms());
    leave_multi(run);
    set_failed(run, DROVER__V1__VERDICT__VERDICT_TRANSIENT, DROVER__V1__EFFECT__EFFECT_UNKNOWN,
               "STOPPED", "%s: given up before it answered", run->action->target);
    finish_soon(run);
}

const struct handler handler_http = {
    .name = "http", .start = start, .stop = stop, .close = engine_close};
