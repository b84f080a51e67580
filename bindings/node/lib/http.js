// HttpLeaseProvider: leases from `kazahana serve`, or several on one store, by way of fetch.
'use strict';

const { readFileSync } = require('node:fs');
const { KazahanaError } = require('./errors.js');

const BODY_MAX = 1 << 20;
const TIMEOUT_MS = 5000;

const CODES = { 400: 'KZ_INVALID', 401: 'KZ_FORBIDDEN', 403: 'KZ_FORBIDDEN', 404: 'KZ_NOT_FOUND', 409: 'KZ_CONFLICT' };

// `http://a:7070,b:7070?token-file=/path` as the addresses it names and its parameters.
function readEndpoint(endpoint) {
  const match = /^(https?):\/\/([^/?#]+)([^?#]*)(\?[^#]*)?$/.exec(String(endpoint));
  if (!match) throw new KazahanaError(`"${endpoint}" is not an http:// or https:// address`, 'KZ_INVALID');
  const [, scheme, hosts, path, query] = match;
  const parameters = {};
  for (const [name, value] of new URLSearchParams(query ?? '')) {
    if (!['token', 'token-file', 'service'].includes(name)) {
      throw new KazahanaError(`${name} is no parameter of an http: source here (token, token-file, service)`,
        'KZ_INVALID');
    }
    parameters[name] = value;
  }
  return { addresses: hosts.split(',').map((host) => `${scheme}://${host}${path.replace(/\/+$/, '')}`), parameters };
}

async function readText(response) {
  const text = await response.text();
  if (text.length > BODY_MAX) throw new KazahanaError(`an answer of ${text.length} characters`, 'KZ_STORE');
  return text;
}

function parse(text, from) {
  try {
    return JSON.parse(text);
  } catch {
    throw new KazahanaError(`${from}: the answer is not JSON: is this a kazahana lease server?`, 'KZ_STORE');
  }
}

// A refusal as an error with the status it stands for.
async function refusal(what, from, response) {
  const text = await readText(response).catch(() => '');
  let detail = '';
  try {
    const problem = JSON.parse(text);
    detail = String(problem.detail ?? problem.title ?? '').replace(/[\x00-\x1f\x7f-\x9f]/g, '').slice(0, 200);
  } catch {
    // not a problem document
  }
  const full = response.status === 503 && /machine ID/.test(text);
  const advice = response.status === 401 ? ' (give the token with ?token-file= or KAZAHANA_TOKEN)' : '';
  return new KazahanaError(`${what} failed: ${response.status} from ${from}${detail && ': '}${detail}${advice}`,
    full ? 'KZ_NO_FREE_NODE' : CODES[response.status] ?? 'KZ_UNAVAILABLE');
}

class HttpLeaseProvider {
  #addresses;
  #token;
  #service;
  #first = 0; // the address that answered last

  constructor(endpoint) {
    const { addresses, parameters } = readEndpoint(endpoint);
    this.#addresses = addresses;
    this.#token = parameters.token ?? process.env.KAZAHANA_TOKEN;
    if (parameters['token-file']) this.#token = readFileSync(parameters['token-file'], 'utf8').trim();
    this.#service = parameters.service;
  }

  async acquire(options = {}) {
    const body = { ...options };
    if (this.#service !== undefined) body.serviceId = this.#service;
    const { answer, from } = await this.#ask('acquire', 'POST', '/lease', body);
    // A server that numbers its answers repeats the request's ID too.
    if (body.requestId !== undefined && answer?.generation !== undefined && answer.requestId !== body.requestId) {
      throw new KazahanaError(`${from}: the answer is to somebody else's request: a proxy mixes them up`,
        'KZ_UNAVAILABLE');
    }
    return answer;
  }

  async release({ id, signature, timestamp, serviceId = this.#service }) {
    const service = serviceId === undefined ? '' : `?serviceId=${encodeURIComponent(serviceId)}`;
    await this.#ask('release', 'DELETE', `/lease/${id}${service}`, { signature, timestamp });
  }

  /** The server's time. One that cannot tell it is not asked for more. */
  async now() {
    try {
      return (await this.#ask('time', 'GET', '/time')).answer;
    } catch (error) {
      if (error.code === 'KZ_NOT_FOUND') return {};
      throw error;
    }
  }

  // Each address in turn, until one answers.
  async #ask(what, method, path, body) {
    let failure;
    for (let i = 0; i < this.#addresses.length; i++) {
      const at = (this.#first + i) % this.#addresses.length;
      const from = this.#addresses[at];
      try {
        const answer = await this.#fetch(what, method, from, path, body);
        this.#first = at;
        return { answer, from };
      } catch (error) {
        failure = error;
        if (error.code !== 'KZ_UNAVAILABLE') break;
      }
    }
    throw failure;
  }

  async #fetch(what, method, from, path, body) {
    const headers = { Accept: 'application/json' };
    if (body) headers['Content-Type'] = 'application/json';
    if (this.#token) headers.Authorization = `Bearer ${this.#token}`;
    let response, text;
    try {
      response = await fetch(from + path, {
        method, headers, body: body && JSON.stringify(body), redirect: 'error', signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      if (response.ok) text = await readText(response);
    } catch (error) {
      if (error instanceof KazahanaError) throw error;
      const why = error.cause?.message || error.cause?.code || error.message;
      throw new KazahanaError(`${what} failed: ${from} does not answer: ${why}`, 'KZ_UNAVAILABLE');
    }
    if (!response.ok) throw await refusal(what, from, response);
    return text ? parse(text, from) : undefined;
  }
}

module.exports = { HttpLeaseProvider };
