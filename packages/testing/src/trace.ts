import fc from 'fast-check';
import { createLimiter, type Algorithm, type BanOptions, type Key, type Policy, type Store } from 'headgate';
import {
  admits,
  chargedOf,
  costAt,
  resetOf,
  subjectOf,
  waitOf,
  type Costs,
  type PolicySet,
  type Query,
  type Reply,
} from 'headgate/stores';
import type { TestClock } from 'headgate/testing';
import { countsSlots, named, policyOf } from './algorithms.js';
import { show } from './expect.js';
import { DIMENSIONS, mixedKeys, type SlotOptions } from './dimensions.js';
import { integer, list, oneIn, pick } from './random.js';

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
      /** The number of the request's id, for stores that remember ids. */
      readonly id?: number | undefined;
    }
  | {
      /** The method to call. */
      readonly do: 'adjust';
      /** Above 0 to charge, below 0 to give back. */
      readonly units: number;
      /** The index of the earlier charge to change. */
      readonly of: number;
      /** Whether the units belong to the charge, or to no particular charge. */
      readonly marked: boolean;
    }
  | {
      /** The method to call. */
      readonly do: 'lease';
      /** The action on the slots. */
      readonly action: 'release' | 'renew' | 'hold';
      /** The index of the earlier charge with the units. */
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

export interface Answer {
  readonly step: string;
  readonly answer: unknown;
}

const LIMITS = [1, 2, 3, 5, 7, 10, 100, 127, 128, 1_000, 32_768, 70_000];
const WAITS = [0, 0, 0, 1, 1, 3, 50, 500, 2_000, 30_000];
const JUMPS = [-1, -100, -5_000, 3_600_000];

/** Policies for one request. In different tiers, one policy name may have different algorithms. */
export function policiesOf(algorithms: readonly Algorithm[]): fc.Arbitrary<Policy[]> {
  const policy = fc
    .tuple(policyOf(algorithms, { limits: LIMITS }), oneIn(5), oneIn(3))
    .map(([each, shadow, counts]): Policy => {
      const countsAttempts = counts && !('lease' in each) && !('maxDelay' in each);
      return { ...each, shadow, ...(countsAttempts && { count: 'attempts' }) };
    });
  return named(list(1, algorithms.length === 1 ? 2 : 3, policy));
}

/** Ban options, or undefined in half of the cases. */
export const bans: fc.Arbitrary<BanOptions | undefined> = fc.option(
  fc.record({
    after: integer(1, 3),
    within: fc.constant(10_000),
    for: fc.constant(3_000),
    factor: pick([1, 1.5, 2.25]),
    max: fc.constant(20_000),
  }),
  { nil: undefined, freq: 2 },
);

/** One cost for all policies; in some cases, a cost for each policy in turn. */
export const costsFrom = (values: readonly number[], each: readonly number[]) =>
  fc
    .tuple(pick(values), oneIn(4), list(1, 3, pick(each)))
    .map(([cost, differ, costs]) => ({ cost, ...(differ && { costs }) }));

const past = integer(0, 100);

const actions: fc.Arbitrary<TraceAction> = fc.oneof(
  {
    weight: 15,
    arbitrary: fc
      .tuple(
        costsFrom([0, 1, 1, 1, 2, 5, 200], [0, 1, 2, 5, 200]),
        oneIn(6),
        pick([undefined, undefined, 1, 2, 3]),
      )
      .map(([costs, peek, id]) => ({ do: 'decide' as const, ...costs, peek, id })),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      ...{ do: fc.constant('adjust' as const), units: pick([-1, -2, -100, 1, 5, 100]) },
      ...{ of: past, marked: fc.boolean() },
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      ...{ do: fc.constant('lease' as const), action: pick(['release', 'renew', 'hold'] as const), of: past },
    }),
  },
  fc.constant({ do: 'reset' as const }),
  pick([0, 1_000, 100_000]).map((ms) => ({ do: 'ban' as const, ms })),
);

/** @param jumps whether the clock may jump, backwards and far ahead */
export function traces(
  algorithms: readonly Algorithm[],
  { jumps = false, keys = pick<Key>(['a', 'a', 'a', 'b{}%', '']) } = {},
): fc.Arbitrary<Trace> {
  const waits = jumps ? fc.oneof({ weight: 3, arbitrary: pick(WAITS) }, pick(JUMPS)) : pick(WAITS);
  // When the clock goes back, a store may have removed expired keys for good, and memory removes keys sooner. So there is only one key.
  const key = jumps ? fc.constant('a') : keys;
  return fc.record({
    tiers: list(1, 2, policiesOf(algorithms)),
    ban: bans,
    steps: list(10, 60, fc.tuple(waits, integer(0, 1), key, actions)),
  });
}

