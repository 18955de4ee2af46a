-- SPDX-License-Identifier: Apache-2.0
--
-- A change of the definition, or of the arguments of a step. Work that may have taken effect under
-- the present ones is undone first. Until that is done the change waits: the data of the job keeps
-- the command, and the job dispatches no forward action.

function take_definition(job, digest)
  hold_definition(job.p, digest)
  release_definition(job.p, job.def.digest)
  job.def, job.changed.def = definition_of(job.p, digest), digest
end

function is_ready(p, digest)
  return call('HGET', p .. 'def:' .. digest, 'ready') == FORMAT
end

-- The record of step i. If this call carries out a command that has waited, it may have changed the
-- record already.
function present(job, i, text)
  return job.records[i] or parse_record(text, step_of(job.def, i))
end

-- Reads which step a command changes, and how: "12", "12t" or "12!". The letter is a DIFFERENCE.
function target(word)
  local i, how = match(word, '^(%d+)([t!]?)$')
  return tonumber(i), how
end

-- What the store does with the present work of a step before the step becomes other work. UNDO:
-- the work may have taken effect, and is undone first. ANEW: the work may have taken effect, and is
-- left as it is. nil: nothing; or, if a reason follows the nil, the step must not be changed.
function before_other_work(job, i, rec, how)
  if rec.current ~= STATE.UNKNOWN then
    return nil
  elseif step_of(job.def, i).has_revert then
    local waiting = rec.since == job.epoch and rec.waiting or n_before(job, step_of(job.def, i))
    return waiting == 0 and 'UNDO' or nil, waiting > 0 and 'WAITING' or nil
  end
  return how == DIFFERENCE.ANEW and 'ANEW' or nil, how ~= DIFFERENCE.ANEW and 'UNKNOWN' or nil
end

-- Puts a command off until these steps are undone by the present definition. Each undo gets an
-- unused turn number, because the job's turn grows by 2, so its key differs from that of any
-- forward action. An undo that was sent before keeps its number: it is the same work. steps: { i,
-- rec }…; then the name of the command, the digest of the definition that it brings, and its other
-- arguments.
function put_off(job, nonce, steps, name, definition, ...)
  local texts, numbers = {}, {}
  for k, word in ipairs({name, definition, ...}) do
    texts[k] = #word .. ':' .. word
  end
  for k, step in ipairs(steps) do
    numbers[k] = int(step.i)
  end
  resume_after_failure(job, WALK.RESUME)
  hold_definition(job.p, definition)
  set(job, 'waits_for', concat(numbers, ' '))
  for _, step in ipairs(steps) do
    set(job, 'turn', job.turn + 2)
    add_history(job, 'changing', step.i)
    reset_step(job, step.i, step.rec)
    if step.rec.asked == STATE.ACTIVE then
      step.rec.asked, step.rec.turn = STATE.DISABLED, job.turn - 1
    end
    come_to_rest(job, step.i, step.rec, nonce)
  end
  -- After `turn` was set: set_data() looks for an old value only in later turns.
  set_data(job, 'change', concat(texts))
  return 'DONE'
end

-- Removes the command that waits. Return: its name and its arguments.
local function remove_waiting_command(job)
  local words = split_texts(call('HGET', job.p .. 'data:' .. job.id, 'change') or '')
  set(job, 'waits_for', '')
  set_data(job, 'change', '')
  return unpack(words)
end

-- Whether a change waits until this step is undone.
function change.waits_for(job, i)
  return job.waits_for ~= '' and (' ' .. job.waits_for .. ' '):find(' ' .. int(i) .. ' ', 1, true)
end

-- Drops the command that waits, so the job keeps its definition. why, i: the reason, and the step
-- concerned; without them, the job turns or has ended.
function change.drop(job, why, i)
  if job.waits_for == '' then
    return
  end
  local _, definition = remove_waiting_command(job)
  if definition then
    release_definition(job.p, definition)
  end
  add_history(job, 'unchanged', why or 'TURNED', i)
end

-- Whether all steps are undone that a change waits for, or a person has resolved them.
function change.is_due(job)
  local words = {}
  for word in gmatch(job.waits_for, '%d+') do
    words[#words + 1] = word
  end
  for k, text in ipairs(call('HMGET', job.key, unpack(words))) do
    if present(job, tonumber(words[k]), text).current == STATE.UNKNOWN then
      return false
    end
  end
  return true
end

-- Carries out a command that has waited.
local function after_waiting(job, nonce, name, definition, ...)
  local code, why, i = nil, 'LOST', nil
  if commands[name] then
    code, why, i = commands[name](job, {nonce = nonce, has_waited = true}, definition, ...)
  end
  if code ~= 'DONE' then
    add_history(job, 'unchanged', why or code, i)
  end
  if definition then
    release_definition(job.p, definition)
  end
end

function change.carry_out(job, nonce)
  after_waiting(job, nonce, remove_waiting_command(job))
end

-- Gives a step that is not in flight another definition, or other arguments, and restarts it. what:
-- for the history. arguments: "" to keep those that it has. step: see target().
function commands.change(job, command, definition, what, arguments, step)
  local i, how = target(step)
  local rec, why = present(job, i, call('HGET', job.key, int(i))), no_tries(job)
  if why then
    return 'WRONG_STATE', why
  elseif job.waits_for ~= '' then
    return 'WRONG_STATE', 'CHANGING'
  elseif how ~= DIFFERENCE.TERMS and job.desired == STATE.DISABLED then
    return 'WRONG_STATE', 'BACK'
  end
  local before
  why = no_retry(job, rec, true)
  if not why and how ~= DIFFERENCE.TERMS then
    before, why = before_other_work(job, i, rec, how)
  end
  if why then
    return 'WRONG_STATE', why, i
  elseif job.bytes + #arguments > DATA_MAX then
    return 'WRONG_STATE', 'DATA_FULL'
  elseif definition ~= job.def.digest and not is_ready(job.p, definition) then
    return 'MOVED'
  elseif before == 'UNDO' then
    return put_off(job, command.nonce, {{i = i, rec = rec}}, 'change', definition, what,
      arguments, step)
  end
  resume_after_failure(job, WALK.RESUME)
  local renewed = call('HGET', job.def.key, 'renewed')
  take_definition(job, definition)
  if renewed then
    call('HSETNX', job.def.key, 'renewed', renewed) -- an older job stays one, see is_older_job()
  end
  if before == 'ANEW' then
    add_history(job, 'anew', i)
    rec.current = STATE.DISABLED
  end
  if how ~= DIFFERENCE.TERMS then
    set(job, 'turn', job.turn + 1)
  end
  add_history(job, how == DIFFERENCE.TERMS and 'changed' or 'edited', i, what)
  if arguments ~= '' then
    set_data(job, 'a' .. i, arguments)
  end
  begin_anew(job, i, rec, command.nonce)
  return 'DONE'
end
