-- Deletes all charges. The step of the reset is kept, so that earlier charges cannot be returned afterwards.
--
-- KEYS:  one per policy, then one per policy for its history (see adjust.lua), then the marks of thresholds
-- ARGV:  deadline (see common.lua), then per policy how long a charge counts (ms; 0: as long as the key lives)
-- Reply: 1

--- include common
--- include common.write

local count = #ARGV - 1
for i = 1, count do
  local life = math.max(redis.call('PTTL', KEYS[i]), redis.call('PTTL', KEYS[count + i]), tonumber(ARGV[1 + i]))
  if life > 0 then headgate_set(KEYS[count + i], string.format('%.0f', step), now + life) end
  redis.call('DEL', KEYS[i])
end
for i = 2 * count + 1, #KEYS do redis.call('DEL', KEYS[i]) end
return 1
