// What the tests of the page stand on: real servers, and one real Chromium.
import {spawn} from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import {createRequire} from 'node:module';
import net from 'node:net';
import path from 'node:path';

export const [program, browser, packages, folder] = process.argv.slice(2);
export const PATIENCE_MS = 120000;  // for what takes a moment on a machine with nothing else to do
const {chromium} = createRequire(path.join(packages, 'node_modules', 'x.js'))('playwright-core');
export const axe = fs.readFileSync(path.join(packages, 'node_modules', 'axe-core', 'axe.min.js'), 'utf8');

const children = new Set();
process.on('exit', () => { for (const child of children) child.kill('SIGKILL'); });

export function start(command, args, options = {}) {
  const child = spawn(command, args, {stdio: ['ignore', 'pipe', 'pipe'], ...options});
  children.add(child);
  child.text = {stdout: '', stderr: ''};
  for (const name of ['stdout', 'stderr']) child[name]?.on('data', (piece) => { child.text[name] += piece; });
  child.ended = new Promise((done) => child.on('exit', () => { children.delete(child); done(); }));
  return child;
}

export async function until(what, look) {
  for (const end = Date.now() + PATIENCE_MS; ; await new Promise((done) => setTimeout(done, 20))) {
    const seen = await look();
    if (seen) return seen;
    if (Date.now() > end) throw new Error(`waited in vain for ${what}`);
  }
}

export async function kill(child, signal = 'SIGKILL') {
  child.kill(signal);
  await child.ended;
}

export class Server {
  static count = 0;

  constructor({store, args = [], port = 0} = {}) {
    const name = `server-${Server.count++}`;
    this.args = ['serve', '--store', store || `sqlite:${path.join(folder, name)}.db`, '--log-level', 'debug', ...args];
    this.port = port;
  }

  async start() {
    this.process = start(program, [...this.args, '--listen', `127.0.0.1:${this.port}`]);
    const found = await until('the server', () => {
      if (this.process.exitCode !== null) throw new Error(this.process.text.stderr);
      return /event=listening.*address=\S*:(\d+)/.exec(this.process.text.stderr);
    });
    this.port = Number(found[1]);
    this.url = `http://127.0.0.1:${this.port}`;
    return this;
  }

  async ask(method, where, body, headers = {}) {
    const answer = await fetch(this.url + where, {method, headers, body: body && JSON.stringify(body)});
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${where}: ${answer.status} ${text}`);
    return text && JSON.parse(text);
  }

  // A lease of one block for whoever says so about itself.
  async lease(meta, headers) {
    return (await this.ask('POST', '/lease', {meta}, headers)).leases[0];
  }

  async release({id, secret}) {
    const {serverTime: timestamp} = await this.ask('GET', '/time');
    const signature = crypto.createHmac('sha256', secret).update(`${id}:${timestamp}`).digest('hex');
    await this.ask('DELETE', `/lease/${id}`, {signature, timestamp});
  }

  log() { return this.process.text.stderr; }
  kill() { return kill(this.process); }
}

export async function freePort() {
  const probe = net.createServer();
  await new Promise((done) => probe.listen(0, '127.0.0.1', done));
  const {port} = probe.address();
  await new Promise((done) => probe.close(done));
  return port;
}

let context = null;

export async function openBrowser() {
  context = await chromium.launchPersistentContext(fs.mkdtempSync(path.join(folder, 'chromium-')), {
    executablePath: browser, headless: true, viewport: {width: 1400, height: 900}, timeout: PATIENCE_MS,
    args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
      '--disable-background-networking', '--disable-component-update', '--disable-sync']});
  context.setDefaultTimeout(PATIENCE_MS);
  // Every page tells what its policy refused.
  await context.addInitScript(() => {
    window.refused = [];
    addEventListener('securitypolicyviolation', (event) => window.refused.push(`${event.violatedDirective} ${event.blockedURI}`));
  });
}

export const closePages = async () => { for (const page of context.pages().slice(1)) await page.close(); };
export const closeBrowser = () => context && context.close();

// A page on a server, with all that it complained of and asked for.
export async function open(server, {scheme = 'light', width = 1400, height = 900, wait = true} = {}) {
  const page = await context.newPage();
  page.complaints = [];
  page.asked = [];
  page.on('console', (m) => { if (['error', 'warning'].includes(m.type())) page.complaints.push(m.text()); });
  page.on('pageerror', (e) => page.complaints.push(String(e.stack)));
  page.on('request', (r) => page.asked.push({url: r.url(), headers: r.headers(), at: Date.now()}));
  await page.emulateMedia({colorScheme: scheme});
  await page.setViewportSize({width, height});
  await page.goto(server.url);
  if (wait) await page.waitForFunction(() => kazahana.plane.boxes.length > 0);
  return page;
}
