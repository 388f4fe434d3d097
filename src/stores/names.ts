import { HeadgateError } from '../errors.js';
import type { PolicySet, Store } from './store.js';

interface Claim {
  readonly named: boolean;
  readonly signature: string;
  holders: number;
}

const claims = new WeakMap<Store, Map<string, Claim>>();

/**
 * Sees to it that limiters share state on purpose only: on one store each has its own name, or a common one, given to each,
 * with equal policies. Returns a function that gives the name back.
 *
 * @throws HeadgateError `HEADGATE_NAME_REQUIRED`, `HEADGATE_POLICY_MISMATCH`
 */
export function claimName(
  store: Store,
  name: string | undefined,
  set: PolicySet,
  dynamic = false,
): () => void {
  const names = claims.get(store) ?? new Map<string, Claim>();
  claims.set(store, names);
  const policies = set.policies.map(({ id, by, params, shadow, attempts }) => [
    id,
    by,
    params,
    shadow,
    attempts,
  ]);
  const signature = dynamic ? 'dynamic' : JSON.stringify([policies, set.ban, set.dimensions]);
  const claim = names.get(set.name);
  if (!claim) {
    names.set(set.name, { named: name !== undefined, signature, holders: 1 });
  } else if (name === undefined || !claim.named) {
    throw new HeadgateError(
      'HEADGATE_NAME_REQUIRED',
      `Another limiter on this store is called ${JSON.stringify(set.name)}, and not both were given their name. Give each ` +
        `its own: name: 'login', name: 'search'; or both the same one if they are to share a quota.`,
    );
  } else if (claim.signature !== signature) {
    throw new HeadgateError(
      'HEADGATE_POLICY_MISMATCH',
      `Another limiter on this store is called ${JSON.stringify(set.name)} and has other policies: ${claim.signature}, here ` +
        `${signature}. Limiters of one name share their quota: give them equal policies, or another name.`,
    );
  } else {
    claim.holders++;
  }
  return () => {
    const held = names.get(set.name);
    if (held && --held.holders === 0) names.delete(set.name);
  };
}
