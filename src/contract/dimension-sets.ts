import { DEFAULT_DIMENSION } from './key.js';
import { limitDimension } from '../features/shares/contract/shares.js';
import type { ChangeReply } from './reply.js';
import type { Dimensions, Keys, PolicySet, Subject } from './policy-set.js';
import { isNothing, type ChargeChange } from './store.js';
import { factOf, known, originOf, variant } from './variant.js';
import { addVerdict, remainingOf, resetOf, waitOf, type Verdicts } from './verdicts.js';

/** The part of a set that counts by a single dimension. */
export interface DimensionSet {
  readonly name: string;
  readonly set: PolicySet;
  /** The positions of the part's policies in the whole set. */
  readonly at: readonly number[];
  /** Separates the part's keys from the keys of other dimensions. */
  readonly scope: string;
  /** Picks the part's key from the keys of the whole set. */
  keyOf(keys: Keys): string;
}

/** The parts of a set: one for each dimension with a policy or the ban. Most sets have a single part, the set itself. */
export const setsByDimension = factOf((set): readonly DimensionSet[] => {
  const { names = [DEFAULT_DIMENSION], slotBy } = set.dimensions ?? {};
  const slotAt = slotBy === undefined ? -1 : names.indexOf(slotBy);
  const parts = names.map((name, i): DimensionSet => {
    const part = select(set, 1 << i);
    const limitAt = names.indexOf(limitDimension(name) ?? '');
    const keyOf = (keys: Keys): string => {
      if (typeof keys === 'string') return keys;
      if (limitAt >= 0) return `${keys[limitAt]!.length}:${keys[limitAt]}${keys[i]}`;
      if (slotBy === undefined || i === slotAt) return keys[i]!;
      // The length in front keeps two different pairs of keys from forming the same text.
      const slot = slotAt < 0 ? '' : `${keys[slotAt]!.length}:${keys[slotAt]}`;
      return `${slot}:${keys[i]}`;
    };
    const isOf = ({ by }: { by: string }): boolean => part === set || by === name;
    const at = [...set.policies.keys()].filter((n) => isOf(set.policies[n]!));
    const scope = slotBy === undefined || slotBy === name ? name : `${slotBy}/${name}`;
    return { name, set: part, at, scope, keyOf };
  });
  const used = parts.filter(({ set: part }) => !isNothing(part));
  return used.length > 0 ? used : parts.slice(0, 1);
});

/**
 * The part of a set that counts by some of its dimensions. Repeated calls return the same object, even for a part of a part.
 *
 * @param bits a set bit for each selected dimension
 */
export function select(set: PolicySet, bits: number): PolicySet {
  const { dimensions } = set;
  if (!dimensions || bits === 2 ** dimensions.names.length - 1) return set;
  return known(set, 'part', bits) ?? selected(set, dimensions, bits);
}

function selected(set: PolicySet, dimensions: Dimensions, bits: number): PolicySet {
  const names = dimensions.names.filter((_, i) => (bits & (1 << i)) !== 0);
  const whole = originOf(set, 'part');
  if (whole) return select(whole, bitsOf(whole, names));
  return variant(set, 'part', () => restricted(set, dimensions, names), bits);
}

/** The fields of a part that counts by some dimensions. */
function restricted(set: PolicySet, dimensions: Dimensions, names: readonly string[]): Partial<PolicySet> {
  const isPlain = dimensions.slotBy === undefined && names.every((name) => name === DEFAULT_DIMENSION);
  return {
    policies: set.policies.filter(({ by }) => names.includes(by)),
    ban: names.includes(dimensions.banBy) ? set.ban : undefined,
    dimensions: isPlain ? undefined : { ...dimensions, names },
  };
}

function bitsOf({ dimensions }: PolicySet, names: readonly string[]): number {
  return names.reduce((bits, name) => bits | (1 << dimensions!.names.indexOf(name)), 0);
}

/**
 * The policies of a set whose keys lie in the slot of another key. Only policies by `slotBy` itself are omitted; their key still names the
 * slot.
 */
export const withinSlot = (set: PolicySet): PolicySet => variant(set, 'within slot', besideSlot);

function besideSlot({ policies, dimensions }: PolicySet): Partial<PolicySet> | undefined {
  const slotBy = dimensions?.slotBy;
  return slotBy === undefined ? undefined : { policies: policies.filter(({ by }) => by !== slotBy) };
}

/**
 * Texts that differ for any two keys, even if the keys have different dimensions.
 *
 * @param counts whether a key counts, by the part of the set for its dimension. @default every key counts
 */
export function idsOf({ set, key }: Subject, counts = (_: PolicySet): boolean => true): string[] {
  const parts = setsByDimension(set).filter(({ set: part }) => counts(part));
  return parts.map(({ scope, keyOf }) => scopedKey(scope, keyOf(key)));
}

/** A key of the default dimension is used unchanged. Other keys begin with a NUL character. */
function scopedKey(scope: string, key: string): string {
  if (scope !== DEFAULT_DIMENSION) return `\0${scope}\0${key}`;
  return key.startsWith('\0') ? `\0${key}` : key;
}

/** The scope and the key of an id: see {@link idsOf}. */
export function placeOfId(id: string): readonly [scope: string, key: string] {
  if (!id.startsWith('\0')) return [DEFAULT_DIMENSION, id];
  const end = id.indexOf('\0', 1);
  return end === 1 ? [DEFAULT_DIMENSION, id.slice(1)] : [id.slice(1, end), id.slice(end + 1)];
}

/** Joins several texts so that different texts always give different results. */
export function joined(ids: readonly string[]): string {
  return ids.length === 1 ? ids[0]! : `\0${JSON.stringify(ids)}`;
}

export function changeOf(change: ChargeChange, { set, at, keyOf }: DimensionSet): ChargeChange {
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

export function verdictsOfAll(parts: readonly DimensionSet[], each: readonly Verdicts[]): number[] {
  const all: number[] = [];
  for (const [part, i] of places(parts)) {
    const of = each[part]!;
    addVerdict(all, waitOf(of, i), remainingOf(of, i), resetOf(of, i));
  }
  return all;
}

export function chargedByAll(parts: readonly DimensionSet[], replies: readonly ChangeReply[]): number[] {
  return places(parts).map(([part, i]) => replies[part]!.charged[i]!);
}

/** For each policy of the whole set, the index of its part, and the policy's index in the part. */
function places(parts: readonly DimensionSet[]): [part: number, i: number][] {
  const all: [number, number][] = [];
  parts.forEach(({ at }, part) => at.forEach((n, i) => (all[n] = [part, i])));
  return all;
}
