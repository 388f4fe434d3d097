-- What every script begins with, after the algorithms that it needs.
--
-- KEYS:  of the script that follows
-- ARGV:  deadline, by the server's time (ms), or, for tests, the time at which to decide, negative; then the script's own
-- Reply: none; 'HEADGATE_LATE', and the server's time, is raised past the deadline: whoever asked has been answered otherwise

local deadline = tonumber(ARGV[1])
local now = -deadline
if deadline >= 0 then
  -- Read once: on Redis 7.0 time goes on within a script.
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
  if now > deadline then error({ err = string.format('HEADGATE_LATE %.0f', now) }) end
end
