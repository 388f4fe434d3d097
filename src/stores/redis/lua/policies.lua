-- Follows common.lua in scripts that take any policies.
--
-- KEYS:  the keys of the script that follows
-- ARGV:  the arguments of the script that follows. They contain the count of policies, then per policy its kernel, its flags (1: it is a
--        shadow, 2: it counts attempts), its params
-- Reply: empty

-- The script's algorithms by name, and bans if the script has them. The parts that follow set both. The declaration comes first because
-- Redis does not let a script read an undefined global.
local kernels, ban = {}

-- Reads an algorithm's params from ARGV[at] on. Also returns the position after them.
local function headgate_params(kernel, at)
  -- The table has room for the params of most algorithms, and for the other fields of a policy.
  local params = { nil, nil, nil, nil, nil, shadow = false, attempts = false }
  for i = 1, kernel.params do params[i] = tonumber(ARGV[at + i - 1]) end
  return params, at + kernel.params
end

-- Reads the policies whose count is ARGV[at]. Also returns the position after them. A policy also has the fields of its kernel. `slots` is
-- set if the units of one policy are slots.
local function headgate_policies(at)
  local policies = { nil, nil, slots = nil }
  local count = tonumber(ARGV[at])
  at = at + 1
  for i = 1, count do
    local kernel, flags = kernels[ARGV[at]], tonumber(ARGV[at + 1])
    local policy
    policy, at = headgate_params(kernel, at + 2)
    if flags > 0 then
      policy.shadow, policy.attempts = flags % 2 == 1, flags > 1
    end
    if kernel.release then policies.slots = kernel.release end
    policies[i] = setmetatable(policy, { __index = kernel })
  end
  return policies, at
end

--- rest

-- Registers an algorithm's functions, and keeps the function that was registered before them.
local function headgate_kernel(name, kernel)
  local known = kernels[name]
  if known then kernel.charge = known.charge end
  kernels[name] = kernel
end

-- Raises an error, before any change, if the caller's params do not cover the current time.
local function headgate_check(policies)
  for _, policy in ipairs(policies) do
    if policy.check then policy.check(policy, now) end
  end
end
