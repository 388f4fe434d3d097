-- Reads crossings of thresholds for a group of readers: first those that were read a while ago and not acknowledged, then new ones.
--
-- KEYS:  the stream; the last entry that the group has read; its entries without an acknowledgement, by the time at which they are read
--        again
-- ARGV:  deadline (see common.lua), the most entries, the time until an entry is read again (ms), the life of the group's keys (ms)
-- Reply: the entries as of XRANGE

--- include common

local stream, last, pending = KEYS[1], KEYS[2], KEYS[3]
local most, life = tonumber(ARGV[2]), ARGV[4]
local entries = {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', pending, '-inf', now, 'LIMIT', 0, most)) do
  local entry = redis.call('XRANGE', stream, id, id)[1]
  -- An entry that the stream no longer has cannot be read again.
  if entry then entries[#entries + 1] = entry else redis.call('ZREM', pending, id) end
end
local read = redis.call('GET', last) or '0-0'
if #entries < most then
  local head, tail = string.match(read, '^(%d+)-(%d+)$')
  local from = head .. '-' .. string.format('%.0f', tail + 1)
  for _, entry in ipairs(redis.call('XRANGE', stream, from, '+', 'COUNT', most - #entries)) do
    entries[#entries + 1] = entry
    read = entry[1]
  end
end
for _, entry in ipairs(entries) do redis.call('ZADD', pending, string.format('%.0f', now + ARGV[3]), entry[1]) end
redis.call('SET', last, read, 'PX', life)
redis.call('PEXPIREAT', pending, string.format('%.0f', now + life))
return entries
