// Law 7. N simultaneous requests against limit L admit exactly min(N, L), each with its own remaining.
import fc from 'fast-check';
import { plainPolicy } from '../algorithms.js';
import { expectEqual, expectFields } from '../expect.js';
import { integer, list } from '../random.js';
import { limiterOn, type Suite } from '../subject.js';

/** A window so long that no unit becomes free during the check. */
const MONTH = 30 * 24 * 3_600_000;

export function lawOfRace(suite: Suite): void {
  for (const algorithm of suite.algorithms) {
    suite.addRandom(
      `${algorithm}: simultaneous requests: exactly the limit is admitted, and each gets its own remaining`,
      fc.record({ limit: integer(1, 40), steps: list(1, 80, integer(0, 1)) }),
      async ({ limit, steps }, lab) => {
        const options = { name: 'race', ...plainPolicy(algorithm, limit, MONTH) };
        const { store, clock, limiter } = await lab.open(options);
        const sibling = limiterOn(await lab.createSibling(store, clock), options);
        const asked = steps.map((which) => [limiter, sibling][which]!.consume('key'));
        const admitted = (await Promise.all(asked)).filter(({ allowed }) => allowed);
        const remaining = admitted.map((each) => each.remaining).sort((a, b) => b - a);
        const countdown = Array.from({ length: Math.min(limit, steps.length) }, (_, i) => limit - 1 - i);
        expectEqual('remaining of the admitted requests', remaining, countdown);
      },
    );

    suite.add(`${algorithm}: simultaneous charges, refunds and bans all take effect`, async (lab) => {
      const options = { name: 'all', ...plainPolicy(algorithm, 20, MONTH), ban: {} };
      const { store, clock, limiter } = await lab.open(options);
      const sibling = limiterOn(await lab.createSibling(store, clock), options);
      const first = await Promise.all([limiter, sibling, limiter].map((each) => each.consume('key')));
      const [, , , ...second] = await Promise.all([
        limiter.ban('key', '1h'),
        first[0]!.cancel(),
        first[1]!.cancel(),
        ...[limiter, sibling, limiter].map((each) => each.consume('key', { cost: 2 })),
      ]);
      expectFields('the ban', await sibling.peek('key'), { reason: 'banned' });
      await sibling.unban('key');
      const remaining = 19 - 2 * second.filter(({ allowed }) => allowed).length;
      expectFields('the charges', await limiter.peek('key'), { allowed: true, remaining });
      await sibling.reset('key');
      expectFields('after a reset', await limiter.peek('key'), { remaining: 20 });
    });
  }
}
