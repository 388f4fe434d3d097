-- Sliding window: counters of sub-windows ("segments"). The oldest, partly expired one counts whole: never over `limit`
-- in any window, at most 1/segments under. Segments start at a key's first request, so that keys don't expire together.
--
-- State:   width (1 byte), segment (4 bytes, ms), total, counters of all segments but the newest, newest first, each of
--          `width` bytes, big-endian. The newest one's counter is what the others leave of the total: a request in the
--          same segment rewrites the total alone. The key's expiry is the moment at which the newest no longer counts.
-- Params:  limit, segment (ms), segments, width (bytes a counter)
-- Returns: look: wait, remaining, reset, total, stop, older (or nil, error); commit and adjust: remaining, reset

local sliding_window = { params = 4 }

local SLIDING_WINDOW_FORMAT = { [1] = '>B', [2] = '>H', [4] = '>I4', [8] = '>I8' }

-- Newest segments without a unit are left out, so that the state ends when its last unit leaves. Returns that moment.
local function sliding_window_write(key, p, total, stop, older, newest)
  local format, skip = SLIDING_WINDOW_FORMAT[p[4]], 0
  while newest == 0 and skip < p[3] do
    skip = skip + 1
    newest = older[skip] or 0
  end
  local parts = { struct.pack('>BI4', p[4], p[2]), struct.pack(format, total) }
  for i = 1, p[3] do parts[i + 2] = struct.pack(format, older[i + skip] or 0) end
  stop = stop - skip * p[2]
  redis.call('SET', key, table.concat(parts), 'PXAT', stop)
  return stop
end

-- The counters in `value`, without the newest: older[1] is the segment before it.
local function sliding_window_older(value, width, segments)
  local format = SLIDING_WINDOW_FORMAT[width]
  local older, sum = {}, 0
  for i = 1, segments do
    local count = struct.unpack(format, value, 6 + width * i)
    older[i], sum = count, sum + count
  end
  return older, sum
end

-- Returns total, stop, older, newest; or total, stop, nil, value while the state's newest segment is the current one.
local function sliding_window_read(key, p, now, writable)
  local value = redis.pcall('GET', key)
  if not value then return 0, 0, {}, 0 end
  if type(value) == 'table' then return nil, value.err end
  local limit, segment, segments, width = p[1], p[2], p[3], p[4]
  local life = (segments + 1) * segment
  local stop = redis.call('PEXPIRETIME', key)
  local w, s = 0, 0
  if #value > 5 then w, s = struct.unpack('>BI4', value) end
  local n = SLIDING_WINDOW_FORMAT[w] and (#value - 5) / w - 1 or 0
  if stop <= now or s == 0 or n < 1 or n > 100 or n % 1 ~= 0 then
    if writable and stop == -1 then redis.call('DEL', key) end
    return 0, 0, {}, 0
  end
  local total = struct.unpack(SLIDING_WINDOW_FORMAT[w], value, 6)
  local heal = s ~= segment or n ~= segments or w ~= width
  local start = stop - (n + 1) * s
  if not heal and start <= now and now < start + segment then return total, stop, nil, value end

  -- The newest segment is over, or the layout is another, or the clock went back: take the counters apart.
  local older, sum = sliding_window_older(value, w, n)
  local newest = math.max(0, total - sum)
  if start > now then start, heal = now, true end
  if s ~= segment then
    -- The window was changed: what still counts by the old one moves to a segment that starts now.
    for i = 1, n - math.floor((now - start) / s) do newest = newest + older[i] end
    older, start = {}, now
  end
  -- Shift them by the segments that have begun since, and count, newest first, no more than two quotas: the oldest of a
  -- larger debt (the limit was lowered) would leave before it mattered.
  local passed = math.floor((now - start) / segment)
  local shifted, room = {}, 2 * limit
  for i = 0, segments do
    local from = i - passed
    local count = math.min(room, from == 0 and newest or older[from] or 0)
    shifted[i], room = count, room - count
  end
  total, newest, shifted[0] = 2 * limit - room, shifted[0], nil
  if total == 0 then return 0, 0, {}, 0 end
  stop = start + passed * segment + life
  if heal and writable then sliding_window_write(key, p, total, stop, shifted, newest) end
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
  local total, stop, older, newest = sliding_window_read(key, p, now, writable)
  if not total then return nil, stop end
  local remaining = total < limit and limit - total or 0
  local counters, reset = older, total == 0 and 0 or stop - now
  if older and total > 0 then reset = sliding_window_until(p, now, total, stop, older, 0) end
  if cost == 0 or total + cost <= limit then return 0, remaining, reset, total, stop, older end
  if cost > limit then return -1, remaining, reset end
  if not older then counters = sliding_window_older(newest, p[4], p[3]) end
  return sliding_window_until(p, now, total, stop, counters, limit - cost), remaining, reset
end

function sliding_window.commit(key, p, cost, now, total, stop, older)
  total = total + cost
  if not older then
    redis.call('SETRANGE', key, 5, struct.pack(SLIDING_WINDOW_FORMAT[p[4]], total))
  else
    if stop == 0 then stop = now + (p[3] + 1) * p[2] end
    sliding_window_write(key, p, total, stop, older, cost)
  end
  return p[1] - total, stop - now
end

function sliding_window.adjust(key, p, units, mark, now)
  local limit, segment, segments = p[1], p[2], p[3]
  local total, stop, older, newest = sliding_window_read(key, p, now, true)
  if not total then return nil, stop end
  if not older then
    local value, sum = newest, 0
    older, sum = sliding_window_older(value, p[4], segments)
    newest = total - sum
  end
  if units > 0 then
    if stop == 0 then stop = now + (segments + 1) * segment end
    newest = newest + math.max(0, math.min(units, 2 * limit - total))
  else
    -- Back to the segment that was charged; without a mark, from the oldest on, which frees least.
    for i = segments, 0, -1 do
      if mark == 0 or mark == stop - i * segment then
        local count = i == 0 and newest or older[i] or 0
        local back = math.min(count, -units)
        units = units + back
        if i == 0 then newest = count - back else older[i] = count - back end
      end
    end
  end
  total = newest
  for i = 1, segments do total = total + (older[i] or 0) end
  if total == 0 then
    if stop ~= 0 then redis.call('DEL', key) end
    return limit, 0
  end
  return math.max(0, limit - total), sliding_window_write(key, p, total, stop, older, newest) - now
end
