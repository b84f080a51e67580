// The blocks of the lease protocol's document as they stand there; what surrounds them makes them a program.
// Sections 9 and 13: the document's classes and constants beside ours.
import * as kazahana from 'kazahana';

class ClockBackwardError extends Error {
  constructor(
    public readonly backwardMs: number,
    public readonly limitMs: number
  ) {
    super(
      `Clock moved backward by ${backwardMs}ms (limit: ${limitMs}ms). ` +
      `Check NTP configuration or system time settings.`
    );
    this.name = 'ClockBackwardError';
  }
}

class LeaseAcquisitionError extends Error {
  constructor(public readonly cause: unknown) {
    super('Failed to acquire lease and fallback is disabled');
    this.name = 'LeaseAcquisitionError';
  }
}

class NoProviderError extends Error {
  constructor() {
    super('No provider configured and fallback is disabled');
    this.name = 'NoProviderError';
  }
}

const LIB_DEFAULT_EPOCH = Date.parse("2026-01-01T00:00:00Z");
const DEFAULT_BIT_RESERVE = 1;
const DEFAULT_BIT_TS = 41;
const DEFAULT_BIT_ID = 14;
const DEFAULT_BIT_SEQ = 8;
const DEFAULT_LEASE_DURATION = 10 * 60 * 1000;  // 10分
const DEFAULT_ACQUIRE_THRESHOLD = 0.9;
const DEFAULT_MAX_BACKWARD_MS = 5000;
const DEFAULT_ACQUIRE_RETRY_INTERVAL = 1000;
const DEFAULT_ACQUIRE_RETRY_MAX_INTERVAL = 60000;
const DEFAULT_MAX_THROUGHPUT_PER_MS = 256;  // 1リース分

const pairs: [Error, Error][] = [
  [new ClockBackwardError(7, 5), new kazahana.ClockBackwardError(7, 5)],
  [new LeaseAcquisitionError(1), new kazahana.LeaseAcquisitionError(1)],
  [new NoProviderError(), new kazahana.NoProviderError()],
];
for (const [theirs, ours] of pairs) {
  if (theirs.name !== ours.name || theirs.message !== ours.message) throw new Error(`${ours.name} differs`);
}
const values = {
  LIB_DEFAULT_EPOCH, DEFAULT_BIT_RESERVE, DEFAULT_BIT_TS, DEFAULT_BIT_ID, DEFAULT_BIT_SEQ, DEFAULT_LEASE_DURATION,
  DEFAULT_ACQUIRE_THRESHOLD, DEFAULT_MAX_BACKWARD_MS, DEFAULT_ACQUIRE_RETRY_INTERVAL,
  DEFAULT_ACQUIRE_RETRY_MAX_INTERVAL, DEFAULT_MAX_THROUGHPUT_PER_MS,
};
for (const [name, value] of Object.entries(values)) {
  if ((kazahana as any)[name] !== value) throw new Error(`${name} differs`);
}
