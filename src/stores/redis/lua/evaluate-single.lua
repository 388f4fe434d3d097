-- evaluate.lua for sets of one policy and no ban, by far the most common: the same decisions in less code. The functions of
-- the policy's algorithm are the locals `kernel_look`, `kernel_commit` and, if it has one, `kernel_charge`; the count of its params
-- is `kernel_params`. Shadows need no special code: they also charge nothing where they would deny.
--
-- KEYS:  one per request; with overrides, then one record per request (see overrides.lua)
-- ARGV:  deadline (see common.lua); with overrides the policy's id, the revision of the change that its params take into account, the record
--        of all keys; the policy's params; per request its cost, or one for all, or none if all cost 1;
--        to look without writing, a cost c is sent as -1 - c
-- Reply: step, then per request: an error's text; or the verdict (see headgate_say in common.lua); or, if another change must be taken into
--        account, -3 and the change (JSON; empty: none)

-- What the algorithm's part `charge` reads and writes. The reply has room for one verdict.
local request, last, p, at, reply, filled, before = 1, #KEYS, ARGV, 1, { step, nil }, 1
-- `live` tells the params of an overridden request, or the change that must be taken into account first.
local overridden, live = false

--- overrides

last, at = last / 2, 4
overridden = ARGV[3] ~= '' or ARGV[4] ~= '' or redis.call('EXISTS', unpack(KEYS, last + 1)) > 0

--- costs

local text = ARGV[at + 1 + kernel_params] or '1'
local cost, alike = text + 0, not ARGV[at + 2 + kernel_params]
if alike and cost > 0 and not overridden then

--- charge

  if request > last then return reply end
end

--- live

live = function(configured, place)
  local record = redis.call('GET', KEYS[place]) or ''
  if headgate_rule(record) ~= ARGV[3] then return configured, headgate_change(record) end
  if ARGV[4] ~= '' then record = record .. '\n' .. ARGV[4] end
  return record == '' and configured or headgate_override(configured, ARGV[2], record)
end

--- rest

local configured = {}
for i = 1, kernel_params do configured[i] = tonumber(ARGV[at + i]) end
local requests = last
while request <= requests do
  if not alike then
    text = ARGV[at + kernel_params + request]
    last = request
  end
  cost = tonumber(text)
  local writable = cost >= 0
  if not writable then cost = -1 - cost end
  local params, change = configured
  if overridden then params, change = live(configured, requests + request) end
  if kernel_charge and writable and cost > 0 and not overridden then
    request, filled = kernel_charge(request, last, configured, 0, cost, text, reply, filled)
  end
  if change then
    reply[filled + 1], reply[filled + 2] = -3, change
    filled = filled + 2
    request = request + 1
  elseif request <= last then
    local key = KEYS[request]
    local wait, remaining, reset, a, b, c = kernel_look(key, params, cost, now, writable)
    if writable and cost > 0 and wait and (wait == 0 or wait < -1) then
      remaining, reset = kernel_commit(key, params, cost, now, a, b, c)
    elseif writable and redis.call('PTTL', key) == -1 then
      headgate_heal(key, kernel_look, params)
    end
    if wait then
      filled = headgate_say(reply, filled, wait, remaining, reset, params.limit)
    else
      reply[filled + 1] = remaining
      filled = filled + 1
    end
    request = request + 1
  end
end
return reply
