// Four workers share a quota in a file, without a server: PORT=3000 npx tsx examples/cluster-sqlite.ts
// The instances of PM2, and jobs beside the web server, can share the same file. Node 22.13 or later.
import cluster from 'node:cluster';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import express from 'express';
import { rateLimit } from 'headgate/express';
import { sqliteStore } from 'headgate/sqlite';

const port = Number(process.env['PORT'] ?? 3000);

if (cluster.isPrimary) {
  let listening = 0;
  for (let i = 0; i < 4; i++) cluster.fork();
  cluster.on('listening', () => {
    if (++listening === 4) console.log(`http://localhost:${port} by four workers`);
  });
  process.on('SIGTERM', () => process.exit());
} else {
  const store = sqliteStore(process.env['LIMITS'] ?? join(tmpdir(), 'headgate-limits.db'));
  const app = express();
  app.use(rateLimit({ name: 'api', store, limit: 5, window: '1m' }));
  app.get('/', (req, res) => void res.json({ worker: process.pid, degraded: req.rateLimit?.degraded }));
  app.listen(port);
}
