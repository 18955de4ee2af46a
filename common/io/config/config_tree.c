// SPDX-License-Identifier: Apache-2.0
/*
 * Trees: reads files of libconfig, and checks and copies values of groups
 *
 * See io/config/config_tree.h.
 */
#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "io/config/config_tree.h"
#include "io/file.h"

#define WORD_MAX 64 /* bytes of a word that is compared with the known ones */

/* Reads the file once before libconfig does, which ends the process if reading fails. Not a pipe,
 * which can be read only once. Return: 0 or -errno. */
static int try_read(const char *path, struct problem *problem)
{
    CLEANUP(buf_deinit) struct buf text = {0};
    struct stat found;

    if (stat(path, &found) == 0 && (S_ISFIFO(found.st_mode) || S_ISCHR(found.st_mode)))
        return 0;
    return file_read(path, FILE_MAX, &text, problem);
}

int tree_read(config_t *tree, const char *path, struct problem *problem)
{
    char copy[PATH_MAX], where[PATH_MAX + 16];
    const char *file;

    if (try_read(path, problem))
        return TREE_E_INVALID;
    snprintf(copy, sizeof(copy), "%s", path);
    config_set_include_dir(tree, dirname(copy));
    errno = 0;
    if (config_read_file(tree, path))
        return 0;
    file = config_error_file(tree);
    if (config_error_type(tree) == CONFIG_ERR_FILE_IO) {
        problem_set(problem, path, "%s", errno ? strerror(errno) : "cannot be read");
        return TREE_E_INVALID;
    }
    snprintf(where, sizeof(where), "%s:%d", file ? file : path, config_error_line(tree));
    problem_set(problem, where, "%s", config_error_text(tree));
    return TREE_E_INVALID;
}

/* Appends the path of a setting, such as "steps[2].retry". */
static void put_path(struct buf *out, const config_setting_t *setting)
{
    if (config_setting_is_root(setting))
        return;
    put_path(out, config_setting_parent(setting));
    if (!config_setting_name(setting))
        buf_printf(out, "[%d]", config_setting_index(setting));
    else
        buf_printf(out, out->len > 0 ? ".%s" : "%s", config_setting_name(setting));
}

int tree_problem(const config_setting_t *setting, struct problem *problem, const char *reason, ...)
{
    CLEANUP(buf_deinit) struct buf where = {0}, text = {0};
    const char *file = config_setting_source_file(setting);
    va_list args;
    char what[sizeof(problem->reason)];

    va_start(args, reason);
    vsnprintf(what, sizeof(what), reason, args);
    va_end(args);
    put_path(&text, setting);
    buf_printf(&text, text.len > 0 ? ": %s" : "%s", what);
    buf_puts(&where, file ? file : "");
    if (!config_setting_is_root(setting))
        buf_printf(&where, ":%d", config_setting_source_line(setting));
    problem_set(problem, buf_str(&where), "%s", buf_str(&text));
    return TREE_E_INVALID;
}

static bool members_equal(const config_setting_t *a, const config_setting_t *b)
{
    for (int i = 0; i < config_setting_length(a); i++) {
        const config_setting_t *in_a = config_setting_get_elem(a, (unsigned)i);
        const config_setting_t *in_b = config_setting_get_elem(b, (unsigned)i);
        const char *name = config_setting_name(in_a);

        if (name && strcmp(name, config_setting_name(in_b)) != 0)
            return false;
        if (!tree_equal(in_a, in_b))
            return false;
    }
    return true;
}

bool tree_equal(const config_setting_t *a, const config_setting_t *b)
{
    if (!a || !b)
        return a == b;
    if (config_setting_type(a) != config_setting_type(b) ||
        config_setting_length(a) != config_setting_length(b))
        return false;
    switch (config_setting_type(a)) {
    case CONFIG_TYPE_INT:
    case CONFIG_TYPE_INT64:
        return config_setting_get_int64(a) == config_setting_get_int64(b);
    case CONFIG_TYPE_FLOAT:
        return config_setting_get_float(a) == config_setting_get_float(b);
    case CONFIG_TYPE_BOOL:
        return config_setting_get_bool(a) == config_setting_get_bool(b);
    case CONFIG_TYPE_STRING:
        return strcmp(config_setting_get_string(a), config_setting_get_string(b)) == 0;
    default:
        return members_equal(a, b);
    }
}

static int min3(int a, int b, int c)
{
    int least = a < b ? a : b;

    return least < c ? least : c;
}

