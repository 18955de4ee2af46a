// SPDX-License-Identifier: Apache-2.0
/*
 * Handler http: sends one HTTP request for each run, as agent_io.c starts it
 *
 *     sent     method, URL, headers and body of the action (http_request.h). The handler adds
 *              Idempotency-Key, the same for every attempt of the same work, and traceparent
 *     2xx      done; the body is the result
 *     408 425 429 5xx, no answer, an answer that is cut short
 *              a transient failure; the next try waits for Retry-After if the service sends one
 *     409      to a try that is not the first: a transient failure, as an earlier try may still be
 *              under way
 *     any other 4xx
 *              a permanent failure. To a first try it also proves that nothing was done (effect
 *              NONE): the service answers so, and it knows the key. Without an answer the effect is
 *              not known, as another agent may get the same request again
 *     3xx      a permanent failure: the configuration alone decides where a request goes
 *
 * Each target (scheme, host and port) has a breaker: while a service is down, its steps are
 * deferred, which is not counted, and one request at a time tests whether the service is up again.
 *
 * A request is given up before its lease ends, so that the agent has time to reply. libcurl does
 * the work, on the loop (http_loop.h). It follows no redirect, and takes no proxy from the
 * environment. TLS is 1.2 at least and always verified. Clear text goes to other machines only
 * where the configuration says insecure.
 *
 * libcurl reads the files of the certificate and its key for each new connection. Those of
 * authorities it caches, until reload().
 */
#include <assert.h>
#include <ctype.h>
#include <curl/curl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/handler.h"
#include "agent/http_error.h"
#include "agent/http_loop.h"
#include "agent/http_request.h"
#include "agent/target.h"
#include "base/clock.h"
#include "base/log.h"
#include "io/hosts.h"
#include "model/policy.h"
#include "model/wire.h"

#define ERROR_BODY_MAX ((size_t)4096) /* bytes of the body of a failure that are kept */
#define CONNECT_TIMEOUT_MS 10000      /* less where the request has less time */
#define CA_CACHE_S 600                /* after which changed certificates are read */
#define RETRY_AFTER_MAX_S 86400       /* a longer Retry-After counts as this */
/* How long before the end of the lease a request is given up, for the reply: this time, or this
 * share (a tenth) of the time that is left, whichever is shorter. */
#define MARGIN_MAX_MS 500
#define MARGIN_SHARE 10

static_assert(ERROR_BODY_MAX <= WIRE_ERROR_DETAILS_MAX, "details are not cut again");

struct http_run {
    struct handler_run head;
    const struct http_action *action;
    struct target_call call;
    struct http_request request;
    CURL *easy; /* NULL: no request is under way */
    struct curl_slist *headers;
    bool refused;     /* it was not sent, as it would leave this machine in clear text */
    bool handshaking; /* TLS has begun, and the request was not sent since */
    unsigned sent;    /* how often it was sent: twice if the service had closed a kept connection */
    bool headed;      /* the head of the answer has been received whole */
    long status;      /* that the status line shows; 0: none */
    struct buf body;  /* of the answer; cut at a limit */
    size_t received;  /* bytes of the whole body so far */
    uv_timer_t soon;  /* ends a run whose result is known at once */
    struct agent_result result;
    char class[24];
    char refusal[256]; /* why it was refused */
    char message[512];
    char content_type[WIRE_CONTENT_TYPE_MAX + 1];
};

/* Of all runs. */
static struct shared {
    struct targets targets;
    int64_t reloaded; /* when reload() was called, monotonic ms */
    uint64_t refused; /* requests that failed in a way that a person must mend */
} shared;

/* ---- the end of a run ---- */

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

/* Return: whether no earlier try or attempt can have had an effect. */
static bool is_first(const struct http_run *run)
{
    const struct agent_run *seen = run->head.run;

    return seen->tries == 0 && seen->request->attempt <= 1 && !seen->repeated && run->sent <= 1;
}

