// Law 10. The store would also deny every request that is denied from memory, and no wait is longer than announced.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect } from 'chai';
import fc from 'fast-check';
import {
  createLimiter,
  memoryStore,
  type BanOptions,
  type Decision,
  type Limiter,
  type Policy,
} from 'headgate';
import type { Query, Reply } from 'headgate/stores';
import { redisStore } from 'headgate/redis';
import { compileBan } from '../../src/features/bans/contract/ban-options.js';
import { compilePolicies } from '../../src/contract/compile-policies.js';
import { RememberedDenials } from '../../src/stores/redis/local/remembered-denials.js';
import type { PolicySet, Subject } from '../../src/contract/store.js';
import { setOf as setOfDimensions } from '../../packages/testing/src/trace.js';
import { algorithms, policyOf } from '../support/policies.js';
import { runs } from '../support/random.js';
import { countedServer } from '../support/counted-server.js';
import { clients, freshPrefix, limiterOn, START } from '../support/stores.js';

setFlagsFromString('--expose-gc');
const gc = runInNewContext('gc') as () => void;

const setOf = (policies: readonly Policy[], ban?: BanOptions): PolicySet => ({
  name: 'scope',
  policies: compilePolicies('policies', policies),
  ban: compileBan(ban),
  timeout: 100,
});

const admits = ({ policies }: PolicySet, { ban, verdicts }: Reply): boolean =>
  ban === 0 && policies.every(({ shadow }, i) => shadow || verdicts[3 * i] === 0 || verdicts[3 * i]! < -1);

/** The longest wait of the denying policies, or the rest of a ban. -1: never. */
function waitOf({ policies }: PolicySet, { ban, verdicts }: Reply): number {
  if (ban !== 0) return Math.abs(ban);
  const waits = policies.map(({ shadow }, i) => (shadow ? 0 : verdicts[3 * i]!));
  return waits.includes(-1) ? -1 : Math.max(...waits);
}

/** A memory of denials by any sets. */
function rememberedDenials(longest: number, clock?: () => number) {
  const denials = new RememberedDenials(longest, clock);
  return {
    recall: (query: Query) => denials.of(query.set).recall(query),
    learn: (query: Query, reply: Reply, asked: number) => denials.of(query.set).learn(query, reply, asked),
    forget: ({ set, key }: Subject) => denials.of(set).forget(key),
  };
}

/** A step of a random trace. Pauses are in ms, with fractions, because the store's clock counts whole ones. */
interface Step {
  readonly action: 'consume' | 'refund' | 'charge' | 'reset' | 'ban' | 'unban';
  readonly key: string;
  readonly cost: number;
  readonly set: number;
  readonly before: number;
  readonly there: number;
  readonly back: number;
}

const pause = fc.oneof(
  { weight: 5, arbitrary: fc.constantFrom(0, 0.3, 1, 9.5) },
  { weight: 1, arbitrary: fc.double({ min: 0, max: 3_000, noNaN: true }) },
);
const trip = fc.constantFrom(0, 0.2, 0.9, 5.5);
const steps = fc.array(
  fc.record<Step>({
    action: fc.oneof(
      { weight: 12, arbitrary: fc.constant('consume' as const) },
      { weight: 1, arbitrary: fc.constantFrom('refund', 'charge', 'reset', 'ban', 'unban') },
    ),
    key: fc.constantFrom('a', 'b'),
    cost: fc.constantFrom(1, 1, 1, 1, 1, 2, 5),
    set: fc.nat(1),
    before: pause,
    there: trip,
    back: trip,
  }),
  { minLength: 20, maxLength: 60 },
);
const policies = fc
  .array(
    fc.constantFrom(...algorithms).chain((algorithm) => policyOf(algorithm)),
    { minLength: 1, maxLength: 3 },
  )
  .map((list) => list.map((policy, i): Policy => ({ ...policy, name: `p${i}`, shadow: i === 1 })));
