import type { Bench, Part, Section } from '../lib/part.js';
import { ratioBar } from '../lib/part.js';
import { count, fixed, spread } from '../lib/report.js';
import { summarize } from '../lib/stats.js';
import type { Denied, MemorySubject } from '../rigs/memory.js';

const subjects: readonly MemorySubject[] = [
  'headgate sliding-window (default)',
  'headgate fixed-window',
  'headgate gcra',
];
const kinds: readonly Denied[] = ['none', 'half', 'all'];
const DECISIONS = 200_000;
const SECOND = 1000;
const MINUTE = 60_000;

/** In memory, through `consume`: what admissions and denials cost, and what a key takes. */
export const denials: Part = {
  name: 'denials',
  async run(bench) {
    const sections: Section[] = [];
    for (const [keys, limit, window] of [
      [1, 100_000, MINUTE],
      [10_000, 100_000, SECOND],
      [10_000, 100_000, MINUTE],
      [10_000, 100, MINUTE],
      [1_000_000, 100, MINUTE],
    ] as const) {
      sections.push(await measure(bench, keys, limit, window));
    }
    return sections;
  },
};

async function measure(bench: Bench, keys: number, limit: number, window: number): Promise<Section> {
  const title = `In memory: ${count(limit)} a ${window === SECOND ? 'second' : 'minute'}, ${count(keys)} key${keys === 1 ? '' : 's'}`;
  const rigs = new Map(
    await Promise.all(
      subjects.map(
        async (subject) => [subject, await bench.start('memory', { subject, keys, limit, window })] as const,
      ),
    ),
  );
  const bytes = new Map<MemorySubject, number>();
  for (const [subject, rig] of rigs) {
    bytes.set(subject, (await rig.fill()).bytes);
    for (const denied of kinds) await rig.round(DECISIONS, denied);
  }
  const cells = subjects.flatMap((subject) => kinds.map((denied) => ({ subject, denied })));
  const rounds = await bench.interleave(title, cells, ({ subject, denied }) =>
    rigs.get(subject)!.round(DECISIONS, denied),
  );
  await Promise.all([...rigs.values()].map((rig) => rig.end()));
  const results = new Map([...rounds].map(([cell, values]) => [cell, summarize(values).ns]));
  const ns = (subject: MemorySubject, denied: Denied) =>
    results.get(cells.find((cell) => cell.subject === subject && cell.denied === denied)!)!;
  // Of one key, its share of the table is all of it.
  const most = keys === 1 ? Infinity : keys < 1e6 ? 100 : 60;
  return {
    title,
    columns: ['ns per decision', 'admitted', 'half denied', 'denied', 'bytes a key'],
    rows: subjects.map((subject) => [
      subject,
      ...kinds.map((denied) => spread(ns(subject, denied), 0)),
      fixed(bytes.get(subject)!, 0),
    ]),
    bars: subjects.flatMap((subject) => [
      ratioBar(
        `${subject}: a denial costs no more than an admission`,
        ns(subject, 'all').median,
        ns(subject, 'none').median,
        1,
        true,
      ),
      {
        bar: `${subject}: <= ${most} bytes a key`,
        measured: fixed(bytes.get(subject)!, 0),
        pass: bytes.get(subject)! <= most,
      },
    ]),
    data: { keys, limit, window, ns: Object.fromEntries([...results.values()].entries()) },
  };
}
