// SPDX-License-Identifier: Apache-2.0
/*
 * main() of `drover`, the command line
 *
 * Parses the arguments and runs one command; see cli/cli.h and cli/command.h.
 */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/cli.h"

static int run(const struct args *args)
{
    if (args->version)
        return cli_version(args);
    if (args->help)
        return cli_help(args);
    return args->command->run(args);
}

int main(int argc, char **argv)
{
    struct args args;
    struct problem problem = {0};
    struct log_config log = {.service = "cli", .level = LOG_ERROR, .fd = 2};
    int code;

    signal(SIGPIPE, SIG_IGN); /* a closed pipe is then an error of writing */
    if (command_parse(argc, argv, clock_unix_ms(), &args, &problem)) {
        cli_complain("%s", problem.reason);
        fputs("`drover help` lists the commands.\n", stderr);
        return CLI_USAGE;
    }
    if (args.verbose)
        log.level = LOG_DEBUG;
    log_init(&log);
    code = run(&args);
    if ((fflush(stdout) || ferror(stdout)) && code == CLI_OK)
        code = CLI_ERROR;
    return code;
}
