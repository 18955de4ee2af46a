// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz: words given by people and the environment. The first byte says what they are
 *
 *     u  a URL        a  an address      d  a duration       m  a moment
 *     f  failpoints   c  a command line of drover, one word per line
 *     j  the jobs of a FILE              p  the value of --input, or the file that it names
 *
 * What is parsed and written again is the same.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/utf8.h"
#include "cli/command_parse.h"
#include "cli/parse.h"
#include "client/jobs.h"
#include "client/payload.h"
#include "fuzz.h"
#include "io/address.h"
#include "io/config/config_tree.h"
#include "io/config/url.h"
#include "io/failpoint.h"
#include "model/json.h"
#include "model/wire.h"

#define NOW_MS INT64_C(1700000000000)
#define WORDS_MAX 16

/* ---- URLs ---- */

static void put_encoded(struct buf *out, const char *text)
{
    for (; *text; text++)
        buf_printf(out, "%%%02X", (unsigned char)*text);
}

static void put_url(struct buf *out, const struct url *url)
{
    bool bracketed = strchr(url->host, ':') || url->host[0] == '[';

    buf_puts(out, "amqp://");
    if (url->user)
        put_encoded(out, url->user);
    if (url->password) {
        buf_putc(out, ':');
        put_encoded(out, url->password);
    }
    if (url->user)
        buf_putc(out, '@');
    buf_printf(out, bracketed ? "[%s]" : "%s", url->host);
    if (url->port)
        buf_printf(out, ":%d", url->port);
    if (url->path) {
        buf_putc(out, '/');
        put_encoded(out, url->path);
    }
}

static bool same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static void try_url(const char *text)
{
    CLEANUP(url_deinit) struct url url = {0}, again = {0};
    CLEANUP(buf_deinit) struct buf out = {0};
    struct problem problem = {0};
    int r = url_parse(text, "amqp", &url, &problem);

    assert(r == 0 || r == URL_E_INVALID || r == URL_E_SCHEME);
    if (r) {
        fuzz_check_problem(&problem);
        return;
    }
    assert(*url.host && url.port >= 0 && url.port <= UINT16_MAX && (url.user || !url.password));
    put_url(&out, &url);
    assert(url_parse(buf_str(&out), "amqp", &again, &problem) == 0);
    assert(same(url.host, again.host) && url.port == again.port && same(url.user, again.user) &&
           same(url.password, again.password) && same(url.path, again.path));
}

static void try_address(const char *text)
{
    struct address address, again;
    char out[ADDRESS_HOST_MAX + 16];

    if (address_parse(text, &address))
        return;
    snprintf(out, sizeof(out), strpbrk(address.host, "[]:") ? "[%s]:%s" : "%s:%s", address.host,
             address.port);
    assert(!address_parse(out, &again));
    assert(same(address.host, again.host) && same(address.port, again.port));
}

/* ---- time ---- */

static void try_duration(const char *text)
{
    int64_t ms = -1, with_unit = -1;
    bool good = duration_parse(text, &ms);

    assert(!good || ms >= 0);
    if (parse_duration(text, &with_unit))
        assert(good && with_unit == ms);
}

static void try_moment(const char *text)
{
    int64_t ms = 0, later = 0;

    if (!parse_moment(text, NOW_MS, &ms))
        return;
    assert(parse_moment(text, NOW_MS + 1, &later));
    assert(later == ms + (*text == '+' || *text == '-'));
}

/* ---- failpoints ---- */

static void try_failpoints(const char *text)
{
    struct problem problem = {0};

    if (failpoint_set(text, &problem))
        fuzz_check_problem(&problem);
    assert(failpoint_set("", &problem) == 0);
}

/* ---- command lines ---- */

static int split(struct bytes input, char *words[])
{
    int n = 0;

    words[n++] = or_abort(strdup("drover"));
    while (input.len > 0 && n < WORDS_MAX)
        words[n++] = fuzz_text(fuzz_until(&input, '\n'));
    words[n] = NULL;
    return n;
}

static void args_check(const struct args *args)
{
    const struct command *c = args->command;

    assert(c || args->help || args->version);
    assert(args->n_labels <= WIRE_LABELS_MAX && args->timeout_ms >= 0 && args->scale >= 0);
    for (size_t i = 0; i < args->n_labels; i++)
        assert(strchr(args->labels[i], '='));
    if (c && !args->help)
        assert(args->n_operands + args->where >= c->min_operands &&
               args->n_operands + args->where <= c->max_operands);
}

