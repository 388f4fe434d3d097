// headgate key while no limiter is published.
import { expect } from 'chai';
import { redisStore } from 'headgate/redis';
import { serverKinds, servers } from '../../../test/support/shared-servers.js';
import { clients, freshPrefix, limiterOn } from '../../../test/support/stores.js';
import { headgate } from './cli.js';

for (const kind of serverKinds)
  describe(`headgate key without published limiters on ${kind}`, () => {
    it('shows the limiters with state of the key, and exits with 5', async () => {
      const prefix = freshPrefix();
      const store = redisStore(clients[kind], { prefix, publish: false });
      const limiter = limiterOn(store, { name: 'api', policies: ['1/1h'] });
      for (const key of ['user:42', '2001:db8:1::/56']) await limiter.consume(key);
      const run = (key: string) => headgate(['key', key, '--redis', servers[kind].url, '--prefix', prefix]);
      for (const key of ['user:42', '2001:db8:1:2::5']) {
        const { code, stdout } = await run(key);
        expect(code, key).to.equal(5);
        expect(stdout)
          .to.match(/^api +\S+ +unknown limits /m)
          .and.contain('The answer is unknown');
      }
      const other = await run('user:43');
      expect(other.code).to.equal(5);
      expect(other.stdout).to.contain('no state of the key was found');
      await limiter.close();
      await store.close?.();
    });
  });
