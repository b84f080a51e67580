// Providers that are lease tables of the library itself: a client uses them by their URL, without JavaScript in between.
'use strict';

const { hostname } = require('node:os');
const { native } = require('./native.js');
const { KazahanaError } = require('./errors.js');
const { DEFAULT_CONFIG } = require('./constants.js');

/** A lease table that a URL names. */
class TableLeaseProvider {
  #services = new Map(); // of the machine IDs that were leased by hand, for their release

  constructor(source, layout) {
    this.source = source;
    this.layout = layout;
  }

  acquire({ serviceId, meta, throughputPerMs = 1 } = {}) {
    const holder = JSON.stringify(meta ?? { host: hostname(), pid: String(process.pid) });
    return this.#ask(serviceId, { throughputPerMs, holder }).then((grant) => {
      for (const lease of grant.leases) this.#services.set(lease.id, serviceId);
      return grant;
    });
  }

  release({ id, signature, timestamp, serviceId = this.#services.get(id) }) {
    return this.#ask(serviceId, { id, signature, timestamp }).then(() => {
      this.#services.delete(id);
    });
  }

  #ask(service, question) {
    return new Promise((resolve, reject) => {
      native.askTable(this.source, { service, layout: this.layout }, question, (error, grant) =>
        error ? reject(error) : resolve(grant));
    });
  }
}

/** A table in this process, one for all that ask for it. For tests. */
class MemoryLeaseProvider extends TableLeaseProvider {
  constructor() {
    super('memory:');
  }
}

/** A table in a file on a local disk, for all processes of this machine. */
class SqliteLeaseProvider extends TableLeaseProvider {
  constructor(path) {
    if (typeof path !== 'string' || path === '') {
      throw new KazahanaError('SqliteLeaseProvider needs the path of a file', 'KZ_INVALID');
    }
    super(`sqlite:${path}`);
  }
}

// Where a client of ioredis or node-redis is connected, as a URL. The library connects by itself: one set of scripts.
function redisUrl(redis) {
  if (typeof redis === 'string') return redis;
  const options = redis?.options;
  if (!options) {
    throw new KazahanaError('RedisLeaseProvider needs a client of ioredis or node-redis, or a URL', 'KZ_INVALID');
  }
  if (options.url) return options.url;
  const { host = 'localhost', port = 6379, path, tls } = options.socket ?? options; // node-redis nests these
  if (path) throw new KazahanaError('Redis through a Unix socket is not supported: use TCP', 'KZ_UNSUPPORTED');
  const [user, password] = [options.username ?? '', options.password ?? ''].map(encodeURIComponent);
  const login = user || password ? `${user}:${password}@` : '';
  const db = options.db ?? options.database ?? 0;
  const prefix = options.keyPrefix ? `?prefix=${encodeURIComponent(options.keyPrefix)}` : '';
  if (options.sentinels) {
    const hosts = options.sentinels.map((sentinel) => `${sentinel.host}:${sentinel.port ?? 26379}`).join(',');
    return `redis+sentinel://${login}${hosts}/${options.name}/${db}${prefix}`;
  }
  return `${tls ? 'rediss' : 'redis'}://${login}${host.includes(':') ? `[${host}]` : host}:${port}/${db}${prefix}`;
}

const withParameter = (url, name, value) => `${url}${url.includes('?') ? '&' : '?'}${name}=${encodeURIComponent(value)}`;

/** A table in Redis, on the server that a client of ioredis or node-redis, or a URL, names. */
class RedisLeaseProvider extends TableLeaseProvider {
  constructor(redis, config = DEFAULT_CONFIG) {
    const { serviceId, customEpoch, bitTs, bitId, bitSeq, leaseDuration } = { ...DEFAULT_CONFIG, ...config };
    let url = redisUrl(redis);
    if (serviceId !== DEFAULT_CONFIG.serviceId) url = withParameter(url, 'service', serviceId);
    if (leaseDuration !== DEFAULT_CONFIG.leaseDuration) url = withParameter(url, 'lease', `${leaseDuration}ms`);
    const layout = `${bitTs}-${bitId}-${bitSeq}@${customEpoch}`;
    const usual = config === DEFAULT_CONFIG || layout === '41-14-8@1767225600000';
    super(url, usual ? undefined : layout);
  }
}

module.exports = { TableLeaseProvider, MemoryLeaseProvider, SqliteLeaseProvider, RedisLeaseProvider };
