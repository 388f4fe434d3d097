-- Fair shares of slots: the steps of a decision beside the functions of slot-shares.lua.
--
-- KEYS:  none
-- ARGV:  none
-- Reply: empty

--- section prepare

--- include slot-shares.share

--- section variables

-- The shared policies of slots, each with its verdicts: `limit`, `pool`, `tenant`.
local slot_shared = headgate_shared(configured, verdicts, false)

--- section looked

for _, each in ipairs(slot_shared) do
  local limit, weight = each.limit, tonumber(ARGV[weight_at + request])
  each.wait = limit.wait
  each.sharing = slot_shares_load(limit, each.tenant.policy, weight, string.match(lease, '[^.]*$'), each.pool.a)
  each.is_fair = slot_shares_admits(each.sharing, limit.cost)
  -- A limit does not admit a tenant beyond its share.
  if not each.is_fair then
    if limit.wait == 0 then limit.wait = 1 end
    if not limit.policy.shadow then admitted = false end
  end
end

--- section recorded

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

--- section changed

-- A change leaves slots as they are.
for _, each in ipairs(headgate_shared(policies, changes, false)) do
  local limit, pool, tenant = each.limit, each.pool, each.tenant
  tenant.remaining, tenant.reset = limit.remaining, limit.reset
  pool.remaining, pool.reset = limit.policy[1], limit.reset
end
