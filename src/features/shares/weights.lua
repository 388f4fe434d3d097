-- Weights: what the shared limits of windows and of slots have in common.
--
-- KEYS:  none
-- ARGV:  `weight`, per request: the weight of its tenant (0: that of the policy)
-- Reply: empty

--- section shared

-- The shared policies of a list of policies or verdicts whose hidden policies have a kernel with this `is_share`. The hidden policies, a pool
-- and a tenant for each, have the order of the shared policies.
local function headgate_shared(policies, items, is_share)
  local hidden, all, at = {}, {}, 1
  for i, policy in ipairs(policies) do
    if policy.is_share ~= nil then hidden[#hidden + 1] = i end
  end
  for i, policy in ipairs(policies) do
    if policy.shared then
      if policies[hidden[at]].is_share == is_share then
        all[#all + 1] = { at = i, limit = items[i], pool = items[hidden[at]], tenant = items[hidden[at + 1]] }
      end
      at = at + 2
    end
  end
  return all
end

--- section prepare

--- include weights.shared

--- section prepare_change

--- include weights.shared

--- section variables

-- Whether a policy that is not shared denies, so that the request is not part of the tenant's demand; whether it is only the turn of another
-- process, which waits for the same tenant; and whether further requests of the tenant wait.
local is_denied_elsewhere, is_out_of_turn, waits = false, false, false

--- section looked

is_denied_elsewhere, is_out_of_turn, waits = false, false, false
for _, verdict in ipairs(verdicts) do
  local policy = verdict.policy
  if policy.is_line then
    is_out_of_turn, waits = not admits(verdict), policy[2] == 1
  elseif not admits(verdict) and not (policy.shadow or policy.shared) then
    is_denied_elsewhere = true
  end
end

--- section recorder

-- Returns the time until a shared limit admits a cost that is too large for the limit now, because the limit changes, or -1.
local function wait_of_never(limit)
  local policy = limit.policy
  local time = policy.admitted_at and policy.admitted_at(policy.look, limit.key, policy, limit.cost, now) or -1
  if time ~= -1 then return time - now end
  return -1
end

-- Records the request with its tenants, unless it only looks, and makes the verdicts on them.
record = function()
  if changes then return end
--- for each feature recorded
end

--- section record

failure = failure or record()
