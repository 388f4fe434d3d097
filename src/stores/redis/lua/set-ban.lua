-- Bans a key by hand, or ends its ban.
--
-- KEYS:  the ban's key
-- ARGV:  deadline (see common.lua), the ban's length (ms; 0: end it and forgive), its params
-- Reply: 1

--- include common
--- include common.write
--- include policies
--- include ban

local ban_key = KEYS[1]
local err = ban.set(ban_key, headgate_params(ban, 3), now, tonumber(ARGV[2]))
if err then return redis.error_reply(err) end
return 1
