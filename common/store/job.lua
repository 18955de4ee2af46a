-- SPDX-License-Identifier: Apache-2.0
--
-- The job that a call works on: the record of each step, and how a job is read. A call collects its
-- changes in the loaded job, and save() writes them together.

-- The record of a step, as text that a person can read in the job:
--   current asked state turn attempt token until failures expiries waiting unstarted
--   [since forward]
-- current    a letter STATE. In flight the current state is UNKNOWN; the record keeps the one
--            before, because the step gets that back if its request reached no queue
-- asked      a letter STATE, but not UNKNOWN: what the last dispatch asked for
-- state      a letter STEP
-- turn       number of the work that the last dispatch was for: part of its idempotency key
-- attempt    number of the last dispatch; begins again only if a migration replaces the step
-- token      of the dispatch in flight, or of the last one if it was answered. '-': withdrawn, or
--            never any; '?': withdrawn, and that was a silence; '!': the silence interval is over,
--            and one dispatch is due, see silence_ends()
-- until      IN_FLIGHT: LockedUntil. BACKING_OFF: the next attempt. PARKED: likewise, 0 for none.
--            RECOVERY_REQUESTED: when `expire` names the step again
-- failures   failures that agents have reported of this work
-- expiries   expiries of this work
-- waiting    neighbours that come before the step and are not yet where the job wants them:
--            dependencies if the job goes forward, dependents if it goes back
-- unstarted  dispatches in a row that no agent is known to have begun: they came back, or their
--            LockedUntil passed without Progress; each doubles the wait of the next
-- since      the turn in which `waiting` was counted, see the job's epoch. `since` and `forward`
--            are left out together if `since` is 1 and `forward` equals `turn`
-- forward    `turn` of the last dispatch that asked for ACTIVE: an undo takes back that work

-- The letters are those of current, asked and state.
local RECORD = '^([ADU]) ([AD]) ([WRBMPF]) (%d+) (%d+) (%S+) (%d+) (%d+) (%d+) (%d+) (%d+)'
  .. ' ?(%d*) ?(%d*)$'

function parse_record(text, step)
  if not text then
    return {current = STATE.DISABLED, asked = STATE.ACTIVE, state = STEP.AT_REST, turn = 0,
      attempt = 0, token = '-', till = 0, failures = 0, expiries = 0, waiting = step.n_after,
      unstarted = 0, since = 1, forward = 0}
  end
  local current, asked, state, turn, attempt, token, till, failures, expiries, waiting, unstarted,
    since, forward = match(text, RECORD)
  if not current then
    -- without its token
    error('the record of a step says ' .. sub(text:gsub('%.[%w_-]+', '.'), 1, 100), 0)
  end
  turn = num(turn)
  return {current = current, asked = asked, state = state, turn = turn, attempt = num(attempt),
    token = token, till = num(till), failures = num(failures), expiries = num(expiries),
    waiting = num(waiting), unstarted = num(unstarted), since = num(since) or 1,
    forward = num(forward) or turn}
end

function record_text(rec)
  local text = rec.current .. ' ' .. rec.asked .. ' ' .. rec.state .. ' ' .. int(rec.turn) .. ' '
    .. int(rec.attempt) .. ' ' .. rec.token .. ' ' .. int(rec.till) .. ' ' .. int(rec.failures)
    .. ' ' .. int(rec.expiries) .. ' ' .. int(rec.waiting) .. ' ' .. int(rec.unstarted)
  return rec.since == 1 and rec.forward == rec.turn and text
    or text .. ' ' .. int(rec.since) .. ' ' .. int(rec.forward)
end

-- Whether a step counts as busy: it is in flight, backing off, parked, or recovery is requested.
function under_way(state)
  return state == STEP.IN_FLIGHT or state == STEP.BACKING_OFF
    or state == STEP.RECOVERY_REQUESTED or state == STEP.PARKED
end

-- The same for the text of a record, which begins with the letters of current, asked and state.
function text_under_way(text)
  return text and under_way(sub(text, 5, 5))
