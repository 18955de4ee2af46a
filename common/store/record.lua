-- SPDX-License-Identifier: Apache-2.0
--
-- The store functions `record` (replies, and requests that came back or that the scheduler could
-- not deliver) and `unsent` (whether requests that wait in the scheduler are still wanted).

local EARLY_RETURN = 1000        -- ms; a request back this long before its wait ends was discarded
local AT_ONCE = 10               -- ms; for a shorter deferral of the first attempt no timer is set

-- The backoff after the n-th failure: backoff_initial × backoff_factor^(n-1), at most backoff_max,
-- plus jitter.
local function backoff(t, failures, fraction)
  local wait = min(t.backoff_initial * t.backoff_factor ^ (max(failures, 1) - 1), t.backoff_max)
  return floor(wait * (1 + t.jitter * fraction))
end

local function back_off(job, i, rec, wait)
  set_state(job, i, rec, STEP.BACKING_OFF, job.now + floor(wait))
end

local function on_success(job, i, rec, op)
  rec.current, rec.unstarted = rec.asked, 0
  local name = int(i)
  set_data(job, 'r' .. name, rec.asked == STATE.ACTIVE and op.result or '')
  remove_parked(job, i)
  add_history(job, rec.asked == STATE.ACTIVE and 'done' or 'undone', name, int(rec.attempt),
    token_id(i, rec.token), op.agent)
  come_to_rest(job, i, rec, op.nonce)
end

-- Whether an agent may have begun a dispatch, by the kind of the report about it:
--   UNSTARTED    yes: an agent that had the request may have died, and the broker offered it again
--                for the rest of its wait
--   UNSENT       yes: another scheduler may have sent a copy of the request
--   UNROUTABLE   no: no queue took the request; yes if a copy was sent (c<step>)
--   UNSENDABLE   no: the request is too large; yes if a copy was sent
--   others       yes
local function dispatch_may_be_begun(job, i, rec, op)
  return op.kind ~= REPORT.UNROUTABLE and op.kind ~= REPORT.UNSENDABLE
    or call('HGET', job.p .. 'data:' .. job.id, 'c' .. i) == rec.token
end

local function on_failure(job, i, rec, op)
  job.class = op.error_class -- see class_of()
  local step, t = step_of(job.def, i), terms_of(job.def, i, rec.asked)
  if not dispatch_may_be_begun(job, i, rec, op) then -- the current state of the step stays
    rec.unstarted = rec.unstarted + 1
  else
    local proven = op.effect == PROVEN.NO_EFFECT and rec.asked == STATE.ACTIVE and step.waived
    rec.current, rec.unstarted = proven and STATE.DISABLED or STATE.UNKNOWN, 0
  end
  call('HSET', job.p .. 'data:' .. job.id, 'e' .. i, op.error)
  if rec.expiries >= t.expiries then
    rec.expiries = 0 -- an agent has answered: the next expiry alone must not park the step again
  end
  if op.kind == REPORT.DEFERRED then
    add_history(job, 'deferred', i, rec.attempt, token_id(i, rec.token), op.agent)
  else
    rec.failures = rec.failures + 1
    add_history(job, 'failed', i, rec.attempt, token_id(i, rec.token), op.agent)
  end
  -- The second condition holds, for example, if an undo is UNSENDABLE and the job goes forward
  -- again: the step is still ACTIVE, as wanted.
  if is_obsolete(job, rec) or rec.current == job.desired then
    come_to_rest(job, i, rec, op.nonce)
  elseif op.kind == REPORT.DEFERRED and rec.attempt == 1 and can_dispatch(job)
    and op.retry_after > 0 and op.retry_after < AT_ONCE then
    -- Dispatched by this call, because timers cannot be that short; but only after the first
    -- attempt, or this could go on for ever.
    dispatch(job, i, rec, rec.asked, op.nonce)
  elseif op.kind == REPORT.DEFERRED then
    local wait = op.retry_after > 0 and op.retry_after or t.backoff_initial
    back_off(job, i, rec, wait * (1 + t.jitter * op.fraction))
  elseif op.kind == REPORT.PERMANENT or op.kind == REPORT.UNSENDABLE
    or t.non_retryable[op.error_class] then
    give_up(job, i, rec, t.on_permanent, 'PERMANENT', 0)
  elseif rec.failures >= t.attempts then
    give_up(job, i, rec, t.on_exhausted, 'EXHAUSTED', t.park > 0 and job.now + t.park or 0)
  else
    back_off(job, i, rec, max(backoff(t, rec.failures, op.fraction), op.retry_after))
  end
