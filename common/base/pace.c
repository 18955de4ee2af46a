// SPDX-License-Identifier: Apache-2.0
/*
 * Pace: when messages that are sent in bulk leave
 *
 * See base/pace.h.
 */
#include "base/pace.h"

void pace_add(struct pace *p, int64_t now)
{
    if (now >= p->window + PACE_WINDOW_MS) {
        p->added_before = now < p->window + 2 * PACE_WINDOW_MS ? p->added : 0;
        p->added = 0;
        p->window = now;
    }
    p->added++;
}

int64_t pace_when(const struct pace *p, int64_t now)
{
    bool little = p->added <= p->few && p->added_before <= p->few;

    return !p->any_sent || little || now >= p->sent_at + PACE_MS ? now : p->sent_at + PACE_MS;
}

void pace_sent(struct pace *p, int64_t now)
{
    p->any_sent = true;
    p->sent_at = now;
}
