// The blocks of the lease protocol's document as they stand there; what surrounds them makes them a program.
// Sections 10.5 and 11. id.example.com is the lease server of the test, by way of fetch.
import { HttpLeaseProvider, KazahanaClient, RedisLeaseProvider } from 'kazahana';

const original = fetch;
globalThis.fetch = (input: any, init?: any) =>
  original(String(input).replace('https://id.example.com', process.env.KZ_SERVER!), init);

const redis = `redis://127.0.0.1:${process.env.KZ_REDIS_PORT}/1`;

(async () => {
  const ids: bigint[] = [];
  const clients: KazahanaClient[] = [];
  {
    // スタンドアロン（最小構成）
    const client = new KazahanaClient();
    const id = await client.nextId();
    ids.push(id);
    clients.push(client);
  }
  {
    // HTTPサーバ使用
    const client = new KazahanaClient({
      provider: new HttpLeaseProvider('https://id.example.com'),
      serviceId: 'payment-service',
    });
    const id = await client.nextId();
    ids.push(id);
    clients.push(client);
  }
  {
    // Redis直接使用
    const client = new KazahanaClient({
      provider: new RedisLeaseProvider(redis),
    });
    const id = await client.nextId();
    ids.push(id);
    clients.push(client);
  }
  {
    // 最大1024ID/msまで自動でリース追加取得
    const client = new KazahanaClient({
      provider: new HttpLeaseProvider('https://id.example.com'),
      maxThroughputPerMs: 1024,  // 4リース取得
    });
    clients.push(client);
  }
  {
    const client = new KazahanaClient({
      provider: new HttpLeaseProvider('https://id.example.com'),
      maxBackwardMs: -1,  // 無制限待機
    });
    clients.push(client);
  }
  {
    // 金融システム等、ID重複が許されない環境
    const client = new KazahanaClient({
      provider: new HttpLeaseProvider('https://id.example.com'),
      maxBackwardMs: 0,
      disableFallback: true,
    });
    clients.push(client);
  }
  for (const client of clients) {
    ids.push(await client.nextId());
    await client.shutdown();
  }
  if (new Set(ids).size < 3) throw new Error('too few IDs');

  const client = new KazahanaClient({ source: 'memory:' });
  process.on('SIGTERM', async () => {
    await client.shutdown();
    process.exit(0);
  });
  await client.nextId();
  process.kill(process.pid, 'SIGTERM');
  setInterval(() => {}, 1000); // only the sample's process.exit ends this
})();
