// The page in a real Chromium, over real servers. Started by `run`.
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import {axe, closeBrowser, closePages, folder, freePort, kill, open, openBrowser, program, Server, start, until} from './browser.mjs';

const wanted = process.argv[6] || '';
const tests = [];
const test = (name, run) => tests.push({name, run});
const TOKEN = 'a-token-for-this-test-only-0001';

// Nothing but what a request that failed makes Chromium say.
function quiet(page, besides = /^$/) {
  const ours = /willReadFrequently/;  // said of the tests' own reading of pixels
  assert.deepEqual(page.complaints.filter((text) => !besides.test(text) && !ours.test(text)), []);
}

async function unrefused(page) {
  assert.deepEqual(await page.evaluate(() => window.refused), []);
}

// The vertical runs of colour in a column of a half, from the bottom up. Runs in the page, in one go with what `where`
// computes, so that no drawing comes between.
const columns = (page, where, ...args) => page.evaluate(([text, args]) => {
  const {plane} = kazahana, dpr = plane.dpr;
  const context = plane.canvas.getContext('2d');
  const at = new Function('plane', 'args', `return (${text})(plane, ...args)`);
  const read = (x, from, to) => {
    const data = context.getImageData(Math.round(x * dpr), Math.round(from * dpr), 1, Math.round((to - from) * dpr)).data;
    const runs = [];
    // A rectangle is more colourful than the grey of grid and ground.
    for (let i = data.length / 4 - 1, inside = false; i >= 0; i--) {
      const [r, g, b] = data.slice(4 * i, 4 * i + 3), strong = Math.max(r, g, b) - Math.min(r, g, b) > 24;
      if (strong && !inside) runs.push({y: from + i / dpr, color: [r, g, b]});
      inside = strong;
    }
    return runs;
  };
  const x = at(plane, args);
  return [].concat(x).map((x) => ({lower: read(x, plane.upperGround + 30, plane.ground), upper: read(x, 22, plane.upperGround)}));
}, [String(where), args]);

// ---------------------------------------------------------------------------------------------------------- the plane

test('rectangles are where the leases are', async () => {
  // So long that nothing moves by a pixel while it is looked at.
  const server = await new Server({store: `sqlite:${path.join(folder, 'long.db')}?lease=2h`}).start();
  const held = [];
  for (const host of ['a', 'b', 'c']) held.push(await server.lease({host, pid: '1'}));
  const page = await open(server);
  await page.waitForFunction(() => kazahana.plane.boxes.filter((b) => !b.twin).length === 4);
  const {leases} = await server.ask('GET', '/leases?limit=1000');
  const {leaseMs} = (await server.ask('GET', '/health')).components.store;
  // Time is a straight line with now at one third of six leases: reckoned here, not asked of the page.
  const place = (ms) => page.evaluate(([ms, leaseMs]) => {
    const {plane} = kazahana;
    return plane.left + (ms - plane.t0) * (plane.canvas.clientWidth - plane.left) / (6 * leaseMs);
  }, [ms, leaseMs]);
  const off = await page.evaluate((leaseMs) => kazahana.now() - kazahana.plane.t0 - 2 * leaseMs, leaseMs);
  assert.ok(Math.abs(off) < leaseMs / 10, `${off} ms`);
  const first = Math.min(...leases.map((l) => l.created)), last = Math.max(...leases.map((l) => l.expired));
  const twins = Math.max(...leases.map((l) => l.fallbackExpired));
  const [before, inside, after] = await columns(page, (plane, first, last) => [first - 4, last - 9, last + 4],
    await place(first), await place(last));
  assert.deepEqual([before.lower.length, before.upper.length], [0, 0]);
  assert.equal(inside.lower.length, leases.length);
  assert.equal(after.lower.length, 0);
  assert.ok(after.upper.length >= leases.length, 'the twins go on');
  // From the bottom up they are in the order of their nodes, each in the colour of its holder.
  const order = [...leases].sort((a, b) => a.id - b.id).map((l) => JSON.stringify(l.meta));
  const colors = await page.evaluate((holders) => holders.map((holder) => kazahana.plane.color(holder)), order);
  const strong = (color) => color.indexOf(Math.max(...color));
  const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  inside.lower.forEach(({color}, i) => assert.equal(strong(color), strong(rgb(colors[i])), `row ${i}`));
  await page.selectOption('#span', '24');
  const [within, beyond] = await columns(page, (plane, twins) => [plane.x(twins) - 9, plane.x(twins) + 3], twins);
  assert.ok(within.upper.length >= leases.length && beyond.upper.length === 0, 'and end');
  await page.selectOption('#span', '6');
  // What is given back ends now.
  await server.release(held[1]);
  await page.waitForFunction(() => kazahana.plane.boxes.filter((b) => !b.twin && b.lease.held).length === 3);
  const [left3] = await columns(page, (plane, last) => last - 9, await place(last));
  assert.equal(left3.lower.length, 3);
  quiet(page);
  await unrefused(page);
  await page.close();
  await server.kill();
});

