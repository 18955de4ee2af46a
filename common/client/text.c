// SPDX-License-Identifier: Apache-2.0
/*
 * Texts of messages that protobuf-c has allocated, or that are freed like these
 *
 * Called by jobs.c, payload.c and clients.
 */
#include "client/text.h"

#include <errno.h>
#include <protobuf-c/protobuf-c.h>
#include <stdlib.h>
#include <string.h>

int text_set(char **field, const char *text)
{
    char *copy = strdup(text);

    if (!copy)
        return -ENOMEM;
    if (*field != protobuf_c_empty_string)
        free(*field);
    *field = copy;
    return 0;
}
