// SPDX-License-Identifier: Apache-2.0
/*
 * HTTP requests: what the configuration says of an action, and the request that is made of it
 *
 * http_config.c checks an action with it, handler_http.c makes the request of a step.
 *
 *     { name = "charge";
 *       method = "POST";                  # the default; GET, HEAD, PUT, PATCH, DELETE
 *       url = "https://pay.example/charges/${job}";
 *       headers = ["X-Tenant: ${input.tenant}"];
 *       body = "document";                # "input", "arguments", "request", "none"
 *       timeout = "10s";                  # of one try; the default is the time the lease has left
 *       max_response = 262016;            # bytes of a result; the default, and the most
 *       ca_file = "/etc/ssl/own.pem";     # instead of the system's certificates
 *       cert_file = "/etc/ssl/agent.pem"; # for services that want one; the default is none
 *       key_file = "/etc/ssl/agent.key";  # its private key
 *       insecure = true;                  # clear text may leave this machine; the default is false
 *       proxy = "http://proxy:3128"; }    # the default is none
 *
 * The names in ${} are those of agent/template.h. They may stand in headers, and in a URL after the
 * host.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/status.h"
#include "base/str.h"
#include "drover/v1/task.pb-c.h"

#define HTTP_ERROR_SIZE 256 /* CURL_ERROR_SIZE of libcurl */

enum http_body {
    HTTP_BODY_DOCUMENT,  /* template_document(); the default where the method has a body */
    HTTP_BODY_INPUT,     /* the job's input, its bytes */
    HTTP_BODY_ARGUMENTS, /* the step's arguments, their bytes */
    HTTP_BODY_REQUEST,   /* template_request(): the StepRequest as JSON */
    HTTP_BODY_NONE,
};

/* How requests are kept from others on the way. http_config.c reads it, agent_config.c frees it. */
struct http_security {
    char *ca_file;   /* NULL: the system's certificates */
    char *cert_file; /* NULL: none */
    char *key_file;  /* of cert_file */
    bool insecure;   /* clear text may go to other machines */
};

/* What the configuration says of an action. http_config.c reads it, agent_config.c frees it. */
struct http_action {
    char *method;
    char *url;
    char *target;   /* the beginning of the URL: scheme, host and port */
    char **headers; /* "Name: value", NULL at the end */
    enum http_body body;
    int64_t timeout_ms;  /* of one try; 0: the time that the lease has left */
    size_t max_response; /* bytes */
    struct http_security security;
    char *proxy; /* NULL: none */
};

/* The request of a step. All zero before http_request_make(). */
struct http_request {
    struct buf url;
    char **headers; /* NULL at the end */
    struct buf body;
    bool has_body;               /* possibly an empty one */
    char error[HTTP_ERROR_SIZE]; /* libcurl writes its message here */
};

enum {
    HTTP_E_INVALID = 1,
};

/* Return: whether the text can stand in a header: ASCII without control characters. */
bool http_text_valid(const char *text);

/* Return: whether requests of the method have a body by default: POST, PUT and PATCH. */
bool http_method_has_body(const char *method);

/**
 * http_url_check() - check a URL of the configuration
 * @target_len: set to the length of its scheme, host and port
 * @problem:    its reason says what is wrong; the field is empty
 *
 * Return: 0 or HTTP_E_INVALID.
 */
int http_url_check(const char *url, size_t *target_len, struct problem *problem);

/* Return: whether requests to the target go in clear text. */
bool http_is_clear(const char *target);

/* Says why clear text is refused, and what to do. @host: that the request would go to. */
void http_clear_refused(char *out, size_t size, const char *host);

/* Checks that clear text stays on this machine, where @target says so by a number; what a name
 * stands for is seen at each connection. Return: 0 or HTTP_E_INVALID, as http_url_check(). */
int http_target_check(const char *target, struct problem *problem);

/* Likewise for a proxy. */
int http_proxy_check(const char *proxy, struct problem *problem);

/* Likewise for a header, "Name: value". */
int http_header_check(const char *header, struct problem *problem);

/**
 * http_request_make() - make the request of a step from its action
 * @out:     all zero; the caller releases it with http_request_deinit(), also after an error
 * @problem: which part of the request is wrong, and why
 *
 * Out of memory aborts.
 *
 * Return: 0, or HTTP_E_INVALID where a name has no value, a value would change the path of the URL,
 * or the URL or a header would be too long.
 */
int http_request_make(struct http_request *out, const struct http_action *action,
                      const Drover__V1__StepRequest *request, struct problem *problem);

void http_request_deinit(struct http_request *request);
