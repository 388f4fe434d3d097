-- Forgets what was charged, and that it was charged before now: it cannot be given back any more.
--
-- KEYS:  one per policy, then per policy that of its history (see adjust.lua)
-- ARGV:  deadline (see common.lua), then per policy how long a charge counts (ms; 0: as long as the key lives)
-- Reply: 1

local count = #ARGV - 1
for i = 1, count do
  local stop = math.max(redis.call('PEXPIRETIME', KEYS[i]), now + ARGV[1 + i])
  if stop > now then redis.call('SET', KEYS[count + i], string.format('%.0f', step), 'PXAT', stop) end
  redis.call('DEL', KEYS[i])
end
return 1
