// SPDX-License-Identifier: Apache-2.0
/*
 * TLS: OpenSSL over memory
 *
 * See io/tls.h. OpenSSL reads and writes by a BIO of ours, which takes from the bytes of the caller
 * and appends to a buffer that the caller sends: its own BIOs over memory copy all once more.
 */
#include "io/tls.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "io/tls_fault.h"

struct tls_context {
    SSL_CTX *ssl;
    int64_t expiry;
    char name[128];
};

struct tls {
    SSL *ssl;
    struct bytes input; /* which the session has not read yet */
    struct buf output;
    bool refused;
    char name[256];     /* of the server */
    char own_name[128]; /* in the certificate of the client */
    char why[TLS_FAULT_SIZE];
};

static void free_ssl(SSL_CTX *ssl)
{
    SSL_CTX_free(ssl);
}
CLEANUP_DEFINE(SSL_CTX *, free_ssl)

/* ---- files ---- */

__attribute__((format(printf, 3, 4))) static int refuse(struct problem *problem, const char *field,
                                                        const char *format, ...)
{
    char reason[sizeof(problem->reason)];
    va_list list;

    va_start(list, format);
    vsnprintf(reason, sizeof(reason), format, list);
    va_end(list);
    problem_set(problem, field, "%s", reason);
    ERR_clear_error();
    return TLS_E_INVALID;
}

/* OpenSSL says no more of a file than that it has no PEM: the cause may be that it cannot be read.
 */
static int check_readable(const char *field, const char *path, struct problem *problem)
{
    FILE *file = fopen(path, "re");

    if (!file)
        return refuse(problem, field, "cannot read %s: %s", path, strerrordesc_np(errno));
    fclose(file);
    return 0;
}

/* Return: 0, -ENOMEM, or TLS_E_INVALID. Those of the system are looked up during handshakes. */
static int use_authorities(SSL_CTX *ssl, const char *path, struct problem *problem)
{
    int r;

    if (!*path)
        return SSL_CTX_set_default_verify_paths(ssl) == 1 ? 0 : -ENOMEM;
    r = check_readable("ca_file", path, problem);
    if (!r && SSL_CTX_load_verify_locations(ssl, path, NULL) != 1)
        r = refuse(problem, "ca_file", "%s has no certificate in PEM", path);
    return r;
}

/* The key is a secret: whoever else can read it can be this client. */
static int check_key_mode(const char *path, struct problem *problem)
{
    struct stat status;

    if (stat(path, &status) < 0)
        return refuse(problem, "key_file", "cannot read %s: %s", path, strerrordesc_np(errno));
    if (status.st_mode & S_IRWXO)
        return refuse(problem, "key_file", "everybody can read %s: chmod o= %s", path, path);
    return 0;
}

static int use_certificate(SSL_CTX *ssl, const struct tls_files *files, struct problem *problem)
{
    int r;

    if (!*files->cert_file && !*files->key_file)
        return 0;
    if (!*files->cert_file)
        return refuse(problem, "cert_file", "is missing: key_file is given");
    if (!*files->key_file)
        return refuse(problem, "key_file", "is missing: cert_file is given");
    r = check_readable("cert_file", files->cert_file, problem);
    if (!r)
        r = check_key_mode(files->key_file, problem);
    if (!r)
        r = check_readable("key_file", files->key_file, problem);
    if (r)
        return r;
    if (SSL_CTX_use_certificate_chain_file(ssl, files->cert_file) != 1)
        return refuse(problem, "cert_file", "%s has no certificate in PEM", files->cert_file);
    if (SSL_CTX_use_PrivateKey_file(ssl, files->key_file, SSL_FILETYPE_PEM) != 1)
        return refuse(problem, "key_file",
                      "%s has no private key in PEM without a passphrase that belongs to %s",
                      files->key_file, files->cert_file);
    if (SSL_CTX_check_private_key(ssl) != 1) /* of another kind, which the call above accepts */
        return refuse(problem, "key_file", "%s is not the private key that belongs to %s",
                      files->key_file, files->cert_file);
    return 0;
}

/* Nobody is there to be asked for a passphrase. */
static int no_passphrase(char *out, int size, int writes, void *ctx)
{
    return -1;
}

static int64_t time_of(const ASN1_TIME *at)
{
    struct tm tm;

    return at && ASN1_TIME_to_tm(at, &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}

static int64_t expiry_of(const X509 *certificate)
{
    return certificate ? time_of(X509_get0_notAfter(certificate)) : 0;
}

static void read_name(struct tls_context *context)
{
    const X509 *certificate = SSL_CTX_get0_certificate(context->ssl);

    if (certificate)
        X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, context->name,
                                  sizeof(context->name));
}

