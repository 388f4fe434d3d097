-- Bans: repeated denials ban a key, longer each time.
--
-- State:   "denials counted banned length last", decimal: the denials, and the end of the window of the denials; the
--          ban's end and length; the length of the last ban by denials, from which the next ban grows. The key expires
--          once nothing in the state counts.
-- Params:  after (denials, or 0 for never), within (ms), first (ms), factor (thousandths), max (ms)
-- Returns: look: ms until the ban ends or 0 (or nil, error), state; strike: the length of the ban that begins with the
--          denial (ms) or 0

local ban
do

-- The time at which the state expires. Earlier bans are remembered for `max` after the end of the last one.
local function ban_stop(p, state) return math.max(state[2], state[3] + (state[5] > 0 and p[5] or 0)) end

local function ban_write(key, p, now, state)
  local stop = ban_stop(p, state)
  if stop <= now then
    redis.call('DEL', key)
  else
    headgate_set(key, string.format('%.0f %.0f %.0f %.0f %.0f', unpack(state)), stop)
  end
end

local function ban_read(key, p, now, writable)
  local value = redis.pcall('GET', key)
  if not value then return { 0, 0, 0, 0, 0 } end
  if type(value) == 'table' then return nil, value.err end
  local denials, counted, banned, length, last = string.match(value, '^(%d+) (%d+) (%d+) (%d+) (%d+)$')
  local state = { 0, 0, 0, 0, 0 }
  -- A ban never exceeds 366 days, so Headgate did not write a longer value.
  if denials and tonumber(length) <= 366 * 86400000 then
    state = { tonumber(denials), tonumber(counted), tonumber(banned), tonumber(length), tonumber(last) }
  end
  -- After a clock that went back, or under a shorter span, a ban must not grow.
  local before = state[2] + state[3]
  state[2], state[3] = math.min(state[2], now + p[2]), math.min(state[3], now + state[4])
  if writable and (state[2] + state[3] < before or redis.call('PTTL', key) == -1) then ban_write(key, p, now, state) end
  if state[2] <= now then state[1], state[2] = 0, 0 end
  if state[3] + p[5] <= now then state[5] = 0 end
  return state
end

local function ban_look(key, p, now, writable)
  local state, err = ban_read(key, p, now, writable)
  if not state then return nil, err end
  return math.max(0, state[3] - now), state
end

local function ban_strike(key, p, now, state)
  if p[1] == 0 then return 0 end
  if state[2] == 0 then state[2] = now + p[2] end
  state[1] = state[1] + 1
  local length = 0
  if state[1] >= p[1] then
    length = state[5] == 0 and p[3] or math.min(p[5], math.floor(state[5] * p[4] / 1000))
    state[1], state[2], state[3], state[4], state[5] = 0, 0, now + length, length, length
  end
  ban_write(key, p, now, state)
  return length
end

-- Sets a ban of `length` ms by hand. The growth of bans by denials is kept. A length of 0 forgives all denials and bans, and a length below 0
-- only ends the ban. Returns the rest of the ban before (ms), or nil and an error.
local function ban_set(key, p, now, length)
  local state, err = ban_read(key, p, now, true)
  if not state then return nil, err end
  local left = math.max(0, state[3] - now)
  if length == 0 then
    redis.call('DEL', key)
  else
    length = math.max(0, length)
    state[3], state[4] = now + length, length
    ban_write(key, p, now, state)
  end
  return left
end

ban = { params = 5, look = ban_look, strike = ban_strike, set = ban_set }

end
