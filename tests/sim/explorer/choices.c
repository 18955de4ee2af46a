// SPDX-License-Identifier: Apache-2.0
/*
 * Choices: records the outcomes of chance by name, or follows recorded ones
 *
 * See choices.h. Called by main.c, minimise.c and test_minimise.c.
 */
#include "explorer/choices.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "world/digest.h"
#include "world/timeline.h"

#define NAME_MAX 512
#define TABLE_MIN 1024

/* Numbers by keys; no key is 0. */
struct table {
    struct slot {
        uint64_t key;
        uint32_t number;
    } * slots;
    uint32_t n, size; /* a power of two */
};

struct choices {
    struct decider decider;
    struct choice *items;
    uint32_t n, size;
    struct table counts; /* draws so far, by name */
    struct table places; /* index in items plus 1, by name and n-th */
    bool followed;
    uint64_t most_events;
    char about[NAME_MAX];
    char name[NAME_MAX]; /* of the present draw */
    uint32_t site;
    uint32_t nth;
};

static void *or_die(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

/* ---- table ---- */

static uint32_t *table_at(struct table *t, uint64_t key);

static void table_grow(struct table *t)
{
    struct table bigger = {.size = t->size ? 2 * t->size : TABLE_MIN};

    bigger.slots = or_die(calloc(bigger.size, sizeof(*bigger.slots)));
    for (uint32_t i = 0; i < t->size; i++)
        if (t->slots[i].key)
            *table_at(&bigger, t->slots[i].key) = t->slots[i].number;
    free(t->slots);
    *t = bigger;
}

/* Found, or created with 0; valid until the next call. */
static uint32_t *table_at(struct table *t, uint64_t key)
{
    uint32_t i;

    if (2 * t->n >= t->size)
        table_grow(t);
    i = (uint32_t)key & (t->size - 1);
    while (t->slots[i].key && t->slots[i].key != key)
        i = (i + 1) & (t->size - 1);
    if (!t->slots[i].key) {
        t->slots[i].key = key;
        t->n++;
    }
    return &t->slots[i].number;
}

static void table_clear(struct table *t)
{
    if (t->n > 0)
        memset(t->slots, 0, t->size * sizeof(*t->slots));
    t->n = 0;
}

static uint64_t key_of(const char *name, uint32_t nth)
{
    return digest_number(digest_str(DIGEST_INIT, name), nth) | 1;
}

/* ---- the list ---- */

struct decider *choices_decider(struct choices *c)
{
    return &c->decider;
}

struct choices *choices_free(struct choices *c)
{
    if (!c)
        return NULL;
    for (uint32_t i = 0; i < c->n; i++)
        free((char *)c->items[i].name);
    free(c->items);
    free(c->counts.slots);
    free(c->places.slots);
    free(c);
    return NULL;
}

/* Notes the place of each choice, counted from 1. */
static void place(struct choices *c)
{
    table_clear(&c->places);
    for (uint32_t i = 0; i < c->n; i++)
        *table_at(&c->places, key_of(c->items[i].name, c->items[i].nth)) = i + 1;
}

void choices_follow(struct choices *c, uint64_t most_events)
{
    place(c);
    c->followed = true;
    c->most_events = most_events;
    table_clear(&c->counts);
    for (uint32_t i = 0; i < c->n; i++)
        c->items[i].met = false;
}

struct choice *choices_items(const struct choices *c, uint32_t *n)
{
    *n = c->n;
    return c->items;
}

static void add(struct choices *c, const struct choice *item)
{
    if (c->n == c->size) {
        c->size = c->size ? 2 * c->size : 256;
        c->items = or_die(realloc(c->items, c->size * sizeof(*c->items)));
    }
    c->items[c->n] = *item;
    c->items[c->n++].name = or_die(strdup(item->name));
}

void choices_drop(struct choices *c)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->n; i++) {
        if (c->items[i].taken_back || !c->items[i].met)
            free((char *)c->items[i].name);
        else
            c->items[n++] = c->items[i];
    }
    c->n = n;
}

void choices_write(const struct choices *c, FILE *out)
{
    for (uint32_t i = 0; i < c->n; i++)
        fprintf(out, "t=%" PRId64 " %" PRIu64 " #%" PRIu32 " %s\n", c->items[i].at,
                c->items[i].outcome, c->items[i].nth, c->items[i].name);
}

bool choices_parse(struct choices *c, const char *line)
{
    struct choice item = {0};
    char name[NAME_MAX];

    if (sscanf(line, "t=%" SCNd64 " %" SCNu64 " #%" SCNu32 " %511[^\n]", &item.at, &item.outcome,
               &item.nth, name) != 4)
        return false;
    item.name = name;
    item.site = (uint32_t)strcspn(name, ",");
    add(c, &item);
    return true;
}

/* ---- draws ---- */

__attribute__((format(printf, 2, 3))) static void set_about(struct decider *d, const char *format,
                                                            ...)
{
    struct choices *c = container_of(d, struct choices, decider);
    va_list args;

    va_start(args, format);
    vsnprintf(c->about, sizeof(c->about), format, args);
    va_end(args);
}

/* The text after the last "." or "->" of an expression. */
static const char *last_member(const char *expression)
{
    const char *from = expression;

    for (const char *p = expression; *p; p++)
        if (*p == '.' || *p == '>')
            from = p + 1;
    return from;
}

/* Formatted by hand, as this is done for each draw. */
static void set_name(struct choices *c, const struct draw *draw)
{
    char *at = stpcpy(c->name, draw->function);

    if (*draw->what)
        at = stpcpy(stpcpy(at, " "), last_member(draw->what));
    c->site = (uint32_t)(at - c->name);
    if (*c->about)
        snprintf(at, sizeof(c->name) - c->site, ", %s", c->about);
    c->nth = ++*table_at(&c->counts, key_of(c->name, 0));
}

static uint64_t record(struct choices *c, int64_t now, uint64_t outcome)
{
    if (outcome > 0)
        add(c, &(struct choice){c->name, c->site, c->nth, outcome, .at = now});
    return outcome;
}

/* Return: the outcome that was kept for this draw; 0: none, or the choice was taken back. */
static uint64_t kept(struct choices *c, int64_t now)
{
    uint32_t found = *table_at(&c->places, key_of(c->name, c->nth));

    if (found == 0 || c->items[found - 1].taken_back)
        return 0;
    c->items[found - 1].met = true;
    c->items[found - 1].at = now;
    return c->items[found - 1].outcome;
}

static uint64_t on_draw(struct decider *d, struct timeline *t, const struct draw *draw)
{
    struct choices *c = container_of(d, struct choices, decider);
    uint64_t outcome;

    set_name(c, draw);
    if (!c->followed)
        return record(c, t->now, timeline_by_chance(t, draw));
    outcome = kept(c, t->now);
    if (draw->kind == DRAW_SEED && outcome == 0)
        return key_of(c->name, c->nth); /* a different seed for each draw */
    return outcome < draw->n ? outcome : draw->n - 1;
}

static bool on_step(struct decider *d, struct timeline *t)
{
    const struct choices *c = container_of(d, struct choices, decider);

    return (!c->followed || t->events < c->most_events) && timeline_next(t);
}

struct choices *choices_new(void)
{
    struct choices *c = or_die(calloc(1, sizeof(*c)));

    c->decider = (struct decider){.draw = on_draw, .about = set_about, .step = on_step};
    return c;
}
