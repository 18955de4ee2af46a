-- SPDX-License-Identifier: Apache-2.0
--
-- The store's clock. `expire` records what the clock shows, so that a supervisor that has just
-- started knows of a jump, too.
--   Forward:  a supervisor that has watched the clock says by how much it jumped. Leases given
--             before the jump last longer by that, because their time has not passed. A supervisor
--             that has just started, and finds that `expire` was not called for longer than a
--             default lease, cannot tell whether the clock jumped. In both cases nothing expires
--             for a while (`quiet`).
--   Back:     times recorded before the clock was set back are too late until a sweep has derived
--             all of them again. The store counts how often the clock was set back (`back`), and up
--             to which of these a completed sweep has derived the times (`swept`).

local QUIET = 60000              -- ms without expiries after a jump of the clock: a default lease
local CLOCK_NOTED = 10000        -- ms after which `expire` records again what the clock shows
local CLOCK_STEP = 2000          -- ms by which the clock may go back unnoticed

function read_clock(p)
  local seen, quiet, back, jumped, by, swept = match(call('GET', p .. 'clock') or '',
    '^(%d+) (%d+) (%d+) (%d+) (%d+) ?(%d*)$')
  return {seen = tonumber(seen), quiet = tonumber(quiet) or 0, back = tonumber(back) or 0,
    jumped = tonumber(jumped) or 0, by = tonumber(by) or 0, swept = tonumber(swept) or 0}
end

function write_clock(p, clock)
  call('SET', p .. 'clock', concat({int(clock.seen), int(clock.quiet), int(clock.back),
    int(clock.jumped), int(clock.by), int(clock.swept)}, ' '))
end

-- Records what the clock shows, and whether it has jumped forward or was set back. since: from when
-- on the calling supervisor has watched the clock (0: not yet). jump: by how many ms the clock
-- jumped forward when the supervisor last saw that, between `after` and `at` (0: it has seen no
-- jump). A jump that the partition knows already changes nothing.
function watch_clock(p, now, since, jump, after, at)
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

-- Whether nothing may be done now only because a time has passed: the clock has jumped forward
-- lately, or `expire` was not called lately.
function is_quiet(p, now)
  local clock = read_clock(p)
  return now < clock.quiet or now > (clock.seen or now) + QUIET
end

-- When a lease of `given` ms that was to end at `till` ends: later if the clock has jumped forward
-- since it was given.
function lease_end(clock, till, given)
  return till - given < clock.jumped and till + clock.by or till
end
