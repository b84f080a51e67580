-- after: begin table rows place candidates
-- ARGV: service, node, the secret that the signature was checked with, the watermark.
local s, refusal = read_service()
if refusal then return refusal end
if s then settle(s) end
local floor, first = num(ARGV[4], 'timestamp') + 1, nil
for _, h in ipairs(s and candidates(s, num(ARGV[2], 'node')) or {}) do
  -- A lease and its twin share the secret, and end together.
  if h.secret == ARGV[3] then
    first = first or h
    local ends = math.min(math.max(floor, num(h.createdAt, 'createdAt')), num(h.expired, 'expired'))
    write('HSET', h.key, 'expired', int(ends), 'released', '1')
    write('ZADD', h.set, int(ends), member_of(h.lo, num(h.hi, 'hi'), h.node))
  end
end
if not first then return {'NOTFOUND'} end
save()
commit()
return head(s)
