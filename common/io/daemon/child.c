// SPDX-License-Identifier: Apache-2.0
/*
 * Child processes: their environment, their start, and signals to their process group
 *
 * See io/daemon/child.h.
 */
#include "io/daemon/child.h"

#include <assert.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "io/failpoint.h"

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"

/* ---- the environment ---- */

void child_env_add(struct child_env *env, const char *format, ...)
{
    va_list args;

    env->variables = or_abort(reallocarray(env->variables, env->n + 2, sizeof(*env->variables)));
    va_start(args, format);
    if (vasprintf(&env->variables[env->n], format, args) < 0)
        abort();
    va_end(args);
    env->variables[++env->n] = NULL;
}

void child_env_init(struct child_env *env, char *const *given)
{
    const char *path = getenv("PATH");
    bool sets_path = false;

    *env = (struct child_env){0};
    for (; *given; given++) {
        sets_path = sets_path || strncmp(*given, "PATH=", 5) == 0;
        child_env_add(env, "%s", *given);
    }
    if (!sets_path)
        child_env_add(env, "PATH=%s", path ? path : DEFAULT_PATH);
}

void child_env_deinit(struct child_env *env)
{
    for (size_t i = 0; i < env->n; i++)
        free(env->variables[i]);
    free(env->variables);
    *env = (struct child_env){0};
}

/* ---- the process ---- */

int child_spawn(uv_loop_t *loop, uv_process_t *process, uv_process_options_t options,
                const struct child_env *env)
{
    if (failpoint("exec", "", "", NULL, 0) == FAILPOINT_RETURN)
        options.file = ""; /* so that uv_spawn() fails; the caller must close the handle as well */
    options.env = env->variables;
    options.flags |= UV_PROCESS_DETACHED;
    close_range(3, ~0U, CLOSE_RANGE_CLOEXEC); /* some libraries open sockets without CLOEXEC */
    return uv_spawn(loop, process, &options);
}

void child_signal(const uv_process_t *process, int signal)
{
    assert(process->pid > 1);
    (void)kill(-process->pid, signal);
}
