import { inBackground } from '../common/background.js';
import type { Decision } from '../common/decision.js';
import { all, ofLimiter, type LimiterDecision } from './decision.js';
import type { Cost } from '../contract/costs.js';
import type { Key } from '../contract/key.js';
import { invalidOption } from '../common/errors.js';
import { Limiter } from './limiter.js';
import { checkShape } from '../common/validate.js';

/** The question to a limiter about a request, for example per address, per account, or per route. */
export interface Ask {
  /** The limiter that decides. */
  limiter: Limiter;
  /** The client to limit. */
  key: Key;
  /** Whole units, 0 (only look) to 1e12, or units by policy name. @default 1 */
  cost?: Cost | undefined;
  /** The limiter's tier that decides. @default the policies outside the tiers */
  tier?: string | undefined;
}

/** The answer of several limiters to one request. Made by {@link consumeAll}. */
export class JointDecision {
  /** Whether all limiters admitted the request. */
  readonly allowed: boolean;
  /**
   * The decision that counts: the denial; or if every limiter admitted, the decision with the smallest share of the limit left. A shadow's
   * decision counts only if every limiter is a shadow.
   */
  readonly decision: Decision;
  /** The limiters' decisions, in order. The first denial is the last decision. */
  readonly decisions: readonly Decision[];

  /** @internal */
  constructor(decisions: readonly [Decision, ...LimiterDecision[]]) {
    this.decisions = decisions;
    const last = decisions[decisions.length - 1]!;
    this.allowed = last.allowed;
    this.decision = last.allowed ? decisions.reduce((a, b) => (share(b) < share(a) ? b : a)) : last;
  }

  /** Gives every charge back. @throws the error of a store, after every charge was tried */
  refund(): Promise<void> {
    return all(this.decisions.map((decision) => decision.refund()));
  }

  /** Gives back the slots of concurrency policies. @throws as `refund` */
  release(): Promise<void> {
    return all(this.decisions.map((decision) => decision.release()));
  }

  /** Undoes the request: `refund` and `release`. @throws as `refund` */
  cancel(): Promise<void> {
    return all(this.decisions.map((decision) => decision.cancel()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }
}

/**
 * Decides a request by several limiters, each with a separate key. The request is admitted if every limiter admits. The limiters decide in
 * order, up to the first denial. The earlier limiters then give their charges back, except for policies that count attempts.
 *
 * Each limiter decides atomically; the sequence does not. Until the charges are given back, a simultaneous request may be denied because of
 * the charges. Policies on the same key belong in one limiter, which decides in a single store call. So do policies on several keys (`by`)
 * in one store.
 *
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`, `HEADGATE_INVALID_KEY`, `HEADGATE_INVALID_COST`,
 * `HEADGATE_UNKNOWN_POLICY`, `HEADGATE_UNKNOWN_TIER` before anything is charged; otherwise as `limiter.consume`, after the charges were
 * given back
 */
export async function consumeAll(asks: readonly Ask[]): Promise<JointDecision> {
  check(asks);
  const decisions: LimiterDecision[] = [];
  try {
    for (const { limiter, key, cost, tier } of asks) {
      const decision = await limiter.decide(key, cost, limiter.tiers.of(tier));
      decisions.push(decision);
      if (!decision.allowed) break;
    }
  } catch (error) {
    await giveBack(decisions, (decision) => decision.cancel());
    throw error;
  }
  const joint = new JointDecision(decisions as [LimiterDecision, ...LimiterDecision[]]);
  if (!joint.allowed) await giveBack(decisions, (decision) => decision.withdraw());
  return joint;
}

/** Reports errors of the store, because without a refund the charge ends with its window. */
async function giveBack(
  decisions: readonly LimiterDecision[],
  act: (decision: LimiterDecision) => Promise<void>,
): Promise<void> {
  await inBackground('The charge of a denied request was not given back', all(decisions.map(act)));
}

/** The remaining part of the limit, or Infinity for a decision without a limit: by a shadow, or not counted. */
function share(decision: Decision): number {
  const { remaining, limit, reason } = decision;
  const { shadow, set } = ofLimiter(decision);
  const isTold = reason === undefined && !shadow && set.policies.some((policy) => !policy.shadow);
  return isTold ? remaining / limit : Infinity;
}

function check(asks: readonly Ask[]): void {
  if (!Array.isArray(asks) || asks.length === 0) {
    throw invalidOption('asks', asks, 'Pass an array: [{ limiter, key, cost, tier }, ...].');
  }
  asks.forEach((ask: Ask, i) => {
    checkShape(`asks[${i}]`, ask, ['limiter', 'key', 'cost', 'tier']);
    const { limiter, key, cost, tier } = ask;
    if (!(limiter instanceof Limiter)) {
      throw invalidOption(`asks[${i}].limiter`, limiter, 'Pass a limiter made by createLimiter.');
    }
    limiter.internals.decider.subject(key);
    const set = limiter.tiers.of(tier);
    if (cost !== undefined) limiter.internals.scope.checkCost(cost, set);
  });
}
