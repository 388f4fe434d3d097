-- Reads the record of a key's overrides.
--
-- KEYS:  the record
-- ARGV:  deadline (see common.lua)
-- Reply: step, the record (empty if the key has none)

--- include common

return { step, redis.call('GET', KEYS[1]) or '' }
