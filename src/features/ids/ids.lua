-- Requests with an id: a charged request is remembered beside the state of its first key, for a time, and answered again.
--
-- State:   the text of the deciding policies (4 characters), 'c' once the first decision has changed its charge, the count of repetitions,
--          a comma and a cost for each policy (one cost if all are equal, none if all are 1), ';', then with 7 bytes each the step of the
--          charge and the numbers of the verdicts. Beside it, once a repetition has changed the charge and as long as the charge can
--          be returned, the name of that decision (5 characters)
-- KEYS:    per request, after the keys of the policies, the key of the id; for a change, then the key of the name
-- ARGV:    how long an id is remembered (ms), its most repetitions, the text of the policies; for a change, the step of the first charge,
--          whether the caller got the first decision (1 or 0), the name of its decision, whether it returns the whole charge (1 or 0),
--          whether the limiter returns the charge by itself (1 or 0)
-- Reply:   per request, before its verdicts: 0; or -1 if the id was repeated too often, so that the request was decided without it; or, if the
--          request is a repetition, the step of the first charge, its policies and costs as in the state, the time since (ms), the count of
--          numbers and the numbers of the first verdicts

--- section arguments

-- The position of the key of an id among those of its request.
stride = stride + 1
local id_key_at = stride

-- The parts of an id's state up to the numbers, their position, the step of the charge and the whole value; or nil without an id.
local function id_read(key)
  local value = redis.pcall('GET', key)
  if type(value) ~= 'string' then return end
  local by, changed, used, costs, from = string.match(value, '^(....)(c?)(%d+)([,%d]*);()')
  if not by or #value < from + 13 or (#value + 1 - from) % 7 ~= 0 then return end
  local first = struct.unpack('>i7', value, from)
  local stop = math.floor(first / 1000) + id_life
  if now >= stop or first >= 2 ^ 53 then return end
  if redis.call('PTTL', key) == -1 then redis.call('PEXPIREAT', key, stop) end
  return by, changed, used, costs, from, first, value
end

-- Writes a value that counts until `stop`. Returns the error, if there is one.
local function id_write(key, value, stop)
  local written = redis.pcall('SET', key, value, 'PX', headgate_life(stop - now))
  if written.err then return written.err end
  if deadline < 0 then redis.call('PEXPIREAT', key, stop) end
end

-- Writes the beginning of an id's state anew.
local function id_rewrite(key, by, changed, used, costs, from, first, value)
  local text = string.format('%s%s%d%s;', by, changed, used, costs) .. string.sub(value, from)
  return id_write(key, text, math.floor(first / 1000) + id_life)
end

--- section define

-- As in the reply, and its position.
local origin, origin_at = 0, 0

-- Answers a repetition by appending the first verdicts. Returns whether the request is a repetition.
local function recall(request)
  origin = 0
  local key = KEYS[request * stride + id_key_at]
  local by, changed, used, costs, from, first, value = id_read(key)
  if not by then return false end
  if used + 0 >= id_repeats then
    origin = -1
    return false
  end
  local failure = id_rewrite(key, by, changed, used + 1, costs, from, first, value)
  if failure then
    filled = filled + 1
    reply[filled] = failure
    return true
  end
  reply[filled + 1], reply[filled + 2], reply[filled + 3] = first, by, costs
  reply[filled + 4], reply[filled + 5] = math.max(0, now - math.floor(first / 1000)), (#value - from - 6) / 7
  filled = filled + 5
  for place = from + 7, #value - 6, 7 do
    filled = filled + 1
    reply[filled] = struct.unpack('>i7', value, place)
  end
  return true
end

-- Remembers the verdicts reply[from] to reply[to] of a charged request, unless its id was repeated too often. Returns the error, if any.
local function remember(request, from, to)
  if origin ~= 0 or count == 0 then return end
  local of, text = at + request * per_request, ''
  if per_policy == 1 then
    text = ',' .. table.concat(ARGV, ',', of + 1, of + count)
  elseif costs > 0 and ARGV[of] ~= '1' then
    text = ',' .. ARGV[of]
  end
  local numbers = struct.pack('>' .. string.rep('i7', to - from + 2), step, unpack(reply, from, to))
  local value = id_policies .. '0' .. text .. ';' .. numbers
  return id_write(KEYS[request * stride + id_key_at], value, now + id_life)
end

--- section before

while request < requests and recall(request) do request = request + 1 end
if request == requests then break end

--- section fast

to = to + 1
reply[to] = origin

--- section fast_charged

if remember(request, filled + 2, to) then break end

--- section report

append(origin)
origin_at = filled

--- section charged

if admitted and not failure then
  failure = remember(request, origin_at + 1, filled)
  if failure then
    give_back()
    for n = filled, origin_at, -1 do reply[n] = nil end
    filled = origin_at - 1
    report(failure)
  end
end

--- section change

stride = stride + 1
local id_key, owner_key = KEYS[id_key_at], KEYS[stride]

-- Whether the caller may change the charge. If so, this is remembered. Also returns the error of a write. `claims` of id-state.ts does the
-- same.
local function claim()
  local by, changed, used, costs, from, first, value = id_read(id_key)
  local has = by and first == id_step
  if id_is_automatic == 1 and (has and used ~= '0' or not has and now >= math.floor(id_step / 1000) + id_life) then
    -- A repetition may have been served. After the id's life, it may have been forgotten.
    return false
  end
  local owner, failure = redis.pcall('GET', owner_key), nil
  if type(owner) == 'string' then
    if owner ~= id_owner then return false end
  elseif id_is_first == 0 and (not has or changed ~= '') then
    -- After the id's life, only the first decision may begin to change the charge.
    return false
  end
  if id_is_first == 0 then
    -- Each change of a repetition may charge units that count for longer than the name was kept.
    local life = id_life
    for i = 1, count do life = math.max(life, ARGV[at + 4 * i - 1] + 0, redis.call('PTTL', KEYS[i])) end
    failure = id_write(owner_key, id_owner, now + life)
  end
  -- An id that was repeated stays, and is spent: otherwise the return of its charge would begin further free repetitions.
  if has and id_is_last == 1 and used == '0' then
    redis.call('DEL', id_key)
  elseif has and id_is_last == 1 then
    failure = id_rewrite(id_key, by, 'c', 1000000, costs, from, first, value)
  elseif has and id_is_first == 1 then
    failure = id_rewrite(id_key, by, 'c', used, costs, from, first, value)
  end
  return true, failure
end
local is_claimed, unclaimed = claim()
if unclaimed then return redis.error_reply(unclaimed) end
for i = 1, is_claimed and 0 or count do ARGV[at + 4 * i - 4] = '0' end
