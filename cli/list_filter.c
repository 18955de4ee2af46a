// SPDX-License-Identifier: Apache-2.0
/*
 * List filters: the filters of the command line as a question to schedulers
 *
 * Called by list.c and bulk.c.
 */
#include "cli/list_filter.h"

#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

/* @text: "NAME=VALUE" */
static void add_label(struct list_filter *f, const char *text)
{
    size_t n = f->question.n_labels++;
    size_t len = strcspn(text, "=");

    drover__v1__label__init(&f->labels[n]);
    f->labels[n].name = or_abort(strndup(text, len));
    f->labels[n].value = (char *)text + len + 1;
    f->pointers[n] = &f->labels[n];
}

void list_filter_init(struct list_filter *f, const struct args *args)
{
    Drover__V1__ListJobs *m = &f->question;

    drover__v1__list_jobs__init(m);
    m->phase = args->phase;
    m->workflow = (char *)(args->workflow ? args->workflow : "");
    m->since = args->since;
    m->before = args->before;
    m->needs = args->needs || !args->group ? args->needs : DROVER__V1__NEED__NEED_ATTENTION;
    m->error_class = (char *)(args->error_class ? args->error_class : "");
    m->actor = (char *)(args->actor ? args->actor : "");
    m->labels = f->pointers;
    for (size_t i = 0; i < args->n_labels; i++)
        add_label(f, args->labels[i]);
}

void list_filter_deinit(struct list_filter *f)
{
    for (size_t i = 0; i < f->question.n_labels; i++)
        free(f->labels[i].name);
    f->question.n_labels = 0;
}

bool list_filter_applied(const struct args *args, const Drover__V1__Answer *answer)
{
    bool asked = args->needs || args->error_class || args->actor || args->group;

    for (size_t i = 0; asked && i < answer->n_jobs; i++) {
        if (answer->jobs[i]->attention)
            continue;
        cli_complain("the schedulers are too old to know what needs attention: upgrade them first");
        return false;
    }
    return true;
}
