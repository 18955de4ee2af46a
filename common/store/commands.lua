-- SPDX-License-Identifier: Apache-2.0
--
-- Commands. Each is a function of `commands`, and gets the job, the table `command` of `steer` (of
-- after_waiting() if the command has waited), and its arguments. Return: a code; and if the command
-- is refused, why, and because of which step. What the function changes in the loaded job is saved
-- only if the code is DONE; so set_desired() writes `tried` itself when its answer is UNCHANGED.

local RUNS_MAX = 1000            -- passes of a job: the most that a workflow can allow

local function ended_badly(job)
  return job.outcome == 'FAILED' or job.outcome == 'COMPENSATION_FAILED'
end

local function set_desired(job, to, cause)
  if job.desired == to then
    if to == STATE.ACTIVE and job.phase == 'ERROR' or job.outcome == 'COMPENSATION_FAILED' then
      return 'WRONG_STATE', job.outcome
    elseif to == STATE.ACTIVE and job.ending ~= '' then
      return 'WRONG_STATE', 'ENDING'
    elseif to == STATE.DISABLED and not finished(job) and next_run(job) then
      call('HSET', job.key, 'tried', int(RUNS_MAX)) -- no other pass by itself
      if job.next_try > 0 then
        set(job, 'cause', cause) -- the job is taken back already, and only has to end
        return 'DONE'
      end
    end
    return 'UNCHANGED'
  elseif to == STATE.ACTIVE and job.outcome == 'COMPENSATION_FAILED' then
    return 'WRONG_STATE', job.outcome
  end
  local waits = job.phase == 'PENDING'
  set(job, 'tried', 1)
  set(job, 'phase', finished(job) and job.phase or 'PROCESSING')
  turn(job, to, cause)
  if waits then
    job.open, job.cursor = 0, {} -- nothing was begun
  elseif to == STATE.ACTIVE and job.start_at > job.now and not job.started then
    -- `started`: if the clock was set back, start_at may be ahead again for a job that has begun
    set(job, 'phase', 'PENDING')
    job.cursor = {}
    lower_due(job, job.start_at)
  end
  return 'DONE'
end

function commands.enable(job)
  return set_desired(job, STATE.ACTIVE, 'REQUESTED')
end

function commands.disable(job)
  return set_desired(job, STATE.DISABLED, 'REQUESTED')
end

-- Like disable, but the job ends CANCELLED, and a job that has ended is refused.
function commands.cancel(job)
  if finished(job) then
    return 'WRONG_STATE', job.outcome
  end
  return set_desired(job, STATE.DISABLED, 'CANCELLED')
end

function commands.kill(job, command)
  if finished(job) then
    return 'WRONG_STATE', job.outcome
  end
  put_on_hold(job, 'killed', command.said)
  add_history(job, 'killed')
  settle(job, 'KILLED', 'REQUESTED')
  return 'DONE'
end

-- Takes the job off the lists of those that need attention: a person knows about it. Nothing else
-- in the job changes.
function commands.acknowledge(job)
  if job.acknowledged then
    return 'UNCHANGED'
  elseif job.attention == '' then
    return 'WRONG_STATE', 'NO_NEED'
  end
  set(job, 'acknowledged', '1')
  return 'DONE'
end

function commands.pause(job, command)
  if finished(job) and not ended_badly(job) then
    return 'WRONG_STATE', job.outcome
  elseif job.hold == 'paused' then
    return 'UNCHANGED'
  end
  -- also if the job is on hold after its deadline: that hold stops forward work only
  put_on_hold(job, 'paused', command.said)
  add_history(job, 'held', 'paused')
  return 'DONE'
end

function commands.resume(job)
  if finished(job) and job.hold == '' then
    return 'WRONG_STATE', job.outcome
  elseif job.hold == '' then
    return 'UNCHANGED'
  end
  set(job, 'hold', '')
  if deadline.in_force(job) then
    deadline.mark_passed(job, job.since - 1)
  end
  add_history(job, 'resumed')
  if job.phase == 'PROCESSING' then
    add_walk(job, WALK.RESUME)
  elseif job.phase == 'PENDING' then
    lower_due(job, job.start_at)
  end
  return 'DONE'
end

-- Sets the failures and expiries of a step to 0. The step counts as parked or failed no longer.
function reset_step(job, i, rec)
  job.records[i] = rec
  record_of(job, i)
  if rec.state == STEP.FAILED then
    remove_failed(job, i, rec)
  end
  remove_parked(job, i)
  reset_counts(rec)
end

-- Restarts a step after a command about it: a Retry, a Resolve or a change.
function begin_anew(job, i, rec, nonce)
  reset_step(job, i, rec)
  come_to_rest(job, i, rec, nonce)
