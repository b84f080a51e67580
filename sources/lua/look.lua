-- after: begin table rows candidates
-- ARGV: service, node. The time, and the secrets that a release of that number may be signed with.
local s, refusal = read_service()
if refusal then return refusal end
local out = {'OK', int(now)}
for _, h in ipairs(s and candidates(s, num(ARGV[2], 'node')) or {}) do out[#out + 1] = h.secret end
return out
