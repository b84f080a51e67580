// docs/page-light.png and docs/page-dark.png, from a real run: a small fleet, handovers, then a store that goes away.
import path from 'node:path';
import {fileURLToPath} from 'node:url';
import {closeBrowser, folder, freePort, kill, open, openBrowser, program, Server, start, until} from './browser.mjs';

const docs = path.join(path.dirname(fileURLToPath(import.meta.url)), '..', '..', 'docs');
const LEASE_S = 30;
const port = await freePort();
const redis = start('redis-server', ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'yes',
  '--appendfsync', 'always', '--dir', folder]);
await until('redis', () => redis.text.stdout.includes('Ready to accept'));
const server = await new Server({store: `redis://127.0.0.1:${port}/0?lease=${LEASE_S}s`}).start();
const pause = (s) => new Promise((done) => setTimeout(done, s * 1000));

// Names of a fleet, as far as this machine lets a process have one.
const clients = [];
for (const host of ['web-1', 'web-2', 'worker-1', 'worker-2', 'mail-1']) {
  const command = `hostname ${host}; exec ${program} next -n 100000000 --rate 2000/s --from ${server.url}`;
  clients.push(start('unshare', ['--uts', 'sh', '-c', command], {stdio: ['ignore', 'ignore', 'pipe']}));
  if (host === 'web-1') await openBrowser();
  await pause(2.5);
}
const load = setInterval(() => fetch(`${server.url}/ids?count=700`).then((a) => a.text()).catch(() => {}), 100);
const light = await open(server), dark = await open(server, {scheme: 'dark'});
await pause(2.1 * LEASE_S);
await kill(clients.pop(), 'SIGTERM');
const id = (await server.ask('GET', '/id')).data.id_str;
await light.fill('#paste', id);
await pause(8);
await light.screenshot({path: path.join(docs, 'page-light.png'), fullPage: true});
await kill(redis);
await pause(1.35 * LEASE_S);
await dark.screenshot({path: path.join(docs, 'page-dark.png'), fullPage: true});
clearInterval(load);
for (const client of clients) await kill(client);
await server.kill();
await closeBrowser();
