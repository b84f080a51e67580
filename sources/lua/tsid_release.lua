-- after: begin tsid
-- ARGV: node, token, the last time that may have been used. The floor comes down to that, never below the start.
local key = base .. ARGV[1]
local value, floor = value_of(key), redis.call('HGET', KEYS[1], ARGV[1])
if token_of(value) ~= ARGV[2] then return {'NOTFOUND'} end
local ends = math.max(num(ARGV[3], 'timestamp') + 1, num(string.match(value, '^kazahana %x+ (%d+)'), 'slot'))
if floor then ends = math.min(ends, num(floor, 'floor')) end
redis.call('DEL', key)
redis.call('HSET', KEYS[1], ARGV[1], int(ends))
return {'OK', int(now)}
