import type { PolicySet } from '../../contract/store.js';

const known = new WeakMap<PolicySet, PolicySet>();

/** The set that `wait` asks with: until it is admitted, a waiting request neither counts towards a ban nor as an attempt. */
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
