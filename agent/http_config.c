// SPDX-License-Identifier: Apache-2.0
/*
 * Settings of the handler http: reads and checks an action
 *
 * See agent/http_config.h.
 */
#include "agent/http_config.h"

#include <stdlib.h>
#include <string.h>

#include "model/policy.h"
#include "model/wire.h"

#define TIMEOUT_MAX_MS POLICY_DURATION_MAX_MS

static int read_method(struct http_action *http, const config_setting_t *group,
                       struct problem *problem)
{
    static const char *const methods[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"};
    int r = tree_text(group, "method", &http->method, problem);

    if (r)
        return r;
    if (!http->method)
        http->method = or_abort(strdup("POST"));
    for (size_t i = 0; i < array_size(methods); i++)
        if (strcmp(http->method, methods[i]) == 0)
            return 0;
    return tree_problem(config_setting_get_member(group, "method"), problem,
                        "must be GET, HEAD, POST, PUT, PATCH or DELETE");
}

static int read_url(struct http_action *http, const config_setting_t *group,
                    struct problem *problem)
{
    struct problem inner = {0};
    size_t target_len;
    int r = tree_text(group, "url", &http->url, problem);

    if (r)
        return r;
    if (!http->url)
        return tree_problem(group, problem, "url is missing, such as \"http://host:8080/path\"");
    if (http_url_check(http->url, &target_len, &inner))
        return tree_problem(config_setting_get_member(group, "url"), problem, "%s", inner.reason);
    http->target = or_abort(strndup(http->url, target_len));
    return 0;
}

static int read_headers(struct http_action *http, const config_setting_t *group,
                        struct problem *problem)
{
    struct problem inner = {0};
    int r = tree_texts(group, "headers", &http->headers, problem);

    for (unsigned i = 0; !r && http->headers[i]; i++)
        if (http_header_check(http->headers[i], &inner))
            r = tree_problem(
                config_setting_get_elem(config_setting_get_member(group, "headers"), i), problem,
                "%s", inner.reason);
    return r;
}

static int read_proxy(struct http_action *http, const config_setting_t *group,
                      struct problem *problem)
{
    struct problem inner = {0};
    int r = tree_text(group, "proxy", &http->proxy, problem);

    if (!r && http->proxy && http_proxy_check(http->proxy, &inner))
        r = tree_problem(config_setting_get_member(group, "proxy"), problem, "%s", inner.reason);
    return r;
}

static int read_body(struct http_action *http, const config_setting_t *group,
                     struct problem *problem)
{
    static const char *const words[] = {
        [HTTP_BODY_DOCUMENT] = "document",   [HTTP_BODY_INPUT] = "input",
        [HTTP_BODY_ARGUMENTS] = "arguments", [HTTP_BODY_REQUEST] = "request",
        [HTTP_BODY_NONE] = "none",
    };
    const config_setting_t *at = config_setting_get_member(group, "body");
    const char *text = at ? config_setting_get_string(at) : NULL;

    http->body = http_method_has_body(http->method) ? HTTP_BODY_DOCUMENT : HTTP_BODY_NONE;
    if (!at)
        return 0;
    for (size_t i = 0; text && i < array_size(words); i++) {
        if (strcmp(text, words[i]) != 0)
            continue;
        http->body = (enum http_body)i;
        if (strcmp(http->method, "HEAD") == 0 && http->body != HTTP_BODY_NONE)
            return tree_problem(at, problem, "must be \"none\": a request of HEAD has no body");
        return 0;
    }
    return tree_problem(at, problem,
                        "must be \"document\", \"input\", \"arguments\", \"request\" or \"none\"");
}

int http_config_security(struct http_security *security, const config_setting_t *group,
                         struct problem *problem)
{
    int r = tree_text(group, "ca_file", &security->ca_file, problem);

    if (!r)
        r = tree_text(group, "cert_file", &security->cert_file, problem);
    if (!r)
        r = tree_text(group, "key_file", &security->key_file, problem);
    return r ? r : tree_bool(group, "insecure", &security->insecure, problem);
}

static char *copy_of(const char *text)
{
    return text ? or_abort(strdup(text)) : NULL;
}

/* What the action does not say is as its actor says. */
static int read_own_security(struct http_action *http, const struct http_security *actors,
                             const config_setting_t *group, struct problem *problem)
{
    http->security = (struct http_security){copy_of(actors->ca_file), copy_of(actors->cert_file),
                                            copy_of(actors->key_file), actors->insecure};
    return http_config_security(&http->security, group, problem);
}

/* A proxy may be on this machine although the target is not. */
static int check_clear(const struct http_action *http, const config_setting_t *group,
                       struct problem *problem)
{
    struct problem inner = {0};

    if (http->security.insecure || http->proxy || !http_target_check(http->target, &inner))
        return 0;
    return tree_problem(config_setting_get_member(group, "url"), problem, "%s", inner.reason);
}

int http_config_read(struct http_action **out, const struct http_security *actors,
                     const config_setting_t *group, struct problem *problem)
{
    static const char *const keys[] = {
        "name",    "method",    "url",      "headers",  "body",  "timeout", "max_response",
        "ca_file", "cert_file", "key_file", "insecure", "proxy", NULL};
    struct http_action *http = *out = or_abort(calloc(1, sizeof(*http)));
    int64_t max_response = WIRE_RESULT_MAX - WIRE_CONTENT_TYPE_MAX;
    int r = tree_keys(group, keys, problem);

    if (!r)
        r = read_method(http, group, problem);
    if (!r)
        r = read_url(http, group, problem);
    if (!r)
        r = read_headers(http, group, problem);
    if (!r)
        r = read_body(http, group, problem);
    if (!r)
        r = tree_duration(group, "timeout", TIMEOUT_MAX_MS, &http->timeout_ms, problem);
    if (!r)
        r = tree_int(group, "max_response", 0, max_response, &max_response, problem);
    if (!r)
        r = read_own_security(http, actors, group, problem);
    if (!r)
        r = read_proxy(http, group, problem);
    if (!r)
        r = check_clear(http, group, problem);
    http->max_response = (size_t)max_response;
    return r;
}
