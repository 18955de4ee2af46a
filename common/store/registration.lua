-- SPDX-License-Identifier: Apache-2.0
--
-- The dry run, the build, and the registration with Redis. `calls` is generated from schema.txt: it
-- passes each function its arguments. Redis refuses functions without allow-oom once it has no
-- memory left.

local reads = {EXISTS = true, GET = true, HGET = true, HGETALL = true, HMGET = true, TIME = true,
  ZCARD = true, ZCOUNT = true, ZRANGE = true, ZRANGEBYSCORE = true, ZRANK = true, ZSCORE = true}

-- look -> answer...
-- The dry run: answers what the function `name` (expire, sweep or forget) would answer, and changes
-- nothing. The function runs as it is, but its calls of Redis other than `reads` are not made, and
-- return 0 (HINCRBY: 1). Besides, Redis refuses any write, because `look` is registered with
-- no-writes.
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

-- version -> build
-- The build of this library.
function functions.version(p)
  return int(BUILD)
end

local function register(name, flags)
  redis.register_function{function_name = 'drover1_' .. name, callback = calls[name], flags = flags}
end

register('version', {'no-writes'})
register('define', {})
register('submit', {})
register('record', {'allow-oom'})
register('unsent', {'allow-oom'})
register('renew', {'allow-oom'})
register('taken', {'allow-oom'})
register('expire', {'allow-oom'})
register('drive', {'allow-oom'})
register('lost', {'allow-oom'})
register('steer', {'allow-oom'})
register('settle_owed', {'allow-oom'})
register('defer_owed', {'allow-oom'})
register('lead', {'allow-oom'})
register('inspect', {'no-writes', 'allow-oom'})
register('told', {'allow-oom'})
register('step_events', {'allow-oom'})
register('suspect', {'allow-oom'})
register('mark', {'allow-oom'})
register('forget', {'allow-oom'})
register('look', {'no-writes', 'allow-oom'})
register('sweep', {'allow-oom'})
