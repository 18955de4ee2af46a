// SPDX-License-Identifier: Apache-2.0
/*
 * ON Control with ListJobs: answers with a page of jobs, from one partition after another
 */
#pragma once

#include "scheduler/item.h"

/* Answers the ListJobs in item->message. The operation takes a reference to @item; the caller keeps
 * its own. */
void list_jobs(struct scheduler *s, struct item *item);
