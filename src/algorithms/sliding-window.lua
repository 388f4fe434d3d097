-- Sliding window: counters of sub-windows ("segments"). The oldest segment has partly expired, and still counts whole. So a window
-- never has more than `limit`, and at most 1/segments less. Segments start at a key's first request: keys don't expire together.
--
-- State:   when the newest segment with units began (6 bytes, ms); then the total, and the counters of all segments, newest first, in
--          1, 2, 4 or 8 bytes each, whatever the largest total so far needs. All big-endian. A request in the newest segment rewrites
--          two numbers; a later one moves the counters as bytes. The key expires when its newest unit leaves.
-- Params:  limit, segment (ms), segments
-- Returns: look: wait, remaining, reset, total, start, value (or nil, error); commit: remaining, reset; adjust: remaining, reset,
--          charged

--- rest

local SLIDING_WINDOW_CODE = { [1] = 'B', [2] = 'H', [4] = 'I4', [8] = 'I8' }
local SLIDING_WINDOW_PAIR = { [1] = '>BB', [2] = '>HH', [4] = '>I4I4', [8] = '>I8I8' }
local SLIDING_WINDOW_HEAD = { [1] = '>I6BB', [2] = '>I6HH', [4] = '>I6I4I4', [8] = '>I6I8I8' }

-- The smallest counter width, in bytes, that holds a number.
local function sliding_window_width(units)
  if units < 2 ^ 8 then return 1 end
  if units < 2 ^ 16 then return 2 end
  return units < 2 ^ 32 and 4 or 8
end

-- Reads `count` counters, newest first, from a place in the value on.
local function sliding_window_unpack(value, width, count, place)
  return { struct.unpack('>' .. string.rep(SLIDING_WINDOW_CODE[width], count), value, place) }
end

-- The units of the oldest `count` segments.
local function sliding_window_oldest(value, width, count)
  local units, place = 0, #value - width * count + 1
  if count == 1 then return (struct.unpack('>' .. SLIDING_WINDOW_CODE[width], value, place)) end
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