end

-- Kinds of reports about requests that came back or were not sent; except UNSENDABLE, which counts
-- as a failure.
local UNSTARTED = {[REPORT.UNSTARTED] = true, [REPORT.REJECTED] = true, [REPORT.UNSENT] = true,
  [REPORT.UNROUTABLE] = true, [REPORT.REFUSED] = true}

-- Whether a request came back clearly before its wait was over. Then the broker or an agent has
-- discarded it, and would discard it again at once. If the job has a deadline, but one too far away
-- to have shortened the wait or the lease of the dispatch, both are those of its terms. Otherwise
-- wait_left() computes the rest of the wait; it allows for a shortened wait and lease.
local function is_thrown_back(job, i, rec, t)
  local wait = wait_of(t, {unstarted = rec.unstarted - 1})
  if time_left(job, rec.asked)
    and job.complete_by - (rec.till - wait - t.lock) >= max(wait, t.lock) then
    return rec.till - t.lock - job.now > EARLY_RETURN
  end
  return wait_left(job, i, rec) > EARLY_RETURN
end

-- Records that a request came back or was not sent. No failure and no expiry is counted; only
-- `unstarted` increases. If no agent can have begun the request, the current state of the step
-- stays.
local function on_unstarted(job, i, rec, op)
  local t = terms_of(job.def, i, rec.asked)
  rec.unstarted = rec.unstarted + 1
  -- The event `unstarted` says that the request came back, was refused or was not sent; an agent
  -- may have begun it all the same.
  local begun = dispatch_may_be_begun(job, i, rec, op)
  add_history(job, begun and 'unstarted' or 'unroutable', i, rec.attempt, token_id(i, rec.token))
  if op.kind ~= REPORT.UNSENT then
    local why = op.kind == REPORT.UNSTARTED and 'NO_AGENT'
      or op.kind == REPORT.REJECTED and 'REJECTED' or 'UNROUTABLE'
    alert(job, i, why, rec.asked)
  end
  -- If the expiries are used up this was the one dispatch after a silence interval. No agent is
  -- known to have begun it, so the next dispatch takes its place.
  rec.token = rec.expiries >= t.expiries and SILENCE_OVER or '-'
  if begun then
    rec.current = STATE.UNKNOWN
  end
  if op.kind == REPORT.REJECTED then
    call('HSET', job.key, 'b' .. i, '1')
  end
  local thrown = op.kind == REPORT.REJECTED or begun and is_thrown_back(job, i, rec, t)
  if not can_dispatch(job) or rec.current == job.desired or next_asked(job, rec) ~= rec.asked then
    come_to_rest(job, i, rec, op.nonce)
  elseif begun and not thrown then
    dispatch(job, i, rec, rec.asked, op.nonce)
  else
    local wait = min(t.backoff_initial * 2 ^ (rec.unstarted - 1), WAIT_CAP)
    back_off(job, i, rec, wait * (1 + t.jitter * op.fraction))
  end
end

-- Stores how many reports about this step came too late to be recorded, and the last of them.
local function keep_late(job, i, op)
  local field, data = 'l' .. i, job.p .. 'data:' .. job.id
  local count = tonumber(match(call('HGET', data, field) or '', '^%d+') or '0')
  call('HSET', data, field, concat({int(count + 1), int(job.now), op.kind, token_id(i, op.token),
    op.error_class}, ' '))
end

-- Whether the history says that the first attempt of a step, under this token, was deferred. The
-- call that recorded that may have dispatched the second attempt at once.
local function was_deferred(job, i, token)
  local words = ' deferred ' .. int(i) .. ' 1 ' .. token_id(i, token)
  for _, entry in ipairs(call('LRANGE', job.p .. 'hist:' .. job.id, -HISTORY_MIN, -1)) do
    if entry:find(words, 1, true) then
      return true
    end
  end
  return false