end

-- Lets a job go on that a failure has ended, or is about to end. If the job was about to end its
-- timers were cancelled, so a walk of this kind is to visit all steps.
function resume_after_failure(job, kind)
  if finished(job) then
    reopen(job)
    apply_deadline(job)
  end
  if job.deadline_turn then
    deadline.mark_passed(job, 0) -- the deadline limits nothing that is sent from now on
  end
  deciding.reset(job)
  if job.ending ~= '' then
    set(job, 'ending', '')
    for k = #job.cursor, 1, -1 do
      if job.cursor[k].from == WALK.ENDING then
        table.remove(job.cursor, k)
      end
    end
    add_walk(job, kind)
  end
end

-- Why this step cannot be tried again now, as it is or (changed) after a change; nil if it can.
function no_retry(job, rec, changed)
  if rec.state == STEP.IN_FLIGHT or rec.state == STEP.RECOVERY_REQUESTED then
    return rec.state == STEP.RECOVERY_REQUESTED and job.hold ~= '' and 'DUE' or 'IN_FLIGHT'
  elseif rec.state == STEP.AT_REST and not has_tried(job, rec)
    and (rec.current == job.desired or not (changed and job.desired == STATE.ACTIVE)) then
    return 'NOT_FAILED'
  end
end

-- Whether a Retry of all steps would restart any step. Also true if the job has more steps than the
-- budget: then only the walk finds out.
local function can_retry(job)
  if finished(job) or job.ending ~= '' or job.n > BUDGET then
    return true
  end
  local _, texts = walk_ahead(job, {offset = 0})
  for i, text in pairs(texts) do
    if text and retry_applies(job, i, record_of(job, i, text)) then
      return true
    end
  end
  return false
end

-- Why this job cannot be tried again; nil if it can.
function no_tries(job)
  if finished(job) and not ended_badly(job) or job.phase == 'PENDING' then
    return finished(job) and job.outcome or job.phase
  end
end

-- Restarts these steps; if none is named, all that are parked or have failed. arguments: ""; but
-- schedulers before build 46 pass new arguments for the one step that they name.
function commands.retry(job, command, arguments, ...)
  local steps, why = {...}, no_tries(job)
  if why then
    return 'WRONG_STATE', why
  elseif arguments ~= '' then
    return commands.change(job, command, job.def.digest, 'arguments', arguments, (...))
  elseif #steps == 0 and not can_retry(job) then
    return 'UNCHANGED'
  end
  local recs = {}
  for k = 1, min(#steps, BUDGET) do
    local i = tonumber(steps[k])
    local rec = parse_record(call('HGET', job.key, steps[k]), step_of(job.def, i))
    why = no_retry(job, rec)
    if why then
      return 'WRONG_STATE', why, i
    end
    recs[i] = rec
  end
  resume_after_failure(job, next(recs) and WALK.RESUME or WALK.RETRY)
  if not next(recs) then
    add_history(job, 'retried', 'all')
    add_walk(job, WALK.RETRY)
  end
  for i, rec in pairs(recs) do
    add_history(job, 'retried', i)
    begin_anew(job, i, rec, command.nonce)
  end
  return 'DONE'
end

-- Records what a person says about a step: its current state and its result.
function commands.resolve(job, command, step, state, result)
  local i, why = tonumber(step), no_tries(job)
  local rec = record_of(job, i, call('HGET', job.key, step))
  if why then
    return 'WRONG_STATE', why
  elseif rec.state == STEP.IN_FLIGHT then
    return 'WRONG_STATE', 'IN_FLIGHT', i
  elseif rec.state == STEP.AT_REST and rec.current == state
    and (result == '' or call('HGET', job.p .. 'data:' .. job.id, 'r' .. i) == result) then
    return 'UNCHANGED'
  elseif rec.state == STEP.AT_REST and rec.current == job.desired then
    return 'WRONG_STATE', 'THERE', i -- other steps have gone on from that
  elseif rec.waiting > 0 then
    return 'WRONG_STATE', 'WAITING', i -- the steps before it would be passed over
  elseif job.bytes + #result > DATA_MAX then
    return 'WRONG_STATE', 'DATA_FULL'
  end
  resume_after_failure(job, WALK.RESUME)
  set(job, 'turn', job.turn + 1)
  rec.current = state
  if result ~= '' or state == STATE.DISABLED then
    set_data(job, 'r' .. i, result) -- else it keeps the result that it has
  end
  add_history(job, 'resolved', i, state)
  begin_anew(job, i, rec, command.nonce)
  return 'DONE'
end
