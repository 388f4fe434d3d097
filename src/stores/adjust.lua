-- Charges, even beyond what is left, or gives back.
--
-- KEYS:  one per policy
-- ARGV:  deadline (see common.lua), units (< 0: give back), count of policies; per policy: kernel, '0', its params; then per policy its mark
-- Reply: now, then per policy its verdict (see headgate_say in common.lua), which admits

local policies, at = headgate_policies(3)
local units = tonumber(ARGV[2])
local reply = { now }
local filled = 1
for i, policy in ipairs(policies) do
  local remaining, reset = policy.adjust(KEYS[i], policy, units, tonumber(ARGV[at + i - 1]), now)
  if not remaining then return redis.error_reply(reset) end
  filled = headgate_say(reply, filled, 0, remaining, reset)
end
return reply
