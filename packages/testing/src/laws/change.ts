// Law 12. Configurations with the same name for one quota, in any interleaving: no configuration exceeds its own bound or locks a key out,
// and a higher limit never means a longer wait.
import fc from 'fast-check';
import { parsePolicy, type Algorithm, type Policy } from 'headgate';
import {
  boundOf,
  countsSlots,
  overhangOf,
  plainPolicy,
  policyOf,
  sharesCount,
  windowOf,
} from '../algorithms.js';
import { expectAtLeast, expectAtMost, expectEqual, expectFields, expectWithin, show } from '../expect.js';
import { integer, list, pick } from '../random.js';
import { expectExactWait, type Lab, type Suite } from '../subject.js';
import { worstWindow, type Admission } from '../worst-window.js';

const RANGES = {
  limits: [1, 2, 3, 5, 7, 20, 100],
  windows: [500, 1_000, 3_000, 7_000],
  maxDelays: [0, 2_000],
};

/** Requests. `which` is the index of the configuration for the request. */
const requests = list(
  20,
  80,
  fc.record({
    wait: pick([0, 0, 0, 0, 1, 50, 100, 333, 1_000]),
    which: integer(0, 2),
    cost: pick([0, 1, 1, 1, 2, 5, 30]),
  }),
);

/** Configurations of one algorithm, which may differ in any field; and requests. */
const configurations = (algorithm: Algorithm) =>
  fc.record({ policies: list(2, 3, policyOf(algorithm, RANGES)), steps: requests });

/** A policy, and another one with a higher limit, rate or burst. */
const raised = (algorithm: Algorithm): fc.Arbitrary<readonly [Policy, Policy]> =>
  fc
    .tuple(policyOf(algorithm, RANGES), integer(0, 50), pick([1, 2, 10]), integer(0, 50))
    .map(([policy, units, divisor, burst]) => {
      const larger: Record<string, unknown> = { ...policy, limit: policy.limit + units };
      for (const span of ['window', 'lease'].filter((each) => each in policy))
        larger[span] = Math.ceil(windowOf(policy) / divisor);
      if ('burst' in policy && policy.burst !== undefined) larger['burst'] = policy.burst + burst;
      return [policy, larger as unknown as Policy];
    });

export function lawOfChange(suite: Suite): void {
  for (const algorithm of suite.algorithms) changesOf(suite, algorithm);
  pairs(suite);

  suite.add(
    'a bucket that is raised a hundredfold admits at once a request that was to wait a minute',
    async (lab) => {
      const small: Policy = { algorithm: 'token-bucket', limit: 60, window: 3_600_000, burst: 10 };
      const { ask } = await open(lab, [small, { ...small, limit: 6_000 }]);
      await ask(0, 10);
      expectFields('the small one', await ask(0, 1), { allowed: false, retryAfterMs: 60_000 });
      expectFields('the large one', await ask(1, 1), { allowed: true });
    },
  );

  for (const algorithm of suite.algorithms.filter((each) => sharesCount(plainPolicy(each, 1, 1))))
    suite.add(`${algorithm}: a denial by a smaller tier gives nothing back to a larger one`, async (lab) => {
      const { ask } = await open(
        lab,
        [10, 100].map((limit) => plainPolicy(algorithm, limit, 60_000)),
      );
      await ask(1, 90);
      expectFields('the smaller', await ask(0, 1), { allowed: false });
      expectFields('the larger', await ask(1, 0), { remaining: 10 });
    });
}

