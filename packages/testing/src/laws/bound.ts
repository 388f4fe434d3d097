// Law 1. The units admitted in any true window never exceed the algorithm's published worst case.
import fc from 'fast-check';
import type { Policy } from 'headgate';
import {
  boundOf,
  capacityOf,
  countsSlots,
  overhangOf,
  plainPolicy,
  policyOf,
  reachedBy,
  windowOf,
} from '../algorithms.js';
import { expectAtLeast, expectAtMost, expectEqual } from '../expect.js';
import { integer, list, pick } from '../random.js';
import type { Lab, Suite } from '../subject.js';
import { worstWindow, type Admission } from '../worst-window.js';

/** The next action of a client: a wait for a share of the window, or until a unit is free, and then a request. */
interface Step {
  readonly wait: number | 'retryAfter' | 'edge';
  readonly cost: number | 'all';
  readonly then: 'keep' | 'refund' | 'release';
}

const WAITS = [0, 0.001, 0.05, 0.1, 0.5, 0.9, 0.999, 1, 1.1, 'retryAfter', 'edge'] as const;
const ENDS = ['keep', 'keep', 'keep', 'keep', 'refund', 'release'] as const;

const step: fc.Arbitrary<Step> = fc.record({
  wait: fc.oneof(
    pick(WAITS),
    integer(0, 1_999).map((share) => share / 1_000),
  ),
  cost: fc.oneof(fc.constant('all' as const), integer(1, 8)),
  then: pick(ENDS),
});

export function lawOfBound(suite: Suite): void {
  for (const algorithm of suite.algorithms) {
    suite.addRandom(
      `${algorithm}: no client gets more than the published bound`,
      fc.record({ policy: policyOf(algorithm), steps: list(10, 60, step) }),
      async ({ policy, steps }, lab) => {
        const worst = worstWindow(await play(lab, policy, steps), windowOf(policy));
        expectAtMost('units in the fullest window', worst, boundOf(policy));
      },
    );

    const reached = reachedBy(algorithm);
    if (reached !== undefined)
      suite.add(`${algorithm}: bursts at the worst moments reach ${reached} at limit 100`, async (lab) => {
        let worst = 0;
        // One unit opens the window. More units come just before the window's end, and all remaining units right after the end.
        for (const gap of [0.0001, 0.1, 0.9999]) {
          const waits = [gap, ...Array<'edge'>(120).fill('edge')];
          const rest = waits.map((wait): Step => ({ wait, cost: 'all', then: 'keep' }));
          const steps: Step[] = [{ wait: 0, cost: 1, then: 'keep' }, ...rest];
          const admissions = await play(lab, plainPolicy(algorithm, 100, 10_000), steps);
          worst = Math.max(worst, worstWindow(admissions, 10_000));
        }
        expectEqual('units in the fullest window', worst, reached);
      });

    if (countsSlots(plainPolicy(algorithm, 1, 1))) continue;
    suite.add(
      `${algorithm}: a client that returns at retryAfter gets the limit in each window`,
      async (lab) => {
        for (const [limit, window] of [
          [1, 7],
          [3, 1_000],
          [7, 1_500],
        ] as const) {
          const policy = plainPolicy(algorithm, limit, window);
          const { clock, limiter } = await lab.open(policy);
          const end = clock.now + 5 * (windowOf(policy) + overhangOf(policy));
          let units = 0;
          while (clock.now < end) {
            const { allowed, retryAfterMs } = await limiter.consume('key');
            if (allowed) units++;
            else clock.now += retryAfterMs!;
          }
          expectAtLeast(`units in 5 windows of ${limit} per ${window} ms`, units, 5 * limit);
        }
      },
    );
  }
}

/** Plays a client's steps. @returns the admissions that were not given back, each at its time of effect */
async function play(lab: Lab, policy: Policy, steps: readonly Step[]): Promise<Admission[]> {
  const { clock, limiter } = await lab.open(policy);
  const held = countsSlots(policy);
  const admissions: Admission[] = [];
  let retryAfter = 0;
  for (const { wait, cost, then } of steps) {
    if (wait === 'edge') clock.now += (await limiter.peek('key')).retryAfterMs ?? 0;
    else clock.now += wait === 'retryAfter' ? retryAfter : Math.floor(wait * windowOf(policy));
    const all = Math.max(1, (await limiter.peek('key')).remaining);
    const units = cost === 'all' ? all : Math.min(cost, capacityOf(policy));
    const decision = await limiter.consume('key', { cost: units });
    retryAfter = decision.retryAfterMs ?? 0;
    if (!decision.allowed) continue;
    if (then === 'refund') {
      await decision.refund();
      if (!held) continue;
    }
    if (held && then === 'release') await decision.release();
    else admissions.push({ at: clock.now + decision.delayMs, units: decision.cost });
  }
  return admissions;
}
