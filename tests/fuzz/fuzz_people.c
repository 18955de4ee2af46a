// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz: what the command line shows to people, and what it reads from files. The first byte says
 * what the rest is
 *
 *     a  an answer    r  a receipt    i  recorded workflows to import
 *
 *     h  the answers to `drover history`, one per line; w to `why`, f to `watch`, n to `wait`, g to
 *        `get`, l to `list`, c to `cancel`; a letter before it says the output: t a table, s a
 * table on a screen, l JSON lines, j JSON, i ids; in upper case all is asked for, of the store
 *
 * The checks: no output has a character that affects a terminal, and JSON output is valid JSON. An
 * import gives lines that are Submits once they have an id, and their workflows have no error
 * except cycles.
 */
#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/command_run.h"
#include "cli/connect.h"
#include "cli/import.h"
#include "cli/terminal.h"
#include "cli/view.h"
#include "cli/view_job.h"
#include "cli/view_step.h"
#include "fuzz.h"
#include "model/wire.h"
#include "model/workflow.h"

static void check_lines(const struct buf *out)
{
    const char *text = (const char *)out->data;

    assert(!out->failed);
    for (size_t i = 0; i < out->len;) {
        size_t n = utf8_length(text + i, out->len - i);

        assert(text[i] == '\n' || !utf8_is_harmful(text + i, n));
        i += n;
    }
}

static void show_job(const Drover__V1__JobStatus *job)
{
    CLEANUP(buf_deinit) struct buf out = {0};

    view_job(job, false, &out);
    view_job_progress(job, &out);
    for (size_t i = 0; i < job->n_steps; i++) {
        CLEANUP(buf_deinit) struct buf detail = {0};

        view_step_detail(job->steps[i], job, &detail);
        view_text(&out, buf_str(&detail), 40);
    }
    check_lines(&out);
}

static void try_answer(struct bytes body)
{
    CLEANUP(wire_free) struct wire_message m = {0};

    if (wire_decode(WIRE_ANSWER, body, NULL, &m, NULL))
        return;
    if (m.answer->status)
        show_job(m.answer->status);
    for (size_t i = 0; i < m.answer->n_jobs; i++)
        show_job(m.answer->jobs[i]);
}

static void try_receipt(struct bytes body)
{
    CLEANUP(wire_free) struct wire_message m = {0};
    CLEANUP(buf_deinit) struct buf out = {0};

    if (wire_decode(WIRE_RECEIPT, body, NULL, &m, NULL))
        return;
    view_receipt(m.receipt, &out);
    check_lines(&out);
}

/* ---- commands ---- */

/* Replaces client/session.c, cli/connect.c and cli/terminal.c: each question is answered by a line
 * of the input, and there is no answer after the last one. */
struct session {
    struct bytes lines;
};

static struct session peer;
static bool on_screen;         /* the output is on a screen */
#define SCREEN (OUTPUT_ID + 1) /* an additional output here */

int connect_session(const struct args *args, struct session **out)
{
    *out = &peer;
    return CLI_OK;
}

int64_t connect_deadline(const struct args *args, int64_t default_ms)
{
    return SESSION_FOREVER;
}

int session_new(struct session **out, struct config *config, const char *name)
{
    return SESSION_E_UNREACHABLE;
}

int session_new_from_store(struct session **out, struct config *config)
{
    return SESSION_E_UNREACHABLE;
}

struct session *session_free(struct session *s)
{
    return NULL;
}

int session_ask(struct session *s, const struct session_question *question, int64_t deadline,
                struct wire_message *answer)
{
    struct bytes line = fuzz_until(&s->lines, '\n');

    if (wire_decode(question->answer, line, NULL, answer, NULL) == 0)
        return 0;
    wire_free(answer);
    return SESSION_E_TIMEOUT;
}

int session_wait(struct session *s, int64_t deadline)
{
    return s->lines.len > 0 ? 0 : SESSION_E_INTERRUPTED;
}

/* A line "messages consumers". */
int session_inspect(struct session *s, const char *queue, int64_t deadline,
                    struct session_queue *out)
{
    CLEANUP(free) char *line = fuzz_text(fuzz_until(&s->lines, '\n'));

    assert(strlen(queue) <= SESSION_QUEUE_MAX);
    *out = (struct session_queue){0};
    return sscanf(line, "%9" SCNu32 " %9" SCNu32, &out->messages, &out->consumers) == 2
               ? 0
               : SESSION_E_TIMEOUT;
}

const char *session_why(const struct session *s)
{
    return "no answer";
}

bool terminal_is(FILE *to)
{
    return on_screen;
}

bool terminal_redraws(FILE *to)
{
    return on_screen;
}

/* So small that not all steps fit. */
struct terminal_size terminal_size(FILE *to)
{
    return (struct terminal_size){.lines = 8, .columns = 40};
}

/* The length of a sequence that Drover writes to redraw (up some lines, then clear) or to colour; 0
 * for other text. */
static size_t drawing_length(const char *text)
{
    static const char *const drawings[] = {"\r\033[J", "\033[0m",  "\033[1m",  "\033[2m",
                                           "\033[31m", "\033[32m", "\033[33m", "\033[34m"};
    size_t digits;

    for (size_t i = 0; i < array_size(drawings); i++)
        if (strncmp(text, drawings[i], strlen(drawings[i])) == 0)
            return strlen(drawings[i]);
    if (strncmp(text, "\033[", 2) != 0)
        return 0;
    digits = strspn(text + 2, "0123456789");
    return digits > 0 && strncmp(text + 2 + digits, "A\r\033[J", 5) == 0 ? 2 + digits + 1 : 0;
}

