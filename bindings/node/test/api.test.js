// The names that readers of the lease protocol's document use, and ours beside them.
'use strict';

const assert = require('node:assert');
const { test } = require('node:test');
const { kazahana, client, run } = require('./support.js');

test('every name is there for require and for import, and is the same', async () => {
  const names = ['KazahanaClient', 'HttpLeaseProvider', 'RedisLeaseProvider', 'MemoryLeaseProvider',
    'SqliteLeaseProvider', 'ClockBackwardError', 'LeaseAcquisitionError', 'NoProviderError', 'KazahanaError',
    'toExternalId', 'toInternalId', 'LIB_DEFAULT_EPOCH', 'DEFAULT_BIT_RESERVE', 'DEFAULT_BIT_TS', 'DEFAULT_BIT_ID',
    'DEFAULT_BIT_SEQ', 'DEFAULT_LEASE_DURATION', 'DEFAULT_ACQUIRE_THRESHOLD', 'DEFAULT_MAX_BACKWARD_MS',
    'DEFAULT_ACQUIRE_RETRY_INTERVAL', 'DEFAULT_ACQUIRE_RETRY_MAX_INTERVAL', 'DEFAULT_MAX_THROUGHPUT_PER_MS',
    'DEFAULT_CONFIG', 'ExternalKeys', 'formatId', 'parseId', 'decodeId', 'minId', 'maxId', 'describeLayout',
    'Monotime', 'MonoUuid', 'version', 'setLog'];
  const imported = await import('../lib/index.mjs');
  for (const name of names) assert.notStrictEqual(kazahana[name], undefined, name);
  assert.deepStrictEqual(Object.keys(kazahana).sort(), [...names].sort());
  assert.deepStrictEqual(Object.keys(imported).sort(), [...names, 'default'].sort());
  for (const name of names) assert.strictEqual(imported[name], kazahana[name]);
});

test('the package and the library in it are of one version', () => {
  assert.strictEqual(require('../package.json').version, kazahana.version);
});

test('constants have the values of the protocol', () => {
  assert.strictEqual(kazahana.LIB_DEFAULT_EPOCH, Date.parse('2026-01-01T00:00:00Z'));
  assert.strictEqual(kazahana.DEFAULT_LEASE_DURATION, 600000);
  assert.strictEqual(kazahana.DEFAULT_ACQUIRE_THRESHOLD, 0.9);
  assert.deepStrictEqual({ ...kazahana.DEFAULT_CONFIG }, {
    serviceId: 'default', customEpoch: 1767225600000, bitReserve: 1, bitTs: 41, bitId: 14, bitSeq: 8,
    leaseDuration: 600000,
  });
});

test('errors have the texts and names of the protocol', () => {
  const back = new kazahana.ClockBackwardError(7, 5);
  assert.strictEqual(back.message,
    'Clock moved backward by 7ms (limit: 5ms). Check NTP configuration or system time settings.');
  assert.deepStrictEqual([back.name, back.backwardMs, back.limitMs], ['ClockBackwardError', 7, 5]);
  const cause = new Error('down');
  const lease = new kazahana.LeaseAcquisitionError(cause);
  assert.strictEqual(lease.message, 'Failed to acquire lease and fallback is disabled');
  assert.strictEqual(lease.cause, cause);
  assert.strictEqual(new kazahana.NoProviderError().message, 'No provider configured and fallback is disabled');
  for (const error of [back, lease, new kazahana.NoProviderError()]) assert(error instanceof Error);
});

test('a configuration that cannot be is refused, and the message names it', () => {
  const wrong = [
    [{ provider: {} }, /acquire and release/],
    [{ sauce: 'memory:' }, /sauce is no setting/],
    [{ maxThroughputPerMs: 0 }, /maxThroughputPerMs .* not 0/],
    [{ maxThroughputPerMs: 1.5 }, /not 1\.5/],
    [{ source: 'memory:', provider: new kazahana.MemoryLeaseProvider() }, /not both/],
    [{ disableFallback: true, fallback: 'any' }, /contradicts/],
    [{ timeoutMs: NaN }, /timeoutMs .* NaN/],
    [{ source: 'http://a?pass=1' }, /pass is no parameter/],
    [null, /object/],
  ];
  for (const [config, message] of wrong) {
    assert.throws(() => new kazahana.KazahanaClient(config), { code: 'KZ_INVALID', message });
  }
});

test('a source that does not exist is an error of the first ID', async (t) => {
  await assert.rejects(client(t, { source: 'nonsense:' }).nextId(), { name: 'KazahanaError' });
  await assert.rejects(client(t, { source: 'static:99999' }).nextId(), { code: 'KZ_INVALID', message: /99999/ });
  assert.throws(() => client(t, { source: 'static:99999' }).nextIdSync(), { code: 'KZ_INVALID' });
});

test('strict without a provider says so, as the protocol does', async (t) => {
  const strict = client(t, { disableFallback: true });
  await assert.rejects(strict.nextId(), kazahana.NoProviderError);
  assert.throws(() => strict.nextIdSync(), kazahana.NoProviderError);
});

test('without anything the embedded table of this machine is used', async (t) => {
  const { folder } = require('./support.js');
  const state = folder(t);
  const { out, code, err } = await run(t, `
    const { KazahanaClient } = require(process.env.KZ_PACKAGE);
    const client = new KazahanaClient();
    client.nextId().then(async (id) => { console.log(typeof id, client.layout); await client.shutdown(); });`,
    { env: { XDG_STATE_HOME: state } });
  assert.strictEqual(code, 0, err);
  assert.strictEqual(out, 'bigint 41-14-8@2026-01-01\n');
  assert(require('node:fs').existsSync(`${state}/kazahana/leases.db`));
});
