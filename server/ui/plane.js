// The plane on a canvas: time to the right, slots upward, a rectangle for each lease and its twin.
// Empty ranges of slots are folded, so that a few leases among thousands of nodes can be seen.

// Told apart by lightness too, and neither amber nor red, which mean something here.
const LIGHT = ['#0067a5', '#007a55', '#a83279', '#2f8fd0', '#4338a8', '#7d1f4e', '#1f8378',
  '#6aa9dc', '#4dae8d', '#cf7fb4', '#8f86d8', '#b86a8f', '#67b5ac', '#0f5f66'];
const DARK = ['#4ba3d9', '#2fbf93', '#e08fbd', '#8ccbf2', '#9d94ee', '#d9698f', '#6fd0c1',
  '#2f7fb8', '#1f8f6c', '#b0588c', '#6f63cc', '#f2b8d3', '#b5e6de', '#b9d66a'];
const FONT = '11px system-ui, sans-serif', BOLD = `600 ${FONT}`;
const AXIS = 24, TOP = 22, GAP = 30, ROW_MAX = 36;
const STEPS = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 604800].map((s) => s * 1000);

export const clock = (ms, seconds = true) => new Date(ms).toISOString().slice(11, seconds ? 19 : 16);

function hash(text) {
  let h = 2166136261;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 16777619);
  return (h ^ h >>> 15) >>> 0;
}

export class Plane {
  constructor(canvas) {
    this.canvas = canvas;
    this.ctx = canvas.getContext('2d');
    this.boxes = [];  // what was drawn: {lease, twin, x, y, w, h}, in CSS pixels
    this.tallest = 0;
    this.drawMs = 0;
    this.theme();
  }

  theme() {
    const style = getComputedStyle(document.documentElement);
    const get = (name) => style.getPropertyValue(name).trim();
    this.colors = {ink: get('--ink'), dim: get('--dim'), line: get('--line'), plot: get('--plot'), past: get('--past'),
      card: get('--card'), amber: get('--amber'), veil: get('--veil'), bad: get('--bad')};
    this.dark = matchMedia('(prefers-color-scheme: dark)').matches;
    this.tints = new Map();
    this.hatches = new Map();
  }

  // A holder has the same colour wherever and whenever it is drawn.
  color(holder) {
    let tint = this.tints.get(holder);
    if (!tint) {
      tint = (this.dark ? DARK : LIGHT)[hash(holder) % LIGHT.length];
      this.tints.set(holder, tint);
    }
    return tint;
  }

