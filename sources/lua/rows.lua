-- Free space, and the rows that are out.
-- Free space is members "lo:hi" scored by hi. `gone` and `extra` are what this call changes, not yet written.
local gone, extra = {}, {}

-- The first free range with hi > from.
local function free_after(from)
  local best
  for _, r in ipairs(extra) do
    if r.hi > from then best = r break end
  end
  local offset = 0
  while true do
    local page = redis.call('ZRANGEBYSCORE', FREE, '(' .. int(from), '+inf', 'LIMIT', offset, 8)
    for _, member in ipairs(page) do
      local lo, hi = string.match(member, '^(%d+):(%d+)$')
      lo, hi = num(lo, 'free'), num(hi, 'free')
      if best and best.lo < lo then return best end
      if not gone[lo] then return {lo = lo, hi = hi} end
    end
    if #page < 8 then return best end
    offset = offset + 8
  end
end

local function free_ending(slot)
  for _, r in ipairs(extra) do
    if r.hi == slot then return r end
  end
  local member = redis.call('ZRANGEBYSCORE', FREE, int(slot), int(slot), 'LIMIT', 0, 1)[1]
  local lo = member and num(string.match(member, '^(%d+):'), 'free')
  if lo and not gone[lo] then return {lo = lo, hi = slot} end
end

local function free_add(lo, hi)
  if lo >= hi then return end
  local at = #extra + 1
  while at > 1 and extra[at - 1].lo > lo do at = at - 1 end
  table.insert(extra, at, {lo = lo, hi = hi})
end

local function free_remove(r)
  for i, e in ipairs(extra) do
    if e.lo == r.lo then table.remove(extra, i) return end
  end
  gone[r.lo] = r.hi
end

local function give(lo, hi)
  local before, after = free_ending(lo), free_after(hi)
  if before then free_remove(before) lo = before.lo end
  if after and after.lo == hi then free_remove(after) hi = after.hi end
  free_add(lo, hi)
end

local function is_free(lo, hi)
  local r = free_after(lo)
  return r and r.lo <= lo and r.hi >= hi
end

local function take(lo, hi)
  local r = free_after(lo)
  free_remove(r)
  free_add(r.lo, lo)
  free_add(hi, r.hi)
end

local function write_free()
  for lo, hi in pairs(gone) do write('ZREM', FREE, int(lo) .. ':' .. int(hi)) end
  for _, r in ipairs(extra) do write('ZADD', FREE, int(r.hi), int(r.lo) .. ':' .. int(r.hi)) end
end

-- Rows that are out: members "lo:hi:node" scored by their end, lo padded so that equal ends come in order of lo.
local taken, dropped, passed, foreign = {}, {}, {}, {}

local function member_of(lo, hi, node)
  return string.format('%016.0f', lo) .. ':' .. int(hi) .. ':' .. int(node)
end

-- Twins of one height can have the numbers of leases of another: then the lease has the key, the twin stands beside it.
local function twin_key(node, lo)
  local key = base .. int(node)
  return owner(key) == lo and key or key .. ':twin'
end

-- Is the number out as a lease, at any height, or held by another provider?
local function is_out(node, half)
  if taken[node] or dropped[node] then return taken[node] or false end
  local lo, ends = owner(base .. int(node))
  foreign[node] = ends
  return ends or (lo ~= nil and lo < half)
end

-- Returns ended rows to free space: the first `limit` by end, then by lo. How many it were.
local function sweep(limit)
  local rows = {}
  for _, set in ipairs({LEASES, TWINS}) do
    local flat = redis.call('ZRANGEBYSCORE', set, '-inf', int(now), 'WITHSCORES', 'LIMIT', 0, limit)
    for i = 1, #flat, 2 do
      rows[#rows + 1] = {set = set, member = flat[i], ends = num(flat[i + 1], 'out')}
    end
  end
  table.sort(rows, function(a, b)
    if a.ends ~= b.ends then return a.ends < b.ends end
    return a.member < b.member
  end)
  local count = math.min(limit, #rows)
  for i = 1, count do
    local lo, hi, node = string.match(rows[i].member, '^(%d+):(%d+):(%d+)$')
    lo, hi, node = num(lo, 'out'), num(hi, 'out'), num(node, 'out')
    give(lo, hi)
    write('ZREM', rows[i].set, rows[i].member)
    if rows[i].set == LEASES then
      write('ZREM', NODES, int(node))
      if owner(base .. int(node)) == lo then
        dropped[node] = true
        write('DEL', base .. int(node))
      else
        write('HDEL', base .. int(node), 'lo', 'hi', 'bitId', 'bitSeq', 'request', 'asked', 'released', 'mine')
      end
    else
      passed[node] = true
      write('DEL', twin_key(node, lo))
    end
  end
  return count
end
