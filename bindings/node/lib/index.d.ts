/** Unique 64-bit IDs that sort by time, from leased machine IDs. */

// ------------------------------------------------------------------------------------------------- lease protocol

export interface LeaseProvider {
  /** Leases one machine ID or several. */
  acquire(options: AcquireOptions): Promise<AcquireResponse>;
  /** Gives a lease back. */
  release(options: ReleaseOptions): Promise<void>;
  /** The provider's own time, if it can tell it. Asked every 30 s. */
  now?(): Promise<{ serverTime?: number; generation?: number }>;
}

export interface AcquireOptions {
  serviceId?: string;
  /** Who asks, for people: host and process unless the client says otherwise. */
  meta?: Record<string, string>;
  /** How many IDs a millisecond the leases together must allow. */
  throughputPerMs?: number;
  /** Random. The same one again is the same request: its answer should be the same leases. */
  requestId?: string;
}

export interface ReleaseOptions {
  id: number;
  /** Hex HMAC-SHA256 of `${id}:${timestamp}`, keyed with the lease's secret. */
  signature: string;
  /** Unix ms: no ID later than this was minted from the lease. */
  timestamp: number;
  serviceId?: string;
}

export interface AcquireResponse {
  leases: LeaseInfo[];
  /** Unix ms: the provider's time; without it, that of the newest lease's beginning. */
  serverTime?: number;
  /** A number that only grows. */
  generation?: number;
  /** The request's, if the provider knows such a thing. */
  requestId?: string;
}

export interface LeaseInfo {
  id: number;
  /** Unix ms: the lease is for [created, expired). */
  created: number;
  expired: number;
  secret: string;
  customEpoch: number;
  bitReserve: number;
  bitTs: number;
  bitId: number;
  bitSeq: number;
  /** The window of the fallback machine ID, id + 2^(bitId-1). Without it there is no fallback. */
  fallbackCreated?: number;
  fallbackExpired?: number;
}

export interface ServiceConfig {
  serviceId: string;
  customEpoch: number;
  bitReserve: number;
  bitTs: number;
  bitId: number;
  bitSeq: number;
  /** Milliseconds. */
  leaseDuration: number;
}

// --------------------------------------------------------------------------------------------------------- client

export interface KazahanaClientConfig {
  /** Where leases come from. Without it and without `source`: the embedded table of this machine. */
  provider?: LeaseProvider;
  /** The same as a URL: `sqlite:/path`, `redis://host/0`, `http://host:7070`, `static:7`, ... */
  source?: string;
  serviceId?: string;
  /** IDs a millisecond; beyond that callers wait for the next one. @default 256 */
  maxThroughputPerMs?: number;
  /** No IDs without a lease: an error at once. @default false */
  disableFallback?: boolean;
  /**
   * `never` is disableFallback without the haste. `fenced`: from a window granted together with the lease, as safe as
   * one. `any`: random ones too, which promise nothing. @default 'fenced'
   */
  fallback?: 'never' | 'fenced' | 'any';
  /** Milliseconds. @default 1000 */
  acquireRetryInterval?: number;
  /** Milliseconds. @default 60000 */
  acquireRetryMaxInterval?: number;
  /** What a clock may be behind the last ID, ms: 0 is an error at once, negative waits for ever. @default 5000 */
  maxBackwardMs?: number;
  /** How long a call waits for an ID: 0 never, negative without limit. @default 10000 */
  timeoutMs?: number;
  /** A preset's name or TIME-NODE-SEQ@EPOCH; a lease table that has another is an error. */
  layout?: string;
  /** Who holds the leases, for people. */
  meta?: Record<string, string>;
  /** For sources without a layout of their own. @default 41 */
  bitTs?: number;
  /** For sources without a layout of their own. @default LIB_DEFAULT_EPOCH */
  defaultEpoch?: number;
}

export interface Stats {
  idsLeased: number;
  idsFenced: number;
  idsUnfenced: number;
  sequenceExhausted: number;
  clockBackward: number;
  clockBackwardMaxMs: number;
  aheadMs: number;
  leases: number;
  throughputPerMs: number;
  leasesAcquired: number;
  leasesReleased: number;
  acquireFailures: number;
  acquireFailuresNow: number;
  leaseAgeMs: number;
  last: bigint;
  /** Until when IDs can be minted from what is held; null: no end. */
  windowEnd: Date | null;
  /** IDs minted now promise nothing. */
  unfenced: boolean;
}

export declare class KazahanaClient {
  constructor(config?: KazahanaClientConfig);
  /** The next ID: larger than all that this client gave before. Never blocks the event loop. */
  nextId(): Promise<bigint>;
  /** The same at once. Blocks while the slots of a millisecond are used up; `await ready()` first. */
  nextIdSync(): bigint;
  /**
   * `count` IDs (at most 1048576) in increasing order. Blocks as nextIdSync does. Like a small Buffer the array is a
   * view into a pool: `slice()` it before its `buffer` goes elsewhere.
   */
  nextIds(count: number): BigUint64Array;
  /** Fills an array of yours, which is cheaper, and returns it. */
  nextIds(into: BigUint64Array): BigUint64Array;
  /** Opens the client, which the first nextId() does otherwise. */
  ready(): Promise<void>;
  /** null before it is open. */
  stats(): Stats | null;
  /** TIME-NODE-SEQ@EPOCH; null before it is open. */
  readonly layout: string | null;
  /** Gives back what it holds. */
  shutdown(): Promise<void>;
}

// ------------------------------------------------------------------------------------------------------ providers

