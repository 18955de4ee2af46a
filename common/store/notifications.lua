-- SPDX-License-Identifier: Apache-2.0
--
-- What clients and persons are sent: notifications of the outbox, alert causes, and step events.

-- ms from each failed try to publish a notification to the next one: five tries in an hour
local NOTIFICATION_WAITS = {ASK_AGAIN, 300000, 1200000, 2100000}

local CAUSE_CLAIMED = 60000      -- ms for a scheduler to publish the alert of a new cause
local CAUSE_KNOWN = 7200000      -- ms for which a cause counts as known after its last sign
local CAUSES_CHECKED = 10        -- causes that are checked for their end when a new cause comes

-- What the outbox has of a notification: outcome, phase, turn, time, open steps, reason, failed
-- steps; nil if the text is damaged.
function notification_of(text)
  return match(text, '^(%S+) (%S+) (%d+) (%d+) (%d+) (%S*) ?([%d ]*)$')
end

-- Whether the outbox has no such notification, but another one: that of time `at` was lost, and the
-- job has made one of the same number since.
local function is_another(settled, at)
  local outcome, _, _, of = notification_of(settled or '')
  return outcome and of ~= at
end

-- settle_owed -> code
-- Deletes a notification from the outbox: the broker has confirmed it. at: when it was recorded.
-- The same call again changes nothing. The code is SETTLED.
function functions.settle_owed(p, job_id, seq, at)
  local data = p .. 'data:' .. job_id
  if not is_another(call('HGET', data, 's' .. seq), at) then
    call('ZREM', p .. 'owed', job_id .. ' ' .. seq)
    local known = call('HDEL', data, 's' .. seq, 'n' .. seq, 'w' .. seq, 'v' .. seq)
    if known > 0 then
      count_up(p .. 'job:' .. job_id, 'owes', -1) -- not below 0: builds before 22 did not count
    end
  end
  return {'SETTLED'}
end