  // Black or white, whichever can be read on it.
  onto(color) {
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16) / 255);
    return 0.2126 * r ** 2.2 + 0.7152 * g ** 2.2 + 0.0722 * b ** 2.2 > 0.2 ? '#0b1118' : '#fff';
  }

  hatch(color) {
    let pattern = this.hatches.get(color);
    if (!pattern) {
      const size = Math.round(7 * this.dpr), tile = document.createElement('canvas');
      tile.width = tile.height = size;
      const c = tile.getContext('2d');
      c.strokeStyle = color;
      c.lineWidth = this.dpr;
      c.beginPath();
      for (const at of [-size, 0, size]) c.moveTo(at - 1, size + 1), c.lineTo(at + size + 1, -1);
      c.stroke();
      pattern = this.ctx.createPattern(tile, 'repeat');
      pattern.setTransform(new DOMMatrix([1 / this.dpr, 0, 0, 1 / this.dpr, 0, 0]));
      this.hatches.set(color, pattern);
    }
    return pattern;
  }

  // From slots to heights: {lo, hi, from, to, fold} in order, `from` and `to` in pixels above the half's ground.
  fold(leases, half, height) {
    const blocks = leases.map((l) => [l.lo, l.hi]).sort((a, b) => a[0] - b[0]);
    const merged = [];
    for (const [lo, hi] of blocks) {
      const last = merged[merged.length - 1];
      if (last && lo < last[1]) last[1] = Math.max(last[1], hi);
      else merged.push([lo, hi]);
    }
    const smallest = merged.reduce((least, [lo, hi]) => Math.min(least, hi - lo), half);
    const weights = merged.map(([lo, hi]) => 1 + Math.log2((hi - lo) / smallest));
    const total = weights.reduce((a, b) => a + b, 0) || 1;
    let at = 0, gaps = 0;
    for (const [lo, hi] of merged) gaps += lo > at, at = hi;
    gaps += at < half;
    let gap = 14, row = (height - gaps * gap) / total;
    if (row < 7) gap = 3, row = (height - gaps * gap) / total;
    if (row < 1) gap = 0, row = height / total;
    row = Math.min(row, ROW_MAX);
    const segments = [];
    let y = 0;
    const push = (lo, hi, h, fold) => segments.push({lo, hi, from: y, to: y += h, fold});
    at = 0;
    merged.forEach(([lo, hi], i) => {
      if (lo > at) push(at, lo, gap, true);
      push(lo, hi, row * weights[i], false);
      at = hi;
    });
    if (at < half) push(at, half, Math.max(gap, height - y), true);
    this.folded = gap > 0;
    return segments;
  }

  // Pixels above the ground of a slot of the lower half.
  level(slot) {
    const s = this.segments;
    let a = 0, b = s.length - 1;
    while (a < b) {
      const m = a + b + 1 >> 1;
      if (s[m].lo <= slot) a = m;
      else b = m - 1;
    }
    const {lo, hi, from, to} = s[a];
    return from + (to - from) * (slot - lo) / (hi - lo);
  }

  x(ms) { return this.left + (ms - this.t0) * this.scale; }

  // `view`: leases, now, leaseMs, span (leases of time), half (slots), nodeBits, seqBits, store, known (up to when the
  // server has answered, or null), pinned, chosen, cross.
  draw(view) {
    const begin = performance.now();
    const {canvas, ctx} = this, {now, half} = view;
    const width = canvas.clientWidth, narrow = width < 600;
    this.left = narrow ? 46 : 64;
    this.t0 = now - view.leaseMs * view.span / 3;
    this.scale = (width - this.left) / (view.leaseMs * view.span);
    const t1 = this.t0 + view.leaseMs * view.span;
    const seen = view.leases.filter((l) => Math.max(l.end, l.twinEnd) > this.t0 && l.created < t1);
    const rows = new Set(seen.map((l) => l.lo)).size;
    this.tallest = Math.max(this.tallest, rows > 16 ? 600 : rows > 10 ? 520 : rows > 4 ? 440 : 380);
    const height = narrow ? Math.min(this.tallest, 460) : this.tallest;
    this.size(width, height);
    const room = height - TOP - GAP - AXIS, upper = Math.round(room * 0.42), lower = room - upper;
    this.segments = this.fold(seen, half, lower);
    this.ground = height - AXIS;
    this.upperGround = TOP + upper;
    this.shrink = upper / lower;
    this.boxes = [];

    ctx.clearRect(0, 0, width, height);
    this.backdrop(view, width, TOP, upper, lower);
    ctx.save();
    ctx.beginPath();
    ctx.rect(this.left, 0, width - this.left, height - AXIS);
    ctx.clip();
    if (view.known !== null) this.veil(view.known, width, height);
    for (const l of seen) this.twin(l, view, width);
    this.thin = false;
    for (const l of seen) this.lease(l, view, width);
    if (this.thin) {
      ctx.globalAlpha = 0.6;
      ctx.fillStyle = this.colors.plot;
      ctx.fillRect(this.x(now), this.ground - lower, width, lower);
      ctx.fillRect(0, TOP, width, upper);
      ctx.globalAlpha = 1;
    }
    if (view.pinned) this.stairs(seen, view.pinned);
    if (view.cross) this.cross(view.cross, width, height, half);
    ctx.restore();
    this.nowLine(now, height);
    const box = view.chosen && this.boxes.find((b) => b.lease.key === view.chosen && !b.twin);
    if (box) {
      ctx.strokeStyle = this.colors.ink;
      ctx.lineWidth = 2;
      ctx.strokeRect(box.x - 1, box.y - 1, box.w + 2, box.h + 2);
    }
    this.drawMs = performance.now() - begin;
  }

  size(width, height) {
    const {canvas} = this, dpr = window.devicePixelRatio || 1;
    const w = Math.round(width * dpr), h = Math.round(height * dpr);
    if (canvas.width === w && canvas.height === h && this.dpr === dpr) return;
    canvas.style.height = `${height}px`;
    canvas.width = w;
    canvas.height = h;
    this.dpr = dpr;
    this.hatches.clear();
    this.ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
  }

  backdrop(view, width, top, upper, lower) {
    const {ctx, colors, left} = this, right = width - left, base = this.ground - lower;
    const now = this.x(view.now);
    for (const [y, h, word] of [[top, upper, 'fallback half: twins'], [base, lower, 'leased half']]) {
      ctx.fillStyle = colors.plot;
      ctx.fillRect(left, y, right, h);
      ctx.fillStyle = colors.past;
      ctx.fillRect(left, y, now - left, h);
      ctx.fillStyle = colors.dim;
      ctx.font = BOLD;
      ctx.textAlign = 'right';
      ctx.textBaseline = 'bottom';
      ctx.fillText(word, width, y - 4);
    }
    this.ticks(view, width, top);
    this.numbers(view, right);
  }

  ticks(view, width, top) {
    const {ctx, colors} = this;
    const step = STEPS.find((s) => s * this.scale >= 84) || STEPS[STEPS.length - 1];
    ctx.textAlign = 'center';
    ctx.textBaseline = 'top';
    ctx.font = FONT;
    ctx.lineWidth = 1;
    for (let t = Math.ceil(this.t0 / step) * step; this.x(t) < width; t += step) {
      const x = Math.round(this.x(t)) + 0.5;
      ctx.strokeStyle = colors.line;
      ctx.beginPath();
      ctx.moveTo(x, top);
      ctx.lineTo(x, this.upperGround);
      ctx.moveTo(x, this.upperGround + GAP);
      ctx.lineTo(x, this.ground);
      ctx.stroke();
      ctx.fillStyle = colors.dim;
      if (x > this.left + 24 && x < width - 24) ctx.fillText(clock(t, step < 60000), x, this.ground + 7);
    }
    ctx.textAlign = 'left';
    ctx.fillText('UTC', 0, this.ground + 7);
  }

  // Node numbers where there is room for them, and what the folds hide.
  numbers(view, right) {
    const {ctx, colors, left} = this, one = 2 ** view.seqBits;
    ctx.textBaseline = 'middle';
    ctx.font = FONT;
    for (const [ground, shrink, add] of [[this.ground, 1, 0], [this.upperGround, this.shrink, view.half / one]]) {
      let last = Infinity;
      for (const s of this.segments) {
        const y0 = ground - s.from * shrink, y1 = ground - s.to * shrink, y = (y0 + y1) / 2;
        const from = Math.floor(s.lo / one) + add, to = Math.ceil(s.hi / one) - 1 + add;
        ctx.fillStyle = colors.dim;
        if (s.fold) {
          if (y0 - y1 >= 3) this.zigzag(left, y, right, y0 - y1);
          if (y0 - y1 >= 13 && last - y >= 12) {
            ctx.textAlign = 'left';
            ctx.fillText(to > from ? `${from} to ${to} free` : `${from} free`,
              left + 8, y);
          }
        } else if (last - y >= 12) {
          ctx.textAlign = 'right';
          ctx.fillText(String(from), left - 8, y);
          last = y;
        }
      }
    }
  }

  zigzag(left, y, right, h) {
    const {ctx, colors} = this;
    ctx.strokeStyle = h < 8 ? colors.line : colors.dim;
    ctx.lineWidth = 1;
    ctx.beginPath();
    if (h < 8) {
      ctx.moveTo(left, y);
      ctx.lineTo(left + right, y);
    } else {
      ctx.moveTo(left - 10, y + 3);
      for (const [dx, dy] of [[-7, -3], [-4, 3], [-1, -3]]) ctx.lineTo(left + dx, y + dy);
    }
    ctx.stroke();
  }

  place(l, twin, width, from, to) {
    const ground = twin ? this.upperGround : this.ground, shrink = twin ? this.shrink : 1;
    const low = this.level(l.lo) * shrink, top = this.level(l.hi) * shrink;
    const pad = top - low > 5 ? 1 : 0;
    const x = Math.max(this.x(from), this.left - 2), w = Math.min(this.x(to), width + 2) - x;
    if (w <= 0) return null;
    const box = {lease: l, twin, x, y: ground - top + pad, w, h: Math.max(top - low - 2 * pad, 0.6)};
    this.boxes.push(box);
    return box;
  }

  lease(l, view, width) {
    const box = this.place(l, false, width, l.created, l.end);
    if (!box) return;
    const {ctx} = this, {x, y, w, h} = box, now = this.x(view.now);
    const ended = l.end <= view.now, dim = view.pinned && view.pinned !== l.holder ? 0.18 : 1;
    if (l.reserved) {
      ctx.globalAlpha = dim;
      ctx.fillStyle = this.hatch(this.colors.dim);
      ctx.fillRect(x, y, w, h);
      this.label(l.name, x, y, w, h, this.colors.ink);
      ctx.globalAlpha = 1;
      return;
    }
    ctx.fillStyle = this.color(l.holder);
    if (h < 3) {  // thousands: what is left, and all twins, are made paler at once
      ctx.fillRect(x, y, w, h);
      this.thin = true;
      return;
    }
    const used = Math.min(Math.max(now - x, 0), w);
    ctx.globalAlpha = (ended ? 0.45 : 0.95) * dim;
    if (used > 0) ctx.fillRect(x, y, used, h);
    ctx.globalAlpha = 0.38 * dim;
    if (used < w) ctx.fillRect(x + used, y, w - used, h);
    if (h >= 5 && !ended) {
      ctx.globalAlpha = dim;
      ctx.strokeStyle = this.color(l.holder);
      ctx.lineWidth = 1;
      ctx.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
    }
    ctx.globalAlpha = dim;
    if (used < w / 2) this.label(l.name, x + used + 2, y, w - used - 2, h, this.colors.ink);
    else this.label(l.name, x, y, used, h, ended ? this.colors.ink : this.onto(this.color(l.holder)));
    ctx.globalAlpha = 1;
  }

  twin(l, view, width) {
    if (l.twinEnd <= l.twinStart) return;
    const box = this.place(l, true, width, l.twinStart, l.twinEnd);
    if (!box) return;
    const {ctx} = this, {x, y, w, h} = box, dim = view.pinned && view.pinned !== l.holder ? 0.18 : 1;
    const from = view.carries(l), color = from === null ? this.color(l.holder) : this.colors.amber;
    ctx.globalAlpha = 0.3 * dim;
    ctx.fillStyle = h >= 3 ? this.hatch(color) : color;
    ctx.fillRect(x, y, w, h);
    if (from !== null) {
      const begin = Math.max(this.x(from), x), now = Math.max(this.x(view.now), begin);
      ctx.fillStyle = color;
      ctx.globalAlpha = dim;
      ctx.fillRect(begin, y, now - begin, h);
      ctx.globalAlpha = 0.45 * dim;
      ctx.fillRect(now, y, x + w - now, h);
      ctx.globalAlpha = dim;
      this.label(l.name, now + 2, y, x + w - now - 2, h, this.colors.ink);
    }
    if (h >= 3) {
      ctx.globalAlpha = (l.twinEnd > view.now ? 0.8 : 0.3) * dim;
      ctx.strokeStyle = color;
      ctx.lineWidth = 1;
      ctx.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
    }
    ctx.globalAlpha = 1;
  }

  label(text, x, y, w, h, color) {
    const {ctx} = this;
    const from = Math.max(x, this.left);
    if (h < 8 || x + w - from < 70) return;
    ctx.font = `${Math.min(11, h)}px system-ui, sans-serif`;
    ctx.textAlign = 'left';
    ctx.textBaseline = 'middle';
    const most = Math.floor((x + w - from - 12) / 6.2);
    ctx.fillStyle = color;
    ctx.fillText(text.length > most ? `${text.slice(0, most - 1)}\u2026` : text, from + 6, y + h / 2 + 0.5);
  }

  // The handovers of one holder: from each lease to the one that follows.
  stairs(seen, holder) {
    const {ctx} = this;
    const mine = this.boxes.filter((b) => !b.twin && b.lease.holder === holder)
      .sort((a, b) => a.lease.created - b.lease.created);
    ctx.strokeStyle = this.colors.ink;
    ctx.lineWidth = 1.5;
    ctx.setLineDash([3, 3]);
    ctx.beginPath();
    for (let i = 1; i < mine.length; i++) {
      const a = mine[i - 1], b = mine[i];
      ctx.moveTo(b.x, a.y + a.h / 2);
      ctx.lineTo(b.x, b.y + b.h / 2);
    }
    ctx.stroke();
    ctx.setLineDash([]);
  }

  // What the server may have granted since its last answer is not known here.
  veil(known, width, height) {
    const {ctx} = this, x = Math.max(this.x(known), this.left);
    ctx.fillStyle = this.colors.veil;
    ctx.fillRect(x, TOP, width - x, height);
    ctx.fillStyle = this.colors.bad;
    ctx.font = '600 12px system-ui, sans-serif';
    ctx.textAlign = 'left';
    ctx.textBaseline = 'middle';
    ctx.fillText(`new leases not known since ${clock(known)}`, Math.max(this.left, Math.min(x + 10, width - 250)),
      this.upperGround + GAP / 2);
  }

  cross({ms, slot}, width, height, half) {
    const {ctx} = this, upper = slot >= half;
    const level = this.level((slot % half) + 0.5);
    const x = this.x(ms), y = upper ? this.upperGround - level * this.shrink : this.ground - level;
    ctx.strokeStyle = this.colors.ink;
    ctx.lineWidth = 1;
    ctx.beginPath();
    ctx.moveTo(this.left, y);
    ctx.lineTo(width, y);
    ctx.moveTo(x, 0);
    ctx.lineTo(x, height);
    ctx.stroke();
    ctx.fillStyle = this.colors.card;
    ctx.lineWidth = 2;
    ctx.beginPath();
    ctx.arc(x, y, 5, 0, 2 * Math.PI);
    ctx.fill();
    ctx.stroke();
  }

  nowLine(now, height) {
    const {ctx, colors} = this, x = Math.round(this.x(now));
    ctx.fillStyle = colors.ink;
    ctx.fillRect(x - 1, TOP - 4, 2, height - TOP - AXIS + 4);
    const text = `now ${clock(now)}`;
    ctx.font = BOLD;
    const w = ctx.measureText(text).width + 14;
    ctx.beginPath();
    ctx.roundRect(x - w / 2, 0, w, 18, 9);
    ctx.fill();
    ctx.fillStyle = colors.card;
    ctx.textAlign = 'center';
    ctx.textBaseline = 'middle';
    ctx.fillText(text, x, 9.5);
  }

  // The rectangle at a place of the canvas: the topmost, a lease before a twin.
  at(x, y) {
    for (let i = this.boxes.length - 1; i >= 0; i--) {
      const b = this.boxes[i], slack = b.h < 3 ? 1.5 : 0;
      if (x >= b.x && x <= b.x + b.w && y >= b.y - slack && y <= b.y + b.h + slack) return b;
    }
    return null;
  }
}
