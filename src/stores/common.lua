-- What every script begins with, after the algorithms that it needs.
--
-- KEYS:  of the script that follows
-- ARGV:  now (ms; empty: the server's time), deadline (ms; 0: none), then the script's own
-- Reply: none; 'HEADGATE_LATE', and the server's time, is raised past the deadline: whoever asked has been answered otherwise

local now = tonumber(ARGV[1])
if not now then
  -- Read once: on Redis 7.0 time goes on within a script.
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
if ARGV[2] ~= '0' and now > tonumber(ARGV[2]) then error({ err = string.format('HEADGATE_LATE %.0f', now) }) end
