// Law 2. Denied until exactly retryAfter, admitted at it, if nobody else spends. Impossible costs are reported as such.
import fc from 'fast-check';
import type { Algorithm, Policy } from 'headgate';
import { capacityOf, named, policyOf } from '../algorithms.js';
import { expectEqual, expectFields } from '../expect.js';
import { integer, list, pick } from '../random.js';
import { expectExactWait, type Lab, type Suite, type World } from '../subject.js';

interface Spending {
  readonly policy: Policy;
  /** The earlier requests: the ms before each request, the cost, and whether the cost was given back or increased to a debt. */
  readonly steps: readonly { wait: number; cost: number; then: 'keep' | 'refund' | 'owe' }[];
  /** Selects the cost of the denied request. */
  readonly draw: number;
}

const WINDOWS = [7, 1_000, 1_500, 60_000, 3_600_000];

const step = fc.record({
  wait: fc.oneof(pick([0, 1, 500, 6_000]), integer(0, 70_000)),
  cost: integer(1, 10),
  then: pick(['keep', 'keep', 'keep', 'refund', 'owe'] as const),
});

const spendingOf = (algorithm: Algorithm): fc.Arbitrary<Spending> =>
  fc.record({
    policy: policyOf(algorithm, { windows: WINDOWS }),
    steps: list(1, 25, step),
    draw: integer(0, 300),
  });

export function lawOfRetry(suite: Suite): void {
  for (const algorithm of suite.algorithms) {
    const spending = spendingOf(algorithm);

    suite.addRandom(
      `${algorithm}: denied at every instant before retryAfter, admitted at it`,
      spending,
      async (each, lab) => {
        const { clock, limiter } = await spend(lab, each);
        const cost = 1 + (each.draw % capacityOf(each.policy));
        const { allowed, retryAfterMs } = await limiter.consume('key', { cost });
        if (allowed) return;
        const start = clock.now;
        for (const ms of instantsBefore(retryAfterMs!)) {
          clock.now = start + ms;
          const expected = { allowed: false, retryAfterMs: retryAfterMs! - ms };
          expectFields(`a cost of ${cost}, ${ms} ms later`, await limiter.consume('key', { cost }), expected);
        }
        clock.now = start + retryAfterMs!;
        expectFields('a peek at retryAfter', await limiter.peek('key', { cost }), { allowed: true });
        expectFields('a request at retryAfter', await limiter.consume('key', { cost }), { allowed: true });
      },
    );

    suite.addRandom(
      `${algorithm}: the full quota is back at resetAfter, and not before`,
      spending,
      async (each, lab) => {
        const { clock, limiter } = await spend(lab, each);
        const { resetAfterMs } = await limiter.peek('key');
        const start = clock.now;
        for (const ms of instantsBefore(resetAfterMs)) {
          clock.now = start + ms;
          const { resetAfterMs: left } = await limiter.peek('key', { cost: 0 });
          expectEqual(`resetAfter, ${ms} ms later`, left, resetAfterMs - ms);
        }
        clock.now = start + resetAfterMs;
        const all = { cost: capacityOf(each.policy) };
        expectFields('a request for everything', await limiter.consume('key', all), { allowed: true });
      },
    );

    suite.addRandom(
      `${algorithm}: a cost beyond capacity is never admitted, and reported as such`,
      spending,
      async (each, lab) => {
        const { limiter } = await spend(lab, each);
        const decision = await limiter.consume('key', { cost: capacityOf(each.policy) + 1 });
        const expected = { allowed: false, reason: 'cost-exceeds-capacity', retryAfterMs: undefined };
        expectFields('a request', decision, expected);
      },
    );
  }

  suite.addRandom(
    'several policies: retryAfter is the longest of the denying ones',
    fc.record({
      policies: named(list(2, 4, policyOf(suite.algorithms, { windows: WINDOWS }))),
      steps: list(0, 15, integer(0, 30_000)),
    }),
    async ({ policies, steps }, lab) => {
      const { clock, limiter } = await lab.open({ policies });
      for (const wait of steps) {
        clock.now += wait;
        await limiter.consume('key');
      }
      const decision = await limiter.consume('key');
      if (!decision.allowed) await expectExactWait(clock, decision, () => limiter.consume('key'));
    },
  );
}

/** A limiter after those requests, with its clock. */
async function spend(lab: Lab, { policy, steps }: Spending): Promise<World> {
  const world = await lab.open(policy);
  for (const { wait, cost, then } of steps) {
    world.clock.now += wait;
    const decision = await world.limiter.consume('key', { cost });
    if (then === 'refund') await decision.refund();
    if (then === 'owe') await decision.settle(cost + 3);
  }
  return world;
}

/** Every millisecond before `end` if there are at most 20. Otherwise some at the start, some in between, and the last. */
function instantsBefore(end: number): number[] {
  if (end <= 20) return Array.from({ length: end }, (_, ms) => ms);
  const between = Array.from({ length: 16 }, (_, i) => Math.floor((end * (i + 1)) / 17));
  return [...new Set([0, 1, ...between, end - 2, end - 1])];
}
