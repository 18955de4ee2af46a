-- SPDX-License-Identifier: Apache-2.0
--
-- The cursor: a list of work that did not fit into a call. Each piece is "from:offset" or
-- "from:offset:edge". The work goes on at the offset. Only TURN has an edge: then the step at the
-- offset is counted already, and the edge is 1 plus the index of its next neighbour to visit. from
-- is a number or a letter WALK:
--   <number>  that step is where the job wants it: each step after it has one less to wait for
--   ROOTS     the job begins: dispatches the roots, which are the dependents of an artificial step;
--             its number is the letter WALK.ROOTS, see definitions.lua
--   TURN      the job has turned, or was migrated: counts every step, and dispatches each that
--             waits for nothing
--   RESUME    the job was on hold, was to end, or a change was carried out or dropped: dispatches
--             each step that waits for nothing, or parks it if its attempts are used up
--   RETRY     Retry of all steps: does the same, and restarts parked and failed steps
--   ENDING    the job is to end: cancels every timer

-- Step `from` is where the job wants it. Visits the steps after it that stand in one chunk of their
-- list (CHUNK), as far as the budget goes. Return: the offset at which to go on.
local function work_on_step(job, from, offset, nonce)
  local piece, first = next_at(job, from, offset)
  local count = min(#piece - (offset - first), job.budget.left)
  local list, fields, texts = {}, nil, nil
  for k = 1, count do
    list[k] = piece[offset - first + k]
  end
  prefetch(job.def, list)
  for k = 1, count do
    local i = list[k]
    -- In the first turn of a job only this piece of the cursor can have touched a step with at most
    -- one dependency, so its record need not be read. Exception: roots that an earlier call has
    -- left; a person's command may have touched them.
    if not job.records[i] and not (job.turn == 1 and step_of(job.def, i).n_after <= 1
      and (from ~= WALK.ROOTS or offset == 0)) then
      fields = fields or {}
      fields[#fields + 1] = int(i)
    end
  end
  if fields then
    texts = {}
    for k, text in ipairs(call('HMGET', job.key, unpack(fields))) do
      texts[fields[k]] = text
    end
  end
  for k = 1, count do
    local i = list[k]
    local rec = record_of(job, i, texts and texts[int(i)])
    if rec.state ~= STEP.AT_REST or rec.current ~= job.desired then
      if from ~= WALK.ROOTS then
        rec.waiting = rec.waiting - 1
      end
      job.records[i] = rec
      if rec.waiting == 0 and rec.state == STEP.AT_REST and walk_has_passed(job, i) then
        begin(job, i, rec, nonce)
      end
    end
  end
  job.budget.left = job.budget.left - count
  return offset + count
end

-- Visits the steps after `from` until all are visited or the budget is used up. Return: the offset
-- at which to go on, and whether all are visited.
local function work_on(job, from, offset, nonce)
  local all = n_next(job, step_of(job.def, from))
  while offset < all and job.budget.left > 0 do
    offset = work_on_step(job, from, offset, nonce)
  end
  return offset, offset >= all
end

-- Reads the records of the next steps of a walk over all steps, as many as the budget allows.
-- Return: the number after the last of these steps, and the texts of the records by step.
function walk_ahead(job, work)
  local last = min(work.offset + max(job.budget.left, 1), job.n)
  local fields, list, texts = {}, {}, {}
  for i = work.offset, last - 1 do
    fields[#fields + 1], list[#list + 1] = int(i), i
  end
  if #fields > 0 then
    prefetch(job.def, list)
    for k, text in ipairs(call('HMGET', job.key, unpack(fields))) do
      texts[list[k]] = text
    end
  end
  return last, texts
end

-- Sets the failures and expiries of a step to 0, so that its attempts begin anew. If no agent can
-- have begun any of them, `unstarted` is kept, because a migration may replace such a step.
function reset_counts(rec)
  rec.failures, rec.expiries = 0, 0
  if rec.unstarted < rec.attempt then
    rec.unstarted = 0
  end
end

-- Whether a step waits for no other step, was dispatched, and is not where the job wants it. Such a
-- step is at rest if WALK.ENDING has cancelled its timer, or if its last dispatch ended while
-- nothing could be sent: during a hold, after the deadline, or while a change waits.
function has_tried(job, rec)
  return rec.since == job.epoch and rec.waiting == 0 and rec.current ~= job.desired
    and rec.attempt > 0
end

-- Whether a Retry of all steps restarts this one. A parked step whose next attempt is due has the
-- state RECOVERY_REQUESTED; its failures and expiries show that it was parked. A step whose timer
-- WALK.ENDING has cancelled was parked or backing off; its record does not say which.
function retry_applies(job, i, rec)
  if rec.state == STEP.PARKED or rec.state == STEP.FAILED then
    return true
  elseif rec.state == STEP.IN_FLIGHT or rec.current == job.desired
    or rec.failures + rec.expiries == 0 then
    return false
  elseif rec.state == STEP.AT_REST then
    return has_tried(job, rec)
  end
  return why_used_up(job, i, rec) ~= nil
end

-- Whether the walk of a Retry of all steps has yet to reach this step.
function retry_ahead(job, i)
  for _, work in ipairs(job.cursor) do
    if work.from == WALK.RETRY and work.offset <= i then
      return true
    end
  end
  return false
end

-- Visits a step in WALK.TURN: dispatches it if it waits for nothing. If the attempts of its work
-- were used up it begins anew, after a turn and after a Migrate. Return: whether it is where the
-- job wants it, so that it is to be counted.
local function turn_step(job, i, rec, nonce)
  if rec.state ~= STEP.AT_REST then
    return false
  elseif rec.failures + rec.expiries > 0 and is_same_work(job, rec, next_asked(job, rec))
    and why_used_up(job, i, rec) then
    reset_counts(rec)
    job.records[i] = rec
  end
  if rec.current ~= job.desired and rec.waiting == 0 and can_dispatch(job) then
    if not (pass_over(job, i, rec) and job.desired == STATE.DISABLED) then
      dispatch(job, i, rec, next_asked(job, rec), nonce)
    end
  end
  return rec.state == STEP.AT_REST and rec.current == job.desired
end

local function turn_piece(job, work, nonce)
  local last, texts = walk_ahead(job, work)
  while work.offset < last and job.budget.left > 0 do
    local i = work.offset
    if work.edge == 0 then
      job.budget.left = job.budget.left - 1
      if turn_step(job, i, record_of(job, i, texts[i]), nonce) then
        job.open, work.edge = job.open - 1, 1
      end
    end
    if work.edge > 0 then
      local offset, all = work_on(job, i, work.edge - 1, nonce)
      work.edge = offset + 1
      if not all then
        return false
      end
    end
    work.offset, work.edge = i + 1, 0
  end
  return work.offset == job.n
end

-- Records that the walk has visited the steps before `last`. Return: whether those were all.
local function walked(job, work, last)
  job.budget.left = job.budget.left - (last - work.offset)
  work.offset = last
  return last == job.n
end

local function walk_waiting(job, work, nonce)
  local last, texts = walk_ahead(job, work)
  for i = work.offset, last - 1 do
    local rec = record_of(job, i, texts[i])
    if work.from == WALK.RETRY and retry_applies(job, i, rec) then
      if rec.state == STEP.FAILED then
        remove_failed(job, i, rec)
      end
      remove_parked(job, i)
      reset_counts(rec)
      set_state(job, i, rec, STEP.AT_REST, 0)
    end
    local reason, till
    if rec.state == STEP.AT_REST and has_tried(job, rec)
      and is_same_work(job, rec, next_asked(job, rec)) then
      reason, till = why_used_up(job, i, rec)
    end
    if reason then -- WALK.ENDING cancelled its timer, or its request came back during a hold
      park(job, i, rec, reason, till)
    elseif rec.state == STEP.AT_REST and rec.current ~= job.desired and rec.waiting == 0 then
      begin(job, i, rec, nonce)
    elseif under_way(rec.state) and rec.till > 0 then
      lower_due(job, rec.till)
    end
  end
  return walked(job, work, last)
end

local function cancel_timers(job, work)
  local last, texts = walk_ahead(job, work)
  for i = work.offset, last - 1 do
    if text_under_way(texts[i]) then
      local rec = record_of(job, i, texts[i])
      if rec.state ~= STEP.IN_FLIGHT and rec.state ~= STEP.FAILED then
        set_state(job, i, rec, STEP.AT_REST, 0)
      end
    end
  end
  return walked(job, work, last)
end

-- Does the work of the cursor, as far as the budget and has_cursor_work() allow. While nothing may
-- be sent, pieces that count steps or cancel timers go on.
local function work_off(job, nonce)
  while job.budget.left > 0 and has_cursor_work(job) do
    local work, done = job.cursor[1], nil
    if work.from == WALK.TURN then
      done = turn_piece(job, work, nonce)
    elseif work.from == WALK.RESUME or work.from == WALK.RETRY then
      done = walk_waiting(job, work, nonce)
    elseif work.from == WALK.ENDING then
      done = cancel_timers(job, work)
    else
      work.offset, done = work_on(job, work.from, work.offset, nonce)
    end
    if done then
      table.remove(job.cursor, 1)
    end
  end
end

function work_off_all(job, nonce)
  work_off(job, nonce)
  if job.waits_for ~= '' and job.ending == '' and change.is_due(job) then
    change.carry_out(job, nonce)
    add_walk(job, WALK.RESUME)
    work_off(job, nonce)
  end
end
