-- Charges units, even more than remain, or returns units.
--
-- KEYS:  one per policy; then one history per policy (a change without a charge repeats the keys of the policies); then those of features. A history begins with the step of the last reset (0 without a reset). Cells of a step and ticks
--        follow: the charges up to that step, back to the previous cell, have moved forward by the ticks, because earlier charges were
--        returned
-- ARGV:  deadline (see common.lua), the policies and their params (see policies.lua); the arguments of features, then those that
--        features read themselves; then per policy its units (< 0: return them), the step of the returned charge (0: unspecified), the charge's
--        mark, how long a charge counts (ms); before them, the arguments of features for changes
-- Reply: step, then per policy the charged units, and an admitting verdict (see headgate_add_verdict in common.lua)

--- include common
--- include common.write
--- include common.adjust
--- include policies
--- include policies.kernels
--- for each feature prepare_change
--- for each algorithm
do
--- include algorithm
--- include algorithm.look
--- include algorithm.adjust
--- for each feature algorithm
end
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

local policies, at = headgate_policies(2), 3
-- The one request's keys: see evaluate.lua.
local count, stride = #policies, 2 * #policies
--- for each feature arguments
-- Before any change: a policy raises an error if the caller's params do not cover the current time.
for _, policy in ipairs(policies) do
  if policy.check then policy.check(policy, now) end
end

--- for each feature change
local changes = {}
for i, policy in ipairs(policies) do
  local units, charge = ARGV[at] + 0, ARGV[at + 1] + 0
  local mark, life = ARGV[at + 2] + 0, ARGV[at + 3] + 0
  at = at + 4
  local returns = units < 0 and charge > 0
  -- A charge made under another limit may count for longer.
  if returns and policy.record then
    life = math.max(life, redis.call('PTTL', KEYS[i]), redis.call('PTTL', KEYS[count + i]))
  end
  local history = returns and read_history(KEYS[count + i], now + life)
  -- A reset after the charge has already returned it. The current charges belong to other requests.
  if history and history[1] >= charge then units = 0 end
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
--- for each feature adjusting
    remaining, reset, changed = policy.adjust(KEYS[i], policy, units, mark, now, time, shift)
    if not remaining then return redis.error_reply(reset) end
    if history and policy.drains and changed > 0 then
      write_history(KEYS[count + i], history, charge, changed, now + life)
    end
--- for each feature adjusted
  end
  changes[i] = {
    key = KEYS[i], policy = policy, units = units, mark = mark, remaining = remaining, reset = reset,
    charged = units > 0 and changed or 0,
  }
end

--- for each feature changed
local reply, filled = { step }, 1
for _, change in ipairs(changes) do
  reply[filled + 1] = change.charged
  filled = headgate_add_verdict(reply, filled + 1, 0, change.remaining, change.reset)
end
--- for each feature finish
return reply
