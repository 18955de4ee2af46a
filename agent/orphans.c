// SPDX-License-Identifier: Apache-2.0
/*
 * Orphans: finds the children of this process in /proc, kills and reaps them
 *
 * Implements orphans.h; keep.c and handler_exec.c call it. Uses only libc, because it is linked
 * into drover-keep.
 */
#include "agent/orphans.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Return: the parent of a process, 0 if it has ended. In /proc/PID/stat the name of the process is
 * in parentheses and may itself contain parentheses, so the last ')' is searched for. */
static pid_t parent_of(pid_t pid)
{
    char path[32], text[512];
    const char *end;
    ssize_t n;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    n = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    end = strrchr(text, ')');
    return end && strlen(end) > 4 ? (pid_t)strtol(end + 4, NULL, 10) : 0;
}

/* Return: the next child of this process for which @spares does not return true, 0 at the end. */
static pid_t next_orphan(DIR *proc, bool (*spares)(pid_t pid))
{
    const struct dirent *entry;

    while ((entry = readdir(proc))) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

        if (pid > 1 && parent_of(pid) == getpid() && !(spares && spares(pid)))
            return pid;
    }
    return 0;
}

int orphans_kill(bool (*spares)(pid_t pid))
{
    DIR *proc = opendir("/proc");
    pid_t pid;
    int n = 0;

    while (proc && (pid = next_orphan(proc, spares)) > 0) {
        kill(pid, SIGKILL);
        n++;
    }
    if (proc)
        closedir(proc);
    return n;
}

int orphans_reap(bool (*spares)(pid_t pid))
{
    DIR *proc = opendir("/proc");
    pid_t pid;
    int all = 1;

    while (proc && (pid = next_orphan(proc, spares)) > 0)
        if (waitpid(pid, NULL, WNOHANG) == 0)
            all = 0;
    if (proc)
        closedir(proc);
    return all;
}
