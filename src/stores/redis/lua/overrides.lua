-- The limits that keys have instead of the configured ones. Part of scripts that decide for limiters with overrides.
--
-- A record is the value of a key beside the state, of lines, the newest first. A line has when it began and when it ends (ms; 0: not yet
-- known). Behind tabs follow '*' and the revision of a change that only clients can read, if it is one; then, per policy, its id and numbers:
-- its limit, then the params that differ, or none if only the limit does; last the change as JSON. See contract/overrides.ts.
--
-- KEYS:  those of the script, whose last ones `headgate_records` reads
-- ARGV:  those of the script; the last one tells what was sent of overrides
-- Reply: none

--- first

-- Reads the records of a call. Sent are the records, as many per request as there are dimensions ('r', or 'b' for buckets); or, as long as
-- the limiter has none, a single key that tells whether it has any by now ('f'). Returns how many of the keys stand before them, and the
-- records; or nil and the error by which the caller learns that there are records.
local function headgate_records(dimensions, stride)
  local sent = table.remove(ARGV)
  if sent == 'f' then
    if not redis.call('GET', KEYS[#KEYS]) then return #KEYS - 1 end
    return nil, redis.error_reply('HEADGATE_OVERRIDDEN the limiter has overrides by now')
  end
  local before = #KEYS / (stride + dimensions) * stride
  -- A set whose policies are all left out has no records.
  return before, before < #KEYS and redis.call('MGET', unpack(KEYS, before + 1)) or nil
end

--- rest

-- A field of a line: the numbers of a policy, or the revision.
local function headgate_field(line, id)
  local _, from = string.find(line, '\t' .. id .. '\t', 1, true)
  return from and string.match(line, '^[^\t]*', from + 1)
end

-- A field with numbers, of which the first is a limit. What anybody else has written changes nothing.
local function headgate_numbers(line, id)
  local field = headgate_field(line, id)
  local limit = field and string.find(field, '^%d+[ %d]*$') and tonumber(string.match(field, '^%d+'))
  return limit and limit >= 1 and limit <= 1e12 and field
end

-- Whether a line says what is in force for a policy. One about other policies leaves that to the lines behind it.
local function headgate_is_about(line, id)
  return not id or headgate_numbers(line, id) or string.find(line, '\t*\ttier=', 1, true)
end

-- What is in force at a time, for a policy if its id is given: a line; nil if nothing is.
local function headgate_line_at(record, time, id)
  for line in string.gmatch(record, '[^\n]+') do
    local since, stop = string.match(line, '^(%d+) (%d+)')
    since, stop = tonumber(since), tonumber(stop)
    if since and since <= time and (stop == 0 or time < stop) and headgate_is_about(line, id) then return line end
  end
end

-- What is in force now: a line; nil if nothing is. What was written last also is if the clock has gone back since.
local function headgate_line_now(record, id)
  -- An empty line stands for a key without a record of its own, before that of all keys.
  local since, stop = string.match(record, '^\n?(%d+) (%d+)')
  if since and since + 0 > now and (stop == '0' or now < stop + 0) then
    local last = string.match(record, '[^\n]+')
    if headgate_is_about(last, id) then return last end
  end
  return headgate_line_at(record, now, id)
end

-- When what is in force has changed, after one time and up to another.
local function headgate_turns(record, from, to)
  local turns, known = {}, {}
  for since, stop in string.gmatch('\n' .. record, '\n(%d+) (%d+)') do
    for _, turn in ipairs({ tonumber(since), tonumber(stop) }) do
      if turn > from and turn <= to and not known[turn] then
        known[turn] = true
        turns[#turns + 1] = turn
      end
    end
  end
  table.sort(turns)
  return turns
end

-- Params with the numbers of a field: the limit, then the params that differ.
local function headgate_with_numbers(p, field)
  local changed = setmetatable({}, { __index = p })
  local at = -1
  for number in string.gmatch(field, '%d+') do
    at = at + 1
    if at == 0 then changed.limit = tonumber(number) else changed[at] = tonumber(number) end
  end
  if at == 0 then changed[1] = changed.limit end
  return changed
end

-- The same of a policy that is no bucket, by a first line that says another limit of it, and of no other before it. Nil: that does not tell.
local function headgate_glance(p, id, record)
  local since, stop, of, limit = string.match(record, '^(%d+) (%d+)\t([^\t]*)\t(%d+)\t')
  if of ~= id or since + 0 > now then return end
  if stop ~= '0' then
    -- Older lines have ended before.
    return now >= stop + 0 and p or nil
  end
  limit = limit + 0
  if limit < 1 or limit > 1e12 then return end
  return { limit, p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9], limit = limit }
end

-- The params of a policy as they were at a time.
local function headgate_params_at(p, time)
  local line = headgate_line_at(p.record, time, p.id)
  local field = line and headgate_numbers(line, p.id)
  return field and headgate_with_numbers(p.base, field) or p.base
end

-- All params that may have been in force within a millisecond.
local function headgate_params_near(p, time)
  local near = { headgate_params_at(p, time), headgate_params_at(p, time - 1) }
  for line in string.gmatch(p.record, '[^\n]+') do
    local since, stop = string.match(line, '^(%d+) (%d+)')
    since, stop = tonumber(since), tonumber(stop)
    if since and since <= time and (stop == 0 or time <= stop) then
      local field = headgate_numbers(line, p.id)
      near[#near + 1] = field and headgate_with_numbers(p.base, field) or p.base
    end
  end
  return near
end

local headgate_wait

-- The params of a policy as a record changes them at a time. They keep what a bucket needs to know of earlier rates.
local function headgate_override(p, id, record, time)
  local line = time == now and headgate_line_now(record, id) or headgate_line_at(record, time, id)
  local field = line and headgate_numbers(line, id)
  local changed = field and headgate_with_numbers(p, field) or setmetatable({}, { __index = p })
  changed.record, changed.id, changed.base = record, id, p
  changed.params_at, changed.params_near, changed.turns = headgate_params_at, headgate_params_near, headgate_turns
  changed.wait = headgate_wait
  changed.stop = line and tonumber(string.match(line, '^%d+ (%d+)'))
  return changed
end

-- A denial lasts no longer than the override that denies, unless what follows it denies, too. `look` is that of the policy's kernel. Returns
-- the wait.
headgate_wait = function(look, key, p, cost, wait)
  if wait == 0 or wait < -1 then return wait end
  local time, stop = now, p.stop or 0
  while stop ~= 0 and (wait == -1 or time + wait >= stop) do
    time = stop
    local later = headgate_override(p.base, p.id, p.record, time)
    local known, after = pcall(look, key, later, cost, time, false)
    -- A calendar does not know a period so far ahead. Nothing is charged to it yet.
    if not known then
      if not string.find(tostring(after), 'HEADGATE_PERIOD', 1, true) then error(after, 0) end
      after = cost > later[1] and -1 or 0
    end
    if after == 0 or after < -1 then return time - now end
    wait, stop = after, later.stop or 0
  end
  return wait == -1 and -1 or time - now + wait
end

-- The revision that a record has now, empty if there is none.
local function headgate_rule(record)
  local line = headgate_line_now(record)
  return line and headgate_field(line, '*') or ''
end

-- The revision that a record has now, a tab, and the change as it was written; empty unless only clients can read it.
local function headgate_change(record)
  local rule = headgate_rule(record)
  return rule == '' and '' or rule .. '\t' .. string.match(headgate_line_now(record), '[^\t]*$')
end
