// SPDX-License-Identifier: Apache-2.0
/*
 * Trees: what configuration and workflow files share
 *
 * Both are libconfig files, read strictly: what is not known is an error that says where it stands
 * and what was probably meant. A problem's field is then "<file>:<line>", its reason begins with
 * the path of the setting.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <libconfig.h>

#include "base/cleanup.h"
#include "base/status.h"

enum {
    TREE_E_INVALID = 1, /* not there, not readable, not well-formed, or not what is expected */
};

static inline void tree_free(config_t *tree)
{
    config_destroy(tree);
}

/**
 * tree_read() - parse a file
 * @tree: config_init() was called; the caller destroys it in any case
 *
 * An @include is relative to the folder of the file.
 * Return: 0 or TREE_E_INVALID with @problem set.
 */
int tree_read(config_t *tree, const char *path, struct problem *problem);

/* Whether two settings say the same, with all that is below them. Accepts NULL: not there. */
bool tree_equal(const config_setting_t *a, const config_setting_t *b);

/* Records what is wrong with a setting. Return: TREE_E_INVALID. */
int tree_problem(const config_setting_t *setting, struct problem *problem, const char *reason, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- members of a group: 0, -ENOMEM or TREE_E_INVALID; what is not given leaves *out alone ----
 */

/* That @at is a group, and has no other members than @known, which ends with NULL. */
int tree_keys(const config_setting_t *at, const char *const *known, struct problem *problem);

int tree_int(const config_setting_t *group, const char *key, int64_t min, int64_t max, int64_t *out,
             struct problem *problem);

/* In ms, from 0 to @max. */
int tree_duration(const config_setting_t *group, const char *key, int64_t max, int64_t *out,
                  struct problem *problem);

/* Not empty; *out is freed, then a copy. */
int tree_text(const config_setting_t *group, const char *key, char **out, struct problem *problem);
int tree_text_of(const config_setting_t *at, char **out, struct problem *problem);

/* An array or list of texts; *out ends with NULL, and is there, if empty, also where the key is
 * not. */
int tree_texts(const config_setting_t *group, const char *key, char ***out,
               struct problem *problem);
bool tree_is_sequence(const config_setting_t *at);

/* One of two words: *out is whether it is @yes. */
int tree_choice(const config_setting_t *group, const char *key, const char *no, const char *yes,
                bool *out, struct problem *problem);

/* The closest of several words to one that nobody knows. */
struct nearest {
    const char *word;
    char best[96]; /* "": none is close */
    int distance;  /* of the best */
};

static inline struct nearest nearest_to(const char *word)
{
    return (struct nearest){.word = word};
}

void nearest_try(struct nearest *n, const char *candidate);

/* "; did you mean x?" or "" */
const char *nearest_text(const struct nearest *n, char *out, size_t size);

/**
 * duration_parse() - a duration as people write it
 *
 * An integer with a unit (ms, s, m, h, d), without one in milliseconds: "1500ms", "30s", "250".
 * Return: false on anything else, overflow included.
 */
bool duration_parse(const char *text, int64_t *ms);
