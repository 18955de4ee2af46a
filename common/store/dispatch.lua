-- SPDX-License-Identifier: Apache-2.0
--
-- Dispatches: what a step is asked for, how long its request may wait and its agent may work, the
-- token, and requests that are sent once more.

-- Moves a step to another state, and updates `busy`.
function set_state(job, i, rec, state, till)
  local was, is = under_way(rec.state), under_way(state)
  if was ~= is then
    job.busy = job.busy + (is and 1 or -1)
  end
  rec.state, rec.till = state, till
  job.records[i] = rec
  if till > 0 then
    lower_due(job, till)
  end
end

-- How many neighbours of a step come before it, and after it, in the direction of the job. Before
-- it come its dependencies if the job goes forward, its dependents if it goes back.
function n_before(job, step)
  return job.desired == STATE.ACTIVE and step.n_after or step.n_dependents
end

function n_next(job, step)
  return job.desired == STATE.ACTIVE and step.n_dependents or step.n_after
end

-- A piece of the list of the neighbours after step i, and the offset at which the piece begins.
function next_at(job, i, offset)
  if job.desired == STATE.ACTIVE then
    return dependents_at(job.def, i, offset)
  end
  local step = step_of(job.def, i)
  step.after = step.after or numbers(step.after_text)
  return step.after, 0
end

-- The record of step i, brought up to date. If all join counters were set anew since the record was
-- written, its `waiting` is replaced. If the job was turned since, a step that is not in
-- flight comes to rest.
function record_of(job, i, text)
  local rec = job.records[i] or parse_record(text, step_of(job.def, i))
  if rec.since ~= job.epoch then
    local turned = rec.since < job.since
    rec.since, rec.waiting = job.epoch, n_before(job, step_of(job.def, i))
    if turned and rec.state ~= STEP.IN_FLIGHT then
      set_state(job, i, rec, STEP.AT_REST, 0)
    end
  end
  return rec
end

-- Whether the deadline limits this dispatch. It does if that is a forward action and on_deadline is
-- COMPENSATE or FAIL; then forward work gets no more time than is left until the deadline.
function is_bounded(job, asked)
  if asked ~= STATE.ACTIVE or job.complete_by == 0 then
    return false
  end
  local def = job.def
  def.on_deadline = def.on_deadline or match(call('HGET', def.key, 'job') or '', '^%u')
    or RECOURSE.PARK
  return def.on_deadline ~= RECOURSE.PARK
end

-- How many ms a dispatch may still take because of the deadline; nil: no limit.
function time_left(job, asked)
  return not job.deadline_turn and is_bounded(job, asked) and job.complete_by - job.now or nil
end

-- Whether the deadline that limited the dispatch in flight has passed.
function cut_by_deadline(job, rec)
  if not is_bounded(job, rec.asked) then
    return false
  end
  return job.deadline_turn and rec.turn <= job.deadline_turn
    or not job.deadline_turn and job.now >= job.complete_by
end

-- How long a request may wait in its queue. Each dispatch in a row that no agent is known to have
-- begun doubles that.
function wait_of(t, rec)
  local doubled = max(t.wait, min(t.wait * 2 ^ rec.unstarted, WAIT_CAP))
  -- Always longer than t.wait, by which request.c recognises a request that is to be watched.
  return rec.unstarted > 0 and max(t.wait + 1, doubled) or doubled
end

-- How long a request that is in flight may still wait.
function wait_left(job, i, rec)
  local lease, left = terms_of(job.def, i, rec.asked).lock, time_left(job, rec.asked)
  if not left then
    return rec.till - job.now - lease
  end
  return min(rec.till - job.now - min(lease, left), left) -- it is not to be sent after the deadline
end

-- What the next dispatch of a step asks for, so that the step gets where the job wants it. On the
-- way forward, an undo that was sent is finished first, and a forward action of an earlier turn
-- that may have taken effect is undone first.
function next_asked(job, rec)
  if job.desired == STATE.DISABLED or rec.current == STATE.UNKNOWN
    and (rec.asked == STATE.DISABLED or rec.turn < job.since) then
    return STATE.DISABLED
  end
  return STATE.ACTIVE
end

-- Whether the next dispatch is another attempt of the same work as the last one, and so has the
-- same key.
function is_same_work(job, rec, asked)
  return rec.asked == asked and (rec.turn == job.turn
    or rec.current == STATE.UNKNOWN and (asked == STATE.DISABLED or rec.turn >= job.since))
end

-- base64url: value of six bits -> digit
local digits, all = {}, 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
for i = 0, 63 do
  digits[i] = all:sub(i + 1, i + 1)
end

-- Writes nine hex digits as the six base64url digits of the same bits, to keep a record below 64
-- bytes. (A table from hex digits to others would be as fast, but Redis collects the garbage of Lua
-- every fifty calls, and each collection would visit all of that table.)
local function shorten(hex)
  local bits = tonumber(hex, 16)
  local f = bits % 64
  bits = (bits - f) / 64
  local e = bits % 64
  bits = (bits - e) / 64
  local d = bits % 64
  bits = (bits - d) / 64
  local c = bits % 64
  bits = (bits - c) / 64
  local b = bits % 64
  return digits[(bits - b) / 64] .. digits[b] .. digits[c] .. digits[d] .. digits[e] .. digits[f]
end

