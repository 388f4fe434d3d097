// A plan without a limit on the command line.
import { expect } from 'chai';
import { redisStore } from 'headgate/redis';
import { servers } from '../../../test/support/shared-servers.js';
import { clients, freshPrefix, limiterOn } from '../../../test/support/stores.js';
import { headgate, TELLING, told } from './cli.js';

describe('a plan without a limit', () => {
  it('is shown, and set by an override', async () => {
    const prefix = freshPrefix();
    const where = ['--redis', servers.redis.url, '--prefix', prefix];
    const tiers = { free: 'fixed-window 1/1h', enterprise: 'unlimited' };
    const limiter = limiterOn(redisStore(clients.redis, { prefix, ...TELLING }), {
      ...{ name: 'api', tiers, overrides: true },
    });
    await told(where, 'api');
    await limiter.consume('k', { tier: 'free' });
    const named = [...where, '--name', 'api'];
    for (const [args, shown] of [
      [['limits', ...where], /unlimited/],
      [['peek', 'k', ...named, '--tier', 'enterprise'], /unlimited|no limit/],
      [['override', 'k', 'unlimited', ...named], /unlimited/],
      [['overrides', ...where], /unlimited/],
      [['peek', 'k', ...named, '--tier', 'free'], /unlimited/],
      [['key', 'k', ...where], /unlimited/],
      [['reset', 'k', ...named], /forgotten/],
    ] as const) {
      const { code, stdout, stderr } = await headgate(args);
      expect(code, stderr).to.equal(0);
      expect(stdout, args.join(' ')).to.match(shown);
    }
    expect(await limiter.consume('k', { tier: 'free' })).to.deep.include({ allowed: true, policies: [] });
    await limiter.close();
  });
});
