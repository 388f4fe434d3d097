import { subjectOf } from '../../contract/dimensions.js';
import { DEFAULT_DIMENSION, type Key } from '../../contract/key.js';
import type { PolicySet, Subject } from '../../contract/store.js';

/** The charges that the ban of a subject's key forgets, if it forgets any. */
export function forgottenBy(subject: Subject): Subject | undefined {
  const { freshBans } = subject.set;
  return freshBans && chargesIn(freshBans.charges, subject);
}

/** The key of a subject in other policies, with the dimensions that these have. */
export function chargesIn(charges: PolicySet, { set, key }: Subject): Subject {
  const names = set.dimensions?.names ?? [DEFAULT_DIMENSION];
  const wanted = charges.dimensions?.names ?? [DEFAULT_DIMENSION];
  const keys = typeof key === 'string' ? [key] : key;
  const own = names.flatMap((name, i) => (wanted.includes(name) ? [[name, keys[i]]] : []));
  return subjectOf(charges, Object.fromEntries(own) as Key, []);
}
