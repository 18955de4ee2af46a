// SPDX-License-Identifier: Apache-2.0
/*
 * Listing: one page of jobs, newest first, gathered from all partitions
 *
 * One partition after the other is asked for its newest jobs, and what they find is merged, newest
 * first; once a page is full, the others only for what is newer than its last. A partition that
 * looked at many without finding enough is asked a few times only; how far it has looked then
 * bounds the whole page, because what it has not seen may be newer than what others have found.
 * Such a page is short, and says where the next one begins.
 *
 *     listing_new()
 *     for each partition:  do listing_call(), listing_take()  while that returns 1
 *     listing_page(), listing_end()
 */
#pragma once

#include "base/cleanup.h"
#include "drover/v1/control.pb-c.h"
#include "model/effect.h"
#include "model/store_ops.h"

struct listing;

/* @query: kept; @owner: whose jobs to list, kept; NULL: all. Return: 0, -ENOMEM, or 1 where
 * query->after is none of ours. */
int listing_new(struct listing **out, const Drover__V1__ListJobs *query, const char *owner);

/* Accepts NULL; returns NULL. */
struct listing *listing_free(struct listing *l);
CLEANUP_DEFINE(struct listing *, listing_free)

/* Asks a partition: appends the store call. */
void listing_call(const struct listing *l, struct effects *fx, uint64_t id, uint32_t partition);

/* Takes what it has answered. Return: 0: the partition is done with; 1: it is to be asked again;
 * -EPROTO. */
int listing_take(struct listing *l, struct effects *fx, struct ops_reader *r);

/* All partitions were asked: sets m->jobs, for listing_end(). */
void listing_page(struct listing *l, struct effects *fx, Drover__V1__Answer *m);

/* Says where the next page begins, behind the first m->n_jobs, which may have become fewer. */
void listing_next(struct listing *l, struct effects *fx, Drover__V1__Answer *m);

/* Frees what listing_page() has made. */
void listing_end(struct listing *l, Drover__V1__Answer *m);
