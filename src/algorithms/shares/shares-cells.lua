-- The cells of the segments of a shared limit: shares.lua, which includes this file, has them as bytes.
--
-- State:   see shares.lua
-- Params:  none
-- Returns: rewrite: nothing

-- The cells of all segments as a list. The arguments after `older` are the newest ones.
local function cells_of(bytes, older, ...)
  local cells, newest = { ... }, select('#', ...)
  local rests = { struct.unpack('>' .. string.rep('I' .. bytes, #older / bytes), older) }
  for i = 1, #older / bytes do cells[newest + i] = rests[i] end
  return cells
end

-- The older cells of a list as bytes, and the width that all its cells need.
local function packed(cells, newest)
  local most = 0
  for _, cell in ipairs(cells) do most = math.max(most, cell) end
  local bytes = most < 2 ^ 16 and 2 or most < 2 ^ 32 and 4 or 6
  return struct.pack('>' .. string.rep('I' .. bytes, #cells - newest), unpack(cells, newest + 1)), bytes
end

local function total(cells, first, each)
  local sum = 0
  for i = first, #cells, each do sum = sum + cells[i] end
  return sum
end

-- Changes cells of any segments: `change(pool, tenant)` gets both lists.
local function rewrite(change)
  local pool = cells_of(s.width, s.rest, s.light1, s.squares1)
  local tenant = cells_of(s.own_width, s.own_rest, s.own_light1, s.own_squares1, s.used1, s.asked1)
  change(pool, tenant)
  s.light, s.squares, s.light1, s.squares1 = total(pool, 1, 2), total(pool, 2, 2), pool[1], pool[2]
  s.own_light, s.own_squares, s.used, s.asked = total(tenant, 1, 4), total(tenant, 2, 4), total(tenant, 3, 4), total(tenant, 4, 4)
  s.own_light1, s.own_squares1, s.used1, s.asked1 = tenant[1], tenant[2], tenant[3], tenant[4]
  s.rest, s.width = packed(pool, 2)
  s.own_rest, s.own_width = packed(tenant, 4)
  s.is_changed = true
end
