// SPDX-License-Identifier: Apache-2.0
/*
 * Values of settings: checks a value, and stores it
 *
 * Called by config.c, for each place where a value can be given.
 */
#include "io/config/config_value.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "io/config/config_tree.h"

int config_problem(const struct config_origin *o, struct problem *problem, const char *reason, ...)
{
    char text[sizeof(problem->reason)];
    va_list args;

    va_start(args, reason);
    vsnprintf(text, sizeof(text), reason, args);
    va_end(args);
    if (o->setting)
        tree_problem(o->setting, problem, "%s", text);
    else
        problem_set(problem, o->place, "%s: %s", o->path, text);
    return CONFIG_E_INVALID;
}

void *config_member(struct config *c, const struct setting *s)
{
    return (char *)c + s->offset;
}

static int set_text(const char **text, const struct setting *s, const char *value,
                    const struct config_origin *o, struct problem *problem)
{
    const char *fault = s->fault ? s->fault(value) : NULL;
    char *copy;

    if (fault)
        return config_problem(o, problem, "'%s' %s", value, fault);
    copy = strdup(value);
    if (!copy)
        return -ENOMEM;
    free((void *)*text);
    *text = copy;
    return 0;
}

static int set_integer(int64_t *integer, const struct setting *s, const char *value,
                       const struct config_origin *o, struct problem *problem)
{
    int64_t v;

    if (!bytes_to_i64(bytes_str(value), &v) || v < s->min || v > s->max)
        return config_problem(o, problem, "'%s' must be an integer from %" PRId64 " to %" PRId64,
                              value, s->min, s->max);
    *integer = v;
    return 0;
}

static int set_duration(int64_t *duration, const struct setting *s, const char *value,
                        const struct config_origin *o, struct problem *problem)
{
    int64_t ms;

    if (!duration_parse(value, &ms) || ms < s->min || ms > s->max)
        return config_problem(o, problem,
                              "'%s' must be a duration from %s to %s, such as \"1500ms\", \"30s\"",
                              value, CONFIG_DURATION_TEXT(s->min), CONFIG_DURATION_TEXT(s->max));
    if (s->fault && s->fault(value))
        return config_problem(o, problem, "'%s' %s", value, s->fault(value));
    *duration = ms;
    return 0;
}

static int set_boolean(bool *boolean, const char *value, const struct config_origin *o,
                       struct problem *problem)
{
    if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
        return config_problem(o, problem, "'%s' must be true or false", value);
    *boolean = value[0] == 't';
    return 0;
}

static int set_word(int *word, const struct setting *s, const char *value,
                    const struct config_origin *o, struct problem *problem)
{
    CLEANUP(buf_deinit) struct buf known = {0};

    for (int i = 0; s->words[i]; i++) {
        if (strcmp(value, s->words[i]) == 0) {
            *word = i;
            return 0;
        }
        buf_printf(&known, "%s%s", i > 0 ? ", " : "", s->words[i]);
    }
    return config_problem(o, problem, "'%s' must be one of %s", value, buf_str(&known));
}

int config_set(struct config *c, const struct setting *s, const char *value,
               const struct config_origin *o, struct problem *problem)
{
    switch (s->type) {
    case SETTING_TEXT:
    case SETTING_SECRET:
        return set_text(config_member(c, s), s, value, o, problem);
    case SETTING_INTEGER:
        return set_integer(config_member(c, s), s, value, o, problem);
    case SETTING_DURATION:
        return set_duration(config_member(c, s), s, value, o, problem);
    case SETTING_BOOLEAN:
        return set_boolean(config_member(c, s), value, o, problem);
    case SETTING_WORD:
        return set_word(config_member(c, s), s, value, o, problem);
    case SETTING_TREE:
        break;
    }
    return config_problem(o, problem, "can be given in the file only");
}
