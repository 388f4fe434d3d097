-- Calendar: a counter per period of the calendar. Worst case in any time as long as a period: 2 x limit.
--
-- State:   13 bytes, big-endian: the period's end (6, ms), the units (7)
-- Params:  limit; then the beginnings of two consecutive periods, and the end of the second period (ms). The caller sends the current
--          period by the caller's time, and the next. If the server's time is in neither, the error HEADGATE_PERIOD contains the server's
--          time, and the caller sends the periods from there on
-- Returns: look: wait, remaining, reset, used, stop (or nil, error); commit: remaining, reset; adjust: remaining, reset, charged;
--          check: the end of the current period

--- section signals
-- The beginning of the errors that reach the caller as values. See signal.lua.

local headgate_signals = '^HEADGATE_PERIOD'

--- section charge_params

--- params limit, start, stop, next_stop

--- section charge
-- Combines look and commit for the common case of states that end with the current period. See charge.lua.

if now >= stop then stop = next_stop end
local reset = now >= start and stop - now or 0
while request <= last and cost <= limit and reset > 0 do
  local key = KEYS[request]
--- value
  local used, wait = 0, 0
  if before then
    -- An error is a table without a length.
    if #before ~= 13 then break end
    local till
    till, used = struct.unpack('>I6I7', before)
    if till ~= stop or redis.call('PTTL', key) < 0 then break end
  end
  if used + cost > limit then
    wait, before = reset, nil
  else
    used = used + cost
    if before then
      redis.call('SETRANGE', key, '6', struct.pack('>I7', used))
    else
      local ttl = reset
--- include common.ttl
      redis.call('SET', key, struct.pack('>I6I7', stop, used), 'PX', ttl)
      if deadline < 0 then redis.call('PEXPIREAT', key, stop) end
    end
  end
  local remaining = used < limit and limit - used or 0
--- include common.verdict
  request = request + 1
end

--- section look

local function calendar_check(p, now)
  if now >= p[2] then
    for i = 3, 4 do
      if now < p[i] then return p[i] end
    end
  end
  error(string.format('HEADGATE_PERIOD %.0f', now), 0)
end

local function calendar_write(key, _, used, stop)
  headgate_set(key, struct.pack('>I6I7', stop, used), stop)
end

local function calendar_read(key, p, now, writable)
  local stop = calendar_check(p, now)
  local value = redis.pcall('GET', key)
  if not value then return 0, 0 end
  if type(value) == 'table' then return nil, value.err end
  local sound, expiry, used = #value == 13
  if sound then
    expiry, used = struct.unpack('>I6I7', value)
    sound = used < 2 ^ 53
  end
  if not sound or expiry <= now then
    -- An ended counter is left to its TTL: if the clock goes back, the counter is in force again, as if no request had come meanwhile.
    if writable and (not sound or redis.call('PTTL', key) < 0) then redis.call('DEL', key) end
    return 0, 0
  end
  if writable and (expiry > stop or redis.call('PTTL', key) < 0) then
    -- Either the clock went back, and no request may wait beyond the end of this period, or the key has lost its TTL.
    expiry = math.min(expiry, stop)
    calendar_write(key, p, used, expiry)
  end
  return used, math.min(expiry, stop)
end

local function calendar_look(key, p, cost, now, writable)
  local limit = p[1]
  local used, stop = calendar_read(key, p, now, writable)
  if not used then return nil, stop end
  local wait = 0
  if cost > 0 and used + cost > limit then wait = cost > limit and -1 or stop - now end
  return wait, math.max(0, limit - used), stop == 0 and 0 or stop - now, used, stop
end

local function calendar_commit(key, p, cost, now, used, stop)
  if stop == 0 then stop = calendar_check(p, now) end
  calendar_write(key, p, used + cost, stop)
  return p[1] - used - cost, stop - now
end

local kernel_look, kernel_commit = calendar_look, calendar_commit

--- section adjust

local function calendar_adjust(key, p, units, mark, now)
  return headgate_recount(key, p, units, mark, now, calendar_read, calendar_write, calendar_check(p, now))
end

headgate_kernel('calendar', {
  check = calendar_check,
  look = calendar_look,
  commit = calendar_commit,
  adjust = calendar_adjust,
})
