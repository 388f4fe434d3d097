-- Requests with an id: a charged request is remembered beside the state of its first key, for a time, and answered again.
--
-- State:   the deciding policies (4 characters), then with 7 bytes each the step of the charge and the numbers of the verdicts; then, once
--          the charge was changed, the decision that may change the charge (5 characters). If the whole charge was returned, there are no
--          numbers of verdicts (16 characters in total): the id is then free again
-- KEYS:    per request, after the keys of the policies, the key of the id
-- ARGV:    before the costs: how long an id is remembered (ms), the policies (4 characters)
-- Reply:   per request, before the ban: 0, or the step of the first charge if the request is a repetition; or -1 if other policies decided
--          about the first request, so that the verdicts are from a look

local id_life, id_text, id_policies = ARGV[at] + 0, ARGV[at], ARGV[at + 1]
at = at + 2
-- As in the reply.
local origin = 0

local function id_read(key)
  local value = redis.pcall('GET', key)
  if type(value) ~= 'string' or #value < 11 then return end
  local first = struct.unpack('>i7', value, 5)
  if now >= math.floor(first / 1000) + id_life then return end
  if redis.call('PTTL', key) == -1 then redis.call('PEXPIREAT', key, now + id_life) end
  return value, first
end

-- Writes a value for a time (text, ms). Returns the error, if there is one.
local function id_write(key, value, life)
  local written = redis.pcall('SET', key, value, 'PX', life)
  if written.err then return written.err end
  if deadline < 0 then redis.call('PEXPIREAT', key, now + life) end
end

--- section decisions

-- Answers a repetition by appending the first verdicts. Returns whether the request is a repetition.
local function recall(request)
  origin = 0
  local value, first = id_read(KEYS[request * stride + stride])
  if not value or #value == 16 then return false end
  origin = -1
  if string.sub(value, 1, 4) ~= id_policies then return false end
  filled = filled + 1
  reply[filled] = first
  for place = 12, #value - 6, 7 do
    filled = filled + 1
    reply[filled] = struct.unpack('>i7', value, place)
  end
  return true
end

-- Remembers the verdicts reply[from] to reply[to] of a charged request. Returns the error, if any.
local function remember(request, from, to)
  local value = struct.pack('>c4' .. string.rep('i7', to - from + 2), id_policies, step, unpack(reply, from, to))
  return id_write(KEYS[request * stride + stride], value, id_text)
end

--- section changes

-- The arguments of a change: the step of the first charge, whether the caller got the first decision, the
-- caller's decision (5 characters), whether it returns the whole charge. `id_key` is the last key. Only the first decision that changes a charge may change it again.
local id_step, is_first, id_owner, is_last = ARGV[at] + 0, ARGV[at + 1] == '1', ARGV[at + 2], ARGV[at + 3] == '1'

-- Whether the caller may change the charge. If so, this is remembered.
local function claim()
  local value, first = id_read(id_key)
  if not value then return is_first end
  if #value == 16 then return string.sub(value, -5) == id_owner end
  if first ~= id_step then return false end
  local has_owner = (#value - 4) % 7 == 5
  if has_owner and string.sub(value, -5) ~= id_owner then return false end
  local left = headgate_life(math.floor(first / 1000) + id_life - now)
  if is_last then
    id_write(id_key, string.sub(value, 1, 11) .. id_owner, left)
  elseif not has_owner then
    id_write(id_key, value .. id_owner, left)
  end
  return true
end
local is_void = not claim()
