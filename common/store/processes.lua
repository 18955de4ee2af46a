-- SPDX-License-Identifier: Apache-2.0
--
-- What schedulers and supervisors report about themselves: which supervisor leads the partition,
-- the watermark, and suspects.

local SUSPECTED = 3600000        -- ms for which incarnations that have begun a suspect are recorded
local SUSPECT_ALIVE = 200        -- ms in which one that has begun a suspect alone may be alive

-- Whether the lease in "… <until> <lease>" is not over. If more than the lease is left, the clock
-- was set back since, and the lease is over.
local function is_valid(text, now)
  local till, lease = match(text, '(%d+) (%d+)$')
  local left = (tonumber(till) or now) - now
  return left > 0 and left <= tonumber(lease)
end

-- The supervisor to which the rotation assigns this partition. The supervisors that are alive share
-- the partitions, in the order of their names, so that each has as many as any other, or one more.
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
-- A supervisor takes, keeps or gives up the lead of the partition. The calling supervisor counts as
-- alive for as long as its lease; with a lease of 0 it says that it stops. It becomes the leader if
-- the rotation assigns the partition to it and no other leader's lease is valid. A leader gives the
-- lead up if the rotation assigns the partition to another supervisor. The same call again extends
-- the lease. until: when the lead ends, that of the other supervisor if there is one; 0: no
-- supervisor leads.
--   LEADS
--   FOLLOWS
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
-- The watermark of the partition; what it was when the first scheduler connected in the present run
-- of the server (`began`); and which of the jobs are missing. A scheduler calls this first
-- on each new connection, so that no job is accepted before `began` is stored. id: the nonce of the
-- call that created the watermark; another id shows that it was created anew. The same call again
-- changes nothing.
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
-- Records which incarnations have begun a suspect. what:
--   begin   the calling incarnation begins this message, unless others are recorded. The answer
--           counts the incarnations, the caller among them. If it is not 1 nothing was recorded,
--           and the caller is to begin the message alone
--   alone   likewise, and the caller reads no other message meanwhile. The answer counts the
--           incarnations that have begun it alone, the caller among them. It is 0, and nothing is
--           recorded, if another one has, and the record is younger than SUSPECT_ALIVE ms: that one
--           may be alive, with a copy of the message, so the caller asks again
--   back    deletes the caller from the record
--   end     deletes the record
function functions.suspect(p, digest, incarnation, what)
  local now = now_ms()
  local known, others, alone = call('HGET', p .. 'suspects', digest), {}, 0
  if known and not is_old(known, now) then
    for word, mark in gmatch(known, ' (%x+)(!?)') do
      if word ~= incarnation then
        others[#others + 1] = word .. mark
        alone = alone + #mark
      end
    end
  end
  if what == 'begin' and #others > 0 then
    return {int(#others + 1)}
  elseif what == 'alone' and alone > 0 and is_new(known, now) then
    return {'0'}
  end
  local begins = what == 'begin' or what == 'alone'
  if begins then
    others[#others + 1] = incarnation .. (what == 'alone' and '!' or '')
    forget_some(p, now)
  end
  if what == 'end' or #others == 0 then
    call('HDEL', p .. 'suspects', digest)
  else
    call('HSET', p .. 'suspects', digest, int(now) .. ' ' .. concat(others, ' '))
  end
  return {int(begins and alone + 1 or 0)}
end
