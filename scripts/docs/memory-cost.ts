// Measures the figures in docs/performance.md about a process: how many bytes it keeps for keys and requests.
//   node --expose-gc --import tsx scripts/docs/memory-cost.ts
import { createLimiter, type Limiter, type StrictPolicy } from 'headgate';
import { redisStore } from 'headgate/redis';
import { Redis } from 'ioredis';
import { startServer } from '../../test/support/servers.js';

const window = '1h';

async function bytes(): Promise<number> {
  for (let i = 0; i < 3; i++) {
    await new Promise(setImmediate);
    globalThis.gc!();
  }
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

async function measure(what: string, count: number, fill: (i: number) => unknown): Promise<void> {
  await fill(-1);
  const before = await bytes();
  for (let i = 0; i < count; i++) await fill(i);
  console.log(
    `${what.padEnd(44)}${(((await bytes()) - before) / count).toFixed(0).padStart(6)} bytes, ${count} of them`,
  );
}

const key = (i: number): string => `user:${1e9 + i}`;

const policies: readonly (readonly [string, StrictPolicy])[] = [
  ['fixed-window', { algorithm: 'fixed-window', limit: 100, window }],
  ['token-bucket, leaky-bucket, gcra', { algorithm: 'token-bucket', limit: 100, window }],
  ['sliding-window, limit 100', { algorithm: 'sliding-window', limit: 100, window }],
  ['sliding-window, limit 100,000', { algorithm: 'sliding-window', limit: 100_000, window }],
  ['sliding-log, limit 100, 1 unit spent', { algorithm: 'sliding-log', limit: 100, window }],
  ['concurrency, 1 slot held', { algorithm: 'concurrency', limit: 100, lease: window }],
];
const limiters: Limiter[] = [];
for (const [name, policy] of policies) {
  const limiter = createLimiter({ name, ...policy });
  limiters.push(limiter);
  await measure(`a key of a memory store: ${name}`, 200_000, (i) => limiter.consume(key(i)));
}

const log = createLimiter({ algorithm: 'sliding-log', limit: 100, window });
await measure('a key of a memory store: sliding-log, all spent', 20_000, (i) =>
  log.consume(key(i), { cost: 100 }),
);

const many = { maxWaiting: 100_000, maxWaitingPerKey: 100_000 };
const waiting = createLimiter({ algorithm: 'fixed-window', limit: 1, window, ...many });
for (let i = 0; i < 10_000; i++) await waiting.consume(key(i));
await waiting.consume(key(-1));
await measure('a request that waits', 10_000, (i) => void waiting.wait(key(i)).catch(() => {}));

const delayed = { algorithm: 'leaky-bucket', limit: 1, window, burst: 1, maxDelay: '100d', ...many } as const;
const turns = createLimiter(delayed);
for (let i = -1; i < 10_000; i++) await turns.consume(key(i));
await measure('a request that waits and has its turn', 10_000, (i) => {
  void turns.wait(key(i)).catch(() => {});
});

const held = createLimiter(delayed);
for (let i = -1; i < 10_000; i++) await held.consume(key(i));
await measure('a request that is held', 10_000, async (i) => {
  const decision = await held.consume(key(i));
  void held.hold(decision).catch(() => {});
});

const server = await startServer('redis');
const redis = new Redis(server.port);
const store = redisStore(redis, { localDenials: '1h' });
const denied = createLimiter({ store, algorithm: 'fixed-window', limit: 1, window, timeout: '1m' });
for (let i = -1; i < 10_000; i++) await denied.consume(key(i));
await measure('a denial that is remembered', 10_000, (i) => denied.consume(key(i)));

for (const limiter of [...limiters, log, waiting, turns, held, denied]) await limiter.close();
redis.disconnect();
await server.stop();
