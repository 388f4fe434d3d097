-- Follows common.lua in scripts that take any policies.
--
-- KEYS:  those of the script that follows
-- ARGV:  those of the script that follows. They contain the count of policies, then per policy its kernel, its flags (1: it is a
--        shadow, 2: it counts attempts), its params
-- Reply: none

-- The script's algorithms by name, and bans if the script has them. The parts that follow fill these in. They are declared here because
-- Redis does not let a script read an undefined global.
local kernels, ban = {}

-- Reads an algorithm's params from ARGV[at] on. Also returns where they end.
local function headgate_params(kernel, at)
  local params = {}
  for i = 1, kernel.params do params[i] = tonumber(ARGV[at + i - 1]) end
  return params, at + kernel.params
end

-- Reads the policies whose count is ARGV[at]. Also returns where they end. `slots` tells whether the units of one policy are slots.
local function headgate_policies(at)
  local policies = {}
  local count = tonumber(ARGV[at])
  at = at + 1
  for i = 1, count do
    local kernel, flags = kernels[ARGV[at]], tonumber(ARGV[at + 1])
    local policy
    policy, at = headgate_params(kernel, at + 2)
    -- The caller's params may not cover the current time. Then this raises an error before anything is done.
    if kernel.check then kernel.check(policy, now) end
    policy.shadow, policy.attempts = flags % 2 == 1, flags > 1
    policy.look, policy.commit, policy.charge = kernel.look, kernel.commit, kernel.charge
    policy.adjust, policy.drains = kernel.adjust, kernel.drains
    policy.release, policy.renew = kernel.release, kernel.renew
    policies.slots = policies.slots or kernel.release
    policies[i] = policy
  end
  return policies, at
end
