// The blocks of the lease protocol's document as they stand there; what surrounds them makes them a program.
// Section 7.2, with its script of 6.2, against a real Redis. No client has evalScript: the few lines of redis below do.
import {
  AcquireOptions, AcquireResponse, DEFAULT_CONFIG, KazahanaClient, LeaseProvider, ReleaseOptions, ServiceConfig,
} from 'kazahana';
import { ACQUIRE_SCRIPT, Redis, connect } from './redis';
const crypto = require('crypto');

class RedisLeaseProvider implements LeaseProvider {
  constructor(
    private redis: Redis,
    private config: ServiceConfig = DEFAULT_CONFIG
  ) {}

  async acquire(options: AcquireOptions): Promise<AcquireResponse> {
    const { serviceId, meta, throughputPerMs = 1 } = options;
    const config = this.getServiceConfig(serviceId);
    const now = Date.now();
    const secret = crypto.randomBytes(16).toString('hex');
    const expired = now + config.leaseDuration;
    const maxId = (1 << (config.bitId - 1)) - 1;

    // 必要リース数を計算
    const maxPerLease = 1 << config.bitSeq;
    const count = Math.ceil(throughputPerMs / maxPerLease);

    const results = await this.redis.evalScript(
      ACQUIRE_SCRIPT,
      0,
      maxId, now, expired, secret, serviceId || '', JSON.stringify(meta || {}), count
    );

    if (!results || results.length === 0) {
      throw new Error('No machine ID available');
    }

    return {
      leases: results.map(([id, leaseSecret]: [number, string]) => ({
        id,
        created: now,
        expired,
        secret: leaseSecret,
        customEpoch: config.customEpoch,
        bitReserve: config.bitReserve,
        bitTs: config.bitTs,
        bitId: config.bitId,
        bitSeq: config.bitSeq,
      })),
    };
  }

  async release(options: ReleaseOptions): Promise<void> {
    const { id, signature, timestamp } = options;

    // タイムスタンプ検証（±30秒）
    if (Math.abs(Date.now() - timestamp) > 30000) {
      throw new Error('Timestamp expired');
    }

    const stored = await this.redis.hget(`lease:${id}`, 'secret');
    if (!stored) {
      throw new Error('Lease not found');
    }

    // HMAC検証
    const expected = crypto
      .createHmac('sha256', stored)
      .update(`${id}:${timestamp}`)
      .digest('hex');
    if (signature !== expected) {
      throw new Error('Invalid signature');
    }

    await this.redis.del(`lease:${id}`);
  }
}

interface RedisLeaseProvider {
  getServiceConfig(serviceId?: string): ServiceConfig;
}
RedisLeaseProvider.prototype.getServiceConfig = () => DEFAULT_CONFIG;

(async () => {
  const redis = await connect(Number(process.env.KZ_REDIS_PORT));
  const client = new KazahanaClient({ provider: new RedisLeaseProvider(redis), maxThroughputPerMs: 512 });
  const ids = [await client.nextId(), await client.nextId()];
  if (ids[1] <= ids[0]) throw new Error('not increasing');
  if (client.stats()!.leases !== 2) throw new Error('not two leases');
  await client.shutdown();
  redis.end();
})();
