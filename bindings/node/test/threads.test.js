// Workers, processes, and ends of both.
'use strict';

const assert = require('node:assert');
const { execFileSync } = require('node:child_process');
const { once } = require('node:events');
const path = require('node:path');
const { test } = require('node:test');
const { Worker } = require('node:worker_threads');
const { BUILD, PACKAGE, client, folder, run, redis, until, leaseServer, assertIncreasing, assertUnique } =
  require('./support.js');

// Mints `count` IDs in all the ways there are, and posts them.
const minter = `
  const { parentPort, workerData } = require('node:worker_threads');
  const { KazahanaClient } = require(workerData.package);
  const client = new KazahanaClient({ source: workerData.source });
  (async () => {
    const ids = [];
    while (ids.length < workerData.count) {
      ids.push(await client.nextId(), client.nextIdSync(), ...client.nextIds(7));
    }
    if (workerData.shutdown) await client.shutdown();
    parentPort.postMessage(ids);
  })();`;

function mint(source, count, shutdown = true) {
  const worker = new Worker(minter, { eval: true, workerData: { package: PACKAGE, source, count, shutdown } });
  return Promise.all([once(worker, 'message'), once(worker, 'exit')]).then(([[ids]]) => ids);
}

const sources = {
  'a fixed node': async () => ({ source: 'static:7', count: 3000 }),
  'a table in memory': async () => ({ source: 'memory:', count: 3000 }),
  'SQLite': async (t) => ({ source: `sqlite:${path.join(folder(t), 'leases.db')}?lease=2s`, count: 3000 }),
  'Redis': async (t) => ({ source: `${(await redis(t)).url}?lease=2s`, count: 3000 }),
  'a lease server': async (t) => ({ source: (await leaseServer(t)).url, count: 1500 }),
};
for (const [name, make] of Object.entries(sources)) {
  test(`eight workers on ${name}: no ID twice, each in order`, async (t) => {
    const { source, count } = await make(t);
    const lists = await Promise.all(Array.from({ length: 8 }, (_, i) => mint(source, count, i % 2 === 0)));
    lists.forEach(assertIncreasing);
    assert(assertUnique(lists) >= 8 * count);
  });
}

test('four processes on one store: no ID twice, each in order', async (t) => {
  const source = `sqlite:${path.join(folder(t), 'leases.db')}?lease=2s`;
  const script = `
    const { KazahanaClient } = require(process.env.KZ_PACKAGE);
    const client = new KazahanaClient({ source: process.argv.at(-1) });
    (async () => {
      const ids = [];
      for (let i = 0; i < 5000; i++) ids.push(i % 3 ? client.nextIdSync() : await client.nextId());
      await client.shutdown();
      console.log(ids.join('\\n'));
    })();`;
  const results = await Promise.all(Array.from({ length: 4 }, () => run(t, script, { args: [source] })));
  const lists = results.map(({ code, out, err }) => {
    assert.strictEqual(code, 0, err);
    return out.trim().split('\n').map(BigInt);
  });
  lists.forEach(assertIncreasing);
  assert.strictEqual(assertUnique(lists), 20000);
});

test('cluster and fork: every process has a place of its own', async (t) => {
  const source = `sqlite:${path.join(folder(t), 'leases.db')}`;
  const script = `
    const cluster = require('node:cluster');
    const { fork } = require('node:child_process');
    const { KazahanaClient } = require(process.env.KZ_PACKAGE);
    const source = process.argv.at(-1);
    const client = new KazahanaClient({ source });
    const mint = async () => {
      const ids = [];
      for (let i = 0; i < 1000; i++) ids.push(String(await client.nextId()));
      await client.shutdown();
      return ids;
    };
    if (process.send) {
      mint().then((ids) => process.send(ids, () => process.disconnect()));
    } else {
      (async () => {
        await client.nextId();
        const file = process.env.KZ_SCRIPT;
        cluster.setupPrimary({ exec: file, args: [source] });
        const children = [cluster.fork(), cluster.fork(), fork(file, [source]), fork(file, [source])];
        const lists = children.map((child) => new Promise((resolve) => child.on('message', (ids) =>
          Array.isArray(ids) && resolve(ids))));
        console.log(JSON.stringify(await Promise.all([mint(), ...lists])));
      })();
    }`;
  const file = path.join(folder(t), 'script.js');
  require('node:fs').writeFileSync(file, script);
  const { code, out, err } = await run(t, `require(process.env.KZ_SCRIPT)`, { args: [source], env: { KZ_SCRIPT: file } });
  assert.strictEqual(code, 0, err);
  const lists = JSON.parse(out).map((list) => list.map(BigInt));
  assert.strictEqual(lists.length, 5);
  lists.forEach(assertIncreasing);
  assert.strictEqual(assertUnique(lists), 5000);
});

