// Law 19: a threshold is reported exactly once per key, window and threshold. The oracle knows only the usage before and after each
// operation.
import fc from 'fast-check';
import { expect } from 'chai';
import { createLimiter, type Decision, type Policy, type ThresholdEvent } from 'headgate';
import { runs } from '../../support/random.js';
import { stores, TestClock, type CreateStore } from '../../support/stores.js';

const HOUR = 3_600_000;
const THRESHOLDS = [0.25, 0.5, 0.8, 1];

const policies: Policy[] = [
  { name: 'fixed', algorithm: 'fixed-window', limit: 20, window: '1h' },
  { name: 'sliding', algorithm: 'sliding-window', limit: 20, window: '1h' },
  { name: 'log', algorithm: 'sliding-log', limit: 20, window: '1h' },
  { name: 'bucket', algorithm: 'token-bucket', limit: 20, window: '1h', burst: 10 },
  { name: 'leaky', algorithm: 'leaky-bucket', limit: 20, window: '1h', maxDelay: '1h' },
  { name: 'day', algorithm: 'calendar', limit: 20, period: 'hour' },
  { name: 'attempts', algorithm: 'fixed-window', limit: 30, window: '2h', count: 'attempts' },
  { name: 'shadow', algorithm: 'fixed-window', limit: 8, window: '1h', shadow: true },
  { name: 'org', algorithm: 'fixed-window', limit: 25, window: '1h', by: 'org' },
];

type Action =
  | { readonly do: 'consume'; readonly cost: number; readonly key: string; readonly id: string | undefined }
  | { readonly do: 'settle' | 'refund'; readonly units: number; readonly key: string }
  | { readonly do: 'override'; readonly limit: number; readonly key: string }
  | { readonly do: 'restore' | 'reset'; readonly key: string }
  | { readonly do: 'wait'; readonly ms: number };

const key = fc.constantFrom('a', 'b');
const id = fc.option(fc.constantFrom('x', 'y', 'z'), { nil: undefined });
const action: fc.Arbitrary<Action> = fc.oneof(
  {
    weight: 10,
    arbitrary: fc.record({ do: fc.constant('consume'), cost: fc.integer({ min: 0, max: 9 }), key, id }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('settle'), units: fc.nat(14), key }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('refund'), units: fc.integer({ min: 1, max: 9 }), key }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant('override'), limit: fc.integer({ min: 5, max: 60 }), key }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('restore', 'reset'), key }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('wait'), ms: fc.integer({ min: 1, max: HOUR }) }) },
);

type Shown = Pick<ThresholdEvent, 'policy' | 'key' | 'threshold' | 'used' | 'limit'>;

/** The state that the law allows to be known: which thresholds were reported, at which limits, and until when. */
class Oracle {
  readonly #windows = new Map<string, { until: number; limits: Map<number, number> }>();

  /** The events of one charge, from the usage before and after it. */
  expect(policy: string, key: string, before: Quota, after: Quota, now: number): Shown[] {
    const id = `${policy} ${key}`;
    let window = this.#windows.get(id);
    if (!window || window.until <= now) window = { until: 0, limits: new Map() };
    const events: Shown[] = [];
    for (const threshold of THRESHOLDS) {
      const reaches = ({ used }: Quota): boolean => used * 1000 >= Math.round(threshold * 1000) * after.limit;
      if (!reaches(after)) continue;
      const last = window.limits.get(threshold);
      const isNew = last === undefined || (after.limit > last && !reaches(before));
      if (!isNew) continue;
      window.limits.set(threshold, after.limit);
      events.push({ policy, key, threshold, used: after.used, limit: after.limit });
    }
    if (events.length > 0) {
      window.until = Math.max(window.until, after.resetsAt);
      this.#windows.set(id, window);
    }
    return events;
  }

  forget(policy: string, key: string): void {
    this.#windows.delete(`${policy} ${key}`);
  }
}

interface Quota {
  readonly used: number;
  readonly limit: number;
  readonly resetsAt: number;
}

