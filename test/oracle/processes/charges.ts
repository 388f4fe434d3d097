// The charges that records prove. Of a call without an answer, both outcomes are possible.
import { isCharged, type Entry } from './record.js';

/** An admitted request and one policy's units of it. */
export interface Charge {
  readonly entry: Entry;
  readonly policy: string;
  readonly key: string;
  readonly limit: number;
  /** The units that it keeps at least, and at most. */
  readonly least: number;
  readonly most: number;
}

/** The calls that change a decision's charge, by process and decision. */
export function followUps(entries: readonly Entry[]): ReadonlyMap<string, readonly Entry[]> {
  const calls = new Map<string, Entry[]>();
  for (const entry of entries) {
    if (entry.of === undefined || entry.error) continue;
    const id = `${entry.process} ${entry.of}`;
    calls.set(id, [...(calls.get(id) ?? []), entry]);
  }
  return calls;
}

/** The units that the last change left. Only the first of several changes may have an effect, so all of them are possible. */
function kept(cost: number, changes: readonly Entry[]): { least: number; most: number } {
  const counted = changes.filter(({ call }) => call === 'settle' || call === 'refund' || call === 'cancel');
  const ends = counted.map(({ units = 0 }) => units);
  const isSure = counted.some(({ after }) => after < Infinity);
  const most = isSure ? Math.max(...ends) : Math.max(cost, ...ends);
  return { least: Math.min(cost, ...ends), most };
}

/** The charges of admitted requests. Repetitions of ids have none. */
export function chargesOf(entries: readonly Entry[]): Charge[] {
  const changes = followUps(entries);
  const settledIds = new Set(
    entries.flatMap((entry) => {
      if (entry.call !== 'settle') return [];
      const made = entries.find(({ process, n }) => process === entry.process && n === entry.of);
      return made?.id === undefined ? [] : [made.id];
    }),
  );
  return entries.flatMap((entry) => {
    const { answer, process, n, id } = entry;
    if (!isCharged(entry)) return [];
    return answer!.policies.flatMap(({ name, key, limit, allowed }) => {
      // A shadow charges only what it would admit.
      if (!allowed) return [];
      const cost = answer!.costs[name] ?? 0;
      const units = kept(cost, changes.get(`${process} ${n}`) ?? []);
      // Any process may settle a request with an id, also by a decision that returns nothing after an override ended.
      const least = id !== undefined && settledIds.has(id) ? Math.min(1, cost) : units.least;
      const most = id !== undefined ? cost : units.most;
      return [{ entry, policy: name, key, limit, least: Math.min(least, cost), most }];
    });
  });
}
