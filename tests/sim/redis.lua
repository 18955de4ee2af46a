-- SPDX-License-Identifier: Apache-2.0
--
-- A small Redis in memory, for the simulator: the commands that common/store/drover.lua uses, with
-- the replies and errors of Redis 7.0, and FUNCTION LOAD and FCALL for one library.
-- test_redis_diff holds it against a real server.
--
-- The chunk returns its interface; store.c is its only caller in the simulator.

local format, floor, match = string.format, math.floor, string.match
local insert, remove = table.insert, table.remove

local db = {}         -- key -> value; value.kind is hash, list, zset or string
local functions = {}  -- name -> {callback, flags}
local clock_ms = 0
local chance = 1      -- of HRANDFIELD
local read_only = false -- a function that is flagged no-writes is running

-- Errors are raised as Redis 7 raises them: a table with the text in err.
local function fail(text)
  error({err = text}, 0)
end

local WRONG_TYPE = 'WRONGTYPE Operation against a key holding the wrong kind of value'

local function lookup(key, kind)
  local value = db[key]
  if value and value.kind ~= kind then
    fail(WRONG_TYPE)
  end
  return value
end

local function integer(text)
  if not match(text, '^%-?[1-9]%d*$') and text ~= '0' then
    fail('ERR value is not an integer or out of range')
  end
  return tonumber(text)
end

local function plain_number(text)
  local lower = text:lower()
  if lower == 'inf' or lower == '+inf' or lower == 'infinity' or lower == '+infinity' then
    return math.huge
  elseif lower == '-inf' or lower == '-infinity' then
    return -math.huge
  elseif match(text, '^[%+%-]?[%d%.][%deE%.%+%-]*$') or match(text, '^0[xX]%x+$') then
    local number = tonumber(text)
    if number and math.abs(number) < math.huge then
      return number == 0 and 0 or number -- no minus zero
    end
  end
end

local function score_text(score)
  if score == math.huge then
    return 'inf'
  elseif score == -math.huge then
    return '-inf'
  end
  return format('%.17g', score)
end

-- Hashes: f maps fields to values, n counts them.

local function hash_for_write(key)
  local hash = lookup(key, 'hash')
  if not hash then
    hash = {kind = 'hash', n = 0, f = {}}
    db[key] = hash
  end
  return hash
end

local function hash_put(hash, field, value)
  local added = hash.f[field] == nil
  if added then
    hash.n = hash.n + 1
  end
  hash.f[field] = value
  return added and 1 or 0
end

local function hash_remove(hash, field)
  if hash.f[field] == nil then
    return 0
  end
  hash.f[field] = nil
  hash.n = hash.n - 1
  return 1
end

local commands, writes = {}, {}

function commands.HGET(a)
  local hash = lookup(a[1], 'hash')
  return hash and hash.f[a[2]] or false
end

function commands.HMGET(a)
  local hash, out = lookup(a[1], 'hash'), {}
  for k = 2, #a do
    out[k - 1] = hash and hash.f[a[k]] or false
  end
  return out
end

function writes.HSET(a)
  if #a % 2 == 0 then
    fail("ERR wrong number of arguments for 'hset' command")
  end
  local hash, added = hash_for_write(a[1]), 0
  for k = 2, #a, 2 do
    added = added + hash_put(hash, a[k], a[k + 1])
  end
  return added
end

function writes.HSETNX(a)
  local hash = lookup(a[1], 'hash')
  if hash and hash.f[a[2]] then
    return 0
  end
  return hash_put(hash_for_write(a[1]), a[2], a[3])
end

function writes.HDEL(a)
  local hash, removed = lookup(a[1], 'hash'), 0
  for k = 2, hash and #a or 0 do
    removed = removed + hash_remove(hash, a[k])
  end
  if hash and hash.n == 0 then
    db[a[1]] = nil
  end
  return removed
end

function writes.HINCRBY(a)
  local by = integer(a[3])
  local hash = lookup(a[1], 'hash')
  local old = hash and hash.f[a[2]] or '0'
  if old ~= '0' and not match(old, '^%-?[1-9]%d*$') then
    fail('ERR hash value is not an integer')
  end
  local sum = tonumber(old) + by
  hash_put(hash_for_write(a[1]), a[2], format('%.0f', sum))
  return sum
end

function commands.HEXISTS(a)
  local hash = lookup(a[1], 'hash')
  return hash and hash.f[a[2]] and 1 or 0
end

function commands.HGETALL(a)
  local hash, out = lookup(a[1], 'hash'), {}
  for field, value in pairs(hash and hash.f or {}) do
    insert(out, field)
    insert(out, value)
  end
  return out
end

