import type { PolicySet } from '../../contract/store.js';

const known = new WeakMap<PolicySet, PolicySet>();

/** The set by which `wait` asks: until it is admitted, a request is neither a denial that counts towards a ban, nor an attempt. */
export function patient(set: PolicySet): PolicySet {
  const { policies, ban } = set;
  if (!ban && !policies.some(({ attempts }) => attempts)) return set;
  let own = known.get(set);
  if (!own) {
    own = {
      ...set,
      policies: policies.map((policy) => (policy.attempts ? { ...policy, attempts: false } : policy)),
      ban: ban && { ...ban, after: 0 },
    };
    known.set(set, own);
  }
  return own;
}
