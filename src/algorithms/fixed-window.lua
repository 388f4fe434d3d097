-- Fixed window: a counter whose window starts at a key's first request. Worst case in any window: 2 x limit.
--
-- State:   an integer, the units charged; the key's expiry is the window's end.
-- Params:  limit, window (ms)
-- Returns: look: wait, remaining, reset, used, stop (or nil, error); commit and adjust: remaining, reset

local fixed_window = { params = 2 }

local function fixed_window_read(key, p, now, writable)
  local value = redis.pcall('GET', key)
  if not value then return 0, 0 end
  if type(value) == 'table' then return nil, value.err end
  local used = tonumber(value)
  local stop = redis.call('PEXPIRETIME', key)
  if stop <= now or not (used and used >= 0 and used < 2 ^ 53) then
    -- A key without a TTL has no window: it is no state.
    if writable and stop == -1 then redis.call('DEL', key) end
    return 0, 0
  end
  if stop > now + p[2] then
    -- The clock went back, or the window was shortened: nobody waits longer than one window.
    stop = now + p[2]
    if writable then redis.call('PEXPIREAT', key, stop) end
  end
  return used, stop
end

function fixed_window.look(key, p, cost, now, writable)
  local limit = p[1]
  local used, stop = fixed_window_read(key, p, now, writable)
  if not used then return nil, stop end
  local wait = 0
  if cost > 0 and used + cost > limit then wait = cost > limit and -1 or stop - now end
  return wait, used < limit and limit - used or 0, stop == 0 and 0 or stop - now, used, stop
end

function fixed_window.commit(key, p, cost, now, used, stop)
  if stop == 0 then
    redis.call('SET', key, cost, 'PXAT', now + p[2])
    return p[1] - cost, p[2]
  end
  -- INCRBY refuses some texts that tonumber takes; SET then raises what is not about the text (OOM).
  if type(redis.pcall('INCRBY', key, cost)) == 'table' then redis.call('SET', key, used + cost, 'PXAT', stop) end
  return p[1] - used - cost, stop - now
end

-- look and commit in one go, charging first, for what is common: a sound state. Returns wait, remaining, reset; or nothing,
-- and has changed nothing, where look must tell. `text` is the cost as it came: formatting numbers is slow.
function fixed_window.charge(key, p, cost, now, text)
  local limit, window, fresh = p[1], p[2], now + p[2]
  if cost > limit then return end
  local used = redis.pcall('INCRBY', key, text)
  if type(used) == 'table' then return end
  local stop = redis.call('PEXPIRETIME', key)
  if stop <= now then
    redis.call('SET', key, text, 'PXAT', fresh)
    return 0, limit - cost, window
  end
  local reset = stop - now
  if used >= cost and reset <= window then
    if used <= limit then return 0, limit - used, reset end
    redis.call('DECRBY', key, text)
    local before = used - cost
    return reset, before < limit and limit - before or 0, reset
  end
  redis.call('DECRBY', key, text)
end

function fixed_window.adjust(key, p, units, mark, now)
  local limit = p[1]
  local used, stop = fixed_window_read(key, p, now, true)
  if not used then return nil, stop end
  if units > 0 then
    if stop == 0 then stop = now + p[2] end
    used = math.max(used, math.min(used + units, 2 * limit))
  elseif stop ~= 0 and (mark == 0 or mark == stop) then
    used = math.max(0, used + units)
  end
  if used == 0 then
    if stop ~= 0 then redis.call('DEL', key) end
    return limit, 0
  end
  redis.call('SET', key, used, 'PXAT', stop)
  return math.max(0, limit - used), stop - now
end
