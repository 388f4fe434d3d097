import type { CompiledPolicy } from '../../contract/policy.js';
import { holdsSlots, perSet, type PolicySet } from '../../contract/store.js';

/**
 * The furthest turn that a waiting request may reserve, ms ahead. Turns that are lost with a process are over after this time, and a request
 * that has its turn need not notice a reset.
 */
const AHEAD = 1000;
/** The same for a request that has just come, and the growth per ms of waiting. */
const AHEAD_AT_FIRST = 800;
const AHEAD_PER_MS = 1 / 25;
/** Times are rounded down to a multiple of this, ms, so that there are few sets. */
const STEP = 25;

/** For each set, the sets that `wait` decides with instead, by the number of steps. */
const known = new WeakMap<PolicySet, PolicySet[]>();

/** The sets in `known` that differ from their original. */
const patients = new WeakSet<PolicySet>();

/** Whether one of a set's policies can give turns ahead of time. */
const canReserve = perSet(
  (set) => !holdsSlots(set) && set.policies.some(({ shadow, traits }) => !shadow && traits.reserving),
);

/**
 * The set that `wait` decides with. Until it is admitted, a waiting request counts neither towards a ban nor as an attempt. Buckets give it
 * a turn ahead of time, the further the longer it has waited, so that newcomers do not take all turns that become free. Beside a concurrency
 * policy nothing is reserved, because a slot would be held until the turn.
 *
 * @param left the time that the request would still wait, ms
 * @param waited the time that it has waited, ms
 */
export function patient(set: PolicySet, left: number, waited: number): PolicySet {
  const { policies, ban, overrides } = set;
  const ahead = Math.min(left, AHEAD, AHEAD_AT_FIRST + waited * AHEAD_PER_MS);
  const steps = canReserve(set) ? Math.max(0, Math.floor(ahead / STEP)) : 0;
  let sets = known.get(set);
  if (!sets) known.set(set, (sets = []));
  let own = sets[steps];
  if (!own) {
    const changed = policies.map((policy) => patientPolicy(policy, steps * STEP));
    // An override may add policies that count attempts.
    const isSame = !ban && !overrides && changed.every((policy, i) => policy === policies[i]);
    own = isSame ? set : { ...set, policies: changed, ban: ban && { ...ban, after: 0 } };
    sets[steps] = own;
    if (!isSame) patients.add(own);
  }
  return own;
}

/** The set that an override made from another set. A waiting request is not an attempt by either. */
export function asPatient(made: PolicySet, of: PolicySet): PolicySet {
  if (!patients.has(of) || !made.policies.some(({ attempts }) => attempts)) return made;
  return { ...made, policies: made.policies.map((policy) => ({ ...policy, attempts: false })) };
}

function patientPolicy(policy: CompiledPolicy, ahead: number): CompiledPolicy {
  const { attempts, shadow, traits } = policy;
  const reserving = ahead > 0 && !shadow ? traits.reserving?.(ahead) : undefined;
  if (!reserving) return attempts ? { ...policy, attempts: false } : policy;
  const { params, traits: changed } = reserving;
  return { ...policy, params, traits: { ...traits, ...changed }, attempts: false };
}
