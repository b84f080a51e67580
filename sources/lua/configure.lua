-- after: begin table rows place new
-- ARGV goes on with what is wanted, empty where it stays: epoch, time, node, seq; lease, max, high_blocks. Once a lease
-- was granted the epoch, the time bits and the sum of node and sequence bits are fixed: what is out counts slots by it.
if not s then
  s, refusal = create()
  if refusal then return refusal end
end
local slot_bits, now_is = s.node + s.seq, {}
for i, field in ipairs({'epoch', 'time', 'node', 'seq', 'lease', 'max', 'high_blocks'}) do
  local text = ARGV[10 + i]
  now_is[field] = text ~= '' and num(text, field) or s[field]
end
local resized = now_is.node + now_is.seq ~= slot_bits
if s.granted == 1 and (resized or now_is.epoch ~= s.epoch or now_is.time ~= s.time) then
  return {'MISMATCH', int(s.epoch), int(s.time), int(s.node), int(s.seq)}
end
for field, value in pairs(now_is) do
  s[field] = value
  write('HSET', KEYS[1], field, int(value))
end
if resized then make_space(s) end
save()
commit()
local out = head(s)
for _, n in ipairs({s.epoch, s.time, s.node, s.seq}) do out[#out + 1] = int(n) end
return out
