-- SPDX-License-Identifier: Apache-2.0
--
-- The store function `sweep`: checks the indexes and the counters of one unfinished job.

-- Reads neighbours before step i, from index sweep.edge on, and adds to sweep.missing how many of
-- them are not where the job wants them. Return: how many were read. All are read when sweep.edge
-- is n_before().
local function count_missing(job, i, sweep)
  local step, list, first = step_of(job.def, i), nil, 0
  if job.desired == STATE.ACTIVE then
    step.after = step.after or numbers(step.after_text)
    list = step.after
  else
    list, first = dependents_at(job.def, i, sweep.edge)
  end
  -- current: the desired state; asked: any; state: AT_REST
  local wanted, fields = job.desired == STATE.ACTIVE and '^A . W' or '^D . W', {}
  for k = sweep.edge - first + 1, min(sweep.edge - first + CHUNK, #list) do
    fields[#fields + 1] = int(list[k])
  end
  for _, other in ipairs(call('HMGET', job.key, unpack(fields))) do
    local is = other and match(other, wanted) or not other and job.desired == STATE.DISABLED
    sweep.missing = sweep.missing + (is and 0 or 1)
  end
  sweep.edge = sweep.edge + #fields
  return #fields
end

local function count(job, sweep, rec)
  sweep.open = sweep.open + ((rec.state == STEP.AT_REST and rec.current == job.desired) and 0 or 1)
  sweep.busy = sweep.busy + (under_way(rec.state) and 1 or 0)
  if rec.state == STEP.FAILED and rec.asked == STATE.ACTIVE then
    sweep.failed_forward = sweep.failed_forward + 1
  elseif rec.state == STEP.FAILED then
    sweep.failed_undo = sweep.failed_undo + 1
  end
end

local function mended(job, places, what)
  places[#places + 1] = what
  add_history(job, 'mended', what)
  lower_due(job, job.now)
end

-- Mends the counters of the job. All steps were counted, and the job has not changed meanwhile.
local function mend_counts(job, sweep, places)
  if sweep.open ~= job.open then
    job.open = sweep.open
    mended(job, places, 'count:open')
  end
  if sweep.busy ~= job.busy then
    job.busy = sweep.busy
    mended(job, places, 'count:busy')
  end
  if sweep.failed_forward ~= job.failed_forward or sweep.failed_undo ~= job.failed_undo then
    set_failed_counts(job, sweep.failed_forward, sweep.failed_undo)
    mended(job, places, 'count:stuck')
  end
end

-- Checks steps, from sweep.step and sweep.edge on. Afterwards sweep.step is n if all steps of the
-- job are checked.
local function sweep_steps(job, sweep, places)
  local seen, left = 0, time_left(job, job.desired)
  -- If the deadline has passed nothing is to be sent: the next drive acts on it.
  local may_send = can_dispatch(job) and not (left and left <= 0)
  if sweep.seq ~= job.seq or sweep.had_busy ~= job.busy then
    sweep.counts = sweep.step == 0 and sweep.edge == 0 -- else the next round counts
    if sweep.edge > 0 then
      sweep.step, sweep.edge, sweep.missing = sweep.step + 1, 0, 0
    end
  end
  while sweep.step < job.n and seen < BUDGET do
    local i = sweep.step
    local rec = record_of(job, i, call('HGET', job.key, int(i)))
    local waits = rec.state == STEP.AT_REST and rec.current ~= job.desired and may_send
      and (job.waits_for == '' or next_asked(job, rec) == STATE.DISABLED)
    local before = waits and n_before(job, step_of(job.def, i)) or 0
    seen = seen + 1 + (sweep.edge < before and count_missing(job, i, sweep) or 0)
    if sweep.edge >= before then
      if waits and (sweep.missing ~= rec.waiting or sweep.missing == 0) then
        rec.waiting = sweep.missing
        if rec.waiting == 0 then
          set_state(job, i, rec, STEP.RECOVERY_REQUESTED, job.now)
        end
        job.records[i] = rec
        places[#places + 1] = int(i)
        add_history(job, 'mended', i)
      end
      if rec.state == STEP.PARKED and add_parked(job, i) then -- a build before 46 did not
        set_attention_cause(job, i, rec.asked, why_used_up(job, i, rec) or '-')
      end
      count(job, sweep, rec)
      sweep.step, sweep.edge, sweep.missing = i + 1, 0, 0
    end
  end
  if sweep.step == job.n and sweep.counts then
    mend_counts(job, sweep, places)
  end
end

local function sweep_job(job, sweep, places)
  local score = call('ZSCORE', job.p .. 'due', job.id)
  local latest = max(job.phase == 'PENDING' and job.start_at or 0, job.now + SWEEP_BOUND)
  local wrong = not score or tonumber(score) > job.due or job.due > latest
  if wrong and sweep.back == 0 then
    places[#places + 1] = 'due'
    add_history(job, 'mended', 'due')
  end
  -- The partial result of a scan may be wrong as well: `expire` begins with the first step again.
  if wrong or sweep.back > 0 then
    job.due, job.due_changed = min(job.due, job.now), true
    job.scan, job.scan_changed = nil, true
  end
  if job.phase == 'PROCESSING' and #job.cursor == 0 then
    sweep_steps(job, sweep, places)
  else
    sweep.step = job.n
  end
  if sweep.step == job.n then
    sweep.step = nil
  end
  if job.due_changed or #places > 0 or job.changed.parked then
    save(job)
  end
  sweep.seq, sweep.had_busy = job.seq, job.busy
end

local function sweep_end(p, sweep)
  local clock = read_clock(p)
  if sweep.back > clock.swept and sweep.back <= clock.back then -- else the store went back
    clock.swept = sweep.back
    write_clock(p, clock)
  end
  return {'', ''}
end

local function sweep_cursor(p, text)
  local created, job, step, edge, missing, seq, had_busy, back, counts, open, busy, failed_forward,
    failed_undo = match(text,
    '^(%d+) (%S+) (%S+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d) (%d+) (%d+) (%d+) (%d+)$')
  if not created then
    local clock = read_clock(p)
    return {edge = 0, missing = 0, seq = 0, had_busy = 0,
      back = clock.back > clock.swept and clock.back or 0}
  end
  return {created = created, job = job, step = tonumber(step), edge = tonumber(edge),
    missing = tonumber(missing), seq = tonumber(seq), had_busy = tonumber(had_busy),
    back = tonumber(back), counts = counts == '1', open = tonumber(open), busy = tonumber(busy),
    failed_forward = tonumber(failed_forward), failed_undo = tonumber(failed_undo)}
end

-- The rank in `open` of the job to sweep next. If the job that was swept last has ended meanwhile,
-- those created in the same ms are swept again.
local function sweep_rank(p, sweep)
  local rank = sweep.job and call('ZRANK', p .. 'open', sweep.job)
  if rank then
    return rank + (sweep.step and 0 or 1)
  end
  return sweep.job and call('ZCOUNT', p .. 'open', '-inf', '(' .. sweep.created) or 0
end

local function sweep_one(p, id, now, sweep, places)
  local job = load(p, id, now, '0')
  if not job or finished(job) then
    call('ZREM', p .. 'open', id)
    sweep.step = nil
    places[#places + 1] = 'open'
  else
    sweep_job(job, sweep, places)
  end
end

-- sweep -> <swept>
-- Checks one unfinished job, the oldest first. It trusts no index and no counter: it derives `due`,
-- the `waiting` of each step, and how many steps are open, busy and have failed for good, and mends
-- what is wrong. The same call again finds nothing more to mend.
-- place…: what it has mended: due, open (the index), the number of a step, count:open, count:busy,
-- count:stuck; or `torn` and why the job cannot be read.
-- The cursor is "" at the beginning and at the end of a round; else
--   created job step edge missing seq had_busy back counts open busy failed_forward failed_undo
--   step, edge, missing   the step to check next ('-': the job is done). If it has more neighbours
--                         than one call reads, `missing` of the first `edge` are not where the job
--                         wants them
--   seq, had_busy         those of the job after the last call: what was counted holds only while
--                         seq and busy stay the same (a step that comes to rest adds no entry to
--                         the history)
--   back                  how often the clock had been set back when the round began, if times are
--                         to be derived again; else 0
--   counts                1 as long as the counts of the steps before hold
function functions.sweep(p, cursor)
  local now, places = now_ms(), {}
  local sweep = sweep_cursor(p, cursor)
  local rank = sweep_rank(p, sweep)
  local id, created = unpack(call('ZRANGE', p .. 'open', rank, rank, 'WITHSCORES'))
  if not id then
    return sweep_end(p, sweep)
  elseif id ~= sweep.job or not sweep.step then
    sweep.created, sweep.job, sweep.step, sweep.edge, sweep.missing, sweep.counts
      = created, id, 0, 0, 0, true
    sweep.open, sweep.busy, sweep.failed_forward, sweep.failed_undo, sweep.seq, sweep.had_busy
      = 0, 0, 0, 0, -1, 0
  end
  local good, wrong = try_job(sweep_one, p, id, now, sweep, places)
  if not good then
    sweep.step, places = nil, {'torn', wrong}
  end
  return {concat({sweep.created, id, sweep.step and int(sweep.step) or '-', int(sweep.edge),
    int(sweep.missing), int(max(sweep.seq, 0)), int(sweep.had_busy), int(sweep.back),
    sweep.counts and '1' or '0', int(sweep.open), int(sweep.busy), int(sweep.failed_forward),
    int(sweep.failed_undo)}, ' '), id, unpack(places)}
end
