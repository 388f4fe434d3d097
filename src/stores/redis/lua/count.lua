-- Stores the counts of one second by one instance of the store, for `headgate top`, and every few seconds the counts by the minute. No
-- decision reads them.
--
-- KEYS:  the stream of counts; then, with counts by the minute: the sorted set of names, by the time of the last counts; the hash of the
--        minute of each limiter
-- ARGV:  deadline (see common.lua), the counts (JSON), the approximate maximum of entries, how long the stream is kept (ms), how long a
--        minute is kept (ms), the maximum of names; then for each limiter its name, the number of fields, and each field with its increment
-- Reply: the server's time

--- include common
--- include common.bounded

local counted = headgate_bounded(function()
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[3], '*', 'counts', ARGV[2])
  redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', now + ARGV[4]))
  return now
end)

-- Users who may count, but may not write hashes, have no history.
if #KEYS > 1 then
  headgate_bounded(function()
    local stop = string.format('%.0f', now + ARGV[5])
    redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - ARGV[5])
    local at = 7
    for i = 3, #KEYS do
      local name, last = ARGV[at], at + 2 * ARGV[at + 1]
      local others = redis.call('ZCOUNT', KEYS[2], '-inf', '+inf')
      if others < tonumber(ARGV[6]) or redis.call('ZSCORE', KEYS[2], name) then
        redis.call('ZADD', KEYS[2], string.format('%.0f', now), name)
        for field = at + 2, last, 2 do
          redis.call('HINCRBY', KEYS[i], ARGV[field], ARGV[field + 1])
        end
        redis.call('PEXPIREAT', KEYS[i], stop)
      end
      at = last + 2
    end
    redis.call('PEXPIREAT', KEYS[2], stop)
  end)
end
return counted
