// Writes the samples of the layout of this version. Run the program once for each new layout, never for an old layout:
//   npx tsx test/compatibility/record.ts <number>
// For an addition to a layout, pass a name and the name of the policies below to record:
//   npx tsx test/compatibility/record.ts <name> <policies>
import { existsSync, writeFileSync } from 'node:fs';
import { Redis } from 'ioredis';
import type { Policy } from 'headgate';
import { startServer } from '../support/servers.js';
import { KEY, limiterOf, look, WRITTEN, type Entry, type Sample } from './layout.js';

const minute = 60_000;

const policies: Record<string, readonly Policy[]> = {
  'fixed window': [{ algorithm: 'fixed-window', limit: 10, window: minute }],
  'sliding window': [{ algorithm: 'sliding-window', limit: 10, window: minute }],
  'sliding window, three segments': [{ algorithm: 'sliding-window', limit: 1000, window: 7000, segments: 3 }],
  'sliding log': [{ algorithm: 'sliding-log', limit: 10, window: minute }],
  'token bucket': [{ algorithm: 'token-bucket', limit: 10, window: minute, burst: 5 }],
  'gcra that does not divide': [{ algorithm: 'gcra', limit: 7, window: 10_000 }],
  'leaky bucket that holds': [
    { algorithm: 'leaky-bucket', limit: 10, window: minute, burst: 1, maxDelay: 30_000 },
  ],
  calendar: [{ algorithm: 'calendar', limit: 10, period: 'hour', timeZone: 'Asia/Kathmandu' }],
  shared: [{ algorithm: 'sliding-window', limit: 10, window: minute, share: 'tenant' }],
  'shared slots': [{ algorithm: 'concurrency', limit: 3, lease: minute, share: 'tenant' }],
  concurrency: [{ algorithm: 'concurrency', limit: 3, lease: minute }],
  several: [
    { name: 'burst', algorithm: 'token-bucket', limit: 5, window: 1000 },
    { name: 'hour', algorithm: 'sliding-window', limit: 12, window: 60 * minute },
    { name: 'watched', algorithm: 'fixed-window', limit: 1, window: minute, shadow: true },
  ],
};

/** Requests: the delay after the previous request, ms, and the cost. */
const traffic = [
  [0, 1],
  [900, 2],
  [1500, 1],
  [3000, 1],
  [1, 4],
] as const;

async function entries(client: Redis): Promise<Entry[]> {
  const keys = (await client.keys('hg:*')).sort();
  return Promise.all(
    keys.map(async (key) => {
      const expires = Number(await client.call('PEXPIRETIME', key));
      return (await client.type(key)) === 'zset'
        ? { key, zset: (await client.zrange(key, '0', '-1', 'WITHSCORES')).flat(), expires }
        : { key, string: (await client.getBuffer(key))!.toString('base64'), expires };
    }),
  );
}

const file = new URL(`layouts/${process.argv[2]}.json`, import.meta.url);
if (!process.argv[2] || existsSync(file)) throw new Error('Name a layout that has no samples yet.');
const server = await startServer('redis');
const client = new Redis(server.port);
const samples: Sample[] = [];
for (const [what, set] of Object.entries(policies)) {
  if (process.argv[3] !== undefined && what !== process.argv[3]) continue;
  for (const banned of [false, true]) {
    await client.flushall();
    let now = WRITTEN;
    const limiter = limiterOf(client, 'hg', set, () => now);
    for (const [pause, cost] of traffic) {
      now += pause;
      await limiter.consume(KEY, { cost });
    }
    if (banned) for (let i = 0; i < 20; i++) await limiter.consume(KEY, { cost: 3 });
    const written = await entries(client);
    const looks = [];
    const start = now;
    for (const after of [0, 1000, 5000, 20_000, minute, 10 * minute, 60 * minute, 180 * minute]) {
      now = start + after;
      looks.push({ after, says: await look(limiter) });
    }
    samples.push({ what: banned ? `${what}, banned` : what, policies: set, entries: written, looks });
    await limiter.close();
  }
}
client.disconnect();
await server.stop();
writeFileSync(
  file,
  `${JSON.stringify({ written: WRITTEN + traffic.reduce((sum, [pause]) => sum + pause, 0), samples }, null, 1)}\n`,
);
