-- after: begin tsid
-- The time, how many slots are free, then of each that is taken: node, since when and until when ('0': not known, no
-- end), and by whom.
local keys, values, floors = read_all()
local out, free = {'OK', int(now), '0'}, 0
for i = 1, KZ__TSID_NODES do
  if values[i] then
    local start, holder = string.match(values[i], '^kazahana %x+ (%d+) (.*)$')
    local left = redis.call('PTTL', keys[i])
    out[#out + 1] = int(i - 1)
    out[#out + 1] = start and #start < 16 and start or '0'
    out[#out + 1] = left >= 0 and int(now + left) or '0'
    out[#out + 1] = string.gsub(string.sub(holder or values[i], 1, KZ_HOLDER_SIZE - 1), '%c', '?')
  elseif floors[i] <= now + 1 then
    free = free + 1
  end
end
out[3] = int(free)
return out
