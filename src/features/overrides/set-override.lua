-- Changes the record of a key's overrides (see overrides.lua).
--
-- KEYS:  the record; the buckets whose rate changes; unless it is in another slot, the key that exists while the limiter has overrides
-- ARGV:  deadline (see common.lua), an entry without times (empty: the entry in force ends), the duration (ms; 0: until removed),
--        the longest time for which a charge counts (ms), how long a record without an end is kept (ms), the maximum of entries, the longest
--        time for which a debt lasts after the change (ms), the count of buckets
-- Reply: step, the record before the change

--- include common
--- include common.write

local entry, duration, life = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local before = redis.pcall('GET', KEYS[1]) or ''
-- A value of another type, which Headgate did not write, is replaced.
if type(before) == 'table' then before = '' end
local kept, last = {}, 0
for since, stop, rest in string.gmatch('\n' .. before, '\n(%d+) (%d+)([^\n]*)') do
  since, stop = tonumber(since), tonumber(stop)
  stop = stop == 0 and now or math.min(now, stop)
  -- An entry that begins and ends in the same millisecond is kept, because charges in the millisecond may be by the entry.
  if since <= now and stop + life > now and #kept < tonumber(ARGV[6]) - 1 then
    kept[#kept + 1] = string.format('%.0f %.0f', since, stop) .. rest
    last = math.max(last, stop + life)
  end
end
if entry ~= '' then
  table.insert(kept, 1, string.format('%.0f %.0f', now, duration == 0 and 0 or now + duration) .. entry)
  last = math.max(last, now + (duration == 0 and tonumber(ARGV[5]) or duration + life))
end
local debt_life, flag_at = tonumber(ARGV[7]), ARGV[8] + 2
for i = 2, flag_at - 1 do
  local left = redis.call('PTTL', KEYS[i])
  if left > 0 and left < debt_life then redis.call('PEXPIREAT', KEYS[i], now + debt_life) end
end
if KEYS[flag_at] and last > now then
  local left = redis.call('PTTL', KEYS[flag_at])
  if left < last - now then headgate_set(KEYS[flag_at], '1', last) end
end
if last > now then headgate_set(KEYS[1], table.concat(kept, '\n'), last) else redis.call('DEL', KEYS[1]) end
return { step, before }
