// Errors: the three of the lease protocol, and one for everything else the library says.
'use strict';

/** `code` is the library's status, such as 'KZ_INVALID'. */
class KazahanaError extends Error {
  constructor(message, code) {
    super(message);
    this.name = 'KazahanaError';
    this.code = code;
  }
}

class ClockBackwardError extends Error {
  constructor(backwardMs, limitMs) {
    super(
      `Clock moved backward by ${backwardMs}ms (limit: ${limitMs}ms). ` +
        `Check NTP configuration or system time settings.`
    );
    this.name = 'ClockBackwardError';
    this.code = 'KZ_CLOCK_BACKWARD';
    this.backwardMs = backwardMs;
    this.limitMs = limitMs;
  }
}

class LeaseAcquisitionError extends Error {
  constructor(cause) {
    super('Failed to acquire lease and fallback is disabled');
    this.name = 'LeaseAcquisitionError';
    this.code = 'KZ_LEASE_ACQUISITION';
    this.cause = cause;
  }
}

class NoProviderError extends Error {
  constructor() {
    super('No provider configured and fallback is disabled');
    this.name = 'NoProviderError';
    this.code = 'KZ_NO_PROVIDER';
  }
}

// What C has to say, as the error that stands for it.
function makeError({ code, message, cause, backwardMs, limitMs }) {
  if (code === 'KZ_CLOCK_BACKWARD') {
    return new ClockBackwardError(backwardMs, limitMs < 0 ? Number.MAX_SAFE_INTEGER : limitMs);
  }
  if (code === 'KZ_LEASE_ACQUISITION') return new LeaseAcquisitionError(new KazahanaError(message, cause));
  if (code === 'KZ_NO_PROVIDER') return new NoProviderError();
  return new KazahanaError(message, code);
}

module.exports = { KazahanaError, ClockBackwardError, LeaseAcquisitionError, NoProviderError, makeError };
