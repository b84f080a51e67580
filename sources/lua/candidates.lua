-- The live rows that a release can mean: the lease of that number, or a twin that outlived its lease. In that order.
local function candidates(s, node)
  local slot_bits, rows = s.node + s.seq, {}
  local half = 2 ^ (slot_bits - 1)
  local function consider(key, set, lo, seq)
    local h = load(key)
    if not is_mine(h) or h.released ~= '0' or num(h.expired, 'expired') <= now then return end
    local mine = num(h.lo, 'lo')
    if (lo and (mine ~= lo or num(h.bitSeq, 'bitSeq') ~= seq)) or (not lo and mine >= half) then return end
    h.key, h.set, h.lo, h.node, h.bitId = key, set, mine, node, num(h.bitId, 'bitId')
    if lo then h.node = node + 2 ^ (h.bitId - 1) end
    rows[#rows + 1] = h
  end
  consider(base .. int(node), LEASES)
  for seq = 0, slot_bits - 1 do
    local lo = node * 2 ^ seq
    if lo >= half then break end
    local number = node + 2 ^ (slot_bits - seq - 1)
    if redis.call('ZSCORE', TWINS, member_of(lo + half, lo + half + 2 ^ seq, number)) then
      consider(twin_key(number, lo + half), TWINS, lo + half, seq)
    end
  end
  return rows
end
