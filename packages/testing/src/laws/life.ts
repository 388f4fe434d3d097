// Law 5. Each entry of a store has an expiry after every operation. Expired state decides exactly like no state.
import fc from 'fast-check';
import type { Decision, Limiter } from 'headgate';
import { named, policyOf } from '../algorithms.js';
import { expectAtLeast, expectEqual, Mismatch } from '../expect.js';
import { list, pick } from '../random.js';
import type { Suite } from '../subject.js';

type Operation =
  | { readonly do: 'consume' | 'refund'; readonly cost: number }
  | { readonly do: 'settle'; readonly of: number; readonly cost: number }
  | { readonly do: 'release' | 'renew'; readonly of: number }
  | { readonly do: 'reset' | 'ban' | 'unban' };

const BAN = { after: 3, within: 10_000, for: 5_000, factor: 2, max: 20_000 };
const of = fc.nat(30);
const others: readonly fc.Arbitrary<Operation>[] = [
  fc.record({ do: fc.constant('refund'), cost: pick([1, 5, 1_000]) }),
  fc.record({ do: fc.constant('settle'), of, cost: pick([0, 1, 7, 1_000]) }),
  ...(['release', 'renew'] as const).map((name) => fc.record({ do: fc.constant(name), of })),
  ...(['reset', 'ban', 'unban'] as const).map((name) => fc.constant({ do: name })),
];
const operation = fc.oneof(
  {
    weight: others.length,
    arbitrary: fc.record({ do: fc.constant('consume' as const), cost: pick([1, 1, 2, 5]) }),
  },
  ...others,
);
const wait = pick([0, 1, 500, 2_000, 61_000]);

export function lawOfLife(suite: Suite): void {
  const policies = suite.algorithms.map((each, i) =>
    policyOf(each).map((policy) => ({ ...policy, shadow: i > 1 })),
  );
  const cases = fc.record({
    policies: named(fc.tuple(...policies)),
    steps: list(5, 30, fc.tuple(wait, operation)),
    after: list(5, 30, fc.tuple(wait, pick([1, 1, 2, 5]))),
  });

  suite.addRandom(
    'expired state decides exactly as no state',
    cases,
    async ({ policies, steps, after }, lab) => {
      const { clock, limiter: used } = await lab.open({ policies, ban: BAN });
      const admitted: Decision[] = [];
      for (const [wait, operation] of steps) {
        clock.now += wait;
        await perform(used, operation, admitted);
      }
      // Wait until no ban hides the policies, then until the last quota is full and bans are forgotten, to the millisecond.
      clock.now += BAN.max;
      const { policies: verdicts } = await used.peek('key', { cost: 0 });
      clock.now += Math.max(BAN.max + BAN.within, ...verdicts.map(({ resetAfterMs }) => resetAfterMs));
      const { limiter: fresh } = await lab.open({ policies, ban: BAN }, clock);
      for (const [wait, cost] of after) {
        clock.now += wait;
        const [is, were] = [await used.consume('key', { cost }), await fresh.consume('key', { cost })];
        expectEqual('a decision, as on a store without state', factsOf(is), factsOf(were));
      }
    },
  );

  const { entries } = suite.subject;
  if (!entries) return;
  suite.addRandom(
    'state has an expiry after every operation, and is kept until the quota is full',
    cases,
    async ({ policies, steps }, lab) => {
      const { clock, store, limiter } = await lab.open({ policies, ban: BAN });
      const admitted: Decision[] = [];
      for (const [wait, operation] of steps) {
        clock.now += wait;
        await perform(limiter, operation, admitted);
        const kept = await entries(store);
        for (const { name, expiresAt } of kept)
          if (expiresAt === undefined || !Number.isFinite(expiresAt))
            throw new Mismatch(`after ${operation.do}, the end of ${name}`, expiresAt, 0, 'a time');
        const { policies: verdicts } = await limiter.peek('key', { cost: 0 });
        const until = Math.max(0, ...verdicts.map(({ resetAfterMs }) => resetAfterMs));
        if (until === 0) continue;
        const last = Math.max(0, ...kept.map(({ expiresAt }) => expiresAt!));
        expectAtLeast(`after ${operation.do}, the life of the last entry, ms`, last - clock.now, until);
      }
    },
  );
}

async function perform(limiter: Limiter, operation: Operation, admitted: Decision[]): Promise<void> {
  switch (operation.do) {
    case 'consume': {
      const decision = await limiter.consume('key', { cost: operation.cost });
      if (decision.allowed) admitted.push(decision);
      return;
    }
    case 'refund':
      return limiter.refund('key', operation.cost);
    case 'settle':
      return admitted[operation.of % admitted.length]?.settle(operation.cost);
    case 'release':
    case 'renew':
      return void (await admitted[operation.of % admitted.length]?.[operation.do]());
    case 'ban':
      return limiter.ban('key', 3_000);
    case 'reset':
    case 'unban':
      return limiter[operation.do]('key');
  }
}

const factsOf = ({ allowed, reason, retryAfterMs, policies }: Decision) => ({
  allowed,
  reason,
  retryAfterMs,
  policies,
});
