// What a provider answers, read without believing any of it: every field has its type and its range.
'use strict';

const { KazahanaError } = require('./errors.js');

const MS_MAX = 253402300799999; // the end of the year 9999
const LEASES_MAX = 256;
const SECRET_MAX = 64;
const PER_LEASE = 10; // numbers, in the order that src/provider.c reads

function wrong(name) {
  return new KazahanaError(`the provider's ${name} is missing, of the wrong type or out of range`, 'KZ_STORE');
}

function integer(object, name, min, max) {
  const value = object[name];
  if (!Number.isSafeInteger(value) || value < min || value > max) throw wrong(name);
  return value;
}

function readLease(lease, numbers) {
  if (lease === null || typeof lease !== 'object') throw wrong('lease');
  const epoch = integer(lease, 'customEpoch', 0, MS_MAX);
  const reserve = integer(lease, 'bitReserve', 0, 62);
  const ts = integer(lease, 'bitTs', 1, 63);
  const node = integer(lease, 'bitId', 1, 32);
  const seq = integer(lease, 'bitSeq', 0, 32);
  if (reserve + ts + node + seq !== 64) {
    throw new KazahanaError(`the provider's lease has ${reserve + ts + node + seq} bits in all, not 64`, 'KZ_STORE');
  }
  // The upper half of the machine IDs is for fallback, and nobody's lease.
  const id = integer(lease, 'id', 0, 2 ** (node - 1) - 1);
  const created = integer(lease, 'created', 0, MS_MAX - 1);
  const expired = integer(lease, 'expired', created + 1, MS_MAX);
  let twin = [expired, expired];
  if (lease.fallbackCreated !== undefined || lease.fallbackExpired !== undefined) {
    const from = integer(lease, 'fallbackCreated', 0, MS_MAX);
    twin = [from, integer(lease, 'fallbackExpired', from, MS_MAX)];
  }
  numbers.set([id, created, expired, ...twin, epoch, reserve, ts, node, seq]);
  const { secret } = lease;
  if (typeof secret !== 'string' || secret.includes('\0') || Buffer.byteLength(secret) > SECRET_MAX) {
    throw wrong('secret');
  }
  return { low: id * 2 ** seq, high: (id + 1) * 2 ** seq, id, created, expired, secret };
}

/** The leases of an answer as numbers for C; throws if anything about it makes no sense. */
function readGrant(answer, requestId) {
  if (answer === null || typeof answer !== 'object' || !Array.isArray(answer.leases)) throw wrong('list of leases');
  const count = answer.leases.length;
  if (count < 1 || count > LEASES_MAX) throw wrong('list of leases');
  if (answer.requestId !== undefined && answer.requestId !== requestId) {
    throw new KazahanaError("the answer is to somebody else's request and was thrown away", 'KZ_UNAVAILABLE');
  }
  const numbers = new Float64Array(count * PER_LEASE);
  const leases = answer.leases.map((lease, i) => readLease(lease, numbers.subarray(i * PER_LEASE)));
  const byBlock = [...leases].sort((a, b) => a.low - b.low);
  for (let i = 1; i < count; i++) {
    if (byBlock[i - 1].high > byBlock[i].low) {
      throw new KazahanaError(
        `the provider's leases overlap: machine IDs ${byBlock[i - 1].id} and ${byBlock[i].id}`, 'KZ_STORE');
    }
  }
  // Without a time of its own, that of the newest lease's beginning, which cannot be ahead of it.
  const { serverTime, generation } = readTime(answer, Math.max(...leases.map((lease) => lease.created)));
  if (leases.every((lease) => lease.expired <= serverTime)) {
    throw new KazahanaError("the provider's leases are over already", 'KZ_STORE');
  }
  return { leases, numbers, secrets: leases.map((lease) => lease.secret), serverTime, generation };
}

/** Where an answer has no serverTime it is `otherwise`; a generation of 0 is none. */
function readTime(answer, otherwise) {
  if (answer === null || typeof answer !== 'object') throw wrong('time');
  return {
    serverTime: answer.serverTime === undefined ? otherwise : integer(answer, 'serverTime', 0, MS_MAX),
    generation: answer.generation === undefined ? 0 : integer(answer, 'generation', 0, Number.MAX_SAFE_INTEGER),
  };
}

module.exports = { readGrant, readTime };
