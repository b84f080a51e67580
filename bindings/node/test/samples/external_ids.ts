// The blocks of the lease protocol's document as they stand there; what surrounds them makes them a program.
// Sections 8.6 and 11.5.
import assert = require('assert');
import { KazahanaClient, toExternalId, toInternalId } from 'kazahana';

const rows = new Map<bigint, { id: bigint }>();
const db = {
  insert: async (row: { id: bigint }) => void rows.set(row.id, row),
  findById: async (id: bigint) => rows.get(id),
};

const client = new KazahanaClient({ source: 'memory:' });

async function write(internalId: bigint) {
  const rest = { text: 'hello' };
  // DB保存: 内部IDのまま（ソート・インデックス効率）
  await db.insert({ id: internalId, ...rest });

  // APIレスポンス: 外部IDに変換
  return { id: toExternalId(internalId), ...rest };  // "Abc123XyZ90"
}

async function read(req: { params: { id: string } }) {
  // APIリクエスト: 内部IDに復元
  const internalId = toInternalId(req.params.id);
  const record = await db.findById(internalId);
  return record;
}

(async () => {
  // ID生成
  const internalId = await client.nextId();

  // 外部公開用に難読化
  const externalId = toExternalId(internalId);
  console.log(`Public ID: ${externalId}`);

  // 外部IDから復元
  const restored = toInternalId(externalId);
  assert(restored === internalId);

  const answer = await write(internalId);
  assert.match(answer.id, /^[\w-]{11}$/);
  assert.strictEqual((await read({ params: { id: answer.id } }))!.id, internalId);
  await client.shutdown();
})();
