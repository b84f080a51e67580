// The blocks of the lease protocol's document as they stand there; what surrounds them makes them a program.
// Section 7.1, against a real lease server.
import { AcquireOptions, AcquireResponse, KazahanaClient, LeaseProvider, ReleaseOptions } from 'kazahana';

class HttpLeaseProvider implements LeaseProvider {
  constructor(private endpoint: string) {}

  async acquire(options: AcquireOptions): Promise<AcquireResponse> {
    const res = await fetch(`${this.endpoint}/lease`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify(options),
    });
    if (!res.ok) throw new Error(`acquire failed: ${res.status}`);
    return res.json();
  }

  async release(options: ReleaseOptions): Promise<void> {
    const { id, signature, timestamp } = options;
    const res = await fetch(`${this.endpoint}/lease/${id}`, {
      method: 'DELETE',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ signature, timestamp }),
    });
    if (!res.ok) throw new Error(`release failed: ${res.status}`);
  }
}

(async () => {
  const client = new KazahanaClient({ provider: new HttpLeaseProvider(process.env.KZ_SERVER!) });
  const ids = [await client.nextId(), await client.nextId()];
  if (ids[1] <= ids[0]) throw new Error('not increasing');
  await client.shutdown();
})();
