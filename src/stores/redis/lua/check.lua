-- Tries commands without reading or writing data.
--
-- KEYS:  a key that does not exist
-- ARGV:  deadline (see common.lua), then for each command: the name, the count of arguments after the key, the arguments
-- Reply: now, then for each failing command: the name and the server's error

--- include common

local reply = { now }

-- Some arguments are invalid on purpose: the server checks the arguments only after it has checked the permission.
local function is_of_arguments(words)
  return string.find(words, '^ERR value is not')
    or string.find(words, '^ERR Invalid stream ID')
    or string.find(words, '^ERR wrong number of arguments for')
end

local at = 2
while at <= #ARGV do
  local name, last = ARGV[at], at + 1 + math.max(0, ARGV[at + 1])
  local answer = redis.pcall(name, KEYS[1], unpack(ARGV, at + 2, last))
  local words = type(answer) == 'table' and answer.err
  if words and not is_of_arguments(words) then
    reply[#reply + 1], reply[#reply + 2] = name, words
  end
  at = last + 1
end
return reply
