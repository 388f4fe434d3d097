import { randomBytes } from 'node:crypto';
import { SlotColumn } from '../../algorithms/index.js';
import { invalidOption } from '../../common/errors.js';
import { lazy } from '../../common/lazy.js';
import { costAt } from '../../contract/costs.js';
import {
  holdsSlots,
  type LeaseChange,
  type PolicySet,
  type Query,
  type Subject,
} from '../../contract/store.js';
import type { Feature, Place } from '../feature.js';
import { text } from '../layout.js';
import { leaseTag } from '../shares/shares.js';

/** Names the slots that a request takes, for the column that holds them. */
export const slots: Feature = {
  name: 'slots',
  appliesTo: holdsSlots,
  isInLooks: true,
  scripts: ['lease'],
  requestArgs: { lease: text((query: Query) => query.lease || leaseTag(query)) },
  charges({ columns, policies }, i, { lease }) {
    if (policies[i]!.traits.holdsSlots) (columns[i] as SlotColumn).lease = lease;
  },
  // A slot may be released at any time.
  remembered: (_set, _reply, isRefused) => (isRefused ? Infinity : 0),
};

/** The first part of the names of this process' slots. A number follows. */
const leasePrefix = lazy(() => randomBytes(9).toString('base64url'));
let leases = 0;

/** A new name for the slots of a request. */
export const newLease = (subject: Subject): string =>
  `${leasePrefix()}${(leases++).toString(36)}${leaseTag(subject)}`;

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` if no policy of a set has slots */
export function checkHoldsSlots(set: PolicySet): void {
  if (holdsSlots(set)) return;
  throw invalidOption('algorithm', undefined, "Make the limiter with a policy of algorithm 'concurrency'.");
}

/** Gives back the slots that a query took. */
export function releaseOf({ set, key, cost, costs, lease }: Query): LeaseChange {
  return { set, key, cost, costs, lease, action: 'release', degraded: undefined };
}

/** Changes the slots of a lease at a place. @returns false if some of them are not held */
export function changeLease(place: Place, change: LeaseChange, now: number): boolean {
  const { lease, action } = change;
  if (place.row === 0 && action === 'hold') place.create(now, false);
  const { part, policies, columns, row } = place;
  let held = row !== 0;
  if (!held) return false;
  for (const [i, column] of columns.entries()) {
    if (!(column instanceof SlotColumn)) continue;
    const slots = { lease, units: costAt(change, part.at[i]!) };
    if (!column[action](row, policies[i]!.params, slots, now)) held = false;
  }
  return held;
}