/* Return: the effect where the service, or the configuration, has refused this try. */
static Drover__V1__Effect effect_of_refusal(const struct http_run *run)
{
    return is_first(run) ? DROVER__V1__EFFECT__EFFECT_NONE : DROVER__V1__EFFECT__EFFECT_UNKNOWN;
}

/* ---- the result of a run ---- */

/* A Conflict may mean that an earlier try under the same key is still under way (the IETF's draft
 * on Idempotency-Key says so): the next try may get its result. */
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
    curl_easy_getinfo(run->easy, CURLINFO_RETRY_AFTER, &retry_after); /* in s, also of a date */
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

/* Return: the class of a request without an answer. A service that does not answer a handshake has
 * taken a connection, so more time would hardly help: that is no TIMEOUT. */
static const char *class_of(const struct http_run *run, const struct http_failure *failure)
{
    bool timeout = failure->code == CURLE_OPERATION_TIMEDOUT;

    if (run->sent == 0 && (!timeout || http_error_is_silent(failure)))
        return "CONNECT";
    return timeout ? "TIMEOUT" : "NETWORK";
}

static void set_unanswered(struct http_run *run, CURLcode code, const char *why)
{
    const struct http_failure failure = {
        .action = run->action,
        .easy = run->easy,
        .code = code,
        .why = why,
        .refused = run->refused,
        .handshaking = run->handshaking,
        .begun = run->received > 0 || run->status != 0,
        .heard = target_was_heard(&run->call),
    };
    char message[sizeof(run->message)];
    bool person = http_error_say(message, sizeof(message), &failure);

    set_failed(run, DROVER__V1__VERDICT__VERDICT_TRANSIENT, DROVER__V1__EFFECT__EFFECT_UNKNOWN,
               class_of(run, &failure), "%s", message);
    if (!person)
        return;
    shared.refused++;
    log_often(LOG_WARN, "service_refused", LOG_S("actor", run->head.run->request->actor),
              LOG_S("target", run->action->target), LOG_S("why", run->message));
}

static void set_outcome(struct http_run *run, CURLcode code, const char *why)
{
    bool too_large = run->received > run->action->max_response;
    bool answered = code == CURLE_OK || too_large;
    long status = 0;

    curl_easy_getinfo(run->easy, CURLINFO_RESPONSE_CODE, &status);
    if (answered && !run->headed) { /* libcurl accepts a status line without a head ... */
        answered = false;
        why = "the answer ends within its head";
    } else if (answered && run->status != status) { /* ... and takes an invalid one for 200 */
        answered = false;
        why = "the answer does not begin with a status line";
    }
    if (!answered) {
        set_unanswered(run, code, why);
        target_failed(&run->call, &run->result, clock_monotonic_ms());
        return;
    }
    target_heard(&run->call);
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

static void on_ended(CURL *easy, CURLcode code)
{
    char why[CURL_ERROR_SIZE];
    struct http_run *run = NULL;

    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &run);
    snprintf(why, sizeof(why), "%s", run->refused ? run->refusal : run->request.error);
    set_outcome(run, code, why);
    http_loop_remove(take(run->easy));
    finish(run);
}

/* ---- the start of a run, and libcurl's callbacks ---- */

/* The connection is there, to the service or to the proxy, and nothing was sent. */
static int on_send(void *context, char *to, char *from, int to_port, int from_port)
{
    struct http_run *run = context;

    if (http_is_clear(run->action->target) && !run->action->security.insecure &&
        !hosts_is_local_number(to)) {
        run->refused = true;
        http_clear_refused(run->refusal, sizeof(run->refusal), to);
        return CURL_PREREQFUNC_ABORT;
    }
    run->sent++;
    run->handshaking = false;
    return CURL_PREREQFUNC_OK;
}

/* There is a connection, and TLS begins on it. */
static CURLcode on_tls(CURL *easy, void *ssl, void *context)
{
    struct http_run *run = context;

    run->handshaking = true;
    return CURLE_OK;
}

