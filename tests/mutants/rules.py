# SPDX-License-Identifier: Apache-2.0
"""The mutants that run.py tries, by the rule that each breaks.

Most leave a line of the rule out or invert it. A mutant is a tuple: the file; the text to replace,
which occurs in it once; the new text; and the test that must catch the mutant, if it is no seed:

    tests/unit/test_agent test_drain          a case of a test program of the build
    tests/integration/jobs/test_x.py Class.test
                                              a case with real servers, and daemons with the mutant
"""


def lua(part):
    """The file of a part of the store functions."""
    return f"common/store/{part}.lua"


AGENT = "tests/unit/test_agent"
SCHEDULER = "tests/sim/test_scheduler"
FAILURES = "tests/sim/test_failures"
ROLLBACK = "tests/sim/test_rollback"
INTAKE = "tests/sim/test_intake"
SUPERVISOR = "tests/sim/test_supervisor"
LOSS = "tests/unit/test_loss"
LOSSES = "tests/sim/test_losses"
SUSPECTS = "tests/sim/test_suspects"
SUBMITS = "tests/sim/test_submits"
HELD = "tests/sim/test_held"
LIMITS_MEMORY = "tests/sim/test_limits_memory"
LIMITS_USERS = "tests/sim/test_limits_users"
LIMITS_AGENTS = "tests/sim/test_limits_agents"
NOTIFICATIONS = "tests/sim/test_notifications"
WATCH = "tests/sim/test_watch"
DISPATCH = "tests/sim/test_dispatch"
WIRE = "tests/unit/test_wire"
WORKFLOW = "tests/unit/test_workflow"
POLICY = "tests/unit/test_policy"
BREAKER = "tests/unit/test_breaker"
STORE_CHECK = "tests/unit/test_store_check"
BUS_PUBLISH = "tests/integration/test_bus_publish"
BUS_CONSUME = "tests/integration/test_bus_consume"
BUS_QUEUES = "tests/integration/test_bus_queues"
BUS_BROKER = "tests/integration/test_bus_broker"
BUS_PULSE = "tests/integration/test_bus_pulse"
BUS_CONFIRMS = "tests/integration/test_bus_confirms"
PUBLISHER = "tests/unit/test_publisher"
SENTINEL = "tests/unit/test_sentinel"
STORE = "tests/integration/test_store"
OWNERS = "tests/integration/security/test_owners.py"
FUNCTIONS_TEST = "tests/integration/store/test_functions.py Functions."
REPLICATION = "tests/integration/operation/test_replication.py Replication."

