-- SPDX-License-Identifier: Apache-2.0
--
-- The store function `forget`: deletes jobs that ended long ago.

local UNUSED_DEFINITION = 3600000 -- ms that a definition may wait for its first job

local function forget_job(p, id)
  local key = p .. 'job:' .. id
  local digest = call('HGET', key, 'def')
  if digest then
    release_definition(p, digest)
  end
  local workflow, labels = unpack(call('HMGET', p .. 'data:' .. id, 'workflow', 'index'))
  workflow, labels = workflow or '', labels or ''
  -- a build before 45 has counted the input only
  local cost = call('HGET', key, 'cost')
  if not cost then
    cost = #(unpack(call('HMGET', p .. 'data:' .. id, 'input')) or '')
  end
  cost = tonumber(cost) or 0
  for _, index in ipairs(index_keys(p, workflow, labels)) do
    call('ZREM', index, id)
  end
  for _, label in ipairs(split_texts(labels)) do
    local owner = match(label, '^=(.*)$') -- if the job has an owner
    if owner and cost > 0 and call('HINCRBY', p .. 'users', owner, int(-cost)) <= 0 then
      call('HDEL', p .. 'users', owner)
    end
  end
  local needs = match(call('HGET', key, 'attention') or '', '^%S+')
  if needs then
    call('ZREM', p .. 'needs', id)
    call('ZREM', p .. 'needs:' .. needs, id)
  end
  call('UNLINK', key, p .. 'data:' .. id, p .. 'hist:' .. id)
  call('ZREM', p .. 'settled', id)
  call('ZREM', p .. 'failed', id)
end

-- Whether the outbox has a notification of the job. Builds before 22 did not count them in the job.
local function in_outbox(p, id)
  local count, seq = unpack(call('HMGET', p .. 'job:' .. id, 'owes', 'seq'))
  return (tonumber(count or '0') or 0) > 0 or call('ZSCORE', p .. 'owed', id .. ' ' .. (seq or ''))
end

-- Jobs that have ended since this time are kept. If the clock has jumped forward, jobs that ended
-- before the jump are kept longer by its size, because their retention has not really passed: a
-- client may still submit one of them again.
local function kept_since(p, now, retention)
  local clock, since = read_clock(p), now - retention
  return since - clock.by < clock.jumped and since - clock.by or since
end

-- How many jobs of this partition need a person: because of parked steps, because of a deadline,
-- because of their end.
local function count_needs(p)
  return int(call('ZCARD', p .. 'needs:parked')), int(call('ZCARD', p .. 'needs:deadline')),
    int(call('ZCARD', p .. 'needs:ended'))
end

-- forget -> <forgotten>
-- Deletes jobs that have ended and whose retention (ms) is over. If the outbox has a notification
-- of such a job its retention begins again instead. Deletes definitions that no job has used. At
-- most `limit` of each. jobs: how many it has deleted. more: 1 if the same call again may delete
-- more. parked, deadline, ended: how many jobs need a person.
function functions.forget(p, retention, limit)
  local now = now_ms()
  limit = tonumber(limit)
  if is_quiet(p, now) then
    return {'0', '0', count_needs(p)}
  end
  local list = call('ZRANGEBYSCORE', p .. 'settled', '-inf',
    int(kept_since(p, now, tonumber(retention))), 'LIMIT', 0, limit)
  local forgotten = 0
  for _, id in ipairs(list) do
    if in_outbox(p, id) then
      call('ZADD', p .. 'settled', int(now), id)
    else
      forget_job(p, id)
      forgotten = forgotten + 1
    end
  end
  local unused = call('ZRANGEBYSCORE', p .. 'defs', '-inf', int(now - UNUSED_DEFINITION),
    'LIMIT', 0, limit)
  for _, digest in ipairs(unused) do
    if (tonumber(call('HGET', p .. 'def:' .. digest, 'refs') or '') or 0) == 0 then
      call('UNLINK', p .. 'def:' .. digest)
    end
    call('ZREM', p .. 'defs', digest)
  end
  return {int(forgotten), #list == limit and '1' or '0', count_needs(p)}
end
