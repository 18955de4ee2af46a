// SPDX-License-Identifier: Apache-2.0
/*
 * Listing: merges the jobs that the partitions find into one page, and computes where the next
 * begins
 *
 * See model/listing.h.
 */
#include "model/listing.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/status.h"
#include "model/wire_encode.h"
#include "model/wire_limits.h"

#define CALLS_MAX 8 /* for one partition and one page: 2000 jobs are checked */

/* A place in the order: newest first; of those created in one millisecond the greatest id first. */
struct place {
    int64_t created;
    char id[ID_NAME_MAX + 1]; /* "" is before all ids */
};

struct listed {
    struct place place;
    struct bytes status; /* encoded JobStatus; owned by the listing */
};

struct listing {
    const Drover__V1__ListJobs *query;
    const char *owner; /* NULL for any */
    uint32_t limit;
    struct place from;     /* where the page begins */
    struct place at;       /* the last place that the present partition has checked */
    uint32_t found;        /* jobs that the present partition has found */
    unsigned calls;        /* calls of the present partition so far */
    struct place limit_at; /* if `more`: up to here all partitions were checked */
    bool more;             /* there may be jobs after limit_at */
    int64_t since; /* no older jobs are asked for: from the query, or the last job of a full page */
    bool pruned;   /* since is that of a full page, so there may be older jobs */
    struct listed *items; /* for twice the limit: a page, and what one partition finds */
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

static void cut(struct listing *l, uint32_t n)
{
    while (l->n > n)
        free((void *)l->items[--l->n].status.data);
}

struct listing *listing_free(struct listing *l)
{
    for (uint32_t i = 0; l && l->items && i < l->n; i++)
        free((void *)l->items[i].status.data);
    if (l)
        free(l->items);
    free(l);
    return NULL;
}

/* ---- the cursor in a query, "<created>.<id>" ---- */

static bool created_read(struct bytes digits, int64_t *out)
{
    bool padded = digits.len > 1 && digits.data[0] == '0';

    return !padded && bytes_to_i64(digits, out) && *out < INT64_MAX;
}

/* Accepts only the form that listing_next() writes. */
static bool cursor_read(const char *text, struct place *out)
{
    size_t digits = strspn(text, "0123456789");
    const char *id = text + digits + 1;

    return digits > 0 && text[digits] == '.' && strlen(id) <= ID_NAME_MAX &&
           id_name_valid(id, strlen(id)) && created_read(bytes_of(text, digits), &out->created) &&
           stpcpy(out->id, id);
}

/* Return: false if the cursor of the query is not a valid place. */
static bool first_place(const Drover__V1__ListJobs *q, struct place *out)
{
    *out = (struct place){.created = q->before > 0 ? q->before - 1 : INT64_MAX};
    return !*q->after || cursor_read(q->after, out);
}

int listing_new(struct listing **out, const Drover__V1__ListJobs *query, const char *owner)
{
    struct listing *l = calloc(1, sizeof(*l));

    if (!l)
        return -ENOMEM;
    l->query = query;
    l->owner = owner;
    l->limit = query->limit ? query->limit : WIRE_LIST_DEFAULT;
    if (l->limit > WIRE_LIST_MAX)
        l->limit = WIRE_LIST_MAX;
    l->items = calloc((size_t)2 * l->limit, sizeof(*l->items));
    if (!l->items || !first_place(query, &l->from)) {
        bool memory = !l->items;

        listing_free(l);
        return memory ? -ENOMEM : 1;
    }
    l->at = l->from;
    l->since = query->since;
    *out = l;
    return 0;
}

/* ---- the calls of a partition ---- */

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

/* A query for a class or an actor means the jobs that need attention because of it. */
static const char *need_word(const Drover__V1__ListJobs *q)
{
    static const char *const words[] = {
        [DROVER__V1__NEED__NEED_UNSPECIFIED] = "",  [DROVER__V1__NEED__NEED_ATTENTION] = "any",
        [DROVER__V1__NEED__NEED_PARKED] = "parked", [DROVER__V1__NEED__NEED_DEADLINE] = "deadline",
        [DROVER__V1__NEED__NEED_ENDED] = "ended",
    };

    if (!q->needs && (*q->error_class || *q->actor))
        return "any";
    return (size_t)q->needs < array_size(words) ? words[q->needs] : "none";
}

void listing_call(const struct listing *l, struct effects *fx, uint64_t id, uint32_t partition)
{
    const Drover__V1__ListJobs *q = l->query;
    const char **names = effects_alloc(fx, (q->n_labels + 1) * sizeof(*names));
    const char **values = effects_alloc(fx, (q->n_labels + 1) * sizeof(*values));
    size_t n = 0;

    if (l->owner) {
        names[n] = OPS_OWNER_LABEL;
        values[n++] = l->owner;
    }
    for (size_t i = 0; i < q->n_labels; i++) {
        names[n] = q->labels[i]->name;
        values[n++] = q->labels[i]->value;
    }
    ops_inspect_jobs(fx, id, partition,
                     &(struct ops_list_args){.before = l->at.created,
                                             .before_id = l->at.id,
                                             .since = l->since,
                                             .limit = l->limit - l->found,
                                             .phase = phase_word(q->phase),
                                             .workflow = q->workflow,
                                             .needs = need_word(q),
                                             .class = q->error_class,
                                             .actor = q->actor,
                                             .labels = names,
                                             .values = values,
                                             .n_labels = n});
}

static void add(struct listing *l, struct effects *fx, const struct ops_listed *from)
{
    Drover__V1__JobStatus status = DROVER__V1__JOB_STATUS__INIT;
    struct buf encoded = {0};
    struct listed *item = &l->items[l->n++];

    status_job(fx, &status, from->id, &from->job);
    if (wire_encode(&status.base, false, &encoded))
        abort();
    item->place.created = from->job.created;
    snprintf(item->place.id, sizeof(item->place.id), "%s", status.job_id);
    item->status = buf_bytes(&encoded);
}

/* After the last call of a partition. Once the page is full, only jobs that are as new as its last
 * one can still change it, so the other partitions are asked for those only. */
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

/* Takes the jobs that one call has found. Return: whether this partition must be asked again. */
static bool take_found(struct listing *l, struct effects *fx, const struct ops_list *found)
{
    struct place last = {.created = found->last};
    bool moved;

    snprintf(last.id, sizeof(last.id), "%.*s", (int)found->last_id.len, found->last_id.data);
    moved = is_before(&l->at, &last) || (!*l->at.id && l->at.created == last.created && *last.id);
    for (uint32_t i = 0; i < found->n && l->found < l->limit; i++, l->found++)
        add(l, fx, &found->jobs[i]);
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

int listing_take(struct listing *l, struct effects *fx, struct ops_reader *r)
{
    struct ops_list found;

    if (ops_read_list(r, fx, &found))
        return -EPROTO;
    if (take_found(l, fx, &found))
        return 1;
    merge(l);
    l->at = l->from;
    l->found = l->calls = 0;
    return 0;
}

/* ---- the page ---- */

/* Keeps the jobs of the page before which no partition can have another one. */
static void keep_sure(struct listing *l)
{
    uint32_t sure = 0;

    qsort(l->items, l->n, sizeof(*l->items), by_place);
    while (sure < l->n && sure < l->limit &&
           (!l->more || !is_before(&l->limit_at, &l->items[sure].place)))
        sure++;
    if (sure == l->limit && (sure < l->n || l->pruned))
        l->more = true;
    if (sure == l->limit && sure > 0) /* the page is full: the next one begins after its last job */
        l->limit_at = l->items[sure - 1].place;
    cut(l, sure);
}

void listing_page(struct listing *l, struct effects *fx, Drover__V1__Answer *m)
{
    keep_sure(l);
    m->jobs = effects_alloc(fx, l->n * sizeof(*m->jobs));
    m->n_jobs = l->n;
    for (uint32_t i = 0; i < l->n; i++) {
        m->jobs[i] = ops_unpack(&drover__v1__job_status__descriptor, l->items[i].status);
        assert(m->jobs[i]); /* add() has encoded it */
    }
}

void listing_next(struct listing *l, struct effects *fx, Drover__V1__Answer *m)
{
    if (m->n_jobs < l->n) {
        l->more = true;
        l->limit_at = l->items[m->n_jobs - 1].place;
    }
    if (l->more)
        m->next = (char *)effects_printf(fx, "%" PRId64 ".%s", l->limit_at.created, l->limit_at.id);
}

void listing_free_page(struct listing *l, Drover__V1__Answer *m)
{
    for (uint32_t i = 0; i < l->n; i++)
        drover__v1__job_status__free_unpacked(m->jobs[i], NULL);
}
