-- Decides requests one after the other. If all policies of a request admit it, all are charged. Otherwise only the policies that count
-- attempts and admit the request are charged. All requests of a call share one set of policies, so its numbers are read once.
--
-- KEYS:  per request: the ban's key if the set has a ban, then one per policy; with overrides, then the keys of the records
--        (see overrides.lua): per request one record for each dimension of a policy
-- ARGV:  deadline (see common.lua); the list of the policies and their params (see policies.lua); the ban's params if the set has a ban;
--        the arguments of thresholds.lua; with overrides: the count of dimensions, per dimension the revision of the change that the params
--        already include, the record of all keys, per policy its id and the number of its dimension; per request its cost, or one cost for
--        all, or nothing if all cost 1, or for each request one per policy (to look without writing, a cost c is sent as -1 - c); per
--        request its lease if units of a policy are slots; per request the tenant's weight if a limit is shared (0: the policy's weight);
--        with overrides, last, 'r' if the keys of the records were sent, or 'f' (see overrides.lua)
-- Reply: step, then per request: an error's text; or, if there is a ban or no policy, -3 and the ban in ms (> 0: banned, no verdicts follow;
--        < 0: this denial started the ban), and per policy its verdict (see headgate_add_verdict in common.lua), after -2 and the limit if
--        an override has set it; or, if the params lack a change, nil, then per dimension the change (see headgate_client_change in
--        overrides.lua). For a usage: the verdicts even of a banned key; with overrides, then the record of each dimension. With ids, see
--        ids.lua; with thresholds, see thresholds.lua

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
--- if weights
has_weights = true
--- end

-- The count of policies, and the position in ARGV after them.
local count, at = 0, 3
--- if outright
--- if sharing
-- The number of the shared policy that is charged without a look, and the position in ARGV before its params.
local shared_at, limit_at = 0, 0
--- end
--- end
--- for each policy
do
--- include algorithm
  count = count + 1
--- if sharing
  if string.byte(ARGV[2], count) > 51 then shared_at, limit_at = count, at - 1 end
--- end
  at = at + kernel_params
end
--- end
--- if outright
--- if sharing
-- The pool's policy, and the tenant's without params, follow.
local pool_at = at - 1
count, at = count + 2, at + 4
--- end
--- end
--- if not outright
--- include evaluate.policies
count, at = #configured, behind
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
if requests > #KEYS then return redis.error_reply('ERR invalid count of policies') end

--- if overrides
local dimensions, sent = ARGV[at] + 0, table.remove(ARGV)
if dimensions < 0 or dimensions > #ARGV then return redis.error_reply('ERR invalid count of dimensions') end
--- include overrides
requests = state_keys / stride
-- The positions of the revisions and of the policies' ids in ARGV.
local revisions, ids = at, at + dimensions + 2
at = ids + 2 * count
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

-- Tables have room for the usual count of policies, because growing a table is slow.
local reply, filled = { step, nil, nil, nil, nil }, 1

--- if ids
--- include ids.decisions
--- end

local request = 0
-- The policies of the request that charge_outright has charged, and the values of their keys from before: false if there was no state, nil
-- if the policy, a shadow, was not charged.
local charged, values = 0, { nil, nil, nil, nil }
-- Whether requests are charged without a look first. After a denial more denials are likely, and for these a look first is cheaper.
local is_outright = false

--- if thresholds
--- include thresholds.decisions
--- end

--- if outright
-- Lua converts text to numbers slowly.
for i = 3, requests > 1 and ban_at - 1 or 0 do ARGV[i] = ARGV[i] + 0 end
--- include outright

-- An error of the first policy concerns the server (READONLY, OOM). It ends the script, so that clients see it.
local done, failure = pcall(
  charge_outright, reply, values, now, deadline, headgate_add_verdict, headgate_life,
  requests, stride, ban_at, at, costs, per_request, per_policy
)
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
--- if weights
--- include policies.shared
--- end
--- if sharing
--- include shares.share
--- end
--- if slot_sharing
--- include slot-shares.share
--- end
--- if overrides
--- include overrides.apply
-- Returns the policies of a request with a record; or the configured policies and the changes that the caller must apply first.
local function live(request)
  local own, differ = {}, false
  for i = 1, dimensions do
    own[i] = records and records[request * dimensions + i] or ''
    if headgate_revision(own[i]) ~= ARGV[revisions + i] then differ = true end
  end
  if differ then
    for i = 1, dimensions do own[i] = headgate_client_change(own[i]) end
    return configured, own
  end
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

--- include steps

while request < requests do
--- if ids
--- if not outright
  if not recall(request) then
--- end
--- end
  take_back()
  read_request()
  local failure = look() or charge()
--- if weights
  failure = failure or record()
--- end
  heal()
--- if ids
  local before = filled
--- end
  report(failure)
--- if ids
  if admitted and origin == 0 and not failure then
    failure = remember(request, before + 2, filled)
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
  pcall(
    charge_outright, reply, values, now, deadline, headgate_add_verdict, headgate_life,
    requests, stride, ban_at, at, costs, per_request, per_policy
  )
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
