// External IDs, texts, layouts, and nanoseconds that only grow: plain functions that never wait.
'use strict';

const { readFileSync } = require('node:fs');
const { native } = require('./native.js');
const { KazahanaError } = require('./errors.js');

const unixMs = (time) => {
  const ms = Number(time);
  if (!Number.isSafeInteger(ms)) throw new KazahanaError(`${time} is no time: a Date or Unix ms`, 'KZ_INVALID');
  return ms;
};

/** Keys for external IDs: lines `N xtea|speck HEXSECRET`. The first encodes, all decode. */
class ExternalKeys {
  #keys;

  constructor(text) {
    this.#keys = native.readKeys(String(text));
  }

  static load(path) {
    return new ExternalKeys(readFileSync(path, 'utf8'));
  }

  static of(keys) {
    if (keys === undefined) return undefined;
    if (!(keys instanceof ExternalKeys)) throw new KazahanaError('keys must be ExternalKeys', 'KZ_INVALID');
    return keys.#keys;
  }
}

/** 11 characters that hide an ID's order and time; with a type, `user_` and 11 characters. */
function toExternalId(id, { keys, type } = {}) {
  return native.toExternal(id, ExternalKeys.of(keys), type);
}

/** The ID that an external text stands for. Throws if it is none, or one of another type. */
function toInternalId(text, { keys, type, layout, latest = 0 } = {}) {
  if (typeof text !== 'string') throw new KazahanaError('an external ID is a text', 'KZ_INVALID');
  return native.toInternal(text, ExternalKeys.of(keys), type, layout, unixMs(latest));
}

const FORMS = ['decimal', 'hex', 'base32', 'base62', 'base64url'];

function form(name) {
  const number = FORMS.indexOf(name);
  if (number < 0) throw new KazahanaError(`"${name}" is no form of an ID (${FORMS.join(', ')})`, 'KZ_INVALID');
  return number;
}

const formatId = (id, name = 'decimal') => native.format(id, form(name));

function parseId(text, name = 'decimal') {
  if (typeof text !== 'string') throw new KazahanaError('the text of an ID is a string', 'KZ_INVALID');
  return native.parse(text, form(name));
}

const describeLayout = (layout = 'kazahana') => native.layout(layout);

function decodeId(id, layout = 'kazahana') {
  const { time, ...parts } = native.decode(id, layout);
  return { time: new Date(time), ...parts };
}

const minId = (time, layout = 'kazahana') => native.minId(unixMs(time), layout);
const maxId = (time, layout = 'kazahana') => native.maxId(unixMs(time), layout);

/** Strictly increasing nanoseconds since 1970. */
class Monotime {
  #mono;

  constructor(last = 0n) {
    this.#mono = native.monoNew(last);
  }

  next() {
    return native.monoNext(this.#mono);
  }
}

/** UUIDs of version 7 that carry a node and a nanosecond. */
class MonoUuid {
  #generator;

  constructor(node, last) {
    if (!Number.isInteger(node)) throw new KazahanaError('a node is a number from 1 to 16777215', 'KZ_INVALID');
    this.#generator = native.monoUuidNew(node, last);
  }

  next() {
    return native.monoUuidNext(this.#generator);
  }

  /** Its node and its nanosecond. Throws if it is none of these. */
  static parse(uuid) {
    return native.monoUuidParse(String(uuid));
  }

  /** The smallest one of a nanosecond, for range scans. */
  static min(unixNs) {
    return native.monoUuidMin(unixNs);
  }
}

module.exports = {
  ExternalKeys, toExternalId, toInternalId, formatId, parseId, describeLayout, decodeId, minId, maxId, Monotime, MonoUuid,
};
