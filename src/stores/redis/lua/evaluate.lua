-- Decides requests one after the other. If all policies of a request admit it, all are charged. Otherwise only the policies that count
-- attempts and admit the request are charged. All requests of a call share one set of policies, so its numbers are read once. `compose` in
-- scripts.ts has the order in which the sections run.
--
-- KEYS:  per request: the ban's key if the set has a ban, then one per policy; with overrides, then the keys of the records
--        (`headgate_records` in overrides.lua): per request one record for each dimension of a policy
-- ARGV:  deadline (see common.lua), count of policies; per policy: kernel, its flags (see policies.lua), its params; the ban's params if
--        the set has a ban; with overrides: the count of dimensions, per dimension the revision of the change that the params already
--        include, the record of all keys, per policy its id and the number of its dimension; per request its cost, or one cost for all, or
--        nothing if all cost 1, or for each request one per policy (to look without writing, a cost c is sent as -1 - c); per request its
--        lease if units of a policy are slots; with overrides, last, the kind of keys that were sent for them
-- Reply: step, then per request: an error's text; or, if the set has a ban, the ban in ms (> 0: banned, no verdicts follow; < 0: this
--        denial started the ban), and per policy its verdict (see headgate_say in common.lua); or, if the params lack a change, nil, then
--        per dimension the change (see headgate_client_change in overrides.lua)

-- `strikes`, which is declared before this section, is the count of ban keys per request: 1 if the script has bans, or 0.
local policies, at = headgate_policies(2)
local configured
local count = #policies
local bans = at
at = at + 5 * strikes
local stride = count + strikes
-- The records of overrides, and whether overrides concern all requests. For such a request, `live` returns its policies, or the overrides
-- that the caller must apply first.
local records, concerned, live, has_record = nil, false
local requests, plain = #KEYS / stride

--- overrides

-- The positions of the revisions and of the policies' ids in ARGV.
local dimensions = ARGV[at] + 0
local revisions, ids = at, at + dimensions + 2
at = ids + 2 * count
requests, records = headgate_records(dimensions, stride)
if not requests then return records end
requests = requests / stride
concerned = ARGV[ids - 1] ~= ''
for i = 1, dimensions do concerned = concerned or ARGV[revisions + i] ~= '' end

-- Whether an override may concern a request.
has_record = function(request)
  for i = 1, records and dimensions or 0 do
    if records[request * dimensions + i] then return true end
  end
  return concerned
end

-- The count of requests before the first with a record.
plain = 0
while plain < requests and not has_record(plain) do plain = plain + 1 end

--- costs

local costs = #ARGV - at + 1
local a = { nil, nil }
local reply = { step, nil, nil }
local request, filled = 0, 1
local cost, text = 1, '1'
-- Whether each policy has its own cost.
local each = costs > requests

-- Whether requests are charged without a look first. After a denial more denials are likely, and for these a look first is cheaper.
local outright = true
for i = 1, count do outright = outright and policies[i].charge end

-- Charges all policies of a request, and appends their verdicts to the reply. Returns the reply's new length; or nil if a policy denies or
-- needs a look first, then the count of charged policies, and whether a policy denies.
local function charge_outright(base, to)
  for i = 1, count do
    local place, policy, from, ran, after = base + i, policies[i], to, true
    if each then
      text = ARGV[at + request * count + i - 1]
      cost = text + 0
      if cost <= 0 then return nil, i - 1, false end
    end
    if i == 1 then
      after, to, a[1] = policy.charge(place, place, policy, 0, cost, text, reply, from)
    else
      ran, after, to, a[i] = pcall(policy.charge, place, place, policy, 0, cost, text, reply, from)
    end
    if not ran or after == place then return nil, i - 1, false end
    if a[i] == nil and not policy.shadow then return nil, i - 1, true end
  end
  return to
end

local charged, denied = 0, false
while outright and request < (plain or requests) do
  local base = request * stride + strikes
  if costs > request and not each then text = ARGV[at + request] end
  cost = text + 0
  if cost <= 0 then break end
  if strikes > 0 then
    if redis.pcall('GET', KEYS[base]) then break end
    reply[filled + 1] = 0
  end
  local to
  to, charged, denied = charge_outright(base, filled + strikes)
  if not to then break end
  filled = to
  request = request + 1
end
if request == requests then return reply end

--- live

live = function(request)
  local of, changes, differ = {}, {}, false
  for i = 1, dimensions do
    of[i] = records and records[request * dimensions + i] or ''
    changes[i] = headgate_client_change(of[i])
    if headgate_revision(of[i]) ~= ARGV[revisions + i] then differ = true end
  end
  if differ then return policies, changes end
  local own = {}
  for i = 1, count do
    local record = of[tonumber(ARGV[ids + 2 * i - 1])]
    if ARGV[ids - 1] ~= '' then record = record .. '\n' .. ARGV[ids - 1] end
    own[i] = record == '' and configured[i] or headgate_override(configured[i], ARGV[ids + 2 * i - 2], record, now)
  end
  return own
end

--- rest

-- All fields of the kernels are defined from here on.
policies = headgate_policies(2)
configured = policies
local banning = ban and headgate_params(ban, bans)
local leases = policies.slots and #ARGV - requests
if leases then
  costs = leases - at + 1
  each = costs > requests
end
local attempts = false
for i = 1, count do attempts = attempts or policies[i].attempts end

