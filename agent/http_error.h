// SPDX-License-Identifier: Apache-2.0
/*
 * HTTP errors: why a request got no answer, in words that say what a person must do
 *
 * libcurl's own texts do not say that. Those about TLS are the texts for RabbitMQ and the store
 * (io/tls_fault.h). Used by handler_http.c.
 */
#pragma once

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/http_request.h"

/* A request without an answer. */
struct http_failure {
    const struct http_action *action;
    CURL *easy;
    CURLcode code;
    const char *why;  /* libcurl's text; "" for none */
    bool refused;     /* by this process, as `why` says */
    bool handshaking; /* TLS had begun, and no request was sent on this connection */
    bool begun;       /* some of an answer has come */
    bool heard;       /* the service has answered an earlier request */
};

/**
 * http_error_say() - say why there is no answer
 *
 * A service that has been heard is at the right port: when it falls silent in a handshake that is
 * an outage, else it may be a port that does not speak TLS, which a person must correct.
 *
 * Return: whether a person must change the configuration, a certificate or the service.
 */
bool http_error_say(char *out, size_t size, const struct http_failure *failure);

/* Return: whether the service has not answered the handshake of TLS in time. */
bool http_error_is_silent(const struct http_failure *failure);
