// SPDX-License-Identifier: Apache-2.0
/*
 * Wait: asks for the status of a job until it has ended, less and less often
 *
 * See client/wait.h. Called by clients.
 */
#include "client/wait.h"

#include "base/clock.h"
#include "client/control.h"
#include "client/job_status.h"

#define POLL_MIN_MS 100
#define POLL_MAX_MS 1000
#define QUERY_MS 10000 /* for one status; then it asks again */

static bool ended(const struct wire_message *answer)
{
    const Drover__V1__JobStatus *status = answer->answer->status;

    return !status || job_status_has_ended(status);
}

int wait_until_ended(struct session *s, const char *job, int64_t deadline,
                     struct wire_message *answer, bool *seen)
{
    int64_t interval = POLL_MIN_MS;

    *seen = false;
    for (;;) {
        int64_t now = clock_monotonic_ms(), limit = now + QUERY_MS;
        int r = control_query(s, job, limit < deadline ? limit : deadline, answer);

        if (r == 0 && ended(answer))
            return 0;
        if (r == 0) {
            *seen = true;
            wire_free(answer);
        }
        now = clock_monotonic_ms();
        if (r && (r != SESSION_E_TIMEOUT || now >= deadline))
            return r;
        if (now >= deadline)
            return SESSION_E_TIMEOUT;
        if (session_wait(s, now + interval < deadline ? now + interval : deadline))
            return SESSION_E_INTERRUPTED;
        interval = interval * 3 / 2 < POLL_MAX_MS ? interval * 3 / 2 : POLL_MAX_MS;
    }
}