function changesOf(suite: Suite, algorithm: Algorithm): void {
  if (!countsSlots(plainPolicy(algorithm, 1, 1)))
    suite.addRandom(
      `${algorithm}: each configuration keeps to its own bound, whichever is asked`,
      configurations(algorithm),
      async ({ policies, steps }, lab) => {
        const { clock, ask, expectBounds } = await open(lab, policies);
        for (const { wait, which, cost } of steps) {
          clock.now += wait;
          const { allowed } = await ask(which % policies.length, cost);
          // The adversary: after a denial, the client tries all other configurations.
          if (!allowed) for (const i of policies.keys()) await ask(i, cost);
        }
        expectBounds();
      },
    );

  suite.addRandom(
    `${algorithm}: denials and looks leave no trace for any configuration`,
    configurations(algorithm),
    async ({ policies, steps }, lab) => {
      const [all, without] = [await open(lab, policies), await open(lab, policies)];
      without.clock.now = all.clock.now;
      for (const { wait, which, cost } of steps) {
        all.clock.now += wait;
        without.clock.now += wait;
        const i = which % policies.length;
        if ((await all.ask(i, cost)).allowed && cost > 0) await without.ask(i, cost);
        for (const k of policies.keys()) {
          const [is, were] = [await all.ask(k, 0), await without.ask(k, 0)];
          expectEqual(`configuration ${k}, as without the denials`, is.policies, were.policies);
        }
      }
    },
  );

  suite.addRandom(
    `${algorithm}: the wait of a configuration is exact, and at most its window`,
    configurations(algorithm),
    async ({ policies, steps }, lab) => {
      const { clock, ask } = await open(lab, policies);
      for (const { wait, which, cost } of steps) {
        clock.now += wait;
        await ask(which % policies.length, cost);
      }
      for (const [i, policy] of policies.entries()) {
        const decision = await ask(i, 1);
        if (decision.allowed) continue;
        expectWithin(`retryAfter of ${i}`, decision.retryAfterMs, 1, windowOf(policy) + overhangOf(policy));
        await expectExactWait(clock, decision, () => ask(i, 1));
      }
    },
  );

  suite.addRandom(
    `${algorithm}: a higher limit, rate or burst never means a longer wait`,
    fc.record({ policies: raised(algorithm), steps: requests }),
    async ({ policies, steps }, lab) => {
      const { clock, ask } = await open(lab, policies);
      for (const { wait, cost } of steps) {
        clock.now += wait;
        await ask(0, cost);
        const [before, after] = [await ask(0, 0), await ask(1, 0)];
        expectAtLeast('remaining of the larger', after.remaining, Math.min(before.remaining, after.limit));
        const denied = await ask(0, 1);
        if (denied.allowed) continue;
        expectAtMost('retryAfter of the larger', (await ask(1, 1)).retryAfterMs, denied.retryAfterMs!);
        return;
      }
    },
  );
}

/** Configurations with which other limiters failed: after a denial, the client tries the second configuration. */
const PAIRS: readonly (readonly [title: string, one: string, other: string])[] = [
  ['sliding-log 20/1m beside 100/1m', 'sliding-log 20/1m', 'sliding-log 100/1m'],
  ['sliding-window 10/1m beside 100/10s', 'sliding-window 10/1m', 'sliding-window 100/10s'],
  ['sliding-window 100/1m beside 100/30s', 'sliding-window 100/1m', 'sliding-window 100/30s'],
  ['sliding-window, other segments', 'sliding-window 100/1m', 'sliding-window 100/1m segments 7'],
  ['token-bucket 100/1m beside 5/1s', 'token-bucket 100/1m', 'token-bucket 5/1s'],
  ['token-bucket, another burst', 'token-bucket 10/1s burst 1', 'token-bucket 10/1s burst 100'],
  ['fixed-window, another window', 'fixed-window 10/1s', 'fixed-window 10/1m'],
];

function pairs(suite: Suite): void {
  for (const [title, ...texts] of PAIRS) {
    const policies = texts.map(parsePolicy);
    if (!suite.algorithms.includes(policies[0]!.algorithm!)) continue;
    suite.add(`${title}: a client of both gains nothing, and neither locks the other out`, async (lab) => {
      const { clock, ask, expectBounds } = await open(lab, policies);
      const last = [clock.now, clock.now];
      const step = Math.ceil((3 * Math.max(...policies.map(windowOf))) / 500);
      // Counts that differ only in the limit are shared, so the larger configuration may keep the count full.
      const shared = title.startsWith('sliding-log');
      for (let i = 0; i < 500; i++) {
        clock.now += step;
        for (const [which, policy] of policies.entries()) {
          if ((await ask(which, 1)).allowed) last[which] = clock.now;
          const since = clock.now - (shared ? Math.max(...last) : last[which]!);
          expectAtMost(`the denial by configuration ${which}, ms`, since, 1.2 * windowOf(policy) + step);
        }
      }
      expectBounds();
    });
  }
}

/** Sends requests to each configuration of one quota by index, and records the admissions. */
async function open(lab: Lab, policies: readonly Policy[]) {
  const { clock, limiter } = await lab.open({ limit: 1, window: 1 });
  const sets = policies.map((policy) => limiter.compile([policy]));
  const admissions: Admission[][] = policies.map(() => []);
  const ask = async (i: number, cost: number) => {
    const decision = await limiter.decide('key', cost, sets[i]);
    if (decision.allowed && cost > 0) admissions[i]!.push({ at: clock.now + decision.delayMs, units: cost });
    return decision;
  };
  const expectBounds = () => {
    for (const [i, policy] of policies.entries()) {
      const worst = worstWindow(admissions[i]!, windowOf(policy));
      expectAtMost(`units in the fullest window of ${show(policy)}`, worst, boundOf(policy));
    }
  };
  return { clock, ask, expectBounds };
}
