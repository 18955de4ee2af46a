// SPDX-License-Identifier: Apache-2.0
/*
 * Daemons: the part of main() that all daemons have in common
 *
 * Command line, configuration, log, loop, and signals:
 *
 *   SIGTERM, SIGINT   stop: the role finishes what it has begun. Another SIGINT, or the end of
 *                     drain_timeout, ends the process at once; another SIGTERM changes nothing
 *   SIGHUP            read the configuration again: log.level is applied; the log names other
 *                     settings that differ, which wait for a restart. A wrong one changes nothing
 *   SIGUSR1           the role logs its figures, the agent also its runs
 *   SIGPIPE           ignored
 *
 * Exit status: 0 stopped as asked (also --help, --version, and --check-config of a valid
 * configuration); 1 could not start, failed, or did not stop in time; 2 wrong command line or
 * configuration. With --healthcheck 0: the process that runs with this configuration is alive; 1:
 * it is not.
 *
 * Called by main() of scheduler, agent and supervisor; io/daemon/driver calls daemon_fail().
 */
#pragma once

#include <uv.h>

#include "base/rng.h"
#include "base/status.h"
#include "io/config/config.h"

/* An option --name of one role, without argument. */
struct daemon_switch {
    const char *name;
    const char *help;
    bool *set;
};

/* A role. All functions run on the thread that has called daemon_main(); all except check() and
 * free() run in its loop. */
struct daemon_role {
    const char *name;      /* "scheduler": service in the log; the program is drover-<name> */
    const char *summary;   /* one sentence for --help */
    enum config_role role; /* --help shows the settings that it uses */

    const struct daemon_switch *switches; /* the last one has no name; may be NULL */

    /* Checks what the table of settings cannot check, such as agent.actors. May be NULL.
     * Return: 0; otherwise @problem is set. */
    int (*check)(const struct config *config, struct problem *problem);

    /* @config: valid until after free(). @seed: from the kernel.
     * Return: 0; or -errno after it has logged the cause: then free() gets *self all the same. */
    int (*start)(void **self, uv_loop_t *loop, const struct config *config, const struct rng *seed);

    /* Called once. The role finishes within @timeout_ms, closes all its handles, then calls
     * on_stopped(@ctx). */
    void (*stop)(void *self, int timeout_ms, void (*on_stopped)(void *ctx), void *ctx);
    void (*dump)(void *self);

    /* The settings were read again, and are right: files that the role reads by itself, such as
     * certificates, may have changed. May be NULL. */
    void (*reload)(void *self);

    /* The process is about to exit: ends child processes that would outlive it. May be NULL. */
    void (*abandon)(void *self);
    void (*free)(void *self); /* accepts NULL */
};

/* Ends the process at once, with status 1: for a state from which only a new process recovers. */
_Noreturn void daemon_fail(const char *why);

/* Stops the process as SIGTERM does; it then exits with @status. */
void daemon_end(int status);

/* How often a configuration was refused that SIGHUP had read again. */
uint64_t daemon_reloads_refused(void);

/* Runs the daemon; called once in a process. Return: the exit status. */
int daemon_main(int argc, char **argv, const struct daemon_role *role);
