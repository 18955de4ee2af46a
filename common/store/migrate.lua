-- SPDX-License-Identifier: Apache-2.0
--
-- The command `migrate`: a job gets a newer version of its workflow.

-- Whether a step counts as begun under its present definition: it was dispatched, and not all
-- requests came back. A first request in flight counts as begun; a later one, if all before it came
-- back, only with evidence. An agent may have had a request that came back: see replace_step().
local function step_was_begun(job, i, rec)
  local in_flight = rec.state == STEP.IN_FLIGHT and rec.attempt > 1
  local progress, was_taken = progress_of(job.p, job.id, i, rec.token)
  return call('HGET', job.key, 'b' .. i) or in_flight and (progress or was_taken)
    or rec.unstarted < rec.attempt - (in_flight and 1 or 0)
end

-- Whether the step is in flight, or its current state is unknown.
local function in_flight_or_unknown(rec)
  return rec.state == STEP.IN_FLIGHT or rec.current == STATE.UNKNOWN
end

-- The same as before_other_work(), for a step that a newer version defines in another way. Nothing
-- is to be done about a step that no agent can have begun.
local function before_migration(job, i, rec, how, is_gone)
  local in_flight = rec.state == STEP.IN_FLIGHT or rec.state == STEP.RECOVERY_REQUESTED
  if how == DIFFERENCE.TERMS then
    return nil, in_flight and 'IN_FLIGHT' or nil
  elseif rec.current == STATE.ACTIVE then
    return nil, 'BEGUN' -- even if no agent has: a person may have resolved the step
  elseif is_gone and in_flight_or_unknown(rec) then
    return nil, 'GONE' -- no definition would undo it
  elseif not step_was_begun(job, i, rec) then
    return nil
  elseif in_flight then
    return nil, 'IN_FLIGHT'
  end
  return before_other_work(job, i, rec, how)
end

-- Replaces a step by that of the newer version. If the step is in flight or UNKNOWN, an agent may
-- have had a request that came back, or has the present one. Then, unless `before` is ANEW, the
-- step is undone first, as the newer version says, with the turn number between the old one and the
-- new one. Attempts are numbered from 1 again, under other keys.
local function replace_step(job, i, rec, before)
  if rec then
    local maybe = in_flight_or_unknown(rec) and before ~= 'ANEW'
    if rec.state == STEP.IN_FLIGHT then
      add_history(job, 'withdrawn', i, rec.attempt, token_id(i, rec.token))
    elseif rec.state == STEP.FAILED and rec.since >= job.since then -- in the present direction
      remove_failed(job, i, rec)
    end
    remove_parked(job, i)
    set_state(job, i, rec, STEP.AT_REST, 0)
    rec.current = maybe and STATE.UNKNOWN or STATE.DISABLED
    if maybe then
      rec.asked, rec.turn = STATE.DISABLED, job.turn - 1
    end
    rec.token, rec.attempt, rec.since = '-', 0, 0
    rec.failures, rec.expiries, rec.unstarted = 0, 0, 0
  end
  if i >= job.n then
    job.records[i] = nil
    call('HDEL', job.key, int(i))
  end
  call('HDEL', job.p .. 'data:' .. job.id, 'e' .. i, 'p' .. i, 't' .. i, 'l' .. i, 'c' .. i,
    'u' .. i, 'x' .. i, 'd' .. i)
  call('HDEL', job.key, 'b' .. i)
  set_data(job, 'a' .. i, '') -- meant for the replaced step
end

-- The steps that differ from those of the job, { i, how, rec, before }…, and those of them that are
-- undone first; or nil, why the migration is not possible, and the step concerned.
local function plan_migration(job, has_waited, gone, words)
  local steps, numbers, undo, in_flight_step = {}, {}, {}, nil
  for k, word in ipairs(words) do
    local i, how = target(word)
    steps[k], numbers[k] = {i = i, how = how}, int(i)
  end
  for k, text in ipairs(#numbers > 0 and call('HMGET', job.key, unpack(numbers)) or {}) do
    local step, why = steps[k], nil
    if text or job.records[step.i] then
      step.rec = present(job, step.i, text)
      step.before, why = before_migration(job, step.i, step.rec, step.how, k <= gone)
      -- this call may have dispatched it
      why = why or has_waited and step.rec.state == STEP.IN_FLIGHT and 'IN_FLIGHT'
      if why then
        return nil, why, step.i
      end
      undo[#undo + 1] = step.before == 'UNDO' and step or nil
      in_flight_step = step.rec.state == STEP.IN_FLIGHT and step.i or in_flight_step
    end
  end
  if #undo > 0 and in_flight_step then
    return nil, 'IN_FLIGHT', in_flight_step
  elseif #undo > BUDGET then
    return nil, 'MANY_UNKNOWN'
  end
  return steps, undo
end

-- Gives the job a newer version of its workflow, with n steps. The arguments after `gone` are the
-- steps that differ from those of the job, see target(). The first `gone` of them are not in the
-- newer version; each of these must be neither in flight, nor ACTIVE, nor UNKNOWN.
function commands.migrate(job, command, definition, n, name, gone, ...)
  if finished(job) or job.ending ~= '' or job.desired == STATE.DISABLED then
    return 'WRONG_STATE', finished(job) and job.outcome or job.ending ~= '' and 'ENDING' or 'BACK'
  elseif job.waits_for ~= '' then
    return 'WRONG_STATE', 'CHANGING'
  elseif definition == job.def.digest then
    return 'UNCHANGED'
  elseif not is_ready(job.p, definition) then
    return 'MOVED'
  end
  local steps, undo, i = plan_migration(job, command.has_waited, tonumber(gone), {...})
  if not steps then
    return 'WRONG_STATE', undo, i
  elseif #undo > 0 then
    return put_off(job, command.nonce, undo, 'migrate', definition, n, name, gone, ...)
  end
  take_definition(job, definition)
  call('HSET', job.p .. 'data:' .. job.id, 'workflow', name)
  set(job, 'turn', job.turn + 2)
  set(job, 'n', tonumber(n))
  for _, step in ipairs(steps) do
    if step.before == 'ANEW' then
      add_history(job, 'anew', step.i)
    end
    if step.how ~= DIFFERENCE.TERMS then
      replace_step(job, step.i, step.rec, step.before)
    end
  end
  add_history(job, 'migrated', name)
  local cursor = job.cursor
  count_anew(job)
  for _, work in ipairs(cursor) do
    if work.from == WALK.RETRY or work.from == WALK.RESUME then
      work.offset = 0
      job.cursor[#job.cursor + 1] = work
    end
  end
  if job.phase == 'PENDING' then
    job.cursor = {}
  end
  return 'DONE'
end
