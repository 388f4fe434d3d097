import { expect } from 'chai';
import { limiterOn, stores, TestClock } from '../../support/stores.js';

// Found by test/oracle: an id was remembered beside the first key of the deciding policies, which another tier or an override may leave out.
for (const [name, createStore] of Object.entries(stores)) {
  describe(`request ids of keys of several dimensions, on ${name}`, () => {
    const policies = ['p=5/1m by account', 'q=5/1m'];
    const key = { account: 'a', key: 'k' };
    const make = (options: object) => {
      const store = createStore(new TestClock().read);
      const [one, other] = [1, 2].map(() => limiterOn(store, { name: 'shared', policies, ...options }));
      return { one: one!, other: other! };
    };
    const used = async (limiter: ReturnType<typeof make>['one'], tier?: string) =>
      (await limiter.usage(key, { tier })).policies.map((each) => each.used);

    for (const tier of ['fewer', 'others'])
      it(`a repetition in the tier '${tier}' gets the first decision, and both ways`, async () => {
        const tiers = { fewer: 'p=5/1m by account', others: 'r=5/1m by org' };
        for (const [first, second] of [
          [undefined, tier],
          [tier, undefined],
        ]) {
          const { one, other } = make({ tiers });
          const keys = { ...key, org: 'o' };
          const { policies: verdicts, key: owner } = await one.consume(keys, { id: 'i', tier: first });
          for (const limiter of [one, other]) {
            const again = await limiter.consume(keys, { id: 'i', tier: second });
            expect(again.repeated).to.equal(true);
            expect(again.key).to.equal(owner);
            expect(again.policies).to.deep.equal(verdicts);
          }
        }
      });

    it('a repetition under an override that leaves a policy out charges nothing', async () => {
      const { one, other } = make({ overrides: true });
      await one.consume(key, { id: 'i' });
      await one.override({ key: 'k' }, { q: false });
      expect((await one.consume(key, { id: 'i' })).repeated).to.equal(true);
      expect((await other.consume(key, { id: 'i' })).repeated).to.equal(true);
      expect(await used(one)).to.deep.equal([1]);
    });

    it('a charge is returned once, by a decision or by its repetition in another tier', async () => {
      const { one, other } = make({ tiers: { fewer: 'p=5/1m by account' } });
      const first = await one.consume(key, { id: 'i' });
      const again = await other.consume(key, { id: 'i', tier: 'fewer' });
      await again.refund();
      await first.refund();
      expect(await used(one)).to.deep.equal([0, 0]);
      await one.consume(key);
      await first.refund();
      expect(await used(one)).to.deep.equal([1, 1]);
    });
  });
}
