-- The beginning of every script.
--
-- KEYS:  the keys of the script that follows
-- ARGV:  the deadline by the server's time (ms), or, in tests, the negated step at which to decide; then the arguments of the script
-- Reply: empty. Past the deadline: the text 'HEADGATE_LATE' with the server's time, because the caller has stopped waiting. Such signals are
--        values, because clients have hooks for errors

local deadline = ARGV[1] + 0
-- The time in microseconds, which differs between calls and so also shows their order.
local step = -deadline
if deadline >= 0 then
  -- TIME is read once, because on Redis 7.0 the time advances within a script.
  local time = redis.call('TIME')
  step = time[1] * 1000000 + time[2]
end
local now = (step - step % 1000) / 1000
if now > deadline and deadline >= 0 then return string.format('HEADGATE_LATE %.0f', now) end

--- section verdict
-- Appends the verdict of one policy to the reply: `wait`, `remaining`, `reset`. Clients parse numbers slowly, so the most common verdict is one
-- number: an admission is resetAfter * 2^20 + remaining if both are small. Any other verdict is -1, wait, remaining, resetAfter.

if wait == 0 and remaining < 2 ^ 20 and reset < 2 ^ 32 then
  filled = filled + 1
  reply[filled] = reset * 2 ^ 20 + remaining
else
  reply[filled + 1], reply[filled + 2], reply[filled + 3], reply[filled + 4] = -1, wait, remaining, reset
  filled = filled + 4
end

--- section ttl
-- Makes `ttl` the text of a TTL. Lua formats numbers slowly: '%d' is the fastest format, but on some machines it has only 32 bits.

ttl = string.format(ttl < 2 ^ 31 and '%d' or '%.0f', ttl)

--- section functions
-- The same as functions, which the common decision by one policy does not need: Redis creates each function anew at each call.

-- Appends one policy's verdict to a reply with `filled` elements, and returns the new length of the reply.
local function headgate_add_verdict(reply, filled, wait, remaining, reset)
--- include common.verdict
  return filled
end

-- Returns the text of a TTL.
local function headgate_life(ttl)
--- include common.ttl
  return ttl
end

--- section write

--- include common.functions
--- include common.state

--- section state

-- Writes a value that counts until `stop`. The value itself contains `stop`; the TTL only frees memory.
local function headgate_set(key, value, stop)
  redis.call('SET', key, value, 'PX', headgate_life(stop - now))
  -- Keys expire by the server's time, and a test's time may differ.
  if deadline < 0 then redis.call('PEXPIREAT', key, stop) end
end

-- Restores the TTL of a key after PERSIST removed it. `look` is the look function of the key's algorithm.
local function headgate_heal(key, look, p)
  local wait, _, reset = look(key, p, 0, now, false)
  if not wait then return end
  if reset > 0 then redis.call('PEXPIREAT', key, now + reset) else redis.call('DEL', key) end
end

--- section bounded

-- Runs a function that writes keys before setting TTLs. If the server refuses some commands for lack of a permission, keys without a TTL
-- are deleted.
local function headgate_bounded(write)
  local done, reply = pcall(write)
  if done then return reply end
  for _, key in ipairs(KEYS) do
    if redis.pcall('PTTL', key) == -1 then redis.pcall('DEL', key) end
  end
  return redis.error_reply(type(reply) == 'table' and reply.err or reply)
end

--- section adjust

-- The `adjust` of counters with units that return at once. `read` and `write` are the algorithm's functions. A counter that begins now ends
-- at `stop_if_new`.
local function headgate_recount(key, p, units, mark, now, read, write, stop_if_new)
  local limit = p[1]
  local used, stop = read(key, p, now, true)
  if not used then return nil, stop end
  local charged = math.max(0, math.min(units, 2 ^ 52 - used))
  if charged > 0 then
    if stop == 0 then stop = stop_if_new end
    used = used + charged
  elseif stop ~= 0 and (mark == 0 or mark >= stop) then
    -- If the clock went back, the counter ends earlier than at the charge.
    used = math.max(0, used + units)
  end
  if used == 0 then
    if stop ~= 0 then redis.call('DEL', key) end
    return limit, 0, charged
  end
  write(key, p, used, stop)
  return math.max(0, limit - used), stop - now, charged
end
