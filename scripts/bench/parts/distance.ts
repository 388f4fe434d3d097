import { atLeast, atMost, redisPart, tableOf, type Section } from '../lib/part.js';
import { column, least, MINUTE, most, redisRigs, type Figure } from '../lib/redis-rigs.js';
import { redisSubjects } from '../rigs/redis.js';

/** Delay each way, ms. */
const DISTANCE_MS = 1;

const subjects = redisSubjects.filter((subject) => !/ log|-log|gcra|calendar/.test(subject));
const ours = subjects.filter((subject) => subject.startsWith('headgate'));
const peers = subjects.filter((subject) => !ours.includes(subject));

/** Decisions through a Redis that is a network away. */
export const distance = redisPart('distance', async (bench, port) => {
  const road = await bench.start('distance', { port, ms: DISTANCE_MS });
  const options = { port, via: await road.port(), limit: 1e5, window: MINUTE, keys: 10_000 };
  const rigs = await redisRigs(bench, subjects, (subject) => ({ subject, ...options }), [64, 8]);
  const sections: Section[] = [];
  for (const inFlight of [8, 64, 256, 1024]) {
    const title = `Redis ${DISTANCE_MS} ms away each way, ${inFlight} in flight, 100,000 a minute, 10,000 keys`;
    const results = await rigs.measure(title, inFlight, 400);
    const fastest = most(results, peers, 'perSecond');
    const columns = [column.perSecond, column.ratio(fastest), column.p50, column.node, column.redis];
    const bars = ours.flatMap((subject) => {
      const of = (figure: Figure): number => results.get(subject)![figure].median;
      return [
        atLeast(`${subject}: no slower than any peer`, of('perSecond'), fastest, 1),
        atMost(`${subject}: least CPU of Node`, of('node'), least(results, peers, 'node'), 1),
        atMost(`${subject}: least CPU of Redis`, of('redis'), least(results, peers, 'redis'), 1),
      ];
    });
    sections.push(tableOf(title, results, columns, { bars }));
  }
  await rigs.end();
  return sections;
});
