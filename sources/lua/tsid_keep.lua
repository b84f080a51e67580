-- after: begin tsid
-- ARGV: node, token, what the key says, the end that its holder knows of, the length of the new window ('0': only
-- look), how much longer the key lasts.
local key, known, window = base .. ARGV[1], num(ARGV[4], 'end'), num(ARGV[5], 'window')
local value, floor = value_of(key), redis.call('HGET', KEYS[1], ARGV[1])
local mine = token_of(value) == ARGV[2]
-- A store that knows nothing at all of the slot has lost its memory (restarted without it, flushed): nobody else was
-- granted the node since, or its floor would be there. So it is told again.
local forgotten = not floor and now < known and redis.call('EXISTS', key) == 0
if not mine and not forgotten then return {'LOST', int(now)} end
local ends = math.max(known, floor and num(floor, 'floor') or 0, window > 0 and now + window or 0)
if not mine or not floor or ends > num(floor, 'floor') then
  redis.call('SET', key, ARGV[3], 'PX', int(math.max(ends - now, 0) + num(ARGV[6], 'margin')))
  redis.call('HSET', KEYS[1], ARGV[1], int(ends))
end
return {'OK', int(now), int(ends)}
