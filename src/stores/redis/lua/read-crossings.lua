-- Reads crossings of thresholds for a group of readers: first those that were read a while ago and not acknowledged, then new ones.
--
-- KEYS:  the stream
-- ARGV:  deadline (see common.lua), the group, the most entries, the time after which an entry is read again (ms), the life of a stream
--        without entries (ms)
-- Reply: the entries as of XRANGE

--- include common

local stream, group, most, idle = KEYS[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
redis.pcall('XGROUP', 'CREATE', stream, group, '0', 'MKSTREAM')
if redis.call('PTTL', stream) == -1 then redis.call('PEXPIREAT', stream, string.format('%.0f', now + ARGV[5])) end
local entries = {}
local from = '-'
while #entries < most do
  local pending = redis.call('XPENDING', stream, group, from, '+', 100)
  for _, read in ipairs(pending) do
    local id = read[1]
    from = id
    if read[3] >= idle and #entries < most then
      local entry = redis.call('XRANGE', stream, id, id)[1]
      -- An entry that the stream no longer has cannot be read again.
      if entry then
        redis.call('XCLAIM', stream, group, 'reader', 0, id)
        entries[#entries + 1] = entry
      else
        redis.call('XACK', stream, group, id)
      end
    end
  end
  if #pending < 100 then break end
  local head, tail = string.match(from, '^(%d+)-(%d+)$')
  from = head .. '-' .. string.format('%.0f', tail + 1)
end
if #entries < most then
  local new = redis.call('XREADGROUP', 'GROUP', group, 'reader', 'COUNT', most - #entries, 'STREAMS', stream, '>')
  for _, entry in ipairs(new and new[1][2] or {}) do entries[#entries + 1] = entry end
end
return entries
