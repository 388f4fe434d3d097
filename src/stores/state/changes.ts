import { NO_COSTS } from '../../contract/costs.js';
import { replyWith, type ChangeReply } from '../../contract/reply.js';
import { holdsSlots, type ChargeChange, type LeaseChange, type Subject } from '../../contract/store.js';
import { featuresOf, kindOfChange } from '../../features/features.js';
import { columnsOf, look, noteDenial, verdictsOf } from './evaluate.js';
import type { Place } from '../../features/feature.js';
import { changeLease } from '../../features/slots/slots.js';
import type { History } from '../../features/charge-history.js';
import { adjustShares } from '../../features/shares/place-shares.js';

export function adjust(
  places: readonly Place[],
  asked: ChargeChange,
  now: number,
  step: number,
): ChangeReply {
  const features = featuresOf(asked.set, kindOfChange(asked));
  const isVoid = features.some(({ mayChange }) => mayChange?.(places, asked, now) === false);
  const change = isVoid ? { ...asked, units: asked.units.map(() => 0) } : asked;
  const { key: keys, units, charged } = change;
  const done: number[] = [];
  for (const place of places) {
    const { part, policies, histories, features } = place;
    const { at } = part;
    const isWatched = features.some(({ charged }) => charged);
    const key = part.keyOf(keys);
    if (place.row === 0 && at.some((n) => units[n]! > 0)) place.create(now, false);
    const { columns, row } = place;
    columns.forEach((column, i) => {
      const { id, life, params, traits } = policies[i]!;
      const n = at[i]!;
      const of = units[n]! < 0 ? charged : undefined;
      const from = of?.steps?.[n] ?? of?.step ?? 0;
      const history = of && histories.find(id, key);
      done[n] = 0;
      if (row === 0 || units[n] === 0 || history?.isReset(from)) {
        column.look(row, params, 0, now);
        return;
      }
      const shift = history ? history.shift(from) : 0;
      const returned = of && { mark: of.marks[n]!, at: Math.floor(from / 1000), shift };
      const longest = lifeOf(column.until(row), history, now, life);
      if (isWatched) column.look(row, params, 0, now);
      const before = column.remaining;
      const amount = column.adjust(row, params, { units: units[n]!, now, of: returned });
      if (of && traits.drains && amount > 0)
        histories.open(id, key, now, longest).note({ from, to: step, amount });
      if (units[n]! > 0) done[n] = amount;
      if (done[n] > 0) for (const feature of features) feature.charged?.(place, i, before, now);
    });
    if (row !== 0) noteDenial(place, now);
  }
  adjustShares(places, change, now, step);
  return { ...replyWith(verdictsOf(columnsOf(places)), now, step), charged: done };
}

export function lease(places: readonly Place[], change: LeaseChange, now: number): boolean {
  let held = true;
  for (const place of places) {
    if (!holdsSlots(place.part.set)) continue;
    if (!changeLease(place, change, now)) held = false;
    if (place.row === 0) continue;
    look(place, NO_COSTS, now, false);
    noteDenial(place, now);
  }
  return held;
}

export function reset(places: readonly Place[], { key }: Subject, now: number, step: number): void {
  for (const place of places) {
    const { part, columns, row, histories, features } = place;
    const its = part.keyOf(key);
    part.set.policies.forEach(({ id, life }, i) => {
      const longest = lifeOf(columns[i]!.until(row), histories.find(id, its), now, life);
      histories.open(id, its, now, longest).reset(step);
      if (row !== 0) columns[i]!.clear(row);
    });
    for (const feature of features) feature.reset?.(place);
  }
}

/** The time for which charges of a key count, ms. A charge made under another limit may count for longer than `life`. @param until the end of its state */
function lifeOf(until: number, history: History | undefined, now: number, life: number): number {
  return Math.max(life, until - now, (history?.until ?? 0) - now);
}
