-- Fair shares of one limit: see docs/fair-shares.md. A shared policy has two states beside its own: the pool, of all tenants of one limit,
-- and the tenant. Both count by the segments of the shared policy. A tenant is light as long as it asks for less than its share; of the
-- light tenants only sums are known. A heavy tenant adds its weight to the pool, and is bounded by its share.
--
-- State:   pool: the start of the newest segment (6 bytes, ms); the step at which the pool was created (7); the weights that heavy tenants
--          added in the newest three segments (6 each); two totals (8 each); then the cells of all segments, newest first: the units that
--          light tenants asked for, and the squares of their costs. Tenant: the start; the step of its pool (a state from another pool is
--          void); the start of the segment in which the tenant was over its share most recently (6), the weight that it then added (2);
--          four totals (8 each); then cells: its part of the pool's two cells, the units that it used, the units that it asked for as a
--          heavy tenant. Cells have 2, 4 or 6 bytes, as the largest so far needs. All big-endian. A request in the newest segment only
--          changes the numbers before the second segment
-- Params:  limit, segment (ms), counted segments, default weight
-- Returns: look: 0, limit, reset, value (or nil, error); commit: limit, reset; adjust: limit, reset, charged

--- section share

-- The functions work on one shared policy at a time, the one that `shares_load` has read. Tables would take twice the time.
local shares_load, shares_admits, shares_note, shares_save, shares_remaining, shares_wait, shares_adjust
do

-- The standard deviations of the light tenants' demand in a segment that are kept for them; the part of the limit up to which twice as much is
-- kept, because the deviations of several segments add up; the segments after which a tenant's weight no longer counts (in the last one, the tenant
-- becomes light if it asks for less than its share); the largest cell.
local MARGIN, WIDE_MARGIN, HEAVY, MAX = 3, 1 / 32, 3, 2 ^ 45
-- The bytes before the cells.
local POOL_HEAD, TENANT_HEAD = 47, 53

-- The numbers of the policy (`empties`: the time from which the limit has no units, so that a segment begins at each request); its pool (`grid`: the
-- start of its current segment, by which its units leave; `expires`, which can be within a segment of the limit; `passed`: the segments that
-- `shares_wait` has dropped; `born`, the step of its creation; the totals, the newest cells, the width of cells, the older cells) and its tenant; and
-- the estimate: `share`, the units kept for light tenants (`room`), and whether the tenant is heavy (`is_marked`).
local s = { limit = 0, weight = 0, segment = 0, segments = 0, start = 0, empties = 0, grid = 0, expires = 0, passed = 0, born = 0, weight1 = 0, weight2 = 0, weight3 = 0,
  light = 0, squares = 0, light1 = 0, squares1 = 0, width = 0, rest = '', is_changed = false, mark = 0, marked = 0, own_grid = 0, own_expires = 0, own_passed = 0, own_light = 0,
  own_squares = 0, used = 0, asked = 0, own_light1 = 0, own_squares1 = 0, used1 = 0, asked1 = 0, own_width = 0, own_rest = '',
  share = 0, room = 0, is_marked = false }

local function pool_format(bytes)
  if bytes == 2 then return '>I6I7I6I6I6I8I8I2I2' end
  return bytes == 4 and '>I6I7I6I6I6I8I8I4I4' or bytes == 6 and '>I6I7I6I6I6I8I8I6I6' or nil
end

local function tenant_format(bytes)
  if bytes == 2 then return '>I6I7I6I2I8I8I8I8I2I2I2I2' end
  return bytes == 4 and '>I6I7I6I2I8I8I8I8I4I4I4I4' or bytes == 6 and '>I6I7I6I2I8I8I8I8I6I6I6I6' or nil
end

-- The older cells after `passed` further segments have begun. `bytes`: those of a segment.
local function rest_of(value, head, bytes, passed)
  if passed == 0 then return string.sub(value, head + bytes + 1) end
  if passed == 1 then return string.sub(value, head + 1, -1 - bytes) end
  return string.rep('\0', bytes * (passed - 1)) .. string.sub(value, head + 1, -1 - bytes * passed)
end

-- The segments that have begun since a state's newest, or nil if the state has expired.
local function passed_since(begin)
  local passed = math.max(0, math.floor((s.start - begin) / s.segment))
  if passed < s.segments and now < begin + s.segments * s.segment then return passed end
end

