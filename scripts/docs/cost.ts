// Measures the figures in docs/sizing.md: the bytes and the processor time that keys and decisions take, on a new Redis, a new Valkey, in a file of
// SQLite, in a table of PostgreSQL, and in a process.
//   node --expose-gc --import tsx scripts/docs/cost.ts [redis] [valkey] [features] [sqlite] [postgres] [memory]
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { createLimiter, type CreateLimiterOptions, type Limiter, type Policy } from 'headgate';
import { redisStore } from 'headgate/redis';
import { sqliteStore } from 'headgate/sqlite';
import { postgresStore } from 'headgate/postgres';
import { Redis } from 'ioredis';
import { startPostgres } from '../../test/support/postgres.js';
import { startServer } from '../../test/support/servers.js';
import { makeDirectory, openDatabase } from '../../test/support/sqlite.js';

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
if (runs('features')) await ofFeatures();
if (runs('postgres')) for (const [name, policy] of cases.slice(0, 3)) await inTable(name, policy);
if (runs('sqlite')) for (const [name, policy] of cases.slice(0, 3)) await inFile(name, policy);
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

/** The bytes of Redis that a feature adds to a key with a fixed window. */
async function ofFeatures(): Promise<void> {
  const policies = 'fixed-window 100/1h thresholds 1%';
  const plain = 'fixed-window 100/1h';
  await inRedis('a fixed window alone', { policies: plain }, (limiter, i) => limiter.consume(key(i)));
  await inRedis('a request id', { policies: plain }, (limiter, i) =>
    limiter.consume(key(i), { id: `order-${i}` }),
  );
  await inRedis('a crossed threshold', { policies, onThreshold() {} }, (limiter, i) =>
    limiter.consume(key(i)),
  );
  await inRedis('an override', { policies: plain, overrides: true }, async (limiter, i) => {
    await limiter.consume(key(i));
    await limiter.override(key(i), '200/1h', { for: '1d' });
  });
}

async function inRedis(
  name: string,
  options: object,
  fill: (limiter: Limiter, i: number) => Promise<unknown>,
): Promise<void> {
  const server = await startServer('redis');
  const redis = new Redis(server.port);
  const used = async () => Number(/^used_memory:(\d+)/m.exec(await redis.info())?.[1]);
  const limiter = createLimiter({
    ...options,
    name: 'api',
    store: redisStore(redis),
    timeout: '1m',
  } as unknown as CreateLimiterOptions);
  await fill(limiter, -1);
  const before = await used();
  for (let i = 0; i < 50_000; i += 500)
    await Promise.all(Array.from({ length: 500 }, (_, j) => fill(limiter, i + j)));
  report(`redis: ${name}`, ((await used()) - before) / 50_000, 50_000);
  await limiter.close();
  redis.disconnect();
  await server.stop();
}

/** The size of the table with its indexes, by the number of keys. */
async function inTable(name: string, policy: Policy): Promise<void> {
  const server = await startPostgres();
  const pool = server.pool();
  const store = postgresStore(pool);
  await store.setup();
  const limiter = createLimiter({ store, policies: [policy], timeout: '1m', onStoreError: 'throw' });
  for (let i = 0; i < 100_000; i += 1000)
    await Promise.all(Array.from({ length: 1000 }, (_, j) => limiter.consume(key(i + j))));
  await limiter.close();
  const { rows } = await pool.query<{ size: string }>(`SELECT pg_total_relation_size('headgate') AS size`);
  report(`postgres: ${name}`, Number(rows[0]!.size) / 100_000, 100_000);
  await pool.end();
  await server.stop();
}

/** The size of the file, without its log, by the number of keys. */
async function inFile(name: string, policy: Policy): Promise<void> {
  const file = join(makeDirectory(), 'limits.db');
  const database = openDatabase(file);
  const limiter = createLimiter({ store: sqliteStore(database), policies: [policy], timeout: '1m' });
  for (let i = 0; i < 100_000; i += 1000)
    await Promise.all(Array.from({ length: 1000 }, (_, j) => limiter.consume(key(i + j))));
  await limiter.close();
  database.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  report(`sqlite: ${name}`, statSync(file).size / 100_000, 100_000);
  database.close();
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
