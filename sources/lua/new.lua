-- For the scripts that may make a service. ARGV begins with: service; epoch, time, node, seq, lease, max for a new one;
-- flags; what was seen before.
local wanted = {epoch = num(ARGV[2], 'epoch'), time = num(ARGV[3], 'time'), node = num(ARGV[4], 'node'),
                seq = num(ARGV[5], 'seq')}
local quarantine, given, fixed = string.find(ARGV[8], 'q'), string.find(ARGV[8], 'g'), string.find(ARGV[8], 'f')

-- A new service: its settings and its free space, also if nothing is granted, so that a quarantine ends. If the place
-- changed lately, its creation may be what was lost.
local function create()
  if fixed then return nil, {'NOSERVICE'} end
  if redis.call('EXISTS', FREE, LEASES, TWINS) > 0 then return nil, {'HEADLESS'} end
  local s = {name = NAME, epoch = wanted.epoch, time = wanted.time, node = wanted.node, seq = wanted.seq,
             lease = num(ARGV[6], 'lease'), max = num(ARGV[7], 'max'), high_blocks = 0, granted = 0, cursor = 0,
             refused = 0, last = -1, settled = store.before, part = 0, asides = {},
             quarantined = quarantine and '1' or '0',
             born = clock[1] .. string.format('%06d', num(clock[2], 'TIME'))}
  -- After a quarantine nobody holds anything of the store before: its generations are over, and ours lie above.
  if quarantine then
    aside_add(s, {lo = 0, hi = ALL, ends = now + KZ__TWIN_LEASES * s.lease, why = 'q', note = ''})
    generation = math.max(generation, num(s.born, 'born'))
  end
  write('HSET', KEYS[1], 'name', NAME, 'epoch', int(s.epoch), 'time', int(s.time), 'node', int(s.node), 'seq',
        int(s.seq), 'lease', int(s.lease), 'max', int(s.max), 'high_blocks', '0', 'born', s.born, 'cursor', '0',
        'granted', '0', 'last', '-1', 'settled', int(s.settled), 'part', '0', 'aside', aside_text(s), 'quarantined',
        s.quarantined)
  write('HSET', STORE, 'generation', int(generation), 'high', int(now))
  make_space(s)
  write('ZADD', KEYS[2], 0, NAME)
  commit()
  settle(s)
  return s
end

local s, refusal = read_service()
if s then settle(s) end
if not refusal and (s or not quarantine) then refusal = went_back(s, num(ARGV[9], 'seen'), ARGV[10]) end
if refusal then return refusal end
