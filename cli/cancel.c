// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/connect.h"
#include "cli/control.h"
#include "model/json.h"

/*
 * A command names the seq it was decided on, so that one which arrives late changes nothing. But
 * seq also grows with every step that is answered, and a busy job outruns any person: what he has
 * seen is the turn. While that stands, his command does too.
 */
#define PINNED_TRIES 3

static bool superseded(const Drover__V1__Answer *answer)
{
    return answer->code == DROVER__V1__ANSWER_CODE__ANSWER_CODE_SUPERSEDED;
}

static int ask_cancel(struct session *s, const struct args *args, uint64_t if_seq, int64_t deadline,
                      struct wire_message *answer)
{
    Drover__V1__Control m = DROVER__V1__CONTROL__INIT;
    Drover__V1__Cancel cancel = DROVER__V1__CANCEL__INIT;
    char id[ID_TOKEN_LEN + 1];

    control_init(&m, args->operands[0], id);
    m.if_seq = if_seq;
    m.reason = (char *)(args->reason ? args->reason : "");
    m.command_case = DROVER__V1__CONTROL__COMMAND_CANCEL;
    m.cancel = &cancel;
    return control_ask(s, &m, deadline, answer);
}

/* Return: as session_ask(), with the answer to the cancel, or to the query where that had none. */
static int cancel(struct session *s, const struct args *args, int64_t deadline,
                  struct wire_message *answer)
{
    uint32_t turn = 0;

    for (int tries = 0;; tries++) {
        const Drover__V1__JobStatus *status;
        uint64_t seq;
        int r = control_look(s, args->operands[0], deadline, answer);

        if (r || !answer->answer->status)
            return r;
        status = answer->answer->status;
        if (tries == 0)
            turn = status->turn;
        seq = tries < PINNED_TRIES || status->turn != turn ? status->seq : 0;
        wire_free(answer);
        r = ask_cancel(s, args, seq, deadline, answer);
        if (r || !superseded(answer->answer) || tries > PINNED_TRIES)
            return r;
        wire_free(answer);
    }
}

static void print(const Drover__V1__Answer *answer, const struct args *args)
{
    CLEANUP(buf_deinit) struct buf out = {0};
    bool changed = answer->code == DROVER__V1__ANSWER_CODE__ANSWER_CODE_DONE;

    if (args->output == OUTPUT_JSON || args->output == OUTPUT_JSONL)
        json_from_message(&answer->base, &out);
    else if (args->output == OUTPUT_ID)
        buf_puts(&out, args->operands[0]);
    else
        buf_printf(&out, "%s %s", args->operands[0],
                   changed ? "is being cancelled" : "was already taken back");
    puts(buf_str(&out));
}

int cli_cancel(const struct args *args)
{
    CLEANUP(session_free) struct session *s = NULL;
    CLEANUP(wire_free) struct wire_message answer = {0};
    int64_t deadline = cli_deadline(args, CONNECT_ANSWER_MS);
    int r = cli_connect(args, &s);

    if (r)
        return r;
    r = cancel(s, args, deadline, &answer);
    if (r)
        return session_complain(s, r);
    r = control_exit(answer.answer);
    if (r == CLI_OK || args->output == OUTPUT_JSON || args->output == OUTPUT_JSONL)
        print(answer.answer, args);
    return r;
}
