-- Fair shares of units in a window: the steps of a decision beside the functions of shares.lua.
--
-- KEYS:  none
-- ARGV:  none
-- Reply: empty

--- section prepare

--- include shares.share

--- section prepare_change

--- include shares.share

--- section variables

-- The shared policies of units in a window, each with its verdicts: `limit`, `pool`, `tenant`.
local shared = headgate_shared(configured, verdicts, true)

local function open_share(each)
  local limit, pool, tenant = each.limit, each.pool, each.tenant
  local weight = tonumber(ARGV[weight_at + request])
  shares_load(tenant.policy, limit.policy[1], weight, pool.a, tenant.a, each.start)
end

--- section looked

for _, each in ipairs(shared) do
  local limit = each.limit
  each.wait, each.start = limit.wait, shares_start(each.tenant.policy, limit.reset)
  open_share(each)
  each.is_fair = limit.cost == 0 or shares_admits(limit.cost, limit.remaining)
  -- A limit does not admit a tenant beyond its share.
  if not each.is_fair then
    if limit.wait == 0 then limit.wait = 1 end
    if not limit.policy.shadow then admitted = false end
  end
end

--- section recorder

-- The time until the policies without shares admit, with the attempt that the request was charged; or 0 if a policy never does.
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

--- section recorded

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

--- section changed

for _, each in ipairs(headgate_shared(policies, changes, true)) do
  local limit, pool, tenant = each.limit, each.pool, each.tenant
  local _, _, _, pool_state = pool.policy.look(pool.key, pool.policy, 0, now)
  local _, _, _, tenant_state = tenant.policy.look(tenant.key, tenant.policy, 0, now)
  local reset = limit.reset == 0 and pool.policy.reset_of_pool(pool.policy, pool_state) or limit.reset
  shares_load(tenant.policy, limit.policy[1], 0, pool_state, tenant_state, shares_start(tenant.policy, reset))
  if limit.units ~= 0 then
    shares_adjust(limit.units, limit.mark)
    shares_save(pool.key, tenant.key)
  end
  limit.remaining, pool.remaining = shares_remaining(limit.remaining)
  tenant.remaining, tenant.reset = limit.remaining, limit.reset
  pool.reset = limit.reset
end

--- section fast_prepare

--- pool
-- The number of the shared policy.
local shared_at = string.find(ARGV[2], '[4-7]')

--- section fast_open

local shared_to = to
--- include shares-outright.open

--- section fast_each

if charged + 1 == shared_at then shared_to = to end

--- section fast_close

--- include shares-outright.close
