// SPDX-License-Identifier: Apache-2.0
/*
 * Addresses: parses HOST:PORT
 *
 * See io/address.h.
 */
#include "io/address.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

static const char shape[] = "must be HOST:PORT, or [ADDRESS]:PORT for IPv6";

static const char *take_host(struct bytes host, struct address *out)
{
    if (host.len == 0 || host.len > ADDRESS_HOST_MAX)
        return shape;
    for (size_t i = 0; i < host.len; i++)
        if (host.data[i] <= ' ' || host.data[i] > '~')
            return shape;
    memcpy(out->host, host.data, host.len);
    out->host[host.len] = '\0';
    return NULL;
}

static const char *take_port(struct bytes port, struct address *out)
{
    int64_t number;

    if (!bytes_to_i64(port, &number) || number < 0 || number > UINT16_MAX || port.data[0] == '-')
        return "must end in a port from 0 to 65535";
    snprintf(out->port, sizeof(out->port), "%d", (int)number);
    return NULL;
}

const char *address_parse(const char *text, struct address *out)
{
    const char *colon = strrchr(text, ':');
    struct bytes host = bytes_of(text, colon ? (size_t)(colon - text) : 0);
    bool bracketed = host.len > 2 && text[0] == '[' && colon[-1] == ']';
    const char *fault;

    if (!colon)
        return shape;
    if (bracketed)
        host = bytes_of(text + 1, host.len - 2);
    else if (strcspn(text, "[]:") < host.len)
        return shape;
    fault = take_host(host, out);
    return fault ? fault : take_port(bytes_str(colon + 1), out);
}
