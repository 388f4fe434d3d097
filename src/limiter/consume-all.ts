import type { Decision } from '../common/decision.js';
import type { LimiterDecision } from './decision.js';
import type { Key } from '../contract/key.js';
import { invalidOption } from '../common/errors.js';
import { Limiter } from './limiter.js';
import { checkCost, checkShape } from '../common/validate.js';

/** What one limiter is asked of a request: per address, per account, per route. */
export interface Dimension {
  /** What decides. */
  limiter: Limiter;
  /** Who is limited. */
  key: Key;
  /** Whole units, 0 (only look) to 1e12. Default 1. */
  cost?: number;
  /** Which of the limiter's tiers decides. Default: its policies beside them. */
  tier?: string;
}

/** What several limiters say to one request. Made by {@link consumeAll}. */
export class JointDecision {
  /** Every one admitted. */
  readonly allowed: boolean;
  /** The one that decided: that which denied, or of those that admitted the one with the least left of its limit. */
  readonly decision: Decision;
  /** Of those that were asked, in order: the first denial ends it. */
  readonly decisions: readonly Decision[];

  /** @internal */
  constructor(decisions: readonly [Decision, ...LimiterDecision[]]) {
    this.decisions = decisions;
    const last = decisions[decisions.length - 1]!;
    this.allowed = last.allowed;
    this.decision = last.allowed ? decisions.reduce((a, b) => (share(b) < share(a) ? b : a)) : last;
  }

  /** Gives all charges back. @throws what a store fails with; all were tried */
  refund(): Promise<void> {
    return all(this.decisions, (decision) => decision.refund());
  }

  /** Gives back the slots of concurrency policies. @throws as `refund` */
  release(): Promise<void> {
    return all(this.decisions, (decision) => decision.release());
  }

  /** Takes the request back, as if it had never been: `refund` and `release`. @throws as `refund` */
  cancel(): Promise<void> {
    return all(this.decisions, (decision) => decision.cancel());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }
}

/**
 * Decides one request by several limiters, each with its own key: it is admitted if all admit it, and else charged by none, but by policies
 * that count attempts.
 * They are asked in order, up to the first that denies; then those before it give their charge back.
 *
 * Each limiter's decision is atomic. The whole is not: until the charges are given back, a simultaneous request may be
 * denied because of them. Policies on one key belong in one limiter, which decides them in one store call; and so do policies on several
 * keys (`by`), if their state lies in one store.
 *
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`, `HEADGATE_INVALID_KEY`, `HEADGATE_INVALID_COST`,
 * `HEADGATE_UNKNOWN_TIER` before anything is charged; else as `limiter.consume`, after what was charged is given back
 */
export async function consumeAll(dimensions: readonly Dimension[]): Promise<JointDecision> {
  check(dimensions);
  const decisions: LimiterDecision[] = [];
  try {
    for (const { limiter, key, cost, tier } of dimensions) {
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

/** A store that fails now changes neither the answer nor the error: what it keeps is gone by the window's end. */
async function giveBack(
  decisions: readonly LimiterDecision[],
  act: (decision: LimiterDecision) => Promise<void>,
): Promise<void> {
  await all(decisions, act).catch(() => {});
}

async function all<T>(items: readonly T[], act: (item: T) => Promise<unknown>): Promise<void> {
  const results = await Promise.allSettled(items.map(act));
  for (const result of results) if (result.status === 'rejected') throw result.reason;
}

/** How much of its limit is left. */
function share({ remaining, limit }: Decision): number {
  return limit === 0 ? 1 : remaining / limit;
}

function check(dimensions: readonly Dimension[]): void {
  if (!Array.isArray(dimensions) || dimensions.length === 0) {
    throw invalidOption('dimensions', dimensions, 'Write an array: [{ limiter, key, cost, tier }, ...].');
  }
  dimensions.forEach((dimension: Dimension, i) => {
    checkShape(`dimensions[${i}]`, dimension, ['limiter', 'key', 'cost', 'tier']);
    const { limiter, key, cost, tier } = dimension;
    if (!(limiter instanceof Limiter)) {
      throw invalidOption(`dimensions[${i}].limiter`, limiter, 'Write what createLimiter returns.');
    }
    limiter.subject(key);
    checkCost(cost ?? 1);
    limiter.tiers.of(tier);
  });
}
