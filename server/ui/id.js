// IDs as text, and what they hold. The same five forms as the library's; some texts can be two of them.

const FORMS = [
  ['decimal', /^\d{1,20}$/, (t) => BigInt(t)],
  ['hex', /^(0x[0-9a-f]{1,16}|[0-9a-f]{16})$/i, (t) => BigInt(t.replace(/^(0x)?/i, '0x'))],
  ['base32', /^[0-9a-hjkmnp-tv-z]{13}$/i, (t) => digits(t.toUpperCase(), '0123456789ABCDEFGHJKMNPQRSTVWXYZ')],
  ['base62', /^[0-9a-z]{11}$/i, (t) => digits(t, '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz')],
  ['base64url', /^[\w-]{11}$/,
    (t) => digits(t, 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_', 2n)],
];

function digits(text, alphabet, spare = 0n) {
  let value = 0n;
  for (const c of text) value = value * BigInt(alphabet.length) + BigInt(alphabet.indexOf(c));
  return value & ((1n << spare) - 1n) ? -1n : value >> spare;
}

// "41-14-8@2026-01-01T00:00:00.000Z", or null.
export function readLayout(text) {
  const m = /^(\d+)-(\d+)-(\d+)@(.+)$/.exec(text.trim());
  const epoch = m && (/^\d+$/.test(m[4]) ? Number(m[4]) : Date.parse(m[4].length === 10 ? `${m[4]}T00:00:00Z` : m[4]));
  if (!m || !Number.isFinite(epoch)) return null;
  const [time, node, seq] = m.slice(1, 4).map(Number);
  return time > 0 && time + node + seq <= 64 && node + seq <= 31 ? {time, node, seq, epoch} : null;
}

export const lastMs = (l) => l.epoch + 2 ** l.time - 1;

function take(id, form, l) {
  const low = BigInt(l.node + l.seq);
  const ms = Number(id >> low);
  if (ms >= 2 ** l.time) return null;
  const slot = Number(id & ((1n << low) - 1n));
  return {form, id, ms: l.epoch + ms, slot, node: slot >>> l.seq, seq: slot & (2 ** l.seq - 1),
    fallback: slot >= 2 ** (l.node + l.seq - 1)};
}

// All that the text can mean, the most likely first: what was minted before now, as late as possible.
export function readId(text, layout, now) {
  const all = [];
  for (const [form, shape, read] of FORMS) {
    const id = shape.test(text) ? read(text) : -1n;
    const parts = id >= 0n && id < 1n << 64n ? take(id, form, layout) : null;
    if (parts) all.push(parts);
  }
  const far = (p) => (p.ms > now + 60000 ? 1e15 : 0) + Math.abs(now - p.ms);
  return all.sort((a, b) => far(a) - far(b));
}
