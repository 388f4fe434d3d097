// Law 5. Each entry of a store has an expiry after every operation. Expired state decides exactly like no state.
import type { Decision } from '../../common/decision.js';
import type { Limiter } from '../../limiter/limiter.js';
import type { Policy } from '../../contract/policy.js';
import { randomPolicy } from '../algorithms.js';
import { expectAtLeast, expectEqual, Mismatch } from '../expect.js';
import type { Random } from '../random.js';
import type { Suite } from '../subject.js';

type Operation =
  | { readonly do: 'consume' | 'refund'; readonly cost: number }
  | { readonly do: 'settle'; readonly of: number; readonly cost: number }
  | { readonly do: 'release' | 'renew'; readonly of: number }
  | { readonly do: 'reset' | 'ban' | 'unban' };

const BAN = { after: 3, within: 10_000, for: 5_000, factor: 2, max: 20_000 };
const OTHERS = ['refund', 'settle', 'release', 'renew', 'reset', 'ban', 'unban'] as const;

function randomOperation(random: Random): Operation {
  if (random.once(2)) return { do: 'consume', cost: random.pick([1, 1, 2, 5]) };
  const name = random.pick(OTHERS);
  const of = random.integer(0, 30);
  if (name === 'refund') return { do: name, cost: random.pick([1, 5, 1_000]) };
  if (name === 'settle') return { do: name, of, cost: random.pick([0, 1, 7, 1_000]) };
  return name === 'release' || name === 'renew' ? { do: name, of } : { do: name };
}

const randomWait = (random: Random) => random.pick([0, 1, 500, 2_000, 61_000]);

export function lawOfLife(suite: Suite): void {
  const makePolicies = (random: Random) =>
    suite.algorithms.map((each, i): Policy => ({
      ...randomPolicy(random, each),
      name: `p${i}`,
      shadow: i > 1,
    }));
  const make = (random: Random) => ({
    policies: makePolicies(random),
    steps: random.list(5, 30, () => [randomWait(random), randomOperation(random)] as const),
    after: random.list(5, 30, () => [randomWait(random), random.pick([1, 1, 2, 5])] as const),
  });

  suite.addRandom(
    'expired state decides exactly as no state',
    make,
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
    make,
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
