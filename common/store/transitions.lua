-- SPDX-License-Identifier: Apache-2.0
--
-- Transitions of steps and jobs: what the store does when a step comes to rest, is parked or fails
-- for good, and when a job turns.

local FAILED_BYTES = 1000        -- limit of the list of steps that have failed for good

-- Whether WALK.TURN has counted step i already; true if no such walk is under way. Until then a
-- step that comes to rest is not dispatched, and changes neither `open` nor the join counters of
-- other steps, because the walk will count it.
function walk_has_passed(job, i)
  local k = 1
  while job.cursor[k] and job.cursor[k].from == WALK.ENDING do
    k = k + 1
  end
  local walk = job.cursor[k]
  return not walk or walk.from ~= WALK.TURN or i < walk.offset or i == walk.offset and walk.edge > 0
end

-- Passes over a step that is to be undone and has no revert. Return: whether it is such a step.
function pass_over(job, i, rec)
  if next_asked(job, rec) == STATE.ACTIVE or step_of(job.def, i).has_revert then
    return false
  end
  rec.current = STATE.DISABLED
  job.records[i] = rec
  add_history(job, 'skipped', i)
  return true
end

local function add_piece(job, i)
  if n_next(job, step_of(job.def, i)) > 0 then
    job.cursor[#job.cursor + 1] = {from = i, offset = 0, edge = 0}
  end
end

-- Stops counting a step as parked, see add_parked().
function remove_parked(job, i)
  if job.parked > 0 and call('HGET', job.key, 'k' .. i) == int(job.since) then
    call('HDEL', job.key, 'k' .. i)
    set(job, 'parked', job.parked - 1)
  end
end

-- Records that a step is where the job wants it: each step after it has one less to wait for.
local function reach_desired(job, i)
  job.open = job.open - 1
  add_piece(job, i)
end

-- Dispatches a step that waits for nothing, or passes over it.
function begin(job, i, rec, nonce)
  if not can_dispatch(job) then
    return -- the walk after a hold visits every step
  elseif pass_over(job, i, rec) and job.desired == STATE.DISABLED then
    reach_desired(job, i)
  else
    dispatch(job, i, rec, next_asked(job, rec), nonce)
  end
end

-- Brings a step to rest, because its dispatch has ended or its timer is over or cancelled. Then
-- counts it if it is where the job wants it, or dispatches it if it waits for nothing.
function come_to_rest(job, i, rec, nonce)
  job.records[i] = rec
  record_of(job, i)
  set_state(job, i, rec, STEP.AT_REST, 0)
  if not walk_has_passed(job, i) then
    return
  elseif rec.current == job.desired then
    reach_desired(job, i)
  elseif rec.waiting == 0 then
    begin(job, i, rec, nonce)
  end
end

-- Counts a step as parked until it succeeds or a person restarts it, even while it is being tried
-- again. Steps that were parked before the job was turned do not count. Return: whether the step
-- did not count before.
function add_parked(job, i)
  local since = int(job.since)
  if call('HGET', job.key, 'k' .. i) == since then
    return false
  end
  call('HSET', job.key, 'k' .. i, since)
  set(job, 'parked', job.parked + 1)
  return true
end

-- Parks a step. If the step counts as parked already, because it was parked before and got another
-- attempt, no new alert is raised, unless that was the last attempt (till = 0).
function park(job, i, rec, reason, till)
  set_attention_cause(job, i, rec.asked, class_of(job, reason))
  local is_new = add_parked(job, i)
  set_state(job, i, rec, STEP.PARKED, till)
  add_history(job, 'parked', i, reason)
  if is_new or till == 0 then
    alert_job(job, i, 'PARKED', rec.asked)
  end
end

-- Whether the job was accepted while its definition had neither a silence interval nor a wait
-- between passes, because an earlier build had stored it. Such a job does without them.
function is_older_job(job)
  local renewed = tonumber(call('HGET', job.def.key, 'renewed') or '')
  return renewed and tonumber(call('HGET', job.key, 'created')) < renewed
end

-- When a step that was parked after expiries is tried again, by one dispatch: after its silence
-- interval. Each further expiry doubles the interval, to a day at most, or to the configured
-- interval if that is longer. 0: never.
function silence_ends(job, t, rec)
  if t.silence == 0 or is_older_job(job) then
    return 0
  end
  return job.now + min(t.silence * 2 ^ max(rec.expiries - t.expiries, 0), max(t.silence, DAY))
end

-- Why the attempts of the step's work are used up, and the time of the next attempt in spite of
-- that (0: none). nil if they are not used up.
function why_used_up(job, i, rec)
  local t = terms_of(job.def, i, rec.asked)
  if rec.expiries >= t.expiries then
    return 'DEATHS', silence_ends(job, t, rec)
  elseif rec.failures >= t.attempts then
    return 'EXHAUSTED', t.park > 0 and job.now + t.park or 0
  end
end

-- Sets how many forward actions, and how many undos, have failed for good.
function set_failed_counts(job, to_do, to_undo)
  job.failed_forward, job.failed_undo = to_do, to_undo
  job.changed.stuck = int(to_do) .. ' ' .. int(to_undo)
end

local function count_failed(job, rec, n)
  if rec.asked == STATE.ACTIVE then
    set_failed_counts(job, job.failed_forward + n, job.failed_undo)
  else
    set_failed_counts(job, job.failed_forward, job.failed_undo + n)
  end
end

-- If the job goes forward: applies its deadline, unless the deadline has passed already. What is
-- sent after it has passed is not limited by it, in whatever turn: a bound once set never rises.
function apply_deadline(job)
  if job.desired == STATE.ACTIVE and job.complete_by > job.now then
    lower_due(job, job.complete_by)
  elseif job.desired == STATE.ACTIVE and job.complete_by > 0 and not job.deadline_turn then
    deadline.mark_passed(job, job.turn - 1) -- it limits nothing in this turn
  end
end

-- Has WALK.TURN count every step anew, and dispatch each step that waits for nothing. Dispatches
-- in flight are left alone.
function count_anew(job)
  set(job, 'epoch', job.turn)
  job.open = job.n
  job.cursor = {{from = WALK.TURN, offset = 0, edge = 0}}
end

-- Turns the job. Dispatches in flight are left alone: they are answered, or expire.
function turn(job, desired, cause, ...)
  if finished(job) then
    reopen(job)
  end
  set(job, 'turn', job.turn + 1)
  set(job, 'since', job.turn)
  if job.parked > 0 then
    set(job, 'parked', 0)
  end
  set(job, 'desired', desired)
  set(job, 'cause', cause)
  set(job, 'ending', '')
  set(job, 'failed', '')
  if job.next_try > 0 then
    set(job, 'next_try', 0)
  end
  set(job, 'current', STATE.UNKNOWN)
  if cause ~= 'FAILURE' then
    deciding.reset(job, true)
  end
  add_history(job, 'turned', desired, cause, ...)
  change.drop(job)
  if job.hold == 'deadline' then
    set(job, 'hold', '') -- the deadline limits forward work only
  end
  apply_deadline(job)
  set_failed_counts(job, 0, 0)
  count_anew(job)
end

-- Has the job end FAILED once nothing is in flight.
function end_as_it_is(job, reason)
  set(job, 'ending', reason)
  add_history(job, 'ending', reason)
  table.insert(job.cursor, 1, {from = WALK.ENDING, offset = 0, edge = 0})
end

local function add_failed(job, i, rec)
  set_state(job, i, rec, STEP.FAILED, 0)
  count_failed(job, rec, 1)
  if #job.failed < FAILED_BYTES then
    set(job, 'failed', job.failed == '' and int(i) or job.failed .. ' ' .. int(i))
  end
end

function remove_failed(job, i, rec)
  local failed = {}
  for word in gmatch(job.failed, '%d+') do
    failed[#failed + 1] = tonumber(word) ~= i and word or nil
  end
  set(job, 'failed', concat(failed, ' '))
  count_failed(job, rec, -1)
end

-- Adds a walk of this kind (RESUME, RETRY) over all steps to the cursor, unless the last piece of
-- the cursor is such a walk and has not begun.
function add_walk(job, kind)
  local last = job.cursor[#job.cursor]
  if not last or last.from ~= kind or last.offset > 0 then
    job.cursor[#job.cursor + 1] = {from = kind, offset = 0, edge = 0}
  end
end

-- Ends the attempts of a step as the policy says (recourse): parks the step (PARK), turns the job
-- (COMPENSATE), or ends the job (FAIL). An undo that is not parked has failed for good.
function give_up(job, i, rec, recourse, reason, till)
  if recourse == RECOURSE.PARK then
    park(job, i, rec, reason, till)
    return
  end
  deciding.record_failure(job, i, rec.asked, reason)
  if rec.asked == STATE.DISABLED then
    add_history(job, 'given_up', i, reason)
    add_failed(job, i, rec)
    if change.waits_for(job, i) then
      -- The change cannot be carried out; the other work of the job goes on.
      change.drop(job, 'FAILED', i)
      add_walk(job, WALK.RESUME)
    end
  elseif recourse == RECOURSE.COMPENSATE then
    set_state(job, i, rec, STEP.AT_REST, 0)
    turn(job, STATE.DISABLED, 'FAILURE', reason, i)
  else
    add_history(job, 'given_up', i, reason)
    add_failed(job, i, rec)
    end_as_it_is(job, reason)
  end
end
