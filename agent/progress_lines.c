// SPDX-License-Identifier: Apache-2.0
/*
 * Progress lines: cuts the text of a program into lines, and reads them
 *
 * Implements progress_lines.h; handler_exec.c calls it.
 */
#include "agent/progress_lines.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

void progress_lines_init(struct progress_lines *p)
{
    *p = (struct progress_lines){.fraction = -1, .note = ""};
}

/* Reads the first word, if it is a fraction: it begins with a digit and is not hexadecimal, so that
 * infinity is none. "-" is read as -1. Return: the end of the word, or NULL. */
static const char *read_fraction(const char *line, double *out)
{
    char *end = (char *)line;
    double value = -1;

    if (line[0] == '-')
        end++;
    else if (isdigit((unsigned char)line[0]) && line[1] != 'x' && line[1] != 'X')
        value = strtod(line, &end);
    if (end == line || (*end != ' ' && *end != '\0') || value > 1)
        return NULL;
    *out = value;
    return end;
}

static void line_ended(struct progress_lines *p)
{
    const char *end;

    memcpy(p->line, p->next, p->len);
    p->line[p->len] = '\0';
    p->len = 0;
    end = read_fraction(p->line, &p->fraction);
    p->note = end ? end + (*end == ' ') : p->line;
}

bool progress_lines_add(struct progress_lines *p, struct bytes data)
{
    bool ended = false;

    for (size_t i = 0; i < data.len; i++) {
        if (data.data[i] == '\n') {
            line_ended(p);
            ended = true;
        } else if (p->len < PROGRESS_LINE_MAX) {
            p->next[p->len++] = (char)data.data[i];
        }
    }
    return ended;
}
