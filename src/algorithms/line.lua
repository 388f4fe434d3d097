-- The processes that wait for the slots of a concurrency policy. Only waiting requests use it, in addition to the policy. The units that a
-- process takes are counted, and a process that is ahead gives way to a waiting process that has taken fewer.
--
-- State:   numbers: the time of the last turn (ms), 8 x the mean time between turns (ms); then per process: its number, the units that it
--          has taken, the time of its last question (ms), and whether it waits for more (1 or 0)
-- Params:  the number of the process, whether it has further waiting requests (1 or 0)
-- Returns: look: wait, the mean time between turns x 64 + the number of processes that come first (0 if no other process waits), life,
--          state; commit: the same without wait and state; adjust: 0, life, 0

local kernel_params = 2

--- rest

local line_alive, line_quantum, line_most, line_longest = 2000, 600, 64, 1000

-- Returns the processes that asked lately, with the given one last.
local function line_read(key, process, now)
  local value = redis.pcall('GET', key)
  local numbers = {}
  if type(value) == 'string' then
    for number in string.gmatch(value, '%d+') do numbers[#numbers + 1] = tonumber(number) end
  end
  local line = { last = numbers[1] or 0, gap = numbers[2] or 0 }
  local own = { process, 0, now, 0, is_new = true }
  for i = 3, #numbers - 3, 4 do
    local seen = numbers[i + 2]
    if seen > now - line_alive and seen <= now then
      local member = { numbers[i], numbers[i + 1], seen, numbers[i + 3] }
      if member[1] == process then own = member else line[#line + 1] = member end
    end
  end
  line[#line + 1] = own
  return line, own
end

-- The lowest count of units of a waiting process other than the last in the list, the number of such processes, and of those that come first.
local function line_others(line, own)
  local low, count, rank = math.huge, 0, 0
  for i = 1, #line - 1 do
    local member = line[i]
    if member[4] == 1 then
      low, count = math.min(low, member[2]), count + 1
    end
  end
  if count > 0 and own[4] == 0 then own[2] = math.max(own[2], low) end
  for i = 1, #line - 1 do
    local member = line[i]
    if member[4] == 1 and (member[2] < own[2] or member[2] == own[2] and member[1] < own[1]) then rank = rank + 1 end
  end
  return low, count, rank
end

local function line_gap(line) return math.max(1, math.floor(line.gap / 8)) end

local function line_standing(line, own)
  local _, count, rank = line_others(line, own)
  return count == 0 and 0 or line_gap(line) * 64 + math.min(rank, 63)
end

local function line_write(key, line, now)
  if line[#line].is_new and #line > line_most then return end
  local numbers = { string.format('%.0f %.0f', line.last, line.gap) }
  for _, member in ipairs(line) do
    numbers[#numbers + 1] = string.format('%.0f %.0f %.0f %.0f', member[1], member[2], member[3], member[4])
  end
  -- Without the permission, processes only take their slots in no order.
  pcall(headgate_set, key, table.concat(numbers, ' '), now + line_alive)
end

local function line_look(key, p, cost, now, writable)
  local line, own = line_read(key, p[1], now)
  local low, count = line_others(line, own)
  local slack = line_quantum
  if line.gap > 0 then slack = math.max(1, math.floor(line_quantum * 8 / (line.gap * (count + 1)))) end
  local standing = line_standing(line, own)
  local wait = 0
  if cost > 0 and count > 0 and own[2] - low >= slack * cost then wait = line_gap(line) end
  if writable then
    own[3], own[4] = now, 1
    line_write(key, line, now)
  end
  return wait, standing, line_alive, line
end

local function line_commit(key, p, cost, now, line)
  local own = line[#line]
  local passed = math.max(0, math.min(now - line.last, line_longest))
  if line.last > 0 then line.gap = line.gap == 0 and 8 * passed or line.gap - math.floor(line.gap / 8) + passed end
  line.last = now
  own[2], own[4] = own[2] + cost, p[2]
  line_write(key, line, now)
  return line_standing(line, own), line_alive
end

local function line_adjust() return 0, line_alive, 0 end

headgate_kernel('line', { params = 2, look = line_look, commit = line_commit, adjust = line_adjust })
