import { costAt, type Costs } from '../../contract/costs.js';
import { clientChangeOf, parseRecord, type AppliedOverrides } from '../../contract/overrides.js';
import type { Reply } from '../../contract/reply.js';
import type { PolicySet } from '../../contract/store.js';
import { admits, NEVER } from '../../contract/verdicts.js';
import type { Next, Place } from './place.js';

/** The policies of a key with a record. @param record the key's own record @param all the record of all keys */
export function overriddenBy(
  record: string,
  all: string,
  set: PolicySet,
  now: number,
): Pick<Place, 'record' | 'entry' | 'policies' | 'next'> {
  if (record === '' && all === '') return { record, entry: undefined, policies: set.policies };
  const entry = parseRecord(record).now(now);
  const overrides = parseRecord(all === '' ? record : `${record}\n${all}`);
  const entriesAt = (time: number) => overrides.entries(set.policies, time);
  const ends = (time: number) => entriesAt(time).map((entry) => entry?.until ?? Infinity);
  const policies = (time: number) => overrides.policies(set.policies, entriesAt(time));
  const next = ends(now).some(Number.isFinite) ? { ends, policies } : undefined;
  return { record, entry, policies: policies(now), next };
}

/** The changes that the caller must apply before a decision is possible: see `Reply.clientChanges`. */
export function clientChanges(places: readonly Place[], applied: AppliedOverrides): Reply['clientChanges'] {
  let differ = false;
  const changes: Record<string, string> = {};
  for (const { part, entry } of places) {
    if (part.set.policies.length === 0) continue;
    const revision = entry?.revision ?? '';
    if (revision !== (applied.revisions[part.name] ?? '')) differ = true;
    changes[part.name] = clientChangeOf(entry);
  }
  return differ ? changes : undefined;
}

/**
 * Limits the waits in the columns of a place to the ends of the denying overrides, unless the next limits deny, too.
 *
 * @param next the limits that follow
 */
export function waitAcross(place: Place, next: Next, costs: Costs, now: number): void {
  for (const [i, column] of place.columns.entries()) {
    const { wait, remaining, reset } = column;
    if (admits(wait)) continue;
    column.wait = waitOf(place, next, i, costAt(costs, i), now);
    column.remaining = remaining;
    column.reset = reset;
  }
}

/** The time for which a policy denies a cost. Its column has the wait by the override in force. */
function waitOf({ columns, row }: Place, next: Next, i: number, cost: number, now: number): number {
  const column = columns[i]!;
  for (let time = now; ;) {
    const { wait } = column;
    const end = next.ends(time)[i]!;
    if (end === Infinity && wait === NEVER) return NEVER;
    if (wait !== NEVER && time + wait < end) return time + wait - now;
    time = end;
    column.look(row, next.policies(end)[i]!.params, cost, end, false);
    if (admits(column.wait)) return end - now;
  }
}
