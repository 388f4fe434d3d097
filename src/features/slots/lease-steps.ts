import { SlotColumn } from '../../algorithms/index.js';
import type { LeaseChange } from '../../contract/store.js';
import type { Place } from '../feature.js';

/** Releases or renews the slots of a lease at a place. @returns false if some of them were no longer held */
export function changeLease(
  { policies, columns, row }: Place,
  { lease, action }: LeaseChange,
  now: number,
): boolean {
  let held = row !== 0;
  if (!held) return false;
  for (const [i, column] of columns.entries())
    if (column instanceof SlotColumn && !column[action](row, policies[i]!.params, lease, now)) held = false;
  return held;
}
