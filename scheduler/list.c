// SPDX-License-Identifier: Apache-2.0
/*
 * ON ListJobs: one partition after the other is asked for its newest jobs, and what they find is
 * merged, newest first; once a page is full, the others only for what is newer than its last. A
 * partition that looked at many without finding enough is asked a few times only; how far it has
 * looked then bounds the whole page, because what it has not seen may be newer than what others
 * have found. Such a page is short, and says where the next one begins.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "scheduler/machine.h"

#define CALLS_MAX 8 /* of one partition for one page: 2000 jobs looked at */

/* A place in the order: newest first, of one moment the greatest id first. */
struct place {
    int64_t created;
    char id[ID_NAME_MAX + 1]; /* "": before all ids */
};

struct listed {
    struct place place;
    struct bytes status; /* encoded JobStatus; owned */
};

struct listing {
    const Drover__V1__ListJobs *query;
    uint32_t limit;
    struct place from;     /* where the page begins */
    struct place at;       /* how far this partition has looked ... */
    uint32_t found;        /* ... what it has found ... */
    unsigned calls;        /* ... and how often it was asked */
    struct place limit_at; /* nothing beyond is known of every partition */
    bool more;
    int64_t since; /* of interest: the query's, or the last of a page that is full already ... */
    bool pruned;   /* ... and then what is older was not asked for */
    struct listed *items; /* room for limit + one call's worth */
    uint32_t n;
};

static bool is_before(const struct place *a, const struct place *b)
{
    if (a->created != b->created)
        return a->created > b->created;
    return strcmp(a->id, b->id) > 0;
}

static int by_place(const void *a, const void *b)
{
    const struct listed *x = a, *y = b;

    return is_before(&x->place, &y->place) ? -1 : is_before(&y->place, &x->place);
}

void listing_free(struct listing *l)
{
    for (uint32_t i = 0; l && i < l->n; i++)
        free((void *)l->items[i].status.data);
    if (l)
        free(l->items);
    free(l);
}

/* ---- where a list goes on: "<created>.<id>" ---- */

static bool cursor_read(const char *text, struct place *out)
{
    size_t digits = strspn(text, "0123456789");
    const char *id = text + digits + 1;

    return digits > 0 && text[digits] == '.' && strlen(id) <= ID_NAME_MAX &&
           id_name_valid(id, strlen(id)) && bytes_to_i64(bytes_of(text, digits), &out->created) &&
           stpcpy(out->id, id);
}

/* Return: false where the query does not say a place that can be. */
static bool first_place(const Drover__V1__ListJobs *q, struct place *out)
{
    *out = (struct place){.created = q->before > 0 ? q->before - 1 : INT64_MAX};
    return !*q->after || cursor_read(q->after, out);
}

/* ---- the end ---- */

static void cut(struct listing *l, uint32_t n)
{
    while (l->n > n)
        free((void *)l->items[--l->n].status.data);
}

/* Keeps what is sure: nothing newer than it can turn up any more. */
static void keep_sure(struct listing *l)
{
    uint32_t sure = 0;

    qsort(l->items, l->n, sizeof(*l->items), by_place);
    while (sure < l->n && sure < l->limit &&
           (!l->more || !is_before(&l->limit_at, &l->items[sure].place)))
        sure++;
    if (sure == l->limit && (sure < l->n || l->pruned))
        l->more = true;
    if (sure == l->limit && sure > 0) /* the page is full: go on behind its last */
        l->limit_at = l->items[sure - 1].place;
    cut(l, sure);
}

/* A page that is too large for a message ends earlier, and the next one begins there. */
static void send_page(struct scheduler *s, struct op *op, Drover__V1__Answer *m)
{
    struct listing *l = op->listing;

    if (!answer_fit(s, op, m, &m->n_jobs))
        return;
    if (m->n_jobs < l->n) {
        l->more = true;
        l->limit_at = l->items[m->n_jobs - 1].place;
    }
    if (l->more)
        m->next =
            (char *)effects_printf(s->out, "%" PRId64 ".%s", l->limit_at.created, l->limit_at.id);
    op_reply(s, op, &m->base);
}

static void list_answer(struct scheduler *s, struct op *op)
{
    struct listing *l = op->listing;
    Drover__V1__Answer m = DROVER__V1__ANSWER__INIT;

    keep_sure(l);
    m.command_id = op->item->message.control->command_id;
    m.code = DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE;
    m.jobs = effects_alloc(s->out, l->n * sizeof(*m.jobs));
    for (uint32_t i = 0; i < l->n; i++) {
        Drover__V1__JobStatus *status =
            drover__v1__job_status__unpack(NULL, l->items[i].status.len, l->items[i].status.data);

        m.jobs[m.n_jobs++] = or_abort(status);
    }
    send_page(s, op, &m);
    for (uint32_t i = 0; i < l->n; i++)
        drover__v1__job_status__free_unpacked(m.jobs[i], NULL);
}

/* ---- one partition after the other ---- */

