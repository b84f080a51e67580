// What the page knows, how it learns it, and everything around the plane. All that comes from clients is put in as text.
import {Plane, clock} from './plane.js';
import {lastMs, readId, readLayout} from './id.js';

const $ = (id) => document.getElementById(id);
const TICK_MS = 1000, SEEN_MAX = 40000, ROWS = 100, POINTS = 60, NEVER = 1e16;
const plane = new Plane($('plane'));
const say = (n) => Math.round(n).toLocaleString('en');

const leases = new Map();  // all that this page has seen, by service, node and start; those that ended stay for a while
let service = null, layout = null, leaseMs = 600000;
let health = null, metrics = null, trouble = null;  // trouble: why the last request failed
let generation = null, base = 0, baseAt = 0, answeredAt = null, firstLook = null;
let token = sessionStorage.getItem('token') || '', asked = false;
let pinned = null, chosen = null, cross = null, found = null;
let sort = {by: 'node', down: false}, limit = ROWS;

// The server's clock, carried on by ours between its answers.
const now = () => base + performance.now() - baseAt;

function span(ms) {
  if (!(ms > 0)) return 'none';
  if (ms > 1e15) return 'for ever';
  const s = Math.floor(ms / 1000);
  if (s < 120) return `${s} s`;
  if (s < 7200) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 172800) return `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
  return `${Math.floor(s / 86400)} days`;
}

function make(tag, text, className) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
}

// ---- asking

async function ask(path) {
  const headers = {Accept: 'application/json'};
  if (token) headers.Authorization = `Bearer ${token}`;
  return fetch(path, {headers, cache: 'no-store', signal: AbortSignal.timeout(10000)});
}

async function askTime() {
  const answer = await ask('/time');
  answeredAt = performance.now();
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.detail || body.title);
  // The largest of the readings is the one that was on its way the shortest.
  const reading = body.serverTime;
  if (!base || Math.abs(reading - now()) > 250 || reading > now()) {
    base = reading;
    baseAt = performance.now();
  }
  if (firstLook === null) firstLook = reading;
  return body.generation;
}

async function askHealth() {
  const answer = await ask('/health');
  answeredAt = performance.now();
  health = await answer.json();
  const store = health.components.store;
  if (store.layout && !$('shape').value) $('shape').value = store.layout;
  if (store.status === 'DOWN') throw new Error(store.error);
}

async function askMetrics() {
  const answer = await ask('/metrics');
  answeredAt = performance.now();
  if (!answer.ok) return;
  const all = new Map();
  for (const m of (await answer.text()).matchAll(/^(kazahana_\w+)(?:\{(.*)\})? (\S+)$/gm)) {
    if (/_bucket$|http_/.test(m[1])) continue;
    const labels = Object.fromEntries([...(m[2] || '').matchAll(/(\w+)="([^"]*)"/g)].map((l) => l.slice(1)));
    if (!all.has(m[1])) all.set(m[1], []);
    all.get(m[1]).push({labels, value: Number(m[3])});
  }
  metrics = {all, at: performance.now(), before: metrics};
  if (metrics.before) metrics.before.before = null;
  keepPoint();
}

let listing = null, nextListing = 0;

// Again only when the table has changed, and never so often that it would be a load: a long list is read less often.
function askLeases(newer) {
  if (listing || performance.now() < nextListing) return;
  const begin = performance.now();
  listing = readLeases().then((items) => {
    if (items) takeLeases(items), generation = newer;
  }).catch((e) => { trouble = e; }).finally(() => {
    listing = null;
    nextListing = performance.now() + 10 * (performance.now() - begin);
    refresh();
  });
}

async function readLeases() {
  const items = [];
  for (let next = ''; next !== null;) {
    const answer = await ask(`/leases?limit=1000${next && `&after=${encodeURIComponent(next)}`}`);
    if (answer.status === 401 || answer.status === 403) return wantToken();
    const body = await answer.json();
    if (!answer.ok) throw new Error(body.detail || body.title);
    items.push(...body.leases);
    next = body.next;
  }
  return items;
}

function takeLeases(items) {
  const there = new Set(), time = now();
  for (const item of items) {
    const key = `${item.service} ${item.id} ${item.created}`;
    there.add(key);
    let lease = leases.get(key);
    if (!lease) leases.set(key, lease = read(item, key));
    lease.end = lease.expired = item.expired ?? NEVER;
    lease.twinEnd = item.fallbackExpired ?? 0;
    lease.held = true;
  }
  // What goes before its end was given back. What is over keeps its twin until the holder has a newer lease: then it
  // gives the old one back.
  const newest = new Map();
  for (const l of leases.values()) if (there.has(l.key)) newest.set(l.holder, Math.max(newest.get(l.holder) || 0, l.created));
  for (const l of leases.values()) {
    if (there.has(l.key)) continue;
    if (l.held && time < l.end || newest.get(l.holder) > l.created) {
      l.end = Math.min(l.end, time);
      l.twinEnd = Math.min(l.twinEnd, time);
    }
    l.held = false;
  }
  for (const [key, lease] of leases) {
    if (leases.size <= SEEN_MAX) break;
    if (!lease.held) leases.delete(key);
  }
  chooseService();
}

function read(item, key) {
  const told = typeof item.meta === 'object' && item.meta, meta = told || {}, {host, pid} = meta;
  const words = told ? Object.entries(meta).map(([k, v]) => `${k}=${v}`) : [String(item.meta)], {bitId = 14, bitSeq = 8, nodes = 1} = item;
  return {key, service: item.service, node: item.id, nodes, bitId, bitSeq, meta, words, reserved: item.kind === 'reserved',
    holder: JSON.stringify(item.meta), name: host && pid ? `${host}, ${pid}` : words.join(', ') || 'unnamed',
    text: `${item.id} ${words.join(' ')}`.toLowerCase(), lo: item.id * 2 ** bitSeq, hi: (item.id + nodes) * 2 ** bitSeq,
    created: item.created ?? 0, twinStart: item.fallbackCreated ?? 0};
}

let ticks = 0, timer = null, running = false;

// One request a second: the time, and now and then health or metrics in its place.
async function tick() {
  if (running) return;
  running = true;
  try {
    const turn = ticks++;
    if (turn === 0) await Promise.all([askHealth(), askMetrics()]);
    if (turn && !away() && turn % 10 === 3) await askMetrics();
    else if (turn && (turn % 10 === 8 || (trouble && turn % 2))) await askHealth();
    else {
      const newer = await askTime();
      if (newer !== generation) askLeases(newer);
      trouble = null;
    }
  } catch (e) {
    if (!document.hidden) trouble = e;
  } finally {
    running = false;
    refresh();
  }
}

function schedule() {
  clearInterval(timer);
  timer = document.hidden ? null : setInterval(tick, TICK_MS);
  if (timer) tick(), animate();
}

// ---- token

function wantToken() {
  if (token) $('wrong').textContent = 'The server does not know this token.';
  if (!asked && !$('ask').open) $('ask').showModal();
  return null;
}

$('ask-form').addEventListener('submit', (event) => {
  event.preventDefault();
  token = $('token').value.trim();
  $('token').value = '';
  sessionStorage.setItem('token', token);
  $('ask').close();
  generation = null;
  nextListing = 0;
  tick();
});
$('later').addEventListener('click', () => { asked = true; $('ask').close(); });
$('forget').addEventListener('click', () => {
  sessionStorage.removeItem('token');
  location.reload();
});

// ---- facts

const silent = () => (answeredAt === null ? Infinity : performance.now() - answeredAt);
const away = () => trouble && silent() > 2500;          // the server does not answer
const storeDown = () => trouble && !away();             // it does, and says that the store does not

const ours = () => [...leases.values()].filter((l) => l.service === service);
const live = (l, time = now()) => l.held && l.end > time;

const figure = (name, labels = {}) => {
  const lines = metrics && metrics.all.get(name);
  const mine = lines && lines.filter((l) => Object.entries(labels).every(([k, v]) => l.labels[k] === v));
  return mine && mine.length ? mine.reduce((sum, l) => sum + l.value, 0) : null;
};

function chooseService() {
  const names = [...new Set([...leases.values()].map((l) => l.service))].sort();
  if (!names.length) names.push('default');
  if (!names.includes(service)) service = names.includes('default') ? 'default' : names[0];
  const select = $('service');
  if ([...select.options].map((o) => o.value).join('\n') === names.join('\n')) return;
  select.replaceChildren(...names.map((name) => new Option(name, name, false, name === service)));
}

// The bits of the newest lease; what health says serves only the service that the server mints for.
function shapeOf(mine) {
  const newest = mine.reduce((a, b) => (!a || b.created > a.created ? b : a), null);
  const told = health && health.components.store;
  layout = readLayout($('shape').value);
  const bits = newest || (layout && {bitId: layout.node, bitSeq: layout.seq}) || {bitId: 14, bitSeq: 8};
  const spans = mine.filter((l) => !l.reserved).map((l) => l.expired - l.created).sort((a, b) => a - b);
  leaseMs = spans.length ? spans[spans.length >> 1] : (told && told.leaseMs) || leaseMs;
  return {half: 2 ** (bits.bitId + bits.bitSeq - 1), seqBits: bits.bitSeq, nodes: 2 ** (bits.bitId - 1)};
}

const points = {rate: [], out: []};

function rates() {
  if (!metrics || !metrics.before) return null;
  const seconds = (metrics.at - metrics.before.at) / 1000, result = {};
  for (const {labels, value} of metrics.all.get('kazahana_ids_total') || []) {
    const old = (metrics.before.all.get('kazahana_ids_total') || []).find((l) => l.labels.kind === labels.kind);
    result[labels.kind] = Math.max(0, old ? (value - old.value) / seconds : 0);
  }
  return result;
}

function keepPoint() {
  const all = rates();
  if (all) points.rate.push(Object.values(all).reduce((a, b) => a + b, 0));
  points.out.push(ours().filter((l) => live(l)).length);
  for (const line of Object.values(points)) if (line.length > POINTS) line.shift();
}

function sparkline(canvas, values) {
  const dpr = window.devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight;
  canvas.width = w * dpr;
  canvas.height = h * dpr;
  if (values.length < 3) return;
  const c = canvas.getContext('2d'), top = Math.max(...values, 1);
  c.scale(dpr, dpr);
  c.strokeStyle = plane.colors.dim;
  c.lineWidth = 1.5;
  c.beginPath();
  values.forEach((v, i) => c.lineTo(w - (values.length - 1 - i) * w / (POINTS - 1), h - 2 - (h - 4) * v / top));
  c.stroke();
}

// ---- strip

// The worst that is known comes first: [class, what, why].
function judge(runway, free, nodes) {
  const parts = health && health.components;
  if (away() || (trouble && !health)) return ['bad', 'No answer', `last answer ${span(silent())} ago; holders go on by themselves`];
  if (storeDown()) {
    const minting = parts && parts.generator.status !== 'DOWN';
    return [minting ? 'warn' : 'bad', minting ? 'Store is down' : 'No IDs', `${trouble.message}. Holders go on in their twins for ${span(runway)}.`];
  }
  if (!parts) return ['', 'Asking the server', ''];
  if (parts.generator.status === 'DOWN') return ['bad', 'No IDs here', 'GET /id has no lease to mint from'];
  if (parts.generator.unfenced) return ['bad', 'IDs at risk', 'this server mints unfenced IDs, which promise nothing'];
  if (free === 0) return ['bad', 'No node free', 'no new lease can be given'];
  if (parts.clock.status !== 'UP') return ['warn', 'Clocks differ', `the store is ${span(Math.abs(parts.clock.storeAheadMs))} off this server's clock; IDs stay unique`];
  if (free < nodes / 10) return ['warn', 'Few nodes free', 'look for a crash loop in the table'];
  if (parts.store.durable === false) return ['warn', 'Store not durable', parts.store.note];
  return ['good', 'All is well', parts.store.note || 'server, store and clock answer'];
}

