// Measures the figures in docs/performance.md about servers: bytes per key, and processor time per decision, on a new Redis and a new Valkey.
//   tsx scripts/docs/redis-cost.ts
import { createLimiter, type Policy } from 'headgate';
import { redisStore } from 'headgate/redis';
import { Redis } from 'ioredis';
import { startServer } from '../../test/support/servers.js';

const KEYS = 100_000;
const AT_ONCE = 64;

const window = '1h';
const cases: [string, Policy, number][] = [
  ['fixed-window', { algorithm: 'fixed-window', limit: 100, window }, 1],
  ['sliding-window', { algorithm: 'sliding-window', limit: 100, window }, 1],
  ['sliding-log, 1 unit', { algorithm: 'sliding-log', limit: 100, window }, 1],
  ['sliding-log, 100 units', { algorithm: 'sliding-log', limit: 100, window }, 100],
  ['token-bucket', { algorithm: 'token-bucket', limit: 100, window }, 1],
  ['concurrency, 1 slot', { algorithm: 'concurrency', limit: 100, lease: window }, 1],
];

for (const kind of ['redis', 'valkey'] as const) {
  for (const [name, policy, cost] of cases) {
    // Each measurement uses a new server, because memory that one has freed would be missing from the next.
    const server = await startServer(kind);
    const redis = new Redis(server.port);
    const info = async (section: string, field: string) =>
      new RegExp(`^${field}:(\\S*)`, 'm').exec(await redis.info(section))?.[1] ?? '';
    const memory = async () => Number(await info('memory', 'used_memory'));
    const cpu = async () =>
      1e6 * (Number(await info('cpu', 'used_cpu_user')) + Number(await info('cpu', 'used_cpu_sys')));
    const limiter = createLimiter({
      name: 'api',
      store: redisStore(redis),
      policies: [policy],
      timeout: '1m',
      onStoreError: 'throw',
    });
    await limiter.consume('warm-up');
    const [bytes, time] = [await memory(), await cpu()];
    let next = 0;
    await Promise.all(
      Array.from({ length: AT_ONCE }, async () => {
        while (next < KEYS) await limiter.consume(`user:${1e9 + next++}`, { cost });
      }),
    );
    console.log(
      `${kind} ${await info('server', `${kind}_version`)} `.padEnd(14) +
        name.padEnd(24) +
        `${(((await memory()) - bytes) / KEYS).toFixed(0).padStart(6)} bytes a key` +
        `${(((await cpu()) - time) / KEYS).toFixed(1).padStart(8)} us a decision`,
    );
    await limiter.close();
    redis.disconnect();
    await server.stop();
  }
}
