// A client on sources of the library: order, waiting, ends.
'use strict';

const assert = require('node:assert');
const path = require('node:path');
const { test } = require('node:test');
const { kazahana, client, folder, until, run, redis, leaseServer, assertIncreasing, assertUnique } =
  require('./support.js');

test('IDs increase, whichever way they are asked for', async (t) => {
  const ids = client(t, { source: 'memory:', serviceId: 'order' });
  const all = [await ids.nextId(), ids.nextIdSync(), ...ids.nextIds(1000), await ids.nextId(), ids.nextIdSync()];
  assertIncreasing(all);
  assert.strictEqual(ids.layout, '41-14-8@2026-01-01');
  assert(Math.abs(kazahana.decodeId(all[0]).time - Date.now()) < 60000);
});

test('callers that have to wait are served in their order', async (t) => {
  // 256 slots a millisecond: most of these wait.
  const ids = client(t, { source: 'static:3' });
  const got = await Promise.all(Array.from({ length: 5000 }, () => ids.nextId()));
  assertIncreasing(got);
  assert(ids.stats().sequenceExhausted > 0);
});

test('nextIds gives what was asked for, across milliseconds, and fills an array', (t) => {
  const ids = client(t, { source: 'static:4' });
  const lists = [1, 255, 256, 257, 3000, 10000].map((count) => {
    const list = ids.nextIds(count);
    assert.strictEqual(list.length, count);
    return list;
  });
  const own = new BigUint64Array(500);
  assert.strictEqual(ids.nextIds(own), own);
  assertIncreasing([...lists, own].flatMap((list) => [...list]));
  for (const wrong of [0, -1, 1.5, '3', undefined, 1 << 21, new BigUint64Array(0), new Float64Array(3)]) {
    assert.throws(() => ids.nextIds(wrong), { code: 'KZ_INVALID' });
  }
});

test('arrays of IDs do not overlap, also after one was sent away', (t) => {
  const ids = client(t, { source: 'static:1', layout: '41-1-22@2026-01-01' });
  const first = ids.nextIds(100);
  const before = [...first];
  const others = Array.from({ length: 300 }, () => ids.nextIds(100));
  assert.deepStrictEqual([...first], before);
  structuredClone(first, { transfer: [first.buffer] });
  others.push(ids.nextIds(100), ids.nextIds(100));
  assertUnique([before, ...others.filter((list) => list.length)]);
});

test('two clients of one fixed node share it; with other options the second is refused', async (t) => {
  const a = client(t, { source: 'static:6' });
  const b = client(t, { source: 'static:6' });
  const mixed = [];
  for (let i = 0; i < 500; i++) mixed.push(await a.nextId(), b.nextIdSync());
  assertIncreasing(mixed);
  const other = client(t, { source: 'static:6', maxBackwardMs: 1 });
  await assert.rejects(other.nextId(), { code: 'KZ_IN_USE' });
  await a.shutdown();
  assert(b.nextIdSync() > mixed.at(-1)); // one of them has left, the generator is still the other's
  await b.shutdown();
  assert(await other.nextId());
});

test('after the shutdown there are no IDs, and those who wait are told', async (t) => {
  const ids = client(t, { source: 'static:8' });
  await ids.ready();
  const waiting = Array.from({ length: 2000 }, () => ids.nextId());
  const results = Promise.allSettled(waiting);
  await ids.shutdown();
  const got = (await results).filter(({ status }) => status === 'fulfilled').map(({ value }) => value);
  assertIncreasing(got);
  for (const { status, reason } of await results) {
    if (status === 'rejected') assert.strictEqual(reason.code, 'KZ_CLOSED');
  }
  assert(got.length < 2000);
  await assert.rejects(ids.nextId(), { code: 'KZ_CLOSED' });
  assert.throws(() => ids.nextIdSync(), { code: 'KZ_CLOSED' });
  assert.throws(() => ids.nextIds(5), { code: 'KZ_CLOSED' });
  assert.strictEqual(ids.stats(), null);
  await ids.shutdown();
});

test('a client that never gave an ID can be shut down', async () => {
  await new kazahana.KazahanaClient({ source: 'memory:' }).shutdown();
  const opening = new kazahana.KazahanaClient({ source: 'memory:' });
  const ready = opening.ready();
  await opening.shutdown();
  await ready;
  await assert.rejects(opening.nextId(), { code: 'KZ_CLOSED' });
});

test('a timeout of 0 never waits', async (t) => {
  const ids = client(t, { source: 'static:9', timeoutMs: 0 });
  await ids.ready();
  const got = [];
  await assert.rejects(async () => {
    for (;;) got.push(ids.nextIdSync());
  }, { code: 'KZ_TIMEOUT' });
  assertIncreasing(got);
});

test('a layout that a service does not have is refused, naming both', async (t) => {
  const source = `sqlite:${path.join(folder(t), 'leases.db')}`;
  await client(t, { source }).nextId();
  await assert.rejects(client(t, { source, layout: '41-13-9@2020-01-01' }).nextId(),
    { code: 'KZ_MISMATCH', message: /41-13-9@2020-01-01/ });
});