test('hovering says whose it is, a click lights the holder', async (server) => {
  await server.lease({host: 'hovered', pid: '77'});
  const page = await open(server);
  const at = await page.waitForFunction(() => {
    const box = kazahana.plane.boxes.find((b) => !b.twin && b.lease.meta.host === 'hovered');
    return box && {x: box.x + box.w - 4, y: box.y + box.h / 2};
  });
  const position = await at.jsonValue();
  await page.hover('#plane', {position});
  const text = await page.textContent('#tip');
  for (const part of ['256 IDs a millisecond', 'host=hovered', 'pid=77', 'left', 'twin: node']) assert.ok(text.includes(part), text);
  await page.mouse.click(...Object.values(await page.evaluate((at) => {
    const box = kazahana.plane.canvas.getBoundingClientRect();
    return {x: box.x + at.x, y: box.y + at.y};
  }, position)));
  await page.waitForSelector('tr.pinned');
  assert.equal(await page.locator('tr.pinned').count(), 1);
  await page.hover('h1');
  assert.equal(await page.isVisible('#tip'), false);
  quiet(page);
});

test('a rectangle appears, hands over, and disappears', async () => {
  const server = await new Server({store: `sqlite:${path.join(folder, 'short.db')}?lease=3s`}).start();
  const page = await open(server);
  const client = start(program, ['next', '-n', '1000000', '--rate', '1000/s', '--from', server.url]);
  const mine = (least) => page.waitForFunction(([pid, least]) =>
    new Set(kazahana.plane.boxes.filter((b) => !b.twin && b.lease.meta.pid === pid).map((b) => b.lease.node)).size >= least,
  [String(client.pid), least]);
  await mine(1);
  await mine(3);
  const seen = await page.evaluate((pid) => kazahana.plane.boxes.filter((b) => !b.twin && b.lease.meta.pid === pid)
    .map((b) => b.lease).sort((a, b) => a.created - b.created), String(client.pid));
  for (let i = 1; i < seen.length; i++) assert.notEqual(seen[i].node, seen[i - 1].node);
  await kill(client, 'SIGTERM');
  await page.waitForFunction((pid) => kazahana.plane.boxes.every((b) => b.lease.meta.pid !== pid || !b.lease.held), String(client.pid));
  await page.waitForFunction((pid) => !document.querySelector('#rows').textContent.includes(pid), String(client.pid));
  quiet(page);
  await page.close();
  await server.kill();
});

test('each service has a plane of its own', async (server) => {
  await server.ask('POST', '/lease', {serviceId: 'web', meta: {host: 'w'}});
  const page = await open(server);
  await page.selectOption('#service', 'web');
  await page.waitForFunction(() => kazahana.plane.boxes.every((b) => b.lease.service === 'web') && document.querySelectorAll('#rows tr').length === 1);
  assert.match(await page.textContent('#rows'), /host=w/);
  quiet(page);
});

