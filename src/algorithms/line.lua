-- The processes that wait for the slots of a concurrency policy. Waiting requests use the line in addition to the policy. The units taken
-- by a process are counted, and a process that is ahead gives way to a waiting process with fewer units.
--
-- State:   numbers, four per process: the process' number, the units taken, the time of the last question (ms), and whether the process waits
--          for more (1 or 0)
-- Params:  the number of the process, whether the process has further waiting requests (1 or 0), the turns of all processes in a round
-- Returns: look: wait, place, life, state; commit: place, life; adjust: 0, life, 0. The place is 0 if no further process asked lately.
--          Otherwise the place is 1, plus the number of processes that come first, plus 256 per turn of the rest before one of the first
--          gives way

--- section look

local line_alive, line_most = 2000, 64

-- Returns the processes with a recent question, with the given process last.
local function line_read(key, process, now)
  local value = redis.pcall('GET', key)
  local line, own, numbers = {}, { process, 0, now, 0, is_new = true }, {}
  for number in string.gmatch(type(value) == 'string' and value or '', '%d+') do numbers[#numbers + 1] = tonumber(number) end
  for i = 1, #numbers - 3, 4 do
    local member = { numbers[i], numbers[i + 1], numbers[i + 2], numbers[i + 3] }
    if member[1] == process then own.is_new = false end
    if member[3] > now - line_alive and member[3] <= now then
      if member[1] == process then own = member else line[#line + 1] = member end
    end
  end
  line[#line + 1] = own
  return line
end

-- Returns the place of the last process in the list, which is 0 for a lone process; the number of processes that wait besides; the lead
-- over the process that has taken least; and the part of a round.
local function line_place(line, round)
  local own, low, high, count, first = line[#line], math.huge, 0, 0, 0
  for i = 1, #line - 1 do
    local _, units, _, waits = unpack(line[i])
    if waits == 1 then low, high, count = math.min(low, units), math.max(high, units), count + 1 end
  end
  local part = math.max(1, math.floor(round / (count + 1)))
  if count == 0 then return #line > 1 and 1 or 0, 0, 0, part end
  -- A process that did not wait has little credit for that time.
  if own[4] == 0 then own[2] = math.max(own[2], low - part) end
  for i = 1, #line - 1 do
    local id, units, _, waits = unpack(line[i])
    if waits == 1 and (units < own[2] or units == own[2] and id < own[1]) then first = first + 1 end
  end
  -- A process that does not wait leaves slots to waiting processes.
  local turns = count < #line - 1 and 0 or math.min(math.max(part - 1 - high + own[2], 0), 1000)
  return 1 + first + turns * 256, count, own[2] - low, part
end

local function line_write(key, line, now)
  if line[#line].is_new and #line > line_most then return end
  local numbers = {}
  for i, member in ipairs(line) do
    numbers[i] = string.format('%.0f %.0f %.0f %.0f', member[1], member[2], member[3], member[4])
  end
  -- Without the permission, processes take slots in no order.
  pcall(headgate_set, key, table.concat(numbers, ' '), now + line_alive)
end

local function line_look(key, p, cost, now, writable)
  local line = line_read(key, p[1], now)
  local place, count, lead, part = line_place(line, p[3])
  local wait = cost > 0 and count > 0 and lead >= cost * part and line_alive or 0
  if writable then
    local own = line[#line]
    own[3], own[4] = now, 1
    line_write(key, line, now)
  end
  return wait, place, line_alive, line
end

local function line_commit(key, p, cost, now, line)
  local own = line[#line]
  own[2], own[4] = own[2] + cost, p[2]
  line_write(key, line, now)
  return (line_place(line, p[3])), line_alive
end

local kernel_look, kernel_commit = line_look, line_commit

--- section adjust

local function line_adjust() return 0, line_alive, 0 end

headgate_kernel('line', { is_line = true, look = line_look, commit = line_commit, adjust = line_adjust })
