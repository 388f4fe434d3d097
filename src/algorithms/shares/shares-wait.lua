-- The time until fair shares admit a cost. shares.lua includes these functions, whose numbers `s` and estimate they use.
--
-- State:   see shares.lua
-- Params:  see shares.lua
-- Returns: shares_wait: ms, at most those of all segments and one more

-- Drops the oldest segment of the pool, for an estimate of a later time.
local function drop()
  s.passed = s.passed + 1
  if s.passed >= s.segments then
    s.light, s.squares = 0, 0
    return
  end
  local format = '>I' .. s.width .. 'I' .. s.width
  local lights, square = struct.unpack(format, s.rest, #s.rest + 1 - 2 * s.width * s.passed)
  s.light, s.squares = s.light - lights, s.squares - square
end

-- The same for the tenant, all of whose units leave when its state expires.
local function drop_own(expires)
  s.own_passed = s.own_passed + 1
  if expires or s.own_passed >= s.segments then
    s.own_passed, s.marked, s.own_light, s.own_squares, s.used, s.asked = s.segments, 0, 0, 0, 0, 0
    return
  end
  local format = '>' .. string.rep('I' .. s.own_width, 4)
  local a, b, c, d = struct.unpack(format, s.own_rest, #s.own_rest + 1 - 4 * s.own_width * s.own_passed)
  s.own_light, s.own_squares, s.used, s.asked = s.own_light - a, s.own_squares - b, s.used - c, s.asked - d
end

-- Drops the segments that have passed at a time. Returns the next time at which units leave the pool, the tenant or the limit, or the tenant
-- is not heavy any more.
local function go_on(time)
  local segment = s.segment
  local start = time < s.empties and time - (time - s.start) % segment or time
  while s.passed < math.floor((start - s.grid) / segment) do drop() end
  while s.own_passed < s.segments and (time >= s.own_expires or s.own_passed < math.floor((start - s.own_grid) / segment)) do
    drop_own(time >= s.own_expires)
  end
  if time < s.empties then
    return math.min(start + segment, s.own_expires > time and s.own_expires or math.huge, s.expires)
  end
  local lightens = s.mark + math.min(HEAVY, s.segments) * segment
  return math.min(time + segment - (time - s.grid) % segment, time + segment - (time - s.own_grid) % segment,
    lightens > time and lightens or math.huge)
end

-- The time until a cost is admitted if no tenant asks, at least `from`. Between two changes of the states the share only grows, and the
-- room only shrinks. Only a later time can be asked for afterwards, and nothing can be recorded or saved.
shares_wait = function(cost, from, remaining_at, empties)
  s.empties = empties
  local time = now + from
  while time < s.expires do
    local following = go_on(time)
    local high = following - 1
    estimate(high)
    local remaining = shares_admits(cost, math.huge) and remaining_at(time) or 0
    if shares_admits(cost, remaining) then
      while time < high do
        local middle = math.floor((time + high) / 2)
        estimate(middle)
        if shares_admits(cost, remaining) then high = middle else time = middle + 1 end
      end
      break
    end
    time = following
  end
  return time - now
end
