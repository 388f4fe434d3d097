-- The limits of keys with an override. This file is part of scripts that decide for limiters with overrides.
--
-- A record is the value of a key beside the state. Each line is an entry, and the newest comes first. An entry begins with the start
-- and the end (ms; 0: not yet known). Behind tabs follow '*' and the revision, if only clients can apply the change; then, per
-- policy, the id and numbers: the limit, then the differing params (none if only the limit differs); last the change as JSON. See
-- contract/records.ts.
--
-- KEYS:  the keys of the script, the last of which are the records: in decisions per request one for each dimension of a policy, or the key
--        that exists while there are overrides; in adjust.lua one per policy
-- ARGV:  evaluate.lua: the count of dimensions, per dimension the revision of the change that the params already include, the record of
--        all keys, per policy its id and the number of its dimension; last, 'f', or 'r' if the records were sent, and behind the 'r'
--        the time from which a look behind the end of an override counts (ms). evaluate-single.lua: the policy's id; last, 'f', or, if
--        overrides concern all requests, the revision of the change that is already in the params, the record of all keys, and 'a'. adjust.lua:
--        the record of all keys, and the id of each policy. `sent` is the kind of keys that were sent
-- Reply: instead of verdicts, nil and per dimension the change that the params lack (see headgate_client_change). For a usage, behind the
--        verdicts the record of each dimension