end

-- Fields of a new job. The table of a job has one of them only if its value is another one.

local DEFAULTS = {__index = {
  hold = '', outcome = '',
  since = 1,       -- the turn in which the job was turned to its present direction
  -- the turn in which all join counters were last set anew: `since`, or that of a later migration
  epoch = 1,
  cause = '',      -- why it was turned: REQUESTED, CANCELLED, FAILURE, TRY
  ending = '',     -- why it is to end FAILED, once nothing is in flight
  failed = '',     -- numbers of steps that have failed for good, as far as there is room
  failed_forward = 0, failed_undo = 0, -- forward actions, and undos, that have failed for good
  started = false, -- the job had a start_at, and has begun
  start_at = 0, complete_by = 0,
  -- step: each dispatch is an event on drover.events; reply: step events are sent to reply_to
  events = '',
  -- false until the deadline has passed; then the last turn in which it limited forward work, see
  -- deadline.mark_passed()
  deadline_turn = false,
  scan = false, scan_changed = false, had_cursor = false,
  settled = 0,     -- seq of the end of a turn that this call records; 0: none
  watermark = 0,   -- that of the partition, if this call creates a job or ends a turn
  next_try = 0,    -- when a job that was taken back goes forward again; 0: it does not
  parked = 0,      -- steps that count as parked, see add_parked()
  -- why the job needs a person: "kind since step actor class", see update_attention()
  attention = '',
  acknowledged = false, -- a person has acknowledged that
  waits_for = '',  -- numbers of steps that are undone before a change, see change.lua
}}

-- budget.left: how many steps the call may still work on; all jobs of a call share it. Fields that
-- load() always sets are initialised here as well, because a table that is constructed with all its
-- fields need not grow.
function job_new(p, id, now, def, n, budget)
  return setmetatable({
    p = p, id = id, key = p .. 'job:' .. id, now = now, def = def, n = n,
    desired = STATE.ACTIVE, phase = 'PROCESSING', turn = 1, seq = 0, bytes = 0,
    open = n,        -- steps that are not at rest where the job wants them
    busy = 0,        -- steps in flight, backing off, parked, or with recovery requested
    was_busy = 0, due = now + SWEEP_BOUND, due_changed = false, step_text = false,
    plain = false,   -- true: no field of RARE was ever set
    bare = false,    -- true: besides, the data has neither labels nor a traceparent
    cursor = {},     -- work that did not fit into a call, see walks.lua
    changed = {bytes = nil, due = nil, busy = nil, locked_by = nil},
    records = {}, history = {nil, nil}, dispatched = {}, alerts = {},
    budget = budget or {left = BUDGET},
  }, DEFAULTS)
end

-- The letters are those of WALK.
local function read_cursor(job, text)
  for from, offset, edge in gmatch(text, '([%dlrtwy]+):(%d+):?(%d*)') do
    job.cursor[#job.cursor + 1] = {
      from = tonumber(from) or from, offset = tonumber(offset), edge = tonumber(edge) or 0}
  end
end

-- Fields that most jobs never have. The field `plain` is 1 if the job has none of them; 2 if,
-- besides, its data has neither labels nor a traceparent. Then load() does not read them, because
-- looking for a field that is absent costs Redis more than finding one.
local RARE = {'hold', 'cursor', 'scan', 'outcome', 'start_at', 'events', 'since', 'cause', 'ending',
  'failed', 'complete_by', 'late', 'stuck', 'epoch', 'started', 'parked', 'attention',
  'acknowledged', 'next_try', 'waits_for'}
is_rare = {}
for k = 1, #RARE do
  is_rare[RARE[k]] = true
end

