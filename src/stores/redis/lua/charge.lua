-- The common case of a decision by one algorithm as a function, `kernel_charge`, or nil if the algorithm has no section `charge`.
--
-- KEYS:  the keys of the including script
-- ARGV:  the arguments of the including script
-- Reply: empty

local kernel_charge
--- if algorithm.charge
-- Decides the requests from `request` to `last`, which are positions in KEYS and have the same cost, and charges the requests. Appends the
-- verdicts to `reply`, which has `filled` elements, and stops before the first request that needs `look`. `text` is the cost as it was sent, because formatting numbers is slow. Returns the position of the first
-- undecided request, the new length of the reply, and the value of the last request's key from before its charge: false without a value,
-- nil if the request was denied.
kernel_charge = function(request, last, p, cost, text, reply, filled)
  local before
--- include algorithm.charge_params of table
--- include algorithm.charge of table
  return request, filled, before
end
--- end
