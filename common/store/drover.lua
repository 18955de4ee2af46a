#!lua name=drover1
-- SPDX-License-Identifier: Apache-2.0
--
-- The store functions: every transition of every job, atomic, one partition a call.
--
-- KEYS[1] is the key prefix of the partition with its hash tag, such as "drover:{p3}:". Arguments and
-- answers are flat lists of strings; common/model/store_ops.h is their other side, in the same order.
--
-- Rules. Validate before the first write: a function is isolated, not rolled back. Read the clock
-- once. Tokens and random fractions come from the caller. Every function may be repeated. No call
-- touches more than BUDGET steps; what is left over stands in the job's cursor, the job is due
-- soon, and the answer says more.
--
-- Keys of a partition (p = KEYS[1]):
--   p job:<id>      hash   the job; a field for each step, by number, absent until first touched
--   p data:<id>     hash   input, labels, reply_to …; r<step> results, e<step> last errors
--   p hist:<id>     list   "seq time event …", numbered, capped
--   p def:<digest>  hash   a definition; n, blob, refs, and what drive needs of each step
--   p workflows     hash   name@version -> digest, name -> newest version
--   p defs          zset   definitions that no job uses yet, by the time they came
--   p due           zset   unfinished jobs by a lower bound of their earliest moment of interest
--   p open          zset   unfinished jobs by creation; p settled: the others by the time they ended
--   p jobs          zset   all jobs by creation, for people; so are p failed: those in ERROR,
--                          p w:<name>: those of a workflow, p l:<name>=<value>: those with a label
--   p owed          zset   "<job> <seq>" notices, by the time to look after them
--   p told          hash   "<reason> <actor>" -> until when the same alert is no news, and who is telling it
--   p leader        string "<supervisor> <until> <lease>"

local BUILD = 3

local BUDGET = 250               -- steps touched in one call, about 3 ms
local CHUNK = 500                -- numbers in one piece of a list of dependents
local CACHED_STEPS = 20000       -- steps of definitions kept parsed
local HISTORY_MIN = 1000         -- entries kept of a job, or four for each step
local NAMED_AGAIN = 5000         -- ms after which a lost Recover is asked for again
local CONTINUED = 1000           -- ms in which whoever left a cursor goes on with it
local SWEEP_BOUND = 600000       -- ms; every unfinished job is looked at this often
local WAIT_SLACK = 1000          -- ms by which an unstarted request may come back early
local DATA_MAX = 67108864        -- bytes of input and results of a job: 64 MiB
local WAIT_CAP = 3600000         -- ms; the longest doubled wait for an agent
local PAGE_BYTES = 1048576       -- of errors and results in one page of a job's steps
local TELLING = 60000            -- ms that whoever is to tell of a cause has for that
local TOLD = 7200000             -- ms after its last sign that a cause counts as over
local TOLD_LOOKED_AT = 10        -- causes that a new one makes be looked at, whether they are over
local UNUSED_DEFINITION = 3600000 -- ms a definition may wait for its first job
local NOTICE_WAITS = {300000, 1200000, 2100000} -- ms between tries: with the first two five an hour

-- While a library is loaded, Redis offers no standard library: these are set at the first call.
local floor, min, max, format, match, gmatch, sub, concat, call

local function set_up()
  floor, min, max = math.floor, math.min, math.max
  format, match, gmatch, sub = string.format, string.match, string.gmatch, string.sub
  concat = table.concat
  call = redis.call
end

-- An integer as text: tostring would turn milliseconds into 1.7e+12. Formatting a number costs as
-- much as a small redis.call, so small ones are kept, and the last large one, which is mostly "now".
local SMALL = 10000
local small, large, large_text = {}, nil, nil

local function int(number)
  local text = small[number]
  if text then
    return text
  elseif number == large then
    return large_text
  end
  text = format('%.0f', number)
  if number < SMALL then
    small[number] = text
  else
    large, large_text = number, text
  end
  return text
end

local function now_ms()
  local t = call('TIME')
  return tonumber(t[1]) * 1000 + floor(tonumber(t[2]) / 1000)
end

-- Definitions: immutable and named by their content, so a parsed one may be kept for ever.

local cache, cached_steps = {}, 0

