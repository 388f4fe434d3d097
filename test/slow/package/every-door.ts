// A user's file with every sub-path. Each TypeScript version compiles the file in each of its module settings.
import express, { type Request } from 'express';
import Fastify from 'fastify';
import { createLimiter, memoryStore, type Decision } from 'headgate';
import { rateLimit as standIn } from 'headgate/compat/express-rate-limit';
import { normalizeIP } from 'headgate/compat/fastify-rate-limit';
import { rateLimited } from 'headgate/decorators';
import { rateLimit } from 'headgate/express';
import { rateLimitPlugin } from 'headgate/fastify';
import { limitFetch } from 'headgate/fetch';
import { rateLimit as honoLimit } from 'headgate/hono';
import { denial } from 'headgate/http';
import { rateLimit as koaLimit } from 'headgate/koa';
import { RateLimitModule } from 'headgate/nestjs';
import { instrument } from 'headgate/opentelemetry';
import { postgresSchema, postgresStore } from 'headgate/postgres';
import { prometheusMetrics } from 'headgate/prometheus';
import { redisStore } from 'headgate/redis';
import { sqliteStore, type SqliteDatabase } from 'headgate/sqlite';
import { stateStore } from 'headgate/stores';
import { createAdmin } from 'headgate/admin';
import { TestClock } from 'headgate/testing';
import { redisStore as httpStore, upstashRedis } from 'headgate/upstash';
import { rateLimit as webLimit } from 'headgate/web';
import { storeChecks, type Check } from 'headgate-testing';
import type { Redis } from 'ioredis';
import type { Pool } from 'pg';

interface UserRequest extends Request {
  user: { id: string };
}

const quota = { limit: 5, window: '1m' } as const;
const limiter = createLimiter({ store: memoryStore({ clock: new TestClock().read }), ...quota });

export function waitFor(decision: Decision): number {
  if (decision.allowed) return 0;
  return decision.retryAfterMs ?? Infinity;
}

/** Policies of several algorithms from one list, as TypeScript infers their type. */
export function limiterOf(names: readonly ('fixed-window' | 'gcra' | 'concurrency')[]) {
  const policies = names.map((algorithm) =>
    algorithm === 'concurrency'
      ? { name: algorithm, algorithm, limit: 3, lease: '1h' }
      : { name: algorithm, algorithm, limit: 3, window: '1h' },
  );
  return createLimiter({ policies });
}

export async function limitAll(redis: Redis): Promise<void> {
  const app = express();
  app.use(rateLimit({ ...quota, store: redisStore(redis), keyGenerator: (req: UserRequest) => req.user.id }));
  app.use(standIn({ windowMs: 1000, limit: 2 }));
  app.get('/', (req, res) => void res.json({ remaining: req.rateLimit?.remaining }));
  const fastify = Fastify();
  await fastify.register(rateLimitPlugin, quota);
  fastify.get('/', { config: { rateLimit: ['5/1s', quota] } }, (request) => request.rateLimit?.remaining);
  const { status } = denial(await limiter.consume('key'));
  const lookUp = rateLimited((id: string) => id.length + status, { limiter, key: (id) => id });
  await lookUp('42');
  const call = limitFetch(fetch, { limiter, key: ({ url }) => new URL(url).host });
  await (await call('http://localhost')).text();
  RateLimitModule.forRoot(quota);
}

export function limitMachine(database: SqliteDatabase): void {
  createLimiter({ ...quota, store: sqliteStore(database, { synchronous: 'full' }) });
  createLimiter({ ...quota, store: sqliteStore('/var/lib/app/limits.db') });
}

export async function limitDatabase(pool: Pool): Promise<void> {
  const store = postgresStore(pool, { table: 'limits.headgate', unlogged: false });
  await store.setup();
  createLimiter({ ...quota, store });
}

/** A store over HTTP, of either sub-path. */
export const stores = [httpStore, redisStore].map((create) =>
  create(upstashRedis({ url: 'https://localhost', token: 'token' }), { publish: '1m' }),
);

/** The SQL of a migration. */
export const migration: string = postgresSchema({ table: 'limits.headgate' });

/** The checks of a store. */
export const checks: Check[] = storeChecks({ createStore: (clock) => memoryStore({ clock }) });

export const admin = createAdmin(memoryStore());

/** Middleware of Hono and Koa, and a handler of web standards. */
export const others = [honoLimit('5/1m'), koaLimit(quota), webLimit(quota)(() => new Response('ok'))];

// @ts-expect-error a burst of a window
createLimiter({ ...quota, burst: 9 });

export { instrument, normalizeIP, prometheusMetrics, stateStore };
