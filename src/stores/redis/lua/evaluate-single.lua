-- evaluate.lua for sets of one policy and no ban, by far the most common: the same decisions in less code. The functions of
-- the policy's algorithm are the locals `kernel_look`, `kernel_commit` and, if it has one, `kernel_charge`; the count of its params
-- is `kernel_params`. Shadows need no special code: they also charge nothing where they would deny.
--
-- KEYS:  one per request
-- ARGV:  deadline (see common.lua), the policy's params; per request its cost, or one for all, or none if all cost 1;
--        to look without writing, a cost c is sent as -1 - c
-- Reply: step, then per request: an error's text; or the verdict (see headgate_say in common.lua)

local text = ARGV[2 + kernel_params] or '1'
local cost, alike = text + 0, not ARGV[3 + kernel_params]
-- What the algorithm's part `charge` reads and writes. The reply has room for one verdict.
local request, last, p, at, reply, filled, before = 1, #KEYS, ARGV, 1, { step, nil }, 1
if alike and cost > 0 then

--- charge

  if request > last then return reply end
end

--- rest

local params = {}
for i = 1, kernel_params do params[i] = tonumber(ARGV[1 + i]) end
local requests = last
while request <= requests do
  if not alike then
    text = ARGV[1 + kernel_params + request]
    last = request
  end
  cost = tonumber(text)
  local writable = cost >= 0
  if not writable then cost = -1 - cost end
  if kernel_charge and writable and cost > 0 then
    request, filled = kernel_charge(request, last, params, 0, cost, text, reply, filled)
  end
  if request <= last then
    local key = KEYS[request]
    local wait, remaining, reset, a, b, c = kernel_look(key, params, cost, now, writable)
    if writable and cost > 0 and wait and (wait == 0 or wait < -1) then
      remaining, reset = kernel_commit(key, params, cost, now, a, b, c)
    elseif writable and redis.call('PTTL', key) == -1 then
      headgate_heal(key, kernel_look, params)
    end
    if wait then
      filled = headgate_say(reply, filled, wait, remaining, reset)
    else
      reply[filled + 1] = remaining
      filled = filled + 1
    end
    request = request + 1
  end
end
return reply