static const char *phase_word(Drover__V1__Phase phase)
{
    static const char *const words[] = {
        [DROVER__V1__PHASE__PHASE_UNSPECIFIED] = "",
        [DROVER__V1__PHASE__PHASE_PENDING] = "PENDING",
        [DROVER__V1__PHASE__PHASE_PROCESSING] = "PROCESSING",
        [DROVER__V1__PHASE__PHASE_PROCESSED] = "PROCESSED",
        [DROVER__V1__PHASE__PHASE_ERROR] = "ERROR",
    };

    return (size_t)phase < array_size(words) ? words[phase] : "none";
}

static void list_call(struct scheduler *s, struct op *op)
{
    struct listing *l = op->listing;
    const Drover__V1__ListJobs *q = l->query;
    const char **names = effects_alloc(s->out, q->n_labels * sizeof(*names));
    const char **values = effects_alloc(s->out, q->n_labels * sizeof(*values));

    for (size_t i = 0; i < q->n_labels; i++) {
        names[i] = q->labels[i]->name;
        values[i] = q->labels[i]->value;
    }
    ops_inspect_jobs(s->out, op_call_id(s, op), op->partition,
                     &(struct op_list){.before = l->at.created,
                                       .before_id = l->at.id,
                                       .since = l->since,
                                       .limit = l->limit - l->found,
                                       .phase = phase_word(q->phase),
                                       .workflow = q->workflow,
                                       .labels = names,
                                       .values = values,
                                       .n_labels = q->n_labels});
}

static void add(struct scheduler *s, struct listing *l, const struct ops_listed *from)
{
    Drover__V1__JobStatus status = DROVER__V1__JOB_STATUS__INIT;
    Drover__V1__Submit *labels = status_labels(from->job.labels);
    struct buf encoded = {0};
    struct listed *item = &l->items[l->n++];

    status_job(s->out, &status, from->id, &from->job);
    if (labels) {
        status.n_labels = labels->n_labels;
        status.labels = labels->labels;
    }
    if (wire_encode(&status.base, false, &encoded))
        abort();
    if (labels)
        drover__v1__submit__free_unpacked(labels, NULL);
    item->place.created = from->job.created;
    snprintf(item->place.id, sizeof(item->place.id), "%s", status.job_id);
    item->status = buf_bytes(&encoded);
}

/* A partition is done with. A page that is full is only bettered by what is as new as its last. */
static void merge(struct listing *l)
{
    qsort(l->items, l->n, sizeof(*l->items), by_place);
    if (l->n > l->limit) {
        cut(l, l->limit);
        if (!l->more || is_before(&l->items[l->n - 1].place, &l->limit_at))
            l->limit_at = l->items[l->n - 1].place;
        l->more = true;
    }
    if (l->n == l->limit && l->items[l->n - 1].place.created > l->since) {
        l->since = l->items[l->n - 1].place.created;
        l->pruned = true;
    }
}

/* Takes what one call has found. Return: whether the partition is to be asked again. */
static bool take_found(struct scheduler *s, struct listing *l, const struct ops_list *found)
{
    struct place last = {.created = found->last};
    bool moved;

    snprintf(last.id, sizeof(last.id), "%.*s", (int)found->last_id.len, found->last_id.data);
    moved = is_before(&l->at, &last) || (!*l->at.id && l->at.created == last.created && *last.id);
    for (uint32_t i = 0; i < found->n && l->found < l->limit; i++, l->found++)
        add(s, l, &found->jobs[i]);
    l->at = last;
    if (!found->more || !moved)
        return false;
    if (l->found < l->limit && ++l->calls < CALLS_MAX)
        return true;
    if (!l->more || is_before(&last, &l->limit_at))
        l->limit_at = last;
    l->more = true;
    return false;
}

static void list_answered(struct scheduler *s, struct op *op, struct ops_reader *r)
{
    struct listing *l = op->listing;
    struct ops_list found;

    if (ops_read_list(r, s->out, &found)) {
        log_error("store_answer_broken", LOG_S("what", "list"));
        return;
    }
    if (!take_found(s, l, &found)) {
        merge(l);
        if (++op->partition == s->partitions) {
            list_answer(s, op);
            return;
        }
        l->at = l->from;
        l->found = l->calls = 0;
    }
    op_call(s, op, list_call, list_answered);
}

void list_jobs(struct scheduler *s, struct op *op)
{
    const Drover__V1__ListJobs *q = op->item->message.control->list_jobs;
    struct listing *l = or_abort(calloc(1, sizeof(*l)));

    op->listing = l;
    l->query = q;
    l->limit = q->limit ? q->limit : WIRE_LIST_DEFAULT;
    if (l->limit > WIRE_LIST_MAX)
        l->limit = WIRE_LIST_MAX;
    if (!first_place(q, &l->from)) {
        control_answer(s, op, DROVER__V1__ANSWER_CODE__ANSWER_CODE_INVALID,
                       "list_jobs.after: must be the `next` of an answer");
        return;
    }
    l->items = or_abort(calloc((size_t)2 * l->limit, sizeof(*l->items)));
    l->at = l->from;
    l->since = q->since;
    op->partition = 0;
    op_call(s, op, list_call, list_answered);
}
