import type { CompiledPolicy } from '../../contract/policy.js';
import { holdsSlots, perSet, type PolicySet } from '../../contract/store.js';

/**
 * How far ahead a waiting request may reserve its turn, ms. Turns that are lost with a process are
 * over after this time, and a request that has its turn need not notice a reset.
 */
const AHEAD = 1000;
/** The same for a request that has just come. It grows by the other for each ms of waiting. */
const AHEAD_AT_FIRST = 800;
const AHEAD_PER_MS = 1 / 25;
/** Times are rounded down to this, ms, so that few sets are made. */
const STEP = 25;

/** For each set, those that `wait` asks with instead, by the number of steps. */
const known = new WeakMap<PolicySet, PolicySet[]>();

/** Those sets that differ from the sets of which they were made. */
const patients = new WeakSet<PolicySet>();

/** Whether one of a set's policies can give turns ahead of time. */
const canReserve = perSet(
  (set) => !holdsSlots(set) && set.policies.some(({ shadow, traits }) => !shadow && traits.reserving),
);

/**
 * The set that `wait` asks with. Until it is admitted, a waiting request neither counts towards a
 * ban nor as an attempt. Buckets give it a turn ahead of time: to one that has waited for long
 * further ahead, so that newcomers don't take all turns that become free. A slot would be held
 * until the turn, so nothing is reserved beside a concurrency policy.
 *
 * @param left how long the request would still wait, ms
 * @param waited how long it has waited, ms
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
    // An override may bring policies that count attempts.
    const isSame = !ban && !overrides && changed.every((policy, i) => policy === policies[i]);
    own = isSame ? set : { ...set, policies: changed, ban: ban && { ...ban, after: 0 } };
    sets[steps] = own;
    if (!isSame) patients.add(own);
  }
  return own;
}

/** What an override has made of a set. If a request waits by that set, it is no attempt by this one, either. */
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
