// SPDX-License-Identifier: Apache-2.0
/*
 * ON Requests: makes runs of the requests of a message
 */
#pragma once

#include "agent/agent.h"

void on_requests(struct agent *a, const struct bus_delivery *d);
