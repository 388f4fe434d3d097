// Law 6. A clock that jumps back or forth never locks a key out for more than one window.
import fc from 'fast-check';
import { overhangOf, policyOf, windowOf } from '../algorithms.js';
import { expectAtMost, expectFields } from '../expect.js';
import { integer, list, pick } from '../random.js';
import type { Suite } from '../subject.js';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
/** A case has at most nine steps, so that the store's time stays ahead of real time. */
const JUMPS = [-1, -1_000, -60_000, -HOUR, -DAY, HOUR, DAY];

const steps = list(
  1,
  9,
  fc.record({
    wait: fc.oneof(integer(0, 5_000), pick(JUMPS)),
    cost: pick([1, 1, 2, 5, 20]),
    owe: pick([0, 0, 0, 3, 1_000]),
  }),
);

export function lawOfClock(suite: Suite): void {
  for (const algorithm of suite.algorithms) {
    suite.addRandom(
      `${algorithm}: whatever the clock does, a unit is free within one window`,
      fc.record({ policy: policyOf(algorithm), steps }),
      async ({ policy, steps }, lab) => {
        const { clock, limiter } = await lab.open(policy);
        for (const { wait, cost, owe } of steps) {
          clock.now += wait;
          await (await limiter.consume('key', { cost })).settle(cost + owe);
        }
        const { allowed, retryAfterMs } = await limiter.consume('key');
        if (allowed) return;
        expectAtMost('retryAfter', retryAfterMs, windowOf(policy) + overhangOf(policy));
        clock.now += retryAfterMs!;
        expectFields('at retryAfter', await limiter.consume('key'), { allowed: true });
      },
    );
  }

  suite.add('a ban never lasts longer than it was made for', async (lab) => {
    for (const jump of [-DAY, -HOUR, -1, 0, 1, HOUR]) {
      const { clock, limiter } = await lab.open({ limit: 10, window: 1_000, ban: {} });
      await limiter.ban('key', 60_000);
      clock.now += jump;
      const { retryAfterMs } = await limiter.consume('key');
      expectAtMost(`retryAfter after a jump of ${jump} ms`, retryAfterMs, 60_000);
      clock.now += retryAfterMs!;
      expectFields('at retryAfter', await limiter.consume('key'), { allowed: true });
    }
  });
}
