-- Fair shares of the slots of one limit: see docs/fair-shares.md. The slots that a tenant holds follow from the leases, because the name of
-- a lease ends with the tag of its tenant. The pool has the weights of tenants, and the tenants that lately did not get a slot.
--
-- State:   pool: five words per tenant, in the order of their latest requests: the tag, the weight, the time of the last admission (ms), the
--          time of the last denial (or 0), and the slots that the tenant wants since. A tenant has no state of its own
-- Params:  lease (ms), default weight
-- Returns: look: 0, 1, reset, tenants (or nil, error); commit: 1, 0; adjust: 1, reset, 0

--- section share

local slot_shares_load, slot_shares_admits, slot_shares_note, slot_shares_withdraw, slot_shares_remaining, slot_shares_wait
do

-- The time for which a tenant counts as waiting after a denial (ms), and the most tenants without slots in a pool.
local slot_shares_wants, slot_shares_spare = 2000, 64

-- The decision for one request of a tenant: `p`, `limit`, `weight`, `tag`, `tenants`, `leases`, `served`, and the estimate: `share`, `held`.
slot_shares_load = function(limit, p, weight, tag, tenants)
  local s = { p = p, tag = tag, tenants = tenants, leases = {}, served = 0 }
  -- Invalid numbers must not make a search endless.
  s.limit, s.weight = math.floor(math.min(limit.policy[1], 2 ^ 52)), weight > 0 and weight or p[2]
  for _, tenant in ipairs(tenants) do
    if tenant.tag == tag then s.own = tenant end
  end
  local leases = redis.call('ZRANGEBYSCORE', limit.key, string.format('(%.0f', now), '+inf', 'WITHSCORES')
  for i = 1, #leases, 2 do
    local of, units = string.match(leases[i], '([^.:]*):(%d+)$')
    local stop = math.min(tonumber(leases[i + 1]), now + p[1], 2 ^ 52)
    if of then s.leases[#s.leases + 1] = { tag = of, units = tonumber(units), stop = stop } end
  end
  return s
end

-- The slots of each tenant at a time.
local function slot_shares_held(s, time)
  local held = {}
  for _, lease in ipairs(s.leases) do
    if lease.stop > time then held[lease.tag] = (held[lease.tag] or 0) + lease.units end
  end
  return held
end

-- The slots that other tenants get before a tenant has so many slots.
local function slot_shares_before(s, count, demands, served)
  local units = 0
  for _, each in ipairs(demands) do
    local is_first = each.served < served or each.served == served and each.tag < s.tag
    units = units + math.min(each.slots, math.floor((count * each.weight - (is_first and 0 or 1)) / s.weight))
  end
  return units
end

-- The slots that a tenant wants since a denial. The demand ends early if the tenant got the last slot since, and holds none any more.
local function slot_shares_wanted(tenant, held, time)
  local is_recent = tenant.asked + slot_shares_wants > time
  return is_recent and (tenant.asked >= tenant.served or held > 0) and tenant.wanted or 0
end

-- Whether the turns of a tenant still count, so that tenants are not served twice before others.
local function slot_shares_kept(s, served, asked, held, time)
  return held > 0 or math.max(served, asked) + s.p[1] + slot_shares_wants > time
end

-- Computes the share at a time: the part of a tenant if the slots are given out singly, each to the tenant with the fewest slots by weight,
-- and of several such tenants to the tenant that was served least recently. The share never falls as time passes.
local function slot_shares_estimate(s, time)
  local held, demands = slot_shares_held(s, time), {}
  s.held = held[s.tag] or 0
  held[s.tag] = nil
  for _, tenant in ipairs(s.tenants) do
    local own = held[tenant.tag] or 0
    local slots = math.max(own, slot_shares_wanted(tenant, own, time))
    if tenant.tag ~= s.tag and slots > 0 then
      demands[#demands + 1] = { tag = tenant.tag, weight = tenant.weight, served = tenant.served, slots = slots }
    end
    held[tenant.tag] = nil
  end
  for tag, slots in pairs(held) do demands[#demands + 1] = { tag = tag, weight = s.p[2], served = 0, slots = slots } end
  local above = s.limit + 1
  local served = slot_shares_kept(s, s.served, s.own and s.own.asked or 0, s.held, time) and s.served or 0
  s.share = 0
  while above - s.share > 1 do
    local middle = math.floor((s.share + above) / 2)
    if middle + slot_shares_before(s, middle, demands, served) <= s.limit then s.share = middle else above = middle end
  end
end

slot_shares_admits = function(s, cost)
  local own = s.own
  if own and slot_shares_kept(s, own.served, own.asked, slot_shares_held(s, now)[s.tag] or 0, now) then s.served = own.served end
  slot_shares_estimate(s, now)
  return cost == 0 or s.held + cost <= s.share
end

-- The slots that the tenant could take at once.
slot_shares_remaining = function(s, remaining)
  return math.max(0, math.min(s.share - s.held, remaining))
end

-- The time until a cost is admitted if no tenant asks. `from`: a time before which the limit itself denies.
slot_shares_wait = function(s, cost, from)
  local low = math.min(now + from, 2 ^ 52)
  local high = math.max(low, now + slot_shares_wants)
  for _, lease in ipairs(s.leases) do high = math.max(high, lease.stop) end
  while low < high do
    local middle = math.floor((low + high) / 2)
    slot_shares_estimate(s, middle)
    if s.held + cost <= s.share then high = middle else low = middle + 1 end
  end
  slot_shares_estimate(s, now)
  return low - now
end

local function slot_shares_write(s, key, asked, wanted)
  local held, spare, words = slot_shares_held(s, now), -slot_shares_spare, {}
  local others = {}
  for _, tenant in ipairs(s.tenants) do
    if tenant.tag ~= s.tag and slot_shares_kept(s, tenant.served, tenant.asked, held[tenant.tag] or 0, now) then
      others[#others + 1] = tenant
      if not held[tenant.tag] then spare = spare + 1 end
    end
  end
  others[#others + 1] = { tag = s.tag, weight = s.weight, served = s.served, asked = asked, wanted = wanted, is_own = true }
  for _, tenant in ipairs(others) do
    if held[tenant.tag] or tenant.is_own or spare <= 0 then
      words[#words + 1] = string.format('%s %.0f %.0f %.0f %.0f', tenant.tag, tenant.weight, tenant.served, tenant.asked, tenant.wanted)
    else
      spare = spare - 1
    end
  end
  headgate_set(key, table.concat(words, ' '), now + s.p[1] + slot_shares_wants)
end

-- Records a request. A denied tenant wants the denied slots, too, but only within its share, because no more can be kept. So does an admitted
-- tenant of which further requests wait.
slot_shares_note = function(s, key, cost, is_charged, waits)
  local slots, own = s.held + cost, s.own
  local before = own and slot_shares_wanted(own, s.held, now) or 0
  if is_charged then
    s.served = now
    -- A demand at the time of the admission is one for further slots.
    if waits then
      slot_shares_write(s, key, now, math.max(before, slots + cost <= s.share and slots + cost or slots))
    else
      slot_shares_write(s, key, own and math.min(own.asked, now - 1) or 0, own and own.wanted or 0)
    end
    slot_shares_estimate(s, now)
    s.held = slots
    return
  end
  local wanted = math.max(before, slots <= s.share and slots or s.held)
  if wanted > 0 then slot_shares_write(s, key, now, wanted) end
end

-- Forgets the demand of a tenant whose request another policy denies.
slot_shares_withdraw = function(s, key)
  if s.own and s.own.asked > 0 then slot_shares_write(s, key, 0, 0) end
end

end

--- section look

local function slot_shares_look(key, p, _, now)
  local value = redis.pcall('GET', key)
  if type(value) == 'table' then return nil, value.err end
  local tenants, last = {}, 0
  for tag, weight, served, asked, wanted in string.gmatch(value or '', '(%S+) (%d+) (%d+) (%d+) (%d+)') do
    -- If the clock went back, nothing is in the future.
    served, asked = math.min(tonumber(served), now), tonumber(asked)
    if asked > now then asked = 0 end
    last = math.max(last, served, asked)
    tenants[#tenants + 1] = { tag = tag, weight = tonumber(weight), served = served, asked = asked, wanted = tonumber(wanted) }
  end
  local reset = last + p[1] + 2000 - now
  if last == 0 or reset <= 0 then return 0, 1, 0, {} end
  return 0, 1, reset, tenants
end

local function slot_shares_commit() return 1, 0 end

local kernel_look, kernel_commit = slot_shares_look, slot_shares_commit

--- section adjust

local function slot_shares_adjust(key, p, _, _, now)
  local _, _, reset = slot_shares_look(key, p, 0, now)
  return 1, reset or 0, 0
end

headgate_kernel('slot-shares', {
  is_share = false,
  look = slot_shares_look,
  commit = slot_shares_commit,
  adjust = slot_shares_adjust,
})
