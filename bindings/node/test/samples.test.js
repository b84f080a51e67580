// The blocks of the lease protocol's document, compiled with its own types checked, and run.
'use strict';

const assert = require('node:assert');
const { execFileSync, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');
const { PACKAGE, folder, start, redis, leaseServer } = require('./support.js');
const { once } = require('node:events');

const missing = spawnSync('tsc', ['--version']).error && 'tsc is not installed (Debian: node-typescript)';
const SAMPLES = path.join(__dirname, 'samples');

test('every sample compiles and runs', { skip: missing || false }, async (t) => {
  const dir = folder(t);
  fs.cpSync(SAMPLES, dir, { recursive: true });
  fs.mkdirSync(path.join(dir, 'node_modules'));
  fs.symlinkSync(PACKAGE, path.join(dir, 'node_modules/kazahana'));
  const tsc = spawnSync('tsc', ['-p', dir], { encoding: 'utf8' });
  assert.strictEqual(tsc.status, 0, tsc.stdout);
  const server = await leaseServer(t);
  const { port } = await redis(t);
  const env = { ...process.env, KZ_SERVER: server.url, KZ_REDIS_PORT: String(port), XDG_STATE_HOME: dir };
  for (const file of fs.readdirSync(SAMPLES).filter((name) => /^(?!redis\.|.*\.d\.).*\.ts$/.test(name))) {
    await t.test(file, async (sub) => {
      const child = start(sub, process.execPath, [path.join(dir, file.replace(/\.ts$/, '.js'))], { env });
      const [code] = await once(child, 'exit');
      assert.strictEqual(code, 0, child.said);
    });
  }
});

test('our own types and code agree', { skip: missing || false }, (t) => {
  const dir = folder(t);
  fs.writeFileSync(path.join(dir, 'tsconfig.json'), JSON.stringify({
    compilerOptions: { target: 'ES2022', module: 'node16', moduleResolution: 'node16', strict: true, noEmit: true,
      types: [], lib: ['ES2022'] }, include: ['*.mts', '*.cts'] }));
  fs.mkdirSync(path.join(dir, 'node_modules'));
  fs.symlinkSync(PACKAGE, path.join(dir, 'node_modules/kazahana'));
  // Every value that the types promise is one that the code has.
  const types = fs.readFileSync(path.join(PACKAGE, 'lib/index.d.ts'), 'utf8');
  const promised = [...types.matchAll(/^export declare (?:class|function|const) (\w+)/gm)].map(([, name]) => name);
  assert.deepStrictEqual([...new Set(promised)].sort(), Object.keys(require('..')).sort());
  const use = `const client = new KazahanaClient({ source: 'memory:', maxThroughputPerMs: 512, timeoutMs: 5 });
    const id: Promise<bigint> = client.nextId();
    const many: BigUint64Array = client.nextIds(3);
    // @ts-expect-error a setting that does not exist
    new KazahanaClient({ sauce: 'memory:' });
    // @ts-expect-error an ID is a bigint
    toExternalId(7);
    export { id, many };`;
  fs.writeFileSync(path.join(dir, 'a.mts'), `import { KazahanaClient, toExternalId } from 'kazahana';\n${use}`);
  fs.writeFileSync(path.join(dir, 'b.cts'), `import { KazahanaClient, toExternalId } from 'kazahana';\n${use}`);
  const tsc = spawnSync('tsc', ['-p', dir], { encoding: 'utf8' });
  assert.strictEqual(tsc.status, 0, tsc.stdout);
});

const noNpm = spawnSync('npm', ['--version']).error && 'npm is not installed';

test('the package installs into an empty project, packed and by its path', { skip: noNpm || false }, (t) => {
  const dir = folder(t);
  const env = { ...process.env, HOME: dir, npm_config_cache: path.join(dir, 'cache'), npm_config_offline: 'true',
    npm_config_update_notifier: 'false', npm_config_audit: 'false', npm_config_fund: 'false' };
  const npm = (args, cwd) => execFileSync('npm', args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] }).toString();
  const [{ filename, files }] = JSON.parse(npm(['pack', '--json', '--pack-destination', dir], PACKAGE));
  const names = files.map((file) => file.path);
  for (const wanted of ['lib/index.js', 'lib/index.mjs', 'lib/index.d.ts', 'lib/index.d.mts', 'build/kazahana.node',
    'LICENSE', 'README.md']) {
    assert(names.includes(wanted), `${wanted} is not in the package`);
  }
  assert(!names.some((name) => /^(src|test)\//.test(name)), names.join(' '));
  for (const what of [path.join(dir, filename), PACKAGE]) {
    const project = fs.mkdtempSync(path.join(dir, 'project-'));
    fs.writeFileSync(path.join(project, 'package.json'), '{"name": "empty", "version": "1.0.0"}');
    npm(['install', what], project);
    const body = `const client = new KazahanaClient({ source: 'static:1' });
      client.nextId().then(async (id) => { console.log(typeof id, typeof client.nextIdSync()); await client.shutdown(); });`;
    fs.writeFileSync(path.join(project, 'a.cjs'), `const { KazahanaClient } = require('kazahana');\n${body}`);
    fs.writeFileSync(path.join(project, 'b.mjs'), `import { KazahanaClient } from 'kazahana';\n${body}`);
    for (const file of ['a.cjs', 'b.mjs']) {
      assert.strictEqual(execFileSync(process.execPath, [file], { cwd: project }).toString(), 'bigint bigint\n');
    }
  }
});

test('nothing but the module is exported by the addon', () => {
  const symbols = execFileSync('nm', ['-D', '--defined-only', path.join(PACKAGE, 'build/kazahana.node')]).toString();
  const names = symbols.trim().split('\n').map((line) => line.split(' ').at(-1)).sort();
  assert(names.every((name) => /^(napi_register_module_v1|node_api_module_get_api_version_v1)$/.test(name)), symbols);
});