-- Reads the records of a call. The last keys are the records, one per request and dimension; or, as long as the limiter has no overrides
-- and `sent` is 'f', a single key that exists while there are overrides. The signal shows the caller that records exist.
local records
local state_keys = #KEYS - 1
if sent == 'f' then
  if redis.call('GET', KEYS[#KEYS]) then
    return 'HEADGATE_OVERRIDDEN'
  end
else
  state_keys = #KEYS / (stride + dimensions) * stride
  -- A set without policies, because all are left out, has no records.
  if #KEYS == state_keys + 1 then
    -- Unlike MGET, GET distinguishes a value of another type from none.
    local record = redis.pcall('GET', KEYS[#KEYS])
    records = { type(record) == 'table' and record.err or record }
  elseif state_keys < #KEYS then
    records = redis.call('MGET', unpack(KEYS, state_keys + 1))
  end
end

--- section first_limit
-- Reads the limit of a policy that is not a bucket, and whether the limit ends, if the first entry of a record suffices: an entry that
-- changes only the limit of the policy with the id `policy_id`. `own_limit` is false if the entry has ended, and nil if the entry does not suffice.

local own_limit, ends
local since, stop, of, text_of_limit = string.match(entry, '^(%d+) (%d+)\t([^\t]*)\t(%d+)\t')
if of == policy_id and since + 0 <= now then
  ends = stop ~= '0'
  if ends and now >= stop + 0 then
    -- Older entries have ended before.
    own_limit = false
  else
    own_limit = text_of_limit + 0
    if own_limit < 1 or own_limit > 1e12 then own_limit = nil end
  end
end

--- section requests

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

--- section guard

if has_record(request) then break end

--- section prepare

--- include apply-overrides
-- Returns the ids of the policies of a dimension.
local function ids_of(dimension)
  local own = {}
  for i = 1, count do
    if ARGV[ids + 2 * i - 1] + 0 == dimension then own[#own + 1] = ARGV[ids + 2 * i - 2] end
  end
  return own
end
-- Returns the policies of a request with a record; or the configured policies and the changes that the caller must apply first.
local function live(request)
  local own, differ = {}, false
  for i = 1, dimensions do
    own[i] = records and records[request * dimensions + i] or ''
    if headgate_revision(own[i], ARGV[revisions + i], ids_of(i)) ~= ARGV[revisions + i] then differ = true end
  end
  if differ then
    for i = 1, dimensions do own[i] = headgate_client_change(own[i], ARGV[revisions + i], ids_of(i)) end
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

--- section read

if has_record(request) then policies, changes = live(request) end

--- section steps

-- Moves the waits across the ends of overrides. Each denial ends when the limits of that time admit, and the longest lasts until all policies
-- admit, also those that admit now only until their override ends. A look behind the end of an override counts from that end.
local function wait_across()
  local stop = math.max(now, tonumber(string.sub(sent, 2)) or 0)
  local longest, is_behind, ending, is_never = nil, stop > now, {}, false
  local function admitted_at(verdict, from)
    return verdict.policy.admitted_at(verdict.policy.look, verdict.key, verdict.policy, verdict.cost, from)
  end
  for i = 1, count do
    local verdict = verdicts[i]
    local policy = verdict.policy
    -- The hidden policies of a shared one have their waits already.
    local is_hidden = policy.is_share ~= nil
    local is_attempt = policy.attempts and verdict.wait < -1
    if policy.admitted_at and not (policy.shared or is_hidden) and (is_attempt or not admits(verdict)) then
      local time = admitted_at(verdict, now)
      local wait = time == -1 and -1 or time - now
      -- As after a charge.
      if is_attempt and wait ~= 0 then wait = -1 - wait end
      verdict.wait = wait
    end
    if not (policy.shadow or policy.shared or is_hidden or policy.is_line) then
      local wait = verdict.wait
      if is_behind then longest = longest or verdict end
      is_never = is_never or wait == -1
      if wait < -1 then wait = policy.attempts and -1 - wait or 0 end
      if policy.admitted_at then ending[#ending + 1] = verdict end
      stop = math.max(stop, now + wait)
      if not admits(verdict) and wait >= (longest and longest.wait or 0) then longest = verdict end
    end
  end
  if is_never then return end
  local at = 1
  while longest and at <= #ending do
    local time = admitted_at(ending[at], stop)
    if time == -1 then
      longest.wait = -1
      return
    end
    if time > stop then stop, at, longest.wait = time, 0, time - now end
    at = at + 1
  end
end

--- section report

wait_across()

--- section verdict

if policy.limit then
  append(-2)
  append(policy.limit)
end

--- section usage

for i = 1, dimensions do append(records and records[request * dimensions + i] or '') end

--- section change

--- include apply-overrides
for i, policy in ipairs(policies) do
  local record = redis.call('GET', KEYS[stride + i]) or ''
  if ARGV[at] ~= '' then record = record .. '\n' .. ARGV[at] end
  if record ~= '' then policies[i] = headgate_override(policy, ARGV[at + i], record, now) end
end
at, stride = at + 1 + count, stride + count

--- section single_requests

local policy_id, dimensions, sent, revision, all = ARGV[at], 1, ARGV[#ARGV], '', ''
at = at + 1
if sent == 'f' or sent == 'a' then table.remove(ARGV) end
if sent == 'a' then all, revision = table.remove(ARGV), table.remove(ARGV) end
--- include overrides
requests = state_keys

--- section single_prepare

--- include apply-overrides
-- Whether overrides concern all requests.
local concerned = revision ~= '' or all ~= ''
-- Returns the params for a key with a record; or the configured params and the change that the caller must apply first.
local function live(configured, record)
  if headgate_revision(record, revision, { policy_id }) ~= revision then
    return configured, headgate_client_change(record, revision, { policy_id })
  end
  if all ~= '' then record = record .. '\n' .. all end
  return record == '' and configured or headgate_override(configured, policy_id, record, now)
end

--- section single_read

local record = concerned and (records and records[request] or '') or records and records[request]
if record then
  last = request
  params, change = live(configured, record)
end
-- Requests are charged together up to the next one with a record.
for i = request + 1, records and last or 0 do
  if records[i] then
    last = i - 1
    break
  end
end

--- section single_keyed

--- if algorithm.charge_changed
-- The only entry of a record, if it changes the params of one bucket and has no end.
local CHANGED_BUCKET = '^(%d+) 0\t([^\t]*)\t(%d+) (%d+) (%d+) (%d+) %d+ (%d+)\t'
local changed_limit, since, own_scale, own_increment, own_capacity, own_ceiling
--- else
local configured_limit = limit
--- end

--- section single_charge

--- if algorithm.charge_changed
if changed_limit then
  local scale, increment, capacity, ceiling = own_scale + 0, own_increment + 0, own_capacity + 0, own_ceiling + 0
--- include algorithm.charge_changed
  reply[filled + 1], reply[filled + 2] = -2, changed_limit
  filled = filled + 2
--- include common.verdict
  request = request + 1
end
--- end

--- section single_guard

local entry = all
for i = request, records and requests or 0 do
  if records[i] then
    last = i - 1
    break
  end
end
if last < request then
  -- Of two records, the one of all keys counts where the key's own does not.
  if all ~= '' then break end
  entry, last = records[request], request
end
if revision ~= '' then break end
--- if algorithm.charge_changed
-- The debts of a bucket depend on earlier entries, too, and its TTL on the end.
changed_limit = nil
if entry ~= '' then
  local of, own_limit
  since, of, own_limit, own_scale, own_increment, own_capacity, own_ceiling = string.match(entry, CHANGED_BUCKET)
  if of ~= policy_id or since + 0 > now or string.find(entry, '\n', 1, true) then break end
  since, changed_limit, last = since + 0, own_limit + 0, request
  if changed_limit < 1 or changed_limit > 1e12 then break end
end
--- else
limit = configured_limit
if entry ~= '' then
--- include overrides.first_limit
  if own_limit == nil then break end
  if own_limit then
    limit, must_look = own_limit, ends
    reply[filled + 1], reply[filled + 2] = -2, own_limit
    filled, last = filled + 2, request
  end
end
--- end
