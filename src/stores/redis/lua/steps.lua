-- The steps of a decision after a look: read_request, look, charge, record, heal, report.
--
-- KEYS:  the keys of evaluate.lua, which includes this file
-- ARGV:  the arguments of evaluate.lua
-- Reply: empty

-- Writes the value of a key from before a charge.
local function restore(key, policy, value)
  if value then
    redis.call('SET', key, value)
    headgate_heal(key, policy.look, policy)
  elseif value == false then
    redis.call('DEL', key)
  end
end

-- Reverts what charge_outright has charged and appended.
local function take_back()
  for i = 1, charged do restore(KEYS[request * stride + ban_keys + i], configured[i], values[i]) end
  for n = #reply, filled + 1, -1 do reply[n] = nil end
end

-- One verdict per policy of the request: `policy` with the limits of this key, `key`, `cost`, `wait`, `remaining`, `reset`, up to three
-- values that `look` has read for `commit` (`a`, `b`, `c`), and whether the policy was charged (`is_charged`).
local verdicts = { nil, nil }
local has_attempts = false
for i = 1, count do
  verdicts[i] = { wait = 0, remaining = 0, reset = 0, a = false, b = false, c = false }
  has_attempts = has_attempts or configured[i].attempts
end

--- if weights
-- Whether a policy that is not shared denies, so that the request is not part of the tenant's demand.
local is_denied_elsewhere = false
--- end

--- if sharing
-- The shared policies of units in a window, each with its verdicts: `limit`, `pool`, `tenant`.
local shared = headgate_shared(configured, verdicts, true)

