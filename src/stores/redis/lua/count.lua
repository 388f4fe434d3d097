-- Stores an instance's counts of one second, for `headgate top`, and every few seconds the counts by the minute and the denials of keys. No
-- decision reads the counts.
--
-- KEYS:  the stream of counts; the sorted set of names, by the time of the last counts; the hash of the minute of each limiter, then the
--        hash of the hour of each; then for each denied key of a minute the hash of the records of the hour, and the sorted set of its keys by the number of their denials
-- ARGV:  deadline (see common.lua), the counts (JSON), the approximate maximum of entries, how long the stream is kept (ms), how long a
--        minute is kept (ms), the maximum of names, how long denials are kept (ms), the maximum of denied keys of an hour, and of the causes
--        of a key, the number of limiters with a minute, the ten minutes of the hour, how long an hour and the names are kept (ms); then for each of these its name, the number of fields, and each field with its
--        increment; then for each denied key the key, the cause, the minute of the hour, the number of denials, and the time of the first
--        and of the last of them (ms)
-- Reply: the server's time

--- include common
--- include common.bounded

local counted = headgate_bounded(function()
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[3], '*', 'counts', ARGV[2])
  redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', now + ARGV[4]))
  return now
end)

local at = 13
local limiters = tonumber(ARGV[10])

-- Users who may count, but may not write hashes, have no history.
if limiters > 0 then
  headgate_bounded(function()
    local stop = string.format('%.0f', now + ARGV[5])
    local last_stop = string.format('%.0f', now + ARGV[12])
    redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - ARGV[12])
    for i = 3, 2 + limiters do
      local name, last = ARGV[at], at + 2 * ARGV[at + 1]
      local others = redis.call('ZCOUNT', KEYS[2], '-inf', '+inf')
      if others < tonumber(ARGV[6]) or redis.call('ZSCORE', KEYS[2], name) then
        redis.call('ZADD', KEYS[2], string.format('%.0f', now), name)
        for field = at + 2, last, 2 do
          redis.call('HINCRBY', KEYS[i], ARGV[field], ARGV[field + 1])
          -- Decisions, and not their policies, are kept for a day.
          if #ARGV[field] == 1 then redis.call('HINCRBY', KEYS[i + limiters], ARGV[field] .. ARGV[11], ARGV[field + 1]) end
        end
        redis.call('PEXPIREAT', KEYS[i], stop)
        redis.call('PEXPIREAT', KEYS[i + limiters], last_stop)
      end
      at = last + 2
    end
    redis.call('PEXPIREAT', KEYS[2], last_stop)
  end)
end

-- Adds a count to a record: the times of the first and the last denial, then a line for each cause with pairs of minute and count.
local function added(record, cause, minute, count, first, last)
  if not record then return first .. ' ' .. last .. '\n' .. cause .. ' ' .. minute .. ':' .. count .. '\n' end
  local stop = string.find(record, '\n', 1, true)
  local since, till = string.match(string.sub(record, 1, stop - 1), '^(%d+) (%d+)$')
  local lines = string.sub(record, stop)
  if tonumber(first) > tonumber(since) then first = since end
  if tonumber(last) < tonumber(till) then last = till end
  local head = '\n' .. cause .. ' '
  local _, start = string.find(lines, head, 1, true)
  if start then
    local finish = string.find(lines, '\n', start + 1, true)
    local pairs_of = ' ' .. string.sub(lines, start + 1, finish - 1) .. ' '
    local _, colon = string.find(pairs_of, ' ' .. minute .. ':', 1, true)
    if colon then
      local space = string.find(pairs_of, ' ', colon + 1, true)
      local sum = string.sub(pairs_of, colon + 1, space - 1) + count
      pairs_of = string.sub(pairs_of, 1, colon) .. string.format('%.0f', sum) .. string.sub(pairs_of, space)
    else
      pairs_of = pairs_of .. minute .. ':' .. count .. ' '
    end
    lines = string.sub(lines, 1, start) .. string.sub(pairs_of, 2, -2) .. string.sub(lines, finish)
  else
    local _, causes = string.gsub(lines, '\n', '\n')
    if causes <= tonumber(ARGV[9]) then lines = lines .. cause .. ' ' .. minute .. ':' .. count .. '\n' end
  end
  return first .. ' ' .. last .. lines
end

if #KEYS > 2 + 2 * limiters then
  headgate_bounded(function()
    local stop = string.format('%.0f', now + ARGV[7])
    for i = 3 + 2 * limiters, #KEYS, 2 do
      local records, scores = KEYS[i], KEYS[i + 1]
      local owner, cause, minute, count, first, last = unpack(ARGV, at, at + 5)
      at = at + 6
      local score = redis.call('ZSCORE', scores, owner)
      -- The least denied key leaves, and its successor inherits its number, so that a key with many denials stays.
      if not score and redis.call('ZCOUNT', scores, '-inf', '+inf') >= tonumber(ARGV[8]) then
        local least = redis.call('ZRANGEBYSCORE', scores, '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
        redis.call('ZREM', scores, least[1])
        redis.call('HDEL', records, least[1])
        score = least[2]
      end
      redis.call('ZADD', scores, string.format('%.0f', (score or 0) + count), owner)
      local record = redis.call('HGET', records, owner) or nil
      redis.call('HSET', records, owner, added(record, cause, minute, count, first, last))
      redis.call('PEXPIREAT', records, stop)
      redis.call('PEXPIREAT', scores, stop)
    end
  end)
end
return counted
