// SPDX-License-Identifier: Apache-2.0
/*
 * The settings that say who may ask what of a scheduler: security.identity, operators, supervisors
 * and submitters, scheduler.definitions
 */
#pragma once

#include "io/config.h"
#include "scheduler/access.h"

/* Return: 0, -ENOMEM, or TREE_E_INVALID with @problem set. */
int access_read(struct access **out, const struct config *config, struct problem *problem);
