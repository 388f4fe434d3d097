-- Calendar: a counter of a period of the calendar. Worst case in any time as long as a period: 2 x limit.
--
-- State:   an integer, the units charged; the key's expiry is the period's end
-- Params:  limit; then, in order, the beginnings of seven periods that follow each other, and the end of the last (ms): those around
--          the time, as far as the caller knows it. If the time is in none of them, HEADGATE_PERIOD and the time are raised: the
--          caller sends those around it
-- Returns: look: wait, remaining, reset, used, stop (or nil, error); commit: remaining, reset; adjust: remaining, reset, charged;
--          check: the end of the period that the time is in

local calendar = { params = 9 }

function calendar.check(p, now)
  if now >= p[2] then
    for i = 3, 9 do
      if now < p[i] then return p[i] end
    end
  end
  error({ err = string.format('HEADGATE_PERIOD %.0f', now) })
end

local function calendar_read(key, p, now, writable)
  local stop = calendar.check(p, now)
  local value = redis.pcall('GET', key)
  if not value then return 0, 0 end
  if type(value) == 'table' then return nil, value.err end
  local used = tonumber(value)
  local expiry = redis.call('PEXPIRETIME', key)
  if expiry <= now or not (used and used >= 0 and used < 2 ^ 53) then
    -- A key without a TTL has no period: it is no state.
    if writable and expiry == -1 then redis.call('DEL', key) end
    return 0, 0
  end
  -- The clock went back: nobody waits longer than until the period ends.
  if expiry > stop and writable then redis.call('PEXPIREAT', key, stop) end
  return used, math.min(expiry, stop)
end

local function calendar_write(key, used, stop)
  redis.call('SET', key, string.format('%.0f', used), 'PXAT', stop)
end

function calendar.look(key, p, cost, now, writable)
  local limit = p[1]
  local used, stop = calendar_read(key, p, now, writable)
  if not used then return nil, stop end
  local wait = 0
  if cost > 0 and used + cost > limit then wait = cost > limit and -1 or stop - now end
  return wait, math.max(0, limit - used), stop == 0 and 0 or stop - now, used, stop
end

function calendar.commit(key, p, cost, now, used, stop)
  if stop == 0 then stop = calendar.check(p, now) end
  calendar_write(key, used + cost, stop)
  return p[1] - used - cost, stop - now
end

function calendar.adjust(key, p, units, mark, now)
  local limit = p[1]
  local used, stop = calendar_read(key, p, now, true)
  if not used then return nil, stop end
  local charged = math.max(0, math.min(units, 2 ^ 52 - used))
  if charged > 0 then
    if stop == 0 then stop = calendar.check(p, now) end
    used = used + charged
  elseif stop ~= 0 and (mark == 0 or mark == stop) then
    used = math.max(0, used + units)
  end
  if used == 0 then
    if stop ~= 0 then redis.call('DEL', key) end
    return limit, 0, charged
  end
  calendar_write(key, used, stop)
  return math.max(0, limit - used), stop - now, charged
end
