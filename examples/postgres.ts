// Express with PostgreSQL: all processes that share the database share the quota.
//
//   DATABASE_URL=postgres://localhost/app npx tsx examples/postgres.ts
import express from 'express';
import { rateLimit } from 'headgate/express';
import { postgresStore } from 'headgate/postgres';
import { Pool } from 'pg';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });
const store = postgresStore(pool);
// Creates the table unless it exists. If migrations create your tables, add the SQL of `npx headgate-cli postgres-schema` instead.
await store.setup();

const app = express();

app.use(rateLimit({ name: 'api', store, limit: 5, window: '1m' }));

app.get('/', (req, res) => {
  res.json({ remaining: req.rateLimit?.remaining, degraded: req.rateLimit?.degraded });
});

const port = Number(process.env.PORT ?? 3000);
app.listen(port, () => console.log(`http://localhost:${port}`));
