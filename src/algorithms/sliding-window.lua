-- Sliding window: counters of sub-windows ("segments"). The oldest segment, part of which has expired, counts in full. So a window never
-- has more than `limit`, and at most 1/segments less. Segments start at a key's first request, so that keys do not expire together.
--
-- State:   the start of the newest segment with units (6 bytes, ms); then the total, and the counters of all segments, newest first, in
--          1, 2, 4 or 8 bytes each, as the largest total so far needs. All big-endian. A request in the newest segment rewrites two
--          numbers; a later one moves the counters as bytes. The key expires when its newest unit leaves.
-- Params:  limit, segment (ms), segments
-- Returns: look: wait, remaining, reset, total, start, value (or nil, error); commit: remaining, reset; adjust: remaining, reset,
--          charged

--- section charge_params

--- params limit, segment, segments

--- section charge
-- Combines look and commit for the common case: valid states whose counters can hold one more charge. See charge.lua.

local life = (segments + 1) * segment
local size, width, head, most
while request <= last and cost <= limit do
  local key = KEYS[request]
--- value
  local age, total, wait = 0, cost, 0
  if not before then
    local bytes = cost < 2 ^ 8 and 1 or cost < 2 ^ 16 and 2 or cost < 2 ^ 32 and 4 or 8
    local state = struct.pack('>I6I' .. bytes .. 'I' .. bytes, now, cost, cost) .. string.rep('\0', bytes * segments)
    local ttl = life
--- include common.ttl
    redis.call('SET', key, state, 'PX', ttl)
    if deadline < 0 then redis.call('PEXPIREAT', key, now + life) end
  else
    -- An error is a table without a length, which no state has.
    if #before ~= size then
      size = #before
      width = (size - 6) / (segments + 2)
      if width == 1 then head, most = '>I6I1I1', 2 ^ 8
      elseif width == 2 then head, most = '>I6I2I2', 2 ^ 16
      elseif width == 4 then head, most = '>I6I4I4', 2 ^ 32
      elseif width == 8 then head, most = '>I6I8I8', 2 ^ 64
      else break end
    end
    local start, sum, newest = struct.unpack(head, before)
    age, total = now - start, sum + cost
    if age < 0 then break end
    if age < segment and total <= limit and total < most then
      -- The TTL changes only if a later segment is charged.
      if redis.call('PTTL', key) == -1 then break end
      redis.call('SETRANGE', key, '0', struct.pack(head, start, total, newest + cost))
    else
      if age >= life then break end
      local passed, format = math.floor(age / segment), '>I' .. width
      for i = 1, passed do total = total - struct.unpack(format, before, size + 1 - width * i) end
      if total < cost or total <= limit and total >= most then break end
      if total > limit then
        if redis.call('PTTL', key) == -1 then break end
        total = total - cost
        -- As in sliding_window_until, which is not yet defined.
        local newer, left = segments - passed, total
        while newer > 0 do
          left = left - struct.unpack(format, before, 7 + width * (newer + 1))
          if left <= limit - cost then break end
          newer = newer - 1
        end
        wait, before = start + (segments + 1 - newer) * segment - now, nil
      else
        -- A later segment begins. The counters between are 0, and as many old ones are dropped.
        age = age - passed * segment
        local state = struct.pack(head, now - age, total, cost)
        if passed > 1 then state = state .. string.rep('\0', width * (passed - 1)) end
        state = state .. string.sub(before, 7 + width, -1 - width * passed)
        local ttl = life - age
--- include common.ttl
        redis.call('SET', key, state, 'PX', ttl)
        if deadline < 0 then redis.call('PEXPIREAT', key, now + life - age) end
      end
    end
  end
  local remaining, reset = total < limit and limit - total or 0, life - age
--- include common.verdict
  request = request + 1
end

--- section look

-- The format of a state's first numbers, for a counter width: the newest segment's start, the total, the newest counter.
local function sliding_window_head(width)
  if width == 1 then return '>I6I1I1' end
  if width == 2 then return '>I6I2I2' end
  return width == 4 and '>I6I4I4' or width == 8 and '>I6I8I8' or nil
end

-- The smallest counter width, in bytes, that holds a number.
local function sliding_window_width(units)
  if units < 2 ^ 8 then return 1 end
  if units < 2 ^ 16 then return 2 end
  return units < 2 ^ 32 and 4 or 8
end

-- Reads `count` counters, newest first, starting at a place in the value.
local function sliding_window_unpack(value, width, count, place)
  return { struct.unpack('>' .. string.rep('I' .. width, count), value, place) }
end

-- The units of the oldest `count` segments.
local function sliding_window_oldest(value, width, count)
  local units, place = 0, #value - width * count + 1
  if count == 1 then return (struct.unpack('>I' .. width, value, place)) end
  local counters = sliding_window_unpack(value, width, count, place)
  for i = 1, count do units = units + counters[i] end
  return units
end

