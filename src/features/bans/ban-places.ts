import type { DimensionSet } from '../../contract/dimension-sets.js';
import type { Place } from '../feature.js';

/** The rest of the ban of a place, ms, or 0. */
export function refuse({ part, bans, row }: Place, now: number, writable: boolean): number {
  return part.set.ban ? bans.look(row, part.set.ban, now, writable) : 0;
}

/** Counts a denial. @returns below 0 if it starts a ban: see `Reply.ban` */
export function strike({ part, bans, row }: Place, now: number): number {
  const started = part.set.ban ? bans.strike(row, part.set.ban, now) : 0;
  return started === 0 ? 0 : -started;
}

/** The operation `ban` of a store. @returns the rest of the ban before, ms */
export function setBan(places: readonly Place[], duration: number, now: number): number {
  const place = places.find(({ part }) => hasBan(part))!;
  const left = refuse(place, now, false);
  if (place.row === 0 && duration > 0) place.create(now, true);
  if (place.row !== 0) place.bans.set(place.row, place.part.set.ban!, now, duration);
  return left;
}

/** Whether the ban of a set is part of the state of a part. */
export function hasBan({ set }: DimensionSet): boolean {
  return set.ban !== undefined;
}
