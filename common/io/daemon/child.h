// SPDX-License-Identifier: Apache-2.0
/*
 * Child processes: programs that a daemon runs
 *
 * A child gets an environment of its own, because that of the daemon may hold passwords; no open
 * files except its standard ones; and a session and process group of its own, so that the daemon
 * can end it together with the processes that it has started. Called by the agent (programs that do
 * steps) and the scheduler (the alert command).
 */
#pragma once

#include <uv.h>

/* All zero is an empty environment. The caller releases it with child_env_deinit(). */
struct child_env {
    char **variables; /* NULL-terminated */
    size_t n;
};

/* Copies @given ("NAME=value", NULL-terminated), and adds the PATH of the daemon if that is not
 * given. */
void child_env_init(struct child_env *env, char *const *given);
/* Adds a variable, "NAME=value". */
void child_env_add(struct child_env *env, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void child_env_deinit(struct child_env *env);

static inline void child_env_deinit_p(struct child_env *env)
{
    child_env_deinit(env);
}

/**
 * child_spawn() - uv_spawn() for such a child
 * @options: the environment of @env and DETACHED are added
 *
 * Return: 0 or -errno. The caller closes @process in either case.
 */
int child_spawn(uv_loop_t *loop, uv_process_t *process, uv_process_options_t options,
                const struct child_env *env);

/* Sends a signal to the whole process group, which may have ended already. */
void child_signal(const uv_process_t *process, int signal);
