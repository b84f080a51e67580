// Posts with keys of kazahana: Express in front, Drizzle and PostgreSQL behind. In JSON an ID is always a string.
import { eq } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import { bigint, pgTable, text } from 'drizzle-orm/pg-core';
import express from 'express';
import { KazahanaClient, toExternalId, toInternalId } from 'kazahana';
import pg from 'pg';

const posts = pgTable('posts', {
  id: bigint('id', { mode: 'bigint' }).primaryKey(), // not serial: the key is there before the INSERT
  title: text('title').notNull(),
});

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
const db = drizzle(pool);
const ids = new KazahanaClient({ source: process.env.KAZAHANA_SOURCE });

await pool.query('CREATE TABLE IF NOT EXISTS posts (id BIGINT PRIMARY KEY, title TEXT NOT NULL)');
await ids.ready();

// `id` as digits for programs, `link` for people: 11 characters and the type, which tell nothing about order and time.
const show = ({ id, title }) => ({ id: String(id), link: toExternalId(id, { type: 'post' }), title });

const app = express();
app.use(express.json());

app.post('/posts', async (request, response, next) => {
  try {
    const [row] = await db.insert(posts).values({ id: await ids.nextId(), title: request.body.title }).returning();
    response.status(201).json(show(row));
  } catch (error) {
    next(error);
  }
});

app.get('/posts/:link', async (request, response, next) => {
  try {
    const id = toInternalId(request.params.link, { type: 'post' });
    const [row] = await db.select().from(posts).where(eq(posts.id, id));
    if (row) response.json(show(row));
    else response.status(404).json({ error: 'no such post' });
  } catch (error) {
    if (error.code === 'KZ_INVALID') response.status(404).json({ error: error.message });
    else next(error);
  }
});

const server = app.listen(Number(process.env.PORT ?? 3000), '127.0.0.1', () => {
  console.log(`listening on ${server.address().port}`);
});

process.on('SIGTERM', () => {
  server.close(async () => {
    await ids.shutdown();
    await pool.end();
  });
});
