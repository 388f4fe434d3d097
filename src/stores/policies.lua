-- What scripts for any policies have after common.lua: the algorithms' pages are in the table `kernels`.
--
-- KEYS:  of the script that follows
-- ARGV:  as the script that follows says: somewhere the count of policies, then per policy its kernel, '1' if it is a
--        shadow, its params
-- Reply: none

-- The numbers of a page from ARGV[at] on, and where they end.
local function headgate_params(page, at)
  local params = {}
  for i = 1, page.params do params[i] = tonumber(ARGV[at + i - 1]) end
  return params, at + page.params
end

-- The policies whose count is ARGV[at], and where they end; `slots`: whether units of one of them are slots.
local function headgate_policies(at)
  local policies = {}
  local count = tonumber(ARGV[at])
  at = at + 1
  for i = 1, count do
    local page, shadow = kernels[ARGV[at]], ARGV[at + 1] == '1'
    local policy
    policy, at = headgate_params(page, at + 2)
    policy.shadow, policy.look, policy.commit = shadow, page.look, page.commit
    policy.adjust, policy.drains = page.adjust, page.drains
    policy.release, policy.renew = page.release, page.renew
    policies.slots = policies.slots or page.release
    policies[i] = policy
  end
  return policies, at
end
