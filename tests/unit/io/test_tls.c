// SPDX-License-Identifier: Apache-2.0
/*
 * TLS: sessions over memory with a server of OpenSSL, certificates that are wrong in one way, files
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "io/tls.h"

#define DAY 86400L
#define PATH_LEN 128

static char folder[] = "/tmp/drover-tls-XXXXXX";

/* ---- certificates ---- */

/* A key and its certificate, in memory and as files. */
struct identity {
    EVP_PKEY *key;
    X509 *cert;
    char cert_path[PATH_LEN];
    char key_path[PATH_LEN];
};

/* What a certificate is to be. */
struct wanted {
    const char *name;
    const char *hosts;         /* as in "DNS:localhost,IP:127.0.0.1"; NULL for an authority */
    const struct identity *by; /* who signs; NULL: itself */
    long from, until;          /* seconds from now */
    const char *purpose;       /* as in "clientAuth"; NULL: any */
    const char *passphrase;    /* of the key file; NULL: none */
};

static struct identity authority, other_authority;

static void add_extension(X509 *cert, int nid, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

    assert_non_null(extension);
    assert_int_equal(X509_add_ext(cert, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

static X509 *sign(const struct wanted *w, EVP_PKEY *key)
{
    static long serial = 1;
    X509 *cert = X509_new();
    X509_NAME *subject = X509_get_subject_name(cert);

    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), serial++);
    X509_gmtime_adj(X509_getm_notBefore(cert), w->from);
    X509_gmtime_adj(X509_getm_notAfter(cert), w->until);
    X509_set_pubkey(cert, key);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, (const unsigned char *)w->name, -1, -1,
                               0);
    X509_set_issuer_name(cert, w->by ? X509_get_subject_name(w->by->cert) : subject);
    add_extension(cert, NID_basic_constraints, w->hosts ? "CA:FALSE" : "critical,CA:TRUE");
    if (w->hosts)
        add_extension(cert, NID_subject_alt_name, w->hosts);
    if (w->purpose)
        add_extension(cert, NID_ext_key_usage, w->purpose);
    assert_true(X509_sign(cert, w->by ? w->by->key : key, EVP_sha256()) > 0);
    return cert;
}

static FILE *create(const char *path, mode_t mode)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(chmod(path, mode), 0);
    return file;
}

static struct identity identity_new(struct wanted w)
{
    struct identity it = {.key = EVP_EC_gen("P-256")};
    FILE *file;

    w.from = w.from ? w.from : -DAY;
    w.until = w.until ? w.until : 30 * DAY;
    it.cert = sign(&w, it.key);
    snprintf(it.cert_path, sizeof(it.cert_path), "%s/%s.cert", folder, w.name);
    snprintf(it.key_path, sizeof(it.key_path), "%s/%s.key", folder, w.name);
    file = create(it.cert_path, 0644);
    assert_int_equal(PEM_write_X509(file, it.cert), 1);
    fclose(file);
    file = create(it.key_path, 0600);
    assert_int_equal(PEM_write_PKCS8PrivateKey(file, it.key,
                                               w.passphrase ? EVP_aes_256_cbc() : NULL, NULL, 0,
                                               NULL, (void *)w.passphrase),
                     1);
    fclose(file);
    return it;
}

static void identity_free(struct identity *it)
{
    EVP_PKEY_free(it->key);
    X509_free(it->cert);
    unlink(it->cert_path);
    unlink(it->key_path);
}

/* ---- a session and its server ---- */

struct fixture {
    struct tls_context *context;
    struct tls *tls;
    SSL_CTX *server_context;
    SSL *server;
    BIO *to_server, *from_server;
    int result;     /* of the last tls_handshake() */
    int n_read;     /* of the last tls_read() in to_client() ... */
    char read[100]; /* ... which wrote to this */
};

static void begin_server(struct fixture *f, const struct identity *it)
{
    f->server_context = SSL_CTX_new(TLS_server_method());
    assert_int_equal(SSL_CTX_use_certificate(f->server_context, it->cert), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(f->server_context, it->key), 1);
}

static void begin_client(struct fixture *f, const struct identity *ca, const struct identity *own,
                         const char *name)
{
    const struct tls_files files = {
        .ca_file = ca->cert_path,
        .cert_file = own ? own->cert_path : "",
        .key_file = own ? own->key_path : "",
    };
    struct problem problem = {0};

    if (tls_context_new(&f->context, &files, &problem) != 0)
        fail_msg("%s: %s", problem.field, problem.reason);
    assert_int_equal(tls_new(&f->tls, f->context, name), 0);
}

