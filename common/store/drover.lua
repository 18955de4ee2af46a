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
-- Contents, each behind a heading `---- … ----`: definitions · steps · jobs · steps and jobs move ·
-- the cursor · a job goes on · answers · the clock · define and submit · record · renew · expire · drive ·
-- commands · change and migrate · steer · settle_owed and lead · inspect · told · step events · mark · suspect · forget · sweep ·
-- look · registration
--
-- Keys of a partition (p = KEYS[1]):
--   p job:<id>      hash   the job; a field for each step, by number, absent until first touched;
--                          b<step>: a dispatch of it may have been begun, though nobody can tell, see is_begun();
--                          k<step>: the turn in which it was parked, see add_parked()
--   p data:<id>     hash   input, labels, reply_to …; r<step> results, e<step> last errors, a<step> arguments from a
--                          person; change: a command that waits, see change;
--                          p<step> the last Progress and t<step> the token of a request that left its
--                          queue, see has_evidence(); c<step> the token of a request that was sent once
--                          more, u<step> that of one that had waited, see unsent() …
--   p hist:<id>     list   "seq time event …", numbered, capped
--   p def:<digest>  hash   a definition; n, blob, refs, what drive needs of each step, and x<name>, its number
--   p workflows     hash   name@version -> digest, name -> newest version
--   p defs          zset   definitions that no job uses yet, by the time they came
--   p due           zset   unfinished jobs by a lower bound of their earliest moment of interest
--   p open          zset   unfinished jobs by creation; p settled: the others by the time they ended
--   p jobs          zset   all jobs by creation, for people; so are p failed: those in ERROR,
--                          p w:<name>: those of a workflow, p l:<name>=<value>: those with a label
--   p needs         zset   jobs that need a person by creation; p needs:<kind>: those of a kind
--   p owed          zset   "<job> <seq>" notices, by the time to look after them: how a turn has ended,
--                          what a person is to know of a job
--   p told          hash   "<reason> <actor>" -> until when the same alert is no news, and who is telling it;
--                          letters: what is known of drover.dead, see unknown_letters()
--   p suspects      hash   digest of a message that came again -> "<time> <life> …" that have begun it
--   p leader        string "<supervisor> <until> <lease>"
--   p clock         string "<seen> <quiet until> <steps back> <jumped at> <by> <swept>", see watch_clock()
--   p supervisors   hash   those that are alive, leading or not -> "<until> <lease>"
--   p users         hash   user -> bytes that its jobs take, where jobs have owners: see cost_of()
--   p mark          hash   counts what was accepted and what was settled: one that shows less than
--                          somebody remembers went back in time

local BUILD = 46
local FORMAT = '3'               -- of definitions; others are stored again

local BUDGET = 250               -- steps touched in one call, about 3 ms
local CHUNK = 500                -- numbers in one piece of a list of dependents
local CLOCK_AHEAD = 300000       -- ms: so far may the clock of a sender be ahead of ours
local CACHED_STEPS = 20000       -- steps of definitions kept parsed
local HISTORY_MIN = 1000         -- entries kept of a job, or four for each step
local NAMED_AGAIN = 5000         -- ms after which a lost Recover is asked for again
local CONTINUED = 1000           -- ms in which whoever left a cursor goes on with it
local DAY = 86400000             -- ms; the longest wait for silence to end, or before another run of a job
local SWEEP_BOUND = 600000       -- ms; every unfinished job is looked at this often
local WAIT_SLACK = 1000          -- ms by which an unstarted request may come back early
local AT_ONCE = 10               -- ms; a shorter deferral is none
local COMMANDS_KEPT = 16         -- of a job, with their answers
local EARLIER_KEPT = 4           -- addresses of a job before its last one
local TRIES_MAX = 1000           -- of a job, as its workflow can say
local SILENT = '?'               -- in place of a token: see the record of a step
local ROUND = '!'                -- likewise: it was parked by silence, and is to be tried once
local NO_STEP = 4294967295       -- where an alert or an answer is about none
local FAILED_BYTES = 1000        -- of the list of steps that failed for good
local DATA_MAX = 67108864        -- bytes of input and results of a job: 64 MiB
local WAIT_CAP = 3600000         -- ms; the longest doubled wait for an agent
local PAGE_BYTES = 1048576       -- of errors and results in one page of a job's steps
local TELLING = 60000            -- ms that whoever is to tell of a cause has for that
local TOLD = 7200000             -- ms after its last sign that a cause counts as over
local TOLD_LOOKED_AT = 10        -- causes that a new one makes be looked at, whether they are over
local UNUSED_DEFINITION = 3600000 -- ms a definition may wait for its first job
local QUIET = 60000              -- ms after a jump of the clock in which nothing expires: a default lease
local CLOCK_NOTED = 10000        -- ms between two notes of what the clock shows
local CLOCK_STEP = 2000          -- ms by which it may go back unnoticed
local SUSPECTED = 3600000        -- ms after somebody has begun a message that it is suspected
local SUSPECT_LIVES = 200        -- ms after it in which who lives has said so
local NOTICE_TRIES = 5           -- then it is a dead letter: see scheduler/notice.c
local NOTICE_WAITS = {300000, 1200000, 2100000} -- ms between tries: with the first two five an hour

-- While a library is loaded, Redis offers no standard library: these are set at the first call.
local floor, min, max, format, match, gmatch, sub, concat, call

local function set_up()
  floor, min, max = math.floor, math.min, math.max
  format, match, gmatch, sub = string.format, string.match, string.gmatch, string.sub
  concat = table.concat
  call = redis.call
end

-- An integer below 2^53 as text: tostring would turn milliseconds into 1.7e+12. Formatting a number costs as
-- much as a small redis.call, so small ones are kept, large ones for as long as they are likely to come again,
-- and put together of two pieces that are kept: those of times have their first digits in common.
local int
do

local SMALL, PIECES, RECENT = 10000, 1000, 50
local small, ends, beginnings, n_beginnings, recent, n_recent = {}, {}, {}, 0, {}, 0

local function beginning_of(number)
  local text = format('%.0f', number)
  if n_beginnings == PIECES then
    beginnings, n_beginnings = {}, 0
  end
  beginnings[number], n_beginnings = text, n_beginnings + 1
  return text
end

local function large(number)
  local last = number % SMALL
  local first = (number - last) / SMALL
  local text = ends[last]
  if not text then
    text = format('%04.0f', last)
    ends[last] = text
  end
  text = (beginnings[first] or beginning_of(first)) .. text
  if n_recent == RECENT then
    recent, n_recent = {}, 0
  end
  recent[number], n_recent = text, n_recent + 1
  return text
end

int = function(number)
  local text = small[number]
  if text then
    return text
  elseif number >= SMALL then
    return recent[number] or large(number)
  end
  text = format('%.0f', number) -- below 0, too
  small[number] = number > -SMALL and text or nil
  return text
end

end

-- The number that a text is, or nil. Reading one costs as much; those of up to three digits are kept.
local num
do

local kept = {}

num = function(text)
  local number = kept[text]
  if not number then
    number = tonumber(text)
    if number and #text <= 3 then
      kept[text] = number
    end
  end
  return number
end

end

local function now_ms()
  local t = call('TIME')
  return tonumber(t[1]) * 1000 + floor(tonumber(t[2]) / 1000)
end

---- definitions ----

-- Immutable, and named by their content, so a parsed one may be kept for ever.

local cache, cached_steps = {}, 0