-- Reverts the charges of charge_outright to the first `last` policies of a request, and its verdicts.
local function take_back(base, last)
  for i = 1, last do
    local key, before = KEYS[base + i], a[i]
    if before then
      redis.call('SET', key, before)
      headgate_heal(key, policies[i].look, policies[i])
    elseif before == false then
      redis.call('DEL', key)
    end
  end
  for n = #reply, filled + 1, -1 do reply[n] = nil end
end

local wait, remaining, reset, b, c = {}, {}, {}, {}, {}

-- The costs by policy, if each policy has its own cost. `cost` is then the largest of them.
local units = {}

local admitted

local function admits(i) return wait[i] == 0 or wait[i] < -1 end

-- A shadow that would deny charges nothing, like a policy that denies.
local function charges(i)
  return admits(i) and (admitted or policies[i].attempts) and (not each or units[i] > 0)
end

-- Returns the units that the first `last` policies of a request were charged.
local function undo(base, last, cost, lease)
  for i = 1, last do
    local key, policy = KEYS[base + i], policies[i]
    if each then cost = units[i] end
    if policy.release then
      pcall(policy.release, key, policy, lease, cost, now)
    elseif charges(i) then
      pcall(policy.adjust, key, policy, -cost, now + reset[i], now, now, 0)
    end
  end
end

local function run_plainly(commit, ...) return true, commit(...) end

-- Charges the policies of a request that must be charged. If a later policy cannot be written, the charges of the earlier ones are
-- returned, and the function returns the error. An error of the first policy concerns the server (READONLY, OOM): it ends the script, so
-- that clients see it.
local function charge(base, cost, lease)
  local written = false
  for i = 1, count do
    if charges(i) then
      local key, commit = KEYS[base + i], policies[i].commit
      local run = written and pcall or run_plainly
      if each then cost = units[i] end
      local done, left, after = run(commit, key, policies[i], cost, now, a[i], b[i], c[i], lease)
      if not done then
        undo(base, i - 1, cost, lease)
        return type(left) == 'table' and left.err or left
      end
      remaining[i], reset[i], written = left, after, true
    end
  end
end

-- Looks again after the attempt of a denied request was charged, so that `retryAfter` includes the charge. The verdict still admits, and
-- also contains the wait.
local function look_again(base, cost)
  for i = 1, count do
    if charges(i) then
      if each then cost = units[i] end
      wait[i], remaining[i], reset[i] = policies[i].look(KEYS[base + i], policies[i], cost, now, false)
      if wait[i] ~= 0 then wait[i] = -1 - wait[i] end
    end
  end
end

take_back(request * stride + strikes, charged or 0)
outright = outright and not denied
headgate_check(policies)
while request < requests do
  local base = request * stride + strikes
  if costs > request and not each then text = ARGV[at + request] end
  cost = tonumber(text)
  local writable = cost >= 0
  if not writable then cost = -1 - cost end
  if each then
    for i = 1, count do
      units[i] = tonumber(ARGV[at + request * count + i - 1])
      writable = units[i] >= 0
      if not writable then units[i] = -1 - units[i] end
    end
    cost = math.max(unpack(units))
  end
  local lease = leases and ARGV[leases + request + 1]
  local err, banned, state
  local is_charged = false
  local changes
  local is_live = live and has_record(request)
  policies = configured
  if is_live then policies, changes = live(request) end
  if ban and not changes then
    banned, state = ban.look(KEYS[base], banning, now, writable)
    if not banned then err = state end
    reply[filled + 1] = banned
  end
  local free = not err and not changes and (not banned or banned == 0)
  local to
  if free and outright and not is_live and writable and cost > 0 then
    to, charged = charge_outright(base, filled + strikes)
    if not to then
      take_back(base, charged)
      outright = false
      if each then cost = math.max(unpack(units)) end
    end
  end

  if to then
    filled = to
  elseif changes then
    reply[filled + 1] = false
    for i, change in ipairs(changes) do reply[filled + 1 + i] = change end
    filled = filled + 1 + #changes
  else
    if free then
      admitted = true
      for i = 1, count do
        local policy = policies[i]
        local own = each and units[i] or cost
        wait[i], remaining[i], reset[i], a[i], b[i], c[i] = policy.look(KEYS[base + i], policy, own, now, writable)
        if not wait[i] then
          err = remaining[i]
          break
        end
        if not admits(i) and not policy.shadow then admitted = false end
      end
      if not err and writable then
        if not admitted and ban then banned = -ban.strike(KEYS[base], banning, now, state) end
        if cost > 0 and (admitted or attempts) then
          err = charge(base, cost, lease)
          is_charged = not err
        end
        if cost > 0 and attempts and not admitted and not err then look_again(base, cost) end
      end
    end

    -- A charge must always leave a TTL.
    for i = 1, writable and count or 0 do
      local key, policy = KEYS[base + i], policies[i]
      if not (is_charged and charges(i)) and redis.call('PTTL', key) == -1 then headgate_heal(key, policy.look, policy) end
    end

    if err then
      reply[filled + 1] = err
      filled = filled + 1
    else
      if ban then
        reply[filled + 1] = banned
        filled = filled + 1
      end
      if not banned or banned <= 0 then
        for i = 1, count do
          local policy = policies[i]
          if is_live and policy.wait and not admits(i) then
            wait[i] = policy.wait(policy.look, KEYS[base + i], policy, each and units[i] or cost, wait[i])
          end
          filled = headgate_say(reply, filled, wait[i], remaining[i], reset[i], policies[i].limit)
        end
      end
    end
  end
  request = request + 1
end
return reply
