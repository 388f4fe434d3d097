import { expect } from 'chai';
import { limiterOn, stores, TestClock } from '../../support/stores.js';

// Found by test/oracle: buckets began a new count if an override changed the window of another policy, or of the same policy in another tier.
for (const [name, createStore] of Object.entries(stores)) {
  describe(`buckets under an override with another window, on ${name}`, () => {
    const make = (options: object) => {
      const clock = new TestClock();
      return { clock, limiter: limiterOn(createStore(clock.read), { overrides: true, ...options } as never) };
    };
    const policies = ['bucket=token-bucket 5/1m', 'window=100/1h'];
    const used = async (limiter: ReturnType<typeof make>['limiter']) =>
      (await limiter.usage('k')).policies.find((each) => each.name === 'bucket')?.used;

    for (const algorithm of ['token-bucket', 'leaky-bucket', 'gcra'])
      it(`${algorithm}: a policy of which only the limit changes keeps its charges`, async () => {
        const { clock, limiter } = make({ policies: [`bucket=${algorithm} 5/1m`, 'window=100/1h'] });
        const change = { bucket: { limit: 10 }, window: { window: '1d' } } as const;
        await limiter.consume('k', { cost: 5 });
        await limiter.override('k', change, { for: '30s' });
        expect(await used(limiter)).to.equal(5);
        expect(await limiter.consume('k', { cost: 5 })).to.include({ allowed: true, remaining: 0 });
        // Ten units drain in a minute under the override, and five afterwards.
        clock.now += 30_000;
        expect(await used(limiter)).to.equal(5);
        clock.now += 12_000;
        expect(await used(limiter)).to.equal(4);
        await limiter.overrideAll(change);
        expect(await used(limiter)).to.equal(4);
        expect((await limiter.consume('k', { cost: 6 })).policies[0]).to.include({ limit: 10, remaining: 0 });
      });

    it('a tier with another window starts a new count, and the others keep theirs', async () => {
      const { limiter } = make({ policies: ['token-bucket 5/1m'], tiers: { hour: 'token-bucket 5/1h' } });
      await limiter.consume('k', { cost: 5 });
      await limiter.consume('k', { cost: 5, tier: 'hour' });
      await limiter.override('k', { limit: 10, window: '1m' });
      expect((await limiter.usage('k')).policies[0]).to.include({ limit: 10, used: 5 });
      expect((await limiter.usage('k', { tier: 'hour' })).policies[0]).to.include({ limit: 10, used: 0 });
    });

    it('a request that waited has the same count as one that did not', async () => {
      const { limiter } = make({ policies });
      await limiter.override('k', { bucket: { limit: 10 }, window: { window: '1d' } });
      await limiter.wait('k', { cost: 4 });
      expect(await used(limiter)).to.equal(4);
      await limiter.consume('k', { cost: 3 });
      expect(await used(limiter)).to.equal(7);
    });

    it('a charge of before is returned', async () => {
      const { limiter } = make({ policies });
      const decision = await limiter.consume('k', { cost: 3 });
      await limiter.override('k', { bucket: { limit: 10 }, window: false });
      await decision.refund();
      expect(await used(limiter)).to.equal(0);
    });
  });
}
