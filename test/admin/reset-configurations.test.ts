// The reset of a tier while the processes of a limiter have different policies, such as during a deployment.
import { expect } from 'chai';
import { createAdmin } from 'headgate/admin';
import { redisStore } from 'headgate/redis';
import { clients, freshPrefix, limiterOn } from '../support/stores.js';
import { serverKinds } from '../support/shared-servers.js';
import { until } from './stores.js';

const messageOf = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => 'no error',
    (error: Error) => error.message,
  );

if (serverKinds.includes('redis'))
  describe('the reset of a tier while processes have different policies', () => {
    it('is made in each configuration, and keeps the other tiers', async () => {
      const prefix = freshPrefix();
      const stores = ['m=5/1m', 's=5/30s'].map((free) => {
        const store = redisStore(clients.redis, { prefix, publish: '10ms' });
        const tiers = { pro: ['hour=50/1h'], free: [free] };
        return { store, limiter: limiterOn(store, { name: 'api', timeout: '5s', tiers }) };
      });
      const admin = createAdmin(clients.redis, { prefix });
      await until(async () => (await admin.limiters()).instances.length === 2);
      for (const { limiter } of stores)
        for (const tier of ['free', 'pro']) await limiter.consume('ada', { tier });
      const left = async () => (await stores[0]!.limiter.peek('ada', { tier: 'pro' })).remaining;
      const reset = (options: object) => admin.reset('ada', { name: 'api', ...options });

      const { policies, warnings } = await reset({ tier: 'free' });
      expect(policies).to.have.members(['m', 's']);
      expect(warnings.map(({ code }) => code)).to.deep.equal(['DIFFERENT']);
      expect(warnings[0]!.message).to.contain('in all that have it');
      expect(await left()).to.equal(48);

      expect(await messageOf(reset({ tier: 'nope' }))).to.contain('no tier "nope"');
      expect(await messageOf(reset({ tier: 'pro', scan: true }))).to.contain('all tiers');
      expect(await messageOf(reset({ name: 'else', tier: 'pro' }))).to.contain('are not known');
      expect(await left()).to.equal(48);
      // Without a tier, all tiers of all configurations are reset.
      expect((await reset({})).policies).to.deep.equal(['hour']);
      for (const { limiter, store } of stores) {
        await limiter.close();
        await store.close!();
      }
      await admin.close();
    });
  });
