// SPDX-License-Identifier: Apache-2.0
/*
 * HTTP errors: takes apart the errors of libcurl, and of OpenSSL behind them
 *
 * See agent/http_error.h.
 */
#include "agent/http_error.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/tls_fault.h"

/* Of an explanation; "" where libcurl's text says all. */
#define MORE_SIZE TLS_FAULT_SIZE

/* Return: the error of OpenSSL that libcurl's text names as "error:0A00010B:..."; 0: none. */
static unsigned long error_of_openssl(const char *why)
{
    for (const char *at = why; (at = strstr(at, "error:"));) {
        unsigned long error;
        char *end;

        at += strlen("error:");
        error = strtoul(at, &end, 16);
        if (end - at == 8 && *end == ':')
            return error;
    }
    return 0;
}

/* With a proxy that speaks TLS itself, libcurl does not say whose certificate is refused. */
static bool has_own_tls(const struct http_failure *f)
{
    const char *proxy = f->action->proxy;

    return !http_is_clear(f->action->target) &&
           !(proxy && strncmp(proxy, "https://", strlen("https://")) == 0);
}

static void host_of(const struct http_failure *f, char *out, size_t size)
{
    CURLU *parser = or_abort(curl_url());
    char *host = NULL;

    curl_url_set(parser, CURLUPART_URL, f->action->target, 0);
    curl_url_get(parser, CURLUPART_HOST, &host, 0);
    snprintf(out, size, "%s", host ? host : f->action->target);
    curl_free(host);
    curl_url_cleanup(parser);
}

/* libcurl compares the name itself, and then has no verdict of OpenSSL, or the one before. */
static void say_certificate(char *more, const struct http_failure *f)
{
    long verdict = X509_V_OK;
    char host[256];

    curl_easy_getinfo(f->easy, CURLINFO_SSL_VERIFYRESULT, &verdict);
    if (verdict == X509_V_OK || verdict == X509_V_ERR_UNSPECIFIED)
        verdict = X509_V_ERR_HOSTNAME_MISMATCH;
    host_of(f, host, sizeof(host));
    tls_fault_of_certificate(more, MORE_SIZE, verdict, host, "");
}

bool http_error_is_silent(const struct http_failure *f)
{
    return f->code == CURLE_OPERATION_TIMEDOUT && f->handshaking;
}

static bool is_end_of_handshake(const struct http_failure *f, unsigned long error)
{
    return f->code == CURLE_SSL_CONNECT_ERROR && f->handshaking &&
           (error == 0 || error == ERR_PACK(ERR_LIB_SSL, 0, SSL_R_UNEXPECTED_EOF_WHILE_READING));
}

/* Return: whether a person must mend it. */
static bool say_tls(char *more, const struct http_failure *f)
{
    unsigned long error = error_of_openssl(f->why);

    if (f->code == CURLE_PEER_FAILED_VERIFICATION) {
        say_certificate(more, f);
        return true;
    }
    if (f->code == CURLE_SSL_CACERT_BADFILE && !f->action->security.ca_file) {
        snprintf(more, MORE_SIZE,
                 "the system has no authorities: give ca_file, or install them (%s)", f->why);
        return true;
    }
    if (http_error_is_silent(f) || is_end_of_handshake(f, error)) {
        snprintf(more, MORE_SIZE, "%s%s",
                 http_error_is_silent(f) ? TLS_FAULT_SILENT : TLS_FAULT_ENDED,
                 f->heard ? "" : TLS_FAULT_PORT);
        return !f->heard;
    }
    if (error && tls_fault_of_error(more, MORE_SIZE, error))
        return true;
    more[0] = '\0';
    return false;
}

/* Whether a request on a new connection got no byte of an answer before the end. */
static bool has_ended(const struct http_failure *f)
{
    long connections = 0;

    curl_easy_getinfo(f->easy, CURLINFO_NUM_CONNECTS, &connections);
    return !f->begun && connections > 0 &&
           (f->code == CURLE_SEND_ERROR || f->code == CURLE_RECV_ERROR ||
            f->code == CURLE_GOT_NOTHING);
}

/* Whether the service may distrust the agent's certificate. In TLS 1.3 the service refuses it only
 * after the handshake of the agent. If it then resets the connection before the request was
 * written, its reason cannot be read, and libcurl may not find whom it was connected to. */
static bool may_distrust(const struct http_failure *f)
{
    return !http_is_clear(f->action->target) &&
           (has_ended(f) || (!f->begun && strstr(f->why, "getpeername() failed")));
}

/* Return: whether a person must mend it. A port for TLS answers clear text with an alert, or by an
 * end; if it answers 400, that counts as any other answer. */
static bool say_clear(char *more, const struct http_failure *f)
{
    if (f->code == CURLE_UNSUPPORTED_PROTOCOL) {
        snprintf(more, MORE_SIZE, "it does not speak HTTP%s", TLS_FAULT_PORT);
        return true;
    }
    if (f->heard || !has_ended(f))
        return false;
    snprintf(more, MORE_SIZE, "the server ended the connection without an answer%s",
             TLS_FAULT_PORT);
    return true;
}

/* Return: whether a person must mend it. @more: filled where libcurl's text does not say all. */
static bool say_more(char *more, const struct http_failure *f)
{
    bool clear = http_is_clear(f->action->target);

    if (f->refused)
        return true;
    if (clear && !f->action->proxy)
        return say_clear(more, f);
    return has_own_tls(f) && say_tls(more, f);
}

bool http_error_say(char *out, size_t size, const struct http_failure *f)
{
    char more[MORE_SIZE] = "";
    bool person = say_more(more, f);
    const char *why = *f->why ? f->why : curl_easy_strerror(f->code);
    bool asks = !person && !*more && may_distrust(f);

    snprintf(out, size, "%s: %s%s", f->action->target, *more ? more : why,
             asks ? ": does the service accept the certificate of cert_file, or its absence?" : "");
    return person || f->code == CURLE_PEER_FAILED_VERIFICATION ||
           f->code == CURLE_SSL_CERTPROBLEM || f->code == CURLE_SSL_CACERT_BADFILE;
}
