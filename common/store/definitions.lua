-- SPDX-License-Identifier: Apache-2.0
--
-- Definitions of workflows: how they are read, and the store function `define`, which stores them.
-- A definition never changes, and its name is the digest of its content, so a parsed one may be
-- kept for good.

local CACHED_STEPS = 20000       -- steps of definitions that are kept parsed

local cache, cached_steps = {}, 0

function numbers(text)
  local list = {}
  for word in gmatch(text, '%d+') do
    list[#list + 1] = tonumber(word)
  end
  return list
end

-- The terms of a dispatch, in either direction:
--   lock wait heartbeat backoff_initial backoff_factor backoff_max attempts expiries jitter park
--       on_permanent on_exhausted silence|non_retryable
-- on_permanent and on_exhausted are letters (RECOURSE) without a space between them. The terms of a
-- revert end with |actor, unless a build before 42 has stored them.
local TERMS = '^(%d+) (%d+) (%d+) (%d+) (%S+) (%d+) (%d+) (%d+) (%S+) (%-?%d+) (%u)(%u) ?(%d*)'
  .. '|([^|]*)'

-- A step of a definition: the terms of its forward action, then
--   |n_after n_dependents revert waived|take|after|dependents|name|actor
-- revert and waived are digits without a space between them. Builds before 36 have stored no name,
-- those before 42 no actor, those before 46 no silence interval.
local STEP_LINE = TERMS .. '|(%d+) (%d+) (%d)(%d)|([%d ]*)|([%d ]*)|([%d ]*)|?([^|]*)|?(%S*)$'

local function terms(lock, wait, heartbeat, backoff_initial, backoff_factor, backoff_max, attempts,
    expiries, jitter, park, on_permanent, on_exhausted, silence, non_retryable, actor)
  local t = {
    lock = tonumber(lock), wait = tonumber(wait), heartbeat = tonumber(heartbeat),
    backoff_initial = tonumber(backoff_initial), backoff_factor = tonumber(backoff_factor),
    backoff_max = tonumber(backoff_max),
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
  local lock, wait, heartbeat, backoff_initial, backoff_factor, backoff_max, attempts, expiries,
    jitter, park, on_permanent, on_exhausted, silence, non_retryable, n_after, n_dependents, revert,
    waived, take, after, dependents, name, actor = match(line, STEP_LINE)
  return {
    forward = terms(lock, wait, heartbeat, backoff_initial, backoff_factor, backoff_max, attempts,
      expiries, jitter, park, on_permanent, on_exhausted, silence, non_retryable, actor),
    has_revert = revert == '1', waived = waived == '1',
    n_after = tonumber(n_after), n_dependents = tonumber(n_dependents),
    take = numbers(take), after_text = after, dependents_text = dependents, dependents = {},
    name = name,
  }
end

function definition_of(p, digest)
  local key = p .. 'def:' .. digest
  local def = cache[key]
  if not def then
    def = {key = key, digest = digest, steps = {}}
    cache[key] = def
  end
  return def
end

-- Counts steps that are about to be parsed. If the cache would become too large it is emptied.
local function count_cached(def, count)
  if cached_steps + count > CACHED_STEPS then
    cache, cached_steps = {[def.key] = def}, 0
    def.steps = {}
  end
  cached_steps = cached_steps + count
end

-- Step i of a definition. Step WALK.ROOTS is an artificial step; its dependents are the roots.
function step_of(def, i)
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
-- definition, because it has no names of steps.
function is_other_step(def, i, name)
  local own = step_of(def, i).name
  return own ~= '' and own ~= name and call('HGET', def.key, 'x' .. name)
end

-- Reads the listed steps that are not parsed yet, with one call of Redis.
function prefetch(def, list)
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

-- The terms of step i for one direction: asked is ACTIVE or DISABLED.
function terms_of(def, i, asked)
  local step = step_of(def, i)
  if asked == STATE.ACTIVE then
    return step.forward
  end
  if not step.revert then
    step.revert = terms(match(call('HGET', def.key, 'v' .. i), TERMS .. '|?(%S*)$'))
  end
  return step.revert
end

-- Whether a message came from agents of another actor than that of the step's last dispatch. False
-- if the broker does not name the actor of the sender, or a build before 42 has stored the
-- definition.
function is_other_actor(job, i, rec, actor)
  local own = actor and actor ~= '' and terms_of(job.def, i, rec.asked).actor
  return own and own ~= '' and own ~= actor
end

-- The piece of the list of dependents of step i that contains `offset`, and the offset at which the
-- piece begins.
function dependents_at(def, i, offset)
  local step = step_of(def, i)
  local piece = floor(offset / CHUNK)
  if not step.dependents[piece] then
    step.dependents[piece] = numbers(piece == 0 and step.dependents_text
      or call('HGET', def.key, i .. '/' .. piece) or '')
  end
  return step.dependents[piece], piece * CHUNK
end

-- Records that a job, or a command that waits, does not use the definition any more, and deletes
-- the definition if nothing else uses it.
function release_definition(p, digest)
  if call('HINCRBY', p .. 'def:' .. digest, 'refs', -1) <= 0 then
    call('UNLINK', p .. 'def:' .. digest)
    cache[p .. 'def:' .. digest] = nil
  end
end

function hold_definition(p, digest)
  if call('HINCRBY', p .. 'def:' .. digest, 'refs', 1) == 1 then
    call('ZREM', p .. 'defs', digest)
  end
end

-- Stores a piece of a definition. If nothing uses the definition yet, `forget` deletes it later.
local function store_piece(p, now, key, digest, values, list, first)
  for k = first, #list do
    values[#values + 1] = list[k]
  end
  local refs = call('HGET', key, 'refs')
  for from = 1, #values, 2000 do
    call('HSET', key, unpack(values, from, min(from + 1999, #values)))
  end
  if not refs or refs == '0' then
    call('ZADD', p .. 'defs', int(now), digest)
  end
end

-- Marks a definition as usable, after all its pieces are stored.
local function complete(key, total)
  local has_actors = true
  for _, line in ipairs(call('HMGET', key, '0', int(tonumber(total) - 1))) do
    has_actors = has_actors and line and parse_step(line).forward.actor ~= ''
  end
  call('HSET', key, 'ready', FORMAT, 'named', has_actors and '2' or '0')
  call('HSETNX', key, 'refs', '0')
  cache[key] = nil
end

-- define -> code
-- Stores a definition, of `total` steps. A large one comes in pieces, one for each call; it can be
-- used once the piece with last = 1 is stored. With registered = 1 it can be found by name and
-- version. The same call again changes nothing, with one exception: a definition that a build
-- before 42 has stored gets the names of its steps and their actors.
--   DEFINED    all pieces are stored
--   MORE       this piece is stored, and is not the last one
--   CONFLICT   another definition is registered under the same name and version
-- The field `named`:
--   2          the definition has the names and the actors of its steps
--   0          a scheduler older than build 42 has stored the definition by this library
--   other      an earlier library has stored the definition
function functions.define(p, digest, name, version, total, blob, last, registered, list, first)
  local key, full = p .. 'def:' .. digest, name .. '@' .. version
  if registered == '1' then
    local taken = call('HGET', p .. 'workflows', full)
    if taken and taken ~= digest then
      return {'CONFLICT'}
    end
  end
  local ready, named = unpack(call('HMGET', key, 'ready', 'named'))
  if ready ~= FORMAT or named ~= '2' then
    local now, values = now_ms(), {'n', total}
    if ready and ready < '3' then
      put(values, 'renewed', int(now))
    end
    if blob ~= '' then
      put(values, 'name', name ~= '' and full or '', 'blob', blob)
    end
    store_piece(p, now, key, digest, values, list, first)
    if last ~= '1' then
      return {'MORE'}
    end
    complete(key, total)
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

-- The digest of the definition that a Submit names by its digest, or by a workflow "name" or
-- "name@version". nil or false if there is none.
function find_definition(p, digest, workflow)
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
