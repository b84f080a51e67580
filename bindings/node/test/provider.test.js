// Providers written in JavaScript, and what can go wrong with them.
'use strict';

const assert = require('node:assert');
const { test } = require('node:test');
const { kazahana, client, until, assertIncreasing, assertUnique, PlainProvider } = require('./support.js');

kazahana.setLog(() => {}); // failures are the point here

test('several clients of one provider, across many short leases, give no ID twice', async (t) => {
  const provider = new PlainProvider(300);
  const clients = Array.from({ length: 3 }, () => client(t, { provider }));
  const ids = clients.map(() => []);
  await until('each has had five leases', async () => {
    for (let round = 0; round < 100; round++) {
      for (const [i, one] of clients.entries()) ids[i].push(await one.nextId());
    }
    return clients.every((one) => one.stats().leasesAcquired >= 5);
  });
  ids.forEach(assertIncreasing);
  assertUnique(ids);
});

test('clients that come and go, on a provider that forgets a lease at its release, give no ID twice', async () => {
  // Of one node, so that each gets it from the one before, often within a millisecond.
  const provider = new PlainProvider();
  const { acquire } = provider;
  provider.acquire = function (options) {
    this.lastAssigned = -1;
    return acquire.call(this, options);
  };
  const ids = [];
  for (let i = 0; i < 60; i++) {
    const one = new kazahana.KazahanaClient({ provider });
    ids.push([await one.nextId(), ...one.nextIds(20)]);
    await one.shutdown();
  }
  assertUnique(ids);
  assert(ids.every((list) => kazahana.decodeId(list[0]).node === 0));
  assert.strictEqual(provider.leases.size, 0);
});

test('what the provider is asked, and what it gets back at the end', async () => {
  const asked = [];
  const provider = new PlainProvider();
  const { acquire, release } = provider;
  provider.acquire = (options) => asked.push(options) && acquire.call(provider, options);
  provider.release = (options) => asked.push(options) && release.call(provider, options);
  const one = new kazahana.KazahanaClient({ provider, serviceId: 'pay', maxThroughputPerMs: 1024 });
  const id = await one.nextId();
  assert.strictEqual(one.stats().leases, 4);
  await one.shutdown();
  const [{ requestId, meta, ...rest }, ...releases] = asked;
  assert.deepStrictEqual(rest, { serviceId: 'pay', throughputPerMs: 1024 });
  assert.match(requestId, /^[0-9a-f]{32}$/);
  assert.strictEqual(meta.pid, String(process.pid));
  assert.strictEqual(releases.length, 4);
  for (const { timestamp } of releases) assert(timestamp >= kazahana.decodeId(id).time.getTime());
  assert.strictEqual(provider.leases.size, 0);
});

test('a provider that refuses: strict fails at once with its error, otherwise callers wait for a lease', async (t) => {
  const down = new Error('down');
  const provider = new PlainProvider();
  const { acquire } = provider;
  let left = 2;
  provider.acquire = (options) => (left-- > 0 ? Promise.reject(down) : acquire.call(provider, options));
  const strict = client(t, { provider, disableFallback: true });
  await assert.rejects(strict.nextId(), (error) => {
    assert(error instanceof kazahana.LeaseAcquisitionError);
    assert.strictEqual(error.cause, down);
    return true;
  });
  assert.strictEqual(left, 1);
  const patient = client(t, { provider, acquireRetryInterval: 10, timeoutMs: -1 });
  assert(await patient.nextId());
  assert.strictEqual(left, -1);
  assert(await strict.nextId()); // the next call asks again
});

test('a provider that throws, or answers nonsense, is an error and no crash', async (t) => {
  const good = (await new PlainProvider().acquire({})).leases[0];
  const answers = [
    () => { throw new Error('at once'); },
    async () => undefined,
    async () => ({ leases: [] }),
    async () => ({ leases: [good, good] }),
    async () => ({ leases: [{ ...good, id: 8192 }] }),
    async () => ({ leases: [{ ...good, id: '7' }] }),
    async () => ({ leases: [{ ...good, bitSeq: 9 }] }),
    async () => ({ leases: [{ ...good, expired: good.created }] }),
    async () => ({ leases: [{ ...good, created: NaN }] }),
    async () => ({ leases: [{ ...good, secret: 'x'.repeat(65) }] }),
    async () => ({ leases: [{ ...good, fallbackCreated: 5 }] }),
    async () => ({ leases: [good], serverTime: good.expired }),
    async () => ({ leases: [good], requestId: 'another' }),
    async () => ({ leases: Array.from({ length: 257 }, (_, id) => ({ ...good, id })) }),
  ];
  for (const acquire of answers) {
    const one = client(t, { provider: { acquire, release: async () => {} }, disableFallback: true });
    await assert.rejects(one.nextId(), (error) => {
      assert(error instanceof kazahana.LeaseAcquisitionError, String(error));
      assert(error.cause instanceof Error);
      return true;
    });
    await one.shutdown();
  }
});

