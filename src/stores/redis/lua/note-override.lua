-- Records that an override has begun or ended, for the command line. No decision reads the record.
--
-- KEYS:  the index, a sorted set of `name:key` by the override's end; the log, a stream
-- ARGV:  deadline (see common.lua), the maximum of overrides in the index, the approximate maximum of entries in the log, how long the log
--        is kept (ms), `name:key`, the override's length (ms; 0: it has ended), its entry in the log (JSON)
-- Reply: 1; 0 if the index had no room for the override

--- include common
--- include common.bounded

return headgate_bounded(function()
  local length = tonumber(ARGV[6])
  -- Removes a bounded number of expired entries. Later calls remove the rest.
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
  -- The index lives as long as its longest override; the log has its own time.
  local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')
  if last[2] then redis.call('PEXPIREAT', KEYS[1], last[2]) end
  redis.call('PEXPIREAT', KEYS[2], string.format('%.0f', now + ARGV[4]))
  return has_room
end)
