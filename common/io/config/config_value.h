// SPDX-License-Identifier: Apache-2.0
/*
 * Values of settings: checks a value, and stores it
 *
 * Included by config.c and config_value.c.
 */
#pragma once

#include <libconfig.h>

#include "io/config/config.h"
#include "io/config/config_table.h"

/* Where a value was given, for the text of a problem. */
struct config_origin {
    const config_setting_t *setting; /* in a file; NULL if it was given elsewhere: then */
    const char *place;               /* a variable, or "--set" */
    const char *path;                /* of the setting */
};

/* Says in @problem where a value was given, and what is wrong. Return: CONFIG_E_INVALID. */
int config_problem(const struct config_origin *o, struct problem *problem, const char *reason, ...)
    __attribute__((format(printf, 3, 4)));

/* The member of the configuration that holds the value of a setting. */
void *config_member(struct config *c, const struct setting *s);

/* Sets a value from its text. Return: 0, -ENOMEM, or CONFIG_E_INVALID with @problem set. */
int config_set(struct config *c, const struct setting *s, const char *value,
               const struct config_origin *o, struct problem *problem);