test('reserved nodes are drawn as such', async (server) => {
  // The server's own answer, with a line as it writes one for a reserved range.
  const page = await open(server, {wait: false});
  await page.route('**/leases?*', async (route) => {
    const answer = await route.fetch(), body = await answer.json();
    body.leases.push({service: 'default', id: 32, kind: 'reserved', nodes: 32, bitId: 14, bitSeq: 8, created: null, expired: null,
      fallbackCreated: null, fallbackExpired: null, meta: 'the old workers'});
    await route.fulfill({response: answer, json: body});
  });
  await page.reload();
  await page.waitForFunction(() => document.querySelector('#rows').textContent.includes('reserved: the old workers'));
  assert.match(await page.textContent('#rows'), /32–63/);
  assert.equal(await page.textContent('#free'), '8,159');
  assert.equal(await page.textContent('#out'), '1');
  const box = await page.evaluate(() => {
    const {plane} = kazahana, boxes = plane.boxes.filter((b) => b.lease.reserved);
    return {count: boxes.length, x: boxes[0].x, w: boxes[0].w, left: plane.left, width: plane.canvas.clientWidth, y: boxes[0].y + 4};
  });
  assert.equal(box.count, 1);
  assert.ok(box.x <= box.left && box.x + box.w >= box.width, 'from the beginning, for ever');
  await page.hover('#plane', {position: {x: box.left + 300, y: box.y}});
  assert.match(await page.textContent('#tip'), /Nodes 32 to 63, reserved.*the old workers.*never/);
  quiet(page);
});

test('what clients report is added up', async (server) => {
  await server.ask('POST', '/lease', {meta: {host: 'r'}, used: {ids: 1234, fenced: 5, unfenced: 6, exhausted: 7, clockBack: 8}});
  const page = await open(server);
  await page.waitForSelector('#fleet td');
  const cells = await page.locator('#fleet tbody tr').first().locator('td').allTextContents();
  assert.deepEqual(cells, ['1,245', '5', '6', '7', '8']);
  quiet(page);
});

// -------------------------------------------------------------------------------------------------------------- paste

test('an ID is found in each of its text forms', async (server) => {
  const page = await open(server);
  for (const form of ['dec', 'hex', 'base32', 'base62', 'base64url']) {
    const client = start(program, ['next', '-n', '100000', '--rate', '1/s', '--from', server.url, '--format', form]);
    const text = (await until('an ID', () => /^(\S+)\n/.exec(client.text.stdout)))[1];
    const pid = String(client.pid);
    await page.waitForFunction((pid) => kazahana.plane.boxes.some((b) => b.lease.meta.pid === pid), pid);
    await page.fill('#paste', text);
    await page.waitForFunction((pid) => document.querySelector('#found').textContent.includes(`${pid} holds now`), pid);
    const {lease} = await page.evaluate((pid) => ({lease: kazahana.plane.boxes.find((b) => b.lease.meta.pid === pid).lease}), pid);
    assert.match(await page.textContent('#found'), new RegExp(`Node${lease.node}Sequence`));
    await kill(client, 'SIGTERM');
    await page.waitForFunction((pid) => document.querySelector('#found').textContent.includes(`saw`) &&
      document.querySelector('#found').textContent.includes(pid), pid);
  }
  for (const [text, says] of [['0', 'Before what this page saw'], ['9223372036854775807', 'In the future'], ['!', 'Not an ID'],
    ['99999999999999999999', 'Not an ID']]) {
    await page.fill('#paste', text);
    assert.ok((await page.textContent('#found')).includes(says), `${text}: ${await page.textContent('#found')}`);
  }
  await page.click('summary');
  await page.fill('#shape', '41-14@x');
  assert.match(await page.textContent('#found'), /The layout must be written as/);
  quiet(page);
});

