-- Charges requests without a look: each policy in code of its own, as long as all policies admit.
--
-- KEYS:  the keys of evaluate.lua, which includes this file
-- ARGV:  the arguments of evaluate.lua
-- Reply: empty

is_outright = true

-- Charges the requests from `request` on, up to one that needs a look, and appends their verdicts to the reply. `take_back` reverts the
-- charges of that request. Lua reads arguments faster than variables of the script.
local function charge_outright(
  reply, values, now, deadline, requests, stride, at, costs, per_request, per_policy
)
  local redis, KEYS = redis, KEYS
--- for each policy
--- include algorithm.charge_params of policy
--- end
--- for each feature fast_prepare
  while request < requests do
    charged = 0
--- for each feature before
    local key_at, cost_at, to = request * stride, at + request * per_request, filled
--- for each feature fast
    if not is_outright then break end
--- for each feature guard
--- for each feature fast_open
    local text, cost = '1', 1
    if costs > 0 then
      text = ARGV[cost_at + per_policy]
      cost = text + 0
      if cost <= 0 then break end
    end
--- values
--- for each policy
    do
--- include algorithm
      key_at = key_at + 1
--- for each feature fast_each
      -- The variables that the section `charge` reads and writes (see charge.lua).
      local request, last, filled, before = key_at, key_at, to, nil
--- include algorithm.charge_params of variables
--- include algorithm.charge of policy
      if request == key_at then break end
      if before == nil and string.byte(ARGV[2], charged + 1) % 2 == 0 then
        is_outright = false
        break
      end
      charged = charged + 1
--- for each feature fast_policy
      values[charged], to = before, filled
      if per_policy == 1 and charged < count then
        text = ARGV[cost_at + charged + 1]
        cost = text + 0
        if cost <= 0 then break end
      end
    end
--- end
--- for each feature fast_close
--- for each feature fast_charged
    request, filled = request + 1, to
  end
end
