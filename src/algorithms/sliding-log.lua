-- Sliding log: remembers the time of each admitted unit. Exact: at most `limit` in any window, and never less.
--
-- State:   a ring of runs in one string. A run is the units admitted in one millisecond. Header of 29 bytes, big-endian: the log's
--          start (6, ms), places in the ring (4), the oldest counted run (4), the number of counted runs (4), the units before the
--          oldest (3), the units up to the newest run's end (3), the newest run's time since the log's start (5, ms). Then 8 bytes per
--          run: the time since the log's start (5), the units up to the run's end (3). Units are counted modulo 2^24, the precision of
--          `struct`. The key expires when its newest unit leaves.
-- Params:  limit, window (ms)
-- Returns: look: wait, remaining, reset, log (or nil, error); commit: remaining, reset; adjust: remaining, reset, charged

--- section look

local SLIDING_LOG_HEADER = '>I6I4I4I4I3I3I5'

-- The time of the i-th counted run, and the units of all runs up to and including the i-th. Missing bytes are a run without units.
local function sliding_log_run(key, log, i)
  local at = 29 + 8 * ((log.head + i) % log.room)
  local run = log.value and string.sub(log.value, at + 1, at + 8) or redis.call('GETRANGE', key, at, at + 7)
  if #run < 8 then return log.base, log.before end
  local time, through = struct.unpack('>I5I3', run)
  -- The clock may have gone back. No unit may lie in the future.
  return math.min(log.base + time, log.newest), through
end

-- The units of the runs that count, up to and including the i-th.
local function sliding_log_through(key, log, i)
  local _, through = sliding_log_run(key, log, i)
  return (through - log.before) % 2 ^ 24
end

-- The first run that passes a test, which the last run must pass.
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

-- Rewrites a log: its runs in order, from the start of a ring, which is larger if it `grows`. Runs whose units were all given back are
-- dropped. The ring grows by half, but not beyond the limit's need. If runs were dropped, it has room beyond the limit, so that not every
-- charge rewrites it.
local function sliding_log_rewrite(key, p, log, grows)
  log.value = redis.call('GET', key)
  local base = sliding_log_run(key, log, 0)
  local runs = {}
  local before
  for i = 0, log.runs - 1 do
    local time, through = sliding_log_run(key, log, i)
    if through ~= before then runs[#runs + 1] = struct.pack('>I5I3', time - base, through) end
    before = through
  end
  local kept, room = #runs, log.room
  local most = kept < log.runs and 2 ^ 23 or p[1]
  if grows then room = math.max(kept + 1, math.min(most, math.ceil(1.5 * kept) + 2)) end
  log.value, log.base, log.head, log.room, log.runs = nil, base, 0, room, kept
  local rest = string.rep('\0', 8 * (room - kept))
  headgate_set(key, sliding_log_header(log) .. table.concat(runs) .. rest, log.newest + p[2])
end

-- Returns a log with the runs that count now, possibly none.
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
    if writable then sliding_log_rewrite(key, p, log, false) end
  end
  local oldest = sliding_log_first(log, function(i) return sliding_log_run(key, log, i) + window > now end)
  if oldest > 0 then
    local _, through = sliding_log_run(key, log, oldest - 1)
    log.before, log.head, log.runs = through, (log.head + oldest) % room, log.runs - oldest
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
    -- Find how many of the oldest units must leave first. The last of them gives the wait.
    local leaving = live + cost - limit
    local last = sliding_log_first(log, function(i) return sliding_log_through(key, log, i) >= leaving end)
    wait = sliding_log_run(key, log, last) + window - now
  end
  return wait, math.max(0, limit - live), log.runs > 0 and log.newest + window - now or 0, log
end

local function sliding_log_commit(key, p, cost, now, log)
  local limit, window = p[1], p[2]
  log.live = log.live + cost
  local remaining = math.max(0, limit - log.live)
  if log.runs == 0 then
    log.base, log.room, log.head, log.runs, log.before, log.last, log.newest = now, 1, 0, 1, 0, cost, now
    headgate_set(key, sliding_log_header(log) .. struct.pack('>I5I3', 0, cost), now + window)
    return remaining, window
  end
  if log.newest ~= now then
    if log.runs == log.room then sliding_log_rewrite(key, p, log, true) end
    log.runs, log.newest = log.runs + 1, now
  end
  log.last = log.last + cost
  local at = 29 + 8 * ((log.head + log.runs - 1) % log.room)
  redis.call('SETRANGE', key, at, struct.pack('>I5I3', now - log.base, log.last))
  redis.call('SETRANGE', key, 0, sliding_log_header(log))
  redis.call('PEXPIREAT', key, now + window)
  return remaining, window
end

local kernel_look, kernel_commit = sliding_log_look, sliding_log_commit

--- section adjust

-- The caller does not know which units to give back. Take the oldest, so that the remaining units count longest.
local function sliding_log_give_back_oldest(key, log, units)
  local back = math.min(units, log.live)
  if back < log.live then
    local head = sliding_log_first(log, function(i) return sliding_log_through(key, log, i) > back end)
    log.head, log.runs = (log.head + head) % log.room, log.runs - head
  end
  log.before, log.live = log.before + back, log.live - back
end

-- Adds to the stored sums of the runs from `from` to `to`, many runs at a time.
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

-- Gives back units that were admitted at a certain time.
local function sliding_log_give_back(key, log, time, units)
  local newest = log.runs - 1
  local first = sliding_log_first(log, function(i) return i == newest or sliding_log_run(key, log, i) >= time end)
  local at, through = sliding_log_run(key, log, first)
  if at ~= time then return end
  local before = first > 0 and sliding_log_through(key, log, first - 1) or 0
  local back = math.min(units, (through - log.before) % 2 ^ 24 - before)
  -- The sums of this run and of later runs shrink. If fewer runs are earlier, the earlier sums grow instead, and so do the units before the
  -- oldest run: the differences are the same.
  if 2 * first > newest then
    sliding_log_shift_give_back(key, log, first, newest, -back)
    log.last = log.last - back
  else
    sliding_log_shift_give_back(key, log, 0, first - 1, back)
    log.before = log.before + back
  end
  log.live = log.live - back
  -- The log ends with the last unit that is left.
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
    -- If the clock went back, no unit lies in the future.
    sliding_log_give_back(key, log, math.min(mark - window, now), -units)
  end
  if log.live == 0 then
    redis.call('DEL', key)
    return limit, 0, 0
  end
  redis.call('SETRANGE', key, 0, sliding_log_header(log))
  redis.call('PEXPIREAT', key, log.newest + window)
  return math.max(0, limit - log.live), log.newest + window - now, 0
end

headgate_kernel('sliding-log', {
  look = sliding_log_look,
  commit = sliding_log_commit,
  adjust = sliding_log_adjust,
})
