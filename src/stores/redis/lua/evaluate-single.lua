-- evaluate.lua for sets of one policy, by far the most common sets: the same decisions in less code. The functions of the policy's
-- algorithm are the locals `kernel_look`, `kernel_commit` and `kernel_charge`; `kernel_params` is the count of the params. Shadows need no
-- special code, because a shadow charges nothing where it would deny. A set with a shadow and a ban is not for this script.
--
-- KEYS:  one per request; with a ban, then the ban's key of each request; with overrides, then the keys of the records (see overrides.lua)
-- ARGV:  deadline (see common.lua); with overrides the policy's id; with a ban the ban's params; the policy's params; per request the cost,
--        or a common cost, or nothing if every cost is 1; to look without writing, a cost c is sent as -1 - c; with overrides, last, 'f' (see
--        overrides.lua), or, if there are any, the revision of the change that is already in the params, the record of all keys, and 'a'
-- Reply: step, then per request: an error's text; or a ban and the verdict as of evaluate.lua; or, if the params lack a change, nil and the
--        change (see headgate_client_change in overrides.lua)

--- include common
--- include algorithm

-- The variables of the algorithm's section `charge` (see charge.lua). The reply has room for a single verdict.
local request, last, p, at, reply, filled, before = 1, #KEYS, ARGV, 1, { step, nil }, 1
local requests, stride = last, 1
--- if ban
stride = 2
--- end
--- if overrides
at = 2
local dimensions, sent, revision, all = 1, ARGV[#ARGV], '', ''
if sent == 'f' or sent == 'a' then table.remove(ARGV) end
if sent == 'a' then all, revision = table.remove(ARGV), table.remove(ARGV) end
--- include overrides
requests = state_keys
--- end
--- if ban
requests = requests / stride
at = at + 1
local ban_at = at
--- end
last = requests

-- Lua converts text to numbers slowly.
local text, is_same_cost = p[at + 1 + kernel_params], not p[at + 2 + kernel_params]
local cost = text and text + 0 or 1
text = text or '1'
--- if algorithm.charge
if is_same_cost and cost > 0 then
--- if keyed
--- include evaluate-single.keyed
--- end
--- if not_keyed
--- include algorithm.charge
--- end
  if request > requests then return reply end
end
--- end

--- include common.write
--- include charge
--- include algorithm.look

--- if ban
-- A denial counts for the ban, so the policy is looked at. More denials are likely then.
if before == nil then kernel_charge = nil end
--- include ban
local ban_params = {}
for param in string.gmatch(ARGV[ban_at], '%S+') do ban_params[#ban_params + 1] = tonumber(param) end
--- end

--- if overrides
--- include overrides.apply
-- Whether overrides concern all requests.
local concerned = revision ~= '' or all ~= ''
-- Returns the params for a key with a record; or the configured params and the change that the caller must apply first.
local function live(configured, record)
  if headgate_revision(record) ~= revision then return configured, headgate_client_change(record) end
  if all ~= '' then record = record .. '\n' .. all end
  return record == '' and configured or headgate_override(configured, ARGV[2], record, now)
end
--- end

local configured = {}
for i = 1, kernel_params do configured[i] = tonumber(ARGV[at + i]) end

while request <= requests do
  if not is_same_cost then text = ARGV[at + kernel_params + request] end
  cost = tonumber(text)
  local writable = cost >= 0
  if not writable then cost = -1 - cost end
  local params, change = configured, nil
  last = is_same_cost and requests or request
--- if overrides
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
--- end
  -- The rest of the ban (ms), and the ban's state; or nil and an error.
  local banned, denials = 0, nil
--- if ban
  last = request
  if not change then banned, denials = ban.look(KEYS[requests + request], ban_params, now, writable) end
--- end

  if kernel_charge and writable and cost > 0 and not change and not params.record and banned == 0 then
    local from, to = request, filled
    if params.limit then
      reply[filled + 1], reply[filled + 2], to = -2, params.limit, filled + 2
    end
    request, to, before = kernel_charge(request, last, params, 0, cost, text, reply, to)
--- if ban
    if before == nil then request, kernel_charge = from, nil end
--- end
    if request > from then filled = to end
  end

  if change then
    reply[filled + 1], reply[filled + 2] = false, change
    filled = filled + 2
    request = request + 1
  elseif request <= last then
    local key = KEYS[request]
    local wait, remaining, reset, a, b, c = nil, denials, nil, nil, nil, nil
    if banned == 0 then wait, remaining, reset, a, b, c = kernel_look(key, params, cost, now, writable) end
    if wait and params.wait_across then wait = params.wait_across(kernel_look, key, params, cost, wait) end
    local admitted = wait and (wait == 0 or wait < -1)
--- if ban
    if writable and wait and not admitted then
      banned = -ban.strike(KEYS[requests + request], ban_params, now, denials)
    end
--- end
    if writable and cost > 0 and admitted then
      remaining, reset = kernel_commit(key, params, cost, now, a, b, c)
    elseif writable and redis.call('PTTL', key) == -1 then
      headgate_heal(key, kernel_look, params)
    end
--- if ban
    if banned and banned ~= 0 then
      reply[filled + 1], reply[filled + 2] = -3, banned
      filled = filled + 2
    end
--- end
    if wait then
      if params.limit then
        reply[filled + 1], reply[filled + 2] = -2, params.limit
        filled = filled + 2
      end
      filled = headgate_add_verdict(reply, filled, wait, remaining, reset)
    elseif banned == 0 or not banned then
      -- `remaining` is the error, and replaces a limit that was appended before.
      reply[filled + 1], reply[filled + 2] = remaining, nil
      filled = filled + 1
    end
    request = request + 1
  end
end
return reply

--- section keyed

-- The common case of requests whose keys may have a ban or an override: no ban and no counted denials; a limit of the record's first entry.
if requests > 1 then
  for i = at + 1, at + kernel_params do p[i] = p[i] + 0 end
end
local configured_limit = p[at + 1]
--- if overrides
-- The debts of a bucket depend on earlier entries, too.
local is_bucket = false
--- if algorithm.capacity
is_bucket = true
--- end
--- end
while request <= requests do
  local first, from, must_look = request, filled, false
  last = requests
--- if overrides
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
  p[at + 1] = configured_limit
  if entry ~= '' then
    if is_bucket then break end
--- include overrides.first_limit
    if limit == nil then break end
    if limit then
      p[at + 1], must_look = limit, ends
      reply[filled + 1], reply[filled + 2] = -2, limit
      filled, last = filled + 2, request
    end
  end
--- end
--- if ban
  if redis.pcall('GET', KEYS[requests + request]) then
    filled = from
    break
  end
  last, must_look = request, true
--- end
--- include algorithm.charge
  -- A denial under an override that ends, or with a ban, depends on more than the policy's state.
  if before == nil and must_look then request = first end
  if request <= last then
    if request == first then
      for n = filled, from + 1, -1 do reply[n] = nil end
      filled = from
    end
    break
  end
end
p[at + 1] = configured_limit
