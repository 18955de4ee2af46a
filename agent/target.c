// SPDX-License-Identifier: Apache-2.0
/*
 * Targets: a hash table of circuit breakers, with the results and log lines of their states
 *
 * Implements target.h; handler_exec.c and handler_http.c call it.
 */
#include "agent/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/log.h"

struct target {
    UT_hash_handle hh;
    struct breaker breaker;
    bool heard;       /* it has answered a call */
    char spared[192]; /* the message of deferred runs: the last failure */
    const char *name; /* in `actor`, behind the actor's name */
    char actor[];     /* "<actor>\0<name>\0", the key */
};

struct target *target_find(struct targets *targets, const char *actor, const char *name,
                           const struct breaker_config *config)
{
    size_t actor_size = strlen(actor) + 1, size = actor_size + strlen(name) + 1;
    struct target *target, *known;

    if (config->failures == 0)
        return NULL;
    target = or_abort(calloc(1, sizeof(*target) + size));
    memcpy(target->actor, actor, actor_size);
    memcpy(target->actor + actor_size, name, size - actor_size);
    HASH_FIND(hh, targets->by_name, target->actor, size, known);
    if (known) {
        free(target);
        return known;
    }
    target->name = target->actor + actor_size;
    target->breaker.config = *config;
    HASH_ADD(hh, targets->by_name, actor, size, target);
    return target;
}

bool target_admit(struct target *target, int64_t now, struct target_call *call,
                  struct agent_result *deferred)
{
    int64_t wait;

    *call = (struct target_call){.target = target};
    if (!target || breaker_admit(&target->breaker, now, &call->call, &wait))
        return true;
    call->target = NULL;
    *deferred = (struct agent_result){
        .class = "BREAKER_OPEN",
        .message = target->spared,
        .verdict = DROVER__V1__VERDICT__VERDICT_DEFER,
        .effect = DROVER__V1__EFFECT__EFFECT_UNKNOWN,
        .retry_after_ms = wait,
    };
    return false;
}

void target_answered(const struct target_call *call)
{
    struct target *target = call->target;

    if (target && breaker_succeeded(&target->breaker, &call->call))
        log_info("breaker_closed", LOG_S("actor", target->actor), LOG_S("target", target->name));
}

void target_failed(const struct target_call *call, const struct agent_result *result, int64_t now)
{
    struct target *target = call->target;

    if (!target)
        return;
    snprintf(target->spared, sizeof(target->spared), "spared for a while; last: %.150s",
             result->message);
    if (breaker_failed(&target->breaker, &call->call, now, result->retry_after_ms))
        log_warn("breaker_open", LOG_S("actor", target->actor), LOG_S("target", target->name),
                 LOG_I("for_ms", target->breaker.until - now), LOG_S("class", result->class));
}

void target_abandoned(const struct target_call *call, int64_t now)
{
    if (call->target)
        breaker_abandoned(&call->target->breaker, &call->call, now);
}

void target_heard(const struct target_call *call)
{
    if (call->target)
        call->target->heard = true;
}

bool target_was_heard(const struct target_call *call)
{
    return call->target && call->target->heard;
}

void targets_free(struct targets *targets)
{
    struct target *target, *next;

    HASH_ITER(hh, targets->by_name, target, next) {
        HASH_DEL(targets->by_name, target);
        free(target);
    }
}
