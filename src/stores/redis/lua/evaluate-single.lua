-- evaluate.lua for sets of one policy without a ban, by far the most common sets: the same decisions in less code. The functions of the
-- policy's algorithm are the locals `kernel_look`, `kernel_commit` and `kernel_charge`; `kernel_params` is the count of the params. Shadows
-- need no special code, because a shadow charges nothing where it would deny.
--
-- KEYS:  one per request; with overrides, then the keys of the records (`headgate_records` in overrides.lua)
-- ARGV:  deadline (see common.lua); with overrides the policy's id, the revision of the change that is already in the params, the record
--        of all keys; the policy's params; per request the cost, or a common cost, or nothing if every cost is 1; to look without writing, a
--        cost c is sent as -1 - c; with overrides, last, the kind of keys that were sent for overrides
-- Reply: step, then per request: an error's text; or the verdict (see headgate_add_verdict in common.lua), after -2 and the limit if an
--        override has set it; or, if the params lack a change, nil and the change (see headgate_client_change in overrides.lua)

--- include common
--- include algorithm

-- The variables of the algorithm's section `charge` (see charge.lua). The reply has room for a single verdict.
local request, last, p, at, reply, filled, before = 1, #KEYS, ARGV, 1, { step, nil }, 1
local requests = last

--- if overrides
--- include overrides
at = 4
-- Whether overrides concern all requests.
local concerned = ARGV[3] ~= '' or ARGV[4] ~= ''
-- The debts of a bucket depend on earlier entries, too.
local drains = ARGV[#ARGV] == 'b'
local records
requests, records = headgate_records(1, 1)
if not requests then return records end
last = concerned and 0 or requests
for i = 1, records and last or 0 do
  if records[i] then
    last = i - 1
    break
  end
end
--- end

-- Lua converts text to numbers slowly.
local text, is_same_cost = p[at + 1 + kernel_params], not p[at + 2 + kernel_params]
local cost = text and text + 0 or 1
text = text or '1'
--- if algorithm.charge
if is_same_cost and cost > 0 then
--- include algorithm.charge
  if request > requests then return reply end
end
--- end

--- include common.write
--- include charge
--- include algorithm.look

--- if overrides
--- include overrides.apply
-- Returns the params for a key with a record; or the configured params and the change that the caller must apply first.
local function live(configured, record)
  -- If only one of the two records exists, its first entry usually suffices.
  local sole = not drains and ARGV[3] == '' and (ARGV[4] == '' and record or record == '' and ARGV[4])
  local params = sole and headgate_first_entry_params(configured, ARGV[2], sole)
  if params then return params end
  if headgate_revision(record) ~= ARGV[3] then return configured, headgate_client_change(record) end
  if ARGV[4] ~= '' then record = record .. '\n' .. ARGV[4] end
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
  local record = concerned and (records[request] or '') or records and records[request]
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

  if kernel_charge and writable and cost > 0 and not change and not params.record then
    local from, to = request, filled
    if params.limit then
      reply[filled + 1], reply[filled + 2], to = -2, params.limit, filled + 2
    end
    request, to = kernel_charge(request, last, params, 0, cost, text, reply, to)
    if request > from then filled = to end
  end

  if change then
    reply[filled + 1], reply[filled + 2] = false, change
    filled = filled + 2
    request = request + 1
  elseif request <= last then
    local key = KEYS[request]
    local wait, remaining, reset, a, b, c = kernel_look(key, params, cost, now, writable)
    if wait and params.wait_across then wait = params.wait_across(kernel_look, key, params, cost, wait) end
    if writable and cost > 0 and wait and (wait == 0 or wait < -1) then
      remaining, reset = kernel_commit(key, params, cost, now, a, b, c)
    elseif writable and redis.call('PTTL', key) == -1 then
      headgate_heal(key, kernel_look, params)
    end
    if not wait then
      -- `remaining` is the error, and replaces a limit that was appended before.
      reply[filled + 1], reply[filled + 2] = remaining, nil
      filled = filled + 1
    else
      if params.limit then
        reply[filled + 1], reply[filled + 2] = -2, params.limit
        filled = filled + 2
      end
      filled = headgate_add_verdict(reply, filled, wait, remaining, reset)
    end
    request = request + 1
  end
end
return reply
