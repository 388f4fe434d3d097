-- Concurrency: at most `limit` units at a time. A slot is held until it is released or its lease ends.
--
-- State:   a sorted set: a member `<lease>:<units>` per lease, its score is the lease's end (ms); and a member `#`, its score is
--          minus the units of all leases, including ended ones.
-- Params:  limit, lease (ms)
-- Returns: look: wait, remaining, reset, held, stop (or nil, error); commit: remaining, reset; adjust: remaining, reset, charged;
--          release, renew and hold: 1 if the lease is or was held, else 0 (or nil, error)

--- section look

local function concurrency_units(member)
  return tonumber(string.match(member, ':(%d+)$')) or 0
end

-- Returns the units that are held, and the end of the last lease.
local function concurrency_read(key, p, now, writable)
  local lease = p[2]
  local last = redis.pcall('ZREVRANGE', key, 0, 0, 'WITHSCORES')
  if last.err then return nil, last.err end
  local stop = tonumber(last[2]) or 0
  if stop <= now then return 0, 0 end
  local held = -(tonumber(redis.call('ZSCORE', key, '#')) or 0)
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', key, 0, now)) do held = held - concurrency_units(member) end
  if stop > now + lease then
    -- The clock went back. No slot may be held for longer than one lease from now.
    stop = now + lease
    if writable then
      for _, member in ipairs(redis.call('ZRANGEBYSCORE', key, string.format('(%.0f', stop), '+inf')) do
        redis.call('ZADD', key, stop, member)
      end
      redis.call('PEXPIREAT', key, stop)
    end
  end
  return math.max(0, held), stop
end

-- Returns the time at which so many leases have ended that at most `left` units are held. If each lease has one unit, the rank is the
-- count. Otherwise the leases are read from the last lease on, in growing steps.
local function concurrency_until(key, now, stop, held, left)
  local at, many = 0, 16
  if redis.call('ZCOUNT', key, string.format('(%.0f', now), '+inf') == held then at, many, left = left, 1, 0 end
  while true do
    local leases = redis.call('ZREVRANGE', key, at, at + many - 1, 'WITHSCORES')
    for i = 1, #leases, 2 do
      left = left - concurrency_units(leases[i])
      if left < 0 then return math.min(stop, tonumber(leases[i + 1])) end
    end
    if #leases == 0 then return stop end
    at, many = at + many, 4 * many
  end
end

local function concurrency_look(key, p, cost, now, writable)
  local limit = p[1]
  local held, stop = concurrency_read(key, p, now, writable)
  if not held then return nil, stop end
  local wait = 0
  if cost > limit then
    wait = -1
  elseif cost > 0 and held + cost > limit then
    wait = concurrency_until(key, now, stop, held, limit - cost) - now
  end
  return wait, held < limit and limit - held or 0, stop == 0 and 0 or stop - now, held, stop
end

local function concurrency_commit(key, p, cost, now, held, _, _, id)
  local till, member = now + p[2], id .. ':' .. cost
  redis.call('ZADD', key, till, member, -held - cost, '#')
  local kept = redis.pcall('PEXPIREAT', key, till)
  local swept = redis.pcall('ZREMRANGEBYSCORE', key, 0, now)
  local refused = type(kept) == 'table' and kept or type(swept) == 'table' and swept
  if refused then
    -- A missing permission left the sorted set incomplete. The caller does not learn the lease, so the lease must not hold slots.
    redis.call('ZREM', key, member)
    if held == 0 then redis.call('DEL', key) else redis.call('ZINCRBY', key, cost, '#') end
    error(refused.err)
  end
  return p[1] - held - cost, p[2]
end

local kernel_look, kernel_commit = concurrency_look, concurrency_commit

--- section adjust

-- Changes nothing, because slots are given back by their lease.
local function concurrency_adjust(key, p, _, _, now)
  local held, stop = concurrency_read(key, p, now, true)
  if not held then return nil, stop end
  return math.max(0, p[1] - held), stop == 0 and 0 or stop - now, 0
end

headgate_kernel('concurrency', {
  look = concurrency_look,
  commit = concurrency_commit,
  adjust = concurrency_adjust,
})

--- section lease

local function concurrency_holds(key, p, member, now)
  local held, err = concurrency_read(key, p, now, true)
  if not held then return nil, err end
  local stop = held > 0 and redis.call('ZSCORE', key, member)
  return stop and tonumber(stop) > now and 1 or 0
end

-- Gives back the slots of a lease.
local function concurrency_release(key, p, id, units, now)
  local member = id .. ':' .. units
  local held, err = concurrency_holds(key, p, member, now)
  if held == 1 then
    -- The order matters: if the second command is not permitted, a repeated release must not free the slots of others.
    redis.call('ZREM', key, member)
    redis.call('ZINCRBY', key, units, '#')
    local last = redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')
    if last[1] == '#' then redis.call('DEL', key) else redis.call('PEXPIREAT', key, last[2]) end
  end
  return held, err
end

-- Holds the slots of a lease for another full lease from now.
local function concurrency_renew(key, p, id, units, now)
  local member = id .. ':' .. units
  local held, err = concurrency_holds(key, p, member, now)
  if held == 1 then
    local till = now + p[2]
    redis.call('ZADD', key, till, member)
    redis.call('PEXPIREAT', key, till)
  end
  return held, err
end

-- Renews the slots of a lease. If the lease has ended, takes the slots again, even beyond the limit.
local function concurrency_hold(key, p, id, units, now)
  local held, err = concurrency_renew(key, p, id, units, now)
  if held ~= 0 or units == 0 then return held, err end
  concurrency_commit(key, p, units, now, concurrency_read(key, p, now, true), nil, nil, id)
  return 1
end

headgate_kernel('concurrency', { release = concurrency_release, renew = concurrency_renew, hold = concurrency_hold })
