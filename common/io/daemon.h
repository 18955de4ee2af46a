// SPDX-License-Identifier: Apache-2.0
/*
 * Daemon: what main() of every role shares
 *
 * Command line, configuration, log, loop, signals:
 *
 *   SIGTERM, SIGINT   stop: the role finishes what it has begun. Another SIGINT, or drain_timeout
 *                     passed, ends the process at once; another SIGTERM changes nothing
 *   SIGHUP            the configuration is read again: log.level is taken, what else is different
 *                     is named in the log and waits for a restart. A wrong one changes nothing
 *   SIGUSR1           the role tells in the log what it is doing
 *   SIGPIPE           ignored
 *
 * Exit status: 0 stopped as asked (also --help, --version, a good --check-config); 1 could not
 * start, failed, or did not stop in time; 2 wrong command line or configuration. With --healthcheck
 * 0: the process that runs with this configuration is alive; 1: it is not.
 */
#pragma once

#include <uv.h>

#include "base/rng.h"
#include "base/status.h"
#include "io/config.h"

/* What the command line of one role alone knows: --name. */
struct daemon_switch {
    const char *name;
    const char *help;
    bool *set;
};

/* One role. Everything runs on the thread that called daemon_main(), inside its loop but for
 * check() and free(). */
struct daemon_role {
    const char *name;      /* "scheduler": of the service in the log, and drover-<name> */
    const char *summary;   /* one sentence for --help */
    enum config_role role; /* whose settings --help shows */

    const struct daemon_switch *switches; /* ended by one without a name; may be NULL */

    /* What the table of settings cannot say, such as the agent's actors. May be NULL.
     * Return: 0; else @problem is set. */
    int (*check)(const struct config *config, struct problem *problem);

    /* @config: valid until after free(). @seed: from the kernel.
     * Return: 0 or -errno, what there is to say was logged; *self then still goes to free(). */
    int (*start)(void **self, uv_loop_t *loop, const struct config *config, const struct rng *seed);

    /* Called once. Finish within @timeout_ms, close all handles, then call on_stopped(ctx). */
    void (*stop)(void *self, int timeout_ms, void (*on_stopped)(void *ctx), void *ctx);
    void (*dump)(void *self);

    /* The process ends this moment: end what would outlive it. May be NULL. */
    void (*abandon)(void *self);
    void (*free)(void *self); /* accepts NULL */
};

/* Ends the process this moment, with status 1: for what only a new one can mend. */
_Noreturn void daemon_fail(const char *why);

/* Has the process stop, as a signal would; then it exits with this status. */
void daemon_end(int status);

/* Once a process. Return: the exit status. */
int daemon_main(int argc, char **argv, const struct daemon_role *role);
