-- For the scripts that may make a service. ARGV begins with: service; epoch, time, node, seq, lease, max for a new one; flags; what was seen before.
local name, wanted = ARGV[1], {epoch = num(ARGV[2], 'epoch'), time = num(ARGV[3], 'time'), node = num(ARGV[4], 'node'),
                               seq = num(ARGV[5], 'seq')}
local quarantine, given, fixed = string.find(ARGV[8], 'q'), string.find(ARGV[8], 'g'), string.find(ARGV[8], 'f')

-- A new service: its settings and its free space, also if nothing is granted, so that a quarantine ends.
local function create()
  if fixed then return nil, {'NOSERVICE'} end
  if redis.call('EXISTS', FREE, LEASES, TWINS) > 0 then return nil, {'HEADLESS'} end
  local s = {name = name, epoch = wanted.epoch, time = wanted.time, node = wanted.node, seq = wanted.seq,
             lease = num(ARGV[6], 'lease'), max = num(ARGV[7], 'max'), high_blocks = 0, granted = 0, cursor = 0,
             high = now, refused = 0, embargo = 0, last = -1,
             born = clock[1] .. string.format('%06d', num(clock[2], 'TIME'))}
  -- After a quarantine nobody holds anything of the store before: its generations are over, and ours lie above.
  if quarantine then
    s.embargo, generation = now + KZ__TWIN_LEASES * s.lease, math.max(generation, num(s.born, 'born'))
    write('SET', GENERATION, int(generation))
  end
  write('HSET', KEYS[1], 'name', name, 'epoch', int(s.epoch), 'time', int(s.time), 'node', int(s.node), 'seq',
        int(s.seq), 'lease', int(s.lease), 'max', int(s.max), 'high_blocks', '0', 'embargo', int(s.embargo), 'born',
        s.born, 'high', int(now), 'cursor', '0', 'granted', '0', 'last', '-1')
  make_space(s)
  write('ZADD', KEYS[2], 0, name)
  commit()
  writes = {}
  return s
end

local s, refusal = read_service(name)
if not refusal and (s or not quarantine) then refusal = went_back(s, num(ARGV[9], 'seen'), ARGV[10]) end
if refusal then return refusal end