test('workers that are ended in mid-call leave the others and the process unharmed', async (t) => {
  const source = `sqlite:${path.join(folder(t), 'leases.db')}`;
  const here = client(t, { source });
  const ids = [await here.nextId()];
  const scripts = {
    'in a loop that never ends': `parentPort.postMessage(client.nextIdSync()); for (;;) client.nextIdSync();`,
    'while it waits': `client.nextId().then((id) => { parentPort.postMessage(id); for (let i = 0; i < 1e5; i++) client.nextId(); });`,
    'while it opens': `parentPort.postMessage(0n); client.nextId();`,
    'while it asks a provider that is silent': `
      const other = new KazahanaClient({ provider: { acquire: () => { parentPort.postMessage(0n); return new Promise(() => {}); },
        release: async () => {} }, timeoutMs: -1 });
      other.nextId(); setInterval(() => {}, 1000);`,
    'while it shuts down': `client.nextId().then((id) => { parentPort.postMessage(id); client.shutdown(); });`,
  };
  for (const [what, body] of Object.entries(scripts)) {
    for (let round = 0; round < 3; round++) {
      const worker = new Worker(`
        const { parentPort, workerData } = require('node:worker_threads');
        const { KazahanaClient } = require(workerData.package);
        const client = new KazahanaClient({ source: workerData.source });
        ${body}`, { eval: true, workerData: { package: PACKAGE, source } });
      await once(worker, 'message');
      await worker.terminate();
      ids.push(await here.nextId(), here.nextIdSync());
    }
    assertIncreasing(ids);
    assert.strictEqual(ids.length % 2, 1, what);
  }
});

const leasesOut = (source) => execFileSync(path.join(BUILD, 'kazahana'), ['leases', '--from', source, '--json'])
  .toString().split('\n').filter(Boolean);

test('leases of a worker that is gone are given back, whether it was shut down or not', async (t) => {
  const source = `sqlite:${path.join(folder(t), 'leases.db')}`;
  await mint(source, 10, false);
  await until('no lease is out', () => leasesOut(source).length === 0);
});

// One that cannot be waited for: nothing in it ever answers.
const silence = {
  'a provider in JavaScript': `{ provider: { acquire: () => { begun(); return new Promise(() => {}); }, release: async () => {} }, timeoutMs: -1 }`,
  'a Redis': `{ source: 'redis://127.0.0.1:' + port + '/0', timeoutMs: -1 }`,
  'a lease server': `{ source: 'http://127.0.0.1:' + port, timeoutMs: -1 }`,
};
for (const [what, config] of Object.entries(silence)) {
  test(`process.exit() does not wait for ${what} that is silent`, async (t) => {
    const { code, out, err } = await run(t, `
      const { KazahanaClient } = require(process.env.KZ_PACKAGE);
      const net = require('node:net');
      const begun = () => setImmediate(() => { at = performance.now(); process.exit(7); });
      let at;
      process.on('exit', () => {
        require('node:fs').writeSync(1, String(performance.now() - at));
      });
      const server = net.createServer(() => begun()).listen(0, '127.0.0.1', () => {
        const { port } = server.address();
        new KazahanaClient(${config}).nextId().catch(() => {});
      });`);
    assert.strictEqual(code, 7, err);
    // The library's part of the exit; how long Node takes to end is the machine's.
    assert(Number(out) < 1000, `${out} ms`);
  });
}

test('process.exit() gives leases back, and a process that ends by itself does too', async (t) => {
  for (const end of ['process.exit(0)', '0']) {
    // There is a limit to what an exit waits for, which a busy machine may need more than once.
    await until('a process leaves no lease behind', async () => {
      const source = `sqlite:${path.join(folder(t), 'leases.db')}`;
      const { code, err } = await run(t, `
        const { KazahanaClient } = require(process.env.KZ_PACKAGE);
        new KazahanaClient({ source: '${source}', timeoutMs: 1e9 }).nextId().then(() => ${end});`);
      assert.strictEqual(code, 0, err);
      return leasesOut(source).length === 0;
    });
  }
});