-- The token of a dispatch of step i: "<step>.<22 digits>", 132 bits. `nonce` is 128 bits that only
-- the caller knows, so a token does not help to guess another one of the same call.
function make_token(i, nonce)
  local hash = redis.sha1hex(nonce .. '.' .. int(i))
  return int(i) .. '.' .. shorten(sub(hash, 1, 9)) .. shorten(sub(hash, 10, 18))
    .. shorten(sub(hash, 19, 27)) .. sub(shorten('000' .. sub(hash, 28, 33)), 3)
end

-- The name of a dispatch in the history and for people: the step, and a digest of the token, with
-- which no agent can reply.
function token_id(i, token)
  return int(i) .. '.' .. sub(redis.sha1hex(token), 1, 8)
end

-- Sets a step in flight from now on. left: of time_left(). LockedUntil and the terms of the step
-- show when this was, unless the deadline cuts its time short: then `d<step>` records it, for
-- is_lost(). Return: how long the request may wait in its queue.
function set_in_flight(job, i, rec, t, left)
  local wait, lease = wait_of(t, rec), t.lock
  if left and left < max(wait, lease) then
    wait, lease = min(wait, left), min(lease, left)
    call('HSET', job.p .. 'data:' .. job.id, 'd' .. int(i), rec.token .. ' ' .. int(job.now))
  end
  set_state(job, i, rec, STEP.IN_FLIGHT, job.now + wait + lease)
  return wait
end

-- Dispatches a step: gives it a new token, and sets it in flight. A forward action is not
-- dispatched after the deadline that limits it, nor while a change waits; then the step comes to
-- rest.
function dispatch(job, i, rec, asked, nonce)
  local t, left = terms_of(job.def, i, asked), time_left(job, asked)
  if left and left <= 0 then
    -- the next drive sees the deadline, and turns or ends the job
    set_state(job, i, rec, STEP.AT_REST, 0)
    return
  elseif asked == STATE.ACTIVE and job.waits_for ~= '' then
    set_state(job, i, rec, STEP.AT_REST, 0)
    return
  end
  if not is_same_work(job, rec, asked) then
    -- an undo on the way forward gets the number before `since`: no forward action has that number
    rec.turn = (asked == STATE.DISABLED and job.desired == STATE.ACTIVE) and job.since - 1
      or job.turn
    rec.failures, rec.expiries, rec.unstarted = 0, 0, 0
  end
  if asked == STATE.ACTIVE then
    rec.forward = rec.turn
  end
  rec.asked = asked
  rec.attempt = rec.attempt + 1
  local name = int(i)
  rec.token = make_token(i, nonce)
  local wait = set_in_flight(job, i, rec, t, left)
  job.dispatched[#job.dispatched + 1] = {i = i, rec = rec, wait = wait}
  add_history(job, 'dispatched', name, int(rec.attempt), token_id(i, rec.token),
    asked == STATE.DISABLED and STATE.DISABLED or nil)
end

-- Adds requests in flight to the answer, to be sent again with their present tokens. An earlier
-- call for the same message may have dispatched them, and its scheduler may have died before it
-- published them. While no request may be sent, only those are added that were sent again because
-- the broker may have lost them.
function add_in_flight(job, list)
  if #list == 0 then
    return
  end
  local fields, steps = {}, {}
  for k = 1, min(#list, BUDGET) do
    fields[k], steps[k] = int(list[k]), list[k]
  end
  prefetch(job.def, steps)
  for k, text in ipairs(call('HMGET', job.key, unpack(fields))) do
    local i = steps[k]
    local rec = parse_record(text, step_of(job.def, i))
    local wait = wait_left(job, i, rec)
    if rec.state == STEP.IN_FLIGHT and wait > 0
      and (can_dispatch(job) or was_sent_again(job, i, rec)) then
      job.dispatched[#job.dispatched + 1] = {i = i, rec = rec, wait = wait, again = true}
      call('HSET', job.p .. 'data:' .. job.id, 'c' .. i, rec.token)
    end
  end
end

-- Calls add_in_flight() for all steps that an earlier call for the same message may have
-- dispatched: the dependents of i; or all steps, if there is no i or the job has turned, as long as
-- they fit the budget. The others are recovered after their LockedUntil.
function add_in_flight_after(job, i)
  if i and job.turn == 1 then
    add_in_flight(job, (dependents_at(job.def, i, 0)))
  elseif job.n <= BUDGET then
    local all = {}
    for k = 1, job.n do
      all[k] = k - 1
    end
    add_in_flight(job, all)
  end
end

-- Whether the job does not want the work of the last dispatch any more: the job is to end; or the
-- dispatch was of a forward action, and the job goes back or has turned since. An undo is finished
-- in either direction.
function is_obsolete(job, rec)
  return job.ending ~= '' or rec.asked == STATE.ACTIVE
    and (job.desired == STATE.DISABLED or rec.turn < job.since)
end

-- The Progress of a dispatch as stored, "token limit fraction note", or nil; and whether `taken`
-- has recorded that the request left its queue. The limit is the LockedUntil that the dispatch set.
function progress_of(p, id, i, token)
  local progress, was_taken = unpack(call('HMGET', p .. 'data:' .. id, 'p' .. i, 't' .. i))
  return progress and sub(progress, 1, #token + 1) == token .. ' ' and progress, was_taken == token
end
