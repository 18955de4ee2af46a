// SPDX-License-Identifier: Apache-2.0
/*
 * Preloaded into Redis: notes how much of each file is on disk, and can make syncs slow
 *
 * After each fsync() and fdatasync() it writes a line "size path" to the file that SYNCED_LOG
 * names, with the size that the file had before the call. What was written later may be lost in a
 * power cut; see power.py. SYNCED_MS: the least time that a sync takes.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef int sync_fn(int fd);

/* One write() for each line, because Redis also syncs on another thread. */
static void note(long long size, const char *path)
{
    const char *log = getenv("SYNCED_LOG");
    char line[4200];
    int len = snprintf(line, sizeof(line), "%lld %s\n", size, path);
    int fd = log ? open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;

    if (fd < 0 || write(fd, line, (size_t)len) != len)
        abort(); /* a test must not go on without the log */
    close(fd);
}

static void be_slow(void)
{
    const char *ms = getenv("SYNCED_MS");
    long n = ms ? atol(ms) : 0;
    struct timespec left = {.tv_sec = n / 1000, .tv_nsec = n % 1000 * 1000000};

    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        ;
}

static int sync_noted(int fd, const char *name)
{
    sync_fn *sync = (sync_fn *)dlsym(RTLD_NEXT, name);
    char link[32], path[4096];
    struct stat before;
    ssize_t len;
    int result, error;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    len = readlink(link, path, sizeof(path) - 1);
    if (len < 0 || fstat(fd, &before) < 0)
        return sync(fd);
    path[len] = '\0';
    be_slow();
    result = sync(fd);
    error = errno;
    if (result == 0)
        note((long long)before.st_size, path);
    errno = error;
    return result;
}

__attribute__((visibility("default"))) int fsync(int fd)
{
    return sync_noted(fd, "fsync");
}

__attribute__((visibility("default"))) int fdatasync(int fd)
{
    return sync_noted(fd, "fdatasync");
}
