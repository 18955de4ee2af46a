// SPDX-License-Identifier: Apache-2.0
/*
 * Limits: what their tests have in common
 */
#include "machines/limited.h"

struct access_submitter user_groups[2] = {
    {.user = (char *)"ann",
     .workflows = (char *[]){NULL},
     .replies = (char *)"me",
     .limits = {.rate = 10, .jobs = 3}},
    {.user = (char *)ACCESS_OTHERS, .workflows = (char *[]){NULL}, .limits = {.rate = 1}},
};

struct access owner_access = {.required = true,
                              .operators = (char *)"op",
                              .supervisors = (char *)"sup",
                              .submitters = user_groups,
                              .n_submitters = array_size(user_groups)};

void with_owners(struct alone *w)
{
    w->access = &owner_access;
    alone_restart(w);
}

void say_as(struct alone *w, const char *user, int source, const char *reply_to, const char *json)
{
    alone_deliver(
        w, (struct bus_delivery){
               .source = source, .user_id = user, .reply_to = reply_to, .body = bytes_str(json)});
}

void fill_store(struct alone *w, uint64_t used, uint64_t most)
{
    alone_step(w, (struct scheduler_event){.type = SCHEDULER_MEMORY,
                                           .memory = {.used = used, .most = most}});
}