-- Charges a segment that begins `passed` segments after the newest stored one. The counters between are 0, and as many old ones are
-- dropped.
local function sliding_window_move(key, p, value, last, passed, total, cost)
  local width = (#value - 6) / (p[3] + 2)
  local start = last + passed * p[2]
  local head = struct.pack(SLIDING_WINDOW_HEAD[width], start, total, cost)
  if passed > 1 then head = head .. string.rep('\0', width * (passed - 1)) end
  headgate_set(key, head .. string.sub(value, 7 + width, -1 - width * passed), start + (p[3] + 1) * p[2])
end

-- Writes the first units of a key.
local function sliding_window_begin(key, p, now, cost)
  local width = sliding_window_width(cost)
  local head = struct.pack(SLIDING_WINDOW_HEAD[width], now, cost, cost)
  headgate_set(key, head .. string.rep('\0', width * p[3]), now + (p[3] + 1) * p[2])
end

-- Writes the state, and returns its end. Newest segments without units are dropped, so that the state ends when its last unit leaves.
local function sliding_window_write(key, p, start, total, counters)
  local skip, segments = 0, p[3]
  while counters[skip + 1] == 0 and skip < segments do skip = skip + 1 end
  for i = 1, segments + 1 do counters[i] = i + skip <= segments + 1 and counters[i + skip] or 0 end
  start = start - skip * p[2]
  local stop = start + (segments + 1) * p[2]
  local width = sliding_window_width(total)
  local format = '>I6' .. string.rep(SLIDING_WINDOW_CODE[width], segments + 2)
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
  local format = SLIDING_WINDOW_HEAD[width]
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

-- The time until at most `allowed` units are left. Segments leave in order, the oldest first.
local function sliding_window_until(p, now, total, start, value, allowed)
  local passed = math.floor((now - start) / p[2])
  local counters = sliding_window_counters(value, p, 0)
  for i = p[3] - passed, 0, -1 do
    total = total - counters[i + 1]
    if total <= allowed then return start + (p[3] + 1 - i) * p[2] - now end
  end
  return start + (p[3] + 1) * p[2] - now
end

local function sliding_window_look(key, p, cost, now, writable)
  local limit = p[1]
  local total, start, value = sliding_window_read(key, p, now, writable)
  if not total then return nil, start end
  local remaining = total < limit and limit - total or 0
  local reset = value and start + (p[3] + 1) * p[2] - now or 0
  if cost == 0 or total + cost <= limit then return 0, remaining, reset, total, start, value end
  if cost > limit then return -1, remaining, reset end
  return sliding_window_until(p, now, total, start, value, limit - cost), remaining, reset
end

local function sliding_window_commit(key, p, cost, now, total, start, value)
  local segment, segments = p[2], p[3]
  local life = (segments + 1) * segment
  local sum = total + cost
  if not value then
    sliding_window_begin(key, p, now, cost)
    return p[1] - sum, life
  end
  local passed = math.floor((now - start) / segment)
  local width = (#value - 6) / (segments + 2)
  if sum >= 256 ^ width then
    local counters = sliding_window_counters(value, p, passed)
    counters[1] = counters[1] + cost
    sliding_window_write(key, p, start + passed * segment, sum, counters)
  elseif passed == 0 then
    local _, newest = struct.unpack(SLIDING_WINDOW_PAIR[width], value, 7)
    redis.call('SETRANGE', key, '6', struct.pack(SLIDING_WINDOW_PAIR[width], sum, newest + cost))
    if redis.call('PTTL', key) == -1 then headgate_heal(key, sliding_window_look, p) end
  else
    sliding_window_move(key, p, value, start, passed, sum, cost)
  end
  return p[1] - sum, start + passed * segment + life - now
end

-- Combines look and commit for the common case: valid states whose counters can hold one more charge. See fixed-window.lua.
local function sliding_window_charge(first, last, p, cost, _, now, reply, filled)
  local limit, segment, segments = p[1], p[2], p[3]
  local life = (segments + 1) * segment
  if cost > limit then return first, filled end
  local short = limit < 2 ^ 20 and life < 2 ^ 32
  local value, size, width, head, pair, most
  for request = first, last do
    local key = KEYS[request]
    value = redis.pcall('GET', key)
    local age, total, wait = 0, cost, 0
    if not value then
      sliding_window_begin(key, p, now, cost)
    elseif type(value) == 'table' then
      return request, filled
    else
      if #value ~= size then
        size = #value
        width = (size - 6) / (segments + 2)
        head, pair = SLIDING_WINDOW_HEAD[width], SLIDING_WINDOW_PAIR[width]
        if not head then return request, filled end
        most = 256 ^ width
      end
      local start, before, newest = struct.unpack(head, value)
      age, total = now - start, before + cost
      if age < 0 or age >= life then return request, filled end
      local passed = 0
      if age >= segment then
        passed = math.floor(age / segment)
        total = total - sliding_window_oldest(value, width, passed)
        if total < cost then return request, filled end
      end
      if total > limit then
        wait = sliding_window_until(p, now, total - cost, start, value, limit - cost)
      else
        if total >= most then return request, filled end
        if passed == 0 then
          redis.call('SETRANGE', key, '6', struct.pack(pair, total, newest + cost))
        else
          age = age - passed * segment
          sliding_window_move(key, p, value, start, passed, total, cost)
        end
      end
      -- The TTL changes only if a later segment is charged.
      if (wait > 0 or passed == 0) and redis.call('PTTL', key) == -1 then headgate_heal(key, sliding_window_look, p) end
    end
    if wait > 0 then
      total = total - cost
      filled = headgate_say(reply, filled, wait, total < limit and limit - total or 0, life - age)
      value = nil
    elseif short then
      -- headgate_say inlined: it would cost one more call per request.
      filled = filled + 1
      reply[filled] = (life - age) * 2 ^ 20 + limit - total
    else
      filled = headgate_say(reply, filled, 0, limit - total, life - age)
    end
  end
  return last + 1, filled, value
end

local kernel_params, kernel_look, kernel_commit, kernel_charge = 3, sliding_window_look, sliding_window_commit, sliding_window_charge

--- changes

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
    -- Give back to the segment that was charged. Without a mark, start with the oldest segment, which frees units least early.
    local stop = start + (segments + 1) * segment
    for i = segments + 1, 1, -1 do
      if mark == 0 or mark == stop - (i - 1) * segment then
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

kernels['sliding-window'] = {
  params = 3,
  look = sliding_window_look,
  commit = sliding_window_commit,
  charge = sliding_window_charge,
  adjust = sliding_window_adjust,
}
