// Law 16. From the moment of an override, every decision in every process obeys it. Spent units stay spent.
import fc from 'fast-check';
import { memoryStore, type Algorithm, type Decision, type HeadgateError, type Limiter } from 'headgate';
import { TestClock } from 'headgate/testing';
import { drains, plainPolicy } from '../algorithms.js';
import { expectEqual, expectFields } from '../expect.js';
import { integer, list, pick } from '../random.js';
import { limiterOn, type Lab, type Suite } from '../subject.js';

const MINUTE = 60_000;

/** Divisors of a minute, so that a unit of a bucket is a whole number of milliseconds. */
const LIMITS = [1, 2, 3, 5, 10, 20, 60];

export function lawOfLive(suite: Suite): void {
  if (!(suite.subject.overrides ?? true)) {
    suite.add('a limiter with overrides refuses a store without them', async (lab) => {
      const refused = await lab.open({ limit: 1, window: '1m', overrides: true }).then(
        () => undefined,
        (error: HeadgateError) => error.code,
      );
      expectEqual('the error', refused, 'HEADGATE_OVERRIDES');
    });
    return;
  }
  for (const algorithm of suite.algorithms) ofAlgorithm(suite, algorithm);
  const [some] = suite.algorithms;
  if (some !== undefined) ofRecords(suite, some);
}

function ofRecords(suite: Suite, algorithm: Algorithm): void {
  suite.add('an override of all keys can be read back, and is of one limiter', async (lab) => {
    const { store, clock, limiter } = await lab.open({ ...optionsOf(algorithm, 5), name: 'a' });
    const other = limiterOn(store, { ...optionsOf(algorithm, 5), name: 'b' });
    const sibling = limiterOn(await lab.createSibling(store, clock), {
      ...optionsOf(algorithm, 5),
      name: 'a',
    });
    await limiter.overrideAll({ limit: 7 }, { by: 'ada', reason: 'für 👍' });
    // The override lasts until it is removed.
    clock.now += 400 * 24 * 60 * MINUTE;
    const { change, by, reason } = (await sibling.overrideOf()) ?? {};
    const expected = { change: { limit: 7 }, by: 'ada', reason: 'für 👍' };
    expectEqual('the override', { change, by, reason }, expected);
    expectEqual('the override of a key', await limiter.overrideOf('key'), undefined);
    expectEqual('the override of another limiter', await other.overrideOf(), undefined);
    expectEqual('whether there was an override', await limiter.removeOverride(), true);
    expectEqual('the override that ended', await limiter.overrideOf(), undefined);
  });

  suite.add('an override of another window, or to another tier, is in force at once', async (lab) => {
    const [policy, tier, window] = [5, 50, 7].map((limit, i) =>
      plainPolicy(algorithm, limit, (1 + i) * MINUTE),
    );
    const options = { policies: [policy!], tiers: { pro: [tier!] }, overrides: true };
    const { limiter } = await lab.open(options);
    await limiter.override('window', window!);
    expectFields('another window', await limiter.consume('window'), { limit: 7, remaining: 6 });
    await limiter.override('tier', { tier: 'pro' });
    expectFields('another tier', await limiter.consume('tier'), { limit: 50, remaining: 49 });
    expectFields('another key', await limiter.consume('other'), { limit: 5, remaining: 4 });
  });

  suite.add('an override holds in a process with other policies, after a deployment', async (lab) => {
    const optionsBy = (limit: number, window: number) => ({
      ...{ name: 'live', overrides: true },
      policies: [plainPolicy(algorithm, limit, window)],
    });
    const { store, clock, limiter } = await lab.open(optionsBy(5, MINUTE));
    await limiter.override('key', { limit: 50 });
    await limiter.close();
    const other = limiterOn(await lab.createSibling(store, clock), optionsBy(6, 2 * MINUTE));
    expectFields('the override', await other.consume('key'), { limit: 50, remaining: 49 });
    expectFields('another key', await other.consume('other'), { limit: 6, remaining: 5 });
    await other.removeOverride('key');
    expectFields('ended', await other.peek('key'), { limit: 6 });
  });

  suite.add('a reset leaves an override as it is', async (lab) => {
    const [limiter] = await both(lab, algorithm, 5);
    await limiter.override('key', { limit: 50 });
    await limiter.consume('key', { cost: 4 });
    await limiter.reset('key');
    expectFields('after the reset', await limiter.peek('key'), { limit: 50, remaining: 50 });
  });
}

