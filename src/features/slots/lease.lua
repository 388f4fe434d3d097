-- Releases, renews or holds the concurrency slots of one admission.
--
-- KEYS:  one per policy with slots
-- ARGV:  deadline (see common.lua), 'release', 'renew' or 'hold', lease, the policies and their params (see policies.lua); per policy
--        the units of the lease
-- Reply: 1 if the lease held every slot, or with 'hold' now holds every slot, else 0

--- include common
--- include common.write
--- include policies
--- include policies.kernels
--- for each algorithm
do
--- include algorithm
--- include algorithm.look
--- include algorithm.adjust
--- include algorithm.lease
end
--- end

local policies, at = headgate_policies(4), 5
local held = 1
for i, policy in ipairs(policies) do
  -- The PTTL call comes first: while a cluster moves a slot, the server refuses calls about a key that was deleted below.
  if redis.call('PTTL', KEYS[i]) == -1 then headgate_heal(KEYS[i], policy.look, policy) end
  local still, err = policy[ARGV[2]](KEYS[i], policy, ARGV[3], tonumber(ARGV[at + i - 1]), now)
  if not still then return redis.error_reply(err) end
  held = math.min(held, still)
end
return held
