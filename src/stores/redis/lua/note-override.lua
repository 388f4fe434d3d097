-- Records in the index that an override has begun or ended, for operators. No decision reads the record.
--
-- KEYS:  the index, a sorted set of `name:key` by the override's end
-- ARGV:  deadline (see common.lua), the maximum of overrides in the index, `name:key`, the override's length (ms; 0: it has ended)
-- Reply: 1; 0 if the index had no room for the override

--- include common
--- include common.bounded

return headgate_bounded(function()
  local who, length = ARGV[3], tonumber(ARGV[4])
  -- Removes a bounded number of expired entries. Later calls remove the rest.
  local over = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 1000)
  if #over > 0 then redis.call('ZREM', KEYS[1], unpack(over)) end
  local has_room = 1
  if length == 0 then
    redis.call('ZREM', KEYS[1], who)
  elseif redis.call('ZSCORE', KEYS[1], who) or redis.call('ZCOUNT', KEYS[1], '-inf', '+inf') < tonumber(ARGV[2]) then
    redis.call('ZADD', KEYS[1], string.format('%.0f', now + length), who)
  else
    has_room = 0
  end
  -- The index lives as long as its longest override.
  local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')
  if last[2] then redis.call('PEXPIREAT', KEYS[1], last[2]) end
  return has_room
end)
