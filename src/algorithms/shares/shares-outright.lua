-- Fair shares in the common case, without functions, as in the section `charge` of other algorithms: outright.lua includes `open` before it
-- charges the policies, and `close` after.
--
-- State:   see shares.lua
-- Params:  see shares.lua
-- Returns: `close` appends the verdicts of the pool and the tenant to the reply. Both sections leave the loop if the functions of shares.lua
--          must decide

--- section open
-- Reads both states, estimates the share as `shares_load` does, and stops if the share denies the request, if the tenant becomes heavy or light,
-- or if a look is needed for another reason.

if string.byte(ARGV[2], shared_at) ~= 52 then break end
local segment, segments = pool_segment, pool_segments
local pool_key, tenant_key = KEYS[key_at + count - 1], KEYS[key_at + count]
local pool, tenant = redis.pcall('GET', pool_key), redis.pcall('GET', tenant_key)
local shared_cost = costs == 0 and 1 or ARGV[cost_at + shared_at * per_policy] + 0
if shared_cost <= 0 or not pool then break end
local bytes = (#pool - 47) / (2 * segments)
local pool_format = bytes == 2 and '>I6I7I6I6I6I8I8I2I2' or bytes == 4 and '>I6I7I6I6I6I8I8I4I4'
  or bytes == 6 and '>I6I7I6I6I6I8I8I6I6'
if not pool_format then break end
local start, born, weight1, weight2, weight3, light, squares, light1, squares1 = struct.unpack(pool_format, pool)
-- The limit's segments usually go on from those of the pool.
local passed = math.floor((now - start) / segment)
if passed < 0 or passed >= segments then break end
if passed > 0 then
  start, light1, squares1 = start + passed * segment, 0, 0
  local format = bytes == 2 and '>I2I2' or bytes == 4 and '>I4I4' or '>I6I6'
  for i = 1, passed do
    local a, b = struct.unpack(format, pool, #pool + 1 - 2 * bytes * i)
    light, squares = light - a, squares - b
  end
  weight2, weight3 = passed == 1 and weight1 or 0, passed == 1 and weight2 or passed == 2 and weight1 or 0
  weight1 = 0
end

local own_bytes, own_passed, own_format, mark, marked, own_light, own_squares = 2, segments, '>I6I7I6I2I8I8I8I8I2I2I2I2', 0, 0, 0, 0
local used, asked, own_light1, own_squares1, used1, asked1 = 0, 0, 0, 0, 0, 0
if tenant then
  own_bytes = (#tenant - 53) / (4 * segments)
  if own_bytes == 4 then own_format = '>I6I7I6I2I8I8I8I8I4I4I4I4'
  elseif own_bytes == 6 then own_format = '>I6I7I6I2I8I8I8I8I6I6I6I6'
  elseif own_bytes ~= 2 then break end
  local begin, epoch
  begin, epoch, mark, marked, own_light, own_squares, used, asked, own_light1, own_squares1, used1, asked1 =
    struct.unpack(own_format, tenant)
  own_passed = (start - begin) / segment
  if own_passed < 0 or own_passed % 1 > 0 or epoch ~= born then break end
  if own_passed >= segments then
    own_bytes, own_passed, own_format, mark, marked, own_light, own_squares = 2, segments, '>I6I7I6I2I8I8I8I8I2I2I2I2', 0, 0, 0, 0
    used, asked, own_light1, own_squares1, used1, asked1 = 0, 0, 0, 0, 0, 0
  elseif own_passed > 0 then
    local format = own_bytes == 2 and '>I2I2I2I2' or own_bytes == 4 and '>I4I4I4I4' or '>I6I6I6I6'
    own_light1, own_squares1, used1, asked1 = 0, 0, 0, 0
    for i = 1, own_passed do
      local a, b, c, d = struct.unpack(format, tenant, #tenant + 1 - 4 * own_bytes * i)
      own_light, own_squares, used, asked = own_light - a, own_squares - b, used - c, asked - d
    end
  end
end

local left, heavy = start + segment - now, segments < 3 and segments or 3
local weight, weights = ARGV[weight_at + request] + 0, weight1 + weight2 + (heavy < 3 and 0 or weight3)
if weight == 0 then weight = pool_weight end
local is_marked = marked > 0
-- In its last heavy segment, or after, the tenant may become light.
if is_marked and (start - mark) / segment >= heavy - 1 then break end
if is_marked then weights = weights - marked end
weights = (weights > 0 and weights or 0) + weight
local lights, variance = light - own_light, squares - own_squares
if lights < 0 or variance < 0 then break end
lights, variance = lights * (segments * segment) / (segments * segment - left), variance / segments
local units, margin = pool_limit, 3 * math.sqrt(variance)
if 2 * margin * 32 <= units then margin = 2 * margin elseif margin * 32 < units then margin = units / 32 end
local share = units - lights - margin
share = (share > 0 and share or 0) * weight / weights
if is_marked or own_light + asked + shared_cost > share then
  if not is_marked or used + shared_cost > share then break end
  if own_light + asked + shared_cost > share and (mark ~= start or marked ~= weight or own_light > 0) then break end
end

--- section close
-- Charges the tenant after all policies were charged, and appends the verdicts of the pool and the tenant. `shared_to` is the length of the
-- reply before the limit's verdict.

local verdict = reply[shared_to + 1]
local remaining, reset = verdict % 2 ^ 20
if verdict < 0 then remaining, reset = reply[shared_to + 3], reply[shared_to + 4]
else reset = (verdict - remaining) / 2 ^ 20 end
if (start - now - reset) % segment ~= 0 then break end
local room = lights / segments * (left / segment) + 3 * math.sqrt(variance * (left / segment))
local life = start + segments * segment - now
if is_marked then
  if room > remaining then break end
  asked, asked1 = asked + shared_cost, asked1 + shared_cost
else
  local square = shared_cost * shared_cost
  light, light1, squares, squares1 = light + shared_cost, light1 + shared_cost, squares + square, squares1 + square
  own_light, own_light1 = own_light + shared_cost, own_light1 + shared_cost
  own_squares, own_squares1 = own_squares + square, own_squares1 + square
end
used, used1 = used + shared_cost, used1 + shared_cost
local most, own_most = bytes < 6 and 256 ^ bytes or 2 ^ 45, own_bytes < 6 and 256 ^ own_bytes or 2 ^ 45
if light1 >= most or squares1 >= most or own_squares1 >= own_most or used1 >= own_most or asked1 >= own_most then break end
local is_pool_later = passed > 0
if is_pool_later or not is_marked then
  local state = struct.pack(pool_format, start, born, weight1, weight2, weight3, light, squares, light1, squares1)
  if is_pool_later then
    state = state .. string.rep('\0', 2 * bytes * (passed - 1)) .. string.sub(pool, 48, -1 - 2 * bytes * passed)
    redis.call('SET', pool_key, state, 'PX', headgate_life(life))
  else
    redis.call('SETRANGE', pool_key, '0', state)
  end
end
local state = struct.pack(own_format, start, born, mark, marked, own_light, own_squares, used, asked, own_light1, own_squares1,
  used1, asked1)
if own_passed == 0 then
  redis.call('SETRANGE', tenant_key, '0', state)
  if redis.call('PTTL', tenant_key) == -1 then redis.call('PEXPIREAT', tenant_key, now + life) end
else
  if own_passed == segments then
    state = state .. string.rep('\0', 4 * own_bytes * (segments - 1))
  else
    state = state .. string.rep('\0', 4 * own_bytes * (own_passed - 1)) .. string.sub(tenant, 54, -1 - 4 * own_bytes * own_passed)
  end
  redis.call('SET', tenant_key, state, 'PX', headgate_life(life))
end
if not is_pool_later and redis.call('PTTL', pool_key) == -1 then redis.call('PEXPIREAT', pool_key, now + life) end
if deadline < 0 then
  redis.call('PEXPIREAT', pool_key, now + life)
  redis.call('PEXPIREAT', tenant_key, now + life)
end
local own = share - used
if remaining - room < own then own = remaining - room end
if not is_marked then
  if share - own_light - asked < remaining then own = math.max(own, share - own_light - asked) else own = math.max(own, remaining) end
end
own = own > 0 and math.floor(own) or 0
if verdict < 0 then reply[shared_to + 3] = own else reply[shared_to + 1] = verdict - remaining + own end
to = headgate_add_verdict(reply, to, 0, math.floor(share), reset)
to = headgate_add_verdict(reply, to, 0, own, reset)
charged, values[count - 1], values[count] = count, pool, tenant
