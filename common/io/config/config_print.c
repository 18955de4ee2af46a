// SPDX-License-Identifier: Apache-2.0
/*
 * Settings for people: the values in force, --help, the sample file, and the man page
 *
 * Called by the programs for --check-config and --help, and by the command line.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "io/config/config.h"
#include "io/config/config_actors.h"
#include "io/config/config_table.h"

/* ---- the settings in force, and --help ---- */

static void put_value(const struct setting *s, const void *value, FILE *out)
{
    switch (s->type) {
    case SETTING_TEXT:
        fprintf(out, "\"%s\"", *(const char *const *)value);
        break;
    case SETTING_SECRET:
        fputs(**(const char *const *)value ? "(given)" : "(none)", out);
        break;
    case SETTING_INTEGER:
        fprintf(out, "%" PRId64, *(const int64_t *)value);
        break;
    case SETTING_DURATION:
        fprintf(out, "\"%s\"", CONFIG_DURATION_TEXT(*(const int64_t *)value));
        break;
    case SETTING_BOOLEAN:
        fputs(*(const bool *)value ? "true" : "false", out);
        break;
    case SETTING_WORD:
        fprintf(out, "\"%s\"", s->words[*(const int *)value]);
        break;
    case SETTING_TREE:
        break;
    }
}

void config_print(const struct config *c, FILE *out)
{
    for (size_t i = 0; i < config_n_settings; i++) {
        const struct setting *s = &config_settings[i];

        if (s->type == SETTING_TREE)
            continue;
        fprintf(out, "%s = ", s->path);
        put_value(s, (const char *)c + s->offset, out);
        fputc('\n', out);
    }
}

static void describe_type(const struct setting *s, FILE *out)
{
    switch (s->type) {
    case SETTING_TEXT:
    case SETTING_SECRET:
        fprintf(out, *s->otherwise ? "text, default \"%s\"" : "text", s->otherwise);
        break;
    case SETTING_INTEGER:
        fprintf(out, "%" PRId64 " to %" PRId64 ", default %s", s->min, s->max, s->otherwise);
        break;
    case SETTING_DURATION:
        fprintf(out, "%s to %s, default %s", CONFIG_DURATION_TEXT(s->min),
                CONFIG_DURATION_TEXT(s->max), s->otherwise);
        break;
    case SETTING_BOOLEAN:
        fprintf(out, "true or false, default %s", s->otherwise);
        break;
    case SETTING_WORD:
        for (int i = 0; s->words[i]; i++)
            fprintf(out, "%s%s", i > 0 ? ", " : "", s->words[i]);
        fprintf(out, "; default %s", s->otherwise);
        break;
    case SETTING_TREE:
        fputs("in the file only", out);
        break;
    }
}

void config_describe(enum config_role role, FILE *out)
{
    for (size_t i = 0; i < config_n_settings; i++) {
        const struct setting *s = &config_settings[i];

        if (!(s->roles & role))
            continue;
        fprintf(out, "  %-22s %s\n  %-22s (", s->path, s->text, "");
        describe_type(s, out);
        fputs(")\n", out);
    }
}

/* ---- the sample file and the man page ---- */

static void print_roles(const struct setting *s, FILE *out)
{
    static const struct {
        unsigned role;
        const char *name;
    } roles[] = {{CONFIG_SCHEDULER, "scheduler"},
                 {CONFIG_AGENT, "agent"},
                 {CONFIG_SUPERVISOR, "supervisor"},
                 {CONFIG_CLI, "drover"}};
    const char *separator = "";

    for (size_t i = 0; i < array_size(roles); i++) {
        if (s->roles & roles[i].role) {
            fprintf(out, "%s%s", separator, roles[i].name);
            separator = ", ";
        }
    }
}

/* Prints the default as written in a file. */
static void print_default(const struct setting *s, FILE *out)
{
    bool quoted = s->type != SETTING_INTEGER && s->type != SETTING_BOOLEAN;

    fprintf(out, quoted ? "\"%s\"" : "%s", s->otherwise);
}

