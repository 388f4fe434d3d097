// Law 18 for slots: shared slots are never exceeded, a lone tenant gets all of them, and tenants that want more divide them by weight. Laws 2
// and 4 for shared slots.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { createLimiter, type Decision } from 'headgate';
import { runs } from '../../support/random.js';
import { expectExactRetries, keyOf } from '../shares/traces.js';
import { REGRESSIONS, SLOT_POLICIES, SlotOracle, slotStep, Trace } from './share-traces.js';
import { stores, TestClock } from '../../support/stores.js';

const steps = fc.array(slotStep, { minLength: 20, maxLength: 120 });

describe('law 4, identity of shared slots', () => {
  for (const [name, create] of Object.entries(stores)) {
    if (name === 'memory') continue;
    for (const policies of SLOT_POLICIES)
      it(`memory and ${name}, ${String(policies)}`, () =>
        fc.assert(
          fc.asyncProperty(steps, async (trace) => {
            const [first, second] = [new Trace(stores.memory, policies), new Trace(create, policies)];
            for (const step of trace) assert.equal(await second.run(step), await first.run(step));
          }),
          { ...runs(name, 40, 12), examples: REGRESSIONS },
        )).timeout(60_000);
  }
});

const tagOf = (tenant: string) => createHash('sha256').update(`=${tenant}`).digest('hex');
const TENANTS = ['a', 'b', 'c', 'd'].sort((a, b) => (tagOf(a) < tagOf(b) ? -1 : 1));
const WEIGHTS: Record<string, number> = { a: 1, b: 2, c: 5, d: 1 };

for (const [name, create] of Object.entries(stores)) {
  describe(`law 18, shares of slots, on ${name}`, function () {
    this.timeout(60_000);

    it('decides as an oracle does that gives the slots out singly', () =>
      fc.assert(
        fc.asyncProperty(fc.integer({ min: 1, max: 9 }), steps, async (limit, trace) => {
          const clock = new TestClock();
          const policies = `concurrency ${limit}/5s by provider share tenant`;
          const limiter = createLimiter({ store: create(clock.read), policies, timeout: '10s' });
          const oracle = new SlotOracle(limit, 5000, TENANTS);
          const held: { decision: Decision; tenant: string; stop: number }[] = [];
          for (const { wait, tenant, cost: given, action } of trace) {
            clock.now += wait;
            const cost = Math.min(limit, Math.max(1, given));
            const at = held.findIndex((each) => each.tenant === tenant && each.stop > clock.now);
            if (action < 4 && at >= 0 && cost === 1) {
              oracle.release(clock.now, tenant);
              await held.splice(at, 1)[0]!.decision.release();
              continue;
            }
            const weight = WEIGHTS[tenant]!;
            const decision = await limiter.consume(keyOf(tenant), { cost, weight });
            const { allowed, share } = oracle.decide(clock.now, tenant, cost, weight);
            assert.deepEqual([decision.allowed, decision.policies[0]!.share], [allowed, share]);
            if (allowed) held.push({ decision, tenant, stop: clock.now + 5000 });
            const slots = TENANTS.reduce((sum, each) => sum + oracle.heldBy(each, clock.now), 0);
            assert.ok(slots <= limit);
            if (allowed) assert.ok(decision.policies[0]!.remaining <= limit - slots);
          }
        }),
        runs(name, 150, 15),
      ));

    it('admits a denied cost exactly at its retryAfterMs', () =>
      fc.assert(
        fc.asyncProperty(steps, async (trace) => {
          const { clock, limiter } = new Trace(create, 'concurrency 6/5s by provider share tenant');
          const held: Decision[] = [];
          for (const { wait, tenant, cost, weight, action } of trace) {
            clock.now += wait % 300;
            if (action < 3) await held.pop()?.release();
            else held.push(await limiter.consume(keyOf(tenant), { cost, weight }));
          }
          await expectExactRetries(limiter, clock, ['a', 'b', 'c', 'e'], 1 + (trace.length % 3));
        }),
        runs(name, 60, 10),
      ));
  });
}
