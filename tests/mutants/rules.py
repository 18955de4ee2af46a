# SPDX-License-Identifier: Apache-2.0
"""The mutants that run.py tries, by the rule that each breaks.

Most are a line of the rule left out or turned round. Each is (file, what stands there once, what is put in
its place), and, fourth, what is to catch it, where that is not a seed:

    tests/unit/test_agent test_drain          a case of a test program of the build
    tests/integration/test_x.py Class.test    a case against real servers, and daemons so changed
"""

FUNCTIONS = "common/store/drover.lua"

AGENT = "tests/unit/test_agent"
SCHEDULER = "tests/sim/test_scheduler"
FAILURES = "tests/sim/test_failures"
ROLLBACK = "tests/sim/test_rollback"
INTAKE = "tests/sim/test_intake"
SUPERVISOR = "tests/sim/test_supervisor"
SUSPECTS = "tests/sim/test_suspects"
LIMITS = "tests/sim/test_limits"
TOLD = "tests/sim/test_told"
WATCH = "tests/sim/test_watch"
DISPATCH = "tests/sim/test_dispatch"
WIRE = "tests/unit/test_wire"
WORKFLOW = "tests/unit/test_workflow"
POLICY = "tests/unit/test_policy"
BREAKER = "tests/unit/test_breaker"
STORE_CHECK = "tests/unit/test_store_check"
BUS = "tests/integration/test_bus"
BUS_BROKER = "tests/integration/test_bus_broker"
BUS_CONFIRMS = "tests/integration/test_bus_confirms"
STORE = "tests/integration/test_store"
OWNERS = "tests/integration/test_owners.py"
FUNCTIONS_TEST = "tests/integration/test_functions.py Functions."

