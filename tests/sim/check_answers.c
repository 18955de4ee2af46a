// SPDX-License-Identifier: Apache-2.0
#include "check_model.h"

#include <inttypes.h>
#include <string.h>

/* ---- a job's history ---- */

#define WORD_MAX 63

/* "7 1700000000123 dispatched 2 1 2.9f…", as the store keeps it. */
struct kept {
    uint64_t seq;
    int64_t at;
    char event[WORD_MAX + 1], step[WORD_MAX + 1], attempt[WORD_MAX + 1], token[WORD_MAX + 1];
};

static struct kept kept_read(struct checker *c, struct bytes text)
{
    struct kept kept = {0};

    sscanf(effects_text(&c->scratch, text), "%" SCNu64 " %" SCNd64 " %63s %63s %63s %63s",
           &kept.seq, &kept.at, kept.event, kept.step, kept.attempt, kept.token);
    return kept;
}

static bool is_of_dispatch(const char *event)
{
    static const char *const events[] = {"dispatched", "done",     "failed",    "deferred",
                                         "expired",    "silent",   "unstarted", "unroutable",
                                         "undone",     "withdrawn"};

    for (size_t i = 0; i < array_size(events); i++)
        if (strcmp(event, events[i]) == 0)
            return true;
    return false;
}

/* Of a job that has migrated, the names of steps may be those of another version. */
static void check_entry(struct checker *c, const struct job *job, const Drover__V1__HistoryEntry *m,
                        const struct kept *kept)
{
    uint64_t step = check_number(bytes_str(kept->step));

    require(c, m->seq == kept->seq && m->at == kept->at && strcmp(m->event, kept->event) == 0,
            "history of %s tells of '%s' at %" PRIu64 ", not of '%s'", job->id, m->event, m->seq,
            kept->event);
    if (!is_of_dispatch(kept->event))
        return;
    require(c,
            m->attempt == check_number(bytes_str(kept->attempt)) &&
                strcmp(m->token, kept->token) == 0,
            "history of %s: '%s' at %" PRIu64 " is of another dispatch", job->id, m->event, m->seq);
    require(c,
            job->migrated ||
                (step < job->w->n_steps && strcmp(m->step, job->w->steps[step].name) == 0),
            "history of %s: '%s' at %" PRIu64 " is of another step, %s", job->id, m->event, m->seq,
            m->step);
}

void checker_history(struct checker *c, const char *id, uint64_t from, const Drover__V1__Answer *m)
{
    const struct job *job = check_job_find(c, bytes_str(id));
    uint32_t length;
    uint64_t last, first = from; /* or later, where those before were too old to be kept */

    if (!job || job->went_back || job->forgotten || c->violated)
        return; /* it may be of before */
    require(c, job->created, "I10 history of %s", id);
    effects_reset(&c->scratch);
    length = simstore_list(c->store, job->partition, job->keys.hist);
    if (!job->created || length == 0)
        return;
    last = kept_read(c, simstore_entry(c->store, 0)).seq;
    for (size_t i = 0; i < m->n_history && !c->violated; i++) {
        const Drover__V1__HistoryEntry *e = m->history[i];
        struct kept kept;

        first = i == 0 && e->seq > from && e->seq + length <= last + 1 ? e->seq : first;
        require(c, e->seq == first + i && e->seq <= last,
                "history of %s tells of entry %" PRIu64 " of %" PRIu64, job->id, e->seq, last);
        if (c->violated || last - e->seq >= length)
            continue; /* it is too old to be kept, since that was read */
        kept = kept_read(c, simstore_entry(c->store, (uint32_t)(last - e->seq)));
        check_entry(c, job, e, &kept);
    }
}

/* ---- which jobs there are ---- */

/* One walk through all pages. */
struct checker_list {
    int64_t created; /* of the last job that was told */
    const char *id;  /* likewise; NULL: none was */
    struct expected {
        struct expected *older;
        const struct job *job; /* was there when it began */
        bool told;
    } * expected;
};

struct checker_list *checker_list(struct checker *c)
{
    struct checker_list *list = timeline_alloc(c->t, sizeof(*list));

    for (const struct job *job = c->jobs; job; job = job->hh.next) {
        struct expected *e =
            job->created && !job->forgotten ? timeline_alloc(c->t, sizeof(*e)) : NULL;

        if (!e)
            continue;
        *e = (struct expected){.older = list->expected, .job = job};
        list->expected = e;
    }
    return list;
}

/* Newest first, of one moment the greatest id first. */
static void check_order(struct checker *c, struct checker_list *list,
                        const Drover__V1__JobStatus *m)
{
    require(c,
            !list->id || m->created < list->created ||
                (m->created == list->created && strcmp(m->job_id, list->id) < 0),
            "listed out of order: %s, %s", list->id, m->job_id);
    list->created = m->created;
    list->id = timeline_str(c->t, m->job_id);
}

static void note_told(struct checker_list *list, const char *id)
{
    for (struct expected *e = list->expected; e; e = e->older)
        e->told |= strcmp(e->job->id, id) == 0;
}

/* The last page, and all must have been told. Not where they may be more than one call looks at,
 * and of one millisecond: which 250 of a partition never are. */
static bool ends(const struct checker *c, const Drover__V1__Answer *m)
{
    return !*m->next && !c->went_back && HASH_COUNT(c->jobs) <= c->budget;
}

void checker_listed(struct checker *c, struct checker_list *list, uint32_t most,
                    const Drover__V1__Answer *m)
{
    require(c, m->n_jobs <= most, "a list of %zu jobs, and %u were asked for", m->n_jobs, most);
    for (size_t i = 0; i < m->n_jobs && !c->went_back; i++) {
        checker_status(c, m->jobs[i]);
        check_order(c, list, m->jobs[i]);
        note_told(list, m->jobs[i]->job_id);
    }
    for (const struct expected *e = list->expected; e && ends(c, m); e = e->older)
        require(c, e->told || e->job->forgotten, "%s is not listed", e->job->id);
}
