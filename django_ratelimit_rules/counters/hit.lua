-- Count one call in the counters of a chain of rules: in all of them or in none.
--
-- KEYS      One counter per hit, in rule order, all in one cluster slot.
-- ARGV[1]   Packed little-endian, as one argument, because each argument costs as much as a command:
--           - A byte for the verb: 0 check (count, charge and decide), 1 peek (write nothing), 2 charge (charge past
--             the limit, decide nothing).
--           - A double for the cost.
--           - A double for the cost of calls that the denial cache refused without this script. It is added to the
--             count of the first counter, a fixed window, if that counter still exists.
--           - Then 26 bytes per hit: a byte for the algorithm, a byte for the flags, and doubles for the limit, the
--             period and the ban in milliseconds (0 without a ban). The algorithm is 0 fixed window, 1 sliding window,
--             2 token bucket, 3 distinct values (`wire` in engine/algorithms.py). The flags are the sum of 1 if
--             exceeding the limit blocks, and 2 if the counter is only read (a rule charged by outcome).
-- ARGV[1+i] For distinct values, the value of hit i. Other hits have an empty argument if a later hit has a value.
--
-- Reply     If nothing is exceeded and count equals used everywhere: used and reset per hit.
--           Otherwise -1, then five numbers per hit up to the first that blocks: used, count, state (0 within, 1
--           exceeded, 2 banned), reset, retry.
--           Reset and retry are milliseconds. Retry is -1 if waiting would not help. The reply begins with -2 instead
--           of -1 if a number is not a safe integer, and such numbers are strings.
-- Atomicity Redis runs nothing else meanwhile. The script first reads all counters and decides the chain. It charges
--           only then, so that a refused call is not charged to any rule.
-- Cost      One MGET, then two commands per counter, but one command for each counter after a block. One TIME if an
--           algorithm or a ban needs the clock.
--
-- Values    A fixed window is "used", or "used count" after a call was refused, or "used count banned-until". Redis
--           stores a plain integer most compactly. A sliding window is "period index previous current banned-until".
--           A bucket is "units time period banned-until fractional", where units are used x period, so that whole costs
--           leak in whole numbers.
--           A value of another form (an operator's SET, another program) is treated as absent and overwritten, because
--           a foreign value must not block clients.

local CHECK, PEEK, CHARGE = 0, 1, 2
local HIT = '<BBddd'
local SAFE, LARGEST = 2 ^ 53, 1.7e308
local call, packed = redis.call, ARGV[1]
local verb, cost, missed, first = struct.unpack('<Bdd', packed)
local values = call('MGET', unpack(KEYS))
local reply = {}

-- The common case comes first and creates no function: fixed windows without bans, and whole numbers. In any other
-- case nothing is written yet, and the general code below decides. Here `reply` holds used and reset per hit, `counts`
-- holds the counts of counters that refused calls, and `waits` holds the retry of exceeded counters.
local common = verb == CHECK and cost > 0 and cost < 1e15 and cost % 1 == 0
local position, last, blocked, counts, waits = first, #KEYS, false
for i = 1, #KEYS do
  if not common then break end
  local used, value = 0, values[i]
  local algorithm, flags, limit, ttl, ban
  algorithm, flags, limit, ttl, ban, position = struct.unpack(HIT, packed, position)
  if value then
    if #value < 16 and not string.find(value, '%D') then
      used = tonumber(value) or -1
    else
      -- Accept only values that INCRBY accepts too. If it failed on the third key, the first two would stay charged.
      local charged, count = string.match(value, '^(%d+) (%d+)$')
      used = charged and #charged < 16 and #count < 16 and tonumber(charged) or -1
      counts = counts or {}
      counts[i] = tonumber(count)
    end
    ttl = call('PTTL', KEYS[i])
  end
  common = algorithm == 0 and flags < 2 and ban == 0 and used >= 0 and ttl > 0
  reply[2 * i - 1], reply[2 * i] = used, ttl
  if used + cost > limit or limit == 0 then
    waits = waits or {}
    waits[i] = (limit == 0 or cost > limit) and -1 or ttl
    if flags == 1 and common then
      last, blocked = i, true
      for later = i + 1, #KEYS do
        if call('PTTL', KEYS[later]) == -1 then common = false end
      end
      break
    end
  end
end
if common and not waits and not counts and missed == 0 then
  local amount = string.format('%.0f', cost)  -- format once, because Redis would format the number for each command
  for i = 1, last do
    if values[i] then
      call('INCRBY', KEYS[i], amount)
    else
      call('SET', KEYS[i], amount, 'PX', reply[2 * i])
    end
    reply[2 * i - 1] = reply[2 * i - 1] + cost
  end
  return reply
elseif common then
  local answer = { -1 }
  for i = 1, last do
    local used, ttl, wait = reply[2 * i - 1], reply[2 * i], waits and waits[i]
    local count = (counts and counts[i] or used) + cost + (i == 1 and values[1] and missed or 0)
    if not (blocked or wait) then used = used + cost end
    local value = used == count and string.format('%.0f', used) or string.format('%.0f %.0f', used, count)
    if values[i] then
      call('SET', KEYS[i], value, 'KEEPTTL')
    else
      call('SET', KEYS[i], value, 'PX', ttl)
    end
    local at = 5 * i - 3
    answer[at], answer[at + 1], answer[at + 2] = used, count, wait and 1 or 0
    answer[at + 3], answer[at + 4] = ttl, wait or 0
  end
  return answer
end

local FIXED, SLIDING, BUCKET, DISTINCT = 0, 1, 2, 3
local algorithms, flags, limits, periods, bans = {}, {}, {}, {}, {}
for i = 1, #KEYS do
  algorithms[i], flags[i], limits[i], periods[i], bans[i], first = struct.unpack(HIT, packed, first)
end
local floor = math.floor
reply = {}
local writes = verb ~= PEEK
local left = {}   -- milliseconds until the stored counter expires, nil without a counter
local kept = {}   -- values that an algorithm passes from reading to writing
local clock

local function now()
  if not clock then
    local time = call('TIME')
    clock = time[1] * 1000 + floor(time[2] / 1000)
  end
  return clock
end

-- Return the numbers of a stored value, or nil if the value has another form.
local function numbers(value, fewest, most)
  local parsed = {}
  for word in string.gmatch(value, '%S+') do
    local number = tonumber(word)
    if not number or not (number >= 0 and number <= LARGEST) then return nil end
    parsed[#parsed + 1] = number
  end
  return #parsed >= fewest and #parsed <= most and parsed or nil
end

-- Return the milliseconds until a stored key expires, or nil if it has expired. Give a key without expiry a new one. Do
-- so only for -1: an existing key may have 0 left, and a new expiry would keep a busy short window alive forever.
local function remaining(i, healed)
  local ttl = call('PTTL', KEYS[i])
  if ttl == -1 then
    ttl = healed
    if writes then call('PEXPIRE', KEYS[i], ttl) end
  end
  return ttl > 0 and ttl or nil
end

-- Return a sum without the rounding errors of binary fractions, so that ten calls of 0.7 fit a limit of 7.
local function plus(a, b)
  local sum = math.min(a + b, LARGEST)
  if sum % 1 == 0 or sum >= SAFE then return sum end
  return floor(sum * 1e9 + 0.5) / 1e9
end

local function note(i, used, count, reset, over, wait, banned_until)
  local at, state, retry = 5 * i, 0, 0
  if banned_until > 0 and banned_until > now() then
    state, reset = 2, banned_until - now()
    retry = reset
  elseif over or limits[i] == 0 then
    state = 1
    retry = (limits[i] == 0 or cost > limits[i]) and -1 or wait
  end
  reply[at - 4], reply[at - 3], reply[at - 2], reply[at - 1], reply[at] = used, count, state, reset, retry
end

local function read_fixed(i)
  local value, used, count, reset, banned_until = values[i], 0, 0, periods[i], 0
  if value then
    local plain = tonumber(value)
    if plain and plain >= 0 and plain <= LARGEST then
      used, count = plain, plain
      kept[i] = #value < 16 and not string.find(value, '%D')
    else
      local stored = numbers(value, 2, 3)
      if not stored then return note(i, 0, 0, reset, cost > limits[i], reset, 0) end
      used, count, banned_until = stored[1], stored[2], stored[3] or 0
    end
    local ttl = remaining(i, reset)
    if ttl then left[i], reset = ttl, ttl else used, count, banned_until = 0, 0, 0 end
  end
  note(i, used, count, reset, plus(used, cost) > limits[i], reset, banned_until)
end

local function write_fixed(i, charged, looked, ban)
  local at, period = 5 * i, periods[i]
  local used, count = reply[at - 4], reply[at - 3]
  if charged then used = plus(used, cost) end
  if charged or not looked then count = plus(count, cost) end
  if i == 1 and left[1] then count = plus(count, missed) end
  reply[at - 4], reply[at - 3] = used, count
  if ban > 0 then
    local value = string.format('%.17g %.17g %.17g', used, count, now() + ban)
    call('SET', KEYS[i], value, 'PX', math.max(left[i] or period, ban))
  elseif left[i] and kept[i] and charged and cost == floor(cost) and used < SAFE and used == count then
    call('INCRBY', KEYS[i], cost)
  else
    local value = used == count and used or string.format('%.17g %.17g', used, count)
    if left[i] then call('SET', KEYS[i], value, 'KEEPTTL') else call('SET', KEYS[i], value, 'PX', period) end
  end
end

-- The functions of the other algorithms are created only for a chain that needs them, because creating functions costs
-- more than counting.
local function others()
  local ceil, max, min = math.ceil, math.max, math.min
  local LONGEST = 31536000000000  -- milliseconds, the longest time to full even after absurd charges
  local read, write = {}, {}

  read[SLIDING] = function(i)
    local period, limit = periods[i], limits[i]
    local index = floor(now() / period)
    local elapsed = now() - index * period
    local previous, current, banned_until = 0, 0, 0
    local stored = values[i] and numbers(values[i], 5, 5)
    if stored and remaining(i, 2 * period) then
      banned_until = stored[5]
      if stored[1] == period then
        if stored[2] > index then index, elapsed = stored[2], 0 end
        if stored[2] == index then
          previous, current = stored[3], stored[4]
        elseif stored[2] == index - 1 then
          previous = stored[4]
        end
      end
    end
    local used = plus(floor(previous * (period - elapsed) / period), current)
    local room = plus(limit - cost, -current)
    local wait
    if room >= 0 then
      wait = floor(period - (floor(room) + 1) * period / max(previous, 1)) + 1 - elapsed
    else
      -- The call fits only in the next window, once the usage of this window has faded enough.
      wait = floor(period - (floor(plus(limit, -cost)) + 1) * period / max(current, 1)) + 1
      wait = period - elapsed + max(0, wait)
    end
    kept[i] = { index, previous, current }
    note(i, used, used, period - elapsed, plus(used, cost) > limit, wait, banned_until)
  end

  write[SLIDING] = function(i, charged, looked, ban)
    local at, period, index, previous, current = 5 * i, periods[i], unpack(kept[i])
    if charged then
      current = plus(current, cost)
      reply[at - 4] = plus(reply[at - 4], cost)
      reply[at - 3] = reply[at - 4]
    elseif reply[at - 2] > 0 and not looked then
      reply[at - 3] = plus(reply[at - 4], cost)
    end
    if charged or ban > 0 then
      local banned_until = ban > 0 and now() + ban or 0
      local value = string.format('%.17g %.17g %.17g %.17g %.17g', period, index, previous, current, banned_until)
      -- Keep the counter through the next window only if something was charged in this one. It may exist for a ban
      -- alone.
      local windows = current > 0 and 2 or previous > 0 and 1 or 0
      call('SET', KEYS[i], value, 'PX', max((index + windows) * period - now(), ban))
    end
  end

  local function level(units, period, fractional)
    return fractional > 0 and plus(units / period, 0) or ceil(units / period)
  end

  local function until_full(i, units)
    if limits[i] == 0 then return units > 0 and periods[i] or 0 end
    return min(ceil(units / limits[i]), LONGEST)
  end

  read[BUCKET] = function(i)
    local period, limit, units, fractional, banned_until = periods[i], limits[i], 0, 0, 0
    local stored = values[i] and numbers(values[i], 5, 5)
    local ttl = stored and remaining(i, period)
    if ttl then
      units, banned_until, fractional = stored[1], stored[4], stored[5]
      if stored[3] ~= period then units = min(ceil(units * period / max(stored[3], 1)), LARGEST) end
      units = max(0, units - max(0, now() - stored[2]) * limit)
      -- If the rule's rate was lowered, the bucket becomes full later than its key was set to expire. Extend the key,
      -- because the usage would expire with it.
      local full = until_full(i, units)
      if writes and ttl < full then call('PEXPIRE', KEYS[i], full) end
    end
    local used, over = level(units, period, fractional), plus(units, plus(cost * period, 0)) - limit * period
    kept[i] = { units, fractional }
    local wait = limit > 0 and min(ceil(over / limit), LONGEST) or 0
    note(i, used, used, until_full(i, units), over > 0, wait, banned_until)
  end

  write[BUCKET] = function(i, charged, looked, ban)
    local at, period, units, fractional = 5 * i, periods[i], unpack(kept[i])
    if charged then
      if cost ~= floor(cost) then fractional = 1 end
      units = plus(units, plus(cost * period, 0))
      reply[at - 4] = level(units, period, fractional)
      reply[at - 3], reply[at - 1] = reply[at - 4], until_full(i, units)
    elseif reply[at - 2] > 0 and not looked then
      reply[at - 3] = plus(reply[at - 4], cost)
    end
    if charged or ban > 0 then
      local banned_until = ban > 0 and now() + ban or 0
      local value = string.format('%.17g %.17g %.17g %.17g %.17g', units, now(), period, banned_until, fractional)
      call('SET', KEYS[i], value, 'PX', max(until_full(i, units), ban, 1))
    end
  end

  read[DISTINCT] = function(i)
    local size, member = redis.pcall('SCARD', KEYS[i]), false
    if type(size) == 'table' then
      size = 0
      if writes then call('DEL', KEYS[i]) end
    end
    if size > 0 then
      left[i] = remaining(i, periods[i])
      if left[i] then member = call('SISMEMBER', KEYS[i], ARGV[1 + i]) == 1 else size = 0 end
    end
    kept[i] = member
    local reset, full = left[i] or periods[i], limits[i] == 0 or not member and size + 1 > limits[i]
    local at = 5 * i
    reply[at - 4], reply[at - 3], reply[at - 2], reply[at - 1] = size, size, full and 1 or 0, reset
    reply[at] = full and (limits[i] == 0 and -1 or reset) or 0
  end

  write[DISTINCT] = function(i, charged, looked)
    local at = 5 * i
    if reply[at - 2] > 0 then
      if verb == CHECK and not looked then reply[at - 3] = reply[at - 4] + 1 end
    elseif charged and not kept[i] then
      if not left[i] then call('DEL', KEYS[i]) end
      call('SADD', KEYS[i], ARGV[1 + i])
      if not left[i] then call('PEXPIRE', KEYS[i], periods[i]) end
      reply[at - 4], reply[at - 3] = reply[at - 4] + 1, reply[at - 4] + 1
    end
  end

  return read, write
end

-- Decide.
local read, write
last, blocked = #KEYS, false
for i = 1, #KEYS do
  local algorithm = algorithms[i]
  if algorithm == FIXED then
    read_fixed(i)
  else
    if not read then read, write = others() end
    read[algorithm](i)
  end
  if flags[i] % 2 == 1 and reply[5 * i - 2] > 0 and verb ~= CHARGE then
    last, blocked = i, true
    break
  end
end

-- Counters after a block are neither read nor counted. A key without expiry still has to get one.
if blocked and writes then
  for i = last + 1, #KEYS do remaining(i, algorithms[i] == SLIDING and 2 * periods[i] or periods[i]) end
end

-- Charge all counters or none. A cost of 0 writes nothing. Calls during a ban change nothing.
if writes then
  for i = 1, last do
    local at, algorithm, looked = 5 * i, algorithms[i], flags[i] % 4 >= 2
    local state = reply[at - 2]
    if state < 2 and (cost > 0 or algorithm == DISTINCT) then
      local ban = state == 1 and verb == CHECK and bans[i] or 0
      local charged = verb == CHARGE or state == 0 and not blocked and not looked
      if verb == CHARGE or not looked or ban > 0 then
        local write_one = algorithm == FIXED and write_fixed or write[algorithm]
        write_one(i, charged, looked, ban)
      end
      if ban > 0 then reply[at - 2], reply[at - 1], reply[at] = 2, ban, ban end
    elseif state == 2 and algorithm ~= FIXED and verb == CHECK and not looked then
      -- These algorithms do not count refused calls, so during a ban report `used` plus this call's cost.
      reply[at - 3] = plus(reply[at - 4], cost)
    end
  end
end

local answer = { -1 }
for k = 1, 5 * last do
  local number = reply[k]
  if number ~= floor(number) or number >= SAFE then
    answer[1], number = -2, string.format('%.17g', number)
  end
  answer[k + 1] = number
end
return answer