local function open_share(each)
  local limit, pool, tenant = each.limit, each.pool, each.tenant
  local weight = tonumber(ARGV[#ARGV - requests + request + 1])
  shares_load(tenant.policy, limit.policy[1], weight, pool.a, tenant.a, each.start)
end
--- end

--- if slot_sharing
-- The same for shared policies of slots.
local slot_shared = headgate_shared(configured, verdicts, false)
--- end

-- Whether the request may write, its lease, and whether all policies admit it, except for shadows.
local writable, lease, admitted
-- The rest of the key's ban, ms; or, below 0, the length of the ban that begins with this denial. `denials` is the ban's state.
local ban_key, banned, denials
-- The changes that the caller must apply before a decision is possible.
local changes

-- The steps of a decision follow: read_request, look, charge, heal, report. A feature of the set other than its policies, like the ban, has
-- a block in each step that it takes part in.

-- Reads the arguments for the request. Raises an error, before any change, if the caller's params do not cover the current time.
local function read_request()
  local base, policies = request * stride + ban_keys, configured
  changes, banned, admitted = nil, 0, false
--- if ban
  ban_key = KEYS[base]
--- end
--- if overrides
  if has_record(request) then policies, changes = live(request) end
--- end
  for i = 1, count do
    local verdict, policy = verdicts[i], policies[i]
    local cost = costs == 0 and 1 or tonumber(ARGV[at + request * per_request + i * per_policy])
    writable = cost >= 0
    verdict.policy, verdict.key, verdict.is_charged = policy, KEYS[base + i], false
    verdict.cost = writable and cost or -1 - cost
    if policy.check then policy.check(policy, now) end
  end
--- if ids
  writable = writable and origin == 0
--- end
  lease = has_leases and ARGV[#ARGV - (has_weights and 2 or 1) * requests + request + 1]
end

local function admits(verdict) return verdict.wait == 0 or verdict.wait < -1 end

-- Looks at the ban, then at all policies. Returns an error of the data, if there is one.
local function look()
  if changes then return end
--- if ban
  banned, denials = ban.look(ban_key, ban_params, now, writable)
  if not banned then return denials end
--- if ids
  if origin ~= 0 then banned = 0 end
--- end
  if banned > 0 and not is_usage then return end
--- end
  admitted = true
  for i = 1, count do
    local verdict = verdicts[i]
    local policy = verdict.policy
    local wait, remaining, reset, a, b, c = policy.look(verdict.key, policy, verdict.cost, now, writable)
    if not wait then return remaining end
    verdict.wait, verdict.remaining, verdict.reset, verdict.a, verdict.b, verdict.c = wait, remaining, reset, a, b, c
--- if ids
    if origin ~= 0 then verdict.wait = 0 end
--- end
    if not admits(verdict) and not policy.shadow then admitted = false end
  end
--- if weights
  is_denied_elsewhere = false
  for _, verdict in ipairs(verdicts) do
    local policy = verdict.policy
    if not admits(verdict) and not (policy.shadow or policy.shared) then is_denied_elsewhere = true end
  end
--- end
--- if slot_sharing
  for _, each in ipairs(slot_shared) do
    local limit, weight = each.limit, tonumber(ARGV[#ARGV - requests + request + 1])
    each.wait = limit.wait
    each.sharing = slot_shares_load(limit, each.tenant.policy, weight, string.match(lease, '[^.]*$'), each.pool.a)
    each.is_fair = slot_shares_admits(each.sharing, limit.cost)
    -- A limit does not admit a tenant beyond its share.
    if not each.is_fair then
      if limit.wait == 0 then limit.wait = 1 end
      if not limit.policy.shadow then admitted = false end
    end
  end
--- end
--- if sharing
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
--- end
end

-- Returns the charges of a request of which a later policy could not be charged.
local function give_back()
  for i = 1, count do
    local verdict = verdicts[i]
    local policy, key, cost = verdict.policy, verdict.key, verdict.cost
    if verdict.is_charged and policy.release then
      pcall(policy.release, key, policy, lease, cost, now)
--- if sharing
    elseif verdict.is_charged and policy.is_share then
      pcall(restore, key, policy, verdict.a)
--- end
    elseif verdict.is_charged then
      pcall(policy.adjust, key, policy, -cost, now + verdict.reset, now, now, 0)
    end
    verdict.is_charged = false
  end
end

local function run(write, ...) return true, write(...) end

-- Charges the policies that must be charged. A shadow that would deny charges nothing, like a policy that denies. Returns the error if a
-- later policy cannot be written; an error of the first one ends the script.
local function charge()
  if not writable or changes or banned > 0 then return end
--- if ban
  if not admitted then banned = -ban.strike(ban_key, ban_params, now, denials) end
--- end
  if not admitted and not has_attempts then return end
  local call = run
  for i = 1, count do
    local verdict = verdicts[i]
    local policy = verdict.policy
    if verdict.cost > 0 and admits(verdict) and (admitted or policy.attempts) then
      local a, b, c = verdict.a, verdict.b, verdict.c
      local done, remaining, reset = call(policy.commit, verdict.key, policy, verdict.cost, now, a, b, c, lease)
      if not done then
        give_back()
        return type(remaining) == 'table' and remaining.err or remaining
      end
      verdict.remaining, verdict.reset, verdict.is_charged, call = remaining, reset, true, pcall
    end
  end
  if admitted then return end
  -- A second look includes the attempt in `retryAfter`. The verdict still admits, and also contains the wait.
  for i = 1, count do
    local verdict = verdicts[i]
    local policy = verdict.policy
    if verdict.is_charged then
      local wait, remaining, reset = policy.look(verdict.key, policy, verdict.cost, now, false)
      verdict.wait, verdict.remaining, verdict.reset = wait == 0 and 0 or -1 - wait, remaining, reset
    end
  end
end

--- if sharing
-- The time until all policies without shares admit, or 0 if one of them never does.
local function wait_elsewhere()
  local longest = 0
  for _, verdict in ipairs(verdicts) do
    local policy, wait = verdict.policy, verdict.wait
    if not (policy.shadow or policy.shared or policy.is_share) then
      if wait == -1 then return 0 end
      if wait < -1 then wait = policy.attempts and -1 - wait or 0 end
      longest = math.max(longest, wait)
    end
  end
  return longest
end
--- end

--- if weights
-- Records the request with its tenants, unless it only looks, and makes the verdicts.
local function record()
  if changes or banned > 0 and not is_usage then return end
--- if slot_sharing
  for _, each in ipairs(slot_shared) do
    local limit, pool, tenant, wait, sharing = each.limit, each.pool, each.tenant, each.wait, each.sharing
    local cost = limit.cost
    local is_denied = not each.is_fair or wait ~= 0
    local is_charged = admitted and not is_denied
    if writable and cost > 0 and wait ~= -1 then
      local write
      if is_charged or is_denied and not is_denied_elsewhere then
        write = slot_shares_note
      elseif is_denied_elsewhere then
        write = slot_shares_withdraw
      end
      if write then
        local done, failure = pcall(write, sharing, pool.key, cost, is_charged)
        if not done then
          give_back()
          return type(failure) == 'table' and failure.err or failure
        end
      end
    end
    local later, remaining, share = wait, slot_shares_remaining(sharing, limit.remaining), sharing.share
    if is_denied and wait ~= -1 then later = slot_shares_wait(sharing, cost, wait) end
    limit.wait, limit.remaining = later, remaining
    tenant.wait, tenant.remaining, tenant.reset = later, remaining, limit.reset
    pool.wait, pool.remaining, pool.reset = wait == 0 and later or 0, share, limit.reset
  end
--- end
--- if sharing
  local elsewhere = is_denied_elsewhere and wait_elsewhere() or 0
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
    if is_denied and wait ~= -1 then later = shares_wait(cost, wait, remaining_at) end
    local again = later
    -- A share may shrink before the other policies admit. The hidden verdict has the time at which the share admits again.
    if cost > 0 and wait ~= -1 and elsewhere > later then
      open_share(each)
      again = shares_wait(cost, elsewhere, remaining_at)
    end
    limit.wait, limit.remaining = later, remaining
    tenant.wait, tenant.remaining, tenant.reset = again, remaining, limit.reset
    pool.wait, pool.remaining, pool.reset = wait == 0 and later or 0, share, limit.reset
  end
--- end
end
--- end

-- Restores missing TTLs. A charge always leaves a TTL.
local function heal()
  if not writable then return end
  for i = 1, count do
    local verdict = verdicts[i]
    local policy, key = verdict.policy, verdict.key
    if not verdict.is_charged and redis.call('PTTL', key) == -1 then headgate_heal(key, policy.look, policy) end
  end
end

local function append(value)
  filled = filled + 1
  reply[filled] = value
end

-- Appends the answer to the request.
local function report(failure)
  if failure then return append(failure) end
  if changes then
    append(false)
    for _, change in ipairs(changes) do append(change) end
    return
  end
--- if ids
  append(origin)
--- end
--- if ban
  -- Without policies, nothing else shows where a request's answer begins.
  if banned ~= 0 or count == 0 then
    append(-3)
    append(banned)
  end
  if banned > 0 and not is_usage then return end
--- end
  for i = 1, count do
    local verdict = verdicts[i]
    local policy, wait = verdict.policy, verdict.wait
--- if overrides
    if policy.wait_across and not policy.shared and not admits(verdict) then
      wait = policy.wait_across(policy.look, verdict.key, policy, verdict.cost, wait)
    end
    if policy.limit then
      append(-2)
      append(policy.limit)
    end
--- end
    filled = headgate_add_verdict(reply, filled, wait, verdict.remaining, verdict.reset)
  end
--- if usage
--- if overrides
  for i = 1, dimensions do append(records and records[request * dimensions + i] or '') end
--- end
--- end
end
