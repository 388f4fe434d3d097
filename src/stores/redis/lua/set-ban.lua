-- Bans a key by hand, or ends its ban.
--
-- KEYS:  the ban's key
-- ARGV:  deadline (see common.lua), the ban's length (ms; 0: end it and forgive), its params
-- Reply: the rest of the ban before (ms)

--- include common
--- include common.write
--- include policies
--- include ban

local ban_key = KEYS[1]
local left, err = ban.set(ban_key, headgate_params(ban, 3), now, tonumber(ARGV[2]))
return left or redis.error_reply(err)