async function play(
  createStore: CreateStore,
  chosen: readonly Policy[],
  actions: readonly Action[],
): Promise<void> {
  const clock = new TestClock();
  const events: ThresholdEvent[] = [];
  const limiter = createLimiter({
    name: 'law',
    store: createStore(clock.read),
    policies: chosen.map((policy) => ({ ...policy, thresholds: THRESHOLDS })) as never,
    overrides: true,
    timeout: '10s',
    warnings: false,
    onThreshold: (event) => events.push(event),
  });
  const oracle = new Oracle();
  const last = new Map<string, { decision: Decision; units: number }>();
  const dimensions = chosen.some(({ by }) => by !== undefined);
  const keyOf = (key: string) => (dimensions ? { key, org: 'o' } : key);
  const shown = (list: readonly Shown[]) =>
    list
      .map(({ policy, key, threshold, used, limit }) => ({ policy, key, threshold, used, limit }))
      .sort(
        (a, b) =>
          chosen.findIndex(({ name }) => name === a.policy) -
            chosen.findIndex(({ name }) => name === b.policy) || a.threshold - b.threshold,
      );
  const quotas = async (key: string): Promise<Map<string, Quota & { key: string }>> => {
    const { policies: all } = await limiter.usage(keyOf(key));
    return new Map(
      all.map((quota) => {
        return [quota.name, { ...quota, limit: quota.used + quota.remaining }];
      }),
    );
  };
  for (const each of actions) {
    if (each.do === 'wait') {
      clock.now += each.ms;
      continue;
    }
    const { key } = each;
    const before = await quotas(key);
    let charged: readonly string[];
    if (each.do === 'consume') {
      const id = each.id === undefined || each.cost === 0 ? {} : { id: each.id };
      const decision = await limiter.consume(keyOf(key), { cost: each.cost, ...id });
      const isCharged = each.cost > 0 && !decision.repeated;
      if (decision.allowed && isCharged) last.set(key, { decision, units: each.cost });
      charged = decision.policies
        .filter(({ name, allowed }) => {
          const { count } = chosen.find((policy) => policy.name === name) as { count?: string };
          return isCharged && allowed && (decision.allowed || count === 'attempts');
        })
        .map(({ name }) => name);
    } else if (each.do === 'settle') {
      const settled = last.get(key);
      const isMore = settled !== undefined && each.units > settled.units;
      await settled?.decision.settle(each.units);
      if (settled) settled.units = each.units;
      charged = isMore ? settled.decision.policies.flatMap(({ name, allowed }) => (allowed ? name : [])) : [];
    } else if (each.do === 'refund') {
      await limiter.refund(keyOf(key), each.units);
      charged = [];
    } else if (each.do === 'override') {
      await limiter.override(
        key,
        Object.fromEntries(
          chosen.filter(({ by }) => by === undefined).map(({ name }) => [name, { limit: each.limit }]),
        ) as never,
        { for: '3h' },
      );
      charged = [];
    } else if (each.do === 'restore') {
      await limiter.removeOverride(key);
      charged = [];
    } else {
      await limiter.reset(keyOf(key));
      last.clear();
      charged = [];
      for (const { name } of chosen) oracle.forget(name!, before.get(name!)!.key);
    }
    const after = await quotas(key);
    const expected = charged.flatMap((name) =>
      oracle.expect(name, after.get(name)!.key, before.get(name)!, after.get(name)!, clock.now),
    );
    expect(shown(events.splice(0))).to.deep.equal(shown(expected), JSON.stringify(each));
  }
  await limiter.close();
}

for (const [name, createStore] of Object.entries(stores)) {
  describe(`law 19: thresholds, on ${name}`, () => {
    for (const policy of policies.filter(({ by }) => by === undefined))
      it(`${policy.name!}: reports each threshold once per window, whatever is settled, refunded or overridden`, () =>
        fc.assert(
          fc.asyncProperty(fc.array(action, { maxLength: 40 }), (actions) =>
            play(createStore, [policy], actions),
          ),
          runs(name, 100, 25),
        ));

    it('all policies and dimensions together: reports each of them', () =>
      fc.assert(
        fc.asyncProperty(
          fc.shuffledSubarray(policies, { minLength: 2 }),
          fc.array(action, { maxLength: 30 }),
          (chosen, actions) => play(createStore, chosen, actions),
        ),
        runs(name, 100, 25),
      ));
  });
}
