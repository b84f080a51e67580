// The blocks of the lease protocol's document as they stand there; what surrounds them makes them a program.
// Sections 4.1 and 4.2: an object that fits the document's interfaces fits ours, and the other way round.
import * as kazahana from 'kazahana';

interface LeaseProvider {
  /**
   * 新しいマシンIDをリースする
   */
  acquire(options: AcquireOptions): Promise<AcquireResponse>;

  /**
   * リースを返却する
   */
  release(options: ReleaseOptions): Promise<void>;
}

interface AcquireOptions {
  /** サービス識別子 */
  serviceId?: string;
  /** メタ情報（ホスト名、プロセスID等） */
  meta?: Record<string, string>;
  /** 追加で必要なスループット/ms */
  throughputPerMs?: number;
}

interface ReleaseOptions {
  /** マシンID */
  id: number;
  /** HMAC署名: hmac(secret, `${id}:${timestamp}`) */
  signature: string;
  /** 署名生成時のタイムスタンプ（Unix ms） */
  timestamp: number;
}

interface AcquireResponse {
  /** 取得したリース（throughputPerMsに応じて1つ以上） */
  leases: LeaseInfo[];
}

interface LeaseInfo {
  // リース固有情報
  id: number;           // 割り当てられたマシンID
  created: number;      // リース開始時刻（Unix ms）
  expired: number;      // リース期限（Unix ms）
  secret: string;       // release用認証キー

  // ビット配置（運用開始後は変更不可）
  customEpoch: number;  // カスタムエポック（Unix ms）
  bitReserve: number;   // 予約ビット数（通常1）
  bitTs: number;        // タイムスタンプビット数（通常41）

  // ビット配置（運用中に調整される可能性あり）
  bitId: number;        // マシンIDビット数（通常14）
  bitSeq: number;       // シーケンスビット数（通常8）
}

const theirs: LeaseProvider = new kazahana.MemoryLeaseProvider();
const ours: kazahana.LeaseProvider = theirs;

(async () => {
  const response: AcquireResponse = await ours.acquire({ throughputPerMs: 1 });
  const lease: LeaseInfo = response.leases[0];
  if (lease.bitSeq !== 8) throw new Error('not the default layout');
})();
