-- SPDX-License-Identifier: Apache-2.0
--
-- Messages that the broker has lost, with a restart or with a queue; and the store function `lost`.
--
-- Requests and replies need not be safe in the broker, because the store knows all dispatches. If
-- the broker has lost messages, each dispatch that was made before, and is in flight, is sent once
-- more under its token, without waiting for its LockedUntil: `lost` records when, `expire` names
-- the steps, and `drive` adds their requests to its answer.

local JOBS = 500                 -- in one call of `lost`
local LOSSES_MAX = 1000          -- most actors in the record of a partition
local ALL = '*'                  -- in place of an actor: all actors

-- When the broker has lost messages last: actor -> time, for what concerns all actors under ALL.
-- nil: never. A time to come was recorded before the clock was set back; it becomes `now`, which
-- `expire` records (mends).
function losses(p, now, mends)
  local list, found = call('HGETALL', p .. 'lost'), nil
  for k = 1, #list, 2 do
    local at = num(list[k + 1])
    if at > now then
      at = now
      if mends then
        call('HSET', p .. 'lost', list[k], int(at))
      end
    end
    found = found or {}
    found[list[k]] = at
  end
  return found
end

-- Whether the request of a dispatch was sent again under its token, for any loss.
function was_sent_again(job, i, rec)
  local again = unpack(call('HMGET', job.p .. 'data:' .. job.id, 'x' .. int(i)))
  return again and match(again, '^%S+') == rec.token
end

-- Whether a dispatch with this LockedUntil was made at or before the loss. One whose time the
-- deadline has cut short may have been made later. If LockedUntil is later than any dispatch can
-- set it the clock was set back since: then it counts as made before.
local function made_before(job, t, rec, till, at)
  local given = wait_of(t, rec) + t.lock
  return till - given <= at or till > job.now + given
end

-- Whether the broker may have lost the request of this dispatch, or its reply, and the request was
-- not sent again since. known: of losses(). Return: nil; or when the loss was recorded, and the
-- time before which the request is not to be sent again: if the agent sends heartbeats, three of
-- them after its last Progress, and after the loss. A dispatch that the deadline has ended is not
-- sent again.
function is_lost(job, i, rec, known)
  local t = terms_of(job.def, i, rec.asked)
  local at = max(known[ALL] or 0, known[t.actor] or 0)
  if at == 0 or cut_by_deadline(job, rec) or not made_before(job, t, rec, rec.till, at) then
    return nil
  end
  local progress, again, cut_short = unpack(call('HMGET', job.p .. 'data:' .. job.id,
    'p' .. int(i), 'x' .. int(i), 'd' .. int(i)))
  local token, made = match(cut_short or '', '^(%S+) (%d+)$')
  if token == rec.token and tonumber(made) > at and tonumber(made) <= job.now then
    return nil
  end
  local limit = progress and match(progress, '^%S+') == rec.token
    and tonumber(match(progress, '^%S+ (%d+)'))
  if limit and not made_before(job, t, rec, limit, at) or again == rec.token .. ' ' .. int(at) then
    return nil
  end
  return at, limit and t.heartbeat > 0 and max(rec.till, at + 3 * t.heartbeat) or 0
end

-- Adds the request of a dispatch that is lost to the answer: the same token, with all its time
-- again. at: of is_lost(). That an agent had begun the request is no evidence any more that one has
-- it.
function send_again(job, i, rec, at)
  local t, name, data = terms_of(job.def, i, rec.asked), int(i), job.p .. 'data:' .. job.id
  local progress, was_taken = progress_of(job.p, job.id, i, rec.token)
  if progress or was_taken then
    call('HDEL', data, 'p' .. name, 't' .. name)
    call('HSET', job.key, 'b' .. name, '1')
  end
  call('HSET', data, 'c' .. name, rec.token, 'x' .. name, rec.token .. ' ' .. int(at))
  local wait = set_in_flight(job, i, rec, t, time_left(job, rec.asked))
  job.dispatched[#job.dispatched + 1] = {i = i, rec = rec, wait = wait, again = true}
  add_history(job, 'resent', name, int(rec.attempt), token_id(i, rec.token))
end

-- Has `expire` inspect a job now, if steps of it may be in flight.
local function make_due(p, id, now)
  local key = p .. 'job:' .. id
  local busy, due = unpack(call('HMGET', key, 'busy', 'due'))
  if not busy or busy == '0' then
    return
  end
  call('HDEL', key, 'scan') -- it has passed steps that were not lost then
  if (tonumber(due) or now + 1) > now then
    call('HSET', key, 'due', int(now))
    call('ZADD', p .. 'due', int(now), id)
  end
end

-- Where the walk over the unfinished jobs goes on, as a place in `open`. cursor: "<created> <job>"
-- of the job before. A job that has ended since is not there any more: then those that were created
-- in the same millisecond are visited again.
local function place_after(p, cursor)
  local created, id = match(cursor, '^(%S+) (%S+)$')
  local rank = id and call('ZRANK', p .. 'open', id)
  return not id and 0 or rank and rank + 1 or call('ZCOUNT', p .. 'open', '-inf', '(' .. created)
end

-- lost -> <loss>
-- Records that the broker may have lost the requests and replies of all dispatches that were made
-- more than `age` ms ago; of one actor, or of all (`*`). `expire` then names
-- those in flight. It takes several calls. cursor: '' in the first; then that of the answer before,
-- until it is ''. at: '0' in the first call; then that of the answer before, in place of `age`; so
-- also if the store may have forgotten the loss. Recording it again with a later time has
-- dispatches sent twice.
function functions.lost(p, actor, age, at, cursor)
  local now, key = now_ms(), p .. 'lost'
  at = num(at) > 0 and min(num(at), now) or now - num(age)
  if cursor == '' then
    if call('HLEN', key) >= LOSSES_MAX then
      actor, at = ALL, now
      call('UNLINK', key)
    end
    local old = num(call('HGET', key, actor) or '0')
    if old < at or old > now then
      call('HSET', key, actor, int(at))
    end
  end
  local from = place_after(p, cursor)
  local list = call('ZRANGE', p .. 'open', from, from + JOBS - 1, 'WITHSCORES')
  for k = 1, #list, 2 do
    try_job(make_due, p, list[k], now) -- a sweep reports a job that is corrupt
  end
  return {int(at), #list < 2 * JOBS and '' or list[#list] .. ' ' .. list[#list - 1]}
end
