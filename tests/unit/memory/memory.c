// SPDX-License-Identifier: Apache-2.0
/*
 * Tests of memory: allocation functions that fail and count
 *
 * See memory.h. Called by tests that let allocations fail.
 */
#include "memory/memory.h"

#include <malloc.h>
#include <protobuf-c/protobuf-c.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// NOLINTBEGIN(bugprone-reserved-identifier): the names that --wrap of the linker gives
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
ProtobufCMessage *__real_protobuf_c_message_unpack(const ProtobufCMessageDescriptor *type,
                                                   ProtobufCAllocator *allocator, size_t len,
                                                   const uint8_t *data);
void __real_protobuf_c_message_free_unpacked(ProtobufCMessage *m, ProtobufCAllocator *allocator);
void __real_free(void *p);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_reallocarray(void *p, size_t n, size_t size);
ProtobufCMessage *__wrap_protobuf_c_message_unpack(const ProtobufCMessageDescriptor *type,
                                                   ProtobufCAllocator *allocator, size_t len,
                                                   const uint8_t *data);
void __wrap_protobuf_c_message_free_unpacked(ProtobufCMessage *m, ProtobufCAllocator *allocator);
char *__wrap_strdup(const char *s);
void __wrap_free(void *p);
// NOLINTEND(bugprone-reserved-identifier)

static unsigned countdown;
static int failed;
static long held;
static long peak;

static int fails_now(void)
{
    if (countdown == 0 || --countdown > 0)
        return 0;
    failed = 1;
    return 1;
}

static void *count_in(void *p)
{
    if (p)
        held += (long)malloc_usable_size(p);
    if (held > peak)
        peak = held;
    return p;
}

void *__wrap_malloc(size_t size)
{
    return fails_now() ? NULL : count_in(__real_malloc(size));
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails_now() ? NULL : count_in(__real_calloc(n, size));
}

void *__wrap_realloc(void *p, size_t size)
{
    long before = p ? (long)malloc_usable_size(p) : 0;
    void *moved;

    if (fails_now())
        return NULL;
    moved = __real_realloc(p, size);
    if (moved)
        held -= before;
    return count_in(moved);
}

void *__wrap_reallocarray(void *p, size_t n, size_t size)
{
    return __wrap_realloc(p, n * size); /* tests do not ask for sizes that overflow */
}

char *__wrap_strdup(const char *s)
{
    size_t size = strlen(s) + 1;
    char *copy = __wrap_malloc(size);

    return copy ? memcpy(copy, s, size) : NULL;
}

void __wrap_free(void *p)
{
    if (p)
        held -= (long)malloc_usable_size(p);
    __real_free(p);
}

static void *allocate(void *unused, size_t size)
{
    return __wrap_malloc(size);
}

static void release(void *unused, void *p)
{
    __wrap_free(p);
}

/* Without an allocator of the caller the library uses its own functions, which do not fail and are
 * not counted. */
static ProtobufCAllocator counted = {.alloc = allocate, .free = release};

ProtobufCMessage *__wrap_protobuf_c_message_unpack(const ProtobufCMessageDescriptor *type,
                                                   ProtobufCAllocator *allocator, size_t len,
                                                   const uint8_t *data)
{
    return __real_protobuf_c_message_unpack(type, allocator ? allocator : &counted, len, data);
}

/* An allocator of the caller frees with the library's own function, which is not counted. */
void __wrap_protobuf_c_message_free_unpacked(ProtobufCMessage *m, ProtobufCAllocator *allocator)
{
    __real_protobuf_c_message_free_unpacked(m, allocator ? allocator : &counted);
}

void memory_fail_at(unsigned n)
{
    countdown = n;
    failed = 0;
}

int memory_failed(void)
{
    return failed;
}

unsigned memory_left(void)
{
    return countdown;
}

#ifdef COVERAGE
void __gcov_dump(void); /* NOLINT(bugprone-reserved-identifier): of libgcov */
#endif

void memory_exit(int status)
{
#ifdef COVERAGE
    memory_fail_at(0); /* it allocates */
    __gcov_dump();
#endif
    _exit(status);
}

void memory_measure(void)
{
    held = peak = 0;
}

long memory_held(void)
{
    return held;
}

size_t memory_peak(void)
{
    return (size_t)peak;
}
