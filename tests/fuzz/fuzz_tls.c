// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz: what a server may send to a client that begins a TLS session
 *
 * The first byte says after how many bytes the session reads each time; the rest comes from the
 * server. Nobody can make a session that is verified out of chance, so the checks are: nothing is
 * read as plain text, a session that has failed has a text, and what it sends stays small.
 */
#include <assert.h>

#include "fuzz.h"
#include "io/tls.h"

#define OUTPUT_MAX 65536

static struct tls_context *context(void)
{
    static struct tls_context *the_context;
    const struct tls_files files = {"", "", ""};
    struct problem problem = {0};

    if (!the_context)
        assert(tls_context_new(&the_context, &files, &problem) == 0);
    return the_context;
}

/* Return: as tls_handshake(). */
static int read_part(struct tls *tls, struct bytes part)
{
    int r;

    tls_input(tls, part);
    r = tls_handshake(tls);
    assert(r == 0 || r == -TLS_E_FAILED);
    assert((r == 0) == (*tls_why(tls) == '\0'));
    assert(tls_output(tls)->len < OUTPUT_MAX);
    buf_clear(tls_output(tls));
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes input = bytes_of(data, size);
    size_t cut = (size_t)fuzz_byte(&input) + 1;
    struct tls *tls = NULL;
    int r = 0;

    fuzz_begin();
    assert(tls_new(&tls, context(), "broker.example") == 0);
    while (r == 0 && input.len > 0) {
        size_t len = input.len < cut ? input.len : cut;

        r = read_part(tls, bytes_of(input.data, len));
        input = bytes_of(input.data + len, input.len - len);
    }
    tls_free(tls);
    return 0;
}
