// SPDX-License-Identifier: Apache-2.0
/*
 * Pace: when messages that are sent in bulk leave
 *
 * See base/pace.h.
 */
#include "base/pace.h"

void pace_came(struct pace *p, int64_t now)
{
    if (now >= p->window + PACE_WINDOW_MS) {
        p->before = now < p->window + 2 * PACE_WINDOW_MS ? p->came : 0;
        p->came = 0;
        p->window = now;
    }
    p->came++;
}

int64_t pace_when(const struct pace *p, int64_t now)
{
    bool little = p->came <= p->few && p->before <= p->few;

    return !p->begun || little || now >= p->left + PACE_MS ? now : p->left + PACE_MS;
}

void pace_leave(struct pace *p, int64_t now)
{
    p->begun = true;
    p->left = now;
}
