-- Policies with thresholds: the first charge that reaches a fraction of a limit in a window is reported, and marked beside the state.
-- Nearly every decision only compares a number. All else runs at the end of the script, for the charges that were noted.
--
-- State:   the end of the window (13 digits, ms), then per reported threshold a space, its thousandths, '=', the highest limit at which it was
--          reported. The window ends when the charges that were counted at its last report end
-- KEYS:    the mark of each policy with thresholds, behind the keys of the policies; with a stream, the last key is the stream
-- ARGV:    per policy the remaining units at its lowest threshold, or -1 without thresholds; then a text with, per policy, '/', its full
--          quota, and a space and the thousandths of each threshold, ascending; with a stream it begins with '*', the approximate maximum
--          of entries, a space, their life (ms)
-- Reply:   at the end of the reply, if there are crossings, an array of six numbers for each: the position of the request and of the
--          policy, from 0, the threshold in thousandths, the used units, the limit, the reset (ms)

local near, mark_at, marks = { nil, nil }, { nil, nil }, 0
for i = 1, count do
  near[i] = ARGV[at] + 0
  at = at + 1
  if near[i] >= 0 then marks = marks + 1 end
  mark_at[i] = marks
end
local thresholds = ARGV[at]
at = at + 1
local stream = string.byte(thresholds) == 42 and table.remove(KEYS)
-- Charges that may have crossed a threshold: the request, the policy's number, the policy (false if no override concerns the request), the
-- mark's key, the units that remained before
-- and remain now, the reset.
local noted, crossings

local function note(...)
  noted = noted or {}
  noted[#noted + 1] = { ... }
end

--- section decisions

-- The key of the mark of a request's i-th policy.
local function mark_key(request, i) return KEYS[request * stride + ban_keys + count + mark_at[i]] end

-- Notes charges of a request whose verdicts follow reply[place].
local function note_verdicts(request, place)
  for i = 1, count do
    place = place + 1
    local remaining = reply[place]
    local reset
    if remaining == -1 then
      remaining, reset, place = reply[place + 2], reply[place + 3], place + 3
    else
      reset = math.floor(remaining / 2 ^ 20)
      remaining = remaining - reset * 2 ^ 20
    end
    if remaining <= near[i] and values[i] ~= nil then
      local cost = costs == 0 and 1 or ARGV[at + request * per_request + i * per_policy] + 0
      note(request, i, false, mark_key(request, i), remaining + cost, remaining, reset)
    end
  end
end

--- section report

if noted then
  local full, levels = {}, {}
  for quota, thousandths in string.gmatch(thresholds, '/(%d*)([ %d]*)') do
    full[#full + 1], levels[#levels + 1] = tonumber(quota) or 0, thousandths
  end
  local length, life = string.match(thresholds, '^%*(%d+) (%d+)')
  for _, charge in ipairs(noted) do
    local request, i, policy, key, before, remaining, reset = unpack(charge)
    local limit = full[i]
    -- An override has another limit.
    if policy and policy.record then limit = policy.capacity and policy.capacity(policy) or policy.limit or limit end
    local mark = redis.pcall('GET', key)
    local stop = type(mark) == 'string' and tonumber(string.sub(mark, 1, 13)) or 0
    if stop > now then mark = string.sub(mark, 14) else mark, stop = '', 0 end
    local crossed = {}
    for text in string.gmatch(levels[i], '%d+') do
      local units = text * limit
      if (limit - remaining) * 1000 < units then break end
      local last = tonumber(string.match(mark, ' ' .. text .. '=(%d+)'))
      if not last or (limit > last and (limit - before) * 1000 < units) then
        crossed[#crossed + 1] = text
        mark = string.format('%s %s=%.0f', string.gsub(mark, ' ' .. text .. '=%d+', ''), text, limit)
      end
    end
    if #crossed > 0 then
      stop = math.max(stop, now + reset)
      -- A crossing that cannot be written is reported by a later charge.
      local written = redis.pcall('SET', key, string.format('%013.0f', stop) .. mark, 'PX', headgate_life(stop - now))
      if deadline < 0 then redis.pcall('PEXPIREAT', key, stop) end
      for _, text in ipairs(crossed) do
        if stream and not written.err then
          local id = redis.pcall('XADD', stream, 'MAXLEN', '~', length, '*', 'mark', key, 'threshold', text, 'used', limit - remaining, 'limit', limit, 'reset', reset)
          redis.pcall('PEXPIREAT', stream, string.format('%.0f', now + life))
          if type(id) == 'table' then
            written = id
            redis.pcall('DEL', key)
          end
        end
        if not written.err then
          crossings = crossings or {}
          for _, number in ipairs({ request, i - 1, text + 0, limit - remaining, limit, reset }) do
            crossings[#crossings + 1] = number
          end
        end
      end
    end
  end
  reply[filled + 1] = crossings
end
