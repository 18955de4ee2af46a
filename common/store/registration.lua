-- SPDX-License-Identifier: Apache-2.0
--
-- Registers the store functions with Redis. `calls` is made of schema.txt: it hands each function
-- its arguments. Functions without allow-oom are refused once Redis has no memory left.

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
register('steer', {'allow-oom'})
register('settle_owed', {'allow-oom'})
register('lead', {'allow-oom'})
register('inspect', {'no-writes', 'allow-oom'})
register('told', {'allow-oom'})
register('step_events', {'allow-oom'})
register('suspect', {'allow-oom'})
register('mark', {'allow-oom'})
register('forget', {'allow-oom'})
register('look', {'no-writes', 'allow-oom'})
register('sweep', {'allow-oom'})
