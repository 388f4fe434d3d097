import { banDimension, compileBan, type BanOptions } from '../contract/ban-options.js';
import { checkSlots, dimensionsOf, subjectOf, type SlotOptions } from '../contract/dimensions.js';
import { costAt, costsOfPart, type Costs } from '../contract/costs.js';
import type { Key } from '../contract/key.js';
import { compilePolicies } from '../contract/compile-policies.js';
import type { Algorithm, Policy } from '../contract/policy.js';
import { chargedOf, type PolicySet, type Query, type Reply, type Store } from '../contract/store.js';
import { admits, resetOf, waitOf } from '../contract/verdicts.js';
import { countsSlots, randomPolicy } from './algorithms.js';
import type { TestClock } from './clock.js';
import { show } from './expect.js';
import { DIMENSIONS, randomKeys } from './laws/mixed.js';
import type { Random } from './random.js';

/** One call of a store. */
export type TraceAction =
  | {
      /** The method to call. */
      readonly do: 'decide';
      /** Whole units. */
      readonly cost: number;
      /** The units of each policy in turn, in place of `cost`. */
      readonly costs?: readonly number[];
      /** Whether the store must not write. */
      readonly peek: boolean;
    }
  | {
      /** The method to call. */
      readonly do: 'adjust';
      /** Above 0 to charge, below 0 to give back. */
      readonly units: number;
      /** The index of the earlier charge to change. */
      readonly of: number;
      /** Whether the units belong to that charge, or to no particular one. */
      readonly marked: boolean;
    }
  | {
      /** The method to call. */
      readonly do: 'lease';
      /** The action on the slots. */
      readonly action: 'release' | 'renew';
      /** The index of the earlier charge that has them. */
      readonly of: number;
    }
  | {
      /** The method to call. */
      readonly do: 'reset';
    }
  | {
      /** The method to call. */
      readonly do: 'ban';
      /** The ban's length, ms. 0 unbans. */
      readonly ms: number;
    };

/** Calls of a store, one after the other. */
export interface Trace {
  /** Sets of policies that decide in turn about the keys of one name. */
  readonly tiers: readonly (readonly Policy[])[];
  /** The ban options of all tiers. */
  readonly ban: BanOptions | undefined;
  /** The cluster slots of keys of several dimensions. */
  readonly slots?: SlotOptions;
  /** The steps: the ms before each, the tier, the key, and the call. */
  readonly steps: readonly (readonly [wait: number, tier: number, key: Key, action: TraceAction])[];
}

/** A store's answer to one step. */
export interface Answer {
  readonly step: string;
  readonly answer: unknown;
}

const LIMITS = [1, 2, 3, 5, 7, 10, 100, 127, 128, 1_000, 32_768, 70_000];
const WAITS = [0, 0, 0, 1, 1, 3, 50, 500, 2_000, 30_000];
const JUMPS = [-1, -100, -5_000, 3_600_000];

/** Random policies. In different tiers, one policy name may have different algorithms. */
export function randomPolicies(random: Random, algorithms: readonly Algorithm[]): Policy[] {
  return random.list(1, algorithms.length === 1 ? 2 : 3, (i): Policy => {
    const policy = randomPolicy(random, random.pick(algorithms), { limits: LIMITS });
    const counts = random.once(3) && !('lease' in policy) && !('maxDelay' in policy);
    return { ...policy, shadow: random.once(5), name: `p${i}`, ...(counts && { count: 'attempts' }) };
  });
}

export function randomBan(random: Random): BanOptions | undefined {
  if (random.once(2)) return undefined;
  const factor = random.pick([1, 1.5, 2.25]);
  return { after: random.integer(1, 3), within: 10_000, for: 3_000, factor, max: 20_000 };
}

function randomAction(random: Random): TraceAction {
  const kind = random.integer(1, 22);
  const of = random.integer(0, 100);
  if (kind <= 15) {
    const costs = random.once(4) && { costs: random.list(1, 3, () => random.pick([0, 1, 2, 5, 200])) };
    return { do: 'decide', cost: random.pick([0, 1, 1, 1, 2, 5, 200]), ...costs, peek: random.once(6) };
  }
  if (kind <= 18)
    return { do: 'adjust', units: random.pick([-1, -2, -100, 1, 5, 100]), of, marked: random.once(2) };
  if (kind <= 20) return { do: 'lease', action: random.pick(['release', 'renew']), of };
  return kind === 21 ? { do: 'reset' } : { do: 'ban', ms: random.pick([0, 1_000, 100_000]) };
}

/** @param jumps whether the clock may jump, backwards and far ahead */
export function randomTrace(random: Random, algorithms: readonly Algorithm[], jumps: boolean): Trace {
  return {
    tiers: random.list(1, 2, () => randomPolicies(random, algorithms)),
    ban: randomBan(random),
    steps: random.list(10, 60, () => [
      random.pick(jumps && random.once(4) ? JUMPS : WAITS),
      random.integer(0, 1),
      // When the clock goes back, a store may have removed expired keys for good, and memory removes them sooner. So there is only one key.
      jumps ? 'a' : random.pick(['a', 'a', 'a', 'b{}%', '']),
      randomAction(random),
    ]),
  };
}

