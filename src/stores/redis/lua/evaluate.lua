-- Decides requests one after the other. If all policies of a request admit it, all are charged. Otherwise only the policies that count
-- attempts and admit the request are charged. All requests of a call share one set of policies, so its numbers are read once.
--
-- KEYS:  per request: the ban's key if the set has a ban, then one per policy; with overrides, then the keys of the records
--        (`headgate_records` in overrides.lua): per request one record for each dimension of a policy
-- ARGV:  deadline (see common.lua), count of policies; per policy: kernel, its flags (see policies.lua), its params; the ban's params if
--        the set has a ban; the arguments of thresholds.lua; with overrides: the count of dimensions, per dimension the revision of the change that the params already
--        include, the record of all keys, per policy its id and the number of its dimension; per request its cost, or one cost for all, or
--        nothing if all cost 1, or for each request one per policy (to look without writing, a cost c is sent as -1 - c); per request its
--        lease if units of a policy are slots; per request the tenant's weight if a limit is shared (0: the policy's weight); with
--        overrides, last, the kind of keys that were sent for them
-- Reply: step, then per request: an error's text; or, if the set has a ban, the ban in ms (> 0: banned, no verdicts follow; < 0: this
--        denial started the ban), and per policy its verdict (see headgate_add_verdict in common.lua), after -2 and the limit if an override
--        has set it; or, if the params lack a change, nil, then per dimension the change (see headgate_client_change in overrides.lua).
--        For a usage: the verdicts even of a banned key; with overrides, then the record of each dimension. With ids, see ids.lua; with
--        thresholds, see thresholds.lua

--- include common

-- The ban's key, if the set has a ban, precedes the keys of a request's policies.
local ban_keys, has_leases, has_weights, is_usage = 0, false, false, false
--- if ban
ban_keys = 1
--- end
--- if usage
is_usage = true
--- end
--- for each algorithm
--- if algorithm.lease
has_leases = true
--- end
--- end
--- if sharing
has_weights = true
--- end

-- The position in ARGV after the policies.
local count, at = ARGV[2] + 0, 3
--- if outright
--- if sharing
-- The number of the shared policy that is charged without a look, and its position in ARGV; the number of the policy before.
local shared_at, limit_at, before_at = 0, 0, 0
--- end
--- end
--- for each policy
do
--- include algorithm
--- if sharing
  before_at = before_at + 1
  if ARGV[at + 1] + 0 > 3 then shared_at, limit_at = before_at, at end
--- end
  at = at + 2 + kernel_params
end
--- end
--- if outright
--- if sharing
-- The pool's policy, and the tenant's without params, follow.
local pool_at = at
at = at + 8
--- end
--- end
--- if not outright
--- include evaluate.policies
at = behind
--- end
local ban_at = at
at = at + ban_keys
local stride = ban_keys + count
--- if thresholds
--- include thresholds
stride = stride + marks
--- end
--- if ids
stride = stride + 1
--- end
local requests = #KEYS / stride

--- if overrides
--- include overrides
-- The positions of the revisions and of the policies' ids in ARGV.
local dimensions = ARGV[at] + 0
local revisions, ids = at, at + dimensions + 2
at = ids + 2 * count
local records
requests, records = headgate_records(dimensions, stride)
if not requests then return records end
requests = requests / stride
-- Whether overrides concern all requests.
local concerned = ARGV[ids - 1] ~= ''
for i = 1, dimensions do concerned = concerned or ARGV[revisions + i] ~= '' end

-- Whether an override may concern a request.
local function has_record(request)
  for i = 1, records and dimensions or 0 do
    if records[request * dimensions + i] then return true end
  end
  return concerned
end
--- end

--- if ids
--- include ids
--- end
local costs = #ARGV - at + 1 - (has_leases and requests or 0) - (has_weights and requests or 0)
-- The cost of a request's i-th policy is ARGV[at + request * per_request + i * per_policy], or 1 if `costs` is 0.
local per_request, per_policy = costs > 1 and 1 or 0, 0
if costs > requests then
  at, per_request, per_policy = at - 1, count, 1
