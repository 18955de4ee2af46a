// SPDX-License-Identifier: Apache-2.0
/*
 * HTTP requests: checks the URLs and headers of the configuration, and makes the request of a step
 *
 * Implements http_request.h; agent_config.c and handler_http.c call it.
 */
#include "agent/http_request.h"

#include <ctype.h>
#include <curl/curl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/template.h"
#include "io/hosts.h"
#include "model/json.h"

#define HEADERS_OWN 4     /* the most: Idempotency-Key, traceparent, Content-Type, Expect */
#define LINE_MAX_LEN 8000 /* of a URL or header; servers should take so much (RFC 9110, 4.1) */

bool http_text_valid(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || (unsigned char)*text > '~')
            return false;
    return true;
}

bool http_method_has_body(const char *method)
{
    return strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0 ||
           strcmp(method, "PATCH") == 0;
}

/* ---- URLs ---- */

/* Return: the length of the separator of segments at the beginning of @path, 0 if there is none.
 * The server may decode the path before it splits it into segments, so an encoded slash or
 * backslash counts as a separator, in either case of its letters. */
static size_t separator_len(const char *path)
{
    if (path[0] == '/')
        return 1;
    return strncasecmp(path, "%2F", 3) == 0 || strncasecmp(path, "%5C", 3) == 0 ? 3 : 0;
}

static bool is_dots(const char *segment, const char *end)
{
    return (end - segment == 1 && segment[0] == '.') ||
           (end - segment == 2 && segment[0] == '.' && segment[1] == '.');
}

/* Return: whether @path has a segment "." or "..": the server would serve another path then. */
static bool has_dot_segment(const char *path)
{
    const char *segment = path;

    for (;; path++) {
        size_t len = separator_len(path);

        if (len == 0 && *path && *path != '?')
            continue;
        if (is_dots(segment, path))
            return true;
        if (len == 0)
            return false;
        segment = path + len;
        path = segment - 1;
    }
}

/* Has libcurl parse the first @len bytes. Return: 0 or HTTP_E_INVALID. */
static int parse(const char *url, size_t len, struct problem *problem)
{
    CLEANUP(free) char *beginning = or_abort(strndup(url, len));
    CURLU *parser = or_abort(curl_url());
    CURLUcode code = curl_url_set(parser, CURLUPART_URL, beginning, CURLU_NON_SUPPORT_SCHEME);

    curl_url_cleanup(parser);
    if (!code)
        return 0;
    problem_set(problem, "", "is no URL: %s", curl_url_strerror(code));
    return HTTP_E_INVALID;
}

/* Return: the length of the first of @beginnings that @text begins with; 0 if none matches. */
static size_t prefix_len(const char *text, const char *const *beginnings)
{
    for (; *beginnings; beginnings++)
        if (strncmp(text, *beginnings, strlen(*beginnings)) == 0)
            return strlen(*beginnings);
    return 0;
}

int http_url_check(const char *url, size_t *target_len, struct problem *problem)
{
    static const char *const schemes[] = {"http://", "https://", NULL};
    struct problem inner = {0};
    size_t scheme = prefix_len(url, schemes);

    *target_len = scheme + strcspn(url + scheme, "/?#");
    if (scheme == 0 || *target_len == scheme)
        problem_set(problem, "", "must begin with http://HOST or https://HOST");
    else if (!http_text_valid(url) || strchr(url, ' ') || strchr(url, '#'))
        problem_set(problem, "", "must be ASCII without spaces and without #");
    else if (memchr(url, '$', *target_len))
        problem_set(problem, "", "can have ${...} only behind the host");
    else if (memchr(url, '@', *target_len))
        problem_set(problem, "", "must not hold a password: give a header Authorization");
    else if (template_check(url, &inner))
        problem_set(problem, "", "%s %s", inner.field, inner.reason);
    else if (has_dot_segment(url + *target_len))
        problem_set(problem, "", "must have no segment \".\" or \"..\"");
    else
        return parse(url, *target_len, problem);
    return HTTP_E_INVALID;
}

bool http_is_clear(const char *target)
{
    return strncmp(target, "http://", 7) == 0;
}

void http_clear_refused(char *out, size_t size, const char *host)
{
    snprintf(out, size,
             "%s is no loopback address, and clear text can be read and changed on the way: use "
             "https://, or add the line insecure = true; to the actor, or to the action",
             host);
}

int http_target_check(const char *target, struct problem *problem)
{
    CURLU *parser = or_abort(curl_url());
    char why[sizeof(problem->reason)], *host = NULL;
    size_t len;
    int r = 0;

    if (http_is_clear(target) && !curl_url_set(parser, CURLUPART_URL, target, 0) &&
        !curl_url_get(parser, CURLUPART_HOST, &host, 0)) {
        len = strlen(host);
        if (host[0] == '[' && host[len - 1] == ']') {
            host[len - 1] = '\0';
            memmove(host, host + 1, len - 1);
        }
        if (hosts_is_remote_number(host)) {
            http_clear_refused(why, sizeof(why), host);
            problem_set(problem, "", "%s", why);
            r = HTTP_E_INVALID;
        }
    }
    curl_free(host);
    curl_url_cleanup(parser);
    return r;
}

int http_proxy_check(const char *proxy, struct problem *problem)
{
    static const char *const schemes[] = {"http://", "https://", "socks5://", "socks5h://", NULL};

    if (prefix_len(proxy, schemes) > 0)
        return parse(proxy, strlen(proxy), problem);
    problem_set(problem, "", "must begin with http://, https://, socks5:// or socks5h://");
    return HTTP_E_INVALID;
}

/* ---- headers ---- */

