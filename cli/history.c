// SPDX-License-Identifier: Apache-2.0
/*
 * History: prints the history of a job (command history)
 *
 * With --follow it asks again until the job has ended. Called by command_run.c.
 */
#include <stdio.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/command_run.h"
#include "cli/connect.h"
#include "cli/view.h"
#include "client/control.h"
#include "model/json.h"

#define POLL_MS 500

struct history {
    const struct args *args;
    struct session *session;
    uint64_t next; /* number of the first entry that was not shown yet */
    uint64_t shown;
    bool ended;
};

static void put_line(const Drover__V1__HistoryEntry *e, struct buf *out)
{
    buf_printf(out, "%6llu  ", (unsigned long long)e->seq);
    view_moment(out, e->at);
    buf_puts(out, "  ");
    view_text(out, e->event, 0);
    buf_puts(out, *e->step ? " " : "");
    view_text(out, e->step, 0);
    if (e->attempt > 1)
        buf_printf(out, ", attempt %u", e->attempt);
    buf_puts(out, *e->detail ? ": " : "");
    view_text(out, e->detail, 0);
}

static void show(struct history *h, const Drover__V1__HistoryEntry *e)
{
    CLEANUP(buf_deinit) struct buf out = {0};

    if (h->args->output == OUTPUT_ID)
        buf_printf(&out, "%llu", (unsigned long long)e->seq);
    else if (h->args->output == OUTPUT_TABLE)
        put_line(e, &out);
    else
        json_from_message(&e->base, &out);
    if (h->args->output == OUTPUT_JSON)
        fputs(h->shown == 0 ? "[" : ",\n", stdout);
    fputs(buf_str(&out), stdout);
    if (h->args->output != OUTPUT_JSON)
        putchar('\n');
    h->shown++;
    h->next = e->seq + 1;
    h->ended = strcmp(e->event, "settled") == 0;
}

/* Return: 0, or the exit code; *n is set to the number of entries of the page. */
static int show_page(struct history *h, int64_t deadline, size_t *n)
{
    CLEANUP(wire_free) struct wire_message answer = {0};
    int r = control_history(h->session, h->args->operands[0], h->next, deadline, &answer);

    if (r)
        return cli_stop_following(h->session, r, h->args->operands[0], h->shown > 0 && !h->ended);
    r = cli_answer_exit(answer.answer);
    if (r)
        return r;
    if (h->shown == 0 && answer.answer->history_first > 1)
        fprintf(stderr, "entries before %llu were cut off\n",
                (unsigned long long)answer.answer->history_first);
    for (size_t i = 0; i < answer.answer->n_history; i++)
        show(h, answer.answer->history[i]);
    fflush(stdout);
    *n = answer.answer->n_history;
    return 0;
}

static int history(struct history *h, int64_t deadline)
{
    for (;;) {
        size_t n = 0;
        int r = show_page(h, deadline, &n);

        if (r)
            return r;
        if (n > 0)
            continue;
        if (!h->args->follow || h->ended)
            return CLI_OK;
        r = clock_monotonic_ms() >= deadline
                ? SESSION_E_TIMEOUT
                : session_wait(h->session, clock_monotonic_ms() + POLL_MS);
        if (r)
            return cli_stop_following(h->session, r, h->args->operands[0], true);
    }
}

int cli_history(const struct args *args)
{
    CLEANUP(session_free) struct session *s = NULL;
    struct history h = {.args = args};
    int r = connect_session(args, &s);

    if (r)
        return r;
    h.session = s;
    r = history(&h, connect_deadline(args, args->follow ? 0 : CONNECT_ANSWER_MS));
    if (args->output == OUTPUT_JSON && (h.shown > 0 || r == CLI_OK))
        puts(h.shown == 0 ? "[]" : "]");
    return r;
}
