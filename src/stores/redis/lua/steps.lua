-- The steps of a decision after a look: read_request, look, charge, record, heal, report.
--
-- KEYS:  the keys of evaluate.lua, which includes this file
-- ARGV:  the arguments of evaluate.lua
-- Reply: empty

-- The steps. `verdicts` has one per policy of the request: `policy` with the limits of this key, `key`, `cost`, `wait`, `remaining`, `reset`,
-- up to three values that `look` has read for `commit` (`a`, `b`, `c`), and whether the policy was charged (`is_charged`). `admitted`:
-- whether all policies admit the request, except for shadows.
local take_back, read_request, look, charge, give_back, record, heal, report
local verdicts, admitted = { nil, nil }, nil
do

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
take_back = function()
  for i = 1, charged do restore(KEYS[request * stride + i], configured[i], values[i]) end
  for n = #reply, filled + 1, -1 do reply[n] = nil end
end

for i = 1, count do
  verdicts[i] = { wait = 0, remaining = 0, reset = 0, a = false, b = false, c = false }
end

--- for each feature variables

-- Whether the request may write, whether it may only restore TTLs, as that of a request that a feature refuses, and its lease.
local writable, heals, lease
-- Not 0 if a feature refuses the request, whatever its policies say.
local refused
-- The changes that the caller must apply before a decision is possible.
local changes

-- The steps of a decision follow: read_request, look, charge, heal, report. A feature has a section for each step
-- that it takes part in.

-- Reads the arguments for the request. Raises an error, before any change, if the caller's params do not cover the current time.
read_request = function()
  local base, policies = request * stride, configured
  changes, refused, admitted = nil, 0, false
--- for each feature read
  for i = 1, count do
    local verdict, policy = verdicts[i], policies[i]
    local cost = costs == 0 and 1 or tonumber(ARGV[at + request * per_request + i * per_policy])
    writable = cost >= 0
    heals = writable
    verdict.policy, verdict.key, verdict.is_charged = policy, KEYS[base + i], false
    verdict.cost = writable and cost or -1 - cost
    if policy.check then policy.check(policy, now) end
  end
end

local function admits(verdict) return verdict.wait == 0 or verdict.wait < -1 end

-- Looks at the features, then at all policies. Returns an error of the data, if there is one.
look = function()
  if changes then return end
--- for each feature look
  admitted = refused == 0
  for i = 1, count do
    local verdict = verdicts[i]
    local policy = verdict.policy
    local wait, remaining, reset, a, b, c = policy.look(verdict.key, policy, verdict.cost, now, writable)
    if not wait then
      if refused == 0 then return remaining end
      wait, remaining, reset = 0, 0, 0
    end
    verdict.wait, verdict.remaining, verdict.reset, verdict.a, verdict.b, verdict.c = wait, remaining, reset, a, b, c
    if not admits(verdict) and not policy.shadow then
      admitted = false
--- for each feature denies
    end
  end
--- for each feature looked
end

-- Returns the charges of a request of which a later policy could not be charged.
give_back = function()
  for i = 1, count do
    local verdict = verdicts[i]
    local policy, key, cost = verdict.policy, verdict.key, verdict.cost
    if verdict.is_charged and policy.release then
      pcall(policy.release, key, policy, lease, cost, now)
    elseif verdict.is_charged and policy.restores then
      pcall(restore, key, policy, verdict.a)
    elseif verdict.is_charged then
      pcall(policy.adjust, key, policy, -cost, now + verdict.reset, now, now, 0)
    end
    verdict.is_charged = false
  end
end

local function run(write, ...) return true, write(...) end

-- Charges the policies that must be charged. A shadow that would deny charges nothing, like a policy that denies. Returns the error if a
-- later policy cannot be written; an error of the first one ends the script.
charge = function()
  if not writable or changes then return end
--- for each feature denied
  local charges = admitted
--- for each feature charges
  if not charges then return end
  local call = run
  for i = 1, count do
    local verdict = verdicts[i]
    local policy, is_due = verdict.policy, admitted
--- for each feature due
    if is_due and verdict.cost > 0 and admits(verdict) then
      local a, b, c = verdict.a, verdict.b, verdict.c
      local done, remaining, reset = call(policy.commit, verdict.key, policy, verdict.cost, now, a, b, c, lease)
      if not done then
        give_back()
        return type(remaining) == 'table' and remaining.err or remaining
      end
      verdict.remaining, verdict.reset, verdict.is_charged, call = remaining, reset, true, pcall
    end
  end
--- for each feature charged_denied
end

--- for each feature recorder

-- Restores missing TTLs. A charge always leaves a TTL.
heal = function()
  if not heals then return end
  for i = 1, count do
    local verdict = verdicts[i]
    local policy, key = verdict.policy, verdict.key
    if not verdict.is_charged and redis.call('PTTL', key) == -1 then headgate_heal(key, policy.look, policy) end
  end
end

--- for each feature steps

local function append(value)
  filled = filled + 1
  reply[filled] = value
end

-- Appends the answer to the request.
report = function(failure)
  if failure then return append(failure) end
  if changes then
    append(false)
    for _, change in ipairs(changes) do append(change) end
    return
  end
--- for each feature report
  for i = 1, count do
    local verdict = verdicts[i]
    local policy, wait = verdict.policy, verdict.wait
--- for each feature verdict
    filled = headgate_add_verdict(reply, filled, wait, verdict.remaining, verdict.reset)
  end
--- for each feature usage
end

end
