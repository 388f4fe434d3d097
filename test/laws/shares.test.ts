// Law 18. A shared limit is never exceeded, a lone tenant gets all of it, and backlogged tenants divide it by their weights. Law 4 for
// shared limits: all stores return the same decisions.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { createLimiter, type Decision, type Limiter } from 'headgate';
import { runs } from '../support/random.js';
import { START, stores, TestClock, type CreateStore } from '../support/stores.js';

const POLICY = '1000/10s by provider share tenant';

const keyOf = (tenant: string | undefined) => ({ provider: 'openai', tenant });

function limiterOf(create: CreateStore, policies: string | string[] = POLICY) {
  const clock = new TestClock();
  return { clock, limiter: createLimiter({ store: create(() => clock.now), policies }) };
}

/** The parts of a decision that all stores must agree on. */
const seen = ({ allowed, reason, retryAfterMs, remaining, resetAfterMs, policies }: Decision) =>
  JSON.stringify({ allowed, reason, retryAfterMs, remaining, resetAfterMs, policies });

type Step = { wait: number; tenant: string; cost: number; weight: number | undefined; action: number };

const step = fc.record({
  wait: fc.oneof({ weight: 6, arbitrary: fc.integer({ min: 0, max: 40 }) }, fc.integer({ min: -2000, max: 12_000 })),
  tenant: fc.constantFrom('a', 'b', 'c', 'd'),
  cost: fc.oneof({ weight: 4, arbitrary: fc.integer({ min: 1, max: 12 }) }, fc.integer({ min: 0, max: 110 })),
  weight: fc.constantFrom(undefined, undefined, 1, 2, 5),
  action: fc.integer({ min: 0, max: 9 }),
});

/** Carries out one step. Returns its result as text. */
async function carryOut(limiter: Limiter, held: Decision[], { tenant, cost, weight, action }: Step): Promise<string> {
  if (action === 0) return seen(await limiter.peek(keyOf(tenant), { cost, weight }));
  if (action === 1 && held.length > 0) {
    await held.pop()!.refund();
    return 'refunded';
  }
  if (action === 2 && held.length > 0) {
    await held.pop()!.settle(cost);
    return 'settled';
  }
  const decision = await limiter.consume(keyOf(tenant), { cost, weight });
  if (decision.allowed) held.push(decision);
  return seen(decision);
}

describe('law 4, identity of shares', () => {
  for (const [name, create] of Object.entries(stores)) {
    if (name === 'memory') continue;
    for (const policies of [
      '100/10s by provider share tenant',
      ['60/5s segments 5 by provider share tenant weight 2', 'token-bucket 40/10s by tenant', 'fixed-window 90/7s by provider'],
    ])
      it(`memory and ${name}, ${String(policies)}`, () =>
        fc.assert(
          fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 150 }), async (steps) => {
            const all = [stores.memory, create].map((each) => ({ ...limiterOf(each, policies), held: [] as Decision[] }));
            for (const each of steps) {
              const results: string[] = [];
              for (const { clock, limiter, held } of all) {
                clock.now += each.wait;
                results.push(await carryOut(limiter, held, each));
              }
              assert.equal(results[1], results[0]);
            }
          }),
          runs(name, 40, 12),
        )).timeout(60_000);
  }
});
