-- Sets or breaks the seal, which marks the index of bans as complete. A process sets the seal after a search of all keys. A ban that could not
-- be recorded breaks the seal. The seal expires, because a process may stop between a ban and its record. No decision reads the seal.
--
-- KEYS:  the seal, and, except to break the seal, the index, which is marked too, because either key may be deleted
-- ARGV:  deadline (see common.lua). To break: no more arguments. To begin a search: a token, how long the token is valid (ms). To seal: the same
--        token, how long the seal is valid (ms), and 'whole'
-- Reply: 1; 0 if the index is already sealed, or the search was interrupted by a break of the seal

--- include common
--- include common.write
--- include common.bounded

return headgate_bounded(function()
  local seal, index, token = KEYS[1], KEYS[2], ARGV[2]
  if not token then return redis.call('DEL', seal) end
  local found = redis.call('GET', seal)
  if ARGV[4] ~= 'whole' then
    if found == 'whole' and redis.call('ZSCORE', index, '') then return 0 end
    redis.call('SET', seal, token, 'PX', ARGV[3])
    return 1
  end
  if found ~= token then return 0 end
  local stop = now + ARGV[3]
  headgate_set(seal, 'whole', stop)
  redis.call('ZADD', index, string.format('%.0f', stop), '')
  -- A ban may last longer than the seal.
  redis.call('PEXPIREAT', index, redis.call('ZREVRANGE', index, 0, 0, 'WITHSCORES')[2])
  return 1
end)
