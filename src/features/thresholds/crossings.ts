import type { CompiledPolicy } from '../../contract/policy.js';
import type { Crossing } from './contract/crossing.js';
import type { StreamOptions } from './contract/stream-options.js';
import { ownerText } from '../../stores/keys.js';
import type { PolicySet, Subject } from '../../contract/store.js';

/** The most crossings that a store keeps for readers, and the time for which it keeps them, ms. */
export const MAX_CROSSINGS = 100_000;
export const CROSSINGS_LIFE_MS = 30 * 86_400_000;

/** The tag of the marks of reported thresholds, by the policy's id. */
export const THRESHOLD_TAG = 'T1:';

/** The tags of the marks of a policy. */
export function marksOf({ id, thresholds }: CompiledPolicy): readonly string[] {
  return thresholds ? [THRESHOLD_TAG + id] : [];
}

export function hasThresholds({ policies }: PolicySet): boolean {
  return policies.some(({ thresholds }) => thresholds !== undefined);
}

/** A crossing in the stream of a store. */
export interface StoredCrossing extends Omit<Crossing, 'at'> {
  /** The owner text of the key: see `ownerText`. */
  readonly who: string;
  /** The name of the policy. */
  readonly policy: string;
  /** The time of the charge, ms since 1970. */
  readonly at: number;
}

export interface ReadCrossing extends StoredCrossing {
  readonly id: string;
}

export interface CrossingSource {
  /** The crossings that a group of readers gets now. @param idle the time until the group gets the crossings again, ms */
  read(group: string, most: number, idle: number): Promise<readonly ReadCrossing[]>;
  ack(group: string, ids: readonly string[]): Promise<void>;
}

export function storedCrossing(
  { set, key }: Subject,
  { at, ...rest }: Crossing,
  now: number,
): StoredCrossing {
  const { name, by } = set.policies[at]!;
  return { who: ownerText(set, key, by), policy: name, ...rest, at: now };
}

/** A change of a state with its crossings as a store keeps them, if it does. @param named renames their owners */
export function keptCrossings<T extends { readonly crossings?: readonly StoredCrossing[] }>(
  { crossings, ...change }: T,
  { thresholds }: StreamOptions,
  named: (crossings: readonly StoredCrossing[]) => readonly StoredCrossing[],
): Omit<T, 'crossings'> & Pick<T, 'crossings'> {
  return { ...change, ...(crossings && thresholds && { crossings: named(crossings) }) };
}

/** A bounded list of crossings in memory, with its groups of readers. */
export class CrossingList {
  #last = 0;
  #entries: (ReadCrossing & { readonly number: number })[] = [];
  /** For each group the last number that it has read, and the times at which unacknowledged numbers are read again. */
  readonly #groups = new Map<string, { last: number; readonly pending: Map<number, number> }>();

  add(crossing: StoredCrossing): void {
    const number = ++this.#last;
    this.#entries.push({ id: String(number), number, ...crossing });
    // Cuts rarely, because each cut moves all entries.
    if (this.#entries.length >= 2 * MAX_CROSSINGS) this.#entries.splice(0, MAX_CROSSINGS);
  }

  read(name: string, most: number, idle: number, now: number): ReadCrossing[] {
    let group = this.#groups.get(name);
    if (!group) this.#groups.set(name, (group = { last: 0, pending: new Map() }));
    const { last, pending } = group;
    const isDue = (number: number): boolean => number > last || (pending.get(number) ?? Infinity) <= now;
    const read = this.#entries.filter(({ number }) => isDue(number)).slice(0, most);
    for (const { number } of read) {
      pending.set(number, now + idle);
      group.last = Math.max(group.last, number);
    }
    return read.map(({ number: _, ...entry }) => entry);
  }

  ack(name: string, ids: readonly string[]): void {
    for (const id of ids) this.#groups.get(name)?.pending.delete(Number(id));
  }
}

/** The crossings of a memory store. @param list undefined if the store keeps none */
export function crossingsIn(list: CrossingList | undefined, now: () => number): CrossingSource {
  return {
    read: (group, most, idle) => Promise.resolve(list?.read(group, most, idle, now()) ?? []),
    ack: (group, ids) => Promise.resolve(list?.ack(group, ids)),
  };
}
