import type { CompiledPolicy } from '../../contract/policy.js';
import { holdsSlots } from '../../contract/policy.js';
import type { PolicySet } from '../../contract/store.js';

/** How far ahead a waiting request may reserve its turn, ms. What is lost with a process that dies is free again after this time. */
export const AHEAD = 1000;

/** How finely it is told how far a request may reserve ahead, ms. So there are few sets. */
const STEP = 50;

/** For each set, those that `wait` asks with instead. */
const known = new WeakMap<PolicySet, PolicySet[]>();

/**
 * The set that `wait` asks with. Until it is admitted, a waiting request neither counts towards a ban nor as an attempt. Buckets give it a
 * turn up to `ahead` ms ahead. A slot would be held until the turn, so nothing is reserved beside a concurrency policy.
 */
export function patient(set: PolicySet, ahead: number): PolicySet {
  const { policies, ban } = set;
  const steps = holdsSlots(policies) ? 0 : Math.floor(Math.max(0, Math.min(ahead, AHEAD)) / STEP);
  let sets = known.get(set);
  if (!sets) known.set(set, (sets = []));
  let own = sets[steps];
  if (!own) {
    const changed = policies.map((policy) => patientPolicy(policy, steps * STEP));
    const isSame = !ban && changed.every((policy, i) => policy === policies[i]);
    own = isSame ? set : { ...set, policies: changed, ban: ban && { ...ban, after: 0 } };
    sets[steps] = own;
  }
  return own;
}

function patientPolicy(policy: CompiledPolicy, ahead: number): CompiledPolicy {
  const { attempts, shadow, traits } = policy;
  const reserving = ahead > 0 && !shadow ? traits.reserving?.(ahead) : undefined;
  return attempts || reserving ? { ...policy, ...reserving, attempts: false } : policy;
}
