-- Concurrency: at most `limit` units at a time. A slot is held until it is released or its lease ends.
--
-- State:   a sorted set with a member per unit, `<lease>:<i>`, scored by the end of its lease (ms).
-- Params:  limit, lease (ms)
-- Returns: look: wait, remaining, reset, held, stop (or nil, error); commit and adjust: remaining, reset;
--          release and renew: 1 if the lease was still held, else 0 (or nil, error)

local concurrency = { params = 2 }

-- Returns the units that are held, and the end of the last lease.
local function concurrency_read(key, p, now, writable)
  local lease = p[2]
  local stop = redis.call('PEXPIRETIME', key)
  if stop == -2 then return 0, 0 end
  local held = redis.pcall('ZCOUNT', key, string.format('(%.0f', now), '+inf')
  if type(held) == 'table' then return nil, held.err end
  if stop <= now or held == 0 then
    if writable and stop == -1 then redis.call('DEL', key) end
    return 0, 0
  end
  if stop > now + lease then
    -- The clock went back, or the lease was shortened: nobody holds a slot for longer than one lease.
    stop = now + lease
    if writable then
      for _, member in ipairs(redis.call('ZRANGEBYSCORE', key, string.format('(%.0f', stop), '+inf')) do
        redis.call('ZADD', key, stop, member)
      end
      redis.call('PEXPIREAT', key, stop)
    end
  end
  return held, stop
end

function concurrency.look(key, p, cost, now, writable)
  local limit = p[1]
  local held, stop = concurrency_read(key, p, now, writable)
  if not held then return nil, stop end
  local wait = 0
  if cost > limit then
    wait = -1
  elseif cost > 0 and held + cost > limit then
    -- So many leases must end; the last of them says when.
    local from, nth = string.format('(%.0f', now), held + cost - limit - 1
    local last = redis.call('ZRANGEBYSCORE', key, from, '+inf', 'WITHSCORES', 'LIMIT', nth, 1)
    wait = math.min(stop, tonumber(last[2])) - now
  end
  return wait, held < limit and limit - held or 0, stop == 0 and 0 or stop - now, held, stop
end

function concurrency.commit(key, p, cost, now, held, _, _, id)
  local till = now + p[2]
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
  for i = 1, cost do redis.call('ZADD', key, till, id .. ':' .. i) end
  redis.call('PEXPIREAT', key, till)
  return p[1] - held - cost, p[2]
end

-- Slots are given back by their lease, not by units.
function concurrency.adjust(key, p, _, _, now)
  local held, stop = concurrency_read(key, p, now, true)
  if not held then return nil, stop end
  return math.max(0, p[1] - held), stop == 0 and 0 or stop - now
end

local function concurrency_holds(key, p, id, now)
  local held, err = concurrency_read(key, p, now, true)
  if not held then return nil, err end
  local stop = held > 0 and redis.call('ZSCORE', key, id .. ':1')
  return stop and tonumber(stop) > now and 1 or 0
end

-- Gives back the slots of a lease.
function concurrency.release(key, p, id, units, now)
  local held, err = concurrency_holds(key, p, id, now)
  if held == 1 then
    for i = 1, units do redis.call('ZREM', key, id .. ':' .. i) end
    local last = redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')
    if last[2] then redis.call('PEXPIREAT', key, last[2]) end
  end
  return held, err
end

-- Holds the slots of a lease for another full lease from now.
function concurrency.renew(key, p, id, units, now)
  local held, err = concurrency_holds(key, p, id, now)
  if held == 1 then
    local till = now + p[2]
    for i = 1, units do redis.call('ZADD', key, till, id .. ':' .. i) end
    redis.call('PEXPIREAT', key, till)
  end
  return held, err
end
