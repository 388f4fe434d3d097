// Generated from the .lua files by npm run lua:build: edit those.
const common_1 = `local deadline = tonumber(ARGV[1])
local step = -deadline
if deadline >= 0 then
local time = redis.call('TIME')
step = time[1] * 1000000 + time[2]
end
local now = math.floor(step / 1000)
if deadline >= 0 and now > deadline then return redis.error_reply(string.format('HEADGATE_LATE %.0f', now)) end
`;
const common_2 = `local function headgate_set(key, value, stop)
if deadline >= 0 then
local life = stop - now
redis.call('SET', key, value, 'PX', string.format(life < 2 ^ 31 and '%d' or '%.0f', life))
else
redis.call('SET', key, value)
redis.call('PEXPIREAT', key, stop)
end
end
`;
const common_3 = `local function headgate_heal(key, look, p)
local wait, _, reset = look(key, p, 0, now, false)
if not wait then return end
if reset > 0 then redis.call('PEXPIREAT', key, now + reset) else redis.call('DEL', key) end
end
`;
const common_4 = `local function headgate_bounded(write)
local done, reply = pcall(write)
if done then return reply end
for _, key in ipairs(KEYS) do
if redis.pcall('PTTL', key) == -1 then redis.pcall('DEL', key) end
end
return redis.error_reply(type(reply) == 'table' and reply.err or reply)
end
`;
const common_5 = `local function headgate_recount(key, p, units, mark, now, read, write, stop_if_new)
local limit = p[1]
local used, stop = read(key, p, now, true)
if not used then return nil, stop end
local charged = math.max(0, math.min(units, 2 ^ 52 - used))
if charged > 0 then
if stop == 0 then stop = stop_if_new end
used = used + charged
elseif stop ~= 0 and (mark == 0 or mark == stop) then
used = math.max(0, used + units)
end
if used == 0 then
if stop ~= 0 then redis.call('DEL', key) end
return limit, 0, charged
end
write(key, p, used, stop)
return math.max(0, limit - used), stop - now, charged
end
`;
const common_6 = `local kernels, ban = {}
`;
const common_7 = `local function headgate_say(reply, filled, wait, remaining, reset)
if wait == 0 and remaining < 2 ^ 20 and reset < 2 ^ 32 then
reply[filled + 1] = reset * 2 ^ 20 + remaining
return filled + 1
end
reply[filled + 1], reply[filled + 2], reply[filled + 3], reply[filled + 4] = -1, wait, remaining, reset
return filled + 4
end
`;
const policies_1 = `local function headgate_params(kernel, at)
local params = {}
for i = 1, kernel.params do params[i] = tonumber(ARGV[at + i - 1]) end
return params, at + kernel.params
end
`;
const policies_2 = `local function headgate_policies(at)
local policies = {}
local count = tonumber(ARGV[at])
at = at + 1
for i = 1, count do
local kernel, flags = kernels[ARGV[at]], tonumber(ARGV[at + 1])
local policy
policy, at = headgate_params(kernel, at + 2)
if kernel.check then kernel.check(policy, now) end
policy.shadow, policy.attempts = flags % 2 == 1, flags > 1
policy.look, policy.commit, policy.charge = kernel.look, kernel.commit, kernel.charge
policy.adjust, policy.drains = kernel.adjust, kernel.drains
policy.release, policy.renew = kernel.release, kernel.renew
policies.slots = policies.slots or kernel.release
policies[i] = policy
end
return policies, at
end
`;
const ban_1 = `local function ban_stop(p, state) return math.max(state[2], state[3] + (state[5] > 0 and p[5] or 0)) end
local function ban_write(key, p, now, state)
local stop = ban_stop(p, state)
if stop <= now then
redis.call('DEL', key)
else
headgate_set(key, string.format('%.0f %.0f %.0f %.0f %.0f', unpack(state)), stop)
end
end
local function ban_read(key, p, now, writable)
local value = redis.pcall('GET', key)
if not value then return { 0, 0, 0, 0, 0 } end
if type(value) == 'table' then return nil, value.err end
local denials, counted, banned, length, last = string.match(value, '^(%d+) (%d+) (%d+) (%d+) (%d+)$')
local state = { 0, 0, 0, 0, 0 }
if denials and tonumber(length) <= 366 * 86400000 then
state = { tonumber(denials), tonumber(counted), tonumber(banned), tonumber(length), tonumber(last) }
end
local before = state[2] + state[3]
state[2], state[3] = math.min(state[2], now + p[2]), math.min(state[3], now + state[4])
if writable and (state[2] + state[3] < before or redis.call('PTTL', key) == -1) then ban_write(key, p, now, state) end
if state[2] <= now then state[1], state[2] = 0, 0 end
if state[3] + p[5] <= now then state[5] = 0 end
return state
end
`;
const ban_2 = `local function ban_look(key, p, now, writable)
local state, err = ban_read(key, p, now, writable)
if not state then return nil, err end
return math.max(0, state[3] - now), state
end
local function ban_strike(key, p, now, state)
if p[1] == 0 then return 0 end
if state[2] == 0 then state[2] = now + p[2] end
state[1] = state[1] + 1
local length = 0
if state[1] >= p[1] then
length = state[5] == 0 and p[3] or math.min(p[5], math.floor(state[5] * p[4] / 1000))
state[1], state[2], state[3], state[4], state[5] = 0, 0, now + length, length, length
end
ban_write(key, p, now, state)
return length
end
`;
const ban_3 = `local function ban_set(key, p, now, length)
local state, err = ban_read(key, p, now, true)
if not state then return err end
if length == 0 then
redis.call('DEL', key)
else
state[3], state[4] = now + length, length
ban_write(key, p, now, state)
end
end
`;
const calendar_1 = `local function calendar_check(p, now)
if now >= p[2] then
for i = 3, 9 do
if now < p[i] then return p[i] end
end
end
error(string.format('HEADGATE_PERIOD %.0f', now), 0)
end
local function calendar_write(key, _, used, stop)
headgate_set(key, string.format('%.0f@%.0f', used, stop), stop)
end
local function calendar_read(key, p, now, writable)
local stop = calendar_check(p, now)
local value = redis.pcall('GET', key)
if not value then return 0, 0 end
if type(value) == 'table' then return nil, value.err end
local units, till = string.match(value, '^(%d+)@(%d+)$')
local used, expiry = tonumber(units), tonumber(till)
local sound = used and used < 2 ^ 53
if not sound or expiry <= now then
if writable and (not sound or redis.call('PTTL', key) < 0) then redis.call('DEL', key) end
return 0, 0
end
if writable and (expiry > stop or redis.call('PTTL', key) < 0) then
expiry = math.min(expiry, stop)
calendar_write(key, p, used, expiry)
end
return used, math.min(expiry, stop)
end
local function calendar_look(key, p, cost, now, writable)
local limit = p[1]
local used, stop = calendar_read(key, p, now, writable)
if not used then return nil, stop end
local wait = 0
if cost > 0 and used + cost > limit then wait = cost > limit and -1 or stop - now end
return wait, math.max(0, limit - used), stop == 0 and 0 or stop - now, used, stop
end
`;
const calendar_2 = `local function calendar_commit(key, p, cost, now, used, stop)
if stop == 0 then stop = calendar_check(p, now) end
calendar_write(key, p, used + cost, stop)
return p[1] - used - cost, stop - now
end
`;
const calendar_3 = `local function calendar_adjust(key, p, units, mark, now)
return headgate_recount(key, p, units, mark, now, calendar_read, calendar_write, calendar_check(p, now))
end
`;
const concurrency_1 = `local function concurrency_units(member)
return tonumber(string.match(member, ':(%d+)$')) or 0
end
local function concurrency_read(key, p, now, writable)
local lease = p[2]
local last = redis.pcall('ZREVRANGE', key, 0, 0, 'WITHSCORES')
if last.err then return nil, last.err end
local stop = tonumber(last[2]) or 0
if stop <= now then return 0, 0 end
local held = -(tonumber(redis.call('ZSCORE', key, '#')) or 0)
for _, member in ipairs(redis.call('ZRANGEBYSCORE', key, 0, now)) do held = held - concurrency_units(member) end
if stop > now + lease then
stop = now + lease
if writable then
for _, member in ipairs(redis.call('ZRANGEBYSCORE', key, string.format('(%.0f', stop), '+inf')) do
redis.call('ZADD', key, stop, member)
end
redis.call('PEXPIREAT', key, stop)
end
end
return math.max(0, held), stop
end
local function concurrency_until(key, now, stop, held, left)
local at, many = 0, 16
if redis.call('ZCOUNT', key, string.format('(%.0f', now), '+inf') == held then at, many, left = left, 1, 0 end
while true do
local leases = redis.call('ZREVRANGE', key, at, at + many - 1, 'WITHSCORES')
for i = 1, #leases, 2 do
left = left - concurrency_units(leases[i])
if left < 0 then return math.min(stop, tonumber(leases[i + 1])) end
end
if #leases == 0 then return stop end
at, many = at + many, 4 * many
end
end
local function concurrency_look(key, p, cost, now, writable)
local limit = p[1]
local held, stop = concurrency_read(key, p, now, writable)
if not held then return nil, stop end
local wait = 0
if cost > limit then
wait = -1
elseif cost > 0 and held + cost > limit then
wait = concurrency_until(key, now, stop, held, limit - cost) - now
end
return wait, held < limit and limit - held or 0, stop == 0 and 0 or stop - now, held, stop
end
`;
const concurrency_2 = `local function concurrency_commit(key, p, cost, now, held, _, _, id)
local till, member = now + p[2], id .. ':' .. cost
redis.call('ZADD', key, till, member, -held - cost, '#')
local kept = redis.pcall('PEXPIREAT', key, till)
local swept = redis.pcall('ZREMRANGEBYSCORE', key, 0, now)
local refused = type(kept) == 'table' and kept or type(swept) == 'table' and swept
if refused then
redis.call('ZREM', key, member)
if held == 0 then redis.call('DEL', key) else redis.call('ZINCRBY', key, cost, '#') end
error(refused.err)
end
return p[1] - held - cost, p[2]
end
`;
const concurrency_3 = `local function concurrency_adjust(key, p, _, _, now)
local held, stop = concurrency_read(key, p, now, true)
if not held then return nil, stop end
return math.max(0, p[1] - held), stop == 0 and 0 or stop - now, 0
end
`;
const concurrency_4 = `local function concurrency_holds(key, p, member, now)
local held, err = concurrency_read(key, p, now, true)
if not held then return nil, err end
local stop = held > 0 and redis.call('ZSCORE', key, member)
return stop and tonumber(stop) > now and 1 or 0
end
local function concurrency_release(key, p, id, units, now)
local member = id .. ':' .. units
local held, err = concurrency_holds(key, p, member, now)
if held == 1 then
redis.call('ZREM', key, member)
redis.call('ZINCRBY', key, units, '#')
local last = redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')
if last[1] == '#' then redis.call('DEL', key) else redis.call('PEXPIREAT', key, last[2]) end
end
return held, err
end
`;
const concurrency_5 = `local function concurrency_renew(key, p, id, units, now)
local member = id .. ':' .. units
local held, err = concurrency_holds(key, p, member, now)
if held == 1 then
local till = now + p[2]
redis.call('ZADD', key, till, member)
redis.call('PEXPIREAT', key, till)
end
return held, err
end
`;
const fixed_window_1 = `local function fixed_window_packs(p, used)
return p[1] < 2 ^ 20 and p[2] < 2 ^ 30 and used < 2 ^ 21
end
local function fixed_window_write(key, p, used, stop)
local packs = fixed_window_packs(p, used)
headgate_set(key, packs and used - stop % 2 ^ 31 * 2 ^ 22 or struct.pack('>I6I7', stop, used), stop)
return packs
end
local function fixed_window_ended(key, now)
local left, time = redis.call('PTTL', key), redis.call('TIME')
return left >= 0 and time[1] * 1000 + time[2] / 1000 + left <= now, left
end
local function fixed_window_read(key, p, now, writable)
local value = redis.pcall('GET', key)
if not value then return 0, 0 end
if type(value) == 'table' then return nil, value.err end
local used, stop
local packed = tonumber(value)
if #value == 13 then
stop, used = struct.unpack('>I6I7', value)
packed = nil
elseif packed and packed < 0 and packed > -2 ^ 53 then
used = packed % 2 ^ 22
stop = now + ((used - packed) / 2 ^ 22 - now + 2 ^ 30) % 2 ^ 31 - 2 ^ 30
end
if not used or stop <= now or used > 2 ^ 53 or used % 1 > 0 then return 0, 0 end
local late = stop > now + p[2]
if late or packed and deadline < 0 then
local ended, left = fixed_window_ended(key, now)
if ended or late and left == -1 then return 0, 0 end
end
if late then
stop = now + p[2]
if writable then packed = fixed_window_write(key, p, used, stop) end
end
return used, stop, packed
end
local function fixed_window_look(key, p, cost, now, writable)
local limit = p[1]
local used, stop, packed = fixed_window_read(key, p, now, writable)
if not used then return nil, stop end
local wait = 0
if cost > 0 and used + cost > limit then wait = cost > limit and -1 or stop - now end
return wait, used < limit and limit - used or 0, stop == 0 and 0 or stop - now, used, stop, packed
end
`;
const fixed_window_2 = `local function fixed_window_commit(key, p, cost, now, used, stop, packed)
if stop == 0 then
fixed_window_write(key, p, cost, now + p[2])
return p[1] - cost, p[2]
end
local charged = packed and used + cost < 2 ^ 21 and redis.pcall('INCRBY', key, cost)
if type(charged) ~= 'number' then
fixed_window_write(key, p, used + cost, stop)
elseif redis.call('PTTL', key) == -1 then
headgate_heal(key, fixed_window_look, p)
end
return p[1] - used - cost, stop - now
end
local function fixed_window_charge_long(first, last, p, cost, now, reply, filled)
local limit, window = p[1], p[2]
local before
for request = first, last do
local key = KEYS[request]
before = redis.pcall('GET', key)
local stop, used = now + window, cost
if not before then
fixed_window_write(key, p, cost, stop)
elseif type(before) == 'table' or #before ~= 13 then
return request, filled
else
stop, used = struct.unpack('>I6I7', before)
used = used + cost
if stop <= now or stop > now + window or used > limit then return request, filled end
redis.call('SETRANGE', key, '6', struct.pack('>I7', used))
if redis.call('PTTL', key) == -1 then headgate_heal(key, fixed_window_look, p) end
end
filled = headgate_say(reply, filled, 0, limit - used, stop - now)
end
return last + 1, filled, before
end
local function fixed_window_charge(first, last, p, cost, text, now, reply, filled)
local limit, window = p[1], p[2]
if cost > limit or window < 1 then return first, filled end
if not fixed_window_packs(p, 0) then return fixed_window_charge_long(first, last, p, cost, now, reply, filled) end
local before
for request = first, last do
local key = KEYS[request]
local value = redis.pcall('INCRBY', key, text)
if type(value) == 'table' then return request, filled end
if value == cost then
local written, refused = pcall(fixed_window_write, key, p, cost, now + window)
if not written then
redis.call('DEL', key)
error(refused, 0)
end
filled = headgate_say(reply, filled, 0, limit - cost, window)
before = false
else
local used = value % 2 ^ 22
local reset = value < 0 and ((used - value) / 2 ^ 22 - now) % 2 ^ 31 or 0
local sound = reset > 0 and reset <= window and (deadline >= 0 or not fixed_window_ended(key, now))
if sound and redis.call('PTTL', key) == -1 then headgate_heal(key, fixed_window_look, p) end
if sound and used <= limit then
filled = filled + 1
reply[filled] = reset * 2 ^ 20 + limit - used
before = value - cost
else
redis.call('INCRBY', key, -cost)
if not sound then return request, filled end
used = used - cost
filled = headgate_say(reply, filled, reset, used < limit and limit - used or 0, reset)
before = nil
end
end
end
return last + 1, filled, before
end
`;
const fixed_window_3 = `local function fixed_window_adjust(key, p, units, mark, now)
return headgate_recount(key, p, units, mark, now, fixed_window_read, fixed_window_write, now + p[2])
end
`;
const gcra_1 = `local function gcra_write(key, p, now, backlog)
local part = -backlog % p[1]
local reset = (backlog + part) / p[1]
local stop = now + reset
headgate_set(key, struct.pack('>I6I4', stop, part), stop)
return reset
end
local function gcra_read(key, p, now, writable)
local value = redis.pcall('GET', key)
if not value then return 0 end
if type(value) == 'table' then return nil, value.err end
if #value ~= 10 then return 0 end
local stop, part = struct.unpack('>I6I4', value)
local backlog = math.max(0, (stop - now) * p[1] - (part < p[1] and part or 0))
if backlog > p[5] then
backlog = p[5]
if writable then gcra_write(key, p, now, backlog) end
end
return backlog
end
local function gcra_look(key, p, cost, now, writable)
local scale, increment, capacity, patience = p[1], p[2], p[3], p[4]
local backlog, err = gcra_read(key, p, now, writable)
if not backlog then return nil, err end
local charge = cost * increment
local over = backlog + charge - capacity
local wait = 0
if cost > 0 and over > 0 then
if charge > capacity then
wait = -1
elseif over <= patience then
wait = -1 - math.ceil(over / scale)
else
wait = math.ceil((over - patience) / scale)
end
end
return wait, math.max(0, math.floor((capacity - backlog) / increment)), math.ceil(backlog / scale), backlog
end
`;
const gcra_2 = `local function gcra_commit(key, p, cost, now, backlog)
backlog = backlog + cost * p[2]
local reset = gcra_write(key, p, now, backlog)
return math.max(0, math.floor((p[3] - backlog) / p[2])), reset
end
local function gcra_charge(first, last, p, cost, _, now, reply, filled)
local scale, increment, capacity, patience = p[1], p[2], p[3], p[4]
local charge = cost * increment
if charge > capacity then return first, filled end
local value
for request = first, last do
local key = KEYS[request]
value = redis.pcall('GET', key)
local backlog, stop = charge
if value then
if type(value) == 'table' or #value ~= 10 then return request, filled end
local part
stop, part = struct.unpack('>I6I4', value)
if part >= scale or stop <= now then return request, filled end
backlog = (stop - now) * scale - part + charge
end
local left = capacity - backlog
if left >= 0 then
local reset = gcra_write(key, p, now, backlog)
filled = headgate_say(reply, filled, 0, (left - left % increment) / increment, reset)
elseif left + patience >= 0 then
filled = headgate_say(reply, filled, -1 - math.ceil(-left / scale), 0, gcra_write(key, p, now, backlog))
else
backlog = backlog - charge
if backlog > p[5] then return request, filled end
if redis.call('PTTL', key) == -1 then headgate_heal(key, gcra_look, p) end
local remaining = math.max(0, math.floor((capacity - backlog) / increment))
filled = headgate_say(reply, filled, math.ceil(-(left + patience) / scale), remaining, stop - now)
value = nil
end
end
return last + 1, filled, value
end
`;
const gcra_3 = `local function gcra_give_back_most(p, charge, mark, now, at, shift)
local rounding = p[2] % p[1] == 0 and 0 or p[1] - 1
local in_turn = (mark - now) * p[1] - rounding - shift
return math.max(0, math.min(charge, math.max(in_turn, charge - (now - at) * p[1])))
end
local function gcra_adjust(key, p, units, mark, now, at, shift)
local backlog, err = gcra_read(key, p, now, true)
if not backlog then return nil, err end
local charged = math.max(0, math.min(units, math.floor((p[5] - backlog) / p[2])))
if units > 0 then
backlog = backlog + charged * p[2]
else
local back = -units * p[2]
if mark > 0 then back = gcra_give_back_most(p, back, mark, now, at, shift) end
back = math.min(backlog, back)
backlog = backlog - back
if back > 0 then charged = back end
end
if backlog == 0 then
redis.call('DEL', key)
return math.floor(p[3] / p[2]), 0, charged
end
local reset = gcra_write(key, p, now, backlog)
return math.max(0, math.floor((p[3] - backlog) / p[2])), reset, charged
end
`;
const sliding_log_1 = `local SLIDING_LOG_HEADER = '>I6I4I4I4I3I3I5'
local function sliding_log_run(key, log, i)
local at = 29 + 8 * ((log.head + i) % log.room)
local run = log.value and string.sub(log.value, at + 1, at + 8) or redis.call('GETRANGE', key, at, at + 7)
if #run < 8 then return log.base, log.before end
local time, through = struct.unpack('>I5I3', run)
return math.min(log.base + time, log.newest), through
end
local function sliding_log_through(key, log, i)
local _, through = sliding_log_run(key, log, i)
return (through - log.before) % 2 ^ 24
end
local function sliding_log_first(log, test)
if test(0) then return 0 end
local first, last = 1, log.runs - 1
while first < last do
local middle = math.floor((first + last) / 2)
if test(middle) then last = middle else first = middle + 1 end
end
return first
end
local function sliding_log_header(log)
local began, newest = log.base, log.newest - log.base
return struct.pack(SLIDING_LOG_HEADER, began, log.room, log.head, log.runs, log.before, log.last, newest)
end
local function sliding_log_rewrite(key, p, log, room)
log.value = redis.call('GET', key)
local base = sliding_log_run(key, log, 0)
local runs = {}
for i = 0, log.runs - 1 do
local time, through = sliding_log_run(key, log, i)
runs[i + 1] = struct.pack('>I5I3', time - base, through)
end
log.value, log.base, log.head, log.room = nil, base, 0, room
local rest = string.rep('\\0', 8 * (room - log.runs))
headgate_set(key, sliding_log_header(log) .. table.concat(runs) .. rest, log.newest + p[2])
end
local function sliding_log_read(key, p, now, writable)
local header = redis.pcall('GETRANGE', key, 0, 28)
if type(header) == 'table' then return nil, header.err end
local window = p[2]
local log = { runs = 0, live = 0 }
if #header < 29 then return log end
local base, room, head, runs, before, last, newest = struct.unpack(SLIDING_LOG_HEADER, header)
if head >= room or runs < 1 or runs > room or room > 2 ^ 23 then return log end
newest = base + newest
if newest + window <= now then return log end
log = { base = base, room = room, head = head, runs = runs, before = before, last = last, newest = newest }
if newest > now then
log.newest = now
if writable then sliding_log_rewrite(key, p, log, room) end
end
local oldest = sliding_log_first(log, function(i) return sliding_log_run(key, log, i) + window > now end)
if oldest > 0 then
local _, through = sliding_log_run(key, log, oldest - 1)
log.before, log.head, log.runs = through, (log.head + oldest) % room, runs - oldest
end
log.live = (last - log.before) % 2 ^ 24
return log
end
local function sliding_log_look(key, p, cost, now, writable)
local limit, window = p[1], p[2]
local log, err = sliding_log_read(key, p, now, writable)
if not log then return nil, err end
local live = log.live
local wait = 0
if cost > limit then
wait = -1
elseif log.runs > 0 and cost > 0 and live + cost > limit then
local leaving = live + cost - limit
local last = sliding_log_first(log, function(i) return sliding_log_through(key, log, i) >= leaving end)
wait = sliding_log_run(key, log, last) + window - now
end
return wait, math.max(0, limit - live), log.runs > 0 and log.newest + window - now or 0, log
end
`;
const sliding_log_2 = `local function sliding_log_commit(key, p, cost, now, log)
local limit, window = p[1], p[2]
log.live = log.live + cost
local remaining = math.max(0, limit - log.live)
if log.runs == 0 then
log.base, log.room, log.head, log.runs, log.before, log.last, log.newest = now, 1, 0, 1, 0, cost, now
headgate_set(key, sliding_log_header(log) .. struct.pack('>I5I3', 0, cost), now + window)
return remaining, window
end
if log.newest ~= now then
local room = math.max(log.runs + 1, math.min(limit, math.ceil(1.5 * log.runs) + 2))
if log.runs == log.room then sliding_log_rewrite(key, p, log, room) end
log.runs, log.newest = log.runs + 1, now
end
log.last = log.last + cost
local at = 29 + 8 * ((log.head + log.runs - 1) % log.room)
redis.call('SETRANGE', key, at, struct.pack('>I5I3', now - log.base, log.last))
redis.call('SETRANGE', key, 0, sliding_log_header(log))
redis.call('PEXPIREAT', key, now + window)
return remaining, window
end
`;
const sliding_log_3 = `local function sliding_log_give_back_oldest(key, log, units)
local back = math.min(units, log.live)
if back < log.live then
local head = sliding_log_first(log, function(i) return sliding_log_through(key, log, i) > back end)
log.head, log.runs = (log.head + head) % log.room, log.runs - head
end
log.before, log.live = log.before + back, log.live - back
end
local function sliding_log_shift_give_back(key, log, from, to, units)
while from <= to do
local place = (log.head + from) % log.room
local many = math.min(to - from + 1, log.room - place, 1000)
local text = redis.call('GETRANGE', key, 29 + 8 * place, 28 + 8 * (place + many))
local runs = {}
for i = 1, math.floor(#text / 8) do
local through = struct.unpack('>I3', text, 8 * i - 2)
runs[i] = string.sub(text, 8 * i - 7, 8 * i - 3) .. struct.pack('>I3', through + units)
end
redis.call('SETRANGE', key, 29 + 8 * place, table.concat(runs))
from = from + many
end
end
local function sliding_log_give_back(key, log, time, units)
local newest = log.runs - 1
local first = sliding_log_first(log, function(i) return i == newest or sliding_log_run(key, log, i) >= time end)
local at, through = sliding_log_run(key, log, first)
if at ~= time then return end
local before = first > 0 and sliding_log_through(key, log, first - 1) or 0
local back = math.min(units, (through - log.before) % 2 ^ 24 - before)
if 2 * first > newest then
sliding_log_shift_give_back(key, log, first, newest, -back)
log.last = log.last - back
else
sliding_log_shift_give_back(key, log, 0, first - 1, back)
log.before = log.before + back
end
log.live = log.live - back
while log.runs > 1 and sliding_log_through(key, log, log.runs - 2) == log.live do log.runs = log.runs - 1 end
log.newest = sliding_log_run(key, log, log.runs - 1)
end
local function sliding_log_adjust(key, p, units, mark, now)
local limit, window = p[1], p[2]
local log, err = sliding_log_read(key, p, now, true)
if not log then return nil, err end
local charged = math.max(0, math.min(units, 2 ^ 23 - log.live))
if charged > 0 then
local remaining, reset = sliding_log_commit(key, p, charged, now, log)
return remaining, reset, charged
end
if log.runs == 0 then return limit, 0, 0 end
if mark == 0 then
sliding_log_give_back_oldest(key, log, -units)
else
sliding_log_give_back(key, log, mark - window, -units)
end
if log.live == 0 then
redis.call('DEL', key)
return limit, 0, 0
end
redis.call('SETRANGE', key, 0, sliding_log_header(log))
redis.call('PEXPIREAT', key, log.newest + window)
return math.max(0, limit - log.live), log.newest + window - now, 0
end
`;
const sliding_window_1 = `local SLIDING_WINDOW_CODE = { [1] = 'B', [2] = 'H', [4] = 'I4', [8] = 'I8' }
`;
const sliding_window_2 = `local SLIDING_WINDOW_PAIR = { [1] = '>BB', [2] = '>HH', [4] = '>I4I4', [8] = '>I8I8' }
`;
const sliding_window_3 = `local SLIDING_WINDOW_HEAD = { [1] = '>I6BB', [2] = '>I6HH', [4] = '>I6I4I4', [8] = '>I6I8I8' }
`;
const sliding_window_4 = `local function sliding_window_width(units)
if units < 2 ^ 8 then return 1 end
if units < 2 ^ 16 then return 2 end
return units < 2 ^ 32 and 4 or 8
end
`;
const sliding_window_5 = `local function sliding_window_unpack(value, width, count, place)
return { struct.unpack('>' .. string.rep(SLIDING_WINDOW_CODE[width], count), value, place) }
end
local function sliding_window_oldest(value, width, count)
local units, place = 0, #value - width * count + 1
if count == 1 then return (struct.unpack('>' .. SLIDING_WINDOW_CODE[width], value, place)) end
local counters = sliding_window_unpack(value, width, count, place)
for i = 1, count do units = units + counters[i] end
return units
end
local function sliding_window_counters(value, p, passed)
local width = (#value - 6) / (p[3] + 2)
local later = string.rep('\\0', width * passed) .. string.sub(value, 7 + width)
return sliding_window_unpack(later, width, p[3] + 1, 1)
end
`;
const sliding_window_6 = `local function sliding_window_move(key, p, value, last, passed, total, cost)
local width = (#value - 6) / (p[3] + 2)
local start = last + passed * p[2]
local head = struct.pack(SLIDING_WINDOW_HEAD[width], start, total, cost)
if passed > 1 then head = head .. string.rep('\\0', width * (passed - 1)) end
headgate_set(key, head .. string.sub(value, 7 + width, -1 - width * passed), start + (p[3] + 1) * p[2])
end
local function sliding_window_begin(key, p, now, cost)
local width = sliding_window_width(cost)
local head = struct.pack(SLIDING_WINDOW_HEAD[width], now, cost, cost)
headgate_set(key, head .. string.rep('\\0', width * p[3]), now + (p[3] + 1) * p[2])
end
`;
const sliding_window_7 = `local function sliding_window_write(key, p, start, total, counters)
local skip, segments = 0, p[3]
while counters[skip + 1] == 0 and skip < segments do skip = skip + 1 end
for i = 1, segments + 1 do counters[i] = i + skip <= segments + 1 and counters[i + skip] or 0 end
start = start - skip * p[2]
local stop = start + (segments + 1) * p[2]
local width = sliding_window_width(total)
local format = '>I6' .. string.rep(SLIDING_WINDOW_CODE[width], segments + 2)
headgate_set(key, struct.pack(format, start, total, unpack(counters, 1, segments + 1)), stop)
return stop
end
`;
const sliding_window_8 = `local function sliding_window_read(key, p, now, writable)
local value = redis.pcall('GET', key)
if not value then return 0, 0 end
if type(value) == 'table' then return nil, value.err end
local segment, segments = p[2], p[3]
local width = (#value - 6) / (segments + 2)
local format = SLIDING_WINDOW_HEAD[width]
if not format then return 0, 0 end
local start, total = struct.unpack(format, value)
local age = now - start
if age >= (segments + 1) * segment then return 0, 0 end
if age < 0 then
start, value = now, struct.pack('>I6', now) .. string.sub(value, 7)
if writable then headgate_set(key, value, now + (segments + 1) * segment) end
elseif age >= segment then
total = math.max(0, total - sliding_window_oldest(value, width, math.floor(age / segment)))
end
return total, start, value
end
local function sliding_window_until(p, now, total, start, value, allowed)
local passed = math.floor((now - start) / p[2])
local counters = sliding_window_counters(value, p, 0)
for i = p[3] - passed, 0, -1 do
total = total - counters[i + 1]
if total <= allowed then return start + (p[3] + 1 - i) * p[2] - now end
end
return start + (p[3] + 1) * p[2] - now
end
local function sliding_window_look(key, p, cost, now, writable)
local limit = p[1]
local total, start, value = sliding_window_read(key, p, now, writable)
if not total then return nil, start end
local remaining = total < limit and limit - total or 0
local reset = value and start + (p[3] + 1) * p[2] - now or 0
if cost == 0 or total + cost <= limit then return 0, remaining, reset, total, start, value end
if cost > limit then return -1, remaining, reset end
return sliding_window_until(p, now, total, start, value, limit - cost), remaining, reset
end
`;
const sliding_window_9 = `local function sliding_window_commit(key, p, cost, now, total, start, value)
local segment, segments = p[2], p[3]
local life = (segments + 1) * segment
local sum = total + cost
if not value then
sliding_window_begin(key, p, now, cost)
return p[1] - sum, life
end
local passed = math.floor((now - start) / segment)
local width = (#value - 6) / (segments + 2)
if sum >= 256 ^ width then
local counters = sliding_window_counters(value, p, passed)
counters[1] = counters[1] + cost
sliding_window_write(key, p, start + passed * segment, sum, counters)
elseif passed == 0 then
local _, newest = struct.unpack(SLIDING_WINDOW_PAIR[width], value, 7)
redis.call('SETRANGE', key, '6', struct.pack(SLIDING_WINDOW_PAIR[width], sum, newest + cost))
if redis.call('PTTL', key) == -1 then headgate_heal(key, sliding_window_look, p) end
else
sliding_window_move(key, p, value, start, passed, sum, cost)
end
return p[1] - sum, start + passed * segment + life - now
end
local function sliding_window_charge(first, last, p, cost, _, now, reply, filled)
local limit, segment, segments = p[1], p[2], p[3]
local life = (segments + 1) * segment
if cost > limit then return first, filled end
local short = limit < 2 ^ 20 and life < 2 ^ 32
local value, size, width, head, pair, most
for request = first, last do
local key = KEYS[request]
value = redis.pcall('GET', key)
local age, total, wait = 0, cost, 0
if not value then
sliding_window_begin(key, p, now, cost)
elseif type(value) == 'table' then
return request, filled
else
if #value ~= size then
size = #value
width = (size - 6) / (segments + 2)
head, pair = SLIDING_WINDOW_HEAD[width], SLIDING_WINDOW_PAIR[width]
if not head then return request, filled end
most = 256 ^ width
end
local start, before, newest = struct.unpack(head, value)
age, total = now - start, before + cost
if age < 0 or age >= life then return request, filled end
local passed = 0
if age >= segment then
passed = math.floor(age / segment)
total = total - sliding_window_oldest(value, width, passed)
if total < cost then return request, filled end
end
if total > limit then
wait = sliding_window_until(p, now, total - cost, start, value, limit - cost)
else
if total >= most then return request, filled end
if passed == 0 then
redis.call('SETRANGE', key, '6', struct.pack(pair, total, newest + cost))
else
age = age - passed * segment
sliding_window_move(key, p, value, start, passed, total, cost)
end
end
if (wait > 0 or passed == 0) and redis.call('PTTL', key) == -1 then headgate_heal(key, sliding_window_look, p) end
end
if wait > 0 then
total = total - cost
filled = headgate_say(reply, filled, wait, total < limit and limit - total or 0, life - age)
value = nil
elseif short then
filled = filled + 1
reply[filled] = (life - age) * 2 ^ 20 + limit - total
else
filled = headgate_say(reply, filled, 0, limit - total, life - age)
end
end
return last + 1, filled, value
end
`;
const sliding_window_10 = `local function sliding_window_adjust(key, p, units, mark, now)
local limit, segment, segments = p[1], p[2], p[3]
local total, start, value = sliding_window_read(key, p, now, true)
if not total then return nil, start end
local counters = {}
if value then
local passed = math.floor((now - start) / segment)
counters, start = sliding_window_counters(value, p, passed), start + passed * segment
end
local charged = math.max(0, math.min(units, 2 ^ 52 - total))
if charged > 0 then
if not value then start = now end
counters[1], total = (counters[1] or 0) + charged, total + charged
elseif value then
local stop = start + (segments + 1) * segment
for i = segments + 1, 1, -1 do
if mark == 0 or mark == stop - (i - 1) * segment then
local back = math.min(counters[i], -units)
units, total, counters[i] = units + back, total - back, counters[i] - back
end
end
end
if total == 0 then
if value then redis.call('DEL', key) end
return limit, 0, charged
end
return math.max(0, limit - total), sliding_window_write(key, p, start, total, counters) - now, charged
end
`;

