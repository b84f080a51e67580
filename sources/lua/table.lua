-- The lease table: the rules of core/table.h, each operation one atomic script. What they share.
--
--   <base>lease:N         hash: a lease, or the twin with that number (serviceId, secret, expired, ...). It can also be
--                         that of another provider, who knows these hashes and lease:last_assigned, and nothing else
--   <base>lease:N:twin    hash: a twin whose number is that of a lease of another height
--   <base>lease:service   hash: the settings, the highest time answered, the cursor
--   <base>lease:last_assigned       the node assigned last
--   <base>lease:free                sorted set of free ranges "lo:hi", by hi
--   <base>lease:out, lease:twins    sorted sets of the rows that are out, "lo:hi:node", by end
--   <base>lease:nodes               sorted set of the leases' numbers, for listings
--   <base>lease:foreign             sorted set of the numbers that another provider was seen to hold, by end
--   <base>lease:request:HEX         the nodes that a request got; ends with the leases
--   <prefix>lease:services          sorted set of all services' names, by name
--   <prefix>lease:generation        grows with every write to any of them: a server answers for all services at once
--
-- where <base> is the prefix, and for a service other than "default" its name and a colon.
--
-- KEYS[1] is <base>lease:service, KEYS[2] the set of all services; every other key is made from these two, which in a
-- cluster carry the {tag}. Nothing is written before commit(): Redis does not undo what a failed script has written.
local base = string.sub(KEYS[1], 1, -8)
local FREE, LEASES, TWINS, NODES = base .. 'free', base .. 'out', base .. 'twins', base .. 'nodes'
local LAST, FOREIGN = base .. 'last_assigned', base .. 'foreign'
local GENERATION = string.sub(KEYS[2], 1, -9) .. 'generation'

local writes = {}
local function write(...) writes[#writes + 1] = {...} end
local function commit()
  for _, w in ipairs(writes) do redis.call(unpack(w)) end
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

local wall = now
local read = redis.call('MGET', GENERATION, LAST)
local generation, last = num(read[1] or '0', 'generation'), tonumber(read[2] or nil) or -1

-- The service's settings and what the table remembers; nil if there is none yet.
local function read_service(name)
  local s = load(KEYS[1])
  if not s.name then return nil end
  if s.name ~= name then return nil, {'NAME', s.name} end
  for _, field in ipairs({'epoch', 'time', 'node', 'seq', 'lease', 'max', 'high_blocks', 'granted', 'cursor',
                          'high', 'embargo', 'last'}) do
    s[field] = num(s[field], field)
  end
  s.refused = num(s.refused or '0', 'refused')
  if now < s.high then now = s.high end
  return s
end

-- Refuses a store that is not the one seen before ('0': none): an older copy, or flushed. One that was made anew under
-- quarantine waits out all old leases by itself.
local function went_back(s, seen, born)
  if born == '0' then return nil end
  if not s or (s.born == born and generation < seen) or (s.born ~= born and s.embargo == 0) then
    return {'BACK', int(generation), int(seen)}
  end
end

-- Time does not go back: the highest time answered is kept with what is written.
local function save(s)
  s.high = now
  generation = generation + 1
  write('HSET', KEYS[1], 'high', int(s.high), 'cursor', int(s.cursor), 'granted', int(s.granted),
        'last', int(s.last))
  write('SET', GENERATION, int(generation))
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