-- Estimates the shares at a time, if no tenant asks until then. The segments that have begun until then must be dropped.
local function estimate(time)
  local start = time < s.empties and time - (time - s.start) % s.segment or time
  local rest_ms = start + s.segment - time
  local span = s.segments * s.segment
  local lights = math.max(0, s.light - s.own_light) * span / (span - rest_ms)
  local variance = math.max(0, s.squares - s.own_squares) / s.segments
  local heavy = s.segments < HEAVY and s.segments or HEAVY
  local weights = 0
  if s.passed < heavy then
    weights = s.weight1
    if s.passed + 1 < heavy then weights = weights + s.weight2 end
    if s.passed + 2 < heavy then weights = weights + s.weight3 end
  end
  s.is_marked = s.marked > 0 and (start - s.mark) / s.segment < heavy
  if s.is_marked then weights = weights - s.marked end
  weights = math.max(0, weights) + s.weight
  local margin = MARGIN * math.sqrt(variance)
  local kept = math.max(margin, math.min(2 * margin, s.limit * WIDE_MARGIN))
  s.share = math.max(0, s.limit - lights - kept) * s.weight / weights
  s.room = lights / s.segments * (rest_ms / s.segment) + MARGIN * math.sqrt(variance * (rest_ms / s.segment))
end

-- Lets the segments of both states begin with those of the limit.
local function shares_begin()
  s.grid, s.own_grid = s.start, s.start
  s.expires = s.start + s.segments * s.segment
  s.own_expires = s.expires
end

