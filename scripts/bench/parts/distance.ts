import { startServer } from '../../../test/support/servers.js';
import { ratioBar, type Part, type Section } from '../lib/part.js';
import { fixed, rate, spread } from '../lib/report.js';
import { summarize } from '../lib/stats.js';
import { redisSubjects, type RedisSubject } from '../rigs/redis.js';

/** Each way, ms. */
const DISTANCE = 1;
const MINUTE = 60_000;

const subjects = redisSubjects.filter((subject) => !/ log|-log|gcra|calendar/.test(subject));
const ours = subjects.filter((subject) => subject.startsWith('headgate'));
const peers = subjects.filter((subject) => !ours.includes(subject));

/** Decisions through a Redis that is a network away. */
export const distance: Part = {
  name: 'distance',
  async run(bench) {
    const server = await startServer('redis');
    try {
      const road = await bench.start('distance', { port: server.port, ms: DISTANCE });
      const options = { port: server.port, via: await road.port(), limit: 1e5, window: MINUTE, keys: 10_000 };
      const rigs = new Map(
        await Promise.all(
          subjects.map(
            async (subject) => [subject, await bench.start('redis', { subject, ...options })] as const,
          ),
        ),
      );
      for (const rig of rigs.values()) await rig.warmUp([64, 8], true);
      const sections: Section[] = [];
      for (const inFlight of [8, 64, 256, 1024]) {
        const title = `Redis ${DISTANCE} ms away each way, ${inFlight} in flight, 100,000 a minute, 10,000 keys`;
        const rounds = await bench.interleave(title, subjects, (subject) =>
          rigs.get(subject)!.round(inFlight, 400, true),
        );
        const results = new Map([...rounds].map(([subject, values]) => [subject, summarize(values)]));
        const of = (subject: RedisSubject, figure: 'perSecond' | 'node' | 'redis') =>
          results.get(subject)![figure].median;
        const fastest = Math.max(...peers.map((peer) => of(peer, 'perSecond')));
        const leanest = (figure: 'node' | 'redis') => Math.min(...peers.map((peer) => of(peer, figure)));
        sections.push({
          title,
          columns: ['', 'decisions/s', 'ratio', 'p50 us', 'Node us', 'Redis us'],
          rows: [...results].map(([subject, { perSecond, p50, node, redis }]) => [
            subject,
            spread(perSecond, rate),
            fixed(perSecond.median / fastest, 2),
            fixed(p50.median, 0),
            fixed(node.median, 2),
            fixed(redis.median, 2),
          ]),
          bars: ours.flatMap((subject) => [
            ratioBar(`${subject}: no slower than any peer`, of(subject, 'perSecond'), fastest, 1),
            ratioBar(`${subject}: least CPU of Node`, of(subject, 'node'), leanest('node'), 1, true),
            ratioBar(`${subject}: least CPU of Redis`, of(subject, 'redis'), leanest('redis'), 1, true),
          ]),
          data: Object.fromEntries(results),
        });
      }
      return sections;
    } finally {
      await server.stop();
    }
  },
};