-- How many tries to publish a notification have failed, and when the next one is due, in Unix ms.
-- record: "failed due", or false. Builds before 49 did not record the time. If the record is
-- damaged one try is left, because no notification may be published for ever.
function failed_tries(record)
  local failed, due = match((record or '0') .. ' ', '^(%d) (%d*) ?$')
  due = tonumber(due) or 0
  return min(tonumber(failed) or #NOTIFICATION_WAITS, #NOTIFICATION_WAITS),
    due <= now_ms() + NOTIFICATION_WAITS[#NOTIFICATION_WAITS] and due or 0 -- the clock was set back
end

-- defer_owed -> code
-- A scheduler could not publish a notification, because its queue is gone or the broker refused it:
-- the next try comes later. A try whose outcome no scheduler knows is not counted: `expire` names
-- the notification again. at: as in settle_owed. tries: how many had failed before this one, so
-- that the same call again changes nothing. The code is DEFERRED.
function functions.defer_owed(p, job_id, seq, at, tries)
  local data, failed = p .. 'data:' .. job_id, tonumber(tries)
  local settled, record = unpack(call('HMGET', data, 's' .. seq, 'n' .. seq))
  if settled and not is_another(settled, at) and failed_tries(record) == failed then
    failed = min(failed + 1, #NOTIFICATION_WAITS)
    local due = now_ms() + NOTIFICATION_WAITS[failed]
    call('HSET', data, 'n' .. seq, int(failed) .. ' ' .. int(due))
    call('ZADD', p .. 'owed', int(due), job_id .. ' ' .. seq)
  end
  return {'DEFERRED'}
end

-- Deletes causes that are over although no scheduler has reported that, because their actor never
-- came back. Each new cause makes this function check some causes at random, so those that are over
-- stay far fewer than the others.
local function forget_causes(p, now)
  local some = call('HRANDFIELD', p .. 'told', int(CAUSES_CHECKED), 'WITHVALUES')
  for k = 1, #some, 2 do
    if some[k] ~= 'letters' and tonumber(match(some[k + 1], '^%d+')) <= now then
      call('HDEL', p .. 'told', some[k])
    end
  end
end

-- The queue drover.dead has `there` messages. Since its last such report the calling scheduler has
-- put `own` messages into it, and has raised alerts about them. Messages that no scheduler reports
-- within a minute come from others, and are news. Return: how many of these there are. The field
-- `letters` is "known unseen since seen":
--   known    messages that are known
--   unseen   messages that a scheduler has put into the queue, and no call has seen there yet
--   since    from when on there have been more messages than known + unseen; negative: fewer; 0: as
--            many
--   seen     how many messages there were at that time
local function unknown_letters(p, now, there, own)
  local known, unseen, since, seen = match(call('HGET', p .. 'told', 'letters') or '',
    '^(%d+) (%d+) (%-?%d+) (%d+)$')
  known, unseen = tonumber(known), (tonumber(unseen) or 0) + own
  since, seen = tonumber(since) or 0, tonumber(seen) or 0
  local count, grown = 0, known and there - known - unseen
  if not known or there < known or since > now then -- there < known: a person has read some
    known, unseen, since = there, 0, 0
  elseif grown > 0 and (since <= 0 or now - since >= CAUSE_CLAIMED) then
    count = since > 0 and max(seen - known - unseen, 0) or 0
    known, since, seen = known + count, grown > count and now or 0, there
  elseif grown <= 0 then
    known, unseen, since = there, -grown, grown < 0 and (since < 0 and since or -now) or 0
    if since < 0 and now + since >= CAUSE_CLAIMED then -- they will not come any more
      unseen, since = 0, 0
    end
  end
  call('HSET', p .. 'told', 'letters',
    concat({int(known), int(unseen), int(since), int(seen)}, ' '))
  return count
end

-- told -> <news>
-- Asks whether an alert cause is new, or reports what became of it. Each alert cause is published
-- once, by whichever scheduler meets it. what:
--   ask       is the cause new? The code is KNOWN or NEWS. NEWS reserves the cause for one minute,
--             in which the calling scheduler is to publish the alert. If the same nonce asks again
--             it gets NEWS again
--   told      the broker has confirmed the alert. The cause counts as known until CAUSE_KNOWN ms
--             after its last sign. The code is TOLD
--   over      the cause is over: its next sign is NEWS. The code is OVER
--   letters   see unknown_letters(). The code is NEWS, with their number, or KNOWN
function functions.told(p, cause, what, nonce, there, own)
  local now = now_ms()
  if what == 'letters' then
    local count = unknown_letters(p, now, tonumber(there), tonumber(own))
    return {count > 0 and 'NEWS' or 'KNOWN', int(count)}
  elseif what == 'over' then
    call('HDEL', p .. 'told', cause)
    return {'OVER'}
  end
  local till, by = match(call('HGET', p .. 'told', cause) or '0 ', '^(%d+) ?(%x*)$')
  local known = tonumber(till) > now and tonumber(till) <= now + CAUSE_KNOWN
  if what == 'told' then
    if till ~= '0' then -- it is not over meanwhile
      call('HSET', p .. 'told', cause, int(now + CAUSE_KNOWN))
    end
    return {'TOLD'}
  elseif not known or by == nonce then
    if till == '0' then
      forget_causes(p, now)
    end
    call('HSET', p .. 'told', cause, int(now + CAUSE_CLAIMED) .. ' ' .. nonce)
    return {'NEWS'}
  elseif by == '' then -- published; this is a sign that it goes on
    call('HSET', p .. 'told', cause, int(now + CAUSE_KNOWN))
  end
  return {'KNOWN'}
end

local HEARD_MOST = 1000          -- history entries that one call reads: the last ones
local CLIENT_EVENTS = {dispatched = true, began = true, done = true, undone = true, failed = true,
  parked = true}

-- step_events -> <events>
-- What has happened at the steps of a job since the last call, for the client that has asked for
-- step events. Each entry is read once: if the calling scheduler dies the client does not get it.
-- agent: "-" for none.
--   FOUND
--   UNKNOWN_JOB   there is no such job, or its client has not asked for step events
function functions.step_events(p, job_id)
  local job = load(p, job_id, now_ms(), '0')
  if not job or job.events ~= 'reply' then
    return {'UNKNOWN_JOB'}
  end
  local data = p .. 'data:' .. job_id
  local workflow, submitter, reply_to, correlation, encoding, heard = unpack(call('HMGET', data,
    'workflow', 'submitter', 'reply_to', 'correlation', 'format', 'heard'))
  local out = {'FOUND', int(job.now) .. ' ' .. int(job.open) .. ' ' .. int(job.n), workflow or '',
    submitter or '', reply_to or '', correlation or '', encoding or ''}
  local n_new = min(job.seq - (tonumber(heard or '') or 0), HEARD_MOST)
  if n_new <= 0 then
    return out
  end
  call('HSET', data, 'heard', int(job.seq))
  for _, entry in ipairs(call('LRANGE', p .. 'hist:' .. job_id, int(-n_new), '-1')) do
    local seq, at, event, i, attempt, last = match(entry,
      '^(%d+) (%d+) (%l+) (%d+) ?(%d*) ?%S* ?(%S*)')
    i = tonumber(i)
    if CLIENT_EVENTS[event] and i < job.n then
      local rec = parse_record(call('HGET', job.key, int(i)), step_of(job.def, i))
      local failure = (event == 'failed' or event == 'parked') and call('HGET', data, 'e' .. int(i))
      put(out, concat({seq, at, event, attempt ~= '' and attempt or int(rec.attempt),
        event == 'dispatched' and (last == STATE.DISABLED and STATE.DISABLED or STATE.ACTIVE)
          or rec.asked,
        event ~= 'dispatched' and last ~= '' and last or '-'}, ' '),
        step_of(job.def, i).name or '', failure and deciding.without_details(failure) or '')
    end
  end
  return out
end
