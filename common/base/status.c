// SPDX-License-Identifier: Apache-2.0
/*
 * Problems: records what is wrong, and where
 *
 * See base/status.h.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "base/str.h"
#include "base/utf8.h"

/*
 * A problem quotes what a client or an agent has sent, and goes into a protobuf string, which must
 * be UTF-8: one byte that is not, or a part of a character, and the client could not decode the
 * answer.
 */
static void scrub(char *text)
{
    size_t len = strlen(text);

    for (size_t i = 0; i < len;) {
        size_t n = utf8_length(text + i, len - i);
        bool harmful = utf8_is_harmful(text + i, n);

        n = n ? n : 1;
        if (harmful)
            memset(text + i, '?', n);
        i += n;
    }
}

void problem_set(struct problem *p, const char *field, const char *reason, ...)
{
    va_list args;

    if (!p)
        return;
    snprintf(p->field, sizeof(p->field), "%s", field);
    va_start(args, reason);
    vsnprintf(p->reason, sizeof(p->reason), reason, args);
    va_end(args);
    scrub(p->field);
    scrub(p->reason);
}
