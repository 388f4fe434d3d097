-- Charges units, even more than remain, or returns units.
--
-- KEYS:  one per policy; then one history per policy, if the step of the returned charge is known; with overrides, then one record per
--        policy (see overrides.lua). A history begins with the step of the last reset (0 without a reset). Cells of a step and ticks
--        follow: the charges up to that step, back to the previous cell, have moved forward by the ticks, because earlier charges were
--        returned
-- ARGV:  deadline (see common.lua), count of policies; per policy: kernel, '0', its params; the arguments of thresholds.lua; with overrides the record of all keys, and the
--        id of each policy; then per policy its units (< 0: return them), the step of the returned charge (0: unspecified), the charge's
--        mark, how long a charge counts (ms); of a request with an id, before them, how long an id is remembered, '' and what `claim`
--        of ids.lua reads
-- Reply: step, then per policy the charged units, and an admitting verdict (see headgate_add_verdict in common.lua)

--- include common
--- include common.write
--- include common.adjust
--- include policies
--- include policies.kernels
--- if weights
--- include policies.shared
--- end
--- if sharing
--- include shares.share
--- end
--- if overrides
--- include overrides.apply
--- end
--- for each algorithm
--- include algorithm
--- include algorithm.look
--- include algorithm.adjust
--- if thresholds
--- if algorithm.capacity
--- include algorithm.capacity
--- end
--- end
--- end

