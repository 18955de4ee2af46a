-- SPDX-License-Identifier: Apache-2.0
--
-- The store function `drive`: goes on with a job, for a Recover, and when a call has left work.

-- When a job that was taken back goes forward again. The wait between two passes grows with each
-- pass.
local function next_run_at(job, runs)
  local interval, coefficient = match(call('HGET', job.def.key, 'job'), '^%u %d+ [01] (%d+) (%S+) ')
  if not interval or interval == '0' or is_older_job(job) then
    return job.now
  end
  local latest = job.now + floor(min(tonumber(interval) * tonumber(coefficient) ^ (runs - 1), DAY))
  -- A later time than `latest` was derived before the clock was set back.
  return job.next_try > 0 and min(job.next_try, latest) or latest
end

-- When the next pass of the job begins (false: there is no other pass), and how many passes there
-- were.
function next_run(job)
  local runs_max = tonumber(match(call('HGET', job.def.key, 'job'), '^%u (%d+)'))
  local runs = tonumber(call('HGET', job.key, 'tried') or '1')
  local at = runs < runs_max and not job.deadline_turn and next_run_at(job, runs)
  return at and not (job.complete_by > 0 and max(at, job.now) >= job.complete_by) and at, runs
end

local function run_again(job, runs)
  set(job, 'tried', runs + 1)
  turn(job, STATE.ACTIVE, 'TRY')
end

-- Drives a job, and ends its turn if nothing is left to do.
function drive_on(job, nonce)
  work_off_all(job, nonce)
  if finished(job) or job.phase == 'PENDING' then
    return
  end
  local idle = job.busy == 0 and not has_cursor_work(job)
  if job.open == 0 then
    job.cursor = {} -- no step waits for another any more
    if job.desired == STATE.ACTIVE then
      settle(job, 'SUCCEEDED', '')
      return
    end
    local at, runs = next_run(job)
    if job.cause == 'FAILURE' and at then
      if job.hold == '' and at > job.now then
        set(job, 'next_try', at)
        lower_due(job, at)
      elseif job.hold == '' then
        run_again(job, runs)
        drive_on(job, nonce)
      end
    elseif job.cause == 'CANCELLED' then
      settle(job, 'CANCELLED', 'REQUESTED')
    else
      settle(job, 'COMPENSATED', job.cause)
    end
  elseif idle and job.ending ~= '' then
    settle(job, 'FAILED', job.ending)
  elseif idle and #job.cursor == 0 and job.hold == '' and job.failed_undo > 0 then
    settle(job, 'COMPENSATION_FAILED', job.cause)
  elseif idle and #job.cursor == 0 and job.hold == '' and job.failed_forward > 0 then
    settle(job, 'FAILED', 'PERMANENT')
  end
end

-- Drives a step whose recovery is requested: its LockedUntil or the time of its timer has passed.
local function drive_marked(job, i, rec, nonce)
  local t = terms_of(job.def, i, rec.asked)
  if is_obsolete(job, rec) then
    come_to_rest(job, i, rec, nonce)
  elseif job.hold ~= '' then
    return
  elseif retry_ahead(job, i) and retry_applies(job, i, rec) then
    -- Does what WALK.RETRY would do: neither can tell whether the step expired before the Retry or
    -- after it.
    reset_counts(rec)
    come_to_rest(job, i, rec, nonce)
  elseif rec.token ~= SILENCE_OVER and rec.current == STATE.UNKNOWN
    and rec.expiries >= t.expiries then
    give_up(job, i, rec, t.on_exhausted, 'DEATHS', silence_ends(job, t, rec))
  else
    if rec.token == NO_EVIDENCE and rec.unstarted >= t.expiries then
      alert(job, i, 'SILENT', rec.asked) -- a person must find out what is wrong
    end
    come_to_rest(job, i, rec, nonce)
  end
end

-- Puts a job on hold. said: who does that ("-": no person), and why.
function put_on_hold(job, kind, said)
  set(job, 'hold', kind)
  call('HSET', job.p .. 'data:' .. job.id, 'held', int(job.now) .. ' ' .. said)
end

local function on_deadline(job)
  local recourse = match(call('HGET', job.def.key, 'job'), '^%u')
  deadline.mark_passed(job, job.turn)
  if recourse ~= RECOURSE.PARK then
    deciding.record_failure(job, nil, STATE.ACTIVE, 'DEADLINE')
  end
  if recourse == RECOURSE.COMPENSATE then
    turn(job, STATE.DISABLED, 'FAILURE', 'DEADLINE')
  elseif recourse == RECOURSE.FAIL then
    end_as_it_is(job, 'DEADLINE')
  else
    if job.hold == '' then -- a person's hold stays
      put_on_hold(job, 'deadline', '-')
      add_history(job, 'held', 'deadline')
    else
      add_history(job, 'overdue')
    end
    alert_job(job, NO_STEP, 'DEADLINE')
  end
end

-- drive -> <transition>
-- Goes on with a job: begins it if its start_at has come, acts on its deadline, drives the steps
-- that `expire` has named, and works on the cursor. Of the steps that the call names only those in
-- state RECOVERY_REQUESTED, and those in flight whose dispatch the broker has lost, are changed;
-- the answer has the requests of the latter. again: 1 if the same call may have been carried out
-- before and its answer was lost; then the answer also has the requests of the named steps that are
-- in flight.
--   DRIVEN
--   UNCHANGED     the job has ended
--   UNKNOWN_JOB
function functions.drive(p, job_id, nonce, by, again, list, first)
  local now, out = now_ms(), {}
  local job = load(p, job_id, now, '0')
  if not job then
    return only_code('UNKNOWN_JOB', now)
  end
  if finished(job) then
    put_transition(out, 'UNCHANGED', job)
    return out
  end
  if job.phase == 'PENDING' and job.start_at <= now and job.hold == '' then
    set(job, 'phase', 'PROCESSING')
    set(job, 'started', '1')
    add_history(job, 'started', by)
    job.cursor[1] = {from = job.turn == 1 and WALK.ROOTS or WALK.TURN, offset = 0, edge = 0}
  end
  if deadline_unhandled(job) and not is_quiet(p, now) then
    on_deadline(job)
  end
  local in_flight, known_losses = {}, #list >= first and losses(p, now)
  for k = first, min(#list, first + BUDGET - 1) do
    local i = tonumber(list[k])
    local text = i < job.n and call('HGET', job.key, list[k])
    if text then
      local rec = record_of(job, i, text)
      if rec.state == STEP.RECOVERY_REQUESTED then
        drive_marked(job, i, rec, nonce)
      elseif rec.state == STEP.IN_FLIGHT then
        local at, later
        if known_losses then
          at, later = is_lost(job, i, rec, known_losses)
        end
        if at and later <= now then
          send_again(job, i, rec, at)
        elseif again == '1' then
          in_flight[#in_flight + 1] = i
        end
      end
    end
  end
  add_in_flight(job, in_flight)
  drive_on(job, nonce)
  save(job, by)
  put_transition(out, 'DRIVEN', job)
  return out
end
