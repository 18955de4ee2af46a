// SPDX-License-Identifier: Apache-2.0
/*
 * Files: reads a file as a whole
 *
 * See io/file.h.
 */
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define CHUNK ((size_t)64 << 10)

static int read_all(int fd, size_t max, struct buf *out)
{
    size_t start = out->len;

    for (;;) {
        uint8_t *room = buf_reserve(out, CHUNK);
        ssize_t n;

        if (!room)
            return -ENOMEM;
        n = read(fd, room, CHUNK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            return 0;
        out->len += (size_t)n;
        if (out->len - start > max)
            return -EFBIG;
    }
}

static int report(int r, const char *path, struct problem *problem)
{
    if (r)
        problem_set(problem, path, "%s", strerror(-r));
    return r;
}

int file_read(const char *path, size_t max, struct buf *out, struct problem *problem)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int r = fd < 0 ? -errno : read_all(fd, max, out);

    if (fd >= 0)
        close(fd);
    return report(r, path, problem);
}

int file_read_operand(const char *path, size_t max, struct buf *out, struct problem *problem)
{
    if (strcmp(path, "-") == 0)
        return report(read_all(STDIN_FILENO, max, out), path, problem);
    return file_read(path, max, out, problem);
}
