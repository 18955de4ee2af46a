// SPDX-License-Identifier: Apache-2.0
/*
 * Exit codes: their descriptions
 */
#pragma once

#include <stddef.h>

struct exit_text {
    int code; /* enum cli_exit */
    const char *text;
};

/* Return: the n-th; NULL after the last one. */
const struct exit_text *exit_text_at(size_t n);
