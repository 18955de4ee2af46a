// SPDX-License-Identifier: Apache-2.0
/*
 * Timeline: virtual time, the queue of events, chance, and the hash of a world
 *
 * See timeline.h. Called by all parts of the simulator.
 */
#include "world/timeline.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

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

void timeline_add_roaming(struct timeline *t, struct event *e, int64_t delay, int64_t latest)
{
    e->roams = timeline_explored(t);
    timeline_add(t, e, e->roams ? latest : delay);
}

void timeline_cancel(struct timeline *t, struct event *e)
{
    heap_remove(&t->heap, &e->node);
}

/* Mixes in the time and the function of an event, independently of where the program was loaded. */
static void mix_event(struct timeline *t, const struct event *e)
{
    timeline_mix_number(t, (uint64_t)t->now);
    timeline_mix_number(t, (uintptr_t)e->fire - (uintptr_t)timeline_next);
}

bool timeline_next(struct timeline *t)
{
    struct heap_node *n = heap_first(&t->heap);
    struct event *e;

    if (!n)
        return false;
    timeline_about(t, "%s", "");
    e = container_of(n, struct event, node);
    heap_remove(&t->heap, n);
    t->now = n->when;
    if (e->held_until && *e->held_until > t->now) {
        timeline_add(t, e, *e->held_until - t->now);
        return true;
    }
    t->events++;
    mix_event(t, e);
    e->fire(e);
    return true;
}

bool timeline_step(struct timeline *t)
{
    if (t->decider && t->decider->step)
        return t->decider->step(t->decider, t);
    return timeline_next(t);
}

uint64_t timeline_by_chance(struct timeline *t, const struct draw *draw)
{
    switch (draw->kind) {
    case DRAW_CHANCE:
        return rng_below(&t->rng, 1000000) < draw->rate;
    case DRAW_KEEP:
        return true;
    case DRAW_SEED:
        return rng_next(&t->rng);
    default:
        return rng_below(&t->rng, draw->n);
    }
}

uint64_t timeline_draw_(struct timeline *t, enum draw_kind kind, uint64_t n, uint32_t rate,
                        const char *function, const char *what)
{
    const struct draw draw = {kind, n, rate, function, what};

    return t->decider ? t->decider->draw(t->decider, t, &draw) : timeline_by_chance(t, &draw);
}

void timeline_mix(struct timeline *t, struct bytes b)
{
    uint64_t hash = t->hash;

    for (size_t i = 0; i < b.len; i++)
        hash = (hash ^ b.data[i]) * DIGEST_PRIME;
    t->hash = (hash ^ b.len) * DIGEST_PRIME;
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