/* Return: 0, -ENOMEM, or TLS_E_INVALID. */
static int load(struct tls_context *context, const struct tls_files *files, struct problem *problem)
{
    CLEANUP(free_ssl) SSL_CTX *ssl = SSL_CTX_new(TLS_client_method());
    int r;

    if (!ssl)
        return -ENOMEM;
    SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION);
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION);
    /* ca_file may have just the authority that has signed, which need not sign itself. */
    X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(ssl), X509_V_FLAG_PARTIAL_CHAIN);
    SSL_CTX_set_default_passwd_cb(ssl, no_passphrase);
    r = use_authorities(ssl, files->ca_file, problem);
    if (!r)
        r = use_certificate(ssl, files, problem);
    if (r)
        return r;
    context->ssl = take(ssl);
    context->expiry = expiry_of(SSL_CTX_get0_certificate(context->ssl));
    read_name(context);
    return 0;
}

int tls_context_new(struct tls_context **out, const struct tls_files *files,
                    struct problem *problem)
{
    struct tls_context *context = calloc(1, sizeof(*context));
    int r;

    if (!context)
        return -ENOMEM;
    r = load(context, files, problem);
    if (r) {
        tls_context_free(context);
        return r;
    }
    *out = context;
    return 0;
}

void tls_context_take(struct tls_context *to, struct tls_context *from)
{
    const struct tls_context before = *to;

    *to = *from;
    *from = before;
}

int64_t tls_context_expiry(const struct tls_context *context)
{
    return context->expiry;
}

int64_t tls_file_expiry(const char *path)
{
    BIO *file = BIO_new_file(path, "r");
    X509 *certificate = file ? PEM_read_bio_X509(file, NULL, no_passphrase, NULL) : NULL;
    int64_t expiry = expiry_of(certificate);

    X509_free(certificate);
    BIO_free(file);
    ERR_clear_error();
    return expiry;
}

const char *tls_context_name(const struct tls_context *context)
{
    return context->name;
}

int64_t tls_first_expiry(int64_t a, int64_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

struct tls_context *tls_context_free(struct tls_context *context)
{
    if (context)
        SSL_CTX_free(context->ssl);
    free(context);
    return NULL;
}

/* ---- why a session has failed ---- */

static int fail(struct tls *tls, const char *why)
{
    snprintf(tls->why, sizeof(tls->why), "%s", why);
    ERR_clear_error();
    return -TLS_E_FAILED;
}

static int fail_verified(struct tls *tls, long verdict)
{
    tls->refused = true;
    tls_fault_of_certificate(tls->why, sizeof(tls->why), verdict, tls->name,
                             ", or set server_name to one");
    ERR_clear_error();
    return -TLS_E_FAILED;
}

/* An alert of the server, or what was wrong with the bytes that came. */
static int fail_protocol(struct tls *tls)
{
    tls->refused = tls_fault_of_error(tls->why, sizeof(tls->why), ERR_peek_error());
    ERR_clear_error();
    return -TLS_E_FAILED;
}

/* What SSL_do_handshake(), SSL_read() or SSL_write() has returned, which is not positive. Return: 0
 * if more input is needed. */
static int judge(struct tls *tls, int r)
{
    long verdict = SSL_get_verify_result(tls->ssl);

    switch (SSL_get_error(tls->ssl, r)) {
    case SSL_ERROR_WANT_READ:
        return 0;
    case SSL_ERROR_ZERO_RETURN:
        return fail(tls, "the server ended the session");
    default:
        return !SSL_is_init_finished(tls->ssl) && verdict != X509_V_OK ? fail_verified(tls, verdict)
                                                                       : fail_protocol(tls);
    }
}

/* ---- the BIO ---- */

static int read_input(BIO *bio, char *out, int size)
{
    struct tls *tls = BIO_get_data(bio);
    size_t n = tls->input.len < (size_t)size ? tls->input.len : (size_t)size;

    BIO_clear_retry_flags(bio);
    if (n == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    memcpy(out, tls->input.data, n);
    tls->input = bytes_of(tls->input.data + n, tls->input.len - n);
    return (int)n;
}

static int write_output(BIO *bio, const char *data, int len)
{
    struct tls *tls = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    buf_append(&tls->output, data, (size_t)len);
    return tls->output.failed ? -1 : len;
}

/* All that OpenSSL needs: a flush succeeds, and nothing else is supported. */
static long control(BIO *bio, int command, long number, void *pointer)
{
    return command == BIO_CTRL_FLUSH;
}

/* Return: of one kind for all sessions, never freed; NULL if memory is out. */
static BIO_METHOD *method(void)
{
    static BIO_METHOD *the_method;

    if (the_method)
        return the_method;
    the_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "memory of a stream");
    if (!the_method)
        return NULL;
    BIO_meth_set_read(the_method, read_input);
    BIO_meth_set_write(the_method, write_output);
    BIO_meth_set_ctrl(the_method, control);
    return the_method;
}

/* Return: 0 or -ENOMEM. */
static int set_bio(struct tls *tls)
{
    BIO *bio = method() ? BIO_new(method()) : NULL;

    if (!bio)
        return -ENOMEM;
    BIO_set_data(bio, tls);
    BIO_set_init(bio, 1);
    SSL_set_bio(tls->ssl, bio, bio);
    return 0;
}

/* ---- sessions ---- */

/* A number is compared with the addresses of a certificate, a name with its names. */
static int expect_name(struct tls *tls, const char *name)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(tls->ssl);

    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
                                               X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    if (X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1)
        return 0;
    ERR_clear_error();
    return X509_VERIFY_PARAM_set1_host(param, name, 0) == 1 &&
                   SSL_set_tlsext_host_name(tls->ssl, name) == 1
               ? 0
               : -ENOMEM;
}