local function load_rare(job)
  local hold, cursor, scan, outcome, start_at, events, since, cause, ending, failed, complete_by,
    late, stuck, epoch, started, parked, attention, acknowledged, next_try, waits_for
    = unpack(call('HMGET', job.key, unpack(RARE)))
  job.hold, job.outcome, job.start_at = hold or '', outcome or '', tonumber(start_at or '0')
  job.events, job.since, job.cause = events or '', tonumber(since or '1'), cause or ''
  job.ending, job.failed, job.complete_by = ending or '', failed or '', tonumber(complete_by or '0')
  job.deadline_turn, job.started = (late or '') ~= '' and (tonumber(late) or 1) - 1, started == '1'
  job.parked, job.attention = tonumber(parked or '0') or 0, attention or ''
  job.acknowledged, job.waits_for = acknowledged == '1', waits_for or ''
  job.next_try, job.attention_for_end
    = tonumber(next_try or '') or 0, match(job.attention, '^ended ') ~= nil
  if stuck then
    local to_do, to_undo = match(stuck, '^(%d+) (%d+)$')
    job.failed_forward, job.failed_undo = tonumber(to_do), tonumber(to_undo)
  end
  if not (job.since and job.since > 0) then
    error('since is no such number', 0)
  end
  job.epoch = tonumber(epoch) or job.since
  job.epoch = job.epoch > 0 and job.epoch or job.since
  job.had_cursor = cursor and cursor ~= ''
  if job.had_cursor then
    read_cursor(job, cursor)
  end
  if scan and scan ~= '' then
    local offset, least = match(scan, '^(%d+) (%d+)$')
    if tonumber(offset) < job.n then
      job.scan = {offset = tonumber(offset), least = tonumber(least)}
    else -- the job has migrated to fewer steps: the scan begins anew
      job.scan_changed = true
    end
  end
end

local STEPS_MAX = 10000
local MOST, MOST_TURNS = 2 ^ 53, 2 ^ 31
local PHASES = {PENDING = true, PROCESSING = true, PROCESSED = true, ERROR = true}

-- Reads a job. Return: nil if there is no such job. A job that cannot be read is corrupt (TORN):
-- load() raises an error that says why.
function load(p, id, now, step_field, budget)
  local digest, desired, phase, turn, open, due, seq, n, bytes, busy, plain, step_text
    = unpack(call('HMGET', p .. 'job:' .. id, 'def', 'desired', 'phase', 'turn', 'open', 'due',
    'seq', 'n', 'bytes', 'busy', 'plain', step_field))
  if not digest then
    if phase or n then
      error('it names no definition', 0)
    end
    return nil
  end
  local job = job_new(p, id, now, definition_of(p, digest), num(n), budget)
  job.desired, job.phase, job.turn, job.open = desired, phase, num(turn), num(open or 'lost')
  job.due, job.seq, job.bytes = num(due) or 0, num(seq), num(bytes)
  job.busy, job.step_text = num(busy or '0'), step_text
  if not (job.n and job.turn and job.seq and job.n > 0 and job.n <= STEPS_MAX and job.turn > 0
    and job.turn < MOST_TURNS and job.seq >= 0 and job.seq < MOST) then
    error('n, turn or seq is no such number', 0)
  elseif not PHASES[job.phase] or job.desired ~= STATE.ACTIVE and job.desired ~= STATE.DISABLED then
    error('it has no such phase, or no such desired state', 0)
  end
  if not job.bytes or job.bytes > DATA_MAX then
    job.bytes = 0
  end
  if not job.busy or job.busy < 0 or job.busy > job.n then
    job.busy = job.n -- the job does not end before a sweep has counted its steps
  end
  job.open = job.open or job.n -- likewise
  job.was_busy = job.busy
  job.plain, job.bare = plain == '1' or plain == '2', plain == '2'
  if not job.plain then
    load_rare(job)
  end
  return job
end

-- Calls f(...), which works on one job of several. Return: true and what f returns; or, if that job
-- is corrupt, false and what is wrong with it. No call can read such a job: a person has edited it,
-- or a bug has damaged it. It must not stop the work on the other jobs. An error that concerns the
-- server, or the rights of its user, is raised again. To tell them apart there is only the text:
-- pcall() gives no more of an error of Redis. About rights Redis 7.0 has one, later ones and Valkey
-- have another.
function try_job(f, ...)
  local good, first, second = pcall(f, ...)
  if good then
    return true, first, second
  end
  local code = match(first, '^(%u+) ')
  if code and code ~= 'ERR' and code ~= 'WRONGTYPE' or match(first, '^ERR The user executing')
    or match(first, '^ERR ACL failure') then
    error({err = first}, 0)
  end
  return false, first
