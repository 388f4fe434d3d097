-- Fixed window: a counter whose window starts at a key's first request. Worst case in any window: 2 x limit.
--
-- State:   usually one integer below 0: the units charged, minus 2^22 times the window's end (ms, modulo 2^31). One INCRBY then
--          charges, and returns both. If they do not fit, 13 bytes, big-endian: the window's end (6, ms), the units (7).
-- Params:  limit, window (ms)
-- Returns: look: wait, remaining, reset, used, stop, packed (or nil, error); commit: remaining, reset; adjust: remaining, reset, charged

--- rest

-- Whether a state fits into one integer. Units must stay below 2^22 after one more charge. The window is at most half of 2^31 ms, so that
-- an end in the past can be told from one in the future.
local function fixed_window_packs(p, used)
  return p[1] < 2 ^ 20 and p[2] < 2 ^ 30 and used < 2 ^ 21
end

local function fixed_window_write(key, p, used, stop)
  local packs = fixed_window_packs(p, used)
  headgate_set(key, packs and used - stop % 2 ^ 31 * 2 ^ 22 or struct.pack('>I6I7', stop, used), stop)
  return packs
end

-- Modulo 2^31, an end long ago may look like one to come. By the server's time such a key has expired, but a test's time may be ahead.
local function fixed_window_ended(key, now)
  local left, time = redis.call('PTTL', key), redis.call('TIME')
  return left >= 0 and time[1] * 1000 + time[2] / 1000 + left <= now, left
end

-- Returns the units, the window's end, and, if INCRBY can charge, the packed value.
local function fixed_window_read(key, p, now, writable)
  local value = redis.pcall('GET', key)
  if not value then return 0, 0 end
  if type(value) == 'table' then return nil, value.err end
  local used, stop
  local packed = tonumber(value)
  if #value == 13 then
    stop, used = struct.unpack('>I6I7', value)
    packed = nil
  elseif packed and packed < 0 and packed > -2 ^ 53 then
    used = packed % 2 ^ 22
    -- The value holds the end modulo 2^31: of the possible moments, take the one nearest to now.
    stop = now + ((used - packed) / 2 ^ 22 - now + 2 ^ 30) % 2 ^ 31 - 2 ^ 30
  end
  if not used or stop <= now or used > 2 ^ 53 or used % 1 > 0 then return 0, 0 end
  local late = stop > now + p[2]
  if late or packed and deadline < 0 then
    local ended, left = fixed_window_ended(key, now)
    if ended or late and left == -1 then return 0, 0 end
  end
  if late then
    -- The clock went back. Nobody may wait longer than one window.
    stop = now + p[2]
    if writable then packed = fixed_window_write(key, p, used, stop) end
  end
  return used, stop, packed
end

local function fixed_window_look(key, p, cost, now, writable)
  local limit = p[1]
  local used, stop, packed = fixed_window_read(key, p, now, writable)
  if not used then return nil, stop end
  local wait = 0
  if cost > 0 and used + cost > limit then wait = cost > limit and -1 or stop - now end
  return wait, used < limit and limit - used or 0, stop == 0 and 0 or stop - now, used, stop, packed
end

local function fixed_window_commit(key, p, cost, now, used, stop, packed)
  if stop == 0 then
    fixed_window_write(key, p, cost, now + p[2])
    return p[1] - cost, p[2]
  end
  -- INCRBY must not push the units of a packed value past their bits. It refuses some texts that tonumber accepts; for those, SET writes
  -- the value anew, and raises errors that do not concern the text (OOM).
  local charged = packed and used + cost < 2 ^ 21 and redis.pcall('INCRBY', key, cost)
  if type(charged) ~= 'number' then
    fixed_window_write(key, p, used + cost, stop)
  elseif redis.call('PTTL', key) == -1 then
    headgate_heal(key, fixed_window_look, p)
  end
  return p[1] - used - cost, stop - now
end

-- Like fixed_window_charge, for counts that do not fit into one integer together with their window's end.
local function fixed_window_charge_long(first, last, p, cost, now, reply, filled)
  local limit, window = p[1], p[2]
  local before
  for request = first, last do
    local key = KEYS[request]
    before = redis.pcall('GET', key)
    local stop, used = now + window, cost
    if not before then
      fixed_window_write(key, p, cost, stop)
    elseif type(before) == 'table' or #before ~= 13 then
      return request, filled
    else
      stop, used = struct.unpack('>I6I7', before)
      used = used + cost
      if stop <= now or stop > now + window or used > limit then return request, filled end
      redis.call('SETRANGE', key, '6', struct.pack('>I7', used))
      if redis.call('PTTL', key) == -1 then headgate_heal(key, fixed_window_look, p) end
    end
    filled = headgate_say(reply, filled, 0, limit - used, stop - now)
  end
  return last + 1, filled, before
end

-- Combines look and commit for the common case of valid states, and charges first. It decides the requests from first to last, which all
-- have one cost. It appends their verdicts to a reply that already has `filled` elements, and stops before the first request that needs
-- look. Returns the request after the last decided one, the new length of the reply, and the last request's value from before its charge
-- (false: there was none; nil: it was denied). `text` is the cost as it was sent, because formatting numbers is slow.
local function fixed_window_charge(first, last, p, cost, text, now, reply, filled)
  local limit, window = p[1], p[2]
  -- Without a window no TTL could be set after INCRBY.
  if cost > limit or window < 1 then return first, filled end
  if not fixed_window_packs(p, 0) then return fixed_window_charge_long(first, last, p, cost, now, reply, filled) end
  local before
  for request = first, last do
    local key = KEYS[request]
    local value = redis.pcall('INCRBY', key, text)
    if type(value) == 'table' then return request, filled end
    if value == cost then
      -- The key did not exist.
      fixed_window_write(key, p, cost, now + window)
      filled = headgate_say(reply, filled, 0, limit - cost, window)
      before = false
    else
      local used = value % 2 ^ 22
      local reset = value < 0 and ((used - value) / 2 ^ 22 - now) % 2 ^ 31 or 0
      local sound = reset > 0 and reset <= window and (deadline >= 0 or not fixed_window_ended(key, now))
      if sound and redis.call('PTTL', key) == -1 then headgate_heal(key, fixed_window_look, p) end
      if sound and used <= limit then
        -- headgate_say inlined: it would cost one more call per request.
        filled = filled + 1
        reply[filled] = reset * 2 ^ 20 + limit - used
        before = value - cost
      else
        redis.call('INCRBY', key, -cost)
        if not sound then return request, filled end
        used = used - cost
        filled = headgate_say(reply, filled, reset, used < limit and limit - used or 0, reset)
        before = nil
      end
    end
  end
  return last + 1, filled, before
end

local kernel_params, kernel_look, kernel_commit, kernel_charge = 2, fixed_window_look, fixed_window_commit, fixed_window_charge

--- changes

local function fixed_window_adjust(key, p, units, mark, now)
  return headgate_recount(key, p, units, mark, now, fixed_window_read, fixed_window_write, now + p[2])
end

kernels['fixed-window'] = {
  params = 2,
  look = fixed_window_look,
  commit = fixed_window_commit,
  charge = fixed_window_charge,
  adjust = fixed_window_adjust,
}
