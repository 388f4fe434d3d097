-- Charges, even beyond what is left, or gives back.
--
-- KEYS:  one per policy; then per policy the key of its reset, if what is given back is the charge of a known step
-- ARGV:  deadline (see common.lua), step of the charge that is given back (0: of none in particular), count of policies;
--        per policy: kernel, '0', its params; then per policy its units (< 0: give back) and its mark
-- Reply: step, then per policy the units charged, and its verdict (see headgate_say in common.lua), which admits

-- The step of the last reset of which a key tells.
local function reset_by(key)
  local value = redis.call('GET', key)
  if value and redis.call('PEXPIRETIME', key) == -1 then
    redis.call('DEL', key)
    return 0
  end
  return tonumber(value) or 0
end

local policies, at = headgate_policies(3)
local charged_by = tonumber(ARGV[2])
local reply = { step }
local filled = 1
for i, policy in ipairs(policies) do
  local units, mark = tonumber(ARGV[at + 2 * i - 2]), tonumber(ARGV[at + 2 * i - 1])
  -- What was reset since has been given back already, and what is charged now are others' units.
  if units < 0 and charged_by > 0 and charged_by <= reset_by(KEYS[#policies + i]) then units = 0 end
  local remaining, reset, charged
  if units == 0 then
    local wait
    wait, remaining, reset = policy.look(KEYS[i], policy, 0, now, false)
    if not wait then return redis.error_reply(remaining) end
    charged = 0
  else
    remaining, reset, charged = policy.adjust(KEYS[i], policy, units, mark, now, math.floor(charged_by / 1000))
    if not remaining then return redis.error_reply(reset) end
  end
  reply[filled + 1] = charged
  filled = headgate_say(reply, filled + 1, 0, remaining, reset)
end
return reply
