// SPDX-License-Identifier: Apache-2.0
/*
 * TLS faults: says in words for a person why TLS with a server has failed
 *
 * Pure. Used for Drover's own sessions (io/tls, io/stream) and for those of libcurl
 * (agent/http_error), so that a fault has the same words at each server.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define TLS_FAULT_SIZE 256

#define TLS_FAULT_SILENT "the server does not answer the TLS handshake"
#define TLS_FAULT_ENDED "the server ended the TLS handshake"
/* Behind one of these, where the server may be one that does not speak TLS: */
#define TLS_FAULT_PORT ": does it speak TLS at this port?"

/**
 * tls_fault_of_certificate() - say why the certificate of a server is refused
 * @verdict: of OpenSSL, X509_V_ERR_...
 * @name:    the host, or address, that the certificate must be for
 * @more:    what else helps than to connect by another name, behind "that it has"; or ""
 */
void tls_fault_of_certificate(char *out, size_t size, long verdict, const char *name,
                              const char *more);

/**
 * tls_fault_of_error() - say what the server's alert, or what came instead of TLS, means
 * @error: of OpenSSL
 *
 * Return: whether a person must remove the cause: a port, a version, or a certificate.
 */
bool tls_fault_of_error(char *out, size_t size, unsigned long error);
