-- SPDX-License-Identifier: Apache-2.0
--
-- What Redis and Lua offer, and texts of numbers. While Redis loads a library the standard library
-- of Lua is not there, so set_up() sets these names at the first call.

function set_up()
  ipairs, tonumber, unpack = globals()
  floor, min, max = math.floor, math.min, math.max
  format, match, gmatch, sub = string.format, string.match, string.gmatch, string.sub
  concat = table.concat
  call = redis.call
end

-- An integer below 2^53 as text: tostring would turn milliseconds into 1.7e+12. Formatting a number
-- costs as much as a small redis.call, so texts are kept: those of small numbers for good, those of
-- large numbers as long as the same numbers are likely to be needed again. The text of a large
-- number is joined from two kept pieces, because times have their first digits in common.

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

function int(number)
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

-- The number that a text stands for, or nil. Parsing a number costs as much as a small redis.call,
-- so numbers of up to three digits are kept.

local kept = {}

function num(text)
  local number = kept[text]
  if not number then
    number = tonumber(text)
    if number and #text <= 3 then
      kept[text] = number
    end
  end
  return number
end

function now_ms()
  local seconds, micros = unpack(call('TIME'))
  return tonumber(seconds) * 1000 + floor(tonumber(micros) / 1000)
end

-- "4:a=bc7:site=hh" -> {"a=bc", "site=hh"}: labels, addresses, words of a command.
function split_texts(text)
  local list, at = {}, 1
  while at <= #text do
    local len, start = match(text, '^(%d+):()', at)
    if not len then
      break -- damaged; no error, because the job must still be forgotten
    end
    at = start + tonumber(len)
    list[#list + 1] = sub(text, start, at - 1)
  end
  return list
end