end

-- Withdraws a request that has not left the scheduler: no agent can have begun it.
local function withdraw_unsent(job, i, rec, nonce)
  add_history(job, 'unsent', i, rec.attempt, token_id(i, rec.token))
  rec.unstarted, rec.token = rec.unstarted + 1, '-'
  come_to_rest(job, i, rec, nonce)
end

-- unsent -> <transition>
-- Asks whether requests that were not sent are still wanted, and withdraws the others. The requests
-- of these tokens have waited in the scheduler for more than a second, because the broker read
-- nothing, or too many publishes were unconfirmed. The answer has the requests that are still
-- wanted; the scheduler sends them. A request of which a copy was sent is never withdrawn, because
-- the other one may be in a queue; LockedUntil decides. A token that is not in flight is ignored.
-- number: ascending in the calls of a scheduler. A call on a connection that was given up may be
-- carried out late, after the call that repeats it was answered. Its lower number shows that, so it
-- withdraws no request that a later call has found wanted.
--   DRIVEN
--   UNCHANGED     the job has ended
--   UNKNOWN_JOB
function functions.unsent(p, job_id, nonce, by, number, list, first)
  local now, out = now_ms(), {}
  local job = load(p, job_id, now, '0')
  if not job or finished(job) then
    return only_code(job and 'UNCHANGED' or 'UNKNOWN_JOB', now)
  end
  for k = first, #list do
    local token = list[k]
    local i = tonumber(match(token, '^(%d+)%.[%w_-]+$'))
    local text = i and i < job.n and call('HGET', job.key, int(i))
    local rec = text and record_of(job, i, text)
    if rec and rec.state == STEP.IN_FLIGHT and rec.token == token then
      local copied, known = unpack(call('HMGET', p .. 'data:' .. job.id, 'c' .. i, 'u' .. i))
      copied = copied == token
      local known_token, known_number = match(known or '', '^(%S+) (%d+)$')
      local is_late = known_token == token and tonumber(known_number) >= tonumber(number)
      local wait = wait_left(job, i, rec)
      local wanted = can_dispatch(job) and not is_obsolete(job, rec)
      if wait > 0 and (wanted or was_sent_again(job, i, rec)) then
        job.dispatched[#job.dispatched + 1] = {i = i, rec = rec, wait = wait, again = copied}
        call('HSET', p .. 'data:' .. job.id, 'u' .. i,
          token .. ' ' .. (is_late and known_number or number))
      elseif not copied and not is_late then
        withdraw_unsent(job, i, rec, nonce)
      end
    end
  end
  drive_on(job, nonce)
  save(job, by)
  put_transition(out, 'DRIVEN', job)
  return out
end

-- Answers a report whose token is not that of the step's dispatch, or whose job has ended. If the
-- token of the step was made from the nonce of this call, the call was carried out before, and its
-- answer was lost.
local function on_other_token(job, i, rec, op, out)
  local after_deferral = op.kind == REPORT.DEFERRED
    and op.retry_after > 0 and op.retry_after < AT_ONCE
    and rec.state == STEP.IN_FLIGHT and rec.attempt == 2
  if op.redelivered == '1' and (rec.token == make_token(i, op.nonce)
    or after_deferral and was_deferred(job, i, op.token)) then
    add_in_flight(job, {i})
    put_transition(out, 'ALREADY', job)
    return
  end
  if not is_other_actor(job, i, rec, op.actor) then
    keep_late(job, i, op)
  end
  put_code(out, 'STALE', job.now)
end

-- Answers a report that was recorded before.
local function on_repetition(job, i, op, out)
  if op.redelivered == '1' then
    add_in_flight_after(job, i)
  end
  job.settled = finished(job) and op.redelivered == '1' and job.seq or 0
  put_transition(out, 'ALREADY', job)
end

-- Why a report about a step in flight is refused, and whether an alert is raised for that. nil: it
-- is not refused.
local function refusal(job, i, rec, op)
  if op.step ~= '' and is_other_step(job.def, i, op.step) then
    return 'OTHER_STEP', true -- the agent has mixed two requests up
  elseif is_other_actor(job, i, rec, op.actor) then
    return 'OTHER_ACTOR', true
  elseif rec.asked == STATE.ACTIVE and job.bytes + #op.result > DATA_MAX then
    return 'DATA_FULL'
  elseif (op.kind == REPORT.UNSTARTED or op.kind == REPORT.REJECTED)
    and (progress_of(job.p, job.id, i, rec.token) or was_sent_again(job, i, rec)) then
    -- the agent died, lost its connection or rejected it, or has another copy: LockedUntil decides
    return 'BEGUN'
  end
end

local function refuse(job, i, rec, why, is_alert, out)
  if is_alert then
    alert(job, i, why, rec.asked)
    put_transition(out, why, job)
  else
    put_code(out, why, job.now)
  end
end

-- Changes the step as the report says.
local function apply(job, i, rec, op)
  local unserved, asked = rec.unstarted > 0 and op.kind ~= REPORT.UNSENDABLE, rec.asked
  if UNSTARTED[op.kind] then
    on_unstarted(job, i, rec, op)
    unserved = false
  elseif op.kind == rec.asked then -- REPORT and STATE have the same letters for this
    on_success(job, i, rec, op)
  else
    on_failure(job, i, rec, op)
  end
  if unserved then
    -- Not published: the scheduler ends the alert causes of the actor, so that the next outage is a
    -- new one.
    alert(job, i, 'SERVED', asked)
  end
end

local function record_one(p, now, by, op, budget, out)
  local i = num(match(op.token, '^(%d+)%.[%w_-]+$'))
  local job = i and load(p, op.job_id, now, int(i), budget)
  if not job or i >= job.n or not job.step_text then
    local known = job or not i and call('EXISTS', p .. 'job:' .. op.job_id) == 1
    put_code(out, known and 'STALE' or 'UNKNOWN_JOB', now)
    return
  end
  local rec = record_of(job, i, job.step_text)
  if rec.token ~= op.token or rec.state == STEP.IN_FLIGHT and finished(job) then
    on_other_token(job, i, rec, op, out)
    return
  elseif rec.state ~= STEP.IN_FLIGHT then
    on_repetition(job, i, op, out)
    return
  end
  local why, is_alert = refusal(job, i, rec, op)
  if why then
    refuse(job, i, rec, why, is_alert, out)
    return
  end
  apply(job, i, rec, op)
  drive_on(job, op.nonce)
  save(job, by)
  put_transition(out, 'RECORDED', job)
end

-- record -> <transition>...
-- Records reports: replies, and requests that came back or could not be delivered. The answer has a
-- transition for each of them, in the same order. by: the calling scheduler. Values of a report:
--   kind       a letter REPORT
--   fraction   of the jitter, in millionths
--   effect     PROVEN.NO_EFFECT: it is proven that no run under this key has taken effect, or ever
--              will; else ''
--   step       the name that the reply gives; '' for none
--   actor      whose agents have sent the reply, as the broker says; '' if it does not
--   agent      the name that the agent gives itself; '' for none
-- Codes:
--   RECORDED
--   ALREADY       the report was recorded before. With redelivered = 1 (the broker has delivered
--                 the message again, or the scheduler repeats the call) the answer has the
--                 requests that followed the report and are in flight
--   STALE         the token is not valid any more
--   UNKNOWN_JOB
-- The report is refused, and nothing is recorded, with these codes:
--   DATA_FULL     the job has no room for the result
--   BEGUN         a request came back that an agent had begun
--   OTHER_STEP    the reply names another step than its token
--   OTHER_ACTOR   the reply came from the agents of another actor
function functions.record(p, by, list, first)
  local now, out, budget = now_ms(), {}, {left = BUDGET}
  for _, report in each.report(list, first) do
    report.fraction = tonumber(report.fraction) / 1000000
    report.retry_after = num(report.retry_after)
    if report.agent == '' then
      report.agent = nil
    end
    record_one(p, now, by, report, budget, out)
  end
  return out
end
