// SPDX-License-Identifier: Apache-2.0
/*
 * Locals that clean up after themselves
 *
 * Own a local by attribute, hand it over with take():
 *
 *     CLEANUP(thing_free) struct thing *t = thing_new();
 *     ...
 *     *out = take(t);
 *     return 0;
 */
#pragma once

#include <stdlib.h>

/* Calls fn##_p(&variable) at the end of its scope; define that with CLEANUP_DEFINE(). */
#define CLEANUP(fn) __attribute__((cleanup(fn##_p)))

/* For a destructor fn(type) that accepts NULL (or the type's empty value). */
#define CLEANUP_DEFINE(type, fn)                                                                   \
    static inline __attribute__((unused)) void fn##_p(type *p)                                     \
    {                                                                                              \
        fn(*p);                                                                                    \
    }

/* Hands a pointer over: yields its value and leaves NULL behind. */
#define take(p)                                                                                    \
    __extension__({                                                                                \
        __auto_type take_ = (p);                                                                   \
        (p) = NULL;                                                                                \
        take_;                                                                                     \
    })

/* Memory that has to be there: a turn is done whole or not at all, and after an abort the broker
 * and the store still have everything. */
static inline void *or_abort(void *p)
{
    if (!p)
        abort();
    return p;
}

static inline void free_p(void *p)
{
    free(*(void **)p);
}

#define container_of(ptr, type, member)                                                            \
    ((type *)(void *)((char *)(ptr) - __builtin_offsetof(type, member)))

#define array_size(a) (sizeof(a) / sizeof((a)[0]))
