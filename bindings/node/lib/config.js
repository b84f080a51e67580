// What a client is told: checked, and turned into what the library wants.
'use strict';

const { KazahanaError } = require('./errors.js');
const { HttpLeaseProvider } = require('./http.js');
const { TableLeaseProvider } = require('./tables.js');
const constants = require('./constants.js');

const FALLBACKS = { never: 0, fenced: 1, any: 2 };

const invalid = (message) => new KazahanaError(message, 'KZ_INVALID');

const whole = (min, max = Number.MAX_SAFE_INTEGER) => (value, name) => {
  if (!Number.isSafeInteger(value) || value < min || value > max) {
    const range = max === Number.MAX_SAFE_INTEGER ? `at least ${min}` : `from ${min} to ${max}`;
    throw invalid(`${name} must be a whole number, ${range}, not ${String(value)}`);
  }
};
const text = (value, name) => {
  if (typeof value !== 'string' || value === '') throw invalid(`${name} must be a text, not ${String(value)}`);
};

const KNOWN = {
  provider: (value) => {
    if (typeof value?.acquire !== 'function' || typeof value?.release !== 'function') {
      throw invalid('a provider has the methods acquire and release');
    }
  },
  source: text,
  serviceId: text,
  layout: text,
  meta: (value) => {
    if (value === null || typeof value !== 'object') throw invalid('meta must be an object of texts');
    if (JSON.stringify(value).length > 255) throw invalid('meta must have at most 255 characters as JSON');
  },
  maxThroughputPerMs: whole(1, 0xffffffff),
  disableFallback: (value, name) => {
    if (typeof value !== 'boolean') throw invalid(`${name} must be true or false, not ${String(value)}`);
  },
  fallback: (value) => {
    if (!(value in FALLBACKS)) throw invalid(`fallback must be never, fenced or any, not ${String(value)}`);
  },
  acquireRetryInterval: whole(1),
  acquireRetryMaxInterval: whole(1),
  maxBackwardMs: whole(-Number.MAX_SAFE_INTEGER),
  timeoutMs: whole(-Number.MAX_SAFE_INTEGER),
  bitTs: whole(1, 54),
  defaultEpoch: whole(0, 253402300799999),
};

function check(config) {
  if (config === null || typeof config !== 'object') throw invalid('the configuration must be an object');
  for (const [name, value] of Object.entries(config)) {
    if (!(name in KNOWN)) throw invalid(`${name} is no setting of a client (${Object.keys(KNOWN).join(', ')})`);
    if (value !== undefined) KNOWN[name](value, name);
  }
  if (config.provider && config.source) throw invalid('give a provider or a source, not both');
  if (config.disableFallback && config.fallback && config.fallback !== 'never') {
    throw invalid(`disableFallback contradicts fallback ${config.fallback}`);
  }
}

// Epoch and time bits are for clients whose source has none of its own: a lease brings its own.
function layoutOf({ layout, bitTs = constants.DEFAULT_BIT_TS, defaultEpoch = constants.LIB_DEFAULT_EPOCH, provider }) {
  if (layout || provider) return layout ?? provider.layout;
  if (bitTs === constants.DEFAULT_BIT_TS && defaultEpoch === constants.LIB_DEFAULT_EPOCH) return undefined;
  return `${bitTs}-${63 - bitTs - constants.DEFAULT_BIT_SEQ}-${constants.DEFAULT_BIT_SEQ}@${defaultEpoch}`;
}

/**
 * `source`: a URL for C, undefined for the embedded table. `provider`: one that has to be asked in JavaScript.
 * `strict`: a lease that cannot be had is an error at once.
 */
function readConfig(config) {
  check(config);
  const { disableFallback = false, maxBackwardMs = constants.DEFAULT_MAX_BACKWARD_MS } = config;
  let { provider, source, timeoutMs = 10000 } = config;
  if (/^https?:/.test(source ?? '')) provider = new HttpLeaseProvider(source);
  if (provider instanceof TableLeaseProvider) source = provider.source;
  else if (provider) source = undefined;
  const inJavaScript = provider && source === undefined;
  return {
    source,
    provider: inJavaScript ? provider : undefined,
    missing: disableFallback && !config.provider && !config.source,
    strict: disableFallback,
    timeoutMs: timeoutMs < 0 ? Infinity : timeoutMs,
    serviceId: config.serviceId,
    options: {
      service: config.serviceId,
      layout: layoutOf({ ...config, provider }),
      meta: config.meta && JSON.stringify(config.meta),
      fallback: FALLBACKS[config.fallback ?? (disableFallback ? 'never' : 'fenced')],
      maxBackwardMs,
      throughputPerMs: config.maxThroughputPerMs ?? constants.DEFAULT_MAX_THROUGHPUT_PER_MS,
      retryInitialMs: config.acquireRetryInterval ?? constants.DEFAULT_ACQUIRE_RETRY_INTERVAL,
      retryMaxMs: config.acquireRetryMaxInterval ?? constants.DEFAULT_ACQUIRE_RETRY_MAX_INTERVAL,
      timeoutMs: disableFallback ? 0 : timeoutMs, // of opening; minting never waits in C
    },
  };
}

module.exports = { readConfig };
