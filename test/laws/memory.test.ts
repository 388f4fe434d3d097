// Law 11. The memory store is bounded, needs no timers, and fresh keys never free a denied or banned key.
import { expect } from 'chai';
import fc from 'fast-check';
import { memoryStore } from 'headgate';
import { algorithms, policyOf } from '../support/policies.js';
import { runs } from '../support/random.js';
import { limiterOn, TestClock } from '../support/clock.js';

const MAX_KEYS = 100;

function open() {
  const clock = new TestClock();
  return { clock, store: memoryStore({ clock: clock.read, maxKeys: MAX_KEYS }) };
}

describe('law 11, memory', () => {
  for (const algorithm of algorithms) {
    it(`${algorithm}: a flood of fresh keys frees no key that is denied`, () =>
      fc.assert(
        fc.asyncProperty(policyOf(algorithm, { limits: [1, 2, 5], windows: [60_000] }), async (policy) => {
          const { clock, store } = open();
          const limiter = limiterOn(store, policy);
          let denied = await limiter.consume('abuser', { cost: 1 });
          while (denied.allowed) denied = await limiter.consume('abuser', { cost: 1 });
          const end = clock.now + denied.retryAfterMs!;
          for (let i = 0; i < 20 * MAX_KEYS; i++) {
            clock.now = Math.min(end - 1, clock.now + (i % 10 === 0 ? 1 : 0));
            await limiter.consume(`fresh ${i}`);
          }
          expect(store.size).to.be.at.most(MAX_KEYS);
          expect((await limiter.consume('abuser', { cost: 1 })).allowed).to.be.false;
          clock.now = end;
          expect((await limiter.consume('abuser', { cost: 1 })).allowed).to.be.true;
        }),
        runs('memory', 5, 0),
      ));
  }

  it('a flood of fresh keys frees no key that is banned, by hand or by denials', async () => {
    const { store } = open();
    const limiter = limiterOn(store, { limit: 2, window: 1_000, ban: { after: 1, for: '1h' } });
    await limiter.ban('by hand', '1h');
    for (let i = 0; i < 3; i++) await limiter.consume('by denials');
    for (let i = 0; i < 20 * MAX_KEYS; i++) await limiter.consume(`fresh ${i}`);
    for (const key of ['by hand', 'by denials'])
      expect(await limiter.consume(key)).to.include({ allowed: false, reason: 'banned' });
  });

  it('a flood of fresh keys frees no key that one tier denies, whatever the verdict of another tier', async () => {
    const { store } = open();
    const limiter = limiterOn(store, { limit: 1, window: '1h' });
    const generous = limiter.compile([{ name: 'generous', limit: 10, window: '1h' }]);
    for (let i = 0; i < 2; i++) await limiter.consume('abuser');
    expect((await limiter.decide('abuser', 1, generous)).allowed).to.be.true;
    for (let i = 0; i < 20 * MAX_KEYS; i++) await limiter.decide(`fresh ${i}`, 1, generous);
    expect((await limiter.consume('abuser')).allowed).to.be.false;
  });

  it('a flood of fresh keys frees no key that is in debt', async () => {
    const { store } = open();
    const limiter = limiterOn(store, { limit: 10, window: '1h' });
    await (await limiter.consume('debtor')).settle(15);
    for (let i = 0; i < 20 * MAX_KEYS; i++) await limiter.consume(`fresh ${i}`);
    expect((await limiter.consume('debtor')).allowed).to.be.false;
  });

  it('a renewed lease is not forgotten', async () => {
    const { clock, store } = open();
    const limiter = limiterOn(store, { algorithm: 'concurrency', limit: 1, lease: 60_000 });
    const held = await limiter.consume('holder');
    clock.now += 50_000;
    expect(await held.renew()).to.be.true;
    clock.now += 50_000;
    for (let i = 0; i < 20 * MAX_KEYS; i++) await limiter.consume(`fresh ${i}`);
    expect((await limiter.consume('holder')).allowed).to.be.false;
    expect(await held.release()).to.be.true;
  });

  it('is bounded over all names when keys come and go', async () => {
    const { clock, store } = open();
    const limiter = limiterOn(store, { limit: 3, window: 1_000 });
    for (let i = 0; i < 5_000; i++) {
      clock.now += 17;
      await limiter.consume(`key ${i}`);
      expect(store.size).to.be.at.most(MAX_KEYS);
    }
  });

  it('finds a key that moved when others came and left', async () => {
    const clock = new TestClock();
    const limiter = limiterOn(memoryStore({ clock: clock.read }), { limit: 10_000, window: '1h' });
    const brief = limiter.compile([{ limit: 1, window: 10 }]);
    for (let i = 0; i < 5_000; i++) {
      clock.now++;
      const key = `who stays ${i % 30}`;
      const spent = 2 * Math.floor(i / 30);
      expect((await limiter.consume(key)).remaining).to.equal(10_000 - spent - 1);
      expect((await limiter.decide(`fresh ${i}`, 1, brief)).allowed).to.be.true;
      expect((await limiter.consume(key)).remaining).to.equal(10_000 - spent - 2);
    }
  });

  it('needs no timers', () => {
    const timers = () => process.getActiveResourcesInfo().filter((type) => type === 'Timeout').length;
    const limiter = limiterOn(memoryStore(), { limit: 1, window: '1h', ban: { after: 1 } });
    const before = timers();
    for (let i = 0; i < 200; i++) void limiter.decide(`key ${i % 100}`);
    expect(timers()).to.equal(before);
  });
});