function put(id, text) {
  const node = $(id);
  if (node.textContent !== text) node.textContent = text;
}

function strip(mine, shape) {
  const time = now(), last = away() ? time - silent() : time;  // what is out now is not known without an answer
  const out = mine.filter((l) => live(l, last) && !l.reserved);
  const lasts = new Map();  // how long each holder can go on alone
  for (const l of out) lasts.set(l.holder, Math.max(lasts.get(l.holder) || 0, l.end, l.twinEnd));
  for (const l of mine) if (lasts.has(l.holder)) lasts.set(l.holder, Math.max(lasts.get(l.holder), l.twinEnd));
  const carrying = mine.filter((l) => l.twinEnd > time && !l.reserved);
  for (const l of carrying) if (!lasts.has(l.holder)) lasts.set(l.holder, l.twinEnd);
  const runway = lasts.size ? Math.min(...lasts.values()) - time : 0;
  const nodes = figure('kazahana_nodes', {service}) ?? shape.nodes;
  const taken = mine.filter((l) => live(l, last)).reduce((sum, l) => sum + l.nodes, 0);
  const free = leases.size || generation !== null ? Math.max(0, nodes - taken) : null;
  const [state, what, why] = judge(runway, free, nodes);
  $('health').className = `card ${state}`;
  put('verdict', what);
  put('why', why);
  document.title = state === 'bad' || state === 'warn' ? `${what} - kazahana` : 'kazahana';
  const banner = $('banner');
  banner.hidden = !trouble;
  if (trouble) {
    banner.className = away() ? 'bad' : 'warn';
    const text = away() ? 'The server does not answer. Holders go on by themselves; new leases are not known here.'
      : 'The store is down. Nobody gets a new lease; holders go on, first in their leases, then in their twins.';
    if (banner.textContent !== text) banner.textContent = text;
  }
  put('free', free === null ? '\u2013' : say(free));
  put('nodes', `of ${say(nodes)}${away() ? ', at the last answer' : ''}`);
  $('used').style.width = `${free === null ? 0 : Math.min(100, 100 * (nodes - free) / nodes)}%`;
  put('out', generation === null ? '\u2013' : say(out.length));
  put('holders', `held by ${say(new Set(out.map((l) => l.holder)).size)}`);
  put('runway', lasts.size ? span(runway) : '\u2013');
  const all = rates();
  put('rate', all ? say(Object.values(all).reduce((a, b) => a + b, 0)) : '\u2013');
  put('kinds', all ? Object.entries(all).filter(([kind, n]) => kind === 'leased' || n > 0)
    .map(([kind, n]) => `${say(n)} ${kind}`).join(', ') + ', by this server' : '');
  const told = health && health.components.store, its = told && told.layout && readLayout(told.layout);
  if (its) {
    put('last', new Date(lastMs(its)).toISOString().slice(0, 10));
    put('layout', `layout ${told.layout}`);
    put('store', told.durable ? 'store is durable' : 'store is not durable');
  }
  sparkline($('outs'), points.out);
  sparkline($('rates'), points.rate);
}

