// SPDX-License-Identifier: Apache-2.0
/*
 * Circuit breaker: its state machine
 *
 * Implements breaker.h; target.c calls it.
 */
#include "agent/breaker.h"

/* While a probe is under way, other callers are to wait for this time, or for this share (half) of
 * the present open time, whichever is longer. */
#define PROBE_WAIT_MS 1000
#define PROBE_WAIT_SHARE 2

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void open_until(struct breaker *b, int64_t until)
{
    b->state = BREAKER_OPEN;
    b->until = until;
    b->failures = 0;
    b->calls++;
}

bool breaker_admit(struct breaker *b, int64_t now, struct breaker_call *call, int64_t *wait_ms)
{
    *call = (struct breaker_call){.calls = b->calls};
    switch (b->state) {
    case BREAKER_CLOSED:
        return true;
    case BREAKER_OPEN:
        if (now < b->until) {
            *wait_ms = b->until - now;
            return false;
        }
        b->state = BREAKER_HALF_OPEN;
        call->probe = true;
        return true;
    case BREAKER_HALF_OPEN:
        break;
    }
    *wait_ms = most(b->open_ms / PROBE_WAIT_SHARE, PROBE_WAIT_MS);
    return false;
}

bool breaker_succeeded(struct breaker *b, const struct breaker_call *call)
{
    if (call->calls != b->calls)
        return false;
    b->failures = 0;
    if (!call->probe)
        return false;
    b->state = BREAKER_CLOSED;
    b->open_ms = 0;
    return true;
}

bool breaker_failed(struct breaker *b, const struct breaker_call *call, int64_t now,
                    int64_t at_least_ms)
{
    int64_t longest = b->config.open_max_ms;

    if (call->calls != b->calls)
        return false;
    if (!call->probe && ++b->failures < b->config.failures)
        return false;
    b->open_ms = least(call->probe ? 2 * b->open_ms : b->config.open_ms, longest);
    open_until(b, now + most(b->open_ms, least(at_least_ms, longest)));
    return true;
}

void breaker_abandoned(struct breaker *b, const struct breaker_call *call, int64_t now)
{
    if (call->probe && call->calls == b->calls)
        open_until(b, now);
}
