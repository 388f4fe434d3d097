-- Bans: a banned key is denied, and denials by policies of the ban's dimension count towards the next ban. ban.lua has the algorithm.
--
-- KEYS:  per request, after the keys of its policies, the key of the ban
-- ARGV:  `ban_text`: the ban's params, and the positions of the policies whose denials count
-- Reply: per request, before its verdicts, if there is a ban or no policy, -3 and the ban in ms (> 0: banned; < 0: this denial started the
--        ban)

--- section decision

stride = stride + 1
local ban_key_at = stride

--- section guard

if redis.pcall('GET', KEYS[request * stride + ban_key_at]) then break end

--- section params

local ban_params = {}
for param in string.gmatch(ban_text, '%S+') do ban_params[#ban_params + 1] = tonumber(param) end
-- The request's key, the ban's state, and whether a policy of the ban's dimension denies, so that the denial counts.
local ban_key, denials, offends

--- section prepare

--- include ban
--- include bans.params
for i = ban.params + 1, #ban_params do configured[ban_params[i]].bans = true end

--- section read

ban_key, offends = KEYS[request * stride + ban_key_at], false

--- section look

refused, denials = ban.look(ban_key, ban_params, now, writable)
if not refused then return denials end
-- A banned key is only looked at, because the policies may deny for longer than the ban.
if refused > 0 then writable = false end

--- section denies

offends = offends or policy.bans

--- section denied

if offends then refused = -ban.strike(ban_key, ban_params, now, denials) end

--- section report

-- Without policies, nothing else shows where a request's answer begins.
if refused ~= 0 or count == 0 then
  append(-3)
  append(refused)
end

--- section single

-- The position among the keys of a request, which are divided: the keys of all requests' policies come first.
local ban_key_at = stride
stride = stride + 1

--- section single_guard

if redis.pcall('GET', KEYS[requests + (request - 1) * (stride - 1) + ban_key_at]) then
  filled = from
  break
end
last, must_look = request, true

--- section single_prepare

-- A denial counts for the ban, so the policy is looked at. More denials are likely then.
if before == nil then kernel_charge = nil end
--- include ban
--- include bans.params
offends = ban_params[ban.params + 1]

--- section single_look

last = request
if not change then
  ban_key = KEYS[requests + (request - 1) * (stride - 1) + ban_key_at]
  refused, denials = ban.look(ban_key, ban_params, now, writable)
  if not refused then
    failure = denials
  elseif refused > 0 then
    writable = false
  end
end

--- section single_charged

if before == nil then request, kernel_charge = from, nil end

--- section single_denied

if writable and wait and not admitted then
--- include bans.denied
end

--- section single_report

if refused and refused ~= 0 then
  reply[filled + 1], reply[filled + 2] = -3, refused
  filled = filled + 2
end