test('a typed external ID is turned back by the server that has the key', async () => {
  const file = path.join(folder, 'keys');
  fs.writeFileSync(file, '0 xtea 000102030405060708090a0b0c0d0e0f\n', {mode: 0o600});
  const server = await new Server({args: ['--key-file', file]}).start();
  try {
    const page = await open(server);
    const id = execFileSync(program, ['next', '--from', server.url], {encoding: 'utf8'}).trim();
    const text = execFileSync(program, ['external', '--type', 'user', '--key-file', file, id], {encoding: 'utf8'}).trim();
    await page.fill('#paste', text);
    await page.waitForFunction((id) => document.querySelector('#found').textContent.includes(`Decimal${id}`), id);
    assert.match(await page.textContent('#found'), /as an external ID/);
    await page.fill('#paste', 'user_AAAAAAAAAAA');
    await page.waitForFunction(() => /\S/.test(document.querySelector('#found .warn')?.textContent || ''));
  } finally {
    await server.kill();
  }
});

// -------------------------------------------------------------------------------------------------------------- faults

test('a server that is killed and comes back', async (server) => {
  const page = await open(server);
  await page.waitForFunction(() => document.querySelector('#verdict').textContent === 'All is well');
  const before = await page.evaluate(() => kazahana.now());
  await server.kill();
  await page.waitForFunction(() => document.querySelector('#verdict').textContent === 'No answer');
  assert.match(await page.textContent('#banner'), /does not answer/);
  await page.waitForFunction(() => /last answer \d+ s ago/.test(document.querySelector('#age').textContent));
  assert.ok(await page.evaluate(() => kazahana.now()) > before, 'now goes on');
  await server.start();
  await page.waitForFunction(() => document.querySelector('#verdict').textContent === 'All is well');
  assert.equal(await page.isVisible('#banner'), false);
  quiet(page, /^Failed to load resource/);
});

test('a store that is down: the twins that carry on are amber', async () => {
  const port = await freePort();
  const redis = start('redis-server', ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', folder]);
  await until('redis', () => redis.text.stdout.includes('Ready to accept'));
  const server = await new Server({store: `redis://127.0.0.1:${port}/0?lease=8s`}).start();
  const page = await open(server);
  await page.waitForFunction(() => kazahana.plane.boxes.some((b) => b.twin));
  await kill(redis);
  await page.waitForFunction(() => document.querySelector('#verdict').textContent === 'Store is down');
  assert.match(await page.textContent('#banner'), /The store is down/);
  await page.waitForFunction(() => {
    const {plane} = kazahana, box = plane.boxes.find((b) => b.twin && b.lease.held);
    if (!box || box.lease.end > kazahana.now() - 500) return false;
    const x = (plane.x(box.lease.end) + plane.x(kazahana.now())) / 2;
    const [r, g, b] = plane.canvas.getContext('2d').getImageData(x * plane.dpr, (box.y + box.h / 2) * plane.dpr, 1, 1).data;
    return r > 200 && g > 130 && g < 200 && b < 60;
  });
  await server.kill();
  await page.close();
});

test('what a holder says about itself is only ever text', async (server) => {
  const evil = {host: '<img src=x onerror="window.hacked=1">', pid: '</td><script>window.hacked=1</script>', k: '&lt;b&gt;\u202e'};
  await server.lease(evil);
  const page = await open(server);
  await page.waitForFunction(() => document.querySelector('#rows').textContent.includes('onerror'));
  const at = await page.evaluate(() => {
    const box = kazahana.plane.boxes.find((b) => !b.twin && b.lease.meta.k);
    return {x: box.x + box.w - 4, y: box.y + box.h / 2};
  });
  await page.hover('#plane', {position: at});
  assert.ok((await page.textContent('#tip')).includes(`host=${evil.host}`));
  await page.click('#rows button:has-text("onerror")');
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.equal(await page.locator('img').count(), 1);
  assert.equal(await page.locator('script').count(), 1);
  await unrefused(page);
  quiet(page);
});

test('a token is asked for, and kept out of URLs, logs and storage that lasts', async () => {
  const file = path.join(folder, 'tokens');
  fs.writeFileSync(file, `${TOKEN}\n`);
  const server = await new Server({args: ['--token-file', file]}).start();
  const page = await open(server, {wait: false});
  await page.waitForSelector('#ask[open]');
  await page.fill('#token', 'not-a-token-of-this-server');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.querySelector('#wrong').textContent.includes('does not know'));
  await page.waitForSelector('#ask[open]');
  await page.fill('#token', TOKEN);
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => kazahana.plane.boxes.length > 0);
  assert.ok(page.asked.some((r) => r.headers.authorization === `Bearer ${TOKEN}`));
  assert.ok(page.asked.every((r) => !r.url.includes(TOKEN)));
  await page.reload();
  await page.waitForFunction(() => kazahana.plane.boxes.length > 0);
  assert.ok(!page.url().includes(TOKEN));
  assert.equal(await page.evaluate(() => localStorage.length + document.cookie.length), 0);
  assert.ok(!(await page.content()).includes(TOKEN));
  assert.ok(!server.log().includes(TOKEN));
  await page.click('#forget');
  await page.waitForSelector('#ask[open]');
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  await unrefused(page);
  quiet(page, /^Failed to load resource.*401/);
  await page.close();
  await server.kill();
});

