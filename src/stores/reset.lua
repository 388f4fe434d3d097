-- Forgets what was charged, and that it was charged before now: it cannot be given back any more.
--
-- KEYS:  one per policy, then per policy the key of its reset
-- ARGV:  deadline (see common.lua), then per policy how long a charge counts (ms; 0: as long as the key lives)
-- Reply: 1

local count = #ARGV - 1
for i = 1, count do
  local stop = redis.call('PEXPIRETIME', KEYS[i])
  if stop ~= -2 then
    stop = math.max(stop, now + ARGV[1 + i])
    if stop > now then redis.call('SET', KEYS[count + i], string.format('%.0f', step), 'PXAT', stop) end
    redis.call('DEL', KEYS[i])
  end
end
return 1
