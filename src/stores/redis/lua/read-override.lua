-- Reads the record of a key's overrides.
--
-- KEYS:  the record
-- ARGV:  deadline (see common.lua)
-- Reply: the time (ms), the record, empty if there is none

return { now, redis.call('GET', KEYS[1]) or '' }
