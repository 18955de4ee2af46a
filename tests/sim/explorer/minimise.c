// SPDX-License-Identifier: Apache-2.0
/*
 * Minimiser: takes choices back as long as the violation stays the same
 *
 * See minimise.h. Called by main.c and test_minimise.c.
 */
#include "explorer/minimise.h"

#include <ctype.h>
#include <string.h>

#define DIGITS "0123456789"
#define WORD "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" DIGITS "-_"

struct search {
    struct choices *choices;
    minimise_run *run;
    minimise_progress *progress;
    void *ctx;
    struct minimise_result *out;
};

/* The length of the word or sign at the beginning of @text. */
static size_t piece_len(const char *text)
{
    size_t len = strspn(text, WORD);

    return len > 0 ? len : 1;
}

/* Such as j1 or 17; not the number of an invariant, such as I12. */
static bool is_name_or_number(const char *word, size_t len)
{
    return !isupper((unsigned char)*word) && strcspn(word, DIGITS) < len;
}

/* Whether both are equal except for names and numbers. */
static bool says_the_same(const char *a, const char *b)
{
    size_t m, n;

    for (; *a && *b; a += m, b += n) {
        m = piece_len(a);
        n = piece_len(b);
        if (is_name_or_number(a, m) && is_name_or_number(b, n))
            continue;
        if (m != n || memcmp(a, b, n) != 0)
            return false;
    }
    return *a == *b;
}

static bool violates(struct search *s)
{
    struct world_result result;

    s->out->worlds++;
    choices_follow(s->choices, MINIMISE_TIMES * s->out->before.events);
    s->run(s->ctx, choices_decider(s->choices), &result);
    if (!says_the_same(result.violation, s->out->before.violation))
        return false;
    s->out->after = result;
    return true;
}

static uint32_t count(const struct search *s)
{
    uint32_t n;

    choices_items(s->choices, &n);
    return n;
}

static void keep(struct search *s)
{
    choices_drop(s->choices);
    s->out->choices_after = count(s);
    s->progress(s->ctx, s->out, s->choices);
}

/* Runs the world without the choices that are taken back now. Return: whether they are dropped;
 * otherwise they are restored. */
static bool attempt(struct search *s)
{
    struct choice *items;
    uint32_t n;

    if (violates(s)) {
        keep(s);
        return true;
    }
    s->progress(s->ctx, s->out, NULL);
    items = choices_items(s->choices, &n);
    for (uint32_t i = 0; i < n; i++)
        items[i].taken_back = false;
    return false;
}

static bool same_site(const struct choice *a, const struct choice *b)
{
    return a->site == b->site && strncmp(a->name, b->name, a->site) == 0;
}

/* Takes back all choices of a site, if @first is the first of them. */
static bool take_site_back(struct search *s, uint32_t first)
{
    uint32_t n;
    struct choice *items = choices_items(s->choices, &n);

    for (uint32_t i = 0; i < first; i++)
        if (same_site(&items[i], &items[first]))
            return false;
    for (uint32_t i = first; i < n; i++)
        items[i].taken_back = same_site(&items[i], &items[first]);
    return attempt(s);
}

static void cut_sites(struct search *s)
{
    for (uint32_t first = 0; first < count(s);)
        if (!take_site_back(s, first))
            first++;
}

static bool take_piece_back(struct search *s, uint32_t first, uint32_t size)
{
    uint32_t n;
    struct choice *items = choices_items(s->choices, &n);

    for (uint32_t i = first; i < n && i - first < size; i++)
        items[i].taken_back = true;
    return attempt(s);
}

static void cut_pieces(struct search *s)
{
    for (uint32_t size = count(s) / 2; size > 0; size /= 2)
        for (uint32_t first = 0; first < count(s);)
            if (!take_piece_back(s, first, size))
                first += size;
}

/* The same choice at an earlier draw of its name: an earlier fault needs less before it. */
static bool bring_forward(struct search *s, uint32_t i, uint32_t nth)
{
    uint32_t n;
    struct choice *item = &choices_items(s->choices, &n)[i];
    uint32_t before = item->nth;

    if (nth == 0 || nth == before)
        return false;
    item->nth = nth;
    if (attempt(s))
        return true;
    item->nth = before;
    return false;
}

/* Return: whether any choice was moved. */
static bool bring_all_forward(struct search *s)
{
    bool any = false;

    for (uint32_t i = 0; i < count(s); i++) {
        uint32_t n;

        any |=
            bring_forward(s, i, 1) || bring_forward(s, i, choices_items(s->choices, &n)[i].nth / 2);
    }
    return any;
}

enum minimise_outcome minimise(struct choices *choices, minimise_run *run,
                               minimise_progress *progress, void *ctx, struct minimise_result *out)
{
    struct search s = {
        .choices = choices, .run = run, .progress = progress, .ctx = ctx, .out = out};
    uint32_t before;
    bool better;

    *out = (struct minimise_result){0};
    run(ctx, choices_decider(choices), &out->before);
    out->choices_before = count(&s);
    if (!*out->before.violation)
        return MINIMISE_NOTHING;
    if (!violates(&s))
        return MINIMISE_DIVERGED;
    keep(&s);
    do {
        before = count(&s);
        cut_sites(&s);
        cut_pieces(&s);
        better = bring_all_forward(&s) || count(&s) < before;
    } while (better);
    return MINIMISE_LEAST;
}
