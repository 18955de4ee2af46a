-- SPDX-License-Identifier: Apache-2.0
--
-- The store function `inspect`: reads, and changes nothing.

local PAGE_BYTES = 1048576       -- of errors and results in one page of the steps of a job

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
-- Registered workflows, "name@version", in the order of their names, from the first one after
-- `after` on. FOUND.
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
-- The entries of the history from number `start` on. first: the number of the first entry that is
-- kept; entries before it were cut off.
--   FOUND
--   UNKNOWN   there is no such job, or `owner` is not '' and another user has submitted it
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

-- Whether a job needs a person because of an error of this class, and because of a step of this
-- actor. '': any.
local function attention_matches(p, id, class, actor)
  local attention = call('HGET', p .. 'job:' .. id, 'attention') or ''
  local of, is = match(attention, '^%S+ %d+ %S+ (%S+) (%S+)$')
  return (class == '' or is == class) and (actor == '' or of == actor)
end

-- Whether a job is one of those that the caller has asked for.
local function listed(p, id, phase, workflow, labels, class, actor)
  if (class ~= '' or actor ~= '') and not attention_matches(p, id, class, actor) then
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
  for _, label in ipairs(split_texts(index or '')) do
    has[label] = true
  end
  for _, label in ipairs(labels) do
    if not has[label] then
      return false
    end
  end
  return true
end

-- The index of the label that the fewest jobs have.
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
-- The jobs that were created before the time `before`, or at that time with a lower id than
-- before_id (with any id if that is ''); newest first. At most BUDGET jobs are inspected; last,
-- last_id: the last of them. needs: 'any', or a kind, see need_of(). FOUND.
function functions.inspect_jobs(p, before, before_id, since, limit, phase, workflow, needs,
    error_class, actor, list, first)
  local labels = {unpack(list, first)}
  limit = min(tonumber(limit), BUDGET)
  local index = needs == 'any' and p .. 'needs' or needs ~= '' and p .. 'needs:' .. needs
    or #labels > 0 and rarest(p, labels)
    or workflow ~= '' and p .. 'w:' .. match(workflow, '^[^@]*')
    or (phase == 'PENDING' or phase == 'PROCESSING') and p .. 'open'
    or phase == 'ERROR' and p .. 'failed' or p .. 'jobs'
  local known = call('ZREVRANGEBYSCORE', index, before, since, 'WITHSCORES',
    'LIMIT', '0', int(BUDGET))
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
-- All data for the event of a notification, in one call, because each end of a turn costs such a
-- call. tries: how many tries to publish it have failed. outcome … failed: how that turn ended;
-- failed: the numbers of the steps that had failed for good. Of an alert: outcome is
-- ALERT, reason that of the alert, and failed "<step> 1" if it is about an undo, "<step> 0" if not,
-- or '' if it concerns no step. failure, error: see deciding.record_failure(). results: those of
-- the named steps that have one; '' if it did not fit into `limit` bytes. addresses: those of
-- earlier Submits.
--   FOUND
--   UNKNOWN   it is not in the outbox, or its next try is not due
function functions.inspect_notice(p, job_id, seq, limit, list, first)
  local data = p .. 'data:' .. job_id
  local workflow, submitter, labels, reply_to, correlation, traceparent, encoding, tries, settled,
    earlier, failure, failed_with = unpack(call('HMGET', data, 'workflow', 'submitter', 'labels',
    'reply_to', 'correlation', 'traceparent', 'format', 'n' .. seq, 's' .. seq, 'earlier',
    'w' .. seq, 'v' .. seq))
  local failed, due = failed_tries(tries)
  if not settled or due > now_ms() then
    return {'UNKNOWN'}
  end
  local digest, n = unpack(call('HMGET', p .. 'job:' .. job_id, 'def', 'n'))
  local out = {'FOUND', digest or '', match(n or '', '^%d%d?%d?%d?%d?$') or '1', workflow or '',
    submitter or '', labels or '', reply_to or '', correlation or '', traceparent or '',
    encoding or '', int(failed)}
  local ended = {notification_of(settled)}
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
  local addresses = split_texts(earlier or '')
  put(out, int(floor(#addresses / 2)), unpack(addresses))
  return out
end

local AGENTS_SOUGHT = 100        -- history entries that are searched for agents, or four a step

-- The last agent of each step, by number, as far as the last entries of the history name it.
local function agents_of(p, id, steps)
  local ends = {done = true, undone = true, failed = true, deferred = true, expired = true,
    silent = true}
  local agents = {}
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
-- A job. steps: from number `start` on, at most `count`; fewer if they are large. input and results
-- are '' unless with_data is 1.
--   FOUND
--   UNKNOWN   there is no such job, or `owner` is not '' and another user has submitted it
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