local function numbers(text)
  local list = {}
  for word in gmatch(text, '%d+') do
    list[#list + 1] = tonumber(word)
  end
  return list
end

-- What a dispatch goes by, in either direction:
-- lock wait heartbeat initial coefficient longest attempts expiries jitter park
--      on_permanent on_exhausted: P(ark) C(ompensate) F(ail)|non_retryable
-- That of a revert ends with |actor, unless a build before 42 has stored it.
local TERMS = '^(%d+) (%d+) (%d+) (%d+) (%S+) (%d+) (%d+) (%d+) (%S+) (%-?%d+) (%u)(%u) ?(%d*)|([^|]*)'

-- The terms of going forward|n_after n_dependents revert waived|take|after|dependents|name|actor
-- Builds before 36 have stored no name, those before 42 no actor, those before 46 no interval of silence.
local STEP_LINE = TERMS .. '|(%d+) (%d+) (%d)(%d)|([%d ]*)|([%d ]*)|([%d ]*)|?([^|]*)|?(%S*)$'

local function terms(lock, wait, heartbeat, initial, coefficient, longest, attempts, expiries,
    jitter, park, on_permanent, on_exhausted, silence, non_retryable, actor)
  local t = {
    lock = tonumber(lock), wait = tonumber(wait), heartbeat = tonumber(heartbeat),
    initial = tonumber(initial), coefficient = tonumber(coefficient), longest = tonumber(longest),
    attempts = tonumber(attempts), expiries = tonumber(expiries), jitter = tonumber(jitter),
    park = tonumber(park), on_permanent = on_permanent, on_exhausted = on_exhausted,
    silence = tonumber(silence) or 0, non_retryable = {}, actor = actor,
  }
  for class in gmatch(non_retryable, '%S+') do
    t.non_retryable[class] = true
  end
  return t
end

local function parse_step(line)
  local lock, wait, heartbeat, initial, coefficient, longest, attempts, expiries, jitter, park,
    on_permanent, on_exhausted, silence, non_retryable, n_after, n_dependents, revert, waived, take, after,
    dependents, name, actor = match(line, STEP_LINE)
  return {
    forward = terms(lock, wait, heartbeat, initial, coefficient, longest, attempts, expiries,
      jitter, park, on_permanent, on_exhausted, silence, non_retryable, actor),
    has_revert = revert == '1', waived = waived == '1',
    n_after = tonumber(n_after), n_dependents = tonumber(n_dependents),
    take = numbers(take), after_text = after, dependents_text = dependents, dependents = {},
    name = name,
  }
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

-- Where these were too many, all others are forgotten.
local function count_cached(def, count)
  if cached_steps + count > CACHED_STEPS then
    cache, cached_steps = {[def.key] = def}, 0
    def.steps = {}
  end
  cached_steps = cached_steps + count
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
  count_cached(def, 1)
  def.steps[i] = parse_step(line)
  return def.steps[i]
end

-- Whether a name is that of another step than i. False for a definition that a build before 36 has stored: it has no
-- names yet.
local function is_other_step(def, i, name)
  local own = step_of(def, i).name
  return own ~= '' and own ~= name and call('HGET', def.key, 'x' .. name)
end

-- Reads in one call what is missing of the listed steps.
local function prefetch(def, list)
  local missing = 0
  for k = 1, #list do
    missing = missing + (def.steps[list[k]] and 0 or 1)
  end
  if missing < 2 then
    return -- step_of() reads it
  end
  local fields, wanted = {}, {}
  for _, i in ipairs(list) do
    if not def.steps[i] then
      wanted[#wanted + 1] = i
      fields[#fields + 1] = int(i)
    end
  end
  local lines = call('HMGET', def.key, unpack(fields))
  count_cached(def, #wanted)
  for k, i in ipairs(wanted) do
    def.steps[i] = parse_step(lines[k])
  end
end

-- The terms of one direction of step i.
local function terms_of(def, i, asked)
  local step = step_of(def, i)
  if asked == 'A' then
    return step.forward
  end
  if not step.revert then
    step.revert = terms(match(call('HGET', def.key, 'v' .. i), TERMS .. '|?(%S*)$'))
  end
  return step.revert
end

-- Whether an answer came from the agents of another actor than the one that the step was sent to.
local function is_other_actor(job, i, rec, actor)
  local own = actor and actor ~= '' and terms_of(job.def, i, rec.asked).actor
  return own and own ~= '' and own ~= actor
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

---- steps ----

-- A step's record, as text a person can read in the job:
--   current asked state turn attempt token until failures expiries waiting unstarted [since forward]
-- current  A(CTIVE) D(ISABLED) U(NKNOWN); in flight it is UNKNOWN, and the record keeps what it was,
--          because a request that never reached a queue sets it back
-- asked    what the last dispatch asked for
-- state    W at rest or waiting   R in flight: the token is good until it is answered or withdrawn
--          B backing off   M marked by expire, to be driven   P parked   F failed for good
-- turn     of the work that the last dispatch is a try of: part of its idempotency key
-- token    of the dispatch in flight, or of the last one that was answered; '-' none, '?' none, and there is no
--          evidence that an agent had the last one, '!' none, and a silence is over, see silence_ends()
-- until    R: LockedUntil   B: the next try   P: likewise, 0 for none
--          M: when it is named again
-- unstarted  dispatches in a row that no agent is known to have begun: they came back, or their LockedUntil
--          passed without evidence; each doubles the wait of the next
-- waiting  neighbours that must come first and have not: dependencies where the job goes forward,
--          dependents where it goes back
-- since    the turn in which `waiting` was counted, see the job's epoch; left out in the first
-- forward  turn of the last dispatch that asked for ACTIVE: what an undo takes back

local RECORD = '^([ADU]) ([AD]) ([WRBMPF]) (%d+) (%d+) (%S+) (%d+) (%d+) (%d+) (%d+) (%d+) ?(%d*) ?(%d*)$'

local function parse_record(text, step)
  if not text then
    return {current = 'D', asked = 'A', state = 'W', turn = 0, attempt = 0, token = '-', till = 0,
      failures = 0, expiries = 0, waiting = step.n_after, unstarted = 0, since = 1, forward = 0}
  end
  local current, asked, state, turn, attempt, token, till, failures, expiries, waiting, unstarted,
    since, forward = match(text, RECORD)
  if not current then
    error('the record of a step says ' .. sub(text:gsub('%.[%w_-]+', '.'), 1, 100), 0) -- without its token
  end
  turn = num(turn)
  return {current = current, asked = asked, state = state, turn = turn, attempt = num(attempt),
    token = token, till = num(till), failures = num(failures), expiries = num(expiries),
    waiting = num(waiting), unstarted = num(unstarted), since = num(since) or 1,
    forward = num(forward) or turn}
end

local function record_text(rec)
  local text = rec.current .. ' ' .. rec.asked .. ' ' .. rec.state .. ' ' .. int(rec.turn) .. ' '
    .. int(rec.attempt) .. ' ' .. rec.token .. ' ' .. int(rec.till) .. ' ' .. int(rec.failures) .. ' '
    .. int(rec.expiries) .. ' ' .. int(rec.waiting) .. ' ' .. int(rec.unstarted)
  return rec.since == 1 and rec.forward == rec.turn and text or text .. ' ' .. int(rec.since) .. ' ' .. int(rec.forward)
end

-- In flight, or with a timer: there is a moment at which somebody must look.
local function under_way(state)
  return state == 'R' or state == 'B' or state == 'M' or state == 'P'
end

-- The same of a record that is not parsed: it begins "X X S".
local function has_moment(text)
  return text and under_way(sub(text, 5, 5))
end

---- jobs ----

-- What a call changes is collected in the loaded job and written by save(), in one HSET.

-- As a Submit makes it: what stands in DEFAULTS is only written to the table of a job that has it otherwise.
local job_new
do

local DEFAULTS = {__index = {
  hold = '', outcome = '',
  since = 1,       -- the turn in which the job was turned to where it goes
  epoch = 1,       -- the turn since which all is counted anew: `since`, or later a migration
  cause = '',      -- why it goes back: REQUESTED, CANCELLED, FAILURE
  ending = '',     -- why it is to end as it is, once nothing is in flight
  failed = '',     -- steps that nobody will try again, by number, as far as there is room
  stuck_do = 0, stuck_undo = 0, -- how many they are
  started = false, -- it had a start_at, and has begun
  start_at = 0, complete_by = 0,
  events = '',     -- step: what is sent is told on drover.events; reply: what happens at steps, to reply_to
  late = false,    -- the last turn whose forward work the deadline has bounded: it has passed; see late.mark()
  scan = false, scan_changed = false, had_cursor = false,
  settled = 0,     -- seq of the notice that this call owes
  marked = 0,      -- the partition's mark after what this call accepted or settled
  next_try = 0,    -- it was taken back, and goes forward again then; 0: it does not
  parked = 0,      -- steps that are parked, or tried again since, see add_parked()
  attention = '',  -- why a person is needed: "kind since step actor class", see attend()
  acknowledged = false, -- a person knows
  waits_for = '',  -- steps that are undone before a change is carried out, by number, see change
}}

-- `budget` is what the call may touch, shared by the jobs of one call. What every call sets stands here, though it
-- is set again: a table that is made as large as it will be need not grow.
job_new = function(p, id, now, def, n, budget)
  return setmetatable({
    p = p, id = id, key = p .. 'job:' .. id, now = now, def = def, n = n,
    desired = 'A', phase = 'PROCESSING', turn = 1, seq = 0, bytes = 0,
    open = n,        -- steps that are not where the job wants them
    busy = 0,        -- steps in flight or with a timer
    was_busy = 0, due = now + SWEEP_BOUND, due_changed = false, step_text = false,
    plain = false,   -- it has no field that few jobs have
    bare = false,    -- nor labels, nor a traceparent
    spreads = {},    -- the cursor: work that did not fit into a call, see drive()
    changed = {bytes = nil, due = nil, busy = nil, locked_by = nil},
    records = {}, history = {nil, nil}, dispatched = {}, alerts = {},
    budget = budget or {left = BUDGET},
  }, DEFAULTS)
end

end

local function read_cursor(job, text)
  for from, offset, edge in gmatch(text, '([%dlrtwy]+):(%d+):?(%d*)') do
    job.spreads[#job.spreads + 1] = {
      from = tonumber(from) or from, offset = tonumber(offset), edge = tonumber(edge) or 0}
  end
end

local load, is_rare
do

-- Fields that most jobs never have: as long as `plain` says so (1; 2: and neither labels nor a traceparent among
-- the data) they are not asked for, because to look for what is not there costs Redis more than to find what is.
local RARE = {'hold', 'cursor', 'scan', 'outcome', 'start_at', 'events', 'since', 'cause', 'ending', 'failed',
  'complete_by', 'late', 'stuck', 'epoch', 'started', 'parked', 'attention', 'acknowledged', 'next_try', 'waits_for'}
is_rare = {}
for k = 1, #RARE do
  is_rare[RARE[k]] = true
end

local function load_rare(job)
  local h = call('HMGET', job.key, unpack(RARE))
  job.hold, job.outcome, job.start_at = h[1] or '', h[4] or '', tonumber(h[5] or '0')
  job.events, job.since, job.cause = h[6] or '', tonumber(h[7] or '1'), h[8] or ''
  job.ending, job.failed, job.complete_by = h[9] or '', h[10] or '', tonumber(h[11] or '0')
  job.late, job.started = (h[12] or '') ~= '' and (tonumber(h[12]) or 1) - 1, h[15] == '1'
  job.parked, job.attention, job.acknowledged = tonumber(h[16] or '0') or 0, h[17] or '', h[18] == '1'
  job.next_try, job.troubled = tonumber(h[19] or '') or 0, match(job.attention, '^ended ') ~= nil
  job.waits_for = h[20] or ''
  if h[13] then
    local to_do, to_undo = match(h[13], '^(%d+) (%d+)$')
    job.stuck_do, job.stuck_undo = tonumber(to_do), tonumber(to_undo)
  end
  if not (job.since and job.since > 0) then
    error('since is no such number', 0)
  end
  job.epoch = tonumber(h[14]) or job.since
  job.epoch = job.epoch > 0 and job.epoch or job.since
  job.had_cursor = h[2] and h[2] ~= ''
  if job.had_cursor then
    read_cursor(job, h[2])
  end
  if h[3] and h[3] ~= '' then
    local offset, least = match(h[3], '^(%d+) (%d+)$')
    if tonumber(offset) < job.n then
      job.scan = {offset = tonumber(offset), least = tonumber(least)}
    else -- it has migrated to fewer steps: it is looked at anew
      job.scan_changed = true
    end
  end
end

local STEPS_MAX = 10000
local MOST, MOST_TURNS = 2 ^ 53, 2 ^ 31
local PHASES = {PENDING = true, PROCESSING = true, PROCESSED = true, ERROR = true}

-- nil: no such job. It is torn where it cannot be read: an error that says why.
load = function(p, id, now, step_field, budget)
  local h = call('HMGET', p .. 'job:' .. id, 'def', 'desired', 'phase', 'turn', 'open', 'due', 'seq', 'n',
    'bytes', 'busy', 'plain', step_field)
  if not h[1] then
    if h[3] or h[8] then
      error('it names no definition', 0)
    end
    return nil
  end
  local job = job_new(p, id, now, definition(p, h[1]), num(h[8]), budget)
  job.desired, job.phase, job.turn, job.open = h[2], h[3], num(h[4]), num(h[5] or 'lost')
  job.due, job.seq, job.bytes = num(h[6]) or 0, num(h[7]), num(h[9])
  job.busy, job.step_text = num(h[10] or '0'), h[12]
  if not (job.n and job.turn and job.seq and job.n > 0 and job.n <= STEPS_MAX and job.turn > 0 and job.turn < MOST_TURNS
    and job.seq >= 0 and job.seq < MOST) then
    error('n, turn or seq is no such number', 0)
  elseif not PHASES[job.phase] or job.desired ~= 'A' and job.desired ~= 'D' then
    error('it has no such phase, or no such desired state', 0)
  end
  if not job.bytes or job.bytes > DATA_MAX then
    job.bytes = 0
  end
  if not job.busy or job.busy < 0 or job.busy > job.n then
    job.busy = job.n -- it does not end before a sweep has counted
  end
  job.open = job.open or job.n -- likewise
  job.was_busy = job.busy
  job.plain, job.bare = h[11] == '1' or h[11] == '2', h[11] == '2'
  if not job.plain then
    load_rare(job)
  end
  return job
end

end

-- f(...), which works on one job of several; false, and what is wrong, where that job is torn: edited by hand, or by a
-- bug, so that no call can read it. It must not stop the others. What else fails is raised again.
local function unless_torn(f, ...)
  local good, first, second = pcall(f, ...)
  local wrong = not good and (type(first) == 'table' and first.err or first)
  if wrong and type(first) == 'table' and not match(wrong, '^WRONGTYPE') and not match(wrong, '^ERR .-value is not')
    and not match(wrong, '^ERR .-would overflow') then
    error(first, 0)
  end
  return good, good and first or wrong, second
end

-- Adds to a counter; one that is no number, or below 0, counts from here.
local function count_up(key, field, by)
  local good, count = unless_torn(call, 'HINCRBY', key, field, by)
  if not good or count < 0 then
    count = max(by, 0)
    call('HSET', key, field, int(count))
  end
  return count
end

local function note(job, event, a, b, c, d)
  local seq, history = job.seq + 1, job.history
  local head = int(seq) .. ' ' .. int(job.now) .. ' ' .. event
  job.seq = seq
  history[#history + 1] = d and head .. ' ' .. a .. ' ' .. b .. ' ' .. c .. ' ' .. d
    or c and head .. ' ' .. a .. ' ' .. b .. ' ' .. c
    or b and head .. ' ' .. a .. ' ' .. b
    or a and head .. ' ' .. a
    or head
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

-- Whether anything may be sent for this job.
local function moving(job)
  return job.phase == 'PROCESSING' and job.hold == '' and job.ending == ''
end

-- Whether the cursor can be worked off now: where nothing may be sent, what does not only send.
local function unfinished(job)
  local work = job.spreads[1]
  return work and job.phase == 'PROCESSING'
    and (moving(job) or work.from ~= 'w' and work.from ~= 'y' and (work.from ~= 't' or job.ending == ''))
end

-- Has job[name] changed, in the store as well.
local function set(job, name, value)
  job[name] = value
  job.changed[name] = type(value) == 'number' and int(value) or value
end

-- The deadline of a job.
local late = {}

-- The deadline has passed: it has bounded what was sent in these turns. The store has one more; builds before 46 had 1
-- and bounded nothing.
function late.mark(job, turn)
  job.late, job.changed.late = turn, int(turn + 1)
end

-- Whether the deadline has passed on the way that the job goes, and nobody has had it go on since.
function late.is_late(job)
  return job.late and job.late >= job.since and job.desired == 'A' and job.ending == ''
end

-- What a client is told of next moves the mark on.
local function move_mark(job)
  job.marked = call('HINCRBY', job.p .. 'mark', 'count', 1)
end

-- Somebody is to hear of what the history was told last. The notice reads here how things are now: the job may
-- have gone on by then.
local function owe(job, outcome, reason, steps)
  call('HSET', job.p .. 'data:' .. job.id, 's' .. job.seq,
    concat({outcome, job.phase, int(job.turn), int(job.now), int(max(min(job.open, job.n), 0)), reason,
      match(steps, '^[%d ]*')}, ' '))
  call('ZADD', job.p .. 'owed', int(job.now + NAMED_AGAIN), job.id .. ' ' .. job.seq)
  count_up(job.key, 'owes', 1)
end

-- The class of the error that this call is about, as one word; where no agent has reported one, the reason.
local function class_of(job, reason)
  local class = job.class and job.class ~= '' and sub(job.class:gsub('[^%w_.-]', '_'), 1, 64) or reason
  return class
end

-- "step actor class" of what a person is needed for.
local function set_trouble(job, i, asked, class)
  local step, actor = i and step_of(job.def, i).name or '', i and terms_of(job.def, i, asked).actor or ''
  job.trouble = (step == '' and '-' or step) .. ' ' .. (actor == '' and '-' or actor) .. ' ' .. class
end

local deciding = {} -- what decides where a job goes, or how it ends
do -- its own locals: Lua takes 200 in one scope

-- A number of a protobuf message that stands at `at`, and where it ends; nil where none does.
local function number_at(text, at)
  local value, factor, b = 0, 1, nil
  repeat
    b = at and text:byte(at)
    if not b then
      return nil
    end
    value, factor, at = value + b % 128 * factor, factor * 128, at + 1
  until b < 128
  return value, at
end

-- An encoded Error without its details, which may be long; '' for what is none.
function deciding.without_details(text)
  local kept, at = '', 1
  while at <= #text do
    local tag, from = number_at(text, at)
    local value, after = number_at(text, from)
    if not value or tag % 8 ~= 0 and tag % 8 ~= 2 then
      return ''
    end
    after = tag % 8 == 2 and after + value or after
    kept = tag == 26 and kept or kept .. sub(text, at, after - 1)
    at = after
  end
  return kept
end

-- What has decided, forward and back; '' where nothing has.
local function decisions(job)
  return match(job.changed.failure or call('HGET', job.key, 'failure') or '', '^([^|]*)|?(.*)$')
end

local function set_decisions(job, forward, back)
  job.changed.failure = forward .. (back ~= '' and '|' .. back or '')
end

-- A failure has decided that the job does not get to where it was to go, forward (A) or back (D): of step i, nil for
-- none. The first one on each way counts. It is kept as "name asked reason number class", that of the way back behind
-- a bar, with the step's error among the data.
function deciding.failure(job, i, asked, reason)
  local forward, back = decisions(job)
  if (asked == 'A' and forward or asked == 'D' and back) ~= '' then
    return
  end
  local data, name = job.p .. 'data:' .. job.id, i and step_of(job.def, i).name or ''
  local text = i and call('HGET', data, 'e' .. int(i))
  local this = concat({name == '' and '-' or name, asked, reason, i and int(i) or '-', class_of(job, reason)}, ' ')
  set_decisions(job, asked == 'A' and this or forward, asked == 'D' and this or back)
  call('HSET', data, asked == 'A' and 'failure' or 'failure_back', text and deciding.without_details(text) or '')
  count_up(job.key, 'failures', 1)
end

-- What has decided last, and the error of that; '' where nothing has.
function deciding.last(job)
  local forward, back = decisions(job)
  if forward == '' and back == '' then
    return '', ''
  end
  local data = job.p .. 'data:' .. job.id
  return back ~= '' and back or forward, call('HGET', data, back ~= '' and 'failure_back' or 'failure') or ''
end

-- The job goes on: on the way that it goes nothing has decided yet; `all`: on neither.
function deciding.reset(job, all)
  local forward = decisions(job)
  set_decisions(job, not all and job.desired == 'D' and forward or '', '')
end

end

-- `asked` of step i, where it is about one.
local function alert(job, i, reason, asked)
  job.alerts[#job.alerts + 1] = {i = i, reason = reason, asked = asked or 'A', seq = job.seq}
end

-- About what the history was told last; owed until somebody knows.
local function alert_owed(job, i, reason, asked)
  if job.acknowledged then
    set(job, 'acknowledged', '')
    job.acknowledged = false
  end
  alert(job, i, reason, asked)
  owe(job, 'ALERT', reason, i == NO_STEP and '' or int(i) .. (asked == 'D' and ' 1' or ' 0'))
end

-- A change of the definition, or of a step's arguments, that waits: what may have been done by them is undone first.
-- Meanwhile the job begins nothing forward. The command is kept, and carried out when all is undone.
local change = {}

local settle
do

-- An end that nobody has asked for, and that the workflow does not call ordinary: a person is to know.
local function is_trouble(job, outcome, reason)
  if outcome == 'COMPENSATED' and reason == 'FAILURE' then
    return match(call('HGET', job.def.key, 'job') or '', '^%u %d+ ([01]) ') ~= '1'
  end
  return outcome == 'FAILED' or outcome == 'COMPENSATION_FAILED'
end

-- The turn is over.
function settle(job, outcome, reason)
  change.drop(job)
  local there = outcome == 'SUCCEEDED' or outcome == 'COMPENSATED' and reason == 'REQUESTED'
  if outcome == 'FAILED' or outcome == 'COMPENSATION_FAILED' then
    deciding.failure(job, tonumber(match(job.failed, '^%d+')), outcome == 'FAILED' and 'A' or 'D', 'PERMANENT') -- where a person
    -- has retried another one
  end
  set(job, 'outcome', outcome)
  if reason ~= '' then
    set(job, 'reason', reason) -- else there is none: it was never set, or reopen() has emptied it
  end
  set(job, 'phase', there and 'PROCESSED' or 'ERROR')
  if job.hold ~= '' and outcome ~= 'KILLED' then
    set(job, 'hold', '')
  end
  set(job, 'current', job.open == 0 and job.desired or 'U')
  if job.next_try > 0 then
    set(job, 'next_try', 0)
  end
  if is_trouble(job, outcome, reason) then
    local asked, number, class = match(deciding.last(job), '^%S+ (%u) %S+ (%S+) (%S+)$')
    number = tonumber(number)
    set_trouble(job, number, asked, class or reason)
    job.troubled = true
    note(job, 'attention', outcome)
    alert_owed(job, number or NO_STEP, outcome, asked)
  end
  note(job, 'settled', outcome, reason)
  job.settled = job.seq
  move_mark(job)
  owe(job, outcome, reason, job.failed)
  if outcome ~= 'SUCCEEDED' then -- of this end, whatever comes of the job before it is told
    local why, failure = deciding.last(job)
    if why ~= '' then
      call('HSET', job.p .. 'data:' .. job.id, 'w' .. int(job.seq), why, 'v' .. int(job.seq), failure)
    end
  end
  call('ZREM', job.p .. 'due', job.id)
  call('ZREM', job.p .. 'open', job.id)
  call('ZADD', job.p .. 'settled', int(job.now), job.id)
  if job.phase == 'ERROR' then
    call('ZADD', job.p .. 'failed', call('HGET', job.key, 'created') or int(job.now), job.id)
  end
end

end

-- A settled job goes on.
local function reopen(job)
  set(job, 'outcome', '')
  set(job, 'reason', '')
  set(job, 'phase', 'PROCESSING')
  job.troubled = false
  call('ZREM', job.p .. 'settled', job.id)
  call('ZREM', job.p .. 'failed', job.id)
  call('ZADD', job.p .. 'open', call('HGET', job.key, 'created'), job.id)
  job.due, job.due_changed = job.now + SWEEP_BOUND, true
end

local function cursor_text(job)
  local words = {}
  for _, s in ipairs(job.spreads) do
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

local save
do

-- What a person is needed for: parked, deadline (held, and past its time), ended; '' for nothing.
local function need_of(job)
  if job.acknowledged then
    return ''
  elseif finished(job) then
    return job.troubled and 'ended' or ''
  end
  local waits = job.hold == 'deadline' or job.hold ~= '' and late.is_late(job)
  return job.parked > 0 and 'parked' or waits and 'deadline' or ''
end

-- Keeps the lists of those that need a person, and why this one does.
local function attend(job)
  local kind, was, since = need_of(job), match(job.attention, '^(%S+) (%d+)')
  was = was or ''
  if kind == was then
    if kind ~= '' and job.trouble then
      set(job, 'attention', kind .. ' ' .. since .. ' ' .. job.trouble)
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
  local trouble = job.trouble or kind == 'deadline' and '- - DEADLINE' or match(job.attention, '^%S+ %d+ (.*)') or '- - -'
  set(job, 'attention', kind .. ' ' .. int(job.now) .. ' ' .. trouble)
end

function save(job, by)
  if not job.plain or job.troubled or job.parked > 0 then
    attend(job)
  end
  if unfinished(job) then
    touch(job, job.now + CONTINUED)
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
  if #job.spreads > 0 or job.had_cursor then
    changed.cursor = cursor_text(job)
  end
  if job.scan_changed then
    changed.scan = job.scan and format('%d %.0f', job.scan.offset, job.scan.least) or ''
  end
  local fields, n, rare = {'open', int(job.open), 'seq', int(job.seq), 'updated', int(job.now)}, 6, false
  for name, value in pairs(changed) do
    rare = rare or is_rare[name]
    fields[n + 1], fields[n + 2], n = name, value, n + 2
  end
  if job.plain and rare then
    fields[n + 1], fields[n + 2], n = 'plain', '0', n + 2
    job.bare = false -- its complete_by may be one of them
  end
  for i, rec in pairs(job.records) do
    fields[n + 1], fields[n + 2], n = int(i), record_text(rec), n + 2
  end
  for first = 1, n, 2000 do
    call('HSET', job.key, unpack(fields, first, min(first + 1999, n)))
  end
  save_history(job)
end

end

---- steps and jobs move ----

-- Moves a step to another state; `busy` counts along.
local function set_state(job, i, rec, state, till)
  local was, is = under_way(rec.state), under_way(state)
  if was ~= is then
    job.busy = job.busy + (is and 1 or -1)
  end
  rec.state, rec.till = state, till
  job.records[i] = rec
  if till > 0 then
    touch(job, till)
  end
end

-- How many neighbours come before a step, and after it, on the way that the job goes.
local function n_before(job, step)
  return job.desired == 'A' and step.n_after or step.n_dependents
end

local function n_next(job, step)
  return job.desired == 'A' and step.n_dependents or step.n_after
end

-- A piece of the list of those after step i, and where the piece begins.
local function next_at(job, i, offset)
  if job.desired == 'A' then
    return dependents_at(job.def, i, offset)
  end
  local step = step_of(job.def, i)
  step.after = step.after or numbers(step.after_text)
  return step.after, 0
end

-- The record of step i as the present way sees it: what it waited for before all was counted anew is
-- past, and so are its timers on a way that the job has left.
local function record_of(job, i, text)
  local rec = job.records[i] or parse_record(text, step_of(job.def, i))
  if rec.since ~= job.epoch then
    local turned = rec.since < job.since
    rec.since, rec.waiting = job.epoch, n_before(job, step_of(job.def, i))
    if turned and rec.state ~= 'R' then
      set_state(job, i, rec, 'W', 0)
    end
  end
  return rec
end

-- Whether a deadline takes the job back or ends it, so that forward work gets no longer than is left until then.
local function is_bounded(job, asked)
  if asked ~= 'A' or job.complete_by == 0 then
    return false
  end
  local def = job.def
  def.on_deadline = def.on_deadline or match(call('HGET', def.key, 'job') or '', '^%u') or 'P'
  return def.on_deadline ~= 'P'
end

-- How long forward work may still take; nil: nothing bounds it.
local function time_left(job, asked)
  return not job.late and is_bounded(job, asked) and job.complete_by - job.now or nil
end

-- How long a request may wait for an agent: twice as long after each dispatch that no agent is known to have begun.
local function wait_of(t, rec)
  local doubled = max(t.wait, min(t.wait * 2 ^ rec.unstarted, WAIT_CAP))
  return rec.unstarted > 0 and max(t.wait + 1, doubled) or doubled -- longer in any case: a scheduler watches it
end

-- The same of a request that is in flight.
local function wait_left(job, i, rec)
  local lease, left = terms_of(job.def, i, rec.asked).lock, time_left(job, rec.asked)
  if not left then
    return rec.till - job.now - lease
  end
  return min(rec.till - job.now - min(lease, left), left) -- past the deadline it is not to be sent any more
end

-- What a step is to do next on the way to where the job wants it. An undo that was sent is driven to
-- its end first, and what an earlier turn may have done is undone first.
local function next_asked(job, rec)
  if job.desired == 'D' or rec.current == 'U' and (rec.asked == 'D' or rec.turn < job.since) then
    return 'D'
  end
  return 'A'
end

-- Whether a dispatch is another try of the work that the last one was for, under the same key.
local function another_try(job, rec, asked)
  return rec.asked == asked and (rec.turn == job.turn
    or rec.current == 'U' and (asked == 'D' or rec.turn >= job.since))
end

local mint, token_id, is_others
do

local twins -- of three hex digits, the same twelve bits in two digits of base64url: a record is to stay below 64 bytes

local function make_twins()
  local digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
  twins = {}
  for i = 0, 4095 do
    local high, low = floor(i / 64) + 1, i % 64 + 1
    twins[format('%03x', i)] = sub(digits, high, high) .. sub(digits, low, low)
  end
end

-- The token of a dispatch of step i: "<step>.<22 digits>", 132 bits. `fresh` is 128 bits that nobody else knows, so
-- a token says nothing of another one of the same call.
function mint(i, fresh)
  if not twins then
    make_twins()
  end
  local hash = redis.sha1hex(fresh .. '.' .. int(i))
  return int(i) .. '.' .. (sub(hash, 1, 33):gsub('%x%x%x', twins))
end

-- Whether a job is not that of `owner`, a user of the broker; '' is whoever may do this to any job.
function is_others(p, id, owner)
  return (owner or '') ~= '' and call('HGET', p .. 'data:' .. id, 'submitter') ~= owner
end

-- Which dispatch of step i a token is of, for history and people: the step and a digest, which nobody can answer with.
function token_id(i, token)
  return int(i) .. '.' .. sub(redis.sha1hex(token), 1, 8)
end

end

-- Locks a step under a new token: from here on it is in flight.
local function lock(job, i, rec, asked, fresh)
  local t, left = terms_of(job.def, i, asked), time_left(job, asked)
  if left and left <= 0 then
    set_state(job, i, rec, 'W', 0) -- the deadline is about to be noticed, and turns or ends the job
    return
  elseif asked == 'A' and job.waits_for ~= '' then
    set_state(job, i, rec, 'W', 0)
    return
  end
  if not another_try(job, rec, asked) then
    -- an undo on the way forward belongs to the way back that went before
    rec.turn = (asked == 'D' and job.desired == 'A') and job.since - 1 or job.turn
    rec.failures, rec.expiries, rec.unstarted = 0, 0, 0
  end
  if asked == 'A' then
    rec.forward = rec.turn
  end
  local wait, lease = wait_of(t, rec), t.lock
  if left then
    wait, lease = min(wait, left), min(lease, left)
  end
  rec.asked = asked
  rec.attempt = rec.attempt + 1
  local name = int(i)
  rec.token = mint(i, fresh)
  set_state(job, i, rec, 'R', job.now + wait + lease)
  job.dispatched[#job.dispatched + 1] = {i = i, rec = rec, wait = wait}
  note(job, 'dispatched', name, int(rec.attempt), token_id(i, rec.token), asked == 'D' and 'D' or nil)
end

-- When a job turns, a look at every step counts those that are there already; until it has come to a
-- step, that step is not sent off and does not count for itself.
local function counted(job, i)
  local k = 1
  while job.spreads[k] and job.spreads[k].from == 'l' do
    k = k + 1
  end
  local look = job.spreads[k]
  return not look or look.from ~= 't' or i < look.offset or i == look.offset and look.edge > 0
end

-- A step that nothing takes back is passed over on the way back.
local function pass_over(job, i, rec)
  if next_asked(job, rec) == 'A' or step_of(job.def, i).has_revert then
    return false
  end
  rec.current = 'D'
  job.records[i] = rec
  note(job, 'skipped', i)
  return true
end

local function spread_from(job, i)
  if n_next(job, step_of(job.def, i)) > 0 then
    job.spreads[#job.spreads + 1] = {from = i, offset = 0, edge = 0}
  end
end

-- It is not to count any more as parked, see add_parked().
local function remove_parked(job, i)
  if job.parked > 0 and call('HGET', job.key, 'k' .. i) == int(job.since) then
    call('HDEL', job.key, 'k' .. i)
    set(job, 'parked', job.parked - 1)
  end
end

-- A step is where the job wants it.
local function arrive(job, i)
  remove_parked(job, i)
  job.open = job.open - 1
  spread_from(job, i)
end

-- Nothing keeps this step any more from going where the job wants it.
local function begin(job, i, rec, fresh)
  if not moving(job) then
    return -- whatever ends the hold looks at every step
  elseif pass_over(job, i, rec) and job.desired == 'D' then
    arrive(job, i)
  else
    lock(job, i, rec, next_asked(job, rec), fresh)
  end
end

-- A step has come to rest: its flight has ended, or its timer is void.
local function rest(job, i, rec, fresh)
  job.records[i] = rec
  record_of(job, i)
  set_state(job, i, rec, 'W', 0)
  if not counted(job, i) then
    return
  elseif rec.current == job.desired then
    arrive(job, i)
  elseif rec.waiting == 0 then
    begin(job, i, rec, fresh)
  end
end

-- A parked step counts until it has succeeded, or a person has it begin anew: also while it is tried again. What an
-- earlier way has parked does not.
local function add_parked(job, i)
  local since = int(job.since)
  if call('HGET', job.key, 'k' .. i) == since then
    return false
  end
  call('HSET', job.key, 'k' .. i, since)
  set(job, 'parked', job.parked + 1)
  return true
end

-- That it was given one more try while it was parked is no news.
local function park(job, i, rec, reason, till)
  set_trouble(job, i, rec.asked, class_of(job, reason))
  local fresh = add_parked(job, i)
  set_state(job, i, rec, 'P', till)
  note(job, 'parked', i, reason)
  if fresh or till == 0 then
    alert_owed(job, i, 'PARKED', rec.asked)
  end
end

-- Whether it was accepted before its definition could say this, and is to stay as it was.
local function is_older_job(job)
  local renewed = tonumber(call('HGET', job.def.key, 'renewed') or '')
  return renewed and tonumber(call('HGET', job.key, 'created')) < renewed
end

-- A step whose agents have died, or fell silent, as often as may be is tried once more after its silence interval, by
-- one dispatch; each such round that is another death doubles it. 0: never.
local function silence_ends(job, t, rec)
  if t.silence == 0 or is_older_job(job) then
    return 0
  end
  return job.now + min(t.silence * 2 ^ max(rec.expiries - t.expiries, 0), max(t.silence, DAY))
end

-- Why this work is not to be tried again, and until when; nil where it may be.
local function used_up(job, i, rec)
  local t = terms_of(job.def, i, rec.asked)
  if rec.expiries >= t.expiries then
    return 'DEATHS', silence_ends(job, t, rec)
  elseif rec.failures >= t.attempts then
    return 'EXHAUSTED', t.park > 0 and job.now + t.park or 0
  end
end

-- Steps that nobody will try again, of those that were to be done and to be undone.
local function set_stuck(job, to_do, to_undo)
  job.stuck_do, job.stuck_undo = to_do, to_undo
  job.changed.stuck = int(to_do) .. ' ' .. int(to_undo)
end

local function stuck_by(job, rec, n)
  if rec.asked == 'A' then
    set_stuck(job, job.stuck_do + n, job.stuck_undo)
  else
    set_stuck(job, job.stuck_do, job.stuck_undo + n)
  end
end

-- A job goes forward, by a person's word or another try: its bound holds, unless it has passed already.
local function mind_deadline(job)
  if job.desired == 'A' and job.complete_by > job.now then
    touch(job, job.complete_by)
  elseif job.desired == 'A' and job.complete_by > 0 then
    late.mark(job, job.turn - 1) -- whoever has it go on now knows that
  end
end

-- Every step is counted anew, and whatever nothing keeps is sent off. Flights are not touched.
local function count_anew(job)
  set(job, 'epoch', job.turn)
  job.open = job.n
  job.spreads = {{from = 't', offset = 0, edge = 0}}
end

-- The job goes the other way. Flights are not touched: they are answered, or expire.
local function turn(job, desired, cause, ...)
  if finished(job) then
    reopen(job)
  end
  set(job, 'turn', job.turn + 1)
  set(job, 'since', job.turn)
  if job.parked > 0 then
    set(job, 'parked', 0)
  end
  set(job, 'desired', desired)
  set(job, 'cause', cause)
  set(job, 'ending', '')
  set(job, 'failed', '')
  if job.next_try > 0 then
    set(job, 'next_try', 0)
  end
  set(job, 'current', 'U')
  if cause ~= 'FAILURE' then
    deciding.reset(job, true)
  end
  note(job, 'turned', desired, cause, ...)
  change.drop(job)
  if job.hold == 'deadline' then
    set(job, 'hold', '') -- it bounds forward work only
  end
  mind_deadline(job)
  set_stuck(job, 0, 0)
  count_anew(job)
end

-- The job is to end as it is, once nothing is in flight.
local function end_as_it_is(job, reason)
  set(job, 'ending', reason)
  note(job, 'ending', reason)
  table.insert(job.spreads, 1, {from = 'l', offset = 0, edge = 0})
end

local function add_failed(job, i, rec)
  set_state(job, i, rec, 'F', 0)
  stuck_by(job, rec, 1)
  if #job.failed < FAILED_BYTES then
    set(job, 'failed', job.failed == '' and int(i) or job.failed .. ' ' .. int(i))
  end
end

local function remove_failed(job, i, rec)
  local failed = {}
  for word in gmatch(job.failed, '%d+') do
    failed[#failed + 1] = tonumber(word) ~= i and word or nil
  end
  set(job, 'failed', concat(failed, ' '))
  stuck_by(job, rec, -1)
end

-- Has every step looked at, once more where that has begun.
local function look_at_all(job, kind)
  local last = job.spreads[#job.spreads]
  if not last or last.from ~= kind or last.offset > 0 then
    job.spreads[#job.spreads + 1] = {from = kind, offset = 0, edge = 0}
  end
end

-- A step will not get there by trying again.
local function give_up(job, i, rec, recourse, reason, till)
  if recourse == 'P' then
    park(job, i, rec, reason, till)
    return
  end
  deciding.failure(job, i, rec.asked, reason)
  if rec.asked == 'D' then
    note(job, 'given_up', i, reason)
    add_failed(job, i, rec)
    if change.waits_for(job, i) then -- it cannot be carried out; what else the job has to do goes on
      change.drop(job, 'FAILED', i)
      look_at_all(job, 'w')
    end
  elseif recourse == 'C' then
    set_state(job, i, rec, 'W', 0)
    turn(job, 'D', 'FAILURE', reason, i)
  else
    note(job, 'given_up', i, reason)
    add_failed(job, i, rec)
    end_as_it_is(job, reason)
  end
end

---- the cursor ----

-- A list of work that did not fit into a call, "from:offset:edge", each worked off from its offset on; an edge
-- is where t stands with the neighbours of a step that it has counted, plus one:
--   a step's number   it has arrived: those after it have one less to wait for; r: before all roots
--   t                 the job has turned, or was migrated: every step is counted, and sent off where
--                     nothing keeps it
--   w                 the job was held: every step that nothing keeps is sent off
--   y                 the same, and what was parked or has failed begins anew
--   l                 the job is to end: every timer is void

-- One piece of what follows when a step has arrived; returns how far it came.
local function spread_piece(job, from, offset, fresh)
  local piece, first = next_at(job, from, offset)
  local count = min(#piece - (offset - first), job.budget.left)
  local list, fields, texts = {}, nil, nil
  for k = 1, count do
    list[k] = piece[offset - first + k]
  end
  prefetch(job.def, list)
  for k = 1, count do
    local i = list[k]
    -- in a job's first turn nothing but this spread can have touched a step that waits for one
    -- or, of roots that an earlier call has left over, a person
    if not job.records[i] and not (job.turn == 1 and step_of(job.def, i).n_after <= 1 and (from ~= 'r' or offset == 0)) then
      fields = fields or {}
      fields[#fields + 1] = int(i)
    end
  end
  if fields then
    texts = {}
    for k, text in ipairs(call('HMGET', job.key, unpack(fields))) do
      texts[fields[k]] = text
    end
  end
  for k = 1, count do
    local i = list[k]
    local rec = record_of(job, i, texts and texts[int(i)])
    if rec.state ~= 'W' or rec.current ~= job.desired then
      if from ~= 'r' then
        rec.waiting = rec.waiting - 1
      end
      job.records[i] = rec
      if rec.waiting == 0 and rec.state == 'W' and counted(job, i) then
        begin(job, i, rec, fresh)
      end
    end
  end
  job.budget.left = job.budget.left - count
  return offset + count
end

-- Spreads from a step until all is done or the budget is used; returns how far it came, and whether
-- that is all.
local function spread_on(job, from, offset, fresh)
  local all = n_next(job, step_of(job.def, from))
  while offset < all and job.budget.left > 0 do
    offset = spread_piece(job, from, offset, fresh)
  end
  return offset, offset >= all
end

-- The next steps of a walk over all of them, with their records: up to what the budget allows.
local function walk_ahead(job, work)
  local last = min(work.offset + max(job.budget.left, 1), job.n)
  local fields, list, texts = {}, {}, {}
  for i = work.offset, last - 1 do
    fields[#fields + 1], list[#list + 1] = int(i), i
  end
  if #fields > 0 then
    prefetch(job.def, list)
    for k, text in ipairs(call('HMGET', job.key, unpack(fields))) do
      texts[list[k]] = text
    end
  end
  return last, texts
end

-- It begins anew. That nobody can have begun it stays known: a migration may still change it.
local function forgive(rec)
  rec.failures, rec.expiries = 0, 0
  if rec.unstarted < rec.attempt then
    rec.unstarted = 0
  end
end

-- It waits for no other step, and was sent: it was parked or backing off when the end of the job laid it down,
-- or its last try came back while nothing was sent.
local function has_tried(job, rec)
  return rec.since == job.epoch and rec.waiting == 0 and rec.current ~= job.desired and rec.attempt > 0
end

-- What a retry of all steps is about. A parked step whose next try is due is marked: by its counts it still
-- stands. What the end of a job has laid down was parked, or was to be tried again, and nobody can tell which.
local function stands_still(job, i, rec)
  if rec.state == 'P' or rec.state == 'F' then
    return true
  elseif rec.state == 'R' or rec.current == job.desired or rec.failures + rec.expiries == 0 then
    return false
  elseif rec.state == 'W' then
    return has_tried(job, rec)
  end
  return used_up(job, i, rec) ~= nil
end

-- Whether a retry of all has yet to come by this step.
local function retry_ahead(job, i)
  for _, work in ipairs(job.spreads) do
    if work.from == 'y' and work.offset <= i then
      return true
    end
  end
  return false
end

local drive
do

-- What had used up its tries, and is to be tried all the same, begins anew: its job has turned.
local function count_step(job, i, rec, fresh)
  if rec.state ~= 'W' then
    return false
  elseif rec.failures + rec.expiries > 0 and another_try(job, rec, next_asked(job, rec)) and used_up(job, i, rec) then
    forgive(rec)
    job.records[i] = rec
  end
  if rec.current ~= job.desired and rec.waiting == 0 and moving(job) then
    if not (pass_over(job, i, rec) and job.desired == 'D') then
      lock(job, i, rec, next_asked(job, rec), fresh)
    end
  end
  return rec.state == 'W' and rec.current == job.desired
end

local function turn_piece(job, work, fresh)
  local last, texts = walk_ahead(job, work)
  while work.offset < last and job.budget.left > 0 do
    local i = work.offset
    if work.edge == 0 then
      job.budget.left = job.budget.left - 1
      if count_step(job, i, record_of(job, i, texts[i]), fresh) then
        job.open, work.edge = job.open - 1, 1
      end
    end
    if work.edge > 0 then
      local offset, all = spread_on(job, i, work.edge - 1, fresh)
      work.edge = offset + 1
      if not all then
        return false
      end
    end
    work.offset, work.edge = i + 1, 0
  end
  return work.offset == job.n
end

-- A walk has come to that step. Returns whether that is all.
local function walked(job, work, last)
  job.budget.left = job.budget.left - (last - work.offset)
  work.offset = last
  return last == job.n
end

local function wake_piece(job, work, fresh)
  local last, texts = walk_ahead(job, work)
  for i = work.offset, last - 1 do
    local rec = record_of(job, i, texts[i])
    if work.from == 'y' and stands_still(job, i, rec) then
      if rec.state == 'F' then
        remove_failed(job, i, rec)
      end
      remove_parked(job, i)
      forgive(rec)
      set_state(job, i, rec, 'W', 0)
    end
    local reason, till
    if rec.state == 'W' and has_tried(job, rec) and another_try(job, rec, next_asked(job, rec)) then
      reason, till = used_up(job, i, rec)
    end
    if reason then -- the end of the job has laid it down
      park(job, i, rec, reason, till)
    elseif rec.state == 'W' and rec.current ~= job.desired and rec.waiting == 0 then
      begin(job, i, rec, fresh)
    elseif under_way(rec.state) and rec.till > 0 then
      touch(job, rec.till)
    end
  end
  return walked(job, work, last)
end

local function lay_down_piece(job, work)
  local last, texts = walk_ahead(job, work)
  for i = work.offset, last - 1 do
    if has_moment(texts[i]) then
      local rec = record_of(job, i, texts[i])
      if rec.state ~= 'R' and rec.state ~= 'F' then
        set_state(job, i, rec, 'W', 0)
      end
    end
  end
  return walked(job, work, last)
end

-- Works the cursor off until it is done or the budget is used. On a job that is held nothing is sent.
local function work_off(job, fresh)
  while job.budget.left > 0 and unfinished(job) do
    local work, done = job.spreads[1], nil
    if work.from == 't' then
      done = turn_piece(job, work, fresh)
    elseif work.from == 'w' or work.from == 'y' then
      done = wake_piece(job, work, fresh)
    elseif work.from == 'l' then
      done = lay_down_piece(job, work)
    else
      work.offset, done = spread_on(job, work.from, work.offset, fresh)
    end
    if done then
      table.remove(job.spreads, 1)
    end
  end
end

function drive(job, fresh)
  work_off(job, fresh)
  if job.waits_for ~= '' and job.ending == '' and change.is_due(job) then
    change.carry_out(job, fresh)
    look_at_all(job, 'w')
    work_off(job, fresh)
  end
end

end

---- a job goes on ----

local may_try_again
do

-- When a job that is back where it began goes forward again: between two runs there is a wait, longer each time.
local function next_try_at(job, tried)
  local interval, coefficient = match(call('HGET', job.def.key, 'job'), '^%u %d+ [01] (%d+) (%S+) ')
  if not interval or interval == '0' or is_older_job(job) then
    return job.now
  end
  local latest = job.now + floor(min(tonumber(interval) * tonumber(coefficient) ^ (tried - 1), DAY))
  return job.next_try > 0 and min(job.next_try, latest) or latest -- later still: the clock has stepped back
end

-- When the next run of the whole job begins, and how many there were; false: that was the last one.
function may_try_again(job)
  local tries = tonumber(match(call('HGET', job.def.key, 'job'), '^%u (%d+)'))
  local tried = tonumber(call('HGET', job.key, 'tried') or '1')
  local at = tried < tries and not job.late and next_try_at(job, tried)
  return at and not (job.complete_by > 0 and max(at, job.now) >= job.complete_by) and at, tried
end

end

local function try_again(job, tried)
  set(job, 'tried', tried + 1)
  turn(job, 'A', 'TRY')
end

-- Drives a job on, and ends it where nothing is left to do.
local function go_on(job, fresh)
  drive(job, fresh)
  if finished(job) or job.phase == 'PENDING' then
    return
  end
  local idle = job.busy == 0 and not unfinished(job)
  if job.open == 0 then
    job.spreads = {} -- nothing waits for anything any more
    if job.desired == 'A' then
      settle(job, 'SUCCEEDED', '')
      return
    end
    local at, tried = may_try_again(job)
    if job.cause == 'FAILURE' and at then
      if job.hold == '' and at > job.now then
        set(job, 'next_try', at)
        touch(job, at)
      elseif job.hold == '' then
        try_again(job, tried)
        go_on(job, fresh)
      end
    elseif job.cause == 'CANCELLED' then
      settle(job, 'CANCELLED', 'REQUESTED')
    else
      settle(job, 'COMPENSATED', job.cause)
    end
  elseif idle and job.ending ~= '' then
    settle(job, 'FAILED', job.ending)
  elseif idle and #job.spreads == 0 and job.hold == '' and job.stuck_undo > 0 then
    settle(job, 'COMPENSATION_FAILED', job.cause)
  elseif idle and #job.spreads == 0 and job.hold == '' and job.stuck_do > 0 then
    settle(job, 'FAILED', 'PERMANENT')
  end
end

---- answers ----

local function put(out, ...)
  local n, list = #out, {...}
  for k = 1, #list do
    out[n + k] = list[k]
  end
end

local put_driven
do

local NONE = {} -- nobody puts anything there

local function tells_steps(job)
  return job.events == 'step' and ' 1 ' or #job.history > 0 and ' 2 ' or ' 0 '
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

-- What the requests of this call carry: their records, and the data once for all of them. An undo
-- carries what the do gave, among the results.
local function put_requests(out, job)
  if #job.dispatched == 0 then
    return
  end
  local fields = job.bare and {'input'} or {'input', 'labels', 'traceparent', 'complete_by'}
  local results, seen, own, before = {}, {}, nil, #fields
  for _, d in ipairs(job.dispatched) do
    local take = step_of(job.def, d.i).take
    for k = 1, #take + (d.rec.asked == 'D' and 1 or 0) do
      local i = take[k] or d.i
      if not seen[i] then
        seen[i] = true
        fields[#fields + 1], results[#results + 1] = 'r' .. int(i), i
      end
    end
  end
  for _, d in ipairs(job.dispatched) do
    if d.rec.failures > 0 then
      own = own or {}
      fields[#fields + 1] = 'e' .. d.i
      own[#fields] = d
    end
    if job.turn > 1 then
      own = own or {}
      fields[#fields + 1] = 'a' .. d.i
      own[#fields] = d
    end
  end
  local values = data_of(job, fields)
  for k, d in pairs(own or NONE) do
    d[sub(fields[k], 1, 1)] = values[k]
  end
  for _, d in ipairs(job.dispatched) do
    local rec, n = d.rec, #out
    out[n + 1] = int(d.i) .. ' ' .. rec.asked .. ' ' .. rec.current .. ' ' .. int(rec.turn) .. ' '
      .. int(rec.attempt) .. ' ' .. rec.token .. ' ' .. int(rec.till) .. ' ' .. int(d.wait) .. ' '
      .. int(rec.failures) .. ' ' .. int(rec.expiries) .. (d.again and ' 1 ' or ' 0 ') .. int(rec.forward)
      .. (d.e and ' 1' or ' 0') .. (d.a and ' 1' or ' 0')
    if d.e then
      out[n + 2], n = d.e, n + 1
    end
    if d.a then
      out[n + 2] = d.a
    end
  end
  local n = #out
  out[n + 1] = values[1] or ''
  if job.bare then
    out[n + 2] = '0 0 ' .. int(#results)
  else
    out[n + 2], out[n + 3] = '1 ' .. (values[4] or '0') .. ' ' .. int(#results), values[2] or ''
    out[n + 4] = values[3] or ''
    n = n + 2
  end
  for k = 1, #results do
    out[n + 1 + 2 * k], out[n + 2 + 2 * k] = int(results[k]), values[before + k] or ''
  end
end

-- What is one word each stands together: an item costs Redis more than to put it to others, and its reader, too.
--   code, definition
--   "now seq settled more step_events open n mark n_alerts n_requests"; settled, mark: 0 for none; step_events: 1
--   for requests of a job with events `step`, 2 where step_events() has something to tell
--   n_alerts × "step asked reason seq"
--   n_requests × ("step asked current turn attempt token until wait failures expiries again forward has_error
--     has_arguments" and these, where it has them)
-- Where there are requests, what all of them carry:
--   input, "labelled complete_by n_results", where it is labelled the labels and the traceparent,
--   n_results × (step, result)
function put_driven(out, code, job)
  local n = #out
  out[n + 1], out[n + 2] = code, job.def.digest
  out[n + 3] = int(job.now) .. ' ' .. int(job.seq) .. ' ' .. int(job.settled) .. (unfinished(job) and ' 1' or ' 0')
    .. (job.events == '' and ' 0 ' or tells_steps(job)) .. int(job.open) .. ' ' .. int(job.n) .. ' ' .. int(job.marked) .. ' '
    .. int(#job.alerts) .. ' ' .. int(#job.dispatched)
  for k, alert in ipairs(job.alerts) do
    out[n + 3 + k] = int(alert.i) .. ' ' .. alert.asked .. ' ' .. alert.reason .. ' ' .. int(alert.seq)
  end
  put_requests(out, job)
end

end

local function put_code(out, code, now)
  put(out, code, '', int(now) .. ' 0 0 0 0 0 0 0 0 0')
end

---- the clock ----

-- As those saw it who looked for what is due: they note what it shows, so that also one that
-- has just started knows of a jump.
--   Ahead: whoever lived through it says by how much. Leases of before last so much longer, because their
--          time has not passed. One that has just started, and finds that nobody has looked for longer
--          than a lease, cannot tell. Either way nothing expires for a while (`quiet`).
--   Back:  the bounds of before lie too far ahead, until a sweep has derived all of them again. Steps back are
--          counted, and so are those that a sweep has come to its end since (`swept`).

local function read_clock(p)
  local seen, quiet, back, jumped, by, swept = match(call('GET', p .. 'clock') or '',
    '^(%d+) (%d+) (%d+) (%d+) (%d+) ?(%d*)$')
  return {seen = tonumber(seen), quiet = tonumber(quiet) or 0, back = tonumber(back) or 0,
    jumped = tonumber(jumped) or 0, by = tonumber(by) or 0, swept = tonumber(swept) or 0}
end

local function write_clock(p, clock)
  call('SET', p .. 'clock', concat({int(clock.seen), int(clock.quiet), int(clock.back),
    int(clock.jumped), int(clock.by), int(clock.swept)}, ' '))
end

-- The caller has watched the clock since then, or not at all (0); the last jump ahead that it has seen was
-- `jump` long, not before `after` and not after `at`.
local function watch_clock(p, now, since, jump, after, at)
  local clock = read_clock(p)
  local seen, changed = clock.seen or now, not clock.seen
  if now < seen - CLOCK_STEP then
    clock.back, clock.quiet, clock.jumped, clock.by, changed = clock.back + 1, 0, 0, 0, true
  elseif jump > 0 and at <= now and (clock.by == 0 or clock.quiet < after + QUIET) then -- else it is known
    clock.quiet, clock.jumped, clock.by, changed = at + QUIET, after, jump, true
  elseif (since == 0 or since > seen) and now > seen + QUIET then
    clock.quiet, changed = now + QUIET, true
  end
  if changed or now >= seen + CLOCK_NOTED then
    clock.seen = now
    write_clock(p, clock)
  end
  return clock
end

-- What depends on the time alone is left for now.
local function is_quiet(p, now)
  local clock = read_clock(p)
  return now < clock.quiet or now > (clock.seen or now) + QUIET
end

-- When a lease is over that was given until then.
local function lease_end(clock, till, given)
  return till - given < clock.jumped and till + clock.by or till
end

---- define and submit ----

-- define: digest name version total blob last registered (field line)…
-- Comes in pieces for large definitions; usable when the last one is there. A registered one can be
-- found by name; the same name and version with other content is refused. One that a build before 42 has stored
-- gets the names of its steps and their actors. `named`: 2 with both, 0 where a scheduler of before 42 has stored it in
-- this library; else it is of before.
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
  local known = call('HMGET', key, 'ready', 'named')
  if known[1] ~= FORMAT or known[2] ~= '2' then
    local refs = call('HGET', key, 'refs')
    local fields = {'n', total}
    if known[1] and known[1] < '3' then
      put(fields, 'renewed', int(now))
    end
    if blob ~= '' then
      put(fields, 'name', name ~= '' and full or '', 'blob', blob)
    end
    for k = 8, #a do
      fields[#fields + 1] = a[k]
    end
    for first = 1, #fields, 2000 do
      call('HSET', key, unpack(fields, first, min(first + 1999, #fields)))
    end
    if not refs or refs == '0' then
      call('ZADD', p .. 'defs', int(now), digest)
    end
    if last ~= '1' then
      return {'MORE'}
    end
    local has_actors = true
    for _, line in ipairs(call('HMGET', key, '0', int(tonumber(total) - 1))) do
      has_actors = has_actors and line and parse_step(line).forward.actor ~= ''
    end
    call('HSET', key, 'ready', FORMAT, 'named', has_actors and '2' or '0')
    call('HSETNX', key, 'refs', '0')
    cache[key] = nil
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
  if #list == 0 or not moving(job) then
    return
  end
  local fields, steps = {}, {}
  for k = 1, min(#list, BUDGET) do
    fields[k], steps[k] = int(list[k]), list[k]
  end
  prefetch(job.def, steps)
  for k, text in ipairs(call('HMGET', job.key, unpack(fields))) do
    local i = steps[k]
    local rec = parse_record(text, step_of(job.def, i))
    local wait = wait_left(job, i, rec)
    if rec.state == 'R' and wait > 0 then
      job.dispatched[#job.dispatched + 1] = {i = i, rec = rec, wait = wait, again = true}
      call('HSET', job.p .. 'data:' .. job.id, 'c' .. i, rec.token)
    end
  end
end

-- The same for whatever a call may have sent that is delivered again: those after step i, or, in a job
-- that has turned, all where they are not too many; the others have their leases.
local function resend_after(job, i)
  if i and job.turn == 1 then
    resend(job, (dependents_at(job.def, i, 0)))
  elseif job.n <= BUDGET then
    local all = {}
    for k = 1, job.n do
      all[k] = k - 1
    end
    resend(job, all)
  end
end

-- "4:a=bc7:site=hh" -> the texts: labels, addresses.
local function texts_of(text)
  local list, at = {}, 1
  while at <= #text do
    local len, start = match(text, '^(%d+):()', at)
    if not len then
      break -- damaged; the job is to be forgotten all the same
    end
    at = start + tonumber(len)
    list[#list + 1] = sub(text, start, at - 1)
  end
  return list
end

-- The indexes for people in which a job stands.
local function index_keys(p, workflow, labels)
  local keys = {p .. 'jobs'}
  if workflow ~= '' then
    keys[2] = p .. 'w:' .. match(workflow, '^[^@]*')
  end
  for _, label in ipairs(texts_of(labels)) do
    keys[#keys + 1] = p .. 'l:' .. label
  end
  return keys
end

-- Whether a user would take more bytes of this partition than it may; 0: any number.
local function takes_too_much(p, owner, cost, bytes)
  return bytes > 0 and (tonumber(call('HGET', p .. 'users', owner) or '0') or 0) + cost > bytes
end

local submit
do

-- Where the end of a job is told: to whoever has submitted it last. `earlier`: reply_to and correlation of those
-- before, the newest first.
local function set_address(data, reply_to, correlation)
  local known = call('HMGET', data, 'reply_to', 'correlation', 'earlier')
  local list, earlier = {known[1] or '', known[2] or '', unpack(texts_of(known[3] or ''))}, {}
  if list[1] == reply_to and list[2] == correlation then
    return
  end
  for k = 1, #list - 1, 2 do
    local same = list[k] == reply_to and list[k + 1] == correlation
    if list[k] ~= '' and not same and #earlier < EARLIER_KEPT then
      earlier[#earlier + 1] = #list[k] .. ':' .. list[k] .. #list[k + 1] .. ':' .. list[k + 1]
    end
  end
  call('HSET', data, 'reply_to', reply_to, 'correlation', correlation, 'earlier', concat(earlier))
end

local function submit_again(p, job, digest, redelivered, reply_to, correlation, owner)
  local out = {}
  if call('HGET', job.key, 'digest') ~= digest or is_others(p, job.id, owner) then
    put_code(out, 'CONFLICT', job.now)
    return out
  end
  if reply_to ~= '' then
    set_address(p .. 'data:' .. job.id, reply_to, correlation)
  end
  if redelivered == '1' then
    resend_after(job, 'r')
  end
  put_driven(out, 'ALREADY', job)
  return out
end

local function put_said(data, name, value)
  if value ~= '' then
    local n = #data
    data[n + 1], data[n + 2] = name, value
  end
end

-- What a Submit says of a job stands behind it, as (field value)…, from a[20] on; the labels in a[15].
local function write_data(job, full_name, complete_by, a)
  local data = {}
  put_said(data, 'reply_to', a[13])
  put_said(data, 'correlation', a[14])
  put_said(data, 'complete_by', complete_by ~= '0' and complete_by or '')
  put_said(data, 'workflow', full_name)
  put_said(data, 'index', a[15])
  for k = 20, #a, 2 do
    put_said(data, a[k], a[k + 1])
    if a[k + 1] ~= '' then
      job.changed.bytes = a[k] == 'input' and int(#a[k + 1]) or job.changed.bytes
      if a[k] == 'labels' or a[k] == 'traceparent' then
        job.changed.plain, job.bare = '1', false
      end
    end
  end
  if #data > 0 then
    call('HSET', job.p .. 'data:' .. job.id, unpack(data))
  end
end

-- Makes room for a job among the others: in the indexes, and at its definition.
local function enter(job, full_name, labels)
  local p, now = job.p, int(job.now)
  if call('HINCRBY', job.def.key, 'refs', 1) == 1 then
    call('ZREM', p .. 'defs', job.def.digest)
  end
  call('ZADD', p .. 'open', now, job.id)
  for _, key in ipairs(index_keys(p, full_name, labels)) do
    call('ZADD', key, now, job.id)
  end
end

-- The fields of a job that stay as they are, and those that save() takes from nowhere else.
local function write_first(job, digest, priority, complete_by)
  local c = job.changed
  c.def, c.digest, c.current, c.desired, c.phase = job.def.digest, digest, 'D', job.desired, job.phase
  c.turn, c.n, c.created, c.bytes, c.busy = '1', int(job.n), int(job.now), '0', '0'
  c.priority = priority ~= '0' and priority or nil
  c.plain, job.plain, job.bare = '2', true, true
  if job.start_at > 0 then
    c.start_at = int(job.start_at)
    c.started = job.phase ~= 'PENDING' and '1' or nil
  end
  if complete_by ~= '0' then
    c.complete_by = complete_by
    job.due = min(job.due, tonumber(complete_by))
  end
  if job.events ~= '' then
    c.events = job.events
  end
  job.due_changed = true
end

-- Whether a definition that comes along has the name of a registered workflow and is none of its versions.
local function takes_a_name(p, digest, full_name)
  local name = match(full_name or '', '^[^@]+')
  return name and call('HGET', p .. 'workflows', name) and call('HGET', p .. 'workflows', full_name) ~= digest
end

local JOB_BYTES = 2500           -- for a job, about, without its steps, its labels and the texts of its Submit
local STEP_BYTES = 250           -- for a step, with its history and a small result
local LABEL_BYTES = 250          -- for the index of a label that no other job has

-- About how many bytes of the store a job of n steps takes. The texts of its Submit count once, labels three times.
local function cost_of(n, a)
  local cost = JOB_BYTES + n * STEP_BYTES + #texts_of(a[15]) * LABEL_BYTES + 2 * #a[15] + #a[13] + #a[14]
  for k = 21, #a, 2 do
    cost = cost + #a[k]
  end
  return cost
end

-- Whether a user has as many jobs in this partition as it may; 0: it may have any number.
local function has_enough(p, owner, jobs)
  return jobs > 0 and call('ZCARD', p .. 'l:=' .. owner) >= jobs
end

-- submit: job digest definition workflow redelivered fresh by desired start_at complete_by events
--         priority reply_to correlation labels owner horizon jobs bytes (field value)… for data
-- horizon: ms from now beyond which no job may start; jobs, and bytes as cost_of() has them: that the owner may have
-- here; 0: no bound
function submit(keys, a)
  local p, now, out = keys[1], now_ms(), {}
  local id, fresh, by, desired, start_at = a[1], a[6], a[7], a[8], tonumber(a[9])
  if call('EXISTS', p .. 'job:' .. id) == 1 then
    return submit_again(p, load(p, id, now, '0'), a[2], a[5], a[13], a[14], a[16])
  elseif a[10] ~= '0' and tonumber(a[10]) <= now and not is_quiet(p, now) then
    put_code(out, 'EXPIRED', now)
    return out
  end
  local owner, horizon = a[16] or '', tonumber(a[17] or '0')
  if horizon > 0 and start_at > now + horizon then
    put_code(out, 'TOO_FAR', now)
    return out
  elseif owner ~= '' and has_enough(p, owner, tonumber(a[18])) then
    put_code(out, 'TOO_MANY', now)
    return out
  end
  local found = find_definition(p, a[3], a[4])
  if not found then
    put_code(out, 'UNKNOWN_WORKFLOW', now)
    return out
  end
  local def = definition(p, found)
  local d = call('HMGET', def.key, 'ready', 'n', 'name', 'job', 'named')
  if d[1] ~= FORMAT or a[3] ~= '' and d[5] ~= '2' and d[5] ~= '0' then -- the scheduler has it, and stores it anew
    put_code(out, 'UNKNOWN_DEFINITION', now)
    return out
  elseif a[3] ~= '' and takes_a_name(p, a[3], d[3]) then
    put_code(out, 'NAME_TAKEN', now)
    return out
  end
  local cost = owner ~= '' and cost_of(tonumber(d[2]), a) or 0
  if owner ~= '' and takes_too_much(p, owner, cost, tonumber(a[19])) then
    put_code(out, 'TOO_MANY', now)
    return out
  end
  local later, within, complete_by = start_at > now, match(d[4], '(%d+)$'), a[10]
  if complete_by == '0' and within ~= '0' then
    complete_by = int(max(now, start_at) + tonumber(within))
  end
  local job = job_new(p, id, now, def, tonumber(d[2]))
  job.desired, job.start_at, job.events = desired, start_at, a[11] ~= 'job' and a[11] or ''
  job.complete_by = tonumber(complete_by)
  if later then
    job.phase, job.due = 'PENDING', start_at
  end
  enter(job, d[3] or '', a[15])
  if owner ~= '' then
    job.changed.cost = int(cost)
    call('HINCRBY', p .. 'users', owner, int(cost))
  end
  write_first(job, a[2], a[12], complete_by)
  write_data(job, d[3] or '', complete_by, a)
  note(job, 'created', found, by)
  move_mark(job)
  if desired ~= 'A' then
    job.open = 0
    settle(job, 'COMPENSATED', 'REQUESTED')
  elseif not later then
    job.spreads[1] = {from = 'r', offset = 0, edge = 0}
    go_on(job, fresh)
  end
  save(job, not later and by or nil)
  put_driven(out, 'CREATED', job)
  return out
end

end

---- record ----

-- Backoff: the n-th failure waits initial × coefficient^(n-1), capped, plus jitter.
local function backoff(t, failures, fraction)
  local wait = min(t.initial * t.coefficient ^ (max(failures, 1) - 1), t.longest)
  return floor(wait * (1 + t.jitter * fraction))
end

local function back_off(job, i, rec, wait)
  set_state(job, i, rec, 'B', job.now + floor(wait))
end

-- Whether a step whose flight has ended is not to be tried again as it was: the job wants it
-- elsewhere now, or nothing any more. An undo is driven to its end whatever the job wants.
local function overtaken(job, rec)
  return job.ending ~= '' or rec.asked == 'A' and (job.desired == 'D' or rec.turn < job.since)
end

-- The Progress of a dispatch as the store keeps it, "token limit fraction note", or nil; and whether its request was
-- seen to leave its queue. The limit is the LockedUntil that the dispatch gave.
local function progress_of(p, id, i, token)
  local known = call('HMGET', p .. 'data:' .. id, 'p' .. i, 't' .. i)
  local progress = known[1]
  return progress and sub(progress, 1, #token + 1) == token .. ' ' and progress, known[2] == token
end

-- Puts a value into the job's data, in place of what an earlier turn has left there.
local function keep(job, field, value)
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

local record, unsent
do -- its own locals: Lua takes 200 in one scope

local function on_success(job, i, rec, op)
  rec.current, rec.unstarted = rec.asked, 0
  local name = int(i)
  keep(job, 'r' .. name, rec.asked == 'A' and op.result or '')
  remove_parked(job, i) -- an undo on the way forward as well
  note(job, rec.asked == 'A' and 'done' or 'undone', name, int(rec.attempt), token_id(i, rec.token), op.agent)
  rest(job, i, rec, op.fresh)
end

-- Whether somebody may have begun what came back. One that nobody took in time may have had an agent: one
-- that died with it had the broker offer it again, for what was left of its wait. One that could not be sent
-- may have been, by another scheduler, and so may one that no queue took, or that is too large now, if it was sent
-- once more.
local function maybe_begun(job, i, rec, op)
  return op.kind ~= 'X' and op.kind ~= 'L'
    or call('HGET', job.p .. 'data:' .. job.id, 'c' .. i) == rec.token
end

local function on_failure(job, i, rec, op)
  job.class = op.class -- of what this call may give up
  local step, t = step_of(job.def, i), terms_of(job.def, i, rec.asked)
  if not maybe_begun(job, i, rec, op) then -- what is known of the step stays
    rec.unstarted = rec.unstarted + 1
  else
    local proven = op.effect == 'N' and rec.asked == 'A' and step.waived
    rec.current, rec.unstarted = proven and 'D' or 'U', 0
  end
  call('HSET', job.p .. 'data:' .. job.id, 'e' .. i, op.error)
  if rec.expiries >= t.expiries then
    rec.expiries = 0 -- a silence is over
  end
  if op.kind == 'F' then
    note(job, 'deferred', i, rec.attempt, token_id(i, rec.token), op.agent)
  else
    rec.failures = rec.failures + 1
    note(job, 'failed', i, rec.attempt, token_id(i, rec.token), op.agent)
  end
  if overtaken(job, rec) or rec.current == job.desired then -- an undo that was never sent: it is there
    rest(job, i, rec, op.fresh)
  elseif op.kind == 'F' and rec.attempt == 1 and moving(job) and op.retry_after > 0
    and op.retry_after < AT_ONCE then
    lock(job, i, rec, rec.asked, op.fresh) -- by this call: no timer is as fine. Once, or it could go round for ever
  elseif op.kind == 'F' then
    local wait = op.retry_after > 0 and op.retry_after or t.initial
    back_off(job, i, rec, wait * (1 + t.jitter * op.fraction))
  elseif op.kind == 'P' or op.kind == 'L' or t.non_retryable[op.class] then
    give_up(job, i, rec, t.on_permanent, 'PERMANENT', 0)
  elseif rec.failures >= t.attempts then
    give_up(job, i, rec, t.on_exhausted, 'EXHAUSTED', t.park > 0 and job.now + t.park or 0)
  else
    back_off(job, i, rec, max(backoff(t, rec.failures, op.fraction), op.retry_after))
  end
end

local UNSTARTED = {N = true, J = true, S = true, X = true, K = true} -- kinds of what did not get through

-- Whether a request is back before its wait was over: the broker or an agent threw it away, and would again at once. Where the
-- deadline may have cut wait or lease of this dispatch nobody knows by how much, and it counts as thrown away.
local function is_thrown_back(job, i, rec, t)
  local wait = wait_of(t, {unstarted = rec.unstarted - 1})
  if time_left(job, rec.asked) and job.complete_by - (rec.till - wait - t.lock) >= max(wait, t.lock) then
    return rec.till - t.lock - job.now > WAIT_SLACK
  end
  return wait_left(job, i, rec) > WAIT_SLACK
end

-- Nobody took the request in time, or no queue did: nothing is counted. The step is as it was before where
-- nobody can have begun it.
local function on_unstarted(job, i, rec, op)
  local t = terms_of(job.def, i, rec.asked)
  rec.unstarted = rec.unstarted + 1
  local begun = maybe_begun(job, i, rec, op)
  note(job, begun and 'unstarted' or 'unroutable', i, rec.attempt, token_id(i, rec.token))
  if op.kind ~= 'S' then
    alert(job, i, op.kind == 'N' and 'NO_AGENT' or op.kind == 'J' and 'REJECTED' or 'UNROUTABLE', rec.asked)
  end
  rec.token = rec.expiries >= t.expiries and ROUND or '-' -- one that did not get through ends no silence
  if begun then
    rec.current = 'U'
  end
  if op.kind == 'J' then
    call('HSET', job.key, 'b' .. i, '1')
  end
  local thrown = op.kind == 'J' or begun and is_thrown_back(job, i, rec, t)
  if not moving(job) or rec.current == job.desired or next_asked(job, rec) ~= rec.asked then
    rest(job, i, rec, op.fresh)
  elseif begun and not thrown then
    lock(job, i, rec, rec.asked, op.fresh)
  else
    local wait = min(t.initial * 2 ^ (rec.unstarted - 1), WAIT_CAP)
    back_off(job, i, rec, wait * (1 + t.jitter * op.fraction))
  end
end

-- What came too late to count is kept as evidence: how often, and the last one.
local function keep_late(job, i, op)
  local field, data = 'l' .. i, job.p .. 'data:' .. job.id
  local count = tonumber(match(call('HGET', data, field) or '', '^%d+') or '0')
  call('HSET', data, field, concat({int(count + 1), int(job.now), op.kind, token_id(i, op.token), op.class}, ' '))
end

-- Whether it was this first attempt of a step whose deferral had the second one sent off at once.
local function was_deferred(job, i, token)
  local words = ' deferred ' .. int(i) .. ' 1 ' .. token_id(i, token)
  for _, entry in ipairs(call('LRANGE', job.p .. 'hist:' .. job.id, -HISTORY_MIN, -1)) do
    if entry:find(words, 1, true) then
      return true
    end
  end
  return false
end

-- A request that has not left the scheduler, and is not to: nobody can have begun it.
local function withdraw_unsent(job, i, rec, fresh)
  note(job, 'unsent', i, rec.attempt, token_id(i, rec.token))
  rec.unstarted, rec.token = rec.unstarted + 1, '-'
  rest(job, i, rec, fresh)
end

-- unsent: job fresh by number token… -> as drive
-- These requests have waited in the scheduler for longer than a moment: the broker read nothing, or there were too many.
-- What is wanted still is to be sent, the rest is withdrawn. Of a request that was sent once more some other copy may
-- be in a queue: that is never withdrawn, but left to its lease.
-- The calls of a scheduler have ascending numbers. A connection that was given up may have one carried out late, when
-- the call that repeats it was answered: by its number it withdraws nothing that was sent since.
function unsent(keys, a)
  local p, now, out = keys[1], now_ms(), {}
  local job = load(p, a[1], now, '0')
  if not job or finished(job) then
    put_code(out, job and 'UNCHANGED' or 'UNKNOWN_JOB', now)
    return out
  end
  for k = 5, #a do
    local i = tonumber(match(a[k], '^(%d+)%.[%w_-]+$'))
    local text = i and i < job.n and call('HGET', job.key, int(i))
    local rec = text and record_of(job, i, text)
    if rec and rec.state == 'R' and rec.token == a[k] then
      local known = call('HMGET', p .. 'data:' .. job.id, 'c' .. i, 'u' .. i)
      local copied, asked, by = known[1] == rec.token, match(known[2] or '', '^(%S+) (%d+)$')
      local late = asked == rec.token and tonumber(by) >= tonumber(a[4])
      local wait = wait_left(job, i, rec)
      if moving(job) and not overtaken(job, rec) and wait > 0 then
        job.dispatched[#job.dispatched + 1] = {i = i, rec = rec, wait = wait, again = copied}
        call('HSET', p .. 'data:' .. job.id, 'u' .. i, rec.token .. ' ' .. (late and by or a[4]))
      elseif not copied and not late then
        withdraw_unsent(job, i, rec, a[2])
      end
    end
  end
  go_on(job, a[2])
  save(job, a[3])
  put_driven(out, 'DRIVEN', job)
  return out
end

local function record_one(p, now, by, op, budget, out)
  local i = num(match(op.token, '^(%d+)%.[%w_-]+$'))
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
  local rec = record_of(job, i, job.step_text)
  if rec.token ~= op.token or rec.state == 'R' and finished(job) then
    if op.redelivered == '1' and (rec.token == mint(i, op.fresh) -- this very call was made before, its answer lost
      or op.kind == 'F' and op.retry_after > 0 and op.retry_after < AT_ONCE and rec.state == 'R' and rec.attempt == 2
      and was_deferred(job, i, op.token)) then
      resend(job, {i})
      put_driven(out, 'ALREADY', job)
    else
      if not is_other_actor(job, i, rec, op.actor) then
        keep_late(job, i, op)
      end
      put_code(out, 'STALE', now)
    end
    return
  end
  if rec.state ~= 'R' then
    if op.redelivered == '1' then
      resend_after(job, i)
    end
    job.settled = finished(job) and op.redelivered == '1' and job.seq or 0
    put_driven(out, 'ALREADY', job)
    return
  end
  if op.step ~= '' and is_other_step(job.def, i, op.step) then
    alert(job, i, 'OTHER_STEP', rec.asked) -- its agent has mixed two requests up
    put_driven(out, 'OTHER_STEP', job)
    return
  end
  if is_other_actor(job, i, rec, op.actor) then
    alert(job, i, 'OTHER_ACTOR', rec.asked)
    put_driven(out, 'OTHER_ACTOR', job)
    return
  end
  if rec.asked == 'A' and job.bytes + #op.result > DATA_MAX then
    put_code(out, 'DATA_FULL', now)
    return
  end
  if (op.kind == 'N' or op.kind == 'J') and progress_of(p, op.job, i, rec.token) then
    put_code(out, 'BEGUN', now) -- its agent has died, or only lost its connection: the lease tells
    return
  end
  local unserved, asked = rec.unstarted > 0 and op.kind ~= 'L', rec.asked
  if UNSTARTED[op.kind] then
    on_unstarted(job, i, rec, op)
    unserved = false
  elseif op.kind == rec.asked then
    on_success(job, i, rec, op)
  else
    on_failure(job, i, rec, op)
  end
  if unserved then
    alert(job, i, 'SERVED', asked) -- the actor has agents again: the next outage is news
  end
  go_on(job, op.fresh)
  save(job, by)
  put_driven(out, 'RECORDED', job)
end

-- A result that the job has no room for is DATA_FULL, a request that came back though an agent had begun it is BEGUN, a
-- reply that names another step of the job than its token is OTHER_STEP, one that did not come from the agents of the
-- step's actor is OTHER_ACTOR: nothing is recorded.
-- record: by, then fourteen for each reply:
--   kind job token redelivered fresh fraction result error class retry_after effect step actor agent
-- kind     A, D achieved that state   T transient, P permanent failure   F deferred
--          N the request came back: nobody took it in time   S it could not be sent in time
--          J an agent rejected it, or a limit of its queue threw it out   X no queue took it
--          K the broker refused it   L it is too large to be sent: a permanent failure
-- fraction of the jitter, in millionths
-- effect   N: proven that no run under this key has taken effect, or ever will
-- actor    whose agents have sent it, as the broker says; empty where it does not
function record(keys, a)
  local p, now, out, budget = keys[1], now_ms(), {}, {left = BUDGET}
  for k = 2, #a, 14 do
    record_one(p, now, a[1], {kind = a[k], job = a[k + 1], token = a[k + 2],
      redelivered = a[k + 3], fresh = a[k + 4], fraction = tonumber(a[k + 5]) / 1000000,
      result = a[k + 6], error = a[k + 7], class = a[k + 8],
      retry_after = num(a[k + 9]), effect = a[k + 10], step = a[k + 11], actor = a[k + 12],
      agent = (a[k + 13] or '') ~= '' and a[k + 13] or nil}, budget, out)
  end
  return out
end

end

---- renew ----

local renew, taken
do

-- The record of a token that is in flight, its step and its job; or the code of the answer.
local function in_flight(p, now, id, token)
  local i = tonumber(match(token, '^(%d+)%.[%w_-]+$'))
  local job = i and load(p, id, now, int(i))
  local rec = job and job.step_text and parse_record(job.step_text)
  if not rec or rec.token ~= token or rec.state ~= 'R' then
    return nil, job and 'STALE' or 'UNKNOWN_JOB'
  end
  return rec, i, job
end

-- renew: job token fraction note elapsed actor -> code wanted locked_until now begins
-- begins: it is the first of its dispatch, and step_events() has that to tell
-- An agent is at work, and has had the request for `elapsed` ms (0: it does not say). Its lease is `lock` from
-- then; where it sends heartbeats, three of them from now, so that its death shows early. Never longer than what the
-- dispatch gave; another agent, to which the broker has given the request after the first one died, has a lease
-- of its own.
function renew(keys, a)
  local p, now = keys[1], now_ms()
  local id, token = a[1], a[2]
  local rec, i, job = in_flight(p, now, id, token)
  if not rec or is_other_actor(job, i, rec, a[6]) then
    return {rec and 'OTHER_ACTOR' or i, '0', '0', int(now)}
  end
  local known = progress_of(p, id, i, token)
  local limit = known and tonumber(match(known, '^%S+ (%d+)')) or rec.till
  local t = terms_of(job.def, i, rec.asked)
  local elapsed = tonumber(a[5])
  if not known and elapsed >= t.lock then
    return {'STALE', '0', '0', int(now)} -- its lease is over, and it has begun nothing that we had heard of
  end
  local lease = now + t.lock - min(elapsed, t.lock)
  if t.heartbeat > 0 then
    lease = min(lease, now + 3 * t.heartbeat)
  end
  if known then
    lease = max(lease, rec.till) -- what came late, or from an agent that died, takes nothing from another one
  end
  call('HSET', p .. 'data:' .. id, 'p' .. i, format('%s %.0f %s %s', token, limit, a[3], a[4]))
  set_state(job, i, rec, 'R', min(limit, lease))
  local begins = not known and job.events == 'reply'
  if begins then
    note(job, 'began', i, rec.attempt, token_id(i, token), match(a[3], '@(%S+)$'))
  end
  save(job)
  local left = time_left(job, rec.asked)
  local wanted = not finished(job) and not overtaken(job, rec) and not (left and left <= 0)
  return {'RENEWED', wanted and '1' or '0', int(rec.till), int(now), begins and '1' or '0'}
end

-- taken: job token -> code
-- A scheduler has seen that the request left its queue while it could be delivered.
function taken(keys, a)
  local p, now = keys[1], now_ms()
  local rec, i = in_flight(p, now, a[1], a[2])
  if not rec then
    return {i}
  end
  call('HSET', p .. 'data:' .. a[1], 't' .. i, a[2])
  return {'TAKEN'}
end

end

---- expire ----

local expire, overdue
do

-- Evidence that an agent has had a request: it has sent Progress, or a scheduler has seen that the request left its
-- queue (taken). Without evidence the request may still stand in its queue, behind others: RabbitMQ expires
-- messages at the head only.
local function has_evidence(job, i, rec)
  local progress, was_taken = progress_of(job.p, job.id, i, rec.token)
  return progress or was_taken, progress
end

-- How long the present lease of a step in flight was when it was given.
local function lease_length(job, i, rec, t)
  if not progress_of(job.p, job.id, i, rec.token) then
    return wait_of(t, rec) + t.lock
  end
  return t.heartbeat > 0 and min(3 * t.heartbeat, t.lock) or t.lock
end

-- Whether the deadline has passed that bounded the dispatch which is in flight.
local function is_cut_short(job, rec)
  if not is_bounded(job, rec.asked) then
    return false
  end
  return job.late and rec.turn <= job.late or not job.late and job.now >= job.complete_by
end

-- LockedUntil has passed. Where an agent had the request that is a death. Else nothing is counted: it is sent
-- again, and may wait twice as long.
local function withdraw(job, i, rec)
  local counts, progress = has_evidence(job, i, rec)
  if is_cut_short(job, rec) then
    counts = false
  end
  local agent = progress and match(progress, '^%S+ %d+ [^@ ]*@(%S+)') -- "token limit fraction@agent"
  note(job, counts and 'expired' or 'silent', i, rec.attempt, token_id(i, rec.token), agent)
  if counts then
    rec.expiries = rec.expiries + 1
  end
  -- that it has left its queue does not say that its agent began it at once: one that fetches ahead gets more time
  rec.unstarted = progress and 0 or rec.unstarted + 1
  rec.current, rec.token = 'U', counts and '-' or SILENT
  call('HSET', job.key, 'b' .. i, '1')
end

-- What is due at a job. Leases are given up when they are past by `hold` times their length;
-- other moments are only named. Everything named is marked, so that Recover acts once.
local function expire_step(job, i, text, hold, clock, named)
  local rec = parse_record(text)
  if rec.state == 'R' then
    local t = terms_of(job.def, i, rec.asked)
    local given = wait_of(t, rec) + t.lock
    if rec.till > job.now + given then -- no dispatch gives more than that: the clock has stepped back
      rec.till = job.now + given
      job.records[i] = rec
    end
    local till = lease_end(clock, rec.till, given)
    if till > rec.till then
      till = lease_end(clock, rec.till, lease_length(job, i, rec, t))
    end
    if till > job.now then
      return till
    elseif job.now < clock.quiet or hold > 0 and till + hold * t.lock > job.now then
      return job.now + NAMED_AGAIN
    end
    job.records[i] = rec
    record_of(job, i) -- the mark belongs to the way that the job goes now
    withdraw(job, i, rec)
  elseif rec.till == 0 then
    return nil
  elseif rec.till > job.now and not (rec.state == 'M' and rec.till > job.now + NAMED_AGAIN) then
    return rec.till -- a mark that lies further ahead was made before the clock stepped back
  elseif (job.hold ~= '' or job.waits_for ~= '' and next_asked(job, rec) == 'A') and not overtaken(job, rec) then
    return nil -- whatever ends that looks at every step
  end
  if rec.state == 'R' then -- withdrawn just now
    named.expired = (named.expired or 0) + 1
    table.insert(named, named.expired, i)
  else
    named[#named + 1] = i
    if rec.state == 'P' and rec.current == 'U' and rec.expiries >= terms_of(job.def, i, rec.asked).expiries then
      rec.token = ROUND
    end
  end
  rec.state, rec.till = 'M', job.now + NAMED_AGAIN
  job.records[i] = rec
  return rec.till
end

-- Looks at up to BUDGET steps; true when the job was seen whole and its bound is exact again.
local function expire_scan(job, hold, clock, named)
  local scan = job.scan or {offset = 0, least = job.now + SWEEP_BOUND}
  local last = min(scan.offset + BUDGET, job.n)
  local fields = {}
  for i = scan.offset, last - 1 do
    fields[#fields + 1] = int(i)
  end
  for k, text in ipairs(call('HMGET', job.key, unpack(fields))) do
    if has_moment(text) then
      local t = expire_step(job, scan.offset + k - 1, text, hold, clock, named)
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

-- Forward work has a bound, and it has passed.
function overdue(job)
  return job.complete_by > 0 and job.now >= job.complete_by and not job.late and job.desired == 'A'
    and job.phase == 'PROCESSING' and job.ending == ''
end

-- It would have settled in the call that brought it there: a sweep has mended its counts since.
local function at_its_end(job)
  return job.hold == '' and #job.spreads == 0 and job.next_try <= job.now
    and (job.open == 0 or job.busy == 0 and (job.ending ~= '' or job.stuck_do + job.stuck_undo > 0))
end

local function touch_deadline(job, clock)
  local at = overdue(job) and clock.quiet or job.complete_by
  if at > job.now and job.desired == 'A' then
    touch(job, at)
  end
end

local function expire_job(p, id, now, hold, clock, out)
  local job = load(p, id, now, '0')
  if not job or finished(job) then
    call('ZREM', p .. 'due', id)
    return 0, true
  end
  local named = {}
  if job.phase == 'PENDING' then
    local early = job.start_at > now or job.hold ~= '' or now < clock.quiet
    local later = job.hold ~= '' and now + SWEEP_BOUND or max(job.start_at, clock.quiet)
    job.due, job.due_changed = early and later or now + NAMED_AGAIN, true
    save(job)
    if not early then
      put(out, id, '0', '0')
    end
    return early and 0 or 1, true
  end
  local whole = expire_scan(job, hold, clock, named)
  local go = unfinished(job) or overdue(job) and now >= clock.quiet or at_its_end(job)
  if go then
    touch(job, now + NAMED_AGAIN)
  end
  touch_deadline(job, clock)
  if job.next_try > now then
    touch(job, job.next_try)
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

local function is_owed(p, id, seq)
  return call('HMGET', p .. 'data:' .. id, 's' .. seq)[1]
end

local function expire_owed(p, now, skip, limit, out)
  local list = call('ZRANGEBYSCORE', p .. 'owed', '-inf', int(now), 'LIMIT', skip, limit)
  for _, member in ipairs(list) do
    local id, seq = match(member, '^(%S+) (%d+)$')
    local good, owed = unless_torn(is_owed, p, id or '', seq or '')
    if good and owed then
      local counted, tries = unless_torn(call, 'HINCRBY', p .. 'data:' .. id, 'n' .. seq, 1)
      tries = counted and max(tries, 1) or #NOTICE_WAITS
      call('ZADD', p .. 'owed', int(now + NOTICE_WAITS[min(tries, #NOTICE_WAITS)]), member)
      put(out, id, seq)
    else
      call('ZREM', p .. 'owed', member)
    end
  end
  return #out / 2, #list == limit
end

-- expire: skip limit hold latest since jump after at -> now, head of due or 0, more, back,
--         n × (job expired k step…): so many of the steps have expired, the others are only named; n × (job seq)
-- Past `latest` the clock has jumped, or the call was long on its way: the caller is to find out first.
-- `back`: the clock stepped back, and the partition is to be swept.
function expire(keys, a)
  local p, now = keys[1], now_ms()
  local skip, limit, hold, latest = tonumber(a[1]), tonumber(a[2]), tonumber(a[3]), tonumber(a[4])
  if latest > 0 and now > latest then
    return {int(now), '0', '0', '0', '0', '0'}
  end
  local clock = watch_clock(p, now, tonumber(a[5]), tonumber(a[6]), tonumber(a[7]), tonumber(a[8]))
  local jobs, owed = {}, {}
  local n_jobs, more, seen = 0, false, 0
  local list = call('ZRANGEBYSCORE', p .. 'due', '-inf', int(now), 'LIMIT', skip, limit)
  for k, id in ipairs(list) do
    local steps = tonumber(call('HGET', p .. 'job:' .. id, 'n') or '0') or 0
    if k > 1 and seen + min(steps, BUDGET) > BUDGET then
      more = true
      break
    end
    seen = seen + min(steps, BUDGET)
    local before = #jobs
    local good, named, whole = unless_torn(expire_job, p, id, now, hold, clock, jobs)
    if good then
      n_jobs = n_jobs + named
      more = more or not whole
    else -- a sweep tells of it
      for j = #jobs, before + 1, -1 do
        jobs[j] = nil
      end
      call('ZADD', p .. 'due', int(now + SWEEP_BOUND), id)
    end
  end
  local n_owed, more_owed = expire_owed(p, now, skip, limit, owed)
  more = more or #list == limit or more_owed
  local head = call('ZRANGE', p .. 'due', 0, 0, 'WITHSCORES')
  local out = {int(now), head[2] and int(tonumber(head[2])) or '0', more and '1' or '0',
    clock.back > clock.swept and '1' or '0'}
  put(out, int(n_jobs), unpack(jobs))
  put(out, int(n_owed), unpack(owed))
  return out
end

end

---- drive ----

local put_on_hold, drive_job
do

-- A step that expire has marked: its flight has expired, or its timer has run out.
local function drive_marked(job, i, rec, fresh)
  local t = terms_of(job.def, i, rec.asked)
  if overtaken(job, rec) then
    rest(job, i, rec, fresh)
  elseif job.hold ~= '' then
    return
  elseif retry_ahead(job, i) and stands_still(job, i, rec) then
    forgive(rec) -- as the walk would, which cannot tell either whether it died before the retry or since
    rest(job, i, rec, fresh)
  elseif rec.token ~= ROUND and rec.current == 'U' and rec.expiries >= t.expiries then
    give_up(job, i, rec, t.on_exhausted, 'DEATHS', silence_ends(job, t, rec))
  else
    if rec.token == SILENT and rec.unstarted >= t.expiries then
      alert(job, i, 'SILENT', rec.asked) -- what is wrong nobody can tell from here: a person is to look
    end
    rest(job, i, rec, fresh)
  end
end

-- said: who wants it, "-" for nobody, and why.
function put_on_hold(job, kind, said)
  set(job, 'hold', kind)
  call('HSET', job.p .. 'data:' .. job.id, 'held', int(job.now) .. ' ' .. said)
end

local function on_deadline(job)
  local recourse = match(call('HGET', job.def.key, 'job'), '^%u')
  late.mark(job, job.turn)
  if recourse ~= 'P' then
    deciding.failure(job, nil, 'A', 'DEADLINE')
  end
  if recourse == 'C' then
    turn(job, 'D', 'FAILURE', 'DEADLINE')
  elseif recourse == 'F' then
    end_as_it_is(job, 'DEADLINE')
  else
    if job.hold == '' then -- a person's hold stays his
      put_on_hold(job, 'deadline', '-')
      note(job, 'held', 'deadline')
    else
      note(job, 'overdue')
    end
    alert_owed(job, NO_STEP, 'DEADLINE')
  end
end

-- drive: job fresh by again step… : go on with this job; the steps are those that expire has named.
-- `again`, 1: the same call may have happened before, its answer lost: what it put in flight goes out; else 0.
function drive_job(keys, a)
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
    set(job, 'phase', 'PROCESSING')
    set(job, 'started', '1')
    note(job, 'started', by)
    job.spreads[1] = {from = job.turn == 1 and 'r' or 't', offset = 0, edge = 0}
  end
  if overdue(job) and not is_quiet(p, now) then
    on_deadline(job)
  end
  local flying = {}
  for k = 5, min(#a, 4 + BUDGET) do
    local i = tonumber(a[k])
    local text = i < job.n and call('HGET', job.key, a[k])
    if text then
      local rec = record_of(job, i, text)
      if rec.state == 'M' then
        drive_marked(job, i, rec, fresh)
      elseif rec.state == 'R' and a[4] == '1' then
        flying[#flying + 1] = i
      end
    end
  end
  resend(job, flying)
  go_on(job, fresh)
  save(job, by)
  put_driven(out, 'DRIVEN', job)
  return out
end

end

---- commands ----

-- Each gets the job, the command as steer() has read it, and its arguments. It returns a code and, where it
-- refuses, why, and the step that is to blame. What it changes counts only where the code is DONE.

local function ended_badly(job)
  return job.outcome == 'FAILED' or job.outcome == 'COMPENSATION_FAILED'
end

local function set_desired(job, to, cause)
  if job.desired == to then
    if to == 'A' and job.phase == 'ERROR' or job.outcome == 'COMPENSATION_FAILED' then
      return 'WRONG_STATE', job.outcome
    elseif to == 'A' and job.ending ~= '' then
      return 'WRONG_STATE', 'ENDING'
    elseif to == 'D' and not finished(job) and may_try_again(job) then
      call('HSET', job.key, 'tried', int(TRIES_MAX)) -- nor will it be tried again by itself
      if job.next_try > 0 then
        set(job, 'cause', cause) -- it is back already, and ends so
        return 'DONE'
      end
    end
    return 'UNCHANGED'
  elseif to == 'A' and job.outcome == 'COMPENSATION_FAILED' then
    return 'WRONG_STATE', job.outcome
  end
  local waits = job.phase == 'PENDING'
  set(job, 'tried', 1)
  set(job, 'phase', finished(job) and job.phase or 'PROCESSING')
  turn(job, to, cause)
  if waits then
    job.open, job.spreads = 0, {} -- nothing was begun
  elseif to == 'A' and job.start_at > job.now and not job.started then -- nor may the clock have stepped back
    set(job, 'phase', 'PENDING')
    job.spreads = {}
    touch(job, job.start_at)
  end
  return 'DONE'
end

local commands = {}

function commands.enable(job)
  return set_desired(job, 'A', 'REQUESTED')
end

function commands.disable(job)
  return set_desired(job, 'D', 'REQUESTED')
end

-- Like disable, but final for those who look: the outcome is CANCELLED.
function commands.cancel(job)
  if finished(job) then
    return 'WRONG_STATE', job.outcome
  end
  return set_desired(job, 'D', 'CANCELLED')
end

function commands.kill(job, command)
  if finished(job) then
    return 'WRONG_STATE', job.outcome
  end
  put_on_hold(job, 'killed', command.said)
  note(job, 'killed')
  settle(job, 'KILLED', 'REQUESTED')
  return 'DONE'
end

-- A person knows, and nobody else need look. The job stays as it is.
function commands.acknowledge(job)
  if job.acknowledged then
    return 'UNCHANGED'
  elseif job.attention == '' then
    return 'WRONG_STATE', 'NO_NEED'
  end
  set(job, 'acknowledged', '1')
  return 'DONE'
end

function commands.pause(job, command)
  if finished(job) and not ended_badly(job) then
    return 'WRONG_STATE', job.outcome
  elseif job.hold == 'paused' then
    return 'UNCHANGED'
  end
  put_on_hold(job, 'paused', command.said) -- also past its time: that hold bounds forward work only
  note(job, 'held', 'paused')
  return 'DONE'
end

function commands.resume(job)
  if finished(job) and job.hold == '' then
    return 'WRONG_STATE', job.outcome
  elseif job.hold == '' then
    return 'UNCHANGED'
  end
  set(job, 'hold', '')
  if late.is_late(job) then
    late.mark(job, job.since - 1)
  end
  note(job, 'resumed')
  if job.phase == 'PROCESSING' then
    look_at_all(job, 'w')
  elseif job.phase == 'PENDING' then
    touch(job, job.start_at)
  end
  return 'DONE'
end

-- Nothing is counted against a step any more.
local function clear(job, i, rec)
  job.records[i] = rec
  record_of(job, i)
  if rec.state == 'F' then
    remove_failed(job, i, rec)
  end
  remove_parked(job, i)
  forgive(rec)
end

-- What a person says about a step begins it anew.
local function begin_anew(job, i, rec, fresh)
  clear(job, i, rec)
  rest(job, i, rec, fresh)
end

-- A job that a failure has ended goes on; its timers were void by then. kind: of the look at all steps.
local function go_on_after_failure(job, kind)
  if finished(job) then
    reopen(job)
    mind_deadline(job)
  end
  if job.late then
    late.mark(job, 0) -- what is sent from now on has no bound
  end
  deciding.reset(job)
  if job.ending ~= '' then
    set(job, 'ending', '')
    for k = #job.spreads, 1, -1 do
      if job.spreads[k].from == 'l' then
        table.remove(job.spreads, k)
      end
    end
    look_at_all(job, kind)
  end
end

-- Why this step cannot be tried again now, changed or as it is.
local function no_retry(job, rec, changed)
  if rec.state == 'R' or rec.state == 'M' then
    return rec.state == 'M' and job.hold ~= '' and 'DUE' or 'IN_FLIGHT'
  elseif rec.state == 'W' and not has_tried(job, rec)
    and (rec.current == job.desired or not (changed and job.desired == 'A')) then
    return 'NOT_FAILED'
  end
end

-- Whether a retry of all has anything to begin anew. Of a job with many steps that is not known before.
local function can_retry(job)
  if finished(job) or job.ending ~= '' or job.n > BUDGET then
    return true
  end
  local _, texts = walk_ahead(job, {offset = 0})
  for i, text in pairs(texts) do
    if text and stands_still(job, i, record_of(job, i, text)) then
      return true
    end
  end
  return false
end

-- Why nobody may have this job try again; nil where one may.
local function no_tries(job)
  if finished(job) and not ended_badly(job) or job.phase == 'PENDING' then
    return finished(job) and job.outcome or job.phase
  end
end

-- retry: "" step…, none for all that are parked or have failed. Before build 46 the first one were new arguments.
function commands.retry(job, command, arguments, ...)
  local steps, why = {...}, no_tries(job)
  if why then
    return 'WRONG_STATE', why
  elseif arguments ~= '' then
    return commands.change(job, command, job.def.digest, 'arguments', arguments, steps[1])
  elseif #steps == 0 and not can_retry(job) then
    return 'UNCHANGED'
  end
  local recs = {}
  for k = 1, min(#steps, BUDGET) do
    local i = tonumber(steps[k])
    local rec = parse_record(call('HGET', job.key, steps[k]), step_of(job.def, i))
    why = no_retry(job, rec)
    if why then
      return 'WRONG_STATE', why, i
    end
    recs[i] = rec
  end
  go_on_after_failure(job, next(recs) and 'w' or 'y')
  if not next(recs) then
    note(job, 'retried', 'all')
    look_at_all(job, 'y')
  end
  for i, rec in pairs(recs) do
    note(job, 'retried', i)
    begin_anew(job, i, rec, command.fresh)
  end
  return 'DONE'
end

-- resolve: step A|D result
function commands.resolve(job, command, step, state, result)
  local i, why = tonumber(step), no_tries(job)
  local rec = record_of(job, i, call('HGET', job.key, step))
  if why then
    return 'WRONG_STATE', why
  elseif rec.state == 'R' then
    return 'WRONG_STATE', 'IN_FLIGHT', i
  elseif rec.state == 'W' and rec.current == state
    and (result == '' or call('HGET', job.p .. 'data:' .. job.id, 'r' .. i) == result) then
    return 'UNCHANGED'
  elseif rec.state == 'W' and rec.current == job.desired then
    return 'WRONG_STATE', 'THERE', i -- others have gone by that
  elseif rec.waiting > 0 then
    return 'WRONG_STATE', 'WAITING', i -- what comes before it would be passed by
  elseif job.bytes + #result > DATA_MAX then
    return 'WRONG_STATE', 'DATA_FULL'
  end
  go_on_after_failure(job, 'w')
  set(job, 'turn', job.turn + 1)
  rec.current = state
  if result ~= '' or state == 'D' then
    keep(job, 'r' .. i, result) -- one that is there keeps what it has
  end
  note(job, 'resolved', i, state)
  begin_anew(job, i, rec, command.fresh)
  return 'DONE'
end

---- change and migrate ----

-- Drops what a job holds of a definition, and the definition where nobody else does.
local function release_definition(p, digest)
  if call('HINCRBY', p .. 'def:' .. digest, 'refs', -1) <= 0 then
    call('UNLINK', p .. 'def:' .. digest)
    cache[p .. 'def:' .. digest] = nil
  end
end

do -- what only a change needs

local function hold_definition(p, digest)
  if call('HINCRBY', p .. 'def:' .. digest, 'refs', 1) == 1 then
    call('ZREM', p .. 'defs', digest)
  end
end

local function take_definition(job, digest)
  hold_definition(job.p, digest)
  release_definition(job.p, job.def.digest)
  job.def, job.changed.def = definition(job.p, digest), digest
end

local function is_ready(p, digest)
  return call('HGET', p .. 'def:' .. digest, 'ready') == FORMAT
end

-- The record of step i, which the call may have changed already: a command that has waited is carried out within one.
local function present(job, i, text)
  return job.records[i] or parse_record(text, step_of(job.def, i))
end

-- A step that a command changes, and how, "12", "12t" or "12!". t: the terms of its dispatches, such as a lease; it is
-- the same work under the same key. Else it is other work; !: also where the present one may have been done, and
-- nothing takes it back.
local function target(word)
  local i, how = match(word, '^(%d+)([t!]?)$')
  return tonumber(i), how
end

-- What becomes of the present work before a step gets other work: nil where it was not done; UNDO, ANEW where it may
-- have been, and is undone first or let be. Or, behind a nil, why neither is possible.
local function before_other_work(job, i, rec, how)
  if rec.current ~= 'U' then
    return nil
  elseif step_of(job.def, i).has_revert then
    local waiting = rec.since == job.epoch and rec.waiting or n_before(job, step_of(job.def, i))
    return waiting == 0 and 'UNDO' or nil, waiting > 0 and 'WAITING' or nil
  end
  return how == '!' and 'ANEW' or nil, how ~= '!' and 'UNKNOWN' or nil
end

-- What these steps may have done is undone, as they are now, each under a turn of its own, which no do has: the job's
-- turn is higher. An undo that was sent before is the same work. The command waits for that.
-- steps: { i, rec }…; the first word is the command, the second the digest of the definition that it brings.
local function put_off(job, fresh, steps, ...)
  local words, texts, numbers = {...}, {}, {}
  for k, word in ipairs(words) do
    texts[k] = #word .. ':' .. word
  end
  for k, step in ipairs(steps) do
    numbers[k] = int(step.i)
  end
  go_on_after_failure(job, 'w')
  hold_definition(job.p, words[2])
  set(job, 'waits_for', concat(numbers, ' '))
  for _, step in ipairs(steps) do
    set(job, 'turn', job.turn + 2)
    note(job, 'changing', step.i)
    clear(job, step.i, step.rec)
    if step.rec.asked == 'A' then
      step.rec.asked, step.rec.turn = 'D', job.turn - 1
    end
    rest(job, step.i, step.rec, fresh)
  end
  keep(job, 'change', concat(texts)) -- behind the turn, which tells keep() that there may be one
  return 'DONE'
end

-- The words of the command that waits, which is not to wait any more.
local function take_words(job)
  local words = texts_of(call('HGET', job.p .. 'data:' .. job.id, 'change') or '')
  set(job, 'waits_for', '')
  keep(job, 'change', '')
  return words
end

-- Whether a change waits until this step is undone.
function change.waits_for(job, i)
  return job.waits_for ~= '' and (' ' .. job.waits_for .. ' '):find(' ' .. int(i) .. ' ', 1, true)
end

-- The job stays as it is: it is turned, or has ended, or `why`, at step i.
function change.drop(job, why, i)
  if job.waits_for == '' then
    return
  end
  local words = take_words(job)
  if words[2] then
    release_definition(job.p, words[2])
  end
  note(job, 'unchanged', why or 'TURNED', i)
end

-- Whether all is undone that a change waits for, or a person has said what is true of it.
function change.is_due(job)
  local words = {}
  for word in gmatch(job.waits_for, '%d+') do
    words[#words + 1] = word
  end
  for k, text in ipairs(call('HMGET', job.key, unpack(words))) do
    if present(job, tonumber(words[k]), text).current == 'U' then
      return false
    end
  end
  return true
end

function change.carry_out(job, fresh)
  local words = take_words(job)
  local code, why, i = nil, 'LOST', nil
  if commands[words[1]] then
    code, why, i = commands[words[1]](job, {fresh = fresh, has_waited = true}, unpack(words, 2))
  end
  if code ~= 'DONE' then
    note(job, 'unchanged', why or code, i)
  end
  if words[2] then
    release_definition(job.p, words[2])
  end
end

-- change: definition what arguments step: a step that stands gets another definition, or other arguments, and begins
-- anew. what: for the history; arguments: "" for those that it has; step: see target().
function commands.change(job, command, digest, what, arguments, word)
  local i, how = target(word)
  local rec, why = present(job, i, call('HGET', job.key, int(i))), no_tries(job)
  if why then
    return 'WRONG_STATE', why
  elseif job.waits_for ~= '' then
    return 'WRONG_STATE', 'CHANGING'
  elseif how ~= 't' and job.desired == 'D' then
    return 'WRONG_STATE', 'BACK'
  end
  local before
  why = no_retry(job, rec, true)
  if not why and how ~= 't' then
    before, why = before_other_work(job, i, rec, how)
  end
  if why then
    return 'WRONG_STATE', why, i
  elseif job.bytes + #arguments > DATA_MAX then
    return 'WRONG_STATE', 'DATA_FULL'
  elseif digest ~= job.def.digest and not is_ready(job.p, digest) then
    return 'MOVED'
  elseif before == 'UNDO' then
    return put_off(job, command.fresh, {{i = i, rec = rec}}, 'change', digest, what, arguments, word)
  end
  go_on_after_failure(job, 'w')
  local renewed = call('HGET', job.def.key, 'renewed')
  take_definition(job, digest)
  if renewed then
    call('HSETNX', job.def.key, 'renewed', renewed) -- an older job stays one, see is_older_job()
  end
  if before == 'ANEW' then
    note(job, 'anew', i)
    rec.current = 'D'
  end
  if how ~= 't' then
    set(job, 'turn', job.turn + 1)
  end
  note(job, how == 't' and 'changed' or 'edited', i, what)
  if arguments ~= '' then
    keep(job, 'a' .. i, arguments)
  end
  begin_anew(job, i, rec, command.fresh)
  return 'DONE'
end

-- Whether anybody may have begun a step under its present definition: it was dispatched, and not all of
-- that came back. What is dispatched now is with nobody where the ones before came back, and there is no evidence.
local function is_begun(job, i, rec)
  local flies = rec.state == 'R' and rec.attempt > 1
  local progress, was_taken = progress_of(job.p, job.id, i, rec.token)
  return call('HGET', job.key, 'b' .. i) or flies and (progress or was_taken)
    or rec.unstarted < rec.attempt - (flies and 1 or 0)
end

-- It was sent, and not all that is known of it is that no queue took it.
local function may_have_begun(rec)
  return rec.state == 'R' or rec.current == 'U'
end

-- The same as before_other_work(), of a step that has another definition in a newer version. What nobody can
-- have begun is replaced as it is.
local function before_migration(job, i, rec, how, is_gone)
  local flies = rec.state == 'R' or rec.state == 'M'
  if how == 't' then
    return nil, flies and 'IN_FLIGHT' or nil
  elseif rec.current == 'A' then
    return nil, 'BEGUN' -- maybe by a person's word
  elseif is_gone and may_have_begun(rec) then
    return nil, 'GONE' -- nobody would undo it
  elseif not is_begun(job, i, rec) then
    return nil
  elseif flies then
    return nil, 'IN_FLIGHT'
  end
  return before_other_work(job, i, rec, how)
end

-- Where every request came back, an agent may still have had one: it is undone first, as the new
-- definition says, under the turn between. The attempts begin anew, under other keys.
local function replace_step(job, i, rec, before)
  if rec then
    local maybe = may_have_begun(rec) and before ~= 'ANEW'
    if rec.state == 'R' then
      note(job, 'withdrawn', i, rec.attempt, token_id(i, rec.token))
    elseif rec.state == 'F' and rec.since >= job.since then -- of this way: it counts
      remove_failed(job, i, rec)
    end
    remove_parked(job, i)
    set_state(job, i, rec, 'W', 0)
    rec.current = maybe and 'U' or 'D'
    if maybe then
      rec.asked, rec.turn = 'D', job.turn - 1
    end
    rec.token, rec.attempt, rec.failures, rec.expiries, rec.unstarted, rec.since = '-', 0, 0, 0, 0, 0
  end
  if i >= job.n then
    job.records[i] = nil
    call('HDEL', job.key, int(i))
  end
  call('HDEL', job.p .. 'data:' .. job.id, 'e' .. i, 'p' .. i, 't' .. i, 'l' .. i, 'c' .. i,
    'u' .. i)
  call('HDEL', job.key, 'b' .. i)
  keep(job, 'a' .. i, '') -- meant for what it was before
end

-- The steps that differ from what the job has, as { i, how, rec, before }…, and those of them that are undone before;
-- or nil, why that is not possible, and the step.
local function plan_migration(job, has_waited, gone, words)
  local steps, numbers, undo, flying = {}, {}, {}, nil
  for k, word in ipairs(words) do
    local i, how = target(word)
    steps[k], numbers[k] = {i = i, how = how}, int(i)
  end
  for k, text in ipairs(#numbers > 0 and call('HMGET', job.key, unpack(numbers)) or {}) do
    local step, why = steps[k], nil
    if text or job.records[step.i] then
      step.rec = present(job, step.i, text)
      step.before, why = before_migration(job, step.i, step.rec, step.how, k <= gone)
      why = why or has_waited and step.rec.state == 'R' and 'IN_FLIGHT' -- maybe by this call
      if why then
        return nil, why, step.i
      end
      undo[#undo + 1] = step.before == 'UNDO' and step or nil
      flying = step.rec.state == 'R' and step.i or flying
    end
  end
  if #undo > 0 and flying then
    return nil, 'IN_FLIGHT', flying
  elseif #undo > BUDGET then
    return nil, 'MANY_UNKNOWN'
  end
  return steps, undo
end

-- migrate: definition n name gone step…: those that differ from what the job has, see target(); the first `gone` are
-- no more, and were not even sent
function commands.migrate(job, command, digest, n, name, gone, ...)
  if finished(job) or job.ending ~= '' or job.desired == 'D' then
    return 'WRONG_STATE', finished(job) and job.outcome or job.ending ~= '' and 'ENDING' or 'BACK'
  elseif job.waits_for ~= '' then
    return 'WRONG_STATE', 'CHANGING'
  elseif digest == job.def.digest then
    return 'UNCHANGED'
  elseif not is_ready(job.p, digest) then
    return 'MOVED'
  end
  local steps, undo, i = plan_migration(job, command.has_waited, tonumber(gone), {...})
  if not steps then
    return 'WRONG_STATE', undo, i
  elseif #undo > 0 then
    return put_off(job, command.fresh, undo, 'migrate', digest, n, name, gone, ...)
  end
  take_definition(job, digest)
  call('HSET', job.p .. 'data:' .. job.id, 'workflow', name)
  set(job, 'turn', job.turn + 2)
  set(job, 'n', tonumber(n))
  for _, step in ipairs(steps) do
    if step.before == 'ANEW' then
      note(job, 'anew', step.i)
    end
    if step.how ~= 't' then
      replace_step(job, step.i, step.rec, step.before)
    end
  end
  note(job, 'migrated', name)
  local spreads = job.spreads
  count_anew(job)
  for _, work in ipairs(spreads) do
    if work.from == 'y' or work.from == 'w' then -- a Retry of all, a Resume
      work.offset = 0
      job.spreads[#job.spreads + 1] = work
    end
  end
  if job.phase == 'PENDING' then
    job.spreads = {}
  end
  return 'DONE'
end

end

---- steer ----

local steer
do -- its own locals: Lua takes 200 in one scope

local COMMAND_BYTES = 100

-- The last commands with their answers, as "length:id command code why step;".

local function answers_of(job)
  local list, text, at = {}, call('HGET', job.p .. 'data:' .. job.id, 'commands') or '', 1
  while at <= #text do
    local len, start = match(text, '^(%d+):()', at)
    if not len then
      break -- damaged: the rest is forgotten
    end
    local id = sub(text, start, start + len - 1)
    local command, code, why, i, after = match(text, '^ (%S+) (%S+) (%S+) (%S+);()', start + len)
    if not after then
      break
    end
    list[#list + 1] = {id = id, command = command, code = code, why = why, i = i,
      text = sub(text, at, after - 1)}
    at = after
  end
  return list
end

local function remember_answer(job, id, ...)
  local list = answers_of(job)
  local texts = {}
  for k = max(1, #list - COMMANDS_KEPT + 2), #list do
    texts[#texts + 1] = list[k].text
  end
  texts[#texts + 1] = #id .. ':' .. id .. ' ' .. concat({...}, ' ') .. ';'
  call('HSET', job.p .. 'data:' .. job.id, 'commands', concat(texts))
end

local function known_answer(job, id)
  for _, known in ipairs(answers_of(job)) do
    if known.id == id then
      return known
    end
  end
end

-- Commands that turn the job are in an order of their own, by the time they were issued, and so are
-- retries: one that was overtaken changes nothing. One that is refused overtakes nothing.
local ORDERS = {enable = 'ordered', disable = 'ordered', cancel = 'ordered', retry = 'retried', change = 'retried'}

local function overtaken_command(job, command)
  local order = ORDERS[command.name]
  return order and command.issued_at ~= '0'
    and (tonumber(call('HGET', job.key, order) or '') or 0) > tonumber(command.issued_at)
end

-- A sender's clock may be ahead, but whoever comes after him is not to wait for it.
local function keep_order(job, command)
  local order = ORDERS[command.name]
  if order and command.issued_at ~= '0' then
    call('HSET', job.key, order, int(min(tonumber(command.issued_at), job.now + CLOCK_AHEAD)))
  end
end

local function carry_out(job, command, ...)
  if command.definition ~= '' and command.definition ~= job.def.digest then
    return 'MOVED'
  elseif command.if_seq ~= '0' and tonumber(command.if_seq) ~= job.seq then
    return 'SUPERSEDED', 'SEQ'
  elseif overtaken_command(job, command) then
    return 'SUPERSEDED', 'ORDER'
  elseif job.hold == 'killed' then
    return 'WRONG_STATE', 'KILLED'
  elseif not commands[command.name] then
    return 'UNSUPPORTED'
  end
  note(job, 'command', command.name, command.id ~= '' and command.id or '-', command.said)
  return commands[command.name](job, command, ...)
end

-- So that a torn job can be killed: what cannot be read gets a value with which it can.
local function make_readable(p, id, now)
  local key = p .. 'job:' .. id
  if pcall(load, p, id, now, '0') and tonumber(call('HGET', key, 'created') or '0') then
    return
  end
  local first = call('HGET', key, 'n')
  local n = first and match(first, '^%d+$') and tonumber(first) or 0
  call('HSET', key, 'n', (n > 0 and n <= 10000) and int(n) or '1')
  for name, value in pairs({turn = '1', due = int(now), seq = int(now), created = int(now)}) do
    local known = tonumber(call('HGET', key, name) or '')
    if not (known and known >= 0 and known < 2 ^ 53) or name == 'turn' and (known < 1 or known >= 2 ^ 31) then
      call('HSET', key, name, value)
    end
  end
  local desired, phase = unpack(call('HMGET', key, 'desired', 'phase'))
  if desired ~= 'A' and desired ~= 'D' then
    call('HSET', key, 'desired', 'A')
  end
  if phase ~= 'PENDING' and phase ~= 'PROCESSED' and phase ~= 'ERROR' then
    call('HSET', key, 'phase', 'PROCESSING')
  end
  if not call('HGET', key, 'def') then
    call('HSET', key, 'def', 'lost')
  end
  if not pcall(load, p, id, now, '0') then
    call('HDEL', key, 'cursor', 'scan', 'stuck', 'start_at', 'since', 'complete_by', 'epoch')
  end
end

-- What a command of an owner adds to its job counts like what its Submit has said: it is kept in the history, and
-- the arguments of a Retry are with the step. What ends a job is always good.
local function pay(job, command, a)
  local cost = COMMAND_BYTES + #command.said + #command.id
  for k = 13, #a do
    cost = cost + #a[k]
  end
  call('HINCRBY', job.p .. 'users', a[11], int(cost))
  call('HINCRBY', job.key, 'cost', int(cost))
end

local function may_pay(p, a)
  return (a[11] or '') == '' or a[2] == 'cancel' or a[2] == 'kill' or not takes_too_much(p, a[11], 0, tonumber(a[12]) or 0)
end

-- steer: job command command_id issued_at if_seq said by fresh redelivered definition owner bytes argument…
-- said: who gives the command, "-" for nobody, and why; bytes: how many bytes of this partition the jobs of the owner
-- may take, 0: any number.
-- The last commands are kept with their answers: one that comes again changes nothing.
function steer(keys, a)
  local p, now, out = keys[1], now_ms(), {}
  if is_others(p, a[1], a[11]) then
    put_code(out, 'UNKNOWN_JOB', now)
    return out
  elseif not may_pay(p, a) then
    put_code(out, 'TOO_MANY', now)
    put(out, '-', int(NO_STEP))
    return out
  elseif a[2] == 'kill' and call('EXISTS', p .. 'job:' .. a[1]) == 1 then
    make_readable(p, a[1], now)
  end
  local job = load(p, a[1], now, '0')
  if not job then
    put_code(out, 'UNKNOWN_JOB', now)
    return out
  end
  local command = {name = a[2], id = a[3], issued_at = a[4], if_seq = a[5], said = a[6], fresh = a[8],
    definition = a[10]}
  local code, why, i
  local known = command.id ~= '' and known_answer(job, command.id)
  if known and known.command ~= command.name then
    code = 'CONFLICT' -- the id of another command
  elseif known then
    code, why, i = known.code, known.why, known.i
    if a[9] == '1' then
      resend_after(job)
      job.settled = finished(job) and job.seq or 0
    end
  else
    code, why, i = carry_out(job, command, unpack(a, 13))
    if code == 'DONE' or code == 'UNCHANGED' then
      keep_order(job, command)
    end
    if code == 'DONE' then
      if (a[11] or '') ~= '' then
        pay(job, command, a)
      end
      go_on(job, command.fresh)
      save(job, a[7])
    end
    if command.id ~= '' and code ~= 'MOVED' then
      remember_answer(job, command.id, command.name, code, why or '-', i or '-')
    end
  end
  put_driven(out, code, job)
  put(out, why or '-', int(tonumber(i) or NO_STEP))
  return out
end

end

---- settle_owed and lead ----

-- settle_owed: (job seq)… : these notices have been sent.
local function settle_owed(keys, a)
  local p = keys[1]
  for k = 1, #a, 2 do
    call('ZREM', p .. 'owed', a[k] .. ' ' .. a[k + 1])
    if call('HDEL', p .. 'data:' .. a[k], 's' .. a[k + 1], 'n' .. a[k + 1], 'w' .. a[k + 1], 'v' .. a[k + 1]) > 0 then
      count_up(p .. 'job:' .. a[k], 'owes', -1) -- below 0: builds before 22 did not count
    end
  end
  return {'SETTLED'}
end

local lead
do
  -- "… <until> <lease>" is not over. More left than was taken: the clock has stepped back since.
  local function lasts(text, now)
    local till, lease = match(text, '(%d+) (%d+)$')
    local left = (tonumber(till) or now) - now
    return left > 0 and left <= tonumber(lease)
  end

  -- Those that are alive take turns, in the order of their names: each has as many partitions as any
  -- other, or one more.
  local function whose_turn(p, name, lease, now)
    local known, names = call('HGETALL', p .. 'supervisors'), {}
    for k = 1, #known, 2 do
      if known[k] ~= name and lasts(known[k + 1], now) then
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

  -- lead: supervisor lease -> LEADS or FOLLOWS, until, now
  -- Whoever asks is alive for as long as its lease; a lease of 0 says goodbye. Who leads where it is the
  -- turn of another one gives that up.
  function lead(keys, a)
    local p, now, name, lease = keys[1], now_ms(), a[1], tonumber(a[2])
    local mine = whose_turn(p, name, lease, now) == name
    local leader = call('GET', p .. 'leader')
    if leader and match(leader, '^%S+') ~= name and lasts(leader, now) then
      return {'FOLLOWS', match(leader, '(%d+) %d+$'), int(now)}
    elseif mine then
      call('SET', p .. 'leader', name .. ' ' .. int(now + lease) .. ' ' .. int(lease))
      return {'LEADS', int(now + lease), int(now)}
    elseif leader then
      call('DEL', p .. 'leader')
    end
    return {'FOLLOWS', '0', int(now)}
  end
end

---- inspect ----

local inspect
do -- its own locals: Lua takes 200 in one scope

local JOB_FIELDS = {'def', 'current', 'desired', 'phase', 'outcome', 'reason', 'hold', 'turn', 'seq',
  'n', 'open', 'created', 'updated', 'start_at', 'complete_by', 'locked_by', 'since', 'cause',
  'ending', 'failure', 'attention', 'parked', 'next_try', 'failures', 'waits_for'}
local DATA_FIELDS = {'workflow', 'submitter', 'labels', 'reply_to', 'correlation', 'traceparent',
  'format', 'held', 'failure', 'failure_back'}

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

-- inspect history: job from limit owner -> FOUND definition first n × entry: from that number on, of which
-- the first may have been cut off | UNKNOWN
local function inspect_history(p, a)
  local digest, key = call('HGET', p .. 'job:' .. a[2], 'def'), p .. 'hist:' .. a[2]
  if not digest or is_others(p, a[2], a[5]) then
    return {'UNKNOWN'}
  end
  local first = tonumber(match(call('LINDEX', key, 0) or '1', '^%d+'))
  local start = max(tonumber(a[3]) - first, 0)
  local entries = call('LRANGE', key, int(start), int(start + min(tonumber(a[4]), 1000) - 1))
  local more = call('LINDEX', key, int(start + #entries))
  local out = {'FOUND', digest, int(first), more and '1' or '0', int(#entries)}
  put(out, unpack(entries))
  return out
end

-- Whether a job needs a person for an error of that class, or of a step of that actor.
local function has_trouble(p, id, class, actor)
  local of, is = match(call('HGET', p .. 'job:' .. id, 'attention') or '', '^%S+ %d+ %S+ (%S+) (%S+)$')
  return (class == '' or is == class) and (actor == '' or of == actor)
end

-- Whether a job is one of those that are asked for.
local function listed(p, id, phase, workflow, labels, class, actor)
  if (class ~= '' or actor ~= '') and not has_trouble(p, id, class, actor) then
    return false
  elseif phase ~= '' and call('HGET', p .. 'job:' .. id, 'phase') ~= phase then
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
  for _, label in ipairs(texts_of(data[2] or '')) do
    has[label] = true
  end
  for _, label in ipairs(labels) do
    if not has[label] then
      return false
    end
  end
  return true
end

-- The index of that label which the fewest jobs have.
local function rarest(p, labels)
  local index, least = p .. 'l:' .. labels[1], nil
  for k = 1, #labels > 1 and #labels or 0 do
    local n = call('ZCARD', p .. 'l:' .. labels[k])
    if not least or n < least then
      index, least = p .. 'l:' .. labels[k], n
    end
  end
  return index
end

-- inspect jobs: before id since limit phase workflow needs class actor label… -> FOUND now more last last_id
--              n × (id (job fields) (data fields)): created at `before` and less than id, or earlier,
--              newest first; `last` is how far it has looked. needs: 'any' or a kind, see need_of()
local function inspect_jobs(p, a)
  local before, id_before, since, limit = a[2], a[3], a[4], min(tonumber(a[5]), BUDGET)
  local phase, workflow, needs, class, actor, labels = a[6], a[7], a[8], a[9], a[10], {}
  for k = 11, #a do
    labels[#labels + 1] = a[k]
  end
  local index = needs == 'any' and p .. 'needs' or needs ~= '' and p .. 'needs:' .. needs
    or #labels > 0 and rarest(p, labels)
    or workflow ~= '' and p .. 'w:' .. match(workflow, '^[^@]*')
    or (phase == 'PENDING' or phase == 'PROCESSING') and p .. 'open'
    or phase == 'ERROR' and p .. 'failed' or p .. 'jobs'
  local list = call('ZREVRANGEBYSCORE', index, before, since, 'WITHSCORES', 'LIMIT', '0', int(BUDGET))
  local out, count, last, last_id = {'FOUND', int(now_ms()), '', '', '', ''}, 0, before, id_before
  local more = #list == 2 * BUDGET
  for k = 1, #list, 2 do
    local id, created = list[k], int(tonumber(list[k + 1]))
    if created ~= before or id_before == '' or id < id_before then
      last, last_id = created, id
      if listed(p, id, phase, workflow, labels, class, actor) then
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

-- inspect notice: job seq limit step… -> FOUND definition n (data fields) tries outcome phase turn at open reason
--              failed failure error k × (step result) m × (reply_to correlation): how often it was asked for again,
--              how that turn ended, the numbers of the steps that had failed for good, see deciding.failure(), the results of
--              the named steps that have one, '' where it did not fit the limit, and the addresses that the job had
--              before its last one. Each job ends with one: it asks for nothing else.
local function inspect_notice(p, a)
  local data = p .. 'data:' .. a[2]
  local d = call('HMGET', data, 'workflow', 'submitter', 'labels', 'reply_to', 'correlation', 'traceparent', 'format',
    'n' .. a[3], 's' .. a[3], 'earlier', 'w' .. a[3], 'v' .. a[3])
  if not d[9] then
    return {'UNKNOWN'}
  end
  local job = call('HMGET', p .. 'job:' .. a[2], 'def', 'n')
  local tries = tonumber(d[8] or '0')
  if not (tries and tries >= 0 and tries < NOTICE_TRIES) then
    tries = NOTICE_TRIES - 1 -- also where it was damaged: it is not to be told for ever
  end
  local out = {'FOUND', job[1] or '', match(job[2] or '', '^%d%d?%d?%d?%d?$') or '1', d[1] or '', d[2] or '',
    d[3] or '', d[4] or '', d[5] or '', d[6] or '', d[7] or '', int(tries)}
  local ended = {match(d[9], '^(%S+) (%S+) (%d+) (%d+) (%d+) (%S*) ?([%d ]*)$')}
  put(out, unpack(ended[1] and ended or {'KILLED', 'ERROR', '1', '0', '0', '', ''})) -- damaged
  put(out, d[11] or '', d[12] or '')
  local room, count, results = tonumber(a[4]), 0, {}
  for k = 5, min(#a, 4 + BUDGET) do
    local size = call('HSTRLEN', data, 'r' .. a[k])
    local fits = size <= room
    if size > 0 then
      count = count + 1
      put(results, a[k], fits and call('HGET', data, 'r' .. a[k]) or '')
      room = fits and room - size or room
    end
  end
  put(out, int(count), unpack(results))
  local earlier = texts_of(d[10] or '')
  put(out, int(floor(#earlier / 2)), unpack(earlier))
  return out
end

local AGENTS_SOUGHT = 100         -- entries of a history, or four for each step, in which agents are looked for

-- The agents that have had the steps last, by number, as far as the last entries of the history tell.
local function agents_of(p, id, steps)
  local ends, agents = {done = true, undone = true, failed = true, deferred = true, expired = true, silent = true}, {}
  local entries = min(max(4 * steps, AGENTS_SOUGHT), HISTORY_MIN)
  for _, entry in ipairs(call('LRANGE', p .. 'hist:' .. id, int(-entries), '-1')) do
    local event, i, agent = match(entry, '^%d+ %d+ (%l+) (%d+) %d+ %S+ (%S+)$')
    if ends[event] then
      agents[i] = agent
    end
  end
  return agents
end

-- inspect job: job from count with_data owner -> FOUND now (job fields) (data fields) input
--              k × (step record error progress result agent), fewer than asked for where they are large
local function inspect_job(p, a)
  local job, data = p .. 'job:' .. a[2], p .. 'data:' .. a[2]
  if call('EXISTS', job) == 0 or is_others(p, a[2], a[6]) then
    return {'UNKNOWN'}
  end
  local out = {'FOUND', int(now_ms())}
  put_fields(out, job, JOB_FIELDS)
  put_fields(out, data, DATA_FIELDS)
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
  local steps, count, size, agents = {}, 0, 0, agents_of(p, a[2], last - from + 1)
  for k, field in ipairs(records) do
    local failure, progress = extra[2 * k - 1] or '', extra[2 * k] or ''
    local result = with_data and call('HGET', data, 'r' .. field) or ''
    size = size + #failure + #progress + #result
    if size > PAGE_BYTES and count > 0 then
      break
    end
    count = count + 1
    put(steps, field, texts[k] or '', failure, progress, result, agents[field] or '')
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
function inspect(keys, a)
  return inspections[a[1]](keys[1], a)
end

end

---- told ----

local told
do

-- Causes whose end nobody has met, because their actor never came back. Some at random each time that one
-- is added: what is left over stays far fewer than what is not.
local function forget_causes(p, now)
  local some = call('HRANDFIELD', p .. 'told', int(TOLD_LOOKED_AT), 'WITHVALUES')
  for k = 1, #some, 2 do
    if some[k] ~= 'letters' and tonumber(match(some[k + 1], '^%d+')) <= now then
      call('HDEL', p .. 'told', some[k])
    end
  end
end

-- drover.dead has `there` messages; the caller has put `own` more into it since it said so last, and raised alerts about
-- them. What no scheduler answers for a minute after it was seen was put there by others, and is news; returns how many.
-- Kept in `letters`: messages that are known of; those that a scheduler answers for and nobody has seen; since when there
-- are more than that, negative: fewer; how many there were then.
local function unknown_letters(p, now, there, own)
  local known, unseen, since, seen = match(call('HGET', p .. 'told', 'letters') or '', '^(%d+) (%d+) (%-?%d+) (%d+)$')
  known, unseen, since, seen = tonumber(known), (tonumber(unseen) or 0) + own, tonumber(since) or 0, tonumber(seen) or 0
  local count, grown = 0, known and there - known - unseen
  if not known or there < known or since > now then -- or somebody has read some
    known, unseen, since = there, 0, 0
  elseif grown > 0 and (since <= 0 or now - since >= TELLING) then
    count = since > 0 and max(seen - known - unseen, 0) or 0
    known, since, seen = known + count, grown > count and now or 0, there
  elseif grown <= 0 then
    known, unseen, since = there, -grown, grown < 0 and (since < 0 and since or -now) or 0
    if since < 0 and now + since >= TELLING then -- nor will they come
      unseen, since = 0, 0
    end
  end
  call('HSET', p .. 'told', 'letters', concat({int(known), int(unseen), int(since), int(seen)}, ' '))
  return count
end

-- told: cause ask|told|over fresh -> NEWS or KNOWN, TOLD, OVER
-- told: '' letters '' there own -> NEWS or KNOWN, how many: see unknown_letters()
-- An alert is told once for each cause, whichever scheduler meets it. Who hears NEWS is to tell, and to
-- say so when the broker has confirmed: until then the mark bears his `fresh`, and a short time.
function told(keys, a)
  local p, now, cause = keys[1], now_ms(), a[1]
  if a[2] == 'letters' then
    local count = unknown_letters(p, now, tonumber(a[4]), tonumber(a[5]))
    return {count > 0 and 'NEWS' or 'KNOWN', int(count)}
  elseif a[2] == 'over' then
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

end

---- step events ----

local step_events
do

local HEARD_MOST = 1000          -- entries of the history that are told at a time, of those that are new the last
local TOLD = {dispatched = true, began = true, done = true, undone = true, failed = true, parked = true}

-- step_events: job -> FOUND "now open n" workflow submitter reply_to correlation format and, for each,
-- "seq at event attempt asked agent", step, error
-- What has happened at the steps of a job since this was called last, for the client that has asked for it: it hears
-- of each once, or not at all where the caller dies.
function step_events(keys, a)
  local p, id = keys[1], a[1]
  local job = load(p, id, now_ms(), '0')
  if not job or job.events ~= 'reply' then
    return {'UNKNOWN_JOB'}
  end
  local data = p .. 'data:' .. id
  local d = call('HMGET', data, 'workflow', 'submitter', 'reply_to', 'correlation', 'format', 'heard')
  local out = {'FOUND', int(job.now) .. ' ' .. int(job.open) .. ' ' .. int(job.n), d[1] or '', d[2] or '', d[3] or '',
    d[4] or '', d[5] or ''}
  local fresh = min(job.seq - (tonumber(d[6] or '') or 0), HEARD_MOST)
  if fresh <= 0 then
    return out
  end
  call('HSET', data, 'heard', int(job.seq))
  for _, entry in ipairs(call('LRANGE', p .. 'hist:' .. id, int(-fresh), '-1')) do
    local seq, at, event, i, attempt, last = match(entry, '^(%d+) (%d+) (%l+) (%d+) ?(%d*) ?%S* ?(%S*)')
    i = tonumber(i)
    if TOLD[event] and i < job.n then
      local rec = parse_record(call('HGET', job.key, int(i)), step_of(job.def, i))
      local failure = (event == 'failed' or event == 'parked') and call('HGET', data, 'e' .. int(i))
      put(out, concat({seq, at, event, attempt ~= '' and attempt or int(rec.attempt),
        event == 'dispatched' and (last == 'D' and 'D' or 'A') or rec.asked,
        event ~= 'dispatched' and last ~= '' and last or '-'}, ' '),
        step_of(job.def, i).name or '', failure and deciding.without_details(failure) or '')
    end
  end
  return out
end

end

---- mark ----

-- mark: run fresh job… -> now, id, count, began, k × (job): the mark, what it was when the server's present
-- run was met first, and which of the jobs are not there
-- Whoever is connected again calls this before all else, so that nothing is accepted in a run that
-- nobody has met. The id tells a mark that was made anew.
local function mark(keys, a)
  local p, key = keys[1], keys[1] .. 'mark'
  local m = call('HMGET', key, 'id', 'count', 'run', 'began')
  local id, count, began = m[1] or a[2], m[2] or '0', m[4]
  if m[3] ~= a[1] then
    began = count
    call('HSET', key, 'id', id, 'run', a[1], 'began', began)
  end
  local gone = {}
  for k = 3, #a do
    if call('EXISTS', p .. 'job:' .. a[k]) == 0 then
      gone[#gone + 1] = a[k]
    end
  end
  local out = {int(now_ms()), id, count, began, int(#gone)}
  put(out, unpack(gone))
  return out
end

---- suspect ----

-- suspect: digest life begin|back|end -> lives: those that have begun a message and did not tell how that
-- ended, this one among them where it begins. A message that was dealt with is forgotten. 0, and nothing is
-- noted: there are two besides, one of which has begun just now, with a copy, and may live: ask again.
local suspect
do
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
    return now >= at and now < at + SUSPECT_LIVES
  end

  function suspect(keys, a)
    local p, now, digest, life, what = keys[1], now_ms(), a[1], a[2], a[3]
    local known, lives = call('HGET', p .. 'suspects', digest), {}
    if known and not is_old(known, now) then
      for word in gmatch(known, ' (%x+)') do
        lives[#lives + 1] = word ~= life and word or nil
      end
    end
    if what == 'begin' and #lives > 1 and is_new(known, now) then
      return {'0'}
    end
    if what == 'begin' then
      lives[#lives + 1] = life
      forget_some(p, now)
    end
    if what == 'end' or #lives == 0 then
      call('HDEL', p .. 'suspects', digest)
    else
      call('HSET', p .. 'suspects', digest, int(now) .. ' ' .. concat(lives, ' '))
    end
    return {int(#lives)}
  end
end

---- forget ----

local forget
do -- its own locals: Lua takes 200 in one scope

local function forget_job(p, id)
  local key = p .. 'job:' .. id
  local digest = call('HGET', key, 'def')
  if digest then
    release_definition(p, digest)
  end
  local data, cost = call('HMGET', p .. 'data:' .. id, 'workflow', 'index'), call('HGET', key, 'cost')
  -- a build before 45 has counted the input alone
  cost = tonumber(cost or #(call('HMGET', p .. 'data:' .. id, 'input')[1] or '')) or 0
  for _, index in ipairs(index_keys(p, data[1] or '', data[2] or '')) do
    call('ZREM', index, id)
  end
  for _, label in ipairs(texts_of(data[2] or '')) do
    local owner = match(label, '^=(.*)$') -- of a job that was counted
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

-- Whether somebody is still to hear how a turn of a job has ended. Builds before 22 did not count that.
local function owes(p, id)
  local job = call('HMGET', p .. 'job:' .. id, 'owes', 'seq')
  return (tonumber(job[1] or '0') or 0) > 0 or call('ZSCORE', p .. 'owed', id .. ' ' .. (job[2] or ''))
end

-- Jobs are kept that have settled since then. Where the clock jumped ahead, the time of those before it has not
-- passed: whoever submits one again may be late by the clock, and is not.
local function kept_since(p, now, retention)
  local clock, since = read_clock(p), now - retention
  return since - clock.by < clock.jumped and since - clock.by or since
end

-- How many jobs of this partition need a person, and what for.
local function needs(p)
  return int(call('ZCARD', p .. 'needs:parked')), int(call('ZCARD', p .. 'needs:deadline')),
    int(call('ZCARD', p .. 'needs:ended'))
end

-- forget: retention limit -> forgotten jobs, more, jobs that need a person: parked deadline ended
function forget(keys, a)
  local p, now = keys[1], now_ms()
  local limit = tonumber(a[2])
  if is_quiet(p, now) then
    return {'0', '0', needs(p)}
  end
  local list = call('ZRANGEBYSCORE', p .. 'settled', '-inf', int(kept_since(p, now, tonumber(a[1]))), 'LIMIT', 0,
    limit)
  local forgotten = 0
  for _, id in ipairs(list) do
    if owes(p, id) then
      call('ZADD', p .. 'settled', int(now), id)
    else
      forget_job(p, id)
      forgotten = forgotten + 1
    end
  end
  local unused = call('ZRANGEBYSCORE', p .. 'defs', '-inf', int(now - UNUSED_DEFINITION), 'LIMIT', 0,
    limit)
  for _, digest in ipairs(unused) do
    if (tonumber(call('HGET', p .. 'def:' .. digest, 'refs') or '') or 0) == 0 then
      call('UNLINK', p .. 'def:' .. digest)
    end
    call('ZREM', p .. 'defs', digest)
  end
  return {int(forgotten), #list == limit and '1' or '0', needs(p)}
end

end

---- sweep ----

local sweep
do

-- sweep: cursor -> next cursor, job, place…: what had to be mended there; or 'torn' and why it cannot be read
-- Trusts no index and no counter: looks at one unfinished job, the oldest first, and derives its bound, its join
-- counters, and how many of its steps are open, busy and stuck. The cursor is "" at the beginning and at the end of a
-- round; else
--   created job step edge missing seq had_busy back counts open busy stuck_do stuck_undo
-- Step is '-' where the job is done. Of a step with more neighbours than one call reads, so many are missing up
-- to that edge. That, and what was counted of the steps before, is good only while nothing has happened to the job
-- since: its seq is the same, and had_busy its `busy` (that a step has come to rest is no entry of the history);
-- counts: 1 while it is. `back`: steps back of the clock before the round began.

-- How many of those that come before step i, from the at.edge-th on, are not where the job wants them is
-- added to at.missing. Return: how many were read; all, where at.edge is n_before then.
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
  note(job, 'mended', what)
  touch(job, job.now)
end

-- All steps were counted, and nothing has happened meanwhile.
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

-- From at.step and at.edge on; where at.step is n afterwards the job is done.
local function sweep_steps(job, at, places)
  local seen, left = 0, time_left(job, job.desired)
  local may_send = moving(job) and not (left and left <= 0) -- else the deadline is about to be noticed
  if at.seq ~= job.seq or at.had_busy ~= job.busy then
    at.counts = at.step == 0 and at.edge == 0 -- else the next round will tell
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
        note(job, 'mended', i)
      end
      if rec.state == 'P' and add_parked(job, i) then -- by a build before 46
        set_trouble(job, i, rec.asked, used_up(job, i, rec) or '-')
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
    note(job, 'mended', 'due')
  end
  if wrong or at.back > 0 then -- so may be what a scan in pieces has seen: the next `expire` begins with the first step
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
  if at.back > clock.swept and at.back <= clock.back then -- which an older store may not have counted
    clock.swept = at.back
    write_clock(p, clock)
  end
  return {'', ''}
end

local function sweep_cursor(p, text)
  local created, job, step, edge, missing, seq, had_busy, back, counts, open, busy, stuck_do, stuck_undo = match(
    text, '^(%d+) (%S+) (%S+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d) (%d+) (%d+) (%d+) (%d+)$')
  if not created then
    local clock = read_clock(p)
    return {edge = 0, missing = 0, seq = 0, had_busy = 0, back = clock.back > clock.swept and clock.back or 0}
  end
  return {created = created, job = job, step = tonumber(step), edge = tonumber(edge),
    missing = tonumber(missing), seq = tonumber(seq), had_busy = tonumber(had_busy), back = tonumber(back),
    counts = counts == '1', open = tonumber(open), busy = tonumber(busy), stuck_do = tonumber(stuck_do),
    stuck_undo = tonumber(stuck_undo)}
end

-- Jobs end while the others are swept, also the one that was swept last: then those created in the same moment
-- are swept again.
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
    at.step, places[1] = nil, 'open'
  else
    sweep_job(job, at, places)
  end
end

function sweep(keys, a)
  local p, now, places = keys[1], now_ms(), {}
  local at = sweep_cursor(p, a[1])
  local rank = sweep_rank(p, at)
  local id, created = unpack(call('ZRANGE', p .. 'open', rank, rank, 'WITHSCORES'))
  if not id then
    return sweep_end(p, at)
  elseif id ~= at.job or not at.step then
    at.created, at.job, at.step, at.edge, at.missing, at.counts = created, id, 0, 0, 0, true
    at.open, at.busy, at.stuck_do, at.stuck_undo, at.seq, at.had_busy = 0, 0, 0, 0, -1, 0
  end
  local good, wrong = unless_torn(sweep_one, p, id, now, at, places)
  if not good then
    at.step, places = nil, {'torn', wrong}
  end
  return {concat({at.created, id, at.step and int(at.step) or '-', int(at.edge), int(at.missing),
    int(max(at.seq, 0)), int(at.had_busy), int(at.back), at.counts and '1' or '0', int(at.open), int(at.busy),
    int(at.stuck_do), int(at.stuck_undo)}, ' '), id, unpack(places)}
end

end

---- look ----

-- look: function argument…: what that would answer (expire, sweep, forget), and nothing is changed. It runs
-- as it is; Redis sees to it that what is not read here is not written either.
local dry_run
do
  local reads = {EXISTS = true, GET = true, HGET = true, HMGET = true, TIME = true, ZCARD = true,
    ZCOUNT = true,
    ZRANGE = true, ZRANGEBYSCORE = true, ZRANK = true, ZSCORE = true}

  function dry_run(keys, a)
    local real = call
    call = function(command, ...)
      if reads[command] then
        return real(command, ...)
      end
      return command == 'HINCRBY' and 1 or 0
    end
    local what = {expire = expire, sweep = sweep, forget = forget}
    local good, answer = pcall(what[a[1]], keys, {unpack(a, 2)})
    call = real
    if not good then
      error(answer, 0)
    end
    return answer
  end
end

---- registration ----

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
register('unsent', unsent, {'allow-oom'})
register('renew', renew, {'allow-oom'})
register('taken', taken, {'allow-oom'})
register('expire', expire, {'allow-oom'})
register('drive', drive_job, {'allow-oom'})
register('steer', steer, {'allow-oom'})
register('settle_owed', settle_owed, {'allow-oom'})
register('lead', lead, {'allow-oom'})
register('inspect', inspect, {'no-writes', 'allow-oom'})
register('told', told, {'allow-oom'})
register('step_events', step_events, {'allow-oom'})
register('suspect', suspect, {'allow-oom'})
register('mark', mark, {'allow-oom'})
register('forget', forget, {'allow-oom'})
register('look', dry_run, {'no-writes', 'allow-oom'})
register('sweep', sweep, {'allow-oom'})
