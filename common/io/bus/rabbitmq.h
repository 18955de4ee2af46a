// SPDX-License-Identifier: Apache-2.0
/*
 * Includes the headers of librabbitmq, which are in a folder since release 0.12
 *
 * Included by the bus and bench.
 */
#pragma once

#if __has_include(<rabbitmq-c/amqp.h>)
#include <rabbitmq-c/amqp.h>
#include <rabbitmq-c/framing.h>
#include <rabbitmq-c/tcp_socket.h>
#else
#include <amqp.h>
#include <amqp_framing.h>
#include <amqp_tcp_socket.h>
#endif