/* @line: begins with HTTP/. Return: its status of three digits; 0 if it has none. Like libcurl, it
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

    /* libcurl calls this for each line, also of interim answers and of trailers. */
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
    return run->received > run->action->max_response ? 0 : len; /* 0: abort */
}

/* Return: how long the request may take, in ms, at least 1. */
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
    if (request->has_body) { /* buf_str() is never NULL, which would mean standard input */
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
    curl_easy_setopt(run->easy, CURLOPT_QUICK_EXIT, 1L); /* do not wait for a slow name server */
}

/* Sets where the request may go. The environment cannot set a proxy, nor an exception from one. */
static void set_way(struct http_run *run)
{
    curl_easy_setopt(run->easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(run->easy, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(run->easy, CURLOPT_PROXY, run->action->proxy ? run->action->proxy : "");
    curl_easy_setopt(run->easy, CURLOPT_NOPROXY, "");
}

/* Return: how old cached authorities may be, in s: no older than the last reload(). 0: they are not
 * cached. */
static long cache_age(void)
{
    int64_t age = (clock_monotonic_ms() - shared.reloaded) / POLICY_SECOND_MS;

    return shared.reloaded && age < CA_CACHE_S ? (long)age : (long)CA_CACHE_S;
}

/* Sets which certificates are trusted: those of one file, not of the system's folder as well.
 * libcurl caches certificates of a file alone. Those of a folder it would read for each connection,
 * and hold up the loop. */
static void set_trust(struct http_run *run)
{
    const char *file = run->action->security.ca_file;

    curl_easy_setopt(run->easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    curl_easy_setopt(run->easy, CURLOPT_SSL_CTX_FUNCTION, on_tls);
    curl_easy_setopt(run->easy, CURLOPT_SSL_CTX_DATA, run);
    /* A session that is taken up again would have the certificates with which it began. */
    curl_easy_setopt(run->easy, CURLOPT_SSL_SESSIONID_CACHE, 0L);
    if (!file)
        curl_easy_getinfo(run->easy, CURLINFO_CAINFO, &file); /* the system's */
    if (!file)
        return;
    curl_easy_setopt(run->easy, CURLOPT_CAINFO, file);
    curl_easy_setopt(run->easy, CURLOPT_CAPATH, NULL);
    curl_easy_setopt(run->easy, CURLOPT_CA_CACHE_TIMEOUT, cache_age());
}

static void set_certificate(struct http_run *run)
{
    const struct http_security *security = &run->action->security;

    if (!security->cert_file)
        return;
    curl_easy_setopt(run->easy, CURLOPT_SSLCERT, security->cert_file);
    curl_easy_setopt(run->easy, CURLOPT_SSLKEY, security->key_file);
    curl_easy_setopt(run->easy, CURLOPT_KEYPASSWD, ""); /* or libcurl asks the terminal for it */
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
    set_certificate(run);
    http_loop_add(run->easy);
}

/* Makes the request. Return: whether it is to be sent; else run->result is set. */
static bool prepare(struct http_run *run, const struct breaker_config *breaker)
{
    const Drover__V1__StepRequest *request = run->head.run->request;
    struct problem problem = {0};
    int64_t now = clock_monotonic_ms();
    struct target *target;

    if (now >= run->head.run->deadline) { /* the process stood still since it took the request */
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
    target = target_find(&shared.targets, request->actor, run->action->target, breaker);
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
    http_loop_open(loop, on_ended);
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
    http_loop_remove(take(run->easy));
    set_failed(run, DROVER__V1__VERDICT__VERDICT_TRANSIENT, DROVER__V1__EFFECT__EFFECT_UNKNOWN,
               "STOPPED", "%s: given up before it answered", run->action->target);
    finish_soon(run);
}

uint64_t handler_http_refused(void)
{
    return shared.refused;
}

static void reload(void)
{
    shared.reloaded = clock_monotonic_ms();
}

static void release(void)
{
    http_loop_close();
    targets_free(&shared.targets);
}

const struct handler handler_http = {
    .name = "http", .start = start, .stop = stop, .reload = reload, .close = release};
