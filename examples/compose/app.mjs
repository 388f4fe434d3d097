// A service with a limit on Redis, its metrics, and the dashboard of its limiters: the application of compose.yaml and of the manifest for
// Kubernetes.
import express from 'express';
import { createLimiter } from 'headgate';
import { dashboard } from 'headgate-dashboard/express';
import { rateLimit } from 'headgate/express';
import { prometheusMetrics } from 'headgate/prometheus';
import { redisStore } from 'headgate/redis';
import { Redis } from 'ioredis';
import { register } from 'prom-client';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379', { socketTimeout: 5000 });
redis.on('error', (error) => console.error(error.message));

const limiter = createLimiter({
  name: 'api',
  store: redisStore(redis),
  policies: ['burst=token-bucket 10/1s burst 20', 'minute=100/1m'],
  localShare: 1 / Number(process.env.MAX_REPLICAS ?? 1),
});
prometheusMetrics();

// Operators and probes have a port of their own, which no client reaches.
const internal = express();
internal.get('/livez', (_req, res) => void res.send('ok'));
internal.get('/readyz', (_req, res) => void res.send(limiter.health.state));
internal.get('/metrics', async (_req, res) => {
  res.type(register.contentType).send(await register.metrics());
});
// Everybody who reaches this port may read. Add your authentication, and the option `actions` for those who may change limits.
internal.use('/limits', dashboard({ store: redisStore(redis), auth: 'none' }));

const app = express();
app.set('trust proxy', Number(process.env.PROXIES ?? 0));
app.use(rateLimit({ limiter }));
app.get('/', (req, res) => void res.json({ remaining: req.rateLimit?.remaining }));

const servers = [
  app.listen(Number(process.env.PORT ?? 3000), () => console.log('listening')),
  internal.listen(Number(process.env.INTERNAL_PORT ?? 9090)),
];

process.once('SIGTERM', () => {
  for (const server of servers) server.close();
  void limiter.close().then(() => redis.quit());
});
