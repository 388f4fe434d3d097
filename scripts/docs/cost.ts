// Measures the figures in docs/performance.md: the bytes and the processor time that keys and decisions take, on a new Redis, a new Valkey, and in a process.
//   node --expose-gc --import tsx scripts/docs/cost.ts [redis] [valkey] [memory]
import { createLimiter, type Limiter, type Policy } from 'headgate';
import { redisStore } from 'headgate/redis';
import { Redis } from 'ioredis';
import { startServer } from '../../test/support/servers.js';

const window = '1h';
const common = { limit: 100, window };
/** The cases: name, policy, and the number of decisions for each key, if there are several. */
const cases: readonly (readonly [string, Policy, number?])[] = [
  ['fixed-window', { algorithm: 'fixed-window', ...common }],
  ['token-bucket, leaky-bucket, gcra', { algorithm: 'token-bucket', ...common }],
  ['sliding-window, limit 100', { algorithm: 'sliding-window', ...common }],
  ['sliding-window, limit 100,000', { algorithm: 'sliding-window', limit: 100_000, window }],
  ['sliding-log, limit 100, 1 unit spent', { algorithm: 'sliding-log', ...common }],
  ['sliding-log, limit 100, all spent', { algorithm: 'sliding-log', ...common }, 100],
  ['concurrency, 1 slot held', { algorithm: 'concurrency', limit: 100, lease: window }],
];
const key = (i: number): string => `user:${1e9 + i}`;
const chosen = process.argv.slice(2);
const runs = (part: string): boolean => chosen.length === 0 || chosen.includes(part);

for (const kind of ['redis', 'valkey'] as const)
  if (runs(kind)) for (const each of cases) await onServer(kind, ...each);
if (runs('memory')) await inMemory();

/** Each measurement uses a new server, because memory that an earlier measurement freed would be missing in the next. */
async function onServer(kind: 'redis' | 'valkey', name: string, policy: Policy, rounds = 1): Promise<void> {
  const count = rounds > 1 ? 10_000 : 100_000;
  const server = await startServer(kind);
  const redis = new Redis(server.port);
  const figures = async () => {
    const info = await redis.info();
    const figure = (field: string) => Number(new RegExp(`^${field}:(\\S*)`, 'm').exec(info)?.[1]);
    return { bytes: figure('used_memory'), seconds: figure('used_cpu_user') + figure('used_cpu_sys') };
  };
  const limiter = createLimiter({
    ...{ name: 'api', store: redisStore(redis), policies: [policy], timeout: '1m', onStoreError: 'throw' },
  });
  await limiter.consume('warm-up');
  const before = await figures();
  let next = 0;
  const ask = async () => {
    while (next < count * rounds) await limiter.consume(key(next++ % count));
  };
  await Promise.all(Array.from({ length: 64 }, ask));
  const { bytes, seconds } = await figures();
  const time = `${((1e6 * (seconds - before.seconds)) / count / rounds).toFixed(1).padStart(6)} us a decision`;
  report(`${kind}: ${name}`, (bytes - before.bytes) / count, count, time);
  await limiter.close();
  redis.disconnect();
  await server.stop();
}

function report(what: string, bytes: number, count: number, rest = ''): void {
  console.log(`${what.padEnd(60)}${bytes.toFixed(0).padStart(6)} bytes, ${count} of them${rest}`);
}

async function inMemory(): Promise<void> {
  const limiters: Limiter[] = [];
  const limiterOf = (...[options]: Parameters<typeof createLimiter>): Limiter => {
    const limiter = createLimiter(options);
    limiters.push(limiter);
    return limiter;
  };
  const charge = async (limiter: Limiter, count = 10_000): Promise<Limiter> => {
    for (let i = -1; i < count; i++) await limiter.consume(key(i));
    return limiter;
  };
  const measure = async (what: string, count: number, fill: (i: number) => unknown): Promise<void> => {
    await fill(-1);
    const before = await heapBytes();
    for (let i = 0; i < count; i++) await fill(i);
    report(what, ((await heapBytes()) - before) / count, count);
  };
  for (const [name, policy, cost = 1] of cases) {
    const limiter = limiterOf({ name, policies: [policy] });
    const count = cost === 1 ? 200_000 : 20_000;
    await measure(`memory: ${name}`, count, (i) => limiter.consume(key(i), { cost }));
  }
  const many = { limit: 1, window, maxWaiting: 100_000, maxWaitingPerKey: 100_000 };
  const delayed = { algorithm: 'leaky-bucket', burst: 1, maxDelay: '100d', ...many } as const;
  const waiting = await charge(limiterOf({ algorithm: 'fixed-window', ...many }));
  await measure('a request that waits', 10_000, (i) => void waiting.wait(key(i)).catch(() => {}));
  const turns = await charge(limiterOf(delayed));
  await measure(
    'a request that waits and has its turn',
    10_000,
    (i) => void turns.wait(key(i)).catch(() => {}),
  );
  const held = await charge(limiterOf(delayed));
  await measure('a request that is held', 10_000, async (i) => {
    const decision = await held.consume(key(i));
    void held.hold(decision).catch(() => {});
  });
  const server = await startServer('redis');
  const redis = new Redis(server.port);
  const store = redisStore(redis, { localDenials: '1h' });
  const denied = await charge(
    limiterOf({ store, algorithm: 'fixed-window', limit: 1, window, timeout: '1m' }),
  );
  await measure('a denial that is remembered', 10_000, (i) => denied.consume(key(i)));
  for (const limiter of limiters) await limiter.close();
  redis.disconnect();
  await server.stop();
}

async function heapBytes(): Promise<number> {
  for (let i = 0; i < 3; i++) {
    await new Promise(setImmediate);
    globalThis.gc!();
  }
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}