test('a clock that went back is an error with the amount, or is waited for', async (t) => {
  const script = `
    const { KazahanaClient, ClockBackwardError } = require(process.env.KZ_PACKAGE);
    const fs = require('node:fs');
    const [file, maxBackwardMs] = process.argv.slice(-2);
    const client = new KazahanaClient({ source: 'static:1', maxBackwardMs: Number(maxBackwardMs), timeoutMs: 60000 });
    client.nextId().then(async (first) => {
      fs.writeFileSync(file, '-2\\n');
      await new Promise((resolve) => setTimeout(resolve, 50));
      try {
        const next = await client.nextId();
        console.log('later', next > first);
      } catch (error) {
        console.log(error instanceof ClockBackwardError, error.backwardMs > 0, error.limitMs);
      }
    });`;
  for (const [limit, said] of [['0', 'true true 0\n'], ['10', 'true true 10\n'], ['-1', 'later true\n']]) {
    const file = path.join(folder(t), 'clock');
    require('node:fs').writeFileSync(file, '+0\n');
    const lib = require('node:child_process').execFileSync('sh', ['-c',
      'faketime -f +0 sh -c "echo \\$LD_PRELOAD"']).toString().trim();
    const { out, err } = await run(t, script, { args: [file, limit], env: {
      LD_PRELOAD: lib, FAKETIME_TIMESTAMP_FILE: file, FAKETIME_NO_CACHE: '1', FAKETIME_DONT_FAKE_MONOTONIC: '1',
      FAKETIME_DONT_RESET: '1' } });
    assert.strictEqual(out, said, err);
  }
});

for (const kind of ['sqlite', 'redis', 'http']) {
  test(`${kind}: leases are taken, handed over and given back`, async (t) => {
    const url = kind === 'sqlite' ? `sqlite:${path.join(folder(t), 'leases.db')}?lease=2s`
      : kind === 'redis' ? `${(await redis(t)).url}?lease=2s` : (await leaseServer(t)).url;
    const a = client(t, { source: url });
    const b = client(t, { source: url, maxThroughputPerMs: 1024 });
    const ids = [[], []];
    await Promise.all([a.ready(), b.ready()]);
    await until('both have had a second lease', async () => {
      for (let i = 0; i < 50; i++) {
        ids[0].push(await a.nextId());
        ids[1].push(...b.nextIds(10));
      }
      return [a, b].every((one) => one.stats().leasesAcquired > one.stats().leases);
    });
    ids.forEach(assertIncreasing);
    assertUnique(ids);
    assert.strictEqual(b.stats().throughputPerMs, 1024);
    assert.strictEqual(b.stats().leases, 4);
    await a.shutdown();
    await b.shutdown();
  });
}

test('providers of the library can be asked by hand', async (t) => {
  const server = await leaseServer(t);
  const { url } = await redis(t);
  const providers = [new kazahana.MemoryLeaseProvider(), new kazahana.RedisLeaseProvider(url),
    new kazahana.SqliteLeaseProvider(path.join(folder(t), 'leases.db')), new kazahana.HttpLeaseProvider(server.url)];
  const { createHmac } = require('node:crypto');
  for (const provider of providers) {
    const { leases } = await provider.acquire({ throughputPerMs: 257 });
    assert.strictEqual(leases.length, 2);
    const { id, secret, created, expired, customEpoch, bitReserve, bitTs, bitId, bitSeq } = leases[0];
    assert(created < expired && secret.length > 0 && id >= 0 && id < 8192);
    assert.deepStrictEqual([customEpoch, bitReserve, bitTs, bitId, bitSeq], [1767225600000, 1, 41, 14, 8]);
    const timestamp = Date.now();
    const sign = (key) => createHmac('sha256', key).update(`${id}:${timestamp}`).digest('hex');
    await assert.rejects(provider.release({ id, timestamp, signature: sign('other') }), { code: 'KZ_FORBIDDEN' });
    await provider.release({ id, timestamp, signature: sign(secret) });
    await assert.rejects(provider.release({ id, timestamp, signature: sign(secret) }), { code: 'KZ_NOT_FOUND' });
  }
});

test('RedisLeaseProvider reads where a client of ioredis or node-redis is connected', () => {
  const source = (redis, config) => new kazahana.RedisLeaseProvider(redis, config).source;
  assert.strictEqual(source({ options: { host: 'h', port: 1, db: 2, password: 'p/w', username: 'u' } }),
    'redis://u:p%2Fw@h:1/2');
  assert.strictEqual(source({ options: { host: '::1', port: 1, keyPrefix: 'a:' } }), 'redis://[::1]:1/0?prefix=a%3A');
  assert.strictEqual(source({ options: { url: 'redis://h/3' } }), 'redis://h/3');
  assert.strictEqual(source({ options: { socket: { host: 'h', port: 5, tls: true }, database: 1 } }), 'rediss://h:5/1');
  assert.strictEqual(source({ options: { sentinels: [{ host: 'a', port: 1 }, { host: 'b' }], name: 'm', db: 0 } }),
    'redis+sentinel://a:1,b:26379/m/0');
  const config = { ...kazahana.DEFAULT_CONFIG, serviceId: 'pay', leaseDuration: 2000 };
  assert.strictEqual(source('redis://h/0', config), 'redis://h/0?service=pay&lease=2000ms');
  assert.throws(() => source({}), { code: 'KZ_INVALID' });
  assert.throws(() => source({ options: { path: '/run/redis.sock' } }), { code: 'KZ_UNSUPPORTED' });
});

test('a server with a token wants it, and several addresses are tried in turn', async (t) => {
  const file = path.join(folder(t), 'tokens');
  require('node:fs').writeFileSync(file, 'sesame-sesame-sesame-sesame\n');
  const { port } = await leaseServer(t, '--token-file', file);
  const refused = client(t, { source: `http://127.0.0.1:${port}`, disableFallback: true });
  await assert.rejects(refused.nextId(), (error) => {
    assert(error instanceof kazahana.LeaseAcquisitionError);
    assert.match(error.cause.message, /401.*token/);
    return true;
  });
  const dead = await require('./support.js').freePort();
  const allowed = client(t, { source: `http://127.0.0.1:${dead},127.0.0.1:${port}?token-file=${file}` });
  assert(await allowed.nextId());
  await allowed.shutdown();
});
