// SPDX-License-Identifier: Apache-2.0
/*
 * History entries: turns the lines that the store keeps of a job into HistoryEntry messages
 *
 * A line is such as "7 1700000000123 dispatched 2 1 2.9f…": the number of the entry, the time in
 * Unix ms, the event, and words whose meaning EVENTS says for each event. See model/history.h.
 */
#include "model/history.h"

#include <string.h>

/* The words after each event: s step number, a attempt, t token, g agent (may be missing), d
 * detail: the rest of the line, w the same, but the last word may be a step number; - a word that
 * is skipped. */
static const struct {
    const char *event;
    const char *words;
} EVENTS[] = {
    {"created", "-d"},    {"dispatched", "sat"}, {"done", "satg"},     {"failed", "satg"},
    {"deferred", "satg"}, {"expired", "satg"},   {"silent", "satg"},   {"unsent", "sat"},
    {"unstarted", "sat"}, {"unroutable", "sat"}, {"undone", "satg"},   {"skipped", "s"},
    {"parked", "sd"},     {"given_up", "sd"},    {"retried", "w"},     {"edited", "sd"},
    {"resolved", "sd"},   {"mended", "w"},       {"withdrawn", "sat"}, {"turned", "w"},
    {"changed", "sd"},    {"changing", "s"},     {"anew", "s"},        {"began", "satg"},
    {"unchanged", "w"},   {"resent", "sat"},
};

static const char *words_of(struct bytes event)
{
    for (size_t i = 0; i < array_size(EVENTS); i++)
        if (bytes_is(event, EVENTS[i].event))
            return EVENTS[i].words;
    return "d";
}

/* Removes the first word from a line. */
static struct bytes next_word(struct bytes *line)
{
    const uint8_t *space = line->len > 0 ? memchr(line->data, ' ', line->len) : NULL;
    struct bytes word = bytes_of(line->data, space ? (size_t)(space - line->data) : line->len);
    size_t used = word.len + (space ? 1 : 0);

    *line = bytes_of(line->data + used, line->len - used);
    return word;
}

static void set_step(Drover__V1__HistoryEntry *m, struct bytes word, const struct workflow *w)
{
    int64_t number;

    if (bytes_to_i64(word, &number) && number >= 0 && number < w->n_steps)
        m->step = (char *)w->steps[number].name;
}

static void set_detail(struct effects *fx, Drover__V1__HistoryEntry *m, struct bytes text)
{
    while (text.len > 0 && text.data[text.len - 1] == ' ')
        text.len--;
    m->detail = effects_text(fx, text);
}

/* A detail that may end with the number of a step, such as "D FAILURE PERMANENT 3". */
static void set_why(struct effects *fx, Drover__V1__HistoryEntry *m, struct bytes text,
                    const struct workflow *w)
{
    size_t at = text.len;

    while (at > 0 && text.data[at - 1] != ' ')
        at--;
    set_step(m, bytes_of(text.data + at, text.len - at), w);
    set_detail(fx, m, *m->step ? bytes_of(text.data, at) : text);
}

/* Builds of the store functions before 42 have written whole tokens, which may still be valid:
 * those are replaced by their ids. */
static const char *shown_token(struct effects *fx, struct bytes word)
{
    const char *token = effects_text(fx, word);
    const char *dot = strchr(token, '.');

    return dot && strlen(dot + 1) > ID_SHORT_LEN ? ops_token_id(fx, token) : token;
}

static void set_word(struct effects *fx, Drover__V1__HistoryEntry *m, char kind, struct bytes *line,
                     const struct workflow *w)
{
    struct bytes word = kind == 'd' || kind == 'w' ? *line : next_word(line);
    int64_t number = -1;

    switch (kind) {
    case 's':
        set_step(m, word, w);
        break;
    case 'a':
        if (bytes_to_i64(word, &number) && number >= 0 && number <= UINT32_MAX)
            m->attempt = (uint32_t)number;
        break;
    case 't':
        m->token = (char *)shown_token(fx, word);
        break;
    case 'g':
        m->agent = effects_text(fx, word);
        break;
    case 'd':
        set_detail(fx, m, word);
        break;
    case 'w':
        set_why(fx, m, word, w);
        break;
    default:
        break;
    }
}

static void set_entry(struct effects *fx, Drover__V1__HistoryEntry *m, struct bytes line,
                      const struct workflow *w)
{
    struct bytes seq, event;
    int64_t number = 0;

    drover__v1__history_entry__init(m);
    seq = next_word(&line);
    if (bytes_to_i64(seq, &number))
        m->seq = (uint64_t)number;
    (void)bytes_to_i64(next_word(&line), &m->at);
    event = next_word(&line);
    m->event = effects_text(fx, event);
    for (const char *kind = words_of(event); *kind; kind++)
        set_word(fx, m, *kind, &line, w);
}

void history_entries(struct effects *fx, Drover__V1__Answer *m, const struct ops_history *found,
                     const struct workflow *w)
{
    Drover__V1__HistoryEntry *entries = effects_alloc(fx, found->n * sizeof(*entries));

    m->history = effects_alloc(fx, found->n * sizeof(*m->history));
    for (uint32_t i = 0; i < found->n; i++) {
        set_entry(fx, &entries[i], found->entries[i], w);
        m->history[m->n_history++] = &entries[i];
    }
    m->history_first = found->first;
}
