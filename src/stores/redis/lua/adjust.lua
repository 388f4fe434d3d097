-- Charges units, even beyond what is left, or gives units back.
--
-- KEYS:  one per policy; then one per policy for its history, if the charge to give back has a known step. A history is the step of
--        the last reset (0: none); then, for each charge that a bucket gave back, its step, the step of the return, and its ticks
-- ARGV:  deadline (see common.lua), count of policies; per policy: kernel, '0', its params; then per policy its units (< 0: give
--        back), the step of the charge to give back (0: no particular one), its mark, how long a charge counts (ms)
-- Reply: step, then per policy the units charged, and its verdict (see headgate_say in common.lua), which admits

-- Reads what happened to a key since it was charged. `stop` is the expiry for a history that has lost its TTL.
local function read_history(key, stop)
  local history = {}
  local value = redis.call('GET', key)
  if value and redis.call('PTTL', key) == -1 then redis.call('PEXPIREAT', key, stop) end
  for number in string.gmatch(value or '', '%d+') do history[#history + 1] = tonumber(number) end
  if #history % 3 ~= 1 then history = { 0 } end
  return history
end

-- By how many ticks a charge has moved forward, because charges before it were given back.
local function shift_of(history, charge)
  local shift = 0
  for i = 2, #history, 3 do
    if history[i] <= charge and charge <= history[i + 1] then shift = shift + history[i + 2] end
  end
  return shift
end

-- Keeps at most 64 returns: with more, the two oldest are merged.
local function write_history(key, history, charge, ticks, stop)
  if #history > 3 * 64 then
    history[5], history[7] = math.min(history[2], history[5]), history[4] + history[7]
    for _ = 1, 3 do table.remove(history, 2) end
  end
  local numbers = {}
  for i, number in ipairs(history) do numbers[i] = string.format('%.0f', number) end
  numbers[#numbers + 1] = string.format('%.0f %.0f %.0f', charge, step, ticks)
  headgate_set(key, table.concat(numbers, ' '), stop)
end

local policies, at = headgate_policies(2)
headgate_check(policies)
local reply = { step }
local filled = 1
for i, policy in ipairs(policies) do
  local units, charge = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
  local mark, life = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  at = at + 4
  local returns = units < 0 and charge > 0
  local history = returns and read_history(KEYS[#policies + i], now + life)
  -- A reset after the charge has already given it back. The units that are charged now belong to other requests.
  if history and history[1] >= charge then units = 0 end
  -- This comes first: while a cluster moves a slot, a key that is deleted below cannot be asked for any more.
  if redis.call('PTTL', KEYS[i]) == -1 then headgate_heal(KEYS[i], policy.look, policy) end
  local remaining, reset, changed
  if units == 0 then
    local wait
    wait, remaining, reset = policy.look(KEYS[i], policy, 0, now, false)
    if not wait then return redis.error_reply(remaining) end
  else
    local shift = history and policy.drains and shift_of(history, charge) or 0
    local time = math.floor(charge / 1000)
    remaining, reset, changed = policy.adjust(KEYS[i], policy, units, mark, now, time, shift)
    if not remaining then return redis.error_reply(reset) end
    if history and policy.drains and changed > 0 then
      write_history(KEYS[#policies + i], history, charge, changed, now + life)
    end
  end
  reply[filled + 1] = units > 0 and changed or 0
  filled = headgate_say(reply, filled + 1, 0, remaining, reset)
end
return reply
