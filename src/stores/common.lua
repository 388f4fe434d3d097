-- What every script begins with: the algorithms that it needs stand before this, as locals and in the table `kernels`.
--
-- KEYS:  of the script that follows
-- ARGV:  now (ms; empty: the server's time), deadline (ms; 0: none), then the script's own
-- Reply: none; 'HEADGATE_LATE' is raised past the deadline: whoever asked has been answered otherwise meanwhile

-- The numbers of a page from ARGV[at] on, and where they end.
local function headgate_params(page, at)
  local params = {}
  for i = 1, page.params do params[i] = tonumber(ARGV[at + i - 1]) end
  return params, at + page.params
end

-- Returns now, writable, the policies whose count is ARGV[at], and where they end.
local function headgate_open(writable, at)
  local now = tonumber(ARGV[1])
  if not now then
    -- Read once: on Redis 7.0 time goes on within a script.
    local time = redis.call('TIME')
    now = time[1] * 1000 + math.floor(time[2] / 1000)
  end
  if ARGV[2] ~= '0' and now > tonumber(ARGV[2]) then error({ err = 'HEADGATE_LATE the deadline of this call is over' }) end
  local policies = {}
  local count = tonumber(ARGV[at])
  at = at + 1
  for i = 1, count do
    local page, shadow = kernels[ARGV[at]], ARGV[at + 1] == '1'
    local policy
    policy, at = headgate_params(page, at + 2)
    policy.shadow, policy.look, policy.commit, policy.adjust = shadow, page.look, page.commit, page.adjust
    policies[i] = policy
  end
  return now, writable, policies, at
end
