-- SPDX-License-Identifier: Apache-2.0
--
-- What schedulers and supervisors say of themselves: the lead of the partition, the watermark, and
-- suspects.

local SUSPECTED = 3600000        -- ms that an incarnation which has begun a suspect is recorded
local SUSPECT_ALIVE = 200        -- ms after an incarnation began a suspect in which it may be alive

-- Whether "… <until> <lease>" is not over. If more is left than the lease, the clock has stepped
-- back since, and it is over.
local function is_valid(text, now)
  local till, lease = match(text, '(%d+) (%d+)$')
  local left = (tonumber(till) or now) - now
  return left > 0 and left <= tonumber(lease)
end

-- The supervisor whose turn this partition is. Those that are alive share the partitions, in the
-- order of their names: each has as many as any other, or one more.
local function assigned_to(p, name, lease, now)
  local known, names = call('HGETALL', p .. 'supervisors'), {}
  for k = 1, #known, 2 do
    if known[k] ~= name and is_valid(known[k + 1], now) then
      names[#names + 1] = known[k]
    elseif known[k] ~= name or lease == 0 then
      call('HDEL', p .. 'supervisors', known[k])
    end
  end
  if lease > 0 then
    names[#names + 1] = name
    call('HSET', p .. 'supervisors', name, int(now + lease) .. ' ' .. int(lease))
  end
  table.sort(names)
  return names[tonumber(match(p, '(%d+)}:$')) % max(#names, 1) + 1]
end

-- lead -> <leading>
-- A supervisor takes, keeps or gives up the lead of the partition. The calling supervisor is alive
-- for as long as its lease; with a lease of 0 it says that it stops. It leads the partition if the
-- rotation assigns it to it and no other leader's lease lasts. A leader gives the partition up if
-- the rotation assigns it to another supervisor. The same call again extends the lease. LEADS or
-- FOLLOWS. until: when the lead ends, that of the other supervisor if there is one; 0: no
-- supervisor leads.
function functions.lead(p, supervisor, lease)
  local now = now_ms()
  lease = tonumber(lease)
  local mine = assigned_to(p, supervisor, lease, now) == supervisor
  local leader = call('GET', p .. 'leader')
  if leader and match(leader, '^%S+') ~= supervisor and is_valid(leader, now) then
    return {'FOLLOWS', match(leader, '(%d+) %d+$'), int(now)}
  elseif mine then
    call('SET', p .. 'leader', supervisor .. ' ' .. int(now + lease) .. ' ' .. int(lease))
    return {'LEADS', int(now + lease), int(now)}
  elseif leader then
    call('DEL', p .. 'leader')
  end
  return {'FOLLOWS', '0', int(now)}
end

-- mark -> <watermark>
-- The watermark of the partition, what it was when a scheduler first met the present run of the
-- server, and which of the jobs are not there. A scheduler calls this first on each new connection,
-- so that no job is accepted in a run that no scheduler has met. id: the nonce of the call that
-- made the watermark; another id shows that it was made anew. The same call again changes nothing.
function functions.mark(p, run, nonce, list, first)
  local key = p .. 'mark'
  local id, count, known_run, began = unpack(call('HMGET', key, 'id', 'count', 'run', 'began'))
  id, count = id or nonce, count or '0'
  if known_run ~= run then
    began = count
    call('HSET', key, 'id', id, 'run', run, 'began', began)
  end
  local lost = {}
  for k = first, #list do
    if call('EXISTS', p .. 'job:' .. list[k]) == 0 then
      lost[#lost + 1] = list[k]
    end
  end
  local out = {int(now_ms()), id, count, began, int(#lost)}
  put(out, unpack(lost))
  return out
end

local function is_old(known, now)
  local at = tonumber(match(known, '^%d+'))
  return now > at + SUSPECTED or now < at - SUSPECTED
end

local function forget_some(p, now)
  local some = call('HRANDFIELD', p .. 'suspects', '3', 'WITHVALUES')
  for k = 1, #some, 2 do
    if is_old(some[k + 1], now) then
      call('HDEL', p .. 'suspects', some[k])
    end
  end
end

local function is_new(known, now)
  local at = tonumber(match(known, '^%d+'))
  return now >= at and now < at + SUSPECT_ALIVE
end

-- suspect -> incarnations
-- Records which incarnations have begun a suspect. what: begin, back or end.
-- begin: the calling incarnation begins this message. The answer counts the incarnations that are
-- recorded, the caller among them. 0: two others are recorded, and one of them has begun the
-- message so lately that it may be alive, with a copy; nothing is recorded, and the caller asks
-- again. back: deletes the record of the caller. end: deletes the records of all.
function functions.suspect(p, digest, incarnation, what)
  local now = now_ms()
  local known, incarnations = call('HGET', p .. 'suspects', digest), {}
  if known and not is_old(known, now) then
    for word in gmatch(known, ' (%x+)') do
      incarnations[#incarnations + 1] = word ~= incarnation and word or nil
    end
  end
  if what == 'begin' and #incarnations > 1 and is_new(known, now) then
    return {'0'}
  end
  if what == 'begin' then
    incarnations[#incarnations + 1] = incarnation
    forget_some(p, now)
  end
  if what == 'end' or #incarnations == 0 then
    call('HDEL', p .. 'suspects', digest)
  else
    call('HSET', p .. 'suspects', digest, int(now) .. ' ' .. concat(incarnations, ' '))
  end
  return {int(#incarnations)}
end
