// SPDX-License-Identifier: Apache-2.0
/*
 * librabbitmq's headers, wherever this release keeps them: in a folder since 0.12
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
