// SPDX-License-Identifier: Apache-2.0
/*
 * Access settings: reads which user may ask for what from the configuration
 *
 * The settings are security.identity, security.replies, security.operators, security.supervisors,
 * security.submitters and scheduler.definitions. Called by main.c, which checks them, and by
 * scheduler_io.c.
 */
#pragma once

#include "io/config/config.h"
#include "scheduler/access.h"

/* Sets *out, which the caller frees by access_free(). Return: 0, -ENOMEM, or TREE_E_INVALID with
 * @problem set. */
int access_read(struct access **out, const struct config *config, struct problem *problem);
