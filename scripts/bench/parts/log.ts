import { atMost, endAll, redisPart, tableOf, type Section } from '../lib/part.js';
import { column } from '../lib/redis-rigs.js';
import { fixed } from '../lib/figures.js';
import type { RedisSubject } from '../rigs/redis.js';

const OURS = 'headgate sliding-log';
const SET = 'a log in a sorted set';
const subjects: readonly RedisSubject[] = [OURS, SET];

/** The sliding log against a log in a sorted set: the script's CPU, and memory. */
export const log = redisPart('log', async (bench, port) => {
  const sections: Section[] = [];
  for (const entries of [1000, 10_000]) {
    const options = { port, limit: entries, keys: 10 };
    const rigs = await bench.startAll('redis', subjects, (subject) => ({ subject, ...options }));
    const bytes = new Map<RedisSubject, number>();
    for (const [subject, rig] of rigs) bytes.set(subject, (await rig.fill(entries)).usage);
    // The CPU of admissions, on logs that grow meanwhile.
    const results = await bench.sample(`log, ${entries} entries`, subjects, async (subject) => {
      const rig = await bench.start('redis', { subject, port, limit: 1e6, keys: 10 });
      const figures = await rig.round(8, 300, true);
      await rig.end();
      return figures;
    });
    await endAll(rigs);
    const script = (subject: RedisSubject): number => results.get(subject)!.script.median;
    sections.push(
      tableOf(
        `Sliding log, ${entries} entries a key`,
        results,
        [column.script, column.redis, ['bytes a key', (_, subject) => fixed(bytes.get(subject)!, 0)]],
        {
          bars: [
            atMost('CPU: <= 1.5x', script(OURS), script(SET), 1.5),
            atMost('memory: <= 0.1x', bytes.get(OURS)!, bytes.get(SET)!, 0.1),
          ],
          data: { entries, cpu: Object.fromEntries(results), bytes: Object.fromEntries(bytes) },
        },
      ),
    );
  }
  return sections;
});
