-- Policies with thresholds: the first charge that reaches a fraction of a limit in a window is reported, and marked beside the state.
--
-- State:   the end of the window (ms), then per reported threshold a space, its thousandths, '=', the highest limit at which it was
--          reported. The window ends when the charges that were counted at its last report end
-- KEYS:    the mark of each policy with thresholds, behind the keys of the policies; with a stream, the last key is the stream
-- ARGV:    per policy the remaining units at its lowest threshold, the full quota, and the thresholds in thousandths, ascending; or -1 for
--          a policy without thresholds; then the approximate maximum of entries in the stream, or an empty text, and their life (ms)
-- Reply:   at the end of the reply, if there are crossings, an array of six numbers for each: the position of the request and of the
--          policy, from 0, the threshold in thousandths, the used units, the limit, the reset (ms)

local watched, marks = {}, 0
for i = 1, count do
  local near = ARGV[at] + 0
  at = at + 1
  if near >= 0 then
    marks = marks + 1
    watched[i] = { near = near, full = ARGV[at] + 0, levels = ARGV[at + 1], mark = marks }
    at = at + 2
  end
end
local stream_length, stream_life = ARGV[at], ARGV[at + 1]
at = at + 2
local stream = stream_length ~= '' and table.remove(KEYS)
local crossings

-- Writes a mark, and the entries of the stream. A crossing that cannot be written is reported by a later charge.
local function mark_crossings(key, mark, stop, crossed)
  local life = headgate_life(stop - now)
  local written = redis.pcall('SET', key, mark, 'PX', life)
  if written.err then return false end
  if deadline < 0 then redis.call('PEXPIREAT', key, stop) end
  for n = 1, stream and #crossed or 0 do
    local crossing = crossed[n]
    written = redis.pcall('XADD', stream, 'MAXLEN', '~', stream_length, '*', 'mark', key, 'threshold', crossing[3], 'used', crossing[4], 'limit', crossing[5], 'reset', crossing[6])
    if type(written) == 'table' and written.err then
      redis.pcall('DEL', key)
      return false
    end
    redis.call('PEXPIREAT', stream, string.format('%.0f', now + stream_life))
  end
  return true
end

-- Reports the thresholds of the i-th policy that a charge of a request has crossed. The verdict is that after the charge, and `before` has
-- the units that remained before.
local function cross(request, i, key, policy, before, remaining, reset)
  local full = watched[i].full
  if policy.record then full = policy.capacity and policy.capacity(policy) or policy.limit or full end
  local used, mark, stop = full - remaining, nil, nil
  local fresh = ''
  local crossed = {}
  for text in string.gmatch(watched[i].levels, '%d+') do
    local level = text + 0
    if used * 1000 < level * full then break end
    if not mark then
      mark = redis.pcall('GET', key)
      if type(mark) ~= 'string' then mark = '' end
      stop = tonumber(string.match(mark, '^%d+')) or 0
      if stop <= now then mark, stop = '', 0 end
    end
    local last = string.match(mark, ' ' .. text .. '=(%d+)')
    if not last or (full > last + 0 and (full - before) * 1000 < level * full) then
      crossed[#crossed + 1] = { request, i - 1, level, used, full, reset }
      mark = string.gsub(mark, ' ' .. text .. '=%d+', '')
      fresh = fresh .. ' ' .. text .. '=' .. string.format('%.0f', full)
    end
  end
  if #crossed == 0 then return end
  stop = math.max(stop, now + reset)
  local levels = string.gsub(mark, '^%d+', '') .. fresh
  if not mark_crossings(key, string.format('%.0f', stop) .. levels, stop, crossed) then return end
  crossings = crossings or {}
  for _, crossing in ipairs(crossed) do
    for _, number in ipairs(crossing) do crossings[#crossings + 1] = number end
  end
end

--- section decisions

-- The key of the mark of a request's i-th policy.
local function mark_key(request, i) return KEYS[request * stride + ban_keys + count + watched[i].mark] end

-- Looks for crossings by a request whose verdicts follow reply[place].
local function watch(request, place)
  for i = 1, count do
    local remaining, reset = reply[place + 1], nil
    place = place + 1
    if remaining == -1 then
      remaining, reset, place = reply[place + 2], reply[place + 3], place + 3
    else
      reset = math.floor(remaining / 2 ^ 20)
      remaining = remaining - reset * 2 ^ 20
    end
    local policy = watched[i]
    if policy and remaining <= policy.near and before[i] ~= nil then
      local cost = costs == 0 and 1 or ARGV[at + request * per_request + i * per_policy] + 0
      cross(request, i, mark_key(request, i), configured[i], remaining + cost, remaining, reset)
    end
  end
end
