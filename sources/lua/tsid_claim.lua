-- after: begin tsid
-- ARGV: the token, the length of the window, how much longer the key lasts, who asks.
local token, window, margin, holder = ARGV[1], num(ARGV[2], 'window'), num(ARGV[3], 'margin'), ARGV[4]
local keys, values, floors = read_all()

-- Asked before, and the answer was lost: the same slot, for as long as if it were asked for now.
for i = 1, KZ__TSID_NODES do
  if token_of(values[i]) == token then
    local ends = math.max(floors[i], now + window)
    local start = num(string.match(values[i], '^kazahana %x+ (%d+)'), 'slot')
    redis.call('PEXPIRE', keys[i], int(ends + margin - now))
    redis.call('HSET', KEYS[1], int(i - 1), int(ends))
    return {'OK', int(now), int(i - 1), int(start), int(ends)}
  end
end

local start, fenced = now + 1, 0
for i = 1, KZ__TSID_NODES do
  if not values[i] and floors[i] > start then
    fenced = fenced + 1
  elseif not values[i] and redis.call('SET', keys[i], 'kazahana ' .. token .. ' ' .. int(start) .. ' ' .. holder, 'NX',
                                      'PX', int(window + margin)) then
    redis.call('HSET', KEYS[1], int(i - 1), int(now + window))
    return {'OK', int(now), int(i - 1), int(start), int(now + window)}
  end
end
return {'FULL', int(fenced)}
