-- SPDX-License-Identifier: Apache-2.0
--
-- The store functions `renew` and `taken`: evidence that an agent has a request.

-- The record of the step that is in flight under this token, its number and its job; or nil and the
-- code of the answer.
local function in_flight(p, now, id, token)
  local i = tonumber(match(token, '^(%d+)%.[%w_-]+$'))
  local job = i and load(p, id, now, int(i))
  local rec = job and job.step_text and parse_record(job.step_text)
  if not rec or rec.token ~= token or rec.state ~= STEP.IN_FLIGHT then
    return nil, job and 'STALE' or 'UNKNOWN_JOB'
  end
  return rec, i, job
end

-- renew -> <renewed>
-- Records a Progress: an agent works on the request, and has had it for `elapsed` ms (0: it does
-- not say). LockedUntil becomes the end of the agent's lease, `lock` ms from when the agent
-- received the request; if the step has heartbeats, at most three of them from now, so that the
-- death of the agent shows early. LockedUntil never becomes later than the dispatch has set it. A
-- further Progress never makes it earlier, because the broker may have given the request to another
-- agent after the first one died, and that agent has a lease of its own.
-- fraction: "fraction" or "fraction@agent". wanted: 0 if the agent is to stop. begins: 1 if this is
-- the first Progress of the dispatch and the client has asked for step events. The same call again
-- changes at most LockedUntil.
--   RENEWED
-- Answers without `begins`:
--   STALE         the token is not in flight; or the lease was over before the first Progress
--   UNKNOWN_JOB
--   OTHER_ACTOR   the Progress came from the agents of another actor
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
    return {'STALE', '0', '0', int(now)} -- the lease was over before the first Progress came
  end
  local lease = now + t.lock - min(elapsed, t.lock)
  if t.heartbeat > 0 then
    lease = min(lease, now + 3 * t.heartbeat)
  end
  if known then
    lease = max(lease, rec.till) -- a late Progress does not shorten the lease of another agent
  end
  call('HSET', p .. 'data:' .. job_id, 'p' .. i,
    format('%s %.0f %s %s', token, limit, fraction, note))
  set_state(job, i, rec, STEP.IN_FLIGHT, min(limit, lease))
  local begins = not known and job.events == 'reply'
  if begins then
    add_history(job, 'began', i, rec.attempt, token_id(i, token), match(fraction, '@(%S+)$'))
  end
  save(job)
  local left = time_left(job, rec.asked)
  local wanted = not finished(job) and not is_obsolete(job, rec) and not (left and left <= 0)
  return {'RENEWED', wanted and '1' or '0', int(rec.till), int(now), begins and '1' or '0'}
end

-- taken -> code
-- Records as evidence that a scheduler has seen, before the wait of the request was over, that the
-- request is no longer in its queue.
--   TAKEN
--   STALE         the token is not in flight
--   UNKNOWN_JOB
function functions.taken(p, job_id, token)
  local rec, i = in_flight(p, now_ms(), job_id, token)
  if not rec then
    return {i}
  end
  call('HSET', p .. 'data:' .. job_id, 't' .. i, token)
  return {'TAKEN'}
end