-- The counters, newest first, after `passed` further segments have begun.
local function sliding_window_counters(value, p, passed)
  local width = (#value - 6) / (p[3] + 2)
  local later = string.rep('\0', width * passed) .. string.sub(value, 7 + width)
  return sliding_window_unpack(later, width, p[3] + 1, 1)
end

-- Writes the state and returns the state's end. Newest segments without units are dropped, so that the state ends when the last unit leaves.
local function sliding_window_write(key, p, start, total, counters)
  local skip, segments = 0, p[3]
  if segments >= 2 ^ 20 then error('invalid segments') end
  while counters[skip + 1] == 0 and skip < segments do skip = skip + 1 end
  for i = 1, segments + 1 do counters[i] = i + skip <= segments + 1 and counters[i + skip] or 0 end
  start = start - skip * p[2]
  local stop = start + (segments + 1) * p[2]
  local width = sliding_window_width(total)
  local format = '>I6' .. string.rep('I' .. width, segments + 2)
  headgate_set(key, struct.pack(format, start, total, unpack(counters, 1, segments + 1)), stop)
  return stop
end

-- Returns the current total, the start of the newest segment with units, and the value; 0, 0 if there is no state.
local function sliding_window_read(key, p, now, writable)
  local value = redis.pcall('GET', key)
  if not value then return 0, 0 end
  if type(value) == 'table' then return nil, value.err end
  local segment, segments = p[2], p[3]
  local width = (#value - 6) / (segments + 2)
  local format = sliding_window_head(width)
  if not format then return 0, 0 end
  local start, total = struct.unpack(format, value)
  local age = now - start
  if age >= (segments + 1) * segment then return 0, 0 end
  if age < 0 then
    -- The clock went back. No segment may begin in the future.
    start, value = now, struct.pack('>I6', now) .. string.sub(value, 7)
    if writable then headgate_set(key, value, now + (segments + 1) * segment) end
  elseif age >= segment then
    total = math.max(0, total - sliding_window_oldest(value, width, math.floor(age / segment)))
  end
  return total, start, value
end

-- The time until at most `allowed` units are left. Segments leave in order, oldest first.
local function sliding_window_until(segment, segments, now, total, start, value, allowed)
  local width = (#value - 6) / (segments + 2)
  local newer, format = segments - math.floor((now - start) / segment), '>I' .. width
  while newer > 0 do
    total = total - struct.unpack(format, value, 7 + width * (newer + 1))
    if total <= allowed then break end
    newer = newer - 1
  end
  return start + (segments + 1 - newer) * segment - now
end

local function sliding_window_look(key, p, cost, now, writable)
  local limit = p[1]
  local total, start, value = sliding_window_read(key, p, now, writable)
  if not total then return nil, start end
  local remaining = total < limit and limit - total or 0
  local reset = value and start + (p[3] + 1) * p[2] - now or 0
  if cost == 0 or total + cost <= limit then return 0, remaining, reset, total, start, value end
  if cost > limit then return -1, remaining, reset end
  return sliding_window_until(p[2], p[3], now, total, start, value, limit - cost), remaining, reset
end

local function sliding_window_commit(key, p, cost, now, total, start, value)
  local segment, segments = p[2], p[3]
  local life = (segments + 1) * segment
  local sum = total + cost
  if not value then
    sliding_window_write(key, p, now, cost, { cost })
    return p[1] - sum, life
  end
  local passed = math.floor((now - start) / segment)
  local width = (#value - 6) / (segments + 2)
  if passed > 0 or sum >= 256 ^ width then
    local counters = sliding_window_counters(value, p, passed)
    counters[1] = counters[1] + cost
    sliding_window_write(key, p, start + passed * segment, sum, counters)
  else
    local format = sliding_window_head(width)
    local _, _, newest = struct.unpack(format, value)
    redis.call('SETRANGE', key, '0', struct.pack(format, start, sum, newest + cost))
    if redis.call('PTTL', key) == -1 then headgate_heal(key, sliding_window_look, p) end
  end
  return p[1] - sum, start + passed * segment + life - now
end

local kernel_look, kernel_commit = sliding_window_look, sliding_window_commit

--- section adjust

local function sliding_window_adjust(key, p, units, mark, now)
  local limit, segment, segments = p[1], p[2], p[3]
  local total, start, value = sliding_window_read(key, p, now, true)
  if not total then return nil, start end
  local counters = {}
  if value then
    local passed = math.floor((now - start) / segment)
    counters, start = sliding_window_counters(value, p, passed), start + passed * segment
  end
  local charged = math.max(0, math.min(units, 2 ^ 52 - total))
  if charged > 0 then
    if not value then start = now end
    counters[1], total = (counters[1] or 0) + charged, total + charged
  elseif value then
    -- Give back to the segment that was charged. Without a mark, start with the oldest segment, whose units become free soonest anyway.
    local stop = start + (segments + 1) * segment
    for i = segments + 1, 1, -1 do
      -- If the clock went back, all segments end earlier than at the charge.
      if mark == 0 or math.ceil((stop - mark) / segment) == i - 1 then
        local back = math.min(counters[i], -units)
        units, total, counters[i] = units + back, total - back, counters[i] - back
      end
    end
  end
  if total == 0 then
    if value then redis.call('DEL', key) end
    return limit, 0, charged
  end
  return math.max(0, limit - total), sliding_window_write(key, p, start, total, counters) - now, charged
end

headgate_kernel('sliding-window', {
  look = sliding_window_look,
  commit = sliding_window_commit,
  adjust = sliding_window_adjust,
})
