-- Fresh bans: the denial that begins a ban forgets charges of the banned key, also those in other tiers, as reset.lua does.
--
-- KEYS:  per request, behind the key of the ban: of each forgotten policy its state, unless it is a policy of the request, and its history
--        (see adjust.lua); then the marks of thresholds
-- ARGV:  `forgotten_keys`: the number of these keys; `forgotten`: per forgotten policy its position in the request (0: none), and how long
--        a charge counts (ms)
-- Reply: empty

--- section decision

local forgotten_at = stride
stride = stride + forgotten_keys

--- section arguments

-- The marks to delete: per ban the position before the first in KEYS, and the last one. A change deletes none.
local unmarked

--- section functions

--- include reset.forget
-- Forgets the charges of a request's key. The policies of the request begin behind KEYS[own_at], the further keys behind KEYS[at].
-- `place` is the position of the request from 0, because a charge of the same call may have its own step: see `stepOf` in store.ts.
-- Returns the position before the first mark.
local function forget_charges(own_at, at, place)
  local forgotten_step = math.min(step + place, now * 1000 + 999)
  for position, life in string.gmatch(forgotten, '(%d+) (%d+)') do
    local key = KEYS[own_at + position]
    if position == '0' then
      at = at + 1
      key = KEYS[at]
    end
    at = at + 1
    headgate_forget(key, KEYS[at], life, forgotten_step)
  end
  return at
end

--- section prepare

--- include fresh-bans.functions

--- section report

-- Nothing looks at the state of the request from here on. While a cluster moves a slot, the server refuses calls about a key that was deleted.
if refused < 0 then
  local from = request * stride + forgotten_at
  unmarked = unmarked or {}
  unmarked[#unmarked + 1] = { forget_charges(request * stride, from, request), from + forgotten_keys }
end

--- section finish

-- The marks of earlier charges of the call were written just now.
if unmarked then
  for _, marks in ipairs(unmarked) do
    for i = marks[1] + 1, marks[2] do redis.call('DEL', KEYS[i]) end
  end
end

--- section single

local forgotten_at = stride
stride = stride + forgotten_keys

--- section single_prepare

--- include fresh-bans.functions

--- section single_report

if refused and refused < 0 then
  local from = requests + (request - 1) * (stride - 1) + forgotten_at - 1
  for i = forget_charges(request - 1, from, request - 1) + 1, from + forgotten_keys do redis.call('DEL', KEYS[i]) end
end