end

local reply, filled = { step, nil, nil }, 1

--- if ids
--- include ids.decisions
--- end

local request = 0
-- The policies of the request that charge_outright has charged, and the values of their keys from before: false if there was no state, nil
-- if the policy, a shadow, was not charged.
local charged, values = 0, { nil, nil }
-- Whether requests are charged without a look first. After a denial more denials are likely, and for these a look first is cheaper.
local is_outright = false

--- if thresholds
--- include thresholds.decisions
--- end

--- if outright
is_outright = true

-- Charges the requests from `request` on, up to one that needs a look, and appends their verdicts to the reply. `take_back` reverts the
-- charges of that request. Lua reads arguments faster than variables of the script.
local function charge_outright(
  reply, values, now, deadline, headgate_add_verdict, headgate_life,
  requests, stride, ban_at, at, costs, per_request, per_policy
)
  while request < requests do
    charged = 0
    local key_at, policy_at, cost_at, to = request * stride + ban_keys, 3, at + request * per_request, filled + ban_keys
--- if ids
    if recall(request) then
      to = filled
    else
      if origin ~= 0 then break end
      to = to + 1
      reply[filled + 1] = 0
--- end
    if not is_outright then break end
--- if overrides
    if has_record(request) then break end
--- end
--- if ban
    if redis.pcall('GET', KEYS[key_at]) then break end
    reply[to] = 0
--- end
--- if sharing
    local shared_to = to
--- include shares.open
--- end
    local text = costs == 0 and '1' or ARGV[cost_at + per_policy]
    local cost = text + 0
    if cost <= 0 then break end
--- if thresholds
    local is_near = false
--- end
--- for each policy
    do
--- include algorithm
      key_at = key_at + 1
--- if sharing
      if charged + 1 == shared_at then shared_to = to end
--- end
      -- The variables that the section `charge` reads and writes (see charge.lua).
      local request, last, p, at, filled, before = key_at, key_at, ARGV, policy_at + 1, to
--- include algorithm.charge
      if request == key_at then break end
      if before == nil and p[at] % 2 == 0 then
        is_outright = false
        break
      end
      charged = charged + 1
--- if thresholds
      -- A verdict is one number with the remaining units in its lower bits, or four numbers.
      local lowest = near[charged]
      if lowest >= 0 and (filled - to == 1 and reply[filled] % 2 ^ 20 or reply[filled - 1]) <= lowest then is_near = true end
--- end
      values[charged], to, policy_at = before, filled, at + 1 + kernel_params
      if per_policy == 1 and policy_at < ban_at then
        text = p[cost_at + charged + 1]
        cost = text + 0
        if cost <= 0 then break end
      end
    end
--- end
--- if sharing
--- include shares.close
--- end
--- if ids
      if remember(request, filled + 2 + ban_keys, to) then break end
--- end
--- if thresholds
    if is_near then
      local place = filled + ban_keys
--- if ids
      place = place + 1
--- end
      note_verdicts(request, place)
    end
--- end
--- if ids
    end
--- end
    request, filled = request + 1, to
  end
end

-- An error of the first policy concerns the server (READONLY, OOM). It ends the script, so that clients see it.
local done, failure =
--- include evaluate.outright
if not done and charged == 0 then return redis.error_reply(type(failure) == 'table' and failure.err or failure) end
--- if thresholds
if request == requests then
--- include thresholds.report
end
--- end
if request == requests then return reply end
--- include evaluate.policies
--- end

