-- Fair shares of one limit: see docs/fair-shares.md. A shared policy has two states beside its own: the pool, of all tenants of one limit,
-- and the tenant. Both count by the segments of the shared policy. A tenant is light as long as it asks for less than its share; of the
-- light tenants only sums are known. A heavy tenant adds its weight to the pool, and is bounded by its share.
--
-- State:   MessagePack of an array: the start of the newest segment, the step at which the pool was created (a tenant's state from another
--          pool is void), the start of the segment in which the tenant was over its share most recently, the weight that it then added;
--          the totals of four rings; the rings, newest segment first: the units that light tenants asked for (0), the squares of their costs
--          (1), the pool's weights of heavy tenants or the units that the tenant used (2), the units that the tenant asked for as a heavy
--          one (3)
-- Params:  limit, segment (ms), counted segments, default weight
-- Returns: look: 0, limit, reset, state (or nil, error); commit: limit, reset; adjust: limit, reset, charged

local kernel_name, kernel_params = 'shares', 4

--- section look

-- The standard deviations of the light tenants' demand that are kept for them; the segments for which a tenant is heavy after it asked for
-- more than its share; the largest stored sum.
local SHARES_MARGIN, SHARES_HEAVY, SHARES_MAX = 3, 3, 2 ^ 45

-- The units of a ring after `passed` further segments have begun.
local function shares_total(state, ring, segments, passed)
  local units, stop = state[5 + ring], 8 + (ring + 1) * segments
  for at = stop - passed + 1, stop do units = units - state[at] end
  return units
end

-- Adds to the i-th segment of a ring.
local function shares_add(state, ring, segments, i, units)
  local at = 8 + ring * segments + i
  local before = state[at]
  local after = math.max(0, math.min(SHARES_MAX, before + units))
  state[at], state[5 + ring] = after, state[5 + ring] + after - before
end

-- Moves a state to the segment that begins at `start`, or makes an empty one.
local function shares_advanced(state, p, start, born)
  local segments, passed = p[3], p[3]
  if state then
    -- If the clock went back, no segment begins in the future.
    passed = math.min(segments, math.max(0, math.floor((start - state[1]) / p[2])))
  end
  if passed == segments then
    state = { start, born, 0, 0 }
    for i = 5, 8 + 4 * segments do state[i] = 0 end
    return state
  end
  for ring = 0, passed > 0 and 3 or -1 do
    local base = 8 + ring * segments
    state[5 + ring] = shares_total(state, ring, segments, passed)
    for at = base + segments, base + passed + 1, -1 do state[at] = state[at - passed] end
    for at = base + 1, base + passed do state[at] = 0 end
  end
  state[1], state[3] = start, math.min(start, state[3])
  return state
end

-- The decision for one request of a tenant. `reset` is the time until the shared policy is back at its full quota.
local function shares_new(p, limit, weight, pool, tenant, reset)
  local segment = p[2]
  local start = now + (reset == 0 and segment or (reset - 1) % segment + 1) - segment
  pool = shares_advanced(pool, p, start, step)
  tenant = shares_advanced(tenant and tenant[2] == pool[2] and tenant or nil, p, start, pool[2])
  return {
    p = p, limit = limit, weight = weight > 0 and weight or p[4], start = start, left = start + segment - now,
    pool = pool, tenant = tenant, share = 0, room = 0, is_marked = false, used = 0, asked = 0,
  }
end

-- Estimates the shares after `passed` further segments have begun, `left` ms before the end of the current one.
local function shares_estimate(s, passed, left)
  local segment, segments, pool, tenant = s.p[2], s.p[3], s.pool, s.tenant
  local span, heavy = segments * segment, math.min(SHARES_HEAVY, segments)
  local own = shares_total(tenant, 0, segments, passed)
  local light = math.max(0, shares_total(pool, 0, segments, passed) - own) * span / (span - left)
  local squares = shares_total(pool, 1, segments, passed) - shares_total(tenant, 1, segments, passed)
  local variance = math.max(0, squares) / segments
  local weights, first = 0, 8 + 2 * segments
  for at = first + 1, first + heavy - passed do weights = weights + pool[at] end
  s.is_marked = tenant[4] > 0 and (s.start - tenant[3]) / segment + passed < heavy
  if s.is_marked then weights = weights - tenant[4] end
  weights = math.max(0, weights) + s.weight
  s.share = math.max(0, s.limit - light - SHARES_MARGIN * math.sqrt(variance)) * s.weight / weights
  s.room = light / segments * (left / segment) + SHARES_MARGIN * math.sqrt(variance * (left / segment))
  s.used = shares_total(tenant, 2, segments, passed)
  s.asked = shares_total(tenant, 3, segments, passed) + own
end

-- Whether the tenant may have a cost, by the last estimate. `remaining`: the units that the limit has left.
local function shares_admits(s, cost, remaining)
  if not s.is_marked and s.asked + cost <= s.share then return cost <= remaining end
  return s.used + cost <= s.share and cost + s.room <= remaining
end

local function shares_look(s, cost, remaining)
  shares_estimate(s, 0, s.left)
  return cost == 0 or shares_admits(s, cost, remaining)
end

-- The units that the tenant could spend at once.
local function shares_remaining(s, remaining)
  shares_estimate(s, 0, s.left)
  local light = s.is_marked and 0 or math.min(s.share - s.asked, remaining)
  local heavy = math.min(s.share - s.used, remaining - s.room)
  return math.max(0, math.floor(math.max(light, heavy)))
end

