-- Fixed window: a counter whose window starts at a key's first request. Worst case in any window: 2 x limit.
--
-- State:   an integer; the key's expiry is the window's end. From 0 on: the units charged. Below 0, which is usual: the units less
--          2^22 times the window's end (ms, modulo 2^31), so that one INCRBY charges, and tells both.
-- Params:  limit, window (ms)
-- Returns: look: wait, remaining, reset, used, stop (or nil, error); commit: remaining, reset; adjust: remaining, reset, charged

local fixed_window = { params = 2 }

-- Whether units, with one more charge, stay below 2^22, and the window is no more than half of 2^31 ms, so that what has ended is told
-- from what has not.
local function fixed_window_packs(p, used)
  return p[1] < 2 ^ 20 and p[2] < 2 ^ 30 and used < 2 ^ 21
end

local function fixed_window_write(key, p, used, stop)
  local value = fixed_window_packs(p, used) and used - stop % 2 ^ 31 * 2 ^ 22 or used
  redis.call('SET', key, value, 'PXAT', stop)
end

local function fixed_window_read(key, p, now, writable)
  local value = redis.pcall('GET', key)
  if not value then return 0, 0 end
  if type(value) == 'table' then return nil, value.err end
  local used = tonumber(value)
  if used and used < 0 and used > -2 ^ 53 then used = used % 2 ^ 22 end
  local stop = redis.call('PEXPIRETIME', key)
  if stop <= now or not (used and used >= 0 and used < 2 ^ 53) then
    -- A key without a TTL has no window: it is no state.
    if writable and stop == -1 then redis.call('DEL', key) end
    return 0, 0
  end
  if stop > now + p[2] then
    -- The clock went back: nobody waits longer than one window.
    stop = now + p[2]
    if writable then fixed_window_write(key, p, used, stop) end
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
    fixed_window_write(key, p, cost, now + p[2])
    return p[1] - cost, p[2]
  end
  -- INCRBY would take a state from below 0 past its units; it refuses some texts that tonumber takes; SET then raises what is
  -- not about the text (OOM).
  local charged = used + cost < 2 ^ 21 and redis.pcall('INCRBY', key, cost)
  if type(charged) ~= 'number' then fixed_window_write(key, p, used + cost, stop) end
  return p[1] - used - cost, stop - now
end

-- look and commit in one go, charging first, for what is common: sound states. Decides the requests from first to last, all of one
-- cost, and appends their verdicts to a reply that is filled so far; stops before the first one for which look must tell. Returns
-- the request after those decided, and how far the reply is filled. `text` is the cost as it came: formatting numbers is slow.
-- `tested`: `now` is not the server's time, by which keys expire.
function fixed_window.charge(first, last, p, cost, text, now, tested, reply, filled)
  local limit, window = p[1], p[2]
  if cost > limit or not fixed_window_packs(p, 0) then return first, filled end
  for request = first, last do
    local key = KEYS[request]
    local value = redis.pcall('INCRBY', key, text)
    if type(value) == 'table' then return request, filled end
    if value == cost then
      -- There was no key.
      fixed_window_write(key, p, cost, now + window)
      filled = headgate_say(reply, filled, 0, limit - cost, window)
    else
      local used = value % 2 ^ 22
      local reset = value < 0 and ((used - value) / 2 ^ 22 - now) % 2 ^ 31 or 0
      -- A key that is there when its window is long over would seem to be in it.
      if tested and redis.call('PEXPIRETIME', key) ~= now + reset then reset = 0 end
      if reset > 0 and reset <= window and used <= limit then
        -- As headgate_say, which would be one more call for each.
        filled = filled + 1
        reply[filled] = reset * 2 ^ 20 + limit - used
      else
        redis.call('INCRBY', key, -cost)
        if reset == 0 or reset > window then return request, filled end
        local before = used - cost
        filled = headgate_say(reply, filled, reset, before < limit and limit - before or 0, reset)
      end
    end
  end
  return last + 1, filled
end

function fixed_window.adjust(key, p, units, mark, now)
  local limit = p[1]
  local used, stop = fixed_window_read(key, p, now, true)
  if not used then return nil, stop end
  local charged = math.max(0, math.min(units, 2 ^ 52 - used))
  if charged > 0 then
    if stop == 0 then stop = now + p[2] end
    used = used + charged
  elseif stop ~= 0 and (mark == 0 or mark == stop) then
    used = math.max(0, used + units)
    if used > 0 then
      redis.call('INCRBY', key, units)
      return math.max(0, limit - used), stop - now, 0
    end
  end
  if used == 0 then
    if stop ~= 0 then redis.call('DEL', key) end
    return limit, 0, charged
  end
  fixed_window_write(key, p, used, stop)
  return math.max(0, limit - used), stop - now, charged
end
