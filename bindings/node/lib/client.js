// KazahanaClient: IDs from one source, for as long as the program runs.
'use strict';

const { native, view } = require('./native.js');
const { KazahanaError, LeaseAcquisitionError, NoProviderError } = require('./errors.js');
const { Errands } = require('./errands.js');
const { readConfig } = require('./config.js');

const AGAIN = 1;
const LEASE_ACQUISITION = 11;
const NOT_OPEN = 255;
const IDS_MAX = 1 << 20;
// What a call that blocks waits for a provider that needs the loop: the next millisecond, not an answer.
const NEXT_MS_US = 2000;
const SLOWEST_TIMER_MS = 0x7fffffff;
// Opening one of these is no exchange with another machine, so a call that blocks may do it.
const LOCAL = /^(static|env|memory|standalone|sqlite):/;

const notOpen = () => NOT_OPEN;
const sleeper = new Int32Array(new SharedArrayBuffer(4));
const block = (us) => Atomics.wait(sleeper, 0, 0, Math.max(us / 1000, 0.05));
const closedError = () => new KazahanaError('the client has been shut down', 'KZ_CLOSED');

// Room for `count` IDs: a view into a pool, as small Buffers are. Making an array costs more than filling it.
const POOL_IDS = 8192;
let pool = new ArrayBuffer(0);
let used = 0;

function allocate(count) {
  if (count instanceof BigUint64Array && count.length > 0) return count;
  if (!Number.isInteger(count) || count < 1 || count > IDS_MAX) {
    throw new KazahanaError(`nextIds gives 1 to ${IDS_MAX} IDs, not ${String(count)}`, 'KZ_INVALID');
  }
  if (count > POOL_IDS / 4) return new BigUint64Array(count);
  if (used + count > pool.byteLength / 8) { // also if somebody has transferred it to another thread
    pool = Buffer.allocUnsafeSlow(8 * POOL_IDS).buffer;
    used = 0;
  }
  const ids = new BigUint64Array(pool, 8 * used, count);
  used += count;
  return ids;
}

class KazahanaClient {
  #take = notOpen; // leaves an ID in the view; or returns a status
  #generator;
  #config;
  #errands; // of a provider written in JavaScript
  #opening; // the promise of a generator, or undefined
  #closing;
  #waiting = []; // callers of nextId() for whom there was no ID: { resolve, reject, until }
  #timer;

  constructor(config = {}) {
    this.#config = readConfig(config);
  }

  /** The next ID: larger than all that this client gave before. */
  nextId() {
    if (this.#waiting.length === 0 && this.#take() === undefined) return Promise.resolve(view[0]);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject, until: performance.now() + this.#config.timeoutMs });
      if (this.#waiting.length === 1) this.#serve();
    });
  }

