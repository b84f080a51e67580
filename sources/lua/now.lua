-- after: begin table
-- ARGV: service, the generation and the birth seen before. An answered time is remembered like any other.
local s, refusal = read_service(ARGV[1])
refusal = refusal or went_back(s, num(ARGV[2], 'seen'), ARGV[3])
if refusal then return refusal end
if not s then return {'OK', int(now), int(generation), '0'} end
save(s)
commit()
return {'OK', int(now), int(generation), s.born}