local function numbers(text)
  local list = {}
  for word in gmatch(text, '%d+') do
    list[#list + 1] = tonumber(word)
  end
  return list
end

-- lock wait heartbeat initial coefficient longest attempts expiries jitter park n_after n_dependents
-- |take|non_retryable|after|dependents
local STEP_LINE = '^(%d+) (%d+) (%d+) (%d+) (%S+) (%d+) (%d+) (%d+) (%S+) (%-?%d+) (%d+) (%d+)'
  .. '|([%d ]*)|([^|]*)|([%d ]*)|([%d ]*)$'

local function parse_step(line)
  local lock, wait, heartbeat, initial, coefficient, longest, attempts, expiries, jitter, park,
    n_after, n_dependents, take, non_retryable, after, dependents = match(line, STEP_LINE)
  local step = {
    lock = tonumber(lock), wait = tonumber(wait), heartbeat = tonumber(heartbeat),
    initial = tonumber(initial), coefficient = tonumber(coefficient), longest = tonumber(longest),
    attempts = tonumber(attempts), expiries = tonumber(expiries), jitter = tonumber(jitter),
    park = tonumber(park), n_after = tonumber(n_after), n_dependents = tonumber(n_dependents),
    take = numbers(take), after_text = after, non_retryable = {},
    dependents_text = dependents, dependents = {},
  }
  for class in gmatch(non_retryable, '%S+') do
    step.non_retryable[class] = true
  end
  return step
end

local function definition(p, digest)
  local key = p .. 'def:' .. digest
  local def = cache[key]
  if not def then
    def = {key = key, digest = digest, steps = {}}
    cache[key] = def
  end
  return def
end

local function remember(def, i, step)
  if cached_steps >= CACHED_STEPS then
    cache, cached_steps = {}, 0
    cache[def.key] = def
    def.steps = {}
  end
  cached_steps = cached_steps + 1
  def.steps[i] = step
  return step
end

-- Step i of a definition; 'r' is the step before all roots.
local function step_of(def, i)
  local step = def.steps[i]
  if step then
    return step
  end
  local line = call('HGET', def.key, i)
  if not line then
    error('definition ' .. def.digest .. ' has no step ' .. i)
  end
  return remember(def, i, parse_step(line))
end

-- Parses what is missing of steps from..to in one call.
local function prefetch(def, list)
  local fields, wanted = {}, {}
  for _, i in ipairs(list) do
    if not def.steps[i] then
      wanted[#wanted + 1] = i
      fields[#fields + 1] = int(i)
    end
  end
  if #wanted > 1 then
    local lines = call('HMGET', def.key, unpack(fields))
    if cached_steps + #wanted > CACHED_STEPS then
      cache, cached_steps = {}, 0
      cache[def.key] = def
      def.steps = {}
      lines = call('HMGET', def.key, unpack(fields))
    end
    for k, i in ipairs(wanted) do
      cached_steps = cached_steps + 1
      def.steps[i] = parse_step(lines[k])
    end
  end
end

-- The piece of a step's list of dependents in which offset lies, and where the piece begins.
local function dependents_at(def, i, offset)
  local step = step_of(def, i)
  local piece = floor(offset / CHUNK)
  if not step.dependents[piece] then
    step.dependents[piece] = numbers(piece == 0 and step.dependents_text
      or call('HGET', def.key, i .. '/' .. piece) or '')
  end
  return step.dependents[piece], piece * CHUNK
end

-- A step's record, as text a person can read in the job:
--   current asked state turn attempt token until failures expiries waiting unstarted
-- current  A(CTIVE) D(ISABLED) U(NKNOWN); in flight it is UNKNOWN, and the record keeps what it was,
--          because a request that nobody took sets it back
-- asked    what the last dispatch asked for
-- state    W at rest or waiting   R in flight: the token is good until it is answered or withdrawn
--          B backing off   M marked by expire, to be driven   P parked   F failed for good
-- until    R: LockedUntil   B, P: the next try, 0 for none   M: when it is named again
-- waiting  dependencies that are still missing

local RECORD = '^(%u) (%u) (%u) (%d+) (%d+) (%S+) (%d+) (%d+) (%d+) (%d+) (%d+)$'

local function parse_record(text, step)
  if not text then
    return {current = 'D', asked = 'A', state = 'W', turn = 0, attempt = 0, token = '-', till = 0,
      failures = 0, expiries = 0, waiting = step.n_after, unstarted = 0}
  end
  local current, asked, state, turn, attempt, token, till, failures, expiries, waiting, unstarted =
    match(text, RECORD)
  return {current = current, asked = asked, state = state, turn = tonumber(turn),
    attempt = tonumber(attempt), token = token, till = tonumber(till),
    failures = tonumber(failures), expiries = tonumber(expiries), waiting = tonumber(waiting),
    unstarted = tonumber(unstarted)}
end

local function record_text(rec)
  return concat({rec.current, rec.asked, rec.state, int(rec.turn), int(rec.attempt), rec.token,
    int(rec.till), int(rec.failures), int(rec.expiries), int(rec.waiting), int(rec.unstarted)}, ' ')
end

-- A step's record begins "X X S": only these can have a moment of interest.
local function has_moment(text)
  local state = text and sub(text, 5, 5)
  return state == 'R' or state == 'B' or state == 'M' or state == 'P'
end

-- Jobs. What a call changes is collected in the loaded job and written by save(), in one HSET.

-- As a Submit makes it. `budget` is what the call may touch, shared by the jobs of one call.
local function job_new(p, id, now, def, n, budget)
  return {
    p = p, id = id, key = p .. 'job:' .. id, now = now, def = def, n = n,
    desired = 'A', phase = 'PROCESSING', hold = '', outcome = '', turn = 1, open = n, seq = 0,
    due = now + SWEEP_BOUND, start_at = 0, bytes = 0, step_events = false,
    spreads = {},    -- the cursor: whose dependents, from which offset on
    changed = {}, records = {}, history = {}, dispatched = {}, alerts = {},
    budget = budget or {left = BUDGET},
    settled = 0,     -- seq of the notice that this call owes
  }
end

local function load(p, id, now, step_field, budget)
  local h = call('HMGET', p .. 'job:' .. id, 'def', 'desired', 'phase', 'hold', 'turn', 'open',
    'due', 'cursor', 'seq', 'n', 'scan', 'outcome', 'start_at', 'events', 'bytes', step_field)
  if not h[1] then
    return nil
  end
  local job = job_new(p, id, now, definition(p, h[1]), tonumber(h[10]), budget)
  job.desired, job.phase, job.hold, job.outcome = h[2], h[3], h[4] or '', h[12] or ''
  job.turn, job.open, job.due, job.seq = tonumber(h[5]), tonumber(h[6]), tonumber(h[7]), tonumber(h[9])
  job.start_at, job.step_events = tonumber(h[13] or '0'), h[14] == 'step'
  job.bytes, job.step_text = tonumber(h[15]), h[16]
  job.had_cursor = h[8] and h[8] ~= ''
  if job.had_cursor then
    for from, offset in gmatch(h[8], '([%drs]+):(%d+)') do
      job.spreads[#job.spreads + 1] = {from = tonumber(from) or from, offset = tonumber(offset)}
    end
  end
  if h[11] and h[11] ~= '' then
    local offset, least = match(h[11], '^(%d+) (%d+)$')
    job.scan = {offset = tonumber(offset), least = tonumber(least)}
  end
  return job
end

local function note(job, event, ...)
  job.seq = job.seq + 1
  job.history[#job.history + 1] = concat({int(job.seq), int(job.now), event, ...}, ' ')
end

-- Somebody must look at this job at time t at the latest.
local function touch(job, t)
  if job.scan then
    job.scan.least = min(job.scan.least, t)
    job.scan_changed = true
  end
  if t < job.due then
    job.due = t
    job.due_changed = true
  end
end

local function finished(job)
  return job.phase == 'PROCESSED' or job.phase == 'ERROR'
end

local function settle(job, outcome, reason)
  job.outcome = outcome
  job.phase = (outcome == 'SUCCEEDED' or outcome == 'COMPENSATED') and 'PROCESSED' or 'ERROR'
  job.changed.phase = job.phase
  job.changed.outcome = outcome
  job.changed.reason = reason
  job.changed.current = outcome == 'SUCCEEDED' and 'A' or job.changed.current
  note(job, 'settled', outcome, reason)
  job.settled = job.seq
  call('ZREM', job.p .. 'due', job.id)
  call('ZREM', job.p .. 'open', job.id)
  call('ZADD', job.p .. 'settled', int(job.now), job.id)
  if job.phase == 'ERROR' then
    call('ZADD', job.p .. 'failed', call('HGET', job.key, 'created') or int(job.now), job.id)
  end
  call('ZADD', job.p .. 'owed', int(job.now + NAMED_AGAIN), job.id .. ' ' .. job.seq)
end

local function cursor_text(job)
  local words = {}
  for _, s in ipairs(job.spreads) do
    words[#words + 1] = s.from .. ':' .. s.offset
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

local function save(job, by)
  if #job.spreads > 0 and not finished(job) then
    touch(job, job.now + CONTINUED)
  end
  local fields = {'open', int(job.open), 'seq', int(job.seq), 'updated', int(job.now)}
  local function put(name, value)
    fields[#fields + 1] = name
    fields[#fields + 1] = value
  end
  if by then
    put('locked_by', by)
  end
  if job.due_changed and not finished(job) then
    put('due', int(job.due))
    call('ZADD', job.p .. 'due', int(job.due), job.id)
  end
  if #job.spreads > 0 or job.had_cursor then
    put('cursor', cursor_text(job))
  end
  if job.scan_changed then
    put('scan', job.scan and format('%d %.0f', job.scan.offset, job.scan.least) or '')
  end
  for name, value in pairs(job.changed) do
    put(name, value)
  end
  for i, rec in pairs(job.records) do
    put(int(i), record_text(rec))
  end
  for first = 1, #fields, 2000 do
    call('HSET', job.key, unpack(fields, first, min(first + 1999, #fields)))
  end
  save_history(job)
end

-- Driving.

local function forward(job)
  return job.desired == 'A' and job.hold == '' and not finished(job)
end

-- How long a request may wait for an agent: twice as long each time that nobody took it.
local function wait_of(step, rec)
  return max(step.wait, min(step.wait * 2 ^ rec.unstarted, WAIT_CAP))
end

-- Mints a token: from here on the step is in flight.
local function lock(job, i, rec, fresh)
  local step = step_of(job.def, i)
  local wait
  if rec.turn ~= job.turn then
    rec.failures, rec.expiries, rec.unstarted = 0, 0, 0
  end
  wait = wait_of(step, rec)
  rec.state, rec.asked, rec.turn = 'R', job.desired, job.turn
  rec.attempt = rec.attempt + 1
  rec.token = i .. '.' .. fresh
  rec.till = job.now + wait + step.lock
  job.records[i] = rec
  job.dispatched[#job.dispatched + 1] = {i = i, rec = rec, wait = wait}
  touch(job, rec.till)
  note(job, 'dispatched', i, rec.attempt, rec.token)
end

local function alert(job, i, reason)
  job.alerts[#job.alerts + 1] = {i = i, reason = reason}
end

-- Alerts once: not again where the attempt that a parked step is given now and then has failed, too.
local function park(job, i, rec, reason, till)
  rec.state, rec.till = 'P', till
  job.records[i] = rec
  if till > 0 then
    touch(job, till)
  end
  note(job, 'parked', i, reason)
  if reason ~= 'EXHAUSTED' or rec.failures == step_of(job.def, i).attempts then
    alert(job, i, 'PARKED')
  end
end

-- One piece of one spread: dependents learn that what they waited for is there.
local function spread_piece(job, spread, fresh)
  local piece, first = dependents_at(job.def, spread.from, spread.offset)
  local count = min(#piece - (spread.offset - first), job.budget.left)
  local list, fields = {}, {}
  for k = 1, count do
    list[k] = piece[spread.offset - first + k]
  end
  prefetch(job.def, list)
  for _, i in ipairs(list) do
    -- in a job's first turn nothing but this spread can have touched a step that waits for one
    if not job.records[i] and not (job.turn == 1 and step_of(job.def, i).n_after <= 1) then
      fields[#fields + 1] = int(i)
    end
  end
  local texts = {}
  if #fields > 0 then
    for k, text in ipairs(call('HMGET', job.key, unpack(fields))) do
      texts[fields[k]] = text
    end
  end
  for _, i in ipairs(list) do
    local rec = job.records[i] or parse_record(texts[int(i)], step_of(job.def, i))
    if spread.from ~= 'r' then
      rec.waiting = rec.waiting - 1
    end
    job.records[i] = rec
    if rec.waiting == 0 and rec.state == 'W' and rec.current ~= 'A' then
      lock(job, i, rec, fresh)
    end
  end
  spread.offset = spread.offset + count
  job.budget.left = job.budget.left - count
  return spread.offset >= step_of(job.def, spread.from).n_dependents
end

-- A cancelled job waits for what is in flight, and for nothing else: `open` counts the flights that
-- this walk over the steps (cursor "s") has passed.
local function stop_piece(job, spread)
  local last = min(spread.offset + job.budget.left, job.n)
  local fields = {}
  for i = spread.offset, last - 1 do
    fields[#fields + 1] = int(i)
  end
  for k, text in ipairs(call('HMGET', job.key, unpack(fields))) do
    if has_moment(text) then
      local rec = parse_record(text)
      if rec.state == 'R' then
        job.open = job.open + 1
      else
        rec.state, rec.till = 'W', 0
        job.records[spread.offset + k - 1] = rec
      end
    end
  end
  job.budget.left = job.budget.left - (last - spread.offset)
  spread.offset = last
  return last == job.n
end

local function stopping(job)
  return job.spreads[1] and job.spreads[1].from == 's' and not finished(job)
end

-- Works the cursor off until it is done or the budget is used. On a job that is held it waits.
local function drive(job, fresh)
  while job.budget.left > 0 and #job.spreads > 0 do
    local spread = job.spreads[1]
    local done
    if stopping(job) then
      done = stop_piece(job, spread)
    elseif forward(job) then
      done = spread_piece(job, spread, fresh)
    else
      return
    end
    if done then
      table.remove(job.spreads, 1)
      if spread.from == 's' and job.open == 0 then
        settle(job, 'CANCELLED', 'REQUESTED')
      end
    end
  end
end

local function spread_from(job, i)
  if step_of(job.def, i).n_dependents > 0 then
    job.spreads[#job.spreads + 1] = {from = i, offset = 0}
  end
end

-- A step came to rest: was it the last?
local function close_step(job)
  job.open = job.open - 1
  if job.open == 0 then
    settle(job, 'SUCCEEDED', '')
  end
end

-- What a cancelled job does with a step whose flight has ended.
local function ended_after_cancel(job, i, rec)
  local passed = not stopping(job) or i < job.spreads[1].offset
  rec.state, rec.till = 'W', 0
  job.records[i] = rec
  if passed then
    job.open = job.open - 1
    if job.open == 0 and not stopping(job) then
      settle(job, 'CANCELLED', 'REQUESTED')
    end
  end
end

-- Answers.

local function put(out, ...)
  local n, list = #out, {...}
  for k = 1, #list do
    out[n + k] = list[k]
  end
end

-- Fields of a job's data; one that is not there is false.
local function data_of(job, fields)
  local key = job.p .. 'data:' .. job.id
  if #fields <= 1000 then
    return call('HMGET', key, unpack(fields))
  end
  local values = {}
  for first = 1, #fields, 1000 do
    local last = min(first + 999, #fields)
    for k, value in ipairs(call('HMGET', key, unpack(fields, first, last))) do
      values[first + k - 1] = value
    end
  end
  return values
end

-- What the requests of this call carry: their records, and the data once for all of them.
local function put_requests(out, job)
  put(out, int(#job.dispatched))
  if #job.dispatched == 0 then
    return
  end
  local fields = {'input', 'labels', 'traceparent', 'complete_by'}
  local results, errors, seen = {}, {}, {}
  for _, d in ipairs(job.dispatched) do
    for _, i in ipairs(step_of(job.def, d.i).take) do
      if not seen[i] then
        seen[i] = true
        fields[#fields + 1] = 'r' .. i
        results[#results + 1] = i
      end
    end
  end
  for _, d in ipairs(job.dispatched) do
    if d.rec.failures > 0 then
      fields[#fields + 1] = 'e' .. d.i
      errors[#errors + 1] = d.i
    end
  end
  local values = data_of(job, fields)
  local error_of = {}
  for k, i in ipairs(errors) do
    error_of[i] = values[4 + #results + k]
  end
  for _, d in ipairs(job.dispatched) do
    local rec = d.rec
    put(out, int(d.i), rec.asked, rec.current, int(rec.turn), int(rec.attempt), rec.token,
      int(rec.till), int(d.wait), int(rec.failures), int(rec.expiries), d.again and '1' or '0',
      error_of[d.i] or '')
  end
  put(out, values[1] or '', values[2] or '', values[3] or '', values[4] or '0', int(#results))
  for k, i in ipairs(results) do
    put(out, int(i), values[4 + k] or '')
  end
end

-- code, definition, now, seq, settled seq or 0, more, step events wanted, open, n, alerts, requests
local function put_driven(out, code, job)
  put(out, code, job.def.digest, int(job.now), int(job.seq), int(job.settled),
    (#job.spreads > 0 and (forward(job) or stopping(job))) and '1' or '0', job.step_events and '1' or '0',
    int(job.open), int(job.n), int(#job.alerts))
  for _, alert in ipairs(job.alerts) do
    put(out, int(alert.i), alert.reason)
  end
  put_requests(out, job)
end

local function put_code(out, code, now)
  put(out, code, '', int(now), '0', '0', '0', '0', '0', '0', '0', '0')
end

-- define: digest name version total blob last registered (field line)…
-- Comes in pieces for large definitions; usable when the last one is there. A registered one can be
-- found by name; the same name and version with other content is refused.
local function define(keys, a)
  local p, now = keys[1], now_ms()
  local digest, name, version, total, blob = a[1], a[2], a[3], a[4], a[5]
  local last, registered = a[6], a[7]
  local key = p .. 'def:' .. digest
  local full = name .. '@' .. version
  if registered == '1' then
    local taken = call('HGET', p .. 'workflows', full)
    if taken and taken ~= digest then
      return {'CONFLICT'}
    end
  end
  if call('HEXISTS', key, 'ready') == 0 then
    local fields = {'n', total}
    if blob ~= '' then
      put(fields, 'name', name ~= '' and full or '', 'blob', blob)
    end
    for k = 8, #a do
      fields[#fields + 1] = a[k]
    end
    for first = 1, #fields, 2000 do
      call('HSET', key, unpack(fields, first, min(first + 1999, #fields)))
    end
    call('ZADD', p .. 'defs', int(now), digest)
    if last ~= '1' then
      return {'MORE'}
    end
    call('HSET', key, 'ready', '1', 'refs', '0')
  end
  if registered == '1' and call('HSETNX', p .. 'workflows', full, digest) == 1 then
    call('HINCRBY', key, 'refs', 1)
    call('ZREM', p .. 'defs', digest)
    local newest = tonumber(call('HGET', p .. 'workflows', name) or '0')
    if tonumber(version) > newest then
      call('HSET', p .. 'workflows', name, version)
    end
  end
  return {'DEFINED'}
end

-- The digest of what a Submit names: a digest, "name" or "name@version".
local function find_definition(p, digest, workflow)
  if digest ~= '' then
    return digest
  end
  if not match(workflow, '@') then
    local newest = call('HGET', p .. 'workflows', workflow)
    if not newest then
      return nil
    end
    workflow = workflow .. '@' .. newest
  end
  return call('HGET', p .. 'workflows', workflow)
end

-- Requests in flight go out again at their present token: the trigger was delivered twice, so the
-- first time may have ended before they were published.
local function resend(job, list)
  if #list == 0 or not forward(job) then
    return
  end
  local fields, steps = {}, {}
  for k = 1, min(#list, BUDGET) do
    fields[k], steps[k] = int(list[k]), list[k]
  end
  prefetch(job.def, steps)
  for k, text in ipairs(call('HMGET', job.key, unpack(fields))) do
    local i = steps[k]
    local step = step_of(job.def, i)
    local rec = parse_record(text, step)
    local wait = rec.till - job.now - step.lock
    if rec.state == 'R' and wait > 0 then
      job.dispatched[#job.dispatched + 1] = {i = i, rec = rec, wait = wait, again = true}
    end
  end
end

-- Indexes for people.

-- "4:a=bc7:site=hh" -> the labels.
local function labels_of(text)
  local list, at = {}, 1
  while at <= #text do
    local len, start = match(text, '^(%d+):()', at)
    if not len then
      break
    end
    at = start + tonumber(len)
    list[#list + 1] = sub(text, start, at - 1)
  end
  return list
end

local function index_keys(p, workflow, labels)
  local keys = {p .. 'jobs'}
  if workflow ~= '' then
    keys[2] = p .. 'w:' .. match(workflow, '^[^@]*')
  end
  for _, label in ipairs(labels_of(labels)) do
    keys[#keys + 1] = p .. 'l:' .. label
  end
  return keys
end

local function submit_again(p, job, digest, redelivered, reply_to, correlation)
  local out = {}
  if call('HGET', job.key, 'digest') ~= digest then
    put_code(out, 'CONFLICT', job.now)
    return out
  end
  if reply_to ~= '' then
    call('HSET', p .. 'data:' .. job.id, 'reply_to', reply_to, 'correlation', correlation)
  end
  if redelivered == '1' then
    resend(job, (dependents_at(job.def, 'r', 0)))
  end
  put_driven(out, 'ALREADY', job)
  return out
end

-- submit: job digest definition workflow redelivered fresh by desired start_at complete_by events
--         priority reply_to correlation labels (field value)… for data
local function submit(keys, a)
  local p, now = keys[1], now_ms()
  local id, digest, workflow, redelivered, fresh, by = a[1], a[2], a[4], a[5], a[6], a[7]
  local desired, start_at, complete_by, events, priority = a[8], tonumber(a[9]), a[10], a[11], a[12]
  local reply_to, correlation = a[13], a[14]
  local out = {}
  local there = load(p, id, now, '0')
  if there then
    return submit_again(p, there, digest, redelivered, reply_to, correlation)
  end
  local found = find_definition(p, a[3], workflow)
  if not found then
    put_code(out, 'UNKNOWN_WORKFLOW', now)
    return out
  end
  local def = definition(p, found)
  local d = call('HMGET', def.key, 'ready', 'n', 'name')
  if not d[1] then
    put_code(out, 'UNKNOWN_DEFINITION', now)
    return out
  end
  local n = tonumber(d[2])
  local later = start_at > now
  local job = job_new(p, id, now, def, n)
  job.desired, job.step_events, job.due_changed = desired, events == 'step', true
  if later then
    job.phase, job.due, job.start_at = 'PENDING', start_at, start_at
  end
  if call('HINCRBY', def.key, 'refs', 1) == 1 then
    call('ZREM', p .. 'defs', found)
  end
  call('ZADD', p .. 'open', int(now), id)
  for _, key in ipairs(index_keys(p, d[3] or '', a[15])) do
    call('ZADD', key, int(now), id)
  end
  local c = job.changed
  c.def, c.digest, c.current, c.desired, c.phase = found, digest, 'D', desired, job.phase
  c.turn, c.n, c.created, c.priority, c.bytes = '1', int(n), int(now), priority, '0'
  if start_at > 0 then
    c.start_at = int(start_at)
  end
  if complete_by ~= '0' then
    c.complete_by = complete_by
  end
  if job.step_events then
    c.events = 'step'
  end
  local data = {'reply_to', reply_to, 'correlation', correlation, 'complete_by', complete_by,
    'workflow', d[3] or ''}
  if a[15] ~= '' then
    put(data, 'index', a[15])
  end
  for k = 16, #a, 2 do
    if a[k + 1] ~= '' then
      put(data, a[k], a[k + 1])
      c.bytes = a[k] == 'input' and int(#a[k + 1]) or c.bytes
    end
  end
  call('HSET', p .. 'data:' .. id, unpack(data))
  note(job, 'created', found, by)
  if desired ~= 'A' then
    job.open = 0
    settle(job, 'COMPENSATED', 'REQUESTED')
  elseif not later then
    job.spreads[1] = {from = 'r', offset = 0}
    drive(job, fresh)
  end
  save(job, not later and by or nil)
  put_driven(out, 'CREATED', job)
  return out
end

-- Backoff: the n-th failure waits initial × coefficient^(n-1), capped, plus jitter.
local function backoff(step, failures, fraction)
  local wait = min(step.initial * step.coefficient ^ (max(failures, 1) - 1), step.longest)
  return floor(wait * (1 + step.jitter * fraction))
end

local function back_off(job, i, rec, wait)
  rec.state, rec.till = 'B', job.now + wait
  job.records[i] = rec
  touch(job, rec.till)
end

local function on_success(job, i, rec, op)
  rec.current, rec.state, rec.till, rec.unstarted = rec.asked, 'W', 0, 0
  job.records[i] = rec
  if op.result ~= '' then
    call('HSET', job.p .. 'data:' .. job.id, 'r' .. i, op.result)
    job.changed.bytes = int(job.bytes + #op.result)
  end
  note(job, 'done', i, rec.attempt, rec.token)
  if job.desired ~= rec.asked then
    ended_after_cancel(job, i, rec)
    return
  end
  spread_from(job, i)
  close_step(job)
  drive(job, op.fresh)
end

local function on_failure(job, i, rec, op)
  local step = step_of(job.def, i)
  local permanent = op.kind == 'P' or step.non_retryable[op.class]
  rec.current, rec.unstarted = 'U', 0
  call('HSET', job.p .. 'data:' .. job.id, 'e' .. i, op.error)
  if op.kind == 'F' then
    note(job, 'deferred', i, rec.attempt, rec.token)
  else
    rec.failures = rec.failures + 1
    note(job, 'failed', i, rec.attempt, rec.token)
  end
  if job.desired ~= rec.asked then
    ended_after_cancel(job, i, rec)
  elseif op.kind == 'F' then
    local wait = op.retry_after > 0 and op.retry_after or step.initial
    back_off(job, i, rec, floor(wait * (1 + step.jitter * op.fraction)))
  elseif permanent then
    park(job, i, rec, 'PERMANENT', 0)
  elseif rec.failures >= step.attempts then
    park(job, i, rec, 'EXHAUSTED', step.park > 0 and job.now + step.park or 0)
  else
    back_off(job, i, rec, max(backoff(step, rec.failures, op.fraction), op.retry_after))
  end
end

-- Nobody took the request in time, or no queue did: the step is as it was, nothing is counted.
local function on_unstarted(job, i, rec, op)
  local step = step_of(job.def, i)
  rec.unstarted = rec.unstarted + 1
  local routed = op.kind ~= 'X'
  note(job, routed and 'unstarted' or 'unroutable', i, rec.attempt, rec.token)
  if op.kind ~= 'S' then
    alert(job, i, routed and 'NO_AGENT' or 'UNROUTABLE')
  end
  rec.token = '-'
  -- back before its wait was over: the broker or an agent threw it away, and would again at once
  local thrown = routed and job.now < rec.till - step.lock - WAIT_SLACK
  if job.desired ~= rec.asked then
    ended_after_cancel(job, i, rec)
  elseif job.hold ~= '' then
    back_off(job, i, rec, SWEEP_BOUND)
  elseif routed and not thrown then
    rec.state = 'W'
    lock(job, i, rec, op.fresh)
  else
    local wait = min(step.initial * 2 ^ (rec.unstarted - 1), WAIT_CAP)
    back_off(job, i, rec, floor(wait * (1 + step.jitter * op.fraction)))
  end
end

local function record_one(p, now, by, op, budget, out)
  local i = tonumber(match(op.token, '^(%d+)%.%x+$'))
  local job = i and load(p, op.job, now, int(i), budget)
  if not i then
    put_code(out, call('EXISTS', p .. 'job:' .. op.job) == 1 and 'STALE' or 'UNKNOWN_JOB', now)
    return
  end
  if not job then
    put_code(out, 'UNKNOWN_JOB', now)
    return
  end
  if i >= job.n or not job.step_text then
    put_code(out, 'STALE', now)
    return
  end
  local rec = parse_record(job.step_text)
  if rec.token ~= op.token then
    if op.redelivered == '1' and rec.token == i .. '.' .. op.fresh then
      resend(job, {i}) -- this very call was made before, and its answer was lost
      put_driven(out, 'ALREADY', job)
    else
      put_code(out, 'STALE', now)
    end
    return
  end
  if rec.state ~= 'R' then
    if op.redelivered == '1' and rec.current == 'A' then
      resend(job, (dependents_at(job.def, i, 0)))
    elseif op.redelivered == '1' and rec.state == 'P' then
      alert(job, i, 'PARKED') -- whoever recorded it may not have come to tell
    end
    job.settled = finished(job) and op.redelivered == '1' and job.seq or 0
    put_driven(out, 'ALREADY', job)
    return
  end
  if job.bytes + #op.result > DATA_MAX then
    put_code(out, 'DATA_FULL', now)
    return
  end
  local unserved = rec.unstarted > 0
  if op.kind == 'N' or op.kind == 'S' or op.kind == 'X' then
    on_unstarted(job, i, rec, op)
    unserved = false
  elseif op.kind == rec.asked then
    on_success(job, i, rec, op)
  else
    on_failure(job, i, rec, op)
  end
  if unserved then
    alert(job, i, 'SERVED') -- the actor has agents again: the next outage is news
  end
  save(job, by)
  put_driven(out, 'RECORDED', job)
end

-- A result that the job has no room for is DATA_FULL, and nothing is recorded.
-- record: by, then ten for each reply:
--   kind job token redelivered fresh fraction result error class retry_after
-- kind     A, D achieved that state   T transient, P permanent failure   F deferred
--          N nobody took the request   S it could not be sent in time   X no queue took it
-- fraction of the jitter, in millionths
local function record(keys, a)
  local p, now, out, budget = keys[1], now_ms(), {}, {left = BUDGET}
  for k = 2, #a, 10 do
    record_one(p, now, a[1], {kind = a[k], job = a[k + 1], token = a[k + 2],
      redelivered = a[k + 3], fresh = a[k + 4], fraction = tonumber(a[k + 5]) / 1000000,
      result = a[k + 6], error = a[k + 7], class = a[k + 8],
      retry_after = tonumber(a[k + 9])}, budget, out)
  end
  return out
end

-- renew: job token fraction note -> code wanted locked_until now
-- An agent is at work: its lease shrinks to three heartbeats from now, so that its death shows
-- early, and is never longer than what the dispatch gave.
local function renew(keys, a)
  local p, now = keys[1], now_ms()
  local id, token = a[1], a[2]
  local i = tonumber(match(token, '^(%d+)%.%x+$'))
  local job = i and load(p, id, now, int(i))
  local rec = job and job.step_text and parse_record(job.step_text)
  if not rec or rec.token ~= token or rec.state ~= 'R' then
    return {job and 'STALE' or 'UNKNOWN_JOB', '0', '0', int(now)}
  end
  local field = 'p' .. i
  local seen, limit = match(call('HGET', p .. 'data:' .. id, field) or '', '^(%S+) (%d+)')
  limit = seen == token and tonumber(limit) or rec.till
  local step = step_of(job.def, i)
  call('HSET', p .. 'data:' .. id, field, format('%s %.0f %s %s', token, limit, a[3], a[4]))
  if step.heartbeat > 0 then
    rec.till = min(limit, now + 3 * step.heartbeat)
    job.records[i] = rec
    touch(job, rec.till)
    save(job)
  end
  local wanted = job.desired == rec.asked and job.hold ~= 'killed'
  return {'RENEWED', wanted and '1' or '0', int(rec.till), int(now)}
end

-- expire: what is due at a job. Leases are given up when they are past by `hold` times their length,
-- and the death is counted; other moments are only named. Everything named is marked, so that Recover acts once.
local function expire_step(job, i, text, hold, named)
  local rec = parse_record(text)
  if rec.state == 'R' then
    if rec.till > job.now then
      local longest = job.now + wait_of(step_of(job.def, i), rec) + step_of(job.def, i).lock
      if rec.till > longest then -- the clock stepped back since: no dispatch gives more than that
        rec.till = longest
        job.records[i] = rec
      end
      return rec.till
    elseif hold > 0 and rec.till + hold * step_of(job.def, i).lock > job.now then
      return job.now + NAMED_AGAIN
    end
    rec.expiries = rec.expiries + 1
    rec.current = 'U'
    note(job, 'expired', i, rec.attempt, rec.token)
    rec.token = '-'
  elseif rec.state == 'W' or rec.state == 'F' or rec.till == 0 then
    return nil
  elseif rec.till > job.now and not (rec.state == 'M' and rec.till > job.now + NAMED_AGAIN) then
    return rec.till -- a mark that lies further ahead was made before the clock stepped back
  elseif job.hold ~= '' then
    return nil
  end
  rec.state, rec.till = 'M', job.now + NAMED_AGAIN
  job.records[i] = rec
  named[#named + 1] = i
  return rec.till
end

-- Looks at up to BUDGET steps; true when the job was seen whole and its bound is exact again.
local function expire_scan(job, hold, named)
  local scan = job.scan or {offset = 0, least = job.now + SWEEP_BOUND}
  local last = min(scan.offset + BUDGET, job.n)
  local fields = {}
  for i = scan.offset, last - 1 do
    fields[#fields + 1] = int(i)
  end
  for k, text in ipairs(call('HMGET', job.key, unpack(fields))) do
    if has_moment(text) then
      local t = expire_step(job, scan.offset + k - 1, text, hold, named)
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

local function expire_job(p, id, now, hold, out)
  local job = load(p, id, now, '0')
  if not job or finished(job) then
    call('ZREM', p .. 'due', id)
    return 0, true
  end
  local named = {}
  if job.phase == 'PENDING' then
    local early = job.start_at > now
    job.due, job.due_changed = early and job.start_at or now + NAMED_AGAIN, true
    save(job)
    if not early then
      put(out, id, '0')
    end
    return early and 0 or 1, true
  end
  local whole = expire_scan(job, hold, named)
  local unfinished = #job.spreads > 0 and (forward(job) or stopping(job))
  if unfinished then
    touch(job, now + NAMED_AGAIN)
  end
  save(job)
  if #named == 0 and not unfinished then
    return 0, whole
  end
  put(out, id, int(#named))
  for _, i in ipairs(named) do
    out[#out + 1] = int(i)
  end
  return 1, whole
end

local function expire_owed(p, now, limit, out)
  local list = call('ZRANGEBYSCORE', p .. 'owed', '-inf', int(now), 'LIMIT', 0, limit)
  for _, member in ipairs(list) do
    local id, seq = match(member, '^(%S+) (%d+)$')
    if call('EXISTS', p .. 'job:' .. id) == 1 then
      local tries = call('HINCRBY', p .. 'job:' .. id, 'notices', 1)
      local wait = NOTICE_WAITS[min(tries, #NOTICE_WAITS)]
      call('ZADD', p .. 'owed', int(now + wait), member)
      put(out, id, seq)
    else
      call('ZREM', p .. 'owed', member)
    end
  end
  return #out / 2
end

-- expire: limit hold latest -> now, head of due or 0, more, n × (job k step…), n × (job seq)
-- Past `latest` the clock has jumped, or the call was long on its way: the caller is to find out first.
local function expire(keys, a)
  local p, now = keys[1], now_ms()
  local limit, hold, latest = tonumber(a[1]), tonumber(a[2]), tonumber(a[3])
  if latest > 0 and now > latest then
    return {int(now), '0', '0', '0', '0'}
  end
  local jobs, owed = {}, {}
  local n_jobs, more, seen = 0, false, 0
  local list = call('ZRANGEBYSCORE', p .. 'due', '-inf', int(now), 'LIMIT', 0, limit)
  for k, id in ipairs(list) do
    local steps = tonumber(call('HGET', p .. 'job:' .. id, 'n') or '0')
    if k > 1 and seen + min(steps, BUDGET) > BUDGET then
      more = true
      break
    end
    seen = seen + min(steps, BUDGET)
    local named, whole = expire_job(p, id, now, hold, jobs)
    n_jobs = n_jobs + named
    more = more or not whole
  end
  more = more or #list == limit
  local n_owed = expire_owed(p, now, limit, owed)
  local head = call('ZRANGE', p .. 'due', 0, 0, 'WITHSCORES')
  local out = {int(now), head[2] and int(tonumber(head[2])) or '0', more and '1' or '0'}
  put(out, int(n_jobs), unpack(jobs))
  put(out, int(n_owed), unpack(owed))
  return out
end

local function drive_marked(job, i, rec, fresh)
  local step = step_of(job.def, i)
  if job.desired ~= 'A' then
    ended_after_cancel(job, i, rec)
  elseif job.hold ~= '' then
    return
  elseif rec.expiries >= step.expiries then
    park(job, i, rec, 'DEATHS', 0)
  else
    lock(job, i, rec, fresh)
  end
end

-- drive: job fresh by again step… : go on with this job; the steps are those that expire has named.
-- `again`: the same call may have happened before, its answer lost: what it put in flight goes out.
local function drive_job(keys, a)
  local p, now, out = keys[1], now_ms(), {}
  local id, fresh, by = a[1], a[2], a[3]
  local job = load(p, id, now, '0')
  if not job then
    put_code(out, 'UNKNOWN_JOB', now)
    return out
  end
  if finished(job) then
    put_driven(out, 'UNCHANGED', job)
    return out
  end
  if job.phase == 'PENDING' and job.start_at <= now and job.hold == '' then
    job.phase = 'PROCESSING'
    job.changed.phase = job.phase
    note(job, 'started', by)
    job.spreads[1] = {from = 'r', offset = 0}
  end
  local flying = {}
  for k = 5, min(#a, 4 + BUDGET) do
    local i = tonumber(a[k])
    local text = i < job.n and call('HGET', job.key, a[k])
    if text then
      local rec = parse_record(text)
      if rec.state == 'M' and not finished(job) then
        drive_marked(job, i, rec, fresh)
      elseif rec.state == 'R' and a[4] == '1' then
        flying[#flying + 1] = i
      elseif rec.state == 'P' and a[4] == '1' then
        alert(job, i, 'PARKED')
      end
    end
  end
  resend(job, flying)
  drive(job, fresh)
  save(job, by)
  put_driven(out, 'DRIVEN', job)
  return out
end

-- steer: job command command_id if_seq reason by
local function steer(keys, a)
  local p, now, out = keys[1], now_ms(), {}
  local id, command, command_id, if_seq, reason = a[1], a[2], a[3], a[4], a[5]
  local job = load(p, id, now, '0')
  if not job then
    put_code(out, 'UNKNOWN_JOB', now)
    return out
  end
  if command ~= 'cancel' then
    put_driven(out, 'UNSUPPORTED', job)
    return out
  end
  if job.desired == 'D' then
    put_driven(out, 'UNCHANGED', job)
    return out
  end
  if finished(job) or (if_seq ~= '0' and tonumber(if_seq) ~= job.seq) then
    put_driven(out, finished(job) and 'WRONG_STATE' or 'SUPERSEDED', job)
    return out
  end
  job.desired = 'D'
  job.changed.desired = 'D'
  job.turn = job.turn + 1
  job.changed.turn = int(job.turn)
  note(job, 'cancel', command_id, reason)
  job.open = 0
  if job.phase == 'PENDING' then
    settle(job, 'CANCELLED', 'REQUESTED')
  else
    job.spreads = {{from = 's', offset = 0}}
    drive(job, '')
  end
  save(job, a[6])
  put_driven(out, 'DONE', job)
  return out
end

-- settle_owed: (job seq)… : these notices have been sent.
local function settle_owed(keys, a)
  local p = keys[1]
  for k = 1, #a, 2 do
    call('ZREM', p .. 'owed', a[k] .. ' ' .. a[k + 1])
  end
  return {'SETTLED'}
end

-- lead: supervisor lease -> LEADS or FOLLOWS, until, now
local function lead(keys, a)
  local p, now = keys[1], now_ms()
  local who, till, taken = match(call('GET', p .. 'leader') or '', '^(%S+) (%d+) (%d+)$')
  local lease, left = tonumber(a[2]), (tonumber(till) or now) - now
  -- more left than was taken: the clock has stepped back since
  if who and who ~= a[1] and left > 0 and left <= tonumber(taken) then
    return {'FOLLOWS', till, int(now)}
  end
  if lease == 0 then
    if who == a[1] then
      call('DEL', p .. 'leader')
    end
    return {'FOLLOWS', '0', int(now)}
  end
  call('SET', p .. 'leader', a[1] .. ' ' .. int(now + lease) .. ' ' .. int(lease))
  return {'LEADS', int(now + lease), int(now)}
end

local JOB_FIELDS = {'def', 'current', 'desired', 'phase', 'outcome', 'reason', 'hold', 'turn', 'seq',
  'n', 'open', 'created', 'updated', 'start_at', 'complete_by', 'locked_by', 'notices'}
local DATA_FIELDS = {'workflow', 'submitter', 'labels', 'reply_to', 'correlation', 'traceparent',
  'format'}

local function put_fields(out, key, fields)
  for k, value in ipairs(call('HMGET', key, unpack(fields))) do
    out[#out + 1] = value or ''
  end
end

-- inspect definition: digest -> FOUND blob | UNKNOWN
local function inspect_definition(p, a)
  local blob = call('HGET', p .. 'def:' .. a[2], 'blob')
  return blob and {'FOUND', blob} or {'UNKNOWN'}
end

-- inspect workflow: name or name@version -> FOUND blob | UNKNOWN
local function inspect_workflow(p, a)
  local digest = find_definition(p, '', a[2])
  return digest and inspect_definition(p, {'', digest}) or {'UNKNOWN'}
end

-- inspect workflows: after limit -> FOUND more n × (name@version digest steps): by name, those behind
-- `after`
local function inspect_workflows(p, a)
  local names, digests, all = {}, {}, call('HGETALL', p .. 'workflows')
  for k = 1, #all, 2 do
    if match(all[k], '@') and all[k] > a[2] then
      names[#names + 1] = all[k]
      digests[all[k]] = all[k + 1]
    end
  end
  table.sort(names)
  local n = min(#names, tonumber(a[3]), 1000)
  local out = {'FOUND', n < #names and '1' or '0', int(n)}
  for k = 1, n do
    local digest = digests[names[k]]
    put(out, names[k], digest, call('HGET', p .. 'def:' .. digest, 'n') or '0')
  end
  return out
end

-- inspect history: job from limit -> FOUND definition first n × entry: from that number on, of which
-- the first may have been cut off | UNKNOWN
local function inspect_history(p, a)
  local digest, key = call('HGET', p .. 'job:' .. a[2], 'def'), p .. 'hist:' .. a[2]
  if not digest then
    return {'UNKNOWN'}
  end
  local first = tonumber(match(call('LINDEX', key, 0) or '1', '^%d+'))
  local start = max(tonumber(a[3]) - first, 0)
  local entries = call('LRANGE', key, int(start), int(start + min(tonumber(a[4]), 1000) - 1))
  local out = {'FOUND', digest, int(first), int(#entries)}
  put(out, unpack(entries))
  return out
end

-- Whether a job is one of those that are asked for.
local function listed(p, id, phase, workflow, labels)
  if phase ~= '' and call('HGET', p .. 'job:' .. id, 'phase') ~= phase then
    return false
  elseif workflow == '' and #labels == 0 then
    return true
  end
  local data = call('HMGET', p .. 'data:' .. id, 'workflow', 'index')
  local of = data[1] or ''
  if workflow ~= '' and of ~= workflow and match(of, '^[^@]*') ~= workflow then
    return false
  end
  local has = {}
  for _, label in ipairs(labels_of(data[2] or '')) do
    has[label] = true
  end
  for _, label in ipairs(labels) do
    if not has[label] then
      return false
    end
  end
  return true
end

-- inspect jobs: before id since limit phase workflow label… -> FOUND now more last last_id
--              n × (id (job fields) (data fields)): created at `before` and less than id, or earlier,
--              newest first; `last` is how far it has looked
local function inspect_jobs(p, a)
  local before, id_before, since, limit = a[2], a[3], a[4], min(tonumber(a[5]), BUDGET)
  local phase, workflow, labels = a[6], a[7], {}
  for k = 8, #a do
    labels[#labels + 1] = a[k]
  end
  local base = #labels > 0 and 'l:' .. labels[1]
    or workflow ~= '' and 'w:' .. match(workflow, '^[^@]*')
    or (phase == 'PENDING' or phase == 'PROCESSING') and 'open' or phase == 'ERROR' and 'failed' or 'jobs'
  local list = call('ZREVRANGEBYSCORE', p .. base, before, since, 'WITHSCORES', 'LIMIT', '0', int(BUDGET))
  local out, count, last, last_id = {'FOUND', int(now_ms()), '', '', '', ''}, 0, before, id_before
  local more = #list == 2 * BUDGET
  for k = 1, #list, 2 do
    local id, created = list[k], int(tonumber(list[k + 1]))
    if created ~= before or id_before == '' or id < id_before then
      last, last_id = created, id
      if listed(p, id, phase, workflow, labels) then
        count = count + 1
        out[#out + 1] = id
        put_fields(out, p .. 'job:' .. id, JOB_FIELDS)
        put_fields(out, p .. 'data:' .. id, DATA_FIELDS)
        if count == limit then
          more = more or k + 1 < #list
          break
        end
      end
    end
  end
  out[3], out[4], out[5], out[6] = more and '1' or '0', last, last_id, int(count)
  return out
end

-- What both kinds of looking at one job begin with.
local function job_facts(p, id)
  if call('EXISTS', p .. 'job:' .. id) == 0 then
    return nil
  end
  local out = {'FOUND', int(now_ms())}
  put_fields(out, p .. 'job:' .. id, JOB_FIELDS)
  put_fields(out, p .. 'data:' .. id, DATA_FIELDS)
  return out
end

-- inspect notice: job limit step… -> FOUND now (job fields) (data fields) k × (step result): the
--              results of the named steps that have one, '' where it did not fit the limit
local function inspect_notice(p, a)
  local out, data = job_facts(p, a[2]), p .. 'data:' .. a[2]
  if not out then
    return {'UNKNOWN'}
  end
  local room, count, results = tonumber(a[3]), 0, {}
  for k = 4, min(#a, 3 + BUDGET) do
    local size = call('HSTRLEN', data, 'r' .. a[k])
    local fits = size <= room
    if size > 0 then
      count = count + 1
      put(results, a[k], fits and call('HGET', data, 'r' .. a[k]) or '')
      room = fits and room - size or room
    end
  end
  put(out, int(count), unpack(results))
  return out
end

-- inspect job: job from count with_data -> FOUND now (job fields) (data fields) input
--              k × (step record error progress result), fewer than asked for where they are large
local function inspect_job(p, a)
  local out, job, data = job_facts(p, a[2]), p .. 'job:' .. a[2], p .. 'data:' .. a[2]
  if not out then
    return {'UNKNOWN'}
  end
  local from, n = tonumber(a[3]), tonumber(call('HGET', job, 'n'))
  local last = min(from + min(tonumber(a[4]), 1000), n) - 1
  local with_data = a[5] == '1'
  out[#out + 1] = with_data and call('HGET', data, 'input') or ''
  if last < from then
    out[#out + 1] = '0'
    return out
  end
  local records, more = {}, {}
  for i = from, last do
    records[#records + 1] = int(i)
    put(more, 'e' .. i, 'p' .. i)
  end
  local texts = call('HMGET', job, unpack(records))
  local extra = call('HMGET', data, unpack(more))
  local steps, count, size = {}, 0, 0
  for k, field in ipairs(records) do
    local failure, progress = extra[2 * k - 1] or '', extra[2 * k] or ''
    local result = with_data and call('HGET', data, 'r' .. field) or ''
    size = size + #failure + #progress + #result
    if size > PAGE_BYTES and count > 0 then
      break
    end
    count = count + 1
    put(steps, field, texts[k] or '', failure, progress, result)
  end
  out[#out + 1] = int(count)
  put(out, unpack(steps))
  return out
end

local inspections = {
  definition = inspect_definition, workflow = inspect_workflow, workflows = inspect_workflows,
  history = inspect_history, jobs = inspect_jobs, job = inspect_job, notice = inspect_notice,
}

-- inspect: what … : changes nothing
local function inspect(keys, a)
  return inspections[a[1]](keys[1], a)
end

-- Causes whose end nobody has met, because their actor never came back. Some at random each time that one
-- is added: what is left over stays far fewer than what is not.
local function forget_causes(p, now)
  local some = call('HRANDFIELD', p .. 'told', int(TOLD_LOOKED_AT), 'WITHVALUES')
  for k = 1, #some, 2 do
    if tonumber(match(some[k + 1], '^%d+')) <= now then
      call('HDEL', p .. 'told', some[k])
    end
  end
end

-- told: cause ask|told|over fresh -> NEWS or KNOWN, TOLD, OVER
-- An alert is told once for each cause, whichever scheduler meets it. Who hears NEWS is to tell, and to
-- say so when the broker has confirmed: until then the mark bears his `fresh`, and a short time.
local function told(keys, a)
  local p, now, cause = keys[1], now_ms(), a[1]
  if a[2] == 'over' then
    call('HDEL', p .. 'told', cause)
    return {'OVER'}
  end
  local till, by = match(call('HGET', p .. 'told', cause) or '0 ', '^(%d+) ?(%x*)$')
  local known = tonumber(till) > now and tonumber(till) <= now + TOLD
  if a[2] == 'told' then
    if till ~= '0' then -- not over meanwhile
      call('HSET', p .. 'told', cause, int(now + TOLD))
    end
    return {'TOLD'}
  elseif not known or by == a[3] then
    if till == '0' then
      forget_causes(p, now)
    end
    call('HSET', p .. 'told', cause, int(now + TELLING) .. ' ' .. a[3])
    return {'NEWS'}
  elseif by == '' then -- told, and this is a sign that it goes on
    call('HSET', p .. 'told', cause, int(now + TOLD))
  end
  return {'KNOWN'}
end

local function forget_job(p, id)
  local key = p .. 'job:' .. id
  local digest = call('HGET', key, 'def')
  if digest and call('HINCRBY', p .. 'def:' .. digest, 'refs', -1) <= 0 then
    call('UNLINK', p .. 'def:' .. digest)
    cache[p .. 'def:' .. digest] = nil
  end
  local data = call('HMGET', p .. 'data:' .. id, 'workflow', 'index')
  for _, index in ipairs(index_keys(p, data[1] or '', data[2] or '')) do
    call('ZREM', index, id)
  end
  call('UNLINK', key, p .. 'data:' .. id, p .. 'hist:' .. id)
  call('ZREM', p .. 'settled', id)
  call('ZREM', p .. 'failed', id)
end

-- forget: retention limit -> forgotten jobs, more
local function forget(keys, a)
  local p, now = keys[1], now_ms()
  local limit = tonumber(a[2])
  local list = call('ZRANGEBYSCORE', p .. 'settled', '-inf', int(now - tonumber(a[1])), 'LIMIT', 0,
    limit)
  local forgotten = 0
  for _, id in ipairs(list) do
    local seq = call('HGET', p .. 'job:' .. id, 'seq') or ''
    if call('ZSCORE', p .. 'owed', id .. ' ' .. seq) then
      call('ZADD', p .. 'settled', int(now), id) -- somebody is still to hear of it
    else
      forget_job(p, id)
      forgotten = forgotten + 1
    end
  end
  local unused = call('ZRANGEBYSCORE', p .. 'defs', '-inf', int(now - UNUSED_DEFINITION), 'LIMIT', 0,
    limit)
  for _, digest in ipairs(unused) do
    call('UNLINK', p .. 'def:' .. digest)
    call('ZREM', p .. 'defs', digest)
  end
  return {int(forgotten), #list == limit and '1' or '0'}
end

-- sweep: rank step -> next rank, next step, mended
-- Trusts no index: looks at one unfinished job (by rank), from one of its steps on, and derives its
-- bound and its join counters again. Rank 0 again means the round is over.
local function sweep_steps(job, from)
  local i, mended, edges = from, 0, 0
  while i < job.n and edges < BUDGET do
    local step = step_of(job.def, i)
    local text = call('HGET', job.key, int(i))
    local rec = parse_record(text, step)
    if rec.state == 'W' and rec.current ~= 'A' then
      local missing, after = 0, numbers(step.after_text)
      for first = 1, #after, 1000 do
        local fields = {}
        for k = first, min(first + 999, #after) do
          fields[#fields + 1] = int(after[k])
        end
        for _, other in ipairs(call('HMGET', job.key, unpack(fields))) do
          missing = missing + ((other and match(other, '^A . W')) and 0 or 1)
        end
      end
      if missing ~= rec.waiting or missing == 0 then
        rec.waiting = missing
        if missing == 0 then
          rec.state, rec.till = 'M', job.now
          touch(job, job.now)
        end
        job.records[i] = rec
        mended = mended + 1
        note(job, 'mended', i)
      end
    end
    edges = edges + 1 + step.n_after
    i = i + 1
  end
  return i, mended
end

local function sweep(keys, a)
  local p, now = keys[1], now_ms()
  local rank, from = tonumber(a[1]), tonumber(a[2])
  local id = call('ZRANGE', p .. 'open', rank, rank)[1]
  if not id then
    return {'0', '0', '0'}
  end
  local job = load(p, id, now, '0')
  if not job or finished(job) then
    call('ZREM', p .. 'open', id)
    return {int(rank), '0', '1'}
  end
  local mended, score = 0, call('ZSCORE', p .. 'due', id)
  local latest = job.phase == 'PENDING' and max(job.start_at, now + SWEEP_BOUND) or now + SWEEP_BOUND
  if not score or tonumber(score) > job.due or job.due > latest then
    job.due, job.due_changed, mended = now, true, 1
    note(job, 'mended', 'due')
  end
  local i = job.n
  if job.phase == 'PROCESSING' and forward(job) and #job.spreads == 0 then
    local more
    i, more = sweep_steps(job, from)
    mended = mended + more
  end
  if mended > 0 then
    save(job)
  end
  if i < job.n then
    return {int(rank), int(i), int(mended)}
  end
  return {int(rank + 1), '0', int(mended)}
end

local function version()
  return int(BUILD)
end

local function register(name, body, flags)
  local function callback(keys, arguments)
    if not call then
      set_up()
    end
    return body(keys, arguments)
  end
  redis.register_function{function_name = 'drover1_' .. name, callback = callback, flags = flags}
end

register('version', version, {'no-writes'})
register('define', define, {})
register('submit', submit, {})
register('record', record, {'allow-oom'})
register('renew', renew, {'allow-oom'})
register('expire', expire, {'allow-oom'})
register('drive', drive_job, {'allow-oom'})
register('steer', steer, {'allow-oom'})
register('settle_owed', settle_owed, {'allow-oom'})
register('lead', lead, {'allow-oom'})
register('inspect', inspect, {'no-writes', 'allow-oom'})
register('told', told, {'allow-oom'})
register('forget', forget, {'allow-oom'})
register('sweep', sweep, {'allow-oom'})
