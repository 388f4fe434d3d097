-- The step `record` of a decision by shared limits: notes the request with its tenants, and makes the verdicts on the tenants.
--
-- KEYS:  the keys of evaluate.lua, whose steps.lua includes this file
-- ARGV:  the arguments of evaluate.lua
-- Reply: empty

--- if sharing
-- The time until all policies without shares admit, with an attempt that this request was charged; or 0 if one of them never does.
local function wait_elsewhere()
  local longest = 0
  for _, verdict in ipairs(verdicts) do
    local policy, wait = verdict.policy, verdict.wait
    if not (policy.shadow or policy.shared or policy.is_share ~= nil) then
      if wait == -1 then return 0 end
      if wait < -1 then wait = policy.attempts and -1 - wait or 0 end
      if policy.admitted_at and not admits(verdict) then
        local time = policy.admitted_at(policy.look, verdict.key, policy, verdict.cost, now)
        if time == -1 then return 0 end
        wait = time - now
      end
      longest = math.max(longest, wait)
    end
  end
  return longest
end
--- end

--- if weights
-- Returns the time until a shared limit admits a cost that is too large for the limit now, because the limit changes, or -1.
local function wait_of_never(limit)
  local policy = limit.policy
  local time = policy.admitted_at and policy.admitted_at(policy.look, limit.key, policy, limit.cost, now) or -1
  if time ~= -1 then return time - now end
  return -1
end

-- Records the request with its tenants, unless it only looks, and makes the verdicts.
record = function()
  if changes then return end
--- if slot_sharing
  for _, each in ipairs(slot_shared) do
    local limit, pool, tenant, wait, sharing = each.limit, each.pool, each.tenant, each.wait, each.sharing
    local cost = limit.cost
    local is_denied = not each.is_fair or wait ~= 0
    local is_charged = admitted and not is_denied
    if writable and cost > 0 and wait ~= -1 then
      local write
      if is_charged or (is_denied or is_out_of_turn) and not is_denied_elsewhere then
        write = slot_shares_note
      elseif is_denied_elsewhere then
        write = slot_shares_withdraw
      end
      if write then
        local done, failure = pcall(write, sharing, pool.key, cost, is_charged, waits)
        if not done then
          give_back()
          return type(failure) == 'table' and failure.err or failure
        end
      end
    end
    local later, remaining, share = wait, slot_shares_remaining(sharing, limit.remaining), sharing.share
    if wait == -1 then later = wait_of_never(limit) elseif is_denied then later = slot_shares_wait(sharing, cost, wait) end
    limit.wait, limit.remaining = later, remaining
    tenant.wait, tenant.remaining, tenant.reset = later, remaining, limit.reset
    pool.wait, pool.remaining, pool.reset = wait == 0 and later or 0, share, limit.reset
  end
--- end
--- if sharing
  local elsewhere = wait_elsewhere()
  for _, each in ipairs(shared) do
    local limit, pool, tenant, wait = each.limit, each.pool, each.tenant, each.wait
    local policy, cost = limit.policy, limit.cost
    local is_denied = not each.is_fair or wait ~= 0
    local is_charged = admitted and not is_denied
    -- Of several shared policies, the last one was read.
    if #shared > 1 then open_share(each) end
    if writable and cost > 0 and wait ~= -1 and (is_charged or is_denied and not is_denied_elsewhere) then
      shares_note(cost, is_charged)
      local done, failure = pcall(shares_save, pool.key, tenant.key)
      if not done then
        give_back()
        return type(failure) == 'table' and failure.err or failure
      end
    end
    local function remaining_at(time)
      local _, left = policy.look(limit.key, policy, 0, time, false)
      return left
    end
    local later, remaining, share = wait, shares_remaining(limit.remaining)
    if wait == -1 then later = wait_of_never(limit)
    elseif is_denied then later = shares_wait(cost, wait, remaining_at, now + limit.reset) end
    local again = later
    -- A share may shrink before the other policies admit. The hidden verdict has the time at which the share admits again.
    if cost > 0 and wait ~= -1 and elsewhere > later then
      again = shares_wait(cost, elsewhere, remaining_at, now + limit.reset)
    end
    limit.wait, limit.remaining = later, remaining
    tenant.wait, tenant.remaining, tenant.reset = again, remaining, limit.reset
    pool.wait, pool.remaining, pool.reset = wait == 0 and later or 0, share, limit.reset
  end
--- end
end
--- end
