-- Calendar: a counter per period of the calendar. Worst case in any time as long as a period: 2 x limit.
--
-- State:   'units@end': the units charged, and the period's end (ms)
-- Params:  limit; then the beginnings of three consecutive periods, and the end of the last one (ms). The caller sends the periods
--          around the time that it assumes. If the server's time is in none of them, the error HEADGATE_PERIOD tells that time,
--          and the caller sends the periods around it
-- Returns: look: wait, remaining, reset, used, stop (or nil, error); commit: remaining, reset; adjust: remaining, reset, charged;
--          check: the end of the period that the time is in

local kernel_params = 5

--- charge
-- Combines look and commit for the common case of states that end with this period. See fixed-window.lua.

local limit, place, stop = p[at + 1] + 0, at + 2, p[at + 2] + 0
if now >= stop then
  repeat
    place = place + 1
    stop = p[place] + 0
  until now < stop or place == at + 5
end
local reset, tail = place > at + 2 and stop - now or 0, '@' .. p[place]
local short = limit < 2 ^ 20 and reset < 2 ^ 32
while request <= last and cost <= limit and reset > 0 do
  local key = KEYS[request]
  before = redis.pcall('GET', key)
  local digits, used, wait = 0, 0, 0
  if before then
    -- An error is a table without a length.
    digits = #before - #tail
    used = digits > 0 and string.sub(before, digits + 1) == tail and tonumber(string.sub(before, 1, digits))
    if not used or redis.call('PTTL', key) < 0 then break end
  end
  if used + cost > limit then
    wait, before = reset, nil
  else
    used = used + cost
    local text = string.format(used < 2 ^ 31 and '%d' or '%.0f', used)
    -- As long as the units have as many digits, the TTL stays as it is.
    if #text == digits then
      redis.call('SETRANGE', key, '0', text)
    else
      redis.call('SET', key, text .. tail, 'PX', string.format(reset < 2 ^ 31 and '%d' or '%.0f', reset))
      if deadline < 0 then redis.call('PEXPIREAT', key, stop) end
    end
  end
  if wait == 0 and short then
    -- What headgate_say does, which is not yet defined.
    filled = filled + 1
    reply[filled] = reset * 2 ^ 20 + limit - used
  else
    reply[filled + 1], reply[filled + 2], reply[filled + 3], reply[filled + 4] = -1, wait, used < limit and limit - used or 0, reset
    filled = filled + 4
  end
  request = request + 1
end

--- rest

local function calendar_check(p, now)
  if now >= p[2] then
    for i = 3, 5 do
      if now < p[i] then return p[i] end
    end
  end
  error(string.format('HEADGATE_PERIOD %.0f', now), 0)
end

local function calendar_write(key, _, used, stop)
  headgate_set(key, string.format('%.0f@%.0f', used, stop), stop)
end

local function calendar_read(key, p, now, writable)
  local stop = calendar_check(p, now)
  local value = redis.pcall('GET', key)
  if not value then return 0, 0 end
  if type(value) == 'table' then return nil, value.err end
  local units, till = string.match(value, '^(%d+)@(%d+)$')
  local used, expiry = tonumber(units), tonumber(till)
  local sound = used and used < 2 ^ 53
  if not sound or expiry <= now then
    -- What has ended goes by its TTL: if the clock goes back, it counts again, as if nobody had asked meanwhile.
    if writable and (not sound or redis.call('PTTL', key) < 0) then redis.call('DEL', key) end
    return 0, 0
  end
  if writable and (expiry > stop or redis.call('PTTL', key) < 0) then
    -- Either the clock went back, and nobody may wait longer than until this period ends; or the key has lost its TTL.
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

--- changes

local function calendar_adjust(key, p, units, mark, now)
  return headgate_recount(key, p, units, mark, now, calendar_read, calendar_write, calendar_check(p, now))
end

headgate_kernel('calendar', {
  params = 5,
  check = calendar_check,
  look = calendar_look,
  commit = calendar_commit,
  adjust = calendar_adjust,
})