// ---------------------------------------------------------------------------------------------------------------- cost

test('an idle page asks once a second, and not at all when nobody looks', async (server) => {
  const page = await open(server);
  await page.waitForFunction(() => document.querySelector('#verdict').textContent === 'All is well');
  page.asked.length = 0;
  await until('a dozen requests', () => page.asked.length >= 13);
  const asked = page.asked.slice(0, 13), took = asked[12].at - asked[0].at;
  // Slower on a slow machine, never faster: twelve seconds, less what a late timer catches up.
  assert.ok(took > 10500, `${took} ms`);
  assert.deepEqual(asked.filter((r) => !/\/(time|health|metrics)$/.test(r.url)), []);
  assert.ok(asked.filter((r) => r.url.endsWith('/time')).length >= 9);
  const show = (hidden) => page.evaluate((hidden) => {
    Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
    document.dispatchEvent(new Event('visibilitychange'));
  }, hidden);
  await show(true);
  await page.waitForTimeout(1500);  // what was under way
  page.asked.length = 0;
  await page.waitForTimeout(4000);
  assert.deepEqual(page.asked, []);
  await show(false);
  await until('a request', () => page.asked.length);
  quiet(page);
});

test('8,192 leases', async () => {
  const server = await new Server({store: 'memory:', args: ['--ids-from', 'static:1']}).start();
  let next = 0;
  await Promise.all(Array.from({length: 16}, async () => {
    for (let i = next++; i < 8192; i = next++) await server.lease({host: `host-${i % 700}`, pid: String(i)});
  }));
  const page = await open(server);
  await page.waitForFunction(() => kazahana.plane.boxes.length === 2 * 8192);
  const times = await page.evaluate(async () => {
    const times = [];
    for (let i = 0; i < 20; i++) {
      window.dispatchEvent(new Event('resize'));
      times.push(kazahana.plane.drawMs);
      await new Promise((done) => setTimeout(done, 10));
    }
    return times.sort((a, b) => a - b);
  });
  console.log(`   8,192 leases and their twins are drawn in ${times[10].toFixed(1)} ms (median of 20; ${times[0].toFixed(1)} to ${times[19].toFixed(1)})`);
  assert.equal(await page.textContent('#free'), '0');
  assert.equal(await page.textContent('#verdict'), 'No node free');
  await page.fill('#search', 'pid=8191');
  await page.waitForFunction(() => document.querySelectorAll('#rows tr').length === 1);
  // Every row of pixels of the leased half is taken.
  const [column] = await columns(page, (plane) => plane.x(kazahana.now()) + 5);
  assert.ok(column.lower.length >= 1);
  const at = await page.evaluate(() => ({x: kazahana.plane.x(kazahana.now()) + 20, y: kazahana.plane.ground - 40}));
  await page.hover('#plane', {position: at});
  assert.match(await page.textContent('#tip'), /host-\d+/);
  quiet(page);
  await page.close();
  await server.kill();
});

