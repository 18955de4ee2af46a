// SPDX-License-Identifier: Apache-2.0
/*
 * The list of effects of a step function, with the arena that holds what they point to
 *
 * See model/effect.h.
 */
#include "model/effect.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCK_SIZE ((size_t)64 * 1024)

struct effect_block {
    struct effect_block *next;
    size_t used;
    size_t size;
    max_align_t data[];
};

static void block_push(struct effects *fx, size_t len)
{
    size_t size = len > BLOCK_SIZE ? len : BLOCK_SIZE;
    struct effect_block *block = or_abort(malloc(sizeof(*block) + size));

    block->next = fx->blocks;
    block->used = 0;
    block->size = size;
    fx->blocks = block;
}

void effects_reset(struct effects *fx)
{
    while (fx->blocks && (fx->blocks->next || fx->blocks->size > BLOCK_SIZE)) {
        struct effect_block *block = fx->blocks;

        fx->blocks = block->next;
        free(block);
    }
    if (fx->blocks)
        fx->blocks->used = 0;
    fx->n = 0;
}

void effects_deinit(struct effects *fx)
{
    effects_reset(fx);
    free(fx->blocks);
    free(fx->items);
    *fx = (struct effects){0};
}

void *effects_alloc(struct effects *fx, size_t len)
{
    size_t aligned = (len + _Alignof(max_align_t) - 1) & ~(_Alignof(max_align_t) - 1);
    void *p;

    if (!fx->blocks || fx->blocks->size - fx->blocks->used < aligned)
        block_push(fx, aligned);
    p = (char *)fx->blocks->data + fx->blocks->used;
    fx->blocks->used += aligned;
    return p;
}

struct bytes effects_copy(struct effects *fx, struct bytes b)
{
    uint8_t *data = effects_alloc(fx, b.len + 1);

    if (b.len > 0)
        memcpy(data, b.data, b.len);
    data[b.len] = 0;
    return bytes_of(data, b.len);
}

char *effects_text(struct effects *fx, struct bytes b)
{
    return (char *)effects_copy(fx, b).data;
}

const char *effects_str(struct effects *fx, const char *s)
{
    return effects_text(fx, bytes_str(s));
}

struct bytes effects_int(struct effects *fx, int64_t i)
{
    char room[INT_TEXT_MAX];

    return effects_copy(fx, int_text(i, room));
}

/* Prints into the rest of the present block; if that is too small, prints again into a new one. */
const char *effects_printf(struct effects *fx, const char *format, ...)
{
    size_t room = fx->blocks ? fx->blocks->size - fx->blocks->used : 0;
    char *left = room > 0 ? (char *)fx->blocks->data + fx->blocks->used : NULL;
    va_list args;
    char *text;
    int len;

    va_start(args, format);
    len = vsnprintf(left, room, format, args);
    va_end(args);
    text = effects_alloc(fx, (size_t)len + 1);
    if (text == left)
        return text;
    va_start(args, format);
    vsnprintf(text, (size_t)len + 1, format, args);
    va_end(args);
    return text;
}

struct effect *effects_add(struct effects *fx, enum effect_type type, uint64_t id)
{
    if (fx->n == fx->size) {
        fx->size = fx->size ? 2 * fx->size : 64;
        fx->items = or_abort(realloc(fx->items, fx->size * sizeof(*fx->items)));
    }
    fx->items[fx->n] = (struct effect){.type = type, .id = id};
    return &fx->items[fx->n++];
}

struct store_answer *store_answer_copy(const struct store_answer *answer)
{
    size_t size = sizeof(*answer) + answer->n * sizeof(struct bytes);
    struct store_answer *copy;
    struct bytes *items;
    uint8_t *text;

    for (uint32_t i = 0; i < answer->n; i++)
        size += answer->items[i].len;
    copy = malloc(size);
    if (!copy)
        return NULL;
    items = (struct bytes *)(void *)(copy + 1);
    text = (uint8_t *)(items + answer->n);
    for (uint32_t i = 0; i < answer->n; i++) {
        items[i] = bytes_of(text, answer->items[i].len);
        if (answer->items[i].len > 0)
            memcpy(text, answer->items[i].data, answer->items[i].len);
        text += answer->items[i].len;
    }
    *copy = (struct store_answer){.result = answer->result, .items = items, .n = answer->n};
    return copy;
}
