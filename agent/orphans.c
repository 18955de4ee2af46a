// SPDX-License-Identifier: Apache-2.0
#include "agent/orphans.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* 0 for none. A process' name, in brackets, may hold anything. */
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

/* ---- as the kernel lists the children of a thread, where it does ---- */

/* Kills what is in one list. Return: how many, or -1 where there is no list. */
static int kill_children(const char *task, bool (*spares)(pid_t pid))
{
    char path[64];
    FILE *list;
    int pid, n = 0;

    snprintf(path, sizeof(path), "/proc/self/task/%.20s/children", task);
    list = fopen(path, "re");
    if (!list)
        return -1;
    while (fscanf(list, "%d", &pid) == 1) {
        if (spares && spares(pid))
            continue;
        kill(pid, SIGKILL);
        n++;
    }
    fclose(list);
    return n;
}

/* Whatever ends between two looks, after it has started another one, is there in the next: the
 * quicker the look, the fewer it takes to outrun it. Return: as kill_children(). */
static int kill_listed(bool (*spares)(pid_t pid))
{
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *entry;
    int n = tasks ? 0 : -1;

    while (n >= 0 && (entry = readdir(tasks))) {
        int of = entry->d_name[0] == '.' ? 0 : kill_children(entry->d_name, spares);

        n = of < 0 ? of : n + of;
    }
    if (tasks)
        closedir(tasks);
    return n;
}

/* ---- as /proc has all processes ---- */

/* Return: the next child of this process that is not spared, 0 at the end. */
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
    int n = kill_listed(spares);
    DIR *proc;
    pid_t pid;

    if (n >= 0)
        return n;
    n = 0;
    proc = opendir("/proc");
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
