-- SPDX-License-Identifier: Apache-2.0
--
-- Answers of the functions that change a job: the code, and what the scheduler is to publish.

function put(out, ...)
  local n, list = #out, {...}
  for k = 1, #list do
    out[n + k] = list[k]
  end
end

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

-- Adds to the fields to read the results that the dispatches of this call take; for an undo also
-- the result of its forward action. Return: the numbers of the steps that have these results.
local function add_results(job, fields)
  local steps, seen = {}, {}
  for _, d in ipairs(job.dispatched) do
    local take = step_of(job.def, d.i).take
    for k = 1, #take + (d.rec.asked == STATE.DISABLED and 1 or 0) do
      local i = take[k] or d.i
      if not seen[i] then
        seen[i] = true
        fields[#fields + 1], steps[#steps + 1] = 'r' .. int(i), i
      end
    end
  end
  return steps
end

-- Adds to the fields to read the last error and the arguments of each dispatch that may have them.
-- Return: place of such a field -> its dispatch; nil for none.
local function add_own(job, fields)
  local own
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
  return own
end

-- Appends <request>.
local function put_request(out, d)
  local rec, n = d.rec, #out
  out[n + 1] = int(d.i) .. ' ' .. rec.asked .. ' ' .. rec.current .. ' ' .. int(rec.turn) .. ' '
    .. int(rec.attempt) .. ' ' .. rec.token .. ' ' .. int(rec.till) .. ' ' .. int(d.wait) .. ' '
    .. int(rec.failures) .. ' ' .. int(rec.expiries) .. (d.again and ' 1 ' or ' 0 ')
    .. int(rec.forward) .. (d.e and ' 1' or ' 0') .. (d.a and ' 1' or ' 0')
  if d.e then
    out[n + 2], n = d.e, n + 1
  end
  if d.a then
    out[n + 2] = d.a
  end
end

-- Appends <data>: the first n_first values, and the results of these steps, which follow them.
local function put_data(out, job, values, n_first, steps)
  local input, labels, traceparent, complete_by = unpack(values, 1, n_first)
  local n = #out
  out[n + 1] = input or ''
  if job.bare then
    out[n + 2] = '0 0 ' .. int(#steps)
  else
    out[n + 2], out[n + 3] = '1 ' .. (complete_by or '0') .. ' ' .. int(#steps), labels or ''
    out[n + 4] = traceparent or ''
    n = n + 2
  end
  for k = 1, #steps do
    out[n + 1 + 2 * k], out[n + 2 + 2 * k] = int(steps[k]), values[n_first + k] or ''
  end
end

-- Appends the requests of this call: the record of each, and the data once for all of them.
local function put_requests(out, job)
  if #job.dispatched == 0 then
    return
  end
  local fields = job.bare and {'input'} or {'input', 'labels', 'traceparent', 'complete_by'}
  local n_first = #fields
  local steps, own = add_results(job, fields), add_own(job, fields)
  local values = data_of(job, fields)
  if own then
    for k, d in pairs(own) do
      d[sub(fields[k], 1, 1)] = values[k]
    end
  end
  for _, d in ipairs(job.dispatched) do
    put_request(out, d)
  end
  put_data(out, job, values, n_first, steps)
end

-- Appends <transition> to an answer. Short words are joined into one value, because one more value
-- costs Redis, and the scheduler that reads it, more than a longer one. settled: seq of the end of
-- a turn, 0 for none. watermark: 0 if it has not grown. step_events: 1 if the job has events
-- `step`, 2 if `step_events` may have entries to read. <data> is what all requests carry.
function put_transition(out, code, job)
  local n = #out
  out[n + 1], out[n + 2] = code, job.def.digest
  out[n + 3] = int(job.now) .. ' ' .. int(job.seq) .. ' ' .. int(job.settled)
    .. (has_cursor_work(job) and ' 1' or ' 0') .. (job.events == '' and ' 0 ' or tells_steps(job))
    .. int(job.open) .. ' ' .. int(job.n) .. ' ' .. int(job.watermark) .. ' ' .. int(#job.alerts)
    .. ' ' .. int(#job.dispatched)
  for k, alert in ipairs(job.alerts) do
    out[n + 3 + k] = int(alert.i) .. ' ' .. alert.asked .. ' ' .. alert.reason .. ' '
      .. int(alert.seq)
  end
  put_requests(out, job)
end

-- A <transition> without a job: a code.
local NOTHING = ' 0 0 0 0 0 0 0 0 0'

function only_code(code, now)
  return {code, '', int(now) .. NOTHING}
end

function put_code(out, code, now)
  put(out, code, '', int(now) .. NOTHING)
end
