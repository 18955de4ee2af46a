-- SPDX-License-Identifier: Apache-2.0
--
-- The store function `submit`: a new job, with its data and its indexes.

local ADDRESSES_KEPT = 4         -- addresses kept of a job besides that of its last Submit

-- The indexes for people that a job is in.
function index_keys(p, workflow, labels)
  local keys = {p .. 'jobs'}
  if workflow ~= '' then
    keys[2] = p .. 'w:' .. match(workflow, '^[^@]*')
  end
  for _, label in ipairs(split_texts(labels)) do
    keys[#keys + 1] = p .. 'l:' .. label
  end
  return keys
end

-- Whether the jobs of a user would take more than `bytes` of this partition (0: no limit) with
-- `cost` bytes more.
function over_bytes(p, owner, cost, bytes)
  return bytes > 0 and (tonumber(call('HGET', p .. 'users', owner) or '0') or 0) + cost > bytes
end

-- Sets the address for the event of the end: that of the last Submit. `earlier` keeps the reply_to
-- and correlation of the Submits before it, the newest first.
local function set_address(data, reply_to, correlation)
  local last_to, last_correlation, known = unpack(call('HMGET', data, 'reply_to', 'correlation',
    'earlier'))
  last_to, last_correlation = last_to or '', last_correlation or ''
  if last_to == reply_to and last_correlation == correlation then
    return
  end
  local addresses, earlier = {last_to, last_correlation, unpack(split_texts(known or ''))}, {}
  for k = 1, #addresses - 1, 2 do
    local to, its_correlation = addresses[k], addresses[k + 1]
    local same = to == reply_to and its_correlation == correlation
    if to ~= '' and not same and #earlier < ADDRESSES_KEPT then
      earlier[#earlier + 1] = #to .. ':' .. to .. #its_correlation .. ':' .. its_correlation
    end
  end
  call('HSET', data, 'reply_to', reply_to, 'correlation', correlation, 'earlier', concat(earlier))
end

local function submit_again(p, job, digest, redelivered, reply_to, correlation, owner, list, first)
  if call('HGET', job.key, 'digest') ~= digest or is_others(p, job.id, owner) then
    return only_code('CONFLICT', job.now)
  end
  if reply_to ~= '' then
    set_address(p .. 'data:' .. job.id, reply_to, correlation)
    for _, name, text in each.field(list, first) do
      if name == 'format' then
        call('HSET', p .. 'data:' .. job.id, name, text)
      end
    end
  end
  if redelivered == '1' then
    add_in_flight_after(job, WALK.ROOTS)
  end
  local out = {}
  put_transition(out, 'ALREADY', job)
  return out
end

local function put_if_set(data, name, value)
  if value ~= '' then
    local n = #data
    data[n + 1], data[n + 2] = name, value
  end
end

-- Writes the data of a new job: the address for its event, the labels for the indexes, and what
-- else the Submit says.
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

-- Adds a new job to the indexes, and counts it as a user of its definition.
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

-- Has save() write the constant fields of a new job, and the initial values of those that change
-- later.
local function write_first(job, digest, priority, complete_by)
  local c = job.changed
  c.def, c.digest, c.current = job.def.digest, digest, STATE.DISABLED
  c.desired, c.phase = job.desired, job.phase
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

-- Whether a definition that a Submit carries has the name of a registered workflow, and is not the
-- definition that is registered under this name and version.
local function takes_a_name(p, digest, full_name)
  local name = match(full_name or '', '^[^@]+')
  return name and call('HGET', p .. 'workflows', name)
    and call('HGET', p .. 'workflows', full_name) ~= digest
end

local JOB_BYTES = 2500           -- of a job without its steps, its labels and its Submit's texts
local STEP_BYTES = 250           -- of a step, with its history and a small result
local LABEL_BYTES = 250          -- of the index of a label that no other job has

-- About how many bytes of the store a job of n steps takes. The texts of its Submit count once,
-- labels three times.
local function cost_of(n, reply_to, correlation, labels, list, first)
  local cost = JOB_BYTES + n * STEP_BYTES + #split_texts(labels) * LABEL_BYTES + 2 * #labels
    + #reply_to + #correlation
  for _, name, text in each.field(list, first) do
    cost = cost + #text
  end
  return cost
end

-- Whether a user has as many jobs in this partition as are allowed (jobs; 0: no limit).
local function has_enough(p, owner, jobs)
  return jobs > 0 and call('ZCARD', p .. 'l:=' .. owner) >= jobs
end

-- Why a Submit is refused, whatever its definition is; nil if it is not.
local function refusal(p, now, start_at, complete_by, owner, horizon, jobs)
  if complete_by ~= '0' and tonumber(complete_by) <= now and not is_quiet(p, now) then
    return 'EXPIRED'
  elseif horizon > 0 and start_at > now + horizon then
    return 'TOO_FAR'
  elseif owner ~= '' and has_enough(p, owner, tonumber(jobs)) then
    return 'TOO_MANY'
  end
end

-- The definition for a Submit, its number of steps, its name with the version, and the terms of the
-- job as a whole; or nil and why the Submit is refused.
local function find_for_submit(p, definition, workflow)
  local digest = find_definition(p, definition, workflow)
  if not digest then
    return nil, 'UNKNOWN_WORKFLOW'
  end
  local def = definition_of(p, digest)
  local ready, n, full_name, terms_of_job, named = unpack(call('HMGET', def.key, 'ready', 'n',
    'name', 'job', 'named'))
  -- On this answer the scheduler stores the definition again.
  if ready ~= FORMAT or definition ~= '' and named ~= '2' and named ~= '0' then
    return nil, 'UNKNOWN_DEFINITION'
  elseif definition ~= '' and takes_a_name(p, definition, full_name) then
    return nil, 'NAME_TAKEN'
  end
  return def, tonumber(n), full_name or '', terms_of_job
end

-- When a new job is to be complete at the latest; '0' for no deadline.
local function complete_at(complete_by, terms_of_job, begins)
  local within = match(terms_of_job, '(%d+)$')
  if complete_by == '0' and within ~= '0' then
    return int(begins + tonumber(within))
  end
  return complete_by
end

-- submit -> <transition>
-- Records a job, and dispatches its roots unless it starts later. digest: of the content of the
-- Submit. definition: the digest of the definition that the Submit carries, or '' and the name of a
-- registered workflow. by: the calling scheduler. labels: for the indexes. field: of the job's
-- data. horizon: the latest allowed start_at, in ms from now. jobs, bytes: how many jobs the owner
-- may have in this partition, and how many bytes, as cost_of() counts them. 0: no limit.
--   CREATED
--   ALREADY              the job is known, with the same digest and owner. Nothing changes but the
--                        address of the client; with redelivered = 1 the answer has the requests in
--                        flight; of a job that has never turned those of the roots
--   CONFLICT             the job is known, with another digest or owner
-- Nothing is recorded with these codes:
--   EXPIRED              complete_by has passed
--   TOO_FAR              start_at is beyond the horizon
--   TOO_MANY             the owner has reached a limit
--   UNKNOWN_WORKFLOW     no such workflow is registered
--   UNKNOWN_DEFINITION   the definition is not stored, or not in this format
--   NAME_TAKEN           the definition has the name of a registered workflow
function functions.submit(p, job_id, digest, definition, workflow, redelivered, nonce, by, desired,
    start_at, complete_by, events, priority, reply_to, correlation, labels, owner, horizon, jobs,
    bytes, list, first)
  local now = now_ms()
  if call('EXISTS', p .. 'job:' .. job_id) == 1 then
    local job = load(p, job_id, now, '0')
    return submit_again(p, job, digest, redelivered, reply_to, correlation, owner, list, first)
  end
  start_at, owner, horizon = tonumber(start_at), owner or '', tonumber(horizon or '0')
  local code = refusal(p, now, start_at, complete_by, owner, horizon, jobs)
  if code then
    return only_code(code, now)
  end
  local def, n, full_name, terms_of_job = find_for_submit(p, definition, workflow)
  if not def then
    return only_code(n, now)
  end
  local cost = owner ~= '' and cost_of(n, reply_to, correlation, labels, list, first) or 0
  if owner ~= '' and over_bytes(p, owner, cost, tonumber(bytes)) then
    return only_code('TOO_MANY', now)
  end
  local later = start_at > now
  complete_by = complete_at(complete_by, terms_of_job, max(now, start_at))
  local job, out = job_new(p, job_id, now, def, n), {}
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
  add_history(job, 'created', def.digest, by)
  move_watermark(job)
  if desired ~= STATE.ACTIVE then
    job.open = 0
    settle(job, 'COMPENSATED', 'REQUESTED')
  elseif not later then
    job.cursor[1] = {from = WALK.ROOTS, offset = 0, edge = 0}
    drive_on(job, nonce)
  end
  save(job, not later and by or nil)
  put_transition(out, 'CREATED', job)
  return out
end
