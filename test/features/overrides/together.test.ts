// Overrides of several keys, of all keys and of tiers that are in force at once.
import { expect } from 'chai';
import type { HeadgateError, OverrideChange, Policy } from 'headgate';
import { limiterOn, stores, TestClock } from '../../support/stores.js';

/** Policies whose units come back with time, by the names of their algorithms. */
const windows: Policy[] = [
  { algorithm: 'sliding-window', limit: 10, window: '1h' },
  { algorithm: 'fixed-window', limit: 10, window: '1h' },
  { algorithm: 'sliding-log', limit: 10, window: '1h' },
  { algorithm: 'calendar', limit: 10, period: 'day' },
];
const buckets: Policy[] = [
  { algorithm: 'token-bucket', limit: 100, window: '1m' },
  { algorithm: 'leaky-bucket', limit: 100, window: '1m' },
  { algorithm: 'gcra', limit: 100, window: '1m', burst: 100 },
];

for (const [name, createStore] of Object.entries(stores)) {
  describe(`overrides that meet, on ${name}`, () => {
    /** Makes limiters with the same name on a store, as in several processes. */
    const make = (options: object) => {
      const clock = new TestClock();
      const store = createStore(clock.read);
      const open = () => limiterOn(store, { name: 'meet', overrides: true, ...options } as never);
      return { clock, open };
    };

    const key = { key: '203.0.113.7', account: 'ada' };
    const changes: [string, OverrideChange, string][] = [
      ['left out', { account: false }, 'address 50'],
      ['another window', { account: '1/1d' }, 'account 1, address 50'],
      ['another algorithm', { account: 'token-bucket 3/1m' }, 'account 3, address 50'],
      ['another limit', { account: { limit: 4 } }, 'account 4, address 50'],
    ];
    for (const [what, change, expected] of changes) {
      for (const isReversed of [false, true]) {
        it(`a tier comes first, then the other key's own change of it: ${what}, ${isReversed ? 'address' : 'account'} first`, async () => {
          const ordered = (policies: string[]) => (isReversed ? policies.reverse() : policies);
          const { open } = make({
            policies: ordered(['account=10/1m by account', 'address=20/1m']),
            tiers: { pro: ordered(['account=40/1m by account', 'address=50/1m']) },
          });
          const said = async (limiter: ReturnType<typeof open>) => {
            const { policies } = await limiter.peek(key);
            const limits = policies.map(({ name: policy, limit }) => `${policy} ${limit}`);
            return limits.sort().join(', ');
          };
          const first = open();
          await first.override(key.key, { tier: 'pro' });
          expect(await said(first)).to.equal('account 40, address 50');
          await first.override({ account: key.account }, change);
          const second = open();
          expect([await said(first), await said(second)]).to.deep.equal([expected, expected]);
          await first.removeOverride(key.key);
          const without = expected.replace('address 50', 'address 20');
          expect([await said(open()), await said(second), await said(first)]).to.deep.equal(
            Array(3).fill(without),
          );
          await first.removeOverride({ account: key.account });
          await first.override({ account: key.account }, { tier: 'pro' });
          await second.override(key.key, { address: '7/1d' });
          expect([await said(open()), await said(second), await said(first)]).to.deep.equal(
            Array(3).fill('account 40, address 7'),
          );
        });
      }
    }

    it('of two tiers, that of the dimension that is named last is in force', async () => {
      const tier = (limit: number) => [`account=${limit}/1m by account`, `address=${limit}/1m`];
      const { open } = make({ policies: tier(1), tiers: { a: tier(10), b: tier(20) } });
      const first = open();
      await first.override(key.key, { tier: 'a' });
      await first.consume(key);
      await first.override({ account: key.account }, { tier: 'b' });
      for (const limiter of [first, open()])
        expect((await limiter.peek(key)).policies.map(({ limit }) => limit)).to.deep.equal([20, 20]);
    });

    it("a key's own tier is stronger than an override of all keys that leaves its policies out", async () => {
      const { open } = make({
        policies: ['account=10/1m by account', 'address=20/1m'],
        tiers: { pro: ['account=40/1m by account', 'address=50/1m'] },
      });
      const first = open();
      await first.overrideAll({ account: false });
      await first.override({ account: 'ada' }, { tier: 'pro' });
      const second = open();
      await second.overrideOf();
      await new Promise(setImmediate);
      for (const limiter of [first, second])
        expect((await limiter.peek(key)).policies.map(({ limit }) => limit)).to.deep.equal([40, 50]);
    });

    for (const [what, change] of [
      ['limit', { account: { limit: 3 }, address: { limit: 3 } }],
      ['window', { account: '3/2m', address: '3/2m' }],
    ] as const) {
      it(`another ${what} for all keys yields to a tier, and to nothing else of the other key`, async () => {
        const { open } = make({
          policies: ['account=10/1m by account', 'address=20/1m'],
          tiers: { pro: ['account=40/1m by account', 'address=50/1m'] },
        });
        const limiter = open();
        await limiter.overrideAll(change);
        await limiter.override(key.key, { tier: 'pro' });
        const limits = async () => (await limiter.peek(key)).policies.map(({ limit }) => limit);
        expect(await limits()).to.deep.equal([3, 50]);
        await limiter.override({ account: 'ada' }, { tier: 'pro' });
        expect(await limits()).to.deep.equal([40, 50]);
      });
    }

    it('another tier is refused for a key that the policies of some tier do not count by', async () => {
      const tiers = { free: ['address=2/1m'], pro: ['account=50/1m by account'] };
      const limiter = make({ tiers }).open();
      const refused = await limiter
        .override({ account: 'ada' }, { tier: 'pro' })
        .catch((error: HeadgateError) => error);
      expect(refused).to.include({ code: 'HEADGATE_INVALID_OPTION' });
      expect((refused as HeadgateError).message).to.match(/tier "free" have no policy by "account"/);
      await limiter.override({ account: 'ada' }, { account: { limit: 5 } });
      expect((await limiter.peek(key, { tier: 'pro' })).limit).to.equal(5);
      expect((await limiter.peek(key, { tier: 'free' })).limit).to.equal(2);
    });

    for (const policy of buckets) {
      for (const [lasts, all] of [
        ['', 50],
        [' that has an end', 50],
        ['', 1000],
      ] as const) {
        it(`${policy.algorithm}: a charge that grows after an override of all keys to ${all}${lasts}, about which nobody asked`, async () => {
          const { clock, open } = make(policy);
          const limiter = open();
          const charge = await limiter.consume('k', { cost: 10 });
          clock.now += 30_000;
          const note = lasts === '' ? {} : { for: '1h' };
          await limiter.overrideAll({ limit: all }, note);
          clock.now += 30_000;
          const cost = all === 50 ? 11 : 110;
          await charge.settle(cost);
          const { remaining } = await limiter.peek('k');
          expect(remaining).to.equal(all - (cost - 10));
          await limiter.refund('k', 1);
          expect((await limiter.peek('k')).remaining).to.equal(remaining + 1);
        });
      }
    }

    for (const policy of windows) {
      it(`${policy.algorithm}: a denial lasts no longer than an override of all keys`, async () => {
        const { clock, open } = make(policy);
        const [limiter, other] = [open(), open()];
        await limiter.consume('k', { cost: 2 });
        await limiter.overrideAll({ limit: 1 }, { for: 3000 });
        expect(await limiter.consume('k')).to.include({ allowed: false, limit: 1, retryAfterMs: 3000 });
        expect((await limiter.consume('k', { cost: 9 })).retryAfterMs).to.be.above(3000);
        await other.override('k', { limit: 2 }, { for: 1000 });
        // The key's own override ends first, then that of all keys is in force.
        expect(await limiter.consume('k')).to.include({ allowed: false, limit: 2, retryAfterMs: 3000 });
        clock.now += 2999;
        expect((await limiter.consume('k')).retryAfterMs).to.equal(1);
        clock.now += 1;
        expect(await limiter.consume('k')).to.include({ allowed: true, limit: 10, remaining: 7 });
      });

      it(`${policy.algorithm}: a request waits for the end of an override of all keys`, async () => {
        const limiter = limiterOn(createStore(), { ...policy, overrides: true });
        await limiter.consume('k', { cost: 2 });
        await limiter.overrideAll({ limit: 1 }, { for: 300 });
        expect(await limiter.wait('k', { timeout: '8s' })).to.include({ allowed: true, limit: 10 });
        await limiter.close();
      });
    }

    for (const policy of [...windows, ...buckets]) {
      it(`${policy.algorithm}: a key's own window of another policy leaves this one to the override of all keys`, async () => {
        const { open } = make({ policies: [{ ...policy, name: 'a' }, 'b=20/1h'] });
        const limiter = open();
        await limiter.overrideAll({ a: { limit: 2 } });
        await limiter.override('k', { b: '7/2h' });
        const limits = async () => (await limiter.peek('k')).policies.map(({ limit }) => limit);
        expect(await limits()).to.deep.equal([2, 7]);
        await limiter.override('k', { a: { limit: 4 }, b: '7/2h' });
        expect(await limits()).to.deep.equal([4, 7]);
      });

      it(`${policy.algorithm}: a denial that would end in the millisecond in which a raise ends`, async () => {
        const { clock, open } = make({ ...policy, limit: 10, ...('window' in policy && { window: '1h' }) });
        const limiter = open();
        await limiter.override('k', { limit: 20 });
        await limiter.consume('k', { cost: 10 });
        clock.now += 600_000;
        while ((await limiter.consume('k')).allowed);
        const { retryAfterMs: until } = await limiter.peek('k');
        await limiter.override('k', { limit: 20 }, { for: until! });
        const { retryAfterMs } = await limiter.peek('k');
        clock.now += retryAfterMs! - 1;
        expect((await limiter.consume('k')).allowed).to.be.false;
        clock.now += 1;
        expect((await limiter.consume('k')).allowed).to.be.true;
      });
    }
  });
}