function ofAlgorithm(suite: Suite, algorithm: Algorithm): void {
  suite.add(`${algorithm}: another limit is in force at once, and spent units stay spent`, async (lab) => {
    const [limiter, sibling] = await both(lab, algorithm, 5);
    await Promise.all([limiter.override('key', { limit: 50 }), limiter.consume('key', { cost: 5 })]);
    expectFields('raised', await sibling.peek('key'), { allowed: true, limit: 50, remaining: 45 });
    expectFields('another key', await sibling.peek('other'), { limit: 5, remaining: 5 });
    await sibling.override('key', { limit: 3 });
    expectFields('lowered', await limiter.consume('key'), { allowed: false, limit: 3, remaining: 0 });
    expectEqual('whether there was an override', await limiter.removeOverride('key'), true);
    expectFields('ended', await sibling.consume('key'), { allowed: false, limit: 5, remaining: 0 });
  });

  suite.add(`${algorithm}: charges are given back whole across an override`, async (lab) => {
    const [limiter] = await both(lab, algorithm, 5);
    const before = await limiter.consume('key', { cost: 3 });
    await limiter.override('key', { limit: 10 });
    const under = await limiter.consume('key', { cost: 4 });
    expectFields('both charged', await limiter.peek('key'), { remaining: 3 });
    await before.cancel();
    expectFields('the first given back', await limiter.peek('key'), { remaining: 6 });
    await under.cancel();
    expectFields('both given back', await limiter.peek('key'), { remaining: 10 });
    await limiter.removeOverride('key');
    expectFields('ended', await limiter.peek('key'), { limit: 5, remaining: 5 });
  });

  suite.add(`${algorithm}: an override ends at its time`, async (lab) => {
    const clock = new TestClock();
    const [limiter] = await both(lab, algorithm, 5, clock);
    await limiter.override('key', { limit: 50 }, { for: 10_000 });
    clock.now += 9_999;
    expectFields('1 ms before', await limiter.peek('key'), { limit: 50, remaining: 50 });
    clock.now += 1;
    expectFields('at its end', await limiter.peek('key'), { limit: 5, remaining: 5 });
    expectEqual('the override', await limiter.overrideOf('key'), undefined);
  });

  // Stores may forget a bucket that would be full by its last rate, each at another time, so two stores may differ.
  if (drains(plainPolicy(algorithm, 1, MINUTE))) return;
  suite.addRandom(
    `${algorithm}: random overrides, requests and give-backs are as of a memory store`,
    fc.record({ limit: pick(LIMITS), steps: list(5, 40, step) }),
    async ({ limit, steps }, lab) => {
      const [clock, own] = [new TestClock(), new TestClock()];
      own.now = clock.now;
      const reference = memoryStore({ clock: own.read });
      const limiters = await both(lab, algorithm, limit, clock);
      const others = [limiterOn(reference, optionsOf(algorithm, limit))] as const;
      const expected = await play([others[0], others[0]], own, steps);
      await reference.close?.();
      expectEqual('the result of each step', await play(limiters, clock, steps), expected);
    },
  );
}

function optionsOf(algorithm: Algorithm, limit: number) {
  return { name: 'live', overrides: true, ...plainPolicy(algorithm, limit, MINUTE) };
}

/** Two limiters on the same state, like two processes. */
async function both(
  lab: Lab,
  algorithm: Algorithm,
  limit: number,
  clock?: TestClock,
): Promise<readonly [Limiter, Limiter]> {
  const options = optionsOf(algorithm, limit);
  const { store, clock: own, limiter } = await lab.open(options, clock);
  return [limiter, limiterOn(await lab.createSibling(store, own), options)];
}

interface Step {
  readonly wait: number;
  readonly by: number;
  readonly do: 'consume' | 'peek' | 'cancel' | 'override' | 'remove';
  /** Units, or the new limit. */
  readonly units: number;
  /** ms, or 0 if until it is removed. */
  readonly lasts: number;
}

const rare = ['peek', 'cancel', 'override', 'remove'] as const;
const step: fc.Arbitrary<Step> = fc
  .record({
    wait: pick([0, 0, 1, 250, 5_000, 31_000]),
    by: integer(0, 1),
    do: pick(['consume', 'consume', 'consume', ...rare] as const),
    units: integer(0, 4),
    limit: pick(LIMITS),
    lasts: pick([0, 1_000, 40_000]),
  })
  .map(({ limit, ...each }) => (each.do === 'override' ? { ...each, units: limit } : each));

async function play(
  limiters: readonly [Limiter, Limiter],
  clock: TestClock,
  steps: readonly Step[],
): Promise<unknown[]> {
  const key = 'b{}%';
  const admitted: Decision[] = [];
  const results: unknown[] = [];
  for (const { wait, by, do: what, units, lasts } of steps) {
    clock.now += wait;
    const limiter = limiters[by]!;
    if (what === 'override') await limiter.override(key, { limit: units }, lasts === 0 ? {} : { for: lasts });
    else if (what === 'remove') results.push(await limiter.removeOverride(key));
    else if (what === 'cancel') await admitted.shift()?.cancel();
    else {
      const decision = await limiter[what](key, { cost: units });
      if (what === 'consume' && decision.allowed) admitted.push(decision);
      const { allowed, limit, remaining, retryAfterMs, resetAfterMs } = decision;
      results.push({ allowed, limit, remaining, retryAfterMs, resetAfterMs });
    }
  }
  return results;
}
