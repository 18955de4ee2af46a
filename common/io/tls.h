// SPDX-License-Identifier: Apache-2.0
/*
 * TLS: sessions of a client over memory, and the certificates that they use
 *
 * A session takes the bytes that have come from a server and gives those that are to go there; it
 * has no socket. The chain and the name of a server are always verified, and TLS is 1.2 at least:
 * there is no way to leave that out. Used by io/stream; contexts also by what makes connections.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/str.h"

#define TLS_RECORD_MAX 16384 /* bytes of plain text in a record (RFC 8446, 5.1) */

enum {
    TLS_E_INVALID = 1, /* the files of a context cannot be used */
    TLS_E_FAILED,      /* the session has failed, and tls_why() tells why */
};

/* The files of a context: paths, "" for none. */
struct tls_files {
    const char *ca_file;   /* authorities (PEM); "": those that the system trusts */
    const char *cert_file; /* the certificate of the client, and its chain (PEM) */
    const char *key_file;  /* the private key of that certificate (PEM) */
};

/* What all sessions with one server share. */
struct tls_context;

/**
 * tls_context_new() - read the files
 * @problem: its field is a member of struct tls_files, its reason says what to do
 *
 * Return: 0, -ENOMEM, or TLS_E_INVALID with @problem set.
 */
int tls_context_new(struct tls_context **out, const struct tls_files *files,
                    struct problem *problem);

/* Exchanges what two contexts hold: sessions that begin from now on use what @from had. */
void tls_context_take(struct tls_context *to, struct tls_context *from);

/* When the certificate of the client expires, in seconds since 1970; 0: there is none. */
int64_t tls_context_expiry(const struct tls_context *context);

/* Likewise of the first certificate in a file (PEM); 0 if that cannot be read. */
int64_t tls_file_expiry(const char *path);

/* The common name in the certificate of the client; "" if there is none. */
const char *tls_context_name(const struct tls_context *context);

/* The earlier one of two such times, of which 0 is none. */
int64_t tls_first_expiry(int64_t a, int64_t b);

/* Accepts NULL; sessions that have begun may go on. Return: NULL. */
struct tls_context *tls_context_free(struct tls_context *context);

/* One session. */
struct tls;

/**
 * tls_new() - begin a session; the first bytes to the server are there at once
 * @name: the certificate of the server must be for this name, or IP address
 *
 * Return: 0 or -ENOMEM.
 */
int tls_new(struct tls **out, struct tls_context *context, const char *name);

/* Gives bytes of the server to the session, which borrows them until it asks for more, or has
 * failed: until tls_handshake() or tls_read() returns 0 or less. */
void tls_input(struct tls *tls, struct bytes cipher);

/* Goes on with the handshake. Return: 1 if it is done, 0 if more input is needed, or TLS_E_FAILED
 * as a negative number. */
int tls_handshake(struct tls *tls);

/* Reads plain text, after the handshake: of as many records as have come and fit. Return: its
 * length; 0 if more input is needed; or -TLS_E_FAILED, also at the end of the session. */
int tls_read(struct tls *tls, void *out, size_t size);

/* Encrypts plain text, after the handshake. Return: 0 or -TLS_E_FAILED. */
int tls_write(struct tls *tls, struct bytes plain);

/* Return: the bytes that are to go to the server. The caller removes those that it has sent. */
struct buf *tls_output(struct tls *tls);

/* Why the session has failed, for a person; "" if it has not. */
const char *tls_why(const struct tls *tls);

/* Whether the cause is one that a person must remove: a certificate, or a version. */
bool tls_is_refused(const struct tls *tls);

/* The common name in the certificate of the client that the session was made with; "" if there is
 * none. */
const char *tls_own_name(const struct tls *tls);

/* When the first certificate of the server's chain expires, in seconds since 1970; 0: not known. */
int64_t tls_peer_expiry(const struct tls *tls);

/* Accepts NULL. Return: NULL. */
struct tls *tls_free(struct tls *tls);