/** How each script begins, the algorithms of which it has those that it needs, and how it ends. */
export const lua = {
  adjust: {
    first: common_1 + common_2 + common_3 + common_5 + common_6 + common_7,
    algorithms: {
      calendar:
        calendar_1 +
        calendar_3 +
        `kernels['calendar'] = { params = 9, check = calendar_check, look = calendar_look, adjust = calendar_adjust }
`,
      concurrency:
        concurrency_1 +
        concurrency_3 +
        `kernels['concurrency'] = { params = 2, look = concurrency_look, adjust = concurrency_adjust }
`,
      'fixed-window':
        fixed_window_1 +
        fixed_window_3 +
        `kernels['fixed-window'] = { params = 2, look = fixed_window_look, adjust = fixed_window_adjust }
`,
      gcra:
        gcra_1 +
        gcra_3 +
        `kernels['gcra'] = { params = 5, drains = true, look = gcra_look, adjust = gcra_adjust }
`,
      'sliding-log':
        sliding_log_1 +
        sliding_log_2 +
        sliding_log_3 +
        `kernels['sliding-log'] = { params = 2, look = sliding_log_look, adjust = sliding_log_adjust }
`,
      'sliding-window':
        sliding_window_1 +
        sliding_window_3 +
        sliding_window_4 +
        sliding_window_5 +
        sliding_window_7 +
        sliding_window_8 +
        sliding_window_10 +
        `kernels['sliding-window'] = { params = 3, look = sliding_window_look, adjust = sliding_window_adjust }
`,
    },
    last:
      policies_1 +
      policies_2 +
      `local function read_history(key, stop)
local history = {}
local value = redis.call('GET', key)
if value and redis.call('PTTL', key) == -1 then redis.call('PEXPIREAT', key, stop) end
for number in string.gmatch(value or '', '%d+') do history[#history + 1] = tonumber(number) end
if #history % 2 ~= 1 then history = { 0 } end
return history
end
local function shift_of(history, charge)
for i = 2, #history, 2 do
if charge <= history[i] then return history[i + 1] end
end
return 0
end
local function split_history(history, at)
for i = 2, #history, 2 do
if history[i] == at then return end
if history[i] > at then
table.insert(history, i, history[i + 1])
table.insert(history, i, at)
return
end
end
history[#history + 1] = at
history[#history + 1] = 0
end
local function difference(history, i) return math.abs(history[i + 1] - history[i + 3]) end
local function write_history(key, history, charge, ticks, stop)
split_history(history, charge - 1)
split_history(history, step)
for i = 2, #history, 2 do
if history[i] >= charge then history[i + 1] = history[i + 1] + ticks end
end
while #history > 1 + 2 * 32 do
local least = 2
for i = 4, #history - 3, 2 do
if difference(history, i) < difference(history, least) then least = i end
end
history[least + 3] = math.max(history[least + 1], history[least + 3])
table.remove(history, least)
table.remove(history, least)
end
local numbers = {}
for i, number in ipairs(history) do numbers[i] = string.format('%.0f', number) end
headgate_set(key, table.concat(numbers, ' '), stop)
end
local policies, at = headgate_policies(2)
local reply = { step }
local filled = 1
for i, policy in ipairs(policies) do
local units, charge = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
local mark, life = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
at = at + 4
local returns = units < 0 and charge > 0
local history = returns and read_history(KEYS[#policies + i], now + life)
if history and history[1] >= charge then units = 0 end
if redis.call('PTTL', KEYS[i]) == -1 then headgate_heal(KEYS[i], policy.look, policy) end
local remaining, reset, changed
if units == 0 then
local wait
wait, remaining, reset = policy.look(KEYS[i], policy, 0, now, false)
if not wait then return redis.error_reply(remaining) end
else
local shift = history and policy.drains and shift_of(history, charge) or 0
local time = math.floor(charge / 1000)
remaining, reset, changed = policy.adjust(KEYS[i], policy, units, mark, now, time, shift)
if not remaining then return redis.error_reply(reset) end
if history and policy.drains and changed > 0 then
write_history(KEYS[#policies + i], history, charge, changed, now + life)
end
end
reply[filled + 1] = units > 0 and changed or 0
filled = headgate_say(reply, filled + 1, 0, remaining, reset)
end
return reply
`,
  },
  check: {
    first: common_1,
    algorithms: {},
    last: `local key = KEYS[1]
local reply = { now }
local function try(name, ...)
local answer = redis.pcall(name, ...)
local words = type(answer) == 'table' and answer.err
if words and not string.find(words, '^ERR value is not') then
reply[#reply + 1], reply[#reply + 2] = name, words
end
end
try('GET', key)
try('SET', key, '0', 'XX', 'PX', '1000')
try('DEL', key)
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
`,
  },
  count: {
    first: common_1 + common_4,
    algorithms: {},
    last: `return headgate_bounded(function()
redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[3], '*', 'counts', ARGV[2])
redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', now + ARGV[4]))
return 1
end)
`,
  },
  'evaluate-single': {
    first: common_1 + common_2 + common_3 + common_7,
    algorithms: {
      calendar:
        calendar_1 +
        calendar_2 +
        `local kernel_params, kernel_look, kernel_commit, kernel_charge = 9, calendar_look, calendar_commit, nil
`,
      concurrency:
        concurrency_1 +
        concurrency_2 +
        `local kernel_params, kernel_look, kernel_commit, kernel_charge = 2, concurrency_look, concurrency_commit, nil
`,
      'fixed-window':
        fixed_window_1 +
        fixed_window_2 +
        `local kernel_params, kernel_look, kernel_commit, kernel_charge = 2, fixed_window_look, fixed_window_commit, fixed_window_charge
`,
      gcra:
        gcra_1 +
        gcra_2 +
        `local kernel_params, kernel_look, kernel_commit, kernel_charge = 5, gcra_look, gcra_commit, gcra_charge
`,
      'sliding-log':
        sliding_log_1 +
        sliding_log_2 +
        `local kernel_params, kernel_look, kernel_commit, kernel_charge = 2, sliding_log_look, sliding_log_commit, nil
`,
      'sliding-window':
        sliding_window_1 +
        sliding_window_2 +
        sliding_window_3 +
        sliding_window_4 +
        sliding_window_5 +
        sliding_window_6 +
        sliding_window_7 +
        sliding_window_8 +
        sliding_window_9 +
        `local kernel_params, kernel_look, kernel_commit, kernel_charge = 3, sliding_window_look, sliding_window_commit, sliding_window_charge
`,
    },
    last: `local params = {}
for i = 1, kernel_params do params[i] = tonumber(ARGV[1 + i]) end
local at = 2 + kernel_params
local reply = { step, nil }
local filled = 1
local text, cost, writable = '1', 1, true
local request, requests = 1, #KEYS
local alike = not ARGV[at + 1]
while request <= requests do
if ARGV[at] then
text, cost = ARGV[at], tonumber(ARGV[at])
if cost < 0 then cost, writable = -1 - cost, false end
at = at + 1
end
local last = alike and requests or request
if kernel_charge and writable and cost > 0 then
request, filled = kernel_charge(request, last, params, cost, text, now, reply, filled)
end
if request <= last then
local key = KEYS[request]
local wait, remaining, reset, a, b, c = kernel_look(key, params, cost, now, writable)
if writable and cost > 0 and wait and (wait == 0 or wait < -1) then
remaining, reset = kernel_commit(key, params, cost, now, a, b, c)
elseif writable and redis.call('PTTL', key) == -1 then
headgate_heal(key, kernel_look, params)
end
if wait then
filled = headgate_say(reply, filled, wait, remaining, reset)
else
reply[filled + 1] = remaining
filled = filled + 1
end
request = request + 1
end
end
return reply
`,
  },
  evaluate: {
    first: common_1 + common_2 + common_3 + common_5 + common_6 + common_7,
    algorithms: {
      ban:
        ban_1 +
        ban_2 +
        `ban = { params = 5, look = ban_look, strike = ban_strike }
`,
      calendar:
        calendar_1 +
        calendar_2 +
        calendar_3 +
        `kernels['calendar'] = { params = 9, check = calendar_check, look = calendar_look, commit = calendar_commit, adjust = calendar_adjust }
`,
      concurrency:
        concurrency_1 +
        concurrency_2 +
        concurrency_3 +
        concurrency_4 +
        `kernels['concurrency'] = { params = 2, look = concurrency_look, commit = concurrency_commit, adjust = concurrency_adjust, release = concurrency_release }
`,
      'fixed-window':
        fixed_window_1 +
        fixed_window_2 +
        fixed_window_3 +
        `kernels['fixed-window'] = { params = 2, look = fixed_window_look, commit = fixed_window_commit, charge = fixed_window_charge, adjust = fixed_window_adjust }
`,
      gcra:
        gcra_1 +
        gcra_2 +
        gcra_3 +
        `kernels['gcra'] = { params = 5, drains = true, look = gcra_look, commit = gcra_commit, charge = gcra_charge, adjust = gcra_adjust }
`,
      'sliding-log':
        sliding_log_1 +
        sliding_log_2 +
        sliding_log_3 +
        `kernels['sliding-log'] = { params = 2, look = sliding_log_look, commit = sliding_log_commit, adjust = sliding_log_adjust }
`,
      'sliding-window':
        sliding_window_1 +
        sliding_window_2 +
        sliding_window_3 +
        sliding_window_4 +
        sliding_window_5 +
        sliding_window_6 +
        sliding_window_7 +
        sliding_window_8 +
        sliding_window_9 +
        sliding_window_10 +
        `kernels['sliding-window'] = { params = 3, look = sliding_window_look, commit = sliding_window_commit, charge = sliding_window_charge, adjust = sliding_window_adjust }
`,
    },
    last:
      policies_1 +
      policies_2 +
      `local policies, at = headgate_policies(2)
local banning
local strikes = 0
if ban then
banning, at = headgate_params(ban, at)
strikes = 1
end
local count = #policies
local attempts = false
local outright = not policies.slots
for i = 1, count do
attempts = attempts or policies[i].attempts
outright = outright and policies[i].charge
end
local stride = count + strikes
local requests = #KEYS / stride
local leases = policies.slots and #ARGV - requests
local costs = (leases or #ARGV) - at + 1
local wait, remaining, reset, a, b, c = {}, {}, {}, {}, {}, {}
local reply = { step }
local admitted
local function admits(i) return wait[i] == 0 or wait[i] < -1 end
local function charges(i) return admits(i) and (admitted or policies[i].attempts) end
local function undo(base, last, cost, lease)
for i = 1, last do
local key, policy = KEYS[base + i], policies[i]
if policy.release then
pcall(policy.release, key, policy, lease, cost, now)
elseif charges(i) then
pcall(policy.adjust, key, policy, -cost, now + reset[i], now, now, 0)
end
end
end
local function run_plainly(commit, ...) return true, commit(...) end
local function charge(base, cost, lease)
local written = false
for i = 1, count do
if charges(i) then
local key, commit = KEYS[base + i], policies[i].commit
local run = written and pcall or run_plainly
local done, left, after = run(commit, key, policies[i], cost, now, a[i], b[i], c[i], lease)
if not done then
undo(base, i - 1, cost, lease)
return type(left) == 'table' and left.err or left
end
remaining[i], reset[i], written = left, after, true
end
end
end
local function look_again(base, cost)
for i = 1, count do
if charges(i) then
wait[i], remaining[i], reset[i] = policies[i].look(KEYS[base + i], policies[i], cost, now, false)
if wait[i] ~= 0 then wait[i] = -1 - wait[i] end
end
end
end
local function charge_outright(base, cost, text, filled)
local to = filled
for i = 1, count do
local place, policy, from = base + i, policies[i], to
local run, ran, after = i > 1 and pcall or run_plainly
ran, after, to, a[i] = run(policy.charge, place, place, policy, cost, text, now, reply, from)
if not ran or after == place or a[i] == nil and not policy.shadow then
for n = 1, i - 1 do
local key, before = KEYS[base + n], a[n]
if before then
redis.call('SET', key, before)
headgate_heal(key, policies[n].look, policies[n])
elseif before == false then
redis.call('DEL', key)
end
end
for n = #reply, filled + 1, -1 do reply[n] = nil end
outright = false
return nil
end
end
return to
end
local cost, text, writable = 1, '1', true
local filled = 1
for request = 0, requests - 1 do
local base = request * stride + strikes
if costs > request then
text = ARGV[at + request]
cost = tonumber(text)
if cost < 0 then cost, writable = -1 - cost, false end
end
local lease = leases and ARGV[leases + request + 1]
local err, banned, state
local charged = false
if ban then
banned, state = ban.look(KEYS[base], banning, now, writable)
if not banned then err = state end
reply[filled + 1] = banned
end
local free = not err and (not banned or banned == 0)
local to = free and outright and writable and cost > 0 and charge_outright(base, cost, text, filled + strikes)
if to then
filled = to
else
if free then
admitted = true
for i = 1, count do
local policy = policies[i]
wait[i], remaining[i], reset[i], a[i], b[i], c[i] = policy.look(KEYS[base + i], policy, cost, now, writable)
if not wait[i] then
err = remaining[i]
break
end
if not admits(i) and not policy.shadow then admitted = false end
end
if not err and writable then
if not admitted and ban then banned = -ban.strike(KEYS[base], banning, now, state) end
if cost > 0 and (admitted or attempts) then
err = charge(base, cost, lease)
charged = not err
end
if cost > 0 and attempts and not admitted and not err then look_again(base, cost) end
end
end
for i = 1, writable and count or 0 do
local key, policy = KEYS[base + i], policies[i]
if not (charged and charges(i)) and redis.call('PTTL', key) == -1 then headgate_heal(key, policy.look, policy) end
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
end
return reply
`,
  },
  lease: {
    first: common_1 + common_2 + common_3 + common_6,
    algorithms: {
      calendar:
        calendar_1 +
        `kernels['calendar'] = { params = 9, look = calendar_look }
`,
      concurrency:
        concurrency_1 +
        concurrency_4 +
        concurrency_5 +
        `kernels['concurrency'] = { params = 2, look = concurrency_look, release = concurrency_release, renew = concurrency_renew }
`,
      'fixed-window':
        fixed_window_1 +
        `kernels['fixed-window'] = { params = 2, look = fixed_window_look }
`,
      gcra:
        gcra_1 +
        `kernels['gcra'] = { params = 5, drains = true, look = gcra_look }
`,
      'sliding-log':
        sliding_log_1 +
        `kernels['sliding-log'] = { params = 2, look = sliding_log_look }
`,
      'sliding-window':
        sliding_window_1 +
        sliding_window_3 +
        sliding_window_5 +
        sliding_window_8 +
        `kernels['sliding-window'] = { params = 3, look = sliding_window_look }
`,
    },
    last:
      policies_1 +
      policies_2 +
      `local policies = headgate_policies(5)
local held = 1
for i, policy in ipairs(policies) do
if redis.call('PTTL', KEYS[i]) == -1 then headgate_heal(KEYS[i], policy.look, policy) end
local still, err = policy[ARGV[2]](KEYS[i], policy, ARGV[3], tonumber(ARGV[4]), now)
if not still then return redis.error_reply(err) end
held = math.min(held, still)
end
return held
`,
  },
  'note-bans': {
    first: common_1 + common_4,
    algorithms: {},
    last: `return headgate_bounded(function()
local over = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 1000)
if #over > 0 then
redis.call('ZREM', KEYS[1], unpack(over))
redis.call('HDEL', KEYS[2], unpack(over))
end
local most = tonumber(ARGV[2])
local room = most - redis.call('ZCOUNT', KEYS[1], '-inf', '+inf')
local left_out, logged = 0, false
for at = 5, #ARGV, 4 do
local who, length, note, entry = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2], ARGV[at + 3]
local known = redis.call('ZSCORE', KEYS[1], who)
if length == 0 then
redis.call('ZREM', KEYS[1], who)
redis.call('HDEL', KEYS[2], who)
elseif known or room > 0 then
if not known then room = room - 1 end
redis.call('ZADD', KEYS[1], string.format('%.0f', now + length), who)
if note == '-' then redis.call('HDEL', KEYS[2], who) elseif note ~= '' then redis.call('HSET', KEYS[2], who, note) end
else
left_out = left_out + 1
end
if entry ~= '' then
redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[3], '*', 'entry', entry)
logged = true
end
end
local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')
for i = 1, 2 do
if last[2] then redis.call('PEXPIREAT', KEYS[i], last[2]) end
end
if left_out > 0 then redis.call('DEL', KEYS[4]) end
if logged then redis.call('PEXPIREAT', KEYS[3], string.format('%.0f', now + ARGV[4])) end
return left_out
end)
`,
  },
  publish: {
    first: common_1 + common_2 + common_4,
    algorithms: {},
    last: `return headgate_bounded(function()
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if ARGV[3] == '' then
redis.call('ZREM', KEYS[1], ARGV[2])
redis.call('DEL', KEYS[2])
return 1
end
local others = redis.call('ZCOUNT', KEYS[1], '-inf', '+inf')
if others >= tonumber(ARGV[5]) and not redis.call('ZSCORE', KEYS[1], ARGV[2]) then return 0 end
local stop = now + ARGV[4]
headgate_set(KEYS[2], ARGV[3], stop)
redis.call('ZADD', KEYS[1], string.format('%.0f', stop), ARGV[2])
redis.call('PEXPIREAT', KEYS[1], redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2])
return 1
end)
`,
  },
  reset: {
    first: common_1 + common_2,
    algorithms: {},
    last: `local count = #ARGV - 1
for i = 1, count do
local life = math.max(redis.call('PTTL', KEYS[i]), tonumber(ARGV[1 + i]))
if life > 0 then headgate_set(KEYS[count + i], string.format('%.0f', step), now + life) end
redis.call('DEL', KEYS[i])
end
return 1
`,
  },
  'seal-bans': {
    first: common_1 + common_2 + common_4,
    algorithms: {},
    last: `return headgate_bounded(function()
local seal, index, token = KEYS[1], KEYS[2], ARGV[2]
if not token then return redis.call('DEL', seal) end
local found = redis.call('GET', seal)
if ARGV[4] ~= 'whole' then
if found == 'whole' and redis.call('ZSCORE', index, '') then return 0 end
redis.call('SET', seal, token, 'PX', ARGV[3])
return 1
end
if found ~= token then return 0 end
local stop = now + ARGV[3]
headgate_set(seal, 'whole', stop)
redis.call('ZADD', index, string.format('%.0f', stop), '')
redis.call('PEXPIREAT', index, redis.call('ZREVRANGE', index, 0, 0, 'WITHSCORES')[2])
return 1
end)
`,
  },
  'set-ban': {
    first: common_1 + common_2 + common_6,
    algorithms: {
      ban:
        ban_1 +
        ban_3 +
        `ban = { params = 5, set = ban_set }
`,
    },
    last:
      policies_1 +
      `local err = ban.set(KEYS[1], headgate_params(ban, 3), now, tonumber(ARGV[2]))
if err then return redis.error_reply(err) end
return 1
`,
  },
};
