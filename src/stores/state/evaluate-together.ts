import type { Column } from '../../algorithms/index.js';
import { holdsSlots } from '../../contract/policy.js';
import * as one from './evaluate.js';
import { changeOf, chargedByAll, verdictsOfAll, type Part } from './parts.js';
import type { Change, ChangeReply, LeaseChange, Query, Reply, Subject } from '../../contract/store.js';

/** The part of a set that is by one dimension, and where the state of its key is. */
export interface PlacedPart extends Part {
  readonly place: one.Place;
}

// The functions of `evaluate.ts` for a set with keys of several dimensions. All policies are charged, or none is.

/** The store's answer to `decide`. */
export function decide(parts: readonly PlacedPart[], query: Query, now: number, step: number): Reply {
  const { set, cost, peek, lease } = query;
  const banned = parts.find((part) => part.set.ban);
  const left = banned ? banned.place.bans.look(banned.place.row, set.ban!, now, !peek) : 0;
  if (left > 0) return { now, step, ban: left, verdicts: [] };

  const looks = parts.map((part) => lookAt(part, cost, now, !peek));
  const admitted = !looks.includes(false);
  let full: number | undefined;
  let struck = 0;
  if (peek) {
    if (admitted && cost > 0)
      full = roomFor(
        parts.filter(({ place }) => place.row === 0 && place.isFull(now)),
        now,
      );
  } else {
    for (const part of parts) if (writes(part, cost, admitted)) makeRoom(part, cost, now);
    if (admitted && cost > 0)
      full = roomFor(
        parts.filter(({ place }) => place.row === 0),
        now,
      );
    if (cost > 0 && !full) {
      // If a dimension's store is full, only the other dimensions limit the request.
      for (const { place, set: own } of parts)
        if (place.row !== 0) one.commit(place.columns, own, place.row, cost, now, lease, admitted);
    }
    if (!admitted && banned && banned.place.row !== 0)
      struck = banned.place.bans.strike(banned.place.row, set.ban!, now);
    for (const { place, set: own } of parts)
      if (place.row !== 0) place.deny(one.deniedUntil(place.columns, own, now));
  }
  const reply = { now, step, ban: struck === 0 ? 0 : -struck, verdicts: one.verdictsOf(columnsOf(parts)) };
  return full === undefined ? reply : { ...reply, full };
}

function lookAt({ place, set }: PlacedPart, cost: number, now: number, writable: boolean): boolean {
  return one.look(place.columns, set, place.row, cost, now, writable);
}

/** Whether a decision may write state of a part. */
function writes({ set }: PlacedPart, cost: number, admitted: boolean): boolean {
  return admitted ? cost > 0 : set.ban !== undefined || (cost > 0 && one.countsAttempts(set));
}

function makeRoom(part: PlacedPart, cost: number, now: number): void {
  const { place } = part;
  if (place.row !== 0) return;
  const { columns } = place;
  place.create(now, false);
  if (place.columns !== columns) lookAt(part, cost, now, true);
}

/** What an admitted query is told if keys find no room: see `Reply.full`. */
function roomFor(parts: readonly PlacedPart[], now: number): number | undefined {
  if (parts.length === 0) return undefined;
  return Math.max(...parts.map(({ place, set }) => place.full(set, now)));
}

/** The columns in the order of the whole set's policies. */
function columnsOf(parts: readonly PlacedPart[]): Column[] {
  const columns: Column[] = [];
  for (const { at, place } of parts) at.forEach((n, i) => (columns[n] = place.columns[i]!));
  return columns;
}

/** The store's answer to `adjust`. */
export function adjust(parts: readonly PlacedPart[], change: Change, now: number, step: number): ChangeReply {
  const replies = parts.map((part) => {
    return one.adjust(part.place, part.keyOf(change.key), changeOf(change, part), now, step);
  });
  const verdicts = verdictsOfAll(
    parts,
    replies.map((reply) => reply.verdicts),
  );
  return { now, step, ban: 0, verdicts, charged: chargedByAll(parts, replies) };
}

/** The store's answer to `lease`. */
export function lease(parts: readonly PlacedPart[], change: LeaseChange, now: number): boolean {
  const held = parts
    .filter(({ set }) => holdsSlots(set.policies))
    .map(({ place, set }) => one.lease(place, { ...change, set }, now));
  return !held.includes(false);
}

/** What a store does for `reset`. */
export function reset(parts: readonly PlacedPart[], { key }: Subject, now: number, step: number): void {
  for (const part of parts) one.reset(part.place, part.keyOf(key), { set: part.set, key }, now, step);
}

/** What a store does for `ban`. */
export function ban(
  parts: readonly PlacedPart[],
  { set, key }: Subject,
  duration: number,
  now: number,
): void {
  const part = parts.find((each) => each.set.ban)!;
  one.ban(part.place, { set, key }, duration, now);
}
