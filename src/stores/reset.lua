-- Forgets what was charged.
--
-- KEYS:  one per policy
-- ARGV:  now, deadline
-- Reply: the number of keys that there were

return redis.call('DEL', unpack(KEYS))
