-- The limits of keys with an override. This file is part of scripts that decide for limiters with overrides.
--
-- A record is the value of a key beside the state. Each line is an entry, and the newest comes first. An entry begins with the start
-- and the end (ms; 0: not yet known). Behind tabs follow '*' and the revision, if only clients can apply the change; then, per
-- policy, the id and numbers: the limit, then the differing params (none if only the limit differs); last the change as JSON. See
-- contract/overrides.ts.
--
-- KEYS:  the keys of the script, the last of which are for overrides
-- ARGV:  the arguments of the script. `sent` is the kind of keys that were sent for overrides
-- Reply: empty

-- Reads the records of a call. The last keys are the records, one per request and dimension; or, as long as the limiter has no overrides
-- and `sent` is 'f', a single key that exists while there are overrides. The error shows the caller that records exist.
local records
local state_keys = #KEYS - 1
if sent == 'f' then
  if redis.call('GET', KEYS[#KEYS]) then
    return redis.error_reply('HEADGATE_OVERRIDDEN the limiter has overrides by now')
  end
else
  state_keys = #KEYS / (stride + dimensions) * stride
  -- A set without policies, because all are left out, has no records.
  if state_keys < #KEYS then records = redis.call('MGET', unpack(KEYS, state_keys + 1)) end
end

--- section first_limit
-- Reads the limit of a policy that is not a bucket, and whether the limit ends, if the first entry of a record suffices: an entry that
-- changes only the limit of the policy with the id ARGV[2]. The limit is false if the entry has ended, and nil if the entry does not suffice.

local limit, ends
local since, stop, of, text_of_limit = string.match(entry, '^(%d+) (%d+)\t([^\t]*)\t(%d+)\t')
if of == ARGV[2] and since + 0 <= now then
  ends = stop ~= '0'
  if ends and now >= stop + 0 then
    -- Older entries have ended before.
    limit = false
  else
    limit = text_of_limit + 0
    if limit < 1 or limit > 1e12 then limit = nil end
  end
end

--- section apply

-- Returns a field of an entry: the numbers of a policy, or the revision.
local function headgate_field(entry, id)
  local _, from = string.find(entry, '\t' .. id .. '\t', 1, true)
  return from and string.match(entry, '^[^\t]*', from + 1)
end

-- Returns a field with numbers, of which the first is a limit. A field that Headgate did not write changes nothing.
local function headgate_limits(entry, id)
  local field = headgate_field(entry, id)
  local limit = field and string.find(field, '^%d+[ %d]*$') and tonumber(string.match(field, '^%d+'))
  return limit and limit >= 1 and limit <= 1e12 and field
end

-- Returns the entry in force at a time; for a policy, if its id is given, with the policy's limits, or false, and the entry's end. Entries that
-- do not concern the policy leave the decision to the entries behind. With `is_now`, the newest entry stays in force if the clock went back.
local function headgate_entry_at(record, time, id, is_now)
  -- An empty line before the record of all keys represents a key without a record.
  local from, last = string.byte(record) == 10 and 2 or 1, #record
  while from <= last do
    local to = string.find(record, '\n', from, true) or last + 1
    local since, stop = string.match(record, '^(%d+) (%d+)', from)
    if since and (is_now or since + 0 <= time) and (stop == '0' or time < stop + 0) then
      local entry = string.sub(record, from, to - 1)
      local limits = id and headgate_limits(entry, id)
      if not id or limits or string.find(entry, '\t*\ttier=', 1, true) then return entry, limits or false, stop + 0 end
    end
    from, is_now = to + 1, false
  end
end

-- Returns the times after `from` and up to `to` at which an entry begins or ends.
local function headgate_boundaries(record, from, to)
  local boundaries, known = {}, {}
  for since, stop in string.gmatch('\n' .. record, '\n(%d+) (%d+)') do
    for _, boundary in ipairs({ tonumber(since), tonumber(stop) }) do
      if boundary > from and boundary <= to and not known[boundary] then
        known[boundary] = true
        boundaries[#boundaries + 1] = boundary
      end
    end
  end
  table.sort(boundaries)
  return boundaries
end

-- Sets the numbers of a field in params: the limit, then the params that differ.
local function headgate_with_limits(changed, field)
  local at = -1
  for number in string.gmatch(field, '%d+') do
    at = at + 1
    if at == 0 then changed.limit = tonumber(number) else changed[at] = tonumber(number) end
  end
  if at == 0 then changed[1] = changed.limit end
  return changed
end

-- Returns the params of a policy at a time.
local function headgate_params_at(p, time)
  local _, field = headgate_entry_at(p.record, time, p.id)
  return field and headgate_with_limits(setmetatable({}, p.base), field) or p.base
end

-- Returns all params that may have been in force within a millisecond of a time.
local function headgate_params_around(p, time)
  local params = { headgate_params_at(p, time), headgate_params_at(p, time - 1) }
  for entry in string.gmatch(p.record, '[^\n]+') do
    local since, stop = string.match(entry, '^(%d+) (%d+)')
    since, stop = tonumber(since), tonumber(stop)
    if since and since <= time and (stop == 0 or time <= stop) then
      local field = headgate_limits(entry, p.id)
      params[#params + 1] = field and headgate_with_limits(setmetatable({}, p.base), field) or p.base
    end
  end
  return params
end

local headgate_wait_across

-- Returns the params of a policy as a record changes the params at a time, with the earlier rates for a bucket.
local function headgate_override(p, id, record, time)
  local _, field, stop = headgate_entry_at(record, time, id, time == now)
  p.__index = p
  local changed = setmetatable({
    record = record,
    id = id,
    base = p,
    stop = stop,
    params_at = headgate_params_at,
    params_around = headgate_params_around,
    boundaries = headgate_boundaries,
    wait_across = headgate_wait_across,
  }, p)
  return field and headgate_with_limits(changed, field) or changed
end

-- Limits the wait of a denial to the end of the override that denies, unless the next limits deny, too. `look` is the function of the
-- policy's kernel. Returns the wait.
headgate_wait_across = function(look, key, p, cost, wait)
  if wait == 0 or wait < -1 then return wait end
  local time, stop = now, p.stop or 0
  while stop ~= 0 and (wait == -1 or time + wait >= stop) do
    time = stop
    local later = headgate_override(p.base, p.id, p.record, time)
    local known, after = pcall(look, key, later, cost, time, false)
    -- A calendar does not know a period so far ahead, to which nothing is charged yet.
    if not known then
      if not string.find(tostring(after), 'HEADGATE_PERIOD', 1, true) then error(after, 0) end
      after = cost > later[1] and -1 or 0
    end
    if after == 0 or after < -1 then return time - now end
    wait, stop = after, later.stop or 0
  end
  return wait == -1 and -1 or time - now + wait
end

-- Returns the revision of a record now, or an empty string, and the entry in force.
local function headgate_revision(record)
  local entry = record ~= '' and headgate_entry_at(record, now, nil, true)
  return entry and headgate_field(entry, '*') or '', entry
end

-- Returns the revision of a record now, a tab and the change as JSON; or an empty string unless only clients can apply the change.
local function headgate_client_change(record)
  local revision, entry = headgate_revision(record)
  return revision == '' and '' or revision .. '\t' .. string.match(entry, '.*\t(.*)$')
end