end

-- Adds `by` to a counter. If the counter is no number, or would be below 0, it becomes `by`, or 0
-- if `by` is negative.
function count_up(key, field, by)
  local good, count = try_job(call, 'HINCRBY', key, field, by)
  if not good or count < 0 then
    count = max(by, 0)
    call('HSET', key, field, int(count))
  end
  return count
end

function add_history(job, event, a, b, c, d)
  local seq, history = job.seq + 1, job.history
  local head = int(seq) .. ' ' .. int(job.now) .. ' ' .. event
  job.seq = seq
  history[#history + 1] = d and head .. ' ' .. a .. ' ' .. b .. ' ' .. c .. ' ' .. d
    or c and head .. ' ' .. a .. ' ' .. b .. ' ' .. c
    or b and head .. ' ' .. a .. ' ' .. b
    or a and head .. ' ' .. a
    or head
end

-- Has `expire` inspect this job at time t at the latest.
function lower_due(job, t)
  if job.scan then
    job.scan.least = min(job.scan.least, t)
    job.scan_changed = true
  end
  if t < job.due then
    job.due = t
    job.due_changed = true
  end
end

function finished(job)
  return job.phase == 'PROCESSED' or job.phase == 'ERROR'
end

-- Whether requests may be sent for this job.
function can_dispatch(job)
  return job.phase == 'PROCESSING' and job.hold == '' and job.ending == ''
end

-- Whether work of the cursor can be done now. While no request may be sent, the walks RESUME and
-- RETRY (also TURN if the job is to end), and what follows them, stay in the cursor.
function has_cursor_work(job)
  local work = job.cursor[1]
  return work and job.phase == 'PROCESSING'
    and (can_dispatch(job) or work.from ~= WALK.RESUME and work.from ~= WALK.RETRY
    and (work.from ~= WALK.TURN or job.ending == ''))
end

-- Sets job[name], and has save() write it.
function set(job, name, value)
  job[name] = value
  job.changed[name] = type(value) == 'number' and int(value) or value
end

-- Records that the deadline has passed, and that it has limited forward work in the turns up to
-- this one. The field holds the turn plus 1. Builds before 46 stored 1, which means that no turn
-- was limited.
function deadline.mark_passed(job, turn)
  job.deadline_turn, job.changed.late = turn, int(turn + 1)
end

-- Whether the deadline has passed in the present direction of the job, and no person has let the
-- job go on since.
function deadline.in_force(job)
  return job.deadline_turn and job.deadline_turn >= job.since and job.desired == STATE.ACTIVE
    and job.ending == ''
end

-- Whether a job belongs to another user of the broker than `owner`. False if `owner` is '': the
-- caller may read and command every job.
function is_others(p, id, owner)
  return (owner or '') ~= '' and call('HGET', p .. 'data:' .. id, 'submitter') ~= owner
end

-- Sets a field of the job's data ('' deletes it), and counts its bytes. Only in later turns than
-- the first can the field have an old value.
function set_data(job, field, value)
  local data = job.p .. 'data:' .. job.id
  local old = job.turn > 1 and call('HSTRLEN', data, field) or 0
  if value ~= '' then
    call('HSET', data, field, value)
  elseif old > 0 then
    call('HDEL', data, field)
  end
  if #value ~= old then
    set(job, 'bytes', job.bytes + #value - old)
  end
end

-- Whether the deadline of forward work has passed and the job has not acted on it yet.
function deadline_unhandled(job)
  return job.complete_by > 0 and job.now >= job.complete_by and not job.deadline_turn
    and job.desired == STATE.ACTIVE and job.phase == 'PROCESSING' and job.ending == ''
end