/** Traces of policies by several dimensions, with requests that have some of the keys. */
export function mixedTraces(algorithms: readonly Algorithm[], slots: SlotOptions): fc.Arbitrary<Trace> {
  // Across slots, neither attempts nor denials can be counted.
  const across = slots.acrossSlots && { count: 'admitted' as const };
  const by = list(7, 7, pick(DIMENSIONS));
  return fc.tuple(traces(algorithms, { keys: mixedKeys }), by).map(([{ tiers, ban, steps }, by]) => ({
    tiers: tiers.map((policies, tier) =>
      policies.map((policy, i): Policy => ({
        ...policy,
        ...('count' in policy && across),
        by: by[3 * tier + i]!,
      })),
    ),
    ban: across ? undefined : ban && { ...ban, by: by[6]! },
    slots,
    steps,
  }));
}

/** A set of policies for a store that a check calls without a limiter. */
export function setOf(policies: readonly Policy[], ban?: BanOptions, slots: SlotOptions = {}): PolicySet {
  // A limiter of these policies knows all dimensions. The set only has the given policies.
  const known = DIMENSIONS.map((by): Policy => ({ name: by, by, limit: 1, window: 1_000 }));
  const options = { name: 'identity', policies: known, timeout: '1m', idsFor: IDS_FOR, ...slots } as const;
  return createLimiter(ban ? { ...options, ban } : options).compile(policies);
}

/** The time for which ids are remembered in traces: shorter than some waits of a trace together. */
const IDS_FOR = '1m';

interface Decided {
  readonly query: Query;
  readonly reply: Reply;
  readonly repeated?: boolean;
}

function wasCharged({ query, reply: { verdicts } }: Decided, i: number): boolean {
  const { set } = query;
  const admitted = (j: number) => admits(waitOf(verdicts, j));
  const isAdmitted = set.policies.every(({ shadow }, j) => shadow || admitted(j));
  return costAt(query, i) > 0 && admitted(i) && (isAdmitted || set.policies[i]!.attempts);
}

function claimOf({ query, reply, repeated }: Decided, number: number, units: number) {
  const owner = `o${number}`.padEnd(5, '.');
  const isAutomatic = number % 3 === 0;
  return { id: query.id!, step: reply.step, isFirst: !repeated, owner, isLast: units === -100, isAutomatic };
}

/** The cost of a step for the policies of a set. */
export function costsIn({ cost, costs }: Costs, policies: number): Costs {
  if (!costs || policies === 0) return { cost };
  const each = Array.from({ length: policies }, (_, i) => costs[i % costs.length]!);
  const most = Math.max(...each);
  // Stores take equal costs as one number.
  return each.every((units) => units === most) ? { cost: most } : { cost: most, costs: each };
}

/**
 * Plays a trace on a store.
 *
 * @param remembersIds whether the requests have their ids
 */
export async function play(
  store: Store,
  clock: TestClock,
  { tiers, ban, slots, steps }: Trace,
  remembersIds = false,
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
        const peek = action.peek || costs.cost === 0;
        // A repetition cannot hold slots. Ids across slots are refused. If the clock goes back, a store may have forgotten an id.
        const hasId = remembersIds && !peek && !jumps && !slots?.acrossSlots && action.id !== undefined;
        const isRepeatable = hasId && !set.policies.some(({ source }) => countsSlots(source));
        // An id belongs to the request's keys.
        const id = isRepeatable ? JSON.stringify([action.id, keys]) : undefined;
        const query: Query = { set, key, ...costs, peek, lease: `l${i}`, ...(id && { id }) };
        const reply = await store.decide(query);
        const { first, isIdSpent = false } = reply;
        if (first) {
          // A repetition has the query and the answer of an earlier decision, perhaps by other policies. Denials may have the same step.
          const { by, costs, verdicts } = first;
          const isSame = ({ query, reply: { step, verdicts: own } }: Decided) =>
            query.id === id && step === reply.step && own.join() === verdicts.join();
          const of = charged.find(isSame);
          record({ first: { of: of && charged.indexOf(of), by, costs, verdicts: [...verdicts] } });
          if (of) charged.push({ ...of, repeated: true });
        } else {
          record({ now: reply.now - start, ban: reply.ban, verdicts: [...reply.verdicts], isIdSpent });
          const known: Query = isIdSpent ? { ...query, id: undefined } : query;
          if (!peek) charged.push({ query: known, reply });
        }
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
          // Limiters never return units of a decision that charged nothing, and a store may have given its step to the next decision.
          claim:
            isOf && query.id !== undefined && units.some((each) => each !== 0)
              ? claimOf(past, action.of % charged.length, action.units)
              : undefined,
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
