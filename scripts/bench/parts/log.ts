import { startServer } from '../../../test/support/servers.js';
import { ratioBar, type Part, type Section } from '../lib/part.js';
import { fixed } from '../lib/report.js';
import { summarize } from '../lib/stats.js';
import type { RedisSubject } from '../rigs/redis.js';

const OURS = 'headgate sliding-log';
const SET = 'a log in a sorted set';
const subjects: readonly RedisSubject[] = [OURS, SET];

/** The sliding log against a log in a sorted set: the script's CPU, and memory. */
export const log: Part = {
  name: 'log',
  async run(bench) {
    const server = await startServer('redis');
    try {
      const sections: Section[] = [];
      for (const entries of [1000, 10_000]) {
        const bytes = new Map<RedisSubject, number>();
        const rigs = new Map(
          await Promise.all(
            subjects.map(async (subject) => {
              const options = { subject, port: server.port, limit: entries, keys: 10 };
              return [subject, await bench.start('redis', options)] as const;
            }),
          ),
        );
        for (const [subject, rig] of rigs) bytes.set(subject, (await rig.fill(entries)).usage);
        // The CPU of admissions, on logs that grow meanwhile.
        const rounds = await bench.interleave(`log, ${entries} entries`, subjects, async (subject) => {
          const fresh = { subject, port: server.port, limit: 1e6, keys: 10 };
          const rig = await bench.start('redis', fresh);
          const figures = await rig.round(8, 300, true);
          await rig.end();
          return figures;
        });
        await Promise.all([...rigs.values()].map((rig) => rig.end()));
        const results = new Map([...rounds].map(([subject, values]) => [subject, summarize(values)]));
        sections.push({
          title: `Sliding log, ${entries} entries a key`,
          columns: ['', 'script us', 'Redis us', 'bytes a key'],
          rows: subjects.map((subject) => [
            subject,
            fixed(results.get(subject)!.script.median, 2),
            fixed(results.get(subject)!.redis.median, 2),
            fixed(bytes.get(subject)!, 0),
          ]),
          bars: [
            ratioBar(
              'CPU: <= 1.5x',
              results.get(OURS)!.script.median,
              results.get(SET)!.script.median,
              1.5,
              true,
            ),
            ratioBar('memory: <= 0.1x', bytes.get(OURS)!, bytes.get(SET)!, 0.1, true),
          ],
          data: { entries, cpu: Object.fromEntries(results), bytes: Object.fromEntries(bytes) },
        });
      }
      return sections;
    } finally {
      await server.stop();
    }
  },
};
