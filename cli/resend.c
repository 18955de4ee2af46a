// SPDX-License-Identifier: Apache-2.0
/*
 * Resend: has the requests of an actor that are in flight sent again
 *
 * Called by command_run.c.
 */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/command_run.h"
#include "cli/connect.h"
#include "client/control.h"
#include "model/json.h"

static void print(const struct args *args, const Drover__V1__Answer *answer)
{
    CLEANUP(buf_deinit) struct buf out = {0};
    const char *actor = args->operands[0];

    if (args->output == OUTPUT_JSON || args->output == OUTPUT_JSONL)
        json_from_message(&answer->base, &out);
    else if (args->output == OUTPUT_ID)
        buf_puts(&out, actor);
    else if (strcmp(actor, WIRE_ALL_ACTORS) == 0)
        buf_puts(&out, "the requests in flight of all actors are sent again");
    else
        buf_printf(&out, "the requests in flight of %s are sent again", actor);
    puts(buf_str(&out));
}

int cli_resend(const struct args *args)
{
    CLEANUP(session_free) struct session *s = NULL;
    CLEANUP(wire_free) struct wire_message answer = {0};
    int r = connect_session(args, &s);

    if (r)
        return r;
    r = control_resend(s, args->operands[0], args->reason,
                       connect_deadline(args, CONNECT_ANSWER_MS), &answer);
    if (r)
        return cli_session_problem(s, r);
    r = cli_answer_exit(answer.answer);
    if (r == CLI_OK || args->output == OUTPUT_JSON || args->output == OUTPUT_JSONL)
        print(args, answer.answer);
    return r;
}