static void begin_session(struct fixture *f)
{
    f->server = SSL_new(f->server_context);
    f->to_server = BIO_new(BIO_s_mem());
    f->from_server = BIO_new(BIO_s_mem());
    BIO_set_mem_eof_return(f->to_server, -1);
    SSL_set_bio(f->server, f->to_server, f->from_server);
    SSL_set_accept_state(f->server);
    f->result = f->n_read = 0;
}

static void to_server(struct fixture *f)
{
    struct buf *out = tls_output(f->tls);

    if (out->len > 0)
        assert_int_equal(BIO_write(f->to_server, out->data, (int)out->len), out->len);
    buf_clear(out);
}

/* Passes on what the server has to say, @step bytes at a time, and reads it. Return: whether there
 * was any. */
static bool to_client(struct fixture *f, int step)
{
    static char bytes[65536];
    bool any = false;

    for (int n; (n = BIO_read(f->from_server, bytes, step)) > 0; any = true) {
        tls_input(f->tls, bytes_of(bytes, (size_t)n));
        if (f->result == 0)
            f->result = tls_handshake(f->tls);
        if (f->result == 1)
            f->n_read = tls_read(f->tls, f->read, sizeof(f->read));
        if (f->result < 0 || f->n_read < 0)
            return false;
    }
    return any;
}

/* Goes on with the handshake until neither side has anything to say. */
static void shake_hands(struct fixture *f, int step)
{
    do {
        to_server(f);
        SSL_do_handshake(f->server);
    } while (to_client(f, step));
}

static void end(struct fixture *f)
{
    tls_free(f->tls);
    tls_context_free(f->context);
    SSL_free(f->server);
    SSL_CTX_free(f->server_context);
}

/* ---- handshakes ---- */

static void send_and_read(struct fixture *f)
{
    static char sent[100000], read[200000];
    int n, got = 0;

    memset(sent, 'x', sizeof(sent));
    assert_int_equal(tls_write(f->tls, bytes_of(sent, sizeof(sent))), 0);
    assert_int_equal(tls_write(f->tls, BYTES_EMPTY), 0);
    to_server(f);
    while ((n = SSL_read(f->server, read + got, (int)sizeof(read) - got)) > 0)
        got += n;
    assert_int_equal(got, sizeof(sent));
    assert_memory_equal(read, sent, sizeof(sent));
    assert_int_equal(SSL_write(f->server, "answer", 6), 6);
    to_client(f, 65536);
    assert_int_equal(f->n_read, 6);
    assert_memory_equal(f->read, "answer", 6);
    assert_int_equal(tls_read(f->tls, read, sizeof(read)), 0);
}

static void expect_good(const char *hosts, const char *name, int step)
{
    struct identity server =
        identity_new((struct wanted){.name = "server", .hosts = hosts, .by = &authority});
    struct fixture f = {0};

    begin_server(&f, &server);
    begin_client(&f, &authority, NULL, name);
    begin_session(&f);
    shake_hands(&f, step);
    if (f.result != 1)
        fail_msg("%s, %s: %s", hosts, name, tls_why(f.tls));
    send_and_read(&f);
    assert_true(llabs(tls_peer_expiry(f.tls) - (time(NULL) + 30 * DAY)) < DAY);
    end(&f);
    identity_free(&server);
}

static void test_good(void **state)
{
    expect_good("DNS:localhost", "localhost", 65536);
    expect_good("DNS:a.example,DNS:b.example", "b.example", 1);
    expect_good("DNS:*.b.example", "a.b.example", 7);
    expect_good("IP:127.0.0.1", "127.0.0.1", 65536);
    expect_good("DNS:x,IP:::1", "::1", 65536);
    expect_good("DNS:a.example", "a.example.", 65536);
}

static void expect_refused(struct wanted w, const char *name, const char *why)
{
    struct identity server;
    struct fixture f = {0};

    w.name = "server";
    server = identity_new(w);
    begin_server(&f, &server);
    begin_client(&f, &authority, NULL, name);
    begin_session(&f);
    shake_hands(&f, 65536);
    assert_int_equal(f.result, -TLS_E_FAILED);
    if (!strstr(tls_why(f.tls), why))
        fail_msg("'%s' does not say '%s'", tls_why(f.tls), why);
    assert_true(tls_is_refused(f.tls));
    end(&f);
    identity_free(&server);
}

