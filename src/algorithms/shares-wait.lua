-- The time until fair shares admit a cost. shares.lua includes these functions, whose numbers `s` and estimate they use.
--
-- State:   see shares.lua
-- Params:  see shares.lua
-- Returns: shares_wait: ms, at most those of all segments and one more

-- Drops the oldest segment, for an estimate of a later time: the n-th after the first.
local function drop(n)
  if n == s.segments then
    s.light, s.squares, s.own_light, s.own_squares, s.used, s.asked = 0, 0, 0, 0, 0, 0
    return
  end
  local format = '>I' .. s.width .. 'I' .. s.width
  local lights, square = struct.unpack(format, s.rest, #s.rest + 1 - 2 * s.width * n)
  s.light, s.squares = s.light - lights, s.squares - square
  format = '>' .. string.rep('I' .. s.own_width, 4)
  local a, b, c, d = struct.unpack(format, s.own_rest, #s.own_rest + 1 - 4 * s.own_width * n)
  s.own_light, s.own_squares, s.used, s.asked = s.own_light - a, s.own_squares - b, s.used - c, s.asked - d
end

-- The time until a cost is admitted if no tenant asks. Within a segment the share only grows, and the room only shrinks. Nothing can be
-- recorded or saved afterwards.
shares_wait = function(cost, from, remaining_at)
  for passed = 0, s.segments do
    if passed > 0 then drop(passed) end
    local last = s.start + (passed + 1) * s.segment - 1
    if last >= now + from then
      local low, high = passed == 0 and now or s.start + passed * s.segment, last
      estimate(passed, 1)
      local remaining = shares_admits(cost, math.huge) and remaining_at(low) or 0
      if shares_admits(cost, remaining) then
        estimate(passed, last + 1 - low)
        if shares_admits(cost, remaining) then return low - now end
        while low < high do
          local middle = math.floor((low + high) / 2)
          estimate(passed, last + 1 - middle)
          if shares_admits(cost, remaining) then high = middle else low = middle + 1 end
        end
        return low - now
      end
    end
  end
  return (s.segments + 1) * s.segment
end