static void check_screen(struct buf *written)
{
    CLEANUP(buf_deinit) struct buf plain = {0};
    const char *text = buf_str(written);

    for (size_t i = 0; i < written->len;) {
        size_t drawing = drawing_length(text + i);

        if (drawing == 0)
            buf_putc(&plain, text[i++]);
        i += drawing;
    }
    check_lines(&plain);
}

static void check_json(struct bytes text)
{
    json_t *json = json_loadb((const char *)text.data, text.len, JSON_ALLOW_NUL, NULL);

    assert(json);
    json_decref(json);
}

/* JSON output is one valid value, or one per line. */
static void check_output(struct buf *written, enum output output)
{
    struct bytes lines = buf_bytes(written);

    if (on_screen)
        check_screen(written);
    else
        check_lines(written);
    if (output == OUTPUT_JSON && written->len > 0)
        check_json(lines);
    while (output == OUTPUT_JSONL && lines.len > 0)
        check_json(fuzz_until(&lines, '\n'));
}

/* Replaces a stream by a file. Return: the stream. */
static FILE *capture(FILE **stream, char **text, size_t *size)
{
    FILE *before = *stream;

    *stream = or_abort(open_memstream(text, size));
    return before;
}

/* Restores the stream; fills @written with what was written meanwhile. @text is to be freed. */
static void restore(FILE **stream, FILE *before, char *const *text, const size_t *size,
                    struct buf *written)
{
    fclose(*stream);
    *stream = before;
    buf_append(written, *text, *size);
    free(*text);
}

static const struct {
    char kind;
    int (*run)(const struct args *args);
} commands[] = {
    {'h', cli_history}, {'w', cli_why},  {'f', cli_watch},  {'n', cli_wait},
    {'g', cli_get},     {'l', cli_list}, {'c', cli_cancel},
};

static void try_command(int (*run)(const struct args *args), struct bytes input)
{
    static const char outputs[] = {[OUTPUT_TABLE] = 't',
                                   [OUTPUT_JSON] = 'j',
                                   [OUTPUT_JSONL] = 'l',
                                   [OUTPUT_ID] = 'i',
                                   [SCREEN] = 's'};
    char letter = (char)fuzz_byte(&input), *job = (char *)"job-1", *text, *complaints;
    const char *at = memchr(outputs, tolower(letter), sizeof(outputs));
    bool all = isupper(letter);
    struct args args = {
        .operands = &job,
        .n_operands = 1,
        .follow = !all,
        .data = all,
        .from_store = all,
        .labels = {"a=b", "c="},
        .n_labels = all ? 2 : 0,
    };
    CLEANUP(buf_deinit) struct buf written = {0}, complained = {0};
    size_t size, complaints_size;
    FILE *out, *err;

    if (!at)
        return;
    on_screen = at - outputs == SCREEN;
    args.output = on_screen ? OUTPUT_TABLE : (enum output)(at - outputs);
    peer.lines = input;
    setenv("TERM", "xterm", true);
    unsetenv("NO_COLOR");
    out = capture(&stdout, &text, &size);
    err = capture(&stderr, &complaints, &complaints_size);
    run(&args);
    restore(&stdout, out, &text, &size, &written);
    restore(&stderr, err, &complaints, &complaints_size, &complained);
    check_output(&written, args.output);
    check_lines(&complained);
}

/* ---- files to import ---- */

static bool is_cycle(const char *reason)
{
    return strncmp(reason, "cycle: ", strlen("cycle: ")) == 0 ||
           strstr(reason, "cannot wait for itself");
}

static void check_job(struct bytes line)
{
    CLEANUP(buf_deinit) struct buf text = {0};
    CLEANUP(wire_free) struct wire_message m = {0};
    CLEANUP(workflow_unref) struct workflow *w = NULL;
    struct problem problem = {0};
    int r;

    assert(line.len > 1 && line.data[0] == '{');
    buf_puts(&text, "{\"jobId\":\"j\",");
    buf_append(&text, line.data + 1, line.len - 1);
    r = wire_decode(WIRE_SUBMIT, buf_bytes(&text), NULL, &m, &problem);
    assert(r == 0);
    r = workflow_new(&w, m.submit->definition, "", &problem);
    assert(r == 0 || is_cycle(problem.reason));
}

static void try_import(struct bytes text)
{
    const struct import_options options = {.actor = IMPORT_ACTOR, .scale = 0.5};
    CLEANUP(buf_deinit) struct buf out = {0};
    struct problem problem = {0};
    struct bytes lines;

    if (import_jobs(text, &options, &out, &problem)) {
        fuzz_check_problem(&problem);
        return;
    }
    for (lines = buf_bytes(&out); lines.len > 0;)
        check_job(fuzz_until(&lines, '\n'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes input = bytes_of(data, size);

    char kind = (char)fuzz_byte(&input);

    for (size_t i = 0; i < array_size(commands); i++)
        if (kind == commands[i].kind)
            try_command(commands[i].run, input);
    if (kind == 'a')
        try_answer(input);
    if (kind == 'r')
        try_receipt(input);
    if (kind == 'i')
        try_import(input);
    return 0;
}
