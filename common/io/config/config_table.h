// SPDX-License-Identifier: Apache-2.0
/*
 * Table of settings: each with its type, range, default and text
 *
 * The sample file, the man page, the output of --help and --check-config, and the tables of
 * OPERATIONS.md are made from it. Included by the files of configuration only.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONFIG_PATH_SIZE 64 /* longest path of a setting, and its NUL */
/* The same as a variable: "DROVER_", and each dot is two characters. */
#define CONFIG_VARIABLE_SIZE 96
#define CONFIG_ENVIRONMENT "DROVER_" /* prefix of Drover's variables */

enum setting_type {
    SETTING_TEXT,
    SETTING_SECRET, /* a text that is never printed */
    SETTING_INTEGER,
    SETTING_DURATION,
    SETTING_BOOLEAN,
    SETTING_WORD, /* one of several words; stored as its index among them */
    SETTING_TREE, /* neither checked nor stored here: see config_root() */
};

struct setting {
    const char *path;
    enum setting_type type;
    unsigned roles;
    size_t offset;         /* in struct config */
    const char *otherwise; /* the default, as written in a file */
    int64_t min;           /* INTEGER; DURATION in ms */
    int64_t max;
    const char *const *words;           /* WORD: NULL-terminated */
    const char *(*fault)(const char *); /* TEXT, DURATION: what is wrong with a value, or NULL */
    const char *text;
};

extern const struct setting config_settings[];
extern const size_t config_n_settings;

/* Return: the setting with this path; NULL if there is none. */
const struct setting *config_find(const char *path);
/* Whether settings have a path that begins with this one and a dot. */
bool config_is_group(const char *path);
/* The variable of a setting: rabbitmq.host → DROVER_RABBITMQ__HOST. */
void config_variable(const struct setting *s, char out[CONFIG_VARIABLE_SIZE]);

/* Writes a duration with the largest unit in which it is exact; duration_parse() reads it. */
const char *config_duration_text(int64_t ms, char *out, size_t size);
#define CONFIG_DURATION_TEXT(ms) config_duration_text((ms), (char[32]){0}, 32)
