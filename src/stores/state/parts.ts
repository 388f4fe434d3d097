import { DEFAULT_DIMENSION } from '../../contract/key.js';
import { select } from '../../contract/dimensions.js';
import { perSet, type Change, type ChangeReply, type Keys, type PolicySet } from '../../contract/store.js';
import { addVerdict, remainingOf, resetOf, waitOf, type Verdicts } from '../../contract/verdicts.js';

/** The part of a set that is by one dimension. */
export interface Part {
  /** The dimension. */
  readonly name: string;
  readonly set: PolicySet;
  /** The positions of its policies among those of the whole set. */
  readonly at: readonly number[];
  /** Distinguishes its keys from those of other dimensions. */
  readonly scope: string;
  /** Picks its key from those of the whole set. */
  keyOf(keys: Keys): string;
}

/** The parts of a set: one for each dimension that has a policy or the ban. */
export const partsOf = perSet((set): readonly Part[] => {
  const { names = [DEFAULT_DIMENSION], slotBy } = set.dimensions ?? {};
  const slotAt = slotBy === undefined ? -1 : names.indexOf(slotBy);
  const parts = names.map((name, i): Part => {
    const part = select(set, 1 << i);
    const keyOf = (keys: Keys): string => {
      if (typeof keys === 'string') return keys;
      if (slotBy === undefined || i === slotAt) return keys[i]!;
      // The length in front keeps two different pairs of keys from giving the same text.
      const slot = slotAt < 0 ? '' : `${keys[slotAt]!.length}:${keys[slotAt]}`;
      return `${slot}:${keys[i]}`;
    };
    const at = set.policies.flatMap(({ by }, n) => (by === name ? [n] : []));
    return { name, set: part, at, scope: scopeOf(part), keyOf };
  });
  const used = parts.filter(({ set: part }) => part.policies.length > 0 || part.ban);
  return used.length > 0 ? used : parts.slice(0, 1);
});

/** Distinguishes the keys of a set of one dimension from those of other dimensions. */
export function scopeOf({ dimensions }: PolicySet): string {
  const { names = [], slotBy } = dimensions ?? {};
  const [name = DEFAULT_DIMENSION] = names;
  return slotBy === undefined || slotBy === name ? name : `${slotBy}/${name}`;
}

/** The part of a change that concerns one part of the set. */
export function changeOf(change: Change, { set, at, keyOf }: Part): Change {
  const { charged, units, key } = change;
  return {
    ...change,
    set,
    key: keyOf(key),
    units: at.map((i) => units[i]!),
    charged: charged && {
      step: charged.steps?.[at[0]!] ?? charged.step,
      marks: at.map((i) => charged.marks[i]!),
    },
  };
}

/** The verdicts of the whole set, from those of its parts. */
export function verdictsOfAll(parts: readonly Part[], each: readonly Verdicts[]): number[] {
  const all: number[] = [];
  for (const [part, i] of places(parts)) {
    const of = each[part]!;
    addVerdict(all, waitOf(of, i), remainingOf(of, i), resetOf(of, i));
  }
  return all;
}

/** The charges of the whole set, from those of its parts. */
export function chargedByAll(parts: readonly Part[], replies: readonly ChangeReply[]): number[] {
  return places(parts).map(([part, i]) => replies[part]!.charged[i]!);
}

/** For each policy of the whole set: the index of its part, and its own index there. */
function places(parts: readonly Part[]): [part: number, i: number][] {
  const all: [number, number][] = [];
  parts.forEach(({ at }, part) => at.forEach((n, i) => (all[n] = [part, i])));
  return all;
}
