// The package for import.
import kazahana from './index.js';

export default kazahana;
export const {
  version, setLog,
  KazahanaClient,
  HttpLeaseProvider, MemoryLeaseProvider, RedisLeaseProvider, SqliteLeaseProvider,
  KazahanaError, ClockBackwardError, LeaseAcquisitionError, NoProviderError,
  ExternalKeys, toExternalId, toInternalId,
  formatId, parseId, describeLayout, decodeId, minId, maxId,
  Monotime, MonoUuid,
  LIB_DEFAULT_EPOCH, DEFAULT_BIT_RESERVE, DEFAULT_BIT_TS, DEFAULT_BIT_ID, DEFAULT_BIT_SEQ, DEFAULT_LEASE_DURATION,
  DEFAULT_ACQUIRE_THRESHOLD, DEFAULT_MAX_BACKWARD_MS, DEFAULT_ACQUIRE_RETRY_INTERVAL,
  DEFAULT_ACQUIRE_RETRY_MAX_INTERVAL, DEFAULT_MAX_THROUGHPUT_PER_MS, DEFAULT_CONFIG,
} = kazahana;
