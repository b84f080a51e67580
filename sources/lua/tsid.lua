-- The TSID slots: each operation is one atomic script and one round trip.
--
--   <prefix>sys:tsid:node:N   string with a TTL: node N is taken. Ours is "kazahana TOKEN START HOLDER"; whatever else
--                             stands there is somebody else's (Java instances write LOCKED)
--   <prefix>sys:tsid:floor    hash: for each node the end of the last window granted on it, Unix ms. Never removed, so
--                             that no window begins before it even if Redis' clock was set back
--
-- A window ends `margin` before its key does: a neighbour that knows of keys only, and whose clock is a little behind,
-- finds the key taken until then.
--
-- KEYS[1] is <prefix>sys:tsid:floor; the slots' keys are made from it. All is checked before anything is written.
local base = string.sub(KEYS[1], 1, -6) .. 'node:'

-- MGET takes a key of another type for absent, where GET would fail.
local function value_of(key) return redis.call('MGET', key)[1] end
local function token_of(value) return value and string.match(value, '^kazahana (%x+) ') end

local function read_all()
  local keys, fields = {}, {}
  for n = 0, KZ__TSID_NODES - 1 do keys[n + 1], fields[n + 1] = base .. n, n end
  local floors = redis.call('HMGET', KEYS[1], unpack(fields))
  for i = 1, KZ__TSID_NODES do floors[i] = num(floors[i] or '0', 'floor') end
  return keys, redis.call('MGET', unpack(keys)), floors
end
