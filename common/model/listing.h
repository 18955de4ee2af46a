// SPDX-License-Identifier: Apache-2.0
/*
 * Listing: one page of jobs, newest first, gathered from all partitions
 *
 * The caller asks one partition after the other for its newest jobs, and the listing merges what
 * they find, newest first. Once a page is full, the other partitions are asked only for jobs that
 * are newer than its last one. A partition that checks many jobs without finding enough is asked a
 * few times only; the place that it has reached then bounds the whole page, because the jobs that
 * it has not checked may be newer than those of other partitions. Such a page is short, and says
 * where the next one begins.
 *
 *     listing_new()
 *     for each partition:  do listing_call(), listing_take()  while that returns 1
 *     listing_page(), listing_next(), listing_free_page()
 *
 * Called by the scheduler, which answers ListJobs, and by the command line.
 */
#pragma once

#include "base/cleanup.h"
#include "drover/v1/control.pb-c.h"
#include "model/effect.h"
#include "model/store_ops.h"

struct listing;

/**
 * listing_new() - begin a page
 * @query: must stay valid until listing_free(); wire_decode() has checked it
 * @owner: only jobs of this user, NULL for all; must stay valid until listing_free()
 *
 * Return: 0, -ENOMEM, or 1 if query->after is not a cursor that listing_next() has made.
 */
int listing_new(struct listing **out, const Drover__V1__ListJobs *query, const char *owner);

/* Accepts NULL. Return: NULL. */
struct listing *listing_free(struct listing *l);
CLEANUP_DEFINE(struct listing *, listing_free)

/* Appends the store call that asks @partition. @id: of the effect. */
void listing_call(const struct listing *l, struct effects *fx, uint64_t id, uint32_t partition);

/* Takes the answer to listing_call(). Return: 0 if this partition needs no further call, 1 if it
 * must be asked again, -EPROTO if the answer is not valid. */
int listing_take(struct listing *l, struct effects *fx, struct ops_reader *r);

/* Sets m->jobs and m->n_jobs after all partitions were asked; listing_free_page() frees them. */
void listing_page(struct listing *l, struct effects *fx, Drover__V1__Answer *m);

/* Sets m->next, if there is another page: it begins after the first m->n_jobs jobs. The caller may
 * have lowered m->n_jobs so that the answer fits a message. */
void listing_next(struct listing *l, struct effects *fx, Drover__V1__Answer *m);

/* Frees the jobs that listing_page() has made, also those beyond m->n_jobs. */
void listing_free_page(struct listing *l, Drover__V1__Answer *m);
