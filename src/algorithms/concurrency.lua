-- Concurrency: at most `limit` units at a time. A slot is held until it is released or its lease ends.
--
-- State:   a sorted set with a member per unit, `<lease>:<i>`, scored by the end of its lease (ms).
-- Params:  limit, lease (ms)
-- Returns: look: wait, remaining, reset, stop (or nil, error); commit and adjust: remaining, reset

local concurrency = { params = 2 }

-- Returns the units that are held, and the end of the last lease.
local function concurrency_read(key, p, now, writable)
  local lease = p[2]
  local held = redis.pcall('ZCOUNT', key, '(' .. now, '+inf')
  if type(held) == 'table' then return nil, held.err end
  if held == 0 then return 0, 0 end
  local stop = redis.call('PEXPIRETIME', key)
  if stop <= now then
    if writable and stop == -1 then redis.call('DEL', key) end
    return 0, 0
  end
  if stop > now + lease then
    -- The clock went back, or the lease was shortened: nobody holds a slot for longer than one lease.
    stop = now + lease
    if writable then
      for _, member in ipairs(redis.call('ZRANGEBYSCORE', key, '(' .. stop, '+inf')) do
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
    local ends = redis.call('ZRANGEBYSCORE', key, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', held + cost - limit - 1, 1)
    wait = math.min(stop, tonumber(ends[2])) - now
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
