// SPDX-License-Identifier: Apache-2.0
/*
 * Address: HOST:PORT or [IPV6]:PORT, as one writes it in a setting
 */
#pragma once

#include <stdint.h>

#define ADDRESS_HOST_MAX 255 /* characters, of the longest name there is */

struct address {
    char host[ADDRESS_HOST_MAX + 1]; /* a name or a number; without brackets */
    char port[sizeof("65535")];      /* decimal; 0: any that is free, where one listens */
};

/* Return: NULL, or what a person should hear of @text; *out is then not to be used. */
const char *address_parse(const char *text, struct address *out);