/** A random trace of policies by several dimensions, with requests that have some of the keys. */
export function randomMixedTrace(
  random: Random,
  algorithms: readonly Algorithm[],
  slots: SlotOptions,
): Trace {
  const trace = randomTrace(random, algorithms, false);
  const by = () => random.pick(DIMENSIONS);
  // Across slots, neither attempts nor denials can be counted.
  const across = slots.acrossSlots && { count: 'admitted' as const };
  const policyOf = (policy: Policy): Policy => ({ ...policy, ...('count' in policy && across), by: by() });
  return {
    tiers: trace.tiers.map((policies) => policies.map(policyOf)),
    ban: across ? undefined : trace.ban && { ...trace.ban, by: by() },
    slots,
    steps: trace.steps.map(([wait, tier, , action]) => [wait, tier, randomKeys(random), action]),
  };
}

/** A set of policies for a store that a check calls without a limiter. */
export function setOf(
  policies: readonly Policy[],
  ban: BanOptions | undefined,
  slots: SlotOptions = {},
): PolicySet {
  const compiled = compilePolicies('policies', policies);
  const banned = compileBan(ban);
  const by = { banBy: banDimension(ban), ...checkSlots(slots) };
  const dimensions = dimensionsOf(compiled, banned, by);
  return { name: 'identity', policies: compiled, ban: banned, dimensions, timeout: 60_000 };
}

interface Decided {
  readonly query: Query;
  readonly reply: Reply;
}

/** Whether a decision charged the i-th policy. */
function wasCharged({ query, reply: { verdicts } }: Decided, i: number): boolean {
  const { set } = query;
  const admitted = (j: number) => admits(waitOf(verdicts, j));
  const isAdmitted = set.policies.every(({ shadow }, j) => shadow || admitted(j));
  return costAt(query, i) > 0 && admitted(i) && (isAdmitted || set.policies[i]!.attempts);
}

/** The cost of a step for the policies of a set. */
export function costsIn({ cost, costs }: Costs, policies: number): Costs {
  const at = Array.from({ length: policies }, (_, i) => i % (costs?.length ?? 1));
  return costsOfPart({ cost, costs }, at);
}

/** Plays a trace on a store. */
export async function play(
  store: Store,
  clock: TestClock,
  { tiers, ban, slots, steps }: Trace,
): Promise<Answer[]> {
  const start = clock.now;
  const sets = tiers.map((policies) => setOf(policies, ban, slots));
  const charged: Decided[] = [];
  // Some stores order charges and resets by clock, others by sequence. If the clock goes back, the two orders differ.
  let ordered = true;
  const jumps = steps.some(([wait]) => wait < 0);
  const answers: Answer[] = [];
  for (const [i, [wait, tier, keys, action]] of steps.entries()) {
    clock.now += wait;
    const whole = sets[tier % sets.length]!;
    const { set, key } = subjectOf(whole, keys, DIMENSIONS);
    // Without any of the keys, no policy applies to the request.
    const hasNoPolicies = set.policies.length === 0 && !set.ban;
    const record = (answer: unknown) =>
      answers.push({ step: `step ${i}, ${show(action)} at ${clock.now - start} ms`, answer });
    switch (action.do) {
      case 'decide': {
        if (hasNoPolicies) break;
        const costs = costsIn(action, set.policies.length);
        const query = { set, key, ...costs, peek: action.peek || costs.cost === 0, lease: `l${i}` };
        const reply = await store.decide(query);
        record({ now: reply.now - start, ban: reply.ban, verdicts: [...reply.verdicts] });
        if (!query.peek) charged.push({ query, reply });
        break;
      }
      case 'adjust': {
        const past = charged[action.of % charged.length];
        if (!past) break;
        const { query, reply } = past;
        const marks = query.set.policies.map(
          (_, j) => reply.now + (reply.ban > 0 ? 0 : resetOf(reply.verdicts, j)),
        );
        const isOf = action.marked && ordered;
        // Ended charges are not given back, because the store no longer knows whether they were reset.
        const life = Math.max(...query.set.policies.map((policy) => policy.life));
        if (isOf && clock.now - reply.now > life) break;
        const units = query.set.policies.map((_, j) => (isOf && !wasCharged(past, j) ? 0 : action.units));
        const adjusted = await store.adjust({
          set: query.set,
          key: query.key,
          units,
          charged: isOf ? { ...chargedOf(reply), marks } : undefined,
          degraded: undefined,
        });
        record({
          now: adjusted.now - start,
          charged: [...adjusted.charged],
          verdicts: [...adjusted.verdicts],
        });
        break;
      }
      case 'lease': {
        const past = charged[action.of % charged.length]?.query;
        if (!past?.set.policies.some(({ source }) => countsSlots(source))) break;
        record(await store.lease({ ...past, action: action.action, degraded: undefined }));
        break;
      }
      case 'reset':
        ordered &&= !jumps;
        if (set.policies.length > 0) await store.reset({ set, key });
        break;
      case 'ban':
        if (set.ban) await store.ban({ set, key }, action.ms);
    }
  }
  return answers;
}
