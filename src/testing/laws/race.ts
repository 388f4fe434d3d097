// Law 7. N simultaneous requests against limit L admit exactly min(N, L), each told its own remaining.
import { plainPolicy } from '../algorithms.js';
import { expectEqual } from '../expect.js';
import { limiterOn, type Suite } from '../subject.js';

/** So long that no unit comes back during the check. */
const MONTH = 30 * 24 * 3_600_000;

export function lawOfRace(suite: Suite): void {
  for (const algorithm of suite.algorithms) {
    suite.addRandom(
      `${algorithm}: simultaneous requests: exactly the limit is admitted, and each is told its own remaining`,
      (random) => ({ limit: random.integer(1, 40), steps: random.list(1, 80, () => random.integer(0, 1)) }),
      async ({ limit, steps }, lab) => {
        const options = { name: 'race', ...plainPolicy(algorithm, limit, MONTH) };
        const { store, clock, limiter } = await lab.open(options);
        const sibling = limiterOn(await lab.createSibling(store, clock), options);
        const asked = steps.map((which) => [limiter, sibling][which]!.consume('key'));
        const admitted = (await Promise.all(asked)).filter(({ allowed }) => allowed);
        const remaining = admitted.map((each) => each.remaining).sort((a, b) => b - a);
        const countdown = Array.from({ length: Math.min(limit, steps.length) }, (_, i) => limit - 1 - i);
        expectEqual('what those admitted are told of remaining', remaining, countdown);
      },
    );
  }
}
