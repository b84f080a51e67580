-- The lease table: the rules of core/table.h, each operation one atomic script. What they share.
--
--   <base>lease:N         hash: a lease, or the twin with that number (serviceId, secret, expired, ...). It can also be
--                         that of another provider, who knows these hashes and lease:last_assigned, and nothing else
--   <base>lease:N:twin    hash: a twin whose number is that of a lease of another height
--   <base>lease:service   hash: the settings, the cursor, what is set aside (text, as in core/aside.c)
--   <base>lease:last_assigned       the node assigned last
--   <base>lease:free                sorted set of free ranges "lo:hi", by hi
--   <base>lease:out, lease:twins    sorted sets of the rows that are out, "lo:hi:node", by end
--   <base>lease:nodes               sorted set of the leases' numbers, for listings
--   <base>lease:foreign             sorted set of the numbers that another provider was seen to hold, by end
--   <base>lease:request:HEX         the nodes that a request got; ends with the leases
--   <prefix>lease:services          sorted set of all services' names, by name
--   <prefix>lease:store             hash: of the whole store, the generation, which grows with every write; the highest
--                                   time answered; its place, as in core/place.h
--
-- where <base> is the prefix, and for a service other than "default" its name and a colon.
--
-- KEYS[1] is <base>lease:service, KEYS[2] the set of all services; every other key is made from these two, which in a
-- cluster carry the {tag}. ARGV[1] is the service and the caller's clock. Nothing is written before commit(): Redis does not undo what a failed script has written.
local base = string.sub(KEYS[1], 1, -8)
local FREE, LEASES, TWINS, NODES = base .. 'free', base .. 'out', base .. 'twins', base .. 'nodes'
local LAST, FOREIGN, STORE = base .. 'last_assigned', base .. 'foreign', string.sub(KEYS[2], 1, -9) .. 'store'
local NAME, WITNESS = string.match(ARGV[1], '^(%S+) (%d+)$')

local writes = {}
local function write(...) writes[#writes + 1] = {...} end
local function commit()
  for _, w in ipairs(writes) do redis.call(unpack(w)) end
  writes = {}
end

local function load(key)
  local flat, h = redis.call('HGETALL', key), {}
  for i = 1, #flat, 2 do h[flat[i]] = flat[i + 1] end
  return h
end

-- A hash of ours says its secret twice: who takes the number over when our lease has ended writes over one of them, and
-- leaves our fields in place.
local function is_mine(h) return h.lo and h.mine == h.secret end

-- The first slot of the row that has this hash; or nil, and when another provider's lease there is over. Its clients go
-- by their own clocks, and use the last millisecond too.
local function owner(key)
  local h = redis.call('HMGET', key, 'lo', 'secret', 'mine', 'expired')
  if h[1] and h[2] == h[3] then return num(h[1], 'lo') end
  local ends = h[4] and math.min(tonumber(h[4]) or 2 ^ 52, 2 ^ 52) + KZ__REDIS_FOREIGN_MS
  return nil, ends and ends > now and ends or nil
end

-- The number assigned last, by whoever.
local function last_assigned() return tonumber(redis.call('GET', LAST) or nil) or -1 end

local wall, store = now, load(STORE)
for _, field in ipairs({'generation', 'high', 'since', 'before', 'copy', 'passed', 'margin'}) do
  store[field] = num(store[field] or (field == 'margin' and KZ__PLACE_MARGIN_MS) or '0', field)
end
local generation = store.generation
if now < store.high then now = store.high end
-- One clock that leaps by more than a day needs another one that says the same: time never goes back.
if store.high > 0 and wall - store.high > KZ__REDIS_AHEAD_MS and num(WITNESS, 'clock') < wall - KZ__REDIS_AHEAD_MS then
  return {'AHEAD', int(wall - store.high)}
end

-- The service's settings and what the table remembers; nil if there is none yet.
local function read_service()
  local s = load(KEYS[1])
  if not s.name then return nil end
  if s.name ~= NAME then return nil, {'NAME', s.name} end
  for _, field in ipairs({'epoch', 'time', 'node', 'seq', 'lease', 'max', 'high_blocks', 'granted', 'cursor', 'last',
                          'settled', 'part'}) do
    s[field] = num(s[field], field)
  end
  s.refused = num(s.refused or '0', 'refused')
  s.asides = {}
  for why, lo, hi, ends, note in string.gmatch(s.aside or '', '(%l) (%d+) (%d+) (%d+) ([^\n]*)\n') do
    s.asides[#s.asides + 1] = {why = why, lo = num(lo), hi = num(hi), ends = num(ends), note = note}
  end
  return s
end

-- Refuses a store that is not the one seen before ('0': none): an older copy, or flushed. One that has begun a new era
-- knows that it may have forgotten something; one that was made anew under quarantine waits out all old leases.
local function went_back(s, seen, born)
  if born == '0' or math.floor(generation / KZ__REDIS_ERA) > math.floor(seen / KZ__REDIS_ERA) then return nil end
  if not s or (s.born == born and generation < seen) or (s.born ~= born and s.quarantined ~= '1') then
    return {'BACK', int(generation), int(seen)}
  end
end

-- Time does not go back: the highest time answered is kept with what is written.
local function save()
  generation = generation + 1
  write('HSET', STORE, 'generation', int(generation), 'high', int(now))
end

-- All slots of a service that has granted nothing, both halves.
local function make_space(s)
  local slots = int(2 ^ (s.node + s.seq))
  write('DEL', FREE)
  write('ZADD', FREE, slots, '0:' .. slots)
end

local function differs(s, wanted)
  if s.epoch ~= wanted.epoch or s.time ~= wanted.time or s.node ~= wanted.node or s.seq ~= wanted.seq then
    return {'MISMATCH', int(s.epoch), int(s.time), int(s.node), int(s.seq)}
  end
end
