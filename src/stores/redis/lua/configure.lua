-- Logs limiters with other options than an earlier process published. No decision reads the log.
--
-- KEYS:  the log of automatic changes, a stream; then per limiter: the last options
-- ARGV:  deadline (see common.lua), the approximate maximum of entries in the log, how long the log is kept (ms); then per limiter: the options
--        (JSON), the entry in the log (JSON up to the value of the last field, the options before)
-- Reply: the count of limiters with other options

--- include common
--- include common.write
--- include common.bounded

return headgate_bounded(function()
  local changed, stop = 0, now + ARGV[3]
  for i = 2, #KEYS do
    local options, entry = ARGV[2 * i], ARGV[2 * i + 1]
    local before = redis.call('GET', KEYS[i])
    headgate_set(KEYS[i], options, stop)
    if before and before ~= options then
      redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', 'entry', entry .. before .. '}')
      changed = changed + 1
    end
  end
  if changed > 0 then redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', stop)) end
  return changed
end)
