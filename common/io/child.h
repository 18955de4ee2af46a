// SPDX-License-Identifier: Apache-2.0
/*
 * Child: a program that a daemon runs
 *
 * It gets what it is given and nothing of ours: an environment made anew, because ours may hold
 * passwords; no open file but its standard ones; a session and a process group of its own, so that
 * what it has started can be ended along with it.
 */
#pragma once

#include <uv.h>

/* All zero is empty; deinit in any case. */
struct child_env {
    char **variables; /* NULL at their end */
    size_t n;
};

/* Takes copies of @given ("NAME=value", NULL at the end), and adds our PATH unless that is given.
 */
void child_env_init(struct child_env *env, char *const *given);
void child_env_add(struct child_env *env, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void child_env_deinit(struct child_env *env);

static inline void child_env_deinit_p(struct child_env *env)
{
    child_env_deinit(env);
}

/**
 * child_spawn() - uv_spawn() with all that
 * @options: its environment is set from @env, DETACHED is added
 *
 * Return: 0 or -errno; @process is to be closed in either case.
 */
int child_spawn(uv_loop_t *loop, uv_process_t *process, uv_process_options_t options,
                const struct child_env *env);

/* To its whole group, which may be gone already. */
void child_signal(const uv_process_t *process, int signal);
