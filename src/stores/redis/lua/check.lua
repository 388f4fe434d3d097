-- Tries each command that the scripts use, in a way that reads nothing and writes nothing.
--
-- KEYS:  a key that does not exist
-- ARGV:  deadline (see common.lua)
-- Reply: now, then for each command that fails: its name and the server's error

local key = KEYS[1]
local reply = { now }

local function try(name, ...)
  local answer = redis.pcall(name, ...)
  local words = type(answer) == 'table' and answer.err
  -- Some arguments are invalid on purpose, so this error of the server means that the command is permitted.
  if words and not string.find(words, '^ERR value is not') then
    reply[#reply + 1], reply[#reply + 2] = name, words
  end
end

try('GET', key)
try('SET', key, '0', 'XX', 'PX', '1000')
try('DEL', key)
try('MGET', key)
try('INCRBY', key, 'x')
try('GETRANGE', key, '0', '0')
try('SETRANGE', key, '0', '')
try('PEXPIREAT', key, '1')
try('PTTL', key)
try('ZADD', key, 'XX', '1', 'x')
try('ZINCRBY', key, 'x', 'x')
try('ZCOUNT', key, '0', '1')
try('ZRANGEBYSCORE', key, '0', '1')
try('ZREM', key, 'x')
try('ZREMRANGEBYSCORE', key, '0', '1')
try('ZREVRANGE', key, '0', '0')
try('ZSCORE', key, 'x')
return reply