--- include common.write
--- include common.adjust
--- include policies.kernels
--- if sharing
--- include shares.share
--- end
--- if overrides
--- include overrides.apply
-- Returns the policies of a request with a record; or the configured policies and the changes that the caller must apply first.
local function live(request)
  local own, changes, differ = {}, {}, false
  for i = 1, dimensions do
    own[i] = records and records[request * dimensions + i] or ''
    changes[i] = headgate_client_change(own[i])
    if headgate_revision(own[i]) ~= ARGV[revisions + i] then differ = true end
  end
  if differ then return configured, changes end
  local policies = {}
  for i = 1, count do
    local record = own[tonumber(ARGV[ids + 2 * i - 1])]
    if ARGV[ids - 1] ~= '' then record = record .. '\n' .. ARGV[ids - 1] end
    policies[i] = record == '' and configured[i] or headgate_override(configured[i], ARGV[ids + 2 * i - 2], record, now)
  end
  return policies
end
--- end
--- if ban
--- include ban
local ban_params = {}
for param in string.gmatch(ARGV[ban_at], '%S+') do ban_params[#ban_params + 1] = tonumber(param) end
--- end
--- for each algorithm
--- include algorithm.look
--- include algorithm.adjust
--- if thresholds
--- if algorithm.capacity
--- include algorithm.capacity
--- end
--- end
--- if algorithm.lease
--- include algorithm.lease
--- end
--- end

-- Reverts what charge_outright has charged and appended.
local function take_back()
  for i = 1, charged do
    local key, policy, value = KEYS[request * stride + ban_keys + i], configured[i], values[i]
    if value then
      redis.call('SET', key, value)
      headgate_heal(key, policy.look, policy)
    elseif value == false then
      redis.call('DEL', key)
    end
  end
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

--- if sharing
-- The shared policies, each with its verdicts: `limit`, `pool`, `tenant`. `is_denied_elsewhere`: whether another policy denies, so that the
-- request is not part of the tenant's demand.
local shared, is_denied_elsewhere = shares_of(configured, verdicts), false

local function open_share(each)
  local limit, pool, tenant = each.limit, each.pool, each.tenant
  local weight = tonumber(ARGV[#ARGV - requests + request + 1])
  shares_load(tenant.policy, limit.policy[1], weight, pool.a, tenant.a, each.start)
end
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
--- if sharing
  is_denied_elsewhere = false
  for _, verdict in ipairs(verdicts) do
    local policy = verdict.policy
    if not admits(verdict) and not (policy.shadow or policy.shared) then is_denied_elsewhere = true end
  end
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

-- Records the request with its tenants, unless it only looks, and makes the verdicts.
local function record()
  if changes or banned > 0 and not is_usage then return end
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
  append(banned)
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

while request < requests do
--- if ids
--- if not outright
  if not recall(request) then
--- end
--- end
  take_back()
  read_request()
  local failure = look() or charge()
--- if sharing
  failure = failure or record()
--- end
  heal()
--- if ids
  local before = filled
--- end
  report(failure)
--- if ids
  if admitted and origin == 0 and not failure then
    failure = remember(request, before + 2 + ban_keys, filled)
    if failure then
      give_back()
      for n = filled, before + 1, -1 do reply[n] = nil end
      filled = before
      report(failure)
    end
  end
--- end
--- if thresholds
  for i = 1, count do
    local verdict = verdicts[i]
    if verdict.is_charged and near[i] >= 0 then
      note(request, i, verdict.policy, mark_key(request, i), verdict.remaining + verdict.cost, verdict.remaining, verdict.reset)
    end
  end
--- end
--- if ids
--- if not outright
  end
--- end
--- end
  request = request + 1
--- if outright
--- include evaluate.outright
--- end
end
--- if thresholds
--- include thresholds.report
--- end
return reply

--- section policies

--- include policies
--- for each algorithm
--- include algorithm
kernels[kernel_name] = { params = kernel_params }
--- end
local configured, behind = headgate_policies(2)

--- section outright

pcall(
  charge_outright, reply, values, now, deadline, headgate_add_verdict, headgate_life,
  requests, stride, ban_at, at, costs, per_request, per_policy
)
