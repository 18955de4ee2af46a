// SPDX-License-Identifier: Apache-2.0
/*
 * drover-keep: stands between the agent and a program that it runs
 *
 *     drover-keep PARENT USER GROUP FILES PROCESSES MEMORY -- PROGRAM ARGUMENT...
 *
 * The program gets a session of its own, another user where one is said, and limits. Whatever it
 * starts, and wherever that puts itself, is a descendant of the keeper, which takes orphans in
 * (PR_SET_CHILD_SUBREAPER): when the program has ended, or the agent has, none of them lives on.
 *
 *     SIGTERM      is handed on to the program's group
 *     SIGUSR1      all is over: everything is killed
 *
 * It ends as the program has. Where that could not be started, fd 4 gets the errno, as text.
 * Numbers: "-" for none. A library more would cost each run its loading, so it has none of ours.
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
#define USAGE 125 /* as env(1) has it */

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

/* ---- the program ---- */

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

/* Return: false with errno where it cannot become what it is to be. */
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
    limit(RLIMIT_NPROC, argv[PROCESSES]); /* of that user */
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

/* ---- what is left of it ---- */

/* Whoever is killed leaves his children to us, until there are none. */
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

/* ---- the keeper ---- */

/* Ends as the program has. */
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

/* Return: whether the program has ended, and how. */
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
    int status = SIGKILL; /* where we are told to end it, it ends by that */

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
    sigfillset(
        &all); /* the program may be of our user, and is not to end us by any of the others */
    sigprocmask(SIG_BLOCK, &all, &before);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    prctl(PR_SET_PDEATHSIG, SIGUSR1, 0, 0, 0);
    if (getppid() != (pid_t)strtol(argv[PARENT], NULL, 10))
        return USAGE; /* the agent has ended before we asked to hear of that */
    program = fork();
    if (program == 0)
        run(argv, &before);
    if (program < 0) {
        dprintf(REPORT_FD, "%d", errno);
        return USAGE;
    }
    for (int fd = 0; fd <= REPORT_FD; fd++)
        close(fd); /* who waits for their end waits for the program's */
    keep(program, &signals);
}
