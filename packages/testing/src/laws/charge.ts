// Law 3. A denied request charges nothing: either every policy charges, or no policy does.
import fc from 'fast-check';
import type { Limiter } from 'headgate';
import { named, policyOf } from '../algorithms.js';
import { expectEqual } from '../expect.js';
import { list, oneIn, pick } from '../random.js';
import type { Suite } from '../subject.js';

const WAITS = [0, 0, 1, 50, 1_000, 20_000];
const COSTS = [1, 1, 2, 3, 5, 50];

export function lawOfCharge(suite: Suite): void {
  const policy = fc
    .tuple(policyOf(suite.algorithms), oneIn(3))
    .map(([each, shadow]) => ({ ...each, shadow }));
  const cases = fc.record({
    policies: named(list(1, 4, policy)),
    steps: list(5, 40, fc.record({ wait: pick(WAITS), cost: pick(COSTS) })),
  });

  const add = (name: string, request: (limiter: Limiter, cost: number) => Promise<void>) =>
    suite.addRandom(name, cases, async ({ policies, steps }, lab) => {
      const { clock, limiter } = await lab.open({ policies });
      for (const { wait, cost } of steps) {
        clock.now += wait;
        await request(limiter, cost);
      }
    });

  add('after a denial, every policy is as it was', async (limiter, cost) => {
    const before = await limiter.peek('key', { cost });
    const decision = await limiter.consume('key', { cost });
    const after = await limiter.peek('key', { cost });
    expectEqual('allowed, as by a peek before', decision.allowed, before.allowed);
    if (decision.allowed) return;
    expectEqual('the verdicts of the denial, as of a peek before', decision.policies, before.policies);
    expectEqual('the verdicts after the denial, as before', after.policies, before.policies);
  });

  const admission =
    'after an admission, every policy that admits is charged, and a shadow that would deny is not';
  add(admission, async (limiter, cost) => {
    const before = await limiter.peek('key', { cost });
    const decision = await limiter.consume('key', { cost });
    if (!decision.allowed) return;
    const after = await limiter.peek('key', { cost });
    for (const [i, { name, allowed, remaining }] of decision.policies.entries()) {
      const left = before.policies[i]!.remaining;
      expectEqual(`remaining of ${name}`, remaining, allowed ? Math.max(0, left - cost) : left);
      expectEqual(`remaining of ${name}, by a peek`, after.policies[i]!.remaining, remaining);
    }
  });

  add('a cost of 0 and a peek charge and write nothing', async (limiter, cost) => {
    await limiter.consume('key', { cost });
    const first = await limiter.peek('key');
    expectEqual('a second peek', (await limiter.peek('key')).policies, first.policies);
    await limiter.consume('key', { cost: 0 });
    expectEqual('a peek after a cost of 0', (await limiter.peek('key')).policies, first.policies);
  });
}
