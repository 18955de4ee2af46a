// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz: what the command line shows people, and takes from files; the first byte says what the rest
 * is
 *
 *     a  an answer    r  a receipt    i  recorded workflows to import
 *
 * What is shown holds no character that would steer a terminal; what is imported is lines that need
 * an id to be a Submit each, and nothing is wrong with its workflow but that it may go in circles.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "cli/import.h"
#include "cli/view.h"
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
    view_progress(job, &out);
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

    switch (fuzz_byte(&input)) {
    case 'a':
        try_answer(input);
        break;
    case 'r':
        try_receipt(input);
        break;
    case 'i':
        try_import(input);
        break;
    default:
        break;
    }
    return 0;
}
