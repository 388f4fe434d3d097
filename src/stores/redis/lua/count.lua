-- Stores what one instance of the store counted in a second, for `headgate top`. No decision reads it.
--
-- KEYS:  the stream of counts
-- ARGV:  deadline (see common.lua), what was counted (JSON), the most entries that are kept (about), for how long (ms)
-- Reply: 1

return headgate_bounded(function()
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[3], '*', 'counts', ARGV[2])
  redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', now + ARGV[4]))
  return 1
end)