// ---- table

const COLUMNS = [
  ['node', 'Node', (l) => l.node],
  ['size', 'IDs a ms', (l) => 2 ** l.bitSeq],
  ['holder', 'Holder', (l) => l.name],
  ['since', 'Since', (l) => l.created],
  ['until', 'Until', (l) => l.expired],
  ['left', 'Left', (l) => l.expired],
  ['twin', 'Twin until', (l) => l.twinEnd],
];

function heads() {
  $('heads').replaceChildren(...COLUMNS.map(([name, title]) => {
    const th = make('th', undefined, name), button = make('button', title);
    th.scope = 'col';
    button.type = 'button';
    th.ariaSort = sort.by === name ? (sort.down ? 'descending' : 'ascending') : 'none';
    button.addEventListener('click', () => {
      sort = {by: name, down: sort.by === name && !sort.down};
      heads();
      table();
      $('heads').children[COLUMNS.findIndex((c) => c[0] === name)].firstChild.focus();
    });
    th.append(button);
    return th;
  }));
}

let lefts = [];

function table() {
  const words = $('search').value.toLowerCase().split(/\s+/).filter(Boolean);
  const time = now(), value = COLUMNS.find((c) => c[0] === sort.by)[2];
  const all = ours().filter((l) => l.held && (l.end > time || l.twinEnd > time) && words.every((w) => l.text.includes(w)));
  all.sort((a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : a.node - b.node) * (sort.down ? -1 : 1));
  lefts = [];
  const focused = document.activeElement && document.activeElement.dataset.key;
  $('rows').replaceChildren(...all.slice(0, limit).map(row));
  if (focused) for (const b of $('rows').querySelectorAll('button')) if (b.dataset.key === focused) b.focus();
  $('more').hidden = all.length <= limit;
  put('rest', all.length > limit ? `${say(limit)} of ${say(all.length)} shown`
    : all.length ? '' : words.length ? 'No lease fits the search.' : 'No lease is out.');
}