/** Leases from `kazahana serve`; several addresses with commas. `?token=`, `?token-file=`, `?service=`. */
export declare class HttpLeaseProvider implements LeaseProvider {
  constructor(endpoint: string);
  acquire(options: AcquireOptions): Promise<AcquireResponse>;
  release(options: ReleaseOptions): Promise<void>;
  now(): Promise<{ serverTime?: number; generation?: number }>;
}

/** What RedisLeaseProvider reads of a client: ioredis and node-redis have it. */
export interface RedisClient {
  options?: object;
}

/** A table in Redis. It connects by itself, where the client is connected or the URL says. */
export declare class RedisLeaseProvider implements LeaseProvider {
  constructor(redis: RedisClient | string, config?: ServiceConfig);
  readonly source: string;
  acquire(options: AcquireOptions): Promise<AcquireResponse>;
  release(options: ReleaseOptions): Promise<void>;
}

/** A table in a file on a local disk, for all processes of this machine. */
export declare class SqliteLeaseProvider implements LeaseProvider {
  constructor(path: string);
  readonly source: string;
  acquire(options: AcquireOptions): Promise<AcquireResponse>;
  release(options: ReleaseOptions): Promise<void>;
}

/** One table for this process. */
export declare class MemoryLeaseProvider implements LeaseProvider {
  constructor();
  readonly source: string;
  acquire(options: AcquireOptions): Promise<AcquireResponse>;
  release(options: ReleaseOptions): Promise<void>;
}

// --------------------------------------------------------------------------------------------------------- errors

/** `code` is the library's status, such as 'KZ_INVALID', 'KZ_TIMEOUT' or 'KZ_CLOSED'. */
export declare class KazahanaError extends Error {
  constructor(message: string, code: string);
  readonly code: string;
}

export declare class ClockBackwardError extends Error {
  constructor(backwardMs: number, limitMs: number);
  readonly code: string;
  readonly backwardMs: number;
  readonly limitMs: number;
}

export declare class LeaseAcquisitionError extends Error {
  constructor(cause: unknown);
  readonly code: string;
  readonly cause: unknown;
}

export declare class NoProviderError extends Error {
  constructor();
  readonly code: string;
}

// ---------------------------------------------------------------------------------------------------- external IDs

/** Keys for external IDs: lines `N xtea|speck HEXSECRET`, N from 0 to 3. The first encodes, all decode. */
export declare class ExternalKeys {
  constructor(text: string);
  static load(path: string): ExternalKeys;
}

export interface ExternalOptions {
  /** Without keys the order is hidden from the eye only. */
  keys?: ExternalKeys;
  /** 1 to 16 of a-z and 0-9, beginning with a letter: the text is `user_` and 11 characters then. */
  type?: string;
}

export interface InternalOptions extends ExternalOptions {
  /** Of the IDs, with a type and keys: what comes out must be one. @default 'kazahana' */
  layout?: string;
  /** And not later than this. @default a day from now */
  latest?: Date | number;
}

export declare function toExternalId(id: bigint, options?: ExternalOptions): string;
export declare function toInternalId(text: string, options?: InternalOptions): bigint;

// ------------------------------------------------------------------------------------------------ texts and layouts

export type Form = 'decimal' | 'hex' | 'base32' | 'base62' | 'base64url';

export declare function formatId(id: bigint, form?: Form): string;
export declare function parseId(text: string, form?: Form): bigint;

export interface Parts {
  time: Date;
  node: number;
  seq: number;
  fallback: boolean;
}

export interface Layout {
  name: string;
  text: string;
  epoch: number;
  timeBits: number;
  nodeBits: number;
  seqBits: number;
  nodes: number;
  leasableNodes: number;
  idsPerStep: number;
  /** Unix ms: the first and the last instant that its time field can show. */
  first: number;
  last: number;
}

export declare function decodeId(id: bigint, layout?: string): Parts;
/** The smallest and the largest ID of an instant, for `WHERE id BETWEEN`. */
export declare function minId(time: Date | number, layout?: string): bigint;
export declare function maxId(time: Date | number, layout?: string): bigint;
export declare function describeLayout(layout?: string): Layout;

// -------------------------------------------------------------------------------------- nanoseconds that only grow

/** Strictly increasing nanoseconds since 1970, above `last`. */
export declare class Monotime {
  constructor(last?: bigint);
  next(): bigint;
}

/** UUIDs of version 7 that carry a node, 1 to 16777215, and a nanosecond. */
export declare class MonoUuid {
  constructor(node: number, last?: string);
  next(): string;
  static parse(uuid: string): { node: number; time: bigint };
  static min(unixNs: bigint): string;
}

// ---------------------------------------------------------------------------------------------------------- others

export declare const version: string;
/** Where the library's own lines go; process.emitWarning unless set. */
export declare function setLog(sink: (level: 'error' | 'warning' | 'info', message: string) => void): void;

export declare const LIB_DEFAULT_EPOCH: number;
export declare const DEFAULT_BIT_RESERVE: number;
export declare const DEFAULT_BIT_TS: number;
export declare const DEFAULT_BIT_ID: number;
export declare const DEFAULT_BIT_SEQ: number;
export declare const DEFAULT_LEASE_DURATION: number;
export declare const DEFAULT_ACQUIRE_THRESHOLD: number;
export declare const DEFAULT_MAX_BACKWARD_MS: number;
export declare const DEFAULT_ACQUIRE_RETRY_INTERVAL: number;
export declare const DEFAULT_ACQUIRE_RETRY_MAX_INTERVAL: number;
export declare const DEFAULT_MAX_THROUGHPUT_PER_MS: number;
export declare const DEFAULT_CONFIG: ServiceConfig;