const bans = fc.constantFrom<BanOptions>({}, { after: 3, within: '10s', for: '3s' });

describe('law 10: local denials', () => {
  it('deny the requests that the store denies, never for a shorter and hardly for a longer time', () => {
    let recalled = 0;
    fc.assert(
      fc.property(
        policies,
        fc.integer({ min: 1, max: 9 }),
        bans,
        steps,
        fc.constantFrom(1, 1000, 1e9),
        (one, limit, ban, trace, longest) => {
          // Tiers: other limits on the same state.
          const two = one.map((policy): Policy => ({ ...policy, limit }));
          const sets = [setOf(one, ban), setOf(two, ban)];
          let time = 0;
          const store = memoryStore({ clock: () => Math.floor(START + 0.7 + time) });
          const denials = rememberedDenials(longest, () => time);
          for (const { action, key, cost, set: index, before, there, back } of trace) {
            time += before;
            const set = sets[index]!;
            const subject = { set, key };
            if (action === 'consume') {
              const query: Query = { ...subject, cost, peek: false, lease: String(time) };
              const answer = denials.recall(query);
              if (answer) {
                recalled++;
                const truth = store.decide({ ...query, peek: true, lease: '' }) as Reply;
                expect(admits(set, truth), 'the store would admit').to.equal(false);
                expect(admits(set, answer), 'the memory admits').to.equal(false);
                const [told, due] = [waitOf(set, answer), waitOf(set, truth)];
                expect(told, 'sent back too early').to.be.at.least(due);
                // The excess is at most the delay of the reply.
                expect(told - due, 'sent back too late').to.be.at.most(due === -1 ? 0 : 8);
              } else {
                const sentAt = time;
                time += there;
                const reply = store.decide(query) as Reply;
                time += back;
                denials.learn(query, reply, sentAt);
              }
            } else {
              denials.forget(subject);
              if (action === 'refund' || action === 'charge') {
                const units = set.policies.map(() => (action === 'refund' ? -cost : cost));
                void store.adjust({ ...subject, units, charged: undefined, degraded: undefined });
              } else if (action === 'reset') void store.reset(subject);
              else void store.ban(subject, action === 'ban' ? 5_000 : 0);
              denials.forget(subject);
            }
          }
        },
      ),
      runs('memory', 1_000, 0),
    );
    // Most traces recall a denial. The quick tier runs half of them.
    expect(recalled).to.be.above(500);
  });

  describe('know', () => {
    const set = setOf([{ limit: 1, window: '1m' }]);
    const query: Query = { set, key: 'key', cost: 1, peek: false, lease: '' };
    const denied: Reply = { now: START, step: 0, ban: 0, verdicts: [5_000, 0, 60_000] };
    let time: number;
    let denials: ReturnType<typeof rememberedDenials>;
    beforeEach(() => {
      time = 1_000;
      denials = rememberedDenials(60_000, () => time);
    });

    it('that a denial from before a refund is stale, however late it arrives', () => {
      denials.forget(query);
      time++;
      denials.forget(query);
      denials.learn(query, denied, time - 1);
      expect(denials.recall(query)).to.equal(undefined);
      denials.learn(query, denied, time);
      expect(denials.recall(query), 'asked at the moment of the refund').to.equal(undefined);
      denials.learn(query, denied, time + 1);
      expect(denials.recall(query)).to.deep.equal(denied);
    });

    it('that admissions meanwhile make denied requests wait longer, so that the store is asked again', () => {
      denials.learn({ ...query, cost: 2 }, denied, time);
      denials.learn(query, { now: START, step: 0, ban: 0, verdicts: [0, 0, 60_000] }, time);
      expect(denials.recall({ ...query, cost: 2 })).to.equal(undefined);
    });

    it('when to ask again: a millisecond early, counted from the moment of the question', () => {
      denials.learn(query, denied, time - 10);
      time += 4_988.9;
      expect(denials.recall(query)).to.deep.equal({
        now: START + 4988,
        step: 0,
        ban: 0,
        verdicts: [12, 0, 55_012],
      });
      time += 0.1;
      expect(denials.recall(query)).to.equal(undefined);
    });

    it('that an admitted look shows that units were given back', () => {
      const look = { ...query, peek: true };
      const admitted: Reply = { now: START, step: 0, ban: 0, verdicts: [0, 1, 60_000] };
      denials.learn(query, denied, time);
      denials.learn(look, denied, time + 1);
      denials.learn({ ...look, cost: 0 }, admitted, time + 1);
      expect(denials.recall(query)).to.deep.equal(denied);
      denials.learn(look, admitted, time + 1);
      expect(denials.recall(query)).to.equal(undefined);
    });

    it('that another cost, another set and a look are other questions', () => {
      denials.learn(query, denied, time);
      expect(denials.recall({ ...query, cost: 2 })).to.equal(undefined);
      const other = setOf([{ limit: 2, window: '1m' }]);
      expect(denials.recall({ ...query, peek: true })).to.equal(undefined);
      expect(denials.recall({ ...query, key: 'other' })).to.equal(undefined);
      expect(denials.recall({ ...query, set: { ...set } })).to.deep.equal(denied);
      expect(denials.recall({ ...query, set: other })).to.equal(undefined);
      expect(denials.recall(query), 'what others were told changes nothing').to.deep.equal(denied);
    });

    it('that other keys, another cost, another set and a look are other questions of several keys', () => {
      const mixed = (limit: number) =>
        setOfDimensions(
          [
            { name: 'p', limit: 1, window: '1m' },
            { name: 'q', limit, window: '1m', by: 'account' },
          ],
          undefined,
        );
      const base: Query = { ...query, set: mixed(1), key: ['k', 'x'] };
      const reply: Reply = { ...denied, verdicts: [0, 0, 0, 5_000, 0, 60_000] };
      denials.learn(base, reply, time);
      const others = [
        { key: ['k', 'y'] },
        { key: ['other', 'x'] },
        { cost: 2 },
        { set: mixed(2) },
        { peek: true },
      ];
      for (const other of others)
        expect(denials.recall({ ...base, ...other }), JSON.stringify(other)).to.equal(undefined);
      expect(denials.recall(base)).to.deep.equal(reply);
    });

    it('the owner of a ban, if keys are counted within another key without a policy', () => {
      const within = setOfDimensions(
        [{ limit: 1, window: '1m', by: 'account' }],
        { after: 1, by: 'account' },
        { slotBy: 'key' },
      );
      const queryOf = (account: string): Query => {
        const names = within.dimensions!.names;
        return { ...query, set: within, key: names.map((name) => (name === 'key' ? 'acme' : account)) };
      };
      denials.learn(queryOf('x'), { ...denied, ban: 5_000, verdicts: [] }, time);
      expect(denials.recall(queryOf('x'))).to.include({ ban: 5_000 });
      expect(denials.recall(queryOf('y'))).to.equal(undefined);
    });

    for (const count of ['admitted', 'attempts'] as const) {
      it(`that attempts must be charged: each reaches the store, until the policy that counts them denies (beside a quota of ${count})`, () => {
        const counting = setOf([
          { name: 'attempts', limit: 20, window: '1m', count: 'attempts' },
          { name: 'quota', limit: 5, window: '15m', count },
        ]);
        const query: Query = { set: counting, key: 'a', cost: 1, peek: false, lease: '' };
        const reply = (...verdicts: number[]): Reply => ({ now: 0, step: 0, ban: 0, verdicts });
        const denials = rememberedDenials(1e9, () => now);
        let now = 0;
        denials.learn(query, reply(0, 3, 60_000, 9_000, 0, 9_000), now);
        expect(denials.recall(query)).to.equal(undefined);
        // The last attempt was charged, so the next one is denied.
        denials.learn(query, reply(-1 - 2_000, 0, 60_000, 9_000, 0, 9_000), now);
        expect(denials.recall(query)!.verdicts).to.deep.equal([2_000, 0, 60_000, 9_000, 0, 9_000]);
        denials.learn(query, reply(2_000, 0, 60_000, 9_000, 0, 9_000), now);
        now = 1_998;
        expect(denials.recall(query)!.verdicts).to.deep.equal([2, 0, 58_002, 7_002, 0, 7_002]);
        now = 2_000;
        expect(denials.recall(query)).to.equal(undefined);
      });
    }

    it('nothing of attempts by one key beside quotas by another: a refund to it must be charged again', async () => {
      const limiter = createLimiter({
        store: redisStore(clients.redis, { prefix: freshPrefix() }),
        policies: ['p=sliding-log 3/1h attempts', 'q=1/1h by account'],
      });
      const [one, other] = [
        { key: 'k', account: 'x' },
        { key: 'k', account: 'y' },
      ];
      await limiter.consume({ account: 'x' });
      await limiter.consume(other);
      for (let i = 0; i < 3; i++) await limiter.consume(one);
      await limiter.reset(other);
      await limiter.consume(one);
      expect((await limiter.peek('k')).remaining).to.equal(2);
      await limiter.close();
    });

    it('a bounded number of keys: the oldest denial is forgotten, a change never', () => {
      for (let i = 0; i <= 10_000; i++) denials.learn({ ...query, key: `key${i}` }, denied, time);
      expect(denials.recall({ ...query, key: 'key0' })).to.equal(undefined);
      expect(denials.recall({ ...query, key: 'key1' })).to.deep.equal(denied);
      for (let i = 0; i <= 10_000; i++) denials.forget({ set, key: `key${i}` });
      denials.learn({ ...query, key: 'key0' }, denied, time);
      denials.learn({ ...query, key: 'never changed' }, denied, time);
      expect(denials.recall({ ...query, key: 'key0' })).to.equal(undefined);
      expect(denials.recall({ ...query, key: 'never changed' })).to.equal(undefined);
    });

    it('changes of long keys without the keys themselves, and distinguish long keys', () => {
      gc();
      const before = process.memoryUsage().heapUsed;
      for (let i = 0; i < 200; i++) denials.forget({ set, key: 'x'.repeat(100_000) + i });
      gc();
      expect(process.memoryUsage().heapUsed - before).to.be.below(2 ** 21);
      const key = 'x'.repeat(100_000);
      denials.learn({ ...query, key: `${key}0` }, denied, time);
      expect(denials.recall({ ...query, key: `${key}0` })).to.equal(undefined);
      denials.learn({ ...query, key }, denied, time);
      expect(denials.recall({ ...query, key })).to.deep.equal(denied);
    });
  });

  describe('on redis', () => {
    const counted = countedServer();
    const callsOf = (work: () => Promise<unknown>): Promise<number> => counted.callsOf(work);
    const allowed = ({ allowed }: Decision): boolean => allowed;

    it('cost no call, and end with a refund, a reset, a smaller cost or a raised limit', async () => {
      const limiter = limiterOn(counted.store(), { policies: '3/1h' });
      const first = await limiter.consume('key', { cost: 2 });
      expect(allowed(await limiter.consume('key', { cost: 2 }))).to.equal(false);
      expect(
        await callsOf(async () => {
          for (let i = 0; i < 100; i++) {
            const decision = await limiter.consume('key', { cost: 2 });
            expect(decision).to.include({ allowed: false, reason: 'quota-exceeded', remaining: 1 });
            expect(decision.retryAfterMs).to.be.within(3_500_000, 3_960_000);
          }
        }),
      ).to.equal(0);
      await first.refund();
      expect(allowed(await limiter.consume('key', { cost: 2 }))).to.equal(true);
      expect(allowed(await limiter.consume('key', { cost: 2 }))).to.equal(false);
      expect(allowed(await limiter.consume('key', { cost: 1 }))).to.equal(true);
      expect(allowed(await limiter.consume('key', { cost: 2 }))).to.equal(false);
      const raised = limiter.compile([{ limit: 5, window: '1h' }]);
      expect(allowed(await limiter.decide('key', 2, raised))).to.equal(true);
      expect(allowed(await limiter.consume('key', { cost: 2 }))).to.equal(false);
      await limiter.reset('key');
      expect(allowed(await limiter.consume('key', { cost: 2 }))).to.equal(true);
    });

    it('leave denials to the store while it counts them, and know the ban that they start', async () => {
      const store = counted.store();
      const limiter = limiterOn(store, { limit: 1, window: '1h', ban: { after: 3, for: '2h' } });
      await limiter.consume('key');
      const denials = async (): Promise<void> => {
        for (let i = 1; i <= 3; i++) expect(allowed(await limiter.consume('key'))).to.equal(false);
      };
      expect(await callsOf(denials)).to.equal(3);
      expect(await callsOf(denials)).to.equal(0);
      const banned = await limiter.consume('key', { cost: 7 });
      expect(banned.reason).to.equal('banned');
      expect(banned.retryAfterMs).to.be.within(7_100_000, 7_200_000);
      await limiter.unban('key');
      expect((await limiter.consume('key')).reason).to.equal('quota-exceeded');
    });

    it('with a ban, apply to each cost that the policies would admit', async () => {
      const prefix = freshPrefix();
      const [limiter, elsewhere] = (['30s', false] as const).map((localDenials) =>
        limiterOn(counted.store({ prefix, localDenials }), { limit: 10, window: '1h', ban: {} }),
      ) as [Limiter, Limiter];
      await limiter.consume('key', { cost: 4 });
      await limiter.ban('key', '20m');
      await limiter.consume('key', { cost: 2 });
      for (const cost of [1, 2, 3, 6]) {
        let here: Decision;
        expect(await callsOf(async () => (here = await limiter.consume('key', { cost })))).to.equal(0);
        const there = await elsewhere.consume('key', { cost });
        const facts = ({ reason, remaining, cost: asked, policy }: Decision) => ({
          reason,
          remaining,
          asked,
          policy,
        });
        expect(facts(here!)).to.deep.equal(facts(there));
        expect(here!.retryAfterMs! - there.retryAfterMs!).to.be.within(-100, 100);
      }
      // Only the store knows how long the policy would deny this cost, which is longer than the ban.
      expect(await callsOf(() => limiter.consume('key', { cost: 7 }))).to.equal(1);
      expect((await limiter.consume('key', { cost: 7 })).retryAfterMs).to.be.above(2_400_000);
      expect(await callsOf(() => limiter.consume('key', { cost: 1 }))).to.equal(1);
    });

    it('leave slots to the store, because they may be released at any moment', async () => {
      const store = counted.store();
      const limiter = limiterOn(store, { algorithm: 'concurrency', limit: 1, lease: '1h' });
      await limiter.consume('key');
      expect(await callsOf(() => limiter.consume('key'))).to.equal(1);
    });

    it('notice units that another process gives back after `localDenials`', async () => {
      const prefix = freshPrefix();
      const [here, elsewhere] = [0, 1].map(() =>
        limiterOn(counted.store({ prefix, localDenials: '60ms' }), { limit: 1, window: '1h' }),
      );
      await here!.consume('key');
      expect(allowed(await here!.consume('key'))).to.equal(false);
      const since = performance.now();
      await elsewhere!.reset('key');
      while (!allowed(await here!.consume('key'))) expect(performance.now() - since).to.be.below(1_000);
    });

    it('are asked for anew each time with `localDenials: false`', async () => {
      const store = counted.store({ localDenials: false });
      const limiter = limiterOn(store, { limit: 1, window: '1h' });
      await limiter.consume('key');
      expect(await callsOf(() => limiter.consume('key'))).to.equal(1);
      expect(await callsOf(() => limiter.consume('key'))).to.equal(1);
    });
  });
});
