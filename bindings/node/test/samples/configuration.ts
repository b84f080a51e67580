// The blocks of the lease protocol's document as they stand there; what surrounds them makes them a program.
// Sections 5.1, 5.8 and 6.4.
import * as kazahana from 'kazahana';
import { KazahanaClient, LeaseProvider, MemoryLeaseProvider } from 'kazahana';

interface KazahanaClientConfig {
  // === よく使う設定 ===

  /** リースプロバイダ。未指定でスタンドアロンモード */
  provider?: LeaseProvider;

  /** サービス識別子 */
  serviceId?: string;

  /**
   * 1ミリ秒あたりの最大ID生成数
   * この値に達するまでリースを追加取得し、超過時は次のミリ秒まで待機
   * @default 256 (1リース分)
   */
  maxThroughputPerMs?: number;

  /**
   * フォールバックID生成を無効化
   * @default false
   */
  disableFallback?: boolean;

  // === あまり変更しない設定 ===

  /**
   * リース取得失敗後の初回リトライ間隔（ミリ秒）
   * @default 1000
   */
  acquireRetryInterval?: number;

  /**
   * リトライ間隔の上限（ミリ秒）
   * @default 60000
   */
  acquireRetryMaxInterval?: number;

  /**
   * 時刻巻き戻り許容量（ミリ秒）
   * - 正の値: 指定ms以内なら待機、超過でエラー
   * - 0: 即エラー
   * - 負の値: 無制限待機
   * @default 5000
   */
  maxBackwardMs?: number;

  // === 通常は変更不要 ===

  /** タイムスタンプビット数 @default 41 */
  bitTs?: number;

  /** デフォルトエポック（スタンドアロンモード用） @default LIB_DEFAULT_EPOCH */
  defaultEpoch?: number;
}

interface ServiceConfig {
  serviceId: string;
  customEpoch: number;
  bitReserve: number;
  bitTs: number;
  bitId: number;
  bitSeq: number;
  leaseDuration: number;  // ミリ秒
}

// デフォルト設定
const DEFAULT_CONFIG: ServiceConfig = {
  serviceId: 'default',
  customEpoch: Date.parse("2026-01-01T00:00:00Z"),
  bitReserve: 1,
  bitTs: 41,
  bitId: 14,
  bitSeq: 8,
  leaseDuration: 10 * 60 * 1000,  // 10分
};

const provider = new MemoryLeaseProvider();
const config: KazahanaClientConfig = { provider, serviceId: 'samples', maxBackwardMs: -1 };
const same: kazahana.KazahanaClientConfig = config;
const service: kazahana.ServiceConfig = DEFAULT_CONFIG;

// 低スループット環境（デフォルト: 1リースのみ）
const client1 = new KazahanaClient({ provider });

// 高スループット環境（最大1024ID/ms）
const client2 = new KazahanaClient({
  provider,
  maxThroughputPerMs: 1024,  // 4リース取得
});

(async () => {
  for (const client of [client1, client2, new KazahanaClient(same)]) {
    if (typeof (await client.nextId()) !== 'bigint') throw new Error('not a bigint');
    await client.shutdown();
  }
  if (JSON.stringify(service) !== JSON.stringify(kazahana.DEFAULT_CONFIG)) throw new Error('other defaults');
})();
