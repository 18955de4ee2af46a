// SPDX-License-Identifier: Apache-2.0
/*
 * Bulk: gives one command to all jobs that a filter finds
 */
#pragma once

#include "cli/steering.h"

/* Gives the command to all jobs that the filters find, by steering_ask(). Return: the exit code. */
int bulk(const struct steering *steering);