  /** The same at once, for a client that is open. Blocks while the slots of a millisecond are used up. */
  nextIdSync() {
    if (this.#take() === undefined) return view[0];
    const until = performance.now() + this.#config.timeoutMs;
    this.#openSync();
    for (let status; (status = this.#take()) !== undefined; ) this.#blockAfter(status, until);
    return view[0];
  }

  /** `count` IDs in increasing order; an array is filled. Blocks as nextIdSync does. */
  nextIds(count) {
    this.#openSync();
    const ids = allocate(count);
    let done = this.#generator.fill(ids, 0);
    if (done === ids.length) return ids;
    const until = performance.now() + this.#config.timeoutMs;
    while (done < ids.length) {
      this.#blockAfter(this.#generator.status(), until);
      done = this.#generator.fill(ids, done);
    }
    return ids;
  }

  /** Opens the client, which the first ID does otherwise: the first lease is there then. */
  async ready() {
    await this.#open();
  }

  /** What it did and where it stands; null before it is open. */
  stats() {
    const stats = this.#generator?.stats();
    if (!stats) return null;
    return { ...stats, windowEnd: stats.windowEnd < 0 ? null : new Date(stats.windowEnd) };
  }

  /** The layout of its IDs as TIME-NODE-SEQ@EPOCH; null before it is open. */
  get layout() {
    return this.#generator?.layout() ?? null;
  }

  /** Gives back what it holds. Whoever still waits for an ID gets an error. */
  shutdown() {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  // -------------------------------------------------------------------------------------------- opening, closing

  #open() {
    if (this.#closing) return Promise.reject(closedError());
    if (this.#generator) return Promise.resolve();
    this.#opening ??= this.#openLater().finally(() => (this.#opening = undefined));
    return this.#opening;
  }

  #openLater() {
    const { source, provider, missing, serviceId, options } = this.#config;
    if (missing) return Promise.reject(new NoProviderError());
    if (provider) this.#errands ??= new Errands(provider, serviceId);
    return new Promise((resolve, reject) => {
      native.open(this.#errands?.source ?? source, options, (error, generator) => {
        if (error) reject(this.#explain(error));
        else resolve(this.#opened(generator));
      });
    });
  }

  #opened(generator) {
    if (this.#generator) return new Promise((resolve) => generator.close(resolve)); // nextIdSync came first
    this.#generator = generator;
    if (!this.#closing) this.#take = generator.take;
    return undefined;
  }

  #openSync() {
    if (this.#generator && !this.#closing) return;
    const { source, provider, missing, options } = this.#config;
    if (this.#closing) throw closedError();
    if (missing) throw new NoProviderError();
    if (provider || !LOCAL.test(source ?? 'sqlite:')) {
      throw new KazahanaError('the client is not open yet: await client.ready() first', 'KZ_AGAIN');
    }
    this.#opened(native.openSync(source, options));
  }

  async #close() {
    this.#take = notOpen;
    clearTimeout(this.#timer);
    for (const { reject } of this.#waiting.splice(0)) reject(closedError());
    const opening = this.#opening;
    if (opening) {
      if (!this.#generator) this.#errands?.close(); // a provider that is silent need not be waited for
      await opening.catch(() => {});
    }
    if (this.#generator) await new Promise((resolve) => this.#generator.close(resolve));
    this.#errands?.close();
  }

  // ------------------------------------------------------------------------------------------------------ waiting

  // Gives IDs to those who wait, in order, until there is none; then comes back.
  #serve() {
    if (!this.#generator) {
      this.#open().then(() => this.#serve(), (error) => this.#fail(error));
      this.#comeBack(Infinity);
      return;
    }
    while (this.#waiting.length > 0) {
      const status = this.#take();
      if (status === undefined) {
        this.#waiting.shift().resolve(view[0]);
      } else if (status === NOT_OPEN) {
        this.#fail(closedError());
      } else if (this.#isWorthWaiting(status) && performance.now() < this.#waiting[0].until) {
        this.#comeBack(Number(view[1]) / 1000);
        return;
      } else {
        this.#waiting.shift().reject(this.#failure(status));
      }
    }
    clearTimeout(this.#timer); // it would keep the process alive
  }

  #comeBack(ms) {
    clearTimeout(this.#timer);
    const left = this.#waiting[0].until - performance.now();
    const pause = Math.max(1, Math.ceil(Math.min(ms, left)));
    this.#timer = setTimeout(() => this.#onTimer(), Math.min(pause, SLOWEST_TIMER_MS));
  }

  #onTimer() {
    if (this.#generator) {
      this.#serve();
      return;
    }
    // Still opening: those whose time is over are told so, the others go on waiting.
    const now = performance.now();
    while (this.#waiting.length > 0 && this.#waiting[0].until <= now) {
      this.#waiting.shift().reject(this.#timeout());
    }
    if (this.#waiting.length > 0) this.#comeBack(Infinity);
  }

  #fail(error) {
    clearTimeout(this.#timer);
    for (const { reject } of this.#waiting.splice(0)) reject(error);
  }

  #blockAfter(status, until) {
    const left = until - performance.now();
    const us = Number(view[1]);
    if (!this.#isWorthWaiting(status) || left <= 0) throw this.#failure(status);
    if (this.#config.provider && us > NEXT_MS_US) {
      if (status === LEASE_ACQUISITION) throw this.#failure(status);
      throw new KazahanaError('no ID now, and the provider needs the event loop: use await nextId()', 'KZ_AGAIN');
    }
    block(Math.min(us, left * 1000));
  }

  #isWorthWaiting(status) {
    return status === AGAIN || (status === LEASE_ACQUISITION && !this.#config.strict);
  }

  #timeout() {
    const message = `no ID within ${this.#config.timeoutMs} ms`;
    const cause = this.#errands?.lastError;
    return cause ? new LeaseAcquisitionError(cause) : new KazahanaError(message, 'KZ_TIMEOUT');
  }

  #failure(status) {
    if (status === NOT_OPEN) return closedError();
    return status === AGAIN ? this.#timeout() : this.#explain(this.#generator.failure());
  }

  // The provider's own error says more than what C made of it.
  #explain(error) {
    const cause = this.#errands?.lastError;
    return error instanceof LeaseAcquisitionError && cause ? new LeaseAcquisitionError(cause) : error;
  }
}

module.exports = { KazahanaClient };
