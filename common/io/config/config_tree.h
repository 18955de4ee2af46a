// SPDX-License-Identifier: Apache-2.0
/*
 * Trees: reading libconfig files strictly, for configuration and workflow files
 *
 * An unknown key is an error that says where it is and which key was probably meant. The field of a
 * problem is "<file>:<line>", its reason begins with the path of the setting. Called by io/config,
 * io/config/workflow_file, and the agent, scheduler and command line for lists of their own.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <libconfig.h>

#include "base/cleanup.h"
#include "base/status.h"

enum {
    TREE_E_INVALID = 1, /* missing, not readable, not well-formed, or not of the expected form */
};

static inline void tree_free(config_t *tree)
{
    config_destroy(tree);
}

/**
 * tree_read() - parse a file
 * @tree: the caller has called config_init() and calls config_destroy() in any case
 *
 * An @include is relative to the folder of the file.
 * Return: 0 or TREE_E_INVALID with @problem set.
 */
int tree_read(config_t *tree, const char *path, struct problem *problem);

/* Whether two settings are equal, with all that is below them. NULL: there is no such setting. */
bool tree_equal(const config_setting_t *a, const config_setting_t *b);

/* Records what is wrong with a setting. Return: TREE_E_INVALID. */
int tree_problem(const config_setting_t *setting, struct problem *problem, const char *reason, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- members of a group ----
 *
 * Each returns 0, -ENOMEM, or TREE_E_INVALID with @problem set. If the key is not given *out is
 * unchanged, except where a comment says otherwise. */

/* Checks that @at is a group and has no other members than @known, which is NULL-terminated. */
int tree_keys(const config_setting_t *at, const char *const *known, struct problem *problem);

/* An integer from @min to @max. */
int tree_int(const config_setting_t *group, const char *key, int64_t min, int64_t max, int64_t *out,
             struct problem *problem);

/* @max, @out: in ms. */
int tree_duration(const config_setting_t *group, const char *key, int64_t max, int64_t *out,
                  struct problem *problem);

/* A text that is not empty. Frees *out and sets it to a copy, which the caller owns. */
int tree_text(const config_setting_t *group, const char *key, char **out, struct problem *problem);
int tree_text_of(const config_setting_t *at, char **out, struct problem *problem);

/* An array or list of texts. *out is NULL-terminated and owned by the caller; it is set, to an
 * empty list, also if the key is not given. */
int tree_texts(const config_setting_t *group, const char *key, char ***out,
               struct problem *problem);
bool tree_is_sequence(const config_setting_t *at);

/* true or false. */
int tree_bool(const config_setting_t *group, const char *key, bool *out, struct problem *problem);

/* One of two words; *out is set to whether it is @yes. */
int tree_choice(const config_setting_t *group, const char *key, const char *no, const char *yes,
                bool *out, struct problem *problem);

/* The known word that is closest to an unknown one. */
struct nearest {
    const char *word; /* the unknown one */
    char best[96];    /* "" if none is close */
    int distance;     /* of the best */
};

static inline struct nearest nearest_to(const char *word)
{
    return (struct nearest){.word = word};
}

/* Compares a known word with the unknown one. */
void nearest_try(struct nearest *n, const char *candidate);

/* Writes "; did you mean x?", or "" if no known word is close. Return: @out. */
const char *nearest_text(const struct nearest *n, char *out, size_t size);

/**
 * duration_parse() - parse a duration of a file or command line
 * @ms: set to milliseconds
 *
 * An integer with a unit (ms, s, m, h, d), or without one in milliseconds: "1500ms", "30s", "250".
 * Return: false for anything else, also on overflow.
 */
bool duration_parse(const char *text, int64_t *ms);
