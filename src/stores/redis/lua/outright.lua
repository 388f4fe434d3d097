-- Charges requests without a look: each policy in code of its own, as long as all policies admit.
--
-- KEYS:  the keys of evaluate.lua, which includes this file
-- ARGV:  the arguments of evaluate.lua
-- Reply: empty

is_outright = true

-- Charges the requests from `request` on, up to one that needs a look, and appends their verdicts to the reply. `take_back` reverts the
-- charges of that request. Lua reads arguments faster than variables of the script.
local function charge_outright(
  reply, values, now, deadline, headgate_add_verdict, headgate_life,
  requests, stride, ban_at, at, costs, per_request, per_policy
)
  while request < requests do
    charged = 0
    local key_at, policy_at, cost_at, to = request * stride + ban_keys, 2, at + request * per_request, filled
--- if ids
    if recall(request) then
      to = filled
    else
      if origin ~= 0 then break end
      to = to + 1
      reply[filled + 1] = 0
--- end
    if not is_outright then break end
--- if overrides
    if has_record(request) then break end
--- end
--- if ban
    if redis.pcall('GET', KEYS[key_at]) then break end
--- end
--- if sharing
    local shared_to = to
--- include shares-outright.open
--- end
    local text = costs == 0 and '1' or ARGV[cost_at + per_policy]
    local cost = text + 0
    if cost <= 0 then break end
--- if thresholds
    local is_near = false
--- end
--- for each policy
    do
--- include algorithm
      key_at = key_at + 1
--- if sharing
      if charged + 1 == shared_at then shared_to = to end
--- end
      -- The variables that the section `charge` reads and writes (see charge.lua).
      local request, last, p, at, filled, before = key_at, key_at, ARGV, policy_at, to
--- include algorithm.charge
      if request == key_at then break end
      if before == nil and string.byte(p[2], charged + 1) % 2 == 0 then
        is_outright = false
        break
      end
      charged = charged + 1
--- if thresholds
      -- A verdict is one number with the remaining units in its lower bits, or four numbers.
      local lowest = near[charged]
      if lowest >= 0 and (filled - to == 1 and reply[filled] % 2 ^ 20 or reply[filled - 1]) <= lowest then is_near = true end
--- end
      values[charged], to, policy_at = before, filled, at + kernel_params
      if per_policy == 1 and policy_at < ban_at - 1 then
        text = p[cost_at + charged + 1]
        cost = text + 0
        if cost <= 0 then break end
      end
    end
--- end
--- if sharing
--- include shares-outright.close
--- end
--- if ids
      if remember(request, filled + 2, to) then break end
--- end
--- if thresholds
    if is_near then
      local place = filled
--- if ids
      place = place + 1
--- end
      note_verdicts(request, place)
    end
--- end
--- if ids
    end
--- end
    request, filled = request + 1, to
  end
end