-- Some at random, always with a count and WITHVALUES: those that follow one another from any on.
function commands.HRANDFIELD(a)
  if #a ~= 3 or a[3]:upper() ~= 'WITHVALUES' then
    fail('ERR syntax error')
  end
  local hash, count, fields, out = lookup(a[1], 'hash'), integer(a[2]), {}, {}
  for field in pairs(hash and hash.f or {}) do
    insert(fields, field)
  end
  chance = (chance * 16807 + 11) % 2147483647
  for k = 1, math.min(count, #fields) do
    local field = fields[(chance + k) % #fields + 1]
    insert(out, field)
    insert(out, hash.f[field])
  end
  return out
end

function commands.HSTRLEN(a)
  local hash = lookup(a[1], 'hash')
  return hash and hash.f[a[2]] and #hash.f[a[2]] or 0
end

-- Lists: plain arrays in v.

function writes.RPUSH(a)
  local list = lookup(a[1], 'list')
  if not list then
    list = {kind = 'list', v = {}}
    db[a[1]] = list
  end
  for k = 2, #a do
    list.v[#list.v + 1] = a[k]
  end
  return #list.v
end

local function range(length, first, last)
  first = first < 0 and math.max(length + first, 0) or first
  last = last < 0 and length + last or math.min(last, length - 1)
  return first + 1, last + 1
end

function commands.LRANGE(a)
  local first, last = integer(a[2]), integer(a[3])
  local list, out = lookup(a[1], 'list'), {}
  if list then
    first, last = range(#list.v, first, last)
    for k = first, last do
      out[#out + 1] = list.v[k]
    end
  end
  return out
end

function commands.LINDEX(a)
  local list = lookup(a[1], 'list')
  if not list then
    return false
  end
  local at = integer(a[2])
  return list.v[(at < 0 and #list.v + at or at) + 1] or false
end

function writes.LTRIM(a)
  local first, last = integer(a[2]), integer(a[3])
  local list = lookup(a[1], 'list')
  if list then
    local kept = {}
    first, last = range(#list.v, first, last)
    for k = first, last do
      kept[#kept + 1] = list.v[k]
    end
    list.v = kept
    if #kept == 0 then
      db[a[1]] = nil
    end
  end
  return {ok = 'OK'}
end

-- Sorted sets: score maps members to scores, order holds the members by score, then by bytes.

local function before(zset, member, score, text)
  local other = zset.score[member]
  return other < score or (other == score and member < text)
end

-- Where a member with this score stands, or would stand.
local function place(zset, score, text)
  local low, high = 1, #zset.order + 1
  while low < high do
    local middle = floor((low + high) / 2)
    if before(zset, zset.order[middle], score, text) then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

local function zset_put(zset, score, member)
  local old = zset.score[member]
  if old == score then
    return 0
  elseif old then
    remove(zset.order, place(zset, old, member))
  end
  local at = place(zset, score, member)
  zset.score[member] = score
  insert(zset.order, at, member)
  return old and 0 or 1
end

function writes.ZADD(a)
  if #a % 2 == 0 then
    fail('ERR syntax error')
  end
  local scores = {}
  for k = 2, #a, 2 do
    scores[k] = plain_number(a[k]) or fail('ERR value is not a valid float')
  end
  local zset, added = lookup(a[1], 'zset'), 0
  if not zset then
    zset = {kind = 'zset', score = {}, order = {}}
    db[a[1]] = zset
  end
  for k = 2, #a, 2 do
    added = added + zset_put(zset, scores[k], a[k + 1])
  end
  return added
end

function writes.ZREM(a)
  local zset, removed = lookup(a[1], 'zset'), 0
  for k = 2, zset and #a or 0 do
    local score = zset.score[a[k]]
    if score then
      remove(zset.order, place(zset, score, a[k]))
      zset.score[a[k]] = nil
      removed = removed + 1
    end
  end
  if zset and #zset.order == 0 then
    db[a[1]] = nil
  end
  return removed
end

function commands.ZSCORE(a)
  local zset = lookup(a[1], 'zset')
  local score = zset and zset.score[a[2]]
  return score and score_text(score) or false
end

function commands.ZRANGE(a)
  local first, last = integer(a[2]), integer(a[3])
  if a[4] and a[4]:upper() ~= 'WITHSCORES' then
    fail('ERR syntax error')
  end
  local zset, out = lookup(a[1], 'zset'), {}
  if zset then
    first, last = range(#zset.order, first, last)
    for k = first, last do
      out[#out + 1] = zset.order[k]
      if a[4] then
        out[#out + 1] = score_text(zset.score[zset.order[k]])
      end
    end
  end
  return out
end

local function bound(text)
  local exclusive = text:sub(1, 1) == '('
  local digits = exclusive and text:sub(2) or text
  local number = digits == '' and 0 or plain_number(digits)
  return number or fail('ERR min or max is not a float'), exclusive
end

-- Newest first, always with WITHSCORES and LIMIT: as the store functions use it.
function commands.ZREVRANGEBYSCORE(a)
  if #a ~= 7 or a[4]:upper() ~= 'WITHSCORES' or a[5]:upper() ~= 'LIMIT' then
    fail('ERR syntax error')
  end
  local skip, left = integer(a[6]), integer(a[7])
  local most, below = bound(a[2])
  local least, above = bound(a[3])
  local zset, out = lookup(a[1], 'zset'), {}
  for k = zset and #zset.order or 0, 1, -1 do
    local member = zset.order[k]
    local score = zset.score[member]
    if score < least or (above and score == least) or left == 0 or skip < 0 then
      break
    elseif score < most or (not below and score == most) then
      if skip > 0 then
        skip = skip - 1
      else
        out[#out + 1] = member
        out[#out + 1] = score_text(score)
        left = left - 1
      end
    end
  end
  return out
end

function commands.ZRANGEBYSCORE(a)
  local skip, left = 0, -1
  if a[4] then
    if a[4]:upper() ~= 'LIMIT' or #a ~= 6 then
      fail('ERR syntax error')
    end
    skip, left = integer(a[5]), integer(a[6])
  end
  local least, above = bound(a[2])
  local most, below = bound(a[3])
  local zset, out = lookup(a[1], 'zset'), {}
  for _, member in ipairs(zset and zset.order or {}) do
    local score = zset.score[member]
    if score > most or (below and score == most) or left == 0 or skip < 0 then
      break
    elseif score > least or (not above and score == least) then
      if skip > 0 then
        skip = skip - 1
      else
        out[#out + 1] = member
        left = left - 1
      end
    end
  end
  return out
end

-- Strings, keys, the clock.

function commands.GET(a)
  local value = lookup(a[1], 'string')
  return value and value.v or false
end

function writes.SET(a)
  db[a[1]] = {kind = 'string', v = a[2]}
  return {ok = 'OK'}
end

function writes.DEL(a)
  local count = 0
  for _, key in ipairs(a) do
    if db[key] then
      count = count + 1
      db[key] = nil
    end
  end
  return count
end

writes.UNLINK = writes.DEL

function commands.EXISTS(a)
  local count = 0
  for _, key in ipairs(a) do
    count = count + (db[key] and 1 or 0)
  end
  return count
end

function commands.TIME()
  return {format('%.0f', floor(clock_ms / 1000)), format('%.0f', clock_ms % 1000 * 1000)}
end

-- What functions see.

local function argument(value)
  local kind = type(value)
  if kind == 'string' then
    return value
  elseif kind == 'number' then
    return format('%.17g', value)
  end
  fail('ERR Lua redis lib command arguments must be strings or integers')
end

local function call(name, ...)
  local a = {...}
  for k = 1, select('#', ...) do
    if type(a[k]) ~= 'string' then
      a[k] = argument(a[k])
    end
  end
  local command = commands[name]
  if command then
    return command(a)
  end
  command = writes[name] or fail('ERR Unknown Redis command called from script')
  if read_only then
    fail('ERR Write commands are not allowed from read-only scripts.')
  end
  return command(a)
end

local STANDARD = {
  'assert', 'error', 'getmetatable', 'ipairs', 'math', 'next', 'pairs', 'pcall', 'rawequal',
  'rawget', 'rawset', 'select', 'setmetatable', 'string', 'table', 'tonumber', 'tostring', 'type',
  'unpack', 'xpcall',
}

local function read_flags(list)
  local flags = {}
  for _, flag in ipairs(list or {}) do
    flags[flag] = true
  end
  return flags
end

local function register_function(entry)
  if functions[entry.function_name] then
    fail('ERR Function already exists in the library')
  end
  functions[entry.function_name] = {callback = entry.callback, flags = read_flags(entry.flags)}
end

-- A library sees nothing but redis while it is loaded, and the standard library only when called.
local function load_library(chunk)
  local now = {redis = {register_function = register_function}}
  local protected = {
    __index = function(_, name)
      return now[name]
        or fail("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'")
    end,
    __newindex = function()
      fail('Attempt to modify a readonly table')
    end,
  }
  functions = {}
  setfenv(chunk, setmetatable({}, protected))
  chunk()
  now = {redis = {call = call}}
  for _, name in ipairs(STANDARD) do
    now[name] = _G[name]
  end
end

local api = {}

-- Empties the database and loads the library anew.
function api.reset(library)
  db, chance = {}, 1
  load_library(library)
  return db
end

function api.command(...)
  read_only = false
  return call(...)
end

-- FCALL with one key. Returns what the function returns, or raises.
function api.fcall(name, now_ms, out_of_memory, key, arguments)
  local entry = functions[name] or fail('ERR Function not found')
  if out_of_memory and not entry.flags['allow-oom'] and not entry.flags['no-writes'] then
    fail("OOM command not allowed when used memory > 'maxmemory'.")
  end
  clock_ms = now_ms
  read_only = entry.flags['no-writes']
  return entry.callback({key}, arguments)
end

return api
