-- Bans a key by hand, or ends its ban.
--
-- KEYS:  the ban's key
-- ARGV:  deadline (see common.lua), the ban's length (ms; 0: end it and forgive; below 0: only end it), its params
-- Reply: the rest of the ban before (ms)

--- include common
--- include common.write
--- include ban

local ban_key, params = KEYS[1], {}
for i = 3, #ARGV do params[i - 2] = tonumber(ARGV[i]) end
local left, err = ban.set(ban_key, params, now, tonumber(ARGV[2]))
return left or redis.error_reply(err)
