import type { PolicySet } from './store.js';

type Kind =
  | 'bare'
  | 'limits'
  | 'line'
  | 'local'
  | 'nothing'
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

type Variants = Map<Kind, Map<string | number, PolicySet>>;

const variants = new WeakMap<PolicySet, Variants>();
const origins = new WeakMap<PolicySet, { readonly kind: Kind; readonly of: PolicySet }>();
/** Found without a search, because most requests have the same set. */
let last: { readonly set: PolicySet; readonly all: Variants } | undefined;

function variantsOf(set: PolicySet): Variants {
  if (last?.set === set) return last.all;
  let all = variants.get(set);
  if (!all) variants.set(set, (all = new Map<Kind, Map<string | number, PolicySet>>()));
  last = { set, all };
  return all;
}

/** The variant of a set that `variant` has made. */
export function known(set: PolicySet, kind: Kind, id: string | number = ''): PolicySet | undefined {
  return variantsOf(set).get(kind)?.get(id);
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
  made = changed ? { ...set, ...changed } : set;
  if (changed) origins.set(made, { kind, of: set });
  const all = variantsOf(set);
  let ofKind = all.get(kind);
  if (!ofKind) all.set(kind, (ofKind = new Map<string | number, PolicySet>()));
  if (ofKind.size >= MAX_VARIANTS) ofKind.clear();
  ofKind.set(id, made);
  return made;
}

/** The set of which another one is a variant, or undefined if it is not a variant of this kind. */
export function originOf(set: PolicySet, kind: Kind): PolicySet | undefined {
  const origin = origins.get(set);
  return origin?.kind === kind ? origin.of : undefined;
}

/** A set without policies and bans: the set of requests without a key that counts, and of questions about all keys. */
export const nothingOf = (set: PolicySet): PolicySet =>
  variant(set, 'nothing', () => ({ policies: [], ban: undefined }));
