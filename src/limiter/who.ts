import { DEFAULT_DIMENSION } from '../contract/key.js';
import { partsOf } from '../stores/state/parts.js';
import type { PolicySet, Subject } from '../contract/store.js';

/**
 * Texts that distinguish the keys of a subject from all other keys, including those of other dimensions.
 *
 * @param counts whether a key counts, given the part of the set that is by its dimension; default: all count
 */
export function idsOf({ set, key }: Subject, counts = (_: PolicySet): boolean => true): string[] {
  const parts = partsOf(set).filter(({ set: part }) => counts(part));
  return parts.map(({ scope, keyOf }) => idOf(scope, keyOf(key)));
}

/** A key of the default dimension is used as it is. Other keys begin with a NUL character. */
function idOf(scope: string, key: string): string {
  if (scope !== DEFAULT_DIMENSION) return `\0${scope}\0${key}`;
  return key.startsWith('\0') ? `\0${key}` : key;
}

/** Combines several texts into one that distinguishes them. */
export function joined(ids: readonly string[]): string {
  return ids.length === 1 ? ids[0]! : `\0${JSON.stringify(ids)}`;
}
