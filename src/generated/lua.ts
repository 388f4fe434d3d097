// Generated from the .lua files by npm run lua:build: edit those.
export const lua = {
  adjust: `local policies, at = headgate_policies(3)
local units = tonumber(ARGV[2])
local reply = { now }
local filled = 1
for i, policy in ipairs(policies) do
local remaining, reset = policy.adjust(KEYS[i], policy, units, tonumber(ARGV[at + i - 1]), now)
if not remaining then return redis.error_reply(reset) end
filled = headgate_say(reply, filled, 0, remaining, reset)
end
return reply
`,
  ban: `local ban = { params = 5 }
local function ban_write(key, p, now, state)
local stop = math.max(state[2], state[3] + (state[5] > 0 and p[5] or 0))
if stop <= now then
redis.call('DEL', key)
else
redis.call('SET', key, string.format('%.0f %.0f %.0f %.0f %.0f', unpack(state)), 'PXAT', stop)
end
end
local function ban_read(key, p, now, writable)
local value = redis.pcall('GET', key)
if not value then return { 0, 0, 0, 0, 0 } end
if type(value) == 'table' then return nil, value.err end
local denials, counted, banned, length, last = string.match(value, '^(%d+) (%d+) (%d+) (%d+) (%d+)$')
local stop = redis.call('PEXPIRETIME', key)
if not denials or stop <= now or tonumber(length) > 366 * 86400000 then
if writable and stop == -1 then redis.call('DEL', key) end
return { 0, 0, 0, 0, 0 }
end
local state = { tonumber(denials), tonumber(counted), tonumber(banned), tonumber(length), tonumber(last) }
if state[2] > now + p[2] or state[3] > now + state[4] then
state[2], state[3] = math.min(state[2], now + p[2]), math.min(state[3], now + state[4])
if writable then ban_write(key, p, now, state) end
end
if state[2] <= now then state[1], state[2] = 0, 0 end
if state[3] + p[5] <= now then state[5] = 0 end
return state
end
function ban.look(key, p, now, writable)
local state, err = ban_read(key, p, now, writable)
if not state then return nil, err end
return math.max(0, state[3] - now), state
end
function ban.strike(key, p, now, state)
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
function ban.set(key, p, now, length)
local state, err = ban_read(key, p, now, true)
if not state then return err end
if length == 0 then
redis.call('DEL', key)
else
state[3], state[4] = now + length, length
ban_write(key, p, now, state)
end
end
`,
  check: `local key = KEYS[1]
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
try('DECRBY', key, 'x')
try('GETRANGE', key, '0', '0')
try('SETRANGE', key, '0', '')
try('PEXPIREAT', key, '1')
try('PEXPIRETIME', key)
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
  common: `local deadline = tonumber(ARGV[1])
local now = -deadline
if deadline >= 0 then
local time = redis.call('TIME')
now = time[1] * 1000 + math.floor(time[2] / 1000)
if now > deadline then error({ err = string.format('HEADGATE_LATE %.0f', now) }) end
end
local function headgate_say(reply, filled, wait, remaining, reset)
if wait == 0 and remaining < 2 ^ 20 and reset < 2 ^ 32 then
reply[filled + 1] = reset * 2 ^ 20 + remaining
return filled + 1
end
reply[filled + 1], reply[filled + 2], reply[filled + 3], reply[filled + 4] = -1, wait, remaining, reset
return filled + 4
end
`,
  concurrency: `local concurrency = { params = 2 }
local function concurrency_read(key, p, now, writable)
local lease = p[2]
local stop = redis.call('PEXPIRETIME', key)
if stop == -2 then return 0, 0 end
local held = redis.pcall('ZCOUNT', key, string.format('(%.0f', now), '+inf')
if type(held) == 'table' then return nil, held.err end
if stop <= now or held == 0 then
if writable and stop == -1 then redis.call('DEL', key) end
return 0, 0
end
if stop > now + lease then
stop = now + lease
if writable then
for _, member in ipairs(redis.call('ZRANGEBYSCORE', key, string.format('(%.0f', stop), '+inf')) do
redis.call('ZADD', key, stop, member)
end
redis.call('PEXPIREAT', key, stop)
end
end
return held, stop
end
function concurrency.look(key, p, cost, now, writable)
local limit = p[1]
local held, stop = concurrency_read(key, p, now, writable)
if not held then return nil, stop end
local wait = 0
if cost > limit then
wait = -1
elseif cost > 0 and held + cost > limit then
local from, nth = string.format('(%.0f', now), held + cost - limit - 1
local last = redis.call('ZRANGEBYSCORE', key, from, '+inf', 'WITHSCORES', 'LIMIT', nth, 1)
wait = math.min(stop, tonumber(last[2])) - now
end
return wait, held < limit and limit - held or 0, stop == 0 and 0 or stop - now, held, stop
end
function concurrency.commit(key, p, cost, now, held, _, _, id)
local till = now + p[2]
redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
for i = 1, cost do redis.call('ZADD', key, till, id .. ':' .. i) end
redis.call('PEXPIREAT', key, till)
return p[1] - held - cost, p[2]
end
function concurrency.adjust(key, p, _, _, now)
local held, stop = concurrency_read(key, p, now, true)
if not held then return nil, stop end
return math.max(0, p[1] - held), stop == 0 and 0 or stop - now
end
local function concurrency_holds(key, p, id, now)
local held, err = concurrency_read(key, p, now, true)
if not held then return nil, err end
local stop = held > 0 and redis.call('ZSCORE', key, id .. ':1')
return stop and tonumber(stop) > now and 1 or 0
end
function concurrency.release(key, p, id, units, now)
local held, err = concurrency_holds(key, p, id, now)
if held == 1 then
for i = 1, units do redis.call('ZREM', key, id .. ':' .. i) end
local last = redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')
if last[2] then redis.call('PEXPIREAT', key, last[2]) end
end
return held, err
end
function concurrency.renew(key, p, id, units, now)
local held, err = concurrency_holds(key, p, id, now)
if held == 1 then
local till = now + p[2]
for i = 1, units do redis.call('ZADD', key, till, id .. ':' .. i) end
redis.call('PEXPIREAT', key, till)
end
return held, err
end
`,
  evaluate: `local policies, at = headgate_policies(2)
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
`,
  'evaluate-single': `local params = {}
for i = 1, page_params do params[i] = tonumber(ARGV[1 + i]) end
local at = 2 + page_params
local reply = { now, nil }
local filled = 1
local text, cost, writable = '1', 1, true
local request, requests = 1, #KEYS
local alike = not ARGV[at + 1]
local tested = deadline < 0
while request <= requests do
if ARGV[at] then
text, cost = ARGV[at], tonumber(ARGV[at])
if cost < 0 then cost, writable = -1 - cost, false end
at = at + 1
end
local last = alike and requests or request
if page_charge and writable and cost > 0 then
request, filled = page_charge(request, last, params, cost, text, now, tested, reply, filled)
end
if request <= last then
local key = KEYS[request]
local wait, remaining, reset, a, b, c = page_look(key, params, cost, now, writable)
if writable and cost > 0 and wait and (wait == 0 or wait < -1) then
remaining, reset = page_commit(key, params, cost, now, a, b, c)
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
  'fixed-window': `local fixed_window = { params = 2 }
local function fixed_window_packs(p, used)
return p[1] < 2 ^ 20 and p[2] < 2 ^ 30 and used < 2 ^ 21
end
local function fixed_window_write(key, p, used, stop)
local value = fixed_window_packs(p, used) and used - stop % 2 ^ 31 * 2 ^ 22 or used
redis.call('SET', key, value, 'PXAT', stop)
end
local function fixed_window_read(key, p, now, writable)
local value = redis.pcall('GET', key)
if not value then return 0, 0 end
if type(value) == 'table' then return nil, value.err end
local used = tonumber(value)
if used and used < 0 and used > -2 ^ 53 then used = used % 2 ^ 22 end
local stop = redis.call('PEXPIRETIME', key)
if stop <= now or not (used and used >= 0 and used < 2 ^ 53) then
if writable and stop == -1 then redis.call('DEL', key) end
return 0, 0
end
if stop > now + p[2] then
stop = now + p[2]
if writable then fixed_window_write(key, p, used, stop) end
end
return used, stop
end
function fixed_window.look(key, p, cost, now, writable)
local limit = p[1]
local used, stop = fixed_window_read(key, p, now, writable)
if not used then return nil, stop end
local wait = 0
if cost > 0 and used + cost > limit then wait = cost > limit and -1 or stop - now end
return wait, used < limit and limit - used or 0, stop == 0 and 0 or stop - now, used, stop
end
function fixed_window.commit(key, p, cost, now, used, stop)
if stop == 0 then
fixed_window_write(key, p, cost, now + p[2])
return p[1] - cost, p[2]
end
local charged = used + cost < 2 ^ 21 and redis.pcall('INCRBY', key, cost)
if type(charged) ~= 'number' then fixed_window_write(key, p, used + cost, stop) end
return p[1] - used - cost, stop - now
end
function fixed_window.charge(first, last, p, cost, text, now, tested, reply, filled)
local limit, window = p[1], p[2]
if cost > limit or not fixed_window_packs(p, 0) then return first, filled end
for request = first, last do
local key = KEYS[request]
local value = redis.pcall('INCRBY', key, text)
if type(value) == 'table' then return request, filled end
if value == cost then
fixed_window_write(key, p, cost, now + window)
filled = headgate_say(reply, filled, 0, limit - cost, window)
else
local used = value % 2 ^ 22
local reset = value < 0 and ((used - value) / 2 ^ 22 - now) % 2 ^ 31 or 0
if tested and redis.call('PEXPIRETIME', key) ~= now + reset then reset = 0 end
if reset > 0 and reset <= window and used <= limit then
filled = filled + 1
reply[filled] = reset * 2 ^ 20 + limit - used
else
redis.call('DECRBY', key, text)
if reset == 0 or reset > window then return request, filled end
local before = used - cost
filled = headgate_say(reply, filled, reset, before < limit and limit - before or 0, reset)
end
end
end
return last + 1, filled
end
function fixed_window.adjust(key, p, units, mark, now)
local limit = p[1]
local used, stop = fixed_window_read(key, p, now, true)
if not used then return nil, stop end
if units > 0 then
if stop == 0 then stop = now + p[2] end
used = math.max(used, math.min(used + units, 2 * limit))
elseif stop ~= 0 and (mark == 0 or mark == stop) then
used = math.max(0, used + units)
end
if used == 0 then
if stop ~= 0 then redis.call('DEL', key) end
return limit, 0
end
fixed_window_write(key, p, used, stop)
return math.max(0, limit - used), stop - now
end
`,
  gcra: `local gcra = { params = 5 }
local function gcra_write(key, p, now, backlog)
local scale = p[1]
local reset = math.ceil(backlog / scale)
redis.call('SET', key, reset * scale - backlog, 'PXAT', now + reset)
return reset
end
local function gcra_read(key, p, now, writable)
local value = redis.pcall('GET', key)
if not value then return 0 end
if type(value) == 'table' then return nil, value.err end
local scale = p[1]
local stop = redis.call('PEXPIRETIME', key)
if stop <= now then
if writable and stop == -1 then redis.call('DEL', key) end
return 0
end
local part = tonumber(value)
if not (part and part >= 0 and part < scale) then part = 0 end
local backlog = math.max(0, (stop - now) * scale - part)
if backlog > p[5] then
backlog = p[5]
if writable then gcra_write(key, p, now, backlog) end
end
return backlog
end
function gcra.look(key, p, cost, now, writable)
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
function gcra.commit(key, p, cost, now, backlog)
backlog = backlog + cost * p[2]
local reset = gcra_write(key, p, now, backlog)
return math.max(0, math.floor((p[3] - backlog) / p[2])), reset
end
function gcra.adjust(key, p, units, mark, now)
local backlog, err = gcra_read(key, p, now, true)
if not backlog then return nil, err end
if units > 0 then
backlog = math.min(backlog + units * p[2], p[5])
else
local back = -units * p[2]
if mark > 0 then back = math.max(0, math.min(back, (mark - now) * p[1])) end
backlog = math.max(0, backlog - back)
end
if backlog == 0 then
redis.call('DEL', key)
return math.floor(p[3] / p[2]), 0
end
local reset = gcra_write(key, p, now, backlog)
return math.max(0, math.floor((p[3] - backlog) / p[2])), reset
end
`,
  lease: `local policies = headgate_policies(5)
local held = 1
for i, policy in ipairs(policies) do
local still, err = concurrency[ARGV[2]](KEYS[i], policy, ARGV[3], tonumber(ARGV[4]), now)
if not still then return redis.error_reply(err) end
held = math.min(held, still)
end
return held
`,
  policies: `local function headgate_params(page, at)
local params = {}
for i = 1, page.params do params[i] = tonumber(ARGV[at + i - 1]) end
return params, at + page.params
end
local function headgate_policies(at)
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
return policies, at
end
`,
  reset: `return redis.call('DEL', unpack(KEYS))
`,
  'set-ban': `local err = ban.set(KEYS[1], headgate_params(ban, 3), now, tonumber(ARGV[2]))
if err then return redis.error_reply(err) end
return 1
`,
  'sliding-log': `local sliding_log = { params = 2 }
local function sliding_log_pack(time)
return string.sub(struct.pack('>I8', time), 3)
end
local function sliding_log_time(key, capacity, i)
local at = 20 + 6 * (i % capacity)
local slot = redis.call('GETRANGE', key, at, at + 5)
return #slot == 6 and (struct.unpack('>I8', '\\0\\0' .. slot)) or 0
end
local function sliding_log_header(p, next, live, newest)
return struct.pack('>I4I4I4I8', p[1], next, live, newest)
end
local function sliding_log_rebuild(key, p, now, writable, capacity, next, live)
local limit, window = p[1], p[2]
local value = redis.call('GET', key)
if capacity < 1 or next >= capacity or live > capacity or live > (#value - 20) / 6 then return 0, 0, 0 end
local all = {}
for i = next - live, next - 1 do
local at = 21 + 6 * (i % capacity)
local slot = string.sub(value, at, at + 5)
local time = #slot == 6 and (struct.unpack('>I8', '\\0\\0' .. slot)) or 0
if time + window > now then all[#all + 1] = math.min(now, time) end
end
local times, slots = {}, {}
for i = math.max(1, #all - limit + 1), #all do
times[#times + 1] = all[i]
slots[#slots + 1] = sliding_log_pack(all[i])
end
if #times == 0 then return 0, 0, 0 end
local newest = times[#times]
next = #times % limit
if writable then
redis.call('SET', key, sliding_log_header(p, next, #times, newest) .. table.concat(slots), 'PXAT', newest + window)
end
return next, #times, newest, times
end
local function sliding_log_read(key, p, now, writable)
local limit, window = p[1], p[2]
local header = redis.pcall('GETRANGE', key, 0, 19)
if type(header) == 'table' then return nil, header.err end
local stop = redis.call('PEXPIRETIME', key)
if stop <= now or #header < 20 then
if writable and stop == -1 then redis.call('DEL', key) end
return 0, 0, 0
end
local capacity, next, live, newest = struct.unpack('>I4I4I4I8', header)
local times
if capacity ~= limit or newest > now or next >= limit or live > limit then
next, live, newest, times = sliding_log_rebuild(key, p, now, writable, capacity, next, live)
stop = newest + window
end
if live == 0 or newest + window <= now then return 0, 0, 0 end
local function counts(i)
local time = times and times[#times - live + i + 1] or sliding_log_time(key, limit, next - live + i)
return time + window > now
end
if not counts(0) then
local first, last = 1, live - 1
while first < last do
local middle = math.floor((first + last) / 2)
if counts(middle) then last = middle else first = middle + 1 end
end
live = live - first
end
return next, live, math.min(stop, newest + window), newest, times
end
function sliding_log.look(key, p, cost, now, writable)
local limit, window = p[1], p[2]
local next, live, stop, _, times = sliding_log_read(key, p, now, writable)
if not next then return nil, live end
local wait = 0
if cost > limit then
wait = -1
elseif cost > 0 and live + cost > limit then
local leaving = live + cost - limit
local time = times and times[#times - live + leaving] or sliding_log_time(key, limit, next - live + leaving - 1)
wait = math.min(stop, time + window) - now
end
return wait, limit - live, live == 0 and 0 or stop - now, next, live
end
function sliding_log.commit(key, p, cost, now, next, live)
local limit, window = p[1], p[2]
local slot = sliding_log_pack(now)
if live == 0 then
local header = sliding_log_header(p, cost % limit, cost, now)
redis.call('SET', key, header .. string.rep(slot, cost), 'PXAT', now + window)
return limit - cost, window
end
local straight = math.min(cost, limit - next)
redis.call('SETRANGE', key, 20 + 6 * next, string.rep(slot, straight))
if straight < cost then redis.call('SETRANGE', key, 20, string.rep(slot, cost - straight)) end
live = math.min(limit, live + cost)
redis.call('SETRANGE', key, 0, sliding_log_header(p, (next + cost) % limit, live, now))
redis.call('PEXPIREAT', key, now + window)
return limit - live, window
end
function sliding_log.adjust(key, p, units, mark, now)
local limit = p[1]
local next, live, stop, newest = sliding_log_read(key, p, now, true)
if not next then return nil, live end
if units > 0 then return sliding_log.commit(key, p, math.min(units, limit), now, next, live) end
if live > 0 and (mark == 0 or mark > now) then
live = math.max(0, live + units)
if live == 0 then
redis.call('DEL', key)
else
redis.call('SETRANGE', key, 0, sliding_log_header(p, next, live, newest))
end
end
return limit - live, live == 0 and 0 or stop - now
end
`,
  'sliding-window': `local sliding_window = { params = 4 }
local SLIDING_WINDOW_FORMAT = { [1] = '>B', [2] = '>H', [4] = '>I4', [8] = '>I8' }
local function sliding_window_write(key, p, total, stop, older, newest)
local format, skip = SLIDING_WINDOW_FORMAT[p[4]], 0
while newest == 0 and skip < p[3] do
skip = skip + 1
newest = older[skip] or 0
end
local parts = { struct.pack('>BI4', p[4], p[2]), struct.pack(format, total) }
for i = 1, p[3] do parts[i + 2] = struct.pack(format, older[i + skip] or 0) end
stop = stop - skip * p[2]
redis.call('SET', key, table.concat(parts), 'PXAT', stop)
return stop
end
local function sliding_window_older(value, width, segments)
local format = SLIDING_WINDOW_FORMAT[width]
local older, sum = {}, 0
for i = 1, segments do
local count = struct.unpack(format, value, 6 + width * i)
older[i], sum = count, sum + count
end
return older, sum
end
local function sliding_window_read(key, p, now, writable)
local value = redis.pcall('GET', key)
if not value then return 0, 0, {}, 0 end
if type(value) == 'table' then return nil, value.err end
local limit, segment, segments, width = p[1], p[2], p[3], p[4]
local life = (segments + 1) * segment
local stop = redis.call('PEXPIRETIME', key)
local w, s = 0, 0
if #value > 5 then w, s = struct.unpack('>BI4', value) end
local n = SLIDING_WINDOW_FORMAT[w] and (#value - 5) / w - 1 or 0
if stop <= now or s == 0 or n < 1 or n > 100 or n % 1 ~= 0 then
if writable and stop == -1 then redis.call('DEL', key) end
return 0, 0, {}, 0
end
local total = struct.unpack(SLIDING_WINDOW_FORMAT[w], value, 6)
local heal = s ~= segment or n ~= segments or w ~= width
local start = stop - (n + 1) * s
if not heal and start <= now and now < start + segment then return total, stop, nil, value end
local older, sum = sliding_window_older(value, w, n)
local newest = math.max(0, total - sum)
if start > now then start, heal = now, true end
if s ~= segment then
for i = 1, n - math.floor((now - start) / s) do newest = newest + older[i] end
older, start = {}, now
end
local passed = math.floor((now - start) / segment)
local shifted, room = {}, 2 * limit
for i = 0, segments do
local from = i - passed
local count = math.min(room, from == 0 and newest or older[from] or 0)
shifted[i], room = count, room - count
end
total, newest, shifted[0] = 2 * limit - room, shifted[0], nil
if total == 0 then return 0, 0, {}, 0 end
stop = start + passed * segment + life
if heal and writable then sliding_window_write(key, p, total, stop, shifted, newest) end
return total, stop, shifted, newest
end
local function sliding_window_until(p, now, total, stop, older, allowed)
for i = p[3], 1, -1 do
total = total - (older[i] or 0)
if total <= allowed then return stop - i * p[2] - now end
end
return stop - now
end
function sliding_window.look(key, p, cost, now, writable)
local limit = p[1]
local total, stop, older, newest = sliding_window_read(key, p, now, writable)
if not total then return nil, stop end
local remaining = total < limit and limit - total or 0
local counters, reset = older, total == 0 and 0 or stop - now
if older and total > 0 then reset = sliding_window_until(p, now, total, stop, older, 0) end
if cost == 0 or total + cost <= limit then return 0, remaining, reset, total, stop, older end
if cost > limit then return -1, remaining, reset end
if not older then counters = sliding_window_older(newest, p[4], p[3]) end
return sliding_window_until(p, now, total, stop, counters, limit - cost), remaining, reset
end
function sliding_window.commit(key, p, cost, now, total, stop, older)
total = total + cost
if not older then
redis.call('SETRANGE', key, 5, struct.pack(SLIDING_WINDOW_FORMAT[p[4]], total))
else
if stop == 0 then stop = now + (p[3] + 1) * p[2] end
sliding_window_write(key, p, total, stop, older, cost)
end
return p[1] - total, stop - now
end
function sliding_window.adjust(key, p, units, mark, now)
local limit, segment, segments = p[1], p[2], p[3]
local total, stop, older, newest = sliding_window_read(key, p, now, true)
if not total then return nil, stop end
if not older then
local value, sum = newest, 0
older, sum = sliding_window_older(value, p[4], segments)
newest = total - sum
end
if units > 0 then
if stop == 0 then stop = now + (segments + 1) * segment end
newest = newest + math.max(0, math.min(units, 2 * limit - total))
else
for i = segments, 0, -1 do
if mark == 0 or mark == stop - i * segment then
local count = i == 0 and newest or older[i] or 0
local back = math.min(count, -units)
units = units + back
if i == 0 then newest = count - back else older[i] = count - back end
end
end
end
total = newest
for i = 1, segments do total = total + (older[i] or 0) end
if total == 0 then
if stop ~= 0 then redis.call('DEL', key) end
return limit, 0
end
return math.max(0, limit - total), sliding_window_write(key, p, total, stop, older, newest) - now
end
`,
} as const;
