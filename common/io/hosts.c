// SPDX-License-Identifier: Apache-2.0
/*
 * Hosts: see io/hosts.h
 */
#include "io/hosts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

#define NAME_MAX_LEN 255 /* characters of a host name (RFC 1035) */

/* Reads one host of a list; writes NUL bytes into @item. Return: NULL, or the fault of the item. */
static const char *parse_item(char *item, int port, struct host *out)
{
    char *colon = strrchr(item, ':');
    char *close = strchr(item, ']');
    int64_t number = port;

    if (*item == '[') {
        if (!close || (close[1] && close[1] != ':'))
            return "must have the form [ADDRESS] or [ADDRESS]:PORT for IPv6";
        colon = close[1] ? close + 1 : NULL;
        *close = '\0';
        item++;
    } else if (colon && strchr(item, ':') != colon) {
        colon = NULL; /* IPv6 without brackets, and so without a port */
    }
    if (colon) {
        *colon = '\0';
        if (!bytes_to_i64(bytes_str(colon + 1), &number) || number < 1 || number > UINT16_MAX)
            return "must have ports from 1 to 65535";
    }
    if (!*item)
        return "must not have an empty name";
    if (strlen(item) > NAME_MAX_LEN)
        return "must have names of at most 255 characters";
    for (const char *c = item; *c; c++)
        if (*c <= ' ' || *c > '~' || strchr("/@[]", *c))
            return "must be names or numbers of hosts with a comma between them";
    *out = (struct host){.name = item, .port = (int)number};
    return NULL;
}

/* Return: NULL, or the fault of the list. */
static const char *parse(struct hosts *out, int port)
{
    char *rest = out->text;

    while (rest) {
        char *item = strsep(&rest, ",");
        const char *fault;

        if (out->n == HOSTS_MAX)
            return "must be at most 16 hosts";
        fault = parse_item(item, port, &out->list[out->n++]);
        if (fault)
            return fault;
    }
    return NULL;
}

int hosts_parse(struct hosts *out, const char *text, int port)
{
    *out = (struct hosts){.text = strdup(text)};
    if (!out->text)
        return -ENOMEM;
    if (!parse(out, port))
        return 0;
    hosts_deinit(out);
    return HOSTS_E_INVALID;
}

const char *hosts_fault(const char *text)
{
    struct hosts hosts = {.text = strdup(text)};
    const char *fault = hosts.text ? parse(&hosts, 1) : "cannot be checked: out of memory";

    hosts_deinit(&hosts);
    return fault;
}

void hosts_describe(char *out, size_t size, const char *text, int port)
{
    CLEANUP(hosts_deinit) struct hosts hosts = {0};
    size_t at = 0;

    if (hosts_parse(&hosts, text, port)) {
        snprintf(out, size, "%s", text);
        return;
    }
    for (size_t i = 0; i < hosts.n && at < size; i++) {
        const struct host *host = &hosts.list[i];
        bool v6 = strchr(host->name, ':') != NULL;

        at += (size_t)snprintf(out + at, size - at, "%s%s%s%s:%d", i ? "," : "", v6 ? "[" : "",
                               host->name, v6 ? "]" : "", host->port);
    }
}

void hosts_deinit(struct hosts *hosts)
{
    free(hosts->text);
    *hosts = (struct hosts){0};
}

/* FNV-1a of 32 bits. */
static uint32_t hash_of(const char *text, size_t len)
{
    uint32_t hash = UINT32_C(2166136261);

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (uint8_t)text[i]) * UINT32_C(16777619);
    return hash;
}

uint32_t hosts_hash(const char *text)
{
    return hash_of(text, strlen(text));
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Processes whose names end in consecutive numbers get consecutive numbers. */
static uint64_t number_of(const char *process)
{
    size_t stem = strlen(process);
    uint64_t number = 0;

    while (stem > 0 && is_digit(process[stem - 1]))
        stem--;
    for (const char *c = process + stem; *c; c++)
        number = number * 10 + (uint64_t)(*c - '0');
    return number + hash_of(process, stem);
}

size_t hosts_place(const struct hosts *hosts, const char *process, size_t nth)
{
    const uint64_t n = hosts->n, number = n ? number_of(process) : 0;

    if (n == 0)
        return 0;
    return (number % n + (number / n % 2 ? n - 1 : 1) * nth) % n;
}

static bool is_loopback_v4(uint32_t address)
{
    return ntohl(address) >> 24 == 127;
}

bool hosts_is_loopback(const struct sockaddr *address)
{
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;
    uint32_t v4;

    if (address->sa_family == AF_INET)
        return is_loopback_v4(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr);
    if (!IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
        return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
    memcpy(&v4, &v6->sin6_addr.s6_addr[12], sizeof(v4));
    return is_loopback_v4(v4);
}

/* Return: whether @host is a number; then *@local is whether it is of this machine. */
static bool read_number(const char *host, bool *local)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};

    if (inet_pton(AF_INET, host, &v4.sin_addr) == 1)
        *local = hosts_is_loopback((const struct sockaddr *)&v4);
    else if (inet_pton(AF_INET6, host, &v6.sin6_addr) == 1)
        *local = hosts_is_loopback((const struct sockaddr *)&v6);
    else
        return false;
    return true;
}

bool hosts_is_remote_number(const char *host)
{
    bool local;

    return read_number(host, &local) && !local;
}

bool hosts_is_local_number(const char *host)
{
    bool local;

    return read_number(host, &local) && local;
}

void hosts_clear_refused(char *out, size_t size, const char *host, const char *group)
{
    snprintf(
        out, size,
        "%s is no loopback address, and clear text can be read and changed on the way: use TLS "
        "(%s.tls = true), or add the line insecure = true; to the group %s",
        host, group, group);
}
