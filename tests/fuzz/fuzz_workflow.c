// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz: any bytes, read as a definition: as protobuf, as JSON, or as a workflow file if they begin
 * with #
 *
 * A definition that is accepted has consistent lists, and a canonical form that is read as the
 * same.
 */
#include <assert.h>
#include <string.h>

#include "fuzz.h"
#include "io/config/workflow_file.h"
#include "model/json.h"
#include "model/workflow.h"

static void steps_check(const struct workflow *w)
{
    size_t after = 0, dependents = 0;

    for (uint32_t i = 0; i < w->n_steps; i++) {
        const struct workflow_step *s = &w->steps[i];

        assert(workflow_find(w, bytes_str(s->name)) == i);
        assert(s->n_take <= s->n_after);
        after += s->n_after;
        dependents += s->n_dependents;
        for (uint32_t k = 0; k < s->n_after; k++)
            assert(s->after[k] < w->n_steps && (k == 0 || s->after[k - 1] < s->after[k]));
        for (uint32_t k = 0; k < s->n_dependents; k++)
            assert(s->dependents[k] < w->n_steps);
    }
    assert(after == w->n_edges && dependents == w->n_edges);
    assert(w->n_roots > 0 && w->n_sinks > 0);
}

static void accepted_check(struct workflow *w)
{
    CLEANUP(workflow_unref) struct workflow *again = NULL;

    steps_check(w);
    assert(workflow_new_from_bytes(&again, w->canonical, "", NULL) == 0);
    assert(bytes_equal(again->canonical, w->canonical));
    assert(strcmp(again->digest, w->digest) == 0);
}

/* Return: as workflow_new(), also if the file cannot be read. */
static int from_file(struct workflow **out, struct bytes text, struct problem *problem)
{
    Drover__V1__Workflow *message = NULL;
    int r;

    if (memmem(text.data, text.len, "@include", 8))
        return 1; /* it would read other files of this machine */
    r = workflow_file_read(&message, fuzz_file(text), problem);
    if (r == 0)
        r = workflow_new(out, message, "definition", problem);
    drover__v1__workflow__free_unpacked(message, NULL);
    assert(r >= 0);
    return r;
}

static int from_json(struct workflow **out, struct bytes text, struct problem *problem)
{
    ProtobufCMessage *message = NULL;
    int r = json_to_message(text, &drover__v1__workflow__descriptor, NULL, &message, problem);

    if (r == 0)
        r = workflow_new(out, (Drover__V1__Workflow *)message, "definition", problem);
    if (message)
        protobuf_c_message_free_unpacked(message, NULL);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(workflow_unref) struct workflow *w = NULL;
    struct bytes input = bytes_of(data, size);
    struct problem problem = {.reason = "includes"};
    int r;

    if (size > 0 && data[0] == '{')
        r = from_json(&w, input, &problem);
    else if (size > 0 && data[0] == '#')
        r = from_file(&w, input, &problem);
    else
        r = workflow_new_from_bytes(&w, input, "", &problem);
    if (r == 0)
        accepted_check(w);
    else
        fuzz_check_problem(&problem);
    return 0;
}
