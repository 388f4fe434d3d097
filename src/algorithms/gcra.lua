-- GCRA: token bucket, leaky bucket and gcra are the same kernel. Worst case in any window: burst + limit.
-- Source: ITU-T I.371, "virtual scheduling"; the interface of redis-cell.
--
-- State:   the theoretical arrival time (TAT), rounded up to a millisecond (6 bytes, big-endian), and the ticks to subtract (4).
--          From the TAT on the bucket is full, and the key expires. While the rate of the key changes: then also the time of the last write (6, ms),
--          and the first two params at the write (4, 7), and the ticks owed beyond the ceiling (7).
-- Params:  scale (ticks per ms), increment (ticks per unit), capacity, patience (max delay), ceiling (most debt), in ticks
-- Returns: look: wait, remaining, reset, backlog (or nil, error); commit: remaining, reset; adjust: remaining, reset, charged
--          units or ticks returned

--- section charge_params

--- params scale, increment, capacity

--- section charge
-- Combines look and commit for the common case of valid states. See charge.lua.

local charge = cost * increment
while request <= last and charge <= capacity do
  local key = KEYS[request]
--- value
  local backlog, wait, remaining, reset = charge, 0, 0
  if before then
    -- An error is a table without a length.
    if #before ~= 10 then break end
    local stop, part = struct.unpack('>I6I4', before)
    reset = stop - now
    if part >= scale or reset <= 0 then break end
    backlog = reset * scale - part + charge
  end
  local left = capacity - backlog
  if left >= 0 then
    remaining = (left - left % increment) / increment
  else
--- late patience, ceiling
    left = left + patience
    if left >= 0 then
      wait = -1 - math.ceil((patience - left) / scale)
    else
      backlog = backlog - charge
      if backlog > ceiling or redis.call('PTTL', key) == -1 then break end
      wait = math.ceil(-left / scale)
      remaining = math.max(0, math.floor((capacity - backlog) / increment))
      before = nil
    end
  end
  if wait <= 0 then
    local part = -backlog % scale
    reset = (backlog + part) / scale
    local ttl = reset
--- include common.ttl
    redis.call('SET', key, struct.pack('>I6I4', now + reset, part), 'PX', ttl)
    if deadline < 0 then redis.call('PEXPIREAT', key, now + reset) end
  end
--- include common.verdict
  request = request + 1
end

--- section charge_changed
-- The common case of a bucket by an override without an end: no debt, or one that was written since the override began, with its rate. Such a
-- debt has drained by this rate alone. Breaks the loop around it for any other bucket, before any change.

local key, charge = KEYS[request], cost * increment
before = redis.pcall('GET', key)
local backlog = charge
if before then
  -- An error is a table without a length.
  if #before ~= 34 then break end
  local stop, part, written, of_scale, of_increment, cut = struct.unpack('>I6I4I6I4I7I7', before)
  if written < since or written > now or of_scale ~= scale or of_increment ~= increment then break end
  if cut > 0 or part >= scale or (stop - written) * scale - part > ceiling then break end
  backlog = math.max(0, (stop - now) * scale - part) + charge
end
if backlog > capacity then break end
local part, left = -backlog % scale, capacity - backlog
local wait, remaining, reset = 0, (left - left % increment) / increment, (backlog + part) / scale
local ttl = reset
--- include common.ttl
redis.call('SET', key, struct.pack('>I6I4I6I4I7I7', now + reset, part, now, scale, increment, 0), 'PX', ttl)
if deadline < 0 then redis.call('PEXPIREAT', key, now + reset) end

--- section look

local function gcra_write(key, p, now, backlog, cut)
  local part = -backlog % p[1]
  local reset = (backlog + part) / p[1]
  local stop = now + reset
  local value = struct.pack('>I6I4', stop, part)
  if p.record then
    -- If the rate changes, the state contains the time and the rate of its last write.
    value = value .. struct.pack('>I6I4I7I7', now, p[1], p[2], cut or 0)
    -- By the rate of a later entry, the debt may last longer.
    for _, time in ipairs(p.boundaries(p.record, now, math.huge)) do
      local rate = p.params_at(p, time)
      if time < stop then stop = math.max(stop, time + math.ceil(rate[5] / rate[1])) end
    end
  end
  headgate_set(key, value, stop)
  return reset
end

-- The params at a time. headgate_override in overrides.lua gives params a record if an override has changed them.
local function gcra_rate(p, time)
  return p.record and p.params_at(p, time) or p
end

