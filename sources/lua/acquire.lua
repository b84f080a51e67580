-- after: begin table rows place new
-- ARGV goes on with: the request, its throughput, its holder; secrets.
local request, asked, holder, secrets = ARGV[11], num(ARGV[12], 'asked'), ARGV[13], #ARGV - 13

if wall < store.high - KZ__REDIS_BEHIND_MS then return {'BEHIND', int(store.high - wall)} end
if s and given then
  refusal = differs(s, wanted)
elseif not s then
  s, refusal = create()
end
if refusal then return refusal end

local function answer(found)
  local out = head(s)
  for _, text in ipairs({request, int(s.epoch), int(s.time), int(#found)}) do out[#out + 1] = text end
  table.sort(found, function(a, b) return a.lo < b.lo end)
  for _, l in ipairs(found) do
    for _, n in ipairs({l.id, l.created, l.expired, l.twin_created, l.twin_expired, l.node, l.seq}) do
      out[#out + 1] = int(n)
    end
    out[#out + 1] = l.secret
  end
  return out
end

local slot_half = 2 ^ (s.node + s.seq - 1)

-- The twin of a lease, if it is out under the same secret and has not ended.
local function twin_of(id, node_bits, lo, secret)
  local h = load(twin_key(id + 2 ^ (node_bits - 1), lo + slot_half))
  if h.secret == secret and h.released == '0' and num(h.expired, 'expired') > now then return h end
end

-- The leases of an earlier call with the same request that are still held.
local function granted_before()
  local found = {}
  local nodes = request ~= '' and redis.call('GET', base .. 'request:' .. request) or ''
  for id in string.gmatch(nodes, '%d+') do
    local h = load(base .. id)
    if is_mine(h) and h.request == request and h.released == '0' and num(h.lo, 'lo') < slot_half and
       num(h.expired, 'expired') > now then
      local l = {id = num(id, 'id'), lo = num(h.lo, 'lo'), created = num(h.createdAt, 'createdAt'),
                 expired = num(h.expired, 'expired'), node = num(h.bitId, 'bitId'), seq = num(h.bitSeq, 'bitSeq'),
                 secret = h.secret, asked = num(h.asked, 'asked')}
      local twin = twin_of(l.id, l.node, l.lo, l.secret)
      l.twin_created = twin and num(twin.createdAt, 'createdAt') or l.expired
      l.twin_expired = twin and num(twin.expired, 'expired') or l.expired
      found[#found + 1] = l
    end
  end
  return found
end

local swept = sweep(KZ__SWEEP_ROWS)
local found = granted_before()
if #found > 0 then
  for _, l in ipairs(found) do
    if l.asked ~= asked then return {'CONFLICT', int(l.asked)} end
  end
  write_free()
  write('HSET', KEYS[1], 'granted', '1')
  save()
  commit()
  return answer(found)
end

local seq, count = s.seq, 1
if asked < 1 or asked > s.max then return {'INVALID', int(s.max)} end
if s.high_blocks == 1 then
  while 2 ^ seq < asked do seq = seq + 1 end
else
  count = math.ceil(asked / 2 ^ seq)
end
local part_lo, part_hi = part_of(s)
if count > KZ_GRANT_LEASES_MAX or seq >= s.node + s.seq - (seq > s.seq and part_hi > 0 and 1 or 0) then
  return {'TOOMANY', int(count)}
end
local all = all_aside(s)
if all then return {'ASIDE', int(all.ends - now), all.why} end
if s.refused > 0 and now - s.refused < s.lease then seq, count = s.seq, 1 end
if secrets < count then return {'SECRETS', int(count)} end

local size, half, node_bits = 2 ^ seq, slot_half, s.node + s.seq - seq

-- Another provider goes round with the same hand: what it gave back a moment ago comes last.
local last = last_assigned()
if last ~= s.last and last >= 0 then
  is_out(last, half)
  s.cursor = (last + 1) * 2 ^ s.seq
end

local function write_foreign()
  if next(foreign) then write('ZREMRANGEBYSCORE', FOREIGN, '-inf', int(now)) end
  for node, ends in pairs(foreign) do write('ZADD', FOREIGN, int(ends), int(node)) end
end

-- A free block whose number is not out, with a free twin if there is one near.
local function find()
  local f, looked, best, best_twin = search_of(s, seq, now), 0, nil, nil
  local within_lo, within_hi = part_lo, part_hi
  if seq == s.seq or part_hi == 0 then within_lo, within_hi = 0, half end
  local from = seq == s.seq and s.cursor or 0
  local start = from >= within_lo and from < within_hi and math.ceil(from / size) * size or within_lo
  for round = 0, 1 do
    local lo, limit = round == 0 and start or within_lo, round == 0 and within_hi or math.min(start, within_hi)
    lo = next_block(f, lo, limit)
    while lo and not (best and (best_twin or looked >= KZ__SEARCH_BLOCKS)) do
      local twin = twin_is_free(f, lo)
      looked = looked + 1
      if (twin or not best) and not is_out(lo / size, half) then best, best_twin = lo, twin end
      lo = next_block(f, lo + size, limit)
    end
  end
  return best, best_twin
end

-- A twin has no need of what only its lease is asked for: every byte goes to the disk.
local function row(key, lo, expired, secret, ...)
  write('HSET', key, 'secret', secret, 'expired', int(expired), 'createdAt', int(now), 'lo', int(lo), 'hi',
        int(lo + size), 'bitId', int(node_bits), 'bitSeq', int(seq), 'released', '0', 'mine', secret, ...)
end

local function grant(lo, twin, secret)
  local id, expired = lo / size, now + s.lease
  local l = {id = id, lo = lo, created = now, expired = expired, twin_created = expired, twin_expired = expired,
             node = node_bits, seq = seq, secret = secret}
  local key = base .. int(id)
  local other = not dropped[id] and not passed[id] and owner(key)
  if other and other >= half then write('RENAME', key, key .. ':twin') end
  take(lo, lo + size)
  taken[id] = true
  row(key, lo, expired, secret, 'serviceId', NAME, 'holder', holder, 'request', request, 'asked', int(asked))
  write('ZADD', LEASES, int(expired), member_of(lo, lo + size, id))
  write('ZADD', NODES, int(id), int(id))
  if twin then
    local number = (lo + half) / size
    key = base .. int(number)
    if is_out(number, half) then key = key .. ':twin' end
    l.twin_created, l.twin_expired = now, now + KZ__TWIN_LEASES * s.lease
    take(lo + half, lo + half + size)
    row(key, lo + half, l.twin_expired, secret)
    write('ZADD', TWINS, int(l.twin_expired), member_of(lo + half, lo + half + size, number))
  end
  if seq == s.seq then
    s.cursor, s.last = lo + size, id
    write('SET', LAST, int(id))
  end
  return l
end

while true do
  for i = 1, count do
    local lo, twin = find()
    if not lo then break end
    found[i] = grant(lo, twin, ARGV[13 + i])
  end
  if #found > 0 then break end
  -- What was swept is kept, with its time, and the sweep goes on while it finds something.
  write_free()
  write_foreign()
  if swept < KZ__SWEEP_ROWS then write('HSET', KEYS[1], 'refused', int(now)) end
  if #writes > 0 then write('HSET', STORE, 'high', int(now)) end
  commit()
  gone, extra, taken, dropped, passed, foreign = {}, {}, {}, {}, {}, {}
  if swept < KZ__SWEEP_ROWS then
    local first = next_end(s)
    return {'NOFREE', int(first and first.ends - now or 0), first and first.why or ''}
  end
  swept = sweep(KZ__SWEEP_ROWS)
end

if request ~= '' then
  local ids = {}
  for _, l in ipairs(found) do ids[#ids + 1] = int(l.id) end
  write('SET', base .. 'request:' .. request, table.concat(ids, ' '), 'PX', int(now - wall + s.lease + 1000))
end
write('HSET', KEYS[1], 'granted', '1', 'cursor', int(s.cursor), 'last', int(s.last))
write_free()
write_foreign()
save()
commit()
return answer(found)
