import { memorySubjects, type MemorySubject } from '../rigs/memory.js';
import { ratioBar, type Bar, type Part, type Section } from '../lib/part.js';
import { count, fixed, spread } from '../lib/report.js';
import { summarize } from '../lib/stats.js';

const sizes = [
  { keys: 1, limit: 1e9, decisions: 300_000 },
  { keys: 10_000, limit: 1e6, decisions: 300_000 },
  { keys: 1_000_000, limit: 100, decisions: 300_000 },
];

const LISTENED = 'headgate sliding-window, listened to';
const ours = memorySubjects.filter((subject) => subject.startsWith('headgate') && subject !== LISTENED);
/** Whole middleware, where the others are called for a count or a decision alone. */
const middleware = memorySubjects.filter((subject) => subject.startsWith('middleware'));
const others = memorySubjects.filter(
  (subject) => !ours.includes(subject) && !middleware.includes(subject) && subject !== LISTENED,
);
/** Those that decide. */
const peers = others.filter((subject) => !subject.endsWith('alone'));

/** Decisions in memory, and what a key takes. */
export const memory: Part = {
  name: 'memory',
  async run(bench) {
    const sections: Section[] = [];
    for (const { keys, limit, decisions } of sizes) {
      const rigs = new Map(
        await Promise.all(
          memorySubjects.map(
            async (subject) => [subject, await bench.start('memory', { subject, keys, limit })] as const,
          ),
        ),
      );
      const bytes = new Map<MemorySubject, { bytes: number; pause: number }>();
      for (const [subject, rig] of rigs) {
        bytes.set(subject, await rig.fill());
        await rig.round(decisions);
      }
      const rounds = await bench.interleave(`memory, ${count(keys)} keys`, memorySubjects, (subject) =>
        rigs.get(subject)!.round(decisions),
      );
      await Promise.all([...rigs.values()].map((rig) => rig.end()));

      const results = new Map([...rounds].map(([subject, values]) => [subject, summarize(values).ns]));
      const ns = (subject: MemorySubject) => results.get(subject)!.median;
      const fastest = peers.reduce((a, b) => (ns(a) <= ns(b) ? a : b));
      const million = keys === 1_000_000;
      const bars: Bar[] = ours.flatMap((subject) => [
        ratioBar(
          `${subject}, ${count(keys)} keys: >= ${million ? 3 : 1}x the fastest peer (${fastest})`,
          ns(fastest),
          ns(subject),
          million ? 3 : 1,
        ),
        ...(million
          ? [
              {
                bar: `${subject}, ${count(keys)} keys: <= 60 bytes a key`,
                measured: fixed(bytes.get(subject)!.bytes, 1),
                pass: bytes.get(subject)!.bytes <= 60,
              },
            ]
          : []),
      ]);
      sections.push({
        title: `In memory, ${count(keys)} ${keys === 1 ? 'key' : 'keys'}`,
        columns: [
          '',
          'ns per decision',
          'ratio',
          ...(million ? ['bytes a key', 'longest pause while filling, ms'] : []),
        ],
        rows: [...ours, LISTENED as MemorySubject, ...others].map((subject) => [
          subject,
          spread(results.get(subject)!, 0),
          fixed(ns(fastest) / ns(subject), 2),
          ...(million ? [fixed(bytes.get(subject)!.bytes, 0), fixed(bytes.get(subject)!.pause, 1)] : []),
        ]),
        bars,
        data: { keys, limit, ns: Object.fromEntries(results), memory: Object.fromEntries(bytes) },
      });
      const [own, peer] = middleware as [MemorySubject, MemorySubject];
      sections.push({
        title: `In memory, ${count(keys)} ${keys === 1 ? 'key' : 'keys'}, whole Express middleware`,
        note: 'From the request to the next middleware: key, decision, header fields of draft 6.',
        columns: ['', 'ns per request', 'ratio'],
        rows: middleware.map((subject) => [
          subject,
          spread(results.get(subject)!, 0),
          fixed(ns(peer) / ns(subject), 2),
        ]),
        bars: [ratioBar('faster than the peer', ns(peer), ns(own), 1)],
        data: { keys, limit, ns: Object.fromEntries(middleware.map((subject) => [subject, ns(subject)])) },
      });
    }
    return sections;
  },
};
