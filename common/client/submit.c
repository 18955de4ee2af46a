// SPDX-License-Identifier: Apache-2.0
/*
 * Submit: submits a job until a scheduler takes or refuses it
 *
 * See client/submit.h. Called by clients.
 */
#include "client/submit.h"

#include "base/clock.h"

int submit_job(struct session *s, const Drover__V1__Submit *job, int64_t deadline,
               struct wire_message *receipt)
{
    const struct session_question question = {
        .exchange = "drover.submit",
        .key = "submit",
        .body = &job->base,
        .answer = WIRE_RECEIPT,
    };

    for (;;) {
        int r = session_ask(s, &question, deadline, receipt);

        if (r)
            return r;
        if (receipt->receipt->code != DROVER__V1__RECEIPT_CODE__RECEIPT_CODE_RETRY_LATER)
            return 0;
        wire_free(receipt);
        r = session_wait(s, clock_monotonic_ms() + SESSION_RETRY_LATER_MS);
        if (r)
            return r;
    }
}
