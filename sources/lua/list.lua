-- after: begin table rows
-- ARGV: service, the number to begin at, how many to look at. Where to go on ('' at the end), then the leases.
local s, refusal = read_service(ARGV[1])
if refusal then return refusal end
local page, out = num(ARGV[3], 'page'), {'OK', ''}
local ids = s and redis.call('ZRANGEBYSCORE', NODES, ARGV[2], '+inf', 'LIMIT', 0, page) or {}
for _, id in ipairs(ids) do
  local h = redis.call('HMGET', base .. id, 'createdAt', 'expired', 'holder', 'released', 'bitId', 'secret', 'lo',
                       'bitSeq', 'mine')
  if h[6] == h[9] and h[4] == '0' and num(h[2], 'expired') > now then
    local twin = twin_key(num(id, 'nodes') + 2 ^ (num(h[5], 'bitId') - 1), num(h[7], 'lo') + 2 ^ (s.node + s.seq - 1))
    twin = redis.call('HMGET', twin, 'secret', 'createdAt', 'expired')
    if twin[1] ~= h[6] then twin = {'', h[2], h[2]} end
    for _, text in ipairs({id, h[5], h[8], h[1], h[2], twin[2], twin[3], h[3]}) do out[#out + 1] = text end
  end
end
if #ids == page then out[2] = int(num(ids[page], 'nodes') + 1) end
return out
