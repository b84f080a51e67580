-- after: begin table rows
-- ARGV: service, then where to begin: a service, or what its name is above, and a number; how many leases. The answer:
-- where to go on ('' at the end), then the leases, each with its service. Services without any cost little.
local from, node, page, out = ARGV[2], num(ARGV[3], 'node'), num(ARGV[4], 'page'), {'OK', '', '0'}
local prefix, lines, looked = string.sub(KEYS[2], 1, -15), 0, 0

local function add(name, id, half)
  local h = redis.call('HMGET', base .. id, 'createdAt', 'expired', 'holder', 'released', 'bitId', 'secret', 'lo',
                       'bitSeq', 'mine')
  if h[6] ~= h[9] or h[4] ~= '0' or num(h[2], 'expired') <= now then return end
  local twin = twin_key(num(id, 'nodes') + 2 ^ (num(h[5], 'bitId') - 1), num(h[7], 'lo') + half)
  twin = redis.call('HMGET', twin, 'secret', 'createdAt', 'expired')
  if twin[1] ~= h[6] then twin = {'', h[2], h[2]} end
  for _, text in ipairs({name, id, h[5], h[8], h[1], h[2], twin[2], twin[3], h[3]}) do out[#out + 1] = text end
  lines = lines + 1
end

local function list(name, first)
  base = prefix .. (name == 'default' and '' or name .. ':') .. 'lease:'
  local ids = redis.call('ZRANGEBYSCORE', base .. 'nodes', int(first), '+inf', 'LIMIT', 0, page - lines)
  if #ids == 0 then return nil end
  local s = redis.call('HMGET', base .. 'service', 'node', 'seq')
  local half, asked = 2 ^ (num(s[1], 'node') + num(s[2], 'seq') - 1), page - lines
  for _, id in ipairs(ids) do add(name, id, half) end
  return #ids == asked and num(ids[#ids], 'nodes') + 1 or nil
end

for _, name in ipairs(redis.call('ZRANGEBYLEX', KEYS[2], '[' .. from, '+', 'LIMIT', 0, KZ__REDIS_LIST_SERVICES)) do
  local next_node = list(name, name == from and node or 0)
  looked = looked + 1
  if next_node or lines >= page then
    out[2], out[3] = next_node and name or name .. '\1', int(next_node or 0)
    return out
  end
  from = name
end
if looked == KZ__REDIS_LIST_SERVICES then out[2] = from .. '\1' end
return out
