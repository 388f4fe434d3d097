// An app with every metric, and its clients. Arguments: the port of its Redis, and the library of its metrics. Prints the metrics' address.
import { setTimeout as sleep } from 'node:timers/promises';
import type { AddressInfo } from 'node:net';
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus';
import { MeterProvider } from '@opentelemetry/sdk-metrics';
import express from 'express';
import { createLimiter, memoryStore, type Store } from 'headgate';
import type { Query, Reply, Subject } from 'headgate/stores';
import { rateLimit } from 'headgate/express';
import { limitFetch } from 'headgate/fetch';
import { instrument } from 'headgate/opentelemetry';
import { prometheusMetrics } from 'headgate/prometheus';
import { redisStore } from 'headgate/redis';
import { Redis } from 'ioredis';
import { register } from 'prom-client';

const redis = new Redis(Number(process.argv[2]), { retryStrategy: () => 100 });
redis.on('error', () => {});

const app = express();
if (process.argv[3] === 'prom-client') {
  prometheusMetrics();
  app.get(
    '/metrics',
    async (_req, res) => void res.type(register.contentType).send(await register.metrics()),
  );
} else {
  const exporter = new PrometheusExporter({ preventServerStart: true });
  const provider = new MeterProvider({ readers: [exporter] });
  instrument({ meter: provider.getMeter('headgate') });
  app.get('/metrics', (req, res) => exporter.getMetricsRequestHandler(req, res));
}
app.use(
  rateLimit({
    name: 'api',
    store: redisStore(redis),
    // Even on a busy machine, Redis only counts as down after it was stopped.
    timeout: '2s',
    policies: [
      { name: 'minute', algorithm: 'fixed-window', limit: 5, window: '1m' },
      { name: 'trial', limit: 2, window: '1m', shadow: true },
    ],
    keyGenerator: (req) => req.get('x-user'),
  }),
);
app.get('/', (_req, res) => void res.send('hello'));

const nodeOf = ({ key }: Subject): string => `node-${String(key)}`;

/** A cluster in which one server never answers. */
const cluster: Store = {
  decide: async (query: Query): Promise<Reply> => {
    query.call!.server = nodeOf(query);
    if (nodeOf(query) === 'node-1') throw new Error('it is down');
    return { now: Date.now(), step: 1, ban: 0, verdicts: query.set.policies.flatMap(() => [0, 5, 1000]) };
  },
  servers: () => ['node-0', 'node-1'],
  serverOf: nodeOf,
  adjust: () => Promise.reject(new Error('it is down')),
  lease: () => Promise.reject(new Error('it is down')),
  reset: () => Promise.resolve(),
  ban: () => Promise.resolve(),
};

/** A store that answers after a while. */
const slow: Store = {
  ...cluster,
  decide: async ({ set }) => {
    await sleep(80);
    return { now: Date.now(), step: 1, ban: 0, verdicts: set.policies.flatMap(() => [0, 5, 1000]) };
  },
};

const limiters = {
  slow: createLimiter({ name: 'slow', store: slow, timeout: '2s', limit: 10, window: '1s' }),
  cluster: createLimiter({ name: 'cluster', store: cluster, limit: 10, window: '1s' }),
  full: createLimiter({ name: 'full', store: memoryStore({ maxKeys: 100 }), limit: 1, window: '1h' }),
  slots: createLimiter({ name: 'slots', algorithm: 'concurrency', limit: 5, lease: '1h' }),
  paced: createLimiter({
    name: 'paced',
    ...{ algorithm: 'leaky-bucket', limit: 1, window: '1h', maxDelay: '30d' },
    ...{ maxWaiting: 10, maxWaitingPerKey: 10 },
  }),
  forgotten: createLimiter({ name: 'forgotten', limit: 1, window: '1h', overrides: true }),
  banned: createLimiter({ name: 'banned', limit: 1, window: '1h', ban: { after: 2 }, overrides: true }),
};

/** Keeps a full queue of each kind, taken slots, and a store without room. */
async function fill(): Promise<void> {
  const { paced, slots, full } = limiters;
  for (let i = 0; i < 10; i++) {
    const decision = await paced.consume('key');
    void paced.hold(decision);
    void slots.wait('key');
  }
  for (let i = 0; i < 100; i++) await full.consume(`key-${i}`);
  await limiters.forgotten.overrideAll('2/1h');
}

const denied = (): Promise<Response> =>
  Promise.resolve(new Response('', { status: 429, headers: { 'Retry-After': '1' } }));
const partner = limitFetch(denied, {
  name: 'partner',
  policies: ['100/1s'],
  retry: false,
  key: ({ url }) => url,
});

async function round(url: string, user: string): Promise<void> {
  for (let i = 0; i < 10; i++) await fetch(url, { headers: { 'x-user': user } });
  // The process does other work while an answer of Redis is on its way.
  const response = fetch(url, { headers: { 'x-user': `${user}-late` } });
  await sleep(1);
  const end = performance.now() + 120;
  while (performance.now() < end);
  await response;
  for (const key of ['0', '1']) await limiters.cluster.consume(key);
  await limiters.slow.consume(user);
  for (let i = 0; i < 3; i++) await limiters.banned.consume(user);
  await limiters.banned.override(user, '2/1h', { by: 'ada' });
  await limiters.banned.wait('waiting', { timeout: 1 }).catch(() => {});
  await partner(`http://partner.test/${user}`);
  for (let i = 0; i < 5; i++) await limiters.full.consume(`another-${user}-${i}`);
}

await fill();
const server = app.listen(0, '127.0.0.1', () => {
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  console.log(`${url}metrics`);
  void (async () => {
    for (let i = 0; ; i++) {
      await round(url, `user-${i}`);
      await sleep(100);
    }
  })();
});
