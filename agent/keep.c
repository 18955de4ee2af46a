// SPDX-License-Identifier: Apache-2.0
/*
 * drover-keep: the parent process of each program that the agent runs
 *
 * Only handler_exec.c starts it.
 *
 *     drover-keep PARENT USER GROUP FILES PROCESSES MEMORY -- PROGRAM ARGUMENT...
 *
 * The program gets a session of its own, limits, and, where one is given, another user. drover-keep
 * is a subreaper (PR_SET_CHILD_SUBREAPER): each process that the program starts, in whatever group
 * or session, stays its descendant. When the program has ended, or the agent has, drover-keep kills
 * all of them.
 *
 *     SIGTERM      is sent on to the program's process group
 *     SIGUSR1      the run is over: kill everything
 *
 * It ends with the exit status or by the signal of the program. If the program cannot be started,
 * it writes the errno to file descriptor 4, as text. Each number of the command line may be "-",
 * for none. It links to libc alone, because each run has to load it.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/orphans.h"

#define REPORT_FD 4
#define USAGE 125 /* exit status of its own errors, as in env(1) */

enum {
    PARENT = 1,
    USER,
    GROUP,
    FILES,
    PROCESSES,
    MEMORY,
    DASHES,
    PROGRAM
};

/* ---- the child, which becomes the program ---- */

static void limit(int resource, const char *number)
{
    rlim_t most = strtoull(number, NULL, 10);
    struct rlimit now;

    if (strcmp(number, "-") == 0 || getrlimit((__rlimit_resource_t)resource, &now))
        return;
    if (now.rlim_max != RLIM_INFINITY && most > now.rlim_max)
        most = now.rlim_max;
    setrlimit((__rlimit_resource_t)resource, &(struct rlimit){most, most});
}

/* Sets session, limits, user and group. Return: false with errno where it cannot become the user.
 */
static bool become(char **argv)
{
    bool other = strcmp(argv[USER], "-") != 0;
    gid_t gid = (gid_t)strtoul(argv[GROUP], NULL, 10);
    uid_t uid = (uid_t)strtoul(argv[USER], NULL, 10);

    setsid();
    limit(RLIMIT_CORE, "0");
    limit(RLIMIT_NOFILE, argv[FILES]);
    limit(RLIMIT_AS, argv[MEMORY]);
    if (other && (setgroups(0, NULL) || setresgid(gid, gid, gid) || setresuid(uid, uid, uid)))
        return false;
    limit(RLIMIT_NPROC, argv[PROCESSES]); /* of the new user */
    return true;
}

static void run(char **argv, const sigset_t *before)
{
    char text[16];

    if (become(argv)) {
        sigprocmask(SIG_SETMASK, before, NULL);
        execvp(argv[PROGRAM], argv + PROGRAM);
    }
    snprintf(text, sizeof(text), "%d", errno);
    if (write(REPORT_FD, text, strlen(text)) < 0)
        abort();
    _exit(USAGE);
}

/* ---- the processes that the program leaves ---- */

/* Kills all descendants: the children of each process that is killed become children of this one,
 * until there are none. */
static void kill_all(pid_t group)
{
    kill(-group, SIGKILL);
    for (;;) {
        pid_t pid = waitpid(-1, NULL, WNOHANG);

        if (pid < 0 && errno == ECHILD)
            return;
        if (pid > 0)
            continue;
        orphans_kill(NULL);
        (void)waitpid(-1, NULL, 0);
    }
}

/* ---- the parent ---- */

/* Ends this process with the exit status or by the signal of the program. */
static void end_as(int status)
{
    if (WIFSIGNALED(status)) {
        int number = WTERMSIG(status);
        sigset_t only;

        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        signal(number, SIG_DFL);
        sigemptyset(&only);
        sigaddset(&only, number);
        sigprocmask(SIG_UNBLOCK, &only, NULL);
        raise(number);
    }
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : USAGE);
}

/* Reaps the children that have ended. Return: whether the program is one of them; then @status is
 * its. */
static bool has_ended(pid_t program, int *status)
{
    int of;
    pid_t pid;

    while ((pid = waitpid(-1, &of, WNOHANG)) > 0) {
        if (pid != program)
            continue;
        *status = of;
        return true;
    }
    return false;
}

static void keep(pid_t program, const sigset_t *signals)
{
    int status = SIGKILL; /* of a program that is killed because of SIGUSR1 */

    while (!has_ended(program, &status)) {
        int number = sigwaitinfo(signals, NULL);

        if (number == SIGTERM)
            kill(-program, SIGTERM);
        else if (number == SIGUSR1)
            break;
    }
    kill_all(program);
    end_as(status);
}

int main(int argc, char **argv)
{
    sigset_t signals, all, before;
    pid_t program;

    if (argc <= PROGRAM || strcmp(argv[DASHES], "--") != 0) {
        fputs("drover-keep is run by drover-agent\n", stderr);
        return USAGE;
    }
    fcntl(REPORT_FD, F_SETFD, FD_CLOEXEC);
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGUSR1);
    sigaddset(&signals, SIGCHLD);
    /* The program may have the same user: none of the other signals may let it end this process. */
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    prctl(PR_SET_PDEATHSIG, SIGUSR1, 0, 0, 0);
    if (getppid() != (pid_t)strtol(argv[PARENT], NULL, 10))
        return USAGE; /* the agent ended before PR_SET_PDEATHSIG was set */
    program = fork();
    if (program == 0)
        run(argv, &before);
    if (program < 0) {
        dprintf(REPORT_FD, "%d", errno);
        return USAGE;
    }
    for (int fd = 0; fd <= REPORT_FD; fd++)
        close(fd); /* the agent reads to the end of the pipes: only the program may hold them */
    keep(program, &signals);
}
