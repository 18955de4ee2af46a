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
    if (!n || (t->choices && t->events >= choices_most_events(t->choices)))
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
    e->fire(e);
    return true;
}

/* Return: one of 0 to @n - 1. */
static uint64_t draw(struct timeline *t, uint64_t n, const char *function, const char *what)
{
    uint64_t outcome;

    if (!t->choices)
        return rng_below(&t->rng, n);
    if (choices_due(t->choices, t->now, function, what, &outcome))
        return outcome < n ? outcome : n - 1;
    outcome = rng_below(&t->rng, n);
    choices_record(t->choices, t->now, outcome);
    return outcome;
}

int64_t timeline_between_(struct timeline *t, int64_t least, int64_t most, const char *function,
                          const char *what)
{
    if (t->explorer)
        return least;
    if (t->nth)
        return t->nth->way > 0 ? most : least;
    return least + (int64_t)draw(t, (uint64_t)(most - least + 1), function, what);
}

uint32_t timeline_choose_(struct timeline *t, uint32_t n, const char *function, const char *what)
{
    if (t->explorer)
        return explorer_choose(t->explorer, n);
    if (t->nth)
        return t->nth->way < n ? t->nth->way : n - 1;
    return (uint32_t)draw(t, n, function, what);
}

static bool nth_chance(struct timeline_nth *nth, uint32_t rate)
{
    if (rate == TIMELINE_NTH)
        return ++nth->met == nth->n;
    return rate > 0 && nth->way > 0;
}

bool timeline_chance_(struct timeline *t, uint32_t millionths, const char *function,
                      const char *what)
{
    uint64_t outcome;

    if (t->explorer)
        return explorer_chance(t->explorer, millionths);
    if (t->nth)
        return nth_chance(t->nth, millionths);
    if (millionths == 0)
        return false;
    if (!t->choices)
        return rng_below(&t->rng, 1000000) < millionths;
    if (!choices_due(t->choices, t->now, function, what, &outcome)) {
        outcome = rng_below(&t->rng, 1000000) < millionths;
        choices_record(t->choices, t->now, outcome);
    }
    return outcome;
}

bool timeline_keeps_(struct timeline *t, const char *function)
{
    uint64_t outcome = true;

    if (t->choices && !choices_due(t->choices, t->now, function, "", &outcome))
        choices_record(t->choices, t->now, outcome);
    return outcome;
}

uint64_t timeline_seed_(struct timeline *t, const char *function)
{
    uint64_t outcome;

    if (!t->choices)
        return rng_next(&t->rng);
    if (choices_due(t->choices, t->now, function, "", &outcome))
        return outcome ? outcome : choices_number(t->choices);
    outcome = rng_next(&t->rng);
    choices_record(t->choices, t->now, outcome);
    return outcome;
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
