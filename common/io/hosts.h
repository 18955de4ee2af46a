// SPDX-License-Identifier: Apache-2.0
/*
 * Hosts: the list of servers to which a connection may lead
 *
 * As text: "a", "a:5673", "[::1]:5673", "::1", or several of these with a comma between them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/status.h"

#define HOSTS_MAX 16

struct host {
    const char *name; /* a name or a number, without brackets */
    int port;
};

struct hosts {
    struct host list[HOSTS_MAX];
    size_t n;
    char *text; /* that the names point into; owned */
};

enum {
    HOSTS_E_INVALID = 1,
};

/**
 * hosts_parse() - read a list
 * @out:  the caller releases it with hosts_deinit(); empty unless 0 is returned
 * @port: of the hosts that name none
 *
 * Return: 0, -ENOMEM, or HOSTS_E_INVALID: hosts_fault() describes the fault.
 */
int hosts_parse(struct hosts *out, const char *text, int port);

/* Return: NULL; or the fault of a list, for a person. */
const char *hosts_fault(const char *text);

/* Says where a list leads, for a person: each host with its port. @port: of the hosts that name
 * none. */
void hosts_describe(char *out, size_t size, const char *text, int port);

/* Accepts hosts that are all zero. */
void hosts_deinit(struct hosts *hosts);
static inline void hosts_deinit_p(struct hosts *hosts)
{
    hosts_deinit(hosts);
}

/**
 * hosts_place() - which host a process tries as its nth one, from 0 on
 * @process: its name
 *
 * Each process begins with a host of its own and then tries the next ones in the list, or those
 * before. So many processes spread over the hosts, and those of one host over its two neighbours
 * should it fail; evenly if their names differ only by the numbers at their ends.
 */
size_t hosts_place(const struct hosts *hosts, const char *process, size_t nth);

/* A hash of a text (FNV-1a). */
uint32_t hosts_hash(const char *text);

/* Clear text may go to this machine only, unless a setting allows more: whether an address is of
 * this machine (loopback); whether a host is a number, and not of this machine. */
bool hosts_is_loopback(const struct sockaddr *address);
bool hosts_is_remote_number(const char *host);

/* Whether a host is a number, and of this machine. */
bool hosts_is_local_number(const char *host);

/* Says why clear text to a host is refused, and what to do. @group: of settings, such as
 * "rabbitmq". */
void hosts_clear_refused(char *out, size_t size, const char *host, const char *group);