test('a provider with another epoch than before is refused', async (t) => {
  const provider = new PlainProvider(200);
  const one = client(t, { provider, acquireRetryInterval: 20, acquireRetryMaxInterval: 20, timeoutMs: 0 });
  await one.ready();
  const first = one.nextIdSync();
  provider.config.customEpoch += 1000;
  await until('the lease is over', async () => one.nextId().then((id) => !assert(id > first), () => true));
  await until('the failure says why', async () => one.nextId().then(() => false, (error) =>
    error instanceof kazahana.LeaseAcquisitionError && /MISMATCH/.test(String(error.cause.code))));
});

test('an answer that comes when nobody waits any more is used by the next try, or given back', async (t) => {
  const provider = new PlainProvider();
  const { acquire } = provider;
  let answer;
  provider.acquire = (options) => new Promise((resolve) => {
    answer = () => resolve(acquire.call(provider, options));
  });
  // Half of the timeout is for one exchange: the first errand is given up, the keeper asks again.
  const one = new kazahana.KazahanaClient({ provider, timeoutMs: 400, acquireRetryInterval: 10 });
  await assert.rejects(one.nextId(), { code: 'KZ_TIMEOUT' });
  answer();
  await until('the client has the lease or has given up', async () =>
    one.nextId().then(() => true, () => provider.calls.acquire === 0 || (answer(), false)));
  await one.shutdown();
  await until('everything was given back', () => provider.leases.size === 0);
});

test('a silent provider: callers time out, and a shutdown does not wait for it', async () => {
  const provider = { acquire: () => new Promise(() => {}), release: () => new Promise(() => {}) };
  const one = new kazahana.KazahanaClient({ provider, timeoutMs: 300 });
  await assert.rejects(one.nextId(), { code: 'KZ_TIMEOUT' });
  const two = new kazahana.KazahanaClient({ provider, timeoutMs: -1 });
  const waiting = assert.rejects(two.nextId(), { code: 'KZ_CLOSED' });
  await Promise.all([one.shutdown(), two.shutdown(), waiting]);
});

test('calls that block say that a provider needs the loop, and never wait for it', async (t) => {
  const one = client(t, { provider: new PlainProvider() });
  assert.throws(() => one.nextIdSync(), { code: 'KZ_AGAIN', message: /ready/ });
  await one.ready();
  assertIncreasing([one.nextIdSync(), ...one.nextIds(2000)]);
});

test('a provider that tells its time and its fallback window is taken at its word', async (t) => {
  const plain = new PlainProvider(300);
  let silent = false;
  let times = 0;
  const provider = {
    acquire: async (options) => {
      if (silent) throw new Error('down');
      const { leases } = await plain.acquire(options);
      const serverTime = Date.now();
      return { serverTime, generation: 7, requestId: options.requestId, leases: leases.map((lease) => (
        { ...lease, fallbackCreated: lease.created, fallbackExpired: lease.expired + 3600000 })) };
    },
    release: (options) => plain.release(options),
    now: async () => ({ serverTime: Date.now(), generation: 7, times: ++times }),
  };
  const one = client(t, { provider });
  const ids = [await one.nextId()];
  silent = true;
  await until('IDs are fallback ones', async () => {
    ids.push(await one.nextId());
    return kazahana.decodeId(ids.at(-1)).fallback;
  });
  assertIncreasing(ids);
  assert(one.stats().idsFenced > 0);
});

test('a timer fires as promptly beside callers that wait for a silent provider as beside none', async (t) => {
  const late = async () => {
    const worst = [];
    for (let i = 0; i < 60; i++) {
      const before = performance.now();
      await new Promise((resolve) => setTimeout(resolve, 10));
      worst.push(performance.now() - before - 10);
    }
    return worst.sort((a, b) => a - b)[Math.floor(worst.length * 0.8)];
  };
  const provider = { acquire: () => new Promise(() => {}), release: async () => {} };
  const one = new kazahana.KazahanaClient({ provider, timeoutMs: -1 });
  t.after(() => one.shutdown());
  // The machine's own lateness counts for both; whoever blocked the loop for an answer would block it for seconds.
  let alone = await late();
  const waiting = Array.from({ length: 1000 }, () => one.nextId().catch(() => {}));
  const beside = await late();
  alone = Math.max(alone, await late());
  assert(beside <= 20 + 2 * alone, `${beside} ms late beside waiting callers, ${alone} ms alone`);
  await one.shutdown();
  await Promise.all(waiting);
});
