-- Policies with thresholds: the first charge that reaches a fraction of a limit in a window is reported, and marked beside the state.
-- Nearly every decision only compares a number. All else runs at the end of the script, for the charges that were noted.
--
-- State:   the end of the window (13 digits, ms), then per reported threshold a space, its thousandths, '=', the highest limit at which it was
--          reported. The window ends when the charges that were counted at its last report end
-- KEYS:    the mark of each policy with thresholds, behind the keys of the policies; with a stream, the last key is the stream
-- ARGV:    `near`: per policy the remaining units at its lowest threshold, or -1 without thresholds; `thresholds`: with, per policy, '/', its
--          full quota, and a space and the thousandths of each threshold, ascending; with a stream it begins with '*', the approximate maximum
--          of entries, a space, their life (ms)
-- Reply:   at the end of the reply, if there are crossings, an array of six numbers for each: the position of the request and of the
--          policy, from 0, the threshold in thousandths, the used units, the limit, the reset (ms)

--- section arguments

-- The position of each policy's mark among the keys of a request.
local mark_at = { nil, nil }
for i = 1, count do
  if near[i] >= 0 then stride = stride + 1 end
  mark_at[i] = stride
end
local stream = string.byte(thresholds) == 42 and table.remove(KEYS)
-- Charges that may have crossed a threshold: the request, the policy's number, the policy (false if its limit is that of the params), the
-- units that remained before and remain now, the reset.
local noted, crossings
-- Before a change: the units that remain.
local remaining_before

local function note(...)
  noted = noted or {}
  noted[#noted + 1] = { ... }
end

--- section algorithm

--- include algorithm.capacity

--- section define

-- Whether a charge of the request that is charged without a look may have crossed a threshold, and the place before the request's verdicts.
local is_near, verdicts_at

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
      note(request, i, false, remaining + cost, remaining, reset)
    end
  end
end

--- section fast

is_near, verdicts_at = false, to

--- section fast_policy

-- A verdict is one number with the remaining units in its lower bits, or four numbers.
local lowest = near[charged]
if lowest >= 0 and (filled - to == 1 and reply[filled] % 2 ^ 20 or reply[filled - 1]) <= lowest then is_near = true end

--- section fast_charged

if is_near then note_verdicts(request, verdicts_at) end

--- section charged

for i = 1, count do
  local verdict = verdicts[i]
  if verdict.is_charged and near[i] >= 0 then
    note(request, i, verdict.policy, verdict.remaining + verdict.cost, verdict.remaining, verdict.reset)
  end
end

--- section adjusting

local _
if units > 0 and near[i] >= 0 then _, remaining_before = policy.look(KEYS[i], policy, 0, now, false) end

--- section adjusted

if units > 0 and near[i] >= 0 and changed > 0 then note(0, i, policy, remaining_before, remaining, reset) end

--- section finish

if noted then
  -- A function has locals of its own, of which a script may not have too many.
  local function report_crossings()
    local full, levels = {}, {}
    for quota, thousandths in string.gmatch(thresholds, '/(%d*)([ %d]*)') do
      full[#full + 1], levels[#levels + 1] = tonumber(quota) or 0, thousandths
    end
    local length, life = string.match(thresholds, '^%*(%d+) (%d+)')
    for _, charge in ipairs(noted) do
      local request, i, policy, before, remaining, reset = unpack(charge)
      local limit, key = full[i], KEYS[request * stride + mark_at[i]]
      -- The limit of the key may be another one.
      if policy and policy.record then limit = policy.capacity and policy.capacity(policy) or policy.limit or limit end
      local mark = redis.pcall('GET', key)
      local stop = type(mark) == 'string' and tonumber(string.sub(mark, 1, 13)) or 0
      if stop > now then mark = string.sub(mark, 14) else mark = '' end
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
        stop = now + reset
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
  report_crossings()
end
