// Law 16, compared with a model that knows every charge: spent units count against the limit in force.
import { expect } from 'chai';
import fc from 'fast-check';
import type { Limiter, Policy } from 'headgate';
import { runs } from '../../support/random.js';
import { limiterOn, stores, TestClock } from '../../support/stores.js';

const WINDOW = 60_000;
/** The limits divide the window, so that a unit takes a whole number of milliseconds. */
const limits = [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 60];

/** A model of the units that a key may spend. A result of `undefined` means that rounding decides. */
interface Model {
  /** Whether `limit` admits the cost at `now`, and the units left. An admitted cost is charged. */
  spend(cost: number, limit: number, now: number): { allowed: boolean; remaining: number } | undefined;
  /** Changes the limit. */
  change(before: number, after: number, now: number): void;
}

class FixedWindow implements Model {
  #used = 0;
  #stop = 0;

  spend(cost: number, limit: number, now: number) {
    if (now >= this.#stop) [this.#used, this.#stop] = [0, now + WINDOW];
    const allowed = this.#used + cost <= limit;
    if (allowed) this.#used += cost;
    else if (this.#used === 0) this.#stop = 0;
    return { allowed, remaining: Math.max(0, limit - this.#used) };
  }

  change() {}
}

class SlidingLog implements Model {
  #charges: { at: number; cost: number }[] = [];

  spend(cost: number, limit: number, now: number) {
    this.#charges = this.#charges.filter(({ at }) => at + WINDOW > now);
    const used = this.#charges.reduce((sum, charge) => sum + charge.cost, 0);
    const allowed = used + cost <= limit;
    if (allowed) this.#charges.push({ at: now, cost });
    return { allowed, remaining: Math.max(0, limit - used - (allowed ? cost : 0)) };
  }

  change() {}
}

/** A bucket whose debt is a fraction of units. */
class Bucket implements Model {
  #debt = 0;
  #beyond = 0;
  #isCut = false;
  #at = 0;
  #charged = 0;
  /** Each change of the rate rounds up to a part of a millisecond. */
  #doubt = 1e-6;

  #drain(limit: number, now: number) {
    this.#debt = Math.max(0, this.#debt - ((now - this.#at) * limit) / WINDOW);
    if (this.#debt === 0) this.#beyond = 0;
    this.#at = now;
  }

  spend(cost: number, limit: number, now: number) {
    this.#drain(limit, now);
    const over = this.#debt + cost - limit;
    const room = limit - this.#debt;
    const isExact = this.#doubt < 1e-3;
    // After a limit that cut off a part of the debt, a charge counts for longer than the record keeps its time.
    if (this.#isCut && now - this.#charged > WINDOW) return undefined;
    if (Math.abs(over) < this.#doubt && !(isExact && over === 0)) return undefined;
    const allowed = over <= 0;
    if (allowed) [this.#debt, this.#charged] = [this.#debt + cost, now];
    const remaining = Math.max(0, room - (allowed ? cost : 0));
    if (Math.abs(remaining - Math.round(remaining)) < this.#doubt && !(isExact && remaining % 1 === 0))
      return undefined;
    return { allowed, remaining: Math.floor(remaining) };
  }

  change(before: number, after: number, now: number) {
    this.#drain(before, now);
    const owed = this.#debt + this.#beyond;
    // No client waits longer than one window for a unit.
    this.#debt = Math.min(owed, 2 * after - 1);
    this.#beyond = owed - this.#debt;
    this.#isCut ||= this.#beyond > 0;
    this.#doubt += 0.01;
  }
}

const models: [Policy['algorithm'], () => Model][] = [
  ['fixed-window', () => new FixedWindow()],
  ['sliding-log', () => new SlidingLog()],
  ['token-bucket', () => new Bucket()],
  ['gcra', () => new Bucket()],
];

type Step = { wait: number; by: number } & (
  | { do: 'spend'; cost: number }
  | { do: 'override'; limit: number; lasts: number | undefined }
  | { do: 'remove' }
);

const wait = fc.constantFrom(0, 0, 1, 250, 1_000, 5_000, 31_000);
const by = fc.nat(1);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      wait,
      do: fc.constant('spend' as const),
      cost: fc.integer({ min: 1, max: 4 }),
      by,
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      wait,
      do: fc.constant('override' as const),
      limit: fc.constantFrom(...limits),
      by,
      lasts: fc.constantFrom(undefined, 1_000, 7_000, 40_000),
    }),
  },
  { weight: 1, arbitrary: fc.record({ wait, do: fc.constant('remove' as const), by }) },
);

for (const [name, createStore] of Object.entries(stores)) {
  describe(`law 16: live limits, on ${name}`, () => {
    for (const [algorithm, makeModel] of models) {
      it(`${algorithm}: every decision of two limiters equals that of the model`, () =>
        fc.assert(
          fc.asyncProperty(
            fc.constantFrom(...limits),
            fc.array(step, { minLength: 5, maxLength: 25 }),
            async (limit, steps) => {
              const clock = new TestClock();
              const store = createStore(clock.read);
              const options = { name: 'x', algorithm, limit, window: WINDOW, overrides: true } as never;
              const limiters = [limiterOn(store, options), limiterOn(store, options)] as [Limiter, Limiter];
              const model = makeModel();
              let [inForce, until, isOverridden] = [limit, Infinity, false];
              const changeTo = (next: number, at: number) => {
                if (next !== inForce) model.change(inForce, next, at);
                inForce = next;
              };
              for (const step of steps) {
                // A bucket without requests is full once its rate would have filled it.
                clock.now += step.wait;
                if (clock.now >= until) {
                  changeTo(limit, until);
                  [until, isOverridden] = [Infinity, false];
                }
                const limiter = limiters[step.by]!;
                if (step.do === 'spend') {
                  const expected = model.spend(step.cost, inForce, clock.now);
                  const { allowed, remaining, limit: told } = await limiter.consume('k', { cost: step.cost });
                  expect(told).to.equal(inForce);
                  if (!expected) return;
                  expect({ allowed, remaining }).to.deep.equal(expected);
                } else if (step.do === 'override') {
                  await limiter.override(
                    'k',
                    { limit: step.limit },
                    step.lasts === undefined ? {} : { for: step.lasts },
                  );
                  changeTo(step.limit, clock.now);
                  isOverridden = true;
                  until = step.lasts === undefined ? Infinity : clock.now + step.lasts;
                } else {
                  expect(await limiter.removeOverride('k')).to.equal(isOverridden);
                  changeTo(limit, clock.now);
                  [until, isOverridden] = [Infinity, false];
                }
              }
              await Promise.all(limiters.map((one) => one.close()));
            },
          ),
          runs(name, 300, 20),
        ));
    }
  });
}

type Change = { wait: number } & (
  { do: 'spend'; cost: number } | { do: 'override'; limit: number } | { do: 'remove' }
);

/** Steps between a charge and its return. Only the charged key takes the steps; its twin does not. */
const between: fc.Arbitrary<Change[]> = fc.array(
  fc.oneof(
    fc.record({ wait, do: fc.constant('spend' as const), cost: fc.integer({ min: 1, max: 3 }) }),
    fc.record({ wait, do: fc.constant('override' as const), limit: fc.constantFrom(...limits) }),
    fc.record({ wait, do: fc.constant('remove' as const) }),
  ),
  { maxLength: 6 },
);

/** A low limit cuts off a part of the debt. The part is forgiven when the bucket is full, and not given back later. */
const forgiven: [Change[], Change[], number] = [
  [
    { wait: 250, do: 'override', limit: 1 },
    { wait: 0, do: 'override', limit: 20 },
    { wait: 1_000, do: 'spend', cost: 1 },
  ],
  [
    { wait: 0, do: 'override', limit: 1 },
    { wait: 31_000, do: 'spend', cost: 1 },
    { wait: 0, do: 'remove' },
  ],
  2,
];

for (const [name, createStore] of Object.entries(stores)) {
  describe(`law 13 across overrides, on ${name}`, () => {
    for (const algorithm of [
      'fixed-window',
      'sliding-window',
      'sliding-log',
      'token-bucket',
      'gcra',
    ] as const) {
      it(`${algorithm}: units that are given back are as if they had never been charged`, () =>
        fc.assert(
          fc.asyncProperty(between, between, fc.integer({ min: 1, max: 3 }), async (before, after, cost) => {
            const clock = new TestClock();
            const limiter = limiterOn(createStore(clock.read), {
              algorithm,
              limit: 60,
              window: WINDOW,
              overrides: true,
            });
            // Both keys have the same charges except one, and are denied at the same time.
            const run = async (steps: typeof before) => {
              for (const step of steps) {
                clock.now += step.wait;
                if (step.do === 'spend') {
                  const { allowed } = await limiter.consume('key', { cost: step.cost });
                  if (allowed) await limiter.consume('twin', { cost: step.cost });
                } else {
                  for (const key of ['key', 'twin']) {
                    if (step.do === 'override') await limiter.override(key, { limit: step.limit });
                    else await limiter.removeOverride(key);
                  }
                }
              }
            };
            await run([{ wait: 0, do: 'spend', cost: 1 }, ...before]);
            const charge = await limiter.consume('key', { cost });
            await run(after);
            await charge.refund();
            const [own, twin] = [await limiter.peek('key'), await limiter.peek('twin')];
            // A key's window and segments begin with its first charge. Only one of the keys may have a charge.
            const waits = [...before, ...after].map((each) => each.wait);
            if (algorithm === 'fixed-window' && waits.some((ms) => ms > 5_000)) return;
            if (algorithm === 'sliding-window' && waits.reduce((sum, ms) => sum + ms, 0) >= WINDOW) return;
            const isBucket = ['token-bucket', 'gcra'].includes(algorithm);
            // Units that the bucket has drained meanwhile are not given back.
            if (isBucket && after.some((each) => each.wait > 0))
              expect(own.remaining).to.be.at.most(twin.remaining);
            else expect(own.remaining).to.equal(twin.remaining);
            await limiter.close();
          }),
          { ...runs(name, 300, 20), examples: [forgiven] },
        ));
    }
  });
}

/** A low limit cuts off the debt beyond one window of the key that has spent more. */
const cutOff: [Change[], number] = [
  [
    { wait: 5_000, do: 'spend', cost: 1 },
    { wait: 0, do: 'override', limit: 1 },
    { wait: 31_000, do: 'spend', cost: 1 },
    { wait: 5_000, do: 'spend', cost: 1 },
  ],
  1,
];

for (const [name, createStore] of Object.entries(stores)) {
  describe(`law 16: a key that has spent more, on ${name}`, () => {
    for (const algorithm of ['sliding-log', 'token-bucket', 'gcra'] as const) {
      it(`${algorithm}: never has more units left than a key that has spent less`, () =>
        fc.assert(
          fc.asyncProperty(between, fc.integer({ min: 1, max: 3 }), async (steps, cost) => {
            const clock = new TestClock();
            const limiter = limiterOn(createStore(clock.read), {
              algorithm,
              limit: 5,
              window: WINDOW,
              overrides: true,
            });
            await limiter.consume('more', { cost });
            for (const step of steps) {
              clock.now += step.wait;
              for (const key of ['more', 'less']) {
                if (step.do === 'override') await limiter.override(key, { limit: step.limit });
                else if (step.do === 'remove') await limiter.removeOverride(key);
              }
              if (step.do === 'spend') {
                const [more, less] = [await limiter.peek('more'), await limiter.peek('less')];
                expect(more.remaining).to.be.at.most(less.remaining);
                const { allowed } = await limiter.consume('more', { cost: step.cost });
                if (allowed)
                  expect((await limiter.consume('less', { cost: step.cost })).allowed).to.equal(true);
              }
            }
            await limiter.close();
          }),
          { ...runs(name, 500, 30), examples: [cutOff] },
        ));
    }
  });
}
