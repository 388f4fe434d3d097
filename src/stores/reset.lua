-- Forgets what was charged, and that it was charged before now: it cannot be given back any more.
--
-- KEYS:  one per policy, then per policy the key of its reset
-- ARGV:  deadline (see common.lua), then per policy how long a charge counts (ms)
-- Reply: 1

local count = #ARGV - 1
for i = 1, count do
  redis.call('SET', KEYS[count + i], string.format('%.0f', step), 'PXAT', now + ARGV[1 + i])
  redis.call('DEL', KEYS[i])
end
return 1
