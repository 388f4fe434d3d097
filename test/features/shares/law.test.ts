// Law 18. A shared limit is never exceeded, a lone tenant gets all of it, and backlogged tenants divide it by their weights. Law 4 for
// shared limits: all stores return the same decisions.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { createLimiter, type Decision } from 'headgate';
import {
  deniedOfLight,
  lightTenants,
  serve as serveBy,
  type Demand,
  type Served,
} from '../../../scripts/bench/lib/share-world.js';
import { runs } from '../../support/random.js';
import {
  expectExactRetries,
  expectExactRetry,
  expectSame,
  keyOf,
  SHARED_POLICIES,
  shareStep,
} from './traces.js';
import { START, stores, TestClock, type CreateStore } from '../../support/stores.js';

const POLICY = '1000/10s by provider share tenant';

function limiterOf(create: CreateStore, policies: string | string[] = POLICY) {
  const clock = new TestClock();
  return { clock, limiter: createLimiter({ store: create(() => clock.now), policies, timeout: '10s' }) };
}

describe('law 4, identity of shares', () => {
  for (const [name, create] of Object.entries(stores)) {
    if (name === 'memory') continue;
    for (const policies of SHARED_POLICIES)
      it(`memory and ${name}, ${String(policies)}`, () =>
        expectSame([stores.memory, create], policies, runs(name, 40, 12))).timeout(60_000);
  }
});

const briefStep = fc.record({
  wait: fc.integer({ min: 0, max: 1500 }),
  tenant: fc.constantFrom('a', 'b', 'c'),
  cost: fc.integer({ min: 1, max: 2 }),
});

/** 0 and 1: the refund of the oldest and of the newest admitted request, instead of a request. */
const refundStep = fc.record({
  ...{ wait: fc.integer({ min: 0, max: 1500 }), tenant: fc.constantFrom('a', 'b', 'c') },
  ...{ cost: fc.integer({ min: 1, max: 3 }), action: fc.integer({ min: 0, max: 5 }) },
  weight: fc.constantFrom(undefined, undefined, 3),
});

/** A trace after which the share of `c` shrinks before another policy admits. */
const SHRINKING = (
  [
    [0, 'a', 1],
    [0, 'a', 1],
    [747, 'b', 1],
    [96, 'c', 2],
    [715, 'b', 1],
    [676, 'b', 1],
    [989, 'b', 1],
    [563, 'a', 2],
    [966, 'c', 1],
    [748, 'b', 1],
    [0, 'a', 2],
    [0, 'c', 1],
  ] as const
).map(([wait, tenant, cost]) => ({ wait, tenant, cost }));

/** Limits of a few units, for which the end of any state shows in a retry. */
const RETRIED = [
  ['5/6s by provider share tenant'],
  ['5/1s by provider share tenant'],
  ['5/6s segments 1 by provider share tenant'],
  ['30/6s segments 3 by provider share tenant'],
  ['5/6s by provider share tenant', 'other=3/10s by tenant'],
];

/** A trace after which the state of `b` expires within a segment of the limit, which has begun anew since. */
const EXPIRING = (
  [
    [170, 'c', 2],
    [1996, 'a', 2],
    [4069, 'b', 2],
    [1379, 'a', 2],
    [1429, 'c', 1],
    [1017, 'c', 1],
  ] as const
).map(([wait, tenant, cost]) => ({ wait, tenant, cost, action: 5, weight: undefined }));

/** Serves random requests for some seconds, and counts from `since` on. Fails if a window of the limit has more units than the limit. */
async function serve(create: CreateStore, demands: readonly Demand[], seconds: number, since = 0, seed = 1) {
  const { clock, limiter } = limiterOf(create);
  const { served, most } = await serveBy(demands, {
    ...{ limit: 1000, window: 10_000, seconds, since, seed },
    ask: async ({ at, tenant, cost, weight }) => {
      clock.now = START + at;
      return (await limiter.consume(keyOf(tenant), { cost, weight })).allowed;
    },
  });
  assert.ok(most <= 1000, `${most} units in a window`);
  return served;
}

const unitsOf = (served: ReadonlyMap<string, Served>, tenant: string): number => served.get(tenant)!.units;

const within = (actual: number, expected: number, part: number, what: string) =>
  assert.ok(Math.abs(actual / expected - 1) <= part, `${what}: ${actual} instead of ${expected}`);

