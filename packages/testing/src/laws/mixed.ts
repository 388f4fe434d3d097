// The laws for limiters with policies by several dimensions. Each request has some of the keys.
import fc from 'fast-check';
import type { Decision, Key, Policy } from 'headgate';
import { boundOf, named, overhangOf, policyOf, windowOf } from '../algorithms.js';
import { DIMENSIONS, mixedKeys, slotsOf } from '../dimensions.js';
import { expectAtMost, expectEqual, expectFields, expectWithin } from '../expect.js';
import { integer, list, pick } from '../random.js';
import { expectExactWait, limiterOn, type Suite } from '../subject.js';
import { worstWindow, type Admission } from '../worst-window.js';

function cases(algorithms: Suite['algorithms']) {
  const ranges = { limits: [1, 2, 3, 5, 10], windows: [500, 1_000, 3_000], maxDelays: [0] };
  const policy = fc.tuple(policyOf(algorithms, ranges), pick(DIMENSIONS));
  const policies = list(3, 5, policy).map((all) =>
    all.map(([each, by], i): Policy => ({ ...each, by: DIMENSIONS[i] ?? by })),
  );
  const step = fc.record({
    wait: pick([0, 0, 0, 1, 50, 333, 1_000]),
    key: mixedKeys,
    cost: pick([1, 1, 1, 2, 3]),
  });
  return fc.record({ policies: named(policies), steps: list(10, 60, step) });
}

/** The ways to name a key of each dimension: alone, or with the key that it is counted within. */
const sides = (key: Exclude<Key, string>, slotBy: string | undefined): Key[] =>
  Object.entries(key).map(([dimension, value]) => ({
    ...(slotBy !== undefined && { [slotBy]: key[slotBy] }),
    [dimension]: value,
  }));

export function boundOfMixed(suite: Suite): void {
  const slots = slotsOf(suite.subject);
  suite.addRandom(
    'several dimensions: no key of any of them gets more than the published bound',
    cases(suite.quotas),
    async ({ policies, steps }, lab) => {
      const { clock, limiter } = await lab.open({ policies, ...slots });
      const admitted = new Map<string, Admission[]>();
      for (const { wait, key, cost } of steps) {
        clock.now += wait;
        const { allowed, policies: verdicts } = await limiter.consume(key, { cost });
        if (!allowed) continue;
        for (const verdict of verdicts) {
          // With `slotBy`, each key is counted within the key of that dimension.
          const owner = JSON.stringify([verdict.name, verdict.key, slots.slotBy && key[slots.slotBy]]);
          admitted.set(owner, [...(admitted.get(owner) ?? []), { at: clock.now, units: cost }]);
        }
      }
      for (const [owner, admissions] of admitted) {
        const policy = policies.find(({ name }) => owner.startsWith(`["${name}"`))!;
        expectAtMost(`units of ${owner}`, worstWindow(admissions, windowOf(policy)), boundOf(policy));
      }
    },
  );
}

export function retryOfMixed(suite: Suite): void {
  const slots = slotsOf(suite.subject);
  suite.addRandom(
    'several dimensions: denied until retryAfter, admitted at it',
    cases(suite.algorithms),
    async ({ policies, steps }, lab) => {
      const { clock, limiter } = await lab.open({ policies, ...slots });
      for (const { wait, key, cost } of steps) {
        clock.now += wait;
        const decision = await limiter.consume(key, { cost });
        if (decision.allowed || decision.retryAfterMs === undefined) continue;
        await expectExactWait(clock, decision, () => limiter.consume(key, { cost }));
      }
    },
  );
}

export function chargeOfMixed(suite: Suite): void {
  const slots = slotsOf(suite.subject);
  suite.addRandom(
    'several dimensions: a denial charges no key, an admission each of them, and a refund undoes the charge',
    cases(suite.algorithms),
    async ({ policies, steps }, lab) => {
      const { clock, limiter } = await lab.open({ policies, ...slots });
      const looks = async (key: Exclude<Key, string>): Promise<Decision['policies']> => {
        const peeks = await Promise.all(sides(key, slots.slotBy).map((side) => limiter.peek(side)));
        return peeks.flatMap((each) => each.policies);
      };
      for (const [i, { wait, key, cost }] of steps.entries()) {
        clock.now += wait;
        const before = await looks(key);
        const decision = await limiter.consume(key, { cost });
        const after = await looks(key);
        if (!decision.allowed) {
          expectEqual('the verdicts after a denial, each key by itself', after, before);
          continue;
        }
        for (const { name, key: its, remaining } of decision.policies) {
          const left = before.find((each) => each.name === name)!;
          expectEqual(`whose ${name} is`, its, left.key);
          expectEqual(`remaining of ${name}`, remaining, left.remaining - cost);
        }
        // A window begins with a charge, so only quotas that were in use before are compared.
        if (i % 3 !== 0 || before.some(({ resetAfterMs }) => resetAfterMs === 0)) continue;
        await decision.cancel();
        expectEqual('the verdicts after it was taken back', await looks(key), before);
      }
    },
  );

  if (slots.slotBy !== undefined) return;
  suite.add('several dimensions: a reset of one key leaves the others alone', async (lab) => {
    const policies = DIMENSIONS.map((by): Policy => ({ name: by, limit: 3, window: 60_000, by }));
    const { limiter } = await lab.open({ policies, ...slots });
    const key = { key: 'same', account: 'same', org: 'same' };
    await limiter.consume(key, { cost: 2 });
    await limiter.reset({ account: 'same' });
    const left = (await limiter.peek(key)).policies.map(({ remaining }) => remaining);
    expectEqual('remaining', left, [1, 3, 1]);
    const denied = { allowed: false, policy: 'key' };
    expectFields('by the key alone', await limiter.consume('same', { cost: 2 }), denied);
    const other = await limiter.consume({ account: 'same' }, { cost: 3 });
    expectFields('by others alone', other, { allowed: true });
    await limiter.refund({ org: 'same' }, 1);
    expectFields('after a refund', await limiter.peek({ org: 'same' }), { remaining: 2, key: 'same' });
  });

  if (slots.acrossSlots) return;
  suite.add('several dimensions: a ban applies to the key of its dimension', async (lab) => {
    const policies = ['ip=100/1m', 'account=2/1m by account'];
    const { limiter } = await lab.open({ policies, ban: { after: 2, for: 600_000, by: 'account' } });
    const asks = async (what: string, key: Key, expected: object) =>
      expectFields(what, await limiter.consume(key), expected);
    // Denials by the key count only towards bans of keys: nobody is banned for the requests of others.
    await limiter.consume('full', { cost: 100 });
    for (let i = 0; i < 4; i++) await limiter.consume({ key: 'full', account: 'ada' });
    await asks('denied by the key alone', { key: 'x', account: 'ada' }, { allowed: true });
    for (let i = 0; i < 3; i++) await limiter.consume({ key: 'x', account: 'ada' });
    await asks('elsewhere', { key: 'y', account: 'ada' }, { allowed: false, reason: 'banned' });
    await asks('another account', { key: 'y', account: 'x' }, { allowed: true });
    await asks('no account', { key: 'y' }, { allowed: true });
    await limiter.unban({ account: 'ada' });
    await asks('unbanned', { key: 'z', account: 'ada' }, { allowed: false, policy: 'account' });
    await limiter.unban({ account: 'ada' }, { fresh: true });
    await asks('unbanned, and reset', { key: 'z', account: 'ada' }, { allowed: true });
    await limiter.ban({ account: 'x' }, 5_000);
    await asks('by hand', { account: 'x' }, { allowed: false, retryAfterMs: 5_000 });
  });
}

