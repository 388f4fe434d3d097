-- Releases or renews the concurrency slots of one admission.
--
-- KEYS:  one per concurrency policy
-- ARGV:  now, deadline, 'release' or 'renew', lease, its units, count of policies; per policy: kernel, '0', its params
-- Reply: 1 if every slot was still held, else 0

local now, _, policies = headgate_open(true, 6)
local lease, units = ARGV[4], tonumber(ARGV[5])
local held = 1
for i, key in ipairs(KEYS) do
  for unit = 1, units do
    local member = lease .. ':' .. unit
    local stop = redis.call('ZSCORE', key, member)
    if not stop or tonumber(stop) <= now then held = 0 end
    if stop and ARGV[3] == 'release' then
      redis.call('ZREM', key, member)
    elseif stop and tonumber(stop) > now then
      redis.call('ZADD', key, now + policies[i][2], member)
    end
  end
  local last = redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')
  if last[2] then redis.call('PEXPIREAT', key, last[2]) end
end
return held
