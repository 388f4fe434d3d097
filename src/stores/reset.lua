-- Forgets what was charged.
--
-- KEYS:  one per policy
-- ARGV:  now, deadline, 0
-- Reply: the number of keys that there were

headgate_open(true, 3)
return redis.call('DEL', unpack(KEYS))
