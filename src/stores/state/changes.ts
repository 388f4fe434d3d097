import { SlotColumn, type Column } from '../../algorithms/index.js';
import type { ChangeReply } from '../../contract/reply.js';
import { holdsSlots, type Change, type LeaseChange, type Subject } from '../../contract/store.js';
import { bannedOf, columnsOf, look, NO_COSTS, noteDenial, verdictsOf } from './evaluate.js';
import type { Place } from './place.js';
import type { History } from './returns.js';
import { adjustShares } from './shares.js';
import { cross, NO_MARK } from './thresholds.js';

/** The store's answer to `adjust`. */
export function adjust(places: readonly Place[], change: Change, now: number, step: number): ChangeReply {
  const { key: keys, units, charged } = change;
  const done: number[] = [];
  for (const place of places) {
    const { part, policies, returns } = place;
    const { at } = part;
    const key = part.keyOf(keys);
    if (place.row === 0 && at.some((n) => units[n]! > 0)) place.create(now, false);
    const { columns, row } = place;
    columns.forEach((column, i) => {
      const { id, life, params, thresholds, traits } = policies[i]!;
      const n = at[i]!;
      const of = units[n]! < 0 ? charged : undefined;
      const from = of?.steps?.[n] ?? of?.step ?? 0;
      const history = of && returns.find(id, key);
      done[n] = 0;
      if (row === 0 || units[n] === 0 || history?.isReset(from)) {
        column.look(row, params, 0, now, false);
        return;
      }
      const shift = history ? history.shift(from) : 0;
      const returned = of && { mark: of.marks[n]!, at: Math.floor(from / 1000), shift };
      const longest = lifeOf(column, row, history, now, life);
      if (thresholds) column.look(row, params, 0, now, false);
      const before = column.remaining;
      const amount = column.adjust(row, params, units[n]!, now, returned);
      if (of && traits.drains && amount > 0)
        returns.open(id, key, now, longest).note({ from, to: step, amount });
      if (units[n]! > 0) done[n] = amount;
      if (thresholds && done[n] > 0) cross(place, i, before, now);
    });
    if (row !== 0) noteDenial(place, now);
  }
  adjustShares(places, change, now, step);
  return { now, step, ban: 0, verdicts: verdictsOf(columnsOf(places)), charged: done };
}

/** The store's answer to `lease`. */
export function lease(places: readonly Place[], { lease, action }: LeaseChange, now: number): boolean {
  let held = true;
  for (const place of places) {
    const { policies, columns, row } = place;
    if (!holdsSlots(place.part.set)) continue;
    if (row === 0) held = false;
    else {
      for (const [i, column] of columns.entries())
        if (column instanceof SlotColumn && !column[action](row, policies[i]!.params, lease, now))
          held = false;
      look(place, NO_COSTS, now, false);
      noteDenial(place, now);
    }
  }
  return held;
}

/** The operation `reset` of a store. */
export function reset(places: readonly Place[], { key }: Subject, now: number, step: number): void {
  for (const { part, columns, row, returns, marks } of places) {
    const its = part.keyOf(key);
    part.set.policies.forEach(({ id, life, thresholds }, i) => {
      const longest = lifeOf(columns[i]!, row, returns.find(id, its), now, life);
      returns.open(id, its, now, longest).reset(step);
      if (row !== 0) columns[i]!.clear(row);
      if (thresholds) marks.write(id, NO_MARK);
    });
  }
}

/** The time for which charges of a key count, ms. A charge made under an override may count for longer than `life`. */
function lifeOf(
  column: Column,
  row: number,
  history: History | undefined,
  now: number,
  life: number,
): number {
  return Math.max(life, column.until(row) - now, (history?.until ?? 0) - now);
}

/** The operation `ban` of a store. */
export function ban(places: readonly Place[], duration: number, now: number): void {
  const place = bannedOf(places);
  if (place.row === 0 && duration > 0) place.create(now, true);
  if (place.row !== 0) place.bans.set(place.row, place.part.set.ban!, now, duration);
}
