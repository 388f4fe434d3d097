-- Charges, even beyond what is left, or gives back.
--
-- KEYS:  one per policy
-- ARGV:  deadline (see common.lua), units (< 0: give back), count of policies; per policy: kernel, '0', its params; then per policy its mark
-- Reply: now, then per policy: 0, remaining, resetAfter

local policies, at = headgate_policies(3)
local units = tonumber(ARGV[2])
local reply = { now }
for i, policy in ipairs(policies) do
  local remaining, reset = policy.adjust(KEYS[i], policy, units, tonumber(ARGV[at + i - 1]), now)
  if not remaining then return redis.error_reply(reset) end
  reply[3 * i - 1], reply[3 * i], reply[3 * i + 1] = 0, remaining, reset
end
return reply
