// SPDX-License-Identifier: Apache-2.0
/*
 * Logged: the lines that the machine under test logs
 *
 * See logged.h. Called by test_corrupt.c and test_supervisor.c.
 */
#include "machines/logged.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/str.h"

static int file = -1;

void logged_begin(void)
{
    file = memfd_create("log", MFD_CLOEXEC);
    assert_true(file >= 0);
    log_init(&(struct log_config){.service = "test", .level = LOG_WARN, .fd = file});
}

unsigned logged_count(const char *text)
{
    CLEANUP(buf_deinit) struct buf lines = {0};
    char part[4096];
    unsigned count = 0;
    ssize_t len;

    for (off_t at = 0; (len = pread(file, part, sizeof(part), at)) > 0; at += len)
        buf_append(&lines, part, (size_t)len);
    assert_int_equal(len, 0);
    for (const char *at = buf_str(&lines); (at = strstr(at, text)); at++)
        count++;
    return count;
}

void logged_end(void)
{
    log_set_level((enum log_level)(LOG_ERROR + 1));
    close(file);
}
