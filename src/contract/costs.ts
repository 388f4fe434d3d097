import { HeadgateError, invalidOption, show, showOption } from '../common/errors.js';
import { MAX_UNITS } from '../common/validate.js';
import type { CompiledPolicy } from './policy.js';

/**
 * The whole units of a request, 0 to 1e12: a number for all policies, or numbers by policy name, as in `{ tokens: 800 }`. A policy without
 * a number costs 1, and a policy with cost 0 is only looked at. Names of policies of other tiers are allowed and have no effect.
 */
export type Cost = number | Readonly<Record<string, number>>;

/** The values of `Cost`, as the pages about options show them. */
export const UNITS = '0 to 1000000000000, or such numbers by policy name';

/** The cost of a question for each policy of its set. */
export interface Costs {
  /** The units of each policy, or the largest if they differ. */
  readonly cost: number;
  /** The units of each policy, in the set's order. Absent if all are the same. */
  readonly costs?: readonly number[] | undefined;
}

export const NO_COSTS: Costs = { cost: 0, costs: undefined };

export const ONE_UNIT: Costs = { cost: 1, costs: undefined };

/** The cost for the i-th policy of the set. */
export function costAt({ cost, costs }: Costs, i: number): number {
  return costs === undefined ? cost : costs[i]!;
}

/** The cost for a part of a set. @param at the positions of its policies in the whole set */
export function costsOfPart({ cost, costs }: Costs, at: readonly number[]): Costs {
  return costs === undefined ? { cost, costs } : joint(at.map((n) => costs[n]!));
}

/** Resolves a valid cost for a set's policies. */
export function costsOf(cost: Cost, policies: readonly CompiledPolicy[]): Costs {
  if (typeof cost === 'number') return { cost, costs: undefined };
  return joint(policies.map(({ name }) => (Object.hasOwn(cost, name) ? cost[name]! : 1)));
}

/** Joins equal costs to a single number, because most of the code, and the fastest, handles only that. */
function joint(costs: readonly number[]): Costs {
  const most = costs.length === 0 ? 1 : Math.max(...costs);
  return costs.every((cost) => cost === most) ? { cost: most, costs: undefined } : { cost: most, costs };
}

/** @throws HeadgateError `HEADGATE_INVALID_COST` unless it is a whole number from 0 (only look) to 1e12 */
export function checkCost(cost: unknown, what = 'cost'): number {
  if (typeof cost !== 'number' || !Number.isInteger(cost) || cost < 0 || cost > MAX_UNITS) {
    throw new HeadgateError(
      'HEADGATE_INVALID_COST',
      `${what}: ${showOption(what, cost)} is not valid. Pass a whole number from 0 (only look) to ${MAX_UNITS}.`,
    );
  }
  return cost;
}

/**
 * @param known the sets of policies with names that a cost may use; without any set, every name is allowed
 * @throws HeadgateError `HEADGATE_INVALID_COST`, `HEADGATE_UNKNOWN_POLICY`
 */
export function checkCosts(cost: unknown, ...known: (readonly CompiledPolicy[])[]): Cost {
  if (typeof cost === 'number') return checkCost(cost);
  const isPlain = Object.prototype.toString.call(cost) === '[object Object]';
  const entries = isPlain ? Object.entries(cost as object) : [];
  if (entries.length === 0) {
    throw new HeadgateError(
      'HEADGATE_INVALID_COST',
      `cost: ${show(cost)} is not valid. Pass a whole number from 0 (only look) to ${MAX_UNITS}, or an object of one such number ` +
        'or more by policy name: { tokens: 800 }.',
    );
  }
  for (const [name, units] of entries) {
    checkCost(units, `cost.${name}`);
    const isKnown = known.some((policies) => policies.some((policy) => policy.name === name));
    if (isKnown || known.length === 0) continue;
    const names = [...new Set(known.flat().map((policy) => show(policy.name)))].join(', ');
    throw new HeadgateError(
      'HEADGATE_UNKNOWN_POLICY',
      `cost: the limiter has no policy named ${show(name)}. Its policies are: ${names}.`,
    );
  }
  return cost as Cost;
}

/**
 * @param sets the sets of policies of which one decides
 * @throws HeadgateError `HEADGATE_INVALID_OPTION` if no request of this cost could ever be admitted
 */
export function checkCapacity(
  cost: Cost,
  sets: readonly { readonly policies: readonly CompiledPolicy[] }[],
): void {
  const all = sets.map(({ policies }) => {
    const costs = costsOf(cost, policies);
    return policies.find(({ shadow, traits }, i) => !shadow && costAt(costs, i) > traits.capacity);
  });
  const [tooSmall] = all;
  if (!tooSmall || all.includes(undefined)) return;
  const { name, traits } = tooSmall;
  const fix = `The policy '${name}' never admits more than ${traits.capacity} at once. Lower the cost, or raise the policy's limit or burst.`;
  throw invalidOption('cost', cost, fix);
}
