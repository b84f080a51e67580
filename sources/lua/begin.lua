-- What every script begins with. Numbers stay below 2^53 and are written with %.0f: tostring() would lose digits.
local function int(n) return string.format('%.0f', n) end
local function num(text, what)
  local n = tonumber(text)
  if not n then error('KZDAMAGED ' .. what) end
  return n
end

local clock = redis.call('TIME')
local now = num(clock[1], 'TIME') * 1000 + math.floor(num(clock[2], 'TIME') / 1000)
