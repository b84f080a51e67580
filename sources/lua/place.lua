-- Place, as in core/place.h, and the search for a block (core/find_block.h), which passes over what is set aside.
local ALL = 2 ^ 62

local function in_force(a, at) return a.lo < a.hi and (a.ends == 0 or a.ends > at) end
local function outlasts(a, b) return a.ends == 0 or (b.ends ~= 0 and a.ends >= b.ends) end

-- Adds what is set aside for a time. Those it covers and outlasts go; without room for it, everything is set aside.
local function aside_add(s, one)
  while true do
    local kept, timed = {}, 0
    for _, a in ipairs(s.asides) do
      local covered = one.lo <= a.lo and a.hi <= one.hi and outlasts(one, a)
      if in_force(a, now) and (a.why == 'r' or not covered) then
        kept[#kept + 1] = a
        if a.why ~= 'r' then timed = timed + 1 end
      end
    end
    s.asides = kept
    if timed < KZ__ASIDES - KZ__RESERVED_MAX then
      kept[#kept + 1] = one
      return
    end
    for _, a in ipairs(kept) do
      if a.why ~= 'r' and outlasts(a, one) then one.ends = a.ends end
    end
    one.lo, one.hi = 0, ALL
  end
end

local function aside_text(s)
  local text = ''
  for _, a in ipairs(s.asides) do
    if in_force(a, now) then
      text = text .. a.why .. ' ' .. int(a.lo) .. ' ' .. int(a.hi) .. ' ' .. int(a.ends) .. ' ' .. a.note .. '\n'
    end
  end
  return text
end

-- The first in force that covers everything; and until when something is set aside, 0 if nothing is.
local function all_aside(s)
  for _, a in ipairs(s.asides) do
    if a.lo == 0 and a.hi == ALL and in_force(a, now) then return a end
  end
end
local function next_end(s)
  local first
  for _, a in ipairs(s.asides) do
    if a.ends ~= 0 and in_force(a, now) and (not first or a.ends < first.ends) then first = a end
  end
  return first
end

-- The half of the leased slots that high blocks go into; hi is 0 if they may go anywhere.
local function part_of(s)
  if store.place == '' or s.high_blocks ~= 1 then return 0, 0 end
  local quarter = 2 ^ (s.node + s.seq - 2)
  return s.part * quarter, (s.part + 1) * quarter
end

-- The last answer of free_after stands for every slot from where it was asked up to the range's end.
local function free_from(last_answer, from)
  local r = last_answer.range
  if not last_answer.from or from < last_answer.from or (r and from >= r.hi) then
    last_answer.from, last_answer.range = from, free_after(from)
  end
  return last_answer.range
end

local function search_of(s, seq, at)
  return {s = s, size = 2 ^ seq, half = 2 ^ (s.node + s.seq - 1), at = at, lower = {}, upper = {}}
end

-- The first aligned block in [lo, limit) that is wholly free and not set aside.
local function next_block(f, lo, limit)
  while lo + f.size <= limit do
    local past = lo
    for _, a in ipairs(f.s.asides) do
      if a.lo < lo + f.size and lo < a.hi and in_force(a, f.at) then past = math.max(past, a.hi) end
    end
    if past == lo then
      local r = free_from(f.lower, lo)
      if not r then return nil end
      if r.lo <= lo and lo + f.size <= r.hi then return lo end
      past = r.lo > lo and r.lo or r.hi
    end
    if past >= limit then return nil end
    lo = math.ceil(past / f.size) * f.size
  end
end

local function twin_is_free(f, lo)
  local r = free_from(f.upper, lo + f.half)
  return r and r.lo <= lo + f.half and r.hi >= lo + f.half + f.size
end

-- From the cursor on, up to where K blocks lie behind it that this copy could grant. False: there are not that many.
local function set_range_aside(s, ends, part_lo, part_hi)
  local f = search_of(s, s.seq, store.copy)
  local cursor = s.cursor < f.half and s.cursor or 0
  local start = math.ceil(cursor / f.size) * f.size
  local wanted, count, stop = math.max(math.floor(f.half / f.size / 4), KZ__PLACE_BLOCKS), 0, cursor
  for round = 0, 1 do
    local lo = next_block(f, round == 0 and start or 0, round == 0 and f.half or start)
    while lo and count < wanted do
      if twin_is_free(f, lo) and not is_out(lo / f.size, f.half) and not (part_lo < lo + f.size and lo < part_hi) then
        count = count + 1
      end
      stop = lo + f.size + round * f.half
      lo = next_block(f, lo + f.size, round == 0 and f.half or start)
    end
  end
  if count < wanted then return false end
  aside_add(s, {lo = cursor, hi = math.min(stop, f.half), ends = ends, why = 'p', note = ''})
  if stop > f.half then aside_add(s, {lo = 0, hi = stop - f.half, ends = ends, why = 'p', note = ''}) end
  return true
end

local function info(section)
  local text = redis.pcall('INFO', section)
  return type(text) == 'string' and text or ''
end

-- Another copy took over: the predecessor is named, or it was a restart, or there were several steps. Siblings look
-- alike, so time tells the later one's generations from the earlier's. Whoever was restarted with a log of its writes
-- was away, which does not make it an older copy.
local function look_at_place()
  store.place = store.place or ''
  local text = info('replication')
  local id, before = string.match(text, 'master_replid:(%x+)'), string.match(text, 'master_replid2:(%x*)') or ''
  if not id or store.place == id then return end
  if store.place ~= '' then
    local restarted = string.find(before, '^0*$')
    store.before, store.since = store.since, math.max(now, store.since + 1)
    store.copy = store.high
    store.away = restarted and string.find(info('persistence'), 'aof_enabled:1') and '1' or '0'
    store.passed = (restarted or before == store.place) and 1 or 2
    generation = math.max(generation + store.passed * KZ__REDIS_ERA, now * 1000)
  end
  store.place = id
  write('HSET', STORE, 'place', id, 'generation', int(generation), 'since', int(store.since), 'before',
        int(store.before), 'copy', int(store.copy), 'passed', int(store.passed), 'margin', int(store.margin), 'away',
        store.away or '0')
end
look_at_place()

-- In every write to a service, before anything else, and kept whatever becomes of the call.
local function settle(s)
  if s.settled ~= store.since then
    local ends = store.since + KZ__TWIN_LEASES * s.lease + math.max(store.margin, s.lease)
    local old = store.away ~= '1' and store.since - store.copy > s.lease / 2
    local in_line = store.passed == 1 and s.settled == store.before and not old
    s.settled = store.since
    if ends > now then
      local part_lo, part_hi = part_of(s)
      if not in_line or not set_range_aside(s, ends, part_lo, part_hi) then
        aside_add(s, {lo = 0, hi = ALL, ends = ends, why = 'p', note = ''})
      elseif part_hi > 0 then
        aside_add(s, {lo = part_lo, hi = part_hi, ends = ends, why = 'p', note = ''})
        s.part = 1 - s.part
      end
    end
    write('HSET', KEYS[1], 'settled', int(s.settled), 'aside', aside_text(s), 'part', int(s.part))
  end
  commit()
end

-- What "OK" is followed by: the time, the generation, the birth of the table; until when a change of place counts.
local function head(s)
  local ends = 0
  for _, a in ipairs(s.asides) do
    if a.why == 'p' and in_force(a, now) then ends = math.max(ends, a.ends) end
  end
  return {'OK', int(now), int(generation), s.born, int(ends)}
end
