// SPDX-License-Identifier: Apache-2.0
/*
 * main() of `drover`, the command line
 *
 * Parses the arguments and runs one command; see cli/command.h and cli/command_run.h.
 */
#include <signal.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/command_parse.h"
#include "cli/command_run.h"

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
    code = command_run(&args);
    if ((fflush(stdout) || ferror(stdout)) && code == CLI_OK)
        code = CLI_ERROR;
    return code;
}
