// SPDX-License-Identifier: Apache-2.0
/*
 * ON ProgressAnswers: stops the runs that their jobs do not want any more
 */
#pragma once

#include "agent/agent.h"

void on_answers(struct agent *a, const struct bus_delivery *d);
