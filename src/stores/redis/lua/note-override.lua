-- Records that an override has begun or ended, for the command line. No decision reads it.
--
-- KEYS:  the index, a sorted set of `name:key` by the override's end; the log, a stream
-- ARGV:  deadline (see common.lua), the most overrides in the index, the most entries of the log (about), how long the log is kept (ms),
--        `name:key`, for how long (ms; 0: it has ended), its entry in the log (JSON)
-- Reply: 1; 0 if it found no room in the index

return headgate_bounded(function()
  local length = tonumber(ARGV[6])
  -- Remove a bounded number of expired entries. Later calls remove the rest.
  local over = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 1000)
  if #over > 0 then redis.call('ZREM', KEYS[1], unpack(over)) end
  local has_room = 1
  if length == 0 then
    redis.call('ZREM', KEYS[1], ARGV[5])
  elseif redis.call('ZSCORE', KEYS[1], ARGV[5]) or redis.call('ZCOUNT', KEYS[1], '-inf', '+inf') < tonumber(ARGV[2]) then
    redis.call('ZADD', KEYS[1], string.format('%.0f', now + length), ARGV[5])
  else
    has_room = 0
  end
  redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[3], '*', 'entry', ARGV[7])
  -- The index lives as long as its longest override, the log as long as it is kept.
  local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')
  if last[2] then redis.call('PEXPIREAT', KEYS[1], last[2]) end
  redis.call('PEXPIREAT', KEYS[2], string.format('%.0f', now + ARGV[4]))
  return has_room
end)
