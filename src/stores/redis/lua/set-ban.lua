-- Bans a key by hand, or ends its ban.
--
-- KEYS:  the ban's key
-- ARGV:  deadline (see common.lua), the ban's length (ms; 0: end it and forgive), its params
-- Reply: the rest of the ban before (ms)

local left, err = ban.set(KEYS[1], headgate_params(ban, 3), now, tonumber(ARGV[2]))
return left or redis.error_reply(err)
