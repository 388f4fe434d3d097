// Traces of requests to shared limits, for tests that compare stores.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { createLimiter, type Decision, type Limiter, type Store } from 'headgate';
import { runs } from '../../support/random.js';
import { TestClock } from '../../support/stores.js';

/** Shared limits alone, as shadows, and beside other policies. */
export const SHARED_POLICIES: readonly (string | string[])[] = [
  '100/10s by provider share tenant',
  ['60/5s by provider share tenant shadow', '200/10s by provider share tenant'],
  [
    '60/5s segments 5 by provider share tenant weight 2',
    'token-bucket 40/10s by tenant',
    'fixed-window 90/7s by provider',
  ],
];

export const keyOf = (tenant: string | undefined) => ({ provider: 'openai', tenant });

/** The parts of a decision that all stores must agree on. */
const seen = ({ allowed, reason, retryAfterMs, remaining, resetAfterMs, policies }: Decision) =>
  JSON.stringify({ allowed, reason, retryAfterMs, remaining, resetAfterMs, policies });

export type Step = { wait: number; tenant: string; cost: number; weight: number | undefined; action: number };

export const shareStep = fc.record({
  wait: fc.oneof(
    { weight: 6, arbitrary: fc.integer({ min: 0, max: 40 }) },
    fc.integer({ min: 0, max: 12_000 }),
  ),
  tenant: fc.constantFrom('a', 'b', 'c', 'd'),
  cost: fc.oneof({ weight: 4, arbitrary: fc.integer({ min: 1, max: 12 }) }, fc.integer({ min: 0, max: 110 })),
  weight: fc.constantFrom(undefined, undefined, 1, 2, 5),
  action: fc.integer({ min: 0, max: 9 }),
});

/** Carries out one step. Returns its result as text. */
async function carryOut(
  limiter: Limiter,
  held: Decision[],
  { tenant, cost, weight, action }: Step,
): Promise<string> {
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

/** Fails unless a denied request is admitted exactly at its `retryAfterMs`, and not before, if no tenant asks meanwhile. */
export async function expectExactRetry(
  limiter: Limiter,
  clock: TestClock,
  asked: { tenant: string; cost: number; weight?: number | undefined },
  { retryAfterMs = 0 }: Decision,
): Promise<void> {
  const { now } = clock;
  const { tenant, ...options } = asked;
  const expectAt = async (after: number, isAllowed: boolean) => {
    clock.now = now + after;
    assert.equal((await limiter.peek(keyOf(tenant), options)).allowed, isAllowed, `after ${after} ms`);
  };
  for (const early of [0.3, 0.7, 0.95, 1])
    await expectAt(Math.min(retryAfterMs - 1, Math.floor(retryAfterMs * early)), false);
  await expectAt(retryAfterMs, true);
  clock.now = now;
}

/** The same for each tenant that is denied. */
export async function expectExactRetries(
  limiter: Limiter,
  clock: TestClock,
  tenants: readonly string[],
  cost: number,
): Promise<void> {
  for (const tenant of tenants) {
    const decision = await limiter.peek(keyOf(tenant), { cost });
    if (!decision.allowed) await expectExactRetry(limiter, clock, { tenant, cost }, decision);
  }
}

const at = (tenant: string, cost: number, action: number, wait = 0): Step => ({
  ...{ wait, tenant, cost, weight: undefined, action },
});

/** Traces that once had different results on different stores. */
const REGRESSIONS: [Step[]][] = [
  // The limit begins anew while its pool goes on, and a heavy tenant that is not over its share asks.
  [
    [
      at('a', 68, 1),
      at('b', 64, 3),
      at('a', 1, 1),
      at('b', 1, 1, 1),
      at('a', 0, 0),
      at('a', 0, 1),
      at('b', 1, 0),
    ],
  ],
];

/** Fails unless a store decides random traces as the memory store does. */
export function expectSame(
  [memory, other]: readonly ((clock: () => number) => Store | Promise<Store>)[],
  policies: string | string[],
  { numRuns }: { numRuns: number } = runs('server', 40, 12),
): Promise<void> {
  const trace = fc.array(shareStep, { minLength: 20, maxLength: 150 });
  const property = fc.asyncProperty(trace, async (steps) => {
    const open = async (create: (clock: () => number) => Store | Promise<Store>) => {
      const clock = new TestClock();
      const limiter = createLimiter({ store: await create(clock.read), policies, timeout: '10s' });
      return { clock, limiter, held: [] as Decision[] };
    };
    const all = [await open(memory!), await open(other!)];
    for (const each of steps) {
      const results: string[] = [];
      for (const { clock, limiter, held } of all) {
        clock.now += each.wait;
        results.push(await carryOut(limiter, held, each));
      }
      assert.equal(results[1], results[0]);
    }
  });
  return fc.assert(property, { numRuns, examples: REGRESSIONS });
}
