-- SPDX-License-Identifier: Apache-2.0
--
-- The store function `expire`: what a supervisor finds due.


-- Evidence that an agent has had a request: it has sent Progress, or a scheduler has seen that the
-- request left its queue (taken). Without evidence the request may still be in its queue, behind
-- others: RabbitMQ expires messages only at the head of a queue. Return: whether there is evidence,
-- and the Progress if there is one.
local function has_evidence(job, i, rec)
  local progress, was_taken = progress_of(job.p, job.id, i, rec.token)
  return progress or was_taken, progress
end

-- How many ms ahead LockedUntil was when it was last set: by the dispatch (wait plus lease), or by
-- a Progress.
local function lease_length(job, i, rec, t)
  if not progress_of(job.p, job.id, i, rec.token) then
    return wait_of(t, rec) + t.lock
  end
  return t.heartbeat > 0 and min(3 * t.heartbeat, t.lock) or t.lock
end

-- Withdraws the token of a step whose LockedUntil has passed. Counts an expiry if there is evidence
-- that an agent had the request, unless the deadline cut the dispatch short. If no Progress was
-- received, the next request may wait twice as long in its queue.
local function withdraw(job, i, rec)
  local counts, progress = has_evidence(job, i, rec)
  if cut_by_deadline(job, rec) then
    counts = false
  end
  -- "token limit fraction@agent"
  local agent = progress and match(progress, '^%S+ %d+ [^@ ]*@(%S+)')
  add_history(job, counts and 'expired' or 'silent', i, rec.attempt, token_id(i, rec.token), agent)
  if counts then
    rec.expiries = rec.expiries + 1
  end
  -- a request that left its queue may still be unread in an agent's prefetch: it gets more time
  rec.unstarted = progress and 0 or rec.unstarted + 1
  rec.current, rec.token = STATE.UNKNOWN, counts and '-' or NO_EVIDENCE
  call('HSET', job.key, 'b' .. i, '1')
end

