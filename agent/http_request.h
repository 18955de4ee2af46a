// SPDX-License-Identifier: Apache-2.0
/*
 * Requests over HTTP: what an action says of them, and one made for a step
 *
 *     { name = "charge";
 *       method = "POST";                  # the default; GET, HEAD, PUT, PATCH, DELETE
 *       url = "https://pay.example/charges/${job}";
 *       headers = ["X-Tenant: ${input.tenant}"];
 *       body = "document";                # "input", "arguments", "request", "none"
 *       timeout = "10s";                  # of one try; by default what the lease has left
 *       max_response = 262144;            # bytes, at most that
 *       ca_file = "/etc/ssl/own.pem";     # instead of the system's
 *       proxy = "http://proxy:3128"; }
 *
 * Names in ${} are those of agent/template.h; they may stand in headers and behind the host.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/status.h"
#include "base/str.h"
#include "drover/v1/task.pb-c.h"

#define HTTP_ERROR_SIZE 256 /* libcurl's CURL_ERROR_SIZE */

enum http_body {
    HTTP_BODY_DOCUMENT, /* template_document(); the default where the method has a body */
    HTTP_BODY_INPUT,
    HTTP_BODY_ARGUMENTS,
    HTTP_BODY_REQUEST, /* the StepRequest, as JSON */
    HTTP_BODY_NONE,
};

/* Texts are owned by whoever reads the configuration. */
struct http_action {
    char *method;
    char *url;
    char *target;   /* its beginning: scheme, host and port */
    char **headers; /* "Name: value", NULL at the end */
    enum http_body body;
    int64_t timeout_ms; /* 0: what the lease has left */
    size_t max_response;
    char *ca_file; /* NULL: the system's */
    char *proxy;   /* NULL: none */
};

struct http_request {
    struct buf url;
    char **headers; /* NULL at the end */
    struct buf body;
    bool has_body; /* if an empty one */
    char error[HTTP_ERROR_SIZE];
};

enum {
    HTTP_E_INVALID = 1,
};

/* Without control characters, and ASCII: it can stand in a header. */
bool http_text_valid(const char *text);

/* POST, PUT and PATCH. */
bool http_method_has_body(const char *method);

/**
 * http_url_check() - what a URL of the configuration must be
 * @target_len: length of its scheme, host and port
 */
int http_url_check(const char *url, size_t *target_len, struct problem *problem);

/* Likewise a proxy. */
int http_proxy_check(const char *proxy, struct problem *problem);

/* Likewise a header, "Name: value". */
int http_header_check(const char *header, struct problem *problem);

/**
 * http_request_make() - fill in an action's request for a step
 *
 * Return: 0, or HTTP_E_INVALID where a name has no value, one that would change what the URL means,
 * or one that is too long. In any case @out goes to http_request_deinit().
 */
int http_request_make(struct http_request *out, const struct http_action *action,
                      const Drover__V1__StepRequest *request, struct problem *problem);

void http_request_deinit(struct http_request *request);
