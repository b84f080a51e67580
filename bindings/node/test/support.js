// What the tests share: folders, real servers, other processes, and the two things every ID must be.
'use strict';

const assert = require('node:assert');
const { spawn } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');

const kazahana = require('..');

const ROOT = path.resolve(__dirname, '../../..');
const BUILD = process.env.KZ_BUILD ?? path.join(ROOT, 'build');
const PACKAGE = path.resolve(__dirname, '..');

const ends = new WeakMap();

/** What was begun last is ended first, whatever order the test runner prefers. */
function atEnd(t, end) {
  if (!ends.has(t)) {
    ends.set(t, []);
    t.after(async () => {
      for (const last of ends.get(t).reverse()) await last();
    });
  }
  ends.get(t).push(end);
}

/** A folder that is gone after the test. */
function folder(t) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'kazahana-node-'));
  atEnd(t, () => fs.rmSync(dir, { recursive: true, force: true }));
  return dir;
}

/** A client that is shut down after the test. */
function client(t, config) {
  const made = new kazahana.KazahanaClient(config);
  atEnd(t, () => made.shutdown());
  return made;
}

async function freePort() {
  for (;;) {
    const port = 10000 + Math.floor(Math.random() * 22768);
    const probe = net.createServer();
    const free = await new Promise((resolve) => {
      probe.once('error', () => resolve(false));
      probe.listen(port, '127.0.0.1', () => resolve(true));
    });
    if (free) {
      await new Promise((resolve) => probe.close(resolve));
      return port;
    }
  }
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Waits for what must come about, however slow the machine is. */
async function until(what, happened) {
  const end = performance.now() + 120000;
  while (performance.now() < end) {
    if (await happened()) return;
    await sleep(10);
  }
  assert.fail(`it never came about that ${what}`);
}

/** A program in the background that is killed after the test. */
function start(t, command, args, options = {}) {
  const child = spawn(command, args, { stdio: ['ignore', 'ignore', 'pipe'], ...options });
  child.stderr?.on('data', (data) => (child.said = `${child.said ?? ''}${data}`));
  atEnd(t, async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  });
  return child;
}

const connects = (port) => new Promise((resolve) => {
  const socket = net.connect(port, '127.0.0.1');
  socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
  socket.once('connect', () => socket.destroy());
});

async function redis(t) {
  const port = await freePort();
  const server = start(t, 'redis-server', ['--bind', '127.0.0.1', '--port', String(port), '--dir', folder(t), '--save',
    '', '--appendonly', 'yes', '--appendfsync', 'always']);
  await until('Redis answers', () => connects(port));
  return { port, url: `redis://127.0.0.1:${port}/0`, server };
}

/** The real lease server, on a store in a folder of its own. */
async function leaseServer(t, ...args) {
  const port = await freePort();
  const server = start(t, path.join(BUILD, 'kazahana'), ['serve', '--listen', `127.0.0.1:${port}`, '--store',
    `sqlite:${path.join(folder(t), 'leases.db')}?lease=2s`, ...args]);
  await until('the lease server answers', () => connects(port));
  return { port, url: `http://127.0.0.1:${port}`, server };
}

/** Runs a script in a process of its own; gives what it printed, and its exit status. */
async function run(t, script, { args = [], env = {}, input } = {}) {
  const child = spawn(process.execPath, ['-e', script, '--', ...args], {
    stdio: ['pipe', 'pipe', 'pipe'], env: { ...process.env, KZ_PACKAGE: PACKAGE, ...env },
  });
  atEnd(t, () => child.kill('SIGKILL'));
  let out = '';
  let err = '';
  child.stdout.on('data', (data) => (out += data));
  child.stderr.on('data', (data) => (err += data));
  child.stdin.end(input);
  const limit = setTimeout(() => child.kill('SIGKILL'), 120000); // one that would never end by itself
  const [code, signal] = await once(child, 'close');
  clearTimeout(limit);
  return { code, signal, out, err };
}

function assertIncreasing(ids) {
  for (let i = 1; i < ids.length; i++) {
    if (ids[i] <= ids[i - 1]) assert.fail(`ID ${i}, ${ids[i]}, does not come after ${ids[i - 1]}`);
  }
}

function assertUnique(lists) {
  const seen = new Set();
  for (const ids of lists) {
    for (const id of ids) {
      if (seen.has(id)) assert.fail(`${id} was given twice`);
      seen.add(id);
    }
  }
  return seen.size;
}

/** The lease protocol's provider for tests, as its document writes it, with a lease of any length. */
class PlainProvider {
  leases = new Map();
  lastAssigned = -1;
  calls = { acquire: 0, release: 0 };
  config = { customEpoch: Date.parse('2026-01-01T00:00:00Z'), bitReserve: 1, bitTs: 41, bitId: 14, bitSeq: 8 };

  constructor(leaseMs = 600000) {
    this.leaseMs = leaseMs;
  }

  async acquire({ throughputPerMs = 1 }) {
    this.calls.acquire++;
    const now = Date.now();
    const expired = now + this.leaseMs;
    const count = Math.ceil(throughputPerMs / 2 ** this.config.bitSeq);
    const leases = [];
    for (let i = 0; i < 8192 && leases.length < count; i++) {
      const id = (this.lastAssigned + 1 + i) % 8192;
      const existing = this.leases.get(id);
      if (existing && existing.expired >= now) continue;
      const secret = Math.random().toString(36).slice(2);
      this.leases.set(id, { secret, expired });
      this.lastAssigned = id;
      leases.push({ id, created: now, expired, secret, ...this.config });
    }
    if (leases.length === 0) throw new Error('No machine ID available');
    return { leases };
  }

  async release({ id, signature, timestamp }) {
    this.calls.release++;
    const lease = this.leases.get(id);
    if (!lease) throw new Error('Lease not found');
    const { createHmac } = require('node:crypto');
    const expected = createHmac('sha256', lease.secret).update(`${id}:${timestamp}`).digest('hex');
    if (signature !== expected) throw new Error('Invalid signature');
    this.leases.delete(id);
  }
}

module.exports = {
  kazahana, atEnd, ROOT, BUILD, PACKAGE, folder, client, freePort, sleep, until, start, redis, leaseServer, run,
  assertIncreasing, assertUnique, PlainProvider,
};
