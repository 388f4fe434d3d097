-- Follows common.lua in scripts that take any policies.
--
-- KEYS:  the keys of the script that follows
-- ARGV:  the arguments of the script that follows. One of them has a digit for each policy, its flags (1: it is a shadow, 2: it
--        counts attempts, 4: its limit is shared, 8: its flags and params are those of the policy before), then a space and a kernel for
--        each; a line feed; then the packed params of each policy without the flag 8 (see packed-params.ts). One argument, because each
--        costs the server time
-- Reply: empty

-- The functions of the script's algorithms, by the algorithm's name. `read` reads the params from a position of a text on, and also returns the
-- position after them.
local kernels = {}
--- for each algorithm
--- reader
--- end

-- Reads the policies of ARGV[at]. A policy also has the fields of its kernel.
local function headgate_policies(at)
  local policies, text = { nil, nil }, ARGV[at]
  local list = string.match(text, '^[^\n]*')
  at = #list + 2
  for name in string.gmatch(list, ' (%S+)') do
    local i = #policies + 1
    local kernel, flags = kernels[name], string.byte(list, i) - 48
    kernel.__index = kernel
    local policy = policies[i - 1]
    if flags < 8 then
      policy, at = kernel.read(text, at)
      if flags > 0 then
        policy.shadow, policy.attempts, policy.shared = flags % 2 == 1, flags % 4 > 1, flags > 3
      end
      setmetatable(policy, kernel)
    end
    policies[i] = policy
  end
  return policies
end

--- section kernels

-- Adds an algorithm's functions to the script. Policies that were read before have them, too.
local function headgate_kernel(name, functions)
  kernels[name] = kernels[name] or {}
  for field, value in pairs(functions) do kernels[name][field] = value end
end