static void test_refused_certificates(void **state)
{
    const char *host = "DNS:localhost";

    expect_refused((struct wanted){.hosts = host, .by = &authority}, "other",
                   "its certificate is not for other");
    expect_refused((struct wanted){.hosts = host, .by = &authority}, "127.0.0.1",
                   "its certificate is not for 127.0.0.1");
    expect_refused((struct wanted){.hosts = "IP:127.0.0.2", .by = &authority}, "127.0.0.1",
                   "its certificate is not for 127.0.0.1");
    expect_refused((struct wanted){.hosts = "DNS:*.b.example", .by = &authority}, "c.a.b.example",
                   "its certificate is not for c.a.b.example");
    expect_refused((struct wanted){.hosts = "DNS:a*.b.example", .by = &authority}, "aa.b.example",
                   "its certificate is not for aa.b.example");
    expect_refused((struct wanted){.hosts = host, .by = &other_authority}, "localhost",
                   "is of an authority that is not in ca_file");
    expect_refused((struct wanted){.hosts = host}, "localhost",
                   "is of an authority that is not in ca_file (self");
    expect_refused(
        (struct wanted){.hosts = host, .by = &authority, .from = -2 * DAY, .until = -DAY},
        "localhost", "has expired");
    expect_refused((struct wanted){.hosts = host, .by = &authority, .from = DAY}, "localhost",
                   "is not valid yet");
    expect_refused((struct wanted){.hosts = host, .by = &authority, .purpose = "clientAuth"},
                   "localhost", "certificate purpose");
}

static void test_old_version(void **state)
{
    struct identity server =
        identity_new((struct wanted){.name = "server", .hosts = "DNS:x", .by = &authority});
    struct fixture f = {0};

    begin_server(&f, &server);
    SSL_CTX_set_security_level(f.server_context, 0);
    SSL_CTX_set_min_proto_version(f.server_context, TLS1_VERSION);
    SSL_CTX_set_max_proto_version(f.server_context, TLS1_1_VERSION);
    begin_client(&f, &authority, NULL, "x");
    begin_session(&f);
    shake_hands(&f, 65536);
    assert_int_equal(f.result, -TLS_E_FAILED);
    assert_string_equal(tls_why(f.tls),
                        "it does not speak TLS 1.2 or later: update it, or its settings");
    assert_true(tls_is_refused(f.tls));
    end(&f);
    identity_free(&server);
}

/* Bytes of a server that is none of TLS. */
static void expect_no_tls(struct bytes answer, const char *why)
{
    struct fixture f = {0};

    begin_client(&f, &authority, NULL, "x");
    tls_input(f.tls, answer);
    f.result = tls_handshake(f.tls);
    if (why) {
        assert_int_equal(f.result, -TLS_E_FAILED);
        assert_string_equal(tls_why(f.tls), why);
    } else {
        assert_int_equal(f.result, 0);
    }
    end(&f);
}

static void test_no_tls(void **state)
{
    static const uint8_t half[] = {0x16, 3, 3, 0, 90, 2, 0};
    const char *why = "it does not speak TLS at this port: correct the port or the scheme";

    expect_no_tls(bytes_str("HTTP/1.1 400 Bad Request\r\n\r\n"), why);
    expect_no_tls(bytes_of("AMQP\0\0\x09\x01", 8), why);
    expect_no_tls(bytes_str("-ERR Protocol error\r\n"), why);
    expect_no_tls(bytes_of(half, sizeof(half)), NULL);
}

/* The server wants a certificate of the client. @own: which it gets; @why: it refuses that, NULL:
 * it does not. With TLS 1.3 the refusal comes after the handshake. */
