// SPDX-License-Identifier: Apache-2.0
/*
 * ON History: what the store has noted of a job, taken apart for people. Entries are lines such as
 * "7 1700000000123 dispatched 2 1 2.9f…"; what the words behind an event mean stands in EVENTS.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "scheduler/machine.h"

/* s step, a attempt, t token, d detail: all that is left of the line; - passed over. */
static const struct {
    const char *event;
    const char *words;
} EVENTS[] = {
    {"created", "-d"},    {"dispatched", "sat"}, {"done", "sat"},      {"failed", "sat"},
    {"deferred", "sat"},  {"expired", "sat"},    {"unstarted", "sat"}, {"unroutable", "sat"},
    {"undone", "sat"},    {"skipped", "s"},      {"parked", "sd"},     {"given_up", "sd"},
    {"retried", "sd"},    {"edited", "s"},       {"resolved", "sd"},   {"mended", "d"},
    {"withdrawn", "sat"},
};

static const char *words_of(struct bytes event)
{
    for (size_t i = 0; i < array_size(EVENTS); i++)
        if (bytes_is(event, EVENTS[i].event))
            return EVENTS[i].words;
    return "d";
}

/* The next word of a line; the line goes on behind it. */
static struct bytes next_word(struct bytes *line)
{
    const uint8_t *space = line->len > 0 ? memchr(line->data, ' ', line->len) : NULL;
    struct bytes word = bytes_of(line->data, space ? (size_t)(space - line->data) : line->len);
    size_t used = word.len + (space ? 1 : 0);

    *line = bytes_of(line->data + used, line->len - used);
    return word;
}

static void set_word(struct scheduler *s, Drover__V1__HistoryEntry *m, char kind,
                     struct bytes *line, const struct workflow *w)
{
    struct bytes word = kind == 'd' ? *line : next_word(line);
    int64_t number = -1;

    switch (kind) {
    case 's':
        if (bytes_to_i64(word, &number) && number >= 0 && number < w->n_steps)
            m->step = (char *)w->steps[number].name;
        break;
    case 'a':
        if (bytes_to_i64(word, &number) && number >= 0 && number <= UINT32_MAX)
            m->attempt = (uint32_t)number;
        break;
    case 't':
        m->token = effects_text(s->out, word);
        break;
    case 'd':
        while (word.len > 0 && word.data[word.len - 1] == ' ')
            word.len--;
        m->detail = effects_text(s->out, word);
        break;
    default:
        break;
    }
}

static void set_entry(struct scheduler *s, Drover__V1__HistoryEntry *m, struct bytes line,
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
    m->event = effects_text(s->out, event);
    for (const char *kind = words_of(event); *kind; kind++)
        set_word(s, m, *kind, &line, w);
}

static void history_answer(struct scheduler *s, struct op *op, const struct ops_history *found,
                           const struct workflow *w)
{
    Drover__V1__Answer m = DROVER__V1__ANSWER__INIT;
    Drover__V1__HistoryEntry *entries = effects_alloc(s->out, found->n * sizeof(*entries));

    m.history = effects_alloc(s->out, found->n * sizeof(*m.history));
    for (uint32_t i = 0; i < found->n; i++) {
        set_entry(s, &entries[i], found->entries[i], w);
        m.history[m.n_history++] = &entries[i];
    }
    m.job_id = op->job;
    m.command_id = op->item->message.control->command_id;
    m.code = DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE;
    m.history_first = found->first;
    if (answer_fit(s, op, &m, &m.n_history))
        op_reply(s, op, &m.base);
}

static void history_call(struct scheduler *s, struct op *op)
{
    const Drover__V1__History *q = op->item->message.control->history;
    uint32_t most =
        q->max_entries && q->max_entries < WIRE_PAGE_MAX ? q->max_entries : WIRE_PAGE_MAX;

    ops_inspect_history(s->out, op_call_id(s, op), op->partition, op->job, q->from_seq, most);
}

static void history_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    struct ops_reader from = *r;
    struct ops_history found;
    const struct workflow *w;
    int result = ops_read_history(r, s->out, &found);

    if (result == -EPROTO) {
        log_error("store_answer_broken", LOG_S("job", op->job));
        return;
    }
    if (result || found.definition.len != ID_DIGEST_LEN) {
        control_answer(s, op, DROVER__V1__ANSWER_CODE__ANSWER_CODE_UNKNOWN_JOB,
                       "there is no such job");
        return;
    }
    memcpy(op->digest, found.definition.data, ID_DIGEST_LEN);
    w = definition_find(s, op->digest);
    if (w)
        history_answer(s, op, &found, w);
    else
        definition_load(s, op, &from, history_answered);
}

void history(struct scheduler *s, struct op *op)
{
    op_call(s, op, history_call, history_answered);
}
