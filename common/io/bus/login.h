// SPDX-License-Identifier: Apache-2.0
/*
 * Login: the methods by which a client opens a connection of AMQP 0-9-1
 *
 * Pure; used by the files of the link. The functions append frames to @out. Return: 0, -ENOMEM or
 * -EMSGSIZE; login_start_ok() also -ENOTSUP, if the broker does not offer the mechanism that is
 * configured.
 */
#pragma once

#include "io/bus/bus.h"
#include "io/bus/frame.h"

/* With these bytes a client begins. */
void login_greet(struct buf *out);

/* The mechanism by which to log in. */
const char *login_mechanism(const struct bus_config *config);

/* Answers connection.start: the name and the password. @role: ends the connection's name. */
int login_start_ok(struct buf *out, const struct bus_config *config, const char *role,
                   const struct frame_start *start);

/* What both sides agree to. */
struct login_limits {
    uint32_t frame_max; /* bytes */
    uint16_t heartbeat_s;
};

/* Answers connection.tune, and opens the virtual host. */
int login_open(struct buf *out, const struct bus_config *config, const amqp_connection_tune_t *tune,
               struct login_limits *agreed);

/* Return: why a server whose first bytes these are is no broker, for a person; NULL if it may be.
 */
const char *login_fault(struct bytes first);
