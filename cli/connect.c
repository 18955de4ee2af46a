// SPDX-License-Identifier: Apache-2.0
/*
 * Connecting: chooses broker or store, and checks --url
 *
 * See cli/connect.h. Called by all commands that ask schedulers or read the store.
 */
#include "cli/connect.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "io/config/config.h"
#include "io/config/config_connections.h"
#include "io/config/url.h"

int64_t connect_deadline(const struct args *args, int64_t default_ms)
{
    int64_t limit = args->timeout_ms ? args->timeout_ms : default_ms;
    int64_t deadline;

    if (!limit || __builtin_add_overflow(clock_monotonic_ms(), limit, &deadline))
        return SESSION_FOREVER;
    return deadline;
}

/* Checks --url: a problem of it is a wrong command line, whatever the configuration is. */
static int url_check(const char *text, struct problem *problem)
{
    CLEANUP(url_deinit) struct url url = {0};
    struct problem inner = {0};
    int r = url_parse(text, "amqp", &url, &inner);

    if (r == 0 && url.password && *url.password) {
        r = URL_E_INVALID;
        problem_set(
            problem, "--url", "%s",
            "others can see a password there: put it into DROVER_RABBITMQ__PASSWORD, or the "
            "whole URL into DROVER_URL");
    } else if (r > 0) {
        problem_set(problem, "--url", "%s%s%s, as in amqp://user@host:port/vhost", inner.field,
                    *inner.field ? " " : "", inner.reason);
    }
    return r;
}

/* Loads the configuration, with the broker of --url, else of DROVER_URL, else of the settings that
 * daemons use. */
static int config_find(const struct args *args, struct config **out, struct problem *problem)
{
    const char *variable = getenv("DROVER_URL");
    const char *url = args->url ? args->url : variable;
    CLEANUP(buf_deinit) struct buf set = {0};
    struct config_source source = {.file = args->config, .environ = environ};
    const char *sets[1];
    struct problem inner = {0};
    int r;

    if (url && *url) {
        buf_printf(&set, "rabbitmq.uri=%s", url);
        sets[0] = buf_str(&set);
        source.sets = sets;
        source.n_sets = 1;
        /* Only DROVER_URL can hold a password: url_check() allows none in --url. */
        source.secret_sets = true;
    }
    r = config_load(out, &source, &inner);
    if (r && source.n_sets > 0 && strcmp(inner.field, "rabbitmq.uri") == 0)
        problem_set(problem, "DROVER_URL", "%s", inner.reason); /* not --url, which is valid */
    else
        *problem = inner;
    return r;
}

/* Begins to connect to the store of the settings that daemons use. */
static int store_connect(const struct args *args, struct session **out)
{
    const struct config_source source = {.file = args->config, .environ = environ};
    CLEANUP(config_free) struct config *config = NULL;
    struct problem problem = {0};
    int r;

    if (args->url) {
        cli_complain("--from-store asks no broker: leave --url out");
        return CLI_USAGE;
    }
    r = config_load(&config, &source, &problem);
    if (r == 0)
        r = config_secure_store(config, &problem);
    if (r == 0)
        r = session_new_from_store(out, take(config));
    return r ? cli_problem(r, &problem) : CLI_OK;
}

static int broker_connect(const struct args *args, struct session **out)
{
    CLEANUP(config_free) struct config *config = NULL;
    struct problem problem = {0};
    int r = args->url ? url_check(args->url, &problem) : 0;

    if (r > 0) {
        cli_problem(r, &problem);
        return CLI_USAGE;
    }
    if (r == 0)
        r = config_find(args, &config, &problem);
    if (r == 0)
        r = config_secure_bus(config, &problem);
    if (r == 0)
        r = session_new(out, take(config), "drover-cli");
    return r ? cli_problem(r, &problem) : CLI_OK;
}

int connect_session(const struct args *args, struct session **out)
{
    return args->from_store ? store_connect(args, out) : broker_connect(args, out);
}
