-- What every script begins with.
--
-- KEYS:  of the script that follows
-- ARGV:  deadline, by the server's time (ms), or, for tests, the step at which to decide, negative; then the script's own
-- Reply: none; past the deadline, the error 'HEADGATE_LATE' with the server's time: whoever asked has been answered otherwise

local deadline = tonumber(ARGV[1])
-- The time in microseconds. No two calls have the same, so that it tells which came first.
local step = -deadline
if deadline >= 0 then
  -- Read once: on Redis 7.0 time goes on within a script.
  local time = redis.call('TIME')
  step = time[1] * 1000000 + time[2]
end
local now = math.floor(step / 1000)
if deadline >= 0 and now > deadline then return redis.error_reply(string.format('HEADGATE_LATE %.0f', now)) end

-- Writes a value that counts until `stop`, which the value itself tells: the TTL only makes room. Numbers become text slowly, least slowly
-- by '%d', which has but 32 bits on some machines.
local function headgate_set(key, value, stop)
  if deadline >= 0 then
    local life = stop - now
    redis.call('SET', key, value, 'PX', string.format(life < 2 ^ 31 and '%d' or '%.0f', life))
  else
    -- A test's time is not the server's, by which keys expire.
    redis.call('SET', key, value)
    redis.call('PEXPIREAT', key, stop)
  end
end

-- Gives a key without a TTL one, as somebody has taken it away (PERSIST). `look` is the function of the key's page.
local function headgate_heal(key, look, p)
  local wait, _, reset = look(key, p, 0, now, false)
  if not wait then return end
  if reset > 0 then redis.call('PEXPIREAT', key, now + reset) else redis.call('DEL', key) end
end

-- The `adjust` of a counter whose units are back at once. `read` and `write` are functions of its page; a counter that begins now ends at
-- `stop_if_new`.
local function headgate_recount(key, p, units, mark, now, read, write, stop_if_new)
  local limit = p[1]
  local used, stop = read(key, p, now, true)
  if not used then return nil, stop end
  local charged = math.max(0, math.min(units, 2 ^ 52 - used))
  if charged > 0 then
    if stop == 0 then stop = stop_if_new end
    used = used + charged
  elseif stop ~= 0 and (mark == 0 or mark == stop) then
    used = math.max(0, used + units)
  end
  if used == 0 then
    if stop ~= 0 then redis.call('DEL', key) end
    return limit, 0, charged
  end
  write(key, p, used, stop)
  return math.max(0, limit - used), stop - now, charged
end

-- The algorithms that the script has, by name, and bans if it has them: their pages follow, and fill this in. Redis refuses to read a
-- global that does not exist.
local kernels, ban = {}

-- One policy's verdict, appended to a reply that is filled so far; returns how far it is filled then. Clients read numbers slowly:
-- what most are told, an admission of usual size, is one: resetAfter * 2^20 + remaining. All else is -1, wait, remaining, resetAfter.
local function headgate_say(reply, filled, wait, remaining, reset)
  if wait == 0 and remaining < 2 ^ 20 and reset < 2 ^ 32 then
    reply[filled + 1] = reset * 2 ^ 20 + remaining
    return filled + 1
  end
  reply[filled + 1], reply[filled + 2], reply[filled + 3], reply[filled + 4] = -1, wait, remaining, reset
  return filled + 4
end
