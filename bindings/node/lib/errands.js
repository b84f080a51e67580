// A provider written in JavaScript at work: the keeper's questions, which come from a thread of C, and its answers.
'use strict';

const { createHmac } = require('node:crypto');
const { native, providers } = require('./native.js');
const { KazahanaError } = require('./errors.js');
const { readGrant, readTime } = require('./answer.js');

const STATUS = {
  KZ_INVALID: 3, KZ_UNAVAILABLE: 16, KZ_NO_FREE_NODE: 17, KZ_NOT_FOUND: 18, KZ_FORBIDDEN: 19, KZ_CONFLICT: 20,
  KZ_MISMATCH: 21, KZ_STORE: 22, KZ_LOST: 23,
};
const ACQUIRE = 0;
const RELEASE = 1;
const ASK_ANEW_MS = 60000; // a provider that was silent for so long is asked again
const SAME_MS_WAIT = 50;
const DRIFT = 0.9995;

function statusOf(error, otherwise) {
  return STATUS[error?.code] ?? otherwise;
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

class Errands {
  #provider;
  #serviceId;
  #asked = null; // the acquire that was asked last: { requestId, at, grant: a promise, claimed, over }
  lastError; // of the provider's own

  constructor(provider, serviceId) {
    this.#provider = provider;
    this.#serviceId = serviceId;
    this.number = native.addProvider(typeof provider.now === 'function');
    providers.set(this.number, this);
  }

  get source() {
    return `js:${this.number}`;
  }

  run(kind, question, errand) {
    const work = kind === ACQUIRE ? this.#acquire(question, errand)
      : kind === RELEASE ? this.#release(question) : this.#now();
    work.then(
      (answer) => answer && native.answer(errand, answer.serverTime, answer.generation, answer.numbers, answer.secrets),
      (error) => {
        if (kind === ACQUIRE) this.lastError = error;
        const otherwise = kind === RELEASE ? STATUS.KZ_STORE : STATUS.KZ_UNAVAILABLE;
        native.refuse(errand, statusOf(error, otherwise), String(error?.message ?? error));
      }
    );
  }

  // The same request asked again, because it took too long, waits for the first call instead of making another: a
  // provider that does not know request IDs would grant twice.
  async #acquire(question, errand) {
    const { requestId } = question;
    let asked = this.#asked;
    if (asked?.requestId !== requestId || asked.over || performance.now() - asked.at > ASK_ANEW_MS) {
      if (asked) this.#giveBack(asked);
      asked = this.#asked = { requestId, at: performance.now() };
      asked.grant = this.#call(question);
    }
    const grant = await asked.grant.catch((error) => {
      asked.over = true;
      throw error;
    });
    if (asked.over) throw new KazahanaError('the lease came too late and was given back', 'KZ_UNAVAILABLE');
    const age = Math.max(0, Math.floor((performance.now() - grant.at) * DRIFT) - 1);
    asked.claimed ||= native.answer(errand, grant.serverTime + age, grant.generation, grant.numbers, grant.secrets);
    if (this.#asked !== asked) this.#giveBack(asked);
  }

  async #call({ holder, throughputPerMs, requestId }) {
    const options = { meta: JSON.parse(holder), throughputPerMs, requestId };
    if (this.#serviceId !== undefined) options.serviceId = this.#serviceId;
    const answer = await this.#provider.acquire(options);
    return { ...readGrant(answer, requestId), at: performance.now() };
  }

  // Leases that came when nobody waited for them any more. Nobody can claim them afterwards.
  async #giveBack(asked) {
    const { leases, serverTime, at } = await asked.grant.catch(() => ({ leases: [] }));
    if (asked.claimed || asked.over) return;
    asked.over = true;
    const timestamp = serverTime + Math.floor((performance.now() - at) * DRIFT);
    for (const { id, secret } of leases) {
      const signature = createHmac('sha256', secret).update(`${id}:${timestamp}`).digest('hex');
      this.#release({ id, signature, timestamp }).catch(() => {}); // it ends by itself then
    }
  }

  // A provider whose table forgets a lease at its release may grant the node again in the same millisecond: it is told
  // when that is over.
  async #release({ id, signature, timestamp }) {
    // Looked at again: a timer may fire a little before its time.
    for (let ahead; (ahead = timestamp - Date.now()) >= 0 && ahead < SAME_MS_WAIT;) await sleep(ahead + 1);
    const options = { id, signature, timestamp };
    if (this.#serviceId !== undefined) options.serviceId = this.#serviceId;
    await this.#provider.release(options);
    return { serverTime: 0, generation: 0, numbers: new Float64Array(0), secrets: [] };
  }

  async #now() {
    const { serverTime, generation } = readTime(await this.#provider.now(), 0);
    return { serverTime, generation, numbers: new Float64Array(0), secrets: [] };
  }

  /** No question is answered any more. */
  close() {
    if (this.#asked) this.#giveBack(this.#asked);
    this.#asked = null;
    providers.delete(this.number);
    native.removeProvider(this.number);
  }
}

module.exports = { Errands };
