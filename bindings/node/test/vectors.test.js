// The vectors that all bindings share.
'use strict';

const assert = require('node:assert');
const path = require('node:path');
const { test } = require('node:test');
const { kazahana, ROOT } = require('./support.js');

const vectors = require(path.join(ROOT, 'tests/vectors/ids.json'));

test('layouts and what IDs of them contain', () => {
  for (const [name, want] of Object.entries(vectors.layouts)) {
    const layout = kazahana.describeLayout(name);
    assert.deepStrictEqual(
      { time_bits: layout.timeBits, node_bits: layout.nodeBits, seq_bits: layout.seqBits, epoch_ms: layout.epoch },
      { time_bits: want.time_bits, node_bits: want.node_bits, seq_bits: want.seq_bits, epoch_ms: want.epoch_ms });
    assert.strictEqual(kazahana.describeLayout(layout.text).name, name);
  }
  for (const { layout, id, unix_ms, node, seq } of vectors.ids) {
    const parts = kazahana.decodeId(BigInt(id), layout);
    assert.deepStrictEqual([parts.time.getTime(), parts.node, parts.seq], [unix_ms, node, seq]);
    assert(kazahana.minId(unix_ms, layout) <= BigInt(id) && BigInt(id) <= kazahana.maxId(parts.time, layout));
  }
});

test('texts, both ways', () => {
  for (const { id, ...texts } of vectors.text) {
    for (const [form, text] of Object.entries({ decimal: id, ...texts })) {
      assert.strictEqual(kazahana.formatId(BigInt(id), form), text);
      assert.strictEqual(kazahana.parseId(text, form), BigInt(id));
    }
  }
  for (const [form, texts] of Object.entries(vectors.text_bad)) {
    for (const text of texts) assert.throws(() => kazahana.parseId(text, form), { code: 'KZ_INVALID' });
  }
  for (const { base32, reads_as: reads } of vectors.text_lenient) {
    assert.strictEqual(kazahana.parseId(base32, 'base32'), kazahana.parseId(reads, 'base32'));
  }
});

test('external IDs without a key', () => {
  for (const { id, external } of vectors.external_no_secret) {
    assert.strictEqual(kazahana.toExternalId(BigInt(id)), external);
    assert.strictEqual(kazahana.toInternalId(external), BigInt(id));
  }
  for (const wrong of ['', 'short', 'ASNFZ4mrze8=', 'ASNFZ4mrz+8', 12, undefined]) {
    assert.throws(() => kazahana.toInternalId(wrong), { code: 'KZ_INVALID' });
  }
  for (const wrong of [-1n, 1n << 64n, 7, '7', undefined]) {
    assert.throws(() => kazahana.toExternalId(wrong), { code: 'KZ_INVALID' });
  }
});

test('external IDs with a key, and with one that is not loaded', () => {
  for (const { id, algorithm, secret_hex: secret, key_number: number, external } of vectors.external_keyed) {
    const keys = new kazahana.ExternalKeys(`${number} ${algorithm} ${secret}\n`);
    assert.strictEqual(kazahana.toExternalId(BigInt(id), { keys }), external);
    assert.strictEqual(kazahana.toInternalId(external, { keys }), BigInt(id));
    const others = new kazahana.ExternalKeys(`${(number + 1) % 4} ${algorithm} ${secret}\n`);
    assert.throws(() => kazahana.toInternalId(external, { keys: others }), { code: 'KZ_UNKNOWN_KEY' });
  }
  assert.throws(() => new kazahana.ExternalKeys('0 rot13 00'), { code: 'KZ_INVALID', message: /line 1/ });
  assert.throws(() => kazahana.toExternalId(1n, { keys: {} }), { code: 'KZ_INVALID' });
});

test('typed external IDs belong to their type', () => {
  const id = kazahana.minId(Date.parse('2026-06-01T00:00:00Z'));
  const keys = new kazahana.ExternalKeys('1 xtea 000102030405060708090a0b0c0d0e0f\n');
  for (const options of [{ type: 'user' }, { type: 'user', keys }]) {
    const text = kazahana.toExternalId(id, options);
    assert.match(text, /^user_[\w-]{11}$/);
    assert.strictEqual(kazahana.toInternalId(text, options), id);
    assert.throws(() => kazahana.toInternalId(text, { ...options, type: 'order' }), { code: 'KZ_INVALID' });
    assert.throws(() => kazahana.toInternalId(text, { keys }), { code: 'KZ_INVALID' });
    assert.throws(() => kazahana.toInternalId(text.slice(5), options), { code: 'KZ_INVALID' });
  }
  assert.notStrictEqual(kazahana.toExternalId(id, { type: 'user', keys }).slice(5),
    kazahana.toExternalId(id, { type: 'team', keys }).slice(5));
  assert.throws(() => kazahana.toExternalId(id, { type: 'User' }), { code: 'KZ_INVALID', message: /User/ });
  const keysOf = ({ secret_hex: secret, key_number: number, algorithm }) =>
    secret && new kazahana.ExternalKeys(`${number} ${algorithm} ${secret}\n`);
  const latest = vectors.external_typed_latest_unix_ms;
  for (const vector of vectors.external_typed) {
    const options = { type: vector.type, keys: keysOf(vector) };
    assert.strictEqual(kazahana.toExternalId(BigInt(vector.id), options), vector.external);
    assert.strictEqual(kazahana.toInternalId(vector.external, { ...options, latest }), BigInt(vector.id));
  }
  for (const vector of vectors.external_typed_bad) {
    const options = { type: vector.type, keys: keysOf(vector), latest };
    assert.throws(() => kazahana.toInternalId(vector.external, options), { code: 'KZ_INVALID' });
  }
});

test('UUIDs that carry a node and a nanosecond', () => {
  for (const { text, node, unix_ns: ns } of vectors.monouuid) {
    assert.deepStrictEqual(kazahana.MonoUuid.parse(text), { node, time: BigInt(ns) });
    assert(kazahana.MonoUuid.min(BigInt(ns)) <= text);
    assert(new kazahana.MonoUuid(node, text).next() > text);
  }
  for (const text of vectors.monouuid_bad) {
    assert.throws(() => kazahana.MonoUuid.parse(text), { code: 'KZ_INVALID' });
  }
  assert.throws(() => new kazahana.MonoUuid(0), { code: 'KZ_INVALID' });
});

test('nanoseconds only grow, and go on above the last one', () => {
  const last = BigInt(Date.now() + 3600000) * 1000000n;
  const mono = new kazahana.Monotime(last);
  assert.deepStrictEqual([mono.next(), mono.next()], [last + 1n, last + 2n]);
  const now = new kazahana.Monotime();
  for (let i = 0, before = now.next(); i < 1000; i++) {
    const next = now.next();
    assert(next > before);
    before = next;
  }
});