static size_t header_name_len(const char *header)
{
    size_t len = 0;

    while (isalnum((unsigned char)header[len]) ||
           (header[len] && strchr("!#$%&'*+-.^_`|~", header[len])))
        len++;
    return header[len] == ':' ? len : 0;
}

static bool header_is(const char *header, const char *name)
{
    return header_name_len(header) == strlen(name) && strncasecmp(header, name, strlen(name)) == 0;
}

int http_header_check(const char *header, struct problem *problem)
{
    static const char *const ours[] = {"Idempotency-Key", "traceparent", "Content-Length",
                                       "Transfer-Encoding"};
    struct problem inner = {0};

    for (size_t i = 0; i < array_size(ours); i++) {
        if (header_is(header, ours[i])) {
            problem_set(problem, "", "%s is set by the agent", ours[i]);
            return HTTP_E_INVALID;
        }
    }
    if (header_name_len(header) == 0 || !http_text_valid(header))
        problem_set(problem, "", "must be \"Name: value\" in ASCII");
    else if (template_check(header, &inner))
        problem_set(problem, "", "%s %s", inner.field, inner.reason);
    else
        return 0;
    return HTTP_E_INVALID;
}

/* ---- the request of a step ---- */

static int expand(const char *text, struct template_values *values, struct buf *out,
                  const char *what, struct problem *problem)
{
    struct problem inner = {0};
    int r = template_expand(text, values, out, &inner);

    if (out->failed)
        abort();
    if (r)
        problem_set(problem, what, "%s %s", inner.field, inner.reason);
    else if (out->len > LINE_MAX_LEN)
        problem_set(problem, what, "would be longer than %d bytes", LINE_MAX_LEN);
    else
        return 0;
    return HTTP_E_INVALID;
}

static int make_url(struct http_request *out, const struct http_action *action,
                    struct template_values *values, struct problem *problem)
{
    if (expand(action->url, values, &out->url, "url:", problem))
        return HTTP_E_INVALID;
    if (has_dot_segment(buf_str(&out->url) + strlen(action->target))) {
        problem_set(problem, "url:", "a value of \".\" or \"..\" would lead elsewhere");
        return HTTP_E_INVALID;
    }
    return 0;
}

static void add_header(struct http_request *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void add_header(struct http_request *out, const char *format, ...)
{
    size_t n = 0;
    va_list args;

    while (out->headers[n])
        n++;
    va_start(args, format);
    if (vasprintf(&out->headers[n], format, args) < 0)
        abort();
    va_end(args);
}

static int make_headers(struct http_request *out, const struct http_action *action,
                        struct template_values *values, struct problem *problem)
{
    size_t n = 0;

    while (action->headers[n])
        n++;
    out->headers = or_abort(calloc(n + HEADERS_OWN + 1, sizeof(*out->headers)));
    for (size_t i = 0; i < n; i++) {
        CLEANUP(buf_deinit) struct buf header = {0};

        if (expand(action->headers[i], values, &header, "headers:", problem))
            return HTTP_E_INVALID;
        add_header(out, "%s", buf_str(&header));
    }
    return 0;
}

static bool has_header(char *const *headers, const char *name)
{
    for (; *headers; headers++)
        if (header_is(*headers, name))
            return true;
    return false;
}

/* Skips values of the request that http_text_valid() refuses: they could end the header line. In
 * place of such a content type, or an empty one, the header says application/octet-stream. */
static void add_own_headers(struct http_request *out, const Drover__V1__StepRequest *request,
                            const char *content_type)
{
    if (http_text_valid(request->idempotency_key))
        add_header(out, "Idempotency-Key: %s", request->idempotency_key);
    if (*request->traceparent && http_text_valid(request->traceparent))
        add_header(out, "traceparent: %s", request->traceparent);
    if (!content_type)
        content_type = out->has_body ? "" : NULL;
    else if (!*content_type || !http_text_valid(content_type))
        content_type = "application/octet-stream";
    if (content_type && !has_header(out->headers, "Content-Type"))
        add_header(out, "Content-Type:%s%s", *content_type ? " " : "", content_type);
    if (!has_header(out->headers, "Expect"))
        add_header(out, "Expect:"); /* keeps libcurl from adding its own */
}

static const char *make_payload(struct http_request *out, const Drover__V1__Payload *payload)
{
    out->has_body = true;
    if (!payload)
        return NULL;
    buf_append(&out->body, payload->data.data, payload->data.len);
    return payload->content_type;
}

/* Return: the content type of the body, NULL if there is none. */
static const char *make_body(struct http_request *out, const struct http_action *action,
                             const Drover__V1__StepRequest *request)
{
    switch (action->body) {
    case HTTP_BODY_INPUT:
        return make_payload(out, request->input);
    case HTTP_BODY_ARGUMENTS:
        return make_payload(out, request->arguments);
    case HTTP_BODY_NONE:
        out->has_body = http_method_has_body(action->method); /* of length 0 */
        return NULL;
    case HTTP_BODY_DOCUMENT:
        template_document(request, &out->body);
        break;
    case HTTP_BODY_REQUEST:
        template_request(request, &out->body);
        break;
    }
    out->has_body = true;
    return "application/json";
}

int http_request_make(struct http_request *out, const struct http_action *action,
                      const Drover__V1__StepRequest *request, struct problem *problem)
{
    CLEANUP(template_values_deinit) struct template_values values = {.request = request};
    int r = make_url(out, action, &values, problem);

    if (!r)
        r = make_headers(out, action, &values, problem);
    if (r)
        return r;
    add_own_headers(out, request, make_body(out, action, request));
    if (out->body.failed)
        abort();
    return 0;
}

void http_request_deinit(struct http_request *request)
{
    for (char **h = request->headers; h && *h; h++)
        free(*h);
    free(request->headers);
    buf_deinit(&request->url);
    buf_deinit(&request->body);
}
