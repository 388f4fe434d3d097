import { atMost, barOf, endAll, tableOf, type Bench, type Part, type Section } from '../lib/part.js';
import { BUCKET, DEFAULT, FIXED, MINUTE, SECOND } from '../lib/redis-rigs.js';
import { count, fixed, spread } from '../lib/figures.js';
import type { Denied, MemorySubject } from '../rigs/memory.js';

const subjects = [DEFAULT, FIXED, BUCKET] as readonly MemorySubject[];
const kinds: readonly Denied[] = ['none', 'half', 'all'];
const DECISIONS = 200_000;

/** The cost of admissions and denials in memory, through `consume`, and the size of a key. */
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
  const rigs = await bench.startAll('memory', subjects, (subject) => ({ subject, keys, limit, window }));
  const bytes = new Map<MemorySubject, number>();
  for (const [subject, rig] of rigs) {
    bytes.set(subject, (await rig.fill()).bytes);
    for (const denied of kinds) await rig.round(DECISIONS, denied);
  }
  const cells = subjects.flatMap((subject) => kinds.map((denied) => ({ subject, denied })));
  const results = await bench.sample(title, cells, ({ subject, denied }) =>
    rigs.get(subject)!.round(DECISIONS, denied),
  );
  await endAll(rigs);
  const ns = (subject: MemorySubject, denied: Denied) =>
    results.get(cells.find((cell) => cell.subject === subject && cell.denied === denied)!)!.ns;
  const column = (name: string, denied: Denied) =>
    [name, (_: unknown, subject: MemorySubject) => spread(ns(subject, denied), 0)] as const;
  // A single key has the whole table as its share.
  const most = keys === 1 ? Infinity : keys < 1e6 ? 100 : 60;
  const table = tableOf(title, bytes, [
    ...[column('admitted', 'none'), column('half denied', 'half'), column('denied', 'all')],
    ['bytes a key', (taken) => fixed(taken, 0)],
  ]);
  return {
    ...table,
    columns: ['ns per decision', ...table.columns.slice(1)],
    bars: [...bytes].flatMap(([subject, taken]) => {
      const [all, none] = [ns(subject, 'all').median, ns(subject, 'none').median];
      return [
        atMost(`${subject}: a denial costs no more than an admission`, all, none, 1),
        barOf(`${subject}: <= ${most} bytes a key`, fixed(taken, 0), taken <= most),
      ];
    }),
    data: { keys, limit, window, ns: [...results.values()].map(({ ns }) => ns) },
  };
}
