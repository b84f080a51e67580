-- after: begin table rows place
-- ARGV: service, '1' if a layout is wanted, epoch, time, node, seq. What the service has; a layout that differs is
-- taken over as long as nothing was granted.
-- How many numbers another provider is known to hold, one of them, and until when it counts as out.
local function foreigners()
  local live = redis.call('ZRANGEBYSCORE', FOREIGN, '(' .. int(now), '+inf', 'WITHSCORES')
  local last = last_assigned()
  local _, ends = owner(base .. int(last))
  if last >= 0 and ends and not redis.call('ZSCORE', FOREIGN, int(last)) then
    live[#live + 1] = int(last)
    live[#live + 1] = int(ends)
  end
  return int(#live / 2), live[#live - 1] or '0', live[#live] or '0'
end

local s, refusal = read_service()
if refusal then return refusal end
if not s then
  if redis.call('EXISTS', FREE, LEASES, TWINS) > 0 then return {'HEADLESS'} end
  return {'NONE', int(now), foreigners()}
end
if ARGV[2] == '1' then
  local wanted = {epoch = num(ARGV[3], 'epoch'), time = num(ARGV[4], 'time'), node = num(ARGV[5], 'node'),
                  seq = num(ARGV[6], 'seq')}
  refusal = differs(s, wanted)
  if refusal and s.granted == 1 then return refusal end
  if refusal then
    settle(s)
    for field, value in pairs(wanted) do
      s[field] = value
      write('HSET', KEYS[1], field, int(value))
    end
    make_space(s)
    save()
    commit()
  end
end
return {'OK', int(now), int(generation), s.born, int(s.epoch), int(s.time), int(s.node), int(s.seq), int(s.lease),
        int(redis.call('ZCOUNT', LEASES, '(' .. int(now), '+inf')),
        int(redis.call('ZCOUNT', LEASES, '-inf', int(now))), aside_text(s), foreigners()}
