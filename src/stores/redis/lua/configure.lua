-- Logs limiters whose options differ from those that a process published before. No decision reads the log.
--
-- KEYS:  the last options by limiter, a hash; the log of automatic changes, a stream
-- ARGV:  deadline (see common.lua), the approximate maximum of entries in the log, how long both are kept (ms); then per limiter: its name, its
--        options (JSON), its entry in the log (JSON up to the value of its last field, the options before)
-- Reply: the count of limiters with other options

return headgate_bounded(function()
  local changed, stop = 0, string.format('%.0f', now + ARGV[3])
  for at = 4, #ARGV, 3 do
    local before = redis.call('HGET', KEYS[1], ARGV[at])
    if before ~= ARGV[at + 1] then
      redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 1])
      if before then
        redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[2], '*', 'entry', ARGV[at + 2] .. before .. '}')
        changed = changed + 1
      end
    end
  end
  redis.call('PEXPIREAT', KEYS[1], stop)
  if changed > 0 then redis.call('PEXPIREAT', KEYS[2], stop) end
  return changed
end)