/* Return: the length of the group in a path: "rabbitmq.host" is in "rabbitmq", "name" in none. */
static int group_of(const struct setting *s)
{
    const char *dot = strchr(s->path, '.');

    return dot ? (int)(dot - s->path) : 0;
}

static void sample_setting(const struct setting *s, FILE *out)
{
    int group = group_of(s);
    const char *pad = group > 0 ? "    " : "", *name = s->path + group + (group > 0);
    char variable[CONFIG_VARIABLE_SIZE];

    config_variable(s, variable);
    fprintf(out, "%s# %s (", pad, s->text);
    describe_type(s, out);
    fprintf(out, ")\n%s# ", pad);
    if (s->type == SETTING_TREE) {
        fprintf(out, "%s = ( ... );\n", name);
        return;
    }
    fprintf(out, "%s%s\n%s# %s = ", variable,
            s->type == SETTING_SECRET ? "; or the name of a file that holds it, with _FILE behind"
                                      : "",
            pad, name);
    print_default(s, out);
    fputs(";\n", out);
}

void config_sample(FILE *out)
{
    const char *open = "";
    int open_len = 0;

    fputs("# Drover's configuration: one file for all roles, each takes what concerns it.\n"
          "# What stands here as a comment is the default. The environment goes before the file,\n"
          "# the command line (--set PATH=VALUE) before that.\n",
          out);
    for (size_t i = 0; i < config_n_settings; i++) {
        const struct setting *s = &config_settings[i];
        int len = group_of(s);

        if (len != open_len || strncmp(open, s->path, (size_t)len) != 0) {
            fputs(open_len > 0 ? "};\n\n" : "\n", out);
            if (len > 0)
                fprintf(out, "%.*s = {\n", len, s->path);
        } else {
            fputc('\n', out);
        }
        open = s->path;
        open_len = len;
        sample_setting(s, out);
    }
    fputs(open_len > 0 ? "};\n" : "", out);
}

/* Prints a text with all that scdoc would take for markup escaped. */
static void print_plain(const char *text, FILE *out)
{
    for (; *text; text++)
        fprintf(out, strchr("\\_*<>#.", *text) ? "\\%c" : "%c", *text);
}

static void manual_setting(const struct setting *s, FILE *out)
{
    char variable[CONFIG_VARIABLE_SIZE];
    char *type = NULL;
    size_t size;
    FILE *memory = open_memstream(&type, &size);

    if (!memory)
        abort();
    describe_type(s, memory);
    fclose(memory);
    config_variable(s, variable);
    fprintf(out, "*%s*\n\t", s->path);
    print_plain(s->text, out);
    fputs(" (", out);
    print_plain(type, out);
    fputs("). Used by ", out);
    print_roles(s, out);
    if (s->type != SETTING_TREE) {
        fputs(". Variable ", out);
        print_plain(variable, out);
    }
    fputs(".\n\n", out);
    free(type);
}

void config_manual(FILE *out)
{
    fputs(
        "drover.cfg(5)\n\n# NAME\n\ndrover.cfg - configuration of Drover\n\n# DESCRIPTION\n\n"
        "One file in the language of libconfig for all roles, given with *--config*; each takes\n"
        "what concerns it, and checks all of it. An unknown setting is an error.\n"
        "*drover config* prints a file with every setting explained, *--check-config* of a daemon\n"
        "the settings in force.\n\n"
        "A value comes from the last of these that gives one: the default, the file, the\n"
        "environment, the command line (*--set* _PATH_=_VALUE_). The variable of *a.b* is\n"
        "DROVER\\_A\\_\\_B; that of a secret can have \\_FILE behind it, and then names a file\n"
        "that holds the value.\n\n"
        "Durations are \"1500ms\", \"30s\", \"5m\", \"1h\", \"7d\", or an integer of "
        "milliseconds.\n"
        "@include works as libconfig has it, relative to the folder of the file.\n\n"
        "# SETTINGS\n\n",
        out);
    for (size_t i = 0; i < config_n_settings; i++)
        manual_setting(&config_settings[i], out);
    config_actors_manual(out);
    fputs("# SEE ALSO\n\n*drover*(1)\n", out);
}
