// Law 13. A charge that is given back counts as never made: the same trace with and without the charge gives the same verdicts.
import fc from 'fast-check';
import type { Algorithm, Decision } from 'headgate';
import { drains, plainPolicy, policyOf } from '../algorithms.js';
import { expectAtLeast, expectWithin } from '../expect.js';
import { integer, list, pick } from '../random.js';
import type { Suite } from '../subject.js';
import { examplesOfReturn } from './return-examples.js';
import { openWorlds, WAYS, type Step } from './worlds.js';

const RANGES = { limits: [3, 5, 10, 100], windows: [1_000, 1_500, 60_000], maxDelays: [0] };

const ms = pick([1, 20, 130, 700]);
const steps: readonly fc.Arbitrary<Step>[] = [
  fc.record({ do: fc.constant('wait'), ms }),
  fc.record({ do: fc.constant('consume'), cost: pick([1, 1, 2]) }),
  fc.record({ do: fc.constant('extra'), cost: pick([1, 1, 2, 3]), way: pick(WAYS) }),
  fc.record({ do: fc.constant('back'), which: integer(0, 5) }),
];
const step = fc.oneof(
  ...steps.map((arbitrary) => ({ weight: 4, arbitrary })),
  fc.constant<Step>({ do: 'reset' }),
);

export function lawOfReturn(suite: Suite): void {
  for (const algorithm of suite.quotas) {
    asIfNeverCharged(suite, algorithm);
    if (drains(plainPolicy(algorithm, 1, 1))) ofBuckets(suite, algorithm);
  }
  examplesOfReturn(suite);
}

function asIfNeverCharged(suite: Suite, algorithm: Algorithm): void {
  suite.addRandom(
    `${algorithm}: a charge that is given back counts as never made`,
    fc.record({ policy: policyOf(algorithm, RANGES), steps: list(5, 40, step) }),
    async ({ policy, steps }, lab) => {
      const worlds = await openWorlds(lab, policy);
      for (const step of steps) {
        // A bucket drains its charges in order. The drained part of a charge is not given back.
        if (drains(policy) && step.do === 'wait') await worlds.giveAllBack();
        await worlds.play(step);
      }
      await worlds.giveAllBack();
      await worlds.compare();
    },
  );
}

function ofBuckets(suite: Suite, algorithm: Algorithm): void {
  const policy = policyOf(algorithm, RANGES);

  suite.addRandom(
    `${algorithm}: a charge that has partly drained gives back the rest, no more and no less`,
    fc.record({
      policy,
      cost: integer(1, 3),
      steps: list(0, 8, fc.record({ wait: pick([0, 1, 20, 300]), cost: integer(1, 2) })),
    }),
    async ({ policy, cost, steps }, lab) => {
      const { clock, real, never } = await openWorlds(lab, policy);
      const start = clock.now;
      const extra = await real.consume('k', { cost });
      for (const { wait, cost } of steps) {
        clock.now += wait;
        if (!(await real.peek('k', { cost })).allowed) continue;
        await real.consume('k', { cost });
        await never.consume('k', { cost });
      }
      await extra.cancel();
      const is = await real.peek('k', { cost: 0 });
      const { resetAfterMs } = await never.peek('k', { cost: 0 });
      expectWithin('resetAfter', is.resetAfterMs, resetAfterMs, resetAfterMs + clock.now - start + 1);
    },
  );

  suite.addRandom(
    `${algorithm}: give-backs in any order never leave more than without the charges`,
    fc.record({
      policy,
      steps: list(
        10,
        50,
        fc.record({
          do: pick(['wait', 'keep', 'extra', 'back'] as const),
          ms,
          cost: pick([1, 2, 5]),
          which: integer(0, 9),
        }),
      ),
    }),
    async ({ policy, steps }, lab) => {
      const { clock, real, never } = await openWorlds(lab, policy);
      const extras: Decision[] = [];
      for (const step of steps) {
        if (step.do === 'wait') clock.now += step.ms;
        else if (step.do === 'back')
          await extras.splice(step.which % Math.max(1, extras.length), 1)[0]?.cancel();
        else if ((await real.peek('k', { cost: step.cost })).allowed) {
          const decision = await real.consume('k', { cost: step.cost });
          if (step.do === 'extra') extras.push(decision);
          else await never.consume('k', { cost: step.cost });
        }
      }
      for (const extra of extras) await extra.cancel();
      const [is, were] = [await real.peek('k', { cost: 0 }), await never.peek('k', { cost: 0 })];
      expectAtLeast('resetAfter', is.resetAfterMs, were.resetAfterMs);
    },
  );
}
