import { setsByDimension } from '../../contract/dimension-sets.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import { holdsSlots, type PolicySet } from '../../contract/store.js';
import { originOf, variant } from '../../contract/variant.js';
import { countsAttempts, withoutAttempts } from '../../features/attempts/attempts.js';

/**
 * The furthest turn that a waiting request may reserve, ms ahead. Turns lost with a process are over after this time, and a request with a
 * turn need not notice a reset.
 */
const MAX_AHEAD_MS = 1000;
/** The furthest turn of a request that has just come, and the growth per ms of waiting. */
const FIRST_AHEAD_MS = 800;
const AHEAD_PER_MS = 1 / 25;
/** Times ahead are rounded down to a multiple of this step, so that there are few sets. */
const STEP_MS = 25;

/**
 * Whether a policy of the set can give turns ahead of time. If the keys of several dimensions count, the first tenant would get all turns
 * of a second.
 */
function canReserve(set: PolicySet): boolean {
  const mayReserve = set.policies.some(({ shadow, traits }) => !shadow && traits.reserving);
  return mayReserve && !holdsSlots(set) && setsByDimension(set).length === 1;
}

/**
 * The set by which `wait` decides. The denial of a waiting request counts neither towards a ban nor as an attempt. Buckets reserve a turn
 * ahead of time for a waiting request. A request may reserve further ahead the longer it has waited, so that newcomers do not take all
 * freed turns. Beside a concurrency policy nothing is reserved, because a slot would be held until the turn.
 *
 * @param left the time that the request would still wait, ms
 * @param waited the time waited so far, ms
 */
export function forWaiting(set: PolicySet, left: number, waited: number): PolicySet {
  const { policies, ban, overrides } = set;
  const ahead = Math.min(left, MAX_AHEAD_MS, FIRST_AHEAD_MS + waited * AHEAD_PER_MS);
  const steps = canReserve(set) ? Math.max(0, Math.floor(ahead / STEP_MS)) : 0;
  const change = (): Partial<PolicySet> | undefined => {
    const changed = policies.map((policy) => patientPolicy(policy, steps * STEP_MS));
    // An override may add policies that count attempts.
    const isSame = !ban && !overrides && changed.every((policy, i) => policy === policies[i]);
    return isSame ? undefined : { policies: changed, ban: ban && { ...ban, after: 0 } };
  };
  return variant(set, 'waiting', change, steps);
}

/** A set that an override made from another set. If the original set is for waiting requests, so is the result. */
export function asPatient(made: PolicySet, of: PolicySet): PolicySet {
  if (!originOf(of, 'waiting') || !countsAttempts(made)) return made;
  return variant(made, 'waiting', () => ({
    policies: made.policies.map((policy) => patientPolicy(policy, 0)),
  }));
}

function patientPolicy(policy: CompiledPolicy, ahead: number): CompiledPolicy {
  const { attempts, shadow, traits } = policy;
  const reserving = ahead > 0 && !shadow ? traits.reserving?.(ahead) : undefined;
  if (!reserving && !attempts) return policy;
  const { params, traits: changed } = reserving ?? policy;
  return withoutAttempts(policy, { params, traits: { ...traits, ...changed } });
}
