import { memorySubjects, type MemorySubject } from '../rigs/memory.js';
import { atLeast, barOf, endAll, spreads, tableOf, type Bar, type Part, type Section } from '../lib/part.js';
import { count, fixed } from '../lib/figures.js';

const DECISIONS = 300_000;
const sizes = [
  { keys: 1, limit: 1e9 },
  { keys: 10_000, limit: 1e6 },
  { keys: 1_000_000, limit: 100 },
];

const LISTENED = 'headgate sliding-window, listened to';
const ours = memorySubjects.filter((subject) => subject.startsWith('headgate') && subject !== LISTENED);
/** Whole middleware. The other subjects are called for a count or a decision alone. */
const middleware = memorySubjects.filter((subject) => subject.startsWith('middleware'));
const others = memorySubjects.filter(
  (subject) => !ours.includes(subject) && !middleware.includes(subject) && subject !== LISTENED,
);
/** The subjects that decide. */
const peers = others.filter((subject) => !subject.endsWith('alone'));

/** Decisions in memory, and the size of a key. */
export const memory: Part = {
  name: 'memory',
  async run(bench) {
    const sections: Section[] = [];
    for (const { keys, limit } of sizes) {
      const rigs = await bench.startAll('memory', memorySubjects, (subject) => ({ subject, keys, limit }));
      const bytes = new Map<MemorySubject, { bytes: number; pause: number }>();
      for (const [subject, rig] of rigs) {
        bytes.set(subject, await rig.fill());
        await rig.round(DECISIONS);
      }
      const results = await bench.sample(`memory, ${count(keys)} keys`, memorySubjects, (subject) =>
        rigs.get(subject)!.round(DECISIONS),
      );
      await endAll(rigs);

      const ns = (subject: MemorySubject) => results.get(subject)!.ns.median;
      const of = (some: readonly MemorySubject[]) =>
        new Map(some.map((subject) => [subject, results.get(subject)!] as const));
      const ratioTo = (peer: MemorySubject) =>
        ['ratio', (_: unknown, subject: MemorySubject) => fixed(ns(peer) / ns(subject), 2)] as const;
      const nsOf = (some: readonly MemorySubject[]) =>
        Object.fromEntries(some.map((subject) => [subject, results.get(subject)!.ns]));
      const fastest = peers.reduce((a, b) => (ns(a) <= ns(b) ? a : b));
      const million = keys === 1_000_000;
      const times = million ? 3 : 1;
      const bars: Bar[] = ours.flatMap((subject) => {
        const what = `${subject}, ${count(keys)} keys`;
        const taken = bytes.get(subject)!.bytes;
        return [
          atLeast(`${what}: >= ${times}x the fastest peer (${fastest})`, ns(fastest), ns(subject), times),
          ...(million ? [barOf(`${what}: <= 60 bytes a key`, fixed(taken, 1), taken <= 60)] : []),
        ];
      });
      const ofBytes = (title: string, figure: 'bytes' | 'pause', digits: number) =>
        [title, (_: unknown, subject: MemorySubject) => fixed(bytes.get(subject)![figure], digits)] as const;
      const title = `In memory, ${count(keys)} ${keys === 1 ? 'key' : 'keys'}`;
      sections.push(
        tableOf(
          title,
          of([...ours, LISTENED as MemorySubject, ...others]),
          [
            ...[spreads('ns per decision', 'ns', 0), ratioTo(fastest)],
            ...(million
              ? [ofBytes('bytes a key', 'bytes', 0), ofBytes('longest pause while filling, ms', 'pause', 1)]
              : []),
          ],
          { bars, data: { keys, limit, ns: nsOf(memorySubjects), memory: Object.fromEntries(bytes) } },
        ),
      );
      const [own, peer] = middleware as [MemorySubject, MemorySubject];
      sections.push(
        tableOf(
          `${title}, whole Express middleware`,
          of(middleware),
          [spreads('ns per request', 'ns', 0), ratioTo(peer)],
          {
            note: 'From the request to the next middleware: key, decision, header fields of draft 6.',
            bars: [atLeast('faster than the peer', ns(peer), ns(own), 1)],
            data: { keys, limit, ns: nsOf(middleware) },
          },
        ),
      );
    }
    return sections;
  },
};
