// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz: how an agent processes a step. The first byte says what the rest is
 *
 *     u, h  a template of a URL or of a header; after NULs arguments, input and a result for it
 *
 *     r     a batch of requests, for templates with every name and with each kind of body
 *
 *     p     the Progress lines of a program; the next byte says in what pieces they are read
 *
 * No value may change the structure of a template: the result has as many delimiters as the
 * template.
 */
#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "agent/http_request.h"
#include "agent/progress_lines.h"
#include "agent/template.h"
#include "fuzz.h"
#include "model/wire.h"

#define TARGET "http://h"

/* ---- requests over HTTP ---- */

static size_t count(const char *text, const char *of)
{
    size_t n = 0;

    for (text = strpbrk(text, of); text; text = strpbrk(text + 1, of))
        n++;
    return n;
}

/* The template without its names. */
static char *without_names(const char *template)
{
    char *out = or_abort(calloc(1, strlen(template) + 1)), *to = out;

    while (*template) {
        const char *end = strncmp(template, "${", 2) == 0 ? strchr(template, '}') : NULL;

        if (end)
            template = end + 1;
        else
            *to++ = *template ++;
    }
    return out;
}

static void delimiters_check(const char *template, const char *expanded)
{
    CLEANUP(free) char *bare = without_names(template);

    assert(count(bare, "/?&=#:@; ") == count(expanded, "/?&=#:@; "));
    assert(http_text_valid(expanded));
}

static void request_check(const struct http_request *made, const struct http_action *action)
{
    CLEANUP(buf_deinit) struct buf url = {0};

    buf_append(&url, made->url.data, made->url.len);
    delimiters_check(action->url, buf_str(&url));
    assert(strncmp(buf_str(&url), action->target, strlen(action->target)) == 0);
    for (size_t i = 0; action->headers[i]; i++)
        delimiters_check(action->headers[i], made->headers[i]);
    for (char **h = made->headers; *h; h++)
        assert(http_text_valid(*h));
}

static void document_check(const struct http_request *made)
{
    json_t *document =
        json_loadb((const char *)made->body.data, made->body.len, JSON_ALLOW_NUL, NULL);

    assert(json_is_object(document));
    json_decref(document);
}

static void make(const char *url, const char *header, enum http_body body,
                 const Drover__V1__StepRequest *request)
{
    char *headers[] = {(char *)header, NULL};
    struct http_action action = {
        .method = (char *)"POST",
        .url = (char *)url,
        .headers = headers,
        .target = (char *)TARGET,
        .body = body,
    };
    struct http_request made = {0};
    struct problem problem = {0};

    if (http_request_make(&made, &action, request, &problem) == 0) {
        request_check(&made, &action);
        if (body == HTTP_BODY_DOCUMENT || body == HTTP_BODY_REQUEST)
            document_check(&made);
    } else {
        fuzz_check_problem(&problem);
    }
    http_request_deinit(&made);
}

/* ---- templates ---- */

static void set_json(Drover__V1__Payload *payload, struct bytes text)
{
    drover__v1__payload__init(payload);
    payload->content_type = (char *)"application/json";
    payload->data = (ProtobufCBinaryData){text.len, (uint8_t *)text.data};
}

static void try_templates(struct bytes input, bool is_url)
{
    CLEANUP(free) char *given = fuzz_text(fuzz_until(&input, '\0')), *template = NULL;
    Drover__V1__StepRequest request = DROVER__V1__STEP_REQUEST__INIT;
    Drover__V1__Result result = DROVER__V1__RESULT__INIT, *results[] = {&result};
    Drover__V1__Payload arguments, document, found;
    struct problem problem = {0};
    size_t target;
    int r;

    if (asprintf(&template, is_url ? TARGET "/%s" : "X: %s", given) < 0)
        abort();
    r = is_url ? http_url_check(template, &target, &problem)
               : http_header_check(template, &problem);
    if (r) {
        fuzz_check_problem(&problem);
        return;
    }
    set_json(&arguments, fuzz_until(&input, '\0'));
    set_json(&document, fuzz_until(&input, '\0'));
    set_json(&found, fuzz_until(&input, '\0'));
    request.job_id = (char *)"job-1";
    request.step = (char *)"a.b";
    request.idempotency_key = (char *)"job-1/a.b/1";
    request.arguments = &arguments;
    request.input = &document;
    result.step = (char *)"a.b";
    result.payload = &found;
    request.results = results;
    request.n_results = 1;
    if (is_url)
        make(template, "X: y", HTTP_BODY_DOCUMENT, &request);
    else
        make(TARGET, template, HTTP_BODY_DOCUMENT, &request);
}

/* ---- requests ---- */

static void try_request(const Drover__V1__StepRequest *request)
{
    for (int body = HTTP_BODY_DOCUMENT; body <= HTTP_BODY_NONE; body++)
        make(TARGET "/${job}?s=${step}&a=${arguments}", "X: ${input} ${results.a}",
             (enum http_body)body, request);
}

static void try_requests(struct bytes body)
{
    static const struct wire_properties properties = {.message_id = "id"};
    CLEANUP(wire_free) struct wire_message m = {0};
    struct problem problem;

    if (wire_decode(WIRE_REQUESTS, body, &properties, &m, &problem))
        return;
    for (size_t i = 0; i < m.requests->n_requests; i++)
        if (wire_check_request(m.requests, i, &problem) == 0)
            try_request(m.requests->requests[i]);
}

/* ---- progress ---- */

static void progress_check(const struct progress_lines *p)
{
    assert(p->fraction <= 1 && strlen(p->note) <= PROGRESS_LINE_MAX);
    assert(p->note == NULL || !strchr(p->note, '\n'));
}

static void try_progress(struct bytes input)
{
    size_t cut = (size_t)fuzz_byte(&input) + 1;
    struct progress_lines whole, pieces;
    bool ended = false;

    progress_lines_init(&whole);
    progress_lines_init(&pieces);
    progress_lines_add(&whole, input);
    progress_check(&whole);
    for (struct bytes rest = input; rest.len > 0;) {
        size_t len = rest.len < cut ? rest.len : cut;

        ended |= progress_lines_add(&pieces, bytes_of(rest.data, len));
        progress_check(&pieces);
        rest = bytes_of(rest.data + len, rest.len - len);
    }
    assert(ended == (input.len > 0 && memchr(input.data, '\n', input.len)));
    assert(whole.fraction == pieces.fraction && strcmp(whole.note, pieces.note) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes input = bytes_of(data, size);

    switch (fuzz_byte(&input)) {
    case 'u':
        try_templates(input, true);
        break;
    case 'h':
        try_templates(input, false);
        break;
    case 'r':
        try_requests(input);
        break;
    case 'p':
        try_progress(input);
        break;
    default:
        break;
    }
    return 0;
}
