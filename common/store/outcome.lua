-- SPDX-License-Identifier: Apache-2.0
--
-- The failures that decide a job's direction or its end, notifications and alerts about the job,
-- and the end of a turn.

-- Increases the watermark of the partition, for a created job or an ended turn, before a client
-- learns of that job or end.
function move_watermark(job)
  job.watermark = call('HINCRBY', job.p .. 'mark', 'count', 1)
end

-- Puts a notification about the last entry of the history into the outbox, with a copy of the job's
-- present state, because the job may have gone on before a scheduler publishes the notification.
local function add_notification(job, outcome, reason, steps)
  call('HSET', job.p .. 'data:' .. job.id, 's' .. job.seq,
    concat({outcome, job.phase, int(job.turn), int(job.now), int(max(min(job.open, job.n), 0)),
      reason, match(steps, '^[%d ]*')}, ' '))
  call('ZADD', job.p .. 'owed', int(job.now + ASK_AGAIN), job.id .. ' ' .. job.seq)
  count_up(job.key, 'owes', 1)
end

-- The class of the error in the report that this call records, as one word; `reason` if there is no
-- such error.
function class_of(job, reason)
  if job.class and job.class ~= '' then
    return sub(job.class:gsub('[^%w_.-]', '_'), 1, 64)
  end
  return reason
end

-- Sets why the job needs a person, as "step actor class".
function set_attention_cause(job, i, asked, class)
  local step = i and step_of(job.def, i).name or ''
  local actor = i and terms_of(job.def, i, asked).actor or ''
  job.attention_cause = (step == '' and '-' or step) .. ' ' .. (actor == '' and '-' or actor) .. ' '
    .. class
end

-- The varint at position `at` of a protobuf message, and the position after it; nil if there is
-- none.
local function number_at(text, at)
  local value, factor, b = 0, 1, nil
  repeat
    b = at and text:byte(at)
    if not b then
      return nil
    end
    value, factor, at = value + b % 128 * factor, factor * 128, at + 1
  until b < 128
  return value, at
end

-- An encoded Error without its details, which may be long; '' if the text is no Error.
function deciding.without_details(text)
  local kept, at = '', 1
  while at <= #text do
    local tag, from = number_at(text, at)
    local value, after = number_at(text, from)
    if not value or tag % 8 ~= 0 and tag % 8 ~= 2 then
      return ''
    end
    after = tag % 8 == 2 and after + value or after
    kept = tag == 26 and kept or kept .. sub(text, at, after - 1)
    at = after
  end
  return kept
end

-- The deciding failures of the way forward and of the way back, as stored; '' for none.
local function decisions(job)
  return match(job.changed.failure or call('HGET', job.key, 'failure') or '', '^([^|]*)|?(.*)$')
end

local function set_decisions(job, forward, back)
  job.changed.failure = forward .. (back ~= '' and '|' .. back or '')
end

-- Records that a failure of step i (nil: of no step) decides that the job does not reach its
-- desired state, on the way forward (asked: ACTIVE) or back (DISABLED). Only the first failure of
-- each way is kept. The job's field is "name asked reason number class", then "|" and the same for
-- the way back; the job's data keeps the error of the step.
function deciding.record_failure(job, i, asked, reason)
  local forward, back = decisions(job)
  if (asked == STATE.ACTIVE and forward or asked == STATE.DISABLED and back) ~= '' then
    return
  end
  local data, name = job.p .. 'data:' .. job.id, i and step_of(job.def, i).name or ''
  local text = i and call('HGET', data, 'e' .. int(i))
  local this = concat({name == '' and '-' or name, asked, reason, i and int(i) or '-',
    class_of(job, reason)}, ' ')
  set_decisions(job, asked == STATE.ACTIVE and this or forward,
    asked == STATE.DISABLED and this or back)
  call('HSET', data, asked == STATE.ACTIVE and 'failure' or 'failure_back',
    text and deciding.without_details(text) or '')
  count_up(job.key, 'failures', 1)
end

-- The last deciding failure, and its error; '' and '' if there is none.
function deciding.last(job)
  local forward, back = decisions(job)
  if forward == '' and back == '' then
    return '', ''
  end
  local data = job.p .. 'data:' .. job.id
  return back ~= '' and back or forward,
    call('HGET', data, back ~= '' and 'failure_back' or 'failure') or ''
end

