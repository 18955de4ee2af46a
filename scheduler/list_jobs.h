// SPDX-License-Identifier: Apache-2.0
/*
 * ON Control with ListJobs: answers with a page of jobs, from one partition after another
 */
#pragma once

#include "scheduler/item.h"

void list_jobs(struct scheduler *s, struct item *item);
