-- Deletes all charges. The step of the reset is kept, so that earlier charges cannot be returned afterwards.
--
-- KEYS:  one per policy, then one per policy for its history (see adjust.lua), then the marks of thresholds
-- ARGV:  deadline (see common.lua), then per policy how long a charge counts (ms; 0: as long as the key lives)
-- Reply: 1

--- include common
--- include common.write

--- include reset.forget

local count = #ARGV - 1
for i = 1, count do headgate_forget(KEYS[i], KEYS[count + i], ARGV[1 + i], step) end
for i = 2 * count + 1, #KEYS do redis.call('DEL', KEYS[i]) end
return 1

--- section forget

-- Deletes the charges of a key by a policy up to a step, which its history keeps.
local function headgate_forget(key, history, life, last)
  life = math.max(redis.call('PTTL', key), redis.call('PTTL', history), tonumber(life))
  if life > 0 then headgate_set(history, string.format('%.0f', last), now + life) end
  redis.call('DEL', key)
end