/* Options that are moved to the front have the same meaning there. */
static void try_command(struct bytes input)
{
    struct problem problem = {0};
    char *words[WORDS_MAX + 1], *all[WORDS_MAX + 1];
    struct args args, again;
    int n = split(input, words);
    int r;

    memcpy(all, words, sizeof(all));
    r = command_parse(n, words, NOW_MS, &args, &problem);
    assert(r == 0 || r == COMMAND_E_USAGE);
    if (r) {
        fuzz_check_problem(&problem);
    } else {
        args_check(&args);
        assert(command_parse(n, words, NOW_MS, &again, &problem) == 0);
        assert(args.command == again.command && args.operands == again.operands);
        assert(args.n_operands == again.n_operands && args.n_labels == again.n_labels);
    }
    for (int i = 0; i < n; i++)
        free(all[i]);
}

/* ---- jobs and payloads ---- */

/* As JSON, with @between before each and after the last. */
static void put_jobs(const struct jobs *jobs, const char *between, struct buf *out)
{
    for (size_t i = 0; i < jobs->n; i++) {
        buf_puts(out, between);
        json_from_message(&jobs->items[i]->base, out);
    }
    buf_puts(out, between);
    assert(!out->failed);
}

/* Read again they are the same, whatever separates them. */
static void jobs_check(const struct jobs *jobs, const char *between)
{
    CLEANUP(jobs_deinit) struct jobs again = {0};
    CLEANUP(buf_deinit) struct buf text = {0}, text_again = {0};
    struct problem problem = {0};

    put_jobs(jobs, between, &text);
    assert(jobs_read(buf_bytes(&text), &again, &problem) == 0);
    put_jobs(&again, between, &text_again);
    assert(again.n == jobs->n && bytes_equal(buf_bytes(&text), buf_bytes(&text_again)));
}

static void try_jobs(struct bytes text)
{
    CLEANUP(jobs_deinit) struct jobs jobs = {0};
    struct problem problem = {0};
    int r = jobs_read(text, &jobs, &problem);

    assert(r == 0 || r == JOBS_E_INVALID);
    if (r) {
        fuzz_check_problem(&problem);
        return;
    }
    assert(jobs.n > 0);
    jobs_check(&jobs, "");
    jobs_check(&jobs, " \r\n\t");
}

static bool is_json(struct bytes data)
{
    json_t *json = json_loadb((const char *)data.data, data.len, JSON_DECODE_ANY, NULL);

    json_decref(json);
    return json != NULL;
}

/* The data is what its type says, and a Submit may carry it. */
static void payload_check(Drover__V1__Payload *p, struct bytes data)
{
    Drover__V1__Submit m = DROVER__V1__SUBMIT__INIT;
    CLEANUP(buf_deinit) struct buf body = {0};
    CLEANUP(wire_free) struct wire_message again = {0};

    assert(bytes_equal(bytes_of(p->data.data, p->data.len), data));
    assert((strcmp(p->content_type, "application/json") == 0) == is_json(data));
    assert(strncmp(p->content_type, "text/", strlen("text/")) != 0 || utf8_valid(data));
    m.job_id = m.workflow = (char *)"w";
    m.input = p;
    assert(wire_encode(&m.base, true, &body) == 0);
    assert(wire_decode(WIRE_SUBMIT, buf_bytes(&body), NULL, &again, NULL) == 0);
    assert(bytes_equal(bytes_of(again.submit->input->data.data, again.submit->input->data.len),
                       data) ||
           is_json(data)); /* it is sent as JSON, and may be written differently */
}

static void try_payload(struct bytes data, const char *text)
{
    struct problem problem = {0};
    Drover__V1__Payload *of_file, *of_text;
    CLEANUP(buf_deinit) struct buf name = {0};

    buf_printf(&name, "@%s", fuzz_file(data));
    assert(payload_read(buf_str(&name), &of_file, &problem) == 0);
    payload_check(of_file, data);
    if (*text != '@') { /* it would read a file of this machine */
        assert(payload_read(text, &of_text, &problem) == 0);
        payload_check(of_text, bytes_str(text));
        assert(strlen(text) != data.len ||
               strcmp(of_text->content_type, of_file->content_type) == 0);
        drover__v1__payload__free_unpacked(of_text, NULL);
    }
    drover__v1__payload__free_unpacked(of_file, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes input = bytes_of(data, size);
    char kind = (char)fuzz_byte(&input);
    CLEANUP(free) char *text = fuzz_text(input);

    fuzz_begin();
    switch (kind) {
    case 'u':
        try_url(text);
        break;
    case 'a':
        try_address(text);
        break;
    case 'd':
        try_duration(text);
        break;
    case 'm':
        try_moment(text);
        break;
    case 'f':
        try_failpoints(text);
        break;
    case 'c':
        try_command(input);
        break;
    case 'j':
        try_jobs(input);
        break;
    case 'p':
        try_payload(input, text);
        break;
    default:
        break;
    }
    return 0;
}
