-- Publishes the limiters of an instance of the store, for the command line. No decision reads the publication.
--
-- KEYS:  the sorted set of instances, by the expiry of the publications; the instance's publication
-- ARGV:  deadline (see common.lua), the instance, its publication (empty: no more limiters), how long the publication is kept
--        (ms), the maximum of instances
-- Reply: 1; 0 if there are too many other instances

--- include common
--- include common.write
--- include common.bounded

return headgate_bounded(function()
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
  if ARGV[3] == '' then
    redis.call('ZREM', KEYS[1], ARGV[2])
    redis.call('DEL', KEYS[2])
    return 1
  end
  local others = redis.call('ZCOUNT', KEYS[1], '-inf', '+inf')
  if others >= tonumber(ARGV[5]) and not redis.call('ZSCORE', KEYS[1], ARGV[2]) then return 0 end
  local stop = now + ARGV[4]
  headgate_set(KEYS[2], ARGV[3], stop)
  redis.call('ZADD', KEYS[1], string.format('%.0f', stop), ARGV[2])
  -- Other instances may have published for longer.
  redis.call('PEXPIREAT', KEYS[1], redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2])
  return 1
end)
