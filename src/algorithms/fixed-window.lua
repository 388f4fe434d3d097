-- Fixed window: a counter whose window starts at a key's first request. Worst case in any window: 2 x limit.
--
-- State:   usually an integer below 0: the units charged, minus 2^22 times the window's end (ms, modulo 2^31, but 2^31 in place of 0).
--          An INCRBY then charges, and returns both. If units and end do not fit, 13 bytes, big-endian: the window's end (6, ms), the units (7).
-- Params:  limit, window (ms)
-- Returns: look: wait, remaining, reset, used, stop, packed (or nil, error); commit: remaining, reset; adjust: remaining, reset, charged

-- The section `charge` needs the function for a single check; the section `look` defines it.
local fixed_window_ended

--- section charge_params

--- params limit, window

--- section charge
-- Combines look and commit for the common case of valid states. charge.lua explains the variables.

local packs = limit < 2 ^ 20 and window < 2 ^ 30
-- Without a window there would be no TTL. The time of a test (deadline < 0) needs the rest.
local runs = window > 0 and (deadline >= 0 or fixed_window_ended)
while runs and request <= last and cost <= limit do
  local key = KEYS[request]
  -- Charges only a key with a TTL, so that no key is left without a TTL even if a later command is not permitted.
  local left = redis.call('PTTL', key)
  local wait, used, reset = 0, cost, window
  if left == -2 then
    local value = packs and cost - ((now + window - 1) % 2 ^ 31 + 1) * 2 ^ 22 or struct.pack('>I6I7', now + window, cost)
    local ttl = window
--- include common.ttl
    redis.call('SET', key, value, 'PX', ttl)
    if deadline < 0 then redis.call('PEXPIREAT', key, now + window) end
    before = false
  elseif left <= 0 then
    break
  elseif packs then
    local value = redis.pcall('INCRBY', key, text)
    if type(value) == 'table' then break end
    used = value % 2 ^ 22
    reset = value < 0 and ((used - value) / 2 ^ 22 - now) % 2 ^ 31 or 0
    before = value - cost
    local is_invalid = reset <= 0 or reset > window or deadline < 0 and fixed_window_ended(key, now)
    if is_invalid or used > limit then
      redis.call('INCRBY', key, -cost)
      if is_invalid then break end
      wait, used, before = reset, used - cost, nil
    end
  else
    -- The count does not fit into one integer together with the window's end.
    before = redis.pcall('GET', key)
    if type(before) == 'table' or #before ~= 13 then break end
    local stop
    stop, used = struct.unpack('>I6I7', before)
    used, reset = used + cost, stop - now
    if reset <= 0 or reset > window or used > limit then break end
    redis.call('SETRANGE', key, '6', struct.pack('>I7', used))
  end
  local remaining = used < limit and limit - used or 0
--- include common.verdict
  request = request + 1
end

--- section look

-- Whether a state fits into an integer. Units must stay below 2^22 after another charge. The window is at most half of 2^31 ms, so that a
-- past end differs from a future end.
local function fixed_window_packs(p, used)
  return p[1] < 2 ^ 20 and p[2] < 2 ^ 30 and used < 2 ^ 21
end

local function fixed_window_write(key, p, used, stop)
  local packs = fixed_window_packs(p, used)
  headgate_set(key, packs and used - ((stop - 1) % 2 ^ 31 + 1) * 2 ^ 22 or struct.pack('>I6I7', stop, used), stop)
  return packs
end

-- Modulo 2^31, an end long ago may look like a future one. By the server's time such a key has expired, but a test's time may be ahead.
function fixed_window_ended(key, now)
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
  -- An integer may have 13 characters, too.
  if not packed and #value == 13 then
    stop, used = struct.unpack('>I6I7', value)
  elseif packed and packed < 0 and packed > -2 ^ 53 then
    used = packed % 2 ^ 22
    -- The value contains the end modulo 2^31. Of the possible moments, take the one nearest to now.
    stop = now + ((used - packed) / 2 ^ 22 - now + 2 ^ 30) % 2 ^ 31 - 2 ^ 30
  end
  if not used or stop <= now or used > 2 ^ 53 or used % 1 > 0 then return 0, 0 end
  local late = stop > now + p[2]
  if late or packed and deadline < 0 then
    local ended, left = fixed_window_ended(key, now)
    if ended or late and left == -1 then return 0, 0 end
  end
  if late then
    -- The clock went back. No request may wait longer than one window.
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
  -- INCRBY must not push the units of a packed value past their bits, and refuses some texts that tonumber accepts. For such values, SET
  -- replaces the value, and raises errors that do not concern the text (OOM).
  local charged = packed and used + cost < 2 ^ 21 and redis.pcall('INCRBY', key, cost)
  if type(charged) ~= 'number' then
    fixed_window_write(key, p, used + cost, stop)
  elseif redis.call('PTTL', key) == -1 then
    headgate_heal(key, fixed_window_look, p)
  end
  return p[1] - used - cost, stop - now
end

local kernel_look, kernel_commit = fixed_window_look, fixed_window_commit

--- section adjust

local function fixed_window_adjust(key, p, units, mark, now)
  return headgate_recount(key, p, units, mark, now, fixed_window_read, fixed_window_write, now + p[2])
end

headgate_kernel('fixed-window', {
  look = fixed_window_look,
  commit = fixed_window_commit,
  adjust = fixed_window_adjust,
})
