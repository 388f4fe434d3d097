-- Sliding log: remembers when each unit was admitted. Exact: at most `limit` in any window, and never less.
--
-- State:   a ring in one string. Header of 20 bytes, big-endian: capacity (4), next slot (4), live units (4), time of the
--          newest unit (8, ms); then slots of 6 bytes, a time each. The oldest live unit is `live` slots behind `next`:
--          that tail moves on as units expire, so that nothing is searched while the oldest one still counts.
-- Params:  limit, window (ms)
-- Returns: look: wait, remaining, reset, next, live (or nil, error); commit and adjust: remaining, reset

local sliding_log = { params = 2 }

local function sliding_log_pack(time)
  return string.sub(struct.pack('>I8', time), 3)
end

-- The time in slot `i`, which may lie around the ring; 0 if the string is too short to have it.
local function sliding_log_time(key, capacity, i)
  local at = 20 + 6 * (i % capacity)
  local slot = redis.call('GETRANGE', key, at, at + 5)
  return #slot == 6 and (struct.unpack('>I8', '\0\0' .. slot)) or 0
end

local function sliding_log_header(p, next, live, newest)
  return struct.pack('>I4I4I4I8', p[1], next, live, newest)
end

-- The ring was written under another limit, or the clock went back: take it apart. No unit lies in the future; of more
-- than `limit` the newest are kept. Returns next, live, newest and the times, oldest first.
local function sliding_log_rebuild(key, p, now, writable, capacity, next, live)
  local limit, window = p[1], p[2]
  local value = redis.call('GET', key)
  if capacity < 1 or next >= capacity or live > capacity or live > (#value - 20) / 6 then return 0, 0, 0 end
  local all = {}
  for i = next - live, next - 1 do
    local at = 21 + 6 * (i % capacity)
    local slot = string.sub(value, at, at + 5)
    local time = #slot == 6 and (struct.unpack('>I8', '\0\0' .. slot)) or 0
    if time + window > now then all[#all + 1] = math.min(now, time) end
  end
  local times, slots = {}, {}
  for i = math.max(1, #all - limit + 1), #all do
    times[#times + 1] = all[i]
    slots[#slots + 1] = sliding_log_pack(all[i])
  end
  if #times == 0 then return 0, 0, 0 end
  local newest = times[#times]
  next = #times % limit
  if writable then
    redis.call('SET', key, sliding_log_header(p, next, #times, newest) .. table.concat(slots), 'PXAT', newest + window)
  end
  return next, #times, newest, times
end

-- Returns next, live, when all units have ended, newest, and the times if they had to be taken apart. No live units: as good as no
-- state. All units end with the key at the latest: it was written under a shorter window if that is before their time.
local function sliding_log_read(key, p, now, writable)
  local limit, window = p[1], p[2]
  local header = redis.pcall('GETRANGE', key, 0, 19)
  if type(header) == 'table' then return nil, header.err end
  local stop = redis.call('PEXPIRETIME', key)
  if stop <= now or #header < 20 then
    if writable and stop == -1 then redis.call('DEL', key) end
    return 0, 0, 0
  end
  local capacity, next, live, newest = struct.unpack('>I4I4I4I8', header)
  local times
  if capacity ~= limit or newest > now or next >= limit or live > limit then
    next, live, newest, times = sliding_log_rebuild(key, p, now, writable, capacity, next, live)
    stop = newest + window
  end
  if live == 0 or newest + window <= now then return 0, 0, 0 end
  local function counts(i)
    local time = times and times[#times - live + i + 1] or sliding_log_time(key, limit, next - live + i)
    return time + window > now
  end
  -- Move the tail past what has expired: a binary search, as the ring is in order of time and its newest still counts.
  if not counts(0) then
    local first, last = 1, live - 1
    while first < last do
      local middle = math.floor((first + last) / 2)
      if counts(middle) then last = middle else first = middle + 1 end
    end
    live = live - first
  end
  return next, live, math.min(stop, newest + window), newest, times
end

function sliding_log.look(key, p, cost, now, writable)
  local limit, window = p[1], p[2]
  local next, live, stop, _, times = sliding_log_read(key, p, now, writable)
  if not next then return nil, live end
  local wait = 0
  if cost > limit then
    wait = -1
  elseif cost > 0 and live + cost > limit then
    -- So many of the oldest must leave; the last of them says when.
    local leaving = live + cost - limit
    local time = times and times[#times - live + leaving] or sliding_log_time(key, limit, next - live + leaving - 1)
    wait = math.min(stop, time + window) - now
  end
  return wait, limit - live, live == 0 and 0 or stop - now, next, live
end

function sliding_log.commit(key, p, cost, now, next, live)
  local limit, window = p[1], p[2]
  local slot = sliding_log_pack(now)
  if live == 0 then
    local header = sliding_log_header(p, cost % limit, cost, now)
    redis.call('SET', key, header .. string.rep(slot, cost), 'PXAT', now + window)
    return limit - cost, window
  end
  local straight = math.min(cost, limit - next)
  redis.call('SETRANGE', key, 20 + 6 * next, string.rep(slot, straight))
  if straight < cost then redis.call('SETRANGE', key, 20, string.rep(slot, cost - straight)) end
  live = math.min(limit, live + cost)
  redis.call('SETRANGE', key, 0, sliding_log_header(p, (next + cost) % limit, live, now))
  redis.call('PEXPIREAT', key, now + window)
  return limit - live, window
end

function sliding_log.adjust(key, p, units, mark, now)
  local limit = p[1]
  local next, live, stop, newest = sliding_log_read(key, p, now, true)
  if not next then return nil, live end
  -- A debt takes the place of the oldest units: the ring is full, and nobody waits longer than one window.
  if units > 0 then return sliding_log.commit(key, p, math.min(units, limit), now, next, live) end
  -- The oldest units are given back: what stays counts longest, so that no window can hold more than `limit`.
  if live > 0 and (mark == 0 or mark > now) then
    live = math.max(0, live + units)
    if live == 0 then
      redis.call('DEL', key)
    else
      redis.call('SETRANGE', key, 0, sliding_log_header(p, next, live, newest))
    end
  end
  return limit - live, live == 0 and 0 or stop - now
end