RULES = {
    "Who must act is told, and can ask": {
        "a job fails and nobody is told": (
            FUNCTIONS,
            "    add_history(job, 'attention', outcome)\n    add_alert(",
            "    add_history(job, 'attention', outcome)\n    alert(",
            FUNCTIONS_TEST + "test_an_end_that_nobody_asked_for_needs_a_person",
        ),
        "an ordinary compensation is told": (
            FUNCTIONS,
            "'^%u %d+ ([01]) ') ~= '1'",
            "'^%u %d+ ([01]) ') ~= '2'",
            FUNCTIONS_TEST + "test_which_ends_need_a_person",
        ),
        "a later failure of the same way decides": (
            FUNCTIONS,
            "  if (asked == 'A' and forward or asked == 'D' and back) ~= '' then",
            "  if false then",
            FUNCTIONS_TEST + "test_which_failure_has_decided",
        ),
        "a failure stays with a job that goes on": (
            FUNCTIONS,
            "  if cause ~= 'FAILURE' then\n    deciding.reset(",
            "  if cause == 'KILLED' then\n    deciding.reset(",
            FUNCTIONS_TEST + "test_a_failure_is_forgotten_when_the_job_goes_on",
        ),
        "what is parked is on no list": (
            FUNCTIONS,
            "  return job.parked > 0 and 'parked' or waits",
            "  return waits",
            FUNCTIONS_TEST + "test_a_parked_step_needs_a_person",
        ),
        "it leaves the list while it is tried again": (
            FUNCTIONS,
            "function reach_desired(job, i)\n  remove_parked(job, i)",
            "function reach_desired(job, i)",
            FUNCTIONS_TEST + "test_parked_until_it_has_succeeded",
        ),
        "acknowledged once is acknowledged for ever": (
            FUNCTIONS,
            "  if job.acknowledged then\n    set(job, 'acknowledged', '')",
            "  if false then\n    set(job, 'acknowledged', '')",
            FUNCTIONS_TEST + "test_a_parked_step_needs_a_person",
        ),
        "a person who has an undo tried again hides why the job goes back": (
            FUNCTIONS,
            "  set_decisions(job, not all and job.desired == 'D' and forward or '', '')",
            "  set_decisions(job, '', '')",
            FUNCTIONS_TEST + "test_why_it_goes_back_stays_known",
        ),
        "an end that is told late says what has come since": (
            FUNCTIONS,
            "'earlier', 'w' .. a[3], 'v' .. a[3])",
            "'earlier', 'failure', 'failure')",
            FUNCTIONS_TEST + "test_a_notice_says_what_has_decided",
        ),
        "the first parked step is named for ever": (
            FUNCTIONS,
            "    if kind ~= '' and job.trouble then",
            "    if false then",
            FUNCTIONS_TEST + "test_another_parked_step_is_named",
        ),
        "what an older build has parked is on no list": (
            FUNCTIONS,
            "      if rec.state == 'P' and add_parked(job, i) then",
            "      if false then",
            FUNCTIONS_TEST + "test_what_an_older_build_has_parked_needs_a_person",
        ),
        "alerts that wait are lost at the end": (
            "scheduler/scheduler.c",
            "        alert_stop(s);\n",
            "",
            WATCH + " test_what_waits_is_told_at_the_end",
        ),
        "a forgotten job stays on the list": (
            FUNCTIONS,
            "    call('ZREM', p .. 'needs', id)\n    call('ZREM', p .. 'needs:' .. needs, id)",
            "    call('ZREM', p .. 'needs:' .. needs, id)",
            FUNCTIONS_TEST + "test_an_end_that_nobody_asked_for_needs_a_person",
        ),
        "what is paused past its deadline is on no list": (
            FUNCTIONS,
            "  local waits = job.hold == 'deadline' or job.hold ~= '' and deadline.has_passed(job)",
            "  local waits = job.hold == 'deadline'",
            FUNCTIONS_TEST + "test_deadline_of_what_is_paused",
        ),
        "what was resumed past its deadline is on the list when it is paused": (
            FUNCTIONS,
            "  if deadline.has_passed(job) then\n    deadline.mark_passed(job, job.since - 1)\n  end\n",
            "",
            FUNCTIONS_TEST + "test_deadline_of_what_is_paused",
        ),
        "a deadline hides why a step is parked": (
            FUNCTIONS,
            "      put_on_hold(job, 'deadline', '-')\n",
            "      put_on_hold(job, 'deadline', '-')\n      job.trouble = '- - DEADLINE'\n",
            FUNCTIONS_TEST + "test_why_it_is_parked_outlasts_its_deadline",
        ),
        "dead letters of others are not told": (
            FUNCTIONS,
            "    count = since > 0 and max(seen - known - unseen, 0) or 0\n",
            "    count = 0\n",
            WATCH + " test_dead_letters_of_others",
        ),
        "dead letters are told before another scheduler can answer for them": (
            FUNCTIONS,
            "  elseif grown > 0 and (since <= 0 or now - since >= CAUSE_CLAIMED) then\n    count = since > 0 and max(seen",
            "  elseif grown > 0 then\n    count = since > 0 and max(there",
            FUNCTIONS_TEST + "test_letters_of_others",
        ),
        "a letter that never comes hides another": (
            FUNCTIONS,
            "    if since < 0 and now + since >= CAUSE_CLAIMED then -- they",
            "    if false then -- they",
            FUNCTIONS_TEST + "test_letters_of_others",
        ),
        "dead letters of its own are told twice": (
            "scheduler/scheduler.c",
            "    letter(s, item, reason);\n    s->letters.own++;\n",
            "    letter(s, item, reason);\n",
            WATCH + " test_dead_letters_of_its_own",
        ),
        "a job's agent that has died is not named": (
            FUNCTIONS,
            "i, rec.attempt, token_id(i, rec.token), agent)",
            "i, rec.attempt, token_id(i, rec.token))",
            FUNCTIONS_TEST + "test_who_has_died",
        ),
        "alerts that wait when the scheduler ends are dropped": (
            "scheduler/alert_io.c",
            "    uv_timer_start(&a->closing, on_late, (uint64_t)within_ms, 0);\n",
            "    uv_timer_start(&a->closing, on_late, 0, 0);\n",
            "tests/unit/test_alert_io test_handed_over_at_the_end",
        ),
        "what an alert command leaves behind lives on": (
            "scheduler/alert_io.c",
            "    child_signal(process, SIGKILL); /* the processes that it has left in its group */\n",
            "",
            "tests/unit/test_alert_io test_what_it_leaves_behind_is_killed",
        ),
        "an alert command that fails is said each time": (
            "scheduler/alert_io.c",
            "    return a->failing++ == 0;",
            "    return ++a->failing > 0;",
            "tests/integration/test_alerts.py Alerts.test_a_command_that_fails",
        ),
    },
    "A deadline bounds what is sent": {
        "a lease goes on beyond the deadline": (
            FUNCTIONS,
            "    wait, lease = min(wait, left), min(lease, left)\n",
            "    wait, lease = min(wait, left), lease\n",
        ),
        "an agent has longer than the store gives it": (
            "scheduler/transition.c",
            "    m.lock_ms = bounded(transition, w, r, m.lock_ms);\n",
            "",
        ),
        "what is sent again goes beyond the deadline": (
            FUNCTIONS,
            "  return min(rec.till - job.now - min(lease, left), left)",
            "  return rec.till - job.now - min(lease, max(left, 0))",
            FUNCTIONS_TEST + "test_nothing_is_sent_past_the_deadline",
        ),
        "a change whose undo has failed waits for ever": (
            FUNCTIONS,
            "    if change.waits_for(job, i) then",
            "    if false then",
            FUNCTIONS_TEST + "test_change_whose_undo_fails_for_good",
        ),
        "what has waited before a deadline counts as thrown away": (
            FUNCTIONS,
            "    return rec.till - t.lock - job.now > WAIT_SLACK\n",
            "    return wait_left(job, i, rec) > WAIT_SLACK\n",
            FUNCTIONS_TEST + "test_a_wait_that_is_over_before_the_deadline",
        ),
        "an undo is bounded": (
            FUNCTIONS,
            "  if asked ~= 'A' or job.complete_by == 0 then",
            "  if job.complete_by == 0 then",
            FUNCTIONS_TEST + "test_no_lease_beyond_the_deadline",
        ),
        "where the deadline parks it bounds as well": (
            FUNCTIONS,
            "  return def.on_deadline ~= 'P'\n",
            "  return true\n",
            FUNCTIONS_TEST + "test_a_lease_where_the_deadline_parks",
        ),
        "forward work is sent past the deadline": (
            FUNCTIONS,
            "  if left and left <= 0 then\n    set_state(",
            "  if false then\n    set_state(",
        ),
        "what the deadline cuts short counts a death": (
            FUNCTIONS,
            "  if is_cut_short(job, rec) then",
            "  if false then",
            FUNCTIONS_TEST + "test_a_lease_that_the_deadline_ends_is_no_death",
        ),
    },
    "A client that asks for it hears what happens at steps, once": {
        "it hears of it again and again": (
            FUNCTIONS,
            "  call('HSET', data, 'heard', int(job.seq))\n",
            "",
            FUNCTIONS_TEST + "test_step_events",
        ),
        "it hears the details": (
            FUNCTIONS,
            "failure and deciding.without_details(failure) or '')\n",
            "failure or '')\n",
            FUNCTIONS_TEST + "test_step_events",
        ),
        "every Progress is a beginning": (
            FUNCTIONS,
            "  local begins = not known and job.events == 'reply'\n",
            "  local begins = job.events == 'reply'\n",
            FUNCTIONS_TEST + "test_step_events",
        ),
        "beginnings are recorded for nobody": (
            FUNCTIONS,
            "  local begins = not known and job.events == 'reply'\n",
            "  local begins = not known\n",
            FUNCTIONS_TEST + "test_step_events_that_nobody_wants",
        ),
        "a job that does not ask is asked about": (
            FUNCTIONS,
            "  return job.events == 'step' and ' 1 ' or",
            "  return",
            FUNCTIONS_TEST + "test_step_events_that_nobody_wants",
        ),
        "a history of any length is told": (
            FUNCTIONS,
            "tonumber(d[6] or '') or 0), HEARD_MOST)\n",
            "tonumber(d[6] or '') or 0), 10 * HEARD_MOST)\n",
            FUNCTIONS_TEST + "test_step_events_of_many",
        ),
    },
    "It is known who has answered": {
        "the history does not say who": (
            FUNCTIONS,
            "'undone', name, int(rec.attempt), token_id(i, rec.token), op.agent)",
            "'undone', name, int(rec.attempt), token_id(i, rec.token))",
            FUNCTIONS_TEST + "test_who_has_answered",
        ),
        "the first one that has answered is taken for the last": (
            FUNCTIONS,
            "      agents[i] = agent\n",
            "      agents[i] = agents[i] or agent\n",
            FUNCTIONS_TEST + "test_who_has_answered",
        ),
    },
    "Silence ends, and a whole job waits before it is tried again": {
        "a step parked by silence is never tried": (
            FUNCTIONS,
            "  if t.silence == 0 or is_older_job(job) then",
            "  if true then",
            FUNCTIONS_TEST + "test_silence_ends",
        ),
        "each silent round waits as long as the first": (
            FUNCTIONS,
            "t.silence * 2 ^ max(rec.expiries - t.expiries, 0)",
            "t.silence",
            FUNCTIONS_TEST + "test_silence_ends",
        ),
        "a deferral ends no silence": (
            FUNCTIONS,
            "  if rec.expiries >= t.expiries then\n    rec.expiries = 0",
            "  if op.kind ~= 'F' and rec.expiries >= t.expiries then\n    rec.expiries = 0",
            FUNCTIONS_TEST + "test_a_deferral_ends_a_silence",
        ),
        "a round that does not get through is over": (
            FUNCTIONS,
            "  rec.token = rec.expiries >= t.expiries and SILENCE_OVER or '-'",
            "  rec.token = '-'",
            FUNCTIONS_TEST + "test_a_round_that_does_not_get_through",
        ),
        "silence lasts for ever longer": (
            FUNCTIONS,
            "max(rec.expiries - t.expiries, 0), max(t.silence, DAY))",
            "max(rec.expiries - t.expiries, 0), 2 ^ 50)",
            FUNCTIONS_TEST + "test_silence_ends_within_a_day",
        ),
        "jobs of before get another policy": (
            FUNCTIONS,
            "  return renewed and tonumber(call('HGET', job.key, 'created')) < renewed",
            "  return false",
            FUNCTIONS_TEST + "test_silence_that_does_not_end",
        ),
        "a job is tried again at once": (
            FUNCTIONS,
            "      if job.hold == '' and at > job.now then",
            "      if false then",
            FUNCTIONS_TEST + "test_a_wait_between_two_tries",
        ),
        "a wait goes on beyond the deadline": (
            FUNCTIONS,
            "  return at and not (job.complete_by > 0 and max(at, job.now) >= job.complete_by) and at, tried",
            "  return at, tried",
            FUNCTIONS_TEST + "test_no_wait_beyond_the_deadline",
        ),
        "a rest is taken for an end that was missed": (
            FUNCTIONS,
            "#job.spreads == 0 and job.next_try <= job.now",
            "#job.spreads == 0",
            FUNCTIONS_TEST + "test_a_wait_between_two_tries",
        ),
    },
    "Nothing is acknowledged before its effects, and what was cut off in between is made good": {
        "a delivery is acknowledged before the store": (
            "scheduler/scheduler.c",
            "item->handle = d->handle;",
            "item->handle = 0; effects_add(s->out, EFFECT_ACK, d->handle);",
        ),
        "a command, or a Recover, is acknowledged before the store": (
            "scheduler/on_control.c",
            "    struct op *op = op_new(s, item, m->job_id);\n\n",
            "    struct op *op = op_new(s, item, m->job_id);\n\n    if (item->handle)\n"
            "        effects_add(s->out, EFFECT_ACK, item->handle);\n    item->handle = 0;\n",
        ),
        "a Recover is acknowledged before its requests": (
            "scheduler/transition.c",
            "    if (w) {\n        requests(s, op, transition, w);\n",
            "    if (op->item->handle && op->item->source == SCHEDULER_CONTROL &&\n"
            "        op->item->message.control->command_case == DROVER__V1__CONTROL__COMMAND_RECOVER) {\n"
            "        effects_add(s->out, EFFECT_ACK, op->item->handle);\n        op->item->handle = 0;\n    }\n"
            "    if (w) {\n        requests(s, op, transition, w);\n",
        ),
        "a command is acknowledged before its requests": (
            "scheduler/transition.c",
            "    if (w) {\n        requests(s, op, transition, w);\n",
            "    if (op->item->handle && op->item->source == SCHEDULER_CONTROL &&\n"
            "        op->item->message.control->command_case != DROVER__V1__CONTROL__COMMAND_RECOVER) {\n"
            "        effects_add(s->out, EFFECT_ACK, op->item->handle);\n        op->item->handle = 0;\n    }\n"
            "    if (w) {\n        requests(s, op, transition, w);\n",
        ),
        "a request that expired is acknowledged before the one in its place": (
            "scheduler/transition.c",
            "    if (w) {\n        requests(s, op, transition, w);\n",
            "    if (op->item->handle && op->item->source == SCHEDULER_EXPIRED) {\n"
            "        effects_add(s->out, EFFECT_ACK, op->item->handle);\n        op->item->handle = 0;\n    }\n"
            "    if (w) {\n        requests(s, op, transition, w);\n",
        ),
        "a reply is acknowledged before the requests of a later turn": (
            "scheduler/transition.c",
            "    if (w) {\n        requests(s, op, transition, w);\n",
            "    if (op->item->handle && op->item->source == SCHEDULER_REPLIES && transition->n_requests > 0 &&\n"
            "        transition->requests[0].turn > 1) {\n"
            "        effects_add(s->out, EFFECT_ACK, op->item->handle);\n        op->item->handle = 0;\n    }\n"
            "    if (w) {\n        requests(s, op, transition, w);\n",
        ),
        "a redelivered reply does not send its follow-ups again": (
            FUNCTIONS,
            "if #list == 0 or not can_dispatch(job) then",
            "if true then",
        ),
        "a call repeated after no answer is not taken as a redelivery": (
            "scheduler/scheduler.c",
            "op->record.redelivered = op->submit.redelivered = op->again = true;",
            "op->again = true;",
        ),
        "a repeated drive mints the same token again": (
            "scheduler/transition.c",
            "    nonces_next(&s->nonces, op->nonce);\n    ops_drive",
            "    ops_drive",
            f"{SCHEDULER} test_a_repeated_drive_mints_anew",
        ),
        "a notice is settled before it is sent": (
            "scheduler/notification.c",
            "        op->then = notification_published;\n        tell(s, op, &job, w);",
            "        notification_published(s, op);",
        ),
        "a reply that is said once more sends its follow-ups again": (
            FUNCTIONS,
            "    if op.redelivered == '1' then\n      resend_after",
            "    if true then\n      resend_after",
            "tests/integration/test_functions.py Functions.test_follow_ups_of_what_comes_twice",
        ),
        "a Submit that is said once more sends its requests again": (
            FUNCTIONS,
            "  if redelivered == '1' then\n",
            "  if true then\n",
            "tests/integration/test_functions.py Functions.test_follow_ups_of_what_comes_twice",
        ),
        "a command that is said once more sends its requests again": (
            FUNCTIONS,
            "    if a[9] == '1' then\n",
            "    if true then\n",
            "tests/integration/test_functions.py Functions.test_follow_ups_of_what_comes_twice",
        ),
        "a Recover that is said once more sends what is in flight again": (
            FUNCTIONS,
            "elseif rec.state == 'R' and a[4] == '1' then",
            "elseif rec.state == 'R' then",
            "tests/integration/test_functions.py Functions.test_follow_ups_of_what_comes_twice",
        ),
        "a Receipt is sent before the record": (
            "scheduler/on_submit.c",
            "    op_call(s, op, submit_call, submit_answered);\n",
            '    receipt(s, op, DROVER__V1__RECEIPT_CODE__RECEIPT_CODE_CREATED, "", "", op->workflow, s->now);\n'
            "    op_call(s, op, submit_call, submit_answered);\n",
        ),
        "whoever asks is answered after the ack": (
            "scheduler/scheduler.c",
            "    m = op_publish(s, op, body, item->json, NULL);\n    m->exchange = \"\";\n",
            "    if (item->handle)\n        effects_add(s->out, EFFECT_ACK, item->handle);\n    item->handle = 0;\n    m = op_publish(s, op, body, item->json, NULL);\n    m->exchange = \"\";\n",
        ),
    },
    "A reply counts while its dispatch is in flight: the token is compared, nothing else; late ones are kept as evidence": {
        "a token of a step that the job does not have is looked up": (
            FUNCTIONS,
            "  if i >= job.n or not job.step_text then",
            "  if false then",
        ),
        "a good reply beside a bad one is not recorded": (
            "scheduler/on_replies.c",
            "        } else {\n            reply(s, item, m->replies[i]);\n",
            "        } else if (bad == 0) {\n            reply(s, item, m->replies[i]);\n",
        ),
        "a bad reply is acknowledged, and is no dead letter": (
            "scheduler/on_replies.c",
            "    if (bad > 0)\n        item_dead(s, item, effects",
            "    if (bad > 1000)\n        item_dead(s, item, effects",
        ),
        "a reply's token is not compared": (
            FUNCTIONS,
            "if rec.token ~= op.token or rec.state == 'R' and finished(job) then",
            "if false then",
        ),
        "expire does not withdraw the token": (
            FUNCTIONS,
            "  rec.current, rec.token = 'U', counts and '-' or NO_EVIDENCE\n",
            "  rec.current = 'U'\n",
        ),
        "a late reply leaves no evidence": (
            FUNCTIONS,
            "      keep_late(job, i, op)\n",
            "",
            "tests/integration/test_turns.py Turns.test_kill",
        ),
        "only the first late reply is kept": (
            FUNCTIONS,
            "concat({int(count + 1), int(job.now), op.kind, token_id(i, op.token), op.class}, ' '))",
            "concat({'1', int(job.now), op.kind, token_id(i, op.token), op.class}, ' '))",
            "tests/integration/test_turns.py Turns.test_kill",
        ),
        "a reply is late by the clock": (
            FUNCTIONS,
            "  if rec.token ~= op.token or rec.state == 'R' and finished(job) then",
            "  if rec.token ~= op.token or rec.till < now or rec.state == 'R' and finished(job) then",
            "tests/integration/test_functions.py Functions.test_late_is_who_was_withdrawn",
        ),
    },
    "UNKNOWN: what a failed, lost or returned attempt may have done is not known, and is undone": {
        "what is not known is not undone": (
            FUNCTIONS,
            "  rec.current, rec.unstarted = proven and 'D' or 'U', 0\n",
            "  rec.current, rec.unstarted = 'D', 0\n",
        ),
        "a lease that ended is taken for one in which nothing was done": (
            FUNCTIONS,
            "  rec.current, rec.token = 'U', counts and '-' or NO_EVIDENCE\n",
            "  rec.token = counts and '-' or NO_EVIDENCE\n",
        ),
        "a request that came back is taken for one that nobody had": (
            FUNCTIONS,
            "  if begun then\n    rec.current = 'U'\n",
            "  if false then\n",
        ),
        "a request that could not be sent in time is taken for one that nobody had": (
            FUNCTIONS,
            "op.kind ~= 'X' and op.kind ~= 'L'\n",
            "op.kind ~= 'X' and op.kind ~= 'L' and op.kind ~= 'S'\n",
        ),
        "a request that the broker refused is taken for one that nobody had": (
            FUNCTIONS,
            "op.kind ~= 'X' and op.kind ~= 'L'\n",
            "op.kind ~= 'X' and op.kind ~= 'L' and op.kind ~= 'K'\n",
        ),
        "a request that was sent once more is taken for one that nobody had where no queue took the first": (
            FUNCTIONS,
            "      call('HSET', job.p .. 'data:' .. job.id, 'c' .. i, rec.token)\n",
            "",
            "tests/integration/test_functions.py Functions.test_no_queue_took_one_copy",
        ),
        "what an earlier turn may have done is done again": (
            FUNCTIONS,
            "rec.current == 'U' and (rec.asked == 'D' or rec.turn < job.since) then",
            "rec.current == 'U' and rec.asked == 'D' then",
        ),
        "a request that was sent once more is taken for one that nobody had where it expires": (
            "scheduler/on_expired.c",
            "        if (d->resent)\n            continue;\n",
            "",
            f"{INTAKE} test_expired",
        ),
    },
    "A failure report waives the undo only where the step says so, and proves that nothing took effect": {
        "an agent without a slot says that nothing will ever take effect": (
            "agent/run.c",
            "        .retry_after_ms = is_batched(run)",
            "        .effect = DROVER__V1__EFFECT__EFFECT_NONE,\n        .retry_after_ms = is_batched(run)",
            f"{AGENT} test_suspect_while_draining",
        ),
        "an agent without a slot says of a first attempt that nothing will ever take effect": (
            "agent/run.c",
            "    a->stats.waiting--;\n    timer_stop(a, &run->deadline);\n    list_remove(&run->link);\n",
            "    if (run->seen.request->attempt <= 1 && !run->seen.repeated)\n"
            "        busy.effect = DROVER__V1__EFFECT__EFFECT_NONE;\n"
            "    a->stats.waiting--;\n    timer_stop(a, &run->deadline);\n    list_remove(&run->link);\n",
            f"{AGENT} test_waiting_for_a_slot",
        ),
        "a failure proves more than it does": (
            FUNCTIONS,
            "op.effect == 'N' and rec.asked == 'A' and step.waived",
            "op.effect == 'N' and rec.asked == 'A'",
        ),
        "a failure proves nothing": (
            FUNCTIONS,
            "op.effect == 'N' and rec.asked == 'A' and step.waived",
            "false",
        ),
    },
    "TRANSIENT is tried again, PERMANENT and a non_retryable class are not": {
        "a permanent failure is tried again": (
            FUNCTIONS,
            "  elseif op.kind == 'P' or op.kind == 'L' or t.non_retryable[op.class] then",
            "  elseif false then",
        ),
        "what is too large to be sent is undone": (
            FUNCTIONS,
            "op.kind ~= 'X' and op.kind ~= 'L'\n",
            "op.kind ~= 'X'\n",
            "tests/integration/test_functions.py Functions.test_too_large_to_be_sent",
        ),
        "an undo that was never sent fails in a job that does not want it": (
            FUNCTIONS,
            "  if overtaken(job, rec) or rec.current == job.desired then",
            "  if overtaken(job, rec) then",
            "tests/integration/test_functions.py Functions.test_an_undo_too_large_that_nobody_wants",
        ),
        "what is too large to be sent is told as any failure": (
            "scheduler/transition.c",
            "OP_UNSENDABLE, op->job, m.token",
            "OP_PERMANENT, op->job, m.token",
            "tests/integration/test_bad_input.py BadInput.test_request_too_large",
        ),
        "a non_retryable class is tried again": (
            FUNCTIONS,
            "op.kind == 'L' or t.non_retryable[op.class] then",
            "op.kind == 'L' then",
        ),
    },
    "DEFER is tried again when it says, and is not counted": {
        "a deferred step counts as failed": (
            FUNCTIONS,
            "  if op.kind == 'F' then\n    add_history(job, 'deferred'",
            "  if false then\n    add_history(job, 'deferred'",
        ),
        "a deferred step does not wait for as long as it was told": (
            FUNCTIONS,
            "local wait = op.retry_after > 0 and op.retry_after or t.initial",
            "local wait = t.initial",
        ),
        "a failure does not wait for as long as it was told": (
            FUNCTIONS,
            "max(backoff(t, rec.failures, op.fraction), op.retry_after)",
            "backoff(t, rec.failures, op.fraction)",
        ),
    },
    "Failures and deaths are counted apart, and limited apart": {
        "failures are counted twice": (
            FUNCTIONS,
            "rec.failures = rec.failures + 1",
            "rec.failures = rec.failures + 2",
        ),
        "a death counts as a failure": (
            FUNCTIONS,
            "    rec.expiries = rec.expiries + 1\n  end\n  -- a request",
            "    rec.failures = rec.failures + 1\n  end\n  -- a request",
        ),
        "deaths are limited as failures are": (
            FUNCTIONS,
            "rec.current == 'U' and rec.expiries >= terms_of(job.def, i, rec.asked).expiries then",
            "rec.current == 'U' and rec.expiries >= terms_of(job.def, i, rec.asked).attempts then",
        ),
        "failures are limited as deaths are": (
            FUNCTIONS,
            "  elseif rec.failures >= t.attempts then\n    give_up",
            "  elseif rec.failures >= t.expiries then\n    give_up",
        ),
        "counters go on from one turn to the next": (
            FUNCTIONS,
            "    rec.failures, rec.expiries, rec.unstarted = 0, 0, 0\n  end\n  if asked == 'A' then",
            "  end\n  if asked == 'A' then",
        ),
    },
    "A failure waits initial × coefficient^(n-1), at most the maximum, jitter added": {
        "a failed step is tried again at once": (
            FUNCTIONS,
            "  return floor(wait * (1 + t.jitter * fraction))",
            "  return 0",
        ),
        "the wait after a failure grows without end": (
            FUNCTIONS,
            "local wait = min(t.initial * t.coefficient ^ (max(failures, 1) - 1), t.longest)",
            "local wait = t.initial * t.coefficient ^ (max(failures, 1) - 1)",
            "tests/integration/test_functions.py Functions.test_the_wait_has_a_cap",
        ),
        "jitter is subtracted": (
            FUNCTIONS,
            "  return floor(wait * (1 + t.jitter * fraction))",
            "  return floor(wait * (1 - t.jitter * fraction))",
        ),
    },
    "on_permanent and on_exhausted say what becomes of a step: park, compensate or fail": {
        "what on_permanent says is not heeded": (
            FUNCTIONS,
            "give_up(job, i, rec, t.on_permanent, 'PERMANENT', 0)",
            "give_up(job, i, rec, 'P', 'PERMANENT', 0)",
        ),
        "what on_exhausted says of failures is not heeded": (
            FUNCTIONS,
            "give_up(job, i, rec, t.on_exhausted, 'EXHAUSTED',",
            "give_up(job, i, rec, 'P', 'EXHAUSTED',",
        ),
        "what on_exhausted says of deaths is not heeded": (
            FUNCTIONS,
            "give_up(job, i, rec, t.on_exhausted, 'DEATHS',",
            "give_up(job, i, rec, 'P', 'DEATHS',",
        ),
        "a job fails while steps are in flight": (
            FUNCTIONS,
            "  elseif idle and job.ending ~= '' then",
            "  elseif job.ending ~= '' then",
        ),
    },
    "A step parked by failures is tried once each park_interval, one parked by deaths is not; its alert is told once": {
        "a step parked by failures is not tried again": (
            FUNCTIONS,
            "'EXHAUSTED', t.park > 0 and job.now + t.park or 0)",
            "'EXHAUSTED', 0)",
        ),
        "a step that kills its agents gets more of them": (
            FUNCTIONS,
            "  elseif rec.token ~= SILENCE_OVER and rec.current == 'U' and rec.expiries >= t.expiries then",
            "  elseif false then",
        ),
        "each try of a parked step is told anew": (
            FUNCTIONS,
            "  if is_new or till == 0 then\n    add_alert",
            "  if true then\n    add_alert",
            "tests/integration/test_alerts.py Alerts.test_parked_is_told_once",
        ),
        "what fails for good while it is tried now and then is not told": (
            FUNCTIONS,
            "  if is_new or till == 0 then\n    add_alert",
            "  if is_new then\n    add_alert",
            "tests/integration/test_functions.py Functions.test_parked_for_good_while_it_was_parked",
        ),
        "what had used up its tries is sent again where its job goes on": (
            FUNCTIONS,
            "    if reason then -- its timer",
            "    if false then -- its timer",
            "tests/integration/test_functions.py Functions.test_what_kills_is_not_sent_again",
        ),
        "what is marked in a hold is not named again": (
            FUNCTIONS,
            "next_asked(job, rec) == 'A') and not overtaken(job, rec) then\n    return nil",
            "next_asked(job, rec) == 'A') then\n    return nil",
            "tests/integration/test_functions.py Functions.test_marked_in_a_hold_where_the_job_ends",
        ),
    },
    "A death counts where an agent has had the request, and nowhere else": {
        "a lease that ends is a death, whether anybody has begun or not": (
            FUNCTIONS,
            "  local counts, progress = has_evidence(job, i, rec)\n",
            "  local counts, progress = true, true\n",
        ),
        "no lease that ends is a death": (
            FUNCTIONS,
            "  local counts, progress = has_evidence(job, i, rec)\n",
            "  local counts, progress = false, false\n",
        ),
        "Progress of another dispatch is evidence": (
            FUNCTIONS,
            "  return progress and sub(progress, 1, #token + 1) == token .. ' ' and progress,",
            "  return progress,",
        ),
        "that another request has left its queue is evidence": (
            FUNCTIONS,
            " and progress, known[2] == token\n",
            " and progress, known[2]\n",
        ),
        "that a request has left its queue is no evidence": (
            FUNCTIONS,
            "  return progress or was_taken, progress\n",
            "  return progress, progress\n",
        ),
        "what nobody has begun waits no longer the next time": (
            FUNCTIONS,
            "  rec.unstarted = progress and 0 or rec.unstarted + 1\n",
            "  rec.unstarted = progress and 0 or rec.unstarted\n",
            "tests/integration/test_functions.py Functions.test_what_nobody_has_begun_does_not_count",
        ),
        "nobody hears of a silence that lasts": (
            FUNCTIONS,
            "      alert(job, i, 'SILENT', rec.asked) -- the",
            "      -- the",
            "tests/integration/test_functions.py Functions.test_what_nobody_has_begun_does_not_count",
        ),
        "a silence goes on where the actor is served": (
            "scheduler/alert.c",
            "{NO_AGENT, UNROUTABLE, SILENT, REJECTED}",
            "{NO_AGENT, UNROUTABLE, REJECTED}",
            "tests/integration/test_backlog.py Silence.test_told_once",
        ),
        "what an agent says of its lease is not heeded": (
            FUNCTIONS,
            "  local lease = now + t.lock - min(elapsed, t.lock)\n",
            "  local lease = now + t.lock\n",
            "tests/integration/test_functions.py Functions.test_what_an_agent_has_told_of_counts",
        ),
        "Progress of an agent that died ends the lease of another one": (
            FUNCTIONS,
            "    lease = max(lease, rec.till) -- a late",
            "    -- a late",
            "tests/integration/test_functions.py Functions.test_progress_of_one_that_died_takes_nothing",
        ),
        "what comes back begun is taken from its agent": (
            FUNCTIONS,
            "  if (op.kind == 'N' or op.kind == 'J') and progress_of(p, op.job, i, rec.token) then\n",
            "  if false then\n",
            "tests/integration/test_functions.py Functions.test_what_comes_back_begun_is_left_to_its_lease",
        ),
        "an agent does not say that it has begun": (
            "agent/run.c",
            "        timer_set(a, &run->beat, a->now + evidence_after(run), on_beat);\n",
            "        (void)0;\n",
            f"{AGENT} test_evidence",
        ),
        "evidence that the broker has not taken is not given again": (
            "agent/run.c",
            "    if (run && is_under_way(run) && !heap_holds(&run->beat.node))\n",
            "    if (false)\n",
            f"{AGENT} test_evidence",
        ),
        "a suspect is acknowledged before there is evidence": (
            "agent/suspects.c",
            "    if (s->token)\n        progress_of_suspect(a, s);\n    else\n        let_go(a, s);\n",
            "    if (s->token)\n        progress_of_suspect(a, s);\n    let_go(a, s);\n",
            f"{AGENT} test_evidence_of_a_suspect",
        ),
        "a suspect is done, and not answered, at the end": (
            "agent/suspects.c",
            "    if (a->draining)\n        runs_end_waiting(a);\n",
            "",
            f"{AGENT} test_suspect_while_draining",
        ),
        "a suspect that was not told of is kept at the end": (
            "agent/run.c",
            "    suspects_requeue(a);\n",
            "",
            f"{AGENT} test_a_suspect_at_the_end",
        ),
        "what was told of is given back at the end": (
            "agent/suspects.c",
            "void suspects_requeue(struct agent *a)\n{\n",
            "void suspects_requeue(struct agent *a)\n{\n"
            "    if (a->suspect && !a->suspect->delivery->acked)\n        requeue(a, take(a->suspect));\n",
            f"{AGENT} test_a_suspect_at_the_end",
        ),
        "what came too late to be begun is thrown away": (
            "agent/run.c",
            "    if (run->delivery->acked || run->delivery->repeated || is_batched(run))\n",
            "    if (true)\n",
            f"{AGENT} test_no_start_past_the_lease",
        ),
        "what comes too late goes back for ever": (
            "agent/run.c",
            "    if (run->delivery->acked || run->delivery->repeated || is_batched(run))\n",
            "    if (run->delivery->acked || is_batched(run))\n",
            f"{AGENT} test_no_start_past_the_lease",
        ),
        "a queue that nobody consumes is taken for one that was emptied": (
            "scheduler/watch.c",
            "messages == 0 && consumers > 0",
            "messages == 0",
            f"{WATCH} test_not_taken",
        ),
        "a queue with messages is taken for one that was emptied": (
            "scheduler/watch.c",
            "messages == 0 && consumers > 0",
            "consumers > 0",
            f"{WATCH} test_not_taken",
        ),
        "an inspection that was asked for before the confirm shows something": (
            "scheduler/watch.c",
            " && w->confirmed < s->inspection_began &&",
            " &&",
            f"{WATCH} test_confirmed_first",
        ),
        "an inspection that comes after the wait shows something": (
            "scheduler/watch.c",
            "           s->now < w->wait_ends;\n",
            "           true;\n",
            f"{WATCH} test_too_late",
        ),
        "an inspection of one queue shows something of another": (
            "scheduler/watch.c",
            "    return strcmp(w->actor, s->inspected) == 0 && w",
            "    return w",
            f"{WATCH} test_another_queue",
        ),
        "the first inspection counts": (
            "scheduler/watch.c",
            "            w->left_queue = messages",
            "            w->left_queue |= messages",
            f"{WATCH} test_the_last_look_counts",
        ),
        "what was seen of a broker's queues outlives the connection": (
            "scheduler/scheduler.c",
            "        intake_lost(s);\n        watch_lost(s);\n",
            "        intake_lost(s);\n",
            f"{WATCH} test_lost",
        ),
        "what is watched is never let go": (
            "scheduler/watch.c",
            "    s->n_watched--;\n",
            "",
            f"{WATCH} test_many",
        ),
    },
    "A reply names the step of its token, or none of its job": {
        "a reply that names another step counts": (
            FUNCTIONS,
            "  if op.step ~= '' and is_other_step(job.def, i, op.step) then\n",
            "  if false then\n",
            "tests/integration/test_functions.py Functions.test_a_reply_that_names_another_step",
        ),
        "a reply that names what is no step is refused": (
            FUNCTIONS,
            " and call('HGET', def.key, 'x' .. name)\n",
            "\n",
            "tests/integration/test_functions.py Functions.test_a_reply_that_names_another_step",
        ),
        "a definition of an earlier build never gets its names": (
            FUNCTIONS,
            "  if known[1] ~= FORMAT or known[2] ~= '2' then\n",
            "  if known[1] ~= FORMAT then\n",
            "tests/integration/test_functions.py Functions.test_names_of_a_definition_that_an_earlier_build_has_stored",
        ),
        "a reply is refused where no step has a name": (
            FUNCTIONS,
            "  return own ~= '' and own ~= name",
            "  return own ~= name",
            "tests/integration/test_functions.py Functions.test_a_reply_of_a_job_whose_steps_have_no_names",
        ),
        "a scheduler does not say which step a reply names": (
            "scheduler/on_replies.c",
            "    op->record.step = m->step;\n",
            "",
            "tests/integration/test_behaviours.py Behaviours.test_reply_mixed_up",
        ),
    },
    "What an agent has rejected was not waited for": {
        "what was rejected is taken for what nobody took": (
            "scheduler/on_expired.c",
            "strcmp(d->died_of, \"expired\") == 0 ? OP_UNSTARTED",
            "true ? OP_UNSTARTED",
            "tests/integration/test_behaviours.py Behaviours.test_rejected_request",
        ),
        "what was rejected is sent again at once": (
            FUNCTIONS,
            "  local thrown = op.kind == 'J' or begun and",
            "  local thrown = begun and",
            "tests/integration/test_functions.py Functions.test_what_an_agent_has_rejected",
        ),
    },
    "What has waited in a scheduler is sent where it is wanted still": {
        "what has waited here is sent without a question": (
            "common/io/bus_publisher.c",
            "    if (m->message.ask_after && now >= m->message.ask_after && !m->sent) {\n",
            "    if (false) {\n",
            f"{BUS} test_ask_after",
        ),
        "what has waited is sent, whatever its job wants": (
            FUNCTIONS,
            "      if can_dispatch(job) and not overtaken(job, rec) and wait > 0 then\n        job.dispatched",
            "      if wait > 0 then\n        job.dispatched",
            f"{DISPATCH} test_waited_and_cancelled",
        ),
        "what has waited is lost": (
            "scheduler/scheduler.c",
            "    } else if (outcome == BUS_WAITED && part->token[0]) {",
            "    } else if (false) {",
            f"{DISPATCH} test_waited_and_wanted",
        ),
        "a call that is carried out once more withdraws what was sent since": (
            FUNCTIONS,
            "      elseif not copied and not late then\n",
            "      elseif not copied then\n",
            "tests/integration/test_functions.py Functions.test_a_question_about_what_waited_comes_late",
        ),
        "a call that is carried out late takes the place of a later one": (
            FUNCTIONS,
            " .. (late and by or a[4]))",
            " .. a[4])",
            "tests/integration/test_functions.py Functions.test_a_question_about_what_waited_comes_late",
        ),
        "what has waited beyond the budget of a call is left to its lease": (
            FUNCTIONS,
            "  for k = 5, #a do\n    local i = tonumber(match(a[k], '^(%d+)%.[%w_-]+$'))\n    local text = i and i < job.n and",
            "  for k = 5, min(#a, 4 + BUDGET) do\n    local i = tonumber(match(a[k], '^(%d+)%.[%w_-]+$'))\n    local text = i and i < job.n and",
            FUNCTIONS_TEST + "test_more_has_waited_than_a_call_mints",
        ),
        "what has waited twice is left to its lease": (
            FUNCTIONS,
            "tonumber(by) >= tonumber(a[4])",
            "true",
            "tests/integration/test_functions.py Functions.test_what_has_waited_twice",
        ),
        "a copy that has waited is lost": (
            "scheduler/scheduler.c",
            "    } else if (outcome == BUS_WAITED && part->token[0]) {",
            "    } else if (outcome == BUS_WAITED && part->token[0] && !part->again) {",
            f"{DISPATCH} test_a_copy_has_waited",
        ),
        "a request of which another copy was sent is withdrawn as unsent": (
            FUNCTIONS,
            "      elseif not copied and not late then\n",
            "      elseif not late then\n",
            "tests/integration/test_functions.py Functions.test_what_waits_where_another_copy_was_sent",
        ),
    },
    "A damaged job stops nobody else, and can be ended": {
        "a counter of what is owed that is no number stops its job for ever": (
            FUNCTIONS,
            "  count_up(job.key, 'owes', 1)\n",
            "  call('HINCRBY', job.key, 'owes', 1)\n",
            "tests/integration/test_functions.py Functions.test_what_is_owed_cannot_be_counted",
        ),
        "one damaged notice stops all others": (
            FUNCTIONS,
            "      local counted, tries = try_job(call, 'HINCRBY', p .. 'data:' .. id, 'n' .. seq, 1)\n",
            "      local counted, tries = true, call('HINCRBY', p .. 'data:' .. id, 'n' .. seq, 1)\n",
            "tests/integration/test_functions.py Functions.test_a_damaged_notice_is_told",
        ),
        "what cannot be told stops all else": (
            FUNCTIONS,
            "    local good, owed = try_job(has_notification, p, id or '', seq or '')\n",
            "    local good, owed = true, has_notification(p, id, seq)\n",
            "tests/integration/test_functions.py Functions.test_a_damaged_notice_is_told",
        ),
        "damaged answers to commands refuse all commands": (
            FUNCTIONS,
            "    if not len then\n      break -- damaged: the rest is forgotten\n    end\n",
            "",
            "tests/integration/test_functions.py Functions.test_torn_in_any_way",
        ),
        "a notice whose tries were damaged is told for ever": (
            FUNCTIONS,
            "    tries = NOTIFICATION_TRIES - 1 -- also",
            "    tries = 0 -- also",
            "tests/integration/test_functions.py Functions.test_a_damaged_notice_is_told",
        ),
        "what a torn job has to tell cannot be read": (
            FUNCTIONS,
            "unpack(ended[1] and ended or",
            "unpack(true and ended or",
            "tests/integration/test_functions.py Functions.test_what_is_owed_cannot_be_read",
        ),
        "naming that is cut off has a definition forgotten that is used": (
            FUNCTIONS,
            "    if (tonumber(call('HGET', p .. 'def:' .. digest, 'refs') or '') or 0) == 0 then\n",
            "    if true then\n",
            "tests/integration/test_functions.py Functions.test_naming_that_is_cut_off",
        ),
        "a turn below 1 is taken for one": (
            FUNCTIONS,
            " and job.turn > 0 and job.turn < MOST_TURNS",
            "",
            "tests/integration/test_functions.py Functions.test_torn_in_any_way",
        ),
        "nobody is told of a torn job": (
            "supervisor/supervisor.c",
            "        if (!s->config.dry_run)\n            notify_torn(s, job);\n",
            "",
            "tests/integration/test_supervisors.py Supervisors.test_torn",
        ),
        "a person is told with each sweep": (
            "scheduler/alert.c",
            ".reason = TORN, .what = OPS_CAUSE_ASK};\n",
            ".reason = TORN, .what = OPS_CAUSE_ASK};\n    alert_publish(s, op);\n",
            "tests/integration/test_supervisors.py Supervisors.test_torn",
        ),
        "supervisors may not count how often they ask for a notice": (
            "deploy/redis/users.acl",
            "(-@all +hincrby +hmget +unlink",
            "(-@all +hmget +unlink",
            "tests/integration/test_permissions.py Permissions.test_store_denials",
        ),
    },
    "A message over which the broker ends the connection is refused": {
        "it is sent for ever": (
            "common/io/bus_publisher.c",
            "    if (!channel && !p->link.closed_over)\n",
            "    if (!channel)\n",
            f"{BUS} test_address_that_closes",
        ),
        "it costs all that was sent beside it": (
            "common/io/bus_publisher.c",
            "    if (p->n_wire != 1)\n        return;\n    if (!channel &&",
            "    while (channel && p->n_wire > 1)\n        refuse(p, first(&p->wire));\n    m = first(&p->wire);\n"
            "    if (!channel &&",
            f"{BUS} test_missing_exchange",
        ),
        "the next one to there costs as much": (
            "common/io/bus_direct.c",
            "        add(&d->shunned, SHUNNED_MAX, NODE, node, now + SHUNNED_MS);\n"
            "    add(&d->shunned, SHUNNED_MAX, SENDER, sender_of(m), now + SHUNNED_MS);\n",
            "        ;\n",
            f"{BUS} test_address_that_closes",
        ),
        "its sender may invent the next one": (
            "common/io/bus_direct.c",
            "    return find(&d->shunned, SENDER, sender_of(m)) || find",
            "    return find",
            f"{BUS} test_addresses_that_are_invented",
        ),
        "one sender's address costs those of others": (
            "common/io/bus_direct.c",
            'bytes_str(sender && *sender ? sender : m->message.key)',
            'bytes_str(sender && *sender ? "all" : m->message.key)',
            f"{BUS} test_addresses_that_are_invented",
        ),
        "a made-up address of direct reply-to is believed": (
            "common/model/reply_to.c",
            "    return reply_to_is_direct(reply_to) ? direct_read(&p, reply_to)\n",
            "    return reply_to_is_direct(reply_to) ? (void)p, strlen(reply_to) <= WIRE_REPLY_TO_MAX\n",
            f"{WIRE} test_reply_to",
        ),
        "a process may have more behind it": (
            "common/model/reply_to.c",
            "2 + atom + rest == len",
            "2 + atom + rest <= len",
            f"{WIRE} test_reply_to",
        ),
        "direct reply-to may stand in the field": (
            "common/model/wire.c",
            "        return reply_to_field_valid(*field);\n",
            "        return reply_to_property_valid(*field);\n",
            "tests/integration/test_bad_input.py BadInput.test_direct_reply_to_that_is_made_up",
        ),
    },
    "Whoever has submitted a job hears its end": {
        "only the last one hears it": (
            "scheduler/notification.c",
            "op->publishes_earlier && i < job->n_earlier",
            "false",
            f"{TOLD} test_all_submitters_are_told",
        ),
        "those before hear it with each try": (
            "scheduler/notification.c",
            "op->returned ? OPS_CAUSE_TOLD : OPS_CAUSE_OVER",
            "OPS_CAUSE_OVER",
            f"{TOLD} test_the_last_submitter_is_gone",
        ),
        "those before do not hear it where a scheduler has died over it": (
            "scheduler/notification.c",
            "cause, what, EARLIER_NONCE);",
            "cause, what, op->nonce);",
            f"{TOLD} test_submitters_of_a_scheduler_that_dies",
        ),
        "one before whose queue is gone is waited for": (
            "scheduler/scheduler.c",
            "        op->returned |= !part->optional;\n",
            "        op->returned = true;\n",
            f"{TOLD} test_an_earlier_submitter_is_gone",
        ),
        "whoever asks again from one place is told twice": (
            FUNCTIONS,
            "    if list[k] ~= '' and not same and",
            "    if list[k] ~= '' and",
            f"{TOLD} test_all_submitters_are_told",
        ),
        "no end of addresses is kept": (
            FUNCTIONS,
            " and #earlier < EARLIER_KEPT then",
            " then",
            f"{TOLD} test_some_submitters_are_told",
        ),
        "another correlation is no other place": (
            FUNCTIONS,
            "  if list[1] == reply_to and list[2] == correlation then",
            "  if list[1] == reply_to then",
            f"{TOLD} test_all_submitters_are_told",
        ),
    },
    "Where nobody takes a request it waits twice as long, uncounted": {
        "the wait for an agent is not doubled": (
            FUNCTIONS,
            "min(t.wait * 2 ^ rec.unstarted, WAIT_CAP)",
            "min(t.wait, WAIT_CAP)",
        ),
        "a request that nobody took counts as a failure": (
            FUNCTIONS,
            "  rec.unstarted = rec.unstarted + 1\n  local begun",
            "  rec.unstarted = rec.unstarted + 1\n  rec.failures = rec.failures + 1\n  local begun",
        ),
    },
    "complete_by bounds forward work, and on_deadline says what becomes of the job": {
        "a Submit that comes too late is begun": (
            FUNCTIONS,
            "  elseif a[10] ~= '0' and tonumber(a[10]) <= now and not is_quiet(p, now) then",
            "  elseif false then",
            "tests/integration/test_turns.py Turns.test_submitted_too_late",
        ),
        "a deadline is forgotten": (
            FUNCTIONS,
            "  return job.complete_by > 0 and job.now >= job.complete_by and not job.late and job.desired",
            "  return false and job.desired",
        ),
        "nobody looks at a job when its deadline passes": (
            FUNCTIONS,
            "  if at > job.now and job.desired == 'A' then\n    lower_due(job, at)",
            "  if false then\n    lower_due(job, at)",
        ),
        "a deadline takes the place of a pause": (
            FUNCTIONS,
            "    if job.hold == '' then -- a person's",
            "    if true then -- a person's",
            "tests/integration/test_functions.py Functions.test_deadline_of_what_is_paused",
        ),
        "what on_deadline says is not heeded": (
            FUNCTIONS,
            "  if recourse == 'C' then\n    turn(job, 'D', 'FAILURE', 'DEADLINE')",
            "  if false then\n    turn(job, 'D', 'FAILURE', 'DEADLINE')",
        ),
        "a deadline strikes on the way back": (
            FUNCTIONS,
            "job.now >= job.complete_by and not job.late and job.desired == 'A'\n",
            "job.now >= job.complete_by and not job.late\n",
        ),
        "a job that is retried forgets its deadline": (
            FUNCTIONS,
            "    reopen(job)\n    apply_deadline(job)\n",
            "    reopen(job)\n",
            "tests/integration/test_turns.py Turns.test_deadline_after_a_retry",
        ),
    },
    "A timer strikes in its time, and whoever looks after it knows when": {
        "an earlier moment does not lower the bound": (
            FUNCTIONS,
            "  if t < job.due then\n    job.due = t",
            "  if t < job.due then\n    job.due = job.due",
        ),
        "a job that is brought forward again does not wait for its time": (
            FUNCTIONS,
            "  elseif to == 'A' and job.start_at > job.now and not job.started then",
            "  elseif false then",
            "tests/integration/test_functions.py Functions.test_turned_before_its_time",
        ),
        "a lease counts as past a moment early": (
            FUNCTIONS,
            "    if till > job.now then\n      return till\n",
            "    if till > job.now + 300 then\n      return till\n",
        ),
        "a sweep does not mend a join": (
            FUNCTIONS,
            "      if waits and (at.missing ~= rec.waiting or at.missing == 0) then\n",
            "      if false then\n",
            f"{SUPERVISOR} test_a_wide_join_is_mended",
        ),
    },
    "A do begins after all its dependencies, an undo after all its dependents, and waits for no others": {
        "a completion counts twice at joins": (
            FUNCTIONS,
            "  job.open = job.open - 1\n  spread_from(job, i)\n",
            "  job.open = job.open - 1\n  spread_from(job, i) spread_from(job, i)\n",
        ),
        "an undo does not wait for the dependents": (
            FUNCTIONS,
            "  return job.desired == 'A' and step.n_after or step.n_dependents\nend",
            "  return job.desired == 'A' and step.n_after or min(step.n_dependents, 1)\nend",
        ),
        "a step in flight counts as undone": (
            FUNCTIONS,
            "  if rec.state ~= 'W' then\n    return false\n  elseif rec.failures",
            "  if rec.state == 'R' and rec.current == 'D' then\n"
            "    return job.desired == 'D'\n"
            "  elseif rec.failures",
        ),
        "an undo waits for all that is in flight": (
            FUNCTIONS,
            "  if rec.current ~= job.desired and rec.waiting == 0 and can_dispatch(job) then\n    if not",
            "  if rec.current ~= job.desired and rec.waiting == 0 and can_dispatch(job) and (job.desired == 'A' or job.busy == 0) then\n"
            "    if not",
        ),
    },
    "A flip touches no flight, and nothing new goes forward": {
        "a forward step begins after the turn": (
            FUNCTIONS,
            "  return job.ending ~= '' or rec.asked == 'A' and (job.desired == 'D' or rec.turn < job.since)\n",
            "  return job.ending ~= ''\n",
        ),
        "timers of the way that was left strike": (
            FUNCTIONS,
            "    if turned and rec.state ~= 'R' then\n",
            "    if false then\n",
        ),
        "a flip withdraws what is in flight": (
            FUNCTIONS,
            "    if turned and rec.state ~= 'R' then\n      set_state(job, i, rec, 'W', 0)",
            "    if turned then\n      set_state(job, i, rec, 'W', 0)",
        ),
    },
    "An undo once sent is driven to its end before the step goes forward again": {
        "an undo in flight is forgotten when the job turns again": (
            FUNCTIONS,
            "rec.current == 'U' and (rec.asked == 'D' or rec.turn < job.since) then",
            "rec.current == 'U' and rec.turn < job.since and rec.asked == 'A' then",
        ),
        "a try of an undo has a key of its own": (
            FUNCTIONS,
            "    or rec.current == 'U' and (asked == 'D' or rec.turn >= job.since))",
            "    or rec.current == 'U' and asked == 'A' and rec.turn >= job.since)",
        ),
    },
    "What failed is tried again as it is: nothing is undone on the way forward but what an earlier turn may have done": {
        "what failed is undone before it is tried again": (
            FUNCTIONS,
            "    dispatch(job, i, rec, next_asked(job, rec), nonce)\n  end\nend\n\n-- A step has come",
            "    local back = rec.current == 'U' and step_of(job.def, i).has_revert\n"
            "    dispatch(job, i, rec, back and 'D' or next_asked(job, rec), nonce)\n  end\nend\n\n-- A step has come",
        ),
    },
    "Each turn has keys of its own, the tries of one piece of work the same": {
        "a turn keeps the old key": (
            FUNCTIONS,
            "    rec.turn = (asked == 'D' and job.desired == 'A') and job.since - 1 or job.turn\n",
            "    rec.turn = max(rec.turn, 1)\n",
        ),
        "new arguments keep the old key": (
            FUNCTIONS,
            "  if how ~= 't' then\n    set(job, 'turn', job.turn + 1)\n",
            "  if false then\n    set(job, 'turn', job.turn + 1)\n",
            "tests/integration/test_functions.py Functions.test_what_an_undo_takes_back",
        ),
    },
    "An undo goes by its own actor, arguments, lock and policy": {
        "an undo goes by the terms of the do": (
            FUNCTIONS,
            "  if asked == 'A' then\n    return step.forward\n",
            "  if true then\n    return step.forward\n",
        ),
        "an undo goes to the actor of the do": (
            "scheduler/transition.c",
            "    const struct workflow_dispatch *d = r->active ? &step->forward : &step->revert;\n"
            "\n"
            "    m->job_id",
            "    const struct workflow_dispatch *d = &step->forward;\n\n    m->job_id",
        ),
        "an undo with arguments of its own gets those of the do": (
            "scheduler/transition.c",
            "    const struct workflow_dispatch *d = r->active ? &step->forward : &step->revert;\n"
            "    Drover__V1__StepRequest m",
            "    const struct workflow_dispatch *d = &step->forward;\n    Drover__V1__StepRequest m",
            "tests/integration/test_turns.py Turns.test_revert_has_its_own",
        ),
    },
    "An undo is told what the do was given, what it gave, and its key": {
        "the undo is told another key than the do had": (
            FUNCTIONS,
            "  if asked == 'A' then\n    rec.forward = rec.turn",
            "  if asked == 'A' then\n    rec.forward = job.since",
            "tests/integration/test_functions.py Functions.test_what_an_undo_takes_back",
        ),
        "an undo carries the key of another turn": (
            "scheduler/transition.c",
            "key_of(s, op, step, r->forward_turn);",
            "key_of(s, op, step, r->forward_turn + 1);",
        ),
        "an undo is not told what the do gave": (
            "scheduler/transition.c",
            "    if (found >= 0)\n        m->forward_result",
            "    if (false)\n        m->forward_result",
            "tests/integration/test_behaviours.py Behaviours.test_forward_result_reaches_undo",
        ),
        "what an earlier turn gave is told as the do's": (
            FUNCTIONS,
            "  elseif old > 0 then\n    call('HDEL', data, field)\n",
            "  elseif false then\n",
            "tests/integration/test_turns.py Turns.test_results_are_those_of_their_turn",
        ),
    },
    "What nothing takes back is passed over": {
        "a step without a way back keeps the job from going back": (
            FUNCTIONS,
            "  if next_asked(job, rec) == 'A' or step_of(job.def, i).has_revert then",
            "  if true then",
        ),
    },
    "Each turn has one outcome, the right one, and whoever asked hears it": {
        "a settled job owes no notice": (
            FUNCTIONS,
            "  call('ZADD', job.p .. 'owed', int(job.now + NAMED_AGAIN), job.id .. ' ' .. job.seq)\n",
            "",
        ),
        "a notice tells of the turn that came after": (
            FUNCTIONS,
            "  local ended = {match(d[9], '^(%S+) (%S+) (%d+) (%d+) (%d+) (%S*) ?([%d ]*)$')}\n",
            "  local ended = {call('HGET', p .. 'job:' .. a[2], 'outcome'), 'ERROR', '1', '1', '0', '',\n"
            "    call('HGET', p .. 'job:' .. a[2], 'failed') or ''}\n",
            "tests/integration/test_functions.py Functions.test_notice_of_a_turn_that_is_past",
        ),
        "a notice that is not known is settled": (
            "scheduler/notification.c",
            "        return; /* forgotten, or not in the outbox: nothing to publish */\n",
            "        op_call(s, op, settle_call, settle_answered);\n        return;\n",
            f"{ROLLBACK} test_unknown_notices_are_left",
        ),
        "a job is forgotten once its last outcome is told": (
            FUNCTIONS,
            "  return (tonumber(job[1] or '0') or 0) > 0 or call(",
            "  return call(",
            "tests/integration/test_functions.py Functions.test_forgotten_once_all_is_told",
        ),
        "a job that an earlier build has settled is forgotten before that is told": (
            FUNCTIONS,
            "(job[1] or '0') or 0) > 0 or call('ZSCORE', p .. 'owed', id .. ' ' .. (job[2] or ''))\n",
            "(job[1] or '0') or 0) > 0\n",
            "tests/integration/test_functions.py Functions.test_forgotten_once_told_though_not_counted",
        ),
        "a job that was cancelled ends as one that was taken back": (
            FUNCTIONS,
            "    elseif job.cause == 'CANCELLED' then\n",
            "    elseif false then\n",
        ),
        "a cancel on the way back turns the job once more": (
            FUNCTIONS,
            "  if job.desired == to then\n",
            "  if job.desired == to and cause ~= 'CANCELLED' then\n",
        ),
        "a cancel before the first dispatch leaves the steps open": (
            FUNCTIONS,
            "    job.open, job.spreads = 0, {} -- nothing was begun\n",
            "    job.spreads = {}\n",
            "tests/integration/test_functions.py Functions.test_turned_before_its_time",
        ),
    },
    "What may have begun is not migrated to something else": {
        "a dispatch that was silent did not begin": (
            FUNCTIONS,
            "  call('HSET', job.key, 'b' .. i, '1')\nend\n",
            "end\n",
            "tests/integration/test_functions.py Functions.test_migrate_what_was_silent",
        ),
        "what has left its queue is with nobody": (
            FUNCTIONS,
            "flies and (progress or was_taken)\n",
            "flies and progress\n",
            "tests/integration/test_functions.py Functions.test_migrate_what_was_silent",
        ),
        "a Progress after the lease is evidence": (
            FUNCTIONS,
            "  if not known and elapsed >= t.lock then\n",
            "  if false then\n",
            "tests/integration/test_functions.py Functions.test_told_too_late",
        ),
        "what was rejected did not begin": (
            FUNCTIONS,
            "  if op.kind == 'J' then\n",
            "  if false then\n",
            "tests/integration/test_functions.py Functions.test_migrate_what_was_silent",
        ),
        "what is rejected after a Progress is taken for unbegun": (
            FUNCTIONS,
            "  if (op.kind == 'N' or op.kind == 'J') and progress_of(",
            "  if op.kind == 'N' and progress_of(",
            "tests/integration/test_functions.py Functions.test_rejected_after_it_was_begun",
        ),
        "a death that a queue has shown does not double the wait": (
            FUNCTIONS,
            "progress and 0 or rec.unstarted + 1\n",
            "counts and 0 or rec.unstarted + 1\n",
            "tests/integration/test_functions.py Functions.test_the_wait_after_deaths",
        ),
        "an actor without agents keeps others from being watched": (
            "scheduler/watch.c",
            "        if (w->wait_ends >= last->wait_ends) {\n",
            "        if (true) {\n",
            f"{WATCH} test_many_that_wait_long",
        ),
    },
    "Named actors get their requests in JSON": {
        "a request that is too large in JSON is sent": (
            "scheduler/dispatch.c",
            "    if (packed.len == 0) {",
            "    if (false) {",
            f"{DISPATCH} test_too_large_in_json",
        ),
        "an actor gets JSON that has only the beginning of such a name": (
            "common/base/str.c",
            "        if (n == len && memcmp(words, word, len) == 0)",
            "        if (n >= len && memcmp(words, word, len) == 0)",
            "tests/integration/test_json_agent.py JsonAgent.test_without_protobuf",
        ),
    },
    "A job that cannot be read stops no other, and can be killed": {
        "a torn job stops the expiry of others": (
            FUNCTIONS,
            "try_job(expire_job, p, id, now, hold, clock, jobs)\n",
            "true, expire_job(p, id, now, hold, clock, jobs)\n",
            "tests/integration/test_functions.py Functions.test_torn_jobs",
        ),
        "a torn job stops the sweep": (
            FUNCTIONS,
            "try_job(sweep_one, p, id, now, at, places)\n",
            "true, sweep_one(p, id, now, at, places)\n",
            "tests/integration/test_functions.py Functions.test_torn_jobs",
        ),
        "a torn job cannot be killed": (
            FUNCTIONS,
            "    make_readable(p, a[1], now)\n",
            "",
            "tests/integration/test_functions.py Functions.test_torn_jobs",
        ),
        "a record of a step that says nothing is read": (
            FUNCTIONS,
            "  if not current then\n",
            "  if false then\n",
            "tests/integration/test_functions.py Functions.test_torn_jobs",
        ),
    },
    "What indexes and counters say wrongly is mended": {
        "a sweep trusts how many steps are open": (
            FUNCTIONS,
            "  if at.open ~= job.open then\n",
            "  if false then\n",
            "tests/integration/test_functions.py Functions.test_counters_that_are_wrong",
        ),
        "a sweep trusts how many steps are under way": (
            FUNCTIONS,
            "  if at.busy ~= job.busy then\n",
            "  if false then\n",
            "tests/integration/test_functions.py Functions.test_counters_that_are_wrong",
        ),
        "a sweep trusts how many steps are stuck": (
            FUNCTIONS,
            "  if at.stuck_do ~= job.stuck_do or at.stuck_undo ~= job.stuck_undo then\n",
            "  if false then\n",
            "tests/integration/test_functions.py Functions.test_what_is_stuck_is_counted_again",
        ),
        "a sweep counts on though its job has changed": (
            FUNCTIONS,
            "    at.counts = at.step == 0 and at.edge == 0 -- else the next round counts\n",
            "",
            "tests/integration/test_functions.py Functions.test_a_count_across_calls",
        ),
        "a sweep does not count the steps of a job that is held": (
            FUNCTIONS,
            "  if job.phase == 'PROCESSING' and #job.spreads == 0 then\n    sweep_steps",
            "  if can_dispatch(job) and #job.spreads == 0 then\n    sweep_steps",
            "tests/integration/test_functions.py Functions.test_what_is_stuck_is_counted_again",
        ),
        "a job whose counters were mended at its end is not driven": (
            FUNCTIONS,
            " or should_settle(job)\n",
            "\n",
            "tests/integration/test_functions.py Functions.test_a_job_that_counts_a_step_too_many",
        ),
        "a sweep leaves a step that waits for nothing": (
            FUNCTIONS,
            "          set_state(job, i, rec, 'M', job.now)\n",
            "",
            "tests/integration/test_functions.py Functions.test_a_step_that_waits_for_nothing",
        ),
        "a sweep goes by rank": (
            FUNCTIONS,
            "  return at.job and call('ZCOUNT', p .. 'open', '-inf', '(' .. at.created) or 0\n",
            "  return at.job and 1 or 0\n",
            "tests/integration/test_functions.py Functions.test_a_sweep_while_jobs_end",
        ),
        "a sweep passes over what was created in the same moment": (
            FUNCTIONS,
            "call('ZCOUNT', p .. 'open', '-inf', '(' .. at.created)",
            "call('ZCOUNT', p .. 'open', '-inf', at.created)",
            "tests/integration/test_functions.py Functions.test_a_sweep_while_jobs_end",
        ),
        "a sweep ends with a step back of the clock that came after it began": (
            FUNCTIONS,
            "    clock.swept = at.back\n",
            "    clock.swept = clock.back\n",
            "tests/integration/test_functions.py Functions.test_a_clock_that_steps_back_in_a_sweep",
        ),
        "a sweep counts on over a step that has come to rest": (
            FUNCTIONS,
            "  if at.seq ~= job.seq or at.had_busy ~= job.busy then\n",
            "  if at.seq ~= job.seq then\n",
            "tests/integration/test_functions.py Functions.test_a_count_while_a_step_comes_to_rest",
        ),
        "a sweep trusts the index of what is due": (
            FUNCTIONS,
            "  local wrong = not score or tonumber(score) > job.due or job.due > latest\n",
            "  local wrong = job.due > latest\n",
            "tests/integration/test_functions.py Functions.test_a_job_that_is_not_looked_at_in_time",
        ),
        "a notice of a job that is gone stays owed": (
            FUNCTIONS,
            "      call('ZREM', p .. 'owed', member)\n",
            "",
            "tests/integration/test_functions.py Functions.test_indexes_that_name_what_is_not_there",
        ),
    },
    "Input and results of a job take 64 MiB at most": {
        "a result may be too much": (
            FUNCTIONS,
            "  if rec.asked == 'A' and job.bytes + #op.result > DATA_MAX then\n",
            "  if false then\n",
            "tests/integration/test_functions.py Functions.test_no_room_for_more_data",
        ),
        "what a person adds may be too much": (
            FUNCTIONS,
            "  elseif job.bytes + #result > DATA_MAX then\n",
            "  elseif false then\n",
            "tests/integration/test_functions.py Functions.test_no_room_for_more_data",
        ),
    },
    "A job is tried as often as tries says, and not after a person took it back": {
        "a paused job is tried again": (
            FUNCTIONS,
            "      elseif job.hold == '' then\n        try_again(job, tried)",
            "      else\n        try_again(job, tried)",
            "tests/integration/test_functions.py Functions.test_a_paused_job_is_not_tried_again",
        ),
        "a tried job is tried for ever": (
            FUNCTIONS,
            "  local at = tried < tries and not job.late",
            "  local at = not job.late",
        ),
        "a job is not tried again": (
            FUNCTIONS,
            "job.cause == 'FAILURE' and at then",
            "job.cause == 'FAILURE' and false then",
            "tests/integration/test_functions.py Functions.test_tries_of_a_job",
        ),
        "a job that a person takes back tries again by itself": (
            FUNCTIONS,
            "      call('HSET', job.key, 'tried', int(TRIES_MAX)) -- no other run by itself\n",
            "",
            "tests/integration/test_turns.py Turns.test_cancelled_while_compensating",
        ),
    },
    "COMPENSATION_FAILED when undo can go no further anywhere: it names the steps, and ACTIVE is refused": {
        "a job gives up while another undo can go on": (
            FUNCTIONS,
            "  elseif idle and #job.spreads == 0 and job.hold == '' and job.stuck_undo > 0 then",
            "  elseif #job.spreads == 0 and job.hold == '' and job.stuck_undo > 0 then",
            "tests/integration/test_functions.py Functions.test_compensation_failed",
        ),
        "a job that could not be undone names no step": (
            FUNCTIONS,
            "  add_notification(job, outcome, reason, job.failed)\n",
            "  add_notification(job, outcome, reason, '')\n",
        ),
        "a job whose undo has failed goes forward again": (
            FUNCTIONS,
            "  elseif to == 'A' and job.outcome == 'COMPENSATION_FAILED' then\n",
            "  elseif false then\n",
            "tests/integration/test_functions.py Functions.test_compensation_failed",
        ),
        "COMPENSATION_FAILED does not name its steps": (
            FUNCTIONS,
            "    set(job, 'failed', job.failed == '' and int(i) or job.failed .. ' ' .. int(i))\n",
            "    set(job, 'failed', '')\n",
            "tests/integration/test_turns.py Turns.test_compensation_failed",
        ),
    },
    "A command is carried out once, by its command_id": {
        "a command that comes again is carried out again": (
            FUNCTIONS,
            "    if known.id == id then\n",
            "    if false then\n",
            "tests/integration/test_functions.py Functions.test_command_again",
        ),
        "the command_id of another command is answered with that one's answer": (
            FUNCTIONS,
            "  if known and known.command ~= command.name then\n",
            "  if false then\n",
            "tests/integration/test_turns.py Turns.test_command_again",
        ),
    },
    "A command heeds if_seq and when it was issued; Retry has an order of its own": {
        "a refused command overtakes others": (
            FUNCTIONS,
            "    if code == 'DONE' or code == 'UNCHANGED' then\n",
            "    if true then\n",
            "tests/integration/test_functions.py Functions.test_refused_commands_overtake_nothing",
        ),
        "a sender whose clock is ahead shuts the others out": (
            FUNCTIONS,
            "int(min(tonumber(command.issued_at), job.now + CLOCK_AHEAD))",
            "command.issued_at",
            "tests/integration/test_functions.py Functions.test_a_clock_that_is_ahead",
        ),
        "a command does not heed if_seq": (
            FUNCTIONS,
            "  elseif command.if_seq ~= '0' and tonumber(command.if_seq) ~= job.seq then",
            "  elseif false then",
        ),
        "an overtaken command is carried out": (
            FUNCTIONS,
            "  return order and command.issued_at ~= '0'",
            "  return false and command.issued_at ~= '0'",
            "tests/integration/test_functions.py Functions.test_orders_of_commands",
        ),
        "a Retry that overtakes swallows a Cancel": (
            FUNCTIONS,
            "retry = 'retried', ",
            "retry = 'ordered', ",
            "tests/integration/test_functions.py Functions.test_orders_of_commands",
        ),
    },
    "Who gave a command, and why, is kept": {
        "a command leaves no trace in the history": (
            FUNCTIONS,
            "  add_history(job, 'command', command.name, command.id ~= '' and command.id or '-', command.said)\n",
            "",
            "tests/integration/test_why.py Why.test_held",
        ),
    },
    "Pause: replies are recorded, nothing is sent, until Resume": {
        "a job held past its time cannot be paused": (
            FUNCTIONS,
            "  elseif job.hold == 'paused' then\n",
            "  elseif job.hold ~= '' then\n",
            "tests/integration/test_functions.py Functions.test_paused_past_its_time",
        ),
        "what comes before a step is not known while the job is held": (
            FUNCTIONS,
            "and (work.from ~= 't' or job.ending == ''))",
            "and work.from ~= 't')",
            "tests/integration/test_functions.py Functions.test_resolve_in_a_paused_job_that_turned",
        ),
        "a held job sends": (
            FUNCTIONS,
            "  return job.phase == 'PROCESSING' and job.hold == '' and job.ending == ''\n",
            "  return job.phase == 'PROCESSING' and job.ending == ''\n",
        ),
        "a resumed job forgets what waited": (
            FUNCTIONS,
            "  add_history(job, 'resumed')\n  if job.phase == 'PROCESSING' then\n",
            "  add_history(job, 'resumed')\n  if job.phase == 'NEVER' then\n",
        ),
        "what nothing holds is resumed": (
            FUNCTIONS,
            "  elseif job.hold == '' then\n    return 'UNCHANGED'\n  end\n  set(",
            "  end\n  set(",
        ),
        "a paused job takes no answers": (
            FUNCTIONS,
            "rec.token ~= op.token or rec.state == 'R' and finished(job) then",
            "rec.token ~= op.token or rec.state == 'R' and (finished(job) or job.hold == 'paused') then",
            "tests/integration/test_turns.py Turns.test_pause",
        ),
    },
    "Retry: failed and parked steps begin anew, never one in flight; with other arguments none that may have taken effect": {
        "a retry of all adds nothing to one that is under way": (
            FUNCTIONS,
            "  if not last or last.from ~= kind or last.offset > 0 then\n",
            "  if not last or last.from ~= kind then\n",
            "tests/integration/test_functions.py Functions.test_retry_all_once_more",
        ),
        "a retry of a step leaves its counters": (
            FUNCTIONS,
            "  remove_parked(job, i)\n  reset_counts(rec)\n",
            "  remove_parked(job, i)\n",
            "tests/integration/test_functions.py Functions.test_retry_of_one_begins_it_anew",
        ),
        "a retry of all leaves the counters": (
            FUNCTIONS,
            "      reset_counts(rec)\n      set_state(job, i, rec, 'W', 0)\n",
            "      set_state(job, i, rec, 'W', 0)\n",
            "tests/integration/test_functions.py Functions.test_retry_all_of_what_the_end_laid_down",
        ),
        "a retry of all leaves the counters of what is due before it has come by": (
            FUNCTIONS,
            "  elseif retry_ahead(job, i) and retry_applies(job, i, rec) then\n",
            "  elseif false then\n",
            "tests/integration/test_functions.py Functions.test_retry_all_before_its_walk_has_come_by",
        ),
        "a retry of all begins anew what has tries left": (
            FUNCTIONS,
            "  elseif retry_ahead(job, i) and retry_applies(job, i, rec) then\n",
            "  elseif retry_ahead(job, i) then\n",
            "tests/integration/test_functions.py Functions.test_retry_all_before_its_walk_has_come_by",
        ),
        "a retry of all that comes to a step next is taken to have passed it": (
            FUNCTIONS,
            "work.from == 'y' and work.offset <= i then",
            "work.from == 'y' and work.offset < i then",
            "tests/integration/test_functions.py Functions.test_retry_all_before_its_walk_has_come_by",
        ),
        "a retry of all leaves the counters of what was parked when the job ended": (
            FUNCTIONS,
            "  elseif rec.state == 'R' or rec.current == job.desired or rec.failures + rec.expiries == 0 then",
            "  elseif rec.state ~= 'M' then",
            "tests/integration/test_functions.py Functions.test_retry_all_of_what_the_end_laid_down",
        ),
        "a retry of all leaves the counters of what had failed for good when the job ended": (
            FUNCTIONS,
            "  elseif rec.state == 'W' then\n    return has_tried(job, rec)\n",
            "",
            "tests/integration/test_functions.py Functions.test_retry_all_of_what_failed_for_good_and_the_end_laid_down",
        ),
        "a retry of all passes over what is marked": (
            FUNCTIONS,
            "  elseif rec.state == 'R' or rec.current == job.desired or rec.failures + rec.expiries == 0 then",
            "  elseif rec.state ~= 'W' or rec.current == job.desired or rec.failures + rec.expiries == 0 then",
            "tests/integration/test_functions.py Functions.test_retry_all_of_what_is_about_to_be_parked",
        ),
        "a retry of all forgets that a step has died too often": (
            FUNCTIONS,
            "  if rec.expiries >= t.expiries then\n    return 'DEATHS', silence_ends(job, t, rec)\n  elseif",
            "  if",
            "tests/integration/test_functions.py Functions.test_retry_all_of_what_is_about_to_be_parked",
        ),
        "a retry of all begins what was parked before it looks at the counters": (
            FUNCTIONS,
            "resume_after_failure(job, next(recs) and 'w' or 'y')",
            "resume_after_failure(job, 'w')",
            "tests/integration/test_functions.py Functions.test_retry_all_of_what_failed_for_good_and_the_end_laid_down",
        ),
        "what the end of a job laid down is no more parked": (
            FUNCTIONS,
            "and not has_tried(job, rec)",
            "",
            "tests/integration/test_functions.py Functions.test_retry_of_one_that_the_end_laid_down",
        ),
        "a step in flight is retried": (
            FUNCTIONS,
            "  if rec.state == 'R' or rec.state == 'M' then\n    return rec.state ==",
            "  if false then\n    return rec.state ==",
        ),
        "what may have taken effect is given other arguments": (
            FUNCTIONS,
            "  return how == '!' and 'ANEW' or nil, how ~= '!' and 'UNKNOWN' or nil\n",
            "  return 'ANEW'\n",
            "tests/integration/test_functions.py Functions.test_other_arguments_for_what_may_have_begun",
        ),
        "new arguments are not kept": (
            FUNCTIONS,
            "    set_data(job, 'a' .. i, arguments)\n",
            "",
            "tests/integration/test_turns.py Turns.test_retry_with_other_arguments",
        ),
    },
    "Resolve: what a person says of a step holds, never of one in flight, nor past those that come before it": {
        "what is said to be there loses its result": (
            FUNCTIONS,
            "  if result ~= '' or state == 'D' then\n",
            "  if true then\n",
            "tests/integration/test_functions.py Functions.test_resolved_keeps_its_result",
        ),
        "what a person resolves is not kept": (
            FUNCTIONS,
            "  rec.current = state\n",
            "",
        ),
        "a step in flight is resolved": (
            FUNCTIONS,
            "  elseif rec.state == 'R' then\n    return 'WRONG_STATE', 'IN_FLIGHT', i\n",
            "  elseif false then\n",
        ),
        "a step is resolved past those that come before it": (
            FUNCTIONS,
            "  elseif rec.waiting > 0 then\n    return 'WRONG_STATE', 'WAITING', i",
            "  elseif false then\n    return 'WRONG_STATE', 'WAITING', i",
        ),
    },
    "Kill: the job stops where it is, for good": {
        "a killed job takes answers": (
            FUNCTIONS,
            "if rec.token ~= op.token or rec.state == 'R' and finished(job) then",
            "if rec.token ~= op.token then",
        ),
        "a killed job is steered again": (
            FUNCTIONS,
            "  elseif job.hold == 'killed' then\n    return 'WRONG_STATE', 'KILLED'\n",
            "",
            "tests/integration/test_turns.py Turns.test_kill",
        ),
    },
    "Migrate: steps not yet begun take the newer definition, and no other; what may have been begun is undone first": {
        "a migration loses a retry of all": (
            FUNCTIONS,
            "    if work.from == 'y' or work.from == 'w' then",
            "    if work.from == 'w' then",
            "tests/integration/test_functions.py Functions.test_migrated_after_a_retry_of_all",
        ),
        "a migration loses a resume": (
            FUNCTIONS,
            "    if work.from == 'y' or work.from == 'w' then",
            "    if work.from == 'y' then",
            "tests/integration/test_functions.py Functions.test_migrated_after_a_resume",
        ),
        "a step is migrated although its agent has told of it": (
            FUNCTIONS,
            "flies and (progress or was_taken)\n",
            "flies and was_taken\n",
            "tests/integration/test_functions.py Functions.test_migrate_what_an_agent_has_told_of",
        ),
        "what nobody began counts as begun once a person has spoken of it": (
            FUNCTIONS,
            "  if rec.unstarted < rec.attempt then\n    rec.unstarted = 0",
            "  if true then\n    rec.unstarted = 0",
            "tests/integration/test_functions.py Functions.test_what_nobody_began_stays_so",
        ),
        "a look that a migration overtakes goes on where it stood": (
            FUNCTIONS,
            "    if tonumber(offset) < job.n then\n",
            "    if true then\n",
            "tests/integration/test_functions.py Functions.test_migrated_while_it_is_looked_at",
        ),
        "a look past the last step goes on where the job gets more of them": (
            FUNCTIONS,
            "      job.scan_changed = true\n    end\n",
            "    end\n",
            "tests/integration/test_functions.py Functions.test_looked_at_past_its_last_step",
        ),
        "a migration changes a step that has begun": (
            FUNCTIONS,
            "    or rec.unstarted < rec.attempt - (flies and 1 or 0)",
            "    or rec.current == 'A'",
            "tests/integration/test_functions.py Functions.test_migrate_what_has_begun",
        ),
        "a migration does not count anew": (
            FUNCTIONS,
            "  local spreads = job.spreads\n  count_anew(job)\n",
            "  local spreads = job.spreads\n",
            "tests/integration/test_functions.py Functions.test_migrated",
        ),
        "a migration leaves the record of a step that is no more": (
            FUNCTIONS,
            "    job.records[i] = nil\n    call('HDEL', job.key, int(i))\n",
            "    job.records[i] = nil\n",
            "tests/integration/test_migrate.py Migrate.test_nothing_is_left_of_what_is_no_more",
        ),
        "a migration keeps the old definition's count": (
            FUNCTIONS,
            "  hold_definition(job.p, digest)\n  release_definition(job.p, job.def.digest)\n",
            "  hold_definition(job.p, digest)\n",
            "tests/integration/test_functions.py Functions.test_migrated",
        ),
        "a migration voids timers": (
            FUNCTIONS,
            "    local turned = rec.since < job.since\n",
            "    local turned = true\n",
            "tests/integration/test_migrate.py Migrate.test_timers_stay",
        ),
        "a migration leaves out a step that was sent": (
            FUNCTIONS,
            "  elseif is_gone and may_have_begun(rec) then\n",
            "  elseif false then\n",
            "tests/integration/test_functions.py Functions.test_migrate_away_what_was_sent",
        ),
        "a migration has done again what a person has done": (
            FUNCTIONS,
            "  elseif rec.current == 'A' then\n    return nil, 'BEGUN'",
            "  elseif false then\n    return nil, 'BEGUN'",
            "tests/integration/test_functions.py Functions.test_migrate_what_a_person_has_done",
        ),
        "what had failed for good has failed after a migration, too": (
            FUNCTIONS,
            "    elseif rec.state == 'F' and rec.since >= job.since then",
            "    elseif false then",
            "tests/integration/test_functions.py Functions.test_migrate_what_had_failed",
        ),
        "what a migration drops still counts": (
            FUNCTIONS,
            "  set_data(job, 'a' .. i, '') --",
            "  call('HDEL', job.p .. 'data:' .. job.id, 'a' .. i) --",
            "tests/integration/test_functions.py Functions.test_migrate_what_was_given_arguments",
        ),
        "a migration does not undo what may have been begun": (
            FUNCTIONS,
            "    rec.current = maybe and 'U' or 'D'\n",
            "    rec.current = 'D'\n",
            "tests/integration/test_migrate.py Migrate.test_in_flight_with_nobody",
        ),
        "a migration takes a step that has changed for the same": (
            "common/model/migration.c",
            "           a->heartbeat_ms == b->heartbeat_ms && policy_same(&a->policy, &b->policy);\n",
            "           a->heartbeat_ms == b->heartbeat_ms;\n",
            "tests/unit/test_migration test_differences",
        ),
    },
    "A step that stands can be changed, what it may have done is undone before, and its fences stay": {
        "a step is changed in flight": (
            FUNCTIONS,
            "  if rec.state == 'R' or rec.state == 'M' then\n    return rec.state == 'M' and",
            "  if rec.state == 'M' then\n    return rec.state == 'M' and",
            FUNCTIONS_TEST + "test_change_of_what_is_under_way",
        ),
        "what may have been done is changed as it is": (
            FUNCTIONS,
            "  elseif before == 'UNDO' then\n",
            "  elseif false then\n",
            FUNCTIONS_TEST + "test_change_of_what_may_have_been_done",
        ),
        "it is undone by what it is to be": (
            FUNCTIONS,
            "  set(job, 'waits_for', concat(numbers, ' '))\n",
            "  set(job, 'waits_for', concat(numbers, ' '))\n  take_definition(job, words[2])\n",
            FUNCTIONS_TEST + "test_change_of_what_may_have_been_done",
        ),
        "the undo takes back nothing that was done": (
            FUNCTIONS,
            "rec.since == 1 and rec.forward == rec.turn and text",
            "rec.since == 1 and text",
            FUNCTIONS_TEST + "test_change_of_what_may_have_been_done",
        ),
        "others begin while a change waits": (
            FUNCTIONS,
            "  elseif asked == 'A' and job.waits_for ~= '' then\n    set_state(job, i, rec, 'W', 0)\n    return\n",
            "",
            FUNCTIONS_TEST + "test_change_of_what_may_have_been_done",
        ),
        "the first step that is undone is enough": (
            FUNCTIONS,
            "current == 'U' then\n      return false\n    end\n  end\n  return true\nend\n",
            "current == 'U' then\n      return false\n    end\n    break\n  end\n  return true\nend\n",
            FUNCTIONS_TEST + "test_migrate_what_may_have_been_done",
        ),
        "what was held up by a change stays": (
            FUNCTIONS,
            "    change.carry_out(job, nonce)\n    add_walk(job, 'w')\n",
            "    change.carry_out(job, nonce)\n",
            FUNCTIONS_TEST + "test_change_of_what_may_have_been_done",
        ),
        "another lease is another work": (
            FUNCTIONS,
            "  add_history(job, how == 't' and 'changed' or 'edited', i, what)\n",
            "  set(job, 'turn', job.turn + 1)\n  rec.turn = job.turn\n  add_history(job, how == 't' and 'changed' or 'edited', i, what)\n",
            FUNCTIONS_TEST + "test_change_of_the_lease",
        ),
        "a migration to another lease is another work": (
            FUNCTIONS,
            "    if step.how ~= 't' then\n      replace_step(",
            "    if true then\n      replace_step(",
            FUNCTIONS_TEST + "test_migrate_to_another_lease",
        ),
        "a job that is turned is changed all the same": (
            FUNCTIONS,
            "  change.drop(job)\n  if job.hold == 'deadline' then\n",
            "  if job.hold == 'deadline' then\n",
            FUNCTIONS_TEST + "test_change_that_is_overtaken",
        ),
        "a job that has ended holds the definition of a change": (
            FUNCTIONS,
            "function settle(job, outcome, reason)\n  change.drop(job)\n",
            "function settle(job, outcome, reason)\n",
            FUNCTIONS_TEST + "test_change_that_is_overtaken",
        ),
        "what is done in the meantime is changed": (
            FUNCTIONS,
            "  if code ~= 'DONE' then\n    add_history(job, 'unchanged', why or code, i)\n",
            "  if code ~= 'DONE' then\n",
            FUNCTIONS_TEST + "test_change_that_a_person_overtakes",
        ),
        "a second change overwrites one that waits": (
            FUNCTIONS,
            "  elseif job.waits_for ~= '' then\n    return 'WRONG_STATE', 'CHANGING'\n  elseif how",
            "  elseif how",
            FUNCTIONS_TEST + "test_change_of_what_may_have_been_done",
        ),
        "its undo and what is done afterwards have one key": (
            FUNCTIONS,
            "    set(job, 'turn', job.turn + 2)\n    add_history(job, 'changing', step.i)\n",
            "    set(job, 'turn', job.turn + 1)\n    add_history(job, 'changing', step.i)\n    job.turn = job.turn + 1\n",
            FUNCTIONS_TEST + "test_keys_of_a_change_that_is_not_carried_out",
        ),
        "an undo that was sent is other work": (
            FUNCTIONS,
            "    if step.rec.asked == 'A' then\n      step.rec.asked, step.rec.turn = 'D'",
            "    if true then\n      step.rec.asked, step.rec.turn = 'D'",
            FUNCTIONS_TEST + "test_an_undo_that_was_sent_keeps_its_key",
        ),
        "a try that is due while a change waits is lost": (
            FUNCTIONS,
            "  elseif (job.hold ~= '' or job.waits_for ~= '' and next_asked(job, rec) == 'A') and",
            "  elseif job.hold ~= '' and",
            FUNCTIONS_TEST + "test_timers_wait_for_a_change",
        ),
        "its undo has the new arguments": (
            FUNCTIONS,
            "    return put_off(job, command.nonce, {{i = i, rec = rec}}, 'change',",
            "    set_data(job, 'a' .. i, arguments)\n    return put_off(job, command.nonce, {{i = i, rec = rec}}, 'change',",
            FUNCTIONS_TEST + "test_arguments_of_what_may_have_been_done",
        ),
        "whoever may submit changes steps": (
            "scheduler/access.c",
            "    if (changes_step(m) && !is_operator(a, user)) {",
            "    if (changes_step(m) && !is_operator(a, user) && !m->reason) {",
            f"{OWNERS} Owners.test_steps_are_the_operators_word",
        ),
        "any actor does a registered step": (
            "scheduler/change.c",
            "    if (!*actor || !s->access->registered || actor_is_registered(s, actor))",
            "    if (true)",
            f"{OWNERS} Owners.test_steps_are_the_operators_word",
        ),
        "a change renames a step": (
            "common/model/wire.c",
            "    if (*m->name || m->n_after > 0 ||",
            "    if (m->n_after > 0 ||",
            WIRE + " test_changes",
        ),
        "a change has another undo": (
            "common/model/wire.c",
            "    if (revert && (*revert->action || *revert->actor || revert->arguments))",
            "    if (false)",
            WIRE + " test_changes",
        ),
        "other work counts as other terms": (
            "common/model/migration.c",
            "    bool same = work_same(&a->forward, &b->forward) &&",
            "    bool same =",
            "tests/unit/test_migration test_differences",
        ),
    },
    "Heartbeats renew a lease, never beyond start + lock; their loss shows early": {
        "a heartbeat makes a lease longer than it was given": (
            FUNCTIONS,
            "  set_state(job, i, rec, 'R', min(limit, lease))\n",
            "  set_state(job, i, rec, 'R', lease + t.lock)\n",
        ),
        "the first Progress comes late": (
            "agent/run.c",
            "        on_beat(a, &run->beat);",
            "        timer_set(a, &run->beat, a->now + request->heartbeat_ms, on_beat);",
            f"{AGENT} test_heartbeats",
        ),
        "a heartbeat may be longer than its lease": (
            "agent/run.c",
            "    return request->heartbeat_ms < request->lock_ms ? request->heartbeat_ms : request->lock_ms;\n",
            "    return request->heartbeat_ms;\n",
            f"{AGENT} test_heartbeat_beyond_the_lease",
        ),
        "a heartbeat renews nothing": (
            FUNCTIONS,
            "  set_state(job, i, rec, 'R', min(limit, lease))\n",
            "  set_state(job, i, rec, 'R', limit)\n",
            "tests/integration/test_long_work.py LongWork.test_death_shows_early",
        ),
        "the token in a Progress is not compared": (
            FUNCTIONS,
            "  if not rec or rec.token ~= token or rec.state ~= 'R' then",
            "  if not rec or rec.state ~= 'R' then",
        ),
        "a lease that is over is renewed": (
            FUNCTIONS,
            "  if not rec or rec.token ~= token or rec.state ~= 'R' then",
            "  if not rec or rec.token ~= token then",
            "tests/integration/test_functions.py Functions.test_progress_of_another_token",
        ),
    },
    "An agent says nothing after its lease, and begins nothing": {
        "a program is begun though no time is left": (
            "agent/handler_exec.c",
            "    if (time_left(run) == 0) {",
            "    if (false) {",
            "tests/unit/test_exec test_deadline_passed",
        ),
        "a service is asked though no time is left": (
            "agent/handler_http.c",
            "    if (now >= run->head.run->deadline) {",
            "    if (false) {",
            "tests/unit/test_http test_deadline_passed",
        ),
        "a reply that could not be sent waits longer than its lease": (
            "agent/replies.c",
            "    m->not_after = earliest_deadline(p);\n",
            "",
        ),
        "an agent replies after its lease": (
            "agent/replies.c",
            "        if (a->now >= p->runs[i]->seen.deadline)\n            run_silent",
            "        if (false)\n            run_silent",
        ),
        "a handler starts after its lease": (
            "agent/run.c",
            "    if (a->now >= stop_time(a, run)) { /* the process stood still for so long */",
            "    if (false) {",
            f"{AGENT} test_no_start_past_the_lease",
        ),
        "an agent that is cut off goes on": (
            "agent/run.c",
            "run->held_until < stop ? run->held_until : stop, on_deadline",
            "stop, on_deadline",
            f"{AGENT} test_cut_off",
        ),
    },
    "How far a step is, and what it notes, is told to whoever asks": {
        "the fraction that is told is not kept": (
            FUNCTIONS,
            "format('%s %.0f %s %s', token, limit, a[3], a[4])",
            "format('%s %.0f %s %s', token, limit, '-1', a[4])",
            "tests/integration/test_long_work.py LongWork.test_progress_is_shown_and_renews",
        ),
        "the note that is told is not kept": (
            FUNCTIONS,
            "format('%s %.0f %s %s', token, limit, a[3], a[4])",
            "format('%s %.0f %s %s', token, limit, a[3], '')",
            "tests/integration/test_long_work.py LongWork.test_progress_is_shown_and_renews",
        ),
        "an agent does not tell what its program does": (
            "agent/handler_exec.c",
            "        run->head.progress(&run->head, run->progress.fraction, run->progress.note);\n",
            "        ;\n",
            "tests/integration/test_long_work.py LongWork.test_progress_is_shown_and_renews",
        ),
    },
    "The answer to Progress stops what the job no longer wants": {
        "what the job does not want ends in silence": (
            "agent/run.c",
            "        reply_set(a, run, run->cut);\n",
            "        return leave_slot(a, run), run_end(a, run);\n",
            f"{AGENT} test_cut_off",
        ),
        "Progress is told that all is wanted": (
            FUNCTIONS,
            "  local wanted = not finished(job) and not overtaken(job, rec) and not (left and left <= 0)\n",
            "  local wanted = true\n",
            "tests/integration/test_long_work.py LongWork.test_unwanted_is_terminated",
        ),
        "a request over HTTP that is not wanted is not aborted": (
            "agent/handler_http.c",
            "    if (!run->easy)\n        return;\n    target_abandoned",
            "    if (true)\n        return;\n    target_abandoned",
            "tests/integration/test_long_work.py LongWork.test_unwanted_request_is_aborted",
        ),
        "an agent does not heed what is not wanted": (
            "agent/on_requests.c",
            "    if (answer->wanted)\n        return;\n",
            "    if (answer->token)\n        return;\n",
            f"{AGENT} test_unwanted_is_stopped",
        ),
    },
    "A program gets SIGTERM, and after kill_grace its whole group SIGKILL": {
        "a program gets no SIGTERM": (
            "agent/handler_exec.c",
            "uv_process_kill(&run->process, SIGTERM);",
            "uv_process_kill(&run->process, SIGUSR1);",
            "tests/unit/test_exec test_deadline",
        ),
        "a program that ignores SIGTERM lives on": (
            "agent/handler_exec.c",
            "    case TERMINATED:\n        kill_group(run);\n",
            "    case TERMINATED:\n",
            "tests/unit/test_exec test_deadline",
        ),
        "children that a program leaves behind live on": (
            "common/io/child.c",
            "kill(-process->pid, signal)",
            "kill(process->pid, signal)",
            "tests/unit/test_alert_io test_its_group_is_killed",
        ),
    },
    "A lease that outlives half of consumer_timeout is acknowledged early": {
        "long work is acknowledged late": (
            "agent/run.c",
            "    if (run->settled || early == 0 || run->seen.request->lock_ms < early)\n",
            "    if (true)\n",
            f"{AGENT} test_early_ack",
        ),
    },
    "An agent holds no request that it has no slot for": {
        "an agent takes more than it has slots for": (
            "agent/requeue.c",
            "    if (!crowded || (a->freed && a->unseen == 0))\n",
            "    if (true)\n",
            f"{AGENT} test_no_hoarding",
        ),
        "an agent that had no slot consumes no more": (
            "agent/requeue.c",
            "if (a->paused && free_slot)",
            "if (false)",
        ),
        "an agent that drains keeps what it has not begun": (
            "agent/agent.c",
            "        effects_add(a->out, EFFECT_REQUEUE, d->handle);\n",
            "        ;\n",
            f"{AGENT} test_drain",
        ),
    },
    "Leases are counted once, however many supervisors look": {
        "a Recover that comes twice acts twice": (
            FUNCTIONS,
            "      if rec.state == 'M' then\n",
            "      if rec.state ~= 'R' then\n",
        ),
        "a lease expires again while nobody has driven it": (
            FUNCTIONS,
            "    withdraw(job, i, rec)\n  elseif rec.till == 0",
            "    withdraw(job, i, rec)\n"
            "  elseif rec.state == 'M' and rec.till <= job.now then\n"
            "    rec.expiries = rec.expiries + 1\n"
            "  elseif rec.till == 0",
        ),
    },
    "Partitions are shared fairly among the supervisors that live, and taken over from those that do not": {
        "the first supervisor leads everything": (
            FUNCTIONS,
            "  return names[tonumber(match(p, '(%d+)}:$')) % max(#names, 1) + 1]\n",
            "  return names[1]\n",
            f"{SUPERVISOR} test_partitions_are_shared",
        ),
        "a dead supervisor keeps its lead": (
            FUNCTIONS,
            "    return left > 0 and left <= tonumber(lease)\n",
            "    return till and lease\n",
            f"{SUPERVISOR} test_another_takes_over",
        ),
        "a lead from before the clock stepped back lasts": (
            FUNCTIONS,
            "    return left > 0 and left <= tonumber(lease)\n",
            "    return left > 0\n",
            f"{SUPERVISOR} test_leads_when_the_clock_is_set",
        ),
        "a supervisor whose connection to the store breaks does not go on": (
            "supervisor/supervisor.c",
            "    s->up = true;\n",
            "    s->up = !s->n;\n",
        ),
        "a supervisor that leaves says no goodbye": (
            "supervisor/supervisor.c",
            "s->config.election && (!s->stopping || p->leads);",
            "s->config.election && !s->stopping;",
            f"{SUPERVISOR} test_goodbye",
        ),
    },
    "What a stranger can take has a bound": {
        "definitions that come along cost nothing": (
            "scheduler/on_submit.c",
            "    if (op->item->redelivered ||\n",
            "    if (true || op->item->redelivered ||\n",
            f"{LIMITS} test_definitions",
        ),
        "operators bring along what users may": (
            "scheduler/allowance.c",
            "    int64_t bytes = access_limits(s->access, user).bytes;\n",
            "    int64_t bytes = access_limits(s->access, \"ann\").bytes;\n",
            f"{LIMITS} test_definitions",
        ),
        "a bucket of definitions never fills": (
            "scheduler/allowance.c",
            "    a->left += (s->now - a->at) * t->rate;\n",
            "    a->left += t->seconds > 100 ? 0 : (s->now - a->at) * t->rate;\n",
            f"{LIMITS} test_definitions",
        ),
        "all that is large is read at once": (
            "scheduler/intake.c",
            "    return in->read_bytes == 0 ||",
            "    return true || in->read_bytes == 0 ||",
            f"{LIMITS} test_large_messages_wait",
        ),
        "one queue's large messages stop those of another": (
            "scheduler/intake.c",
            "    struct intake *in = &s->intakes[item->source];\n    struct op *op;\n\n    if (is_small",
            "    struct intake *in = &s->intakes[0];\n    struct op *op;\n\n    if (is_small",
            f"{LIMITS} test_large_messages_wait",
        ),
        "without end large messages wait here": (
            "scheduler/intake.c",
            "    if (d->body.len <= MACHINE_LARGE_BYTES ||",
            "    if (true || d->body.len <= MACHINE_LARGE_BYTES ||",
            f"{LIMITS} test_large_messages_go_back",
        ),
        "what was given back comes at once": (
            "scheduler/intake.c",
            "    if (!s->consuming_stopped)\n        consume(s, false);\n",
            "",
            f"{LIMITS} test_large_messages_go_back",
        ),
        "nothing is consumed any more": (
            "scheduler/intake.c",
            "    if (s->consuming_stopped && s->unread_bytes <= MACHINE_UNREAD_BYTES / 2)\n",
            "    if (false)\n",
            f"{LIMITS} test_large_messages_go_back",
        ),
        "large Submits are held while the store is full": (
            "scheduler/scheduler.c",
            "    if (answer->result == STORE_OOM && op->item->large) {",
            "    if (false) {",
            f"{LIMITS} test_store_full",
        ),
        "a stranger fills the log": (
            "common/base/log.c",
            "    return ++bound->lines <= LOG_OFTEN_MAX;",
            "    return ++bound->lines <= 100 * LOG_OFTEN_MAX;",
            "tests/unit/test_base test_log_often",
        ),
        "that the log was cut is not told": (
            "common/base/log.c",
            "        if (bound->lines > LOG_OFTEN_MAX)\n",
            "        if (false)\n",
            "tests/unit/test_base test_log_often",
        ),
        "agents send any number of made-up tokens": (
            "scheduler/on_replies.c",
            "    if (allowance_takes_replies(s, item->actor, 0))\n        return false;",
            "    if (true)\n        return false;",
            f"{LIMITS} test_bad_replies",
        ),
        "good replies count like bad ones": (
            "scheduler/scheduler.c",
            "            allowance_return_reply(s, op->item->actor);\n        if",
            "            (void)0;\n        if",
            f"{LIMITS} test_bad_replies",
        ),
        "what comes again is taken for ever": (
            "scheduler/allowance.c",
            "    return !a || a->left > -t.seconds * t.rate * 1000;\n",
            "    return a != NULL;\n",
            f"{LIMITS} test_rate_of_what_comes_again",
        ),
        "commands are kept until the store is full": (
            "scheduler/steer.c",
            "    return !s->store_full || !access_owner",
            "    return true || !access_owner",
            f"{LIMITS} test_commands_when_nearly_full",
        ),
        "Progress of one step costs nothing": (
            "scheduler/on_replies.c",
            "} else if (last[i] && allowance_takes_progress(s, item->actor)) {",
            "} else if (last[i]) {",
            f"{LIMITS} test_progress_costs",
        ),
        "agents that nobody can tell apart have no bound": (
            "scheduler/allowance.c",
            "*actor || s->access->required ? s->bad_replies : 0",
            "*actor ? s->bad_replies : 0",
            f"{LIMITS} test_replies_by_the_shared_way",
        ),
        "of one actor's agents it is told, of those of others not": (
            "scheduler/allowance.c",
            "    if (news)\n        a->told = s->now;\n    return news;\n",
            "    if (s->now < s->isolated_told + MACHINE_ALERT_AGAIN_MS)\n        return false;\n"
            "    s->isolated_told = s->now;\n    return news;\n",
            f"{LIMITS} test_each_actor_is_told_of",
        ),
        "one actor's agents silence those of others": (
            "scheduler/allowance.c",
            '(struct terms){effects_printf(s->out, "\\n%s", actor),',
            '(struct terms){effects_printf(s->out, "\\n%s", ""),',
            f"{LIMITS} test_bad_replies",
        ),
        "a job has a queue made for each actor that it names": (
            "scheduler/dispatch.c",
            "s->other_actors-- == 0) {",
            "s->other_actors-- == UINT_MAX) {",
            f"{LIMITS} test_declared_actors",
        ),
        "actors of registered workflows have no queues": (
            "scheduler/dispatch.c",
            "    if (!actor_is_registered(s, actor) && s->other",
            "    if (s->other",
            f"{LIMITS} test_declared_actors_of_workflows",
        ),
        "one user's alerts keep another's from being told": (
            "scheduler/alert_io.c",
            "    leave_out(a, most, most->waiting.prev);",
            "    leave_out(a, latest, latest->waiting.prev);",
            "tests/unit/test_alert_io test_turns",
        ),
        "alerts are told in the order in which they came": (
            "scheduler/alert_io.c",
            "    list_append(&a->abouts, &about->link);\n    if (first) {",
            "    list_append(a->abouts.next, &about->link);\n    if (first) {",
            "tests/unit/test_alert_io test_turns",
        ),
        "nobody hears how many alerts were left out": (
            "scheduler/alert_io.c",
            "    if (about->n == 0 && about->left_out == 0)\n",
            "    if (about->n == 0)\n",
            "tests/unit/test_alert_io test_turns",
        ),
        "a message holds as many replies as one likes": (
            "scheduler/on_replies.c",
            "    if (m->n_replies > WIRE_REPLIES_MAX || m->n_progress > WIRE_REPLIES_MAX) {",
            "    if (false) {",
            f"{LIMITS} test_too_many_replies",
        ),
        "new jobs are taken until the store is out of memory": (
            "scheduler/on_submit.c",
            "    if (!s->store_full) {",
            "    if (true) {",
            f"{LIMITS} test_nearly_full",
        ),
        "a full store is full for ever": (
            "scheduler/scheduler.c",
            "        s->store_full =\n            event",
            "        s->store_full |=\n            event",
            f"{LIMITS} test_nearly_full",
        ),
        "a user takes all of a scheduler's time": (
            "scheduler/allowance.c",
            "    return !a || a->left > 0;",
            "    return true;",
            f"{LIMITS} test_rate",
        ),
        "a question costs no more than its message": (
            "scheduler/scheduler.c",
            "            if (op->item->source == SCHEDULER_CONTROL)\n                allowance_spend(",
            "            if (false)\n                allowance_spend(",
            f"{LIMITS} test_rate",
        ),
        "a user saves up for a day": (
            "scheduler/allowance.c",
            "    if (a->left > most)\n",
            "    if (false)\n",
            f"{LIMITS} test_rate",
        ),
        "an operator is stopped": (
            "scheduler/access.c",
            "    if (!a->required || is_operator(a, user) || words_have(a->supervisors, user))\n",
            "    if (!a->required || words_have(a->supervisors, user))\n",
            f"{LIMITS} test_rate",
        ),
        "a supervisor is stopped": (
            "scheduler/access.c",
            "    if (!a->required || is_operator(a, user) || words_have(a->supervisors, user))\n",
            "    if (!a->required || is_operator(a, user))\n",
            f"{LIMITS} test_rate_of_what_nobody_waits_for",
        ),
        "what is large is read though its user has had enough": (
            "scheduler/scheduler.c",
            "limit && item->large ? limit : decode(",
            "decode(",
            f"{LIMITS} test_rate_of_what_nobody_waits_for",
        ),
        "a user has any number of jobs": (
            FUNCTIONS,
            "  return jobs > 0 and call('ZCARD', p .. 'l:=' .. owner) >= jobs\n",
            "  return false\n",
            f"{LIMITS} test_jobs",
        ),
        "each partition has room for all jobs of a user": (
            "scheduler/allowance.c",
            "    return (most + s->partitions - 1) / s->partitions;",
            "    return most;",
            f"{LIMITS} test_jobs",
        ),
        "a user's jobs take any number of bytes": (
            FUNCTIONS,
            "  return bytes > 0 and (tonumber(",
            "  return false and (tonumber(",
            "tests/integration/test_functions.py Functions.test_bytes_that_a_user_may_have",
        ),
        "labels take nothing": (
            FUNCTIONS,
            "#texts_of(a[15]) * LABEL_BYTES + 2 * #a[15]",
            "0",
            "tests/integration/test_functions.py Functions.test_bytes_that_a_user_may_have",
        ),
        "a command takes nothing": (
            FUNCTIONS,
            "  call('HINCRBY', job.p .. 'users', a[11], int(cost))\n",
            "",
            "tests/integration/test_functions.py Functions.test_commands_count_for_their_owner",
        ),
        "who has taken what he may goes on with commands": (
            FUNCTIONS,
            "  elseif not within_bytes(p, a) then\n",
            "  elseif false then\n",
            "tests/integration/test_functions.py Functions.test_commands_count_for_their_owner",
        ),
        "nor may he end his jobs": (
            FUNCTIONS,
            " or a[2] == 'cancel' or a[2] == 'kill' or not over",
            " or not over",
            "tests/integration/test_functions.py Functions.test_commands_count_for_their_owner",
        ),
        "what commands have taken is not given back": (
            FUNCTIONS,
            "  call('HINCRBY', job.key, 'cost', int(cost))\n",
            "",
            "tests/integration/test_functions.py Functions.test_commands_count_for_their_owner",
        ),
        "bytes of jobs that are forgotten count on": (
            FUNCTIONS,
            "    if owner and cost > 0 and call('HINCRBY'",
            "    if false and call('HINCRBY'",
            "tests/integration/test_functions.py Functions.test_bytes_that_a_user_may_have",
        ),
        "a job may start in a thousand years": (
            FUNCTIONS,
            "  if horizon > 0 and start_at > now + horizon then",
            "  if false then",
            "tests/integration/test_functions.py Functions.test_no_start_beyond_the_horizon",
        ),
    },
    "A job is its owner's": {
        "whoever repeats a Submit takes the job over": (
            FUNCTIONS,
            "  if call('HGET', job.key, 'digest') ~= digest or is_others(p, job.id, owner) then\n",
            "  if call('HGET', job.key, 'digest') ~= digest then\n",
            f"{OWNERS} Owners.test_end_of_a_job_is_its_owners",
        ),
        "a job without an owner is everybody's": (
            FUNCTIONS,
            "'submitter') ~= owner\n",
            "'submitter') ~= owner and call('HEXISTS', p .. 'data:' .. id, 'submitter') == 1\n",
            "tests/integration/test_functions.py Functions.test_job_without_an_owner",
        ),
        "anybody commands": (
            FUNCTIONS,
            "  if is_others(p, a[1], a[11]) then\n",
            "  if false then\n",
            "tests/integration/test_functions.py Functions.test_job_of_another_owner",
        ),
        "a stranger has a torn job mended": (
            FUNCTIONS,
            "  if is_others(p, a[1], a[11]) then\n",
            "  if a[2] == 'kill' then\n    make_readable(p, a[1], now)\n  end\n  if is_others(p, a[1], a[11]) then\n",
            "tests/integration/test_functions.py Functions.test_job_without_an_owner",
        ),
        "anybody reads a job": (
            FUNCTIONS,
            "or is_others(p, a[2], a[6]) then",
            "then",
            "tests/integration/test_functions.py Functions.test_job_of_another_owner",
        ),
        "anybody reads a history": (
            FUNCTIONS,
            "or is_others(p, a[2], a[5]) then",
            "then",
            "tests/integration/test_functions.py Functions.test_job_of_another_owner",
        ),
        "a command with names of steps tells strangers which there are": (
            "scheduler/steer.c",
            "                    access_owner(s->access, op->item->user));",
            "                    NULL);",
            f"{OWNERS} Owners.test_job_of_another_is_unknown",
        ),
        "everybody lists all jobs": (
            "scheduler/list_jobs.c",
            "access_owner(s->access, op->item->user)",
            "NULL",
            f"{OWNERS} Owners.test_job_of_another_is_unknown",
        ),
        "a job cannot be found by its owner": (
            "scheduler/on_submit.c",
            "    if (s->access->required)\n        ops_label(",
            "    if (false)\n        ops_label(",
            f"{OWNERS} Owners.test_job_of_another_is_unknown",
        ),
        "operators are like everybody": (
            "scheduler/access.c",
            "a->required && !is_operator(a, user) ? user : NULL",
            "a->required ? user : NULL",
            f"{OWNERS} Owners.test_job_of_another_is_unknown",
        ),
        "a message without a user is taken": (
            "scheduler/access.c",
            "    if (!a->required || *user)\n",
            "    if (true)\n",
            f"{OWNERS} Owners.test_nobody_sends_without_a_name",
        ),
        "anybody recovers": (
            "scheduler/access.c",
            "        if (words_have(a->supervisors, user))\n",
            "        if (true)\n",
            f"{OWNERS} Owners.test_supervisors_right",
        ),
        "the supervisor does not say who it is": (
            "supervisor/supervisor_io.c",
            "bus.identify = true;",
            "bus.identify = false;",
            f"{OWNERS} Owners.test_supervisors_right",
        ),
        "a definition comes along where only registered ones may run": (
            "scheduler/access.c",
            "    if (m->definition && a->registered) {",
            "    if (false) {",
            f"{OWNERS} Owners.test_definitions",
        ),
        "a definition that comes along takes a registered name": (
            FUNCTIONS,
            "  elseif a[3] ~= '' and takes_a_name(p, a[3], d[3]) then\n",
            "  elseif false then\n",
            "tests/integration/test_functions.py Functions.test_name_of_a_registered_workflow",
        ),
        "a definition that comes along takes another version of a registered name": (
            FUNCTIONS,
            "call('HGET', p .. 'workflows', name) and call(",
            "call('HGET', p .. 'workflows', full_name) and call(",
            "tests/integration/test_functions.py Functions.test_name_of_a_registered_workflow",
        ),
        "a submitter says that a step is done": (
            "scheduler/access.c",
            "    if (rewrites_step(m) && a->registered && !is_operator(a, user)) {",
            "    if (false) {",
            f"{OWNERS} Owners.test_steps_are_the_operators_word",
        ),
        "a submitter starts what it may not": (
            "scheduler/access.c",
            "    if (!s->workflows[0])\n",
            "    if (true)\n",
            f"{OWNERS} Owners.test_who_may_start_what",
        ),
        "a migration leads to what a submitter may not start": (
            "scheduler/access.c",
            "    return m->command_case != DROVER__V1__CONTROL__COMMAND_MIGRATE ||\n",
            "    return true ||\n",
            f"{OWNERS} Owners.test_who_may_start_what",
        ),
        "the scheduler writes into any queue": (
            "scheduler/access.c",
            "    if (!a->required || !*reply_to ||",
            "    if (true || !*reply_to ||",
            f"{OWNERS} Owners.test_scheduler_is_no_deputy",
        ),
        "a queue whose name only begins like the user's is its own": (
            "scheduler/access.c",
            " && queue[len] == '.' && queue[len + 1];",
            ";",
            f"{OWNERS} Owners.test_scheduler_is_no_deputy",
        ),
        "the refusal of what cannot be read goes to any queue": (
            "scheduler/scheduler.c",
            "    said = or_abort(strdup(allowed ? said : \"\"));",
            "    said = or_abort(strdup(allowed || !item->message.base ? said : \"\"));",
            f"{OWNERS} Owners.test_scheduler_is_no_deputy",
        ),
        "a history has the name that its sender claims": (
            "scheduler/steer.c",
            "!s->access->required ? m->by",
            "!s->access->required || *m->by ? m->by",
            f"{OWNERS} Owners.test_history_says_who_it_was",
        ),
        "that identity is off is not told": (
            "scheduler/scheduler_io.c",
            "    if (!r && !io->access->required)\n",
            "    if (false)\n",
            f"{OWNERS} Owners.test_off_is_told",
        ),
    },
    "An answer counts only from the agents of the step's actor": {
        "tokens of one call have the same digits": (
            FUNCTIONS,
            "redis.sha1hex(nonce .. '.' .. int(i))",
            "redis.sha1hex(nonce)",
            "tests/integration/test_functions.py Functions.test_tokens_of_one_call",
        ),
        "a token does not depend on what the scheduler has drawn": (
            FUNCTIONS,
            "redis.sha1hex(nonce .. '.' .. int(i))",
            "redis.sha1hex(int(i))",
            "tests/integration/test_functions.py Functions.test_tokens_of_two_calls",
        ),
        "a token is in hex, and a record beyond what Redis keeps compact": (
            FUNCTIONS,
            ":gsub('%x%x%x', twins))",
            ":gsub('%x%x%x', '%0'))",
            "tests/integration/test_functions.py Functions.test_the_record_of_a_step_is_short",
        ),
        "a history shows the whole token": (
            FUNCTIONS,
            "  return int(i) .. '.' .. sub(redis.sha1hex(token), 1, 8)\n",
            "  return token\n",
            "tests/integration/test_functions.py Functions.test_tokens_of_one_call",
        ),
        "what another actor's agents make up is kept as evidence": (
            FUNCTIONS,
            "      if not is_other_actor(job, i, rec, op.actor) then\n        keep_late",
            "      if true then\n        keep_late",
            "tests/integration/test_functions.py Functions.test_late_evidence_is_of_the_steps_own_actor",
        ),
        "the evidence of a late reply shows its token": (
            FUNCTIONS,
            "op.kind, token_id(i, op.token), op.class}",
            "op.kind, op.token, op.class}",
            "tests/integration/test_functions.py Functions.test_tokens_of_one_call",
        ),
        "a reply from another actor's agents counts": (
            FUNCTIONS,
            "  if is_other_actor(job, i, rec, op.actor) then\n",
            "  if false then\n",
            "tests/integration/test_functions.py Functions.test_a_reply_of_another_actor",
        ),
        "Progress from another actor's agents counts": (
            FUNCTIONS,
            "  if not rec or is_other_actor(job, i, rec, a[6]) then\n",
            "  if not rec then\n",
            "tests/integration/test_functions.py Functions.test_a_reply_of_another_actor",
        ),
        "what takes a step back is answered by the step's actor": (
            FUNCTIONS,
            "actor ~= '' and terms_of(job.def, i, rec.asked).actor\n",
            "actor ~= '' and step_of(job.def, i).forward.actor\n",
            "tests/integration/test_functions.py Functions.test_an_undo_of_another_actor",
        ),
        "a definition of an earlier build, which names no actors, takes no replies": (
            FUNCTIONS,
            "  return own and own ~= '' and own ~= actor\n",
            "  return own and own ~= actor\n",
            "tests/integration/test_functions.py Functions.test_a_reply_of_a_job_whose_steps_have_no_actors",
        ),
        "a definition of an earlier build gets no actors": (
            FUNCTIONS,
            "or known[2] ~= '2' then",
            "or not known[2] then",
            "tests/integration/test_functions.py Functions.test_names_of_a_definition_that_an_earlier_build_has_stored",
        ),
        "a Submit does not have its definition stored again": (
            FUNCTIONS,
            "  if d[1] ~= FORMAT or a[3] ~= '' and d[5] ~= '2' and d[5] ~= '0' then",
            "  if d[1] ~= FORMAT then",
            "tests/integration/test_functions.py Functions.test_a_submit_of_a_definition_that_an_earlier_build_has_stored",
        ),
        "a scheduler that knows no actors has its definition taken for whole": (
            FUNCTIONS,
            "has_actors and '2' or '0')",
            "'2')",
            "tests/integration/test_functions.py Functions.test_a_definition_that_names_no_actors",
        ),
        "a history of before shows whole tokens": (
            "common/model/history.c",
            "strlen(dot + 1) > ID_SHORT_LEN ?",
            "false ?",
            "tests/unit/test_history test_tokens",
        ),
        "whoever binds an exchange to an actor's is believed": (
            "common/model/wire.c",
            '? "" : WIRE_REPLY_STRANGER',
            '? "" : ""',
            f"{LIMITS} test_replies_by_a_way_round",
        ),
        "a stranger's reply counts": (
            "scheduler/access.c",
            "    if (strcmp(actor, WIRE_REPLY_STRANGER) == 0) {\n",
            "    if (false) {\n",
            f"{LIMITS} test_replies_by_a_way_round",
        ),
        "the shared way is never closed": (
            "scheduler/access.c",
            "    if (!*actor && a->by_actor) {\n",
            "    if (false) {\n",
            f"{LIMITS} test_replies_by_the_shared_way",
        ),
        "nobody says by which exchange a reply came": (
            "common/io/bus_consumer.c",
            'strcmp(queue->name, WIRE_REPLY_QUEUE) == 0 ? wire_reply_by(name) : ""',
            '""',
            "tests/integration/test_behaviours.py Behaviours.test_reply_of_another_actor",
        ),
        "replies of two actors go by the exchange of one": (
            "agent/replies.c",
            "        if (run->delivery->actor != actor)\n            continue;\n",
            "",
            f"{AGENT} test_replies_go_by_their_actor",
        ),
        "two nonces are the same": (
            "common/base/nonce.c",
            "n->drawn++",
            "n->drawn",
            "tests/unit/test_base test_nonces",
        ),
    },
    "Liveness does not depend on who connects": {
        "a connection lives as long as it says something": (
            "common/io/health.c",
            "    end_old_peers(h);\n",
            "",
            "tests/integration/test_health.py Pages.test_slow_connections",
        ),
        "one address has all connections": (
            "common/io/health.c",
            "#define ADDRESS_CONNECTIONS 8 ",
            "#define ADDRESS_CONNECTIONS 80 ",
            "tests/integration/test_health.py Pages.test_idle_connections",
        ),
        "--healthcheck asks where all do": (
            "common/io/health_ask.c",
            "    if (ask_apart(&address, timeout_ms))\n        return NULL;\n",
            "",
            "tests/integration/test_health.py Pages.test_slow_connections",
        ),
    },
    "A program leaves nothing behind, and gets no more than it is given": {
        "what has left its group stays": (
            "agent/keep.c",
            "        orphans_kill(NULL);\n        (void)waitpid(-1, NULL, 0);\n",
            "        return;\n",
            "tests/unit/test_exec test_children_left_behind",
        ),
        "a program that kills its keeper is free": (
            "agent/handler_exec.c",
            "    if (signal != 0)\n        end_orphans",
            "    if (false)\n        end_orphans",
            "tests/unit/test_exec test_keeper_killed",
        ),
        "orphans are not taken in": (
            "agent/keep.c",
            "    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);\n",
            "",
            "tests/unit/test_exec test_children_left_behind",
        ),
        "a program has any number of files": (
            "agent/keep.c",
            "    limit(RLIMIT_NOFILE, argv[FILES]);\n",
            "",
            "tests/unit/test_exec test_limits",
        ),
        "a program runs as the agent's user": (
            "agent/keep.c",
            "    if (other && (setgroups",
            "    if (false && (setgroups",
            "tests/unit/test_exec test_other_user",
        ),
        "a program keeps the agent's groups": (
            "agent/keep.c",
            "setgroups(0, NULL) || ",
            "",
            "tests/unit/test_exec test_other_user",
        ),
        "a program goes on when its agent is killed": (
            "agent/keep.c",
            "    prctl(PR_SET_PDEATHSIG, SIGUSR1, 0, 0, 0);\n",
            "",
            "tests/fault/test_handlers.py Handlers.test_killed",
        ),
    },
    "What runs beside a daemon, or is shown of it, gets no more than it should": {
        "another process of its user reads the memory of a daemon": (
            "common/io/daemon.c",
            "prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)",
            "prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)",
            "tests/integration/test_secrets.py Secrets.test_memory",
        ),
        "a program that an agent runs gets rights which the agent has not": (
            "agent/agent_io.c",
            "    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||",
            "    if (",
            "tests/integration/test_secrets.py Secrets.test_memory",
        ),
        "a program gets the token of its request": (
            "agent/template.c",
            "    shown.token = (char *)\"\";\n",
            "",
            "tests/unit/test_exec test_input_and_result",
        ),
        "text that turns the line round is shown": (
            "common/base/str.c",
            "{0x2028, 0x202e},",
            "",
            "tests/unit/test_base test_json_for_people",
        ),
    },
    "A jump of the store's clock, either way, ends no lease early, nor late": {
        "a lease renewed after a jump lasts as long as one of before": (
            FUNCTIONS,
            "      till = lease_end(clock, rec.till, lease_length(job, i, rec, t))\n",
            "      till = lease_end(clock, rec.till, given)\n",
            "tests/integration/test_functions.py Functions.test_a_renewed_lease_after_a_jump",
        ),
        "a job that has begun is begun once more where the clock steps back": (
            FUNCTIONS,
            "job.start_at > job.now and not job.started then",
            "job.start_at > job.now then",
            "tests/integration/test_functions.py Functions.test_started_is_started",
        ),
        "a lease of before a jump ahead does not last longer": (
            FUNCTIONS,
            "  return till - given < clock.jumped and till + clock.by or till\n",
            "  return till\n",
            f"{SUPERVISOR} test_the_clock_jumps_ahead",
        ),
        "nothing is let be after a jump ahead": (
            FUNCTIONS,
            "    elseif job.now < clock.quiet or hold > 0",
            "    elseif hold > 0",
            f"{SUPERVISOR} test_the_clock_jumps_while_nobody_looks",
        ),
        "a step back is not seen": (
            FUNCTIONS,
            "  if now < seen - CLOCK_STEP then\n",
            "  if false then\n",
            f"{SUPERVISOR} test_the_clock_steps_back",
        ),
        "what is due is not derived again after a step back": (
            FUNCTIONS,
            "  if wrong or at.back > 0 then",
            "  if wrong then",
            "tests/integration/test_functions.py Functions.test_after_a_step_back_all_is_due",
        ),
        "what is due too late is not derived again": (
            FUNCTIONS,
            "    job.due, job.due_changed = min(job.due, job.now), true\n    job.scan,",
            "    job.due, job.due_changed = job.due, true\n    job.scan,",
            "tests/integration/test_functions.py Functions.test_after_a_step_back_all_is_due",
        ),
        "a scan in pieces goes on after a step back": (
            FUNCTIONS,
            "    job.due, job.due_changed = min(job.due, job.now), true\n    job.scan, job.scan_changed = nil, true\n",
            "    job.due, job.due_changed = min(job.due, job.now), true\n",
            "tests/integration/test_functions.py Functions.test_after_a_step_back_a_look_begins_anew",
        ),
        "a lease of before a jump ahead lasts too long": (
            FUNCTIONS,
            "  return till - given < clock.jumped and till + clock.by or till\n",
            "  return till - given < clock.jumped and till + 2 * clock.by or till\n",
        ),
        "a supervisor tells of a longer jump": (
            "supervisor/supervisor.c",
            "        s->clock.jump = most - s->offset_most + JUMP_MS;\n",
            "        s->clock.jump = 2 * (most - s->offset_most) + JUMP_MS;\n",
        ),
        "after a jump what is due is looked at when nothing is quiet any more": (
            FUNCTIONS,
            "      return job.now + NAMED_AGAIN\n",
            "      return job.now + SWEEP_BOUND\n",
        ),
        "a supervisor tells of no jump": (
            "supervisor/supervisor.c",
            "        s->clock.jump = most - s->offset_most + JUMP_MS;\n",
            "        s->clock.jump = 0;\n",
            f"{SUPERVISOR} test_the_clock_jumps_ahead",
        ),
    },
    "Nothing expires while nobody reads the replies": {
        "leases end while replies wait": (
            "supervisor/supervisor.c",
            "messages > 0 ? HOLD_BACKLOG : 0;",
            "0;",
            f"{SUPERVISOR} test_leases_wait_for_replies",
        ),
        "leases do not end as long as replies wait": (
            "supervisor/supervisor.c",
            "messages > 0 ? HOLD_BACKLOG : 0;",
            "messages > 0 ? HOLD_ALL : 0;",
            f"{SUPERVISOR} test_leases_wait_for_replies",
        ),
        "leases end before anybody has looked for readers": (
            "supervisor/supervisor.c",
            "    s->queue_hold = HOLD_ALL; /*",
            "    s->queue_hold = 0; /*",
            f"{SUPERVISOR} test_leases_wait_for_replies",
        ),
        "leases end while no scheduler lives": (
            "supervisor/supervisor.c",
            "s->queue_hold = consumers == 0 ? HOLD_ALL : messages > 0 ? HOLD_BACKLOG : 0;",
            "s->queue_hold = 0;",
            "tests/integration/test_supervisors.py Supervisors.test_nobody_reads_replies",
        ),
    },
    "--once --dry-run tells what a round would do, and does nothing": {
        "a dry run asks for recovery": (
            "supervisor/supervisor.c",
            "        if (!s->config.dry_run)\n            recover(",
            "        if (true)\n            recover(",
            "tests/integration/test_supervisors.py Supervisors.test_once",
        ),
        "a dry run is none": (
            "supervisor/supervisor.c",
            "    if (s->config.dry_run)\n        ops_look(s->out);\n",
            "",
            "tests/integration/test_supervisors.py Supervisors.test_once",
        ),
    },
    "Poison and agents: a suspect is acknowledged before it is read, and read alone": {
        "what an agent has died of is no suspect": (
            "agent/suspects.c",
            "    return d->redelivered && !recent_has(&a->bodies, d->body);",
            "    return false;",
        ),
        "a suspect is read before it is acknowledged": (
            "agent/suspects.c",
            "    timer_set(a, &a->alone, a->now + ACK_MS, on_acknowledged);\n",
            "    begin(a);\n",
            f"{AGENT} test_repeated",
        ),
        "suspects are read side by side": (
            "agent/suspects.c",
            "#define ALONE_MS 100",
            "#define ALONE_MS 0",
            f"{AGENT} test_suspects",
        ),
        "what was answered is run again": (
            "agent/run.c",
            "if (d->repeated && recent_has",
            "if (false && recent_has",
            f"{AGENT} test_redelivered_to_the_same_process",
        ),
    },
    "Poison and schedulers: a message that two schedulers have died of is dead-lettered by the third, and messages beside it are handled": {
        "what comes again is given up, though nobody has died of it": (
            "scheduler/poison.c",
            "incarnations < MACHINE_POISON_AT",
            "incarnations < 1",
        ),
        "three that live are taken for two that died of it": (
            FUNCTIONS,
            "    if what == 'begin' and #incarnations > 1 and is_new(known, now) then\n",
            "    if false then\n",
            f"{SUSPECTS} test_copies",
        ),
        "what kills is read for ever": (
            "scheduler/machine.h",
            "#define MACHINE_POISON_AT 3 ",
            "#define MACHINE_POISON_AT 1000 ",
            f"{SUSPECTS} test_poison",
        ),
        "schedulers read suspects side by side": (
            "scheduler/poison.c",
            "    if (s->suspect || !(first = list_pop(&s->suspects)))\n",
            "    if (!(first = list_pop(&s->suspects)))\n",
            f"{SUSPECTS} test_restarts_of_the_broker",
        ),
        "a life that lost the broker counts as lost": (
            "scheduler/poison.c",
            "        op_unref(s, op);\n    }\n    take_back(s);\n",
            "        op_unref(s, op);\n    }\n    s->suspect = NULL;\n",
            f"{SUSPECTS} test_restarts_of_the_broker",
        ),
        "a message that was survived holds up the others": (
            "scheduler/machine.h",
            "#define MACHINE_SUSPECT_MS 100 ",
            "#define MACHINE_SUSPECT_MS 3600000 ",
            f"{SUSPECTS} test_survived",
        ),
        "a message that was dealt with stays suspected": (
            "scheduler/poison.c",
            "suspect_end(s, item->suspect, OPS_SUSPECT_END);",
            "suspect_end(s, item->suspect, OPS_SUSPECT_BEGIN);",
            f"{SUSPECTS} test_forgotten",
        ),
    },
    "strict: what Redis is set to is looked at, and replicas are waited for": {
        "strict is satisfied with any appendfsync": (
            "common/io/store_check.c",
            "    if (strcmp(appendfsync, \"always\") != 0)\n",
            "    if (false)\n",
            "tests/unit/test_store_check test_strict_durability",
        ),
        "strict is satisfied with fewer replicas": (
            "common/io/store_check.c",
            "    if (strtoul(replicas, NULL, 10) < e->config->replicas)\n",
            "    if (false)\n",
            "tests/unit/test_store_check test_strict_durability",
        ),
        "replicas are not waited for": (
            "common/io/store.c",
            "    snprintf(number, sizeof(number), \"%u\", s->config.replicas);\n",
            "    snprintf(number, sizeof(number), \"0\");\n",
            "tests/integration/test_durability.py Failover.test_strict",
        ),
    },
    "A store that went back in time is seen, and what was accepted and is gone is listed": {
        "an emptied store gets no workflows": (
            "scheduler/rollback.c",
            "        rollback_check(s);\n        workflows_register(s);\n",
            "        rollback_check(s);\n",
            f"{ROLLBACK} test_workflows_come_back",
        ),
        "workflows that are being registered are not registered again": (
            "scheduler/scheduler.c",
            "--s->registering == 0 && s->register_again",
            "--s->registering == 0 && false",
            f"{ROLLBACK} test_workflows_come_back",
        ),
        "a mark that went back is not seen": (
            "scheduler/rollback.c",
            "    bool back = known && (other_run ? shows->began : shows->count) < remembered;\n",
            "    bool back = false;\n",
            f"{ROLLBACK} test_settling_lost",
        ),
        "an emptied store is not seen": (
            "scheduler/rollback.c",
            "    bool lost = known && !bytes_is(shows->id, watermark->id);\n",
            "    bool lost = false;\n",
            f"{ROLLBACK} test_store_emptied",
        ),
        "accepting does not move the watermark": (
            FUNCTIONS,
            "  add_history(job, 'created', found, by)\n  move_watermark(job)\n",
            "  add_history(job, 'created', found, by)\n",
            f"{ROLLBACK} test_store_emptied",
        ),
        "settling does not move the watermark": (
            FUNCTIONS,
            "  job.settled = job.seq\n  move_watermark(job)\n",
            "  job.settled = job.seq\n",
            f"{ROLLBACK} test_settling_lost",
        ),
        "what is gone is not listed": (
            "scheduler/rollback.c",
            "    take_gone(s, op->partition, &shows);\n",
            "",
            f"{ROLLBACK} test_store_went_back",
        ),
        "a job that is there is listed as gone": (
            FUNCTIONS,
            "    if call('EXISTS', p .. 'job:' .. a[k]) == 0 then\n      gone[",
            "    if true then\n      gone[",
            f"{ROLLBACK} test_store_went_back",
        ),
        "a job that is gone is not missed once others have moved the watermark on": (
            "scheduler/rollback.c",
            "    watermark->went_back |= lost || back || (known && other_run);\n",
            "    watermark->went_back |= lost || back;\n",
            f"{ROLLBACK} test_store_went_back_twice",
        ),
        "a check of more jobs than a call may name passes some over": (
            "scheduler/rollback.c",
            "        if (a->number >= op->first)\n",
            "        if (a->number > op->first)\n",
            f"{INTAKE} test_many_are_lost",
        ),
        "the calls of a look begin at a count, from which what they find gone is taken": (
            "scheduler/rollback.c",
            "        from = a->link.prev;\n",
            "        for (struct accepted *b = a; (b = next_of(s, &b->link, partition));)\n"
            "            b->number--;\n"
            "        from = a->link.prev;\n",
            f"{INTAKE} test_many_are_lost",
        ),
    },
    "A Submit that is wrong is refused, and the reason names the field, or the step": {
        "a cycle is accepted": (
            "common/model/workflow.c",
            "    if (ready == w->n_steps)\n        return 0;\n",
            "    if (ready <= w->n_steps)\n        return 0;\n",
            f"{WORKFLOW} test_cycles",
        ),
        "two steps have one name": (
            "common/model/workflow.c",
            "        if (*slot != 0) {\n",
            "        if (false) {\n",
            f"{WORKFLOW} test_refused_step",
        ),
        "a dependency is named twice": (
            "common/model/workflow.c",
            "        else if (b->marks[found] == to)\n",
            "        else if (false)\n",
            f"{WORKFLOW} test_refused_dependencies",
        ),
        "a lease may be negative": (
            "common/model/workflow.c",
            "    return ms == 0 || (ms >= POLICY_LOCK_MIN_MS &&",
            "    return ms <= 0 || (ms >= POLICY_LOCK_MIN_MS &&",
            f"{WORKFLOW} test_refused_head",
        ),
        "there may be any number of steps": (
            "common/model/workflow.c",
            "m->n_steps == 0 || m->n_steps > WIRE_STEPS_MAX",
            "m->n_steps == 0",
            f"{WORKFLOW} test_one_too_many",
        ),
        "there may be any number of dependencies": (
            "common/model/workflow.c",
            "    if (edges > WIRE_EDGES_MAX) {\n",
            "    if (false) {\n",
            f"{WORKFLOW} test_one_too_many",
        ),
        "a name may be as long as it likes": (
            "common/base/id.c",
            "len < 1 || len > ID_NAME_MAX",
            "len < 1",
            f"{WIRE} test_submit_sizes",
        ),
        "what is wrong with a step is told without its name": (
            "common/model/workflow.c",
            "    if (r == WORKFLOW_E_INVALID && b->problem) {\n",
            "    if (false && b->problem) {\n",
            f"{WORKFLOW} test_refused_step_is_named",
        ),
        "an input may be as large as it likes": (
            "common/model/check.c",
            '    if (size > max)\n        return check_fail(problem, where, "must be at most %zu bytes, not',
            '    if (false)\n        return check_fail(problem, where, "must be at most %zu bytes, not',
            f"{WIRE} test_submit_sizes",
        ),
        "an unknown workflow is waited for": (
            "scheduler/on_submit.c",
            "        if (s->registering > 0) {",
            "        if (true) {",
            "tests/integration/test_bad_input.py BadInput.test_unknown_workflow",
        ),
        "a step may come after one that is not there": (
            "common/model/workflow.c",
            "            wrong = \"is no step of this workflow\";\n",
            "            found = 0;\n",
            f"{WORKFLOW} test_refused_dependencies",
        ),
        "a step may take the result of one that it does not come after": (
            "common/model/workflow.c",
            "        else if (from != 0 && b->marks[found] != from)\n",
            "        else if (false)\n",
            f"{WORKFLOW} test_refused_dependencies",
        ),
    },
    "The same Submit again is ALREADY, another one with its id CONFLICT; who asks, and how he is told, does not count": {
        "a job's id is given to another job": (
            FUNCTIONS,
            "  if call('HGET', job.key, 'digest') ~= digest or is_others(p, job.id, owner) then\n",
            "  if is_others(p, job.id, owner) then\n",
            "tests/integration/test_functions.py Functions.test_the_same_again",
        ),
        "a newer reply_to is not taken over": (
            FUNCTIONS,
            "  if reply_to ~= '' then\n",
            "  if false then\n",
            "tests/integration/test_functions.py Functions.test_the_same_again",
        ),
        "whoever asks elsewhere asks for another job": (
            "scheduler/on_submit.c",
            "    bare.reply_to = bare.traceparent = (char *)protobuf_c_empty_string;\n",
            "    bare.reply_to = (char *)protobuf_c_empty_string;\n",
            "tests/integration/test_bad_input.py BadInput.test_same_id",
        ),
        "another definition is the same job": (
            "scheduler/on_submit.c",
            "    if (w)\n        buf_puts(&text, w->digest);\n",
            "",
            "tests/integration/test_bad_input.py BadInput.test_same_id",
        ),
        "a Submit that comes again does not send its requests again": (
            FUNCTIONS,
            "  if redelivered == '1' then\n    resend_after(job, 'r')\n",
            "  if false then\n    resend_after(job, 'r')\n",
        ),
        "a Submit is made again each time that it comes": (
            FUNCTIONS,
            "  if call('EXISTS', p .. 'job:' .. id) == 1 then\n    return submit_again",
            "  if false then\n    return submit_again",
        ),
    },
    "A definition is known by its content, never changes under its name, and lives as long as somebody needs it": {
        "a version is registered with other content": (
            FUNCTIONS,
            "    if taken and taken ~= digest then\n",
            "    if false then\n",
            "tests/integration/test_functions.py Functions.test_a_version_is_one_definition",
        ),
        "the version that was registered last counts as the newest": (
            FUNCTIONS,
            "    if tonumber(version) > newest then\n",
            "    if true then\n",
            "tests/integration/test_functions.py Functions.test_a_version_is_one_definition",
        ),
        "a job's definition is not counted": (
            FUNCTIONS,
            "  if call('HINCRBY', job.def.key, 'refs', 1) == 1 then\n    call('ZREM', p ..",
            "  if call('HINCRBY', job.def.key, 'refs', 0) == 1 then\n    call('ZREM', p ..",
        ),
        "a definition that others need is dropped": (
            FUNCTIONS,
            "'refs', -1) <= 0 then",
            "'refs', -1) <= 1 then",
        ),
        "a job that is forgotten keeps its definition": (
            FUNCTIONS,
            "  if digest then\n    release_definition(p, digest)\n",
            "  if false then\n    release_definition(p, digest)\n",
        ),
        "a definition that waits for its first job is dropped": (
            FUNCTIONS,
            "int(now - UNUSED_DEFINITION)",
            "int(now)",
            "tests/integration/test_functions.py Functions.test_a_definition_that_no_job_came_for",
        ),
    },
    "A settled job is forgotten after its retention, not before, nor before all have heard of it": {
        "a job is forgotten at once": (
            FUNCTIONS,
            "int(kept_since(p, now, tonumber(a[1]))), 'LIMIT', 0,",
            "int(now), 'LIMIT', 0,",
        ),
        "what ended before a jump ahead is not kept longer": (
            FUNCTIONS,
            "  return since - clock.by < clock.jumped and since - clock.by or since\n",
            "  return since\n",
            "tests/integration/test_functions.py Functions.test_retention_after_a_jump",
        ),
        "what ends after a jump ahead is kept longer": (
            FUNCTIONS,
            "  return since - clock.by < clock.jumped and since - clock.by or since\n",
            "  return since - clock.by\n",
            "tests/integration/test_functions.py Functions.test_retention_after_a_jump",
        ),
        "a job is forgotten before somebody heard of it": (
            FUNCTIONS,
            "    if owes(p, id) then\n",
            "    if false then\n",
            "tests/integration/test_functions.py Functions.test_retention",
        ),
        "what a forgotten job was given stays": (
            FUNCTIONS,
            "  call('UNLINK', key, p .. 'data:' .. id, p .. 'hist:' .. id)\n",
            "  call('UNLINK', key, p .. 'hist:' .. id)\n",
        ),
        "a jump of the clock ends the retention": (
            FUNCTIONS,
            "  if is_quiet(p, now) then\n    return {'0', '0', needs(p)}\n",
            "  if false then\n    return {'0', '0', needs(p)}\n",
            "tests/integration/test_functions.py Functions.test_retention",
        ),
        "a forgotten job is found by its labels": (
            FUNCTIONS,
            "  for _, index in ipairs(index_keys(p, data[1] or '', data[2] or '')) do\n",
            "  for _, index in ipairs(index_keys(p, data[1] or '', '')) do\n",
            "tests/integration/test_functions.py Functions.test_retention",
        ),
        "a forgotten job is found among those that failed": (
            FUNCTIONS,
            "  call('ZREM', p .. 'failed', id)\nend",
            "end",
        ),
        "a forgotten job is found among all": (
            FUNCTIONS,
            "    call('ZREM', index, id)\n",
            "    call('ZREM', index == p .. 'jobs' and p .. 'due' or index, id)\n",
        ),
        "a forgotten job is found by its workflow": (
            FUNCTIONS,
            "  for _, index in ipairs(index_keys(p, data[1] or '', data[2] or '')) do\n",
            "  for _, index in ipairs(index_keys(p, '', data[2] or '')) do\n",
        ),
        "the history of a forgotten job stays": (
            FUNCTIONS,
            "  call('UNLINK', key, p .. 'data:' .. id, p .. 'hist:' .. id)\n",
            "  call('UNLINK', key, p .. 'data:' .. id)\n",
        ),
    },
    "No call touches more steps than its budget, and what is left over is gone on with": {
        "what follows a step may take as long as it likes": (
            FUNCTIONS,
            "  job.budget.left = job.budget.left - count\n",
            "",
            "tests/integration/test_functions.py Functions.test_a_call_has_an_end",
        ),
        "a turn may take as long as it likes": (
            FUNCTIONS,
            "      job.budget.left = job.budget.left - 1\n      if turn_step",
            "      if turn_step",
            "tests/integration/test_functions.py Functions.test_a_call_has_an_end",
        ),
        "nobody looks after what was left over": (
            FUNCTIONS,
            "    lower_due(job, job.now + CONTINUED)\n",
            "",
        ),
        "what was left over is forgotten": (
            FUNCTIONS,
            "  if #job.spreads > 0 or job.had_cursor then\n",
            "  if job.had_cursor then\n",
        ),
        "the answer does not say that something was left over": (
            FUNCTIONS,
            "(has_cursor_work(job) and ' 1' or ' 0')",
            "' 0'",
            "tests/integration/test_functions.py Functions.test_a_call_has_an_end",
        ),
        "what was left over waits for a supervisor": (
            "scheduler/transition.c",
            "        op->then = drive_more;\n",
            "        ;\n",
            f"{INTAKE} test_gone_on_with",
        ),
        "a job that was looked at in pieces is looked at no further": (
            "scheduler/transition.c",
            "    op->n_steps = 0;\n    drive(s, op);\n",
            "    op->n_steps = 0;\n",
            f"{INTAKE} test_gone_on_with",
        ),
        "what redelivered replies send again is looked for in one call": (
            "scheduler/on_replies.c",
            "    op->alone = item->redelivered; /*",
            "    /*",
            f"{INTAKE} test_redelivered_together",
        ),
    },
    "Indexes are what the records say": {
        "a settled job stays due": (
            FUNCTIONS,
            "  call('ZREM', job.p .. 'due', job.id)\n  call('ZREM', job.p .. 'open', job.id)\n  call('ZADD'",
            "  call('ZREM', job.p .. 'open', job.id)\n  call('ZADD'",
        ),
        "a settled job stays open": (
            FUNCTIONS,
            "  call('ZREM', job.p .. 'due', job.id)\n  call('ZREM', job.p .. 'open', job.id)\n  call('ZADD'",
            "  call('ZREM', job.p .. 'due', job.id)\n  call('ZADD'",
        ),
        "a job that goes on is still listed as failed": (
            FUNCTIONS,
            "  call('ZREM', job.p .. 'failed', job.id)\n  call('ZADD'",
            "  call('ZADD'",
            "tests/integration/test_functions.py Functions.test_what_goes_on_is_not_listed_as_failed",
        ),
        "a field that few jobs have is not read": (
            FUNCTIONS,
            "  if job.plain and rare then\n",
            "  if false then\n",
        ),
        "a bound that was lowered is not written": (
            FUNCTIONS,
            "    changed.due = int(job.due)\n    call('ZADD', job.p .. 'due', changed.due, job.id)\n",
            "    changed.due = int(job.due)\n",
        ),
        "a sweep does not mend a bound": (
            FUNCTIONS,
            "  local wrong = not score or tonumber(score) > job.due or job.due > latest\n",
            "  local wrong = false\n",
            "tests/integration/test_functions.py Functions.test_a_bound_is_mended",
        ),
        "a job is not found by its labels": (
            FUNCTIONS,
            "  for _, label in ipairs(texts_of(labels)) do\n    keys[",
            "  for _, label in ipairs({}) do\n    keys[",
            "tests/integration/test_functions.py Functions.test_retention",
        ),
    },
    "A job's history is numbered without a gap, and capped": {
        "two entries have one number": (
            FUNCTIONS,
            "  local seq, history = job.seq + 1, job.history\n",
            "  local seq, history = job.seq + (event == 'dispatched' and 0 or 1), job.history\n",
        ),
        "an entry is lost": (
            FUNCTIONS,
            "  for first = 1, #job.history, 1000 do\n",
            "  for first = 2, #job.history, 1000 do\n",
        ),
        "a history grows without end": (
            FUNCTIONS,
            "  if length > cap then\n",
            "  if false then\n",
            "tests/integration/test_functions.py Functions.test_the_history_has_an_end",
        ),
    },
    "The history tells of which step an entry is, or that it is of all": {
        "the history names a step that was mended by its number": (
            "common/model/history.c",
            "{\"mended\", \"w\"}",
            "{\"mended\", \"d\"}",
            "tests/unit/test_history test_steps_or_jobs",
        ),
        "the history does not say that a retry was of all steps": (
            "common/model/history.c",
            "{\"retried\", \"w\"}",
            "{\"retried\", \"sd\"}",
            "tests/unit/test_history test_steps_or_jobs",
        ),
    },
    "Who sends what is wrong is told so, and nothing comes of it": {
        "another job by an id that is taken is taken for it": (
            FUNCTIONS,
            "  if call('HGET', job.key, 'digest') ~= digest or is_others(p, job.id, owner) then\n",
            "  if is_others(p, job.id, owner) then\n",
        ),
        "what cannot be read is thrown away": (
            "scheduler/scheduler.c",
            "    op->reason = or_abort(strdup(reason));\n    s->stats.dead_letters++;\n",
            "    op->reason = or_abort(strdup(reason));\n    s->stats.dead_letters++;\n"
            "    if (strncmp(reason, \"MALFORMED\", 9) == 0) {\n        op_unref(s, op);\n"
            "        return;\n    }\n",
        ),
    },
    "Who asks page by page is told of everything, in order, as it is": {
        "a page of a history begins an entry late": (
            "scheduler/history.c",
            "op->job, from, most,",
            "op->job, from + 1, most,",
        ),
        "a page of a list leaves out its last": (
            "common/model/listing.c",
            "    while (sure < l->n && sure < l->limit &&",
            "    while (sure + 1 < l->n && sure < l->limit &&",
        ),
        "an entry of a history tells of another attempt": (
            "common/model/history.c",
            "m->attempt = (uint32_t)number;",
            "m->attempt = (uint32_t)number + 1;",
        ),
        "a list of workflows tells of a step more": (
            "scheduler/list_workflows.c",
            "infos[i].steps = found.items[i].steps;",
            "infos[i].steps = found.items[i].steps + 1;",
        ),
    },
    "A dispatch has a token of its own, and is good for its wait and its lock": {
        "a lease does not begin with the wait": (
            FUNCTIONS,
            "'R', job.now + wait + lease)\n",
            "'R', job.now + lease)\n",
        ),
        "a dispatch has the token of the last one": (
            FUNCTIONS,
            "  rec.token = make_token(i, nonce)\n",
            "  rec.token = rec.token ~= '-' and rec.token or make_token(i, nonce)\n",
        ),
        "a dispatch is no attempt": (
            FUNCTIONS,
            "  rec.attempt = rec.attempt + 1\n",
            "",
        ),
        "a success sets what the job wants, not what was asked": (
            FUNCTIONS,
            "  rec.current, rec.unstarted = rec.asked, 0\n",
            "  rec.current, rec.unstarted = job.desired, 0\n",
        ),
        "a request waits longer than it was given": (
            FUNCTIONS,
            "  local wait, lease = wait_of(t, rec), t.lock\n",
            "  local wait, lease = wait_of(t, rec) + 1000, t.lock\n",
        ),
        "a job does not say who drove it": (
            FUNCTIONS,
            "  if by then\n    changed.locked_by = by\n  end\n",
            "",
            "tests/integration/test_functions.py Functions.test_who_drove_it_last",
        ),
        "a job that waits for its time is somebody's": (
            FUNCTIONS,
            "  save(job, not later and by or nil)\n",
            "  save(job, by)\n",
            "tests/integration/test_functions.py Functions.test_who_drove_it_last",
        ),
    },
    "A reply that says another state than was asked for is a failure, and so is one that is too large": {
        "the undo's success is taken for the do's": (
            FUNCTIONS,
            "  elseif op.kind == rec.asked then\n    on_success",
            "  elseif op.kind == 'A' or op.kind == 'D' then\n    on_success",
            "tests/integration/test_functions.py Functions.test_another_state_is_a_failure",
        ),
        "a permanent failure is transient": (
            "scheduler/on_replies.c",
            "            return OP_PERMANENT;\n        case",
            "            return OP_TRANSIENT;\n        case",
            "tests/integration/test_jobs.py Jobs.test_failures",
        ),
        "a deferral is a failure": (
            "scheduler/on_replies.c",
            "            return OP_DEFERRED;\n",
            "            return OP_TRANSIENT;\n",
            "tests/integration/test_turns.py Turns.test_failures_and_deaths_apart",
        ),
        "a result may be as large as it likes": (
            "scheduler/on_replies.c",
            "    if (!wire_reply_result_fits(m)) {\n",
            "    if (false) {\n",
            "tests/integration/test_bad_input.py BadInput.test_result_too_large",
        ),
        "the results of a job may be as large as they like": (
            FUNCTIONS,
            "  if rec.asked == 'A' and job.bytes + #op.result > DATA_MAX then\n",
            "  if false then\n",
            "tests/integration/test_functions.py Functions.test_no_room_for_more_data",
        ),
        "an agent sends a result that is too large": (
            "agent/replies.c",
            "    if (result->ok && bytes_str(result->content_type).len + result->result.len > WIRE_RESULT_MAX)\n",
            "    if (false)\n",
            f"{AGENT} test_results_are_bounded",
        ),
    },
    "A job begins at its start_at, or as it was told never": {
        "a job begins before its time": (
            FUNCTIONS,
            "  local later, within, complete_by = start_at > now, match",
            "  local later, within, complete_by = false, match",
        ),
        "a job whose time has come is not named": (
            FUNCTIONS,
            "    if not early then\n      put(out, id, '0', '0')\n",
            "    if false then\n      put(out, id, '0', '0')\n",
        ),
        "a job whose time has come is not begun": (
            FUNCTIONS,
            "  if job.phase == 'PENDING' and job.start_at <= now and job.hold == '' then\n",
            "  if false then\n",
        ),
        "a job that is to be DISABLED begins": (
            FUNCTIONS,
            "  if desired ~= 'A' then\n    job.open = 0\n",
            "  if false then\n    job.open = 0\n",
        ),
    },
    "A supervisor looks when the next bound is due, asks for what is owed, and sweeps all": {
        "an owed notice is not asked for": (
            "supervisor/supervisor.c",
            "            notify(s, &expired.owed[i], expired.now);\n",
            "            ;\n",
        ),
        "what is due is not asked for": (
            "supervisor/supervisor.c",
            "            recover(s, &expired.due[i], expired.now);\n",
            "            ;\n",
        ),
        "a supervisor looks once in a period": (
            "supervisor/supervisor.c",
            "    if (expired.head && expired.head - expired.now < sleep)\n",
            "    if (false)\n",
            f"{SUPERVISOR} test_a_lease_ends",
        ),
        "a sweep ends with its first job": (
            "supervisor/supervisor.c",
            "    memcpy(p->sweep, swept.cursor, sizeof(p->sweep));\n",
            "    p->sweep[0] = '\\0';\n",
            f"{SUPERVISOR} test_a_wide_join_is_mended",
        ),
        "a lost call is not made again": (
            "supervisor/supervisor.c",
            "                p->due[c] = s->now + REPEAT_MS;\n",
            "                p->due[c] = INT64_MAX;\n",
        ),
    },
    "An answer over HTTP is what libcurl takes it for": {
        "two blanks before the status of an answer hide it": (
            "agent/handler_http.c",
            "    while (at < end && isblank((unsigned char)*at))\n        at++;\n",
            "    at++;\n",
            "tests/unit/test_http test_blanks_before_the_status",
        ),
    },
    "An agent tries again within the lease as often as its actor says, only what is transient, while there is time": {
        "an agent tries again as often as it likes": (
            "agent/run.c",
            "           run->seen.tries < actor_find(a, run->seen.request->actor)->lease_retries &&\n",
            "",
            f"{AGENT} test_failure_is_reported",
        ),
        "an agent tries again what has failed for good": (
            "agent/run.c",
            "    return transient && run->state",
            "    return !result->ok && run->state",
            f"{AGENT} test_put_off_after_a_failure",
        ),
        "an agent tries again though it will be cut off": (
            "agent/run.c",
            "           wait <= PAUSE_MAX_MS && wait + took < stop_time(a, run) - a->now;\n",
            "           wait <= PAUSE_MAX_MS;\n",
            f"{AGENT} test_retry_when_it_was_asked_for",
        ),
        "an agent keeps a slot for a long pause": (
            "agent/run.c",
            "           wait <= PAUSE_MAX_MS && wait",
            "           wait",
            f"{AGENT} test_no_retry_after_a_long_pause",
        ),
        "an agent's pauses do not grow": (
            "agent/run.c",
            "a->config.retry_ms << doublings;",
            "a->config.retry_ms << (doublings * 0);",
            f"{AGENT} test_retries_within_the_lease",
        ),
        "what is put off hides the failure before": (
            "agent/run.c",
            "    else if (put_off_after_a_failure(run, result))\n",
            "    else if (false && put_off_after_a_failure(run, result))\n",
            f"{AGENT} test_put_off_after_a_failure",
        ),
    },
    "A circuit breaker opens after so many failures, longer each time, and lets one probe through": {
        "a breaker never opens": (
            "agent/breaker.c",
            "    if (!call->probe && ++b->failures < b->config.failures)\n",
            "    if (!call->probe)\n",
            f"{BREAKER} test_opens_after_failures_in_a_row",
        ),
        "a breaker opens at the first failure": (
            "agent/breaker.c",
            "    if (!call->probe && ++b->failures < b->config.failures)\n",
            "    if (false)\n",
            f"{BREAKER} test_opens_after_failures_in_a_row",
        ),
        "all go through once a breaker's time is over": (
            "agent/breaker.c",
            "        b->state = BREAKER_HALF_OPEN;\n",
            "",
            f"{BREAKER} test_one_probe_closes",
        ),
        "a breaker does not open longer each time": (
            "agent/breaker.c",
            "call->probe ? 2 * b->open_ms : b->config.open_ms",
            "b->config.open_ms",
            f"{BREAKER} test_each_failed_probe_doubles",
        ),
        "a success from before closes a breaker": (
            "agent/breaker.c",
            "    if (call->calls != b->calls)\n        return false;\n    b->failures = 0;\n",
            "    b->failures = 0;\n",
            f"{BREAKER} test_a_late_answer_does_not_forgive",
        ),
        "a probe that was given up keeps a breaker shut": (
            "agent/breaker.c",
            "        open_until(b, now);\n",
            "        ;\n",
            f"{BREAKER} test_abandoned_probe",
        ),
    },
    "A breaker counts what shows that its target fails, not what is an answer; while it is open nothing is called": {
        "a program that refuses for good counts against its breaker": (
            "agent/handler_exec.c",
            "    if (result->ok || result->verdict == DROVER__V1__VERDICT__VERDICT_PERMANENT)\n",
            "    if (result->ok)\n",
            "tests/unit/test_exec test_what_a_breaker_counts",
        ),
        "a program that is not wanted any more counts against its breaker": (
            "agent/handler_exec.c",
            "    else if (run->given_up)\n",
            "    else if (false)\n",
            "tests/unit/test_exec test_stopped_run",
        ),
        "a program runs while its breaker is open": (
            "agent/handler_exec.c",
            "&run->call, &run->deferred))\n        return false;\n",
            "&run->call, &run->deferred))\n        ;\n",
            "tests/unit/test_exec test_breaker_opens",
        ),
        "a probe that answers does not close the breaker of a program": (
            "agent/handler_exec.c",
            "        target_answered(&run->call);\n",
            "        target_abandoned(&run->call, clock_monotonic_ms());\n",
            "tests/integration/test_breaker.py Failing.test_program_recovers",
        ),
        "programs have breakers that nobody asked for": (
            "agent/agent_config.c",
            "served->handler == &handler_http ? BREAKER_FAILURES : 0;\n",
            "BREAKER_FAILURES;\n",
            "tests/unit/test_agent_config test_exec_breakers",
        ),
        "all actors share the breakers of their targets": (
            "agent/target.c",
            "    HASH_FIND(hh, targets->by_name, target->actor, size, known);\n",
            "    memset(target->actor, 'a', actor_size - 1);\n"
            "    HASH_FIND(hh, targets->by_name, target->actor, size, known);\n",
            "tests/unit/test_target test_names",
        ),
    },
    "An agent's lease is its own monotonic time from receipt; it runs a request once, and acknowledges it late": {
        "a lease begins with the slot": (
            "agent/run.c",
            "    run->started = a->now;\n    watch_lease(a, run);\n",
            "    run->started = a->now;\n    run->seen.deadline = a->now + request->lock_ms;\n    watch_lease(a, run);\n",
            f"{AGENT} test_waiting_for_a_slot",
        ),
        "a request is acknowledged before its reply": (
            "agent/run.c",
            '                  LOG_I("attempt", request->attempt));\n    }\n    run->state = RUN_REPLYING;\n',
            '                  LOG_I("attempt", request->attempt));\n    }\n    settle(a, run);\n    run->state = RUN_REPLYING;\n',
            f"{AGENT} test_happy_run",
        ),
        "two copies of a request run side by side": (
            "agent/run.c",
            "    if (run) {\n        note_duplicate(a, request);\n        follow(run, d);\n",
            "    if (false) {\n        note_duplicate(a, request);\n        follow(run, d);\n",
            f"{AGENT} test_redelivered_to_the_same_process",
        ),
        "a reply that the broker refused is not sent again": (
            "agent/replies.c",
            "    timer_set(a, &p->again, when < end ? when : end, on_publish_again);\n",
            "    ;\n",
            f"{AGENT} test_returned_reply",
        ),
        "a lease is renewed from when its Progress was confirmed": (
            "agent/run.c",
            "    run->held_until = sent + MACHINE",
            "    run->held_until = a->now + MACHINE",
            f"{AGENT} test_cut_off",
        ),
        "the last reply holds up all behind it": (
            "agent/replies.c",
            "        if (p->n > 0 && (size > limit || is_retry(run) || is_retry(p->runs[0])))\n",
            "        if (false)\n",
            f"{AGENT} test_batches_are_bounded",
        ),
    },
    "A figure counts what it says": {
        "store_repeats counts calls that the store has answered": (
            "scheduler/scheduler.c",
            "    if (heap_set(&s->timers, &op->timer, when))\n        abort();\n}\n\n"
            "static void call_again(struct scheduler *s, struct op *op)\n{\n    s->stats.store_repeats++;\n",
            "    s->stats.store_repeats++;\n    if (heap_set(&s->timers, &op->timer, when))\n        abort();\n}\n\n"
            "static void call_again(struct scheduler *s, struct op *op)\n{\n",
            f"{SUSPECTS} test_copies",
        ),
    },
    "An answer of the store that names what is not there leads nowhere": {
        "the event of an end names a step that is not there": (
            "scheduler/notification.c",
            "        char *name = w && step < w->n_steps ? (char *)w->steps[step].name : NULL;\n",
            "        char *name = (char *)w->steps[step].name;\n",
            f"{INTAKE} test_answers_with_unknown_steps",
        ),
        "the event of a step is one of a step that is not there": (
            "scheduler/event.c",
            "        if (request->step >= w->n_steps)\n            continue;\n",
            "",
            f"{INTAKE} test_answers_with_unknown_steps",
        ),
    },
    "Who gives a command is told what became of it": {
        "a history is asked for from any number on": (
            "scheduler/history.c",
            "q->from_seq < FROM_MAX ? q->from_seq : FROM_MAX;",
            "q->from_seq;",
            "tests/sim/test_questions test_history_from_far_ahead",
        ),
        "nobody is told that a definition is gone": (
            "scheduler/definition.c",
            "        if (op->item->message.type == WIRE_CONTROL)\n",
            "        if (false)\n",
            "tests/sim/test_intake test_definition_lost",
        ),
    },
    "Somebody is to hear of each step that is parked": {
        "what had used up its tries has none after its job has turned": (
            FUNCTIONS,
            "    reset_counts(rec)\n    job.records[i] = rec\n",
            "    job.records[i] = rec\n",
            FUNCTIONS_TEST + "test_tries_after_a_turn",
        ),
    },
    "A scheduler has nothing in hand where all rests": {
        "what led to an alert is kept": (
            "scheduler/alert.c",
            "    op->alert->what = what;\n    op_call(s, op, told_call, told_answered);\n    op_unref(s, op);\n",
            "    op->alert->what = what;\n    op_call(s, op, told_call, told_answered);\n",
        ),
    },
    "An alert is told once for each cause, and anew once that was over": {
        "each scheduler tells the same cause": (
            FUNCTIONS,
            "  elseif not known or by == a[3] then\n",
            "  elseif true then\n",
            f"{SCHEDULER} test_each_outage_is_told",
        ),
        "a cause is never over": (
            "scheduler/alert.c",
            "        cause_report(s, op, alert, w, OPS_CAUSE_OVER);\n",
            "",
            f"{SCHEDULER} test_each_outage_is_told",
        ),
        "nobody hears that an actor has no agent": (
            FUNCTIONS,
            "  if op.kind ~= 'S' then\n    alert(job, i, op.kind == 'N'",
            "  if false then\n    alert(job, i, op.kind == 'N'",
            f"{SCHEDULER} test_each_outage_is_told",
        ),
        "nobody hears of a parked step": (
            FUNCTIONS,
            "    add_alert(job, i, 'PARKED', rec.asked)\n",
            "",
        ),
        "an alert is told once, also by one who dies of it": (
            FUNCTIONS,
            "  add_notification(job, 'ALERT', reason, i == NO_STEP and '' or int(i) .. (asked == 'D' and ' 1' or ' 0'))\n",
            "",
        ),
        "nobody hears that the deadline holds a job": (
            FUNCTIONS,
            "    add_alert(job, NO_STEP, 'DEADLINE')\n",
            "",
        ),
        "the store never knows that an alert was told": (
            "scheduler/alert.c",
            "op->seq > 0         ? notification_published\n               : *op->alert",
            "*op->alert",
        ),
        "an alert that is asked for is not told": (
            "scheduler/notification.c",
            "        tell_alert(s, op, &job, w);\n",
            "        op->then = notification_published;\n",
        ),
        "an alert that is asked for names no step": (
            "scheduler/alert.c",
            "        op->alert->step = number;\n",
            "",
        ),
        "an alert that the broker refuses for an hour is never a dead letter": (
            "scheduler/notification.c",
            "    if (op->undeliverable) {\n        alert_event(s, &m, op);",
            "    if (false) {\n        alert_event(s, &m, op);",
            f"{TOLD} test_undeliverable_alert",
        ),
        "who tells of a cause that the broker refuses keeps its message for ever": (
            "scheduler/alert.c",
            "    if (op->returned)\n        return;\n    op->alert->what",
            "    if (op->returned) {\n        op->returned = false;\n        op->call = alert_again;\n        op->open++;\n"
            "        op_repeat_at(s, op, s->now + MACHINE_REFUSED_AGAIN_MS);\n        return;\n    }\n    op->alert->what",
            f"{SCHEDULER} test_refused",
        ),
    },
    "A request that no queue took is tried again, uncounted, later each time": {
        "a request that no queue took is sent again at once": (
            FUNCTIONS,
            "    local wait = min(t.initial * 2 ^ (rec.unstarted - 1), WAIT_CAP)\n    back_off",
            "    local wait = 0\n    back_off",
            "tests/integration/test_functions.py Functions.test_an_outage_has_waits_of_an_hour",
        ),
        "the wait for a queue has no end": (
            FUNCTIONS,
            "min(t.initial * 2 ^ (rec.unstarted - 1), WAIT_CAP)",
            "t.initial * 2 ^ (rec.unstarted - 1)",
            "tests/integration/test_functions.py Functions.test_an_outage_has_waits_of_an_hour",
        ),
        "the doubled wait has no end": (
            FUNCTIONS,
            "max(t.wait, min(t.wait * 2 ^ rec.unstarted, WAIT_CAP))",
            "t.wait * 2 ^ rec.unstarted",
            "tests/integration/test_functions.py Functions.test_an_outage_has_waits_of_an_hour",
        ),
        "a request waits for ever": (
            "scheduler/dispatch.c",
            "    message->expires = true;\n    message->mandatory",
            "    message->mandatory",
            "tests/integration/test_alerts.py Alerts.test_no_agent_is_one_cause",
        ),
        "nobody hears that no queue took a request": (
            "scheduler/dispatch.c",
            "    message->mandatory = true;\n    message->transient",
            "    message->transient",
            f"{TOLD} test_many_causes",
        ),
        "nobody hears that no queue took a reply": (
            "agent/replies.c",
            "    m->mandatory = true;\n",
            "",
            f"{AGENT} test_returned_reply",
        ),
        "nobody hears that no queue took a notice": (
            "scheduler/notification.c",
            "    message->sender = effects_text(s->out, job->submitter);\n    message->mandatory = true;\n",
            "    message->sender = effects_text(s->out, job->submitter);\n",
            f"{TOLD} test_undeliverable",
        ),
        "nobody hears that no queue took a dead letter": (
            "scheduler/scheduler.c",
            "    m->reason = effects_str(s->out, op->reason);\n    m->mandatory = true;\n",
            "    m->reason = effects_str(s->out, op->reason);\n",
            f"{INTAKE} test_dead_letter_refused",
        ),
    },
    "The body alone suffices, and properties stand in only for what it leaves out": {
        "a property goes before the body": (
            "common/model/wire.c",
            "    if ((*field)[0] != '\\0' || !property",
            "    if (!property",
            f"{WIRE} test_properties_stand_in",
        ),
        "a Submit needs no id": (
            "common/model/wire.c",
            '    if (!check_name(m->job_id, PATH(NULL, "job_id"), problem))\n        return false;\n    if ((m->workflow',
            "    if ((m->workflow",
            f"{WIRE} test_submit",
        ),
        "a message_id is no job's id": (
            "common/model/wire.c",
            "        r = text_default(&m->submit->job_id, p->message_id);\n",
            "",
            f"{WIRE} test_properties_stand_in",
        ),
        "JSON is not known by its first byte": (
            "common/model/wire.c",
            ".json = body.len > 0 && body.data[0] == '{'}",
            ".json = false}",
            f"{WIRE} test_submit",
        ),
        "JSON is answered in protobuf": (
            "scheduler/scheduler.c",
            "    m = op_publish(s, op, body, item->json, NULL);\n",
            "    m = op_publish(s, op, body, false, NULL);\n",
            "tests/integration/test_bad_input.py BadInput.test_answered_in_kind",
        ),
        "unknown fields count": (
            "common/model/wire.c",
            "        unknown_drop(*out);\n",
            "",
            f"{WORKFLOW} test_unknown_fields_are_dropped",
        ),
        "a request does not say outside what it is about": (
            "common/io/bus_publisher.c",
            "    put_text_header(&properties.headers, BUS_STEP_HEADER, m->step);\n",
            "",
            "tests/integration/test_wire.py Wire.test_properties_of_a_request",
        ),
        "a request does not say outside which attempt it is": (
            "common/io/bus_publisher.c",
            "    if (m->attempt > 0)\n",
            "    if (false)\n",
            "tests/integration/test_wire.py Wire.test_properties_of_a_request",
        ),
        "a request says outside that it is another attempt": (
            "scheduler/dispatch.c",
            "    message->attempt = m->attempt;\n",
            "    message->attempt = m->attempt + 1;\n",
        ),
        "a request says outside that it is another job's": (
            "scheduler/dispatch.c",
            "    message->job = effects_str(s->out, m->job_id);\n",
            "    message->job = effects_str(s->out, m->step);\n",
        ),
    },
    "What is malformed is refused with its reason, bounded in size and memory, and takes nothing good along": {
        "a message may be as large as it likes": (
            "common/model/wire.c",
            "    if (body.len <= WIRE_MESSAGE_MAX)\n",
            "    if (true)\n",
            f"{WIRE} test_too_large",
        ),
        "a message takes as much memory as it likes": (
            "common/model/wire.c",
            "    if (size > b->left) {\n",
            "    if (false) {\n",
            f"{WIRE} test_memory_is_bounded",
        ),
        "text need not be UTF-8": (
            "common/model/wire.c",
            "        return wire_utf8_valid(bytes_str(*(char *const *)value)) ||",
            "        return true || wire_utf8_valid(bytes_str(*(char *const *)value)) ||",
            f"{WIRE} test_bad_text_in_one_item",
        ),
        "a number need not be finite": (
            "common/model/wire.c",
            "        return isfinite(*(const double *)value) ||",
            "        return true || isfinite(*(const double *)value) ||",
            f"{WIRE} test_text_and_numbers_of_protobuf",
        ),
        "a reply needs no token": (
            "common/model/wire.c",
            '           check_text_given(token, WIRE_TOKEN_MAX, PATH(where, "token"), problem);\n}\n\nstatic bool results',
            '           check_text(token, WIRE_TOKEN_MAX, PATH(where, "token"), problem);\n}\n\nstatic bool results',
            f"{WIRE} test_reply_items",
        ),
        "a command that changes something needs no command_id": (
            "common/model/wire.c",
            "           (command_repeatable(m) ?",
            "           (true ?",
            f"{WIRE} test_control",
        ),
        "a bad reply takes the good ones behind it along": (
            "scheduler/on_replies.c",
            "        } else {\n            reply(s, item",
            "        } else if (bad == 0) {\n            reply(s, item",
            "tests/integration/test_bad_input.py BadInput.test_bad_among_good",
        ),
        "what is malformed is lost": (
            "scheduler/scheduler.c",
            '    m->exchange = "drover.dead";\n    m->key = "";\n    m->body',
            '    m->exchange = "drover.events";\n    m->key = "";\n    m->body',
            "tests/integration/test_bad_input.py BadInput.test_oversized",
        ),
        "a dead letter has no reason": (
            "scheduler/scheduler.c",
            "    m->reason = effects_str(s->out, op->reason);\n",
            '    m->reason = "";\n',
            "tests/integration/test_bad_input.py BadInput.test_reasons_of_dead_letters",
        ),
    },
    "What is published is persistent, sent until the broker has said what became of it, and told as the broker says": {
        "messages are gone when the broker restarts": (
            "common/io/bus_publisher.c",
            "m->transient ? AMQP_DELIVERY_NONPERSISTENT : AMQP_DELIVERY_PERSISTENT",
            "AMQP_DELIVERY_NONPERSISTENT",
            f"{BUS_BROKER} test_persistent",
        ),
        "what the broker refuses counts as confirmed": (
            "common/io/bus_publisher.c",
            "on_confirm(p, nack->delivery_tag, nack->multiple, false);",
            "on_confirm(p, nack->delivery_tag, nack->multiple, true);",
            f"{BUS} test_nack",
        ),
        "what the broker refuses is sent by nobody, and told to nobody": (
            "common/io/bus_publisher.c",
            "        on_confirm(p, nack->delivery_tag, nack->multiple, false);\n",
            "        (void)nack;\n",
            f"{BUS} test_nack",
        ),
        "a confirm of many counts for the last": (
            "common/io/bus_publisher.c",
            "        if (multiple || m->tag == tag)\n",
            "        if (m->tag == tag)\n",
            f"{BUS} test_closing_flushes",
        ),
        "nothing is mandatory": (
            "common/io/bus_publisher.c",
            "    return m->message.mandatory && !direct_is(m);\n",
            "    return false;\n",
            f"{BUS} test_return",
        ),
        "what no queue took counts as confirmed": (
            "common/io/bus_publisher.c",
            "!m->returned ? BUS_CONFIRMED : m->resent",
            "true ? BUS_CONFIRMED : m->resent",
            f"{BUS} test_return",
        ),
        "an answer to a direct reply-to is mandatory": (
            "common/io/bus_publisher.c",
            "    return m->message.mandatory && !direct_is(m);\n",
            "    return m->message.mandatory;\n",
            f"{BUS} test_direct_reply",
        ),
        "what no queue takes when it is sent again is told as if it never had": (
            "common/io/bus_publisher.c",
            "    m->resent = m->sent;\n",
            "    m->resent = false;\n",
            f"{BUS_BROKER} test_frozen_broker",
        ),
        "what was on the wire when the connection broke is not sent again": (
            "common/io/bus_publisher.c",
            "    list_move_all(&p->wire, &p->waiting);\n    list_move_all(&p->waiting, &p->wire);\n",
            "    while (!list_empty(&p->wire))\n        settle(p, first(&p->wire), BUS_CONFIRMED);\n",
            f"{BUS_BROKER} test_frozen_broker",
        ),
        "a confirm that does not come is waited for": (
            "common/io/bus_publisher.c",
            "    if (!m || p->link.blocked)\n",
            "    if (!m || p->link.blocked || true)\n",
            f"{BUS_CONFIRMS} test_no_confirms",
        ),
        "a confirm that does not come is waited for while others do": (
            "common/io/bus_publisher.c",
            "        if (m->passed || p->heard",
            "        if (p->heard",
            f"{BUS_CONFIRMS} test_one_confirm_missing",
        ),
        "a confirm is waited for as long as others come": (
            "common/io/bus_publisher.c",
            " || m->wired <= now - LONGEST * (int64_t)confirm_ms)",
            ")",
            f"{BUS_CONFIRMS} test_confirm_missing_of_one_place",
        ),
        "a confirm that an alarm holds up counts as missing": (
            "common/io/bus_publisher.c",
            "        p->held_up = now;\n",
            "        p->held_up = 0;\n",
            f"{BUS_CONFIRMS} test_alarm_takes_long",
        ),
        "a message that the broker closes the channel over is sent again and again": (
            "common/io/bus_publisher.c",
            "    blame(p);\n",
            "    if (false)\n        blame(p);\n",
            f"{BUS} test_missing_exchange",
        ),
        "what is past its time is sent": (
            "common/io/bus_publisher.c",
            "    if (m->message.not_after && now >= m->message.not_after) {",
            "    if (false) {",
            f"{BUS} test_not_after",
        ),
        "a request does not expire at the broker": (
            "common/io/bus_publisher.c",
            "    if (m->expires) {\n",
            "    if (false) {\n",
            f"{BUS} test_expiration",
        ),
        "a request that no queue takes is lost": (
            "scheduler/dispatch.c",
            "    message->mandatory = true;\n",
            "",
        ),
        "a request waits for an agent for ever": (
            "scheduler/dispatch.c",
            "    message->expires = true;\n",
            "",
        ),
        "what expires in a task queue is lost": (
            "common/io/bus_topology.c",
            "declare_queue(link, channel, name, EXPIRED_EXCHANGE, false);",
            "declare_queue(link, channel, name, NULL, false);",
            f"{BUS} test_expiration",
        ),
        "queues are gone when the broker restarts": (
            "common/io/bus_topology.c",
            "text(name), passive, 1, 0, 0, arguments);",
            "text(name), passive, 0, 0, 0, arguments);",
            f"{BUS_BROKER} test_persistent",
        ),
        "events cannot be listened to by a pattern": (
            "common/io/bus_topology.c",
            "{\"drover.events\", \"topic\"}",
            "{\"drover.events\", \"direct\"}",
            "tests/integration/test_jobs.py Jobs.test_events",
        ),
    },
    "What is delivered is acknowledged on the connection that it came over, in time for the next": {
        "an ack of an earlier connection is sent on the next": (
            "common/io/bus_consumer.c",
            "    return handle >> HANDLE_TAG_BITS == (c->epoch & HANDLE_EPOCH_MASK);\n",
            "    return c->epoch > 0;\n",
            f"{BUS} test_old_acks_are_void",
        ),
        "an ack takes along what is still open": (
            "common/io/bus_consumer.c",
            "        r = send_ack(c, tag, false);\n",
            "        r = send_ack(c, tag, true);\n",
            f"{BUS} test_acks_out_of_order",
        ),
        "what is given back is gone": (
            "common/io/bus_consumer.c",
            ".requeue = true",
            ".requeue = false",
            f"{BUS} test_requeue",
        ),
        "nobody keeps to the prefetch": (
            "common/io/bus_consumer.c",
            "amqp_basic_qos(link->amqp, BUS_CHANNEL, 0, config->prefetch, 0);",
            "amqp_basic_qos(link->amqp, BUS_CHANNEL, 0, 0, 0);",
            f"{BUS} test_prefetch",
        ),
        "nothing is acknowledged in an alarm": (
            "common/io/bus.c",
            "    bus->stats.acked++;\n    hand_over_later(bus);\n",
            "    bus->stats.acked++;\n    if (!bus->stats.blocked)\n        hand_over_later(bus);\n",
            f"{BUS_CONFIRMS} test_alarm_drains",
        ),
        "acks wait for others for ever": (
            "common/io/bus.c",
            "        uv_timer_start(&bus->ack_timer, on_acks_due, BUS_ACK_MS, 0);\n",
            "        (void)on_acks_due;\n",
            f"{BUS} test_ack_alone",
        ),
        "acks that wait are lost with a bus that closes": (
            "common/io/bus.c",
            "bus->acks_due || bus->state != BUS_RUNNING ||",
            "bus->acks_due ||",
            f"{BUS} test_close_gives_back",
        ),
        "an order that comes as a connection is given up keeps it": (
            "common/io/bus_lend.c",
            "    if (r)\n        link->shared.came_to = r;",
            "    link->shared.came_to = r;",
            f"{BUS} test_cancelled_and_ordered",
        ),
        "nothing is lent to the loop": (
            "common/io/bus_lend.c",
            "lent = may && bus->lends",
            "lent = false && bus->lends",
            f"{BUS} test_who_drives",
        ),
        "a queue that is gone is consumed no more": (
            "common/io/bus_consumer.c",
            "        return link_fail(link, LINK_E_LOST, \"queue %.*s is gone\", (int)cancel->consumer_tag.len,\n"
            "                         (const char *)cancel->consumer_tag.bytes);\n",
            "        (void)cancel;\n        return 0;\n",
            f"{BUS} test_consumer_cancelled",
        ),
        "nobody is told that a queue is gone": (
            "common/io/bus_connect.c",
            "        table_yes(\"consumer_cancel_notify\"),\n",
            "",
            f"{BUS} test_consumer_cancelled",
        ),
        "a body ends with its first frame": (
            "common/io/bus_send.c",
            "body = bytes_of(body.data + len, body.len - len)",
            "body = BYTES_EMPTY",
            f"{BUS} test_bodies",
        ),
        "what a socket had no room for is lost": (
            "common/io/bus_send.c",
            "            link->written += (size_t)n;\n",
            "            link->written = link->out.len;\n",
            f"{BUS_BROKER} test_full_socket",
        ),
        "what the loop could not write is written by nobody": (
            "common/io/bus_link.c",
            "        r = send_flush(link); /* what the socket had no room for while the loop had it */\n",
            "        send_forget(link);\n        r = 0;\n",
            f"{BUS_BROKER} test_full_socket",
        ),
        "the loop waits for a socket that is full": (
            "common/io/bus_send.c",
            "errno == EAGAIN && link->in_loop",
            "false",
            f"{BUS_BROKER} test_full_socket",
        ),
        "the loop keeps what waits for the broker": (
            "common/io/bus_lend.c",
            "link->full || link->role->waits(link)",
            "link->full",
            f"{BUS} test_task_queue_is_declared",
        ),
        "a link in the loop is not looked after": (
            "common/io/bus.c",
            "    link_drive(&bus->publisher.link);\n    link_drive(&bus->consumer.link);\n",
            "",
            f"{BUS_BROKER} test_frozen_broker",
        ),
        "what is too large is read whole": (
            "common/io/bus_frame.c",
            "incoming_new(properties, a->actor, oversize ? limit : (size_t)a->left)",
            "incoming_new(properties, a->actor, (size_t)a->left)",
            f"{BUS} test_oversize",
        ),
        "what was cut off counts as whole": (
            "common/io/bus_frame.c",
            "    a->incoming->delivery.oversize = oversize;\n",
            "",
            f"{BUS} test_oversize",
        ),
        "who wants no more goes on consuming": (
            "common/io/bus_consumer.c",
            "    if (c->stopping && !c->stopped)\n",
            "    if (false)\n",
            f"{BUS} test_stop_consuming",
        ),
    },
    "A call of the store has one answer, its own; where there is none nobody knows what it did": {
        "an answer goes to the newest call": (
            "common/io/store.c",
            "    call = list_entry(s->calls.next, struct call, node);\n    s->failures = 0;",
            "    call = list_entry(s->calls.prev, struct call, node);\n    s->failures = 0;",
            f"{STORE} test_each_call_has_its_answer",
        ),
        "what was under way when the connection broke is never answered": (
            "common/io/store.c",
            "    move_all(&s->lost, &s->calls);\n",
            "    for (struct list *l; (l = list_pop(&s->calls));)\n"
            "        free(list_entry(l, struct call, node));\n",
            f"{STORE} test_killed_in_mid_call",
        ),
        "what was under way when the connection broke counts as refused": (
            "common/io/store.c",
            "    static const struct store_answer unknown = {.result = STORE_UNKNOWN};\n"
            "    struct list lost = LIST_INIT(lost);\n",
            "    static const struct store_answer unknown = {.result = STORE_ERROR};\n"
            "    struct list lost = LIST_INIT(lost);\n",
            f"{STORE} test_killed_in_mid_call",
        ),
        "an answer is waited for without end": (
            "common/io/store.c",
            "        lose(s, \"Redis does not answer in time\");\n}\n",
            "        timer_set(s, (uint64_t)s->config.call_timeout_ms);\n}\n",
            f"{STORE} test_no_answer_in_time",
        ),
        "what is called while there is no connection waits for one": (
            "common/io/store.c",
            "    list_append(sent ? &s->calls : &s->lost, &take(call)->node);\n",
            "    list_append(&s->calls, &take(call)->node);\n",
            f"{STORE} test_before_up_is_unknown",
        ),
        "a full store counts as one that failed": (
            "common/io/store.c",
            "resp_is_error(reply, \"OOM\") ? STORE_OOM : STORE_ERROR;",
            "STORE_ERROR;",
            f"{STORE} test_out_of_memory",
        ),
    },
    "The store knows the newest library, however often it loses it, and keeps its partitions": {
        "an older library replaces a newer one": (
            "common/io/store_check.c",
            "        return e->build < own_build(e) && !e->config->read_only;",
            "        return e->build != own_build(e) && !e->config->read_only;",
            f"{STORE} test_newest_build_stays",
        ),
        "a newer library does not replace an older one": (
            "common/io/store_check.c",
            "        return e->build < own_build(e) && !e->config->read_only;",
            "        return e->build == 0 && !e->config->read_only;",
            f"{STORE} test_newest_build_stays",
        ),
        "a library that is lost is not loaded again": (
            "common/io/store.c",
            '"READONLY", "LOADING", "MASTERDOWN", "NOAUTH", "ERR Function not found",',
            '"READONLY", "LOADING", "MASTERDOWN", "NOAUTH",',
            f"{STORE} test_library_lost",
        ),
        "who only reads goes by another library": (
            "common/io/store_check.c",
            "    if (e->config->read_only && e->build != own_build(e))",
            "    if (false)",
            f"{STORE_CHECK} test_read_only",
        ),
        "the settings say how many partitions there are, whatever there is": (
            "common/io/store_check.c",
            "    e->partitions = (uint32_t)partitions;\n",
            "    e->partitions = e->config->partitions;\n",
            f"{STORE} test_two_at_first_start",
        ),
        "a store with other partitions than before is taken for the same": (
            "common/io/store_check.c",
            "    if (e->config->known && partitions != e->config->known)",
            "    if (false)",
            f"{STORE_CHECK} test_meta",
        ),
        "whoever comes second says how many partitions there are": (
            "common/io/store_check.c",
            "    \"if redis.call('EXISTS', KEYS[1]) == 0 then \"",
            "    \"if true then \"",
            f"{STORE} test_two_at_first_start",
        ),
        "jobs of another schema are read": (
            "common/io/store_check.c",
            "    if (!bytes_is(reply->items[1], TEXT(STORE_SCHEMA)))",
            "    if (false)",
            f"{STORE_CHECK} test_meta",
        ),
        "a store that evicts is used": (
            "common/io/store_check.c",
            "    if (policy[0] && strcmp(policy, \"noeviction\") != 0)",
            "    if (false)",
            f"{STORE_CHECK} test_servers",
        ),
    },
    "An answer goes to a queue of the sender's own": {
        "an answer goes to a queue of Drover's": (
            "common/model/reply_to.c",
            ' && strncmp(reply_to, "drover.", 7) != 0',
            "",
            f"{WIRE} test_submit",
        ),
        "a refused reply_to hears the refusal": (
            "common/model/wire.c",
            "    text_put(reply_to_of(m), (char *)protobuf_c_empty_string);\n",
            "",
            f"{WIRE} test_bad_reply_to_is_emptied",
        ),
    },
    "A request carries the results that its step takes, what it was told before, and its counts": {
        "a step takes the results of all that come before": (
            "common/model/workflow.c",
            "    } else if (!m->take_none && m->n_after <= WIRE_TAKE_DEFAULT_MAX) {\n",
            "    } else {\n",
            f"{WORKFLOW} test_diamond",
        ),
        "a request carries no results": (
            "scheduler/transition.c",
            "    set_results(s, &m, transition, c, w, step);\n    set_forward",
            "    set_forward",
            "tests/integration/test_jobs.py Jobs.test_diamond",
        ),
        "a request does not tell the last error": (
            "scheduler/transition.c",
            "    m.last_error = last;\n",
            "",
            "tests/integration/test_wire.py Wire.test_text",
        ),
        "a request tells no failures": (
            "scheduler/transition.c",
            "    m->failures = r->failures;\n",
            "",
            "tests/integration/test_behaviours.py Behaviours.test_compensation_is_retried",
        ),
        "a request has no labels": (
            "scheduler/transition.c",
            "        m.n_labels = c->labels->n_labels;\n",
            "        m.n_labels = 0;\n",
        ),
        "a request has no traceparent": (
            "scheduler/transition.c",
            "    m.traceparent = c->traceparent;\n",
            "",
        ),
        "a request carries no input": (
            "scheduler/transition.c",
            "    m.input = c->input;\n",
            "",
        ),
        "a request says that it is the first attempt": (
            "scheduler/transition.c",
            "    m->attempt = r->attempt;\n",
            "    m->attempt = 1;\n",
        ),
        "a request says that it is of the first turn": (
            "scheduler/transition.c",
            "    m->turn = r->turn;\n",
            "    m->turn = 1;\n",
        ),
        "an undo is to do what the do was": (
            "scheduler/transition.c",
            "    m->action = (char *)d->action;\n",
            "    m->action = (char *)step->forward.action;\n",
        ),
    },
    "A notice is owed until the broker has it; a queue that is gone is tried five times in an hour": {
        "a notice that found no queue counts as told": (
            "scheduler/scheduler.c",
            "        op->returned |= !part->optional;\n        if (part->token[0] &&",
            "        op->returned |= outcome == BUS_NACKED || part->token[0];\n        if (part->token[0] &&",
        ),
        "a notice that came back counts as told": (
            "scheduler/notification.c",
            "    } else if (!op->returned) {\n        op_call(s, op, settle_call",
            "    } else if (true) {\n        op_call(s, op, settle_call",
        ),
        "a queue that is gone is tried for ever": (
            "scheduler/notification.c",
            "op->notifications + 1 >= MACHINE_NOTIFICATION_TRIES) {",
            "op->notifications + 1 >= 1000) {",
            "tests/integration/test_bad_input.py BadInput.test_reply_to_a_queue_that_is_gone",
        ),
        "a queue that is gone is tried once": (
            "scheduler/notification.c",
            "op->notifications + 1 >= MACHINE_NOTIFICATION_TRIES) {",
            "op->notifications + 1 >= 1) {",
        ),
        "what is asked for again counts for all that a job owes": (
            FUNCTIONS,
            "'HINCRBY', p .. 'data:' .. id, 'n' .. seq, 1)",
            "'HINCRBY', p .. 'data:' .. id, 'n', 1)",
            "tests/integration/test_functions.py Functions.test_each_notice_has_its_tries",
        ),
        "a notice has no number": (
            "scheduler/notification.c",
            "    m->seq = op->seq;\n",
            "",
        ),
        "step events come though nobody asked": (
            "scheduler/event.c",
            "    if (!transition->step_events || transition->n_requests == 0)\n",
            "    if (transition->n_requests == 0)\n",
            "tests/integration/test_jobs.py Jobs.test_events",
        ),
        "results that do not fit are not named": (
            FUNCTIONS,
            "    local fits = size <= room\n",
            "    local fits = true\n",
            "tests/integration/test_functions.py Functions.test_a_notice_has_a_limit",
        ),
        "what is told once is told for ever": (
            FUNCTIONS,
            "    call('ZREM', p .. 'owed', a[k] .. ' ' .. a[k + 1])\n    if",
            "    if",
        ),
    },
    "A policy's more particular part wins, and only what makes sense is accepted": {
        "a workflow's policy goes before a step's": (
            "common/model/policy.c",
            "    policy_overlay(out, workflow);\n    policy_overlay(out, step);\n",
            "    policy_overlay(out, step);\n    policy_overlay(out, workflow);\n",
            f"{POLICY} test_the_more_particular_wins",
        ),
        "an undo has no policy of its own": (
            "common/model/policy.c",
            "    policy_overlay(out, revert);\n",
            "",
            f"{POLICY} test_the_more_particular_wins",
        ),
        "waits may shrink": (
            "common/model/policy.c",
            "!(coefficient >= 1 && coefficient",
            "!(coefficient >= 0 && coefficient",
            f"{POLICY} test_refused",
        ),
        "jitter may be more than the wait": (
            "common/model/policy.c",
            "    return m->jitter <= 1 ||",
            "    return m->jitter <= 100 ||",
            f"{POLICY} test_refused",
        ),
        "the longest wait may be less than the first": (
            "common/model/policy.c",
            "    if (out->maximum_interval_ms < out->initial_interval_ms)\n        out->maximum_interval_ms = out->initial_interval_ms;\n",
            "",
            f"{POLICY} test_a_long_first_wait_raises_an_inherited_maximum",
        ),
        "what nobody says is tried once": (
            "common/model/policy.c",
            "        .maximum_attempts = POLICY_MAXIMUM_ATTEMPTS,\n",
            "        .maximum_attempts = 1,\n",
            f"{POLICY} test_defaults",
        ),
        "what nobody says is given up for good": (
            "common/model/policy.c",
            "        .on_exhausted = DROVER__V1__RECOURSE__RECOURSE_PARK,\n",
            "        .on_exhausted = DROVER__V1__RECOURSE__RECOURSE_FAIL,\n",
            f"{POLICY} test_defaults",
        ),
        "what nobody says does not compensate": (
            "common/model/policy.c",
            "        .on_permanent = DROVER__V1__RECOURSE__RECOURSE_COMPENSATE,\n",
            "        .on_permanent = DROVER__V1__RECOURSE__RECOURSE_PARK,\n",
            f"{POLICY} test_defaults",
        ),
        "what nobody says may die as often as it may fail": (
            "common/model/policy.c",
            "        .maximum_expiries = POLICY_MAXIMUM_EXPIRIES,\n",
            "        .maximum_expiries = POLICY_MAXIMUM_ATTEMPTS,\n",
            f"{POLICY} test_defaults",
        ),
    },
    "A full store takes no new work, and carries on with the old": {
        "a full store takes new work": (
            FUNCTIONS,
            "register('define', define, {})\nregister('submit', submit, {})",
            "register('define', define, {'allow-oom'})\nregister('submit', submit, {'allow-oom'})",
            "tests/integration/test_bad_input.py Full.test_store_is_full",
        ),
        "a Submit that may have been recorded is refused": (
            "scheduler/on_submit.c",
            "op->on_full = d->redelivered && !op->item->large ? NULL : retry_later;",
            "op->on_full = retry_later;",
            f"{SCHEDULER} test_full_store",
        ),
        "a Submit whose answer was lost is refused": (
            "scheduler/scheduler.c",
            "            op->on_full = NULL; /* the job",
            "            /* the job",
            f"{SCHEDULER} test_full_store",
        ),
        "a full store records no replies": (
            FUNCTIONS,
            "register('record', record, {'allow-oom'})",
            "register('record', record, {})",
            f"{SCHEDULER} test_full_store_carries_on",
        ),
        "a full store ends no leases": (
            FUNCTIONS,
            "register('expire', expire, {'allow-oom'})",
            "register('expire', expire, {})",
            f"{SCHEDULER} test_full_store_carries_on",
        ),
        "a full store drives nothing": (
            FUNCTIONS,
            "register('drive', drive_job, {'allow-oom'})",
            "register('drive', drive_job, {})",
            f"{SCHEDULER} test_full_store_carries_on",
        ),
        "a full store takes no commands": (
            FUNCTIONS,
            "register('steer', steer, {'allow-oom'})",
            "register('steer', steer, {})",
            f"{SCHEDULER} test_full_store_carries_on",
        ),
        "a full store owes notices for ever": (
            FUNCTIONS,
            "register('settle_owed', settle_owed, {'allow-oom'})",
            "register('settle_owed', settle_owed, {})",
            f"{SCHEDULER} test_full_store_carries_on",
        ),
        "a full store renews no leases": (
            FUNCTIONS,
            "register('renew', renew, {'allow-oom'})",
            "register('renew', renew, {})",
            "tests/integration/test_functions.py Functions.test_a_full_store_refuses_what_is_new",
        ),
        "a full store has no supervisor": (
            FUNCTIONS,
            "register('lead', lead, {'allow-oom'})",
            "register('lead', lead, {})",
            "tests/integration/test_functions.py Functions.test_a_full_store_refuses_what_is_new",
        ),
        "a full store tells the same again and again": (
            FUNCTIONS,
            "register('told', told, {'allow-oom'})",
            "register('told', told, {})",
            "tests/integration/test_functions.py Functions.test_a_full_store_refuses_what_is_new",
        ),
    },
    "Requests wait where too many, or too much, has not been confirmed": {
        "requests do not wait for those before": (
            "scheduler/transition.c",
            "    return HASH_COUNT(s->publishes) < s->most_unconfirmed &&\n           ",
            "    return ",
            f"{INTAKE} test_unconfirmed",
        ),
        "requests do not wait for large ones before": (
            "scheduler/transition.c",
            " &&\n           s->unconfirmed_bytes < MACHINE_UNCONFIRMED_BYTES;",
            ";",
            f"{INTAKE} test_unconfirmed_bytes",
        ),
        "requests that waited for room are never sent": (
            "scheduler/scheduler.c",
            "    free(p);\n    transition_resume_stalled(s);\n",
            "    free(p);\n",
            f"{INTAKE} test_unconfirmed",
        ),
        "requests that wait while a job migrates are sent by the version that it was to get": (
            "scheduler/transition.c",
            "    workflow_unref(op->workflow);\n    op->workflow = w;\n    op->open++;\n",
            "    if (op->workflow)\n        workflow_unref(w);\n    else\n        op->workflow = w;\n    op->open++;\n",
            f"{INTAKE} test_migrated_while_a_request_waits",
        ),
    },
    "Who runs out of memory ends, and does nothing by halves": {
        "out of memory a reply is recorded without its result": (
            "scheduler/on_replies.c",
            "    op->record.result = buf_or_abort(&op->buf);\n",
            "    op->record.result = buf_bytes(&op->buf);\n",
            f"{FAILURES} chain/allocation",
        ),
        "out of memory a Submit is recorded under another digest": (
            "scheduler/on_submit.c",
            "    id_digest(buf_or_abort(&text), out);\n",
            "    id_digest(buf_bytes(&text), out);\n",
            f"{FAILURES} chain/allocation",
        ),
        "out of memory a Submit is recorded without its input": (
            "scheduler/on_submit.c",
            ".input = buf_or_abort(&op->buf),",
            ".input = buf_bytes(&op->buf),",
            f"{FAILURES} chain/allocation",
        ),
        "out of memory a request is sent without what it is to carry": (
            "common/model/store_ops.c",
            "    return or_abort(malloc(size));\n",
            "    return malloc(size);\n",
            f"{FAILURES} chain/allocation",
        ),
        "out of memory a definition counts as lost": (
            "scheduler/definition.c",
            "    if (result == -ENOMEM)\n        abort();\n    if (result) {\n        log_error(\"definition_lost\"",
            "    if (result) {\n        log_error(\"definition_lost\"",
            f"{FAILURES} chain/allocation",
        ),
        "out of memory a hash table exits": (
            "common/base/hash.h",
            "#define uthash_fatal(message) abort()",
            "#define uthash_fatal(message) exit(-1)",
            f"{FAILURES} chain/allocation",
        ),
        "out of memory a string of JSON counts as bad syntax": (
            "common/model/json.c",
            "    return *out ? 0 : starved ? -ENOMEM : JSON_E_SYNTAX;\n",
            "    return *out ? 0 : error && error->text[0] == '\\0' ? -ENOMEM : JSON_E_SYNTAX;\n",
            "tests/unit/test_memory test_messages",
        ),
        "how jansson gets memory is set anew with each parse": (
            "common/model/json.c",
            "    starved = false;\n",
            "    json_set_alloc_funcs(watched_malloc, free);\n    starved = false;\n",
            "tests/unit/test_json test_parsing_leaves_jansson_its_memory",
        ),
        "out of memory a value is left out of a template": (
            "agent/template.c",
            "    put_encoded(out, buf_or_abort(&text));\n",
            "    put_encoded(out, buf_bytes(&text));\n",
            "tests/unit/test_memory test_templates",
        ),
    },
    "A job remembers its last commands": {
        "a job remembers one command": (
            FUNCTIONS,
            "local COMMANDS_KEPT = 16 ",
            "local COMMANDS_KEPT = 1 ",
        ),
    },
    "The end of a job lays timers down, and no flight": {
        "the end of a job lays its flights down": (
            FUNCTIONS,
            "    if rec.state ~= 'R' and rec.state ~= 'F' then\n        set_state",
            "    if rec.state ~= 'F' then\n        set_state",
        ),
    },
    "Settings are files that can be read, else they are refused; SIGHUP reads them again, and ends nothing": {
        "a file that cannot be read on is left to libconfig": (
            "common/io/config_tree.c",
            "    return file_read(path, FILE_MAX, &text, problem);\n",
            "    return 0;\n",
            "tests/unit/test_config test_reads_that_fail",
        ),
        "a password from a file that cannot be read is empty": (
            "common/io/config.c",
            "    if (r)\n        return origin_problem(o, problem, \"%s: %s\", file, strerror(-r));\n",
            "    if (r == -ENOENT)\n        return origin_problem(o, problem, \"%s: %s\", file, strerror(-r));\n",
            "tests/unit/test_config test_secret_that_cannot_be_read",
        ),
        "a file whose name is - is the standard input": (
            "common/io/file.c",
            "    int fd = open(path, O_RDONLY | O_CLOEXEC);\n",
            "    int fd = strcmp(path, \"-\") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);\n",
            "tests/unit/test_config test_standard_input_is_no_file",
        ),
        "SIGHUP ends a daemon": (
            "common/io/daemon.c",
            "    watch(d, &d->hangup, on_hangup, SIGHUP);\n",
            "    uv_signal_init(&d->loop, &d->hangup);\n    signal(SIGHUP, SIG_DFL);\n    (void)on_hangup;\n",
            "tests/integration/test_reload.py Reload.test_refused",
        ),
    },
    "Failpoints are off unless they are allowed, and each fires at its boundary as often as its terms say": {
        "failpoints need no leave": (
            "common/io/failpoint.c",
            "    if (!allow || strcmp(allow, \"1\") != 0) {\n",
            "    if (false) {\n",
            "tests/integration/test_failpoints.py Forbidden",
        ),
        "a failpoint fires for ever": (
            "common/io/failpoint.c",
            "        t->left--;\n",
            "        ;\n",
            "tests/unit/test_failpoint test_counts",
        ),
        "a failpoint fires for any message": (
            "common/io/failpoint.c",
            "    if (t->left == 0 || (t->payload[0] && !contains(payload, n, t->payload)))\n",
            "    if (t->left == 0)\n",
            "tests/unit/test_failpoint test_payload",
        ),
    },
    "why names, for each step that does not move, what it waits for": {
        "why does not see that nobody reads a queue": (
            "cli/why.c",
            "    return queue && queue->consumers == 0 && !step->begun &&\n"
            "           (queue->messages > 0 || step->unstarted > 0);\n",
            "    return false;\n",
            "tests/integration/test_why.py Why.test_no_agent",
        ),
        "why forgets who holds a job": (
            "cli/why.c",
            "    if (*job->held_by) {\n",
            "    if (false) {\n",
            "tests/integration/test_why.py Why.test_held",
        ),
        "why does not name what a step waits for": (
            "cli/why.c",
            "    if (a->waits++ < NAMES_SHOWN)\n",
            "    if (false)\n",
            "tests/integration/test_why.py Why.test_on_its_way",
        ),
        "why does not see that no scheduler consumes": (
            "cli/why.c",
            "    if (control.consumers == 0) {\n        say_schedulers",
            "    if (false) {\n        say_schedulers",
            "tests/integration/test_why.py Why.test_no_scheduler",
        ),
    },
    "Short requests travel in batches, and what is slow alone": {
        "no more than the agent takes is not heeded": (
            "scheduler/dispatch.c",
            "    batch_limit_update(t, m->batch);\n",
            "    batch_limit_update(t, WIRE_BATCH_MAX);\n",
            f"{DISPATCH} test_as_many_as_the_agent_takes",
        ),
        "an agent that says nothing gets several": (
            "scheduler/dispatch.c",
            "    if (batch < t->batch || t->since",
            "    if ((batch > 0 && batch < t->batch) || t->since",
            f"{DISPATCH} test_alone_where_nothing_is_said",
        ),
        "a slow run does not count": (
            "scheduler/dispatch.c",
            "    if (t->took_us < took_us)\n",
            "    if (t->took_us < took_us && took_us < 100000)\n",
            f"{DISPATCH} test_a_slow_one_is_remembered",
        ),
        "a slow run counts for ever": (
            "scheduler/dispatch.c",
            "    t->took_us -= t->took_us / MACHINE_SERVICE_TIME_FADES;\n",
            "",
            f"{DISPATCH} test_a_slow_one_is_remembered",
        ),
        "a slow failure does not count": (
            "scheduler/dispatch.c",
            "    if (m->error || m->achieved == DROVER__V1__STATE__STATE_ACTIVE)",
            "    if (m->achieved == DROVER__V1__STATE__STATE_ACTIVE)",
            f"{DISPATCH} test_a_slow_failure_is_remembered",
        ),
        "what fails fast is fast": (
            "scheduler/dispatch.c",
            "    if (!m->error) /* an action that fails fast need not be fast */\n",
            "    if (true)\n",
            f"{DISPATCH} test_what_fails_fast_is_not_fast",
        ),
        "the agent that takes the least is forgotten at once": (
            "scheduler/dispatch.c",
            "|| t->since++ >= MACHINE_SERVICE_TIME_KEEPS",
            "|| true",
            f"{DISPATCH} test_as_many_as_the_agent_takes",
        ),
        "one action too many is known": (
            "scheduler/dispatch.c",
            "    if (HASH_COUNT(s->service_times) >= MACHINE_SERVICE_TIMES_MAX) {\n",
            "    if (HASH_COUNT(s->service_times) > MACHINE_SERVICE_TIMES_MAX) {\n",
            f"{DISPATCH} test_a_thousand_actions_are_known",
        ),
        "a message holds eight, whatever they take": (
            "scheduler/dispatch.c",
            "    room = t->took_us ? ",
            "    room = false ? ",
            f"{DISPATCH} test_as_much_work_as_is_short",
        ),
        "a message holds as much work, however few are begun at once": (
            "scheduler/dispatch.c",
            "most * MACHINE_BATCH_US / t->took_us",
            "WIRE_BATCH_MAX * MACHINE_BATCH_US / t->took_us",
            f"{DISPATCH} test_as_much_work_as_is_begun_at_once",
        ),
        "a message holds as many as the last of them has room for": (
            "scheduler/dispatch.c",
            "    b->room = room < b->room ? room : b->room;\n",
            "    b->room = room;\n",
            f"{DISPATCH} test_the_least_of_all_in_a_message",
        ),
        "another try travels with others": (
            "scheduler/transition.c",
            "    return r->attempt == 1 && d->policy",
            "    return d->policy",
            f"{DISPATCH} test_what_comes_back_travels_alone",
        ),
        "what may die once travels with others": (
            "scheduler/transition.c",
            "d->policy.maximum_expiries > 1 ? DISPATCH_FIRST",
            "true ? DISPATCH_FIRST",
            f"{DISPATCH} test_who_may_die_once_travels_alone",
        ),
        "what came back is lost with whoever recorded it": (
            FUNCTIONS,
            "op.retry_after < AT_ONCE and rec.state == 'R' and rec.attempt == 2",
            "op.retry_after < AT_ONCE and rec.state == 'R' and rec.attempt == 0",
            f"{DISPATCH} test_what_comes_back_is_not_lost",
        ),
        "a deferral nobody heard of is taken for one that was recorded": (
            FUNCTIONS,
            "      and was_deferred(job, i, op.token)",
            "",
            "tests/integration/test_functions.py Functions.test_a_deferral_that_comes_too_late",
        ),
        "what is done of a message comes again with what is not": (
            "agent/run.c",
            "(run->delivery->acked || is_batched(run))",
            "run->delivery->acked",
            f"{AGENT} test_batch_while_draining",
        ),
        "of a message that comes back one request is recorded": (
            "scheduler/scheduler.c",
            "    for (unsigned i = 0; i < p->n; i++)\n        part_told(",
            "    for (unsigned i = 0; i < p->n && i < 1; i++)\n        part_told(",
            f"{DISPATCH} test_returned_together",
        ),
        "a chain alone waits for others that does not come": (
            "common/base/pace.c",
            "bool little = p->came <= p->few && p->before <= p->few;",
            "bool little = false;",
            "tests/unit/test_base test_pace_of_little",
        ),
        "much is little when a window begins": (
            "common/base/pace.c",
            "p->came <= p->few && p->before <= p->few",
            "p->came <= p->few",
            "tests/unit/test_base test_pace_from_much_to_little",
        ),
        "what got no slot in a batch waits for a timer": (
            FUNCTIONS,
            "and rec.attempt == 1 and can_dispatch(job) and op.retry_after > 0",
            "and false and op.retry_after > 0",
            f"{DISPATCH} test_what_comes_back_travels_alone",
        ),
        "what asks for no time goes round without an end": (
            FUNCTIONS,
            "elseif op.kind == 'F' and rec.attempt == 1 and can_dispatch(job)",
            "elseif op.kind == 'F' and can_dispatch(job)",
            f"{DISPATCH} test_what_comes_back_travels_alone",
        ),
        "what is deferred at once goes out on a job that is held": (
            FUNCTIONS,
            "and rec.attempt == 1 and can_dispatch(job) and op.retry_after > 0",
            "and rec.attempt == 1 and op.retry_after > 0",
            f"{DISPATCH} test_what_comes_back_to_a_held_job",
        ),
        "an agent takes more than it has slots": (
            "agent/agent.c",
            "unsigned batch = actor->batch < slots ? actor->batch : slots;",
            "unsigned batch = actor->batch;",
            f"{AGENT} test_what_it_takes_at_once",
        ),
        "what came in a batch waits as long as any other": (
            "agent/run.c",
            "is_batched(run) ? BATCHED_PATIENCE_MS : PATIENCE_MS",
            "PATIENCE_MS",
            f"{AGENT} test_batch_without_a_slot",
        ),
        "an agent hides what came in a batch from itself": (
            "agent/requeue.c",
            "(a->unseen > 0 || (a->hidden > 0 && waits))",
            "a->unseen > 0",
            f"{AGENT} test_batch_that_stays",
        ),
        "short work that makes room is given back": (
            "agent/requeue.c",
            "    if (!crowded || (a->freed && a->unseen == 0))\n",
            "    if (!crowded)\n",
            f"{AGENT} test_batch_moves_on",
        ),
    },
    "With step_messages = transient the broker need not keep requests and replies": {
        "requests stay persistent": (
            "scheduler/dispatch.c",
            "    message->transient = s->transient;\n",
            "",
            "tests/fault/test_transient.py Transient.test_requests_in_their_queue",
        ),
        "replies stay persistent": (
            "agent/replies.c",
            "    m->transient = a->config.transient;\n",
            "",
            "tests/fault/test_transient.py Transient.test_replies_in_their_queue",
        ),
    },
    "--where: those jobs and no others, at --rps, and none with --dry-run": {
        "a bulk dry run steers": (
            "cli/bulk.c",
            "    if (b->args->dry_run)\n        tell_listed(b, job);\n",
            "    if (false)\n        tell_listed(b, job);\n",
            "tests/integration/test_bulk.py Bulk.test_dry_run",
        ),
        "bulk does not heed --rps": (
            "cli/bulk.c",
            "    next = b->began + (int64_t)b->seen * 1000 / rps;\n",
            "    next = b->began + rps * 0;\n",
            "tests/integration/test_bulk.py Bulk.test_paced",
        ),
        "a job that was turned since it was listed is steered": (
            "cli/steer.c",
            "if (r == 0 && !stands)",
            "if (false && !stands)",
            "tests/integration/test_bulk.py Bulk.test_moved_meanwhile",
        ),
    },
}  # fmt: skip
