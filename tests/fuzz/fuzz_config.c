// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz: a configuration file, and after NULs environment variables and command line options
 *
 * A configuration that is accepted, printed as by --check-config and given again as --set, is the
 * same.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent_config.h"
#include "fuzz.h"
#include "io/config/config.h"

#define GIVEN_MAX 8
#define PRINTED_MAX 64 /* more than there are settings */

/* The strings after the file. */
struct given {
    char *sets[GIVEN_MAX];
    int n_sets;
    char *environ[GIVEN_MAX + 1];
    int n_environ;
};

static void given_read(struct given *g, struct bytes rest)
{
    *g = (struct given){0};
    while (rest.len > 0 && g->n_sets < GIVEN_MAX && g->n_environ < GIVEN_MAX) {
        char *word = fuzz_text(fuzz_until(&rest, '\0'));

        if (strncmp(word, "DROVER_", 7) != 0)
            g->sets[g->n_sets++] = word;
        else if (!strstr(word, "_FILE=")) /* it would read other files of this machine */
            g->environ[g->n_environ++] = word;
        else
            free(word);
    }
}

static void given_deinit(struct given *g)
{
    for (int i = 0; i < g->n_sets; i++)
        free(g->sets[i]);
    for (int i = 0; i < g->n_environ; i++)
        free(g->environ[i]);
}

/* One setting per line, unless a value contains line ends. */
static bool is_in_lines(const struct config *c)
{
    const char *const texts[] = {
        c->rabbitmq.host,         c->rabbitmq.vhost,
        c->rabbitmq.user,         c->redis.host,
        c->redis.socket,          c->redis.user,
        c->scheduler.workflows,   c->scheduler.alert_command,
        c->scheduler.json_actors,
    };

    for (size_t i = 0; i < array_size(texts); i++)
        if (strchr(texts[i], '\n'))
            return false;
    return true;
}

/* Turns "path = value" into "path=value" without the quotes of the value; NULL for a secret. */
static char *word_of(const char *line)
{
    const char *equals = strstr(line, " = "), *value = equals ? equals + 3 : "";
    size_t quote = *value == '"';
    char *word;

    assert(equals);
    if (strcmp(value, "(given)") == 0 || strcmp(value, "(none)") == 0)
        return NULL;
    if (asprintf(&word, "%.*s=%.*s", (int)(equals - line), line, (int)(strlen(value) - 2 * quote),
                 value + quote) < 0)
        abort();
    return word;
}

static int print_words(const struct config *c, char *words[])
{
    char *text = NULL, *rest = NULL;
    size_t size;
    FILE *memory = or_abort(open_memstream(&text, &size));
    int n = 0;

    config_print(c, memory);
    fclose(memory);
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        assert(n < PRINTED_MAX);
        words[n] = word_of(line);
        n += words[n] != NULL;
    }
    free(text);
    return n;
}

static void printed_check(const struct config *c)
{
    char *words[PRINTED_MAX], *rest = NULL;
    int n = print_words(c, words);
    const struct config_source source = {.sets = (const char *const *)words, .n_sets = n};
    CLEANUP(config_free) struct config *again = NULL;
    CLEANUP(buf_deinit) struct buf difference = {0};
    struct problem problem;

    assert(config_load(&again, &source, &problem) == 0);
    config_difference(c, again, &difference);
    buf_putc(&difference, '\0');
    for (char *path = strtok_r((char *)difference.data, " ", &rest); path;
         path = strtok_r(NULL, " ", &rest))
        assert(strstr(path, ".uri") || strstr(path, ".password") ||
               strcmp(path, "agent.actors") == 0);
    for (int i = 0; i < n; i++)
        free(words[i]);
}

static void actors_check(const struct config *c)
{
    CLEANUP(agent_setup_free) struct agent_setup *setup = NULL;
    struct problem problem = {0};

    if (agent_setup_read(&setup, config_root(c), &problem)) {
        fuzz_check_problem(&problem);
        return;
    }
    assert(setup->n_actors > 0);
    for (size_t i = 0; i < setup->n_actors; i++) {
        const struct agent_served *served = &setup->actors[i];

        assert(served->handler && agent_setup_actor(setup, served->actor.name) == served);
        for (size_t k = 0; k < served->n_actions; k++)
            assert(agent_served_action(served, served->actions[k].name) == &served->actions[k]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes rest = bytes_of(data, size), file = fuzz_until(&rest, '\0');
    CLEANUP(config_free) struct config *config = NULL;
    struct problem problem = {0};
    struct config_source source = {0};
    struct given given;
    int r;

    if (memmem(file.data, file.len, "@include", 8))
        return 0; /* it would read other files of this machine */
    given_read(&given, rest);
    source.file = file.len > 0 ? fuzz_file(file) : NULL;
    source.environ = given.environ;
    source.sets = (const char *const *)given.sets;
    source.n_sets = given.n_sets;
    r = config_load(&config, &source, &problem);
    assert(r == 0 || r == CONFIG_E_INVALID);
    if (r) {
        fuzz_check_problem(&problem);
    } else {
        if (is_in_lines(config))
            printed_check(config);
        actors_check(config);
    }
    given_deinit(&given);
    return 0;
}