-- Forgets the deciding failures of the present direction, and of the way back in any case, because
-- the job goes on; with `all`, those of both directions.
function deciding.reset(job, all)
  local forward = decisions(job)
  set_decisions(job, not all and job.desired == STATE.DISABLED and forward or '', '')
end

-- Adds an alert to the answer. i: the step, or NO_STEP. asked: what the dispatch that the alert is
-- about has asked for; ACTIVE if left out.
function alert(job, i, reason, asked)
  job.alerts[#job.alerts + 1]
    = {i = i, reason = reason, asked = asked or STATE.ACTIVE, seq = job.seq}
end

-- Adds an alert about the last entry of the history, and puts it into the outbox, where it stays
-- until the broker has confirmed it. A job that was acknowledged needs attention again.
function alert_job(job, i, reason, asked)
  if job.acknowledged then
    set(job, 'acknowledged', '')
    job.acknowledged = false
  end
  alert(job, i, reason, asked)
  add_notification(job, 'ALERT', reason,
    i == NO_STEP and '' or int(i) .. (asked == STATE.DISABLED and ' 1' or ' 0'))
end

-- Whether an end needs a person: no client or person has asked for it, and the workflow does not
-- say that it is ordinary.
local function needs_attention(job, outcome, reason)
  if outcome == 'COMPENSATED' and reason == 'FAILURE' then
    return match(call('HGET', job.def.key, 'job') or '', '^%u %d+ ([01]) ') ~= '1'
  end
  return outcome == 'FAILED' or outcome == 'COMPENSATION_FAILED'
end

-- Ends the turn, with its outcome and reason.
function settle(job, outcome, reason)
  change.drop(job)
  local reached = outcome == 'SUCCEEDED' or outcome == 'COMPENSATED' and reason == 'REQUESTED'
  if outcome == 'FAILED' or outcome == 'COMPENSATION_FAILED' then
    -- If a person has retried another step since, deciding.reset() has deleted the failure.
    deciding.record_failure(job, tonumber(match(job.failed, '^%d+')),
      outcome == 'FAILED' and STATE.ACTIVE or STATE.DISABLED, 'PERMANENT')
  end
  set(job, 'outcome', outcome)
  if reason ~= '' then
    set(job, 'reason', reason) -- else it is empty: it was never set, or reopen() has emptied it
  end
  set(job, 'phase', reached and 'PROCESSED' or 'ERROR')
  if job.hold ~= '' and outcome ~= 'KILLED' then
    set(job, 'hold', '')
  end
  set(job, 'current', job.open == 0 and job.desired or STATE.UNKNOWN)
  if job.next_try > 0 then
    set(job, 'next_try', 0)
  end
  if needs_attention(job, outcome, reason) then
    local asked, number, class = match(deciding.last(job), '^%S+ (%u) %S+ (%S+) (%S+)$')
    number = tonumber(number)
    set_attention_cause(job, number, asked, class or reason)
    job.attention_for_end = true
    add_history(job, 'attention', outcome)
    alert_job(job, number or NO_STEP, outcome, asked)
  end
  add_history(job, 'settled', outcome, reason)
  job.settled = job.seq
  move_watermark(job)
  add_notification(job, outcome, reason, job.failed)
  if outcome ~= 'SUCCEEDED' then -- for the event of this end: the job may turn before it is sent
    local why, failure = deciding.last(job)
    if why ~= '' then
      local data, seq = job.p .. 'data:' .. job.id, int(job.seq)
      call('HSET', data, 'w' .. seq, why, 'v' .. seq, failure)
    end
  end
  call('ZREM', job.p .. 'due', job.id)
  call('ZREM', job.p .. 'open', job.id)
  call('ZADD', job.p .. 'settled', int(job.now), job.id)
  if job.phase == 'ERROR' then
    call('ZADD', job.p .. 'failed', call('HGET', job.key, 'created') or int(job.now), job.id)
  end
end

-- Lets a job that has ended go on.
function reopen(job)
  set(job, 'outcome', '')
  set(job, 'reason', '')
  set(job, 'phase', 'PROCESSING')
  job.attention_for_end = false
  call('ZREM', job.p .. 'settled', job.id)
  call('ZREM', job.p .. 'failed', job.id)
  call('ZADD', job.p .. 'open', call('HGET', job.key, 'created'), job.id)
  job.due, job.due_changed = job.now + SWEEP_BOUND, true
end
