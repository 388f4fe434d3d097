// A server that answers hello, with or without a limiter in front. The load comes from another process.
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import express, { type RequestHandler } from 'express';
import { rateLimit } from 'express-rate-limit';
import fastify, { type FastifyInstance, type FastifyPluginAsync } from 'fastify';
import { rateLimit as headgate } from 'headgate/express';
import { rateLimitPlugin } from 'headgate/fastify';
import { redisStore } from 'headgate/redis';
import { Redis } from 'ioredis';
import { RedisStore } from 'rate-limit-redis';
import { RateLimiterMemory, RateLimiterRedis, type RateLimiterRes } from 'rate-limiter-flexible';

const WINDOW_MS = 3_600_000;

// Loaded without its types, which extend Fastify's by the same names as Headgate's types.
const fastifyRateLimit = createRequire(import.meta.url)('@fastify/rate-limit') as FastifyPluginAsync<
  Record<string, unknown>
>;

export interface HttpRigOptions {
  readonly framework: 'express' | 'fastify';
  readonly limiter:
    | 'none'
    | 'headgate'
    | 'headgate, the fields of peers'
    | 'rate-limiter-flexible'
    | 'express-rate-limit'
    | '@fastify/rate-limit';
  /** Absent for a store in memory. */
  readonly redisPort: number | undefined;
  readonly limit: number;
}

function ours({ limiter, redisPort, limit }: HttpRigOptions, name: string) {
  const headers = limiter === 'headgate' ? {} : { headers: 'legacy' as const };
  const common = { name, algorithm: 'fixed-window', limit, window: WINDOW_MS, ...headers } as const;
  if (redisPort === undefined) return common;
  return { ...common, store: redisStore(new Redis(redisPort)), timeout: '10s' } as const;
}

function flexible({ redisPort, limit }: HttpRigOptions, keyPrefix: string) {
  const options = { points: limit, duration: WINDOW_MS / 1000, keyPrefix };
  return redisPort === undefined
    ? new RateLimiterMemory(options)
    : new RateLimiterRedis({ ...options, storeClient: new Redis(redisPort) });
}

/** The fields from the peer's README. */
function flexibleHeaders({ msBeforeNext, remainingPoints }: RateLimiterRes, limit: number) {
  return {
    'Retry-After': msBeforeNext / 1000,
    'X-RateLimit-Limit': limit,
    'X-RateLimit-Remaining': remainingPoints,
    'X-RateLimit-Reset': Math.ceil((Date.now() + msBeforeNext) / 1000),
  };
}

function middleware(options: HttpRigOptions): RequestHandler | undefined {
  const { limiter, redisPort, limit } = options;
  if (limiter.startsWith('headgate')) return headgate(ours(options, 'express'));
  if (limiter === 'rate-limiter-flexible') {
    const flex = flexible(options, 'express');
    return (req, res, next) => {
      flex.consume(req.ip!).then(
        (made) => {
          res.set(flexibleHeaders(made, limit) as object);
          next();
        },
        (denial: RateLimiterRes) =>
          res
            .set(flexibleHeaders(denial, limit) as object)
            .status(429)
            .send('Too Many Requests'),
      );
    };
  }
  if (limiter !== 'express-rate-limit') return undefined;
  const redis = redisPort === undefined ? undefined : new Redis(redisPort);
  const store =
    redis && new RedisStore({ sendCommand: ((...args: [string]) => redis.call(...args)) as never });
  return rateLimit({ limit, windowMs: WINDOW_MS, standardHeaders: 'draft-8', ...(store && { store }) });
}

async function protect(app: FastifyInstance, options: HttpRigOptions): Promise<void> {
  const { limiter, redisPort, limit } = options;
  if (limiter.startsWith('headgate')) {
    await app.register(rateLimitPlugin, ours(options, 'fastify'));
  } else if (limiter === 'rate-limiter-flexible') {
    const flex = flexible(options, 'fastify');
    app.addHook('onRequest', async (req, reply) => {
      try {
        reply.headers(flexibleHeaders(await flex.consume(req.ip), limit));
      } catch (denial) {
        reply.headers(flexibleHeaders(denial as RateLimiterRes, limit));
        return reply.code(429).send('Too Many Requests');
      }
    });
  } else if (limiter === '@fastify/rate-limit') {
    const redis = redisPort === undefined ? {} : { redis: new Redis(redisPort) };
    await app.register(fastifyRateLimit, { max: limit, timeWindow: WINDOW_MS, ...redis });
  }
}

export async function start(options: HttpRigOptions) {
  const port = options.framework === 'express' ? await startExpress(options) : await startFastify(options);
  return {
    port: () => port,
    /** Microseconds of CPU so far. */
    cpu() {
      const { user, system } = process.cpuUsage();
      return user + system;
    },
  };
}

async function startExpress(options: HttpRigOptions): Promise<number> {
  const app = express();
  const limiter = middleware(options);
  if (limiter) app.use(limiter);
  app.get('/', (_req, res) => void res.json({ hello: 'world' }));
  return new Promise((resolve) => {
    const server = app.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port));
  });
}

async function startFastify(options: HttpRigOptions): Promise<number> {
  const app = fastify();
  await protect(app, options);
  app.get('/', () => ({ hello: 'world' }));
  await app.listen({ port: 0, host: '127.0.0.1' });
  return (app.server.address() as AddressInfo).port;
}