-- Inspects one step. Return: when to inspect it again; nil for never. A step in flight expires only
-- when LockedUntil is exceeded by lease_factor times its lease. Other steps that are due are only
-- named. Each of them gets the state RECOVERY_REQUESTED, so that a Recover acts once; but a step
-- whose dispatch the broker has lost stays in flight, is named until its request is sent again, and
-- does not expire before.
local function expire_step(job, i, text, lease_factor, clock, known_losses, named)
  local rec = parse_record(text)
  if rec.state == STEP.IN_FLIGHT then
    local t = terms_of(job.def, i, rec.asked)
    local given = wait_of(t, rec) + t.lock
    if known_losses then
      local lost, later = is_lost(job, i, rec, known_losses)
      if lost then
        if later <= job.now then
          named[#named + 1] = i
        end
        return rec.till > job.now and min(rec.till, job.now + ASK_AGAIN) or job.now + ASK_AGAIN
      end
    end
    if rec.till > job.now + given then -- no dispatch gives more: the clock was set back
      rec.till = job.now + given
      job.records[i] = rec
    end
    local till = lease_end(clock, rec.till, given)
    if till > rec.till then
      till = lease_end(clock, rec.till, lease_length(job, i, rec, t))
    end
    if till > job.now then
      return till
    elseif job.now < clock.quiet or lease_factor > 0 and till + lease_factor * t.lock > job.now then
      return job.now + ASK_AGAIN
    end
    job.records[i] = rec
    -- brings `since` up to date, so that the turn does not cancel RECOVERY_REQUESTED as a timer
    record_of(job, i)
    withdraw(job, i, rec)
  elseif rec.till == 0 then
    return nil
  elseif rec.till > job.now
    and not (rec.state == STEP.RECOVERY_REQUESTED and rec.till > job.now + ASK_AGAIN) then
    -- A later time of a requested recovery was written before the clock was set back.
    return rec.till
  elseif (job.hold ~= '' or job.waits_for ~= '' and next_asked(job, rec) == STATE.ACTIVE)
    and not is_obsolete(job, rec) then
    return nil -- WALK.RESUME, after Resume or after the change, visits every step
  end
  if rec.state == STEP.IN_FLIGHT then -- its token was just withdrawn
    named.expired = (named.expired or 0) + 1
    table.insert(named, named.expired, i)
  else
    named[#named + 1] = i
    if rec.state == STEP.PARKED and rec.current == STATE.UNKNOWN
      and rec.expiries >= terms_of(job.def, i, rec.asked).expiries then
      rec.token = SILENCE_OVER
    end
  end
  rec.state, rec.till = STEP.RECOVERY_REQUESTED, job.now + ASK_AGAIN
  job.records[i] = rec
  return rec.till
end

-- Inspects up to BUDGET steps. Return: whether all steps of the job are inspected now, so that
-- `due` is exact again.
local function expire_scan(job, lease_factor, clock, known_losses, named)
  local scan = job.scan or {offset = 0, least = job.now + SWEEP_BOUND}
  local last = min(scan.offset + BUDGET, job.n)
  local fields = {}
  for i = scan.offset, last - 1 do
    fields[#fields + 1] = int(i)
  end
  for k, text in ipairs(call('HMGET', job.key, unpack(fields))) do
    if text_under_way(text) then
      local t = expire_step(job, scan.offset + k - 1, text, lease_factor, clock, known_losses,
        named)
      scan.least = min(scan.least, t or scan.least)
    end
  end
  scan.offset = last
  job.scan_changed = true
  if last < job.n then
    job.scan = scan
    return false
  end
  job.scan = nil
  job.due = scan.least
  job.due_changed = true
  return true
end

-- Whether the turn is to end now. The call that brought the job to this point has not ended the
-- turn: either a sweep has mended counters of the job since, or the job has waited for its next
-- pass.
local function should_settle(job)
  return job.hold == '' and #job.cursor == 0 and job.next_try <= job.now
    and (job.open == 0 or job.busy == 0
    and (job.ending ~= '' or job.failed_forward + job.failed_undo > 0))
end

local function touch_deadline(job, clock)
  local at = deadline_unhandled(job) and clock.quiet or job.complete_by
  if at > job.now and job.desired == STATE.ACTIVE then
    lower_due(job, at)
  end
end

local function expire_job(p, id, now, lease_factor, clock, known_losses, out)
  local job = load(p, id, now, '0')
  if not job or finished(job) then
    call('ZREM', p .. 'due', id)
    return 0, true
  end
  local named = {}
  if job.phase == 'PENDING' then
    local early = job.start_at > now or job.hold ~= '' or now < clock.quiet
    local later = job.hold ~= '' and now + SWEEP_BOUND or max(job.start_at, clock.quiet)
    job.due, job.due_changed = early and later or now + ASK_AGAIN, true
    save(job)
    if not early then
      put(out, id, '0', '0')
    end
    return early and 0 or 1, true
  end
  local whole = expire_scan(job, lease_factor, clock, known_losses, named)
  local go = has_cursor_work(job) or deadline_unhandled(job) and now >= clock.quiet
    or should_settle(job)
  if go then
    lower_due(job, now + ASK_AGAIN)
  end
  touch_deadline(job, clock)
  if job.next_try > now then
    lower_due(job, job.next_try)
  end
  save(job)
  if #named == 0 and not go then
    return 0, whole
  end
  put(out, id, int(named.expired or 0), int(#named))
  for _, i in ipairs(named) do
    out[#out + 1] = int(i)
  end
  return 1, whole
end

-- By HMGET: a supervisor has no right to HGET the data of a job.
local function has_notification(p, id, seq)
  return (unpack(call('HMGET', p .. 'data:' .. id, 's' .. seq)))
end

local function expire_notifications(p, now, skip, limit, out)
  local list = call('ZRANGEBYSCORE', p .. 'owed', '-inf', int(now), 'LIMIT', skip, limit)
  for _, member in ipairs(list) do
    local id, seq = match(member, '^(%S+) (%d+)$')
    local good, is_there = try_job(has_notification, p, id or '', seq or '')
    if good and is_there then
      call('ZADD', p .. 'owed', int(now + ASK_AGAIN), member)
      put(out, id, seq)
    else
      call('ZREM', p .. 'owed', member)
    end
  end
  return #out / 2, #list == limit
end

-- expire -> <expired>
-- Inspects the jobs that are due, and withdraws the tokens of steps in flight past LockedUntil. The
-- answer names what the supervisor asks schedulers for: jobs with their steps, of which the first
-- `expired` have expired and the others are only due or lost (see is_lost()), and notifications of
-- the outbox. The same call again names a step or a notification again only after a while
-- (ASK_AGAIN), and counts no expiry twice.
--   skip, limit           of the due jobs, and also of the due notifications: how many to pass
--                         over, and how many to inspect
--   lease_factor          by how many leases LockedUntil must be exceeded before a dispatch expires
--   since jump after at   see watch_clock()
--   latest                the latest time that the clock can show, 0 if not known. If it shows a
--                         later time, it has jumped or the call was delayed: the answer names
--                         nothing, and the supervisor first finds out which
--   head                  when the first job is due, or 0
--   more                  1 if more is due
--   back                  1 if the clock was set back and the partition is to be swept
function functions.expire(p, skip, limit, lease_factor, latest, since, jump, after, at)
  local now = now_ms()
  skip, limit, latest = tonumber(skip), tonumber(limit), tonumber(latest)
  lease_factor = tonumber(lease_factor)
  if latest > 0 and now > latest then
    return {int(now), '0', '0', '0', '0', '0'}
  end
  local clock = watch_clock(p, now, tonumber(since), tonumber(jump), tonumber(after), tonumber(at))
  local known_losses, jobs, notifications = losses(p, now, true), {}, {}
  local n_jobs, more, seen = 0, false, 0
  local list = call('ZRANGEBYSCORE', p .. 'due', '-inf', int(now), 'LIMIT', skip, limit)
  for k, id in ipairs(list) do
    local steps = tonumber(call('HGET', p .. 'job:' .. id, 'n') or '0') or 0
    if k > 1 and seen + min(steps, BUDGET) > BUDGET then
      more = true
      break
    end
    seen = seen + min(steps, BUDGET)
    local good, named, whole = try_job(expire_job, p, id, now, lease_factor, clock,
      known_losses, jobs)
    if good then
      n_jobs = n_jobs + named
      more = more or not whole
    else -- corrupt: a sweep reports it
      call('ZADD', p .. 'due', int(now + SWEEP_BOUND), id)
    end
  end
  local n_notifications, more_notifications =
    expire_notifications(p, now, skip, limit, notifications)
  more = more or #list == limit or more_notifications
  local _, head = unpack(call('ZRANGE', p .. 'due', 0, 0, 'WITHSCORES'))
  local out = {int(now), head and int(tonumber(head)) or '0', more and '1' or '0',
    clock.back > clock.swept and '1' or '0'}
  put(out, int(n_jobs), unpack(jobs))
  put(out, int(n_notifications), unpack(notifications))
  return out
end
