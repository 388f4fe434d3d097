-- Records the beginning and the end of bans or overrides in their index, and logs changes. A search for bans finds those of the index
-- first. The notes have the operator and the reason of a ban by hand. The first log lists changes by operators, the second automatic
-- changes, which may be many. No decision reads any of them.
--
-- KEYS:  the index, a sorted set of `name:key` by the end; then, for the index of bans, the notes, a hash; the log of operators, a stream; the
--        mark by which an earlier version takes the index of bans for complete; the log of automatic changes, a stream
-- ARGV:  deadline (see common.lua), the maximum of entries in the index, the approximate maximum of entries in a log, how long a log is
--        kept (ms); then per change: `name:key`, the length (ms, 0: ended), the note (JSON; empty: keep the old note; '-': delete the note),
--        the entry in the log (JSON, or empty), behind '*' if the change is automatic
-- Reply: 1

--- include common
--- include common.bounded

return headgate_bounded(function()
  -- Removes a bounded number of expired entries. Later calls remove the rest.
  local over = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 1000)
  if #over > 0 then
    redis.call('ZREM', KEYS[1], unpack(over))
    if KEYS[2] then redis.call('HDEL', KEYS[2], unpack(over)) end
  end

  local most = tonumber(ARGV[2])
  local room = most - redis.call('ZCOUNT', KEYS[1], '-inf', '+inf')
  local logged = {}
  for at = 5, #ARGV, 4 do
    local who, length, note, entry = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2], ARGV[at + 3]
    local known = redis.call('ZSCORE', KEYS[1], who)
    if length == 0 then
      redis.call('ZREM', KEYS[1], who)
      if KEYS[2] then redis.call('HDEL', KEYS[2], who) end
    elseif known or room > 0 then
      if not known then room = room - 1 end
      redis.call('ZADD', KEYS[1], string.format('%.0f', now + length), who)
      if note == '-' then redis.call('HDEL', KEYS[2], who) elseif note ~= '' then redis.call('HSET', KEYS[2], who, note) end
    end
    if entry ~= '' then
      local automatic = string.match(entry, '^%*(.*)')
      local log = automatic and KEYS[5] or KEYS[3]
      redis.call('XADD', log, 'MAXLEN', '~', ARGV[3], '*', 'entry', automatic or entry)
      logged[log] = true
    end
  end

  -- The index and the notes live as long as their longest entry; the logs have their own time.
  local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')
  for i = 1, math.min(2, #KEYS) do
    if last[2] then redis.call('PEXPIREAT', KEYS[i], last[2]) end
  end
  for log in pairs(logged) do redis.call('PEXPIREAT', log, string.format('%.0f', now + ARGV[4])) end
  if KEYS[4] then redis.pcall('DEL', KEYS[4]) end
  return 1
end)
