import { startServer } from '../../../test/support/servers.js';
import type { Part } from '../lib/part.js';
import { fixed } from '../lib/report.js';
import type { RedisSubject } from '../rigs/redis.js';

const KEYS = 20_000;
const FIXED = 'headgate fixed-window';
const BUCKET = 'headgate gcra';
const DEFAULT = 'headgate sliding-window (default)';
const peers = ['rate-limiter-flexible', 'express-rate-limit', '@fastify/rate-limit'] as const;
const subjects: readonly RedisSubject[] = [FIXED, BUCKET, DEFAULT, ...peers];

/** What a key takes on Redis: by MEMORY USAGE, and its share of all the server's memory. */
export const bytes: Part = {
  name: 'bytes',
  async run(bench) {
    const server = await startServer('redis');
    try {
      const results = new Map<RedisSubject, { usage: number; total: number }>();
      for (const subject of subjects) {
        const rig = await bench.start('redis', { subject, port: server.port, limit: 100, keys: KEYS });
        results.set(subject, await rig.fill());
        await rig.end();
      }
      const most = Math.max(...peers.map((peer) => results.get(peer)!.usage));
      const bar = (subject: RedisSubject, extra: number) => ({
        bar: `${subject}: <= the peers' most${extra === 0 ? '' : ` + ${extra}`} (MEMORY USAGE)`,
        measured: `${fixed(results.get(subject)!.usage, 0)} of ${fixed(most + extra, 0)}`,
        pass: results.get(subject)!.usage <= most + extra,
      });
      return [
        {
          title: `Redis, bytes a key (${KEYS} keys of 16 characters, one decision each)`,
          columns: ['', 'MEMORY USAGE', 'of the server, tables included'],
          rows: subjects.map((subject) => {
            const { usage, total } = results.get(subject)!;
            return [subject, fixed(usage, 0), fixed(total, 0)];
          }),
          bars: [bar(FIXED, 0), bar(BUCKET, 16), bar(DEFAULT, 48)],
          data: Object.fromEntries(results),
        },
      ];
    } finally {
      await server.stop();
    }
  },
};
