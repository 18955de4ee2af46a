// SPDX-License-Identifier: Apache-2.0
#include "timeline.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "explore.h"

void timeline_init(struct timeline *t, uint64_t seed, FILE *trace)
{
    *t = (struct timeline){.hash = DIGEST_INIT, .trace = trace};
    rng_seed(&t->rng, seed);
}

void timeline_deinit(struct timeline *t)
{
    for (struct heap_node *n; (n = heap_first(&t->heap));)
        heap_remove(&t->heap, n);
    heap_deinit(&t->heap);
    effects_deinit(&t->arena);
}

void *timeline_alloc(struct timeline *t, size_t len)
{
    return memset(effects_alloc(&t->arena, len), 0, len);
}

const char *timeline_str(struct timeline *t, const char *s)
{
    return s ? effects_str(&t->arena, s) : NULL;
}

void timeline_add(struct timeline *t, struct event *e, int64_t delay)
{
    if (heap_set(&t->heap, &e->node, t->now + (delay > 0 ? delay : 0)))
        abort();
}

void timeline_cancel(struct timeline *t, struct event *e)
{
    heap_remove(&t->heap, &e->node);
}

bool timeline_step(struct timeline *t)
{
    struct heap_node *n = heap_first(&t->heap);
    struct event *e;

    if (t->explorer)
        return explorer_step(t->explorer, t);
    if (!n)
        return false;
    e = container_of(n, struct event, node);
    heap_remove(&t->heap, n);
    t->now = n->when;
    if (e->held_until && *e->held_until > t->now) {
        timeline_add(t, e, *e->held_until - t->now);
        return true;
    }
    t->events++;
    e->fire(e);
    return true;
}

int64_t timeline_between(struct timeline *t, int64_t least, int64_t most)
{
    if (t->explorer)
        return least;
    return least + (int64_t)rng_below(&t->rng, (uint64_t)(most - least + 1));
}

uint32_t timeline_choose(struct timeline *t, uint32_t n)
{
    return t->explorer ? explorer_choose(t->explorer, n) : (uint32_t)timeline_between(t, 0, n - 1);
}

bool timeline_chance(struct timeline *t, uint32_t millionths)
{
    if (t->explorer)
        return explorer_chance(t->explorer, millionths);
    return millionths > 0 && rng_below(&t->rng, 1000000) < millionths;
}

void timeline_mix(struct timeline *t, struct bytes b)
{
    uint64_t hash = t->hash;

    for (size_t i = 0; i < b.len; i++)
        hash = (hash ^ b.data[i]) * DIGEST_PRIME;
    t->hash = (hash ^ b.len) * DIGEST_PRIME;
}

void timeline_mix_number(struct timeline *t, uint64_t number)
{
    t->hash = (t->hash ^ number) * DIGEST_PRIME;
}

void timeline_tell(struct timeline *t, const char *who, const char *format, ...)
{
    va_list args;

    fprintf(t->trace, "t=%" PRId64 " %s ", t->now, who);
    va_start(args, format);
    vfprintf(t->trace, format, args);
    va_end(args);
    fputc('\n', t->trace);
}