const day = (ms) => (ms > 1e15 ? 'never' : clock(ms));

function row(l) {
  const tr = make('tr'), who = make('button', l.reserved ? `reserved: ${l.name}` : l.name), left = make('td', span(l.end - now()), 'left');
  who.type = 'button';
  who.dataset.key = l.key;
  who.ariaPressed = pinned === l.holder;
  who.addEventListener('click', () => pin(pinned === l.holder ? null : l.holder, l.key));
  const holder = make('td', undefined, 'holder'), dot = make('i');
  dot.style.background = l.reserved ? 'transparent' : plane.color(l.holder);
  holder.append(dot, who);
  if (pinned === l.holder) tr.className = 'pinned';
  const th = make('th', l.nodes > 1 ? `${l.node}\u2013${l.node + l.nodes - 1}` : String(l.node), 'node');
  th.scope = 'row';
  tr.append(th, make('td', say(2 ** l.bitSeq), 'size'), holder, make('td', l.created ? day(l.created) : '', 'since'),
    make('td', day(l.expired), 'until'), left, make('td', l.twinEnd > l.twinStart ? day(l.twinEnd) : 'none', 'twin'));
  lefts.push([left, l]);
  return tr;
}

// ---- plane, tip

const alone = new Map();  // holders in an outage, and when their last lease ended