-- The rest of a debt, in ticks of the current rate. The debt was written at a time `at` by the rate of `scale` and `increment`, and drains by
-- the rate of each time. At each change of the rate or of the ceiling, the owed units stay the same: five of ten are five of a hundred. Also
-- returns the debt beyond the ceiling. No request waits for that part, which is returned first.
local function gcra_debt_left(p, stop, part, at, scale, increment, cut, now)
  local boundaries = p.record and p.boundaries(p.record, at, now) or {}
  -- The rate may have changed in the millisecond in which the debt was written.
  table.insert(boundaries, 1, at)
  boundaries[#boundaries + 1] = now
  local ceiling = gcra_rate(p, at)[5]
  if at > 0 and (stop - at) * scale - part > ceiling then ceiling = nil end
  for _, time in ipairs(boundaries) do
    local rate = time == now and p or gcra_rate(p, time)
    if rate[1] ~= scale or rate[2] ~= increment or rate[5] ~= ceiling then
      local ticks = (stop - time) * scale - part
      if ticks <= 0 then return 0, 0 end
      local units = math.floor((ticks + cut) / increment)
      local rest = ticks + cut - units * increment
      local all = units * rate[2] + math.ceil(rest * rate[2] / increment)
      scale, increment, ceiling = rate[1], rate[2], rate[5]
      local owed = math.min(all, ceiling)
      -- MAX_TICKS of algorithm.ts.
      cut = math.min(all - owed, 2 ^ 51)
      local paid_in = math.ceil(owed / scale)
      stop, part = time + paid_in, paid_in * scale - owed
    end
  end
  local backlog = math.max(0, (stop - now) * scale - part)
  return backlog, backlog == 0 and 0 or cut
end

local function gcra_read(key, p, now, writable)
  local value = redis.pcall('GET', key)
  if not value then return 0 end
  if type(value) == 'table' then return nil, value.err end
  if #value ~= 10 and #value ~= 34 then return 0 end
  local stop, part = struct.unpack('>I6I4', value)
  local backlog, cut
  if #value == 34 then
    local at, scale, increment, cut_then = struct.unpack('>I6I4I7I7', value, 11)
    backlog, cut = gcra_debt_left(p, stop, part, at, scale, increment, cut_then, now)
  elseif p.record then
    backlog, cut = gcra_debt_left(p, stop, part, 0, p.base[1], p.base[2], 0, now)
  else
    backlog = math.max(0, (stop - now) * p[1] - (part < p[1] and part or 0))
  end
  if backlog > p[5] then
    -- The clock went back. No request may wait longer than one window.
    backlog = p[5]
    if writable then gcra_write(key, p, now, backlog, cut) end
  end
  return backlog, cut
end

local function gcra_look(key, p, cost, now, writable)
  local scale, increment, capacity, patience = p[1], p[2], p[3], p[4]
  -- By another rate, requests may wait as long as for the configured bucket.
  if p.record then patience = math.min(math.floor(p.base[4] * scale / p.base[1]), p[5] - capacity) end
  local backlog, cut = gcra_read(key, p, now, writable)
  if not backlog then return nil, cut end
  local charge = cost * increment
  local over = backlog + charge - capacity
  local wait = 0
  if cost > 0 and over > 0 then
    if charge > capacity then
      wait = -1
    elseif over <= patience then
      wait = -1 - math.ceil(over / scale)
    else
      wait = math.ceil((over - patience) / scale)
    end
  end
  return wait, math.max(0, math.floor((capacity - backlog) / increment)), math.ceil(backlog / scale), backlog, cut
end

local function gcra_commit(key, p, cost, now, backlog, cut)
  backlog = backlog + cost * p[2]
  local reset = gcra_write(key, p, now, backlog, cut)
  return math.max(0, math.floor((p[3] - backlog) / p[2])), reset
end

local kernel_look, kernel_commit = gcra_look, gcra_commit

--- section adjust

-- The part of a charge that certainly has not drained yet. A charge drains after earlier charges, and not before its own time. Drained
-- units cannot be returned, because the key could already have spent the units again.
local function gcra_give_back_most(p, charge, mark, now, at, shift)
  -- Marks are rounded up to a millisecond. Subtract the most that rounding can have added.
  local rounding = p[2] % p[1] == 0 and 0 or p[1] - 1
  if p.record then
    -- The rate may have changed since. Histories are in ticks of the configured rate.
    local moved = math.ceil(shift * p[2] / p.base[2])
    local is_changed = #p.boundaries(p.record, at - 1, now) > 0
    local left = charge
    -- In the millisecond of a change, the rate of the charge is not known. Use the rate that returns least.
    for _, rate in ipairs(p.params_around(p, at)) do
      local owed = charge / p[2] * rate[2]
      local time = math.ceil(owed / rate[1])
      if is_changed then rounding = p[1] + math.ceil(rate[1] * p[2] / rate[2]) end
      local in_turn, behind = gcra_debt_left(p, mark, 0, at, rate[1], rate[2], 0, now)
      local alone, beyond = gcra_debt_left(p, at + time, time * rate[1] - owed, at, rate[1], rate[2], 0, now)
      left = math.min(left, math.max(in_turn + behind - rounding - moved, alone + beyond))
    end
    return math.max(0, left)
  end
  local in_turn = (mark - now) * p[1] - rounding - shift
  return math.max(0, math.min(charge, math.max(in_turn, charge - (now - at) * p[1])))
end

local function gcra_adjust(key, p, units, mark, now, at, shift)
  local backlog, cut = gcra_read(key, p, now, true)
  if not backlog then return nil, cut end
  -- Bounds the debt, so that a key never waits longer than one window for a unit.
  local charged = math.max(0, math.min(units, math.floor((p[5] - backlog) / p[2])))
  if units > 0 then
    backlog = backlog + charged * p[2]
  else
    cut = cut or 0
    local back = -units * p[2]
    if mark > 0 then back = gcra_give_back_most(p, back, mark, now, at, shift) end
    back = math.min(backlog + cut, back)
    local beyond = math.min(cut, back)
    cut, backlog = cut - beyond, backlog - (back - beyond)
    if back > 0 then charged = p.record and math.ceil(back * p.base[2] / p[2]) or back end
  end
  if backlog == 0 then
    redis.call('DEL', key)
    return math.floor(p[3] / p[2]), 0, charged
  end
  local reset = gcra_write(key, p, now, backlog, cut)
  return math.max(0, math.floor((p[3] - backlog) / p[2])), reset, charged
end

headgate_kernel('gcra', {
  -- Charges drain in turn, so a refund moves the later charges forward.
  drains = true,
  look = gcra_look,
  commit = gcra_commit,
  adjust = gcra_adjust,
})

--- section capacity

-- The full quota of changed params. All other algorithms have their limit as the full quota.
headgate_kernel('gcra', { capacity = function(p) return math.floor(p[3] / p[2]) end })
