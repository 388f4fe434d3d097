-- evaluate.lua for sets of one policy and no ban, by far the most common: the same decisions in less code. The functions of
-- the policy's algorithm are the locals `kernel_look`, `kernel_commit` and, if it has one, `kernel_charge`; the count of its params
-- is `kernel_params`. Shadows need no special code: they also charge nothing where they would deny.
--
-- KEYS:  one per request
-- ARGV:  deadline (see common.lua), the policy's params; per request its cost, or one for all, or none if all cost 1;
--        to look without writing, a cost c is sent as -1 - c
-- Reply: step, then per request: an error's text; or the verdict (see headgate_say in common.lua)

local params = {}
for i = 1, kernel_params do params[i] = tonumber(ARGV[1 + i]) end
local at = 2 + kernel_params

-- A table with room for one verdict.
local reply = { step, nil }
local filled = 1
local text, cost, writable = '1', 1, true
local request, requests = 1, #KEYS
local alike = not ARGV[at + 1]
while request <= requests do
  if ARGV[at] then
    text, cost = ARGV[at], tonumber(ARGV[at])
    if cost < 0 then cost, writable = -1 - cost, false end
    at = at + 1
  end
  local last = alike and requests or request
  if kernel_charge and writable and cost > 0 then
    request, filled = kernel_charge(request, last, params, cost, text, now, reply, filled)
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