function draw() {
  const mine = ours(), time = now(), shape = shapeOf(mine);
  alone.clear();
  for (const l of mine) if (trouble && !l.reserved && l.twinEnd > time) alone.set(l.holder, Math.max(alone.get(l.holder) || 0, l.end));
  plane.draw({leases: mine, now: time, leaseMs, span: Number($('span').value), half: shape.half, seqBits: shape.seqBits,
    known: away() ? now() - silent() : null, pinned, chosen, cross,
    carries: (l) => (alone.get(l.holder) <= time && l.twinEnd > time ? alone.get(l.holder) : null)});
  return [mine, shape];
}

let frame = null, drawnAt = 0;

// As often as the picture moves by half a pixel, at most; at rest once a second, by refresh().
function animate() {
  cancelAnimationFrame(frame);
  if (document.hidden || matchMedia('(prefers-reduced-motion: reduce)').matches) return;
  frame = requestAnimationFrame((at) => {
    const wait = Math.max(33, 0.5 / (plane.scale || 1));
    if (base && at - drawnAt >= wait && wait < 700) drawnAt = at, draw();
    animate();
  });
}

let changed = '';

function refresh() {
  if (!base) {
    if (trouble) strip([], {nodes: 0, half: 1, seqBits: 0});
    return;
  }
  const [mine, shape] = draw();
  strip(mine, shape);
  const state = `${generation} ${service} ${mine.filter((l) => l.held && l.end > now()).length} ${leases.size}`;
  if (state !== changed) changed = state, table();
  for (const [cell, l] of lefts) cell.textContent = l.end > now() ? span(l.end - now()) : 'ended';
  if (tipped) {
    const box = plane.boxes.find((b) => b.lease === tipped.lease && b.twin === tipped.twin);
    tip(box && {...box, cursor: tipped.cursor});
  }
  fleet();
  if (found) where();
  put('age', answeredAt === null ? '' : silent() > 2500 ? `last answer ${span(silent())} ago` : 'live');
  $('forget').hidden = !token;
}

const nodesOf = (l) => (l.nodes > 1 ? `Nodes ${l.node} to ${l.node + l.nodes - 1}` : `Node ${l.node}`);

function describe(l) {
  const lines = [l.reserved ? `${nodesOf(l)}, reserved` : `Node ${l.node}: ${say(2 ** l.bitSeq)} IDs a millisecond`];
  lines.push(l.words.join(', ') || 'its holder says nothing about itself');
  lines.push(`${l.created ? `from ${clock(l.created)} ` : ''}to ${day(l.expired)} UTC`);
  if (l.reserved) return lines;
  lines.push(!l.held && l.end < l.expired ? `given back at ${clock(l.end)}` : l.end > now() ? `${span(l.end - now())} left` : 'ended');
  lines.push(l.twinEnd > l.twinStart && l.twinEnd > now() ? `twin: node ${l.node + 2 ** (l.bitId - 1)} until ${clock(l.twinEnd)}, ${span(l.twinEnd - now())} left` : 'its twin has ended');
  return lines;
}

let tipped = null;