/** The tests of shares by thousands of random requests. */
function describeRules(create: CreateStore) {
  it('gives a lone tenant all of the limit', async () => {
    const { clock, limiter } = limiterOf(create);
    let units = 0;
    for (let i = 0; i < 3000; i++) {
      clock.now += 3;
      if ((await limiter.consume(keyOf('a'))).allowed) units++;
    }
    assert.ok(units >= 990, `${units}`);
  });

  it('divides the limit among backlogged tenants by weight', async () => {
    const weights = [1, 2, 5, 1, 2, 5];
    const demands = weights.map((weight, i) => ({ tenant: `${i}`, rate: 200, weight }));
    const served = await serve(create, demands, 64, 20);
    const all = [...served.values()].reduce((sum, { units }) => sum + units, 0);
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    for (const [i, weight] of weights.entries())
      within(unitsOf(served, `${i}`), (all * weight) / total, 0.03, `tenant ${i}`);
  });

  it('denies light tenants at most 1 % from one segment after a hog began', async () => {
    const demands = [...lightTenants(50, 44), { tenant: 'hog', rate: 250, from: 15 }];
    const served = await serve(create, demands, 116, 16);
    assert.ok(deniedOfLight(served) <= 0.01, `${deniedOfLight(served)}`);
  });

  // In the first segment of the flood, the demand of the hog counts as light, and makes a light tenant with much demand heavy for a while.
  for (const count of [1, 2])
    it(`denies ${count === 1 ? 'a sole light tenant' : 'two light tenants'} at most 1 % in the window after the first segment of a hog`, async () => {
      let denied = 0;
      const seeds = [1, 2, 3, 4, 5, 6];
      for (const seed of seeds) {
        const demands = [...lightTenants(count, 35), { tenant: 'hog', rate: 1100, from: 25 }];
        denied += deniedOfLight(await serve(create, demands, 36, 26, seed));
      }
      assert.ok(denied / seeds.length <= 0.01, `${denied / seeds.length}`);
    });

  it('gives a second hog as much as the first within a window', async () => {
    const demands = [
      { tenant: 'first', rate: 500 },
      { tenant: 'second', rate: 500, from: 15 },
    ];
    const served = await serve(create, demands, 26, 15);
    within(unitsOf(served, 'second'), unitsOf(served, 'first'), 0.05, 'second');
  });

  it('gives tenants with large and with small costs the same units', async () => {
    const demands = [
      { tenant: 'large', rate: 20, cost: 40 },
      { tenant: 'small', rate: 300, cost: 1 },
    ];
    const served = await serve(create, demands, 81, 15);
    within(unitsOf(served, 'large'), unitsOf(served, 'small'), 0.1, 'large');
  });

  it('rewards no retries', async () => {
    const demands = [
      { tenant: 'patient', rate: 80 },
      { tenant: 'eager', rate: 640 },
    ];
    const served = await serve(create, demands, 59, 15);
    assert.ok(unitsOf(served, 'eager') <= 1.03 * unitsOf(served, 'patient'));
  });
}

for (const [name, create] of Object.entries(stores)) {
  describe(`law 18, fair shares, on ${name}`, function () {
    this.timeout(120_000);

    // The servers decide alike (law 4). Thousands of decisions on servers are in slow/proof.test.ts.
    if (name === 'memory') describeRules(create);

    it('admits a denied cost exactly at its retryAfterMs', () =>
      fc.assert(
        fc.asyncProperty(fc.array(shareStep, { minLength: 60, maxLength: 120 }), async (steps) => {
          const { clock, limiter } = limiterOf(create, '100/10s by provider share tenant');
          for (const each of steps.map(({ wait, ...rest }) => ({ ...rest, wait: wait % 300 }))) {
            clock.now += each.wait;
            await limiter.consume(keyOf(each.tenant), { cost: each.cost, weight: each.weight });
          }
          await expectExactRetries(limiter, clock, ['a', 'b', 'c', 'd', 'e'], 1 + (steps.length % 30));
        }),
        runs(name, 60, 10),
      ));

    it('admits a denied cost exactly at its retryAfterMs, also once the limit is empty, after refunds, and beside a longer policy', () =>
      fc.assert(
        fc.asyncProperty(
          fc.constantFrom(...RETRIED),
          fc.array(refundStep, { minLength: 5, maxLength: 30 }),
          async (policies, steps) => {
            const { clock, limiter } = limiterOf(create, policies);
            const held: Decision[] = [];
            for (const { wait, tenant, cost, action, weight } of steps) {
              clock.now += wait;
              const returned = action === 0 ? held.shift() : action === 1 ? held.pop() : undefined;
              if (returned) {
                await returned.refund();
                continue;
              }
              const decision = await limiter.consume(keyOf(tenant), { cost, weight });
              if (decision.allowed) held.push(decision);
              else await expectExactRetry(limiter, clock, { tenant, cost, weight }, decision);
            }
            await expectExactRetries(limiter, clock, ['a', 'b', 'c'], 1);
            await expectExactRetries(limiter, clock, ['a', 'b', 'c'], 3);
          },
        ),
        { ...runs(name, 150, 10), examples: [[RETRIED[0]!, EXPIRING]] },
      ));

    it('admits a cost that another policy denied exactly at its retryAfterMs, although shares shrink meanwhile', () =>
      fc.assert(
        fc.asyncProperty(fc.array(briefStep, { minLength: 10, maxLength: 40 }), async (steps) => {
          const policies = ['20/10s by provider share tenant', 'other=4/5s by tenant'];
          const { clock, limiter } = limiterOf(create, policies);
          for (const { wait, tenant, cost } of steps) {
            clock.now += wait;
            await limiter.consume(keyOf(tenant), { cost });
          }
          for (const cost of [1, 2]) await expectExactRetries(limiter, clock, ['a', 'b', 'c'], cost);
        }),
        { ...runs(name, 120, 30), examples: [[SHRINKING]] },
      ));

    it('reports the reason fair-share if only the share denies, and the share', async () => {
      const { clock, limiter } = limiterOf(create);
      for (let i = 0; i < 110; i++) {
        await limiter.consume(keyOf('light'), { cost: 4 });
        clock.now += 100;
      }
      let decision = await limiter.consume(keyOf('hog'), { cost: 20 });
      for (let i = 0; i < 40 && decision.allowed; i++)
        decision = await limiter.consume(keyOf('hog'), { cost: 20 });
      const [verdict] = decision.policies;
      assert.equal(decision.reason, 'fair-share');
      assert.ok(verdict!.share! > 500 && verdict!.share! < 560, `${verdict!.share}`);
      assert.ok(verdict!.remaining < 20);
      const { allowed, policies } = await limiter.consume(keyOf('light'), { cost: 20 });
      assert.equal(allowed, true);
      assert.ok(policies[0]!.share! > 300);
    });
  });
}
