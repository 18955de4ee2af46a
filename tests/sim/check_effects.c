// SPDX-License-Identifier: Apache-2.0
#include "check_model.h"

#include <stdio.h>
#include <string.h>

void checker_run(struct checker *c, const Drover__V1__StepRequest *request)
{
    const struct token *token = check_token_ever(c, bytes_str(request->token));
    char key[WIRE_KEY_MAX + 1];

    if (!token) {
        checker_fail(c, "I10 %s: a run of a request that was never made", request->job_id);
        return;
    }
    snprintf(key, sizeof(key), "%s/%s/%u", request->job_id, request->step, (unsigned)token->turn);
    require(c, token->back == (request->desired == DROVER__V1__STATE__STATE_DISABLED),
            "I2 %s: the token asks for the opposite", request->job_id);
    require(c, strcmp(token->w->steps[token->step].name, request->step) == 0,
            "I3 %s: the token is of another step", request->job_id);
    require(c, strcmp(key, request->idempotency_key) == 0, "I2 %s: another key", request->job_id);
    require(c, token->back || request->n_results == token->w->steps[token->step].n_take,
            "I8 %s: step %s begins with %zu of %u results", request->job_id, request->step,
            request->n_results, token->w->steps[token->step].n_take);
}

void checker_effect(struct checker *c, const char *text)
{
    struct token *token = check_token_ever(c, bytes_str(text));

    if (token)
        token->effect = true;
}
