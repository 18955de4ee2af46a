-- SPDX-License-Identifier: Apache-2.0
--
-- Writes a job: all that a call has changed in it, and the lists of jobs that need attention.

local CURSOR_GRACE = 1000        -- ms for the scheduler that left a cursor to drive the job on

local function cursor_text(job)
  local words = {}
  for _, s in ipairs(job.cursor) do
    words[#words + 1] = s.from .. ':' .. s.offset .. (s.edge > 0 and ':' .. s.edge or '')
  end
  return concat(words, ' ')
end

local function save_history(job)
  if #job.history == 0 then
    return
  end
  local key = job.p .. 'hist:' .. job.id
  local length
  for first = 1, #job.history, 1000 do
    length = call('RPUSH', key, unpack(job.history, first, min(first + 999, #job.history)))
  end
  local cap = max(HISTORY_MIN, 4 * job.n)
  if length > cap then
    call('LTRIM', key, -cap, -1)
  end
end

-- Why the job needs a person: parked; deadline (the job is on hold, and its deadline has passed);
-- ended. '' if it does not.
local function need_of(job)
  if job.acknowledged then
    return ''
  elseif finished(job) then
    return job.attention_for_end and 'ended' or ''
  end
  local waits = job.hold == 'deadline' or job.hold ~= '' and deadline.in_force(job)
  return job.parked > 0 and 'parked' or waits and 'deadline' or ''
end

-- Updates the lists of jobs that need attention, and the reason why this one does.
local function update_attention(job)
  local kind, was, since = need_of(job), match(job.attention, '^(%S+) (%d+)')
  was = was or ''
  if kind == was then
    if kind ~= '' and job.attention_cause then
      set(job, 'attention', kind .. ' ' .. since .. ' ' .. job.attention_cause)
    end
    return
  end
  if was ~= '' then
    call('ZREM', job.p .. 'needs:' .. was, job.id)
  end
  if kind == '' then
    call('ZREM', job.p .. 'needs', job.id)
    set(job, 'attention', '')
    return
  end
  local created = job.changed.created or call('HGET', job.key, 'created')
  call('ZADD', job.p .. 'needs', created, job.id)
  call('ZADD', job.p .. 'needs:' .. kind, created, job.id)
  local attention_cause = job.attention_cause or kind == 'deadline' and '- - DEADLINE'
    or match(job.attention, '^%S+ %d+ (.*)') or '- - -'
  set(job, 'attention', kind .. ' ' .. int(job.now) .. ' ' .. attention_cause)
end

function save(job, by)
  if not job.plain or job.attention_for_end or job.parked > 0 then
    update_attention(job)
  end
  if has_cursor_work(job) then
    lower_due(job, job.now + CURSOR_GRACE)
  end
  local changed = job.changed
  if job.busy ~= job.was_busy then
    changed.busy = int(job.busy)
  end
  if by then
    changed.locked_by = by
  end
  if job.due_changed and not finished(job) then
    changed.due = int(job.due)
    call('ZADD', job.p .. 'due', changed.due, job.id)
  end
  if #job.cursor > 0 or job.had_cursor then
    changed.cursor = cursor_text(job)
  end
  if job.scan_changed then
    changed.scan = job.scan and format('%d %.0f', job.scan.offset, job.scan.least) or ''
  end
  local fields = {'open', int(job.open), 'seq', int(job.seq), 'updated', int(job.now)}
  local n, rare = 6, false
  for name, value in pairs(changed) do
    rare = rare or is_rare[name]
    fields[n + 1], fields[n + 2], n = name, value, n + 2
  end
  if job.plain and rare then
    fields[n + 1], fields[n + 2], n = 'plain', '0', n + 2
    job.bare = false -- complete_by may be one of these fields: put_requests() must read it
  end
  for i, rec in pairs(job.records) do
    fields[n + 1], fields[n + 2], n = int(i), record_text(rec), n + 2
  end
  for first = 1, n, 2000 do
    call('HSET', job.key, unpack(fields, first, min(first + 1999, n)))
  end
  save_history(job)
end