function tip(box, keyboard) {
  const node = $('tip');
  tipped = box;
  node.hidden = !box;
  if (!box) return;
  const [first, ...rest] = describe(box.lease);
  node.replaceChildren(make('b', box.twin ? `Twin of node ${box.lease.node}` : first), ...rest.map((line) => make('span', line)));
  const wide = $('stage').clientWidth, x = Math.min(Math.max(box.x + 12, box.cursor ?? 0), wide - node.offsetWidth - 8);
  node.style.left = `${Math.max(4, x)}px`;
  node.style.top = `${box.y > 170 ? box.y - node.offsetHeight - 8 : box.y + box.h + 8}px`;
  if (keyboard) put('said', describe(box.lease).join(', '));
}

function pin(holder, key) {
  pinned = holder;
  chosen = holder && key;
  changed = '';
  refresh();
}

const stage = $('plane');
stage.addEventListener('mousemove', (event) => {
  const box = plane.at(event.offsetX, event.offsetY);
  stage.style.cursor = box ? 'pointer' : 'default';
  tip(box && {...box, cursor: event.offsetX + 12});
});
stage.addEventListener('mouseleave', () => tip(null));
stage.addEventListener('click', (event) => {
  const box = plane.at(event.offsetX, event.offsetY);
  pin(box && pinned !== box.lease.holder ? box.lease.holder : null, box && box.lease.key);
});
stage.addEventListener('blur', () => tip(null));

// Up and down: the next node at about the same time. Left and right: the holder's lease before and after.
function step(from, key) {
  const boxes = plane.boxes.filter((b) => !b.twin);
  if (!from) return boxes.sort((a, b) => b.y - a.y)[0];
  if (key === 'ArrowLeft' || key === 'ArrowRight') {
    const mine = boxes.filter((b) => b.lease.holder === from.lease.holder).sort((a, b) => a.lease.created - b.lease.created);
    return mine[mine.findIndex((b) => b.lease.key === from.lease.key) + (key === 'ArrowLeft' ? -1 : 1)];
  }
  const up = key === 'ArrowUp' ? 1 : -1, middle = from.x + from.w / 2;
  const beyond = boxes.filter((b) => (b.lease.lo - from.lease.lo) * up > 0);
  const nearest = beyond.reduce((best, b) => (best === null || (b.lease.lo - best) * up < 0 ? b.lease.lo : best), null);
  return beyond.filter((b) => b.lease.lo === nearest)
    .sort((a, b) => Math.abs(a.x + a.w / 2 - middle) - Math.abs(b.x + b.w / 2 - middle))[0];
}

stage.addEventListener('keydown', (event) => {
  const from = plane.boxes.find((b) => !b.twin && b.lease.key === chosen);
  if (event.key.startsWith('Arrow')) {
    const box = step(from, event.key) || from;
    if (box) chosen = box.lease.key, draw(), tip(box, true);
  } else if (event.key === 'Enter' && from) {
    pin(pinned === from.lease.holder ? null : from.lease.holder, from.lease.key);
  } else if (event.key === 'Escape') {
    pin(null, null);
    tip(null);
  } else return;
  event.preventDefault();
});

// ---- paste, fleet

// Never more than this page knows: what the table has forgotten cannot be told.
function verdict(p) {
  const half = 2 ** (layout.node + layout.seq - 1), slot = p.slot % half, time = now();
  const mine = ours().filter((l) => l.lo <= slot && slot < l.hi);
  const inside = (l) => (p.fallback ? l.twinStart <= p.ms && p.ms < l.twinEnd : l.created <= p.ms && p.ms < l.end);
  const hits = mine.filter(inside), what = p.fallback ? 'twin' : 'window';
  const held = hits.find((l) => l.held && (p.fallback ? l.twinEnd : l.end) > time);
  if (held) return ['good', `Inside a ${what} that ${held.name} holds now.`];
  if (hits.length) return ['good', `Inside a ${what} that this page saw ${hits[0].name} hold.`];
  if (firstLook === null || p.ms < firstLook) return ['', 'Before what this page saw. The table forgets what has ended.'];
  if (p.ms > time + 1000) return ['warn', 'In the future: nothing mints there yet. Is it of this layout?'];
  return ['warn', 'In no window that this page saw. It may be of another service or layout, or of a lease that came and went between two looks.'];
}

