-- The lease table: the rules of core/table.h, each operation one atomic script. What they share.
--
--   <base>lease:N         hash: a lease, or the twin with that number (serviceId, secret, expired, ...)
--   <base>lease:N:twin    hash: a twin whose number is that of a lease of another height
--   <base>lease:service   hash: the settings, the highest time answered, the cursor
--   <base>lease:last_assigned       the node assigned last
--   <base>lease:free                sorted set of free ranges "lo:hi", by hi
--   <base>lease:out, lease:twins    sorted sets of the rows that are out, "lo:hi:node", by end
--   <base>lease:nodes               sorted set of the leases' numbers, for listings
--   <base>lease:request:HEX         the nodes that a request got; ends with the leases
--   <prefix>lease:services          set of all services' names
--   <prefix>lease:generation        grows with every write to any of them: a server answers for all services at once
--
-- where <base> is the prefix, and for a service other than "default" its name and a colon.
--
-- KEYS[1] is <base>lease:service, KEYS[2] the set of all services; every other key is made from these two, which in a
-- cluster carry the {tag}. Nothing is written before commit(): Redis does not undo what a failed script has written.
local base = string.sub(KEYS[1], 1, -8)
local FREE, LEASES, TWINS, NODES = base .. 'free', base .. 'out', base .. 'twins', base .. 'nodes'
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

local wall = now
local generation = num(redis.call('GET', GENERATION) or '0', 'generation')

-- The service's settings and what the table remembers; nil if there is none yet.
local function read_service(name)
  local s = load(KEYS[1])
  if not s.name then return nil end
  if s.name ~= name then return nil, {'NAME', s.name} end
  for _, field in ipairs({'epoch', 'time', 'node', 'seq', 'lease', 'max', 'high_blocks', 'granted', 'cursor',
                          'high', 'embargo'}) do
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
  write('HSET', KEYS[1], 'high', int(s.high), 'cursor', int(s.cursor), 'granted', int(s.granted))
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
