-- SPDX-License-Identifier: Apache-2.0
--
-- The store function `sweep`: checks the indexes and the counters of one unfinished job.

-- Reads neighbours before step i, from index at.edge on, and adds to at.missing how many of them
-- are not where the job wants them. Return: how many were read. All are when at.edge is n_before().
local function count_missing(job, i, at)
  local step, list, first = step_of(job.def, i), nil, 0
  if job.desired == 'A' then
    step.after = step.after or numbers(step.after_text)
    list = step.after
  else
    list, first = dependents_at(job.def, i, at.edge)
  end
  local there, fields = job.desired == 'A' and '^A . W' or '^D . W', {}
  for k = at.edge - first + 1, min(at.edge - first + CHUNK, #list) do
    fields[#fields + 1] = int(list[k])
  end
  for _, other in ipairs(call('HMGET', job.key, unpack(fields))) do
    local is = other and match(other, there) or not other and job.desired == 'D'
    at.missing = at.missing + (is and 0 or 1)
  end
  at.edge = at.edge + #fields
  return #fields
end

local function count(job, at, rec)
  at.open = at.open + ((rec.state == 'W' and rec.current == job.desired) and 0 or 1)
  at.busy = at.busy + (under_way(rec.state) and 1 or 0)
  if rec.state == 'F' and rec.asked == 'A' then
    at.stuck_do = at.stuck_do + 1
  elseif rec.state == 'F' then
    at.stuck_undo = at.stuck_undo + 1
  end
end

local function mended(job, places, what)
  places[#places + 1] = what
  add_history(job, 'mended', what)
  lower_due(job, job.now)
end

-- Mends the counters of the job. All steps were counted, and the job has not changed meanwhile.
local function mend_counts(job, at, places)
  if at.open ~= job.open then
    job.open = at.open
    mended(job, places, 'count:open')
  end
  if at.busy ~= job.busy then
    job.busy = at.busy
    mended(job, places, 'count:busy')
  end
  if at.stuck_do ~= job.stuck_do or at.stuck_undo ~= job.stuck_undo then
    set_stuck(job, at.stuck_do, at.stuck_undo)
    mended(job, places, 'count:stuck')
  end
end

-- Checks steps, from at.step and at.edge on. Afterwards at.step is n if all steps of the job are
-- checked.
local function sweep_steps(job, at, places)
  local seen, left = 0, time_left(job, job.desired)
  -- If the deadline has passed nothing is to be sent: the next drive acts on it.
  local may_send = can_dispatch(job) and not (left and left <= 0)
  if at.seq ~= job.seq or at.had_busy ~= job.busy then
    at.counts = at.step == 0 and at.edge == 0 -- else the next round counts
    if at.edge > 0 then
      at.step, at.edge, at.missing = at.step + 1, 0, 0
    end
  end
  while at.step < job.n and seen < BUDGET do
    local i = at.step
    local rec = record_of(job, i, call('HGET', job.key, int(i)))
    local waits = rec.state == 'W' and rec.current ~= job.desired and may_send
      and (job.waits_for == '' or next_asked(job, rec) == 'D')
    local before = waits and n_before(job, step_of(job.def, i)) or 0
    seen = seen + 1 + (at.edge < before and count_missing(job, i, at) or 0)
    if at.edge >= before then
      if waits and (at.missing ~= rec.waiting or at.missing == 0) then
        rec.waiting = at.missing
        if rec.waiting == 0 then
          set_state(job, i, rec, 'M', job.now)
        end
        job.records[i] = rec
        places[#places + 1] = int(i)
        add_history(job, 'mended', i)
      end
      if rec.state == 'P' and add_parked(job, i) then -- a build before 46 did not
        set_attention_cause(job, i, rec.asked, used_up(job, i, rec) or '-')
      end
      count(job, at, rec)
      at.step, at.edge, at.missing = i + 1, 0, 0
    end
  end
  if at.step == job.n and at.counts then
    mend_counts(job, at, places)
  end
end

local function sweep_job(job, at, places)
  local score = call('ZSCORE', job.p .. 'due', job.id)
  local latest = max(job.phase == 'PENDING' and job.start_at or 0, job.now + SWEEP_BOUND)
  local wrong = not score or tonumber(score) > job.due or job.due > latest
  if wrong and at.back == 0 then
    places[#places + 1] = 'due'
    add_history(job, 'mended', 'due')
  end
  -- The partial result of a scan may be wrong as well: `expire` begins with the first step again.
  if wrong or at.back > 0 then
    job.due, job.due_changed = min(job.due, job.now), true
    job.scan, job.scan_changed = nil, true
  end
  if job.phase == 'PROCESSING' and #job.spreads == 0 then
    sweep_steps(job, at, places)
  else
    at.step = job.n
  end
  if at.step == job.n then
    at.step = nil
  end
  if job.due_changed or #places > 0 or job.changed.parked then
    save(job)
  end
  at.seq, at.had_busy = job.seq, job.busy
end

local function sweep_end(p, at)
  local clock = read_clock(p)
  if at.back > clock.swept and at.back <= clock.back then -- else the store went back meanwhile
    clock.swept = at.back
    write_clock(p, clock)
  end
  return {'', ''}
end

local function sweep_cursor(p, text)
  local created, job, step, edge, missing, seq, had_busy, back, counts, open, busy, stuck_do,
    stuck_undo = match(text,
    '^(%d+) (%S+) (%S+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d) (%d+) (%d+) (%d+) (%d+)$')
  if not created then
    local clock = read_clock(p)
    return {edge = 0, missing = 0, seq = 0, had_busy = 0,
      back = clock.back > clock.swept and clock.back or 0}
  end
  return {created = created, job = job, step = tonumber(step), edge = tonumber(edge),
    missing = tonumber(missing), seq = tonumber(seq), had_busy = tonumber(had_busy),
    back = tonumber(back), counts = counts == '1', open = tonumber(open), busy = tonumber(busy),
    stuck_do = tonumber(stuck_do), stuck_undo = tonumber(stuck_undo)}
end

-- The rank in `open` of the job to sweep next. If the job that was swept last has ended meanwhile,
-- those created in the same ms are swept again.
local function sweep_rank(p, at)
  local rank = at.job and call('ZRANK', p .. 'open', at.job)
  if rank then
    return rank + (at.step and 0 or 1)
  end
  return at.job and call('ZCOUNT', p .. 'open', '-inf', '(' .. at.created) or 0
end

local function sweep_one(p, id, now, at, places)
  local job = load(p, id, now, '0')
  if not job or finished(job) then
    call('ZREM', p .. 'open', id)
    at.step = nil
    places[#places + 1] = 'open'
  else
    sweep_job(job, at, places)
  end
end

-- sweep -> <swept>
-- Checks one unfinished job, the oldest first. It trusts no index and no counter: it derives `due`,
-- the `waiting` of each step, and how many steps are open, busy and have failed for good, and mends
-- what is wrong. The same call again finds nothing more to mend.
-- place…: what it has mended: due, open (the index), the number of a step, count:open, count:busy,
-- count:stuck; or `torn` and why the job cannot be read.
-- The cursor is "" at the beginning and at the end of a round; else
--   created job step edge missing seq had_busy back counts open busy stuck_do stuck_undo
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
  local at = sweep_cursor(p, cursor)
  local rank = sweep_rank(p, at)
  local id, created = unpack(call('ZRANGE', p .. 'open', rank, rank, 'WITHSCORES'))
  if not id then
    return sweep_end(p, at)
  elseif id ~= at.job or not at.step then
    at.created, at.job, at.step, at.edge, at.missing, at.counts = created, id, 0, 0, 0, true
    at.open, at.busy, at.stuck_do, at.stuck_undo, at.seq, at.had_busy = 0, 0, 0, 0, -1, 0
  end
  local good, wrong = try_job(sweep_one, p, id, now, at, places)
  if not good then
    at.step, places = nil, {'torn', wrong}
  end
  return {concat({at.created, id, at.step and int(at.step) or '-', int(at.edge), int(at.missing),
    int(max(at.seq, 0)), int(at.had_busy), int(at.back), at.counts and '1' or '0', int(at.open),
    int(at.busy), int(at.stuck_do), int(at.stuck_undo)}, ' '), id, unpack(places)}
end