RULES = {
    "The person who has to act gets an alert, and finds the job in a list": {
        "a job fails without an alert in the outbox": (
            lua("outcome"),
            "    add_history(job, 'attention', outcome)\n    alert_job(",
            "    add_history(job, 'attention', outcome)\n    alert(",
            FUNCTIONS_TEST + "test_attention_for_a_failed_job",
        ),
        "an ordinary compensation raises an alert": (
            lua("outcome"),
            "'^%u %d+ ([01]) ') ~= '1'",
            "'^%u %d+ ([01]) ') ~= '2'",
            FUNCTIONS_TEST + "test_outcomes_that_need_a_person",
        ),
        "a later failure in the same direction counts as the decisive one": (
            lua("outcome"),
            "  if (asked == STATE.ACTIVE and forward or asked == STATE.DISABLED and back) ~= ''",
            "  if false",
            FUNCTIONS_TEST + "test_deciding_failure",
        ),
        "a job that goes on keeps its failure": (
            lua("transitions"),
            "  if cause ~= 'FAILURE' then\n    deciding.reset(",
            "  if cause == 'KILLED' then\n    deciding.reset(",
            FUNCTIONS_TEST + "test_deciding_failure_is_reset_by_another_try",
        ),
        "a parked step puts its job on no list": (
            lua("save"),
            "  return job.parked > 0 and 'parked' or waits",
            "  return waits",
            FUNCTIONS_TEST + "test_a_parked_step_needs_a_person",
        ),
        "a step that has succeeded still counts as parked": (
            lua("record"),
            "  remove_parked(job, i)\n",
            "",
            FUNCTIONS_TEST + "test_attention_lasts_until_success",
        ),
        "a job that was acknowledged once stays so": (
            lua("outcome"),
            "  if job.acknowledged then\n    set(job, 'acknowledged', '')",
            "  if false then\n    set(job, 'acknowledged', '')",
            FUNCTIONS_TEST + "test_a_parked_step_needs_a_person",
        ),
        "a Retry of an undo hides why the job goes back": (
            lua("outcome"),
            "  set_decisions(job, not all and job.desired == STATE.DISABLED and forward or '', '')",
            "  set_decisions(job, '', '')",
            FUNCTIONS_TEST + "test_deciding_failure_outlasts_a_failed_undo",
        ),
        "a late notification gives the failure of a later turn": (
            lua("inspect"),
            "    'w' .. seq, 'v' .. seq))",
            "    'failure', 'failure'))",
            FUNCTIONS_TEST + "test_notification_has_the_deciding_failure",
        ),
        "the first parked step is named for ever": (
            lua("save"),
            "    if kind ~= '' and job.attention_cause then",
            "    if false then",
            FUNCTIONS_TEST + "test_attention_names_the_last_parked_step",
        ),
        "a step that an older build has parked puts its job on no list": (
            lua("sweep"),
            "      if rec.state == STEP.PARKED and add_parked(job, i) then",
            "      if false then",
            FUNCTIONS_TEST + "test_attention_for_a_step_parked_by_an_earlier_build",
        ),
        "a scheduler that ends loses alerts that wait": (
            "scheduler/scheduler.c",
            "        alert_group_stop(s);\n",
            "\n",
            WATCH + " test_waiting_alerts_are_sent_at_the_end",
        ),
        "a forgotten job stays on the list": (
            lua("forget"),
            "    call('ZREM', p .. 'needs', id)\n    call('ZREM', p .. 'needs:' .. needs, id)",
            "    call('ZREM', p .. 'needs:' .. needs, id)",
            FUNCTIONS_TEST + "test_attention_for_a_failed_job",
        ),
        "a job that is paused past its deadline is on no list": (
            lua("save"),
            "  local waits = job.hold == 'deadline' or job.hold ~= '' and deadline.in_force(job)",
            "  local waits = job.hold == 'deadline'",
            FUNCTIONS_TEST + "test_deadline_of_a_paused_job",
        ),
        "a job resumed past its deadline is listed for it when it is paused again": (
            lua("commands"),
            "  if deadline.in_force(job) then\n    deadline.mark_passed(job, job.since - 1)\n"
            "  end\n",
            "",
            FUNCTIONS_TEST + "test_deadline_of_a_paused_job",
        ),
        "a deadline hides why a step is parked": (
            lua("drive"),
            "      put_on_hold(job, 'deadline', '-')\n",
            "      put_on_hold(job, 'deadline', '-')\n      job.attention_cause = '- - DEADLINE'\n",
            FUNCTIONS_TEST + "test_attention_for_a_parked_step_outlasts_the_deadline",
        ),
        "dead letters of other processes raise no alert": (
            lua("notifications"),
            "    count = since > 0 and max(seen - known - unseen, 0) or 0\n",
            "    count = 0\n",
            WATCH + " test_dead_letters_of_others",
        ),
        "an alert about dead letters does not wait until another scheduler can claim them": (
            lua("notifications"),
            "  elseif grown > 0 and (since <= 0 or now - since >= CAUSE_CLAIMED) then\n"
            "    count = since > 0 and max(seen",
            "  elseif grown > 0 then\n    count = since > 0 and max(there",
            FUNCTIONS_TEST + "test_dead_letters_of_others",
        ),
        "a dead letter that never arrives hides another one": (
            lua("notifications"),
            "    if since < 0 and now + since >= CAUSE_CLAIMED then -- they",
            "    if false then -- they",
            FUNCTIONS_TEST + "test_dead_letters_of_others",
        ),
        "a scheduler sends two alerts about its own dead letters": (
            "scheduler/dead_letter.c",
            "    s->dead_letters.own++;\n    dead_letter_alert(",
            "    dead_letter_alert(",
            WATCH + " test_dead_letters_of_its_own",
        ),
        "the history of an expiry does not name the agent": (
            lua("expire"),
            "i, rec.attempt, token_id(i, rec.token), agent)",
            "i, rec.attempt, token_id(i, rec.token))",
            FUNCTIONS_TEST + "test_agent_of_an_expiry",
        ),
        "alerts that wait for the alert command are dropped when the scheduler ends": (
            "scheduler/alert_io.c",
            "    uv_timer_start(&a->closing, on_late, (uint64_t)within_ms, 0);\n",
            "    uv_timer_start(&a->closing, on_late, 0, 0);\n",
            "tests/unit/test_alert_io test_waiting_alerts_are_passed_on_at_the_end",
        ),
        "processes that an alert command leaves behind go on running": (
            "scheduler/alert_io.c",
            "    child_signal(process, SIGKILL); /* the processes that it has left in its group "
            "*/\n",
            "",
            "tests/unit/test_alert_io test_background_processes_are_killed",
        ),
        "each failure of the alert command is logged": (
            "scheduler/alert_io.c",
            "    return a->failing++ == 0;",
            "    return ++a->failing > 0;",
            "tests/integration/operation/test_alerts.py Alerts.test_a_command_that_fails",
        ),
    },
    "A deadline bounds the requests and leases of forward work": {
        "a lease lasts beyond the deadline": (
            lua("dispatch"),
            "    wait, lease = min(wait, left), min(lease, left)\n",
            "    wait, lease = min(wait, left), lease\n",
        ),
        "a request gives its agent more time than the store does": (
            "scheduler/request.c",
            "    m.lock_ms = bounded(transition, w, r, m.lock_ms);\n",
            "",
        ),
        "a request that is sent again waits beyond the deadline": (
            lua("dispatch"),
            "  return min(rec.till - job.now - min(lease, left), left)",
            "  return rec.till - job.now - min(lease, max(left, 0))",
            FUNCTIONS_TEST + "test_nothing_is_sent_past_the_deadline",
        ),
        "a change whose undo fails for good waits for ever": (
            lua("transitions"),
            "    if change.waits_for(job, i) then",
            "    if false then",
            FUNCTIONS_TEST + "test_change_whose_undo_fails_for_good",
        ),
        "a passed deadline limits what was sent after it once the job goes forward again": (
            lua("transitions"),
            "and job.complete_by > 0 and not job.deadline_turn then",
            "and job.complete_by > 0 then",
            FUNCTIONS_TEST + "test_expiry_of_what_was_sent_past_the_deadline",
        ),
        "a wait that is over before the deadline counts as a rejection": (
            lua("record"),
            "    return rec.till - t.lock - job.now > EARLY_RETURN\n",
            "    return wait_left(job, i, rec) > EARLY_RETURN\n",
            FUNCTIONS_TEST + "test_expired_request_before_the_deadline",
        ),
        "a deadline bounds an undo": (
            lua("dispatch"),
            "  if asked ~= STATE.ACTIVE or job.complete_by == 0 then",
            "  if job.complete_by == 0 then",
            FUNCTIONS_TEST + "test_no_lease_beyond_the_deadline",
        ),
        "a deadline bounds leases although on_deadline is park": (
            lua("dispatch"),
            "  return def.on_deadline ~= RECOURSE.PARK\n",
            "  return true\n",
            FUNCTIONS_TEST + "test_lease_is_not_cut_if_the_deadline_parks",
        ),
        "forward work is sent past the deadline": (
            lua("dispatch"),
            "  if left and left <= 0 then\n    -- the next drive",
            "  if false then\n    -- the next drive",
        ),
        "a lease that the deadline has cut short counts as an expiry": (
            lua("expire"),
            "  if cut_by_deadline(job, rec) then",
            "  if false then",
            FUNCTIONS_TEST + "test_lease_cut_by_the_deadline_is_no_expiry",
        ),
    },
    "A client that asks for step events gets each of them once": {
        "a client gets the same step events again and again": (
            lua("notifications"),
            "  call('HSET', data, 'heard', int(job.seq))\n",
            "",
            FUNCTIONS_TEST + "test_step_events",
        ),
        "a step event gives the details of a failure": (
            lua("notifications"),
            "failure and deciding.without_details(failure) or '')\n",
            "failure or '')\n",
            FUNCTIONS_TEST + "test_step_events",
        ),
        "each Progress counts as the first one": (
            lua("renew"),
            "  local begins = not known and job.events == 'reply'\n",
            "  local begins = job.events == 'reply'\n",
            FUNCTIONS_TEST + "test_step_events",
        ),
        "the first Progress is recorded although no client asks for step events": (
            lua("renew"),
            "  local begins = not known and job.events == 'reply'\n",
            "  local begins = not known\n",
            FUNCTIONS_TEST + "test_step_events_not_asked_for",
        ),
        "the scheduler reads step events of a job that does not want them by reply": (
            lua("answers"),
            "  return job.events == 'step' and ' 1 ' or",
            "  return",
            FUNCTIONS_TEST + "test_step_events_not_asked_for",
        ),
        "one call returns the step events of a history of any length": (
            lua("notifications"),
            "(tonumber(heard or '') or 0), HEARD_MOST)\n",
            "(tonumber(heard or '') or 0), 10 * HEARD_MOST)\n",
            FUNCTIONS_TEST + "test_step_events_are_bounded",
        ),
    },
    "The history names the agent that has answered": {
        "the history does not name the agent": (
            lua("record"),
            "    token_id(i, rec.token), op.agent)\n  come_to_rest(",
            "    token_id(i, rec.token))\n  come_to_rest(",
            FUNCTIONS_TEST + "test_agent_that_answered",
        ),
        "the first agent that has answered counts as the last one": (
            lua("inspect"),
            "      agents[i] = agent\n",
            "      agents[i] = agents[i] or agent\n",
            FUNCTIONS_TEST + "test_agent_that_answered",
        ),
    },
    "A step parked by expiries is tried again, and a job waits between its runs": {
        "a step parked by expiries is never tried again": (
            lua("transitions"),
            "  if t.silence == 0 or is_older_job(job) then",
            "  if true then",
            FUNCTIONS_TEST + "test_silence_interval_doubles",
        ),
        "each silence interval is as long as the first one": (
            lua("transitions"),
            "t.silence * 2 ^ max(rec.expiries - t.expiries, 0)",
            "t.silence",
            FUNCTIONS_TEST + "test_silence_interval_doubles",
        ),
        "a deferral does not end the silence intervals": (
            lua("record"),
            "  if rec.expiries >= t.expiries then\n    rec.expiries = 0",
            "  if op.kind ~= REPORT.DEFERRED and rec.expiries >= t.expiries then\n"
            "    rec.expiries = 0",
            FUNCTIONS_TEST + "test_deferral_resets_expiries",
        ),
        "an unroutable request uses up the try after a silence interval": (
            lua("record"),
            "  rec.token = rec.expiries >= t.expiries and SILENCE_OVER or '-'",
            "  rec.token = '-'",
            FUNCTIONS_TEST + "test_unroutable_after_the_silence_interval",
        ),
        "silence intervals grow beyond a day": (
            lua("transitions"),
            "max(rec.expiries - t.expiries, 0), max(t.silence, DAY))",
            "max(rec.expiries - t.expiries, 0), 2 ^ 50)",
            FUNCTIONS_TEST + "test_longest_silence_interval_is_a_day",
        ),
        "jobs of an earlier build get the policy of a later one": (
            lua("transitions"),
            "  return renewed and tonumber(call('HGET', job.key, 'created')) < renewed",
            "  return false",
            FUNCTIONS_TEST + "test_no_silence_interval",
        ),
        "the next run of a job begins at once": (
            lua("drive"),
            "      if job.hold == '' and at > job.now then",
            "      if false then",
            FUNCTIONS_TEST + "test_interval_between_tries_of_a_job",
        ),
        "a job waits for its next run beyond its deadline": (
            lua("drive"),
            "  return at and not (job.complete_by > 0 and max(at, "
            "job.now) >= job.complete_by) and at, runs",
            "  return at, runs",
            FUNCTIONS_TEST + "test_no_try_after_the_deadline",
        ),
        "a job that waits for its next run counts as one that should have ended": (
            lua("expire"),
            "#job.cursor == 0 and job.next_try <= job.now",
            "#job.cursor == 0",
            FUNCTIONS_TEST + "test_interval_between_tries_of_a_job",
        ),
    },
    "A message is acknowledged after its effects, and what was cut off is completed": {
        "a delivery is acknowledged before its store call": (
            "scheduler/item.c",
            "item->handle = d->handle;",
            "item->handle = 0; effects_add(s->out, EFFECT_ACK, d->handle);",
        ),
        "a command, or a Recover, is acknowledged before its store call": (
            "scheduler/on_control.c",
            "    log_debug(\"control\",",
            "    if (item->handle)\n        effects_add(s->out, EFFECT_ACK, item->handle);\n"
            "    item->handle = 0;\n    log_debug(\"control\",",
        ),
        "a Recover is acknowledged before its requests": (
            "scheduler/transition.c",
            "    if (w) {\n        request_publish(s, t, transition, w);\n",
            "    if (op->item->handle && op->item->source == SCHEDULER_CONTROL &&\n"
            "        op->item->message.control->command_case == "
            "DROVER__V1__CONTROL__COMMAND_RECOVER) {\n"
            "        effects_add(s->out, EFFECT_ACK, op->item->handle);\n"
            "        op->item->handle = 0;\n    }\n    if (w) {\n"
            "        request_publish(s, t, transition, w);\n",
        ),
        "a command is acknowledged before its requests": (
            "scheduler/transition.c",
            "    if (w) {\n        request_publish(s, t, transition, w);\n",
            "    if (op->item->handle && op->item->source == SCHEDULER_CONTROL &&\n"
            "        op->item->message.control->command_case != "
            "DROVER__V1__CONTROL__COMMAND_RECOVER) {\n"
            "        effects_add(s->out, EFFECT_ACK, op->item->handle);\n"
            "        op->item->handle = 0;\n    }\n    if (w) {\n"
            "        request_publish(s, t, transition, w);\n",
        ),
        "an expired request is acknowledged before the request in its place": (
            "scheduler/transition.c",
            "    if (w) {\n        request_publish(s, t, transition, w);\n",
            "    if (op->item->handle && op->item->source == SCHEDULER_EXPIRED) {\n"
            "        effects_add(s->out, EFFECT_ACK, op->item->handle);\n"
            "        op->item->handle = 0;\n    }\n    if (w) {\n"
            "        request_publish(s, t, transition, w);\n",
        ),
        "a reply is acknowledged before the requests of a later turn": (
            "scheduler/transition.c",
            "    if (w) {\n        request_publish(s, t, transition, w);\n",
            "    if (op->item->handle && op->item->source == SCHEDULER_REPLIES && "
            "transition->n_requests > 0 &&\n        transition->requests[0].turn > 1) {\n"
            "        effects_add(s->out, EFFECT_ACK, op->item->handle);\n"
            "        op->item->handle = 0;\n    }\n    if (w) {\n"
            "        request_publish(s, t, transition, w);\n",
        ),
        "a redelivered reply does not send its follow-up requests again": (
            lua("dispatch"),
            "  if #list == 0 then\n    return\n  end\n  local fields, steps",
            "  if true then\n    return\n  end\n  local fields, steps",
        ),
        "a call that is repeated after a lost answer does not count as redelivered": (
            "scheduler/op.c",
            "            op->call_repeated = op->repeated = true;\n",
            "            op->call_repeated = true;\n",
        ),
        "a repeated drive makes the same token again": (
            "scheduler/on_control.c",
            "    nonces_next(&s->nonces, op->nonce);\n    ops_drive",
            "    ops_drive",
            f"{SCHEDULER} test_repeated_drive_makes_new_tokens",
        ),
        "a notification is settled before it is published": (
            "scheduler/notification.c",
            "        op->then = on_published;\n        publish_settled(s, n, &job, w);",
            "        on_published(s, op);",
        ),
        "a reply that is published twice sends its follow-up requests again": (
            lua("record"),
            "  if op.redelivered == '1' then\n    add_in_flight_after(job, i)",
            "  if true then\n    add_in_flight_after(job, i)",
            FUNCTIONS_TEST + "test_follow_ups_of_redelivered_messages",
        ),
        "a Submit that is published twice sends its requests again": (
            lua("submit"),
            "  if redelivered == '1' then\n    add_in_flight_after(job, WALK.ROOTS)",
            "  if true then\n    add_in_flight_after(job, WALK.ROOTS)",
            FUNCTIONS_TEST + "test_follow_ups_of_redelivered_messages",
        ),
        "a command that is published twice sends its requests again": (
            lua("steer"),
            "    if redelivered == '1' then\n      add_in_flight_after(job)",
            "    if true then\n      add_in_flight_after(job)",
            FUNCTIONS_TEST + "test_follow_ups_of_redelivered_messages",
        ),
        "a Recover that is published twice sends again what is in flight": (
            lua("drive"),
            "        elseif again == '1' then\n",
            "        else\n",
            FUNCTIONS_TEST + "test_follow_ups_of_redelivered_messages",
        ),
        "a Receipt is sent before the job is recorded": (
            "scheduler/on_submit.c",
            "    op_call(s, op, submit_call, submit_answered);\n",
            '    receipt(s, op, DROVER__V1__RECEIPT_CODE__RECEIPT_CODE_CREATED, "", "", '
            'op->definition.workflow, s->now);\n'
            "    op_call(s, op, submit_call, submit_answered);\n",
        ),
        "the sender is answered after the acknowledgement": (
            "scheduler/publish.c",
            "    m = publish_message(s, op, body, item->json);\n    m->exchange = \"\";\n",
            "    if (item->handle)\n        effects_add(s->out, EFFECT_ACK, item->handle);\n"
            "    item->handle = 0;\n    m = publish_message(s, op, body, item->json);\n"
            "    m->exchange = \"\";\n",
        ),
    },
    "A reply counts while its dispatch is in flight, by its token alone; late replies are kept": {
        "a token of a step that the job does not have is looked up": (
            lua("record"),
            "  if not job or i >= job.n or not job.step_text then",
            "  if not job then",
        ),
        "a good reply in one message with a bad one is not recorded": (
            "scheduler/on_replies.c",
            "        } else {\n            reply(s, item, m->replies[i]);\n",
            "        } else if (bad == 0) {\n            reply(s, item, m->replies[i]);\n",
        ),
        "a bad reply does not become a dead letter": (
            "scheduler/on_replies.c",
            "    if (bad > 0)\n        dead_letter_send(",
            "    if (bad > 1000)\n        dead_letter_send(",
        ),
        "a reply's token is not compared": (
            lua("record"),
            "if rec.token ~= op.token or rec.state == STEP.IN_FLIGHT and finished(job) then",
            "if false then",
        ),
        "an expiry does not withdraw the token": (
            lua("expire"),
            "  rec.current, rec.token = STATE.UNKNOWN, counts and '-' or NO_EVIDENCE\n",
            "  rec.current = STATE.UNKNOWN\n",
        ),
        "a late reply leaves no evidence": (
            lua("record"),
            "    keep_late(job, i, op)\n",
            "",
            "tests/integration/jobs/test_turns.py Turns.test_kill",
        ),
        "late replies are not counted": (
            lua("record"),
            "concat({int(count + 1), int(job.now), op.kind, token_id(i, op.token),",
            "concat({'1', int(job.now), op.kind, token_id(i, op.token),",
            "tests/integration/jobs/test_turns.py Turns.test_kill",
        ),
        "a reply is late by the clock": (
            lua("record"),
            "  if rec.token ~= op.token or rec.state == STEP.IN_FLIGHT and finished(job) then",
            "  if rec.token ~= op.token or rec.till < now or rec.state == STEP.IN_FLIGHT "
            "and finished(job) then",
            "tests/integration/store/test_functions.py Functions.test_reply_after_locked_until",
        ),
    },
    "The effect of a failed, lost or returned attempt is UNKNOWN, and it is undone": {
        "a step with an unknown effect is not undone": (
            lua("record"),
            "  rec.current, rec.unstarted = proven and STATE.DISABLED or STATE.UNKNOWN, 0\n",
            "  rec.current, rec.unstarted = STATE.DISABLED, 0\n",
        ),
        "a lease that has ended proves that nothing was done": (
            lua("expire"),
            "  rec.current, rec.token = STATE.UNKNOWN, counts and '-' or NO_EVIDENCE\n",
            "  rec.token = counts and '-' or NO_EVIDENCE\n",
        ),
        "a returned request that an agent has begun counts as one without effect": (
            lua("record"),
            "  if begun then\n    rec.current = STATE.UNKNOWN\n",
            "  if false then\n",
        ),
        "a request that could not be sent in time counts as one that no agent had": (
            lua("record"),
            "op.kind ~= REPORT.UNROUTABLE and op.kind ~= REPORT.UNSENDABLE\n",
            "op.kind ~= REPORT.UNROUTABLE and op.kind ~= REPORT.UNSENDABLE "
            "and op.kind ~= REPORT.UNSENT\n",
        ),
        "a request that the broker refused counts as one that no agent had": (
            lua("record"),
            "op.kind ~= REPORT.UNROUTABLE and op.kind ~= REPORT.UNSENDABLE\n",
            "op.kind ~= REPORT.UNROUTABLE and op.kind ~= REPORT.UNSENDABLE "
            "and op.kind ~= REPORT.REFUSED\n",
        ),
        "a copy of a request counts as one that no agent had if the first copy found no queue": (
            lua("dispatch"),
            "      call('HSET', job.p .. 'data:' .. job.id, 'c' .. i, rec.token)\n",
            "",
            "tests/integration/store/test_functions.py Functions.test_unroutable_copy_of_a_request",
        ),
        "work that an earlier turn may have done is repeated without an undo": (
            lua("dispatch"),
            "    and (rec.asked == STATE.DISABLED or rec.turn < job.since) then\n",
            "    and rec.asked == STATE.DISABLED then\n",
        ),
        "a copy of a request counts as one that no agent had when it expires": (
            "scheduler/on_expired.c",
            "        if (d->resent)\n            continue;\n",
            "",
            f"{INTAKE} test_expired",
        ),
    },
    "A failure report waives the undo only if the step allows it, and proves no effect": {
        "an agent without a slot reports that there will be no effect": (
            "agent/waiting.c",
            "        .retry_after_ms = delivery_is_batch(run->delivery)",
            "        .effect = DROVER__V1__EFFECT__EFFECT_NONE,\n"
            "        .retry_after_ms = delivery_is_batch(run->delivery)",
            f"{AGENT} test_suspect_while_draining",
        ),
        "an agent without a slot reports no effect of a first attempt": (
            "agent/waiting.c",
            "    a->stats.waiting--;\n    timer_stop(a, &run->deadline);\n"
            "    list_remove(&run->link);\n",
            "    if (run->seen.request->attempt <= 1 && !run->seen.repeated)\n"
            "        busy.effect = DROVER__V1__EFFECT__EFFECT_NONE;\n"
            "    a->stats.waiting--;\n    timer_stop(a, &run->deadline);\n"
            "    list_remove(&run->link);\n",
            f"{AGENT} test_waiting_for_a_slot",
        ),
        "a failure report waives an undo although the step does not allow it": (
            lua("record"),
            "op.effect == PROVEN.NO_EFFECT and rec.asked == STATE.ACTIVE and step.waived",
            "op.effect == PROVEN.NO_EFFECT and rec.asked == STATE.ACTIVE",
        ),
        "a failure report never waives an undo": (
            lua("record"),
            "op.effect == PROVEN.NO_EFFECT and rec.asked == STATE.ACTIVE and step.waived",
            "false",
        ),
    },
    "TRANSIENT is tried again, PERMANENT and a non_retryable class are not": {
        "a permanent failure is tried again": (
            lua("record"),
            "  elseif op.kind == REPORT.PERMANENT or op.kind == REPORT.UNSENDABLE\n"
            "    or t.non_retryable[op.error_class] then",
            "  elseif false then",
        ),
        "a step whose request is too large to be sent is undone": (
            lua("record"),
            "op.kind ~= REPORT.UNROUTABLE and op.kind ~= REPORT.UNSENDABLE\n",
            "op.kind ~= REPORT.UNROUTABLE\n",
            "tests/integration/store/test_functions.py Functions.test_request_too_large",
        ),
        "an undo that was never sent fails although the job does not want it": (
            lua("record"),
            "  if is_obsolete(job, rec) or rec.current == job.desired then",
            "  if is_obsolete(job, rec) then",
            "tests/integration/store/test_functions.py Functions.test_undo_too_large_after_a_turn",
        ),
        "a request that is too large to be sent counts as a permanent failure": (
            "scheduler/request.c",
            "REPORT_UNSENDABLE, t->op.job, m.token",
            "REPORT_PERMANENT, t->op.job, m.token",
            "tests/integration/messages/test_bad_input.py BadInput.test_request_too_large",
        ),
        "a non_retryable class is tried again": (
            lua("record"),
            "    or t.non_retryable[op.error_class] then",
            "    then",
        ),
    },
    "DEFER is tried again when it says, and is not counted": {
        "the store counts a deferral as a failure": (
            lua("record"),
            "  if op.kind == REPORT.DEFERRED then\n    add_history(job, 'deferred'",
            "  if false then\n    add_history(job, 'deferred'",
        ),
        "a deferral waits for another time than it asks for": (
            lua("record"),
            "local wait = op.retry_after > 0 and op.retry_after or t.backoff_initial",
            "local wait = t.backoff_initial",
        ),
        "a failure waits for less time than it asks for": (
            lua("record"),
            "max(backoff(t, rec.failures, op.fraction), op.retry_after)",
            "backoff(t, rec.failures, op.fraction)",
        ),
    },
    "Failures and expiries are counted apart, and limited apart": {
        "a failure counts twice": (
            lua("record"),
            "rec.failures = rec.failures + 1",
            "rec.failures = rec.failures + 2",
        ),
        "an expiry counts as a failure": (
            lua("expire"),
            "    rec.expiries = rec.expiries + 1\n  end\n  -- a request",
            "    rec.failures = rec.failures + 1\n  end\n  -- a request",
        ),
        "expiries have the limit of failures": (
            lua("expire"),
            "      and rec.expiries >= terms_of(job.def, i, rec.asked).expiries then",
            "      and rec.expiries >= terms_of(job.def, i, rec.asked).attempts then",
        ),
        "failures have the limit of expiries": (
            lua("record"),
            "  elseif rec.failures >= t.attempts then\n    give_up",
            "  elseif rec.failures >= t.expiries then\n    give_up",
        ),
        "counters go on from one turn to the next": (
            lua("dispatch"),
            "    rec.failures, rec.expiries, rec.unstarted = 0, 0, 0\n  end\n"
            "  if asked == STATE.ACTIVE then",
            "  end\n  if asked == STATE.ACTIVE then",
        ),
    },
    "A failure waits initial × coefficient^(n-1), at most the maximum, jitter added": {
        "a failed step is tried again at once": (
            lua("record"),
            "  return floor(wait * (1 + t.jitter * fraction))",
            "  return 0",
        ),
        "the wait after a failure has no maximum": (
            lua("record"),
            "local wait = min(t.backoff_initial * t.backoff_factor ^ (max(failures, 1) - 1), "
            "t.backoff_max)",
            "local wait = t.backoff_initial * t.backoff_factor ^ (max(failures, 1) - 1)",
            "tests/integration/store/test_functions.py Functions.test_backoff_has_a_maximum",
        ),
        "jitter is subtracted": (
            lua("record"),
            "  return floor(wait * (1 + t.jitter * fraction))",
            "  return floor(wait * (1 - t.jitter * fraction))",
        ),
    },
    "on_permanent and on_exhausted decide about a step: park, compensate or fail": {
        "on_permanent has no effect": (
            lua("record"),
            "give_up(job, i, rec, t.on_permanent, 'PERMANENT', 0)",
            "give_up(job, i, rec, 'P', 'PERMANENT', 0)",
        ),
        "on_exhausted has no effect on failures": (
            lua("record"),
            "give_up(job, i, rec, t.on_exhausted, 'EXHAUSTED',",
            "give_up(job, i, rec, 'P', 'EXHAUSTED',",
        ),
        "on_exhausted has no effect on expiries": (
            lua("drive"),
            "give_up(job, i, rec, t.on_exhausted, 'DEATHS',",
            "give_up(job, i, rec, 'P', 'DEATHS',",
        ),
        "a job fails while steps are in flight": (
            lua("drive"),
            "  elseif idle and job.ending ~= '' then",
            "  elseif job.ending ~= '' then",
        ),
    },
    "park_interval tries a step parked by failures, not one parked by expiries; one alert": {
        "a step parked by failures is not tried again": (
            lua("record"),
            "'EXHAUSTED', t.park > 0 and job.now + t.park or 0)",
            "'EXHAUSTED', 0)",
        ),
        "a step that kills its agents is sent to more of them": (
            lua("drive"),
            "  elseif rec.token ~= SILENCE_OVER and rec.current == STATE.UNKNOWN\n"
            "    and rec.expiries >= t.expiries then",
            "  elseif false then",
        ),
        "each try of a parked step raises another alert": (
            lua("transitions"),
            "  if is_new or till == 0 then\n    alert_job",
            "  if true then\n    alert_job",
            "tests/integration/operation/test_alerts.py Alerts.test_one_alert_for_a_parked_step",
        ),
        "a step that fails for good while it is parked raises no alert": (
            lua("transitions"),
            "  if is_new or till == 0 then\n    alert_job",
            "  if is_new then\n    alert_job",
            FUNCTIONS_TEST + "test_alert_when_a_parked_step_parks_for_good",
        ),
        "a step that has used up its tries is sent again when its job goes on": (
            lua("walks"),
            "    if reason then -- WALK.ENDING",
            "    if false then -- WALK.ENDING",
            FUNCTIONS_TEST + "test_step_with_its_expiries_used_up_is_not_sent_again",
        ),
        "a step that became due during a hold is not named again": (
            lua("expire"),
            "next_asked(job, rec) == STATE.ACTIVE)\n    and not is_obsolete(job, rec) then\n"
            "    return nil",
            "next_asked(job, rec) == STATE.ACTIVE) then\n    return nil",
            FUNCTIONS_TEST + "test_step_named_on_hold_in_a_job_that_ends",
        ),
    },
    "An expiry counts if an agent has had the request, and in no other case": {
        "a lease that ends counts as an expiry also without evidence": (
            lua("expire"),
            "  local counts, progress = has_evidence(job, i, rec)\n",
            "  local counts, progress = true, true\n",
        ),
        "a lease that ends never counts as an expiry": (
            lua("expire"),
            "  local counts, progress = has_evidence(job, i, rec)\n",
            "  local counts, progress = false, false\n",
        ),
        "Progress of another dispatch is evidence": (
            lua("dispatch"),
            "  return progress and sub(progress, 1, #token + 1) == token .. ' ' and progress,",
            "  return progress,",
        ),
        "it is evidence that another request has left its queue": (
            lua("dispatch"),
            " and progress, was_taken == token\n",
            " and progress, was_taken\n",
        ),
        "it is no evidence that a request has left its queue": (
            lua("expire"),
            "  return progress or was_taken, progress\n",
            "  return progress, progress\n",
        ),
        "a silence does not lengthen the next wait": (
            lua("expire"),
            "  rec.unstarted = progress and 0 or rec.unstarted + 1\n",
            "  rec.unstarted = progress and 0 or rec.unstarted\n",
            "tests/integration/store/test_functions.py Functions.test_silence_does_not_count",
        ),
        "a silence that lasts raises no alert": (
            lua("drive"),
            "      alert(job, i, 'SILENT', rec.asked) -- a person",
            "      -- a person",
            "tests/integration/store/test_functions.py Functions.test_silence_does_not_count",
        ),
        "an alert about silence is not over when the actor is served": (
            "scheduler/alert_cause.c",
            "ALERT_UNROUTABLE, ALERT_SILENT,\n"
            "                                          ALERT_REJECTED};",
            "ALERT_UNROUTABLE, ALERT_REJECTED};",
            "tests/integration/agents/test_backlog.py Silence.test_one_alert",
        ),
        "the time for which an agent has had its request is ignored": (
            lua("renew"),
            "  local lease = now + t.lock - min(elapsed, t.lock)\n",
            "  local lease = now + t.lock\n",
            "tests/integration/store/test_functions.py Functions.test_expiry_after_progress_counts",
        ),
        "Progress of an agent that died ends the lease of another one": (
            lua("renew"),
            "    lease = max(lease, rec.till) -- a late",
            "    -- a late",
            FUNCTIONS_TEST + "test_late_progress_does_not_shorten_a_lease",
        ),
        "a returned request that an agent has begun is taken from that agent": (
            lua("record"),
            "  elseif (op.kind == REPORT.UNSTARTED or op.kind == REPORT.REJECTED)\n"
            "    and (progress_of(job.p, job.id, i, rec.token) or"
            " was_sent_again(job, i, rec)) then\n",
            "  elseif false then\n",
            FUNCTIONS_TEST + "test_expired_request_with_progress_stays_in_flight",
        ),
        "an agent does not report that it has begun": (
            "agent/heartbeat.c",
            "        timer_set(a, &run->beat, a->now + evidence_after(run), on_beat);\n",
            "        (void)0;\n",
            f"{AGENT} test_evidence",
        ),
        "evidence that the broker did not take is not sent again": (
            "agent/heartbeat.c",
            "    if (run && run_is_under_way(run) && !timer_is_set(&run->beat))\n",
            "    if (false)\n",
            f"{AGENT} test_evidence",
        ),
        "a suspect is acknowledged before there is evidence": (
            "agent/suspect.c",
            "    if (s->token)\n        publish_progress(a, s);\n    else\n        let_go(a, s);\n",
            "    if (s->token)\n        publish_progress(a, s);\n    let_go(a, s);\n",
            f"{AGENT} test_evidence_of_a_suspect",
        ),
        "an agent that drains acknowledges a suspect without a reply": (
            "agent/suspect.c",
            "    if (a->draining)\n        running_drain(a);\n",
            "",
            f"{AGENT} test_suspect_while_draining",
        ),
        "an agent that drains keeps a suspect without evidence": (
            "agent/agent.c",
            "    suspect_requeue_all(a);\n",
            "",
            f"{AGENT} test_reported_suspect_while_draining",
        ),
        "an agent that drains gives back a suspect with evidence": (
            "agent/suspect.c",
            "void suspect_requeue_all(struct agent *a)\n{\n",
            "void suspect_requeue_all(struct agent *a)\n{\n"
            "    if (a->suspects.present && !a->suspects.present->delivery->acked)\n"
            "        requeue(a, take(a->suspects.present));\n",
            f"{AGENT} test_reported_suspect_while_draining",
        ),
        "a request that comes too late to be begun is dropped": (
            "agent/waiting.c",
            "    if (run->delivery->acked || run->delivery->repeated || "
            "delivery_is_batch(run->delivery))\n",
            "    if (true)\n",
            f"{AGENT} test_no_start_after_the_lease",
        ),
        "a request that comes too late to be begun is given back for ever": (
            "agent/waiting.c",
            "    if (run->delivery->acked || run->delivery->repeated || "
            "delivery_is_batch(run->delivery))\n",
            "    if (run->delivery->acked || delivery_is_batch(run->delivery))\n",
            f"{AGENT} test_no_start_after_the_lease",
        ),
        "a queue without consumers counts as one that was emptied": (
            "scheduler/watch.c",
            "messages == 0 && consumers > 0",
            "messages == 0",
            f"{WATCH} test_request_not_taken",
        ),
        "a queue with messages counts as one that was emptied": (
            "scheduler/watch.c",
            "messages == 0 && consumers > 0",
            "consumers > 0",
            f"{WATCH} test_request_not_taken",
        ),
        "an inspection that began before the confirm counts": (
            "scheduler/watch.c",
            "           w->confirmed < s->watches.inspection_began && s->now",
            "           s->now",
            f"{WATCH} test_confirmed_first",
        ),
        "an inspection after the wait counts": (
            "scheduler/watch.c",
            " && s->now < w->wait_ends;\n",
            ";\n",
            f"{WATCH} test_inspected_too_late",
        ),
        "an inspection of another queue counts": (
            "scheduler/watch.c",
            "    return strcmp(w->actor, s->watches.inspected) == 0 &&\n           w",
            "    return w",
            f"{WATCH} test_another_queue",
        ),
        "the first inspection counts, not the last": (
            "scheduler/watch.c",
            "            w->left_queue = messages",
            "            w->left_queue |= messages",
            f"{WATCH} test_last_inspection_counts",
        ),
        "inspections of before a lost connection count": (
            "scheduler/scheduler.c",
            "    watch_lost(s);\n}\n\nstatic void on_tick",
            "}\n\nstatic void on_tick",
            f"{WATCH} test_lost_connection",
        ),
        "a watched request is never released": (
            "scheduler/watch.c",
            "    s->watches.n--;\n",
            "",
            f"{WATCH} test_many_requests",
        ),
    },
    "A reply names the step of its token, or none of its job": {
        "a reply that names another step counts": (
            lua("record"),
            "  if op.step ~= '' and is_other_step(job.def, i, op.step) then\n",
            "  if false then\n",
            FUNCTIONS_TEST + "test_a_reply_that_names_another_step",
        ),
        "a reply that names no step of the job is refused": (
            lua("definitions"),
            " and call('HGET', def.key, 'x' .. name)\n",
            "\n",
            FUNCTIONS_TEST + "test_a_reply_that_names_another_step",
        ),
        "a definition of an earlier build never gets the names of its steps": (
            lua("definitions"),
            "  if ready ~= FORMAT or named ~= '2' then\n",
            "  if ready ~= FORMAT then\n",
            FUNCTIONS_TEST + "test_names_of_a_definition_that_an_earlier_build_has_stored",
        ),
        "a reply is refused where steps have no names": (
            lua("definitions"),
            "  return own ~= '' and own ~= name",
            "  return own ~= name",
            FUNCTIONS_TEST + "test_a_reply_of_a_job_whose_steps_have_no_names",
        ),
        "a scheduler does not tell the store which step a reply names": (
            "scheduler/on_replies.c",
            "    r->record.step = m->step;\n",
            "\n",
            "tests/integration/jobs/test_behaviours.py Behaviours.test_reply_mixed_up",
        ),
    },
    "A request that an agent rejects is not one whose wait is over": {
        "a rejected request counts as one that no agent took": (
            "scheduler/on_expired.c",
            "strcmp(d->died_of, \"expired\") == 0 ? REPORT_UNSTARTED",
            "true ? REPORT_UNSTARTED",
            "tests/integration/jobs/test_behaviours.py Behaviours.test_rejected_request",
        ),
        "a rejected request is sent again at once": (
            lua("record"),
            "  local thrown = op.kind == REPORT.REJECTED or begun and",
            "  local thrown = begun and",
            "tests/integration/store/test_functions.py Functions.test_rejected_request",
        ),
    },
    "A request that has waited in a scheduler is sent only if its job still wants it": {
        "a request that has waited is sent without asking the store": (
            "common/io/bus/publisher.c",
            "    if (m->message.ask_after && now >= m->message.ask_after && !m->sent) {\n",
            "    if (false) {\n",
            f"{BUS_PUBLISH} test_ask_after",
        ),
        "a request that has waited is sent although its job does not want it": (
            lua("record"),
            "      if wait > 0 and (wanted or was_sent_again(job, i, rec)) then\n",
            "      if wait > 0 then\n",
            f"{DISPATCH} test_waited_request_of_a_cancelled_job",
        ),
        "a request that has waited is lost": (
            "scheduler/dispatch.c",
            "    } else if (outcome == BUS_WAITED) {",
            "    } else if (false) {",
            f"{DISPATCH} test_waited_request_is_sent",
        ),
        "a repeated call about requests that waited withdraws what was sent since": (
            lua("record"),
            "      elseif not copied and not is_late then\n",
            "      elseif not copied then\n",
            "tests/integration/store/test_functions.py Functions.test_late_unsent_calls",
        ),
        "a late call about requests that waited takes the place of a later one": (
            lua("record"),
            " .. (is_late and known_number or number))",
            " .. number)",
            "tests/integration/store/test_functions.py Functions.test_late_unsent_calls",
        ),
        "a request that waited beyond the budget of a call is left to its lease": (
            lua("record"),
            "  for k = first, #list do\n    local token = list[k]\n",
            "  for k = first, min(#list, first + BUDGET - 1) do\n    local token = list[k]\n",
            FUNCTIONS_TEST + "test_more_waiting_requests_than_the_budget",
        ),
        "a request that has waited twice is left to its lease": (
            lua("record"),
            "tonumber(known_number) >= tonumber(number)",
            "true",
            "tests/integration/store/test_functions.py Functions.test_request_that_waited_twice",
        ),
        "a copy of a request that has waited is lost": (
            "scheduler/dispatch.c",
            "    } else if (outcome == BUS_WAITED) {",
            "    } else if (outcome == BUS_WAITED && !part->is_copy) {",
            f"{DISPATCH} test_copy_that_has_waited",
        ),
        "a request is withdrawn as unsent although another copy was sent": (
            lua("record"),
            "      elseif not copied and not is_late then\n",
            "      elseif not is_late then\n",
            FUNCTIONS_TEST + "test_waiting_request_with_another_copy_sent",
        ),
    },
    "A damaged job stops no other job, and can be ended": {
        "a damaged counter of the outbox stops its job for ever": (
            lua("outcome"),
            "  count_up(job.key, 'owes', 1)\n",
            "  call('HINCRBY', job.key, 'owes', 1)\n",
            "tests/integration/store/test_functions.py Functions.test_damaged_count_of_the_outbox",
        ),
        "one damaged notification stops all others": (
            lua("expire"),
            "    local good, is_there = try_job(has_notification, p, id or '', seq or '')\n",
            "    local good, is_there = true, has_notification(p, id or '', seq or '')\n",
            "tests/integration/store/test_functions.py Functions.test_damaged_count_of_tries",
        ),
        "a damaged entry of the outbox stops all others": (
            lua("expire"),
            "    local good, is_there = try_job(has_notification, p, id or '', seq or '')\n",
            "    local good, is_there = true, has_notification(p, id, seq)\n",
            "tests/integration/store/test_functions.py Functions.test_damaged_count_of_tries",
        ),
        "damaged answers to commands make the store refuse all commands": (
            lua("steer"),
            "    if not len then\n      break -- damaged: the rest is forgotten\n    end\n",
            "",
            "tests/integration/store/test_functions.py Functions.test_any_damage_to_a_job",
        ),
        "a notification with a damaged number of tries is published for ever": (
            lua("notifications"),
            "  return min(tonumber(failed) or #NOTIFICATION_WAITS, #NOTIFICATION_WAITS),\n",
            "  return min(tonumber(failed) or 0, #NOTIFICATION_WAITS),\n",
            "tests/integration/store/test_functions.py Functions.test_damaged_count_of_tries",
        ),
        "the notification of a corrupt job cannot be read": (
            lua("inspect"),
            "unpack(#ended > 0 and ended or",
            "unpack(true and ended or",
            FUNCTIONS_TEST + "test_damaged_notification_can_be_read",
        ),
        "a definition in use is dropped if the naming of its steps was cut off": (
            lua("forget"),
            "    if (tonumber(call('HGET', p .. 'def:' .. digest, 'refs') or '') or 0) == 0 then\n",
            "    if true then\n",
            FUNCTIONS_TEST + "test_interrupted_naming_of_a_definition",
        ),
        "a turn below 1 is valid": (
            lua("job"),
            " and job.turn > 0\n    and job.turn < MOST_TURNS",
            "\n   ",
            "tests/integration/store/test_functions.py Functions.test_any_damage_to_a_job",
        ),
        "a corrupt job raises no alert": (
            "supervisor/supervisor.c",
            "        if (!s->config.dry_run)\n            command_notify_torn(s, job);\n",
            "",
            "tests/integration/operation/test_supervisors.py Supervisors.test_corrupt_job",
        ),
        "a list that meets a corrupt job gets no answer": (
            "common/model/store_ops.c",
            "        read_job_fields(&fields, values + AT_LISTED_JOB_JOB_FIELDS, &listed->job);\n",
            "        read_job_fields(r, values + AT_LISTED_JOB_JOB_FIELDS, &listed->job);\n",
            "tests/integration/operation/test_supervisors.py Supervisors.test_corrupt_job",
        ),
        "each sweep raises an alert about a corrupt job": (
            "scheduler/alert_cause.c",
            "    a = cause_new(s, item, job, &alert);\n",
            "    a = cause_new(s, item, job, &alert);\n    alert_publish(s, a);\n",
            "tests/integration/operation/test_supervisors.py Supervisors.test_corrupt_job",
        ),
    },
    "A message over which the broker closes the connection is refused": {
        "a message over which the broker closes the connection is sent for ever": (
            "common/io/bus/publisher.c",
            "    if (!channel && !p->link.closed_over)\n",
            "    if (!channel)\n",
            f"{BUS_PUBLISH} test_address_that_closes_the_connection",
        ),
        "a message over which the broker closes the channel costs all that was sent with it": (
            "common/io/bus/publisher.c",
            "    if (!m || !was_alone(p, m, in_doubt))\n        return;\n    if (!channel &&",
            "    while (channel && p->n_wire > 1)\n        refuse(p, first(&p->wire));\n"
            "    m = first(&p->wire);\n    if (!m || !was_alone(p, m, in_doubt))\n"
            "        return;\n    if (!channel &&",
            f"{BUS_PUBLISH} test_missing_exchange",
        ),
        "a message is blamed for what was sent long before it": (
            "common/io/bus/publisher.c",
            "    return in_doubt &&\n           m->wired",
            "    return m->wired",
            f"{BUS_PUBLISH} test_innocent_message",
        ),
        "a queue over which the broker closes the connection is declared for ever": (
            "common/io/bus/task_queues.c",
            "    bool kept = *q->asked && link->closed_over_queue;",
            "    bool kept = false;",
            f"{BUS_CONFIRMS} test_closed_over_a_queue",
        ),
        "the next message to the same node closes the connection again": (
            "common/io/bus/direct.c",
            "        add(&d->shunned, SHUNNED_MAX, NODE, node, now + SHUNNED_MS);\n"
            "    add(&d->shunned, SHUNNED_MAX, SENDER, sender_of(m), now + SHUNNED_MS);\n",
            "        ;\n",
            f"{BUS_PUBLISH} test_address_that_closes_the_connection",
        ),
        "the sender of a bad address may invent the next one": (
            "common/io/bus/direct.c",
            "    return find(&d->shunned, SENDER, sender_of(m)) || find",
            "    return find",
            f"{BUS_PUBLISH} test_invented_addresses",
        ),
        "a bad address of one sender costs the addresses of others": (
            "common/io/bus/direct.c",
            'bytes_str(sender && *sender ? sender : m->message.key)',
            'bytes_str(sender && *sender ? "all" : m->message.key)',
            f"{BUS_PUBLISH} test_invented_addresses",
        ),
        "a made-up address of direct reply-to is accepted": (
            "common/model/reply_to.c",
            "    return reply_to_is_direct(reply_to) ? direct_read(&p, reply_to)\n",
            "    return reply_to_is_direct(reply_to) ? (void)p, "
            "strlen(reply_to) <= WIRE_REPLY_TO_MAX\n",
            f"{WIRE} test_reply_to",
        ),
        "the process in an address of direct reply-to may have more bytes behind it": (
            "common/model/reply_to.c",
            "2 + atom + rest == len",
            "2 + atom + rest <= len",
            f"{WIRE} test_reply_to",
        ),
        "the field reply_to may hold an address of direct reply-to": (
            "common/model/wire.c",
            "        return reply_to_field_valid(*field);\n",
            "        return reply_to_property_valid(*field);\n",
            "tests/integration/messages/test_bad_input.py BadInput.test_invalid_direct_reply_to",
        ),
    },
    "Each client that has submitted a job gets the event of its end": {
        "only the last submitter gets the event": (
            "scheduler/notification.c",
            "n->publishes_earlier && i < job->n_earlier",
            "false",
            f"{NOTIFICATIONS} test_all_submitters_are_notified",
        ),
        "earlier submitters get the event with each try": (
            "scheduler/notification.c",
            "op->returned ? OPS_CAUSE_PUBLISHED : OPS_CAUSE_OVER",
            "OPS_CAUSE_OVER",
            f"{NOTIFICATIONS} test_last_submitter_is_gone",
        ),
        "earlier submitters do not get the event if a scheduler dies over it": (
            "scheduler/notification.c",
            "cause, what, EARLIER_NONCE);",
            "cause, what, op->nonce);",
            f"{NOTIFICATIONS} test_submitters_of_a_scheduler_that_dies",
        ),
        "a notification waits for an earlier submitter whose queue is gone": (
            "scheduler/publish.c",
            "            part->op->returned |= !part->optional;\n",
            "            part->op->returned = true;\n",
            f"{NOTIFICATIONS} test_earlier_submitter_is_gone",
        ),
        "a client that submits twice from one place gets two events": (
            lua("submit"),
            "    if to ~= '' and not same and",
            "    if to ~= '' and",
            f"{NOTIFICATIONS} test_all_submitters_are_notified",
        ),
        "addresses of submitters are kept without a limit": (
            lua("submit"),
            " and #earlier < ADDRESSES_KEPT then",
            " then",
            f"{NOTIFICATIONS} test_some_submitters_are_notified",
        ),
        "another correlation is no other address": (
            lua("submit"),
            "  if last_to == reply_to and last_correlation == correlation then",
            "  if last_to == reply_to then",
            f"{NOTIFICATIONS} test_all_submitters_are_notified",
        ),
    },
    "If no agent takes a request, it waits twice as long next time, uncounted": {
        "the wait for an agent is not doubled": (
            lua("dispatch"),
            "min(t.wait * 2 ^ rec.unstarted, WAIT_CAP)",
            "min(t.wait, WAIT_CAP)",
        ),
        "a request that no agent took counts as a failure": (
            lua("record"),
            "  local begun = dispatch_may_be_begun(job, i, rec, op)\n  add_history(",
            "  local begun = dispatch_may_be_begun(job, i, rec, op)\n"
            "  rec.failures = rec.failures + 1\n  add_history(",
        ),
    },
    "complete_by bounds forward work, and on_deadline says what becomes of the job": {
        "a Submit after its own complete_by is accepted": (
            lua("submit"),
            "  if complete_by ~= '0' and tonumber(complete_by) <= now and not is_quiet(p, "
            "now) then",
            "  if false then",
            "tests/integration/jobs/test_turns.py Turns.test_submit_after_complete_by",
        ),
        "a deadline never passes": (
            lua("job"),
            "  return job.complete_by > 0 and job.now >= job.complete_by "
            "and not job.deadline_turn\n    and job.desired",
            "  return false and job.desired",
        ),
        "a job is not due when its deadline passes": (
            lua("expire"),
            "  if at > job.now and job.desired == STATE.ACTIVE then\n    lower_due(job, at)",
            "  if false then\n    lower_due(job, at)",
        ),
        "a deadline takes the place of a pause": (
            lua("drive"),
            "    if job.hold == '' then -- a person's",
            "    if true then -- a person's",
            "tests/integration/store/test_functions.py Functions.test_deadline_of_a_paused_job",
        ),
        "on_deadline has no effect": (
            lua("drive"),
            "  if recourse == RECOURSE.COMPENSATE then\n"
            "    turn(job, STATE.DISABLED, 'FAILURE', 'DEADLINE')",
            "  if false then\n    turn(job, STATE.DISABLED, 'FAILURE', 'DEADLINE')",
        ),
        "a deadline counts on the way back": (
            lua("job"),
            "job.now >= job.complete_by and not job.deadline_turn\n"
            "    and job.desired == STATE.ACTIVE and",
            "job.now >= job.complete_by and not job.deadline_turn\n    and",
        ),
        "a job that is retried forgets its deadline": (
            lua("commands"),
            "    reopen(job)\n    apply_deadline(job)\n",
            "    reopen(job)\n",
            "tests/integration/jobs/test_turns.py Turns.test_deadline_after_a_retry",
        ),
    },
    "A timer fires in time, and the supervisor knows when": {
        "an earlier time does not lower the time at which a job is due": (
            lua("job"),
            "  if t < job.due then\n    job.due = t",
            "  if t < job.due then\n    job.due = job.due",
        ),
        "a job that goes forward again does not wait for its start_at": (
            lua("commands"),
            "  elseif to == STATE.ACTIVE and job.start_at > job.now and not job.started then",
            "  elseif false then",
            "tests/integration/store/test_functions.py Functions.test_turn_before_start_at",
        ),
        "a lease counts as over a moment early": (
            lua("expire"),
            "    if till > job.now then\n      return till\n",
            "    if till > job.now + 300 then\n      return till\n",
        ),
        "a sweep does not correct a join counter": (
            lua("sweep"),
            "      if waits and (sweep.missing ~= rec.waiting or sweep.missing == 0) then\n",
            "      if false then\n",
            f"{SUPERVISOR} test_wide_join_counter_is_corrected",
        ),
    },
    "A forward action follows its dependencies, an undo its dependents, and neither other steps": {
        "a completion counts twice at join counters": (
            lua("transitions"),
            "  job.open = job.open - 1\n  add_piece(job, i)\n",
            "  job.open = job.open - 1\n  add_piece(job, i) add_piece(job, i)\n",
        ),
        "an undo does not wait for all dependents": (
            lua("dispatch"),
            "  return job.desired == STATE.ACTIVE and step.n_after or step.n_dependents\nend",
            "  return job.desired == STATE.ACTIVE and step.n_after or min(step.n_dependents, 1)\n"
            "end",
        ),
        "a step in flight counts as undone": (
            lua("walks"),
            "  if rec.state ~= STEP.AT_REST then\n    return false\n  elseif rec.failures",
            "  if rec.state == STEP.IN_FLIGHT and rec.current == STATE.DISABLED then\n"
            "    return job.desired == STATE.DISABLED\n"
            "  elseif rec.failures",
        ),
        "an undo waits for all that is in flight": (
            lua("walks"),
            "  if rec.current ~= job.desired and rec.waiting == 0 and can_dispatch(job) then\n"
            "    if not",
            "  if rec.current ~= job.desired and rec.waiting == 0 and can_dispatch(job) "
            "and (job.desired == STATE.ACTIVE or job.busy == 0) then\n"
            "    if not",
        ),
    },
    "A turn does not touch dispatches in flight, and nothing new goes forward": {
        "a forward action begins after the turn back": (
            lua("dispatch"),
            "  return job.ending ~= '' or rec.asked == STATE.ACTIVE\n"
            "    and (job.desired == STATE.DISABLED or rec.turn < job.since)\n",
            "  return job.ending ~= ''\n",
        ),
        "timers of the direction before fire": (
            lua("dispatch"),
            "    if turned and rec.state ~= STEP.IN_FLIGHT then\n",
            "    if false then\n",
        ),
        "a turn withdraws dispatches in flight": (
            lua("dispatch"),
            "    if turned and rec.state ~= STEP.IN_FLIGHT then\n"
            "      set_state(job, i, rec, STEP.AT_REST, 0)",
            "    if turned then\n      set_state(job, i, rec, STEP.AT_REST, 0)",
        ),
    },
    "An undo that was sent is completed before its step goes forward again": {
        "an undo in flight is forgotten when the job turns again": (
            lua("dispatch"),
            "    and (rec.asked == STATE.DISABLED or rec.turn < job.since) then\n",
            "    and rec.turn < job.since and rec.asked == STATE.ACTIVE then\n",
        ),
        "each try of an undo has a key of its own": (
            lua("dispatch"),
            "    or rec.current == STATE.UNKNOWN "
            "and (asked == STATE.DISABLED or rec.turn >= job.since))",
            "    or rec.current == STATE.UNKNOWN "
            "and asked == STATE.ACTIVE and rec.turn >= job.since)",
        ),
    },
    "On the way forward only what an earlier turn may have done is undone before another try": {
        "a failed step is undone before it is tried again": (
            lua("transitions"),
            "    dispatch(job, i, rec, next_asked(job, rec), nonce)\n  end\nend\n\n"
            "-- Brings a step",
            "    local back = rec.current == STATE.UNKNOWN and step_of(job.def, i).has_revert\n"
            "    dispatch(job, i, rec, back and 'D' or next_asked(job, rec), nonce)\n  end\nend\n"
            "\n-- Brings a step",
        ),
    },
    "Each turn has keys of its own, and all tries of the same work have one key": {
        "a turn keeps the old key": (
            lua("dispatch"),
            "    rec.turn = (asked == STATE.DISABLED and job.desired == STATE.ACTIVE) "
            "and job.since - 1\n      or job.turn\n",
            "    rec.turn = max(rec.turn, 1)\n",
        ),
        "new arguments keep the old key": (
            lua("change"),
            "  if how ~= DIFFERENCE.TERMS then\n    set(job, 'turn', job.turn + 1)\n",
            "  if false then\n    set(job, 'turn', job.turn + 1)\n",
            "tests/integration/store/test_functions.py Functions.test_forward_turn_of_an_undo",
        ),
    },
    "An undo has its own actor, arguments, lock and policy": {
        "an undo has the terms of the forward action": (
            lua("definitions"),
            "  if asked == STATE.ACTIVE then\n    return step.forward\n",
            "  if true then\n    return step.forward\n",
        ),
        "an undo goes to the actor of the forward action": (
            "scheduler/request.c",
            "    const struct workflow_dispatch *d = r->active ? &step->forward : &step->revert;\n"
            "\n"
            "    m->job_id",
            "    const struct workflow_dispatch *d = &step->forward;\n\n    m->job_id",
        ),
        "an undo with its own arguments gets those of the forward action": (
            "scheduler/request.c",
            "    const struct workflow_dispatch *d = r->active ? &step->forward : &step->revert;\n"
            "    Drover__V1__StepRequest m",
            "    const struct workflow_dispatch *d = &step->forward;\n"
            "    Drover__V1__StepRequest m",
            "tests/integration/jobs/test_turns.py Turns.test_undo_with_its_own_terms",
        ),
    },
    "An undo gets the arguments, the result and the key of its forward action": {
        "an undo gets a key that the forward action did not have": (
            lua("dispatch"),
            "  if asked == STATE.ACTIVE then\n    rec.forward = rec.turn",
            "  if asked == STATE.ACTIVE then\n    rec.forward = job.since",
            "tests/integration/store/test_functions.py Functions.test_forward_turn_of_an_undo",
        ),
        "an undo carries the key of another turn": (
            "scheduler/request.c",
            "key_of(s, op, step, r->forward_turn);",
            "key_of(s, op, step, r->forward_turn + 1);",
        ),
        "an undo does not get the result of the forward action": (
            "scheduler/request.c",
            "    if (found >= 0)\n        m->forward_result",
            "    if (false)\n        m->forward_result",
            "tests/integration/jobs/test_behaviours.py Behaviours.test_forward_result_reaches_undo",
        ),
        "an undo gets a result of an earlier turn": (
            lua("job"),
            "  elseif old > 0 then\n    call('HDEL', data, field)\n",
            "  elseif false then\n",
            "tests/integration/jobs/test_turns.py Turns.test_results_belong_to_their_turn",
        ),
    },
    "A step without an undo is passed over": {
        "a step without an undo keeps its job from going back": (
            lua("transitions"),
            "  if next_asked(job, rec) == STATE.ACTIVE or step_of(job.def, i).has_revert then",
            "  if true then",
        ),
    },
    "Each turn has exactly one outcome, and its submitter is notified of it": {
        "the end of a job puts no notification into the outbox": (
            lua("outcome"),
            "  call('ZADD', job.p .. 'owed', int(job.now + ASK_AGAIN), "
            "job.id .. ' ' .. job.seq)\n",
            "",
        ),
        "a notification gives the outcome of a later turn": (
            lua("inspect"),
            "  local ended = {notification_of(settled)}\n",
            "  local ended = {call('HGET', p .. 'job:' .. job_id, 'outcome'), 'ERROR', '1', '1', "
            "'0', '',\n"
            "    call('HGET', p .. 'job:' .. job_id, 'failed') or ''}\n",
            FUNCTIONS_TEST + "test_notification_of_an_earlier_turn",
        ),
        "a notification that is not known is settled": (
            "scheduler/notification.c",
            "        return; /* forgotten, not in the outbox, or put off: nothing to publish */\n",
            "        op_call(s, op, settle_call, ignore_answer);\n        return;\n",
            f"{ROLLBACK} test_unknown_notifications_are_ignored",
        ),
        "a notification that came in the place of another one goes to drover.dead at once": (
            "scheduler/notification.c",
            "n->undeliverable && job.updated != n->at",
            "false",
            f"{NOTIFICATIONS} test_undeliverable_and_another",
        ),
        "a job is forgotten once the notification of its last outcome is confirmed": (
            lua("forget"),
            "  return (tonumber(count or '0') or 0) > 0 or call(",
            "  return call(",
            FUNCTIONS_TEST + "test_forget_waits_for_notifications",
        ),
        "a job that an earlier build has settled is forgotten before that is confirmed": (
            lua("forget"),
            "(count or '0') or 0) > 0 or call('ZSCORE', p .. 'owed', id .. ' ' .. (seq or ''))\n",
            "(count or '0') or 0) > 0\n",
            FUNCTIONS_TEST + "test_forget_waits_for_uncounted_notifications",
        ),
        "a cancelled job ends as one that was only turned back": (
            lua("drive"),
            "    elseif job.cause == 'CANCELLED' then\n",
            "    elseif false then\n",
        ),
        "a Cancel on the way back turns the job once more": (
            lua("commands"),
            "  if job.desired == to then\n",
            "  if job.desired == to and cause ~= 'CANCELLED' then\n",
        ),
        "a Cancel before the first dispatch leaves the steps open": (
            lua("commands"),
            "    job.open, job.cursor = 0, {} -- nothing was begun\n",
            "    job.cursor = {}\n",
            "tests/integration/store/test_functions.py Functions.test_turn_before_start_at",
        ),
    },
    "A step that may have begun does not become another by a migration": {
        "a silent dispatch did not begin": (
            lua("expire"),
            "  call('HSET', job.key, 'b' .. i, '1')\nend\n",
            "end\n",
            "tests/integration/store/test_functions.py Functions.test_migrate_a_silent_step",
        ),
        "no agent has a request that has left its queue": (
            lua("migrate"),
            "in_flight and (progress or was_taken)\n",
            "in_flight and progress\n",
            "tests/integration/store/test_functions.py Functions.test_migrate_a_silent_step",
        ),
        "Progress after the lease is evidence": (
            lua("renew"),
            "  if not known and elapsed >= t.lock then\n",
            "  if false then\n",
            "tests/integration/store/test_functions.py Functions.test_late_progress_is_no_evidence",
        ),
        "a rejected request did not begin": (
            lua("record"),
            "  if op.kind == REPORT.REJECTED then\n",
            "  if false then\n",
            "tests/integration/store/test_functions.py Functions.test_migrate_a_silent_step",
        ),
        "a request that was rejected after Progress did not begin": (
            lua("record"),
            "  elseif (op.kind == REPORT.UNSTARTED or op.kind == REPORT.REJECTED)\n",
            "  elseif op.kind == REPORT.UNSTARTED\n",
            "tests/integration/store/test_functions.py Functions.test_rejected_after_progress",
        ),
        "an expiry that only the queue has shown does not double the wait": (
            lua("expire"),
            "progress and 0 or rec.unstarted + 1\n",
            "counts and 0 or rec.unstarted + 1\n",
            "tests/integration/store/test_functions.py Functions.test_wait_after_expiries",
        ),
        "an actor without agents keeps the requests of others from being watched": (
            "scheduler/watch.c",
            "        if (w->wait_ends >= last->wait_ends) {\n",
            "        if (true) {\n",
            f"{WATCH} test_many_long_waits",
        ),
    },
    "Some actors, by name, get their requests in JSON": {
        "a request that is too large in JSON is sent": (
            "scheduler/dispatch.c",
            "    if (packed.len == 0) {",
            "    if (false) {",
            f"{DISPATCH} test_too_large_in_json",
        ),
        "an actor gets JSON if its name is the beginning of a listed one": (
            "common/base/str.c",
            "        if (n == len && memcmp(words, word, len) == 0)",
            "        if (n >= len && memcmp(words, word, len) == 0)",
            "tests/integration/agents/test_json_agent.py JsonAgent.test_without_protobuf",
        ),
    },
    "A job that cannot be read stops no other, and can be killed": {
        "a corrupt job stops the expiry of others": (
            lua("expire"),
            "try_job(expire_job, p, id, now, lease_factor, clock,\n",
            "true, expire_job(p, id, now, lease_factor, clock,\n",
            "tests/integration/store/test_functions.py Functions.test_corrupt_jobs",
        ),
        "a corrupt job stops the sweep": (
            lua("sweep"),
            "try_job(sweep_one, p, id, now, sweep, places)\n",
            "true, sweep_one(p, id, now, sweep, places)\n",
            "tests/integration/store/test_functions.py Functions.test_corrupt_jobs",
        ),
        "a right that is missing makes a job corrupt": (
            lua("job"),
            " or match(first, '^ERR The user executing')\n",
            "\n",
            "tests/integration/store/test_functions.py Functions.test_error_that_is_not_the_jobs",
        ),
        "a right that is missing in a later Redis makes a job corrupt": (
            lua("job"),
            "    or match(first, '^ERR ACL failure') then\n",
            "    then\n",
            "tests/integration/store/test_functions.py Functions.test_error_that_is_not_the_jobs",
        ),
        "a server that refuses commands makes a job corrupt": (
            lua("job"),
            "  if code and code ~= 'ERR' and code ~= 'WRONGTYPE' or ",
            "  if ",
            "tests/integration/store/test_functions.py Functions.test_error_that_is_not_the_jobs",
        ),
        "a Kill repairs a job that Redis refuses to read": (
            lua("steer"),
            "  if try_job(load, p, id, now, '0') and ",
            "  if pcall(load, p, id, now, '0') and ",
            "tests/integration/store/test_functions.py "
            "Functions.test_kill_when_redis_refuses_a_command",
        ),
        "a corrupt job cannot be killed": (
            lua("steer"),
            "    make_readable(p, job_id, now)\n",
            "",
            "tests/integration/store/test_functions.py Functions.test_corrupt_jobs",
        ),
        "a record of a step that makes no sense is read": (
            lua("job"),
            "  if not current then\n",
            "  if false then\n",
            "tests/integration/store/test_functions.py Functions.test_corrupt_jobs",
        ),
    },
    "A sweep corrects wrong indexes and counters": {
        "a sweep trusts the number of open steps": (
            lua("sweep"),
            "  if sweep.open ~= job.open then\n",
            "  if false then\n",
            "tests/integration/store/test_functions.py Functions.test_sweep_mends_counters",
        ),
        "a sweep trusts the number of busy steps": (
            lua("sweep"),
            "  if sweep.busy ~= job.busy then\n",
            "  if false then\n",
            "tests/integration/store/test_functions.py Functions.test_sweep_mends_counters",
        ),
        "a sweep trusts the number of stuck steps": (
            lua("sweep"),
            "  if sweep.failed_forward ~= job.failed_forward "
            "or sweep.failed_undo ~= job.failed_undo then\n",
            "  if false then\n",
            FUNCTIONS_TEST + "test_sweep_mends_the_count_of_stuck_steps",
        ),
        "a sweep goes on counting although its job has changed": (
            lua("sweep"),
            "    sweep.counts = sweep.step == 0 and sweep.edge == 0 "
            "-- else the next round counts\n",
            "",
            "tests/integration/store/test_functions.py Functions.test_sweep_counts_across_calls",
        ),
        "a sweep does not count the steps of a job on hold": (
            lua("sweep"),
            "  if job.phase == 'PROCESSING' and #job.cursor == 0 then\n    sweep_steps",
            "  if can_dispatch(job) and #job.cursor == 0 then\n    sweep_steps",
            FUNCTIONS_TEST + "test_sweep_mends_the_count_of_stuck_steps",
        ),
        "a job whose counters were corrected at its end is not driven": (
            lua("expire"),
            " or should_settle(job)\n",
            "\n",
            FUNCTIONS_TEST + "test_sweep_drives_a_job_whose_counters_were_too_high",
        ),
        "a sweep leaves a step that waits for nothing": (
            lua("sweep"),
            "          set_state(job, i, rec, STEP.RECOVERY_REQUESTED, job.now)\n",
            "",
            "tests/integration/store/test_functions.py Functions.test_sweep_mends_a_join_counter",
        ),
        "a sweep continues at a rank": (
            lua("sweep"),
            "  return sweep.job and call('ZCOUNT', p .. 'open', '-inf', '(' .. sweep.created) "
            "or 0\n",
            "  return sweep.job and 1 or 0\n",
            "tests/integration/store/test_functions.py Functions.test_a_sweep_while_jobs_end",
        ),
        "a sweep passes over jobs that were created in the same millisecond": (
            lua("sweep"),
            "call('ZCOUNT', p .. 'open', '-inf', '(' .. sweep.created)",
            "call('ZCOUNT', p .. 'open', '-inf', sweep.created)",
            "tests/integration/store/test_functions.py Functions.test_a_sweep_while_jobs_end",
        ),
        "a sweep covers a step back of the clock that came after it began": (
            lua("sweep"),
            "    clock.swept = sweep.back\n",
            "    clock.swept = clock.back\n",
            "tests/integration/store/test_functions.py Functions.test_step_back_during_a_sweep",
        ),
        "a sweep goes on counting although a step has come to rest": (
            lua("sweep"),
            "  if sweep.seq ~= job.seq or sweep.had_busy ~= job.busy then\n",
            "  if sweep.seq ~= job.seq then\n",
            FUNCTIONS_TEST + "test_sweep_counts_while_a_step_comes_to_rest",
        ),
        "a sweep trusts the index of due jobs": (
            lua("sweep"),
            "  local wrong = not score or tonumber(score) > job.due or job.due > latest\n",
            "  local wrong = job.due > latest\n",
            FUNCTIONS_TEST + "test_sweep_mends_the_index_of_due_jobs",
        ),
        "a notification of a job that is gone stays in the outbox": (
            lua("expire"),
            "      call('ZREM', p .. 'owed', member)\n",
            "",
            "tests/integration/store/test_functions.py Functions.test_indexes_with_unknown_jobs",
        ),
    },
    "The input and the results of a job take 64 MiB at most": {
        "a result may exceed the limit": (
            lua("record"),
            "  elseif rec.asked == STATE.ACTIVE and job.bytes + #op.result > DATA_MAX then\n",
            "  elseif false then\n",
            "tests/integration/store/test_functions.py Functions.test_limit_of_data_of_a_job",
        ),
        "a result that a person adds may exceed the limit": (
            lua("commands"),
            "  elseif job.bytes + #result > DATA_MAX then\n",
            "  elseif false then\n",
            "tests/integration/store/test_functions.py Functions.test_limit_of_data_of_a_job",
        ),
    },
    "A job runs as often as tries says, and not again after a person took it back": {
        "a paused job runs again": (
            lua("drive"),
            "      elseif job.hold == '' then\n        run_again(job, runs)",
            "      else\n        run_again(job, runs)",
            FUNCTIONS_TEST + "test_a_paused_job_is_not_tried_again",
        ),
        "a job runs again for ever": (
            lua("drive"),
            "  local at = runs < runs_max and not job.deadline_turn",
            "  local at = not job.deadline_turn",
        ),
        "a job does not run again": (
            lua("drive"),
            "job.cause == 'FAILURE' and at then",
            "job.cause == 'FAILURE' and false then",
            "tests/integration/store/test_functions.py Functions.test_tries_of_a_job",
        ),
        "a job that a person took back runs again by itself": (
            lua("commands"),
            "      call('HSET', job.key, 'tried', int(RUNS_MAX)) -- no other pass by itself\n",
            "",
            "tests/integration/jobs/test_turns.py Turns.test_cancel_during_compensation",
        ),
    },
    "COMPENSATION_FAILED when no undo can go on: it names the steps, and ACTIVE is refused": {
        "a job gives up while another undo can go on": (
            lua("drive"),
            "  elseif idle and #job.cursor == 0 and job.hold == '' and job.failed_undo > 0 then",
            "  elseif #job.cursor == 0 and job.hold == '' and job.failed_undo > 0 then",
            "tests/integration/store/test_functions.py Functions.test_compensation_failed",
        ),
        "the notification of COMPENSATION_FAILED names no step": (
            lua("outcome"),
            "  add_notification(job, outcome, reason, job.failed)\n",
            "  add_notification(job, outcome, reason, '')\n",
            "tests/integration/store/test_functions.py Functions.test_compensation_failed",
        ),
        "a job whose undo has failed goes forward again": (
            lua("commands"),
            "  elseif to == STATE.ACTIVE and job.outcome == 'COMPENSATION_FAILED' then\n",
            "  elseif false then\n",
            "tests/integration/store/test_functions.py Functions.test_compensation_failed",
        ),
        "after a retry the last of the other failures decides": (
            lua("outcome"),
            "    deciding.record_failure(job, tonumber(match(job.failed, '^%d+')),\n",
            "    deciding.record_failure(job, tonumber(match(job.failed, '%d+$')),\n",
            "tests/integration/store/test_functions.py "
            "Functions.test_deciding_failure_after_a_retry",
        ),
        "the record of COMPENSATION_FAILED names no step": (
            lua("transitions"),
            "    set(job, 'failed', job.failed == '' and int(i) or job.failed .. ' ' .. int(i))\n",
            "    set(job, 'failed', '')\n",
            "tests/integration/store/test_functions.py Functions.test_compensation_failed",
        ),
    },
    "A command is carried out once, by its command_id": {
        "a repeated command is carried out again": (
            lua("steer"),
            "    if known.id == id then\n",
            "    if false then\n",
            "tests/integration/store/test_functions.py Functions.test_repeated_command",
        ),
        "a command with the command_id of another gets the answer of that one": (
            lua("steer"),
            "  if known and known.command ~= command.name then\n",
            "  if false then\n",
            "tests/integration/jobs/test_turns.py Turns.test_repeated_command",
        ),
    },
    "A command respects if_seq and when it was issued; Retry has an order of its own": {
        "a refused command overtakes others": (
            lua("steer"),
            "  if code == 'DONE' or code == 'UNCHANGED' then\n",
            "  if true then\n",
            FUNCTIONS_TEST + "test_refused_commands_supersede_nothing",
        ),
        "a sender whose clock is ahead shuts the others out": (
            lua("steer"),
            "int(min(tonumber(command.issued_at), job.now + CLOCK_AHEAD))",
            "command.issued_at",
            "tests/integration/store/test_functions.py Functions.test_command_from_a_clock_ahead",
        ),
        "a command ignores if_seq": (
            lua("steer"),
            "  elseif command.if_seq ~= '0' and tonumber(command.if_seq) ~= job.seq then",
            "  elseif false then",
        ),
        "an overtaken command is carried out": (
            lua("steer"),
            "  return order and command.issued_at ~= '0'",
            "  return false and command.issued_at ~= '0'",
            "tests/integration/store/test_functions.py Functions.test_orders_of_commands",
        ),
        "a Retry makes an earlier Cancel count as overtaken": (
            lua("steer"),
            "retry = 'retried',",
            "retry = 'ordered',",
            "tests/integration/store/test_functions.py Functions.test_orders_of_commands",
        ),
    },
    "The sender of a command, and its reason, are kept": {
        "a command leaves no entry in the history": (
            lua("steer"),
            "  add_history(job, 'command', command.name, command.id ~= '' and command.id or '-', "
            "command.said)\n",
            "",
            "tests/integration/cli/test_why.py Why.test_held",
        ),
    },
    "Pause: replies are recorded, nothing is sent, until Resume": {
        "a job that its deadline holds cannot be paused": (
            lua("commands"),
            "  elseif job.hold == 'paused' then\n",
            "  elseif job.hold ~= '' then\n",
            "tests/integration/store/test_functions.py Functions.test_pause_after_the_deadline",
        ),
        "join counters are not counted while a job is on hold": (
            lua("job"),
            "and (work.from ~= WALK.TURN or job.ending == ''))",
            "and work.from ~= WALK.TURN)",
            FUNCTIONS_TEST + "test_resolve_in_a_paused_job_that_turned",
        ),
        "a job on hold sends requests": (
            lua("job"),
            "  return job.phase == 'PROCESSING' and job.hold == '' and job.ending == ''\n",
            "  return job.phase == 'PROCESSING' and job.ending == ''\n",
        ),
        "a resumed job forgets the steps that wait": (
            lua("commands"),
            "  add_history(job, 'resumed')\n  if job.phase == 'PROCESSING' then\n",
            "  add_history(job, 'resumed')\n  if job.phase == 'NEVER' then\n",
        ),
        "a job that is not on hold is resumed": (
            lua("commands"),
            "  elseif job.hold == '' then\n    return 'UNCHANGED'\n  end\n  set(",
            "  end\n  set(",
        ),
        "a paused job takes no replies": (
            lua("record"),
            "rec.token ~= op.token or rec.state == STEP.IN_FLIGHT and finished(job) then",
            "rec.token ~= op.token or rec.state == STEP.IN_FLIGHT and "
            "(finished(job) or job.hold == 'paused') then",
            "tests/integration/jobs/test_turns.py Turns.test_pause",
        ),
    },
    "Retry begins failed and parked steps anew, none in flight; UNKNOWN keeps its arguments": {
        "a Retry of all steps adds nothing to one that is under way": (
            lua("transitions"),
            "  if not last or last.from ~= kind or last.offset > 0 then\n",
            "  if not last or last.from ~= kind then\n",
            "tests/integration/store/test_functions.py Functions.test_second_retry_all",
        ),
        "a Retry of a step keeps its counters": (
            lua("commands"),
            "  remove_parked(job, i)\n  reset_counts(rec)\n",
            "  remove_parked(job, i)\n",
            FUNCTIONS_TEST + "test_retry_of_one_step_resets_its_failures",
        ),
        "a Retry of all steps keeps the counters": (
            lua("walks"),
            "      reset_counts(rec)\n      set_state(job, i, rec, STEP.AT_REST, 0)\n",
            "      set_state(job, i, rec, STEP.AT_REST, 0)\n",
            FUNCTIONS_TEST + "test_retry_all_of_steps_whose_timers_the_end_cancelled",
        ),
        "a Retry of all steps keeps the counters of a due step that it has not reached yet": (
            lua("drive"),
            "  elseif retry_ahead(job, i) and retry_applies(job, i, rec) then\n",
            "  elseif false then\n",
            FUNCTIONS_TEST + "test_retry_all_before_the_walk_reaches_a_step",
        ),
        "a Retry of all steps begins a step anew that has tries left": (
            lua("drive"),
            "  elseif retry_ahead(job, i) and retry_applies(job, i, rec) then\n",
            "  elseif retry_ahead(job, i) then\n",
            FUNCTIONS_TEST + "test_retry_all_before_the_walk_reaches_a_step",
        ),
        "a Retry of all steps counts a step as passed that it reaches next": (
            lua("walks"),
            "work.from == WALK.RETRY and work.offset <= i then",
            "work.from == WALK.RETRY and work.offset < i then",
            FUNCTIONS_TEST + "test_retry_all_before_the_walk_reaches_a_step",
        ),
        "a Retry of all steps keeps the counters of a step that was parked when the job ended": (
            lua("walks"),
            "  elseif rec.state == STEP.IN_FLIGHT or rec.current == job.desired\n"
            "    or rec.failures + rec.expiries == 0 then",
            "  elseif rec.state ~= STEP.RECOVERY_REQUESTED then",
            FUNCTIONS_TEST + "test_retry_all_of_steps_whose_timers_the_end_cancelled",
        ),
        "a Retry of all steps keeps the counters of a step that had failed when the job ended": (
            lua("walks"),
            "  elseif rec.state == STEP.AT_REST then\n    return has_tried(job, rec)\n",
            "",
            FUNCTIONS_TEST + "test_retry_all_of_a_permanent_failure_after_the_end",
        ),
        "a Retry of all steps passes over a step for which recovery was requested": (
            lua("walks"),
            "  elseif rec.state == STEP.IN_FLIGHT or rec.current == job.desired\n"
            "    or rec.failures + rec.expiries == 0 then",
            "  elseif rec.state ~= STEP.AT_REST or rec.current == job.desired "
            "or rec.failures + rec.expiries == 0 then",
            FUNCTIONS_TEST + "test_retry_all_of_a_step_due_to_be_parked",
        ),
        "a Retry of all steps forgets that a step has too many expiries": (
            lua("transitions"),
            "  if rec.expiries >= t.expiries then\n"
            "    return 'DEATHS', silence_ends(job, t, rec)\n  elseif",
            "  if",
            FUNCTIONS_TEST + "test_retry_all_of_a_step_due_to_be_parked",
        ),
        "a Retry of all steps begins parked steps before it checks their counters": (
            lua("commands"),
            "resume_after_failure(job, next(recs) and WALK.RESUME or WALK.RETRY)",
            "resume_after_failure(job, WALK.RESUME)",
            FUNCTIONS_TEST + "test_retry_all_of_a_permanent_failure_after_the_end",
        ),
        "a parked step whose timer the end of its job cancelled does not count as parked": (
            lua("commands"),
            "and not has_tried(job, rec)",
            "",
            FUNCTIONS_TEST + "test_retry_of_a_step_whose_timer_the_end_cancelled",
        ),
        "a step in flight is retried": (
            lua("commands"),
            "  if rec.state == STEP.IN_FLIGHT or rec.state == STEP.RECOVERY_REQUESTED then\n"
            "    return rec.state ==",
            "  if false then\n    return rec.state ==",
        ),
        "a step that may have taken effect gets other arguments": (
            lua("change"),
            "  return how == DIFFERENCE.ANEW and 'ANEW' or nil, "
            "how ~= DIFFERENCE.ANEW and 'UNKNOWN' or nil\n",
            "  return 'ANEW'\n",
            FUNCTIONS_TEST + "test_new_arguments_for_an_unknown_step_are_refused",
        ),
        "new arguments are not kept": (
            lua("change"),
            "    set_data(job, 'a' .. i, arguments)\n",
            "",
            "tests/integration/jobs/test_turns.py Turns.test_retry_with_other_arguments",
        ),
    },
    "Resolve sets the state of a step, unless it is in flight or waits for other steps": {
        "a step that is resolved as done loses its result": (
            lua("commands"),
            "  if result ~= '' or state == STATE.DISABLED then\n",
            "  if true then\n",
            "tests/integration/store/test_functions.py Functions.test_resolve_keeps_the_result",
        ),
        "a resolved state is not kept": (
            lua("commands"),
            "  rec.current = state\n",
            "",
        ),
        "a step in flight is resolved": (
            lua("commands"),
            "  elseif rec.state == STEP.IN_FLIGHT then\n    return 'WRONG_STATE', 'IN_FLIGHT', i\n",
            "  elseif false then\n",
        ),
        "a step is resolved before the steps that it waits for": (
            lua("commands"),
            "  elseif rec.waiting > 0 then\n    return 'WRONG_STATE', 'WAITING', i",
            "  elseif false then\n    return 'WRONG_STATE', 'WAITING', i",
        ),
    },
    "Kill: the job stops where it is, for good": {
        "a killed job takes replies": (
            lua("record"),
            "if rec.token ~= op.token or rec.state == STEP.IN_FLIGHT and finished(job) then",
            "if rec.token ~= op.token then",
        ),
        "a killed job takes commands": (
            lua("steer"),
            "  elseif job.hold == 'killed' then\n    return 'WRONG_STATE', 'KILLED'\n",
            "",
            "tests/integration/jobs/test_turns.py Turns.test_kill",
        ),
    },
    "Migrate changes steps that have not begun, and no others; what may have begun is undone": {
        "a migration loses a Retry of all steps": (
            lua("migrate"),
            "    if work.from == WALK.RETRY or work.from == WALK.RESUME then",
            "    if work.from == WALK.RESUME then",
            "tests/integration/store/test_functions.py Functions.test_migrate_after_retry_all",
        ),
        "a migration loses a Resume": (
            lua("migrate"),
            "    if work.from == WALK.RETRY or work.from == WALK.RESUME then",
            "    if work.from == WALK.RETRY then",
            "tests/integration/store/test_functions.py Functions.test_migrate_after_resume",
        ),
        "a step is migrated although its agent has sent Progress": (
            lua("migrate"),
            "in_flight and (progress or was_taken)\n",
            "in_flight and was_taken\n",
            "tests/integration/store/test_functions.py Functions.test_migrate_a_step_with_progress",
        ),
        "a step that no agent has begun counts as begun after a command of a person": (
            lua("walks"),
            "  if rec.unstarted < rec.attempt then\n    rec.unstarted = 0",
            "  if true then\n    rec.unstarted = 0",
            "tests/integration/store/test_functions.py Functions.test_resolve_keeps_a_step_unbegun",
        ),
        "a scan continues where it was although a migration came in between": (
            lua("job"),
            "    if tonumber(offset) < job.n then\n",
            "    if true then\n",
            "tests/integration/store/test_functions.py Functions.test_migrate_during_a_scan",
        ),
        "a scan past the last step continues there when the job gets more steps": (
            lua("job"),
            "      job.scan_changed = true\n    end\n",
            "    end\n",
            FUNCTIONS_TEST + "test_scan_position_past_the_last_step",
        ),
        "a migration changes a step that has begun": (
            lua("migrate"),
            "    or rec.unstarted < rec.attempt - (in_flight and 1 or 0)",
            "    or rec.current == STATE.ACTIVE",
            "tests/integration/store/test_functions.py Functions.test_migrate_a_step_in_flight",
        ),
        "a migration does not count join counters anew": (
            lua("migrate"),
            "  local cursor = job.cursor\n  count_anew(job)\n",
            "  local cursor = job.cursor\n",
            "tests/integration/store/test_functions.py Functions.test_migrate",
        ),
        "a migration keeps the record of a step that is gone": (
            lua("migrate"),
            "    job.records[i] = nil\n    call('HDEL', job.key, int(i))\n",
            "    job.records[i] = nil\n",
            "tests/integration/jobs/test_migrate.py Migrate.test_nothing_is_left_of_removed_steps",
        ),
        "a migration keeps the reference to the old definition": (
            lua("change"),
            "  hold_definition(job.p, digest)\n  release_definition(job.p, job.def.digest)\n",
            "  hold_definition(job.p, digest)\n",
            "tests/integration/store/test_functions.py Functions.test_migrate",
        ),
        "a migration voids timers": (
            lua("dispatch"),
            "    local turned = rec.since < job.since\n",
            "    local turned = true\n",
            "tests/integration/jobs/test_migrate.py Migrate.test_timers_stay",
        ),
        "a migration leaves out a step that was sent": (
            lua("migrate"),
            "  elseif is_gone and in_flight_or_unknown(rec) then\n",
            "  elseif false then\n",
            FUNCTIONS_TEST + "test_migrate_without_a_step_that_was_sent",
        ),
        "a migration repeats a step that a person has resolved as done": (
            lua("migrate"),
            "  elseif rec.current == STATE.ACTIVE then\n    return nil, 'BEGUN'",
            "  elseif false then\n    return nil, 'BEGUN'",
            "tests/integration/store/test_functions.py Functions.test_migrate_a_resolved_step",
        ),
        "a step that had failed for good is still failed after a migration": (
            lua("migrate"),
            "    elseif rec.state == STEP.FAILED and rec.since >= job.since then",
            "    elseif false then",
            "tests/integration/store/test_functions.py Functions.test_migrate_a_failed_step",
        ),
        "arguments that a migration drops still count": (
            lua("migrate"),
            "  set_data(job, 'a' .. i, '') --",
            "  call('HDEL', job.p .. 'data:' .. job.id, 'a' .. i) --",
            FUNCTIONS_TEST + "test_migrate_a_step_with_new_arguments",
        ),
        "a migration does not undo what may have been begun": (
            lua("migrate"),
            "    rec.current = maybe and STATE.UNKNOWN or STATE.DISABLED\n",
            "    rec.current = STATE.DISABLED\n",
            "tests/integration/jobs/test_migrate.py Migrate.test_in_flight_without_an_agent",
        ),
        "a migration takes a step that has changed for the same": (
            "common/model/migration.c",
            "           a->heartbeat_ms == b->heartbeat_ms && policy_same(&a->policy, "
            "&b->policy);\n",
            "           a->heartbeat_ms == b->heartbeat_ms;\n",
            "tests/unit/test_migration test_differences",
        ),
    },
    "A step at rest can be changed; what it may have done is undone before, and its fences stay": {
        "a step in flight is changed": (
            lua("commands"),
            "  if rec.state == STEP.IN_FLIGHT or rec.state == STEP.RECOVERY_REQUESTED then\n"
            "    return rec.state == STEP.RECOVERY_REQUESTED and",
            "  if rec.state == STEP.RECOVERY_REQUESTED then\n"
            "    return rec.state == STEP.RECOVERY_REQUESTED and",
            FUNCTIONS_TEST + "test_change_of_a_step_in_flight_or_done",
        ),
        "a step that may have been done is changed without an undo": (
            lua("change"),
            "  elseif before == 'UNDO' then\n",
            "  elseif false then\n",
            FUNCTIONS_TEST + "test_change_of_an_unknown_step",
        ),
        "the undo before a change has the new definition": (
            lua("change"),
            "  set(job, 'waits_for', concat(numbers, ' '))\n",
            "  set(job, 'waits_for', concat(numbers, ' '))\n  take_definition(job, definition)\n",
            FUNCTIONS_TEST + "test_change_of_an_unknown_step",
        ),
        "the record of an undo before a change loses the turn of the forward action": (
            lua("job"),
            "rec.since == 1 and rec.forward == rec.turn and text",
            "rec.since == 1 and text",
            FUNCTIONS_TEST + "test_change_of_an_unknown_step",
        ),
        "other steps begin while a change waits": (
            lua("dispatch"),
            "  elseif asked == STATE.ACTIVE and job.waits_for ~= '' then\n"
            "    set_state(job, i, rec, STEP.AT_REST, 0)\n    return\n",
            "",
            FUNCTIONS_TEST + "test_change_of_an_unknown_step",
        ),
        "a change waits only for the first step that is undone": (
            lua("change"),
            "current == STATE.UNKNOWN then\n      return false\n    end\n  end\n  return true\n"
            "end\n",
            "current == STATE.UNKNOWN then\n      return false\n    end\n    break\n  end\n"
            "  return true\n"
            "end\n",
            FUNCTIONS_TEST + "test_migrate_unknown_steps",
        ),
        "steps that a change has held up are not begun": (
            lua("walks"),
            "    change.carry_out(job, nonce)\n    add_walk(job, WALK.RESUME)\n",
            "    change.carry_out(job, nonce)\n",
            FUNCTIONS_TEST + "test_change_of_an_unknown_step",
        ),
        "another lease is other work": (
            lua("change"),
            "  add_history(job, how == DIFFERENCE.TERMS and 'changed' or 'edited', i, what)\n",
            "  set(job, 'turn', job.turn + 1)\n  rec.turn = job.turn\n"
            "  add_history(job, how == DIFFERENCE.TERMS and 'changed' or 'edited', i, what)\n",
            FUNCTIONS_TEST + "test_change_of_the_lease",
        ),
        "a migration to another lease is other work": (
            lua("migrate"),
            "    if step.how ~= DIFFERENCE.TERMS then\n      replace_step(",
            "    if true then\n      replace_step(",
            FUNCTIONS_TEST + "test_migrate_to_another_lease",
        ),
        "a job that has turned is changed nevertheless": (
            lua("transitions"),
            "  change.drop(job)\n  if job.hold == 'deadline' then\n",
            "  if job.hold == 'deadline' then\n",
            FUNCTIONS_TEST + "test_change_dropped_by_a_turn",
        ),
        "a job that has ended keeps the definition of a change": (
            lua("outcome"),
            "function settle(job, outcome, reason)\n  change.drop(job)\n",
            "function settle(job, outcome, reason)\n",
            FUNCTIONS_TEST + "test_change_dropped_by_a_turn",
        ),
        "a change that is not carried out leaves no entry in the history": (
            lua("change"),
            "  if code ~= 'DONE' then\n    add_history(job, 'unchanged', why or code, i)\n",
            "  if code ~= 'DONE' then\n",
            FUNCTIONS_TEST + "test_change_dropped_by_a_resolve",
        ),
        "a second change overwrites one that waits": (
            lua("change"),
            "  elseif job.waits_for ~= '' then\n    return 'WRONG_STATE', 'CHANGING'\n  elseif how",
            "  elseif how",
            FUNCTIONS_TEST + "test_change_of_an_unknown_step",
        ),
        "an undo before a change, and what is done after it, have the same key": (
            lua("change"),
            "    set(job, 'turn', job.turn + 2)\n    add_history(job, 'changing', step.i)\n",
            "    set(job, 'turn', job.turn + 1)\n    add_history(job, 'changing', step.i)\n"
            "    job.turn = job.turn + 1\n",
            FUNCTIONS_TEST + "test_key_after_a_change_that_was_dropped",
        ),
        "an undo that was sent is other work": (
            lua("change"),
            "    if step.rec.asked == STATE.ACTIVE then\n"
            "      step.rec.asked, step.rec.turn = STATE.DISABLED",
            "    if true then\n      step.rec.asked, step.rec.turn = STATE.DISABLED",
            FUNCTIONS_TEST + "test_an_undo_that_was_sent_keeps_its_key",
        ),
        "a try that is due while a change waits is lost": (
            lua("expire"),
            "  elseif (job.hold ~= '' or job.waits_for ~= '' "
            "and next_asked(job, rec) == STATE.ACTIVE)\n"
            "    and",
            "  elseif job.hold ~= ''\n    and",
            FUNCTIONS_TEST + "test_timers_wait_for_a_change",
        ),
        "the undo before a change has the new arguments": (
            lua("change"),
            "    return put_off(job, command.nonce, {{i = i, rec = rec}}, 'change',",
            "    set_data(job, 'a' .. i, arguments)\n"
            "    return put_off(job, command.nonce, {{i = i, rec = rec}}, 'change',",
            FUNCTIONS_TEST + "test_new_arguments_of_an_unknown_step",
        ),
        "each user that may submit may change steps": (
            "scheduler/access.c",
            "    if (changes_step(m) && !is_operator(a, user)) {",
            "    if (changes_step(m) && !is_operator(a, user) && !m->reason) {",
            f"{OWNERS} Owners.test_only_operators_decide_about_steps",
        ),
        "any actor may do a registered step": (
            "scheduler/change.c",
            "    if (!*actor || !s->access->registered || registration_has_actor(s, actor))",
            "    if (true)",
            f"{OWNERS} Owners.test_only_operators_decide_about_steps",
        ),
        "a change may rename a step": (
            "common/model/wire_check.c",
            "    if (*m->name || m->n_after > 0 ||",
            "    if (m->n_after > 0 ||",
            WIRE + " test_changes",
        ),
        "a change may give a step another undo": (
            "common/model/wire_check.c",
            "    if (revert && (*revert->action || *revert->actor || revert->arguments))",
            "    if (false)",
            WIRE + " test_changes",
        ),
        "other work counts as other terms": (
            "common/model/migration.c",
            "    bool same = work_same(&from->forward, &to->forward) &&",
            "    bool same =",
            "tests/unit/test_migration test_differences",
        ),
    },
    "Heartbeats renew a lease, never beyond start + lock; their loss shows early": {
        "a heartbeat makes a lease longer than its lock": (
            lua("renew"),
            "  set_state(job, i, rec, STEP.IN_FLIGHT, min(limit, lease))\n",
            "  set_state(job, i, rec, STEP.IN_FLIGHT, lease + t.lock)\n",
        ),
        "the first Progress comes late": (
            "agent/heartbeat.c",
            "        on_beat(a, &run->beat);",
            "        timer_set(a, &run->beat, a->now + request->heartbeat_ms, on_beat);",
            f"{AGENT} test_heartbeats",
        ),
        "a heartbeat may be longer than its lease": (
            "agent/heartbeat.c",
            "    return request->heartbeat_ms < request->lock_ms ? "
            "request->heartbeat_ms : request->lock_ms;\n",
            "    return request->heartbeat_ms;\n",
            f"{AGENT} test_heartbeat_beyond_the_lease",
        ),
        "the first heartbeat extends the lease to the whole lock": (
            lua("renew"),
            "  set_state(job, i, rec, STEP.IN_FLIGHT, min(limit, lease))\n",
            "  set_state(job, i, rec, STEP.IN_FLIGHT, limit)\n",
            "tests/integration/agents/test_long_work.py LongWork.test_early_expiry",
        ),
        "the token of a Progress is not compared": (
            lua("renew"),
            "  if not rec or rec.token ~= token or rec.state ~= STEP.IN_FLIGHT then",
            "  if not rec or rec.state ~= STEP.IN_FLIGHT then",
        ),
        "Progress renews a lease that is over": (
            lua("renew"),
            "  if not rec or rec.token ~= token or rec.state ~= STEP.IN_FLIGHT then",
            "  if not rec or rec.token ~= token then",
            "tests/integration/store/test_functions.py Functions.test_progress_of_another_token",
        ),
    },
    "An agent begins nothing, and sends nothing, after its lease": {
        "a program is started although no time is left": (
            "agent/handler_exec.c",
            "    if (time_left(run) == 0) {",
            "    if (false) {",
            "tests/unit/test_exec test_deadline_passed",
        ),
        "an HTTP request is made although no time is left": (
            "agent/handler_http.c",
            "    if (now >= run->head.run->deadline) {",
            "    if (false) {",
            "tests/unit/test_http test_deadline_passed",
        ),
        "a reply that could not be sent waits beyond its lease": (
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
            "agent/running.c",
            "    if (a->now >= run_stop_time(a, run)) { /* the process stood still for so long */",
            "    if (false) {",
            f"{AGENT} test_no_start_after_the_lease",
        ),
        "an agent that is cut off from the broker goes on": (
            "agent/run.c",
            "run->lease_until < stop ? run->lease_until : stop, fire",
            "stop, fire",
            f"{AGENT} test_cut_off",
        ),
    },
    "The fraction and the note of Progress are shown to a client that asks": {
        "the fraction is not kept": (
            lua("renew"),
            "format('%s %.0f %s %s', token, limit, fraction, note)",
            "format('%s %.0f %s %s', token, limit, '-1', note)",
            "tests/integration/agents/test_long_work.py LongWork.test_progress_is_shown_and_renews",
        ),
        "the note is not kept": (
            lua("renew"),
            "format('%s %.0f %s %s', token, limit, fraction, note)",
            "format('%s %.0f %s %s', token, limit, fraction, '')",
            "tests/integration/agents/test_long_work.py LongWork.test_progress_is_shown_and_renews",
        ),
        "an agent does not report the progress of its program": (
            "agent/handler_exec.c",
            "        run->head.progress(&run->head, run->progress_lines.fraction, "
            "run->progress_lines.note);\n",
            "        ;\n",
            "tests/integration/agents/test_long_work.py LongWork.test_progress_is_shown_and_renews",
        ),
        "Progress does not say in its headers which attempt of which step it is about": (
            "agent/heartbeat.c",
            "    outgoing_headers(a, m, request);\n",
            "",
            f"{AGENT} test_progress_has_headers",
        ),
    },
    "The answer to Progress stops what the job no longer wants": {
        "work that the job does not want ends without a reply": (
            "agent/running.c",
            "        run_set_reply(a, run, run->cut);\n",
            "        return leave_slot(a, run), run_silent(a, run);\n",
            f"{AGENT} test_cut_off",
        ),
        "the answer to Progress says that all is wanted": (
            lua("renew"),
            "  local wanted = not finished(job) and not is_obsolete(job, rec) and not (left "
            "and left <= 0)\n",
            "  local wanted = true\n",
            "tests/integration/agents/test_long_work.py LongWork.test_unwanted_is_terminated",
        ),
        "an HTTP request that is not wanted is not aborted": (
            "agent/handler_http.c",
            "    if (!run->easy)\n        return;\n    target_abandoned",
            "    if (true)\n        return;\n    target_abandoned",
            "tests/integration/agents/test_long_work.py LongWork.test_unwanted_request_is_aborted",
        ),
        "an agent ignores that its work is not wanted": (
            "agent/on_answers.c",
            "    if (answer->wanted)\n        return;\n",
            "    if (answer->token)\n        return;\n",
            f"{AGENT} test_unwanted_run_is_stopped",
        ),
    },
    "A program gets SIGTERM, and after kill_grace its whole group SIGKILL": {
        "a program gets no SIGTERM": (
            "agent/handler_exec.c",
            "uv_process_kill(&run->process, SIGTERM);",
            "uv_process_kill(&run->process, SIGUSR1);",
            "tests/unit/test_exec test_deadline",
        ),
        "a program that ignores SIGTERM goes on running": (
            "agent/handler_exec.c",
            "    case TERMINATED:\n        kill_group(run);\n",
            "    case TERMINATED:\n",
            "tests/unit/test_exec test_deadline",
        ),
        "children that a program leaves behind go on running": (
            "common/io/daemon/child.c",
            "kill(-process->pid, signal)",
            "kill(process->pid, signal)",
            "tests/unit/test_alert_io test_process_group_is_killed",
        ),
    },
    "A lease longer than half of consumer_timeout is acknowledged early": {
        "long work is acknowledged late": (
            "agent/heartbeat.c",
            "    if (run->settled || early == 0 || run->seen.request->lock_ms < early)\n",
            "    if (true)\n",
            f"{AGENT} test_early_ack",
        ),
    },
    "An agent holds no request without a slot for it": {
        "an agent takes more requests than it has slots for": (
            "agent/crowding.c",
            "    if (!crowded || (a->slots.freed && a->slots.unseen == 0))\n",
            "    if (true)\n",
            f"{AGENT} test_requests_are_left_to_other_agents",
        ),
        "an agent that had no slot never consumes again": (
            "agent/crowding.c",
            "if (a->crowding.paused && free_slot)",
            "if (false)",
        ),
        "an agent that drains keeps requests that it has not begun": (
            "agent/agent.c",
            "        effects_add(a->out, EFFECT_REQUEUE, d->handle);\n",
            "        ;\n",
            f"{AGENT} test_drain",
        ),
    },
    "An expiry counts once, with any number of supervisors": {
        "a repeated Recover has an effect twice": (
            lua("drive"),
            "      if rec.state == STEP.RECOVERY_REQUESTED then\n",
            "      if rec.state ~= STEP.IN_FLIGHT then\n",
        ),
        "a lease expires again before the job is driven": (
            lua("expire"),
            "    withdraw(job, i, rec)\n  elseif rec.till == 0",
            "    withdraw(job, i, rec)\n"
            "  elseif rec.state == STEP.RECOVERY_REQUESTED and rec.till <= job.now then\n"
            "    rec.expiries = rec.expiries + 1\n"
            "  elseif rec.till == 0",
        ),
    },
    "Partitions are shared fairly among live supervisors, and taken over from dead ones": {
        "the first supervisor leads everything": (
            lua("processes"),
            "  return names[tonumber(match(p, '(%d+)}:$')) % max(#names, 1) + 1]\n",
            "  return names[1]\n",
            f"{SUPERVISOR} test_partitions_are_shared",
        ),
        "a dead supervisor keeps its lead": (
            lua("processes"),
            "  return left > 0 and left <= tonumber(lease)\n",
            "  return till and lease\n",
            f"{SUPERVISOR} test_other_supervisor_leads",
        ),
        "a lead of before a step back of the clock lasts": (
            lua("processes"),
            "  return left > 0 and left <= tonumber(lease)\n",
            "  return left > 0\n",
            f"{SUPERVISOR} test_lead_after_the_clock_is_set",
        ),
        "a supervisor does not go on after its connection to the store broke": (
            "supervisor/supervisor.c",
            "    s->up = true;\n",
            "    s->up = !s->n;\n",
        ),
        "a supervisor that ends does not give up its lead": (
            "supervisor/supervisor.c",
            "s->config.election && (!s->stopping || p->leads);",
            "s->config.election && !s->stopping;",
            f"{SUPERVISOR} test_stop_gives_up_the_lead",
        ),
    },
    "What an unknown user or agent can use up has a limit": {
        "definitions that come with a Submit cost nothing": (
            "scheduler/on_submit.c",
            "    if (op->item->redelivered ||\n",
            "    if (true || op->item->redelivered ||\n",
            f"{LIMITS_USERS} test_definition_limit",
        ),
        "operators have the limit of users on definitions": (
            "scheduler/allowance.c",
            "    int64_t bytes = access_limits(s->access, user).bytes;\n",
            "    int64_t bytes = access_limits(s->access, \"ann\").bytes;\n",
            f"{LIMITS_USERS} test_definition_limit",
        ),
        "the allowance of definitions never grows back": (
            "scheduler/allowance.c",
            "    a->left += (s->now - a->at) * t->rate;\n",
            "    a->left += t->seconds > 100 ? 0 : (s->now - a->at) * t->rate;\n",
            f"{LIMITS_USERS} test_definition_limit",
        ),
        "all large messages are decoded at once": (
            "scheduler/intake.c",
            "    return in->read_bytes == 0 ||",
            "    return true || in->read_bytes == 0 ||",
            f"{LIMITS_MEMORY} test_large_messages_wait",
        ),
        "large messages of one queue stop those of another": (
            "scheduler/intake.c",
            "    struct intake_queue *in = &s->intake.queues[item->source];\n"
            "    struct waiting *w;",
            "    struct intake_queue *in = &s->intake.queues[0];\n    struct waiting *w;",
            f"{LIMITS_MEMORY} test_large_messages_wait",
        ),
        "large messages wait in a scheduler without a limit": (
            "scheduler/intake.c",
            "    if (d->body.len <= INTAKE_LARGE_BYTES ||",
            "    if (true || d->body.len <= INTAKE_LARGE_BYTES ||",
            f"{LIMITS_MEMORY} test_large_messages_go_back",
        ),
        "a message that was given back comes again at once": (
            "scheduler/intake.c",
            "    if (!s->intake.consuming_stopped)\n        consume(s, false);\n",
            "",
            f"{LIMITS_MEMORY} test_large_messages_go_back",
        ),
        "a scheduler that has stopped consuming never starts again": (
            "scheduler/intake.c",
            "    if (s->intake.consuming_stopped && s->intake.unread_bytes <= INTAKE_UNREAD_BYTES "
            "/ 2)\n",
            "    if (false)\n",
            f"{LIMITS_MEMORY} test_large_messages_go_back",
        ),
        "large Submits are kept while the store is full": (
            "scheduler/op.c",
            "    } else if (full && item_is_large(op->item)) {",
            "    } else if (false) {",
            f"{LIMITS_MEMORY} test_store_full",
        ),
        "log lines about foreign input have no limit": (
            "common/base/log.c",
            "    return ++bound->lines <= LOG_OFTEN_MAX;",
            "    return ++bound->lines <= 100 * LOG_OFTEN_MAX;",
            "tests/unit/test_base test_log_often",
        ),
        "the log does not show that lines were left out": (
            "common/base/log.c",
            "        if (bound->lines > LOG_OFTEN_MAX)\n",
            "        if (false)\n",
            "tests/unit/test_base test_log_often",
        ),
        "agents may send any number of made-up tokens": (
            "scheduler/on_replies.c",
            "    if (item->body.len < SAYS_SOMETHING || "
            "allowance_takes_replies(s, item->actor, 0))\n        return false;",
            "    if (true)\n        return false;",
            f"{LIMITS_AGENTS} test_bad_replies",
        ),
        "good replies cost as much as bad ones": (
            "scheduler/record.c",
            "            allowance_return_reply(s, op->item->actor);\n        if",
            "            (void)0;\n        if",
            f"{LIMITS_AGENTS} test_bad_replies",
        ),
        "redelivered messages are taken without a limit": (
            "scheduler/allowance.c",
            "    return !a || a->left > -t.seconds * t.rate * 1000;\n",
            "    return a != NULL;\n",
            f"{LIMITS_USERS} test_rate_of_redelivered_messages",
        ),
        "commands are accepted until the store is full": (
            "scheduler/steer.c",
            "    return !s->store_full || !access_owner",
            "    return true || !access_owner",
            f"{LIMITS_MEMORY} test_commands_when_nearly_full",
        ),
        "Progress of one step costs nothing": (
            "scheduler/on_replies.c",
            "} else if (last[i] && allowance_takes_progress(s, item->actor)) {",
            "} else if (last[i]) {",
            f"{LIMITS_AGENTS} test_progress_costs",
        ),
        "agents of an unknown actor have no limit": (
            "scheduler/allowance.c",
            "*actor || s->access->required ? s->allowances.bad_replies : 0",
            "*actor ? s->allowances.bad_replies : 0",
            f"{LIMITS_AGENTS} test_replies_by_the_shared_exchange",
        ),
        "an alert about one actor keeps the alerts about others from being sent": (
            "scheduler/allowance.c",
            "    if (news)\n        a->alerted_at = s->now;\n    return news;\n",
            "    if (s->now < s->alerts.isolated_at + ALERT_AGAIN_MS)\n        return false;\n"
            "    s->alerts.isolated_at = s->now;\n    return news;\n",
            f"{LIMITS_AGENTS} test_alert_for_each_actor",
        ),
        "bad replies of one actor use up the allowance of others": (
            "scheduler/allowance.c",
            '(struct terms){effects_printf(s->out, "\\n%s", actor),',
            '(struct terms){effects_printf(s->out, "\\n%s", ""),',
            f"{LIMITS_AGENTS} test_bad_replies",
        ),
        "a job has a queue declared for each actor that it names": (
            "scheduler/dispatch.c",
            "s->dispatcher.other_actors_left-- == 0) {",
            "s->dispatcher.other_actors_left-- == UINT_MAX) {",
            f"{LIMITS_USERS} test_declared_actors",
        ),
        "actors of registered workflows have no queues declared": (
            "scheduler/dispatch.c",
            "    if (!registration_has_actor(s, actor) && s->dispatcher.other",
            "    if (s->dispatcher.other",
            f"{LIMITS_USERS} test_declared_actors_of_workflows",
        ),
        "alerts of one user push out those of another": (
            "scheduler/alert_io.c",
            "    leave_out(a, most, most->waiting.prev);",
            "    leave_out(a, latest, latest->waiting.prev);",
            "tests/unit/test_alert_io test_owners_take_turns",
        ),
        "alerts are sent in the order in which they came": (
            "scheduler/alert_io.c",
            "    list_append(&a->abouts, &about->link);\n    if (first) {",
            "    list_append(a->abouts.next, &about->link);\n    if (first) {",
            "tests/unit/test_alert_io test_owners_take_turns",
        ),
        "the number of alerts that were left out is not reported": (
            "scheduler/alert_io.c",
            "    if (about->n == 0 && about->left_out == 0)\n",
            "    if (about->n == 0)\n",
            "tests/unit/test_alert_io test_owners_take_turns",
        ),
        "a message may hold any number of replies": (
            "scheduler/on_replies.c",
            "    if (m->n_replies > WIRE_REPLIES_MAX || m->n_progress > WIRE_REPLIES_MAX) {",
            "    if (false) {",
            f"{LIMITS_AGENTS} test_too_many_replies",
        ),
        "new jobs are accepted until the store is out of memory": (
            "scheduler/on_submit.c",
            "    if (!s->store_full) {",
            "    if (true) {",
            f"{LIMITS_MEMORY} test_nearly_full",
        ),
        "a store that was full stays full for ever": (
            "scheduler/scheduler.c",
            "        s->store_full =\n            event",
            "        s->store_full |=\n            event",
            f"{LIMITS_MEMORY} test_nearly_full",
        ),
        "a user may take all of a scheduler's time": (
            "scheduler/allowance.c",
            "    return !a || a->left > 0;",
            "    return true;",
            f"{LIMITS_USERS} test_rate",
        ),
        "a query costs no more than its message": (
            "scheduler/op.c",
            "            if (op->item->source == SCHEDULER_CONTROL)\n"
            "                allowance_spend(",
            "            if (false)\n                allowance_spend(",
            f"{LIMITS_USERS} test_rate",
        ),
        "an allowance grows without a limit": (
            "scheduler/allowance.c",
            "    if (a->left > most)\n",
            "    if (false)\n",
            f"{LIMITS_USERS} test_rate",
        ),
        "an operator is limited": (
            "scheduler/access.c",
            "    if (!a->required || is_operator(a, user) || words_have(a->supervisors, user))\n",
            "    if (!a->required || words_have(a->supervisors, user))\n",
            f"{LIMITS_USERS} test_rate",
        ),
        "a supervisor is limited": (
            "scheduler/access.c",
            "    if (!a->required || is_operator(a, user) || words_have(a->supervisors, user))\n",
            "    if (!a->required || is_operator(a, user))\n",
            f"{LIMITS_USERS} test_rate_without_a_reply_to",
        ),
        "a large message is decoded although its user is over the limit": (
            "scheduler/on_delivery.c",
            "limit && item->large ? limit : decode(",
            "decode(",
            f"{LIMITS_USERS} test_rate_without_a_reply_to",
        ),
        "a user may have any number of jobs": (
            lua("submit"),
            "  return jobs > 0 and call('ZCARD', p .. 'l:=' .. owner) >= jobs\n",
            "  return false\n",
            f"{LIMITS_USERS} test_job_limit",
        ),
        "each partition has the limit of jobs of a whole user": (
            "scheduler/allowance.c",
            "    return (most + s->partitions - 1) / s->partitions;",
            "    return most;",
            f"{LIMITS_USERS} test_job_limit",
        ),
        "the jobs of a user may take any number of bytes": (
            lua("submit"),
            "  return bytes > 0 and (tonumber(",
            "  return false and (tonumber(",
            "tests/integration/store/test_functions.py Functions.test_limit_of_bytes_of_a_user",
        ),
        "labels cost no bytes": (
            lua("submit"),
            "#split_texts(labels) * LABEL_BYTES + 2 * #labels",
            "0",
            "tests/integration/store/test_functions.py Functions.test_limit_of_bytes_of_a_user",
        ),
        "a command costs no bytes": (
            lua("steer"),
            "  call('HINCRBY', job.p .. 'users', owner, int(cost))\n",
            "",
            FUNCTIONS_TEST + "test_commands_count_for_their_owner",
        ),
        "a user over the limit may still send commands": (
            lua("steer"),
            "  elseif not within_bytes(p, command_name, owner, bytes) then\n",
            "  elseif false then\n",
            FUNCTIONS_TEST + "test_commands_count_for_their_owner",
        ),
        "a user over the limit may not end jobs": (
            lua("steer"),
            " or command_name == 'cancel' or command_name == 'kill'\n    or not over",
            "\n    or not over",
            FUNCTIONS_TEST + "test_commands_count_for_their_owner",
        ),
        "the bytes of commands are not given back": (
            lua("steer"),
            "  call('HINCRBY', job.key, 'cost', int(cost))\n",
            "",
            FUNCTIONS_TEST + "test_commands_count_for_their_owner",
        ),
        "the bytes of forgotten jobs still count": (
            lua("forget"),
            "    if owner and cost > 0 and call('HINCRBY'",
            "    if false and call('HINCRBY'",
            "tests/integration/store/test_functions.py Functions.test_limit_of_bytes_of_a_user",
        ),
        "a start_at may be any time ahead": (
            lua("submit"),
            "  elseif horizon > 0 and start_at > now + horizon then",
            "  elseif false then",
            "tests/integration/store/test_functions.py Functions.test_no_start_beyond_the_horizon",
        ),
    },
    "A job belongs to its owner": {
        "a user who repeats a Submit takes over the job": (
            lua("submit"),
            "  if call('HGET', job.key, 'digest') ~= digest or is_others(p, job.id, owner) then\n",
            "  if call('HGET', job.key, 'digest') ~= digest then\n",
            f"{OWNERS} Owners.test_end_of_a_job_is_its_owners",
        ),
        "a job without an owner belongs to everybody": (
            lua("job"),
            "'submitter') ~= owner\n",
            "'submitter') ~= owner and call('HEXISTS', p .. 'data:' .. id, 'submitter') == 1\n",
            "tests/integration/store/test_functions.py Functions.test_job_without_an_owner",
        ),
        "any user may send commands to a job": (
            lua("steer"),
            "  if is_others(p, job_id, owner) then\n",
            "  if false then\n",
            "tests/integration/store/test_functions.py Functions.test_job_of_another_owner",
        ),
        "the Kill of another user repairs a corrupt job": (
            lua("steer"),
            "  if is_others(p, job_id, owner) then\n",
            "  if command_name == 'kill' then\n"
            "    make_readable(p, job_id, now)\n"
            "  end\n"
            "  if is_others(p, job_id, owner) then\n",
            "tests/integration/store/test_functions.py Functions.test_job_without_an_owner",
        ),
        "any user may read a job": (
            lua("inspect"),
            "call('EXISTS', job) == 0 or is_others(p, job_id, owner) then",
            "call('EXISTS', job) == 0 then",
            "tests/integration/store/test_functions.py Functions.test_job_of_another_owner",
        ),
        "any user may read a history": (
            lua("inspect"),
            "  if not digest or is_others(p, job_id, owner) then",
            "  if not digest then",
            "tests/integration/store/test_functions.py Functions.test_job_of_another_owner",
        ),
        "a command with names of steps shows other users which steps there are": (
            "scheduler/steer.c",
            "                    access_owner(s->access, op->item->user));",
            "                    NULL);",
            f"{OWNERS} Owners.test_job_of_another_is_unknown",
        ),
        "each user gets a list of all jobs": (
            "scheduler/list_jobs.c",
            "access_owner(s->access, item->user)",
            "NULL",
            f"{OWNERS} Owners.test_job_of_another_is_unknown",
        ),
        "a job has no label with its owner": (
            "scheduler/on_submit.c",
            "    if (s->access->required)\n        ops_label(",
            "    if (false)\n        ops_label(",
            f"{OWNERS} Owners.test_job_of_another_is_unknown",
        ),
        "operators have only the rights of other users": (
            "scheduler/access.c",
            "a->required && !is_operator(a, user) ? user : NULL",
            "a->required ? user : NULL",
            f"{OWNERS} Owners.test_job_of_another_is_unknown",
        ),
        "a message without a user is accepted": (
            "scheduler/access.c",
            "    if (!a->required || *user)\n",
            "    if (true)\n",
            f"{OWNERS} Owners.test_messages_without_a_user_are_refused",
        ),
        "any user may send Recover": (
            "scheduler/access.c",
            "        if (words_have(a->supervisors, user))\n",
            "        if (true)\n",
            f"{OWNERS} Owners.test_only_supervisors_send_recover",
        ),
        "the supervisor does not give its user_id": (
            "supervisor/supervisor_io.c",
            "bus.identify = true;",
            "bus.identify = false;",
            f"{OWNERS} Owners.test_only_supervisors_send_recover",
        ),
        "a Submit may bring a definition where only registered ones may run": (
            "scheduler/access.c",
            "    if (m->definition && a->registered) {",
            "    if (false) {",
            f"{OWNERS} Owners.test_definitions",
        ),
        "a definition in a Submit takes a registered name": (
            lua("submit"),
            "  elseif definition ~= '' and takes_a_name(p, definition, full_name) then\n",
            "  elseif false then\n",
            FUNCTIONS_TEST + "test_name_of_a_registered_workflow",
        ),
        "a definition in a Submit takes another version of a registered name": (
            lua("submit"),
            "call('HGET', p .. 'workflows', name)\n    and call(",
            "call('HGET', p .. 'workflows', full_name)\n    and call(",
            FUNCTIONS_TEST + "test_name_of_a_registered_workflow",
        ),
        "a submitter may resolve a step": (
            "scheduler/access.c",
            "    if (rewrites_step(m) && a->registered && !is_operator(a, user)) {",
            "    if (false) {",
            f"{OWNERS} Owners.test_only_operators_decide_about_steps",
        ),
        "a submitter may start any workflow": (
            "scheduler/access.c",
            "    if (!s->workflows[0])\n",
            "    if (true)\n",
            f"{OWNERS} Owners.test_who_may_start_what",
        ),
        "a submitter may migrate a job to a workflow that it may not start": (
            "scheduler/access.c",
            "    return m->command_case != DROVER__V1__CONTROL__COMMAND_MIGRATE ||\n",
            "    return true ||\n",
            f"{OWNERS} Owners.test_who_may_start_what",
        ),
        "the scheduler publishes to any queue": (
            "scheduler/access.c",
            "    if (!a->required || !*reply_to ||",
            "    if (true || !*reply_to ||",
            f"{OWNERS} Owners.test_scheduler_writes_only_where_the_sender_may",
        ),
        "a queue whose name begins like the user's belongs to the user": (
            "scheduler/access.c",
            " && queue[len] == '.' && queue[len + 1];",
            ";",
            f"{OWNERS} Owners.test_scheduler_writes_only_where_the_sender_may",
        ),
        "the refusal of a malformed message goes to any queue": (
            "scheduler/on_delivery.c",
            "    said = or_abort(strdup(allowed ? said : \"\"));",
            "    said = or_abort(strdup(allowed || !item->message.base ? said : \"\"));",
            f"{OWNERS} Owners.test_scheduler_writes_only_where_the_sender_may",
        ),
        "the history shows the name that the sender claims": (
            "scheduler/steer.c",
            "!s->access->required ? m->by",
            "!s->access->required || *m->by ? m->by",
            f"{OWNERS} Owners.test_history_names_the_user",
        ),
        "it is not logged that identity is off": (
            "scheduler/scheduler_io.c",
            "    if (!r && !io->access->required)\n",
            "    if (false)\n",
            f"{OWNERS} Owners.test_identity_off_is_logged",
        ),
    },
    "A reply counts only if it comes from agents of the step's actor": {
        "the tokens of one call have the same digits": (
            lua("dispatch"),
            "redis.sha1hex(nonce .. '.' .. int(i))",
            "redis.sha1hex(nonce)",
            "tests/integration/store/test_functions.py Functions.test_tokens_of_one_call",
        ),
        "a token does not depend on the nonce": (
            lua("dispatch"),
            "redis.sha1hex(nonce .. '.' .. int(i))",
            "redis.sha1hex(int(i))",
            "tests/integration/store/test_functions.py Functions.test_tokens_of_two_calls",
        ),
        "a token is in hex, so that a record is longer than Redis keeps compact": (
            lua("dispatch"),
            "local function shorten(hex)\n",
            "local function shorten(hex)\n  if hex then\n    return hex\n  end\n",
            FUNCTIONS_TEST + "test_the_record_of_a_step_is_short",
        ),
        "the history shows the whole token": (
            lua("dispatch"),
            "  return int(i) .. '.' .. sub(redis.sha1hex(token), 1, 8)\n",
            "  return token\n",
            "tests/integration/store/test_functions.py Functions.test_tokens_of_one_call",
        ),
        "a made-up reply of another actor is kept as evidence": (
            lua("record"),
            "  if not is_other_actor(job, i, rec, op.actor) then\n    keep_late",
            "  if true then\n    keep_late",
            FUNCTIONS_TEST + "test_late_reply_of_another_actor_is_not_kept",
        ),
        "the evidence of a late reply shows its token": (
            lua("record"),
            "op.kind, token_id(i, op.token),\n",
            "op.kind, op.token,\n",
            "tests/integration/store/test_functions.py Functions.test_tokens_of_one_call",
        ),
        "a reply from agents of another actor counts": (
            lua("record"),
            "  elseif is_other_actor(job, i, rec, op.actor) then\n",
            "  elseif false then\n",
            "tests/integration/store/test_functions.py Functions.test_a_reply_of_another_actor",
        ),
        "Progress from agents of another actor counts": (
            lua("renew"),
            "  if not rec or is_other_actor(job, i, rec, actor) then\n",
            "  if not rec then\n",
            "tests/integration/store/test_functions.py Functions.test_a_reply_of_another_actor",
        ),
        "the actor of the forward action answers for an undo": (
            lua("definitions"),
            "actor ~= '' and terms_of(job.def, i, rec.asked).actor\n",
            "actor ~= '' and step_of(job.def, i).forward.actor\n",
            "tests/integration/store/test_functions.py Functions.test_an_undo_of_another_actor",
        ),
        "a definition of an earlier build, without actors, takes no replies": (
            lua("definitions"),
            "  return own and own ~= '' and own ~= actor\n",
            "  return own and own ~= actor\n",
            FUNCTIONS_TEST + "test_a_reply_of_a_job_whose_steps_have_no_actors",
        ),
        "a definition of an earlier build never gets its actors": (
            lua("definitions"),
            "  if ready ~= FORMAT or named ~= '2' then",
            "  if ready ~= FORMAT or not named then",
            FUNCTIONS_TEST + "test_names_of_a_definition_that_an_earlier_build_has_stored",
        ),
        "a Submit does not have an old definition stored again": (
            lua("submit"),
            "  if ready ~= FORMAT or definition ~= '' and named ~= '2' and named ~= '0' then",
            "  if ready ~= FORMAT then",
            FUNCTIONS_TEST + "test_a_submit_of_a_definition_that_an_earlier_build_has_stored",
        ),
        "a definition from a scheduler that knows no actors counts as complete": (
            lua("definitions"),
            "has_actors and '2' or '0')",
            "'2')",
            FUNCTIONS_TEST + "test_a_definition_that_names_no_actors",
        ),
        "the history of an older job shows whole tokens": (
            "common/model/history.c",
            "strlen(dot + 1) > ID_SHORT_LEN ?",
            "false ?",
            "tests/unit/test_history test_tokens",
        ),
        "any exchange that is bound to an actor's exchange is trusted": (
            "common/model/wire_reply.c",
            '? "" : WIRE_REPLY_STRANGER',
            '? "" : ""',
            f"{LIMITS_AGENTS} test_replies_by_another_exchange",
        ),
        "a reply by an unknown exchange counts": (
            "scheduler/access.c",
            "    if (strcmp(actor, WIRE_REPLY_STRANGER) == 0) {\n",
            "    if (false) {\n",
            f"{LIMITS_AGENTS} test_replies_by_another_exchange",
        ),
        "the shared exchange for replies is never closed": (
            "scheduler/access.c",
            "    if (!*actor && a->by_actor) {\n",
            "    if (false) {\n",
            f"{LIMITS_AGENTS} test_replies_by_the_shared_exchange",
        ),
        "the consumer does not record by which exchange a reply came": (
            "common/io/bus/consumer.c",
            'strcmp(queue->name, WIRE_REPLY_QUEUE) == 0 ? wire_reply_by(name) : ""',
            '""',
            "tests/integration/jobs/test_behaviours.py Behaviours.test_reply_of_another_actor",
        ),
        "replies of two actors go to the exchange of one": (
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
    "A health check works, however many connections others open": {
        "a connection is kept as long as it sends bytes": (
            "common/io/daemon/health.c",
            "    end_old_peers(h);\n",
            "",
            "tests/integration/operation/test_health.py Pages.test_slow_connections",
        ),
        "one address may take all connections": (
            "common/io/daemon/health.c",
            "#define ADDRESS_CONNECTIONS 8 ",
            "#define ADDRESS_CONNECTIONS 80 ",
            "tests/integration/operation/test_health.py Pages.test_idle_connections",
        ),
        "--healthcheck does not use the local socket": (
            "common/io/daemon/health_ask.c",
            "    if (ask_apart(&address, timeout_ms))\n        return NULL;\n",
            "",
            "tests/integration/operation/test_health.py Pages.test_slow_connections",
        ),
    },
    "A program leaves nothing behind, and gets no more than it is given": {
        "a process that has left the program's group stays": (
            "agent/keep.c",
            "        orphans_kill(NULL);\n        (void)waitpid(-1, NULL, 0);\n",
            "        return;\n",
            "tests/unit/test_exec test_children_left_behind",
        ),
        "a program that kills its keeper gets away": (
            "agent/handler_exec.c",
            "    if (signal != 0)\n        end_orphans",
            "    if (false)\n        end_orphans",
            "tests/unit/test_exec test_keeper_killed",
        ),
        "the keeper does not adopt orphans": (
            "agent/keep.c",
            "    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);\n",
            "",
            "tests/unit/test_exec test_children_left_behind",
        ),
        "a program may open any number of files": (
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
        "a program goes on after its agent was killed": (
            "agent/keep.c",
            "    prctl(PR_SET_PDEATHSIG, SIGUSR1, 0, 0, 0);\n",
            "",
            "tests/fault/test_handlers.py Handlers.test_killed",
        ),
    },
    "Other processes get no memory, rights or tokens of a daemon, and text is shown as it is": {
        "another process of its user may read a daemon's memory": (
            "common/io/daemon/daemon.c",
            "prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)",
            "prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)",
            "tests/integration/security/test_secrets.py Secrets.test_memory",
        ),
        "a program may gain rights that its agent does not have": (
            "agent/agent_io.c",
            "    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||",
            "    if (",
            "tests/integration/security/test_secrets.py Secrets.test_memory",
        ),
        "a program gets the token of its request": (
            "agent/template.c",
            "    shown.token = (char *)\"\";\n",
            "",
            "tests/unit/test_exec test_input_and_result",
        ),
        "text that reverses the direction of its line is shown": (
            "common/base/utf8.c",
            "{0x2028, 0x202e},",
            "",
            "tests/unit/test_base test_json_for_people",
        ),
    },
    "A jump of the store's clock, either way, ends no lease early, nor late": {
        "a lease that is renewed after a jump is lengthened by the jump": (
            lua("expire"),
            "      till = lease_end(clock, rec.till, lease_length(job, i, rec, t))\n",
            "      till = lease_end(clock, rec.till, given)\n",
            "tests/integration/store/test_functions.py Functions.test_a_renewed_lease_after_a_jump",
        ),
        "a job that has begun begins once more after the clock steps back": (
            lua("commands"),
            "job.start_at > job.now and not job.started then",
            "job.start_at > job.now then",
            "tests/integration/store/test_functions.py Functions.test_start_at_counts_once",
        ),
        "a lease of before a jump forward is not lengthened": (
            lua("clock"),
            "  return till - given < clock.jumped and till + clock.by or till\n",
            "  return till\n",
            f"{SUPERVISOR} test_clock_jumps_ahead",
        ),
        "leases end in the quiet time after a jump forward": (
            lua("expire"),
            "    elseif job.now < clock.quiet or lease_factor > 0",
            "    elseif lease_factor > 0",
            f"{SUPERVISOR} test_clock_jumps_without_supervisors",
        ),
        "a step back is not noticed": (
            lua("clock"),
            "  if now < seen - CLOCK_STEP then\n",
            "  if false then\n",
            f"{SUPERVISOR} test_clock_steps_back",
        ),
        "due times are not derived again after a step back": (
            lua("sweep"),
            "  if wrong or sweep.back > 0 then",
            "  if wrong then",
            FUNCTIONS_TEST + "test_all_jobs_are_due_after_a_step_back",
        ),
        "a due time that is too late is not derived again": (
            lua("sweep"),
            "    job.due, job.due_changed = min(job.due, job.now), true\n    job.scan,",
            "    job.due, job.due_changed = job.due, true\n    job.scan,",
            FUNCTIONS_TEST + "test_all_jobs_are_due_after_a_step_back",
        ),
        "a scan in pieces goes on after a step back": (
            lua("sweep"),
            "    job.due, job.due_changed = min(job.due, job.now), true\n"
            "    job.scan, job.scan_changed = nil, true\n",
            "    job.due, job.due_changed = min(job.due, job.now), true\n",
            FUNCTIONS_TEST + "test_scan_begins_anew_after_a_step_back",
        ),
        "a lease of before a jump forward lasts too long": (
            lua("clock"),
            "  return till - given < clock.jumped and till + clock.by or till\n",
            "  return till - given < clock.jumped and till + 2 * clock.by or till\n",
        ),
        "a supervisor reports a longer jump": (
            "supervisor/supervisor.c",
            "        s->clock.jump = most - s->offset_most + JUMP_MS;\n",
            "        s->clock.jump = 2 * (most - s->offset_most) + JUMP_MS;\n",
        ),
        "what is due in the quiet time after a jump is inspected much later": (
            lua("expire"),
            "      return job.now + ASK_AGAIN\n",
            "      return job.now + SWEEP_BOUND\n",
        ),
        "a supervisor reports no jump": (
            "supervisor/supervisor.c",
            "        s->clock.jump = most - s->offset_most + JUMP_MS;\n",
            "        s->clock.jump = 0;\n",
            f"{SUPERVISOR} test_clock_jumps_ahead",
        ),
    },
    "Nothing expires while no scheduler reads the replies": {
        "leases end while replies wait": (
            "supervisor/supervisor.c",
            "messages > 0 ? FACTOR_BACKLOG : 0;",
            "0;",
            f"{SUPERVISOR} test_leases_wait_for_replies",
        ),
        "leases do not end as long as replies wait": (
            "supervisor/supervisor.c",
            "messages > 0 ? FACTOR_BACKLOG : 0;",
            "messages > 0 ? FACTOR_UNREAD : 0;",
            f"{SUPERVISOR} test_leases_wait_for_replies",
        ),
        "leases end before the supervisor has inspected the queue": (
            "supervisor/supervisor.c",
            "    s->lease_factor = FACTOR_UNREAD; /*",
            "    s->lease_factor = 0; /*",
            f"{SUPERVISOR} test_leases_wait_for_replies",
        ),
        "leases end while no scheduler consumes": (
            "supervisor/supervisor.c",
            "s->lease_factor = consumers == 0 ? FACTOR_UNREAD : messages > 0 ? FACTOR_BACKLOG : 0;",
            "s->lease_factor = 0;",
            "tests/integration/operation/test_supervisors.py"
            " Supervisors.test_replies_without_a_scheduler",
        ),
    },
    "--once --dry-run shows what a round would do, and does nothing": {
        "a dry run sends Recover": (
            "supervisor/supervisor.c",
            "        if (!s->config.dry_run)\n            command_recover(",
            "        if (true)\n            command_recover(",
            "tests/integration/operation/test_supervisors.py Supervisors.test_once",
        ),
        "a dry run changes the store": (
            "supervisor/supervisor.c",
            "    if (s->config.dry_run)\n        ops_dry_run(s->out);\n",
            "",
            "tests/integration/operation/test_supervisors.py Supervisors.test_once",
        ),
    },
    "Poison and agents: a suspect is acknowledged before it is read, and read alone": {
        "a message that has killed an agent is no suspect": (
            "agent/suspect.c",
            "    return d->redelivered && !recent_has(&a->suspects.bodies, d->body);",
            "    return false;",
        ),
        "a suspect is read before it is acknowledged": (
            "agent/suspect.c",
            "    timer_set(a, &a->suspects.alone, a->now + ACK_MS, on_acknowledged);\n",
            "    begin(a);\n",
            f"{AGENT} test_redelivered_or_sent_before",
        ),
        "agents read suspects side by side": (
            "agent/suspect.c",
            "#define ALONE_MS 100",
            "#define ALONE_MS 0",
            f"{AGENT} test_suspects",
        ),
        "a request that was answered runs again": (
            "agent/run.c",
            "if (d->repeated && recent_has",
            "if (false && recent_has",
            f"{AGENT} test_redelivered_to_the_same_process",
        ),
    },
    "Many Submits come in one message, and each is judged by itself": {
        "one invalid Submit spoils those after it": (
            "scheduler/submits.c",
            "            intake_read(s, submit, &one);\n",
            "            intake_read(s, submit, &one);\n        if (s->stats.rejected > 0)\n"
            "            r = WIRE_E_INVALID;\n",
            f"{SUBMITS} test_each_by_itself",
        ),
        "the message is acknowledged before its Submits are recorded": (
            "scheduler/submits.c",
            "        submit->batch = item;\n        item->refs++;\n",
            "",
            f"{SUBMITS} test_redelivered",
        ),
        "a Submit of a batch takes the id of the message": (
            "scheduler/submits.c",
            "        one.message_id = \"\";\n",
            "",
            f"{SUBMITS} test_each_by_itself",
        ),
        "a batch that kills schedulers is a dead letter as a whole": (
            "scheduler/submits.c",
            "        if (!poison_takes_part(s, submit, &one))\n",
            "",
            f"{SUSPECTS} test_poison_among_submits",
        ),
        "the Submits of a batch that has killed are begun beside others": (
            "scheduler/poison.c",
            "    add_suspect(s, part, d, OPS_SUSPECT_ALONE);\n",
            "    add_suspect(s, part, d, OPS_SUSPECT_BEGIN);\n",
            f"{SUSPECTS} test_poison_among_submits",
        ),
        "a batch that was split stays the suspect": (
            "scheduler/submits.c",
            "    poison_parted(s, item);\n",
            "",
            f"{HELD} test_several_one_by_one",
        ),
        "any message may be a batch of Submits": (
            "scheduler/on_delivery.c",
            "    item->several = d->batch && d->source == SCHEDULER_SUBMIT;\n",
            "    item->several = d->batch;\n",
            f"{SUBMITS} test_other_messages",
        ),
        "a suspect that is read alone waits for messages that wait for it": (
            "scheduler/intake.c",
            "    if (!waits || item->batch || poison_is_present(item)) {\n",
            "    if (!waits || item->batch) {\n",
            f"{HELD} test_intake_beside_one_alone",
        ),
        "messages that wait are read beside a suspect that is read alone": (
            "scheduler/intake.c",
            "source < SCHEDULER_SOURCES && !s->suspects.alone; source++) {\n"
            "        while (!s->suspects.alone && (op = next(",
            "source < SCHEDULER_SOURCES; source++) {\n        while ((op = next(",
            f"{HELD} test_intake_beside_one_alone",
        ),
        "a Submit of a batch that the store refuses is tried for ever": (
            "scheduler/op.c",
            "!op->item->kind->give_up) {",
            "!op->item->handle) {",
            f"{SUBMITS} test_store_refuses",
        ),
        "a large batch waits for a full store in memory": (
            "scheduler/item.c",
            "(item->batch ? item->batch : item)->large",
            "item->large",
            f"{SUBMITS} test_full_store",
        ),
        "a batch that cannot be read costs nothing": (
            "scheduler/on_delivery.c",
            "    if (!limit)\n        spend(s, item);\n    item->json",
            "    item->json",
            "tests/sim/test_limits_users test_unreadable_batches",
        ),
        "a large batch is read for a user who has taken enough": (
            "scheduler/on_delivery.c",
            "    const char *limit = item->large ? limit_reason(s, item, &problem) : NULL;\n",
            "    const char *limit = NULL;\n",
            "tests/sim/test_limits_users test_large_batches",
        ),
        "a Submit may have any number of others beside it": (
            "common/model/wire_split.c",
            "    if (items.n == 0 || items.n > WIRE_SUBMITS_MAX) {\n",
            "    if (items.n == 0) {\n",
            "tests/unit/test_wire_split test_count",
        ),
        "a field of a newer protocol makes a batch unreadable": (
            "common/model/wire_split.c",
            "        else if (tag >> 3 == SUBMITS_FIELD)\n            return false;\n",
            "        else\n            return false;\n",
            "tests/unit/test_wire_split test_protobuf",
        ),
        "a bracket in a text ends a Submit": (
            "common/model/wire_split.c",
            "    while (left->len > 0 && next(left) != '\"')\n"
            "        skip(left, next(left) == '\\\\' && left->len > 1 ? 2 : 1);\n",
            "",
            "tests/unit/test_wire_split test_json",
        ),
        "Submits of a batch are not given back with it": (
            "scheduler/item.c",
            "    if (item->batch)\n        item = item->batch;\n",
            "",
            f"{SUSPECTS} test_broker_lost_with_submits",
        ),
        "Submits of a batch wait for the bytes that the batch takes": (
            "scheduler/intake.c",
            "    if (!waits || item->batch || poison_is_present",
            "    if (!waits || poison_is_present",
            f"{SUBMITS} test_large_batch",
        ),
    },
    "Receipts and ends for a client that asks for it share messages": {
        "a client that does not read batches gets them": (
            "scheduler/on_submit.c",
            "op->item->message.submit->batches)",
            "true)",
            f"{SUBMITS} test_receipts",
        ),
        "the ends of jobs come alone": (
            "scheduler/notification.c",
            "job->reply_to.len > 0 && job->batches)",
            "false)",
            f"{SUBMITS} test_ends",
        ),
        "clients get the Receipts of others": (
            "scheduler/client_batch.c",
            "            strcmp(b->reply_to, m->reply_to) == 0 && ",
            "            ",
            f"{SUBMITS} test_receipts",
        ),
        "a batch may have any size": (
            "scheduler/client_batch.c",
            " || b->body.len >= CLIENT_BATCH_BYTES)",
            ")",
            f"{SUBMITS} test_large_ends",
        ),
        "Receipts wait for more without end": (
            "scheduler/scheduler.c",
            "    next = earlier(next, client_batch_next(s));\n",
            "",
            f"{SUBMITS} test_ends",
        ),
        "the first Submit decides how the client reads": (
            lua("submit"),
            "      if name == 'format' then\n",
            "      if false then\n",
            f"{SUBMITS} test_redelivered",
        ),
        "a Submit with batches is another one than without": (
            "scheduler/on_submit.c",
            "    bare.batches = false;\n",
            "",
            f"{SUBMITS} test_redelivered",
        ),
    },
    "A client whose Submits a restart of the broker would lose is named": {
        "delivery mode 1 is not noticed": (
            "common/io/bus/frame.c",
            "read_number(&r, 1) == AMQP_DELIVERY_PERSISTENT",
            "read_number(&r, 1) > 0",
            REPLICATION + "test_messages_that_are_not_persistent",
        ),
        "a client that publishes to quorum queues is warned": (
            "common/io/bus/consumer.c",
            "    link->assembly.classic = !link->queues->quorum;\n",
            "    link->assembly.classic = true;\n",
            REPLICATION + "test_quorum_queues_keep_all_messages",
        ),
        "a client whose questions may be lost is warned": (
            "scheduler/on_delivery.c",
            "    if (is_question(item))\n        return;\n    s->stats.transient++",
            "    s->stats.transient++",
            REPLICATION + "test_messages_that_are_not_persistent",
        ),
        "each such message is a line of the log": (
            "scheduler/on_delivery.c",
            "s->now < s->transient_at + TRANSIENT_AGAIN_MS",
            "false",
            REPLICATION + "test_messages_that_are_not_persistent",
        ),
    },
    "Poison and schedulers: a message that has killed two of them becomes a dead letter": {
        "a redelivered message is a dead letter although it has killed nothing": (
            "scheduler/poison.c",
            "    } else if (incarnations == 1) {\n",
            "    } else if (false) {\n",
        ),
        "a scheduler reads other messages beside one that another scheduler may have died of": (
            "scheduler/poison.c",
            "    if (s->suspects.alone)\n"
            "        add(s, &s->suspects.held, item, d, \"\", OPS_SUSPECT_BEGIN);\n"
            "    return s->suspects.alone;\n",
            "    return false;\n",
            f"{SUSPECTS} test_killed_by_other_messages",
        ),
        "an incarnation that has died beside other messages counts": (
            lua("processes"),
            "        alone = alone + #mark\n",
            "        alone = alone + 1\n",
            f"{SUSPECTS} test_killed_by_other_messages",
        ),
        "messages that were held for a suspect are never read": (
            "scheduler/poison.c",
            "    release(s);\n",
            "",
            f"{SUSPECTS} test_killed_by_other_messages",
        ),
        "messages that were held for a suspect are kept without a connection": (
            "scheduler/poison.c",
            "    give_back(s, &s->suspects.held);\n",
            "",
            f"{SUSPECTS} test_broker_lost_while_alone",
        ),
        "three live incarnations count as two that a message has killed": (
            lua("processes"),
            "  elseif what == 'alone' and alone > 0 and is_new(known, now) then\n",
            "  elseif false then\n",
            f"{SUSPECTS} test_copies_of_a_suspect",
        ),
        "a message that kills schedulers is read for ever": (
            lua("processes"),
            "  return {int(begins and alone + 1 or 0)}\n",
            "  return {'1'}\n",
            f"{SUSPECTS} test_poison",
        ),
        "a scheduler begins all suspects at a time": (
            "scheduler/poison.c",
            " && s->suspects.n_present < POISON_PRESENT_MAX &&\n",
            " &&\n",
            f"{SUSPECTS} test_side_by_side",
        ),
        "suspects wait for each other": (
            "scheduler/poison.h",
            "#define POISON_PRESENT_MAX 8",
            "#define POISON_PRESENT_MAX 1",
            f"{SUSPECTS} test_side_by_side",
        ),
        "a suspect is begun alone beside others that are begun": (
            "scheduler/poison.c",
            "!s->suspects.alone && !is_alone(op) && s",
            "!s->suspects.alone && s",
            f"{SUSPECTS} test_alone_after_others",
        ),
        "suspects are begun beside one that is begun alone": (
            "scheduler/poison.c",
            "!s->suspects.alone && !is_alone(op) && s",
            "!is_alone(op) && s",
            f"{SUSPECTS} test_alone_after_others",
        ),
        "a suspect that is to be begun alone waits behind all others": (
            "scheduler/poison.c",
            "    list_append(s->suspects.waiting.next, &op->link);\n",
            "    list_append(&s->suspects.waiting, &op->link);\n",
            f"{SUSPECTS} test_alone_after_others",
        ),
        "what is held is read between two suspects that are begun alone": (
            "scheduler/poison.c",
            "n_present == 0 && !(op && is_alone(op)))",
            "n_present == 0)",
            f"{SUSPECTS} test_held_until_all_alone_are_survived",
        ),
        "large suspects are begun side by side without a bound": (
            "scheduler/poison.c",
            "present + item->body.len <= INTAKE_READ_BYTES;",
            "true;",
            f"{HELD} test_large_suspects",
        ),
        "a message whose last Submit was not read is survived": (
            "scheduler/poison.c",
            "    item->suspect->until = INT64_MAX; /* its Submits are not read */\n",
            "",
            f"{SUSPECTS} test_lost_before_the_last_submit",
        ),
        "a message that was given up kills more when it comes again": (
            "scheduler/poison.c",
            "item->suspect->given_up ? OPS_SUSPECT_BACK : OPS_SUSPECT_END);",
            "OPS_SUSPECT_END);",
            f"{SUSPECTS} test_given_up_again",
        ),
        "what waits in the intake is survived when the broker is lost": (
            "scheduler/scheduler.c",
            "    intake_lost(s);\n    poison_lost(s);",
            "    poison_lost(s);\n    intake_lost(s);",
            f"{HELD} test_unread_when_the_broker_is_lost",
        ),
        "what a process had read is a suspect when it comes back to it": (
            "scheduler/poison.c",
            "    if (d->redelivered && !recent_has(&s->suspects.survived, item->body)) {\n",
            "    if (d->redelivered) {\n",
            f"{SUSPECTS} test_survivor",
        ),
        "what a process had not read is no suspect when both connections were lost": (
            "scheduler/poison.c",
            "(item->suspect->until != INT64_MAX && !poison_is_present(item))",
            "!poison_is_present(item)",
            f"{SUSPECTS} test_survivor",
        ),
        "what a process had not read is no suspect when it comes back to it": (
            "scheduler/poison.c",
            "        if (item->handle && is_survived(item))\n",
            "        if (item->handle)\n",
            f"{SUSPECTS} test_survivor",
        ),
        "an incarnation that has lost the broker counts as killed": (
            "scheduler/poison.c",
            "        take_back(s, list_entry(l, struct suspect, link)->item);\n}\n",
            "        leave(s, list_entry(l, struct suspect, link)->item);\n}\n",
            f"{SUSPECTS} test_restarts_of_the_broker",
        ),
        "a message that did not kill its scheduler holds up the others": (
            "scheduler/poison.h",
            "#define POISON_SUSPECT_MS 100 ",
            "#define POISON_SUSPECT_MS 3600000 ",
            f"{SUSPECTS} test_survived_suspect",
        ),
        "a message that was processed stays a suspect": (
            "scheduler/poison.c",
            "item->suspect->given_up ? OPS_SUSPECT_BACK : OPS_SUSPECT_END);",
            "item->suspect->given_up ? OPS_SUSPECT_BACK : OPS_SUSPECT_BEGIN);",
            f"{SUSPECTS} test_processed_suspect_is_forgotten",
        ),
    },
    "strict: the settings of Redis are checked, and replicas are waited for": {
        "strict accepts any appendfsync": (
            "common/io/store/store_check.c",
            "    if (strcmp(appendfsync, \"always\") != 0)\n",
            "    if (false)\n",
            "tests/unit/test_store_check test_strict_durability",
        ),
        "strict accepts fewer replicas": (
            "common/io/store/store_check.c",
            "    if (strtoul(replicas, NULL, 10) < e->config->replicas)\n",
            "    if (false)\n",
            "tests/unit/test_store_check test_strict_durability",
        ),
        "replicas are not waited for": (
            "common/io/store/store_link.c",
            "    snprintf(number, sizeof(number), \"%u\", link->config->replicas);\n",
            "    snprintf(number, sizeof(number), \"0\");\n",
            "tests/integration/store/test_durability.py Failover.test_strict",
        ),
    },
    "A store that went back is noticed, and accepted jobs that are gone are listed": {
        "a notification is deleted for one of another time": (
            lua("notifications"),
            "  if not is_another(call('HGET', data, 's' .. seq), at) then\n",
            "  if true then\n",
            FUNCTIONS_TEST + "test_notification_of_another_time",
        ),
        "a notification is put off for one of another time": (
            lua("notifications"),
            "  if settled and not is_another(settled, at) and failed",
            "  if settled and failed",
            FUNCTIONS_TEST + "test_notification_of_another_time",
        ),
        "an emptied store gets no workflows": (
            "scheduler/rollback.c",
            "        rollback_check(s);\n        registration_begin(s);\n",
            "        rollback_check(s);\n",
            f"{ROLLBACK} test_workflows_are_registered_again",
        ),
        "workflows that are being registered are not registered again": (
            "scheduler/registration.c",
            "    if (--s->registration.in_progress == 0 && s->registration.repeat)",
            "    if (--s->registration.in_progress == 0 && false)",
            f"{ROLLBACK} test_workflows_are_registered_again",
        ),
        "a watermark that went back is not noticed": (
            "scheduler/rollback.c",
            "    bool back = known && kept < remembered;\n",
            "    bool back = false;\n    (void)remembered;\n",
            f"{ROLLBACK} test_lost_end_of_a_job",
        ),
        "an emptied store is not noticed": (
            "scheduler/rollback.c",
            "    bool lost = known && !bytes_is(shows->id, watermark->id);\n",
            "    bool lost = false;\n",
            f"{ROLLBACK} test_store_emptied",
        ),
        "accepting a job does not move the watermark": (
            lua("submit"),
            "  add_history(job, 'created', def.digest, by)\n  move_watermark(job)\n",
            "  add_history(job, 'created', def.digest, by)\n",
            f"{ROLLBACK} test_store_emptied",
        ),
        "settling a job does not move the watermark": (
            lua("outcome"),
            "  job.settled = job.seq\n  move_watermark(job)\n",
            "  job.settled = job.seq\n",
            f"{ROLLBACK} test_lost_end_of_a_job",
        ),
        "jobs that are gone are not listed": (
            "scheduler/rollback.c",
            "    take_missing_jobs(s, op->partition, &shows);\n",
            "",
            f"{ROLLBACK} test_store_went_back",
        ),
        "a suspect whose connection is there is not given back": (
            "scheduler/poison.c",
            "    } else {\n        item_give_back(s, op->item);\n",
            "    } else {\n        op->item->handle = 0;\n",
            f"{INTAKE} test_suspect_is_given_back",
        ),
        "accepted jobs are forgotten only when another job is accepted": (
            "scheduler/scheduler.c",
            "        rollback_forget_old(s);\n",
            "",
            f"{ROLLBACK} test_deleted_jobs_are_not_lost",
        ),
        "a job that exists is listed as gone": (
            lua("processes"),
            "    if call('EXISTS', p .. 'job:' .. list[k]) == 0 then\n      lost[",
            "    if true then\n      lost[",
            f"{ROLLBACK} test_store_went_back",
        ),
        "a job that is gone is not noticed once others have moved the watermark": (
            "scheduler/rollback.c",
            "    watermark->may_have_gone_back |= lost || back || (known && other_run);\n",
            "    watermark->may_have_gone_back |= lost || back;\n",
            f"{ROLLBACK} test_store_went_back_twice",
        ),
        "jobs that were forgotten count as kept": (
            "scheduler/rollback.c",
            "    if (accepted->count > watermark->forgotten)\n        watermark->forgotten",
            "    if (false)\n        watermark->forgotten",
            f"{ROLLBACK} test_old_jobs_are_not_checked",
        ),
        "jobs that are there still, and nobody remembers, cannot be lost later": (
            "scheduler/rollback.c",
            "        watermark->forgotten = kept; /* what it keeps may be lost another time */\n",
            "        watermark->forgotten = 0;\n",
            f"{ROLLBACK} test_forgotten_jobs",
        ),
        "a job is forgotten within the loss window": (
            "scheduler/rollback.c",
            "            s->now - oldest->at < s->rollback.window_ms)\n",
            "            s->now - oldest->at < 1000)\n",
            f"{ROLLBACK} test_loss_window",
        ),
        "a check of more jobs than a call may name passes over some": (
            "scheduler/rollback.c",
            "accepted_of(l)->number >= check_of(op)->first)\n",
            "accepted_of(l)->number > check_of(op)->first)\n",
            f"{INTAKE} test_many_lost_jobs",
        ),
        "the calls of a check begin at a count, which the jobs that are gone change": (
            "scheduler/rollback.c",
            "        from = l->next;\n",
            "        for (struct list *b = l->next; b != jobs; b = b->next)\n"
            "            accepted_of(b)->number--;\n"
            "        from = l->next;\n",
            f"{INTAKE} test_many_lost_jobs",
        ),
    },
    "A wrong Submit is refused, and the reason names the field, or the step": {
        "a cycle is accepted": (
            "common/model/workflow.c",
            "    if (ready == w->n_steps)\n        return 0;\n",
            "    if (ready <= w->n_steps)\n        return 0;\n",
            f"{WORKFLOW} test_cycles",
        ),
        "two steps may have the same name": (
            "common/model/workflow.c",
            "        if (*slot != 0) {\n",
            "        if (false) {\n",
            f"{WORKFLOW} test_refused_step",
        ),
        "a dependency may be named twice": (
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
        "a workflow may have any number of steps": (
            "common/model/workflow.c",
            "m->n_steps == 0 || m->n_steps > WIRE_STEPS_MAX",
            "m->n_steps == 0",
            f"{WORKFLOW} test_one_too_many",
        ),
        "a workflow may have any number of dependencies": (
            "common/model/workflow.c",
            "    if (edges > WIRE_EDGES_MAX) {\n",
            "    if (false) {\n",
            f"{WORKFLOW} test_one_too_many",
        ),
        "a name may have any length": (
            "common/base/id.c",
            "len < 1 || len > ID_NAME_MAX",
            "len < 1",
            f"{WIRE} test_submit_sizes",
        ),
        "the reason does not name the step": (
            "common/model/workflow.c",
            "    if (r == WORKFLOW_E_INVALID && b->problem) {\n",
            "    if (false && b->problem) {\n",
            f"{WORKFLOW} test_refused_step_is_named",
        ),
        "an input may have any size": (
            "common/model/check.c",
            '    if (size > max)\n'
            '        return check_fail(problem, where, "must be at most %zu bytes, not',
            '    if (false)\n'
            '        return check_fail(problem, where, "must be at most %zu bytes, not',
            f"{WIRE} test_submit_sizes",
        ),
        "a Submit waits for an unknown workflow": (
            "scheduler/on_submit.c",
            "    if (s->registration.in_progress > 0) {",
            "    if (true) {",
            "tests/integration/messages/test_bad_input.py BadInput.test_unknown_workflow",
        ),
        "a step may depend on one that does not exist": (
            "common/model/workflow.c",
            "            wrong = \"is no step of this workflow\";\n",
            "            found = 0;\n",
            f"{WORKFLOW} test_refused_dependencies",
        ),
        "a step may take the result of a step that it does not follow": (
            "common/model/workflow.c",
            "        else if (from != 0 && b->marks[found] != from)\n",
            "        else if (false)\n",
            f"{WORKFLOW} test_refused_dependencies",
        ),
    },
    "The same Submit again is ALREADY, another one with its id CONFLICT, wherever answers go": {
        "the id of a job is given to another job": (
            lua("submit"),
            "  if call('HGET', job.key, 'digest') ~= digest or is_others(p, job.id, owner) then\n",
            "  if is_others(p, job.id, owner) then\n",
            "tests/integration/store/test_functions.py Functions.test_repeated_submit",
        ),
        "a newer reply_to does not replace the old one": (
            lua("submit"),
            "  if reply_to ~= '' then\n",
            "  if false then\n",
            "tests/integration/store/test_functions.py Functions.test_repeated_submit",
        ),
        "a Submit with another traceparent is another job": (
            "scheduler/on_submit.c",
            "    bare.reply_to = bare.traceparent = (char *)protobuf_c_empty_string;\n",
            "    bare.reply_to = (char *)protobuf_c_empty_string;\n",
            "tests/integration/messages/test_bad_input.py BadInput.test_same_id",
        ),
        "a Submit with another definition is the same job": (
            "scheduler/on_submit.c",
            "    if (w)\n        buf_puts(&text, w->digest);\n",
            "",
            "tests/integration/messages/test_bad_input.py BadInput.test_same_id",
        ),
        "a redelivered Submit does not send its requests again": (
            lua("submit"),
            "  if redelivered == '1' then\n    add_in_flight_after(job, WALK.ROOTS)\n",
            "  if false then\n    add_in_flight_after(job, WALK.ROOTS)\n",
        ),
        "a repeated Submit makes its job again": (
            lua("submit"),
            "  if call('EXISTS', p .. 'job:' .. job_id) == 1 then\n    local job",
            "  if false then\n    local job",
        ),
    },
    "A definition is known by its content, never changes, and is kept while it is needed": {
        "a version is registered with other content": (
            lua("definitions"),
            "    if taken and taken ~= digest then\n",
            "    if false then\n",
            "tests/integration/store/test_functions.py Functions.test_a_version_is_one_definition",
        ),
        "the version that was registered last counts as the newest": (
            lua("definitions"),
            "    if tonumber(version) > newest then\n",
            "    if true then\n",
            "tests/integration/store/test_functions.py Functions.test_a_version_is_one_definition",
        ),
        "the reference of a job to its definition is not counted": (
            lua("submit"),
            "  if call('HINCRBY', job.def.key, 'refs', 1) == 1 then\n    call('ZREM', p ..",
            "  if call('HINCRBY', job.def.key, 'refs', 0) == 1 then\n    call('ZREM', p ..",
        ),
        "a definition that other jobs need is dropped": (
            lua("definitions"),
            "'refs', -1) <= 0 then",
            "'refs', -1) <= 1 then",
        ),
        "a forgotten job keeps its definition": (
            lua("forget"),
            "  if digest then\n    release_definition(p, digest)\n",
            "  if false then\n    release_definition(p, digest)\n",
        ),
        "a definition that waits for its first job is dropped": (
            lua("forget"),
            "int(now - UNUSED_DEFINITION)",
            "int(now)",
            FUNCTIONS_TEST + "test_unused_definition_is_forgotten",
        ),
    },
    "A settled job is forgotten after its retention, and once its notifications are confirmed": {
        "a job is forgotten at once": (
            lua("forget"),
            "int(kept_since(p, now, tonumber(retention))), 'LIMIT', 0,",
            "int(now), 'LIMIT', 0,",
        ),
        "a job that ended before a jump forward is not kept longer": (
            lua("forget"),
            "  return since - clock.by < clock.jumped and since - clock.by or since\n",
            "  return since\n",
            "tests/integration/store/test_functions.py Functions.test_retention_after_a_jump",
        ),
        "a job that ends after a jump forward is kept longer": (
            lua("forget"),
            "  return since - clock.by < clock.jumped and since - clock.by or since\n",
            "  return since - clock.by\n",
            "tests/integration/store/test_functions.py Functions.test_retention_after_a_jump",
        ),
        "a job is forgotten although the outbox has a notification of it": (
            lua("forget"),
            "    if in_outbox(p, id) then\n",
            "    if false then\n",
            "tests/integration/store/test_functions.py Functions.test_retention",
        ),
        "the data of a forgotten job stays": (
            lua("forget"),
            "  call('UNLINK', key, p .. 'data:' .. id, p .. 'hist:' .. id)\n",
            "  call('UNLINK', key, p .. 'hist:' .. id)\n",
        ),
        "a jump of the clock ends the retention": (
            lua("forget"),
            "  if is_quiet(p, now) then\n    return {'0', '0', count_needs(p)}\n",
            "  if false then\n    return {'0', '0', count_needs(p)}\n",
            "tests/integration/store/test_functions.py Functions.test_retention",
        ),
        "a forgotten job is found by its labels": (
            lua("forget"),
            "  for _, index in ipairs(index_keys(p, workflow, labels)) do\n    call('ZREM'",
            "  for _, index in ipairs(index_keys(p, workflow, '')) do\n    call('ZREM'",
            "tests/integration/store/test_functions.py Functions.test_retention",
        ),
        "a forgotten job is found among those that failed": (
            lua("forget"),
            "  call('ZREM', p .. 'failed', id)\nend",
            "end",
        ),
        "a forgotten job is found among all jobs": (
            lua("forget"),
            "    call('ZREM', index, id)\n",
            "    call('ZREM', index == p .. 'jobs' and p .. 'due' or index, id)\n",
        ),
        "a forgotten job is found by its workflow": (
            lua("forget"),
            "  for _, index in ipairs(index_keys(p, workflow, labels)) do\n    call('ZREM'",
            "  for _, index in ipairs(index_keys(p, '', labels)) do\n    call('ZREM'",
        ),
        "the history of a forgotten job stays": (
            lua("forget"),
            "  call('UNLINK', key, p .. 'data:' .. id, p .. 'hist:' .. id)\n",
            "  call('UNLINK', key, p .. 'data:' .. id)\n",
        ),
    },
    "No call touches more steps than its budget, and another call continues with the rest": {
        "the dependents of a step may take any part of a call": (
            lua("walks"),
            "  job.budget.left = job.budget.left - count\n",
            "",
            "tests/integration/store/test_functions.py Functions.test_budget_of_a_call",
        ),
        "a turn may take any part of a call": (
            lua("walks"),
            "      job.budget.left = job.budget.left - 1\n      if turn_step",
            "      if turn_step",
            "tests/integration/store/test_functions.py Functions.test_budget_of_a_call",
        ),
        "a scan of a job goes on beyond its budget": (
            lua("expire"),
            "  for i = scan.offset, last - 1 do\n",
            "  for i = scan.offset, last + 1 do\n",
            FUNCTIONS_TEST + "test_budget_of_a_scan",
        ),
        "a job with work left over is not due": (
            lua("save"),
            "    lower_due(job, job.now + CURSOR_GRACE)\n",
            "",
        ),
        "work left over is forgotten": (
            lua("save"),
            "  if #job.cursor > 0 or job.had_cursor then\n",
            "  if job.had_cursor then\n",
        ),
        "the answer does not show that work is left over": (
            lua("answers"),
            "(has_cursor_work(job) and ' 1' or ' 0')",
            "' 0'",
            "tests/integration/store/test_functions.py Functions.test_budget_of_a_call",
        ),
        "work left over waits for a supervisor": (
            "scheduler/transition.c",
            "        op->then = drive_more;\n",
            "        ;\n",
            f"{INTAKE} test_work_left_by_a_call",
        ),
        "a job that is scanned in pieces is not scanned further": (
            "scheduler/transition.c",
            "    op_call(s, op, drive_call, drive_answered);\n}",
            "}",
            f"{INTAKE} test_work_left_by_a_call",
        ),
        "redelivered replies are recorded together in one call": (
            "scheduler/on_replies.c",
            "    r->alone = item->redelivered; /*",
            "    /*",
            f"{INTAKE} test_redelivered_together",
        ),
    },
    "Indexes agree with the records": {
        "a settled job stays due": (
            lua("outcome"),
            "  call('ZREM', job.p .. 'due', job.id)\n  call('ZREM', job.p .. 'open', job.id)\n"
            "  call('ZADD'",
            "  call('ZREM', job.p .. 'open', job.id)\n  call('ZADD'",
        ),
        "a settled job stays open": (
            lua("outcome"),
            "  call('ZREM', job.p .. 'due', job.id)\n  call('ZREM', job.p .. 'open', job.id)\n"
            "  call('ZADD'",
            "  call('ZREM', job.p .. 'due', job.id)\n  call('ZADD'",
        ),
        "a job that goes on is still listed as failed": (
            lua("outcome"),
            "  call('ZREM', job.p .. 'failed', job.id)\n  call('ZADD'",
            "  call('ZADD'",
            FUNCTIONS_TEST + "test_retried_job_is_not_listed_as_failed",
        ),
        "a field that few jobs have is not read": (
            lua("save"),
            "  if job.plain and rare then\n",
            "  if false then\n",
        ),
        "a due time that was lowered is not written to the index": (
            lua("save"),
            "    changed.due = int(job.due)\n"
            "    call('ZADD', job.p .. 'due', changed.due, job.id)\n",
            "    changed.due = int(job.due)\n",
        ),
        "a sweep does not correct a due time": (
            lua("sweep"),
            "  local wrong = not score or tonumber(score) > job.due or job.due > latest\n",
            "  local wrong = false\n",
            "tests/integration/store/test_functions.py Functions.test_sweep_mends_a_bound",
        ),
        "a job is not found by its labels": (
            lua("submit"),
            "  for _, label in ipairs(split_texts(labels)) do\n    keys[",
            "  for _, label in ipairs({}) do\n    keys[",
            "tests/integration/store/test_functions.py Functions.test_retention",
        ),
    },
    "A job's history is numbered without gaps, and has a maximum length": {
        "two entries have one number": (
            lua("job"),
            "  local seq, history = job.seq + 1, job.history\n",
            "  local seq, history = job.seq + (event == 'dispatched' and 0 or 1), job.history\n",
        ),
        "an entry is lost": (
            lua("save"),
            "  for first = 1, #job.history, 1000 do\n",
            "  for first = 2, #job.history, 1000 do\n",
        ),
        "a history grows without end": (
            lua("save"),
            "  if length > cap then\n",
            "  if false then\n",
            "tests/integration/store/test_functions.py Functions.test_the_history_is_bounded",
        ),
    },
    "An entry of the history names its step, or shows that it is about all steps": {
        "the history gives the number of a corrected step instead of its name": (
            "common/model/history.c",
            "{\"mended\", \"w\"}",
            "{\"mended\", \"d\"}",
            "tests/unit/test_history test_steps_or_jobs",
        ),
        "the history does not show that a Retry was of all steps": (
            "common/model/history.c",
            "{\"retried\", \"w\"}",
            "{\"retried\", \"sd\"}",
            "tests/unit/test_history test_steps_or_jobs",
        ),
    },
    "The sender of a wrong message is told so, and the message has no effect": {
        "another job with the id of an existing one is answered as that one": (
            lua("submit"),
            "  if call('HGET', job.key, 'digest') ~= digest or is_others(p, job.id, owner) then\n",
            "  if is_others(p, job.id, owner) then\n",
        ),
        "a malformed message is dropped": (
            "scheduler/dead_letter.c",
            "    letter->reason = or_abort(strdup(reason));\n    s->stats.dead_letters++;\n",
            "    letter->reason = or_abort(strdup(reason));\n    s->stats.dead_letters++;\n"
            "    if (strncmp(reason, \"MALFORMED\", 9) == 0) {\n"
            "        op_unref(s, &letter->op);\n        return;\n    }\n",
        ),
    },
    "A client that reads page by page gets everything, in order, unchanged": {
        "a page of a history begins one entry late": (
            "scheduler/history.c",
            "op->job, from, most,",
            "op->job, from + 1, most,",
        ),
        "a page of a list leaves out its last item": (
            "common/model/listing.c",
            "    while (sure < l->n && sure < l->limit &&",
            "    while (sure + 1 < l->n && sure < l->limit &&",
        ),
        "a full page of a list ends after jobs that a partition has not scanned": (
            "common/model/listing.c",
            "        if (!l->more || is_before(&l->items[l->n - 1].place, &l->limit_at))\n",
            "        if (!(!l->more || is_before(&l->items[l->n - 1].place, &l->limit_at)))\n",
            "tests/unit/test_listing test_full_page_of_a_partial_scan",
        ),
        "an entry of a history gives another attempt": (
            "common/model/history.c",
            "m->attempt = (uint32_t)number;",
            "m->attempt = (uint32_t)number + 1;",
        ),
        "a list of workflows gives one step more": (
            "scheduler/list_workflows.c",
            "infos[i].steps = found.items[i].steps;",
            "infos[i].steps = found.items[i].steps + 1;",
        ),
    },
    "A dispatch has its own token, and counts for its wait and its lock": {
        "a lease does not include the wait": (
            lua("dispatch"),
            "STEP.IN_FLIGHT, job.now + wait + lease)\n",
            "STEP.IN_FLIGHT, job.now + lease)\n",
        ),
        "a dispatch has the token of the one before": (
            lua("dispatch"),
            "  rec.token = make_token(i, nonce)\n",
            "  rec.token = rec.token ~= '-' and rec.token or make_token(i, nonce)\n",
        ),
        "a dispatch does not count as an attempt": (
            lua("dispatch"),
            "  rec.attempt = rec.attempt + 1\n",
            "",
        ),
        "a success sets the state that the job wants, not the one that was asked for": (
            lua("record"),
            "  rec.current, rec.unstarted = rec.asked, 0\n",
            "  rec.current, rec.unstarted = job.desired, 0\n",
        ),
        "a request waits longer than its wait": (
            lua("dispatch"),
            "  local wait, lease = wait_of(t, rec), t.lock\n",
            "  local wait, lease = wait_of(t, rec) + 1000, t.lock\n",
        ),
        "a job does not record which scheduler drove it": (
            lua("save"),
            "  if by then\n    changed.locked_by = by\n  end\n",
            "",
            FUNCTIONS_TEST + "test_scheduler_that_drove_the_job_last",
        ),
        "a job that waits for its start_at records a scheduler": (
            lua("submit"),
            "  save(job, not later and by or nil)\n",
            "  save(job, by)\n",
            FUNCTIONS_TEST + "test_scheduler_that_drove_the_job_last",
        ),
    },
    "A reply with another state than was asked for, or with too large a result, is a failure": {
        "the success of an undo counts for the forward action": (
            lua("record"),
            "  elseif op.kind == rec.asked then",
            "  elseif op.kind == REPORT.ACTIVE or op.kind == REPORT.DISABLED then",
            FUNCTIONS_TEST + "test_reply_with_the_other_state_is_a_failure",
        ),
        "a permanent failure is recorded as transient": (
            "scheduler/on_replies.c",
            "            return REPORT_PERMANENT;\n        case",
            "            return REPORT_TRANSIENT;\n        case",
            "tests/integration/jobs/test_jobs.py Jobs.test_failures",
        ),
        "a deferral is recorded as a failure": (
            "scheduler/on_replies.c",
            "            return REPORT_DEFERRED;\n",
            "            return REPORT_TRANSIENT;\n",
            "tests/integration/jobs/test_turns.py Turns.test_failures_and_expiries_apart",
        ),
        "a result may have any size": (
            "scheduler/on_replies.c",
            "    if (!wire_reply_result_fits(m)) {\n",
            "    if (false) {\n",
            "tests/integration/messages/test_bad_input.py BadInput.test_result_too_large",
        ),
        "the results of a job may have any size": (
            lua("record"),
            "  elseif rec.asked == STATE.ACTIVE and job.bytes + #op.result > DATA_MAX then\n",
            "  elseif false then\n",
            "tests/integration/store/test_functions.py Functions.test_limit_of_data_of_a_job",
        ),
        "an agent sends a result that is too large": (
            "agent/reply.c",
            "    if (result->ok && bytes_str(result->content_type).len + result->result.len > "
            "WIRE_RESULT_MAX)\n",
            "    if (false)\n",
            f"{AGENT} test_results_are_bounded",
        ),
        "a result of one byte is left out of the reply": (
            "agent/reply.c",
            "    if (type.len + result->result.len == 0)\n",
            "    if (type.len + result->result.len == 1)\n",
            f"{AGENT} test_smallest_results",
        ),
    },
    "A job begins at its start_at, or never if it was submitted as DISABLED": {
        "a job begins before its start_at": (
            lua("submit"),
            "  local later = start_at > now\n",
            "  local later = false\n",
        ),
        "a job whose start_at has passed is not named": (
            lua("expire"),
            "    if not early then\n      put(out, id, '0', '0')\n",
            "    if false then\n      put(out, id, '0', '0')\n",
        ),
        "a job whose start_at has passed does not begin": (
            lua("drive"),
            "  if job.phase == 'PENDING' and job.start_at <= now and job.hold == '' then\n",
            "  if false then\n",
        ),
        "a job that was submitted as DISABLED begins": (
            lua("submit"),
            "  if desired ~= STATE.ACTIVE then\n    job.open = 0\n",
            "  if false then\n    job.open = 0\n",
        ),
    },
    "A supervisor scans when the next job is due, asks for notifications, and sweeps all jobs": {
        "a notification in the outbox is not asked for": (
            "supervisor/supervisor.c",
            "            command_notify(s, &expired.notifications[i], expired.now);\n",
            "            ;\n",
        ),
        "a due job is not asked for": (
            "supervisor/supervisor.c",
            "            command_recover(s, &expired.due[i], expired.now);\n",
            "            ;\n",
        ),
        "a supervisor scans only once in a period": (
            "supervisor/supervisor.c",
            "    if (expired.head && expired.head - expired.now < sleep)\n",
            "    if (false)\n",
            f"{SUPERVISOR} test_a_lease_ends",
        ),
        "a sweep ends with its first job": (
            "supervisor/supervisor.c",
            "    memcpy(p->sweep, swept.cursor, sizeof(p->sweep));\n",
            "    p->sweep[0] = '\\0';\n",
            f"{SUPERVISOR} test_wide_join_counter_is_corrected",
        ),
        "only the first partition is swept when the store is up again": (
            "supervisor/supervisor.c",
            "    for (uint32_t i = 0; i < s->n; i++)\n        sweep_anew(s, &s->partitions[i]);\n",
            "    sweep_anew(s, &s->partitions[0]);\n",
            f"{SUPERVISOR} test_sweep_when_the_store_is_up_again",
        ),
        "a lost call is not repeated": (
            "supervisor/supervisor.c",
            "                p->due[c] = s->now + REPEAT_MS;\n",
            "                p->due[c] = INT64_MAX;\n",
        ),
        "a command that no queue takes is not returned": (
            "supervisor/command.c",
            "    e->publish.mandatory = true;\n",
            "",
            f"{SUPERVISOR} test_commands_without_a_queue",
        ),
    },
    "The status of an HTTP answer is what libcurl takes it for": {
        "two blanks before the status of an answer hide it": (
            "agent/handler_http.c",
            "    while (at < end && isblank((unsigned char)*at))\n        at++;\n",
            "    at++;\n",
            "tests/unit/test_http test_blanks_before_the_status",
        ),
    },
    "An agent tries again within the lease as often as its actor says, and only TRANSIENT": {
        "an agent tries again any number of times": (
            "agent/running.c",
            "           run->seen.tries < settings_actor(&a->config, "
            "run->seen.request->actor)->lease_retries &&\n",
            "",
            f"{AGENT} test_failure_is_reported",
        ),
        "an agent tries again after a permanent failure": (
            "agent/running.c",
            "    return transient && run->state",
            "    return !result->ok && run->state",
            f"{AGENT} test_failure_before_the_breaker_opened",
        ),
        "an agent tries again although its lease is too short for it": (
            "agent/running.c",
            "           wait <= PAUSE_MAX_MS && wait + took < run_stop_time(a, run) - a->now;\n",
            "           wait <= PAUSE_MAX_MS;\n",
            f"{AGENT} test_retry_when_it_was_asked_for",
        ),
        "an agent keeps a slot for a long pause": (
            "agent/running.c",
            "           wait <= PAUSE_MAX_MS && wait",
            "           wait",
            f"{AGENT} test_no_retry_after_a_long_pause",
        ),
        "an agent's pauses do not grow": (
            "agent/running.c",
            "a->config.retry_ms << doublings;",
            "a->config.retry_ms << (doublings * 0);",
            f"{AGENT} test_retries_within_the_lease",
        ),
        "a deferral hides the failure before it": (
            "agent/running.c",
            "    else if (put_off_after_a_failure(run, result))\n",
            "    else if (false && put_off_after_a_failure(run, result))\n",
            f"{AGENT} test_failure_before_the_breaker_opened",
        ),
    },
    "A circuit breaker opens after failures, longer each time, and lets one probe through": {
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
        "a breaker lets all calls through once its time is over": (
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
        "the late success of an old call resets the failures of a breaker": (
            "agent/breaker.c",
            "    if (call->calls != b->calls)\n        return false;\n    b->failures = 0;\n",
            "    b->failures = 0;\n",
            f"{BREAKER} test_a_late_answer_does_not_reset_the_count",
        ),
        "a probe that was abandoned keeps a breaker from letting another through": (
            "agent/breaker.c",
            "        open_until(b, now);\n",
            "        ;\n",
            f"{BREAKER} test_abandoned_probe",
        ),
    },
    "A breaker counts failures of its target, not answers; while it is open nothing is called": {
        "a program that fails for good counts against its breaker": (
            "agent/handler_exec.c",
            "    if (result->ok || result->verdict == DROVER__V1__VERDICT__VERDICT_PERMANENT)\n",
            "    if (result->ok)\n",
            "tests/unit/test_exec test_what_a_breaker_counts",
        ),
        "a program that was stopped as unwanted counts against its breaker": (
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
            "tests/integration/agents/test_breaker.py Failing.test_program_recovers",
        ),
        "programs have breakers by default": (
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
    "An agent's lease runs from receipt; it runs a request once, and acknowledges it late": {
        "a lease begins with the slot": (
            "agent/running.c",
            "    run->started = a->now;\n    run_watch_lease(a, run, on_deadline);\n",
            "    run->started = a->now;\n"
            "    run->seen.deadline = a->now + run->seen.request->lock_ms;\n"
            "    run_watch_lease(a, run, on_deadline);\n",
            f"{AGENT} test_waiting_for_a_slot",
        ),
        "a request is acknowledged before its reply": (
            "agent/running.c",
            '                  LOG_I("attempt", request->attempt));\n    }\n'
            '    run->state = RUN_REPLYING;\n',
            "                  LOG_I(\"attempt\", request->attempt));\n    }\n"
            "    run_settle(a, run);\n    run->state = RUN_REPLYING;\n",
            f"{AGENT} test_replies_and_acknowledges",
        ),
        "two copies of a request run side by side": (
            "agent/run.c",
            "    if (run) {\n        note_duplicate(a, request);\n        follow(run, d);\n",
            "    if (false) {\n        note_duplicate(a, request);\n        follow(run, d);\n",
            f"{AGENT} test_redelivered_to_the_same_process",
        ),
        "a request whose lease is over runs again when its ack was lost": (
            "agent/run.c",
            "    a->stats.silent++;\n"
            "    recent_add(&a->runs.ended, bytes_str(run->seen.request->token));\n",
            "    a->stats.silent++;\n",
            f"{AGENT} test_redelivered_after_its_lease",
        ),
        "a reply that the broker refused is not sent again": (
            "agent/outgoing.c",
            "    timer_set(a, &o->again_timer, when < end ? when : end, on_again);\n",
            "    ;\n",
            f"{AGENT} test_returned_reply",
        ),
        "a lease is renewed from the time when its Progress was confirmed": (
            "agent/heartbeat.c",
            "run_renew(a, run, sent + ",
            "run_renew(a, run, a->now + ",
            f"{AGENT} test_cut_off",
        ),
        "a batch of replies has no limit": (
            "agent/replies.c",
            "        if (p->n > 0 && (size > limit || is_retry(run) || is_retry(p->runs[0])))\n",
            "        if (false)\n",
            f"{AGENT} test_batches_are_bounded",
        ),
    },
    "A metric counts what its name says": {
        "store_repeats counts calls that the store has answered": (
            "scheduler/op.c",
            "    if (heap_set(&s->timers, &op->timer, when))\n        abort();\n",
            "    s->stats.store_repeats++;\n    if (heap_set(&s->timers, &op->timer, when))\n"
            "        abort();\n",
            f"{SUSPECTS} test_copies_of_a_suspect",
        ),
    },
    "An answer of the store that names a missing step has no effect": {
        "the event of an end names a step that does not exist": (
            "scheduler/notification.c",
            "        char *name = w && step < w->n_steps ? (char *)w->steps[step].name : NULL;\n",
            "        char *name = (char *)w->steps[step].name;\n",
            f"{INTAKE} test_answers_with_unknown_steps",
        ),
        "a step event is about a step that does not exist": (
            "scheduler/step_events.c",
            "        if (request->step >= w->n_steps)\n            continue;\n",
            "",
            f"{INTAKE} test_answers_with_unknown_steps",
        ),
    },
    "The sender of a command learns its result": {
        "a history may be asked for from any number on": (
            "scheduler/history.c",
            "q->from_seq < FROM_MAX ? q->from_seq : FROM_MAX;",
            "q->from_seq;",
            "tests/sim/test_questions test_history_from_far_ahead",
        ),
        "a command is not answered when its definition is gone": (
            "scheduler/definition.c",
            "        if (op->item->message.type == WIRE_CONTROL)\n",
            "        if (false)\n",
            "tests/sim/test_intake test_definition_lost",
        ),
    },
    "Each parked step raises an alert": {
        "a step that has used up its tries has none after its job has turned": (
            lua("walks"),
            "    reset_counts(rec)\n    job.records[i] = rec\n",
            "    job.records[i] = rec\n",
            FUNCTIONS_TEST + "test_tries_after_a_turn",
        ),
    },
    "A scheduler at rest holds nothing": {
        "the operation that led to an alert is never released": (
            "scheduler/alert_cause.c",
            "    a->alert.what = what;\n    op_call(s, &a->op, cause_call, cause_answered);\n"
            "    op_unref(s, &a->op);\n",
            "    a->alert.what = what;\n    op_call(s, &a->op, cause_call, cause_answered);\n",
        ),
    },
    "An alert is sent once for each cause, and again once the cause was over": {
        "each scheduler sends an alert for the same cause": (
            lua("notifications"),
            "  elseif not known or by == nonce then\n",
            "  elseif true then\n",
            f"{SCHEDULER} test_each_outage_has_an_alert",
        ),
        "a cause is never over": (
            "scheduler/alert_cause.c",
            "        cause_report(s, op, alert, w, OPS_CAUSE_OVER);\n",
            "",
            f"{SCHEDULER} test_each_outage_has_an_alert",
        ),
        "an actor without agents raises no alert": (
            lua("record"),
            "  if op.kind ~= REPORT.UNSENT then\n    local why",
            "  if false then\n    local why",
            f"{SCHEDULER} test_each_outage_has_an_alert",
        ),
        "a parked step raises no alert": (
            lua("transitions"),
            "    alert_job(job, i, 'PARKED', rec.asked)\n",
            "",
        ),
        "an alert is lost if its scheduler dies": (
            lua("outcome"),
            "  add_notification(job, 'ALERT', reason,\n"
            "    i == NO_STEP and '' or int(i) .. (asked == STATE.DISABLED and ' 1' or ' 0'))\n",
            "",
        ),
        "a job that its deadline holds raises no alert": (
            lua("drive"),
            "    alert_job(job, NO_STEP, 'DEADLINE')\n",
            "",
        ),
        "the store does not learn that an alert was sent": (
            "scheduler/notification.c",
            "    n->alert.published = on_published;\n",
            "\n",
        ),
        "an alert that the supervisor asks for is not sent": (
            "scheduler/notification.c",
            "        publish_alert(s, n, &job, w);\n",
            "        op->then = on_published;\n",
        ),
        "an alert that the supervisor asks for names no step": (
            "scheduler/notification.c",
            "        alert->step = number;\n",
            "\n",
        ),
        "an alert that the broker refuses for an hour does not become a dead letter": (
            "scheduler/notification.c",
            "    if (n->undeliverable) {\n        alert_event(s, &m, &n->alert);",
            "    if (false) {\n        alert_event(s, &m, &n->alert);",
            f"{NOTIFICATIONS} test_undeliverable_alert",
        ),
        "an alert that the broker refuses keeps its message for ever": (
            "scheduler/alert_cause.c",
            "    if (op->returned)\n        return;\n    alert_of(op)->alert.what",
            "    if (op->returned) {\n        alert_repeat_refused(s, op);\n        return;\n"
            "    }\n    alert_of(op)->alert.what",
            f"{SCHEDULER} test_refused_alerts",
        ),
    },
    "A request that no queue took is tried again, uncounted, later each time": {
        "a request that no queue took is sent again at once": (
            lua("record"),
            "    local wait = min(t.backoff_initial * 2 ^ (rec.unstarted - 1), WAIT_CAP)\n"
            "    back_off",
            "    local wait = 0\n    back_off",
            "tests/integration/store/test_functions.py Functions.test_longest_wait_is_an_hour",
        ),
        "the wait for a queue has no maximum": (
            lua("record"),
            "min(t.backoff_initial * 2 ^ (rec.unstarted - 1), WAIT_CAP)",
            "t.backoff_initial * 2 ^ (rec.unstarted - 1)",
            "tests/integration/store/test_functions.py Functions.test_longest_wait_is_an_hour",
        ),
        "the doubled wait has no maximum": (
            lua("dispatch"),
            "max(t.wait, min(t.wait * 2 ^ rec.unstarted, WAIT_CAP))",
            "t.wait * 2 ^ rec.unstarted",
            "tests/integration/store/test_functions.py Functions.test_longest_wait_is_an_hour",
        ),
        "a request does not expire in its queue": (
            "scheduler/dispatch.c",
            "    message->expires = true;\n    message->mandatory",
            "    message->mandatory",
            "tests/integration/operation/test_alerts.py Alerts.test_no_agent_is_one_cause",
        ),
        "a request that no queue took raises no alert": (
            "scheduler/dispatch.c",
            "    message->mandatory = true;\n    message->cached",
            "    message->cached",
            f"{NOTIFICATIONS} test_many_causes",
        ),
        "a reply that no queue took is not noticed": (
            "agent/replies.c",
            "    m->mandatory = true;\n",
            "",
            f"{AGENT} test_returned_reply",
        ),
        "a notification that no queue took is not noticed": (
            "scheduler/notification.c",
            "    message->sender = effects_text(s->out, job->submitter);\n"
            "    message->mandatory = true;\n",
            "    message->sender = effects_text(s->out, job->submitter);\n",
            f"{NOTIFICATIONS} test_undeliverable_notification",
        ),
        "a dead letter that no queue took is not noticed": (
            "scheduler/dead_letter.c",
            "    m->reason = effects_str(s->out, letter_of(op)->reason);\n"
            "    m->mandatory = true;\n",
            "    m->reason = effects_str(s->out, letter_of(op)->reason);\n",
            f"{INTAKE} test_dead_letter_refused",
        ),
    },
    "The body is enough, and properties fill only fields that it leaves empty": {
        "a property overrides the body": (
            "common/model/wire.c",
            "    if ((*field)[0] != '\\0' || !property",
            "    if (!property",
            f"{WIRE} test_properties_replace_fields",
        ),
        "a Submit needs no job_id": (
            "common/model/wire_check.c",
            '    if (!check_name(m->job_id, PATH(NULL, "job_id"), problem))\n'
            '        return false;\n    if ((m->workflow',
            "    if ((m->workflow",
            f"{WIRE} test_submit",
        ),
        "a message_id does not become the job_id": (
            "common/model/wire.c",
            "        r = text_default(&m->submit->job_id, p->message_id);\n",
            "",
            f"{WIRE} test_properties_replace_fields",
        ),
        "JSON is not recognised by its first byte": (
            "common/model/wire.c",
            ".json = body.len > 0 && body.data[0] == '{'}",
            ".json = false}",
            f"{WIRE} test_submit",
        ),
        "a message in JSON is answered in protobuf": (
            "scheduler/publish.c",
            "    m = publish_message(s, op, body, item->json);\n",
            "    m = publish_message(s, op, body, false);\n",
            "tests/integration/messages/test_bad_input.py BadInput.test_answered_in_kind",
        ),
        "unknown fields are kept": (
            "common/model/wire_unpack.c",
            "        unknown_drop(*out);\n",
            "",
            f"{WORKFLOW} test_unknown_fields_are_dropped",
        ),
        "no property of a request gives its step": (
            "common/io/bus/encode.c",
            "    put_text_header(&properties.headers, BUS_STEP_HEADER, m->step);\n",
            "",
            "tests/integration/messages/test_wire.py Wire.test_properties_of_a_request",
        ),
        "no property of a request gives its attempt": (
            "common/io/bus/encode.c",
            "    if (m->attempt > 0)\n",
            "    if (false)\n",
            "tests/integration/messages/test_wire.py Wire.test_properties_of_a_request",
        ),
        "a property of a request gives another attempt": (
            "scheduler/dispatch.c",
            "    message->attempt = m->attempt;\n",
            "    message->attempt = m->attempt + 1;\n",
        ),
        "a property of a request gives another job": (
            "scheduler/dispatch.c",
            "    message->job = effects_str(s->out, m->job_id);\n",
            "    message->job = effects_str(s->out, m->step);\n",
        ),
    },
    "A malformed message is refused with a reason, takes bounded memory, and spoils no good item": {
        "a message may have any size": (
            "common/model/wire_unpack.c",
            "    if (body.len <= WIRE_MESSAGE_MAX)\n",
            "    if (true)\n",
            f"{WIRE} test_too_large",
        ),
        "a message may take any amount of memory": (
            "common/model/wire_unpack.c",
            "    if (size > b->left) {\n",
            "    if (false) {\n",
            f"{WIRE} test_memory_is_bounded",
        ),
        "text need not be UTF-8": (
            "common/model/check.c",
            "        return utf8_valid(bytes_str(*(char *const *)value)) ||",
            "        return true || utf8_valid(bytes_str(*(char *const *)value)) ||",
            f"{WIRE} test_bad_text_in_one_item",
        ),
        "a number need not be finite": (
            "common/model/check.c",
            "        return isfinite(*(const double *)value) ||",
            "        return true || isfinite(*(const double *)value) ||",
            f"{WIRE} test_text_and_numbers_of_protobuf",
        ),
        "a reply needs no token": (
            "common/model/wire_check.c",
            '           check_text_given(token, WIRE_TOKEN_MAX, PATH(where, "token"), problem);\n'
            '}\n\nstatic bool results',
            '           check_text(token, WIRE_TOKEN_MAX, PATH(where, "token"), problem);\n}\n\n'
            'static bool results',
            f"{WIRE} test_reply_items",
        ),
        "a command that changes something needs no command_id": (
            "common/model/wire_check.c",
            "           (command_repeatable(m) ?",
            "           (true ?",
            f"{WIRE} test_control",
        ),
        "a bad reply spoils the good ones behind it": (
            "scheduler/on_replies.c",
            "        } else {\n            reply(s, item",
            "        } else if (bad == 0) {\n            reply(s, item",
            "tests/integration/messages/test_bad_input.py BadInput.test_bad_reply_in_a_batch",
        ),
        "a malformed message is lost": (
            "scheduler/dead_letter.c",
            '    m->exchange = "drover.dead";\n    m->key = "";\n    m->body',
            '    m->exchange = "drover.events";\n    m->key = "";\n    m->body',
            "tests/integration/messages/test_bad_input.py BadInput.test_oversized",
        ),
        "a dead letter has no reason": (
            "scheduler/dead_letter.c",
            "    m->reason = effects_str(s->out, letter_of(op)->reason);\n",
            '    m->reason = "";\n',
            "tests/integration/messages/test_bad_input.py BadInput.test_reasons_of_dead_letters",
        ),
    },
    "A published message is persistent, is sent until the broker answers, and has that outcome": {
        "messages are lost when the broker restarts": (
            "common/io/bus/encode.c",
            "is_transient(link, m) ? AMQP_DELIVERY_NONPERSISTENT : AMQP_DELIVERY_PERSISTENT",
            "AMQP_DELIVERY_NONPERSISTENT",
            f"{BUS_BROKER} test_persistent",
        ),
        "a message that the broker refused counts as confirmed": (
            "common/io/bus/publisher.c",
            "on_confirm(p, nack->delivery_tag, nack->multiple, false);",
            "on_confirm(p, nack->delivery_tag, nack->multiple, true);",
            f"{BUS_PUBLISH} test_nack",
        ),
        "a message that the broker refused is neither sent again nor reported": (
            "common/io/bus/publisher.c",
            "        on_confirm(p, nack->delivery_tag, nack->multiple, false);\n",
            "        (void)nack;\n",
            f"{BUS_PUBLISH} test_nack",
        ),
        "a confirm of several messages counts only for the last": (
            "common/io/bus/publisher.c",
            "        if ((multiple || m->tag == tag) && ",
            "        if (m->tag == tag && ",
            f"{BUS_PUBLISH} test_closing_flushes",
        ),
        "no message is mandatory": (
            "common/io/bus/encode.c",
            "    return m->message.mandatory && !direct_is(m);\n",
            "    return false;\n",
            f"{BUS_PUBLISH} test_return",
        ),
        "a message that no queue took counts as confirmed": (
            "common/io/bus/publisher.c",
            "!m->returned ? BUS_CONFIRMED : m->resent",
            "true ? BUS_CONFIRMED : m->resent",
            f"{BUS_PUBLISH} test_return",
        ),
        "an answer to a direct reply-to is mandatory": (
            "common/io/bus/encode.c",
            "    return m->message.mandatory && !direct_is(m);\n",
            "    return m->message.mandatory;\n",
            f"{BUS_PUBLISH} test_direct_reply",
        ),
        "a repeated message that no queue took counts as one that none ever took": (
            "common/io/bus/publisher.c",
            "    m->resent = m->sent;\n",
            "    m->resent = false;\n",
            f"{BUS_BROKER} test_frozen_broker",
        ),
        "messages on the wire when the connection broke are not sent again": (
            "common/io/bus/publisher.c",
            "    take_refused(p);\n",
            "    while (!list_empty(&p->wire))\n"
            "        settle(p, first(&p->wire), BUS_CONFIRMED);\n",
            f"{BUS_BROKER} test_frozen_broker",
        ),
        "a missing confirm is waited for without end": (
            "common/io/bus/publisher.c",
            "    if (!m || p->link.blocked)\n",
            "    if (!m || p->link.blocked || true)\n",
            f"{BUS_CONFIRMS} test_no_confirms",
        ),
        "a missing confirm is not noticed although later ones have come": (
            "common/io/bus/publisher.c",
            "        if (m->passed || p->heard",
            "        if (p->heard",
            f"{BUS_CONFIRMS} test_one_confirm_missing",
        ),
        "the first message of a connection keeps the others back until it is confirmed": (
            "common/io/bus/publisher.c",
            "reads != READS_UNKNOWN) {\n        p->reads = READS;\n",
            "reads != READS_UNKNOWN) {\n",
            f"{BUS_CONFIRMS} test_first_confirm_missing",
        ),
        "a pulse waits for a window that is full": (
            "common/io/bus/publisher.c",
            "p->link.config->max_unconfirmed || is_pulse(next);\n",
            "p->link.config->max_unconfirmed;\n",
            f"{PUBLISHER} test_pulse_passes_a_full_window",
        ),
        "a pulse waits behind all messages that wait": (
            "common/io/bus/publisher.c",
            "        list_append(pulse ? p->waiting.next : &p->waiting, node);\n",
            "        list_append(pulse ? &p->waiting : &p->waiting, node);\n",
            f"{PUBLISHER} test_pulse_passes_a_full_window",
        ),
        "a new connection sends all that waits, whether the broker reads it or not": (
            "common/io/bus/publisher.c",
            "    if (p->reads == READS_ASKED)\n",
            "    if (false)\n",
            f"{BUS_CONFIRMS} test_alarm_from_the_start",
        ),
        "a broker that reads slowly is left": (
            "common/io/bus/link.c",
            " || link->unsent < before)\n",
            ")\n",
            f"{BUS_CONFIRMS} test_slow_line",
        ),
        "a missing confirm is waited for as long as others come": (
            "common/io/bus/publisher.c",
            " || m->wired <= now - LONGEST * (int64_t)confirm_ms)",
            ")",
            f"{BUS_CONFIRMS} test_confirm_missing_on_one_route",
        ),
        "a confirm that an alarm holds up counts as missing": (
            "common/io/bus/publisher.c",
            "        p->held_up = now;\n",
            "        p->held_up = 0;\n",
            f"{BUS_CONFIRMS} test_alarm_takes_long",
        ),
        "a message over which the broker closes the channel is sent again and again": (
            "common/io/bus/publisher.c",
            "    blame(p);\n",
            "    if (false)\n        blame(p);\n",
            f"{BUS_PUBLISH} test_missing_exchange",
        ),
        "a message is sent after its time": (
            "common/io/bus/publisher.c",
            "    if (m->message.not_after && now >= m->message.not_after) {",
            "    if (false) {",
            f"{BUS_PUBLISH} test_not_after",
        ),
        "a request does not expire at the broker": (
            "common/io/bus/encode.c",
            "    if (m->expires) {\n",
            "    if (false) {\n",
            f"{BUS_PUBLISH} test_expiration",
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
        "a message that expires in a task queue is lost": (
            "common/io/bus/topology.c",
            "declare_queue(link, channel, name, TOPOLOGY_EXPIRED, false);",
            "declare_queue(link, channel, name, NULL, false);",
            f"{BUS_PUBLISH} test_expiration",
        ),
        "queues are lost when the broker restarts": (
            "common/io/bus/topology.c",
            ".durable = 1, .arguments.entries = entries};",
            ".durable = 0, .arguments.entries = entries};",
            f"{BUS_BROKER} test_persistent",
        ),
        "events cannot be subscribed to by a pattern": (
            "common/io/bus/topology.c",
            "{\"drover.events\", \"topic\"}",
            "{\"drover.events\", \"direct\"}",
            "tests/integration/jobs/test_jobs.py Jobs.test_events",
        ),
    },
    "A delivery is acknowledged on the connection that it came by, and in time": {
        "an ack of an earlier connection is sent on the next one": (
            "common/io/bus/consumer.c",
            "    return handle >> HANDLE_TAG_BITS == (c->epoch & HANDLE_EPOCH_MASK);\n",
            "    return c->epoch > 0;\n",
            f"{BUS_CONSUME} test_old_acks_are_void",
        ),
        "an ack includes deliveries that are still open": (
            "common/io/bus/consumer.c",
            "        r = send_ack(c, tag, false);\n",
            "        r = send_ack(c, tag, true);\n",
            f"{BUS_CONSUME} test_acks_out_of_order",
        ),
        "a delivery that is given back is lost": (
            "common/io/bus/consumer.c",
            ".requeue = true",
            ".requeue = false",
            f"{BUS_CONSUME} test_requeue",
        ),
        "the consumer sets no prefetch": (
            "common/io/bus/consumer.c",
            ".prefetch_count = link->config->prefetch",
            ".prefetch_count = 0",
            f"{BUS_QUEUES} test_prefetch",
        ),
        "nothing is acknowledged during an alarm": (
            "common/io/bus/bus.c",
            "    bus->stats.acked++;\n    hand_over_later(bus);\n",
            "    bus->stats.acked++;\n    if (!bus->stats.blocked)\n"
            "        hand_over_later(bus);\n",
            f"{BUS_CONFIRMS} test_alarm_drains",
        ),
        "an ack waits for others for ever": (
            "common/io/bus/bus.c",
            "        uv_timer_start(&bus->ack_timer, on_acks_due, BUS_ACK_MS, 0);\n",
            "        (void)on_acks_due;\n",
            f"{BUS_CONSUME} test_ack_alone",
        ),
        "acks that wait are lost when the bus closes": (
            "common/io/bus/bus.c",
            "bus->acks_due || bus->state != BUS_RUNNING ||",
            "bus->acks_due ||",
            f"{BUS_CONSUME} test_close_gives_back",
        ),
        "a queue that is gone is not consumed again": (
            "common/io/bus/consumer.c",
            "    return link_fail(link, LINK_E_LOST, \"queue %.*s is gone\", "
            "(int)cancel->consumer_tag.len,\n"
            "                     (const char *)cancel->consumer_tag.bytes);\n",
            "    (void)cancel;\n    return 0;\n",
            f"{BUS_CONSUME} test_consumer_cancelled",
        ),
        "the broker does not report that a queue is gone": (
            "common/io/bus/login.c",
            "table_yes(\"consumer_cancel_notify\")",
            "table_yes(\"nothing\")",
            f"{BUS_CONSUME} test_consumer_cancelled",
        ),
        "a body ends with its first frame": (
            "common/io/bus/frame.c",
            "body = bytes_of(body.data + len, body.len - len)",
            "body = BYTES_EMPTY",
            f"{BUS_PUBLISH} test_bodies",
        ),
        "bytes that a full socket did not take are lost": (
            "common/io/stream.c",
            "    buf_append(&s->waiting, data.data + n, data.len - (size_t)n);\n",
            "    return 0;\n",
            f"{BUS_BROKER} test_full_socket",
        ),
        "a message overtakes the declaration of its queue": (
            "common/io/bus/publisher.c",
            "!must_ask(p) && has_room(p, now);",
            "has_room(p, now);",
            f"{BUS_QUEUES} test_task_queue_is_declared",
        ),
        "messages overtake one that waits for the declaration of its queue": (
            "common/io/bus/publisher.c",
            " && !*p->task_queues.asked &&",
            " &&",
            f"{BUS_QUEUES} test_task_queue_is_declared",
        ),
        "a broker that says nothing any more keeps the connection": (
            "common/io/bus/link.c",
            "    return ++link->quiet_ticks * link_tick_ms(link) > 2 * link->heartbeat_ms;\n",
            "    return false;\n",
            f"{BUS_BROKER} test_frozen_broker",
        ),
        "no heartbeat is sent": (
            "common/io/bus/link.c",
            "    if (now - link->wrote_at >= link->heartbeat_ms / 2 &&",
            "    if (false &&",
            f"{BUS_BROKER} test_heartbeats",
        ),
        "a broker that does not answer is waited for without end": (
            "common/io/bus/link_calls.c",
            "    bool begins = link->state > LINK_WAITING && link->state < LINK_UP;\n",
            "    bool begins = false;\n",
            f"{BUS_BROKER} test_silent_broker",
        ),
        "a process is up before its pulses can come back": (
            "common/io/bus/consumer.c",
            "    if (c->pulse_asked && link_side_is_free(link))\n        return declare_pulse(c);\n"
            "    return c->stop",
            "    return c->stop",
            f"{BUS_PULSE} test_pulse_from_the_first",
        ),
        "a peer that reads nothing is waited for": (
            "common/io/bus/link.c",
            "    return link->full_ticks * link_tick_ms(link) > 2 * link->heartbeat_ms;\n",
            "    return false;\n",
            f"{BUS_BROKER} test_broker_reads_nothing",
        ),
        "an inspection has the numbers of another queue": (
            "common/io/bus/publisher.c",
            "    if (i->asked) { /* else another question has replaced it */\n",
            "    if (true) {\n",
            f"{BUS_QUEUES} test_inspections_that_overlap",
        ),
        "a message that is too large is read whole": (
            "common/io/bus/message.c",
            "oversize ? limit : (size_t)content->body_size",
            "(size_t)content->body_size",
            f"{BUS_PUBLISH} test_oversize",
        ),
        "a message that was cut off counts as whole": (
            "common/io/bus/message.c",
            "    a->incoming->delivery.oversize = oversize;\n",
            "",
            f"{BUS_PUBLISH} test_oversize",
        ),
        "a process that stops consuming goes on consuming": (
            "common/io/bus/consumer.c",
            "    if (c->stop && !c->stopped)\n",
            "    if (false)\n",
            f"{BUS_CONSUME} test_stop_consuming",
        ),
    },
    "A store call has one answer, its own; without it the effect of the call is unknown": {
        "an answer goes to the newest call": (
            "common/io/store/store_link.c",
            "    call = call_of(link->calls.next);\n    link->answered",
            "    call = call_of(link->calls.prev);\n    link->answered",
            f"{STORE} test_each_call_has_its_answer",
        ),
        "a call in progress when the connection broke is never answered": (
            "common/io/store/store_link.c",
            "    take_lost(&link->calls, lost);\n",
            "    for (struct list *l; (l = list_pop(&link->calls));)\n        free(call_of(l));\n",
            f"{STORE} test_killed_during_a_call",
        ),
        "a call in progress when the connection broke counts as refused": (
            "common/io/store/store.c",
            "    static const struct store_answer unknown = {.result = STORE_UNKNOWN};\n"
            "    struct list lost = LIST_INIT(lost);\n",
            "    static const struct store_answer unknown = {.result = STORE_ERROR};\n"
            "    struct list lost = LIST_INIT(lost);\n",
            f"{STORE} test_killed_during_a_call",
        ),
        "an answer is waited for without end": (
            "common/io/store/store_link.c",
            "        lose(link, missing, false);\n    }\n}\n",
            "        uv_timer_start(timer, on_timer, 10000, 0);\n    }\n}\n",
            f"{STORE} test_no_answer_in_time",
        ),
        "an answer that has come is read after its deadline": (
            "common/io/store/store_link.c",
            "    } else if (!again) {\n",
            "    } else if (false) {\n",
            f"{STORE} test_answers_that_waited",
        ),
        "a call without a connection waits for one": (
            "common/io/store/store.c",
            "    list_append(&s->lost, &take(call)->node);\n    answer_lost_later(s);\n",
            "    list_append(&s->lost, &take(call)->node);\n",
            f"{STORE} test_before_up_is_unknown",
        ),
        "a full store counts as a failed call": (
            "common/io/store/store_link.c",
            "resp_is_error(reply, \"OOM\") ? STORE_OOM : STORE_ERROR;",
            "STORE_ERROR;",
            f"{STORE} test_out_of_memory",
        ),
    },
    "A primary that was demoted is left, and is another run once it is primary again": {
        "a primary that was a replica meanwhile has the run that it had": (
            "common/io/store/store_check.c",
            "    return before[strspn(before, \"0\")] ? store_check_info(text, "
            "\"master_replid\", out, size) : out;\n",
            "    (void)before;\n    return out;\n",
            "tests/integration/store/test_durability.py Failover.test_primary_again",
        ),
        "a primary is kept although the Sentinels name another one": (
            "common/io/store/store.c",
            "    s->moves += was_up;\n    drop_link(s);\n",
            "    s->moves += was_up;\n    if (s->link)\n        return;\n",
            "tests/integration/store/test_sentinel.py Fast.test_cut_primary",
        ),
        "a Sentinel that was cut off is believed": (
            "common/io/store/sentinel.c",
            "    if (*known->host && epoch <= known->epoch)\n",
            "    if (*known->host && epoch < 0)\n",
            f"{SENTINEL} test_cut_off",
        ),
        "Sentinels that were configured anew are not believed": (
            "common/io/store/sentinel.c",
            "        choice->contradicted += round;\n",
            "        choice->contradicted += round && majority->epoch >= newest->epoch;\n",
            f"{SENTINEL} test_configured_anew",
        ),
        "a wrong Sentinel of the same epoch is believed for ever": (
            "common/io/store/sentinel.c",
            "        choice->contradicted += round;\n",
            "        choice->contradicted += round && majority->epoch < newest->epoch;\n",
            f"{SENTINEL} test_wrong_sentinel_of_one_epoch",
        ),
        "a majority contradicts by the epoch alone": (
            "common/io/store/sentinel.c",
            "            names(&answers[i], primary->epoch) && "
            "sentinel_is_same(&answers[i].primary, primary);\n",
            "            names(&answers[i], primary->epoch);\n",
            f"{SENTINEL} test_no_majority",
        ),
        "a wrong Sentinel with the highest epoch is believed again and again": (
            "common/io/store/sentinel.c",
            "        choice->rejected = primary->epoch > majority->epoch ? primary->epoch : 0;\n",
            "",
            f"{SENTINEL} test_wrong_sentinel",
        ),
        "what a majority has contradicted is forgotten in the next round": (
            "common/io/store/sentinel.c",
            "    if (majority && majority->epoch >= choice->rejected)\n",
            "    if (majority && *choice->known.host)\n",
            f"{SENTINEL} test_wrong_sentinel_again",
        ),
        "a process begins with what the one wrong Sentinel names": (
            "common/io/store/sentinel.c",
            "    else if (!*choice->known.host)\n        choice->contradicted = SENTINEL_ROUNDS;\n",
            "",
            f"{SENTINEL} test_wrong_sentinel_at_first",
        ),
        "the oldest configuration of a primary counts": (
            "common/io/store/sentinel.c",
            "counts && epoch > highest)\n",
            "counts && (highest < 0 || epoch < highest))\n",
            f"{SENTINEL} test_highest_epoch",
        ),
        "a primary is left for another one of the same epoch": (
            "common/io/store/sentinel.c",
            "    if (*known->host && epoch <= known->epoch)\n",
            "    if (*known->host && epoch < known->epoch)\n",
            f"{SENTINEL} test_one_epoch",
        ),
        "an idle connection to a demoted primary is kept": (
            "common/io/store/store_link.c",
            "    if (!store_check_is_same_run(&link->check, info))\n",
            "    if (false && info)\n",
            "tests/integration/store/test_durability.py Failover.test_primary_again",
        ),
        "a cluster of Valkey is used": (
            "common/io/store/store_check.c",
            "    mode = mode[0] ? mode : valkey_mode;\n",
            "    mode = mode[0] ? mode : \"\";\n    (void)valkey_mode;\n",
            f"{STORE_CHECK} test_servers",
        ),
    },
    "Connections are encrypted, or stay on the machine, and the server proves who it is": {
        "a certificate for another name is accepted": (
            "common/io/tls.c",
            "    return X509_VERIFY_PARAM_set1_host(param, name, 0) == 1 &&",
            "    return true &&",
            "tests/unit/test_tls test_refused_certificates",
        ),
        "a certificate for another address is accepted": (
            "common/io/tls.c",
            "    if (X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1)\n        return 0;\n",
            "    if (strspn(name, \"0123456789.:\") == strlen(name))\n        return 0;\n",
            "tests/unit/test_tls test_refused_certificates",
        ),
        "the chain of a server is not verified": (
            "common/io/tls.c",
            "    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER, NULL);\n",
            "    SSL_CTX_set_verify(ssl, SSL_VERIFY_NONE, NULL);\n",
            "tests/unit/test_tls test_refused_certificates",
        ),
        "TLS 1.1 is good enough": (
            "common/io/tls.c",
            "    SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION);\n",
            "    SSL_CTX_set_min_proto_version(ssl, TLS1_VERSION);\n"
            "    SSL_CTX_set_security_level(ssl, 0);\n",
            "tests/unit/test_tls test_old_version",
        ),
        "a refused handshake is no refusal": (
            "common/io/tls_fault.c",
            "    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE: /*",
            "    case -1: /*",
            "tests/unit/test_tls test_client_certificates",
        ),
        "a key that everybody can read is used": (
            "common/io/tls.c",
            "    if (status.st_mode & S_IRWXO)\n",
            "    if (false)\n",
            "tests/unit/test_tls test_files",
        ),
        "new certificates wait for a restart": (
            "common/io/tls.c",
            "    *to = *from;\n    *from = before;\n",
            "    (void)before;\n",
            "tests/unit/test_tls test_rotation",
        ),
        "one record is decrypted at a time": (
            "common/io/tls.c",
            "    while (n > 0 && got < size && ",
            "    while (n > 0 && got == 0 && ",
            "tests/unit/test_tls test_records",
        ),
        "a session that has failed forgets why": (
            "common/io/tls.c",
            "    if (*tls->why)\n        return -TLS_E_FAILED;\n    while (",
            "    while (",
            "tests/unit/test_tls test_damaged_record",
        ),
        "the end of a session hides behind an answer that cannot be written": (
            "common/io/stream.c",
            "    if (*tls_why(s->tls))\n",
            "    if (false)\n",
            "tests/integration/security/test_tls.py Tls.test_end_behind_data",
        ),
        "SIGHUP does not read the certificates": (
            "common/io/daemon/daemon.c",
            "    config_take_tls(d->config, config);\n",
            "",
            "tests/integration/security/test_tls.py Tls.test_rotation",
        ),
        "clear text goes to wherever a name leads": (
            "common/io/stream.c",
            "    return s->target.tls || s->target.insecure || hosts_is_loopback(address);\n",
            "    (void)address;\n    return true;\n",
            f"{BUS_BROKER} test_clear_text",
        ),
        "a request in clear text goes to wherever a name leads": (
            "agent/handler_http.c",
            "        !hosts_is_local_number(to)) {\n",
            "        false) {\n",
            "tests/unit/test_http test_clear_text",
        ),
        "a number of another machine passes the check of an action's URL": (
            "agent/http_request.c",
            "        if (hosts_is_remote_number(host)) {\n",
            "        if (false) {\n",
            "tests/unit/test_agent_config test_refused",
        ),
        "an action does not have the security of its actor": (
            "agent/http_config.c",
            "copy_of(actors->key_file), actors->insecure};\n",
            "copy_of(actors->key_file), false};\n",
            "tests/unit/test_agent_config test_http_security_of_an_actor",
        ),
        "a service with the certificate of another name has no advice": (
            "agent/http_error.c",
            "        verdict = X509_V_ERR_HOSTNAME_MISMATCH;\n",
            "        verdict = X509_V_ERR_UNSPECIFIED;\n",
            "tests/integration/agents/test_http.py Http.test_refused_services",
        ),
        "what OpenSSL says of a service is not read": (
            "agent/http_error.c",
            "        if (end - at == 8 && *end == ':')\n            return error;\n",
            "        if (end - at == 8 && *end == ':')\n            return 0 * error;\n",
            "tests/integration/agents/test_http.py Http.test_refused_services",
        ),
        "a handshake that a service does not answer may have sent the request": (
            "agent/handler_http.c",
            "    if (run->sent == 0 && (!timeout || http_error_is_silent(failure)))\n",
            "    if (run->sent == 0 && !timeout)\n",
            "tests/integration/agents/test_http.py Http.test_refused_services",
        ),
        "an outage of a service is what a person must mend": (
            "agent/handler_http.c",
            "    target_heard(&run->call);\n",
            "",
            "tests/integration/agents/test_http.py Http.test_outage",
        ),
        "a service that a person must mend is not counted": (
            "agent/handler_http.c",
            "    shared.refused++;\n",
            "",
            "tests/integration/agents/test_http.py Http.test_refused_services",
        ),
        "the first certificate for services to expire is not the one that counts": (
            "agent/agent_config.c",
            "            first = tls_first_expiry(first, tls_file_expiry(",
            "            first = tls_first_expiry(0, tls_file_expiry(",
            "tests/integration/agents/test_http.py Http.test_rotation",
        ),
        "SIGHUP does not read the authorities of services": (
            "agent/handler_http.c",
            "    shared.reloaded = clock_monotonic_ms();\n",
            "",
            "tests/integration/agents/test_http.py Http.test_rotation",
        ),
        "an agent begins with certificates that it cannot use": (
            "agent/main.c",
            "    return r ? r : agent_setup_check_files(setup, problem);\n",
            "    return r;\n",
            "tests/integration/agents/test_http.py Http.test_wrong_files",
        ),
        "what a service has sent before it reset the connection is not read": (
            "agent/http_loop.c",
            "        flags = CURL_CSELECT_ERR | CURL_CSELECT_IN | CURL_CSELECT_OUT;\n",
            "        flags = CURL_CSELECT_ERR;\n",
            "tests/unit/test_http test_answer_before_a_reset",
        ),
        "a number of another machine passes the check of the settings": (
            "common/io/config/config_connections.c",
            "        if (!hosts_is_remote_number(hosts.list[i].name))\n",
            "        if (true)\n",
            "tests/unit/test_config test_clear_text",
        ),
    },
    "Of several hosts each is tried before the pause, beginning with the process' own": {
        "a host that cannot be reached costs a pause": (
            "common/io/bus/link.c",
            "    if (link->up_since || is_round_over(link)) {\n",
            "    if (true) {\n",
            f"{BUS_BROKER} test_several_hosts",
        ),
        "all processes begin with the first host": (
            "common/io/hosts.c",
            "    return (number % n + ",
            "    return (",
            "tests/unit/test_hosts test_spread",
        ),
        "processes with numbered names do not spread evenly": (
            "common/io/hosts.c",
            "    return number + hash_of(process, stem);\n",
            "    return hosts_hash(process);\n",
            "tests/unit/test_hosts test_spread_evenly",
        ),
        "all processes of a host that fails go to the same one": (
            "common/io/hosts.c",
            "(number / n % 2 ? n - 1 : 1)",
            "1",
            "tests/unit/test_hosts test_spread_evenly",
        ),
        "a host that has fallen silent is tried again at once": (
            "common/io/bus/link.c",
            "    link->silent = silent ? link->host : NULL;\n",
            "    link->silent = NULL;\n",
            f"{BUS_BROKER} test_silent_host_is_left",
        ),
        "after a lost connection a silent host is waited for as long as one of one": (
            "common/io/bus/link.c",
            "    link->rounds_failed = 0;\n",
            "    link->rounds_failed = 1;\n",
            f"{BUS_BROKER} test_silent_host_after_a_connection",
        ),
        "a refusal by one host is reported although another one was good": (
            "common/io/bus/link_input.c",
            "    link->refused = false; /* another host was good */\n",
            "",
            f"{BUS_BROKER} test_clear_text",
        ),
        "a process that stood still takes its broker for silent": (
            "common/io/bus/link.c",
            "    } else if (link->overdue) {\n",
            "    } else if (true) {\n",
            f"{BUS_BROKER} test_process_that_stands_still",
        ),
        "a node that only lets log in is waited for as long as one of one": (
            "common/io/bus/link_calls.c",
            "    return link->state < LINK_UP &&",
            "    return link->state <= LINK_GREETING &&",
            f"{BUS_BROKER} test_host_that_only_lets_log_in",
        ),
        "a process never returns to its own host": (
            "common/io/bus/link.c",
            "    link->first_host = lasted ? 0 : link->first_host + 1;\n",
            "    link->first_host += !lasted;\n",
            f"{BUS_BROKER} test_own_host_again",
        ),
        "an address that refuses ends the attempt at its host": (
            "common/io/stream.c",
            "    int r = s->tried < s->n_addresses ? try_next(s) : s->error;\n",
            "    int r = s->error;\n",
            f"{BUS_BROKER} test_several_hosts",
        ),
    },
    "What may be refused by the fault of a connection goes over another one": {
        "a refusal is never the fault of the connection": (
            "common/io/bus/publisher.c",
            "(accepted || !keep_refused(p, m))",
            "true",
            f"{BUS_PUBLISH} test_nack_over_one_connection",
        ),
        "another connection is made while messages are on the wire": (
            "common/io/bus/publisher.c",
            "    if (!list_empty(&p->wire) && now <",
            "    if (false && now <",
            f"{BUS_PUBLISH} test_nack_over_one_connection",
        ),
        "a message that waits for its next connection stops the others": (
            "common/io/bus/publisher.c",
            "    while (!r && may_send(p, now)) {\n",
            "    while (!r && !p->renewal.due && may_send(p, now)) {\n",
            f"{BUS_PUBLISH} test_others_pass_a_refused_one",
        ),
        "a queue that has taken a message may refuse the next one by the fault of the connection": (
            "common/io/bus/renewal.c",
            "    if (was_taken(r, place_of(m)) || ",
            "    if (",
            "tests/unit/test_renewal test_taken",
        ),
        "connections that do not help are made without a pause": (
            "common/io/bus/renewal.c",
            "    r->next = now + r->pause;\n",
            "    r->next = now;\n",
            "tests/unit/test_renewal test_pauses",
        ),
        "what is refused in a short pause has failed": (
            "common/io/bus/renewal.c",
            "now < r->next && r->pause > PAUSE_SHORT_MS))",
            "now < r->next))",
            "tests/unit/test_renewal test_short_pauses",
        ),
        "a message goes over one other connection only": (
            "common/io/bus/publisher.c",
            "m->renewals == RENEWALS_MAX",
            "m->renewals == 1",
            f"{BUS_PUBLISH} test_nack_over_three_connections",
        ),
        "another connection is made before its pause is over": (
            "common/io/bus/publisher.c",
            " p->renewal.due && p->renewal.due <= now)\n",
            " p->renewal.due)\n",
            f"{BUS_PUBLISH} test_nack_over_three_connections",
        ),
    },
    "Headers of a message are read whatever a sender has put there": {
        "an unknown type of a header costs the properties behind the table": (
            "common/io/bus/frame.c",
            "        read_headers(read_long(&r), out);\n",
            "        read_headers(r.left, out);\n",
            "tests/unit/test_frame test_unknown_type",
        ),
        "a nested array is read as several headers": (
            "common/io/bus/frame.c",
            "    case 'A':\n    case 'F':\n        read_long(r);\n",
            "    case 'A':\n    case 'F':\n        read_number(r, 4);\n",
            "tests/unit/test_frame test_deep_header",
        ),
        "a frame longer than agreed is waited for": (
            "common/io/bus/frame.c",
            "    if (len > max - FRAME_OVERHEAD)\n        return -EBADMSG;\n",
            "",
            "tests/unit/test_frame test_no_frames",
        ),
    },
    "The store has the newest library, also after it lost it, and keeps its partitions": {
        "an older library replaces a newer one": (
            "common/io/store/store_check.c",
            "        return e->build < own_build(e) && !e->config->read_only;",
            "        return e->build != own_build(e) && !e->config->read_only;",
            f"{STORE} test_newest_build_stays",
        ),
        "a newer library does not replace an older one": (
            "common/io/store/store_check.c",
            "        return e->build < own_build(e) && !e->config->read_only;",
            "        return e->build == 0 && !e->config->read_only;",
            f"{STORE} test_newest_build_stays",
        ),
        "a lost library is not loaded again": (
            "common/io/store/store_link.c",
            '"READONLY", "LOADING", "MASTERDOWN", "NOAUTH", "ERR Function not found",',
            '"READONLY", "LOADING", "MASTERDOWN", "NOAUTH",',
            f"{STORE} test_library_lost",
        ),
        "a process that only reads uses another library": (
            "common/io/store/store_check.c",
            "    if (e->config->read_only && e->build != own_build(e))",
            "    if (false)",
            f"{STORE_CHECK} test_read_only",
        ),
        "the settings override the number of partitions in the store": (
            "common/io/store/store_check.c",
            "    e->partitions = (uint32_t)partitions;\n",
            "    e->partitions = e->config->partitions;\n",
            f"{STORE} test_two_at_first_start",
        ),
        "a store with another number of partitions counts as the same": (
            "common/io/store/store_check.c",
            "    if (e->config->known && partitions != e->config->known)",
            "    if (false)",
            f"{STORE_CHECK} test_meta",
        ),
        "the second process sets the number of partitions": (
            "common/io/store/store_check.c",
            "    \"if redis.call('EXISTS', KEYS[1]) == 0 then \"",
            "    \"if true then \"",
            f"{STORE} test_two_at_first_start",
        ),
        "jobs of another data version are read": (
            "common/io/store/store_check.c",
            "    if (!bytes_is(reply->items[1], TEXT(STORE_SCHEMA)))",
            "    if (false)",
            f"{STORE_CHECK} test_meta",
        ),
        "a store that evicts keys is used": (
            "common/io/store/store_check.c",
            "    if (policy[0] && strcmp(policy, \"noeviction\") != 0)",
            "    if (false)",
            f"{STORE_CHECK} test_servers",
        ),
    },
    "An answer goes to a queue of its sender": {
        "an answer goes to a queue of Drover": (
            "common/model/reply_to.c",
            ' && strncmp(reply_to, "drover.", 7) != 0',
            "",
            f"{WIRE} test_submit",
        ),
        "a refused reply_to gets the refusal": (
            "common/model/wire.c",
            "    text_put(reply_to_of(m), (char *)protobuf_c_empty_string);\n",
            "",
            f"{WIRE} test_bad_reply_to_is_emptied",
        ),
    },
    "A request carries the results that its step takes, the last error, and its counters": {
        "a step takes the results of all its dependencies": (
            "common/model/workflow.c",
            "    } else if (!m->take_none && m->n_after <= WIRE_TAKE_DEFAULT_MAX) {\n",
            "    } else {\n",
            f"{WORKFLOW} test_diamond",
        ),
        "a request carries no results": (
            "scheduler/request.c",
            "    set_results(s, &m, transition, c, w, step);\n    set_forward",
            "    set_forward",
            "tests/integration/jobs/test_jobs.py Jobs.test_diamond",
        ),
        "a request carries no last error": (
            "scheduler/request.c",
            "    m.last_error = last;\n",
            "",
            "tests/integration/messages/test_wire.py Wire.test_text",
        ),
        "a request carries no failures": (
            "scheduler/request.c",
            "    m->failures = r->failures;\n",
            "",
            "tests/integration/jobs/test_behaviours.py Behaviours.test_compensation_is_retried",
        ),
        "a request carries no labels": (
            "scheduler/request.c",
            "        m.n_labels = c->labels->n_labels;\n",
            "        m.n_labels = 0;\n",
        ),
        "a request carries no traceparent": (
            "scheduler/request.c",
            "    m.traceparent = c->traceparent;\n",
            "",
        ),
        "a request carries no input": (
            "scheduler/request.c",
            "    m.input = c->input;\n",
            "",
        ),
        "a request always carries the first attempt": (
            "scheduler/request.c",
            "    m->attempt = r->attempt;\n",
            "    m->attempt = 1;\n",
        ),
        "a request always carries the first turn": (
            "scheduler/request.c",
            "    m->turn = r->turn;\n",
            "    m->turn = 1;\n",
        ),
        "an undo carries the action of the forward action": (
            "scheduler/request.c",
            "    m->action = (char *)d->action;\n",
            "    m->action = (char *)step->forward.action;\n",
        ),
    },
    "A notification is kept until confirmed; a missing queue is tried five times in an hour": {
        "a notification that found no queue counts as confirmed": (
            "scheduler/publish.c",
            "            part->op->returned |= !part->optional;\n",
            "            part->op->returned |= outcome == BUS_NACKED || part->token[0];\n",
        ),
        "a notification that came back counts as confirmed": (
            "scheduler/notification.c",
            "    } else if (!op->returned) {\n        op_call(s, op, settle_call",
            "    } else if (true) {\n        op_call(s, op, settle_call",
        ),
        "a missing queue is tried for ever": (
            "scheduler/notification.c",
            "n->tries + 1 >= NOTIFICATION_TRIES) {",
            "n->tries + 1 >= 1000) {",
            "tests/integration/messages/test_bad_input.py"
            " BadInput.test_reply_to_a_queue_that_is_gone",
        ),
        "a missing queue is tried once": (
            "scheduler/notification.c",
            "n->tries + 1 >= NOTIFICATION_TRIES) {",
            "n->tries + 1 >= 1) {",
        ),
        "all notifications of a job share one number of tries": (
            lua("notifications"),
            "    call('HSET', data, 'n' .. seq, int(failed)",
            "    call('HSET', data, 'n', int(failed)",
            FUNCTIONS_TEST + "test_each_notification_has_its_tries",
        ),
        "a Notify counts as a try whose outcome is not known": (
            lua("expire"),
            "      call('ZADD', p .. 'owed', int(now + ASK_AGAIN), member)\n",
            "      call('HINCRBY', p .. 'data:' .. id, 'n' .. seq, 1)\n"
            "      call('ZADD', p .. 'owed', int(now + ASK_AGAIN), member)\n",
            FUNCTIONS_TEST + "test_only_failed_tries_to_notify_are_counted",
        ),
        "a lost Notify is asked for again after five minutes": (
            lua("expire"),
            "      call('ZADD', p .. 'owed', int(now + ASK_AGAIN), member)\n",
            "      call('ZADD', p .. 'owed', int(now + 300000), member)\n",
            FUNCTIONS_TEST + "test_only_failed_tries_to_notify_are_counted",
        ),
        "a scheduler that has lost an answer counts a failed try twice": (
            lua("notifications"),
            "  if settled and not is_another(settled, at) and failed_tries(record) == failed",
            "  failed = failed_tries(record)\n  if settled",
            FUNCTIONS_TEST + "test_next_try_to_notify",
        ),
        "a scheduler puts off a notification that another one has published": (
            lua("notifications"),
            "  if settled and not is_another(settled, at) and failed_tries(record) == failed",
            "  if failed_tries(record) == failed",
            FUNCTIONS_TEST + "test_try_to_notify_that_is_not_known",
        ),
        "each Notify in the queue is a try": (
            lua("inspect"),
            "  if not settled or due > now_ms() then\n",
            "  if not settled then\n",
            FUNCTIONS_TEST + "test_next_try_to_notify",
        ),
        "a Notify has an event published beside the same one": (
            "scheduler/notification.c",
            "    if (!in_progress(s, job, seq))\n",
            "",
            f"{NOTIFICATIONS} test_notify_while_it_is_published",
        ),
        "a failed try is not reported to the store": (
            "scheduler/notification.c",
            "    } else {\n        op_call(s, op, defer_call, ignore_answer);\n    }\n",
            "    }\n",
            f"{NOTIFICATIONS} test_undeliverable_notification",
        ),
        "a notification has no seq": (
            "scheduler/notification.c",
            "    m->seq = n->seq;\n",
            "\n",
        ),
        "step events are sent although the client did not ask": (
            "scheduler/step_events.c",
            "    if (!transition->publish_step_events || transition->n_requests == 0)\n",
            "    if (transition->n_requests == 0)\n",
            "tests/integration/jobs/test_jobs.py Jobs.test_events",
        ),
        "a notification carries results beyond its limit": (
            lua("inspect"),
            "    local fits = size <= room\n",
            "    local fits = true\n",
            FUNCTIONS_TEST + "test_limit_of_results_in_a_notification",
        ),
        "a confirmed notification stays in the outbox": (
            lua("notifications"),
            "    call('ZREM', p .. 'owed', job_id .. ' ' .. seq)\n",
            "",
        ),
    },
    "The more specific part of a policy wins, and only valid values are accepted": {
        "the policy of a workflow overrides that of a step": (
            "common/model/policy.c",
            "    policy_overlay(out, workflow);\n    policy_overlay(out, step);\n",
            "    policy_overlay(out, step);\n    policy_overlay(out, workflow);\n",
            f"{POLICY} test_precedence_of_policies",
        ),
        "an undo has no policy of its own": (
            "common/model/policy.c",
            "    policy_overlay(out, revert);\n",
            "",
            f"{POLICY} test_precedence_of_policies",
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
            "    if (out->maximum_interval_ms < out->initial_interval_ms)\n"
            "        out->maximum_interval_ms = out->initial_interval_ms;\n",
            "",
            f"{POLICY} test_a_long_first_wait_raises_an_inherited_maximum",
        ),
        "by default a step is tried once": (
            "common/model/policy.c",
            "        .maximum_attempts = POLICY_MAXIMUM_ATTEMPTS,\n",
            "        .maximum_attempts = 1,\n",
            f"{POLICY} test_defaults",
        ),
        "by default a step that has used up its tries fails": (
            "common/model/policy.c",
            "        .on_exhausted = DROVER__V1__RECOURSE__RECOURSE_PARK,\n",
            "        .on_exhausted = DROVER__V1__RECOURSE__RECOURSE_FAIL,\n",
            f"{POLICY} test_defaults",
        ),
        "by default a permanent failure does not compensate": (
            "common/model/policy.c",
            "        .on_permanent = DROVER__V1__RECOURSE__RECOURSE_COMPENSATE,\n",
            "        .on_permanent = DROVER__V1__RECOURSE__RECOURSE_PARK,\n",
            f"{POLICY} test_defaults",
        ),
        "by default as many expiries are allowed as failures": (
            "common/model/policy.c",
            "        .maximum_expiries = POLICY_MAXIMUM_EXPIRIES,\n",
            "        .maximum_expiries = POLICY_MAXIMUM_ATTEMPTS,\n",
            f"{POLICY} test_defaults",
        ),
    },
    "A full store takes no new work, and goes on with the old": {
        "a full store takes new work": (
            lua("registration"),
            "register('define', {})\nregister('submit', {})",
            "register('define', {'allow-oom'})\nregister('submit', {'allow-oom'})",
            "tests/integration/messages/test_bad_input.py Full.test_store_is_full",
        ),
        "a Submit that may have been recorded is refused": (
            "scheduler/on_submit.c",
            "op->on_full = d->redelivered && !item_is_large(op->item) ? NULL : retry_later;",
            "op->on_full = retry_later;",
            f"{SCHEDULER} test_full_store",
        ),
        "a Submit whose answer was lost is refused": (
            "scheduler/op.c",
            "    op->on_full = NULL; /* the job",
            "    /* the job",
            f"{SCHEDULER} test_full_store",
        ),
        "a full store records no replies": (
            lua("registration"),
            "register('record', {'allow-oom'})",
            "register('record', {})",
            f"{SCHEDULER} test_full_store_goes_on",
        ),
        "a full store ends no leases": (
            lua("registration"),
            "register('expire', {'allow-oom'})",
            "register('expire', {})",
            f"{SCHEDULER} test_full_store_goes_on",
        ),
        "a full store drives no job": (
            lua("registration"),
            "register('drive', {'allow-oom'})",
            "register('drive', {})",
            f"{SCHEDULER} test_full_store_goes_on",
        ),
        "a full store takes no commands": (
            lua("registration"),
            "register('steer', {'allow-oom'})",
            "register('steer', {})",
            f"{SCHEDULER} test_full_store_goes_on",
        ),
        "a full store keeps notifications in the outbox for ever": (
            lua("registration"),
            "register('settle_owed', {'allow-oom'})",
            "register('settle_owed', {})",
            f"{SCHEDULER} test_full_store_goes_on",
        ),
        "a full store renews no leases": (
            lua("registration"),
            "register('renew', {'allow-oom'})",
            "register('renew', {})",
            FUNCTIONS_TEST + "test_a_full_store_refuses_new_jobs",
        ),
        "a full store gives no supervisor the lead": (
            lua("registration"),
            "register('lead', {'allow-oom'})",
            "register('lead', {})",
            FUNCTIONS_TEST + "test_a_full_store_refuses_new_jobs",
        ),
        "a full store causes the same alert again and again": (
            lua("registration"),
            "register('told', {'allow-oom'})",
            "register('told', {})",
            FUNCTIONS_TEST + "test_a_full_store_refuses_new_jobs",
        ),
    },
    "Requests wait while too many, or too many bytes, are not confirmed": {
        "requests do not wait for the number of those before": (
            "scheduler/publish.c",
            "    return HASH_COUNT(s->publishes.by_id) < s->publishes.most &&\n           ",
            "    return ",
            f"{INTAKE} test_unconfirmed_requests",
        ),
        "requests do not wait for the bytes of those before": (
            "scheduler/publish.c",
            " &&\n           s->publishes.bytes < PUBLISH_UNCONFIRMED_BYTES;",
            ";",
            f"{INTAKE} test_unconfirmed_bytes",
        ),
        "requests that waited for room are never sent": (
            "scheduler/scheduler.c",
            "        transition_resume_stalled(s);\n",
            "\n",
            f"{INTAKE} test_unconfirmed_requests",
        ),
        "requests that wait while a job migrates are sent with the new definition": (
            "scheduler/transition.c",
            "    workflow_unref(op->definition.workflow);\n    op->definition.workflow = w;\n"
            "    op->refs++;\n",
            "    if (op->definition.workflow)\n        workflow_unref(w);\n    else\n"
            "        op->definition.workflow = w;\n    op->refs++;\n",
            f"{INTAKE} test_migrated_while_a_request_waits",
        ),
    },
    "A process that runs out of memory aborts, and does nothing by halves": {
        "out of memory a reply is recorded without its result": (
            "scheduler/on_replies.c",
            "    r->record.result = buf_or_abort(&r->result);\n",
            "    r->record.result = buf_bytes(&r->result);\n",
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
            ".input = buf_or_abort(&o->input),",
            ".input = buf_bytes(&o->input),",
            f"{FAILURES} chain/allocation",
        ),
        "out of memory a request is sent without its data": (
            "common/model/store_ops.c",
            "    return or_abort(malloc(size));\n",
            "    return malloc(size);\n",
            f"{FAILURES} chain/allocation",
        ),
        "out of memory a definition counts as lost": (
            "scheduler/definition.c",
            "    if (result == -ENOMEM)\n        abort();\n    if (result) {\n"
            "        log_error(\"definition_lost\"",
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
        "each parse sets the allocator of jansson again": (
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
            lua("steer"),
            "local COMMANDS_KEPT = 16 ",
            "local COMMANDS_KEPT = 1 ",
        ),
    },
    "The end of a job cancels timers, and leaves dispatches in flight alone": {
        "the end of a job withdraws dispatches in flight": (
            lua("walks"),
            "    if rec.state ~= STEP.IN_FLIGHT and rec.state ~= STEP.FAILED then\n"
            "        set_state",
            "    if rec.state ~= STEP.FAILED then\n        set_state",
        ),
    },
    "Settings come from readable files, or are refused; SIGHUP reads them again, ends nothing": {
        "a file that cannot be read to its end is left to libconfig": (
            "common/io/config/config_tree.c",
            "    return file_read(path, FILE_MAX, &text, problem);\n",
            "    return 0;\n",
            "tests/unit/test_config test_reads_that_fail",
        ),
        "a password from a file that cannot be read is empty": (
            "common/io/config/config.c",
            "    if (r)\n"
            "        return config_problem(o, problem, \"%s: %s\", file, strerror(-r));\n",
            "    if (r == -ENOENT)\n"
            "        return config_problem(o, problem, \"%s: %s\", file, strerror(-r));\n",
            "tests/unit/test_config test_secret_that_cannot_be_read",
        ),
        "a file whose name is - is the standard input": (
            "common/io/file.c",
            "    int fd = open(path, O_RDONLY | O_CLOEXEC);\n",
            "    int fd = strcmp(path, \"-\") == 0 ? dup(STDIN_FILENO) : open(path, "
            "O_RDONLY | O_CLOEXEC);\n",
            "tests/unit/test_config test_standard_input_is_no_file",
        ),
        "SIGHUP ends a daemon": (
            "common/io/daemon/daemon.c",
            "    watch(d, &d->hangup, on_hangup, SIGHUP);\n",
            "    uv_signal_init(&d->loop, &d->hangup);\n    signal(SIGHUP, SIG_DFL);\n"
            "    (void)on_hangup;\n",
            "tests/integration/operation/test_reload.py Reload.test_refused",
        ),
    },
    "Failpoints need permission, and each fires at its boundary as often as its terms say": {
        "failpoints need no permission": (
            "common/io/failpoint.c",
            "    if (!allow || strcmp(allow, \"1\") != 0) {\n",
            "    if (false) {\n",
            "tests/integration/operation/test_failpoints.py Forbidden",
        ),
        "a failpoint of replies fires for progress": (
            "common/io/failpoint.c",
            '        return m->expires ? "progress" : "reply";',
            '        return m->expires && m->reply_to ? "progress" : "reply";',
            "tests/integration/operation/test_failpoints.py Tasks.test_lost_reply",
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
        "why does not see that a queue has no consumer": (
            "cli/why_facts.c",
            "    return queue && queue->consumers == 0 && !step->begun &&\n"
            "           (queue->messages > 0 || step->unstarted > 0);\n",
            "    return false;\n",
            "tests/integration/cli/test_why.py Why.test_no_agent",
        ),
        "why does not name who holds a job": (
            "cli/why_reason.c",
            "    if (*job->held_by) {\n",
            "    if (false) {\n",
            "tests/integration/cli/test_why.py Why.test_held",
        ),
        "why does not name what a step waits for": (
            "cli/why_facts.c",
            "    if (w->waits++ < WHY_NAMES_SHOWN)\n",
            "    if (false)\n",
            "tests/integration/cli/test_why.py Why.test_job_in_progress",
        ),
        "why does not see that no scheduler consumes": (
            "cli/why.c",
            "    if (control.consumers == 0) {\n        say_schedulers",
            "    if (false) {\n        say_schedulers",
            "tests/integration/cli/test_why.py Why.test_no_scheduler",
        ),
    },
    "Short requests are sent in batches, and slow ones alone": {
        "a batch holds more requests than the agent takes": (
            "scheduler/service_time.c",
            "    batch_limit_update(t, m->batch);\n",
            "    batch_limit_update(t, WIRE_BATCH_MAX);\n",
            f"{DISPATCH} test_capacity_of_the_agent",
        ),
        "an agent that reports no capacity gets batches": (
            "scheduler/service_time.c",
            "    if (batch < t->batch || t->since",
            "    if ((batch > 0 && batch < t->batch) || t->since",
            f"{DISPATCH} test_no_batch_without_a_capacity",
        ),
        "a slow run does not count": (
            "scheduler/service_time.c",
            "    if (t->took_us < took_us)\n",
            "    if (t->took_us < took_us && took_us < 100000)\n",
            f"{DISPATCH} test_slow_run_is_remembered",
        ),
        "a slow run counts for ever": (
            "scheduler/service_time.c",
            "    t->took_us -= t->took_us / SERVICE_TIME_FADES;\n",
            "",
            f"{DISPATCH} test_slow_run_is_remembered",
        ),
        "a slow failure does not count": (
            "scheduler/service_time.c",
            "    if (m->error || m->achieved == DROVER__V1__STATE__STATE_ACTIVE)",
            "    if (m->achieved == DROVER__V1__STATE__STATE_ACTIVE)",
            f"{DISPATCH} test_slow_failure_is_remembered",
        ),
        "a quick failure counts as a short service time": (
            "scheduler/service_time.c",
            "    if (!m->error) /* an action that fails fast need not be fast */\n",
            "    if (true)\n",
            f"{DISPATCH} test_quick_failure_is_no_service_time",
        ),
        "the smallest capacity of an agent is forgotten at once": (
            "scheduler/service_time.c",
            "|| t->since++ >= SERVICE_TIME_KEEPS",
            "|| true",
            f"{DISPATCH} test_capacity_of_the_agent",
        ),
        "one action too many has a service time": (
            "scheduler/service_time.c",
            "    if (HASH_COUNT(s->service_times.known) >= SERVICE_TIMES_MAX) {\n",
            "    if (HASH_COUNT(s->service_times.known) > SERVICE_TIMES_MAX) {\n",
            f"{DISPATCH} test_service_times_that_are_kept",
        ),
        "a batch holds eight requests, whatever their service time": (
            "scheduler/service_time.c",
            "    room = t->took_us ? ",
            "    room = false ? ",
            f"{DISPATCH} test_work_in_a_batch",
        ),
        "a batch holds the same work, whatever the capacity of the agent": (
            "scheduler/service_time.c",
            "most * SERVICE_TIME_BATCH_US / t->took_us",
            "WIRE_BATCH_MAX * SERVICE_TIME_BATCH_US / t->took_us",
            f"{DISPATCH} test_work_by_capacity",
        ),
        "the last request alone decides how many a batch holds": (
            "scheduler/dispatch.c",
            "    b->room = room < b->room ? room : b->room;\n",
            "    b->room = room;\n",
            f"{DISPATCH} test_smallest_capacity_in_a_message",
        ),
        "a later attempt is sent with others": (
            "scheduler/request.c",
            "    return r->attempt == 1 && d->policy",
            "    return d->policy",
            f"{DISPATCH} test_deferred_request_is_sent_alone",
        ),
        "a step that may expire only once is sent with others": (
            "scheduler/request.c",
            "d->policy.maximum_expiries > 1 ? DISPATCH_FIRST",
            "true ? DISPATCH_FIRST",
            f"{DISPATCH} test_last_expiry_is_risked_alone",
        ),
        "a deferred request is lost with the scheduler that has recorded the deferral": (
            lua("record"),
            "    and rec.state == STEP.IN_FLIGHT and rec.attempt == 2\n",
            "    and rec.state == STEP.IN_FLIGHT and rec.attempt == 0\n",
            f"{DISPATCH} test_deferred_request_is_not_lost",
        ),
        "a deferral that was never recorded counts as recorded": (
            lua("record"),
            "    or after_deferral and was_deferred(job, i, op.token)) then",
            "    or after_deferral) then",
            "tests/integration/store/test_functions.py Functions.test_late_deferral",
        ),
        "requests of a batch that are done come again with those that are not": (
            "agent/running.c",
            "(run->delivery->acked || delivery_is_batch(run->delivery))",
            "run->delivery->acked",
            f"{AGENT} test_batch_while_draining",
        ),
        "only one request of a returned batch is recorded": (
            "scheduler/publish.c",
            "    for (unsigned i = 0; i < p->n; i++) {\n        struct publish_part *part",
            "    for (unsigned i = 0; i < p->n && i < 1; i++) {\n        struct publish_part *part",
            f"{DISPATCH} test_returned_batch",
        ),
        "a message at low load waits for others": (
            "common/base/pace.c",
            "bool little = p->added <= p->few && p->added_before <= p->few;",
            "bool little = false;",
            "tests/unit/test_base test_pace_of_low_load",
        ),
        "high load counts as low when a window begins": (
            "common/base/pace.c",
            "p->added <= p->few && p->added_before <= p->few",
            "p->added <= p->few",
            "tests/unit/test_base test_pace_from_high_to_low_load",
        ),
        "a request that got no slot in a batch waits for a timer": (
            lua("record"),
            "and rec.attempt == 1 and can_dispatch(job)\n    and op.retry_after > 0",
            "and false\n    and op.retry_after > 0",
            f"{DISPATCH} test_deferred_request_is_sent_alone",
        ),
        "a deferral with hardly any wait is repeated without end": (
            lua("record"),
            "elseif op.kind == REPORT.DEFERRED and rec.attempt == 1 and can_dispatch(job)",
            "elseif op.kind == REPORT.DEFERRED and can_dispatch(job)",
            f"{DISPATCH} test_deferred_request_is_sent_alone",
        ),
        "a request that is deferred at once is sent although its job is on hold": (
            lua("record"),
            "and rec.attempt == 1 and can_dispatch(job)\n    and op.retry_after > 0",
            "and rec.attempt == 1\n    and op.retry_after > 0",
            f"{DISPATCH} test_deferred_request_on_hold",
        ),
        "an agent reports a capacity beyond its slots": (
            "agent/settings.c",
            "unsigned batch = actor->batch < slots ? actor->batch : slots;",
            "unsigned batch = actor->batch;",
            f"{AGENT} test_capacity_in_replies",
        ),
        "a request in a batch waits for a slot as long as any other": (
            "agent/waiting.c",
            "delivery_is_batch(run->delivery) ? BATCHED_PATIENCE_MS : WAITING_PATIENCE_MS",
            "WAITING_PATIENCE_MS",
            f"{AGENT} test_batch_without_a_slot",
        ),
        "an agent does not see that a batch takes all its slots": (
            "agent/crowding.c",
            "(a->slots.unseen > 0 || (a->slots.hidden > 0 && waits))",
            "a->slots.unseen > 0",
            f"{AGENT} test_batch_that_occupies_all_slots",
        ),
        "a request is given back although short work makes room": (
            "agent/crowding.c",
            "    if (!crowded || (a->slots.freed && a->slots.unseen == 0))\n",
            "    if (!crowded)\n",
            f"{AGENT} test_batch_whose_slots_become_free",
        ),
    },
    "The queues are what rabbitmq.replication says, and those that exist keep their type": {
        "requests are persistent": (
            "scheduler/dispatch.c",
            "    message->cached = true;\n",
            "",
        ),
        "replies are persistent": (
            "agent/replies.c",
            "    m->cached = true;\n",
            "",
            "tests/fault/test_transient.py Transient.test_replies_in_their_queue",
        ),
        "the bus ignores that a message is cached": (
            "common/io/bus/encode.c",
            "    return m->transient || (m->cached",
            "    return m->transient || (false && m->cached",
            "tests/fault/test_transient.py Transient.test_replies_in_their_queue",
        ),
        "quorum queues that exist are refused": (
            "common/io/bus/topology.c",
            "    if (!link->config->as_found || !(quorum || ",
            "    if (!link->config->as_found || !(",
            REPLICATION + "test_queues_that_exist",
        ),
        "queues of both types are declared anew for ever": (
            "common/io/bus/topology.c",
            "        return found->quorum == quorum;\n",
            "        found->kept = false;\n",
            REPLICATION + "test_queues_of_both_types",
        ),
        "an inspection that takes longer than the period is replaced by the next one": (
            "supervisor/supervisor_io.c",
            "    bool can_begin = driver_bus(io->driver) && !io->inspecting;\n",
            "    bool can_begin = driver_bus(io->driver);\n",
            "tests/integration/operation/test_health.py Servers.test_slow_broker",
        ),
        "that quorum queues have no marker is a loss": (
            "supervisor/supervisor_io.c",
            "    bool kept = messages > 0 || !bus_may_lose(driver_bus(io->driver));\n",
            "    bool kept = messages > 0;\n",
            REPLICATION + "test_queues_that_exist",
        ),
        "a type that was chosen gives way to that of the queues": (
            "common/io/bus/topology.c",
            "    if (!link->config->as_found || ",
            "    if (",
            REPLICATION + "test_chosen_quorum",
        ),
        "settings that contradict each other are accepted": (
            "common/io/config/config.c",
            "    return field ? CONFIG_E_INVALID : 0;\n}\n\nstatic int check_together",
            "    return 0;\n}\n\nstatic int check_together",
            "tests/unit/test_config test_replication_contradicted",
        ),
    },
    "What the broker has lost is sent again at once, and nothing is counted": {
        "nothing is sent again": (
            lua("drive"),
            "          send_again(job, i, rec, at)\n",
            "          break\n",
            "tests/fault/test_transient.py Transient.test_requests_in_their_queue",
        ),
        "a loss is recorded in the first partition only": (
            "supervisor/loss.c",
            "    for (uint32_t i = 0; i < s->n; i++)\n"
            "        if (!s->partitions[i].loss_recorded)\n",
            "    for (uint32_t i = 0; i < 1; i++)\n"
            "        if (!s->partitions[i].loss_recorded)\n",
            f"{LOSS} test_marker",
        ),
        "the queue of an actor is declared before its loss is recorded": (
            "scheduler/loss.c",
            "    loss->declares = true;\n",
            "    declare(s, actor);\n",
            f"{LOSSES} test_found",
        ),
        "a loss is recorded in one partition": (
            "scheduler/loss.c",
            "    if (op->partition < s->partitions)\n",
            "    if (op->partition < 1)\n",
            f"{LOSSES} test_found",
        ),
        "what is dispatched until a loss is recorded is sent twice": (
            "scheduler/loss.c",
            "loss->actor, s->now - loss->noticed,",
            "loss->actor, 0,",
            f"{LOSSES} test_store_answers_late",
        ),
        "each report of a loss is recorded": (
            "scheduler/loss.c",
            "    if (loss) {\n        loss->noticed",
            "    if (false) {\n        loss->noticed",
            f"{LOSSES} test_reports_of_several_agents",
        ),
        "of several reports of a loss the first counts": (
            "scheduler/loss.c",
            "    if (loss) {\n        loss->noticed = s->now;\n",
            "    if (loss) {\n",
            f"{LOSSES} test_reports_of_several_agents",
        ),
        "a loss that a scheduler finds waits for reports": (
            "scheduler/loss.c",
            "    item_unref(s, item);\n    loss->due = s->now;\n",
            "    item_unref(s, item);\n",
            f"{LOSSES} test_found",
        ),
        "a report of a loss by an unknown actor counts": (
            "scheduler/on_replies.c",
            "m->requests_lost && !*item->actor && ",
            "m->requests_lost && false && ",
            f"{LOSSES} test_report_of_nobody",
        ),
        "Resend is answered before the loss is recorded": (
            "scheduler/loss.c",
            "    begin(s, loss_new(s, item, m->resend->actor));\n",
            "    struct loss_op *loss = loss_new(s, item, m->resend->actor);\n\n"
            "    answer(s, &loss->op);\n"
            "    begin(s, loss);\n",
            f"{LOSSES} test_resend",
        ),
        "any user may have requests sent again": (
            "scheduler/access.c",
            "COMMAND_RESEND && !is_operator(a, user)",
            "COMMAND_RESEND && false",
            "tests/unit/test_access test_resend",
        ),
        "Resend may name no actor": (
            "common/model/wire_check.c",
            "        return resend_check(m->resend, PATH(NULL, \"resend\"), problem);\n",
            "        return true;\n",
            f"{LOSSES} test_resend_for_no_actor",
        ),
        "a queue that cannot be declared is lost again and again": (
            "common/io/bus/task_queues.c",
            "    int r = refused ? set_state(link, q->asked, ACTOR_REFUSED) : 0;\n",
            "    int r = 0;\n",
            f"{BUS_QUEUES} test_deleted_queue_cannot_be_declared",
        ),
        "messages are held for ever for a loss that is not recorded": (
            "common/io/bus/task_queues.c",
            "    if (list_empty(&q->held))\n        return;\n    if (now",
            "    if (true)\n        return;\n    if (now",
            f"{BUS_QUEUES} test_loss_is_not_recorded",
        ),
        "a queue is left away for ever for a loss that is not recorded": (
            "common/io/bus/consumer.c",
            "    if (!c->link.config->declare || !actors_in(&c->actors, ACTOR_MISSING))\n",
            "    if (true)\n",
            f"{BUS_QUEUES} test_loss_is_not_recorded",
        ),
        "a report is acknowledged for what the scheduler has found": (
            "scheduler/loss.c",
            " && (loss->op.item->handle || !reported))",
            ")",
            f"{LOSSES} test_found_and_reported",
        ),
        "agents may have a loss recorded as often as they like": (
            "scheduler/loss.c",
            "    if (loss->due < earliest)\n",
            "    if (false)\n",
            f"{LOSSES} test_reports_of_several_agents",
        ),
        "a report of a busy actor is not read": (
            "scheduler/on_replies.c",
            "    if (item->body.len < SAYS_SOMETHING || ",
            "    if (",
            f"{LOSSES} test_report_of_a_busy_actor",
        ),
        "an agent has its queue declared before its report is confirmed": (
            "agent/loss.c",
            "    send(a, &report->outgoing);\n}",
            "    send(a, &report->outgoing);\n"
            "    effects_add(a->out, EFFECT_ROLE, 0)->role.what = AGENT_DECLARE;\n"
            "    a->out->items[a->out->n - 1].role.object = report->actor;\n}",
            "tests/unit/test_agent test_loss_is_reported",
        ),
        "the report of a loss is transient": (
            "agent/loss.c",
            "    m->mandatory = true;\n",
            "    m->mandatory = true;\n    m->cached = true;\n",
            "tests/unit/test_agent test_loss_is_reported",
        ),
        "the publisher declares a queue that was deleted at once": (
            "common/io/bus/task_queues.c",
            "missing == TOPOLOGY_QUEUE ? ACTOR_LOST",
            "missing == TOPOLOGY_QUEUE ? ACTOR_ALLOWED",
            f"{BUS_QUEUES} test_task_queue_was_deleted",
        ),
        "a queue of an actor that is not known was deleted": (
            "common/io/bus/topology.c",
            "        return TOPOLOGY_ALL;\n",
            "        return TOPOLOGY_QUEUE;\n",
            f"{BUS_QUEUES} test_consumed_task_queue_is_deleted",
        ),
        "messages to a queue that was deleted stop all others": (
            "common/io/bus/task_queues.c",
            "    return state == ACTOR_LOST || state == ACTOR_MISSING;\n",
            "    return state == ACTOR_LOST;\n",
            f"{BUS_QUEUES} test_task_queue_was_deleted",
        ),
        "an agent makes its deleted queue anew at once": (
            "common/io/bus/consumer.c",
            "        actors_set(&c->actors, actor, ACTOR_LOST))\n",
            "        actors_set(&c->actors, actor, ACTOR_ALLOWED))\n",
            f"{BUS_QUEUES} test_consumed_task_queue_is_deleted",
        ),
        "a process without its queue is up": (
            "common/io/bus/consumer.c",
            " && list_empty(&c->actors);",
            ";",
            f"{BUS_QUEUES} test_task_queue_to_consume_was_deleted",
        ),
        "a queue that is allowed while its connection begins is taken as declared": (
            "common/io/bus/consumer.c",
            "c->link.config->declare ? ACTOR_DECLARED : ACTOR_MISSING);\n",
            "c->link.config->declare ? ACTOR_ALLOWED : ACTOR_MISSING);\n",
            f"{BUS_QUEUES} test_reply_queue_is_deleted",
        ),
        "a deleted queue of replies is no loss": (
            "common/io/bus/consumer.c",
            "    return strcmp(queue->name, WIRE_REPLY_QUEUE) == 0 ? WIRE_ALL_ACTORS : NULL;\n",
            "    return NULL;\n",
            "tests/fault/test_lost_queue.py Queues.test_replies_of_two_schedulers",
        ),
        "a process that may not declare reports each returned message": (
            "common/io/bus/task_queues.c",
            "    if (m->message.actor && !link->config->declare &&\n"
            "        actors_state(&q->actors, m->message.actor) == ACTOR_UNKNOWN)\n",
            "    if (m->message.actor && !link->config->declare)\n",
            f"{BUS_QUEUES} test_loss_without_right_to_declare",
        ),
        "a process that may not declare reports one loss of a queue only": (
            "common/io/bus/publisher.c",
            "    if (accepted && !m->returned)\n"
            "        task_queues_routed(&p->task_queues, &p->link, m);\n",
            "",
            f"{BUS_QUEUES} test_loss_without_right_to_declare",
        ),
        "the age of a loss is ignored": (
            "common/store/lost.lua",
            "now - num(age)",
            "now",
            f"{LOSSES} test_store_answers_late",
        ),
        "an older loss replaces a later one": (
            "common/store/lost.lua",
            "    if old < at or old > now then\n",
            "    if true then\n",
            f"{FUNCTIONS_TEST}test_loss_that_is_recorded_late",
        ),
        "a missing marker costs a connection although queues are of quorum": (
            "common/io/bus/publisher.c",
            "link->config->declare && !link->queues->quorum;\n",
            "link->config->declare;\n",
            REPLICATION + "test_queues_that_exist",
        ),
        "a marker whose queue was deleted is not made anew": (
            "common/io/bus/publisher.c",
            "    if (refused && link->not_found && declares && ",
            "    if (false && ",
            REPLICATION + "test_marker_is_deleted",
        ),
        "the marker is there before the loss is recorded": (
            "supervisor/loss.c",
            "s->now < s->mark_due || !loss_recorded(s))",
            "s->now < s->mark_due)",
            f"{LOSS} test_marker",
        ),
        "a marker is sent over another connection": (
            "supervisor/loss.c",
            "    e->publish.bound = true;\n",
            "",
            f"{LOSS} test_marker",
        ),
        "the bus sends a marker over another connection": (
            "common/io/bus/publisher.c",
            "    drop_bound(p, &p->wire);\n",
            "",
            f"{PUBLISHER} test_bound",
        ),
        "a marker waits for the next connection": (
            "common/io/bus/publisher.c",
            "        drop_bound(p, &p->waiting);\n}",
            "        (void)p;\n}",
            f"{PUBLISHER} test_bound",
        ),
        "a lost connection does not make the marker doubtful": (
            "supervisor/loss.c",
            "    if (s->config.marker)\n        s->memory = MEMORY_UNKNOWN;\n",
            "",
            f"{LOSS} test_marker_of_another_connection",
        ),
        "dispatches expire before it is known what the broker has lost": (
            "supervisor/supervisor.c",
            "    return s->memory == MEMORY_KEPT ? s->lease_factor : FACTOR_UNREAD;\n",
            "    return s->lease_factor;\n",
            f"{LOSS} test_marker",
        ),
        "a store that restarts may forget what the broker has lost": (
            "supervisor/loss.c",
            "    bool recent = s->lost_at > 0 &&",
            "    bool recent = false && s->lost_at > 0 &&",
            f"{LOSS} test_loss_that_the_store_forgets",
        ),
        "a loss that is recorded again counts as a new one": (
            "supervisor/supervisor.c",
            "s->now - s->lost_at, &p->loss);\n",
            "0, &(struct ops_loss){0});\n",
            f"{LOSS} test_loss_is_recorded_as_it_was",
        ),
        "a loss that another supervisor has found is recorded again for a minute": (
            "supervisor/loss.c",
            "#define FORGOTTEN_MS 5000\n",
            "#define FORGOTTEN_MS 60000\n",
            f"{LOSS} test_loss_that_another_one_has_found",
        ),
        "a reconnection forgets when the loss was": (
            "supervisor/loss.c",
            "            if (!s->found_loss || s->now >= s->lost_at + FORGOTTEN_OWN_MS)\n",
            "",
            f"{LOSS} test_loss_is_recorded_as_it_was",
        ),
        "a loss that is recorded again is reported again": (
            "supervisor/loss.c",
            "    s->stats.losses += s->unreported;\n",
            "    s->stats.losses++;\n",
            f"{LOSS} test_loss_that_another_one_has_found",
        ),
        "the store records the time at which a loss is recorded again": (
            lua("lost"),
            "  at = num(at) > 0 and min(num(at), now) or now - num(age)\n",
            "  at = now - num(age)\n",
            FUNCTIONS_TEST + "test_loss_recorded_again",
        ),
        "a dispatch that the deadline cuts short counts as made before each loss": (
            lua("lost"),
            "  if token == rec.token and tonumber(made) > at ",
            "  if false and tonumber(made) > at ",
            FUNCTIONS_TEST + "test_dispatch_after_the_loss_that_the_deadline_cuts_short",
        ),
        "a job that was submitted before is looked at only when it is due": (
            lua("lost"),
            "    call('ZADD', p .. 'due', int(now), id)\n",
            "",
            FUNCTIONS_TEST + "test_lost_dispatches",
        ),
        "a dispatch that was made since is sent again": (
            lua("lost"),
            "  return till - given <= at or till > job.now + given\n",
            "  return true\n",
            FUNCTIONS_TEST + "test_lost_dispatches",
        ),
        "a loss after the clock was set back is not seen": (
            lua("lost"),
            "  return till - given <= at or till > job.now + given\n",
            "  return till - given <= at\n",
            FUNCTIONS_TEST + "test_loss_after_dispatches_of_before_the_clock_was_set_back",
        ),
        "the scan of a large job passes over what was lost": (
            lua("lost"),
            "  call('HDEL', key, 'scan') -- it has passed steps that were not lost then\n",
            "",
            FUNCTIONS_TEST + "test_loss_during_a_scan",
        ),
        "what the broker has lost expires, and nothing is sent again": (
            lua("lost"),
            "  if at == 0 or cut_by_deadline(job, rec)",
            "  if true or cut_by_deadline(job, rec)",
        ),
        "a dispatch is sent again for ever": (
            lua("lost"),
            " or again == rec.token .. ' ' .. int(at) then\n",
            " then\n",
            FUNCTIONS_TEST + "test_lost_dispatch_before_its_deadline",
        ),
        "a dispatch whose agent sends heartbeats is sent again": (
            lua("lost"),
            "  return at, limit and t.heartbeat > 0 and",
            "  return at, false and",
            FUNCTIONS_TEST + "test_lost_dispatch_with_heartbeats",
        ),
        "a lost dispatch expires": (
            lua("expire"),
            "    if known_losses then\n",
            "    if known_losses and rec.till > job.now then\n",
            FUNCTIONS_TEST + "test_lost_dispatch_with_heartbeats",
        ),
        "what was sent again is given up while the job is on hold": (
            lua("dispatch"),
            "      and (can_dispatch(job) or was_sent_again(job, i, rec)) then\n",
            "      and can_dispatch(job) then\n",
            FUNCTIONS_TEST + "test_request_that_is_sent_again_is_not_given_up",
        ),
        "what was sent again and waits is given up": (
            lua("record"),
            "      if wait > 0 and (wanted or was_sent_again(job, i, rec)) then\n",
            "      if wait > 0 and wanted then\n",
            FUNCTIONS_TEST + "test_request_that_is_sent_again_is_not_given_up",
        ),
        "a copy that comes back ends the other": (
            lua("record"),
            "(progress_of(job.p, job.id, i, rec.token) or was_sent_again(job, i, rec)) then\n",
            "progress_of(job.p, job.id, i, rec.token) then\n",
            FUNCTIONS_TEST + "test_request_that_is_sent_again_is_not_given_up",
        ),
        "the marker ends a record that is made again": (
            "supervisor/loss.c",
            "    if (there && !s->forgotten) {\n",
            "    if (there) {\n",
            f"{LOSS} test_marker_while_it_is_recorded_again",
        ),
        "evidence of before the loss counts": (
            lua("lost"),
            "    call('HDEL', data, 'p' .. name, 't' .. name)\n",
            "",
            FUNCTIONS_TEST + "test_lost_dispatch_with_heartbeats",
        ),
        "a dispatch that is sent again has no more time": (
            lua("lost"),
            "  local wait = set_in_flight(job, i, rec, t, time_left(job, rec.asked))\n",
            "  local wait = wait_of(t, rec)\n",
            FUNCTIONS_TEST + "test_lost_dispatches",
        ),
        "a loss of one actor has the requests of others sent again": (
            lua("lost"),
            "  local at = max(known[ALL] or 0, known[t.actor] or 0)\n",
            "  local at = 0\n  for _, one in pairs(known) do\n    at = max(at, one)\n  end\n",
            FUNCTIONS_TEST + "test_lost_dispatches",
        ),
        "a dispatch is sent again after its deadline": (
            lua("lost"),
            "  if at == 0 or cut_by_deadline(job, rec) or not",
            "  if at == 0 or not",
            FUNCTIONS_TEST + "test_lost_dispatch_past_its_deadline",
        ),
        "jobs beyond the first call are not looked at": (
            lua("lost"),
            "  return {int(at), #list < 2 * JOBS and '' or",
            "  return {int(at), true and '' or",
            FUNCTIONS_TEST + "test_loss_of_many_jobs",
        ),
    },
    "--where: the command goes to those jobs only, at --rps, and to none with --dry-run": {
        "a bulk dry run sends commands": (
            "cli/bulk.c",
            "    if (b->args->dry_run)\n        print_listed(b, job);\n",
            "    if (false)\n        print_listed(b, job);\n",
            "tests/integration/cli/test_bulk.py Bulk.test_dry_run",
        ),
        "bulk ignores --rps": (
            "cli/bulk.c",
            "    next = b->began + (int64_t)b->seen * 1000 / rps;\n",
            "    next = b->began + rps * 0;\n",
            "tests/integration/cli/test_bulk.py Bulk.test_paced",
        ),
        "a job that has turned since it was listed gets the command": (
            "cli/steering.c",
            "if (r == 0 && !stands)",
            "if (false && !stands)",
            "tests/integration/cli/test_bulk.py Bulk.test_jobs_that_change_meanwhile",
        ),
    },
}  # fmt: skip
