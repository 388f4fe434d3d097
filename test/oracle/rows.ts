// A covering array: each row is a set of features, and every triple of drawn features that options accept is in a row.
import { FEATURE_NAMES, REFUSALS, type FeatureName, type Refusal } from '../../src/contract/together.js';

/** Features that need real time, a cluster or several processes. Other tests cover them. */
const NOT_DRAWN: readonly FeatureName[] = [
  ...(['thresholds as a stream', 'localDenials', 'acrossSlots', 'slotBy'] as const),
];

const DRAWN = FEATURE_NAMES.filter((name) => !NOT_DRAWN.includes(name));

/** Features that a row has beside the chosen ones, because they need them. */
const NEEDS: Partial<Record<FeatureName, readonly FeatureName[]>> = {
  dimensions: ['several policies'],
  'shares of units': ['sliding-window'],
  'shares of slots': ['concurrency'],
  maxDelay: ['leaky-bucket'],
  'fresh bans': ['bans by denials'],
  'overrides of a dimension': ['dimensions', 'several policies'],
  'overrides by tier': ['tiers'],
};

/** So few features in a row that traces of a limiter use each of them several times. */
const CHOSEN = 9;
/** With more policies, nearly every request is denied by the same one. */
const MAX_POLICIES = 3;
const CANDIDATES = 30;

export type Row = ReadonlySet<FeatureName>;

const MODES = FEATURE_NAMES.filter((name) => name.startsWith('onStoreError'));

/** Pairs that do not go together in a limiter. */
const apart = new Set(
  [
    ...Object.values(REFUSALS as Record<string, Refusal>)
      .filter(({ within }) => within === 'limiter')
      .flatMap(({ features, beside }) => features.flatMap((a) => beside.map((b) => [a, b] as const))),
    ...MODES.flatMap((a) => MODES.filter((b) => a !== b).map((b) => [a, b] as const)),
  ].flatMap(([a, b]) => [`${a} ${b}`, `${b} ${a}`]),
);

/** The row with another feature and its needs, or undefined if they do not go together. */
function extended(row: Row, name: FeatureName): Row | undefined {
  const added = [name, ...(NEEDS[name] ?? [])];
  const whole = new Set([...row, ...added]);
  const isRefused = added.some((a) => [...whole].some((b) => apart.has(`${a} ${b}`)));
  const algorithms = [...whole].filter((each) => FEATURE_NAMES.indexOf(each) < 8).length;
  return isRefused || algorithms > MAX_POLICIES ? undefined : whole;
}

const PLACES = new Map<FeatureName, number>(DRAWN.map((name, i) => [name, i]));
const SIZE = DRAWN.length;

/** The triples of a row as numbers, which are faster than texts. */
export function triplesOf(row: Iterable<FeatureName>): number[] {
  const places = [...new Set(row)].flatMap((name) => PLACES.get(name) ?? []).sort((a, b) => a - b);
  const triples: number[] = [];
  for (let a = 0; a < places.length; a++)
    for (let b = a + 1; b < places.length; b++)
      for (let c = b + 1; c < places.length; c++)
        triples.push((places[a]! * SIZE + places[b]!) * SIZE + places[c]!);
  return triples;
}

const namesOf = (triple: number): FeatureName[] =>
  [Math.floor(triple / SIZE / SIZE), Math.floor(triple / SIZE) % SIZE, triple % SIZE].map((i) => DRAWN[i]!);

/** The row of a triple, or undefined if options refuse it. */
const rowOf = (triple: number): Row | undefined =>
  namesOf(triple).reduce<Row | undefined>((row, name) => row && extended(row, name), new Set<FeatureName>());

/** The triples that options accept. */
export const TRIPLES: ReadonlySet<number> = new Set(triplesOf(DRAWN).filter(rowOf));

/** Triples as text. */
export const textOf = (triple: number): string => namesOf(triple).join(' + ');

/** Rows that hold every triple. The same ones in each run. */
export function coveringRows(): Row[] {
  const left = new Set(TRIPLES);
  const random = generator(1);
  const rows: Row[] = [];
  while (left.size > 0) {
    const [first] = left;
    const start = rowOf(first!)!;
    let best = { row: start, gain: 0 };
    for (let i = 0; i < CANDIDATES; i++) {
      let row = start;
      const others = shuffled(DRAWN, random);
      for (const name of others) if (row.size < CHOSEN + 3) row = extended(row, name) ?? row;
      const gain = triplesOf(row).filter((triple) => left.has(triple)).length;
      if (gain > best.gain) best = { row, gain };
    }
    rows.push(best.row);
    for (const triple of triplesOf(best.row)) left.delete(triple);
  }
  return rows;
}

/** A row for a store without slices, whose sites would need great limits for nothing. */
export const withoutSlices = (row: Row): Row => new Set([...row].filter((name) => name !== 'slices'));

/** Numbers from 0 to 1 by a seed. */
export function generator(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export function shuffled<T>(list: readonly T[], random: () => number): T[] {
  return list
    .map((item) => [random(), item] as const)
    .sort(([a], [b]) => a - b)
    .map(([, item]) => item);
}
