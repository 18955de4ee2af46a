#!lua name=drover1
-- SPDX-License-Identifier: Apache-2.0
--
-- The store functions. Each transition of a job is one call of one of them. A call is atomic, and
-- touches one partition.
--
-- KEYS[1] is the key prefix of the partition with its hash tag, such as "drover:{p3}:". Arguments
-- and answers are flat lists of strings; schema.txt says what stands where in them, and
-- common/model/store_ops.h is the C side.
--
-- Rules. A function checks before its first write: Redis isolates a call, but does not roll it
-- back. It reads the clock once. Nonces, from which tokens are made, and random fractions come from
-- the caller. Every function may be repeated. No call touches more than BUDGET steps. The job's
-- cursor keeps the work that is left; then the job is due soon, and the answer says `more`.
--
-- A store function `x` is functions.x(). Its first parameter is the partition's prefix, p. Then
-- come its arguments, by the names and in the order of schema.txt. If it has repeated arguments,
-- they are list[first], list[first + 1] …; "for _, a, b in each.x(list, first) do" goes through
-- those that are lists of the values a and b, or, with the one variable x, puts these into a table.
-- The first line of its comment has its answer. The build compares all that with schema.txt.
--
-- Letters. Of states, A is ACTIVE, D is DISABLED, U is UNKNOWN; of directions and dispatches, A is
-- forward and the forward action, D is back and the undo. States of a step: W at rest or waiting, R
-- in flight, B backing off, M recovery requested, P parked, F failed for good. Pieces of the
-- cursor: r roots, t turn, w after a hold, y Retry of all steps, l end of the job.
--
-- Contents, each behind a heading `---- … ----`: definitions · steps · jobs · transitions of steps
-- and jobs · the cursor · driving a job · answers · the clock · define and submit · record · renew
-- · expire · drive · commands · change and migrate · steer · settle_owed and lead · inspect · told
-- · step events · mark · suspect · forget · sweep · look
--
-- Keys of a partition (p = KEYS[1]); docs/OPERATIONS.md, "A job's record", has the fields of a job
-- and of its data:
--   p job:<id>      hash   the job; a field for each step, by number, absent until first touched;
--                          b<step>: a dispatch of it may have been begun, without proof, see
--                          is_begun(); k<step>: the turn in which it was parked, see add_parked()
--   p data:<id>     hash   input, labels, reply_to …; r<step> results, e<step> last errors, a<step>
--                          arguments from a person; change: a command that waits, see `change`;
--                          p<step> the last Progress and t<step> the token of a request that left
--                          its queue, see has_evidence(); c<step> the token of a request that was
--                          sent once more, u<step> that of one that had waited, see unsent() …
--   p hist:<id>     list   the history: "seq time event …", numbered, of bounded length
--   p def:<digest>  hash   a definition: n, blob, refs, what drive needs of each step, and x<name>,
--                          the number of the step of that name
--   p workflows     hash   name@version -> digest, name -> newest version
--   p defs          zset   definitions that no job uses yet, by the time they came
--   p due           zset   unfinished jobs, by a lower bound of when `expire` must look
--   p open          zset   unfinished jobs, by creation; p settled: the others, by when they ended
--   p jobs          zset   all jobs by creation, for people; likewise p failed: those in ERROR,
--                          p w:<name>: those of a workflow, p l:<name>=<value>: those with a label;
--                          p l:=<user>: those of an owner
--   p needs         zset   jobs that need attention, by creation; p needs:<kind>: those of a kind
--   p owed          zset   the outbox: "<job> <seq>" of each notification (the end of a turn, or an
--                          alert about a job), by the time at which the supervisor asks for it
--   p told          hash   alert cause, "<reason> <actor>" or another text -> until when it is
--                          known, and the nonce of the scheduler that is about to publish it;
--                          letters: see unknown_letters()
--   p suspects      hash   digest of a suspect -> "<time> <incarnation> …" that have begun it
--   p leader        string "<supervisor> <until> <lease>"
--   p clock         string "<seen> <quiet until> <steps back> <jumped at> <by> <swept>", see
--                          watch_clock()
--   p supervisors   hash   supervisors that are alive, leading or not -> "<until> <lease>"
--   p users         hash   user -> bytes that its jobs take, if jobs have owners: see cost_of()
--   p mark          hash   count: the watermark, of accepted jobs and ended turns; id, run and
--                          began: see mark(). A lower count than one that a scheduler remembers
--                          shows that the store went back

local BUILD = 46
local FORMAT = '3'               -- of definitions; a scheduler stores those of another format again

local BUDGET = 250               -- steps that one call may touch, about 3 ms
local CHUNK = 500                -- step numbers in one piece of a list of dependents
-- ms by which the clock of the sender of a command may be ahead of the store's
local CLOCK_AHEAD = 300000
local CACHED_STEPS = 20000       -- steps of definitions that are kept parsed
local HISTORY_MIN = 1000         -- history entries kept of a job, or four for each step
local NAMED_AGAIN = 5000         -- ms after which a lost Recover, or Notify, is asked for again
local CONTINUED = 1000           -- ms in which the scheduler that left a cursor drives the job on
local DAY = 86400000             -- ms; the longest silence interval, or wait between two runs
local SWEEP_BOUND = 600000       -- ms; `expire` looks at each unfinished job at least this often
local WAIT_SLACK = 1000          -- ms by which a request may come back before its wait is over
local AT_ONCE = 10               -- ms; a shorter deferral of a first attempt needs no timer
local COMMANDS_KEPT = 16         -- commands of a job that are kept with their answers
local EARLIER_KEPT = 4           -- addresses kept of a job besides that of its last Submit
local TRIES_MAX = 1000           -- runs of a job: the most that a workflow can allow
local NO_EVIDENCE = '?'               -- in place of a token: see the record of a step
local SILENCE_OVER = '!'                -- likewise: the silence interval is over, and one dispatch is due
local NO_STEP = 4294967295       -- in an alert or an answer that is about no step
local FAILED_BYTES = 1000        -- of the list of steps that have failed for good
local DATA_MAX = 67108864        -- bytes of input and results of a job: 64 MiB
local WAIT_CAP = 3600000         -- ms; the longest doubled wait of a request
local PAGE_BYTES = 1048576       -- of errors and results in one page of the steps of a job
local CAUSE_CLAIMED = 60000            -- ms in which a scheduler is to publish the alert of a new cause
local TOLD = 7200000             -- ms after the last sign of a cause in which it counts as known
local CAUSES_CHECKED = 10        -- known causes that are checked for their end when a new one comes
local UNUSED_DEFINITION = 3600000 -- ms that a definition may wait for its first job
local QUIET = 60000              -- ms after a jump of the clock without expiries: a default lease
local CLOCK_NOTED = 10000        -- ms after which `expire` records again what the clock shows
local CLOCK_STEP = 2000          -- ms by which the clock may go back unnoticed
local SUSPECTED = 3600000        -- ms that an incarnation which has begun a suspect is recorded
local SUSPECT_ALIVE = 200        -- ms after an incarnation began a suspect in which it may be alive
local NOTIFICATION_TRIES = 5           -- then a notification is a dead letter: scheduler/notification.c
-- ms between tries of a notification. With the first two tries that makes five in an hour.
local NOTIFICATION_WAITS = {300000, 1200000, 2100000}

-- The store functions; and what the build makes of schema.txt: calls hands them their arguments,
-- schema has the lists of hash fields that stand in answers.
local functions, calls, schema = {}, {}, {}

-- Redis offers no standard library while it loads a library: set_up() fills these at the first
-- call. A global costs more to find than a local.
local function globals()
  return ipairs, tonumber, unpack
end

local ipairs, tonumber, unpack, floor, min, max, format, match, gmatch, sub, concat, call

local function set_up()
  ipairs, tonumber, unpack = globals()
  floor, min, max = math.floor, math.min, math.max
  format, match, gmatch, sub = string.format, string.match, string.gmatch, string.sub
  concat = table.concat
  call = redis.call
end

-- An integer below 2^53 as text: tostring would turn milliseconds into 1.7e+12. To format a number
-- costs as much as a small redis.call. So the texts of small numbers are kept for good, those of
-- large ones for as long as the numbers are likely to come again. The text of a large number is put
-- together of two kept pieces: times have their first digits in common.
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
  text = format('%.0f', number) -- negative numbers as well
  small[number] = number > -SMALL and text or nil
  return text
end

end

-- The number that a text stands for, or nil. To read one costs as much; numbers of up to three
-- digits are kept.
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
  local seconds, micros = unpack(call('TIME'))
  return tonumber(seconds) * 1000 + floor(tonumber(micros) / 1000)
end

---- definitions ----

-- A definition never changes, and its name is the digest of its content, so a parsed one may be
-- kept for good.

local cache, cached_steps = {}, 0

