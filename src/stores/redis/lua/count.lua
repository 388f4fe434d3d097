-- Stores an instance's counts of one second, for `headgate top`. No decision reads the counts.
--
-- KEYS:  the stream of counts
-- ARGV:  deadline (see common.lua), the counts (JSON), the approximate maximum of entries, how long the stream is kept (ms)
-- Reply: 1

--- include common
--- include common.bounded

return headgate_bounded(function()
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[3], '*', 'counts', ARGV[2])
  redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', now + ARGV[4]))
  return 1
end)