/* The number of characters to insert, remove or replace (Levenshtein 1965); one row at a time. */
static int distance(const char *a, const char *b)
{
    int row[WORD_MAX + 1], n = (int)strlen(b);

    if (n > WORD_MAX)
        return INT_MAX;
    for (int j = 0; j <= n; j++)
        row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int diagonal = row[0];

        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int above = row[j];

            row[j] = min3(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[n];
}

void nearest_try(struct nearest *n, const char *candidate)
{
    int d = distance(n->word, candidate), tolerated = 1 + (int)strlen(candidate) / 4;

    if (d <= tolerated && (!n->best[0] || d < n->distance)) {
        snprintf(n->best, sizeof(n->best), "%s", candidate);
        n->distance = d;
    }
}

const char *nearest_text(const struct nearest *n, char *out, size_t size)
{
    snprintf(out, size, n->best[0] ? "; did you mean %s?" : "%s", n->best);
    return out;
}

bool duration_parse(const char *text, int64_t *ms)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"", 1}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
    size_t digits = strspn(text, "0123456789");
    int64_t value;

    if (!bytes_to_i64(bytes_of(text, digits), &value))
        return false;
    for (size_t i = 0; i < array_size(units); i++) {
        if (strcmp(text + digits, units[i].name) == 0)
            return !__builtin_mul_overflow(value, units[i].ms, ms);
    }
    return false;
}

/* ---- groups ---- */

static int unknown_key(const config_setting_t *at, const char *const *known,
                       struct problem *problem)
{
    struct nearest nearest = nearest_to(config_setting_name(at));
    char hint[64];

    for (; *known; known++)
        nearest_try(&nearest, *known);
    return tree_problem(at, problem, "is not known here%s",
                        nearest_text(&nearest, hint, sizeof(hint)));
}

int tree_keys(const config_setting_t *at, const char *const *known, struct problem *problem)
{
    if (!config_setting_is_group(at))
        return tree_problem(at, problem, "must be a group: { ... }");
    for (unsigned i = 0; i < (unsigned)config_setting_length(at); i++) {
        const config_setting_t *member = config_setting_get_elem(at, i);
        const char *const *name = known;

        while (*name && strcmp(*name, config_setting_name(member)) != 0)
            name++;
        if (!*name)
            return unknown_key(member, known, problem);
    }
    return 0;
}

/* ---- single values ---- */

int tree_int(const config_setting_t *group, const char *key, int64_t min, int64_t max, int64_t *out,
             struct problem *problem)
{
    const config_setting_t *at = config_setting_get_member(group, key);
    int type = at ? config_setting_type(at) : CONFIG_TYPE_NONE;
    int64_t value;

    if (!at)
        return 0;
    value = config_setting_get_int64(at);
    if ((type != CONFIG_TYPE_INT && type != CONFIG_TYPE_INT64) || value < min || value > max)
        return tree_problem(at, problem, "must be a number from %" PRId64 " to %" PRId64, min, max);
    *out = value;
    return 0;
}

int tree_duration(const config_setting_t *group, const char *key, int64_t max, int64_t *out,
                  struct problem *problem)
{
    const config_setting_t *at = config_setting_get_member(group, key);
    const char *text = at ? config_setting_get_string(at) : NULL;
    int64_t value;

    if (!at)
        return 0;
    if (!text || !duration_parse(text, &value) || value > max)
        return tree_problem(
            at, problem, "must be a duration such as \"1s\" (ms, s, m, h, d), at most %" PRId64 "s",
            max / 1000);
    *out = value;
    return 0;
}

int tree_text_of(const config_setting_t *at, char **out, struct problem *problem)
{
    const char *text = config_setting_get_string(at);

    if (!text || !*text)
        return tree_problem(at, problem, "must be text, \"...\", and not empty");
    free(*out);
    *out = strdup(text);
    return *out ? 0 : -ENOMEM;
}

int tree_text(const config_setting_t *group, const char *key, char **out, struct problem *problem)
{
    const config_setting_t *at = config_setting_get_member(group, key);

    return at ? tree_text_of(at, out, problem) : 0;
}

bool tree_is_sequence(const config_setting_t *at)
{
    return config_setting_is_array(at) || config_setting_is_list(at);
}

int tree_texts(const config_setting_t *group, const char *key, char ***out, struct problem *problem)
{
    const config_setting_t *at = config_setting_get_member(group, key);
    unsigned n = 0;
    int r = 0;

    if (at && !tree_is_sequence(at))
        return tree_problem(at, problem, "must be a list of texts: [\"...\", \"...\"]");
    if (at)
        n = (unsigned)config_setting_length(at);
    *out = calloc(n + 1, sizeof(**out));
    if (!*out)
        return -ENOMEM;
    for (unsigned i = 0; !r && i < n; i++)
        r = tree_text_of(config_setting_get_elem(at, i), &(*out)[i], problem);
    return r;
}

int tree_bool(const config_setting_t *group, const char *key, bool *out, struct problem *problem)
{
    const config_setting_t *at = config_setting_get_member(group, key);

    if (!at)
        return 0;
    if (config_setting_type(at) != CONFIG_TYPE_BOOL)
        return tree_problem(at, problem, "must be true or false");
    *out = config_setting_get_bool(at) != 0;
    return 0;
}

int tree_choice(const config_setting_t *group, const char *key, const char *no, const char *yes,
                bool *out, struct problem *problem)
{
    const config_setting_t *at = config_setting_get_member(group, key);
    const char *text = at ? config_setting_get_string(at) : NULL;

    if (!at)
        return 0;
    if (!text || (strcmp(text, no) != 0 && strcmp(text, yes) != 0))
        return tree_problem(at, problem, "must be \"%s\" or \"%s\"", no, yes);
    *out = strcmp(text, yes) == 0;
    return 0;
}