/* Return: 0 or -ENOMEM; tls_free() is due in either case. */
static int begin(struct tls *tls, struct tls_context *context, const char *name)
{
    int r;

    tls->ssl = SSL_new(context->ssl);
    if (!tls->ssl || set_bio(tls) < 0)
        return -ENOMEM;
    SSL_set_connect_state(tls->ssl);
    r = expect_name(tls, name);
    if (!r)
        tls_handshake(tls);
    return r;
}

int tls_new(struct tls **out, struct tls_context *context, const char *name)
{
    struct tls *tls = calloc(1, sizeof(*tls));
    int r;

    if (!tls)
        return -ENOMEM;
    snprintf(tls->name, sizeof(tls->name), "%s", name);
    if (*name && tls->name[strlen(tls->name) - 1] == '.') /* of DNS alone */
        tls->name[strlen(tls->name) - 1] = '\0';
    memcpy(tls->own_name, context->name, sizeof(context->name));
    r = begin(tls, context, tls->name);
    if (r) {
        ERR_clear_error();
        tls_free(tls);
        return r;
    }
    *out = tls;
    return 0;
}

void tls_input(struct tls *tls, struct bytes cipher)
{
    assert(tls->input.len == 0);
    tls->input = cipher;
}

int tls_handshake(struct tls *tls)
{
    int r;

    ERR_clear_error(); /* SSL_get_error() looks at what other sessions have left there, too */
    r = SSL_do_handshake(tls->ssl);
    return r == 1 ? 1 : judge(tls, r);
}

int tls_read(struct tls *tls, void *out, size_t size)
{
    size_t got = 0;
    int n = 1;

    if (*tls->why)
        return -TLS_E_FAILED;
    while (n > 0 && got < size && (tls->input.len > 0 || SSL_has_pending(tls->ssl))) {
        ERR_clear_error();
        n = SSL_read(tls->ssl, (char *)out + got, (int)(size - got));
        got += n > 0 ? (size_t)n : 0;
    }
    n = n > 0 ? 0 : judge(tls, n);
    return got > 0 ? (int)got : n;
}

int tls_write(struct tls *tls, struct bytes plain)
{
    int n;

    if (*tls->why)
        return -TLS_E_FAILED;
    if (plain.len == 0)
        return 0;
    ERR_clear_error();
    n = SSL_write(tls->ssl, plain.data, (int)plain.len);
    if (n == (int)plain.len)
        return 0;
    return judge(tls, n) ? -TLS_E_FAILED : fail(tls, "the session cannot be written to");
}

struct buf *tls_output(struct tls *tls)
{
    return &tls->output;
}

const char *tls_why(const struct tls *tls)
{
    return tls->why;
}

bool tls_is_refused(const struct tls *tls)
{
    return tls->refused;
}

const char *tls_own_name(const struct tls *tls)
{
    return tls->own_name;
}

int64_t tls_peer_expiry(const struct tls *tls)
{
    const STACK_OF(X509) *chain = SSL_get0_verified_chain(tls->ssl);
    int64_t first = 0;

    for (int i = 0; chain && i < sk_X509_num(chain); i++)
        first = tls_first_expiry(first, expiry_of(sk_X509_value(chain, i)));
    return first;
}

struct tls *tls_free(struct tls *tls)
{
    if (!tls)
        return NULL;
    SSL_free(tls->ssl);
    buf_deinit(&tls->output);
    free(tls);
    return NULL;
}