// -------------------------------------------------------------------------------------------------------------- people

test('it works by keyboard alone', async (server) => {
  for (const host of ['k1', 'k2', 'k3']) await server.lease({host, pid: '5'});
  const page = await open(server);
  await page.waitForFunction(() => kazahana.plane.boxes.filter((b) => !b.twin).length >= 4);
  const tabTo = async (id) => {
    for (let i = 0; i < 60; i++) {
      if (await page.evaluate((id) => document.activeElement && document.activeElement.id === id, id)) return;
      await page.keyboard.press('Tab');
    }
    throw new Error(`${id} is not reached by the tabulator`);
  };
  await tabTo('plane');
  await page.keyboard.press('ArrowUp');
  const first = await page.textContent('#said');
  assert.match(first, /Node \d+/);
  await page.keyboard.press('ArrowUp');
  assert.notEqual(await page.textContent('#said'), first);
  assert.equal(await page.isVisible('#tip'), true);
  await page.keyboard.press('Enter');
  await page.waitForSelector('tr.pinned');
  await page.keyboard.press('Escape');
  await page.waitForFunction(() => !document.querySelector('tr.pinned'));
  await tabTo('search');
  await page.keyboard.type('k2');
  await page.waitForFunction(() => document.querySelectorAll('#rows tr').length === 1);
  for (let i = 0; i < 'k2'.length; i++) await page.keyboard.press('Backspace');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Tab');  // behind the scrolled region: the first heading
  await page.keyboard.press('Enter');
  assert.equal(await page.getAttribute('th.node', 'aria-sort'), 'descending');
  await tabTo('paste');
  await page.keyboard.type((await server.ask('GET', '/id')).data.id_str);
  assert.match(await page.textContent('#found'), /holds now/);
  quiet(page);
});

test('axe finds no serious fault', async (server) => {
  await server.lease({host: 'seen', pid: '1'});
  for (const [width, scheme] of [[1400, 'light'], [1400, 'dark'], [500, 'light'], [500, 'dark']]) {
    const page = await open(server, {width, scheme});
    await page.waitForFunction(() => document.querySelectorAll('#rows tr').length > 0);
    await page.fill('#paste', (await server.ask('GET', '/id')).data.id_str);
    await page.evaluate(axe);
    const faults = await page.evaluate(async () => (await axe.run()).violations.map((v) => `${v.impact} ${v.id}: ${v.nodes.map((n) => n.html).join(' | ')}`));
    assert.deepEqual(faults.filter((f) => /^(serious|critical)/.test(f)), []);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false, 'nothing sticks out');
    quiet(page);
    await page.close();
  }
});

// ----------------------------------------------------------------------------------------------------------------- run

let failed = 0;
await openBrowser();
for (const {name, run} of tests.filter((t) => t.name.includes(wanted))) {
  const begin = Date.now(), server = run.length ? await new Server().start() : null;
  try {
    await run(server);
    console.log(`ok ${name} (${((Date.now() - begin) / 1000).toFixed(1)} s)`);
  } catch (e) {
    failed++;
    console.log(`FAILED ${name}\n${e.stack}`);
  }
  await closePages();
  if (server) await server.kill();
}
await closeBrowser();
console.log(failed ? `${failed} failed` : 'all passed');
process.exit(failed ? 1 : 0);
