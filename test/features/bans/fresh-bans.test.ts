// Fresh bans: the step that begins a ban forgets charges of the banned key.
import { join } from 'node:path';
import { expect } from 'chai';
import { createLimiter, type Decision, type Limiter, type Store } from 'headgate';
import { sqliteStore } from 'headgate/sqlite';
import { drivers, makeDirectory } from '../../support/sqlite.js';
import { stores, TestClock, type CreateStore } from '../../support/stores.js';

const MINUTE = 60_000;

const sqlites = Object.fromEntries(
  Object.entries(drivers).map(([name, Driver]): [string, CreateStore] => [
    name,
    (clock) => sqliteStore(new Driver(join(makeDirectory(), 'x.db')), clock ? { clock } : {}),
  ]),
);

/** The same store, which notes the names of its called methods. */
function noted(store: Store, calls: string[]): Store {
  return new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]) => {
        calls.push(String(name));
        return (value as (...args: unknown[]) => unknown).apply(target, args);
      };
    },
  });
}

async function times(count: number, ask: () => Promise<Decision>): Promise<Decision[]> {
  const decisions: Decision[] = [];
  for (let i = 0; i < count; i++) decisions.push(await ask());
  return decisions;
}

for (const [name, createStore] of Object.entries({ ...stores, ...sqlites })) {
  describe(`the step of a fresh ban, ${name}`, () => {
    let clock: TestClock;
    let calls: string[];
    let store: Store;
    let limiter: Limiter;

    function open(options: object): Limiter {
      clock = new TestClock();
      calls = [];
      store = createStore(clock.read);
      return (limiter = createLimiter({
        ...{ name: 'fresh', store: noted(store, calls), timeout: '20s', warnings: false },
        ban: { after: 1, for: '1m', factor: 1, fresh: true },
        ...options,
      } as never));
    }

    afterEach(async () => {
      await limiter.close();
      await store.close?.();
    });

    const bucket = { algorithm: 'token-bucket', limit: 3, window: '1d' } as const;
    const sets = {
      'one policy': { policies: [bucket] },
      'several policies': { policies: ['bucket=token-bucket 3/1d', 'day=sliding-window 9/1d'] },
      overrides: { policies: ['bucket=token-bucket 3/1d'], overrides: true },
      attempts: { policies: ['bucket=token-bucket 3/1d', { name: 'tries', ...bucket, count: 'attempts' }] },
    } as const;

    for (const [what, options] of Object.entries(sets)) {
      it(`forgets the charges in the call that denies: ${what}`, async () => {
        open(options);
        const charged = await times(3, () => limiter.consume('k'));
        calls.length = 0;
        const { reason, retryAfterMs } = await limiter.consume('k');
        expect({ reason, retryAfterMs }).to.deep.equal({ reason: 'banned', retryAfterMs: MINUTE });
        expect(calls).to.deep.equal(['decide']);
        const { policies } = await limiter.usage('k');
        for (const { used } of policies) expect(used).to.equal(0);
        clock.now += MINUTE;
        await times(3, () => limiter.consume('k'));
        for (const decision of charged) await decision.refund();
        expect((await limiter.peek('k')).policies[0]).to.include({ remaining: 0 });
        // Charges that no ban has forgotten are returned, and a refund by hand reports errors.
        await limiter.consume('l');
        await limiter.refund('l', 1);
        expect((await limiter.peek('l')).policies[0]).to.include({ remaining: 3 });
      });

      it(`forgets charges of the same moment: ${what}`, async () => {
        open(options);
        const keys = ['j', 'k', 'l', 'm'];
        // Beside many requests, a store sends many in one call.
        const others = Array.from({ length: 60 }, (_, i) => limiter.consume(`other ${i}`));
        const asked = keys.flatMap((key) => Array.from({ length: 5 }, () => limiter.consume(key)));
        const all = await Promise.all([...asked, limiter.consume('n'), ...others]);
        for (const [i, key] of keys.entries()) {
          const own = all.slice(5 * i, 5 * i + 5);
          expect(own.map(({ reason }) => reason)).to.deep.equal([
            ...[undefined, undefined, undefined, 'banned', 'banned'],
          ]);
          // The charges do not lengthen the ban of a request beside the one that began the ban.
          expect(own.map(({ retryAfterMs }) => retryAfterMs)).to.deep.equal([0, 0, 0, MINUTE, MINUTE]);
          clock.now += MINUTE;
          await times(3, () => limiter.consume(key));
          for (const decision of own.slice(0, 3)) await decision.refund();
          expect((await limiter.peek(key)).policies[0]).to.include({ remaining: 0 });
        }
        expect((await limiter.peek('n')).policies[0]).to.include({ remaining: 2 });
      });
    }

    it('forgets those in other tiers, and in policies that were compiled later', async () => {
      open({ policies: [bucket], tiers: { pro: ['pro=fixed-window 2/1d', 'slots=concurrency 2/1h'] } });
      await times(3, () => limiter.consume('k'));
      await times(2, () => limiter.consume('k', { tier: 'pro' }));
      const later = limiter.compile(['later=sliding-log 1/1d']);
      await limiter.decide('k', 1, later);
      expect(await limiter.consume('k')).to.include({ reason: 'banned' });
      clock.now += MINUTE;
      expect((await limiter.peek('k')).remaining).to.equal(3);
      const { policies } = await limiter.usage('k', { tier: 'pro' });
      expect(policies.map(({ used }) => used)).to.deep.equal([0, 2]);
      expect(await limiter.decide('k', 1, later)).to.include({ allowed: true });
    });

    it('forgets those of the banned dimension, in the slot of another one', async () => {
      open({
        policies: ['org=fixed-window 9/1d by org', 'account=fixed-window 2/1d by account'],
        tiers: { pro: ['pro=fixed-window 2/1d by account'] },
        slotBy: 'org',
        ban: { after: 1, for: '1m', by: 'account', fresh: true },
      });
      const key = { org: 'o', account: 'ada' };
      await limiter.consume(key, { tier: 'pro' });
      await times(2, () => limiter.consume(key));
      expect(await limiter.consume(key)).to.include({ reason: 'banned', retryAfterMs: MINUTE });
      clock.now += MINUTE;
      const { policies } = await limiter.usage(key);
      expect(policies.map(({ used }) => used)).to.deep.equal([2, 0]);
      expect((await limiter.peek(key, { tier: 'pro' })).remaining).to.equal(2);
    });

    it('forgets the thresholds that were reported', async () => {
      const levels: number[] = [];
      open({
        policies: ['day=fixed-window 2/1d thresholds 50%', 'more=fixed-window 90/1d'],
        onThreshold: ({ threshold }: { threshold: number }) => void levels.push(threshold),
      });
      await times(3, () => limiter.consume('k'));
      clock.now += MINUTE;
      await limiter.consume('k');
      expect(levels).to.deep.equal([0.5, 0.5]);
      // Charges, crossings and bans in the same calls of a store that batches.
      const keys = Array.from({ length: 20 }, (_, i) => `other ${i}`);
      const asked = keys.flatMap((key) => [key, key, key]);
      await Promise.all(asked.map((key) => limiter.consume(key)));
      clock.now += MINUTE;
      levels.length = 0;
      for (const key of keys) await limiter.consume(key);
      expect(levels).to.deep.equal(keys.map(() => 0.5));
    });
  });
}
