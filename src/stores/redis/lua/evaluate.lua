-- Decides requests one after the other. If all policies of a request admit it, all are charged; otherwise only those that a feature charges.
-- All requests of a call share one set of policies, so its numbers are read once.
--
-- KEYS:  per request: one per policy, then those of features; then those that features have behind all others (see their files)
-- ARGV:  deadline (see common.lua); the policies and their params (see policies.lua); the arguments of features, then those that
--        features read themselves; the arguments of features for each request; per request its cost, or one cost for all, or nothing if all
--        cost 1, or for each request one per policy (to look without writing, a cost c is sent as -1 - c); what features send behind all
--        others
-- Reply: step, then per request: an error's text; or per policy its verdict (see headgate_add_verdict in common.lua), after -2 and the limit if
--        it is not that of the params; or nil, if a feature cannot decide by the params, and what the feature appends. For a usage: the
--        verdicts even of a request that a feature refuses. Features append before the verdicts of a request, and to the end of the
--        reply (see their files)

--- include common
--- if keyed
--- include common.functions
--- end

-- The count of policies.
--- if outright
--- count
--- else
--- include evaluate.policies
local count = #configured
--- end
-- The count of keys of a request, and the position in ARGV after the policies.
local stride, at = count, 3
--- for each feature decision
--- for each feature arguments
local requests = #KEYS / stride
if requests > #KEYS then return redis.error_reply('ERR invalid count of policies') end

--- for each feature requests
local costs = #ARGV - at + 1
-- The cost of a request's i-th policy is ARGV[at + request * per_request + i * per_policy], or 1 if `costs` is 0.
local per_request, per_policy = costs > 1 and 1 or 0, 0
if costs > requests then
  at, per_request, per_policy = at - 1, count, 1
end

-- Tables have room for the usual count of policies, because growing a table is slow.
local reply, filled = { step, nil, nil, nil, nil }, 1

local request = 0
-- The policies of the request that charge_outright has charged, and the values of their keys from before: false if there was no state, nil
-- if the policy, a shadow, was not charged.
local charged, values = 0, { nil, nil, nil, nil }
-- Whether requests are charged without a look first. After a denial more denials are likely, and for these a look first is cheaper.
local is_outright = false

--- for each feature define

--- if outright
--- include outright

-- An error of the first policy concerns the server (READONLY, OOM). It ends the script, so that clients see it.
local done, failure = pcall(
  charge_outright, reply, values, now, deadline, requests, stride, at, costs, per_request, per_policy
)
if not done and charged == 0 then return redis.error_reply(type(failure) == 'table' and failure.err or failure) end
if request == requests then
--- for each feature finish
  return reply
end
--- include evaluate.policies
--- end

--- if not keyed
--- include common.functions
--- end
--- include common.state
--- include common.adjust
--- include policies.kernels
--- for each feature prepare
--- for each algorithm
do
--- include algorithm
--- include algorithm.look
--- include algorithm.adjust
--- for each feature algorithm
--- include algorithm.lease
end
--- end

--- include steps

while request < requests do
--- if not outright
--- for each feature before
--- end
  take_back()
  read_request()
  local failure = look() or charge()
--- for each feature record
  heal()
  report(failure)
--- for each feature charged
  request = request + 1
--- if outright
  pcall(
    charge_outright, reply, values, now, deadline, requests, stride, at, costs, per_request, per_policy
  )
--- end
end
--- for each feature finish
return reply

--- section policies

--- include policies
local configured = headgate_policies(2)
