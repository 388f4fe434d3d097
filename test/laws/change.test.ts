// Law 12. Configurations that share a quota's name, in any interleaving: none goes beyond its own bound, none locks a key out, and a
// higher limit never makes anybody wait longer.
import { expect } from 'chai';
import fc from 'fast-check';
import type { Algorithm, Policy } from 'headgate';
import { worstWindow, type Admission } from '../support/oracle.js';
import { algorithms, boundOf, overhangOf, policyOf, windowOf } from '../support/policies.js';
import { runs } from '../support/random.js';
import { limiterOn, stores, TestClock, type CreateStore } from '../support/stores.js';

const ranges = {
  limits: [1, 2, 3, 5, 7, 20, 100],
  windows: [500, 1_000, 3_000, 7_000],
  maxDelays: [0, 2_000],
};

const quotas = algorithms.filter((algorithm) => algorithm !== 'concurrency');

/** Configurations of one algorithm: any field may differ. */
const configurations = (algorithm: Algorithm) =>
  fc.array(policyOf(algorithm, ranges), { minLength: 2, maxLength: 3 });

/** Asks each configuration of one quota by its number, at the test's time. */
function open(createStore: CreateStore, policies: readonly Policy[]) {
  const clock = new TestClock();
  const limiter = limiterOn(createStore(clock.read), { limit: 1, window: 1 });
  const sets = policies.map((policy) => limiter.compile([policy]));
  const admissions: Admission[][] = policies.map(() => []);
  const ask = async (i: number, cost: number) => {
    const decision = await limiter.decide('key', cost, sets[i]);
    if (decision.allowed && cost > 0) admissions[i]!.push({ at: clock.now + decision.delayMs, units: cost });
    return decision;
  };
  const check = () =>
    policies.forEach((policy, i) => {
      expect(worstWindow(admissions[i]!, windowOf(policy)), JSON.stringify(policy)).to.be.at.most(
        boundOf(policy),
      );
    });
  return { clock, ask, check };
}

const requests = fc.array(
  fc.record({
    wait: fc.constantFrom(0, 0, 0, 0, 1, 50, 100, 333, 1_000),
    which: fc.nat(2),
    cost: fc.constantFrom(0, 1, 1, 1, 2, 5, 30),
  }),
  { minLength: 20, maxLength: 80, size: 'max' },
);

/** Pairs that were once played against each other, of the report that made this a law. */
const PAIRS: readonly (readonly [string, Policy, Policy])[] = [
  [
    'sliding-log 20/1m beside 100/1m',
    { algorithm: 'sliding-log', limit: 20, window: 60_000 },
    { algorithm: 'sliding-log', limit: 100, window: 60_000 },
  ],
  ['the default 10/1m beside 100/10s', { limit: 10, window: 60_000 }, { limit: 100, window: 10_000 }],
  ['the default 100/1m beside 100/30s', { limit: 100, window: 60_000 }, { limit: 100, window: 30_000 }],
  [
    'the default, other segments',
    { limit: 100, window: 60_000 },
    { limit: 100, window: 60_000, segments: 7 },
  ],
  [
    'token-bucket 100/1m beside 5/1s',
    { algorithm: 'token-bucket', limit: 100, window: 60_000 },
    { algorithm: 'token-bucket', limit: 5, window: 1_000 },
  ],
  [
    'token-bucket, another burst',
    { algorithm: 'token-bucket', limit: 10, window: 1_000, burst: 1 },
    { algorithm: 'token-bucket', limit: 10, window: 1_000, burst: 100 },
  ],
  [
    'fixed-window, another window',
    { algorithm: 'fixed-window', limit: 10, window: 1_000 },
    { algorithm: 'fixed-window', limit: 10, window: 60_000 },
  ],
];

