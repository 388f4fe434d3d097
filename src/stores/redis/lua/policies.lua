-- What scripts for any policies have after common.lua: the algorithms' pages are in the table `kernels`.
--
-- KEYS:  of the script that follows
-- ARGV:  as the script that follows says: somewhere the count of policies, then per policy its kernel, its flags (1: it is a
--        shadow, 2: it counts attempts), its params
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
    local page, flags = kernels[ARGV[at]], tonumber(ARGV[at + 1])
    local policy
    policy, at = headgate_params(page, at + 2)
    -- What the caller sent along may not be enough for this time: then nothing is done.
    if page.check then page.check(policy, now) end
    policy.shadow, policy.attempts = flags % 2 == 1, flags > 1
    policy.look, policy.commit, policy.charge = page.look, page.commit, page.charge
    policy.adjust, policy.drains = page.adjust, page.drains
    policy.release, policy.renew = page.release, page.renew
    policies.slots = policies.slots or page.release
    policies[i] = policy
  end
  return policies, at
end
