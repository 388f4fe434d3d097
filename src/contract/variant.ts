import { oncePer } from '../common/lazy.js';
import { withLast, type PolicySet } from './store.js';

/** The facts about each set, as a list. `factOf` assigns the positions. */
const factsOf = oncePer((_: PolicySet): unknown[] => []);
let facts = 0;

/** Like `perSet`, for a fact that is the same in all stores and limiters. Few may call it, because each call takes a position. */
export function factOf<T extends object | string>(make: (set: PolicySet) => T): (set: PolicySet) => T {
  const at = facts++;
  return withLast((set) => (factsOf(set)[at] ??= make(set)) as T);
}

type Kind =
  | 'bare'
  | 'charges'
  | 'limits'
  | 'line'
  | 'local'
  | 'nothing'
  | 'omitting'
  | 'part'
  | 'probe'
  | 'slots'
  | 'visible'
  | 'waiting'
  | 'within slot'
  | 'without ban'
  | 'without line';

/** The most variants of a kind that are kept for a set. */
const MAX_VARIANTS = 1000;

interface Kin {
  readonly variants: Map<Kind, Map<string | number, PolicySet>>;
  /** The set of which it is a variant. */
  origin?: { readonly kind: Kind; readonly of: PolicySet };
}

const kinOf = factOf((): Kin => ({ variants: new Map<Kind, Map<string | number, PolicySet>>() }));

/** The variant of a set that `variant` has made. */
export function known(set: PolicySet, kind: Kind, id: string | number = ''): PolicySet | undefined {
  return kinOf(set).variants.get(kind)?.get(id);
}

/** A copy of a set with a change, which the caller remembers itself. All other copies are variants. */
export function changedSet(set: PolicySet, change: Partial<PolicySet>): PolicySet {
  return { ...set, ...change };
}

/**
 * A copy of a set with a change. A repeated call returns the same copy, because stores keep data about each set: see `perSet`.
 *
 * @param change returns the fields that change. If it returns undefined, the variant is the set itself
 * @param id distinguishes different changes of a kind
 */
export function variant(
  set: PolicySet,
  kind: Kind,
  change: (set: PolicySet) => Partial<PolicySet> | undefined,
  id: string | number = '',
): PolicySet {
  let made = known(set, kind, id);
  if (made) return made;
  const changed = change(set);
  made = changed ? changedSet(set, changed) : set;
  if (changed) kinOf(made).origin = { kind, of: set };
  const all = kinOf(set).variants;
  let ofKind = all.get(kind);
  if (!ofKind) all.set(kind, (ofKind = new Map<string | number, PolicySet>()));
  if (ofKind.size >= MAX_VARIANTS) ofKind.clear();
  ofKind.set(id, made);
  return made;
}

/** The set of which another one is a variant, or undefined if it is not a variant of this kind. */
export function originOf(set: PolicySet, kind: Kind): PolicySet | undefined {
  const { origin } = kinOf(set);
  return origin?.kind === kind ? origin.of : undefined;
}

/** A set without policies and bans: the set of requests without a key that counts, and of questions about all keys. */
export const nothingOf = (set: PolicySet): PolicySet =>
  variant(set, 'nothing', () => ({ policies: [], ban: undefined }));
