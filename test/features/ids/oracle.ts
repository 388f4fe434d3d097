// Request ids by their documentation, from a plain list of charges. Independent of the code under test: each count is a sum over the list.
import { expect } from 'chai';
import fc from 'fast-check';
import type { Decision, Key, Store } from 'headgate';
import { limiterOn, TestClock } from '../../support/clock.js';

const MINUTE = 60_000;
const IDS_FOR = 10 * MINUTE;
const REPEATS = 2;

/** A policy by its name. Windows never end within a run. */
const LIMITS: Readonly<Record<string, number>> = { wide: 40, shared: 12, org: 15, shadow: 6, tries: 9 };
const TIERS: Readonly<Record<string, readonly (readonly [name: string, limit: number])[]>> = {
  free: [
    ['wide', LIMITS['wide']!],
    ['shared', LIMITS['shared']!],
    ['org', LIMITS['org']!],
  ],
  pro: [
    // Counts together with the policy of the other tier.
    ['shared', 30],
    ['shadow', LIMITS['shadow']!],
    ['org', LIMITS['org']!],
    ['tries', LIMITS['tries']!],
  ],
};
const EXTRAS: Readonly<Record<string, string>> = {
  org: ' by org',
  shadow: ' shadow',
  tries: ' attempts',
};
const textsOf = (tier: string): string[] =>
  TIERS[tier]!.map(([name, limit]) => `${name}=fixed-window ${limit}/1h${EXTRAS[name] ?? ''}`);

const ID_OPTIONS = {
  name: 'ids',
  tiers: { free: textsOf('free'), pro: textsOf('pro') },
  ...{ idsFor: IDS_FOR, repeats: REPEATS, overrides: true, ban: {}, timeout: '1m', warnings: false },
};

const KEYS: readonly Exclude<Key, string>[] = [
  { key: 'k' },
  { key: 'l' },
  { key: 'k', org: 'o' },
  { key: 'l', org: 'o' },
  { key: 'k', org: 'p' },
];

type Cost = number | Record<string, number>;

type Step =
  | { do: 'consume'; key: number; id: string | undefined; tier: string; cost: Cost; process: number }
  | { do: 'settle'; of: number; to: Cost }
  | { do: 'override'; change: object | undefined }
  | { do: 'ban'; isBanned: boolean }
  | { do: 'wait'; ms: number };

const costs = fc.oneof(
  { weight: 4, arbitrary: fc.integer({ min: 1, max: 6 }) },
  { weight: 1, arbitrary: fc.constant(0) },
  {
    weight: 2,
    arbitrary: fc.record({
      ...{ shared: fc.integer({ min: 0, max: 6 }), org: fc.integer({ min: 0, max: 6 }) },
    }),
  },
) as fc.Arbitrary<Cost>;

const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    {
      weight: 12,
      arbitrary: fc.record({
        ...{ do: fc.constant('consume' as const), key: fc.nat(KEYS.length - 1), cost: costs },
        id: fc.constantFrom('x', 'x', 'y', undefined),
        ...{ tier: fc.constantFrom('free', 'free', 'pro'), process: fc.nat(1) },
      }),
    },
    {
      weight: 8,
      arbitrary: fc.record({
        ...{ do: fc.constant('settle' as const), of: fc.nat(200) },
        to: fc.oneof(fc.constant<Cost>(0), fc.constant<Cost>(0), costs),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        do: fc.constant('override' as const),
        change: fc.constantFrom<object | undefined>(
          { tier: 'pro' },
          { tier: 'free' },
          { shared: { limit: 3 } },
          { shared: { limit: 50 } },
          undefined,
        ),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ do: fc.constant('ban' as const), isBanned: fc.boolean() }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        ...{ do: fc.constant('wait' as const), ms: fc.constantFrom(1000, IDS_FOR - 1, IDS_FOR) },
      }),
    },
  ),
  { minLength: 8, maxLength: 40 },
);

interface Verdict {
  readonly name: string;
  readonly key: string;
  readonly limit: number;
  readonly remaining: number;
  readonly allowed: boolean;
}

/** The charge of one request, which its decisions share. */
interface Charge {
  readonly at: number;
  readonly verdicts: readonly Verdict[];
  readonly costs: readonly number[];
  readonly hasId: boolean;
  used: number;
  isFree: boolean;
  /** The number of the decision that may change the charge. */
  owner: number | undefined;
}

/** A decision as its holder sees it. */
interface Held {
  readonly decision: Decision;
  readonly charge: Charge;
  readonly isFirst: boolean;
  units: number[];
}

class Oracle {
  readonly #charges: { policy: string; key: string; units: number }[] = [];
  readonly #records = new Map<string, Charge>();
  override: { tier?: string; shared?: { limit: number } } | undefined;
  isBanned = false;

  used(policy: string, key: string): number {
    const own = this.#charges.filter((each) => each.policy === policy && each.key === key);
    return own.reduce((sum, { units }) => sum + units, 0);
  }

  charge(policy: string, key: string, units: number): void {
    if (units !== 0) this.#charges.push({ policy, key, units });
  }

  /** The policies of a request, each with its key and limit. */
  policies(keys: Exclude<Key, string>, tier: string): { name: string; key: string; limit: number }[] {
    const change = keys['key'] === 'k' ? this.override : undefined;
    return TIERS[change?.tier ?? tier]!.flatMap(([name, limit]) => {
      const key = keys[name === 'org' ? 'org' : 'key'];
      const own = (name === 'shared' && change?.shared?.limit) || limit;
      return key === undefined ? [] : [{ name, key, limit: own }];
    });
  }