static void expect_client(int version, const struct identity *own, const char *why)
{
    struct identity server =
        identity_new((struct wanted){.name = "server", .hosts = "DNS:x", .by = &authority});
    struct fixture f = {0};
    char byte;

    begin_server(&f, &server);
    SSL_CTX_set_verify(f.server_context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_load_verify_locations(f.server_context, authority.cert_path, NULL);
    SSL_CTX_set_max_proto_version(f.server_context, version);
    begin_client(&f, &authority, own, "x");
    begin_session(&f);
    shake_hands(&f, 65536);
    if (!why || version == TLS1_3_VERSION) {
        assert_int_equal(f.result, 1);
        f.result = tls_read(f.tls, &byte, 1);
    }
    assert_int_equal(f.result, why ? -TLS_E_FAILED : 0);
    if (why && !strstr(tls_why(f.tls), why))
        fail_msg("%s", tls_why(f.tls));
    assert_int_equal(tls_is_refused(f.tls), why != NULL);
    end(&f);
    identity_free(&server);
}

static void test_client_certificates(void **state)
{
    struct identity good =
        identity_new((struct wanted){.name = "client", .hosts = "DNS:c", .by = &authority});
    struct identity bad =
        identity_new((struct wanted){.name = "stranger", .hosts = "DNS:c", .by = &other_authority});

    expect_client(TLS1_3_VERSION, &good, NULL);
    expect_client(TLS1_3_VERSION, &bad, "it refuses the certificate of cert_file");
    expect_client(TLS1_3_VERSION, NULL, "it refuses the certificate of cert_file");
    expect_client(TLS1_2_VERSION, &good, NULL);
    expect_client(TLS1_2_VERSION, &bad, "it refuses the certificate of cert_file");
    expect_client(TLS1_2_VERSION, NULL, "it wants a certificate of cert_file");
    identity_free(&good);
    identity_free(&bad);
}

/* The server ends the session: that is no refusal. */
static void test_end_of_session(void **state)
{
    struct identity server =
        identity_new((struct wanted){.name = "server", .hosts = "DNS:x", .by = &authority});
    struct fixture f = {0};
    char byte;

    begin_server(&f, &server);
    begin_client(&f, &authority, NULL, "x");
    begin_session(&f);
    shake_hands(&f, 65536);
    assert_int_equal(f.result, 1);
    SSL_shutdown(f.server);
    to_client(&f, 65536);
    assert_int_equal(tls_read(f.tls, &byte, 1), -TLS_E_FAILED);
    assert_string_equal(tls_why(f.tls), "the server ended the session");
    assert_false(tls_is_refused(f.tls));
    end(&f);
    identity_free(&server);
}

/* Passes on what the server has to say, but for one byte. @at: where it is; negative: from the end.
 */
static void damage(struct fixture *f, long at)
{
    char *bytes;
    long n = BIO_get_mem_data(f->from_server, &bytes);

    assert_true(n > labs(at));
    bytes[at < 0 ? n + at : at] ^= 1;
    tls_input(f->tls, bytes_of(bytes, (size_t)n));
}

static void expect_failed(struct fixture *f, int result, const char *why)
{
    assert_int_equal(result, -TLS_E_FAILED);
    if (!strstr(tls_why(f->tls), why))
        fail_msg("'%s' does not say '%s'", tls_why(f->tls), why);
    assert_false(tls_is_refused(f->tls));
}

/* What was damaged on the way is no refusal, and the session is of no use any more. */
static void test_damaged_record(void **state)
{
    struct identity server =
        identity_new((struct wanted){.name = "server", .hosts = "DNS:x", .by = &authority});
    struct fixture f = {0};
    char byte;

    begin_server(&f, &server);
    begin_client(&f, &authority, NULL, "x");
    begin_session(&f);
    shake_hands(&f, 65536);
    assert_int_equal(f.result, 1);
    assert_int_equal(SSL_write(f.server, "answer", 6), 6);
    damage(&f, -1);
    expect_failed(&f, tls_read(f.tls, &byte, 1), "bad record mac");
    expect_failed(&f, tls_read(f.tls, &byte, 1), "bad record mac");
    expect_failed(&f, tls_write(f.tls, bytes_str("question")), "bad record mac");
    end(&f);
    identity_free(&server);
}

/* One call reads all records that have come, as far as there is room, and fails only after what
 * came before the damage. */
static void test_records(void **state)
{
    struct identity server =
        identity_new((struct wanted){.name = "server", .hosts = "DNS:x", .by = &authority});
    struct fixture f = {0};
    char read[10];

    begin_server(&f, &server);
    begin_client(&f, &authority, NULL, "x");
    begin_session(&f);
    shake_hands(&f, 65536);
    assert_int_equal(f.result, 1);
    for (int i = 0; i < 4; i++)
        assert_int_equal(SSL_write(f.server, "answer", 6), 6);
    damage(&f, -1);
    assert_int_equal(tls_read(f.tls, read, sizeof(read)), 10);
    assert_memory_equal(read, "answeransw", 10);
    assert_int_equal(tls_read(f.tls, read, sizeof(read)), 8);
    assert_memory_equal(read, "eranswer", 8);
    expect_failed(&f, tls_read(f.tls, read, sizeof(read)), "bad record mac");
    end(&f);
    identity_free(&server);
}

/* Where the certificate begins in what the server has to say. */
static long place_of(const struct fixture *f, X509 *cert)
{
    unsigned char *der = NULL;
    int len = i2d_X509(cert, &der);
    char *bytes, *found;
    long n = BIO_get_mem_data(f->from_server, &bytes);

    assert_true(len > 0);
    found = memmem(bytes, (size_t)n, der, (size_t)len);
    assert_non_null(found);
    OPENSSL_free(der);
    return found - bytes;
}

static void test_damaged_certificate(void **state)
{
    struct identity server =
        identity_new((struct wanted){.name = "server", .hosts = "DNS:x", .by = &authority});
    struct fixture f = {0};

    begin_server(&f, &server);
    SSL_CTX_set_max_proto_version(f.server_context, TLS1_2_VERSION); /* later ones encrypt it */
    begin_client(&f, &authority, NULL, "x");
    begin_session(&f);
    to_server(&f);
    SSL_do_handshake(f.server);
    damage(&f, place_of(&f, server.cert));
    expect_failed(&f, tls_handshake(f.tls), "tag");
    end(&f);
    identity_free(&server);
}

/* Plain text waits for the end of the handshake. */
static void test_early_write(void **state)
{
    struct fixture f = {0};

    begin_client(&f, &authority, NULL, "x");
    expect_failed(&f, tls_write(f.tls, bytes_str("question")), "cannot be written to");
    assert_int_equal(tls_peer_expiry(f.tls), 0);
    end(&f);
}

/* OpenSSL would verify no name at all. */
static void test_no_name(void **state)
{
    struct tls *tls = NULL;
    struct fixture f = {0};

    begin_client(&f, &authority, NULL, "x");
    assert_int_equal(tls_new(&tls, f.context, ""), -ENOMEM);
    assert_int_equal(tls_new(&tls, f.context, "."), -ENOMEM);
    assert_null(tls);
    end(&f);
}

/* Sessions that begin after a change of certificates use the new ones. */
static void test_rotation(void **state)
{
    struct identity server =
        identity_new((struct wanted){.name = "server", .hosts = "DNS:x", .by = &other_authority});
    const struct tls_files files = {other_authority.cert_path, "", ""};
    struct tls_context *next = NULL;
    struct problem problem = {0};
    struct fixture f = {0};

    begin_server(&f, &server);
    begin_client(&f, &authority, NULL, "x");
    begin_session(&f);
    assert_int_equal(tls_context_new(&next, &files, &problem), 0);
    tls_context_take(f.context, next);
    tls_context_free(next);
    shake_hands(&f, 65536);
    assert_int_equal(f.result, -TLS_E_FAILED); /* it has begun before */
    tls_free(f.tls);
    SSL_free(f.server);
    assert_int_equal(tls_new(&f.tls, f.context, "x"), 0);
    begin_session(&f);
    shake_hands(&f, 65536);
    assert_int_equal(f.result, 1);
    end(&f);
    identity_free(&server);
}

/* ---- files ---- */

static void expect_bad_files(struct tls_files files, const char *field, const char *reason)
{
    struct tls_context *context = NULL;
    struct problem problem = {0};

    assert_int_equal(tls_context_new(&context, &files, &problem), TLS_E_INVALID);
    assert_null(context);
    assert_string_equal(problem.field, field);
    if (!strstr(problem.reason, reason))
        fail_msg("'%s' does not say '%s'", problem.reason, reason);
}

/* OpenSSL compares a key only with a certificate of its own kind. */
static void test_key_of_another_kind(void **state)
{
    struct identity own =
        identity_new((struct wanted){.name = "own", .hosts = "DNS:c", .by = &authority});
    EVP_PKEY *key = EVP_RSA_gen(2048);
    FILE *file = create(own.key_path, 0600);

    assert_int_equal(PEM_write_PKCS8PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
    fclose(file);
    expect_bad_files((struct tls_files){authority.cert_path, own.cert_path, own.key_path},
                     "key_file", "belongs to");
    EVP_PKEY_free(key);
    identity_free(&own);
}

static void test_files(void **state)
{
    struct identity own =
        identity_new((struct wanted){.name = "own", .hosts = "DNS:c", .by = &authority});
    struct identity locked = identity_new((struct wanted){
        .name = "locked", .hosts = "DNS:c", .by = &authority, .passphrase = "secret"});
    char empty[PATH_LEN], nothing[PATH_LEN];
    const char *ca = authority.cert_path, *cert = own.cert_path, *key = own.key_path;
    const struct tls_files good = {ca, cert, key};
    struct tls_context *context = NULL;
    struct problem problem = {0};

    snprintf(empty, sizeof(empty), "%s/empty", folder);
    snprintf(nothing, sizeof(nothing), "%s/nothing", folder);
    fclose(create(empty, 0600));
    expect_bad_files((struct tls_files){nothing, "", ""}, "ca_file", "No such file");
    expect_bad_files((struct tls_files){empty, "", ""}, "ca_file", "has no certificate in PEM");
    expect_bad_files((struct tls_files){ca, cert, ""}, "key_file", "is missing");
    expect_bad_files((struct tls_files){ca, "", key}, "cert_file", "is missing");
    expect_bad_files((struct tls_files){ca, nothing, key}, "cert_file", "No such file");
    expect_bad_files((struct tls_files){ca, empty, key}, "cert_file", "has no certificate in PEM");
    expect_bad_files((struct tls_files){ca, cert, nothing}, "key_file", "No such file");
    expect_bad_files((struct tls_files){ca, cert, empty}, "key_file", "has no private key");
    expect_bad_files((struct tls_files){ca, cert, locked.key_path}, "key_file",
                     "has no private key");
    expect_bad_files((struct tls_files){ca, locked.cert_path, locked.key_path}, "key_file",
                     "without a passphrase");
    assert_int_equal(chmod(key, 0640), 0); /* a group that shares it is all right */
    assert_int_equal(tls_context_new(&context, &good, &problem), 0);
    assert_true(llabs(tls_context_expiry(context) - (time(NULL) + 30 * DAY)) < DAY);
    assert_string_equal(tls_context_name(context), "own");
    tls_context_free(context);
    assert_int_equal(chmod(key, 0604), 0);
    expect_bad_files(good, "key_file", "everybody can read");
    unlink(empty);
    identity_free(&own);
    identity_free(&locked);
}

static void test_authorities_of_the_system(void **state)
{
    const struct tls_files files = {"", "", ""};
    struct tls_context *context = NULL;
    struct problem problem = {0};

    assert_int_equal(tls_context_new(&context, &files, &problem), 0);
    assert_int_equal(tls_context_expiry(context), 0);
    assert_string_equal(tls_context_name(context), "");
    tls_context_free(context);
}

static void test_first_expiry(void **state)
{
    assert_int_equal(tls_first_expiry(0, 0), 0);
    assert_int_equal(tls_first_expiry(0, 7), 7);
    assert_int_equal(tls_first_expiry(7, 0), 7);
    assert_int_equal(tls_first_expiry(7, 8), 7);
    assert_int_equal(tls_first_expiry(8, 7), 7);
}

/* -------------------------------------------------------------------------------------------- */

static int make_authorities(void **state)
{
    if (!mkdtemp(folder))
        return -1;
    authority = identity_new((struct wanted){.name = "authority"});
    other_authority = identity_new((struct wanted){.name = "other"});
    return 0;
}

static int remove_authorities(void **state)
{
    identity_free(&authority);
    identity_free(&other_authority);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_refused_certificates),
        cmocka_unit_test(test_old_version),
        cmocka_unit_test(test_no_tls),
        cmocka_unit_test(test_client_certificates),
        cmocka_unit_test(test_end_of_session),
        cmocka_unit_test(test_damaged_record),
        cmocka_unit_test(test_records),
        cmocka_unit_test(test_damaged_certificate),
        cmocka_unit_test(test_early_write),
        cmocka_unit_test(test_no_name),
        cmocka_unit_test(test_rotation),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_key_of_another_kind),
        cmocka_unit_test(test_authorities_of_the_system),
        cmocka_unit_test(test_first_expiry),
    };

    return cmocka_run_group_tests(tests, make_authorities, remove_authorities);
}
