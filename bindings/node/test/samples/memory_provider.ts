// The blocks of the lease protocol's document as they stand there; what surrounds them makes them a program.
// Section 7.3.
import { AcquireOptions, AcquireResponse, KazahanaClient, LeaseInfo, LeaseProvider, ReleaseOptions } from 'kazahana';

class MemoryLeaseProvider implements LeaseProvider {
  private leases = new Map<number, { secret: string; expired: number }>();
  private lastAssigned = -1;
  private readonly config = {
    customEpoch: Date.parse("2026-01-01T00:00:00Z"),
    bitReserve: 1,
    bitTs: 41,
    bitId: 14,
    bitSeq: 8,
  };

  async acquire(options: AcquireOptions): Promise<AcquireResponse> {
    const { throughputPerMs = 1 } = options;
    const now = Date.now();
    const expired = now + 600000;  // 10分
    const maxPerLease = 1 << this.config.bitSeq;  // 256
    const count = Math.ceil(throughputPerMs / maxPerLease);
    const results: LeaseInfo[] = [];

    for (let i = 0; i < 8192 && results.length < count; i++) {
      const id = (this.lastAssigned + 1 + i) % 8192;
      const existing = this.leases.get(id);
      if (!existing || existing.expired < now) {
        const secret = Math.random().toString(36).slice(2);
        this.leases.set(id, { secret, expired });
        this.lastAssigned = id;
        results.push({
          id,
          created: now,
          expired,
          secret,
          ...this.config,
        });
      }
    }

    if (results.length === 0) {
      throw new Error('No machine ID available');
    }

    return { leases: results };
  }

  async release(options: ReleaseOptions): Promise<void> {
    const { id, signature, timestamp } = options;

    if (Math.abs(Date.now() - timestamp) > 30000) {
      throw new Error('Timestamp expired');
    }

    const lease = this.leases.get(id);
    if (!lease) {
      throw new Error('Lease not found');
    }

    const crypto = require('crypto');
    const expected = crypto
      .createHmac('sha256', lease.secret)
      .update(`${id}:${timestamp}`)
      .digest('hex');
    if (signature !== expected) {
      throw new Error('Invalid signature');
    }

    this.leases.delete(id);
  }
}

(async () => {
  const provider = new MemoryLeaseProvider();
  const seen = new Set<bigint>();
  const clients = [new KazahanaClient({ provider }), new KazahanaClient({ provider, maxThroughputPerMs: 1024 })];
  for (let i = 0; i < 1000; i++) for (const client of clients) seen.add(await client.nextId());
  if (seen.size !== 2000) throw new Error('an ID was given twice');
  for (const client of clients) await client.shutdown();
})();