-- Reads the states of a shared policy, whose values may be false, and estimates the tenant's share. `from` is the start of the current segment.
shares_load = function(p, units, own_weight, pool, tenant, from)
  if p[2] >= 2 ^ 50 or p[3] >= 2 ^ 20 then error('invalid segments') end
  s.limit, s.segment, s.segments, s.start, s.is_changed = units, p[2], p[3], from, false
  s.weight = own_weight > 0 and own_weight or p[4]
  s.empties, s.passed, s.own_passed = math.huge, 0, 0
  shares_begin()
  local begin, epoch, passed
  s.width = pool and (#pool - POOL_HEAD) / (2 * s.segments)
  local format = pool and pool_format(s.width)
  if format then
    begin, s.born, s.weight1, s.weight2, s.weight3, s.light, s.squares, s.light1, s.squares1 = struct.unpack(format, pool)
    passed = passed_since(begin)
  end
  if passed then
    s.is_changed = begin ~= from
    s.grid, s.expires = begin + passed * s.segment, begin + s.segments * s.segment
    s.rest = rest_of(pool, POOL_HEAD, 2 * s.width, passed)
    if passed > 0 then
      format = s.width == 2 and '>I2I2' or s.width == 4 and '>I4I4' or '>I6I6'
      for i = 1, passed do
        local lights, square = struct.unpack(format, pool, #pool + 1 - 2 * s.width * i)
        s.light, s.squares = s.light - lights, s.squares - square
      end
      s.light1, s.squares1 = 0, 0
      s.weight2, s.weight3 = passed == 1 and s.weight1 or 0, passed == 1 and s.weight2 or passed == 2 and s.weight1 or 0
      s.weight1 = 0
    end
  else
    s.born, s.width, s.rest, s.is_changed = step, 2, string.rep('\0', 4 * (s.segments - 1)), true
    s.weight1, s.weight2, s.weight3, s.light, s.squares, s.light1, s.squares1 = 0, 0, 0, 0, 0, 0, 0
  end
  s.own_width = tenant and (#tenant - TENANT_HEAD) / (4 * s.segments)
  format, passed = tenant and tenant_format(s.own_width), nil
  if format then
    begin, epoch, s.mark, s.marked, s.own_light, s.own_squares, s.used, s.asked, s.own_light1, s.own_squares1, s.used1, s.asked1 =
      struct.unpack(format, tenant)
    passed = epoch == s.born and passed_since(begin)
  end
  if passed then
    s.mark = math.min(s.start, s.mark)
    s.own_grid, s.own_expires = begin + passed * s.segment, begin + s.segments * s.segment
    s.own_rest = rest_of(tenant, TENANT_HEAD, 4 * s.own_width, passed)
    if passed > 0 then
      format = s.own_width == 2 and '>I2I2I2I2' or s.own_width == 4 and '>I4I4I4I4' or '>I6I6I6I6'
      for i = 1, passed do
        local a, b, c, d = struct.unpack(format, tenant, #tenant + 1 - 4 * s.own_width * i)
        s.own_light, s.own_squares, s.used, s.asked = s.own_light - a, s.own_squares - b, s.used - c, s.asked - d
      end
      s.own_light1, s.own_squares1, s.used1, s.asked1 = 0, 0, 0, 0
    end
  else
    s.mark, s.marked, s.own_width, s.own_rest = 0, 0, 2, string.rep('\0', 8 * (s.segments - 1))
    s.own_light, s.own_squares, s.used, s.asked, s.own_light1, s.own_squares1, s.used1, s.asked1 = 0, 0, 0, 0, 0, 0, 0, 0
  end
  s.own_expires = math.min(s.expires, s.own_expires)
  estimate(now)
end

-- Whether the tenant may have a cost, by the last estimate. `remaining`: the units that the limit has left.
shares_admits = function(cost, remaining)
  if not s.is_marked and s.own_light + s.asked + cost <= s.share then return cost <= remaining end
  return s.used + cost <= s.share and cost + s.room <= remaining
end

-- The units that the tenant could spend at once, and its share.
shares_remaining = function(remaining)
  estimate(now)
  local lights = s.is_marked and 0 or math.min(s.share - s.own_light - s.asked, remaining)
  local heavy = math.min(s.share - s.used, remaining - s.room)
  return math.max(0, math.floor(math.max(lights, heavy))), math.floor(s.share)
end

--- include shares-cells

local function withdraw_weight()
  if not s.is_marked then return end
  local at = math.floor((s.start - s.mark) / s.segment)
  if at == 0 then s.weight1 = math.max(0, s.weight1 - s.marked)
  elseif at == 1 then s.weight2 = math.max(0, s.weight2 - s.marked)
  else s.weight3 = math.max(0, s.weight3 - s.marked) end
end

-- Moves the tenant from the light ones to the heavy ones.
local function become_heavy()
  if s.own_light ~= 0 or s.own_squares ~= 0 then
    rewrite(function(pool, tenant)
      for i = 0, s.segments - 1 do
        local lights, square = tenant[4 * i + 1], tenant[4 * i + 2]
        pool[2 * i + 1] = math.max(0, pool[2 * i + 1] - lights)
        pool[2 * i + 2] = math.max(0, pool[2 * i + 2] - square)
        tenant[4 * i + 4] = math.min(MAX, tenant[4 * i + 4] + lights)
        tenant[4 * i + 1], tenant[4 * i + 2] = 0, 0
      end
    end)
  end
  if s.is_marked and s.mark == s.start and s.marked == s.weight then return end
  withdraw_weight()
  s.weight1, s.mark, s.marked, s.is_changed = s.weight1 + s.weight, s.start, s.weight, true
end

-- Moves the tenant back to the light ones in its last heavy segment, or at its first request after. Its demand moves, too: other tenants would
-- take the units as soon as its weight does not count. The costs are unknown: all are taken to be `cost`.
local function become_light(cost)
  rewrite(function(pool, tenant)
    for i = 0, s.segments - 1 do
      local units = tenant[4 * i + 4]
      pool[2 * i + 1] = math.min(MAX, pool[2 * i + 1] + units)
      pool[2 * i + 2] = math.min(MAX, pool[2 * i + 2] + units * cost)
      tenant[4 * i + 1] = math.min(MAX, tenant[4 * i + 1] + units)
      tenant[4 * i + 2] = math.min(MAX, tenant[4 * i + 2] + units * cost)
      tenant[4 * i + 4] = 0
    end
  end)
  withdraw_weight()
  s.marked, s.is_marked = 0, false
end

local function ask_lightly(cost)
  local square = cost * cost
  local by = math.min(MAX, s.light1 + cost) - s.light1
  s.light1, s.light = s.light1 + by, s.light + by
  by = math.min(MAX, s.squares1 + square) - s.squares1
  s.squares1, s.squares = s.squares1 + by, s.squares + by
  by = math.min(MAX, s.own_light1 + cost) - s.own_light1
  s.own_light1, s.own_light = s.own_light1 + by, s.own_light + by
  by = math.min(MAX, s.own_squares1 + square) - s.own_squares1
  s.own_squares1, s.own_squares, s.is_changed = s.own_squares1 + by, s.own_squares + by, true
end

local function ask_heavily(cost)
  local by = math.min(MAX, s.asked1 + cost) - s.asked1
  s.asked1, s.asked = s.asked1 + by, s.asked + by
end

local function use(cost)
  local by = math.min(MAX, s.used1 + cost) - s.used1
  s.used1, s.used = s.used1 + by, s.used + by
end

-- Records a request, after `shares_admits`.
shares_note = function(cost, is_charged)
  local is_over = s.own_light + s.asked + cost > s.share
  if is_over then become_heavy()
  elseif s.marked > 0 and (s.start - s.mark) / s.segment >= math.min(HEAVY, s.segments) - 1 then become_light(cost) end
  if is_over or s.is_marked then ask_heavily(cost) else ask_lightly(cost) end
  if is_charged then use(cost) end
  shares_begin()
end

-- Writes both states.
shares_save = function(pool_key, tenant_key)
  local most, life = 256 ^ s.width, s.start + s.segments * s.segment - now
  local own_most = 256 ^ s.own_width
  if s.light1 >= most or s.squares1 >= most or s.own_squares1 >= own_most or s.own_light1 >= own_most or s.used1 >= own_most
    or s.asked1 >= own_most then rewrite(function() end) end
  local text = headgate_life(life)
  if s.is_changed then
    local pool = struct.pack(pool_format(s.width), s.start, s.born, s.weight1, s.weight2, s.weight3, s.light, s.squares, s.light1, s.squares1)
    redis.call('SET', pool_key, pool .. s.rest, 'PX', text)
  elseif redis.call('PTTL', pool_key) == -1 then
    redis.call('PEXPIREAT', pool_key, now + life)
  end
  local tenant = struct.pack(tenant_format(s.own_width), s.start, s.born, s.mark, s.marked, s.own_light, s.own_squares, s.used, s.asked,
    s.own_light1, s.own_squares1, s.used1, s.asked1)
  redis.call('SET', tenant_key, tenant .. s.own_rest, 'PX', text)
  if deadline < 0 then
    redis.call('PEXPIREAT', pool_key, now + life)
    redis.call('PEXPIREAT', tenant_key, now + life)
  end
end

--- include shares-wait

-- Changes a charge. `ends`: the time at which the charge ends by itself, or 0 for the oldest units.
shares_adjust = function(units, ends)
  if units > 0 then
    use(units)
    if s.is_marked then ask_heavily(units) else ask_lightly(units) end
    return
  end
  rewrite(function(pool, tenant)
    local back_units, stop = -units, s.start + s.segments * s.segment
    for i = s.segments - 1, 0, -1 do
      if ends == 0 or math.ceil((stop - ends) / s.segment) == i then
        local back = math.min(back_units, tenant[4 * i + 3])
        local lights = math.min(back, tenant[4 * i + 1])
        local square = math.min(lights * lights, tenant[4 * i + 2])
        back_units = back_units - back
        tenant[4 * i + 3] = tenant[4 * i + 3] - back
        tenant[4 * i + 4] = math.max(0, tenant[4 * i + 4] + lights - back)
        tenant[4 * i + 1], tenant[4 * i + 2] = tenant[4 * i + 1] - lights, tenant[4 * i + 2] - square
        pool[2 * i + 1] = math.max(0, pool[2 * i + 1] - lights)
        pool[2 * i + 2] = math.max(0, pool[2 * i + 2] - square)
      end
    end
  end)
end

end

-- The start of the current segment. `reset` is the time until the shared policy is back at its full quota.
local function shares_start(p, reset)
  local segment = p[2]
  return now + (reset == 0 and segment or (reset - 1) % segment + 1) - segment
end

--- section look

-- The kernel of the hidden policies. A decision needs both states, and `shares_save` writes them.
local function shares_read(key, p, _, now)
  local value = redis.pcall('GET', key)
  if type(value) == 'table' then return nil, value.err end
  if not value or #value < 8 then return 0, p[1], 0, false end
  local reset = math.min(struct.unpack('>I6', value), now) + p[3] * p[2] - now
  return 0, p[1], math.max(0, reset), reset > 0 and value
end

local function shares_commit(_, p, _, _, _) return p[1], 0 end

local kernel_look, kernel_commit = shares_read, shares_commit

--- section adjust

-- The time until the segment of a pool ends, for a change that has left the limit without units and so without segments. Charges are found
-- by the segments that they were made in.
local function shares_reset_of_pool(p, pool)
  local start = pool and struct.unpack('>I6', pool)
  return start and start <= now and p[2] - (now - start) % p[2] or 0
end

headgate_kernel('shares', {
  is_share = true,
  -- A charge is returned by the value from before.
  restores = true,
  look = shares_read,
  commit = shares_commit,
  adjust = function(_, p, units) return p[1], 0, math.max(0, units) end,
  reset_of_pool = shares_reset_of_pool,
})