-- Reads the changes to a key since its charge. `stop` is the expiry for a history that has lost its TTL.
local function read_history(key, stop)
  local history = {}
  local value = redis.call('GET', key)
  if value and redis.call('PTTL', key) == -1 then redis.call('PEXPIREAT', key, stop) end
  for number in string.gmatch(value or '', '%d+') do history[#history + 1] = tonumber(number) end
  if #history % 2 ~= 1 then history = { 0 } end
  return history
end

-- The ticks by which a charge has moved forward, or slightly more.
local function shift_of(history, charge)
  for i = 2, #history, 2 do
    if charge <= history[i] then return history[i + 1] end
  end
  return 0
end

-- Splits a cell so that one ends at a step.
local function split_history(history, at)
  for i = 2, #history, 2 do
    if history[i] == at then return end
    if history[i] > at then
      table.insert(history, i, history[i + 1])
      table.insert(history, i, at)
      return
    end
  end
  history[#history + 1] = at
  history[#history + 1] = 0
end

-- The difference between the cell at i and the next cell.
local function difference(history, i) return math.abs(history[i + 1] - history[i + 3]) end

-- Moves the charges since `charge` forward. Keeps at most 32 cells by merging the two neighbours that differ least.
local function write_history(key, history, charge, ticks, stop)
  split_history(history, charge - 1)
  split_history(history, step)
  for i = 2, #history, 2 do
    if history[i] >= charge then history[i + 1] = history[i + 1] + ticks end
  end
  while #history > 1 + 2 * 32 do
    local least = 2
    for i = 4, #history - 3, 2 do
      if difference(history, i) < difference(history, least) then least = i end
    end
    history[least + 3] = math.max(history[least + 1], history[least + 3])
    table.remove(history, least)
    table.remove(history, least)
  end
  local numbers = {}
  for i, number in ipairs(history) do numbers[i] = string.format('%.0f', number) end
  headgate_set(key, table.concat(numbers, ' '), stop)
end

local policies, at = headgate_policies(2)
--- if thresholds
local count = #policies
--- include thresholds
local mark_keys = {}
for i = marks, 1, -1 do mark_keys[i] = table.remove(KEYS) end
--- end
--- if ids
local id_key = table.remove(KEYS)
--- end
-- Before any change: a policy raises an error if the caller's params do not cover the current time.
for _, policy in ipairs(policies) do
  if policy.check then policy.check(policy, now) end
end

--- if overrides
for i, policy in ipairs(policies) do
  local record = redis.call('GET', KEYS[#KEYS - #policies + i]) or ''
  if ARGV[at] ~= '' then record = record .. '\n' .. ARGV[at] end
  if record ~= '' then policies[i] = headgate_override(policy, ARGV[at + i], record, now) end
end
at = at + 1 + #policies
--- end

--- if ids
--- include ids
--- include ids.changes
at = at + 4
--- end
local changes = {}
for i, policy in ipairs(policies) do
  local units, charge = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
  local mark, life = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  at = at + 4
  local returns = units < 0 and charge > 0
  -- A charge made under an override may count for longer.
  if returns and policy.record then
    life = math.max(life, redis.call('PTTL', KEYS[i]), redis.call('PTTL', KEYS[#policies + i]))
  end
  local history = returns and read_history(KEYS[#policies + i], now + life)
  -- A reset after the charge has already returned it. The current charges belong to other requests.
  if history and history[1] >= charge then units = 0 end
--- if ids
  if is_void then units = 0 end
--- end
  -- The PTTL call comes first: while a cluster moves a slot, the server refuses calls about a key that was deleted below.
  if redis.call('PTTL', KEYS[i]) == -1 then headgate_heal(KEYS[i], policy.look, policy) end
  local remaining, reset, changed
  if units == 0 then
    local wait
    wait, remaining, reset = policy.look(KEYS[i], policy, 0, now, false)
    if not wait then return redis.error_reply(remaining) end
  else
    local shift = history and policy.drains and shift_of(history, charge) or 0
    local time = math.floor(charge / 1000)
--- if thresholds
    local _, before
    if units > 0 and near[i] >= 0 then _, before = policy.look(KEYS[i], policy, 0, now, false) end
--- end
    remaining, reset, changed = policy.adjust(KEYS[i], policy, units, mark, now, time, shift)
    if not remaining then return redis.error_reply(reset) end
    if history and policy.drains and changed > 0 then
      write_history(KEYS[#policies + i], history, charge, changed, now + life)
    end
--- if thresholds
    if before and changed > 0 then
      note(0, i, policy, mark_keys[mark_at[i]], before, remaining, reset)
    end
--- end
  end
  changes[i] = { key = KEYS[i], policy = policy, units = units, mark = mark, remaining = remaining, reset = reset }
  changes[i].charged = units > 0 and changed or 0
end

--- if slot_sharing
-- A change leaves slots as they are.
for _, each in ipairs(headgate_shared(policies, changes, false)) do
  local limit, pool, tenant = each.limit, each.pool, each.tenant
  tenant.remaining, tenant.reset = limit.remaining, limit.reset
  pool.remaining, pool.reset = limit.policy[1], limit.reset
end
--- end

--- if sharing
for _, each in ipairs(headgate_shared(policies, changes, true)) do
  local limit, pool, tenant = each.limit, each.pool, each.tenant
  local _, _, _, pool_state = pool.policy.look(pool.key, pool.policy, 0, now)
  local _, _, _, tenant_state = tenant.policy.look(tenant.key, tenant.policy, 0, now)
  local reset = limit.reset == 0 and shares_reset_of_pool(pool.policy, pool_state) or limit.reset
  shares_load(tenant.policy, limit.policy[1], 0, pool_state, tenant_state, shares_start(tenant.policy, reset))
  if limit.units ~= 0 then
    shares_adjust(limit.units, limit.mark)
    shares_save(pool.key, tenant.key)
  end
  limit.remaining, pool.remaining = shares_remaining(limit.remaining)
  tenant.remaining, tenant.reset = limit.remaining, limit.reset
  pool.reset = limit.reset
end
--- end

local reply, filled = { step }, 1
for _, change in ipairs(changes) do
  reply[filled + 1] = change.charged
  filled = headgate_add_verdict(reply, filled + 1, 0, change.remaining, change.reset)
end
--- if thresholds
--- include thresholds.report
--- end
return reply
