-- SPDX-License-Identifier: Apache-2.0
--
-- The store function `steer`: carries out a command, once, and in the order of commands.

-- ms by which the clock of the sender of a command may be ahead of the store's
local CLOCK_AHEAD = 300000
local COMMANDS_KEPT = 16         -- commands of a job that are kept with their answers
local COMMAND_BYTES = 100        -- counted against the owner for a command, besides its texts

-- The last commands of a job with their answers, each "length:id command code why step;".
local function answers_of(job)
  local list, text, at = {}, call('HGET', job.p .. 'data:' .. job.id, 'commands') or '', 1
  while at <= #text do
    local len, start = match(text, '^(%d+):()', at)
    if not len then
      break -- damaged: the rest is forgotten
    end
    local id = sub(text, start, start + len - 1)
    local command, code, why, i, after = match(text, '^ (%S+) (%S+) (%S+) (%S+);()', start + len)
    if not after then
      break
    end
    list[#list + 1] = {id = id, command = command, code = code, why = why, i = i,
      text = sub(text, at, after - 1)}
    at = after
  end
  return list
end

local function remember_answer(job, id, ...)
  local list = answers_of(job)
  local texts = {}
  for k = max(1, #list - COMMANDS_KEPT + 2), #list do
    texts[#texts + 1] = list[k].text
  end
  texts[#texts + 1] = #id .. ':' .. id .. ' ' .. concat({...}, ' ') .. ';'
  call('HSET', job.p .. 'data:' .. job.id, 'commands', concat(texts))
end

local function known_answer(job, id)
  for _, known in ipairs(answers_of(job)) do
    if known.id == id then
      return known
    end
  end
end

-- Commands that turn the job have one order, and retries have another, by the time at which they
-- were issued. A command is not carried out after another one of its order that was issued later,
-- unless that was refused.
local ORDERS = {enable = 'ordered', disable = 'ordered', cancel = 'ordered', retry = 'retried',
  change = 'retried'}

local function is_superseded(job, command)
  local order = ORDERS[command.name]
  return order and command.issued_at ~= '0'
    and (tonumber(call('HGET', job.key, order) or '') or 0) > tonumber(command.issued_at)
end

-- Stores when the last command of the order was issued. The clock of its sender may be ahead; then
-- commands of other senders count as issued before it, until the store's clock has reached the
-- stored time. So that is at most CLOCK_AHEAD ahead of the store's clock.
local function keep_order(job, command)
  local order = ORDERS[command.name]
  if order and command.issued_at ~= '0' then
    call('HSET', job.key, order, int(min(tonumber(command.issued_at), job.now + CLOCK_AHEAD)))
  end
end

local function carry_out(job, command, ...)
  if command.definition ~= '' and command.definition ~= job.def.digest then
    return 'MOVED'
  elseif command.if_seq ~= '0' and tonumber(command.if_seq) ~= job.seq then
    return 'SUPERSEDED', 'SEQ'
  elseif is_superseded(job, command) then
    return 'SUPERSEDED', 'ORDER'
  elseif job.hold == 'killed' then
    return 'WRONG_STATE', 'KILLED'
  elseif not commands[command.name] then
    return 'UNSUPPORTED'
  end
  add_history(job, 'command', command.name, command.id ~= '' and command.id or '-', command.said)
  return commands[command.name](job, command, ...)
end

-- Lets Kill end a corrupt job: fields that cannot be read get values that can.
local function make_readable(p, id, now)
  local key = p .. 'job:' .. id
  if try_job(load, p, id, now, '0') and tonumber(call('HGET', key, 'created') or '0') then
    return
  end
  local first = call('HGET', key, 'n')
  local n = first and match(first, '^%d+$') and tonumber(first) or 0
  call('HSET', key, 'n', (n > 0 and n <= 10000) and int(n) or '1')
  for name, value in pairs({turn = '1', due = int(now), seq = int(now), created = int(now)}) do
    local known = tonumber(call('HGET', key, name) or '')
    if not (known and known >= 0 and known < 2 ^ 53)
      or name == 'turn' and (known < 1 or known >= 2 ^ 31) then
      call('HSET', key, name, value)
    end
  end
  local desired, phase = unpack(call('HMGET', key, 'desired', 'phase'))
  if desired ~= STATE.ACTIVE and desired ~= STATE.DISABLED then
    call('HSET', key, 'desired', STATE.ACTIVE)
  end
  if phase ~= 'PENDING' and phase ~= 'PROCESSED' and phase ~= 'ERROR' then
    call('HSET', key, 'phase', 'PROCESSING')
  end
  if not call('HGET', key, 'def') then
    call('HSET', key, 'def', 'lost')
  end
  if not try_job(load, p, id, now, '0') then
    call('HDEL', key, 'cursor', 'scan', 'stuck', 'start_at', 'since', 'complete_by', 'epoch')
  end
end

-- Counts the bytes that a command adds to a job of an owner, like those of its Submit: the history
-- keeps the command, and the data the arguments of a Retry.
local function count_bytes(job, command, owner, list, first)
  local cost = COMMAND_BYTES + #command.said + #command.id
  for k = first, #list do
    cost = cost + #list[k]
  end
  call('HINCRBY', job.p .. 'users', owner, int(cost))
  call('HINCRBY', job.key, 'cost', int(cost))
end

-- Whether the owner may add a command. Cancel and Kill are always allowed, because they end a job.
local function within_bytes(p, command_name, owner, bytes)
  return owner == '' or command_name == 'cancel' or command_name == 'kill'
    or not over_bytes(p, owner, 0, tonumber(bytes) or 0)
end

-- Carries out a command that the job has not received before. Return: as a command does.
local function carry_out_new(job, command, by, owner, list, first)
  local code, why, i = carry_out(job, command, unpack(list, first))
  if code == 'DONE' or code == 'UNCHANGED' then
    keep_order(job, command)
  end
  if code == 'DONE' then
    if owner ~= '' then
      count_bytes(job, command, owner, list, first)
    end
    drive_on(job, command.nonce)
    save(job, by)
  end
  if command.id ~= '' and code ~= 'MOVED' then
    remember_answer(job, command.id, command.name, code, why or '-', i or '-')
  end
  return code, why, i
end

-- steer -> <transition> <refusal>?
-- Carries out a command. said: who gives the command ("-" if that is not known), and why. by: the
-- calling scheduler. definition: the digest of the one by which the arguments number steps; '' if
-- they name none. bytes: how many bytes of this partition the jobs of the owner may take, 0: no
-- limit. why, step: the reason of a refusal ("-" for none), and the step concerned (NO_STEP for
-- none).
--   DONE
--   UNCHANGED      the job is already in the state that the command asks for
--   WRONG_STATE    refused, see `why`
--   SUPERSEDED     a command that was issued later came first, or the job's seq is not if_seq
--   UNSUPPORTED    there is no such command
--   MOVED          the job has another definition by now; the scheduler starts over
--   TOO_MANY       the owner takes too many bytes
--   CONFLICT       another command had this command_id
--   UNKNOWN_JOB    there is no such job, or it belongs to another user. The answer ends without why
--                  and step
-- The job keeps its last COMMANDS_KEPT commands that have an id, with their answers, except MOVED,
-- TOO_MANY and CONFLICT. If one of these commands comes again it changes nothing and gets the same
-- answer; with redelivered = 1 also the requests in flight. But as long as the owner takes too many
-- bytes every command other than Cancel and Kill gets TOO_MANY.
function functions.steer(p, job_id, command_name, command_id, issued_at, if_seq, said, by, nonce,
    redelivered, definition, owner, bytes, list, first)
  local now, out = now_ms(), {}
  owner = owner or ''
  if is_others(p, job_id, owner) then
    return only_code('UNKNOWN_JOB', now)
  elseif not within_bytes(p, command_name, owner, bytes) then
    put_code(out, 'TOO_MANY', now)
    put(out, '-', int(NO_STEP))
    return out
  elseif command_name == 'kill' and call('EXISTS', p .. 'job:' .. job_id) == 1 then
    make_readable(p, job_id, now)
  end
  local job = load(p, job_id, now, '0')
  if not job then
    return only_code('UNKNOWN_JOB', now)
  end
  local command = {name = command_name, id = command_id, issued_at = issued_at, if_seq = if_seq,
    said = said, nonce = nonce, definition = definition}
  local code, why, i
  local known = command.id ~= '' and known_answer(job, command.id)
  if known and known.command ~= command.name then
    code = 'CONFLICT'
  elseif known then
    code, why, i = known.code, known.why, known.i
    if redelivered == '1' then
      add_in_flight_after(job)
      job.settled = finished(job) and job.seq or 0
    end
  else
    code, why, i = carry_out_new(job, command, by, owner, list, first)
  end
  put_transition(out, code, job)
  put(out, why or '-', int(tonumber(i) or NO_STEP))
  return out
end
