// SPDX-License-Identifier: Apache-2.0
/*
 * Lines: notes the lines of the store functions that run, in a file that programs share
 *
 * See lines.h. Called by store.c and lines_main.c.
 */
#include "store/lines.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint8_t *ran; /* the file, a byte for each line; global because a Lua hook has no argument */

static void die(const char *path)
{
    perror(path);
    abort();
}

static uint8_t *map(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    void *bytes;

    if (fd < 0 || ftruncate(fd, LINES_MAX))
        die(path);
    bytes = mmap(NULL, LINES_MAX, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED)
        die(path);
    close(fd);
    return bytes;
}

static void on_line(lua_State *lua, lua_Debug *ar)
{
    if (ar->currentline > 0 && ar->currentline < LINES_MAX)
        ran[ar->currentline] = 1;
}

void lines_watch(lua_State *lua)
{
    const char *path = getenv("DROVER_LINES");

    if (!path || !*path)
        return;
    if (!ran)
        ran = map(path);
    lua_sethook(lua, on_line, LUA_MASKLINE, 0);
}

/* The part that begins after the line at @at, and the length of its name; NULL if none does. */
static const char *part_after(const char *at, size_t *len)
{
    static const char begin[] = "do ---- ", end[] = " ----\n";
    const char *name = at + strlen(begin), *after;

    if (strncmp(at, begin, strlen(begin)) != 0)
        return NULL;
    after = strstr(name, end);
    if (!after || memchr(name, '\n', (size_t)(after - name)))
        return NULL;
    *len = (size_t)(after - name);
    return name;
}

void lines_place(struct buf *out, const char *library, uint32_t number)
{
    const char *part = "head.lua";
    size_t len = strlen(part);
    uint32_t before = 0; /* lines before those of the part */

    for (uint32_t k = 1; k < number && *library; k++) {
        size_t n;
        const char *name = part_after(library, &n);

        if (name) {
            part = name;
            len = n;
            before = k;
        }
        library = strchrnul(library, '\n');
        library += *library == '\n';
    }
    if (strncmp(part, "schema.txt", len) == 0)
        buf_puts(out, "the part generated from ");
    buf_printf(out, "common/store/%.*s:%u", (int)len, part, (unsigned)(number - before));
}

void lines_error(struct buf *out, const char *library, const char *error)
{
    static const char chunk[] = "user_function:";
    const char *at;

    while ((at = strstr(error, chunk)) && at[strlen(chunk)] >= '0' && at[strlen(chunk)] <= '9') {
        char *rest;
        unsigned long number = strtoul(at + strlen(chunk), &rest, 10);

        buf_append(out, error, (size_t)(at - error));
        lines_place(out, library, (uint32_t)number);
        error = rest;
    }
    buf_puts(out, error);
}
