// Law 13. A charge that is given back counts as never made: the same trace with and without it gives the same verdicts.
import type { Algorithm, Policy } from '../../contract/policy.js';
import { drains, countsSlots, plainPolicy, randomPolicy } from '../algorithms.js';
import type { Decision } from '../../common/decision.js';
import { expectAtLeast, expectWithin } from '../expect.js';
import type { Random } from '../random.js';
import type { Suite } from '../subject.js';
import { examplesOfReturn } from './return-examples.js';
import { openWorlds, WAYS, type Step } from './worlds.js';

const RANGES = { limits: [3, 5, 10, 100], windows: [1_000, 1_500, 60_000], maxDelays: [0] };

function randomStep(random: Random): Step {
  const kind = random.integer(1, 17);
  if (kind <= 4) return { do: 'wait', ms: random.pick([1, 20, 130, 700]) };
  if (kind <= 8) return { do: 'consume', cost: random.pick([1, 1, 2]) };
  if (kind <= 12) return { do: 'extra', cost: random.pick([1, 1, 2, 3]), way: random.pick(WAYS) };
  return kind <= 16 ? { do: 'back', which: random.integer(0, 5) } : { do: 'reset' };
}

export function lawOfReturn(suite: Suite): void {
  const quotas = suite.algorithms.filter((each) => !countsSlots(plainPolicy(each, 1, 1)));
  for (const algorithm of quotas) {
    asIfNeverCharged(suite, algorithm);
    if (drains(plainPolicy(algorithm, 1, 1))) ofBuckets(suite, algorithm);
  }
  examplesOfReturn(suite, quotas);
}

function asIfNeverCharged(suite: Suite, algorithm: Algorithm): void {
  suite.addRandom(
    `${algorithm}: a charge that is given back counts as never made`,
    (random) => ({
      policy: randomPolicy(random, algorithm, RANGES),
      steps: random.list(5, 40, () => randomStep(random)),
    }),
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
  const randomBucket = (random: Random): Policy => randomPolicy(random, algorithm, RANGES);

  suite.addRandom(
    `${algorithm}: a charge that has partly drained gives back the rest, no more and no less`,
    (random) => ({
      policy: randomBucket(random),
      cost: random.integer(1, 3),
      steps: random.list(0, 8, () => ({ wait: random.pick([0, 1, 20, 300]), cost: random.integer(1, 2) })),
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
    (random) => ({
      policy: randomBucket(random),
      steps: random.list(10, 50, () => ({
        do: random.pick(['wait', 'keep', 'extra', 'back'] as const),
        ms: random.pick([1, 20, 130, 700]),
        cost: random.pick([1, 2, 5]),
        which: random.integer(0, 9),
      })),
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
