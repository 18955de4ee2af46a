// SPDX-License-Identifier: Apache-2.0
#include "cli/connect.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "io/config.h"

int64_t cli_deadline(const struct args *args, int64_t default_ms)
{
    int64_t limit = args->timeout_ms ? args->timeout_ms : default_ms;
    int64_t deadline;

    if (!limit || __builtin_add_overflow(clock_monotonic_ms(), limit, &deadline))
        return SESSION_FOREVER;
    return deadline;
}

/* From the file, the environment and the defaults. */
static int address_configured(const struct args *args, struct address *out, struct problem *problem)
{
    CLEANUP(config_free) struct config *config = NULL;
    const struct config_source source = {.file = args->config, .environ = environ};
    int r = config_load(&config, &source, problem);

    if (r)
        return r;
    *out = (struct address){
        .host = strdup(config->rabbitmq.host),
        .port = (int)config->rabbitmq.port,
        .vhost = strdup(config->rabbitmq.vhost),
        .user = strdup(config->rabbitmq.user),
        .password = strdup(config->rabbitmq.password),
    };
    return out->host && out->vhost && out->user && out->password ? 0 : -ENOMEM;
}

static int address_find(const struct args *args, struct address *out, struct problem *problem)
{
    const char *variable = getenv("DROVER_URL");
    const char *url = args->url ? args->url : variable;
    struct problem inner = {0};
    int r;

    if (!url || !*url)
        return address_configured(args, out, problem);
    r = parse_url(url, out, &inner);
    if (r)
        problem_set(problem, args->url ? "--url" : "DROVER_URL", "%s%s%s", inner.field,
                    *inner.field ? " " : "", inner.reason);
    return r;
}

int cli_connect(const struct args *args, struct session **out)
{
    CLEANUP(address_deinit) struct address address = {0};
    struct problem problem = {0};
    int r = address_find(args, &address, &problem);

    if (r == 0)
        r = session_new(out, &address);
    return r ? cli_problem(r, &problem) : CLI_OK;
}
