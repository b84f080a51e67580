-- after: begin table rows place
-- ARGV: service, the generation and the birth seen before. An answered time is remembered like any other, to the second:
-- what reads it often must not write as often.
local s, refusal = read_service()
if s then settle(s) end
refusal = refusal or went_back(s, num(ARGV[2], 'seen'), ARGV[3])
if refusal then return refusal end
if not s then return {'OK', int(now), int(generation), '0', '0'} end
if now - store.high >= KZ__REDIS_LIGHT_MS then
  save()
  commit()
end
return head(s)
