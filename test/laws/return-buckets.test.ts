// Law 13 for buckets, whose charges drain in order: many open charges come back in any order.
import { expect } from 'chai';
import fc from 'fast-check';
import type { Decision, Policy } from 'headgate';
import { runs } from '../support/random.js';
import { limiterOn, stores, TestClock } from '../support/stores.js';

/**
 * A bucket with a record of every charge. Its debt is the debt of a history without the returned units. The real bucket cannot know which
 * charges served earlier requests, so its debt may be larger.
 */
class Ledger {
  readonly #charges: { at: number; ticks: number }[] = [];
  readonly #msPerUnit: number;

  constructor(msPerUnit: number) {
    this.#msPerUnit = msPerUnit;
  }

  charge(at: number, units: number): { at: number; ticks: number } {
    const charge = { at, ticks: units * this.#msPerUnit };
    this.#charges.push(charge);
    return charge;
  }

  debt(now: number): number {
    let [debt, last] = [0, 0];
    for (const { at, ticks } of this.#charges) [debt, last] = [Math.max(0, debt - (at - last)) + ticks, at];
    return Math.max(0, debt - (now - last));
  }
}

type Order = 'random' | 'first in, first out' | 'last in, first out';

/** Picks the open charge to return next. Each picker has its own generator, so that every run is the same. */
function pickerOf(order: Order): (open: number) => number {
  let seed = 12_345;
  return (open) => {
    if (order !== 'random') return order === 'first in, first out' ? 0 : open - 1;
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
    return seed % open;
  };
}

const HOUR = 3_600_000;

for (const algorithm of ['token-bucket', 'leaky-bucket', 'gcra'] as const) {
  describe(`law 13, ${algorithm}: all requests are given back, 20 ms apart`, () => {
    // The buckets share one record of charges, so the further orders need one of them.
    const orders = [
      [50, 'first in, first out', 990],
      [50, 'last in, first out', 999],
    ] as const;
    for (const [open, order, least] of [
      [20, 'random', 995],
      [200, 'random', 930],
      ...(algorithm === 'gcra' ? orders : []),
    ] as const) {
      it(`${open} open at once, ${order}: none is denied, and at least ${least} of 1,000 units are left`, async () => {
        const clock = new TestClock();
        const limiter = limiterOn(stores.memory(clock.read), { algorithm, limit: 1000, window: HOUR });
        const pick = pickerOf(order);
        const charged: Decision[] = [];
        const giveBack = () => charged.splice(pick(charged.length), 1)[0]!.refund();
        for (let i = 0; i < 20_000; i++) {
          clock.now += 20;
          if (charged.length >= open) await giveBack();
          const decision = await limiter.consume('key');
          if (!decision.allowed) expect.fail(`request ${i} is denied`);
          charged.push(decision);
        }
        while (charged.length > 0) await giveBack();
        expect((await limiter.peek('key')).remaining).to.be.at.least(least);
      });
    }
  });
}

const rates = [
  { limit: 10, window: 1000 },
  { limit: 3, window: 100 },
  { limit: 7, window: 10_000, burst: 40 },
  { limit: 1000, window: 60_000, burst: 50 },
];

/** Waits, charges that stay or come back, and give-backs in one of three orders. The last order refunds the newest charges first. */
const steps = fc.array(
  fc.record({
    do: fc.constantFrom('wait', 'charge', 'charge', 'charge', 'back', 'back'),
    ms: fc.constantFrom(1, 7, 20, 130, 1000),
    units: fc.constantFrom(1, 1, 1, 2, 5),
    stays: fc.boolean(),
    which: fc.nat(1000),
  }),
  { minLength: 10, maxLength: 150 },
);

for (const name of ['memory', 'redis', 'valkey'] as const) {
  const create = stores[name];
  if (!create) continue;
  describe(`law 13, beside a ledger of all charges, on ${name}`, () => {
    it('never gives back a unit too many', () =>
      fc.assert(
        fc.asyncProperty(
          fc.constantFrom(...rates),
          fc.constantFrom('token-bucket', 'leaky-bucket', 'gcra'),
          fc.constantFrom('any', 'oldest', 'newest'),
          steps,
          async (rate, algorithm, order, trace) => {
            const clock = new TestClock();
            const policy = { algorithm, ...rate } as Policy;
            const limiter = limiterOn(create(clock.read), policy);
            const ledger = new Ledger(rate.window / rate.limit);
            const capacity = rate.burst ?? rate.limit;
            const open: { decision: Decision; entry: { ticks: number } }[] = [];
            const check = async (): Promise<void> => {
              const { remaining } = await limiter.peek('key', { cost: 0 });
              const debt = ledger.debt(clock.now) / (rate.window / rate.limit);
              expect(remaining).to.be.at.most(Math.floor(capacity - debt + 1e-6));
            };
            const giveBack = async (at: number): Promise<void> => {
              const [{ decision, entry }] = open.splice(at, 1) as [(typeof open)[0]];
              entry.ticks = 0;
              await decision.refund();
              await check();
            };
            for (const { do: what, ms, units, stays, which } of trace) {
              if (what === 'wait') clock.now += ms;
              else if (what === 'charge') {
                const decision = await limiter.consume('key', { cost: units });
                if (!decision.allowed) continue;
                const entry = ledger.charge(clock.now, units);
                if (!stays) open.push({ decision, entry });
              } else if (open.length > 0) {
                const at =
                  order === 'oldest' ? 0 : order === 'newest' ? open.length - 1 : which % open.length;
                await giveBack(at);
              }
            }
            while (open.length > 0) await giveBack(order === 'newest' ? open.length - 1 : 0);
            await limiter.close();
          },
        ),
        runs(name, 10_000, 150),
      ));
  });
}

it('law 13: charges that were given back first are not given back twice', async () => {
  const clock = new TestClock();
  const limiter = limiterOn(stores.memory(clock.read), { algorithm: 'gcra', limit: 100, window: 100_000 });
  const first = await limiter.consume('key', { cost: 50 });
  const others: Decision[] = [];
  for (let i = 0; i < 50; i++) others.push(await limiter.consume('key'));
  await first.refund();
  clock.now += 50_000;
  // All charges have drained since. The first 50 count as never charged, so the others were served first.
  for (const other of others) await other.refund();
  for (let i = 0; i < 100; i++) expect((await limiter.consume('key')).allowed).to.be.true;
  expect((await limiter.consume('key')).allowed).to.be.false;
});

describe('law 13, a unit that does not take a whole number of milliseconds', () => {
  // By a clock that runs `scale` times as fast, and with a window as many times as long, all times are whole, so the bucket is exact. Only
  // 15 charges come back, because a history has 32 cells, and merging cells loses units at every rate.
  const uneven = [
    { limit: 3, window: 100, scale: 3 },
    { limit: 7, window: 10, scale: 7 },
    { limit: 3_000, window: 1_000, scale: 3 },
    { limit: 999, window: 1_000, scale: 999 },
  ];

  for (const name of ['memory', 'redis', 'valkey'] as const) {
    const create = stores[name];
    if (!create) continue;
    it(`on ${name}: the debt after give-backs drains within a millisecond of the exact time, and is never too small`, () =>
      fc.assert(
        fc.asyncProperty(
          fc.constantFrom(...uneven),
          fc.constantFrom('any', 'oldest', 'newest'),
          steps,
          async ({ limit, window, scale }, order, trace) => {
            const clock = new TestClock();
            const start = clock.now - 1000;
            const policy = { algorithm: 'gcra', limit, window, burst: 1000 } as const;
            const limiter = limiterOn(create(clock.read), policy);
            const exact = limiterOn(
              stores.memory(() => (clock.now - start) * scale),
              { ...policy, window: window * scale },
            );
            const open: Decision[][] = [];
            let remaining = 15;
            for (const { do: what, ms, units, stays, which } of trace) {
              if (what === 'wait') clock.now += ms;
              else if (what === 'charge') {
                const pair = await Promise.all(
                  [limiter, exact].map((each) => each.consume('key', { cost: units })),
                );
                if (!stays) open.push(pair);
              } else if (open.length > 0 && remaining-- > 0) {
                const last = open.length - 1;
                const at = order === 'oldest' ? 0 : order === 'newest' ? last : which % open.length;
                for (const decision of open.splice(at, 1)[0]!) await decision.refund();
                const [ours, truth] = await Promise.all(
                  [limiter, exact].map((each) => each.peek('key', { cost: 0 })),
                );
                const owed = Math.ceil(truth!.resetAfterMs / scale);
                expect(ours!.resetAfterMs).to.be.within(owed, owed + 1);
              }
            }
            await Promise.all([limiter.close(), exact.close()]);
          },
        ),
        runs(name, 1_000, 100),
      ));
  }
});
