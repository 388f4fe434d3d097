-- Sliding window: counters of sub-windows ("segments"). The oldest, partly expired one counts whole: never over `limit`
-- in any window, at most 1/segments under. Segments start at a key's first request, so that keys don't expire together.
--
-- State:   total, then the counters of all segments but the newest, newest first: each of 1, 2, 4 or 8 bytes, big-endian, as many as
--          the total needed when it was written. The newest one's counter is what the others leave of the total: a request in
--          the same segment rewrites the total alone. The key's expiry is the moment at which the newest no longer counts.
-- Params:  limit, segment (ms), segments
-- Returns: look: wait, remaining, reset, total, stop, counters (or nil, error); commit: remaining, reset; adjust: remaining, reset,
--          charged

local sliding_window = { params = 3 }

local SLIDING_WINDOW_FORMAT = { [1] = '>B', [2] = '>H', [4] = '>I4', [8] = '>I8' }

local function sliding_window_width(count)
  if count < 2 ^ 8 then return 1 end
  if count < 2 ^ 16 then return 2 end
  return count < 2 ^ 32 and 4 or 8
end

-- Newest segments without a unit are left out, so that the state ends when its last unit leaves. Returns that moment.
local function sliding_window_write(key, p, total, stop, older, newest)
  local format, skip = SLIDING_WINDOW_FORMAT[sliding_window_width(total)], 0
  while newest == 0 and skip < p[3] do
    skip = skip + 1
    newest = older[skip] or 0
  end
  local parts = { struct.pack(format, total) }
  for i = 1, p[3] do parts[i + 1] = struct.pack(format, older[i + skip] or 0) end
  stop = stop - skip * p[2]
  redis.call('SET', key, table.concat(parts), 'PXAT', stop)
  return stop
end

-- The counters in `value`: older[1] is the segment before the newest, whose own comes second.
local function sliding_window_unpack(value, segments, total)
  local width = #value / (segments + 1)
  local format = SLIDING_WINDOW_FORMAT[width]
  local older, newest = {}, total
  for i = 1, segments do
    local count = struct.unpack(format, value, 1 + width * i)
    older[i], newest = count, newest - count
  end
  return older, math.max(0, newest)
end

-- Returns total, stop, older, newest; or total, stop, value while the state's newest segment is the current one.
local function sliding_window_read(key, p, now, writable)
  local value = redis.pcall('GET', key)
  if not value then return 0, 0, {}, 0 end
  if type(value) == 'table' then return nil, value.err end
  local segment, segments = p[2], p[3]
  local life = (segments + 1) * segment
  local stop = redis.call('PEXPIRETIME', key)
  local format = SLIDING_WINDOW_FORMAT[#value / (segments + 1)]
  if stop <= now or not format then
    if writable and stop == -1 then redis.call('DEL', key) end
    return 0, 0, {}, 0
  end
  local total = struct.unpack(format, value)
  local start = stop - life
  if start <= now and now < start + segment then return total, stop, value end

  -- The newest segment is over, or the clock went back: take the counters apart.
  local older, newest = sliding_window_unpack(value, segments, total)
  older[0] = newest
  local healing = start > now
  if healing then start = now end
  local passed = math.floor((now - start) / segment)
  local shifted = {}
  total = 0
  for i = 1, segments do
    shifted[i] = older[i - passed] or 0
    total = total + shifted[i]
  end
  newest = older[-passed] or 0
  total = total + newest
  if total == 0 then return 0, 0, {}, 0 end
  stop = start + passed * segment + life
  if healing and writable then sliding_window_write(key, p, total, stop, shifted, newest) end
  return total, stop, shifted, newest
end

-- The time until at most `allowed` units are left: segments leave from the oldest on.
local function sliding_window_until(p, now, total, stop, older, allowed)
  for i = p[3], 1, -1 do
    total = total - (older[i] or 0)
    if total <= allowed then return stop - i * p[2] - now end
  end
  return stop - now
end

function sliding_window.look(key, p, cost, now, writable)
  local limit = p[1]
  local total, stop, counters = sliding_window_read(key, p, now, writable)
  if not total then return nil, stop end
  local current = type(counters) == 'string'
  local remaining = total < limit and limit - total or 0
  local reset = total == 0 and 0 or stop - now
  if not current and total > 0 then reset = sliding_window_until(p, now, total, stop, counters, 0) end
  if cost == 0 or total + cost <= limit then return 0, remaining, reset, total, stop, counters end
  if cost > limit then return -1, remaining, reset end
  local older = current and sliding_window_unpack(counters, p[3], total) or counters
  return sliding_window_until(p, now, total, stop, older, limit - cost), remaining, reset
end

function sliding_window.commit(key, p, cost, now, total, stop, counters)
  local sum, newest = total + cost, cost
  if type(counters) == 'string' then
    local width = #counters / (p[3] + 1)
    if sliding_window_width(sum) <= width then
      redis.call('SETRANGE', key, 0, struct.pack(SLIDING_WINDOW_FORMAT[width], sum))
      return p[1] - sum, stop - now
    end
    counters, newest = sliding_window_unpack(counters, p[3], total)
    newest = newest + cost
  end
  if stop == 0 then stop = now + (p[3] + 1) * p[2] end
  sliding_window_write(key, p, sum, stop, counters, newest)
  return p[1] - sum, stop - now
end

function sliding_window.adjust(key, p, units, mark, now)
  local limit, segment, segments = p[1], p[2], p[3]
  local total, stop, older, newest = sliding_window_read(key, p, now, true)
  if not total then return nil, stop end
  if type(older) == 'string' then
    local value = older
    older, newest = sliding_window_unpack(value, segments, total)
    if units < 0 and mark == stop and -units < newest then
      redis.call('SETRANGE', key, 0, struct.pack(SLIDING_WINDOW_FORMAT[#value / (segments + 1)], total + units))
      return math.max(0, limit - total - units), stop - now, 0
    end
  end
  local charged = math.max(0, math.min(units, 2 ^ 52 - total))
  if charged > 0 then
    if stop == 0 then stop = now + (segments + 1) * segment end
    newest, total = newest + charged, total + charged
  else
    -- Back to the segment that was charged; without a mark, from the oldest on, which frees least.
    for i = segments, 0, -1 do
      if mark == 0 or mark == stop - i * segment then
        local count = i == 0 and newest or older[i] or 0
        local back = math.min(count, -units)
        units, total = units + back, total - back
        if i == 0 then newest = count - back else older[i] = count - back end
      end
    end
  end
  if total == 0 then
    if stop ~= 0 then redis.call('DEL', key) end
    return limit, 0, charged
  end
  return math.max(0, limit - total), sliding_window_write(key, p, total, stop, older, newest) - now, charged
end