export function raceOfMixed(suite: Suite): void {
  const slots = slotsOf(suite.subject);
  suite.addRandom(
    'several dimensions: of simultaneous requests, each key gets exactly its limit',
    fc.record({
      limits: fc.tuple(integer(1, 10), integer(1, 20), integer(1, 30)),
      steps: list(1, 60, fc.tuple(integer(0, 1), integer(0, 4), integer(0, 1))),
    }),
    async ({ limits: [ip, account, org], steps }, lab) => {
      const month = 30 * 24 * 3_600_000;
      const policies = [
        { name: 'ip', algorithm: 'fixed-window', limit: ip, window: month },
        { name: 'account', algorithm: 'token-bucket', limit: account, window: month, by: 'account' },
        { name: 'org', algorithm: 'sliding-window', limit: org, window: month, by: 'org' },
      ] satisfies Policy[];
      const options = { name: 'race', policies, ...slots };
      const { store, clock, limiter } = await lab.open(options);
      const sibling = limiterOn(await lab.createSibling(store, clock), options);
      const asked = steps.map(([which, address, account]) =>
        [limiter, sibling][which]!.consume({ key: `ip${address}`, account: `a${account}`, org: 'acme' }),
      );
      const admitted = new Map<string, number>();
      const decisions = await Promise.all(asked);
      for (const { policies: verdicts } of decisions.filter(({ allowed }) => allowed)) {
        for (const { name, key, limit } of verdicts) {
          const owner = `${name} ${key}`;
          admitted.set(owner, (admitted.get(owner) ?? 0) + 1);
          expectAtMost(`admitted of ${owner}`, admitted.get(owner), limit);
        }
      }
      for (const { allowed, policy, policies: verdicts } of decisions) {
        // Across slots, a request may be denied because of charges that another request must give back.
        if (allowed || slots.acrossSlots) continue;
        const { key, limit } = verdicts.find(({ name }) => name === policy)!;
        expectEqual(`admitted of ${policy} ${key}, which denied`, admitted.get(`${policy} ${key}`), limit);
      }
    },
  );
}

export function changeOfMixed(suite: Suite): void {
  const slots = slotsOf(suite.subject);
  suite.addRandom(
    'another dimension: each configuration keeps to its own bound, and locks no key out',
    fc.record({
      policy: policyOf(suite.quotas, { limits: [1, 2, 5], windows: [500, 3_000], maxDelays: [0] }),
      steps: list(
        20,
        80,
        fc.record({
          wait: pick([0, 0, 1, 50, 333, 1_000]),
          which: integer(0, 2),
          key: fc.record({ key: pick(['a', 'b']), account: pick(['a', 'b']), org: fc.constant('a') }),
        }),
      ),
    }),
    async ({ policy: base, steps }, lab) => {
      const policies = DIMENSIONS.map((by): Policy => ({ ...base, by }));
      const all = policies.map((each, i) => ({ ...each, name: `p${i}` }));
      const { clock, limiter } = await lab.open({ policies: all, ...slots });
      const sets = policies.map((policy) => limiter.compile([policy]));
      const admitted = new Map<string, Admission[]>();
      for (const { wait, which, key } of steps) {
        clock.now += wait;
        const decision = await limiter.decide(key, 1, sets[which]);
        const policy = policies[which]!;
        if (!decision.allowed) {
          expectWithin('retryAfter', decision.retryAfterMs, 1, windowOf(policy) + overhangOf(policy));
          continue;
        }
        const owner = `${policy.by} ${decision.policies[0]!.key}`;
        admitted.set(owner, [...(admitted.get(owner) ?? []), { at: clock.now, units: 1 }]);
        expectAtMost(
          `units of ${owner}`,
          worstWindow(admitted.get(owner)!, windowOf(policy)),
          boundOf(policy),
        );
      }
    },
  );
}
