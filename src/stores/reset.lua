-- Forgets what was charged.
--
-- KEYS:  one per policy
-- ARGV:  deadline (see common.lua)
-- Reply: the number of keys that there were

return redis.call('DEL', unpack(KEYS))