local function numbers(text)
  local list = {}
  for word in gmatch(text, '%d+') do
    list[#list + 1] = tonumber(word)
  end
  return list
end

-- The terms of a dispatch, in either direction:
--   lock wait heartbeat initial coefficient longest attempts expiries jitter park
--       on_permanent on_exhausted silence|non_retryable
-- on_permanent and on_exhausted are letters without a space between them: P(ark), C(ompensate),
-- F(ail). The terms of a revert end with |actor, unless a build before 42 has stored them.
local TERMS = '^(%d+) (%d+) (%d+) (%d+) (%S+) (%d+) (%d+) (%d+) (%S+) (%-?%d+) (%u)(%u) ?(%d*)|([^|]*)'

-- A step of a definition: the terms of its forward action, then
--   |n_after n_dependents revert waived|take|after|dependents|name|actor
-- revert and waived are digits without a space between them. Builds before 36 have stored no name,
-- those before 42 no actor, those before 46 no silence interval.
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

local function definition_of(p, digest)
  local key = p .. 'def:' .. digest
  local def = cache[key]
  if not def then
    def = {key = key, digest = digest, steps = {}}
    cache[key] = def
  end
  return def
end

-- Counts steps that are about to be parsed. If there would be too many, the cache forgets all that
-- it has.
local function count_cached(def, count)
  if cached_steps + count > CACHED_STEPS then
    cache, cached_steps = {[def.key] = def}, 0
    def.steps = {}
  end
  cached_steps = cached_steps + count
end

-- Step i of a definition. Step 'r' stands before all roots: they are its dependents.
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

-- Whether `name` is the name of another step than i. False if a build before 36 has stored the
-- definition: it has no names yet.
local function is_other_step(def, i, name)
  local own = step_of(def, i).name
  return own ~= '' and own ~= name and call('HGET', def.key, 'x' .. name)
end

-- Reads in one call those of the listed steps that are not parsed yet.
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

-- The terms of step i for one direction: asked is A or D.
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

-- Whether a message came from the agents of another actor than the one that the step was sent to.
-- False if the broker does not say whose agents they are, or a build before 42 has stored the
-- definition.
local function is_other_actor(job, i, rec, actor)
  local own = actor and actor ~= '' and terms_of(job.def, i, rec.asked).actor
  return own and own ~= '' and own ~= actor
end

-- The piece of the list of dependents of step i that contains `offset`, and the offset at which the
-- piece begins.
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

-- The record of a step, as text that a person can read in the job:
--   current asked state turn attempt token until failures expiries waiting unstarted
--   [since forward]
-- current    A(CTIVE) D(ISABLED) U(NKNOWN). In flight it is UNKNOWN; the record keeps what was
--            known before, because a request that reached no queue leaves the step so
-- asked      what the last dispatch asked for: A the forward action, D the undo
-- state      W at rest, or waiting   R in flight: the token is valid until it is answered or
--            withdrawn   B backing off   M recovery requested: `expire` has found the step due, and
--            a scheduler is to drive it   P parked   F failed for good
-- turn       of the work that the last dispatch was an attempt of: part of its idempotency key
-- attempt    number of the last dispatch; begins again only if a migration replaces the step
-- token      of the dispatch in flight, or of the last one that was answered. '-': withdrawn, or
--            never any; '?': withdrawn, without evidence that an agent had the request; '!': none,
--            and the silence interval is over, see silence_ends()
-- until      R: LockedUntil   B: the next attempt   P: likewise, 0 for none   M: when `expire`
--            names the step again
-- failures   failures that agents have reported of this work
-- expiries   expiries of this work
-- waiting    neighbours that must come first and have not: dependencies if the job goes forward,
--            dependents if it goes back
-- unstarted  dispatches in a row that no agent is known to have begun: they came back, or their
--            LockedUntil passed without Progress; each doubles the wait of the next
-- since      the turn in which `waiting` was counted, see the job's epoch; left out, and `forward`
--            with it, if it is 1 and `forward` is `turn`
-- forward    turn of the last dispatch that asked for A: an undo takes back the work of that turn

local RECORD = '^([ADU]) ([AD]) ([WRBMPF]) (%d+) (%d+) (%S+) (%d+) (%d+) (%d+) (%d+) (%d+) ?(%d*) ?(%d*)$'

local function parse_record(text, step)
  if not text then
    return {current = 'D', asked = 'A', state = 'W', turn = 0, attempt = 0, token = '-', till = 0,
      failures = 0, expiries = 0, waiting = step.n_after, unstarted = 0, since = 1, forward = 0}
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

local function record_text(rec)
  local text = rec.current .. ' ' .. rec.asked .. ' ' .. rec.state .. ' ' .. int(rec.turn) .. ' '
    .. int(rec.attempt) .. ' ' .. rec.token .. ' ' .. int(rec.till) .. ' ' .. int(rec.failures) .. ' '
    .. int(rec.expiries) .. ' ' .. int(rec.waiting) .. ' ' .. int(rec.unstarted)
  return rec.since == 1 and rec.forward == rec.turn and text or text .. ' ' .. int(rec.since) .. ' ' .. int(rec.forward)
end

-- Whether a step counts as busy: it is in flight, backing off, recovery is requested, or it is
-- parked.
local function under_way(state)
  return state == 'R' or state == 'B' or state == 'M' or state == 'P'
end

-- The same for a record that is not parsed: it begins with current, asked and state, a letter each.
local function has_moment(text)
  return text and under_way(sub(text, 5, 5))
end

---- jobs ----

-- A call collects what it changes in the loaded job; save() writes all of it in one HSET.

-- A job as a Submit makes it. The table of a job gets a field of DEFAULTS only if its value is
-- another one.
local job_new
do

local DEFAULTS = {__index = {
  hold = '', outcome = '',
  since = 1,       -- the turn in which the job was turned to its present direction
  epoch = 1,       -- since this turn all steps are counted anew: `since`, or a later migration
  cause = '',      -- why it was turned: REQUESTED, CANCELLED, FAILURE, TRY
  ending = '',     -- why it is to end FAILED, once nothing is in flight
  failed = '',     -- numbers of steps that have failed for good, as far as there is room
  stuck_do = 0, stuck_undo = 0, -- how many these are: forward actions, undos
  started = false, -- it had a start_at, and has begun
  start_at = 0, complete_by = 0,
  -- step: each dispatch is an event on drover.events; reply: what happens at steps is sent to
  -- reply_to
  events = '',
  -- the last turn whose forward work the deadline has bounded, if the deadline has passed; see
  -- deadline.mark_passed()
  late = false,
  scan = false, scan_changed = false, had_cursor = false,
  settled = 0,     -- seq of the end of a turn that this call records
  watermark = 0,      -- the partition's watermark after what this call accepted or ended
  next_try = 0,    -- it was taken back, and goes forward again at this time; 0: it does not
  parked = 0,      -- steps that are parked, or tried again since, see add_parked()
  attention = '',  -- why the job needs a person: "kind since step actor class", see update_attention()
  acknowledged = false, -- a person has acknowledged that
  waits_for = '',  -- numbers of steps that are undone before a change is carried out, see change
}}

-- `budget` is how many steps the call may touch; the jobs of one call share it. Fields that every
-- call sets stand here, although they are set again: a table that is made with all its fields need
-- not grow.
job_new = function(p, id, now, def, n, budget)
  return setmetatable({
    p = p, id = id, key = p .. 'job:' .. id, now = now, def = def, n = n,
    desired = 'A', phase = 'PROCESSING', turn = 1, seq = 0, bytes = 0,
    open = n,        -- steps that are not where the job wants them
    busy = 0,        -- steps in flight, backing off, parked, or with recovery requested
    was_busy = 0, due = now + SWEEP_BOUND, due_changed = false, step_text = false,
    plain = false,   -- no field of RARE was ever set
    bare = false,    -- nor has its data labels or a traceparent
    spreads = {},    -- the cursor: work that did not fit into a call, see below
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

-- Fields that most jobs never have. As long as `plain` says so (1; or 2: the data has neither
-- labels nor a traceparent either) load() does not read them, because to look for a field that is
-- absent costs Redis more than to find one.
local RARE = {'hold', 'cursor', 'scan', 'outcome', 'start_at', 'events', 'since', 'cause', 'ending', 'failed',
  'complete_by', 'late', 'stuck', 'epoch', 'started', 'parked', 'attention', 'acknowledged', 'next_try', 'waits_for'}
is_rare = {}
for k = 1, #RARE do
  is_rare[RARE[k]] = true
end

local function load_rare(job)
  local hold, cursor, scan, outcome, start_at, events, since, cause, ending, failed, complete_by, late,
    stuck, epoch, started, parked, attention, acknowledged, next_try, waits_for
    = unpack(call('HMGET', job.key, unpack(RARE)))
  job.hold, job.outcome, job.start_at = hold or '', outcome or '', tonumber(start_at or '0')
  job.events, job.since, job.cause = events or '', tonumber(since or '1'), cause or ''
  job.ending, job.failed, job.complete_by = ending or '', failed or '', tonumber(complete_by or '0')
  job.late, job.started = (late or '') ~= '' and (tonumber(late) or 1) - 1, started == '1'
  job.parked, job.attention = tonumber(parked or '0') or 0, attention or ''
  job.acknowledged, job.waits_for = acknowledged == '1', waits_for or ''
  job.next_try, job.troubled = tonumber(next_try or '') or 0, match(job.attention, '^ended ') ~= nil
  if stuck then
    local to_do, to_undo = match(stuck, '^(%d+) (%d+)$')
    job.stuck_do, job.stuck_undo = tonumber(to_do), tonumber(to_undo)
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
    else -- it has migrated to fewer steps: the scan begins anew
      job.scan_changed = true
    end
  end
end

local STEPS_MAX = 10000
local MOST, MOST_TURNS = 2 ^ 53, 2 ^ 31
local PHASES = {PENDING = true, PROCESSING = true, PROCESSED = true, ERROR = true}

-- Reads a job. Return: nil if there is no such job. A job that cannot be read is corrupt (TORN):
-- load() raises an error that says why.
load = function(p, id, now, step_field, budget)
  local digest, desired, phase, turn, open, due, seq, n, bytes, busy, plain, step_text = unpack(call('HMGET',
    p .. 'job:' .. id, 'def', 'desired', 'phase', 'turn', 'open', 'due', 'seq', 'n', 'bytes', 'busy', 'plain',
    step_field))
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
  job.plain, job.bare = plain == '1' or plain == '2', plain == '2'
  if not job.plain then
    load_rare(job)
  end
  return job
end

end

-- Calls f(...), which works on one job of several. Return: true and what f returns; or false and
-- what is wrong if that job is corrupt: a person has edited it, or a bug has, and no call can read
-- it. Such a job must not stop the others. Any other error is raised again.
local function try_job(f, ...)
  local good, first, second = pcall(f, ...)
  local wrong = not good and (type(first) == 'table' and first.err or first)
  if wrong and type(first) == 'table' and not match(wrong, '^WRONGTYPE') and not match(wrong, '^ERR .-value is not')
    and not match(wrong, '^ERR .-would overflow') then
    error(first, 0)
  end
  return good, good and first or wrong, second
end

-- Adds to a counter. One that is no number, or gets below 0, begins again, at 0 or at what is
-- added.
local function count_up(key, field, by)
  local good, count = try_job(call, 'HINCRBY', key, field, by)
  if not good or count < 0 then
    count = max(by, 0)
    call('HSET', key, field, int(count))
  end
  return count
end

local function add_history(job, event, a, b, c, d)
  local seq, history = job.seq + 1, job.history
  local head = int(seq) .. ' ' .. int(job.now) .. ' ' .. event
  job.seq = seq
  history[#history + 1] = d and head .. ' ' .. a .. ' ' .. b .. ' ' .. c .. ' ' .. d
    or c and head .. ' ' .. a .. ' ' .. b .. ' ' .. c
    or b and head .. ' ' .. a .. ' ' .. b
    or a and head .. ' ' .. a
    or head
end

-- `expire` must look at this job at time t at the latest.
local function lower_due(job, t)
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

-- Whether requests may be sent for this job.
local function can_dispatch(job)
  return job.phase == 'PROCESSING' and job.hold == '' and job.ending == ''
end

-- Whether work of the cursor can be done now. While no request may be sent, walks that only send
-- stay: w and y, and t if the job is to end.
local function has_cursor_work(job)
  local work = job.spreads[1]
  return work and job.phase == 'PROCESSING'
    and (can_dispatch(job) or work.from ~= 'w' and work.from ~= 'y' and (work.from ~= 't' or job.ending == ''))
end

-- Sets job[name], and has save() write it.
local function set(job, name, value)
  job[name] = value
  job.changed[name] = type(value) == 'number' and int(value) or value
end

-- The deadline of a job (complete_by).
local deadline = {}

-- Records that the deadline has passed, and that it has bounded the forward work of the turns up to
-- this one. The store has the turn plus 1; builds before 46 stored 1, and bounded nothing.
function deadline.mark_passed(job, turn)
  job.late, job.changed.late = turn, int(turn + 1)
end

-- Whether the deadline has passed in the present direction of the job, and no person has let the
-- job go on since.
function deadline.has_passed(job)
  return job.late and job.late >= job.since and job.desired == 'A' and job.ending == ''
end

-- Counts the watermark of the partition up, for an accepted job or an ended turn, before a client
-- learns of it.
local function move_watermark(job)
  job.watermark = call('HINCRBY', job.p .. 'mark', 'count', 1)
end

-- Puts a notification about the last entry of the history into the outbox. It keeps how the job is
-- now, because the job may have gone on before a scheduler publishes the notification.
local function add_notification(job, outcome, reason, steps)
  call('HSET', job.p .. 'data:' .. job.id, 's' .. job.seq,
    concat({outcome, job.phase, int(job.turn), int(job.now), int(max(min(job.open, job.n), 0)), reason,
      match(steps, '^[%d ]*')}, ' '))
  call('ZADD', job.p .. 'owed', int(job.now + NAMED_AGAIN), job.id .. ' ' .. job.seq)
  count_up(job.key, 'owes', 1)
end

-- The class of the error that this call is about, as one word; the reason if no agent has reported
-- one.
local function class_of(job, reason)
  local class = job.class and job.class ~= '' and sub(job.class:gsub('[^%w_.-]', '_'), 1, 64) or reason
  return class
end

-- Sets what a person is needed for, as "step actor class".
local function set_attention_cause(job, i, asked, class)
  local step, actor = i and step_of(job.def, i).name or '', i and terms_of(job.def, i, asked).actor or ''
  job.trouble = (step == '' and '-' or step) .. ' ' .. (actor == '' and '-' or actor) .. ' ' .. class
end

local deciding = {} -- the failures that decide a job's direction, or its end
do -- a scope of its own: Lua allows 200 locals in one

-- The number (varint) that stands at `at` in a protobuf message, and where it ends; nil if none
-- does.
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

-- An encoded Error without its details, which may be long; '' if the text is no Error.
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

-- The failures that have decided forward and back, as the store keeps them; '' if none has.
local function decisions(job)
  return match(job.changed.failure or call('HGET', job.key, 'failure') or '', '^([^|]*)|?(.*)$')
end

local function set_decisions(job, forward, back)
  job.changed.failure = forward .. (back ~= '' and '|' .. back or '')
end

-- A failure decides that the job does not get to its desired state, forward (A) or back (D): the
-- failure of step i, or of no step if i is nil. The first failure in each direction counts. The job
-- keeps it as "name asked reason number class", with that of the direction back behind a bar; its
-- data keeps the error of the step.
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

-- The failure that has decided last, and its error; '' and '' if none has.
function deciding.last(job)
  local forward, back = decisions(job)
  if forward == '' and back == '' then
    return '', ''
  end
  local data = job.p .. 'data:' .. job.id
  return back ~= '' and back or forward, call('HGET', data, back ~= '' and 'failure_back' or 'failure') or ''
end

-- The job goes on: no failure has decided in its present direction; with `all`, in neither
-- direction.
function deciding.reset(job, all)
  local forward = decisions(job)
  set_decisions(job, not all and job.desired == 'D' and forward or '', '')
end

end

-- Adds an alert to the answer. i: a step, or NO_STEP; asked: A or D, which dispatch of the step it
-- is about.
local function alert(job, i, reason, asked)
  job.alerts[#job.alerts + 1] = {i = i, reason = reason, asked = asked or 'A', seq = job.seq}
end

-- Adds an alert about the last entry of the history, and puts it into the outbox, where it stays
-- until the broker has confirmed it. A job that was acknowledged needs attention again.
local function add_alert(job, i, reason, asked)
  if job.acknowledged then
    set(job, 'acknowledged', '')
    job.acknowledged = false
  end
  alert(job, i, reason, asked)
  add_notification(job, 'ALERT', reason, i == NO_STEP and '' or int(i) .. (asked == 'D' and ' 1' or ' 0'))
end

-- A change of the definition, or of the arguments of a step, that waits. What may have been done by
-- the present ones is undone first; meanwhile the job begins nothing forward. The data of the job
-- keeps the command, which is carried out when all is undone.
local change = {}

local settle
do

-- Whether an end needs a person: nobody has asked for it, and the workflow does not call it
-- ordinary.
local function is_trouble(job, outcome, reason)
  if outcome == 'COMPENSATED' and reason == 'FAILURE' then
    return match(call('HGET', job.def.key, 'job') or '', '^%u %d+ ([01]) ') ~= '1'
  end
  return outcome == 'FAILED' or outcome == 'COMPENSATION_FAILED'
end

-- Ends the turn, with its outcome and reason.
function settle(job, outcome, reason)
  change.drop(job)
  local there = outcome == 'SUCCEEDED' or outcome == 'COMPENSATED' and reason == 'REQUESTED'
  if outcome == 'FAILED' or outcome == 'COMPENSATION_FAILED' then
    -- None has decided yet if a person has retried another step since, see deciding.reset().
    deciding.failure(job, tonumber(match(job.failed, '^%d+')), outcome == 'FAILED' and 'A' or 'D', 'PERMANENT')
  end
  set(job, 'outcome', outcome)
  if reason ~= '' then
    set(job, 'reason', reason) -- else it is empty: it was never set, or reopen() has emptied it
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
    set_attention_cause(job, number, asked, class or reason)
    job.troubled = true
    add_history(job, 'attention', outcome)
    add_alert(job, number or NO_STEP, outcome, asked)
  end
  add_history(job, 'settled', outcome, reason)
  job.settled = job.seq
  move_watermark(job)
  add_notification(job, outcome, reason, job.failed)
  if outcome ~= 'SUCCEEDED' then -- for the event of this end: the job may turn before that is sent
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

-- A job that has ended goes on.
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

-- What the job needs a person for: parked; deadline (it is on hold, and its deadline has passed);
-- ended. '' for nothing.
local function need_of(job)
  if job.acknowledged then
    return ''
  elseif finished(job) then
    return job.troubled and 'ended' or ''
  end
  local waits = job.hold == 'deadline' or job.hold ~= '' and deadline.has_passed(job)
  return job.parked > 0 and 'parked' or waits and 'deadline' or ''
end

-- Updates the lists of jobs that need attention, and why this one does.
local function update_attention(job)
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
    update_attention(job)
  end
  if has_cursor_work(job) then
    lower_due(job, job.now + CONTINUED)
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
    job.bare = false -- complete_by may be one of them: requests must read it
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

---- transitions of steps and jobs ----

-- Moves a step to another state, and counts `busy` accordingly.
local function set_state(job, i, rec, state, till)
  local was, is = under_way(rec.state), under_way(state)
  if was ~= is then
    job.busy = job.busy + (is and 1 or -1)
  end
  rec.state, rec.till = state, till
  job.records[i] = rec
  if till > 0 then
    lower_due(job, till)
  end
end

-- How many neighbours of a step come before it, and after it, in the direction of the job. Before
-- it come its dependencies if the job goes forward, its dependents if it goes back.
local function n_before(job, step)
  return job.desired == 'A' and step.n_after or step.n_dependents
end

local function n_next(job, step)
  return job.desired == 'A' and step.n_dependents or step.n_after
end

-- A piece of the list of the neighbours after step i, and the offset at which the piece begins.
local function next_at(job, i, offset)
  if job.desired == 'A' then
    return dependents_at(job.def, i, offset)
  end
  local step = step_of(job.def, i)
  step.after = step.after or numbers(step.after_text)
  return step.after, 0
end

-- The record of step i, brought up to date. If all steps were counted anew since it was written,
-- what it waited for is replaced. If the job was turned since, the timer of the step is cancelled.
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

-- Whether the deadline bounds this dispatch. It does if it takes the job back or ends it: then
-- forward work gets no more time than is left until the deadline.
local function is_bounded(job, asked)
  if asked ~= 'A' or job.complete_by == 0 then
    return false
  end
  local def = job.def
  def.on_deadline = def.on_deadline or match(call('HGET', def.key, 'job') or '', '^%u') or 'P'
  return def.on_deadline ~= 'P'
end

-- How many ms forward work may still take; nil: nothing bounds it.
local function time_left(job, asked)
  return not job.late and is_bounded(job, asked) and job.complete_by - job.now or nil
end

-- How long a request may wait in its queue: twice as long after each dispatch in a row that no
-- agent is known to have begun.
local function wait_of(t, rec)
  local doubled = max(t.wait, min(t.wait * 2 ^ rec.unstarted, WAIT_CAP))
  -- Longer in any case: by that the scheduler sees that it is to watch the request.
  return rec.unstarted > 0 and max(t.wait + 1, doubled) or doubled
end

-- How long a request that is in flight may still wait.
local function wait_left(job, i, rec)
  local lease, left = terms_of(job.def, i, rec.asked).lock, time_left(job, rec.asked)
  if not left then
    return rec.till - job.now - lease
  end
  return min(rec.till - job.now - min(lease, left), left) -- it is not to be sent after the deadline
end

-- What the next dispatch of a step asks for, so that the step gets where the job wants it. An undo
-- that was sent is driven to its end first. A forward action of an earlier turn that may have taken
-- effect is undone first.
local function next_asked(job, rec)
  if job.desired == 'D' or rec.current == 'U' and (rec.asked == 'D' or rec.turn < job.since) then
    return 'D'
  end
  return 'A'
end

-- Whether a dispatch is another attempt of the work of the last one, under the same key.
local function another_try(job, rec, asked)
  return rec.asked == asked and (rec.turn == job.turn
    or rec.current == 'U' and (asked == 'D' or rec.turn >= job.since))
end

local make_token, token_id, is_others
do

-- For three hex digits the same twelve bits as two digits of base64url: a record is to stay below
-- 64 bytes.
local twins

local function make_twins()
  local digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
  twins = {}
  for i = 0, 4095 do
    local high, low = floor(i / 64) + 1, i % 64 + 1
    twins[format('%03x', i)] = sub(digits, high, high) .. sub(digits, low, low)
  end
end

-- The token of a dispatch of step i: "<step>.<22 digits>", 132 bits. `nonce` is 128 bits that only
-- the caller knows, so a token does not help to guess another one of the same call.
function make_token(i, nonce)
  if not twins then
    make_twins()
  end
  local hash = redis.sha1hex(nonce .. '.' .. int(i))
  return int(i) .. '.' .. (sub(hash, 1, 33):gsub('%x%x%x', twins))
end

-- Whether a job belongs to another user of the broker than `owner`. '' is a caller that may do this
-- to any job.
function is_others(p, id, owner)
  return (owner or '') ~= '' and call('HGET', p .. 'data:' .. id, 'submitter') ~= owner
end

-- Which dispatch of step i a token belongs to, for history and people: the step and a digest, which
-- no agent can answer with.
function token_id(i, token)
  return int(i) .. '.' .. sub(redis.sha1hex(token), 1, 8)
end

end

-- Dispatches a step: gives it a new token, and it is in flight. A forward action is not dispatched
-- once the deadline that bounds it has passed, nor while a change waits; then the step rests.
local function dispatch(job, i, rec, asked, nonce)
  local t, left = terms_of(job.def, i, asked), time_left(job, asked)
  if left and left <= 0 then
    set_state(job, i, rec, 'W', 0) -- the next drive sees the deadline, and turns or ends the job
    return
  elseif asked == 'A' and job.waits_for ~= '' then
    set_state(job, i, rec, 'W', 0)
    return
  end
  if not another_try(job, rec, asked) then
    -- an undo on the way forward belongs to the turn back before it
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
  rec.token = make_token(i, nonce)
  set_state(job, i, rec, 'R', job.now + wait + lease)
  job.dispatched[#job.dispatched + 1] = {i = i, rec = rec, wait = wait}
  add_history(job, 'dispatched', name, int(rec.attempt), token_id(i, rec.token), asked == 'D' and 'D' or nil)
end

-- Whether the walk t has passed step i. After a turn this walk counts each step that is where the
-- job wants it. A step that the walk has not reached is not dispatched, and does not count for
-- itself.
local function walk_has_passed(job, i)
  local k = 1
  while job.spreads[k] and job.spreads[k].from == 'l' do
    k = k + 1
  end
  local look = job.spreads[k]
  return not look or look.from ~= 't' or i < look.offset or i == look.offset and look.edge > 0
end

-- Passes over a step that is to be undone and has no revert. Return: whether it is such a step.
local function pass_over(job, i, rec)
  if next_asked(job, rec) == 'A' or step_of(job.def, i).has_revert then
    return false
  end
  rec.current = 'D'
  job.records[i] = rec
  add_history(job, 'skipped', i)
  return true
end

local function spread_from(job, i)
  if n_next(job, step_of(job.def, i)) > 0 then
    job.spreads[#job.spreads + 1] = {from = i, offset = 0, edge = 0}
  end
end

-- The step does not count as parked any more, see add_parked().
local function remove_parked(job, i)
  if job.parked > 0 and call('HGET', job.key, 'k' .. i) == int(job.since) then
    call('HDEL', job.key, 'k' .. i)
    set(job, 'parked', job.parked - 1)
  end
end

-- A step is where the job wants it: the steps after it have one less to wait for.
local function reach_desired(job, i)
  remove_parked(job, i)
  job.open = job.open - 1
  spread_from(job, i)
end

-- A step that waits for nothing is dispatched, or passed over.
local function begin(job, i, rec, nonce)
  if not can_dispatch(job) then
    return -- the walk after a hold looks at every step
  elseif pass_over(job, i, rec) and job.desired == 'D' then
    reach_desired(job, i)
  else
    dispatch(job, i, rec, next_asked(job, rec), nonce)
  end
end

-- A step has come to rest: its dispatch has ended, or its timer is cancelled.
local function come_to_rest(job, i, rec, nonce)
  job.records[i] = rec
  record_of(job, i)
  set_state(job, i, rec, 'W', 0)
  if not walk_has_passed(job, i) then
    return
  elseif rec.current == job.desired then
    reach_desired(job, i)
  elseif rec.waiting == 0 then
    begin(job, i, rec, nonce)
  end
end

-- Counts a step as parked. It counts until it has succeeded, or a person has it begin anew; also
-- while it is tried again. A step that was parked before the job was turned does not count. Return:
-- whether it did not count before.
local function add_parked(job, i)
  local since = int(job.since)
  if call('HGET', job.key, 'k' .. i) == since then
    return false
  end
  call('HSET', job.key, 'k' .. i, since)
  set(job, 'parked', job.parked + 1)
  return true
end

-- Parks a step. If it was parked before and got another attempt meanwhile, that is no new alert,
-- unless there will be no other attempt.
local function park(job, i, rec, reason, till)
  set_attention_cause(job, i, rec.asked, class_of(job, reason))
  local is_new = add_parked(job, i)
  set_state(job, i, rec, 'P', till)
  add_history(job, 'parked', i, reason)
  if is_new or till == 0 then
    add_alert(job, i, 'PARKED', rec.asked)
  end
end

-- Whether the job was accepted when its definition was stored by an earlier build, without a
-- silence interval and an interval between runs. Such a job stays as it was.
local function is_older_job(job)
  local renewed = tonumber(call('HGET', job.def.key, 'renewed') or '')
  return renewed and tonumber(call('HGET', job.key, 'created')) < renewed
end

-- When a step that was parked after expiries is tried again, by one dispatch: after its silence
-- interval. Each further expiry doubles the interval, up to a day or, if it is longer, the interval
-- itself. 0: never.
local function silence_ends(job, t, rec)
  if t.silence == 0 or is_older_job(job) then
    return 0
  end
  return job.now + min(t.silence * 2 ^ max(rec.expiries - t.expiries, 0), max(t.silence, DAY))
end

-- Why this work is not to be tried again, and when it is all the same, 0 for never; nil if it may
-- be tried.
local function used_up(job, i, rec)
  local t = terms_of(job.def, i, rec.asked)
  if rec.expiries >= t.expiries then
    return 'DEATHS', silence_ends(job, t, rec)
  elseif rec.failures >= t.attempts then
    return 'EXHAUSTED', t.park > 0 and job.now + t.park or 0
  end
end

-- Sets how many steps have failed for good: forward actions, undos.
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

-- The job goes forward, because a person has asked for it or as another run. Its deadline bounds
-- it, unless it has passed already.
local function apply_deadline(job)
  if job.desired == 'A' and job.complete_by > job.now then
    lower_due(job, job.complete_by)
  elseif job.desired == 'A' and job.complete_by > 0 then
    deadline.mark_passed(job, job.turn - 1) -- it has passed: it bounds nothing in this turn
  end
end

-- Has the walk t count every step anew, and dispatch each step that waits for nothing. Dispatches
-- in flight are left alone.
local function count_anew(job)
  set(job, 'epoch', job.turn)
  job.open = job.n
  job.spreads = {{from = 't', offset = 0, edge = 0}}
end

-- Turns the job. Dispatches in flight are left alone: they are answered, or expire.
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
  add_history(job, 'turned', desired, cause, ...)
  change.drop(job)
  if job.hold == 'deadline' then
    set(job, 'hold', '') -- the deadline bounds forward work only
  end
  apply_deadline(job)
  set_stuck(job, 0, 0)
  count_anew(job)
end

-- The job is to end FAILED, once nothing is in flight.
local function end_as_it_is(job, reason)
  set(job, 'ending', reason)
  add_history(job, 'ending', reason)
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

-- Adds a walk of this kind (w, y) over all steps, unless the last piece of the cursor is one that
-- has not begun.
local function add_walk(job, kind)
  local last = job.spreads[#job.spreads]
  if not last or last.from ~= kind or last.offset > 0 then
    job.spreads[#job.spreads + 1] = {from = kind, offset = 0, edge = 0}
  end
end

-- A step does not get where the job wants it by more attempts. As the policy says (recourse), parks
-- the step (P), turns the job (C), or ends it (F). An undo that is not parked has failed for good.
local function give_up(job, i, rec, recourse, reason, till)
  if recourse == 'P' then
    park(job, i, rec, reason, till)
    return
  end
  deciding.failure(job, i, rec.asked, reason)
  if rec.asked == 'D' then
    add_history(job, 'given_up', i, reason)
    add_failed(job, i, rec)
    if change.waits_for(job, i) then -- it cannot be carried out; what else the job has to do goes on
      change.drop(job, 'FAILED', i)
      add_walk(job, 'w')
    end
  elseif recourse == 'C' then
    set_state(job, i, rec, 'W', 0)
    turn(job, 'D', 'FAILURE', reason, i)
  else
    add_history(job, 'given_up', i, reason)
    add_failed(job, i, rec)
    end_as_it_is(job, reason)
  end
end

---- the cursor ----

-- The cursor is a list of work that did not fit into a call, "from:offset" or "from:offset:edge"
-- each. The work goes on at the offset. The edge is the place of the walk t among the neighbours of
-- a step that it has counted, plus one. What `from` means:
--   <number>  that step is where the job wants it: the steps after it have one less to wait for
--   r         the roots: the same, of the step before all roots
--   t         the job has turned, or was migrated: counts every step, and dispatches each that
--             waits for nothing
--   w         the job was on hold: dispatches each step that waits for nothing
--   y         Retry of all steps: the same, and parked and failed steps begin anew
--   l         the job is to end: cancels every timer

-- Does one piece of the list of the steps after `from`, which is where the job wants it. Return:
-- the offset at which to go on.
local function work_on_step(job, from, offset, nonce)
  local piece, first = next_at(job, from, offset)
  local count = min(#piece - (offset - first), job.budget.left)
  local list, fields, texts = {}, nil, nil
  for k = 1, count do
    list[k] = piece[offset - first + k]
  end
  prefetch(job.def, list)
  for k = 1, count do
    local i = list[k]
    -- In the first turn of a job only this piece of work can have touched a step with at most one
    -- dependency. Of roots that an earlier call has left, a person can have as well.
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
      if rec.waiting == 0 and rec.state == 'W' and walk_has_passed(job, i) then
        begin(job, i, rec, nonce)
      end
    end
  end
  job.budget.left = job.budget.left - count
  return offset + count
end

-- Goes through the steps after `from` until all are done or the budget is used up. Return: the
-- offset at which to go on, and whether all are done.
local function work_on(job, from, offset, nonce)
  local all = n_next(job, step_of(job.def, from))
  while offset < all and job.budget.left > 0 do
    offset = work_on_step(job, from, offset, nonce)
  end
  return offset, offset >= all
end

-- The next steps of a walk over all steps, with their records: as many as the budget allows.
-- Return: where they end, and the records.
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

-- The step begins anew. If no agent can have begun it, `unstarted` still says so: a migration may
-- change such a step.
local function reset_counts(rec)
  rec.failures, rec.expiries = 0, 0
  if rec.unstarted < rec.attempt then
    rec.unstarted = 0
  end
end

-- Whether a step waits for no other step, and was dispatched: it was parked or backing off when the
-- walk l cancelled its timer, or its last request came back while nothing was sent.
local function has_tried(job, rec)
  return rec.since == job.epoch and rec.waiting == 0 and rec.current ~= job.desired and rec.attempt > 0
end

-- Whether a Retry of all steps has this one begin anew. A parked step whose next attempt is due has
-- the state M; its counts show that it was parked. A step whose timer the walk l has cancelled was
-- parked or backing off: the record does not say which.
local function retry_applies(job, i, rec)
  if rec.state == 'P' or rec.state == 'F' then
    return true
  elseif rec.state == 'R' or rec.current == job.desired or rec.failures + rec.expiries == 0 then
    return false
  elseif rec.state == 'W' then
    return has_tried(job, rec)
  end
  return used_up(job, i, rec) ~= nil
end

-- Whether the walk of a Retry of all steps has yet to reach this step.
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

-- Counts a step in the walk t, and dispatches it if it waits for nothing. If its tries were used up
-- it begins anew, because the job has turned. Return: whether it is where the job wants it.
local function turn_step(job, i, rec, nonce)
  if rec.state ~= 'W' then
    return false
  elseif rec.failures + rec.expiries > 0 and another_try(job, rec, next_asked(job, rec)) and used_up(job, i, rec) then
    reset_counts(rec)
    job.records[i] = rec
  end
  if rec.current ~= job.desired and rec.waiting == 0 and can_dispatch(job) then
    if not (pass_over(job, i, rec) and job.desired == 'D') then
      dispatch(job, i, rec, next_asked(job, rec), nonce)
    end
  end
  return rec.state == 'W' and rec.current == job.desired
end

local function turn_piece(job, work, nonce)
  local last, texts = walk_ahead(job, work)
  while work.offset < last and job.budget.left > 0 do
    local i = work.offset
    if work.edge == 0 then
      job.budget.left = job.budget.left - 1
      if turn_step(job, i, record_of(job, i, texts[i]), nonce) then
        job.open, work.edge = job.open - 1, 1
      end
    end
    if work.edge > 0 then
      local offset, all = work_on(job, i, work.edge - 1, nonce)
      work.edge = offset + 1
      if not all then
        return false
      end
    end
    work.offset, work.edge = i + 1, 0
  end
  return work.offset == job.n
end

-- The walk has reached step `last`. Return: whether that was all.
local function walked(job, work, last)
  job.budget.left = job.budget.left - (last - work.offset)
  work.offset = last
  return last == job.n
end

local function walk_waiting(job, work, nonce)
  local last, texts = walk_ahead(job, work)
  for i = work.offset, last - 1 do
    local rec = record_of(job, i, texts[i])
    if work.from == 'y' and retry_applies(job, i, rec) then
      if rec.state == 'F' then
        remove_failed(job, i, rec)
      end
      remove_parked(job, i)
      reset_counts(rec)
      set_state(job, i, rec, 'W', 0)
    end
    local reason, till
    if rec.state == 'W' and has_tried(job, rec) and another_try(job, rec, next_asked(job, rec)) then
      reason, till = used_up(job, i, rec)
    end
    if reason then -- its timer was cancelled by the walk l
      park(job, i, rec, reason, till)
    elseif rec.state == 'W' and rec.current ~= job.desired and rec.waiting == 0 then
      begin(job, i, rec, nonce)
    elseif under_way(rec.state) and rec.till > 0 then
      lower_due(job, rec.till)
    end
  end
  return walked(job, work, last)
end

local function cancel_timers(job, work)
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

-- Does the work of the cursor until none is left or the budget is used up. While the job is on hold
-- nothing is sent.
local function work_off(job, nonce)
  while job.budget.left > 0 and has_cursor_work(job) do
    local work, done = job.spreads[1], nil
    if work.from == 't' then
      done = turn_piece(job, work, nonce)
    elseif work.from == 'w' or work.from == 'y' then
      done = walk_waiting(job, work, nonce)
    elseif work.from == 'l' then
      done = cancel_timers(job, work)
    else
      work.offset, done = work_on(job, work.from, work.offset, nonce)
    end
    if done then
      table.remove(job.spreads, 1)
    end
  end
end

function drive(job, nonce)
  work_off(job, nonce)
  if job.waits_for ~= '' and job.ending == '' and change.is_due(job) then
    change.carry_out(job, nonce)
    add_walk(job, 'w')
    work_off(job, nonce)
  end
end

end

---- driving a job ----

local may_try_again
do

-- When a job that was taken back goes forward again. Between two runs is a wait, which grows with
-- each run.
local function next_try_at(job, tried)
  local interval, coefficient = match(call('HGET', job.def.key, 'job'), '^%u %d+ [01] (%d+) (%S+) ')
  if not interval or interval == '0' or is_older_job(job) then
    return job.now
  end
  local latest = job.now + floor(min(tonumber(interval) * tonumber(coefficient) ^ (tried - 1), DAY))
  -- A later time than that dates from before the clock stepped back.
  return job.next_try > 0 and min(job.next_try, latest) or latest
end

-- When the next run of the whole job begins, and how many runs there were; false: that was the last
-- one.
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

-- Drives a job, and ends its turn if nothing is left to do.
local function go_on(job, nonce)
  drive(job, nonce)
  if finished(job) or job.phase == 'PENDING' then
    return
  end
  local idle = job.busy == 0 and not has_cursor_work(job)
  if job.open == 0 then
    job.spreads = {} -- no step waits for another any more
    if job.desired == 'A' then
      settle(job, 'SUCCEEDED', '')
      return
    end
    local at, tried = may_try_again(job)
    if job.cause == 'FAILURE' and at then
      if job.hold == '' and at > job.now then
        set(job, 'next_try', at)
        lower_due(job, at)
      elseif job.hold == '' then
        try_again(job, tried)
        go_on(job, nonce)
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

local put_transition
do

local NONE = {} -- always empty

local function tells_steps(job)
  return job.events == 'step' and ' 1 ' or #job.history > 0 and ' 2 ' or ' 0 '
end

-- Fields of a job's data; false for each that is absent.
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

-- Appends the requests of this call: the record of each, and the data once for all of them. For an
-- undo the results include that of its forward action.
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
  local input, labels, traceparent, complete_by = unpack(values, 1, before)
  local n = #out
  out[n + 1] = input or ''
  if job.bare then
    out[n + 2] = '0 0 ' .. int(#results)
  else
    out[n + 2], out[n + 3] = '1 ' .. (complete_by or '0') .. ' ' .. int(#results), labels or ''
    out[n + 4] = traceparent or ''
    n = n + 2
  end
  for k = 1, #results do
    out[n + 1 + 2 * k], out[n + 2 + 2 * k] = int(results[k]), values[before + k] or ''
  end
end

-- Appends <transition> to an answer. Those of one word share a value: one more value costs Redis,
-- and the scheduler that reads it, more than a longer one. settled, watermark: seq of the end of a
-- turn, and the watermark; 0 for none. step_events: 1 if the job has events `step`, 2 if
-- step_events() may have entries to read. <data> is what all requests carry.
function put_transition(out, code, job)
  local n = #out
  out[n + 1], out[n + 2] = code, job.def.digest
  out[n + 3] = int(job.now) .. ' ' .. int(job.seq) .. ' ' .. int(job.settled) .. (has_cursor_work(job) and ' 1' or ' 0')
    .. (job.events == '' and ' 0 ' or tells_steps(job)) .. int(job.open) .. ' ' .. int(job.n) .. ' ' .. int(job.watermark) .. ' '
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

-- `expire` records what the store's clock shows, so that a supervisor that has just started knows
-- of a jump, too.
--   Ahead: a supervisor that has watched the clock says by how much it jumped. Leases given before
--          the jump last longer by that, because their time has not passed. A supervisor that has
--          just started, and finds that `expire` was not called for longer than a default lease,
--          cannot tell whether the clock jumped. In both cases nothing expires for a while
--          (`quiet`).
--   Back:  times recorded before lie too far ahead until a sweep has derived all of them again. The
--          store counts steps back, and how many of them a completed sweep has followed (`swept`).

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

-- The calling supervisor has watched the clock since the time `since`; 0: not at all. The last jump
-- ahead that it has seen was `jump` ms, not before `after` and not after `at`; 0: none. A jump that
-- the partition knows already changes nothing.
local function watch_clock(p, now, since, jump, after, at)
  local clock = read_clock(p)
  local seen, changed = clock.seen or now, not clock.seen
  if now < seen - CLOCK_STEP then
    clock.back, clock.quiet, clock.jumped, clock.by, changed = clock.back + 1, 0, 0, 0, true
  elseif jump > 0 and at <= now and (clock.by == 0 or clock.quiet < after + QUIET) then
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

-- Whether nothing may be done now because of the time alone: the clock has jumped lately, or
-- `expire` was not called lately.
local function is_quiet(p, now)
  local clock = read_clock(p)
  return now < clock.quiet or now > (clock.seen or now) + QUIET
end

-- When a lease of `given` ms that was to end at `till` ends: later if the clock has jumped
-- meanwhile.
local function lease_end(clock, till, given)
  return till - given < clock.jumped and till + clock.by or till
end

---- define and submit ----

-- define -> code
-- Stores a definition, of `total` steps. DEFINED. A large one comes in pieces, one for each call;
-- MORE until the piece with last = 1 is there, from when on it can be used. With registered = 1 it
-- can be found by name and version. CONFLICT: another definition is registered under the same name
-- and version. The same call again changes nothing, except that a definition that a build before 42
-- has stored gets the names of its steps and their actors. The field `named` is 2 if the definition
-- has both, 0 if a scheduler older than build 42 has stored it by this library; else an earlier
-- library has stored it.
function functions.define(p, digest, name, version, total, blob, last, registered, list, first)
  local now = now_ms()
  local key = p .. 'def:' .. digest
  local full = name .. '@' .. version
  if registered == '1' then
    local taken = call('HGET', p .. 'workflows', full)
    if taken and taken ~= digest then
      return {'CONFLICT'}
    end
  end
  local ready, named = unpack(call('HMGET', key, 'ready', 'named'))
  if ready ~= FORMAT or named ~= '2' then
    local refs = call('HGET', key, 'refs')
    local values = {'n', total}
    if ready and ready < '3' then
      put(values, 'renewed', int(now))
    end
    if blob ~= '' then
      put(values, 'name', name ~= '' and full or '', 'blob', blob)
    end
    for k = first, #list do
      values[#values + 1] = list[k]
    end
    for from = 1, #values, 2000 do
      call('HSET', key, unpack(values, from, min(from + 1999, #values)))
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

-- The digest of the definition that a Submit names by digest, "name" or "name@version".
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

-- Requests in flight are sent again with their present tokens. The message that has caused this
-- call was redelivered: the scheduler that had it first may have died before it published them.
local function resend(job, list)
  if #list == 0 or not can_dispatch(job) then
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

-- The same for all steps that an earlier call for the same message may have dispatched. These are
-- the steps after i; or all steps, if the job has turned, as long as they fit the budget.
-- LockedUntil recovers the others.
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

-- "4:a=bc7:site=hh" -> {"a=bc", "site=hh"}: labels, addresses, words of a command.
local function texts_of(text)
  local list, at = {}, 1
  while at <= #text do
    local len, start = match(text, '^(%d+):()', at)
    if not len then
      break -- damaged: the job must still be forgotten
    end
    at = start + tonumber(len)
    list[#list + 1] = sub(text, start, at - 1)
  end
  return list
end

-- The indexes for people that hold a job.
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

-- Whether the jobs of a user would take more than `bytes` of this partition; 0: no limit.
local function over_bytes(p, owner, cost, bytes)
  return bytes > 0 and (tonumber(call('HGET', p .. 'users', owner) or '0') or 0) + cost > bytes
end

do

-- Sets where the event of the end goes: to the address of the last Submit. `earlier` keeps reply_to
-- and correlation of those before, the newest first.
local function set_address(data, reply_to, correlation)
  local last_to, last_correlation, known = unpack(call('HMGET', data, 'reply_to', 'correlation', 'earlier'))
  last_to, last_correlation = last_to or '', last_correlation or ''
  if last_to == reply_to and last_correlation == correlation then
    return
  end
  local addresses, earlier = {last_to, last_correlation, unpack(texts_of(known or ''))}, {}
  for k = 1, #addresses - 1, 2 do
    local to, its_correlation = addresses[k], addresses[k + 1]
    local same = to == reply_to and its_correlation == correlation
    if to ~= '' and not same and #earlier < EARLIER_KEPT then
      earlier[#earlier + 1] = #to .. ':' .. to .. #its_correlation .. ':' .. its_correlation
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
  put_transition(out, 'ALREADY', job)
  return out
end

local function put_if_set(data, name, value)
  if value ~= '' then
    local n = #data
    data[n + 1], data[n + 2] = name, value
  end
end

-- Writes the data of a new job: where its event goes, the labels for the indexes, and what else the
-- Submit says.
local function write_data(job, full_name, complete_by, reply_to, correlation, labels, list, first)
  local data = {}
  put_if_set(data, 'reply_to', reply_to)
  put_if_set(data, 'correlation', correlation)
  put_if_set(data, 'complete_by', complete_by ~= '0' and complete_by or '')
  put_if_set(data, 'workflow', full_name)
  put_if_set(data, 'index', labels)
  for _, name, text in each.field(list, first) do
    put_if_set(data, name, text)
    if text ~= '' then
      job.changed.bytes = name == 'input' and int(#text) or job.changed.bytes
      if name == 'labels' or name == 'traceparent' then
        job.changed.plain, job.bare = '1', false
      end
    end
  end
  if #data > 0 then
    call('HSET', job.p .. 'data:' .. job.id, unpack(data))
  end
end

-- Adds a new job to the indexes, and to the users of its definition.
local function index_job(job, full_name, labels)
  local p, now = job.p, int(job.now)
  if call('HINCRBY', job.def.key, 'refs', 1) == 1 then
    call('ZREM', p .. 'defs', job.def.digest)
  end
  call('ZADD', p .. 'open', now, job.id)
  for _, key in ipairs(index_keys(p, full_name, labels)) do
    call('ZADD', key, now, job.id)
  end
end

-- Has save() write the fields of a new job that stay as they are, and those that only change later.
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

-- Whether a definition that a Submit carries has the name of a registered workflow, and is not what
-- is registered as that version.
local function takes_a_name(p, digest, full_name)
  local name = match(full_name or '', '^[^@]+')
  return name and call('HGET', p .. 'workflows', name) and call('HGET', p .. 'workflows', full_name) ~= digest
end

local JOB_BYTES = 2500           -- of a job, without its steps, labels and the texts of its Submit
local STEP_BYTES = 250           -- of a step, with its history and a small result
local LABEL_BYTES = 250          -- of the index of a label that no other job has

-- About how many bytes of the store a job of n steps takes. The texts of its Submit count once, its
-- labels three times.
local function cost_of(n, reply_to, correlation, labels, list, first)
  local cost = JOB_BYTES + n * STEP_BYTES + #texts_of(labels) * LABEL_BYTES + 2 * #labels
    + #reply_to + #correlation
  for _, name, text in each.field(list, first) do
    cost = cost + #text
  end
  return cost
end

-- Whether a user has as many jobs in this partition as it may; 0: no limit.
local function has_enough(p, owner, jobs)
  return jobs > 0 and call('ZCARD', p .. 'l:=' .. owner) >= jobs
end

-- submit -> <transition>
-- Records a job, and dispatches its roots unless it starts later. digest: of the content of the
-- Submit. definition: the digest of the definition that it brings, or '' and the name of a
-- workflow. by: the calling scheduler. labels: for the indexes. field: of the job's data. horizon:
-- in how many ms a job must start at the latest. jobs, bytes: how many jobs the owner may have in
-- this partition, and how many bytes, as cost_of() counts them. 0: no limit. CREATED. ALREADY: the
-- job is known, and `digest` and owner are the same; nothing changes but the address of the client,
-- and with redelivered = 1 the answer has the requests that are in flight. CONFLICT: the job is
-- known, with another content or owner. Nothing is recorded if the answer is EXPIRED (complete_by
-- has passed), TOO_FAR (start_at is beyond the horizon), TOO_MANY (the owner has reached a limit),
-- UNKNOWN_WORKFLOW, UNKNOWN_DEFINITION (it is not stored, or not in this format), or NAME_TAKEN
-- (the definition has the name of a registered workflow).
function functions.submit(p, job_id, digest, definition, workflow, redelivered, nonce, by, desired,
    start_at, complete_by, events, priority, reply_to, correlation, labels, owner, horizon, jobs,
    bytes, list, first)
  local now, out = now_ms(), {}
  if call('EXISTS', p .. 'job:' .. job_id) == 1 then
    local job = load(p, job_id, now, '0')
    return submit_again(p, job, digest, redelivered, reply_to, correlation, owner)
  elseif complete_by ~= '0' and tonumber(complete_by) <= now and not is_quiet(p, now) then
    put_code(out, 'EXPIRED', now)
    return out
  end
  start_at, owner, horizon = tonumber(start_at), owner or '', tonumber(horizon or '0')
  if horizon > 0 and start_at > now + horizon then
    put_code(out, 'TOO_FAR', now)
    return out
  elseif owner ~= '' and has_enough(p, owner, tonumber(jobs)) then
    put_code(out, 'TOO_MANY', now)
    return out
  end
  local found = find_definition(p, definition, workflow)
  if not found then
    put_code(out, 'UNKNOWN_WORKFLOW', now)
    return out
  end
  local def = definition_of(p, found)
  local ready, n, full_name, terms_of_job, named = unpack(call('HMGET', def.key, 'ready', 'n', 'name', 'job',
    'named'))
  -- The scheduler has the definition, and stores it again.
  if ready ~= FORMAT or definition ~= '' and named ~= '2' and named ~= '0' then
    put_code(out, 'UNKNOWN_DEFINITION', now)
    return out
  elseif definition ~= '' and takes_a_name(p, definition, full_name) then
    put_code(out, 'NAME_TAKEN', now)
    return out
  end
  n, full_name = tonumber(n), full_name or ''
  local cost = owner ~= '' and cost_of(n, reply_to, correlation, labels, list, first) or 0
  if owner ~= '' and over_bytes(p, owner, cost, tonumber(bytes)) then
    put_code(out, 'TOO_MANY', now)
    return out
  end
  local later, within = start_at > now, match(terms_of_job, '(%d+)$')
  if complete_by == '0' and within ~= '0' then
    complete_by = int(max(now, start_at) + tonumber(within))
  end
  local job = job_new(p, job_id, now, def, n)
  job.desired, job.start_at, job.events = desired, start_at, events ~= 'job' and events or ''
  job.complete_by = tonumber(complete_by)
  if later then
    job.phase, job.due = 'PENDING', start_at
  end
  index_job(job, full_name, labels)
  if owner ~= '' then
    job.changed.cost = int(cost)
    call('HINCRBY', p .. 'users', owner, int(cost))
  end
  write_first(job, digest, priority, complete_by)
  write_data(job, full_name, complete_by, reply_to, correlation, labels, list, first)
  add_history(job, 'created', found, by)
  move_watermark(job)
  if desired ~= 'A' then
    job.open = 0
    settle(job, 'COMPENSATED', 'REQUESTED')
  elseif not later then
    job.spreads[1] = {from = 'r', offset = 0, edge = 0}
    go_on(job, nonce)
  end
  save(job, not later and by or nil)
  put_transition(out, 'CREATED', job)
  return out
end

end

---- record ----

-- The backoff after the n-th failure: initial × coefficient^(n-1), at most the longest, plus
-- jitter.
local function backoff(t, failures, fraction)
  local wait = min(t.initial * t.coefficient ^ (max(failures, 1) - 1), t.longest)
  return floor(wait * (1 + t.jitter * fraction))
end

local function back_off(job, i, rec, wait)
  set_state(job, i, rec, 'B', job.now + floor(wait))
end

-- Whether the work of a dispatch that has ended is not to be tried again: the job is to end, or
-- does not want this forward action any more. An undo is driven to its end in either direction.
local function overtaken(job, rec)
  return job.ending ~= '' or rec.asked == 'A' and (job.desired == 'D' or rec.turn < job.since)
end

-- The Progress of a dispatch as the store keeps it, "token limit fraction note", or nil; and
-- whether a scheduler has seen that its request left its queue. The limit is the LockedUntil that
-- the dispatch set.
local function progress_of(p, id, i, token)
  local progress, was_taken = unpack(call('HMGET', p .. 'data:' .. id, 'p' .. i, 't' .. i))
  return progress and sub(progress, 1, #token + 1) == token .. ' ' and progress, was_taken == token
end

-- Puts a value into the data of the job, in place of one that an earlier turn has left there, and
-- counts its bytes. '' deletes.
local function set_data(job, field, value)
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

do -- a scope of its own: Lua allows 200 locals in one

local function on_success(job, i, rec, op)
  rec.current, rec.unstarted = rec.asked, 0
  local name = int(i)
  set_data(job, 'r' .. name, rec.asked == 'A' and op.result or '')
  remove_parked(job, i) -- also by an undo on the way forward
  add_history(job, rec.asked == 'A' and 'done' or 'undone', name, int(rec.attempt), token_id(i, rec.token), op.agent)
  come_to_rest(job, i, rec, op.nonce)
end

-- Whether an agent may have begun a request that came back. It may, if no agent took the request in
-- time (N): an agent that had it may have died, and the broker offered it again for the rest of its
-- wait. It may, if the request could not be sent in time (S): another scheduler may have sent it.
-- If no queue took it (X), or it is too large (L), no agent has begun it, unless it was sent once
-- more.
local function maybe_begun(job, i, rec, op)
  return op.kind ~= 'X' and op.kind ~= 'L'
    or call('HGET', job.p .. 'data:' .. job.id, 'c' .. i) == rec.token
end

local function on_failure(job, i, rec, op)
  job.class = op.error_class -- of the step that this call may give up
  local step, t = step_of(job.def, i), terms_of(job.def, i, rec.asked)
  if not maybe_begun(job, i, rec, op) then -- its current state stays
    rec.unstarted = rec.unstarted + 1
  else
    local proven = op.effect == 'N' and rec.asked == 'A' and step.waived
    rec.current, rec.unstarted = proven and 'D' or 'U', 0
  end
  call('HSET', job.p .. 'data:' .. job.id, 'e' .. i, op.error)
  if rec.expiries >= t.expiries then
    rec.expiries = 0 -- an agent has answered: expiries are counted anew
  end
  if op.kind == 'F' then
    add_history(job, 'deferred', i, rec.attempt, token_id(i, rec.token), op.agent)
  else
    rec.failures = rec.failures + 1
    add_history(job, 'failed', i, rec.attempt, token_id(i, rec.token), op.agent)
  end
  -- The second: an undo that was not sent, and the job wants the step as it is.
  if overtaken(job, rec) or rec.current == job.desired then
    come_to_rest(job, i, rec, op.nonce)
  elseif op.kind == 'F' and rec.attempt == 1 and can_dispatch(job) and op.retry_after > 0
    and op.retry_after < AT_ONCE then
    -- By this call: a timer is not as fine. Only once, or this could go on for ever.
    dispatch(job, i, rec, rec.asked, op.nonce)
  elseif op.kind == 'F' then
    local wait = op.retry_after > 0 and op.retry_after or t.initial
    back_off(job, i, rec, wait * (1 + t.jitter * op.fraction))
  elseif op.kind == 'P' or op.kind == 'L' or t.non_retryable[op.error_class] then
    give_up(job, i, rec, t.on_permanent, 'PERMANENT', 0)
  elseif rec.failures >= t.attempts then
    give_up(job, i, rec, t.on_exhausted, 'EXHAUSTED', t.park > 0 and job.now + t.park or 0)
  else
    back_off(job, i, rec, max(backoff(t, rec.failures, op.fraction), op.retry_after))
  end
end

-- Kinds of records for requests that came back or were not sent.
local UNSTARTED = {N = true, J = true, S = true, X = true, K = true}

-- Whether a request is back before its wait was over: the broker or an agent has discarded it, and
-- would discard it again at once. If the deadline may have cut the wait or the lease of this
-- dispatch, the store does not know by how much, and takes the request for discarded.
local function is_thrown_back(job, i, rec, t)
  local wait = wait_of(t, {unstarted = rec.unstarted - 1})
  if time_left(job, rec.asked) and job.complete_by - (rec.till - wait - t.lock) >= max(wait, t.lock) then
    return rec.till - t.lock - job.now > WAIT_SLACK
  end
  return wait_left(job, i, rec) > WAIT_SLACK
end

-- A request came back: no agent took it in time, or no queue did. Nothing is counted. If no agent
-- can have begun it the step is as it was before.
local function on_unstarted(job, i, rec, op)
  local t = terms_of(job.def, i, rec.asked)
  rec.unstarted = rec.unstarted + 1
  local begun = maybe_begun(job, i, rec, op)
  add_history(job, begun and 'unstarted' or 'unroutable', i, rec.attempt, token_id(i, rec.token))
  if op.kind ~= 'S' then
    alert(job, i, op.kind == 'N' and 'NO_AGENT' or op.kind == 'J' and 'REJECTED' or 'UNROUTABLE', rec.asked)
  end
  -- A request that no agent got does not use up the dispatch after a silence interval.
  rec.token = rec.expiries >= t.expiries and SILENCE_OVER or '-'
  if begun then
    rec.current = 'U'
  end
  if op.kind == 'J' then
    call('HSET', job.key, 'b' .. i, '1')
  end
  local thrown = op.kind == 'J' or begun and is_thrown_back(job, i, rec, t)
  if not can_dispatch(job) or rec.current == job.desired or next_asked(job, rec) ~= rec.asked then
    come_to_rest(job, i, rec, op.nonce)
  elseif begun and not thrown then
    dispatch(job, i, rec, rec.asked, op.nonce)
  else
    local wait = min(t.initial * 2 ^ (rec.unstarted - 1), WAIT_CAP)
    back_off(job, i, rec, wait * (1 + t.jitter * op.fraction))
  end
end

-- Keeps what came too late to be recorded: how often, and the last one.
local function keep_late(job, i, op)
  local field, data = 'l' .. i, job.p .. 'data:' .. job.id
  local count = tonumber(match(call('HGET', data, field) or '', '^%d+') or '0')
  call('HSET', data, field, concat({int(count + 1), int(job.now), op.kind, token_id(i, op.token), op.error_class}, ' '))
end

-- Whether this token belonged to the first attempt of a step, and its deferral had the same call
-- dispatch the second one.
local function was_deferred(job, i, token)
  local words = ' deferred ' .. int(i) .. ' 1 ' .. token_id(i, token)
  for _, entry in ipairs(call('LRANGE', job.p .. 'hist:' .. job.id, -HISTORY_MIN, -1)) do
    if entry:find(words, 1, true) then
      return true
    end
  end
  return false
end

-- Withdraws a request that has not left the scheduler: no agent can have begun it.
local function withdraw_unsent(job, i, rec, nonce)
  add_history(job, 'unsent', i, rec.attempt, token_id(i, rec.token))
  rec.unstarted, rec.token = rec.unstarted + 1, '-'
  come_to_rest(job, i, rec, nonce)
end

-- unsent -> <transition>
-- Asks whether requests that were not sent are still wanted, and withdraws the others. The requests
-- of these tokens have waited in the scheduler for more than a second: the broker read nothing, or
-- too many publishes were unconfirmed. The answer has the requests that are still wanted; the
-- scheduler sends them. The others are withdrawn. A request that was sent once more is never
-- withdrawn, because another copy may be in a queue; LockedUntil decides. number: ascending in the
-- calls of a scheduler. A call on a connection that was given up may be carried out late, after the
-- call that repeats it was answered. By its number such a call withdraws nothing that was found to
-- be wanted since. DRIVEN; UNCHANGED: the job has ended; UNKNOWN_JOB. A token that is not in flight
-- is ignored.
function functions.unsent(p, job_id, nonce, by, number, list, first)
  local now, out = now_ms(), {}
  local job = load(p, job_id, now, '0')
  if not job or finished(job) then
    put_code(out, job and 'UNCHANGED' or 'UNKNOWN_JOB', now)
    return out
  end
  for k = first, #list do
    local token = list[k]
    local i = tonumber(match(token, '^(%d+)%.[%w_-]+$'))
    local text = i and i < job.n and call('HGET', job.key, int(i))
    local rec = text and record_of(job, i, text)
    if rec and rec.state == 'R' and rec.token == token then
      local copied, asked = unpack(call('HMGET', p .. 'data:' .. job.id, 'c' .. i, 'u' .. i))
      copied = copied == token
      local asked_for, asked_by = match(asked or '', '^(%S+) (%d+)$')
      local late = asked_for == token and tonumber(asked_by) >= tonumber(number)
      local wait = wait_left(job, i, rec)
      if can_dispatch(job) and not overtaken(job, rec) and wait > 0 then
        job.dispatched[#job.dispatched + 1] = {i = i, rec = rec, wait = wait, again = copied}
        call('HSET', p .. 'data:' .. job.id, 'u' .. i, token .. ' ' .. (late and asked_by or number))
      elseif not copied and not late then
        withdraw_unsent(job, i, rec, nonce)
      end
    end
  end
  go_on(job, nonce)
  save(job, by)
  put_transition(out, 'DRIVEN', job)
  return out
end

local function record_one(p, now, by, op, budget, out)
  local i = num(match(op.token, '^(%d+)%.[%w_-]+$'))
  local job = i and load(p, op.job_id, now, int(i), budget)
  if not i then
    put_code(out, call('EXISTS', p .. 'job:' .. op.job_id) == 1 and 'STALE' or 'UNKNOWN_JOB', now)
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
    -- The first: this very call was made before, and its answer was lost.
    if op.redelivered == '1' and (rec.token == make_token(i, op.nonce)
      or op.kind == 'F' and op.retry_after > 0 and op.retry_after < AT_ONCE and rec.state == 'R' and rec.attempt == 2
      and was_deferred(job, i, op.token)) then
      resend(job, {i})
      put_transition(out, 'ALREADY', job)
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
    put_transition(out, 'ALREADY', job)
    return
  end
  if op.step ~= '' and is_other_step(job.def, i, op.step) then
    alert(job, i, 'OTHER_STEP', rec.asked) -- the agent has mixed two requests up
    put_transition(out, 'OTHER_STEP', job)
    return
  end
  if is_other_actor(job, i, rec, op.actor) then
    alert(job, i, 'OTHER_ACTOR', rec.asked)
    put_transition(out, 'OTHER_ACTOR', job)
    return
  end
  if rec.asked == 'A' and job.bytes + #op.result > DATA_MAX then
    put_code(out, 'DATA_FULL', now)
    return
  end
  if (op.kind == 'N' or op.kind == 'J') and progress_of(p, op.job_id, i, rec.token) then
    put_code(out, 'BEGUN', now) -- the agent has died or lost its connection: LockedUntil decides
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
    alert(job, i, 'SERVED', asked) -- the actor has agents again: the next outage is a new cause
  end
  go_on(job, op.nonce)
  save(job, by)
  put_transition(out, 'RECORDED', job)
end

-- record -> <transition>...
-- Records reports: replies, and requests that came back. The answer has a transition for each of
-- them, in the same order. by: the calling scheduler.
-- kind     A(CTIVE), D(ISABLED): the step got to that state
--          T(RANSIENT), P(ERMANENT): it failed   F: the agent deferred it (DEFERRED)
--          N: the request came back, no agent took it in time (UNSTARTED)
--          S: the scheduler could not send it in time (UNSENT)
--          J: an agent rejected it, or a limit of its queue removed it (REJECTED)
--          X: no queue took it (UNROUTABLE)   K: the broker refused it (REFUSED)
--          L: it is too large to be sent (UNSENDABLE), a permanent failure
-- fraction of the jitter, in millionths
-- effect   N: proven that no run under this key has taken effect, or ever will
-- step     the name that the reply gives; '' for none
-- actor    whose agents have sent the reply, as the broker says; '' if it does not
-- agent    the name that the agent gives itself; '' for none
-- RECORDED. ALREADY: it was recorded before; with redelivered = 1 the answer has the requests that
-- followed it and are in flight. STALE: its token is not valid any more. UNKNOWN_JOB. In these
-- cases nothing is recorded: DATA_FULL (the job has no room for the result), BEGUN (a request came
-- back that an agent had begun), OTHER_STEP (the reply names another step than its token),
-- OTHER_ACTOR (the reply came from the agents of another actor).
function functions.record(p, by, list, first)
  local now, out, budget = now_ms(), {}, {left = BUDGET}
  for _, report in each.report(list, first) do
    report.fraction, report.retry_after = tonumber(report.fraction) / 1000000, num(report.retry_after)
    if report.agent == '' then
      report.agent = nil
    end
    record_one(p, now, by, report, budget, out)
  end
  return out
end

end

---- renew ----

do

-- The record of the step whose token is in flight, its number and its job; or nil and the code of
-- the answer.
local function in_flight(p, now, id, token)
  local i = tonumber(match(token, '^(%d+)%.[%w_-]+$'))
  local job = i and load(p, id, now, int(i))
  local rec = job and job.step_text and parse_record(job.step_text)
  if not rec or rec.token ~= token or rec.state ~= 'R' then
    return nil, job and 'STALE' or 'UNKNOWN_JOB'
  end
  return rec, i, job
end

-- renew -> <renewed>
-- Records a Progress: an agent works on the request, and has had it for `elapsed` ms (0: it does
-- not say). LockedUntil becomes `lock` ms from when the agent received it; if the step has
-- heartbeats, three of them from now at the latest, so that the death of the agent shows early. It
-- never becomes later than the dispatch has set it. Nor does a further Progress make it earlier:
-- the broker may have given the request to another agent after the first one died, and that has a
-- lease of its own.
-- fraction: "fraction" or "fraction@agent". wanted: 0 if the agent is to stop. begins: 1 if it is
-- the first Progress of this dispatch, and step_events() has that to read.
-- RENEWED. Without `begins`: STALE (the token is not in flight; or the lease was over before the
-- first Progress), UNKNOWN_JOB, OTHER_ACTOR (the Progress came from the agents of another actor).
-- The same call again changes at most LockedUntil.
function functions.renew(p, job_id, token, fraction, note, elapsed, actor)
  local now = now_ms()
  local rec, i, job = in_flight(p, now, job_id, token)
  if not rec or is_other_actor(job, i, rec, actor) then
    return {rec and 'OTHER_ACTOR' or i, '0', '0', int(now)}
  end
  local known = progress_of(p, job_id, i, token)
  local limit = known and tonumber(match(known, '^%S+ (%d+)')) or rec.till
  local t = terms_of(job.def, i, rec.asked)
  elapsed = tonumber(elapsed)
  if not known and elapsed >= t.lock then
    return {'STALE', '0', '0', int(now)} -- its lease was over before its first Progress came
  end
  local lease = now + t.lock - min(elapsed, t.lock)
  if t.heartbeat > 0 then
    lease = min(lease, now + 3 * t.heartbeat)
  end
  if known then
    lease = max(lease, rec.till) -- a late Progress takes nothing from another agent
  end
  call('HSET', p .. 'data:' .. job_id, 'p' .. i, format('%s %.0f %s %s', token, limit, fraction, note))
  set_state(job, i, rec, 'R', min(limit, lease))
  local begins = not known and job.events == 'reply'
  if begins then
    add_history(job, 'began', i, rec.attempt, token_id(i, token), match(fraction, '@(%S+)$'))
  end
  save(job)
  local left = time_left(job, rec.asked)
  local wanted = not finished(job) and not overtaken(job, rec) and not (left and left <= 0)
  return {'RENEWED', wanted and '1' or '0', int(rec.till), int(now), begins and '1' or '0'}
end

-- taken -> code
-- Records as evidence that a scheduler has seen the request leave its queue while it could be
-- delivered. TAKEN; STALE: the token is not in flight; UNKNOWN_JOB.
function functions.taken(p, job_id, token)
  local rec, i = in_flight(p, now_ms(), job_id, token)
  if not rec then
    return {i}
  end
  call('HSET', p .. 'data:' .. job_id, 't' .. i, token)
  return {'TAKEN'}
end

end

---- expire ----

local overdue
do

-- Evidence that an agent has had a request: it has sent Progress, or a scheduler has seen that the
-- request left its queue (taken). Without evidence the request may still be in its queue, behind
-- others: RabbitMQ expires messages only at the head of a queue. Return: whether there is evidence,
-- and the Progress if there is one.
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

-- Whether the deadline that bounded the dispatch in flight has passed.
local function is_cut_short(job, rec)
  if not is_bounded(job, rec.asked) then
    return false
  end
  return job.late and rec.turn <= job.late or not job.late and job.now >= job.complete_by
end

-- LockedUntil has passed: withdraws the token. With evidence that an agent had the request it
-- counts an expiry. Without evidence it counts nothing. Unless the agent has sent Progress the next
-- dispatch may wait twice as long.
local function withdraw(job, i, rec)
  local counts, progress = has_evidence(job, i, rec)
  if is_cut_short(job, rec) then
    counts = false
  end
  -- "token limit fraction@agent"
  local agent = progress and match(progress, '^%S+ %d+ [^@ ]*@(%S+)')
  add_history(job, counts and 'expired' or 'silent', i, rec.attempt, token_id(i, rec.token), agent)
  if counts then
    rec.expiries = rec.expiries + 1
  end
  -- a request that left its queue need not be begun: an agent that fetches ahead gets more time
  rec.unstarted = progress and 0 or rec.unstarted + 1
  rec.current, rec.token = 'U', counts and '-' or NO_EVIDENCE
  call('HSET', job.key, 'b' .. i, '1')
end

-- Looks at one step, and returns when to look again; nil for never. The lease of a step in flight
-- is given up once it is past by `hold` times its length; other steps that are due are only named.
-- Each named step gets the state M, so that a Recover acts once.
local function expire_step(job, i, text, hold, clock, named)
  local rec = parse_record(text)
  if rec.state == 'R' then
    local t = terms_of(job.def, i, rec.asked)
    local given = wait_of(t, rec) + t.lock
    if rec.till > job.now + given then -- no dispatch gives more: the clock has stepped back
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
    record_of(job, i) -- M belongs to the job's present direction
    withdraw(job, i, rec)
  elseif rec.till == 0 then
    return nil
  elseif rec.till > job.now and not (rec.state == 'M' and rec.till > job.now + NAMED_AGAIN) then
    -- A step in M that is named later than that is from before the clock stepped back.
    return rec.till
  elseif (job.hold ~= '' or job.waits_for ~= '' and next_asked(job, rec) == 'A') and not overtaken(job, rec) then
    return nil -- the walk that follows looks at every step
  end
  if rec.state == 'R' then -- its token was just withdrawn
    named.expired = (named.expired or 0) + 1
    table.insert(named, named.expired, i)
  else
    named[#named + 1] = i
    if rec.state == 'P' and rec.current == 'U' and rec.expiries >= terms_of(job.def, i, rec.asked).expiries then
      rec.token = SILENCE_OVER
    end
  end
  rec.state, rec.till = 'M', job.now + NAMED_AGAIN
  job.records[i] = rec
  return rec.till
end

-- Looks at up to BUDGET steps. Return: true if all steps of the job were seen, so that `due` is
-- exact again.
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

-- Whether the deadline of forward work has passed and was not followed yet.
function overdue(job)
  return job.complete_by > 0 and job.now >= job.complete_by and not job.late and job.desired == 'A'
    and job.phase == 'PROCESSING' and job.ending == ''
end

-- Whether the turn is to end. The call that brought the job there would have ended it: a sweep has
-- mended its counts since.
local function should_settle(job)
  return job.hold == '' and #job.spreads == 0 and job.next_try <= job.now
    and (job.open == 0 or job.busy == 0 and (job.ending ~= '' or job.stuck_do + job.stuck_undo > 0))
end

local function touch_deadline(job, clock)
  local at = overdue(job) and clock.quiet or job.complete_by
  if at > job.now and job.desired == 'A' then
    lower_due(job, at)
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
  local go = has_cursor_work(job) or overdue(job) and now >= clock.quiet or should_settle(job)
  if go then
    lower_due(job, now + NAMED_AGAIN)
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

local function has_notification(p, id, seq)
  return call('HMGET', p .. 'data:' .. id, 's' .. seq)[1]
end

local function expire_owed(p, now, skip, limit, out)
  local list = call('ZRANGEBYSCORE', p .. 'owed', '-inf', int(now), 'LIMIT', skip, limit)
  for _, member in ipairs(list) do
    local id, seq = match(member, '^(%S+) (%d+)$')
    local good, owed = try_job(has_notification, p, id or '', seq or '')
    if good and owed then
      local counted, tries = try_job(call, 'HINCRBY', p .. 'data:' .. id, 'n' .. seq, 1)
      tries = counted and max(tries, 1) or #NOTIFICATION_WAITS
      call('ZADD', p .. 'owed', int(now + NOTIFICATION_WAITS[min(tries, #NOTIFICATION_WAITS)]), member)
      put(out, id, seq)
    else
      call('ZREM', p .. 'owed', member)
    end
  end
  return #out / 2, #list == limit
end

-- expire -> <expired>
-- Looks at the jobs that are due, and withdraws the tokens of steps in flight past LockedUntil. The
-- answer names what the supervisor asks schedulers for: jobs with their steps, of which the first
-- `expired` have expired and the others are only due, and notifications of the outbox. head: when
-- the first job is due, or 0. skip, limit: how many of the jobs and notifications that are due to
-- pass over, and to look at. hold: how many times its length a lease must be past. since jump after
-- at: see watch_clock(). latest: what the clock can show at most, 0 if not known. If it shows more,
-- it has jumped or the call was delayed: the answer names nothing, and the supervisor finds out
-- first. more: 1 if more is due. back: 1 if the clock has stepped back and the partition is to be
-- swept. The same call again names a step or a notification again only after a while (NAMED_AGAIN,
-- NOTIFICATION_WAITS), and counts no expiry twice.
function functions.expire(p, skip, limit, hold, latest, since, jump, after, at)
  local now = now_ms()
  skip, limit, hold, latest = tonumber(skip), tonumber(limit), tonumber(hold), tonumber(latest)
  if latest > 0 and now > latest then
    return {int(now), '0', '0', '0', '0', '0'}
  end
  local clock = watch_clock(p, now, tonumber(since), tonumber(jump), tonumber(after), tonumber(at))
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
    local good, named, whole = try_job(expire_job, p, id, now, hold, clock, jobs)
    if good then
      n_jobs = n_jobs + named
      more = more or not whole
    else -- corrupt: a sweep reports it
      for j = #jobs, before + 1, -1 do
        jobs[j] = nil
      end
      call('ZADD', p .. 'due', int(now + SWEEP_BOUND), id)
    end
  end
  local n_owed, more_owed = expire_owed(p, now, skip, limit, owed)
  more = more or #list == limit or more_owed
  local _, head = unpack(call('ZRANGE', p .. 'due', 0, 0, 'WITHSCORES'))
  local out = {int(now), head and int(tonumber(head)) or '0', more and '1' or '0',
    clock.back > clock.swept and '1' or '0'}
  put(out, int(n_jobs), unpack(jobs))
  put(out, int(n_owed), unpack(owed))
  return out
end

end

---- drive ----

local put_on_hold
do

-- Drives a step in state M: its LockedUntil has passed, or its timer.
local function drive_marked(job, i, rec, nonce)
  local t = terms_of(job.def, i, rec.asked)
  if overtaken(job, rec) then
    come_to_rest(job, i, rec, nonce)
  elseif job.hold ~= '' then
    return
  elseif retry_ahead(job, i) and retry_applies(job, i, rec) then
    -- As the walk y would: it does not know either whether the step expired before the Retry or
    -- since.
    reset_counts(rec)
    come_to_rest(job, i, rec, nonce)
  elseif rec.token ~= SILENCE_OVER and rec.current == 'U' and rec.expiries >= t.expiries then
    give_up(job, i, rec, t.on_exhausted, 'DEATHS', silence_ends(job, t, rec))
  else
    if rec.token == NO_EVIDENCE and rec.unstarted >= t.expiries then
      alert(job, i, 'SILENT', rec.asked) -- the store cannot know what is wrong: a person must look
    end
    come_to_rest(job, i, rec, nonce)
  end
end

-- said: who puts the job on hold, "-" for no person, and why.
function put_on_hold(job, kind, said)
  set(job, 'hold', kind)
  call('HSET', job.p .. 'data:' .. job.id, 'held', int(job.now) .. ' ' .. said)
end

local function on_deadline(job)
  local recourse = match(call('HGET', job.def.key, 'job'), '^%u')
  deadline.mark_passed(job, job.turn)
  if recourse ~= 'P' then
    deciding.failure(job, nil, 'A', 'DEADLINE')
  end
  if recourse == 'C' then
    turn(job, 'D', 'FAILURE', 'DEADLINE')
  elseif recourse == 'F' then
    end_as_it_is(job, 'DEADLINE')
  else
    if job.hold == '' then -- a person's hold stays
      put_on_hold(job, 'deadline', '-')
      add_history(job, 'held', 'deadline')
    else
      add_history(job, 'overdue')
    end
    add_alert(job, NO_STEP, 'DEADLINE')
  end
end

-- drive -> <transition>
-- Goes on with a job: begins it if its start_at has come, follows its deadline, drives the steps
-- that `expire` has named, and works on the cursor. Of the steps only those in state M change.
-- again: 1 if the same call may have been carried out before without an answer; then the answer
-- also has the requests of the named steps that are in flight.
-- DRIVEN; UNCHANGED: the job has ended; UNKNOWN_JOB.
function functions.drive(p, job_id, nonce, by, again, list, first)
  local now, out = now_ms(), {}
  local job = load(p, job_id, now, '0')
  if not job then
    put_code(out, 'UNKNOWN_JOB', now)
    return out
  end
  if finished(job) then
    put_transition(out, 'UNCHANGED', job)
    return out
  end
  if job.phase == 'PENDING' and job.start_at <= now and job.hold == '' then
    set(job, 'phase', 'PROCESSING')
    set(job, 'started', '1')
    add_history(job, 'started', by)
    job.spreads[1] = {from = job.turn == 1 and 'r' or 't', offset = 0, edge = 0}
  end
  if overdue(job) and not is_quiet(p, now) then
    on_deadline(job)
  end
  local flying = {}
  for k = first, min(#list, first + BUDGET - 1) do
    local i = tonumber(list[k])
    local text = i < job.n and call('HGET', job.key, list[k])
    if text then
      local rec = record_of(job, i, text)
      if rec.state == 'M' then
        drive_marked(job, i, rec, nonce)
      elseif rec.state == 'R' and again == '1' then
        flying[#flying + 1] = i
      end
    end
  end
  resend(job, flying)
  go_on(job, nonce)
  save(job, by)
  put_transition(out, 'DRIVEN', job)
  return out
end

end

---- commands ----

-- A command gets the job, what steer() has read, and its arguments. Return: a code; and if it
-- refuses, why, and the step that is to blame. What it changes is saved only if the code is DONE.

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
      call('HSET', job.key, 'tried', int(TRIES_MAX)) -- no other run by itself
      if job.next_try > 0 then
        set(job, 'cause', cause) -- it is taken back already, and ends so
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
  elseif to == 'A' and job.start_at > job.now and not job.started then -- the clock may step back
    set(job, 'phase', 'PENDING')
    job.spreads = {}
    lower_due(job, job.start_at)
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

-- Like disable, but the job ends CANCELLED, which is final for clients.
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
  add_history(job, 'killed')
  settle(job, 'KILLED', 'REQUESTED')
  return 'DONE'
end

-- A person knows what the job needs: no other person need look. The job stays as it is.
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
  -- also if its deadline holds it: that hold bounds forward work only
  put_on_hold(job, 'paused', command.said)
  add_history(job, 'held', 'paused')
  return 'DONE'
end

function commands.resume(job)
  if finished(job) and job.hold == '' then
    return 'WRONG_STATE', job.outcome
  elseif job.hold == '' then
    return 'UNCHANGED'
  end
  set(job, 'hold', '')
  if deadline.has_passed(job) then
    deadline.mark_passed(job, job.since - 1)
  end
  add_history(job, 'resumed')
  if job.phase == 'PROCESSING' then
    add_walk(job, 'w')
  elseif job.phase == 'PENDING' then
    lower_due(job, job.start_at)
  end
  return 'DONE'
end

-- Nothing is counted against the step any more.
local function reset_step(job, i, rec)
  job.records[i] = rec
  record_of(job, i)
  if rec.state == 'F' then
    remove_failed(job, i, rec)
  end
  remove_parked(job, i)
  reset_counts(rec)
end

-- A person has said something about the step: it begins anew.
local function begin_anew(job, i, rec, nonce)
  reset_step(job, i, rec)
  come_to_rest(job, i, rec, nonce)
end

-- A job that a failure has ended, or is about to end, goes on. If its timers were cancelled, a walk
-- of this kind looks at all steps.
local function resume_after_failure(job, kind)
  if finished(job) then
    reopen(job)
    apply_deadline(job)
  end
  if job.late then
    deadline.mark_passed(job, 0) -- what is sent from now on has no bound
  end
  deciding.reset(job)
  if job.ending ~= '' then
    set(job, 'ending', '')
    for k = #job.spreads, 1, -1 do
      if job.spreads[k].from == 'l' then
        table.remove(job.spreads, k)
      end
    end
    add_walk(job, kind)
  end
end

-- Why this step cannot be tried again now, as it is or changed; nil if it can.
local function no_retry(job, rec, changed)
  if rec.state == 'R' or rec.state == 'M' then
    return rec.state == 'M' and job.hold ~= '' and 'DUE' or 'IN_FLIGHT'
  elseif rec.state == 'W' and not has_tried(job, rec)
    and (rec.current == job.desired or not (changed and job.desired == 'A')) then
    return 'NOT_FAILED'
  end
end

-- Whether a Retry of all steps has a step that begins anew. In a job with more steps than the
-- budget only the walk finds out.
local function can_retry(job)
  if finished(job) or job.ending ~= '' or job.n > BUDGET then
    return true
  end
  local _, texts = walk_ahead(job, {offset = 0})
  for i, text in pairs(texts) do
    if text and retry_applies(job, i, record_of(job, i, text)) then
      return true
    end
  end
  return false
end

-- Why this job cannot be tried again; nil if it can.
local function no_tries(job)
  if finished(job) and not ended_badly(job) or job.phase == 'PENDING' then
    return finished(job) and job.outcome or job.phase
  end
end

-- The steps begin anew; without any, all that are parked or have failed. Builds before 46 have sent
-- new arguments for the step in place of "".
function commands.retry(job, command, arguments, ...)
  local steps, why = {...}, no_tries(job)
  if why then
    return 'WRONG_STATE', why
  elseif arguments ~= '' then
    return commands.change(job, command, job.def.digest, 'arguments', arguments, (...))
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
  resume_after_failure(job, next(recs) and 'w' or 'y')
  if not next(recs) then
    add_history(job, 'retried', 'all')
    add_walk(job, 'y')
  end
  for i, rec in pairs(recs) do
    add_history(job, 'retried', i)
    begin_anew(job, i, rec, command.nonce)
  end
  return 'DONE'
end

-- A person says what state the step is in, A or D, and gives its result.
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
    return 'WRONG_STATE', 'THERE', i -- other steps have gone on from that
  elseif rec.waiting > 0 then
    return 'WRONG_STATE', 'WAITING', i -- the steps before it would be passed over
  elseif job.bytes + #result > DATA_MAX then
    return 'WRONG_STATE', 'DATA_FULL'
  end
  resume_after_failure(job, 'w')
  set(job, 'turn', job.turn + 1)
  rec.current = state
  if result ~= '' or state == 'D' then
    set_data(job, 'r' .. i, result) -- else it keeps the result that it has
  end
  add_history(job, 'resolved', i, state)
  begin_anew(job, i, rec, command.nonce)
  return 'DONE'
end

---- change and migrate ----

-- A job, or a command that waits, uses the definition no longer. Deletes it if it was the last
-- user.
local function release_definition(p, digest)
  if call('HINCRBY', p .. 'def:' .. digest, 'refs', -1) <= 0 then
    call('UNLINK', p .. 'def:' .. digest)
    cache[p .. 'def:' .. digest] = nil
  end
end

do -- for changes only

local function hold_definition(p, digest)
  if call('HINCRBY', p .. 'def:' .. digest, 'refs', 1) == 1 then
    call('ZREM', p .. 'defs', digest)
  end
end

local function take_definition(job, digest)
  hold_definition(job.p, digest)
  release_definition(job.p, job.def.digest)
  job.def, job.changed.def = definition_of(job.p, digest), digest
end

local function is_ready(p, digest)
  return call('HGET', p .. 'def:' .. digest, 'ready') == FORMAT
end

-- The record of step i. The call may have changed it already, if it carries out a command that has
-- waited.
local function present(job, i, text)
  return job.records[i] or parse_record(text, step_of(job.def, i))
end

-- A step that a command changes, and how: "12", "12t" or "12!". t: other terms of its dispatches,
-- such as its lease; it is the same work under the same key. Otherwise it becomes other work. !:
-- also if its present work may have taken effect and has no revert.
local function target(word)
  local i, how = match(word, '^(%d+)([t!]?)$')
  return tonumber(i), how
end

-- What happens to the present work of a step before it becomes other work. nil: nothing, it was not
-- done. UNDO, ANEW: it may have been done; it is undone first, or left as it is. Behind a nil
-- stands why neither is possible.
local function before_other_work(job, i, rec, how)
  if rec.current ~= 'U' then
    return nil
  elseif step_of(job.def, i).has_revert then
    local waiting = rec.since == job.epoch and rec.waiting or n_before(job, step_of(job.def, i))
    return waiting == 0 and 'UNDO' or nil, waiting > 0 and 'WAITING' or nil
  end
  return how == '!' and 'ANEW' or nil, how ~= '!' and 'UNKNOWN' or nil
end

-- Puts a command off until these steps are undone by the present definition. Each undo has a turn
-- of its own, which no forward action has: the turn of the job is higher. An undo that was sent
-- before is the same work. steps: { i, rec }…; then the name of the command, the digest of the
-- definition that it brings, and its other arguments.
local function put_off(job, nonce, steps, name, definition, ...)
  local texts, numbers = {}, {}
  for k, word in ipairs({name, definition, ...}) do
    texts[k] = #word .. ':' .. word
  end
  for k, step in ipairs(steps) do
    numbers[k] = int(step.i)
  end
  resume_after_failure(job, 'w')
  hold_definition(job.p, definition)
  set(job, 'waits_for', concat(numbers, ' '))
  for _, step in ipairs(steps) do
    set(job, 'turn', job.turn + 2)
    add_history(job, 'changing', step.i)
    reset_step(job, step.i, step.rec)
    if step.rec.asked == 'A' then
      step.rec.asked, step.rec.turn = 'D', job.turn - 1
    end
    come_to_rest(job, step.i, step.rec, nonce)
  end
  -- After `turn` was set: set_data() looks for an old value only in later turns.
  set_data(job, 'change', concat(texts))
  return 'DONE'
end

-- Ends the waiting of a command, and returns its name and its arguments.
local function take_words(job)
  local words = texts_of(call('HGET', job.p .. 'data:' .. job.id, 'change') or '')
  set(job, 'waits_for', '')
  set_data(job, 'change', '')
  return unpack(words)
end

-- Whether a change waits until this step is undone.
function change.waits_for(job, i)
  return job.waits_for ~= '' and (' ' .. job.waits_for .. ' '):find(' ' .. int(i) .. ' ', 1, true)
end

-- Drops the command that waits: the job turns, or has ended, and keeps its definition; or `why`, at
-- step i.
function change.drop(job, why, i)
  if job.waits_for == '' then
    return
  end
  local _, definition = take_words(job)
  if definition then
    release_definition(job.p, definition)
  end
  add_history(job, 'unchanged', why or 'TURNED', i)
end

-- Whether all steps are undone that a change waits for, or a person has resolved them.
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

-- The command that has waited, with its arguments, is carried out.
local function after_waiting(job, nonce, name, definition, ...)
  local code, why, i = nil, 'LOST', nil
  if commands[name] then
    code, why, i = commands[name](job, {nonce = nonce, has_waited = true}, definition, ...)
  end
  if code ~= 'DONE' then
    add_history(job, 'unchanged', why or code, i)
  end
  if definition then
    release_definition(job.p, definition)
  end
end

function change.carry_out(job, nonce)
  after_waiting(job, nonce, take_words(job))
end

-- A step that is not in flight gets another definition, or other arguments, and begins anew. what:
-- for the history; arguments: "" for those that it has; step: see target().
function commands.change(job, command, definition, what, arguments, step)
  local i, how = target(step)
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
  elseif definition ~= job.def.digest and not is_ready(job.p, definition) then
    return 'MOVED'
  elseif before == 'UNDO' then
    return put_off(job, command.nonce, {{i = i, rec = rec}}, 'change', definition, what,
      arguments, step)
  end
  resume_after_failure(job, 'w')
  local renewed = call('HGET', job.def.key, 'renewed')
  take_definition(job, definition)
  if renewed then
    call('HSETNX', job.def.key, 'renewed', renewed) -- an older job stays one, see is_older_job()
  end
  if before == 'ANEW' then
    add_history(job, 'anew', i)
    rec.current = 'D'
  end
  if how ~= 't' then
    set(job, 'turn', job.turn + 1)
  end
  add_history(job, how == 't' and 'changed' or 'edited', i, what)
  if arguments ~= '' then
    set_data(job, 'a' .. i, arguments)
  end
  begin_anew(job, i, rec, command.nonce)
  return 'DONE'
end

-- Whether an agent may have begun a step under its present definition: the step was dispatched, and
-- not all requests came back. If all before came back, the dispatch in flight counts as not begun
-- as long as there is no evidence.
local function is_begun(job, i, rec)
  local flies = rec.state == 'R' and rec.attempt > 1
  local progress, was_taken = progress_of(job.p, job.id, i, rec.token)
  return call('HGET', job.key, 'b' .. i) or flies and (progress or was_taken)
    or rec.unstarted < rec.attempt - (flies and 1 or 0)
end

-- Whether a step was sent, and more is known of it than that no queue took the request.
local function may_have_begun(rec)
  return rec.state == 'R' or rec.current == 'U'
end

-- The same as before_other_work(), for a step that has another definition in a newer version. A
-- step that no agent can have begun is replaced as it is.
local function before_migration(job, i, rec, how, is_gone)
  local flies = rec.state == 'R' or rec.state == 'M'
  if how == 't' then
    return nil, flies and 'IN_FLIGHT' or nil
  elseif rec.current == 'A' then
    return nil, 'BEGUN' -- perhaps a person has resolved it
  elseif is_gone and may_have_begun(rec) then
    return nil, 'GONE' -- no definition would undo it
  elseif not is_begun(job, i, rec) then
    return nil
  elseif flies then
    return nil, 'IN_FLIGHT'
  end
  return before_other_work(job, i, rec, how)
end

-- Replaces a step by that of the newer version. If all its requests came back, an agent may still
-- have had one: then the step is undone first, as the newer version says, under the turn between.
-- Its attempts begin anew, under other keys.
local function replace_step(job, i, rec, before)
  if rec then
    local maybe = may_have_begun(rec) and before ~= 'ANEW'
    if rec.state == 'R' then
      add_history(job, 'withdrawn', i, rec.attempt, token_id(i, rec.token))
    elseif rec.state == 'F' and rec.since >= job.since then -- in the present direction: it counts
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
  set_data(job, 'a' .. i, '') -- meant for the work before
end

-- The steps that differ from those of the job, { i, how, rec, before }…, and those of them that are
-- undone first; or nil, why that is not possible, and the step.
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
      why = why or has_waited and step.rec.state == 'R' and 'IN_FLIGHT' -- perhaps by this call
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

-- The job gets a newer version of its workflow, with n steps. The steps are those that differ from
-- what the job has, see target(); the first `gone` of them are not in the newer version, and must
-- not have been sent.
function commands.migrate(job, command, definition, n, name, gone, ...)
  if finished(job) or job.ending ~= '' or job.desired == 'D' then
    return 'WRONG_STATE', finished(job) and job.outcome or job.ending ~= '' and 'ENDING' or 'BACK'
  elseif job.waits_for ~= '' then
    return 'WRONG_STATE', 'CHANGING'
  elseif definition == job.def.digest then
    return 'UNCHANGED'
  elseif not is_ready(job.p, definition) then
    return 'MOVED'
  end
  local steps, undo, i = plan_migration(job, command.has_waited, tonumber(gone), {...})
  if not steps then
    return 'WRONG_STATE', undo, i
  elseif #undo > 0 then
    return put_off(job, command.nonce, undo, 'migrate', definition, n, name, gone, ...)
  end
  take_definition(job, definition)
  call('HSET', job.p .. 'data:' .. job.id, 'workflow', name)
  set(job, 'turn', job.turn + 2)
  set(job, 'n', tonumber(n))
  for _, step in ipairs(steps) do
    if step.before == 'ANEW' then
      add_history(job, 'anew', step.i)
    end
    if step.how ~= 't' then
      replace_step(job, step.i, step.rec, step.before)
    end
  end
  add_history(job, 'migrated', name)
  local spreads = job.spreads
  count_anew(job)
  for _, work in ipairs(spreads) do
    if work.from == 'y' or work.from == 'w' then -- a Retry of all steps, a Resume
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

do -- a scope of its own: Lua allows 200 locals in one

local COMMAND_BYTES = 100

-- The last commands of a job with their answers, each "length:id command code why step;".

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

-- Commands that turn the job have one order, by the time at which they were issued, and retries
-- have another. A command that comes after one issued later changes nothing. A command that is
-- refused does not count in its order.
local ORDERS = {enable = 'ordered', disable = 'ordered', cancel = 'ordered', retry = 'retried', change = 'retried'}

local function overtaken_command(job, command)
  local order = ORDERS[command.name]
  return order and command.issued_at ~= '0'
    and (tonumber(call('HGET', job.key, order) or '') or 0) > tonumber(command.issued_at)
end

-- The clock of a sender may be ahead: the commands of others are not to wait until the store's
-- clock is there.
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
  add_history(job, 'command', command.name, command.id ~= '' and command.id or '-', command.said)
  return commands[command.name](job, command, ...)
end

-- Lets Kill end a corrupt job: what cannot be read gets a value that can.
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

-- Counts the bytes that a command adds to a job of an owner, like those of its Submit: the history
-- keeps the command, and the data the arguments of a Retry. Cancel and Kill are always allowed,
-- because they end a job.
local function count_bytes(job, command, owner, list, first)
  local cost = COMMAND_BYTES + #command.said + #command.id
  for k = first, #list do
    cost = cost + #list[k]
  end
  call('HINCRBY', job.p .. 'users', owner, int(cost))
  call('HINCRBY', job.key, 'cost', int(cost))
end

local function within_bytes(p, command_name, owner, bytes)
  return owner == '' or command_name == 'cancel' or command_name == 'kill'
    or not over_bytes(p, owner, 0, tonumber(bytes) or 0)
end

-- steer -> <transition> <refusal>?
-- Carries out a command. said: who gives it, "-" if that is not known, and why. by: the calling
-- scheduler. definition: the one by which the arguments number steps; '' for none. bytes: how many
-- bytes of this partition the jobs of the owner may take, 0: no limit. why, step: what the command
-- is refused for ("-" if it is not), and at which step (NO_STEP for none).
-- DONE. UNCHANGED: the job is so already. WRONG_STATE: refused, `why` says for what. SUPERSEDED: a
-- command issued later came first, or the job's seq is not if_seq. UNSUPPORTED: no such command.
-- MOVED: the job has another definition by now; the scheduler starts over. TOO_MANY: the owner
-- takes too many bytes. UNKNOWN_JOB, without why and step: or the job belongs to another user.
-- The job keeps its last COMMANDS_KEPT commands with their answers, except MOVED. One that comes
-- again changes nothing and gets the same answer; with redelivered = 1 also the requests that are
-- in flight. CONFLICT: another command had this command_id.
function functions.steer(p, job_id, command_name, command_id, issued_at, if_seq, said, by, nonce,
    redelivered, definition, owner, bytes, list, first)
  local now, out = now_ms(), {}
  owner = owner or ''
  if is_others(p, job_id, owner) then
    put_code(out, 'UNKNOWN_JOB', now)
    return out
  elseif not within_bytes(p, command_name, owner, bytes) then
    put_code(out, 'TOO_MANY', now)
    put(out, '-', int(NO_STEP))
    return out
  elseif command_name == 'kill' and call('EXISTS', p .. 'job:' .. job_id) == 1 then
    make_readable(p, job_id, now)
  end
  local job = load(p, job_id, now, '0')
  if not job then
    put_code(out, 'UNKNOWN_JOB', now)
    return out
  end
  local command = {name = command_name, id = command_id, issued_at = issued_at, if_seq = if_seq,
    said = said, nonce = nonce, definition = definition}
  local code, why, i
  local known = command.id ~= '' and known_answer(job, command.id)
  if known and known.command ~= command.name then
    code = 'CONFLICT' -- the id of another command
  elseif known then
    code, why, i = known.code, known.why, known.i
    if redelivered == '1' then
      resend_after(job)
      job.settled = finished(job) and job.seq or 0
    end
  else
    code, why, i = carry_out(job, command, unpack(list, first))
    if code == 'DONE' or code == 'UNCHANGED' then
      keep_order(job, command)
    end
    if code == 'DONE' then
      if owner ~= '' then
        count_bytes(job, command, owner, list, first)
      end
      go_on(job, nonce)
      save(job, by)
    end
    if command.id ~= '' and code ~= 'MOVED' then
      remember_answer(job, command.id, command.name, code, why or '-', i or '-')
    end
  end
  put_transition(out, code, job)
  put(out, why or '-', int(tonumber(i) or NO_STEP))
  return out
end

end

---- settle_owed and lead ----

-- settle_owed -> code
-- Deletes these notifications from the outbox: the broker has confirmed them. SETTLED. The same
-- call again changes nothing.
function functions.settle_owed(p, list, first)
  for _, job_id, seq in each.notification(list, first) do
    call('ZREM', p .. 'owed', job_id .. ' ' .. seq)
    local known = call('HDEL', p .. 'data:' .. job_id, 's' .. seq, 'n' .. seq, 'w' .. seq, 'v' .. seq)
    if known > 0 then
      count_up(p .. 'job:' .. job_id, 'owes', -1) -- not below 0: builds before 22 did not count
    end
  end
  return {'SETTLED'}
end

do

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

end

---- inspect ----

do -- a scope of its own: Lua allows 200 locals in one

local function put_fields(out, key, names)
  for _, value in ipairs(call('HMGET', key, unpack(names))) do
    out[#out + 1] = value or ''
  end
end

-- inspect definition -> <content>
-- A definition as it was stored. FOUND; UNKNOWN.
function functions.inspect_definition(p, digest)
  local blob = call('HGET', p .. 'def:' .. digest, 'blob')
  return blob and {'FOUND', blob} or {'UNKNOWN'}
end

-- inspect workflow -> <content>
-- The definition that is registered under "name" (the newest version) or "name@version". FOUND;
-- UNKNOWN.
function functions.inspect_workflow(p, name)
  local digest = find_definition(p, '', name)
  return digest and functions.inspect_definition(p, digest) or {'UNKNOWN'}
end

-- inspect workflows -> <workflows>
-- Registered workflows, "name@version", in the order of their names: those behind `after`. FOUND.
function functions.inspect_workflows(p, after, limit)
  local names, digests, known = {}, {}, call('HGETALL', p .. 'workflows')
  for k = 1, #known, 2 do
    local name, digest = known[k], known[k + 1]
    if match(name, '@') and name > after then
      names[#names + 1], digests[name] = name, digest
    end
  end
  table.sort(names)
  local n = min(#names, tonumber(limit), 1000)
  local out = {'FOUND', n < #names and '1' or '0', int(n)}
  for k = 1, n do
    local digest = digests[names[k]]
    put(out, names[k], digest, call('HGET', p .. 'def:' .. digest, 'n') or '0')
  end
  return out
end

-- inspect history -> <history>
-- The entries of the history with the number `start` and later. FOUND. first: the number of the
-- first entry that is kept. Entries before it were cut off. UNKNOWN: also if the job belongs to
-- another user than the owner.
function functions.inspect_history(p, job_id, start, limit, owner)
  local digest, key = call('HGET', p .. 'job:' .. job_id, 'def'), p .. 'hist:' .. job_id
  if not digest or is_others(p, job_id, owner) then
    return {'UNKNOWN'}
  end
  local first = tonumber(match(call('LINDEX', key, 0) or '1', '^%d+'))
  start = max(tonumber(start) - first, 0)
  local entries = call('LRANGE', key, int(start), int(start + min(tonumber(limit), 1000) - 1))
  local more = call('LINDEX', key, int(start + #entries))
  local out = {'FOUND', digest, int(first), more and '1' or '0', int(#entries)}
  put(out, unpack(entries))
  return out
end

-- Whether a job needs a person for an error of this class, and for a step of this actor; '' is any.
local function has_trouble(p, id, class, actor)
  local of, is = match(call('HGET', p .. 'job:' .. id, 'attention') or '', '^%S+ %d+ %S+ (%S+) (%S+)$')
  return (class == '' or is == class) and (actor == '' or of == actor)
end

-- Whether a job is one that the caller has asked for.
local function listed(p, id, phase, workflow, labels, class, actor)
  if (class ~= '' or actor ~= '') and not has_trouble(p, id, class, actor) then
    return false
  elseif phase ~= '' and call('HGET', p .. 'job:' .. id, 'phase') ~= phase then
    return false
  elseif workflow == '' and #labels == 0 then
    return true
  end
  local of, index = unpack(call('HMGET', p .. 'data:' .. id, 'workflow', 'index'))
  of = of or ''
  if workflow ~= '' and of ~= workflow and match(of, '^[^@]*') ~= workflow then
    return false
  end
  local has = {}
  for _, label in ipairs(texts_of(index or '')) do
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
  local index, least
  for _, label in ipairs(labels) do
    local n = #labels > 1 and call('ZCARD', p .. 'l:' .. label) or 0
    if not least or n < least then
      index, least = p .. 'l:' .. label, n
    end
  end
  return index
end

-- inspect jobs -> <job_list>
-- The jobs that were created at `before` and have a lower id than before_id, or were created
-- earlier, newest first. FOUND. last, last_id: how far this call has looked. needs: 'any', or a
-- kind, see need_of(). At most BUDGET jobs are looked at.
function functions.inspect_jobs(p, before, before_id, since, limit, phase, workflow, needs,
    error_class, actor, list, first)
  local labels = {unpack(list, first)}
  limit = min(tonumber(limit), BUDGET)
  local index = needs == 'any' and p .. 'needs' or needs ~= '' and p .. 'needs:' .. needs
    or #labels > 0 and rarest(p, labels)
    or workflow ~= '' and p .. 'w:' .. match(workflow, '^[^@]*')
    or (phase == 'PENDING' or phase == 'PROCESSING') and p .. 'open'
    or phase == 'ERROR' and p .. 'failed' or p .. 'jobs'
  local known = call('ZREVRANGEBYSCORE', index, before, since, 'WITHSCORES', 'LIMIT', '0', int(BUDGET))
  local found, last, last_id = {}, before, before_id
  local more = #known == 2 * BUDGET
  for k = 1, #known, 2 do
    local id, created = known[k], int(tonumber(known[k + 1]))
    if created ~= before or before_id == '' or id < before_id then
      last, last_id = created, id
      if listed(p, id, phase, workflow, labels, error_class, actor) then
        found[#found + 1] = id
        if #found == limit then
          more = more or k + 1 < #known
          break
        end
      end
    end
  end
  local out = {'FOUND', int(now_ms()), more and '1' or '0', last, last_id, int(#found)}
  for _, id in ipairs(found) do
    out[#out + 1] = id
    put_fields(out, p .. 'job:' .. id, schema.job_fields)
    put_fields(out, p .. 'data:' .. id, schema.data_fields)
  end
  return out
end

-- inspect notice -> <notice>
-- What the event of a notification needs. FOUND; UNKNOWN. Each turn that ends has an event, so this
-- call asks for all of it. tries: how often the supervisor has asked for it. outcome to failed: how
-- that turn ended, `failed` being the numbers of the steps that had failed for good. failure,
-- error: see deciding.failure(). results: of those of the named steps that have one; '' if it did
-- not fit into `limit` bytes. addresses: those of the job before its last one.
function functions.inspect_notice(p, job_id, seq, limit, list, first)
  local data = p .. 'data:' .. job_id
  local workflow, submitter, labels, reply_to, correlation, traceparent, encoding, tries, settled, earlier,
    failure, failed_with = unpack(call('HMGET', data, 'workflow', 'submitter', 'labels', 'reply_to',
    'correlation', 'traceparent', 'format', 'n' .. seq, 's' .. seq, 'earlier', 'w' .. seq, 'v' .. seq))
  if not settled then
    return {'UNKNOWN'}
  end
  local digest, n = unpack(call('HMGET', p .. 'job:' .. job_id, 'def', 'n'))
  tries = tonumber(tries or '0')
  if not (tries and tries >= 0 and tries < NOTIFICATION_TRIES) then
    tries = NOTIFICATION_TRIES - 1 -- also if damaged: it is not to be published for ever
  end
  local out = {'FOUND', digest or '', match(n or '', '^%d%d?%d?%d?%d?$') or '1', workflow or '',
    submitter or '', labels or '', reply_to or '', correlation or '', traceparent or '', encoding or '',
    int(tries)}
  local ended = {match(settled, '^(%S+) (%S+) (%d+) (%d+) (%d+) (%S*) ?([%d ]*)$')}
  put(out, unpack(#ended > 0 and ended or {'KILLED', 'ERROR', '1', '0', '0', '', ''})) -- damaged
  put(out, failure or '', failed_with or '')
  local room, count, results = tonumber(limit), 0, {}
  for k = first, min(#list, first + BUDGET - 1) do
    local step = list[k]
    local size = call('HSTRLEN', data, 'r' .. step)
    local fits = size <= room
    if size > 0 then
      count = count + 1
      put(results, step, fits and call('HGET', data, 'r' .. step) or '')
      room = fits and room - size or room
    end
  end
  put(out, int(count), unpack(results))
  local addresses = texts_of(earlier or '')
  put(out, int(floor(#addresses / 2)), unpack(addresses))
  return out
end

local AGENTS_SOUGHT = 100         -- history entries to look for agents in; or four for each step

-- The agents that have had the steps last, by number, as far as the last entries of the history
-- say.
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

-- inspect job -> <job>
-- A job. FOUND. steps: from number `start` on, at most `count`; fewer if they are large. input and
-- results are '' unless with_data is 1. UNKNOWN: also if the job belongs to another user than the
-- owner.
function functions.inspect_job(p, job_id, start, count, with_data, owner)
  local job, data = p .. 'job:' .. job_id, p .. 'data:' .. job_id
  if call('EXISTS', job) == 0 or is_others(p, job_id, owner) then
    return {'UNKNOWN'}
  end
  local out = {'FOUND', int(now_ms())}
  put_fields(out, job, schema.job_fields)
  put_fields(out, data, schema.data_fields)
  start = tonumber(start)
  local last = min(start + min(tonumber(count), 1000), tonumber(call('HGET', job, 'n'))) - 1
  out[#out + 1] = with_data == '1' and call('HGET', data, 'input') or ''
  if last < start then
    out[#out + 1] = '0'
    return out
  end
  local records, more = {}, {}
  for i = start, last do
    records[#records + 1] = int(i)
    put(more, 'e' .. i, 'p' .. i)
  end
  local texts = call('HMGET', job, unpack(records))
  local extra = call('HMGET', data, unpack(more))
  local steps, n, size, agents = {}, 0, 0, agents_of(p, job_id, last - start + 1)
  for k, field in ipairs(records) do
    local failure, progress = extra[2 * k - 1] or '', extra[2 * k] or ''
    local result = with_data == '1' and call('HGET', data, 'r' .. field) or ''
    size = size + #failure + #progress + #result
    if size > PAGE_BYTES and n > 0 then
      break
    end
    n = n + 1
    put(steps, field, texts[k] or '', failure, progress, result, agents[field] or '')
  end
  out[#out + 1] = int(n)
  put(out, unpack(steps))
  return out
end

end

---- told ----

do

-- Deletes causes that are over, although no scheduler has said so because their actor never came
-- back. Each new cause has some looked at, at random: so causes that are over stay far fewer than
-- those that are not.
local function forget_causes(p, now)
  local some = call('HRANDFIELD', p .. 'told', int(CAUSES_CHECKED), 'WITHVALUES')
  for k = 1, #some, 2 do
    if some[k] ~= 'letters' and tonumber(match(some[k + 1], '^%d+')) <= now then
      call('HDEL', p .. 'told', some[k])
    end
  end
end

-- The queue drover.dead has `there` messages. The calling scheduler has put `own` more into it
-- since it last said so, and has raised alerts about them. Messages that no scheduler says, within
-- a minute, to have put there come from others, and are news. Return: how many.
-- The field `letters` keeps: messages that are known; messages that a scheduler has put there and
-- no call has seen yet; since when there are more than both, negative if there are fewer; and how
-- many there were then.
local function unknown_letters(p, now, there, own)
  local known, unseen, since, seen = match(call('HGET', p .. 'told', 'letters') or '', '^(%d+) (%d+) (%-?%d+) (%d+)$')
  known, unseen, since, seen = tonumber(known), (tonumber(unseen) or 0) + own, tonumber(since) or 0, tonumber(seen) or 0
  local count, grown = 0, known and there - known - unseen
  if not known or there < known or since > now then -- or a person has read some
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
  call('HSET', p .. 'told', 'letters', concat({int(known), int(unseen), int(since), int(seen)}, ' '))
  return count
end

-- told -> <news>
-- Asks whether an alert cause is new, or reports what became of it. Each alert cause is published
-- once, whichever scheduler meets it. what: ask, told, over or letters. ask: is the cause new?
-- NEWS; KNOWN. A scheduler that gets NEWS publishes the alert, and says `told` when the broker has
-- confirmed it. Until then the store keeps its nonce, and the cause counts as known for a minute
-- only; the same nonce gets NEWS again. TOLD. over: the next sign is NEWS. OVER. letters: see
-- unknown_letters(), of which `count` are news.
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
  local known = tonumber(till) > now and tonumber(till) <= now + TOLD
  if what == 'told' then
    if till ~= '0' then -- it is not over meanwhile
      call('HSET', p .. 'told', cause, int(now + TOLD))
    end
    return {'TOLD'}
  elseif not known or by == nonce then
    if till == '0' then
      forget_causes(p, now)
    end
    call('HSET', p .. 'told', cause, int(now + CAUSE_CLAIMED) .. ' ' .. nonce)
    return {'NEWS'}
  elseif by == '' then -- published; this is a sign that it goes on
    call('HSET', p .. 'told', cause, int(now + TOLD))
  end
  return {'KNOWN'}
end

end

---- step events ----

do

local HEARD_MOST = 1000          -- history entries that one call reads: the last, if more are new
local TOLD = {dispatched = true, began = true, done = true, undone = true, failed = true, parked = true}

-- step_events -> <events>
-- What has happened at the steps of a job since the last call, for the client that has asked for
-- step events. Each entry is read once: the client does not get it if the calling scheduler dies.
-- FOUND. agent: "-" for none. UNKNOWN_JOB: also if the client has not asked for step events.
function functions.step_events(p, job_id)
  local job = load(p, job_id, now_ms(), '0')
  if not job or job.events ~= 'reply' then
    return {'UNKNOWN_JOB'}
  end
  local data = p .. 'data:' .. job_id
  local workflow, submitter, reply_to, correlation, encoding, heard = unpack(call('HMGET', data, 'workflow',
    'submitter', 'reply_to', 'correlation', 'format', 'heard'))
  local out = {'FOUND', int(job.now) .. ' ' .. int(job.open) .. ' ' .. int(job.n), workflow or '',
    submitter or '', reply_to or '', correlation or '', encoding or ''}
  local n_new = min(job.seq - (tonumber(heard or '') or 0), HEARD_MOST)
  if n_new <= 0 then
    return out
  end
  call('HSET', data, 'heard', int(job.seq))
  for _, entry in ipairs(call('LRANGE', p .. 'hist:' .. job_id, int(-n_new), '-1')) do
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

---- suspect ----

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

end

---- forget ----

do -- a scope of its own: Lua allows 200 locals in one

local function forget_job(p, id)
  local key = p .. 'job:' .. id
  local digest = call('HGET', key, 'def')
  if digest then
    release_definition(p, digest)
  end
  local workflow, labels = unpack(call('HMGET', p .. 'data:' .. id, 'workflow', 'index'))
  workflow, labels = workflow or '', labels or ''
  -- a build before 45 has counted the input only
  local cost = tonumber(call('HGET', key, 'cost') or #(unpack(call('HMGET', p .. 'data:' .. id, 'input')) or '')) or 0
  for _, index in ipairs(index_keys(p, workflow, labels)) do
    call('ZREM', index, id)
  end
  for _, label in ipairs(texts_of(labels)) do
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

-- Whether the outbox holds a notification of the job. Builds before 22 did not count those.
local function owes(p, id)
  local count, seq = unpack(call('HMGET', p .. 'job:' .. id, 'owes', 'seq'))
  return (tonumber(count or '0') or 0) > 0 or call('ZSCORE', p .. 'owed', id .. ' ' .. (seq or ''))
end

-- Jobs that have ended since this time are kept. If the clock has jumped ahead, the retention of
-- jobs that ended before has not passed: a client that submits one again may be late by the clock,
-- but is not late.
local function kept_since(p, now, retention)
  local clock, since = read_clock(p), now - retention
  return since - clock.by < clock.jumped and since - clock.by or since
end

-- How many jobs of this partition need a person: because of parked steps, of a deadline, of their
-- end.
local function needs(p)
  return int(call('ZCARD', p .. 'needs:parked')), int(call('ZCARD', p .. 'needs:deadline')),
    int(call('ZCARD', p .. 'needs:ended'))
end

-- forget -> <forgotten>
-- Deletes jobs that have ended and whose retention (ms) is over, unless the outbox has a
-- notification of them, and definitions that no job has used. At most `limit` of each. jobs: how
-- many it has deleted. parked, deadline, ended: jobs that need a person. The same call again goes
-- on.
function functions.forget(p, retention, limit)
  local now = now_ms()
  limit = tonumber(limit)
  if is_quiet(p, now) then
    return {'0', '0', needs(p)}
  end
  local list = call('ZRANGEBYSCORE', p .. 'settled', '-inf',
    int(kept_since(p, now, tonumber(retention))), 'LIMIT', 0, limit)
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

do

-- Adds to at.missing how many of the neighbours before step i, from number at.edge on, are not
-- where the job wants them. Return: how many were read. All were, if at.edge is n_before then.
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

-- All steps were counted, and the job has not changed meanwhile.
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

-- Looks at the steps from at.step and at.edge on. If at.step is n afterwards the job is done.
local function sweep_steps(job, at, places)
  local seen, left = 0, time_left(job, job.desired)
  local may_send = can_dispatch(job) and not (left and left <= 0) -- else the next drive sees the deadline
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
  -- What a scan in pieces has seen may be wrong, too: the next `expire` begins with the first step.
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

-- The place in `open` of the job to sweep next. Jobs end while others are swept, perhaps the one
-- that was swept last; then those created in the same ms are swept again.
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
-- Looks at one unfinished job, the oldest first. It trusts no index and no counter: it derives
-- `due`, the `waiting` of each step, and how many steps are open, busy and stuck, and mends what is
-- wrong. place…: what it has mended: due, open (the index), the number of a step, count:open,
-- count:busy, count:stuck; or `torn` and why the job cannot be read. The cursor is "" at the
-- beginning and at the end of a round; else
--   created job step edge missing seq had_busy back counts open busy stuck_do stuck_undo
-- step: '-' if the job is done. A step may have more neighbours than one call reads: `missing` of
-- those up to `edge` are not where the job wants them. That, and what was counted of the steps
-- before, holds only while the job does not change: its seq is the same, and its `busy` is had_busy
-- (a step that comes to rest adds no entry to the history). counts: 1 as long as it holds. back:
-- steps back of the clock before the round began. The same call again finds nothing more to mend.
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
    int(max(at.seq, 0)), int(at.had_busy), int(at.back), at.counts and '1' or '0', int(at.open), int(at.busy),
    int(at.stuck_do), int(at.stuck_undo)}, ' '), id, unpack(places)}
end

end

---- look ----

do

local reads = {EXISTS = true, GET = true, HGET = true, HMGET = true, TIME = true, ZCARD = true,
  ZCOUNT = true,
  ZRANGE = true, ZRANGEBYSCORE = true, ZRANK = true, ZSCORE = true}

-- look -> answer...
-- The dry run: answers what the function `name` would: expire, sweep or forget. It changes nothing.
-- The function runs as it is, but its calls of Redis that do not read are not made, and get 0 or 1
-- for an answer. Besides, Redis refuses any write of this function, which is registered without
-- writes.
function functions.look(p, name, list, first)
  local real = call
  call = function(command, ...)
    if reads[command] then
      return real(command, ...)
    end
    return command == 'HINCRBY' and 1 or 0
  end
  local dry = {expire = functions.expire, sweep = functions.sweep, forget = functions.forget}
  local good, answer = pcall(dry[name], p, unpack(list, first))
  call = real
  if not good then
    error(answer, 0)
  end
  return answer
end

end

-- version -> build
-- The build of this library.
function functions.version(p)
  return int(BUILD)
end
