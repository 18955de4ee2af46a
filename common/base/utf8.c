// SPDX-License-Identifier: Apache-2.0
/*
 * UTF-8: lengths, code points and kinds of characters
 *
 * See base/utf8.h.
 */
#include "base/utf8.h"

#include <string.h>

#include "base/cleanup.h"

size_t utf8_length(const char *s, size_t len)
{
    const uint8_t *b = (const uint8_t *)s;
    uint8_t low = b[0] == 0xe0 ? 0xa0 : b[0] == 0xf0 ? 0x90 : 0x80;
    uint8_t high = b[0] == 0xed ? 0x9f : b[0] == 0xf4 ? 0x8f : 0xbf;
    size_t n;

    if (b[0] < 0x80)
        return 1;
    if (b[0] < 0xc2 || b[0] > 0xf4)
        return 0;
    n = b[0] < 0xe0 ? 2 : b[0] < 0xf0 ? 3 : 4;
    if (len < n || b[1] < low || b[1] > high)
        return 0;
    for (size_t i = 2; i < n; i++) {
        if ((b[i] & 0xc0) != 0x80)
            return 0;
    }
    return n;
}

uint32_t utf8_code_point(const char *character, size_t len)
{
    const uint8_t *b = (const uint8_t *)character;
    uint32_t point = len == 1 ? b[0] : b[0] & (0x7fu >> len);

    for (size_t i = 1; i < len; i++)
        point = point << 6 | (b[i] & 0x3f);
    return point;
}

bool utf8_is_control(const char *character, size_t len)
{
    const uint8_t *b = (const uint8_t *)character;

    if (len <= 1)
        return len == 0 || b[0] < 0x20 || b[0] == 0x7f;
    return len == 2 && b[0] == 0xc2 && b[1] < 0xa0;
}

/* Whether a code point changes the direction of the text, or is invisible (Unicode 15). */
static bool is_deceptive(uint32_t point)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        {0xad, 0xad},       {0x34f, 0x34f},   {0x61c, 0x61c},     {0x115f, 0x1160},
        {0x17b4, 0x17b5},   {0x180b, 0x180f}, {0x200b, 0x200f},   {0x2028, 0x202e},
        {0x2060, 0x206f},   {0x3164, 0x3164}, {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},
        {0xffa0, 0xffa0},   {0xfff9, 0xfffb}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a},
        {0xe0000, 0xe01ef},
    };

    for (size_t i = 0; i < array_size(ranges) && point >= ranges[i].first; i++)
        if (point <= ranges[i].last)
            return true;
    return false;
}

bool utf8_is_harmful(const char *character, size_t len)
{
    return utf8_is_control(character, len) || is_deceptive(utf8_code_point(character, len));
}

bool utf8_valid(struct bytes text)
{
    for (size_t i = 0, len; i < text.len; i += len) {
        len = utf8_length((const char *)text.data + i, text.len - i);
        if (len == 0)
            return false;
    }
    return true;
}

size_t utf8_fit(const char *text, size_t max)
{
    size_t len = strnlen(text, max + 1);

    if (len <= max)
        return len;
    len = max;
    while (len > 0 && ((uint8_t)text[len] & 0xc0) == 0x80)
        len--;
    return len;
}

size_t utf8_copy(char *to, struct bytes from, size_t max, bool lines)
{
    const char *text = (const char *)from.data;
    size_t len = 0;

    for (size_t n; len < from.len; len += n) {
        bool printable = (unsigned char)text[len] >= ' ' && text[len] != 0x7f;
        bool line = lines && (text[len] == '\n' || text[len] == '\t');

        n = utf8_length(text + len, from.len - len);
        if (len + (n ? n : 1) > max)
            break;
        if (n > 0 && (printable || line)) {
            memcpy(to + len, text + len, n);
        } else {
            to[len] = '?';
            n = 1;
        }
    }
    to[len] = '\0';
    return len;
}
