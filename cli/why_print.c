// SPDX-License-Identifier: Apache-2.0
/*
 * Why: prints codes and sentences
 *
 * Called by why.c.
 */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/table.h"
#include "cli/why.h"

static void print_table(struct why *why)
{
    CLEANUP(table_deinit) struct table t = {.columns = 3};
    CLEANUP(buf_deinit) struct buf out = {0};

    buf_printf(&out, "%s %s: %s\n", why->args->operands[0], why->code, buf_str(&why->sentence));
    for (size_t i = 0; why->steps && i < why->job->n_steps; i++) {
        if (!why->steps[i].code)
            continue;
        table_add(&t, VIEW_BOLD, "%s", why->job->steps[i]->name);
        table_add(&t, VIEW_PLAIN, "%s", why->steps[i].code);
        table_add(&t, VIEW_PLAIN, "%s", buf_str(&why->steps[i].sentence));
    }
    table_print(&t, cli_color(why->args, stdout), 0, &out);
    fputs(buf_str(&out), stdout);
}

/* Appends the members of a JSON object. */
static void put_reason(const char *of, const char *name, const char *code,
                       const struct buf *sentence, struct buf *out)
{
    buf_printf(out, "\"%s\":", of);
    buf_json(out, name, strlen(name));
    buf_printf(out, ",\"code\":\"%s\",\"why\":", code);
    buf_json(out, (const char *)sentence->data, sentence->len);
}

static void print_json(struct why *why)
{
    CLEANUP(buf_deinit) struct buf out = {0};
    const char *between = "";

    buf_putc(&out, '{');
    put_reason("jobId", why->args->operands[0], why->code, &why->sentence, &out);
    buf_puts(&out, ",\"steps\":[");
    for (size_t i = 0; why->steps && i < why->job->n_steps; i++) {
        const struct why_step *w = &why->steps[i];

        if (!w->code)
            continue;
        buf_printf(&out, "%s{", between);
        put_reason("step", why->job->steps[i]->name, w->code, &w->sentence, &out);
        buf_putc(&out, '}');
        between = ",";
    }
    buf_puts(&out, "]}");
    puts(buf_str(&out));
}

static void print_ids(const struct why *why)
{
    for (size_t i = 0; why->steps && i < why->job->n_steps; i++) {
        CLEANUP(buf_deinit) struct buf out = {0};

        if (!why->steps[i].code)
            continue;
        view_text(&out, why->job->steps[i]->name, 0);
        puts(buf_str(&out));
    }
}

void why_print(struct why *why)
{
    switch (why->args->output) {
    case OUTPUT_TABLE:
        print_table(why);
        break;
    case OUTPUT_JSON:
    case OUTPUT_JSONL:
        print_json(why);
        break;
    case OUTPUT_ID:
        print_ids(why);
        break;
    }
}