-- The time until a cost is admitted if no tenant asks. Within a segment the share only grows, and the room only shrinks.
local function shares_wait(s, cost, from, remaining_at)
  local segment, segments = s.p[2], s.p[3]
  for passed = 0, segments do
    local last = s.start + (passed + 1) * segment - 1
    if last >= now + from then
      local low, high = passed == 0 and now or s.start + passed * segment, last
      local remaining = remaining_at(low)
      shares_estimate(s, passed, 1)
      if shares_admits(s, cost, remaining) then
        while low < high do
          local middle = math.floor((low + high) / 2)
          shares_estimate(s, passed, last + 1 - middle)
          if shares_admits(s, cost, remaining) then high = middle else low = middle + 1 end
        end
        return low - now
      end
    end
  end
  return (segments + 1) * segment
end

-- Moves the tenant from the light ones to the heavy ones.
local function shares_mark(s)
  local pool, tenant, segments = s.pool, s.tenant, s.p[3]
  for i = 1, (tenant[5] ~= 0 or tenant[6] ~= 0) and segments or 0 do
    local light, square = tenant[8 + i], tenant[8 + segments + i]
    shares_add(pool, 0, segments, i, -light)
    shares_add(pool, 1, segments, i, -square)
    shares_add(tenant, 3, segments, i, light)
    shares_add(tenant, 0, segments, i, -light)
    shares_add(tenant, 1, segments, i, -square)
  end
  local at = math.floor((s.start - tenant[3]) / s.p[2]) + 1
  if s.is_marked then shares_add(pool, 2, segments, at, -tenant[4]) end
  shares_add(pool, 2, segments, 1, s.weight)
  tenant[3], tenant[4] = s.start, s.weight
end

local function shares_ask_lightly(s, cost)
  local pool, tenant, segments, square = s.pool, s.tenant, s.p[3], cost * cost
  shares_add(pool, 0, segments, 1, cost)
  shares_add(pool, 1, segments, 1, square)
  shares_add(tenant, 0, segments, 1, cost)
  shares_add(tenant, 1, segments, 1, square)
end

-- Records a request, after `shares_look`.
local function shares_note(s, cost, is_charged)
  local tenant, segments = s.tenant, s.p[3]
  local is_over = s.asked + cost > s.share
  if is_over then shares_mark(s) end
  if not is_over and not s.is_marked then shares_ask_lightly(s, cost)
  else shares_add(tenant, 3, segments, 1, cost) end
  if is_charged then shares_add(tenant, 2, segments, 1, cost) end
end

local function shares_write(key, state, p)
  headgate_set(key, cmsgpack.pack(state), state[1] + p[3] * p[2])
end

-- The shared policies of a list of policies or verdicts. The hidden policies, a pool and a tenant for each, have their order.
local function shares_of(policies, items)
  local hidden, all = {}, {}
  for i, policy in ipairs(policies) do
    if policy.is_share then hidden[#hidden + 1] = i end
  end
  for i, policy in ipairs(policies) do
    if policy.shared then
      local at = 2 * #all + 1
      all[#all + 1] = { at = i, limit = items[i], pool = items[hidden[at]], tenant = items[hidden[at + 1]] }
    end
  end
  return all
end

-- The kernel of the hidden policies. A decision needs both states, and `shares_note` changes them.
local function shares_read(key, p, _, now)
  local value = redis.pcall('GET', key)
  if type(value) == 'table' then return nil, value.err end
  if not value then return 0, p[1], 0, false end
  local is_known, state = pcall(cmsgpack.unpack, value)
  if not is_known or type(state) ~= 'table' or #state ~= 8 + 4 * p[3] then return 0, p[1], 0, false end
  local reset = math.min(state[1], now) + p[3] * p[2] - now
  return 0, p[1], math.max(0, reset), reset > 0 and state
end

local function shares_commit(_, p, _, _, _) return p[1], 0 end

local kernel_look, kernel_commit = shares_read, shares_commit

--- section adjust

-- The time until the segment of a pool ends, for a change that has left the limit without units and so without segments. Charges are found
-- by the segments that they were made in.
local function shares_reset_of_pool(p, pool)
  return pool and pool[1] <= now and p[2] - (now - pool[1]) % p[2] or 0
end

-- Changes a charge. `mark`: the time at which the charge ends by itself, or 0 for the oldest units.
local function shares_adjust(s, units, mark)
  local pool, tenant = s.pool, s.tenant
  local segment, segments = s.p[2], s.p[3]
  shares_estimate(s, 0, s.left)
  if units > 0 then
    shares_add(tenant, 2, segments, 1, units)
    if s.is_marked then shares_add(tenant, 3, segments, 1, units) else shares_ask_lightly(s, units) end
    return
  end
  local left, stop = -units, s.start + segments * segment
  for i = segments, 1, -1 do
    if mark == 0 or mark == stop - (i - 1) * segment then
      local back = math.min(left, tenant[8 + 2 * segments + i])
      local light = math.min(back, tenant[8 + i])
      local square = math.min(light * light, tenant[8 + segments + i])
      left = left - back
      shares_add(tenant, 2, segments, i, -back)
      shares_add(tenant, 3, segments, i, light - back)
      shares_add(tenant, 0, segments, i, -light)
      shares_add(tenant, 1, segments, i, -square)
      shares_add(pool, 0, segments, i, -light)
      shares_add(pool, 1, segments, i, -square)
    end
  end
end

headgate_kernel('shares', {
  params = 4,
  is_share = true,
  look = shares_read,
  commit = shares_commit,
  adjust = function(_, p, units) return p[1], 0, math.max(0, units) end,
})