for (const [name, createStore] of Object.entries(stores)) {
  describe(`law 12, change, on ${name}`, function () {
    this.timeout(60_000);

    for (const algorithm of algorithms) {
      it(`${algorithm}: each keeps to its own bound, whichever is asked`, () =>
        fc.assert(
          fc.asyncProperty(configurations(algorithm), requests, async (policies, list) => {
            const { clock, ask, check } = open(createStore, policies);
            for (const { wait, which, cost } of list) {
              clock.now += wait;
              const decision = await ask(which % policies.length, cost);
              // The adversary: whoever is denied asks the others too.
              if (!decision.allowed) for (const i of policies.keys()) await ask(i, cost);
            }
            if (algorithm !== 'concurrency') check();
          }),
          runs(name, 100, 8),
        ));

      it(`${algorithm}: denials and looks leave no trace for any of them`, () =>
        fc.assert(
          fc.asyncProperty(configurations(algorithm), requests, async (policies, list) => {
            const all = open(createStore, policies);
            const without = open(createStore, policies);
            for (const { wait, which, cost } of list) {
              all.clock.now += wait;
              without.clock.now += wait;
              const i = which % policies.length;
              const decision = await all.ask(i, cost);
              if (decision.allowed && cost > 0) await without.ask(i, cost);
              for (const k of policies.keys())
                expect((await all.ask(k, 0)).policies).to.deep.equal((await without.ask(k, 0)).policies);
            }
          }),
          runs(name, 60, 4),
        ));

      it(`${algorithm}: what one says of its wait holds, and is no longer than its window`, () =>
        fc.assert(
          fc.asyncProperty(configurations(algorithm), requests, async (policies, list) => {
            const { clock, ask } = open(createStore, policies);
            for (const { wait, which, cost } of list) {
              clock.now += wait;
              await ask(which % policies.length, cost);
            }
            for (const [i, policy] of policies.entries()) {
              const { allowed, retryAfterMs } = await ask(i, 1);
              if (allowed) continue;
              expect(retryAfterMs).to.be.within(1, windowOf(policy) + overhangOf(policy));
              clock.now += retryAfterMs! - 1;
              expect((await ask(i, 1)).allowed).to.be.false;
              clock.now += 1;
              expect((await ask(i, 1)).allowed).to.be.true;
            }
          }),
          runs(name, 60, 6),
        ));

      it(`${algorithm}: more never means a longer wait`, () =>
        fc.assert(
          fc.asyncProperty(
            policyOf(algorithm, ranges),
            fc.record({ limit: fc.nat(50), faster: fc.constantFrom(1, 2, 10), burst: fc.nat(50) }),
            requests,
            async (policy, { limit, faster, burst }, list) => {
              const larger = { ...policy, limit: policy.limit + limit } as Record<string, unknown>;
              const span = 'lease' in policy ? 'lease' : 'window';
              larger[span] = Math.ceil(windowOf(policy) / faster);
              if ('burst' in policy && policy.burst !== undefined) larger['burst'] = policy.burst + burst;
              const { clock, ask } = open(createStore, [policy, larger as unknown as Policy]);
              for (const { wait, cost } of list) {
                clock.now += wait;
                await ask(0, cost);
                const before = await ask(0, 0);
                const after = await ask(1, 0);
                expect(after.remaining).to.be.at.least(Math.min(before.remaining, after.limit));
                const denied = await ask(0, 1);
                if (denied.allowed) continue;
                expect((await ask(1, 1)).retryAfterMs).to.be.at.most(denied.retryAfterMs!);
                return;
              }
            },
          ),
          runs(name, 60, 6),
        ));
    }

    for (const [title, one, two] of PAIRS) {
      it(`${title}: a client who asks the other whenever one denies gains nothing, and is not locked out`, async () => {
        const { clock, ask, check } = open(createStore, [one, two]);
        const policies = [one, two];
        const last = [clock.now, clock.now];
        const steps = name === 'memory' ? 3_000 : 600;
        const step = Math.ceil((3 * Math.max(windowOf(one), windowOf(two))) / steps);
        for (let i = 0; i < steps; i++) {
          clock.now += step;
          for (const which of [0, 1]) {
            if ((await ask(which, 1)).allowed) last[which] = clock.now;
            // Counts that differ in their limit are one count: the larger one may keep it full.
            const shared = one.algorithm === 'sliding-log';
            const since = shared ? clock.now - Math.max(...last) : clock.now - last[which]!;
            expect(since, `configuration ${which}`).to.be.at.most(1.2 * windowOf(policies[which]!) + step);
          }
        }
        check();
      });
    }

    it('a token bucket that is raised a hundredfold admits at once what was to wait a minute', async () => {
      const small: Policy = { algorithm: 'token-bucket', limit: 60, window: 3_600_000, burst: 10 };
      const { ask } = open(createStore, [small, { ...small, limit: 6_000 }]);
      await ask(0, 10);
      expect((await ask(0, 1)).retryAfterMs).to.equal(60_000);
      expect((await ask(1, 1)).allowed).to.be.true;
    });

    it('a denial by a smaller tier gives nothing back to a larger one', async () => {
      for (const algorithm of quotas.filter((each) => /window|log/.test(each))) {
        const large = { algorithm, limit: 100, window: 60_000 } as Policy;
        const { ask } = open(createStore, [{ ...large, limit: 10 }, large]);
        await ask(1, 90);
        expect((await ask(0, 1)).allowed).to.be.false;
        expect(await ask(1, 0)).to.include({ remaining: 10 });
      }
    });
  });
}
