-- Decides requests, one after the other, each all or nothing: if all its policies admit, all charge; else none does.
-- All requests of a call share one set of policies, so that its numbers are read once.
--
-- KEYS:  per request: the ban's key if the set has a ban, then one per policy
-- ARGV:  deadline (see common.lua), count of policies;
--        per policy: kernel, '1' if it is a shadow, its params; the ban's params if the set has a ban;
--        per request its cost, or one for all, or none if all cost 1 (to look without writing, a cost c is sent as -1 - c);
--        per request its lease if the set has a concurrency policy
-- Reply: now, then per request: an error's text; or, if the set has a ban, the ban (> 0: banned, and nothing more;
--        < 0: banned by this denial for so long), and per policy its verdict (see headgate_say in common.lua)

local policies, at = headgate_policies(2)
local banning
local strikes = 0
if ban then
  banning, at = headgate_params(ban, at)
  strikes = 1
end
local count = #policies
local stride = count + strikes
local requests = #KEYS / stride
local leases = concurrency and #ARGV - requests
local costs = (leases or #ARGV) - at + 1

local cost, writable = 1, true
local reply = { now }
local filled = 1
local wait, remaining, reset, a, b, c = {}, {}, {}, {}, {}, {}
for request = 0, requests - 1 do
  local base = request * stride + strikes
  if costs > request then
    cost = tonumber(ARGV[at + request])
    if cost < 0 then cost, writable = -1 - cost, false end
  end
  local lease = leases and ARGV[leases + request + 1]
  local err, banned, state
  if ban then
    banned, state = ban.look(KEYS[base], banning, now, writable)
    if not banned then err = state end
  end

  if not err and (not banned or banned == 0) then
    local admitted = true
    for i = 1, count do
      local policy = policies[i]
      wait[i], remaining[i], reset[i], a[i], b[i], c[i] = policy.look(KEYS[base + i], policy, cost, now, writable)
      if not wait[i] then
        err = remaining[i]
        break
      end
      if wait[i] ~= 0 and wait[i] >= -1 and not policy.shadow then admitted = false end
    end
    if not err and writable then
      if not admitted then
        if ban then banned = -ban.strike(KEYS[base], banning, now, state) end
      elseif cost > 0 then
        for i = 1, count do
          local policy = policies[i]
          -- A shadow that would deny charges nothing, as if it had.
          if wait[i] == 0 or wait[i] < -1 then
            remaining[i], reset[i] = policy.commit(KEYS[base + i], policy, cost, now, a[i], b[i], c[i], lease)
          end
        end
      end
    end
  end

  if err then
    reply[filled + 1] = err
    filled = filled + 1
  else
    if ban then
      reply[filled + 1] = banned
      filled = filled + 1
    end
    if not banned or banned <= 0 then
      for i = 1, count do
        filled = headgate_say(reply, filled, wait[i], remaining[i], reset[i])
      end
    end
  end
end
return reply
