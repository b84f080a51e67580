// Finds the addon and joins it to this thread's JavaScript.
'use strict';

const { makeError, KazahanaError } = require('./errors.js');

// The one that `make node` built stands beside this; published packages have one for each kind of machine.
function load() {
  const tried = [];
  const packages = ['gnu', 'musl'].map((libc) => `@kazahana/linux-${process.arch}-${libc}`);
  for (const name of ['../build/kazahana.node', ...packages]) {
    try {
      return require(name);
    } catch (error) {
      tried.push(`${name}: ${String(error.message).split('\n')[0]}`);
    }
  }
  throw new Error(
    `kazahana: no addon for ${process.platform} on ${process.arch}. Install it with its optional dependencies, ` +
      `or run \`make node\` in kazahana's source tree. Tried:\n  ${tried.join('\n  ')}`
  );
}

const native = load();

// C leaves an ID in view[0], and in view[1] the microseconds after which it is worth asking again.
const view = new BigUint64Array(2);

let log = (level, message) => process.emitWarning(message, { type: 'KazahanaWarning' });
const LEVELS = ['error', 'warning', 'info'];

/** Where the library's own lines go: a function of a level ('error', 'warning', 'info') and a text. */
function setLog(sink) {
  if (typeof sink !== 'function') throw new KazahanaError('setLog needs a function', 'KZ_INVALID');
  log = sink;
}

const providers = new Map(); // number -> the Errands of a provider written in JavaScript

native.setup({
  view,
  makeError,
  log: (level, message) => log(LEVELS[level], message),
  dispatch: (number, kind, question, errand) => {
    const errands = providers.get(number);
    if (errands) errands.run(kind, question, errand);
    else native.refuse(errand, 22, 'the client has been shut down');
  },
});

// Leases are given back at process.exit too, as far as the time suffices: a source that is silent must not hold it up.
const EXIT_LIMIT_MS = 400;
process.once('exit', () => native.closeAll(EXIT_LIMIT_MS));

module.exports = { native, view, providers, setLog };
