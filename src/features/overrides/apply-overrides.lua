-- Records of overrides, applied to policies: overrides.lua, which includes this file, describes a record.
--
-- KEYS:  none
-- ARGV:  none
-- Reply: none

local headgate_override, headgate_revision, headgate_client_change
do

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

local headgate_admitted_at

-- Returns the params of a policy as a record changes the params at a time, with the earlier rates for a bucket.
headgate_override = function(p, id, record, time)
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
    admitted_at = headgate_admitted_at,
  }, p)
  return field and headgate_with_limits(changed, field) or changed
end

-- Returns the time from which a policy admits a cost, at the earliest `from`, or -1 if never. `look` is the function of the policy's kernel.
headgate_admitted_at = function(look, key, p, cost, from)
  local time = from
  while true do
    local later = headgate_override(p.base, p.id, p.record, time)
    local known, wait = pcall(look, key, later, cost, time, false)
    -- A calendar does not know a period so far ahead, to which nothing is charged yet.
    if not known then
      if not string.find(tostring(wait), 'HEADGATE_PERIOD', 1, true) then error(wait, 0) end
      wait = cost > later[1] and -1 or 0
    end
    if wait == 0 or wait < -1 then return time end
    local stop = later.stop or 0
    if stop == 0 or wait ~= -1 and time + wait < stop then return wait == -1 and -1 or time + wait end
    time = stop
  end
end

-- Whether a record cannot be read: an entry has no times or no fields, or the entry in force has limits that are not numbers.
local function headgate_is_damaged(record, entry)
  if not entry then
    for line in string.gmatch(record, '[^\n]+') do
      if not string.find(line, '^%d+ %d+\t') then return true end
    end
    return false
  end
  local count = 0
  for id in string.gmatch(entry, '\t([^\t]*)\t[^\t]*') do
    count = count + 1
    if id ~= '*' and not headgate_limits(entry, id) then return true end
  end
  return count == 0
end

-- Returns the ids of the policies whose limits an entry has.
local function headgate_ids(entry)
  local ids = {}
  for id in string.gmatch(entry, '\t([^\t]*)\t[^\t]*') do
    if id ~= '*' then ids[#ids + 1] = id end
  end
  return ids
end

-- Whether an entry of limits was written by a process with other policies: see isOfOtherPolicies in key-limits.ts. `ids` are those of
-- the caller's policies of the key's dimension; '-' is that of a policy to which no record applies.
local function headgate_is_of_others(entry, ids)
  local names, is_found, missing = {}, false, {}
  for _, id in ipairs(headgate_ids(entry)) do names[string.match(id, ':(.*)') or ''] = true end
  for _, id in ipairs(ids) do
    if id ~= '-' then
      if headgate_limits(entry, id) then is_found = true else missing[#missing + 1] = id end
    end
  end
  if not is_found then return #missing > 0 end
  for _, id in ipairs(missing) do
    if names[string.match(id, ':(.*)') or ''] then return true end
  end
  return false
end

-- Returns the revision of a record now, or an empty string, and the entry in force. The revision of a record that cannot be read is '!'.
-- `applied` is the revision with which the caller asks. If it begins with '=', or if the limits are of other policies than those with `ids`,
-- a change of limits alone has a revision, too.
headgate_revision = function(record, applied, ids)
  local entry = record ~= '' and headgate_entry_at(record, now, nil, true) or nil
  if record ~= '' and headgate_is_damaged(record, entry) then
    return '!', '0 0\t' .. string.sub(string.gsub(record, '[\t\n]', ' '), 1, 200)
  end
  if not entry then return string.byte(applied) == 61 and '=' or '' end
  local revision = headgate_field(entry, '*') or ''
  if revision == '' and (string.byte(applied) == 61 or headgate_is_of_others(entry, ids)) then
    local with_limits = headgate_ids(entry)
    with_limits[#with_limits + 1] = string.match(entry, '.*\t(.*)$')
    revision = '=' .. table.concat(with_limits, ' ')
  end
  return revision, entry
end

-- Returns the revision of a record now, the change as JSON, its end and the ids with limits, separated by tabs; or an empty string unless
-- clients must know the change.
headgate_client_change = function(record, applied, ids)
  local revision, entry = headgate_revision(record, applied, ids)
  if revision == '' or not entry then return '' end
  local change = { revision, string.match(entry, '.*\t(.*)$'), (string.match(entry, '^%d+ (%d+)')), unpack(headgate_ids(entry)) }
  return table.concat(change, '\t')
end

end
