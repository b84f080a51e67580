/* The scripts of the TSID slots, in Lua: each operation is one atomic script and one round trip.
 *
 *   <prefix>sys:tsid:node:N   string with a TTL: node N is taken. Ours is "kazahana TOKEN START HOLDER"; whatever else
 *                             stands there is somebody else's (Java instances write LOCKED)
 *   <prefix>sys:tsid:floor    hash: for each node the end of the last window granted on it, Unix ms. Never removed, so
 *                             that no window begins before it even if Redis' clock was set back
 *
 * A window ends `margin` before its key does: a neighbour that knows of keys only, and whose clock is a little behind,
 * finds the key taken until then. */
#ifndef KZ_SOURCES_TSID_LUA_H
#define KZ_SOURCES_TSID_LUA_H

/* clang-format off */

/* What every script begins with. */
static const char tsid_begin[] =
    "-- KEYS[1] is <prefix>sys:tsid:floor; the slots' keys are made from it. All is checked before anything is written.\n"
    "local NODES = 1024\n"
    "local base = string.sub(KEYS[1], 1, -6) .. 'node:'\n"
    "\n"
    "local function int(n) return string.format('%.0f', n) end\n"
    "local function num(text, what)\n"
    "  local n = tonumber(text)\n"
    "  if not n then error('KZDAMAGED ' .. what) end\n"
    "  return n\n"
    "end\n"
    "\n"
    "local clock = redis.call('TIME')\n"
    "local now = num(clock[1], 'TIME') * 1000 + math.floor(num(clock[2], 'TIME') / 1000)\n"
    "\n"
    "-- MGET takes a key of another type for absent, where GET would fail.\n"
    "local function value_of(key) return redis.call('MGET', key)[1] end\n"
    "local function token_of(value) return value and string.match(value, '^kazahana (%x+) ') end\n"
    "\n"
    "local function read_all()\n"
    "  local keys, fields = {}, {}\n"
    "  for n = 0, NODES - 1 do keys[n + 1], fields[n + 1] = base .. n, n end\n"
    "  local floors = redis.call('HMGET', KEYS[1], unpack(fields))\n"
    "  for i = 1, NODES do floors[i] = num(floors[i] or '0', 'floor') end\n"
    "  return keys, redis.call('MGET', unpack(keys)), floors\n"
    "end\n";

/* Takes the first slot that is free. */
static const char tsid_claim[] =
    "-- ARGV: the token, the length of the window, how much longer the key lasts, who asks.\n"
    "local token, window, margin, holder = ARGV[1], num(ARGV[2], 'window'), num(ARGV[3], 'margin'), ARGV[4]\n"
    "local keys, values, floors = read_all()\n"
    "\n"
    "-- Asked before, and the answer was lost: the same slot, for as long as if it were asked for now.\n"
    "for i = 1, NODES do\n"
    "  if token_of(values[i]) == token then\n"
    "    local ends = math.max(floors[i], now + window)\n"
    "    local start = num(string.match(values[i], '^kazahana %x+ (%d+)'), 'slot')\n"
    "    redis.call('PEXPIRE', keys[i], int(ends + margin - now))\n"
    "    redis.call('HSET', KEYS[1], int(i - 1), int(ends))\n"
    "    return {'OK', int(now), int(i - 1), int(start), int(ends)}\n"
    "  end\n"
    "end\n"
    "\n"
    "local start, fenced = now + 1, 0\n"
    "for i = 1, NODES do\n"
    "  if not values[i] and floors[i] > start then\n"
    "    fenced = fenced + 1\n"
    "  elseif not values[i] and redis.call('SET', keys[i], 'kazahana ' .. token .. ' ' .. int(start) .. ' ' .. holder, 'NX',\n"
    "                                      'PX', int(window + margin)) then\n"
    "    redis.call('HSET', KEYS[1], int(i - 1), int(now + window))\n"
    "    return {'OK', int(now), int(i - 1), int(start), int(now + window)}\n"
    "  end\n"
    "end\n"
    "return {'FULL', int(fenced)}\n";

/* Is the slot still ours? Makes its window longer if that is wanted. */
static const char tsid_keep[] =
    "-- ARGV: node, token, what the key says, the end that its holder knows of, the length of the new window ('0': only\n"
    "-- look), how much longer the key lasts.\n"
    "local key, known, window = base .. ARGV[1], num(ARGV[4], 'end'), num(ARGV[5], 'window')\n"
    "local value, floor = value_of(key), redis.call('HGET', KEYS[1], ARGV[1])\n"
    "local mine = token_of(value) == ARGV[2]\n"
    "-- A store that knows nothing at all of the slot has lost its memory (restarted without it, flushed): nobody else was\n"
    "-- granted the node since, or its floor would be there. So it is told again.\n"
    "local forgotten = not floor and now < known and redis.call('EXISTS', key) == 0\n"
    "if not mine and not forgotten then return {'LOST', int(now)} end\n"
    "local ends = math.max(known, floor and num(floor, 'floor') or 0, window > 0 and now + window or 0)\n"
    "if not mine or not floor or ends > num(floor, 'floor') then\n"
    "  redis.call('SET', key, ARGV[3], 'PX', int(math.max(ends - now, 0) + num(ARGV[6], 'margin')))\n"
    "  redis.call('HSET', KEYS[1], ARGV[1], int(ends))\n"
    "end\n"
    "return {'OK', int(now), int(ends)}\n";

/* Gives the slot back. */
static const char tsid_release[] =
    "-- ARGV: node, token, the last time that may have been used. The floor comes down to that, never below the start.\n"
    "local key = base .. ARGV[1]\n"
    "local value, floor = value_of(key), redis.call('HGET', KEYS[1], ARGV[1])\n"
    "if token_of(value) ~= ARGV[2] then return {'NOTFOUND'} end\n"
    "local ends = math.max(num(ARGV[3], 'timestamp') + 1, num(string.match(value, '^kazahana %x+ (%d+)'), 'slot'))\n"
    "if floor then ends = math.min(ends, num(floor, 'floor')) end\n"
    "redis.call('DEL', key)\n"
    "redis.call('HSET', KEYS[1], ARGV[1], int(ends))\n"
    "return {'OK', int(now)}\n";

/* Who holds what, without the tokens. */
static const char tsid_list[] =
    "-- The time, how many slots are free, then of each that is taken: node, since when and until when ('0': not known, no\n"
    "-- end), and by whom.\n"
    "local keys, values, floors = read_all()\n"
    "local out, free = {'OK', int(now), '0'}, 0\n"
    "for i = 1, NODES do\n"
    "  if values[i] then\n"
    "    local start, holder = string.match(values[i], '^kazahana %x+ (%d+) (.*)$')\n"
    "    local left = redis.call('PTTL', keys[i])\n"
    "    out[#out + 1] = int(i - 1)\n"
    "    out[#out + 1] = start and #start < 16 and start or '0'\n"
    "    out[#out + 1] = left >= 0 and int(now + left) or '0'\n"
    "    out[#out + 1] = string.gsub(string.sub(holder or values[i], 1, 255), '%c', '?')\n"
    "  elseif floors[i] <= now + 1 then\n"
    "    free = free + 1\n"
    "  end\n"
    "end\n"
    "out[3] = int(free)\n"
    "return out\n";

/* clang-format on */

#endif
