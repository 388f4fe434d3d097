import { barOf, redisPart, tableOf } from '../lib/part.js';
import { BUCKET, DEFAULT, FIXED } from '../lib/redis-rigs.js';
import { fixed } from '../lib/figures.js';
import type { RedisSubject } from '../rigs/redis.js';

const KEYS = 20_000;
const peers = ['rate-limiter-flexible', 'express-rate-limit', '@fastify/rate-limit'] as const;
const subjects: readonly RedisSubject[] = [FIXED, BUCKET, DEFAULT, ...peers];

/** The size of a key on Redis: by MEMORY USAGE, and as its share of the server's memory. */
export const bytes = redisPart('bytes', async (bench, port) => {
  const results = new Map<RedisSubject, { usage: number; total: number }>();
  for (const subject of subjects) {
    const rig = await bench.start('redis', { subject, port, limit: 100, keys: KEYS });
    results.set(subject, await rig.fill());
    await rig.end();
  }
  const largest = Math.max(...peers.map((peer) => results.get(peer)!.usage));
  const bar = (subject: RedisSubject, extra: number) => {
    const { usage } = results.get(subject)!;
    const bar = `${subject}: <= the peers' most${extra === 0 ? '' : ` + ${extra}`} (MEMORY USAGE)`;
    return barOf(bar, `${fixed(usage, 0)} of ${fixed(largest + extra, 0)}`, usage <= largest + extra);
  };
  return [
    tableOf(
      `Redis, bytes a key (${KEYS} keys of 16 characters, one decision each)`,
      results,
      [
        ['MEMORY USAGE', ({ usage }) => fixed(usage, 0)],
        ['of the server, tables included', ({ total }) => fixed(total, 0)],
      ],
      { bars: [bar(FIXED, 0), bar(BUCKET, 16), bar(DEFAULT, 48)] },
    ),
  ];
});
