// SPDX-License-Identifier: Apache-2.0
/*
 * Names of headers, and of what the bus uses for itself
 *
 * Used by the bus alone.
 */
#pragma once

#include "base/id.h"

#define BUS_TRACE_HEADER "traceparent"
#define BUS_JOB_HEADER "drover-job"
#define BUS_STEP_HEADER "drover-step"
#define BUS_DEATH_HEADER "x-first-death-reason" /* set by the broker */
#define BUS_RESENT_HEADER "drover-resent"
#define BUS_SERIAL_HEADER "drover-publish" /* names a mandatory message in its basic.return */
#define BUS_PULSE_EXCHANGE "drover.pulse"
#define BUS_PULSE_KEY_LEN (sizeof(BUS_PULSE_EXCHANGE) + ID_TOKEN_LEN) /* "drover.pulse.<token>" */
#define BUS_QUEUE_MAX 255 /* bytes of the name of a queue or exchange, in AMQP */
