// A client of Redis in a few lines, with the calls that the document's provider makes.
import * as net from 'net';

export const ACQUIRE_SCRIPT = `
local maxMachineId = tonumber(ARGV[1])
local names = { 'maxMachineId', 'now', 'expired', 'secret', 'serviceId', 'holder', 'count' }
local given = ARGV
local ARGV = {}
for i, name in ipairs(names) do ARGV[name] = given[i] end
-- ラウンドロビン方式で空きIDを探索してアトミックに確保
-- 前回割り当てたID+1から開始し、全体を均等に使用する
local lastId = redis.call("GET", "lease:last_assigned") or -1
lastId = tonumber(lastId)
local start = (lastId + 1) % (maxMachineId + 1)
local count = tonumber(ARGV.count)  -- 要求リース数
local results = {}

for i = 0, maxMachineId do
  local id = (start + i) % (maxMachineId + 1)
  local key = "lease:" .. id
  local expires = redis.call("HGET", key, "expired")
  if not expires or tonumber(expires) < tonumber(ARGV.now) then
    local secret = ARGV.secret .. "_" .. #results
    redis.call("HMSET", key,
      "serviceId", ARGV.serviceId,
      "secret", secret,
      "expired", ARGV.expired,
      "holder", ARGV.holder,
      "createdAt", ARGV.now
    )
    redis.call("SET", "lease:last_assigned", id)
    table.insert(results, {id, secret})

    if #results >= count then
      break
    end
  end
end

if #results == 0 then
  return nil  -- 空きなし
end
return results
`;

export interface Redis {
  evalScript(script: string, keys: number, ...args: (string | number)[]): Promise<any>;
  hget(key: string, field: string): Promise<string | null>;
  del(key: string): Promise<number>;
  end(): void;
}

function read(text: string, at: { i: number }): any {
  const end = text.indexOf('\r\n', at.i);
  if (end < 0) throw new RangeError('more to come');
  const [kind, rest] = [text[at.i], text.slice(at.i + 1, end)];
  at.i = end + 2;
  if (kind === '-') return new Error(rest);
  if (kind === '+') return rest;
  if (kind === ':') return Number(rest);
  const length = Number(rest);
  if (length < 0) return null;
  if (kind === '*') return Array.from({ length }, () => read(text, at));
  if (text.length < at.i + length + 2) throw new RangeError('more to come');
  at.i += length + 2;
  return text.slice(at.i - length - 2, at.i - 2);
}

export async function connect(port: number): Promise<Redis> {
  const socket = net.connect(port, '127.0.0.1');
  const waiting: ((answer: any) => void)[] = [];
  let text = '';
  socket.on('data', (data) => {
    text += data;
    try {
      while (text) {
        const at = { i: 0 };
        const answer = read(text, at);
        text = text.slice(at.i);
        waiting.shift()!(answer);
      }
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
  });
  const ask = (...words: (string | number)[]) => new Promise<any>((resolve, reject) => {
    waiting.push((answer) => (answer instanceof Error ? reject(answer) : resolve(answer)));
    socket.write(`*${words.length}\r\n` + words.map((word) => `$${Buffer.byteLength(String(word))}\r\n${word}\r\n`).join(''));
  });
  return {
    evalScript: (script, keys, ...args) => ask('EVAL', script, keys, ...args),
    hget: (key, field) => ask('HGET', key, field),
    del: (key) => ask('DEL', key),
    end: () => socket.end(),
  };
}
