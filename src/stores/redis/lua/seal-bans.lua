-- The index of bans is whole as long as it is sealed: whoever has looked at all keys seals it, and any ban that could not be noted breaks
-- the seal. The seal ends by itself, as a process may end between a ban and its note. No decision reads it.
--
-- KEYS:  the seal, and, but to break it, the index: both must say so, as either may be deleted
-- ARGV:  deadline (see common.lua), then nothing: break it; or a token and for how long (ms): to begin, and to seal 'whole' as well
-- Reply: 1; 0 if it is sealed already, or was broken since it was begun

local seal, index, token = KEYS[1], KEYS[2], ARGV[2]
if not token then return redis.call('DEL', seal) end
local found = redis.call('GET', seal)
if ARGV[4] ~= 'whole' then
  if found == 'whole' and redis.call('ZSCORE', index, '') then return 0 end
  redis.call('SET', seal, token, 'PX', ARGV[3])
  return 1
end
if found ~= token then return 0 end
local stop = now + ARGV[3]
headgate_set(seal, 'whole', stop)
redis.call('ZADD', index, string.format('%.0f', stop), '')
-- A ban may last longer.
redis.call('PEXPIREAT', index, redis.call('ZREVRANGE', index, 0, 0, 'WITHSCORES')[2])
return 1