  /** The charge of the first request with the id, if the request repeats it; the new charge; or undefined for a denial. */
  consume(
    now: number,
    { id, tier, cost, key: at }: Step & { do: 'consume' },
  ): [Charge?, isRepeated?: boolean] {
    const keys = KEYS[at]!;
    const policies = this.policies(keys, tier);
    const costs = policies.map(({ name }) => (typeof cost === 'number' ? cost : (cost[name] ?? 1)));
    const own = costs.every((each) => each === 0) ? undefined : id && `${id} ${at}`;
    const record = own === undefined ? undefined : this.#records.get(own);
    const isKnown = record && !record.isFree && now < record.at + IDS_FOR;
    if (isKnown && record.used < REPEATS) {
      record.used++;
      return [record, true];
    }
    if (this.isBanned && keys['key'] === 'k') return [];
    const admits = policies.map((each, i) => this.used(each.name, each.key) + costs[i]! <= each.limit);
    const isAdmitted = policies.every(({ name }, i) => name === 'shadow' || admits[i]! || costs[i] === 0);
    const verdicts = policies.map(({ name, key, limit }, i): Verdict => {
      const allowed = admits[i]! || costs[i] === 0;
      if (allowed && (isAdmitted || name === 'tries')) this.charge(name, key, costs[i]!);
      return { name, key, limit, remaining: Math.max(0, limit - this.used(name, key)), allowed };
    });
    if (!isAdmitted) return [];
    const hasId = own !== undefined && !isKnown;
    const charge: Charge = { at: now, verdicts, costs, hasId, used: 0, isFree: false, owner: undefined };
    if (hasId) this.#records.set(own, charge);
    return [charge, false];
  }

  settle(now: number, held: Held, number: number, to: Cost): void {
    const { charge, isFirst, units } = held;
    const wanted = charge.verdicts.map(({ name, allowed }, i) => {
      if (!allowed) return 0;
      return typeof to === 'number' ? to : (to[name] ?? units[i]!);
    });
    held.units = wanted;
    if (wanted.every((each, i) => each === units[i])) return;
    if (charge.owner === undefined) {
      if (!isFirst && (charge.isFree || now >= charge.at + IDS_FOR)) return;
      charge.owner = number;
    }
    if (charge.owner !== number) return;
    if (wanted.every((each) => each === 0)) {
      // A repeated id is spent instead, so that no return begins further free repetitions.
      if (charge.used === 0) charge.isFree = true;
      else charge.used = REPEATS;
    }
    charge.verdicts.forEach(({ name, key }, i) => this.charge(name, key, wanted[i]! - units[i]!));
  }
}

/** Plays random requests with repeated ids on a store, as two processes, and compares each answer and every count with the oracle. */
export async function checkIds(
  createStore: (clock: () => number) => Store | Promise<Store>,
  numRuns: number,
): Promise<void> {
  const run = async (all: readonly Step[]): Promise<void> => {
    const clock = new TestClock();
    const store = await createStore(clock.read);
    const limiters = [0, 1].map(() => limiterOn(store, ID_OPTIONS as never));
    const [limiter] = limiters;
    const oracle = new Oracle();
    const held: Held[] = [];
    const end = clock.now + 59 * MINUTE;
    for (const step of all) {
      const what = JSON.stringify(step);
      switch (step.do) {
        case 'consume': {
          const { key, cost, id, tier, process } = step;
          const decision = await limiters[process]!.consume(KEYS[key]!, { cost, tier, id });
          const [charge, isRepeated = false] = oracle.consume(clock.now, step);
          expect([decision.allowed, decision.repeated], what).to.deep.equal([!!charge, isRepeated]);
          if (!charge) break;
          const seen = decision.policies.map(({ name, limit, remaining, allowed, key: own }) => {
            return { name, key: own, limit, remaining, allowed };
          });
          expect(seen, what).to.deep.equal(charge.verdicts);
          const units = charge.costs.map((each, i) => (charge.verdicts[i]!.allowed ? each : 0));
          held.push({ decision, charge, isFirst: !isRepeated, units });
          break;
        }
        case 'settle': {
          if (held.length === 0) break;
          const number = step.of % held.length;
          oracle.settle(clock.now, held[number]!, number, step.to);
          await held[number]!.decision.settle(step.to);
          break;
        }
        case 'override':
          oracle.override = step.change;
          if (step.change) await limiter!.override('k', step.change);
          else await limiter!.removeOverride('k');
          break;
        case 'ban':
          oracle.isBanned = step.isBanned;
          await (step.isBanned ? limiter!.ban('k', '2h') : limiter!.unban('k'));
          break;
        case 'wait':
          if (clock.now + step.ms < end) clock.now += step.ms;
      }
      const places = KEYS.slice(2).flatMap((keys) => ['free', 'pro'].map((tier) => [keys, tier] as const));
      const usages = await Promise.all(places.map(([keys, tier]) => limiter!.usage(keys, { tier })));
      for (const [i, { policies }] of usages.entries()) {
        const [keys, tier] = places[i]!;
        const left = policies.map(({ name, remaining }) => `${name} ${remaining}`);
        const expected = oracle.policies(keys, tier).map(({ name, key, limit }) => {
          return `${name} ${Math.max(0, limit - oracle.used(name, key))}`;
        });
        expect(left, `${what}, left of ${JSON.stringify(keys)}`).to.deep.equal(expected);
      }
    }
    await Promise.all(limiters.map((each) => each.close()));
    await store.close?.();
  };
  await fc.assert(fc.asyncProperty(steps, run), { numRuns });
}
