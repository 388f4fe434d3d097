// Rates that no store counts are not zero.
import { expect } from 'chai';
import { createLimiter, type Limiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import { servers } from '../../../test/support/shared-servers.js';
import { clients, freshPrefix } from '../../../test/support/stores.js';
import { headgate, json, TELLING, told } from './cli.js';

describe('a database without anything of Headgate', () => {
  for (const command of [['list'], ['bans', 'export'], ['log'], ['bans', 'log']])
    it(`${command.join(' ')}: warns`, async () => {
      const prefix = freshPrefix();
      const where = ['--redis', servers.redis.url, '--prefix', prefix];
      const empty = await headgate([...command, ...where]);
      expect(empty.code).to.equal(0);
      expect(empty.stderr).to.match(/^headgate: warning: Nothing of Headgate is there.*--prefix/);
      // A limiter that does not publish itself has keys.
      const store = redisStore(clients.redis, { prefix, publish: false });
      const limiter = createLimiter({ store, name: 'api', limit: 5, window: '1h' });
      await limiter.consume('ada');
      expect((await headgate([...command, ...where])).stderr).not.to.contain('Nothing of Headgate');
      await limiter.close();
    });
});

describe('a store with counts: false', () => {
  let llm: Limiter;
  let where: string[];
  beforeEach(async () => {
    const prefix = freshPrefix();
    where = ['--redis', servers.redis.url, '--prefix', prefix];
    const store = redisStore(clients.redis, { prefix, counts: false, ...TELLING });
    llm = createLimiter({ store, name: 'llm', policies: ['p=10/1h by provider share tenant'] });
    await llm.consume({ provider: 'openai', tenant: 'acme' });
    await told(where, 'llm');
  });
  afterEach(() => llm.close());

  it('tenants: has no rates', async () => {
    const [acme] = (await json('tenants', ...where)) as Record<string, unknown>[];
    expect(acme).to.include({ key: 'acme', used: 1, admitted: null, denied: null });
    const { stdout } = await headgate(['tenants', ...where]);
    expect(stdout.split('\n')[1]).to.match(/ - +- +allowed/);
  });

  it('top --once: names each cause', async () => {
    const { stdout } = await headgate(['top', '--once', ...where]);
    expect(stdout)
      .to.contain('counts: false')
      .and.contain('clock of their own')
      .and.contain('another database, or with another --prefix');
  });
});
