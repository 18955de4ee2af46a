// SPDX-License-Identifier: Apache-2.0
/*
 * Terminals: asks the system about a stream
 *
 * See cli/terminal.h. Called by cli.c, follow.c, follow_screen.c and bulk.c.
 */
#include "cli/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool terminal_is(FILE *to)
{
    return isatty(fileno(to));
}

bool terminal_redraws(FILE *to)
{
    const char *term = getenv("TERM");

    return terminal_is(to) && term && *term && strcmp(term, "dumb") != 0;
}

struct terminal_size terminal_size(FILE *to)
{
    struct winsize size;

    if (ioctl(fileno(to), TIOCGWINSZ, &size) < 0 || size.ws_row == 0 || size.ws_col == 0)
        return (struct terminal_size){.lines = 24, .columns = 80};
    return (struct terminal_size){.lines = size.ws_row, .columns = size.ws_col};
}