// A typed external ID is turned back by the server, if it has the key.
const TYPED = /^[a-z][a-z0-9]{0,15}_[\w-]{11}$/;
let turned = {};
async function turn(text) {
  turned = {text};
  try {
    const answer = await ask(`/decode/${text}`), body = await answer.json();
    turned = answer.ok ? {text, id: body.data.id_str} : {text, why: body.detail};
  } catch {
    turned = {text, why: 'The server does not answer.'};
  }
  where();
  draw();
}

function where() {
  const box = $('found'), text = $('paste').value.trim(), typed = TYPED.test(text);
  if (typed && turned.text !== text) turn(text);
  layout = readLayout($('shape').value);
  const all = text && layout ? readId(typed ? turned.id || '' : text, layout, now()) : [];
  found = all[0] || null;
  cross = found && {ms: found.ms, slot: found.slot};
  const key = JSON.stringify([text, $('shape').value, found && verdict(found), typed && turned.why]);
  if (box.dataset.shown === key) return;
  box.dataset.shown = key;
  box.replaceChildren();
  if (!text) return;
  if (!layout) return box.append(make('p', 'The layout must be written as 41-14-8@2026-01-01.', 'warn'));
  if (!found && typed) return box.append(make('p', turned.why || 'Asking the server.', 'warn'));
  if (!found) return box.append(make('p', 'Not an ID in decimal, hex (0x...), base32, base62 or base64url.', 'warn'));
  const [state, words] = verdict(found);
  const dl = make('dl');
  const lines = {Time: new Date(found.ms).toISOString(), Node: `${found.node}${found.fallback ? ' (fallback half)' : ''}`,
    Sequence: String(found.seq), Decimal: String(found.id), Read: typed ? 'as an external ID' : `as ${found.form}`};
  if (all[1]) lines.Read += `; could be ${all.slice(1).map((p) => `${p.form} (${new Date(p.ms).toISOString().slice(0, 10)})`).join(', ')}`;
  for (const [k, v] of Object.entries(lines)) dl.append(make('dt', k), make('dd', v));
  box.append(make('p', words, `verdict ${state}`), dl);
}

function fleet() {
  const names = new Set((metrics && metrics.all.get('kazahana_client_ids_total') || []).map((l) => l.labels.service));
  const key = metrics ? metrics.at : 0;
  if ($('fleet').dataset.shown === String(key)) return;
  $('fleet').dataset.shown = key;
  if (!names.size) return $('fleet').replaceChildren(make('p', 'No client has reported yet.'));
  const head = make('tr'), body = make('tbody'), thead = make('thead'), result = make('table');
  for (const title of ['Service', 'IDs', 'Fenced', 'Unfenced', 'Waited', 'Clock back']) {
    const th = make('th', title);
    th.scope = 'col';
    head.append(th);
  }
  for (const name of names) {
    const tr = make('tr'), th = make('th', name), of = (metric, kind) => figure(metric, {service: name, ...(kind && {kind})}) || 0;
    th.scope = 'row';
    tr.append(th, make('td', say(of('kazahana_client_ids_total'))), make('td', say(of('kazahana_client_ids_total', 'fenced'))),
      make('td', say(of('kazahana_client_ids_total', 'unfenced')), of('kazahana_client_ids_total', 'unfenced') ? 'bad' : ''),
      make('td', say(of('kazahana_client_exhausted_total'))), make('td', say(of('kazahana_client_clock_back_total'))));
    body.append(tr);
  }
  thead.append(head);
  result.append(thead, body);
  $('fleet').replaceChildren(result);
}

// ---- begin

for (const id of ['paste', 'shape']) $(id).addEventListener('input', () => { where(); draw(); });
$('paste').addEventListener('keydown', (event) => {
  if (event.key === 'Escape') $('paste').value = '', where(), draw();
});
$('search').addEventListener('input', () => { limit = ROWS; table(); });
$('more').addEventListener('click', () => { limit += 5 * ROWS; table(); });
$('span').addEventListener('change', () => refresh());
$('service').addEventListener('change', () => {
  service = $('service').value;
  pinned = chosen = null;
  plane.tallest = 0;
  points.out.length = 0;
  refresh();
});
document.addEventListener('visibilitychange', schedule);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { plane.theme(); changed = ''; refresh(); });
window.addEventListener('resize', () => { if (base) draw(); });
$('where').textContent = location.host;
window.kazahana = {plane, now};  // for a look from the console, and for tests
heads();
chooseService();
schedule();
