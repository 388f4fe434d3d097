-- evaluate.lua for sets of one policy, by far the most common sets: the same decisions in less code. The functions of the policy's
-- algorithm are the locals `kernel_look`, `kernel_commit` and `kernel_charge`. Shadows need no
-- special code, because a shadow charges nothing where it would deny. `isInSingle` of a feature excludes
-- the sets that are not for this script.
--
-- KEYS:  one per request; then per request those of features; then those that features have behind all others (see their files)
-- ARGV:  deadline (see common.lua); the policy's params (see packed-params.ts); the arguments of features, then those that features read
--        themselves; per request the cost, or a common cost, or nothing if every cost is 1; to look without writing, a cost c is sent as
--        -1 - c; what features send behind all others
-- Reply: step, then per request: an error's text; or the verdict, after what features append, as of evaluate.lua; or nil, if a feature cannot
--        decide by the params, and what the feature appends

-- Lua reads locals faster than globals.
local redis, KEYS, ARGV = redis, KEYS, ARGV
--- include common
--- include algorithm

-- The variables of the algorithm's section `charge` (see charge.lua). The reply has room for a single verdict.
local request, last, reply, filled, before = 1, #KEYS, { step, nil }, 1, nil
-- The position in ARGV after the arguments of the policy and of features.
local at = 3
--- if keyed
local requests, stride = last, 1
--- end
--- for each feature single
--- for each feature single_requests
--- if keyed
requests = requests / stride
--- else
local requests = last
--- end

-- Lua converts text to numbers slowly.
local text, is_same_cost, cost = ARGV[at], not ARGV[at + 1], 1
if text then cost = text + 0 else text = '1' end
--- if algorithm.charge
if is_same_cost and cost > 0 then
--- include algorithm.charge_params of single
--- if keyed
--- include evaluate-single.keyed
--- else
--- include algorithm.charge of single
--- end
  if request > requests then return reply end
end
--- end

--- include common.write
--- include charge
--- include algorithm.look

--- for each feature single_prepare
--- configured

while request <= requests do
  if not is_same_cost then text = ARGV[at + request - 1] end
  cost = tonumber(text)
  local writable = cost >= 0
  local heals = writable
  if not writable then cost = -1 - cost end
  local params, change = configured, nil
  last = is_same_cost and requests or request
--- for each feature single_read
  -- As in steps.lua; or nil and an error.
  local refused, failure = 0, nil
--- for each feature single_look

  if kernel_charge and writable and cost > 0 and not change and not params.record and refused == 0 then
    local from, to = request, filled
    if params.limit then
      reply[filled + 1], reply[filled + 2], to = -2, params.limit, filled + 2
    end
    request, to, before = kernel_charge(request, last, params, cost, text, reply, to)
--- for each feature single_charged
    if request > from then filled = to end
  end

  if change then
    reply[filled + 1], reply[filled + 2] = false, change
    filled = filled + 2
    request = request + 1
  elseif request <= last then
    local key = KEYS[request]
    local wait, remaining, reset, a, b, c = nil, failure, nil, nil, nil, nil
    if refused then wait, remaining, reset, a, b, c = kernel_look(key, params, cost, now, writable) end
    if not wait and refused and refused > 0 then wait, remaining, reset = 0, 0, 0 end
    local admitted = wait and (wait == 0 or wait < -1)
    if wait and params.admitted_at and not admitted then
      local time = params.admitted_at(kernel_look, key, params, cost, now)
      wait = time == -1 and -1 or time - now
    end
--- for each feature single_denied
    if writable and cost > 0 and admitted then
      remaining, reset = kernel_commit(key, params, cost, now, a, b, c)
    elseif heals and redis.call('PTTL', key) == -1 then
      headgate_heal(key, kernel_look, params)
    end
--- for each feature single_report
    if wait then
      if params.limit then
        reply[filled + 1], reply[filled + 2] = -2, params.limit
        filled = filled + 2
      end
      filled = headgate_add_verdict(reply, filled, wait, remaining, reset)
    else
      -- `remaining` is the error, and replaces a limit that was appended before.
      reply[filled + 1], reply[filled + 2] = remaining, nil
      filled = filled + 1
    end
    request = request + 1
  end
end
return reply

--- section keyed

-- The common case of requests whose keys may have the state of a feature: no such state, or another limit.
--- for each feature single_keyed
while request <= requests do
  local first, from, must_look = request, filled, false
  last = requests
--- for each feature single_guard
--- for each feature single_charge
--- include algorithm.charge of single
  -- A denial by a limit that ends, or with such a feature, depends on more than the policy's state.
  if before == nil and must_look then request = first end
  if request <= last then
    if request == first then
      for n = filled, from + 1, -1 do reply[n] = nil end
      filled = from
    end
    break
  end
end
