// What every store must do. A store's test is one call: describeStore('my store', (clock) => myStore({ clock }));
import { expect } from 'chai';
import { createLimiter, type Algorithm, type Clock, type Store } from 'headgate';
import { algorithms } from '../support/policies.js';

/**
 * Describes the suite of a store, in Mocha.
 *
 * @param createStore makes a store without state that decides by `clock`. Its time is ten days ahead of real time, so that
 * what a server expires by its own clock is not gone before the test's time has come.
 */
export function describeStore(name: string, createStore: (clock: Clock) => Store): void {
  describe(`the contract of stores: ${name}`, () => {
    let now: number;
    let store: Store;
    beforeEach(() => {
      now = Date.now() + 10 * 24 * 3_600_000;
      store = createStore(() => now);
    });

    const limiter = (options: object) =>
      createLimiter({ onStoreError: 'throw', timeout: '1m', ...options, store });

    const policy = (algorithm: Algorithm, limit = 3) =>
      algorithm === 'concurrency'
        ? { algorithm, limit, lease: 60_000 }
        : { algorithm, limit, window: 60_000 };

    for (const algorithm of algorithms) {
      describe(algorithm, () => {
        it('admits the limit, then denies until retryAfter', async () => {
          const subject = limiter(policy(algorithm));
          for (const remaining of [2, 1, 0])
            expect(await subject.consume('key')).to.include({ allowed: true, remaining });
          const { allowed, retryAfterMs } = await subject.consume('key');
          expect(allowed).to.be.false;
          now += retryAfterMs! - 1;
          expect(await subject.consume('key')).to.include({ allowed: false, retryAfterMs: 1 });
          now += 1;
          expect((await subject.consume('key')).allowed).to.be.true;
        });

        it('admits exactly the limit of simultaneous requests', async () => {
          const subject = limiter(policy(algorithm, 20));
          const decisions = await Promise.all(Array.from({ length: 50 }, () => subject.consume('key')));
          const admitted = decisions.filter(({ allowed }) => allowed).map(({ remaining }) => remaining);
          expect(admitted.sort((a, b) => b - a)).to.deep.equal(Array.from({ length: 20 }, (_, i) => 19 - i));
        });

        it('charges a cost whole, or not at all', async () => {
          const subject = limiter(policy(algorithm));
          expect(await subject.consume('key', { cost: 4 })).to.include({ reason: 'cost-exceeds-capacity' });
          expect(await subject.consume('key', { cost: 2 })).to.include({ allowed: true, remaining: 1 });
          expect(await subject.consume('key', { cost: 2 })).to.include({ allowed: false, remaining: 1 });
          expect(await subject.consume('key', { cost: 1 })).to.include({ allowed: true, remaining: 0 });
        });

        it('peeks without writing', async () => {
          const subject = limiter(policy(algorithm));
          expect(await subject.peek('key')).to.include({ allowed: true, remaining: 3, resetAfterMs: 0 });
          await subject.consume('key', { cost: 3 });
          for (let i = 0; i < 3; i++) expect(await subject.peek('key')).to.include({ allowed: false });
          expect(await subject.consume('key', { cost: 0 })).to.include({ allowed: true, remaining: 0 });
        });

        it('is back to its full quota after resetAfter, as if nothing had been', async () => {
          const subject = limiter(policy(algorithm));
          const { resetAfterMs } = await subject.consume('key', { cost: 3 });
          now += resetAfterMs;
          expect(await subject.peek('key')).to.include({ remaining: 3, resetAfterMs: 0 });
          expect(await subject.consume('key')).to.include({ remaining: 2 });
        });

        it('resets one key, and no other', async () => {
          const subject = limiter(policy(algorithm));
          for (const key of ['user:1', 'user:1:9', 'user:*']) await subject.consume(key, { cost: 3 });
          await subject.reset('user:1');
          await subject.reset('user:*');
          expect(await subject.peek('user:1')).to.include({ remaining: 3 });
          expect(await subject.peek('user:1:9')).to.include({ remaining: 0 });
        });
      });
    }

    it('decides several policies together: all charge, or none does', async () => {
      const policies = algorithms.map((each, i) => ({ name: each, ...policy(each, 5 - (i % 2)) }));
      const subject = limiter({ policies });
      await subject.consume('key', { cost: 3 });
      const denied = await subject.consume('key', { cost: 2 });
      expect(denied.allowed).to.be.false;
      expect(denied.policies.map(({ remaining }) => remaining)).to.deep.equal([2, 1, 2, 1, 2, 1, 2]);
      expect(await subject.consume('key')).to.include({ allowed: true });
    });

    it('lets a shadow report, but not deny', async () => {
      const subject = limiter({
        policies: [
          { name: 'shadow', limit: 1, window: '1m', shadow: true },
          { name: 'real', limit: 2, window: '1m' },
        ],
      });
      const decisions = [
        await subject.consume('key'),
        await subject.consume('key'),
        await subject.consume('key'),
      ];
      expect(decisions.map(({ allowed }) => allowed)).to.deep.equal([true, true, false]);
      expect(decisions.map(({ policies }) => policies[0]!.allowed)).to.deep.equal([true, false, false]);
    });

    it('shares state within a name, and with no other name or key', async () => {
      const one = limiter({ name: 'a', ...policy('fixed-window') });
      const same = limiter({ name: 'a', ...policy('fixed-window') });
      const other = limiter({ name: 'b', ...policy('fixed-window') });
      await one.consume('key', { cost: 2 });
      expect(await same.consume('key')).to.include({ remaining: 0 });
      expect(await other.peek('key')).to.include({ remaining: 3 });
      expect(await one.peek('key2')).to.include({ remaining: 3 });
    });

    it('keeps awkward keys apart', async () => {
      const subject = limiter({ limit: 1, window: '1m' });
      for (const key of AWKWARD) expect((await subject.consume(key)).allowed, JSON.stringify(key)).to.be.true;
      for (const key of AWKWARD)
        expect((await subject.consume(key)).allowed, JSON.stringify(key)).to.be.false;
    });

    it('decides by other policies in the same scope', async () => {
      const subject = limiter({ limit: 2, window: '1m' });
      const paying = subject.compile([{ limit: 10, window: '1m' }]);
      await subject.consume('key', { cost: 2 });
      expect(await subject.decide('key', 1, paying)).to.include({ allowed: true, remaining: 7 });
      expect((await subject.consume('key')).allowed).to.be.false;
    });

    it('gives back: what was charged, once, and nothing of a window that is over', async () => {
      const subject = limiter(policy('fixed-window'));
      const first = await subject.consume('key', { cost: 2 });
      await subject.consume('key');
      await first.refund();
      await first.refund();
      expect(await subject.peek('key')).to.include({ remaining: 2 });
      const last = await subject.consume('key');
      now += last.resetAfterMs;
      await subject.consume('key');
      await last.refund();
      expect(await subject.peek('key')).to.include({ remaining: 2 });
      await subject.refund('key', 100);
      expect(await subject.peek('key')).to.include({ remaining: 3 });
    });

    it('charges beyond what is left, for no longer than the window', async () => {
      const subject = limiter(policy('fixed-window'));
      await (await subject.consume('key')).settle(50);
      const { allowed, remaining, resetAfterMs } = await subject.peek('key');
      expect({ allowed, remaining }).to.deep.equal({ allowed: false, remaining: 0 });
      now += resetAfterMs;
      expect(await subject.peek('key')).to.include({ allowed: true, remaining: 3 });
    });

    it('holds slots until they are released or their lease ends', async () => {
      const subject = limiter(policy('concurrency', 2));
      const [first, second] = [await subject.consume('key'), await subject.consume('key')];
      expect(await first.release()).to.be.true;
      expect(await first.release()).to.be.false;
      expect(await subject.peek('key')).to.include({ remaining: 1 });
      now += 59_999;
      expect(await second.renew()).to.be.true;
      now += 59_999;
      expect(await subject.peek('key')).to.include({ remaining: 1 });
      now += 1;
      expect(await subject.peek('key')).to.include({ remaining: 2 });
      expect(await second.renew()).to.be.false;
      expect(await second.release()).to.be.false;
    });

    it('bans after repeated denials, longer each time, and forgives when told to', async () => {
      const ban = { after: 2, within: 60_000, for: 60_000, factor: 3, max: 3_600_000 };
      const subject = limiter({ limit: 1, window: 1_000, ban });
      await subject.consume('key');
      expect(await subject.consume('key')).to.include({ reason: 'quota-exceeded' });
      expect(await subject.consume('key')).to.include({ reason: 'banned', retryAfterMs: 60_000 });
      now += 59_999;
      expect(await subject.consume('key')).to.include({ reason: 'banned', retryAfterMs: 1 });
      now += 1;
      for (let i = 0; i < 2; i++) await subject.consume('key');
      expect(await subject.consume('key')).to.include({ reason: 'banned', retryAfterMs: 180_000 });
      await subject.reset('key');
      expect(await subject.consume('key')).to.include({ reason: 'banned' });
      await subject.unban('key');
      await subject.reset('key');
      expect(await subject.consume('key')).to.include({ allowed: true });
    });

    it('bans by hand: one key, for as long as was said', async () => {
      const subject = limiter({ limit: 1, window: '1m', ban: {} });
      await subject.ban('key', '1h');
      expect(await subject.consume('key')).to.include({ reason: 'banned', retryAfterMs: 3_600_000 });
      expect(await subject.peek('key')).to.include({ reason: 'banned' });
      expect(await subject.consume('other')).to.include({ allowed: true });
      now += 3_600_000;
      expect(await subject.consume('key')).to.include({ allowed: true });
    });
  });
}

const AWKWARD = [
  ...[
    '',
    ' ',
    '%',
    '%20',
    '%25',
    '{',
    '}',
    '{}',
    '{a}',
    'a}',
    ':',
    'a:',
    ':a',
    '\0',
    'a\0',
    '*',
    '👍',
    '\ud83d',
    '\ude00',
  ],
  ...['x'.repeat(10_240), `${'x'.repeat(10_240)}y`, '__proto__', 'é', 'e\u0301'],
];
