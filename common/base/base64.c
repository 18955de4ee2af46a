// SPDX-License-Identifier: Apache-2.0
/*
 * Base64: decodes either alphabet, padded or not; model/json.c encodes
 *
 * See base/base64.h.
 */
#include "base/base64.h"

/* Return: the six bits that a character stands for; -1 if it is not one of base64. */
static int bits_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+' || c == '-')
        return 62;
    return c == '/' || c == '_' ? 63 : -1;
}

bool base64_decode(const char *text, size_t len, uint8_t *out, size_t *out_len)
{
    uint32_t bits = 0;
    size_t n = 0;

    if (len % 4 == 0 && len > 0 && text[len - 1] == '=')
        len -= text[len - 2] == '=' ? 2 : 1;
    if (len % 4 == 1)
        return false;
    for (size_t i = 0; i < len; i++) {
        int six = bits_of(text[i]);

        if (six < 0)
            return false;
        bits = bits << 6 | (uint32_t)six;
        if (i % 4 != 0)
            out[n++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
    }
    *out_len = n;
    return true;
}
