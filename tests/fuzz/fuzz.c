// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz targets: functions that take an input apart
 *
 * See fuzz.h. Called by the fuzz targets and replay_main.c.
 */
#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/utf8.h"
#include "fuzz.h"

uint8_t fuzz_byte(struct bytes *input)
{
    uint8_t first = input->len > 0 ? input->data[0] : 0;

    if (input->len > 0)
        *input = bytes_of(input->data + 1, input->len - 1);
    return first;
}

struct bytes fuzz_until(struct bytes *input, char separator)
{
    const uint8_t *at = input->len > 0 ? memchr(input->data, separator, input->len) : NULL;
    struct bytes head = bytes_of(input->data, at ? (size_t)(at - input->data) : input->len);
    size_t skipped = head.len + (at != NULL);

    *input = bytes_of(input->data + skipped, input->len - skipped);
    return head;
}

char *fuzz_text(struct bytes input)
{
    return or_abort(strndup(input.len > 0 ? (const char *)input.data : "", input.len));
}

const char *fuzz_file(struct bytes text)
{
    static int fd = -1;
    static char path[32];

    if (fd < 0)
        fd = memfd_create("fuzz", MFD_CLOEXEC);
    assert(fd >= 0 && ftruncate(fd, 0) == 0);
    assert(pwrite(fd, text.data, text.len, 0) == (ssize_t)text.len);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return path;
}

void fuzz_begin(void)
{
    static struct log_config config = {.service = "fuzz", .level = LOG_ERROR, .fd = -1};

    if (config.fd >= 0)
        return;
    config.fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    log_init(&config);
    signal(SIGPIPE, SIG_IGN);
}

static void check_text(const char *text)
{
    for (size_t i = 0, len = strlen(text); i < len;) {
        size_t n = utf8_length(text + i, len - i);

        assert(!utf8_is_harmful(text + i, n));
        i += n;
    }
}

void fuzz_check_problem(const struct problem *problem)
{
    assert(problem->reason[0]);
    check_text(problem->reason);
    check_text(problem->field);
}
