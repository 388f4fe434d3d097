// Law 6. Only the store's clock counts, and one that jumps back or forth never locks a key out for more than one window.
import { expect } from 'chai';
import { redisStore } from 'headgate/redis';
import { describeLaw } from '../support/kit.js';
import { windowed } from '../support/policies.js';
import { serverKinds } from '../support/shared-servers.js';
import { clients, freshPrefix, limiterOn } from '../support/stores.js';

describeLaw('law 6, clock');

for (const name of serverKinds) {
  describe(`law 6, clock, on ${name}`, () => {
    it("a client's own clock does not matter", async () => {
      const prefix = freshPrefix();
      const policies = windowed.map((algorithm) =>
        algorithm === 'concurrency'
          ? { name: algorithm, algorithm, limit: 3, lease: '1h' }
          : { name: algorithm, algorithm, limit: 3, window: '1h' },
      );
      const { now } = Date;
      const decide = async (skew: number) => {
        const limiter = limiterOn(redisStore(clients[name], { prefix }), {
          name: 'shared',
          policies: policies,
        });
        Date.now = () => now() + skew;
        try {
          return await limiter.consume('key');
        } finally {
          Date.now = now;
        }
      };
      const decisions = [];
      for (const skew of [0, 2 * 3_600_000, -2 * 3_600_000, 2 * 3_600_000])
        decisions.push(await decide(skew));
      expect(decisions.map(({ allowed }) => allowed)).to.deep.equal([true, true, true, false]);
      for (const { policies: verdicts } of decisions) {
        for (const { resetAfterMs } of verdicts) expect(resetAfterMs).to.be.within(0, 1.1 * 3_600_000);
      }
    });
  });
}
