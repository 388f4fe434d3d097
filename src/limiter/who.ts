import { DEFAULT_DIMENSION } from '../contract/key.js';
import { partsOf } from '../stores/state/parts.js';
import type { PolicySet, Subject } from '../contract/store.js';

/**
 * Tells the keys of a subject from all others, those of other dimensions too.
 *
 * @param counts whether a key counts, by what of the set is by its dimension; default all
 */
export function idsOf({ set, key }: Subject, counts = (_: PolicySet): boolean => true): string[] {
  const parts = partsOf(set).filter(({ set: part }) => counts(part));
  return parts.map(({ scope, keyOf }) => idOf(scope, keyOf(key)));
}

/** A key of the default dimension stands for itself: a NUL character tells the others. */
function idOf(scope: string, key: string): string {
  if (scope !== DEFAULT_DIMENSION) return `\0${scope}\0${key}`;
  return key.startsWith('\0') ? `\0${key}` : key;
}

/** One text for several. */
export function joined(ids: readonly string[]): string {
  return ids.length === 1 ? ids[0]! : `\0${JSON.stringify(ids)}`;
}
