import { expect } from 'chai';
import { createLimiter, type Decision } from 'headgate';
import { limiterOn, stores, TestClock } from '../support/stores.js';

for (const [name, createStore] of Object.entries(stores)) {
  describe(`shadow on ${name}`, () => {
    const real = { name: 'real', algorithm: 'fixed-window', limit: 5, window: '1h' } as const;
    const tried = { name: 'tried', algorithm: 'fixed-window', limit: 2, window: '1h', shadow: true } as const;

    it('a policy is evaluated and reported, never denies, and is never the deciding policy', async () => {
      const reported: Decision[] = [];
      const limiter = limiterOn(createStore(new TestClock().read), {
        policies: [tried, real],
        onDecision: (decision) => void reported.push(decision),
      });
      for (let n = 1; n <= 5; n++) {
        const decision = await limiter.consume('k');
        expect(decision).to.include({
          allowed: true,
          policy: 'real',
          limit: 5,
          remaining: 5 - n,
          reason: undefined,
        });
        expect(decision.policies[0]).to.include({
          name: 'tried',
          allowed: n <= 2,
          remaining: Math.max(0, 2 - n),
        });
      }
      expect(reported.filter(({ policies }) => !policies[0]!.allowed)).to.have.length(3);
    });

    it('of shadows alone, the one with the least remaining decides', async () => {
      for (const policies of [
        ['p=fixed-window 1/10s shadow', 'q=fixed-window 3/10s shadow'],
        ['q=fixed-window 3/10s shadow', 'p=fixed-window 1/10s shadow'],
      ]) {
        const limiter = limiterOn(createStore(), { policies });
        for (let i = 0; i < 2; i++)
          expect(await limiter.consume('a')).to.include({
            ...{ allowed: true, policy: 'p', limit: 1, remaining: 0 },
            ...{ reason: undefined, charged: 1 - i },
          });
      }
    });

    it('a policy that would deny does not make the others deny, nor the others this one', async () => {
      const limiter = limiterOn(createStore(new TestClock().read), { policies: [real, tried] });
      await limiter.consume('k', { cost: 2 });
      // Only the shadow would deny, so the enforced policy charges.
      expect((await limiter.consume('k', { cost: 3 })).policies.map(({ allowed }) => allowed)).to.deep.equal([
        true,
        false,
      ]);
      // The enforced policy denies, so neither charges.
      const denied = await limiter.consume('k');
      expect(denied).to.include({ allowed: false, policy: 'real', reason: 'quota-exceeded' });
      const { policies } = await limiter.peek('k');
      expect(policies.map(({ remaining }) => remaining)).to.deep.equal([0, 0]);
    });

    it('a limiter admits and charges like the real one, and reports the enforced limiter’s verdict', async () => {
      const clock = new TestClock();
      const options = { policies: [real], ban: { after: 2, for: '1h' } } as const;
      const strict = limiterOn(createStore(clock.read), options);
      const shadow = limiterOn(createStore(clock.read), { ...options, shadow: true });
      for (let n = 1; n <= 9; n++) {
        const [a, b] = [await strict.consume('k'), await shadow.consume('k')];
        const { allowed: _, ...expected } = { ...a };
        expect(b).to.deep.include(expected);
        expect(b.allowed).to.be.true;
        expect(b.charged).to.equal(a.charged);
      }
      expect(await shadow.peek('k')).to.include({ allowed: true, reason: 'banned' });
    });

    it('a slot that a shadow would have denied is not given back', async () => {
      const limiter = limiterOn(createStore(new TestClock().read), {
        algorithm: 'concurrency',
        limit: 1,
        lease: '1h',
        shadow: true,
      });
      const first = await limiter.acquire('k');
      const second = await limiter.acquire('k');
      expect(second).to.include({ allowed: true, reason: 'quota-exceeded', charged: 0 });
      expect(await second.release()).to.be.false;
      expect((await limiter.peek('k')).remaining).to.equal(0);
      expect(await first.release()).to.be.true;
    });
  });
}

describe('shadow', () => {
  it('has to be a boolean', () => {
    for (const options of [
      { shadow: 'yes' },
      { shadow: 1 },
      { policies: [{ limit: 1, window: '1s', shadow: 'no' }], limit: undefined },
    ]) {
      expect(() => createLimiter({ limit: 1, window: '1s', ...options } as never))
        .to.throw()
        .with.property('code', 'HEADGATE_INVALID_OPTION');
    }
  });
});
