// Answers the name of a generator with the nanoseconds of processor time for one of its IDs.
import { randomUUID } from 'node:crypto';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import path from 'node:path';

const [work, kazahanaPath] = process.argv.slice(2);
const require = createRequire(path.join(work, 'package.json'));
const { KazahanaClient, toExternalId } = createRequire(import.meta.url)(kazahanaPath);

const LEAST_MS = 40; // a round is at least this long

// 22 bits of sequence: no round uses a millisecond up.
const client = new KazahanaClient({ source: 'static:0', layout: '41-1-22@2026-01-01' });
await client.ready();
const array = new BigUint64Array(1024);

let sink; // so that nothing is optimised away
const each = (call) => (count) => {
  for (let i = 0; i < count; i++) sink = call();
};
const batches = (call) => (count) => {
  for (let i = 0; i < count; i += 1024) sink = call();
};
// A package that is not there is named when it is asked for.
const peer = (name, make) => () => make(require(name));

const generators = {
  hrtime: () => each(() => process.hrtime.bigint()),
  date: () => each(() => Date.now()),
  nextIdSync: () => each(() => client.nextIdSync()),
  nextIds: () => batches(() => client.nextIds(1024)),
  nextIdsInto: () => batches(() => client.nextIds(array)),
  nextId: () => async (count) => {
    for (let i = 0; i < count; i++) sink = await client.nextId();
  },
  text: () => each(() => client.nextIdSync().toString()),
  external: () => each(() => toExternalId(client.nextIdSync())),
  randomUUID: () => each(() => randomUUID()),
  sapphire: peer('@sapphire/snowflake', ({ Snowflake }) => {
    const snowflake = new Snowflake(1767225600000n);
    return each(() => snowflake.generate());
  }),
  'nodejs-snowflake': peer('nodejs-snowflake', ({ Snowflake }) => {
    const snowflake = new Snowflake({ custom_epoch: 1767225600000, instance_id: 1 });
    return each(() => snowflake.getUniqueID());
  }),
  'tsid-ts': peer('tsid-ts', ({ getTsid }) => each(() => getTsid().number)),
  nanoid: peer('nanoid', ({ nanoid }) => each(() => nanoid())),
  uuidv7: peer('uuid', ({ v7 }) => each(() => v7())),
  ulid: peer('ulid', ({ monotonicFactory }) => {
    const ulid = monotonicFactory();
    return each(() => ulid());
  }),
};

const made = {};
const counts = {};

async function measure(name) {
  made[name] ??= generators[name]();
  counts[name] ??= 20480;
  for (;;) {
    const before = process.cpuUsage();
    await made[name](counts[name]);
    const { user, system } = process.cpuUsage(before);
    if (user + system >= LEAST_MS * 1000) return ((user + system) * 1000) / counts[name];
    counts[name] *= 2;
  }
}

console.log('ready');
for await (const name of createInterface({ input: process.stdin })) {
  try {
    console.log(await measure(name));
  } catch (error) {
    console.log(`not measured: ${String(error.message).split('\n')[0]}`);
  }
}
await client.shutdown();
