// SPDX-License-Identifier: Apache-2.0
/*
 * Local variables that free what they own at the end of their scope
 *
 * Used everywhere. A local variable owns its value by the attribute CLEANUP(); take() hands the
 * value over:
 *
 *     CLEANUP(thing_free) struct thing *t = thing_new();
 *     ...
 *     *out = take(t);
 *     return 0;
 */
#pragma once

#include <stdlib.h>

/* Calls fn##_p(&variable) at the end of its scope; CLEANUP_DEFINE() defines that function. */
#define CLEANUP(fn) __attribute__((cleanup(fn##_p)))

/* Defines fn##_p() for a destructor fn(type) that accepts NULL, or the empty value of the type. */
#define CLEANUP_DEFINE(type, fn)                                                                   \
    static inline __attribute__((unused)) void fn##_p(type *p)                                     \
    {                                                                                              \
        fn(*p);                                                                                    \
    }

/* Hands a pointer over: its value is that of @p, and @p becomes NULL. */
#define take(p)                                                                                    \
    __extension__({                                                                                \
        __auto_type take_ = (p);                                                                   \
        (p) = NULL;                                                                                \
        take_;                                                                                     \
    })

/* Aborts if memory is out: a step of a machine is done completely or not at all, and after an abort
 * the broker and the store still have everything. */
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

/* The struct of @type whose @member is at @ptr. */
#define container_of(ptr, type, member)                                                            \
    ((type *)(void *)((char *)(ptr) - __builtin_offsetof(type, member)))

#define array_size(a) (sizeof(a) / sizeof((a)[0]))
