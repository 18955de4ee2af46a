// SPDX-License-Identifier: Apache-2.0
/*
 * Checks answers to History and ListJobs
 *
 * An answer is compared with the store's history and with the model of the jobs. Called by asks.c;
 * see check_model.h.
 */
#include "checker/check_model.h"

#include <inttypes.h>
#include <string.h>

/* ---- a job's history ---- */

#define WORD_MAX 63

/* Such as "7 1700000000123 dispatched 2 1 2.9f...", as the store keeps it. */
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

/* If the job has migrated the names of steps may be those of another version. */
static void check_entry(struct checker *c, const struct job *job, const Drover__V1__HistoryEntry *m,
                        const struct kept *kept)
{
    uint64_t step = check_number(bytes_str(kept->step));

    require(c, m->seq == kept->seq && m->at == kept->at && strcmp(m->event, kept->event) == 0,
            "history of %s has '%s' at %" PRIu64 ", not of '%s'", job->id, m->event, m->seq,
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
    uint64_t last, first = from; /* or later, if older entries were not kept */

    if (!job || job->went_back || job->forgotten || c->violated)
        return; /* the answer may be of before that */
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
                "history of %s has entry %" PRIu64 " of %" PRIu64, job->id, e->seq, last);
        if (c->violated || last - e->seq >= length)
            continue; /* it is no longer kept */
        kept = kept_read(c, simstore_entry(c->store, (uint32_t)(last - e->seq)));
        check_entry(c, job, e, &kept);
    }
}

/* ---- lists of jobs ---- */

/* A ListJobs through all pages. */
struct checker_list {
    int64_t created; /* of the last job in the answer */
    const char *id;  /* of that job; NULL: none */
    struct expected {
        struct expected *older;
        const struct job *job; /* existed when the list began */
        bool listed;
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

/* Newest first; of one millisecond the greatest id first. */
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

static void note_listed(struct checker_list *list, const char *id)
{
    for (struct expected *e = list->expected; e; e = e->older)
        e->listed |= strcmp(e->job->id, id) == 0;
}

/* After the last page all jobs must have been listed. An exception are lists where more jobs than
 * one call reads may be of one millisecond; the 250 jobs of a partition never are. */
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
        note_listed(list, m->jobs[i]->job_id);
    }
    for (const struct expected *e = list->expected; e && ends(c, m); e = e->older)
        require(c, e->listed || e->job->forgotten, "%s is not listed", e->job->id);
}
